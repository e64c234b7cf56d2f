"""The settings of a group, the same for all groups of a server."""

from dataclasses import dataclass

from headwater.base.clock import NS_PER_MS, NS_PER_S


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Settings of the consensus core. `fault` names the first rule that they break."""

    election_timeout_ns: int = NS_PER_S
    """The patience of a server: a follower that knows no leader campaigns after once to twice this
    time, a leader without a quorum of live servers resigns after it, a transfer of leadership is
    given up after it, and a leader whose own disk has not finished a write for so long hands over.
    Elections serve availability; no safety rule depends on this value."""

    lost_leader_spread_ns: int = 300 * NS_PER_MS
    """Followers of a server that was lost campaign after a random part of this time. The loss
    itself was decided after a silence of an election timeout, or by a reset connection, so they
    need not be patient again; the spread only keeps them from campaigning at the same moment."""

    resend_ns: int = 2 * NS_PER_S
    """A live server that has left an append unanswered for so long is asked for the end of its log;
    entries that it lacks then are sent again. Links are ordered and report their breaks, so this is
    a safety net and may be slow."""

    commit_delay_ns: int = 0
    """A commit index that no entry carries to the followers waits for so long. Under load the next
    entries carry it, which saves a message, an answer and a turn of each server for every commit;
    followers apply what is committed so much later when entries are rare. Zero tells it at once."""

    snapshot_timeout_ns: int = 60 * NS_PER_S
    """A snapshot that a follower has not confirmed for so long is offered again."""

    append_bytes_max: int = 256 * 1024
    """Entries in one append message, in bytes. One larger entry travels alone. An append is read
    as a whole, so on a slow link small ones have messages of other groups wait less."""

    append_entries_max: int = 1024
    """Entries in one append message."""

    window_messages_max: int = 64
    """Append messages that may be on their way to one follower without an answer."""

    window_bytes_max: int = 8 * 1024 * 1024
    """Bytes of entries that may be on their way to one follower without an answer. The memory that
    a slow follower costs its leader is bounded by it."""

    apply_bytes_max: int = 8 * 1024 * 1024
    """Committed entries that one `Ready` hands out, in bytes; the rest follows in the next."""

    clock_drift: float = 0.05
    """The part by which the clock of a member may be fast or slow: ρ of the rule for leases. A
    clock gains or loses seconds a day; this allows for three seconds a minute."""

    log_memory_bytes_max: int = 16 * 1024 * 1024
    """Entries that a log keeps in memory for peers after they are written and applied. Older ones
    are read back from storage."""

    def fault(self) -> str:
        """The rule that these settings break, or an empty text."""
        for name in self.__slots__:
            if getattr(self, name) <= 0 and name != "commit_delay_ns":
                return f"{name} is not positive"
        if self.commit_delay_ns < 0:
            return "commit_delay_ns is negative"
        if self.clock_drift >= 1:
            return "clock_drift is not less than one"
        if self.lost_leader_spread_ns > self.election_timeout_ns:
            return "lost_leader_spread_ns exceeds election_timeout_ns"
        if self.append_bytes_max > self.window_bytes_max:
            return "append_bytes_max exceeds window_bytes_max"
        return ""
