"""A cluster as its servers describe it, and the problems in the description.

Users of the system account hear every server and see the streams of all accounts. Other users see
the streams of their account, and the servers that keep those streams.

Must not know: connections, and the look of a report.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from headwater.client.api.replicas import Replica, ReplicaGroup
from headwater.client.api.requests import Document

Problems = list[tuple[str, str]]
"""The names of unhealthy parts, each with a reason; empty for a healthy cluster."""


@dataclass(frozen=True)
class StreamView:
    """A stream and the servers that keep it; `account` is empty for the user's own.

    A stream that no server told about has its name alone: `replicas` is 0.
    """

    account: str
    name: str
    replicas: int
    group: ReplicaGroup
    messages: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, account: str, info: Mapping[str, Any]) -> "StreamView":
        """A stream from its information."""
        config, state = info.get("config") or {}, info.get("state") or {}
        return cls(
            account=account,
            name=str(config.get("name") or info.get("name") or ""),
            replicas=int(config.get("num_replicas") or 1),
            group=ReplicaGroup.of(info.get("cluster")),
            messages=int(state.get("messages") or 0),
            size_bytes=int(state.get("bytes") or 0),
        )

    @classmethod
    def silent(cls, name: str) -> "StreamView":
        """A stream that no server told about."""
        return cls("", name, 0, ReplicaGroup.of(None))

    @property
    def problems(self) -> list[str]:
        """The reasons why the stream is not healthy."""
        return self.group.problems(self.replicas) if self.replicas else ["no server answers"]

    @property
    def label(self) -> str:
        """The name of the stream, after that of its account if it is not the user's own."""
        return f"{self.account}/{self.name}" if self.account else self.name


@dataclass(frozen=True)
class ServerView:
    """A server of the cluster; one that does not answer has its name alone.

    `leads` and `follows` count streams. The fields after them are known to the system account.
    """

    name: str
    is_online: bool
    leads: int = 0
    follows: int = 0
    version: str = ""
    tags: tuple[str, ...] = ()
    has_streams: bool = True
    size_bytes: int = 0

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "ServerView":
        """A server from its answer to JSZ."""
        server, data = answer.get("server") or {}, answer.get("data") or {}
        return cls(
            name=str(server.get("name") or ""),
            is_online=True,
            version=str(server.get("ver") or ""),
            tags=tuple(str(tag) for tag in server.get("tags") or ()),
            has_streams=not data.get("disabled"),
            size_bytes=int(data.get("storage") or 0) + int(data.get("memory") or 0),
        )


@dataclass(frozen=True)
class ClusterView:
    """The servers and streams of a cluster.

    `cluster` is empty for a server outside a cluster. `meta` is the group of all servers; None
    means that the user is not of the system account, and so does not learn of it.
    """

    cluster: str
    servers: tuple[ServerView, ...]
    meta: ReplicaGroup | None
    streams: tuple[StreamView, ...]

    @property
    def problems(self) -> Problems:
        """The problems of the group of all servers and of the streams."""
        meta = self.meta
        if meta is None or not meta.is_clustered:
            return self.problems_of(self.streams)
        found = [] if meta.leader else [("cluster", "no meta leader")]
        found += [("cluster", each.problem) for each in meta.followers if each.problem]
        return found + self.problems_of(self.streams)

    def problems_of(self, streams: Iterable[StreamView]) -> Problems:
        """The problems of some streams."""
        return [(f"stream {each.label}", problem) for each in streams for problem in each.problems]

    def named(self, names: Iterable[str]) -> list[StreamView]:
        """The streams of these names, in whatever account; an unknown one has no servers."""
        found: list[StreamView] = []
        for name in names:
            found += [each for each in self.streams if each.name == name] or [
                StreamView.silent(name)
            ]
        return found


def view_of_system(answers: Sequence[Document]) -> ClusterView:
    """The cluster from the answers of all servers to JSZ."""
    known = [ServerView.of(answer) for answer in answers]
    online = {server.name for server in known}
    meta = meta_group(answers, online)
    silent = [each for each in meta.servers if each not in online]
    servers = [*known, *(ServerView(name, is_online=False) for name in silent)]
    streams = streams_of_system(answers, online)
    clusters = Counter(str((each.get("server") or {}).get("cluster") or "") for each in answers)
    cluster = clusters.most_common(1)[0][0] if clusters else ""
    return ClusterView(cluster, counted(servers, streams), meta, tuple(streams))


def meta_group(answers: Sequence[Document], online: Set[str]) -> ReplicaGroup:
    """The group of all servers, as its leader describes it, else as any server does."""
    groups = {
        str((each.get("server") or {}).get("name")): ReplicaGroup.of(
            (each.get("data") or {}).get("meta_cluster")
        )
        for each in answers
    }
    leaders = Counter(group.leader for group in groups.values() if group.leader)
    leader = leaders.most_common(1)[0][0] if leaders else ""
    known = [each for each in groups.values() if each.is_clustered]
    group = groups.get(leader) or next(iter(known), ReplicaGroup.of(None))
    return heard(group, online)


def streams_of_system(answers: Sequence[Document], online: Set[str]) -> list[StreamView]:
    """The streams of all accounts, each as its leader describes it, else as any server does."""
    found: dict[tuple[str, str], StreamView] = {}
    for answer in answers:
        server = str((answer.get("server") or {}).get("name") or "")
        for account in (answer.get("data") or {}).get("account_details") or []:
            for detail in account.get("stream_detail") or []:
                stream = StreamView.of(str(account.get("name") or ""), detail)
                key = stream.account, stream.name
                if key not in found or stream.group.leader == server:
                    found[key] = replace(stream, group=heard(stream.group, online))
    return [found[key] for key in sorted(found)]


def heard(group: ReplicaGroup, online: Set[str]) -> ReplicaGroup:
    """The group without the servers that did not answer: offline, whatever others know yet."""
    if not group.is_clustered:
        return group
    followers = sorted(group.followers, key=lambda each: each.name)
    marked = [each if each.name in online else replace(each, is_offline=True) for each in followers]
    if group.leader in online:
        return replace(group, followers=tuple(marked))
    lost = [Replica(group.leader, False, True, 0, 0)] if group.leader else []
    return replace(group, leader="", followers=(*marked, *lost))


def view_of_account(
    info: Mapping[str, Any], streams: Iterable[Document], missing: Iterable[str]
) -> ClusterView:
    """The cluster from INFO and from the streams of an account."""
    views = [StreamView.of("", each) for each in streams]
    views += [StreamView.silent(name) for name in missing]
    views.sort(key=lambda each: each.name)
    followers: dict[str, Replica] = {}
    for view in views:
        followers |= {each.name: each for each in view.group.followers}
    own = str(info.get("server_name") or "")
    leaders = {view.group.leader for view in views if view.group.is_clustered and view.group.leader}
    servers = [
        ServerView(name, is_online=name not in followers or not followers[name].is_offline)
        for name in sorted({own, *leaders, *followers} - {""})
    ]
    return ClusterView(str(info.get("cluster") or ""), counted(servers, views), None, tuple(views))


def counted(servers: Iterable[ServerView], streams: Sequence[StreamView]) -> tuple[ServerView, ...]:
    """The servers in the order of their names, with the numbers of streams that they keep."""
    leads = Counter(each.group.leader for each in streams)
    follows = Counter(each.name for stream in streams for each in stream.group.followers)
    return tuple(
        replace(each, leads=leads[each.name], follows=follows[each.name])
        for each in sorted(servers, key=lambda each: each.name)
    )
