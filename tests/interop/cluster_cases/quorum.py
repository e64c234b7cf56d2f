"""Servers that stop: what is heard while some are gone, and when they are back.

Each case has servers of its own. An election takes nats-server up to ten seconds, and a lost
quorum as long to be noticed: these cases wait for what shall happen, never for a time.
"""

import signal
import time
from typing import Any

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.jetstream import EVENTS, Reply, opened
from tests.interop.observation import Observation
from tests.interop.stage import PATIENCE_S, QUIET_S, Client, Stage
from tests.interop.trio import NAMES

catalogue = ClusterCatalogue()


def kill(stage: Stage, *numbers: int) -> None:
    """Servers that are gone from one moment to the next."""
    for number in numbers:
        stage.trio.kill(number)


def once_until(client: Client, request: str, holds: Any, body: Any = None) -> Reply:
    """The first reply that is as awaited, asked for again until it comes."""
    deadline = time.monotonic() + PATIENCE_S
    reply: Any = None
    while time.monotonic() < deadline:
        reply = client.once(request, body, wait_s=2.0)
        if reply is not None and holds(reply):
            break
    found: Reply = reply or {}
    return found


def has_code(code: int) -> Any:
    """Whether a reply is an error with this code."""
    return lambda reply: reply.get("error", {}).get("err_code") == code


@catalogue.case(own_servers=True)
def a_follower_that_is_killed(stage: Stage) -> Observation:
    """INFO tells of a replica that lags; publishes go on, and it catches up."""
    leader = stage.who_leads_new("GONE")
    gone = stage.others(leader)[0]
    client = stage.client(leader)
    client.fill("GONE.a")
    kill(stage, gone)
    acks = [client.publish("GONE.b"), client.publish("GONE.c")]
    told = once_until(client, "STREAM.INFO.GONE", lambda reply: bool(behind(reply)))
    missing = [{**each, "lag": each.get("lag", 0) > 0} for each in behind(told)]
    stage.trio.restart(gone)
    back = stage.settled("GONE")
    return [acks, {"replicas": missing}, back["cluster"], back["state"]]


@catalogue.case(own_servers=True)
def a_follower_that_leaves(stage: Stage) -> Observation:
    """INFO tells of a replica that is offline when its server was told to stop."""
    leader = stage.who_leads_new("LEFT")
    gone = stage.others(leader)[0]
    client = stage.client(leader)
    client.fill("LEFT.a")
    stage.trio.servers[gone].stop()
    told = once_until(
        client,
        "STREAM.INFO.LEFT",
        lambda reply: any(each.get("offline") for each in behind(reply)),
    )
    stage.trio.restart(gone)
    back = stage.settled("LEFT")
    return [{"replicas": [{**each, "lag": 0} for each in behind(told)]}, back["cluster"]]


def behind(reply: Reply) -> list[Any]:
    """The replicas of a document that are not current."""
    replicas = reply.get("cluster", {}).get("replicas", [])
    return [each for each in replicas if not each["current"]]


@catalogue.case(own_servers=True)
def a_leader_that_is_gone(stage: Stage) -> Observation:
    """Another replica leads; what was acknowledged is there, and sequences go on."""
    leader = stage.who_leads_new("LOST-LEADER")
    rest = stage.others(leader)
    client = stage.client(rest[0])
    for number in range(10):
        client.publish("LOST-LEADER.a", str(number))
    kill(stage, leader)
    after = once_until(
        client,
        "STREAM.INFO.LOST-LEADER",
        lambda reply: reply.get("cluster", {}).get("leader") in [NAMES[each] for each in rest],
    )
    ack = client.publish("LOST-LEADER.b")
    while "seq" not in ack:
        ack = client.publish("LOST-LEADER.b")
    return [after["state"], ack]


