"""Delivered messages that were not shown: `consumer next` and `sub` give them back."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from typing import Final

import pytest

from headwater.cli.consumers.delivery import (
    BATCH_SHOWN_WITHIN_S,
    REQUEST_BATCH_FIRST,
    REQUEST_BATCH_MAX,
    next_batch,
)
from headwater.cli.shell.pipe_reader import PipeReader
from tests.kit.command_line import HEADWATER, JETSTREAM_SERVERS, PATIENCE_S, Call, Ended, Tool
from tests.unit.cli.consumers.consumer_calls import ask, run_with_statuses, sequences_of

# More messages than one request asks for.
MESSAGES: Final = 700
FLAVOURS: Final = pytest.mark.parametrize(
    "flags", [(), ("--deliver-subject", "{}_to")], ids=["pull", "push"]
)


@pytest.fixture(scope="module", params=JETSTREAM_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of server."""
    return str(request.param)


@pytest.fixture
def made(call: Call, jetstream: str, name: str) -> Callable[..., str]:
    """Make a stream and a consumer C, which repeats nothing by itself: `made(*flags)`."""

    def make(*flags: str) -> str:
        assert call("stream", "add", name, "--subjects", f"{name}.>").code == 0
        ask(jetstream, *((f"{name}.a", b"body %d" % number) for number in range(MESSAGES)))
        words = [flag.format(name) for flag in flags]
        assert call("consumer", "add", name, "C", "--ack-wait", "1h", *words).code == 0
        return name

    return make


def acknowledged(call: Call, stream: str) -> int:
    """Up to which message everything is acknowledged."""
    info = json.loads(call("consumer", "info", stream, "C", "--json").out)
    floor: int = info["ack_floor"]["stream_seq"]
    return floor


def assert_all_but_the_first_come_again(call: Call, stream: str, first: int) -> None:
    """Every message after `first` is delivered at once, none of them before it."""
    count = MESSAGES - first
    again: Ended = call(
        "consumer", "sub", stream, "C", "--count", count, "--json", "--wait", f"{PATIENCE_S}s"
    )
    assert sorted(sequences_of(again)) == list(range(first + 1, MESSAGES + 1))
    assert acknowledged(call, stream) == MESSAGES


def comes_again_at_once(kind: str, flags: tuple[str, ...]) -> bool:
    """nats-server may go on to push for a moment after the last subscription has gone: messages
    that are given back then go to nobody, and come again after the ack wait."""
    return kind != "nats-server" or not flags


@FLAVOURS
def test_a_reader_that_leaves_costs_only_the_messages_it_has_read(
    call: Call, kind: str, jetstream: str, made: Callable[..., str], flags: tuple[str, ...]
) -> None:
    stream = made(*flags)
    follow = shlex.join([*HEADWATER, "consumer", "sub", stream, "C", "--json"])
    done = subprocess.run(
        f"{follow} | head -2",
        shell=True,
        capture_output=True,
        env=Tool(jetstream).environment,
        timeout=PATIENCE_S,
        check=True,
    )
    shown = [json.loads(line)["sequence"] for line in done.stdout.splitlines()]
    assert shown == [1, 2]
    assert acknowledged(call, stream) == 2
    if comes_again_at_once(kind, flags):
        assert_all_but_the_first_come_again(call, stream, 2)


@FLAVOURS
def test_ctrl_c_gives_back_every_message_that_was_not_read(
    call: Call, kind: str, jetstream: str, made: Callable[..., str], flags: tuple[str, ...]
) -> None:
    stream = made(*flags)
    with Tool(jetstream).start("consumer", "sub", stream, "C", "--json") as running:
        seen = [json.loads(running.line())["sequence"] for _ in range(2)]
        ended = running.interrupt()
    assert ended.code == 0
    seen += sequences_of(ended)
    floor = acknowledged(call, stream)
    assert 2 <= floor <= len(seen)
    if comes_again_at_once(kind, flags):
        assert_all_but_the_first_come_again(call, stream, floor)


def test_a_program_may_read_the_messages_it_asked_for_when_the_command_has_ended(
    call: Call, jetstream: str, made: Callable[..., str]
) -> None:
    stream = made()
    with Tool(jetstream).start("consumer", "next", stream, "C", "--count", "3", "--raw") as running:
        assert running.process.wait(PATIENCE_S) == 0
        assert running.end().out == "body 0\nbody 1\nbody 2\n"
    assert acknowledged(call, stream) == 3


def test_a_message_that_can_not_be_given_back_is_not_fetched_ahead(
    jetstream: str, made: Callable[..., str]
) -> None:
    ended, requests = run_with_statuses(
        jetstream, made("--max-deliver", "1"), [], "sub", "--count", "3", "--raw"
    )
    assert ended.out == "body 0\nbody 1\nbody 2\n"
    assert [request["batch"] for request in requests] == [1, 1, 1]


def test_requests_grow_with_a_reader_that_keeps_up(
    jetstream: str, made: Callable[..., str]
) -> None:
    count = str(REQUEST_BATCH_FIRST * 3 + 1)
    _, requests = run_with_statuses(jetstream, made(), [], "sub", "--count", count, "--raw")
    assert requests[0]["batch"] == REQUEST_BATCH_FIRST
    assert sum(request["batch"] for request in requests) == int(count)


@pytest.mark.parametrize(
    ("batch", "showing_s", "following"),
    [
        (16, 0.0, 32),
        (16, BATCH_SHOWN_WITHIN_S, 32),
        (16, BATCH_SHOWN_WITHIN_S * 1.01, 8),
        (1, BATCH_SHOWN_WITHIN_S * 2, 1),
        (REQUEST_BATCH_MAX - 1, 0.0, REQUEST_BATCH_MAX),
        (REQUEST_BATCH_MAX, 0.0, REQUEST_BATCH_MAX),
    ],
)
def test_a_request_asks_for_what_its_reader_takes(
    batch: int, showing_s: float, following: int
) -> None:
    assert next_batch(batch, showing_s) == following


# --- the reader of a pipe -----------------------------------------------------------------------


def test_bytes_in_a_pipe_are_not_read_until_the_reader_takes_them() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream, os.fdopen(reader, "rb", buffering=0) as theirs:
        pipe = PipeReader(stream)
        assert pipe.has_taken_all()
        print("message", file=stream, flush=True)
        assert not pipe.has_taken_all()
        theirs.read(3)
        assert not pipe.has_taken_all()
        theirs.read(100)
        assert pipe.has_taken_all()


def test_a_reader_that_closes_the_pipe_has_not_read_the_rest() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        pipe = PipeReader(stream)
        print("message", file=stream, flush=True)
        os.close(reader)
        with pytest.raises(BrokenPipeError):
            pipe.has_taken_all()


def test_a_reader_that_closes_the_pipe_behind_the_last_byte_has_read_all() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        pipe = PipeReader(stream)
        print("message", file=stream, flush=True)
        os.read(reader, 100)
        os.close(reader)
        assert pipe.has_taken_all()


def test_a_file_has_no_reader_to_wait_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (tmp_path_factory.mktemp("output") / "file").open("w") as stream:
        print("message", file=stream, flush=True)
        assert PipeReader(stream).has_taken_all()
