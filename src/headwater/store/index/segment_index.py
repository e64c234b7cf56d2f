"""The messages of one segment in memory: packed arrays, and how to look through them.

A message costs 24 bytes here: where its record is, when it was stored, which subject it has, what
it counts, and how far away the next message of its subject is. No object per message, so a hundred
million messages are invisible to the garbage collector.

An offset of 0 means that there is no message: deleted, skipped or lost. Arrays are indexed by
position, the sequence minus the segment's first sequence; the subject id of a position without a
message means nothing.

Looking through a segment is done by operations on whole stretches of an array, never by a loop over
messages; `examined` tells how many positions that took, so that a test can hold lookups to it.
"""

from array import array
from collections.abc import Iterable
from itertools import accumulate, compress, islice, repeat, takewhile
from struct import Struct
from typing import Final, final

from headwater.base.columns import Numbers
from headwater.base.invariants import check
from headwater.store.disk.format import FormatError
from headwater.store.index.block_counts import BLOCK_POSITIONS, BlockCounts, SubjectCounts, Test

# Stretches that are searched become longer from the first to the last of these.
STRETCH_MIN: Final = 64
STRETCH_MAX: Final = 8192
STRETCH_FACTOR: Final = 8

_FOOTER: Final = Struct("<QIII")
_EXPIRY: Final = Struct("<Qq")
# Offset, timestamp, subject id and size of one message.
_COLUMNS_BYTES: Final = 4 + 8 + 4 + 4
_ID_BYTES: Final = 4


