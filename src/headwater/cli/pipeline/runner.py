"""Running jobs on Spark: one session, each job in a thread, and a clean end.

The main thread only waits, which makes Ctrl-C safe: a job's thread may be in the middle of
a call to the JVM, and an exception there would leave the call's answer for the next call to read.
The main thread stops the queries from outside, the jobs see their queries end, and the next run
goes on after the last commit.

Jobs run one after the other, as they stand in the file. Jobs that follow their stream never end on
their own, so they run last, together.
"""

import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import OperatingError
from headwater.cli.pipeline.checks import checks_of, require, sentence, spark_checks
from headwater.cli.pipeline.progress import Display, JobProgress, StopRequested
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.spark.jobs.pipeline_file import Job, SparkSettings
from headwater.spark.read.offsets import DataLossError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION: Final = "headwater-pipeline"
STOPPED: Final = "Stopped. What is done is done; the same command goes on from here."
LOG_LEVEL: Final = "spark.log.level"
# The option of the data source for the setting fail_on_data_loss of the jobs.
LOSS_OPTION: Final = "failOnDataLoss"
LOSS_ADVICE: Final = (
    "Go on with what there is: --no-fail-on-data-loss, or fail_on_data_loss = false in the file."
)
# A query stops between two batches or in the middle of one; a batch that takes longer than this is
# abandoned, and done again by the next run.
STOP_PATIENCE_S: Final = 60.0
STOP_AGAIN_S: Final = 1.0
# A signal that arrives just before the main thread begins to wait does not interrupt the wait, and
# Python runs the handler only once the wait has ended.
SIGNAL_CHECK_S: Final = 0.5
# A Python exception at the end of the traceback that Spark turns into one text.
_OUR_ERROR: Final = re.compile(r"\bheadwater\.[\w.]+Error: (.+)")
_ANY_ERROR: Final = re.compile(
    r"^(?:: |Caused by: )?[\w.]+(?:Error|Exception): (.+)$", re.MULTILINE
)
# Texts in place of a reason.
_EMPTY_REASONS: Final = ("Traceback (", "Job aborted")

RunJob = Callable[["SparkSession", Job, JobProgress], Any]


class Interruption(Enum):
    """Events from outside that end the jobs."""

    STOP = auto()


@dataclass(frozen=True)
class Outcome:
    """The end of one job: a result, an error, or (both None) a stop before it had either."""

    job: Job
    result: Any = None
    error: Exception | None = None
    was_stopped: bool = False


Events = queue.SimpleQueue[Outcome | Interruption]


class Work(AbstractContextManager["Work"]):
    """Jobs of one command: everything checked, Spark started, and at the end stopped."""

    def __init__(
        self, jobs: Sequence[Job], spark: SparkSettings, output: Output, as_json: bool
    ) -> None:
        self._jobs = jobs
        self._settings = spark
        self._output = output
        self._display = Display(output, hidden=as_json)
        self._stack = ExitStack()
        self._stopped: list[Job] = []
        self._session: SparkSession | None = None

    def __enter__(self) -> "Work":
        require(spark_checks())
        require(checks_of(self._jobs))
        with ExitStack() as stack:
            stack.enter_context(self._display)
            with self._display.waiting("Starting Spark"):
                self._session = stack.enter_context(spark_session(self._settings))
            # From here on it is ours to close.
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def session(self) -> "SparkSession":
        """The Spark that the jobs run on."""
        assert self._session is not None
        return self._session

    def outcomes(self, run: RunJob) -> Iterator[Outcome]:
        """Run the jobs and hand over how each ended; a failure is raised as CommandFailed."""
        if any(follows(job) for job in self._jobs):
            self._output.remark("Following; stop with Ctrl-C.")
        for outcome in run_jobs(self.session, self._jobs, self._display, run):
            if outcome.error is not None:
                raise failure_of(outcome) from outcome.error
            if outcome.was_stopped:
                self._stopped.append(outcome.job)
            with self._display.aside():
                yield outcome
        if self._display.stopping.is_set():
            self._output.remark(STOPPED)

    @property
    def exit_code(self) -> ExitCode:
        """Following is meant to be stopped; everything else was stopped too early."""
        if not self._display.stopping.is_set():
            return ExitCode.OK
        is_expected = bool(self._stopped) and all(follows(job) for job in self._stopped)
        return ExitCode.OK if is_expected else ExitCode.INTERRUPTED


@contextmanager
def spark_session(settings: SparkSettings) -> Iterator["SparkSession"]:
    """A Spark of our own, stopped at the end; one that is running already is used, and stays."""
    from pyspark.sql import SparkSession

    from headwater.spark.session import session

    is_ours = SparkSession.getActiveSession() is None
    memory = {} if settings.memory is None else {"driver_memory": settings.memory}
    try:
        spark = session(settings.master, APPLICATION, config=settings.conf, **memory)
    except OperatingError as error:
        raise CommandFailed(sentence(str(error))) from error
    except Exception as error:
        raise CommandFailed(
            f"Spark does not start: {reason_in(str(error))}", "Look at --master and --conf."
        ) from error
    if is_ours and LOG_LEVEL not in settings.conf:
        # Spark logs a page about a failure; the command reports its one line in the end.
        spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


