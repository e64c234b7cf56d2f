"""The pure functions of the command line: durations, templates, and the forms of output."""

import json

import pytest

from headwater.base.quantities import duration_text
from headwater.cli.messaging import render as message_render
from headwater.cli.messaging.messages import Message, Tally
from headwater.cli.shell import render
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.templates import expand


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.0000125, "12.5us"), (0.25, "250ms"), (1, "1s"), (59.96, "60s"), (90, "1.5m"),
     (7200, "2h")],
)  # fmt: skip
def test_durations_are_shown_in_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_only_known_placeholders_are_replaced_and_only_once() -> None:
    values = {"Count": "{{ID}}", "ID": "x"}
    assert (
        expand("{{Count}} {{.ID}} {{ ID }} {{id}} {Count}", values) == "{{ID}} x x {{id}} {Count}"
    )


def test_a_body_cannot_steer_the_terminal() -> None:
    assert render.printable(b"\x1b[2J\x07\r\n\ttext \xc2\x9b \xff") == (
        "\\x1b[2J\\x07\\x0d\n\ttext \\x9b \\xff"
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 20, "1.0 MiB"),
     (1 << 50, "1024.0 TiB")],
)  # fmt: skip
def test_sizes_are_shown_in_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert render.size_text(size) == text


def test_a_message_is_one_line_about_it_then_headers_then_body() -> None:
    message = Message("a.b", b"body", "back", {"K": "v"})
    assert message_render.message_text(7, message, elapsed_s=0.002).plain == (
        "[#7] Received on a.b with reply back after 2ms\nK: v\n\nbody\n"
    )


def test_json_has_only_the_fields_the_message_has() -> None:
    assert json.loads(message_render.message_json(1, Message("a", b""))) == {
        "number": 1, "subject": "a", "data": "",
    }  # fmt: skip
    assert (
        json.loads(message_render.message_json(1, Message("a", b"\xff")))["data_base64"] == "/w=="
    )


def test_a_request_without_a_reply_subject_is_shown_as_such() -> None:
    request, response = Message("a", b"12"), Message("", b"345")
    assert message_render.answered_text(1, request, response).plain == (
        "[#1] Request on a (2 B) asked for no reply"
    )
    assert json.loads(message_render.answered_json(1, request, response)) == {
        "number": 1, "subject": "a", "answered": False,
        "request": {"data": "12"}, "response": {"data": "345"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tally", "text"),
    [
        (Tally(), "Sent 0 messages, 0 B"),
        (Tally(1, 5, 2.0), "Sent 1 message, 5 B"),
        (Tally(4000, 8192, 2.0), "Sent 4,000 messages, 8.0 KiB, in 2s (2,000 per second)"),
        (
            Tally(1, 5, 2.0, dropped=2),
            "Sent 1 message, 5 B; 2 messages lost here, too fast to show",
        ),
    ],
)
def test_a_summary_counts_and_rates(tally: Tally, text: str) -> None:
    assert message_render.summary_text("Sent", tally).plain == text


def test_a_failure_says_what_to_do_next() -> None:
    failure = CommandFailed("It broke", "Mend it.", ExitCode.NOT_CONNECTED)
    assert render.failure_text(failure).plain == "Error: It broke\nMend it."
    assert json.loads(render.failure_json(failure)) == {
        "error": "It broke", "advice": "Mend it.", "exit_code": 3,
    }  # fmt: skip
    assert render.failure_text(CommandFailed("It broke")).plain == "Error: It broke"
