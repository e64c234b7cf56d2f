"""The rules that an incoming message has to meet, one function each.

A rule reads a stream's configuration, the headers of the message and the stored or accepted
messages (`Draft`), and raises ApiError with the reason of a refusal. `Admission` decides on the
order of the rules: a client learns the first of several reasons.

Most messages have nothing that a rule refuses. Beside a rule stands the condition under which many
messages pass it together, without a call for each. Messages that meet all of them are accepted
unseen (`takes_unseen`, `pass_all`); one that only seems to need a check gets the same result from
it.
"""

from typing import Final, TypeAlias

from headwater.go.quoting import quote_bytes
from headwater.jetstream import error_codes
from headwater.jetstream import header_names as names
from headwater.jetstream.config.stream_config import Discard, Retention, Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.provenance import read_provenance
from headwater.jetstream.streams.dedupe import ids_in
from headwater.jetstream.streams.effects import may_roll_up
from headwater.jetstream.streams.foreseen import Foreseen
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.jetstream.streams.publishing import counters
from headwater.jetstream.streams.publishing.draft import Draft
from headwater.jetstream.streams.publishing.ttl import TtlError, ttl_seconds
from headwater.store.disk.format import SUBJECT_BYTES_MAX
from headwater.wire.headers import VERSION, value_of

# The headers of a message that a stream may act on (`read_control_headers`).
Control: TypeAlias = dict[bytes, bytes]

HEADER_BYTES_MAX: Final = 65_535
# The largest record of nats-server's file store.
RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
# Larger payloads are compared with the size of a record one by one.
LARGE_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
SEQUENCE_MASK: Final = (1 << 64) - 1
# 10 to the power of 64 is a multiple of 2 to the power of 64: further digits have no effect.
_DIGITS_IN_64_BITS: Final = 64

_ROLLUPS: Final = (names.ROLLUP_SUBJECT, names.ROLLUP_ALL)

# Headers that a rule reads; most messages have none of them. The message id is handled apart.
RULED_HEADERS: Final = frozenset(
    {
        names.EXPECTED_LAST_MSG_ID,
        names.EXPECTED_LAST_SEQUENCE,
        names.EXPECTED_LAST_SUBJECT_SEQUENCE,
        names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
        names.EXPECTED_STREAM,
        names.INCREMENT,
        names.ROLLUP,
        names.STREAM_SOURCE,
        names.TTL,
    }
)

# Headers that are refused together with an increment.
_NOT_WITH_INCREMENT: Final = (
    names.ROLLUP,
    names.EXPECTED_STREAM,
    names.EXPECTED_LAST_MSG_ID,
    names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    names.EXPECTED_LAST_SEQUENCE,
    names.EXPECTED_LAST_SUBJECT_SEQUENCE,
)


_HEADER_BEGINS: Final = VERSION + b"\r\n"
# Every header that a stream may act on begins so.
_KNOWN_BEGINS: Final = b"Nats-"
# Header lines that no rule reads; the lines of a batch are read by the batch itself.
ID_LINES: Final = (b"\r\n" + names.MSG_ID + b":",)
SOURCED_LINES: Final = (*ID_LINES, b"\r\n" + names.STREAM_SOURCE + b":")
BATCH_LINES: Final = (
    *ID_LINES,
    b"\r\n" + names.BATCH_ID + b":",
    b"\r\n" + names.BATCH_SEQUENCE + b":",
    b"\r\n" + names.BATCH_COMMIT + b":",
)


class DuplicateError(Exception):
    """A message with this id is stored already."""

    def __init__(self, sequence: int) -> None:
        super().__init__(sequence)
        self.sequence = sequence


# --- sizes ----------------------------------------------------------------------------------------


def check_arrival(config: StreamConfig, subject: bytes, header: bytes, body: bytes) -> None:
    """Apply the rules that come first for every message, whatever its headers are."""
    check_record_size(config, subject, header, body)
    check_not_sealed(config)
    check_message_size(config, header, body)
    check_header_size(header)


def check_record_size(config: StreamConfig, subject: bytes, header: bytes, body: bytes) -> None:
    """Refuse a message that is larger than a record of the log."""
    check_subject_size(subject)
    size = len(subject) + len(header) + len(body)
    if size > RECORD_BYTES_MAX and config.storage is Storage.FILE:
        raise store_failed("message to large")


def check_subject_size(subject: bytes) -> None:
    """Refuse a subject that is larger than a record allows, possibly after a transform."""
    if len(subject) > SUBJECT_BYTES_MAX:
        raise store_failed("subject too long")


