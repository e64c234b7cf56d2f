"""The lease of a leader: the entries that renew it, its end, its release, and the wait before."""

from dataclasses import replace

import pytest

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.raft.config import RaftConfig
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.leader_lease import MARKS_MAX, ends_with_release
from headwater.raft.lease import usable_ns
from headwater.raft.membership import membership_of
from headwater.raft.messages import Append, AppendReply, CampaignNow, InstallSnapshot, VoteReply
from headwater.raft.role import RoleName
from headwater.raft.storage import Snapshot
from tests.kit.raft_member import Member

LEASE_NS = NS_PER_S
USABLE_NS = usable_ns(LEASE_NS, RaftConfig().clock_drift)


def leader(voters: str = "abc", lease_ns: int = LEASE_NS) -> Member:
    """A leader that has the quorum for its first entry, which it created just now."""
    member = Member(voters=voters)
    member.node.grant_leases(lease_ns)
    member.lead()
    member.confirm(*voters.removeprefix("a"))
    assert member.node.is_ready
    return member


def may_read(member: Member, after_ns: int = 0) -> bool:
    return member.node.may_read(member.now_ns + after_ns)


def kinds(member: Member) -> list[EntryKind]:
    log = member.node.log
    return [entry.kind for entry in log.entries_from(2, 1000, 1 << 20)]


def test_every_entry_of_a_leader_grants_the_present_lease() -> None:
    member = leader()
    member.node.propose([b"x"], member.now_ns)
    member.node.propose_membership(membership_of("abc", "d"), member.now_ns)
    assert [each.lease_ns for each in member.node.log.entries_from(2, 9, 999)] == [LEASE_NS] * 3
    member.node.grant_leases(7)
    member.node.propose([b"y", b"z"], member.now_ns)
    assert [each.lease_ns for each in member.node.log.entries_from(5, 9, 999)] == [7, 7]


def test_a_lease_ends_before_its_full_length() -> None:
    member = leader()
    assert may_read(member, USABLE_NS - 1)
    assert not may_read(member, USABLE_NS)


