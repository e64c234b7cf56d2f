"""Groups whose leaders act on entries before the quorum has them, as their state machines see it.

A machine that leads asks up to which place it may act, whenever the log of this server has been
written (`vouched`). The core has the rules by which a successor learns of it
(`headwater.raft.leader_lease`).
"""

from collections.abc import Callable
from typing import Protocol, final

from headwater.base.clock import Clock
from headwater.server.cluster.consensus.groups import Groups, Portion
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupEntry
from headwater.store.groups.group_log import GroupLog
from headwater.store.groups.group_logs import GroupLogs

# Entries that are cut off are read so many bytes at a time.
_READ_BYTES_MAX = 64 * 1024 * 1024


class AheadMachine(Protocol):
    """The state machine of a group that runs ahead."""

    def written(self) -> None:
        """Act on what the log of this server has."""
        ...

    def entries_lost(self, entries: list[GroupEntry]) -> None:
        """Note entries that are about to be cut off from the log."""
        ...


@final
class AheadGroups:
    """The groups of a server that run ahead of their quorums."""

    __slots__ = ("_clock", "_groups", "_logs", "_machines", "_plan_turn")

    def __init__(
        self, groups: Groups, logs: GroupLogs, clock: Clock, plan_turn: Callable[[], object]
    ) -> None:
        self._groups = groups
        self._logs = logs
        self._clock = clock
        self._plan_turn = plan_turn
        self._machines: dict[bytes, AheadMachine] = {}

    def run_ahead(self, identity: bytes, machine: AheadMachine | None) -> None:
        """Have leaders of a group act on entries that this server has written; None for leaders
        that wait for the quorum."""
        if machine is None:
            self._machines.pop(identity, None)
        else:
            self._machines[identity] = machine
        self.joined(identity)

    def joined(self, identity: bytes) -> None:
        """Have a group that this server has joined again run ahead as before."""
        node = self._groups.node(identity)
        if node is not None:
            node.run_ahead(identity in self._machines)

    def be_sure_of_sequences(self, identity: bytes) -> None:
        """Note that the leader of a group has passed over all sequences that leaders before it may
        have given out."""
        node = self._groups.node(identity)
        if node is not None:
            node.be_sure_of_sequences()

    def follows_release(self, identity: bytes) -> bool:
        """Whether this server leads a group with all that leaders before it have acted on."""
        node = self._groups.node(identity)
        return node is not None and node.follows_release

    def vouched(self, identity: bytes) -> int:
        """The place up to which this server may act on the log of a group that it leads."""
        node = self._groups.node(identity)
        return 0 if node is None else node.vouched

    def has_quorum(self, identity: bytes) -> bool:
        """Whether this server leads a group and hears enough of its members to commit."""
        node = self._groups.node(identity)
        return node is not None and node.has_quorum

    def disown(self, identity: bytes, first: int) -> None:
        """Have the entries from an index on withdrawn if this server leads the group again."""
        node = self._groups.node(identity)
        if node is not None:
            node.disown(first)

    def resign(self, identity: bytes) -> None:
        """Have the members of a group elect its leader again."""
        self._groups.resign_from(identity, self._clock.monotonic_ns())
        self._plan_turn()

    def written(self, portion: Portion) -> None:
        """Note that the writes of a portion are done."""
        for identity, ready in portion.writes:
            if ready.entries and (machine := self._machines.get(identity)) is not None:
                machine.written()

    def save(self, portion: Portion) -> None:
        """Note that the writes of a portion are about to be done: entries and snapshots that
        replace others cut off what a leader before may have acted on."""
        for identity, ready in portion.writes:
            machine = self._machines.get(identity)
            if machine is None or identity not in self._logs:
                continue
            log = self._logs[identity]
            first = ready.entries[0].index if ready.entries else log.last_index + 1
            if ready.snapshot is not None:
                first = log.state.commit + 1
            first = max(first, log.snapshot.index + 1)
            if first <= log.last_index and (lost := _entries_from(log, first)):
                machine.entries_lost(lost)


def _entries_from(log: GroupLog, first: int) -> list[GroupEntry]:
    """The entries of a log from one on; those that cannot be read are left out."""
    found: list[GroupEntry] = []
    while first <= log.last_index:
        try:
            found += log.entries(first, log.last_index, _READ_BYTES_MAX)
        except StoreError:
            break
        first = found[-1].index + 1
    return found
