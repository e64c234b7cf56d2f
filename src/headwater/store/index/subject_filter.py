"""Subject filters: the messages that match some patterns, the next, the last, how many are pending.

A filter finds out once which subjects match, and looks at each new subject when it is next asked;
so callers that ask again and again keep one. It has no position in the log, and is shared by all
readers with the same patterns; a `FilterCursor` is the position of one of them.

A filter keeps a count of its messages for each block of a segment. Messages that were appended are
counted at the next question, and the index tells of messages that went (`Removals`), so that the
counts stay exact. A question adds up counts, and looks through one block.
"""

from array import array
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import compress, islice
from operator import eq
from typing import Final, final

from headwater.base.sliced import Work, at_once
from headwater.store.index.block_counts import BLOCK_POSITIONS, Test
from headwater.store.index.log_index import NO_SEQUENCE, LogIndex
from headwater.store.index.segment_index import (
    STRETCH_FACTOR,
    STRETCH_MAX,
    STRETCH_MIN,
    SegmentIndex,
)
from headwater.store.index.subject_order import PatternTree, SubjectPattern
from headwater.subjects.grammar import FULL, has_wildcard

# More subjects than this are marked in a table of all subjects; a set of them would be larger.
IDS_IN_SET_MAX: Final = 65_536
# Up to this many new subjects are tested one by one; more are looked up, if that finds few.
TESTED_COUNT_MAX: Final = 1024
# Messages that are looked at first; most of the time one of them matches.
NEAR_COUNT: Final = 1024
# Up to this many subjects, their first and last messages are tried before anything is read.
BOUNDED_COUNT_MAX: Final = 1024
# Up to this many subjects are searched for one by one; more are searched for together.
SEARCHED_COUNT_MAX: Final = 8
# Following one link costs as much as looking at this many messages.
FOLLOWING_COST: Final = 8
# Links that are followed at most to count the messages before a position.
PASSED_COUNT_MAX: Final = 1024

# More patterns than this are compared with a subject together.
PATTERNS_ONE_BY_ONE_MAX: Final = 16
# Comparing a subject with many patterns takes as long as with this many one by one.
TREE_COST: Final = 16
# Subjects that are compared in one step.
LOOKED_AT_A_TIME: Final = 512
# Messages that are looked at in one step.
GATHERED_AT_A_TIME: Final = 8192
# Links that are followed in one step.
FOLLOWED_AT_A_TIME: Final = 1024
# Looking at this many messages takes as long as following one link.
LOOKED_AT_PER_UNIT: Final = 4

_UNCERTAIN: Final = -1


@final
class Tally:
    """The number of a filter's messages in each block of one segment."""

    __slots__ = ("_counts", "_lives", "counted", "total")

    def __init__(self) -> None:
        self._counts = array("I")
        # The number of messages that each block had in all when it was counted, less those of the
        # filter that went since; of no meaning for a block that was not full.
        self._lives = array("q")
        self.total = 0
        # The number of positions of the segment that have been counted.
        self.counted = 0

    def add(self, block: int, count: int, live: int) -> None:
        """Count more messages in a block, which has `live` messages in all."""
        if block == len(self._counts):
            self._counts.append(0)
            self._lives.append(0)
        self._counts[block] += count
        self._lives[block] = live
        self.total += count

    def drop(self, position: int) -> None:
        """Count without a message that is gone; nothing to do if it was not counted here."""
        if 0 <= position < self.counted:
            block = position // BLOCK_POSITIONS
            self._counts[block] -= 1
            self._lives[block] -= 1
            self.total -= 1

    def count(self, block: int, live: int) -> int:
        """The number of messages in a full block that has `live` messages in all now.

        Below zero if that is not certain: some have gone that this was not told of.
        """
        return self._counts[block] if self._lives[block] == live else _UNCERTAIN

    def has(self, block: int) -> bool:
        """Whether a block has messages of the filter."""
        return self._counts[block] > 0

    def before(self, block: int) -> int:
        """The number of messages in the blocks before one."""
        return sum(self._counts[:block])