def all_fit_records(subjects: list[bytes], subject_bytes: int, largest: int) -> bool:
    """Whether messages pass `check_record_size` and `check_subject_size`.

    `subject_bytes` is the size of all subjects, `largest` that of the largest header with its body.
    """
    return largest <= LARGE_PAYLOAD_BYTES and (
        subject_bytes <= SUBJECT_BYTES_MAX or max(map(len, subjects)) <= SUBJECT_BYTES_MAX
    )


def check_message_size(config: StreamConfig, header: bytes, body: bytes) -> None:
    """Refuse a message whose header and body exceed the stream's limit."""
    if not all_within_message_size(config, len(header) + len(body)):
        raise ApiError.of(error_codes.STREAM_MESSAGE_EXCEEDS_MAXIMUM)


def all_within_message_size(config: StreamConfig, largest: int) -> bool:
    """Whether messages pass `check_message_size`; the largest has so many bytes."""
    return config.max_msg_size < 0 or largest <= config.max_msg_size


def plain_bytes_max(config: StreamConfig) -> int:
    """The size up to which a body without headers passes `check_record_size` and
    `check_message_size`, if its subject passes `check_subject_size`."""
    if config.max_msg_size >= 0:
        return min(config.max_msg_size, LARGE_PAYLOAD_BYTES)
    return LARGE_PAYLOAD_BYTES


def check_header_size(header: bytes) -> None:
    """Refuse a header block above the limit of headers."""
    if len(header) > HEADER_BYTES_MAX:
        raise ApiError.of(error_codes.STREAM_HEADER_EXCEEDS_MAXIMUM)


def hold_only(headers: list[bytes], lines: tuple[bytes, ...]) -> bool:
    """Whether messages pass `check_header_size`, and no other rule reads their headers.

    Of all known headers they have `lines` at most. All headers are searched together. A header that
    only seems to have more, such as one whose id looks like a header name, is checked by itself,
    which is slower and has the same result.
    """
    joined = b"".join(headers)
    return (
        joined.count(_KNOWN_BEGINS) == sum(map(joined.count, lines))
        and max(map(len, headers)) <= HEADER_BYTES_MAX
        and all(header.startswith(_HEADER_BEGINS) for header in headers if header)
    )


# --- rules for headers ----------------------------------------------------------------------------


def check_not_sealed(config: StreamConfig) -> None:
    """Refuse any message to a sealed stream."""
    if config.sealed:
        raise ApiError.of(error_codes.STREAM_SEALED)


def check_increment(config: StreamConfig, control: Control, body: bytes) -> int | None:
    """The increment of a counter in a message, if it has one."""
    value = control.get(names.INCREMENT)
    if value is None:
        return None
    increment = counters.read_increment(value)
    if increment is None:
        raise ApiError.of(error_codes.MESSAGE_INCR_INVALID)
    if not config.allow_msg_counter:
        raise ApiError.of(error_codes.MESSAGE_INCR_DISABLED)
    if body:
        raise ApiError.of(error_codes.MESSAGE_INCR_PAYLOAD)
    if any(name in control for name in _NOT_WITH_INCREMENT):
        raise ApiError.of(error_codes.MESSAGE_INCR_INVALID)
    return increment


def check_expected_stream(config: StreamConfig, control: Control) -> None:
    """Refuse a message that is meant for another stream."""
    wanted = control.get(names.EXPECTED_STREAM)
    if wanted is not None and wanted != config.name.encode():
        raise ApiError.of(error_codes.STREAM_NOT_MATCH)


def check_ttl_allowed(config: StreamConfig, control: Control) -> None:
    """Refuse a valid TTL if TTLs are disabled; an invalid one is refused later."""
    value = control.get(names.TTL)
    if value is None or config.allow_msg_ttl:
        return
    try:
        seconds = ttl_seconds(value)
    except TtlError:
        return
    if seconds:
        raise ApiError.of(error_codes.MESSAGE_TTL_DISABLED)


def check_ttl_in_batch(config: StreamConfig, control: Control) -> None:
    """Refuse any TTL in a batch if TTLs are disabled, valid or not."""
    value = control.get(names.TTL)
    if value is None:
        return
    try:
        seconds = ttl_seconds(value)
    except TtlError:
        if config.allow_msg_ttl:
            raise ApiError.of(error_codes.MESSAGE_TTL_INVALID) from None
        raise ApiError.of(error_codes.MESSAGE_TTL_DISABLED) from None
    if seconds and not config.allow_msg_ttl:
        raise ApiError.of(error_codes.MESSAGE_TTL_DISABLED)


