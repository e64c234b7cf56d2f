"""Receivers cannot tell publishes of one read from the same ones one at a time, and whatever
clients send, the server's books stay in order.

Two servers with the same clients: one gets what a publisher sends in one read, so that repeated
control lines become runs; the other gets it frame by frame within the same turn. Every receiver
must read the same bytes. Random numbers choose the member of a queue group, so of groups only the
number of messages that all members got together is compared.
"""

import re
from dataclasses import dataclass, field
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.server.configuration.options import (
    Options,
    Permissions,
    ResponsePermission,
    SubjectPermission,
    UserOptions,
)
from headwater.server.connections import intake
from headwater.server.core import broker, crowd
from headwater.subjects import index
from headwater.wire import decoder
from tests.kit.world import Peer, World

RIGHTS = {
    "all": None,
    "deny": Permissions(SubjectPermission(deny=("b",)), SubjectPermission(deny=("a.x", "b q"))),
    "respond": Permissions(SubjectPermission(allow=("a",)), None, ResponsePermission(max_msgs=2)),
    "few": Permissions(SubjectPermission(allow=("a.>", "c")), SubjectPermission(allow=(">",))),
}
OPTIONS = Options(
    users=tuple(UserOptions(name, "p", permissions=rights) for name, rights in RIGHTS.items()),
)
FRAME = re.compile(rb"H?MSG .* (\d+)\r\n")

subjects = st.sampled_from(
    [b"a", b"b", b"c", b"a.x", b"a.y", b"a.*", b"a..b", b"$NRG.x", b"_GR_.x", b"_GR_.y"]
)
patterns = st.sampled_from(
    [b"a", b"b", b"a.x", b"a.*", b"a.*", b"a.>", b"*", b">", b"inbox", b"_GR_.*"]
)
queues = st.sampled_from([b"", b"", b" q", b" r"])
replies = st.sampled_from([None, None, b"inbox", b"b", b"_R_.x"])


@dataclass(frozen=True)
class Guest:
    """A client and what it does before the publisher starts."""

    user: str
    fields: dict[str, object]
    subscriptions: list[tuple[bytes, bytes, int]]

    def join(self, world: World) -> Peer:
        peer = world.modern(user=self.user, password="p", **self.fields)
        for sid, (pattern, queue, limit) in enumerate(self.subscriptions, start=1):
            peer.send(b"SUB %b%b %d\r\n" % (pattern, queue, sid))
            if limit:
                peer.send(b"UNSUB %d %d\r\n" % (sid, limit))
        peer.take()
        return peer


flags = st.fixed_dictionaries(
    {
        "verbose": st.sampled_from([False, False, True]),
        "pedantic": st.sampled_from([False, False, True]),
        "echo": st.booleans(),
        "headers": st.sampled_from([True, True, False]),
    }
).map(lambda said: said | {"no_responders": said["headers"]})
guests = st.builds(
    Guest,
    st.sampled_from(list(RIGHTS)),
    flags,
    st.lists(st.tuples(patterns, queues, st.sampled_from([0, 0, 0, 1, 3])), max_size=4),
)


@st.composite
def frames(draw: st.DrawFn) -> list[bytes]:
    """A publish, repeated."""
    subject, reply = draw(subjects), draw(replies)
    payload = draw(st.sampled_from([b"", b"x", b"payload", b"\r\nPUB a 1\r\n"]))
    words = [subject, *([] if reply is None else [reply])]
    if draw(st.sampled_from([False, False, True])):
        block = b"NATS/1.0\r\n\r\n"
        head = [b"HPUB", *words, b"%d" % len(block), b"%d" % len(block + payload)]
        payload = block + payload
    else:
        head = [b"PUB", *words, b"%d" % len(payload)]
    return [b" ".join(head) + b"\r\n" + payload + b"\r\n"] * draw(st.integers(1, 12))


@dataclass
class Heard:
    """The frames that one client read: those of queue groups are counted, the others are kept."""

    alone: list[bytes] = field(default_factory=list)
    grouped: int = 0


def heard(peer: Peer, grouped_sids: set[bytes]) -> Heard:
    data = bytes(peer.connection.received)
    result = Heard()
    position = 0
    while position < len(data):
        line_end = data.index(b"\r\n", position) + 2
        match = FRAME.fullmatch(data[position:line_end])
        end = line_end if match is None else line_end + int(match[1]) + 2
        if match is not None and data[position:line_end].split()[2] in grouped_sids:
            result.grouped += 1
        else:
            result.alone.append(re.sub(rb"^INFO .*", b"INFO", data[position:end]))
        position = end
    return result


def play(clients: list[Guest], reads: list[bytes]) -> tuple[list[Heard], list[str]]:
    """Let all clients join, feed the reads of the first one, and return what each client got."""
    world = World(OPTIONS)
    peers = [guest.join(world) for guest in clients]
    for data in reads:
        peers[0].push(data)
    world.settle()
    listened = []
    for guest, peer in zip(clients, peers, strict=True):
        in_groups = {b"%d" % i for i, s in enumerate(guest.subscriptions, start=1) if s[1]}
        listened.append(heard(peer, in_groups))
    return listened, [peer.reason for peer in peers]


def without_chance(clients: list[Guest]) -> list[Guest]:
    """No limits in groups, and no publisher whose rights depend on what a group gives it."""
    plain: list[Guest] = []
    for guest in clients:
        queue_ok = plain or guest.user != "respond"
        subs = [(p, q if queue_ok else b"", 0 if q else n) for p, q, n in guest.subscriptions]
        plain.append(Guest(guest.user, guest.fields, subs))
    return plain


