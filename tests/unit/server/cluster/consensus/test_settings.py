"""The settings of consensus that the `cluster` section names."""

import pytest

from headwater.base.clock import NS_PER_MS
from headwater.raft.config import RaftConfig
from headwater.server.cluster.consensus.liveness import LivenessSettings
from headwater.server.cluster.consensus.settings import (
    COMMIT_DELAY_NS,
    catch_up_bytes_max,
    settings_of,
)
from headwater.server.cluster.consensus.transfers import OUTSTANDING_BYTES_MAX
from headwater.server.configuration.options import ClusterOptions, JetStreamOptions
from tests.kit.consensus_servers import ConsensusServers


def test_options_without_settings_are_the_defaults() -> None:
    expected = RaftConfig(commit_delay_ns=COMMIT_DELAY_NS), LivenessSettings()
    assert settings_of(ClusterOptions()) == expected


@pytest.mark.parametrize("election_s", [0.03, 0.25, 5.0])
def test_settings_break_no_rule_of_the_core(election_s: float) -> None:
    options = ClusterOptions(heartbeat_interval_s=0.01, election_timeout_s=election_s)
    raft, liveness = settings_of(options)
    assert raft.fault() == liveness.fault() == ""
    assert liveness.heartbeat_ns == 10 * NS_PER_MS


def test_a_silent_leader_is_lost_after_the_election_timeout() -> None:
    options = ClusterOptions(heartbeat_interval_s=0.5, election_timeout_s=4.0)
    servers = ConsensusServers("abc", settings=settings_of(options))
    servers.start()
    servers.run(20)
    first = servers.leader
    servers.pause(first)
    servers.run(3)
    assert servers.leader == first
    servers.run(4)
    assert servers.leader != first


@pytest.mark.parametrize(
    ("chosen", "expected"), [(0, OUTSTANDING_BYTES_MAX), (-1, 64 << 20), (5, 5)]
)
def test_bytes_of_snapshots_have_a_bound(chosen: int, expected: int) -> None:
    options = JetStreamOptions(outstanding_catch_up_bytes_max=chosen)
    assert catch_up_bytes_max(options) == expected
