"""`headwater pipeline demo`: everything at once, on a server that lives as long as the demo."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
from rich.text import Text

from headwater.base.errors import OperatingError
from headwater.cli.api_command import JSON_OPTION
from headwater.cli.exits import CommandFailed, ExitCode
from headwater.cli.output import Output
from headwater.cli.pipeline_checks import require, spark_checks
from headwater.cli.pipeline_commands import report
from headwater.cli.pipeline_jobs import run_job
from headwater.cli.pipeline_options import Place, pipeline_command
from headwater.cli.pipeline_progress import Display
from headwater.cli.pipeline_runner import Work
from headwater.cli.render import NUMBER_STYLE, count_text
from headwater.cli.sections import TITLE_STYLE
from headwater.cli.tables import Column, Columns, terminal_width
from headwater.spark.demo import (
    Places,
    Sample,
    demo_jobs,
    demo_server,
    publish_traffic,
    samples,
)
from headwater.spark.jobs.pipeline_file import Job
from headwater.spark.jobs.stats import REPORT
from headwater.spark.link.login import Login

FOLDER_PREFIX: Final = "headwater-demo-"


@pipeline_command(
    "demo",
    connects=False,
    examples="""
headwater pipeline demo                          a new folder, its name is told
headwater pipeline demo --folder demo            this one; a second run adds nothing
headwater pipeline demo --master 'local[2]'
""",
)
@click.option(
    "--folder", type=click.Path(file_okay=False), help="Where all of it goes.  [default a new one]"
)
@JSON_OPTION
def demo(place: Place, folder: str | None, as_json: bool) -> ExitCode:
    """Show all of it at work.

    Starts a server of its own on a free port, publishes some ten thousand orders, readings of
    sensors and prices, archives the orders, makes tables of the prices, shows both, and measures.
    The server ends with the demo; what was made stays in the folder.
    """
    output = place.output
    require(spark_checks())
    places = Places(Path(folder or tempfile.mkdtemp(prefix=FOLDER_PREFIX)).absolute())
    try:
        with demo_server(places.store) as url:
            login = Login(url)
            with Display(output, hidden=as_json) as display:
                held = publish_traffic(login, display.progress_of("demo"))
            if not as_json:
                output.result(streams_table(held).text(terminal_width(output)))
            return pipeline_at_work(demo_jobs(login, places), places, place, as_json)
    except CommandFailed:
        raise
    except OperatingError as error:
        raise CommandFailed(str(error)) from error


def pipeline_at_work(jobs: Sequence[Job], places: Places, place: Place, as_json: bool) -> ExitCode:
    """Run the jobs, and show what they have made."""
    with Work(jobs, place.spark, place.output, as_json) as work:
        for outcome in work.outcomes(run_job):
            report(outcome, place.output, as_json)
        if work.exit_code is ExitCode.OK and not as_json:
            for sample in samples(work.session, places):
                show(sample, place.output)
            place.output.result(f"\nThe report is {places.report}/{REPORT}")
            place.output.result(f"All of it is in {places.folder}")
    return work.exit_code


def streams_table(held: Mapping[str, int]) -> Columns:
    """What was published."""
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
