"""The index of one log: its segments, its subjects, and the totals that follow from them.

The index decides nothing and touches no file; `store.log.file_log` and `store.log.memory_log`
keep it in step with what they store. A `SubjectFilter` (`store.index.subject_filter`) answers which
messages match a pattern. It follows changes of the index: new subjects have higher ids, messages
that go are noted in `removals`, and `epoch` changes when ids or segments change their meaning.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress, islice
from operator import not_
from typing import Final, final

from headwater.base.columns import Numbers
from headwater.base.emptying import Container, emptying
from headwater.base.invariants import check
from headwater.base.sliced import Work
from headwater.store.index.expiry import COUNT_MAX
from headwater.store.index.index_snapshot import IndexSnapshot
from headwater.store.index.segment_index import STRETCH_MIN, Footer, SegmentIndex, decode_footer
from headwater.store.index.subject_table import NO_SEQUENCE, SubjectTable
from headwater.store.index.tally import Tally

__all__ = ["NO_SEQUENCE", "Footer", "LogIndex", "SegmentIndex", "SubjectTable", "decode_footer"]

# Up to here ids of subjects that are gone are left alone: giving out all ids again takes time.
IDS_UNUSED_MIN: Final = 65_536
# Up to here messages that go are noted; a filter that has not asked by then counts again.
REMOVALS_NOTED_MAX: Final = 8192
# The messages of a subject are followed one by one up to here, and searched for beyond.
FOLLOWED_MAX: Final = 32
# Fewer messages than this are deleted one by one.
DELETED_TOGETHER_MIN: Final = 16
# Sequences that one step of the search for sequences without messages looks at.
MISSED_AT_A_TIME: Final = 8192


@final
class Removals:
    """The messages that went last: subject id and sequence, each with a number."""

    __slots__ = ("_begin", "_ids", "_sequences", "next_number")

    def __init__(self) -> None:
        self._begin = 0
        # The number that the next removal gets.
        self.next_number = 0
        self._ids = array("I")
        self._sequences = array("Q")

    def add(self, sid: int, sequence: int) -> None:
        """Note that a message is gone."""
        if len(self._ids) == REMOVALS_NOTED_MAX:
            half = REMOVALS_NOTED_MAX // 2
            del self._ids[:half]
            del self._sequences[:half]
            self._begin += half
        self._ids.append(sid)
        self._sequences.append(sequence)
        self.next_number += 1

    def add_many(self, ids: list[int], sequences: list[int]) -> None:
        """Note that messages are gone; more than are kept anyway are not looked at."""
        if len(ids) >= REMOVALS_NOTED_MAX:
            self._begin = self.next_number = self.next_number + len(ids)
            del self._ids[:], self._sequences[:]
            return
        for sid, sequence in zip(ids, sequences, strict=True):
            self.add(sid, sequence)

    def since(self, number: int) -> "tuple[array[int], array[int]] | None":
        """Ids and sequences from a number on; None if some of them are not known any more."""
        start = number - self._begin
        return None if start < 0 else (self._ids[start:], self._sequences[start:])


@final
class LogIndex:
    """All segments and subjects of one stream, and the totals that follow."""

    __slots__ = (
        "_linked",
        "_snapshot",
        "_starts",
        "byte_count",
        "epoch",
        "first_sequence",
        "messages",
        "removals",
        "segments",
        "subjects",
        "tally",
    )

    def __init__(self, first_sequence: int) -> None:
        self.segments: list[SegmentIndex] = [SegmentIndex(first_sequence)]
        self._starts = [first_sequence]
        # Whether the distances between messages of a subject are known.
        self._linked = True
        self.subjects = SubjectTable()
        self.messages = 0
        self.byte_count = 0
        # The sequence of the first message; one past the last sequence if there is no message.
        self.first_sequence = first_sequence
        # Changes when ids mean other subjects, or sequences other messages.
        self.epoch = 0
        # Kept from the first filter or cursor on.
        self.removals: Removals | None = None
        # A snapshot that is not complete yet.
        self._snapshot: IndexSnapshot | None = None
        # Counts what is stored and what leaves, if replicas compare it.
        self.tally: Tally | None = None

    @classmethod
    def loaded(cls, segments: list[SegmentIndex], tables: list[list[bytes]]) -> "LogIndex":
        """An index of segments that were read back; subject ids are positions in their tables.

        Everything per message is done by array and dict operations, a few per segment.
        """
        index = cls(segments[0].first_sequence)
        index.segments = segments
        index._starts = [segment.first_sequence for segment in segments]
        index._linked = False
        for segment, table in zip(segments, tables, strict=True):
            index._adopt(segment, table)
        index.first_sequence = index.next_message(0) or index.next_sequence
        return index

    @classmethod
    def restored(
        cls, segments: list[SegmentIndex], subjects: SubjectTable, is_linked: bool = True
    ) -> "LogIndex":
        """An index exactly as it was: ids and distances are those of `subjects`."""
        index = cls(segments[0].first_sequence)
        index.segments = segments
        index._starts = [segment.first_sequence for segment in segments]
        index._linked = is_linked
        index.subjects = subjects
        index.messages = sum(segment.live for segment in segments)
        index.byte_count = sum(segment.live_bytes for segment in segments)
        index.first_sequence = index.next_message(0) or index.next_sequence
        return index

    def attach(self, segment: SegmentIndex, table: list[bytes]) -> None:
        """Add a segment that was read back and follows all others."""
        self.segments.append(segment)
        self._starts.append(segment.first_sequence)
        self._adopt(segment, table)
        self._begin_epoch()
        if self.messages == segment.live:
            self.first_sequence = self.next_message(0) or self.next_sequence

    def renumber_if_worthwhile(self) -> None:
        """Give subjects new ids when most ids belong to subjects that are gone."""
        subjects = self.subjects
        if len(subjects.names) >= 2 * len(subjects.ids) + IDS_UNUSED_MIN:
            self.renumber()

    def renumber(self) -> None:
        """Give new ids to the subjects that have messages."""
        self.subjects, new_ids = self.subjects.renumbered()
        for segment in self.segments:
            # Messages that are gone have meaningless ids, before and after.
            segment.renumber(new_ids)
        self._begin_epoch()

    def abandon(self) -> list[Container]:
        """Forget all messages of a log that is removed; returns containers that nobody needs any
        more, and that may be so large that they are to be emptied some at a time."""
        subjects = self.subjects
        self.segments = [SegmentIndex(self.next_sequence)]
        self._starts = [self.next_sequence]
        self.subjects = SubjectTable()
        self.messages = self.byte_count = 0
        self.first_sequence = self.next_sequence
        self._begin_epoch()
        return [subjects.ids, subjects.names]

    def forgetting_subjects(self) -> Work[None]:
        """Let go of the names of subjects, some at a time, if there are many and none of them has
        a message left."""
        gone = self.subjects
        if gone.ids or len(gone.names) < IDS_UNUSED_MIN:
            return
        self.renumber()
        yield from emptying([gone.names])

    def _begin_epoch(self) -> None:
        """Tell filters and snapshots that ids or segments have changed their meaning."""
        self.epoch += 1
        if self._snapshot is not None:
            self._snapshot.is_spoilt = True
            self._snapshot = None

    def begin_snapshot(self) -> IndexSnapshot:
        """A snapshot of the index as it is now, to be copied from here on."""
        check(self._snapshot is None, "the snapshot before this one is not complete")
        self._snapshot = IndexSnapshot(self.segments, self.subjects, self._linked)
        return self._snapshot

    def end_snapshot(self, snapshot: IndexSnapshot) -> None:
        """End a snapshot that is complete, or of no use."""
        if self._snapshot is snapshot:
            self._snapshot = None

    def note_removals(self) -> Removals:
        """Note from now on which messages go."""
        if self.removals is None:
            self.removals = Removals()
        return self.removals

    @property
    def is_linked(self) -> bool:
        """Whether it is known how far apart the messages of each subject are."""
        return self._linked

    def ensure_linked(self) -> None:
        """Link the messages of each subject, if they are not linked."""
        if not self._linked:
            self._relink()

    def _adopt(self, segment: SegmentIndex, table: list[bytes]) -> None:
        segment.dead_bytes = sum(segment.sizes)
        if not table:
            return
        live = list(compress(segment.subject_ids, segment.offsets))
        first, end = segment.first_sequence, segment.next_sequence
        sequences = list(compress(range(first, end), segment.offsets))
        counts = Counter(live)
        lasts = dict(zip(live, sequences, strict=True))
        firsts = dict(zip(reversed(live), reversed(sequences), strict=True))
        # Subjects without a message left must not be made known.
        subjects = self.subjects
        ids = [subjects.id_of(name) if local in counts else 0 for local, name in enumerate(table)]
        for local, count in counts.items():
            sid = ids[local]
            subjects.counts[sid] += count
            subjects.lasts[sid] = lasts[local]
            if not subjects.firsts[sid]:
                subjects.firsts[sid] = firsts[local]
        segment.subject_ids = array("I", map(ids.__getitem__, segment.subject_ids))
        segment.live = len(live)
        segment.live_bytes = sum(compress(segment.sizes, segment.offsets))
        segment.dead_bytes -= segment.live_bytes
        self.messages += segment.live
        self.byte_count += segment.live_bytes

    @property
    def next_sequence(self) -> int:
        """The sequence the next message gets."""
        # Every publish reads this several times, so it does not ask the segment.
        segment = self.segments[-1]
        return segment.first_sequence + len(segment.offsets)

    @property
    def last_sequence(self) -> int:
        """The last sequence given out, also if its message is gone."""
        segment = self.segments[-1]
        return segment.first_sequence + len(segment.offsets) - 1

    def end(self) -> tuple[int, int]:
        """The sequence the next message gets, and the time at which the last one was given out."""
        segment = self.segments[-1]
        times_ns = segment.timestamps_ns
        if times_ns:
            return segment.first_sequence + len(times_ns), times_ns[-1]
        return segment.first_sequence, self.last_timestamp_ns

    def begin_segment(self) -> SegmentIndex:
        """Begin a new active segment after the present one."""
        segment = SegmentIndex(self.next_sequence)
        self.segments.append(segment)
        self._starts.append(segment.first_sequence)
        return segment

    def remove_segment(self, segment: SegmentIndex) -> None:
        """Remove a segment without messages; never the last one."""
        check(segment.live == 0, "a segment with messages cannot be removed")
        position = self.segments.index(segment)
        check(position < len(self.segments) - 1, "the active segment cannot be removed")
        del self.segments[position]
        del self._starts[position]

    def segment_of(self, sequence: int) -> SegmentIndex:
        """The segment that covers a sequence, or the one before it if no segment does."""
        return self.segments[max(bisect_right(self._starts, sequence) - 1, 0)]

    def segment_number(self, sequence: int) -> int:
        """The position among the segments of `segment_of`."""
        return max(bisect_right(self._starts, sequence) - 1, 0)

    def segments_between(self, first: int, end: int) -> list[SegmentIndex]:
        """The segments that have sequences from `first` on and before `end`."""
        stop = bisect_left(self._starts, end)
        return self.segments[self.segment_number(first) : stop]

    def by_segment(self, sequences: Sequence[int]) -> Iterator[tuple[SegmentIndex, Sequence[int]]]:
        """Ascending sequences grouped by segment; some may be of segments that are gone."""
        at = bisect_left(sequences, self._starts[0])
        while at < len(sequences):
            segment = self.segment_of(sequences[at])
            stop = bisect_left(sequences, segment.next_sequence, at)
            if at < stop:
                yield segment, sequences[at:stop]
            at = max(stop, at + 1)

    def has(self, sequence: int) -> bool:
        """Whether there is a message of that sequence."""
        return self.segment_of(sequence).has(sequence)

    # --- growing -------------------------------------------------------------------------------

    def append(
        self,
        offset: int,
        lengths: Numbers,
        subjects: list[bytes],
        timestamps_ns: Numbers,
        sizes: Numbers,
    ) -> None:
        """Add messages of the next sequences to the active segment."""
        count = len(subjects)
        if count == 1:
            self.append_one(offset, subjects[0], timestamps_ns[0], sizes[0])
            return
        segment = self.segments[-1]
        first = segment.first_sequence + len(segment.offsets)
        if not self.messages:
            self.first_sequence = first
        if subjects.count(subjects[0]) == count:
            sid = self.subjects.id_of(subjects[0])
            ids = array("I", (sid,)) * count
            if self._snapshot is not None:
                self._snapshot.note_subjects((sid,))
            size = segment.extend(offset, lengths, timestamps_ns, ids, sizes)
            self._link(segment, sid, first)
            begin = first - segment.first_sequence
            segment.distances[begin : begin + count - 1] = array("I", [1]) * (count - 1)
            self.subjects.counts[sid] += count
            self.subjects.lasts[sid] = first + count - 1
        else:
            size = self._append_different(segment, offset, lengths, subjects, timestamps_ns, sizes)
        self.messages += count
        self.byte_count += size

    def append_one(self, offset: int, subject: bytes, timestamp_ns: int, size: int) -> None:
        """Add one message, without a list for each of its columns."""
        table, segment = self.subjects, self.segments[-1]
        start = segment.first_sequence
        sequence = start + len(segment.offsets)
        if not self.messages:
            self.first_sequence = sequence
        sid = table.ids.get(subject)
        if sid is None:
            sid = table.id_of(subject)
        if self._snapshot is not None:
            self._snapshot.note_subjects((sid,))
        segment.add(offset, timestamp_ns, sid, size)
        before = table.lasts[sid]
        if before >= start:
            segment.distances[before - start] = sequence - before
        else:
            self._link(segment, sid, sequence)
        table.counts[sid] += 1
        table.lasts[sid] = sequence
        self.messages += 1
        self.byte_count += size

    def _append_different(
        self,
        segment: SegmentIndex,
        offset: int,
        lengths: Numbers,
        subjects: list[bytes],
        timestamps_ns: Numbers,
        sizes: Numbers,
    ) -> int:
        table = self.subjects
        first, start = segment.next_sequence, segment.first_sequence
        try:
            ids = list(map(table.ids.__getitem__, subjects))
        except KeyError:
            ids = list(map(table.id_of, subjects))
        if self._snapshot is not None:
            self._snapshot.note_subjects(ids)
        size = segment.extend(offset, lengths, timestamps_ns, ids, sizes)
        firsts, lasts, counts = table.firsts, table.lasts, table.counts
        distances = segment.distances
        for sequence, sid in enumerate(ids, first):
            before = lasts[sid]
            if before >= start:
                distances[before - start] = sequence - before
            elif before == NO_SEQUENCE:
                firsts[sid] = sequence
            else:
                self._link(segment, sid, sequence)
            counts[sid] += 1
            lasts[sid] = sequence
        return size

    def _link(self, segment: SegmentIndex, sid: int, sequence: int) -> None:
        """Note that `sequence` follows the last message of its subject, or begins it."""
        before = self.subjects.lasts[sid]
        if before == NO_SEQUENCE:
            self.subjects.firsts[sid] = sequence
            return
        if before < segment.first_sequence:
            segment = self.segment_of(before)
        position = before - segment.first_sequence
        if 0 <= position < len(segment.distances):
            segment.distances[position] = sequence - before

    def skip(self, count: int, timestamp_ns: int) -> None:
        """Give out the next `count` sequences without messages."""
        self.segments[-1].skip(count, timestamp_ns)
        if not self.messages:
            self.first_sequence = self.next_sequence

    # --- shrinking -----------------------------------------------------------------------------

    def delete(self, sequence: int) -> int:
        """Delete a message; returns its size, -1 if there is no such message."""
        segment = self.segment_of(sequence)
        if not segment.has(sequence):
            return -1
        position = sequence - segment.first_sequence
        size = segment.sizes[position]
        sid = segment.subject_ids[position]
        if self._snapshot is not None:
            self._snapshot.note_removal(sid, sequence)
        segment.drop(position)
        self.messages -= 1
        self.byte_count -= size
        if self.removals is not None:
            self.removals.add(sid, sequence)
        self._shrink_subject(sid, sequence)
        if sequence == self.first_sequence:
            self.first_sequence = self.next_message(sequence + 1) or self.next_sequence
        return size

    def present(self, sequences: list[int]) -> list[int]:
        """The sequences that have messages, of some ascending ones."""
        found: list[int] = []
        for segment, some in self.by_segment(sequences):
            positions = map((-segment.first_sequence).__add__, some)
            live = map(segment.offsets.__getitem__, positions)
            found += some if segment.is_dense else compress(some, live)
        return found

    def delete_many(self, sequences: list[int]) -> None:
        """Delete messages, which are all there, in ascending order.

        Subjects and totals are updated once, not for each message.
        """
        if self.tally is not None:
            self.tally.remove(sequences)
        if len(sequences) < DELETED_TOGETHER_MIN:
            for sequence in sequences:
                self.delete(sequence)
            return
        ids: list[int] = []
        for segment, some in self.by_segment(sequences):
            here = [*map((-segment.first_sequence).__add__, some)]
            sids = [*map(segment.subject_ids.__getitem__, here)]
            if self._snapshot is not None:
                for sid, sequence in zip(sids, some, strict=True):
                    self._snapshot.note_removal(sid, sequence)
            self.byte_count -= segment.drop_many(here)
            ids += sids
        self.messages -= len(sequences)
        if self.removals is not None:
            self.removals.add_many(ids, sequences)
        for sid, count in Counter(ids).items():
            self._shrink_subject_by(sid, count)
        if sequences[0] == self.first_sequence:
            self.first_sequence = self.next_message(sequences[0] + 1) or self.next_sequence

    def _shrink_subject_by(self, sid: int, count: int) -> None:
        subjects = self.subjects
        subjects.counts[sid] -= count
        if subjects.counts[sid] == 0:
            subjects.forget_subject(sid)
            return
        first, last = subjects.firsts[sid], subjects.lasts[sid]
        if not self.has(first):
            subjects.firsts[sid] = self._following(sid, first)
        if not self.has(last):
            subjects.lasts[sid] = self._preceding(sid, last)

    def _shrink_subject(self, sid: int, sequence: int) -> None:
        subjects = self.subjects
        subjects.counts[sid] -= 1
        if subjects.counts[sid] == 0:
            subjects.forget_subject(sid)
            return
        if subjects.firsts[sid] == sequence:
            subjects.firsts[sid] = self._following(sid, sequence)
        elif subjects.lasts[sid] == sequence:
            subjects.lasts[sid] = self._preceding(sid, sequence)

    def _following(self, sid: int, sequence: int) -> int:
        """The next message of subject `sid` after `sequence`; there must be one."""
        self.ensure_linked()
        segment = self.segment_of(sequence)
        while True:
            position = sequence - segment.first_sequence
            # A segment that was removed took its links with it.
            distance = segment.distances[position] if position < len(segment.distances) else 0
            if distance == 0:
                return self._search(sid, sequence + 1)
            sequence += distance
            if sequence >= segment.next_sequence:
                segment = self.segment_of(sequence)
            if segment.has(sequence):
                return sequence

    def _relink(self) -> None:
        """Find out how far apart the messages of each subject are, after loading an index."""
        before = array("Q", bytes(8 * len(self.subjects.names)))
        for segment in self.segments:
            first, offsets = segment.first_sequence, segment.offsets
            for position, sid in enumerate(segment.subject_ids):
                if offsets[position]:
                    sequence = first + position
                    earlier = before[sid]
                    if earlier >= first:
                        segment.distances[earlier - first] = sequence - earlier
                    elif earlier:
                        home = self.segment_of(earlier)
                        home.distances[earlier - home.first_sequence] = sequence - earlier
                    before[sid] = sequence
        self._linked = True

    def _search(self, sid: int, sequence: int) -> int:
        """The first message of subject `sid` at or after `sequence`; 0 without one."""
        for number in range(self.segment_number(sequence), len(self.segments)):
            segment = self.segments[number]
            if segment.live:
                begin = max(sequence - segment.first_sequence, 0)
                position = segment.find(sid, begin, len(segment.offsets))
                if position >= 0:
                    return segment.first_sequence + position
        return NO_SEQUENCE

    def _preceding(self, sid: int, sequence: int) -> int:
        """The last message of subject `sid` before `sequence`; 0 without one.

        Followed from the first one where there are few, else searched for backwards: of many, one
        is near.
        """
        if self._linked and self.subjects.counts[sid] <= FOLLOWED_MAX:
            found = reached = self.subjects.firsts[sid]
            while reached and reached < sequence:
                found = reached if self.has(reached) else found
                reached = self._linked_after(reached)
            if reached:
                return found
        for number in range(self.segment_number(sequence), -1, -1):
            segment = self.segments[number]
            if segment.live:
                end = min(sequence - segment.first_sequence, len(segment.offsets))
                position = segment.rfind(sid, 0, end)
                if position >= 0:
                    return segment.first_sequence + position
        return NO_SEQUENCE

    def _linked_after(self, sequence: int) -> int:
        """The message after another one on its subject, though it may be gone; 0 if not known."""
        segment = self.segment_of(sequence)
        position = sequence - segment.first_sequence
        distance = segment.distances[position] if position < len(segment.distances) else 0
        return sequence + distance if distance else NO_SEQUENCE

    def cut(self, next_sequence: int) -> list[SegmentIndex]:
        """Forget every sequence from `next_sequence` on; returns the segments that are gone.

        Their messages must have been deleted before.
        """
        gone = []
        self._begin_epoch()
        while len(self.segments) > 1 and self.segments[-1].first_sequence >= next_sequence:
            gone.append(self.segments.pop())
            self._starts.pop()
        if self.segments[-1].first_sequence > next_sequence:
            gone.append(self.segments.pop())
            self._starts.pop()
        else:
            self.segments[-1].cut(next_sequence)
        if not self.segments or self.next_sequence < next_sequence:
            # The segment that covered it is long gone; its sequences must not come back.
            self.segments.append(SegmentIndex(next_sequence))
            self._starts.append(next_sequence)
        if not self.messages:
            self.first_sequence = self.next_sequence
        return gone

    # --- looking -------------------------------------------------------------------------------

    def next_message(self, sequence: int) -> int:
        """The first message at or after `sequence`; 0 without one."""
        segment = self.segments[bisect_right(self._starts, sequence) - 1]
        position = sequence - segment.first_sequence
        if 0 <= position < len(segment.offsets) and segment.offsets[position]:
            # A consumer reads message by message: nearly always there is this one.
            return sequence
        for number in range(self.segment_number(sequence), len(self.segments)):
            segment = self.segments[number]
            if segment.live:
                found = segment.first_live(max(sequence - segment.first_sequence, 0))
                if found >= 0:
                    return segment.first_sequence + found
        return NO_SEQUENCE

    def messages_from(self, begin: int, end: int, count_max: int) -> list[int]:
        """The first messages from `begin` on and before `end`, in order, up to so many."""
        found: list[int] = []
        # Sequences before the first message are not looked through, however many they are.
        begin = max(begin, self.first_sequence)
        for segment in self.segments_between(begin, end):
            first = segment.first_sequence
            position = max(begin - first, 0)
            stop = min(end - first, len(segment.offsets))
            while position < stop and len(found) < count_max:
                wanted = count_max - len(found)
                behind = min(position + max(wanted, STRETCH_MIN), stop)
                live = segment.live_positions(position, behind)
                found += islice(map(first.__add__, live), wanted)
                position = behind
        return found

    def last_message(self, sequence: int) -> int:
        """The last message at or before `sequence`; 0 without one."""
        for segment in reversed(self.segments_between(0, sequence + 1)):
            if segment.live:
                end = min(sequence + 1 - segment.first_sequence, len(segment.offsets))
                found = segment.last_live(end)
                if found >= 0:
                    return segment.first_sequence + found
        return NO_SEQUENCE

    def next_of_subject(self, sid: int, sequence: int) -> int:
        """The first message of subject `sid` at or after `sequence`; 0 without one."""
        subjects = self.subjects
        found = subjects.firsts[sid]
        if subjects.lasts[sid] < sequence or found >= sequence:
            return found if found >= sequence else NO_SEQUENCE
        if not self._linked or subjects.counts[sid] > FOLLOWED_MAX:
            return self._search(sid, sequence)
        while found < sequence:
            found = self._following(sid, found)
        return found

    def last_of_subject(self, sid: int, sequence: int) -> int:
        """The last message of subject `sid` at or before `sequence`; 0 without one."""
        subjects = self.subjects
        if subjects.firsts[sid] > sequence:
            return NO_SEQUENCE
        found = subjects.lasts[sid]
        return found if found <= sequence else self._preceding(sid, sequence + 1)

    def followed(self, sid: int, begin: int, end: int) -> Iterator[int]:
        """The messages of subject `sid` from `begin` on and before `end`, one after the other.

        The index must not change meanwhile.
        """
        sequence, last = self.next_of_subject(sid, begin), self.subjects.lasts[sid]
        while sequence < end and sequence:
            yield sequence
            sequence = self._following(sid, sequence) if sequence < last else NO_SEQUENCE

    def bytes_of_subject(self, sid: int, begin: int, end: int) -> int:
        """The size of the messages of subject `sid` from `begin` on and before `end`."""
        total = 0
        for segment in self.segments_between(begin, end):
            first = segment.first_sequence
            stop = min(end - first, len(segment.offsets))
            positions = segment.passing(sid.__eq__, max(begin - first, 0), stop)
            total += sum(map(segment.sizes.__getitem__, positions))
        return total

    def count_from(self, sequence: int) -> int:
        """The number of messages at or after `sequence`."""
        if sequence <= self.first_sequence:
            return self.messages
        number = self.segment_number(sequence)
        segment = self.segments[number]
        begin = sequence - segment.first_sequence
        here = segment.count_live(begin, len(segment.offsets))
        return here + sum(segment.live for segment in self.segments[number + 1 :])

    def stored_before(self, timestamp_ns: int, count_max: int = COUNT_MAX) -> list[int]:
        """Messages from the first on as long as they are older than a time, oldest first, up to so
        many."""
        found: list[int] = []
        for segment in self.segments_between(self.first_sequence, self.next_sequence):
            position = max(self.first_sequence - segment.first_sequence, 0)
            left = count_max - len(found)
            positions, is_all = segment.stored_before(timestamp_ns, position, left)
            found += map(segment.first_sequence.__add__, positions)
            if not is_all:
                break
        return found

    def first_at(self, timestamp_ns: int) -> int:
        """The first message stored at or after a time; 0 without one."""
        for segment in self.segments:
            if segment.live and segment.timestamps_ns[-1] >= timestamp_ns:
                position = bisect_left(segment.timestamps_ns, timestamp_ns)
                found = segment.first_live(position)
                if found >= 0:
                    return segment.first_sequence + found
        return NO_SEQUENCE

    @property
    def last_timestamp_ns(self) -> int:
        """The time at which the last sequence was given out; 0 if the segments do not tell."""
        times_ns = self.segments[-1].timestamps_ns
        if not times_ns and len(self.segments) > 1:
            times_ns = self.segments[-2].timestamps_ns
        return times_ns[-1] if times_ns else 0

    def timestamp_of(self, sequence: int) -> int:
        """The time at which a message was stored."""
        segment = self.segment_of(sequence)
        return segment.timestamps_ns[sequence - segment.first_sequence]

    def missing(self, count_max: int) -> Work[list[int]]:
        """The first of the sequences between the first message and the last sequence without
        messages, up to so many; found some at a time."""
        found: list[int] = []
        expected = self.first_sequence
        for segment in self.segments_between(expected, self.next_sequence) if self.messages else ():
            first = segment.first_sequence
            found += range(expected, min(first, expected + count_max - len(found)))
            end = len(segment.offsets)
            for begin in range(max(expected - first, 0), end, MISSED_AT_A_TIME):
                stop = min(begin + MISSED_AT_A_TIME, end)
                absent = map(not_, segment.offsets[begin:stop])
                gone = compress(range(first + begin, first + stop), absent)
                found += islice(gone, count_max - len(found))
                yield 1 + (stop - begin) // 8
            expected = max(expected, segment.next_sequence)
        return found

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Ranges between the first message and the last sequence without messages: first, last."""
        expected = self.first_sequence
        sequence = self.next_message(expected)
        while sequence:
            if sequence > expected:
                yield expected, sequence - 1
            segment = self.segment_of(sequence)
            position = sequence - segment.first_sequence
            try:
                position = segment.offsets.index(0, position)
            except ValueError:
                position = len(segment.offsets)
            expected = segment.first_sequence + position
            sequence = self.next_message(expected)
        if self.messages and expected < self.next_sequence:
            yield expected, self.next_sequence - 1
