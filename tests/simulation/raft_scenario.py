"""Runs of a group under random faults, and the profiles that say which faults there are."""

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from typing import Final

from headwater.raft import quorum
from headwater.raft.membership import membership_of
from headwater.raft.node import RaftNode
from tests.simulation.raft_checks import demand
from tests.simulation.raft_cluster import MS, Cluster, Conditions, Server

S: Final = 1_000 * MS
DOUBT_NS: Final = S
"""The time after which members that have forgotten vote, if those who remember are no quorum. It is
ten times the election timeout of real servers, and three times that of these."""


@dataclass(frozen=True)
class Profile:
    """The faults of a run, with their weights."""

    faults: dict[str, int]
    weather: Conditions = field(default_factory=Conditions)
    names: int = 5
    voters: int = 3
    duration_ns: int = 8 * S
    fault_ns: int = 300 * MS
    propose_ns: int = 40 * MS
    is_leader_stable: bool = False
    """Whether no fault touches the leader, so that it must lead to the end."""
    has_doubts: bool = False
    """Whether members that have forgotten vote again while faults go on. Nothing is lost by it in
    groups of two that stay so, and a part may be in others."""
    is_calm: bool = False
    """Whether nothing fails, not even a connection."""


ALL_FAULTS: Final = {
    "cut": 3,
    "one_way": 3,
    "isolate": 3,
    "heal": 5,
    "kill": 4,
    "power": 3,
    "slow": 2,
    "reset": 2,
    "transfer": 1,
    "membership": 3,
    "wipe": 1,
    "hunt": 1,
}
ROUGH: Final = Conditions(loss=0.05, doubling=0.05, late=0.05, delay_ns=20 * MS, write_ns=10 * MS)

EVERYTHING: Final = Profile(ALL_FAULTS, ROUGH)
UNSYNCED: Final = Profile(ALL_FAULTS, replace(ROUGH, synced=False))
CALM: Final = Profile({"exchange_one": 1, "transfer": 1}, duration_ns=3 * S, is_calm=True)

# With entries that leaders withdraw, also while the others take their leadership away.
WITHDRAWALS: Final = Profile(
    ALL_FAULTS | {"withdraw": 12, "depose": 3}, ROUGH, fault_ns=100 * MS, propose_ns=15 * MS
)

# Profiles that provoke what one defence prevents.
RESTARTS: Final = Profile(
    {"kill": 6, "power": 6, "slow": 3, "cut": 2, "heal": 3},
    replace(ROUGH, write_ns=60 * MS),
    names=3,
    fault_ns=80 * MS,
)
FIGURE_8: Final = Profile(
    {"hunt": 1},
    Conditions(append_entries_max=1, delay_ns=60 * MS),
    names=5,
    voters=5,
    fault_ns=120 * MS,
    propose_ns=20 * MS,
)
WIPES: Final = Profile(
    {"wipe": 6, "kill": 2, "hunt": 4, "cut": 3, "isolate": 2, "heal": 4},
    replace(ROUGH, late=0.15, delay_ns=60 * MS, write_ns=30 * MS),
    names=3,
    fault_ns=120 * MS,
)
BLACKOUTS: Final = Profile(
    {"power": 8, "hunt": 3, "cut": 2, "heal": 3},
    replace(ROUGH, synced=False, write_ns=30 * MS),
    names=3,
    fault_ns=120 * MS,
)
PAIRS: Final = Profile(
    {"power": 6, "kill": 3, "hunt": 2, "cut": 2, "slow": 1, "heal": 4},
    replace(ROUGH, synced=False, write_ns=30 * MS),
    names=2,
    voters=2,
    fault_ns=400 * MS,
    duration_ns=12 * S,
    has_doubts=True,
)
FOURS: Final = Profile(
    {"power": 6, "kill": 3, "hunt": 2, "cut": 2, "slow": 1, "heal": 4},
    replace(ROUGH, synced=False, write_ns=30 * MS),
    names=4,
    voters=4,
)
RETURNS: Final = Profile(
    {"isolate_follower": 1, "heal": 1},
    Conditions(),
    names=3,
    fault_ns=600 * MS,
    is_leader_stable=True,
)
EXCHANGES: Final = Profile(
    {"membership": 6, "cut": 3, "isolate": 3, "heal": 3, "kill": 1},
    replace(ROUGH, loss=0.1),
    names=6,
    fault_ns=150 * MS,
)
SILENCE: Final = Profile(
    {"membership": 3, "reset": 6, "kill": 2, "transfer": 3},
    replace(ROUGH, loss=0.1),
    names=5,
    propose_ns=600 * MS,
)


