"""Bytes for clients: gathered during a turn of the loop, one write for each client at its end.

Bounds: many bytes of one turn for one client are written in parts, and large fan-outs are written
before the turn ends, so that `max_pending` ends a client with thousands of equal subscriptions
before its copies of a message fill the memory.
"""

from collections.abc import Callable, Sequence
from typing import Final, final

from headwater.server.core.client import Client, Subscription
from headwater.wire import frames

# More than this for one client is written in several parts, each checked against `max_pending`:
# bytes of payload, or pieces of frames, of which no other is longer than a control line.
WRITE_BYTES_MAX: Final = 8 * 1024 * 1024
WRITE_PIECES_MAX: Final = 128 * 1024
# Bytes of large fan-outs that may wait for the end of the turn: payloads, and a control line for
# each delivery. Small fan-outs are bounded by the read that brought them.
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
DELIVERY_BYTES: Final = 64
# A client with more than this part of `max_pending` to read is behind. Its buffer is looked at
# again after this time.
UNREAD_PART: Final = 4
UNREAD_LOOK_S: Final = 0.005


@final
class OutBuffers:
    """The `out` lists of all clients.

    `overflow` is called when more than `max_pending` bytes wait for a client, `plan_flush` when
    there is something to write at the end of the turn.
    """

    __slots__ = (
        "_congested_bytes",
        "_max_pending",
        "_overflow",
        "_plan_flush",
        "_waiting_bytes",
        "behind",
        "dirty",
        "unread_bytes_max",
    )

    def __init__(
        self,
        max_pending: int,
        overflow: Callable[[Client], None],
        plan_flush: Callable[[], None],
    ) -> None:
        self.max_pending = max_pending
        self._overflow = overflow
        self._plan_flush = plan_flush
        # Clients that have something to be written at the end of the turn.
        self.dirty: list[Client] = []
        # Clients that had much to read after the last write to them, and may have read it since.
        self.behind: set[Client] = set()
        # Bytes that large fan-outs let wait for the end of the turn.
        self._waiting_bytes = 0

    @property
    def max_pending(self) -> int:
        """Bytes that may wait for a client."""
        return self._max_pending

    @max_pending.setter
    def max_pending(self, max_pending: int) -> None:
        self._max_pending = max_pending
        # Derived here, because every write and every delivery of a consumer needs them: the bytes
        # from which on publishers to a client are held back, and those that a client may have to
        # read without being behind.
        self._congested_bytes = max_pending // 4 * 3
        self.unread_bytes_max = max_pending // UNREAD_PART

    def touch(self, client: Client) -> None:
        """Have a client's buffer written at the end of the turn."""
        if client.dirty:
            return
        client.dirty = True
        self.dirty.append(client)
        self._plan_flush()

    # --- messages of the server itself ---------------------------------------------------------

    def append_message(
        self, sub: Subscription, subject: bytes, header: bytes, payload: bytes
    ) -> None:
        """Append a message without a reply to an unchecked subscription."""
        target = sub.client
        if not target.dirty:
            self.touch(target)
        target.out.append(frames.message_without_reply(sub.tail, subject, header, payload))
        sub.delivered += 1
        target.out_msgs += 1
        target.out_bytes += len(header) + len(payload)

    def append_messages(
        self,
        sub: Subscription,
        subjects: Sequence[bytes],
        payloads: Sequence[bytes],
        headers: Sequence[bytes],
    ) -> None:
        """Append many messages without replies to one unchecked subscription."""
        target = sub.client
        self.touch(target)
        target.out += frames.messages_without_reply(sub.tail, subjects, payloads, headers)
        sub.delivered += len(subjects)
        target.out_msgs += len(subjects)
        target.out_bytes += sum(map(len, payloads)) + sum(map(len, headers))

    def append_stored(
        self,
        sub: Subscription,
        subjects: list[bytes],
        replies: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
    ) -> None:
        """Append messages of a stream to one unchecked subscription."""
        target, count = sub.client, len(subjects)
        if not target.dirty:
            self.touch(target)
        target.out.append(frames.stored_messages(sub.tail, subjects, replies, headers, payloads))
        sub.delivered += count
        target.out_msgs += count
        if count == 1:
            target.out_bytes += len(payloads[0]) + len(headers[0])
        else:
            target.out_bytes += sum(map(len, payloads)) + sum(map(len, headers))

    # --- writes --------------------------------------------------------------------------------

    def add_waiting(self, size: int) -> None:
        """Count bytes that a large fan-out added; too many of them are written at once."""
        self._waiting_bytes += size
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write the buffers of all clients that have something in them."""
        self._waiting_bytes = 0
        dirty = self.dirty
        if not dirty:
            return
        self.dirty = []
        done = 0
        try:
            for client in dirty:
                done += 1
                self.flush_client(client)
        finally:
            # A bug that shows at one client must not silence the rest.
            if done < len(dirty):
                self.dirty = dirty[done:] + self.dirty
                self._plan_flush()

    def flush_client(self, client: Client) -> None:
        """Write the buffer of one client."""
        client.dirty = False
        pieces = client.out
        payload_bytes = client.out_bytes - client.written_bytes
        client.written_bytes = client.out_bytes
        if payload_bytes > WRITE_BYTES_MAX or len(pieces) > WRITE_PIECES_MAX:
            client.out = []
            self._write_in_parts(client, pieces)
            return
        data = b"".join(pieces)
        pieces.clear()
        if data and not client.close_reason:
            # As `_write`, without a call.
            buffered = client.connection.write(data)
            if buffered > self.unread_bytes_max:
                self._note_unread(client, buffered)
            else:
                client.congested = False

    def _write_in_parts(self, client: Client, pieces: list[bytes]) -> None:
        part: list[bytes] = []
        size = 0
        for piece in pieces:
            part.append(piece)
            size += len(piece)
            if size > WRITE_BYTES_MAX:
                if client.close_reason:
                    return
                self._write(client, b"".join(part))
                part.clear()
                size = 0
        if part and not client.close_reason:
            self._write(client, b"".join(part))

    def _write(self, client: Client, data: bytes) -> None:
        self._note_unread(client, client.connection.write(data))

    def _note_unread(self, client: Client, buffered: int) -> None:
        """Note after a write how many bytes wait for a client, and end the client at the limit."""
        if buffered > self._max_pending:
            self._overflow(client)
            return
        client.congested = buffered > self._congested_bytes
        if buffered > self.unread_bytes_max:
            self.behind.add(client)

    def drained(self, client: Client) -> None:
        """Note that a client has read all bytes that were queued for it."""
        client.congested = False
        self.behind.discard(client)

    def forget(self, client: Client) -> None:
        """Forget a client that is gone."""
        self.behind.discard(client)

    def is_congested(self, client: Client) -> bool:
        """Whether a client reads so slowly that publishers to it are held back."""
        return client.connection.buffered_bytes() > self._congested_bytes

    def is_behind(self, client: Client) -> bool:
        """Whether a client has so much to read that it should get no more than it must."""
        if client not in self.behind:
            return False
        if client.connection.buffered_bytes() > self.unread_bytes_max:
            return True
        self.behind.discard(client)
        return False
