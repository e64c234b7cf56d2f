"""The commands that show a cluster, move its leaders and remove its servers.

click parses the options, `asking` and `api.client` ask the servers, `view` judges the answers and
`render` makes the texts. Commands that change where streams are kept are in `changes`.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final

import click

from headwater.cli.api.client import ApiTarget, AsyncApiClient
from headwater.cli.api.command import (
    ASK_OPTION,
    CONSUMER_NAME,
    JSON_OPTION,
    STREAM_NAME,
    api_command,
    document,
)
from headwater.cli.api.configuring import nothing_was
from headwater.cli.cluster import render
from headwater.cli.cluster.asking import look_at_cluster, look_at_servers
from headwater.cli.cluster.view import ClusterView
from headwater.cli.cluster.waiting import Wait, wait_for_stream
from headwater.cli.shell.confirm import confirmed
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.tables import terminal_width
from headwater.client.api.replicas import ReplicaGroup
from headwater.client.api.requests import (
    consumer_step_down,
    meta_step_down,
    server_remove,
    stream_peer_remove,
    stream_step_down,
)

# An election takes some seconds on a busy machine.
ELECTION_WAIT_S: Final = 30.0
# A replica on another server is as long on its way as its messages are.
REPLICA_WAIT_S: Final = 300.0

NO_WAIT_OPTION: Final = click.option(
    "--no-wait", is_flag=True, help="Do not wait until it is done."
)

Look = Callable[[AsyncApiClient], Coroutine[Any, Any, ReplicaGroup]]


@api_command(
    "status",
    examples="""
headwater cluster status                                the servers and streams of your account
headwater cluster status --user sys --password secret   all servers, all accounts
headwater cluster status --json | jq -r '.problems[]'
""",
)
@JSON_OPTION
def status(api: ApiTarget, output: Output, as_json: bool) -> ExitCode:
    """Show the servers of the cluster, its streams with their leaders, and problems.

    A user of the system account sees every server and the streams of all accounts. Other users
    see the streams of their account and the servers that keep them. ! marks a replica that is not
    current; replicas counts those that are current.
    """
    view = api.call(look_at_cluster)
    if as_json:
        output.result(document(render.cluster_fields(view)))
        return ExitCode.OK
    if not view.cluster:
        output.remark(
            "The server is not part of a cluster. Three servers to try: headwater cluster run"
        )
    else:
        output.result(render.title_text(view))
    show_tables(view, output)
    return ExitCode.OK


def show_tables(view: ClusterView, output: Output) -> None:
    """Print the servers, the streams and the problems."""
    width = terminal_width(output)
    output.result("")
    output.result(render.servers_table(view).text(width))
    if view.streams:
        output.result("")
        output.result(render.streams_table(view).text(width))
    if view.problems:
        output.result(render.problems_text(view))
    if view.meta is None and view.cluster:
        output.remark(
            "\nA user of the system account sees all servers and the meta leader: --user, --creds."
        )


@api_command(
    "step-down",
    wait_s=ELECTION_WAIT_S,
    examples="""
