"""The folder of one log on a disk: where it is, whose it is, and how its files are made."""

from typing import final

from headwater.base.entropy import Entropy
from headwater.store.disk.filesystem import FileSystem, replace_file
from headwater.store.disk.format import IDENTITY_BYTES
from headwater.store.disk.segment import SegmentFile, segment_header


@final
class LogFolder:
    """The folder of a log; the parts of the log share it."""

    __slots__ = ("_entropy", "files", "identity", "path")

    def __init__(self, files: FileSystem, path: str, identity: bytes, entropy: Entropy) -> None:
        """`identity` is the stream's, which every file of the folder carries."""
        self.files = files
        self.path = path
        self.identity = identity
        self._entropy = entropy

    def path_of(self, name: str) -> str:
        """The path of a file in the folder."""
        return f"{self.path}/{name}"

    def sync(self) -> None:
        """Return when files that were created, renamed or removed are so on the disk."""
        self.files.sync_folder(self.path)

    def new_salt(self) -> bytes:
        """Random bytes for the header of a new file."""
        return self._entropy.random_bytes(IDENTITY_BYTES)

    def create_segment(self, first_sequence: int) -> SegmentFile:
        """A new, empty segment; durable once it and the folder are synced."""
        return SegmentFile.create(self.files, self.path, self.identity, first_sequence)

    def replace_empty_segment(self, segment: SegmentFile) -> SegmentFile:
        """Put a segment of the newest format in place of an outdated one without records, durably.
        Raises OSError."""
        replace_file(
            self.files, segment.path, segment_header(self.identity, segment.first_sequence)
        )
        segment.close()
        return SegmentFile.open(self.files, segment.path, self.identity)
