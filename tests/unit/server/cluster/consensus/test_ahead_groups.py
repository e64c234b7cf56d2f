"""Groups that run ahead of their quorums, on one server."""

from headwater.base.clock import NS_PER_S
from headwater.server.cluster.consensus.ahead_groups import AheadGroups
from headwater.server.cluster.consensus.groups import Groups
from headwater.server.cluster.consensus.liveness import LivenessSettings
from headwater.store.groups.frames import GroupEntry
from headwater.store.store import open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.raft_member import Member
from tests.kit.world import ManualClock

GROUP = b"g" * 16


def groups() -> tuple[Groups, AheadGroups]:
    found = Groups("a", LivenessSettings())
    disk = SimDisk()
    store = open_store(disk, "/data", SeededEntropy(labelled_rng(1, "store")), disk.boot_id)
    return found, AheadGroups(found, store.groups, ManualClock(), lambda: None)


class Machine:
    """A machine that notes what it is told."""

    def __init__(self) -> None:
        self.lost: list[GroupEntry] = []

    def written(self) -> None:
        """Do nothing."""

    def entries_lost(self, entries: list[GroupEntry]) -> None:
        self.lost += entries


def test_a_group_runs_ahead_when_it_is_joined_later() -> None:
    found, ahead = groups()
    ahead.run_ahead(GROUP, Machine())
    member = Member()
    found.add(GROUP, member.node, NS_PER_S)
    ahead.joined(GROUP)
    assert member.node._replica.runs_ahead
    ahead.run_ahead(GROUP, None)
    assert not member.node._replica.runs_ahead


def test_a_group_that_is_not_here_has_nothing_to_say() -> None:
    _, ahead = groups()
    ahead.be_sure_of_sequences(GROUP)
    ahead.disown(GROUP, 2)
    ahead.resign(GROUP)
    assert not ahead.follows_release(GROUP)
    assert not ahead.vouched(GROUP)
    assert not ahead.has_quorum(GROUP)
