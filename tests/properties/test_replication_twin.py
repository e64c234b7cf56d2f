"""A leader's side of replication against followers that are a dozen lines each.

Messages are lost, repeated and reordered, followers forget, and the log is trimmed. Whatever
happens, the leader believes of a follower only what it has, sends within its window, commits only
what a quorum has written, and has everybody complete once nothing is lost any more.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.raft.config import RaftConfig
from headwater.raft.entry import size_of
from headwater.raft.messages import (
    Append,
    AppendReject,
    AppendReply,
    InstallSnapshot,
    Message,
)
from headwater.raft.progress import Phase
from headwater.raft.storage import TRUSTED
from tests.kit.raft_member import Member

CONFIG = RaftConfig(
    append_entries_max=3, append_bytes_max=120, window_messages_max=2, window_bytes_max=240
)


class FollowerTwin:
    """A follower of one leader, whose entries are a dictionary of terms and data by index."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begin = 1
        self.entries: dict[int, tuple[int, bytes]] = {1: (1, b"")}
        self.commit = 1
        self.recovery = TRUSTED
        self.match = 0
        self.forgettings = 0

    @property
    def last(self) -> int:
        return max(self.entries, default=0)

    def answer(self, message: Message) -> Message | None:
        """Take a message, and answer it."""
        if isinstance(message, InstallSnapshot):
            index = message.snapshot.index
            if index > self.commit:
                if self.entries.get(index, (0, b""))[0] != message.snapshot.term:
                    self.entries = {index: (message.snapshot.term, b"")}
                self.commit = index
        elif isinstance(message, Append):
            prev = message.prev_index
            has_prev = self.entries.get(prev, (0, b""))[0] == message.prev_term
            if prev >= self.commit and not has_prev:
                at = min(prev, self.last)
                term = self.entries.get(at, (0, b""))[0]
                return AppendReject(self.name, "a", 2, prev, at, min(term, 2), self.recovery)
            for entry in message.entries:
                if entry.index > self.commit:
                    self.entries[entry.index] = entry.term, entry.data
            last = prev + len(message.entries)
            self.commit = max(self.commit, min(message.commit, last))
            self.match = max(self.match, last)
            if message.readmits != TRUSTED and message.readmits == self.recovery:
                self.recovery = TRUSTED
        else:
            return None
        self.match = max(self.match, self.commit)
        return AppendReply(self.name, "a", 2, self.match, self.commit, self.recovery)

    def forget(self) -> None:
        """Lose the log, and know it."""
        self.entries, self.commit, self.match = {}, 0, 0
        self.forgettings += 1
        self.recovery = 100 + self.forgettings


