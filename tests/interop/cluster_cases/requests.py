"""Requests about leaders, peers and placement: one line of a table is one request and its answer.

Each request is answered once, whichever server it is sent to. Streams and leaders have settled
before the next case begins.
"""

from dataclasses import dataclass
from typing import Final
from zlib import crc32

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.jetstream import Body
from tests.interop.observation import Observation
from tests.interop.stage import REPLICAS, Client, Stage

catalogue = ClusterCatalogue()

THREE: Final = "REQUESTED-THREE"
ONE: Final = "REQUESTED-ONE"


@dataclass(frozen=True)
class Line:
    """A request of the table, and the rule that its answer shows."""

    name: str
    statement: str
    request: str
    body: Body = None
    is_admin: bool = False


def ask(stage: Stage, line: Line) -> Observation:
    """The answers of the cluster to the request, and what became of the streams."""
    ensure_streams(stage)
    number = crc32(line.name.encode()) % REPLICAS
    client: Client = stage.admin(number) if line.is_admin else stage.client(number)
    answers = client.all_answers(line.request, line.body)
    after = [stage.settled(name)["cluster"] for name in (THREE, ONE)]
    return {"answers": answers, "after": [{"cluster": cluster} for cluster in after]}


def ensure_streams(stage: Stage) -> None:
    """A stream of three replicas and one of one, each with a durable, made by the first case."""
    client = stage.client()
    for name, replicas in ((THREE, 3), (ONE, 1)):
        if "error" in client.info(name):
            stage.make(name, num_replicas=replicas)
            stage.make_consumer(name, "C")


STREAM_STEP_DOWN = f"STREAM.LEADER.STEPDOWN.{THREE}"
CONSUMER_STEP_DOWN = f"CONSUMER.LEADER.STEPDOWN.{THREE}.C"
PEER_REMOVE = f"STREAM.PEER.REMOVE.{THREE}"
MALFORMED = "{"
UNKNOWN_PEER = {"placement": {"preferred": "nobody"}}

