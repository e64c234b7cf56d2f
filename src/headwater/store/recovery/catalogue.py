"""The catalogue of a store: the durable log of the streams that were created and deleted.

    <folder>/catalogue.hw     header | entry | entry | …   as a journal (`store.disk.format`), with
                              a magic of its own: b"HWCATLOG"

    entry      position     u64 the number of the entry in this file, and above it 32 bits of the
                                file's salt: no bytes that were an entry of another file are one
                                here. The highest bit of the number marks a hint
               body         see below; several entries of one moment are a group

    body       0  identity     16  of the stream: its incarnation
              16  name size    u16
              18  name             by which the store knows the stream
                  record           the caller's own, may be empty

    kinds      256 created    the stream exists; its folder follows
               257 deleted    the stream does not exist any more; its folder goes
               258 made       the folder of a created stream is there
               259 removed    the folder of a deleted stream is gone

A creation or a deletion is on the disk before a folder is made or removed. After a crash the
folders follow the entries: a folder whose deletion is recorded goes, and a stream that was created
and whose folder was never made gets one. `made` and `removed` tell a crash from somebody who has
removed a folder, or has put one back. They are written as hints, which nothing is synced for, and
once more together with the next entry.

Every entry is synced before the next, so that a power loss costs the last one and hints, and damage
is a number that is missing. A file that is not sound is kept in the folder `set-aside`, and another
one begins. Streams are found by their folders then. Stores of earlier versions have a journal with
the names of the streams. It is read, and replaced by the first write.

A write is three steps: `begin` on the loop of the server, `run` where it may wait for the disk, and
`finish` on the loop. Hints may be written in between.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple, final

from headwater.base.checksums import crc32
from headwater.base.errors import OperatingError
from headwater.base.invariants import check
from headwater.store.disk.filesystem import FileSystem, NoRoomError, read_file, replace_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    HEADER_BYTES,
    IDENTITY_BYTES,
    JOURNAL_MAGIC,
    Entry,
    FileHeader,
    FormatError,
    NewerFormatError,
    encode_entry,
    encode_group,
)
from headwater.store.disk.journal import CALLER_KINDS, Journal, read_entries
from headwater.store.disk.set_aside import set_aside_file

CATALOGUE_FILE: Final = "catalogue.hw"
CATALOGUE_MAGIC: Final = b"HWCATLOG"

CREATED: Final = CALLER_KINDS
DELETED: Final = CALLER_KINDS + 1
MADE: Final = CALLER_KINDS + 2
REMOVED: Final = CALLER_KINDS + 3

# The kinds of a journal of names, which earlier versions wrote.
_NAME_MADE: Final = CALLER_KINDS
_NAME_REMOVED: Final = CALLER_KINDS + 1

# The identity of a stream that only the name is known of.
UNKNOWN_IDENTITY: Final = bytes(IDENTITY_BYTES)

# The file is rewritten when it has this many entries for each stream.
_ENTRIES_PER_STREAM_MAX: Final = 4
_ENTRIES_MIN: Final = 1000

_BODY: Final = Struct(f"<{IDENTITY_BYTES}sH")
_NUMBER_BITS: Final = 32
# The bit of a number that tells a hint from an entry.
_HINT: Final = 1 << (_NUMBER_BITS - 1)


class CatalogueEntry(NamedTuple):
    """One entry: something that happened to a stream."""

    kind: int
    name: str
    identity: bytes
    record: bytes = b""

    def encode(self) -> tuple[int, bytes]:
        """The kind and body of the entry."""
        name = self.name.encode()
        return self.kind, _BODY.pack(self.identity, len(name)) + name + self.record


def _decode(entry: Entry) -> CatalogueEntry | None:
    """The entry of the catalogue in an entry of its file; None if its body is malformed."""
    if entry.kind not in (CREATED, DELETED, MADE, REMOVED) or len(entry.body) < _BODY.size:
        return None
    identity, size = _BODY.unpack_from(entry.body)
    end = _BODY.size + size
    try:
        name = entry.body[_BODY.size : end].decode()
    except UnicodeDecodeError:
        return None
    return CatalogueEntry(entry.kind, name, identity, entry.body[end:])


@final
class CataloguedStream:
    """A stream that exists: its identity, the caller's record, and whether its folder was made."""

    __slots__ = ("identity", "is_made", "record")

    def __init__(self, identity: bytes, record: bytes, is_made: bool) -> None:
        self.identity = identity
        self.record = record
        self.is_made = is_made


