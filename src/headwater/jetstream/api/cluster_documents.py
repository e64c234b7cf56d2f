"""The `cluster` of streams and consumers in replies: from the state of a group to its document.

The order of the fields and the omission of empty ones are nats-server's. A stream or a consumer on
one server alone shows the cluster and that server, and has neither a group nor replicas.

A consumer is led where its stream is, and the replicas of both are the same servers.
"""

from hashlib import blake2b, sha256
from typing import Annotated, Final, NamedTuple

import msgspec

from headwater.go.json import OMIT_EMPTY
from headwater.go.times import format_time
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_config import (
    Flag,
    Retention,
    Storage,
    StreamConfig,
    Text,
)

# The account of the frames between servers, unless another one is the system account.
TRAFFIC_ACCOUNT: Final = "$SYS"

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_SIZE: Final = 8


class PeerInfo(msgspec.Struct, kw_only=True):
    """A replica that does not lead. `active` is the time since it was heard, in nanoseconds."""

    name: str
    current: bool
    offline: Flag = False
    active: int = 0
    lag: Annotated[int, OMIT_EMPTY] = 0
    peer: str


class ClusterInfo(msgspec.Struct, kw_only=True):
    """The servers of a stream or of a consumer."""

    name: Text = ""
    raft_group: Text = ""
    leader: Text = ""
    leader_since: Text = ""
    system_account: Flag = False
    traffic_account: Text = ""
    replicas: Annotated[tuple[PeerInfo, ...], OMIT_EMPTY] = ()


class ReplicaState(NamedTuple):
    """A replica as its leader knows it: `lag` is the number of entries that it does not have.

    A follower hears its leader, and nothing of other followers.
    """

    name: str
    is_online: bool = True
    silence_ns: int = 0
    lag: int = 0
    is_heard: bool = True


class GroupState(NamedTuple):
    """The group of a stream, as one of its servers knows it."""

    cluster: str
    leader: str
    # Of the stream: 16 bytes that no other stream has.
    incarnation: bytes
    # The time since which the leader leads, by its own clock; 0 if it is not known.
    leader_since_ns: int = 0
    # All servers of the group but the leader; none for a stream on one server.
    replicas: tuple[ReplicaState, ...] = ()
    # The account under which the traffic between the servers is reported.
    traffic_account: str = TRAFFIC_ACCOUNT
    # Whether that is the system account.
    is_system_traffic: bool = True


def peer_id(name: str) -> str:
    """The short name of a server in documents, which nats-server derives from its name."""
    return _short(sha256(name.encode()).digest())


def _short(digest: bytes) -> str:
    return "".join(_DIGITS[byte % len(_DIGITS)] for byte in digest[:_ID_SIZE])


def describe_stream_group(group: GroupState, config: StreamConfig) -> ClusterInfo:
    """The `cluster` of a stream."""
    return _described(group, "S", config.num_replicas, config.storage, b"")


def describe_consumer_group(
    group: GroupState, stream: StreamConfig, name: str, config: ConsumerConfig
) -> ClusterInfo:
    """The `cluster` of a consumer."""
    storage = Storage.MEMORY if config.mem_storage else stream.storage
    return _described(
        group, "C", consumer_replicas(stream, config), storage, name.encode(errors="replace")
    )


def consumer_replicas(stream: StreamConfig, config: ConsumerConfig) -> int:
    """The number of replicas of a consumer: one of a consumer that ends with its client."""
    own = config.num_replicas
    if 0 < own <= stream.num_replicas:
        return own
    is_passing = not config.is_durable and stream.retention is Retention.LIMITS and own == 0
    return 1 if is_passing else max(stream.num_replicas, 1)


def stream_group_name(incarnation: bytes, config: StreamConfig) -> str:
    """The name of a stream's group; a stream of one server has one too."""
    return _group_name(incarnation, "S", max(config.num_replicas, 1), config.storage, b"")


def consumer_group_name(
    incarnation: bytes, stream: StreamConfig, name: str, config: ConsumerConfig
) -> str:
    """The name of a consumer's group, by the incarnation of its stream."""
    storage = Storage.MEMORY if config.mem_storage else stream.storage
    replicas = consumer_replicas(stream, config)
    return _group_name(incarnation, "C", replicas, storage, name.encode(errors="replace"))


def _group_name(incarnation: bytes, kind: str, replicas: int, storage: Storage, salt: bytes) -> str:
    letter = "M" if storage is Storage.MEMORY else "F"
    digest = blake2b(incarnation + salt, digest_size=_ID_SIZE).digest()
    return f"{kind}-R{replicas}{letter}-{_short(digest)}"


def _described(
    group: GroupState, kind: str, replicas: int, storage: Storage, salt: bytes
) -> ClusterInfo:
    if replicas <= 1:
        return ClusterInfo(name=group.cluster, leader=group.leader)
    since_ns = group.leader_since_ns
    return ClusterInfo(
        name=group.cluster,
        raft_group=_group_name(group.incarnation, kind, replicas, storage, salt),
        leader=group.leader,
        leader_since=format_time(since_ns) if since_ns and group.leader else "",
        system_account=group.is_system_traffic,
        traffic_account=group.traffic_account,
        replicas=tuple(describe_replica(each) for each in sorted(group.replicas)),
    )


def describe_replica(replica: ReplicaState) -> PeerInfo:
    """The document of one replica."""
    return PeerInfo(
        name=replica.name,
        current=replica.is_online and replica.is_heard and replica.lag == 0,
        offline=not replica.is_online,
        active=replica.silence_ns,
        lag=replica.lag,
        peer=peer_id(replica.name),
    )
