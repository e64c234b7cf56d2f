"""The consensus core on the group logs of the store, which do not know each other.

A driver that takes a `Portion` saves its writes with `GroupWrites`, commits the store, and reports
the portions that are written:

    writes.save(portion)           behind `Groups.take`
    store.group_commit.begin()     one write for all groups, then a sync if it asks for one
    writes.take_written()          portions for `Groups.written`, in the order of saving

A member that starts with `GroupLog.may_have_forgotten` is given to the core with `has_forgotten`:
the core draws a recovery number, which the first hard state that it saves takes to the disk. From
then on the number stands for the doubt, and a crash before that finds the doubt again.
"""

from collections import deque
from typing import final

from headwater.raft import membership as memberships
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.lease import UNTOLD_LEASE_NS
from headwater.raft.membership import UNKNOWN, Membership
from headwater.raft.ready import Ready
from headwater.raft.storage import HardState, SavedState, Snapshot, blank, reborn
from headwater.server.cluster.consensus.groups import Portion
from headwater.server.cluster.consensus.machine import GroupMachine
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.groups.group_log import GroupLog, SaveTicket
from headwater.store.groups.group_logs import GroupLogs


@final
class GroupStorage:
    """The entries of one group, as the core reads them back."""

    __slots__ = ("_log",)

    def __init__(self, log: GroupLog) -> None:
        self._log = log

    def entries(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        """Entries of a range; see `headwater.raft.storage.Storage`. Raises StoreError."""
        return [
            Entry(
                each.term,
                each.index,
                EntryKind(each.kind),
                each.data,
                each.created_ns,
                each.lease_ns,
            )
            for each in self._log.entries(first, last, bytes_max)
        ]


# --- the state of a member -----------------------------------------------------------------------


def create_log(
    logs: GroupLogs,
    identity: bytes,
    mode: GroupMode,
    saved: SavedState,
    *,
    may_have_forgotten: bool = False,
) -> tuple[GroupLog, SaveTicket]:
    """Begin the log of a member that is born, or joins."""
    return logs.create(
        identity,
        mode,
        mark_of(saved.snapshot),
        state_of(saved.hard_state),
        may_have_forgotten=may_have_forgotten,
    )


def saved_state(log: GroupLog, applied: int = 0) -> SavedState:
    """The state with which a member starts again.

    `applied` is the index up to which the files of its state machine have the effects of entries. A
    state machine may be ahead of its log: a crash came between the installation of a snapshot and
    its mark in the log, or the log has damage. The member then begins with nothing, and may
    have forgotten what it confirmed, until its leader has brought it to the end of the log.
    """
    state = log.state
    hard_state = HardState(state.term, state.vote, state.commit, state.recovery)
    mark = log.snapshot
    lease_ns = UNTOLD_LEASE_NS if mark.lease_ns is None else mark.lease_ns
    snapshot = Snapshot(mark.index, mark.term, _decode_membership(mark.membership), lease_ns)
    if applied > log.last_index:
        log.may_have_forgotten = True
        return SavedState(hard_state, blank().snapshot, 0, 0)
    return SavedState(hard_state, snapshot, log.last_index, max(applied, snapshot.index))


def reopened(
    log: GroupLog, mode: GroupMode, first: SavedState | None, machine: GroupMachine
) -> tuple[SavedState, bool]:
    """The state with which a member of a stream's group starts again, and whether it may have
    forgotten a part. `first` is the state of the first members, if this server is one of them."""
    # A state that counts for nothing is like one that no entry of the log has led to.
    applied = log.last_index + 1 if machine.must_refill else machine.applied_index
    saved = saved_state(log, applied)
    has_forgotten = log.may_have_forgotten
    if mode is GroupMode.MEMORY and first is not None:
        saved = restarted_in_memory(log, saved, first.snapshot.membership)
    return saved, has_forgotten


def restarted_in_memory(log: GroupLog, saved: SavedState, membership: Membership) -> SavedState:
    """The state of a first member whose entries were in memory: it begins at the birth again, and
    so does its log."""
    found = reborn(saved, membership)
    log.save(snapshot=mark_of(found.snapshot))
    return found


def mark_of(snapshot: Snapshot) -> SnapshotMark:
    """The snapshot mark that a log has for the place of a snapshot."""
    membership = snapshot.membership
    encoded = b"" if membership == UNKNOWN else memberships.encode(membership)
    return SnapshotMark(snapshot.index, snapshot.term, encoded, snapshot.lease_ns)


def state_of(hard_state: HardState) -> GroupState:
    """The hard state as a log has it."""
    return GroupState(hard_state.term, hard_state.vote, hard_state.commit, hard_state.recovery)


def _decode_membership(data: bytes) -> Membership:
    return memberships.decode(data) if data else UNKNOWN


# --- writes --------------------------------------------------------------------------------------


def save_ready(log: GroupLog, ready: Ready) -> SaveTicket:
    """Keep the writes of one member for the next write of the store."""
    return log.save(
        snapshot=None if ready.snapshot is None else mark_of(ready.snapshot),
        state=None if ready.hard_state is None else state_of(ready.hard_state),
        entries=[
            GroupEntry(each.index, each.term, each.kind, each.created_ns, each.lease_ns, each.data)
            for each in ready.entries
        ],
        must_sync=ready.must_sync,
    )


@final
class GroupWrites:
    """The portions of work whose writes are not finished, in order."""

    __slots__ = ("_logs", "_waiting")

    def __init__(self, logs: GroupLogs) -> None:
        self._logs = logs
        self._waiting: deque[tuple[Portion, list[SaveTicket]]] = deque()

    def save(self, portion: Portion) -> None:
        """Keep the writes of all groups of a turn for the next write of the store."""
        tickets = [
            save_ready(self._logs[identity], ready)
            for identity, ready in portion.writes
            if identity in self._logs
        ]
        self._waiting.append((portion, tickets))

    def take_written(self) -> list[Portion]:
        """The portions whose replies may leave, in the order of saving."""
        covers = self._logs.numbers.covers
        found: list[Portion] = []
        while self._waiting and all(map(covers, self._waiting[0][1])):
            found.append(self._waiting.popleft()[0])
        return found
