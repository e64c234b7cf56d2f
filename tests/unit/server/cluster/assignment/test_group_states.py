"""The `cluster` of documents, asked of whole servers."""

from headwater.jetstream.account import AccountLimits
from headwater.server.configuration.options import AccountOptions, UserOptions
from headwater.server.monitoring.pages.raftz import RaftzOptions, raftz
from headwater.server.system.events import stats_event
from tests.kit.agreeing_cluster import AgreeingCluster


def test_every_document_of_a_replicated_stream_shows_its_group() -> None:
    world = AgreeingCluster()
    created = world.create("s1", "S")["cluster"]
    names = {created["leader"], *(each["name"] for each in created["replicas"])}
    assert names == {"s1", "s2", "s3"}
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    consumer = world.call("s2", "CONSUMER.DURABLE.CREATE.S.C", body)["cluster"]
    assert consumer["raft_group"].startswith("C-R3F-")
    assert consumer["leader"] == created["leader"]
    for name in world.nodes:
        shown = world.call(name, "STREAM.INFO.S")["cluster"]
        assert shown["name"] == "C"
        for field in ("raft_group", "leader", "leader_since"):
            assert shown[field] == created[field]
        assert [(each["current"], "lag" in each) for each in shown["replicas"]] == [
            (True, False),
            (True, False),
        ]
        of_consumer = world.call(name, "CONSUMER.INFO.S.C")["cluster"]
        assert of_consumer["raft_group"] == consumer["raft_group"]
        (listed,) = world.call(name, "CONSUMER.LIST.S")["consumers"]
        assert listed["cluster"]["leader"] == created["leader"]


def test_a_stream_on_one_server_shows_the_cluster_and_that_server() -> None:
    world = AgreeingCluster()
    created = world.create("s1", "S", num_replicas=1)["cluster"]
    assert [*created] == ["name", "leader"]
    assert world.call("s3", "STREAM.INFO.S")["cluster"] == created
    changed = {"name": "S", "subjects": ["other"]}
    assert world.call("s2", "STREAM.UPDATE.S", changed)["cluster"] == created


def test_a_replica_whose_server_has_stopped_is_offline() -> None:
    world = AgreeingCluster()
    cluster = world.create("s1", "S")["cluster"]
    gone = world.other_than(cluster["leader"], world.meta_leader)
    world.stop(gone)
    world.quiet()
    shown = world.call(cluster["leader"], "STREAM.INFO.S")["cluster"]["replicas"]
    (lost,) = [each for each in shown if each["name"] == gone]
    assert lost["offline"]
    assert not lost["current"]


def test_an_account_may_own_the_traffic_between_its_replicas() -> None:
    for owns in (True, False):
        limits = AccountLimits(owns_traffic=owns)
        account = AccountOptions("A", users=(UserOptions("u", "p", "A"),), jetstream=limits)
        world = AgreeingCluster(accounts=(account,))
        config = {"name": "S", "subjects": ["s"], "num_replicas": 3}
        created = world.call("s1", "STREAM.CREATE.S", config, user="u", **{"pass": "p"})
        shown = created["cluster"]
        assert shown["traffic_account"] == ("A" if owns else "$SYS")
        assert shown.get("system_account", False) is not owns


def test_the_traffic_between_servers_is_that_of_the_system_account() -> None:
    system = AccountOptions("SYS", users=(UserOptions("root", "p", "SYS"),))
    home = AccountOptions("A", users=(UserOptions("u", "p", "A"),), jetstream=AccountLimits())
    world = AgreeingCluster(accounts=(system, home), system_account="SYS")
    config = {"name": "S", "subjects": ["s"], "num_replicas": 3}
    shown = world.call("s1", "STREAM.CREATE.S", config, user="u", **{"pass": "p"})["cluster"]
    assert (shown["traffic_account"], shown["system_account"]) == ("SYS", True)
    groups = raftz(world.nodes["s1"].facts, RaftzOptions(account="A"))
    assert groups is not None
    (group,) = groups["A"].values()
    assert (group.traffic_account, group.system_account) == ("SYS", True)
    (meta,) = (raftz(world.nodes["s1"].facts, RaftzOptions()) or {})["SYS"].values()
    assert (meta.traffic_account, meta.system_account) == ("SYS", True)


def test_accounts_with_streams_are_active() -> None:
    world = AgreeingCluster()
    cluster = world.create("s1", "S")["cluster"]
    for name in world.nodes:
        facts = world.nodes[name].facts
        active = stats_event(facts, 1).statsz.active_accounts
        assert active == 2, (name, cluster)
