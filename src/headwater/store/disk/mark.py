"""The mark of a store: a small memory outside of the disk that outlives a killed process.

It tells how far the operating system has taken what the store wrote. A process that is killed loses
nothing of that, so a store which is behind its mark has lost more than its process: pages were
dropped, or the volume was put back to an earlier state, while the machine ran on. The store is then
opened as after the fall of the machine.

    words   0  what it is       "HWMARK1!"
            1  life             digest of the boot id of the machine
            2  identity         16 bytes of the store
            4  start number     of the last start
            5  closed           1 after the store was closed in order
            6  file             number of the write-ahead file in use
            7  written          bytes of it that the operating system has
            8  synced           bytes of it that the disk has
            9  (zero)
           10  slots            the beginning of the identity of a stream, 0 in a free slot; its
                                last sequence that the operating system has, or that an async stream
                             has in memory; it goes on above its reservation after any kill

A word is written at once or not at all, and behind the write that it tells of. So a mark never
tells more than the disk was given, and the kill of a process leaves no store behind its mark.
Without a mark a store relies on the boot id alone. The mark of an earlier life of the machine tells
nothing.
"""

from array import array
from collections.abc import Iterable, Mapping
from hashlib import sha256
from struct import Struct
from sys import byteorder
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, final

from headwater.store.disk.store_file import BOOT_UNKNOWN, StoreFile

_MAGIC: Final = int.from_bytes(b"HWMARK1!", "little")
_FIXED: Final = Struct("=QQ16sQQQQQQ")
_SLOT: Final = Struct("=QQ")
_CLOSED: Final = 5
_FILE: Final = 6
_WRITTEN: Final = 7
_SYNCED: Final = 8
_WORD_BYTES: Final = 8
_FIXED_WORDS: Final = _FIXED.size // _WORD_BYTES
_SLOT_WORDS: Final = _SLOT.size // _WORD_BYTES
# A mark is replaced by one with twice as many slots when all are taken.
SLOTS_MIN: Final = 64


class MarkMemory(Protocol):
    """Memory of the machine that outlives a process and not the machine."""

    def read(self, folder: str) -> bytes:
        """The mark of the store in a folder; empty without one. Raises OSError."""
        ...

    def replace(self, folder: str, data: bytes) -> "memoryview[int]":
        """Put another mark in the place of the store's, whole or not at all. Returns its words of
        8 bytes, which are changed in place. Raises OSError."""
        ...


class FoundMark(NamedTuple):
    """The mark that an earlier process has left; without arguments, one that tells nothing."""

    start_number: int = 0
    is_closed: bool = False
    # The write-ahead file in use, and its bytes that were written and synced.
    file: int = 0
    written: int = 0
    synced: int = 0
    # The last sequence of each stream, by the beginning of its identity.
    sequences: Mapping[int, int] = MappingProxyType({})

    def sequence_of(self, identity: bytes) -> int:
        """The last sequence of a stream that was written; 0 if that is not told."""
        return self.sequences.get(_beginning(identity), 0)

    def shows_put_back(
        self, store: StoreFile, ends: Mapping[int, int] | None, known: Iterable[bytes]
    ) -> bool:
        """Whether the store is in an earlier state than one that was on the disk.

        `ends` are the ends of the sound frames of write-ahead files by number, None if they say
        nothing, and `known` are the identities of the streams that the store has, or has recorded.
        """
        if store.start_number != self.start_number:
            return store.start_number < self.start_number
        if store.clean or not self.start_number:
            return False
        lacks_stream = not self.sequences.keys() <= {*map(_beginning, known)}
        return self.is_closed or lacks_stream or self._is_beyond(self.synced, ends)

    def shows_loss(self, store: StoreFile, ends: Mapping[int, int] | None) -> bool:
        """Whether the write-ahead files lack something that the operating system had taken."""
        is_same = store.start_number == self.start_number and not store.clean
        return is_same and self._is_beyond(self.written, ends)

    def _is_beyond(self, size: int, ends: Mapping[int, int] | None) -> bool:
        if ends is None or not size:
            return False
        last = max(ends, default=0)
        return last < self.file or (last == self.file and ends[last] < size)


def _beginning(identity: bytes) -> int:
    return int.from_bytes(identity[:_WORD_BYTES], byteorder)


def _life(boot_id: bytes) -> int:
    """A number that tells one life of the machine from another; 0 if the machine has no boot id."""
    if boot_id == BOOT_UNKNOWN.encode():
        return 0
    return int.from_bytes(sha256(boot_id).digest()[:_WORD_BYTES], byteorder) or 1


@final
class SequenceMark:
    """The place of one stream in the mark: its last sequence that the operating system has."""

    __slots__ = ("_slot", "_words")

    def __init__(self) -> None:
        self._words, self._slot = memoryview(array("Q", [0])), 0

    @property
    def sequence(self) -> int:
        """The last sequence that was noted."""
        return self._words[self._slot]

    def note(self, sequence: int) -> None:
        """Tell that everything up to a sequence has been written."""
        self._words[self._slot] = sequence

    def follow(self, words: "memoryview[int]", slot: int) -> None:
        """Write the sequence to a word of the mark from now on."""
        words[slot] = self.sequence
        self._words, self._slot = words, slot

    def leave(self) -> None:
        """Write the sequence to no mark from now on."""
        self._words, self._slot = memoryview(array("Q", [self.sequence])), 0


