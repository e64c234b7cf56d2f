"""The replicated streams of a store: streams whose files are a cache of the log of a group.

A stream is replicated if the write-ahead file has a redo point of it that says so (kind 13 of
`headwater.store.disk.wal`), and not otherwise: that one frame decides after a crash. A stream joins
before its group is created and leaves when its group is gone, so that a group without such a redo
point tells damage.

    R1 ── join ──▶ replicated, no group ── GroupLogs.create ──▶ replicated
    R1 ◀── leave ── replicated, no group ◀── GroupLogs.remove ── replicated

A replica that crashed between the two has no group, and the caller goes on in either direction.
"""

from contextlib import suppress
from dataclasses import replace
from typing import final

from headwater.base.entropy import Entropy
from headwater.base.invariants import check
from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.format import StreamFile
from headwater.store.disk.wal import VOID_POINT, Redo, RedoPoint
from headwater.store.errors import StoreError
from headwater.store.group_commit import GroupCommit
from headwater.store.groups.group_logs import GroupLogs
from headwater.store.log.file_log import FileLog
from headwater.store.recovery.redo import RedoPlan
from headwater.store.recovery.replicas import begin_again, open_replica


@final
class Replicas:
    """The steps by which logs become replicas and cease to be."""

    __slots__ = ("_commit", "_entropy", "_groups")

    def __init__(self, commit: GroupCommit, groups: GroupLogs, entropy: Entropy) -> None:
        self._commit = commit
        self._groups = groups
        self._entropy = entropy

    def plan_for(
        self, plan: RedoPlan | None, found: StreamFile | None, machine_fell: bool
    ) -> RedoPlan | None:
        """The plan for opening a replica, by the plan and the stream file of a stream; None if the
        stream is not replicated."""
        if plan is not None and plan.redo.is_replica:
            return replace(plan, gap=self._gap_behind(plan.redo.point, plan.identity))
        if found is None or found.identity not in self._groups:
            return None
        return RedoPlan(found.identity, Redo(None, is_replica=True), machine_fell=machine_fell)

    def _gap_behind(self, point: RedoPoint | None, identity: bytes) -> str:
        """The reason why the group cannot bring a replica from its redo point to the end; empty if
        it can, or there is no group."""
        if point is None or identity not in self._groups:
            return ""
        group = self._groups[identity]
        if point.entry > group.last_index:
            return "its files hold entries that its group does not have"
        if point.entry < group.snapshot.index:
            return "its group has given up entries behind its redo point"
        return ""

    def add(self, name: str, log: FileLog, applied_entry: int) -> None:
        """Make a log that is on the disk a replica, durably. Raises StoreError."""
        try:
            self._commit.add_replica(name, log, applied_entry)
            self._commit.secure_frames()
        except OSError as error:
            log.go_offline(f"the write-ahead file failed: {error}")
            raise StoreError(f"the stream {name} cannot join its group: {error}") from error

    def add_opened(self, name: str, log: FileLog, point: RedoPoint | None) -> None:
        """Have a replica that was opened at its redo point, or must be filled again."""
        if log.must_refill or point is None:
            self._commit.hold_replica(name, log, VOID_POINT)
        elif log.offline:
            self._commit.hold_replica(name, log, point)
        else:
            with suppress(StoreError):
                # The log is offline then, and reports it itself.
                self._commit.add_replica(name, log, point.entry, point)

    def join(self, name: str, log: FileLog, applied_entry: int) -> None:
        """Make a stream of this server only replicated. Raises StoreError."""
        check(log.identity not in self._groups, "a stream joins before its group is created")
        check(not log.is_replica, "a stream joins one group")
        check(log.applied_entry >= log.durability.added_entry, "all entries are applied")
        self._leave_write_ahead(name, log)
        self.add(name, log, applied_entry)

    def leave(self, name: str, log: FileLog) -> None:
        """Make a replicated stream one of this server only. Raises StoreError."""
        check(log.identity not in self._groups, "a stream leaves when its group is gone")
        check(log.is_replica and not log.must_refill, "a sound replica leaves its group")
        self._leave_write_ahead(name, log)

    def _leave_write_ahead(self, name: str, log: FileLog) -> None:
        """Make all of a stream durable in its files, and have nothing of it elsewhere."""
        log.write_journal()
        try:
            log.durability.leave_write_ahead()
        except OSError as error:
            raise StoreError(f"the stream {name} cannot change its group: {error}") from error
        self._commit.remove_stream(name, log)

    def cut_back(
        self, name: str, log: FileLog, files: FileSystem, folder: str, segment_bytes_max: int
    ) -> FileLog:
        """Open a replica's log again as it was after the last entry that was marked: what follows
        is not to stay. It is offline if that is not possible. Raises StoreError."""
        check(log.is_replica, "only the log of a replica is cut back")
        point = log.durability.redo.applied
        log.release()
        plan = RedoPlan(log.identity, Redo(point, is_replica=True))
        again = open_replica(files, folder, self._entropy, plan, segment_bytes_max)
        if again.offline:
            self._commit.hold_replica(name, again, log.durability.redo.named)
        else:
            self.add(name, again, point.entry)
        return again

    def begin_refill(
        self,
        name: str,
        log: FileLog,
        files: FileSystem,
        folder: str,
        segment_bytes_max: int,
        first_sequence: int,
    ) -> FileLog:
        """Put an empty log in the place of a replica's. Raises StoreError."""
        check(log.is_replica, "only a replica has peers to be filled from")
        try:
            self._commit.void_replica(log)
            empty = begin_again(
                files, folder, self._entropy, log, first_sequence, segment_bytes_max
            )
        except OSError as error:
            log.must_refill = log.must_refill or "it was being filled again"
            log.go_offline(f"the replica cannot be filled again: {error}")
            raise StoreError(f"the stream {name} cannot be filled again: {error}") from error
        self.add(name, empty, 0)
        return empty


# --- replicas that are filled further -----------------------------------------------------------


def resume_refill(log: FileLog) -> None:
    """Have a replica be filled further from another one, with all its messages and without entries
    of its caller. A crash before an entry is applied leaves it so. Raises StoreError."""
    check(log.is_replica and not log.must_refill, "a sound replica is filled further")
    if log.journal_rewrites.is_running:
        raise StoreError("the journal of the replica is being rewritten")
    log.write_journal()
    log.is_partial = True
    try:
        log.durability.begin_partial()
    except OSError as error:
        raise log.availability.failed("sync", error) from error
    log.journal_rewrites.rewrite_now([])


def keep_partial(log: FileLog) -> None:
    """Have a crash keep what has come of a snapshot, as far as it is on the disk by then. Raises
    StoreError."""
    log.write_journal()
    log.is_partial = True
    log.applied_entry = 0