@final
class SegmentIndex:
    """The messages of one segment."""

    __slots__ = (
        "_blocks",
        "dead_bytes",
        "distances",
        "examined",
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
        # The bytes that each message counts in the stream's total.
        self.sizes = array("I")
        # Sequences to the next message of the same subject; 0 until it comes.
        self.distances = array("I")
        self.live = 0
        self.live_bytes = 0
        # The bytes of messages that are gone and still take room in the file.
        self.dead_bytes = 0
        self.examined = 0
        self._blocks = BlockCounts()

    @property
    def next_sequence(self) -> int:
        """The sequence after the last one this segment covers."""
        return self.first_sequence + len(self.offsets)

    @property
    def is_dense(self) -> bool:
        """Whether there is a message at every position."""
        return self.live == len(self.offsets)

    def has(self, sequence: int) -> bool:
        """Whether there is a message of that sequence here."""
        position = sequence - self.first_sequence
        return 0 <= position < len(self.offsets) and self.offsets[position] != 0

    # --- changes -------------------------------------------------------------------------------

    def add(self, offset: int, timestamp_ns: int, subject_id: int, size: int) -> None:
        """Add the message of the next sequence, whose record begins at `offset`."""
        if self._blocks.is_known:
            self._blocks.forget_from(len(self.offsets))
        self.offsets.append(offset)
        self.timestamps_ns.append(timestamp_ns)
        self.subject_ids.append(subject_id)
        self.sizes.append(size)
        self.distances.append(0)
        self.live += 1
        self.live_bytes += size

    def extend(
        self,
        offset: int,
        lengths: Numbers,
        timestamps_ns: Numbers,
        subject_ids: Numbers,
        sizes: Numbers,
    ) -> int:
        """Add messages of the next sequences, whose records follow each other from `offset` on.

        Returns the bytes that they count.
        """
        if self._blocks.is_known:
            self._blocks.forget_from(len(self.offsets))
        self.offsets.fromlist(list(accumulate(lengths[:-1], initial=offset)))
        _extend(self.timestamps_ns, timestamps_ns)
        _extend(self.subject_ids, subject_ids)
        _extend(self.sizes, sizes)
        self.distances.frombytes(bytes(4 * len(lengths)))
        self.live += len(lengths)
        size = sum(sizes)
        self.live_bytes += size
        return size

    def replace_offsets(
        self, before: "array[int]", offsets: "array[int]", sizes: "array[int]"
    ) -> None:
        """Note that records have moved from `before` to `offsets`.

        Messages that were deleted meanwhile stay deleted. `sizes` are 0 for what takes no room any
        more.
        """
        check(len(offsets) == len(self.offsets), "a successor covers the same sequences")
        self.dead_bytes = 0
        for position in _differing(before, self.offsets):
            offsets[position] = 0
            self.dead_bytes += sizes[position]
        self.offsets = offsets
        self.sizes = sizes

    def renumber(self, new_ids: "array[int]") -> None:
        """Replace the ids of subjects."""
        if self.live:
            self.subject_ids = array("I", map(new_ids.__getitem__, self.subject_ids))
        else:
            # Ids of messages that are gone may be those of no subject any more.
            self.subject_ids = array("I", bytes(_ID_BYTES * len(self.subject_ids)))
        self._blocks.forget_ids()

    def clear(self, first: int, last: int) -> None:
        """Remove the messages of a range, before the segment becomes part of a log's index."""
        begin = max(first - self.first_sequence, 0)
        end = min(last + 1 - self.first_sequence, len(self.offsets))
        if begin < end:
            self.offsets[begin:end] = array("I", bytes(4 * (end - begin)))

    def skip(self, count: int, timestamp_ns: int) -> None:
        """Give out sequences without messages."""
        nothing = bytes(4 * count)
        if self._blocks.is_known:
            self._blocks.forget_from(len(self.offsets))
        self.offsets.frombytes(nothing)
        self.subject_ids.frombytes(nothing)
        self.sizes.frombytes(nothing)
        self.distances.frombytes(nothing)
        self.timestamps_ns.extend([timestamp_ns] * count)

    def drop(self, position: int) -> None:
        """Delete a message."""
        self.offsets[position] = 0
        self.live -= 1
        self.live_bytes -= self.sizes[position]
        self.dead_bytes += self.sizes[position]
        if self._blocks.is_known:
            self._blocks.drop(position, self.subject_ids[position])

    def drop_many(self, positions: list[int]) -> int:
        """Delete messages, in ascending order; returns their size."""
        first, count = positions[0], len(positions)
        if positions[-1] - first + 1 == count:
            size = sum(self.sizes[first : first + count])
            self.offsets[first : first + count] = array("I", bytes(4 * count))
        else:
            size = sum(map(self.sizes.__getitem__, positions))
            offsets = self.offsets
            for position in positions:
                offsets[position] = 0
        self.live -= count
        self.live_bytes -= size
        self.dead_bytes += size
        if self._blocks.is_known:
            self._blocks.forget_from(first)
        return size

    def cut(self, next_sequence: int) -> None:
        """Forget the sequences from `next_sequence` on, none of which has a message any more."""
        keep = max(next_sequence - self.first_sequence, 0)
        self.dead_bytes -= sum(self.sizes[keep:])
        for column in self.columns():
            del column[keep:]

    def columns(self) -> "tuple[array[int], ...]":
        """The arrays, one entry each per sequence."""
        return (self.offsets, self.timestamps_ns, self.subject_ids, self.sizes, self.distances)

    # --- looking for any message ---------------------------------------------------------------

    def first_live(self, position: int = 0) -> int:
        """The position of the first message at or after `position`; -1 without one."""
        offsets = self.offsets
        end = len(offsets)
        if position < end and offsets[position]:
            return position
        size = STRETCH_MIN
        while position < end:
            stop = min(position + size, end)
            self.examined += stop - position
            found = next(compress(range(position, stop), offsets[position:stop]), -1)
            if found >= 0:
                return found
            position, size = stop, min(size * STRETCH_FACTOR, STRETCH_MAX)
        return -1

    def last_live(self, end: int) -> int:
        """The position of the last message before `end`; -1 without one."""
        size = STRETCH_MIN
        while end > 0:
            if self.offsets[end - 1]:
                return end - 1
            start = max(end - size, 0)
            found = max(self.live_positions(start, end), default=-1)
            if found >= 0:
                return found
            end, size = start, min(size * STRETCH_FACTOR, STRETCH_MAX)
        return -1

    def live_positions(self, begin: int, end: int) -> "Iterable[int]":
        """The positions that have messages, in order."""
        self.examined += end - begin
        positions = range(begin, end)
        return positions if self.is_dense else compress(positions, self.offsets[begin:end])

    def count_live(self, begin: int, end: int) -> int:
        """The number of messages at the positions from `begin` up to `end`."""
        if self.is_dense:
            return max(end - begin, 0)
        total = 0
        while begin < end:
            block = begin // BLOCK_POSITIONS
            first, stop = self.block_bounds(block)
            if begin == first and stop <= end:
                total += self.live_in(block)
            else:
                stop = min(stop, end)
                total += self._count_here(begin, stop)
            begin = stop
        return total

    def block_bounds(self, block: int) -> tuple[int, int]:
        """The positions of a block: the first, and the one behind the last."""
        begin = block * BLOCK_POSITIONS
        return begin, min(begin + BLOCK_POSITIONS, len(self.offsets))

    def live_in(self, block: int) -> int:
        """The number of messages in a block."""
        count = self._blocks.live(block)
        if count < 0:
            count = self._count_here(*self.block_bounds(block))
            self._blocks.set_live(block, count)
        return count

    def _count_here(self, begin: int, end: int) -> int:
        self.examined += end - begin
        return end - begin - self.offsets[begin:end].count(0)

    def stored_before(
        self, timestamp_ns: int, position: int, count_max: int
    ) -> tuple[list[int], bool]:
        """Positions of the messages from `position` on as long as they are older than that, up to
        so many.

        And whether more may follow in the next segment. Not by bisection: a clock that was set back
        must not make a message older than it is.
        """
        found: list[int] = []
        end = len(self.offsets)
        size = STRETCH_MIN
        while position < end:
            if len(found) >= count_max:
                return found[:count_max], False
            stop = min(position + size, end)
            live = self.offsets[position:stop]
            times = compress(self.timestamps_ns[position:stop], live)
            older = len(list(takewhile(timestamp_ns.__gt__, times)))
            found += islice(self.live_positions(position, stop), older)
            if older < len(live) - live.count(0):
                return found[:count_max], False
            position, size = stop, min(size * STRETCH_FACTOR, STRETCH_MAX)
        return found[:count_max], len(found) < count_max

    # --- looking for subjects ------------------------------------------------------------------

    def subject_counts(self, block: int) -> SubjectCounts:
        """The number of messages of each subject in a block that is not growing just now."""
        counts = self._blocks.subject_counts(block)
        if counts is None:
            begin, end = self.block_bounds(block)
            self.examined += end - begin
            counts = SubjectCounts(compress(self.subject_ids[begin:end], self.offsets[begin:end]))
            self._blocks.set_subject_counts(block, counts)
        return counts

    def find(self, sid: int, begin: int, end: int) -> int:
        """The first position from `begin` up to `end` with a message of a subject; -1 if none."""
        while begin < end:
            block = begin // BLOCK_POSITIONS
            stop = min(self.block_bounds(block)[1], end)
            found = self._find(sid, begin, stop) if self._blocks.may_have(block, sid) else -1
            if found >= 0:
                return found
            begin = stop
        return -1

    def _find(self, sid: int, begin: int, end: int) -> int:
        if 2 * self.live < len(self.offsets):
            return self.first_of(sid.__eq__, begin, end)
        # Searching bytes is a tenth of the cost of comparing numbers.
        wanted = array("I", [sid]).tobytes()
        size = STRETCH_MIN
        while begin < end:
            stop = min(begin + size, end)
            self.examined += stop - begin
            data = self.subject_ids[begin:stop].tobytes()
            place = data.find(wanted)
            while place >= 0:
                position = begin + place // _ID_BYTES
                if place % _ID_BYTES == 0 and self.offsets[position]:
                    return position
                place = data.find(wanted, place + 1)
            begin, size = stop, min(size * STRETCH_FACTOR, STRETCH_MAX)
        return -1

    def rfind(self, sid: int, begin: int, end: int) -> int:
        """The last position from `begin` up to `end` with a message of a subject; -1 if none."""
        if begin < end and self.subject_ids[end - 1] == sid and self.offsets[end - 1]:
            return end - 1
        while begin < end:
            block = (end - 1) // BLOCK_POSITIONS
            start = max(self.block_bounds(block)[0], begin)
            found = self._rfind(sid, start, end) if self._blocks.may_have(block, sid) else -1
            if found >= 0:
                return found
            end = start
        return -1

    def _rfind(self, sid: int, begin: int, end: int) -> int:
        if 2 * self.live < len(self.offsets):
            return self.last_of(sid.__eq__, begin, end)
        wanted = array("I", [sid]).tobytes()
        size = STRETCH_MIN
        while begin < end:
            start = max(end - size, begin)
            self.examined += end - start
            data = self.subject_ids[start:end].tobytes()
            place = data.rfind(wanted)
            while place >= 0:
                position = start + place // _ID_BYTES
                if place % _ID_BYTES == 0 and self.offsets[position]:
                    return position
                place = data.rfind(wanted, 0, place + _ID_BYTES - 1)
            end, size = start, min(size * STRETCH_FACTOR, STRETCH_MAX)
        return -1

    def first_of(self, test: Test, begin: int, end: int) -> int:
        """The first position from `begin` up to `end` whose message passes; -1 if none does."""
        size = STRETCH_MIN
        while begin < end:
            stop = min(begin + size, end)
            found = next(iter(self.passing(test, begin, stop)), -1)
            if found >= 0:
                return found
            begin, size = stop, min(size * STRETCH_FACTOR, STRETCH_MAX)
        return -1

    def last_of(self, test: Test, begin: int, end: int) -> int:
        """The last position from `begin` up to `end` whose message passes; -1 if none does."""
        size = STRETCH_MIN
        while begin < end:
            start = max(end - size, begin)
            found = max(self.passing(test, start, end), default=-1)
            if found >= 0:
                return found
            end, size = start, min(size * STRETCH_FACTOR, STRETCH_MAX)
        return -1

    def passing(self, test: Test, begin: int, end: int) -> Iterable[int]:
        """The positions from `begin` up to `end` whose message passes, in order."""
        self.examined += end - begin
        positions, ids = range(begin, end), self.subject_ids[begin:end]
        if self.is_dense:
            return compress(positions, map(test, ids))
        live = self.offsets[begin:end]
        return compress(compress(positions, live), map(test, compress(ids, live)))

    def count_of(self, test: Test, begin: int, end: int) -> int:
        """The number of messages from position `begin` up to `end` that pass."""
        self.examined += end - begin
        ids = self.subject_ids[begin:end]
        if self.is_dense:
            return sum(map(bool, map(test, ids)))
        return sum(map(bool, map(test, compress(ids, self.offsets[begin:end]))))

    # --- footer --------------------------------------------------------------------------------

    def encode(self, names: list[bytes], expiries: list[tuple[int, int]]) -> bytes:
        """The index as a footer holds it, self-contained: subjects by name.

        `names` are all subjects of the stream by id, `expiries` the sequences here that go at their
        own time, and when.
        """
        # Sequences without a message have no subject, whatever id stands there.
        live = dict.fromkeys(compress(self.subject_ids, self.offsets))
        local = {sid: number for number, sid in enumerate(live)}
        if local:
            ids = array("I", map(local.get, self.subject_ids, repeat(0)))
        else:
            ids = array("I", bytes(4 * len(self.subject_ids)))
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


def _extend(column: "array[int]", numbers: Numbers) -> None:
    """Add numbers to a column, in either case without a step for each."""
    if isinstance(numbers, list):
        column.fromlist(numbers)
    else:
        column += numbers


def _differing(before: "array[int]", after: "array[int]") -> list[int]:
    """Positions at which two arrays of one length differ, found block by block: they are few."""
    found: list[int] = []
    for begin in range(0, len(before), STRETCH_MAX):
        old, new = before[begin : begin + STRETCH_MAX], after[begin : begin + STRETCH_MAX]
        # Comparing bytes is a hundredth of the cost of comparing numbers.
        if old.tobytes() != new.tobytes():
            found += [
                begin + at
                for at, pair in enumerate(zip(old, new, strict=True))
                if pair[0] != pair[1]
            ]
    return found


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
    if table and len(table) != max(index.subject_ids) + 1:
        # An older version took line ends in subjects.
        raise FormatError(f"{name}: footer whose subjects cannot be told apart")
    return Footer(index, table, expiries)
