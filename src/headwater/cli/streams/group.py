"""`headwater stream`: the group, and the order its commands have in the help."""

from typing import Final

import click

from headwater.cli.shell.parameters import TeachingGroup
from headwater.cli.streams.backup import backup, restore
from headwater.cli.streams.commands import add, edit, get, info, ls, purge, report, rm
from headwater.cli.streams.graph_command import graph

FIRST_SESSION: Final = """
headwater stream add ORDERS --subjects 'orders.>'   keep what is published there
headwater pub orders.new 'two pizzas' --jetstream   publish, and wait until it is stored
headwater stream get ORDERS 1                       and see it again
headwater stream info ORDERS                        what it is and what it holds
"""


@click.group("stream", cls=TeachingGroup, first_session=FIRST_SESSION)
def stream() -> None:
    """Make, see, change, empty and back up streams.

    These commands talk to any server with JetStream, Headwater or nats-server.
    """


for _command in (add, ls, info, edit, rm, purge, get, report, graph, backup, restore):
    stream.add_command(_command)
