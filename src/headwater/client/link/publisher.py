"""Publishes messages to a stream as fast as the server takes them, and checks every ack.

Messages come as parallel lists and go out in flights: some hundred messages joined to one write. A
bounded number of messages and bytes is under way; while one flight waits for its acks the next ones
are built. The messages of a flight share one reply subject, so acks are counted rather than told
apart, and a server that remembers control lines reads most of them but once.

If an ack of a flight is an error, it does not say of which message: the publisher raises
SendApartError, and from then on gives every message a reply subject of its own. Messages in doubt
are sent again, so that the refused one is named with the reason; the server knows the others by
their ids. `numbered` gives reply subjects of their own from the beginning, for messages that may
not be sent twice. In a numbered flight the messages that were not refused are stored;
`take_refused` returns the others, if all of them were refused for their content, and a caller that
can set them aside may go on.

With `atomic` a flight is an atomic batch: stored wholly or not at all, with one ack. A refused
batch raises SendApartError too, and no more batches are made.

A lost connection, a silent server or one that cannot serve the stream right now raises LinkError,
and `take_unacknowledged` returns the messages in doubt. The caller, who knows their age, decides
whether to send them again.
"""

import secrets
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import msgspec

from headwater.base.columns import MessageColumns
from headwater.client.api.answers import ApiRefusal
from headwater.client.link.connection import NO_RESPONDERS, Connection, status_of
from headwater.client.link.errors import ApiRefusedError, LinkError, TimedOutError
from headwater.wire.frames import publish_frame, publish_frames_with_headers
from headwater.wire.server_decoder import Deliveries

IN_FLIGHT_MAX: Final = 8192
IN_FLIGHT_BYTES_MAX: Final = 8 << 20
# A flight is large enough that a Python call per flight costs nothing, and small enough that a
# server works on one while the next is built. No atomic batch is larger in nats-server either.
FLIGHT_MESSAGES_MAX: Final = 1000
FLIGHT_BYTES_MAX: Final = 1 << 20
MAX_PAYLOAD_BYTES: Final = 1 << 20
# The bytes that an atomic batch adds to the headers of a message, its version line included.
_BATCH_LINES_BYTES_MAX: Final = 128

# The subjects of all entries of buckets begin with this.
_ENTRY: Final = b"$KV."

# Refusals for the content of a message: a bad request, or a rollup that is not allowed.
_BAD_REQUEST: Final = 400
_ROLLUP_FAILED: Final = 10111
# Answers that may be others later: no leader, no quorum in time, still starting. After some of them
# a message may be stored, as after no answer.
_TEMPORARY: Final = frozenset({10008, 10009, 10076, 10163, 10901})


@final
class Messages(MessageColumns):
    """Messages to publish, as parallel lists. `headers` are whole blocks, empty for none.

    `ids` are what the caller knows messages by, `rows` what a person does.
    """

    __slots__ = ("headers", "ids", "rows")

    COLUMNS = ("subjects", "headers", "payloads", "ids", "rows")

    def __init__(
        self,
        subjects: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
        ids: list[bytes],
        rows: Sequence[int],
    ) -> None:
        self.subjects = subjects
        self.headers = headers
        self.payloads = payloads
        self.ids = ids
        self.rows = rows

    def byte_count(self) -> int:
        """The bytes of headers and payloads."""
        return sum(map(len, self.headers)) + sum(map(len, self.payloads))

    @classmethod
    def none(cls) -> "Messages":
        """No messages."""
        return cls([], [], [], [], [])

    def extend(self, others: "Messages") -> None:
        """Add the messages of others behind these."""
        self.rows = [*self.rows]
        super().extend(others)


class MessageRefusedError(LinkError):
    """The server will not take a message, now or later.

    `is_its_fault`: for its content; otherwise the stream takes no message, because it is full.
    """

    def __init__(self, row: int, subject: str, reason: str, is_its_fault: bool = False) -> None:
        super().__init__(f"row {row} (subject {subject}) was refused: {reason}")
        self.row = row
        self.subject = subject
        self.reason = reason
        self.is_its_fault = is_its_fault

    def __reduce__(self) -> tuple[type["MessageRefusedError"], tuple[int, str, str, bool]]:
        return type(self), (self.row, self.subject, self.reason, self.is_its_fault)


class NotServedError(LinkError):
    """The stream has no server that can take messages right now; it may have one soon."""