def read_ttl(control: Control) -> int:
    """The TTL of a message in seconds; 0 without one, NEVER if the message does not expire."""
    value = control.get(names.TTL)
    if value is None:
        return 0
    try:
        return ttl_seconds(value)
    except TtlError:
        raise ApiError.of(error_codes.MESSAGE_TTL_INVALID) from None


def check_not_sourced(control: Control) -> None:
    """Refuse a header that only a stream writes, about the source of a message."""
    if names.STREAM_SOURCE in control:
        raise ApiError.of(error_codes.MESSAGE_SOURCE_HDR_NOT_ALLOWED)


def check_no_expected_id(control: Control) -> None:
    """Refuse an expected last id, which atomic batches do not support."""
    if names.EXPECTED_LAST_MSG_ID in control:
        raise ApiError.of(
            error_codes.ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH,
            header=names.EXPECTED_LAST_MSG_ID.decode(),
        )


def check_rollup(config: StreamConfig, control: Control) -> None:
    """Refuse a roll-up that is disabled, or is neither of the subject nor of the whole stream."""
    value = control.get(names.ROLLUP)
    if value is None:
        return
    if not may_roll_up(config):
        raise rollup_failed("rollup not permitted")
    if value.lower() not in _ROLLUPS:
        raise rollup_failed(f"rollup value invalid: {quote_bytes(value.lower())}")


def check_rollup_in_batch(draft: Draft, control: Control, subject: bytes) -> None:
    """Refuse a roll-up in an atomic batch that would remove messages of the same batch."""
    value = control.get(names.ROLLUP, b"").lower()
    if value == names.ROLLUP_SUBJECT and draft.has_written(subject):
        raise rollup_failed("batch rollup sub invalid")
    if value == names.ROLLUP_ALL and not draft.is_batch_empty:
        raise rollup_failed("batch rollup all invalid")


# --- rules for the stored messages ----------------------------------------------------------------


def check_expected_sequence(draft: Draft, control: Control) -> None:
    """Refuse a message that expects another last sequence of the stream."""
    wanted = control.get(names.EXPECTED_LAST_SEQUENCE)
    last = draft.next_sequence - 1
    if wanted is not None and expected_number(wanted) != last:
        raise wrong_last_sequence(last)


def check_expected_subject_sequence(draft: Draft, control: Control, subject: bytes) -> None:
    """Refuse a message that expects another last sequence of its subject, or of a given pattern."""
    wanted = control.get(names.EXPECTED_LAST_SUBJECT_SEQUENCE)
    instead = control.get(names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT)
    if wanted is None:
        if instead is not None:
            raise ApiError.of(error_codes.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID)
        return
    found = draft.messages.last_sequence_of(subject if instead is None else instead)
    if expected_number(wanted) != found:
        raise wrong_last_sequence(found)


