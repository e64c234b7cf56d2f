"""The write-ahead file of a server: one write and one sync for all streams that were busy.

Streams that must be on disk before an ack put the entries of their logs here, which are applied to
segments and journals when this one file is synced. Segments and journals are synced later, at
leisure, and then this file is begun again. After a crash they are cut back to the last state that
the disk is known to have had, the redo point, and the entries behind it are applied again.

Streams that have no entries put the very bytes here that they write to their segments and journals,
with where those bytes belong. After a crash each frame is compared with its file: bytes that are
missing there are put back.

    file       header as a segment's, magic b"HWAHEAD!"; identity of the store, number of the file
    frame      0  length       u32 of the whole frame
      (48 +)   4  crc          u32 over bytes 8 to the end, begun with length and salt
               8  identity     16  of the stream
              24  kind         u16 see below
              26  (zero)       6
              32  file         u64 first sequence of a segment, index of an entry, else 0
              40  offset       u64
              48  bytes

    kinds      1 segment   these bytes belong at `offset` of the segment `file`
               2 journal   these bytes belong at `offset` of the journal
               3 forget    the stream's frames before this one are of no use any more: its files
                           were changed otherwise, durably, since. Always written twice, since
                           without it the frames before it would do harm.
               4 synced    the segment `file` was on the disk up to `offset`. With bytes, a redo
                           point: segments and journal were on the disk, ended there, and had the
                           effects of all entries up to an index and of no other:
                              journal salt    16  of the journal
                              journal bytes   u64
                              entry           u64 index
               5 mark      each write begins with one: this file was on the disk up to `offset`
               6 entry     entry `file` of the stream's log, which follows the stream's last
                           sequence `offset`. Indexes of a stream follow each other; an entry
                           replaces all of its index and above that were written before.
               7 carried   all frames of earlier files that still count are in this file: it was
                           written by a start after a crash, and put in place as a whole.

A redo point says nothing against entries behind it that were written before it. Files are changed
otherwise than by appending only behind a redo point that is on the disk, and appended to again only
when the redo point after that change is.

Marks tell damage from a write that the power interrupted. Bytes before a mark's offset were on the
disk, so if they are not sound they were damaged since, and the frames behind them count. Behind the
last mark's offset there is one write at most. If it is the beginning of one and nothing else, it
was never confirmed. If it is anything else nobody can tell, and it may have been.

A file that is made longer by each write costs a commit of the file system's own journal per sync.
Filling it with zeros beforehand would save that (measured: 70 of 220 us on ext4, nothing at all
with fallocate), and would make what an interrupted write leaves behind look like damage.
"""

import re
from collections.abc import Callable
from errno import EIO
from struct import Struct
from typing import Final, NamedTuple, final

from headwater.base.checksums import crc32
from headwater.base.entropy import Entropy
from headwater.store.disk.filesystem import (
    File,
    FileSystem,
    NoRoomError,
    create_whole,
    read_file,
    replace_file,
    write_whole,
)
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    AHEAD_MAGIC,
    HEADER_BYTES,
    IDENTITY_BYTES,
    PREFIX_BYTES,
    FileHeader,
    FormatError,
    NewerFormatError,
    seed_of,
)
from headwater.store.disk.set_aside import set_aside, set_aside_file

FILE_BYTES_MAX: Final = 64 * 1024 * 1024

SEGMENT: Final = 1
JOURNAL: Final = 2
FORGET: Final = 3
SYNCED: Final = 4
MARK: Final = 5
ENTRY: Final = 6
CARRIED: Final = 7

_FRAME: Final = Struct("<16sH6xQQ")
_WHOLE_FRAME: Final = Struct("<II16sH6xQQ")
_PREFIX: Final = Struct("<II")
_REDO_POINT: Final = Struct("<16sQQ")
FRAME_BYTES: Final = _WHOLE_FRAME.size

_NOBODY: Final = bytes(IDENTITY_BYTES)
# Matches wherever a frame's kind and the zeros behind it may be.
_KIND: Final = re.compile(rb"(?=[\x01-\x07]\x00{7})")
_KIND_OFFSET: Final = 24


