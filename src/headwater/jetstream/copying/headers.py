"""The headers of copied messages: what an origin's message had to expect is not expected again.

A copy has all headers of its original except those by which the original was checked or was part of
a batch. The copy of a source has one about its origin besides; if the original was a copy itself,
its own header takes the place of the earlier one.
"""

from typing import Final

from headwater.jetstream import header_names as names
from headwater.wire.headers import VERSION, with_value, without, without_prefix

_EXPECTED: Final = b"Nats-Expected-"
_BATCH: Final = b"Nats-Batch-"
_BEGIN: Final = VERSION + b"\r\n" + names.STREAM_SOURCE + b": "
_END: Final = b"\r\n\r\n"


def copied(headers: list[bytes]) -> list[bytes]:
    """The headers of messages as a mirror stores them."""
    if not any(headers):
        return headers
    joined = b"".join(headers)
    if _EXPECTED not in joined and _BATCH not in joined:
        return headers
    return [_copied(header) if header else header for header in headers]


def _copied(header: bytes) -> bytes:
    for prefix in (_EXPECTED, _BATCH):
        if prefix in header:
            header = without_prefix(header, prefix)
    return header


def sourced(headers: list[bytes], provenances: list[bytes]) -> list[bytes]:
    """The headers of messages as they are sourced; each has a value about its origin."""
    if not any(headers):
        return [_BEGIN + value + _END for value in provenances]
    return [
        with_value(_without_source(header), names.STREAM_SOURCE, value)
        if header
        else _BEGIN + value + _END
        for header, value in zip(copied(headers), provenances, strict=True)
    ]


def _without_source(header: bytes) -> bytes:
    return without(header, names.STREAM_SOURCE) if names.STREAM_SOURCE in header else header
