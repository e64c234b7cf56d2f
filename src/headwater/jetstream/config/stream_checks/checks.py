"""The rules for the configuration of a stream, and its defaults.

The module has every rule of nats-server 2.15 for creating and updating a stream, with code and
text. The order matters: a client learns the first of several errors. The rules read the request and
the stream's surroundings and return a complete configuration; they change nothing and know no
running stream. The total use of an account is not checked here.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.go.durations import format_duration
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_checks.sources import (
    check_cycles,
    check_external,
    check_filters,
    check_sources,
    is_valid_name,
    with_mirror,
)
from headwater.jetstream.config.stream_checks.subjects import (
    check_transform,
    invalid,
    overlaps_another,
    pedantic_error,
    with_republish,
    with_republish_everywhere,
    with_subjects,
)
from headwater.jetstream.config.stream_config import (
    Discard,
    PersistMode,
    Placement,
    ReadConsistency,
    Retention,
    Storage,
    StreamConfig,
    StreamRequest,
    WriteConsistency,
    identical,
    with_required_level,
)
from headwater.jetstream.config.stream_subjects import StreamSubjects, Taken
from headwater.jetstream.errors import ApiError

NAME_BYTES_MAX: Final = 255
DESCRIPTION_BYTES_MAX: Final = 4 * 1024
METADATA_BYTES_MAX: Final = 128 * 1024
REPLICAS_MAX: Final = 5
DUPLICATE_WINDOW_DEFAULT_NS: Final = 120 * NS_PER_S
# Ages are checked at intervals, not with every message, so lower values would have no effect.
AGE_MIN_NS: Final = 100 * NS_PER_MS
MARKER_TTL_MIN_NS: Final = NS_PER_S

_UNLIMITED: Final = -1
_COUNTS: Final = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")


def _nothing_is_reserved(config: StreamConfig, old: StreamConfig | None) -> None:
    """Accept every reservation, where nothing counts them."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The facts beside the request that the rules need. Zero or less is no limit."""

    # All streams of the account by name, including the one in the request if it exists.
    streams: Mapping[str, StreamConfig] = {}
    # The subjects of those streams.
    taken: Taken = msgspec.field(default_factory=StreamSubjects)
    # Refuses a configuration that reserves more than there is. The second argument is the stream's
    # current configuration, if the stream exists.
    check_reservation: Callable[[StreamConfig, StreamConfig | None], None] = _nothing_is_reserved
    max_bytes_required: bool = False
    memory_max_stream_bytes: int = 0
    store_max_stream_bytes: int = 0
    duplicate_window_max_ns: int = 0
    is_clustered: bool = False


def check_addressed(request: StreamRequest, stream_name: str) -> None:
    """Refuse errors of STREAM.CREATE that nats-server finds before it checks limits.

    `stream_name` is the name in the subject of the request.
    """
    if request.name != stream_name:
        raise ApiError.of(error_codes.STREAM_MISMATCH)
    if "\\" in stream_name or "/" in stream_name:
        raise ApiError.of(error_codes.STREAM_NAME_CONTAINS_PATH_SEPARATORS)
    if request.sealed:
        raise invalid("stream configuration for create can not be sealed")
    if request.mirror_direct and request.mirror is None:
        raise invalid("stream has no mirror but does have mirror direct")


def check_new(request: StreamRequest, surroundings: Surroundings) -> StreamConfig:
    """The configuration of the stream to create; if an identical stream exists, its own."""
    existing = surroundings.streams.get(request.name)
    config = with_required_level(request.over(existing))
    if existing is not None and request.read_consistency is UNSET:
        config = _with_direct_reads_of(existing, config)
    config = normalised(config, request.pedantic, surroundings)
    _check_replicas(config, surroundings)
    if existing is not None:
        if not identical(existing, config):
            raise ApiError.of(error_codes.STREAM_NAME_EXIST)
        return existing
    check_addable(config, surroundings)
    return config


def check_addable(config: StreamConfig, surroundings: Surroundings) -> None:
    """Raises ApiError if a stream with a complete configuration conflicts with the others."""
    surroundings.check_reservation(config, None)
    check_filters(config)
    if overlaps_another(config, surroundings.taken):
        raise ApiError.of(error_codes.STREAM_SUBJECT_OVERLAP)


