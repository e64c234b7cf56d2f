"""`headwater stream`: the group, and the order its commands have in the help."""

from typing import Final

import click

from headwater.cli.shell.parameters import write_verbatim
from headwater.cli.streams.backup import backup, restore
from headwater.cli.streams.commands import add, edit, get, info, ls, purge, report, rm

FIRST_SESSION: Final = """
headwater stream add ORDERS --subjects 'orders.>'   keep what is published there
headwater pub orders.new 'two pizzas' --jetstream   publish, and wait until it is stored
headwater stream get ORDERS 1                       and see it again
headwater stream info ORDERS                        what it is and what it holds
"""


class StreamGroup(click.Group):
    """The group, with a first session in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_verbatim(formatter, "A first session", FIRST_SESSION)

    def list_commands(self, ctx: click.Context) -> list[str]:
        # As they were added, not by the alphabet.
        return list(self.commands)


@click.group("stream", cls=StreamGroup)
def stream() -> None:
    """Make, see, change, empty and back up streams.

    These commands talk to any server with JetStream, Headwater or nats-server.
    """


for _command in (add, ls, info, edit, rm, purge, get, report, backup, restore):
    stream.add_command(_command)
