"""Consumers of a backup: whether the stream may have them, and their entries in its journal.

Each of them is checked like a request for a new consumer, in the order of the backup. As in
nats-server, one that is not durable counts as durable under its name until the stream exists.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from headwater.go.quoting import quote
from headwater.jetstream.api.consumers import surroundings
from headwater.jetstream.api.restore import refused
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.backup.consumers import BackedUpConsumer
from headwater.jetstream.config.consumer_checks.changes import check_addition
from headwater.jetstream.config.consumer_checks.checks import normalised
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.consumer_defaults import ConsumerSurroundings, with_expiry
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.store.log.message_log import MessageLog

# Bytes per write to the journal.
_WRITE_BYTES: Final = 256 * 1024


class AdmittedConsumer(NamedTuple):
    """A consumer that passed the checks, and its journal entries."""

    config: ConsumerConfig
    entries: list[tuple[int, bytes]]


def admit_consumers(
    api: StreamApi, stream: StreamConfig, found: Iterable[BackedUpConsumer], now_ns: int
) -> list[AdmittedConsumer]:
    """The consumers of a backup with their final configurations. Raises ApiError."""
    admitted: dict[str, AdmittedConsumer] = {}
    around = surroundings(api, stream, admitted)
    for consumer in found:
        try:
            config = _completed(consumer, around)
        except ApiError as error:
            text = f"{error.description} ({error.err_code})"
            raise refused(f"failed to add consumer {quote(consumer.name)}: {text}") from error
        admitted[consumer.name] = AdmittedConsumer(config, consumer.entries(config, now_ns))
    return [*admitted.values()]


def _completed(consumer: BackedUpConsumer, around: ConsumerSurroundings) -> ConsumerConfig:
    durable_name = consumer.config.durable_name
    config = msgspec.structs.replace(consumer.config, durable_name=consumer.name)
    config = check_addition(normalised(config, pedantic=False, around=around), around)
    return with_expiry(msgspec.structs.replace(config, durable_name=durable_name))


def write_consumers(log: MessageLog, consumers: Sequence[AdmittedConsumer]) -> None:
    """Write the entries of consumers to the journal of a log. Raises StoreError."""
    entries: list[tuple[int, bytes]] = []
    size = 0
    for consumer in consumers:
        if consumer.config.mem_storage:
            continue
        entries += consumer.entries
        size += sum(len(body) for _, body in consumer.entries)
        if size >= _WRITE_BYTES:
            log.write_entries(entries)
            entries, size = [], 0
    log.write_entries(entries)
