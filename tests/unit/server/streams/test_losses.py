"""Losses that the row of a stream allows are told: state, log line, advisory."""

import json

import pytest

from headwater.server.configuration.options import Options
from headwater.testing.disk import SimDisk
from tests.kit.consumer_world import frames_in
from tests.kit.stored_world import StoredWorld, streaming

ADVISORY = "$JS.EVENT.ADVISORY.STREAM.LOST.S"
COLLECTOR = {"subjects": [ADVISORY], "name": "L"}
OPTIONS = Options(jetstream=streaming(max_file_bytes=1 << 24))


def fallen(messages: int, **settings: object) -> StoredWorld:
    """A server whose machine fell after a stream took messages, and then another one synced."""
    world = StoredWorld(OPTIONS, SimDisk()).start()
    world.create("S", **settings)
    world.request("$JS.API.STREAM.CREATE.L", COLLECTOR)
    peer = world.modern()
    for _ in range(messages):
        world.request("s", 1, peer)
    world.disk.power_loss("strict")
    return StoredWorld(OPTIONS, world.disk).start()


def advisories(world: StoredWorld) -> list[dict[str, object]]:
    """The advisories of losses that a stream has stored."""
    peer = world.modern()
    peer.send(b"SUB got 1\r\n")
    found = []
    for sequence in range(1, world.request("$JS.API.STREAM.INFO.L")["state"]["messages"] + 1):
        peer.take()
        request = json.dumps({"seq": sequence}).encode()
        peer.send(f"PUB $JS.API.DIRECT.GET.L got {len(request)}\r\n".encode() + request + b"\r\n")
        (frame,) = frames_in(peer.take())
        found.append(json.loads(frame.payload))
    return found


def test_a_lost_suffix_is_in_the_state_in_the_log_and_in_an_advisory() -> None:
    world = fallen(3)
    info = world.request("$JS.API.STREAM.INFO.S")["state"]
    assert info["messages"] == 0
    first_kept = info["last_seq"] + 1
    assert first_kept > 3
    assert info["lost"]["msgs"][:3] == [1, 2, 3]
    (line,) = [each for each in world.log_lines if "are lost" in each]
    assert f"Stream '$G > S': messages with the sequences 1 to {first_kept - 1} are lost" in line
    assert "publish again what its readers miss" in line
    assert world.request("s", 1)["seq"] == first_kept


def test_the_advisory_names_the_range_and_can_be_stored() -> None:
    world = StoredWorld(OPTIONS, SimDisk()).start()
    world.create("S")
    world.request("$JS.API.STREAM.CREATE.L", {**COLLECTOR, "allow_direct": True})
    world.request("s", 1)
    world.disk.power_loss("strict")
    again = StoredWorld(OPTIONS, world.disk).start()
    (advisory,) = advisories(again)
    last = again.request("$JS.API.STREAM.INFO.S")["state"]["last_seq"]
    assert advisory["type"] == "io.nats.jetstream.advisory.v1.stream_lost"
    assert advisory["stream"] == "S"
    assert advisory["lost"] == [{"first_seq": 1, "last_seq": last}]


@pytest.mark.parametrize("kills", [1, 2])
def test_a_kill_loses_nothing_and_tells_nothing(kills: int) -> None:
    world = StoredWorld(OPTIONS, SimDisk()).start()
    world.create("S")
    world.request("s", 1)
    for _ in range(kills):
        world = world.after_restart().start()
    assert "lost" not in world.request("$JS.API.STREAM.INFO.S")["state"]
    assert not [line for line in world.log_lines if "lost" in line]


def test_a_loss_is_told_once() -> None:
    world = fallen(1).after_restart().start()
    assert world.request("$JS.API.STREAM.INFO.S")["state"]["lost"]["msgs"][0] == 1
    assert not [line for line in world.log_lines if "are lost" in line]
