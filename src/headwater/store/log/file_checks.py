"""Checks whether the files of a log are still there: somebody may remove or cut them.

`begin` on the log's thread lists the files, `LogCheck.run` asks the disk for their sizes on any,
and `finish` concludes. Without a file that the next message relies on, the log goes offline: no
publisher may be told that the message is stored. Messages in other missing files are lost when the
log is opened again, and can be read until then.
"""

from contextlib import suppress
from typing import final

from headwater.store.disk.journal import LOST, encode_ranges
from headwater.store.disk.layout import JOURNAL_FILE, STREAM_FILE
from headwater.store.disk.segment import SegmentFile
from headwater.store.errors import StoreError
from headwater.store.index.log_index import LogIndex
from headwater.store.log.availability import Availability
from headwater.store.log.log_folder import LogFolder
from headwater.store.log.log_journal import LogJournal
from headwater.store.log.losses import Losses
from headwater.store.log.segments import LogSegments
from headwater.store.upkeep.log_check import CUT, GONE, LogCheck, Relied


@final
class FileChecks:
    """The checks of one log's files, and the problems that they have found."""

    __slots__ = (
        "_availability",
        "_folder",
        "_index",
        "_journal",
        "_losses",
        "_seen",
        "_segments",
        "_unreadable_told",
        "problems",
    )

    def __init__(
        self,
        folder: LogFolder,
        availability: Availability,
        index: LogIndex,
        segments: LogSegments,
        journal: LogJournal,
        losses: Losses,
    ) -> None:
        self._folder = folder
        self._availability = availability
        self._index = index
        self._segments = segments
        self._journal = journal
        self._losses = losses
        # Problems of files that the log can do without until it is opened again, by file name.
        self.problems: dict[str, str] = {}
        # The segments as they were at the last check, by first sequence.
        self._seen: dict[int, Relied] = {}
        # The number of unreadable messages that the last check has reported.
        self._unreadable_told = 0

    def begin(self) -> LogCheck:
        """Work for `LogCheck.run`, and then for `finish`."""
        relied = [Relied(self._folder.path_of(name)) for name in (STREAM_FILE, JOURNAL_FILE)]
        seen, self._seen = self._seen, {}
        for first, segment in self._segments.by_first.items():
            before = seen.get(first)
            if before is None or not before.is_seen_again(segment):
                before = Relied(segment.path, segment=segment, changes=segment.changes)
            self._seen[first] = before
            relied.append(before)
        return LogCheck(self._folder.files, relied)

    def finish(self, done: LogCheck) -> str:
        """Problems that were found and were not known before; empty if there are none."""
        problems = []
        for relied, found_bytes in zip(done.relied, done.found, strict=True):
            # Otherwise the state of the file cannot be told.
            if found_bytes is not None and not self._availability.offline:
                problem = self._judge(relied, found_bytes)
                if problem:
                    problems.append(problem)
        count = self._losses.unreadable_count
        told, self._unreadable_told = self._unreadable_told, count
        if count > told:
            is_repaired = self._losses.damage.count > 0
            until = "until they have come from another server" if is_repaired else "any more: lost"
            problems.append(f"{count} messages cannot be read {until}")
        return "; ".join(problems)

    def _judge(self, relied: Relied, found_bytes: int) -> str:
        """The problem of a file, if it was not known before; else empty."""
        segment = relied.segment
        is_last = segment is None
        is_cut = found_bytes < relied.seen_bytes
        if segment is not None:
            first = segment.first_sequence
            if not relied.is_seen_again(self._segments.by_first.get(first)):
                # The log itself has changed or removed it meanwhile.
                return ""
            is_last = first == self._index.segments[-1].first_sequence
            is_cut = is_cut or (is_last and not self._is_end_there(segment))
            if not is_cut:
                self._seen[first] = relied._replace(seen_bytes=found_bytes)
        name = relied.path.rpartition("/")[2]
        if not is_cut or name in self.problems:
            return ""
        problem = f"{name} {GONE if found_bytes < 0 else CUT}"
        self.problems[name] = problem
        self._losses.findings.add("missing", problem)
        if is_last:
            self._leave_end(problem)
        return problem

    def _is_end_there(self, segment: SegmentFile) -> bool:
        """Whether the last byte of a segment is there. Its message may be damaged all the same."""
        size = segment.size
        try:
            return size > 0 and len(segment.file.read(size - 1, 1)) == 1
        except OSError:
            # Reads tell of that.
            return True

    def _leave_end(self, problem: str) -> None:
        """Go offline because the end of the log may be missing when it is opened again.

        Then nobody could tell how far it went: the journal says that sequences behind its end were
        given out, so that the log goes on above all that were.
        """
        behind = self._index.last_sequence + 1
        with suppress(StoreError):
            self._journal.write([(LOST, encode_ranges([(behind, behind)]))], makes_room=True)
            self._journal.sync()
        self._availability.go_offline(
            f"{problem}; restart the server: what is missing then is reported as lost"
        )