LINES: Final = (
    Line("step_down", "A leader steps down.", STREAM_STEP_DOWN),
    Line("step_down_object", "An empty object is no body.", STREAM_STEP_DOWN, {}),
    Line("step_down_malformed", "A body has to be JSON.", STREAM_STEP_DOWN, MALFORMED),
    Line("step_down_field", "Unknown fields are refused.", STREAM_STEP_DOWN, {"field": 1}),
    Line("step_down_to_nobody", "Only a member takes over.", STREAM_STEP_DOWN, UNKNOWN_PEER),
    Line(
        "step_down_to_no_tag",
        "A tag that no server has names nobody.",
        STREAM_STEP_DOWN,
        {"placement": {"tags": ["nowhere"]}},
    ),
    Line(
        "step_down_to_cluster",
        "The own cluster is no preference.",
        STREAM_STEP_DOWN,
        {"placement": {"cluster": "trio"}},
    ),
    Line(
        "step_down_to_other_cluster",
        "Another cluster has no member.",
        STREAM_STEP_DOWN,
        {"placement": {"cluster": "elsewhere"}},
    ),
    Line("step_down_of_none", "The stream has to exist.", "STREAM.LEADER.STEPDOWN.NONE"),
    Line("step_down_of_one", "A lone leader stays.", f"STREAM.LEADER.STEPDOWN.{ONE}"),
    Line(
        "step_down_of_one_to_nobody",
        "A stream of one replica knows no other server.",
        f"STREAM.LEADER.STEPDOWN.{ONE}",
        UNKNOWN_PEER,
    ),
    Line("step_down_wildcard", "A name has no wildcards.", "STREAM.LEADER.STEPDOWN.A*B"),
    Line("consumer_step_down", "The leader of a consumer steps down.", CONSUMER_STEP_DOWN),
    Line("consumer_step_down_malformed", "It has to be JSON.", CONSUMER_STEP_DOWN, MALFORMED),
    Line(
        "consumer_step_down_to_nobody",
        "Only a member of the consumer's group takes over.",
        CONSUMER_STEP_DOWN,
        UNKNOWN_PEER,
    ),
    Line(
        "consumer_step_down_of_none",
        "The consumer has to exist.",
        f"CONSUMER.LEADER.STEPDOWN.{THREE}.NONE",
    ),
    Line(
        "consumer_step_down_of_no_stream",
        "The stream of a consumer has to exist.",
        "CONSUMER.LEADER.STEPDOWN.NONE.C",
    ),
    Line(
        "consumer_step_down_of_one",
        "The lone leader of a consumer stays.",
        f"CONSUMER.LEADER.STEPDOWN.{ONE}.C",
    ),
    Line("peer_remove", "No server is left to replace a peer.", PEER_REMOVE, {"peer": "s1"}),
    Line("peer_remove_unknown", "A peer is a member.", PEER_REMOVE, {"peer": "nobody"}),
    Line("peer_remove_nameless", "A peer has a name.", PEER_REMOVE, {"peer": ""}),
    Line("peer_remove_empty", "The request names a peer.", PEER_REMOVE),
    Line("peer_remove_object", "An object without a peer names none.", PEER_REMOVE, {}),
    Line("peer_remove_malformed", "It is refused as no JSON.", PEER_REMOVE, MALFORMED),
    Line("peer_remove_field", "A field is known.", PEER_REMOVE, {"peer": "s1", "field": 1}),
    Line(
        "peer_remove_of_none",
        "The stream of a peer has to exist.",
        "STREAM.PEER.REMOVE.NONE",
        {"peer": "s1"},
    ),
    Line(
        "consumer_peer_remove",
        "No server is left to replace the peer of a consumer.",
        f"CONSUMER.PEER.REMOVE.{THREE}.C",
        {"peer": "s1"},
    ),
    Line(
        "consumer_peer_remove_unknown",
        "A peer of a consumer is a member.",
        f"CONSUMER.PEER.REMOVE.{THREE}.C",
        {"peer": "nobody"},
    ),
    Line(
        "meta_step_down_malformed",
        "The body of a step-down of the meta group has to be JSON.",
        "META.LEADER.STEPDOWN",
        MALFORMED,
        is_admin=True,
    ),
    Line(
        "meta_step_down_to_nobody",
        "Only a server of the cluster takes over the meta group.",
        "META.LEADER.STEPDOWN",
        UNKNOWN_PEER,
        is_admin=True,
    ),
    Line(
        "meta_step_down_to_no_tag",
        "A tag that no server has leaves the meta group without a leader to be.",
        "META.LEADER.STEPDOWN",
        {"placement": {"tags": ["nowhere"]}},
        is_admin=True,
    ),
    Line(
        "meta_step_down_to_other_cluster",
        "A cluster of another name has no server for the meta group.",
        "META.LEADER.STEPDOWN",
        {"placement": {"cluster": "elsewhere"}},
        is_admin=True,
    ),
    Line(
        "server_remove_unknown",
        "Only a server that belongs to the cluster is removed.",
        "SERVER.REMOVE",
        {"peer": "nobody"},
        is_admin=True,
    ),
    Line(
        "server_remove_empty",
        "The request names the server to remove.",
        "SERVER.REMOVE",
        is_admin=True,
    ),
    Line(
        "server_remove_malformed",
        "The name of a server to remove is in JSON.",
        "SERVER.REMOVE",
        MALFORMED,
        is_admin=True,
    ),
    Line(
        "peer_evacuate",
        "A peer is evacuated to a server that has no replica yet.",
        f"STREAM.PEER.EVACUATE.{THREE}",
        {"peer": "s1"},
    ),
    Line(
        "peer_evacuate_unknown",
        "A peer that is evacuated is a member.",
        f"STREAM.PEER.EVACUATE.{THREE}",
        {"peer": "nobody"},
    ),
    Line(
        "peer_evacuate_empty",
        "The request names the peer to evacuate.",
        f"STREAM.PEER.EVACUATE.{THREE}",
    ),
    Line(
        "consumer_peer_evacuate",
        "A consumer of three replicas has no other server either.",
        f"CONSUMER.PEER.EVACUATE.{THREE}.C",
        {"peer": "s1"},
    ),
    Line(
        "server_evacuate_unknown",
        "A server that is evacuated belongs to the cluster.",
        "SERVER.EVACUATE",
        {"peer": "nobody"},
        is_admin=True,
    ),
    Line(
        "server_evacuate_empty",
        "The request names the server to evacuate.",
        "SERVER.EVACUATE",
        is_admin=True,
    ),
    Line(
        "stream_cancel_move_at_rest",
        "The account that owns a stream at rest has nothing to cancel.",
        f"STREAM.CANCEL_MOVE.{THREE}",
    ),
    Line(
        "stream_cancel_move_of_none",
        "An account cancels the move of a stream that it has.",
        "STREAM.CANCEL_MOVE.NONE",
    ),
    Line(
        "cancel_move_at_rest",
        "A stream that does not move has nothing to cancel.",
        f"ACCOUNT.STREAM.CANCEL_MOVE.A.{THREE}",
        is_admin=True,
    ),
    Line(
        "cancel_move_of_none",
        "A stream whose move is cancelled has to exist.",
        "ACCOUNT.STREAM.CANCEL_MOVE.A.NONE",
        is_admin=True,
    ),
    Line(
        "move_without_room",
        "A stream on all servers has nowhere to go.",
        f"ACCOUNT.STREAM.MOVE.A.{THREE}",
        {"server": "s1"},
        is_admin=True,
    ),
    Line(
        "move_of_none",
        "A stream that moves has to exist.",
        "ACCOUNT.STREAM.MOVE.A.NONE",
        {"server": "s1"},
        is_admin=True,
    ),
    Line(
        "move_malformed",
        "A move is told in JSON.",
        f"ACCOUNT.STREAM.MOVE.A.{THREE}",
        MALFORMED,
        is_admin=True,
    ),
)

for each in LINES:

    def script(stage: Stage, line: Line = each) -> Observation:
        return ask(stage, line)

    catalogue.add(each.name, each.statement, script)
