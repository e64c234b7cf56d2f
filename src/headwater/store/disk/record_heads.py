"""The heads of consecutive records of a segment, read together by operations on whole arrays.

A replica gets the records of many messages with the length of each. The heads of all records, which
are their fixed parts and a subject of the size of the first one, are gathered into one buffer. Its
columns are compared and copied without a step of Python for each record. All that a caller gets
stands in the records themselves: lengths that contradict them are found, and nothing else is told
besides.

The bytes of the records have been checked as a whole.
"""

from array import array
from collections.abc import Iterable
from itertools import accumulate, compress, repeat
from operator import add, sub
from struct import Struct
from typing import Final, final

from headwater.store.disk.format import (
    EXPIRY_BYTES,
    MESSAGE,
    MESSAGE_WITH_EXPIRY,
    RECORD_BYTES,
    FormatError,
)

# The place of the size of its subject in a record.
_SUBJECT_SIZE: Final = Struct("<24xH")
# The widest head: larger subjects are read one by one.
_HEAD_BYTES_MAX: Final = 128
_SEQUENCE_END: Final = 1 << 64


@final
class RecordHeads:
    """The columns of messages whose records follow each other in `data`, from `begin` on.

    `expiring` has the positions of the messages that go at their own time.
    """

    __slots__ = (
        "_begins",
        "_data",
        "_header_sizes",
        "_subject_sizes",
        "expiring",
        "first_sequence",
        "has_headers",
        "lengths",
        "subjects",
        "timestamps_ns",
    )

    def __init__(self, data: bytes, begin: int, lengths: "array[int]") -> None:
        """Raises FormatError unless `lengths` are those of the records from `begin` to the end of
        `data`, and each record is one of a message of the next sequence."""
        count, size = len(lengths), len(data) - begin
        if size < RECORD_BYTES or not count or min(lengths) < RECORD_BYTES or sum(lengths) != size:
            raise FormatError(f"the lengths of {count} records are not those of their bytes")
        self._data = data
        self.lengths = lengths
        begins = self._begins = [*accumulate(lengths[:-1], initial=begin)]
        (subject_size,) = _SUBJECT_SIZE.unpack_from(data, begin)
        width = RECORD_BYTES + subject_size + -subject_size % 8
        if width > _HEAD_BYTES_MAX:
            width = RECORD_BYTES
        heads = b"".join([data[at : at + width] for at in begins])
        # The last record may end before a head does.
        heads += bytes(count * width - len(heads))
        doubles, words = array("Q", heads), array("I", heads)
        first = self.first_sequence = doubles[1]
        if words[:: width // 4] != lengths:
            raise FormatError(f"message {first}: lengths of records are those of other records")
        end = first + count
        if end > _SEQUENCE_END or doubles[1 :: width // 8] != array("Q", range(first, end)):
            raise FormatError(f"message {first}: other sequences follow it than the next ones")
        self.timestamps_ns = array("q", doubles[2 :: width // 8].tobytes())
        self._header_sizes = words[7 :: width // 4]
        self.has_headers = self._header_sizes.tobytes() != bytes(4 * count)
        halves = array("H", heads)
        self._subject_sizes = halves[12 :: width // 2]
        self.expiring = self._expiring(halves[13 :: width // 2])
        self._check_sizes()
        self.subjects = self._subjects(heads, width)

    def _expiring(self, kinds: "array[int]") -> list[int]:
        count = len(kinds)
        if kinds == array("H", (MESSAGE,)) * count:
            return []
        found = [*compress(range(count), map(MESSAGE_WITH_EXPIRY.__eq__, kinds))]
        if kinds.count(MESSAGE) + len(found) != count:
            raise FormatError(f"message {self.first_sequence}: a record behind it is no message")
        return found

    def _check_sizes(self) -> None:
        """Raise FormatError if a subject or header does not end within its record."""
        is_plain = not (self.has_headers or self.expiring)
        if is_plain and max(self._subject_sizes) + RECORD_BYTES <= min(self.lengths):
            return
        ends = map(add, self._begins, self.lengths)
        if min(map(sub, ends, self._bodies())) < 0:
            raise FormatError(f"message {self.first_sequence}: a record behind it is too short")

    def _starts(self) -> list[int]:
        """The place of each subject."""
        starts = [*map(add, self._begins, repeat(RECORD_BYTES))]
        for position in self.expiring:
            starts[position] += EXPIRY_BYTES
        return starts

    def _bodies(self) -> Iterable[int]:
        """The place of each payload."""
        behind_subjects = map(add, self._starts(), self._subject_sizes)
        return map(add, behind_subjects, self._header_sizes)

    def _subjects(self, heads: bytes, width: int) -> list[bytes]:
        """The subject of each message; one object for all if they have one subject."""
        data, sizes = self._data, self._subject_sizes
        count, size = len(sizes), sizes[0]
        if sizes != array("H", (size,)) * count:
            return [data[at : at + size] for at, size in zip(self._starts(), sizes, strict=True)]
        if width >= RECORD_BYTES + size and not self.expiring:
            subject = heads[RECORD_BYTES : RECORD_BYTES + size]
            if all(
                heads[at::width] == subject[at - RECORD_BYTES : at + 1 - RECORD_BYTES] * count
                for at in range(RECORD_BYTES + size - 1, RECORD_BYTES - 1, -1)
            ):
                return [subject] * count
        return [data[at : at + size] for at in self._starts()]

    def headers(self) -> list[bytes]:
        """The header block of each message, empty for a message without one."""
        if not self.has_headers:
            return [b""] * len(self.lengths)
        data, begins = self._data, map(add, self._starts(), self._subject_sizes)
        return [
            data[at : at + size] if size else b""
            for at, size in zip(begins, self._header_sizes, strict=True)
        ]

    def payloads(self) -> list[bytes]:
        """The payload of each message."""
        data, ends = self._data, map(add, self._begins, self.lengths)
        return [data[begin:end] for begin, end in zip(self._bodies(), ends, strict=True)]

    def expiries_ns(self) -> list[int]:
        """When each message goes, 0 for never; an empty list if no message has its own time."""
        if not self.expiring:
            return []
        found = [0] * len(self.lengths)
        for position in self.expiring:
            begin = self._begins[position] + RECORD_BYTES
            expiry = self._data[begin : begin + EXPIRY_BYTES]
            found[position] = int.from_bytes(expiry, "little", signed=True)
        return found

    def sizes(self, besides: int, besides_header: int) -> "array[int]":
        """The bytes that each message counts: those of subject, header and payload, `besides` them,
        and `besides_header` for a header."""
        lengths, besides = self.lengths, besides - RECORD_BYTES
        count = len(lengths)
        if lengths == array("I", lengths[:1]) * count:
            sizes = array("I", (lengths[0] + besides,)) * count
        else:
            sizes = array("I", map(besides.__add__, lengths))
        for position in self.expiring:
            sizes[position] -= EXPIRY_BYTES
        if besides_header and self.has_headers:
            for position in compress(range(count), self._header_sizes):
                sizes[position] += besides_header
        return sizes
