"""The memory that servers have of each other."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import PeerError
from headwater.server.cluster.consensus.peers import (
    CLUSTER_BYTES,
    PEERS_MAX,
    Greeting,
    PeerMemory,
    ServerFacts,
    decode_greeting,
    encode_greeting,
)


def facts(store: str = "s", number: int = 5, start: str = "x") -> ServerFacts:
    return ServerFacts(store.encode() * 16, number, start.encode() * 8)


@pytest.mark.parametrize(
    ("remembered", "is_outdated"),
    [
        (facts(), False),
        (facts(number=4, start="w"), False),
        (facts(number=6, start="y"), True),
        (facts(number=5, start="y"), True),
        (facts(store="t"), True),
    ],
)
def test_a_server_learns_that_it_has_forgotten(remembered: ServerFacts, is_outdated: bool) -> None:
    assert facts().is_outdated_by(remembered) is is_outdated


def test_a_later_start_is_remembered_in_place_of_an_earlier_one() -> None:
    memory = PeerMemory()
    assert memory.remember("b", facts(number=5))
    assert not memory.remember("b", facts(number=5))
    assert memory.remember("b", facts(number=6, start="y"))
    assert memory.get("b") == facts(number=6, start="y")
    assert memory.get("c") is None


def test_an_earlier_start_is_not_remembered() -> None:
    memory = PeerMemory({"b": facts(number=6)})
    assert not memory.remember("b", facts(number=5))
    assert not memory.remember("b", facts(number=6, start="z"))
    assert memory["b"] == facts(number=6)


def test_an_emptied_store_is_remembered_by_its_new_identity() -> None:
    memory = PeerMemory({"b": facts(number=6)})
    assert memory.remember("b", facts(store="t", number=1))
    assert memory["b"] == facts(store="t", number=1)


def test_a_copied_store_is_refused_by_name() -> None:
    memory = PeerMemory({"b": facts("b")})
    own = facts("a")
    assert memory.refusal("b", facts("b"), own) == ""
    assert memory.refusal("c", facts("c"), own) == ""
    assert (
        memory.refusal("c", facts("a"), own) == "server 'c' runs on a copy of this server's store"
    )
    assert memory.refusal("c", facts("b"), own) == (
        "server 'c' runs on a copy of the store of server 'b'"
    )


def test_strangers_cannot_fill_the_memory() -> None:
    known = {f"s{each}": ServerFacts(each.to_bytes(16), 1, bytes(8)) for each in range(PEERS_MAX)}
    memory = PeerMemory(known)
    assert memory.refusal("s1", known["s1"], facts("a")) == ""
    assert "remembered already" in memory.refusal("new", facts("new"[:1]), facts("a"))


@pytest.mark.parametrize("remembered", [None, facts("r")])
def test_a_greeting_has_bytes(remembered: ServerFacts | None) -> None:
    greeting = Greeting(facts(), remembered, b"c" * CLUSTER_BYTES)
    assert decode_greeting(encode_greeting(greeting)) == greeting


def test_the_memory_has_bytes() -> None:
    memory = PeerMemory({"b": facts("b"), "a": facts("a", 7)})
    again = PeerMemory.decode(memory.encode())
    assert again.encode() == memory.encode()
    assert again["a"] == facts("a", 7)


_SOUND = [
    encode_greeting(Greeting(facts(), facts("r"))),
    PeerMemory({"b": facts("b"), "ab": facts("a", 7)}).encode(),
]


@given(st.binary(max_size=80), st.sampled_from(_SOUND), st.integers(0, 90), st.integers(0, 255))
def test_any_bytes_are_taken_or_refused(
    data: bytes, sound: bytes, position: int, change: int
) -> None:
    changed = bytearray(sound)
    changed[position % len(changed)] ^= change
    for each in (data, sound[:position], bytes(changed)):
        with suppress(PeerError):
            assert encode_greeting(decode_greeting(each)) == each
        with suppress(PeerError):
            assert len(PeerMemory.decode(each).encode()) == len(each)


@pytest.mark.parametrize("data", [b"", b"\x09\x00", b"\x01\x02" + bytes(32)])
def test_a_malformed_greeting_is_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        decode_greeting(data)
