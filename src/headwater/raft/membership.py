"""The members of a group, and the steps by which they change.

A membership change that touches voters passes through a joint membership: `voters` are the new
voters and `outgoing` the old ones, and every decision needs a majority of both. So there is no
moment at which two majorities exist that share no member, however many voters are exchanged at
once.

    {a b c}  ──change──▶  {c d e} and {a b c}  ──leave──▶  {c d e}

A membership takes effect when its entry is appended to a log, not when it is committed, and goes
out of effect when the entry is cut off again. Learners receive the log and are counted nowhere. A
voter that is to become a learner is in `outgoing` and in `learners` while the membership is joint.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from headwater.base.errors import PeerError
from headwater.base.invariants import check

MEMBERS_MAX: Final = 64
"""Members of one group. Replicated streams have at most 5; the meta group has all servers."""

NAME_BYTES_MAX: Final = 255
"""A server name is written with a length of one byte."""

_VERSION: Final = 1
_HEAD: Final = Struct("<BBBB")


class MalformedMembership(PeerError):
    """Bytes that are no membership."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The voters, old voters and learners of a group. All three are sorted."""

    voters: tuple[str, ...]
    outgoing: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()

    @property
    def is_joint(self) -> bool:
        """Whether decisions need two majorities."""
        return bool(self.outgoing)

    def is_voter(self, name: str) -> bool:
        """Whether a member is counted, by either majority."""
        return name in self.voters or name in self.outgoing

    def has(self, name: str) -> bool:
        """Whether a server is a member: a voter, an old one or a learner."""
        return name in self.voters or name in self.outgoing or name in self.learners

    def members(self) -> tuple[str, ...]:
        """All members, sorted."""
        return tuple(sorted({*self.voters, *self.outgoing, *self.learners}))

    def electors(self) -> tuple[str, ...]:
        """The members whose votes count, sorted."""
        return tuple(sorted({*self.voters, *self.outgoing}))

    def left(self) -> "Membership":
        """The membership that follows a joint one."""
        return Membership(self.voters, (), self.learners)


UNKNOWN: Final = Membership(())
"""The membership of a member that has been told nothing yet. It never campaigns."""


def membership_of(voters: Iterable[str], learners: Iterable[str] = ()) -> Membership:
    """A membership that is not joint. Raises ProgrammerError if it breaks a rule."""
    result = Membership(tuple(sorted(voters)), (), tuple(sorted(learners)))
    fault = fault_of(result)
    check(not fault, fault)
    return result


def change(current: Membership, target: Membership) -> Membership:
    """The next membership on the way from one that is in force to another."""
    check(not current.is_joint, "a joint membership is left before the next change")
    check(not target.is_joint, "a change names the members that it ends with")
    if current.voters == target.voters:
        return target
    return Membership(target.voters, current.voters, target.learners)


def fault_of(membership: Membership) -> str:
    """The rule that a membership breaks, or an empty text."""
    halves = (membership.voters, membership.outgoing, membership.learners)
    if not membership.voters:
        return "a membership has no voters"
    if any(tuple(sorted(set(half))) != half for half in halves):
        return "members are not sorted, or one is named twice"
    if {*membership.voters} & {*membership.learners}:
        return "a member is voter and learner"
    if len(membership.members()) > MEMBERS_MAX:
        return f"a membership has more than {MEMBERS_MAX} members"
    if any(not 0 < len(name.encode()) <= NAME_BYTES_MAX for name in membership.members()):
        return "a member's name is empty or too long"
    return ""


def encode(membership: Membership) -> bytes:
    """The data of a membership entry: version, three counts, names with their lengths."""
    halves = (membership.voters, membership.outgoing, membership.learners)
    parts = [_HEAD.pack(_VERSION, *map(len, halves))]
    for half in halves:
        for name in half:
            encoded = name.encode()
            parts += (bytes((len(encoded),)), encoded)
    return b"".join(parts)


def decode(data: bytes) -> Membership:
    """The membership in the data of an entry. Raises MalformedMembership."""
    if len(data) < _HEAD.size:
        raise MalformedMembership("membership is too short")
    version, *counts = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise MalformedMembership(f"unknown version {version} of a membership")
    at = _HEAD.size
    halves: list[tuple[str, ...]] = []
    for count in counts:
        names: list[str] = []
        for _ in range(count):
            end = at + 1 + data[at] if at < len(data) else len(data) + 1
            if end > len(data):
                raise MalformedMembership("membership ends within a name")
            try:
                names.append(data[at + 1 : end].decode())
            except UnicodeDecodeError:
                raise MalformedMembership("a member's name is not UTF-8") from None
            at = end
        halves.append(tuple(names))
    if at != len(data):
        raise MalformedMembership("membership has bytes after its end")
    result = Membership(*halves)
    if fault := fault_of(result):
        raise MalformedMembership(fault)
    return result
