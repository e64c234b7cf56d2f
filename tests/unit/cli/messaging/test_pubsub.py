"""pub, sub, request and reply against a real server: what they show, how they end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.command_line import Tool

# --- pub and sub --------------------------------------------------------------------------------


def test_a_published_message_is_shown_with_headers_and_body(tool: Tool) -> None:
    with tool.listen("sub", "show.>", "--count", "1") as sub:
        assert tool.run("pub", "show.one", "hello", "--header", "Colour: blue").code == 0
        ended = sub.end()
    assert ended.code == 0
    assert ended.out == "[#1] Received on show.one\nColour: blue\n\nhello\n\n"
    assert ended.err == "Received 1 message, 5 B\n"


@pytest.mark.parametrize("body", [("-",), ()], ids=["dash", "omitted"])
def test_the_body_comes_from_standard_input_untouched(tool: Tool, body: tuple[str, ...]) -> None:
    sent = b"\x00\xff {{Count}}\r\nsecond line"
    with tool.listen("sub", "stdin", "--count", "1", "--json") as sub:
        tool.run("pub", "stdin", *body, stdin=sent)
        received = json.loads(sub.line())
    assert received["data_base64"] == "AP8ge3tDb3VudH19DQpzZWNvbmQgbGluZQ=="


def test_templates_are_filled_in_subject_header_and_body(tool: Tool) -> None:
    with tool.listen("sub", "template.*", "--count", "2", "--json") as sub:
        tool.run("pub", "template.{{Count}}", "n={{.Count}} {{Other}}", "--count", "2",
                 "-H", "Number: {{Count}}")  # fmt: skip
        received = [json.loads(line) for line in sub.end().out.splitlines()]
    assert [(each["subject"], each["data"], each["headers"]) for each in received] == [
        ("template.1", "n=1 {{Other}}", {"Number": "1"}),
        ("template.2", "n=2 {{Other}}", {"Number": "2"}),
    ]


def test_templates_can_be_turned_off(tool: Tool) -> None:
    with tool.listen("sub", "verbatim", "--count", "1", "--raw") as sub:
        tool.run("pub", "verbatim", "{{Count}}", "--no-templates")
        assert sub.end().out == "{{Count}}\n"


def test_json_names_subject_reply_headers_and_data(tool: Tool) -> None:
    with tool.listen("sub", "json", "--count", "1", "--json") as sub:
        published = tool.run("pub", "json", "{}", "--reply", "back", "-H", "A:b", "--json")
        assert json.loads(sub.end().out) == {
            "number": 1, "subject": "json", "reply": "back", "headers": {"A": "b"}, "data": "{}",
        }  # fmt: skip
    report = json.loads(published.out)
    assert (report["published"], report["bytes"], report["interrupted"]) == (1, 2, False)


def test_headers_only_leaves_the_body_out(tool: Tool) -> None:
    with tool.listen("sub", "heads", "--count", "1", "--headers-only") as sub:
        tool.run("pub", "heads", "secret", "-H", "A:b")
        assert sub.end().out == "[#1] Received on heads\nA: b\n"


def test_output_arrives_while_the_command_still_runs(tool: Tool) -> None:
    with tool.listen("sub", "prompt", "--raw") as sub:
        for text in ("one", "two"):
            tool.run("pub", "prompt", text)
            assert sub.line() == f"{text}\n"


def test_a_burst_is_received_whole_and_in_order(tool: Tool) -> None:
    with tool.listen("sub", "burst", "--count", "2000", "--raw") as sub:
        tool.run("pub", "burst", "{{Count}}", "--count", "2000")
        assert sub.end().out == "".join(f"{number}\n" for number in range(1, 2001))


def test_a_queue_group_shares_the_messages(tool: Tool) -> None:
    share = ("sub", "work", "--queue", "group", "--count")
    with tool.listen(*share, "3", "--raw") as first, tool.listen(*share, "3", "--raw") as second:
        tool.run("pub", "work", "{{Count}}", "--count", "6")
        bodies = first.end().out + second.end().out
    assert sorted(bodies.split()) == ["1", "2", "3", "4", "5", "6"]


def test_a_subscription_that_stays_silent_fails_after_its_timeout(tool: Tool) -> None:
    ended = tool.run("sub", "silence", "--timeout", "50ms")
    assert ended.code == 1
    assert "Error: No message on silence for 50ms\n" in ended.err


def test_a_timeout_after_enough_messages_is_success(tool: Tool) -> None:
    with tool.listen("sub", "enough", "--timeout", "3s", "--raw") as sub:
        tool.run("pub", "enough", "here")
        ended = sub.end()
    assert (ended.code, ended.out) == (0, "here\n")


# --- request and reply --------------------------------------------------------------------------


def test_a_reply_is_filled_in_from_the_request(tool: Tool) -> None:
    with tool.listen("reply", "greet", "Hello {{Request}}, number {{Count}}", "--count", "1") as it:
        ended = tool.run("request", "greet", "Ada", "--raw")
        assert (ended.code, ended.out) == (0, "Hello Ada, number 1\n")
        replied = it.end()
    assert replied.code == 0
    assert replied.out == "[#1] Request on greet (3 B) answered with 19 B\n"


def test_a_request_cannot_put_templates_into_the_reply(tool: Tool) -> None:
    with tool.listen("reply", "inject", "<{{Request}}>", "--count", "1"):
        assert tool.run("request", "inject", "{{ID}}", "--raw").out == "<{{ID}}>\n"


def test_echo_returns_body_and_headers(tool: Tool) -> None:
    with tool.listen("reply", "echo", "--echo", "--count", "1"):
        answer = json.loads(tool.run("request", "echo", "x", "-H", "A:b", "--json").out)
    assert (answer["data"], answer["headers"]) == ("x", {"A": "b"})
    assert answer["elapsed_ms"] > 0


def test_a_command_gets_the_body_and_the_subject_and_nothing_runs_from_the_body(
    tool: Tool,
) -> None:
    shell = 'printf "%s:" "$NATS_REQUEST_SUBJECT"; tr a-z A-Z'
    with tool.listen("reply", "shell.*", "--command", shell, "--count", "1"):
        answer = tool.run("request", "shell.up", "$(echo no); `no`", "--raw")
    assert answer.out == "shell.up:$(ECHO NO); `NO`\n"


def test_a_failing_command_is_reported_to_the_asker(tool: Tool) -> None:
    with tool.listen("reply", "broken", "--command", "echo partly; exit 7", "--count", "1"):
        ended = tool.run("request", "broken")
    assert ended.code == 1
    assert "Nats-Service-Error: the command ended with 7" in ended.out
    assert ended.err == "Error: The responder reports an error: the command ended with 7\n"


def test_several_replies_are_waited_for(tool: Tool) -> None:
    with (
        tool.listen("reply", "poll", "a", "--count", "1"),
        tool.listen("reply", "poll", "b", "--count", "1"),
    ):
        ended = tool.run("request", "poll", "", "--replies", "2", "--raw")
    assert (ended.code, sorted(ended.out.split())) == (0, ["a", "b"])


def test_too_few_replies_are_shown_and_fail(tool: Tool) -> None:
    with tool.listen("reply", "few", "a", "--count", "1"):
        ended = tool.run("request", "few", "", "--replies", "2", "--raw", "--timeout", "300ms")
    assert (ended.code, ended.out) == (1, "a\n")
    assert "1 of 2 replies on few within 300ms" in ended.err


def test_nobody_listening_is_known_at_once(tool: Tool) -> None:
    ended = tool.run("request", "nobody", "x", "--timeout", "1h")
    assert ended.code == 1
    assert ended.err == (
        "Error: No responders: nobody is subscribed to nobody\n"
        "Start one with: headwater reply nobody 'an answer'\n"
    )


def test_a_listener_that_does_not_answer_is_a_timeout(tool: Tool) -> None:
    with tool.listen("sub", "mute"):
        ended = tool.run("request", "mute", "x", "--timeout", "50ms", "--json")
    assert ended.code == 1
    assert json.loads(ended.err) == {
        "error": "No reply on mute within 50ms",
        "advice": "Allow more time with --timeout, for example --timeout 10s.",
        "exit_code": 1,
    }


# --- being stopped ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "summary"),
    [
        (("sub", "stop"), "Received 1 message, 1 B\n"),
        (("reply", "stop", "--echo"), "Answered 1 message, 1 B\n"),
    ],
)
def test_ctrl_c_is_how_listening_ends(tool: Tool, command: tuple[str, ...], summary: str) -> None:
    with tool.listen(*command) as running:
        tool.run("pub", "stop", "x")
        assert running.line().startswith("[#1]")
        ended = running.interrupt()
    assert (ended.code, ended.err) == (0, summary)


def test_ctrl_c_in_the_middle_of_publishing_says_how_far_it_came(tool: Tool) -> None:
    with (
        tool.listen("sub", "half", "--raw") as sub,
        tool.start("pub", "half", "x", "--count", "2", "--sleep", "1h") as pub,
    ):
        assert sub.line() == "x\n"
        ended = pub.interrupt()
    assert (ended.code, ended.out, ended.err) == (130, "Sent 1 message, 1 B\n", "")


def test_a_reader_that_goes_away_ends_the_command_quietly(tool: Tool) -> None:
    with tool.listen("sub", "pipe", "--raw") as sub:
        assert sub.process.stdout is not None
        sub.process.stdout.close()
        tool.run("pub", "pipe", "x")
        assert sub.process.wait() == 141
        assert sub.process.stderr is not None
        assert sub.process.stderr.read() == b""


# --- refusals of the server ---------------------------------------------------------------------


def test_a_server_that_is_not_there_is_exit_3_with_the_way_to_start_one() -> None:
    ended = Tool("nats://127.0.0.1:1").run("pub", "a", "x")
    assert ended.code == 3
    assert ended.err == (
        "Error: Cannot reach nats://127.0.0.1:1: is a server running?\n"
        "Start one with: headwater serve\n"
    )


def test_credentials_are_asked_for_and_taken(start_server: Callable[..., str]) -> None:
    tool = Tool(start_server("--user", "ada", "--pass", "pw"))
    refused = tool.run("pub", "a", "x")
    assert refused.code == 3
    assert "refused the credentials\nGive them with --user" in refused.err
    assert tool.run("pub", "a", "x", "--user", "ada", "--password", "pw").code == 0
    assert tool.run("--user", "ada", "--password", "pw", "pub", "a", "x").code == 0


def test_a_token_is_taken(start_server: Callable[..., str]) -> None:
    tool = Tool(start_server("--auth", "s3cr3t"))
    assert tool.run("pub", "a", "x", "--token", "wrong").code == 3
    assert tool.run("pub", "a", "x", "--token", "s3cr3t").code == 0


@pytest.mark.parametrize(
    "command",
    [("pub", "secret", "x"), ("sub", "secret"), ("request", "secret", "x", "--timeout", "1h")],
    ids=lambda command: command[0],
)
def test_a_refused_permission_fails_the_command(
    start_server: Callable[..., str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        "authorization { users = [ { user: ada, password: pw, permissions: {"
        ' publish: { deny: "secret" }, subscribe: { deny: "secret" } } } ] }'
    )
    tool = Tool(start_server("-c", str(config)))
    ended = tool.run("--user", "ada", "--password", "pw", *command)
    assert ended.code == 1
    assert "error: the server refused: permissions violation" in ended.err.lower()


def test_a_body_over_the_servers_limit_is_refused_with_the_limit(
    start_server: Callable[..., str], tmp_path: Path
) -> None:
    config = tmp_path / "server.conf"
    config.write_text("max_payload: 10")
    tool = Tool(start_server("-c", str(config)))
    assert tool.run("pub", "a", "x" * 10).code == 0
    ended = tool.run("pub", "a", "x" * 11)
    assert ended.code == 1
    assert "The body has 11 bytes; the server accepts 10" in ended.err


# --- refusals of the command line ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("sub", "a..b"), "'a..b' is not a subject"),
        (("pub", "a b", "x"), "'a b' is not a subject"),
        (("pub", "a", "x", "-H", "no colon"), "'no colon' is not a header"),
        (("pub", "a", "x", "-H", "a b: c"), "'a b' is not a header name"),
        (("pub", "a", "x", "--sleep", "soon"), "'soon' is not a duration"),
        (("sub", "a", "--raw", "--json"), "exclude one another"),
        (("reply", "a"), "say how to answer"),
        (("reply", "a", "b", "--echo"), "say how to answer"),
    ],
)
def test_a_mistake_in_the_command_line_is_exit_2(
    tool: Tool, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = tool.run(*arguments)
    assert ended.code == 2
    assert complaint in ended.err
