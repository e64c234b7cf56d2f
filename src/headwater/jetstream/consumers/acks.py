"""What receivers say of the messages they got: subjects and payloads of acknowledgements.

A message carries its reply subject, by which it is acknowledged:

    $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<stored ns>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<deliveries>. … .<pending>[.<more>]

Both forms are understood; the first is what this server sends.
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
    """Which delivery an acknowledgement is about."""

    stream: bytes
    consumer: bytes
    deliveries: int
    stream_sequence: int
    consumer_sequence: int


def read_address(subject: bytes, home: tuple[bytes, bytes]) -> AckAddress | None:
    """What a subject of an acknowledgement says; None if it is none.

    `home` are the domain and the account as the second form has to name them.
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
    """The stream, the consumer and the stream's sequences of acknowledgements, all of the same.

    None if they are not of one consumer, in the first form and in order; then `read_address` tells
    what each of them is.
    """
    first = subjects[0].split(b".", 4)
    if len(first) < 5:
        return None
    _, _, stream, consumer, rest = first
    size = len(subjects[0]) - len(rest)
    prefix = subjects[0][:size]
    # A few looks at all of them in one row instead of many at each.
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
    """A number, or one that no message has."""
    return int(token) if token.isdigit() and len(token) < _DIGITS_MAX else NO_NUMBER


class NakDocument(msgspec.Struct, kw_only=True):
    """What may follow a -NAK."""

    delay: Duration = 0


def nak_delay_ns(payload: bytes) -> int | None:
    """For how long a message is put off; None if it is to come again at once."""
    said = payload[len(NAK) :].strip()
    if not said:
        return None
    try:
        if said[:1] == b"{":
            return read_one(said, NakDocument).delay
        return parse_duration(said.decode(errors="replace"))
    except (JsonError, ValueError):
        return None


def term_reason(payload: bytes) -> str:
    """Why a message is given up."""
    return payload[len(TERM) :].strip().decode(errors="replace")
