"""A store of group logs against its ledger, whatever happens in any order, crashes included.

The crash tests of the store run one script and end it everywhere. This machine draws the script.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.store.groups.frames import GroupMode
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.group_ledger import GroupHost, check_kept, standing_of

MODES = {
    bytes([number]) * 16: mode
    for number, mode in enumerate((GroupMode.SYNCED, GroupMode.WRITTEN, GroupMode.MEMORY), 1)
}
actions = st.tuples(
    st.sampled_from(["append", "vote", "truncate", "install", "compact", "remove"]),
    st.integers(0, 7),
)


class GroupLogTwin(RuleBasedStateMachine):
    """Group logs in a store, and the standings that the ledger keeps of each."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk(1, page_bytes=128)
        self.host = GroupHost()
        self.life = 0
        self.host.start(self.open())

    def open(self) -> Store:
        self.life += 1
        entropy = SeededEntropy(labelled_rng(self.life, "store"))
        store = open_store(self.disk, "/data", entropy, self.disk.boot_id, ahead_bytes_max=1_500)
        self.doubted = {
            each for each in store.groups.identities() if store.groups[each].may_have_forgotten
        }
        return store

    def has(self, identity: bytes) -> bool:
        return identity in self.host.store.groups

    # --- work ------------------------------------------------------------------------------------

    @rule(
        identity=st.sampled_from([*MODES]),
        actions=st.lists(actions, min_size=1, max_size=3),
        is_committed=st.booleans(),
    )
    def turn(self, identity: bytes, actions: list[tuple[str, int]], is_committed: bool) -> None:
        """Save portions of work of a group, and perhaps write them, with those of other groups."""
        for action, number in actions:
            if not self.has(identity):
                self.host.create(identity, MODES[identity])
            self.act(identity, action, number)
        if is_committed:
            self.host.commit()

    def act(self, identity: bytes, action: str, number: int) -> None:
        host, log = self.host, self.host.log(identity)
        match action:
            case "append":
                host.append(identity, 1 + number // 4, back=number % 4)
            case "vote":
                host.vote(identity, "ab"[number % 2], back=number // 2)
            case "truncate" if log.last_index > 1:
                host.truncate(identity)
            case "install":
                host.install(identity)
            case "compact":
                # Entries that are given up were written.
                host.commit()
                host.compact(identity, keeps=number % 4)
            case "remove" if number == 0:
                host.remove(identity)

    # --- ends ------------------------------------------------------------------------------------

    @rule(how=st.sampled_from(["power loss", "kill", "restart"]))
    def end(self, how: str) -> None:
        """End the process, and start it again."""
        if how == "restart":
            self.restart()
        else:
            self.crash(how == "power loss")

    def crash(self, is_power_lost: bool) -> None:
        self.disk = self.disk.clone()
        if is_power_lost:
            self.disk.power_loss("strict")
        else:
            self.disk.kill()
        before = self.doubted
        store = self.open()
        # A doubt ends with the first hard state that is saved, which may not be on the disk yet.
        check_kept(self.host, store, is_power_lost, frozenset(before & self.doubted))
        self.host.start(store)

    def restart(self) -> None:
        self.host.commit()
        last = {identity: twin.last for identity, twin in self.host.twins.items()}
        self.host.store.close()
        store = self.open()
        for identity, standing in last.items():
            assert (identity in store.groups) == standing.exists
            if standing.exists:
                assert standing_of(store.groups[identity]) == standing
        self.host.start(store)

    # --- always ----------------------------------------------------------------------------------

    @invariant()
    def logs_are_as_the_ledger_has_them(self) -> None:
        for identity, twin in self.host.twins.items():
            assert self.has(identity) == twin.last.exists
            if twin.last.exists:
                assert standing_of(self.host.log(identity)) == twin.last

    @precondition(lambda self: any(map(self.has, MODES)))
    @rule(data=st.data(), bytes_max=st.integers(0, 60))
    def read_a_range(self, data: st.DataObject, bytes_max: int) -> None:
        log = self.host.log(data.draw(st.sampled_from([each for each in MODES if self.has(each)])))
        if log.mode is GroupMode.MEMORY or log.first_index > log.last_index:
            return
        first = data.draw(st.integers(log.first_index, log.last_index))
        last = data.draw(st.integers(first, log.last_index))
        kept = {entry.index: entry for entry in standing_of(log).entries}
        found = log.entries(first, last, bytes_max)
        assert found == [kept[first + at] for at in range(len(found))]
        sizes = [len(entry.data) for entry in found]
        assert len(found) == 1 or sum(sizes) <= bytes_max
        if found[-1].index < last:
            assert sum(sizes) + len(kept[found[-1].index + 1].data) > bytes_max


TestGroupLogTwin = GroupLogTwin.TestCase
TestGroupLogTwin.settings = settings(max_examples=150, stateful_step_count=25)
