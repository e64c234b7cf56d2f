"""The state of one member that outlives its roles: term, vote, log, live servers, messages to send.

A role holds a replica and changes it. The replica knows no roles.
"""

from typing import Final, NamedTuple, final

from headwater.base.entropy import Entropy
from headwater.base.invariants import check
from headwater.raft.config import RaftConfig
from headwater.raft.lease import Leases
from headwater.raft.log import RaftLog
from headwater.raft.messages import Message
from headwater.raft.storage import NOBODY, TRUSTED, HardState, SavedState, Storage

CAMPAIGN_SLOTS: Final = 8
"""The parts of the time in which the members of a group campaign. With fewer of them the votes of
more groups travel together, and the members that come first in a membership lead more often."""


class Disowned(NamedTuple):
    """The first of the entries that a leader has disowned, by its place and term."""

    place: int
    term: int


@final
class Replica:
    """One member of one group."""

    __slots__ = (
        "alive",
        "config",
        "disowned",
        "durable_term",
        "durable_vote",
        "entropy",
        "is_contradicted",
        "is_retiring",
        "is_sure_of_sequences",
        "leader",
        "leases",
        "led_term",
        "log",
        "messages",
        "name",
        "recovery",
        "replies",
        "runs_ahead",
        "saved",
        "term",
        "vote",
    )

    def __init__(
        self,
        name: str,
        config: RaftConfig,
        entropy: Entropy,
        storage: Storage,
        saved: SavedState,
        recovery: int,
    ) -> None:
        fault = config.fault()
        check(not fault, fault)
        hard_state = saved.hard_state
        self.name = name
        self.config = config
        self.entropy = entropy
        self.log = RaftLog(storage, saved, config.log_memory_bytes_max)
        self.term = self.durable_term = hard_state.term
        self.vote = self.durable_vote = hard_state.vote
        self.recovery = recovery or hard_state.recovery
        is_whole = hard_state.commit <= saved.last_index
        check(is_whole or self.recovery != TRUSTED, "a member that lost entries has forgotten")
        self.leases = Leases()
        self.leader = NOBODY
        """The leader of this term, if its server is believed to be alive."""
        self.alive: set[str] = set()
        self.saved = hard_state
        """The hard state that was handed out last."""
        self.messages: list[Message] = []
        self.replies: list[Message] = []
        self.led_term = 0
        """The last term in which this member has led, or leads."""
        self.disowned: Disowned | None = None
        """The entries that this member withdraws first if it leads again."""
        self.is_retiring = False
        """Whether this member leads no more, because its server is about to stop."""
        self.is_contradicted = False
        """Whether the leader lacks entries that are committed here."""
        self.runs_ahead = False
        """Whether leaders of the group act on entries before the quorum has them."""
        self.is_sure_of_sequences = False
        """Whether this leader has nothing to fear of what leaders before it have acted on."""

    @property
    def releases_sequences(self) -> bool:
        """Whether a leader that hands over now hands over all that was given out."""
        return self.runs_ahead and self.is_sure_of_sequences

    @property
    def may_campaign(self) -> bool:
        """Whether this member may stand for election: it is a voter, has forgotten nothing, and
        its server is not about to stop.

        A voter that is to leave may have to lead once more, because no other has the entry by which
        it leaves. It then counts the votes of the others alone, and resigns when the entry is
        committed.
        """
        is_able = self.recovery == TRUSTED and not self.is_retiring
        return is_able and self.log.may_be_voter(self.name)

    def enter_term(self, term: int) -> None:
        """Move to a later term, in which this member has not voted."""
        check(term > self.term, "terms only grow")
        self.term = term
        self.vote = NOBODY
        self.leader = NOBODY

    def grant(self, candidate: str) -> None:
        """Give the vote of this term to a candidate."""
        check(self.recovery == TRUSTED, "a member that has forgotten does not vote")
        check(self.vote in (NOBODY, candidate), "a member votes once in a term")
        self.vote = candidate

    @property
    def is_hard_state_new(self) -> bool:
        """Whether term, vote or recovery number differ from those that were handed out."""
        saved = self.saved
        return self.term != saved.term or self.vote != saved.vote or self.recovery != saved.recovery

    def take_hard_state(self, has_write: bool) -> HardState | None:
        """The hard state to write. A new commit index rides with another write.

        The commit index covers only entries that are written already, so that it never reaches the
        disk before them.
        """
        commit = self.log.stable_commit
        if self.is_hard_state_new or (has_write and commit != self.saved.commit):
            self.saved = HardState(self.term, self.vote, commit, self.recovery)
            return self.saved
        return None

    def hard_state_written(self, hard_state: HardState) -> None:
        """Note that a hard state is durable."""
        check(hard_state.term >= self.durable_term, "terms on disk only grow")
        self.durable_term = hard_state.term
        self.durable_vote = hard_state.vote

    def patience_ns(self) -> int:
        """The time after which a member without leader campaigns: one to two election timeouts."""
        timeout_ns = self.config.election_timeout_ns
        return timeout_ns + self.part_of(timeout_ns)

    def part_of(self, spread_ns: int) -> int:
        """A part of a time, after which a member campaigns: one of few, drawn at random.

        Members of many groups that begin to wait in one turn, because their server has lost
        another one, campaign in as few moments as there are parts, so their votes travel together.
        The members of one group have different parts, by their places in its membership: they
        differ by a while even if they draw the same number in the same moment.
        """
        electors = self.log.membership.electors()
        place = electors.index(self.name) if self.name in electors else 0
        slot_ns = spread_ns // CAMPAIGN_SLOTS
        return slot_ns * self.entropy.below(CAMPAIGN_SLOTS) + slot_ns * place // max(
            1, len(electors)
        )