@catalogue.case(own_servers=True)
def a_lone_stream_whose_server_is_gone(stage: Stage) -> Observation:
    """INFO of a stream of one replica whose server is gone says that it is offline."""
    leader = stage.who_leads_new("LOST-ONE", num_replicas=1)
    stage.make_consumer("LOST-ONE", "C")
    client = stage.client(stage.others(leader)[0])
    stage.trio.servers[leader].stop()
    stage.trio.leader(tuple(stage.others(leader)))
    info = once_until(client, "STREAM.INFO.LOST-ONE", has_code(10118))
    consumer = once_until(client, "CONSUMER.INFO.LOST-ONE.C", lambda reply: "error" in reply)
    publish = client.request("LOST-ONE.a", "x")
    names = client.api("STREAM.NAMES")
    listed = client.api("STREAM.LIST")
    return {
        "info": info,
        "consumer": consumer,
        "publish": publish,
        "names": names,
        "missing": listed.get("missing"),
        "offline": listed.get("offline"),
    }


@catalogue.case(own_servers=True)
def two_of_three_are_gone(stage: Stage) -> Observation:
    """A server without the others says that the cluster has no leader, after half a second."""
    leader = stage.who_leads_new("LOST-QUORUM")
    client = stage.client(leader)
    kill(stage, *stage.others(leader))
    calls = ("STREAM.NAMES", "INFO", "STREAM.LIST")
    once_until(client, "STREAM.NAMES", has_code(10008))
    seen: dict[str, Observation] = {call: client.once(call, wait_s=3.0) for call in calls}
    create = client.once("STREAM.CREATE.NEW", {"name": "NEW", "num_replicas": 1}, wait_s=3.0)
    return {**seen, "create": create}


@catalogue.case(own_servers=True)
def a_stream_without_quorum(stage: Stage) -> Observation:
    """Publishes to a stream without quorum have no responders, once its leader has noticed."""
    leader = stage.who_leads_new("LOST-STREAM")
    client = stage.client(leader)
    client.fill("LOST-STREAM.a")
    kill(stage, *stage.others(leader))

    deadline = time.monotonic() + PATIENCE_S
    frames: list[str] = []
    while not frames and time.monotonic() < deadline:
        frames = client.heard(client.send("LOST-STREAM.b", "x"), 1, QUIET_S)
    return {"publish": [opened(each) for each in frames]}


@catalogue.case(own_servers=True)
def info_of_a_stream_without_quorum(stage: Stage) -> Observation:
    """INFO of a stream without quorum names no leader."""
    leader = stage.who_leads_new("LEADERLESS")
    client = stage.client(leader)
    client.fill("LEADERLESS.a")
    kill(stage, *stage.others(leader))
    return once_until(
        client,
        "STREAM.INFO.LEADERLESS",
        lambda reply: not reply.get("cluster", {}).get("leader"),
    )


@catalogue.case(own_servers=True)
def a_cluster_that_is_whole_again(stage: Stage) -> Observation:
    """When the others are back, everything that was acknowledged is there."""
    leader = stage.who_leads_new("WHOLE")
    client = stage.client(leader)
    for number in range(5):
        client.publish("WHOLE.a", str(number))
    rest = stage.others(leader)
    kill(stage, *rest)
    for number in rest:
        stage.trio.servers[number] = stage.trio.launch(number)
    for number in rest:
        stage.trio.servers[number].wait_until_ready()
    stage.trio.wait_until_whole()
    stage.trio.wait_until_all_vote()
    after = stage.settled("WHOLE")
    return [after["state"], client.publish("WHOLE.b"), {"cluster": after["cluster"]}]


@catalogue.case(own_servers=True)
def all_servers_are_started_again(stage: Stage) -> Observation:
    """Streams, consumers and messages are there after all servers were stopped."""
    stage.make("RESTARTED")
    stage.make_consumer("RESTARTED", "C")
    stage.make("RESTARTED-ONE", num_replicas=1)
    client = stage.client()
    client.fill("RESTARTED.a", "RESTARTED.b", "RESTARTED-ONE.a")
    [frame] = client.pull("RESTARTED", "C")
    client.request(frame.split("\r\n", 1)[0].split(" ")[3], "+ACK")
    for server in stage.trio.servers:
        server.stop()
    stage.trio.start()
    one, three = stage.settled("RESTARTED-ONE"), stage.settled("RESTARTED")
    consumer = stage.settled_consumer("RESTARTED", "C")
    return [one, three, consumer["ack_floor"]["stream_seq"], consumer["num_pending"]]


