"""Questions to all servers at once: heard by users of the system account, and refused to others."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.cli.cluster.asking import (
    ANSWERS_MAX,
    KNOWN_SERVER_QUIET_S,
    QUIET_S,
    expected_count,
    quiet_s,
)
from tests.kit.command_line import Tool

CONFIG = """
server_name: one
server_tags: ["ssd"]
accounts {
    SYS { users: [ { user: sys, password: sys } ] }
    APP { users: [ { user: app, password: app },
        { user: shy, password: shy, permissions { publish: "$JS.API.>" } } ] }
}
system_account: SYS
no_auth_user: app
"""


@pytest.fixture
def tool(start_server: Callable[..., str], tmp_path: Path) -> Tool:
    """The command, and a server with a system account, which keeps no streams."""
    config = tmp_path / "server.conf"
    config.write_text(CONFIG)
    return Tool(start_server("-c", str(config)))


def test_users_of_the_system_account_hear_every_server(tool: Tool) -> None:
    ended = tool.run("cluster", "status", "--json", "--user", "sys", "--password", "sys")
    (server,) = json.loads(ended.out)["servers"]
    assert (server["name"], server["state"], server["tags"]) == ("one", "no JetStream", ["ssd"])


@pytest.mark.parametrize("user", ["app", "shy"])
def test_users_of_other_accounts_do_not_ask_and_are_told_so(tool: Tool, user: str) -> None:
    ended = tool.run("cluster", "step-down", "--meta", "--user", user, "--password", user)
    assert ended.code == 1
    assert ended.err.startswith("Error: Only users of the system account may do this\n")


def answer(size: int) -> dict[str, object]:
    return {"data": {"meta_cluster": {"cluster_size": size}}}


def test_as_many_answers_are_waited_for_as_the_servers_know_of() -> None:
    assert expected_count([answer(1), answer(3)]) == 3
    assert expected_count([]) == ANSWERS_MAX
    for unknown in ({}, {"data": {"disabled": True}}, answer(0)):
        assert expected_count([unknown]) == ANSWERS_MAX


def test_a_server_that_others_know_is_waited_for_longer() -> None:
    assert quiet_s([{}]) == QUIET_S < quiet_s([answer(3)]) == KNOWN_SERVER_QUIET_S
