"""A backup on the disk: two files, laid out as the `nats` tool lays them out.

    backup.json      {"config": …, "state": …, "archive": {"bytes": …, "sha256": …}}
    stream.tar.s2    what the server sent, byte for byte

Configuration and state are what the server answered when the backup began, but for consumers that
were left out. `archive` is ours: the `nats` tool does not look at it, and a backup without it is
read all the same.

Only a server reads the inside of an archive. From outside it is a row of S2 frames, which carry
their lengths: a truncated archive is noticed without unpacking it.

    frame    kind u8 | length u24 little-endian | body
    kinds    0x00 compressed, 0x01 not compressed: checksum u32, then the data (compressed data
             begin with their unpacked size as a varint)
             0x02 to 0x7f are not for skipping; 0x80 to 0xfe are: padding, an index
             0xff the beginning, with the format's name in it
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from headwater.cli.shell.exits import CommandFailed

META_FILE: Final = "backup.json"
DATA_FILE: Final = "stream.tar.s2"
# An unfinished backup has names of its own: it never passes for a backup.
PART_SUFFIX: Final = ".part"
FOLDER_MODE: Final = 0o700

READ_BYTES: Final = 1024 * 1024

FRAME_HEAD_BYTES: Final = 4
CHECKSUM_BYTES: Final = 4
VARINT_BYTES_MAX: Final = 5
COMPRESSED: Final = 0x00
PLAIN: Final = 0x01
SKIPPABLE_FROM: Final = 0x80
BEGINNINGS: Final = (b"\xff\x06\x00\x00S2sTwO", b"\xff\x06\x00\x00sNaPpY")


class FrameWalk:
    """Follows the frames of an archive as its bytes come, however they are cut.

    Counts what is packed and what it will be unpacked. An archive that does not begin as S2 is
    only counted.
    """

    def __init__(self) -> None:
        self.packed_bytes = 0
        self.unpacked_bytes = 0
        self.problem = ""
        self._is_s2: bool | None = None
        self._head = bytearray()
        self._skip_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.packed_bytes += len(data)
        place = 0
        while place < len(data) and not self.problem and self._is_s2 is not False:
            if self._skip_bytes:
                step = min(self._skip_bytes, len(data) - place)
                self._skip_bytes -= step
            else:
                step = min(self._head_bytes() - len(self._head), len(data) - place)
                self._head += data[place : place + step]
                if len(self._head) == self._head_bytes():
                    self._enter_frame()
            place += step

    def finish(self) -> str:
        """The problem of the archive if it ends here; empty for a whole archive."""
        if self._is_s2 is None and self.packed_bytes:
            return "it ends within its first bytes"
        if not self.problem and (self._skip_bytes or self._head):
            return "it was cut short: its last part is not whole"
        return self.problem

    def _head_bytes(self) -> int:
        """The bytes of a frame that tell its size and the size of its content."""
        if self._is_s2 is None:
            return len(BEGINNINGS[0])
        if len(self._head) < FRAME_HEAD_BYTES:
            return FRAME_HEAD_BYTES
        in_front = CHECKSUM_BYTES + (VARINT_BYTES_MAX if self._head[0] == COMPRESSED else 0)
        return FRAME_HEAD_BYTES + min(frame_bytes(self._head), in_front)

    def _enter_frame(self) -> None:
        head = bytes(self._head)
        if self._is_s2 is None:
            self._is_s2 = head in BEGINNINGS
            self._head.clear()
            return
        kind, length = head[0], frame_bytes(head)
        seen = len(head) - FRAME_HEAD_BYTES
        if kind in (COMPRESSED, PLAIN):
            if length < CHECKSUM_BYTES:
                self.problem = "a frame is shorter than its checksum"
            elif kind == PLAIN:
                self.unpacked_bytes += length - CHECKSUM_BYTES
            else:
                self.unpacked_bytes += varint(head[FRAME_HEAD_BYTES + CHECKSUM_BYTES :])
        elif kind < SKIPPABLE_FROM:
            self.problem = f"it has a frame of the unknown kind {kind:#04x}"
        self._skip_bytes = length - seen
        self._head.clear()


def frame_bytes(head: bytes | bytearray) -> int:
    """The length in a frame's head."""
    return int.from_bytes(head[1:FRAME_HEAD_BYTES], "little")


def varint(data: bytes) -> int:
    """The number at the beginning of `data`, seven bits to a byte, the low ones first."""
    number = 0
    for place, byte in enumerate(data):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return number


