"""`headwater pipeline run` and `check`: the jobs that stand in a file."""

import dataclasses
import os
from collections.abc import Sequence

import click

from headwater.cli.api.command import JSON_OPTION
from headwater.cli.pipeline import render
from headwater.cli.pipeline.checks import Check, checks_of, spark_checks
from headwater.cli.pipeline.commands import perform
from headwater.cli.pipeline.options import Place, pipeline_command
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.spark.jobs.pipeline_file import (
    Pipeline,
    PipelineFileError,
    SparkSettings,
    read_pipeline,
)


@pipeline_command(
    "run",
    connects=False,
    examples="""
headwater pipeline run pipelines.toml                     all jobs, in the file's order
headwater pipeline run pipelines.toml orders report       these two
headwater pipeline run pipelines.toml --master 'local[2]' --memory 4g
headwater pipeline run pipelines.toml --json > results.jsonl
""",
)
@click.argument("file", type=click.Path(dir_okay=False))
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@JSON_OPTION
def run(place: Place, file: str, jobs: Sequence[str], as_json: bool) -> ExitCode:
    """Run the jobs of a file.

    All jobs that stand in FILE, or only those named, run one after the other, in the order of the
    file, or of the names; those that follow a stream run last, together, until Ctrl-C. After a
    failure nothing more is begun. A second run goes on where the first one stopped.
    """
    pipeline = read(file, jobs)
    spark = combined(pipeline.spark, place.spark)
    return perform(pipeline.jobs, spark, place.output, as_json)


@pipeline_command(
    "check",
    connects=False,
    computes=False,
    examples="""
headwater pipeline check pipelines.toml
headwater pipeline check pipelines.toml orders            only what this job needs
headwater pipeline check pipelines.toml --json | jq -e .ok
""",
)
@click.argument("file", type=click.Path(dir_okay=False))
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@JSON_OPTION
def check(place: Place, file: str, jobs: Sequence[str], as_json: bool) -> ExitCode:
    """Say whether the jobs of a file could run.

    Reads FILE, connects to the server, and looks for the streams, the buckets, the archives,
    Spark and Java. The exit code is 1 if anything is missing. Nothing is changed.
    """
    pipeline = read(file, jobs)
    checks = [Check(f"file {file}", ", ".join(job.name for job in pipeline.jobs))]
    checks += [*checks_of(pipeline.jobs), *spark_checks()]
    if as_json:
        place.output.result(render.checks_json(file, checks))
    else:
        place.output.result(render.checks_text(checks))
    return ExitCode.OK if all(each.failure is None for each in checks) else ExitCode.FAILED


def read(file: str, names: Sequence[str]) -> Pipeline:
    """The named jobs of a pipeline file. Raises CommandFailed with all errors of the file."""
    try:
        pipeline = read_pipeline(file, os.environ)
        return dataclasses.replace(pipeline, jobs=pipeline.chosen(names))
    except PipelineFileError as error:
        raise CommandFailed(str(error), code=ExitCode.USAGE) from error


def combined(file: SparkSettings, options: SparkSettings) -> SparkSettings:
    """The Spark settings of the file, overridden by the options."""
    return SparkSettings(
        options.master or file.master,
        options.memory or file.memory,
        {**file.conf, **options.conf},
    )
