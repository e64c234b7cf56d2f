"""The document of a consumer in an archive of nats-server from 2.15 on.

    config   as clients get it
    state    delivered    consumer_seq, stream_seq
             ack_floor    the same
             pending      by sequence of the stream: Sequence of the consumer, Timestamp in
                          nanoseconds
             redelivered  by sequence of the stream: deliveries beyond the first
             headwater    lasts_until, passed: not known to nats-server, which ignores them

As in nats-server, no sequence is beyond the last one of the backup, except the start of a consumer
that has delivered nothing and waits for later messages.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from headwater.go.json import write
from headwater.go.quoting import quote
from headwater.jetstream.backup.consumers import (
    BackedUpConsumer,
    Pending,
    Place,
    Standing,
    backed_up,
)
from headwater.jetstream.backup.documents import decode_config, decode_document
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.config.consumer_config import ConsumerConfig

if TYPE_CHECKING:
    from headwater.jetstream.consumers.machine import Consumer

_NULL: Final = b"null"


class _Sequences(msgspec.Struct):
    """The two sequences of a delivery."""

    consumer_seq: int = 0
    stream_seq: int = 0


class _Own(msgspec.Struct, omit_defaults=True):
    """Fields that only Headwater has."""

    lasts_until: int = 0
    passed: int = 0


class _State(msgspec.Struct, omit_defaults=True):
    """The deliveries and acknowledgements of a consumer."""

    delivered: _Sequences | None = None
    ack_floor: _Sequences | None = None
    pending: dict[int, Pending] | None = None
    redelivered: dict[int, int] | None = None
    headwater: _Own | None = None


class _Document(msgspec.Struct):
    """The parts of a document."""

    config: msgspec.Raw = msgspec.Raw(_NULL)
    state: _State | None = None


def encode_consumer(consumer: "Consumer", first_sequence: int, last_sequence: int) -> bytes:
    """The document of a consumer, in a backup of the messages between two sequences."""
    config, state = consumer.config, consumer.state
    if not config.name:
        config = msgspec.structs.replace(config, name=consumer.name)
    # With a floor below the first message nats-server would start the consumer from the beginning.
    floor_stream = max(state.floor_stream, first_sequence - 1)
    delivered_stream = max(state.delivered_stream, floor_stream)
    if state.delivered_consumer:
        floor_stream = min(floor_stream, last_sequence)
        delivered_stream = min(delivered_stream, last_sequence)
    pending = {
        sequence: Pending(state.pending[sequence], state.sent_ns[sequence])
        for sequence in sorted(state.pending)
        if floor_stream < sequence <= delivered_stream
    }
    # nats-server counts one redelivery for a message that was given up after its first delivery.
    redelivered = {
        sequence: max(count, 1)
        for sequence, count in sorted(state.redelivered.items())
        if sequence <= delivered_stream
    }
    lasts_until = state.lasts_until if state.lasts_until > delivered_stream else 0
    own = _Own(min(lasts_until, last_sequence), min(state.passed_stream, last_sequence))
    document = _State(
        _Sequences(state.delivered_consumer, delivered_stream),
        _Sequences(state.floor_consumer, floor_stream),
        pending or None,
        redelivered or None,
        own if own != _Own() else None,
    )
    return b'{"config":%b,"state":%b}' % (write(config), msgspec.json.encode(document))


def decode_consumer(name: str, data: bytes) -> BackedUpConsumer:
    """Decode the document of a consumer. Raises BackupError, with nats-server's texts."""
    quoted = quote(name)
    what = f"failed to decode consumer {quoted} state"
    document = decode_document(data, _Document, what)
    config = bytes(document.config)
    if config == _NULL:
        raise BackupError(f"consumer {quoted} is missing config")
    if document.state is None:
        raise BackupError(f"consumer {quoted} is missing state")
    found = decode_config(config, ConsumerConfig, what)
    try:
        return backed_up(name, found, _standing(document.state))
    except BackupError as error:
        raise BackupError(f"failed to set consumer {quoted} state: {error}") from error


def _standing(state: _State) -> Standing:
    own = state.headwater or _Own()
    return Standing(
        delivered=_place(state.delivered),
        floor=_place(state.ack_floor),
        pending=state.pending or {},
        redelivered=state.redelivered or {},
        lasts_until=own.lasts_until,
        passed_stream=own.passed,
    )


def _place(found: _Sequences | None) -> Place:
    return Place(0, 0) if found is None else Place(found.consumer_seq, found.stream_seq)
