"""Acknowledgements: their subjects and their payloads.

A message is acknowledged by a publish to its reply subject:

    $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<stored ns>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<deliveries>. … .<pending>[.<more>]

The server reads both forms and sends the first.
"""

from typing import Final, NamedTuple

import msgspec

from headwater.go.durations import parse_duration
from headwater.go.json import Duration, JsonError, read_one

ACK_PREFIX: Final = b"$JS.ACK."

ACK: Final = b"+ACK"
OK: Final = b"+OK"
NAK: Final = b"-NAK"
PROGRESS: Final = b"+WPI"
NEXT: Final = b"+NXT"
TERM: Final = b"+TERM"
PLAIN: Final = (b"", ACK, OK)

NO_NUMBER: Final = (1 << 64) - 1
_DIGITS_MAX: Final = 20
_NUMBERS: Final = 5
_TOKENS: Final = 9
_TOKENS_WITH_DOMAIN: Final = 11


class AckAddress(NamedTuple):
    """The delivery that an acknowledgement is about."""

    stream: bytes
    consumer: bytes
    deliveries: int
    stream_sequence: int
    consumer_sequence: int


def read_address(subject: bytes, home: tuple[bytes, bytes]) -> AckAddress | None:
    """Parse the subject of an acknowledgement; None if it has neither form.

    `home` holds the domain and the account that the second form has to name.
    """
    tokens = subject.split(b".")
    if len(tokens) == _TOKENS:
        _, _, stream, consumer, *numbers = tokens
    elif len(tokens) >= _TOKENS_WITH_DOMAIN and (tokens[2], tokens[3]) == home:
        _, _, _, _, stream, consumer, *numbers = tokens
    else:
        return None
    deliveries, stream_sequence, consumer_sequence = map(_number, numbers[:3])
    return AckAddress(stream, consumer, deliveries, stream_sequence, consumer_sequence)


def read_sequences(subjects: list[bytes]) -> tuple[bytes, bytes, list[int]] | None:
    """Parse the subjects of a batch: the stream, the consumer and the stream sequence of each.

    None unless all subjects have the first form and name one consumer; then `read_address` parses
    them one by one.
    """
    if len(subjects) == 1:
        tokens = subjects[0].split(b".")
        if len(tokens) != _TOKENS or not tokens[5].isdigit() or len(tokens[5]) >= _DIGITS_MAX:
            return None
        return tokens[2], tokens[3], [int(tokens[5])]
    first = subjects[0].split(b".", 4)
    if len(first) < 5:
        return None
    _, _, stream, consumer, rest = first
    size = len(subjects[0]) - len(rest)
    prefix = subjects[0][:size]
    # A few passes over all subjects joined cost less than many over each.
    row = b"".join([b" " + subject for subject in subjects])
    if row.count(b" " + prefix) != len(subjects):
        return None
    numbers = [subject[size:].split(b".") for subject in subjects]
    tokens = [each[1] for each in numbers if len(each) == _NUMBERS]
    if len(tokens) != len(subjects) or not b"".join(tokens).isdigit():
        return None
    lengths = [*map(len, tokens)]
    if min(lengths) == 0 or max(lengths) >= _DIGITS_MAX:
        return None
    return stream, consumer, [*map(int, tokens)]


def _number(token: bytes) -> int:
    """The number in a token, or `NO_NUMBER`, which is no message's sequence."""
    return int(token) if token.isdigit() and len(token) < _DIGITS_MAX else NO_NUMBER


class NakDocument(msgspec.Struct, kw_only=True):
    """The document that may follow a -NAK."""

    delay: Duration = 0


def nak_delay_ns(payload: bytes) -> int | None:
    """The delay that a -NAK asks for; None for a redelivery at once."""
    text = payload[len(NAK) :].strip()
    if not text:
        return None
    try:
        if text[:1] == b"{":
            return read_one(text, NakDocument).delay
        return parse_duration(text.decode(errors="replace"))
    except (JsonError, ValueError):
        return None


def term_reason(payload: bytes) -> str:
    """The reason that follows a +TERM."""
    return payload[len(TERM) :].strip().decode(errors="replace")
