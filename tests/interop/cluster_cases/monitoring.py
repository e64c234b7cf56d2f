"""The monitoring pages of a cluster with streams."""

from typing import Any, Final

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.jetstream import opened
from tests.interop.masks import is_count, is_timestamp
from tests.interop.observation import Mask, Observation, Omission
from tests.interop.stage import REPLICAS, Stage, is_group, is_peer
from tests.interop.trio import NAMES

catalogue = ClusterCatalogue()

META_MASKS: Final = (
    Mask("**.meta.peer", is_peer, "each server has its own"),
    Mask("**.meta.pending", is_count, "what waits at the moment"),
    Mask("**.meta.pending_requests", is_count, "what waits at the moment"),
    Mask("**.meta.pending_infos", is_count, "what waits at the moment"),
    Omission("**.meta.snapshot", lambda value: isinstance(value, dict), "a log's own affair"),
)


@catalogue.case(masks=META_MASKS)
def the_meta_group_on_jsz(stage: Stage) -> Observation:
    """/jsz of the leader tells of the meta group and how far the others are."""
    stage.trio.wait_until_all_vote()
    return {"meta": stage.trio.meta(stage.meta_leader())}


@catalogue.case()
def the_meta_group_on_jsz_of_a_follower(stage: Stage) -> Observation:
    """/jsz of a follower names the leader, its id, and the size of the group."""
    leader = stage.meta_leader()
    pages = [stage.trio.meta(number) for number in stage.others(leader)]
    leads = stage.trio.meta(leader)
    return [
        [page["leader"] == NAMES[leader], page["peer"] == leads["peer"], page["cluster_size"]]
        for page in pages
    ]


@catalogue.case(masks=META_MASKS)
def the_meta_group_on_varz(stage: Stage) -> Observation:
    """/varz has the meta group under `jetstream`."""
    stage.trio.wait_until_all_vote()
    page = stage.trio.get(stage.meta_leader(), "/varz")
    return {"meta": page["jetstream"]["meta"]}


@catalogue.case()
def tags_on_varz(stage: Stage) -> Observation:
    """/varz lists the tags of a server."""
    return [stage.trio.get(number, "/varz")["tags"] for number in range(REPLICAS)]


def details_of(stage: Stage, number: int, stream: str, options: str) -> dict[str, Any]:
    """The detail of a stream on the page of a server; empty if it has none."""
    page = stage.trio.get(number, f"/jsz?acc=A&streams=1&{options}")
    accounts = page.get("account_details", [])
    details = [each for account in accounts for each in account.get("stream_detail", [])]
    found: list[dict[str, Any]] = [each for each in details if each["name"] == stream]
    return found[0] if found else {}


DETAIL_MASKS: Final = (
    Mask("detail.created", is_timestamp, "time"),
    Mask("detail.stream_raft_group", is_group, "a group has a name of its own"),
    Mask("detail.state.first_ts", is_timestamp, "time"),
    Mask("detail.state.last_ts", is_timestamp, "time"),
)


@catalogue.case(masks=DETAIL_MASKS)
def a_stream_on_jsz_of_its_leader(stage: Stage) -> Observation:
    """/jsz of the leader has the stream with its cluster and, if asked for, its group."""
    leader = stage.who_leads_new("SHOWN")
    stage.client().fill("SHOWN.a")
    stage.settled("SHOWN")
    return {"detail": details_of(stage, leader, "SHOWN", "config=1&raft=1")}


@catalogue.case()
def a_stream_on_jsz_of_every_replica(stage: Stage) -> Observation:
    """/jsz of each replica has the stream, with the leader and the state."""
    leader = stage.who_leads_new("SHOWN-ALL")
    stage.client().fill("SHOWN-ALL.a", "SHOWN-ALL.b")
    stage.settled("SHOWN-ALL")
    seen = []
    for number in range(REPLICAS):
        stage.trio.wait_until(
            lambda n=number: details_of(stage, n, "SHOWN-ALL", "")["state"]["messages"] == 2
        )
        detail = details_of(stage, number, "SHOWN-ALL", "")
        seen.append([detail["cluster"]["leader"] == NAMES[leader], sorted(detail["cluster"])])
    order = [leader, *stage.others(leader)]
    return [seen[number] for number in order]


@catalogue.case()
def a_lone_stream_on_jsz(stage: Stage) -> Observation:
    """/jsz has a stream of one replica only on its server."""
    leader = stage.who_leads_new("SHOWN-ONE", num_replicas=1)
    found = [bool(details_of(stage, number, "SHOWN-ONE", "")) for number in range(REPLICAS)]
    return [found[leader], sum(found)]