class ReplicationTwin(RuleBasedStateMachine):
    """A leader, two followers, and the messages between them."""

    def __init__(self) -> None:
        super().__init__()
        self.leader = Member("a", "abc", config=CONFIG)
        self.twins = {name: FollowerTwin(name) for name in "bc"}
        self.alive = {"b", "c"}
        self.way: list[Message] = []
        self.commit = 1
        self.send(self.leader.lead())
        self.written = self.of_leader()

    def of_leader(self) -> dict[int, tuple[int, bytes]]:
        """All entries that the leader ever had, by index."""
        log = self.leader.node.log
        known = getattr(self, "written", {})
        for entry in log.entries_from(log.snapshot.index + 1, 1 << 20, 1 << 20):
            known[entry.index] = entry.term, entry.data
        return known

    def send(self, messages: list[Message]) -> None:
        self.way += [each for each in messages if isinstance(each, Append | InstallSnapshot)]

    # --- the group -------------------------------------------------------------------------------

    @rule(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6))
    def propose(self, sizes: list[int]) -> None:
        assert self.leader.node.propose([bytes(size) for size in sizes], self.leader.now_ns)
        self.send(self.leader.work())

    @rule()
    def time_passes(self) -> None:
        if self.leader.node.deadline_ns is not None:
            self.send(self.leader.time_out())

    @rule()
    def trim(self) -> None:
        node = self.leader.node
        node.trim(node.log.applied)

    @rule(name=st.sampled_from("bc"))
    def forget(self, name: str) -> None:
        """A follower loses its log, and what was on its way from it."""
        if all(twin.recovery == TRUSTED for twin in self.twins.values()):
            self.twins[name].forget()
            self.way = [each for each in self.way if name not in (each.sender, each.to)]
            self.lose(name)
            self.find(name)

    @precondition(lambda self: len(self.alive) == 2)
    @rule(name=st.sampled_from("bc"))
    def lose(self, name: str) -> None:
        """A server is silent; the other one is the quorum with the leader."""
        self.alive.discard(name)
        self.leader.node.peer_lost(name, self.leader.now_ns)
        self.send(self.leader.work())

    @precondition(lambda self: len(self.alive) == 1)
    @rule()
    def find_again(self) -> None:
        [name] = {*self.twins} - self.alive
        self.find(name)

    def find(self, name: str) -> None:
        self.alive.add(name)
        self.leader.node.peer_alive(name, self.leader.now_ns)
        self.send(self.leader.work())

    # --- the network -----------------------------------------------------------------------------

    @precondition(lambda self: self.way)
    @rule(
        number=st.integers(0, 1 << 16),
        fate=st.sampled_from(["come", "come", "come", "lose", "twice"]),
    )
    def deliver(self, number: int, fate: str) -> None:
        at = number % len(self.way)
        message = self.way[at]
        if fate != "twice":
            del self.way[at]
        if fate != "lose":
            self.arrive(message)

    def arrive(self, message: Message) -> None:
        if message.to == "a":
            self.send(self.leader.step(message))
        elif (answer := self.twins[message.to].answer(message)) is not None:
            self.way.append(answer)

    # --- always ----------------------------------------------------------------------------------

    @invariant()
    def the_leader_believes_only_what_is_so(self) -> None:
        node = self.leader.node
        written = self.of_leader()
        for name, twin in self.twins.items():
            progress = node.progress_of(name)
            assert progress is not None
            assert progress.match < progress.next <= node.log.last_index + 1
            if progress.recovery == twin.recovery == TRUSTED:
                assert progress.match <= max(twin.last, twin.match)
                own = {at: each for at, each in twin.entries.items() if 1 < at <= progress.match}
                behind_snapshot = {at: each for at, each in own.items() if at != min(twin.entries)}
                assert all(written.get(at, each) == each for at, each in behind_snapshot.items())

    @invariant()
    def the_window_holds(self) -> None:
        for name in self.twins:
            progress = self.leader.node.progress_of(name)
            assert progress is not None
            if progress.phase is not Phase.REPLICATE:
                continue
            log = self.leader.node.log
            sent = log.entries_from(max(progress.match, log.snapshot.index) + 1, 1 << 20, 1 << 20)
            on_way = [entry for entry in sent if entry.index < progress.next]
            assert len(on_way) <= CONFIG.window_messages_max * CONFIG.append_entries_max
            one = CONFIG.append_bytes_max
            assert sum(map(size_of, on_way)) <= CONFIG.window_bytes_max + one

    @invariant()
    def a_quorum_has_what_is_committed_now(self) -> None:
        commit = self.leader.node.log.commit
        assert commit >= self.commit
        if commit > self.commit:
            self.commit = commit
            holders = [each for each in self.twins.values() if each.last >= commit]
            assert any(twin.entries[commit] == self.of_leader()[commit] for twin in holders)

    def teardown(self) -> None:
        """Nothing is lost any more: all have everything, and the leader falls silent."""
        if len(self.alive) == 1:
            self.find_again()
        node = self.leader.node
        for _ in range(300):
            while self.way:
                self.arrive(self.way.pop(0))
            if node.deadline_ns is None:
                break
            self.send(self.leader.time_out())
        assert node.deadline_ns is None
        for twin in self.twins.values():
            assert (twin.last, twin.commit, twin.recovery) == (
                node.log.last_index,
                node.log.commit,
                TRUSTED,
            )
        assert node.log.commit == node.log.last_index


TestReplicationTwin = ReplicationTwin.TestCase
TestReplicationTwin.settings = settings(max_examples=80, stateful_step_count=40)
