"""Linearizable reads on one server: leases renewed on one tick, or rounds of confirmation.

The streams whose level of reads is not `default` have linearizable reads. By default their leaders
hold leases (`headwater.raft.lease`): the entries of such a group grant one, and all groups of a
server that have not renewed theirs do so on one shared tick per half lease. So a server has one
message for each other server and one write per tick, however many groups are idle; without such
groups there is no tick.

With `linearizable_reads: quorum` entries grant nothing, and the leader asks its quorum before it
reads: one round for all reads of a turn (`headwater.raft.read_rounds`). A read that is not
confirmed within an election timeout is refused.

The clock is read after the state was: a process may be paused between the two.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, final

from headwater.base.clock import NS_PER_S, Clock
from headwater.raft.leader_lease import RENEWALS_PER_LEASE
from headwater.server.cluster.consensus.groups import Groups

WAITING_MAX: Final = 10_000
"""The reads of a server that may wait for rounds. More of them are refused at once."""

_NOT_BEGUN: Final = 0


class ReadSettings(NamedTuple):
    """The ways in which leaders make sure that they lead."""

    lease_ns: int = NS_PER_S
    uses_rounds: bool = False
    round_ns_max: int = NS_PER_S
    """A read waits so long for its round."""


@final
class _Waiting:
    """A read that waits for a round of its group."""

    __slots__ = ("answer", "deadline_ns", "number", "term")

    def __init__(self, answer: Callable[[bool], object], deadline_ns: int) -> None:
        self.answer = answer
        self.deadline_ns = deadline_ns
        self.number = _NOT_BEGUN
        self.term = 0


@final
class LeaderReads:
    """The linearizable reads of all groups of a server."""

    __slots__ = (
        "_clock",
        "_count",
        "_groups",
        "_leased",
        "_plan_turn",
        "_renewal_ns",
        "_settings",
        "_waiting",
    )

    def __init__(
        self,
        groups: Groups,
        clock: Clock,
        settings: ReadSettings,
        plan_turn: Callable[[], object],
    ) -> None:
        self._groups = groups
        self._clock = clock
        self._settings = settings
        self._plan_turn = plan_turn
        # The groups of this server whose entries grant leases.
        self._leased: dict[bytes, None] = {}
        # The time of the next tick.
        self._renewal_ns = 0
        # Reads that wait for rounds, in the order in which they came.
        self._waiting: dict[bytes, deque[_Waiting]] = {}
        self._count = 0

    # --- leases ---------------------------------------------------------------------------------

    def grant(self, identity: bytes, is_leased: bool) -> None:
        """Have later entries of a group grant leases, or none. Its leader renews at once."""
        if self._settings.uses_rounds:
            return
        self._groups.grant_leases(identity, self._settings.lease_ns if is_leased else 0)
        if not is_leased:
            self._leased.pop(identity, None)
            return
        self._leased[identity] = None
        self._groups.renew(identity, self._clock.monotonic_ns())
        self._plan_turn()

    def joined(self, identity: bytes) -> None:
        """Have a group that this server has joined again grant leases as before."""
        if identity in self._leased:
            self.grant(identity, True)

    def tick(self, now_ns: int) -> None:
        """Renew all leases that need it, if it is time; and refuse reads that waited for long."""
        if self._leased and now_ns >= self._renewal_ns:
            self._renewal_ns = now_ns + self._settings.lease_ns // RENEWALS_PER_LEASE
            for identity in [*self._leased]:
                if self._groups.node(identity) is None:
                    del self._leased[identity]
                else:
                    self._groups.renew(identity, now_ns)
        for identity, waiting in self._waiting.items():
            if waiting and waiting[-1].number == _NOT_BEGUN:
                self._begin_round(identity, waiting)

    @property
    def deadline_ns(self) -> int | None:
        """The time of the next tick that has something to do, or None."""
        times = [waiting[0].deadline_ns for waiting in self._waiting.values() if waiting]
        if self._leased:
            times.append(self._renewal_ns)
        return min(times, default=None)

    # --- reads ----------------------------------------------------------------------------------

    @property
    def uses_rounds(self) -> bool:
        """Whether the quorum is asked before a read, so that it cannot be made at once."""
        return self._settings.uses_rounds

    def may_begin(self, identity: bytes) -> bool:
        """Whether a linearizable read of a group may be answered here, as far as is known now."""
        node = self._groups.node(identity)
        if node is None:
            return False
        if self._settings.uses_rounds:
            return node.is_ready and node.has_quorum
        return node.may_read(self._clock.monotonic_ns())

    def when_confirmed(self, identity: bytes, answer: Callable[[bool], object]) -> None:
        """Call `answer` when a read that came before this call may be made, or is refused.

        With leases the read is made at once, and confirmed by `holds` behind it.
        """
        if not self._settings.uses_rounds:
            answer(True)
        elif self._count >= WAITING_MAX or not self.may_begin(identity):
            answer(False)
        else:
            deadline_ns = self._clock.monotonic_ns() + self._settings.round_ns_max
            self._waiting.setdefault(identity, deque()).append(_Waiting(answer, deadline_ns))
            self._count += 1
            self._plan_turn()

    def holds(self, identity: bytes) -> bool:
        """Whether a read that was made is linearizable. Called after its bytes were read.

        A read behind its round is: the state of a leader only goes forward.
        """
        node = self._groups.node(identity)
        if node is None:
            return False
        if self._settings.uses_rounds:
            return node.is_ready
        return node.may_read(self._clock.monotonic_ns())

    def _begin_round(self, identity: bytes, waiting: deque[_Waiting]) -> None:
        """Begin one round for all reads that came since the last one."""
        number = self._groups.begin_read_round(identity)
        node = self._groups.node(identity)
        if number is None or node is None:
            # Too many rounds are on their way, or the leader is none any more: `serve` finds out.
            return
        for read in reversed(waiting):
            if read.number != _NOT_BEGUN:
                break
            read.number, read.term = number, node.term

    def serve(self, now_ns: int) -> None:
        """Make the reads whose rounds are confirmed, and refuse those that wait in vain."""
        for identity in [*self._waiting]:
            waiting = self._waiting[identity]
            node = self._groups.node(identity)
            is_ready = node is not None and node.is_ready
            confirmed = 0 if node is None else node.confirmed_read_round
            term = 0 if node is None else node.term
            while waiting:
                read = waiting[0]
                is_begun = read.number != _NOT_BEGUN
                is_confirmed = is_ready and is_begun and read.term == term
                is_confirmed = is_confirmed and read.number <= confirmed
                is_vain = not is_ready or (is_begun and read.term != term)
                if not (is_confirmed or is_vain or read.deadline_ns <= now_ns):
                    break
                waiting.popleft()
                self._count -= 1
                read.answer(is_confirmed)
            if not waiting:
                del self._waiting[identity]
