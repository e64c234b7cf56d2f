"""Limits on the size of a request: the length of its subjects, and their number.

nats-server has no such limits beyond the size of a payload, and takes minutes for requests that are
refused here. A subject that is longer than a control line can be neither published nor subscribed
to. A list of subjects may be as large as metadata may be, and is compared with others by token;
filters of a consumer are compared with every subject of the stream as well.

Subjects that a stream already has are not checked: the limits are for requests.
"""

from collections.abc import Callable, Iterable, Sized
from typing import Final

import msgspec

from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import (
    MessageGetRequest,
    PurgeRequest,
    StreamInfoRequest,
    StreamListRequest,
    StreamNamesRequest,
)
from headwater.jetstream.api.restore import RestoreRequest
from headwater.jetstream.api.snapshot import SnapshotRequest
from headwater.jetstream.config.consumer_config import ConsumerRequest
from headwater.jetstream.config.stream_checks.subjects import invalid
from headwater.jetstream.config.stream_config import StreamConfig, StreamRequest, StreamSource
from headwater.jetstream.errors import ApiError

# The default of `max_control_line`.
SUBJECT_BYTES_MAX: Final = 4096
SUBJECTS_MAX: Final = 2048
SUBJECTS_BYTES_MAX: Final = 128 * 1024
SUBJECTS_TOKENS_MAX: Final = 16 * 1024
FILTERS_MAX: Final = 1024
# The limit of all other lists, which are shorter in practice.
VALUES_MAX: Final = 1024


def check_sizes(request: msgspec.Struct) -> None:
    """Refuse a request whose subjects are too long or too many. Raises ApiError."""
    check = _CHECKS.get(type(request))
    if check is not None:
        check(request)


def _too_long(what: str, limit: int) -> ApiError:
    return invalid(f"{what} too long, maximum allowed is {limit}")


def _size(subject: str) -> int:
    # Few subjects are not ASCII, and few are long.
    if len(subject) <= SUBJECT_BYTES_MAX // 4:
        return len(subject)
    return len(subject.encode(errors="surrogateescape"))


def _check_each(subjects: Iterable[str]) -> None:
    for subject in subjects:
        if _size(subject) > SUBJECT_BYTES_MAX:
            raise _too_long("subject is", SUBJECT_BYTES_MAX)


def _check_list(subjects: tuple[str, ...], what: str, count_max: int) -> None:
    if len(subjects) > count_max:
        raise invalid(f"too many {what}, maximum allowed is {count_max}")
    _check_each(subjects)
    if sum(map(len, subjects)) > SUBJECTS_BYTES_MAX:
        raise _too_long(f"{what} are", SUBJECTS_BYTES_MAX)
    tokens = len(subjects) + sum(subject.count(".") for subject in subjects)
    if tokens > SUBJECTS_TOKENS_MAX:
        raise invalid(f"too many tokens in {what}, maximum allowed is {SUBJECTS_TOKENS_MAX}")


def _check_count(values: Sized | None, what: str) -> None:
    if values is not None and len(values) > VALUES_MAX:
        raise invalid(f"too many {what}, maximum allowed is {VALUES_MAX}")


def _check_stream(config: StreamConfig) -> None:
    _check_list(config.subjects, "subjects", SUBJECTS_MAX)
    if config.placement is not None:
        _check_count(config.placement.tags, "placement tags")
    for pair in (config.subject_transform, config.republish):
        if pair is not None:
            _check_each((pair.src, pair.dest))
    for source in (config.mirror, *config.sources):
        if source is not None:
            _check_source(source)


def _check_source(source: StreamSource) -> None:
    external, consumer = source.external, source.consumer
    _check_each((source.filter_subject,))
    _check_each(text for pair in source.subject_transforms for text in (pair.src, pair.dest))
    if external is not None:
        _check_each((external.api, external.deliver))
    if consumer is not None:
        _check_each((consumer.deliver_subject,))


def _check_consumer(request: ConsumerRequest) -> None:
    config = request.config
    _check_each((config.filter_subject, config.deliver_subject, config.deliver_group))
    _check_count(config.sample_freq, "digits in the sampling frequency")
    _check_list(config.filter_subjects, "filter subjects", FILTERS_MAX)
    _check_count(config.backoff, "backoff values")
    _check_count(config.priority_groups, "priority groups")


def _check_asked(subject: str) -> None:
    if _size(subject) > SUBJECT_BYTES_MAX:
        raise ApiError.of(error_codes.BAD_REQUEST)


def is_too_large(request: MessageGetRequest) -> bool:
    """Whether a request for messages has subjects that are too long or too many."""
    many = request.multi_last
    if len(many) > SUBJECTS_MAX:
        return True
    subjects = (request.last_by_subj, request.next_by_subj, *many)
    return any(_size(subject) > SUBJECT_BYTES_MAX for subject in subjects)


def _check_get(request: MessageGetRequest) -> None:
    if is_too_large(request):
        raise ApiError.of(error_codes.BAD_REQUEST)


_CHECKS: Final[dict[type[msgspec.Struct], Callable[..., None]]] = {
    StreamRequest: _check_stream,
    RestoreRequest: lambda request: _check_stream(request.config),
    ConsumerRequest: _check_consumer,
    PurgeRequest: lambda request: _check_asked(request.filter),
    StreamInfoRequest: lambda request: _check_asked(request.subjects_filter),
    StreamNamesRequest: lambda request: _check_asked(request.subject),
    StreamListRequest: lambda request: _check_asked(request.subject),
    SnapshotRequest: lambda request: _check_asked(request.deliver_subject),
    MessageGetRequest: _check_get,
}
