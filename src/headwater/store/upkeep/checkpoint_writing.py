"""Writing a checkpoint while its log goes on.

The checkpoint tells of the moment at which it was begun. From then on the log's thread copies a
piece of the index (`copy_piece`), another thread writes the piece (`write_piece`), and so on until
there is no more. Then the log puts the new file in place of the old one (`Checkpoints.finish`),
unless something happened meanwhile that a checkpoint of that moment would not fit. Only the log's
thread touches names in the folder, so that it may remove them all at any time.
"""

from array import array
from collections.abc import Iterator
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.store.disk.filesystem import File, FileSystem
from headwater.store.disk.format import FileHeader
from headwater.store.disk.unfinished import SUCCESSOR_SUFFIX, UnfinishedFile
from headwater.store.index.expiry import sequence_in, time_in
from headwater.store.index.index_snapshot import IndexSnapshot, SegmentSnapshot
from headwater.store.upkeep.checkpoint import (
    ABOUT,
    CHECKPOINT_FILE,
    CHECKPOINT_MAGIC,
    SEGMENT,
    SUBJECTS,
)
from headwater.store.upkeep.log_sync import LogSync

# A piece is complete when it is as large as this or has so many parts: each part is copied in a
# millisecond or two.
PIECE_BYTES_MIN: Final = 1024 * 1024
PIECE_PARTS_MAX: Final = 16
SUBJECTS_AT_A_TIME: Final = 16_384
EXPIRIES_AT_A_TIME: Final = 1024


@final
class CheckpointWriting:
    """A checkpoint that is not in place yet. Made by `Checkpoints.begin`."""

    __slots__ = (
        "_copied",
        "_covered",
        "_crc",
        "_expiries",
        "_file",
        "_is_all_copied",
        "_parts",
        "has_synced",
        "last_sequence",
        "path",
        "problem",
        "segment_first",
        "snapshot",
        "sync",
    )

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        identity: bytes,
        journal: tuple[bytes, int],
        snapshot: IndexSnapshot,
        covered: list[tuple[int, bool]],
        expiries: list[int],
        sync: LogSync,
    ) -> None:
        """`journal` is its salt and size; `covered` the size of each segment and whether it is
        sealed; `sync` makes all of that be on the disk. Raises OSError."""
        self.path = f"{folder}/{CHECKPOINT_FILE}"
        self.snapshot = snapshot
        self.sync = sync
        self.segment_first = sync.segment_first
        self.last_sequence = sync.last_sequence
        self.has_synced = False
        # The error for which it cannot be written.
        self.problem: OSError | None = None
        self._covered = covered
        self._expiries = expiries
        self._crc = 0
        salt, journal_bytes = journal
        header = FileHeader(CHECKPOINT_MAGIC, identity, journal_bytes, salt)
        self._parts = self._encode(header)
        self._copied: list[bytes] = []
        self._is_all_copied = False
        self._file = UnfinishedFile(files, self.path + SUCCESSOR_SUFFIX)

    @property
    def is_usable(self) -> bool:
        """Whether nothing has gone wrong, and nothing has happened that it would not fit."""
        failed = self.problem is not None or self.sync.problem is not None
        return not failed and not self.snapshot.is_spoilt

    def copy_piece(self) -> bool:
        """Copy the next piece; False when there is no more, or no use. On the log's thread."""
        if self._is_all_copied or not self.is_usable:
            return False
        size = 0
        while size < PIECE_BYTES_MIN and len(self._copied) < PIECE_PARTS_MAX:
            part = next(self._parts, b"")
            if not part:
                self._is_all_copied = True
                break
            self._copied.append(part)
            size += len(part)
        self._file.lend_to_thread()
        return True

    def write_piece(self) -> None:
        """Write the piece that was copied. May run on another thread; sets `problem` on failure."""
        try:
            if not self.has_synced:
                # A checkpoint may cover only messages that are on the disk.
                self.sync.run()
                self.has_synced = True
            if self.sync.problem is None:
                self._write_copied()
        except OSError as error:
            self.problem = error
        finally:
            self._file.return_from_thread()

    def _write_copied(self) -> None:
        piece = b"".join(self._copied)
        self._copied.clear()
        self._crc = crc32(piece, self._crc)
        if self._is_all_copied:
            piece += self._crc.to_bytes(4, "little")
        self._file.file.write(piece)
        if self._is_all_copied:
            self._file.file.sync()

    def put_in_place(self) -> File:
        """Replace the checkpoint before this one; its folder is still to be synced."""
        self._file.rename(self.path)
        return self._file.file

    def discard(self) -> None:
        """Discard the unfinished file."""
        self.snapshot.is_spoilt = True
        self._file.discard()

    # --- parts -----------------------------------------------------------------------------------

    def _encode(self, header: FileHeader) -> Iterator[bytes]:
        snapshot = self.snapshot
        yield header.encode()
        yield ABOUT.pack(snapshot.subject_count, len(self._expiries), snapshot.is_linked)
        for begin in range(0, len(self._expiries), EXPIRIES_AT_A_TIME):
            items = self._expiries[begin : begin + EXPIRIES_AT_A_TIME]
            yield array("Q", map(sequence_in, items)).tobytes()
        for begin in range(0, len(self._expiries), EXPIRIES_AT_A_TIME):
            items = self._expiries[begin : begin + EXPIRIES_AT_A_TIME]
            yield array("q", map(time_in, items)).tobytes()
        for _ in range(0, snapshot.subject_count, SUBJECTS_AT_A_TIME):
            names, columns = snapshot.next_subjects(SUBJECTS_AT_A_TIME)
            joined = b"\n".join(names)
            yield SUBJECTS.pack(len(names), len(joined)) + joined
            yield b"".join(column.tobytes() for column in columns)
        for segment, (covered_bytes, sealed) in zip(snapshot.segments, self._covered, strict=True):
            yield _segment_head(segment, covered_bytes, sealed)
            for column in segment.columns():
                if column:
                    yield column


def _segment_head(segment: SegmentSnapshot, covered_bytes: int, sealed: bool) -> bytes:
    return SEGMENT.pack(
        segment.first_sequence,
        covered_bytes,
        segment.count,
        segment.live,
        segment.live_bytes,
        segment.dead_bytes,
        sealed,
    )
