"""The consumer API of one account: each call with its reply.

A function takes a request and returns a reply, or raises the ApiError that the reply then reports.
The order of checks is nats-server's: a client learns the first of several errors. Everything that
needs timers or subscriptions is an effect of the change that a request asks for.

In nats-server the consumer itself answers CONSUMER.RESET: the call is never counted, and without a
consumer there is no reply.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from headwater.base.sliced import Work
from headwater.go.json import Time
from headwater.go.times import ZERO_TIME_NS
from headwater.jetstream import error_codes
from headwater.jetstream.api.cluster_documents import describe_consumer_group
from headwater.jetstream.api.consumer_documents import (
    ConsumerCreateResponse,
    ConsumerDeleteResponse,
    ConsumerInfo,
    ConsumerInfoResponse,
    ConsumerListResponse,
    ConsumerNamesResponse,
    ConsumerPauseResponse,
    ConsumerResetResponse,
    ConsumersRequest,
    ConsumerUnpinResponse,
    PauseRequest,
    ResetRequest,
    UnpinRequest,
    describe,
)
from headwater.jetstream.api.documents import LIST_MAX, NAMES_MAX, ErrorDocument, Response
from headwater.jetstream.api.long_details import writing_documents
from headwater.jetstream.api.operation import (
    ANY_NUMBER,
    Answering,
    Operation,
    Request,
    Requested,
)
from headwater.jetstream.api.stream_identity import (
    asks_for_identity,
    check_identity,
    identity_block,
)
from headwater.jetstream.api.streams import StreamApi, is_empty_request
from headwater.jetstream.config.api_level import API_LEVEL
from headwater.jetstream.config.consumer_checks.address import (
    as_it_sources,
    check_created,
    check_created_durable,
)
from headwater.jetstream.config.consumer_checks.changes import (
    STORE_FAILED,
    YEAR_OUT_OF_RANGE,
    check_addition,
    check_change,
)
from headwater.jetstream.config.consumer_checks.checks import check_group_name, normalised
from headwater.jetstream.config.consumer_config import (
    ConsumerAction,
    ConsumerConfig,
    ConsumerRequest,
    DeliverPolicy,
    with_required_level,
    with_server_metadata,
)
from headwater.jetstream.config.consumer_defaults import (
    Configured,
    ConsumerSurroundings,
    in_utc,
)
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.records import (
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerReset,
    Pinned,
)
from headwater.jetstream.consumers.start import is_start_foreseen, starting
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import (
    ConsumerClosed,
    ConsumerOpened,
    ConsumerReconfigured,
    ConsumerServed,
    ConsumerUnpinned,
)
from headwater.jetstream.request_bodies import read_single_request
from headwater.jetstream.streams.stream import Stream
from headwater.store.errors import StoreError
from headwater.store.log.message_log import ALL_SUBJECTS

# --- making them ----------------------------------------------------------------------------------


def create(api: StreamApi, request: Request) -> Answering:
    """CONSUMER.CREATE"""
    asked = _asked(api, request)
    return _making(api, asked, check_created(asked, _words(request)), request.header)


def create_durable(api: StreamApi, request: Request) -> Answering:
    """CONSUMER.DURABLE.CREATE"""
    asked = _asked(api, request)
    return _making(api, asked, check_created_durable(asked, _words(request)), request.header)


def _asked(api: StreamApi, request: Request) -> ConsumerRequest:
    return api.read(request.body, ConsumerRequest)


def foresees_creation(api: StreamApi, request: Request) -> bool:
    """Whether the creation of a consumer can be decided while entries are in flight: if the ends of
    the stream behind them are known and tell where it begins, and no consumer is being changed.

    A request for a consumer that is there is answered by its state, and a server that copies the
    stream by the identity of its last message: both wait.
    """
    stream = api.account.streams.get(request.stream_name)
    if stream is None:
        return False
    try:
        config = _asked(api, request).config
    except ApiError:
        # The request is refused, whatever is in flight.
        return True
    is_there = (config.durable_name or config.name) in stream.consumers.by_name
    if is_there or config.direct or config.sourcing or not is_start_foreseen(config):
        return False
    if stream.consumers.changes or stream.look_ahead.is_reconfigured:
        return False
    return not (stream.needs_commit or stream.may_consume)


def foresees_change(api: StreamApi, request: Request) -> bool:
    """Whether the pause, the unpinning or the deletion of a consumer can be decided while entries
    are in flight: if no consumer is being changed, and no update of the stream is in flight.

    These requests rest on the consumer, which messages do not change, and not on the stream.
    """
    stream = api.account.streams.get(request.stream_name)
    if stream is None:
        return False
    return not (stream.consumers.changes or stream.look_ahead.is_reconfigured)


def foresees_reset(api: StreamApi, request: Request) -> bool:
    """Likewise for a reset. The start of a consumer that began at a time depends on the log."""
    if not foresees_change(api, request):
        return False
    stream = api.account.stream(request.stream_name)
    consumer = stream.consumers.by_name.get(_words(request)[1])
    return consumer is None or consumer.config.deliver_policy is not DeliverPolicy.BY_START_TIME


def _making(
    api: StreamApi, asked: ConsumerRequest, config: ConsumerConfig, header: bytes
) -> Answering:
    group = api.keepers.find_group(api.account.name, asked.stream_name)
    if config.num_replicas > 1 and group is None:
        raise ApiError.of(error_codes.STREAM_REPLICAS_NOT_SUPPORTED)
    stream = api.account.stream(asked.stream_name)
    config = as_it_sources(config, stream.config, api.keepers.generate_name)
    if config.direct or config.sourcing:
        check_identity(stream, header)
    consumer = stream.consumers.by_name.get(config.durable_name or config.name)
    if consumer is not None:
        config = _kept(consumer.config, config)
    around = surroundings(api, stream.config, stream.consumers.by_name)
    config = normalised(with_required_level(config), asked.pedantic, around)
    if consumer is None:
        return (yield from _adding(api, stream, config, asked.action, around))
    return (yield from _changing(api, stream, consumer, config, asked.action, around))


def _created(api: StreamApi, stream: Stream, name: str) -> Response:
    """The reply to the request that has created or changed a consumer."""
    response = ConsumerCreateResponse()
    describe(response, _info(api, stream.consumers.by_name[name]))
    return response


def creation_header(api: StreamApi, request: Request, response: Response) -> bytes:
    """The header with the stream's identity, for a server that copies the stream."""
    config = response.config if isinstance(response, ConsumerCreateResponse) else None
    if config is None or not (config.direct or config.sourcing):
        return b""
    return identity_block(api.account.streams.get(request.stream_name))