class Extent(NamedTuple):
    """The end of the part of a stream's segments that is known to have been on the disk.

    Bytes behind it may be anything when the machine has stopped; bytes before it are whole, or were
    damaged since. Of two extents the later one is the larger.
    """

    segment_first: int
    size: int


class RedoPoint(NamedTuple):
    """A state of a stream's files: the ends of its last segment and its journal, and the index of
    the last entry whose effects they hold. Of two redo points with one journal the later one is the
    larger."""

    entry: int
    segment_first: int
    segment_bytes: int
    journal_bytes: int
    journal_salt: bytes


# The index of an entry, the stream's last sequence that it follows, and its bytes.
WrittenEntry = tuple[int, int, bytes]


@final
class Frame:
    """A frame: bytes, and the file and offset to which they belong."""

    __slots__ = ("data", "file", "identity", "kind", "length", "offset")

    def __init__(
        self, identity: bytes, kind: int, file: int, offset: int, data: bytes, length: int
    ) -> None:
        self.identity = identity
        self.kind = kind
        self.file = file
        self.offset = offset
        self.data = data
        self.length = length

    @property
    def end(self) -> int:
        """The offset behind its bytes in their file."""
        return self.offset + len(self.data)


def _frame_head(
    identity: bytes, kind: int, file: int, offset: int, data: bytes, seed: int
) -> bytes:
    """The header of a frame."""
    fixed = _FRAME.pack(identity, kind, file, offset)
    length = FRAME_BYTES + len(data)
    return _PREFIX.pack(length, crc32(data, crc32(fixed, length ^ seed))) + fixed


def decode_frame(data: bytes, start: int) -> Frame | None:
    """The sound frame at `start` of a write-ahead file's bytes, or None."""
    if start + FRAME_BYTES > len(data):
        return None
    length, crc, identity, kind, file, offset = _WHOLE_FRAME.unpack_from(data, start)
    end = start + length
    if length < FRAME_BYTES or end > len(data):
        return None
    if crc != crc32(data[start + PREFIX_BYTES : end], length ^ seed_of(data)):
        return None
    return Frame(identity, kind, file, offset, data[start + FRAME_BYTES : end], length)


def _name(number: int) -> str:
    return f"ahead-{number:012d}.hw"


def number_of(name: str) -> int:
    """The number in a write-ahead file's name; 0 if it is no such name."""
    digits = name.removeprefix("ahead-").removesuffix(".hw")
    return int(digits) if name == f"ahead-{digits}.hw" and digits.isdigit() else 0


