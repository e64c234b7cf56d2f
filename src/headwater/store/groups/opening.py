"""Opening the logs of groups from the write-ahead files that a start finds.

A member must know whether it may have forgotten a vote or a confirmation: it then neither votes nor
confirms until a leader has brought it to the end of the log (`headwater.raft`, recovery numbers).
The finding is written down, durably, before the start is recorded in the store file, and stands
until the caller has saved the hard state that follows from it. So a second crash does not make it
undone.

| found                             | done                             | may have forgotten     |
|-----------------------------------|----------------------------------|------------------------|
| a torn last write                 | set aside, cut off               | as the next rows say   |
| the first half of a group's birth | the group is not there           |                        |
| the machine fell                  | entries up to the first gap      | groups of mode WRITTEN |
| any start                         | an empty log, term and vote stay | groups of mode MEMORY  |
| bytes that are no frame, or an    | all files set aside, the entries | all groups             |
|   unreadable file                 |   before a gap written again     |                        |
| no store file                     | all entries written again        | all groups             |
| a state of a later start than the | entries as found                 | the group              |
|   store file has counted          |                                  |                        |
| an entry that follows nothing     | it and all behind it left out    | the group              |
| a file of a newer version         | not opened                       |                        |
"""

from collections import Counter
from dataclasses import dataclass
from typing import final

from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.findings import Findings
from headwater.store.disk.set_aside import set_aside
from headwater.store.disk.wal import (
    GROUP_END,
    Frame,
    Redo,
    WriteAhead,
    number_of,
)
from headwater.store.disk.wal_reading import AheadFrames
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupMode, SnapshotMark
from headwater.store.groups.group_log import GroupLog
from headwater.store.groups.group_logs import GroupLogs
from headwater.store.groups.written_group import WrittenGroup


@final
class FoundGroups:
    """The groups in the write-ahead files, by identity."""

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups: dict[bytes, WrittenGroup] = {}

    def take_frame(self, number: int, start: int, frame: Frame) -> None:
        """Take in a frame that was found behind all before it: the file's number, its offset."""
        if frame.kind == GROUP_END:
            self.groups.pop(frame.identity, None)
            return
        group = self.groups.setdefault(frame.identity, WrittenGroup())
        group.take_frame(frame.kind, frame.file, frame.offset, frame.data, (number, start))


@dataclass(frozen=True, slots=True)
class StartFacts:
    """The facts about a start that decide who may have forgotten."""

    machine_fell: bool
    is_store_known: bool
    starts_counted: int
    """The number of starts before this one, by the store file."""
    was_put_back: bool = False

    def doubt_about(self, group: WrittenGroup, is_damaged: bool) -> str:
        """The reason why a member may have forgotten, or an empty text."""
        written = group.written
        if written.mode is GroupMode.MEMORY:
            return "its entries were in memory"
        if written.is_doubtful:
            return "an earlier start has found so"
        if is_damaged or group.has_gap:
            return "something is missing in the write-ahead files"
        if not self.is_store_known:
            return "there is no store file"
        if self.was_put_back:
            return "the store was put back to an earlier state"
        if written.start_number > self.starts_counted:
            return "the store file is older than its state"
        if self.machine_fell and written.mode is GroupMode.WRITTEN:
            return "the machine fell before all was on the disk"
        return ""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The write-ahead files in the folder of a store, and what was found in them."""

    files: FileSystem
    folder: str
    frames: AheadFrames
    findings: Findings


def open_groups(
    logs: GroupLogs,
    ahead: WriteAhead,
    found: FoundGroups,
    in_files: FoundFiles,
    facts: StartFacts,
    redos: dict[bytes, Redo],
) -> int | None:
    """Begin a write-ahead file with the states of all groups, and with the redos of streams.

    Returns the number of the first file that is needed; None if all that were found may go. Raises
    OSError.
    """
    frames, findings = in_files.frames, in_files.findings
    doubts: Counter[str] = Counter()
    for identity, group in found.groups.items():
        if not group.is_begun and not frames.is_damaged:
            # The write by which it begins was interrupted, so nobody was told of the group.
            continue
        group.settle()
        doubt = facts.doubt_about(group, frames.is_damaged)
        if group.written.mode is GroupMode.MEMORY:
            group.begin_at(SnapshotMark())
        elif group.has_gap:
            last = group.entries.last_index
            findings.add("damaged", f"group {identity.hex()}: entries behind {last} are set aside")
            # They may be in any file.
            frames.unsound_names = frames.names
        if doubt:
            group.written = group.written._replace(is_doubtful=True)
            doubts[doubt] += 1
        logs.adopt(identity, group)
    for doubt, count in doubts.items():
        findings.add("doubtful", f"{count} groups may have forgotten what they confirmed: {doubt}")
    # The file that is begun now is needed in any case.
    first = logs.first_file() or ahead.number
    ahead.keep_files({number: seed for number, seed in frames.seeds.items() if number >= first})
    # A last file without a whole header has nothing of a group.
    unsound = frames.seeds.keys() & {number_of(name) for name in frames.unsound_names}
    # Files with damage are set aside, and those of a store that is not known name another store.
    is_moved = frames.is_damaged or not facts.is_store_known or max(unsound, default=0) >= first
    if is_moved:
        _move_entries(logs, findings)
    else:
        secure_files(in_files, first)
    logs.carry_over(redos)
    if is_moved:
        ahead.keep_files({})
        return None
    return first


def secure_files(in_files: FoundFiles, first: int) -> None:
    """Make the files from a number on durable as they were found, cut behind their last frame.

    A file that another one follows has to be on the disk as a whole. Raises OSError.
    """
    files, folder, found = in_files.files, in_files.folder, in_files.frames
    for name in found.names:
        if number_of(name) < first or name in found.unsound_names:
            continue
        file = files.open(f"{folder}/{name}")
        try:
            if name in found.torn:
                offset, rest = found.torn.pop(name)
                set_aside(files, folder, f"{name}-at-{offset}", rest)
                file.truncate(offset)
            file.sync()
        finally:
            file.close()
    files.sync_folder(folder)


def _move_entries(logs: GroupLogs, findings: Findings) -> None:
    """Keep all groups with all their entries for the file that is begun."""
    for identity in logs.identities():
        log = logs[identity]
        try:
            frames = log.whole_frames()
        except StoreError as error:
            findings.add("damaged", str(error))
            _cut_at_unreadable(log)
            frames = log.whole_frames()
        log.add_frames(frames)


def _cut_at_unreadable(log: GroupLog) -> None:
    """Leave out the entries from the first one on that cannot be read."""
    for index in range(log.first_index, log.last_index + 1):
        try:
            log.entries(index, index, 0)
        except StoreError:
            log.truncate(index)
            return