@final
class CatalogueState:
    """The content of a catalogue: the streams that exist, and those whose folder has yet to go."""

    __slots__ = ("streams", "unremoved")

    def __init__(self) -> None:
        self.streams: dict[str, CataloguedStream] = {}
        # The records of deletions, by name and identity of the stream.
        self.unremoved: dict[tuple[str, bytes], bytes] = {}

    def apply(self, entry: CatalogueEntry) -> None:
        """Change the content as an entry says."""
        there = self.streams.get(entry.name)
        if entry.kind == CREATED:
            # A replica that comes here again is of the same identity as the one that was deleted.
            self.unremoved.pop((entry.name, entry.identity), None)
            self.streams[entry.name] = CataloguedStream(entry.identity, entry.record, is_made=False)
        elif entry.kind == REMOVED:
            self.unremoved.pop((entry.name, entry.identity), None)
        elif entry.kind == DELETED:
            self.unremoved[entry.name, entry.identity] = entry.record
            if there is not None and there.identity in (entry.identity, UNKNOWN_IDENTITY):
                del self.streams[entry.name]
        elif there is not None and there.identity == entry.identity:
            there.is_made = True

    def entries(self) -> list[CatalogueEntry]:
        """The entries that lead to this content."""
        found = [CatalogueEntry(DELETED, *key, record) for key, record in self.unremoved.items()]
        for name, stream in self.streams.items():
            found.append(CatalogueEntry(CREATED, name, stream.identity, stream.record))
            if stream.is_made:
                found.append(CatalogueEntry(MADE, name, stream.identity))
        return found


class Differences(NamedTuple):
    """The streams of which the catalogue and the folders of a store say different things."""

    # Streams whose deletion is recorded and whose folder is there.
    unremoved: list[str]
    # Folders of streams that are not recorded.
    unrecorded: list[str]
    # Folders of another incarnation than the one that is recorded.
    replaced: list[str]
    # Streams that are recorded and whose folder was never made.
    unmade: list[str]
    # Streams that are recorded and whose folder is gone.
    missing: list[str]


def compare(state: CatalogueState, folders: Mapping[str, bytes | None]) -> Differences:
    """Compare a catalogue with the folders of a store.

    `folders` has the identity of each stream that has a folder; None if it cannot be read, and then
    the folder counts as that of the stream which is recorded.
    """
    found = Differences([], [], [], [], [])
    for name, identity in folders.items():
        recorded = state.streams.get(name)
        if identity is not None and (name, identity) in state.unremoved:
            found.unremoved.append(name)
        elif recorded is None or recorded.identity == UNKNOWN_IDENTITY:
            found.unrecorded.append(name)
        elif identity is not None and identity != recorded.identity:
            found.replaced.append(name)
    gone = set(found.unremoved)
    for name in sorted(state.streams):
        if name not in folders or name in gone:
            is_made = state.streams[name].is_made
            (found.missing if is_made else found.unmade).append(name)
    return found


@final
class _Writing:
    """A write of the catalogue that is under way: an entry in the file, or a file in its place."""

    __slots__ = ("added", "entry_count", "file", "is_file", "problem", "seed", "step", "waiting")

    def __init__(self, added: list[CatalogueEntry], waiting: list[CatalogueEntry]) -> None:
        # The entries of the callers, and those that had waited for them.
        self.added = added
        self.waiting = waiting
        # The part that waits for the disk, and its error.
        self.step: Callable[[], object] = _nothing
        self.problem: OSError | None = None
        # Whether a file takes the place of the present one; that file, and what it has.
        self.is_file = False
        self.file: Journal | None = None
        self.seed = self.entry_count = 0


