"""Counters (ADR-49): messages that carry an increment and are stored with the total.

A publish to a counter stream has an empty body and a header `Nats-Incr`; the stored body is the
total of its subject, as `{"val":"42"}`. Totals have no limit. A total that includes other streams
keeps the last total of each in `Nats-Counter-Sources`, which is copied from message to message.

This module does arithmetic on its arguments. It does not know streams; the caller decides on the
order of its rules among the other rules of a publish.
"""

import re
from decimal import Decimal
from typing import Final, TypeAlias, TypeVar

import msgspec

from headwater.go import json as go_json
from headwater.jetstream import header_names
from headwater.wire.headers import replaced, value_of

T = TypeVar("T")

# Totals by stream and subject.
Sources: TypeAlias = dict[str, dict[str, str | None] | None]

_INCREMENT: Final = re.compile(rb"[+-]?[0-9]+")
_LEADING_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_BODY_START: Final = b'{"val":"'
_BODY_END: Final = b'"}'
# Python refuses to convert longer texts directly, as a protection from quadratic work.
_INT_DIGITS_MAX: Final = 4000


class CounterBrokenError(ValueError):
    """The last message of the subject, or its sources, cannot be counted on from (10172)."""


def read_increment(value: bytes) -> int | None:
    """The increment in a header; None if it is not a decimal integer (10171)."""
    if _INCREMENT.fullmatch(value) is None:
        return None
    return _integer(value.decode())


def increased(
    last: tuple[bytes, bytes] | None, increment: int, block: bytes
) -> tuple[bytes, bytes]:
    """The header and body to store for a publish, given those of the last message.

    Raises CounterBrokenError.
    """
    total, sources = (0, {}) if last is None else (total_of(last[1]), sources_of(last[0]))
    if sources:
        block = with_sources(block, sources)
    return block, _BODY_START + _text(total + increment).encode() + _BODY_END


def merged(
    last: tuple[bytes, bytes] | None, stream: bytes, subject: bytes, block: bytes, body: bytes
) -> tuple[bytes, bytes]:
    """The header and body to store for the total `body` of a subject of another stream, given those
    of the last message. Raises CounterBrokenError.

    The total counts in place of the last one that came from there.
    """
    total, sources = (0, {}) if last is None else (total_of(last[1]), sources_of(last[0]))
    there, name = stream.decode(errors="replace"), subject.decode(errors="replace")
    added = total_of(body)
    totals = sources.get(there) or {}
    before = _LEADING_INTEGER.match(totals.get(name) or "")
    sources[there] = {**totals, name: _text(added)}
    increment = added - (_integer(before.group()) if before else 0)
    block = replaced(block, header_names.INCREMENT, _text(increment).encode())
    return with_sources(block, sources), _BODY_START + _text(total + increment).encode() + _BODY_END


def total_of(body: bytes) -> int:
    """The total in a stored message. Raises CounterBrokenError."""
    value = value_text(body)
    # As nats-server does with a damaged total: the number at its front counts, or 0.
    number = _LEADING_INTEGER.match(value)
    return _integer(number.group()) if number else 0


def value_text(body: bytes) -> str:
    """The text of `val` in a stored message. Raises CounterBrokenError."""
    if body.startswith(_BODY_START) and body.endswith(_BODY_END):
        digits = body[len(_BODY_START) : -len(_BODY_END)]
        if _INCREMENT.fullmatch(digits):
            return digits.decode()
    return _value_of_any(body)


def _value_of_any(body: bytes) -> str:
    """Read a JSON object as Go does: keys in any case, the last one counts, others do not."""
    members = _decoded(body, dict[str, object])
    found = ""
    for name, value in (members or {}).items():
        if name.lower() == "val" and value is not None:
            if not isinstance(value, str):
                raise CounterBrokenError(body)
            found = value
    return found


def sources_of(block: bytes) -> Sources:
    """The totals of other streams in a stored message. Raises CounterBrokenError."""
    text = value_of(block, header_names.COUNTER_SOURCES) if block else None
    return _decoded(text, Sources) or {} if text else {}


def with_sources(block: bytes, sources: Sources) -> bytes:
    """The block with the totals of other streams in it, as Go writes a map of maps."""
    document = {
        stream: None
        if totals is None
        else {subject: total or "" for subject, total in sorted(totals.items())}
        for stream, totals in sorted(sources.items())
    }
    return replaced(block, header_names.COUNTER_SOURCES, go_json.write(document))


def _decoded(text: bytes, kind: type[T]) -> T | None:
    """Decode JSON that once came from a client; invalid UTF-8 is replaced, as Go does."""
    try:
        return msgspec.json.decode(text.decode("utf-8", "replace"), type=kind | None)
    except (msgspec.DecodeError, RecursionError):
        raise CounterBrokenError(text) from None


def _integer(text: str) -> int:
    return int(text) if len(text) <= _INT_DIGITS_MAX else int(Decimal(text))


def _text(number: int) -> str:
    if number.bit_length() <= _INT_DIGITS_MAX * 3:
        return str(number)
    return format(Decimal(number), "f")
