"""Checks whether the files of a log are still there: somebody may remove or cut them.

A file that is open can be written to after it has lost its name, without any error: messages would
be acknowledged that are gone with the next restart. So now and then the log lists the files that it
relies on, the disk is asked for their sizes off the log's thread, and the log concludes.
"""

from typing import Final, NamedTuple, final

from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.segment import SegmentFile

# Problems of a file; the report that contains such a text names the log.
GONE: Final = "was removed by somebody else"
CUT: Final = "was cut short by somebody else"


class Relied(NamedTuple):
    """A file that a log relies on, and how long it was at least when it was last looked at.

    Of a segment it is known as well how often the log itself had changed it otherwise than by
    appending.
    """

    path: str
    seen_bytes: int = 1
    segment: SegmentFile | None = None
    changes: int = 0

    def is_seen_again(self, segment: SegmentFile | None) -> bool:
        """Whether the log still has this segment, and has only added to it."""
        return segment is not None and segment is self.segment and segment.changes == self.changes


@final
class LogCheck:
    """The files that a log relied on at a moment, and their sizes on the disk."""

    __slots__ = ("_files", "found", "relied")

    def __init__(self, files: FileSystem, relied: list[Relied]) -> None:
        """Made by `FileChecks.begin`."""
        self._files = files
        self.relied = relied
        # The size of each file, in that order; -1 if it is gone, None if the disk does not tell.
        self.found: list[int | None] = []

    def run(self) -> None:
        """Ask the disk. May run on another thread, and raises nothing."""
        for each in self.relied:
            try:
                self.found.append(self._files.size_of(each.path))
            except OSError:
                self.found.append(None)
