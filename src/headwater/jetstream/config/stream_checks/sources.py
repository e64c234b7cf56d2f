"""Rules for mirrors and sources, and against cycles among them.

The order of the rules is nats-server's. Streams of other accounts and domains are unknown here, so
only the form of their names is checked.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from headwater.go.quoting import quote
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_checks.overlap import ALL, collide, is_subset
from headwater.jetstream.config.stream_checks.subjects import (
    BAD_SUBJECT,
    TOO_MANY_SUBJECTS,
    invalid,
    is_valid_literal,
    is_valid_subject,
    mapping_error,
    pedantic_error,
)
from headwater.jetstream.config.stream_config import (
    StreamConfig,
    StreamConsumerSource,
    StreamSource,
)
from headwater.jetstream.errors import ApiError
from headwater.subjects.grammar import has_blank_or_control

API_PREFIX: Final = "$JS.API"
# The limit of comparisons of subjects for one request, which take some ten milliseconds.
COMPARISONS_MAX: Final = 16_384

_NAME_BANS: Final = ".*>\\/"


def is_valid_name(name: str) -> bool:
    """Whether a stream or consumer may have this name."""
    return (
        bool(name)
        and not any(character in name for character in _NAME_BANS)
        and not has_blank_or_control(name)
    )


def with_mirror(
    config: StreamConfig, streams: Mapping[str, StreamConfig], pedantic: bool
) -> StreamConfig:
    """The configuration of a mirror; whether it answers direct reads follows from its origin."""
    mirror = config.mirror
    if mirror is None:
        return config
    if len(mirror.subject_transforms) ** 2 > COMPARISONS_MAX:
        raise invalid(TOO_MANY_SUBJECTS)
    _check_mirror_settings(config)
    if mirror.consumer is not None and not _is_usable(mirror.consumer, mirror):
        raise ApiError.of(error_codes.MIRROR_DURABLE_CONSUMER_CFG_INVALID)
    if mirror.filter_subject and mirror.subject_transforms:
        raise ApiError.of(error_codes.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED)
    if config.subject_delete_marker_ttl > 0:
        raise invalid("subject delete markers forbidden on mirrors")
    _check_mirror_filters(mirror)
    if mirror.external is not None and not has_blank_or_control(mirror.name):
        return config
    if not is_valid_name(mirror.name):
        raise ApiError.of(error_codes.MIRROR_INVALID_STREAM_NAME)
    origin = streams.get(mirror.name)
    if origin is None:
        return config
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise ApiError.of(error_codes.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG)
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise pedantic_error("origin stream has direct get set, mirror has it disabled")
    return msgspec.structs.replace(config, mirror_direct=origin.allow_direct)


def _check_mirror_settings(config: StreamConfig) -> None:
    """Refuse settings that would give a mirror messages that its origin does not have."""
    refusals = (
        (config.first_seq > 0, error_codes.MIRROR_WITH_FIRST_SEQ),
        (bool(config.subjects), error_codes.MIRROR_WITH_SUBJECTS),
        (bool(config.sources), error_codes.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, error_codes.MIRROR_WITH_COUNTERS),
        (config.allow_atomic, error_codes.MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, error_codes.MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, error_codes.MIRROR_WITH_MSG_SCHEDULES),
    )
    for is_set, error in refusals:
        if is_set:
            raise ApiError.of(error)


def _is_usable(consumer: StreamConsumerSource, source: StreamSource) -> bool:
    """Whether an existing consumer can feed the stream; the consumer defines the start."""
    return (
        is_valid_name(consumer.name)
        and is_valid_literal(consumer.deliver_subject)
        and not source.opt_start_seq
        and source.opt_start_time is None
        and not source.filter_subject
    )


def _check_mirror_filters(mirror: StreamSource) -> None:
    for position, transform in enumerate(mirror.subject_transforms):
        if transform.src and not is_valid_subject(transform.src):
            reason = f"{BAD_SUBJECT} {transform.src}"
            raise ApiError.of(error_codes.MIRROR_INVALID_SUBJECT_FILTER, err=reason)
        if (problem := mapping_error(transform)) is not None:
            raise ApiError.of(error_codes.MIRROR_INVALID_TRANSFORM_DESTINATION, err=problem)
        for other, compared in enumerate(mirror.subject_transforms):
            if other != position and collide(transform.src, compared.src):
                raise ApiError.of(error_codes.MIRROR_OVERLAPPING_SUBJECT_FILTERS)


def check_sources(config: StreamConfig, streams: Mapping[str, StreamConfig]) -> None:
    """Refuse sources that cannot be read, or that occur twice."""
    if config.sources and config.allow_msg_schedules:
        raise ApiError.of(error_codes.SOURCE_WITH_MSG_SCHEDULES)
    comparisons = sum(
        len(source.subject_transforms) ** 2 for source in config.sources if source is not None
    )
    if comparisons > COMPARISONS_MAX:
        raise invalid(TOO_MANY_SUBJECTS)
    identities: set[object] = set()
    consumers: set[object] = set()
    for source in config.sources:
        if source is None or not is_valid_name(source.name):
            raise ApiError.of(error_codes.SOURCE_INVALID_STREAM_NAME)
        if (identity := _identity(source)) in identities:
            raise ApiError.of(error_codes.SOURCE_DUPLICATE_DETECTED)
        identities.add(identity)
        _check_source_filters(source)
        _check_source_consumer(source, consumers)
        origin = streams.get(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise ApiError.of(error_codes.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG)


def _identity(source: StreamSource) -> tuple[object, ...]:
    """The settings by which two sources of one stream differ."""
    filters = tuple((each.src or ALL, each.dest or ALL) for each in source.subject_transforms)
    return (
        *_place(source),
        None if source.consumer is None else source.consumer.name,
        filters or ((source.filter_subject or ALL, ALL),),
    )


def _place(source: StreamSource) -> tuple[str, str | None]:
    return source.name, None if source.external is None else source.external.api


def _check_source_filters(source: StreamSource) -> None:
    transforms = source.subject_transforms
    if source.filter_subject and transforms:
        raise ApiError.of(error_codes.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED)
    for transform in transforms:
        if transform.src and not is_valid_subject(transform.src):
            reason = f"{BAD_SUBJECT} {transform.src}"
            raise ApiError.of(error_codes.SOURCE_INVALID_SUBJECT_FILTER, err=reason)
        if (problem := mapping_error(transform)) is not None:
            raise ApiError.of(error_codes.SOURCE_INVALID_TRANSFORM_DESTINATION, err=problem)
    for position, transform in enumerate(transforms):
        for other, compared in enumerate(transforms):
            if other != position and is_subset(transform.src, compared.src):
                raise ApiError.of(error_codes.SOURCE_OVERLAPPING_SUBJECT_FILTERS)


def _check_source_consumer(source: StreamSource, taken: set[object]) -> None:
    if source.consumer is None:
        return
    if not _is_usable(source.consumer, source):
        raise ApiError.of(error_codes.SOURCE_DURABLE_CONSUMER_CFG_INVALID)
    consumer = (*_place(source), source.consumer.name)
    if consumer in taken:
        raise ApiError.of(error_codes.SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED)
    taken.add(consumer)


def check_external(config: StreamConfig, streams: Mapping[str, StreamConfig]) -> None:
    """Refuse prefixes that overlap with subjects of this account."""
    sources = [source for source in (config.mirror, *config.sources) if source is not None]
    local = [streams[each.name] for each in sources if not each.external and each.name in streams]
    subjects = [subject for origin in local for subject in origin.subjects]
    externals = [source.external for source in sources if source.external is not None]
    if len(externals) * len(subjects) > COMPARISONS_MAX:
        raise invalid(TOO_MANY_SUBJECTS)
    for prefix in (external.deliver for external in externals if external.deliver):
        if not is_valid_literal(prefix):
            raise ApiError.of(error_codes.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ, prefix=prefix)
        for subject in subjects:
            if collide(subject, f"{prefix}.{subject}"):
                error = error_codes.STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS
                raise ApiError.of(error, prefix=prefix, subject=subject)
    for prefix in (external.api for external in externals if external.api):
        if not is_valid_literal(prefix):
            raise invalid(
                f"stream external api prefix {quote(prefix)}"
                " must be a valid subject without wildcards"
            )
        if collide(prefix, API_PREFIX):
            error = error_codes.STREAM_EXTERNAL_API_OVERLAP
            raise ApiError.of(error, prefix=prefix, subject=API_PREFIX)


def check_cycles(config: StreamConfig, streams: Mapping[str, StreamConfig]) -> None:
    """Refuse a stream that would get its own messages back."""
    to_visit = [config]
    visited: set[str] = set()
    while to_visit:
        stream = to_visit.pop(0)
        visited.add(stream.name)
        for source in stream.sources:
            if source is None or source.external is not None:
                continue
            if source.name in visited:
                if _takes(source, stream):
                    raise invalid("detected cycle")
            elif source.name in streams:
                to_visit.append(streams[source.name])
        mirror = stream.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise invalid("detected cycle")
            if mirror.name in streams:
                to_visit.append(streams[mirror.name])


def _takes(source: StreamSource, stream: StreamConfig) -> bool:
    wanted = source.filter_subject
    return not wanted or any(collide(subject, wanted) for subject in stream.subjects)


def check_filters(config: StreamConfig) -> None:
    """Refuse filters that are not subjects; nats-server only notices when it adds the stream."""
    mirror = config.mirror
    if mirror is not None and _has_bad_filter(mirror):
        reason = f"subject filter '{mirror.filter_subject}' for the mirror {BAD_SUBJECT}"
        raise ApiError.of(error_codes.STREAM_CREATE, err=reason)
    for source in config.sources:
        if source is not None and _has_bad_filter(source):
            reason = f"subject filter '{source.filter_subject}' for the source: {BAD_SUBJECT}"
            raise ApiError.of(error_codes.STREAM_CREATE, err=reason)


def _has_bad_filter(source: StreamSource) -> bool:
    return bool(source.filter_subject) and not is_valid_subject(source.filter_subject)
