"""All streams of a server at work, and the parts that they share.

One driver of syncs serves all streams, and one timer each serves the streams and the consumers that
have work to do at a time.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, final

from headwater.base.emptying import Container, emptying
from headwater.base.sliced import Sliced
from headwater.jetstream.committers import (
    Committer,
    Deferred,
    StreamEntries,
    Synced,
    Written,
)
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.records import Record
from headwater.jetstream.tail import TailLimits
from headwater.runtime.environment import Environment
from headwater.runtime.file_watch import FileWatch
from headwater.runtime.fsync import SyncDriver
from headwater.runtime.upkeep import Upkeep
from headwater.server.core.broker import Broker
from headwater.server.core.ingest import RoomLimits
from headwater.server.core.slice_turns import SliceTurns
from headwater.server.log import Log
from headwater.server.streams.ack_waits import AckTimers
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.awaited_reads import AwaitedReads
from headwater.server.streams.consumer_runner import DUE_MAX, TIMER_S_MIN, ConsumerRunner
from headwater.server.streams.due_times import DueTimes
from headwater.server.streams.election_listener import ElectionListener, NoElections
from headwater.server.streams.follower import StreamFollower
from headwater.server.streams.replica_tail import LostTail
from headwater.server.streams.runner import StreamRunner
from headwater.server.streams.storage.disk_watch import DiskWatch
from headwater.store.errors import StoreError
from headwater.store.log.file_log import FileLog
from headwater.store.store import Store, SyncMode

# The timer for due work is set at least this far ahead.
DUE_S_MIN: Final = 0.010
# And at most this far, as long as work is planned: the clock may be set forward, and timers do not
# follow it.
DUE_S_MAX: Final = 1.0
# Entries that nobody waits for are committed after at most this time.
UNAWAITED_S_MAX: Final = 0.005


class GroupDriver(Protocol):
    """The consensus groups of a server, whose logs are in the store of its streams."""

    def committed(self) -> None:
        """Note that the store has written, and synced where it was asked to."""
        ...

    def failed(self) -> None:
        """Note that the disk has failed."""
        ...


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
        ack_timeout_ns: int,
        tail_limits: TailLimits,
    ) -> None:
        self.broker = broker
        self.advisories = advisories
        self.log_warning = log.warn
        self.room_limits = room_limits
        self._by_key: dict[tuple[str, str], StreamRunner] = {}
        # The followers of streams that other servers lead, likewise.
        self.followers: dict[tuple[str, str], StreamFollower] = {}
        # The runners with steps or changes that wait for a commit.
        self._awaiting: dict[StreamRunner, None] = {}
        self._store = store
        # The time, as messages carry it. Not a method, which would be one more call for a publish.
        self.now_ns = environment.clock.wall_ns
        self.scheduler = environment.scheduler
        self.slices = SliceTurns(self.scheduler)
        self._log = log
        self._driver = SyncDriver(
            store,
            self.scheduler,
            sync_interval_s,
            self.want_commit,
            self._committed,
            self.failed,
            self._no_room,
        )
        broker.turn.commit = self._commit
        self._upkeep = Upkeep(store, self.scheduler, self.failed)
        self.files = FileWatch(store, self.scheduler, self.failed)
        self.disk = DiskWatch(store.room, self.scheduler, self.now_ns, self)
        self.timers: DueTimes[StreamRunner] = DueTimes(
            self.scheduler, self.now_ns, delay_s_min=DUE_S_MIN, delay_s_max=DUE_S_MAX
        )
        self.consumer_timers: DueTimes[Consumer] = DueTimes(
            self.scheduler, self.now_ns, delay_s_min=TIMER_S_MIN, turn_max=DUE_MAX
        )
        self.tail_limits = tail_limits
        self.ack_timers = AckTimers(self.scheduler, environment.clock, ack_timeout_ns)
        # The consensus groups, on a server of a cluster, and the part that announces elections.
        self.groups: GroupDriver | None = None
        self.elections: ElectionListener = NoElections()
        # Functions to be called when there is room on the disk.
        self._waiting_for_room: list[Callable[[], object]] = []
        # Whether a commit of entries that nobody waits for is planned.
        self._is_commit_planned = False
        # A commit that is wanted after the stop is not made beside the loop.
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
        self.ack_timers.due.stop()
        for runner in self._by_key.values():
            runner.reads.answer_all()
        for follower in self.followers.values():
            follower.reads.answer_all()
        self.timers.stop()
        # From here on no sync begins beside the loop: the files are closed next.
        self._is_stopped = True
        self._is_commit_wanted = True
        for runner in self._by_key.values():
            runner.finish_work()
        self.broker.turn.decide_gathered()
        for runner in self._by_key.values():
            runner.finish_work()
        for runner in self._by_key.values():
            runner.consumers.flush()
        try:
            # Once more for the steps that the first commit releases.
            while self._is_commit_wanted:
                self._is_commit_wanted = False
                self._store.commit()
                self._committed()
                for runner in self._by_key.values():
                    runner.finish_work()
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
        member = self._member(account_name, stream_name)
        return member is not None and member.is_held

    def _member(self, account_name: str, stream_name: str) -> StreamRunner | StreamFollower | None:
        """The leader or the follower of a stream that is here."""
        key = account_name, stream_name
        return self._by_key.get(key) or self.followers.get(key)

    def find_reads(self, account_name: str, stream_name: str) -> AwaitedReads | None:
        """The reads that wait until a stream shows a sequence, if the stream is there."""
        member = self._member(account_name, stream_name)
        return None if member is None else member.reads

    def when_free(self, account_name: str, stream_name: str, look: Callable[[], object]) -> None:
        """Call `look` when a stream, which need not be there, is not being changed."""
        member = self._member(account_name, stream_name)
        if member is None:
            look()
        else:
            member.when_free(look)

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

    def failed(self, reason: str) -> None:
        """Log a failure of the disk and refuse the steps of the streams that are offline by now."""
        self._log.error(f"JetStream: {reason}")
        for runner in [*self._by_key.values()]:
            runner.give_up()
        if self.groups is not None and self._store.groups.offline:
            self.groups.failed()

    def tell_lost(self, account_name: str, stream_name: str, lost: LostTail) -> None:
        """Log and advise that the messages of a tail are not in their stream any more."""
        self._log.error(f"Stream '{account_name} > {stream_name}': {lost.text}")
        self.advisories.tail_lost(account_name, stream_name, lost)

    def disk_is_full(self, reason: str, since_ns: int) -> None:
        """Log and advise that messages are refused from now on."""
        self._log.error(f"JetStream: {reason}")
        self.advisories.out_of_storage(reason, since_ns)
        self._driver.room_wanted()

    def disk_has_room(self, reason: str) -> None:
        """Log that messages are accepted again, and let streams do the work that had to wait."""
        if reason:
            self._log.info(f"JetStream: there is room on the disk again; it had {reason}")
        self._driver.room_found()
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for go_on in waiting:
            go_on()
        for runner in [*self._by_key.values()]:
            runner.go_on()

    def when_room(self, go_on: Callable[[], object]) -> None:
        """Call a function, once, when there is room on a disk that is full."""
        self._waiting_for_room.append(go_on)

    @property
    def is_busy(self) -> bool:
        """Whether a sync is under way off the loop."""
        return self._driver.is_busy

    def new_committer(self, runner: StreamRunner, mode: SyncMode | None) -> Committer[Record]:
        """The committer for a sync mode; a stream in memory has none."""
        log = runner.stream.log
        if mode is SyncMode.ALWAYS and isinstance(log, FileLog):
            return Synced(
                log,
                StreamEntries(runner.stream, log).add,
                partial(self._await_commit, runner),
                self._await_commit_soon,
            )
        return Deferred(self._driver.flush_wanted) if mode is SyncMode.ASYNC else Written()

    def _await_commit(self, runner: StreamRunner) -> None:
        self._awaiting[runner] = None
        self.want_commit()

    def _await_commit_soon(self) -> None:
        """Have entries that nobody waits for committed a few milliseconds later."""
        if not self._is_commit_planned and not self._is_stopped:
            self._is_commit_planned = True
            self.scheduler.call_later(UNAWAITED_S_MAX, self._commit_soon)

    def _commit_soon(self) -> None:
        self._is_commit_planned = False
        self.want_commit()

    def want_commit(self) -> None:
        """Ask for a commit when everything of the turn is decided."""
        if self._is_stopped:
            self._is_commit_wanted = True
        else:
            self.broker.turn.want_commit()

    def _commit(self) -> None:
        if not self._is_stopped:
            self._driver.commit()

    def flush_wanted(self) -> None:
        """Ask for a write of messages that are only in memory."""
        self._driver.flush_wanted()

    def _committed(self) -> None:
        for runner in [*self._awaiting]:
            runner.committed()
            if not runner.is_waiting:
                self._awaiting.pop(runner, None)
        if self.groups is not None:
            self.groups.committed()

    def _no_room(self, is_final: bool) -> None:
        """Refuse proposals whose entries the disk has no room for: those with messages, or all."""
        for runner in [*self._awaiting]:
            runner.refuse_unwritten(is_final)

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
