"""The cluster of a stopped server is read from its store, and nothing is changed."""

import pytest

from headwater.raft.entry import EntryKind
from headwater.raft.membership import UNKNOWN, encode, membership_of
from headwater.server.cluster.consensus.cluster_file import Order
from headwater.server.cluster.consensus.survey import ClusterSurvey, read_cluster
from headwater.store.disk.store_file import STORE_FILE
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.consensus_servers import ConsensusServers

GROUP = b"g" * 16


def stopped(names: str = "abc", expected: int | None = None) -> ConsensusServers:
    servers = ConsensusServers(names, expected)
    servers.start()
    servers.run(5)
    for name in names:
        servers[name].kill()
    return servers


def survey_of(disk: SimDisk) -> ClusterSurvey:
    operations = {each: count for each, count in disk.operation_counts.items() if each != "open"}
    survey = read_cluster(disk, "/data", disk)
    after = {each: count for each, count in disk.operation_counts.items() if each != "open"}
    assert after == operations
    return survey


def test_a_member_has_a_birth_a_meta_group_and_the_other_servers() -> None:
    servers = stopped()
    survey = survey_of(servers["b"].disk)
    assert survey.meta is not None
    assert survey.meta.membership == membership_of("abc")
    assert survey.others == ("a", "c")
    assert survey.order is Order.NONE
    assert survey.start_number == 1
    assert survey.meta.last_index >= survey.meta.state.commit > 0
    assert not survey.meta.may_have_forgotten


def test_an_order_that_is_not_carried_out_is_told() -> None:
    servers = stopped()
    servers["a"].order(Order.LEAVE)
    assert survey_of(servers["a"].disk).order is Order.LEAVE


def test_a_server_that_was_admitted_knows_itself_among_the_members() -> None:
    servers = ConsensusServers("abcd", expected=3)
    servers.start("abc")
    servers.run(5)
    servers.start("d")
    servers.run(5)
    servers["d"].kill()
    assert survey_of(servers["d"].disk).others == ("a", "b", "c")


def test_a_server_that_is_in_no_cluster_has_no_meta_group() -> None:
    servers = stopped("a", expected=3)
    survey = survey_of(servers["a"].disk)
    assert survey.meta is None
    assert survey.others == ()


def test_a_folder_without_a_sound_store_file_is_refused() -> None:
    servers = stopped()
    disk = servers["a"].disk
    disk.flip_bit(f"/data/{STORE_FILE}", 20, 1)
    with pytest.raises(StoreError, match=STORE_FILE):
        read_cluster(disk, "/data", disk)


# --- memberships --------------------------------------------------------------------------------


def membership_entry(index: int, term: int, voters: str) -> GroupEntry:
    data = encode(membership_of(voters))
    return GroupEntry(index, term, EntryKind.MEMBERSHIP, 0, 0, data)


def data_entry(index: int, term: int) -> GroupEntry:
    return GroupEntry(index, term, EntryKind.DATA, 0, 0, b"data")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(1)
    disk.make_folder("/data")
    disk.sync_folder("/")
    return disk


@pytest.fixture
def store(disk: SimDisk) -> Store:
    """A store with a group of a, b and c."""
    opened = open_store(disk, "/data", SeededEntropy(labelled_rng(1, "a")), "boot")
    opened.mark_in_use()
    mark = SnapshotMark(1, 1, encode(membership_of("abc")))
    opened.groups.create(GROUP, GroupMode.SYNCED, mark, GroupState(1, "", 1))
    return opened


def test_the_last_membership_in_a_log_is_in_force(store: Store, disk: SimDisk) -> None:
    log = store.groups[GROUP]
    log.save(entries=[data_entry(2, 1), membership_entry(3, 1, "abcd"), data_entry(4, 1)])
    store.group_commit.begin()
    assert survey_of(disk).groups[GROUP].membership == membership_of("abcd")
    assert survey_of(disk).groups[GROUP].last_index == 4


def test_a_membership_that_another_entry_has_replaced_is_not(store: Store, disk: SimDisk) -> None:
    log = store.groups[GROUP]
    log.save(entries=[data_entry(2, 1), membership_entry(3, 1, "abcd")])
    log.save(state=GroupState(2, "b", 1), entries=[data_entry(3, 2)])
    store.group_commit.begin()
    group = survey_of(disk).groups[GROUP]
    assert group.membership == membership_of("abc")
    assert (group.state.term, group.state.vote, group.last_term) == (2, "b", 2)


def test_a_snapshot_mark_replaces_the_memberships_before_it(store: Store, disk: SimDisk) -> None:
    log = store.groups[GROUP]
    log.save(entries=[membership_entry(2, 1, "abcd")])
    log.save(snapshot=SnapshotMark(9, 1, encode(membership_of("ab"))))
    store.group_commit.begin()
    assert survey_of(disk).groups[GROUP].membership == membership_of("ab")


def test_a_removed_group_is_not_told_of(store: Store, disk: SimDisk) -> None:
    store.groups[GROUP].save(entries=[membership_entry(2, 1, "abcd")])
    store.groups.remove(GROUP)
    store.group_commit.begin()
    assert survey_of(disk).groups == {}


def test_a_member_that_was_told_nothing_has_no_members(store: Store, disk: SimDisk) -> None:
    blank = b"h" * 16
    store.groups.create(
        blank, GroupMode.SYNCED, SnapshotMark(), GroupState(), may_have_forgotten=True
    )
    store.group_commit.begin()
    group = survey_of(disk).groups[blank]
    assert group.membership == UNKNOWN
    assert group.may_have_forgotten