@final
class SubjectFilter:
    """Some patterns, and the subjects and messages of one log that match them."""

    __slots__ = (
        "_epoch",
        "_ids",
        "_index",
        "_literals",
        "_marks",
        "_patterns",
        "_removals_seen",
        "_seen",
        "_tallies",
        "_test",
        "_tree",
        "is_everything",
        "texts",
    )

    def __init__(
        self, index: LogIndex, texts: Sequence[bytes], looks_bit_by_bit: bool = False
    ) -> None:
        """With `looks_bit_by_bit`, `finding_subjects` finds out which subjects match."""
        self.texts = tuple(texts)
        self.is_everything = FULL in self.texts
        self._index = index
        self._patterns = [SubjectPattern(text) for text in self.texts if has_wildcard(text)]
        self._literals = [text for text in self.texts if not has_wildcard(text)]
        self._tree: PatternTree | None = None
        if len(self._patterns) > PATTERNS_ONE_BY_ONE_MAX:
            self._tree = PatternTree(pattern.text for pattern in self._patterns)
        self._reset(looks_bit_by_bit)

    # --- which subjects ------------------------------------------------------------------------

    def _reset(self, looks_bit_by_bit: bool = False) -> None:
        subjects = self._index.subjects
        self._epoch = self._index.epoch
        self._seen = 0
        self._ids: set[int] = set()
        # One byte for each subject of the log, if too many match for a set.
        self._marks: bytearray | None = None
        self._test: Test = self._ids.__contains__
        # Tallies by the first sequence of their segments.
        self._tallies: dict[int, Tally] = {}
        self._removals_seen = self._index.note_removals().next_number
        if not self.is_everything and not looks_bit_by_bit:
            for pattern in self._patterns:
                self._add_ids(subjects.matching(pattern))
            self._add_literals()
            self._seen = len(subjects.names)

    @property
    def looked_at(self) -> int:
        """The number of subjects to look at in order to find out again which of them match."""
        subjects = self._index.subjects
        count = len(subjects.names)
        return sum(subjects.order.looked_at(pattern, count) for pattern in self._patterns)

    def finding_subjects(self) -> Work[None]:
        """Find out which subjects match, some at a time; subjects may come and go meanwhile."""
        cost = TREE_COST if self._tree is not None else max(len(self._patterns), 1)
        while not self.is_everything:
            if self._epoch != self._index.epoch:
                self._reset(looks_bit_by_bit=True)
            seen, count = self._seen, len(self._index.subjects.names)
            if seen == count:
                return
            self._look_at(min(seen + LOOKED_AT_A_TIME, count))
            yield (self._seen - seen) * cost

    def refresh(self) -> None:
        """Follow the changes of the index since the last question."""
        index = self._index
        if self._epoch != index.epoch:
            self._reset()
        elif not self.is_everything:
            if self._seen < len(index.subjects.names):
                self._look_at_new()
            if self._removals_seen < index.note_removals().next_number:
                self._apply_removals()

    def _look_at_new(self) -> None:
        subjects, seen = self._index.subjects, self._seen
        count = len(subjects.names)
        few_of_many = self._marks is None and count - seen > max(TESTED_COUNT_MAX, len(self._ids))
        if not few_of_many or self._tree is not None:
            self._look_at(count)
            return
        for pattern in self._patterns:
            # Sorting them in is done once, for all filters.
            found = subjects.matching(pattern)
            self._add_ids(array("I", filter(seen.__le__, found)))
        self._add_literals()
        self._seen = count

    def _look_at(self, end: int) -> None:
        """Compare the subjects up to an id with the patterns, one by one."""
        names, seen = self._index.subjects.names, self._seen
        if self._marks is not None:
            self._marks.extend(bytes(max(end - len(self._marks), 0)))
        fresh = names[seen:end]
        if self._tree is not None:
            self._add_ids(array("I", compress(range(seen, end), map(self._tree.match, fresh))))
        else:
            for pattern in self._patterns:
                hits = map(pattern.test_for(len(fresh)), fresh)
                self._add_ids(array("I", compress(range(seen, end), hits)))
        if end == len(names):
            self._add_literals()
        self._seen = end

    def _add_literals(self) -> None:
        known = self._index.subjects.ids
        self._add_ids(array("I", (known[text] for text in self._literals if text in known)))

    def _add_ids(self, ids: "array[int]") -> None:
        if self._marks is None and len(self._ids) + len(ids) <= IDS_IN_SET_MAX:
            self._ids.update(ids)
            return
        if self._marks is None:
            self._marks = bytearray(len(self._index.subjects.names))
            self._test = self._marks.__getitem__
            self._mark(self._ids)
            self._ids = set()
        self._mark(ids)

    def _mark(self, ids: Iterable[int]) -> None:
        marks = self._marks
        if marks is not None:
            for sid in ids:
                marks[sid] = 1

    def ids(self) -> Iterable[int]:
        """The subjects that match, by id; of some all messages may be gone."""
        self.refresh()
        subjects = self._index.subjects
        if self.is_everything:
            return subjects.ids.values()
        if self._marks is not None:
            return compress(range(len(self._marks)), self._marks)
        return self._ids

    def ids_now(self) -> Sequence[int]:
        """The matching subjects now, by id; later changes of the index leave them as they are."""
        if self.is_everything:
            return range(len(self._index.subjects.names))
        return array("I", self.ids())

    def counting(self, sequence: int) -> Work[None]:
        """Find out some at a time how many messages there are at or after a sequence; the index
        must not change meanwhile."""
        self.refresh()
        if self.is_everything or self._pending_by_subjects(sequence) != _UNCERTAIN:
            # Few subjects, or all, are counted in other ways.
            return
        for segment in self._index.segments:
            for end in range(BLOCK_POSITIONS, len(segment.offsets), BLOCK_POSITIONS):
                self._tally(segment, end)
                yield BLOCK_POSITIONS // 2
            self._tally(segment)
            yield BLOCK_POSITIONS // 2

    def subject_count(self) -> int:
        """The number of subjects that match and have messages."""
        if self.is_everything:
            return len(self._index.subjects)
        return sum(map(bool, map(self._index.subjects.counts.__getitem__, self.ids())))

    def has_more_subjects(self, sequence: int, count_max: int) -> bool:
        """Whether more subjects than that have messages at or before `sequence`."""
        firsts = self._index.subjects.firsts
        there = (sid for sid in self.ids() if 0 < firsts[sid] <= sequence)
        return len([*islice(there, count_max + 1)]) > count_max

    @property
    def _is_set(self) -> bool:
        """Whether the ids are in a set, and so not very many."""
        return not self.is_everything and self._marks is None

    @property
    def _is_short(self) -> bool:
        """Whether looking at every subject costs little."""
        return self._is_set and len(self._ids) <= BOUNDED_COUNT_MAX

    def select(self, ids: "array[int]", values: "array[int]") -> Iterable[int]:
        """The values whose subject ids, given beside them, match."""
        self.refresh()
        return values if self.is_everything else compress(values, map(self._test, ids))

    # --- next and last -------------------------------------------------------------------------

    def next(self, sequence: int) -> int:
        """The first message at or after `sequence`; 0 without one."""
        index = self._index
        # Sequences before the first message are not looked through, however many they are.
        sequence = max(sequence, index.first_sequence)
        if self.is_everything:
            return index.next_message(sequence)
        self.refresh()
        if self._is_worth_following:
            return min(filter(None, self._next_of_each(sequence)), default=NO_SEQUENCE)
        segment = index.segment_of(sequence)
        begin = max(sequence - segment.first_sequence, 0)
        near = min(begin + NEAR_COUNT, len(segment.offsets))
        found = segment.first_of(self._test, begin, near)
        if found >= 0:
            return segment.first_sequence + found
        sequence = max(sequence, segment.first_sequence + near)
        end = index.next_sequence
        if self._is_short and sequence < end:
            subjects = index.subjects
            ahead = [sid for sid in self._ids if subjects.lasts[sid] >= sequence]
            if len(ahead) <= SEARCHED_COUNT_MAX:
                return min((index.next_of_subject(sid, sequence) for sid in ahead), default=0)
            # One of these is certain to match; messages behind the first of them need no look.
            end = 1 + min(
                subjects.firsts[sid] if subjects.firsts[sid] >= sequence else subjects.lasts[sid]
                for sid in ahead
            )
        return self._next_within(sequence, end)

    def _next_of_each(self, sequence: int) -> Iterable[int]:
        """The first message of each subject at or after `sequence`; 0 for one without."""
        return (self._index.next_of_subject(sid, sequence) for sid in self._ids)

    def _next_within(self, sequence: int, end: int) -> int:
        """The first message from `sequence` on and before `end`."""
        for segment in self._index.segments_between(sequence, end):
            tally = self._tally(segment)
            position = max(sequence - segment.first_sequence, 0)
            stop = min(end - segment.first_sequence, len(segment.offsets))
            while tally.total and position < stop:
                block = position // BLOCK_POSITIONS
                begin, position = position, min(segment.block_bounds(block)[1], stop)
                if tally.has(block):
                    found = segment.first_of(self._test, begin, position)
                    if found >= 0:
                        return segment.first_sequence + found
        return NO_SEQUENCE

    def sequences_between(self, begin: int, end: int, count_max: int) -> list[int]:
        """The first messages from `begin` on and before `end`, in order, up to so many."""
        if self.is_everything:
            return self._index.messages_from(begin, end, count_max)
        self.refresh()
        if self._is_worth_following:
            return self._follow(begin, end, count_max)
        sequence = begin
        found: list[int] = []
        while len(found) < count_max and sequence < end:
            # `next` finds distant messages one by one; those near each other are added together.
            sequence = self.next(sequence)
            if not sequence or sequence >= end:
                break
            sequence = self._add_near(found, sequence, end, count_max)
        return found

    def _add_near(self, found: list[int], sequence: int, end: int, count_max: int) -> int:
        """Add matching messages that follow closely on `sequence`, which matches; returns the
        sequence at which to look further."""
        segment = self._index.segment_of(sequence)
        first = segment.first_sequence
        position = sequence - first
        stop = min(end - first, len(segment.offsets))
        size = STRETCH_MIN
        while position < stop and len(found) < count_max:
            # As many as may be wanted, and no more than there are.
            behind = min(position + size, stop)
            before = len(found)
            passing = segment.passing(self._test, position, behind)
            found += islice(map(first.__add__, passing), count_max - before)
            position = behind
            if len(found) == before:
                break
            size = min(size * STRETCH_FACTOR, STRETCH_MAX)
        return first + position

    @property
    def _is_worth_following(self) -> bool:
        """Whether there are so few messages that following their links is quicker."""
        index = self._index
        if not self._is_set or len(self._ids) > SEARCHED_COUNT_MAX or not index.is_linked:
            return False
        return index.subjects.messages_of(self._ids) * FOLLOWING_COST < index.messages

    def _follow(self, begin: int, end: int, count_max: int) -> list[int]:
        index = self._index
        followed = [index.followed(sid, begin, end) for sid in self._ids]
        return list(islice(merge(*followed), count_max))

    def last(self, sequence: int) -> int:
        """The last message at or before `sequence`; 0 without one."""
        index = self._index
        if self.is_everything:
            return index.last_message(sequence)
        self.refresh()
        segment = index.segment_of(sequence)
        end = min(sequence + 1 - segment.first_sequence, len(segment.offsets))
        near = max(end - NEAR_COUNT, 0)
        found = segment.last_of(self._test, near, end)
        if found >= 0:
            return segment.first_sequence + found
        sequence = min(sequence, segment.first_sequence + near - 1)
        if self._is_short:
            firsts = index.subjects.firsts
            behind = [sid for sid in self._ids if 0 < firsts[sid] <= sequence]
            if len(behind) <= SEARCHED_COUNT_MAX:
                return max((index.last_of_subject(sid, sequence) for sid in behind), default=0)
        return self._last_within(sequence + 1)

    def _last_within(self, end: int) -> int:
        """The last message before `end`."""
        for segment in reversed(self._index.segments_between(0, end)):
            tally = self._tally(segment)
            position = min(end - segment.first_sequence, len(segment.offsets))
            while tally.total and position > 0:
                block = (position - 1) // BLOCK_POSITIONS
                stop, position = position, segment.block_bounds(block)[0]
                if tally.has(block):
                    found = segment.last_of(self._test, position, stop)
                    if found >= 0:
                        return segment.first_sequence + found
        return NO_SEQUENCE

    def last_of_each(self, sequence: int) -> list[int]:
        """The last message of each subject at or before `sequence`, in order."""
        index = self._index
        firsts, lasts = index.subjects.firsts, index.subjects.lasts
        if sequence >= index.last_sequence:
            # The usual question.
            return sorted(filter(None, map(lasts.__getitem__, self.ids())))
        found: list[int] = []
        # Subjects that have messages on both sides.
        crossing: set[int] = set()
        for sid in self.ids():
            last = lasts[sid]
            if last <= sequence:
                found.append(last)
            elif firsts[sid] <= sequence:
                crossing.add(sid)
        if self._is_short:
            for segment in index.segments_between(0, sequence + 1) if crossing else ():
                # Now the counts of blocks tell which subjects they lack.
                self._tally(segment)
            found += [index.last_of_subject(sid, sequence) for sid in crossing]
        else:
            found += self._last_of_many(crossing, sequence)
        # A subject whose messages are all gone has its last at no sequence.
        return sorted(filter(None, found))

    def _last_of_many(self, ids: set[int], sequence: int) -> list[int]:
        """The last message of each of these subjects, which all have one, up to `sequence`."""
        found: list[int] = []
        for segment in reversed(self._index.segments_between(0, sequence + 1)):
            end = min(sequence + 1 - segment.first_sequence, len(segment.offsets))
            while ids and end > 0:
                block = (end - 1) // BLOCK_POSITIONS
                begin = segment.block_bounds(block)[0]
                if self.is_everything or self._tally(segment).has(block):
                    positions = list(segment.passing(ids.__contains__, begin, end))
                    sids = list(map(segment.subject_ids.__getitem__, positions))
                    lasts = dict(zip(sids, positions, strict=True))
                    found += map(segment.first_sequence.__add__, lasts.values())
                    ids.difference_update(lasts)
                end = begin
        return found

    # --- how many ------------------------------------------------------------------------------

    def pending(self, sequence: int) -> int:
        """The number of messages at or after `sequence`."""
        index = self._index
        if self.is_everything:
            return index.count_from(sequence)
        self.refresh()
        known = self._pending_by_subjects(sequence)
        if known != _UNCERTAIN:
            return known
        number = index.segment_number(sequence)
        total = sum(self._tally(segment).total for segment in index.segments[number:])
        segment = index.segments[number]
        position = min(sequence - segment.first_sequence, len(segment.offsets))
        if position <= 0:
            return total
        block = position // BLOCK_POSITIONS
        total -= self._tally(segment).before(block)
        return total - segment.count_of(self._test, segment.block_bounds(block)[0], position)

    def _pending_by_subjects(self, sequence: int) -> int:
        """The number of pending messages, if few subjects match and have few messages before;
        below zero otherwise."""
        if not self._is_set or len(self._ids) > SEARCHED_COUNT_MAX:
            return _UNCERTAIN
        index = self._index
        subjects = index.subjects
        firsts, lasts, counts = subjects.firsts, subjects.lasts, subjects.counts
        total = 0
        for sid in self._ids:
            if lasts[sid] < sequence:
                continue
            total += counts[sid]
            if firsts[sid] < sequence:
                if not index.is_linked:
                    return _UNCERTAIN
                passed = islice(index.followed(sid, 0, sequence), PASSED_COUNT_MAX)
                before = sum(1 for _ in passed)
                if before == PASSED_COUNT_MAX:
                    return _UNCERTAIN
                total -= before
        return total

    def count(self, first: int, end: int) -> int:
        """The number of messages from `first` on and before `end`, looking at each."""
        if end - first == 1 and self.is_everything:
            # Readers of all subjects move on by one message most of the time.
            return int(self._index.has(first))
        self.refresh()
        total = 0
        for segment in self._index.segments_between(first, end):
            begin = max(first - segment.first_sequence, 0)
            stop = min(end - segment.first_sequence, len(segment.offsets))
            if begin < stop and self.is_everything:
                total += segment.count_live(begin, stop)
            elif begin < stop:
                total += segment.count_of(self._test, begin, stop)
        return total

    def pending_subjects(self, sequence: int) -> int:
        """The number of subjects whose last message is at or after `sequence`."""
        index = self._index
        lasts = index.subjects.lasts
        sequence = max(sequence, index.first_sequence, 1)
        self.refresh()
        count = len(self._ids) if self._is_set else len(index.subjects.names)
        if index.next_sequence - sequence > count:
            return sum(map(sequence.__le__, map(lasts.__getitem__, self.ids())))
        count = 0
        for segment in index.segments_between(sequence, index.next_sequence):
            first = segment.first_sequence
            begin, end = max(sequence - first, 0), len(segment.offsets)
            positions = list(self.passing(segment, begin, end))
            ids = map(segment.subject_ids.__getitem__, positions)
            is_last = map(eq, map(lasts.__getitem__, ids), map(first.__add__, positions))
            count += sum(is_last)
        return count

    def sequences(self, before: int) -> list[int]:
        """All messages before a sequence, in order."""
        return at_once(self.gathering(before))

    def gathering(self, before: int, first: int = 0) -> Work[list[int]]:
        """Find messages from `first` on and before a sequence, some at a time; the index must not
        change meanwhile."""
        index = self._index
        self.refresh()
        found: list[int] = []
        if self._is_set and index.is_linked:
            ids = list(self._ids)
            if index.subjects.messages_of(ids) * FOLLOWING_COST < index.messages:
                for sid in ids:
                    followed = index.followed(sid, first, before)
                    while some := [*islice(followed, FOLLOWED_AT_A_TIME)]:
                        found += some
                        yield 1 + len(some)
                return sorted(found)
        for segment in index.segments_between(first, before):
            end = min(before - segment.first_sequence, len(segment.offsets))
            for begin in range(max(first - segment.first_sequence, 0), end, GATHERED_AT_A_TIME):
                stop = min(begin + GATHERED_AT_A_TIME, end)
                found += map(segment.first_sequence.__add__, self.passing(segment, begin, stop))
                yield 1 + (stop - begin) // LOOKED_AT_PER_UNIT
        return found

    def passing(self, segment: SegmentIndex, begin: int, end: int) -> Iterable[int]:
        """The positions of a segment whose messages match, in order, after `refresh`."""
        if self.is_everything:
            return segment.live_positions(begin, end)
        return segment.passing(self._test, begin, end)

    # --- what is known of segments -------------------------------------------------------------

    def _tally(self, segment: SegmentIndex, up_to: int | None = None) -> Tally:
        """The number of messages in the blocks of a segment, after `refresh`.

        Only for `counting` not all of the segment has to be counted.
        """
        first = segment.first_sequence
        tally = self._tallies.get(first)
        if tally is None:
            tally = self._tallies[first] = Tally()
        is_growing = segment is self._index.segments[-1]
        end = len(segment.offsets)
        while tally.counted < (end if up_to is None else up_to):
            block = tally.counted // BLOCK_POSITIONS
            begin, stop = segment.block_bounds(block)
            # The counts of a block that grows would have to be made again and again.
            if tally.counted == begin and not (is_growing and stop == end):
                count = self._count_block(segment, block)
            else:
                count = segment.count_of(self._test, tally.counted, stop)
            is_full = stop - begin == BLOCK_POSITIONS
            tally.add(block, count, segment.live_in(block) if is_full else 0)
            tally.counted = stop
        return tally

    def _count_block(self, segment: SegmentIndex, block: int) -> int:
        if self._marks is None:
            return self._count_by_subjects(segment, block)
        return segment.count_of(self._test, *segment.block_bounds(block))

    def _counted_again(self, segment: SegmentIndex, before: Tally) -> Tally:
        """The counts of `before` for full blocks from which nothing has gone, and new counts for
        the others."""
        tally = Tally()
        for block in range(before.counted // BLOCK_POSITIONS):
            live = segment.live_in(block)
            count = before.count(block, live)
            if count == _UNCERTAIN:
                count = self._count_block(segment, block)
            tally.add(block, count, live)
            tally.counted += BLOCK_POSITIONS
        return tally

    def _count_by_subjects(self, segment: SegmentIndex, block: int) -> int:
        counts = segment.subject_counts(block)
        if len(self._ids) * FOLLOWING_COST < len(counts):
            return sum(map(counts.count, self._ids))
        return counts.count_of(self._test)

    def _apply_removals(self) -> None:
        """Bring the tallies up to date."""
        index = self._index
        removals = index.note_removals()
        gone = removals.since(self._removals_seen)
        self._removals_seen = removals.next_number
        if gone is None:
            self._tallies = {
                segment.first_sequence: self._counted_again(
                    segment, self._tallies[segment.first_sequence]
                )
                for segment in index.segments
                if segment.first_sequence in self._tallies
            }
            return
        if len(self._tallies) > 2 * len(index.segments):
            # Segments that are gone leave their tallies behind.
            there = {segment.first_sequence for segment in index.segments}
            self._tallies = {at: tally for at, tally in self._tallies.items() if at in there}
        for sequence in compress(gone[1], map(self._test, gone[0])):
            first = index.segment_of(sequence).first_sequence
            if first in self._tallies:
                self._tallies[first].drop(sequence - first)