@settings(max_examples=150)
@given(st.lists(guests, min_size=1, max_size=4), st.lists(frames(), min_size=1, max_size=4))
def test_together_or_one_by_one(clients: list[Guest], batches: list[list[bytes]]) -> None:
    clients = without_chance(clients)
    single = [frame for batch in batches for frame in batch]
    together, reasons = play(clients, [b"".join(single)])
    apart, reasons_apart = play(clients, single)
    assert reasons == reasons_apart
    assert [one.alone for one in together] == [one.alone for one in apart]
    assert sum(one.grouped for one in together) == sum(one.grouped for one in apart)


@settings(max_examples=100)
@given(
    st.lists(guests, min_size=1, max_size=4),
    st.lists(frames(), min_size=1, max_size=4),
    st.integers(1, 12),
)
def test_a_small_budget_changes_no_byte_that_anybody_reads(
    clients: list[Guest], batches: list[list[bytes]], units: int
) -> None:
    clients = without_chance(clients)
    read = b"".join(frame for batch in batches for frame in batch)
    at_once, reasons = play(clients, [read])
    with (
        patch.object(intake, "TURN_UNITS", units),
        patch.object(intake, "SLICE_UNITS", units),
        patch.object(decoder, "OPERATIONS_MAX", 3),
    ):
        in_slices, reasons_in_slices = play(clients, [read])
    assert reasons == reasons_in_slices
    assert [one.alone for one in at_once] == [one.alone for one in in_slices]
    assert sum(one.grouped for one in at_once) == sum(one.grouped for one in in_slices)


@settings(max_examples=100)
@given(
    st.lists(guests, min_size=1, max_size=4),
    st.lists(frames(), min_size=1, max_size=4),
    st.sampled_from([0, 4096]),
    st.sampled_from([1, 2, 1000]),
)
def test_a_crowd_reads_the_bytes_that_its_members_would_read(
    clients: list[Guest], batches: list[list[bytes]], copied_bytes_max: int, slice_max: int
) -> None:
    clients = without_chance(clients)
    reads = [frame for batch in batches for frame in batch]
    one_by_one, reasons = play(clients, reads)
    with (
        patch.object(index, "LARGE_FAN_OUT_MIN", 0),
        patch.object(crowd, "COPIED_BYTES_MAX", copied_bytes_max),
        patch.object(crowd, "SLICE_DELIVERIES_MAX", slice_max),
        patch.object(broker, "SLICE_DELIVERIES_MAX", slice_max),
    ):
        as_a_crowd, reasons_as_a_crowd = play(clients, reads)
    assert reasons == reasons_as_a_crowd
    assert [one.alone for one in one_by_one] == [one.alone for one in as_a_crowd]
    assert sum(one.grouped for one in one_by_one) == sum(one.grouped for one in as_a_crowd)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 40))
def test_a_group_with_limits_takes_no_more_and_no_less(limits: list[int], count: int) -> None:
    members = [Guest("all", {}, [(b"a", b" q", limit)]) for limit in limits]
    sender = Guest("all", {}, [])
    for reads in ([b"PUB a 1\r\nx\r\n" * count], [b"PUB a 1\r\nx\r\n"] * count):
        [_, *got], _ = play([sender, *members], reads)
        taken = [one.grouped for one in got]
        assert sum(taken) == min(count, sum(limits))
        assert all(have <= limit for have, limit in zip(taken, limits, strict=True))


operations = st.sampled_from(
    [
        b'CONNECT {"user":"all","pass":"p","verbose":false,"headers":true}\r\n',
        b'CONNECT {"user":"few","pass":"p","protocol":1}\r\n',
        b'CONNECT {"user":"few","pass":"wrong"}\r\n',
        b'CONNECT {"name":"\xff\xed\xa0\x80","pass":[]}\r\n',
        b"CONNECT " + b'{"a":' * 1000,
        b"SUB a 1\r\n",
        b"SUB a.> q 2\r\n",
        b"SUB \xff.* \xfe 3\r\n",
        b"UNSUB 1 1\r\nUNSUB 2\r\n",
        b"PUB a 1\r\nx\r\n",
        b"PUB a.x inbox 0\r\n\r\n" * 3,
        b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n",
        b"PING\r\nPONG\r\n",
        b"PUB a 1\r",
        b"-ERR \xff\r\n",
    ]
) | st.binary(max_size=30)


@settings(max_examples=150)
@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), operations, st.booleans()), max_size=25),
)
def test_whatever_clients_send_the_books_stay_in_order(
    asks_for_users: bool, steps: list[tuple[int, bytes, bool]]
) -> None:
    world = World(OPTIONS if asks_for_users else Options())
    subscriptions = world.node.accounts.default.index
    of_the_server_itself = subscriptions.count
    peers = [world.open() for _ in range(3)]
    for who, data, turn_ends in steps:
        peers[who].push(data)
        if turn_ends:
            world.settle()
        if peers[who].connection.ended:
            world.settle()
            peers[who] = world.open()
        assert subscriptions.count - of_the_server_itself == sum(
            len(peer.client.subscriptions) for peer in peers if not peer.reason
        )
    world.settle()
    for peer in peers:
        peer.connection.leave()
    world.settle()
    assert world.node.roster.open == {}
    assert world.node.accounts.default.clients == {}
    assert subscriptions.count == of_the_server_itself
