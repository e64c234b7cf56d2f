"""Requests and publishes to any server: the one that has to answer does, once."""

from typing import Any

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.jetstream import Reply, opened
from tests.interop.masks import is_count
from tests.interop.observation import Mask, Observation
from tests.interop.stage import Client, Stage

catalogue = ClusterCatalogue()


def from_everywhere(stage: Stage, request: str, body: Any = None) -> list[list[Reply]]:
    """All answers to a request that is sent to each server in turn."""
    return [client.all_answers(request, body) for client in stage.everywhere()]


@catalogue.case()
def info_is_answered_once(stage: Stage) -> Observation:
    """INFO of a stream is answered once."""
    stage.make("ONCE-INFO")
    return from_everywhere(stage, "STREAM.INFO.ONCE-INFO")


@catalogue.case()
def info_of_no_stream_is_answered_once(stage: Stage) -> Observation:
    """INFO of a stream that does not exist is answered once."""
    return from_everywhere(stage, "STREAM.INFO.NO-SUCH")


@catalogue.case()
def consumer_info_is_answered_once(stage: Stage) -> Observation:
    """INFO of a consumer is answered once, also of one that does not exist."""
    stage.make("ONCE-CONSUMER")
    stage.make_consumer("ONCE-CONSUMER", "C")
    found = from_everywhere(stage, "CONSUMER.INFO.ONCE-CONSUMER.C")
    return [found, from_everywhere(stage, "CONSUMER.INFO.ONCE-CONSUMER.NONE")]


@catalogue.case(
    masks=(
        Mask("*.*.api.total", is_count, "counts the requests of all cases"),
        Mask("*.*.api.errors", is_count, "counts the requests of all cases"),
    )
)
def account_info_is_answered_once(stage: Stage) -> Observation:
    """INFO of an account is answered once, from whichever server."""
    return [client.all_answers("INFO") for client in stage.everywhere("other")]


@catalogue.case()
def names_are_answered_once(stage: Stage) -> Observation:
    """NAMES of an account without streams is answered once."""
    return [client.all_answers("STREAM.NAMES") for client in stage.everywhere("other")]


@catalogue.case()
def a_malformed_create_is_answered_once(stage: Stage) -> Observation:
    """A create whose body is no JSON is answered once."""
    return from_everywhere(stage, "STREAM.CREATE.MALFORMED", "{")


@catalogue.case()
def a_create_is_answered_once(stage: Stage) -> Observation:
    """A create is answered once, and an equal one sent to another server too."""
    stage.client().api("STREAM.DELETE.ONCE-CREATED")
    body = {"name": "ONCE-CREATED", "num_replicas": 3}
    return [len(answers) for answers in from_everywhere(stage, "STREAM.CREATE.ONCE-CREATED", body)]


@catalogue.case()
def a_delete_is_answered_once(stage: Stage) -> Observation:
    """A stream is deleted from any server; the others then find none."""
    stage.make("ONCE-DELETED")
    return from_everywhere(stage, "STREAM.DELETE.ONCE-DELETED")


@catalogue.case()
def a_purge_is_answered_once(stage: Stage) -> Observation:
    """A stream is purged from any server."""
    stage.make("ONCE-PURGED")
    stage.client(1).fill("ONCE-PURGED.a", "ONCE-PURGED.b")
    return from_everywhere(stage, "STREAM.PURGE.ONCE-PURGED")


@catalogue.case()
def messages_are_read_from_every_server(stage: Stage) -> Observation:
    """MSG.GET is answered by the leader, from whichever server."""
    stage.make("READ")
    stage.client(2).fill("READ.a", "READ.b")
    return from_everywhere(stage, "STREAM.MSG.GET.READ", {"seq": 2})


@catalogue.case()
def messages_are_read_directly_from_every_server(stage: Stage) -> Observation:
    """DIRECT.GET is answered once, by one of the replicas."""
    stage.make("DIRECT", allow_direct=True)
    stage.client(2).fill("DIRECT.a", "DIRECT.b")
    stage.settled("DIRECT")
    return from_everywhere(stage, "DIRECT.GET.DIRECT", {"seq": 2})


@catalogue.case()
def messages_are_deleted_from_every_server(stage: Stage) -> Observation:
    """MSG.DELETE is answered once; a second one finds no message."""
    stage.make("DELETED")
    stage.client(1).fill("DELETED.a", "DELETED.b")
    return from_everywhere(stage, "STREAM.MSG.DELETE.DELETED", {"seq": 1})


