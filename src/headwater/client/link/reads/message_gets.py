"""Reading a range message by message through the API, for streams that allow no faster way.

Requests for consecutive sequences are under way together, as many as fit in some megabytes if all
messages are as large as they may be. After a gap of many sequences the reader asks the leader for
the next message that matches, so that a long gap costs one request.

The answers are JSON, in which a subject has to be UTF-8. Servers put U+FFFD in place of other
bytes, so that this reader yields such a subject changed, and matches it as changed; the other ways
of reading yield it as it is stored.
"""

from collections.abc import Generator
from typing import Final, final

import msgspec

from headwater.client.api.answers import (
    MESSAGE_NOT_FOUND,
    ApiRefusal,
    RawMessage,
    StreamInfo,
)
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import NO_RESPONDERS, Connection, Reply
from headwater.client.link.errors import ApiRefusedError, LinkError, NoRespondersError
from headwater.client.link.pipelined import ask_all
from headwater.client.link.reads.patterns import ALL, Patterns
from headwater.client.link.reads.ranges import Columns, Gathering, SequenceRange
from headwater.go.times import parse_time

AT_A_TIME_MIN: Final = 2
AT_A_TIME_MAX: Final = 256
AT_A_TIME_BYTES: Final = 16 << 20
MESSAGE_BYTES_MAX: Final = 1 << 20
"""The size that servers allow if they do not say another."""

_EMPTY_BLOCK: Final = b"NATS/1.0\r\n\r\n"


class _Answer(msgspec.Struct):
    message: RawMessage | None = None
    error: ApiRefusal | None = None


_decode: Final = msgspec.json.Decoder(_Answer).decode


@final
class MessageGetReader:
    """Reads ranges of one stream."""

    def __init__(
        self, connection: Connection, info: StreamInfo, patterns: Patterns, headers_only: bool
    ) -> None:
        self._connection = connection
        self._stream = info.name
        self._patterns = patterns
        self._headers_only = headers_only
        self._subject = f"{connection.login.api}STREAM.MSG.GET.{info.name}"
        bytes_max = int(info.config.get("max_msg_size") or -1)
        if bytes_max <= 0:
            bytes_max = int(connection.info.get("max_payload") or MESSAGE_BYTES_MAX)
        at_a_time = AT_A_TIME_BYTES // bytes_max
        self._at_a_time = min(max(at_a_time, AT_A_TIME_MIN), AT_A_TIME_MAX)
        self._pattern = patterns.distinct[0] if len(patterns.distinct) == 1 else ALL

    def read(self, wanted: SequenceRange, last_sequence: int) -> Generator[Columns, None, None]:
        """The messages of the range."""
        first = wanted.first
        gathering = Gathering()
        while first <= wanted.last:
            end = min(first + self._at_a_time - 1, wanted.last)
            found = self._get_all(range(first, end + 1))
            columns = self._columns(found)
            gathering.add(columns.picked(self._patterns.places(columns.subjects)))
            if gathering.is_full:
                yield gathering.drain()
            first = end + 1
            if len(found) < self._at_a_time // 2 and first <= wanted.last:
                first = self._next(first) or wanted.last + 1
        if wanted.is_open and not len(gathering):
            gathering.add(self._next_match(max(first, wanted.last + 1)))
        if len(gathering):
            yield gathering.drain()

    def _next(self, first: int) -> int | None:
        """The first sequence from `first` on whose message matches."""
        api = ApiClient(self._connection)
        request = {"seq": first, "next_by_subj": self._pattern}
        found = api.message(self._stream, request)
        return None if found is None else found.sequence

    def _next_match(self, first: int) -> Columns:
        """The first message from `first` on that matches; empty columns if no message does."""
        while (sequence := self._next(first)) is not None:
            columns = self._columns(self._get_all(range(sequence, sequence + 1)))
            found = columns.picked(self._patterns.places(columns.subjects))
            if len(found):
                return found
            # It does not match, or it was replaced since it was found.
            first = sequence + 1 if len(columns) else sequence
        return Columns.empty()

    def _get_all(self, sequences: range) -> list[RawMessage]:
        """The messages of the sequences that exist, in order."""
        requests = [(self._subject, b'{"seq":%d}' % each) for each in sequences]
        found: list[RawMessage] = []
        for reply in ask_all(self._connection, requests):
            found += self._read(reply)
        return found

    def _read(self, reply: Reply) -> list[RawMessage]:
        """The message of an answer; an empty list if the stream has no such sequence."""
        if reply.status == NO_RESPONDERS and not reply.payload:
            raise NoRespondersError("the server has no JetStream for this account")
        try:
            answer = _decode(reply.payload)
        except msgspec.DecodeError as error:
            raise LinkError(f"{self._subject} was answered in another form: {error}") from error
        refusal = answer.error
        if refusal is not None and refusal.err_code != MESSAGE_NOT_FOUND:
            raise ApiRefusedError.of(refusal)
        return [] if answer.message is None else [answer.message]

    def _columns(self, found: list[RawMessage]) -> Columns:
        return Columns(
            [message.subject.encode() for message in found],
            [message.seq for message in found],
            [parse_time(message.time) for message in found],
            [b"" if message.hdrs == _EMPTY_BLOCK else message.hdrs for message in found],
            [b"" if self._headers_only else message.data for message in found],
        )