def check_update(
    old: StreamConfig | None, request: StreamRequest, surroundings: Surroundings, stream_name: str
) -> StreamConfig:
    """The configuration after STREAM.UPDATE of `stream_name`, which has `old` now, if it exists."""
    config = normalised(request.over(old), request.pedantic, surroundings, old)
    if config.name != stream_name:
        raise ApiError.of(error_codes.STREAM_MISMATCH)
    if old is None:
        raise ApiError.of(error_codes.STREAM_NOT_FOUND)
    # Once more, as nats-server does: defaults of the first pass count as requested values now.
    config = normalised(with_required_level(config), request.pedantic, surroundings)
    _check_replicas(config, surroundings)
    _check_changes(old, config)
    if config.sealed:
        config = msgspec.structs.replace(
            config,
            max_age=0,
            discard=Discard.NEW,
            deny_delete=True,
            deny_purge=True,
            allow_rollup_hdrs=False,
        )
    surroundings.check_reservation(config, old)
    if overlaps_another(config, surroundings.taken):
        raise ApiError.of(error_codes.STREAM_SUBJECT_OVERLAP)
    return with_republish_everywhere(config)


def _check_replicas(config: StreamConfig, surroundings: Surroundings) -> None:
    if config.num_replicas > 1 and not surroundings.is_clustered:
        raise ApiError.of(error_codes.STREAM_REPLICAS_NOT_SUPPORTED)


def _check_changes(old: StreamConfig, new: StreamConfig) -> None:
    """Refuse changes that cannot be undone or would change stored messages."""
    update = "stream configuration update can not"
    is_queue = Retention.WORKQUEUE in (old.retention, new.retention)
    if new.storage is not old.storage:
        raise invalid(f"{update} change storage type")
    if new.retention is not old.retention and is_queue:
        raise invalid(f"{update} change retention policy to/from workqueue")
    if old.sealed and not new.sealed:
        raise invalid(f"{update} unseal a sealed stream")
    if old.deny_delete and not new.deny_delete:
        raise invalid(f"{update} cancel deny message deletes")
    if old.deny_purge and not new.deny_purge:
        raise invalid(f"{update} cancel deny purge")
    # The removal of a mirror is allowed: it makes the mirror a stream of its own.
    if new.mirror is not None and new.mirror != old.mirror:
        raise ApiError.of(error_codes.STREAM_MIRROR_NOT_UPDATABLE)
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if old.allow_msg_counter != new.allow_msg_counter:
        raise invalid(f"{update} change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if old.persist_mode is not new.persist_mode:
        raise invalid(f"{update} change persist mode")


def normalised(
    config: StreamConfig,
    pedantic: bool,
    surroundings: Surroundings,
    old: StreamConfig | None = None,
) -> StreamConfig:
    """`config` with all defaults. Raises ApiError for the first rule that it breaks.

    `old` is the configuration of a stream that is updated.
    """
    streams = surroundings.streams
    _check_texts(config)
    config = _with_counts(config, pedantic)
    _check_age(config)
    config = _with_duplicate_window(config, pedantic, surroundings.duplicate_window_max_ns)
    _check_duplicate_window(config, surroundings.duplicate_window_max_ns)
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid("roll-ups require the purge permission")
    _check_counter(config)
    _check_discard_per_subject(config)
    config = _with_delete_markers(config, pedantic)
    config = _with_schedules(config, pedantic)
    _check_persist_mode(config)
    _check_consistency(config, old)
    config = with_mirror(config, streams, pedantic)
    check_sources(config, streams)
    check_external(config, streams)
    check_cycles(config, streams)
    config = _with_direct_reads(with_subjects(config), pedantic)
    _check_max_bytes(config, surroundings)
    check_transform(config.subject_transform)
    config = with_republish(config, pedantic)
    return _with_placement(config)


def _check_texts(config: StreamConfig) -> None:
    if not is_valid_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name.encode()) > NAME_BYTES_MAX:
        raise invalid(f"stream name is too long, maximum allowed is {NAME_BYTES_MAX}")
    if len(config.description.encode()) > DESCRIPTION_BYTES_MAX:
        raise invalid(f"stream description is too long, maximum allowed is {DESCRIPTION_BYTES_MAX}")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in config.metadata.items())
    if size > METADATA_BYTES_MAX:
        raise invalid(f"stream metadata exceeds maximum size of {METADATA_BYTES_MAX} bytes")


