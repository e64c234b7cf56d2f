"""The part of the tar format that old backups of nats-server use.

    file    header 512 | contents | zeros up to a multiple of 512
    header  name 100 at 0, size in octal 12 at 124, checksum in octal 8 at 148, kind 1 at 156,
            "ustar" at 257, first part of the name 155 at 345

A file of the kind `x` holds fields that do not fit into the header of the next file, as lines
`<length> <key>=<value>`; only the path and the size matter. Two headers of zeros are the end.
Links, folders and all other kinds are refused.
"""

from typing import Final, NamedTuple, final

from headwater.jetstream.backup.errors import BackupError

BLOCK_BYTES: Final = 512
# The largest piece of a file that is returned at once.
PIECE_BYTES: Final = 64 * 1024
_EXTENSION_BYTES_MAX: Final = 64 * 1024
_ZEROS: Final = bytes(BLOCK_BYTES)
_CHECKSUM: Final = slice(148, 156)
_REGULAR: Final = (b"0", b"\0")
_EXTENSION: Final = b"x"


class Piece(NamedTuple):
    """A part of a file's content."""

    name: str
    data: bytes
    is_last: bool


@final
class TarReader:
    """Decodes an archive into the contents of its files, in pieces."""

    __slots__ = ("_buffer", "_left", "_name", "_next", "_padding", "is_complete")

    def __init__(self) -> None:
        self._buffer = bytearray()
        # The file that is being read, and the rest of its content and of its padding.
        self._name = ""
        self._left = 0
        self._padding = 0
        # The fields of an extension, for the file after it.
        self._next: dict[bytes, bytes] = {}
        self.is_complete = False

    def feed(self, data: bytes) -> None:
        """Add bytes to the input."""
        self._buffer += data

    def read(self) -> Piece | None:
        """The next piece, or None when more input is needed. Raises BackupError."""
        while not self.is_complete:
            if self._left:
                return self._read_contents()
            if self._padding:
                step = min(self._padding, len(self._buffer))
                del self._buffer[:step]
                self._padding -= step
            if self._padding or len(self._buffer) < BLOCK_BYTES:
                return None
            header = bytes(self._buffer[:BLOCK_BYTES])
            if header == _ZEROS:
                self.is_complete = True
            elif header[156:157] == _EXTENSION:
                if not self._read_extension(header):
                    return None
            else:
                self._begin_file(header)
                if not self._left:
                    return Piece(self._name, b"", is_last=True)
        return None

    def _read_contents(self) -> Piece | None:
        size = min(self._left, PIECE_BYTES, len(self._buffer))
        if not size:
            return None
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._left -= size
        return Piece(self._name, data, is_last=not self._left)

    def _read_extension(self, header: bytes) -> bool:
        """Read the fields of an extension. Returns whether it was complete."""
        size = _size_of(header)
        if size > _EXTENSION_BYTES_MAX:
            raise BackupError("a file in it has a header that is too long")
        end = BLOCK_BYTES + size
        if len(self._buffer) < end:
            return False
        self._next = _keys_of(bytes(self._buffer[BLOCK_BYTES:end]))
        del self._buffer[:end]
        self._padding = -size % BLOCK_BYTES
        return True

    def _begin_file(self, header: bytes) -> None:
        if header[156:157] not in _REGULAR:
            raise BackupError("unexpected content: it has something else than files in it")
        size = _size_of(header)
        name = _text(header[:100])
        prefix = _text(header[345:500])
        if prefix:
            name = prefix + b"/" + name
        name = self._next.get(b"path", name)
        if b"size" in self._next:
            size = _number(self._next[b"size"], 10)
        self._next = {}
        self._name = name.decode(errors="surrogateescape")
        self._left = size
        self._padding = -size % BLOCK_BYTES
        del self._buffer[:BLOCK_BYTES]


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(digits: bytes, base: int) -> int:
    try:
        value = int(digits.strip(b" \0") or b"0", base)
    except ValueError:
        value = -1
    if value < 0:
        raise BackupError("a file in it has a header that is not one")
    return value


def _size_of(header: bytes) -> int:
    """The size in a header, whose checksum is checked."""
    blanked = header[: _CHECKSUM.start] + b" " * 8 + header[_CHECKSUM.stop :]
    if sum(blanked) != _number(header[_CHECKSUM], 8):
        raise BackupError("a file in it has a header that fails its checksum")
    return _number(header[124:136], 8)


def _keys_of(data: bytes) -> dict[bytes, bytes]:
    keys = {}
    while data:
        length = _number(data.partition(b" ")[0][:8], 10)
        line = data[:length]
        key, equals, value = line.partition(b" ")[2].partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise BackupError("a file in it has a header that is not one")
        keys[key] = value[:-1]
        data = data[length:]
    return keys