def _kept(old: ConsumerConfig, config: ConsumerConfig) -> ConsumerConfig:
    """`config` with the settings that a request cannot change: only CONSUMER.PAUSE ends a pause."""
    config = msgspec.structs.replace(config, pause_until=old.pause_until)
    if not (config.sourcing and config.is_durable):
        return config
    return msgspec.structs.replace(
        config,
        deliver_policy=old.deliver_policy,
        opt_start_seq=old.opt_start_seq,
        opt_start_time=old.opt_start_time,
    )


def _adding(
    api: StreamApi,
    stream: Stream,
    config: ConsumerConfig,
    action: ConsumerAction,
    around: ConsumerSurroundings,
) -> Work[Requested]:
    if action is ConsumerAction.UPDATE:
        raise ApiError.of(error_codes.CONSUMER_DOES_NOT_EXIST)
    config = check_addition(config, around)
    # A name that the server has generated is not part of the configuration.
    name = config.durable_name or config.name
    while not name or name in stream.consumers.by_name:
        name = api.keepers.generate_name()
    now_ns = api.keepers.now_ns()
    start_sequence, lasts_until = yield from starting(stream, config)
    # The consumer will ask how many messages it is to deliver.
    patterns = config.patterns or (ALL_SUBJECTS,)
    yield from stream.log.counting(patterns, max(start_sequence, lasts_until + 1))
    return Requested(
        [ConsumerCreated(name, config, now_ns, start_sequence, lasts_until)],
        lambda _: _created(api, stream, name),
        lambda _: ApiError.of(error_codes.CONSUMER_CREATE, err=STORE_FAILED),
        (ConsumerOpened(name),),
    )


