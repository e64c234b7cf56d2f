"""The servers whose messages a member takes: members, leaders it does not know, nobody else."""

from headwater.raft.entry import Entry, EntryKind
from headwater.raft.membership import encode, membership_of
from headwater.raft.messages import Append, AppendReply, Digest, Message, PreVoteReply, Vote
from headwater.raft.node import RaftNode
from headwater.raft.storage import blank
from headwater.server.cluster.consensus.senders import Senders
from tests.kit.raft_member import Member

CLUSTER = b"c" * 32


def told(sender: str, cluster: bytes = CLUSTER) -> Senders:
    """The senders of a server of a cluster, one of which has named its own."""
    senders = Senders()
    senders.cluster = CLUSTER
    senders.told(sender, cluster)
    return senders


def is_taken(
    senders: Senders, message: Message, node: RaftNode, meta: RaftNode | None = None
) -> bool:
    return senders.accepts(node, meta or Member("a", "abc").node, message)


def leading(sender: str) -> Message:
    return Append(sender, "a", 2, 1, 1, [], 1)


def replying(sender: str) -> Message:
    return PreVoteReply(sender, "a", 9, False)


def test_members_are_heard_whether_they_vote_or_learn() -> None:
    node = Member("a", "ab", "c").node
    for sender in "bc":
        assert is_taken(Senders(), replying(sender), node)
        assert is_taken(Senders(), leading(sender), node)


def test_a_server_that_is_in_no_cluster_is_not_heard() -> None:
    senders = told("x", bytes(32))
    for message in (
        leading("x"),
        replying("x"),
        Digest("x", "a", 9, ""),
        Vote("x", "a", 9, 9, 8, False),
    ):
        assert not is_taken(senders, message, Member("a", "abc").node)


def test_a_server_of_the_meta_group_may_be_in_any_group() -> None:
    node, meta = Member("a", "ab").node, Member("a", "abcd").node
    assert is_taken(Senders(), replying("d"), node, meta)
    assert not is_taken(Senders(), replying("e"), node, meta)


def test_a_leader_that_is_not_known_yet_is_heard_if_it_is_of_this_cluster() -> None:
    node = Member("a", "abc").node
    assert is_taken(told("d"), leading("d"), node)
    assert not is_taken(told("d"), replying("d"), node)
    assert not is_taken(told("e"), leading("d"), node)
    senders = told("d")
    senders.lost("d")
    assert not is_taken(senders, leading("d"), node)


def test_a_member_that_has_left_may_confirm_the_entry_by_which_it_left() -> None:
    member = Member("a", "abc")
    member.step(
        Append(
            "b",
            "a",
            2,
            1,
            1,
            [Entry(2, 2, EntryKind.MEMBERSHIP, encode(membership_of("ab")))],
            1,
        )
    )
    assert not member.node.membership.has("c")
    assert is_taken(Senders(), AppendReply("c", "a", 2, 2, 2), member.node, member.node)


def test_a_member_that_knows_nobody_hears_everybody() -> None:
    node = Member("a", saved=blank()).node
    assert is_taken(Senders(), leading("x"), node)
    # A server that has left the meta group for good does not know who is in it.
    assert Senders().accepts(Member("a", "abc").node, None, leading("x"))
    assert is_taken(Senders(), leading("x"), Member("a", "abc").node, node)
