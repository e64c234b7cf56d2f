"""The write-ahead file of a server: one write and one sync for all streams that were busy.

Streams that must be on disk before an ack put the very bytes they write to their segments and
journals here too, with where those bytes belong. Syncing this one file makes them durable; segments
and journals are synced later, at leisure, and then this file is begun anew.

    file       header as a segment's, magic b"HWAHEAD!"; identity of the store, number of the file
    frame      0  length       u32 of the whole frame
      (48 +)   4  crc          u32 over bytes 8 to the end, begun with the length
               8  identity     16  of the stream
              24  kind         u16 SEGMENT, JOURNAL or FORGET
              26  (zero)       6
              32  file         u64 first sequence of the segment; 0 for the journal
              40  offset       u64 where in that file the bytes belong
              48  bytes

After a crash each frame is compared with its file: bytes that are missing there are put back.
FORGET says that a stream's frames before it are of no use any more, because its files were changed
otherwise, durably, since.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.store.filesystem import File, FileSystem, read_file
from headwater.store.format import HEADER_BYTES, PREFIX_BYTES, FileHeader, FormatError
from headwater.store.recovery import Findings, set_aside

AHEAD_MAGIC: Final = b"HWAHEAD!"
FILE_BYTES_MAX: Final = 64 * 1024 * 1024

SEGMENT: Final = 1
JOURNAL: Final = 2
FORGET: Final = 3

_FRAME: Final = Struct("<16sH6xQQ")
_WHOLE_FRAME: Final = Struct("<II16sH6xQQ")
_PREFIX: Final = Struct("<II")
FRAME_BYTES: Final = _WHOLE_FRAME.size


@final
class Frame:
    """Bytes and where they belong."""

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


def _encode_frame(identity: bytes, kind: int, file: int, offset: int, data: bytes) -> bytes:
    body = _FRAME.pack(identity, kind, file, offset) + data
    length = len(body) + PREFIX_BYTES
    return _PREFIX.pack(length, crc32(body, length)) + body


def decode_frame(data: bytes, start: int) -> Frame | None:
    if start + FRAME_BYTES > len(data):
        return None
    length, crc, identity, kind, file, offset = _WHOLE_FRAME.unpack_from(data, start)
    end = start + length
    if length < FRAME_BYTES or end > len(data):
        return None
    if crc != crc32(data[start + PREFIX_BYTES : end], length):
        return None
    return Frame(identity, kind, file, offset, data[start + FRAME_BYTES : end], length)


def _name(number: int) -> str:
    return f"ahead-{number:012d}.hw"


def number_of(name: str) -> int:
    digits = name.removeprefix("ahead-").removesuffix(".hw")
    return int(digits) if name == f"ahead-{digits}.hw" and digits.isdigit() else 0


@final
class WriteAhead:
    """The write-ahead file in use, and those before it that are still needed."""

    __slots__ = ("_buffer", "_file", "_files", "_folder", "_identity", "_number", "_old")

    def __init__(self, files: FileSystem, folder: str, identity: bytes, number: int) -> None:
        self._files = files
        self._folder = folder
        self._identity = identity
        self._number = number
        self._buffer: list[bytes] = []
        self._old: list[str] = []
        self._file: File = self._begin()

    def _begin(self) -> File:
        path = f"{self._folder}/{_name(self._number)}"
        file = self._files.create(path)
        file.write(FileHeader(AHEAD_MAGIC, self._identity, self._number, bytes(16)).encode())
        file.sync()
        self._files.sync_folder(self._folder)
        return file

    @property
    def is_full(self) -> bool:
        """Whether it is time to sync the streams and begin anew."""
        return self._file.size >= FILE_BYTES_MAX

    def add(self, identity: bytes, kind: int, file: int, offset: int, data: bytes) -> None:
        """Keep bytes until the next `write`."""
        self._buffer.append(_encode_frame(identity, kind, file, offset, data))

    def write(self) -> None:
        """Hand everything kept to the operating system, in one write."""
        if self._buffer:
            data = b"".join(self._buffer)
            size = self._file.size
            try:
                self._file.write(data)
            except OSError:
                self._file.truncate(size)
                raise
            self._buffer.clear()

    def sync(self) -> None:
        """Return when all that was written is on the disk. May run on another thread."""
        self._file.sync()

    def roll(self) -> None:
        """Begin another file; `trim` removes the ones before it."""
        self.write()
        self._file.sync()
        self._file.close()
        self._old.append(f"{self._folder}/{_name(self._number)}")
        self._number += 1
        self._file = self._begin()

    def trim(self) -> None:
        """Remove the files before the present one: their streams have been synced since `roll`."""
        for path in self._old:
            self._files.remove(path)
        if self._old:
            self._files.sync_folder(self._folder)
        self._old.clear()

    def close(self) -> None:
        """Release the file."""
        self._file.close()


def read_ahead(
    files: FileSystem, folder: str, identity: bytes, findings: Findings
) -> Iterator[Frame]:
    """The sound frames of all write-ahead files, oldest first."""
    for name in files.list_folder(folder):
        if not number_of(name):
            continue
        data = read_file(files, f"{folder}/{name}")
        try:
            header = FileHeader.decode(data[:HEADER_BYTES], AHEAD_MAGIC, name)
        except FormatError as error:
            findings.add("unreadable", str(error))
            set_aside(files, folder, name, data)
            continue
        if header.identity != identity:
            findings.add("unreadable", f"{name}: belongs to another store")
            set_aside(files, folder, name, data)
            continue
        start = HEADER_BYTES
        while (frame := decode_frame(data, start)) is not None:
            yield frame
            start += frame.length
        if start < len(data):
            # Frames are confirmed in order: behind one that is not whole nothing was.
            findings.add("torn", f"{name}: {len(data) - start} bytes behind the last frame")
            set_aside(files, folder, f"{name}-at-{start}", data[start:])


def remove_ahead(files: FileSystem, folder: str) -> int:
    """Remove all write-ahead files, whose bytes are where they belong; returns the next number."""
    numbers = [0]
    for name in files.list_folder(folder):
        if number_of(name):
            numbers.append(number_of(name))
            files.remove(f"{folder}/{name}")
    files.sync_folder(folder)
    return max(numbers) + 1
