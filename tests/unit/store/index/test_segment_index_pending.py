"""The number of pending messages is known without a look through the log."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.store.index.segment_index import SegmentIndex
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

SEGMENTS = 20
SEGMENT_MESSAGES = 500
KINDS = 200
PATTERN = b"a.*"


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog(segment_messages_max=SEGMENT_MESSAGES)
    for number in range(SEGMENTS):
        subjects = [
            b"%b.%d" % (b"ab"[place % 2 : place % 2 + 1], (number + place) % KINDS)
            for place in range(SEGMENT_MESSAGES)
        ]
        empty = [b""] * SEGMENT_MESSAGES
        log.append(Batch(subjects, empty, empty, [1] * SEGMENT_MESSAGES))
    return log


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The segments whose messages were looked at, by their first sequence."""
    seen: set[int] = set()
    for name in ("count_of", "passing", "live_positions"):
        _note(monkeypatch, name, getattr(SegmentIndex, name), seen)
    return seen


def _note(
    monkeypatch: pytest.MonkeyPatch, name: str, look: Callable[..., Any], seen: set[int]
) -> None:
    def looking(segment: SegmentIndex, *bounds: Any) -> Any:
        seen.add(segment.first_sequence)
        return look(segment, *bounds)

    monkeypatch.setattr(SegmentIndex, name, looking)


def scanned(log: MemoryLog, sequence: int) -> int:
    """The number of pending messages, found by a look at every message."""
    last = log.last_sequence + 1
    there = [each for each in range(sequence, last) if log.index.has(each)]
    return sum(log.subject_of(each).startswith(b"a.") for each in there)


def test_a_filter_looks_at_one_segment_at_most(log: MemoryLog, looked_at: set[int]) -> None:
    log.pending((PATTERN,), 1)
    for sequence in (1, 2, 499, 500, 501, 4_711, 9_999, 10_000, 10_001):
        looked_at.clear()
        count = log.pending((PATTERN,), sequence)
        assert len(looked_at) <= 1
        assert count == scanned(log, sequence)


def test_a_reader_looks_at_what_it_moves_over_and_at_what_is_new(
    log: MemoryLog, looked_at: set[int]
) -> None:
    cursor = log.cursor((PATTERN,), 1)
    cursor.pending()
    place = 1
    for step in (1, 7, 400, 1, 90, 3_000, 2):
        before = place
        place += step
        log.delete([place - 1, place + 5])
        empty = [b""]
        log.append(Batch([b"a.1"], empty, empty, [2]))
        looked_at.clear()
        cursor.move(place)
        count = cursor.pending()
        moved_over = log.index.segment_number(place) - log.index.segment_number(before) + 1
        assert len(looked_at) <= moved_over + 1
        looked_at.clear()
        assert cursor.pending() == count
        assert not looked_at
        assert count == scanned(log, place)
