"""Streams at work: joined to the broker, the disk and the clock.

    broker ─▶ Ingest ─▶ StreamRunner.process ─▶ decide, append ─▶ [commit] ─▶ apply, replies

A runner drives one stream through a turn. If a message has to be on the disk before it is
acknowledged, its replies wait for the commit that covers it, and so does everything decided after
it. `StreamRunners` are all runners of a server and the parts they share: one driver of syncs, and
one timer for the work of streams whose time has come.

A long change is made in slices, and other streams and clients are served in between. Meanwhile the
stream is held: its publishes, acknowledgements, deliveries, requests and reads wait, in order, so
that no client sees half of the change.

The module knows changes, and not the requests that ask for them.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.base.emptying import Container, emptying
from headwater.base.sliced import Sliced, Work, at_once
from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.errors import ApiError
from headwater.jetstream.records import Published, Record
from headwater.jetstream.streams.publishing.decision import Decision, Incoming
from headwater.jetstream.streams.publishing.in_flight import IN_FLIGHT_MESSAGES_MAX
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import Environment
from headwater.runtime.file_watch import FileWatch
from headwater.runtime.fsync import SyncDriver
from headwater.runtime.upkeep import Upkeep
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.client import Subscription
from headwater.server.core.ingest import TOO_MANY_REQUESTS, Excess, Ingest, Room, RoomLimits
from headwater.server.core.slice_turns import SliceTurns
from headwater.server.log import Log
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.awaited_reads import AwaitedReads
from headwater.server.streams.consumer_runner import DUE_MAX, TIMER_S_MIN, ConsumerRunner
from headwater.server.streams.due_times import DueTimes
from headwater.server.streams.storage.disk_watch import DiskWatch
from headwater.server.streams.waiting_steps import Change, Step, WaitingSteps
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import DiskFullError, StoreError
from headwater.store.store import Store, SyncMode

# A stream that refuses publishes says so in the log no more often than this.
REFUSALS_LOGGED_NS: Final = 60 * NS_PER_S
# The timer for due work is set at least this far ahead.
DUE_S_MIN: Final = 0.010
# And at most this far, as long as work is planned: the clock may be set forward, and timers do not
# follow it.
DUE_S_MAX: Final = 1.0


@final
class StreamRunner:
    """One stream at work: its subjects, its inlet, and the steps that wait for the disk."""

    __slots__ = (
        "_due",
        "_host",
        "_made",
        "_refusals_logged_ns",
        "_room",
        "_runners",
        "_waiting",
        "_walk",
        "account",
        "consumers",
        "ingest",
        "mode",
        "reads",
        "stream",
        "subscriptions",
    )

    def __init__(
        self,
        runners: "StreamRunners",
        account: Account,
        host: JetStreamAccount,
        stream: Stream,
        mode: SyncMode | None,
    ) -> None:
        self._runners = runners
        self.account = account
        # The JetStream of the account, whose usage the bytes of the stream count for.
        self._host = host
        self.stream = stream
        # None for a stream in memory.
        self.mode = mode
        self.ingest = Ingest(self)
        self.reads = AwaitedReads(runners.scheduler)
        self.consumers = ConsumerRunner(
            account,
            stream,
            runners.broker,
            runners.advisories,
            runners.scheduler,
            runners.consumer_timers,
            runners.now_ns,
            self.when_sure,
            self._change_unasked,
            self._settle,
            runners.failed,
        )
        self.subscriptions: list[Subscription] = []
        self._room = Room(runners.room_limits)
        # Decisions that wait for a commit, changes that come after them, and publishes that come
        # after changes or after too many others.
        self._waiting = WaitingSteps(self._room)
        # The time of the last log line about refused publishes, by the limit they met.
        self._refusals_logged_ns: dict[Excess, int] = {}
        # Changes that were made and are answered when the disk has them.
        self._made: deque[tuple[int, Change]] = deque()
        # The rest of a change or decision that is being carried out, the first one in `_waiting`.
        self._walk: Sliced[None] | None = None
        # The due decision that waits: until it takes effect, the stream would decide it again.
        self._due: Decision | None = None

    def process(self, ingest: Ingest) -> None:
        """Decide the messages that were published in this turn."""
        for part in ingest.take().parts(IN_FLIGHT_MESSAGES_MAX):
            # Part by part: the messages of one that are answered make room for the next.
            incoming, refused, excess = self._room.admit(part)
            if excess is not None:
                self._refuse_excess(refused, excess)
            if incoming.subjects:
                self._take(incoming)

    def _refuse_excess(self, replies: list[bytes], excess: Excess) -> None:
        """Answer publishes that there is no room for, also if the stream sends no acks."""
        stream, runners = self.stream, self._runners
        answer = stream.refusal(ApiError.of(error_codes.STREAM_TOO_MANY_REQUESTS))
        count = len(replies)
        blocks = [TOO_MANY_REQUESTS] * count
        runners.broker.send_replies(self.account, replies, [answer] * count, blocks)
        now_ns = runners.now_ns()
        logged_ns = self._refusals_logged_ns.get(excess)
        if logged_ns is None or now_ns - logged_ns >= REFUSALS_LOGGED_NS:
            self._refusals_logged_ns[excess] = now_ns
            runners.log_warning(
                "Dropping messages due to excessive stream ingest rate on "
                f"'{self.account.name}' > '{stream.name}': {excess.value}"
            )

    def _take(self, incoming: Incoming) -> None:
        is_full = self.stream.in_flight.messages >= IN_FLIGHT_MESSAGES_MAX
        if self._waiting.undecided or self._walk or (is_full and self._waiting):
            # They are decided by the state that the stream has then.
            self._waiting.add_behind(incoming)
            return
        lookup = self.stream.long_lookup(incoming)
        if lookup is not None:
            self._take_behind_lookup(incoming, *lookup)
            return
        if not self.stream.log.offline and not self.stream.log.is_full:
            decision = self.stream.decide(incoming, self._runners.now_ns())
            if self._append(decision):
                self.carry_out(decision, incoming)
                self._runners.note_due(self)
                return
            if self.mode is not SyncMode.ALWAYS:
                self._send(decision)
                return
        # A duplicate is refused too: the message that it repeats may never become durable.
        self._send(self.stream.refuse(incoming, self._failure()))

    def _take_behind_lookup(self, incoming: Incoming, position: int, pattern: bytes) -> None:
        """Compare subjects with a pattern that a publish names, some at a time, before the publish
        is judged; it waits with those behind it."""
        before, others = incoming.split_at(position)
        if len(before):
            self._take(before)
        log = self.stream.log
        self._change_unasked(lambda: Sliced(log.preparing((pattern,))))
        self._take(others)

    def _failure(self) -> ApiError:
        log = self.stream.log
        reason = log.offline or (log.is_full and self._runners.disk.reason) or "the disk failed"
        return ApiError.of(error_codes.STREAM_STORE_FAILED, err=reason)

    def next_due_ns(self) -> int:
        """The time at which the stream may have work to do; 0 if never."""
        stream = self.stream
        if stream.log.offline or self._due is not None or self._walk is not None:
            return 0
        if stream.log.is_full and (stream.is_behind or not stream.only_lets_go):
            # The stream is looked at again when there is room.
            return 0
        return self.stream.next_due_ns()

    def run_due(self, now_ns: int) -> None:
        """Do the work whose time has come."""
        decision = self.stream.decide_due(now_ns)
        if (decision.records or decision.abandoned) and self._append(decision):
            self.carry_out(decision)
            if self._waiting.last is decision:
                self._due = decision

    def change(self, change: Change) -> None:
        """Make a change after all steps that were decided before it, and answer it.

        If publishes wait for the disk, so does the answer.
        """
        if self._waiting:
            self._waiting.add_behind(change)
        else:
            self._make(change)

    def _change_unasked(self, make: Callable[[], object]) -> None:
        """Make a change that no client waits for."""
        self.change(Change(make, _nothing, _refuse_nothing))

    def _make(self, change: Change) -> None:
        self.consumers.flush()
        walk = change.make()
        if isinstance(walk, Sliced) and walk.do_some():
            self._begin_walk(change, walk)
        else:
            self._conclude(change)

    # --- changes that take long ----------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether a change is being made in slices."""
        return self._walk is not None

    def when_free(self, look: Callable[[], object]) -> None:
        """Call `look` now, or after the change that is being made and all waiting steps."""
        if self._walk is None:
            look()
        else:
            # A stream that is deleted meanwhile is gone when `look` is called later.
            later = self._runners.slices.add
            waiting = Change(look, _nothing, lambda _: later(look), only_looks=True)
            self._waiting.add_behind(waiting)

    def _begin_walk(self, step: Change | Decision, walk: Sliced[None]) -> None:
        """Hold the stream until a change is made or a decision carried out, before all waiting
        steps."""
        self._walk = walk
        self._waiting.add_first([step])
        self.stream.log.is_held = True
        self.consumers.hold()
        self._runners.slices.add(lambda: self._walk_on(walk))

    def _walk_on(self, walk: Sliced[None]) -> None:
        """Make one more slice of a change, and carry out the waiting steps when it is made."""
        if self._walk is not walk:
            return
        if walk.do_some():
            self._runners.slices.add(lambda: self._walk_on(walk))
        elif self._walk is walk:
            # Otherwise the disk has failed, and the change was refused.
            self._release()

    def finish_change(self) -> None:
        """Make the rest of all changes at once; no client is served meanwhile."""
        while self._walk is not None:
            if not self._walk.do_some() and self._walk is not None:
                self._release()

    def give_up_walk(self) -> None:
        """Give up the rest of a change, because the stream is about to be deleted; its log and
        consumers are still there."""
        if self._walk is not None:
            self._walk.give_up()

    def _release(self) -> None:
        made = self._waiting.pop_first()
        # Steps that wait for another commit go on waiting.
        steps = self._waiting.pop_freed(self._runners.last_commit)
        self._end_walk()
        if isinstance(made, Change):
            self._conclude(made)
        elif isinstance(made, Decision):
            self._taken_effect(made)
        self.consumers.release()
        self._go_on_with(steps)
        self._runners.note_due(self)

    def _end_walk(self) -> None:
        self._walk = None
        self.stream.log.is_held = False

    def _go_on_with(self, steps: list[Step]) -> None:
        for position, step in enumerate(steps):
            # Publishes may have to wait once more, and the steps behind them do too.
            if isinstance(step, Change):
                self.change(step)
            elif isinstance(step, Incoming):
                self._take(step)
            else:
                self._take_effect(step)
                if self._walk is not None:
                    # The other steps are next, before those that wait for a later commit.
                    self._waiting.add_first([self._waiting.pop_first(), *steps[position + 1 :]])
                    return

    def _conclude(self, change: Change) -> None:
        """Write the records of a change that is made, and answer it."""
        if change.only_looks:
            change.answer()
            return
        is_written = self.consumers.flush()
        self.consumers.tell_events()
        if not is_written:
            change.refuse(self._failure())
            return
        if self.mode is not SyncMode.ALWAYS or self._is_sure() or self.stream.log.offline:
            # A log that has failed is not synced any more, and the answer reports the failure.
            change.answer()
            return
        self._made.append((self._runners.next_commit, change))
        self._runners.await_commit(self)

    def when_sure(self, answer: Callable[[], object]) -> None:
        """Answer when all records of consumers are as durable as the messages of the stream."""
        self.consumers.flush()
        if self.stream.log.offline or self.stream.consumers.is_owed:
            # They never will be. The client tries again, and gets an answer after a restart.
            return
        if self.mode is not SyncMode.ALWAYS or self._is_sure():
            answer()
            return
        self._made.append((self._runners.next_commit, Change(_nothing, answer, _refuse_nothing)))
        self._runners.await_commit(self)

    def _settle(self) -> None:
        self._host.update_usage(self.stream)

    def _is_sure(self) -> bool:
        """Whether all writes are synced."""
        log = self.stream.log
        return not isinstance(log, FileLog) or log.is_synced

    def recording(self, record: Record) -> Work[None]:
        """Append and apply one record, in slices, as part of a change. Raises StoreError."""
        try:
            self.stream.append(record)
            yield from self.stream.applying(record)
        except DiskFullError:
            # Nothing has changed, and the waiting steps still wait for their commit.
            raise
        except StoreError as error:
            # No commit will cover the waiting steps any more.
            self._runners.failed(str(error))
            raise
        finally:
            self._host.update_usage(self.stream)

    def _append(self, decision: Decision) -> bool:
        """Append the records of a decision. Returns whether the decision can be carried out.

        Without room for all records, the decision keeps only the parts that rest on appended
        records. After any other failure these have taken effect, unless replies wait for the disk.
        """
        for position, record in enumerate(decision.records):
            try:
                self.stream.append(record)
            except DiskFullError:
                decision.records = decision.records[:position]
                refusal = self.stream.refusal(self._failure())
                decision.refuse_after(self.stream.log.last_sequence, refusal)
                break
            except StoreError as error:
                self._runners.failed(str(error))
                decision.records = decision.records[:position]
                if self.mode is not SyncMode.ALWAYS:
                    refusal = self.stream.refusal(self._failure())
                    decision.refuse_after(self.stream.log.last_sequence, refusal)
                    at_once(self._applying(decision))
                    self._show(decision)
                return False
        if self.mode is SyncMode.ALWAYS:
            # In other modes the records take effect at once, and usage is updated then.
            self._host.update_usage(self.stream)
        return True

    def carry_out(self, decision: Decision, incoming: Incoming | None = None) -> None:
        """Apply records and send replies, now or when the disk has the records."""
        if self.mode is SyncMode.ALWAYS:
            if decision.has_messages:
                self._waiting.add(self._runners.next_commit, decision, incoming)
                self._runners.await_commit(self)
                return
            if self._waiting:
                # A decision without messages rests on the decisions before it.
                self._waiting.add_behind(decision, incoming)
                return
        if self.mode is SyncMode.ASYNC and decision.records:
            self._runners.flush_wanted()
        self._take_effect(decision)

    def committed(self, number: int) -> None:
        """Apply the decisions that waited for a commit, and answer changes."""
        # A log that has failed meanwhile may not have been part of the commit.
        self.give_up()
        while self._made and self._made[0][0] <= number:
            self._made.popleft()[1].answer()
        self._go_on_with(self._waiting.pop_committed(number))

    def _take_effect(self, decision: Decision) -> None:
        """Apply records and send replies. The stream is held if that takes long."""
        if not self.stream.show_plain(decision.records):
            walk = Sliced(self._applying(decision))
            if walk.do_some():
                self._begin_walk(decision, walk)
                return
        self._taken_effect(decision)

    def _applying(self, decision: Decision) -> Work[None]:
        for record in decision.records:
            try:
                yield from self.stream.applying(record)
            except DiskFullError:
                # The message is stored; messages beyond the limits are removed when there is room.
                pass
            except StoreError as error:
                # The message is stored; messages beyond the limits are removed after a restart.
                self._runners.failed(str(error))

    def _taken_effect(self, decision: Decision) -> None:
        if decision is self._due:
            self._due = None
        self._show(decision)
        self._send(decision)
        if self.mode is SyncMode.ALWAYS:
            # In other modes the caller plans the due work.
            self._runners.note_due(self)

    def _show(self, decision: Decision) -> None:
        """Answer reads and deliver to consumers that wait for messages that became visible."""
        self._host.update_usage(self.stream)
        self.reads.advance(self.stream.visible_sequence)
        if len(self.stream.consumers):
            for record in decision.records:
                if isinstance(record, Published):
                    self.consumers.published(record.batch.subjects)
            self.consumers.tell_events()

    def end(self) -> None:
        """Break every reference cycle of a deleted stream, so that its memory is freed.

        An inlet that is still to be processed in this turn keeps the runner until then, and a timer
        the runner of consumers; neither of them uses the stream any more.
        """
        del self.ingest
        self.consumers.break_cycles()
        self.stream.break_cycles()

    @property
    def is_waiting(self) -> bool:
        """Whether a step or a change waits for a commit."""
        return bool(self._waiting or self._made)

    def go_on(self) -> None:
        """Do the work that had to wait for room on the disk."""
        try:
            self.stream.let_go()
        except DiskFullError:
            return
        except StoreError as error:
            self._runners.failed(str(error))
        self._host.update_usage(self.stream)
        self.consumers.flush()
        self.consumers.tell_events()
        self._runners.note_due(self)

    def give_up(self) -> None:
        """Refuse the waiting steps if the log has failed."""
        if self.stream.log.offline:
            self.refuse_waiting(self._failure())

    def refuse_waiting(self, error: ApiError) -> None:
        """Refuse every step and change that waits for a commit which will not come."""
        answer = self.stream.refusal(error)
        self._due = None
        if self._walk is not None and isinstance(self._waiting.first, Decision):
            # Its messages are stored, also if the messages that they replace are not removed.
            self._send(self._waiting.first)
            self._waiting.pop_first()
        self._end_walk()
        self.consumers.release()
        while self._made:
            self._made.popleft()[1].refuse(error)
        while self._waiting:
            step = self._waiting.pop_first()
            if isinstance(step, Change):
                step.refuse(error)
                continue
            if isinstance(step, Incoming):
                step = self.stream.refuse(step, error)
            if step.reply_subjects:
                answers = [answer] * len(step.reply_subjects)
                self._runners.broker.send_replies(self.account, step.reply_subjects, answers)

    def _send(self, decision: Decision) -> None:
        broker = self._runners.broker
        for subject, header, body in decision.republished:
            broker.send(self.account.index.match(subject), subject, None, body, header)
        if decision.reply_subjects:
            broker.send_replies(self.account, decision.reply_subjects, decision.replies)
        for batch_id, reason in decision.abandoned:
            self._runners.advisories.batch_abandoned(
                self.account, self.stream.name, batch_id, reason
            )


