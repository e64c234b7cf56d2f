"""/jsz, and the parts about JetStream of /varz and STATSZ.

A server on its own leads all its streams and consumers. In a cluster, `cluster` is the group of a
stream or of a consumer as this server sees it, and `meta_cluster` that of all servers.
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from headwater.base.clock import NS_PER_S
from headwater.go.json import document, write
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api.cluster_documents import (
    ClusterInfo,
    GroupState,
    consumer_group_name,
    consumer_replicas,
    describe_consumer_group,
    describe_stream_group,
    stream_group_name,
)
from headwater.jetstream.config.api_level import API_LEVEL
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.stream import Stream
from headwater.server.configuration.options import JetStreamOptions
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import Filtered, Refused, View, timestamp
from headwater.server.monitoring.pages.meta_group import MetaCluster, meta_cluster, meta_summary
from headwater.server.streams.facts import StreamFacts
from headwater.server.streams.storage.resources import Resources

LIST_SIZE: Final = 1024
# Go's -1, in a field that has no sign.
_NO_LIMIT: Final = 2**64 - 1


class JszOptions(View, kw_only=True):
    """The parts of the document to show, by the names of the system service."""

    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumer: bool = False
    direct_consumer: bool = False
    config: bool = False
    leader_only: bool = False
    offset: int = 0
    limit: int = 0
    raft: bool = False
    stream_leader_only: bool = False


class ApiStats(View, kw_only=True):
    """Requests to JetStream."""

    level: int
    total: int
    errors: int


class Config(View, kw_only=True):
    """The configuration of JetStream."""

    max_memory: int
    max_storage: int
    store_dir: str = ""
    sync_interval: int = 0
    sync_always: bool = False
    domain: str = ""
    compress_ok: bool = False
    unique_tag: str = ""
    strict: bool = False


class Limits(View, kw_only=True):
    """The limits of JetStream that the configuration sets."""

    max_request_batch: int = 0
    max_ack_pending: int = 0
    max_ha_assets: int = 0
    max_duplicate_window: int = 0
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: int = 0
    default_max_consumers: int = 0


class Stats(View, kw_only=True):
    """JetStream in numbers."""

    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int
    ha_assets: int
    api: ApiStats


class JetStreamPart(View, kw_only=True):
    """JetStream in documents that are about more than that."""

    config: Config | UnsetType = UNSET
    stats: Stats | UnsetType = UNSET
    limits: Limits | UnsetType = UNSET
    meta: MetaCluster | UnsetType = UNSET


class ConsumerGroup(View, kw_only=True):
    """The name of the group of a consumer."""

    name: str
    raft_group: str


class StreamDetail(View, kw_only=True):
    """A stream; its configuration, state and consumers are documents of the API."""

    name: str
    created: str
    cluster: msgspec.Raw
    config: msgspec.Raw | UnsetType = UNSET
    state: msgspec.Raw
    consumer_detail: tuple[msgspec.Raw, ...] | UnsetType = UNSET
    direct_consumer_detail: tuple[msgspec.Raw, ...] | UnsetType = UNSET
    stream_raft_group: str | UnsetType = UNSET
    consumer_raft_groups: tuple[ConsumerGroup, ...] | UnsetType = UNSET


class AccountDetail(View, kw_only=True):
    """An account with JetStream, and its streams where they were asked for."""

    name: str
    id: str
    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int
    ha_assets: int
    api: ApiStats
    stream_detail: tuple[StreamDetail, ...] = ()


class Jsz(View, kw_only=True):
    """Stats, and as much more as was asked for."""

    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    accounts: int
    ha_assets: int
    api: ApiStats
    server_id: str
    now: str
    disabled: bool | UnsetType = UNSET
    config: Config
    limits: Limits | UnsetType = UNSET
    streams: int
    streams_leader: int | UnsetType = UNSET
    consumers: int
    consumers_leader: int | UnsetType = UNSET
    messages: int
    bytes: int
    meta_cluster: MetaCluster | UnsetType = UNSET
    account_details: tuple[AccountDetail, ...] | UnsetType = UNSET
    total: int


def jsz(facts: Facts, options: JszOptions) -> Jsz:
    """JetStream now. Raises Refused."""
    now = timestamp(facts.now_ns)
    jetstream = facts.streams
    if jetstream is None:
        if options.leader_only:
            raise Filtered("filtered response: not leader")
        return _disabled(facts.server_id, now)
    if options.leader_only and not facts.is_meta_leader:
        raise Filtered("filtered response: not leader")
    stats = _stats(facts, jetstream)
    streams = [stream for each in jetstream.accounts.values() for stream in each.streams.values()]
    led = _led_streams(facts, jetstream) if options.raft else []
    return Jsz(
        **msgspec.structs.asdict(stats),
        server_id=facts.server_id,
        now=now,
        config=_config(facts.options.jetstream, jetstream.resources),
        limits=_limits(facts.options.jetstream),
        streams=len(streams),
        streams_leader=len(led) or UNSET,
        consumers=sum(len(stream.consumers.shown) for stream in streams),
        consumers_leader=sum(len(stream.consumers.shown) for stream in led) or UNSET,
        messages=sum(stream.log.messages for stream in streams),
        bytes=stats.memory + stats.storage,
        meta_cluster=meta_cluster(facts),
        account_details=tuple(
            _account_detail(facts, each, options) for each in _wanted(jetstream, options)
        )
        or UNSET,
        total=len(jetstream.accounts),
    )


def jsz_of_account(facts: Facts, name: str, options: JszOptions) -> AccountDetail:
    """One account. Raises Refused if it has no JetStream."""
    jetstream = facts.streams
    if jetstream is None:
        raise Refused("jetstream not enabled")
    if facts.accounts.get(name) is None:
        raise Refused(f'account "{name}" not found')
    account = jetstream.accounts.get(name)
    if account is None:
        raise Refused(f'account "{name}" not jetstream enabled')
    return _account_detail(facts, account, options)


def jetstream_part(facts: Facts, in_stats: bool = False) -> JetStreamPart:
    """The part of other documents about JetStream; empty without JetStream. STATSZ has no folder,
    and less about the meta group."""
    jetstream = facts.streams
    if jetstream is None:
        return JetStreamPart()
    config = _config(facts.options.jetstream, jetstream.resources)
    if in_stats:
        config.store_dir = ""
    return JetStreamPart(
        config=config,
        stats=_stats(facts, jetstream),
        limits=_limits(facts.options.jetstream),
        meta=meta_summary(facts) if in_stats else meta_cluster(facts),
    )


def _disabled(server_id: str, now: str) -> Jsz:
    return Jsz(
        **msgspec.structs.asdict(
            Stats(
                memory=0,
                storage=0,
                reserved_memory=0,
                reserved_storage=0,
                accounts=0,
                ha_assets=0,
                api=ApiStats(level=0, total=0, errors=0),
            )
        ),
        server_id=server_id,
        now=now,
        disabled=True,
        config=Config(max_memory=0, max_storage=0),
        streams=0,
        consumers=0,
        messages=0,
        bytes=0,
        total=0,
    )


def _stats(facts: Facts, jetstream: StreamFacts) -> Stats:
    accounts = jetstream.accounts.values()
    return Stats(
        memory=jetstream.usage.used(Storage.MEMORY),
        storage=jetstream.usage.used(Storage.FILE),
        reserved_memory=jetstream.usage.reserved(Storage.MEMORY),
        reserved_storage=jetstream.usage.reserved(Storage.FILE),
        accounts=len(accounts),
        ha_assets=_count_groups(facts, jetstream),
        api=ApiStats(
            level=API_LEVEL,
            total=sum(each.api_total for each in accounts),
            errors=sum(each.api_errors for each in accounts),
        ),
    )


def _count_groups(facts: Facts, jetstream: StreamFacts) -> int:
    """The groups of this server: the meta group, and those of replicated streams and consumers.

    A consumer is in the log of its stream, and counts as a group because it does in nats-server.
    """
    consensus = facts.get_consensus()
    if consensus is None:
        return 0
    consumers = (
        consumer
        for account in jetstream.accounts.values()
        for stream in account.streams.values()
        if stream.config.num_replicas > 1
        for consumer in stream.consumers.by_name.values()
        if consumer_replicas(stream.config, consumer.config) > 1
    )
    return len(consensus.groups) + sum(1 for _ in consumers)


def _led_streams(facts: Facts, jetstream: StreamFacts) -> list[Stream]:
    """The streams that this server leads. A consumer is led where its stream is."""
    return [
        stream
        for account in jetstream.accounts.values()
        for stream in account.streams.values()
        if _is_led(facts, facts.find_group(account.name, stream.name))
    ]


def _is_led(facts: Facts, group: GroupState | None) -> bool:
    return group is None or group.leader == facts.name


def _config(options: JetStreamOptions, resources: Resources) -> Config:
    return Config(
        max_memory=resources.max_memory_bytes,
        max_storage=resources.max_storage_bytes,
        store_dir=resources.folder,
        sync_interval=round(options.sync_interval_s * NS_PER_S),
        sync_always=options.sync_always,
        domain=options.domain,
        # nats-server forgets to say so where it has chosen the limits itself.
        compress_ok=not resources.is_dynamic,
        unique_tag=options.unique_tag,
        strict=options.strict,
    )


def _limits(options: JetStreamOptions) -> Limits:
    batches, usual = options.batches, BatchLimits()
    return Limits(
        max_request_batch=options.max_request_batch,
        max_ack_pending=options.max_ack_pending,
        max_ha_assets=options.max_ha_assets,
        max_duplicate_window=options.duplicate_window_max_ns,
        max_batch_inflight_per_stream=batches.per_stream_max,
        max_batch_inflight_total=batches.total_max,
        # Defaults are not shown.
        max_batch_size=batches.messages_max if batches.messages_max != usual.messages_max else 0,
        max_batch_timeout=batches.idle_ns_max if batches.idle_ns_max != usual.idle_ns_max else 0,
        default_max_consumers=options.default_max_consumers,
    )


def _wanted(jetstream: StreamFacts, options: JszOptions) -> list[JetStreamAccount]:
    """The accounts to show in full: the one that is named, or those of a page."""
    named = jetstream.accounts.get(options.account)
    if named is not None:
        return [named]
    shows_streams = options.streams or options.consumer
    if not options.accounts and not (shows_streams and not options.account):
        return []
    accounts = [jetstream.accounts[name] for name in sorted(jetstream.accounts)]
    limit = options.limit or LIST_SIZE
    if limit < 0:
        return accounts
    offset = max(options.offset, 0)
    return accounts[offset : offset + limit]


def _account_detail(facts: Facts, account: JetStreamAccount, options: JszOptions) -> AccountDetail:
    streams = account.streams.values() if options.streams or options.consumer else ()
    details = (_stream_detail(facts, account.name, stream, options) for stream in streams)
    return AccountDetail(
        name=account.name,
        id=account.name,
        memory=account.used_bytes(Storage.MEMORY),
        storage=account.used_bytes(Storage.FILE),
        reserved_memory=_unsigned(account.limits.max_memory),
        reserved_storage=_unsigned(account.limits.max_storage),
        accounts=0,
        ha_assets=0,
        api=ApiStats(level=0, total=account.api_total, errors=account.api_errors),
        stream_detail=tuple(each for each in details if each is not None),
    )


def _unsigned(limit: int) -> int:
    return limit if limit >= 0 else _NO_LIMIT


def _stream_detail(
    facts: Facts, account: str, stream: Stream, options: JszOptions
) -> StreamDetail | None:
    """A stream; None if only streams are wanted that this server leads, and another one does."""
    group = facts.find_group(account, stream.name)
    if options.stream_leader_only and not _is_led(facts, group):
        return None
    cluster = ClusterInfo(leader=facts.name)
    if group is not None:
        cluster = describe_stream_group(group, stream.config)
    stream_group: str | UnsetType = UNSET
    consumer_groups: tuple[ConsumerGroup, ...] | UnsetType = UNSET
    if options.raft and group is not None:
        stream_group = stream_group_name(group.incarnation, stream.config)
        consumer_groups = _consumer_groups(group, stream, options)
    return StreamDetail(
        name=stream.name,
        created=timestamp(stream.created_ns),
        cluster=msgspec.Raw(write(cluster)),
        config=msgspec.Raw(write(stream.config)) if options.config else UNSET,
        state=msgspec.Raw(write(stream.state())),
        consumer_detail=_consumer_details(facts, group, stream.consumers.shown, options),
        direct_consumer_detail=_consumer_details(facts, group, stream.consumers.direct, options)
        if options.direct_consumer
        else UNSET,
        stream_raft_group=stream_group,
        consumer_raft_groups=consumer_groups,
    )


def _consumer_groups(
    group: GroupState, stream: Stream, options: JszOptions
) -> tuple[ConsumerGroup, ...] | UnsetType:
    groups = tuple(
        ConsumerGroup(
            name=each.name,
            raft_group=consumer_group_name(
                group.incarnation, stream.config, each.name, each.config
            ),
        )
        for each in stream.consumers.shown
        if options.consumer
    )
    return groups or UNSET


def _consumer_details(
    facts: Facts, group: GroupState | None, consumers: list[Consumer], options: JszOptions
) -> tuple[msgspec.Raw, ...] | UnsetType:
    if not options.consumer:
        return UNSET
    now_ns = facts.now_ns
    details = []
    for consumer in consumers:
        info = consumer.info(now_ns)
        if group is not None:
            info.cluster = describe_consumer_group(
                group, consumer.stream.config, consumer.name, consumer.config
            )
        details.append(document(info))
    if not options.config:
        for each in details:
            del each["config"]
    return tuple(msgspec.Raw(write(each)) for each in details) or UNSET