@dataclass
class ArchiveWriter:
    """Takes an archive in, under a name that is not yet a backup's."""

    folder: Path
    file: BinaryIO
    frames: FrameWalk = field(default_factory=FrameWalk)
    _digest: Any = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> None:
        """Take the next bytes. Raises CommandFailed."""
        with written(self.folder):
            self.file.write(data)
        self._digest.update(data)
        self.frames.feed(data)

    def finish(self, config: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Make it a backup, in place of the one that was there. Raises CommandFailed."""
        if problem := self.frames.finish():
            raise CommandFailed(
                f"The archive that arrived is not whole: {problem}",
                "Nothing was backed up; run the command again.",
            )
        archive = {"bytes": self.frames.packed_bytes, "sha256": self._digest.hexdigest()}
        described = {"config": config, "state": state, "archive": archive}
        with written(self.folder):
            sync(self.file)
            self._replace(json.dumps(described, indent=2))

    def _replace(self, description: str) -> None:
        part = self.folder / (META_FILE + PART_SUFFIX)
        with part.open("w", encoding="utf-8") as file:
            file.write(description)
            sync(file)
        # An archive without its description is no backup, so that a crash here leaves none
        # rather than a new one described as the old.
        (self.folder / META_FILE).unlink(missing_ok=True)
        (self.folder / (DATA_FILE + PART_SUFFIX)).replace(self.folder / DATA_FILE)
        part.replace(self.folder / META_FILE)


@contextlib.contextmanager
def written(folder: Path) -> Iterator[None]:
    """Turn errors of the disk into failures."""
    try:
        yield
    except OSError as error:
        raise CommandFailed(
            f"{folder} cannot be written: {error.strerror or error}",
            "Is there room, and may you write there?",
        ) from error


def sync(file: Any) -> None:
    """Return when all written bytes are on the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def archive_writer(folder: Path) -> Iterator[ArchiveWriter]:
    """The place of a new backup. Raises CommandFailed.

    A backup that was not finished is removed, with the folders that were made for it.
    """
    parts = [folder / (name + PART_SUFFIX) for name in (DATA_FILE, META_FILE)]
    new_folders = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    is_finished = False
    try:
        with written(folder):
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            file = parts[0].open("wb")
        with file:
            yield ArchiveWriter(folder, file)
        is_finished = True
    finally:
        for part in parts:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        for each in () if is_finished else new_folders:
            # A folder that is not empty any more stays.
            with contextlib.suppress(OSError):
                each.rmdir()


def holds_backup(folder: Path) -> bool:
    """Whether there is a backup that would be replaced."""
    return any((folder / name).exists() for name in (META_FILE, DATA_FILE))


@dataclass(frozen=True)
class Backup:
    """A backup that was looked at and is whole, as far as can be seen from outside."""

    folder: Path
    config: dict[str, Any]
    state: dict[str, Any]
    archive_bytes: int

    @property
    def data_path(self) -> Path:
        """The archive."""
        return self.folder / DATA_FILE


def read_backup(folder: Path) -> Backup:
    """The backup in a folder, its archive read once. Raises CommandFailed."""
    try:
        described = json.loads((folder / META_FILE).read_bytes())
        config, state = dict(described["config"]), dict(described["state"])
        frames, digest = walk(folder / DATA_FILE)
    except OSError as error:
        raise CommandFailed(
            f"{folder} holds no whole backup: {Path(error.filename or folder).name}: "
            f"{error.strerror or error}",
            f"A backup is a folder with {META_FILE} and {DATA_FILE}.",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(
            f"{folder / META_FILE} does not describe a backup",
            "It has to be a JSON object with config and state.",
        ) from error
    problem = frames.finish()
    known = described.get("archive") or {}
    if not problem and known.get("bytes", frames.packed_bytes) != frames.packed_bytes:
        problem = f"it has {frames.packed_bytes} bytes, not {known['bytes']}"
    elif not problem and known.get("sha256", digest) != digest:
        problem = "its bytes are not those that were backed up"
    if problem or not frames.packed_bytes:
        raise CommandFailed(
            f"{folder / DATA_FILE} is damaged: {problem or 'it is empty'}",
            "Nothing was sent to the server. Take another backup of the stream.",
        )
    return Backup(folder, config, state, frames.packed_bytes)


def walk(path: Path) -> tuple[FrameWalk, str]:
    """An archive's frames and its digest."""
    frames, digest = FrameWalk(), hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            frames.feed(data)
            digest.update(data)
    return frames, digest.hexdigest()
