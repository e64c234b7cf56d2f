"""Session reads on a mirror count the sequences of its origin, also those that it leaves out.

A mirror hears from the heartbeats of its origin up to where there is nothing more for it.
"""

import json

import pytest

from headwater.jetstream.copying import mirroring
from tests.kit.consumer_world import Frame, frames_in
from tests.kit.copy_world import CopyWorld

# Longer than the time between two heartbeats of an idle origin.
HEARTBEAT_S = 2.5


def read(world: CopyWorld, stream: str, **request: object) -> Frame:
    """The answer to a direct read, however long that waits."""
    reader = world.modern()
    body = json.dumps(request).encode()
    reader.send(
        b"SUB inbox 9\r\nPUB $JS.API.DIRECT.GET.%b inbox %d\r\n%b\r\n"
        % (stream.encode(), len(body), body)
    )
    world.copy(0.5)
    (frame,) = frames_in(bytes(reader.take()))
    return frame


def mark(frame: Frame) -> int:
    """The sequence up to which the answer says it is complete."""
    lines = dict(line.split(": ", 1) for line in frame.header.split("\r\n") if ": " in line)
    return int(lines["Nats-Session-Sequence"])


def filtered(**settings: object) -> CopyWorld:
    """An origin of which a mirror has one subject; the last messages are of the other one."""
    world = CopyWorld()
    world.make("O", subjects=["o.>"])
    mirrored = {"name": "O", "filter_subject": "o.a"}
    world.make("M", mirror=mirrored, allow_direct=True, **settings)
    world.publish(("o.a", b"1"), ("o.b", b"2"), ("o.b", b"3"))
    return world


def test_a_mirror_is_complete_up_to_messages_that_its_filter_leaves_out() -> None:
    world = filtered()
    world.copy(HEARTBEAT_S)
    frame = read(world, "M", last_by_subj="o.a", min_last_seq=3)
    assert frame.payload == b"1"
    assert mark(frame) == 3


def test_the_last_sequence_of_a_mirror_stays_that_of_its_last_message() -> None:
    world = filtered()
    world.copy(HEARTBEAT_S)
    assert world.call("STREAM.INFO.M")["state"]["last_seq"] == 1


def test_a_mirror_does_not_say_that_it_has_what_the_origin_has_not() -> None:
    world = filtered()
    world.copy(HEARTBEAT_S)
    frame = read(world, "M", last_by_subj="o.a", min_last_seq=4)
    assert frame.header.startswith("NATS/1.0 412")
    assert mark(frame) == 3


def test_a_read_waits_for_the_heartbeat_that_makes_its_mirror_complete() -> None:
    world = filtered()
    # The next heartbeat comes while the read waits.
    answers = []
    for _ in range(8):
        answers.append(read(world, "M", last_by_subj="o.a", min_last_seq=3).payload)
        if answers[-1]:
            break
    assert answers[-1] == b"1"


def test_a_mirror_is_complete_behind_each_message() -> None:
    world = filtered()
    world.publish(("o.a", b"4"))
    assert mark(read(world, "M", last_by_subj="o.a", min_last_seq=4)) == 4


def test_a_mirror_that_was_killed_is_complete_when_it_hears_of_its_origin_again() -> None:
    world = filtered()
    world.copy(HEARTBEAT_S)
    world.node.close_jetstream()
    world.disk.kill()
    next_life = CopyWorld(world.node.options, world.disk)
    assert mark(read(next_life, "M", last_by_subj="o.a", min_last_seq=1)) == 1
    next_life.copy(HEARTBEAT_S * 2)
    assert mark(read(next_life, "M", last_by_subj="o.a", min_last_seq=3)) == 3


def test_a_mirror_without_any_message_is_complete_too() -> None:
    world = CopyWorld()
    world.make("O", subjects=["o.>"])
    world.make("M", mirror={"name": "O", "filter_subject": "o.a"}, allow_direct=True)
    world.publish(("o.b", b"1"))
    world.copy(HEARTBEAT_S)
    frame = read(world, "M", last_by_subj="o.a", min_last_seq=1)
    assert frame.header.startswith("NATS/1.0 404")
    assert mark(frame) == 1


def test_an_unfiltered_mirror_writes_no_records_about_heartbeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[int] = []
    monkeypatch.setattr(mirroring, "completing", lambda *args: told.append(args[2]))
    world = CopyWorld()
    world.make("O", subjects=["o"])
    world.make("M", mirror={"name": "O"})
    world.publish(("o", b"1"))
    world.copy(HEARTBEAT_S * 2)
    assert not told


def test_another_origin_of_the_name_makes_a_mirror_that_has_no_message_begin_again() -> None:
    world = CopyWorld()
    world.make("O", subjects=["o.>"])
    world.make("M", mirror={"name": "O", "filter_subject": "o.a"}, allow_direct=True)
    world.publish(("o.b", b"1"), ("o.b", b"2"))
    world.copy(HEARTBEAT_S)
    world.call("STREAM.DELETE.O")
    world.copy(1)
    world.make("O", subjects=["o.>"])
    world.publish(("o.b", b"1"))
    world.copy(10)
    assert mark(read(world, "M", last_by_subj="o.a", min_last_seq=1)) == 1
