"""Frames of the consensus connection: round trips and malformed bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import PeerError
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.messages import Append, Digest, Message, VoteReply
from headwater.server.cluster.consensus.frames import (
    FRAME_BYTES_MAX,
    HEARTBEAT,
    decode_frame,
    encode_messages,
)

GROUPS = [bytes([number]) * 16 for number in range(3)]


def append(size: int) -> Append:
    return Append("a", "b", 4, 1, 1, [Entry(4, 2, EntryKind.DATA, bytes(size))], 1)


def test_messages_of_several_groups_are_one_frame() -> None:
    messages: list[tuple[bytes, Message]] = [
        (GROUPS[0], VoteReply("a", "b", 7, True)),
        (GROUPS[1], append(100)),
        (GROUPS[0], Digest("a", "b", 7, "c")),
    ]
    [frame] = encode_messages(messages)
    assert [*decode_frame(frame, "a", "b")] == messages


def test_no_messages_are_no_frame() -> None:
    assert [*encode_messages([])] == []


def test_a_large_message_travels_alone() -> None:
    messages: list[tuple[bytes, Message]] = [
        (GROUPS[0], append(10)),
        (GROUPS[1], append(FRAME_BYTES_MAX + 1)),
        (GROUPS[2], append(10)),
    ]
    frames = [*encode_messages(messages)]
    assert len(frames) == 3
    assert [each for frame in frames for each in decode_frame(frame, "a", "b")] == messages


def test_a_heartbeat_has_no_messages() -> None:
    assert [*decode_frame(HEARTBEAT, "a", "b")] == []


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"", "unknown kind"),
        (b"\x02", "unknown kind"),
        (HEARTBEAT + b"x", "bytes after its end"),
        (b"\x01" + bytes(10), "within the head"),
        (b"\x01" + bytes(16) + b"\x05\x00\x00\x00abcd", "within a message"),
    ],
)
def test_bytes_that_are_no_frame_are_refused_by_name(frame: bytes, text: str) -> None:
    with pytest.raises(PeerError, match=text):
        [*decode_frame(frame, "a", "b")]


[_FRAME] = encode_messages([(GROUPS[0], append(5)), (GROUPS[1], VoteReply("a", "b", 7, True))])


def check_any(frame: bytes) -> None:
    """Decode bytes: the result is messages that encode to these bytes, or an error of the peer."""
    try:
        messages = [*decode_frame(frame, "a", "b")]
    except PeerError:
        return
    assert messages == [] or b"".join(encode_messages(messages)) == frame


@given(st.binary(max_size=80) | st.integers(0, len(_FRAME)).map(lambda end: _FRAME[:end]))
def test_any_bytes_are_messages_or_an_error_of_the_peer(frame: bytes) -> None:
    check_any(frame)


@given(st.integers(0, len(_FRAME) - 1), st.integers(1, 255))
def test_a_changed_byte_is_a_message_or_an_error_of_the_peer(position: int, change: int) -> None:
    frame = bytearray(_FRAME)
    frame[position] ^= change
    check_any(bytes(frame))