def _with_counts(config: StreamConfig, pedantic: bool) -> StreamConfig:
    """Zero replicas stand for one; zero messages, bytes and consumers for no limit."""
    if config.num_replicas > REPLICAS_MAX:
        raise invalid(f"maximum replicas is {REPLICAS_MAX}")
    if config.num_replicas < 0:
        raise ApiError.of(error_codes.REPLICAS_COUNT_CANNOT_BE_NEGATIVE)
    counts = {name: getattr(config, name) for name in _COUNTS}
    for name, count in counts.items():
        if pedantic and count < _UNLIMITED:
            raise pedantic_error(f"{name} must be set to -1")
        counts[name] = count if count > 0 else _UNLIMITED
    return msgspec.structs.replace(config, num_replicas=config.num_replicas or 1, **counts)


def _check_age(config: StreamConfig) -> None:
    if config.max_age < 0:
        raise invalid("max age can not be negative")
    if 0 < config.max_age < AGE_MIN_NS:
        raise invalid("max age needs to be >= 100ms")


def _with_duplicate_window(config: StreamConfig, pedantic: bool, max_ns: int) -> StreamConfig:
    """Set the default window, as far as limits and age allow; mirrors and sources have none."""
    if config.duplicate_window != 0 or config.mirror is not None or config.sources:
        return config
    window_ns = DUPLICATE_WINDOW_DEFAULT_NS
    if 0 < max_ns < window_ns:
        if pedantic:
            raise pedantic_error("duplicate window limits are higher than current limits")
        window_ns = max_ns
    if 0 < config.max_age < window_ns:
        if pedantic:
            raise pedantic_error("duplicate window cannot be bigger than max age")
        window_ns = config.max_age
    return msgspec.structs.replace(config, duplicate_window=window_ns)


def _check_duplicate_window(config: StreamConfig, max_ns: int) -> None:
    window_ns = config.duplicate_window
    if window_ns < 0:
        raise invalid("duplicates window can not be negative")
    if 0 < config.max_age < window_ns:
        raise invalid("duplicates window can not be larger then max age")
    if 0 < max_ns < window_ns:
        limit = format_duration(max_ns)
        raise invalid(f"duplicates window can not be larger then server limit of {limit}")
    if 0 < window_ns < AGE_MIN_NS:
        raise invalid("duplicates window needs to be >= 100ms")


