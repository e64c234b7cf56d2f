"""`headwater pipeline`: the group, and the order its commands have in the help."""

from typing import Final

import click

from headwater.cli.pipeline.commands import archive, replay, stats, table
from headwater.cli.pipeline.demo import demo
from headwater.cli.pipeline.file_commands import check, run
from headwater.cli.pipeline.union import union
from headwater.cli.shell.parameters import TeachingGroup

FIRST_SESSION: Final = """
headwater pipeline demo                                all of it, on a server of its own
headwater pipeline archive ORDERS --to archive/orders  what the stream holds, as a Delta table
headwater pipeline archive ORDERS --to archive/orders  again: only what is new
headwater pipeline stats --archive archive/orders --to report    rates and sizes, with plots
headwater pipeline run pipelines.toml                  many jobs, from one file
"""


@click.group("pipeline", cls=TeachingGroup, first_session=FIRST_SESSION)
def pipeline() -> None:
    """Archive streams, keep tables of buckets, replay, and measure, on Spark.

    These commands talk to any server with JetStream, Headwater or nats-server. Spark runs on this
    machine unless --master names a cluster. They need: pip install 'headwater[spark]'
    """


for _command in (archive, table, replay, union, stats, run, check, demo):
    pipeline.add_command(_command)
