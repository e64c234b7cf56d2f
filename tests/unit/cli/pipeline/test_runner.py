"""The runner of the pipeline's commands: jobs in threads, a clean stop, and printed results."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from headwater.cli.pipeline import render
from headwater.cli.pipeline.checks import Check
from headwater.cli.pipeline.jobs import UnionResult
from headwater.cli.pipeline.progress import Display
from headwater.cli.pipeline.runner import Outcome, failure_of, reason_in, run_jobs
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.spark.jobs.pipeline_file import Job
from headwater.spark.jobs.progress import Progress
from headwater.spark.read.offsets import DataLossError

PATIENCE_S = 30


# --- jobs in threads ----------------------------------------------------------------------------


@dataclass
class Query:
    """A streaming query as far as the runner knows one: it is stopped from outside."""

    session: "Session"
    stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        self.session.active.remove(self)
        self.stopped.set()


@dataclass
class Session:
    """A Spark session as far as the runner knows one."""

    active: list[Query] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def streams(self) -> "Session":
        return self

    @property
    def sparkContext(self) -> "Session":
        return self

    def cancelAllJobs(self) -> None:
        self.cancelled.set()

    def createDataFrame(self, rows: object, schema: str) -> None: ...

    def query(self) -> Query:
        self.active.append(Query(self))
        return self.active[-1]


@dataclass(frozen=True)
class Settings:
    """The settings of a job whose work is a function of the test."""

    work: Callable[[Session, Progress], Any]
    follow: bool = False

    def check(self) -> None: ...


@pytest.fixture
def display() -> Iterator[Display]:
    with Display(Output(), hidden=True) as shown:
        yield shown


def outcomes(display: Display, session: Session, *jobs: Settings) -> list[Outcome]:
    named = [Job(f"job{number}", "test", each) for number, each in enumerate(jobs)]

    def run(spark: Any, job: Job, progress: Progress) -> Any:
        return cast(Settings, job.settings).work(spark, progress)

    return list(run_jobs(cast(Any, session), named, display, run))


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_jobs_run_one_after_the_other(display: Display) -> None:
    done: list[str] = []

    def work(spark: Session, progress: Progress) -> int:
        done.append(threading.current_thread().name)
        return len(done)

    found = outcomes(display, Session(), *[Settings(work)] * 3)
    assert [each.result for each in found] == [1, 2, 3]
    assert done == ["job0", "job1", "job2"]


def test_after_a_failure_nothing_more_is_begun(display: Display) -> None:
    def fail(spark: Session, progress: Progress) -> None:
        raise DataLossError("gone")

    first, second = outcomes(
        display, Session(), Settings(lambda spark, progress: 1), Settings(fail), Settings(fail)
    )
    assert first.result == 1
    assert isinstance(second.error, DataLossError)


def test_jobs_that_follow_come_last_and_run_together(display: Display) -> None:
    session = Session()
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def follow(spark: Session, progress: Progress) -> str:
        query = spark.query()
        if both.wait() == 0:
            press_ctrl_c()
        assert query.stopped.wait(PATIENCE_S)
        return "stopped"

    found = outcomes(
        display,
        session,
        Settings(follow, follow=True),
        Settings(lambda spark, progress: "finite"),
        Settings(follow, follow=True),
    )
    assert [each.result for each in found] == ["finite", "stopped", "stopped"]
    assert [each.was_stopped for each in found] == [False, True, True]


def test_a_job_that_follows_and_fails_ends_the_others(display: Display) -> None:
    session = Session()
    is_running = threading.Event()

    def follow(spark: Session, progress: Progress) -> str:
        query = spark.query()
        is_running.set()
        assert query.stopped.wait(PATIENCE_S)
        return "stopped"

    def fail(spark: Session, progress: Progress) -> str:
        assert is_running.wait(PATIENCE_S)
        raise DataLossError("gone")

    found = outcomes(display, session, Settings(follow, True), Settings(fail, True))
    assert isinstance(found[-1].error, DataLossError)
    assert session.active == []


def test_ctrl_c_cuts_off_a_job_without_a_query_at_its_next_report(display: Display) -> None:
    session = Session()

    def work(spark: Session, progress: Progress) -> str:
        progress.stage("work", 10)
        press_ctrl_c()
        assert spark.cancelled.wait(PATIENCE_S)
        progress.advance(1)
        return "not reached"

    (outcome,) = outcomes(display, session, Settings(work), Settings(work))
    assert outcome == Outcome(outcome.job, was_stopped=True)


def test_what_fails_because_it_was_cancelled_was_stopped(display: Display) -> None:
    def work(spark: Session, progress: Progress) -> str:
        press_ctrl_c()
        assert spark.cancelled.wait(PATIENCE_S)
        raise RuntimeError("Job 0 cancelled")

    (outcome,) = outcomes(display, Session(), Settings(work))
    assert outcome == Outcome(outcome.job, was_stopped=True)


def test_a_polite_kill_stops_like_ctrl_c(display: Display) -> None:
    def follow(spark: Session, progress: Progress) -> str:
        query = spark.query()
        os.kill(os.getpid(), signal.SIGTERM)
        assert query.stopped.wait(PATIENCE_S)
        return "stopped"

    (outcome,) = outcomes(display, Session(), Settings(follow, follow=True))
    assert outcome.result == "stopped"


def test_the_second_ctrl_c_does_not_wait(display: Display) -> None:
    let_go = threading.Event()

    def stubborn(spark: Session, progress: Progress) -> None:
        press_ctrl_c()
        assert spark.cancelled.wait(PATIENCE_S)
        press_ctrl_c()
        let_go.wait(PATIENCE_S)

    with pytest.raises(KeyboardInterrupt):
        outcomes(display, Session(), Settings(stubborn))
    let_go.set()


def test_the_handlers_of_signals_are_put_back(display: Display) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    outcomes(display, Session(), Settings(lambda spark, progress: None))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


# --- output -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    stream: str = "ORDERS"
    messages: int = 12_345
    bytes: int = 2048
    duration_s: float = 90.0
    rate: float = 137.166
    as_of: str | None = None
    complete: bool = True


def test_a_result_is_labels_and_values_and_leaves_out_what_is_not_there() -> None:
    assert render.result_text("orders", Result()).plain.splitlines() == [
        "orders",
        "  Stream:    ORDERS",
        "  Messages:  12,345",
        "  Bytes:     2.0 KiB",
        "  Duration:  1.5m",
        "  Rate:      137.166",
        "  Complete:  yes",
    ]


def test_a_result_for_a_program_has_every_field() -> None:
    job = Job("orders", "archive", cast(Any, None))
    assert json.loads(render.outcome_json(job, Result(), was_stopped=False)) == {
        "job": "orders", "kind": "archive", "stopped": False, "stream": "ORDERS",
        "messages": 12345, "bytes": 2048, "duration_s": 90.0, "rate": 137.166, "as_of": None,
        "complete": True,
    }  # fmt: skip
    assert json.loads(render.outcome_json(job, None, was_stopped=True)) == {
        "job": "orders", "kind": "archive", "stopped": True,
    }  # fmt: skip


def test_checks_are_aligned_and_say_what_to_do() -> None:
    failed = CommandFailed("It is not there", "Make it.")
    text = render.checks_text([Check("file f", "a, b"), Check("stream S", failure=failed)]).plain
    assert text.splitlines() == [
        "ok   file f    a, b",
        "NO   stream S  It is not there. Make it.",
    ]


ROW = {
    "sequence": 1_000,
    "timestamp": datetime(2026, 1, 5, 9, 30, tzinfo=UTC),
    "subject": "orders.eu",
    "headers": {"A": ["1"]},
    "data": bytearray(b"two\npizzas"),
}


def test_rows_are_a_table_for_people_and_objects_for_programs() -> None:
    assert render.rows_table([ROW]).text(None).plain.splitlines() == [
        "sequence  time                         subject    data",
        "   1,000  2026-01-05T09:30:00.000000Z  orders.eu  two\\npizzas",
    ]
    assert json.loads(render.row_json(ROW)) == {
        "sequence": 1000, "subject": "orders.eu", "time": "2026-01-05T09:30:00.000000Z",
        "headers": {"A": ["1"]}, "data": "two\npizzas",
    }  # fmt: skip
    strange = ROW | {"headers": {}, "data": b"\xff"}
    assert json.loads(render.row_json(strange))["data_base64"] == "/w=="
    assert "headers" not in json.loads(render.row_json(strange))


def test_the_figures_of_a_union_have_no_rows() -> None:
    result = UnionResult("S", "a", 2, 1, 2, rows=({"sequence": 1},))
    assert json.loads(render.union_json(result)) == {
        "stream": "S", "archive": "a", "messages": 2, "first_sequence": 1, "last_sequence": 2,
    }  # fmt: skip


# --- reasons of failures ------------------------------------------------------------------------

SPARK_TEXT = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted
JVM stacktrace:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "source.py", line 1, in read
    raise DataLossError(text)
headwater.spark.read.offsets.DataLossError: stream S lost 3 sequences: set failOnDataLoss=false

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)
"""


