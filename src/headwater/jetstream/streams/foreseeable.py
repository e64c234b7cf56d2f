"""The records whose effects on messages are foreseen before they are committed.

Publishes are decided while a purge or an update waits for its commit, if the messages that it
removes can be listed within a turn. Otherwise they wait for that one entry:

    a purge of one subject or of all messages    always
    a purge with `seq`, `keep` or a wildcard     if it removes few messages, or leaves none
    an update                                    if its limits remove no message, or the stream has
                                                 few; not if it changes the retention, for which
                                                 the needs of all consumers are compared with all
                                                 messages

A request is decided when nothing else is in flight. So its record is the first in flight, and the
log itself tells how many messages it removes.
"""

from typing import Final

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Configured, Published, Purged, Removed, Skipped
from headwater.jetstream.streams.limits import exceeds_totals, narrows_subject_limit
from headwater.store.log.message_log import ALL_SUBJECTS, MessageLog
from headwater.subjects.grammar import has_wildcard

# The number of messages that a record may remove one by one.
FORESEEN_SINGLY_MAX: Final = 1024


def is_foreseeable(
    record: Published | Skipped | Removed | Purged | Configured,
    is_first: bool,
    log: MessageLog,
    config: StreamConfig,
) -> bool:
    """Whether the effects of a record on messages are foreseen.

    `is_first` says that nothing else is in flight; `config` is the configuration of the stream.
    """
    if isinstance(record, Purged):
        if not is_first:
            return is_whole_purge(record, 0)
        return is_whole_purge(record, log.last_sequence) or _removes_few(record, log)
    if isinstance(record, Configured):
        return is_first and _is_update_foreseeable(record.config, log, config)
    return True


def is_whole_purge(record: Purged, last_sequence: int) -> bool:
    """Whether a purge leaves no message of a subject, or none at all.

    `last_sequence` is that of the stream; 0 if it is not known.
    """
    is_one = record.pattern == ALL_SUBJECTS or not has_wildcard(record.pattern)
    is_up_to_end = not record.before or 0 < last_sequence < record.before
    return is_one and is_up_to_end and not record.keep


def _removes_few(record: Purged, log: MessageLog) -> bool:
    if log.messages <= FORESEEN_SINGLY_MAX:
        return True
    if record.pattern == ALL_SUBJECTS:
        return not record.keep and record.before - log.first_sequence <= FORESEEN_SINGLY_MAX
    if not has_wildcard(record.pattern):
        return log.subject_extent(record.pattern)[2] <= FORESEEN_SINGLY_MAX
    if log.has_many_subjects:
        return False
    return sum(log.subject_counts(record.pattern).values()) <= FORESEEN_SINGLY_MAX


def _is_update_foreseeable(config: StreamConfig, log: MessageLog, before: StreamConfig) -> bool:
    if config.retention is not before.retention:
        return False
    if log.messages <= FORESEEN_SINGLY_MAX:
        return True
    return not (narrows_subject_limit(config, before) or exceeds_totals(log, config))
