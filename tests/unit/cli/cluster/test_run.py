"""`headwater cluster run`: real servers, from their start to Ctrl-C."""

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from headwater.cli.cluster.local import HOST, consecutive_ports, free_ports
from headwater.cli.commands import run
from tests.kit.command_line import Tool


def pid_of(log: str) -> int:
    """The process that wrote a log."""
    found = re.match(r"\[(\d+)\]", Path(log).read_text())
    assert found is not None
    return int(found[1])


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_servers_run_together_until_ctrl_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("cluster", "run", "--port", "-1", "--store", str(tmp_path))
    with Tool().start(*arguments, "--json") as running:
        found = json.loads(running.line())
        servers = found["servers"]
        assert [each["name"] for each in servers] == ["s1", "s2", "s3"]
        login = ("--server", found["url"], "--user", "sys", "--password", "sys")
        assert run(["cluster", "wait-healthy", *login]) == 0
        capsys.readouterr()
        assert run(["cluster", "status", "--json", *login]) == 0
        status = json.loads(capsys.readouterr().out)
        assert (status["cluster"], len(status["servers"])) == ("local", 3)
        assert status["meta_leader"] in ("s1", "s2", "s3")
        pids = [pid_of(each["log"]) for each in servers]
        os.kill(pids[1], signal.SIGKILL)
        remark = running.remark()
        assert remark.startswith("Server s2 ended with exit code -9. Start it again with: ")
        assert remark.strip().endswith(f"headwater serve -c {servers[1]['config']}")
        ended = running.interrupt()
    assert (ended.code, ended.err) == (0, "Stopping ...\nStopped s1\nStopped s3\n")
    assert not any(is_running(pid) for pid in pids)


def test_a_person_is_shown_addresses_and_the_next_commands(tmp_path: Path) -> None:
    arguments = ("cluster", "run", "--servers", "1", "--port", "-1", "--store", str(tmp_path))
    with Tool().start(*arguments) as running:
        header, server, blank, ready, export, *_ = [running.line() for _ in range(7)]
        assert header.split() == ["server", "for", "clients", "monitoring", "log"]
        name, url, monitoring, log = server.split()
        assert (name, log) == ("s1", str(tmp_path / "s1" / "server.log"))
        assert monitoring.startswith("http://127.0.0.1:")
        assert (blank, ready) == ("\n", "1 server ready. In a second terminal:\n")
        assert export == f"  export NATS_URL={url}\n"
        ended = running.interrupt()
    assert (ended.code, ended.err.splitlines()[-1]) == (0, "Stopped s1")


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    (ports,) = consecutive_ports(1, 21_000 + free_ports(1)[0].client % 20_000)
    with socket.create_server((HOST, ports.client)):
        ended = Tool().run(
            "cluster", "run", "--servers", "1", "--port", str(ports.client),
            "--store", str(tmp_path),
        )  # fmt: skip
    assert (ended.code, ended.out) == (1, "")
    assert f"In use already: port {ports.client}" in ended.err
    assert "--port" in ended.err


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "s1").write_text("a file")
    ended = Tool().run("cluster", "run", "--port", "-1", "--store", str(tmp_path))
    assert ended.code == 1
    assert f"{tmp_path / 's1'} cannot be written: " in ended.err


@pytest.mark.parametrize("words", [("--servers", "0"), ("--servers", "10"), ("--port", "65000")])
def test_numbers_out_of_range_are_usage_errors(words: tuple[str, str]) -> None:
    assert run(["cluster", "run", *words]) == 2
