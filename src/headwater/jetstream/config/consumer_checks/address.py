"""Whether a request to create a consumer agrees in its subject and its body.

The subject has three forms: with only a stream, for consumers that need no name; with a name and
possibly a filter; and the older one for durable consumers. The order of the rules is nats-server's.
"""

from collections.abc import Callable, Sequence

import msgspec

from headwater.jetstream import error_codes
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig, ConsumerRequest
from headwater.jetstream.config.stream_config import Retention, StreamConfig
from headwater.jetstream.errors import ApiError


def check_created(request: ConsumerRequest, words: Sequence[str]) -> ConsumerConfig:
    """The configuration in a CONSUMER.CREATE with these words: stream, name and filter."""
    stream_name, *rest = words
    name = rest[0] if rest else request.config.name
    _check_names(request, stream_name, name)
    config = request.config
    if not rest:
        if config.durable_name:
            raise ApiError.of(error_codes.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME)
        return config
    if config.durable_name not in ("", name):
        raise ApiError.of(error_codes.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT)
    _check_filter(config, ".".join(rest[1:]))
    return msgspec.structs.replace(config, name=name)


def check_created_durable(request: ConsumerRequest, words: Sequence[str]) -> ConsumerConfig:
    """The configuration in a CONSUMER.DURABLE.CREATE with these words: stream and name."""
    stream_name, name = words
    _check_names(request, stream_name, name)
    config = request.config
    if not config.durable_name:
        raise ApiError.of(error_codes.CONSUMER_DURABLE_NAME_NOT_SET)
    if config.durable_name != name:
        raise ApiError.of(error_codes.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT)
    return msgspec.structs.replace(config, name=name)


def _check_names(request: ConsumerRequest, stream_name: str, name: str) -> None:
    if request.stream_name != stream_name:
        raise ApiError.of(error_codes.STREAM_MISMATCH)
    if "\\" in name or "/" in name:
        raise ApiError.of(error_codes.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS)


def _check_filter(config: ConsumerConfig, subject: str) -> None:
    if not subject:
        return
    if config.filter_subjects:
        raise ApiError.of(error_codes.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED)
    if config.filter_subject != subject:
        raise ApiError.of(error_codes.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH)


def as_it_sources(
    config: ConsumerConfig, stream: StreamConfig, generate_name: Callable[[], str]
) -> ConsumerConfig:
    """The configuration for a server that copies a stream; the server always requests one name.

    In a stream with interest or work queue retention one durable consumer holds back messages that
    are not copied yet. Otherwise each connection has a consumer of its own.
    """
    if not (config.direct and config.sourcing and config.name):
        return config
    if stream.retention is Retention.LIMITS:
        return msgspec.structs.replace(config, name=f"{config.name}-{generate_name()}")
    return msgspec.structs.replace(
        config,
        direct=False,
        durable_name=config.name,
        ack_policy=AckPolicy.FLOW_CONTROL,
        ack_wait=0,
        max_deliver=0,
        inactive_threshold=0,
    )
