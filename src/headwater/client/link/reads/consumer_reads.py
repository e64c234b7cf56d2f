"""Reading a range through an ephemeral pull consumer: the fastest way, visible on the server.

The consumer acknowledges nothing, lives in memory and is deleted when the read ends, however it
ends; if it cannot be deleted, the server forgets it after `INACTIVE_NS`. One pull is under way at
any time: its size is chosen so that neither client nor server hold more than some megabytes.

A pull never waits for messages that are not there, so the end of a range whose last messages are
gone or do not match is found without a time-out. A read ends only when a consumer that has just
been created counts no pending message: its count is fresh, an older consumer's is kept up to date.
If messages are replaced all the time, nats-server loses count between the two requests, and ends
the first pull of a consumer without a message though messages are pending.

Sequence, time and what is pending are in the reply subject of every message,

    $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<time>.<pending>

with the domain and the account before the stream on servers that have several, and are read in
bulk: the part before the sequence is the same in all of them.
"""

import secrets
from collections.abc import Generator
from contextlib import closing
from typing import Final, final

import msgspec

from headwater.client.api.answers import StreamInfo
from headwater.client.api.requests import Document, consumer_create, message_next
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection, status_of
from headwater.client.link.errors import LinkError, TimedOutError
from headwater.client.link.reads.counts import inactive_ns
from headwater.client.link.reads.patterns import Patterns
from headwater.client.link.reads.ranges import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    Columns,
    Gathering,
    IncompleteError,
    SequenceRange,
)
from headwater.client.link.reads.temporary_consumers import temporary_consumer
from headwater.wire.frames import publish_frame
from headwater.wire.headers import VERSION
from headwater.wire.server_decoder import Deliveries

INACTIVE_NS: Final = 30_000_000_000
NAME_PREFIX: Final = "headwater_read_"

# The size of messages is not known before the first pull.
FIRST_PULL_ROWS: Final = 500
# A pull whose messages are as large as the largest so far stays below this; if it would not, the
# server is told to count bytes, which costs it more.
UNCOUNTED_BYTES_MAX: Final = 16 << 20
# The next pull is asked for when this part of the one before is on its way. Servers share messages
# out among pulls that wait at the same time, one by one, which costs more: so it is a small part.
AHEAD_PART: Final = 16
# Statuses of earlier pulls come no more.
PULLS_REMEMBERED: Final = 8
# So often a new consumer is made where one has counted messages and sent none; each time is one in
# some ten if keys are replaced as fast as a server can.
LOOKS_IN_VAIN_MAX: Final = 16
# The bytes of a message beside its payload, roughly: subject, reply and the line they are in.
OVERHEAD_BYTES: Final = 128
# With headers only: payloads of up to this size are read and dropped, which is faster.
PAYLOAD_BYTES_READ: Final = 2048
# Of a range of which few messages match more is asked for than is likely to be left in it.
MARGIN: Final = 1.25
MARGIN_ROWS: Final = 32

_NOT_FOUND: Final = 404
_TIMEOUT: Final = 408
_REQUESTS_PENDING: Final = b"Requests Pending"
_CONFLICT: Final = 409
_TOO_LARGE: Final = b"Message Size Exceeds MaxBytes"
_COMPLETED: Final = b"Batch Completed"
_SIZE_LINE: Final = b"\r\nNats-Msg-Size: "
_BLOCK_END: Final = b"\r\n\r\n"
_EMPTY_BLOCK: Final = b"NATS/1.0\r\n\r\n"

# The tokens behind the delivery count: sequence, consumer sequence, time, pending.
_NUMBERS: Final = 4
# The index of the first of them, without a domain and an account before the stream and with them.
_SHORT_BEGIN: Final = 5
_LONG_BEGIN: Final = 7
_LONG_TOKENS: Final = 11
_ints: Final = msgspec.json.Decoder(list[int])