def run_jobs(
    spark: "SparkSession", jobs: Sequence[Job], display: Display, run: RunJob
) -> Iterator[Outcome]:
    """Run the jobs and yield the outcome of each when it ends; stops after the first failure."""
    finite = [[job] for job in jobs if not follows(job)]
    endless = [job for job in jobs if follows(job)]
    events: Events = queue.SimpleQueue()
    with interruptions(events):
        for together in [*finite, *([endless] if endless else [])]:
            for outcome in run_together(spark, together, display, run, events):
                yield outcome
                if outcome.error is not None:
                    return
            if display.stopping.is_set():
                return


def follows(job: Job) -> bool:
    """Whether the job goes on until it is stopped."""
    return bool(getattr(job.settings, "follow", False))


def run_together(
    spark: "SparkSession", jobs: Sequence[Job], display: Display, run: RunJob, events: Events
) -> Iterator[Outcome]:
    """Run jobs side by side; the first failure and Ctrl-C end them all."""
    for job in jobs:
        # A thread that does not end in time must not keep the command from ending.
        threading.Thread(
            target=lambda job=job: events.put(attempt(spark, job, display, run)),
            name=job.name,
            daemon=True,
        ).start()
    ended = 0
    while ended < len(jobs):
        event = next_end(spark, events) if display.stopping.is_set() else next_event(events)
        if event is None:
            return
        if event is Interruption.STOP:
            stop(spark, display)
            continue
        ended += 1
        if event.error is not None and not display.stopping.is_set():
            stop(spark, display)
        yield event


def next_event(events: Events) -> Outcome | Interruption:
    """The next event; the wait ends now and then, so that no handler of a signal is held up."""
    while True:
        with suppress(queue.Empty):
            return events.get(timeout=SIGNAL_CHECK_S)


def next_end(spark: "SparkSession", events: Events) -> Outcome | None:
    """The next job that has ended after a stop; None if that takes too long."""
    deadline = time.monotonic() + STOP_PATIENCE_S
    while time.monotonic() < deadline:
        try:
            event = events.get(timeout=STOP_AGAIN_S)
        except queue.Empty:
            # A query may have been about to start when the others were stopped.
            stop_queries(spark)
            continue
        if isinstance(event, Outcome):
            return event
    return None


def attempt(spark: "SparkSession", job: Job, display: Display, run: RunJob) -> Outcome:
    """Run one job, in the thread that is its own."""
    progress = display.progress_of(job.name)
    try:
        result = run(spark, job, progress)
        return Outcome(job, result, was_stopped=display.stopping.is_set())
    except StopRequested:
        return Outcome(job, was_stopped=True)
    except Exception as error:
        if display.stopping.is_set():
            # A cancelled job fails, and its error says nothing new.
            return Outcome(job, was_stopped=True)
        return Outcome(job, error=error)
    finally:
        progress.end()


def stop(spark: "SparkSession", display: Display) -> None:
    """Make every job end soon.

    A job whose query is stopped sees it end, does what belongs to its end, and has a result. Any
    other job is cut off, at its next report or in the middle of a batch.
    """
    display.stopping.set()
    if not stop_queries(spark):
        display.cutting_off.set()
        spark.sparkContext.cancelAllJobs()


def stop_queries(spark: "SparkSession") -> int:
    """Stop the streaming queries there are; how many there were."""
    queries = spark.streams.active
    for query in queries:
        query.stop()
    return len(queries)


@contextmanager
def interruptions(events: Events) -> Iterator[None]:
    """Make Ctrl-C and a polite kill an event like others; the second time they end the command.

    Spark has put a handler of its own in place, which fails the batches under way. An exception
    from a handler would come out wherever the main thread happens to be; an event waits.
    """
    count = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt
        # The one kind of queue that may be used by a handler which interrupts its own use.
        events.put(Interruption.STOP)

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def failure_of(outcome: Outcome) -> CommandFailed:
    """The failure of a job, in a line."""
    error = outcome.error
    if isinstance(error, CommandFailed):
        return error
    text = str(error)
    if not isinstance(error, OperatingError):
        text = reason_in(text)
    is_loss = isinstance(error, DataLossError) or LOSS_OPTION in text
    return CommandFailed(f"{outcome.job.name}: {text}", LOSS_ADVICE if is_loss else "")


def reason_in(text: str) -> str:
    """The line that says why, out of the tracebacks that Spark reports an error with."""
    if found := _OUR_ERROR.findall(text):
        return str(found[-1])
    reasons = [each for each in _ANY_ERROR.findall(text) if not each.startswith(_EMPTY_REASONS)]
    return (reasons or text.strip().splitlines() or ["it failed without a reason"])[0]
