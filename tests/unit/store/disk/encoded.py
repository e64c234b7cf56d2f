"""Encoded files for tests: made, opened, and read by a second reader of their format."""

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

import pytest

from headwater.store.disk.cipher import Cipher, StreamKey
from headwater.store.disk.encoding import (
    BLOCK_BYTES,
    BLOCK_MAGIC,
    HEADER_BYTES,
    REPLACES,
    EncodedFile,
    EncodedFiles,
)
from headwater.store.disk.filesystem import read_file
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng

PATH = "/file"
KEY = StreamKey(bytes(range(32)))
ENCODINGS: dict[str, tuple[bool, StreamKey | None]] = {
    "compressed": (True, None),
    "encrypted": (False, KEY),
    "both": (True, KEY),
}
encodings = pytest.mark.parametrize("encoding", ENCODINGS)


def files_on(disk: SimDisk, encoding: str = "compressed") -> EncodedFiles:
    compresses, key = ENCODINGS[encoding]
    entropy = SeededEntropy(labelled_rng(disk.operations, "encoding"))
    return EncodedFiles(disk, entropy, compresses, key, Cipher.CHACHA20_POLY1305)


def created(disk: SimDisk, encoding: str = "compressed", path: str = PATH) -> EncodedFile:
    file = files_on(disk, encoding).create(path)
    assert isinstance(file, EncodedFile)
    return file


def opened(disk: SimDisk, encoding: str = "compressed", path: str = PATH) -> EncodedFile:
    file = files_on(disk, encoding).open(path)
    assert isinstance(file, EncodedFile)
    return file


def content(disk: SimDisk, encoding: str = "compressed") -> bytes:
    return read_file(files_on(disk, encoding), PATH)


def noise(label: int, size: int) -> bytes:
    """Bytes that do not compress, are not zeros, and are nowhere else."""
    return bytes(1 + byte % 255 for byte in labelled_rng(label, "content").randbytes(size))


# --- a second reader of the format, for files that nothing has happened to ------------------------


class Block(NamedTuple):
    place: int
    start: int
    raw_size: int
    stored_size: int
    role: int

    @property
    def place_after(self) -> int:
        return self.place + BLOCK_BYTES + self.stored_size

    @property
    def end(self) -> int:
        return self.start + self.raw_size


_BLOCK = Struct("<4sQIIBB")


def blocks_of(raw: bytes) -> list[Block]:
    place, found = HEADER_BYTES, []
    while place < len(raw):
        magic, start, raw_size, stored_size, _, role = _BLOCK.unpack_from(raw, place)
        assert magic == BLOCK_MAGIC
        found.append(Block(place, start, raw_size, stored_size, role))
        place = found[-1].place_after
    return found


def live_blocks(blocks: list[Block]) -> list[Block]:
    live: list[Block] = []
    for block in blocks:
        if block.role == REPLACES:
            live = [block if known.start == block.start else known for known in live]
        else:
            live = [known for known in live if known.start < block.start]
            live += [block] if block.raw_size else []
    return live


def shape(disk: SimDisk) -> list[tuple[int, int, int]]:
    """Role, start and size of each block."""
    return [(block.role, block.start, block.raw_size) for block in blocks_of(disk.dump()[PATH])]


def is_destroyed(raw: bytes, block: Block) -> bool:
    return not raw[block.place + BLOCK_BYTES : block.place_after].strip(b"\0")


def operations_of(disk: SimDisk, work: Callable[[], object]) -> list[str]:
    """The disk operations of a piece of work."""
    before = disk.operations
    work()
    lines = [line.split() for line in disk.history(1000).splitlines()]
    return [what for number, what, *_ in lines if int(number) >= before]


def three_blocks(disk: SimDisk, encoding: str = "compressed") -> EncodedFile:
    file = created(disk, encoding)
    for number in range(3):
        file.write(noise(number, 100))
    file.sync()
    disk.sync_folder("/")
    return file


WHOLE = noise(0, 100) + noise(1, 100) + noise(2, 100)
