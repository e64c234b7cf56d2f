"""The commands of `headwater cluster` against three real nats-servers."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.cli.commands import run
from tests.interop.session import HOST
from tests.interop.trio import NAMES, Trio
from tests.kit.command_line import Ended
from tests.kit.server_process import ORACLE

Command = Callable[..., Ended]
SYSTEM = ("--user", "sys", "--password", "sys")

_JETSTREAM = """
server_tags: ["zone:{number}", "sync:always"]
jetstream {{ store_dir: "{store}" }}
"""


class StreamTrio(Trio):
    """Three servers with tags that keep the streams of account A."""

    def config(self, number: int, more: str = "", routes: str = "") -> str:
        """The configuration of a server, with a store; all servers are its routes."""
        known = ", ".join(f'"nats://{HOST}:{port}"' for port in self.route_ports)
        store = self._directory / NAMES[number] / "store"
        text = super().config(number, more, routes or known)
        text = text.replace("A { users", "A { jetstream: enabled, users")
        return text + _JETSTREAM.format(number=number + 1, store=store)

    @property
    def urls(self) -> str:
        return ",".join(f"nats://{HOST}:{server.port}" for server in self.servers)


@contextmanager
def stream_trio(directory: Path) -> Iterator[StreamTrio]:
    """Three servers that know each other."""
    running = StreamTrio(ORACLE, directory)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamTrio]:
    """Three servers that run for all tests of this module which lose none of them."""
    with stream_trio(tmp_path_factory.mktemp("trio")) as running:
        yield running


@pytest.fixture
def command(
    servers: StreamTrio, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run a command without a terminal: `command("cluster", "status") -> Ended`."""
    monkeypatch.setenv("NATS_URL", servers.urls)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def called(*arguments: str) -> Ended:
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return called


@pytest.fixture
def whole(command: Command) -> None:
    """Three servers that have agreed on a leader, without streams."""
    waited = command("cluster", "wait-healthy", "--servers", "3", "--timeout", "30s", *SYSTEM)
    assert waited.code == 0, waited.err
    for name in command("stream", "ls", "--names").out.split():
        assert command("stream", "rm", name, "--force").code == 0


def document(ended: Ended) -> dict[str, object]:
    """The result of a command that ended well."""
    assert ended.code == 0, ended.err
    found: dict[str, object] = json.loads(ended.out)
    return found


@pytest.mark.usefixtures("whole")
def test_a_stream_is_placed_scaled_moved_and_led_by_commands(command: Command) -> None:
    add = ("stream", "add", "ORDERS", "--subjects", "orders", "--tag", "sync:always")
    assert command(*add, "--replicas", "3").code == 0
    assert command("cluster", "wait-healthy", "--timeout", "30s").code == 0

    info = command("stream", "info", "ORDERS").out
    assert "  Name:     trio\n" in info
    assert info.count("  Replica:  ") == info.count(", current, seen ") == 2
    listed = command("stream", "ls").out.splitlines()[1]
    assert "*, s" in listed

    first = document(command("cluster", "step-down", "ORDERS", "--json"))
    assert first["leader"] != first["leader_before"]
    wanted = str(first["leader_before"])
    preferred = document(command("cluster", "step-down", "ORDERS", "--prefer", wanted, "--json"))
    assert preferred["leader"] == wanted

    asked = command("cluster", "scale", "ORDERS", "1")
    assert (asked.code, asked.out) == (2, "")
    down = document(command("cluster", "scale", "ORDERS", "1", "--force", "--json"))
    assert (down["num_replicas"], down["followers"], down["problems"]) == (1, [], [])
    moved = document(command("cluster", "move", "ORDERS", "--tag", "zone:2", "--json"))
    assert (moved["leader"], moved["problems"]) == ("s2", [])
    back = document(command("cluster", "move", "ORDERS", "--tag", "sync:always", "--json"))
    assert back["problems"] == []
    up = command("cluster", "scale", "ORDERS", "3")
    assert up.code == 0, up.err
    assert up.out.startswith("Stream ORDERS is on 3 servers: s")


@pytest.mark.usefixtures("whole")
def test_a_consumer_is_led_by_another_server(command: Command) -> None:
    assert command("stream", "add", "JOBS", "--subjects", "jobs", "--replicas", "3").code == 0
    assert command("consumer", "add", "JOBS", "WORKER").code == 0
    moved = document(command("cluster", "step-down", "JOBS", "WORKER", "--json"))
    assert moved["leader"] != moved["leader_before"]
    shown = command("consumer", "info", "JOBS", "WORKER").out
    assert f"  Leader:   {moved['leader']}\n" in shown


