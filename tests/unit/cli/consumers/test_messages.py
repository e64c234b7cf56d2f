"""`headwater consumer next` and `sub`: against a real server, and against one that misbehaves."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from nats.aio.msg import Msg

from headwater.cli.api.client import AsyncApiClient
from headwater.cli.connection.session import Session
from headwater.cli.connection.target import Target
from headwater.cli.consumers.delivery import (
    ACK,
    REQUEST_BATCH_MAX,
    Acknowledger,
    Incoming,
    Patience,
    Receiver,
    receive,
)
from headwater.cli.shell.exits import CommandFailed
from headwater.client.api.requests import DEFAULT_PREFIX
from tests.kit.command_line import (
    HEADWATER,
    JETSTREAM_SERVERS,
    PATIENCE_S,
    Call,
    Ended,
    Tool,
    serving,
)
from tests.unit.cli.consumers.consumer_calls import (
    SECOND_NS,
    Status,
    ask,
    lines_of,
    run_with_statuses,
    sequences_of,
)

MESSAGES: Final = 10
# More messages than fit the first window of flow control.
LARGE_BODY: Final = b"x" * 4096
LARGE_MESSAGES: Final = 1500
NEVER_AGAIN: Final = ("--ack-wait", "1h")
# A bound for commands that should end sooner: the test fails instead of hanging.
AT_MOST: Final = ("--wait", f"{PATIENCE_S}s")


@pytest.fixture(scope="module", params=JETSTREAM_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of server."""
    return str(request.param)


@pytest.fixture
def consumer(call: Call) -> Call:
    """Run `headwater consumer`."""

    def called(*arguments: object) -> Ended:
        return call("consumer", *arguments)

    return called


@pytest.fixture
def filled(call: Call, jetstream: str, name: str) -> str:
    """A stream with ten messages, the odd ones with a header."""
    assert call("stream", "add", name, "--subjects", f"{name}.>").code == 0
    fill(jetstream, name, range(1, MESSAGES + 1))
    return name


@pytest.fixture
def made(consumer: Call, filled: str) -> Callable[..., str]:
    """Make a consumer C of the stream, which delivers nothing twice by itself: `made(*flags)`."""

    def make(*flags: str) -> str:
        assert consumer("add", filled, "C", *NEVER_AGAIN, *flags).code == 0
        return filled

    return make


def fill(url: str, stream: str, numbers: range) -> None:
    """Publish messages to a stream."""
    ask(url, *((f"{stream}.{number % 2}", b"body %d" % number) for number in numbers))


def state_of(consumer: Call, stream: str) -> tuple[int, int, int]:
    """The server's counts: pending, not acknowledged, and the acknowledged sequence."""
    info = json.loads(consumer("info", stream, "C", "--json").out)
    return info["num_pending"], info["num_ack_pending"], info["ack_floor"]["stream_seq"]


# --- next ---------------------------------------------------------------------------------------


def test_a_message_is_shown_and_then_acknowledged(consumer: Call, made: Callable[..., str]) -> None:
    stream = made()
    ended = consumer("next", stream, "C")
    assert (ended.code, ended.err) == (0, "")
    about, body, *blank = ended.out.split("\n")
    assert about.startswith(f"[#1] Received on {stream}.1: sequence 1, stored ")
    assert about.endswith(", 9 pending")
    assert (body, blank) == ("body 1", ["", ""])
    assert state_of(consumer, stream) == (9, 0, 1)


def test_several_messages_are_shown_in_order(consumer: Call, made: Callable[..., str]) -> None:
    stream = made()
    ended = consumer("next", stream, "C", "--count", "4", "--json")
    assert sequences_of(ended) == [1, 2, 3, 4]
    assert state_of(consumer, stream) == (6, 0, 4)


