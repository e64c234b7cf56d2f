"""The start of a new consumer: the first message that its deliver policy asks for."""

from typing import TYPE_CHECKING

from headwater.base.sliced import Work
from headwater.jetstream.config.consumer_config import ConsumerConfig, DeliverPolicy
from headwater.store.log.message_log import ALL_SUBJECTS

if TYPE_CHECKING:
    from headwater.jetstream.streams.stream import Stream


def starting(stream: "Stream", config: ConsumerConfig) -> Work[tuple[int, int]]:
    """The start sequence of a new consumer, and the last sequence of its last-per-subject phase.

    Both are found some messages at a time, and the stream must not change meanwhile.
    """
    log, last = stream.log, stream.visible_sequence
    patterns = config.patterns or (ALL_SUBJECTS,)
    policy = config.deliver_policy
    # As in nats-server, a stream that never had a message has no first one either.
    first = log.first_sequence if log.first_sequence > 1 or log.messages else (1 if last else 0)
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
