"""The order of a group: proposed, written, committed, applied, released, and never otherwise."""

from collections.abc import Sequence

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.base.sliced import SLICE_UNITS_MAX, Work, at_once
from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import Confirmed, Proposal
from headwater.jetstream.records import Purged, Record, Removed, Skipped
from headwater.store.errors import StoreError

FAILED = ApiError.of(error_codes.STREAM_STORE_FAILED, err="no disk")


class Machine:
    """Notes the records that are applied; a purge takes several slices."""

    def __init__(self) -> None:
        self.queued: list[Record] = []
        self.applied: list[Record] = []
        # Errors of the application of a record, of the storing of an entry, and of one record.
        self.error: StoreError | None = None
        self.full: StoreError | None = None
        self.broken: Record | None = None
        self.stored: list[list[Record]] = []
        self.forgotten: list[Record] = []
        self.undone: list[Proposal[Record]] = []

    def append(self, record: Record) -> None:
        self.queued.append(record)

    def is_queued(self, record: Record) -> bool:
        return self.full is not None or record is self.broken

    def store(self, records: Sequence[Record]) -> None:
        if self.full is not None:
            raise self.full
        self.stored.append([*records])

    def show_plain(self, records: Sequence[Record]) -> bool:
        return False

    def show_unqueued(self, record: Record) -> bool:
        return False

    def retreat(self, records: Sequence[Record], proposals: Sequence[Proposal[Record]]) -> None:
        self.forgotten = [*records]
        self.undone = [*proposals]

    def apply(self, record: Record) -> None:
        at_once(self.applying(record))

    def applying(self, record: Record) -> Work[int]:
        if self.error is not None:
            raise self.error
        if self.full is not None or record is self.broken:
            raise StoreError("the log has not stored it")
        if isinstance(record, Purged):
            for _ in range(2):
                yield SLICE_UNITS_MAX
        self.applied.append(record)
        return len(record.sequences) if isinstance(record, Removed) else 0


class Driver:
    """Notes the proposals that were released and refused."""

    def __init__(self) -> None:
        self.released: list[Proposal[Record]] = []
        self.refused: list[Proposal[Record]] = []
        self.failures: list[StoreError] = []
        self.refusal: ApiError | None = FAILED

    def release(self, proposal: Proposal[Record]) -> None:
        self.released.append(proposal)

    def refuse(self, proposal: Proposal[Record], error: ApiError) -> None:
        self.refused.append(proposal)

    def application_failed(self, record: Record, error: StoreError) -> bool:
        self.failures.append(error)
        return isinstance(record, Skipped)

    def storing_failed(self, proposal: Proposal[Record], error: StoreError) -> ApiError | None:
        self.failures.append(error)
        return self.refusal

    def application_broken(self, proposal: Proposal[Record], error: StoreError) -> ApiError:
        self.failures.append(error)
        return FAILED


class Fixture:
    def __init__(self) -> None:
        self.machine, self.driver = Machine(), Driver()
        self.group: Group[Record, ApiError] = Group(self.machine, self.driver)

    def propose(self, *records: Record) -> Proposal[Record]:
        proposal = Proposal([*records])
        self.group.propose(proposal)
        return proposal


@pytest.fixture
def at() -> Fixture:
    return Fixture()


def removal(*sequences: int) -> Removed:
    return Removed([*sequences])


def test_an_entry_is_applied_and_released_when_it_is_committed_and_no_earlier(at: Fixture) -> None:
    first, second = at.propose(removal(1)), at.propose(removal(2))
    assert at.group.ready().entries == [first, second]
    at.group.advance(1)
    assert (at.machine.applied, at.driver.released) == (first.records, [first])
    assert (at.group.proposed, at.group.committed, at.group.applied) == (2, 1, 1)
    at.group.advance(2)
    assert at.driver.released == [first, second]
    assert not at.group


