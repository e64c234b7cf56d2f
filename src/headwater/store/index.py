"""What is where, in memory: packed arrays per segment, and the extent of every subject.

A message costs 24 bytes here: where its record is, when it was stored, which subject it has, what
it counts, and how far away the next message of its subject is. No object per message, so a hundred
million messages are invisible to the garbage collector.

An offset of 0 means that there is no message: deleted, skipped or lost. Arrays are indexed by
sequence minus the segment's first sequence.

The index decides nothing and touches no file; `headwater.store.log` and `headwater.store.memory`
keep it in step with what they store.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, compress
from struct import Struct
from typing import Final, final

from headwater.base.invariants import check
from headwater.store.format import FormatError

NO_SEQUENCE: Final = 0
# Ids of subjects that are gone are let be up to here: giving out all anew takes time.
IDS_UNUSED_MIN: Final = 65_536

_FOOTER: Final = Struct("<QIII")
_EXPIRY: Final = Struct("<Qq")
# Offset, timestamp, subject id and size of one message.
_COLUMNS_BYTES: Final = 4 + 8 + 4 + 4


@final
class SegmentIndex:
    """The messages of one segment."""

    __slots__ = (
        "distances",
        "first_sequence",
        "live",
        "live_bytes",
        "offsets",
        "sizes",
        "subject_ids",
        "timestamps_ns",
    )

    def __init__(self, first_sequence: int) -> None:
        self.first_sequence = first_sequence
        self.offsets = array("I")
        self.timestamps_ns = array("q")
        self.subject_ids = array("I")
        # What a message counts in the stream's bytes.
        self.sizes = array("I")
        # To the next message of the same subject; 0 while there is none.
        self.distances = array("I")
        self.live = 0
        self.live_bytes = 0

    @property
    def next_sequence(self) -> int:
        """The sequence after the last one this segment covers."""
        return self.first_sequence + len(self.offsets)

    def has(self, sequence: int) -> bool:
        """Whether there is a message of that sequence here."""
        position = sequence - self.first_sequence
        return 0 <= position < len(self.offsets) and self.offsets[position] != 0

    def extend(
        self,
        offset: int,
        lengths: list[int],
        timestamps_ns: list[int],
        subject_ids: list[int],
        sizes: list[int],
    ) -> None:
        """Messages of the next sequences, their records one after the other from `offset` on."""
        self.offsets.extend(accumulate(lengths[:-1], initial=offset))
        self.timestamps_ns.extend(timestamps_ns)
        self.subject_ids.extend(subject_ids)
        self.sizes.extend(sizes)
        self.distances.frombytes(bytes(4 * len(lengths)))
        self.live += len(lengths)
        self.live_bytes += sum(sizes)

    def take_offsets(self, offsets: "array[int]") -> None:
        """The records have moved; what was deleted meanwhile stays deleted."""
        check(len(offsets) == len(self.offsets), "a successor covers the same sequences")
        self.offsets = array(
            "I", (new if old else 0 for old, new in zip(self.offsets, offsets, strict=True))
        )
        # What has left the file takes no room any more.
        self.sizes = array(
            "I", (size if new else 0 for size, new in zip(self.sizes, offsets, strict=True))
        )

    def clear(self, first: int, last: int) -> None:
        """There is no message in a range, before the segment becomes part of a log's index."""
        begin = max(first - self.first_sequence, 0)
        end = min(last + 1 - self.first_sequence, len(self.offsets))
        if begin < end:
            self.offsets[begin:end] = array("I", bytes(4 * (end - begin)))

    def skip(self, count: int, timestamp_ns: int) -> None:
        """Sequences without messages."""
        nothing = bytes(4 * count)
        self.offsets.frombytes(nothing)
        self.subject_ids.frombytes(nothing)
        self.sizes.frombytes(nothing)
        self.distances.frombytes(nothing)
        self.timestamps_ns.extend([timestamp_ns] * count)

    def drop(self, position: int) -> None:
        """Take a message out."""
        self.offsets[position] = 0
        self.live -= 1
        self.live_bytes -= self.sizes[position]

    def cut(self, next_sequence: int) -> None:
        """Forget the sequences from `next_sequence` on, none of which has a message any more."""
        keep = max(next_sequence - self.first_sequence, 0)
        for column in self.columns():
            del column[keep:]

    def columns(self) -> "tuple[array[int], ...]":
        """The arrays, one entry each per sequence."""
        return (self.offsets, self.timestamps_ns, self.subject_ids, self.sizes, self.distances)

    def first_live(self, position: int = 0) -> int:
        """The position of the first message at or after `position`; -1 if there is none."""
        offsets = self.offsets
        for candidate in range(position, len(offsets)):
            if offsets[candidate]:
                return candidate
        return -1

    def last_live(self) -> int:
        """The position of the last message; -1 if there is none."""
        offsets = self.offsets
        for candidate in range(len(offsets) - 1, -1, -1):
            if offsets[candidate]:
                return candidate
        return -1

    def encode(self, names: list[bytes], expiries: list[tuple[int, int]]) -> bytes:
        """The index as a footer holds it, self-contained: subjects by name.

        `names` are all subjects of the stream by id, `expiries` the sequences here that go at their
        own time, and when.
        """
        # Sequences without a message have no subject, whatever id stands there.
        live = dict.fromkeys(compress(self.subject_ids, self.offsets))
        local = {sid: number for number, sid in enumerate(live)}
        ids = array("I", (local.get(sid, 0) for sid in self.subject_ids))
        table = b"\n".join(names[sid] for sid in local)
        return b"".join(
            (
                _FOOTER.pack(self.first_sequence, len(self.offsets), len(table), len(expiries)),
                table,
                b"".join(_EXPIRY.pack(sequence, time_ns) for sequence, time_ns in expiries),
                self.offsets.tobytes(),
                self.timestamps_ns.tobytes(),
                ids.tobytes(),
                self.sizes.tobytes(),
            )
        )


