"""`headwater pub` to the subjects of a stream: what it claims, and what `--jetstream` waits for."""

import json
import re

import pytest

from tests.kit.command_line import Call, Tool

MANY: int = 1000


@pytest.fixture
def full(call: Call, name: str) -> str:
    """A stream that takes two messages and refuses the third."""
    limits = ("--max-msgs", "2", "--discard", "new")
    assert call("stream", "add", name, "--subjects", f"{name}.>", *limits).code == 0
    return name


def stored_in(call: Call, stream: str) -> int:
    """The number of messages in a stream."""
    messages: int = json.loads(call("stream", "info", stream, "--json").out)["state"]["messages"]
    return messages


def test_a_publish_without_acks_claims_only_that_it_was_sent(call: Call, full: str) -> None:
    ended = call("pub", f"{full}.a", "x", "--count", "5")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Sent 5 messages, 5 B")


def test_refused_messages_are_counted_and_fail_the_command(call: Call, full: str) -> None:
    ended = call("pub", f"{full}.a", "x", "--count", "5", "--jetstream")
    assert ended.code == 1
    assert ended.out.startswith(f"Stored 2 messages in stream {full}, sequences 1 to 2, in ")
    assert ended.err == (
        f"Error: 3 of 5 messages not stored: stream {full}: maximum messages exceeded "
        "(err_code 10077)\n"
        f"See its limits with: headwater stream info {full}\n"
    )
    assert stored_in(call, full) == 2


def test_refused_messages_are_counted_for_programs(call: Call, full: str) -> None:
    ended = call("pub", f"{full}.a", "x", "--count", "5", "--jetstream", "--json")
    assert ended.code == 1
    report = json.loads(ended.out)
    assert (report["published"], report["stored"], report["refused"]) == (5, 2, 3)
    assert report["reason"] == f"stream {full}: maximum messages exceeded (err_code 10077)"
    assert report["streams"] == [{"stream": full, "first_sequence": 1, "last_sequence": 2}]
    assert json.loads(ended.err)["exit_code"] == 1


def test_one_stored_message_is_told_with_its_sequence(call: Call, full: str) -> None:
    ended = call("pub", f"{full}.a", "x", "-J")
    assert (ended.code, ended.out) == (0, f"Stored 1 message in stream {full}, sequence 1\n")


def test_more_messages_than_may_be_outstanding_are_all_stored(call: Call, name: str) -> None:
    assert call("stream", "add", name, "--subjects", f"{name}.>").code == 0
    ended = call("pub", f"{name}.{{{{Count}}}}", "x", "--count", str(MANY), "--jetstream")
    assert ended.code == 0
    assert re.match(
        rf"Stored 1,000 messages in stream {name}, sequences 1 to 1,000, in ", ended.out
    )
    assert stored_in(call, name) == MANY


def test_a_duplicate_is_neither_stored_nor_refused(call: Call, full: str) -> None:
    publish = ("pub", f"{full}.a", "x", "--header", "Nats-Msg-Id: 1", "--count", "2", "-J")
    ended = call(*publish)
    assert ended.code == 0
    assert ended.out == (
        f"Stored 1 message in stream {full}, sequence 1; 1 duplicate of what was stored before\n"
    )
    report = json.loads(call(*publish, "--json").out)
    assert (report["stored"], report["duplicates"], report["refused"]) == (0, 2, 0)


def test_a_subject_that_no_stream_keeps_is_told_at_once(call: Call, name: str) -> None:
    ended = call("pub", f"{name}.a", "x", "--jetstream", "--timeout", "1h")
    assert ended.code == 1
    assert ended.out == ""
    assert ended.err == (
        f"Error: 1 of 1 message not stored: no stream keeps {name}.a\n"
        f"Make one with: headwater stream add NAME --subjects '{name}.a'\n"
    )


def test_a_listener_that_gives_no_ack_is_a_timeout(jetstream: str, call: Call, name: str) -> None:
    with Tool(jetstream).listen("sub", f"{name}.a"):
        ended = call("pub", f"{name}.a", "x", "--jetstream", "--timeout", "50ms")
    assert ended.code == 1
    assert "Error: 1 of 1 message without an ack within 50ms\n" in ended.err


def test_an_answer_that_is_no_ack_is_not_taken_for_one(
    jetstream: str, call: Call, name: str
) -> None:
    with Tool(jetstream).listen("reply", f"{name}.a", "hello", "--count", "1"):
        ended = call("pub", f"{name}.a", "x", "--jetstream")
    assert ended.code == 1
    assert f"1 of 1 message not stored: the answer to {name}.a is not a stream's ack" in ended.err


def test_ctrl_c_while_publishing_tells_what_is_stored(
    jetstream: str, call: Call, name: str
) -> None:
    assert call("stream", "add", name, "--subjects", f"{name}.>").code == 0
    publish = ("pub", f"{name}.a", "x", "--count", "9", "--sleep", "1h", "--jetstream")
    with (
        Tool(jetstream).listen("sub", f"{name}.>", "--raw") as sub,
        Tool(jetstream).start(*publish) as pub,
    ):
        assert sub.line() == "x\n"
        ended = pub.interrupt()
    assert (ended.code, ended.err) == (130, "")
    assert ended.out == f"Stored 1 message in stream {name}, sequence 1\n"


def test_a_reply_subject_and_an_ack_exclude_one_another(call: Call) -> None:
    assert call("pub", "a", "x", "--jetstream", "--reply", "b").code == 2
