"""The journal of a stream: what happened to it besides messages, in order.

Every entry carries the position it followed, the stream's last sequence then. After a crash that
cost the end of the log, entries past that end are cut: they speak of what is not there.

Entries that are written together are one entry on the disk, a group: a crash leaves all of them or
none. A reader of the journal sees the parts, one after the other.

The journal alone says which messages were deleted, whatever else is lost. It is rewritten when most
of it is of no use any more: first all that is still true, in one go, then what follows.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, final

from headwater.base.invariants import check
from headwater.store.disk.filesystem import File, FileSystem, create_whole, write_whole
from headwater.store.disk.format import (
    ENTRY_BYTES,
    GROUP,
    HEADER_BYTES,
    JOURNAL_MAGIC,
    Entry,
    FileHeader,
    decode_entry,
    decode_group,
    encode_entry,
    encode_group,
)

# Kinds of the store's own, of which 5 is a group; what callers write begins at CALLER_KINDS.
DELETED: Final = 1
# A cut of the log's end: begun before it is made, done when it is on the disk.
TRUNCATING: Final = 2
TRUNCATED: Final = 3
LOST: Final = 4
# Messages that were found unreadable because a crash interrupted their erasure: deleted, not lost.
ERASED_BY_HALF: Final = 6
CALLER_KINDS: Final = 256

_RANGE: Final = Struct("<QQ")


def encode_ranges(ranges: Iterable[tuple[int, int]]) -> bytes:
    """Ranges of sequences, first and last, as an entry's body."""
    return b"".join(_RANGE.pack(first, last) for first, last in ranges)


def decode_ranges(body: bytes) -> list[tuple[int, int]]:
    """The ranges in an entry's body."""
    whole = len(body) - len(body) % _RANGE.size
    return [(first, last) for first, last in _RANGE.iter_unpack(body[:whole])]


def as_ranges(sequences: list[int]) -> list[tuple[int, int]]:
    """Ascending sequences as ranges."""
    if sequences[-1] - sequences[0] == len(sequences) - 1:
        return [(sequences[0], sequences[-1])]
    ranges: list[tuple[int, int]] = []
    for sequence in sequences:
        if ranges and ranges[-1][1] + 1 == sequence:
            ranges[-1] = (ranges[-1][0], sequence)
        else:
            ranges.append((sequence, sequence))
    return ranges


def size_of_entries(entries: Iterable[tuple[int, bytes]]) -> int:
    """The bytes of a journal that entries take, one by one."""
    return sum(ENTRY_BYTES + len(body) for _, body in entries)


def encode_entries(position: int, entries: list[tuple[int, bytes]]) -> bytes:
    """Entries, kind and body each, of which none is there without the others."""
    check(bool(entries), "there is something to write")
    if len(entries) == 1:
        return encode_entry(position, *entries[0])
    return encode_group(position, entries)


@final
class Journal:
    """An open journal file."""

    __slots__ = ("_file", "is_closed", "salt")

    def __init__(self, file: File, salt: bytes) -> None:
        self._file = file
        # Tells this journal from earlier ones of the same stream.
        self.salt = salt
        self.is_closed = False

    @classmethod
    def create(cls, files: FileSystem, path: str, identity: bytes, salt: bytes) -> "Journal":
        """A new, empty journal; durable once its folder is synced."""
        header = FileHeader(JOURNAL_MAGIC, identity, 0, salt).encode()
        return cls(create_whole(files, path, header), salt)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._file.size

    def write(self, position: int, entries: list[tuple[int, bytes]]) -> None:
        """Append entries, kind and body each, all or none."""
        self.append(encode_entries(position, entries))

    def append(self, data: bytes) -> None:
        """Append entries that are encoded, all or none."""
        write_whole(self._file, data)

    def write_apart(self, position: int, entries: list[tuple[int, bytes]]) -> None:
        """Append entries one by one to a journal that is not used yet: damage to one entry must not
        cost all of them."""
        self._file.write(b"".join(encode_entry(position, *entry) for entry in entries))

    def read_from(self, offset: int) -> bytes:
        """Everything behind an offset."""
        return self._file.read(offset, self._file.size - offset)

    def sync(self) -> None:
        """Make all that was written durable. May run on another thread."""
        self._file.sync()

    def truncate(self, size: int) -> None:
        """Cut back to a size the file had before."""
        self._file.truncate(size)

    def close(self) -> None:
        """Release the file."""
        self.is_closed = True
        self._file.close()


@final
class JournalEntries:
    """The entries found in a journal's bytes; a group is replaced by its parts."""

    __slots__ = ("damage", "end", "entries", "is_torn", "offsets", "sound_count")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        # Their offsets; parts of a group have that of the group.
        self.offsets: list[int] = []
        # The offset behind the last entry.
        self.end = HEADER_BYTES
        # The number of entries before the first damage.
        self.sound_count = 0
        # The damage before the end, in words.
        self.damage = ""
        # Whether there is nothing behind the end but what a process leaves that dies writing.
        self.is_torn = True

    @property
    def is_damaged(self) -> bool:
        """Whether there are sound entries behind unsound bytes."""
        return bool(self.damage)

    def add(self, offset: int, entry: Entry) -> None:
        """A sound entry, or group of entries."""
        entries = _parts_of(entry) if entry.kind == GROUP else [entry]
        self.entries += entries
        self.offsets += [offset] * len(entries)
        self.end = offset + entry.length
        if not self.is_damaged:
            self.sound_count += len(entries)


def read_entries(data: bytes) -> JournalEntries:
    """All sound entries of a journal's bytes, also behind damage."""
    found = JournalEntries()
    offset = HEADER_BYTES
    while True:
        entry = decode_entry(data, offset)
        if entry is not None:
            found.add(offset, entry)
            offset = found.end
            continue
        following = _following_entry(data, offset)
        if following == 0:
            break
        if not found.is_damaged:
            found.damage = f"bytes {offset} to {following - 1} are no entry"
        offset = following
    rest = len(data) - found.end
    found.is_torn = rest < 4 or rest < int.from_bytes(data[found.end : found.end + 4], "little")
    return found


def _parts_of(group: Entry) -> list[Entry]:
    parts = decode_group(group)
    if any(part.kind >= CALLER_KINDS for part in parts):
        for part in parts:
            part.is_joint = part.kind < CALLER_KINDS
    return parts


def _following_entry(data: bytes, offset: int) -> int:
    """The offset of the next sound entry after an unsound one; 0 without one."""
    claimed = int.from_bytes(data[offset : offset + 4], "little")
    if decode_entry(data, offset + claimed) is not None:
        return offset + claimed
    for place in range(offset + 1, len(data) - ENTRY_BYTES + 1):
        # Six zeros, and a kind before them that is not: what most places lack.
        if not any(data[place + 18 : place + ENTRY_BYTES]) and any(data[place + 16 : place + 18]):
            entry = decode_entry(data, place)
            if entry is not None:
                return place
    return 0