@final
class WriteAhead:
    """The write-ahead file in use, and those before it that are still needed.

    A file is begun by the first write to it, so a store that needs none has none.
    """

    __slots__ = (
        "_broken",
        "_buffer",
        "_bytes_max",
        "_entropy",
        "_file",
        "_files",
        "_folder",
        "_identity",
        "_number",
        "_old",
        "_release_reserve",
        "_seed",
        "_synced_bytes",
        "_touched",
    )

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        identity: bytes,
        number: int,
        entropy: Entropy,
        bytes_max: int = FILE_BYTES_MAX,
        release_reserve: Callable[[], bool] | None = None,
    ) -> None:
        """`number` is that of the first file; none of that number or above is there.

        `release_reserve` makes room on the disk for frames that cannot be left out, and returns
        whether there was a reserve.
        """
        self._files = files
        self._folder = folder
        self._identity = identity
        self._number = number
        self._entropy = entropy
        self._bytes_max = bytes_max
        self._buffer: list[tuple[bytes, int, int, int, bytes]] = []
        # The streams that have added frames since `pop_touched`.
        self._touched: dict[bytes, None] = {}
        self._old: list[str] = []
        self._file: File | None = None
        self._seed = 0
        self._synced_bytes = 0
        self._broken = ""
        self._release_reserve = release_reserve

    def _begin_file(self) -> File:
        header, seed = self._new_header()
        try:
            file = create_whole(self._files, f"{self._folder}/{_name(self._number)}", header)
            self._file = file
            # Then a file without a header is one in which nothing was ever confirmed.
            file.sync()
            self._files.sync_folder(self._folder)
        except NoRoomError:
            raise
        except OSError as error:
            self._broken = str(error)
            raise
        self._seed = seed
        self._synced_bytes = HEADER_BYTES
        return file

    def carry_over(self, redos: "dict[bytes, Redo]") -> None:
        """Begin a file with the redo points and entries of earlier files, by stream, durably.

        It is there as a whole or not at all. Raises OSError.
        """
        self.add(_NOBODY, CARRIED, 0, 0, b"")
        for identity, redo in redos.items():
            self.add_redo(identity, redo)
        header, self._seed = self._new_header()
        data = header + self._encode_buffer(HEADER_BYTES)
        self._buffer.clear()
        path = f"{self._folder}/{_name(self._number)}"
        try:
            replace_file(self._files, path, data)
        except NoRoomError:
            if self._release_reserve is None or not self._release_reserve():
                raise
            replace_file(self._files, path, data)
        self._file = self._files.open(path)
        self._synced_bytes = self._file.size

    def _new_header(self) -> tuple[bytes, int]:
        """The header of a new file, and the seed of its frames."""
        salt = self._entropy.random_bytes(IDENTITY_BYTES)
        header = FileHeader(AHEAD_MAGIC, self._identity, self._number, salt).encode()
        return header, seed_of(header)

    def _encode_buffer(self, synced_bytes: int) -> bytes:
        seed = self._seed
        parts: list[bytes] = [_frame_head(_NOBODY, MARK, 0, synced_bytes, b"", seed)]
        for frame in self._buffer:
            parts += (_frame_head(*frame, seed), frame[4])
        return b"".join(parts)

    @property
    def is_full(self) -> bool:
        """Whether it is time to sync the streams and begin another file."""
        return self._file is not None and self._file.size >= self._bytes_max

    @property
    def has_frames(self) -> bool:
        """Whether there is a file that takes up room."""
        return self._file is not None or bool(self._old)

    def add(self, identity: bytes, kind: int, file: int, offset: int, data: bytes) -> None:
        """Keep a frame until the next `write`."""
        self._buffer.append((identity, kind, file, offset, data))
        self._touched[identity] = None

    def withdraw_entries(self, identity: bytes, index: int) -> None:
        """Drop the entries of a stream behind an index, which are kept for the next `write`."""
        self._buffer = [
            frame
            for frame in self._buffer
            if frame[0] != identity or frame[1] != ENTRY or frame[2] <= index
        ]

    def add_redo_point(self, identity: bytes, point: RedoPoint) -> None:
        """Keep a frame that names the redo point of a stream until the next `write`."""
        data = _REDO_POINT.pack(point.journal_salt, point.journal_bytes, point.entry)
        self.add(identity, SYNCED, point.segment_first, point.segment_bytes, data)

    def add_redo(self, identity: bytes, redo: "Redo") -> None:
        """Keep frames that say the same of a stream as those of earlier files."""
        if redo.point is not None:
            self.add_redo_point(identity, redo.point)
        for index, follows, data in redo.entries:
            self.add(identity, ENTRY, index, follows, data)

    def pop_touched(self) -> list[bytes]:
        """The streams that have added frames since the last call, by identity."""
        touched = [*self._touched]
        self._touched.clear()
        return touched

    def forget_stream(self, identity: bytes) -> None:
        """Make all frames of a stream so far void, durably: none of them is put back, no entry is
        applied."""
        for _ in range(2):
            self.add(identity, FORGET, 0, 0, b"")
        self.must_write()
        self.sync()

    def must_write(self) -> None:
        """Write all frames that are kept, with the help of the reserve if need be."""
        try:
            self.write()
        except NoRoomError:
            if self._release_reserve is None or not self._release_reserve():
                raise
            self.write()

    def leave_out_copies(self) -> None:
        """Drop copies of bytes for the next `write`: their streams are durable by their own files.

        Entries are nowhere else, so they stay.
        """
        self._buffer = [frame for frame in self._buffer if frame[1] not in (SEGMENT, JOURNAL)]

    def write(self) -> None:
        """Write all frames that are kept, in one write.

        Raises NoRoomError if there is no room for it; all of it is kept then.
        """
        self._check_sound()
        if not self._buffer:
            return
        file = self._file or self._begin_file()
        self._append(file, self._encode_buffer(self._synced_bytes))
        self._buffer.clear()

    def _append(self, file: File, data: bytes) -> None:
        size = file.size
        try:
            write_whole(file, data)
        except NoRoomError:
            # Else the power could leave a part of this write within the next one.
            self.sync()
            raise
        except OSError as error:
            if file.size != size:
                # Frames behind half a frame would not be found in order.
                self._broken = str(error)
            raise

    def sync(self) -> None:
        """Return when all that was written is on the disk. May run on another thread."""
        self._check_sound()
        file = self._file
        if file is None:
            return
        size = file.size
        try:
            file.sync()
        except OSError as error:
            # Unsynced bytes may be lost although they can still be read, and the next sync would
            # not say so: this file confirms nothing any more.
            self._broken = str(error)
            raise
        self._synced_bytes = max(self._synced_bytes, size)

    def _check_sound(self) -> None:
        if self._broken:
            raise OSError(EIO, f"the write-ahead file failed before: {self._broken}")

    def roll(self) -> bool:
        """Begin another file with the next write; `trim` removes the ones before it.

        Returns whether the frames that were kept are in those; else they go to the other file.
        """
        is_written = True
        try:
            self.write()
        except NoRoomError:
            is_written = False
        self.sync()
        if self._file is not None:
            self._file.close()
            self._file = None
            self._old.append(f"{self._folder}/{_name(self._number)}")
            self._number += 1
        return is_written

    @property
    def is_one_old_file(self) -> bool:
        """Whether `trim` removes all there is, in one step."""
        return self._file is None and len(self._old) == 1

    def trim(self) -> None:
        """Remove the files before the present one: their streams have been synced since `roll`."""
        while self._old:
            self._files.remove(self._old[0])
            # One by one, oldest first: a crash must not leave an older file whose frames a FORGET
            # in a younger one, now gone, had made void.
            self._files.sync_folder(self._folder)
            del self._old[0]

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