def test_a_message_is_a_document_for_programs(
    consumer: Call, call: Call, made: Callable[..., str], jetstream: str
) -> None:
    stream = made("--filter", "*.headers")
    call("pub", f"{stream}.headers", "text", "--header", "Colour: red")
    Tool(jetstream).run("pub", f"{stream}.headers", stdin=b"\xff")
    text, binary = lines_of(consumer("next", stream, "C", "--count", "2", "--json"))
    assert text.pop("time").startswith("20")
    assert text.pop("reply").startswith(f"$JS.ACK.{stream}.C.1.11.1.")
    assert text == {
        "number": 1, "subject": f"{stream}.headers", "stream": stream, "consumer": "C",
        "sequence": 11, "consumer_sequence": 1, "delivered": 1, "pending": 1,
        "headers": {"Colour": "red"}, "data": "text",
    }  # fmt: skip
    assert (binary["number"], binary["data_base64"]) == (2, "/w==")
    assert "headers" not in binary


def test_raw_bodies_are_byte_for_byte(jetstream: str, made: Callable[..., str]) -> None:
    stream = made("--deliver", "new")
    tool = Tool(jetstream)
    payload = bytes(range(256))
    tool.run("pub", f"{stream}.raw", stdin=payload)
    done = subprocess.run(
        [*HEADWATER, "consumer", "next", stream, "C", "--raw"],
        capture_output=True, env=tool.environment, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert done.stdout == payload + b"\n"


def test_bodies_can_be_left_out(consumer: Call, call: Call, made: Callable[..., str]) -> None:
    stream = made("--deliver", "new")
    call("pub", f"{stream}.h", "a body", "--header", "Colour: red")
    out = consumer("next", stream, "C", "--no-bodies").out
    assert out.endswith(" pending\nColour: red\n")


def test_without_an_acknowledgement_a_message_stays_with_the_consumer(
    consumer: Call, made: Callable[..., str]
) -> None:
    stream = made()
    assert sequences_of(consumer("next", stream, "C", "--no-ack", "--json")) == [1]
    assert state_of(consumer, stream) == (9, 1, 0)
    assert sequences_of(consumer("next", stream, "C", "--json")) == [2]


def test_a_message_that_is_given_back_comes_again(consumer: Call, made: Callable[..., str]) -> None:
    stream = made()
    consumer("next", stream, "C", "--nak")
    (again,) = lines_of(consumer("next", stream, "C", "--json"))
    assert (again["sequence"], again["delivered"]) == (1, 2)
    shown = consumer("next", stream, "C", "--nak").out + consumer("next", stream, "C").out
    assert ", delivery 2, " in shown


def test_a_message_can_be_given_back_for_later(consumer: Call, made: Callable[..., str]) -> None:
    stream = made()
    consumer("next", stream, "C", "--nak", "--delay", "1h")
    rest = consumer("next", stream, "C", "--count", "20", "--wait", "0", "--json")
    assert sequences_of(rest) == list(range(2, MESSAGES + 1))
    assert rest.err == "9 of 20 messages\n"
    assert state_of(consumer, stream) == (0, 1, 0)


def test_a_message_can_be_given_up(
    consumer: Call, jetstream: str, made: Callable[..., str]
) -> None:
    stream = made()
    advisory = f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{stream}.C"
    with Tool(jetstream).listen("sub", advisory, "--count", "1", "--raw") as listener:
        assert consumer("next", stream, "C", "--term", "--reason", "no order").code == 0
        told = json.loads(listener.end().out)
    assert (told["stream_seq"], told["reason"]) == (1, "no order")
    assert state_of(consumer, stream) == (9, 0, 1)


def test_acknowledging_one_acknowledges_all_before_it(
    consumer: Call, made: Callable[..., str]
) -> None:
    stream = made("--ack", "all")
    consumer("next", stream, "C", "--count", "3", "--no-ack")
    assert state_of(consumer, stream) == (7, 3, 0)
    consumer("next", stream, "C")
    assert state_of(consumer, stream) == (6, 0, 4)


def test_a_consumer_without_acknowledgements_gets_none(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C", "--ack", "none")
    assert sequences_of(consumer("next", filled, "C", "--count", "2", "--json")) == [1, 2]
    refused = consumer("next", filled, "C", "--nak")
    assert (refused.code, refused.out) == (2, "")
    assert "takes no acknowledgements: its policy is none" in refused.err
    assert sequences_of(consumer("next", filled, "C", "--json")) == [3]


def test_many_messages_are_asked_for_in_several_requests(
    consumer: Call, call: Call, made: Callable[..., str]
) -> None:
    stream = made("--deliver", "new", "--max-ack-pending", "-1")
    count = REQUEST_BATCH_MAX + 50
    call("pub", f"{stream}.many", "m", "--count", str(count))
    ended = consumer("next", stream, "C", "--count", str(count), "--json")
    assert sequences_of(ended) == list(range(MESSAGES + 1, MESSAGES + 1 + count))
    assert state_of(consumer, stream) == (0, 0, MESSAGES + count)


def test_the_limits_of_a_request_are_kept(consumer: Call, made: Callable[..., str]) -> None:
    stream = made("--max-batch", "3", "--max-expires", "20ms")
    ended = consumer("next", stream, "C", "--count", "10", "--json", *AT_MOST)
    assert (ended.code, ended.err) == (0, "")
    assert sequences_of(ended) == list(range(1, MESSAGES + 1))


@pytest.mark.parametrize("flags", [(), ("--max-expires", "20ms")], ids=["once", "many times"])
def test_a_message_that_comes_within_the_wait_is_shown(
    call: Call, jetstream: str, made: Callable[..., str], flags: tuple[str, ...]
) -> None:
    stream = made("--deliver", "new", *flags)
    with Tool(jetstream).start("consumer", "next", stream, "C", "--wait", "1h") as waiting:
        call("pub", f"{stream}.late", "at last")
        assert waiting.line().startswith(f"[#1] Received on {stream}.late")
        assert waiting.end().code == 0


# --- nothing to show ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "before", "reason"),
    [
        (("--deliver", "new"), (), "All is delivered and acknowledged. Allow more time with "),
        ((), ("next", "{}", "C", "--count", "10", "--no-ack"),
         "All is delivered; 10 messages not acknowledged yet."),
        (("--max-ack-pending", "2"), ("next", "{}", "C", "--count", "2", "--no-ack"),
         "2 messages wait to be acknowledged, the most it allows; they come again after 1h."),
        ((), ("pause", "{}", "C", "1h"), "It is paused until 2"),
    ],
    ids=["nothing", "unacknowledged", "at the limit", "paused"],
)  # fmt: skip
def test_no_message_is_a_failure_that_is_explained(
    consumer: Call, made: Callable[..., str], flags: tuple[str, ...], before: tuple[str, ...],
    reason: str,
) -> None:  # fmt: skip
    stream = made(*flags)
    if before:
        consumer(*(word.format(stream) for word in before))
    ended = consumer("next", stream, "C", "--wait", "50ms")
    assert (ended.code, ended.out) == (1, "")
    problem, advice = ended.err.splitlines()[-2:]
    assert problem == "Error: No message from consumer C within 50ms"
    assert advice.startswith(reason)


def test_what_is_there_can_be_asked_for_without_waiting(
    consumer: Call, made: Callable[..., str]
) -> None:
    stream = made("--deliver", "new")
    ended = consumer("next", stream, "C", "--wait", "0", "--json")
    assert ended.code == 1
    assert json.loads(ended.err)["error"] == "No message from consumer C"


def test_a_push_consumer_can_not_be_asked(consumer: Call, made: Callable[..., str]) -> None:
    stream = made("--deliver-subject", "nowhere")
    assert consumer("next", stream, "C").err == (
        "Error: Consumer C cannot be asked: it pushes to nowhere\n"
        f"Listen to it with: headwater consumer sub {stream} C\n"
    )


def test_what_the_reader_did_not_get_is_not_acknowledged(
    consumer: Call, jetstream: str, made: Callable[..., str]
) -> None:
    stream = made()
    with Tool(jetstream).start("consumer", "next", stream, "C", "--count", "5") as running:
        assert running.process.stdout is not None
        running.process.stdout.close()
        assert running.process.wait(PATIENCE_S) == 141
    assert state_of(consumer, stream)[2] == 0


def test_ctrl_c_ends_the_wait(jetstream: str, consumer: Call, made: Callable[..., str]) -> None:
    stream = made()
    arguments = ("consumer", "next", stream, "C", "--count", "11", "--wait", "1h", "--json")
    with Tool(jetstream).start(*arguments) as waiting:
        for _ in range(MESSAGES):
            waiting.line()
        ended = waiting.interrupt()
    assert (ended.code, ended.err) == (130, "10 of 11 messages within 1h\n")
    assert state_of(consumer, stream) == (0, 0, MESSAGES)


# --- sub ----------------------------------------------------------------------------------------


def following(stream: str, kind: str) -> str:
    """The line that `sub` prints once it has found the consumer."""
    return f"Following consumer C of stream {stream} ({kind})\n"


@pytest.mark.parametrize("flags", [(), ("--deliver-subject", "{}_to")], ids=["pull", "push"])
def test_a_consumer_is_followed_until_ctrl_c(
    consumer: Call, call: Call, jetstream: str, made: Callable[..., str], filled: str,
    flags: tuple[str, ...],
) -> None:  # fmt: skip
    stream = made(*(flag.format(filled) for flag in flags))
    with Tool(jetstream).start("consumer", "sub", stream, "C", "--json") as running:
        assert running.remark() == following(stream, "push" if flags else "pull")
        seen = [json.loads(running.line())["sequence"] for _ in range(MESSAGES)]
        call("pub", f"{stream}.more", "more")
        seen.append(json.loads(running.line())["sequence"])
        ended = running.interrupt()
    assert seen == list(range(1, MESSAGES + 2))
    assert ended.code == 0
    assert ended.err.startswith("Received 11 messages, ")
    assert state_of(consumer, stream) == (0, 0, MESSAGES + 1)


def test_following_ends_after_so_many(consumer: Call, made: Callable[..., str]) -> None:
    stream = made()
    ended = consumer("sub", stream, "C", "--count", "3", "--raw", *AT_MOST)
    assert (ended.code, ended.out) == (0, "body 1\nbody 2\nbody 3\n")
    assert state_of(consumer, stream) == (7, 0, 3)


@pytest.mark.parametrize(
    ("flags", "count", "code"),
    [((), (), 0), (("--deliver-subject", "{}_to"), ("--count", "11"), 1)],
    ids=["pull", "push"],
)
def test_following_ends_when_nothing_comes(
    consumer: Call, made: Callable[..., str], filled: str, flags: tuple[str, ...],
    count: tuple[str, ...], code: int,
) -> None:  # fmt: skip
    stream = made(*(flag.format(filled) for flag in flags))
    ended = consumer("sub", stream, "C", "--wait", "2s", "--json", *count)
    assert ended.code == code
    assert sequences_of(ended) == list(range(1, MESSAGES + 1))
    assert ("No message from consumer C for 2s" in ended.err) == bool(code)


def test_a_push_consumer_that_waits_for_its_receiver_is_answered(
    jetstream: str, made: Callable[..., str], filled: str
) -> None:
    stream = made("--deliver", "new", "--deliver-subject", f"{filled}_to",
                  "--heartbeat", "5s", "--flow-control", "--ack", "none")  # fmt: skip
    tool = Tool(jetstream)
    count = str(LARGE_MESSAGES)
    tool.run("pub", f"{stream}.large", LARGE_BODY.decode(), "--count", count)
    ended = tool.run("consumer", "sub", stream, "C", "--count", count, "--no-bodies")
    assert ended.code == 0
    assert len(ended.out.splitlines()) == LARGE_MESSAGES


def test_a_deliver_group_shares_and_without_one_there_is_one_listener(
    consumer: Call, jetstream: str, made: Callable[..., str], filled: str
) -> None:
    shared = made("--deliver-subject", f"{filled}_shared", "--deliver-group", "g", "--memory")
    assert consumer("add", filled, "ALONE", "--deliver-subject", f"{filled}_alone").code == 0
    tool = Tool(jetstream)
    with (
        tool.start("consumer", "sub", shared, "C", "--json") as first,
        tool.start("consumer", "sub", filled, "ALONE", "--json") as alone,
    ):
        assert first.line()
        assert alone.line()
        assert consumer("sub", shared, "C", "--wait", "50ms").err.startswith(
            following(shared, "push")
        )
        refused = consumer("sub", filled, "ALONE")
    assert refused.code == 1
    assert refused.err.startswith("Error: Somebody else listens to consumer ALONE already\n")


def test_following_ends_when_the_consumer_is_removed(
    consumer: Call, jetstream: str, made: Callable[..., str]
) -> None:
    stream = made()
    with Tool(jetstream).start("consumer", "sub", stream, "C", "--json") as running:
        for _ in range(MESSAGES):
            running.line()
        consumer("rm", stream, "C", "--force")
        ended = running.end()
    assert ended.code == 1
    failure = json.loads(ended.err.splitlines()[-1])
    assert failure["error"] == "The consumer C was removed meanwhile"
    assert failure["advice"] == f"See what there is with: headwater consumer ls {stream}"


def test_following_outlives_the_server(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        with serving(kind, "-js", "-sd", str(tmp_path)) as url:
            tool = Tool(url)
            assert tool.run("stream", "add", "S").code == 0
            assert tool.run("consumer", "add", "S", "C").code == 0
            ask(url, ("S", b"before"))
            running = stack.enter_context(tool.start("consumer", "sub", "S", "C", "--raw"))
            assert running.line() == "before\n"
        port = url.rpartition(":")[2]
        with serving(kind, "-js", "-sd", str(tmp_path), "-p", port):
            ask(url, ("S", b"after"))
            # A message whose acknowledgement was not confirmed may come twice.
            line = running.line()
            assert (running.line() if line == "before\n" else line) == "after\n"
            running.process.kill()


def test_what_arrived_and_was_not_shown_is_given_back(
    consumer: Call, jetstream: str, made: Callable[..., str], filled: str
) -> None:
    stream = made("--deliver-subject", f"{filled}_to")

    async def scenario() -> None:
        async with Session(Target((jetstream,), PATIENCE_S), print) as session:
            api = AsyncApiClient(session, DEFAULT_PREFIX, PATIENCE_S)
            info = await api.consumer(stream, "C")
            acks, patience = Acknowledger(session), Patience(None, renews=True)
            receiver = Receiver(lambda *_: None, lambda: True, acks, ACK, None, patience)

            async def work(incoming: Incoming) -> None:
                await incoming.listen(info["config"]["deliver_subject"])
                await receiver.show_message(await incoming.next(PATIENCE_S))
                while (await api.consumer(stream, "C"))["num_pending"]:
                    await session.flush()
                # All messages were sent before the last answer; the client hands them on.
                for _ in range(MESSAGES):
                    await asyncio.sleep(0)

            assert (await receive(api, info, receiver, work)).messages == 1

    asyncio.run(scenario())
    again = lines_of(consumer("sub", stream, "C", "--count", "9", "--json", *AT_MOST))
    assert [line["sequence"] for line in again] == list(range(2, MESSAGES + 1))
    assert {line["delivered"] for line in again} == {2}


# --- priority groups ----------------------------------------------------------------------------


def test_the_first_priority_group_is_asked_for_unless_another_is_named(
    consumer: Call, made: Callable[..., str]
) -> None:
    stream = made("--priority-policy", "overflow", "--priority-group", "a")
    assert consumer("next", stream, "C").code == 0
    assert consumer("next", stream, "C", "--group", "a", "--min-pending", "9").code == 0
    held = consumer("next", stream, "C", "--min-pending", "9", "--wait", "50ms")
    assert (held.code, held.err.splitlines()[-1]) == (
        1, "8 messages pending: allow more time with --wait.",
    )  # fmt: skip
    wrong = consumer("next", stream, "C", "--group", "b")
    assert wrong.err.splitlines() == [
        "Error: The consumer refused the request: 400 Bad Request - Invalid Priority Group",
        f"Name one of its groups with --group: headwater consumer info {stream} C",
    ]


def test_a_pinned_client_goes_on_with_its_pin(consumer: Call, made: Callable[..., str]) -> None:
    stream = made("--priority-policy", "pinned_client", "--priority-group", "a",
                  "--max-batch", "2", "--priority-timeout", "1h")  # fmt: skip
    ended = consumer("next", stream, "C", "--count", "6", "--json")
    assert sequences_of(ended) == [1, 2, 3, 4, 5, 6]
    pins = {line["headers"]["Nats-Pin-Id"] for line in lines_of(ended)}
    assert len(pins) == 1
    out = consumer("info", stream, "C").out
    assert f"\n  Group a:             pinned to {pins.pop()} since 2" in out


def test_a_consumer_without_groups_can_not_be_asked_for_one(
    consumer: Call, made: Callable[..., str]
) -> None:
    ended = consumer("next", made(), "C", "--group", "a")
    assert ended.code == 2
    assert ended.err.startswith("Error: Consumer C has no priority groups\n")


# --- a server of the test's own -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (("409", "Exceeded MaxWaiting"), "Too many requests wait already"),
        (("400", "Bad Request - heartbeat value too large"), "See its settings with"),
        (("409", "Consumer is push based"), "See its settings with"),
        (("418", "I'm a teapot"), "See its settings with"),
    ],
)
def test_a_refused_request_is_told_with_the_servers_words(
    jetstream: str, made: Callable[..., str], status: Status, advice: str
) -> None:
    ended, _ = run_with_statuses(jetstream, made(), [status], "next", "--wait", "1h")
    assert ended.code == 1
    problem, do = ended.err.splitlines()
    assert problem == f"Error: The consumer refused the request: {status[0]} {status[1]}"
    assert do.startswith(advice)