def _changing(
    api: StreamApi,
    stream: Stream,
    consumer: Consumer,
    config: ConsumerConfig,
    action: ConsumerAction,
    around: ConsumerSurroundings,
) -> Work[Response | Requested]:
    config = check_change(consumer.config, config, action, around, api.account.has_interest)
    if config == consumer.config:
        return _created(api, stream, consumer.name)
    return (
        yield from _reconfiguring(
            stream,
            consumer,
            config,
            lambda _: _created(api, stream, consumer.name),
            lambda error: ApiError.of(error_codes.CONSUMER_CREATE, err=str(error)),
        )
    )


def _reconfiguring(
    stream: Stream,
    consumer: Consumer,
    config: ConsumerConfig,
    respond: Callable[[int], Response],
    refuse: Callable[[StoreError], ApiError],
) -> Work[Requested]:
    """The change of a consumer to another configuration, which was checked."""
    if config.patterns != consumer.config.patterns:
        patterns = config.patterns or (ALL_SUBJECTS,)
        yield from stream.log.counting(patterns, consumer.position.cursor.sequence)
    old_subject = b"" if consumer.push is None else consumer.push.subject
    is_pause_changed = config.pause_until_ns != consumer.config.pause_until_ns
    return Requested(
        [consumer.configured(config)],
        respond,
        refuse,
        (ConsumerReconfigured(consumer.name, old_subject, is_pause_changed),),
    )


def surroundings(
    api: StreamApi, stream: StreamConfig, consumers: Mapping[str, Configured]
) -> ConsumerSurroundings:
    """The facts beside a consumer's configuration that the rules need."""
    limits = api.account.limits
    return ConsumerSurroundings(
        stream=stream,
        consumers=consumers,
        server_max_ack_pending=api.settings.max_ack_pending,
        server_max_request_batch=api.settings.max_request_batch,
        account_max_ack_pending=limits.max_ack_pending,
        account_max_consumers=limits.max_consumers,
        default_max_consumers=api.settings.default_max_consumers,
    )


# --- looking at them ------------------------------------------------------------------------------


def info(api: StreamApi, request: Request) -> Response:
    """CONSUMER.INFO"""
    _check_empty(api, request)
    _, consumer = _found(api, request)
    response = ConsumerInfoResponse()
    describe(response, _info(api, consumer))
    return response


def names(api: StreamApi, request: Request) -> Response:
    """CONSUMER.NAMES"""
    asked = api.read_if_document(request.body, ConsumersRequest)
    found = _shown_names(api.account.stream(request.stream_name))
    offset = min(max(asked.offset, 0), len(found))
    return ConsumerNamesResponse(
        total=len(found),
        offset=offset,
        limit=NAMES_MAX,
        consumers=found[offset : offset + NAMES_MAX],
    )


def list_consumers(api: StreamApi, request: Request) -> Answering:
    """CONSUMER.LIST"""
    asked = api.read_if_document(request.body, ConsumersRequest)
    stream = api.account.stream(request.stream_name)
    found = _shown_names(stream)
    offset = min(max(asked.offset, 0), len(found))
    now_ns, consumers = api.keepers.now_ns(), stream.consumers.by_name
    streams = api.account.streams
    # Consumers may be deleted meanwhile, and so may the stream.
    documents = (
        _described(api, consumers[name], now_ns)
        for name in found[offset : offset + LIST_MAX]
        if name in consumers and streams.get(stream.name) is stream
    )
    return ConsumerListResponse(
        total=len(found),
        offset=offset,
        limit=LIST_MAX,
        consumers=(yield from writing_documents(documents)),
    )


def _shown_names(stream: Stream) -> list[str]:
    """All but the consumers by which servers read the stream, in order."""
    consumers = stream.consumers.by_name
    return sorted(name for name, consumer in consumers.items() if not consumer.config.direct)


