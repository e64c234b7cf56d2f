"""The number of messages in a range of a stream, and the sequence at a time.

A stream without holes has as many messages as sequences. Otherwise the server counts the messages
from a sequence on: by the `num_pending` of a consumer that has just been created, or of a direct
get if a stream must have no consumer. A range holds the difference of two such counts. Consumers
are deleted at once, so that a count leaves nothing behind.

Between two counts other clients may publish or delete. So the first count is made again after the
second: if it has not changed, no message of the range has come or gone. While messages only come,
each round gives a lower and an upper bound, and rounds are repeated until both are equal. A count
is exact, or None.
"""

import secrets
from collections.abc import Sequence
from typing import Final, Protocol, final

import msgspec

from headwater.base.errors import PeerError
from headwater.client.api.answers import StreamInfo
from headwater.client.api.requests import consumer_create, consumer_delete
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection, Reply
from headwater.client.link.pipelined import ask_all
from headwater.client.link.reads.patterns import ALL, Patterns
from headwater.client.link.reads.temporary_consumers import temporary_consumer
from headwater.go.times import format_time
from headwater.wire.headers import value_of
from headwater.wire.info import decode_object

# Each takes about a millisecond. A stream so busy that this is not enough is left uncounted.
ROUNDS_MAX: Final = 8
# A consumer is deleted at once; this is for those whose connection was lost before.
INACTIVE_NS: Final = 5_000_000_000
NAME_PREFIX: Final = "headwater_count_"

_NOT_FOUND: Final = 404
_OWN_LINES: Final = b"\r\nNats-Sequence:"
_NUM_PENDING: Final = b"Nats-Num-Pending"


def count_messages(
    connection: Connection,
    info: StreamInfo,
    first: int,
    last: int,
    subjects: tuple[str, ...] = (),
) -> int | None:
    """The number of messages from `first` to `last` that match; None if it is not known."""
    first, last = max(first, info.first_seq, 1), min(last, info.last_seq)
    if first > last or not info.messages:
        return 0
    patterns = Patterns(subjects)
    if not patterns.distinct and info.messages == info.last_seq - info.first_seq + 1:
        return last - first + 1
    counter = _counter(connection, info, patterns)
    if counter is None:
        return None
    return connection.retry(lambda: _counted(counter, first, last))


def sequence_at(connection: Connection, info: StreamInfo, time_ns: int) -> int:
    """The sequence of the first message stored at a time or later; the next one without any."""
    request = {"start_time": format_time(time_ns), "next_by_subj": ALL}
    found = ApiClient(connection).message(info.name, request)
    return info.last_seq + 1 if found is None else found.sequence


class _Counter(Protocol):
    def count_from(self, sequences: Sequence[int]) -> list[int] | None:
        """The number of messages that match from each sequence on, counted in this order."""
        ...


def _counter(connection: Connection, info: StreamInfo, patterns: Patterns) -> _Counter | None:
    """A way to count that the stream allows."""
    if info.retention == "limits":
        return None if patterns.overlap else _ByConsumers(connection, info, patterns)
    # Of several replicas each has its own count.
    is_single = int(info.config.get("num_replicas") or 1) == 1
    if info.allows_direct and is_single and len(patterns.distinct) <= 1:
        return _ByDirectGets(connection, info, patterns)
    return None


def _counted(counter: _Counter, first: int, last: int) -> int | None:
    low, high = 0, last - first + 1
    for _ in range(ROUNDS_MAX):
        counts = counter.count_from((first, last + 1, first))
        if counts is None:
            return None
        before, beyond, after = counts
        # If messages came in between, they are in `after` and perhaps in `beyond`.
        low, high = max(low, before - beyond), min(high, after - beyond)
        if low == high:
            return low
        if low > high:
            # Some have gone: what earlier rounds said does not hold any more.
            low, high = 0, last - first + 1
    return None


@final
class _ByConsumers:
    def __init__(self, connection: Connection, info: StreamInfo, patterns: Patterns) -> None:
        self._connection = connection
        self._stream = info.name
        self._inactive_ns = inactive_ns(info, INACTIVE_NS)
        self._filters = patterns.distinct

    def count_from(self, sequences: Sequence[int]) -> list[int] | None:
        counts = []
        # A server may act on requests in another order than they came: a consumer is deleted when
        # it is known to be there, together with the creation of the next one.
        deletions: list[tuple[str, bytes]] = []
        api = self._connection.login.api
        for sequence in sequences:
            name = NAME_PREFIX + secrets.token_hex(8)
            config = temporary_consumer(name, sequence, self._inactive_ns, self._filters)
            creation = consumer_create(self._stream, config)
            request = (api + creation.operation, creation.payload)
            counts.append(_pending_in(ask_all(self._connection, [request, *deletions])[0]))
            deletion = consumer_delete(self._stream, name)
            deletions = [(api + deletion.operation, deletion.payload)]
        ask_all(self._connection, deletions)
        return None if None in counts else [count for count in counts if count is not None]


def _pending_in(reply: Reply) -> int | None:
    """The count in the answer to the creation of a consumer; None if it was not created."""
    try:
        count = decode_object(reply.payload).get("num_pending")
    except PeerError:
        return None
    return count if isinstance(count, int) else None


@final
class _ByDirectGets:
    def __init__(self, connection: Connection, info: StreamInfo, patterns: Patterns) -> None:
        self._connection = connection
        self._subject = f"{connection.login.api}DIRECT.GET.{info.name}"
        self._pattern = patterns.distinct[0] if patterns.distinct else ALL

    def count_from(self, sequences: Sequence[int]) -> list[int] | None:
        counts = []
        for each in sequences:
            request = {"seq": each, "batch": 1, "next_by_subj": self._pattern}
            reply = self._connection.request(self._subject, msgspec.json.encode(request))
            # The server's own lines stand behind the stored ones, which may have the same names.
            pending = value_of(reply.header[reply.header.rfind(_OWN_LINES) :], _NUM_PENDING)
            if reply.status == _NOT_FOUND:
                counts.append(0)
            elif reply.status or pending is None:
                return None
            else:
                counts.append(int(pending) + 1)
        return counts


def inactive_ns(info: StreamInfo, wanted_ns: int) -> int:
    """The inactive threshold of a temporary consumer; the stream may allow less."""
    limits = info.config.get("consumer_limits") or {}
    return min(int(limits.get("inactive_threshold") or wanted_ns), wanted_ns)