@pytest.mark.parametrize(
    "status",
    [
        ("409", "Leadership Change"),
        ("409", "Server Shutdown"),
        ("408", "Request Timeout"),
        ("423", "Nats-Pin-Id mismatch"),
        ("503", ""),
    ],
    ids=lambda status: " ".join(status),
)
def test_what_passes_is_lived_through(
    jetstream: str, made: Callable[..., str], status: Status
) -> None:
    flags = ("sub", "--count", "1", "--raw")
    ended, requests = run_with_statuses(jetstream, made(), [status], *flags)
    assert (ended.code, ended.out) == (0, "body 1\n")
    assert [request["batch"] for request in requests] == [1, 1]


def test_silence_is_noticed_and_the_consumer_asked_again(
    jetstream: str, made: Callable[..., str]
) -> None:
    flags = ("sub", "--count", "1", "--raw", "--timeout", "2s")
    ended, requests = run_with_statuses(jetstream, made("--max-expires", "1s"), [None], *flags)
    assert (ended.code, ended.out) == (0, "body 1\n")
    assert len(requests) == 2
    assert "No sign of life from consumer C for 3s, asking again ...\n" in ended.err


def test_signs_of_life_are_asked_for_by_who_follows_only(
    jetstream: str, made: Callable[..., str]
) -> None:
    stream = made()
    _, (follower,) = run_with_statuses(jetstream, stream, [], "sub", "--count", "1")
    _, (asker,) = run_with_statuses(jetstream, stream, [], "next")
    assert follower == {"batch": 1, "expires": 30 * SECOND_NS, "idle_heartbeat": 5 * SECOND_NS}
    assert set(asker) == {"batch", "expires"}
    assert asker["expires"] <= 5 * SECOND_NS