def _described(api: StreamApi, consumer: Consumer, now_ns: int) -> ConsumerInfo:
    """The document of a consumer as lists show it."""
    described: ConsumerInfo = consumer.info(now_ns)
    stream = consumer.stream
    group = api.keepers.find_group(api.account.name, stream.name)
    if group is not None:
        described.cluster = describe_consumer_group(
            group, stream.config, consumer.name, consumer.config
        )
    return described


def _info(api: StreamApi, consumer: Consumer) -> ConsumerInfo:
    described = _described(api, consumer, api.keepers.now_ns())
    version = api.settings.server_version
    described.config = with_server_metadata(described.config, version, API_LEVEL)
    return described


# --- changing them --------------------------------------------------------------------------------


def delete(api: StreamApi, request: Request) -> Requested:
    """CONSUMER.DELETE"""
    _check_empty(api, request)
    _, consumer = _found(api, request)
    return Requested(
        [ConsumerDeleted(consumer.name)],
        lambda _: ConsumerDeleteResponse(success=True),
        lambda error: ApiError.of(error_codes.STREAM_GENERAL_ERROR, err=str(error)),
        (ConsumerClosed(consumer.name),),
    )


def pause(api: StreamApi, request: Request) -> Answering:
    """CONSUMER.PAUSE"""
    asked = _asked_pause(api, request)
    stream, consumer = _found(api, request)
    until = _pause_until(asked)
    config = with_required_level(msgspec.structs.replace(consumer.config, pause_until=until))
    if config == consumer.config:
        return _paused(api, until)
    return (
        yield from _reconfiguring(
            stream,
            consumer,
            config,
            lambda _: _paused(api, until),
            lambda error: ApiError.of(error_codes.CONSUMER_STORE_FAILED, err=str(error)),
        )
    )


def _paused(api: StreamApi, until: Time | None) -> Response:
    if until is None:
        return ConsumerPauseResponse()
    remaining_ns = max(until.unix_ns - api.keepers.now_ns(), 0)
    return ConsumerPauseResponse(
        paused=remaining_ns > 0, pause_until=until.text, pause_remaining=remaining_ns
    )


def _asked_pause(api: StreamApi, request: Request) -> PauseRequest:
    return api.read_if_document(request.body, PauseRequest)


def _pause_until(asked: PauseRequest) -> Time | None:
    if asked.pause_until is None or asked.pause_until.unix_ns == ZERO_TIME_NS:
        return None
    try:
        return in_utc(asked.pause_until)
    except OverflowError:
        raise ApiError.of(error_codes.CONSUMER_STORE_FAILED, err=YEAR_OUT_OF_RANGE) from None


def unpin(api: StreamApi, request: Request) -> Requested:
    """CONSUMER.UNPIN"""
    asked = read_single_request(request.body, UnpinRequest)
    if not asked.group:
        raise ApiError.of(error_codes.INVALID_JSON, err="consumer group not specified")
    check_group_name(asked.group)
    _, consumer = _found(api, request)
    if asked.group not in consumer.config.priority_groups:
        raise ApiError.of(error_codes.CONSUMER_INVALID_PRIORITY_GROUP)
    return Requested(
        [Pinned(consumer.name, "", api.keepers.now_ns())] if consumer.state.pin_id else [],
        lambda _: ConsumerUnpinResponse(),
        lambda error: ApiError.of(error_codes.STREAM_OFFLINE_REASON, err=str(error)),
        (ConsumerUnpinned(consumer.name),),
    )


def reset(api: StreamApi, request: Request) -> Answering | None:
    """CONSUMER.RESET; None without a consumer."""
    stream = api.account.streams.get(request.stream_name)
    consumer = None if stream is None else stream.consumers.by_name.get(_words(request)[1])
    if stream is None or consumer is None:
        return None
    return _resetting(api, request, stream, consumer)