def check_sequences_in_batch(draft: Draft, control: Control, subject: bytes) -> None:
    """Refuse expectations in an atomic batch about messages of the same batch."""
    check_expected_sequence(draft, control)
    if names.EXPECTED_LAST_SEQUENCE in control and not draft.is_batch_empty:
        raise ApiError.of(error_codes.STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
    instead = control.get(names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, subject)
    if names.EXPECTED_LAST_SUBJECT_SEQUENCE in control and draft.has_written(instead):
        raise ApiError.of(error_codes.STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
    check_expected_subject_sequence(draft, control, subject)


def check_duplicate(draft: Draft, control: Control, now_ns: int) -> None:
    """Raises DuplicateError if the message is stored already; `Draft.are_new` tells it of many."""
    message_id = control.get(names.MSG_ID)
    found = 0 if message_id is None else draft.find_id(message_id, now_ns)
    if found:
        raise DuplicateError(found)


def check_expected_id(draft: Draft, control: Control) -> None:
    """Refuse a message that expects another id of the last message."""
    wanted = control.get(names.EXPECTED_LAST_MSG_ID)
    if wanted is not None and wanted != draft.last_id:
        last = draft.last_id.decode(errors="replace")
        raise ApiError.of(error_codes.STREAM_WRONG_LAST_MSG_ID, id=last)


def check_room(
    config: StreamConfig,
    messages: Foreseen,
    subject: bytes,
    size: int,
    rolls_up: bool,
    is_in_batch: bool,
) -> None:
    """Refuse a message for which a full stream with the policy discard new has no room."""
    is_subject_full = 0 < config.max_msgs_per_subject <= messages.count_of(subject)
    if is_subject_full and config.discard_new_per_subject and not rolls_up:
        raise store_failed("maximum messages per subject exceeded")
    # It replaces the oldest message of its subject, which counts outside of batches only.
    replaces = is_subject_full and not is_in_batch
    if 0 < config.max_msgs <= messages.messages and not replaces:
        raise store_failed("maximum messages exceeded")
    if 0 < config.max_bytes < messages.byte_count + size and not (
        replaces and messages.size_of(messages.oldest_of(subject, 1)[0]) >= size
    ):
        raise store_failed("maximum bytes exceeded")


def refuses_when_full(config: StreamConfig) -> bool:
    """Whether `check_room` may refuse a message."""
    return config.discard is Discard.NEW and (
        config.max_msgs > 0 or config.max_bytes > 0 or config.discard_new_per_subject
    )


# --- messages that are accepted unseen ------------------------------------------------------------


def takes_unseen(config: StreamConfig) -> bool:
    """Whether a stream stores messages without headers, or with new ids, as they come."""
    return not (
        # `check_not_sealed`
        config.sealed
        # `counted`
        or config.allow_msg_counter
        # `check_room`
        or refuses_when_full(config)
        # The rules of the stream for subjects: `PublishRules.has_interest`, `transformed` and
        # `republished`.
        or config.retention is Retention.INTEREST
        or config.subject_transform is not None
        or config.republish is not None
    )


def pass_all(
    config: StreamConfig,
    known: Draft | LookAhead,
    subjects: list[bytes],
    headers: list[bytes],
    subject_bytes: int,
    largest: int,
    lines: tuple[bytes, ...] = ID_LINES,
) -> bool:
    """Whether publishes to a stream that takes them unseen pass all rules but those for the room
    of the account.

    `lines` are the header lines that they may have; sizes are those of `all_fit_records`.
    """
    return (
        all_fit_records(subjects, subject_bytes, largest)
        and all_within_message_size(config, largest)
        and (not any(headers) or (hold_only(headers, lines) and known.are_new(ids_in(headers))))
    )


# --- contents ------------------------------------------------------------------------------------


def counted(
    config: StreamConfig,
    draft: Draft,
    subject: bytes,
    header: bytes,
    body: bytes,
    increment: int | None,
    max_payload: int,
) -> tuple[bytes, bytes]:
    """In a counter stream, the header and the body with the new total; else both unchanged."""
    if not config.allow_msg_counter:
        return header, body
    if increment is None:
        raise ApiError.of(error_codes.MESSAGE_INCR_MISSING)
    try:
        header, body = counters.increased(draft.messages.content_of(subject), increment, header)
    except counters.CounterBrokenError:
        raise ApiError.of(error_codes.MESSAGE_COUNTER_BROKEN) from None
    if len(header) + len(body) > max_payload:
        raise ApiError.of(error_codes.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
    check_message_size(config, header, body)
    return header, body


def merged_count(
    config: StreamConfig,
    draft: Draft,
    subject: bytes,
    header: bytes,
    body: bytes,
    increment: int | None,
    max_payload: int,
) -> tuple[bytes, bytes]:
    """The header and the body of a counter's message that comes from a source: its total becomes a
    part of the total of this stream."""
    if increment is None:
        raise ApiError.of(error_codes.MESSAGE_INCR_MISSING)
    provenance = read_provenance(value_of(header, names.STREAM_SOURCE) or b"")
    if provenance is None:
        return counted(config, draft, subject, header, body, increment, max_payload)
    try:
        header, body = counters.merged(
            draft.messages.content_of(subject),
            provenance.stream,
            provenance.subject or subject,
            header,
            body,
        )
    except counters.CounterBrokenError:
        raise ApiError.of(error_codes.MESSAGE_COUNTER_BROKEN) from None
    if len(header) + len(body) > max_payload:
        raise ApiError.of(error_codes.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
    return header, body


def expected_number(value: bytes) -> int:
    """A sequence in a header, modulo 64 bits; a value that is not a number equals no sequence."""
    if not value.isdigit():
        return SEQUENCE_MASK
    return int(value[-_DIGITS_IN_64_BITS:]) & SEQUENCE_MASK


def wrong_last_sequence(found: int) -> ApiError:
    """The error for another expected sequence."""
    return ApiError.of(error_codes.STREAM_WRONG_LAST_SEQUENCE, seq=found)


def rollup_failed(text: str) -> ApiError:
    """The error for a roll-up that is refused."""
    return ApiError.of(error_codes.STREAM_ROLLUP_FAILED, err=text)


def store_failed(text: str) -> ApiError:
    """The error for a message that the log refuses."""
    return ApiError.of(error_codes.STREAM_STORE_FAILED, err=text)
