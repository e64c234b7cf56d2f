"""Servers agree: a cluster is born, keeps a leader, admits servers, and notices forgotten ones."""

import pytest

from headwater.raft.membership import membership_of
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.notices import BIRTH
from headwater.testing.disk import SimDisk
from tests.kit.consensus_servers import ConsensusServers


def born(names: str = "abc", expected: int | None = None) -> ConsensusServers:
    """Servers that run, are connected, and have a leader."""
    servers = ConsensusServers(names, expected)
    servers.start()
    servers.run(5)
    assert servers.leader in names
    return servers


def test_configured_servers_are_born_and_elect_a_leader() -> None:
    servers = born()
    for name in "abc":
        assert servers[name].meta.membership == membership_of("abc")
    [line] = [line for line in servers[servers.leader].lines if "metadata leader" in line]
    assert "Self is new JetStream cluster metadata leader" in line


def test_a_minority_of_the_configured_servers_is_not_born() -> None:
    servers = ConsensusServers("ab", expected=5)
    servers.start()
    servers.run(60)
    assert servers.leaders() == {""}
    assert servers["a"].driver.meta is None


def test_a_server_that_comes_later_is_admitted() -> None:
    servers = ConsensusServers("abc")
    servers.start("ab")
    servers.run(5)
    assert servers["a"].meta.membership == membership_of("ab")
    servers.start("c")
    servers.run(5)
    for name in "abc":
        assert servers[name].meta.membership == membership_of("abc")
        assert servers[name].meta.may_vote


def test_a_fourth_server_is_admitted_too() -> None:
    servers = ConsensusServers("abcd", expected=3)
    servers.start("abc")
    servers.run(5)
    servers.start("d")
    servers.run(5)
    assert servers["d"].meta.membership == membership_of("abcd")


def test_entries_that_wait_for_the_end_of_a_transfer_keep_no_server_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = born()
    driver = servers[servers.leader].driver
    assert driver.birth is not None
    assert driver.transfer(driver.birth.identity, "")
    turns: list[object] = []
    monkeypatch.setattr(ConsensusDriver, "_plan_turn", lambda driver: turns.append(driver))
    assert driver.propose(driver.birth.identity, [b"entry"]) is None
    assert not turns


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_a_cluster_that_starts_again_is_the_same(is_power_lost: bool) -> None:
    servers = born()
    term = servers["a"].meta.term
    for name in "abc":
        servers[name].kill()
        if is_power_lost:
            servers[name].disk.power_loss()
    servers.start()
    servers.run(5)
    assert servers.leader in "abc"
    assert servers["a"].meta.term > term
    assert all(servers[name].meta.may_vote for name in "abc")


def test_a_killed_leader_is_replaced_and_comes_back_as_a_follower() -> None:
    servers = born()
    first = servers.leader
    servers[first].kill()
    servers.run(2)
    second = servers.leader
    assert second != first
    servers.start(first)
    servers.run(2)
    assert servers.leader == second


def test_a_refused_connection_loses_a_server_at_once() -> None:
    servers = born()
    first = servers.leader
    servers[first].kill()
    for name in "abc":
        if name != first:
            servers[name].driver.peer_unreachable(first)
    servers.run(0.5)
    assert servers.leader != first


def test_a_server_that_stops_hands_over() -> None:
    servers = born()
    first = servers.leader
    servers[first].driver.stop()
    servers.run(0.2)
    others = {servers[name].driver.meta_leader for name in "abc" if name != first}
    assert len(others) == 1
    assert not others & {first, ""}


def test_a_disk_that_fails_has_another_server_lead() -> None:
    servers = born()
    first = servers.leader
    servers[first].driver.failed()
    servers.run(0.5)
    assert servers.leader != first


def test_an_emptied_server_takes_part_again_when_it_has_the_log() -> None:
    servers = born()
    servers["b"].empty()
    servers.start("b")
    servers.run(0.004)
    meta = servers["b"].driver.meta
    assert meta is None or not meta.may_vote
    servers.run(5)
    assert servers["b"].meta.may_vote
    assert servers["b"].meta.membership == membership_of("abc")


def test_a_server_that_was_put_back_is_told_and_does_not_vote() -> None:
    servers = born()
    servers["b"].kill()
    earlier = servers["b"].disk.clone(1)
    servers.start("b")
    servers.run(5)
    servers["b"].kill()
    servers["b"].disk = earlier
    servers["b"].disk.kill()
    servers.start("b")
    servers.run(0.002)
    assert not servers["b"].meta.may_vote
    assert any("remembers a later state" in line for line in servers["b"].lines)
    servers.run(5)
    assert servers["b"].meta.may_vote


