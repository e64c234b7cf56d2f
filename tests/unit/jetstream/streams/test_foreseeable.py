"""Which records publishes need not wait for, and which take too long to be foreseen."""

import msgspec
import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.stream_config import Retention, Storage, StreamConfig
from headwater.jetstream.records import Configured, Purged, Removed
from headwater.jetstream.streams.foreseeable import FORESEEN_SINGLY_MAX, is_foreseeable
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

CONFIG = StreamConfig(name="S", storage=Storage.MEMORY, max_msgs_per_subject=5)
MANY = FORESEEN_SINGLY_MAX + 1


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
    assert is_foreseeable(purge, True, log_of(FORESEEN_SINGLY_MAX), CONFIG)


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
    assert is_foreseeable(purge, True, log_of(2 * MANY), CONFIG) is expected


@pytest.mark.parametrize("record", [*PURGES[2:], Configured(CONFIG, 1)])
def test_a_request_behind_other_records_is_not_foreseen(record: Purged | Configured) -> None:
    assert not is_foreseeable(record, False, log_of(2), CONFIG)


def test_messages_and_their_removal_are_foreseen() -> None:
    assert is_foreseeable(Removed([1]), False, log_of(2 * MANY), CONFIG)


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
    assert is_foreseeable(record, True, log_of(2), CONFIG) is few
    assert is_foreseeable(record, True, log_of(2 * MANY), CONFIG) is many
