"""Clusters as text and JSON. Values in, text out."""

from typing import Any

from rich.text import Text

from headwater.cli.cluster.view import ClusterView, ServerView, StreamView
from headwater.cli.shell.render import ERROR_STYLE, SUBJECT_STYLE, count_text, size_text
from headwater.cli.shell.sections import TITLE_STYLE, append_section
from headwater.cli.shell.tables import Column, Columns, one_line
from headwater.client.api.replicas import ReplicaGroup


def title_text(view: ClusterView) -> Text:
    """A line about the whole cluster."""
    text = Text("Cluster ", TITLE_STYLE)
    text.append(one_line(view.cluster), SUBJECT_STYLE)
    text.append(": ")
    if view.meta is not None:
        leader = (
            f"meta leader {one_line(view.meta.leader)}" if view.meta.leader else "no meta leader"
        )
        text.append(f"{count_text(len(view.servers), 'server')}, {leader}, ")
    text.append(f"{count_text(len(view.streams), 'stream')}, ")
    count = len(view.problems)
    if count:
        return text.append(count_text(count, "problem"), ERROR_STYLE)
    return text.append("healthy")


def servers_table(view: ClusterView) -> Columns:
    """A line for each server."""
    is_system = view.meta is not None
    known = (
        (
            Column("state", is_text=True),
            Column("version", is_text=True),
            Column("tags", is_text=True, can_shrink=True),
        )
        if is_system
        else ()
    )
    size = (Column("size"),) if is_system else ()
    table = Columns(
        (Column("server", is_text=True), *known, Column("leads"), Column("follows"), *size)
    )
    for server in view.servers:
        counts = f"{server.leads:,}", f"{server.follows:,}"
        if is_system:
            state = server_state(view, server)
            tags = ", ".join(server.tags)
            table.add(
                server.name, state, server.version, tags, *counts, size_text(server.size_bytes)
            )
        else:
            table.add(server.name, *counts)
    return table


def server_state(view: ClusterView, server: ServerView) -> str:
    """The part that a server has in the group of all servers."""
    if not server.is_online:
        return "offline"
    if not server.has_streams:
        return "no JetStream"
    group = view.meta
    if group is None or not group.is_clustered:
        return "online"
    if group.leader == server.name:
        return "meta leader"
    replica = next((each for each in group.followers if each.name == server.name), None)
    if replica is None:
        return "not a member"
    if replica.is_current:
        return "current"
    return f"{replica.lag:,} behind" if replica.lag else "not current"


def streams_table(view: ClusterView) -> Columns:
    """A line for each stream."""
    account = (Column("account", is_text=True),) if view.meta is not None else ()
    table = Columns(
        (
            Column("stream", is_text=True, can_shrink=True),
            *account,
            Column("replicas"),
            Column("leader", is_text=True),
            Column("followers", is_text=True, can_shrink=True),
            Column("lag"),
            Column("messages"),
            Column("size"),
        )
    )
    for stream in view.streams:
        table.add(
            stream.name,
            *([stream.account] if view.meta is not None else []),
            replicas_text(stream),
            stream.group.leader or "none",
            followers_text(stream.group),
            f"{stream.group.lag:,}",
            f"{stream.messages:,}",
            size_text(stream.size_bytes),
        )
    return table


def replicas_text(stream: StreamView) -> str:
    """The number of replicas that are current, of all: `2/3`."""
    if stream.group.is_clustered:
        return f"{stream.group.current_count}/{stream.replicas}"
    # A server on its own need not name itself as the leader.
    return "1/1" if stream.replicas == 1 else f"?/{stream.replicas or '?'}"


def followers_text(group: ReplicaGroup) -> str:
    """The followers by name; ! marks one that is not current."""
    return ", ".join(each.name + ("!" if each.problem else "") for each in group.followers)


def problems_text(view: ClusterView) -> Text:
    """The problems of a cluster, each with the part that it concerns."""
    text = Text()
    append_section(text, "Problems", view.problems)
    text.rstrip()
    return text


def cluster_fields(view: ClusterView) -> dict[str, Any]:
    """A cluster for a program."""
    return {
        "cluster": view.cluster,
        "healthy": not view.problems,
        "meta_leader": None if view.meta is None else view.meta.leader,
        "servers": [server_fields(view, each) for each in view.servers],
        "streams": [stream_fields(each) for each in view.streams],
        "problems": [{"part": part, "problem": problem} for part, problem in view.problems],
    }


def server_fields(view: ClusterView, server: ServerView) -> dict[str, Any]:
    """A server for a program."""
    fields: dict[str, Any] = {
        "name": server.name,
        "online": server.is_online,
        "leads": server.leads,
        "follows": server.follows,
    }
    if view.meta is not None:
        fields |= {
            "state": server_state(view, server),
            "version": server.version,
            "tags": list(server.tags),
            "bytes": server.size_bytes,
        }
    return fields


def stream_fields(stream: StreamView) -> dict[str, Any]:
    """A stream for a program."""
    return {
        **({"account": stream.account} if stream.account else {}),
        "name": stream.name,
        "num_replicas": stream.replicas,
        "leader": stream.group.leader,
        "followers": [
            {
                "name": each.name,
                "current": each.is_current,
                "offline": each.is_offline,
                "lag": each.lag,
            }
            for each in stream.group.followers
        ],
        "messages": stream.messages,
        "bytes": stream.size_bytes,
        "problems": stream.problems,
    }
