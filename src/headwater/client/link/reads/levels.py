"""The levels of reads, and the end of a stream as a read of each level sees it.

WEAK           the end of the server that answers, which may be behind
SESSION        an end that is not before what this session has read or written
LEADER         the end that STREAM.INFO tells, as nats-server has it
LINEARIZABLE   an end behind every message that was acknowledged before the read began

STREAM.INFO alone serves the leader level only: a leader that has been deposed and does not know it
yet tells an end that is too early. The other levels ask for the end by a read of their own level.
It asks for a sequence that no stream has, as part of a session: no message is sent, and every reply
of a session has its mark, up to which the answering server is complete. A nats-server sends no
mark. The information that comes with an end is at least as new as the end, so that counts of
messages up to there are right; a weak end may be earlier than its information.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Final

import msgspec

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection, Reply
from headwater.client.link.errors import (
    ApiRefusedError,
    ConnectionLostError,
    LinkError,
    NoRespondersError,
    TimedOutError,
)
from headwater.client.link.outage import Outage
from headwater.client.link.reads.ranges import BehindError, IncompleteError
from headwater.wire.headers import value_of

SESSION_MARK: Final = b"Nats-Session-Sequence"
NOT_COMPLETE: Final = 412

# Behind the end of every stream, and within the 63 bits that clients use.
_NO_SEQUENCE: Final = 2**63 - 1


class ReadLevel(Enum):
    """The freshness of the answers; the words are those of docs/consistency.md."""

    WEAK = "weak"
    SESSION = "session"
    LEADER = "leader"
    LINEARIZABLE = "linearizable"


class ReadLevelError(LinkError):
    """The stream, or its server, does not answer reads of this level."""

    def __init__(self, level: ReadLevel, reason: str) -> None:
        super().__init__(f"{level.value} reads are {reason}")
        self.level = level
        self.reason = reason

    def __reduce__(self) -> tuple[type["ReadLevelError"], tuple[ReadLevel, str]]:
        # Errors cross process borders; the default would call __init__ with the message alone.
        return type(self), (self.level, self.reason)


NOT_ENABLED: Final = "not enabled for this stream"
NOT_KNOWN: Final = "not known to this server, which sends no Nats-Session-Sequence"


def check_level(info: StreamInfo, level: ReadLevel) -> None:
    """Raise ReadLevelError if the stream's settings do not offer reads of a level."""
    offered = info.config.get("read_consistency") or "default"
    if level is ReadLevel.LINEARIZABLE and offered == "default":
        raise ReadLevelError(level, NOT_ENABLED)
    is_direct = level in (ReadLevel.WEAK, ReadLevel.SESSION)
    if is_direct and offered == "default" and not info.allows_direct:
        raise ReadLevelError(level, NOT_ENABLED)


def may_pass(error: LinkError) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, ApiRefusedError):
        return error.is_passing
    passing = (ConnectionLostError, TimedOutError, NoRespondersError, IncompleteError)
    return isinstance(error, passing)


def _nothing(_: StreamInfo) -> int:
    return 0


def stream_at(
    connection: Connection,
    name: str,
    level: ReadLevel,
    at_least: Callable[[StreamInfo], int] = _nothing,
) -> StreamInfo:
    """A stream with its end as a read of `level` that begins now sees it.

    `at_least` returns the last sequence that this session has read or written, by the stream's
    information. Waits, for as long as the login is patient, for servers that are behind. Raises
    ReadLevelError, and what a connection and the API raise.
    """
    api = ApiClient(connection)
    if level is ReadLevel.LEADER:
        return api.stream_info(name)
    outage = Outage(connection.login)
    while True:
        try:
            if not connection.is_open:
                connection.reconnect()
            return _stream_now(api, name, level, at_least)
        except LinkError as error:
            if not may_pass(error):
                raise
            outage.pause(error)


def _stream_now(
    api: ApiClient, name: str, level: ReadLevel, at_least: Callable[[StreamInfo], int]
) -> StreamInfo:
    info = api.stream_info(name)
    check_level(info, level)
    known = at_least(info) if level is ReadLevel.SESSION else 0
    mark = _mark_of(api.connection, name, level, known)
    if mark is None and level is ReadLevel.WEAK:
        return info
    if mark is None:
        raise ReadLevelError(level, NOT_KNOWN)
    if level is ReadLevel.WEAK:
        return replace(info, end_seq=min(mark, info.last_seq))
    if mark < known:
        raise BehindError(name, known)
    if info.last_seq < mark:
        info = api.stream_info(name)
    if info.last_seq < mark:
        raise IncompleteError(f"the leader of stream {name} tells an end before sequence {mark}")
    return replace(info, end_seq=mark)


def _mark_of(connection: Connection, name: str, level: ReadLevel, known: int) -> int | None:
    """The sequence up to which a server that answers is complete; None if it sends no mark."""
    call = "DIRECT_LEADER" if level is ReadLevel.LINEARIZABLE else "DIRECT"
    subject = f"{connection.login.api}{call}.GET.{name}"
    body = msgspec.json.encode({"seq": _NO_SEQUENCE, "min_last_seq": max(known, 1)})
    try:
        reply = connection.request(subject, body)
    except NoRespondersError:
        if level is not ReadLevel.LINEARIZABLE:
            raise
        raise NoRespondersError(f"no server is sure to lead stream {name} now") from None
    return mark_in(reply)


def mark_in(reply: Reply) -> int | None:
    """The session's mark in a reply; None if it has none."""
    value = value_of(reply.header, SESSION_MARK)
    return int(value) if value is not None and value.isdigit() else None
