"""The messages of an origin as they arrive: parallel lists, with what their reply subjects say.

A consumer tells the sequence of a message, its number among those delivered, its time and the
number of messages behind it in the reply subject, which has two forms:

    $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<number>.<time>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>. …

Bytes come from other servers, and possibly from clients: a reply subject of another form belongs to
no message.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias, final

from headwater.base.columns import StoredColumns
from headwater.jetstream.consumers.replies import Replies
from headwater.jetstream.streams.publishing.incoming import Incoming

_ACK: Final = b"$JS.ACK."
_DOT: Final = b"."
# The number of words of the two forms, and the place of the consumer in each. The longer one may
# have more words behind.
_WORDS: Final = 9
_WORDS_LONG: Final = 11
_CONSUMER: Final = 3
_CONSUMER_LONG: Final = 5
# Sequences, times and counts have 64 bits.
_NUMBER_MAX: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 19

_STATUS: Final = b"NATS/1.0 100"


@final
class Arrivals(StoredColumns):
    """Messages of one consumer of an origin, with the sequences that they have there.

    `numbers` count them among all that the consumer has delivered; `pending` is the number of
    messages behind the last one.
    """

    __slots__ = ("consumer", "numbers", "pending")

    COLUMNS = (*StoredColumns.COLUMNS, "numbers")
    SHARED = ("consumer", "pending")

    def __init__(self, consumer: bytes = b"") -> None:
        super().__init__()
        self.numbers: list[int] = []
        self.consumer = consumer
        self.pending = 0


@final
class Control:
    """A message without content: a heartbeat, or a request to confirm with a reply subject."""

    __slots__ = ("header", "reply")

    def __init__(self, header: bytes, reply: bytes | None) -> None:
        self.header = header
        self.reply = reply


Arrived: TypeAlias = Arrivals | Control


def arrived_in(incoming: Incoming) -> Iterator[Arrived]:
    """Messages and controls in the order in which they came."""
    begin = 0
    sizes, payloads = incoming.header_sizes, incoming.payloads
    if max(sizes) > 0:
        for position, size in enumerate(sizes):
            if size > 0 and payloads[position].startswith(_STATUS):
                if begin < position:
                    yield from _messages_in(incoming.part(begin, position))
                yield Control(payloads[position][:size], incoming.replies[position])
                begin = position + 1
    if begin < len(incoming):
        yield from _messages_in(incoming.part(begin, len(incoming)) if begin else incoming)


def arrivals_of(
    replies: Replies, subjects: list[bytes], headers: list[bytes], payloads: list[bytes]
) -> Arrivals:
    """The messages of an origin on the same server, whose numbers need not be read."""
    arrivals, count = Arrivals(replies.consumer), len(replies)
    arrivals.sequences, arrivals.timestamps_ns = replies.sequences, replies.timestamps_ns
    arrivals.numbers = [*range(replies.number, replies.number + count)]
    arrivals.subjects, arrivals.headers, arrivals.payloads = subjects, headers, payloads
    arrivals.pending = replies.pending - count + 1
    return arrivals


def _messages_in(incoming: Incoming) -> Iterator[Arrivals]:
    """The messages of neighbours of one consumer."""
    arrivals = _read_all(incoming)
    if arrivals is not None:
        yield arrivals
        return
    for position in range(len(incoming)):
        arrivals = _read_all(incoming.part(position, position + 1))
        if arrivals is not None:
            yield arrivals


def _read_all(incoming: Incoming) -> Arrivals | None:
    """Messages whose replies are all of one consumer and of the short form, or a single one; None
    if they have to be looked at one by one, or a single one is no message."""
    count = len(incoming)
    if None in incoming.replies:
        return None
    words = _DOT.join(filter(None, incoming.replies)).split(_DOT)
    width, consumer = _WORDS, _CONSUMER
    if count == 1 and len(words) >= _WORDS_LONG:
        del words[_WORDS_LONG:]
        width, consumer = _WORDS_LONG, _CONSUMER_LONG
    if len(words) != count * width:
        return None
    names = words[consumer::width]
    begins = words[::width].count(b"$JS"), words[1::width].count(b"ACK")
    if begins != (count, count) or names.count(names[0]) != count:
        return None
    numbers = [_numbers(words[place::width]) for place in range(consumer + 1, consumer + 6)]
    delivered, sequences, of_consumer, times_ns, pending = numbers
    if None in numbers or delivered is None or delivered.count(1) != count:
        return None
    arrivals = Arrivals(names[0])
    arrivals.sequences, arrivals.numbers = sequences or [], of_consumer or []
    arrivals.timestamps_ns, arrivals.subjects = times_ns or [], incoming.subjects
    arrivals.headers, arrivals.payloads = incoming.parted()
    arrivals.pending = (pending or [0])[-1]
    return arrivals


def _numbers(words: list[bytes]) -> list[int] | None:
    """Numbers of 64 bits; None if one of the words is none."""
    if len(max(words, key=len)) > _DIGITS_MAX or not b"".join(words).isdigit() or b"" in words:
        return None
    return [*map(int, words)]
