"""A backup read into a log in memory, and made a stream, for tests."""

from collections.abc import Iterable

from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.backup.form import Progress
from headwater.jetstream.backup.reading import BackupReader
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog, StoredMessage
from tests.kit.stream_driver import Surrounding

NOW_NS = 1_800_000_000 * 1_000_000_000
RULES = Rules(stream_name="S", max_payload=1024 * 1024)


def pieces(data: bytes, size: int) -> list[bytes]:
    """Bytes cut into pieces."""
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


def taken_in(
    parts: Iterable[bytes], rules: Rules = RULES, now_ns: int = NOW_NS, steps_max: int = 100_000
) -> tuple[BackupReader, MessageLog]:
    """The reader of a backup, and the log that it has filled. Raises BackupError."""
    reader = BackupReader(rules)
    log: MessageLog | None = None
    for part in parts:
        reader.feed(part)
        for _ in range(steps_max):
            progress = reader.step(now_ns)
            if progress is Progress.WANTS_LOG:
                log = MemoryLog(reader.beginning.first_sequence)
                reader.give_log(log)
            elif progress is not Progress.BUSY:
                break
        else:
            raise AssertionError("it never needs more input")
    reader.finish()
    assert log is not None
    return reader, log


def contents(log: MessageLog) -> list[StoredMessage]:
    """All messages of a log."""
    found = [log.get(sequence) for sequence in range(log.first_sequence, log.last_sequence + 1)]
    return [message for message in found if message is not None]


def stream_of(reader: BackupReader, log: MessageLog, config: StreamConfig) -> Stream:
    """The stream of a backup, with its consumers as the backup has them."""
    stream = Stream(config, log, NOW_NS, Surrounding(BatchLimits()))
    for consumer in reader.consumers:
        stream.consumers.adopt(consumer.entries(consumer.config, NOW_NS))
    stream.recover(NOW_NS, with_ids=False)
    return stream
