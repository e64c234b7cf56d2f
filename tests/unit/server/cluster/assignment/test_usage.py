"""The usage of accounts across servers, told by whole servers and by frames."""

import json
from typing import Any

import pytest

from headwater.jetstream.account import AccountLimits
from headwater.server.cluster.assignment.usage import KNOWN_MAX, UsageTotals
from headwater.server.cluster.assignment.usage_frames import (
    ACCOUNTS_MAX,
    AccountUsage,
    MalformedUsage,
    encode_usage,
)
from headwater.server.cluster.consensus.notices import USAGE
from headwater.server.configuration.options import AccountOptions, UserOptions
from tests.kit.agreeing_cluster import AgreeingCluster
from tests.kit.consumer_world import frames_in


def test_bytes_count_once_for_each_replica() -> None:
    world = AgreeingCluster()
    world.create("s1", "R3", max_bytes=1000)
    world.create("s1", "R1", num_replicas=1, storage="memory", max_bytes=500)
    world.publish("s2", "r3.a", 4)
    world.publish("s3", "r1.a", 3)
    world.quiet()
    once = world.call("s1", "STREAM.INFO.R3")["state"]["bytes"]
    in_memory = world.call("s1", "STREAM.INFO.R1")["state"]["bytes"]
    for name in world.nodes:
        info = world.call(name, "INFO")
        assert (info["storage"], info["memory"]) == (3 * once, in_memory)
        assert (info["reserved_storage"], info["reserved_memory"]) == (1000, 500)
        assert info["streams"] == 2


def test_consumers_count_as_soon_as_they_are_created() -> None:
    world = AgreeingCluster()
    for number in range(4):
        world.create("s1", f"S{number}", num_replicas=1 + number % 3)
        config = {"durable_name": "C", "ack_policy": "explicit"}
        body = {"stream_name": f"S{number}", "config": config}
        world.call("s2", f"CONSUMER.DURABLE.CREATE.S{number}.C", body)
        assert world.call("s3", "INFO")["consumers"] == number + 1
    world.call("s1", "CONSUMER.DELETE.S0.C")
    assert world.call("s2", "INFO")["consumers"] == 3


def sent_usage(world: AgreeingCluster) -> list[bytes]:
    """The notices of usage that servers send from now on."""
    sent: list[bytes] = []
    for node in world.nodes.values():
        consensus = node.consensus
        assert consensus is not None

        def tell(peer: str, payload: bytes, send: Any = consensus._links.send_consensus) -> None:
            if payload[:1] == USAGE:
                sent.append(payload)
            send(peer, payload)

        consensus._links.send_consensus = tell  # type: ignore[method-assign]
    return sent


def test_idle_servers_tell_nothing() -> None:
    world = AgreeingCluster()
    world.create("s1", "S")
    world.publish("s1", "s.a")
    world.quiet()
    sent = sent_usage(world)
    world.quiet(10.0)
    assert sent == []
    world.publish("s1", "s.a")
    world.quiet(2.0)
    # Each of three servers tells two others.
    assert len(sent) == 6


def test_a_server_that_comes_back_hears_the_whole() -> None:
    world = AgreeingCluster()
    cluster = world.create("s1", "S", num_replicas=1)["cluster"]
    world.publish("s1", "s.a", 7)
    world.quiet()
    away = world.other_than(cluster["leader"])
    world.stop(away)
    world.quiet()
    world.start_server(away)
    world.quiet()
    node = world.nodes[away]
    assert node.jetstream is not None
    used = world.call(away, "STREAM.INFO.S")["state"]["bytes"]
    assert node.jetstream.accounts["$G"].elsewhere.file.used == used > 0


def limited(max_storage: int) -> dict[str, Any]:
    """Options with one account that may store so many bytes on all servers together."""
    user = UserOptions("a", "p", "A")
    limits = AccountLimits(max_storage=max_storage)
    return {"accounts": (AccountOptions("A", (user,), jetstream=limits),)}


