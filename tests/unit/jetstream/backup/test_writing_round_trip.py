"""A backup restores every message of the log, however its bytes are cut."""

from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.backup.archive import (
    END,
    MAGIC,
    STATE_NAME,
    ArchiveReader,
    Entry,
    encode_entries,
)
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.backup.s2 import BEGINNING, plain_frame
from headwater.jetstream.backup.writing import BackupWriter
from headwater.store.disk.filesystem import read_file
from headwater.store.disk.segment import segment_name
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog, StoreError
from headwater.store.recovery.opening import create_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.unit.jetstream.backup.taking_in import NOW_NS, contents, pieces, taken_in

STATE: Final = b'{"first_seq": %d, "last_seq": %d}'

entries = st.builds(
    Entry,
    name=st.binary(max_size=20),
    timestamp_ns=st.integers(-(1 << 63), (1 << 63) - 1),
    sequence=st.integers(0, (1 << 64) - 1),
    header=st.binary(max_size=300),
    payload=st.binary(max_size=300),
)
payloads = st.lists(st.binary(max_size=200), max_size=40)


def filled(first_sequence: int, messages: list[bytes], gone: set[int]) -> MessageLog:
    """A log of messages, some of which are deleted again."""
    log = MemoryLog(first_sequence)
    for number, payload in enumerate(messages):
        header = b"NATS/1.0\r\nH: %d\r\n\r\n" % number if number % 3 == 0 else b""
        log.append(Batch([b"s.%d" % (number % 4)], [header], [payload], [NOW_NS + number]))
    log.delete([first_sequence + number for number in gone])
    return log


def written(log: MessageLog, last_sequence: int | None = None) -> bytes:
    """The backup of a log."""
    last = log.last_sequence if last_sequence is None else last_sequence
    writer = BackupWriter(log, STATE % (log.first_sequence, last), last, NOW_NS)
    data = b""
    while piece := writer.read():
        data += piece
    assert writer.read() == b""
    return data


def archive(*rows: Entry, state: bytes = b"{}") -> bytes:
    """A backup with these entries."""
    begin = Entry(STATE_NAME, payload=state)
    return BEGINNING + plain_frame(MAGIC + encode_entries([begin, *rows]))


@given(st.lists(entries, max_size=8), st.integers(1, 500))
def test_entries_come_back(rows: list[Entry], size: int) -> None:
    reader = ArchiveReader(1000, 1000)
    found = []
    for piece in pieces(encode_entries(rows), size):
        reader.feed(piece)
        while (entry := reader.read()) is not None:
            found.append(entry)
    assert found == rows


@given(st.integers(1, 1 << 40), payloads, st.sets(st.integers(0, 39)), st.integers(1, 9000))
def test_a_log_comes_back(first: int, messages: list[bytes], gone: set[int], size: int) -> None:
    log = filled(first, messages, gone)

    _, back = taken_in(pieces(written(log), size))

    assert contents(back) == contents(log)
    assert (back.first_sequence, back.last_sequence) == (log.first_sequence, log.last_sequence)


def test_what_is_not_visible_is_not_in_a_backup() -> None:
    log = filled(1, [b"a", b"b", b"c"], set())

    _, back = taken_in([written(log, last_sequence=2)])

    assert [message.payload for message in contents(back)] == [b"a", b"b"]
    assert back.last_sequence == 2


def test_what_goes_while_a_backup_is_made_is_missing_and_what_comes_is_not_in_it() -> None:
    log = filled(1, [bytes(40_000)] * 6, set())
    writer = BackupWriter(log, STATE % (1, 6), 6, NOW_NS)
    data = writer.read() + writer.read()
    log.delete([5])
    log.append(Batch([b"s"], [b""], [b"later"], [NOW_NS]))
    while piece := writer.read():
        data += piece

    _, back = taken_in([data])

    assert [message.sequence for message in contents(back)] == [1, 2, 3, 4, 6]
    assert back.last_sequence == 6


def test_a_message_larger_than_a_frame_comes_back() -> None:
    log = filled(1, [bytes(range(256)) * 20_000], set())
    rules = Rules(stream_name="S", max_payload=8 * 1024 * 1024)

    _, back = taken_in(pieces(written(log), 100_000), rules)

    assert contents(back) == contents(log)


def test_a_message_that_can_not_be_read_ends_a_backup_once() -> None:
    """From then on it is known to be lost, and a backup of the rest can be made."""
    disk = SimDisk()
    log = create_log(disk, "/s", SeededEntropy(Random(1)))
    log.append(Batch([b"s"] * 2, [b""] * 2, [b"whole", b"wrong"], [NOW_NS] * 2))
    path = f"/s/{segment_name(1)}"
    file = disk.open(path)
    file.overwrite(read_file(disk, path).index(b"wrong"), b"W")

    with pytest.raises(StoreError, match="cannot be read"):
        written(log)

    _, back = taken_in([written(log)])
    assert [found.payload for found in contents(back)] == [b"whole"]
    assert back.last_sequence == 2


# --- refusals ----------------------------------------------------------------------------------


