"""A stream at work: joined to the broker, the disk and the clock.

    broker ─▶ Ingest ─▶ StreamRunner.process ─▶ decide ─▶ Group: write, commit, apply ─▶ effects

A runner drives the group of one stream (`headwater.jetstream.group`): it has publishes and requests
decided, writes their entries by way of the stream's committer, and carries out the effects of those
that are applied. The committer alone knows how durable an entry has to be.

Long work, such as the application of a purge of a million messages, is done in slices, and other
streams and clients are served in between. Meanwhile the stream is held: its publishes,
acknowledgements, deliveries, requests and reads wait, in order, so that no client sees half of a
change.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias, final

from headwater.base.sliced import Sliced, Work
from headwater.jetstream import error_codes
from headwater.jetstream.committers import Committer, Quorum
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.records import LONG_RECORDS, ConsumerDeleted
from headwater.jetstream.errors import ApiError
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import (
    Answered,
    Outcome,
    Proposal,
)
from headwater.jetstream.records import Configured, Published, Purged, Record, Removed, Skipped
from headwater.jetstream.streams.look_ahead import IN_FLIGHT_MESSAGES_MAX
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import Scheduler
from headwater.server.core.accounts import Account
from headwater.server.core.client import Inlet
from headwater.server.core.ingest import Ingest, Room, RoomLimits, size_of
from headwater.server.core.slice_turns import SliceTurns
from headwater.server.streams.ack_waits import AckTimers, AckWaits
from headwater.server.streams.awaited_reads import AwaitedReads
from headwater.server.streams.confirmation import SOLE
from headwater.server.streams.consumer_runner import ConsumerRunner
from headwater.server.streams.due_times import DueTimes
from headwater.server.streams.effects import NOT_AVAILABLE, UNKNOWN, Effects, Parts
from headwater.server.streams.excess_refusals import ExcessRefusals
from headwater.server.streams.leader_subscriptions import LeaderSubscriptions
from headwater.server.streams.requests import Request, refuse_nothing
from headwater.server.streams.storage.disk_watch import DiskWatch
from headwater.store.errors import DiskFullError, OfflineError, StoreError
from headwater.store.log.file_log import FileLog
from headwater.store.store import SyncMode

Step: TypeAlias = Incoming | Request


class Runners(Parts, Protocol):
    """The parts of a server that its streams share."""

    scheduler: Scheduler
    slices: SliceTurns
    room_limits: RoomLimits
    consumer_timers: DueTimes[Consumer]
    ack_timers: AckTimers
    disk: DiskWatch

    def log_warning(self, text: str) -> None:
        """Log a warning."""
        ...

    def failed(self, reason: str) -> None:
        """Log a failure of the disk and refuse the steps of the streams that are offline by now."""
        ...

    def note_due(self, runner: "StreamRunner") -> None:
        """Plan the next due work of a stream."""
        ...

    def new_committer(self, runner: "StreamRunner", mode: SyncMode | None) -> Committer[Record]:
        """The committer for a sync mode."""
        ...


@final
class StreamRunner:
    """One stream at work: its subjects, its inlet, its group, and the steps that wait."""

    __slots__ = (
        "_ack_waits",
        "_changing",
        "_committer",
        "_deciding",
        "_due",
        "_effects",
        "_excess",
        "_group",
        "_is_deposed",
        "_is_working",
        "_requests",
        "_room",
        "_runners",
        "_undecided",
        "account",
        "confirmation",
        "consumers",
        "ingest",
        "reads",
        "stream",
        "subscriptions",
    )

    def __init__(
        self,
        runners: Runners,
        account: Account,
        stream: Stream,
        mode: SyncMode | None,
        reconfigured: Callable[["StreamRunner", StreamConfig], object],
        quorum: Quorum | None = None,
    ) -> None:
        """`mode` is None for a stream in memory. `reconfigured` is called with the configuration
        that the stream had before. `quorum` is the committer of a stream on several servers."""
        self._runners = runners
        self.account = account
        self.stream = stream
        self._committer: Committer[Record] = quorum or runners.new_committer(self, mode)
        self._group: Group[Record, ApiError] = Group(stream, self, self._committer.committed)
        self._committer.prepare(stream.consumers)
        self.ingest = Ingest(self)
        self.reads = AwaitedReads(runners.scheduler)
        self.consumers = ConsumerRunner(
            account,
            stream,
            runners.broker,
            runners.scheduler,
            runners.consumer_timers,
            runners.now_ns,
            self,
            runners.failed,
        )
        self.confirmation = SOLE
        # There while clients reach the stream.
        self.subscriptions: LeaderSubscriptions | None = None
        self._room = Room(runners.room_limits)
        # Publishes and requests that are not decided yet, in order.
        self._undecided: deque[Step] = deque()
        # The publishes that wait for the quorum of a stream on several servers.
        self._ack_waits: AckWaits | None = None
        if quorum is not None:
            self._ack_waits = AckWaits(
                runners.ack_timers, stream, quorum, self._undecided, self._withdraw_publishes
            )
        # The requests that were decided over entries in flight, by their proposals.
        self._requests: dict[Proposal[Record], Request] = {}
        # The request that is being decided in slices, and the rest of that work.
        self._deciding: tuple[Request, Sliced[Proposal[Record] | None]] | None = None
        self._excess = ExcessRefusals(runners, account, stream)
        self._effects = Effects(
            runners, account, stream, self.consumers, partial(reconfigured, self)
        )
        # The change of a consumer in flight, for which steps of that consumer wait.
        self._changing: Proposal[Record] | None = None
        # Whether long work is under way in slices.
        self._is_working = False
        # Whether another server leads the stream, so that nobody is answered here any more.
        self._is_deposed = False
        # The due work in flight: until it is applied, the stream would decide it again.
        self._due: Proposal[Record] | None = None

    # --- publishes -----------------------------------------------------------------------------

    def process(self, inlet: Inlet) -> None:
        """Decide the messages that were published in this turn."""
        incoming = inlet.take()
        if self._is_deposed:
            return
        if len(incoming.subjects) <= IN_FLIGHT_MESSAGES_MAX:
            self._process_part(incoming)
            return
        for part in incoming.parts(IN_FLIGHT_MESSAGES_MAX):
            # Part by part: the messages of one that are answered make room for the next.
            self._process_part(part)

    def _process_part(self, incoming: Incoming) -> None:
        if not self._room.has_room(incoming):
            incoming, refused, excess = self._room.admit(incoming)
            if excess is not None:
                self._excess.answer(refused, excess)
        if incoming.subjects:
            group = self._group
            is_free = not (group.in_flight or group.applying or self._deciding)
            if self._undecided or not (is_free or self._can_decide(incoming)):
                self._wait(incoming)
            else:
                self._decide(incoming)

    def _decide(self, incoming: Incoming) -> None:
        """Decide publishes by the state that the stream has now."""
        stream = self.stream
        if max(incoming.header_sizes) > 0:
            lookup = stream.publishing.long_lookup(incoming)
            if lookup is not None:
                self._decide_behind_lookup(incoming, *lookup)
                return
        if not stream.log.is_writable:
            # A duplicate is refused too: the message that it repeats may never become durable.
            self._effects.reply(stream.publishing.refuse(incoming, self._failure()))
            return
        self.propose(stream.publishing.decide(incoming, self._runners.now_ns()), incoming)

    def _decide_behind_lookup(self, incoming: Incoming, position: int, pattern: bytes) -> None:
        """Compare subjects with a pattern that a publish names, some at a time, before the publish
        is judged; it waits with those behind it."""
        before, others = incoming.split_at(position)
        if len(before):
            self._decide(before)

        def preparing() -> Work[None]:
            yield from self.stream.log.preparing((pattern,))

        # In front of the steps that wait already: they came later.
        self._undecided.appendleft(others)
        self._room.hold(len(others), size_of(others))
        self._undecided.appendleft(Request(preparing, refuse_nothing, lambda: True))
        self._decide_waiting()

    def _failure(self) -> ApiError:
        log = self.stream.log
        reason = log.offline or (log.is_full and self._runners.disk.reason) or "the disk failed"
        return ApiError.of(error_codes.STREAM_STORE_FAILED, err=reason)

    # --- steps that wait -----------------------------------------------------------------------

    def _wait(self, step: Step) -> None:
        """Have a step wait behind all others."""
        self._undecided.append(step)
        if isinstance(step, Incoming):
            self._room.hold(len(step), size_of(step))
            if self._ack_waits is not None:
                self._ack_waits.begin(step)

    def _can_decide(self, step: Step) -> bool:
        """Whether a step can be decided by the state that the stream has now."""
        group = self._group
        if not group.in_flight and group.applying is None:
            return self._deciding is None
        if self.is_held:
            return False
        if isinstance(step, Incoming) or step.adds_messages:
            return not (self.stream.needs_commit or self.stream.look_ahead.is_full)
        return step.is_foreseen()

    def _decide_waiting(self) -> None:
        """Decide the steps that wait, in order, as far as they can be decided now."""
        while self._undecided and self._can_decide(self._undecided[0]):
            step = self._undecided.popleft()
            if isinstance(step, Incoming):
                self._room.hold(-len(step), -size_of(step))
                self._decide(step)
            else:
                self._decide_request(step)

    # --- requests ------------------------------------------------------------------------------

    def request(self, request: Request) -> None:
        """Decide a request after all steps that came before it."""
        if self._undecided or not self._can_decide(request):
            self._wait(request)
        else:
            self._decide_request(request)

    def _decide_request(self, request: Request) -> None:
        if not request.adds_messages:
            self.consumers.flush()
        walk = Sliced(request.decide())
        if walk.do_some():
            self._deciding = (request, walk)
            self._hold()
        elif walk.result is not None:
            proposal = walk.result
            if self._group:
                self._requests[proposal] = request
            self.propose(proposal)

    def answer_behind(
        self, answer: Callable[[], object], refuse: Callable[[ApiError], object]
    ) -> Proposal[Record] | None:
        """Answer a request that changes nothing: now, or with the entries in flight, which the
        answer may rest on. Returns the proposal if there are any."""
        if not self._group:
            answer()
            return None

        def fail(error: StoreError | ApiError) -> None:
            refuse(error if isinstance(error, ApiError) else self._failure())

        return Proposal(effects=(Answered(lambda _: answer(), fail),))

    def when_free(self, look: Callable[[], object]) -> None:
        """Call `look` now, or after the long work that is under way and all waiting steps."""
        if not self.is_held:
            look()
            return

        def looking() -> Work[None]:
            look()
            yield 0

        # A stream that is deleted meanwhile is gone when `look` is called later.
        later = self._runners.slices.add
        self._wait(Request(looking, lambda _: later(look)))

    # --- proposals -----------------------------------------------------------------------------

    def propose(self, proposal: Proposal[Record], incoming: Incoming | None = None) -> None:
        """Put records into the log, and carry out the effects when the committer agrees.

        `incoming` are the publishes that the proposal answers.
        """
        group, committer = self._group, self._committer
        is_alone = proposal.records and not (group.in_flight or group.applying)
        if is_alone and committer.commit_alone():
            group.propose_committed(proposal)
            if group.in_flight or group.applying:
                self._wait_for_group(proposal, incoming)
            return
        group.propose(proposal)
        if proposal.records or proposal.needs_entry:
            is_behind = group.committed < proposal.index - 1
            group.advance(committer.commit(group.ready().entries, is_behind))
        else:
            group.advance(0)
        if group:
            self._wait_for_group(proposal, incoming)

    def propose_step(self, proposal: Proposal[Record]) -> None:
        """Put the records of a consumer's step into the log, and carry out its effects: those that
        need not wait at once, the others when the committer agrees."""
        if proposal.at_once:
            self._effects.carry_out(proposal.at_once)
        if not (proposal.records or proposal.effects):
            return
        group = self._group
        is_alone = not (group.in_flight or group.applying)
        if is_alone and self._committer.commit_unawaited():
            group.propose_step(proposal)
        else:
            self.propose(proposal)
        consumers = self.stream.consumers
        if consumers.events or consumers.freed:
            self._follow_news()

    def _wait_for_group(self, proposal: Proposal[Record], incoming: Incoming | None) -> None:
        """Count the publishes of a proposal in flight, and go on with long work in slices."""
        group = self._group
        if incoming is not None and proposal.index > group.applied:
            proposal.held_messages, proposal.held_bytes = len(incoming), size_of(incoming)
            self._room.hold(proposal.held_messages, proposal.held_bytes)
            if self._ack_waits is not None:
                self._ack_waits.propose(proposal, incoming)
        if proposal.index > group.applied and proposal.changes_consumers:
            # A step of the consumer that is decided now would come behind the change in the log.
            self._changing = proposal
            for record in proposal.records:
                if isinstance(record, LONG_RECORDS):
                    self.consumers.hold_for(record)
        if group.is_applying and not self._is_working:
            self._hold()
        if incoming is not None:
            # A publish may have opened a batch. Without anything in flight the due work was planned
            # when the effects were carried out.
            self._runners.note_due(self)

    def _end_wait(self, proposal: Proposal[Record]) -> None:
        """Count the publishes of a proposal no more: they are answered."""
        if proposal.held_messages:
            self._room.hold(-proposal.held_messages, -proposal.held_bytes)
            proposal.held_messages = 0
            if self._ack_waits is not None:
                self._ack_waits.end(proposal)

    def committed(self) -> None:
        """Apply the proposals that waited for a commit, and carry out their effects."""
        # A log that has failed meanwhile may not have been part of the commit.
        self.give_up()
        if self._deciding is None:
            self._advance()
            self._decide_waiting()

    def _advance(self) -> None:
        """Apply what is committed. While a request is being decided it waits: the decision must not
        see the stream change."""
        group = self._group
        # A log that has failed has given up entries that are committed.
        group.advance(min(self._committer.committed, group.proposed))
        if group.is_applying and not self._is_working:
            self._hold()

    @property
    def is_waiting(self) -> bool:
        """Whether a proposal waits for a commit."""
        return bool(self._group)

    def release(self, proposal: Proposal[Record]) -> None:
        """Carry out the effects of a proposal whose records are applied."""
        if proposal.held_messages:
            self._end_wait(proposal)
        if proposal is self._due:
            self._due = None
        if self._requests:
            self._requests.pop(proposal, None)
        # A message that comes removes nothing, and a publish has no other file to wait for.
        if not proposal.only_shows:
            error = self._committer.finish(proposal, self.consumers)
            if error is not None:
                self._note_failure(proposal, error)
        stream, consumers = self.stream, self.consumers
        if self.reads.waiting:
            self.reads.advance(stream.complete_sequence)
        if proposal.records and stream.consumers.by_name:
            self._deliver(proposal)
        self._effects.reply(proposal)
        if proposal.effects:
            if consumers.flush() is not None and proposal.failure is None:
                proposal.failure = self._failure()
            self._effects.release(proposal)
        if proposal.outcome is not None:
            self._conclude_copies(proposal, proposal.outcome)
        if stream.due.next_ns():
            self._runners.note_due(self)
        if proposal is self._changing:
            self._changing = None
            consumers.end_change()

    def _conclude_copies(self, proposal: Proposal[Record], outcome: Outcome) -> None:
        """Tell the owner of copied messages of their end, and have positions written soon."""
        if proposal.failure is not None:
            outcome.refused(proposal.failure)
        else:
            outcome.applied()
            self.consumers.flush_soon()

    def _note_failure(self, proposal: Proposal[Record], error: StoreError) -> None:
        """Have a request refused whose removals could not be written.

        Messages are stored, whatever has to leave because of them.
        """
        if any(isinstance(record, Removed | Purged | Configured) for record in proposal.records):
            proposal.failure = proposal.failure or error

    def _deliver(self, proposal: Proposal[Record]) -> None:
        """Deliver to consumers that wait for messages that became visible."""
        for record in proposal.records:
            if isinstance(record, Published):
                self.consumers.published(record.batch.subjects)
        self._follow_news()

    def _follow_news(self) -> None:
        """Tell of messages that consumers have lost, and let consumers send more."""
        consumers = self.stream.consumers
        if consumers.events or consumers.freed:
            self._effects.carry_out(consumers.take_news())

    def application_failed(self, record: Record, error: StoreError) -> bool:
        """Report that the disk failed while a record was applied. Returns whether the record holds.

        The log went offline amid the application. Messages are stored by then, and a deleted
        consumer is gone; messages that have to leave because of them leave after a restart.
        """
        if not isinstance(error, DiskFullError):
            self._runners.failed(str(error))
        return isinstance(record, Published | Skipped | ConsumerDeleted)

    # --- long work -----------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether long work is under way, so that the stream must be neither read nor changed."""
        return self._deciding is not None or self._group.is_applying

    def _hold(self) -> None:
        """Do long work in slices, before all steps that wait."""
        self._is_working = True
        self.stream.log.is_held = True
        self.consumers.hold()
        self._runners.slices.add(self._work_on)

    def _work_on(self) -> None:
        """Do one more slice of long work, and then go on with the steps that waited for it."""
        if self.is_held:
            if self._do_slice():
                self._runners.slices.add(self._work_on)
            elif self._is_working:
                # Otherwise the disk has failed, and the work was given up.
                self._free()

    def _do_slice(self) -> bool:
        """Do one slice. Returns whether work is left."""
        if self._deciding is None:
            return self._group.apply_more()
        _, walk = self._deciding
        if walk.do_some():
            return self._deciding is not None
        if self._deciding is not None:
            (request, _), self._deciding = self._deciding, None
            if walk.result is not None:
                if self._group:
                    self._requests[walk.result] = request
                self.propose(walk.result)
            self._group.go_on()
            self._advance()
        return self.is_held

    def _free(self) -> None:
        self._is_working = False
        self.stream.log.is_held = False
        self.consumers.release()
        self._decide_waiting()
        self._runners.note_due(self)

    def finish_work(self) -> None:
        """Do the rest of all long work at once; no client is served meanwhile."""
        while self.is_held:
            if not self._do_slice() and self._is_working:
                self._free()

    # --- timed work ----------------------------------------------------------------------------

    def next_due_ns(self) -> int:
        """The time at which the stream may have work to do; 0 if never."""
        stream = self.stream
        if stream.log.offline:
            return 0
        due_ns = stream.due.next_ns()
        if not due_ns or self._due is not None or self.is_held:
            return 0
        if stream.needs_commit or stream.look_ahead.is_reconfigured:
            # Messages behind a record whose effects are not foreseen have no sequence yet, and
            # those behind an update expire by the limits that it sets.
            return 0
        if stream.log.is_full and not stream.only_lets_go:
            # The stream is looked at again when there is room.
            return 0
        return due_ns

    def run_due(self, now_ns: int) -> None:
        """Do the work whose time has come."""
        proposal = self.stream.decide_due(now_ns)
        if proposal.records or proposal.abandoned:
            proposal.is_awaited = proposal.has_messages
            self.propose(proposal)
            if proposal.index > self._group.applied:
                self._due = proposal

    # --- the disk ------------------------------------------------------------------------------

    def storing_failed(self, proposal: Proposal[Record], error: StoreError) -> ApiError | None:
        """Returns the refusal for an entry that the log could not store, and for those behind it;
        None if it is to wait for room: a committed entry is not taken back."""
        if isinstance(error, DiskFullError) and self._committer.stalled():
            return None
        return self._fail(proposal, error)

    def application_broken(self, proposal: Proposal[Record], error: StoreError) -> ApiError:
        """Take the log offline in the middle of an entry that cannot be finished. Returns the
        refusal for the entries behind it."""
        log = self.stream.log
        if isinstance(log, FileLog):
            log.go_offline(str(error))
        failure = self._fail(proposal, OfflineError(str(error)))
        proposal.refuse_after(log.last_sequence, self.stream.publishing.acks.refusal(failure))
        return failure

    def _fail(self, proposal: Proposal[Record], error: StoreError) -> ApiError:
        proposal.failure = error
        if not isinstance(error, DiskFullError):
            self._committer.failed()
            self._runners.failed(str(error))
        return self._failure()

    def refuse_unwritten(self, is_final: bool) -> None:
        """Refuse the proposals that are not committed if they have messages; in the end, all.

        Proposals without messages may make room on the disk. So a request that rests on messages
        in flight is decided again, without them.
        """
        unwritten = self._group.uncommitted
        if not (is_final or any(proposal.has_messages for proposal in unwritten)):
            return
        if self._due in unwritten:
            self._due = None
        if not is_final:
            waiting = [(each, self._requests.pop(each, None)) for each in unwritten]
            again = [request for _, request in waiting if request is not None]
            for proposal, request in waiting:
                if request is not None:
                    # Its answer is that of the next decision.
                    proposal.effects = ()
            if self._deciding is not None:
                # It looks at messages that are about to be withdrawn.
                request, walk = self._deciding
                walk.give_up()
                self._deciding = None
                self._undecided.appendleft(request)
            self._undecided.extendleft(reversed(again))
        self._group.retreat(self._failure())
        self._committer.retreat(self._group.proposed)
        if self._is_working and not self.is_held:
            self._free()
        else:
            self._decide_waiting()

    def go_on(self) -> None:
        """Do the work that had to wait for room on the disk."""
        if self._deciding is None:
            self._group.go_on()
            self._advance()
        self.consumers.flush()
        self._follow_news()
        self._runners.note_due(self)
        self._decide_waiting()

    def give_up(self) -> None:
        """Refuse everything that waits if the log has failed."""
        if self.stream.log.offline:
            self.refuse_waiting(self._failure())

    def refuse_waiting(self, error: ApiError) -> None:
        """Refuse every step and proposal that waits: the log has failed, or the stream ends."""
        self._due = None
        applying = self._group.give_up_application()
        if applying is not None and applying.has_messages:
            # Its messages are stored, also if the messages that they replace are not removed.
            self._effects.reply(applying)
            if applying.outcome is not None:
                applying.outcome.refused(error)
        elif applying is not None:
            self.refuse(applying, error)
        if self._deciding is not None:
            request, self._deciding = self._deciding[0], None
            request.refuse(error)
        self._is_working = False
        self.stream.log.is_held = False
        self._changing = None
        self._requests.clear()
        self.consumers.end_change()
        self.consumers.release()
        self._group.give_up(error)
        self._refuse_waiting_publishes(error)
        while self._undecided:
            step = self._undecided.popleft()
            assert isinstance(step, Request)
            step.refuse(error)

    def _withdraw_publishes(self) -> bool:
        """Answer all publishes that are not committed, because the oldest has waited too long for
        the quorum. Returns whether that is possible now.

        Their entries are withdrawn, with all that is behind them: requests are refused, and steps
        of consumers are proposed again.
        """
        waits = self._ack_waits
        first = None if waits is None or self.is_held else waits.withdraw()
        if first is None:
            return False
        if first:
            if self._due is not None and self._due.index >= first:
                self._due = None
            self._group.withdraw(first, lambda each: each.outlasts_withdrawal, UNKNOWN)
            if entries := self._group.ready().entries:
                self._committer.commit(entries, is_behind=True)
        # These are committed, and nobody knows when there is room for them.
        for proposal in (stalled := [*self._group.in_flight] if self._group.is_stalled else []):
            self._end_wait(proposal)
        self._effects.answer_unknown(stalled)
        self._refuse_waiting_publishes(UNKNOWN)
        self._follow_news()
        self._runners.note_due(self)
        self._decide_waiting()
        return True

    def _refuse_waiting_publishes(self, error: ApiError) -> None:
        for _ in range(len(self._undecided)):
            step = self._undecided.popleft()
            if isinstance(step, Incoming):
                self._room.hold(-len(step), -size_of(step))
                self._effects.reply(self.stream.publishing.refuse(step, error))
            else:
                self._undecided.append(step)

    def _answer_deposed(self) -> None:
        """Answer the publishes that the next leader may commit, or that wait for room here."""
        if self._ack_waits is not None and self._ack_waits.disown():
            self._effects.answer_unknown([*self._group.in_flight])
            self._refuse_waiting_publishes(UNKNOWN)

    def step_down(self) -> list[Proposal[Record]]:
        """Cease to work, because another server leads the stream from now on.

        Entries that are committed are applied to their end, apart from those that wait for room on
        the disk: these are returned. Requests whose entries are not committed get no answer.
        """
        if self._deciding is not None:
            self._deciding[1].give_up()
            self._deciding = None
            # Entries that were committed meanwhile have waited for the decision.
            self._advance()
        while self._group.is_applying:
            self._group.apply_more()
        self._answer_deposed()
        self._is_deposed = True
        self._undecided.clear()
        self._requests.clear()
        self._is_working = False
        self._changing = self._due = None
        self.stream.log.is_held = False
        self._group.retreat(NOT_AVAILABLE)
        stalled = self._group.take_stalled()
        self.stream.publishing.drop_batches()
        self.consumers.rest_all()
        self.reads.answer_all()
        return stalled

    def refuse(self, proposal: Proposal[Record], error: ApiError) -> None:
        """Answer a proposal whose records will never be applied."""
        if self._is_deposed:
            return
        self._requests.pop(proposal, None)
        if proposal is self._changing:
            self._changing = None
            self.consumers.end_change()
        self._end_wait(proposal)
        self._effects.refuse(proposal, error)

    def give_up_work(self) -> None:
        """Give up long work, because the stream is about to be deleted; its log and consumers are
        still there."""
        if self._deciding is not None:
            self._deciding[1].give_up()
        self._group.close_application()

    def end(self, with_stream: bool = True) -> None:
        """Break every reference cycle of a deleted stream, so that its memory is freed.

        An inlet that is still to be processed in this turn keeps the runner until then, and a timer
        the runner of consumers; neither of them uses the stream any more. The stream itself stays
        if its server ceases to lead it.
        """
        if self._ack_waits is not None:
            self._ack_waits.close()
        del self.ingest, self._committer
        self._group.break_cycles()
        self.consumers.break_cycles()
        self._effects.break_cycles()
        if with_stream:
            self.stream.break_cycles()
