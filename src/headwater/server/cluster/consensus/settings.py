"""The settings of consensus that the `cluster` section names.

Servers of one cluster should have equal settings: one with a shorter election timeout campaigns
before the others believe that their leader is lost, and is refused.
"""

from typing import Final

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.raft.config import RaftConfig
from headwater.server.cluster.consensus.leader_reads import ReadSettings
from headwater.server.cluster.consensus.liveness import LivenessSettings
from headwater.server.cluster.consensus.transfers import OUTSTANDING_BYTES_MAX
from headwater.server.configuration.options import (
    ClusterOptions,
    JetStreamOptions,
    LinearizableReads,
    Options,
)

COMMIT_DELAY_NS: Final = 2 * NS_PER_MS
"""The time within which replicas hear of a commit that no later entry tells them of. Clients that
publish one message after another are quicker than that, and wait for no reader of a replica."""


def catch_up_bytes_max(options: JetStreamOptions) -> int:
    """The bytes of snapshots that may be on their way to other servers."""
    chosen = options.outstanding_catch_up_bytes_max
    return chosen if chosen > 0 else OUTSTANDING_BYTES_MAX


def read_settings(options: Options) -> ReadSettings:
    """The ways in which leaders make sure that they lead."""
    return ReadSettings(
        lease_ns=options.jetstream.lease_ns,
        uses_rounds=options.jetstream.linearizable_reads is LinearizableReads.QUORUM,
        round_ns_max=round(options.cluster.election_timeout_s * NS_PER_S),
    )


def settings_of(options: ClusterOptions) -> tuple[RaftConfig, LivenessSettings]:
    """The settings of groups, and those of pairs of servers."""
    election_ns = round(options.election_timeout_s * NS_PER_S)
    raft, liveness = RaftConfig(), LivenessSettings()
    return (
        RaftConfig(
            election_timeout_ns=election_ns,
            lost_leader_spread_ns=min(raft.lost_leader_spread_ns, election_ns),
            commit_delay_ns=COMMIT_DELAY_NS,
        ),
        LivenessSettings(
            heartbeat_ns=round(options.heartbeat_interval_s * NS_PER_S),
            silence_ns=election_ns,
            renewal_ns=min(liveness.renewal_ns, election_ns),
            unclean_wait_ns=round(options.unclean_wait_s * NS_PER_S),
        ),
    )