def test_a_larger_drift_shortens_the_lease() -> None:
    member = leader()
    drifting = Member(config=replace(RaftConfig(), clock_drift=0.5))
    drifting.node.grant_leases(LEASE_NS)
    drifting.lead()
    drifting.confirm("b")
    assert may_read(member, LEASE_NS // 2)
    assert not may_read(drifting, LEASE_NS // 2)


def test_a_lease_counts_from_the_creation_of_a_committed_entry() -> None:
    member = leader()
    member.now_ns += USABLE_NS
    member.node.propose([b"x"], member.now_ns)
    member.work()
    assert not may_read(member)
    member.now_ns += USABLE_NS - 1
    member.confirm("b")
    assert may_read(member)
    assert not may_read(member, 1)


def test_an_entry_renews_the_lease_when_it_is_applied() -> None:
    member = leader()
    node = member.node
    member.now_ns += USABLE_NS
    node.propose([b"x"], member.now_ns)
    ready = node.ready(member.now_ns)
    assert ready is not None
    member.disk.files.write(ready, 0)
    node.written(ready, member.now_ns)
    for peer in "bc":
        node.step(member_reply(member, peer), member.now_ns)
    assert node.log.commit == 3
    assert not may_read(member)
    member.work()
    assert may_read(member)


def member_reply(member: Member, peer: str) -> AppendReply:
    node = member.node
    return AppendReply(peer, node.name, node.term, node.log.last_index, node.log.commit)


def test_the_lease_of_the_newest_entry_counts() -> None:
    member = leader()
    member.node.grant_leases(0)
    assert may_read(member)
    member.node.propose([b"x"], member.now_ns)
    member.work()
    assert may_read(member)
    member.confirm("b")
    assert not may_read(member)


def test_a_follower_reads_nothing() -> None:
    member = Member(voters="abc")
    member.node.grant_leases(LEASE_NS)
    assert not may_read(member)
    assert not member.node.renew(member.now_ns)


def test_many_appends_that_are_not_confirmed_are_not_all_remembered() -> None:
    member = leader()
    for _ in range(3 * MARKS_MAX):
        member.now_ns += 1
        member.node.propose([b"x"], member.now_ns)
    member.work()
    member.confirm("b")
    newest_ns = member.now_ns - 2 * MARKS_MAX - 1
    assert may_read(member, newest_ns - member.now_ns + USABLE_NS - 1)
    assert not may_read(member, newest_ns - member.now_ns + USABLE_NS)
    member.node.propose([b"y"], member.now_ns)
    member.work()
    member.confirm("b")
    assert may_read(member, USABLE_NS - 1)


# --- renewal -------------------------------------------------------------------------------------


def test_renewal_at_every_half_of_a_lease_never_lets_it_end() -> None:
    member = leader()
    tick_ns = LEASE_NS // 2
    for offset_ns in range(0, tick_ns, 10 * NS_PER_MS):
        # An entry at any time between two ticks takes the place of a renewal, or does not.
        member.now_ns += offset_ns
        assert may_read(member)
        member.node.propose([b"x"], member.now_ns)
        member.work()
        member.confirm("b")
        for wait_ns in (tick_ns - offset_ns, tick_ns, tick_ns):
            member.now_ns += wait_ns
            assert may_read(member)
            member.node.renew(member.now_ns)
            member.work()
            member.confirm("b")


def test_a_young_entry_spares_a_renewal() -> None:
    member = leader()
    assert not member.node.renew(member.now_ns + LEASE_NS // 4 - 1)
    assert member.node.renew(member.now_ns + LEASE_NS // 4)
    assert not member.node.renew(member.now_ns + LEASE_NS // 4)


@pytest.mark.parametrize(("voters", "lease_ns"), [("abc", 0), ("a", LEASE_NS)])
def test_a_leader_without_need_of_a_lease_renews_none(voters: str, lease_ns: int) -> None:
    member = leader(voters, lease_ns)
    assert not member.node.renew(member.now_ns + 10 * LEASE_NS)


# --- the wait ------------------------------------------------------------------------------------


def following(lease_ns: int = LEASE_NS, kind: EntryKind = EntryKind.DATA) -> Member:
    """A follower of b that has just received an entry."""
    member = Member(voters="abc")
    entry = Entry(2, 2, kind, b"", 0, lease_ns)
    member.step(Append("b", "a", 2, 1, 1, [entry], 2))
    return member


def led_by_a(member: Member) -> Member:
    """The member leads since the time of its last append: it was appointed."""
    member.step(CampaignNow("b", "a", member.node.term))
    member.step(VoteReply("b", "a", member.node.term, True))
    assert member.node.role is RoleName.LEADER
    return member


def test_a_new_leader_commits_nothing_until_inherited_leases_have_passed() -> None:
    member = following()
    received_ns = member.now_ns
    member.now_ns += LEASE_NS // 4
    led_by_a(member)
    node = member.node
    assert node.deadline_ns == received_ns + LEASE_NS
    member.confirm("b", "c")
    assert node.log.commit == 2
    node.tick(received_ns + LEASE_NS - 1)
    assert node.log.commit == 2
    assert kinds(member) == [EntryKind.DATA, EntryKind.NOOP]
    member.time_out()
    assert member.now_ns == received_ns + LEASE_NS
    assert node.log.commit == 3
    assert node.is_ready
    assert kinds(member) == [EntryKind.DATA, EntryKind.NOOP, EntryKind.NOOP]


def test_a_new_leader_does_not_wait_for_leases_that_have_passed() -> None:
    member = following()
    member.now_ns += LEASE_NS
    led_by_a(member)
    member.confirm("b")
    assert member.node.is_ready
    assert kinds(member) == [EntryKind.DATA, EntryKind.NOOP]


def test_entries_of_a_setting_without_leases_are_not_waited_for() -> None:
    member = led_by_a(following(lease_ns=0))
    member.confirm("b")
    assert member.node.is_ready


def test_entries_count_as_received_when_their_member_starts() -> None:
    member = Member(voters="abc", disk=following().disk)
    member.now_ns += LEASE_NS - 1
    led_by_a(member)
    member.confirm("b")
    assert not member.node.is_ready
    member.now_ns += 1
    member.node.tick(member.now_ns)
    member.work()
    assert member.node.is_ready


def test_a_snapshot_counts_as_received_when_it_arrives() -> None:
    member = Member(voters="abc")
    place = Snapshot(9, 2, membership_of("abc"), LEASE_NS)
    member.step(InstallSnapshot("b", "a", 2, place))
    led_by_a(member)
    assert member.node.deadline_ns == member.now_ns + LEASE_NS
    assert member.node.snapshot_at(9).lease_ns == LEASE_NS


def test_a_trimmed_log_tells_the_leases_of_its_entries() -> None:
    member = leader()
    assert member.node.trim(2).lease_ns == LEASE_NS


def test_a_member_that_votes_with_what_it_has_waits_for_what_it_may_have_had() -> None:
    member = Member(voters="abc", has_forgotten=True)
    member.node.grant_leases(LEASE_NS)
    member.node.resume_voting(member.now_ns)
    member.work()
    led_by_a(member)
    assert member.node.deadline_ns == member.now_ns + LEASE_NS


# --- the release ---------------------------------------------------------------------------------


def test_a_successor_of_a_release_does_not_wait() -> None:
    member = following()
    entry = Entry(2, 3, EntryKind.RELEASE, b"")
    member.step(Append("b", "a", 2, 2, 2, [entry], 2))
    assert ends_with_release(member.node.log)
    led_by_a(member)
    member.confirm("b")
    assert member.node.is_ready
    assert not ends_with_release(member.node.log)


def test_a_release_with_an_entry_behind_it_spares_no_wait() -> None:
    member = following()
    entries = [Entry(2, 3, EntryKind.RELEASE, b""), Entry(2, 4, EntryKind.NOOP, b"", 0, 1)]
    member.step(Append("b", "a", 2, 2, 2, entries, 2))
    led_by_a(member)
    member.confirm("b")
    assert not member.node.is_ready


def test_a_log_that_is_a_snapshot_ends_with_no_release() -> None:
    assert not ends_with_release(Member().node.log)


@pytest.mark.parametrize("way", ["transfer", "retire", "step_down"])
def test_a_leader_that_hands_over_releases_its_lease(way: str) -> None:
    member = leader()
    node = member.node
    if way == "transfer":
        node.transfer_leadership("b", member.now_ns)
    else:
        getattr(node, way)(member.now_ns)
    assert not may_read(member)
    sent = member.work()
    assert ends_with_release(node.log)
    appended = [each for each in sent if isinstance(each, Append) and each.to == "b"]
    assert [entry.kind for each in appended for entry in each.entries] == [EntryKind.RELEASE]
    if way != "step_down":
        sent = member.confirm("b")
    assert [each.to for each in sent if isinstance(each, CampaignNow)] == ["b"]


def test_a_leader_whose_disk_has_failed_writes_no_release() -> None:
    member = leader()
    member.node.resign(member.now_ns)
    assert not ends_with_release(member.node.log)


def test_a_leader_of_a_group_without_leases_writes_no_release() -> None:
    member = leader(lease_ns=0)
    member.node.transfer_leadership("b", member.now_ns)
    assert kinds(member) == [EntryKind.NOOP]


def test_a_leader_that_waits_itself_writes_no_release() -> None:
    member = led_by_a(following())
    member.confirm("b", "c")
    member.now_ns += LEASE_NS // 2
    member.node.transfer_leadership("b", member.now_ns)
    assert kinds(member) == [EntryKind.DATA, EntryKind.NOOP]
    # When its wait is over, the lease that it hands over is its own.
    member.now_ns += LEASE_NS // 2
    member.node.tick(member.now_ns)
    assert kinds(member) == [EntryKind.DATA, EntryKind.NOOP, EntryKind.RELEASE]


def test_a_release_is_not_repeated() -> None:
    member = leader()
    assert member.node.transfer_leadership("b", member.now_ns)
    assert member.node.transfer_leadership("c", member.now_ns)
    assert kinds(member) == [EntryKind.NOOP, EntryKind.RELEASE]


def test_a_leader_that_leads_on_renews_its_lease_behind_the_release() -> None:
    member = leader()
    member.node.transfer_leadership("b", member.now_ns)
    member.work()
    member.confirm("c")
    assert not may_read(member)
    assert not member.node.renew(member.now_ns + LEASE_NS)
    member.node.peer_lost("b", member.now_ns)
    member.work()
    assert kinds(member) == [EntryKind.NOOP, EntryKind.RELEASE, EntryKind.NOOP]
    assert not may_read(member)
    member.confirm("c")
    assert may_read(member)


# --- one voter -----------------------------------------------------------------------------------


def test_a_sole_voter_needs_no_lease() -> None:
    member = leader("a", lease_ns=0)
    assert may_read(member, 1000 * NS_PER_S)


def test_the_last_voter_needs_no_lease_when_the_others_have_left() -> None:
    member = leader()
    member.node.propose_membership(membership_of("a"), member.now_ns)
    member.work()
    assert not may_read(member, LEASE_NS)
    member.confirm("b", "c")
    member.confirm("b", "c")
    assert member.node.membership == membership_of("a")
    assert may_read(member, 1000 * NS_PER_S)


def test_a_leader_that_leaves_releases_its_lease() -> None:
    member = leader()
    member.node.propose_membership(membership_of("bc"), member.now_ns)
    member.work()
    member.confirm("b", "c")
    sent = member.confirm("b", "c")
    assert member.node.role is RoleName.FOLLOWER
    assert ends_with_release(member.node.log)
    assert any(isinstance(each, CampaignNow) for each in sent)
