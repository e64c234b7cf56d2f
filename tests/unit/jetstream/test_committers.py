"""When an entry is committed, by class of committer, and what of it is written."""

from typing import Any, cast

import pytest

from headwater.jetstream.codec.log_entries import decode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.committers import (
    Deferred,
    Quorum,
    ReplicatedLog,
    StreamEntries,
    Synced,
    Written,
)
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Published, Record, Removed
from headwater.store.errors import StoreError
from headwater.store.log.message_log import Batch

SEED = 5


class Log:
    """The entries of a log, and the facts that the disk tells of it."""

    record_seed = SEED

    def __init__(self) -> None:
        self.offline = ""
        self.entries: list[tuple[int, int, bytes]] = []
        self.synced_entry = 0
        self.applied_entry = 0

    def add_entry(self, index: int, follows: int, data: bytes) -> None:
        self.entries.append((index, follows, data))

    def withdraw_entries(self, index: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] <= index]


class LookAhead:
    """The records of an entry have made 9 the next sequence; without them it is 7."""

    def next_sequence_without(self, count: int) -> int:
        return 7 if count else 9


class Stream:
    def __init__(self) -> None:
        self.look_ahead = LookAhead()


class Fixture:
    def __init__(self) -> None:
        self.log, self.stream = Log(), Stream()
        self.syncs: list[str] = []
        entries = StreamEntries(cast(Any, self.stream), cast(Any, self.log))
        self.synced = Synced(
            self.log,
            entries.add,
            lambda: self.syncs.append("now"),
            lambda: self.syncs.append("soon"),
        )
        self._index = 0

    def entry(self, *records: Record, is_awaited: bool = True) -> Proposal[Record]:
        self._index += 1
        entry = Proposal([*records], is_awaited=is_awaited)
        entry.index = self._index
        return entry


def message(first: int) -> Published:
    return Published(first, Batch([b"s"], [b""], [b"x"], [1]))


@pytest.fixture
def at() -> Fixture:
    return Fixture()


def test_an_entry_of_an_ordinary_stream_is_committed_at_once(at: Fixture) -> None:
    entries = [at.entry(message(1)), at.entry(message(2))]
    assert Written().commit(entries, is_behind=False) == 2


class Effects:
    """The files of a stream, and what was written of them."""

    def __init__(self, error: StoreError | None = None) -> None:
        self.written: list[str] = []
        self._error = error

    def flush(self) -> StoreError | None:
        self.written.append("effects")
        return self._error

    def write_removals(self) -> StoreError | None:
        self.written.append("removals")
        return self._error


class LateConsumers:
    """Consumers that are told when their records will be committed."""

    def __init__(self) -> None:
        self.is_late = False

    def commit_later(self) -> None:
        self.is_late = True


def test_only_an_entry_that_waits_for_no_sync_is_committed_alone(at: Fixture) -> None:
    flushes: list[None] = []
    deferred = Deferred(lambda: flushes.append(None))
    for committer, is_alone in ((Written(), True), (deferred, True), (at.synced, False)):
        assert committer.commit_alone() is is_alone
        assert committer.commit_unawaited() is is_alone
        committer.prepare(consumers := LateConsumers())
        assert consumers.is_late is not is_alone
    assert len(flushes) == 1, "the records of consumers are in the journal"
    assert (at.syncs, at.log.entries) == ([], [])


def test_the_effects_that_an_answer_tells_of_are_written_before_it(at: Fixture) -> None:
    entry, answer = at.entry(message(1)), at.entry()
    for committer in (Written(), Deferred(lambda: None)):
        assert committer.finish(entry, effects := Effects()) is None
        assert committer.finish(answer, effects) is None
        assert effects.written == ["removals"]
    assert at.synced.finish(entry, effects := Effects()) is None
    assert (effects.written, at.log.applied_entry) == (["effects"], 1)


def test_an_entry_whose_effects_cannot_be_written_is_applied_again(at: Fixture) -> None:
    error = StoreError("no room")
    assert Written().finish(at.entry(message(1)), Effects(error)) is error
    assert at.synced.finish(at.entry(message(2)), Effects(error)) is error
    assert at.log.applied_entry == 0


def test_an_entry_that_is_deferred_is_committed_at_once_and_flushed_soon(at: Fixture) -> None:
    flushes: list[None] = []
    committer = Deferred(lambda: flushes.append(None))
    assert committer.commit([at.entry(message(1))], is_behind=False) == 1
    assert len(flushes) == 1


def test_an_entry_that_must_be_synced_is_committed_when_the_disk_has_it(at: Fixture) -> None:
    assert at.synced.commit([at.entry(message(1))], is_behind=False) == 0
    assert (at.syncs, at.synced.committed) == (["now"], 0)
    at.log.synced_entry = 1
    assert at.synced.committed == 1


def test_an_entry_has_its_records_and_the_sequence_that_it_follows(at: Fixture) -> None:
    at.synced.commit([at.entry(Removed([1]), message(5)), at.entry(Removed([2]))], False)
    (first, follows, data), (second, other, _) = at.log.entries
    assert (first, follows, second, other) == (1, 4, 2, 6)
    removed, published = decode_entry(RecordCodec(SEED), data)
    assert isinstance(removed, Removed)
    assert isinstance(published, Published)
    assert (removed.sequences, published.batch.payloads) == ([1], [b"x"])


def test_an_entry_that_nobody_waits_for_is_committed_at_once_and_written_soon(
    at: Fixture,
) -> None:
    assert at.synced.commit([at.entry(Removed([1]), is_awaited=False)], is_behind=False) == 1
    assert at.syncs == ["soon"]
    assert len(at.log.entries) == 1


