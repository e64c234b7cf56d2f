"""`headwater pipeline union`: an archive and the later messages of its stream, as one table."""

from typing import TYPE_CHECKING, Any, Final, cast

import click

from headwater.cli.api.command import JSON_OPTION
from headwater.cli.pipeline import render
from headwater.cli.pipeline.commands import only_job, perform
from headwater.cli.pipeline.jobs import UnionResult
from headwater.cli.pipeline.jobs import union as run_union
from headwater.cli.pipeline.options import JobOptions, Place, pipeline_command
from headwater.cli.pipeline.runner import Work
from headwater.cli.shell.exits import ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.render import count_text
from headwater.cli.shell.tables import terminal_width
from headwater.spark.jobs.pipeline_file import Job
from headwater.spark.jobs.progress import Progress
from headwater.spark.jobs.union import UnionSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_LIMIT: Final = 10

UNION: Final = JobOptions(
    UnionSettings,
    {
        "archive": "The folder of the stream's archive.",
        "subjects": "Only these subjects.",
        "to": "Write the rows into this folder instead of showing some.",
        "format": "What --to writes; in JSON and CSV the data is in base64.",
        "fail_on_data_loss": "Leave out what the stream lost before it was archived.",
    },
    arguments=("stream",),
)


@pipeline_command(
    "union",
    examples="""
headwater pipeline union ORDERS --archive archive/orders                 the first rows
headwater pipeline union ORDERS --archive archive/orders --count         how many there are
headwater pipeline union ORDERS --archive archive/orders --limit 100 --json | jq -r .subject
headwater pipeline union ORDERS --archive archive/orders --subjects 'orders.eu.>' --to eu.parquet
""",
)
@UNION
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=DEFAULT_LIMIT,
    help=f"How many rows to show.  [default {DEFAULT_LIMIT}]",
)
@click.option("--count", "only_count", is_flag=True, help="Only count.")
@JSON_OPTION
def union(place: Place, limit: int, only_count: bool, as_json: bool, **parameters: Any) -> ExitCode:
    """Read an archive and its stream as one.

    The archive of the stream STREAM and its later messages are one table: no message is missing
    between the two and none is there twice, also while the archive is being written. Shows the
    first rows, counts, or writes all rows into a folder. With --json each row is an object on a
    line of its own.
    """
    job = only_job("union", UNION, place, parameters)
    if parameters["to"] is not None:
        if only_count:
            raise click.UsageError("--to and --count exclude one another")
        return perform([job], place.spark, place.output, as_json)

    def read_rows(spark: "SparkSession", job: Job, progress: Progress) -> UnionResult:
        settings = cast(UnionSettings, job.settings)
        return run_union(spark, settings, progress, rows_max=0 if only_count else limit)

    with Work([job], place.spark, place.output, as_json) as work:
        for outcome in work.outcomes(read_rows):
            if outcome.result is not None:
                show_union(outcome.result, place.output, only_count, as_json)
    return work.exit_code


def show_union(result: UnionResult, output: Output, only_count: bool, as_json: bool) -> None:
    """Print the rows, or the count, of a union."""
    if as_json and only_count:
        output.result(render.union_json(result))
        return
    if as_json:
        for row in result.rows:
            output.result(render.row_json(row), more_follows=True)
        return
    if result.rows:
        output.result(render.rows_table(result.rows).text(terminal_width(output)))
    text = count_text(result.messages, "message")
    if result.messages:
        text += f", sequences {result.first_sequence:,} to {result.last_sequence:,}"
    output.result(text)
