"""Reading a range by batched direct gets, which change nothing on the server.

A batch is answered by messages and then a status: 204 at its end, 404 if there was nothing at all.
Any replica may answer, also one that lags: its messages are believed, its end of the stream is not.
Before a read ends short of its range, it asks the leader for the next message. A session read asks
a replica that has the whole range, and a linearizable one the leader.

Each message comes with lines behind its stored headers that say where it is from:

    Nats-Stream, Nats-Subject, Nats-Sequence, Nats-Time-Stamp, Nats-Num-Pending, Nats-Last-Sequence

and in a session a last one, Nats-Session-Sequence. The reader cuts them off, from the last line
that names a stream on: the text before it is the stored block, also if that has lines of the same
names, but for the session's, of which servers leave one. The name itself does not count: a mirror
with `mirror_direct` answers for its origin, under its own name.

Servers put their lines in place of the last two bytes of a stored block, unseen. If these bytes
were not the empty line that ends a block, the lines may not even begin as lines: the reader asks
for such a block again, by STREAM.MSG.GET. Two bytes other than CRLF behind a complete line cannot
be told from an empty line, and are read as one.
"""

from collections.abc import Generator
from functools import lru_cache
from typing import Any, Final, final

import msgspec

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import NO_RESPONDERS, Connection, status_of
from headwater.client.link.errors import LinkError, NoRespondersError, TimedOutError
from headwater.client.link.reads.levels import ReadLevel
from headwater.client.link.reads.patterns import ALL, Patterns
from headwater.client.link.reads.ranges import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    BehindError,
    Columns,
    IncompleteError,
    SequenceRange,
)
from headwater.go.times import parse_time
from headwater.wire.frames import publish_frame
from headwater.wire.headers import VERSION

_END_OF_BATCH: Final = 204
# A request of a session ends at a sequence that the answering server does not have yet.
_BEHIND: Final = 412
_NOT_FOUND: Final = 404
_STATUS_START: Final = VERSION + b" "

_CRLF: Final = b"\r\n"
_VERSION_LINE: Final = VERSION + _CRLF
# No line that the server adds behind this one can hold it: subjects have no blanks.
_MARK: Final = b"Nats-Stream: "
# Name of the stream, subject, sequence, time, pending, last sequence, and the empty line.
_LINES: Final = 7
_SUBJECT_AT: Final = len(b"Nats-Subject: ")
_SEQUENCE_AT: Final = len(b"Nats-Sequence: ")
_TIME_AT: Final = len(b"Nats-Time-Stamp: ")
_SECOND_BYTES: Final = len("2026-11-15T05:00:00")
_SECONDS_CACHED: Final = 4096


