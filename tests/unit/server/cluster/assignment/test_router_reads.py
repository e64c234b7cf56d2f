"""The levels of reads on a replicated stream: the servers that answer, and what they answer."""

import json

import pytest

from tests.kit.reading_cluster import LEASE_S, Reading

# The time for which a session read waits.
WAIT_S = 0.3


def followers(world: Reading) -> list[str]:
    leader = world.leader
    return [name for name in world.nodes if name != leader]


def cut_off_follower(world: Reading) -> str:
    """A follower that lacks the last message of the stream, and does not know it."""
    world.put(world.leader, "old")
    (name, other) = followers(world)
    world.isolate(name)
    world.put(other, "new")
    return name


# --- weak ---------------------------------------------------------------------------------------


def test_weak_every_replica_answers_also_one_that_is_cut_off() -> None:
    world = Reading("weak")
    name = cut_off_follower(world)
    assert world.last(name, "DIRECT.GET.S.s.a") == "old"
    assert [world.last(each, "DIRECT.GET.S.s.a") for each in world.nodes if each != name] == [
        "new"
    ] * 2
    assert world.last(name) == "503"


def test_weak_with_allow_direct_a_replica_answers_when_there_is_no_leader() -> None:
    world = Reading("default", config={"allow_direct": True})
    world.put("s1", "one")
    for name in world.nodes:
        world.isolate(name)
    world.quiet(5.0)
    assert not world.leader
    assert [world.last(name, "DIRECT.GET.S.s.a") for name in world.nodes] == ["one"] * 3


# --- session ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["s.a", "s.none"])
def test_session_a_replica_waits_until_it_is_complete(key: str) -> None:
    world = Reading("weak")
    name = cut_off_follower(world)
    body = {"last_by_subj": key, "min_last_seq": 2}
    (late,) = world.ask(name, "DIRECT.GET.S", body, WAIT_S)
    assert late.status.startswith("412")
    assert "Nats-Session-Sequence: 1" in late.header
    (complete,) = world.ask(world.leader, "DIRECT.GET.S", body, WAIT_S)
    assert complete.status[:3] in ("", "404")
    assert "Nats-Session-Sequence: 2" in complete.header


def test_session_a_replica_answers_as_soon_as_it_is_complete() -> None:
    world = Reading("weak")
    name = cut_off_follower(world)
    asker = world.client(name, headers=True, no_responders=True)
    asker.take()
    body = json.dumps({"last_by_subj": "s.a", "min_last_seq": 2}).encode()
    asker.send(b"SUB i 1\r\nPUB $JS.API.DIRECT.GET.S i %d\r\n%b\r\n" % (len(body), body))
    world.settle()
    assert b"MSG" not in asker.take()
    replica = world.replica(name)
    entry = world.replica(world.leader).stream
    assert replica.follower is not None
    assert replica.follower.reads.waiting
    assert entry.visible_sequence == 2
    for other in world.nodes:
        if other != name:
            world.heal(name, other)
    # Servers meet again after a while; the read has been answered before that.
    world.quiet(5.0)
    assert not replica.follower.reads.waiting
    assert replica.stream.visible_sequence == 2


# --- linearizable -------------------------------------------------------------------------------


def test_linearizable_all_servers_cut_from_each_other_say_so_at_once() -> None:
    world = Reading("strong")
    world.put("s1", "one")
    for name in world.nodes:
        world.isolate(name)
    world.quiet(LEASE_S + 3.0)
    for name in world.nodes:
        for call in ("DIRECT_LEADER.GET.S.s.a", "DIRECT.GET.S.s.a"):
            assert world.last(name, call) == "503"


def test_a_strong_stream_is_answered_by_its_leader_alone_whatever_allow_direct_says() -> None:
    world = Reading("strong", config={"allow_direct": False})
    name = cut_off_follower(world)
    assert world.last(name, "DIRECT.GET.S.s.a") == "503"
    assert [world.last(each, "DIRECT.GET.S.s.a") for each in world.nodes if each != name] == [
        "new"
    ] * 2


