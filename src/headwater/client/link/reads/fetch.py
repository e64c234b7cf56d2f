"""The messages of a range of sequences, exactly: each that exists and matches, in order, once.

There are five ways to read, alike in what they yield and different in what they cost and touch:

CONSUMER        an ephemeral consumer: fastest; the stream has a consumer while it is read
DIRECT          batched direct gets, answered by any replica: nothing on the server is changed
SESSION_DIRECT  the same, answered by a replica that has the whole range: the leader is not asked
LEADER_DIRECT   the same, answered by the leader that is sure to lead: linearizable
GETS            single gets through the API, some under way at a time: always possible

A stream whose messages go when consumers have seen them is never read through a consumer.

A read that loses its connection, or a message on its way, goes on behind the last message it has
yielded, for as long as the login is patient; each yielded message is progress and ends the outage.
It ends at the last sequence the stream had when the read began, as a read of its level sees it. A
stream that was deleted and made again in the meantime is another stream: StreamReplacedError.

While a read is under way its connection is for nothing else.
"""

from collections.abc import Generator
from contextlib import closing
from enum import Enum
from typing import Final, Protocol

from headwater.client.api.answers import STREAM_NOT_FOUND, StreamInfo
from headwater.client.link.connection import Connection
from headwater.client.link.errors import (
    UNAVAILABLE,
    ApiRefusedError,
    LinkError,
    RefusedError,
)
from headwater.client.link.outage import Outage
from headwater.client.link.reads.consumer_reads import ConsumerReader
from headwater.client.link.reads.direct_reads import DirectReader
from headwater.client.link.reads.levels import (
    ReadLevel,
    ReadLevelError,
    check_level,
    may_pass,
    stream_at,
)
from headwater.client.link.reads.message_gets import MessageGetReader
from headwater.client.link.reads.patterns import Patterns
from headwater.client.link.reads.ranges import (
    Columns,
    IncompleteError,
    SequenceRange,
    StreamReplacedError,
)

__all__ = [
    "Columns",
    "IncompleteError",
    "ReadLevel",
    "ReadLevelError",
    "SequenceRange",
    "StreamReplacedError",
    "Way",
    "choose_way",
    "read_range",
]


class Way(Enum):
    """The ways to read a stream."""

    CONSUMER = "consumer"
    DIRECT = "direct"
    SESSION_DIRECT = "session direct"
    LEADER_DIRECT = "leader direct"
    GETS = "gets"


_OF_LEVEL: Final = {
    ReadLevel.WEAK: Way.DIRECT,
    ReadLevel.SESSION: Way.SESSION_DIRECT,
    ReadLevel.LINEARIZABLE: Way.LEADER_DIRECT,
}
# Of the other ways each range ends where the leader says.
_LEVEL_OF: Final = {
    Way.SESSION_DIRECT: ReadLevel.SESSION,
    Way.LEADER_DIRECT: ReadLevel.LINEARIZABLE,
}


def choose_way(
    info: StreamInfo, subjects: tuple[str, ...] = (), level: ReadLevel = ReadLevel.LEADER
) -> Way:
    """The fastest way that the stream allows and the level asks for. Raises ReadLevelError.

    A consumer and the gets are answered by the leader, direct gets are compared with what it has:
    each serves the leader level.
    """
    check_level(info, level)
    if level is not ReadLevel.LEADER:
        return _OF_LEVEL[level]
    if info.retention == "limits":
        return Way.CONSUMER
    return _without_consumer(info)


def _without_consumer(info: StreamInfo) -> Way:
    return Way.DIRECT if info.allows_direct else Way.GETS


class Reader(Protocol):
    """One way to read, until something breaks."""

    def read(self, wanted: SequenceRange, last_sequence: int) -> Generator[Columns, None, None]: ...


def read_range(
    connection: Connection,
    info: StreamInfo,
    wanted: SequenceRange,
    subjects: tuple[str, ...] = (),
    way: Way | None = None,
    *,
    headers_only: bool = False,
) -> Generator[Columns, None, None]:
    """The messages of `wanted` that exist and match one of `subjects`, if there are any of these.

    With `headers_only` every payload is empty. Raises StreamReplacedError, and what a connection
    and the API raise when trying again does not help.
    """
    way = way or choose_way(info, subjects)
    patterns = Patterns(subjects)
    reader = _reader(connection, info, way, patterns, headers_only)
    first = max(wanted.first, 1)
    outage = Outage(connection.login)
    while True:
        try:
            last_sequence = _seen(connection, info, way, wanted)
            rest = SequenceRange(first, min(wanted.last, last_sequence), wanted.is_open)
            with closing(reader.read(rest, last_sequence)) as chunks:
                for columns in chunks:
                    first = columns.sequences[-1] + 1
                    outage.end()
                    yield columns
            return
        except LinkError as error:
            if way is Way.CONSUMER and _is_about_consumers(error):
                way = _without_consumer(info)
                reader = _reader(connection, info, way, patterns, headers_only)
                continue
            if not may_pass(error):
                raise
            outage.pause(error)


def _reader(
    connection: Connection, info: StreamInfo, way: Way, patterns: Patterns, headers_only: bool
) -> Reader:
    if way is Way.CONSUMER:
        return ConsumerReader(connection, info, patterns, headers_only)
    if way is Way.GETS:
        return MessageGetReader(connection, info, patterns, headers_only)
    level = _LEVEL_OF.get(way, ReadLevel.WEAK)
    return DirectReader(connection, info.name, patterns, headers_only, level)


def _seen(connection: Connection, info: StreamInfo, way: Way, wanted: SequenceRange) -> int:
    """The last sequence of the stream as it is now. Raises StreamReplacedError."""
    if not connection.is_open:
        connection.reconnect()

    def planned_end(now: StreamInfo) -> int:
        """The end of the range, if it was in the stream when the read was planned."""
        _check_same(info, now)
        return min(wanted.last, info.end_seq)

    level = _LEVEL_OF.get(way, ReadLevel.LEADER)
    now = stream_at(connection, info.name, level, planned_end)
    _check_same(info, now)
    return now.end_seq


def _check_same(info: StreamInfo, now: StreamInfo) -> None:
    if now.created != info.created:
        raise StreamReplacedError(
            f"stream {info.name} was deleted and made again at {now.created}: what was to be read"
            " is gone; start a new query"
        )


def _is_about_consumers(error: LinkError) -> bool:
    """Whether the server would not have this consumer: not allowed, too many, or its filters."""
    return isinstance(error, RefusedError) or (
        isinstance(error, ApiRefusedError)
        and error.code != UNAVAILABLE
        and error.err_code != STREAM_NOT_FOUND
    )
