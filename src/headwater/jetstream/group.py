"""The one way into the log of a stream: proposals come in, records are applied, effects leave.

    propose ─▶ in flight ─▶ Ready: write ─▶ advance: committed ─▶ apply ─▶ released
                                 └──────────▶ retreat ─▶ refused

A group knows neither disk nor sockets. Its driver writes the entries of `ready`, tells by `advance`
up to which index they are committed, and carries out the effects of released proposals. When an
entry counts as committed is the committer's decision (`headwater.jetstream.committers`), and
nothing else depends on it.

Entries are applied in the order of their indexes, each one wholly before the next. An application
that takes long is made in slices: until its end the group is `is_applying`, and the stream must be
neither read nor changed.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol, final

from headwater.base.invariants import check
from headwater.base.sliced import Sliced, Work
from headwater.jetstream.consumers.records import ConsumerDeleted
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Published, Record, Skipped
from headwater.store.errors import DiskFullError, StoreError


class Machine(Protocol):
    """The state machine whose records the group orders: a stream."""

    def append(self, record: Record) -> None:
        """Queue a record, so that later decisions take it into account."""
        ...

    def is_queued(self, record: Record) -> bool:
        """Whether a record is the next to be applied, and nothing of it is."""
        ...

    def retreat(self, records: Sequence[Record]) -> None:
        """Forget the newest records that were queued, because they will never be applied."""
        ...

    def show_plain(self, records: Sequence[Record]) -> bool:
        """Apply records if that takes one step. Returns whether it did."""
        ...

    def apply(self, record: Record) -> None:
        """Apply a record at once."""
        ...

    def applying(self, record: Record) -> Work[int]:
        """Apply a record, some at a time. Returns the number of messages it removed."""
        ...


class Driver(Protocol):
    """The owner of a group, which carries out effects."""

    def release(self, proposal: Proposal) -> None:
        """Carry out the effects of a proposal whose records are applied."""
        ...

    def refuse(self, proposal: Proposal, error: ApiError) -> None:
        """Answer a proposal whose records will never be applied."""
        ...

    def application_failed(self, error: StoreError) -> None:
        """Report that the disk failed while a record was applied."""
        ...

    def storing_failed(self, proposal: Proposal, error: StoreError) -> ApiError:
        """Refuse the part of a proposal that the log could not store. Returns the refusal for the
        entries behind it."""
        ...


class Ready(NamedTuple):
    """The work of the driver between `propose` and `advance`."""

    # Entries to write, in order. All of them must be written before `advance` names one of them,
    # and before any of their effects leaves the server.
    entries: list[Proposal]


@final
class Group:
    """The proposals of one stream, from the first step to the last."""

    __slots__ = (
        "_applying",
        "_driver",
        "_in_flight",
        "_machine",
        "_unwritten",
        "_walk",
        "applied",
        "committed",
        "proposed",
    )

    def __init__(self, machine: Machine, driver: Driver, applied: int = 0) -> None:
        """`applied` is the index of the last entry whose effects the machine has."""
        self._machine = machine
        self._driver = driver
        # Proposals that are not applied, in order; those of them that the driver has not written.
        self._in_flight: deque[Proposal] = deque()
        self._unwritten: list[Proposal] = []
        # The indexes of the last entry that was proposed, committed and applied.
        self.proposed = applied
        self.committed = applied
        self.applied = applied
        # The proposal that is being applied in slices, and the rest of its application.
        self._applying: Proposal | None = None
        self._walk: Sliced[None] | None = None

    def __bool__(self) -> bool:
        """Whether a proposal is in flight or being applied."""
        return bool(self._in_flight) or self._applying is not None

    @property
    def has_messages(self) -> bool:
        """Whether a proposal in flight has messages."""
        return any(proposal.has_messages for proposal in self._in_flight)

    # --- entries -------------------------------------------------------------------------------

    def propose(self, proposal: Proposal) -> None:
        """Give a proposal the next place in the log.

        A proposal without records gets the place of those before it, on which it rests.
        """
        if proposal.records or proposal.needs_entry:
            self.proposed += 1
            self._unwritten.append(proposal)
            for record in proposal.records:
                self._machine.append(record)
        proposal.index = self.proposed
        self._in_flight.append(proposal)

    def ready(self) -> Ready:
        """The entries that were proposed since the last call."""
        entries, self._unwritten = self._unwritten, []
        return Ready(entries)

    def advance(self, index: int) -> None:
        """Apply the entries up to an index, which are committed, and release their effects."""
        check(index <= self.proposed, "a committed entry was proposed")
        if index > self.committed:
            self.committed = index
        self._apply_committed()

    def propose_committed(self, proposal: Proposal) -> None:
        """Apply an entry that is committed as soon as it is written, and release its effects.

        Nothing may be in flight. This is what `propose` and `advance` do, in one step.
        """
        self.proposed += 1
        self.committed = proposal.index = self.proposed
        for record in proposal.records:
            self._machine.append(record)
        self._in_flight.append(proposal)
        self._apply_committed()

    def apply_unawaited(self, records: Sequence[Record]) -> None:
        """Apply an entry that is committed as soon as it is written, and has no effects.

        Nothing may be in flight. This is what `propose` and `advance` do, in one step: the records
        of consumers take it, which are as many as messages.
        """
        self.proposed += 1
        self.committed = self.applied = self.proposed
        for record in records:
            try:
                self._machine.apply(record)
            except DiskFullError:
                # Messages are removed when there is room.
                pass
            except StoreError as error:
                self._driver.application_failed(error)

    def retreat(self, error: ApiError) -> None:
        """Forget every proposal that is not applied, and answer those who wait for one."""
        self._unwritten.clear()
        self._machine.retreat([record for each in self._in_flight for record in each.records])
        self.proposed = self.committed = self.applied
        while self._in_flight:
            self._driver.refuse(self._in_flight.popleft(), error)

    # --- application ---------------------------------------------------------------------------

    @property
    def is_applying(self) -> bool:
        """Whether an entry is being applied in slices."""
        return self._walk is not None

    def apply_more(self) -> bool:
        """Apply one more slice, and all that is committed behind it. Returns whether one is left.

        A proposal whose application was given up in the meantime is not released.
        """
        walk, proposal = self._walk, self._applying
        if walk is None or proposal is None or walk.do_some():
            return walk is not None
        if self._walk is walk:
            self._walk = self._applying = None
            self._release(proposal)
            self._apply_committed()
        return self._walk is not None

    def close_application(self) -> None:
        """End the application of an entry in the middle. Must not be called from within it."""
        if self._walk is not None:
            self._walk.give_up()

    def give_up_application(self) -> Proposal | None:
        """Forget the entry that is being applied. Returns its proposal, if there was one."""
        proposal = self._applying
        self._walk = self._applying = None
        return proposal

    def _apply_committed(self) -> None:
        in_flight = self._in_flight
        while in_flight and self._walk is None and in_flight[0].index <= self.committed:
            proposal = in_flight.popleft()
            if proposal.records and not self._apply_at_once(proposal):
                walk = Sliced(self._applying_all(proposal))
                if walk.do_some():
                    self._applying, self._walk = proposal, walk
                    return
            self._release(proposal)

    def _apply_at_once(self, proposal: Proposal) -> bool:
        """Apply a proposal if that takes one step. Returns whether it did."""
        try:
            return self._machine.show_plain(proposal.records)
        except StoreError as error:
            stored = 0
            while not self._machine.is_queued(proposal.records[stored]):
                stored += 1
            self._refuse_rest(proposal, stored, error)
            return True

    def _applying_all(self, proposal: Proposal) -> Work[None]:
        for position, record in enumerate(proposal.records):
            try:
                proposal.removed += yield from self._machine.applying(record)
            except StoreError as error:
                if self._machine.is_queued(record):
                    self._refuse_rest(proposal, position, error)
                    return
                # Messages are stored by now, and a deleted consumer is gone. Messages that have to
                # leave because of them are removed later: when there is room, or after a restart.
                if not isinstance(record, Published | Skipped | ConsumerDeleted):
                    proposal.failure = error
                if not isinstance(error, DiskFullError):
                    self._driver.application_failed(error)

    def _refuse_rest(self, proposal: Proposal, stored: int, error: StoreError) -> None:
        """Keep the records of a proposal that are stored, and refuse everything behind them."""
        behind = [*self._in_flight]
        self._in_flight.clear()
        self._unwritten.clear()
        rest = [record for each in behind for record in each.records]
        self._machine.retreat([*proposal.records[stored:], *rest])
        proposal.records = proposal.records[:stored]
        self.proposed = self.committed = proposal.index
        refusal = self._driver.storing_failed(proposal, error)
        for each in behind:
            self._driver.refuse(each, refusal)

    def _release(self, proposal: Proposal) -> None:
        self.applied = proposal.index
        self._driver.release(proposal)

    def break_cycles(self) -> None:
        """Drop the references to a stream that was deleted."""
        del self._driver, self._machine