@final
class Footer:
    """A segment's index read back; subject ids are positions in `table`."""

    __slots__ = ("expiries", "index", "table")

    def __init__(
        self, index: SegmentIndex, table: list[bytes], expiries: list[tuple[int, int]]
    ) -> None:
        self.index = index
        self.table = table
        self.expiries = expiries


def decode_footer(data: bytes, name: str) -> Footer:
    """Read a footer; raises FormatError."""
    if len(data) < _FOOTER.size:
        raise FormatError(f"{name}: footer too short")
    first_sequence, count, table_size, expiry_count = _FOOTER.unpack_from(data)
    start = _FOOTER.size
    expiry_size = expiry_count * _EXPIRY.size
    if len(data) != start + table_size + expiry_size + count * _COLUMNS_BYTES:
        raise FormatError(f"{name}: footer of the wrong size")
    table = data[start : start + table_size].split(b"\n") if table_size else []
    start += table_size
    expiries = [
        (sequence, time_ns)
        for sequence, time_ns in _EXPIRY.iter_unpack(data[start : start + expiry_size])
    ]
    start += expiry_size
    index = SegmentIndex(first_sequence)
    for column, width in (
        (index.offsets, 4),
        (index.timestamps_ns, 8),
        (index.subject_ids, 4),
        (index.sizes, 4),
    ):
        column.frombytes(data[start : start + width * count])
        start += width * count
    index.distances.frombytes(bytes(4 * count))
    return Footer(index, table, expiries)


@final
class SubjectTable:
    """Every subject that has messages: first, last and how many.

    Ids are small numbers that segments use in place of names. An id is not given to another subject
    while this object lives, because segments still refer to it.
    """

    __slots__ = ("counts", "firsts", "ids", "lasts", "names")

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}
        self.names: list[bytes] = []
        self.firsts = array("Q")
        self.lasts = array("Q")
        self.counts = array("I")

    def __len__(self) -> int:
        return len(self.ids)

    def id_of(self, subject: bytes) -> int:
        """The id of a subject, new if need be."""
        found = self.ids.get(subject)
        if found is None:
            found = self.ids[subject] = len(self.names)
            self.names.append(subject)
            self.firsts.append(0)
            self.lasts.append(0)
            self.counts.append(0)
        return found

    def extent(self, subject: bytes) -> tuple[int, int, int]:
        """First and last sequence of a subject, and how many messages it has."""
        sid = self.ids.get(subject)
        if sid is None:
            return NO_SEQUENCE, NO_SEQUENCE, 0
        return self.firsts[sid], self.lasts[sid], self.counts[sid]

    def forget(self, sid: int) -> None:
        """A subject has no message left."""
        del self.ids[self.names[sid]]
        self.firsts[sid] = self.lasts[sid] = NO_SEQUENCE


