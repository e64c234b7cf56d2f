"""The write-ahead file of a server: one write and one sync for all streams that were busy.

Streams that must be on disk before an ack put the entries of their logs here, which are applied to
segments and journals when this one file is synced. Segments and journals are synced later, at
leisure, and then this file is begun again. After a crash they are cut back to the last state that
the disk is known to have had, the redo point, and the entries behind it are applied again.

Streams of earlier versions had no entries. They put the very bytes here that they wrote to their
segments and journals, with where those bytes belong. After a crash each such frame is compared with
its file: bytes that are missing there are put back. Nothing writes kinds 1 and 2 any more.

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
               7 carried   all frames of streams in earlier files that still count are in this
                           file. Frames of groups in earlier files count as before.

               Kinds of consensus groups (`headwater.store.groups`); `identity` is the group's:
               8 state     term `file` and commit index `offset`, with vote and recovery number
               9 entry     entry `file` of term `offset`. It replaces all entries of its index and
                           above that were written before.
              10 snapshot  the log begins behind entry `file` of term `offset`, with its membership
              11 cut       the entries from `file` on are gone
              12 end       the group is gone

              13 replica   a redo point, as kind 4 with bytes, of a stream whose entries are those
                           of the group with its identity. A stream is replicated if this was the
                           last word on it, and not if a later frame of kind 3 was. `file` is 0 if
                           nothing in the stream's files counts: they are to be filled again.

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

from collections.abc import Callable
from errno import EIO
from struct import Struct
from typing import Final, NamedTuple, final

from headwater.base.checksums import crc32
from headwater.base.entropy import Entropy
from headwater.base.invariants import check
from headwater.store.disk.earlier_files import EarlierFiles, ahead_name
from headwater.store.disk.filesystem import (
    File,
    FileSystem,
    NoRoomError,
    create_whole,
    replace_file,
    write_whole,
)
from headwater.store.disk.format import (
    AHEAD_MAGIC,
    HEADER_BYTES,
    IDENTITY_BYTES,
    PREFIX_BYTES,
    FileHeader,
    FormatError,
    seed_of,
)
from headwater.store.disk.mark import StoreMark

FILE_BYTES_MAX: Final = 64 * 1024 * 1024

SEGMENT: Final = 1
JOURNAL: Final = 2
FORGET: Final = 3
SYNCED: Final = 4
MARK: Final = 5
ENTRY: Final = 6
CARRIED: Final = 7
GROUP_STATE: Final = 8
GROUP_ENTRY: Final = 9
GROUP_SNAPSHOT: Final = 10
GROUP_CUT: Final = 11
GROUP_END: Final = 12
REPLICA: Final = 13

_FRAME: Final = Struct("<16sH6xQQ")
_WHOLE_FRAME: Final = Struct("<II16sH6xQQ")
FRAME_PREFIX: Final = Struct("<II")
REDO_POINT: Final = Struct("<16sQQ")
FRAME_BYTES: Final = _WHOLE_FRAME.size

_NOBODY: Final = bytes(IDENTITY_BYTES)


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

    @property
    def is_void(self) -> bool:
        """Whether it is that of a replica whose files are to be filled again."""
        return self.segment_first == 0


VOID_POINT: Final = RedoPoint(0, 0, 0, 0, bytes(IDENTITY_BYTES))
"""The redo point of a replica nothing of whose files counts."""


# The index of an entry, the stream's last sequence that it follows, and its bytes.
WrittenEntry = tuple[int, int, bytes]

# A frame that is to be written: identity, kind, file, offset and bytes.
AddedFrame = tuple[bytes, int, int, int, bytes]


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
    return FRAME_PREFIX.pack(length, crc32(data, crc32(fixed, length ^ seed))) + fixed


def decode_frame(data: bytes, start: int, seed: int) -> Frame | None:
    """The sound frame at `start` of bytes of a write-ahead file whose frames have a seed, or
    None."""
    if start + FRAME_BYTES > len(data):
        return None
    length, crc, identity, kind, file, offset = _WHOLE_FRAME.unpack_from(data, start)
    end = start + length
    if length < FRAME_BYTES or end > len(data):
        return None
    if crc != crc32(data[start + PREFIX_BYTES : end], length ^ seed):
        return None
    return Frame(identity, kind, file, offset, data[start + FRAME_BYTES : end], length)


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
        "_added_count",
        "_broken",
        "_buffer",
        "_bytes_max",
        "_carried_bytes",
        "_entropy",
        "_file",
        "_files",
        "_folder",
        "_identity",
        "_mark",
        "_number",
        "_old",
        "_release_reserve",
        "_seed",
        "_synced_bytes",
        "_touched",
        "_written_count",
        "frames_written",
        "synced_count",
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
        mark: StoreMark | None = None,
    ) -> None:
        """`number` is that of the first file; none of that number or above is there.

        `release_reserve` makes room on the disk for frames that cannot be left out, and returns
        whether there was a reserve. `mark` is told what is written and synced.
        """
        self._mark = mark or StoreMark(None, folder)
        self._mark.note_file(number)
        self._files = files
        self._folder = folder
        self._identity = identity
        self._number = number
        self._entropy = entropy
        self._bytes_max = bytes_max
        self._buffer: list[AddedFrame] = []
        # The number of frames that were added, written, and are on the disk; with those that were
        # withdrawn.
        self._added_count = self._written_count = self.synced_count = 0
        # The streams that have added frames since `pop_touched`.
        self._touched: dict[bytes, None] = {}
        self._old = EarlierFiles(files, folder)
        self._file: File | None = None
        self._seed = 0
        # Bytes with which the file was begun: another file would begin with as many.
        self._carried_bytes = 0
        # Called with a file's number, an offset and the frames that have been written there, if
        # there are groups.
        self.frames_written: Callable[[int, int, list[AddedFrame]], object] | None = None
        self._synced_bytes = 0
        self._broken = ""
        self._release_reserve = release_reserve

    def _begin_file(self) -> File:
        header, seed = self._new_header()
        try:
            file = create_whole(self._files, self._path(self._number), header)
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
        self._carried_bytes = 0
        return file

    def _path(self, number: int) -> str:
        return f"{self._folder}/{ahead_name(number)}"

    def carry_over(self, redos: "dict[bytes, Redo]") -> None:
        """Begin a file with the redo points and entries of earlier files, by stream, durably.

        It is there as a whole or not at all. Raises OSError.
        """
        self.set_streams_apart()
        for identity, redo in redos.items():
            self.add_redo(identity, redo)
        self.begin_whole()

    def set_streams_apart(self) -> None:
        """Keep frames that make all frames of streams in earlier files void."""
        for _ in range(2):
            # Written twice, as FORGET is: without it the frames before it would do harm.
            self.add(_NOBODY, CARRIED, 0, 0, b"")

    def begin_whole(self) -> None:
        """Begin a file with the frames that are kept, durably: with all of them, or not at all.

        Raises NoRoomError if there is no room for it; all of them are kept then.
        """
        check(self._file is None, "a file that is begun is the only one")
        header, seed = self._new_header()
        self._seed = seed
        data = header + self._encode_buffer(HEADER_BYTES)
        path = self._path(self._number)
        try:
            try:
                replace_file(self._files, path, data)
            except NoRoomError:
                if self._release_reserve is None or not self._release_reserve():
                    raise
                replace_file(self._files, path, data)
            self._file = self._files.open(path)
        except NoRoomError:
            raise
        except OSError as error:
            # The file may be there, with the frames that are kept.
            self._broken = str(error)
            raise
        self._synced_bytes = self._file.size
        self._mark.note_synced(self._synced_bytes)
        self.synced_count = self._added_count
        self._carried_bytes = self._synced_bytes if self.frames_written is not None else 0
        self._report_written(HEADER_BYTES)

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
        return self._file is not None and self._file.size - self._carried_bytes >= self._bytes_max

    @property
    def has_frames(self) -> bool:
        """Whether there is a file whose removal would free room."""
        if self._file is not None and self._file.size > self._carried_bytes:
            return True
        return bool(self._old) and not self._carried_bytes

    def add(self, identity: bytes, kind: int, file: int, offset: int, data: bytes) -> None:
        """Keep a frame until the next `write`."""
        self._buffer.append((identity, kind, file, offset, data))
        self._added_count += 1
        self._touched[identity] = None

    def withdraw_last(self, count: int) -> None:
        """Drop the frames that were added last and are kept for the next `write`."""
        del self._buffer[len(self._buffer) - count :]

    def withdraw_entries(self, identity: bytes, index: int) -> None:
        """Drop the entries of a stream behind an index, which are kept for the next `write`."""
        self._buffer = [
            frame
            for frame in self._buffer
            if frame[0] != identity or frame[1] != ENTRY or frame[2] <= index
        ]

    def add_redo_point(self, identity: bytes, point: RedoPoint, is_replica: bool = False) -> int:
        """Keep a frame that names the redo point of a stream until the next `write`.

        Returns the number of the frame: `synced_count` reaches it when the disk has the frame.
        """
        data = REDO_POINT.pack(point.journal_salt, point.journal_bytes, point.entry)
        kind = REPLICA if is_replica else SYNCED
        self.add(identity, kind, point.segment_first, point.segment_bytes, data)
        return self._added_count

    def add_redo(self, identity: bytes, redo: "Redo") -> None:
        """Keep frames that say the same of a stream as those of earlier files."""
        if redo.point is not None:
            self.add_redo_point(identity, redo.point, redo.is_replica)
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

    def write(self) -> None:
        """Write all frames that are kept, in one write.

        Raises NoRoomError if there is no room for it; all of it is kept then.
        """
        self._check_sound()
        if not self._buffer:
            return
        file = self._file or self._begin_file()
        size = file.size
        self._append(file, self._encode_buffer(self._synced_bytes))
        self._mark.note_written(file.size)
        self._report_written(size)

    def _report_written(self, start: int) -> None:
        """Drop the frames that are kept, which have been written behind a mark at `start`."""
        frames, self._buffer = self._buffer, []
        self._written_count = self._added_count
        if self.frames_written is not None:
            self.frames_written(self._number, start + FRAME_BYTES, frames)

    def read_frame(self, number: int, offset: int, length: int) -> Frame:
        """A frame that was written to one of the files. Raises OSError and FormatError."""
        file, seed = self._file, self._seed
        if file is not None and number == self._number:
            data = file.read(offset, length)
        else:
            seed = self._old.seeds[number]
            data = self._old.read(number, offset, length)
        frame = decode_frame(data, 0, seed)
        if frame is None:
            raise FormatError(f"{ahead_name(number)}: no frame at {offset}")
        return frame

    def keep_files(self, seeds: dict[int, int]) -> None:
        """Have files of an earlier process, by number, with the seeds of their frames."""
        self._old.close()
        self._old.seeds = dict(seeds)

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
        size, count = file.size, self._written_count
        try:
            file.sync()
        except OSError as error:
            # Unsynced bytes may be lost although they can still be read, and the next sync would
            # not say so: this file confirms nothing any more.
            self._broken = str(error)
            raise
        self._synced_bytes = max(self._synced_bytes, size)
        self._mark.note_synced(self._synced_bytes)
        self.synced_count = max(self.synced_count, count)

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
            self._old.seeds[self._number] = self._seed
            self._number += 1
            self._carried_bytes = 0
            self._mark.note_file(self._number)
        return is_written

    @property
    def is_one_old_file(self) -> bool:
        """Whether `trim` removes all there is, in one step."""
        return self._file is None and len(self._old) == 1

    @property
    def number(self) -> int:
        """The number of the present file, or of the one that the next write begins."""
        return self._number

    def trim(self, before: int | None = None) -> None:
        """Remove the files before the present one: their streams have been synced since `roll`.

        Those from the number `before` on are kept for groups.
        """
        self._old.remove(before)

    def close(self) -> None:
        """Release the file."""
        self._old.close()
        if self._file is not None:
            self._file.close()
            self._file = None


@final
class Redo:
    """The redo point of a stream, and the entries behind it in order."""

    __slots__ = ("entries", "is_replica", "point")

    def __init__(self, point: RedoPoint | None = None, is_replica: bool = False) -> None:
        # None if none was found.
        self.point = point
        self.entries: list[WrittenEntry] = []
        # Whether the entries behind the redo point are those of a group.
        self.is_replica = is_replica

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
