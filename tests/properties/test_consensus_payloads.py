"""Changed payloads of servers that agree: each is taken or refused by name, and nothing stops.

Frames have a checksum, so changed payloads stand for those of a server that is wrong, not of a bad
line: well-formed, and absurd.
"""

from functools import cache
from struct import Struct
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.server.cluster.consensus.notices import BIRTH, DOUBTS, GREETING
from headwater.server.cluster.consensus.peers import Greeting, ServerFacts, encode_greeting
from tests.kit.consensus_servers import ConsensusServers

STRANGER: Final = "x"
_NUMBER: Final = Struct("<Q")
REFUSAL: Final = "Disconnected from server"

Recorded = tuple[str, bytes]
"""The driver's method for a payload, and the payload."""


def born() -> ConsensusServers:
    """Three servers with a leader, and a stranger that has greeted them."""
    servers = ConsensusServers("abc")
    servers.start()
    servers.run(3)
    assert servers.leader
    facts = ServerFacts(bytes(15) + b"x", 1, bytes(8))
    for name in "abc":
        servers[name].driver.consensus_received(
            STRANGER, GREETING + encode_greeting(Greeting(facts, None))
        )
    servers.run(0.5)
    return servers


@cache
def recorded() -> list[Recorded]:
    """Payloads of all kinds: a birth, elections, entries, a snapshot, and a server that forgot."""
    servers = ConsensusServers("abcd", expected=3)
    found: dict[tuple[str, bytes], None] = {}
    send = servers.send

    def note(sender: str, receiver: str, payload: bytes, method: str) -> None:
        found[method, payload] = None
        send(sender, receiver, payload, method)

    servers.send = note  # type: ignore[method-assign]
    servers.start("abc")
    servers.run(3)
    driver = servers[servers.leader].driver
    driver.propose_meta([b"one", b"two"])
    servers.run(1)
    leader = servers.leader
    servers[leader].kill()
    servers.run(4)
    servers.start(leader)
    servers.run(3)
    servers[servers.leader].driver.transfer_meta(leader)
    servers.run(3)
    servers.start("d")
    servers.run(3)
    other = next(name for name in "abc" if name != servers.leader)
    servers[other].empty()
    servers.run(2)
    servers.start(other)
    servers.run(5)
    meta = servers[servers.leader].driver
    assert meta.meta is not None
    meta.expel("d")
    servers.run(3)
    return [*found]


def kinds() -> set[bytes]:
    return {payload[:1] for _, payload in recorded()}


def test_the_recording_has_all_kinds_of_payloads() -> None:
    assert {GREETING, BIRTH, DOUBTS, b"\x00", b"\x01"} <= kinds()


extremes = st.sampled_from(
    [
        *range(8),
        *((1 << bits) - less for bits in (31, 32, 33, 62, 63, 64) for less in (2, 1)),
        1 << 62,
    ]
).map(_NUMBER.pack)
patches = st.one_of(extremes, st.binary(min_size=1, max_size=4))
edits = st.lists(
    st.tuples(st.sampled_from(["patch", "cut", "add"]), st.integers(0, 400), patches),
    max_size=3,
)


def changed(payload: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    for change, offset, patch in changes:
        at = offset % (len(payload) + 1)
        if change == "cut":
            payload = payload[:at]
        elif change == "add":
            payload += patch
        else:
            payload = payload[:at] + patch + payload[at + len(patch) :]
    return payload


injections = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        edits,
        st.sampled_from("abcx"),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=120)
@given(injections)
def test_a_changed_payload_stops_no_server(
    sent: list[tuple[int, list[tuple[str, int, bytes]], str, str]],
) -> None:
    servers = born()
    for number, changes, sender, receiver in sent:
        if sender == receiver:
            sender = STRANGER
        method, payload = recorded()[number % len(recorded())]
        payload = changed(payload, changes)
        for _ in range(2):
            getattr(servers[receiver].driver, method)(sender, payload)
            servers.run(0.05)
            if sender != STRANGER:
                servers.connect(sender, receiver)
                servers.run(0.05)
    servers.run(3)
    for one, other in ("ab", "bc", "ca"):
        servers.connect(one, other)
    servers.run(30)
    assert servers.leader in "abc"
    for name in "abc":
        lines = [line.partition(REFUSAL)[2] for line in servers[name].lines if REFUSAL in line]
        assert len({*lines}) == len(lines), lines
        assert all(": " in line for line in lines)
