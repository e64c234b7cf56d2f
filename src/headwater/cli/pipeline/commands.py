"""`headwater pipeline archive`, `table`, `replay`, `union` and `stats`: one job each.

The job's settings are its options; what it does is in `headwater.spark.jobs`. This module joins
them, checks before Spark starts what can be checked, and owns what is said.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headwater.base.errors import OperatingError
from headwater.cli.api.command import JSON_OPTION
from headwater.cli.pipeline import render
from headwater.cli.pipeline.checks import sentence
from headwater.cli.pipeline.jobs import run_job
from headwater.cli.pipeline.options import JobOptions, Place, pipeline_command
from headwater.cli.pipeline.runner import Outcome, Work
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.spark.jobs.archive.settings import MESSAGES_PER_BATCH_MAX, ArchiveSettings
from headwater.spark.jobs.pipeline_file import Job, SparkSettings
from headwater.spark.jobs.replay.job import ReplaySettings
from headwater.spark.jobs.stats.job import StatsSettings
from headwater.spark.jobs.table.job import TableSettings


def perform(jobs: Sequence[Job], spark: SparkSettings, output: Output, as_json: bool) -> ExitCode:
    """Run the jobs and say how each ended."""
    with Work(jobs, spark, output, as_json) as work:
        for outcome in work.outcomes(run_job):
            report(outcome, output, as_json)
    return work.exit_code


def report(outcome: Outcome, output: Output, as_json: bool) -> None:
    """Say how a job ended."""
    if as_json:
        output.result(render.outcome_json(outcome.job, outcome.result, outcome.was_stopped))
    elif outcome.result is not None:
        output.result(render.result_text(outcome.job.name, outcome.result))


def only_job(kind: str, options: JobOptions, place: Place, parameters: Mapping[str, Any]) -> Job:
    """The one job of a command, from its options."""
    try:
        return Job(kind, kind, options.given(parameters, place.login))
    except OperatingError as error:
        raise CommandFailed(sentence(str(error)), code=ExitCode.USAGE) from error


# --- the commands -------------------------------------------------------------------------------

BOUNDS: Final = {
    "from_sequence": "Begin with this sequence.",
    "until_sequence": "End with this sequence.",
    "from_time": "Begin here: 2026-01-05T09:30:00Z, or a date.",
    "until_time": "End before this time.",
}
ARCHIVE: Final = JobOptions(
    ArchiveSettings,
    {
        "to": "The folder of the archive.",
        "format": "What the archive is.",
        "subjects": "Only these subjects.",
        "partition_by": "Folders by date, hour and token:N, the N-th word of the subject.",
        "follow": "Go on with what is published, until Ctrl-C.",
        "every_s": "With --follow: how often what is new becomes a batch; 0 at once.",
        "max_messages_per_trigger": (
            "The most one batch takes."
            f"  [default {MESSAGES_PER_BATCH_MAX:,}; with --follow, for each second of --every]"
        ),
        "min_partitions": "Into how many tasks a batch is cut at least; take as many as cores.",
        "fail_on_data_loss": "Go on when messages are gone before they were read.",
        "checkpoint": "Where Spark keeps how far it is.  [default inside the archive]",
        "compact": "Leave small files as they are.",
        "compact_every": "After how many batches to merge small files meanwhile; 0 never.",
        "file_mb": "How large files are made by merging, in MiB.",
        "row_group_rows": "How many rows a Parquet row group has.",
        "replaced_age_s": "How long a Delta table keeps files that were merged, and its log.",
        "orphan_age_s": "From which age on files of attempts that failed are removed.",
    },
    arguments=("stream",),
)
TABLE: Final = JobOptions(
    TableSettings,
    {
        "to": "The folder of the tables.",
        "as_of_revision": "Also the keys as they were at this revision.",
        "as_of_time": "Also the keys as they were then: 2026-01-05T09:30:00Z or a date.",
        "fail_on_data_loss": "Go on with a bucket that was deleted and created again.",
        "follow": "Go on with what is put, until Ctrl-C.",
        "every_s": "With --follow: how often what has changed is merged into the tables.",
        "rounds_max": "How often to read again what came while reading.",
        "keep_versions_h": "How many hours older versions of the tables stay readable.",
    },
    arguments=("bucket",),
)
REPLAY: Final = JobOptions(
    ReplaySettings,
    {
        "stream": "What to publish again: this stream,",
        "archive": "or the archive in this folder.",
        "subjects": "Only these subjects.",
        **BOUNDS,
        "speed": "0 as fast as possible, 1 as it was, 2 twice as fast.",
        "subject_from": "Change subjects: those like this, such as 'orders.*.*',",
        "subject_to": "become this, such as 'again.{{wildcard(1)}}.{{wildcard(2)}}'.",
        "to_url": "The server of TO_STREAM.  [default the same]",
        "name": "What this replay is known by when it goes on.  [default made of the options]",
        "marker_bucket": "The bucket that keeps how far replays are.",
        "fail_on_data_loss": "Go on when messages are gone before they were read.",
    },
    arguments=("to_stream",),
)
STATS: Final = JobOptions(
    StatsSettings,
    {
        "to": "The folder of the report.",
        "stream": "What to measure: this stream,",
        "archive": "or the archive in this folder.",
        "subjects": "Only these subjects.",
        **BOUNDS,
        "window_s": "How long the windows are.  [default as fits the time]",
        "group_tokens": "Take subjects together that begin with the same so many words.",
        "groups_max": "How many groups are told apart, the largest.",
        "producer_time": "Where a message says when it was sent: header:NAME or json:FIELD.",
        "producer_time_format": "How that time is written.",
    },
)


@pipeline_command(
    "archive",
    examples="""
