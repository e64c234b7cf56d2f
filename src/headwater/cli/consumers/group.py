"""`headwater consumer`: the group, and the order its commands have in the help."""

from typing import Final

import click

from headwater.cli.consumers.commands import add, edit, info, ls, pause, report, resume, rm
from headwater.cli.consumers.messages import next_, sub
from headwater.cli.shell.parameters import TeachingGroup

FIRST_SESSION: Final = """
headwater stream add ORDERS --subjects 'orders.>'   a stream to consume
headwater pub orders.new 'two pizzas' --jetstream   something in it
headwater consumer add ORDERS WORKER                a consumer that remembers how far it is
headwater consumer next ORDERS WORKER               the next message, acknowledged
headwater consumer info ORDERS WORKER               what is left for it
"""


@click.group("consumer", cls=TeachingGroup, first_session=FIRST_SESSION)
def consumer() -> None:
    """Make, see, change, pause and follow the consumers of a stream.

    These commands talk to any server with JetStream, Headwater or nats-server.
    """


for _command in (add, ls, info, edit, rm, next_, sub, pause, resume, report):
    consumer.add_command(_command)
