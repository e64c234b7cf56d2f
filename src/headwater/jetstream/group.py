"""The one way into a log: proposals come in, records are applied, effects leave.

    propose ─▶ in flight ─▶ Ready: write ─▶ advance: committed ─▶ apply ─▶ released
                                 └──────────▶ retreat, withdraw ─▶ refused

A group knows neither disk nor sockets. Its driver writes the entries of `ready`, tells by `advance`
up to which index they are committed, and carries out the effects of released proposals. When an
entry counts as committed is the committer's decision (`headwater.jetstream.committers`), and
nothing else depends on it. Each stream has a group, and the set of streams has one.

Entries are applied in the order of their indexes, each one wholly before the next. An application
that takes long is made in slices: until its end the group is `is_applying`, and the machine must be
neither read nor changed.

An entry is applied wholly or not begun: its messages are written together before its first record
is applied. If they cannot be, an entry that is nowhere else on a disk is refused, and one that is
committed waits for room, with all behind it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar, final

from headwater.base.invariants import check
from headwater.base.sliced import Sliced, Work
from headwater.jetstream.proposal import Proposal
from headwater.store.errors import StoreError

# The records of a log, and the errors by which its proposals are refused.
R = TypeVar("R")
E = TypeVar("E")


class Machine(Protocol[R]):
    """The state machine whose records the group orders: a stream, or the set of streams."""

    def append(self, record: R) -> None:
        """Queue a record, so that later decisions take it into account."""
        ...

    def is_queued(self, record: R) -> bool:
        """Whether a record is the next to be applied, and nothing of it is."""
        ...

    def store(self, records: Sequence[R]) -> None:
        """Write the messages of an entry before any of its records is applied, which then needs
        neither room nor disk for them. Raises StoreError without any change."""
        ...

    def retreat(self, records: Sequence[R], proposals: Sequence[Proposal[R]]) -> None:
        """Forget the newest records that were queued, because they will never be applied, and
        whatever else their proposals have changed, oldest first."""
        ...

    def show_plain(self, records: Sequence[R]) -> bool:
        """Apply records if that takes one step. Returns whether it did.

        Raises StoreError, for one that was not stored before, without any change.
        """
        ...

    def show_unqueued(self, record: R) -> bool:
        """Apply a record that was not queued if it only makes messages visible.

        Nothing may be queued. Returns whether it did. Raises StoreError without any change.
        """
        ...

    def apply(self, record: R) -> None:
        """Apply a record at once."""
        ...

    def applying(self, record: R) -> Work[int]:
        """Apply a record, some at a time. Returns the number of messages it removed."""
        ...


class Driver(Protocol[R, E]):
    """The owner of a group, which carries out effects."""

    def release(self, proposal: Proposal[R]) -> None:
        """Carry out the effects of a proposal whose records are applied."""
        ...

    def refuse(self, proposal: Proposal[R], error: E) -> None:
        """Answer a proposal whose records will never be applied."""
        ...

    def application_failed(self, record: R, error: StoreError) -> bool:
        """Report that the disk failed while a record was applied. Returns whether the record holds
        nevertheless, because its other effects follow when the disk works again."""
        ...

    def storing_failed(self, proposal: Proposal[R], error: StoreError) -> E | None:
        """Report that the log could not store an entry, none of whose records is applied. Returns
        the refusal for it and for those behind it; None if it is to wait for room."""
        ...

    def application_broken(self, proposal: Proposal[R], error: StoreError) -> E:
        """Report that an entry cannot be finished of which records are applied. Returns the refusal
        for those behind it: nothing more is applied here."""
        ...


class Ready(NamedTuple, Generic[R]):
    """The work of the driver between `propose` and `advance`."""

    # Entries to write, in order. All of them must be written before `advance` names one of them,
    # and before any of their effects leaves the server.
    entries: list[Proposal[R]]


@final
class Group(Generic[R, E]):
    """The proposals for one log, from the first step to the last."""

    __slots__ = (
        "_driver",
        "_is_advancing",
        "_machine",
        "_unwritten",
        "_walk",
        "applied",
        "applying",
        "committed",
        "in_flight",
        "is_stalled",
        "proposed",
    )

    def __init__(self, machine: Machine[R], driver: Driver[R, E], applied: int = 0) -> None:
        """`applied` is the index of the last entry whose effects the machine has."""
        self._machine = machine
        self._driver = driver
        # Proposals that are not applied, in order; those of them that the driver has not written.
        self.in_flight: deque[Proposal[R]] = deque()
        self._unwritten: list[Proposal[R]] = []
        # The indexes of the last entry that was proposed, committed and applied.
        self.proposed = applied
        self.committed = applied
        self.applied = applied
        # The proposal that is being applied in slices, and the rest of its application.
        self.applying: Proposal[R] | None = None
        self._walk: Sliced[StoreError | None] | None = None
        # Whether the oldest entry is committed and waits for room on the disk.
        self.is_stalled = False
        # Whether committed proposals are being applied: what a release proposes is left to that.
        self._is_advancing = False

    def __bool__(self) -> bool:
        """Whether a proposal is in flight or being applied."""
        return bool(self.in_flight) or self.applying is not None

    @property
    def uncommitted(self) -> list[Proposal[R]]:
        """The proposals that a retreat forgets, in order.

        A committed entry may wait behind another one that is being applied.
        """
        return [proposal for proposal in self.in_flight if proposal.index > self.committed]

    # --- entries -------------------------------------------------------------------------------

    def propose(self, proposal: Proposal[R]) -> None:
        """Give a proposal the next place in the log.

        A proposal without records gets the place of those before it, on which it rests.
        """
        for record in proposal.records:
            self._machine.append(record)
        self._place(proposal)

    def _place(self, proposal: Proposal[R]) -> None:
        if proposal.records or proposal.needs_entry:
            self.proposed += 1
            self._unwritten.append(proposal)
        proposal.index = self.proposed
        self.in_flight.append(proposal)

    def ready(self) -> Ready[R]:
        """The entries that were proposed since the last call."""
        entries, self._unwritten = self._unwritten, []
        return Ready(entries)

    def advance(self, index: int) -> None:
        """Apply the entries up to an index, which are committed, and release their effects."""
        check(index <= self.proposed, "a committed entry was proposed")
        if index > self.committed:
            self.committed = index
        self._apply_committed()

    def propose_committed(self, proposal: Proposal[R]) -> None:
        """Apply an entry that is committed as soon as it is written, and release its effects.

        Nothing may be in flight. This is what `propose` and `advance` do, in one step.
        """
        self.proposed += 1
        self.committed = proposal.index = self.proposed
        if len(proposal.records) == 1:
            # Nearly every publish is such a record.
            try:
                is_applied = self._machine.show_unqueued(proposal.records[0])
            except StoreError as error:
                self._machine.append(proposal.records[0])
                self._keep_or_refuse(proposal, error)
                return
            if is_applied:
                self.applied = proposal.index
                proposal.only_shows = True
                self._driver.release(proposal)
                return
        for record in proposal.records:
            self._machine.append(record)
        self.in_flight.append(proposal)
        self._apply_committed()

    def propose_step(self, proposal: Proposal[R]) -> None:
        """Apply an entry that is committed as soon as it is written, each record in one step, and
        release its effects, if it has some.

        Nothing may be in flight. This is what `propose` and `advance` do: the records of consumers
        take it, which are as many as messages.
        """
        self.proposed += 1
        self.committed = self.applied = proposal.index = self.proposed
        for record in proposal.records:
            try:
                self._machine.apply(record)
            except StoreError as error:
                if not self._driver.application_failed(record, error):
                    proposal.failure = error
        if proposal.effects:
            self._driver.release(proposal)

    def retreat(self, error: E) -> None:
        """Forget every proposal that is not committed, and answer those who wait for one.

        Committed entries are applied in their turn, and keep their indexes.
        """
        proposals = self.uncommitted
        for _ in proposals:
            self.in_flight.pop()
        self.proposed = self.committed
        self._forget(proposals, error)

    def withdraw(self, first: int, stays: Callable[[Proposal[R]], bool], error: E) -> None:
        """Take back the proposals from an index on, which the log has withdrawn.

        Proposals that stay get the next places, in order, and the machine keeps their records.
        All others are refused.
        """
        check(first > self.committed, "entries in flight are withdrawn")
        withdrawn: deque[Proposal[R]] = deque()
        while self.in_flight and self.in_flight[-1].index >= first:
            withdrawn.appendleft(self.in_flight.pop())
        self.proposed = first - 1
        refused = [each for each in withdrawn if not stays(each)]
        self._machine.retreat([record for each in refused for record in each.records], refused)
        # Before anybody is told: an answer may lead to other proposals.
        for proposal in withdrawn:
            if stays(proposal):
                self._place(proposal)
        for proposal in refused:
            self._driver.refuse(proposal, error)

    def give_up(self, error: E) -> None:
        """Forget every proposal that is not applied, because none can be applied any more."""
        proposals = [*self.in_flight]
        self.in_flight.clear()
        self.is_stalled = False
        self.proposed = self.committed = self.applied
        self._forget(proposals, error)

    def _forget(self, proposals: list[Proposal[R]], error: E) -> None:
        self._unwritten.clear()
        self._machine.retreat([record for each in proposals for record in each.records], proposals)
        for proposal in proposals:
            self._driver.refuse(proposal, error)

    # --- application ---------------------------------------------------------------------------

    @property
    def is_applying(self) -> bool:
        """Whether an entry is being applied in slices."""
        return self._walk is not None

    def apply_more(self) -> bool:
        """Apply one more slice, and all that is committed behind it. Returns whether one is left.

        A proposal whose application was given up in the meantime is not released.
        """
        walk, proposal = self._walk, self.applying
        if walk is None or proposal is None or walk.do_some():
            return walk is not None
        if self._walk is walk:
            self._walk = self.applying = None
            self._release(proposal)
            self._apply_committed()
        return self._walk is not None

    def close_application(self) -> None:
        """End the application of an entry in the middle. Must not be called from within it."""
        if self._walk is not None:
            self._walk.give_up()

    def give_up_application(self) -> Proposal[R] | None:
        """Forget the entry that is being applied. Returns its proposal, if there was one."""
        proposal = self.applying
        self._walk = self.applying = None
        return proposal

    def _apply_committed(self) -> None:
        """Apply and release what is committed, in order, up to work that takes slices.

        A consumer proposes records when a release brings it messages. They come behind what is
        committed, however much that is, and not within the release.
        """
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            self._apply_in_order()
        finally:
            self._is_advancing = False

    def _apply_in_order(self) -> None:
        in_flight = self.in_flight
        while in_flight and self._walk is None and in_flight[0].index <= self.committed:
            if self.is_stalled:
                return
            proposal = in_flight.popleft()
            try:
                if proposal.records and not self._apply_some(proposal):
                    return
            except StoreError as error:
                self._keep_or_refuse(proposal, error)
            else:
                self._release(proposal)

    def _apply_some(self, proposal: Proposal[R]) -> bool:
        """Apply a proposal, or begin to. Returns whether it is applied. Raises StoreError if
        nothing of it is, because the log could not store it."""
        records = proposal.records
        if len(records) > 1:
            self._machine.store(records)
        if self._machine.show_plain(records):
            return True
        walk = Sliced(self._applying_all(proposal))
        if walk.do_some():
            self.applying, self._walk = proposal, walk
            return False
        if walk.result is not None:
            raise walk.result
        return True

    def _applying_all(self, proposal: Proposal[R]) -> Work[StoreError | None]:
        """Apply all records. Returns the error if the log could not store the first one."""
        for position, record in enumerate(proposal.records):
            try:
                proposal.removed += yield from self._machine.applying(record)
            except StoreError as error:
                if not self._machine.is_queued(record):
                    if not self._driver.application_failed(record, error):
                        proposal.failure = error
                elif position:
                    self._break_off(proposal, position, error)
                    return None
                else:
                    return error
        return None

    def _break_off(self, proposal: Proposal[R], position: int, error: StoreError) -> None:
        """Apply nothing more, because an entry cannot be finished."""
        refusal = self._driver.application_broken(proposal, error)
        behind = [*self.in_flight]
        self.in_flight.clear()
        self.proposed = self.committed = proposal.index
        self._forget(behind, refusal)
        self._machine.retreat(proposal.records[position:], [proposal])

    def _keep_or_refuse(self, proposal: Proposal[R], error: StoreError) -> None:
        """Have an entry wait that the log could not store, or refuse it with all behind it."""
        self.in_flight.appendleft(proposal)
        refusal = self._driver.storing_failed(proposal, error)
        if refusal is None:
            # If the log has failed, nothing is in flight any more.
            self.is_stalled = bool(self.in_flight)
        elif self.in_flight:
            refused = [*self.in_flight]
            self.in_flight.clear()
            self.proposed = self.committed = self.applied = proposal.index
            self._forget(refused, refusal)

    def take_stalled(self) -> list[Proposal[R]]:
        """Forget the entries that wait for room, and those behind them, which are all committed:
        they are to be proposed to another group. Returns their proposals, in order."""
        if not self.is_stalled:
            return []
        stalled = [*self.in_flight]
        self.in_flight.clear()
        self.is_stalled = False
        self._machine.retreat([record for each in stalled for record in each.records], stalled)
        return stalled

    def go_on(self) -> None:
        """Apply the entry that has waited for room, and all that is committed behind it."""
        if self.is_stalled:
            self.is_stalled = False
            self._apply_committed()

    def _release(self, proposal: Proposal[R]) -> None:
        self.applied = proposal.index
        self._driver.release(proposal)

    def break_cycles(self) -> None:
        """Drop the references to a machine that ends."""
        del self._driver, self._machine