class Run:
    """One group under one profile."""

    def __init__(self, seed: int, profile: Profile, cluster_class: type[Cluster] = Cluster) -> None:
        names = [f"s{number}" for number in range(1, profile.names + 1)]
        self.profile = profile
        weather = replace(profile.weather)
        self.cluster = cluster_class(seed, names, names[: profile.voters], weather)
        self.rng = self.cluster.rng
        self.proposals = 0
        self.faults: dict[str, int] = {}
        self._is_over = False
        # The time since which a member has to vote again, by its name.
        self._doubtful_since_ns: dict[str, int] = {}

    def run(self) -> "Run":
        """Faults, then peace; in the end everybody agrees."""
        cluster = self.cluster
        cluster.at(0, self._propose)
        if self.profile.faults:
            cluster.at(600 * MS, self._fault)
        if self.profile.has_doubts:
            cluster.at(0, self._settle_doubts)
        cluster.run(cluster.now_ns + self.profile.duration_ns)
        self._is_over = True
        self._make_peace()
        self._demand_agreement()
        if self.profile.is_leader_stable:
            terms = len(cluster.checks.leaders)
            demand(terms == 1, f"a leader that had its quorum was deposed {terms - 1} times")
        return self

    # --- clients --------------------------------------------------------------------------------

    def _propose(self) -> None:
        cluster = self.cluster
        for node in cluster.leaders():
            self.proposals += 1
            count = 1 + self.rng.randrange(3)
            cluster.propose(node, [b"%d.%d" % (self.proposals, each) for each in range(count)])
        if not self._is_over:
            cluster.at(self.rng.randrange(2 * self.profile.propose_ns), self._propose)

    # --- faults ---------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self._is_over:
            return
        faults = self.profile.faults
        (name,) = self.rng.choices(list(faults), list(faults.values()))
        server = self.rng.choice(list(self.cluster.servers.values()))
        if name in ("kill", "power", "slow") and self.rng.random() < 0.5:
            leaders = self.cluster.leaders()
            if leaders:
                server = self.cluster.servers[self.rng.choice(leaders).name]
        self.faults[name] = self.faults.get(name, 0) + 1
        getattr(self, f"_{name}")(server)
        self.cluster.at(self.rng.randrange(2 * self.profile.fault_ns), self._fault)

    def _other(self, server: Server) -> str:
        return self.rng.choice([name for name in self.cluster.servers if name != server.name])

    def _cut(self, server: Server) -> None:
        other = self._other(server)
        self.cluster.cuts |= {(server.name, other), (other, server.name)}

    def _one_way(self, server: Server) -> None:
        self.cluster.cuts.add((server.name, self._other(server)))

    def _isolate(self, server: Server) -> None:
        for other in self.cluster.servers:
            if other != server.name:
                self.cluster.cuts |= {(server.name, other), (other, server.name)}

    def _isolate_follower(self, server: Server) -> None:
        if all(node.name != server.name for node in self.cluster.leaders()):
            self._heal(server)
            self._isolate(server)

    def _heal(self, server: Server) -> None:
        self.cluster.cuts.clear()

    def _kill(self, server: Server) -> None:
        self.cluster.stop(server)
        self._start_later(server)

    def _hunt(self, server: Server) -> None:
        """Kill leaders before they have replicated much, and let them come back soon."""
        for node in self.cluster.leaders():
            hunted = self.cluster.servers[node.name]
            # Messages on their way are lost with their connection.
            self._isolate(hunted)
            self.cluster.stop(hunted)
            self.cluster.at(self.rng.randrange(600 * MS), partial(self._return, hunted))

    def _return(self, server: Server) -> None:
        self.cluster.cuts = {cut for cut in self.cluster.cuts if server.name not in cut}
        self.cluster.start(server)

    def _power(self, server: Server) -> None:
        if self.cluster.weather.synced or self._may_forget(server):
            self.cluster.stop(server, power=True)
            self._start_later(server)

    def _wipe(self, server: Server) -> None:
        if self._may_forget(server):
            self.cluster.stop(server, power=True)
            server.disk.wipe()
            server.has_forgotten = True
            self._start_later(server)

    def _may_forget(self, server: Server) -> bool:
        """Whether the others can bring a server back that forgets: no more than one at a time.

        A member that has voted again is trusted, and needs the log of the others first.
        """
        nodes = self.cluster.nodes()
        committed = max(self.cluster.checks.committed, default=0)
        return (
            all(node.log.stable >= committed for node in nodes if self.profile.has_doubts)
            and len(nodes) == len(self.cluster.servers)
            and all(node.may_vote for node in nodes)
            and all(
                len(half) >= (2 if self.profile.has_doubts else 3)
                for node in nodes
                for half in (node.membership.voters, node.membership.outgoing)
                if server.name in half
            )
        )

    def _start_later(self, server: Server) -> None:
        self.cluster.at(self.rng.randrange(1_500 * MS), partial(self.cluster.start, server))

    def _slow(self, server: Server) -> None:
        server.slow_until_ns = self.cluster.now_ns + self.rng.randrange(2 * S)

    def _reset(self, server: Server) -> None:
        self.cluster.reset_connection(server.name, self._other(server))

    def _transfer(self, server: Server) -> None:
        for node in self.cluster.leaders():
            node.transfer_leadership(server.name, self.cluster.now_ns)
            self.cluster.plan_turn(self.cluster.servers[node.name])

    def _withdraw(self, server: Server) -> None:
        """Have leaders withdraw some of the entries that they have not committed."""
        for node in self.cluster.leaders():
            if node.log.last_index > node.log.commit:
                first = self.rng.randrange(node.log.commit, node.log.last_index) + 1
                node.withdraw(first, self.cluster.now_ns)
                self.cluster.plan_turn(self.cluster.servers[node.name])

    def _depose(self, server: Server) -> None:
        """Have leaders cease to lead, and disown what they have not committed."""
        for node in self.cluster.leaders():
            node.resign(self.cluster.now_ns)
            node.disown(node.log.commit + 1)
            self.cluster.plan_turn(self.cluster.servers[node.name])

    def _membership(self, server: Server) -> None:
        for node in self.cluster.leaders():
            self._change(node)
            self.cluster.plan_turn(self.cluster.servers[node.name])

    def _change(self, node: RaftNode) -> None:
        """Exchange members at random; all present ones may go at once."""
        names = list(self.cluster.servers)
        known = [*node.membership.members()] if self.rng.random() < 0.7 else names
        voters = self.rng.sample(known, min(len(known), self.rng.choice([1, 2, 3, 3, 3, 4, 5])))
        learners = [name for name in names if name not in voters and self.rng.random() < 0.5]
        node.propose_membership(membership_of(voters, learners), self.cluster.now_ns)

    def _exchange_one(self, server: Server) -> None:
        """Let one voter join or leave."""
        for node in self.cluster.leaders():
            voters = {*node.membership.voters} ^ {server.name}
            if len(voters) >= 2:
                node.propose_membership(membership_of(voters), self.cluster.now_ns)
                self.cluster.plan_turn(self.cluster.servers[node.name])

    # --- members that have forgotten ------------------------------------------------------------

    def _settle_doubts(self) -> None:
        """Have members vote again that the others cannot do without, as the driver does."""
        cluster = self.cluster
        before, self._doubtful_since_ns = self._doubtful_since_ns, {}
        for node in cluster.nodes():
            if self._is_stopped(node):
                since_ns = before.get(node.name, cluster.now_ns)
                self._doubtful_since_ns[node.name] = since_ns
                if cluster.now_ns >= since_ns + DOUBT_NS:
                    self.faults["voted again"] = self.faults.get("voted again", 0) + 1
                    node.resume_voting(cluster.now_ns)
                    cluster.plan_turn(cluster.servers[node.name])
        cluster.at(100 * MS, self._settle_doubts)

    def _is_stopped(self, node: RaftNode) -> bool:
        """Whether a group has no leader until a member votes that has forgotten, and has one then.

        The member knows as much about the others as it has heard of them.
        """
        heard = {node.name, *self.cluster.servers[node.name].heard}

        def has_forgotten(name: str) -> bool:
            other = self.cluster.servers[name].node
            return name in heard and other is not None and not other.may_vote

        return (
            not node.may_vote
            and not node.leader
            and quorum.needs_forgetful(node.membership, node.name, has_forgotten)
            and quorum.has_quorum(node.membership, heard.__contains__)
        )

    # --- the end --------------------------------------------------------------------------------

    def _make_peace(self) -> None:
        cluster = self.cluster
        cluster.cuts.clear()
        weather = cluster.weather
        weather.loss = weather.doubling = weather.late = 0.0
        for server in cluster.servers.values():
            server.slow_until_ns = 0
            cluster.start(server)
        cluster.run(cluster.now_ns + 1 * S)
        if not self.profile.is_calm:
            # Each pair meets again once the network is whole.
            for first, second in permutations(cluster.servers, 2):
                cluster.reset_connection(first, second)
        cluster.run(cluster.now_ns + 5 * S)

    def _demand_agreement(self) -> None:
        """After peace there is a leader, and an entry of it reaches every member."""
        cluster = self.cluster
        leaders = [node for node in cluster.leaders() if node.is_ready]
        if not leaders and not all(node.may_vote for node in cluster.nodes()):
            # Those who remember are no quorum. The others vote again when none has come back.
            self.faults["half forgotten"] = 1
            if not self.profile.has_doubts:
                self._settle_doubts()
            cluster.run(cluster.now_ns + DOUBT_NS + 5 * S)
            leaders = [node for node in cluster.leaders() if node.is_ready]
            if not leaders and self._is_beyond_recovery():
                self.faults["stuck"] = 1
                return
        demand(len(leaders) == 1, f"liveness: {[node.name for node in leaders]} lead")
        (leader,) = leaders
        self._demand_silence(leader)
        index = cluster.propose(leader, [b"last"])
        demand(index is not None, "liveness: a leader in peace accepts proposals")
        cluster.run(cluster.now_ns + 1 * S)
        self._demand_silence(leader)

    def _is_beyond_recovery(self) -> bool:
        """Whether a half of the newest membership has no majority without members that have
        forgotten, of which one knows an earlier membership.

        The member does not know that it is needed: the loss is an operator's matter, as that of
        a member that does not come back.
        """
        nodes = self.cluster.nodes()
        newest = max(
            nodes,
            key=lambda node: (node.log.term_at(node.log.last_index), node.log.last_index),
        ).membership
        forgetful = [node for node in nodes if not node.may_vote]
        lost = {node.name for node in forgetful}
        return any(
            quorum.needs_forgetful(newest, node.name, lost.__contains__)
            and node.membership != newest
            for node in forgetful
        )

    def _demand_silence(self, leader: RaftNode) -> None:
        """All members have everything, know it, and have no timers."""
        for name in leader.membership.members():
            node = self.cluster.servers[name].node
            demand(node is not None, f"liveness: {name} does not run")
            if node is not None:
                is_settled = node.log.applied == leader.log.last_index
                demand(is_settled, f"liveness: {name} has not applied {leader.log.last_index}")
                demand(node.may_vote, f"liveness: {name} is not readmitted")
                demand(
                    node.deadline_ns is None, f"liveness: {name} has a timer though all is quiet"
                )