@pytest.mark.parametrize(
    "body",
    [{"multi_last": ["s.>"]}, {"multi_last": ["s.a", "s.b"]}, {"next_by_subj": "s.>", "batch": 9}],
)
def test_a_batch_is_answered_through_any_server(body: dict[str, object]) -> None:
    world = Reading("strong")
    world.put("s1", "one")
    for name in world.nodes:
        message, end = world.ask(name, "DIRECT_LEADER.GET.S", body)
        assert message.payload == b"one"
        assert end.status == "204 EOB"


def test_a_leader_that_lost_its_lease_says_so_to_what_still_reaches_it() -> None:
    world = Reading("strong")
    world.put("s1", "one")
    leader = world.leader
    name = followers(world)[0]
    # The others are gone without a word, so the leader does not know it yet.
    world.node(leader).grant_leases(0)
    world.quiet(LEASE_S)
    assert world.leader == leader
    assert world.last(name) == "503 Not Leading"
    assert world.last(leader) == "503"
    (frame,) = world.ask(name, "STREAM.MSG.GET.S", {"seq": 1})
    error = json.loads(frame.payload)["error"]
    assert (error["code"], error["err_code"]) == (503, 10008)


# --- mirrors ------------------------------------------------------------------------------------


def mirror(world: Reading, level: str) -> None:
    """Have a mirror M of S, with all that S has."""
    body = {"subjects": [], "mirror": {"name": "S"}, "read_consistency": level}
    assert "error" not in world.create("s1", "M", **body)
    world.quiet(3.0)


def test_other_mirrors_never_answer_for_a_strong_origin() -> None:
    world = Reading("strong")
    world.put("s1", "one")
    mirror(world, "weak")
    answers = [world.ask(name, "DIRECT.GET.S.s.a") for name in world.nodes for _ in range(5)]
    assert all("Nats-Stream: S" in frame.header for (frame,) in answers)


def test_sequential_a_strong_mirror_answers_for_itself_by_its_leader() -> None:
    world = Reading("weak")
    world.put("s1", "one")
    mirror(world, "strong")
    for name in world.nodes:
        (frame,) = world.ask(name, "DIRECT.GET.M.s.a")
        assert "Nats-Stream: M" in frame.header
        assert world.last(name, "DIRECT_LEADER.GET.M.s.a") == "503"
        (origin,) = world.ask(name, "DIRECT.GET.S.s.a")
        assert "Nats-Stream: S" in origin.header


# --- changes of the leader ----------------------------------------------------------------------


def test_linearizable_reads_resume_within_one_lease_of_an_election_after_a_crash() -> None:
    world = Reading("strong")
    world.put("s1", "one")
    world.crash(world.leader, is_power_lost=True)
    elected_s = answered_s = 0.0
    for _ in range(200):
        world.quiet(0.05)
        elected = [name for name in world.nodes if world.node(name).leader == name]
        elected_s += 0.05 if elected else 0.0
        if world.leader and world.last(world.leader) == "one":
            answered_s = elected_s
            break
    assert 0.0 < answered_s <= LEASE_S + 0.3


def test_a_stream_that_is_scaled_down_to_one_server_is_always_readable() -> None:
    world = Reading("strong")
    world.put("s1", "one")
    config = {"name": "S", "subjects": ["s.>"], "num_replicas": 1, "read_consistency": "strong"}
    assert "error" not in world.call("s1", "STREAM.UPDATE.S", config)
    world.quiet(5.0)
    assert [world.last(name) for name in world.nodes] == ["one"] * 3
    (info,) = world.ask("s1", "STREAM.INFO.S")
    leader = json.loads(info.payload)["cluster"]["leader"]
    world.isolate(leader)
    world.quiet(LEASE_S + 3.0)
    assert world.last(leader) == "one"


def test_a_read_that_was_sent_to_a_leader_which_is_cut_off_is_refused_soon() -> None:
    world = Reading("strong")
    world.put("s1", "one")
    leader = world.leader
    name = followers(world)[0]
    world.muffle(leader)
    frames = world.ask(name, "DIRECT_LEADER.GET.S.s.a", wait_s=2.0)
    assert [frame.status for frame in frames] == ["503 Not Leading"]
