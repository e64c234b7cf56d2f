"""What keeps the logs of a store in order while a server runs: in turn, a little at a time.

Every so often the logs are looked at one after the other. The first that wants something done gets
it; then there is a rest, and the next ones are looked at. There are three things to do, in order of
what they are worth:

* a sealed segment most of which was deleted is written anew, which gives its room back;
* a journal that has grown to several times its length, or what callers wrote there to several
  times what of it was true the last time, is written anew in fewer words;
* the index of a log that has got many messages is written down, so that opening it after a crash
  reads what came later and not everything.

One thing is done at a time. What takes long, or waits for the disk, is done off the loop; what is
left for the loop is bounded, however large the log is. What happens to the log meanwhile is its own
affair: it takes in only what still fits. What can not be done is told, and that log is left alone
for a while; the others are not concerned.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.store.log.file_log import FileLog
from headwater.store.log.log_files import Close, Dispose
from headwater.store.log.log_sync import LogSync
from headwater.store.log.message_log import StoreError
from headwater.store.store import Store
from headwater.store.upkeep.checkpoint_writing import CheckpointWriting

# Between two looks at all logs; between two things done, and between so many logs looked at.
LOOK_S: Final = 30.0
REST_S: Final = 1.0
LOGS_AT_A_TIME: Final = 1000

# A journal up to this long is read in no time; one that is longer is to have grown by that factor.
SHORT_JOURNAL_BYTES: Final = 8 * 1024 * 1024
JOURNAL_GROWTH_MIN: Final = 4
# The same for what is in it of callers who say what of that is still true: they go through all of
# it one by one when a log is opened.
SHORT_CALLER_BYTES: Final = 1024 * 1024

# So many messages are read in no time without a checkpoint; and it is to spare that part of all.
FEW_MESSAGES: Final = 50_000
UNCOVERED_PART_MIN: Final = 0.5
# A checkpoint holds all messages: the more there are, the less often it is written.
CHECKPOINT_REST_S_PER_MESSAGE: Final = LOOK_S / 1_000_000

# How long a log is left alone after something went wrong.
FAILURE_REST_S: Final = 600.0


class Task(Protocol):
    """Something that is being done to a log."""

    def next_step(self) -> Callable[[], object] | None:
        """What to do next off the loop, which does not raise; None if there is no more.

        Raises StoreError where there is no sense in going on.
        """
        ...

    def finish(self) -> bool:
        """Let the log take in what was done; whether it still fits. Raises StoreError."""
        ...

    def abandon(self) -> None:
        """It is not wanted any more; a step off the loop may still be going on."""
        ...


@final
class RewriteTask:
    """A file is written anew in one step, and then put in place.

    Before it is, the log is synced off the loop: what the end has to wait for is little then.
    """

    __slots__ = ("_abandon", "_finish", "_is_run", "_log", "_problem", "_run", "_sync")

    def __init__(
        self,
        log: FileLog,
        run: Callable[[], object],
        finish: Callable[[], bool],
        abandon: Callable[[], object],
    ) -> None:
        self._log = log
        self._run = run
        self._finish = finish
        self._abandon = abandon
        self._is_run = False
        self._problem: StoreError | None = None
        self._sync: LogSync | None = None

    def next_step(self) -> Callable[[], object] | None:
        """Write, then sync."""
        if not self._is_run:
            self._is_run = True
            return self._attempt
        if self._problem is not None:
            raise self._problem
        if self._sync is None:
            self._sync = self._log.begin_sync()
            return self._sync.run
        self._log.finish_sync(self._sync)
        return None

    def _attempt(self) -> None:
        try:
            self._run()
        except StoreError as error:
            self._problem = error

    def finish(self) -> bool:
        """Put it in place."""
        return self._finish()

    def abandon(self) -> None:
        """Leave what is in place."""
        self._abandon()


@final
class CheckpointTask:
    """The index is written down, piece by piece."""

    __slots__ = ("_dispose", "_log", "_work")

    def __init__(self, log: FileLog, work: CheckpointWriting, dispose: Dispose) -> None:
        self._log = log
        self._work = work
        self._dispose = dispose

    def next_step(self) -> Callable[[], object] | None:
        """Copy a piece here, write it there."""
        return self._work.write if self._work.take() else None

    def finish(self) -> bool:
        """Put it in place."""
        return self._log.finish_checkpoint(self._work, self._dispose)

    def abandon(self) -> None:
        """Leave the one before."""
        self._log.abandon_checkpoint(self._work)


def begin_compaction(log: FileLog, first_sequence: int, dispose: Dispose) -> Task:
    """Write a segment anew. Raises StoreError."""
    work = log.begin_compaction(first_sequence)
    return RewriteTask(
        log,
        work.run,
        lambda: log.finish_compaction(work, dispose),
        lambda: log.abandon_compaction(work),
    )


def begin_journal_rewrite(log: FileLog) -> Task:
    """Write the journal anew. Raises StoreError."""
    work = log.begin_journal_rewrite()
    return RewriteTask(
        log,
        work.run,
        lambda: log.finish_journal_rewrite(work),
        lambda: log.abandon_journal_rewrite(work),
    )


def begin_checkpoint(log: FileLog, dispose: Dispose) -> Task:
    """Write the index down. Raises StoreError."""
    return CheckpointTask(log, log.begin_checkpoint(), dispose)


@final
class Upkeep:
    """Looks after the logs of a store. A log that fails takes itself offline; `failed` is told."""

    __slots__ = (
        "_failed",
        "_few_messages",
        "_has_done_something",
        "_left_alone_until_s",
        "_no_checkpoint_until_s",
        "_scheduler",
        "_short_caller_bytes",
        "_short_journal_bytes",
        "_store",
        "_task",
        "_timer",
        "_to_look_at",
        "_waited_s",
    )

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        failed: Callable[[str], object],
        short_journal_bytes: int = SHORT_JOURNAL_BYTES,
        few_messages: int = FEW_MESSAGES,
        short_caller_bytes: int = SHORT_CALLER_BYTES,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._failed = failed
        self._short_journal_bytes = short_journal_bytes
        self._short_caller_bytes = short_caller_bytes
        self._few_messages = few_messages
        self._timer: TimerHandle | None = None
        # How much time has passed here, but for what was used to do something.
        self._waited_s = 0.0
        # Streams that this look has not come to yet, the next one last.
        self._to_look_at: list[str] = []
        self._has_done_something = False
        self._task: Task | None = None
        # By identity of the log.
        self._left_alone_until_s: dict[bytes, float] = {}
        self._no_checkpoint_until_s: dict[bytes, float] = {}

    def start(self) -> None:
        """Look after the logs from now on."""
        self._wait(LOOK_S)

    def stop(self) -> None:
        """Begin nothing more, and leave nothing half done."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.abandon()
            self._task = None

    # --- looking -------------------------------------------------------------------------------

    def _wait(self, delay_s: float) -> None:
        self._waited_s += delay_s
        self._timer = self._scheduler.call_later(delay_s, self._look_on)

    def _look_on(self) -> None:
        self._timer = None
        if not self._to_look_at:
            self._begin_look()
        for _ in range(min(len(self._to_look_at), LOGS_AT_A_TIME)):
            if self._begin(self._to_look_at.pop()):
                return
        is_idle = not self._to_look_at and not self._has_done_something
        self._wait(LOOK_S if is_idle else REST_S)

    def _begin_look(self) -> None:
        self._to_look_at = [*reversed(self._store.logs)]
        self._has_done_something = False
        for until_s in (self._left_alone_until_s, self._no_checkpoint_until_s):
            for identity in [key for key, time_s in until_s.items() if time_s <= self._waited_s]:
                del until_s[identity]

    def _begin(self, name: str) -> bool:
        """Begin what a log wants done, if anything."""
        log = self._store.logs.get(name)
        if log is None or log.offline or log.is_deleting or log.is_held:
            return False
        if log.identity in self._left_alone_until_s:
            return False
        try:
            task = self._due(log)
        except StoreError as error:
            self._tell(log, error)
            return False
        if task is None:
            return False
        self._task = task
        self._go_on(task, name, log)
        return True

    def _due(self, log: FileLog) -> Task | None:
        segments = log.compactable()
        if segments:
            return begin_compaction(log, segments[0], self._dispose)
        if log.is_full:
            # Neither of the others gives room back.
            return None
        if self._is_journal_long(log):
            return begin_journal_rewrite(log)
        if self._is_checkpoint_old(log) and log.identity not in self._no_checkpoint_until_s:
            rest_s = log.messages * CHECKPOINT_REST_S_PER_MESSAGE
            self._no_checkpoint_until_s[log.identity] = self._waited_s + rest_s
            return begin_checkpoint(log, self._dispose)
        return None

    def _is_journal_long(self, log: FileLog) -> bool:
        """Whether the journal says in many words what could be said in few."""
        if log.caller_entries is not None:
            grown_bytes = log.caller_bytes_anew * JOURNAL_GROWTH_MIN
            if log.caller_bytes > max(grown_bytes, self._short_caller_bytes):
                return True
        grown_bytes = log.journal_bytes_anew * JOURNAL_GROWTH_MIN
        return log.journal_bytes > max(grown_bytes, self._short_journal_bytes)

    def _is_checkpoint_old(self, log: FileLog) -> bool:
        """Whether opening the log would have to read much that a checkpoint could tell."""
        uncovered = min(log.last_sequence - log.checkpoint_sequence, log.messages)
        return uncovered > max(log.messages * UNCOVERED_PART_MIN, self._few_messages)

    # --- doing ---------------------------------------------------------------------------------

    def _go_on(self, task: Task, name: str, log: FileLog) -> None:
        """Take the next step of what is being done, or end it."""
        if self._task is not task:
            # Stopped, and given up then.
            return
        if self._store.logs.get(name) is not log or log.offline:
            task.abandon()
        elif self._take_step(task, name, log):
            return
        self._task = None
        self._has_done_something = True
        self._wait(REST_S)

    def _take_step(self, task: Task, name: str, log: FileLog) -> bool:
        """Whether there is one; otherwise it is over."""
        try:
            step = task.next_step()
        except StoreError as error:
            task.abandon()
            self._tell(log, error)
            return False
        if step is not None:
            self._scheduler.offload(step, lambda _: self._go_on(task, name, log))
            return True
        try:
            if not task.finish():
                # Whatever came in between may come again.
                self._leave_alone(log, LOOK_S)
        except StoreError as error:
            self._tell(log, error)
        return False

    def _dispose(self, close: Close) -> None:
        def close_file() -> None:
            try:
                close()
            except OSError:
                # It has no name any more: there is nothing to be lost.
                pass

        self._scheduler.offload(close_file, lambda _: None)

    def _tell(self, log: FileLog, error: StoreError) -> None:
        self._leave_alone(log, FAILURE_REST_S)
        self._failed(str(error))

    def _leave_alone(self, log: FileLog, rest_s: float) -> None:
        self._left_alone_until_s[log.identity] = self._waited_s + rest_s
