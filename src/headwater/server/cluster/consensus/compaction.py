"""Groups give up entries: those of a long log, and those in old write-ahead files.

All groups and streams of a server share its write-ahead files, which go oldest first. A group that
keeps entries in an old file keeps that file, and all behind it. Whenever the store has begun a
file, each group gives up its entries in the files before it, as far as two others allow it:

- its state machine, whose effects of the entries must be durable elsewhere. A machine that needs
  time for that lets them go with the next file;
- live members that do not have the entries yet and would need a snapshot. They are waited for, for
  some files only: a member that is alive and gets nowhere must not fill the disk.
"""

from collections.abc import Mapping
from typing import Final, final

from headwater.raft.membership import encode
from headwater.raft.node import RaftNode
from headwater.server.cluster.consensus.groups import Groups
from headwater.server.cluster.consensus.machine import GroupMachine
from headwater.store.groups.group_log import GroupLog
from headwater.store.groups.group_logs import GroupLogs

FILES_FOR_PEERS_MAX: Final = 4
"""Old files that are kept for live members which need their entries: 256 MiB."""


LOG_ENTRIES_MAX: Final = 1_000
"""A group gives up entries beyond this number, as far as the effects of entries are durable."""

BYTES_FOR_PEERS_MAX: Final = 16 * 1024 * 1024
"""Bytes of a long log that is kept for live members which need its entries: as many as the core
keeps in memory, so that sending them reads no file. A server that was away for a moment gets its
entries; one that lacks more gets the messages that it lacks by a snapshot, which is as fast."""


@final
class Compaction:
    """Gives up entries of the groups that hold old files, once for each file that is begun."""

    __slots__ = ("_file", "_logs")

    def __init__(self, logs: GroupLogs) -> None:
        self._logs = logs
        # The file that was the present one when groups were last compacted.
        self._file = logs.file_number

    def compact(self, groups: Groups, machines: Mapping[bytes, GroupMachine]) -> None:
        """Compact groups that hold files, if the store has begun another one."""
        number = self._logs.file_number
        if number == self._file:
            return
        self._file = number
        for log in self._logs.holding_files():
            node, machine = groups.node(log.identity), machines.get(log.identity)
            if node is not None and machine is not None:
                machine.make_durable()
                self._give_up(log, node, min(machine.durable_index, node.log.applied))

    def _give_up(self, log: GroupLog, node: RaftNode, durable: int) -> None:
        last = log.last_index_before(self._file)
        too_old = log.last_index_before(self._file - FILES_FOR_PEERS_MAX)
        _compact_to(log, node, min(durable, max(too_old, min(last, node.replicated))))


def compact_grown(log: GroupLog, node: RaftNode, machine: GroupMachine) -> None:
    """Give up old entries of a log that has grown."""
    if node.log.applied - log.snapshot.index > LOG_ENTRIES_MAX:
        machine.make_durable()
        index = min(machine.durable_index, node.log.applied - LOG_ENTRIES_MAX // 2)
        if log.byte_count <= BYTES_FOR_PEERS_MAX:
            index = min(index, node.replicated)
        _compact_to(log, node, index)


def _compact_to(log: GroupLog, node: RaftNode, index: int) -> None:
    if index > log.snapshot.index:
        snapshot = node.trim(index)
        log.compact(snapshot.index, encode(snapshot.membership), snapshot.lease_ns)
