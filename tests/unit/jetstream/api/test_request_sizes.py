"""Requests have bounds: at the limit they are taken, one past it they are refused."""

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from headwater.jetstream.api import request_sizes
from headwater.jetstream.api.documents import (
    MessageGetRequest,
    PurgeRequest,
    StreamInfoRequest,
    StreamListRequest,
    StreamNamesRequest,
)
from headwater.jetstream.api.message_get import get_direct
from headwater.jetstream.api.request_sizes import (
    FILTERS_MAX,
    SUBJECT_BYTES_MAX,
    SUBJECTS_BYTES_MAX,
    SUBJECTS_MAX,
    SUBJECTS_TOKENS_MAX,
    VALUES_MAX,
    check_sizes,
)
from headwater.jetstream.api.restore import RestoreRequest
from headwater.jetstream.api.snapshot import SnapshotRequest
from headwater.jetstream.config.consumer_config import ConsumerConfig, ConsumerRequest
from headwater.jetstream.config.stream_checks.checks import Surroundings, check_new
from headwater.jetstream.config.stream_checks.sources import COMPARISONS_MAX
from headwater.jetstream.config.stream_config import (
    ExternalStream,
    Placement,
    Republish,
    StreamConfig,
    StreamConsumerSource,
    StreamRequest,
    StreamSource,
    SubjectTransformConfig,
)
from headwater.jetstream.errors import ApiError

LONGEST = "s" * SUBJECT_BYTES_MAX
TOO_LONG = LONGEST + "s"


def refusal(request: msgspec.Struct) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        check_sizes(request)
    return caught.value.err_code, caught.value.description


def stream(**settings: Any) -> StreamRequest:
    return StreamRequest(name="S", **settings)


def source(**settings: Any) -> StreamRequest:
    return stream(sources=(StreamSource(name="T", **settings),))


def consumer(**settings: Any) -> ConsumerRequest:
    return ConsumerRequest(stream_name="S", config=ConsumerConfig(**settings))


CONFIGURATIONS: dict[str, Callable[[str], msgspec.Struct]] = {
    "subjects": lambda text: stream(subjects=(text,)),
    "republish.src": lambda text: stream(republish=Republish(src=text)),
    "republish.dest": lambda text: stream(republish=Republish(dest=text)),
    "transform.src": lambda text: stream(subject_transform=SubjectTransformConfig(src=text)),
    "transform.dest": lambda text: stream(subject_transform=SubjectTransformConfig(dest=text)),
    "mirror.filter": lambda text: stream(mirror=StreamSource(filter_subject=text)),
    "source.filter": lambda text: source(filter_subject=text),
    "source.transform": lambda text: source(subject_transforms=(SubjectTransformConfig(src=text),)),
    "external.api": lambda text: source(external=ExternalStream(api=text)),
    "external.deliver": lambda text: source(external=ExternalStream(deliver=text)),
    "source.consumer": lambda text: source(
        consumer=StreamConsumerSource(name="c", deliver_subject=text)
    ),
    "restored": lambda text: RestoreRequest(config=StreamConfig(name="S", subjects=(text,))),
    "filter_subject": lambda text: consumer(filter_subject=text),
    "filter_subjects": lambda text: consumer(filter_subjects=(text,)),
    "deliver_subject": lambda text: consumer(deliver_subject=text),
    "deliver_group": lambda text: consumer(deliver_group=text),
}
QUESTIONS: dict[str, Callable[[str], msgspec.Struct]] = {
    "purge": lambda text: PurgeRequest(filter=text),
    "info": lambda text: StreamInfoRequest(subjects_filter=text),
    "names": lambda text: StreamNamesRequest(subject=text),
    "list": lambda text: StreamListRequest(subject=text),
    "snapshot": lambda text: SnapshotRequest(deliver_subject=text),
    "last_by_subj": lambda text: MessageGetRequest(last_by_subj=text),
    "next_by_subj": lambda text: MessageGetRequest(next_by_subj=text),
    "multi_last": lambda text: MessageGetRequest(multi_last=(text,)),
}


