"""Upkeep: compaction, journal rewrites and checkpoints while a server runs, a little at a time.

At intervals the logs are inspected one after the other. The first that has work to do gets it; then
there is a pause, and the next ones are inspected. There are three kinds of work, in order of their
value:

* a sealed segment of which most was deleted is rewritten, which frees disk space;
* a journal that has grown to several times its length, or whose callers' entries have grown to
  several times their last necessary size, is rewritten in a shorter form;
* the index of a log with many new messages is written to a checkpoint, so that opening the log
  after a crash reads only later messages.

One piece of work is done at a time. Long steps, and those that wait for the disk, run off the loop;
the rest is bounded, however large the log is. A log that changes meanwhile decides itself whether
the result still fits. A failure is reported, and that log is left alone for a while; the other logs
are not affected.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.store.disk.disposal import Close, Dispose
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import StoreError
from headwater.store.store import Store
from headwater.store.upkeep.checkpoint_writing import CheckpointWriting
from headwater.store.upkeep.log_sync import LogSync

# Between two rounds over all logs, between two pieces of work, and the logs inspected in a row.
LOOK_S: Final = 30.0
REST_S: Final = 1.0
LOGS_AT_A_TIME: Final = 1000

# A shorter journal is read quickly; a longer one must have grown by this factor.
SHORT_JOURNAL_BYTES: Final = 8 * 1024 * 1024
JOURNAL_GROWTH_MIN: Final = 4
# Callers read their entries one by one when a log is opened: the size that is read quickly.
SHORT_CALLER_BYTES: Final = 1024 * 1024

# The messages that are read quickly without a checkpoint, and the part of all that it must save.
FEW_MESSAGES: Final = 50_000
UNCOVERED_PART_MIN: Final = 0.5
# A checkpoint holds all messages: the more there are, the less often it is written.
CHECKPOINT_REST_S_PER_MESSAGE: Final = LOOK_S / 1_000_000

# The pause of a log after a failure.
FAILURE_REST_S: Final = 600.0


class Task(Protocol):
    """A piece of work on a log."""

    def next_step(self) -> Callable[[], object] | None:
        """The next step to run off the loop, which does not raise; None at the end.

        Raises StoreError if the work cannot be completed.
        """
        ...

    def finish(self) -> bool:
        """Let the log adopt the result. Returns whether it still fits. Raises StoreError."""
        ...

    def abandon(self) -> None:
        """Drop the work; a step off the loop may still be running."""
        ...


@final
class RewriteTask:
    """Rewrites a file in one step, and then puts the new one in place.

    In between the log is synced off the loop, so that the last step has little to wait for.
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
        """Put the new file in place."""
        return self._finish()

    def abandon(self) -> None:
        """Keep the current file."""
        self._abandon()


@final
class CheckpointTask:
    """Writes the index to a checkpoint, piece by piece."""

    __slots__ = ("_dispose", "_log", "_work")

    def __init__(self, log: FileLog, work: CheckpointWriting, dispose: Dispose) -> None:
        self._log = log
        self._work = work
        self._dispose = dispose

    def next_step(self) -> Callable[[], object] | None:
        """Copy a piece on the loop, write it off the loop."""
        return self._work.write_piece if self._work.copy_piece() else None

    def finish(self) -> bool:
        """Put the checkpoint in place."""
        return self._log.checkpoints.finish(self._work, self._dispose)

    def abandon(self) -> None:
        """Keep the previous checkpoint."""
        self._log.checkpoints.abandon(self._work)


def begin_compaction(log: FileLog, first_sequence: int, dispose: Dispose) -> Task:
    """Start to rewrite a segment. Raises StoreError."""
    work = log.compactions.begin(first_sequence)
    return RewriteTask(
        log,
        work.run,
        lambda: log.compactions.finish(work, dispose),
        lambda: log.compactions.abandon(work),
    )


def begin_journal_rewrite(log: FileLog) -> Task:
    """Start to rewrite the journal. Raises StoreError."""
    work = log.begin_journal_rewrite()
    return RewriteTask(
        log,
        work.run,
        lambda: log.journal_rewrites.finish(work),
        lambda: log.journal_rewrites.abandon(work),
    )


def begin_checkpoint(log: FileLog, dispose: Dispose) -> Task:
    """Start to write a checkpoint. Raises StoreError."""
    return CheckpointTask(log, log.checkpoints.begin(), dispose)


