"""`headwater pipeline`: the group, and the order its commands have in the help."""

from typing import Final

import click

from headwater.cli.pipeline.commands import archive, replay, stats, table
from headwater.cli.pipeline.demo import demo
from headwater.cli.pipeline.file_commands import check, run
from headwater.cli.pipeline.union import union
from headwater.cli.shell.parameters import write_verbatim

FIRST_SESSION: Final = """
headwater pipeline demo                                all of it, on a server of its own
headwater pipeline archive ORDERS --to archive/orders  what the stream holds, as a Delta table
headwater pipeline archive ORDERS --to archive/orders  again: only what is new
headwater pipeline stats --archive archive/orders --to report    rates and sizes, with plots
headwater pipeline run pipelines.toml                  many jobs, from one file
"""


class PipelineGroup(click.Group):
    """The group, with a first session in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_verbatim(formatter, "A first session", FIRST_SESSION)

    def list_commands(self, ctx: click.Context) -> list[str]:
        # As they were added, not by the alphabet.
        return list(self.commands)


@click.group("pipeline", cls=PipelineGroup)
def pipeline() -> None:
    """Archive streams, keep tables of buckets, replay, and measure, on Spark.

    These commands talk to any server with JetStream, Headwater or nats-server. Spark runs on this
    machine unless --master names a cluster. They need: pip install 'headwater[spark]'
    """


for _command in (archive, table, replay, union, stats, run, check, demo):
    pipeline.add_command(_command)
