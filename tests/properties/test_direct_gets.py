"""Direct reads that come many at a time get the answers they get one by one.

Two servers have the same streams. One gets all frames of a reader in one read: if these are only
requests of the shortest form, they are answered together. The other gets them frame by frame, and
its requests say `{}`, which asks for the same and is answered the long way.
"""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.stored_world import StoredWorld
from tests.kit.world import Peer

FRAME = re.compile(rb"(H?)MSG (\S+) \S+ (?:\d+ )?(\d+)\r\n")
STREAMS = ("FILE", "MEMORY", "CLOSED", "ABSENT")
# No message is stored under the third key; the last two are patterns.
KEYS = ("a", "b", "never", "*", "a.>")

reads = st.tuples(
    st.sampled_from(["DIRECT.GET"] * 8 + ["DIRECT_LEADER.GET", "STREAM.INFO"]),
    st.sampled_from(["FILE"] * 4 + [*STREAMS]),
    st.sampled_from(["a", "b", *KEYS]),
)
publishes = st.tuples(st.just("publish"), st.sampled_from(STREAMS[:2]), st.sampled_from("ab"))
# The frames that come in one read; one turn of the loop has several reads.
arrivals = st.one_of(
    st.lists(reads, min_size=1, max_size=6),
    st.lists(publishes, min_size=1, max_size=3),
    st.lists(reads | publishes, max_size=6),
)
turns = st.lists(st.lists(arrivals, min_size=1, max_size=4), min_size=1, max_size=4)


def opened(listens: bool, verbose: bool) -> tuple[Peer, Peer]:
    """A reader, and a client that may listen to some of its requests."""
    world = StoredWorld().start()
    world.create("FILE", subjects=["file.>"], allow_direct=True)
    world.create("MEMORY", subjects=["memory.>"], allow_direct=True, storage="memory")
    world.create("CLOSED", subjects=["closed.>"])
    listener = world.modern()
    if listens:
        listener.send(b"SUB $JS.API.DIRECT.GET.FILE.file.b 1\r\n")
    reader = world.modern(no_responders=True, verbose=verbose, pedantic=False)
    reader.send(b"SUB inbox.* 1\r\nPUB file.a 1\r\n1\r\nPUB memory.a 1\r\n1\r\n")
    reader.take()
    return reader, listener


def frame(number: int, what: tuple[str, str, str], body: bytes) -> bytes:
    call, stream, key = what
    if call == "publish":
        return f"PUB {stream.lower()}.{key} 5\r\n{number:05}\r\n".encode()
    subject = f"$JS.API.{call}.{stream}" + (f".{stream.lower()}.{key}" if "GET" in call else "")
    reply = "_R_.no" if number % 5 == 4 else f"inbox.{number}"
    return f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n"


def answers(data: bytes) -> dict[bytes, list[bytes]]:
    """The answers by reply subject, because answers on two subjects may come in any order."""
    found: dict[bytes, list[bytes]] = {b"refused": re.findall(rb"-ERR.*", data)}
    position = 0
    while match := FRAME.search(data, position):
        position = match.end() + int(match[3])
        # Documents have the times and ids of their server.
        if b"io.nats.jetstream.api" not in data[match.end() : position]:
            found.setdefault(match[2], []).append(match[1] + data[match.end() : position])
    return found


@given(turns, st.booleans(), st.booleans())
@settings(max_examples=200)
def test_reads_at_once_are_answered_as_one_by_one(
    turns: list[list[list[tuple[str, str, str]]]], listens: bool, verbose: bool
) -> None:
    together, first_listener = opened(listens, verbose)
    apart, second_listener = opened(listens, verbose)
    number = 0
    for turn in turns:
        for arrival in turn:
            numbered = [*enumerate(arrival, number)]
            number += len(arrival)
            together.push(b"".join(frame(each, what, b"") for each, what in numbered))
            for each, what in numbered:
                apart.push(frame(each, what, b"{}"))
        together.world.settle()
        apart.world.settle()
    assert answers(together.take()) == answers(apart.take())
    assert first_listener.take().count(b"inbox.") == second_listener.take().count(b"inbox.")
    first, second = (peer.world.node.broker.counters for peer in (together, apart))
    assert (first.in_msgs, first.out_msgs) == (second.in_msgs, second.out_msgs)