@final
class ConsumerReader:
    """Reads ranges of one stream; each `read` makes and deletes consumers of its own."""

    def __init__(
        self, connection: Connection, info: StreamInfo, patterns: Patterns, headers_only: bool
    ) -> None:
        self._connection = connection
        self._stream = info.name
        self._inactive_ns = inactive_ns(info, INACTIVE_NS)
        self._patterns = patterns
        self._is_matched_here = patterns.overlap
        self._headers_only = headers_only
        # The server looks at each message by itself if it is to leave the payload out.
        mean_bytes = info.bytes / max(info.messages, 1)
        self._is_cut_by_server = headers_only and mean_bytes > PAYLOAD_BYTES_READ
        # Consumers that could not be deleted when their connection was lost.
        self._left: list[str] = []

    def read(self, wanted: SequenceRange, last_sequence: int) -> Generator[Columns, None, None]:
        """The messages of the range, of a stream that has been seen to end at `last_sequence`.

        Raises ApiRefusedError if the stream takes no such consumer, and IncompleteError.
        """
        rest = wanted
        in_vain = 0
        while rest.first <= rest.last:
            before = rest.first
            pulls = _Pulls(self._connection, self._stream, rest)
            with closing(self._drawn(pulls, last_sequence)) as drawn:
                for columns in drawn:
                    if self._is_matched_here:
                        columns = columns.picked(self._patterns.places(columns.subjects))
                    if self._headers_only:
                        self._leave_headers(columns)
                    if len(columns):
                        yield columns
            rest = pulls.rest
            if rest.first != before:
                in_vain = 0
            elif not pulls.pending:
                return
            else:
                in_vain += 1
                if in_vain == LOOKS_IN_VAIN_MAX:
                    raise IncompleteError(
                        f"{pulls.pending} messages are pending from sequence {before} on, and none"
                        " is sent"
                    )

    def _drawn(self, pulls: "_Pulls", last_sequence: int) -> Generator[Columns, None, None]:
        """The messages of one consumer, until it has no more."""
        api = ApiClient(self._connection)
        self._delete_left(api)
        sid = pulls.subscribe()
        self._left.append(pulls.name)
        try:
            config = self._config(pulls.name, pulls.rest.first)
            created = api.call(consumer_create(self._stream, config))
            pulls.pending = int(created["num_pending"])
            if pulls.pending:
                sequences = max(last_sequence - pulls.rest.first + 1, 1)
                yield from pulls.read(_PullSize(min(pulls.pending / sequences, 1.0)))
        finally:
            self._leave(api, sid)

    def _config(self, name: str, first: int) -> Document:
        filters = () if self._is_matched_here else self._patterns.distinct
        config = temporary_consumer(name, first, self._inactive_ns, filters)
        return config | {"headers_only": True} if self._is_cut_by_server else config

    def _leave_headers(self, columns: Columns) -> None:
        """Leave the headers alone, as they are stored, and the sizes of the payloads."""
        if self._is_cut_by_server:
            parts = [header.rpartition(_SIZE_LINE) for header in columns.headers]
            columns.headers = [
                block + _BLOCK_END if block != VERSION else b"" for block, _, _ in parts
            ]
            columns.payload_bytes = [int(size.partition(b"\r")[0] or 0) for _, _, size in parts]
        else:
            columns.payload_bytes = [*map(len, columns.payloads)]
        columns.payloads = [b""] * len(columns)

    def _leave(self, api: ApiClient, sid: bytes) -> None:
        """Delete the consumer and drop its deliveries, unless the connection is lost."""
        if not self._connection.is_open:
            return
        try:
            self._connection.unsubscribe(sid)
            self._delete_left(api)
            while len(self._connection.receive(0.0)):
                # Deliveries that were under way when the read ended: no caller waits for them.
                pass
        except LinkError:
            # The next attempt deletes the consumer, or the server does after INACTIVE_NS.
            pass

    def _delete_left(self, api: ApiClient) -> None:
        while self._left:
            api.delete_consumer(self._stream, self._left[-1])
            self._left.pop()