headwater cluster step-down ORDERS                  another server leads the stream
headwater cluster step-down ORDERS --prefer s2      this one, if its replica is current
headwater cluster step-down ORDERS WORKER           the leader of a consumer
headwater cluster step-down --meta --user sys --password secret
headwater cluster step-down ORDERS --json | jq -r .leader
""",
)
@click.argument("stream", type=STREAM_NAME, required=False)
@click.argument("consumer", type=CONSUMER_NAME, required=False)
@click.option("--meta", is_flag=True, help="The leader of all servers; system account only.")
@click.option("--prefer", metavar="SERVER", help="The server that should lead.")
@JSON_OPTION
def step_down(
    api: ApiTarget,
    output: Output,
    stream: str | None,
    consumer: str | None,
    meta: bool,
    prefer: str | None,
    as_json: bool,
    wait_s: float,
) -> ExitCode:
    """Let the leader of STREAM, of its CONSUMER or of the cluster hand over to another server."""
    if meta == bool(stream):
        raise click.UsageError("say whose leader: STREAM, STREAM CONSUMER or --meta")
    look: Look = meta_group
    if stream is None:
        title, request = "the cluster", meta_step_down(prefer)
    elif consumer is None:
        title, look = f"stream {stream}", group_of_stream(stream)
        request = stream_step_down(stream, prefer)
    else:
        title, look = f"consumer {consumer} of {stream}", group_of_consumer(stream, consumer)
        request = consumer_step_down(stream, consumer, prefer)
    before = api.call(look)
    require_follower(before, title, stream)
    api.request(request)
    wait = Wait(output, wait_s, hidden=as_json)

    def outstanding(group: ReplicaGroup) -> list[tuple[str, str]]:
        if not group.leader:
            return [(title, "no leader")]
        is_old = group.leader == before.leader if prefer is None else group.leader != prefer
        return [(title, f"{group.leader} still leads")] if is_old else []

    after = wait.until(
        lambda: api.call(look), outstanding, "The leader may have been elected again; try again."
    )
    if as_json:
        output.result(document({"leader": after.leader, "leader_before": before.leader}))
    else:
        output.result(f"{after.leader} leads {title}, in place of {before.leader or 'no server'}")
    return ExitCode.OK


async def meta_group(calls: AsyncApiClient) -> ReplicaGroup:
    """The group of all servers."""
    meta = (await look_at_servers(calls)).meta
    return ReplicaGroup.of(None) if meta is None else meta


def group_of_stream(stream: str) -> Look:
    """The function that asks for the group of a stream."""

    async def look(calls: AsyncApiClient) -> ReplicaGroup:
        return ReplicaGroup.of((await calls.info(stream)).get("cluster"))

    return look


def group_of_consumer(stream: str, consumer: str) -> Look:
    """The function that asks for the group of a consumer."""

    async def look(calls: AsyncApiClient) -> ReplicaGroup:
        return ReplicaGroup.of((await calls.consumer(stream, consumer)).get("cluster"))

    return look


def require_follower(group: ReplicaGroup, title: str, stream: str | None) -> None:
    """Raise CommandFailed if there is no other server that could lead."""
    if not group.is_clustered:
        raise CommandFailed(
            "The server is not part of a cluster",
            "Three servers to try: headwater cluster run",
        )
    if group.leader and not group.followers:
        raise CommandFailed(
            f"No other server can lead {title}: {group.leader} alone keeps it",
            f"Add replicas with: headwater cluster scale {stream} 3" if stream else "",
        )


@api_command(
    "peer-remove",
    wait_s=REPLICA_WAIT_S,
    examples="""
headwater cluster peer-remove s2 --stream ORDERS     the stream moves from s2 to another server
headwater cluster peer-remove s2 --user sys --password secret   a server that does not come back
headwater cluster peer-remove s2 --stream ORDERS --force --json
""",
)
@click.argument("peer", metavar="SERVER")
@click.option("--stream", type=STREAM_NAME, help="Only the replica of this stream.")
@NO_WAIT_OPTION
@ASK_OPTION
@JSON_OPTION
def peer_remove(
    api: ApiTarget,
    output: Output,
    peer: str,
    stream: str | None,
    no_wait: bool,
    force: bool,
    as_json: bool,
    wait_s: float,
) -> ExitCode:
    """Remove SERVER from the cluster for good, or from the servers of one stream.

    The replicas on the server go to other servers. A server that only stops for a while needs no
    command: it catches up when it is back. Removing a server needs a user of the system account.
    """
    if stream is None:
        return remove_server(api, output, peer, force, as_json)
    if not confirmed(f"Move the replica of stream {stream} from {peer} elsewhere?", force):
        return nothing_was(output, "removed")
    api.request(stream_peer_remove(stream, peer))
    servers: list[str] | None = None
    if not no_wait:
        servers = wait_for_stream(api, Wait(output, wait_s, as_json), stream).group.servers
    if as_json:
        output.result(document({"removed": peer, "stream": stream, "servers": servers}))
    elif servers is None:
        output.result(f"The replica of stream {stream} leaves {peer}")
    else:
        output.result(f"Removed the replica of stream {stream} on {peer}: {', '.join(servers)}")
    return ExitCode.OK


def remove_server(
    api: ApiTarget, output: Output, server: str, force: bool, as_json: bool
) -> ExitCode:
    """Remove a server from the group of all servers."""
    view = api.call(look_at_servers)
    names = [each.name for each in view.servers]
    if server not in names:
        raise CommandFailed(
            f"There is no server {server} in cluster {view.cluster}",
            f"Its servers are: {', '.join(names)}",
        )
    state = "online" if any(e.name == server and e.is_online for e in view.servers) else "offline"
    question = (
        f"Remove server {server}, which is {state}, from cluster {view.cluster}? "
        "Its replicas go to other servers, and its store must not be used again."
    )
    if not confirmed(question, force):
        return nothing_was(output, "removed")
    api.request(server_remove(server))
    if as_json:
        output.result(document({"removed": server, "cluster": view.cluster}))
    else:
        output.result(f"Removed server {server} from cluster {view.cluster}")
    return ExitCode.OK