@catalogue.case()
def a_consumer_on_jsz(stage: Stage) -> Observation:
    """/jsz of the leader has the consumers of a stream, and their groups if asked for."""
    stage.make("SHOWN-C")
    leader = NAMES.index(stage.make_consumer("SHOWN-C", "C")["cluster"]["leader"])
    detail = details_of(stage, leader, "SHOWN-C", "consumers=1&raft=1")
    [consumer] = detail["consumer_detail"]
    groups = [sorted(each) for each in detail["consumer_raft_groups"]]
    return [sorted(consumer), groups, sorted(consumer["cluster"])]


@catalogue.case()
def groups_are_counted_on_jsz(stage: Stage) -> Observation:
    """Each group of a server is one of its `ha_assets`."""
    before: int = stage.trio.get(0, "/jsz")["ha_assets"]
    stage.make("ASSETS")
    stage.make_consumer("ASSETS", "C")
    stage.make("ASSETS-ONE", num_replicas=1)
    after: int = stage.trio.get(0, "/jsz")["ha_assets"]
    client = stage.client()
    client.api("STREAM.DELETE.ASSETS")
    client.api("STREAM.DELETE.ASSETS-ONE")
    return after - before


@catalogue.case()
def led_streams_are_counted_on_jsz(stage: Stage) -> Observation:
    """/jsz counts the streams and consumers that a server leads beside those that it has."""
    stage.make("LED")
    stage.make_consumer("LED", "C")
    leader = stage.who_leads("LED")
    page = stage.trio.get(leader, "/jsz?accounts=1&streams=1&consumers=1&raft=1")
    return [0 < page["streams_leader"] <= page["streams"], "consumers" in page]


@catalogue.case()
def only_leaders_tell_on_request(stage: Stage) -> Observation:
    """/jsz?leader-only=1 is answered by the meta leader alone."""
    leader = stage.meta_leader()
    pages = [
        stage.session(each).get("/jsz?leader-only=1") for each in (leader, *stage.others(leader))
    ]
    return [[page["status"], page["type"], page.get("text")] for page in pages]


@catalogue.case()
def streams_of_the_leader_only(stage: Stage) -> Observation:
    """/jsz?stream-leader-only=1 lists a stream on its leader alone."""
    leader = stage.who_leads_new("LED-ONLY")
    order = [leader, *stage.others(leader)]
    option = "stream-leader-only=1"
    return [bool(details_of(stage, number, "LED-ONLY", option)) for number in order]


@catalogue.case()
def a_healthy_cluster(stage: Stage) -> Observation:
    """/healthz of every server is well, also when asked about one stream or consumer."""
    stage.make("HEALTHY")
    stage.make_consumer("HEALTHY", "C")
    paths = (
        "/healthz",
        "/healthz?js-enabled-only=1",
        "/healthz?js-server-only=1",
        "/healthz?js-meta-only=1",
        "/healthz?account=A&stream=HEALTHY",
        "/healthz?account=A&stream=HEALTHY&consumer=C",
        "/healthz?account=A&stream=NONE",
        "/healthz?account=A&stream=HEALTHY&consumer=NONE",
        "/healthz?account=NONE",
    )
    session = stage.session(1)
    return {path: session.get(path) for path in paths}


RAFT_MASKS: Final = (
    Mask("**.id", is_peer, "each server has its own"),
    Mask("**.state", lambda value: value in ("LEADER", "FOLLOWER"), "chance elects the leader"),
)


@catalogue.case(masks=RAFT_MASKS)
def the_meta_group_on_raftz(stage: Stage) -> Observation:
    """/raftz tells of the meta group under the system account."""
    page = stage.trio.get(0, "/raftz?acc=$SYS&group=_meta_")
    group = page["$SYS"]["_meta_"]
    names = sorted(each.get("name", "") for each in group["peers"].values())
    keys = ("id", "state", "size", "quorum_needed", "leader", "ever_had_leader")
    return [{key: group.get(key) for key in keys}, len(names), "term" in group]


@catalogue.case()
def the_group_of_a_stream_on_raftz(stage: Stage) -> Observation:
    """/raftz of every replica tells of the group of a stream."""
    group = stage.make("RAFTED")["cluster"]["raft_group"]
    states = []
    for number in range(REPLICAS):
        page = stage.trio.get(number, f"/raftz?acc=A&group={group}")
        states.append(page.get("A", {}).get(group, {}).get("state"))
    return sorted(states, key=str)


@catalogue.case()
def every_server_answers_the_system(stage: Stage) -> Observation:
    """A ping of the system account is answered by every server, with its tags and cluster."""
    client = stage.admin(0)
    answers = [
        opened(each) for each in client.heard(client.send("$SYS.REQ.SERVER.PING.JSZ"), 3, 2.0)
    ]
    servers = sorted((each["server"] for each in answers), key=lambda each: str(each["name"]))
    keys = ("name", "cluster", "tags", "jetstream")
    return [{key: server.get(key) for key in keys} for server in servers]
