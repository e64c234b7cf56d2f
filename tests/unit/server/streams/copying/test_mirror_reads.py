"""Mirrors answer direct reads of their origin once they have nearly caught up."""

from collections import Counter

from tests.kit.consumer_world import frames_in
from tests.kit.copy_world import CopyWorld

NS_PER_S = 1_000_000_000


def answered_by(world: CopyWorld, count: int = 20) -> set[str]:
    """The streams that answer reads of the origin."""
    seen: Counter[str] = Counter()
    reader = world.modern()
    reader.send(b"SUB inbox 9\r\n")
    for _ in range(count):
        reader.send(b"PUB $JS.API.DIRECT.GET.O.o inbox 0\r\n\r\n")
        world.settle()
    for frame in frames_in(bytes(reader.take())):
        for line in frame.header.split("\r\n"):
            if line.startswith("Nats-Stream: "):
                seen[line.removeprefix("Nats-Stream: ")] += 1
    return {*seen}


def mirrored(**config: object) -> CopyWorld:
    world = CopyWorld()
    world.make("O", subjects=["o"], allow_direct=True)
    world.publish(("o", b"1"))
    world.make("M", mirror={"name": "O"}, mirror_direct=True, **config)
    return world


def test_origin_and_mirror_share_the_reads() -> None:
    assert answered_by(mirrored()) == {"O", "M"}


def test_a_mirror_answers_alone_when_the_origin_is_gone() -> None:
    world = mirrored()
    world.call("STREAM.DELETE.O")
    assert answered_by(world) == {"M"}


def test_a_mirror_that_has_heard_nothing_for_too_long_is_silent() -> None:
    world = mirrored(max_staleness=10 * NS_PER_S)
    assert answered_by(world) == {"O", "M"}
    world.call("STREAM.DELETE.O")
    assert answered_by(world) == {"M"}
    world.copy(11)
    assert answered_by(world) == set()


def test_a_mirror_of_an_origin_without_direct_reads_is_silent() -> None:
    world = CopyWorld()
    world.make("O", subjects=["o"])
    world.publish(("o", b"1"))
    world.make("M", mirror={"name": "O"}, mirror_direct=True)
    assert answered_by(world) == set()


def test_a_promoted_mirror_answers_for_itself_alone() -> None:
    world = mirrored()
    world.change("M", subjects=["m"])
    assert answered_by(world) == {"O"}


def test_a_mirror_of_a_part_answers_no_session_read_of_its_origin() -> None:
    """It has what its filter lets through, and would say of the rest that it is not there."""
    world = CopyWorld()
    world.make("O", subjects=["o.>"], allow_direct=True)
    world.publish(("o.a", b"1"), ("o.b", b"2"))
    world.make("M", mirror={"name": "O", "filter_subject": "o.a"}, mirror_direct=True)
    world.copy(5)
    reader = world.modern()
    reader.send(b"SUB inbox 9\r\n")
    for _ in range(20):
        body = b'{"min_last_seq":2}'
        reader.send(b"PUB $JS.API.DIRECT.GET.O.o.b inbox %d\r\n%b\r\n" % (len(body), body))
        world.settle()
    assert [frame.payload for frame in frames_in(bytes(reader.take()))] == [b"2"] * 20


def test_a_whole_mirror_answers_session_reads_of_its_origin() -> None:
    world = mirrored()
    seen = set()
    reader = world.modern()
    reader.send(b"SUB inbox 9\r\n")
    for _ in range(20):
        body = b'{"min_last_seq":1}'
        reader.send(b"PUB $JS.API.DIRECT.GET.O.o inbox %d\r\n%b\r\n" % (len(body), body))
        world.settle()
    for frame in frames_in(bytes(reader.take())):
        seen |= {line for line in frame.header.split("\r\n") if line.startswith("Nats-Stream: ")}
    assert seen == {"Nats-Stream: O", "Nats-Stream: M"}
