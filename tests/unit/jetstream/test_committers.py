"""When an entry is committed, by class of committer, and what a failed write leaves."""

from typing import Any, cast

import pytest

from headwater.jetstream.committers import Committer, Deferred, Synced, Written
from headwater.jetstream.proposal import Confirmed, Proposal
from headwater.jetstream.records import Published, Record, Removed
from headwater.store.errors import DiskFullError, StoreError
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch


class Stream:
    """A log that may fail, and the records that were written to it."""

    def __init__(self) -> None:
        self.log: Any = MemoryLog(1)
        self.written: list[Record] = []
        self.errors: list[StoreError] = []

    def append(self, record: Record) -> None:
        if self.errors:
            raise self.errors.pop()
        self.written.append(record)
        if isinstance(record, Published):
            self.log.append(record.batch)


class Unsynced:
    """A log whose last writes are not on the disk."""

    is_synced = False
    offline = ""


class Fixture:
    def __init__(self) -> None:
        self.stream = Stream()
        self.failures: list[StoreError] = []
        self.next_sync = 1
        self.syncs = 0
        self.flushes = 0
        self._index = 0

    def failed(self, error: StoreError) -> bytes:
        self.failures.append(error)
        return b"refused"

    def sync_wanted(self) -> None:
        self.syncs += 1

    def flush_wanted(self) -> None:
        self.flushes += 1

    def synced(self) -> Synced:
        return Synced(self.stream, self.failed, lambda: self.next_sync, self.sync_wanted)

    def written(self) -> Written:
        return Written(self.stream, self.failed)

    def entry(self, *records: Record) -> Proposal:
        self._index += 1
        entry = Proposal([*records])
        entry.index = self._index
        return entry

    def message(self, first: int) -> Published:
        return Published(first, Batch([b"s"], [b""], [b"x"], [1]))


@pytest.fixture
def at() -> Fixture:
    return Fixture()


def test_an_entry_of_an_ordinary_stream_is_committed_when_it_is_written(at: Fixture) -> None:
    entry = at.entry(at.message(1))
    assert at.written().commit([entry]) == entry.index
    assert at.stream.written == entry.records


def test_an_entry_that_is_deferred_is_committed_at_once_and_flushed_soon(at: Fixture) -> None:
    entry = at.entry(at.message(1))
    assert Deferred(at.stream, at.failed, at.flush_wanted).commit([entry]) == entry.index
    assert at.flushes == 1


@pytest.mark.parametrize("name", ["written", "synced"])
def test_of_an_entry_without_room_the_records_before_it_count(at: Fixture, name: str) -> None:
    committer: Committer = getattr(at, name)()
    at.written().commit([at.entry(at.message(1))])
    entry = at.entry(at.message(2), at.message(3))
    entry.reply(b"first", b"ok", rests_on=2)
    entry.reply(b"second", b"ok", rests_on=3)
    append = at.stream.append

    def second_fails(record: Record) -> None:
        if record is entry.records[1]:
            raise DiskFullError("no room")
        append(record)

    at.stream.append = second_fails  # type: ignore[method-assign]
    committer.commit([entry])
    assert len(entry.records) == 1
    assert entry.replies == [b"ok", b"refused"]


def test_an_entry_that_must_be_synced_is_committed_by_the_sync_that_covers_it(at: Fixture) -> None:
    committer = at.synced()
    first, second, third = (at.entry(at.message(number)) for number in (1, 2, 3))
    assert committer.commit([first, second]) == 0
    at.next_sync = 2
    assert committer.commit([third]) == 0
    assert at.syncs == 2
    assert committer.committed_by(0) == 0
    assert committer.committed_by(1) == second.index
    assert committer.committed_by(2) == third.index
    assert committer.committed_by(2) == 0, "nothing waits any more"


def test_an_entry_without_messages_waits_for_those_before_it(at: Fixture) -> None:
    committer = at.synced()
    committer.commit([at.entry(at.message(1))])
    removal = at.entry(Removed([1]))
    assert committer.commit([removal]) == 0
    assert committer.committed_by(1) == removal.index


def test_an_entry_without_messages_is_applied_at_once_if_nothing_is_before_it(at: Fixture) -> None:
    removal = at.entry(Removed([1]))
    assert at.synced().commit([removal]) == removal.index


def test_a_stream_whose_write_fails_confirms_nothing_of_the_entry(at: Fixture) -> None:
    committer = at.synced()
    at.stream.errors = [StoreError("broken")]
    with pytest.raises(StoreError):
        committer.commit([at.entry(at.message(1))])
    committer.retreat()
    assert committer.committed_by(9) == 0


def test_what_is_written_when_it_is_applied_is_answered_when_it_is_synced(at: Fixture) -> None:
    committer = at.synced()
    removal, answer = at.entry(Removed([1])), Proposal()
    confirmation = Proposal(effects=(Confirmed([b"reply"]),))
    assert committer.is_durable(removal), "everything is synced"
    at.stream.log = cast(Any, Unsynced())
    assert not committer.is_durable(removal)
    assert not committer.is_durable(confirmation)
    assert committer.is_durable(answer), "it rests on nothing that was written"
    assert committer.is_durable(at.entry(at.message(1))), "its messages were synced before"