@pytest.mark.usefixtures("whole")
def test_the_system_account_sees_all_servers_and_moves_their_leader(command: Command) -> None:
    assert command("stream", "add", "SEEN", "--subjects", "seen", "--replicas", "3").code == 0
    assert command("cluster", "wait-healthy", "--timeout", "30s").code == 0
    seen = document(command("cluster", "status", "--json", *SYSTEM))
    assert (seen["cluster"], seen["healthy"], seen["problems"]) == ("trio", True, [])
    servers = seen["servers"]
    assert isinstance(servers, list)
    assert [each["name"] for each in servers] == list(NAMES)
    assert sorted(each["state"] for each in servers) == ["current", "current", "meta leader"]
    assert servers[1]["tags"] == ["zone:2", "sync:always"]
    streams = seen["streams"]
    assert isinstance(streams, list)
    assert [(each["account"], each["name"]) for each in streams] == [("A", "SEEN")]
    text = command("cluster", "status", *SYSTEM).out
    assert text.startswith(f"Cluster trio: 3 servers, meta leader {seen['meta_leader']}, 1 stream")

    other = next(name for name in NAMES if name != seen["meta_leader"])
    moved = command("cluster", "step-down", "--meta", "--prefer", other, *SYSTEM)
    assert moved.out == f"{other} leads the cluster, in place of {seen['meta_leader']}\n"


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("cluster scale ERRORS 5", "no suitable peers for placement (err_code 10005)"),
        ("cluster move ERRORS --tag zone:9", "tags not matched ['zone:9'] (err_code 10005)"),
        ("cluster step-down ERRORS --prefer s9", 'preferred server "s9" not known'),
        ("cluster step-down NOPE", "stream not found (err_code 10059)"),
        ("cluster peer-remove s2 --stream ERRORS --force", "peer remap failed (err_code 10075)"),
        ("cluster peer-remove s9 --stream ERRORS --force", "peer not a member (err_code 10040)"),
        ("cluster peer-remove s2 --force", "Only users of the system account may do this"),
        ("cluster peer-remove s9 --force --user sys --password sys", "There is no server s9"),
        ("cluster step-down --meta", "Only users of the system account may do this"),
        (
            "cluster wait-healthy --servers 4 --timeout 1s --user sys --password sys",
            "3 of 4 servers online",
        ),
    ],
)
def test_mistakes_are_named_with_advice(command: Command, arguments: str, problem: str) -> None:
    assert command("stream", "add", "ERRORS", "--subjects", "errors", "--replicas", "3").code == 0
    ended = command(*arguments.split())
    assert (ended.code, ended.out) == (1, "")
    error, advice = ended.err.rstrip().rsplit("\n", 1)
    assert problem in error
    assert advice


def test_a_server_that_is_gone_is_a_problem_until_it_is_removed(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stream_trio(tmp_path) as servers:
        monkeypatch.setenv("NATS_URL", servers.urls)
        lose_and_remove_a_server(servers, command)


def lose_and_remove_a_server(servers: StreamTrio, command: Command) -> None:
    """Stop the third server and remove it from the cluster, looking on."""
    waited = command("cluster", "wait-healthy", "--servers", "3", "--timeout", "30s", *SYSTEM)
    assert waited.code == 0, waited.err
    for name in ("KEPT", "LOST"):
        tag = ("--tag", "zone:3") if name == "LOST" else ("--replicas", "3")
        assert command("stream", "add", name, "--subjects", name, *tag).code == 0
    assert command("cluster", "wait-healthy", "--timeout", "30s").code == 0
    servers.servers[2].stop()

    waited = command("cluster", "wait-healthy", "--timeout", "1s", *SYSTEM)
    assert waited.code == 1
    assert "cluster: s3 is offline" in waited.err
    status = command("cluster", "status", *SYSTEM)
    assert status.code == 0
    assert "s3 is offline" in status.out
    listed = command("stream", "ls")
    assert "No answer about 1 stream: LOST. See: headwater cluster status" in listed.err
    seen = document(command("cluster", "status", "--json"))
    problems = seen["problems"]
    assert isinstance(problems, list)
    assert {"part": "stream LOST", "problem": "no server answers"} in problems

    removed = command("cluster", "peer-remove", "s3", "--force", *SYSTEM)
    assert removed.out == "Removed server s3 from cluster trio\n"
    left = document(command("cluster", "status", "--json", *SYSTEM))
    names = left["servers"]
    assert isinstance(names, list)
    assert [each["name"] for each in names] == ["s1", "s2"]
