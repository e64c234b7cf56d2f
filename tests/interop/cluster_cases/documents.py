"""The documents of streams and consumers in a cluster: who keeps them, and how far."""

from typing import Any

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.observation import Observation
from tests.interop.stage import REPLICAS, Stage
from tests.interop.trio import NAMES

catalogue = ClusterCatalogue()


def kind_of(group: str) -> str:
    """The part of a group's name that tells of its kind, replicas and storage."""
    return group.rsplit("-", 1)[0]


def at_rest(cluster: dict[str, Any]) -> dict[str, Any]:
    """A document of a cluster without the times since peers were heard."""
    replicas = [{**each, "active": 0} for each in cluster.get("replicas", [])]
    return {**cluster, "replicas": replicas}


@catalogue.case()
def a_stream_of_three_replicas(stage: Stage) -> Observation:
    """INFO of a stream tells of its cluster, group, leader and the other replicas."""
    return stage.make("THREE")


@catalogue.case()
def a_stream_of_two_replicas(stage: Stage) -> Observation:
    """A stream of two replicas has one beside its leader."""
    return [stage.make("TWO", num_replicas=2)["cluster"]]


@catalogue.case()
def a_stream_of_one_replica(stage: Stage) -> Observation:
    """A stream of one replica has a leader and no group."""
    return [stage.make("LONE", num_replicas=1)["cluster"]]


@catalogue.case()
def the_answer_to_a_create(stage: Stage) -> Observation:
    """The answer to a create comes from the leader, and names it."""
    client = stage.client(1)
    client.api("STREAM.DELETE.CREATED")
    made = client.create("CREATED", num_replicas=3)
    cluster = made.pop("cluster")
    names = sorted([cluster["leader"], *(each["name"] for each in cluster["replicas"])])
    return {"made": made, "names": names, "keys": sorted(cluster)}


@catalogue.case()
def the_answer_to_an_equal_create(stage: Stage) -> Observation:
    """A second, equal create is answered with the stream."""
    stage.make("AGAIN")
    again = stage.client(2).create("AGAIN", num_replicas=3)
    again.pop("cluster")
    return again


@catalogue.case()
def the_answer_to_another_create(stage: Stage) -> Observation:
    """A create of a name with other replicas is refused."""
    stage.make("TAKEN")
    return stage.client(1).create("TAKEN", num_replicas=1)


@catalogue.case()
def the_answer_to_an_update(stage: Stage) -> Observation:
    """The answer to an update tells of the cluster as INFO does."""
    stage.make("UPDATED")
    reply = stage.client(2).update("UPDATED", num_replicas=3, max_msgs=7)
    return {"config": reply["config"], "keys": sorted(reply), "cluster": sorted(reply["cluster"])}


@catalogue.case()
def info_is_the_same_from_every_server(stage: Stage) -> Observation:
    """INFO is answered by the leader, whichever server is asked."""
    stage.make("SAME")
    infos = [at_rest(client.info("SAME")["cluster"]) for client in stage.everywhere()]
    return [info == infos[0] for info in infos]


@catalogue.case()
def the_group_keeps_its_name(stage: Stage) -> Observation:
    """The name of a group tells of its kind, and stays through a change of the leader."""
    before = stage.make("NAMED", storage="memory")["cluster"]
    stage.client().api("STREAM.LEADER.STEPDOWN.NAMED")
    after = stage.settled("NAMED")["cluster"]
    same = before["raft_group"] == after["raft_group"]
    moved = before["leader"] != after["leader"]
    later = after["leader_since"] > before["leader_since"]
    return [kind_of(before["raft_group"]), same, moved, later]


@catalogue.case()
def groups_of_streams_differ(stage: Stage) -> Observation:
    """Each stream has a group of its own, also one that has the name of an earlier one."""
    groups = {stage.make("OWN-GROUP")["cluster"]["raft_group"] for _ in range(2)}
    groups.add(stage.make("OTHER-GROUP")["cluster"]["raft_group"])
    return len(groups)


@catalogue.case()
def a_peer_is_known_by_one_id(stage: Stage) -> Observation:
    """The id of a peer is the same for streams, consumers and the meta group."""
    stream = stage.make("PEERS")["cluster"]["replicas"]
    consumer = stage.make_consumer("PEERS", "C")["cluster"]["replicas"]
    meta = stage.trio.meta(stage.meta_leader())["replicas"]
    ids: dict[str, set[str]] = {}
    for each in (*stream, *consumer, *meta):
        ids.setdefault(each["name"], set()).add(each["peer"])
    return sorted(len(peers) for peers in ids.values())


@catalogue.case()
def a_durable_of_a_replicated_stream(stage: Stage) -> Observation:
    """A durable has the replicas of its stream."""
    stage.make("DURABLE")
    return stage.make_consumer("DURABLE", "C")


@catalogue.case()
def a_durable_of_one_replica(stage: Stage) -> Observation:
    """A durable may have fewer replicas than its stream."""
    stage.make("DURABLE-ONE")
    return stage.make_consumer("DURABLE-ONE", "C", num_replicas=1)


