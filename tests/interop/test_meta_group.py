"""Three servers that keep streams agree on a leader, which /jsz tells as nats-server does."""

from pathlib import Path

import pytest

from headwater.cli.commands import run
from tests.interop.jetstream import JETSTREAM
from tests.interop.jetstream_trio import JetStreamTrio
from tests.interop.trio import NAMES
from tests.kit.server_process import HEADWATER, ORACLE, Program


@pytest.mark.parametrize("program", [HEADWATER, ORACLE], ids=lambda program: program.name)
def test_servers_tell_of_the_meta_group(program: Program, tmp_path: Path) -> None:
    servers = JetStreamTrio(program, tmp_path, JETSTREAM)
    try:
        servers.start()
        name = servers.leader()
        leader = NAMES.index(name)
        servers.wait_until_all_vote()
        meta = servers.meta(leader)
        others = [other for other in NAMES if other != name]
        assert (meta["name"], meta["leader"], meta["quorum_needed"]) == ("trio", name, 2)
        assert sorted(each["name"] for each in meta["replicas"]) == others
        assert [len(each["peer"]) for each in meta["replicas"]] == [8, 8]
        assert {"current", "active", "name", "peer"} <= meta["replicas"][0].keys()
        assert servers.meta((leader + 1) % 3)["peer"] == meta["peer"]
    finally:
        servers.stop()


@pytest.mark.parametrize("program", [HEADWATER, ORACLE], ids=lambda program: program.name)
def test_a_server_is_ready_before_there_is_a_leader(program: Program, tmp_path: Path) -> None:
    """Alone of three it serves clients, and there can be no leader yet."""
    servers = JetStreamTrio(program, tmp_path, JETSTREAM)
    servers.servers = [servers.launch(0)]
    try:
        servers.servers[0].wait_until_ready()
        assert servers.meta(0).get("leader", "") == ""
        assert not any("new metadata leader" in line.text for line in servers.servers[0].log)
        # The other two need no start of the first one.
        servers.servers += [servers.launch(number) for number in (1, 2)]
        for server in servers.servers[1:]:
            server.wait_until_ready()
        servers.wait_until_whole()
        assert servers.leader() in NAMES
    finally:
        servers.stop()


def test_a_leader_that_is_killed_is_replaced_and_comes_back(tmp_path: Path) -> None:
    servers = JetStreamTrio(HEADWATER, tmp_path, JETSTREAM)
    try:
        servers.start()
        first = servers.leader()
        number = NAMES.index(first)
        others = tuple(each for each in range(3) if each != number)
        servers.kill(number)
        second = servers.leader(others, other_than=first)
        servers.start_again(number)
        servers.wait_until_whole()
        assert servers.leader() == second
    finally:
        servers.stop()


def test_a_survivor_is_reset_and_the_others_leave_and_join_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = JetStreamTrio(HEADWATER, tmp_path, JETSTREAM)
    stores = [tmp_path / name / "store" for name in NAMES]
    try:
        servers.start()
        for number in range(3):
            servers.kill(number)
        assert run(["store", "cluster", "reset", str(stores[0]), "--force"]) == 0
        assert "Given up for good: servers " in capsys.readouterr().err
        servers.start_again(0)
        assert servers.leader((0,)) == NAMES[0]
        assert servers.meta(0)["cluster_size"] == 1

        servers.start_again(1)
        for number in (0, 1):
            servers.servers[number].wait_for_log(
                f"Disconnected from server '{NAMES[1 - number]}': it is in another cluster"
            )
        assert servers.meta(0)["cluster_size"] == 1

        servers.kill(1)
        assert run(["store", "cluster", "leave", str(stores[1]), "--force"]) == 0
        assert run(["store", "cluster", "leave", str(stores[2]), "--force"]) == 0
        servers.start_again(1)
        servers.start_again(2)
        servers.wait_until_all_vote()
        assert servers.leader() == NAMES[0]
    finally:
        servers.stop()
