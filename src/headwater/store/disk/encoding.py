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
              16  salt         16  random; of this file's key and of its block headers' checksums
              32  (zero)       12
              44  crc          u32 over bytes 0 to 43

    block      0  magic        4   b"BLK1"
      (32 +)   4  start        u64 where in the plain file its bytes belong
              12  raw size     u32 of those bytes
              16  stored size  u32 of what is stored in their place
              20  compression  u8
              21  role         u8
              22  (zero)       2
              24  crc          u32 over what is stored
              28  header crc   u32 over bytes 0 to 27, begun with the crc of the salt plus its place
              32  stored bytes

    roles      0  FOLLOWS      what was written behind the end
               1  REPLACES     stands from now on for the block of the same start and size
               2  CUTS         from its start on this is all there is; it may have no bytes at all

Blocks are only ever appended, and blocks say what earlier ones mean: read in order, each changes
what is known from those before it. Invariants, which what is found after a crash relies on:

* Behind a block that replaces or cuts nothing is written before that one is on the disk. Its header
  is on the disk before its stored bytes are written, so that what a crash leaves can be told from
  damage.
* Stored bytes of a block that was replaced or cut off are overwritten with zeros, but only when
  what replaces them is on the disk: what was erased is gone from the file too, and damage to the
  later block never brings the earlier one back. A crash may leave some of it to do; `sync` does it.
* Where a block was cut off the end of the file, nothing is written before that is on the disk.

    found where a block should begin                  taken for
    follows, and starts before the end                behind a cut that is damaged; cuts as well
    replaces what is not there                        the same, or fills the gap that damage left
    a header whose stored bytes the file lacks        torn; hidden
    up to 32 bytes that are no header                 torn; hidden
    replaces or cuts, stored bytes unsound, the last  not finished; hidden
    replaces or cuts, stored bytes unsound, not last  damage; it does, and its bytes are zeros
    no header, but one further on                     damage; zeros up to where that one starts
    more than 32 bytes, no header anywhere            damage; as many zeros

Hidden bytes are no part of the plain file, and are cut off before the next write. Zeros are noticed
by the checksums above, as damage of plain files is. A damaged end stays in the file when it is cut.

