"""Messages between the members of a group.

Each has a sender, a receiver and a term. The group is added by the layer that carries the messages
of many groups in one frame. There is no heartbeat: a follower learns from the liveness of servers
that its leader is there, and from a `Digest` whether that server still leads the group.
"""

from typing import Final, final

from headwater.base.errors import PeerError
from headwater.raft.entry import Entry
from headwater.raft.storage import TRUSTED, Snapshot

TERM_JUMP_MAX: Final = 1 << 32
"""A message is of a term that is ahead of its receiver's by no more than this. A group that held an
election every tenth of a second, while a member was away, would need 13 years for it. Without the
limit one absurd message would have a group at the last term that can be written, for good: there is
no election behind it."""


class ImpossibleMessage(PeerError):
    """A message that no sound member of the group can have sent."""


class Message:
    """A message. Subclasses list their own fields in `__slots__`."""

    __slots__ = ("sender", "term", "to")

    def __init__(self, sender: str, to: str, term: int) -> None:
        self.sender = sender
        self.to = to
        self.term = term

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = (*Message.__slots__, *self.__slots__)
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = " ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{self.sender}->{self.to} {type(self).__name__}(term={self.term} {fields})"


@final
class PreVote(Message):
    """The question whether a vote would be granted. `term` is the one that the sender would enter.

    Neither side changes its term, so a server that was cut off cannot depose a leader by returning.
    """

    __slots__ = ("last_index", "last_term")

    def __init__(self, sender: str, to: str, term: int, last_index: int, last_term: int) -> None:
        super().__init__(sender, to, term)
        self.last_index = last_index
        self.last_term = last_term


@final
class PreVoteReply(Message):
    """The answer to `PreVote`. `term` is the one asked for if granted, else the voter's own."""

    __slots__ = ("granted",)

    def __init__(self, sender: str, to: str, term: int, granted: bool) -> None:
        super().__init__(sender, to, term)
        self.granted = granted


@final
class Vote(Message):
    """The request for a vote. A forced one is obeyed also by servers that hear a leader.

    Only a candidate that the leader itself has appointed by `CampaignNow` may force votes.
    """

    __slots__ = ("forced", "last_index", "last_term")

    def __init__(
        self, sender: str, to: str, term: int, last_index: int, last_term: int, forced: bool
    ) -> None:
        super().__init__(sender, to, term)
        self.last_index = last_index
        self.last_term = last_term
        self.forced = forced


@final
class VoteReply(Message):
    """A vote. Leaves after it is on disk."""

    __slots__ = ("granted",)

    def __init__(self, sender: str, to: str, term: int, granted: bool) -> None:
        super().__init__(sender, to, term)
        self.granted = granted


@final
class Append(Message):
    """Entries behind `prev_index`, or none; and the commit index of the leader.

    `readmits` is the recovery number of a member that has the whole log again, and else zero.
    """

    __slots__ = ("commit", "entries", "prev_index", "prev_term", "readmits")

    def __init__(
        self,
        sender: str,
        to: str,
        term: int,
        prev_index: int,
        prev_term: int,
        entries: list[Entry],
        commit: int,
        readmits: int = TRUSTED,
    ) -> None:
        super().__init__(sender, to, term)
        self.prev_index = prev_index
        self.prev_term = prev_term
        self.entries = entries
        self.commit = commit
        self.readmits = readmits


@final
class AppendReply(Message):
    """The confirmation that a log equals the leader's up to `match`. Leaves after it is written.

    One reply answers all appends of a turn. With a `recovery` number it only reports the progress
    of a member that may not confirm yet.
    """

    __slots__ = ("commit", "match", "recovery")

    def __init__(
        self, sender: str, to: str, term: int, match: int, commit: int, recovery: int = TRUSTED
    ) -> None:
        super().__init__(sender, to, term)
        self.match = match
        self.commit = commit
        self.recovery = recovery


@final
class AppendReject(Message):
    """The news that a log has no entry `prev_index` of the leader's term there.

    The hint is the last entry at which the logs may agree, as far as the follower can tell.
    """

    __slots__ = ("hint_index", "hint_term", "prev_index", "recovery")

    def __init__(
        self,
        sender: str,
        to: str,
        term: int,
        prev_index: int,
        hint_index: int,
        hint_term: int,
        recovery: int = TRUSTED,
    ) -> None:
        super().__init__(sender, to, term)
        self.prev_index = prev_index
        self.hint_index = hint_index
        self.hint_term = hint_term
        self.recovery = recovery


@final
class InstallSnapshot(Message):
    """The place of a snapshot. Its state travels apart from it and arrives before it is stepped.

    It is answered by an `AppendReply` as soon as the snapshot is durable.
    """

    __slots__ = ("snapshot",)

    def __init__(self, sender: str, to: str, term: int, snapshot: Snapshot) -> None:
        super().__init__(sender, to, term)
        self.snapshot = snapshot


@final
class ReadRound(Message):
    """The question whether the sender still leads, for all reads that arrived before it left."""

    __slots__ = ("number",)

    def __init__(self, sender: str, to: str, term: int, number: int) -> None:
        super().__init__(sender, to, term)
        self.number = number


@final
class ReadRoundReply(Message):
    """The answer that this member has elected no leader of a later term."""

    __slots__ = ("number",)

    def __init__(self, sender: str, to: str, term: int, number: int) -> None:
        super().__init__(sender, to, term)
        self.number = number


@final
class CampaignNow(Message):
    """The appointment of a successor, which has the whole log of the leader."""

    __slots__ = ()


@final
class Digest(Message):
    """The term of a member and the leader that it knows of, or no name.

    Two servers that meet again exchange the digests of their common groups. A leader that resigns
    sends one too. So no silent group keeps a leader that has ceased to lead.
    """

    __slots__ = ("leader",)

    def __init__(self, sender: str, to: str, term: int, leader: str) -> None:
        super().__init__(sender, to, term)
        self.leader = leader