# --- reading back ---------------------------------------------------------------------------------


@final
class AheadFrames:
    """The frames found in all write-ahead files, or those of one file of a stream."""

    __slots__ = (
        "certain",
        "doubtful",
        "is_damaged",
        "lacks_known_bytes",
        "names",
        "torn",
        "unsound_names",
    )

    def __init__(self) -> None:
        # Frames in order, up to damage that may have been confirmed or not.
        self.certain: list[Frame] = []
        # Sound frames behind that damage.
        self.doubtful: list[Frame] = []
        # Whether something that was confirmed may be missing.
        self.is_damaged = False
        # Whether damage is elsewhere than in the last write, which the power may have interrupted.
        self.lacks_known_bytes = False
        # The names of all files, of unsound ones, and the bytes of others behind their last frame.
        self.names: list[str] = []
        self.unsound_names: list[str] = []
        self.torn: dict[str, tuple[int, bytes]] = {}

    def by_file(self) -> "dict[tuple[bytes, int, int], AheadFrames]":
        """The frames that have bytes and are not forgotten, by stream, kind and segment."""
        every = [*self.certain, *self.doubtful]
        forgotten = {frame.identity: at for at, frame in enumerate(every) if frame.kind == FORGET}
        found: dict[tuple[bytes, int, int], AheadFrames] = {}
        for at, frame in enumerate(every):
            if frame.kind in (SEGMENT, JOURNAL) and at > forgotten.get(frame.identity, -1):
                key = (frame.identity, frame.kind, frame.file)
                of_file = found.setdefault(key, AheadFrames())
                is_certain = at < len(self.certain)
                (of_file.certain if is_certain else of_file.doubtful).append(frame)
        return found

    def extents(self) -> dict[bytes, Extent]:
        """The extent of each stream's segments that is certain to be whole once all is put back."""
        found: dict[bytes, Extent] = {}
        for frame in self.certain:
            if frame.kind == FORGET:
                found.pop(frame.identity, None)
            elif frame.kind in (SEGMENT, SYNCED):
                extent = Extent(frame.file, frame.end if frame.kind == SEGMENT else frame.offset)
                found[frame.identity] = max(found.get(frame.identity, extent), extent)
        for frame in self.doubtful:
            if frame.kind == FORGET:
                found.pop(frame.identity, None)
        return found

    def redos(self) -> "dict[bytes, Redo]":
        """The redo point of each stream that has entries, and the entries behind it."""
        found: dict[bytes, Redo] = {}
        for frame in (*self.certain, *self.doubtful):
            if frame.kind == FORGET:
                found.pop(frame.identity, None)
            elif frame.kind == ENTRY:
                entry = (frame.file, frame.offset, frame.data)
                found.setdefault(frame.identity, Redo()).add_entry(entry)
            elif frame.kind == SYNCED and len(frame.data) == _REDO_POINT.size:
                salt, journal_bytes, index = _REDO_POINT.unpack(frame.data)
                point = RedoPoint(index, frame.file, frame.offset, journal_bytes, salt)
                found.setdefault(frame.identity, Redo()).add_point(point)
        for redo in found.values():
            redo.drop_applied()
        return found