def test_an_entry_that_nobody_waits_for_waits_for_those_before_it(at: Fixture) -> None:
    assert at.synced.commit([at.entry(Removed([1]), is_awaited=False)], is_behind=True) == 0
    assert at.syncs == ["now"]


def test_the_files_of_a_log_that_has_failed_are_not_found_as_they_are(at: Fixture) -> None:
    at.synced.note_applied(1)
    assert at.log.applied_entry == 1
    at.log.offline = "broken"
    at.synced.note_applied(2)
    assert at.log.applied_entry == 1


def test_entries_that_are_not_written_are_withdrawn(at: Fixture) -> None:
    at.synced.commit([at.entry(message(1)), at.entry(message(2))], is_behind=False)
    at.synced.retreat(1)
    assert [index for index, _, _ in at.log.entries] == [1]


# --- a quorum ------------------------------------------------------------------------------------


class QuorumFixture:
    """A committer, and the replicated log that it proposes to, where all entries begin at 10."""

    def __init__(self) -> None:
        self.withdrawn: list[int] = []
        self.disowned: list[int] = []
        self.can_withdraw = True
        self.handed_over = False
        self._last = 9
        self._index = 0
        log = cast(ReplicatedLog, self)
        self.committer = Quorum(RecordCodec(SEED), int, int, abs, int, log)

    def withdraw(self, place: int) -> bool:
        self.withdrawn.append(place)
        return self.can_withdraw

    def disown(self, place: int) -> None:
        self.disowned.append(place)

    def hand_over(self) -> None:
        self.handed_over = True

    def commit(self, count: int, is_proposed: bool = True) -> None:
        """Entries of one turn, which share a place."""
        for _ in range(count):
            entry: Proposal[Record] = Proposal([Removed([1])])
            self._index += 1
            entry.index = self._index
            self.committer.commit([entry], is_behind=False)
        if is_proposed:
            self.committer.propose_by(self._propose)

    def _propose(self, batch: list[bytes]) -> int:
        first = self._last + 1
        self._last += len(batch)
        return first


@pytest.fixture
def quorum() -> QuorumFixture:
    return QuorumFixture()


def test_all_entries_of_a_place_are_withdrawn_and_those_behind_it(quorum: QuorumFixture) -> None:
    for count in (2, 3, 1):
        quorum.commit(count)
    quorum.commit(1, is_proposed=False)
    assert quorum.committer.withdraw(4) == 3
    assert quorum.withdrawn == [11]
    assert quorum.committer.propose_by(quorum._propose)
    assert quorum.committer.place_committed(20)
    assert quorum.committer.committed == 2


def test_an_entry_that_is_alone_is_not_withdrawn_with_those_behind_it(
    quorum: QuorumFixture,
) -> None:
    quorum.commit(1, is_proposed=False)
    quorum.committer.alone = 1
    # The leader is handing over for now, so entries gather.
    quorum.committer.propose_by(lambda batch: None)
    quorum.commit(2)
    assert quorum.committer.withdraw(2) == 2
    assert quorum.withdrawn == [11]
    assert quorum.committer.place_committed(10)
    assert quorum.committer.committed == 1


def test_entries_that_are_not_proposed_are_forgotten(quorum: QuorumFixture) -> None:
    quorum.commit(1)
    quorum.commit(3, is_proposed=False)
    assert quorum.committer.withdraw(3) == 3
    assert quorum.withdrawn == []
    proposed: list[bytes] = []

    def propose(batch: list[bytes]) -> int:
        proposed.extend(batch)
        return 11

    quorum.committer.propose_by(propose)
    [record] = decode_entry(RecordCodec(SEED), proposed[0])
    assert isinstance(record, Removed)


def test_entries_that_may_be_committed_are_left_as_they_are(quorum: QuorumFixture) -> None:
    quorum.commit(1)
    quorum.can_withdraw = False
    assert quorum.committer.withdraw(1) == 0
    assert quorum.committer.place_committed(10)
    assert quorum.committer.committed == 1


def test_a_disowned_entry_is_named_by_its_place(quorum: QuorumFixture) -> None:
    for count in (2, 1):
        quorum.commit(count)
    quorum.committer.disown(3)
    quorum.commit(1, is_proposed=False)
    quorum.committer.disown(4)
    assert quorum.disowned == [11]


def test_what_is_committed_and_waits_for_room_is_not_withdrawn(quorum: QuorumFixture) -> None:
    for count in (2, 1):
        quorum.commit(count)
    quorum.committer.place_committed(10)
    assert quorum.committer.withdraw(1) == 3
    assert quorum.withdrawn == [11]
    quorum.commit(1, is_proposed=False)
    assert quorum.committer.withdraw(2) == 3
    assert quorum.withdrawn == [11]


def test_the_rest_of_committed_entries_can_be_applied_by_their_places(
    quorum: QuorumFixture,
) -> None:
    for count in (2, 1, 1):
        quorum.commit(count)
    quorum.committer.place_committed(11)
    rest: list[Proposal[Record]] = [Proposal([Removed([number])]) for number in (2, 3)]
    rest[0].index, rest[1].index = 2, 3
    entries = quorum.committer.entries_of(rest, 11)
    assert [place for place, _ in entries] == [10, 11]
    codec = RecordCodec(SEED)
    found = [record for _, data in entries for record in decode_entry(codec, data)]
    assert [record.sequences for record in found if isinstance(record, Removed)] == [[2], [3]]


def test_another_server_is_to_lead_while_an_entry_waits_for_room(quorum: QuorumFixture) -> None:
    quorum.committer.stalled()
    assert quorum.handed_over
