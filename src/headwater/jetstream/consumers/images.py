"""The whole state of a consumer as bytes, for a replica that is to have the same.

The entries of a journal restore a consumer after a restart; this restores it exactly. Besides the
durable state it has the times of the last activity, and the list of messages still to be delivered
in the first phase of last-per-subject delivery: the messages of today do not tell which of them
were the last ones of their subjects when the consumer was created.

    image    msgpack: the record that creates the consumer, its state as journals have it, the times
             of the last delivery and acknowledgement, and the list of messages

The queue of redeliveries, waiting requests and timers belong to the leader and are left out.
"""

from collections import deque
from typing import Any, NamedTuple

from headwater.base.sliced import Work
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.values import (
    check_count,
    check_numbers,
    check_type,
    decode_values,
    encode_values,
)
from headwater.jetstream.consumers import codec
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.records import ConsumerCreated
from headwater.store.errors import StoreError


class ConsumerImage(NamedTuple):
    """A consumer as another replica has it."""

    created: ConsumerCreated
    # The values of `codec.restore_state`.
    state: list[Any]
    times_ns: tuple[int, int]
    last_per_subject: list[int]


def encode_image(consumer: Consumer) -> bytes:
    """The bytes of a consumer, none of whose records is uncommitted at this moment."""
    state = consumer.state
    created = ConsumerCreated(
        consumer.name,
        consumer.config,
        consumer.created_ns,
        state.delivered_stream + 1,
        state.lasts_until,
    )
    has = consumer.stream.log.index.has
    _, created_body = codec.encode(created)
    _, state_body = codec.encode_state(consumer.name, state)
    last_per_subject = [each for each in consumer.position.last_per_subject if has(each)]
    return encode_values(
        [created_body, state_body, state.delivered_ns, state.acked_ns, last_per_subject]
    )


def decode_image(body: bytes) -> ConsumerImage:
    """The consumer of these bytes. Raises RecordError."""
    values = decode_values(body)
    check_count(5, values)
    created_body, state_body, delivered_ns, acked_ns, last_per_subject = values
    check_type(bytes, (created_body, state_body))
    check_type(int, (delivered_ns, acked_ns))
    check_numbers((last_per_subject,))
    try:
        created = codec.decode(codec.CREATED, created_body)
        name, state = codec.decode_state(state_body)
    except StoreError as error:
        raise RecordError(str(error)) from error
    assert isinstance(created, ConsumerCreated)
    if name != created.name:
        raise RecordError(f"the state of {name} is that of {created.name}")
    return ConsumerImage(created, state, (delivered_ns, acked_ns), last_per_subject)


def restoring(consumer: Consumer, image: ConsumerImage) -> Work[None]:
    """Give a new consumer the state of an image, some messages at a time."""
    codec.restore_state(consumer.state, image.state)
    consumer.state.delivered_ns, consumer.state.acked_ns = image.times_ns
    consumer.machine.deadlines.recover()
    yield from consumer.position.placing(consumer.state)
    consumer.position.last_per_subject = deque(image.last_per_subject)