@final
class Redo:
    """The redo point of a stream, and the entries behind it in order."""

    __slots__ = ("entries", "point")

    def __init__(self) -> None:
        # None if none was found.
        self.point: RedoPoint | None = None
        self.entries: list[WrittenEntry] = []

    @property
    def last_entry(self) -> int:
        """The index of the last entry that is known of; 0 without one."""
        if self.entries:
            return self.entries[-1][0]
        return 0 if self.point is None else self.point.entry

    def add_point(self, point: RedoPoint) -> None:
        """Take note of a redo point that was written behind all before it."""
        if self.point is None or point.entry >= self.point.entry:
            self.point = point

    def add_entry(self, entry: WrittenEntry) -> None:
        """Take note of an entry that was written behind all before it."""
        while self.entries and self.entries[-1][0] >= entry[0]:
            self.entries.pop()
        self.entries.append(entry)

    def drop_applied(self) -> None:
        """Drop the entries that the redo point covers."""
        done = 0 if self.point is None else self.point.entry
        self.entries = [entry for entry in self.entries if entry[0] > done]

    def cut_at_gap(self) -> int:
        """Drop the entries behind the first one that is missing; returns how many they are."""
        following = self.entries[0][0] if self.point is None else self.point.entry + 1
        count = 0
        while count < len(self.entries) and self.entries[count][0] == following + count:
            count += 1
        dropped = len(self.entries) - count
        del self.entries[count:]
        return dropped


@final
class _Scanned:
    """The frames of one file, and the damage between them."""

    __slots__ = ("damage", "end", "frames", "known_bytes")

    def __init__(self, data: bytes) -> None:
        # Frames with their offsets.
        self.frames: list[tuple[int, Frame]] = []
        # Stretches of unsound bytes before the last sound frame, by begin and end.
        self.damage: list[tuple[int, int]] = []
        # Up to here the file was on the disk, as far as marks say.
        self.known_bytes = 0
        offset = self.end = HEADER_BYTES
        while offset:
            frame = decode_frame(data, offset)
            if frame is not None:
                self.frames.append((offset, frame))
                offset = self.end = offset + frame.length
                if frame.kind == MARK:
                    self.known_bytes = max(self.known_bytes, frame.offset)
                continue
            following = _following_frame(data, offset)
            if following:
                self.damage.append((offset, following))
            offset = following


def _following_frame(data: bytes, offset: int) -> int:
    """The offset of the next sound frame after `offset`, which is not sound; 0 without one."""
    for match in _KIND.finditer(data, offset + 1 + _KIND_OFFSET):
        place = match.start() - _KIND_OFFSET
        if decode_frame(data, place) is not None:
            return place
    return 0


def _is_torn(data: bytes, start: int) -> bool:
    """Whether the bytes from `start` on are the beginning of a frame, as an interrupted write
    leaves it."""
    size = len(data) - start
    if size < FRAME_BYTES or not any(data[start:]):
        return True
    length, crc = _PREFIX.unpack_from(data, start)
    # A whole frame of which only the length is wrong was not interrupted.
    whole = crc == crc32(data[start + PREFIX_BYTES :], size ^ seed_of(data))
    return bool(length > size) and not whole


