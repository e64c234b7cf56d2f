"""Reply subjects that are written late are those that a consumer would have written at once."""

from headwater.jetstream.consumers.replies import Replies

REPLIES = Replies(b"$JS.ACK.S.C.", [3, 5, 9], [70, 71, 72], 11, 6)
WRITTEN = [
    b"$JS.ACK.S.C.1.3.11.70.6",
    b"$JS.ACK.S.C.1.5.12.71.5",
    b"$JS.ACK.S.C.1.9.13.72.4",
]


def test_each_message_has_its_own() -> None:
    assert [*REPLIES] == WRITTEN
    assert [REPLIES[place] for place in range(3)] == WRITTEN


def test_a_part_is_that_of_the_whole() -> None:
    assert [*REPLIES[1:]] == WRITTEN[1:]
    assert [*REPLIES[1:2]] == WRITTEN[1:2]
    assert len(REPLIES[:0]) == 0


def test_the_consumer_is_named() -> None:
    assert REPLIES.consumer == b"C"
