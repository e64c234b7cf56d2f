"""Files that are compressed and encrypted on disk, and look plain to everything above.

An encoded file is what a plain file would be, cut into blocks as it was written: each write becomes
one or more blocks, each compressed, then encrypted. Segments, journals, checkpoints and the
write-ahead file are written through this and know nothing of it; a file says by its first bytes
whether it is encoded, so plain and encoded files live side by side.

    file       0  magic        8   b"HWENCODE"
      (48 +)   8  version      u16
              10  compression  u8  whether new blocks are compressed
              11  cipher       u8  0 for none
              12  (zero)       4
              16  salt         16  of this file's key
              32  (zero)       12
              44  crc          u32 over bytes 0 to 43

    block      0  magic        4   b"BLK1"
      (36 +)   4  start        u64 where in the plain file its bytes belong
              12  raw size     u32 of those bytes
              16  stored size  u32 of what is stored in their place
              20  room         u32 taken up in this file, at least the stored size
              24  compression  u8
              25  (zero)       3
              28  crc          u32 over what is stored
              32  header crc   u32 over bytes 0 to 31
              36  stored bytes, and nothing up to the room

What can not be decoded reads as zeros, and what follows the last sound block reads as it is: the
checksums above notice both, and know what to do.
"""

import errno
from bisect import bisect_right
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.base.entropy import Entropy
from headwater.base.errors import OperatingError
from headwater.store.cipher import OVERHEAD_BYTES, Cipher, FileKey, ServerKey, StreamKey
from headwater.store.compression import Compression, compress, decompress
from headwater.store.filesystem import File, FileSystem, Lock, read_file, replace_file
from headwater.store.message_log import StoreError

ENCODED_MAGIC: Final = b"HWENCODE"
ENCODED_VERSION: Final = 1
BLOCK_MAGIC: Final = b"BLK1"
KEY_FILE: Final = "key.hw"
# Larger writes become several blocks, so that reading one message decodes little.
BLOCK_RAW_BYTES_MAX: Final = 64 * 1024

_HEADER: Final = Struct("<8sHBB4x16s12x")
_BLOCK: Final = Struct("<4sQIIIB3xI")
HEADER_BYTES: Final = _HEADER.size + 4
BLOCK_BYTES: Final = _BLOCK.size + 4


@final
class _Block:
    """Where a stretch of the plain file is stored."""

    __slots__ = ("compression", "crc", "place", "raw_size", "room", "start", "stored_size")

    def __init__(self, place: int, fields: tuple[bytes, int, int, int, int, int, int]) -> None:
        self.place = place
        _, self.start, self.raw_size, self.stored_size, self.room, self.compression, self.crc = (
            fields
        )

    @property
    def end(self) -> int:
        """Where its bytes end in the plain file."""
        return self.start + self.raw_size

    @property
    def place_after(self) -> int:
        """Where it ends in the encoded file."""
        return self.place + BLOCK_BYTES + self.room


def _decode_block_header(data: bytes, place: int) -> _Block | None:
    if len(data) < BLOCK_BYTES or not data.startswith(BLOCK_MAGIC):
        return None
    head = data[: _BLOCK.size]
    if crc32(head) != int.from_bytes(data[_BLOCK.size : BLOCK_BYTES], "little"):
        return None
    block = _Block(place, _BLOCK.unpack(head))
    return block if block.stored_size <= block.room else None


def _associated(start: int, raw_size: int, compression: int) -> bytes:
    """What a block's ciphertext is bound to."""
    return b"%d %d %d" % (start, raw_size, compression)


def _check_argument(condition: bool, message: str) -> None:
    if not condition:
        raise OSError(errno.EINVAL, f"Invalid argument: {message}")


