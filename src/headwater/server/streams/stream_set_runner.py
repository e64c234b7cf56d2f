"""The set of streams at work: its group, the requests that wait for it, and its effects.

    request ─▶ decide ─▶ Group ─▶ Synced: the catalogue ─▶ apply ─▶ Open, Close, advisory, reply
                           └─▶ retreat ─▶ refusal

A runner drives the group of the set (`headwater.jetstream.group`), as a `StreamRunner` drives that
of a stream. Creations, deletions, restores and adoptions come to the set in this way only, and this
is the place where a stream is opened or closed because of them.

A creation is checked against the names, the subjects and the reservations of all streams. So a
request is decided when nothing is in flight, and requests wait for each other in order. The sync
of the catalogue holds up the loop: requests are rare, and a client that publishes right behind a
creation finds the stream.
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
from headwater.store.errors import StoreError

# Decides a request when its turn has come; None if the request was answered without a change.
Decide: TypeAlias = Callable[[], Proposal[StreamSetRecord] | None]
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

    __slots__ = (
        "_committer",
        "_group",
        "_is_deciding",
        "_is_sync_wanted",
        "_streams",
        "_undecided",
        "log",
    )

    def __init__(self, log: StreamSetLog, streams: Streams) -> None:
        self.log = log
        self._streams = streams
        self._committer: Synced[StreamSetRecord] = Synced(
            log, log.add_entry, self._want_sync, self._want_sync
        )
        self._group: Group[StreamSetRecord, Refusal] = Group(
            log.streams, self, self._committer.committed
        )
        # Requests that are not decided yet, in order.
        self._undecided: deque[Decide] = deque()
        self._is_deciding = False
        self._is_sync_wanted = False

    # --- requests ------------------------------------------------------------------------------

    def request(self, decide: Decide) -> None:
        """Decide a request after all that came before it are carried out or refused."""
        self._undecided.append(decide)
        self._decide_waiting()

    def _decide_waiting(self) -> None:
        if self._is_deciding:
            # The request that is being decided may be carried out at once, and the next one follows
            # in the loop below.
            return
        self._is_deciding = True
        try:
            while self._undecided and not self._group:
                proposal = self._undecided.popleft()()
                if proposal is not None:
                    self.propose(proposal)
        finally:
            self._is_deciding = False

    # --- proposals -----------------------------------------------------------------------------

    def propose(self, proposal: Proposal[StreamSetRecord]) -> None:
        """Put records into the log of the set, and carry out the effects when they are applied."""
        group, committer = self._group, self._committer
        group.propose(proposal)
        is_behind = group.committed < proposal.index - 1
        entries = group.ready().entries
        group.advance(committer.commit(entries, is_behind) if entries else 0)
        if self._is_sync_wanted:
            self._is_sync_wanted = False
            self.sync()

    def _want_sync(self) -> None:
        self._is_sync_wanted = True

    def sync(self) -> None:
        """Write the entries that wait, and carry out their effects."""
        try:
            self.log.sync()
        except StoreError as error:
            if not self._group:
                self.log.report_unrecorded(error)
            self.retreat(error)
        else:
            self._group.advance(self._committer.committed)
            self._decide_waiting()

    def retreat(self, error: Refusal) -> None:
        """Forget the entries that are not committed, and refuse the requests that wait for them.

        Requests that are not decided yet are decided by the state that is left.
        """
        self._group.retreat(error)
        self._committer.retreat(self._group.proposed)
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