@final
class DirectReader:
    """Reads ranges of one stream."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        patterns: Patterns,
        headers_only: bool,
        level: ReadLevel = ReadLevel.WEAK,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._patterns = patterns
        self._headers_only = headers_only
        self._in_session = level is ReadLevel.SESSION
        self._lines = _LINES + self._in_session
        api = "DIRECT_LEADER.GET" if level is ReadLevel.LINEARIZABLE else "DIRECT.GET"
        self._subject = f"{connection.login.api}{api}.{stream}"
        # A request has one pattern at the most; several are matched here.
        self._is_matched_here = len(patterns.distinct) > 1
        self._pattern = patterns.distinct[0] if len(patterns.distinct) == 1 else ALL

    def read(self, wanted: SequenceRange, last_sequence: int) -> Generator[Columns, None, None]:
        """The messages of the range. Raises IncompleteError if the answering replica lags."""
        first = wanted.first
        while first <= wanted.last:
            left = CHUNK_ROWS if wanted.is_open else wanted.last - first + 1
            columns, is_at_end = self._batch(first, left, wanted.last)
            if len(columns):
                first = columns.sequences[-1] + 1
                found = columns.between(wanted)
                if self._is_matched_here:
                    found = found.picked(self._patterns.places(found.subjects))
                if len(found):
                    yield found
            if is_at_end and first <= wanted.last:
                if not self._in_session:
                    self._check_complete(first, wanted.last)
                return

    def _batch(self, first: int, left: int, last: int) -> tuple[Columns, bool]:
        """The messages that one request brings, and whether the stream has no more up to `last`."""
        request: dict[str, Any] = {
            "seq": first,
            "batch": min(left, CHUNK_ROWS),
            "max_bytes": CHUNK_BYTES,
        }
        if self._pattern != ALL:
            request["next_by_subj"] = self._pattern
        if self._in_session:
            request["min_last_seq"] = last
        inbox = self._connection.new_inbox()
        sid = self._connection.subscribe(inbox)
        try:
            body = msgspec.json.encode(request)
            self._connection.send(publish_frame(self._subject.encode(), inbox.encode(), b"", body))
            return self._answer(sid, last)
        finally:
            if self._connection.is_open:
                self._connection.unsubscribe(sid)

    def _answer(self, sid: bytes, last: int) -> tuple[Columns, bool]:
        wait_s = self._connection.login.request_timeout_s
        gathered = Columns.empty()
        while True:
            arrived = self._connection.receive(wait_s)
            if not len(arrived):
                raise TimedOutError(f"a direct get brought nothing within {wait_s:g} s")
            ours = [at for at, each in enumerate(arrived.sids) if each == sid]
            headers = [arrived.headers[at] for at in ours]
            payloads = [arrived.payloads[at] for at in ours]
            # Servers store no status, but for one in a block that is broken: that has the mark.
            ends = (
                bool(headers) and headers[-1].startswith(_STATUS_START) and _MARK not in headers[-1]
            )
            end = headers.pop() if ends else b""
            if headers:
                gathered.extend(self._columns(headers, payloads[: len(headers)]))
            if end:
                return gathered, self._is_last(end, last)

    def _is_last(self, status_block: bytes, last: int) -> bool:
        status = status_of(status_block)
        if status == _BEHIND and self._in_session:
            raise BehindError(self._stream, last)
        if status == _NOT_FOUND:
            return True
        if status == _END_OF_BATCH:
            return b"\r\nNats-Num-Pending: 0\r\n" in status_block
        if status == NO_RESPONDERS:
            raise NoRespondersError(f"nobody answers {self._subject}")
        text = status_block.split(_CRLF)[0].decode(errors="backslashreplace")
        raise LinkError(f"the server refused a direct get of stream {self._stream}: {text}")

    def _columns(self, headers: list[bytes], payloads: list[bytes]) -> Columns:
        """Messages by their header blocks, all at once."""
        parts = [header.rpartition(_MARK) for header in headers]
        lines = b"".join([part[2] for part in parts]).split(_CRLF)
        size = self._lines
        if len(lines) != size * len(headers) + 1:
            raise IncompleteError(f"a direct get was answered in another form: {headers[0]!r}")
        stored = [part[0] + _CRLF if part[0] != _VERSION_LINE else b"" for part in parts]
        columns = Columns(
            [line[_SUBJECT_AT:] for line in lines[1::size]],
            [int(line[_SEQUENCE_AT:]) for line in lines[2::size]],
            [_time_ns(line[_TIME_AT:]) for line in lines[3::size]],
            stored,
            [b""] * len(stored) if self._headers_only else payloads,
        )
        for at, part in enumerate(parts):
            if not part[0].endswith(_CRLF):
                stored[at] = self._stored_block(columns.sequences[at])
        return columns

    def _stored_block(self, sequence: int) -> bytes:
        """The header block of one message as the leader has it. Raises IncompleteError."""
        found = ApiClient(self._connection).message(self._stream, {"seq": sequence})
        if found is None:
            raise IncompleteError(
                f"sequence {sequence} of stream {self._stream} was deleted while it was read"
            )
        return found.header

    def _check_complete(self, first: int, last: int) -> None:
        """Raise IncompleteError if the leader has more messages."""
        api = ApiClient(self._connection)
        found = api.message(self._stream, {"seq": first, "next_by_subj": self._pattern})
        if found is not None and found.sequence <= last:
            raise IncompleteError(
                f"a replica of stream {self._stream} has not got sequence {found.sequence} yet"
            )


def _time_ns(text: bytes) -> int:
    """A time in UTC as Go writes it: `2026-11-15T05:00:00.12Z`."""
    fraction = text[_SECOND_BYTES + 1 : -1]
    return _second_ns(text[:_SECOND_BYTES]) + (int(fraction.ljust(9, b"0")) if fraction else 0)


@lru_cache(_SECONDS_CACHED)
def _second_ns(text: bytes) -> int:
    return parse_time(text.decode() + "Z")