@final
class _PullSize:
    """The size of the next pull, by the messages that have come so far."""

    __slots__ = ("_density", "_largest_bytes", "_mean_bytes")

    def __init__(self, density: float) -> None:
        # The part of the sequences that has a message which matches.
        self._density = density
        self._largest_bytes = 0
        self._mean_bytes = 0.0

    def next(self, left: int, owed: int) -> tuple[int, int]:
        """The messages of the next pull, and its bytes at most (0: not counted).

        `left` sequences of the range are to come, of which `owed` have been asked for.

        A server that counts bytes looks at each message by itself, so this is asked of it only
        while the size of messages is not known, or if a pull could be too large.
        """
        if not self._largest_bytes:
            return min(left, FIRST_PULL_ROWS), CHUNK_BYTES
        likely = int(left * self._density * MARGIN) + MARGIN_ROWS
        rows = min(left - owed, likely - owed, CHUNK_ROWS, int(CHUNK_BYTES / self._mean_bytes) + 1)
        is_bounded = self._largest_bytes * rows <= UNCOUNTED_BYTES_MAX
        return rows, 0 if is_bounded else CHUNK_BYTES

    def learn(self, columns: Columns, sequences: int) -> None:
        """Note the sizes of messages that were found in a number of sequences of the stream."""
        sizes = [*map(len, columns.payloads)]
        self._largest_bytes = max(max(sizes) + OVERHEAD_BYTES, self._largest_bytes)
        self._mean_bytes = sum(sizes) / len(sizes) + OVERHEAD_BYTES
        self._density = min(len(sizes) / max(sequences, 1), 1.0)