def test_entries_that_a_release_proposes_come_behind_all_that_is_committed(
    at: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many entries are committed at once, as after a pause of the other replicas."""
    count, released = 2_000, list[int]()

    def release(proposal: Proposal[Record]) -> None:
        released.append(proposal.index)
        if len(released) <= count:
            at.propose(removal(1))
            at.group.advance(0)

    monkeypatch.setattr(at.driver, "release", release)
    for _ in range(count):
        at.propose(removal(1))
    at.group.advance(count)
    assert released == [*range(1, count + 1)]
    at.group.advance(2 * count)
    assert released == [*range(1, 2 * count + 1)]
    assert not at.group


def test_each_entry_is_handed_out_for_writing_once(at: Fixture) -> None:
    at.propose(removal(1))
    assert len(at.group.ready().entries) == 1
    assert at.group.ready().entries == []


def test_an_entry_that_was_not_proposed_cannot_be_committed(at: Fixture) -> None:
    at.propose(removal(1))
    with pytest.raises(InvariantViolation):
        at.group.advance(2)


def test_a_proposal_without_records_is_released_behind_those_that_it_rests_on(at: Fixture) -> None:
    at.propose(removal(1))
    behind = at.propose()
    assert at.group.ready().entries[-1] is not behind
    at.group.advance(0)
    assert at.driver.released == []
    at.group.advance(1)
    assert at.driver.released[-1] is behind


def test_a_proposal_without_records_is_released_at_once_if_nothing_is_in_flight(
    at: Fixture,
) -> None:
    alone = at.propose()
    at.group.advance(0)
    assert at.driver.released == [alone]


def test_nothing_is_applied_behind_an_entry_that_is_applied_in_slices(at: Fixture) -> None:
    long, behind = at.propose(Purged(b">")), at.propose(removal(1))
    at.group.advance(2)
    assert at.group.is_applying
    assert at.driver.released == []
    at.group.advance(2)
    assert at.driver.released == [], "another commit changes nothing"
    assert at.group.apply_more()
    assert not at.group.apply_more()
    assert at.driver.released == [long, behind]
    assert not at.group


def test_a_proposal_knows_how_many_messages_its_records_removed(at: Fixture) -> None:
    proposal = at.propose(removal(1, 2), removal(7))
    at.group.advance(1)
    assert proposal.removed == 3


def test_a_retreat_refuses_what_is_not_committed_and_gives_its_place_away(at: Fixture) -> None:
    kept, gone = at.propose(removal(1)), at.propose(removal(2))
    behind = at.propose()
    at.group.advance(1)
    at.group.retreat(FAILED)
    assert (at.driver.released, at.driver.refused) == ([kept], [gone, behind])
    assert (at.machine.forgotten, at.machine.undone) == (gone.records, [gone, behind])
    assert at.group.ready().entries == []
    again = at.propose(removal(3))
    assert again.index == gone.index
    at.group.advance(2)
    assert at.machine.applied == [*kept.records, *again.records]


def test_a_retreat_keeps_what_is_committed_behind_an_entry_that_is_applied(at: Fixture) -> None:
    long, kept, gone = (at.propose(record) for record in (Purged(b">"), removal(1), removal(2)))
    at.group.advance(2)
    assert at.group.is_applying
    at.group.retreat(FAILED)
    assert (at.driver.released, at.driver.refused) == ([], [gone])
    again = at.propose(removal(3))
    assert (kept.index, again.index) == (2, 3), "no index is given out twice"
    while at.group.apply_more():
        pass
    assert at.driver.released == [long, kept]
    at.group.advance(3)
    assert at.machine.applied == [*long.records, *kept.records, *again.records]


def test_a_retreat_amid_an_application_gives_its_index_to_no_other_entry(at: Fixture) -> None:
    long = at.propose(Purged(b">"))
    at.group.advance(1)
    at.group.retreat(FAILED)
    assert (long.index, at.propose(removal(1)).index) == (1, 2)


def test_a_group_that_is_given_up_refuses_what_is_committed_too(at: Fixture) -> None:
    at.propose(Purged(b">"))
    committed, behind = at.propose(removal(1)), at.propose(removal(2))
    at.group.advance(2)
    at.group.give_up_application()
    at.group.give_up(FAILED)
    assert at.driver.refused == [committed, behind]
    assert at.driver.released == []
    assert not at.group


def test_an_entry_that_is_committed_already_is_applied_and_released_in_one_step(
    at: Fixture,
) -> None:
    proposal: Proposal[Record] = Proposal([removal(1)])
    at.group.propose_committed(proposal)
    assert (at.machine.applied, at.driver.released) == (proposal.records, [proposal])
    assert (at.group.proposed, at.group.committed, at.group.applied) == (1, 1, 1)
    assert at.group.ready().entries == []
    long: Proposal[Record] = Proposal([Purged(b">")])
    at.group.propose_committed(long)
    assert at.group.is_applying
    while at.group.apply_more():
        pass
    assert at.driver.released == [proposal, long]
    assert not proposal.only_shows
    assert not long.only_shows


def test_a_message_that_only_becomes_visible_is_told_from_other_entries(
    at: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal: Proposal[Record] = Proposal([removal(1)])
    monkeypatch.setattr(at.machine, "show_unqueued", lambda record: True)
    at.group.propose_committed(proposal)
    assert proposal.only_shows, "no other file has to follow"
    assert at.driver.released == [proposal]


def test_a_step_takes_a_place_and_is_applied_at_once(at: Fixture) -> None:
    kept = at.propose(removal(1))
    at.group.advance(1)
    others = removal(2), removal(3)
    at.group.propose_step(Proposal([*others], is_awaited=False))
    assert at.machine.applied == [*kept.records, *others]
    assert at.driver.released == [kept]
    step: Proposal[Record] = Proposal([removal(4)], effects=(Confirmed([b"to"]),))
    at.group.propose_step(step)
    assert at.driver.released == [kept, step]
    assert (at.group.applied, at.propose(removal(5)).index) == (3, 4)


def test_a_failure_of_a_step_is_reported_and_released_with_it(at: Fixture) -> None:
    at.machine.error = StoreError("no disk")
    step: Proposal[Record] = Proposal([removal(2)], effects=(Confirmed([b"to"]),))
    at.group.propose_step(step)
    assert at.driver.failures == [at.machine.error]
    assert step.failure is at.machine.error
    assert at.driver.released == [step]


def test_a_failure_during_an_application_is_reported_and_released_with_it(at: Fixture) -> None:
    at.machine.error = StoreError("broken")
    proposal = at.propose(removal(1))
    at.group.advance(1)
    assert at.driver.failures == [at.machine.error]
    assert at.driver.released == [proposal]
    assert proposal.failure is at.machine.error


def test_a_record_that_holds_in_spite_of_a_failure_is_no_failure_of_its_proposal(
    at: Fixture,
) -> None:
    at.machine.error = StoreError("broken")
    proposal = at.propose(Skipped(1, b"s", b"", 1))
    at.group.advance(1)
    assert at.driver.failures == [at.machine.error]
    assert proposal.failure is None


def test_an_application_that_is_given_up_releases_nothing(at: Fixture) -> None:
    long = at.propose(Purged(b">"))
    at.group.advance(1)
    at.group.close_application()
    assert at.group.give_up_application() is long
    assert not at.group.is_applying
    assert not at.group.apply_more()
    assert at.driver.released == []


# --- withdrawals ---------------------------------------------------------------------------------


def test_proposals_that_are_withdrawn_are_refused_and_the_others_stay(at: Fixture) -> None:
    first, second, third = at.propose(removal(1)), at.propose(removal(2)), at.propose(removal(3))
    at.group.ready()
    at.group.withdraw(2, lambda _: False, FAILED)
    assert at.driver.refused == [second, third]
    assert at.machine.forgotten == [*second.records, *third.records]
    assert at.machine.undone == [second, third]
    again = at.propose(removal(4))
    assert at.group.ready().entries == [again]
    at.group.advance(2)
    assert at.driver.released == [first, again]


def test_proposals_that_outlast_a_withdrawal_get_the_next_places_before_anyone_is_told(
    at: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, kept = at.propose(removal(1)), at.propose(removal(2))
    resting = at.propose()
    later: list[Proposal[Record]] = []
    monkeypatch.setattr(at.driver, "refuse", lambda *_: later.append(at.propose(removal(3))))
    at.group.ready()
    at.group.withdraw(1, lambda each: each is not first, FAILED)
    assert at.machine.forgotten == first.records
    assert (kept.index, resting.index, later[0].index) == (1, 1, 2)
    assert at.group.ready().entries == [kept, later[0]]
    at.group.advance(2)
    assert at.driver.released == [kept, resting, later[0]]


def test_what_is_committed_cannot_be_withdrawn(at: Fixture) -> None:
    at.propose(Purged(b">"))
    at.group.advance(1)
    with pytest.raises(InvariantViolation):
        at.group.withdraw(1, lambda _: False, FAILED)


# --- entries that the log cannot store ------------------------------------------------------------


def entry() -> tuple[Removed, Skipped]:
    return removal(1), Skipped(1, b"s", b"", 1)


def test_the_messages_of_an_entry_are_stored_before_its_first_record_is_applied(
    at: Fixture,
) -> None:
    proposal = at.propose(*entry())
    at.machine.full = StoreError("no room")
    at.group.advance(1)
    assert at.machine.applied == []
    assert at.driver.refused == [proposal]
    at.machine.full = None
    again = at.propose(*entry())
    at.group.advance(again.index)
    assert at.machine.stored == [again.records]
    assert at.machine.applied == again.records


@pytest.mark.parametrize("records", [entry(), entry()[:1]], ids=["several", "one"])
def test_an_entry_that_is_refused_takes_those_behind_it_along(
    at: Fixture, records: tuple[Record, ...]
) -> None:
    proposals = [at.propose(*records), at.propose(*records), at.propose()]
    at.machine.full = StoreError("no room")
    at.group.advance(2)
    assert at.driver.refused == proposals
    assert at.machine.forgotten == [*records, *records]
    assert (at.driver.released, at.machine.applied) == ([], [])
    assert not at.group
    at.machine.full = None
    later = at.propose(*records)
    at.group.advance(later.index)
    assert at.driver.released == [later]


@pytest.mark.parametrize("records", [entry(), entry()[:1]], ids=["several", "one"])
def test_an_entry_that_is_committed_waits_for_room_and_is_applied_once(
    at: Fixture, records: tuple[Record, ...]
) -> None:
    first, behind, open_ = at.propose(*records), at.propose(removal(7)), at.propose(removal(8))
    at.machine.full, at.driver.refusal = StoreError("no room"), None
    for _ in range(2):
        at.group.advance(2)
        at.group.go_on()
    at.group.retreat(FAILED)
    assert (at.driver.refused, at.driver.released) == ([open_], [])
    assert at.group.is_stalled
    at.machine.full = None
    at.group.advance(2)
    assert at.machine.applied == [], "it is tried again when there is room"
    at.group.go_on()
    assert at.driver.released == [first, behind]
    assert at.machine.applied == [*records, *behind.records]
    assert not at.group


def test_an_entry_that_was_applied_in_one_step_waits_as_well(at: Fixture) -> None:
    def fail(record: Record) -> bool:
        raise StoreError("no room")

    at.machine.full, at.driver.refusal = StoreError("no room"), None
    at.machine.show_unqueued = fail  # type: ignore[method-assign]
    proposal: Proposal[Record] = Proposal([removal(1)])
    at.group.propose_committed(proposal)
    assert at.machine.queued == proposal.records
    assert at.group.is_stalled
    at.machine.full = None
    at.group.go_on()
    assert at.driver.released == [proposal]


def test_entries_that_wait_for_room_can_be_taken_to_another_group(at: Fixture) -> None:
    stalled = [at.propose(removal(1)), at.propose(removal(2))]
    assert at.group.take_stalled() == []
    at.machine.full, at.driver.refusal = StoreError("no room"), None
    at.group.advance(2)
    assert at.group.take_stalled() == stalled
    assert at.machine.forgotten == [each.records[0] for each in stalled]
    assert not at.group
    assert not at.group.is_stalled


def test_an_entry_that_cannot_be_finished_ends_the_group(at: Fixture) -> None:
    begun, behind = at.propose(removal(1), removal(2), removal(3)), at.propose(removal(4))
    at.machine.broken = begun.records[1]
    at.group.advance(2)
    assert at.machine.applied == begun.records[:1]
    assert at.machine.forgotten == begun.records[1:]
    assert (at.driver.refused, at.driver.released) == ([behind], [begun])
