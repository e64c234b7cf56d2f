"""A cluster that has lost a majority for good is reset; other servers leave, and join again."""

import pytest

from headwater.raft.membership import encode, membership_of
from headwater.server.cluster.consensus.birth import NEVER_RESET
from headwater.server.cluster.consensus.cluster_file import ClusterFile, Order
from headwater.server.cluster.consensus.group_storage import saved_state
from headwater.server.cluster.consensus.orders import carry_out_order
from headwater.store.groups.frames import GroupMode, GroupState, SnapshotMark
from headwater.store.store import open_store
from headwater.testing.disk import SimDisk, crash_points
from headwater.testing.disk_faults import PowerLost
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.consensus_servers import ConsensusServers

ENTRIES = [b"one", b"two", b"three"]


def with_entries() -> ConsensusServers:
    """Three servers with committed entries, all stopped."""
    servers = ConsensusServers("abc")
    servers.start()
    servers.run(5)
    leader = servers[servers.leader].driver
    birth = leader.birth
    assert birth is not None
    leader.groups.propose(birth.identity, ENTRIES, servers.clock.monotonic_ns())
    leader.members_expected(4)
    servers.run(2)
    for name in "abc":
        servers[name].kill()
    return servers


def data_of(servers: ConsensusServers, name: str) -> list[bytes]:
    log = servers[name].meta.log
    entries = log.entries_from(log.snapshot.index + 1, 100, 1 << 20)
    return [entry.data for entry in entries if entry.index <= log.commit]


def reset(servers: ConsensusServers, name: str) -> None:
    servers[name].order(Order.RESET)
    servers.start(name)
    servers.run(5)


def test_a_server_without_the_others_has_no_leader() -> None:
    servers = with_entries()
    servers.start("a")
    servers.run(60)
    assert servers.leaders() == {""}


def test_a_reset_server_goes_on_alone_with_all_that_it_has() -> None:
    servers = with_entries()
    reset(servers, "a")
    assert servers.leader == "a"
    assert servers["a"].meta.membership == membership_of("a")
    assert [data for data in data_of(servers, "a") if data in ENTRIES] == ENTRIES
    assert any("The cluster was reset" in line for line in servers["a"].lines)


def test_an_order_is_carried_out_once() -> None:
    servers = with_entries()
    reset(servers, "a")
    first = servers["a"].driver.birth
    servers["a"].kill()
    servers.start("a")
    servers.run(5)
    assert servers.leader == "a"
    assert servers["a"].driver.birth == first
    assert len([line for line in servers["a"].lines if "The cluster was reset" in line]) == 1


def test_a_server_of_the_cluster_before_the_reset_is_refused_by_name() -> None:
    servers = with_entries()
    reset(servers, "a")
    servers.start("b")
    servers.run(5)
    assert servers["a"].meta.membership == membership_of("a")
    assert servers["b"].driver.meta_leader == ""
    for name, peer in ("ab", "ba"):
        [line] = [line for line in servers[name].lines if "in another cluster" in line]
        assert f"server '{peer}'" in line
        assert "headwater store cluster leave" in line


def test_servers_of_the_cluster_before_the_reset_do_not_touch_it() -> None:
    servers = with_entries()
    reset(servers, "a")
    term = servers["a"].meta.term
    servers.start("bc")
    servers.run(20)
    assert servers["a"].driver.meta_leader == "a"
    assert servers["a"].meta.term == term
    assert {servers[name].driver.meta_leader for name in "bc"} < {"b", "c"}


def test_a_server_that_has_left_joins_with_nothing_and_votes_when_it_has_the_log() -> None:
    servers = with_entries()
    reset(servers, "a")
    for name in "bc":
        servers[name].order(Order.LEAVE)
        servers.start(name)
        servers.run(5)
    for name in "abc":
        assert servers[name].driver.meta_leader == "a"
        assert servers[name].meta.membership == membership_of("abc")
        assert servers[name].meta.may_vote
    assert data_of(servers, "b") == data_of(servers, "a")[-len(data_of(servers, "b")) :]
    servers["a"].kill()
    servers.run(3)
    assert servers.leader in "bc"


