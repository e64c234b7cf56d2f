"""The command as a whole: dispatch, help, versions, terminals, and what `serve` must not load."""

import json
import re
import subprocess
import sys
from itertools import takewhile

import pytest

from headwater import __version__
from headwater.wire.info import NATS_VERSION
from tests.kit.command_line import PATIENCE_S, Tool
from tests.kit.terminal import in_terminal

COMMANDS = ("serve", "pub", "sub", "request", "reply", "version", "server", "store")


def test_serving_loads_no_command_line_toolkit_and_no_client() -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-X",
            "importtime",
            "-m",
            "headwater",
            "serve",
            "-a",
            "127.0.0.1",
            "-p=-1",
        ],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        log = list(takewhile(lambda line: "Server is ready" not in line, process.stderr))
        process.kill()
    loaded = {line.rpartition("|")[2].strip() for line in log}
    assert "headwater.server.main" in loaded
    assert not {"click", "rich", "nats"} & loaded


def run_server_only(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where the packages of the command line are not installed."""
    code = (
        "import sys; sys.modules['click'] = None; from headwater.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_server_only_install_says_what_the_other_commands_need() -> None:
    done = run_server_only("pub", "a", "b")
    assert done.returncode == 1
    assert done.stderr == "This command needs click: pip install 'headwater[cli]'\n"


def test_the_top_help_shows_the_commands_a_first_session_and_the_exit_codes() -> None:
    ended = Tool().run("--help")
    assert ended.code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in ended.out
    assert "A first session:\n  headwater serve " in ended.out
    assert "\n  3    no connection to the server\n" in ended.out


@pytest.mark.parametrize("command", ["pub", "sub", "request", "reply"])
def test_every_command_has_examples_that_parse(command: str) -> None:
    out = Tool().run(command, "--help").out
    examples = out.partition("Examples:\n")[2].splitlines()
    assert len(examples) >= 4
    assert all(f"headwater {command} " in example for example in examples)


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    ended = Tool().run("pubb", "a", "b")
    assert ended.code == 2
    assert "Did you mean 'pub'?" in ended.err


def test_no_command_is_a_usage_error_that_shows_the_help() -> None:
    ended = Tool().run()
    assert ended.code == 2
    assert "A first session:" in ended.err


def test_versions_are_a_table_for_people_and_json_for_programs() -> None:
    assert re.match(rf"headwater +{re.escape(__version__)}\s", Tool().run("version").out)
    assert json.loads(Tool().run("version", "--json").out)["headwater"] == __version__


def test_the_version_names_headwater_and_the_nats_server_it_speaks_as() -> None:
    line = f"headwater {__version__} (speaks as nats-server {NATS_VERSION})\n"
    assert Tool().run("--version").out == line
    assert Tool().run("--server", "nats://h", "--version").out == line
    speaks = json.loads(Tool().run("version", "--json").out)["speaks"]
    assert speaks == f"nats-server {NATS_VERSION}"


def test_a_server_only_install_has_a_version() -> None:
    done = run_server_only("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"headwater {__version__} ")


def test_serve_names_the_version_it_speaks_and_its_own() -> None:
    lines = Tool().run("serve", "-v").out.splitlines()
    assert lines == [f"nats-server: v{NATS_VERSION}", f"headwater: v{__version__}"]


def test_the_first_line_of_the_log_names_headwater() -> None:
    with Tool().start("serve", "-a", "127.0.0.1", "-p", "-1") as running:
        assert f"Starting nats-server (Headwater {__version__})" in running.remark()


@pytest.mark.parametrize("flags", [("--nope",), ("-p",), ("-p", "many")])
def test_a_mistake_in_the_flags_of_serve_is_exit_2(flags: tuple[str, ...]) -> None:
    ended = Tool().run("serve", *flags)
    assert ended.code == 2
    assert ended.err.startswith(("flag ", "invalid value"))


def test_colour_is_for_terminals() -> None:
    assert "\x1b[" in in_terminal("version")
    assert "\x1b[" not in Tool().run("version").out


def test_a_long_publish_shows_its_progress_on_a_terminal_only(server: str) -> None:
    long_run = ("pub", "progress", "x", "--count", "3000")
    assert "Publishing" in in_terminal(*long_run, url=server)
    assert Tool(server).run(*long_run).err == ""
