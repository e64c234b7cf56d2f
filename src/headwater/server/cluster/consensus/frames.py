"""Frames of the consensus connection between two servers.

    heartbeat   0
    messages    1, then for each message: group (16 bytes), length (4 bytes), message

Messages of many groups travel in one frame. The groups of a server campaign in a few moments
(`headwater.raft.replica`), so a server that is lost costs its peers a few frames for each
of these, not for each group. The link adds length and checksum of a frame.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, Protocol

from headwater.base.errors import PeerError
from headwater.raft.codec import decode, encode
from headwater.raft.messages import Message

GROUP_BYTES: Final = 16
"""The length of the identity of a group."""

HEARTBEAT: Final = b"\x00"

FRAME_BYTES_MAX: Final = 256 * 1024
"""Messages beyond this many bytes go into another frame. One larger message travels alone. A frame
is read as a whole, so on a slow link the messages of a small one are heard earlier."""

_MESSAGES: Final = b"\x01"
_HEAD: Final = Struct(f"<{GROUP_BYTES}sI")


class MalformedFrame(PeerError):
    """Bytes that are no frame of a consensus connection."""


def encode_messages(messages: Iterable[tuple[bytes, Message]]) -> Iterator[bytes]:
    """Frames with the messages of groups, in their order."""
    parts, size = [_MESSAGES], 0
    for group, message in messages:
        data = encode(message)
        if size and size + len(data) > FRAME_BYTES_MAX:
            yield b"".join(parts)
            parts, size = [_MESSAGES], 0
        parts += (_HEAD.pack(group, len(data)), data)
        size += _HEAD.size + len(data)
    if size:
        yield b"".join(parts)


def decode_frame(frame: bytes, sender: str, to: str) -> Iterator[tuple[bytes, Message]]:
    """The messages of a frame with their groups, none for a heartbeat. Raises PeerError."""
    kind = frame[:1]
    if kind == HEARTBEAT:
        if len(frame) > 1:
            raise MalformedFrame("a heartbeat has bytes after its end")
        return
    if kind != _MESSAGES:
        raise MalformedFrame("a frame of the consensus connection has an unknown kind")
    at, end = 1, len(frame)
    while at < end:
        begin = at + _HEAD.size
        if begin > end:
            raise MalformedFrame("a frame ends within the head of a message")
        group, size = _HEAD.unpack_from(frame, at)
        at = begin + size
        if at > end:
            raise MalformedFrame("a frame ends within a message")
        yield group, decode(frame[begin:at], sender, to)


class Links(Protocol):
    """The connections to other servers, by their names."""

    def send_consensus(self, peer: str, payload: bytes) -> None:
        """Send a payload on the consensus connection, if it is open."""
        ...

    def send_catch_up(self, peer: str, payload: bytes) -> None:
        """Send a payload on the connection for messages and catch-up, if it is open."""
        ...

    def welcome(self, peer: str) -> None:
        """Let clients and other servers know of a server, whose greeting was in order."""
        ...

    def refuse(self, peer: str, reason: str) -> None:
        """Close the connections to a server soon, and refuse others of it while it runs."""
        ...

    def disconnect(self, peer: str, reason: str) -> None:
        """Close the connections to a server. It may connect again."""
        ...