headwater pipeline archive ORDERS --to archive/orders
headwater pipeline archive ORDERS --to archive/orders --follow          until Ctrl-C
headwater pipeline archive ORDERS --to archive/eu --subjects 'orders.eu.>' --format parquet
headwater pipeline archive ORDERS --to archive/orders --partition-by date,token:2
headwater pipeline archive ORDERS --to archive/orders --json | jq .messages
""",
)
@ARCHIVE
@JSON_OPTION
def archive(place: Place, as_json: bool, **parameters: Any) -> ExitCode:
    """Write a stream to Delta or Parquet.

    Each message of the stream STREAM is in the archive exactly once. A second run, also one after
    a crash, adds only what is new. The archive is read with
    `headwater pipeline union`, with Spark, and with all that reads Delta tables.
    """
    job = only_job("archive", ARCHIVE, place, parameters)
    return perform([job], place.spark, place.output, as_json)


@pipeline_command(
    "table",
    examples="""
headwater pipeline table prices --to tables/prices
headwater pipeline table prices --to tables/prices --follow              until Ctrl-C
headwater pipeline table prices --to tables/prices --as-of-revision 1200
headwater pipeline table prices --to tables/prices --as-of-time 2026-01-05T09:30:00Z
""",
)
@TABLE
@JSON_OPTION
def table(place: Place, as_json: bool, **parameters: Any) -> ExitCode:
    """Keep tables of a bucket.

    Two Delta tables of the bucket BUCKET: its values of now, and every entry there was. A second
    run merges what has changed into them, and --follow does so until Ctrl-C. The bucket forgets
    old entries, the history does not.
    """
    job = only_job("table", TABLE, place, parameters)
    return perform([job], place.spark, place.output, as_json)


@pipeline_command(
    "replay",
    examples="""
headwater pipeline replay AGAIN --archive archive/orders
headwater pipeline replay AGAIN --stream ORDERS --speed 1                as far apart as it was
headwater pipeline replay AGAIN --stream ORDERS --from-time 2026-01-05 --until-time 2026-01-06
headwater pipeline replay AGAIN --stream ORDERS --subject-from 'orders.>' --subject-to 'again.>'
headwater pipeline replay ORDERS --archive archive/orders --to-url nats://other:4222
""",
)
@REPLAY
@JSON_OPTION
def replay(place: Place, as_json: bool, **parameters: Any) -> ExitCode:
    """Publish an archive or a stream again.

    The messages go into the stream TO_STREAM in the order they had, at full speed or as far apart
    as they were, each of them once: a run that was stopped or killed is gone on with by the same
    command, and one that is complete publishes nothing more. To replay again, give another --name.
    """
    job = only_job("replay", REPLAY, place, parameters)
    return perform([job], place.spark, place.output, as_json)


@pipeline_command(
    "stats",
    examples="""
headwater pipeline stats --stream ORDERS --to report
headwater pipeline stats --archive archive/orders --to report --from-time 2026-01-05
headwater pipeline stats --stream ORDERS --to report --group-tokens 2 --window 1m
headwater pipeline stats --stream ORDERS --to report --producer-time header:Sent
headwater pipeline stats --stream ORDERS --to report --json | jq -r .report
""",
)
@STATS
@JSON_OPTION
def stats(place: Place, as_json: bool, **parameters: Any) -> ExitCode:
    """Measure a stream or an archive.

    Counts rates, sizes and latencies by subject and window, and makes a page of it with plots,
    which opens in any browser and needs nothing else; the figures are beside it in JSON.
    """
    job = only_job("stats", STATS, place, parameters)
    return perform([job], place.spark, place.output, as_json)
