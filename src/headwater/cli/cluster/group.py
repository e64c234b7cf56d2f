"""`headwater cluster`: the group, and the order its commands have in the help."""

from typing import Final

import click

from headwater.cli.cluster.changes import move, scale, wait_healthy
from headwater.cli.cluster.commands import peer_remove, status, step_down
from headwater.cli.cluster.run import run
from headwater.cli.shell.parameters import TeachingGroup

FIRST_SESSION: Final = """
headwater cluster run                               three servers, here
headwater cluster status                            the servers, their streams and problems
headwater cluster scale ORDERS 3                    keep a stream on three servers
headwater cluster step-down ORDERS                  let another of them lead
headwater cluster wait-healthy                      until all replicas have everything
"""


@click.group("cluster", cls=TeachingGroup, first_session=FIRST_SESSION)
def cluster() -> None:
    """See and change the servers that keep streams.

    These commands talk to any cluster with JetStream, of Headwater or of nats-server.
    """


for _command in (run, status, scale, move, step_down, peer_remove, wait_healthy):
    cluster.add_command(_command)
