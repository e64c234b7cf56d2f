"""Snapshots of groups on their way between the drivers of servers."""

import pytest

from headwater.raft.membership import membership_of
from headwater.server.cluster.consensus.compaction import LOG_ENTRIES_MAX
from headwater.server.cluster.consensus.transfers import OFFER
from tests.kit.consensus_servers import ConsensusServers


def with_a_given_up_log() -> ConsensusServers:
    """Three servers whose leader has given the first entries up, and a fourth that never ran."""
    servers = ConsensusServers("abcd", expected=3)
    servers.start("abc")
    servers.run(5)
    leader = servers[servers.leader]
    [identity] = leader.store.groups.identities()
    for _ in range(4):
        batch = [b"entry"] * (LOG_ENTRIES_MAX // 2)
        leader.driver.groups.propose(identity, batch, servers.clock.monotonic_ns())
        leader.driver.members_expected(3)
        servers.run(1)
    assert leader.store.groups[identity].snapshot.index > LOG_ENTRIES_MAX // 2
    return servers


def demand_that_the_new_one_follows(servers: ConsensusServers) -> None:
    leader = servers[servers.leader]
    assert servers["d"].meta.membership == membership_of("abcd")
    assert servers["d"].meta.log.commit == leader.meta.log.commit


def test_a_long_log_is_given_up_and_a_new_server_gets_a_snapshot() -> None:
    servers = with_a_given_up_log()
    servers.start("d")
    servers.run(5)
    demand_that_the_new_one_follows(servers)


def test_an_offer_that_was_lost_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = with_a_given_up_log()
    send, lost = servers.send, list[str]()

    def lose_first_offer(sender: str, peer: str, payload: bytes, method: str) -> None:
        if method == "catch_up_received" and payload[:1] == OFFER and not lost:
            lost.append(peer)
        else:
            send(sender, peer, payload, method)

    monkeypatch.setattr(servers, "send", lose_first_offer)
    servers.start("d")
    servers.run(5)
    assert lost == ["d"]
    demand_that_the_new_one_follows(servers)
