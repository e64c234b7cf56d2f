"""Snapshots on their way between servers, on the connection for messages and catch-up.

    leader                                                    follower
    OFFER   group, number ───────────────────────────────────▶ opens a sink
            group, number, what it has ◀───────────────────── WANTED
    CHUNK   group, number, position, bytes ──────────────────▶ adds the piece
            group, number, position ◀──────────────────────── GOT
    messages frame: InstallSnapshot ─────────────────────────▶ steps the message

A leader has a few pieces on their way to a follower at a time, and reads the next one when one has
arrived: neither end holds more of a large state in memory, and the connection stays free for other
messages. All transfers of a server together have a limited number of bytes on their way; a
transfer that has none goes on first when others have arrived.

A transfer that fails is forgotten by the leader; the core offers the snapshot again. A follower
keeps what has come of it and says so, and the leader sends what the follower lacks. The follower
does so as well if it has not lost its state and is merely behind.
"""

from collections import deque
from collections.abc import Callable, Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, final

from headwater.server.cluster.consensus.frames import GROUP_BYTES, MalformedFrame
from headwater.server.cluster.consensus.machine import SnapshotSink, SnapshotSource
from headwater.store.errors import StoreError

# The first byte of a payload. Frames of messages have 1.
OFFER: Final = b"\x10"
CHUNK: Final = b"\x11"
GOT: Final = b"\x12"
REFUSED: Final = b"\x13"
WANTED: Final = b"\x14"

OUTSTANDING_MAX: Final = 4
"""The pieces on their way to one follower."""

OUTSTANDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""The bytes on their way to all followers, unless `max_outstanding_catchup` says otherwise."""

_HEAD: Final = Struct(f"<{GROUP_BYTES}sQI")


class Piece(NamedTuple):
    """The head of a frame: the group, the number of the transfer, and the position of a piece."""

    group: bytes
    number: int
    position: int


def encode_piece(kind: bytes, piece: Piece, chunk: bytes = b"") -> bytes:
    """The payload for a piece, or for the answer to it."""
    return kind + _HEAD.pack(*piece) + chunk


def decode_piece(payload: bytes) -> tuple[Piece, bytes]:
    """The head of a payload, and the bytes behind it. Raises MalformedFrame."""
    try:
        return Piece(*_HEAD.unpack_from(payload, 1)), payload[1 + _HEAD.size :]
    except StructError as error:
        raise MalformedFrame("a frame ends within the head of a snapshot") from error


@final
class Sending:
    """One snapshot on its way to a follower."""

    __slots__ = ("confirmed", "is_read", "number", "sizes", "source")

    def __init__(self, number: int) -> None:
        self.number = number
        # There once the follower has said what it has.
        self.source: SnapshotSource | None = None
        # The sizes of the pieces on their way, and the position of the last one that has arrived.
        self.sizes: deque[int] = deque()
        self.confirmed = 0
        # Whether the last piece is sent.
        self.is_read = False

    @property
    def sent(self) -> int:
        """The position of the last piece that was sent."""
        return self.confirmed + len(self.sizes)

    def confirm(self, position: int) -> int:
        """Note the pieces up to a position. Returns the bytes of those that are not on their way
        any more."""
        size = 0
        while self.sizes and self.confirmed < position:
            size += self.sizes.popleft()
            self.confirmed += 1
        return size


@final
class OutgoingSnapshots:
    """The snapshots that this server sends, by group and follower.

    `open_source` is called with a group and what the follower has, `finished` with group, follower
    and index when all pieces have arrived; `failed` with group and follower when the transfer is
    given up. `bytes_max` bounds the bytes of all pieces that are on their way.
    """

    __slots__ = (
        "_bytes_max",
        "_failed",
        "_finished",
        "_next_number",
        "_open_source",
        "_send",
        "_sendings",
        "outstanding_bytes",
    )

    def __init__(
        self,
        send: Callable[[str, bytes], object],
        open_source: Callable[[bytes, bytes], SnapshotSource | None],
        finished: Callable[[bytes, str, int], object],
        failed: Callable[[bytes, str, str], object],
        bytes_max: int = OUTSTANDING_BYTES_MAX,
    ) -> None:
        self._send = send
        self._open_source = open_source
        self._finished = finished
        self._failed = failed
        self._bytes_max = bytes_max
        self._sendings: dict[tuple[bytes, str], Sending] = {}
        self._next_number = 1
        self.outstanding_bytes = 0

    def __contains__(self, key: tuple[bytes, str]) -> bool:
        return key in self._sendings

    def offer(self, group: bytes, to: str) -> bool:
        """Offer a snapshot, unless one is on its way already. Returns whether the follower has to
        answer: an offer is lost if the connection is not open yet, or the follower is not in the
        group yet, and is to be made again."""
        sending = self._sendings.get((group, to))
        if sending is None:
            sending = self._sendings[group, to] = Sending(self._next_number)
            self._next_number += 1
        if sending.source is not None:
            return False
        self._send(to, encode_piece(OFFER, Piece(group, sending.number, 0)))
        return True

    def wanted(self, to: str, piece: Piece, held: bytes) -> None:
        """Begin to send what a follower lacks that has a part of the snapshot."""
        sending = self._sendings.get((piece.group, to))
        if sending is None or sending.number != piece.number or sending.source is not None:
            return
        try:
            sending.source = self._open_source(piece.group, held)
        except StoreError as error:
            self._give_up(piece.group, to, str(error))
            return
        if sending.source is None:
            self.cancel(piece.group, to)
            return
        self._send_more(piece.group, to, sending)

    def _has_room(self, sending: Sending) -> bool:
        """Whether another piece may be on its way. One piece may be, however large it is."""
        return len(sending.sizes) < OUTSTANDING_MAX and (
            self.outstanding_bytes < self._bytes_max or not self.outstanding_bytes
        )

    def _send_more(self, group: bytes, to: str, sending: Sending) -> None:
        source = sending.source
        if source is None:
            return
        try:
            while not sending.is_read and self._has_room(sending):
                chunk = source.next_chunk()
                if chunk is None:
                    sending.is_read = True
                    break
                if not chunk:
                    return
                sending.sizes.append(len(chunk))
                self.outstanding_bytes += len(chunk)
                piece = Piece(group, sending.number, sending.sent)
                self._send(to, encode_piece(CHUNK, piece, chunk))
        except StoreError as error:
            self._give_up(group, to, str(error))
            return
        if sending.is_read and not sending.sizes:
            index = source.index
            self.cancel(group, to)
            self._finished(group, to, index)

    def resume_held(self) -> bool:
        """Go on with transfers whose state was being changed, or that had to wait for others.
        Returns whether there are some that have no piece on its way."""
        held = [
            (key, sending)
            for key, sending in self._sendings.items()
            if sending.source is not None and not sending.sizes
        ]
        for (group, to), sending in held:
            self._send_more(group, to, sending)
        return bool(held)

    def confirmed(self, to: str, piece: Piece) -> None:
        """Note that a follower has the pieces up to a position."""
        sending = self._sendings.get((piece.group, to))
        if sending is not None and sending.number == piece.number:
            is_full = self.outstanding_bytes >= self._bytes_max
            self.outstanding_bytes -= sending.confirm(piece.position)
            if is_full:
                self.resume_held()
            if self._sendings.get((piece.group, to)) is sending:
                self._send_more(piece.group, to, sending)

    def refused(self, to: str, piece: Piece, reason: str) -> None:
        """Note that a follower has given up a transfer."""
        sending = self._sendings.get((piece.group, to))
        if sending is not None and sending.number == piece.number:
            self._give_up(piece.group, to, reason)

    def _give_up(self, group: bytes, to: str, reason: str) -> None:
        self.cancel(group, to)
        self._failed(group, to, reason)

    def cancel(self, group: bytes, to: str) -> None:
        """Forget a transfer."""
        sending = self._sendings.pop((group, to), None)
        if sending is not None:
            self.outstanding_bytes -= sum(sending.sizes)
            if sending.source is not None:
                sending.source.close()

    def cancel_where(self, group: bytes | None = None, to: str | None = None) -> None:
        """Forget the transfers of a group, or to a server."""
        for key in [*self._matching(group, to)]:
            self.cancel(*key)

    def _matching(self, group: bytes | None, to: str | None) -> Iterator[tuple[bytes, str]]:
        for key in self._sendings:
            if group in (None, key[0]) and to in (None, key[1]):
                yield key


@final
class Receiving:
    """One snapshot that arrives."""

    __slots__ = ("number", "position", "sender", "sink")

    def __init__(self, sender: str, number: int, sink: SnapshotSink) -> None:
        self.sender = sender
        self.number = number
        self.sink = sink
        self.position = 0


@final
class IncomingSnapshots:
    """The snapshots that arrive, one for each group. `open_sink` is called for a new one."""

    __slots__ = ("_open_sink", "_receivings", "_send")

    def __init__(
        self,
        send: Callable[[str, bytes], object],
        open_sink: Callable[[bytes], SnapshotSink | None],
    ) -> None:
        self._send = send
        self._open_sink = open_sink
        self._receivings: dict[bytes, Receiving] = {}

    def offered(self, sender: str, piece: Piece) -> None:
        """Begin to receive a snapshot, and say what of it is there; an earlier one of the group is
        received no further."""
        self.discard(piece.group)
        try:
            sink = self._open_sink(piece.group)
        except StoreError as error:
            self._refuse(sender, piece, str(error))
            return
        if sink is not None:
            self._receivings[piece.group] = Receiving(sender, piece.number, sink)
            self._send(sender, encode_piece(WANTED, piece, sink.held))

    def received(self, sender: str, piece: Piece, chunk: bytes) -> None:
        """Take in a piece. Raises PeerError for a malformed one."""
        receiving = self._receivings.get(piece.group)
        if receiving is None or (receiving.sender, receiving.number) != (sender, piece.number):
            return
        if piece.position != receiving.position + 1:
            raise MalformedFrame("the pieces of a snapshot are not in order")
        try:
            receiving.sink.add(chunk)
        except StoreError as error:
            self.discard(piece.group)
            self._refuse(sender, piece, str(error))
            return
        receiving.position = piece.position
        self._send(sender, encode_piece(GOT, piece))

    def _refuse(self, sender: str, piece: Piece, reason: str) -> None:
        self._send(sender, encode_piece(REFUSED, piece, reason.encode()[:1_000]))

    def complete(self, group: bytes, sender: str) -> bool:
        """Whether a snapshot of a group has come from a server. It is not received any more."""
        receiving = self._receivings.get(group)
        if receiving is None or receiving.sender != sender:
            return False
        del self._receivings[group]
        return True

    def discard(self, group: bytes) -> None:
        """Receive a snapshot no further."""
        receiving = self._receivings.pop(group, None)
        if receiving is not None:
            receiving.sink.discard()

    def sender_left(self, sender: str) -> None:
        """Receive nothing more from a server that is lost."""
        for group in [group for group, each in self._receivings.items() if each.sender == sender]:
            self.discard(group)


def take_piece(
    incoming: IncomingSnapshots, outgoing: OutgoingSnapshots, peer: str, payload: bytes
) -> None:
    """Take a piece of a snapshot, or an answer to one. Raises PeerError."""
    kind = payload[:1]
    piece, rest = decode_piece(payload)
    if kind == OFFER:
        incoming.offered(peer, piece)
    elif kind == CHUNK:
        incoming.received(peer, piece, rest)
    elif kind == WANTED:
        outgoing.wanted(peer, piece, rest)
    elif kind == GOT:
        outgoing.confirmed(peer, piece)
    else:
        outgoing.refused(peer, piece, rest.decode(errors="replace"))