def test_a_second_reset_is_another_cluster() -> None:
    servers = with_entries()
    reset(servers, "a")
    servers["b"].order(Order.LEAVE)
    servers.start("b")
    servers.run(5)
    for name in "ab":
        servers[name].kill()
    reset(servers, "a")
    servers.start("b")
    servers.run(5)
    assert servers["a"].meta.membership == membership_of("a")
    assert any("in another cluster" in line for line in servers["a"].lines)


def test_a_new_server_between_two_clusters_joins_one() -> None:
    servers = ConsensusServers("abcd", expected=3)
    servers.start("abc")
    servers.run(5)
    for name in "abc":
        servers[name].kill()
    reset(servers, "a")
    servers.start("b")
    servers.start("d")
    servers.run(5)
    joined = servers["d"].driver.birth
    assert joined is not None
    births = {name: servers[name].driver.birth for name in "ab"}
    assert sum(birth == joined for birth in births.values()) == 1
    assert any("in another cluster" in line for line in servers["d"].lines)


def test_a_server_that_may_have_forgotten_votes_when_it_is_reset() -> None:
    servers = with_entries()
    servers.start("a", doubtful="a")
    servers.run(1)
    assert not servers["a"].meta.may_vote
    servers["a"].kill()
    reset(servers, "a")
    assert servers.leader == "a"
    assert servers["a"].meta.may_vote


@pytest.mark.parametrize("order", [Order.RESET, Order.LEAVE])
@pytest.mark.parametrize("is_power_lost", [False, True])
def test_an_order_outlives_a_crash_at_every_operation(order: Order, is_power_lost: bool) -> None:
    servers = with_entries()
    servers["a"].order(order)
    forgotten: list[str] = []

    def start(disk: SimDisk) -> ClusterFile:
        entropy = SeededEntropy(labelled_rng(1, "a"))
        store = open_store(disk, "/data", entropy, disk.boot_id)
        store.mark_in_use()
        file = ClusterFile(disk, "/data")
        carry_out_order(file, store, "a", entropy, lambda: forgotten.append("a"))
        members = [store.groups[each].snapshot for each in store.groups.identities()]
        assert bool(members) == (order is Order.RESET)
        return file

    disk = servers["a"].disk
    for number in crash_points(start, disk):
        survivor = disk.clone(number)
        survivor.crash_at(number, "during")
        with pytest.raises(PowerLost):
            start(survivor)
        if is_power_lost:
            survivor.power_loss()
        else:
            survivor.kill()
        file = start(survivor)
        assert file.order is Order.NONE
        assert bool(forgotten) == (order is Order.LEAVE)
        assert file.birth.is_chosen == (order is Order.RESET)
        survivor.kill()
        servers["a"].disk = survivor
        servers.start("a")
        servers.run(5)
        birth = servers["a"].driver.birth
        if order is Order.RESET:
            assert birth is not None
            assert birth.reset != NEVER_RESET
            assert servers.leader == "a"
            assert [data for data in data_of(servers, "a") if data in ENTRIES] == ENTRIES
        else:
            assert birth is None
        servers["a"].kill()


def test_a_group_in_memory_begins_again_with_nothing() -> None:
    servers = with_entries()
    server, identity = servers["a"], b"m" * 16
    servers.start("a")
    mark = SnapshotMark(1, 1, encode(membership_of("abc")))
    server.store.groups.create(identity, GroupMode.MEMORY, mark, GroupState(4, "b", 1))
    server.commit()
    servers.run(1)
    server.kill()
    server.order(Order.RESET)
    servers.start("a")
    saved = saved_state(server.store.groups[identity])
    assert saved.snapshot.membership == membership_of("a")
    assert (saved.hard_state.term, saved.hard_state.vote, saved.last_index) == (5, "", 1)
    assert not server.store.groups[identity].may_have_forgotten
