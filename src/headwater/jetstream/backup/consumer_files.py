"""The files of a consumer in backups of nats-server before 2.15.

    meta.inf    configuration, JSON, with `Created` and `Name` among its keys
    meta.sum    its hash, which is not checked
    o.dat       its deliveries and acknowledgements, below

    o.dat       22, version u8, then varints: floor of the consumer, floor of the stream, delivered
                of the consumer, delivered of the stream; messages without an acknowledgement: their
                count and, unless that is 0, a time in seconds (signed), then of each the sequence
                of the stream, that of the consumer, and the seconds from when it was sent to that
                time (signed); messages delivered more than once: their count, then of each the
                sequence and the number of redeliveries

Sequences of messages are relative to the floor, modulo 2 ** 64. Version 1, of nats-server before
2.2.3, has no sequences of the consumer, the seconds count from the time to the sending, and the
delivered sequences are those of the next message, relative to the floor.
"""

from typing import Final

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.go.quoting import quote
from headwater.go.times import parse_time
from headwater.jetstream.backup.consumers import (
    BackedUpConsumer,
    Pending,
    Place,
    Standing,
    backed_up,
)
from headwater.jetstream.backup.cursor import Cursor
from headwater.jetstream.backup.documents import decode_config
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_config import Text

META: Final = "meta.inf"
META_SUM: Final = "meta.sum"
STATE: Final = "o.dat"

_MAGIC: Final = 22
_HEAD_BYTES: Final = 2
_WITHOUT_OWN_SEQUENCES: Final = 1
_VERSION_MAX: Final = 2
_WRAP: Final = (1 << 64) - 1


class _Meta(ConsumerConfig, frozen=True, kw_only=True):
    """The content of `meta.inf`."""

    created: Text = msgspec.field(name="Created", default="")
    # The name of the folder; the configuration has another key in small letters.
    stored_name: Text = msgspec.field(name="Name", default="")


def decode_files(name: str, meta: bytes, state: bytes) -> BackedUpConsumer:
    """Decode the files of a consumer, in the folder `name`. Raises BackupError."""
    what = f"error restoring consumer [{quote(name)}]"
    found = decode_config(meta, _Meta, what)
    fields = {each: getattr(found, each) for each in ConsumerConfig.__struct_fields__}
    try:
        created_ns = max(parse_time(found.created), 0) if found.created else 0
        return backed_up(name, ConsumerConfig(**fields), decode_state(state), created_ns)
    except (BackupError, ValueError) as error:
        raise BackupError(f"{what}: {error}") from error


def decode_state(data: bytes) -> Standing:
    """Decode `o.dat`. Raises BackupError."""
    if len(data) < _HEAD_BYTES or data[0] != _MAGIC:
        raise BackupError("corrupt state file")
    version = data[1]
    if not 1 <= version <= _VERSION_MAX:
        raise BackupError(f"unsupported version: {version}")
    cursor = Cursor(data, _HEAD_BYTES, "its state")
    floor = Place(cursor.number(), cursor.number())
    delivered = Place(cursor.number(), cursor.number())
    if version == _WITHOUT_OWN_SEQUENCES:
        delivered = Place(
            delivered.consumer + max(floor.consumer - 1, 0),
            delivered.stream + max(floor.stream - 1, 0),
        )
        pending = _numbered(_pending_without_numbers(cursor, floor), floor)
    else:
        pending = _pending(cursor, floor)
    redelivered = {}
    for _ in range(cursor.number()):
        sequence = cursor.number() + floor.stream & _WRAP
        redelivered[sequence] = cursor.number()
    return Standing(delivered=delivered, floor=floor, pending=pending, redelivered=redelivered)


def _pending(cursor: Cursor, floor: Place) -> dict[int, Pending]:
    count = cursor.number()
    base_s = cursor.signed() if count else 0
    found = {}
    for _ in range(count):
        sequence = cursor.number() + floor.stream & _WRAP
        consumer_sequence = cursor.number() + floor.consumer & _WRAP
        found[sequence] = Pending(consumer_sequence, (base_s - cursor.signed()) * NS_PER_S)
    return found


def _pending_without_numbers(cursor: Cursor, floor: Place) -> dict[int, int]:
    """The time of sending of each message."""
    count = cursor.number()
    base_s = cursor.signed() if count else 0
    found = {}
    for _ in range(count):
        sequence = cursor.number() + floor.stream & _WRAP
        found[sequence] = (base_s + cursor.signed()) * NS_PER_S
    return found


def _numbered(sent_ns: dict[int, int], floor: Place) -> dict[int, Pending]:
    """Number the messages as if they had been delivered one after the other."""
    return {
        sequence: Pending(number, sent_ns[sequence])
        for number, sequence in enumerate(sorted(sent_ns), floor.consumer + 1)
    }
