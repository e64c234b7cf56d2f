"""Direct reads of last messages that come together, and the streams that answer them."""

import json
from typing import Final

import pytest

from headwater.server.configuration.options import Options
from tests.kit.consumer_world import frames_in
from tests.kit.stored_world import StoredWorld, streaming

GET: Final = "$JS.API.DIRECT.GET."


@pytest.fixture
def world() -> StoredWorld:
    """A server with a stream that allows direct reads and one that does not."""
    world = StoredWorld(Options(jetstream=streaming())).start()
    world.create("S", subjects=["s.>"], allow_direct=True)
    world.create("T", subjects=["t.>"])
    writer = world.modern()
    for subject in (b"s.a", b"s.b", b"t.a"):
        writer.send(b"PUB %b 1\r\n%b\r\n" % (subject, subject[-1:]))
    return world


def read(world: StoredWorld, *subjects: str) -> list[tuple[str, bytes, str]]:
    """The reply subjects, payloads and statuses of reads that come in one piece."""
    reader = world.modern()
    reader.send(b"SUB in.* 1\r\n")
    reader.take()
    lines = [f"PUB {GET}{name} in.{number} 0\r\n\r\n" for number, name in enumerate(subjects)]
    reader.send("".join(lines).encode())
    return [(each.subject, each.payload, each.status) for each in frames_in(reader.take())]


def subjects_and_payloads(found: list[tuple[str, bytes, str]]) -> list[tuple[str, bytes]]:
    return sorted((subject, payload) for subject, payload, _ in found)


def test_reads_that_come_together_are_each_answered(world: StoredWorld) -> None:
    found = read(world, "S.s.a", "S.s.b", "S.s.a")
    assert subjects_and_payloads(found) == [("in.0", b"a"), ("in.1", b"b"), ("in.2", b"a")]


def test_a_subject_without_a_message_is_answered_with_404(world: StoredWorld) -> None:
    found = {subject: status for subject, _, status in read(world, "S.s.a", "S.s.none")}
    assert found["in.1"].startswith("404")


def test_a_stream_without_direct_reads_does_not_answer(world: StoredWorld) -> None:
    found = {subject: status for subject, _, status in read(world, "S.s.a", "T.t.a")}
    assert found["in.1"].startswith("503")


def test_a_wildcard_among_the_subjects_changes_no_other_answer(world: StoredWorld) -> None:
    found = read(world, "S.s.a", "S.s.>")
    assert subjects_and_payloads(found)[0] == ("in.0", b"a")


def test_a_body_names_a_message_by_its_sequence(world: StoredWorld) -> None:
    reader = world.modern()
    reader.send(b"SUB inbox 1\r\n")
    body = json.dumps({"seq": 2}).encode()
    reply = reader.ask(b"PUB %bS inbox %d\r\n%b\r\n" % (GET.encode(), len(body), body))
    assert b"Nats-Subject: s.b" in reply
