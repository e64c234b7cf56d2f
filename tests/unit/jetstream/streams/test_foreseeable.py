"""Which records publishes need not wait for, and which take too long to be foreseen."""

import msgspec
import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.stream_config import Discard, Retention, Storage, StreamConfig
from headwater.jetstream.records import Configured, Purged, Removed
from headwater.jetstream.streams.foreseeable import FORESEEN_SINGLY_MAX, InFlight, is_foreseeable
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

CONFIG = StreamConfig(name="S", storage=Storage.MEMORY, max_msgs_per_subject=5)
MANY = FORESEEN_SINGLY_MAX + 1


def nothing(log: MemoryLog) -> InFlight:
    return InFlight(0, 0, log.last_sequence)


def log_of(count: int, subjects: int = 2) -> MemoryLog:
    """A log with many messages of `a.0`, and one of each other subject behind them."""
    names = [b"a.0"] * (count - subjects + 1) + [b"a.%d" % each for each in range(1, subjects)]
    log = MemoryLog()
    log.append(Batch(names, [b""] * count, [b"x"] * count, [1] * count))
    return log


PURGES = [
    Purged(b">"),
    Purged(b"a.0"),
    Purged(b"a.*"),
    Purged(b">", keep=1),
    Purged(b">", before=2),
    Purged(b"a.0", keep=2, before=3),
]


@pytest.mark.parametrize("purge", PURGES)
def test_every_purge_of_few_messages_is_foreseen(purge: Purged) -> None:
    log = log_of(FORESEEN_SINGLY_MAX)
    assert is_foreseeable(purge, nothing(log), log, CONFIG)


@pytest.mark.parametrize(
    ("purge", "expected"),
    [
        (Purged(b">"), True),
        (Purged(b"a.0"), True),
        (Purged(b">", before=FORESEEN_SINGLY_MAX), True),
        (Purged(b">", before=MANY * 3), True),
        (Purged(b"a.1", keep=1), True),
        (Purged(b">", before=2 * MANY), False),
        (Purged(b">", keep=1), False),
        (Purged(b"a.*"), False),
        (Purged(b"*.1"), True),
        (Purged(b"a.0", keep=1), False),
    ],
)
def test_a_purge_of_many_messages_is_not_foreseen_unless_none_is_left(
    purge: Purged, expected: bool
) -> None:
    log = log_of(2 * MANY)
    assert is_foreseeable(purge, nothing(log), log, CONFIG) is expected


@pytest.mark.parametrize("purge", PURGES[2:])
def test_messages_in_flight_count_as_messages_that_a_purge_may_remove(purge: Purged) -> None:
    log = log_of(FORESEEN_SINGLY_MAX - 5)
    assert is_foreseeable(purge, InFlight(1, 5, log.last_sequence + 5), log, CONFIG)
    more = InFlight(1, FORESEEN_SINGLY_MAX, log.last_sequence + FORESEEN_SINGLY_MAX)
    is_of_few_sequences = purge.pattern == b">" and purge.before > 0
    assert is_foreseeable(purge, more, log, CONFIG) is is_of_few_sequences


def test_a_purge_of_all_messages_in_flight_is_foreseen() -> None:
    log = log_of(2 * MANY)
    last = log.last_sequence + MANY
    for before, expected in ((0, True), (last + 1, True), (last, False)):
        purge = Purged(b">", before=before)
        assert is_foreseeable(purge, InFlight(1, MANY, last), log, CONFIG) is expected


@pytest.mark.parametrize(
    ("changes", "few", "many"),
    [
        ({"description": "other"}, True, True),
        ({"max_age": 1}, True, True),
        ({"max_msgs_per_subject": 6}, True, False),
        ({"max_msgs": 2 * MANY}, True, False),
        ({"discard": Discard.NEW}, True, False),
        ({"max_bytes": 10}, False, False),
        ({"retention": Retention.INTEREST}, False, False),
    ],
)
def test_an_update_behind_other_records_is_foreseen_if_few_messages_may_go(
    changes: dict[str, object], few: bool, many: bool
) -> None:
    record = Configured(msgspec.structs.replace(CONFIG, **changes), 1)
    log = log_of(2)
    in_flight = InFlight(1, FORESEEN_SINGLY_MAX - 2, FORESEEN_SINGLY_MAX)
    assert is_foreseeable(record, in_flight, log, CONFIG) is few
    in_flight = InFlight(1, FORESEEN_SINGLY_MAX - 1, FORESEEN_SINGLY_MAX)
    assert is_foreseeable(record, in_flight, log, CONFIG) is many


def test_messages_and_their_removal_are_foreseen() -> None:
    log = log_of(2 * MANY)
    assert is_foreseeable(Removed([1]), InFlight(1, 1, 1), log, CONFIG)


@pytest.mark.parametrize(
    ("changes", "few", "many"),
    [
        ({"description": "other"}, True, True),
        ({"max_msgs_per_subject": 6}, True, True),
        ({"max_msgs_per_subject": 4}, True, False),
        ({"max_msgs": 2 * MANY}, True, True),
        ({"max_msgs": 2 * MANY - 1}, True, False),
        ({"max_bytes": 10}, True, False),
        ({"retention": Retention.INTEREST}, False, False),
        ({"duplicate_window": NS_PER_S}, True, True),
    ],
)
def test_an_update_is_foreseen_unless_it_removes_of_many_messages_or_counts_interest(
    changes: dict[str, object], few: bool, many: bool
) -> None:
    record = Configured(msgspec.structs.replace(CONFIG, **changes), 1)
    for log, expected in ((log_of(2), few), (log_of(2 * MANY), many)):
        assert is_foreseeable(record, nothing(log), log, CONFIG) is expected
