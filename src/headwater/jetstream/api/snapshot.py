"""STREAM.SNAPSHOT: a stream is sent in chunks, no faster than they are acknowledged.

    reply, then   chunk 1 ─▶ (reply subject …<size>.1)        ◀─ anything published there: one
                  chunk 2 ─▶ (reply subject …<size>.2)           more chunk may be on the way
                  rest    ─▶ (no reply subject)
                  end     ─▶ empty, with a status if chunks were sent or an error occurred

`SnapshotSender` decides what to send; it knows neither the source of the bytes nor the receiver.
"""

from typing import Annotated, ClassVar, Final, NamedTuple, Protocol, final

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.go.json import OMIT_EMPTY, Int
from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import TYPE_PREFIX, Response, StreamState
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.store.log.message_log import StoreError
from headwater.subjects.grammar import has_blank_or_control, is_valid_literal
from headwater.wire.headers import status_block

CHUNK_BYTES_DEFAULT: Final = 128 * 1024
CHUNK_BYTES_MIN: Final = 1024
CHUNK_BYTES_MAX: Final = 1024 * 1024
WINDOW_BYTES_DEFAULT: Final = 8 * 1024 * 1024
WINDOW_BYTES_MIN: Final = 1024
WINDOW_BYTES_MAX: Final = 32 * 1024 * 1024
# A receiver that acknowledges nothing for this long is gone.
ACK_TIMEOUT_NS: Final = 5 * NS_PER_S
# Bytes sent before other clients have their turn.
TURN_BYTES: Final = 256 * 1024
# The limit of pieces read in one turn: with small messages they take some milliseconds.
TURN_PIECES_MAX: Final = 4

NO_FLOW: Final = "no flow response"
NO_INTEREST: Final = "no interest"
_ENDINGS: Final = {
    NO_FLOW: status_block(408, "No Flow Response"),
    NO_INTEREST: status_block(408, "No Interest"),
}
_ALL_SENT: Final = status_block(204, "")


class SnapshotRequest(msgspec.Struct, kw_only=True):
    """The body of STREAM.SNAPSHOT."""

    go_name: ClassVar[str] = "JSApiStreamSnapshotRequest"

    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: Int = 0
    window_size: Int = 0
    # The checksum of every record is checked on its way out in any case.
    jsck: bool = False


class SnapshotResponse(Response, kw_only=True):
    """The answer of STREAM.SNAPSHOT."""

    type: str = TYPE_PREFIX + "stream_snapshot_response"
    config: Annotated[StreamConfig | None, OMIT_EMPTY] = None
    state: Annotated[StreamState | None, OMIT_EMPTY] = None


def check_snapshot(request: SnapshotRequest) -> None:
    """Raises ApiError if chunks could not be sent to the deliver subject."""
    subject = request.deliver_subject
    if has_blank_or_control(subject) or not is_valid_literal(
        subject.encode(errors="surrogateescape")
    ):
        raise ApiError.of(error_codes.SNAPSHOT_DELIVER_SUBJECT_INVALID)


class Source(Protocol):
    """The source of a snapshot's bytes."""

    def read(self) -> bytes:
        """The next piece; empty after the last. Raises StoreError."""
        ...


class Outgoing(NamedTuple):
    """A message to the client that requested the snapshot."""

    reply: bytes | None
    header: bytes
    payload: bytes


@final
class SnapshotSender:
    """A snapshot under way. It has ended when `is_over`; `error` is set if it failed."""

    __slots__ = (
        "_ack_subject",
        "_buffer",
        "_chunk_bytes",
        "_deadline_ns",
        "_pieces_left",
        "_room",
        "_sent",
        "_source",
        "_window",
        "error",
        "is_over",
    )

    def __init__(
        self, request: SnapshotRequest, source: Source, ack_subject: bytes, now_ns: int
    ) -> None:
        chunk = request.chunk_size or CHUNK_BYTES_DEFAULT
        window = request.window_size or WINDOW_BYTES_DEFAULT
        chunk = min(max(chunk, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)
        window = min(max(window, WINDOW_BYTES_MIN), WINDOW_BYTES_MAX)
        self._chunk_bytes = chunk
        # The number of chunks that may be on the way, and how many more of them now.
        self._window = max(window // chunk, 1)
        self._room = self._window
        self._source = source
        self._ack_subject = ack_subject
        self._buffer = bytearray()
        # The number of pieces that may be read in this turn.
        self._pieces_left = 0
        # The number of chunks that were sent.
        self._sent = 0
        self._deadline_ns = now_ns + ACK_TIMEOUT_NS
        self.is_over = False
        self.error = ""

    @property
    def can_send(self) -> bool:
        """Whether there is something to send right now."""
        return self._room > 0 and not self.is_over

    @property
    def deadline_ns(self) -> int:
        """When the snapshot is abandoned unless a chunk is acknowledged."""
        return self._deadline_ns

    def acknowledged(self) -> None:
        """Count the acknowledgement of a chunk."""
        self._room = min(self._room + 1, self._window)

    def send(self, now_ns: int) -> list[Outgoing]:
        """The messages to send in this turn."""
        outgoing: list[Outgoing] = []
        size = 0
        self._pieces_left = TURN_PIECES_MAX
        while self.can_send and size < TURN_BYTES:
            chunk = self._next_chunk()
            if chunk is None:
                break
            self._room -= 1
            if len(chunk) == self._chunk_bytes:
                self._sent += 1
                reply = b"%b.%d.%d" % (self._ack_subject, len(chunk), self._sent)
                outgoing.append(Outgoing(reply, b"", chunk))
                self._deadline_ns = now_ns + ACK_TIMEOUT_NS
                size += len(chunk)
                continue
            if chunk:
                outgoing.append(Outgoing(None, b"", chunk))
            outgoing.append(self._end())
        return outgoing

    def _next_chunk(self) -> bytes | None:
        """A whole chunk, or the rest; None if the rest of it has to wait for the next turn."""
        buffer, wanted = self._buffer, self._chunk_bytes
        while len(buffer) < wanted and not self.error:
            if not self._pieces_left:
                return None
            self._pieces_left -= 1
            try:
                piece = self._source.read()
            except StoreError as error:
                self.error = str(error)
                break
            if not piece:
                break
            buffer += piece
        chunk = bytes(buffer[:wanted])
        del buffer[:wanted]
        return chunk

    def give_up(self, reason: str) -> Outgoing:
        """End the snapshot. Returns the last message, with the reason."""
        self.error = reason
        return self._end()

    def _end(self) -> Outgoing:
        self.is_over = True
        self._buffer.clear()
        if self.error:
            text = " ".join(self.error.split())
            header = _ENDINGS.get(self.error) or status_block(500, text)
        else:
            header = _ALL_SENT if self._sent else b""
        return Outgoing(None, header, b"")