def _nothing() -> None:
    """Make no change."""


def _refuse_nothing(_: ApiError) -> None:
    """Send no answer to an acknowledgement that is not durable: the client tries again."""


@final
class StreamRunners:
    """All runners of a server, by account and name of their stream."""

    def __init__(
        self,
        store: Store,
        environment: Environment,
        broker: Broker,
        sync_interval_s: float,
        log: Log,
        advisories: Advisories,
        room_limits: RoomLimits,
    ) -> None:
        self.broker = broker
        self.advisories = advisories
        self.log_warning = log.warn
        self.room_limits = room_limits
        self._by_key: dict[tuple[str, str], StreamRunner] = {}
        # The runners with steps or changes that wait for a commit.
        self._awaiting: dict[StreamRunner, None] = {}
        self._store = store
        self._clock = environment.clock
        self.scheduler = environment.scheduler
        self.slices = SliceTurns(self.scheduler)
        self._log = log
        self._driver = SyncDriver(
            store, self.scheduler, sync_interval_s, self._committed, self.failed
        )
        self._upkeep = Upkeep(store, self.scheduler, self.failed)
        self.files = FileWatch(store, self.scheduler, self.failed)
        self.disk = DiskWatch(store.room, self.scheduler, self.now_ns, self)
        self.timers: DueTimes[StreamRunner] = DueTimes(
            self.scheduler, self.now_ns, delay_s_min=DUE_S_MIN, delay_s_max=DUE_S_MAX
        )
        self.consumer_timers: DueTimes[Consumer] = DueTimes(
            self.scheduler, self.now_ns, delay_s_min=TIMER_S_MIN, turn_max=DUE_MAX
        )
        self._commits = 0
        # A commit that is wanted while runners are told of one, or after the stop, is the next one.
        self._is_telling = False
        self._is_stopped = False
        self._is_commit_wanted = False

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start syncs, upkeep and the watches of disk and files."""
        self.disk.start()
        self._driver.start()
        self._upkeep.start()
        self.files.start()

    def end_consumers(self) -> None:
        """Tell clients that wait for messages that the server stops."""
        for runner in self._by_key.values():
            runner.consumers.end_all(is_deleted=False)

    def stop(self) -> None:
        """Commit the waiting steps and cancel all timers."""
        self.disk.stop()
        self._driver.stop()
        self._upkeep.stop()
        self.files.stop()
        self.consumer_timers.stop()
        for runner in self._by_key.values():
            runner.reads.answer_all()
        self.timers.stop()
        # From here on no sync begins beside the loop: the files are closed next.
        self._is_stopped = True
        self._is_commit_wanted = True
        for runner in self._by_key.values():
            runner.finish_change()
        self.broker.turn.decide_gathered()
        for runner in self._by_key.values():
            runner.finish_change()
        for runner in self._by_key.values():
            runner.consumers.flush()
        try:
            # Once more for the steps that the first commit releases.
            while self._is_commit_wanted:
                self._is_commit_wanted = False
                self._store.commit()
                # All waiting steps are in this commit.
                self._commits = self.next_commit
                self._committed()
                for runner in self._by_key.values():
                    runner.finish_change()
        except StoreError as error:
            self.failed(str(error))

    def add(self, runner: StreamRunner) -> None:
        """Add the runner of a stream that begins to run."""
        self._by_key[runner.account.name, runner.stream.name] = runner
        self.note_due(runner)

    def of(self, account_name: str, stream_name: str) -> StreamRunner:
        """The runner of a stream, which must be there."""
        return self._by_key[account_name, stream_name]

    def find(self, account_name: str, stream_name: str) -> StreamRunner | None:
        """The runner of a stream, if it is there."""
        return self._by_key.get((account_name, stream_name))

    def find_consumers(self, account_name: str, stream_name: str) -> ConsumerRunner | None:
        """The runner of a stream's consumers, if the stream is there."""
        runner = self._by_key.get((account_name, stream_name))
        return None if runner is None else runner.consumers

    def is_held(self, account_name: str, stream_name: str) -> bool:
        """Whether a stream is being changed; False if it is not there."""
        runner = self._by_key.get((account_name, stream_name))
        return runner is not None and runner.is_held

    def when_free(self, account_name: str, stream_name: str, look: Callable[[], object]) -> None:
        """Call `look` when a stream, which need not be there, is not being changed."""
        runner = self._by_key.get((account_name, stream_name))
        if runner is None:
            look()
        else:
            runner.when_free(look)

    def pop(self, account_name: str, stream_name: str) -> StreamRunner:
        """Remove the runner of a stream, and return it."""
        runner = self._by_key.pop((account_name, stream_name))
        self._awaiting.pop(runner, None)
        self.timers.cancel(runner)
        return runner

    def empty(self, containers: list[Container]) -> None:
        """Free the memory of a deleted stream, in slices."""
        self._empty_on(Sliced(emptying(containers)))

    def _empty_on(self, rest: Sliced[None]) -> None:
        if rest.do_some():
            self.slices.add(lambda: self._empty_on(rest))

    # --- clock and disk ------------------------------------------------------------------------

    def now_ns(self) -> int:
        """The time, as messages carry it."""
        return self._clock.wall_ns()

    def failed(self, reason: str) -> None:
        """Log a failure of the disk and refuse the steps of the streams that are offline by now."""
        self._log.error(f"JetStream: {reason}")
        for runner in [*self._by_key.values()]:
            runner.give_up()

    def disk_is_full(self, reason: str, since_ns: int) -> None:
        """Log and advise that messages are refused from now on."""
        self._log.error(f"JetStream: {reason}")
        self.advisories.out_of_storage(reason, since_ns)
        self._driver.room_wanted()

    def disk_has_room(self, reason: str) -> None:
        """Log that messages are accepted again, and let streams do the work that had to wait."""
        if reason:
            self._log.info(f"JetStream: there is room on the disk again; it had {reason}")
        for runner in [*self._by_key.values()]:
            runner.go_on()

    @property
    def is_busy(self) -> bool:
        """Whether a sync is under way off the loop."""
        return self._driver.is_busy

    @property
    def last_commit(self) -> int:
        """The number of the commit that was made last."""
        return self._commits

    @property
    def next_commit(self) -> int:
        """The number of the commit that will cover what is written now."""
        return self._commits + (2 if self._driver.is_syncing else 1)

    def await_commit(self, runner: StreamRunner) -> None:
        """Ask for a commit that a stream waits for."""
        self._awaiting[runner] = None
        self.commit_wanted()

    def commit_wanted(self) -> None:
        """Ask for a commit."""
        if self._is_telling or self._is_stopped:
            self._is_commit_wanted = True
        else:
            self._driver.commit_wanted()

    def flush_wanted(self) -> None:
        """Ask for a write of messages that are only in memory."""
        self._driver.flush_wanted()

    def _committed(self) -> None:
        self._commits += 1
        self._is_telling = True
        try:
            for runner in [*self._awaiting]:
                runner.committed(self._commits)
                if not runner.is_waiting:
                    self._awaiting.pop(runner, None)
        finally:
            self._is_telling = False
            if self._is_commit_wanted and not self._is_stopped:
                # Not before the driver is through with this one: there is never more than one.
                self._is_commit_wanted = False
                self.scheduler.call_soon(self.commit_wanted)

    def note_due(self, runner: StreamRunner) -> None:
        """Plan the next due work of a stream."""
        due_ns = runner.next_due_ns()
        if due_ns:
            planned = self.timers.planned.get(runner)
            # A time that is too early is left: the stream is looked at then, and planned again.
            if planned is None or due_ns < planned[0]:
                self.timers.plan(runner, due_ns, self._run_due)

    def _run_due(self, runner: StreamRunner, now_ns: int) -> None:
        due_ns = runner.next_due_ns()
        if due_ns and due_ns <= now_ns:
            runner.run_due(now_ns)
        self.note_due(runner)
