"""Requests of the system account in a cluster, asked of whole servers."""

from typing import Any

import pytest

from headwater.jetstream.account import AccountLimits
from headwater.jetstream.api.cluster_documents import peer_id
from headwater.jetstream.meta.records import MetaRecord, ReplicasChanged, StreamUnassigned
from headwater.server.cluster.assignment import system_requests
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.assignment.system_requests import SYSTEM_CALLS, find_system_call
from headwater.server.configuration.options import AccountOptions, UserOptions
from tests.kit.agreeing_cluster import AgreeingCluster

SYSTEM = {"user": "admin", "pass": "x"}
ACCOUNTS = (
    AccountOptions("$SYS", (UserOptions("admin", "x", "$SYS"),)),
    AccountOptions("A", (UserOptions("a", "x", "A"),), jetstream=AccountLimits()),
)


@pytest.fixture
def world() -> AgreeingCluster:
    return AgreeingCluster(accounts=ACCOUNTS, no_auth_user="a")


def ask(world: AgreeingCluster, operation: str, body: object = None, server: str = "s1") -> Any:
    return world.call(server, operation, body, **SYSTEM)


def servers_of(info: Any) -> set[str]:
    cluster = info["cluster"]
    return {cluster["leader"], *(each["name"] for each in cluster.get("replicas", ()))}


@pytest.mark.parametrize("name", SYSTEM_CALLS)
def test_a_call_is_found_by_its_name_and_its_words(name: str) -> None:
    call = SYSTEM_CALLS[name]
    words = ["A", "S"][: call.words]
    assert find_system_call(".".join([name, *words])) == (call, words)
    assert find_system_call(".".join([name, *words, "more"])) is None
    assert find_system_call(name + "X") is None


def test_the_preferred_server_leads_the_meta_group(world: AgreeingCluster) -> None:
    for _ in range(2):
        other = world.other_than(world.meta_leader)
        body = {"placement": {"preferred": other}}
        assert ask(world, "META.LEADER.STEPDOWN", body)["success"]
        world.quiet()
        assert world.meta_leader == other
    assert "error" not in world.create("s1", "S")


def test_the_meta_group_is_handed_to_anyone(world: AgreeingCluster) -> None:
    before = world.meta_leader
    assert ask(world, "META.LEADER.STEPDOWN", server=world.other_than(before))["success"]
    world.quiet()
    assert world.meta_leader not in ("", before)


@pytest.mark.parametrize(
    ("body", "code"),
    [({"placement": {"preferred": "nobody"}}, 10005), (b"{", 10025)],
)
def test_a_step_down_that_cannot_be_done(world: AgreeingCluster, body: Any, code: int) -> None:
    assert ask(world, "META.LEADER.STEPDOWN", body)["error"]["err_code"] == code


def test_other_accounts_get_no_answer(world: AgreeingCluster) -> None:
    for operation in ("META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.A"):
        assert world.replies("s1", operation) == []


def test_a_removed_server_leaves_the_cluster_and_its_streams() -> None:
    world = AgreeingCluster(4, accounts=ACCOUNTS, no_auth_user="a")
    world.create("s1", "S")
    world.publish("s1", "s.a", 5)
    info = world.call("s1", "STREAM.INFO.S")
    gone = next(each for each in sorted(servers_of(info)) if each != world.meta_leader)
    world.stop(gone)
    world.quiet()
    server = world.meta_leader
    assert ask(world, "SERVER.REMOVE", {"peer": gone}, server)["success"]
    world.quiet(12.0)
    after = world.call(server, "STREAM.INFO.S")
    assert gone not in servers_of(after)
    assert len(servers_of(after)) == 3
    assert after["state"]["messages"] == 5
    consensus = world.nodes[server].consensus
    assert consensus is not None
    assert consensus.meta is not None
    assert gone not in consensus.meta.membership.members()


def test_a_removed_server_is_admitted_when_it_connects_again() -> None:
    world = AgreeingCluster(accounts=ACCOUNTS, no_auth_user="a")
    gone = world.other_than(world.meta_leader)
    world.stop(gone)
    world.quiet()
    server = world.meta_leader
    assert ask(world, "SERVER.REMOVE", {"peer": gone}, server)["success"]
    world.quiet()
    world.start_server(gone)
    world.quiet(12.0)
    assert "error" not in world.create(gone, "S")


@pytest.mark.parametrize("operation", ["SERVER.REMOVE", "SERVER.EVACUATE"])
def test_a_server_that_is_not_named_or_not_known(world: AgreeingCluster, operation: str) -> None:
    assert ask(world, operation)["error"]["err_code"] == 10003
    assert ask(world, operation, {"peer": "nobody"})["error"]["err_code"] == 10044
    assert ask(world, operation, {"peer_id": "nobody"})["error"]["err_code"] == 10044
    assert ask(world, operation, b"{")["error"]["err_code"] == 10025


