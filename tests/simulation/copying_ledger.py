"""The messages that an origin has had in a run, and those that an operator may have removed.

The ledger is told the contents of origins and mirrors many times in a run. A message that was seen
at an origin and that nobody has asked to remove has to be in each mirror that has come past its
sequence; and a mirror never has another message under a sequence of its origin.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field


class BrokenCopy(AssertionError):
    """A copy is not what its origin says."""


@dataclass(frozen=True)
class Message:
    """A stored message."""

    sequence: int
    subject: str
    header: bytes
    body: str
    timestamp_ns: int


@dataclass
class OriginLedger:
    """The history of one origin."""

    # Whether the origin may lose messages that it has had, with its power.
    is_lossy: bool = False
    seen: dict[int, Message] = field(default_factory=dict)
    present: set[int] = field(default_factory=set)
    # Sequences that somebody has asked to delete, and the last one that a purge may have removed.
    deleted: set[int] = field(default_factory=set)
    purged: int = 0
    # The number of purges that were not answered: they may still come.
    purges_under_way: int = 0

    def note(self, contents: Iterable[Message]) -> None:
        """Note what the origin has now. Raises BrokenCopy if it has given a sequence twice."""
        self.present = set()
        for message in contents:
            self.present.add(message.sequence)
            before = self.seen.setdefault(message.sequence, message)
            if before != message:
                raise BrokenCopy(f"the origin has {message}, and had {before}")

    def may_lack(self, sequence: int) -> bool:
        """Whether a mirror may lack a message that the origin has had."""
        if self.is_lossy and sequence not in self.present:
            return True
        is_deleted = sequence in self.deleted or sequence <= self.purged
        return is_deleted or self.purges_under_way > 0

    def begin_purge(self) -> None:
        """Note a request to purge the origin."""
        self.purges_under_way += 1

    def end_purge(self) -> None:
        """Note its answer, when the ledger was told what the origin has now."""
        self.purges_under_way -= 1
        self.purged = max([self.purged, *self.seen])

    # --- mirrors -------------------------------------------------------------------------------

    def check_contents(self, name: str, found: Iterable[Message]) -> None:
        """Raises BrokenCopy if a mirror has another message than the origin has had."""
        for message in found:
            if self.seen.get(message.sequence, message) != message:
                raise BrokenCopy(f"{name} has {message} for {self.seen[message.sequence]}")

    def check_progress(
        self, name: str, subjects: Iterable[str], sequences: Iterable[int], last: int
    ) -> None:
        """Raises BrokenCopy if a mirror has come past a message that it does not have."""
        there, wanted = {*sequences}, {*subjects}
        for sequence, message in self.seen.items():
            if sequence > last or sequence in there or self.may_lack(sequence):
                continue
            if message.subject in wanted:
                raise BrokenCopy(f"{name} is at {last} and lacks {message}")