def test_a_stored_header_called_status_is_no_status(
    consumer: Call, call: Call, made: Callable[..., str]
) -> None:
    stream = made("--deliver", "new")
    call("pub", f"{stream}.odd", "a message", "--header", "Status: 404")
    assert consumer("next", stream, "C", "--raw").out == "a message\n"


def acknowledge(url: str, subject: str, patience_s: float) -> CommandFailed:
    """The failure of an acknowledgement of a message at `subject`."""

    async def scenario() -> CommandFailed:
        async with Session(Target((url,), PATIENCE_S), print) as session:
            acks = Acknowledger(session)
            await acks.start()
            await acks.send(Msg(session.client, "s", subject, b""), ACK)
            with pytest.raises(CommandFailed) as failure:
                await acks.finish(patience_s)
            return failure.value

    return asyncio.run(scenario())


def test_an_acknowledgement_that_nobody_takes_is_a_failure(jetstream: str) -> None:
    failure = acknowledge(jetstream, "nobody.there", PATIENCE_S)
    assert failure.problem == "Nobody took 1 acknowledgement"
    assert failure.advice == "Was the consumer removed meanwhile?"


def test_an_acknowledgement_that_is_not_confirmed_is_a_failure(jetstream: str) -> None:
    with Tool(jetstream).listen("sub", "mute_acks", "--count", "1", "--raw") as mute:
        failure = acknowledge(jetstream, "mute_acks", 0.05)
        assert mute.end().out == "+ACK\n"
    assert failure.problem == "The server did not confirm 1 acknowledgement within 50ms"
