"""Streams that move to other servers, and requests that come meanwhile.

A move to a server that does not run cannot end: that is how these cases meet a stream on its way.
"""

import signal
from typing import Any

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.jetstream import Reply
from tests.interop.observation import Observation
from tests.interop.stage import Client, Stage, is_settled
from tests.interop.trio import NAMES

catalogue = ClusterCatalogue()


def shown(reply: Reply) -> Observation:
    """The error of a reply, or the names of its parts."""
    return reply.get("error") or sorted(reply)


def under_way(stage: Stage, stream: str) -> Client:
    """A stream that is on its way from the first server to the third, which does not run."""
    stage.make(stream, num_replicas=1, placement={"tags": ["node:s1"]})
    client = stage.client()
    client.fill(*[f"{stream}.a"] * 20)
    if stage.meta_leader() == 2:
        stage.admin().api("META.LEADER.STEPDOWN", {"placement": {"preferred": "s1"}})
        stage.trio.leader(other_than="s3")
    stage.trio.servers[2].signal(signal.SIGSTOP)
    moved = client.update(stream, num_replicas=1, placement={"tags": ["node:s3"]})
    assert "error" not in moved, moved
    return client


def goes_on(stage: Stage, stream: str) -> Reply:
    """The stream when all servers run again and nothing is under way."""
    stage.trio.servers[2].signal(signal.SIGCONT)
    return stage.settled(stream)


@catalogue.case(own_servers=True)
def a_second_move_is_refused(stage: Stage) -> Observation:
    """A stream that moves is not moved elsewhere, scaled, or taken from a peer."""
    client = under_way(stage, "MOVING")
    replies = [
        client.update("MOVING", num_replicas=1, placement={"tags": ["node:s2"]}),
        client.update("MOVING", num_replicas=3, placement={"tags": ["ssd"]}),
        client.api("STREAM.PEER.REMOVE.MOVING", {"peer": "s3"}),
    ]
    after = goes_on(stage, "MOVING")
    return [[shown(reply) for reply in replies], after["state"]["messages"]]


@catalogue.case(own_servers=True)
def a_move_is_cancelled(stage: Stage) -> Observation:
    """A stream whose move is cancelled stays where it was, with its placement."""
    client = under_way(stage, "CANCELLED")
    reply = client.api("STREAM.CANCEL_MOVE.CANCELLED")
    after = goes_on(stage, "CANCELLED")
    placement = after["config"]["placement"]
    return [shown(reply), after["cluster"], placement, after["state"]["messages"]]


@catalogue.case(own_servers=True)
def publishes_go_on_during_a_move(stage: Stage) -> Observation:
    """A stream takes messages where it is until it has moved."""
    client = under_way(stage, "BUSY")
    acks = [client.publish("BUSY.b")["seq"] for _ in range(5)]
    after = goes_on(stage, "BUSY")
    return [acks, after["state"]["last_seq"]]


@catalogue.case()
def a_move_by_the_system_account(stage: Stage) -> Observation:
    """The system account moves a stream off a server, with all its messages."""
    stage.make("OFF", num_replicas=2)
    client = stage.client()
    client.fill("OFF.a", "OFF.b")
    [follower] = [each["name"] for each in stage.settled("OFF")["cluster"]["replicas"]]
    reply = stage.admin(1).api("ACCOUNT.STREAM.MOVE.A.OFF", {"server": follower})

    def is_moved(found: Reply) -> bool:
        return is_settled(found, {}) and follower not in members(found)

    after = stage.ask_until("STREAM.INFO.OFF", is_moved)
    return [shown(reply), len(members(after)), follower in members(after), after["state"]]


def members(info: Reply) -> list[Any]:
    """The names of the servers that keep a stream."""
    cluster = info.get("cluster", {})
    return [cluster.get("leader"), *(each["name"] for each in cluster.get("replicas", ()))]


@catalogue.case(own_servers=True)
def a_server_is_evacuated(stage: Stage) -> Observation:
    """Streams of one and two replicas leave a server that is evacuated."""
    for name, replicas in (("EVAC-1", 1), ("EVAC-2", 2)):
        stage.make(name, num_replicas=replicas, placement={"tags": ["zone:left"]})
        stage.client().update(name, num_replicas=replicas)
        stage.settled(name)
    gone = NAMES[0]
    reply = stage.admin(1).api("SERVER.EVACUATE", {"peer": gone})
    seen = []
    for name in ("EVAC-1", "EVAC-2"):
        after = stage.ask_until(
            f"STREAM.INFO.{name}",
            lambda found: is_settled(found, {}) and gone not in members(found),
        )
        seen.append([gone in members(after), len(members(after))])
    return [reply, seen]
