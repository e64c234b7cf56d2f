"""The processes of a local cluster: real servers that start, end and are stopped in order."""

import signal
from pathlib import Path

import pytest

from headwater.cli.cluster.local import LocalCluster, free_ports
from headwater.cli.cluster.processes import (
    RunningServer,
    StopRequested,
    running_cluster,
    stop_requested_by_signals,
)
from headwater.cli.shell.exits import CommandFailed


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    """Two servers that are not started."""
    cluster = LocalCluster.of(tmp_path, free_ports(2))
    cluster.write_configs()
    return cluster


def test_servers_are_stopped_one_after_another(cluster: LocalCluster) -> None:
    with running_cluster(cluster) as running:
        running.wait_until_listening()
        assert (running.newly_ended(), running.is_over) == ([], False)
        assert [server.name for server in running.stop()] == ["s1", "s2"]
        assert [each.exit_code for each in running.newly_ended()] == [0, 0]
        assert (running.newly_ended(), running.is_over) == ([], True)


def test_no_server_outlives_the_block_and_its_end_is_told_of_once(cluster: LocalCluster) -> None:
    with running_cluster(cluster) as running:
        running.wait_until_listening()
        first = next(iter(running.stop()))
        assert [each.server for each in running.newly_ended()] == [first]
        assert (running.newly_ended(), running.is_over) == ([], False)
    assert [each.exit_code for each in running.newly_ended()] == [-signal.SIGKILL]


def test_a_server_that_cannot_start_is_reported_with_its_log(cluster: LocalCluster) -> None:
    cluster.servers[1].config_path.write_text("no_such_setting: 1\n")
    with running_cluster(cluster) as running, pytest.raises(CommandFailed) as failed:
        running.wait_until_listening()
    assert failed.value.problem.startswith("Server s2 ended with exit code 1:\n")
    assert "no_such_setting" in failed.value.problem
    assert str(cluster.servers[1].log_path) in failed.value.advice


def test_settings_of_the_shell_do_not_reach_a_server(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", "nats://elsewhere:4222")
    running = RunningServer.start(cluster.servers[0])
    try:
        environment = Path(f"/proc/{running.process.pid}/environ").read_bytes()
    finally:
        running.kill()
    assert b"NATS_URL" not in environment


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_ask_for_the_end_within_the_block_only(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(StopRequested), stop_requested_by_signals():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before
