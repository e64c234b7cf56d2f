"""Servers that come back with less than they had, many seeds, and with each defence taken out.

Three servers commit entries, of which one of them hears nothing. A server that confirmed the
entries comes back from an earlier state of its disk, or with an empty one, while the third is away:
the two that are left are a majority, and have nothing of the entries.
"""

from collections.abc import Callable

import pytest

from headwater.base.clock import NS_PER_S
from headwater.base.errors import ProgrammerError
from headwater.raft.config import RaftConfig
from headwater.raft.role import RoleName
from headwater.server.cluster.consensus.birth import Birth
from headwater.server.cluster.consensus.groups import Groups, Member
from headwater.server.cluster.consensus.liveness import LivenessSettings
from headwater.server.cluster.consensus.peers import ServerFacts
from headwater.testing import seeds
from headwater.testing.entropy import labelled_rng
from tests.kit.consensus_servers import ConsensusServers

SEEDS = 10
ROUNDS = 3
SEEDS_FOR_PLANTED_BUGS = 5
NAMES = "abc"


class Violation(AssertionError):
    """A promise was broken."""


def demand(holds: bool, promise: str) -> None:
    if not holds:
        raise Violation(promise)


class Returns:
    """Rounds in which a server comes back with less than it had."""

    def __init__(self, seed: int) -> None:
        self.rng = labelled_rng(seed, "returns")
        self.servers = ConsensusServers(NAMES)
        self.leaders: dict[int, str] = {}
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.proposals = 0

    def run(self, *, is_calm: bool = False) -> None:
        """Run all rounds. Raises Violation."""
        self.servers.start()
        self._settle()
        for _ in range(ROUNDS):
            if is_calm:
                self._propose()
                self._pass(1)
            else:
                self._round()
            self._settle()

    def _round(self) -> None:
        rng, servers = self.rng, self.servers
        forgetful, deaf, away = rng.sample(NAMES, 3)
        servers[forgetful].kill()
        earlier = servers[forgetful].disk.clone(rng.randrange(1000))
        servers.start(forgetful)
        self._settle()
        for name in NAMES:
            servers.cut(deaf, name)
        self._pass(3)
        self._propose()
        self._pass(1)
        servers[away].kill()
        if rng.random() < 0.5:
            servers[forgetful].empty()
        else:
            servers[forgetful].kill()
            servers[forgetful].disk = earlier
            servers[forgetful].disk.kill()
        servers.start(forgetful)
        self._pass(5)
        self._propose()
        self._pass(1)
        servers.start(away)

    def _propose(self) -> None:
        """Propose entries to every server that takes itself for the leader."""
        for name in NAMES:
            server = self.servers[name]
            if server.is_running and server.driver.meta_leader == name:
                birth = server.driver.birth
                assert birth is not None
                self.proposals += 1
                batch = [b"%d.%d" % (self.proposals, each) for each in range(3)]
                now_ns = self.servers.clock.monotonic_ns()
                server.driver.groups.propose(birth.identity, batch, now_ns)
                server.driver.committed()

    def _pass(self, seconds: float) -> None:
        """Let time pass, and look at all servers often."""
        for _ in range(round(seconds * 20)):
            self.servers.run(0.05)
            for name in NAMES:
                if self.servers[name].is_running and self.servers[name].driver.meta is not None:
                    self._look_at(name)

    def _look_at(self, name: str) -> None:
        meta = self.servers[name].meta
        if meta.role is RoleName.LEADER:
            leader = self.leaders.setdefault(meta.term, name)
            demand(leader == name, f"election: {leader} and {name} led term {meta.term}")
        log = meta.log
        count = log.commit - log.snapshot.index
        if count > 0:
            for entry in log.entries_from(log.snapshot.index + 1, count, 1 << 20):
                known = self.committed.setdefault(entry.index, (entry.term, entry.data))
                found = entry.term, entry.data
                demand(known == found, f"committed: {known} and {found} at {entry.index}")

    def _settle(self) -> None:
        """Wait until all servers vote and follow one leader with all committed entries."""
        for _ in range(60):
            self._pass(0.5)
            running = [self.servers[name] for name in NAMES]
            metas = [server.driver.meta for server in running]
            commits = {None if meta is None else meta.log.commit for meta in metas}
            is_whole = all(meta is not None and meta.may_vote for meta in metas)
            if is_whole and len(commits) == 1 and self.servers.leaders() < {*NAMES}:
                return
        raise Violation("liveness: the servers do not agree again")


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_majority_that_has_forgotten_a_part_commits_nothing_else(seed: int) -> None:
    story = Returns(seed)
    story.run()
    assert len([data for _, data in story.committed.values() if data]) >= 3 * ROUNDS


