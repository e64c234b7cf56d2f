"""Groups whose leaders act on entries before the quorum has them, as their state machines see it.

A machine that leads asks up to which place it may act, whenever the log of this server has been
written (`vouched`). The core has the rules by which a successor learns of it
(`headwater.raft.leader_lease`).
"""

from collections.abc import Callable
from typing import final

from headwater.base.clock import Clock
from headwater.server.cluster.consensus.groups import Groups, Portion


@final
class AheadGroups:
    """The groups of a server that run ahead of their quorums."""

    __slots__ = ("_clock", "_groups", "_plan_turn", "_written")

    def __init__(self, groups: Groups, clock: Clock, plan_turn: Callable[[], object]) -> None:
        self._groups = groups
        self._clock = clock
        self._plan_turn = plan_turn
        # The functions to be called when entries of a group are written.
        self._written: dict[bytes, Callable[[], object]] = {}

    def run_ahead(self, identity: bytes, written: Callable[[], object] | None) -> None:
        """Have leaders of a group act on entries that this server has written, and `written` called
        then; None for leaders that wait for the quorum."""
        if written is None:
            self._written.pop(identity, None)
        else:
            self._written[identity] = written
        self.joined(identity)

    def joined(self, identity: bytes) -> None:
        """Have a group that this server has joined again run ahead as before."""
        node = self._groups.node(identity)
        if node is not None:
            node.run_ahead(identity in self._written)

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
        """Have the members of a group elect its leader anew."""
        self._groups.resign_from(identity, self._clock.monotonic_ns())
        self._plan_turn()

    def written(self, portion: Portion) -> None:
        """Note that the writes of a portion are done."""
        for identity, ready in portion.writes:
            if ready.entries and (written := self._written.get(identity)) is not None:
                written()