def _nothing() -> None:
    """The step of a write that waits for nothing."""


@final
class Catalogue:
    """The catalogue of an open store. `read` comes first, and changes nothing."""

    __slots__ = (
        "_end_bytes",
        "_entry_count",
        "_files",
        "_folder",
        "_has_damage",
        "_identity",
        "_is_doubtful",
        "_is_outdated",
        "_journal",
        "_new_salt",
        "_path",
        "_seed",
        "_waiting",
        "_writing",
        "is_gone",
        "is_sound",
        "state",
    )

    def __init__(
        self, files: FileSystem, folder: str, identity: bytes, new_salt: Callable[[], bytes]
    ) -> None:
        """`identity` is the store's; `new_salt` draws a salt for a file that begins."""
        self._files = files
        self._folder = folder
        self._path = f"{folder}/{CATALOGUE_FILE}"
        self._identity = identity
        self._new_salt = new_salt
        # The mark of this file in the positions of its entries.
        self._seed = 0
        self._entry_count = 0
        # The size of the file without the rest of an entry that a crash has interrupted.
        self._end_bytes = 0
        # None until the first write: it begins another file.
        self._journal: Journal | None = None
        # Whether the file that is there is to be kept when another one begins.
        self._has_damage = False
        # Whether another file has to begin, because this one would be reported at each start.
        self._is_outdated = False
        # Whether a write of the file has failed: it may have an entry whose caller was told that it
        # is not written. The next write begins another file.
        self._is_doubtful = False
        # Entries that join the next write, and the write that is under way.
        self._waiting: list[CatalogueEntry] = []
        self._writing: _Writing | None = None
        # Whether there was a file, and whether all that was written in it has been read.
        self.is_gone = False
        self.is_sound = True
        self.state = CatalogueState()

    # --- reading -------------------------------------------------------------------------------

    def read(self, findings: Findings, machine_fell: bool, is_store_known: bool) -> None:
        """Read the file, if there is one, and report damage. Raises NewerFormatError.

        After the machine fell, unsound bytes at the end are the rest of an entry that was not
        synced. If the identity of the store is not known, the catalogue may be that of another one:
        it only tells which streams are missing.
        """
        try:
            if not self._files.exists(self._path):
                self.is_gone = True
                return
            data = read_file(self._files, self._path)
            magic = JOURNAL_MAGIC if data.startswith(JOURNAL_MAGIC) else CATALOGUE_MAGIC
            header = FileHeader.decode(data[:HEADER_BYTES], magic, self._path)
            if is_store_known and header.identity != self._identity:
                raise FormatError(f"{self._path}: belongs to another store")
            if magic == JOURNAL_MAGIC:
                self._read_names(data)
            elif not self._read_entries(data, crc32(header.salt), machine_fell):
                self._give_up(findings, "damaged", "entries of it cannot be read")
            elif not is_store_known:
                self._trust_less()
                self._is_outdated = True
            elif self._end_bytes == len(data):
                self._journal = Journal(self._files.open(self._path), header.salt)
        except NewerFormatError:
            raise
        except (OSError, OperatingError) as error:
            self._give_up(findings, "unreadable", str(error).removeprefix(f"{self._path}: "))

    def _read_entries(self, data: bytes, seed: int, machine_fell: bool) -> bool:
        """Read a file of this version. Returns whether no entry is missing."""
        found = read_entries(data)
        entries = _NumberedEntries(seed, self.state)
        for offset, entry in zip(found.offsets, found.entries, strict=True):
            entries.add(offset, entry)
        self._seed, self._entry_count, self._end_bytes = seed, entries.count, entries.end
        is_end = machine_fell or _is_torn(data, entries.end)
        return entries.is_whole and is_end

    def _read_names(self, data: bytes) -> None:
        """Read the journal of an earlier version."""
        for entry in read_entries(data).entries:
            name = entry.body.decode(errors="replace")
            if entry.kind == _NAME_MADE:
                self.state.streams[name] = CataloguedStream(UNKNOWN_IDENTITY, b"", is_made=True)
            elif entry.kind == _NAME_REMOVED:
                self.state.streams.pop(name, None)

    def _give_up(self, findings: Findings, kind: str, reason: str) -> None:
        findings.add(kind, f"{CATALOGUE_FILE}: {reason}; streams are found by their folders")
        self.is_sound = False
        self._has_damage = self._is_outdated = True
        self._trust_less()

    def _trust_less(self) -> None:
        """Use the state only to miss streams: none is removed or made because of it."""
        self.state.unremoved.clear()
        for stream in self.state.streams.values():
            stream.is_made = True

    # --- writing -------------------------------------------------------------------------------

    def begin(self, entries: Iterable[CatalogueEntry] = (), renews: bool = False) -> bool:
        """Begin to write entries, all or none, with those that wait for them; in another file if
        the file is doubtful, or `renews`.

        Returns whether there is anything to write: then `run` and `finish` have to follow. Raises
        OSError.
        """
        check(self._writing is None, "one write at a time")
        added, waiting = [*entries], self._waiting
        if not (added or waiting or self._is_doubtful or renews):
            return False
        writing = _Writing(added, waiting)
        # A client does not wait until the whole file is written again.
        is_shortened = self._is_long and not added
        if self._journal is None or self._is_doubtful or is_shortened or renews:
            self._begin_file(writing)
        else:
            self._append(writing, self._journal)
        self._waiting = []
        self._writing = writing
        return True

    def run(self) -> None:
        """Wait for the disk. May run on another thread; `finish` tells what went wrong."""
        writing = self._writing
        if writing is not None:
            try:
                writing.step()
            except OSError as error:
                writing.problem = error

    def finish(self) -> None:
        """Take over the entries, which are on the disk now. Raises OSError.

        After an error the file `is_doubtful`, unless there was no room for another one.
        """
        writing, self._writing = self._writing, None
        if writing is None:
            return
        if writing.problem is not None:
            self._waiting = writing.waiting + self._waiting
            # If another file found no room, the present one is as it was.
            is_as_before = writing.is_file and isinstance(writing.problem, NoRoomError)
            self._is_doubtful |= not is_as_before
            raise writing.problem
        if writing.file is not None:
            self.close()
            self._journal = writing.file
            self._seed, self._entry_count = writing.seed, writing.entry_count
            self._is_outdated = self._is_doubtful = False
        for entry in writing.added:
            self.state.apply(entry)

    def write(self, entries: Iterable[CatalogueEntry]) -> None:
        """Write entries, all or none; they are on the disk when this returns. Raises OSError."""
        if self.begin(entries):
            self.run()
            try:
                self.finish()
            except OSError:
                if self._is_doubtful:
                    with suppress(OSError):
                        self._replace()
                raise
            if self._is_long:
                # If there is no room, or the disk fails, the next write finds out.
                with suppress(OSError):
                    self._replace()

    def renew(self) -> None:
        """Replace a file that is not sound, and keep it aside. Raises OSError."""
        if self._is_outdated:
            self._replace()

    def _replace(self) -> None:
        self.begin(renews=True)
        self.run()
        self.finish()

    def write_later(self, entry: CatalogueEntry) -> None:
        """Take an entry into the state now, and write it together with the next one."""
        self.state.apply(entry)
        self._waiting.append(entry)

    def write_hint(self, entry: CatalogueEntry) -> None:
        """Write an entry without a sync, and once more together with the next one."""
        self.write_later(entry)
        if self._journal is not None and not self._is_doubtful:
            try:
                self._journal.write(self._position | _HINT, [entry.encode()])
            except NoRoomError:
                pass
            except OSError:
                self._is_doubtful = True

    def write_waiting(self) -> None:
        """Write the entries that wait for another one, if there is room and no other write is under
        way. Raises OSError."""
        if self._writing is None:
            with suppress(NoRoomError):
                # Without room they go on waiting.
                self.write([])

    @property
    def has_waiting(self) -> bool:
        """Whether entries wait for another one."""
        return bool(self._waiting)

    @property
    def is_doubtful(self) -> bool:
        """Whether the file may have an entry that counts for nothing: the next write replaces it,
        and is to come soon."""
        return self._is_doubtful

    @property
    def has_waiting_deletions(self) -> bool:
        """Whether a deletion waits because there was no room for its entry."""
        return any(entry.kind == DELETED for entry in self._waiting)

    @property
    def _is_long(self) -> bool:
        streams = len(self.state.streams) + len(self.state.unremoved)
        return self._entry_count > max(_ENTRIES_PER_STREAM_MAX * streams, _ENTRIES_MIN)

    @property
    def _position(self) -> int:
        """The position of the next entry."""
        return self._seed << _NUMBER_BITS | self._entry_count

    def _append(self, writing: _Writing, journal: Journal) -> None:
        """Write an entry to the file, which is still to be synced."""
        check(self._entry_count < _HINT, "a catalogue is rewritten long before")
        bodies = [entry.encode() for entry in (*writing.waiting, *writing.added)]
        try:
            journal.write(self._position, bodies)
        except NoRoomError:
            raise
        except OSError:
            # It is not known how much of the entry is on the disk.
            self._is_doubtful = True
            raise
        self._entry_count += 1
        writing.step = journal.sync

    def _begin_file(self, writing: _Writing) -> None:
        """Prepare a file that has the state and the entries which are added to it."""
        writing.is_file = True
        salt = self._new_salt()
        writing.seed = seed = crc32(salt)
        # One by one, so that damage to one entry does not cost all; those of this moment together.
        groups = [[entry.encode()] for entry in self.state.entries()]
        if writing.added:
            groups.append([entry.encode() for entry in writing.added])
        writing.entry_count = len(groups)
        header = FileHeader(CATALOGUE_MAGIC, self._identity, 0, salt).encode()
        parts = [
            _encode(seed << _NUMBER_BITS | number, bodies) for number, bodies in enumerate(groups)
        ]
        data = b"".join([header, *parts])

        def replace() -> None:
            if self._has_damage:
                set_aside_file(self._files, self._folder, CATALOGUE_FILE)
                self._has_damage = False
            replace_file(self._files, self._path, data)
            writing.file = Journal(self._files.open(self._path), salt)

        writing.step = replace

    def close(self) -> None:
        """Release the file. A write after that begins another one."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _encode(position: int, bodies: list[tuple[int, bytes]]) -> bytes:
    if len(bodies) == 1:
        return encode_entry(position, *bodies[0])
    return encode_group(position, bodies)


@final
class _NumberedEntries:
    """Takes the entries of one file into a state, and sees whether one of them is missing."""

    __slots__ = ("_offset", "_seed", "_state", "count", "end", "is_whole")

    def __init__(self, seed: int, state: CatalogueState) -> None:
        self._seed = seed
        self._state = state
        self._offset = 0
        # The number of the next entry, and the offset behind the last one.
        self.count = 0
        self.end = HEADER_BYTES
        self.is_whole = True

    def add(self, offset: int, entry: Entry) -> None:
        """Take an entry, or a part of a group, in the order of the file."""
        if entry.position >> _NUMBER_BITS != self._seed:
            return
        if offset != self._offset:
            self._offset = self.end = offset
            if not entry.position & _HINT:
                number = entry.position % _HINT
                self.is_whole = self.is_whole and number == self.count
                self.count = number + 1
        self.end += entry.length
        decoded = _decode(entry)
        if decoded is None:
            self.is_whole = False
        else:
            self._state.apply(decoded)


def _is_torn(data: bytes, end: int) -> bool:
    """Whether there is nothing behind the end but what a process leaves that dies writing."""
    rest = len(data) - end
    return rest < 4 or rest < int.from_bytes(data[end : end + 4], "little")