# --- a leader that nobody else follows -----------------------------------------------------------


def old_leaders(*, is_calm: bool = False) -> list[str]:
    """The servers that lead half a minute after a leader was lost by the others for a moment.

    The leader is connected to its follower again before it has noticed, and not to the server that
    leads by now.
    """
    settings = RaftConfig(), LivenessSettings(renewal_ns=NS_PER_S)
    servers = ConsensusServers(NAMES, settings=settings)
    servers.start()
    servers.run(5)
    first = servers.leader
    others = [name for name in NAMES if name != first]
    if not is_calm:
        for name in others:
            servers.cut(first, name)
        for name in others:
            servers[name].driver.peer_unreachable(first)
        servers.run(0.8)
        [second] = {servers[name].driver.meta_leader for name in others}
        assert second in others
        servers.connect(first, next(name for name in others if name != second))
    servers.run(30)
    return [name for name in NAMES if servers[name].meta.role is RoleName.LEADER]


def test_a_silent_group_keeps_no_old_leader() -> None:
    assert len(old_leaders()) == 1


# --- each defence taken out ----------------------------------------------------------------------

Defence = Callable[[pytest.MonkeyPatch], None]


def _no_start_number(patch: pytest.MonkeyPatch) -> None:
    def by_store(self: ServerFacts, remembered: ServerFacts) -> bool:
        return remembered.store != self.store

    patch.setattr(ServerFacts, "is_outdated_by", by_store)


def _no_store_identity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Birth, "names", lambda self, name, store: name in dict(self.members))
    patch.setattr(
        ServerFacts,
        "is_outdated_by",
        lambda self, remembered: (
            remembered.store == self.store and remembered.start_number >= self.start_number
        ),
    )


def _no_comparison_on_reconnect(patch: pytest.MonkeyPatch) -> None:
    def without_greeting(self: Groups, member: Member, peer: str, now_ns: int) -> None:
        member.node.peer_alive(peer, now_ns)
        self._changed[member.identity] = member

    patch.setattr(Groups, "_meet", without_greeting)


def is_red(seed: int) -> bool:
    try:
        Returns(seed).run()
    except (Violation, ProgrammerError):
        return True
    return False


@pytest.mark.parametrize("defence", [_no_start_number, _no_store_identity])
def test_without_a_memory_of_servers_committed_entries_are_lost(
    defence: Defence, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence(monkeypatch)
    assert any(is_red(seed) for seed in range(1, SEEDS_FOR_PLANTED_BUGS + 1))


def test_without_a_comparison_a_silent_group_keeps_an_old_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _no_comparison_on_reconnect(monkeypatch)
    assert len(old_leaders()) == 2


@pytest.mark.parametrize(
    "defence", [_no_start_number, _no_store_identity, _no_comparison_on_reconnect]
)
def test_without_a_defence_nothing_shows_while_nothing_fails(
    defence: Defence, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence(monkeypatch)
    story = Returns(1)
    story.run(is_calm=True)
    assert len([data for _, data in story.committed.values() if data]) == 3 * ROUNDS
    assert len(old_leaders(is_calm=True)) == 1