@final
class _Pulls:
    """One pull after the other from one consumer; `rest` is what has not been read yet.

    The next pull is asked for while the end of the one before is still on its way, so that the
    server has something to do while we decode. Not where bytes are counted: such a pull ends when
    its status says so.
    """

    def __init__(self, connection: Connection, stream: str, wanted: SequenceRange) -> None:
        self.name = NAME_PREFIX + secrets.token_hex(8)
        self.rest = wanted
        # The number of messages that the consumer had to deliver when it was made.
        self.pending = 0
        self._connection = connection
        self._subject = (connection.login.api + message_next(stream, self.name).operation).encode()
        self._inbox = connection.new_inbox()
        self._sid = b""
        # Each pull has a reply subject of its own: the status of one that is over is not news.
        self._asked = 0
        # The number of messages that the latest pulls have asked for, by reply subject.
        self._rows: dict[bytes, int] = {}
        self._last_rows = 0
        # The messages that were asked for and have not come.
        self._owed = 0
        # Whether nothing may be asked before that is here: it may be less, or the server is busy.
        self._is_alone = False
        # The consumer's own count: a hole in it is a message that was lost on its way to us.
        self._delivered = 0

    def subscribe(self) -> bytes:
        """Be ready for what the consumer sends."""
        self._sid = self._connection.subscribe(f"{self._inbox}.*")
        return self._sid

    def read(self, size: _PullSize) -> Generator[Columns, None, None]:
        """Chunks until the range or the consumer's messages end. Raises IncompleteError."""
        wanted = self.rest
        gathering = Gathering()
        is_over = False
        while self.rest.first <= wanted.last and not is_over:
            self._ask_ahead(size)
            arrived = self._received()
            arrived, statuses = self._without_statuses(arrived)
            if len(arrived):
                columns = self._columns(arrived)
                size.learn(columns, columns.sequences[-1] - self.rest.first + 1)
                self.rest = wanted.starting_at(columns.sequences[-1] + 1)
                gathering.add(columns.between(wanted))
            for reply, header in statuses:
                is_over = self._is_ended_by(reply, header) or is_over
            if gathering.is_full:
                yield gathering.drain()
        if len(gathering):
            yield gathering.drain()

    def _ask_ahead(self, size: _PullSize) -> None:
        """Ask for more if little is on its way."""
        if self._owed and (self._is_alone or self._owed > self._last_rows // AHEAD_PART):
            return
        left = self.rest.last - self.rest.first + 1
        if self.rest.is_open:
            # Messages that have moved behind the range come with the same pull.
            left += FIRST_PULL_ROWS
        rows, bytes_max = size.next(left, self._owed)
        if rows > 0 and not (self._owed and bytes_max):
            self._ask(rows, bytes_max)

    def _ask(self, rows: int, bytes_max: int) -> None:
        self._asked += 1
        reply = b"%b.%d" % (self._inbox.encode(), self._asked)
        if len(self._rows) == PULLS_REMEMBERED:
            del self._rows[next(iter(self._rows))]
        self._rows[reply] = self._last_rows = rows
        self._owed += rows
        self._is_alone = bytes_max > 0
        limit = b',"max_bytes":%d' % bytes_max if bytes_max else b""
        body = b'{"batch":%d%b,"no_wait":true}' % (rows, limit)
        self._connection.send(publish_frame(self._subject, reply, b"", body))

    def _received(self) -> Deliveries:
        wait_s = self._connection.login.request_timeout_s
        arrived = self._connection.receive(wait_s)
        if not len(arrived):
            # The next request would wait just as long.
            self._connection.close()
            raise TimedOutError(f"a pull from the server brought nothing within {wait_s:g} s")
        return arrived

    def _is_ended_by(self, reply: bytes, header: bytes) -> bool:
        """Whether a status says that the consumer has no more messages. Raises IncompleteError."""
        rows = self._rows.pop(reply, 0)
        status = status_of(header)
        if status == _NOT_FOUND:
            return True
        if status == _TIMEOUT and _REQUESTS_PENDING in header:
            # Less is left than the pull before has asked for, so this one was not needed.
            self._owed -= rows
            self._is_alone = True
        elif status == _CONFLICT and (_COMPLETED in header or _TOO_LARGE in header):
            # Only pulls whose bytes are counted end so, and they are alone: if all that was asked
            # for has come, the status is late and says nothing about the pull after it.
            if self._is_alone and rows == self._last_rows and self._owed:
                is_stuck = self._owed == rows
                self._owed = 0
                if is_stuck:
                    # One message is larger than what a pull may bring: it comes alone.
                    self._ask(1, 0)
        else:
            text = header.split(b"\r\n")[0].decode(errors="backslashreplace")
            raise IncompleteError(f"the server ended a read with {text}")
        return False

    def _without_statuses(
        self, arrived: Deliveries
    ) -> tuple[Deliveries, list[tuple[bytes, bytes]]]:
        """The messages of the stream, and the statuses of open pulls."""
        if b"" not in arrived.replies and arrived.sids.count(self._sid) == len(arrived):
            return arrived, []
        statuses = []
        keep = []
        for at, (sid, subject, to) in enumerate(
            zip(arrived.sids, arrived.subjects, arrived.replies, strict=True)
        ):
            if sid == self._sid and to:
                keep.append(at)
            elif sid == self._sid and subject in self._rows:
                statuses.append((subject, arrived.headers[at]))
        return arrived.picked(keep), statuses

    def _columns(self, arrived: Deliveries) -> Columns:
        numbers = reply_numbers(arrived.replies)
        expected = self._delivered + len(arrived)
        if numbers[1] != self._delivered + 1 or numbers[-3] != expected:
            raise IncompleteError("messages of a read were lost on their way")
        self._delivered = expected
        self._owed -= len(arrived)
        headers = arrived.headers
        if _EMPTY_BLOCK in headers:
            headers = [b"" if header == _EMPTY_BLOCK else header for header in headers]
        return Columns(arrived.subjects, numbers[0::4], numbers[2::4], headers, arrived.payloads)


def reply_numbers(replies: list[bytes]) -> list[int]:
    """Sequence, consumer sequence, time and pending of each reply subject of one consumer.

    All of them, one after the other. Raises IncompleteError.
    """
    tokens = replies[0].split(b".")
    begin = _LONG_BEGIN if len(tokens) >= _LONG_TOKENS else _SHORT_BEGIN
    prefix = b".".join(tokens[:begin]) + b"."
    if len(tokens) > begin + _NUMBERS:
        # Something follows the numbers that need not be one.
        replies = [b".".join(reply.split(b".")[: begin + _NUMBERS]) for reply in replies]
    joined = b",".join(replies).replace(prefix, b"").replace(b".", b",")
    try:
        numbers = _ints.decode(b"[%b]" % joined)
    except msgspec.DecodeError:
        numbers = []
    if len(numbers) != _NUMBERS * len(replies):
        raise IncompleteError(f"the server sent a reply subject of another form: {replies[0]!r}")
    return numbers
