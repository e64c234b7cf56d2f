"""The servers that keep a stream or a consumer, as `cluster` in an answer describes them.

A server outside a cluster answers without `cluster`, or with its own name as the leader.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Replica:
    """A server that follows a leader, as the leader sees it.

    `lag` counts operations; `seen_ns` is the time since the leader heard from it, 0 for never.
    """

    name: str
    is_current: bool
    is_offline: bool
    lag: int
    seen_ns: int

    @classmethod
    def of(cls, replica: Mapping[str, Any]) -> "Replica":
        """An entry of `replicas`."""
        return cls(
            name=str(replica.get("name") or ""),
            is_current=bool(replica.get("current")),
            is_offline=bool(replica.get("offline")),
            lag=int(replica.get("lag") or 0),
            seen_ns=int(replica.get("active") or 0),
        )

    @property
    def problem(self) -> str:
        """A clause about a replica that cannot take over at once; empty for one that can."""
        if self.is_offline:
            return f"{self.name} is offline"
        if self.is_current:
            return ""
        unit = "operation" if self.lag == 1 else "operations"
        behind = f", {self.lag:,} {unit} behind" if self.lag else ""
        return f"{self.name} is not current{behind}"


@dataclass(frozen=True)
class ReplicaGroup:
    """The leader and the followers of a stream, a consumer or a whole cluster.

    `leader` is empty while there is none. `change` describes a scale or a move that is under way;
    None means that no change is.
    """

    cluster: str
    leader: str
    followers: tuple[Replica, ...]
    change: str | None

    @classmethod
    def of(cls, cluster: Mapping[str, Any] | None) -> "ReplicaGroup":
        """The group of an answer's `cluster`."""
        found = cluster or {}
        leader = str(found.get("leader") or "")
        replicas = [Replica.of(each) for each in found.get("replicas") or []]
        desired = found.get("desired")
        change = None
        if desired is not None:
            status = desired.get("status") or {}
            change = str(status.get("description") or "")
        return cls(
            cluster=str(found.get("name") or ""),
            leader=leader,
            # A server other than the leader lists the leader too.
            followers=tuple(each for each in replicas if each.name != leader),
            change=change,
        )

    @property
    def is_clustered(self) -> bool:
        """Whether the answer came from a cluster."""
        return bool(self.cluster or self.followers)

    @property
    def servers(self) -> list[str]:
        """The names of all servers, the leader first."""
        leader = [self.leader] if self.leader else []
        return leader + sorted(each.name for each in self.followers)

    @property
    def lag(self) -> int:
        """The operations that the slowest follower lacks."""
        return max((each.lag for each in self.followers), default=0)

    @property
    def current_count(self) -> int:
        """The number of servers that have everything, the leader among them."""
        return bool(self.leader) + sum(not each.problem for each in self.followers)

    def problems(self, replicas: int) -> list[str]:
        """The reasons why a group that should have this many replicas is not healthy."""
        if not self.is_clustered:
            # Replicas that nobody tells of are not taken for healthy ones.
            return ["no word of its replicas"] if replicas > 1 else []
        if not self.leader:
            return ["no leader"]
        found = [each.problem for each in self.followers if each.problem]
        if (count := len(self.servers)) != replicas:
            found.append(f"{count} replicas in place of {replicas}")
        if self.change is not None:
            found.append(f"a change is under way: {self.change}".removesuffix(": "))
        return found
