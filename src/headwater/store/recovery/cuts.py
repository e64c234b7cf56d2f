"""Cuts of the end of a log that was just opened: the sequences are given out again.

Only sequences are cut off that nobody was told of: those of a batch of messages which a crash has
left by half. Stores of earlier versions also have cuts that were begun, and are finished.
"""

from headwater.store.disk.journal import TRUNCATED, encode_ranges
from headwater.store.log.file_log import FileLog


def cut_unfinished(log: FileLog, last_sequence: int) -> None:
    """Remove everything after a sequence, durably: the end of an append that a crash has
    interrupted. The log has no entries in the write-ahead file. A cut that is interrupted is made
    again. Raises StoreError."""
    log.availability.check_online()
    try:
        _cut_end(log, last_sequence)
    except OSError as error:
        raise log.availability.broken("cutting off half a batch", error) from error


def finish_truncation(log: FileLog, first: int, last: int) -> None:
    """Make the cut of `first` to `last` that a crash interrupted, as far as it is not made.

    Only stores of earlier versions have one. Raises StoreError.
    """
    try:
        _cut_end(log, first - 1)
        log.journal.must_write((TRUNCATED, encode_ranges([(first, last)])))
        log.journal.sync()
    except OSError as error:
        raise log.availability.broken("truncate", error) from error


def _cut_end(log: FileLog, last_sequence: int) -> None:
    """Remove everything after a sequence from the index and the files. Raises OSError."""
    index, segments = log.index, log.segments
    log.lost.remove(last_sequence + 1, index.last_sequence)
    log.expiries.cut(last_sequence)
    while sequence := index.next_message(last_sequence + 1):
        index.delete(sequence)
    for gone in index.cut(last_sequence + 1):
        segments.remove(gone)
    if index.segments[-1].first_sequence in segments.by_first:
        segments.last.cut_after(last_sequence)
    else:
        segments.begin_segment()
    segments.sync_folder()
