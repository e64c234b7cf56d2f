"""Clusters on one machine: names, ports and configurations."""

import socket
import subprocess
from pathlib import Path

import pytest

from headwater.cli.cluster.local import (
    HOST,
    LocalCluster,
    Ports,
    consecutive_ports,
    free_ports,
    ports_in_use,
)
from tests.kit.command_line import SERVER_COMMANDS

PORTS = [Ports(4222, 6222, 8222), Ports(4223, 6223, 8223)]


def test_the_ports_of_servers_follow_one_another() -> None:
    assert consecutive_ports(2, 4222) == PORTS
    assert consecutive_ports(1, 5222) == [Ports(5222, 7222, 9222)]


def test_free_ports_are_all_different() -> None:
    numbers = {
        number for each in free_ports(9) for number in (each.client, each.route, each.monitoring)
    }
    assert len(numbers) == 27


def test_ports_that_somebody_listens_on_are_in_use() -> None:
    ports = free_ports(1)
    with socket.create_server((HOST, ports[0].route)):
        assert ports_in_use(ports) == [ports[0].route]


def test_every_server_has_a_folder_an_address_and_a_place_in_the_url(tmp_path: Path) -> None:
    cluster = LocalCluster.of(tmp_path, PORTS)
    assert [each.name for each in cluster.servers] == ["s1", "s2"]
    assert [each.folder for each in cluster.servers] == [tmp_path / "s1", tmp_path / "s2"]
    assert cluster.urls == "nats://127.0.0.1:4222,nats://127.0.0.1:4223"
    assert cluster.servers[1].monitoring_url == "http://127.0.0.1:8223"


@pytest.mark.parametrize("kind", SERVER_COMMANDS)
def test_the_configurations_are_right_for_both_kinds_of_server(tmp_path: Path, kind: str) -> None:
    # A quote and a backslash in a path must not end the text that holds it.
    cluster = LocalCluster.of(tmp_path / 'a "b" \\c', PORTS)
    cluster.write_configs()
    command = [*SERVER_COMMANDS[kind], "-t", "-c", str(cluster.servers[1].config_path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
