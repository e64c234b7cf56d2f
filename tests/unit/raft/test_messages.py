"""Messages are values."""

from headwater.raft.messages import Digest, PreVote, PreVoteReply, VoteReply


def test_messages_are_equal_by_kind_and_fields() -> None:
    assert PreVote("a", "b", 2, 5, 1) == PreVote("a", "b", 2, 5, 1)
    assert PreVote("a", "b", 2, 5, 1) != PreVote("a", "c", 2, 5, 1)
    assert PreVote("a", "b", 2, 5, 1) != PreVote("a", "b", 2, 6, 1)
    assert PreVoteReply("a", "b", 2, True) != VoteReply("a", "b", 2, True)


def test_a_message_shows_its_way_and_its_fields() -> None:
    assert repr(Digest("a", "b", 2, "c")) == "a->b Digest(term=2 leader='c')"