@final
class StoreMark:
    """The mark of an open store."""

    __slots__ = ("_folder", "_free", "_memory", "_streams", "_words", "problem")

    def __init__(self, memory: MarkMemory | None, folder: str) -> None:
        """The mark is not written before `begin`."""
        self._memory = memory
        self._folder = folder
        self._words = memoryview(array("Q", bytes(_FIXED.size)))
        # The slots of streams by identity, 0 without one, and the slots that are free.
        self._streams: dict[bytes, tuple[int, SequenceMark]] = {}
        self._free: list[int] = []
        # The reason why the store has no mark, or cannot make it larger; empty if there is none.
        self.problem = ""

    # --- an earlier mark -----------------------------------------------------------------------

    def read(self, identity: bytes, boot_id: bytes) -> FoundMark:
        """The mark of the store in this life of the machine; one that tells nothing without it."""
        data = self._read()
        if len(data) < _FIXED.size or (len(data) - _FIXED.size) % _SLOT.size:
            return FoundMark()
        magic, life, known, start, closed, file, written, synced, _ = _FIXED.unpack_from(data)
        if magic != _MAGIC or known != identity or life != _life(boot_id) or not life:
            return FoundMark()
        slots = _SLOT.iter_unpack(data[_FIXED.size :])
        sequences = {stream: last for stream, last in slots if stream}
        return FoundMark(start, bool(closed), file, written, synced, sequences)

    def _read(self) -> bytes:
        if self._memory is None:
            return b""
        try:
            return self._memory.read(self._folder)
        except OSError as error:
            self.problem = str(error)
            return b""

    def forget_file(self) -> None:
        """Tell nothing of write-ahead files in the earlier mark: a start that finds nothing lost
        may remove them, and may be interrupted."""
        data = array("Q", self._read())
        data[_FILE : _SYNCED + 1] = array("Q", [0, 0, 0])
        self._replace(data)

    # --- the mark of this start ----------------------------------------------------------------

    def begin(self, identity: bytes, boot_id: bytes, start_number: int) -> None:
        """Tell from now on how far a start of the store has come; no earlier mark counts."""
        life = _life(boot_id)
        if life and self._memory is not None:
            head = _FIXED.pack(_MAGIC, life, identity, start_number, *[0] * 5)
            words = array("Q", head)
            words[_FILE : _SYNCED + 1] = array("Q", self._words[_FILE : _SYNCED + 1].tolist())
            self._place(words, len(self._streams))

    def _place(self, words: "array[int]", streams: int) -> None:
        """Make a mark that begins with these words, and has room for more streams than there
        are."""
        slots = max(SLOTS_MIN, 2 * streams)
        marks = {identity: mark for identity, (_, mark) in self._streams.items()}
        for identity, mark in marks.items():
            words.extend((_beginning(identity), mark.sequence))
        words.frombytes(bytes((slots - len(marks)) * _SLOT.size))
        placed = self._replace(words)
        if placed is None:
            return
        self._words = placed
        every = [_FIXED_WORDS + _SLOT_WORDS * each for each in range(slots)]
        for (identity, mark), slot in zip(marks.items(), every, strict=False):
            self._put(slot, identity, mark)
        self._free = every[: len(marks) - 1 : -1] if marks else every[::-1]

    def _replace(self, words: "array[int]") -> "memoryview[int] | None":
        if self._memory is None or not words:
            return None
        try:
            return self._memory.replace(self._folder, words.tobytes())
        except OSError as error:
            self.problem = str(error)
            return None

    def close(self) -> None:
        """Tell that the store was closed in order."""
        self._words[_CLOSED] = 1

    # --- the write-ahead file ------------------------------------------------------------------

    def note_file(self, number: int) -> None:
        """Tell that another write-ahead file follows, and that no earlier one is needed."""
        self._words[_WRITTEN] = self._words[_SYNCED] = 0
        self._words[_FILE] = number

    def note_written(self, size: int) -> None:
        """Tell that the operating system has so many bytes of the write-ahead file."""
        self._words[_WRITTEN] = size

    def note_synced(self, size: int) -> None:
        """Tell that the disk has so many bytes of the write-ahead file."""
        self._words[_SYNCED] = size

    # --- streams -------------------------------------------------------------------------------

    def follow(self, identity: bytes, mark: SequenceMark) -> None:
        """Tell how far a stream has come, in the place of another log of it."""
        self.leave(identity)
        if len(self._words) > _FIXED_WORDS and not self._free:
            words = array("Q", self._words[:_FIXED_WORDS].tolist())
            self._place(words, len(self._streams))
        if self._free:
            self._put(self._free.pop(), identity, mark)
        else:
            self._streams[identity] = 0, mark

    def leave(self, identity: bytes) -> None:
        """Tell nothing of a stream any more. Must be called before its files are removed."""
        slot, mark = self._streams.pop(identity, (0, None))
        if slot:
            self._words[slot] = 0
            self._free.append(slot)
        if mark is not None:
            mark.leave()

    def _put(self, slot: int, identity: bytes, mark: SequenceMark) -> None:
        # The sequence comes first: a slot that is half written is a free one.
        mark.follow(self._words, slot + 1)
        self._words[slot] = _beginning(identity)
        self._streams[identity] = slot, mark
