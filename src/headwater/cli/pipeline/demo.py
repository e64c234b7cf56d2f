"""`headwater pipeline demo`: everything at once, on a server that lives as long as the demo."""

import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from headwater.base.errors import OperatingError
from headwater.base.quantities import duration_text
from headwater.cli.api.command import JSON_OPTION
from headwater.cli.pipeline.checks import require, spark_checks
from headwater.cli.pipeline.commands import report
from headwater.cli.pipeline.jobs import run_job
from headwater.cli.pipeline.options import Place, pipeline_command
from headwater.cli.pipeline.progress import Display
from headwater.cli.pipeline.runner import Work
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.render import NUMBER_STYLE, count_text
from headwater.cli.shell.sections import TITLE_STYLE
from headwater.cli.shell.tables import Column, Columns, terminal_width
from headwater.client.link.login import Login
from headwater.spark.demo import (
    SPARK_START,
    DemoServer,
    Places,
    Sample,
    demo_jobs,
    demo_server,
    publish_traffic,
    samples,
    warm_up_job,
)
from headwater.spark.jobs.pipeline_file import Job
from headwater.spark.jobs.progress import SILENT, Progress
from headwater.spark.jobs.stats.job import REPORT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER_PREFIX: Final = "headwater-demo-"


@dataclass(frozen=True)
class DemoResult:
    """The result of the demo; `seconds` include the start of Spark, which is also told apart."""

    folder: str
    report: str
    seconds: float
    spark_start_s: float
    server: str | None
    server_pid: int | None


@pipeline_command(
    "demo",
    connects=False,
    examples="""
headwater pipeline demo                          a new folder, its name is told
headwater pipeline demo --folder demo            this one; a second run adds nothing
headwater pipeline demo --keep-running           its streams are there to look at afterwards
headwater pipeline demo --master 'local[2]'
""",
)
@click.option(
    "--folder", type=click.Path(file_okay=False), help="Where all of it goes.  [default a new one]"
)
@click.option(
    "--keep-running", is_flag=True, help="Leave the server running when the demo is done."
)
@JSON_OPTION
def demo(place: Place, folder: str | None, keep_running: bool, as_json: bool) -> ExitCode:
    """Show all of it at work.

    Starts a server of its own on a free port, publishes some ten thousand orders, readings of
    sensors and prices, archives the orders, makes tables of the prices, shows both, and measures.
    The server ends with the demo unless --keep-running is given; what was made stays in the
    folder.
    """
    output = place.output
    require(spark_checks())
    places = Places(Path(folder or tempfile.mkdtemp(prefix=FOLDER_PREFIX)).absolute())
    began = time.monotonic()
    try:
        with demo_server(places.store) as server:
            login = Login(server.url)
            with Display(output, hidden=as_json) as display:
                held = publish_traffic(login, display.progress_of("demo"))
            if not as_json:
                output.result(streams_table(held).text(terminal_width(output)))
            work = DemoWork(login, places, place, as_json)
            exit_code = work.run()
            if exit_code is ExitCode.OK:
                server.goes_on = keep_running
                show_result(work.result(server, time.monotonic() - began), output, as_json)
            return exit_code
    except CommandFailed:
        raise
    except OperatingError as error:
        raise CommandFailed(str(error)) from error


class DemoWork:
    """The jobs of the demo on a started Spark, and their results."""

    def __init__(self, login: Login, places: Places, place: Place, as_json: bool) -> None:
        self._jobs = (warm_up_job(login, places), *demo_jobs(login, places))
        self._places = places
        self._place = place
        self._as_json = as_json
        self._spark_start_s = 0.0

    def run(self) -> ExitCode:
        """Run the jobs and show their results."""
        began = time.monotonic()
        output = self._place.output
        try:
            with Work(self._jobs, self._place.spark, output, self._as_json) as work:
                for outcome in work.outcomes(run_demo_job):
                    if outcome.job.name == SPARK_START:
                        self._spark_start_s = time.monotonic() - began
                    else:
                        report(outcome, output, self._as_json)
                if work.exit_code is ExitCode.OK and not self._as_json:
                    for sample in samples(work.session, self._places):
                        show(sample, output)
            return work.exit_code
        finally:
            shutil.rmtree(self._places.warm_up, ignore_errors=True)

    def result(self, server: DemoServer, seconds: float) -> DemoResult:
        """The result of the demo."""
        return DemoResult(
            folder=str(self._places.folder),
            report=f"{self._places.report}/{REPORT}",
            seconds=round(seconds, 3),
            spark_start_s=round(self._spark_start_s, 3),
            server=server.url if server.goes_on else None,
            server_pid=server.pid if server.goes_on else None,
        )


def run_demo_job(spark: "SparkSession", job: Job, progress: Progress) -> Any:
    """Run a job; the job that starts Spark shows no stages."""
    return run_job(spark, job, SILENT if job.name == SPARK_START else progress)


def show_result(result: DemoResult, output: Output, as_json: bool) -> None:
    """Tell where the results are, how long the demo took, and which server still runs."""
    if as_json:
        output.result(json.dumps({"job": "demo", "kind": "demo", **asdict(result)}))
        return
    output.result(f"\nThe report is {result.report}")
    output.result(f"All of it is in {result.folder}")
    output.result(
        f"The demo took {duration_text(result.seconds)},"
        f" {duration_text(result.spark_start_s)} of it until Spark had started"
    )
    if result.server is not None:
        output.result(
            f"\nThe server goes on. Look at it:  headwater stream ls --server {result.server}"
            f"\nEnd it:  kill {result.server_pid}"
        )


def streams_table(held: Mapping[str, int]) -> Columns:
    """The text about the messages that were published."""
    table = Columns([Column("stream", is_text=True), Column("messages")])
    for stream, count in held.items():
        table.add(stream, f"{count:,}")
    return table


def show(sample: Sample, output: Output) -> None:
    """A title, the first rows, and how many there are."""
    columns = [
        Column(name, is_text=True, can_shrink=name == sample.columns[-1]) for name in sample.columns
    ]
    table = Columns(columns)
    for row in sample.rows:
        table.add(*row)
    title = Text("\n")
    title.append(sample.title, TITLE_STYLE)
    title.append(f": {count_text(sample.count, 'row')}", NUMBER_STYLE)
    output.result(title)
    output.result(table.text(terminal_width(output)))
