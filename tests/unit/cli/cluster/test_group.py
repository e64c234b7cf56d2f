"""`headwater cluster`: its help, and a server that is not part of a cluster."""

import pytest

from headwater.cli.cluster.group import cluster as cluster_group
from headwater.cli.commands import run
from tests.kit.command_line import Call


def test_the_group_lists_its_commands_in_the_order_of_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["cluster", "--help"]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"\n  {command} ") for command in cluster_group.commands]
    assert places == sorted(places)
    assert "A first session:\n  headwater cluster run " in out


@pytest.mark.parametrize("command", list(cluster_group.commands))
def test_every_command_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", command, "--help"]) == 0
    examples = capsys.readouterr().out.partition("Examples:\n")[2].splitlines()
    assert len(examples) >= 3
    assert all(line.strip().startswith(f"headwater cluster {command}") for line in examples)


def test_a_server_on_its_own_is_healthy_and_no_cluster(call: Call, name: str) -> None:
    assert call("stream", "add", name, "--subjects", name).code == 0
    status = call("cluster", "status")
    assert status.code == 0
    assert "The server is not part of a cluster" in status.err
    assert any(line.split()[:2] == [name, "1/1"] for line in status.out.splitlines())
    assert call("cluster", "wait-healthy", "--stream", name).code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("scale", "{}", "3"), "(err_code 10074)"),
        (("step-down", "{}"), "The server is not part of a cluster"),
        (("peer-remove", "s1", "--stream", "{}", "--force"), "(err_code 10010)"),
    ],
)
def test_a_server_on_its_own_refuses_changes_with_advice(
    call: Call, name: str, arguments: tuple[str, ...], problem: str
) -> None:
    assert call("stream", "add", name, "--subjects", name).code == 0
    ended = call("cluster", *(word.format(name) for word in arguments))
    assert (ended.code, ended.out) == (1, "")
    assert problem in ended.err
    assert len(ended.err.splitlines()) == 2
