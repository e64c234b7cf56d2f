"""Failures are reported as text or as a document, and never with the credentials of a URL."""

import json
from collections.abc import Callable

import pytest

from headwater.cli.commands import run
from headwater.cli.shell.exits import CommandFailed
from tests.kit.command_line import Ended

SECRET = "hunter2"

Command = Callable[..., Ended]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""

    def called(*arguments: str) -> Ended:
        code = run(arguments)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return called


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("pub",), "Missing argument 'SUBJECT'."),
        (("pub", "a", "x", "--nope"), "No such option '--nope'."),
        (("pub", "a", "x", "--sleep", "soon"), "'soon' is not a duration"),
        (("stream", "info", "a.b"), "'a.b' is not a stream's name"),
        (("nope",), "No such command 'nope'."),
        (("sub", "a", "--raw"), "--raw, --headers-only and --json exclude one another"),
        (("pub", "a", "x", "y", f"nats://app:{SECRET}@h"), "extra arguments (y nats://h)"),
        (("pub", "a", "x", "--creds", "none"), "--creds: cannot read 'none'"),
    ],
)
def test_a_mistake_in_the_command_line_is_a_document_for_those_who_asked_for_json(
    arguments: tuple[str, ...], complaint: str, command: Command
) -> None:
    ended = command(*arguments, "--json")
    failure = json.loads(ended.err)
    assert (ended.code, failure["exit_code"], ended.out) == (2, 2, "")
    assert complaint in failure["error"]
    assert SECRET not in ended.err


def test_a_word_after_the_options_asks_for_no_json(command: Command) -> None:
    ended = command("pub", "a", "x", "--", "--json")
    assert ended.code == 2
    assert ended.err.startswith("Usage: headwater pub ")


def test_a_mistake_in_the_command_line_is_told_without_the_credentials_of_a_url(
    command: Command,
) -> None:
    ended = command("pub", "a", "x", "y", f"nats://app:{SECRET}@h")
    assert ended.code == 2
    assert ended.err.endswith("Error: Got unexpected extra arguments (y nats://h)\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"said nats://app:{SECRET}@a:1 to me@here", "said nats://a:1 to me@here"),
        (f"(tls://{SECRET}@a)", "(tls://a)"),
        (f"nats://app:p@{SECRET}@a", "nats://a"),
        (f"nats://app:p,{SECRET}@a", "nats://a"),
        (f"nats://app:p/{SECRET}?#@a", "nats://a"),
        # The last host of a list is left.
        (f"nats://app:{SECRET}@a,nats://app:{SECRET}@b", "nats://b"),
        ("nats://a:1, nats://b", "nats://a:1, nats://b"),
    ],
)
def test_no_failure_holds_the_credentials_of_a_url(text: str, shown: str) -> None:
    failure = CommandFailed(text, text)
    assert (failure.problem, failure.advice, str(failure)) == (shown, shown, shown)
