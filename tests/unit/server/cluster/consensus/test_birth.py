"""The birth of a cluster: majorities, races, emptied stores, and the bytes of its messages."""

import random
from collections import deque
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import PeerError
from headwater.server.cluster.consensus.birth import (
    PATIENCE_NS,
    RETRY_NS,
    Addressed,
    Ballot,
    Birth,
    BirthMessage,
    BirthRecord,
    ClusterBirth,
    Kind,
    decode_message,
    decode_record,
    encode_message,
    encode_record,
)
from headwater.testing.entropy import SeededEntropy, labelled_rng


def store_of(name: str) -> bytes:
    return name.encode() * 16


def birth_of(names: str, number: int = 1) -> Birth:
    return Birth(bytes([number]) * 16, tuple((name, store_of(name)) for name in names))


def server(
    name: str, expected: int = 3, record: BirthRecord | None = None, seed: int = 1
) -> ClusterBirth:
    entropy = SeededEntropy(labelled_rng(seed, name))
    return ClusterBirth(name, store_of(name), entropy, expected, record)


class Net:
    """Servers whose links, messages and restarts happen in a random order."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.names = "abcde"[:count]
        self.now_ns = 0
        self.starts = 0
        self.servers = {name: server(name, count) for name in self.names}
        self.written = {name: BirthRecord() for name in self.names}
        self.links: set[frozenset[str]] = set()
        self.on_the_way: deque[tuple[str, str, BirthMessage]] = deque()
        self.chosen: set[Birth] = set()

    def send(self, name: str, messages: Addressed) -> None:
        """Write the record of a server, then send its messages."""
        self.written[name] = self.servers[name].record
        for to, message in messages:
            assert frozenset((name, to)) in self.links
            self.on_the_way.append((name, to, message))
        if (birth := self.servers[name].chosen) is not None:
            self.chosen.add(birth)

    def connect(self, one: str, other: str) -> None:
        self.links.add(frozenset((one, other)))
        for name, peer in ((one, other), (other, one)):
            self.send(name, self.servers[name].connected(peer, store_of(peer), self.now_ns))

    def cut(self, link: frozenset[str]) -> None:
        self.links.discard(link)
        self.on_the_way = deque(each for each in self.on_the_way if {*each[:2]} != link)
        one, other = link
        self.servers[one].disconnected(other, self.now_ns)
        self.servers[other].disconnected(one, self.now_ns)

    def restart(self, name: str) -> None:
        for link in [link for link in self.links if name in link]:
            self.cut(link)
        self.starts += 1
        count = len(self.names)
        self.servers[name] = server(name, count, self.written[name], self.starts + 1)

    def tick(self, name: str) -> None:
        self.send(name, self.servers[name].tick(self.now_ns))

    def deliver(self) -> None:
        sender, receiver, message = self.on_the_way.popleft()
        message = decode_message(encode_message(message))
        self.send(receiver, self.servers[receiver].heard(sender, message))

    def settle(self) -> None:
        """Deliver all messages, and let time pass, until nothing happens any more."""
        for _ in range(20):
            while self.on_the_way:
                self.deliver()
            self.now_ns += 2 * RETRY_NS
            for name in self.names:
                self.tick(name)

    def step(self) -> None:
        self.now_ns += self.rng.randrange(PATIENCE_NS)
        action = self.rng.randrange(20)
        if action < 5:
            one, other = self.rng.sample(self.names, 2)
            link = frozenset((one, other))
            if link not in self.links:
                self.connect(one, other)
            elif action == 0:
                self.cut(link)
        elif action == 5:
            self.restart(self.rng.choice(self.names))
        elif action < 10:
            self.tick(self.rng.choice(self.names))
        elif self.on_the_way:
            self.deliver()


def test_a_server_alone_waits() -> None:
    a = server("a")
    assert a.deadline_ns is None
    assert a.tick(10**12) == []


def test_all_configured_servers_are_born_at_once() -> None:
    net = Net(3)
    for pair in combinations("abc", 2):
        net.connect(*pair)
    while net.on_the_way:
        net.deliver()
    [birth] = net.chosen
    assert birth.membership.voters == ("a", "b", "c")
    assert {each.chosen for each in net.servers.values()} == {birth}


def test_a_majority_waits_a_while_for_the_others() -> None:
    a = server("a")
    a.connected("b", store_of("b"), 7)
    assert a.deadline_ns == 7 + PATIENCE_NS
    assert a.tick(6 + PATIENCE_NS) == []
    assert a.tick(7 + PATIENCE_NS) == [("b", BirthMessage(Kind.PREPARE, Ballot(1, "a")))]


def test_a_majority_is_born_without_the_others_which_learn_of_it() -> None:
    net = Net(3)
    net.connect("a", "b")
    net.settle()
    [birth] = net.chosen
    assert birth.membership.voters == ("a", "b")
    net.connect("b", "c")
    net.settle()
    assert net.servers["c"].chosen == birth
    assert not birth.names("c", store_of("c"))


@pytest.mark.parametrize("expected", [4, 5])
def test_half_of_the_configured_servers_are_not_born(expected: int) -> None:
    a = server("a", expected)
    a.connected("b", store_of("b"), 0)
    assert a.tick(10 * PATIENCE_NS) == []
    a.expect(3, 0)
    assert a.tick(10 * PATIENCE_NS) != []


def test_only_the_first_name_proposes() -> None:
    b = server("b")
    b.connected("a", store_of("a"), 0)
    assert b.connected("c", store_of("c"), 0) == []
    assert b.tick(10 * PATIENCE_NS) == []


def test_servers_that_leave_are_waited_for_again() -> None:
    a = server("a")
    a.connected("b", store_of("b"), 0)
    a.disconnected("b", 5)
    a.disconnected("b", 9)
    assert a.deadline_ns is None


def test_a_message_of_a_server_that_is_not_connected_is_dropped() -> None:
    a = server("a")
    assert a.heard("b", BirthMessage(Kind.CHOSEN, birth=birth_of("b"))) == []
    assert a.chosen is None


def test_an_emptied_store_is_no_member_of_the_birth_that_names_its_server() -> None:
    assert birth_of("abc").names("b", store_of("b"))
    assert not birth_of("abc").names("b", bytes(16))


def test_a_promise_refuses_lower_ballots() -> None:
    b = server("b", record=BirthRecord(promised=Ballot(5, "a")))
    b.connected("a", store_of("a"), 0)
    b.connected("c", store_of("c"), 0)
    [(_, answer)] = b.heard("c", BirthMessage(Kind.PREPARE, Ballot(4, "c")))
    assert answer == BirthMessage(Kind.PROMISE, Ballot(5, "a"))
    [(_, answer)] = b.heard("c", BirthMessage(Kind.ACCEPT, Ballot(4, "c"), birth=birth_of("bc")))
    assert answer == BirthMessage(Kind.PROMISE, Ballot(5, "a"))
    assert b.record.birth is None


def test_a_ballot_proposes_the_birth_that_was_accepted_last() -> None:
    a = server("a", 5)
    for peer in "bcd":
        a.connected(peer, store_of(peer), 0)
    a.tick(PATIENCE_NS)
    ballot = Ballot(1, "a")
    a.heard("b", BirthMessage(Kind.PROMISE, ballot, Ballot(0, "c"), birth_of("bc", 2)))
    sent = a.heard("c", BirthMessage(Kind.PROMISE, ballot, Ballot(0, "d"), birth_of("cd", 3)))
    assert {message.birth for _, message in sent} == {birth_of("cd", 3)}


def test_a_server_that_knows_the_choice_tells_it() -> None:
    record = BirthRecord(Ballot(1, "a"), Ballot(1, "a"), birth_of("abc"), is_chosen=True)
    b = server("b", record=record)
    chosen = ("c", BirthMessage(Kind.CHOSEN, birth=birth_of("abc")))
    assert b.connected("c", store_of("c"), 0) == [chosen]
    assert b.heard("c", BirthMessage(Kind.PREPARE, Ballot(9, "c"))) == [chosen]
    assert b.heard("c", BirthMessage(Kind.ACCEPTED, Ballot(9, "c"))) == []


@pytest.mark.parametrize("count", [3, 4, 5])
def test_at_most_one_birth_is_ever_chosen(count: int) -> None:
    born = 0
    for seed in range(120):
        net = Net(count, seed)
        for _ in range(200):
            net.step()
        assert len(net.chosen) <= 1, seed
        born += len(net.chosen)
    assert born > 60


@pytest.mark.parametrize("count", [3, 4, 5])
def test_servers_that_hear_each_other_end_in_one_birth(count: int) -> None:
    for seed in range(40):
        net = Net(count, seed)
        for _ in range(100):
            net.step()
        for pair in combinations(net.names, 2):
            if frozenset(pair) not in net.links:
                net.connect(*pair)
        net.settle()
        assert len(net.chosen) == 1, seed
        assert {each.chosen for each in net.servers.values()} == net.chosen, seed


def forget(net: Net, name: str) -> None:
    """Let a server start with an empty record."""
    net.written[name] = BirthRecord()
    net.restart(name)


def test_servers_that_forget_let_two_clusters_be_born() -> None:
    def is_split(seed: int) -> bool:
        net = Net(3, seed)
        for _ in range(200):
            net.step()
            if net.rng.randrange(5) == 0:
                forget(net, net.rng.choice(net.names))
        return len(net.chosen) > 1

    assert any(is_split(seed) for seed in range(200))


MESSAGES = [
    BirthMessage(Kind.PREPARE, Ballot(7, "a")),
    BirthMessage(Kind.PROMISE, Ballot(7, "a")),
    BirthMessage(Kind.PROMISE, Ballot(7, "a"), Ballot(6, "b"), birth_of("ab")),
    BirthMessage(Kind.ACCEPT, Ballot(7, "a"), birth=birth_of("abc")),
    BirthMessage(Kind.ACCEPTED, Ballot(7, "a")),
    BirthMessage(Kind.CHOSEN, birth=birth_of("abc")),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_has_bytes(message: BirthMessage) -> None:
    assert decode_message(encode_message(message)) == message


def test_a_record_has_bytes() -> None:
    for record in (
        BirthRecord(),
        BirthRecord(promised=Ballot(3, "a")),
        BirthRecord(Ballot(3, "a"), Ballot(2, "b"), birth_of("ab")),
        BirthRecord(Ballot(3, "a"), Ballot(2, "b"), birth_of("ab"), is_chosen=True),
    ):
        assert decode_record(encode_record(record)) == record


def check_any(data: bytes) -> None:
    """Decode bytes: the result has these bytes again, or an error of the peer is raised."""
    try:
        message = decode_message(data)
    except PeerError:
        return
    assert encode_message(message) == data


@given(
    st.binary(max_size=80),
    st.sampled_from(MESSAGES).map(encode_message),
    st.integers(0, 100),
    st.integers(0, 255),
)
def test_any_bytes_are_a_message_or_an_error_of_the_peer(
    data: bytes, sound: bytes, position: int, change: int
) -> None:
    check_any(data)
    check_any(sound[:position])
    changed = bytearray(sound)
    changed[position % len(changed)] ^= change
    check_any(bytes(changed))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_an_error(data: bytes) -> None:
    try:
        record = decode_record(data)
    except PeerError:
        return
    assert encode_record(record) == data


@pytest.mark.parametrize(("place", "text"), [(0, "unknown version 9"), (1, "unknown kind 9")])
def test_a_version_or_kind_that_is_unknown_is_refused_by_name(place: int, text: str) -> None:
    data = bytearray(encode_message(MESSAGES[0]))
    data[place] = 9
    with pytest.raises(PeerError, match=text):
        decode_message(bytes(data))
