"""The `cluster` of streams and consumers: fields, order and omissions of nats-server 2.15.1."""

import json
from typing import Any

from headwater.base.clock import NS_PER_S
from headwater.go.json import write
from headwater.jetstream.api.cluster_documents import (
    GroupState,
    ReplicaState,
    consumer_replicas,
    describe_consumer_group,
    describe_stream_group,
    peer_id,
)
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_config import Retention, Storage, StreamConfig

R3 = StreamConfig(name="S", subjects=("s",), num_replicas=3)
GROUP = GroupState(
    "trio",
    "s1",
    bytes(16),
    NS_PER_S,
    (ReplicaState("s3", lag=1), ReplicaState("s2", silence_ns=110_013)),
)


def written(document: object) -> Any:
    """A document as a client reads it."""
    return json.loads(write(document))


def test_the_short_name_of_a_server_is_that_of_nats_server() -> None:
    assert [peer_id(name) for name in ("s1", "s2", "s3")] == ["k2My6qdB", "noC8kOtg", "3ahZoO2Q"]


def test_a_replicated_stream_shows_its_group_and_its_replicas_by_name() -> None:
    shown = written(describe_stream_group(GROUP, R3))
    group = shown.pop("raft_group")
    assert group.startswith("S-R3F-")
    assert len(group) == 14
    assert group[6:].isalnum()
    assert [*shown.items()] == [
        ("name", "trio"),
        ("leader", "s1"),
        ("leader_since", "1970-01-01T00:00:01Z"),
        ("system_account", True),
        ("traffic_account", "$SYS"),
        (
            "replicas",
            [
                {"name": "s2", "current": True, "active": 110_013, "peer": "noC8kOtg"},
                {"name": "s3", "current": False, "active": 0, "lag": 1, "peer": "3ahZoO2Q"},
            ],
        ),
    ]
    assert [*shown["replicas"][1]] == ["name", "current", "active", "lag", "peer"]


def test_a_replica_that_is_not_heard_is_offline_and_not_current() -> None:
    gone = GROUP._replace(replicas=(ReplicaState("s2", is_online=False),))
    assert written(describe_stream_group(gone, R3))["replicas"] == [
        {"name": "s2", "current": False, "offline": True, "active": 0, "peer": "noC8kOtg"}
    ]


def test_a_group_without_a_leader_shows_no_time_of_its_election() -> None:
    shown = written(describe_stream_group(GROUP._replace(leader=""), R3))
    assert "leader" not in shown
    assert "leader_since" not in shown


def test_a_stream_on_one_server_shows_the_cluster_and_that_server() -> None:
    single = StreamConfig(name="S", num_replicas=1)
    expected = {"name": "trio", "leader": "s1"}
    assert written(describe_stream_group(GROUP, single)) == expected


def test_the_name_of_a_group_stays_and_tells_the_storage() -> None:
    memory = StreamConfig(name="S", num_replicas=5, storage=Storage.MEMORY)
    first = describe_stream_group(GROUP, memory).raft_group
    assert first.startswith("S-R5M-")
    assert first == describe_stream_group(GROUP._replace(leader="s2"), memory).raft_group
    other = GROUP._replace(incarnation=bytes(15) + b"1")
    assert first != describe_stream_group(other, memory).raft_group


def test_a_durable_consumer_has_a_group_of_its_own_name() -> None:
    config = ConsumerConfig(durable_name="C", mem_storage=True)
    shown = describe_consumer_group(GROUP, R3, "C", config)
    assert shown.raft_group.startswith("C-R3M-")
    assert shown.leader == "s1"
    assert shown.raft_group != describe_consumer_group(GROUP, R3, "D", config).raft_group


def test_a_consumer_without_a_durable_name_is_on_one_server_unless_messages_wait_for_it() -> None:
    passing = ConsumerConfig(name="C")
    assert written(describe_consumer_group(GROUP, R3, "C", passing)) == {
        "name": "trio",
        "leader": "s1",
    }
    queue = StreamConfig(name="S", num_replicas=3, retention=Retention.WORKQUEUE)
    assert consumer_replicas(queue, passing) == 3


def test_a_consumer_has_at_most_the_replicas_of_its_stream() -> None:
    assert consumer_replicas(R3, ConsumerConfig(durable_name="C", num_replicas=1)) == 1
    assert consumer_replicas(R3, ConsumerConfig(durable_name="C", num_replicas=5)) == 3
    assert consumer_replicas(StreamConfig(name="S"), ConsumerConfig(durable_name="C")) == 1
