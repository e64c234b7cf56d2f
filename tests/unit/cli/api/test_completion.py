"""Completion: words that a shell is offered for a command line, and words that it is not."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.cli.api.completion import PLAIN_WORD
from tests.kit.command_line import ENVIRONMENT, HEADWATER, PATIENCE_S, Call, serving


@pytest.fixture
def complete(jetstream: str) -> Callable[..., list[str]]:
    """The last of some words, completed: `complete("stream", "info", "OR")`."""

    def completed(*words: str, url: str = "") -> list[str]:
        return completions(url or jetstream, *words)

    return completed


def completions(url: str, *words: str) -> list[str]:
    """The words that bash is offered for the last of `words`."""
    done = subprocess.run(
        HEADWATER,
        env=ENVIRONMENT
        | {
            "_HEADWATER_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("headwater", *words)),
            "COMP_CWORD": str(len(words)),
            "NATS_URL": url,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


Complete = Callable[..., list[str]]


@pytest.fixture
def streams(call: Call, name: str) -> tuple[str, str]:
    """Two streams, the first with two consumers."""
    first, second = f"{name}-FIRST", f"{name}-SECOND"
    for stream in (first, second):
        assert call("stream", "add", stream, "--subjects", f"{stream}.>").code == 0
    for consumer in ("billing", "audit"):
        assert call("consumer", "add", first, consumer).code == 0
    return first, second


def test_the_name_of_a_stream_is_completed(
    complete: Complete, streams: tuple[str, str], name: str
) -> None:
    assert complete("stream", "info", f"{name}-") == sorted(streams)
    assert complete("stream", "info", f"{name}-S") == [streams[1]]
    assert complete("consumer", "ls", f"{name}-") == sorted(streams)
    assert complete("stream", "graph", f"{name}-S") == [streams[1]]


@pytest.mark.parametrize("option", ["--mirror", "--source"])
def test_the_name_of_an_origin_is_completed(
    complete: Complete, streams: tuple[str, str], name: str, option: str
) -> None:
    assert complete("stream", "add", "NEW", option, f"{name}-") == sorted(streams)
    assert complete("stream", "edit", streams[0], option, f"{name}-S") == [streams[1]]


def test_the_name_of_a_consumer_is_completed_from_its_stream(
    complete: Complete, streams: tuple[str, str]
) -> None:
    assert complete("consumer", "next", streams[0], "") == ["audit", "billing"]
    assert complete("consumer", "info", streams[0], "b") == ["billing"]
    assert complete("consumer", "info", streams[1], "") == []


def test_options_of_the_command_line_say_which_server(
    complete: Complete, jetstream: str, streams: tuple[str, str]
) -> None:
    nowhere = "nats://127.0.0.1:1"
    options = ("-s", jetstream)
    assert complete("consumer", "next", streams[0], *options, "b", url=nowhere) == ["billing"]
    assert complete(*options, "consumer", "next", streams[0], "b", url=nowhere) == ["billing"]
    assert complete("consumer", "next", streams[0], "--domain", "hub", "b") == []
    both = ("--domain", "hub", "--api-prefix", "js")
    assert complete("consumer", "next", streams[0], *both, "b") == []


def test_a_name_that_is_to_be_new_is_not_completed(
    complete: Complete, streams: tuple[str, str], name: str
) -> None:
    assert complete("stream", "add", f"{name}-") == []
    assert complete("consumer", "add", streams[0], "b") == []
    assert complete("consumer", "add", f"{name}-F") == [streams[0]]


def test_commands_and_options_are_completed_without_a_server() -> None:
    nowhere = "nats://127.0.0.1:1"
    assert completions(nowhere, "cons") == ["consumer"]
    assert completions(nowhere, "consumer", "ne") == ["next"]
    assert "--jetstream" in completions(nowhere, "pub", "--j")


def test_a_server_that_is_not_there_completes_nothing() -> None:
    assert completions("nats://127.0.0.1:1", "stream", "info", "") == []


def test_a_server_that_says_nothing_completes_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert completions(f"nats://127.0.0.1:{port}", "stream", "info", "") == []


def test_a_server_without_streams_or_with_a_password_completes_nothing(kind: str) -> None:
    with serving(kind) as url:
        assert completions(url, "stream", "info", "") == []
    with serving(kind, "--user", "ada", "--pass", "pw") as url:
        assert completions(url, "stream", "info", "") == []


def test_a_wait_that_cannot_be_interrupted_ends_the_process() -> None:
    code = (
        "import threading\n"
        "from headwater.cli.api.completion import process_ends_after\n"
        "with process_ends_after(0.01): threading.Event().wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("word", ["$(reboot)", "a;b", "a b", "a\nb", "`x`", "a'b", "~", "a&", ""])
def test_a_name_that_a_shell_would_interpret_is_left_out(word: str) -> None:
    assert PLAIN_WORD.fullmatch(word) is None


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_help_says_how_each_shell_learns_it(shell: str) -> None:
    done = subprocess.run(
        HEADWATER,
        env=ENVIRONMENT | {"_HEADWATER_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert "_HEADWATER_COMPLETE" in done.stdout
    helped = subprocess.run(
        [*HEADWATER, "--help"], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert f"{shell}_source" in helped.stdout


def test_a_bash_that_has_read_the_line_completes(
    jetstream: str, streams: tuple[str, str], name: str, tmp_path: Path
) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    command = tmp_path / "headwater"
    command.write_text(f'#!{bash}\nexec {" ".join(HEADWATER)} "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(_HEADWATER_COMPLETE=bash_source headwater)"; '
        f"COMP_WORDS=(headwater consumer next {name}-F); COMP_CWORD=3; "
        '_headwater_completion headwater; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        env=ENVIRONMENT
        | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "NATS_URL": jetstream},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.split() == [streams[0]]