@catalogue.case(own_servers=True)
def a_lost_quorum_is_announced(stage: Stage) -> Observation:
    """The leader of a stream without quorum announces the loss."""
    leader = stage.who_leads_new("ANNOUNCED-LOSS")
    ear = stage.watch(f"{EVENTS}STREAM.QUORUM_LOST.ANNOUNCED-LOSS", leader)
    kill(stage, *stage.others(leader))
    client = stage.client(leader)
    message: Any = None
    deadline = time.monotonic() + PATIENCE_S
    while message is None and time.monotonic() < deadline:
        client.send_only("ANNOUNCED-LOSS.a", "x")
        if ear.has(lambda subject: "QUORUM_LOST" in subject, 0.5):
            message = ear.seen[-1]
    told = message["advisory"]
    return [message["subject"], told["type"], sorted(told), len(told["replicas"])]


@catalogue.case(own_servers=True)
def health_without_the_others(stage: Stage) -> Observation:
    """/healthz of a server without the others says that there is no meta leader."""
    kill(stage, 1, 2)
    session = stage.session(0)
    deadline = time.monotonic() + PATIENCE_S
    page = session.get("/healthz")
    while "contact" not in str(page) and time.monotonic() < deadline:
        page = session.get("/healthz")
    return page


@catalogue.case(own_servers=True)
def a_server_is_removed(stage: Stage) -> Observation:
    """A server that is gone can be removed, once; streams of three replicas then have two."""
    stage.make("REMOVED")
    gone = stage.others(stage.meta_leader(), stage.who_leads("REMOVED"))[0]
    rest = stage.others(gone)
    kill(stage, gone)
    stage.trio.leader(tuple(rest))
    admin = stage.admin(rest[0])
    replies = [
        admin.once("SERVER.REMOVE", {"peer": NAMES[gone]}, wait_s=5.0),
        admin.once("SERVER.REMOVE", {"peer": NAMES[gone]}, wait_s=5.0),
    ]
    stage.trio.wait_until(lambda: stage.trio.meta(rest[0])["cluster_size"] == 2)
    after = once_until(
        stage.client(rest[0]),
        "STREAM.INFO.REMOVED",
        lambda reply: len(reply.get("cluster", {}).get("replicas", ())) == 1,
    )
    return [replies, after["config"]["num_replicas"], len(after["cluster"]["replicas"])]


@catalogue.case(own_servers=True)
def a_paused_leader_is_replaced(stage: Stage) -> Observation:
    """A leader that does not run loses its stream to another, and follows when it runs again."""
    leader = stage.who_leads_new("PAUSED")
    rest = stage.others(leader)
    client = stage.client(rest[0])
    client.fill("PAUSED.a")
    stage.trio.servers[leader].signal(signal.SIGSTOP)
    after = once_until(
        client,
        "STREAM.INFO.PAUSED",
        lambda reply: reply.get("cluster", {}).get("leader") in [NAMES[each] for each in rest],
    )
    ack = client.publish("PAUSED.b")
    while "seq" not in ack:
        ack = client.publish("PAUSED.b")
    stage.trio.servers[leader].signal(signal.SIGCONT)
    stage.trio.wait_until_all_vote()
    return [after["state"], stage.settled("PAUSED")["state"]["messages"] >= 2]


@catalogue.case(own_servers=True)
def a_server_in_lame_duck_mode_hands_over(stage: Stage) -> Observation:
    """A leader that is told to leave hands its streams over before it goes."""
    leader = stage.who_leads_new("LAME")
    rest = stage.others(leader)
    client = stage.client(rest[0])
    client.fill("LAME.a")
    stage.trio.servers[leader].signal(signal.SIGUSR2)
    after = once_until(
        client,
        "STREAM.INFO.LAME",
        lambda reply: reply.get("cluster", {}).get("leader") in [NAMES[each] for each in rest],
    )
    return [after["state"], client.publish("LAME.b")]
