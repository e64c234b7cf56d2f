"""The work that a member wants done, and the order in which it must be done.

    ready = node.ready(now)     take a portion; more may be taken before it is finished
    send ready.messages         at once; a leader's appends travel while its own disk writes
    apply ready.committed       at once; all of it is on this disk already
    write the rest              snapshot, hard state and entries: one record, behind earlier ones
    send ready.replies          after that write
    node.written(ready, now)    after that write, in the order in which portions were taken
    node.applied_to(index)      whenever the state machine has applied more

After a crash the disk has whole records of the first portions, up to one of them: no record
survives without those before it, and none that a reply rests on is missing.
"""

from typing import final

from headwater.raft.entry import Entry
from headwater.raft.messages import Message
from headwater.raft.storage import HardState, Snapshot


@final
class Ready:
    """One portion of work. Its fields say what may be done with them, and when."""

    __slots__ = (
        "committed",
        "entries",
        "hard_state",
        "messages",
        "must_sync",
        "number",
        "replies",
        "snapshot",
    )

    number: int
    """Counts from 1. Writes are reported in this order."""

    messages: list[Message]
    """Messages that promise nothing and leave at once: appends, snapshots, pre-votes."""

    snapshot: Snapshot | None
    """A snapshot that replaces log and state machine. It must be installed, atomically and durably,
    before the entries of this portion are written."""

    hard_state: HardState | None
    """The hard state to write, if it has changed. A changed commit index alone is not worth a
    write; it rides with the next."""

    must_sync: bool
    """Whether the write has to reach the medium: term, vote or recovery number have changed, or
    entries change the members or take back others. Other entries are synced where the group
    promises it."""

    entries: list[Entry]
    """Entries to write. They are consecutive and replace all that the disk has from the first
    on."""

    replies: list[Message]
    """Messages that rest on the write, and on all earlier ones: votes, requests for votes,
    confirmations, refusals, digests."""

    committed: list[Entry]
    """Entries to apply, each once and in order. They are committed, and written on this disk."""

    def __init__(
        self,
        number: int,
        messages: list[Message],
        snapshot: Snapshot | None,
        hard_state: HardState | None,
        must_sync: bool,
        entries: list[Entry],
        replies: list[Message],
        committed: list[Entry],
    ) -> None:
        self.number = number
        self.messages = messages
        self.snapshot = snapshot
        self.hard_state = hard_state
        self.must_sync = must_sync
        self.entries = entries
        self.replies = replies
        self.committed = committed

    @property
    def has_write(self) -> bool:
        """Whether there is anything to write before the replies."""
        return bool(self.entries) or self.hard_state is not None or self.snapshot is not None