@final
class Upkeep:
    """The upkeep of a store. A log that fails goes offline; `failed` is called with the reason."""

    __slots__ = (
        "_failed",
        "_few_messages",
        "_has_worked",
        "_left_alone_until_s",
        "_no_checkpoint_until_s",
        "_scheduler",
        "_short_caller_bytes",
        "_short_journal_bytes",
        "_store",
        "_task",
        "_timer",
        "_to_inspect",
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
        # The time that has passed here, without the time of the work.
        self._waited_s = 0.0
        # Streams that this round has not inspected yet, the next one last.
        self._to_inspect: list[str] = []
        self._has_worked = False
        self._task: Task | None = None
        # By identity of the log.
        self._left_alone_until_s: dict[bytes, float] = {}
        self._no_checkpoint_until_s: dict[bytes, float] = {}

    def start(self) -> None:
        """Start the rounds."""
        self._wait(LOOK_S)

    def stop(self) -> None:
        """Start no further work, and abandon the current one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.abandon()
            self._task = None

    # --- rounds --------------------------------------------------------------------------------

    def _wait(self, delay_s: float) -> None:
        self._waited_s += delay_s
        self._timer = self._scheduler.call_later(delay_s, self._inspect)

    def _inspect(self) -> None:
        self._timer = None
        if not self._to_inspect:
            self._begin_round()
        for _ in range(min(len(self._to_inspect), LOGS_AT_A_TIME)):
            if self._begin_task(self._to_inspect.pop()):
                return
        is_idle = not self._to_inspect and not self._has_worked
        self._wait(LOOK_S if is_idle else REST_S)

    def _begin_round(self) -> None:
        self._to_inspect = [*reversed(self._store.logs)]
        self._has_worked = False
        for until_s in (self._left_alone_until_s, self._no_checkpoint_until_s):
            for identity in [key for key, time_s in until_s.items() if time_s <= self._waited_s]:
                del until_s[identity]

    def _begin_task(self, name: str) -> bool:
        """Start the work that a log needs, if any. Returns whether it did."""
        log = self._store.logs.get(name)
        if log is None or log.offline or log.is_deleting or log.is_held:
            return False
        if log.identity in self._left_alone_until_s:
            return False
        try:
            if log.emptied.are_possible:
                log.drop_empty_segments()
                self._has_worked |= log.emptied.are_possible
            task = self._due_task(log)
        except StoreError as error:
            self._report(log, error)
            return False
        if task is None:
            return False
        self._task = task
        self._continue(task, name, log)
        return True

    def _due_task(self, log: FileLog) -> Task | None:
        segments = log.compactions.worthwhile()
        if segments:
            return begin_compaction(log, segments[0], self._dispose)
        if log.is_full:
            # Only compaction frees disk space.
            return None
        if self._is_journal_long(log):
            return begin_journal_rewrite(log)
        if self._is_checkpoint_old(log) and log.identity not in self._no_checkpoint_until_s:
            rest_s = log.messages * CHECKPOINT_REST_S_PER_MESSAGE
            self._no_checkpoint_until_s[log.identity] = self._waited_s + rest_s
            return begin_checkpoint(log, self._dispose)
        return None

    def _is_journal_long(self, log: FileLog) -> bool:
        """Whether a rewrite would shorten the journal by much."""
        journal = log.journal
        if log.caller_entries is not None:
            grown_bytes = journal.caller_bytes_rewritten * JOURNAL_GROWTH_MIN
            if journal.caller_bytes > max(grown_bytes, self._short_caller_bytes):
                return True
        grown_bytes = journal.bytes_rewritten * JOURNAL_GROWTH_MIN
        return journal.size > max(grown_bytes, self._short_journal_bytes)

    def _is_checkpoint_old(self, log: FileLog) -> bool:
        """Whether opening the log would have to read many messages without a checkpoint."""
        uncovered = min(log.last_sequence - log.checkpoints.last_sequence, log.messages)
        return uncovered > max(log.messages * UNCOVERED_PART_MIN, self._few_messages)

    # --- work ----------------------------------------------------------------------------------

    def _continue(self, task: Task, name: str, log: FileLog) -> None:
        """Run the next step of the work, or end it."""
        if self._task is not task:
            # Stopped and abandoned meanwhile.
            return
        if self._store.logs.get(name) is not log or log.offline:
            task.abandon()
        elif self._take_step(task, name, log):
            return
        self._task = None
        self._has_worked = True
        self._wait(REST_S)

    def _take_step(self, task: Task, name: str, log: FileLog) -> bool:
        """Start the next step. Returns whether there is one; otherwise the work has ended."""
        try:
            step = task.next_step()
        except StoreError as error:
            task.abandon()
            self._report(log, error)
            return False
        if step is not None:
            self._scheduler.offload(step, lambda _: self._continue(task, name, log))
            return True
        try:
            if not task.finish():
                # The change that came in between may come again.
                self._leave_alone(log, LOOK_S)
        except StoreError as error:
            self._report(log, error)
        return False

    def _dispose(self, close: Close) -> None:
        def close_file() -> None:
            try:
                close()
            except OSError:
                # The file has no name any more: nothing can be lost.
                pass

        self._scheduler.offload(close_file, lambda _: None)

    def _report(self, log: FileLog, error: StoreError) -> None:
        self._leave_alone(log, FAILURE_REST_S)
        self._failed(str(error))

    def _leave_alone(self, log: FileLog, rest_s: float) -> None:
        self._left_alone_until_s[log.identity] = self._waited_s + rest_s