def _check_counter(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    if config.discard is Discard.NEW:
        raise invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid("counter stream cannot use message schedules")
    if config.retention is not Retention.LIMITS:
        raise invalid("counter stream can only use limits retention")


def _check_discard_per_subject(config: StreamConfig) -> None:
    if not config.discard_new_per_subject:
        return
    if config.discard is not Discard.NEW:
        raise invalid("discard new per subject requires discard new policy to be set")
    if config.max_msgs_per_subject <= 0:
        raise invalid("discard new per subject requires max msgs per subject > 0")


def _with_delete_markers(config: StreamConfig, pedantic: bool) -> StreamConfig:
    """A marker is a message with a TTL that rolls up its subject, so both have to be allowed."""
    if config.subject_delete_marker_ttl < 0:
        raise invalid("subject delete marker TTL must not be negative")
    if config.subject_delete_marker_ttl == 0:
        return config
    if config.subject_delete_marker_ttl < MARKER_TTL_MIN_NS:
        raise invalid("subject delete marker TTL must be at least 1 second")
    if pedantic and not config.allow_msg_ttl:
        raise invalid("subject delete marker cannot be set if message TTLs are disabled")
    if pedantic and not config.allow_rollup_hdrs:
        raise invalid("subject delete marker cannot be set if roll-ups are disabled")
    return _with_rollups(msgspec.structs.replace(config, allow_msg_ttl=True))


def _with_schedules(config: StreamConfig, pedantic: bool) -> StreamConfig:
    """A schedule is replaced by the next one of its subject, which is a roll-up."""
    if not config.allow_msg_schedules:
        return config
    if config.discard is Discard.NEW:
        raise invalid("message scheduling cannot use discard new")
    if pedantic and not config.allow_rollup_hdrs:
        raise invalid("message scheduling cannot be set if roll-ups are disabled")
    return _with_rollups(config)


def _with_rollups(config: StreamConfig) -> StreamConfig:
    if config.allow_rollup_hdrs:
        return config
    return msgspec.structs.replace(config, allow_rollup_hdrs=True, deny_purge=False)


def _check_persist_mode(config: StreamConfig) -> None:
    if config.persist_mode is not PersistMode.ASYNC:
        return
    if config.storage is not Storage.FILE:
        raise invalid("async persist mode is only supported on file storage")
    if config.num_replicas > 1:
        raise invalid("async persist mode is not supported on replicated streams")
    if config.allow_atomic:
        raise invalid("async persist mode is not supported with atomic batch publish")
    if config.write_consistency is WriteConsistency.EVENTUAL:
        raise invalid("async persist mode is not supported with eventual write consistency")


def _check_consistency(config: StreamConfig, old: StreamConfig | None) -> None:
    """Check the settings of our own.

    An update may leave direct reads as weak reads had them: the server itself wrote that into the
    configuration, and a client sends all of it back to change one setting.
    """
    was_weak = old is not None and old.read_consistency is ReadConsistency.WEAK
    reads, writes = config.read_consistency, config.write_consistency
    if writes is WriteConsistency.EVENTUAL and reads is not ReadConsistency.DEFAULT:
        raise invalid("eventual write consistency requires default read consistency")
    if reads is ReadConsistency.STRONG and not was_weak:
        if config.allow_direct:
            raise invalid("allow direct can not be set with strong read consistency")
        if config.mirror_direct:
            raise invalid("mirror direct can not be set with strong read consistency")
    if config.ack_timeout is not None and config.ack_timeout < 0:
        raise invalid("ack timeout can not be negative")
    if config.max_staleness < 0:
        raise invalid("max staleness can not be negative")
    if config.max_staleness > 0 and config.mirror is None:
        raise invalid("max staleness requires a mirror")


def _with_direct_reads(config: StreamConfig, pedantic: bool) -> StreamConfig:
    """Set the direct reads that follow from the read consistency, if one is set."""
    if config.read_consistency is ReadConsistency.DEFAULT:
        return config
    is_weak = config.read_consistency is ReadConsistency.WEAK
    is_weak_mirror = is_weak and config.mirror is not None
    if pedantic:
        level = config.read_consistency.value
        for name, wanted in (("allow_direct", is_weak), ("mirror_direct", is_weak_mirror)):
            if getattr(config, name) is not wanted:
                word = "true" if wanted else "false"
                raise pedantic_error(f"{name} is {word} with {level} read consistency")
    return msgspec.structs.replace(config, allow_direct=is_weak, mirror_direct=is_weak_mirror)


def _with_direct_reads_of(existing: StreamConfig, config: StreamConfig) -> StreamConfig:
    """`config` for a stream that exists, from a client that does not know its read consistency.

    That level decides on direct reads, so the client cannot ask for other ones.
    """
    if existing.read_consistency is ReadConsistency.DEFAULT:
        return config
    return msgspec.structs.replace(
        config, allow_direct=existing.allow_direct, mirror_direct=existing.mirror_direct
    )


def _check_max_bytes(config: StreamConfig, surroundings: Surroundings) -> None:
    if surroundings.max_bytes_required and config.max_bytes <= 0:
        raise ApiError.of(error_codes.STREAM_MAX_BYTES_REQUIRED)
    is_memory = config.storage is Storage.MEMORY
    limit = (
        surroundings.memory_max_stream_bytes if is_memory else surroundings.store_max_stream_bytes
    )
    if 0 < limit < config.max_bytes:
        raise ApiError.of(error_codes.STREAM_MAX_STREAM_BYTES_EXCEEDED)


def _with_placement(config: StreamConfig) -> StreamConfig:
    if config.placement is None:
        return config
    if config.placement == Placement():
        return msgspec.structs.replace(config, placement=None)
    if config.placement.preferred:
        raise invalid("preferred server not permitted in placement")
    return config