@catalogue.case()
def a_durable_of_too_many_replicas(stage: Stage) -> Observation:
    """A durable has no more replicas than its stream."""
    stage.make("DURABLE-MANY", num_replicas=1)
    body = {"stream_name": "DURABLE-MANY", "config": {"durable_name": "C", "num_replicas": 3}}
    return stage.client(1).api("CONSUMER.CREATE.DURABLE-MANY.C", body)


@catalogue.case()
def a_durable_of_negative_replicas(stage: Stage) -> Observation:
    """The number of a consumer's replicas is not negative."""
    stage.make("DURABLE-LESS")
    body = {"stream_name": "DURABLE-LESS", "config": {"durable_name": "C", "num_replicas": -1}}
    return stage.client(1).api("CONSUMER.CREATE.DURABLE-LESS.C", body)


@catalogue.case()
def a_durable_in_memory(stage: Stage) -> Observation:
    """The state of a consumer may be in memory, which the name of its group tells."""
    stage.make("DURABLE-MEMORY")
    cluster = stage.make_consumer("DURABLE-MEMORY", "C", mem_storage=True)["cluster"]
    return [kind_of(cluster["raft_group"]), {"cluster": cluster}]


@catalogue.case()
def a_durable_of_an_interest_stream(stage: Stage) -> Observation:
    """A durable of a stream that keeps by interest has all its replicas."""
    stage.make("DURABLE-INTEREST", retention="interest")
    client = stage.client()
    replies = {}
    for replicas in (0, 1, 2, 3):
        config = {"durable_name": f"C{replicas}", "ack_policy": "explicit"}
        body = {"stream_name": "DURABLE-INTEREST", "config": {**config, "num_replicas": replicas}}
        reply = client.api(f"CONSUMER.CREATE.DURABLE-INTEREST.C{replicas}", body)
        replies[str(replicas)] = reply.get("error", "made")
    return replies


@catalogue.case()
def an_ephemeral(stage: Stage) -> Observation:
    """A consumer without a durable name has one replica."""
    stage.make("EPHEMERAL")
    body = {"stream_name": "EPHEMERAL", "config": {"name": "E", "ack_policy": "explicit"}}
    made = stage.client(1).api("CONSUMER.CREATE.EPHEMERAL.E", body)
    return {"cluster": made["cluster"], "config": made["config"]}


@catalogue.case()
def consumers_scale_with_their_stream(stage: Stage) -> Observation:
    """The replicas of a durable follow an update; none asked for are those of the stream."""
    stage.make("SCALED-C")
    seen = []
    for replicas in (0, 1, 3):
        stage.make_consumer("SCALED-C", "C", num_replicas=replicas)
        want = (replicas or 3) - 1

        def has_all(reply: dict[str, Any], want: int = want) -> bool:
            return len(reply.get("cluster", {}).get("replicas", [])) == want

        info = stage.ask_until("CONSUMER.INFO.SCALED-C.C", has_all)
        seen.append([info["config"]["num_replicas"], len(info["cluster"].get("replicas", []))])
    return seen


@catalogue.case()
def streams_are_listed_from_every_server(stage: Stage) -> Observation:
    """LIST tells of every stream with its cluster, whichever server is asked."""
    for name, replicas in (("LISTED-A", 3), ("LISTED-B", 1)):
        stage.make(name, num_replicas=replicas, subjects=[f"listed.{name}"])
    seen = []
    for client in stage.everywhere():
        page = client.api("STREAM.LIST", {"subject": "listed.>"})
        page.pop("total")
        seen.append(page)
    return seen


@catalogue.case()
def streams_are_named_from_every_server(stage: Stage) -> Observation:
    """NAMES tells of every stream, in order, whichever server is asked."""
    for name in ("NAMES-A", "NAMES-B", "NAMES-C"):
        stage.make(name, num_replicas=1, subjects=[f"named.{name}"])
    return [client.api("STREAM.NAMES", {"subject": "named.>"}) for client in stage.everywhere()]


@catalogue.case()
def consumers_are_listed_from_every_server(stage: Stage) -> Observation:
    """LIST and NAMES tell of every consumer of a stream, whichever server is asked."""
    stage.make("CONSUMED")
    for name in ("A", "B"):
        stage.make_consumer("CONSUMED", name)
    seen: list[Observation] = []
    for client in stage.everywhere():
        page = client.api("CONSUMER.LIST.CONSUMED")
        names = client.api("CONSUMER.NAMES.CONSUMED")
        seen.append([names, [sorted(each["cluster"]) for each in page["consumers"]]])
        seen.append([each["config"] for each in page["consumers"]])
    return seen


@catalogue.case()
def a_stream_without_copies_has_no_alternates(stage: Stage) -> Observation:
    """INFO lists alternates only for streams that have mirrors."""
    return "alternates" in stage.make("NO-ALTERNATES")


@catalogue.case()
def the_leader_may_be_anywhere(stage: Stage) -> Observation:
    """Ten streams of one replica are spread over the servers."""
    names = [f"SPREAD-{number}" for number in range(10)]
    leaders = {stage.make(name, num_replicas=1)["cluster"]["leader"] for name in names}
    client = stage.client()
    for name in names:
        client.api(f"STREAM.DELETE.{name}")
    return len(leaders) == REPLICAS == len(NAMES)
