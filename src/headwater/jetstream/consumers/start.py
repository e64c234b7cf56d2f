"""The start of a new consumer: the first message that its deliver policy asks for."""

from typing import TYPE_CHECKING, Final

from headwater.base.sliced import Work
from headwater.jetstream.config.consumer_config import ConsumerConfig, DeliverPolicy
from headwater.store.log.message_log import ALL_SUBJECTS

if TYPE_CHECKING:
    from headwater.jetstream.streams.stream import Stream

_FROM_THE_ENDS: Final = (
    DeliverPolicy.ALL,
    DeliverPolicy.NEW,
    DeliverPolicy.BY_START_SEQUENCE,
)


def starting(stream: "Stream", config: ConsumerConfig) -> Work[tuple[int, int]]:
    """The start sequence of a new consumer, and the last sequence of its last-per-subject phase.

    Both are found some messages at a time, and the stream must not change meanwhile.
    """
    log = stream.log
    first, last = _ends_ahead(stream) if len(stream.look_ahead) else _ends(stream)
    patterns = config.patterns or (ALL_SUBJECTS,)
    policy = config.deliver_policy
    lasts_until = 0
    if config.opt_start_seq:
        start = config.opt_start_seq
    elif policy is DeliverPolicy.ALL:
        start = first
    elif policy is DeliverPolicy.LAST:
        start = last if not config.patterns else log.last_sequence_of(patterns, last)
    elif policy is DeliverPolicy.LAST_PER_SUBJECT:
        if stream.config.max_msgs_per_subject == 1:
            start = first
        else:
            found = yield from log.gathering_last_per_subject(patterns, last, count_max=1)
            start, lasts_until = (found[0] if found else last), last
    elif policy is DeliverPolicy.BY_START_TIME and config.opt_start_time is not None:
        start = stream.sequence_at(config.opt_start_time.unix_ns)
    else:
        start = last + 1
    if not config.opt_start_seq and not first:
        start = 1
    elif not config.opt_start_seq and start > last:
        start = last + 1
    elif start < first:
        start = first
    return max(start, 1), lasts_until


def _ends(stream: "Stream") -> tuple[int, int]:
    """The first sequence of a stream without records in flight, and the last one."""
    log, last = stream.log, stream.visible_sequence
    # As in nats-server, a stream that never had a message has no first one either.
    has_first = log.first_sequence > 1 or log.messages > 0
    return log.first_sequence if has_first else (1 if last else 0), last


def _ends_ahead(stream: "Stream") -> tuple[int, int]:
    """The first sequence of a stream and the last one when all records in flight are applied."""
    last = stream.look_ahead.next_sequence - 1
    return stream.look_ahead.foreseen().first_from(0) or (last + 1 if last else 0), last


def is_start_foreseen(config: ConsumerConfig) -> bool:
    """Whether the start of a consumer follows from the ends of the stream, which are known also
    while records are in flight."""
    policy = config.deliver_policy
    if policy is DeliverPolicy.LAST:
        return not config.patterns
    return policy in _FROM_THE_ENDS
