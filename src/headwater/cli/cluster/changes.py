"""The commands that change where streams are kept, and the command that waits for all of them."""

from typing import Any, Final

import click

from headwater.cli.api.client import ApiTarget
from headwater.cli.api.command import (
    ASK_OPTION,
    JSON_OPTION,
    STREAM_NAME,
    api_command,
    document,
)
from headwater.cli.api.configuring import nothing_was
from headwater.cli.cluster.asking import look_at_cluster, not_of_system
from headwater.cli.cluster.commands import NO_WAIT_OPTION, REPLICA_WAIT_S
from headwater.cli.cluster.render import cluster_fields, stream_fields
from headwater.cli.cluster.view import ClusterView, Problems, StreamView
from headwater.cli.cluster.waiting import Wait, wait_for_stream
from headwater.cli.shell.confirm import confirmed
from headwater.cli.shell.exits import ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.render import count_text
from headwater.cli.shell.settings_options import split_words
from headwater.client.api.requests import Document, stream_info, stream_update

# nats-server and Headwater refuse more.
REPLICAS_MAX: Final = 5
HEALTHY_WAIT_S: Final = 60.0


@api_command(
    "scale",
    wait_s=REPLICA_WAIT_S,
    examples="""
headwater cluster scale ORDERS 3             on three servers; waits until all have everything
headwater cluster scale ORDERS 1             back to one; asks first
headwater cluster scale ORDERS 3 --no-wait   only begin
headwater cluster scale ORDERS 5 --timeout 1h
""",
)
@click.argument("stream", type=STREAM_NAME)
@click.argument("replicas", type=click.IntRange(1, REPLICAS_MAX))
@NO_WAIT_OPTION
@ASK_OPTION
@JSON_OPTION
def scale(
    api: ApiTarget,
    output: Output,
    stream: str,
    replicas: int,
    no_wait: bool,
    force: bool,
    as_json: bool,
    wait_s: float,
) -> ExitCode:
    """Keep STREAM on REPLICAS servers, and wait until all of them have everything.

    Two of three servers, or three of five, can do without the others; an even number survives no
    more losses than the odd one below it.
    """
    config = api.request(stream_info(stream))["config"]
    before = int(config.get("num_replicas") or 1)
    if replicas < before:
        question = f"Keep stream {stream} on {replicas} in place of {before} servers?"
        if not confirmed(question, force):
            return nothing_was(output, "changed")
    if replicas != before:
        api.request(stream_update({**config, "num_replicas": replicas}))
    return finish(api, output, stream, no_wait, as_json, wait_s)


@api_command(
    "move",
    wait_s=REPLICA_WAIT_S,
    examples="""
headwater cluster move ORDERS --tag zone:b            to servers with this tag
headwater cluster move ORDERS --tag sync:always,ssd   with both
headwater cluster move ORDERS --cluster east          to another cluster
headwater cluster move ORDERS --tag zone:b --no-wait
""",
)
@click.argument("stream", type=STREAM_NAME)
@click.option("--tag", "tags", multiple=True, help="To servers with these tags; !TAG is without.")
@click.option("--cluster", help="To this cluster.")
@NO_WAIT_OPTION
@JSON_OPTION
def move(
    api: ApiTarget,
    output: Output,
    stream: str,
    tags: tuple[str, ...],
    cluster: str | None,
    no_wait: bool,
    as_json: bool,
    wait_s: float,
) -> ExitCode:
    """Move STREAM to servers with tags, or to another cluster, and wait until it is there.

    The tags take the place of those that the stream has. Clients go on meanwhile.
    """
    words = [word for part in tags for word in split_words(part)]
    if not words and not cluster:
        raise click.UsageError("say where to: --tag TAG or --cluster NAME")
    config = api.request(stream_info(stream))["config"]
    placement: dict[str, Any] = dict(config.get("placement") or {})
    placement |= ({"tags": words} if words else {}) | ({"cluster": cluster} if cluster else {})
    if placement != config.get("placement"):
        api.request(stream_update({**config, "placement": placement}))
    return finish(api, output, stream, no_wait, as_json, wait_s)


def finish(
    api: ApiTarget, output: Output, stream: str, no_wait: bool, as_json: bool, wait_s: float
) -> ExitCode:
    """Wait until the servers of a stream have everything, unless told otherwise, and report."""
    view: StreamView
    if no_wait:
        info: Document = api.request(stream_info(stream))
        view = StreamView.of("", info)
    else:
        view = wait_for_stream(api, Wait(output, wait_s, as_json), stream)
    if as_json:
        output.result(document(stream_fields(view)))
    elif view.problems:
        output.result(f"Stream {stream} is under way: {'; '.join(view.problems)}")
    else:
        output.result(f"Stream {stream} is on {servers_text(view)}")
    return ExitCode.OK


def servers_text(view: StreamView) -> str:
    """`3 servers: s2 (leader), s1, s3`."""
    names = view.group.servers
    if not view.group.is_clustered or not names:
        return "this server"
    shown = [f"{names[0]} (leader)", *names[1:]]
    return f"{count_text(len(names), 'server')}: {', '.join(shown)}"


@api_command(
    "wait-healthy",
    wait_s=HEALTHY_WAIT_S,
    examples="""
headwater cluster wait-healthy && ./deploy.sh
headwater cluster wait-healthy --timeout 5m --stream ORDERS
headwater cluster wait-healthy --servers 3 --user sys --password secret
""",
)
@click.option("--stream", "streams", type=STREAM_NAME, multiple=True, help="Only these streams.")
@click.option(
    "--servers", type=click.IntRange(min=1), help="This many are online; system account only."
)
@JSON_OPTION
def wait_healthy(
    api: ApiTarget,
    output: Output,
    streams: tuple[str, ...],
    servers: int | None,
    as_json: bool,
    wait_s: float,
) -> ExitCode:
    """Wait until every stream has a leader and all its replicas are current.

    With a user of the system account: the streams of all accounts, and the group of all servers.
    A server that cannot be reached yet is tried again. The exit code is 0 when the cluster is
    healthy and 1 when it was not in time; standard error names the reasons.
    """

    def outstanding(view: ClusterView) -> Problems:
        left = view.problems_of(view.named(streams)) if streams else view.problems
        if servers is None:
            return left
        if view.meta is None:
            raise not_of_system()
        online = sum(each.is_online for each in view.servers)
        if online < servers:
            left.append(("cluster", f"{online} of {count_text(servers, 'server')} online"))
        return left

    wait = Wait(output, wait_s, hidden=as_json)
    view = wait.until(
        lambda: api.call(look_at_cluster), outstanding, "See more with: headwater cluster status"
    )
    if as_json:
        output.result(document(cluster_fields(view)))
    else:
        count = count_text(len(streams) or len(view.streams), "stream")
        output.result(f"Healthy: {count} of cluster {view.cluster or '(none)'}")
    return ExitCode.OK