def test_publishes_are_refused_when_all_servers_together_are_full() -> None:
    world = AgreeingCluster(**limited(3_000))
    login = {"user": "a", "pass": "p"}
    config = {"name": "S", "subjects": ["s"], "num_replicas": 3}
    world.call("s1", "STREAM.CREATE.S", config, **login)
    client = world.client("s2", **login)
    client.send(b"SUB inbox 9\r\n")
    errors = []
    for _ in range(12):
        client.send(b"PUB s inbox 100\r\n%b\r\n" % (b"x" * 100))
        world.quiet(2.0)
        (frame,) = frames_in(client.take())
        errors.append(json.loads(frame.payload).get("error", {}).get("err_code", 0))
    full = errors.index(10002)
    # A message has 100 bytes and some in each of three replicas.
    assert 5 <= full <= 9
    assert {*errors[full:]} == {10002}


def always(_: str) -> bool:
    """Every server is alive."""
    return True


def heard(totals: UsageTotals, server: str, is_whole: bool, **accounts: AccountUsage) -> None:
    """Have a server tell the usage of accounts."""
    for frame in encode_usage(accounts, is_whole):
        totals.heard(server, frame)


def test_the_usage_of_all_servers_is_summed_up() -> None:
    totals = UsageTotals()
    heard(totals, "s1", True, A=AccountUsage(1, 10, 100), B=AccountUsage(5))
    heard(totals, "s2", True, A=AccountUsage(2, 20, 200))
    assert totals.elsewhere("A", always) == AccountUsage(3, 30, 300)
    heard(totals, "s1", False, A=AccountUsage(0, 11, 0))
    assert totals.elsewhere("A", always) == AccountUsage(2, 31, 200)
    assert totals.elsewhere("B", always) == AccountUsage(5)
    assert totals.elsewhere("C", always) == AccountUsage()
    totals.forget("s2")
    assert totals.elsewhere("A", always) == AccountUsage(0, 11, 0)


def test_the_bytes_of_a_server_are_those_of_all_its_accounts() -> None:
    totals = UsageTotals()
    assert totals.of_servers() == {}
    heard(totals, "s1", True, A=AccountUsage(1, 10), B=AccountUsage(2, 20))
    heard(totals, "s2", True)
    assert totals.of_servers() == {"s1": (3, 30), "s2": (0, 0)}
    heard(totals, "s1", False, A=AccountUsage(0, 0), B=AccountUsage(4, 19))
    assert totals.of_servers()["s1"] == (4, 19)
    heard(totals, "s1", True, C=AccountUsage(7, 70))
    assert totals.of_servers()["s1"] == (7, 70)
    totals.forget("s1")
    assert [*totals.of_servers()] == ["s2"]


def test_consumers_of_a_server_that_is_away_do_not_count() -> None:
    totals = UsageTotals()
    heard(totals, "s1", True, A=AccountUsage(1, 10, 100))
    assert totals.elsewhere("A", lambda _: False) == AccountUsage(1, 10, 0)


def test_a_whole_replaces_all_that_a_server_has_told() -> None:
    totals = UsageTotals()
    heard(totals, "s1", True, A=AccountUsage(1), B=AccountUsage(2))
    (frame,) = encode_usage({"B": AccountUsage(3)}, is_whole=True)
    assert {*totals.heard("s1", frame)} == {"A", "B"}
    assert totals.elsewhere("A", always) == AccountUsage()
    assert totals.elsewhere("B", always) == AccountUsage(3)


def test_a_malformed_frame_changes_nothing() -> None:
    totals = UsageTotals()
    heard(totals, "s1", True, A=AccountUsage(1))
    (frame,) = encode_usage({"A": AccountUsage(2), "B": AccountUsage(3)}, is_whole=True)
    with pytest.raises(MalformedUsage):
        totals.heard("s1", frame[:-1])
    assert totals.elsewhere("A", always) == AccountUsage(1)


@pytest.mark.parametrize(("beyond", "used"), [(-1, 1), (0, 0)])
def test_a_server_cannot_make_another_remember_more_accounts(beyond: int, used: int) -> None:
    totals = UsageTotals()
    accounts = {f"A{number}": AccountUsage(1) for number in range(KNOWN_MAX + beyond)}
    for frame in encode_usage(accounts, is_whole=True):
        totals.heard("s1", frame)
    assert ACCOUNTS_MAX < KNOWN_MAX
    heard(totals, "s1", False, LAST=AccountUsage(1), A0=AccountUsage(2))
    assert totals.elsewhere("LAST", always).memory == used
    assert totals.elsewhere("A0", always).memory == 2
