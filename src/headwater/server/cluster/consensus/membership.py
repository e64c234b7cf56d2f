"""The servers of the meta group: all that keep streams, each admitted once, none dropped by itself.

A server that the leader hears and that is no member joins as a learner. When it has the whole log
it becomes a voter. Changes happen one at a time; the core refuses a second one. A server leaves
only when an operator removes it.
"""

from collections.abc import Callable, Iterable
from typing import final

from headwater.raft.membership import MEMBERS_MAX, Membership, membership_of
from headwater.raft.node import RaftNode


@final
class Admission:
    """The servers that the leader of the meta group admits."""

    __slots__ = ("_removed",)

    def __init__(self) -> None:
        # Servers that an operator has removed, and that have not connected again since.
        self._removed: set[str] = set()

    def remove(self, server: str) -> None:
        """Have a server leave, because an operator says so."""
        self._removed.add(server)

    def connected(self, server: str) -> None:
        """Admit a server again that was removed and has come back."""
        self._removed.discard(server)

    def next_members(self, meta: RaftNode, present: Iterable[str]) -> Membership | None:
        """The next membership of the meta group that this server leads, or None."""

        def has_whole_log(peer: str) -> bool:
            progress = meta.progress_of(peer)
            return progress is not None and progress.match >= meta.log.commit

        return next_membership(meta.membership, present, has_whole_log, frozenset(self._removed))


def next_membership(
    current: Membership,
    present: Iterable[str],
    has_whole_log: Callable[[str], bool],
    removed: frozenset[str] = frozenset(),
) -> Membership | None:
    """The next membership on the way to one with all servers that are present, or None.

    Servers that an operator has removed leave, and are not admitted.
    """
    if current.is_joint:
        return None
    voters = [name for name in current.voters if name not in removed]
    if voters and removed & {*current.members()}:
        return membership_of(voters, (name for name in current.learners if name not in removed))
    here = sorted({*present} - removed)
    for name in here:
        if name in current.learners and has_whole_log(name):
            learners = (each for each in current.learners if each != name)
            return membership_of((*current.voters, name), learners)
    members = current.members()
    for name in here:
        if name not in members and len(members) < MEMBERS_MAX:
            return membership_of(current.voters, (*current.learners, name))
    return None
