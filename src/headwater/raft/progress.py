"""The leader's view of one follower's log.

PROBE ──confirmed──▶ REPLICATE        PROBE: the end of the follower's log is not known. One append
  ▲ ▲                   │             is on its way at a time; a refusal moves `next` back.
  │ └──refused, resend──┘             REPLICATE: appends follow each other without waiting, as many
  │                                   as the window holds; `next` runs ahead of `match`.
confirmed, resend                     SNAPSHOT: the entries that it lacks are trimmed. Nothing is
  │                                   sent until the snapshot is confirmed.
SNAPSHOT ◀── next is trimmed ── PROBE or REPLICATE

match < next        match: confirmed, never taken back in a term except for a member that forgot
"""

from collections import deque
from enum import Enum
from typing import final

from headwater.base.invariants import check
from headwater.raft.config import RaftConfig
from headwater.raft.storage import TRUSTED


class Phase(Enum):
    """The way in which a follower is sent entries."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


@final
class Progress:
    """The log of a follower, as far as its leader knows."""

    __slots__ = (
        "_window",
        "_window_bytes",
        "commit_known",
        "commit_sent",
        "is_probe_sent",
        "is_readmission_sent",
        "is_unanswered",
        "match",
        "next",
        "phase",
        "readmit_index",
        "recovery",
        "resend_ns",
    )

    def __init__(self, next_index: int) -> None:
        self.phase = Phase.PROBE
        self.match = 0
        self.next = next_index
        self.commit_sent = 0
        self.commit_known = 0
        """The commit index that the follower has confirmed to know."""
        self.is_probe_sent = False
        self.resend_ns = 0
        self.recovery = TRUSTED
        """The recovery number of a follower that has forgotten; it counts for no majority."""
        self.readmit_index = 0
        """The entry that it needs then, and that must be committed without its help."""
        self.is_readmission_sent = False
        self.is_unanswered = False
        """Whether the follower is asked once more for the end of its log, without entries."""
        self._window: deque[tuple[int, int]] = deque()
        self._window_bytes = 0

    def may_send(self, config: RaftConfig) -> bool:
        """Whether another append may be sent now."""
        if self.is_unanswered and self.phase is not Phase.SNAPSHOT:
            return True
        if self.phase is Phase.REPLICATE:
            return (
                len(self._window) < config.window_messages_max
                and self._window_bytes < config.window_bytes_max
            )
        return self.phase is Phase.PROBE and not self.is_probe_sent

    def sent(self, last_index: int, size: int, commit: int) -> None:
        """Note an append that is on its way, with entries up to `last_index`."""
        self.commit_sent = commit
        self.is_unanswered = False
        if self.phase is Phase.REPLICATE:
            self.next = last_index + 1
            if size:
                self._window.append((last_index, size))
                self._window_bytes += size
        else:
            self.is_probe_sent = True

    def sent_snapshot(self, index: int) -> None:
        """Note a snapshot that is on its way."""
        self.phase = Phase.SNAPSHOT
        self.next = index + 1
        self._empty_window()

    def confirm(self, match: int, commit: int, first_index: int) -> None:
        """Note a confirmation.

        `first_index` is the first entry that the leader still has.
        """
        self.commit_known = max(self.commit_known, commit)
        if match < self.match:
            return
        self.match = match
        if self.phase is Phase.REPLICATE:
            while self._window and self._window[0][0] <= match:
                self._window_bytes -= self._window.popleft()[1]
            self.next = max(self.next, match + 1)
        elif self.phase is Phase.PROBE or match + 1 >= first_index:
            self.phase = Phase.REPLICATE
            self.is_probe_sent = False
            self.next = match + 1

    def refuse(self, prev_index: int, hint_index: int) -> None:
        """Note that the follower lacks an entry.

        A refusal that was overtaken by a confirmation, or by another refusal, is of no use, and
        none of an append that was not sent is.
        """
        if self.phase is Phase.SNAPSHOT or not self.match < prev_index < self.next:
            return
        if self.phase is Phase.PROBE and prev_index != self.next - 1:
            return
        self.probe()
        self.next = max(min(prev_index, hint_index + 1), self.match + 1)
        check(self.next > self.match, "a confirmed entry is not sent again")

    def probe(self) -> None:
        """Ask again for the end of the follower's log: messages may be lost."""
        if self.phase is Phase.REPLICATE:
            self.next = self.match + 1
        self.phase = Phase.PROBE
        self.is_probe_sent = self.is_unanswered = False
        self.is_readmission_sent = False
        self.commit_sent = self.commit_known
        self._empty_window()

    def ask(self) -> None:
        """Ask once more for the end of the follower's log, behind all that was sent.

        The entries may still be on their way over a slow link: an answer shows which of them are
        lost, and only these are sent again. A snapshot is sent again itself.
        """
        if self.phase is Phase.SNAPSHOT:
            self.probe()
            return
        self.is_unanswered = True
        self.is_readmission_sent = False
        self.commit_sent = self.commit_known

    def ask_at(self, index: int) -> None:
        """Ask at an index for the end of the follower's log, when the time to ask again comes."""
        self.probe()
        self.next = index + 1
        self.is_probe_sent = True

    def forget(self, recovery: int) -> None:
        """Note that the follower has forgotten what it had confirmed, or that it is whole again.

        Reports of a member that has forgotten are no confirmations, and a confirmation of the time
        before may be late: neither vouches for the other.
        """
        self.recovery = recovery
        self.readmit_index = 0
        self.is_readmission_sent = False
        self.match = 0
        self.commit_known = 0

    def _empty_window(self) -> None:
        self._window.clear()
        self._window_bytes = 0
