"""The names of the streams of a store, so that a stream whose folder is gone is missed.

    <folder>/catalogue.hw     a journal (`store.disk.journal`) with an entry for each stream
                              that was made and each that was removed

A name is added when its stream is durable, and crossed out, durably, before its stream goes: a
crash leaves at most a stream without a name, which gets one when the store is opened. A name
without a stream is that of a stream that somebody else has removed. The name is reported at every
start until there is a stream of that name again.
"""

from typing import Final, final

from headwater.base.errors import OperatingError
from headwater.store.disk.filesystem import FileSystem, create_whole, read_file, replace_file
from headwater.store.disk.format import (
    HEADER_BYTES,
    IDENTITY_BYTES,
    JOURNAL_MAGIC,
    FileHeader,
    FormatError,
    encode_entry,
)
from headwater.store.disk.journal import CALLER_KINDS, Journal, read_entries

CATALOGUE_FILE: Final = "catalogue.hw"

_MADE: Final = CALLER_KINDS
_REMOVED: Final = CALLER_KINDS + 1
# Rewritten at a start when there are this many entries for each name.
_ENTRIES_PER_NAME_MAX: Final = 4
_ENTRIES_MIN: Final = 1000


@final
class Catalogue:
    """The open catalogue."""

    __slots__ = ("_files", "_header", "_is_used", "_journal", "_path", "missing")

    def __init__(self, files: FileSystem, folder: str, identity: bytes, salt: bytes) -> None:
        """`identity` is the store's; `salt` is for a file that is begun now."""
        self._files = files
        self._path = f"{folder}/{CATALOGUE_FILE}"
        self._header = FileHeader(JOURNAL_MAGIC, identity, 0, salt)
        # None until the first name is written.
        self._journal: Journal | None = None
        # A catalogue that cannot be read stays as it is, and names no stream.
        self._is_used = True
        # Streams that were there and have no folder any more, in order.
        self.missing: list[str] = []

    def compare(self, there: list[str], removed: list[str]) -> None:
        """Find missing streams: `there` are those found, `removed` were being removed."""
        try:
            self._open(there, removed)
        except (OSError, OperatingError):
            # Streams are found by their folders all the same.
            self._is_used = False

    def _open(self, there: list[str], removed: list[str]) -> None:
        names, is_sound, salt = self._read(len(there))
        self.missing = sorted(names - {*there, *removed})
        if is_sound:
            self._journal = Journal(self._files.open(self._path), salt)
            changes = [(_MADE, name.encode()) for name in there if name not in names]
            changes += [(_REMOVED, name.encode()) for name in removed if name in names]
            if changes:
                self._journal.write(0, changes)
        elif names or there:
            every = sorted({*self.missing, *there})
            entries = [encode_entry(0, _MADE, name.encode()) for name in every]
            replace_file(self._files, self._path, self._header.encode() + b"".join(entries))
            self._journal = Journal(self._files.open(self._path), self._header.salt)

    def _read(self, stream_count: int) -> tuple[set[str], bool, bytes]:
        """The names, whether more can be added to the file, and the file's salt."""
        names: set[str] = set()
        if not self._files.exists(self._path):
            return names, False, bytes(IDENTITY_BYTES)
        data = read_file(self._files, self._path)
        try:
            header = FileHeader.decode(data[:HEADER_BYTES], JOURNAL_MAGIC, self._path)
        except FormatError:
            return names, False, bytes(IDENTITY_BYTES)
        if header.identity != self._header.identity:
            # A catalogue of another store says nothing of this one.
            return names, False, bytes(IDENTITY_BYTES)
        found = read_entries(data)
        for entry in found.entries:
            name = entry.body.decode(errors="replace")
            if entry.kind == _MADE:
                names.add(name)
            elif entry.kind == _REMOVED:
                names.discard(name)
        is_long = len(found.entries) > max(_ENTRIES_PER_NAME_MAX * stream_count, _ENTRIES_MIN)
        is_sound = found.end == len(data) and not found.is_damaged and not is_long
        return names, is_sound, header.salt

    def add_name(self, name: str) -> None:
        """Add the name of a stream that was made."""
        try:
            self._write(_MADE, name)
        except OSError:
            # The stream gets its name when the store is opened.
            pass
        if name in self.missing:
            self.missing.remove(name)

    def remove_name(self, name: str) -> None:
        """Cross out the name of a stream that is about to go, durably. Raises OSError."""
        self._write(_REMOVED, name)
        if self._journal is not None:
            self._journal.sync()

    def _write(self, kind: int, name: str) -> None:
        if not self._is_used:
            return
        if self._journal is None:
            file = create_whole(self._files, self._path, self._header.encode())
            self._journal = Journal(file, self._header.salt)
        self._journal.write(0, [(kind, name.encode())])

    def close(self) -> None:
        """Release the file."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