A file may be synced on one thread while another one uses it; nothing else is for two threads, but
that blocks may be read while others are replaced.
"""

import errno
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.base.entropy import Entropy
from headwater.base.errors import OperatingError
from headwater.store.disk.cipher import SALT_BYTES, Cipher, FileKey, ServerKey, StreamKey
from headwater.store.disk.compression import Compression, compress, decompress
from headwater.store.disk.filesystem import File, FileSystem, Lock, read_file, replace_file
from headwater.store.errors import StoreError

ENCODED_MAGIC: Final = b"HWENCODE"
ENCODED_VERSION: Final = 1
BLOCK_MAGIC: Final = b"BLK1"
KEY_FILE: Final = "key.hw"
# Larger writes become several blocks, so that reading one message decodes little.
BLOCK_RAW_BYTES_MAX: Final = 64 * 1024

FOLLOWS: Final = 0
REPLACES: Final = 1
CUTS: Final = 2

_HEADER: Final = Struct("<8sHBB4x16s12x")
_BLOCK: Final = Struct("<4sQIIBB2xI")
_ASSOCIATED: Final = Struct("<QIBB")
HEADER_BYTES: Final = _HEADER.size + 4
BLOCK_BYTES: Final = _BLOCK.size + 4


@final
class _Block:
    """The place of a stretch of the plain file in the encoded one."""

    __slots__ = (
        "compression",
        "crc",
        "end",
        "place",
        "raw_size",
        "role",
        "start",
        "stored_size",
    )

    def __init__(
        self,
        place: int,
        start: int,
        raw_size: int,
        stored_size: int,
        compression: int,
        role: int,
        crc: int,
    ) -> None:
        self.place = place
        self.start = start
        self.raw_size = raw_size
        self.stored_size = stored_size
        self.compression = compression
        self.role = role
        self.crc = crc
        # The offset in the plain file behind its bytes, of which a cut may have taken some.
        self.end = start + raw_size

    @property
    def stored_place(self) -> int:
        """The offset of its stored bytes in the encoded file."""
        return self.place + BLOCK_BYTES

    @property
    def place_after(self) -> int:
        """The offset in the encoded file behind the block."""
        return self.place + BLOCK_BYTES + self.stored_size

    @property
    def associated(self) -> bytes:
        """The data that its ciphertext is bound to, besides its place."""
        return _ASSOCIATED.pack(self.start, self.raw_size, self.compression, self.role)


def _check_argument(condition: bool, message: str) -> None:
    if not condition:
        raise OSError(errno.EINVAL, f"Invalid argument: {message}")


@final
class EncodedFile:
    """An encoded file, seen as the plain file it stands for."""

    __slots__ = (
        "_blocks",
        "_cached",
        "_changes_end",
        "_compresses",
        "_doomed",
        "_entropy",
        "_file",
        "_hides_tail",
        "_key",
        "_plain_end",
        "_seed",
        "_starts",
        "_stored_end",
    )

    def __init__(
        self, file: File, salt: bytes, key: FileKey | None, compresses: bool, entropy: Entropy
    ) -> None:
        self._file = file
        self._seed = crc32(salt)
        self._key = key
        self._compresses = compresses
        self._entropy = entropy
        # The blocks of the plain file, in its order, and the offset in it of each.
        self._blocks: list[_Block] = []
        self._starts: list[int] = []
        # The end of the plain file as far as it is known, and of the blocks in the encoded one.
        self._plain_end = 0
        self._stored_end = HEADER_BYTES
        # The end of the last block that changed what earlier ones mean.
        self._changes_end = HEADER_BYTES
        # Whether what is behind the blocks is no part of the plain file.
        self._hides_tail = False
        # Found replaced or cut off, and perhaps still readable, with the block that did it.
        self._doomed: list[tuple[_Block, list[_Block]]] = []
        # One value, because a compaction reads beside the log.
        self._cached: tuple[_Block, bytes | None] | None = None
        self._find_blocks()

    # --- finding blocks ------------------------------------------------------------------------

    def _find_blocks(self) -> None:
        """Take in the blocks behind those that are known, by the table above."""
        self._hides_tail = False
        while header := self._file.read(self._stored_end, BLOCK_BYTES):
            block = self._decode_header(header, self._stored_end)
            if block is None:
                block = self._next_block(self._stored_end + 1)
            elif self._was_given_up(block):
                self._hides_tail = True
                return
            if block is None:
                self._hides_tail = self._file.size - self._stored_end <= BLOCK_BYTES
                return
            superseded = self._take_in(block)
            # They are all that is left of a damaged block.
            if superseded and self._decoded(block) is not None:
                self._doomed.append((block, superseded))

    def _was_given_up(self, block: _Block) -> bool:
        """Whether a block is the last and was never whole, rather than damaged."""
        if not self._has(block):
            return True
        if block.role == FOLLOWS or self._decoded(block) is not None:
            return False
        return self._next_block(block.place_after) is None

    def _decode_header(self, data: bytes, place: int) -> _Block | None:
        """The block whose sound header this is; None for one of another file or place."""
        if len(data) < BLOCK_BYTES or not data.startswith(BLOCK_MAGIC):
            return None
        crc = int.from_bytes(data[_BLOCK.size :], "little")
        if crc != self._header_crc(data[: _BLOCK.size], place):
            return None
        block = _Block(place, *_BLOCK.unpack_from(data)[1:])
        return block if block.role in (FOLLOWS, REPLACES, CUTS) else None

    def _header_crc(self, head: bytes, place: int) -> int:
        return crc32(head, (self._seed + place) & 0xFFFF_FFFF)

    def _has(self, block: _Block) -> bool:
        """Whether the file goes on to where a block ends."""
        last = block.place_after - 1
        # Reading, because another handle may have made it longer.
        return last < self._file.size or bool(self._file.read(last, 1))

    def _next_block(self, place: int) -> _Block | None:
        """The first block from `place` on that is sound as a whole.

        Behind damage a header alone says little: what it claims to be stored behind it may be what
        was written there later.
        """
        data = self._file.read(place, max(self._file.size - place, 0))
        found = data.find(BLOCK_MAGIC)
        while found >= 0:
            block = self._decode_header(data[found : found + BLOCK_BYTES], place + found)
            if block is not None and self._decoded(block) is not None:
                return block
            found = data.find(BLOCK_MAGIC, found + 1)
        return None

    def _take_in(self, block: _Block) -> list[_Block]:
        """Let a block mean what it means; returns those that mean nothing any more.

        A block that does not fit those before it tells that damage has taken a cut. Then it cuts,
        but nothing is destroyed on its behalf.
        """
        self._stored_end = block.place_after
        if block.role == FOLLOWS and block.start >= self._plain_end:
            self._put_last(block)
            return []
        self._changes_end = block.place_after
        if block.role == REPLACES:
            at = bisect_left(self._starts, block.start)
            old = self._blocks[at] if at < len(self._blocks) else None
            if old is not None and (old.start, old.end) == (block.start, block.end):
                self._blocks[at] = block
                return [old]
            if self._is_gap(block.start, block.end, at):
                self._blocks.insert(at, block)
                self._starts.insert(at, block.start)
                self._plain_end = max(self._plain_end, block.end)
                return []
        cut_off = self._forget_from(block.start)
        self._put_last(block)
        return cut_off if block.role == CUTS else []

    def _put_last(self, block: _Block) -> None:
        if block.raw_size:
            self._blocks.append(block)
            self._starts.append(block.start)
        self._plain_end = block.end

    def _is_gap(self, start: int, end: int, at: int) -> bool:
        """Whether damage has left nothing there; `at` is where a block of that start would be."""
        before = self._blocks[at - 1].end if at else 0
        behind = self._starts[at] if at < len(self._starts) else end
        return before <= start and end <= behind

    def _forget_from(self, start: int) -> list[_Block]:
        """Cut what is known of the plain file; returns the blocks of which nothing is left."""
        kept = bisect_left(self._starts, start)
        forgotten = self._blocks[kept:]
        del self._blocks[kept:], self._starts[kept:]
        if kept:
            last = self._blocks[-1]
            last.end = min(last.end, start)
        return forgotten

    # --- File ----------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of the plain file, with damage behind its last block."""
        tail_size = 0 if self._hides_tail else max(self._file.size - self._stored_end, 0)
        return self._plain_end + tail_size

    def write(self, data: bytes) -> None:
        """Append bytes as blocks, in one write."""
        if not data:
            return
        self._make_end_sound()
        blocks: list[_Block] = []
        parts: list[bytes] = []
        start, place = self._plain_end, self._stored_end
        for begin in range(0, len(data), BLOCK_RAW_BYTES_MAX):
            raw = data[begin : begin + BLOCK_RAW_BYTES_MAX]
            block, header, stored = self._encode(raw, start, place, FOLLOWS)
            blocks.append(block)
            parts += header, stored
            start, place = block.end, block.place_after
        try:
            self._file.write(b"".join(parts))
        except OSError:
            self._hides_tail = True
            raise
        for block in blocks:
            self._take_in(block)

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace bytes that are there, durably, and destroy what they were.

        A crash in the middle leaves each block that is touched as it was or as it is to be. Bytes
        that do not change are written again, for a caller who doubts that a sync wrote them. The
        other bytes of a damaged block are zeros from then on, as they are read until then.
        """
        _check_argument(
            offset >= 0 and offset + len(data) <= self._plain_end, "overwriting past the end"
        )
        if data:
            self._make_end_sound()
        while data:
            block = self._block_at(offset)
            if block is None:
                # Damage has taken the header of a block.
                count = min(len(data), self._start_after(offset) - offset, BLOCK_RAW_BYTES_MAX)
                self._supersede(data[:count], offset, REPLACES)
                offset, data = offset + count, data[count:]
                continue
            found = self._decoded(block)
            raw = bytes(block.raw_size) if found is None else found
            count = min(len(data), block.end - offset)
            begin, size = offset - block.start, block.end - block.start
            changed = raw[:begin] + data[:count] + raw[begin + count : size]
            if found is not None and changed == raw[:size]:
                self._write_again(block)
            else:
                self._supersede(changed, block.start, REPLACES)
            offset += count
            data = data[count:]

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the plain file."""
        _check_argument(offset >= 0 and size >= 0, "reading before the beginning")
        if offset + size > self._plain_end:
            # Another handle may have written more.
            self._find_blocks()
        end = min(offset + size, self.size)
        parts: list[bytes] = []
        while offset < end:
            block = self._block_at(offset)
            if block is None:
                piece = bytes(min(end, self._start_after(offset)) - offset)
            else:
                raw = self._decoded(block)
                if raw is None:
                    if block is not self._block_at(offset):
                        # Replaced, and what it was destroyed, while it was read.
                        continue
                    raw = bytes(block.raw_size)
                piece = raw[offset - block.start : min(end, block.end) - block.start]
            parts.append(piece)
            offset += len(piece)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def truncate(self, size: int) -> None:
        """Cut the plain file; durable when this returns if it cuts off what was written."""
        _check_argument(0 <= size <= self.size, "a file is not made longer by cutting it")
        if self._hides_tail:
            self._cut_hidden_tail()
        if size == self.size:
            return
        place = self._place_to_cut(size)
        if place:
            self._file.truncate(place)
            # Bytes that were cut off must not turn up behind those that are written next.
            self._file.sync()
            self._forget_from(size)
            self._plain_end, self._stored_end = size, place
            return
        block = self._block_at(size)
        raw = None if block is None or block.start == size else self._decoded(block)
        if block is None or raw is None:
            self._supersede(b"", size, CUTS)
        else:
            self._supersede(raw[: size - block.start], block.start, CUTS)

    def sync(self) -> None:
        """Return when all that was written is on the disk, and what was replaced is destroyed."""
        if self._doomed:
            self._finish()
        self._file.sync()

    def close(self) -> None:
        """Release the file."""
        self._cached = None
        self._file.close()

    # --- changing what was written -------------------------------------------------------------

    def _place_to_cut(self, size: int) -> int:
        """The offset in the encoded file at which to cut the plain one to `size`; 0 without one.

        There is one if the file had this size once, and has only grown since. Then the plain file
        is one that it has been, however little of the cut a crash leaves done.
        """
        count = bisect_left(self._starts, size)
        kept, cut = self._blocks[:count], self._blocks[count:]
        place = max([block.place_after for block in kept], default=HEADER_BYTES)
        was_end = size == (kept[-1].end if kept else 0)
        only_grew = self._changes_end <= place and all(block.place >= place for block in cut)
        is_damaged = self._file.size != self._stored_end
        return place if was_end and only_grew and not is_damaged else 0

    def _supersede(self, raw: bytes, start: int, role: int) -> None:
        """Append a block that changes what earlier ones mean; durable when this returns."""
        place = self._file.size
        block, header, stored = self._encode(raw, start, place, role)
        # Until it is whole it does not count. Damage before it still does.
        self._hides_tail = place == self._stored_end
        self._file.write(header)
        self._file.sync()
        if stored:
            self._file.write(stored)
            self._file.sync()
        self._hides_tail = False
        self._destroy(self._take_in(block))

    def _finish(self) -> None:
        """Destroy what a crash has left readable, once what replaces it is on the disk."""
        readable: list[_Block] = []
        for block, superseded in self._doomed:
            left = [each for each in superseded if self._is_readable(each)]
            if left:
                # A sync that failed before the crash has given it up, and no later one would tell.
                self._write_again(block)
            readable += left
        if readable:
            self._file.sync()
            self._destroy(readable)
        self._doomed = []

    def _write_again(self, block: _Block) -> None:
        size = block.place_after - block.place
        self._file.overwrite(block.place, self._file.read(block.place, size))

    def _is_readable(self, block: _Block) -> bool:
        return bool(self._file.read(block.stored_place, block.stored_size).strip(b"\0"))

    def _destroy(self, blocks: list[_Block]) -> None:
        """Overwrite what is stored in blocks that mean nothing any more."""
        for block in blocks:
            self._file.overwrite(block.stored_place, bytes(block.stored_size))

    def _make_end_sound(self) -> None:
        if self._hides_tail:
            self._cut_hidden_tail()
        if self._file.size != self._stored_end:
            raise OSError(errno.EIO, "the end of an encoded file is damaged: cut it first")

    def _cut_hidden_tail(self) -> None:
        if self._file.size > self._stored_end:
            self._file.truncate(self._stored_end)
            self._file.sync()
        self._hides_tail = False

    # --- blocks --------------------------------------------------------------------------------

    def _block_at(self, offset: int) -> _Block | None:
        """The block that has this byte of the plain file."""
        at = bisect_right(self._starts, offset) - 1
        block = self._blocks[at] if at >= 0 else None
        return block if block is not None and offset < block.end else None

    def _start_after(self, offset: int) -> int:
        """The offset of the first block behind a byte of the plain file; else the file's size."""
        at = bisect_right(self._starts, offset)
        return self._starts[at] if at < len(self._starts) else self.size

    def _encode(self, raw: bytes, start: int, place: int, role: int) -> tuple[_Block, bytes, bytes]:
        """A block, its header, and what is stored behind that."""
        how, stored = compress(raw) if self._compresses else (Compression.NONE, raw)
        block = _Block(place, start, len(raw), len(stored), how, role, 0)
        if self._key is not None and raw:
            stored = self._key.encrypt(stored, place, block.associated, self._entropy)
            block.stored_size = len(stored)
        block.crc = crc32(stored)
        head = _BLOCK.pack(BLOCK_MAGIC, start, len(raw), len(stored), how, role, block.crc)
        return block, head + self._header_crc(head, place).to_bytes(4, "little"), stored

    def _decoded(self, block: _Block) -> bytes | None:
        """The plain bytes of a block; None if it is damaged."""
        cached = self._cached
        if cached is not None and cached[0] is block:
            return cached[1]
        raw = None
        stored = self._file.read(block.stored_place, block.stored_size)
        if crc32(stored) == block.crc:
            try:
                if self._key is not None and block.raw_size:
                    stored = self._key.decrypt(stored, block.place, block.associated)
                raw = decompress(block.compression, stored, block.raw_size)
            except OperatingError:
                raw = None
        self._cached = (block, raw)
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

    def compress_new_files(self, compresses: bool) -> None:
        """Whether files that are made from now on are compressed."""
        self._compresses = compresses

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
            # Plain, or so broken that the reader will notice.
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
            return EncodedFile(file, salt, key, bool(compresses), self._entropy)
        except (OperatingError, OSError):
            file.close()
            raise

    def create(self, path: str) -> File:
        """A new file, encoded if anything is asked for."""
        file = self._files.create(path)
        if self._key is None and not self._compresses:
            return file
        key = None
        cipher, salt = 0, self._entropy.random_bytes(SALT_BYTES)
        if self._key is not None:
            key = self._key.new_file_key(self._cipher, ENCODED_MAGIC, self._entropy)
            cipher, salt = key.cipher, key.salt
        header = _HEADER.pack(ENCODED_MAGIC, ENCODED_VERSION, self._compresses, cipher, salt)
        file.write(header + crc32(header).to_bytes(4, "little"))
        return EncodedFile(file, salt, key, self._compresses, self._entropy)

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

    def size_of(self, path: str) -> int:
        """Bytes that a file takes, encoded or not; -1 if there is no such file."""
        return self._files.size_of(path)

    def free_bytes(self, path: str) -> int:
        """Room left on the disk."""
        return self._files.free_bytes(path)

    def lock(self, path: str) -> Lock:
        """Take a lock file."""
        return self._files.lock(path)


@final
class Encoding:
    """The form in which a store keeps its files: compressed or not, encrypted or not."""

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
        self,
        files: FileSystem,
        folder: str,
        context: str,
        entropy: Entropy,
        is_new: bool,
        compresses: bool = False,
    ) -> EncodedFiles:
        """The file system for one folder, whose key is in it, wrapped by the server's.

        Its new files are compressed where the whole store or this folder is to be. A key wrapped
        by the previous secret is wrapped again. Raises StoreError and touches nothing if the key
        does not open it.
        """
        return EncodedFiles(
            files,
            entropy,
            self.compresses or compresses,
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