def test_streams_leave_a_server_that_is_evacuated(world: AgreeingCluster) -> None:
    for name, replicas in (("R1", 1), ("R2", 2)):
        world.create("s1", name, num_replicas=replicas)
        world.publish("s1", f"{name.lower()}.a", 4)
    info = world.call("s1", "STREAM.INFO.R2")
    gone = next(each for each in sorted(servers_of(info)) if each != world.meta_leader)
    assert ask(world, "SERVER.EVACUATE", {"peer_id": peer_id(gone)})["success"]
    world.quiet(12.0)
    for name, replicas in (("R1", 1), ("R2", 2)):
        after = world.call("s1", f"STREAM.INFO.{name}")
        assert gone not in servers_of(after)
        assert len(servers_of(after)) == replicas
        assert after["state"]["messages"] == 4


def test_a_stream_moves_off_a_server(world: AgreeingCluster) -> None:
    info = world.create("s1", "S", num_replicas=2)
    world.publish("s1", "s.a", 4)
    follower = info["cluster"]["replicas"][0]["name"]
    reply = ask(world, "ACCOUNT.STREAM.MOVE.A.S", {"server": follower})
    assert reply["type"].endswith("stream_update_response")
    assert "error" not in reply
    world.quiet(12.0)
    after = world.call("s1", "STREAM.INFO.S")
    assert follower not in servers_of(after)
    assert after["state"]["messages"] == 4


@pytest.mark.parametrize(
    ("operation", "body", "code"),
    [
        ("ACCOUNT.STREAM.MOVE.A.NONE", {"server": "s1"}, 10059),
        ("ACCOUNT.STREAM.MOVE.NOBODY.S", {"server": "s1"}, 10035),
        ("ACCOUNT.STREAM.MOVE.A.S", {"server": "nobody"}, 10044),
        ("ACCOUNT.STREAM.MOVE.A.S", {"server": "s1"}, 10005),
        ("ACCOUNT.STREAM.CANCEL_MOVE.A.NONE", None, 10059),
        ("ACCOUNT.STREAM.CANCEL_MOVE.NOBODY.S", None, 10035),
        ("ACCOUNT.STREAM.CANCEL_MOVE.A.S", None, 10129),
    ],
)
def test_a_move_that_cannot_be_done(
    world: AgreeingCluster, operation: str, body: object, code: int
) -> None:
    world.create("s1", "S")
    assert ask(world, operation, body)["error"]["err_code"] == code


def test_all_streams_of_an_account_are_purged(world: AgreeingCluster) -> None:
    world.create("s1", "R1", num_replicas=1)
    world.create("s1", "R3")
    assert ask(world, "ACCOUNT.PURGE.A") == {
        "type": "io.nats.jetstream.api.v1.account_purge_response",
        "initiated": True,
    }
    world.quiet()
    assert world.call("s2", "STREAM.NAMES")["total"] == 0
    assert ask(world, "ACCOUNT.PURGE.A\\B")["error"]["err_code"] == 10051


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[list[type[MetaRecord]]]:
    """The kinds of the records of each entry, with three streams in one."""
    found: list[list[type[MetaRecord]]] = []
    propose = MetaMachine.propose

    def noting(machine: MetaMachine, records: list[MetaRecord]) -> None:
        found.append([type(record) for record in records])
        propose(machine, records)

    monkeypatch.setattr(MetaMachine, "propose", noting)
    monkeypatch.setattr(system_requests, "STREAMS_MAX", 3)
    return found


def sizes(entries: list[list[type[MetaRecord]]], kind: type[MetaRecord]) -> list[int]:
    """The numbers of records of a kind in the entries that have some."""
    counts = [entry.count(kind) for entry in entries]
    return [count for count in counts if count]


def test_a_purge_of_many_streams_is_several_entries(
    world: AgreeingCluster, entries: list[list[type[MetaRecord]]]
) -> None:
    for number in range(8):
        world.create("s1", f"S{number}", num_replicas=1)
    assert ask(world, "ACCOUNT.PURGE.A")["initiated"]
    world.quiet()
    assert sizes(entries, StreamUnassigned) == [3, 3, 2]
    assert world.call("s2", "STREAM.NAMES")["total"] == 0


def test_an_evacuation_of_many_streams_is_several_entries(
    entries: list[list[type[MetaRecord]]],
) -> None:
    world = AgreeingCluster(4, accounts=ACCOUNTS, no_auth_user="a")
    for number in range(9):
        # Each stream is on all servers, until there is a place for those of one.
        world.create("s1", f"S{number}", num_replicas=4 if number < 3 else 3)
    held = dict.fromkeys(world.nodes, 0)
    for number in range(3, 9):
        for server in servers_of(world.call("s1", f"STREAM.INFO.S{number}")):
            held[server] += 1
    gone = max(held, key=lambda server: (server != world.meta_leader, held[server]))
    entries.clear()
    assert ask(world, "SERVER.EVACUATE", {"peer": gone})["success"]
    world.quiet(12.0)
    # A round whose streams have no other place leads to the next one.
    assert sum(sizes(entries, ReplicasChanged)) == held[gone]
    assert max(sizes(entries, ReplicasChanged)) <= 3
    for number in range(3, 9):
        assert gone not in servers_of(world.call("s1", f"STREAM.INFO.S{number}"))