def put_back(servers: ConsensusServers, name: str, disk: SimDisk) -> None:
    """Start a server on an earlier state of its disk."""
    servers[name].kill()
    servers[name].disk = disk
    disk.kill()
    servers.start(name)


def test_a_server_that_votes_again_does_not_forget_when_a_link_is_renewed() -> None:
    servers = born()
    servers["b"].kill()
    earlier = servers["b"].disk.clone(1)
    servers.start("b")
    servers.run(5)
    put_back(servers, "b", earlier)
    servers.run(5)
    assert servers["b"].meta.may_vote
    for name in "ac":
        servers.cut("b", name)
        servers.connect("b", name)
    servers.run(0.01)
    assert servers["b"].meta.may_vote
    assert len([line for line in servers["b"].lines if "remembers a later state" in line]) == 1


def test_a_server_that_was_put_back_to_before_the_birth_does_not_vote() -> None:
    servers = ConsensusServers("abc")
    servers.start("b")
    servers.run(1)
    servers["b"].kill()
    earlier = servers["b"].disk.clone(1)
    servers.start("abc")
    servers.run(5)
    put_back(servers, "b", earlier)
    servers.run(0.003)
    assert servers["b"].driver.birth is not None
    assert not servers["b"].meta.may_vote
    servers.run(5)
    assert servers["b"].meta.may_vote


@pytest.mark.parametrize(
    ("names", "doubtful"),
    [("abc", "abc"), ("abc", "ab"), ("ab", "ab"), ("abc", "bc")],
)
def test_a_majority_that_has_forgotten_waits_and_then_votes(names: str, doubtful: str) -> None:
    servers = born()
    for name in "abc":
        servers[name].kill()
    check_doubtful_servers_vote(servers, names, doubtful)


@pytest.mark.parametrize(("names", "doubtful"), [("ab", "b"), ("abcd", "cd"), ("abcd", "bcd")])
def test_half_of_an_even_group_that_has_forgotten_waits_and_then_votes(
    names: str, doubtful: str
) -> None:
    servers = born(names)
    for name in names:
        servers[name].kill()
    check_doubtful_servers_vote(servers, names, doubtful)


def check_doubtful_servers_vote(servers: ConsensusServers, names: str, doubtful: str) -> None:
    """Servers that all start agree after the wait for others, and those that doubt report it."""
    servers.start(names, doubtful)
    servers.run(9)
    assert servers.leaders() == {""}
    servers.run(5)
    assert servers.leader in names
    for name in names:
        assert servers[name].meta.may_vote
        reports = [line for line in servers[name].lines if "may have forgotten what they" in line]
        assert len(reports) == (name in doubtful)


def test_a_minority_that_has_forgotten_does_not_wait() -> None:
    servers = born()
    for name in "abc":
        servers[name].kill()
    servers.start("abc", "b")
    servers.run(5)
    assert servers.leader in "ac"
    assert servers["b"].meta.may_vote
    assert not any("may have forgotten what they" in line for line in servers["b"].lines)


def test_a_copied_store_is_refused_by_name_and_logged_once() -> None:
    servers = born("abc")
    servers["c"].kill()
    copied = servers["b"].disk.clone(1)
    copied.kill()
    servers["c"].disk = copied
    servers.start("c")
    servers.run(1)
    servers.connect("a", "c")
    servers.run(1)
    refusals = [line for line in servers["a"].lines if "a copy of the store" in line]
    assert len(refusals) == 1
    assert "server 'c' runs on a copy of the store of server 'b'" in refusals[0]
    assert servers["a"].driver.meta_leader in "ab"


@pytest.mark.parametrize("payload", [b"", b"\x02", BIRTH + b"\x00", b"\x01abc", b"\xff"])
def test_a_malformed_frame_ends_the_connection_and_nothing_else(payload: bytes) -> None:
    servers = born()
    servers["a"].driver.consensus_received("b", payload)
    assert frozenset("ab") not in servers.links
    assert any("a malformed frame" in line for line in servers["a"].lines)
    servers.connect("a", "b")
    servers.run(3)
    assert servers.leader in "abc"


def test_bytes_of_a_server_count_as_its_sign_of_life() -> None:
    servers = born()
    driver = servers["b"].driver
    assert driver.silence_ns("a") > 0
    driver.peer_heard("a")
    assert driver.silence_ns("a") == 0
    driver.peer_heard("nobody")


def test_nothing_is_taken_from_a_server_that_has_not_greeted() -> None:
    servers = born()
    servers.cut("a", "b")
    servers["a"].driver.consensus_received("b", b"\xff")
    servers["a"].driver.catch_up_received("b", b"\xff")
    assert not any("malformed" in line for line in servers["a"].lines)