def _resetting(api: StreamApi, request: Request, stream: Stream, consumer: Consumer) -> Answering:
    response = ConsumerResetResponse()
    try:
        asked = read_single_request(request.body, ResetRequest) if request.body else ResetRequest()
        sequence = _reset_sequence(api, stream, consumer, asked.seq)
    except ApiError as error:
        response.error = ErrorDocument.of(error)
        return response
    yield from stream.log.counting(consumer.position.patterns, sequence)

    def respond(_: int) -> Response:
        describe(response, _info(api, consumer))
        response.reset_seq = sequence
        return response

    return Requested(
        [ConsumerReset(consumer.name, sequence)],
        respond,
        lambda error: ApiError.of(error_codes.STREAM_OFFLINE_REASON, err=str(error)),
        (ConsumerServed(consumer.name),),
    )


def reset_header(api: StreamApi, request: Request, response: Response) -> bytes:
    """The header with the stream's identity, for a request that names one."""
    if response.error is not None or not asks_for_identity(request.header):
        return b""
    return identity_block(api.account.streams.get(request.stream_name))


def _reset_sequence(api: StreamApi, stream: Stream, consumer: Consumer, asked: int) -> int:
    """The sequence at which a consumer begins again, never before its start policy."""
    if asked == 0:
        described: ConsumerInfo = consumer.info(api.keepers.now_ns())
        return described.ack_floor.stream_seq + 1
    config = consumer.config
    policy = config.deliver_policy
    reason = ""
    if policy is DeliverPolicy.BY_START_SEQUENCE:
        reason = "below start seq" if asked < config.opt_start_seq else ""
    elif policy is DeliverPolicy.BY_START_TIME and config.opt_start_time is not None:
        first = stream.sequence_at(config.opt_start_time.unix_ns)
        reason = "below start time" if asked < first else ""
    elif policy is not DeliverPolicy.ALL:
        reason = "not allowed"
    if reason:
        raise ApiError.of(error_codes.CONSUMER_INVALID_RESET, err=reason)
    return asked


# --- parts ----------------------------------------------------------------------------------------


def _check_empty(_: StreamApi, request: Request) -> None:
    if not is_empty_request(request.body):
        raise ApiError.of(error_codes.NOT_EMPTY_REQUEST)


def _found(api: StreamApi, request: Request) -> tuple[Stream, Consumer]:
    """The stream and the consumer in the subject of a request. Raises ApiError."""
    stream = api.account.stream(request.stream_name)
    return stream, stream.consumers.find(_words(request)[1])


def _words(request: Request) -> list[str]:
    """The words of a subject. A consumer's name is repeated in replies, so it has to be UTF-8."""
    words = [*request.words]
    words[1:2] = [_readable(word) for word in words[1:2]]
    return words


def _readable(word: str) -> str:
    return word.encode(errors="surrogateescape").decode(errors="replace")


CONSUMER_OPERATIONS: Final = {
    "CONSUMER.CREATE": Operation(
        create,
        ConsumerCreateResponse,
        words_max=ANY_NUMBER,
        header=creation_header,
        looks_first=_asked,
        is_foreseen=foresees_creation,
    ),
    "CONSUMER.DURABLE.CREATE": Operation(
        create_durable,
        ConsumerCreateResponse,
        2,
        2,
        header=creation_header,
        looks_first=_asked,
        is_foreseen=foresees_creation,
    ),
    "CONSUMER.NAMES": Operation(names, ConsumerNamesResponse),
    "CONSUMER.LIST": Operation(list_consumers, ConsumerListResponse),
    "CONSUMER.INFO": Operation(info, ConsumerInfoResponse, 2, 2, looks_first=_check_empty),
    "CONSUMER.DELETE": Operation(delete, ConsumerDeleteResponse, 2, 2, is_foreseen=foresees_change),
    "CONSUMER.PAUSE": Operation(
        pause,
        ConsumerPauseResponse,
        2,
        2,
        looks_first=_asked_pause,
        is_foreseen=foresees_change,
    ),
    "CONSUMER.UNPIN": Operation(unpin, ConsumerUnpinResponse, 2, 2, is_foreseen=foresees_change),
    "CONSUMER.RESET": Operation(
        reset,
        ConsumerResetResponse,
        2,
        2,
        is_counted=False,
        header=reset_header,
        is_foreseen=foresees_reset,
    ),
}
