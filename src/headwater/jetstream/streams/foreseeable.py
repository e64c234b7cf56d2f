"""The records whose effects on messages are foreseen before they are committed.

Publishes are decided while a purge or an update waits for its commit, if the messages that it
removes can be listed within a turn. Otherwise they wait for that one entry:

    a purge of one subject or of all messages    always
    a purge with `seq`, `keep` or a wildcard     if it removes few messages, or leaves none
    an update                                    if its limits remove no message, or the stream has
                                                 few; not if it changes the retention, for which
                                                 the needs of all consumers are compared with all
                                                 messages
    an update behind other records               likewise; in a stream with many messages, if it
                                                 keeps the limits; not if it begins to limit bytes,
                                                 which are not counted before

Purges and updates are decided while other records are in flight. Then each message in flight counts
as one that they may remove: records between them only remove messages.
"""

from typing import Final, NamedTuple

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Configured, Published, Purged, Removed, Skipped
from headwater.jetstream.streams.limits import exceeds_totals, narrows_subject_limit
from headwater.store.log.message_log import ALL_SUBJECTS, MessageLog
from headwater.subjects.grammar import has_wildcard

# The number of messages that a record may remove one by one.
FORESEEN_SINGLY_MAX: Final = 1024


class InFlight(NamedTuple):
    """The records in flight before another one: their number, the number of their messages, and
    the last sequence that is given out by them and the log."""

    records: int
    messages: int
    last_sequence: int


def is_foreseeable(
    record: Published | Skipped | Removed | Purged | Configured,
    in_flight: InFlight,
    log: MessageLog,
    config: StreamConfig,
) -> bool:
    """Whether the effects of a record on messages are foreseen.

    `in_flight` are the records before it; `config` is the configuration of the stream behind them.
    """
    if isinstance(record, Purged):
        return is_whole_purge(record, in_flight.last_sequence) or _removes_few(
            record, log, in_flight.messages
        )
    if isinstance(record, Configured):
        return _is_update_foreseeable(record.config, log, config, in_flight)
    return True


def is_whole_purge(record: Purged, last_sequence: int) -> bool:
    """Whether a purge leaves no message of a subject, or none at all.

    `last_sequence` is that of the stream before the purge.
    """
    is_one = record.pattern == ALL_SUBJECTS or not has_wildcard(record.pattern)
    is_up_to_end = not record.before or last_sequence < record.before
    return is_one and is_up_to_end and not record.keep


def _removes_few(record: Purged, log: MessageLog, in_flight: int) -> bool:
    if log.messages + in_flight <= FORESEEN_SINGLY_MAX:
        return True
    if record.pattern == ALL_SUBJECTS:
        return not record.keep and record.before - log.first_sequence <= FORESEEN_SINGLY_MAX
    if not has_wildcard(record.pattern):
        return log.subject_extent(record.pattern)[2] + in_flight <= FORESEEN_SINGLY_MAX
    if log.has_many_subjects:
        return False
    return sum(log.subject_counts(record.pattern).values()) + in_flight <= FORESEEN_SINGLY_MAX


def _is_update_foreseeable(
    config: StreamConfig, log: MessageLog, before: StreamConfig, in_flight: InFlight
) -> bool:
    if config.retention is not before.retention:
        return False
    if in_flight.records and before.max_bytes <= 0 < config.max_bytes:
        return False
    if log.messages + in_flight.messages <= FORESEEN_SINGLY_MAX:
        return True
    if in_flight.records:
        return _limits_of(config) == _limits_of(before)
    return not (narrows_subject_limit(config, before) or exceeds_totals(log, config))


def _limits_of(config: StreamConfig) -> tuple[object, ...]:
    """The settings by which messages are beyond limits."""
    return config.max_msgs, config.max_bytes, config.max_msgs_per_subject, config.discard