@final
class EncodedFile:
    """An encoded file, seen as the plain file it stands for."""

    __slots__ = (
        "_blocks",
        "_cached",
        "_cached_block",
        "_compresses",
        "_entropy",
        "_file",
        "_key",
        "_plain_end",
        "_starts",
        "_stored_end",
    )

    def __init__(self, file: File, key: FileKey | None, compresses: bool, entropy: Entropy) -> None:
        self._file = file
        self._key = key
        self._compresses = compresses
        self._entropy = entropy
        self._blocks: list[_Block] = []
        self._starts: list[int] = []
        # Up to where blocks are sound, in the plain file and in the encoded one.
        self._plain_end = 0
        self._stored_end = HEADER_BYTES
        self._cached_block: _Block | None = None
        self._cached = b""
        self._find_blocks()

    # --- finding blocks ------------------------------------------------------------------------

    def _find_blocks(self) -> None:
        """Take in the sound blocks behind those that are known."""
        while header := self._file.read(self._stored_end, BLOCK_BYTES):
            block = _decode_block_header(header, self._stored_end)
            if block is None or block.start < self._plain_end:
                block = self._next_block(self._stored_end + 1)
            if block is None or not self._file.read(block.place_after - 1, 1):
                return
            self._add(block)

    def _next_block(self, place: int) -> _Block | None:
        """The next sound block header after damage."""
        data = self._file.read(place, self._file.size - place)
        found = data.find(BLOCK_MAGIC)
        while found >= 0:
            block = _decode_block_header(data[found : found + BLOCK_BYTES], place + found)
            if block is not None and block.start >= self._plain_end:
                return block
            found = data.find(BLOCK_MAGIC, found + 1)
        return None

    def _add(self, block: _Block) -> None:
        self._blocks.append(block)
        self._starts.append(block.start)
        self._plain_end = block.end
        self._stored_end = block.place_after

    # --- File ----------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of the plain file, and of what follows its last sound block."""
        return self._plain_end + max(self._file.size - self._stored_end, 0)

    def write(self, data: bytes) -> None:
        """Append bytes as blocks, in one write."""
        if not data:
            return
        if self._file.size != self._stored_end:
            raise OSError(errno.EIO, "the end of an encoded file is not sound: cut it first")
        blocks: list[_Block] = []
        parts: list[bytes] = []
        start, place = self._plain_end, self._stored_end
        for begin in range(0, len(data), BLOCK_RAW_BYTES_MAX):
            raw = data[begin : begin + BLOCK_RAW_BYTES_MAX]
            block, encoded = self._encode(raw, start, place, room=0)
            blocks.append(block)
            parts.append(encoded)
            start, place = block.end, block.place_after
        self._file.write(b"".join(parts))
        for block in blocks:
            self._add(block)

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace bytes in place; they must not need more room than what they replace."""
        _check_argument(
            offset >= 0 and offset + len(data) <= self._plain_end, "overwriting past the end"
        )
        while data:
            position = bisect_right(self._starts, offset) - 1
            block = self._blocks[position]
            count = min(len(data), block.end - offset)
            if count <= 0:
                raise OSError(errno.EIO, "overwriting what can not be read")
            raw = self._decode(block)
            begin = offset - block.start
            raw = raw[:begin] + data[:count] + raw[begin + count :]
            changed, encoded = self._encode(raw, block.start, block.place, block.room)
            self._file.overwrite(block.place, encoded)
            self._blocks[position] = changed
            self._cached_block = None
            offset += count
            data = data[count:]

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the plain file."""
        _check_argument(offset >= 0 and size >= 0, "reading before the beginning")
        if offset + size > self._plain_end:
            # Another handle may have written more.
            self._find_blocks()
        end = min(offset + size, self._plain_end + max(self._file.size - self._stored_end, 0))
        parts: list[bytes] = []
        while offset < min(end, self._plain_end):
            position = bisect_right(self._starts, offset) - 1
            block = self._blocks[position] if position >= 0 else None
            if block is None or offset >= block.end:
                following = self._starts[position + 1]
                parts.append(bytes(min(end, following) - offset))
                offset = min(end, following)
                continue
            piece = self._decode(block)[offset - block.start : end - block.start]
            parts.append(piece)
            offset += len(piece)
        if offset < end:
            behind = self._stored_end + offset - self._plain_end
            parts.append(self._file.read(behind, end - offset))
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        """Cut the plain file."""
        _check_argument(0 <= size <= self.size, "a file is not made longer by cutting it")
        if size >= self._plain_end:
            self._file.truncate(self._stored_end + size - self._plain_end)
            return
        kept = b""
        while self._blocks and self._blocks[-1].end > size:
            block = self._blocks[-1]
            if block.start < size:
                kept = self._decode(block)[: size - block.start]
            self._blocks.pop()
            self._starts.pop()
        self._plain_end = size - len(kept)
        self._stored_end = self._blocks[-1].place_after if self._blocks else HEADER_BYTES
        self._cached_block = None
        self._file.truncate(self._stored_end)
        self.write(kept)

    def sync(self) -> None:
        """Return when all that was written is on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    # --- blocks --------------------------------------------------------------------------------

    def _encode(self, raw: bytes, start: int, place: int, room: int) -> tuple[_Block, bytes]:
        """A block as it is stored; `room` is what it has to fit into, 0 for what it needs."""
        how, stored = compress(raw) if self._compresses else (Compression.NONE, raw)
        if room and self._encoded_size(stored) > room:
            how, stored = compress(raw)
        if self._key is not None:
            associated = _associated(start, len(raw), how)
            stored = self._key.encrypt(stored, place, associated, self._entropy)
        if room and len(stored) > room:
            raise OSError(errno.ENOSPC, "what replaces a block does not fit into its place")
        taken = room or len(stored)
        head = _BLOCK.pack(BLOCK_MAGIC, start, len(raw), len(stored), taken, how, crc32(stored))
        encoded = head + crc32(head).to_bytes(4, "little") + stored
        return _Block(place, _BLOCK.unpack(head)), encoded + bytes(taken - len(stored))

    def _encoded_size(self, stored: bytes) -> int:
        return len(stored) + (0 if self._key is None else OVERHEAD_BYTES)

    def _decode(self, block: _Block) -> bytes:
        """The plain bytes of a block; zeros if it is damaged."""
        if block is self._cached_block:
            return self._cached
        stored = self._file.read(block.place + BLOCK_BYTES, block.stored_size)
        raw = bytes(block.raw_size)
        if crc32(stored) == block.crc:
            try:
                if self._key is not None:
                    associated = _associated(block.start, block.raw_size, block.compression)
                    stored = self._key.decrypt(stored, block.place, associated)
                raw = decompress(block.compression, stored, block.raw_size)
            except OperatingError:
                raw = bytes(block.raw_size)
        self._cached_block, self._cached = block, raw
        return raw


@final
class EncodedFiles:
    """A file system whose new files are encoded; plain files that are there stay readable."""

    __slots__ = ("_cipher", "_compresses", "_entropy", "_files", "_key")

    def __init__(
        self,
        files: FileSystem,
        entropy: Entropy,
        compresses: bool,
        key: StreamKey | None = None,
        cipher: Cipher = Cipher.CHACHA20_POLY1305,
    ) -> None:
        self._files = files
        self._entropy = entropy
        self._compresses = compresses
        self._key = key
        self._cipher = cipher

    def open(self, path: str) -> File:
        """A file, encoded or not."""
        file = self._files.open(path)
        header = file.read(0, HEADER_BYTES)
        sound = (
            len(header) == HEADER_BYTES
            and header.startswith(ENCODED_MAGIC)
            and crc32(header[:-4]) == int.from_bytes(header[-4:], "little")
        )
        if not sound:
            # Plain, or so broken that whoever reads it will notice.
            return file
        _, version, compresses, cipher, salt = _HEADER.unpack_from(header)
        try:
            if version > ENCODED_VERSION:
                raise StoreError(f"{path}: encoding {version} is newer than this program's")
            key = None
            if cipher:
                if self._key is None:
                    raise StoreError(f"{path} is encrypted and there is no key for it")
                key = self._key.file_key(cipher, salt, ENCODED_MAGIC)
            return EncodedFile(file, key, bool(compresses), self._entropy)
        except OperatingError:
            file.close()
            raise

    def create(self, path: str) -> File:
        """A new file, encoded if anything is asked for."""
        file = self._files.create(path)
        if self._key is None and not self._compresses:
            return file
        key = None
        cipher, salt = 0, bytes(16)
        if self._key is not None:
            key = self._key.new_file_key(self._cipher, ENCODED_MAGIC, self._entropy)
            cipher, salt = key.cipher, key.salt
        header = _HEADER.pack(ENCODED_MAGIC, ENCODED_VERSION, self._compresses, cipher, salt)
        file.write(header + crc32(header).to_bytes(4, "little"))
        return EncodedFile(file, key, self._compresses, self._entropy)

    def list_folder(self, path: str) -> list[str]:
        """Names in a folder."""
        return self._files.list_folder(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        return self._files.exists(path)

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of that name."""
        return self._files.is_folder(path)

    def make_folder(self, path: str) -> None:
        """Create a folder and those above it."""
        self._files.make_folder(path)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._files.remove(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        self._files.remove_folder(path)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name."""
        self._files.rename(source, target)

    def sync_folder(self, path: str) -> None:
        """Return when changes of names in this folder are on the disk."""
        self._files.sync_folder(path)

    def free_bytes(self, path: str) -> int:
        """Room left on the disk."""
        return self._files.free_bytes(path)

    def lock(self, path: str) -> Lock:
        """Take a lock file."""
        return self._files.lock(path)


@final
class Encoding:
    """How a store keeps its files: compressed or not, under a server's key or not."""

    __slots__ = ("cipher", "compresses", "server_key")

    def __init__(
        self,
        compresses: bool = False,
        server_key: ServerKey | None = None,
        cipher: Cipher = Cipher.CHACHA20_POLY1305,
    ) -> None:
        self.compresses = compresses
        self.server_key = server_key
        self.cipher = cipher

    def files_in(
        self, files: FileSystem, folder: str, context: str, entropy: Entropy, is_new: bool
    ) -> FileSystem:
        """The file system for one folder, whose key is in it, wrapped by the server's.

        A key wrapped by the previous secret is wrapped anew. Raises StoreError and touches nothing
        if the key does not open it.
        """
        return EncodedFiles(
            files,
            entropy,
            self.compresses,
            self._key_of(files, folder, context.encode(), entropy, is_new),
            self.cipher,
        )

    def _key_of(
        self, files: FileSystem, folder: str, context: bytes, entropy: Entropy, is_new: bool
    ) -> StreamKey | None:
        path = f"{folder}/{KEY_FILE}"
        server_key = self.server_key
        if files.exists(path):
            if server_key is None:
                raise StoreError(f"{folder} is encrypted: set the key it was made with")
            try:
                found = server_key.unwrap(read_file(files, path), context)
            except OperatingError as error:
                raise StoreError(f"{folder}: {error}") from error
            if found.was_previous:
                replace_file(files, path, server_key.wrap(found.key, context, entropy))
            return found.key
        if server_key is None or not is_new:
            return None
        key = StreamKey.generate(entropy)
        replace_file(files, path, server_key.wrap(key, context, entropy))
        return key
