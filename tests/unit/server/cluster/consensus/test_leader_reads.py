"""The leases of a server's groups, and linearizable reads that rest on them or on rounds."""

import json

import pytest

from headwater.raft.entry import EntryKind
from tests.kit.reading_cluster import BY_ROUNDS, LEASE_S, Reading


@pytest.mark.parametrize("level", ["weak", "strong"])
@pytest.mark.parametrize("call", ["DIRECT_LEADER.GET.S.s.a", "DIRECT_LEADER.GET.S"])
def test_linearizable_per_request_reaches_the_leader_from_any_server(level: str, call: str) -> None:
    world = Reading(level)
    world.put("s2", "one")
    body = None if call.endswith(".a") else {"last_by_subj": "s.a"}
    for name in world.nodes:
        (frame,) = world.ask(name, call, body)
        assert (frame.status, frame.payload) == ("", b"one")


def test_a_healthy_idle_stream_never_refuses_and_its_last_sequence_does_not_move() -> None:
    world = Reading()
    world.put("s1", "one")
    last = world.node(world.leader).log.last_index
    for _ in range(30):
        assert world.last("s2") == "one"
        world.quiet(0.35)
    (info,) = world.ask("s1", "STREAM.INFO.S")
    assert json.loads(info.payload)["state"]["last_seq"] == 1
    assert world.node(world.leader).log.last_index > last


def test_groups_without_leases_are_silent_when_idle() -> None:
    world = Reading("default")
    world.quiet(3.0)
    before = world.node(world.leader).log.last_index
    world.quiet(10.0)
    assert world.node(world.leader).log.last_index == before


def test_a_leader_that_is_cut_off_answers_nothing_when_its_lease_is_over() -> None:
    world = Reading()
    world.put("s1", "one")
    leader = world.leader
    world.isolate(leader)
    world.quiet(LEASE_S)
    assert world.last(leader) == "503"
    (frame,) = world.ask(leader, "STREAM.MSG.GET.S", {"seq": 1})
    assert json.loads(frame.payload)["error"]["err_code"] == 10008


def test_a_new_leader_sees_what_was_acknowledged_and_the_old_one_answers_nothing() -> None:
    world = Reading()
    world.put("s1", "one")
    old = world.leader
    others = [name for name in world.nodes if name != old]
    world.isolate(old)
    world.quiet(5.0)
    assert world.put(others[0], "two") == 2
    assert [world.last(name) for name in (*others, old)] == ["two", "two", "503"]


def test_an_orderly_hand_over_serves_at_once() -> None:
    world = Reading()
    world.put("s1", "one")
    old = world.leader
    (frame,) = world.ask(old, "STREAM.LEADER.STEPDOWN.S")
    assert json.loads(frame.payload)["success"]
    assert world.leader not in ("", old)
    assert world.last(old) == "one"


def test_an_orderly_shutdown_serves_at_once() -> None:
    world = Reading()
    world.put("s1", "one")
    old = world.leader
    world.stop(old)
    world.quiet(0.2)
    new = world.leader
    assert new not in ("", old)
    kinds = {entry.kind for entry in world.node(new).log.entries_from(2, 1 << 20, 1 << 20)}
    assert EntryKind.RELEASE in kinds
    assert world.last(new) == "one"


def test_a_level_takes_effect_at_its_place_in_the_log() -> None:
    world = Reading("default")
    world.put("s1", "one")
    assert world.last("s2") == "503"
    config = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
    for level, answer in (("weak", "one"), ("strong", "one"), ("default", "503")):
        reply = world.call("s1", "STREAM.UPDATE.S", {**config, "read_consistency": level})
        assert "error" not in reply, reply
        assert [world.last(name) for name in world.nodes] == [answer] * 3


def test_linearizable_reads_by_quorum_need_no_lease() -> None:
    world = Reading(jetstream=BY_ROUNDS)
    world.put("s1", "one")
    before = world.node(world.leader).log.last_index
    assert {world.last(name) for name in world.nodes} == {"one"}
    (frame,) = world.ask("s1", "STREAM.MSG.GET.S", {"seq": 1})
    assert json.loads(frame.payload)["message"]["seq"] == 1
    assert world.last("s3", "DIRECT.GET.S.s.a") == "one"
    world.quiet(5.0)
    assert world.node(world.leader).log.last_index == before


def test_a_round_without_a_quorum_confirms_nothing() -> None:
    world = Reading(jetstream=BY_ROUNDS)
    world.put("s1", "one")
    leader = world.leader
    world.isolate(leader)
    frames = world.ask(leader, "DIRECT_LEADER.GET.S.s.a", wait_s=3.0)
    assert [frame.status for frame in frames] == ["503 Not Leading"]
