"""Messages of a log as runs of records: the bytes in which segments hold them.

A run has records of consecutive sequences, one after the other. The checksums begin with the seed
of the log, so another log of the same stream takes the bytes over as they are. The expiries of
messages are in their records, except in those of a log in memory, whose records are made here.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from headwater.store.disk.format import EXPIRY_BYTES, RECORD_BYTES, reseeded, sound_lengths
from headwater.store.errors import StoreError
from headwater.store.index.segment_index import SegmentIndex
from headwater.store.log.batch_records import Wanted, encode_batch
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MESSAGE_OVERHEAD_BYTES
from headwater.store.log.message_log import Batch, MessageLog

# The number of messages of one read: a read of many small messages takes about a millisecond.
MESSAGES_AT_A_TIME: Final = 1024
# The most bytes by which a record is longer than the count of its message, on disk or in memory.
_BYTES_BESIDES_COUNTED: Final = RECORD_BYTES + EXPIRY_BYTES - MESSAGE_OVERHEAD_BYTES
_ALL_BYTES: Final = 1 << 62


class RecordRun(NamedTuple):
    """Records of consecutive sequences."""

    first_sequence: int
    message_count: int
    data: bytes

    @property
    def last_sequence(self) -> int:
        """The sequence of the last message."""
        return self.first_sequence + self.message_count - 1


def read_runs(log: MessageLog, sequence: int, bytes_max: int) -> list[RecordRun]:
    """The first messages at or after a sequence, some of them, all of one segment; an empty list
    if there are no more.

    `bytes_max` bounds the records together, but there is at least one. Raises StoreError for a
    message that cannot be read and still counts.
    """
    if isinstance(log, FileLog) and log.segments.waiting_bytes:
        log.segments.flush_to_read()
    while sequence := log.index.next_message(sequence):
        segment = log.index.segment_of(sequence)
        sequences = log.index.messages_from(sequence, segment.next_sequence, MESSAGES_AT_A_TIME)
        sequences = _fitting(segment, sequences, bytes_max)
        if not isinstance(log, FileLog):
            return _encoded_runs(log, sequences)
        found = _stored_runs(log, segment, sequences)
        if found:
            return found
        # `get` finds out what is wrong with the message, and may take it out of the index.
        log.get(sequence)
        if log.index.has(sequence):
            raise StoreError(f"message {sequence} cannot be read")
    return []


def _fitting(segment: SegmentIndex, sequences: list[int], bytes_max: int) -> list[int]:
    """The first messages whose records have at most so many bytes together, at least one."""
    sizes = [segment.sizes[sequence - segment.first_sequence] for sequence in sequences]
    ends = [*accumulate(map(_BYTES_BESIDES_COUNTED.__add__, sizes))]
    return sequences[: max(bisect_right(ends, bytes_max), 1)]


def _encoded_runs(log: MessageLog, sequences: list[int]) -> list[RecordRun]:
    found = log.read_at(sequences, _ALL_BYTES)
    runs: list[RecordRun] = []
    for begin, end in _runs_of(found.sequences):
        part = slice(begin, end)
        batch = Batch(
            found.subjects[part],
            found.headers[part],
            found.payloads[part],
            found.timestamps_ns[part],
        )
        first = found.sequences[begin]
        data, _ = encode_batch(first, batch, log.record_seed)
        runs.append(RecordRun(first, end - begin, data))
    return runs


def _stored_runs(log: FileLog, segment: SegmentIndex, sequences: list[int]) -> list[RecordRun]:
    """Runs of one read; none if the first message cannot be read."""
    file = log.segments.by_first[segment.first_sequence]
    wanted = Wanted(segment, sequences)
    stop, size = wanted.near(0, _ALL_BYTES)
    base = wanted.offsets[0]
    try:
        data = file.read_span(base, size)
    except OSError as error:
        raise StoreError(f"message {sequences[0]}: {error}") from error
    offsets = [offset - base for offset in wanted.offsets[:stop]]
    lengths = sound_lengths(data, offsets, sequences[:stop], file.seed)
    ends = [offset + length for offset, length in zip(offsets, lengths, strict=False)]
    runs: list[RecordRun] = []
    for begin, end in _runs_of(sequences[: len(lengths)]):
        if file.seed == log.record_seed and ends[end - 1] - offsets[begin] == sum(
            lengths[begin:end]
        ):
            records = data[offsets[begin] : ends[end - 1]]
        else:
            records = b"".join(
                [
                    reseeded(data, offset, length, log.record_seed)
                    for offset, length in zip(offsets[begin:end], lengths[begin:end], strict=True)
                ]
            )
        runs.append(RecordRun(sequences[begin], end - begin, records))
    return runs


def _runs_of(sequences: Sequence[int]) -> list[tuple[int, int]]:
    """The bounds of runs of consecutive numbers: the position of the first, and behind the last."""
    count = len(sequences)
    if count and sequences[-1] - sequences[0] == count - 1:
        return [(0, count)]
    bounds = [at for at in range(1, count) if sequences[at] != sequences[at - 1] + 1]
    return [*zip([0, *bounds], [*bounds, count], strict=True)] if count else []
