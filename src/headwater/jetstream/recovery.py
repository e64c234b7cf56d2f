"""What a crash may leave of an atomic batch, found in a log that was just opened.

A batch is written at once, but a crash can cut it anywhere. Its messages say which of the batch
they are, and the last that it is whole. So a batch was cut if what the log ends with is the
beginning of one: numbered from one, stored at the same moment, without a last.

On doubt a message is kept. A message after which others were deleted is not what a log ends with. A
copy that a schedule has published has the numbers of its original, and is told by its scheduler.
"""

from headwater.jetstream import header_names as names
from headwater.store.message_log import MessageLog, StoredMessage
from headwater.wire.headers import value_of


def unfinished_batch(log: MessageLog) -> list[int]:
    """The messages of a batch that a crash has cut off; usually none."""
    last = log.index.last_message(log.last_sequence)
    if not last or not _is_end(log, last):
        return []
    message = log.get(last)
    if message is None or value_of(message.header, names.BATCH_COMMIT):
        return []
    batch_id, moment_ns = value_of(message.header, names.BATCH_ID), message.timestamp_ns
    found: list[int] = []
    while message is not None and _number_in(message) > 0:
        is_of_batch = value_of(message.header, names.BATCH_ID) == batch_id
        if not is_of_batch or message.timestamp_ns != moment_ns:
            return []
        found.append(message.sequence)
        if _number_in(message) == 1:
            is_copy = len(found) == 1 and value_of(message.header, names.SCHEDULER)
            return [] if is_copy else found
        before = log.get(message.sequence - 1)
        if before is None or _number_in(before) != _number_in(message) - 1:
            return []
        message = before
    return []


def _is_end(log: MessageLog, sequence: int) -> bool:
    """Whether nothing was after a message, or only what is lost."""
    following = sequence + 1
    return following > log.last_sequence or following in log.lost


def _number_in(message: StoredMessage) -> int:
    """Which message of a batch it is; 0 if of none."""
    if not message.header or not value_of(message.header, names.BATCH_ID):
        return 0
    value = value_of(message.header, names.BATCH_SEQUENCE) or b""
    return int(value) if value.isdigit() and len(value) < len(str(1 << 64)) else 0