class SendApartError(LinkError):
    """A flight was refused, wholly or in part: messages sent again have an ack each."""


class _Ack(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: ApiRefusal | None = None


_decode_ack: Final = msgspec.json.Decoder(_Ack).decode


@dataclass(slots=True)
class _Flight:
    """Messages under way. `waits_for` counts the acks that are still to come."""

    messages: Messages
    byte_count: int
    # The highest sequence that was known when it was sent: none of its own is lower.
    floor: int
    waits_for: int
    is_atomic: bool = False
    is_numbered: bool = False
    # Acks that are errors, or come from another stream: by place in the flight if numbered, with
    # the reason, and whether it is the message's fault.
    refusals: list[tuple[int, str, bool]] | None = None


@final
class Publisher:
    """Publishes to one stream over one connection. `rows` of messages number them in errors."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        *,
        in_flight_max: int = IN_FLIGHT_MAX,
        atomic: bool = False,
        numbered: bool = False,
    ) -> None:
        self._connection = connection
        self._stream = stream
        # The beginning of every good ack of this stream; msgspec quotes the name as JSON does.
        self._good_ack = b'{"stream":%b,"seq":' % msgspec.json.encode(stream)
        self._in_flight_max = in_flight_max
        self._is_atomic = atomic
        self._is_numbered = numbered
        self._flights: dict[bytes, _Flight] = {}
        self._count = 0
        self._byte_count = 0
        self._tokens = 0
        self._sid = b""
        self._inbox = b""
        self._refused: list[tuple[Messages, MessageRefusedError]] = []
        # The highest sequence in an ack, how many acks there were, and how many said "duplicate".
        self.last_sequence = 0
        self.acknowledged = 0
        self.duplicates = 0

    # --- sending -------------------------------------------------------------------------------

    def publish(self, messages: Messages) -> None:
        """Send messages and wait for their acks, for callers with few messages.

        Raises MessageRefusedError and other LinkErrors.
        """
        queue = deque(self.cut(messages))
        while True:
            try:
                while queue:
                    self.make_room(queue[0])
                    self.send(queue.popleft())
                return self.finish()
            except SendApartError:
                queue.extendleft(reversed(self.cut(self.take_unacknowledged())))

    def cut(self, messages: Messages) -> list[Messages]:
        """The parts in which to send messages. Raises MessageRefusedError for one too large."""
        sizes = _sizes(messages)
        size_max = self.message_bytes_max
        if sizes and max(sizes) > size_max:
            raise next(error for _, error in self.too_large(messages))
        parts = []
        begin = 0
        # A message that has no room for the lines of a batch is a flight of its own.
        shared_max = size_max - _BATCH_LINES_BYTES_MAX if self._is_atomic else size_max
        alone = [at for at, size in enumerate(sizes) if size > shared_max]
        while begin < len(sizes):
            end = min(begin + FLIGHT_MESSAGES_MAX, begin + self._in_flight_max, len(sizes))
            if alone and begin <= alone[0] < end:
                end = alone[0] if begin < alone[0] else alone.pop(0) + 1
            while sum(sizes[begin:end]) > FLIGHT_BYTES_MAX and end - begin > 1:
                end = begin + (end - begin) // 2
            parts.append(messages.part(begin, end))
            begin = end
        return parts

    def too_large(self, messages: Messages) -> "Iterator[tuple[int, MessageRefusedError]]":
        """The indexes of messages that are too large for the server, each with its error."""
        size_max = self.message_bytes_max
        for at, size in enumerate(_sizes(messages)):
            if size > size_max:
                reason = f"{size} bytes with headers, the server takes {size_max} (max_payload)"
                yield at, _refused(messages, at, reason, is_its_fault=True)

    @property
    def message_bytes_max(self) -> int:
        """The size of the largest message, headers included."""
        return int(self._connection.info.get("max_payload", MAX_PAYLOAD_BYTES))

    def make_room(self, part: Messages) -> None:
        """Wait until this part may be under way too. Raises as `publish` does."""
        if not self._sid:
            self._inbox = self._connection.new_inbox().encode()
            self._sid = self._connection.subscribe(f"{self._inbox.decode()}.*")
        byte_count = part.byte_count()
        while self._flights and (
            self._count + len(part) > self._in_flight_max
            or self._byte_count + byte_count > IN_FLIGHT_BYTES_MAX
        ):
            self._receive_acks()

    def send(self, part: Messages) -> None:
        """Send a part for which room was made, without waiting for anything but the socket."""
        if not len(part):
            return
        self._tokens += 1
        token = b"%d" % self._tokens
        reply = b"%b.%b" % (self._inbox, token)
        is_atomic = self._is_atomic and len(part) > 1
        flight = _Flight(
            part,
            part.byte_count(),
            self.last_sequence,
            waits_for=1 if is_atomic else len(part),
            is_atomic=is_atomic,
            is_numbered=self._is_numbered,
        )
        # From here on it is in doubt, however the write ends.
        self._flights[token] = flight
        self._count += len(part)
        self._byte_count += flight.byte_count
        sent = self._on_the_wire(part)
        if is_atomic:
            frames = _atomic_frames(sent, reply)
        elif self._is_numbered:
            frames = _numbered_frames(sent, reply)
        else:
            frames = _frames(sent, reply)
        self._connection.send(frames)

    def _on_the_wire(self, part: Messages) -> Messages:
        """The messages with the subjects they are sent to: entries may go by way of a domain."""
        before = self._connection.login.entry_subject(_ENTRY.decode()).encode()
        if before == _ENTRY:
            return part
        subjects = [
            before + subject.removeprefix(_ENTRY) if subject.startswith(_ENTRY) else subject
            for subject in part.subjects
        ]
        return Messages(subjects, part.headers, part.payloads, part.ids, part.rows)

    def finish(self) -> None:
        """Wait for the acks of all that was sent. Raises as `publish` does."""
        while self._flights:
            self._receive_acks()

    def take_unacknowledged(self) -> Messages:
        """Remove and return the messages without an ack, in their order.

        For use after a LinkError: acks that come from now on are not counted.
        """
        left = Messages.none()
        for flight in self._flights.values():
            left.extend(flight.messages)
        self._flights.clear()
        self._count = self._byte_count = 0
        self._sid = b""
        return left

    def take_refused(self) -> "list[tuple[Messages, MessageRefusedError]]":
        """Remove and return the messages that were refused for their content, one by one.

        For use after a MessageRefusedError that `is_its_fault`: all others are still under way.
        """
        taken, self._refused = self._refused, []
        return taken

    @property
    def floor(self) -> int:
        """A sequence of the stream that is lower than that of every message under way."""
        return min((flight.floor for flight in self._flights.values()), default=self.last_sequence)

    # --- acks ----------------------------------------------------------------------------------

    def _receive_acks(self) -> None:
        arrived = self._connection.receive(self._connection.login.request_timeout_s)
        if not len(arrived):
            raise TimedOutError(
                f"no ack from stream {self._stream} within"
                f" {self._connection.login.request_timeout_s:g} s"
            )
        if arrived.sids.count(self._sid) != len(arrived):
            arrived = _of_subscription(arrived, self._sid)
        if len(arrived):
            self._count_acks(arrived)
        if self._refused:
            raise self._refused[0][1]

    def _count_acks(self, arrived: Deliveries) -> None:
        payloads = arrived.payloads
        acks = b"\n".join(payloads)
        if acks.count(self._good_ack) == len(payloads):
            self.duplicates += acks.count(b'"duplicate":')
            self.last_sequence = max(self.last_sequence, _decode_ack(payloads[-1]).seq)
            skipped = len(self._inbox) + 1
            for subject, count in Counter(arrived.subjects).items():
                self._count_down(subject[skipped:].partition(b"-")[0], count)
            return
        for subject, header, payload in zip(
            arrived.subjects, arrived.headers, payloads, strict=True
        ):
            self._read_ack(subject, header, payload)

    def _read_ack(self, subject: bytes, header: bytes, payload: bytes) -> None:
        """Read one ack, and note its refusal."""
        token, _, place = subject[len(self._inbox) + 1 :].partition(b"-")
        flight = self._flights.get(token)
        if flight is None:
            return
        refusal, is_its_fault = self._refusal_in(header, payload)
        if refusal:
            flight.refusals = flight.refusals or []
            flight.refusals.append((int(place or b"0"), refusal, is_its_fault))
        self._count_down(token, 1)

    def _refusal_in(self, header: bytes, payload: bytes) -> tuple[str, bool]:
        """The reason why a message was not stored, empty if it was; and if it is its fault."""
        if status_of(header) == NO_RESPONDERS:
            raise NotServedError(
                f"no stream takes these subjects: is {self._stream} there and are they its own?"
            )
        try:
            ack = _decode_ack(payload)
        except msgspec.DecodeError:
            return "the server's answer is not an ack", False
        if ack.error is not None:
            if ack.error.err_code in _TEMPORARY:
                raise NotServedError(f"stream {self._stream}: {ack.error.description}")
            refusal = ApiRefusedError.of(ack.error)
            is_its_fault = refusal.code == _BAD_REQUEST or refusal.err_code == _ROLLUP_FAILED
            return str(refusal), is_its_fault
        if ack.stream != self._stream:
            return f"stream {ack.stream} has stored it, not {self._stream}", False
        self.duplicates += ack.duplicate
        self.last_sequence = max(self.last_sequence, ack.seq)
        return "", False

    def _count_down(self, token: bytes, count: int) -> None:
        flight = self._flights.get(token)
        if flight is None:
            return
        flight.waits_for -= count
        if flight.waits_for:
            return
        if not flight.refusals:
            self._land(token)
            return
        if flight.is_numbered and not flight.is_atomic:
            self._set_refused_apart(flight.messages, sorted(flight.refusals))
            self._land(token, len(flight.refusals))
            return
        reason = min(flight.refusals)[1]
        self._is_atomic = False
        self._is_numbered = True
        raise SendApartError(f"stream {self._stream} has refused some of its messages: {reason}")

    def _set_refused_apart(
        self, messages: Messages, refusals: "list[tuple[int, str, bool]]"
    ) -> None:
        """Raises MessageRefusedError if the stream takes no other messages either."""
        for place, reason, is_its_fault in refusals:
            if not is_its_fault:
                raise _refused(messages, place, reason, is_its_fault)
        self._refused += [
            (messages.part(place, place + 1), _refused(messages, place, reason, is_its_fault))
            for place, reason, is_its_fault in refusals
        ]

    def _land(self, token: bytes, refused: int = 0) -> None:
        flight = self._flights.pop(token)
        self.acknowledged += len(flight.messages) - refused
        self._count -= len(flight.messages)
        self._byte_count -= flight.byte_count


def _refused(
    messages: Messages, place: int, reason: str, is_its_fault: bool
) -> MessageRefusedError:
    subject = messages.subjects[place].decode(errors="backslashreplace")
    return MessageRefusedError(messages.rows[place], subject, reason, is_its_fault)


def _frames(messages: Messages, reply: bytes) -> bytes:
    """All messages in one piece, with one reply subject."""
    if not all(messages.headers):
        return b"".join(
            [
                publish_frame(subject, reply, header, payload)
                for subject, header, payload in _zipped(messages)
            ]
        )
    return publish_frames_with_headers(
        messages.subjects, reply, messages.headers, messages.payloads
    )


def _numbered_frames(messages: Messages, reply: bytes) -> bytes:
    """All messages in one piece, with their place at the end of the reply subject."""
    return b"".join(
        [
            publish_frame(subject, b"%b-%d" % (reply, place), header, payload)
            for place, (subject, header, payload) in enumerate(_zipped(messages))
        ]
    )


def _atomic_frames(messages: Messages, reply: bytes) -> bytes:
    """All messages as one atomic batch; the last commits it and is the only one to be answered."""
    batch = secrets.token_hex(12).encode()
    last = len(messages) - 1
    frames = []
    for place, (subject, header, payload) in enumerate(_zipped(messages)):
        commit = b"Nats-Batch-Commit: 1\r\n" if place == last else b""
        block = b"%bNats-Batch-Id: %b\r\nNats-Batch-Sequence: %d\r\n%b\r\n" % (
            header[:-2] if header else b"NATS/1.0\r\n",
            batch,
            place + 1,
            commit,
        )
        frames.append(publish_frame(subject, reply if commit else b"", block, payload))
    return b"".join(frames)


def _sizes(messages: Messages) -> list[int]:
    """Bytes of each message, headers included."""
    return [
        len(header) + len(payload)
        for header, payload in zip(messages.headers, messages.payloads, strict=True)
    ]


def _zipped(messages: Messages) -> "zip[tuple[bytes, bytes, bytes]]":
    return zip(messages.subjects, messages.headers, messages.payloads, strict=True)


def _of_subscription(arrived: Deliveries, sid: bytes) -> Deliveries:
    """The messages of one subscription, without those of earlier ones."""
    return arrived.picked([at for at, each in enumerate(arrived.sids) if each == sid])