def read_ahead(
    files: FileSystem, folder: str, identity: bytes | None, findings: Findings
) -> AheadFrames:
    """The frames of all write-ahead files, oldest first; changes nothing but `findings`.

    `identity` is the store's, None if it is not known. Raises NewerFormatError.
    """
    found = AheadFrames()
    found.names = [name for name in files.list_folder(folder) if number_of(name)]
    for name in found.names:
        data = read_file(files, f"{folder}/{name}")
        is_last = name == found.names[-1]
        try:
            header = FileHeader.decode(data[:HEADER_BYTES], AHEAD_MAGIC, name)
            if identity not in (None, header.identity):
                raise FormatError(f"{name}: belongs to another store")
        except NewerFormatError:
            raise
        except FormatError as error:
            if is_last and len(data) <= HEADER_BYTES:
                # The file was just being begun.
                findings.add("torn", f"{name}: no whole header")
            else:
                findings.add("unreadable", str(error))
                found.is_damaged = found.lacks_known_bytes = True
            found.unsound_names.append(name)
            continue
        take_ahead_file(name, data, is_last, found, findings)
    return found


def take_ahead_file(
    name: str, data: bytes, is_last: bool, found: AheadFrames, findings: Findings
) -> None:
    """Add the frames of one file, whose header is sound."""
    scanned = _Scanned(data)
    # A file that another one follows was on the disk as a whole.
    known_bytes = scanned.known_bytes if is_last else len(data)
    damage = scanned.damage
    rest = data[scanned.end :]
    if rest and scanned.end >= known_bytes and _is_torn(data, scanned.end):
        findings.add("torn", f"{name}: {len(rest)} bytes behind the last frame")
        found.torn[name] = scanned.end, rest
    elif rest:
        damage.append((scanned.end, len(data)))
    for begin, end in damage:
        findings.add("damaged", f"{name}: bytes {begin} to {end - 1} are no frame")
    if damage:
        found.is_damaged = True
        found.unsound_names.append(name)
    if any(frame.kind == CARRIED for _, frame in scanned.frames):
        found.certain.clear()
        found.doubtful.clear()
        found.lacks_known_bytes = False
    found.lacks_known_bytes |= any(begin < known_bytes for begin, _ in damage)
    doubtful_from = min((begin for begin, _ in damage if begin >= known_bytes), default=len(data))
    for start, frame in scanned.frames:
        (found.certain if start < doubtful_from else found.doubtful).append(frame)


def put_together(before: bytes, start: int, frames: AheadFrames) -> bytes:
    """A file's bytes from `start` on, `before`, as they are with the frames put back.

    Frames here are those of this file. Missing bytes before a certain frame become zeros, which no
    reader takes for a record; a doubtful frame is not put behind a hole.
    """
    data = bytearray(before)
    for frame in frames.certain:
        if frame.end > start:
            _put(data, start, frame)
    for frame in frames.doubtful:
        if start <= frame.offset <= start + len(data):
            _put(data, start, frame)
    return bytes(data)


def _put(data: bytearray, start: int, frame: Frame) -> None:
    position = frame.offset - start
    data.extend(bytes(max(position - len(data), 0)))
    if position < 0:
        data[: frame.end - start] = frame.data[-position:]
    else:
        data[position : position + len(frame.data)] = frame.data


def next_number(found: AheadFrames) -> int:
    """The number of the write-ahead file behind those that were found."""
    return max(map(number_of, found.names), default=0) + 1


def remove_ahead(files: FileSystem, folder: str, found: AheadFrames) -> None:
    """Remove the write-ahead files, whose bytes are where they belong."""
    for name in found.names:
        if name in found.unsound_names:
            set_aside_file(files, folder, name)
            continue
        if name in found.torn:
            offset, rest = found.torn[name]
            try:
                set_aside(files, folder, f"{name}-at-{offset}", rest)
            except OSError:
                # The disk may be full: a rename takes no room.
                set_aside_file(files, folder, name)
                continue
        files.remove(f"{folder}/{name}")
        # One by one, oldest first, as in `WriteAhead.trim`.
        files.sync_folder(folder)
