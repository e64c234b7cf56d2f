"""Waits: they end with the first look that finds nothing, and tell what they wait for."""

from collections.abc import Callable

import pytest

from headwater.cli.api.client import CommandRefused, NoAnswer
from headwater.cli.cluster import waiting
from headwater.cli.cluster.view import Problems
from headwater.cli.cluster.waiting import REASONS_SHOWN_MAX, Wait
from headwater.cli.connection.failures import Unreachable
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.client.api.answers import ApiRefusal

BEHIND: Problems = [("stream A", "s3 is not current"), ("stream B", "no leader")]


@pytest.fixture(autouse=True)
def _looks_follow_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_INTERVAL_S", 0.0)


def looks(*found: Problems | CommandFailed) -> Callable[[], Problems]:
    """A look that finds one after another, and the last for ever."""
    left = list(found)

    def look() -> Problems:
        each = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(each, CommandFailed):
            raise each
        return each

    return look


def waited(*found: Problems | CommandFailed, wait_s: float = 30.0, hidden: bool = False) -> None:
    """Wait until a look finds no problems."""
    Wait(Output(), wait_s, hidden).until(looks(*found), lambda problems: problems, "Advice.")


def refusal(err_code: int) -> CommandRefused:
    return CommandRefused(ApiRefusal(503, err_code, "no"), "A")


def test_a_wait_ends_with_the_first_look_that_finds_nothing() -> None:
    assert Wait(Output(), 30.0, False).until(looks(BEHIND, []), lambda found: found, "") == []


def test_a_log_gets_a_line_when_other_parts_are_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    other: Problems = [("stream A", "s3 is not current, 1 operation behind"), BEHIND[1]]
    waited(BEHIND, other, BEHIND[1:], [])
    assert capsys.readouterr().err == "Waiting for stream A, stream B\nWaiting for stream B\n"


def test_a_wait_for_a_program_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    waited(BEHIND, [], hidden=True)
    assert capsys.readouterr() == ("", "")


def test_a_wait_that_takes_too_long_names_what_is_left_and_what_to_do() -> None:
    with pytest.raises(CommandFailed) as failed:
        waited(BEHIND, wait_s=0.0)
    assert failed.value.problem == (
        "Not done within 0s: stream A: s3 is not current; stream B: no leader"
    )
    assert (failed.value.advice, failed.value.code) == ("Advice.", ExitCode.FAILED)


@pytest.mark.parametrize("more", [0, 1])
def test_no_more_than_a_few_reasons_are_named(more: int) -> None:
    problems = [(f"stream {number}", "no leader") for number in range(REASONS_SHOWN_MAX + more)]
    with pytest.raises(CommandFailed) as failed:
        waited(problems, wait_s=0.0)
    assert failed.value.problem.count("no leader") == REASONS_SHOWN_MAX
    assert failed.value.problem.endswith("; and 1 more") == bool(more)


@pytest.mark.parametrize(
    "failure", [NoAnswer("silence"), Unreachable("refused"), refusal(10008), refusal(10118)]
)
def test_servers_that_are_away_for_a_moment_are_waited_for(failure: CommandFailed) -> None:
    waited(failure, [])
    with pytest.raises(CommandFailed) as failed:
        waited(failure, wait_s=0.0)
    assert failed.value is failure


@pytest.mark.parametrize("failure", [refusal(10059), CommandFailed("credentials")])
def test_a_failure_that_stays_ends_the_wait_at_once(failure: CommandFailed) -> None:
    with pytest.raises(CommandFailed) as failed:
        waited(failure, [])
    assert failed.value is failure
