"""A stream cannot tell operations of one read from the same ones in reads of their own.

Two servers have the same stream and consumer. One gets the operations of a client in one read, the
other gets each in a read of its own within the same turn, which takes the short ways for a read
with a single operation. Both clients must read the same bytes, and both streams hold the same.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.server.configuration.options import Options
from tests.kit.stored_world import StoredWorld, streaming

NEXT = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
ACK = b"$JS.ACK.S.C.1.%d.%d.1767323045000000000.0"
HEADER = b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n"

replies = st.sampled_from([None, b"inbox.1", b"inbox.2", b"s.copy", b"_R_.x", b"nobody"])
numbers = st.integers(1, 4)
subjects = st.one_of(
    st.sampled_from([b"s.a", b"s.b", b"s..a", b"s.", b"plain", b"nobody", b"_GR_.x", b"_GR_.y"]),
    st.sampled_from([NEXT, NEXT + b"X", b"$JS.API.DIRECT.GET.S.s.a", b"$JS.API.DIRECT.GET.T.s.a"]),
    numbers.map(lambda number: ACK % (number, number)),
    numbers.map(lambda number: ACK % (number, number) + b"."),
    numbers.map(lambda number: (ACK % (number, number)).replace(b".C.", b"..C.")),
)
bodies = st.sampled_from([b"", b"x", b"+ACK", b"-NAK", b'{"batch":2,"no_wait":true}'])


@st.composite
def operations(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["PUB", "PUB", "PUB", "HPUB", "PING", "SUB"]))
    if kind == "PING":
        return b"PING\r\n"
    if kind == "SUB":
        return draw(st.sampled_from([b"SUB $JS.ACK.> 7\r\n", b"SUB s.> 8\r\n", b"UNSUB 7\r\n"]))
    subject, reply, body = draw(subjects), draw(replies), draw(bodies)
    words = subject if reply is None else subject + b" " + reply
    if kind == "HPUB":
        block = HEADER % draw(numbers)
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (
            words,
            len(block),
            len(block + body),
            block,
            body,
        )
    return b"PUB %b %d\r\n%b\r\n" % (words, len(body), body)


def play(turns: list[list[bytes]], is_together: bool) -> tuple[bytes, object, object]:
    """Perform the operations of each turn, in one read or in a read for each."""
    world = StoredWorld(Options(jetstream=streaming())).start()
    world.create("S", subjects=["s.>", "_GR_.>"], allow_direct=True)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    created = {"stream_name": "S", "config": config}
    world.request("$JS.API.CONSUMER.DURABLE.CREATE.S.C", created)
    peer = world.modern()
    peer.send(b"SUB inbox.* 1\r\nSUB plain 2\r\nPUB s.a 1\r\nx\r\nPUB s.a 1\r\ny\r\n")
    for turn in turns:
        for read in [b"".join(turn)] if is_together else turn:
            peer.push(read)
        world.settle()
    received = bytes(peer.connection.received)
    stream = world.request("$JS.API.STREAM.INFO.S")["state"]
    consumer = world.request("$JS.API.CONSUMER.INFO.S.C")
    return received, stream, consumer


@settings(max_examples=150)
@given(st.lists(st.lists(operations(), min_size=1, max_size=5), min_size=1, max_size=4))
def test_together_or_in_reads_of_their_own(turns: list[list[bytes]]) -> None:
    assert play(turns, is_together=True) == play(turns, is_together=False)