@final
class LogIndex:
    """All segments and subjects of one stream, and the totals that follow."""

    __slots__ = (
        "_linked",
        "_starts",
        "byte_count",
        "first_sequence",
        "messages",
        "segments",
        "subjects",
    )

    def __init__(self, first_sequence: int) -> None:
        self.segments: list[SegmentIndex] = [SegmentIndex(first_sequence)]
        self._starts = [first_sequence]
        # Whether the distances between messages of a subject are known.
        self._linked = True
        self.subjects = SubjectTable()
        self.messages = 0
        self.byte_count = 0
        # Of the first message; one past the last sequence where there is no message.
        self.first_sequence = first_sequence

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
    def restored(cls, segments: list[SegmentIndex], subjects: SubjectTable) -> "LogIndex":
        """An index exactly as it was: ids and distances are those of `subjects`."""
        index = cls(segments[0].first_sequence)
        index.segments = segments
        index._starts = [segment.first_sequence for segment in segments]
        index.subjects = subjects
        index.messages = sum(segment.live for segment in segments)
        index.byte_count = sum(segment.live_bytes for segment in segments)
        index.first_sequence = index.next_message(0) or index.next_sequence
        return index

    def attach(self, segment: SegmentIndex, table: list[bytes]) -> None:
        """A segment that was read back and follows all that is known."""
        self.segments.append(segment)
        self._starts.append(segment.first_sequence)
        self._adopt(segment, table)
        if self.messages == segment.live:
            self.first_sequence = self.next_message(0) or self.next_sequence

    def renumber_if_worthwhile(self) -> None:
        """Give out ids anew when most of them belong to subjects that are gone."""
        subjects = self.subjects
        if len(subjects.names) < 2 * len(subjects.ids) + IDS_UNUSED_MIN:
            return
        fresh = SubjectTable()
        new_ids = array("I", bytes(4 * len(subjects.names)))
        for name, sid in subjects.ids.items():
            new_ids[sid] = fresh.id_of(name)
            fresh.firsts[-1] = subjects.firsts[sid]
            fresh.lasts[-1] = subjects.lasts[sid]
            fresh.counts[-1] = subjects.counts[sid]
        for segment in self.segments:
            # Ids of messages that are gone mean nothing, whatever they become.
            segment.subject_ids = array("I", map(new_ids.__getitem__, segment.subject_ids))
        self.subjects = fresh

    def ensure_linked(self) -> None:
        """Know how far apart the messages of each subject are."""
        if not self._linked:
            self._relink()

    def _adopt(self, segment: SegmentIndex, table: list[bytes]) -> None:
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
        self.messages += segment.live
        self.byte_count += segment.live_bytes

    @property
    def next_sequence(self) -> int:
        """The sequence the next message gets."""
        return self.segments[-1].next_sequence

    @property
    def last_sequence(self) -> int:
        """The last sequence given out, also if its message is gone."""
        return self.next_sequence - 1

    def begin_segment(self) -> SegmentIndex:
        """A new active segment after the present one."""
        segment = SegmentIndex(self.next_sequence)
        self.segments.append(segment)
        self._starts.append(segment.first_sequence)
        return segment

    def remove_segment(self, segment: SegmentIndex) -> None:
        """Forget a segment in which nothing is left; never the last one."""
        check(segment.live == 0, "a segment with messages can not be removed")
        position = self.segments.index(segment)
        check(position < len(self.segments) - 1, "the active segment can not be removed")
        del self.segments[position]
        del self._starts[position]

    def segment_of(self, sequence: int) -> SegmentIndex:
        """The segment that covers a sequence, or the one before it where none does."""
        return self.segments[max(bisect_right(self._starts, sequence) - 1, 0)]

    def has(self, sequence: int) -> bool:
        """Whether there is a message of that sequence."""
        return self.segment_of(sequence).has(sequence)

    # --- growing -------------------------------------------------------------------------------

    def append(
        self,
        offset: int,
        lengths: list[int],
        subjects: list[bytes],
        timestamps_ns: list[int],
        sizes: list[int],
    ) -> None:
        """Messages of the next sequences in the active segment."""
        segment = self.segments[-1]
        first = segment.next_sequence
        count = len(subjects)
        if not self.messages:
            self.first_sequence = first
        if subjects.count(subjects[0]) == count:
            sid = self.subjects.id_of(subjects[0])
            ids = [sid] * count
            segment.extend(offset, lengths, timestamps_ns, ids, sizes)
            self._link(segment, sid, first)
            begin = first - segment.first_sequence
            segment.distances[begin : begin + count - 1] = array("I", [1]) * (count - 1)
            self.subjects.counts[sid] += count
            self.subjects.lasts[sid] = first + count - 1
        else:
            id_of = self.subjects.id_of
            ids = [id_of(subject) for subject in subjects]
            segment.extend(offset, lengths, timestamps_ns, ids, sizes)
            counts, lasts, link = self.subjects.counts, self.subjects.lasts, self._link
            for sequence, sid in enumerate(ids, first):
                link(segment, sid, sequence)
                counts[sid] += 1
                lasts[sid] = sequence
        self.messages += count
        self.byte_count += sum(sizes)

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
        """The next `count` sequences get no message."""
        self.segments[-1].skip(count, timestamp_ns)
        if not self.messages:
            self.first_sequence = self.next_sequence

    # --- shrinking -----------------------------------------------------------------------------

    def delete(self, sequence: int) -> int:
        """Take a message out; returns what it counted, -1 if there is none."""
        segment = self.segment_of(sequence)
        if not segment.has(sequence):
            return -1
        position = sequence - segment.first_sequence
        size = segment.sizes[position]
        sid = segment.subject_ids[position]
        segment.drop(position)
        self.messages -= 1
        self.byte_count -= size
        self._shrink_subject(sid, sequence)
        if sequence == self.first_sequence:
            self.first_sequence = self.next_message(sequence + 1) or self.next_sequence
        return size

    def _shrink_subject(self, sid: int, sequence: int) -> None:
        subjects = self.subjects
        subjects.counts[sid] -= 1
        if subjects.counts[sid] == 0:
            subjects.forget(sid)
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
        """The first message of subject `sid` at or after `sequence`; 0 if there is none."""
        start = max(bisect_right(self._starts, sequence) - 1, 0)
        for segment in self.segments[start:]:
            position = max(sequence - segment.first_sequence, 0)
            while True:
                try:
                    position = segment.subject_ids.index(sid, position)
                except ValueError:
                    break
                if segment.offsets[position]:
                    return segment.first_sequence + position
                position += 1
        return NO_SEQUENCE

    def _preceding(self, sid: int, sequence: int) -> int:
        """The last message of subject `sid` before `sequence`; 0 if there is none."""
        start = max(bisect_right(self._starts, sequence) - 1, 0)
        for segment in reversed(self.segments[: start + 1]):
            ids, offsets = segment.subject_ids, segment.offsets
            end = min(sequence - segment.first_sequence, len(offsets))
            for position in range(end - 1, -1, -1):
                if ids[position] == sid and offsets[position]:
                    return segment.first_sequence + position
        return NO_SEQUENCE

    def cut(self, next_sequence: int) -> list[SegmentIndex]:
        """Forget every sequence from `next_sequence` on; returns the segments that are gone.

        Their messages must have been deleted before.
        """
        gone = []
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
        """The first message at or after `sequence`; 0 if there is none."""
        start = max(bisect_right(self._starts, sequence) - 1, 0)
        for segment in self.segments[start:]:
            if segment.live:
                found = segment.first_live(max(sequence - segment.first_sequence, 0))
                if found >= 0:
                    return segment.first_sequence + found
        return NO_SEQUENCE

    def next_of(self, ids: "set[int]", sequence: int) -> int:
        """The first message at or after `sequence` whose subject is one of `ids`; 0 if none."""
        if len(ids) == 1:
            return self._next_of_one(next(iter(ids)), sequence)
        start = max(bisect_right(self._starts, sequence) - 1, 0)
        for segment in self.segments[start:]:
            if not segment.live:
                continue
            offsets, subject_ids = segment.offsets, segment.subject_ids
            for position in range(max(sequence - segment.first_sequence, 0), len(offsets)):
                if offsets[position] and subject_ids[position] in ids:
                    return segment.first_sequence + position
        return NO_SEQUENCE

    def _next_of_one(self, sid: int, sequence: int) -> int:
        subjects = self.subjects
        if subjects.counts[sid] == 0 or subjects.lasts[sid] < sequence:
            return NO_SEQUENCE
        if subjects.firsts[sid] >= sequence:
            return subjects.firsts[sid]
        return self._search(sid, sequence)

    def last_of(self, ids: "set[int]", sequence: int) -> int:
        """The last message at or before `sequence` whose subject is one of `ids`; 0 if none."""
        subjects = self.subjects
        best = NO_SEQUENCE
        for sid in sorted(ids):
            if subjects.counts[sid] == 0 or subjects.firsts[sid] > sequence:
                continue
            found = subjects.lasts[sid]
            if found > sequence:
                found = self._preceding(sid, sequence + 1) if found > best else NO_SEQUENCE
            best = max(best, found)
        return best

    def first_at(self, timestamp_ns: int) -> int:
        """The first message stored at or after a time; 0 if there is none."""
        for segment in self.segments:
            if segment.live and segment.timestamps_ns[-1] >= timestamp_ns:
                position = bisect_left(segment.timestamps_ns, timestamp_ns)
                found = segment.first_live(position)
                if found >= 0:
                    return segment.first_sequence + found
        return NO_SEQUENCE

    def timestamp_of(self, sequence: int) -> int:
        """When a message was stored."""
        segment = self.segment_of(sequence)
        return segment.timestamps_ns[sequence - segment.first_sequence]

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
