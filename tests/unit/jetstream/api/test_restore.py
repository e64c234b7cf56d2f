"""A restore on its way in: every chunk is answered, and it ends in a filled log or in an error."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.api.restore import (
    AHEAD_BYTES_MAX,
    STALL_NS,
    Need,
    RestoreReceiver,
    apply_limits,
    refused,
)
from headwater.jetstream.backup.archive import END, MAGIC, STATE_NAME, Entry, encode_entries
from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.backup.s2 import BEGINNING, plain_frame
from headwater.jetstream.config.stream_config import Discard, StreamConfig
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog
from tests.unit.jetstream.backup.taking_in import NOW_NS, contents, pieces

RULES: Final = Rules(stream_name="S", max_payload=64 * 1024)
STATE: Final = Entry(STATE_NAME, payload=b'{"first_seq": 3, "last_seq": 9}')
MESSAGES: Final = [Entry(b"s.%d" % number, NOW_NS, number, b"", b"m") for number in (3, 4, 7)]
BACKUP: Final = BEGINNING + b"".join(
    plain_frame(part) for part in (MAGIC, encode_entries([STATE, *MESSAGES]), encode_entries([END]))
)


class Receiving:
    """A receiver with somebody who looks after it."""

    def __init__(self) -> None:
        self.receiver = RestoreReceiver(RULES, "stream 'A > S'", 0)
        self.log: MessageLog | None = None
        self.sent = 0
        self.now_ns = 0

    def send(self, data: bytes) -> None:
        """A chunk whose answer goes to its number."""
        self.sent += 1
        self.receiver.chunk(b"%d" % self.sent, data, self.now_ns)

    def work(self) -> Need:
        """Step until the receiver waits for something other than its turn or a log."""
        while True:
            need = self.receiver.step(self.now_ns, NOW_NS)
            if need is Need.LOG:
                self.log = MemoryLog(self.receiver.beginning.first_sequence)
                self.receiver.give_log(self.log)
            elif need is not Need.TURN:
                return need

    def reason(self) -> str:
        """The description of the error that ended the restore."""
        assert self.receiver.error is not None
        return self.receiver.error.description


@given(st.integers(1, 200), st.lists(st.booleans(), max_size=50))
def test_chunks_of_any_size_with_work_at_any_time(size: int, works: list[bool]) -> None:
    one = Receiving()
    moments = iter(works)
    for chunk in pieces(BACKUP, size):
        one.send(chunk)
        if next(moments, False):
            assert one.work() is Need.CHUNKS
    one.send(b"")

    assert one.work() is Need.NOTHING

    assert one.receiver.answered == [b"%d" % number for number in range(1, one.sent)]
    assert one.receiver.end_reply == b"%d" % one.sent
    assert one.receiver.error is None
    assert one.receiver.received_bytes == len(BACKUP)
    assert one.log is not None
    assert [message.sequence for message in contents(one.log)] == [3, 4, 7]
    assert one.log.last_sequence == 9


@given(st.integers(0, len(BACKUP) - 1), st.integers(1, 100))
def test_an_end_that_comes_too_early_is_an_error(length: int, size: int) -> None:
    one = Receiving()
    for chunk in pieces(BACKUP[:length], size):
        one.send(chunk)
    one.send(b"")
    assert one.work() is Need.NOTHING
    assert one.reason().startswith("restore failed: ")


def test_after_an_error_chunks_are_still_answered_and_the_end_tells_it() -> None:
    one = Receiving()
    one.send(b"this is no backup at all")
    assert one.work() is Need.CHUNKS
    for _ in range(3):
        one.send(bytes(1000))
    assert one.work() is Need.CHUNKS
    one.send(b"")
    assert one.work() is Need.NOTHING
    assert one.receiver.answered == [b"1", b"2", b"3", b"4"]
    assert one.receiver.end_reply == b"5"
    assert one.reason() == "restore failed: it does not begin as one"


def test_the_first_of_several_errors_is_told() -> None:
    one = Receiving()
    one.receiver.fail(refused("first"))
    one.receiver.fail(refused("second"))
    assert one.reason() == "restore failed: first"


def test_a_chunk_without_reply_subject_ends_it() -> None:
    one = Receiving()
    one.send(BACKUP[:20])
    one.receiver.chunk(None, BACKUP[20:], 0)
    assert one.work() is Need.NOTHING
    assert one.receiver.end_reply is None
    assert "requires reply subject for each chunk" in one.reason()
    assert "'A > S'" in one.reason()


def test_chunks_after_the_end_are_nobodys() -> None:
    one = Receiving()
    one.send(b"")
    assert one.work() is Need.NOTHING
    one.send(BACKUP)
    assert one.work() is Need.NOTHING
    assert one.receiver.answered == []


def test_whoever_does_not_wait_for_answers_is_refused() -> None:
    one = Receiving()
    one.send(BEGINNING)
    skipped = b"\xfe\x00\x00\x10" + bytes(1024 * 1024)
    while one.receiver.error is None:
        one.send(skipped)
    assert AHEAD_BYTES_MAX < one.receiver.received_bytes <= AHEAD_BYTES_MAX + 3 * len(skipped)
    assert "too far ahead" in one.reason()
    one.send(b"")
    assert one.work() is Need.NOTHING
    assert len(one.receiver.answered) == one.sent - 1


def test_at_the_limit_nobody_is_refused() -> None:
    one = Receiving()
    for chunk in pieces(bytes(AHEAD_BYTES_MAX), 1024 * 1024):
        one.send(chunk)
    one.send(b"x")
    assert one.receiver.error is None
    one.send(b"x")
    assert "too far ahead" in one.reason()


def test_it_stalls_without_chunks_and_not_while_there_is_work() -> None:
    one = Receiving()
    assert one.receiver.stalls_ns() == STALL_NS
    one.now_ns = 1000
    one.send(BACKUP[:100])
    assert one.receiver.stalls_ns() == 0
    one.now_ns = 2000
    one.work()
    assert one.receiver.stalls_ns() == 2000 + STALL_NS
    one.send(b"")
    one.work()
    assert one.receiver.stalls_ns() == 0


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_chunks_of_anything_are_all_answered(chunks: list[bytes]) -> None:
    one = Receiving()
    for chunk in [BEGINNING, *chunks]:
        if chunk:
            one.send(chunk)
            one.work()
    one.send(b"")
    assert one.work() is Need.NOTHING
    assert len(one.receiver.answered) == one.sent - 1
    assert one.receiver.error is not None


# --- limits ------------------------------------------------------------------------------------


def filled() -> MessageLog:
    log = MemoryLog(1)
    subjects = [b"a", b"b", b"a", b"a"]
    log.append(Batch(subjects, [b""] * 4, [b"12345678"] * 4, [NOW_NS] * 4))
    return log


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (StreamConfig(name="S"), [1, 2, 3, 4]),
        (StreamConfig(name="S", max_msgs=2), [3, 4]),
        (StreamConfig(name="S", max_bytes=60), [3, 4]),
        (StreamConfig(name="S", max_msgs_per_subject=1), [2, 4]),
        (StreamConfig(name="S", max_msgs=2, discard=Discard.NEW), [1, 2, 3, 4]),
    ],
)
def test_a_restored_stream_has_what_its_limits_allow(config: StreamConfig, kept: list[int]) -> None:
    log = filled()
    apply_limits(log, config)
    assert [message.sequence for message in contents(log)] == kept
