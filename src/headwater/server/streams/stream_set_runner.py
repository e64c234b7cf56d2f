"""The set of streams at work: its group, the requests that wait for it, and its effects.

    request ─▶ decide ─▶ Group ─▶ Synced: the catalogue ─▶ apply ─▶ Open, Close, advisory, reply
                           └─▶ retreat ─▶ refusal

A runner drives the group of the set (`headwater.jetstream.group`), as a `StreamRunner` drives that
of a stream. Creations, deletions, restores and adoptions come to the set in this way only, and this
is the place where a stream is opened or closed because of them.

The records of a turn are written together, and one sync covers them, which waits for the disk off
the loop (`headwater.runtime.fsync`). A creation is checked against the names, the subjects and the
reservations of all streams. It is decided over the streams that run and those in flight, so that
creations which get along share a sync. A request that is not accepted so waits, with all behind it,
until nothing is in flight, and is decided again: no client is refused because of a stream that is
never created.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias, final

from headwater.base.invariants import check
from headwater.jetstream.committers import Synced
from headwater.jetstream.errors import ApiError
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import Answered, Close, Effect, Open, Proposal, StreamAnnounced
from headwater.jetstream.records import StreamCreated, StreamDeleted, StreamSetRecord
from headwater.server.streams.storage.stream_set_log import StreamSetLog
from headwater.store.errors import DiskFullError, StoreError

# Answers a request that changes nothing, or is refused.
Answer: TypeAlias = Callable[[], object]
# Decides a request: the change, or the answer without one. It may be called again, and has no other
# effect.
Decide: TypeAlias = Callable[[], Proposal[StreamSetRecord] | Answer]
Refusal: TypeAlias = StoreError | ApiError


class Streams(Protocol):
    """The streams of a server, which follow the set."""

    def open(self, created: StreamCreated) -> None:
        """Run a stream that was created. Raises StoreError, and then the stream does not run."""
        ...

    def close(self, closed: Close) -> None:
        """End a stream that was deleted, if it runs. Raises StoreError if files are left."""
        ...

    def announce(self, announced: StreamAnnounced) -> None:
        """Send the advisory of a creation or deletion."""
        ...


@final
class StreamSetRunner:
    """The group of the set of streams, and the requests that wait for it."""

    __slots__ = ("_committer", "_group", "_is_deciding", "_streams", "_undecided", "log")

    def __init__(
        self, log: StreamSetLog, streams: Streams, want_commit: Callable[[], object]
    ) -> None:
        """`want_commit` has the entries of the turn written and synced."""
        self.log = log
        self._streams = streams
        self._committer: Synced[StreamSetRecord] = Synced(
            log, log.add_entry, want_commit, want_commit
        )
        self._group: Group[StreamSetRecord, Refusal] = Group(
            log.streams, self, self._committer.committed
        )
        # Requests that are not decided yet, in order.
        self._undecided: deque[Decide] = deque()
        self._is_deciding = False
        log.when_finished(self._written)

    # --- requests ------------------------------------------------------------------------------

    def request(self, decide: Decide) -> None:
        """Decide a request, after all that came before it are decided."""
        self._undecided.append(decide)
        self._decide_waiting()

    def _decide_waiting(self) -> None:
        if self._is_deciding:
            # The request that is being decided may be carried out at once, and the next one follows
            # in the loop below.
            return
        self._is_deciding = True
        try:
            while self._undecided:
                decided = self._undecided[0]()
                if isinstance(decided, Proposal):
                    self._undecided.popleft()
                    self.propose(decided)
                elif self._group:
                    return
                else:
                    self._undecided.popleft()
                    decided()
        finally:
            self._is_deciding = False

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for the disk, or for those before it."""
        return bool(self._undecided) or bool(self._group)

    # --- proposals -----------------------------------------------------------------------------

    def propose(self, proposal: Proposal[StreamSetRecord]) -> None:
        """Put records into the log of the set, and carry out the effects when they are applied."""
        is_behind = self._group.committed < self._group.proposed
        self._group.propose(proposal)
        self._add_entries(is_behind)

    def _add_entries(self, is_behind: bool) -> None:
        """Add entries to the next commit; an entry that no disk needs to have is committed now."""
        entries, committer = self._group.ready().entries, self._committer
        if entries:
            committed = committer.commit(entries, is_behind)
            self._group.advance(max(committed, committer.committed))

    def commit(self) -> None:
        """Write the entries that wait, and carry out their effects, before the loop runs."""
        self.log.commit()

    def _written(self) -> None:
        """Go on behind entries that are on the disk, or cannot be written."""
        error = self.log.take_problem()
        if error is None:
            self._group.advance(self._committer.committed)
        elif isinstance(error, DiskFullError):
            self._refuse_creations(error)
        else:
            if not self._group:
                self.log.report_unrecorded(error)
            self.retreat(error)
        self._decide_waiting()

    def _refuse_creations(self, error: DiskFullError) -> None:
        """Refuse creations for which the disk has no room. Deletions make room: they stay."""
        group = self._group
        self._committer.retreat(group.committed)
        group.withdraw(group.committed + 1, _only_deletes, error)
        self._add_entries(is_behind=False)

    def retreat(self, error: Refusal) -> None:
        """Forget the entries that are not committed, and refuse the requests that wait for them.

        Requests that are not decided yet are decided by the state that is left.
        """
        self._committer.retreat(self._group.committed)
        self._group.retreat(error)
        self._decide_waiting()

    # --- effects -------------------------------------------------------------------------------

    def release(self, proposal: Proposal[StreamSetRecord]) -> None:
        """Carry out the effects of a proposal whose records are applied."""
        # An answer may refer to the proposal.
        effects, proposal.effects = proposal.effects, ()
        for number, effect in enumerate(effects):
            if not isinstance(effect, Open):
                self._carry_out(effect, proposal)
                continue
            try:
                self._streams.open(effect.created)
            except StoreError as error:
                # The folders follow the log again when the deletion is applied.
                self.withdraw(effect.created, error, effects[number + 1 :])
                return
        self._committer.note_applied(proposal.index)

    def _carry_out(self, effect: Effect, proposal: Proposal[StreamSetRecord]) -> None:
        if isinstance(effect, Close):
            try:
                self._streams.close(effect)
            except StoreError as error:
                proposal.failure = error
        elif isinstance(effect, Answered):
            if proposal.failure is None:
                effect.respond(proposal.removed)
            else:
                effect.refuse(proposal.failure)
        elif isinstance(effect, StreamAnnounced) and proposal.failure is None:
            self._streams.announce(effect)

    def withdraw(
        self, created: StreamCreated, error: StoreError, effects: tuple[Effect, ...] = ()
    ) -> None:
        """Delete a stream that cannot be opened, and then refuse the request for it.

        If the deletion cannot be recorded, the name can be used again all the same, and the next
        start tries to make the files of the stream.
        """
        deleted = StreamDeleted(created.account, created.name, created.incarnation)
        proposal: Proposal[StreamSetRecord] = Proposal([deleted], effects)
        proposal.failure = error
        self.propose(proposal)

    def refuse(self, proposal: Proposal[StreamSetRecord], error: Refusal) -> None:
        """Answer a proposal whose records will never be applied."""
        effects, proposal.effects = proposal.effects, ()
        for effect in effects:
            if isinstance(effect, Answered):
                effect.refuse(proposal.failure or error)

    # --- failures that a set in memory does not have -------------------------------------------

    def application_failed(self, record: StreamSetRecord, error: StoreError) -> bool:
        """Never called: no disk is touched when a record is applied."""
        check(False, "a record of the set of streams is applied in memory")
        raise error

    def application_broken(self, proposal: Proposal[StreamSetRecord], error: StoreError) -> Refusal:
        """Never called: no disk is touched when a record is applied."""
        check(False, "a record of the set of streams is applied in memory")
        raise error

    def storing_failed(self, proposal: Proposal[StreamSetRecord], error: StoreError) -> Refusal:
        """Never called: no disk is touched when a record is applied."""
        check(False, "a record of the set of streams is applied in memory")
        raise error


def _only_deletes(proposal: Proposal[StreamSetRecord]) -> bool:
    """Whether a proposal creates no stream."""
    return not any(isinstance(record, StreamCreated) for record in proposal.records)
