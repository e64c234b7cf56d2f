"""Replicas that are added and taken away by updates."""

from typing import Any

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.observation import Observation
from tests.interop.stage import Stage, is_settled

catalogue = ClusterCatalogue()


def has_replicas(count: int) -> Any:
    """Whether a document tells of so many servers that have everything, a leader among them."""

    def holds(reply: dict[str, Any]) -> bool:
        replicas = reply.get("cluster", {}).get("replicas", [])
        return is_settled(reply, {}) and len(replicas) == count - 1

    return holds


def scaled(stage: Stage, stream: str, count: int, number: int = 1) -> Observation:
    """The answer to an update of the replicas, and the stream when it is done."""
    reply = stage.client(number).update(stream, num_replicas=count)
    after = stage.ask_until(f"STREAM.INFO.{stream}", has_replicas(count))
    answer = reply.get("error", {"num_replicas": reply.get("config", {}).get("num_replicas")})
    return {"answer": answer, "cluster": after["cluster"], "state": after["state"]}


@catalogue.case()
def from_one_to_three_and_back(stage: Stage) -> Observation:
    """A stream keeps its messages when replicas are added, and when they are taken away."""
    stage.make("SCALED", num_replicas=1)
    client = stage.client(2)
    client.fill(*[f"SCALED.{number}" for number in range(10)])
    up = scaled(stage, "SCALED", 3)
    client.fill("SCALED.x")
    down = scaled(stage, "SCALED", 1)
    ack = client.publish("SCALED.y")
    return [up, down, ack]


@catalogue.case()
def from_one_to_two_to_three(stage: Stage) -> Observation:
    """Replicas are added one after the other."""
    stage.make("SCALED-UP", num_replicas=1)
    stage.client().fill("SCALED-UP.a")
    return [scaled(stage, "SCALED-UP", count) for count in (2, 3)]


@catalogue.case()
def from_three_to_two(stage: Stage) -> Observation:
    """A replica is taken away, and the leader stays one of those that remain."""
    stage.make("SCALED-DOWN")
    stage.client().fill("SCALED-DOWN.a")
    return scaled(stage, "SCALED-DOWN", 2)


@catalogue.case()
def to_more_replicas_than_servers(stage: Stage) -> Observation:
    """A stream is not scaled to more replicas than there are servers."""
    stage.make("SCALED-FAR")
    reply = stage.client(1).update("SCALED-FAR", num_replicas=5)
    return [reply, stage.settled("SCALED-FAR")["config"]["num_replicas"]]


@catalogue.case()
def to_six_replicas(stage: Stage) -> Observation:
    """Five replicas are the most for an update too."""
    stage.make("SCALED-SIX", num_replicas=1)
    return stage.client(2).update("SCALED-SIX", num_replicas=6)


@catalogue.case()
def to_none_is_to_one(stage: Stage) -> Observation:
    """An update that names no number of replicas asks for one."""
    stage.make("SCALED-NONE")
    reply = stage.client(2).update("SCALED-NONE")
    after = stage.ask_until("STREAM.INFO.SCALED-NONE", has_replicas(1))
    return [reply.get("error", reply.get("config")), after["cluster"]]


@catalogue.case()
def a_memory_stream_is_scaled(stage: Stage) -> Observation:
    """Messages in memory are copied to the new replicas."""
    stage.make("SCALED-MEMORY", num_replicas=1, storage="memory")
    client = stage.client()
    client.fill("SCALED-MEMORY.a", "SCALED-MEMORY.b")
    client.update("SCALED-MEMORY", num_replicas=3, storage="memory")
    after = stage.ask_until("STREAM.INFO.SCALED-MEMORY", has_replicas(3))
    client.api("STREAM.LEADER.STEPDOWN.SCALED-MEMORY")
    later = stage.settled("SCALED-MEMORY")
    return [after["state"], later["state"]]