def message(sequence: int, subject: bytes = b"s", header: bytes = b"", body: bytes = b"") -> Entry:
    return Entry(subject, NOW_NS, sequence, header, body)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (archive(message(2), message(1), END), "sequence 1 out of order"),
        (archive(message(2), message(2), END), "sequence 2 out of order"),
        (archive(message(1)), "truncated"),
        (archive(message(1), Entry(b"consumers/C", 1)), "expected message sequence"),
        (archive(message(1), Entry(b"x", 1)), "expected message sequence"),
        (archive(message(1, b""), END), "no valid subject"),
        (archive(message(1, b"a b"), END), "no valid subject"),
        (archive(message(1, b"a\r\nPING"), END), "no valid subject"),
        (archive(message(1 << 63), END), "no possible sequence"),
        (archive(Entry(b"s", -1, 1), END), "no possible sequence"),
        (archive(message(1, body=bytes(1 << 20)), END), None),
        (archive(message(1, b"s", b"h", bytes(1 << 20)), END), "exceeds maximum payload"),
        (archive(END, state=b"[]"), "error in state.json"),
        (archive(END, state=b"{"), "error in state.json"),
        (archive(END, state=b'{"last_seq": -1}'), "negative"),
        (archive(END, state=b'{"last_seq": 9223372036854775808}'), "not possible"),
        (archive(END, state=b"[" * 100_000), "error in state.json"),
        (archive(END, state=b'{"consumer_count": 1}'), 'expected consumer, found ""'),
        (archive(message(1), END, state=b'{"consumer_count": 1}'), 'expected consumer, found "s"'),
        (BEGINNING + plain_frame(MAGIC + encode_entries([message(1)])), "state.json first"),
        (BEGINNING + plain_frame(b"x" * 600), "not the backup of a stream"),
        (BEGINNING + plain_frame(b"NATSARC"), "not the backup of a stream"),
        (BEGINNING, "not the backup of a stream"),
        (b"", "not the backup of a stream"),
    ],
)
def test_archives_that_are_refused(data: bytes, text: str | None) -> None:
    if text is None:
        taken_in([data])
        return
    with pytest.raises(BackupError, match=text):
        taken_in([data])


def test_a_stream_with_a_smaller_limit_refuses_larger_messages() -> None:
    rules = Rules(stream_name="S", max_payload=1000, max_msg_size=5)

    taken_in([archive(message(1, body=b"12345"), END)], rules)
    with pytest.raises(BackupError, match="exceeds maximum message size"):
        taken_in([archive(message(1, header=b"6", body=b"12345"), END)], rules)


def test_messages_whose_time_has_come_are_left_out() -> None:
    rules = Rules(stream_name="S", max_payload=1000, allow_msg_ttl=True)
    short = b"NATS/1.0\r\nNats-TTL: 10s\r\n\r\n"
    long = b"NATS/1.0\r\nNats-TTL: 1h\r\n\r\n"
    never = b"NATS/1.0\r\nNats-TTL: never\r\n\r\n"
    rows = [message(1, header=short), message(2, header=long), message(3, header=never)]

    _, log = taken_in([archive(*rows, message(5, header=short), END)], rules, NOW_NS + 10**11)

    assert [found.sequence for found in contents(log)] == [2, 3]
    assert log.expiries.pending() == [(2, NOW_NS + 3600 * 10**9)]


def test_a_time_to_live_that_is_none_is_refused() -> None:
    rules = Rules(stream_name="S", max_payload=1000, allow_msg_ttl=True)
    wrong = b"NATS/1.0\r\nNats-TTL: soon\r\n\r\n"

    with pytest.raises(BackupError, match="message TTL of sequence 1"):
        taken_in([archive(message(1, header=wrong), END)], rules)


def test_gaps_may_not_take_more_memory_than_there_is() -> None:
    rules = Rules(stream_name="S", max_payload=1000, gap_bytes_max=24 * 100)

    taken_in([archive(message(101), END)], rules)
    with pytest.raises(BackupError, match="more than 100 of its sequences"):
        taken_in([archive(message(102), END)], rules)
    with pytest.raises(BackupError, match="more than 100 of its sequences"):
        taken_in([archive(END, state=b'{"last_seq": 9223372036854775807}')], rules)


@given(st.binary(max_size=300), st.integers(1, 300))
def test_garbage_in_an_archive_is_refused_or_harmless(garbage: bytes, size: int) -> None:
    rules = Rules(stream_name="S", max_payload=1000, gap_bytes_max=10_000)
    for opening in (MAGIC, MAGIC + encode_entries([Entry(STATE_NAME, payload=b"{}")]), b""):
        try:
            taken_in(pieces(BEGINNING + plain_frame(opening + garbage), size), rules)
        except BackupError:
            continue


@given(st.lists(st.one_of(entries, st.builds(message, st.integers(0, 50))), max_size=6))
def test_any_row_of_entries_is_refused_or_harmless(rows: list[Entry]) -> None:
    rules = Rules(stream_name="S", max_payload=1000, gap_bytes_max=10_000)
    try:
        taken_in([archive(*rows, END)], rules)
    except BackupError:
        pass
