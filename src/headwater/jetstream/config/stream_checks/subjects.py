"""Rules for the subjects of a stream: those it captures, transforms and republishes.

The order of the rules is nats-server's: a client learns the first of several errors. Nothing here
changes a stream or knows the kind of the request.
"""

from typing import Final

import msgspec

from headwater.go.quoting import quote
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_checks.overlap import (
    ALL,
    Overlaps,
    TooManySubjects,
    collide,
    is_literal,
    is_subset,
)
from headwater.jetstream.config.stream_config import Republish, StreamConfig, SubjectTransformConfig
from headwater.jetstream.config.stream_subjects import Taken
from headwater.jetstream.errors import ApiError
from headwater.subjects import grammar
from headwater.subjects.transform import (
    SubjectTransform,
    TransformError,
    check_characters,
    validate_mapping,
)

BAD_SUBJECT: Final = "invalid subject"
TOO_MANY_SUBJECTS: Final = "too many subjects to compare"

_JETSTREAM_SPACES: Final = ("$JS.>", "$JSC.>", "$NRG.>")
_EVENTS: Final = "$JS.EVENT.>"
_SYSTEM_SPACE: Final = "$SYS.>"
_SYSTEM_ACCOUNTS: Final = "$SYS.ACCOUNT.>"


def invalid(reason: str) -> ApiError:
    """The error of most rules."""
    return ApiError.of(error_codes.STREAM_INVALID_CONFIG, err=reason)


def pedantic_error(reason: str) -> ApiError:
    """The error for a value that would be adjusted silently without the pedantic mode."""
    return ApiError.of(error_codes.PEDANTIC, err=reason)


def is_valid_subject(subject: str) -> bool:
    """Whether a stream may capture the subject."""
    if grammar.has_blank_or_control(subject):
        return False
    return grammar.is_valid_pattern(subject.encode())


def is_valid_literal(subject: str) -> bool:
    """Whether a client may publish to the subject."""
    return is_valid_subject(subject) and is_literal(subject)


def overlaps_another(config: StreamConfig, taken: Taken) -> bool:
    """Whether a message could belong to `config` and to another stream."""
    try:
        return taken.overlaps(config.name, config.subjects)
    except TooManySubjects:
        raise invalid(TOO_MANY_SUBJECTS) from None


def with_subjects(config: StreamConfig) -> StreamConfig:
    """The configuration with the subjects of the stream, all of them allowed."""
    if not config.subjects:
        if config.mirror is not None or config.sources:
            return config
        return msgspec.structs.replace(config, subjects=(config.name,))
    # Literal subjects, of which there may be many, only have to differ.
    is_plain = not any("*" in subject or ALL in subject for subject in config.subjects)
    are_apart = is_plain and len(set(config.subjects)) == len(config.subjects)
    overlaps = Overlaps(() if are_apart else config.subjects)
    for position, subject in enumerate(config.subjects):
        if not is_valid_subject(subject):
            raise invalid(BAD_SUBJECT)
        _check_reserved(config, subject)
        if are_apart:
            continue
        try:
            colliding = list(overlaps.colliding_with(subject))
        except TooManySubjects:
            raise invalid(TOO_MANY_SUBJECTS) from None
        # The subject overlaps with itself. An earlier overlap was refused at the earlier subject.
        if len(colliding) > 1:
            other = next(each for each in config.subjects[position + 1 :] if each in colliding)
            raise invalid(f"subject {quote(subject)} overlaps with {quote(other)}")
    return config


def _check_reserved(config: StreamConfig, subject: str) -> None:
    """Refuse subjects on which the server's own messages would be answered by acks."""
    if config.no_ack:
        if subject == ALL and config.num_replicas != 1:
            raise invalid("capturing all subjects requires replicas of 1")
        return
    if subject == ALL:
        raise invalid("capturing all subjects requires no-ack to be true")
    if subject[0] not in "$*>":
        return
    for space in _JETSTREAM_SPACES:
        if collide(subject, space) and not is_subset(subject, _EVENTS):
            raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    if collide(subject, _SYSTEM_SPACE) and not is_subset(subject, _SYSTEM_ACCOUNTS):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def mapping_error(transform: SubjectTransformConfig) -> str | None:
    """The error in the destination of a transform; None if it has none."""
    try:
        validate_mapping(transform.src.encode(), transform.dest.encode())
    except TransformError as error:
        return error.reply
    return None


def check_transform(transform: SubjectTransformConfig | None) -> None:
    """Refuse a transform that cannot be applied."""
    if transform is None:
        return
    if transform.src and not is_valid_subject(transform.src):
        shown = f"{BAD_SUBJECT} {transform.src}"
        raise ApiError.of(error_codes.STREAM_TRANSFORM_INVALID_SOURCE, err=shown)
    if (reason := mapping_error(transform)) is not None:
        raise ApiError.of(error_codes.STREAM_TRANSFORM_INVALID_DESTINATION, err=reason)


def with_republish(config: StreamConfig, pedantic: bool) -> StreamConfig:
    """The configuration with its republish rule, whose destination must not be captured again."""
    republish = config.republish
    if republish is None:
        return config
    if not republish.src:
        if pedantic:
            raise pedantic_error("republish source can not be empty")
        republish = msgspec.structs.replace(republish, src=ALL)
    republish = _following_transform(republish, config, pedantic)
    if any(collide(republish.dest, subject) for subject in config.subjects):
        raise invalid("stream configuration for republish destination forms a cycle")
    if not _is_publishable_again(republish):
        raise invalid(
            f"stream configuration for republish with transform from '{republish.src}'"
            f" to '{republish.dest}' not valid"
        )
    return msgspec.structs.replace(config, republish=republish)


def _is_publishable_again(republish: Republish) -> bool:
    if grammar.has_blank_or_control(republish.src):
        return False
    try:
        SubjectTransform.parse(republish.src.encode(), republish.dest.encode())
        check_characters(republish.dest.encode())
    except TransformError:
        return False
    return True


def with_republish_everywhere(config: StreamConfig) -> StreamConfig:
    """Replace an empty destination, which a new stream keeps, by `>` in an update."""
    republish = config.republish
    if republish is None or republish.dest:
        return config
    try:
        SubjectTransform.parse(republish.src.encode(), ALL.encode())
    except TransformError as error:
        source = f"stream configuration for republish from '{republish.src}' to '{ALL}'"
        reason = f"{source}: {error.reply}"
        raise ApiError.of(error_codes.STREAM_UPDATE, err=reason) from None
    republish = msgspec.structs.replace(republish, dest=ALL)
    return msgspec.structs.replace(config, republish=republish)


def _following_transform(republish: Republish, config: StreamConfig, pedantic: bool) -> Republish:
    """A republish of all to all uses the subject after the transform."""
    transform = config.subject_transform
    if (
        (republish.src, republish.dest) != (ALL, ALL)
        or transform is None
        or config.subjects != (transform.src,)
    ):
        return republish
    if pedantic:
        raise pedantic_error("implicit republish based on subject transform")
    return msgspec.structs.replace(republish, src=transform.dest, dest=transform.dest)