@catalogue.case()
def consumers_are_scaled_with_the_stream(stage: Stage) -> Observation:
    """A durable gets replicas with its stream, keeps its state, and loses them again."""
    stage.make("SCALED-BOTH", num_replicas=1)
    stage.make_consumer("SCALED-BOTH", "C")
    client = stage.client()
    client.fill("SCALED-BOTH.a", "SCALED-BOTH.b")
    [frame] = client.pull("SCALED-BOTH", "C")
    client.request(frame.split("\r\n", 1)[0].split(" ")[3], "+ACK")
    seen: list[Observation] = []
    for count in (3, 1):
        scaled(stage, "SCALED-BOTH", count)
        info = stage.ask_until("CONSUMER.INFO.SCALED-BOTH.C", has_replicas(count))
        seen.append([info["cluster"], info["delivered"]["stream_seq"], info["num_pending"]])
    return seen


@catalogue.case()
def publishes_go_on_while_scaling(stage: Stage) -> Observation:
    """Every publish during a change of the replicas has its sequence."""
    stage.make("SCALED-BUSY", num_replicas=1)
    client = stage.client(2)
    acks = [client.publish("SCALED-BUSY.a")["seq"]]
    stage.client(1).update("SCALED-BUSY", num_replicas=3)
    for _ in range(30):
        reply = client.request("SCALED-BUSY.a", "x")
        while "seq" not in reply:
            reply = client.request("SCALED-BUSY.a", "x")
        acks.append(reply["seq"])
    after = stage.ask_until("STREAM.INFO.SCALED-BUSY", has_replicas(3))
    return [acks == sorted(set(acks)), after["state"]["last_seq"] == acks[-1]]


@catalogue.case()
def an_async_stream_is_not_replicated(stage: Stage) -> Observation:
    """A stream with `persist_mode: async` has one replica, and an update keeps it so."""
    client = stage.client()
    client.api("STREAM.DELETE.SCALED-ASYNC")
    refused = client.create("SCALED-ASYNC", num_replicas=3, persist_mode="async")
    made = client.create("SCALED-ASYNC", num_replicas=1, persist_mode="async")
    updated = client.update("SCALED-ASYNC", num_replicas=3, persist_mode="async")
    return [refused, made.get("error", "made"), updated]


@catalogue.case()
def replicas_of_a_lone_stream_are_remapped(stage: Stage) -> Observation:
    """A stream of one replica leaves a server whose peer is removed."""
    stage.make("REMAPPED", num_replicas=1)
    client = stage.client()
    client.fill("REMAPPED.a")
    leader = stage.settled("REMAPPED")["cluster"]["leader"]
    reply = client.api("STREAM.PEER.REMOVE.REMAPPED", {"peer": leader})
    after = stage.ask_until(
        "STREAM.INFO.REMAPPED",
        lambda found: found.get("cluster", {}).get("leader", leader) != leader,
    )
    return [reply, after["cluster"]["leader"] != leader]


@catalogue.case()
def replicas_of_two_are_remapped(stage: Stage) -> Observation:
    """A removed peer of a stream of two replicas is replaced by the third server."""
    info = stage.make("REMAPPED-TWO", num_replicas=2)
    client = stage.client()
    client.fill("REMAPPED-TWO.a", "REMAPPED-TWO.b")
    gone = info["cluster"]["replicas"][0]["name"]
    reply = client.api("STREAM.PEER.REMOVE.REMAPPED-TWO", {"peer": gone})

    def is_replaced(found: dict[str, Any]) -> bool:
        replicas = found.get("cluster", {}).get("replicas", [])
        return has_replicas(2)(found) and all(each["name"] != gone for each in replicas)

    after = stage.ask_until("STREAM.INFO.REMAPPED-TWO", is_replaced)
    return [reply, after["cluster"], after["state"]]


@catalogue.case()
def a_peer_of_two_is_evacuated(stage: Stage) -> Observation:
    """An evacuated peer of a stream of two replicas is replaced by the third server."""
    info = stage.make("EVACUATED", num_replicas=2)
    client = stage.client()
    client.fill("EVACUATED.a")
    gone = info["cluster"]["replicas"][0]["name"]
    reply = client.api("STREAM.PEER.EVACUATE.EVACUATED", {"peer": gone})

    def is_replaced(found: dict[str, Any]) -> bool:
        replicas = found.get("cluster", {}).get("replicas", [])
        return has_replicas(2)(found) and all(each["name"] != gone for each in replicas)

    after = stage.ask_until("STREAM.INFO.EVACUATED", is_replaced)
    return [reply.get("error", sorted(reply)), after["cluster"], after["state"]]