@pytest.mark.parametrize("place", CONFIGURATIONS)
def test_a_subject_of_a_configuration_fits_into_a_control_line(place: str) -> None:
    check_sizes(CONFIGURATIONS[place](LONGEST))
    expected = (10052, f"subject is too long, maximum allowed is {SUBJECT_BYTES_MAX}")
    assert refusal(CONFIGURATIONS[place](TOO_LONG)) == expected
    # The limit counts bytes, not characters.
    assert refusal(CONFIGURATIONS[place]("\u00e9" * (SUBJECT_BYTES_MAX // 2 + 1))) == expected


@pytest.mark.parametrize("place", QUESTIONS)
def test_a_subject_that_is_asked_for_fits_into_a_control_line(place: str) -> None:
    check_sizes(QUESTIONS[place](LONGEST))
    assert refusal(QUESTIONS[place](TOO_LONG)) == (10003, "bad request")


def test_a_list_of_subjects_has_an_end() -> None:
    texts = tuple(f"s{number}" for number in range(SUBJECTS_MAX + 1))
    check_sizes(stream(subjects=texts[1:]))
    expected = f"too many subjects, maximum allowed is {SUBJECTS_MAX}"
    assert refusal(stream(subjects=texts)) == (10052, expected)
    check_sizes(consumer(filter_subjects=texts[:FILTERS_MAX]))
    expected = f"too many filter subjects, maximum allowed is {FILTERS_MAX}"
    assert refusal(consumer(filter_subjects=texts[: FILTERS_MAX + 1])) == (10052, expected)
    check_sizes(MessageGetRequest(multi_last=texts[1:]))
    assert refusal(MessageGetRequest(multi_last=texts)) == (10003, "bad request")


def test_the_subjects_of_a_list_are_bounded_together() -> None:
    count = SUBJECTS_BYTES_MAX // SUBJECT_BYTES_MAX
    check_sizes(stream(subjects=(LONGEST,) * count))
    expected = f"subjects are too long, maximum allowed is {SUBJECTS_BYTES_MAX}"
    assert refusal(stream(subjects=(*[LONGEST] * count, "s"))) == (10052, expected)
    tokens = ".".join(["s"] * (SUBJECTS_TOKENS_MAX // 16))
    check_sizes(stream(subjects=(tokens,) * 16))
    expected = f"too many tokens in subjects, maximum allowed is {SUBJECTS_TOKENS_MAX}"
    assert refusal(stream(subjects=(*[tokens] * 16, "s"))) == (10052, expected)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda count: consumer(backoff=(1,) * count), "backoff values"),
        (lambda count: consumer(priority_groups=("g",) * count), "priority groups"),
        (lambda count: consumer(sample_freq="1" * count), "digits in the sampling frequency"),
        (lambda count: stream(placement=Placement(tags=("t",) * count)), "placement tags"),
    ],
)
def test_other_lists_have_an_end_too(make: Any, what: str) -> None:
    check_sizes(make(VALUES_MAX))
    expected = f"too many {what}, maximum allowed is {VALUES_MAX}"
    assert refusal(make(VALUES_MAX + 1)) == (10052, expected)


@pytest.mark.parametrize("place", ["mirror", "source"])
def test_transforms_are_compared_with_one_another_up_to_a_number(place: str) -> None:
    count = int(COMPARISONS_MAX**0.5)

    def taken(count: int) -> str:
        pairs = tuple(
            SubjectTransformConfig(src=f"s.{number}", dest=f"d.{number}") for number in range(count)
        )
        copied = StreamSource(name="T", subject_transforms=pairs)
        request = stream(mirror=copied) if place == "mirror" else stream(sources=(copied,))
        try:
            check_new(request, Surroundings())
        except ApiError as error:
            return error.description
        return ""

    assert taken(count) == ""
    assert taken(count + 1) == "too many subjects to compare"


def test_a_direct_read_with_a_long_subject_is_a_bad_request() -> None:
    body = b'{"seq":1,"next_by_subj":"%b"}' % TOO_LONG.encode()
    ((block, _),) = [reply for reply in get_direct(None, body, 1) if reply]  # type: ignore[arg-type]
    assert block.startswith(b"NATS/1.0 408 Bad Request")


# --- nothing is forgotten ------------------------------------------------------------------------

# Texts that are no subjects: names, and fields with bounds of their own.
NO_SUBJECTS = {
    "name",
    "description",
    "metadata",
    "cluster",
    "preferred",
    "tags",
    "durable_name",
    "sample_freq",
    "priority_groups",
    "stream_name",
    "group",
}
SUBJECTS = {
    "subjects",
    "src",
    "dest",
    "filter_subject",
    "filter_subjects",
    "api",
    "deliver",
    "deliver_subject",
    "deliver_group",
    "filter",
    "subjects_filter",
    "subject",
    "last_by_subj",
    "next_by_subj",
    "multi_last",
}


def texts_of(kind: Any) -> set[str]:
    """The fields of a request that have texts, also in its parts."""
    found: set[str] = set()
    for name, hint in get_type_hints(kind).items():
        if name == "go_name":
            continue
        parts = [hint]
        while parts:
            part = parts.pop()
            parts += get_args(part)
            if part is str:
                found.add(name)
            elif isinstance(part, type) and issubclass(part, msgspec.Struct):
                found |= texts_of(part)
    return found


def test_every_text_of_a_request_is_a_subject_with_a_bound_or_none() -> None:
    kinds = request_sizes._CHECKS
    assert {name for kind in kinds for name in texts_of(kind)} - NO_SUBJECTS == SUBJECTS
