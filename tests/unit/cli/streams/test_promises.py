"""The promises of a stream in words, by its settings and the servers that keep it."""

from typing import Any

import pytest

from headwater.cli.streams.promises import Promises


def promises(config: dict[str, Any], *syncs: str) -> Promises:
    servers = [
        {"server": f"s{number}", "sync_interval": sync} for number, sync in enumerate(syncs, 1)
    ]
    info = {"config": {"name": "S", "storage": "file"} | config}
    return Promises.of(info | {"sync_intervals": servers} if servers else info)


R3 = {"num_replicas": 3}


@pytest.mark.parametrize(
    ("config", "syncs", "beginning", "end"),
    [
        ({}, ["2m0s"], "interval: kill -9 loses nothing", "the messages of the last 2m"),
        ({}, [], "interval: kill -9 loses nothing", "the messages since the last sync"),
        ({}, ["always"], "always: neither kill -9 nor power loss", "loses what was acked"),
        (
            {"persist_mode": "async"},
            ["always"],
            "async: kill -9 may lose the last messages",
            "the messages since the last sync too",
        ),
        ({"storage": "memory"}, ["always"], "memory: ", "as long as its server runs"),
        ({"storage": "memory"} | R3, ["always"], "memory: ", "as a majority of its servers runs"),
        (R3, ["always"] * 3, "always: ", "if all servers lose power at once"),
        (R3, ["always", "10s", "2m0s"], "interval: kill -9 of all", "of the last 2m"),
        (R3, ["always", "", "10s"], "interval: kill -9 of all", "since the last sync"),
        (R3, ["always", "often", "10s"], "interval: kill -9 of all", "since the last sync"),
        (R3, [], "interval: kill -9 of all", "since the last sync"),
        (
            R3 | {"write_consistency": "eventual"},
            ["always"] * 3,
            "the newest messages are with the leader alone",
            "until the others have them",
        ),
    ],
)
def test_durability(config: dict[str, Any], syncs: list[str], beginning: str, end: str) -> None:
    found = promises(config, *syncs).durability
    assert found.startswith(beginning)
    assert found.endswith(end)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "no write is taken while it is down"),
        (R3, "acked when 2 of 3 servers have the message; goes on with 1 server down"),
        ({"num_replicas": 5}, "3 of 5 servers have the message; goes on with 2 servers down"),
        ({"num_replicas": 4}, "3 of 4 servers have the message; goes on with 1 server down"),
        (R3 | {"write_consistency": "eventual"}, "eventual: the leader acks alone"),
    ],
)
def test_writes(config: dict[str, Any], text: str) -> None:
    assert text in promises(config, "always").writes


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "leader: as the leader has it"),
        ({"allow_direct": True}, "weak by DIRECT.GET, session with min_last_seq; not linearizable"),
        ({"read_consistency": "weak"}, "linearizable by DIRECT_LEADER.GET"),
        ({"read_consistency": "strong"}, "linearizable: every read sees all that was acked"),
        ({"read_consistency": "strong", "mirror": {"name": "O"}}, "sequential: a prefix"),
    ],
)
def test_reads(config: dict[str, Any], text: str) -> None:
    assert text in promises(config, "always").reads


def test_sessions_are_not_promised_for_a_server_that_does_not_know_them() -> None:
    assert "session" not in promises({"allow_direct": True}).reads


@pytest.mark.parametrize(
    ("config", "syncs"),
    [
        (R3, ["always"] * 3),
        (R3, ["2m0s", "", "2m0s"]),
        (R3 | {"storage": "memory"}, ["always", "2m0s", "2m0s"]),
        ({}, ["2m0s"]),
        (R3, []),
    ],
)
def test_servers_that_sync_alike_are_no_warning(config: dict[str, Any], syncs: list[str]) -> None:
    found = promises(config, *syncs)
    assert not found.warning
    assert "warning" not in found.document()


def test_servers_that_sync_differently_are_named() -> None:
    found = promises(R3, "always", "2m0s", "always")
    assert "stream S: s1 always, s2 2m0s, s3 always. The stream has the weaker" in found.warning
    assert found.warning.endswith("headwater cluster move S --tag sync:always")
    assert found.document()["warning"] == found.warning
    assert [label for label, _ in found.rows()] == ["Durability", "Writes", "Reads"]
