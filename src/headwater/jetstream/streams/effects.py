"""The effects of a record on the messages of a stream: which ones come, and which ones go.

Messages remove others: by limits, by roll-ups, by the end of a schedule. The effects follow from
the record, the configuration and the messages that are there, and are computed here alone.
`Stream.apply` carries them out on the log; the look-ahead carries them out on the messages as they
will be, before the log has the record.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from headwater.jetstream import header_names as names
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Published, Skipped
from headwater.jetstream.streams.limits import (
    Messages,
    beyond_limits,
    has_limits,
    has_to_go_singly,
)

# Messages that a message purges: the subject (None for all), and the sequence before which.
Purge: TypeAlias = tuple[bytes | None, int]


class Shown(NamedTuple):
    """The messages of a record from one position to another become visible."""

    begin: int
    end: int


class BeyondLimits(NamedTuple):
    """Messages go because of limits."""

    sequences: list[int]


class Settled(NamedTuple):
    """The messages from one position to another have taken their place; the last one may purge.

    Streams without schedules get this effect for messages that purge only.
    """

    begin: int
    end: int
    purges: list[Purge]


Effect: TypeAlias = Shown | BeyondLimits | Settled


def effects_of(
    record: Published | Skipped, messages: Messages, config: StreamConfig
) -> Iterator[Effect]:
    """The effects of a record, in order.

    The caller carries out each effect on `messages` before it asks for the next one.
    """
    if isinstance(record, Skipped):
        return iter((Settled(0, 0, purges_of_skipped(record, config)),))
    roll_ups = dict(roll_ups_in(record, config)) if record.rolls_up else {}
    return effects_of_messages(record.batch.subjects, roll_ups, messages, config)


def effects_of_messages(
    subjects: Sequence[bytes],
    roll_ups: Mapping[int, list[Purge]],
    messages: Messages,
    config: StreamConfig,
) -> Iterator[Effect]:
    """The effects of messages on `subjects`; `roll_ups` has purges by the position behind each."""
    count, is_limited = len(subjects), has_limits(config)
    ends: Sequence[int] = (*roll_ups, count)
    if count > 1 and has_to_go_singly(config):
        ends = range(1, count + 1)
    begin = 0
    for end in ends:
        if begin == end:
            # The last message was a roll-up.
            break
        yield Shown(begin, end)
        if is_limited:
            gone = beyond_limits(messages, config, subjects[begin:end])
            if gone:
                yield BeyondLimits(gone)
        purges = roll_ups.get(end, [])
        if purges or config.allow_msg_schedules:
            yield Settled(begin, end, purges)
        begin = end


def roll_ups_in(record: Published, config: StreamConfig) -> Iterator[tuple[int, list[Purge]]]:
    """The messages that roll up others: the position behind each, and the purges."""
    for position, header in enumerate(record.batch.headers):
        if header:
            control = names.read_control_headers(header)
            sequence = record.first_sequence + position
            purges = purges_of(control, record.batch.subjects[position], sequence, config)
            if purges:
                yield position + 1, purges


def purges_of_skipped(record: Skipped, config: StreamConfig) -> list[Purge]:
    """The purges of a message that is not stored itself."""
    control = names.read_control_headers(record.header)
    return purges_of(control, record.subject, record.last_sequence + 1, config)


def purges_of(
    control: dict[bytes, bytes], subject: bytes, sequence: int, config: StreamConfig
) -> list[Purge]:
    """The messages that a message replaces: the subject, None for all, and the end of the range."""
    if not may_roll_up(config):
        return []
    purges: list[Purge] = []
    value = control.get(names.ROLLUP, b"").lower()
    if value == names.ROLLUP_SUBJECT:
        purges.append((subject, sequence))
    elif value == names.ROLLUP_ALL:
        purges.append((None, sequence))
    if control.get(names.SCHEDULE_NEXT) == names.SCHEDULE_NEXT_PURGE:
        scheduler = control.get(names.SCHEDULER)
        if scheduler is not None:
            purges.append((scheduler, sequence))
    return purges


def may_roll_up(config: StreamConfig) -> bool:
    """Whether a message may replace those before it."""
    return config.allow_rollup_hdrs and not config.deny_purge
