"""Advisories of a cluster: elections, and what they tell of the replicas."""

from typing import Any

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.jetstream import EVENTS
from tests.interop.observation import Mask, Observation
from tests.interop.stage import SYSTEM, Stage, is_server
from tests.interop.trio import NAMES

catalogue = ClusterCatalogue()


def is_flag(value: Observation) -> bool:
    return isinstance(value, bool)


LAGGING = (Mask("**.replicas.*.current", is_flag, "the others are a moment behind"),)


def in_order(message: dict[str, Any]) -> dict[str, Any]:
    """An advisory with its replicas in the order of their names, and without their lag."""
    replicas = sorted(message["advisory"].get("replicas", []), key=lambda each: each["name"])
    known = [{key: each[key] for key in each if key != "lag"} for each in replicas]
    return {**message, "advisory": {**message["advisory"], "replicas": known}}


@catalogue.case(masks=LAGGING)
def the_leader_of_a_stream_is_announced(stage: Stage) -> Observation:
    """An election is announced in the account of the stream."""
    stage.make("ELECTED")
    ear = stage.watch(f"{EVENTS}STREAM.LEADER_ELECTED.ELECTED", 1)
    stage.client().api("STREAM.LEADER.STEPDOWN.ELECTED")
    return in_order(ear.await_subject("LEADER_ELECTED"))


@catalogue.case(masks=LAGGING)
def the_leader_of_a_stream_is_announced_to_the_system(stage: Stage) -> Observation:
    """The system account hears of the election with the name of the account."""
    stage.make("ELECTED-SYS")
    ear = stage.watch(f"{EVENTS}STREAM.LEADER_ELECTED.ELECTED-SYS", 2, SYSTEM)
    stage.client().api("STREAM.LEADER.STEPDOWN.ELECTED-SYS")
    return in_order(ear.await_subject("LEADER_ELECTED"))


@catalogue.case(masks=LAGGING)
def the_first_leader_is_announced(stage: Stage) -> Observation:
    """The first leader of a new stream of three replicas is announced too."""
    stage.client().api("STREAM.DELETE.ELECTED-FIRST")
    ear = stage.watch(f"{EVENTS}STREAM.LEADER_ELECTED.ELECTED-FIRST")
    stage.make("ELECTED-FIRST")
    return in_order(ear.await_subject("LEADER_ELECTED"))


@catalogue.case(masks=LAGGING)
def the_leader_of_a_consumer_is_announced(stage: Stage) -> Observation:
    """An election of a consumer is announced in the account of its stream."""
    stage.make("ELECTED-C")
    stage.make_consumer("ELECTED-C", "C")
    ear = stage.watch(f"{EVENTS}CONSUMER.LEADER_ELECTED.ELECTED-C.C", 1)
    stage.client().api("CONSUMER.LEADER.STEPDOWN.ELECTED-C.C")
    return in_order(ear.await_subject("LEADER_ELECTED"))


@catalogue.case(masks=LAGGING)
def the_leader_of_the_meta_group_is_announced(stage: Stage) -> Observation:
    """An election of the meta group is announced to the system account."""
    ear = stage.watch(f"{EVENTS}DOMAIN.LEADER_ELECTED", 1, SYSTEM)
    before = stage.meta_leader()
    stage.admin().api("META.LEADER.STEPDOWN")
    stage.trio.leader(other_than=NAMES[before])
    return in_order(ear.await_subject("LEADER_ELECTED"))


@catalogue.case()
def a_stream_is_announced_once(stage: Stage) -> Observation:
    """The advisories of a stream of three replicas come once."""
    client = stage.client()
    client.api("STREAM.DELETE.ANNOUNCED")
    ear = stage.watch(f"{EVENTS}STREAM.*.ANNOUNCED", 2)
    stage.make("ANNOUNCED")
    client.update("ANNOUNCED", num_replicas=3, max_msgs=5)
    client.api("STREAM.DELETE.ANNOUNCED")
    ear.await_subject("DELETED")
    ear.has(lambda subject: False, 0.3)
    return [each for each in ear.seen if "LEADER" not in each["subject"]]


@catalogue.case()
def a_consumer_is_announced_once(stage: Stage) -> Observation:
    """The advisories of a consumer of three replicas come once."""
    stage.make("ANNOUNCED-C")
    ear = stage.watch(f"{EVENTS}CONSUMER.*.ANNOUNCED-C.>", 2)
    stage.make_consumer("ANNOUNCED-C", "C")
    stage.client(1).api("CONSUMER.DELETE.ANNOUNCED-C.C")
    ear.await_subject("DELETED")
    ear.has(lambda subject: False, 0.3)
    return [each for each in ear.seen if "LEADER" not in each["subject"]]


@catalogue.case(
    masks=(Mask("advisory.client.server", is_server, "the servers have one name each"),)
)
def an_audit_names_two_servers(stage: Stage) -> Observation:
    """The audit of a call names the server that answered, and the client's server and cluster."""
    client = stage.client(1)
    ear = stage.watch(f"{EVENTS}API", 2)
    client.api("STREAM.INFO.AUDITED-NONE")
    return ear.await_subject("API")
