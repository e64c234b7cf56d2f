"""A small log on a simulated disk, for unit tests of the parts of a log."""

from random import Random
from typing import Final

from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.recovery.opening import create_log, open_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

FOLDER: Final = "/log"
SEGMENT_BYTES_MAX: Final = 1000


def new_log(disk: SimDisk, messages: int = 0) -> FileLog:
    """A log with so many messages; a segment holds about ten."""
    log = create_log(
        disk, FOLDER, SeededEntropy(Random(1)), b"body", segment_bytes_max=SEGMENT_BYTES_MAX
    )
    add_messages(log, messages)
    return log


def log_after_kill(disk: SimDisk) -> FileLog:
    """The log as a new process finds it; synced."""
    disk.kill()
    return open_log(disk, FOLDER, SeededEntropy(Random(2)), segment_bytes_max=SEGMENT_BYTES_MAX)


def add_messages(log: FileLog, count: int) -> None:
    """Append messages, one batch each, whose payloads name their sequences."""
    for _ in range(count):
        sequence = log.last_sequence + 1
        payload = b"payload %d " % sequence
        log.append(Batch([b"s.%d" % (sequence % 3)], [b""], [payload.ljust(40, b".")], [sequence]))


def sequences_in(log: FileLog) -> list[int]:
    """The sequences of all messages that can be read."""
    return log.read(1, 1 << 30, 1 << 30).sequences