@catalogue.case()
def publishes_are_acknowledged_once(stage: Stage) -> Observation:
    """A publish to any server gets one ack of the leader, in one sequence for all."""
    stage.make("PUBLISHED")
    acks = []
    for client in stage.everywhere():
        inbox = client.send("PUBLISHED.a", "x")
        acks.append([*client.heard(inbox, 1, 5.0), *client.heard(inbox, 9, 0.25)])
    return [[frame.split("\r\n", 1)[1] for frame in each] for each in acks]


@catalogue.case()
def publishes_to_nobody_have_no_responders(stage: Stage) -> Observation:
    """A publish to a subject that no stream has is answered by its own server."""
    return [client.request("NOBODY.a", "x") for client in stage.everywhere()]


@catalogue.case()
def duplicates_are_found_from_every_server(stage: Stage) -> Observation:
    """An id that was published through one server is a duplicate through another."""
    stage.make("DUPLICATE")
    headers = {"Nats-Msg-Id": "one"}
    return [client.publish("DUPLICATE.a", "x", headers) for client in stage.everywhere()]


@catalogue.case()
def expectations_hold_from_every_server(stage: Stage) -> Observation:
    """The last sequence that a publish expects is that of the stream, not of a server."""
    stage.make("EXPECTED")
    headers = {"Nats-Expected-Last-Sequence": "1"}
    stage.client().fill("EXPECTED.a")
    return [client.publish("EXPECTED.a", "x", headers) for client in stage.everywhere()]


@catalogue.case()
def a_pull_from_every_server(stage: Stage) -> Observation:
    """Messages of one durable are pulled from any server, each once."""
    stage.make("PULLED")
    stage.make_consumer("PULLED", "C", ack_policy="none")
    stage.client().fill("PULLED.a", "PULLED.b", "PULLED.c")
    seen = []
    for client in stage.everywhere():
        [frame] = client.pull("PULLED", "C")
        seen.append(opened(frame))
    return seen


@catalogue.case()
def acks_from_every_server(stage: Stage) -> Observation:
    """An ack reaches the consumer through any server, and a second one is confirmed too."""
    stage.make("ACKED")
    stage.make_consumer("ACKED", "C")
    stage.client().fill("ACKED.a", "ACKED.b", "ACKED.c")
    seen: list[Observation] = []
    for client in stage.everywhere():
        [frame] = client.pull("ACKED", "C")
        seen.append(client.request(acked(frame), "+ACK"))
    info = stage.ask_until("CONSUMER.INFO.ACKED.C", lambda reply: reply.get("num_ack_pending") == 0)
    return [seen, info["num_ack_pending"], info["num_pending"]]


def acked(frame: str) -> str:
    """The reply subject of a delivery."""
    return frame.split("\r\n", 1)[0].split(" ")[3]


@catalogue.case()
def a_push_to_every_server(stage: Stage) -> Observation:
    """A consumer delivers to a subscriber on any server."""
    stage.make("PUSHED")
    seen = []
    for number in range(3):
        client: Client = stage.client(number)
        ear = stage.watch(f"pushed.{number}", number)
        stage.make_consumer("PUSHED", f"C{number}", deliver_subject=f"pushed.{number}")
        client.fill("PUSHED.a")
        seen.append(ear.await_subject("PUSHED")["advisory"])
    return seen


@catalogue.case()
def an_account_without_streams(stage: Stage) -> Observation:
    """INFO of an account without JetStream says so; its other calls have no answer."""
    calls = ("INFO", "STREAM.NAMES", "STREAM.CREATE.NONE", "STREAM.INFO.NONE")
    client = stage.client(1, "without")
    return {call: client.once(call, wait_s=0.5) for call in calls}


@catalogue.case()
def calls_of_the_system_are_not_answered(stage: Stage) -> Observation:
    """Calls about servers are for the system account; nobody else gets an answer."""
    calls = ("META.LEADER.STEPDOWN", "SERVER.REMOVE", "SERVER.EVACUATE", "ACCOUNT.PURGE.A")
    client = stage.client()
    return [client.once(call, wait_s=0.5) for call in calls]


@catalogue.case()
def purging_an_account(stage: Stage) -> Observation:
    """The system account removes all streams of an account."""
    client = stage.client(1, "other")
    client.create("PURGED-ACCOUNT", num_replicas=3)
    reply = stage.admin(2).all_answers("ACCOUNT.PURGE.OTHER")
    client.wait_until(lambda: client.api("STREAM.NAMES")["total"] == 0)
    return [reply, client.api("STREAM.NAMES")]