def test_the_line_that_says_why_is_found_in_what_spark_says() -> None:
    in_a_line = "x.SparkException: Failed: headwater.spark.read.offsets.DataLossError: gone\n at"
    assert reason_in(in_a_line) == "gone"
    assert reason_in(SPARK_TEXT) == "stream S lost 3 sequences: set failOnDataLoss=false"
    first = "An error occurred while calling o1.load.\n: a.b.SomeException: first\n\tat a.b\n"
    assert reason_in(first + "Caused by: c.OtherException: d") == "first"
    python = "c.PythonException: Traceback (most recent call last):\n  File\nValueError: bad\n"
    assert reason_in(python) == "bad"
    assert reason_in("[CODE] plain text\nmore") == "[CODE] plain text"
    assert reason_in("") == "it failed without a reason"


def test_a_failure_names_the_job() -> None:
    job = Job("orders", "archive", cast(Any, None))
    failure = failure_of(Outcome(job, error=RuntimeError(SPARK_TEXT)))
    assert failure.problem == "orders: stream S lost 3 sequences: set failOnDataLoss=false"
    assert failure.code is ExitCode.FAILED
    assert "--no-fail-on-data-loss" in failure.advice
    assert failure_of(Outcome(job, error=RuntimeError("else"))).advice == ""
    own = CommandFailed("x is there already")
    assert failure_of(Outcome(job, error=own)) is own
