"""Reading write-ahead files back, after a crash or for a look at a store.

Frames are found in the order in which they were written. Damage is told from a write that the power
interrupted by the marks (`headwater.store.disk.wal`).
"""

import re
from collections.abc import Callable
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.store.disk.filesystem import FileSystem, read_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    AHEAD_MAGIC,
    HEADER_BYTES,
    PREFIX_BYTES,
    FileHeader,
    FormatError,
    NewerFormatError,
    seed_of,
)
from headwater.store.disk.set_aside import set_aside, set_aside_file
from headwater.store.disk.wal import (
    CARRIED,
    ENTRY,
    FORGET,
    FRAME_BYTES,
    FRAME_PREFIX,
    GROUP_STATE,
    JOURNAL,
    MARK,
    REDO_POINT,
    REPLICA,
    SEGMENT,
    SYNCED,
    Extent,
    Frame,
    Redo,
    RedoPoint,
    decode_frame,
    number_of,
)

# Matches wherever a frame's kind and the zeros behind it may be.
_KIND: Final = re.compile(rb"(?=[\x01-\x0d]\x00{7})")
_KIND_OFFSET: Final = 24


@final
class AheadFrames:
    """The frames found in all write-ahead files, or those of one file of a stream."""

    __slots__ = (
        "certain",
        "doubtful",
        "ends",
        "is_damaged",
        "lacks_known_bytes",
        "names",
        "seeds",
        "take_group_frame",
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
        # The ends of the last sound frames by the numbers of their files.
        self.ends: dict[int, int] = {}
        # The seeds of sound files by number, and a reader of the frames of groups, which are not
        # kept here: it gets the number of the file, the offset and the frame.
        self.seeds: dict[int, int] = {}
        self.take_group_frame: Callable[[int, int, Frame], object] | None = None

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
        """The redo point of each stream that has entries or is replicated, and the entries behind
        it.

        Of replicas the certain frames count alone. A redo point that was relied upon is among
        them, and entries of the group up to it are too.
        """
        found = self._replicas()
        for frame in (*self.certain, *self.doubtful):
            redo = found.get(frame.identity)
            if redo is not None and redo.is_replica:
                continue
            if frame.kind == FORGET:
                found.pop(frame.identity, None)
            elif frame.kind == ENTRY:
                entry = (frame.file, frame.offset, frame.data)
                found.setdefault(frame.identity, Redo()).add_entry(entry)
            elif frame.kind == SYNCED and len(frame.data) == REDO_POINT.size:
                found.setdefault(frame.identity, Redo()).add_point(_point_in(frame))
        for redo in found.values():
            redo.drop_applied()
        return found

    def _replicas(self) -> "dict[bytes, Redo]":
        """The redo points of replicated streams. The last one of a stream counts: a replica that is
        filled again begins at an earlier entry."""
        found: dict[bytes, Redo] = {}
        for frame in self.certain:
            if frame.kind == FORGET:
                found.pop(frame.identity, None)
            elif frame.kind == REPLICA and len(frame.data) == REDO_POINT.size:
                found[frame.identity] = Redo(_point_in(frame), is_replica=True)
        return found


def _point_in(frame: Frame) -> RedoPoint:
    salt, journal_bytes, entry = REDO_POINT.unpack(frame.data)
    return RedoPoint(entry, frame.file, frame.offset, journal_bytes, salt)


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
        seed = seed_of(data)
        while offset:
            frame = decode_frame(data, offset, seed)
            if frame is not None:
                self.frames.append((offset, frame))
                offset = self.end = offset + frame.length
                if frame.kind == MARK:
                    self.known_bytes = max(self.known_bytes, frame.offset)
                continue
            following = _following_frame(data, offset, seed)
            if following:
                self.damage.append((offset, following))
            offset = following


def _following_frame(data: bytes, offset: int, seed: int) -> int:
    """The offset of the next sound frame after `offset`, which is not sound; 0 without one."""
    for match in _KIND.finditer(data, offset + 1 + _KIND_OFFSET):
        place = match.start() - _KIND_OFFSET
        if decode_frame(data, place, seed) is not None:
            return place
    return 0


def _is_torn(data: bytes, start: int) -> bool:
    """Whether the bytes from `start` on are the beginning of a frame, as an interrupted write
    leaves it."""
    size = len(data) - start
    if size < FRAME_BYTES or not any(data[start:]):
        return True
    length, crc = FRAME_PREFIX.unpack_from(data, start)
    # A whole frame of which only the length is wrong was not interrupted.
    whole = crc == crc32(data[start + PREFIX_BYTES :], size ^ seed_of(data))
    return bool(length > size) and not whole


def read_ahead(
    files: FileSystem,
    folder: str,
    identity: bytes | None,
    findings: Findings,
    take_group_frame: Callable[[int, int, Frame], object] | None = None,
) -> AheadFrames:
    """The frames of all write-ahead files, oldest first; changes nothing but `findings`.

    `identity` is the store's, None if it is not known. `take_group_frame` gets the frames of
    groups. Raises NewerFormatError.
    """
    found = AheadFrames()
    found.take_group_frame = take_group_frame
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
    number = number_of(name)
    found.seeds[number] = seed_of(data)
    found.ends[number] = scanned.end
    for start, frame in scanned.frames:
        if frame.kind < GROUP_STATE or frame.kind == REPLICA:
            (found.certain if start < doubtful_from else found.doubtful).append(frame)
        elif found.take_group_frame is not None:
            found.take_group_frame(number, start, frame)


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


def remove_ahead(
    files: FileSystem, folder: str, found: AheadFrames, before: int | None = None
) -> None:
    """Remove the write-ahead files, whose bytes are where they belong, up to one of a number."""
    for name in found.names:
        if before is not None and number_of(name) >= before and name not in found.unsound_names:
            continue
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
