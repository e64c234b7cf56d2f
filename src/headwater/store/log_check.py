"""Whether the files of a log are still there: somebody may remove or cut them under a server.

A file that is open can be written to after it has lost its name, and nobody is told: messages would
be acknowledged that are gone with the next restart. So the log is asked now and then what it
relies on, the disk is asked off the log's thread what there is, and the log concludes.
"""

from typing import Final, NamedTuple, final

from headwater.store.filesystem import FileSystem
from headwater.store.segment import SegmentFile

# What is said of a file; the log's name is said by whoever tells of it.
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
    """What a log relied on at a moment, and what there is of it."""

    __slots__ = ("_files", "found", "relied")

    def __init__(self, files: FileSystem, relied: list[Relied]) -> None:
        """Made by `FileLog.begin_check`."""
        self._files = files
        self.relied = relied
        # How long each file is, in the same order; -1 for one that is gone, None if nobody knows.
        self.found: list[int | None] = []

    def run(self) -> None:
        """Ask the disk. May run on another thread, and raises nothing."""
        for each in self.relied:
            try:
                self.found.append(self._files.size_of(each.path))
            except OSError:
                self.found.append(None)
