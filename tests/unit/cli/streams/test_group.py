"""`headwater stream` and `headwater account` against a real server: what they do, say and return.

Every test makes streams of its own, so that one server serves all.
"""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import nats
import pytest

from headwater.cli.shell.settings import Kind
from headwater.cli.streams.group import stream as stream_group
from headwater.cli.streams.settings import SETTINGS
from tests.kit.command_line import (
    HEADWATER,
    JETSTREAM_SERVERS,
    PATIENCE_S,
    Call,
    Ended,
    Tool,
    serving,
)
from tests.kit.terminal import at_terminal


@pytest.fixture(scope="module", params=JETSTREAM_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of server."""
    return str(request.param)


@pytest.fixture
def stream(call: Call) -> Call:
    """Run `headwater stream`."""

    def called(*arguments: object, stdin: str = "") -> Ended:
        return call("stream", *arguments, stdin=stdin)

    return called


@pytest.fixture
def filled(stream: Call, jetstream: str, name: str) -> str:
    """A stream with ten messages on two subjects, of which the third was deleted."""
    assert stream("add", name, "--subjects", f"{name}.>").code == 0

    async def fill() -> None:
        client = await nats.connect(jetstream)
        for number in range(1, 11):
            headers = {"Number": str(number)} if number % 2 else None
            subject, body = f"{name}.{number % 2}", b"body %d" % number
            await client.request(subject, body, PATIENCE_S, headers=headers)
        await client.request(f"$JS.API.STREAM.MSG.DELETE.{name}", b'{"seq": 3}', PATIENCE_S)
        await client.close()

    asyncio.run(fill())
    return name


def config_of(stream: Call, name: str) -> dict[str, Any]:
    """A stream's configuration as the server has it."""
    config: dict[str, Any] = json.loads(stream("info", name, "--json").out)["config"]
    return config


# --- help ---------------------------------------------------------------------------------------


def test_the_group_lists_its_commands_in_the_order_of_use(call: Call) -> None:
    out = call("stream", "--help").out
    places = [out.index(f"\n  {command} ") for command in stream_group.commands]
    assert places == sorted(places)
    assert "A first session:\n  headwater stream add " in out


@pytest.mark.parametrize("command", list(stream_group.commands))
def test_every_command_has_examples(call: Call, command: str) -> None:
    examples = call("stream", command, "--help").out.partition("Examples:\n")[2].splitlines()
    assert len(examples) >= 3
    assert all(f"headwater stream {command}" in example for example in examples)


# --- add ----------------------------------------------------------------------------------------

EVERY_SETTING: Final = (
    "--description", "d", "--storage", "file", "--compression", "s2", "--retention", "interest",
    "--replicas", "1", "--cluster", "C", "--tag", "t1,t2", "--persist-mode", "async",
    "--first-seq", "5", "--metadata", "k=v", "--max-msgs", "10", "--max-msgs-per-subject", "2",
    "--max-bytes", "1MB", "--max-age", "1h", "--max-msg-size", "1KB", "--max-consumers", "3",
    "--discard", "new", "--discard-new-per-subject", "--consumer-inactive-threshold", "5s",
    "--consumer-max-ack-pending", "7", "--no-ack", "--dupe-window", "1m", "--allow-msg-ttl",
    "--marker-ttl", "2s", "--allow-rollup", "--allow-atomic", "--allow-batched",
    "--allow-counter", "--allow-schedules", "--allow-direct", "--mirror-direct", "--deny-delete",
    "--deny-purge", "--sealed", "--mirror", "M", "--source", "S1",
    "--source", '{"name": "S2", "opt_start_seq": 7}', "--transform", "a.*", "b.{{wildcard(1)}}",
    "--republish", "a.>", "r.>", "--republish-headers-only", "--read-consistency", "strong",
    "--write-consistency", "eventual", "--ack-timeout", "3s", "--max-staleness", "10s",
    "--subjects", "a.>,b",
    "--subjects", "c",
)  # fmt: skip


def test_every_setting_has_a_flag_and_a_dry_run_shows_what_would_be_sent(stream: Call) -> None:
    ended = stream("add", "ALL", *EVERY_SETTING, "--dry-run")
    assert ended.code == 0
    assert json.loads(ended.out) == {
        "name": "ALL", "description": "d", "subjects": ["a.>", "b", "c"], "storage": "file",
        "compression": "s2", "retention": "interest", "num_replicas": 1,
        "placement": {"cluster": "C", "tags": ["t1", "t2"]}, "persist_mode": "async",
        "first_seq": 5, "metadata": {"k": "v"}, "max_msgs": 10, "max_msgs_per_subject": 2,
        "max_bytes": 1048576, "max_age": 3600 * 10**9, "max_msg_size": 1024, "max_consumers": 3,
        "discard": "new", "discard_new_per_subject": True,
        "consumer_limits": {"inactive_threshold": 5 * 10**9, "max_ack_pending": 7},
        "no_ack": True, "duplicate_window": 60 * 10**9, "allow_msg_ttl": True,
        "subject_delete_marker_ttl": 2 * 10**9, "allow_rollup_hdrs": True, "allow_atomic": True,
        "allow_batched": True, "allow_msg_counter": True, "allow_msg_schedules": True,
        "allow_direct": True, "mirror_direct": True, "deny_delete": True, "deny_purge": True,
        "sealed": True, "mirror": {"name": "M"},
        "sources": [{"name": "S1"}, {"name": "S2", "opt_start_seq": 7}],
        "subject_transform": {"src": "a.*", "dest": "b.{{wildcard(1)}}"},
        "republish": {"src": "a.>", "dest": "r.>", "headers_only": True},
        "read_consistency": "strong", "write_consistency": "eventual", "ack_timeout": 3 * 10**9,
        "max_staleness": 10 * 10**9,
    }  # fmt: skip
    assert stream("info", "ALL").code == 1


def test_every_setting_is_in_the_example_above() -> None:
    flags = {flag for setting in SETTINGS for flag in [setting.flag.partition("/")[0]]}
    assert flags == {word for word in EVERY_SETTING if word.startswith("--")}


@pytest.mark.parametrize(
    ("flags", "key", "value"),
    [
        (("--storage", "memory"), "storage", "memory"),
        (("--retention", "workqueue"), "retention", "workqueue"),
        (("--max-age", "1d12h"), "max_age", 129_600 * 10**9),
        (("--max-bytes", "1.5GiB"), "max_bytes", 3 * 2**29),
        (("--max-msgs", "-1"), "max_msgs", -1),
        (("--no-direct",), "allow_direct", False),
        (("--marker-ttl", "1m", "--allow-rollup"), "subject_delete_marker_ttl", 60 * 10**9),
        (("--persist-mode", "async"), "persist_mode", "async"),
        (("--compression", "s2"), "compression", "s2"),
        (("--allow-counter",), "allow_msg_counter", True),
        (("--first-seq", "100"), "first_seq", 100),
        (("--consumer-max-ack-pending", "5"), "consumer_limits", {"max_ack_pending": 5}),
    ],
    ids=lambda value: value[0].strip("-") if isinstance(value, tuple) else "",
)
def test_the_server_takes_a_setting(
    stream: Call, name: str, flags: tuple[str, ...], key: str, value: object
) -> None:
    ended = stream("add", name, *flags)
    assert ended.code == 0
    assert ended.out.startswith(f"Created stream {name}\n\nStream {name}, created ")
    assert config_of(stream, name)[key] == value


def test_a_configuration_comes_from_a_file_and_options_come_on_top(
    stream: Call, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "stream.json"
    file.write_text(json.dumps({"name": "other", "max_msgs": 5, "subjects": [f"{name}.x"]}))
    made = json.loads(stream("add", name, "--config", file, "--max-msgs", "6", "--json").out)
    assert made["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    config = config_of(stream, name)
    assert (config["name"], config["max_msgs"], config["subjects"]) == (name, 6, [f"{name}.x"])


def test_the_information_about_a_stream_is_a_configuration_for_the_next(
    stream: Call, name: str
) -> None:
    stream("add", name, "--max-age", "1h")
    shown = stream("info", name, "--json").out
    copied = stream("add", f"{name}_2", "--config", "-", "--subjects", f"{name}.2", stdin=shown)
    assert copied.code == 0
    assert config_of(stream, f"{name}_2")["max_age"] == 3600 * 10**9


def test_the_file_may_name_the_stream(stream: Call, name: str) -> None:
    assert stream("add", "--config", "-", stdin=json.dumps({"name": name})).code == 0
    assert config_of(stream, name)["subjects"] == [name]


def test_pedantic_refuses_what_the_server_would_adjust(stream: Call, name: str) -> None:
    ended = stream("add", name, "--max-msgs", "-1", "--dupe-window", "2h", "--max-age", "1h",
                   "--pedantic")  # fmt: skip
    assert ended.code == 1
    assert "(err_code 10" in ended.err


# --- edit ---------------------------------------------------------------------------------------


def test_an_edit_shows_the_difference_and_keeps_the_rest(stream: Call, name: str) -> None:
    stream("add", name, "--max-age", "1h", "--metadata", "a=1", "--description", "old")
    ended = stream("edit", name, "--max-msgs", "7", "--metadata", "b=2", "--unset", "description",
                   "--force")  # fmt: skip
    assert (ended.code, ended.out) == (0, f"Changed stream {name}\n")
    assert ended.err == (
        f"Stream {name}:\n"
        "  description  old -> not set\n"
        "  metadata     a=1 -> a=1, b=2\n"
        "  max_msgs     unlimited -> 7\n"
    )
    config = config_of(stream, name)
    assert (config["max_age"], config["max_msgs"]) == (3600 * 10**9, 7)
    assert (config["metadata"]["a"], config["metadata"]["b"]) == ("1", "2")
    assert "description" not in config


def test_a_dry_run_only_shows_the_difference(stream: Call, name: str) -> None:
    stream("add", name)
    ended = stream("edit", name, "--max-age", "90m", "--dry-run")
    assert (ended.code, ended.out) == (0, f"Stream {name}:\n  max_age  unlimited -> 1h30m\n")
    new = json.loads(stream("edit", name, "--max-age", "90m", "--dry-run", "--json").out)
    assert new["max_age"] == 5400 * 10**9
    assert config_of(stream, name)["max_age"] == 0


def test_an_edit_by_file_replaces_the_whole_configuration(stream: Call, name: str) -> None:
    stream("add", name, "--max-age", "1h", "--max-msgs", "5")
    replaced = stream("edit", name, "--config", "-", "-f", stdin=json.dumps({"max_msgs": 6}))
    assert replaced.code == 0
    assert "  max_age           1h -> not set\n" in replaced.err
    config = config_of(stream, name)
    assert (config["max_age"], config["max_msgs"], config["subjects"]) == (0, 6, [name])


def test_an_edit_that_changes_nothing_says_so(stream: Call, name: str) -> None:
    stream("add", name, "--max-age", "1h")
    ended = stream("edit", name, "--max-age", "60m")
    assert (ended.code, ended.out) == (0, f"Stream {name} is that already\n")


def test_an_edit_the_server_refuses_says_why(stream: Call, name: str) -> None:
    stream("add", name, "--deny-delete")
    ended = stream("edit", name, "--no-deny-delete", "--force")
    assert ended.code == 1
    assert (
        "Error: stream configuration update can not cancel deny message deletes (err_code 10052)"
        in ended.err
    )


# --- seeing -------------------------------------------------------------------------------------


def test_streams_are_listed_with_what_they_hold(stream: Call, filled: str) -> None:
    header, line = stream("ls", "--subject", f"{filled}.1").out.splitlines()
    assert header.split() == [
        "name",
        "subjects",
        "messages",
        "size",
        "last",
        "message",
        "consumers",
    ]
    assert line.split()[:3] == [filled, f"{filled}.>", "9"]
    assert line.split()[-1] == "0"
    assert stream("ls", "--subject", f"{filled}.1", "--names").out == f"{filled}\n"
    assert json.loads(stream("ls", "--names", "--json", "--subject", f"{filled}.1").out) == [filled]
    (info,) = json.loads(stream("ls", "--subject", f"{filled}.1", "--json").out)
    assert info["state"]["messages"] == 9


def test_no_streams_is_no_failure_and_says_how_to_make_one(stream: Call, name: str) -> None:
    ended = stream("ls", "--subject", name)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.endswith("headwater stream add NAME --subjects SUBJECT\n")
    assert stream("ls", "--subject", name, "--json").out == "[]\n"


def test_a_list_of_more_than_a_page_is_whole(start_streams: Callable[[int], str]) -> None:
    tool = Tool(start_streams(300))
    assert len(json.loads(tool.run("stream", "ls", "--json").out)) == 300
    assert len(tool.run("stream", "ls", "--names").out.split()) == 300


@pytest.fixture
def start_streams(kind: str, tmp_path: Path) -> Iterator[Callable[[int], str]]:
    """A server of its own with so many streams in memory: its URL."""
    with serving(kind, "-js", "-sd", str(tmp_path)) as url:

        async def make(count: int) -> None:
            client = await nats.connect(url)
            for number in range(count):
                config = json.dumps({"name": f"S{number}", "storage": "memory"}).encode()
                await client.request(f"$JS.API.STREAM.CREATE.S{number}", config, PATIENCE_S)
            await client.close()

        def start(count: int) -> str:
            asyncio.run(make(count))
            return url

        yield start


def test_information_is_in_sections_for_people(stream: Call, filled: str) -> None:
    out = stream("info", filled, "--deleted", "--subjects").out
    lines = out.splitlines()
    assert lines[0].startswith(f"Stream {filled}, created ")
    for line in ("General", "Limits", "Publishing", "State", "  Messages:      9",
                 "  Deleted:       1", "  Deleted ones:  3", "  Subjects:      2"):  # fmt: skip
        assert line in lines
    assert [line.split() for line in lines[-3:]] == [
        ["subject", "messages"], [f"{filled}.0", "5"], [f"{filled}.1", "4"],
    ]  # fmt: skip
    assert "Cluster" not in lines
    assert "Consistency" not in out


def test_information_for_programs_is_what_the_server_said(stream: Call, filled: str) -> None:
    info = json.loads(stream("info", filled, "--json", "--deleted", "--filter", "*.0").out)
    assert info["type"] == "io.nats.jetstream.api.v1.stream_info_response"
    assert info["state"]["deleted"] == [3]
    assert info["state"]["subjects"] == {f"{filled}.0": 5}


def test_a_mirror_shows_what_it_copies(stream: Call, filled: str, name: str) -> None:
    copies = f"{name}_copies"
    assert stream("add", copies, "--mirror", filled).code == 0
    out = stream("info", copies).out
    assert f"  Mirror of:  {filled}\n" in out
    assert f"\nCopies from\n  Mirror:  {filled}, " in out
    assert f"(mirror of {filled})" in stream("ls").out


def test_a_report_is_sorted_and_added_up(stream: Call, filled: str) -> None:
    report = json.loads(stream("report", "--json").out)
    mine = next(row for row in report["streams"] if row["name"] == filled)
    assert (mine["messages"], mine["deleted"], mine["subjects"]) == (9, 1, 2)
    sizes = [row["bytes"] for row in report["streams"]]
    assert sizes == sorted(sizes, reverse=True)
    assert report["totals"]["bytes"] == sum(sizes)
    figures, _, _copies = stream("report", "--sort", "name").out.partition("\n\n")
    lines = figures.splitlines()
    names = [line.split()[0] for line in lines[1:-1]]
    assert names == sorted(names)
    assert (
        stream("report", "--sort", "name", "--reverse").out.splitlines()[1].split()[0] == names[-1]
    )
    assert lines[-1].startswith(f"{len(names)} stream")


# --- get ----------------------------------------------------------------------------------------


def test_a_message_is_shown_with_headers_and_payload(stream: Call, filled: str) -> None:
    out = stream("get", filled, "5").out
    assert out.startswith(f"[#5] Stored on {filled}.1 at 2")
    assert out.endswith(")\nNumber: 5\n\nbody 5\n")


@pytest.mark.parametrize(
    ("which", "sequence"),
    [
        (("5",), 5),
        (("--last-for", "{}.0"), 10),
        (("--next-for", "{}.1"), 1),
        (("2", "--next-for", "{}.1"), 5),
        (("--next-for", "*.0", "5"), 6),
    ],
)
def test_a_message_is_found_by_sequence_or_subject(
    stream: Call, filled: str, which: tuple[str, ...], sequence: int
) -> None:
    found = json.loads(
        stream("get", filled, *(word.format(filled) for word in which), "--json").out
    )
    assert (found["stream"], found["sequence"]) == (filled, sequence)
    assert found["data"] == f"body {sequence}"
    assert found["headers"] == ({"Number": [str(sequence)]} if sequence % 2 else {})


def test_a_raw_payload_is_the_payload_byte_for_byte(
    jetstream: str, stream: Call, name: str
) -> None:
    stream("add", name)
    tool = Tool(jetstream)
    payload = bytes(range(256))
    tool.run("pub", name, stdin=payload)
    done = subprocess.run(
        [*HEADWATER, "stream", "get", name, "1", "--raw"],
        capture_output=True, env=tool.environment, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert done.stdout == payload
    assert "data_base64" in json.loads(stream("get", name, "1", "--json").out)


def test_a_message_that_is_not_there_is_a_failure(stream: Call, filled: str) -> None:
    ended = stream("get", filled, "3")
    assert ended.code == 1
    assert ended.err == (
        "Error: no message found (err_code 10037)\n"
        f"See which sequences there are with: headwater stream info {filled}\n"
    )


@pytest.mark.parametrize("which", [("--last-for", "{}.0"), ("10",)])
def test_a_linearizable_read_needs_a_level_of_the_stream(
    kind: str, stream: Call, filled: str, which: tuple[str, ...]
) -> None:
    words = [word.format(filled) for word in which]
    ended = stream("get", filled, *words, "--consistency", "linearizable")
    assert ended.code == 1
    assert ended.err.startswith("Error: linearizable reads are not enabled for this stream\n")
    if kind == "headwater":
        assert stream("edit", filled, "--read-consistency", "weak", "--force").code == 0
        found = stream("get", filled, *words, "--consistency", "linearizable", "--json").out
        assert json.loads(found)["sequence"] == 10


@pytest.mark.parametrize("level", ["weak", "session"])
def test_a_direct_read_has_the_message_of_its_level(
    kind: str, stream: Call, filled: str, level: str
) -> None:
    words = ["get", filled, "--last-for", f"{filled}.0", "--consistency", level]
    words += ["--min-last-seq", "10"] if level == "session" else []
    ended = stream(*words)
    assert ended.code == 1
    assert ended.err.startswith(f"Error: {level} reads are not enabled for this stream\n")
    assert "--read-consistency weak" in ended.err
    assert stream("edit", filled, "--allow-direct", "--force").code == 0
    if kind == "nats-server" and level == "session":
        ended = stream(*words)
        assert ended.code == 1
        assert ended.err.startswith("Error: session reads are not known to this server, which")
    else:
        assert json.loads(stream(*words, "--json").out)["sequence"] == 10


def test_a_session_is_not_answered_with_less_than_it_has_seen(
    kind: str, stream: Call, filled: str
) -> None:
    assert stream("edit", filled, "--allow-direct", "--force").code == 0
    words = ["get", filled, "1", "--consistency", "session"]
    ended = stream(*words, "--min-last-seq", "11")
    assert ended.code == 1
    if kind == "headwater":
        assert ended.err.startswith("Error: The server that answered has not got sequence 11 of")
    ended = stream(*words)
    assert ended.code == 2
    assert "--consistency session and --min-last-seq belong together" in ended.err


def test_the_information_tells_what_the_stream_promises(
    kind: str, stream: Call, filled: str
) -> None:
    out = stream("info", filled).out
    assert (
        "\nPromises on these servers\n  Durability:  interval: kill -9 loses nothing acked" in out
    )
    found = json.loads(stream("info", filled, "--subjects", "--json").out)
    assert found["promises"].keys() == {"durability", "writes", "reads"}
    ends = {"headwater": "the last 2m", "nats-server": "since the last sync"}
    assert found["promises"]["durability"].endswith(ends[kind])
    assert len(found["state"]["subjects"]) == 2


# --- losing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (("rm",), "Remove stream {} with 9 messages ({size}) and 0 consumers?"),
        (("purge",), "Delete all 9 messages ({size}) of stream {}?"),
        (("purge", "--keep", "2"), "Delete 7 of 9 messages ({size}) of stream {}?"),
        (("purge", "--subject", "*.0"), "Delete 5 of 9 messages ({size}) of stream {}?"),
        (("edit", "--max-msgs", "1"), "Change stream {}?"),
    ],
)
def test_without_a_terminal_nothing_is_lost_without_force(
    stream: Call, filled: str, command: tuple[str, ...], question: str
) -> None:
    state = json.loads(stream("info", filled, "--json").out)["state"]
    ended = stream(command[0], filled, *command[1:])
    assert (ended.code, ended.out) == (2, "")
    size = f"{state['bytes']} B"
    assert ended.err.endswith(
        f"Error: There is no terminal to ask at: {question.format(filled, size=size)}\n"
        "Nothing was changed. Say yes beforehand with --force.\n"
    )
    assert json.loads(stream("info", filled, "--json").out)["state"] == state


def test_a_stream_is_removed_by_force(stream: Call, filled: str) -> None:
    ended = stream("rm", filled, "--force")
    assert ended.code == 0
    assert ended.out.startswith(f"Removed stream {filled}: 9 messages (")
    assert stream("info", filled).code == 1


@pytest.mark.parametrize(
    ("flags", "purged"),
    [
        ((), 9),
        (("--subject", "*.1"), 4),
        (("--seq", "5"), 3),
        (("--keep", "4"), 5),
        (("--subject", "*.0", "--keep", "1"), 4),
        (("--subject", "*.0", "--seq", "5"), 2),
    ],
)
def test_a_purge_deletes_what_was_named(
    stream: Call, filled: str, flags: tuple[str, ...], purged: int
) -> None:
    answer = json.loads(stream("purge", filled, *flags, "--force", "--json").out)
    assert (answer["success"], answer["purged"]) == (True, purged)
    left = json.loads(stream("info", filled, "--json").out)["state"]["messages"]
    assert left == 9 - purged


def test_a_purge_says_how_much_is_gone(stream: Call, filled: str) -> None:
    ended = stream("purge", filled, "-f")
    assert (ended.code, ended.out) == (0, f"Deleted 9 messages of stream {filled}\n")


# --- at a terminal ------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_is_asked(
    stream: Call, jetstream: str, filled: str, answer: str, code: int
) -> None:
    ended, seen = at_terminal(jetstream, "stream", "rm", filled, answer=answer)
    assert ended == code
    assert f"Remove stream {filled} with 9 messages" in seen
    assert ("Nothing was removed." in seen) == (code == 1)
    assert (stream("info", filled).code == 1) == (code == 0)


def test_ctrl_c_is_no(stream: Call, jetstream: str, filled: str) -> None:
    ended, _ = at_terminal(jetstream, "stream", "purge", filled, interrupt=True)
    assert ended == 130
    assert json.loads(stream("info", filled, "--json").out)["state"]["messages"] == 9


def test_a_list_fits_the_terminal(stream: Call, jetstream: str, name: str) -> None:
    stream("add", name, "--subjects", ",".join(f"{name}.{number}" for number in range(30)))
    width = len(name) + 60
    _, seen = at_terminal(jetstream, "stream", "ls", columns=width)
    line = next(line for line in seen.splitlines() if line.startswith(name))
    assert len(line) <= width
    assert "…" in line
    assert f"{name}.29" in stream("ls").out


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem", "advice"),
    [
        (("info", "NOPE"), "stream not found (err_code 10059)", "headwater stream ls"),
        (("rm", "NOPE", "-f"), "stream not found (err_code 10059)", "headwater stream ls"),
        (("add", "{}", "--max-msgs", "3"), "stream name already in use with a different "
         "configuration (err_code 10058)", "headwater stream edit {}"),
        (("add", "X", "--subjects", "{}.y"), "subjects overlap with an existing stream "
         "(err_code 10065)", "headwater stream ls --subject"),
        (("add", "X", "--replicas", "3"), "replicas > 1 not supported in non-clustered mode "
         "(err_code 10074)", "--replicas 1"),
        (("add", "X", "--sealed"), "stream configuration for create can not be sealed "
         "(err_code 10052)", "--dry-run"),
    ],
)  # fmt: skip
def test_what_the_server_refuses_is_told_with_its_code_and_what_to_do(
    stream: Call, filled: str, arguments: tuple[str, ...], problem: str, advice: str
) -> None:
    ended = stream(*(argument.format(filled) for argument in arguments))
    assert (ended.code, ended.out) == (1, "")
    said, do = ended.err.splitlines()
    assert said == f"Error: {problem}"
    assert advice.format(filled) in do


def test_a_setting_the_server_does_not_know_is_named(stream: Call, name: str) -> None:
    ended = stream("add", name, "--config", "-", stdin='{"no_such_setting": 1}')
    assert ended.code == 1
    assert 'unknown field "no_such_setting" (err_code 10025)' in ended.err


def test_failures_are_json_for_programs(stream: Call) -> None:
    ended = stream("info", "NOPE", "--json")
    assert json.loads(ended.err) == {
        "error": "stream not found (err_code 10059)",
        "advice": "See what there is with: headwater stream ls",
        "exit_code": 1,
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("info", "a.b"), "'a.b' is not a stream's name"),
        (("add", "a b"), "'a b' is not a stream's name"),
        (("add",), "the stream has no name"),
        (("add", "X", "--max-age", "soon"), "'soon' is not a duration"),
        (("add", "X", "--max-bytes", "much"), "'much' is not a size"),
        (("add", "X", "--metadata", "k"), "is not metadata"),
        (("add", "X", "--source", "{"), "is not a JSON object"),
        (("add", "X", "--config", "no/such/file"), "no/such/file cannot be read: No such file"),
        (("add", "X", "--config", "-"), "- is not JSON"),
        (("edit", "X"), "say what to change"),
        (("edit", "X", "--storage", "memory"), "No such option"),
        (("get", "X"), "say which message"),
        (("get", "X", "1", "--last-for", "a"), "say which message"),
        (("get", "X", "1", "--raw", "--json"), "exclude one another"),
        (("purge", "X", "--seq", "1", "--keep", "1"), "exclude one another"),
        (("ls", "--domain", "d", "--api-prefix", "p"), "exclude one another"),
        (("ls", "--domain", "a b"), "cannot begin a subject"),
    ],
)
def test_a_mistake_in_the_command_line_is_exit_2(
    stream: Call, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = stream(*arguments)
    assert ended.code == 2
    assert complaint in ended.err


def test_a_server_without_streams_says_how_to_have_them(stream: Call, kind: str) -> None:
    with serving(kind) as url:
        ended = stream("ls", "--server", url)
    assert ended.code == 1
    assert ended.err == (
        "Error: JetStream is not enabled on this server\nStart it with -js: headwater serve -js\n"
    )


def test_no_server_is_exit_3(stream: Call) -> None:
    assert stream("ls", "--server", "nats://127.0.0.1:1").code == 3


def test_silence_is_a_failure_after_the_time_out(stream: Call, jetstream: str) -> None:
    with Tool(jetstream).listen("sub", "mute.>"):
        ended = stream("ls", "--api-prefix", "mute.", "--timeout", "50ms")
    assert ended.code == 1
    assert "Error: No answer to mute.STREAM.LIST within 50ms\n" in ended.err


def test_ctrl_c_ends_the_wait_for_an_answer_quietly(jetstream: str) -> None:
    tool = Tool(jetstream)
    with (
        tool.listen("sub", "deaf.>") as deaf,
        tool.start("stream", "ls", "--api-prefix", "deaf", "--timeout", "1h") as waiting,
    ):
        assert "deaf.STREAM.LIST" in deaf.line()
        ended = waiting.interrupt()
    assert (ended.code, ended.out, ended.err.strip()) == (130, "", "")


def test_a_refused_permission_is_told_at_once(stream: Call, kind: str, tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        "authorization { users = [ { user: ada, password: pw, permissions: {"
        ' publish: { deny: "$JS.API.>" } } } ] }'
    )
    with serving(kind, "-js", "-sd", str(tmp_path), "-c", str(config)) as url:
        login = ("--server", url, "--user", "ada", "--password", "pw")
        ended = stream("ls", *login, "--timeout", "1h")
    assert ended.code == 1
    assert "the server refused: permissions violation" in ended.err.lower()


# --- domains and the account --------------------------------------------------------------------


def test_a_domain_has_an_api_of_its_own(
    stream: Call, call: Call, kind: str, tmp_path: Path
) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path}", domain: hub }}')
    with serving(kind, "-c", str(config)) as url:
        assert stream("add", "A", "--server", url, "--domain", "hub").code == 0
        assert stream("ls", "--names", "--server", url, "--api-prefix", "$JS.hub.API").out == "A\n"
        assert "  Domain:        hub\n" in call("account", "info", "--server", url).out
        ended = stream("ls", "--server", url, "--domain", "rim")
    assert (ended.code, ended.err.splitlines()[0]) == (1, "Error: Nobody answers at $JS.rim.API")


def test_an_account_is_shown_with_its_limits(
    stream: Call, call: Call, kind: str, tmp_path: Path
) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        f'jetstream {{ store_dir: "{tmp_path}" }}\nno_auth_user: ada\n'
        "accounts { A { users: [ { user: ada, password: pw } ]\n"
        "  jetstream { max_mem: 1MB, max_file: 2MB, max_streams: 1, max_consumers: 7 } } }"
    )
    with serving(kind, "-c", str(config)) as url:
        assert stream("add", "A", "--max-bytes", "1MB", "--server", url).code == 0
        lines = [line.split() for line in call("account", "info", "--server", url).out.splitlines()]
        refused = stream("add", "B", "--server", url)
        info = json.loads(call("account", "info", "--json", "--server", url).out)
    assert lines[:5] == [
        ["used", "reserved", "limit"],
        ["memory", "0", "B", "0", "B", "1.0", "MiB"],
        ["storage", "0", "B", "1.0", "MiB", "2.0", "MiB"],
        ["streams", "1", "1"],
        ["consumers", "0", "7"],
    ]
    assert refused.err == (
        "Error: maximum number of streams reached (err_code 10027)\n"
        "See what the account may use with: headwater account info\n"
    )
    assert info["limits"]["max_streams"] == 1


def test_a_stream_that_the_server_has_no_room_for_is_told_the_servers_limit(
    stream: Call, call: Call, tmp_path: Path
) -> None:
    config = tmp_path / "server.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path}", max_mem: 1MB, max_file: 2MB }}')
    with serving("headwater", "-c", str(config)) as url:
        assert stream("add", "A", "--max-bytes", "1KB", "--server", url).code == 0
        wanted = ("add", "B", "--max-bytes", "5MB", "--server", url)
        on_disk, in_memory = stream(*wanted), stream(*wanted, "--storage", "memory")
        shown = call("account", "info", "--server", url).out
    assert on_disk.err.splitlines() == [
        "Error: insufficient storage resources available (err_code 10047)",
        "The server has 2.0 MiB of file storage for all its accounts; this account has set aside "
        "1.0 KiB. Ask for less, or raise max_file_store in the server's configuration.",
    ]
    assert in_memory.err.splitlines() == [
        "Error: insufficient memory resources available (err_code 10028)",
        "The server has 1.0 MiB of memory for all its accounts; this account has set aside 0 B. "
        "Ask for less, or raise max_memory_store in the server's configuration.",
    ]
    lines = [line.split()[-3:] for line in shown.splitlines()[1:3]]
    assert lines == [["1.0", "MiB", "(server)"], ["2.0", "MiB", "(server)"]]


def test_a_stream_that_its_account_has_no_room_for_is_told_the_accounts_limit(
    stream: Call, kind: str, tmp_path: Path
) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        f'jetstream {{ store_dir: "{tmp_path}" }}\nno_auth_user: ada\n'
        "accounts { A { users: [ { user: ada, password: pw } ], jetstream { max_file: 2MB } } }"
    )
    with serving(kind, "-c", str(config)) as url:
        refused = stream("add", "B", "--max-bytes", "5MB", "--server", url)
    assert refused.err.splitlines() == [
        "Error: insufficient storage resources available (err_code 10047)",
        "The account may use 2.0 MiB of file storage; this account has set aside 0 B. "
        "Ask for less.",
    ]


def test_settings_that_need_replicas_say_so_and_are_taken_back_by_edit(
    stream: Call, kind: str, name: str
) -> None:
    made = stream("add", name, "--write-consistency", "eventual", "--ack-timeout", "3s")
    if kind == "nats-server":
        assert "(err_code 10025)" in made.err
        return
    assert made.err == (
        "write_consistency and ack_timeout take effect with replicas; this stream has one.\n"
    )
    config = config_of(stream, name)
    assert (config["write_consistency"], config["ack_timeout"]) == ("eventual", 3 * 10**9)
    assert config["metadata"]["_nats.req.level"] == "3"
    changed = stream("edit", name, "--unset", "write_consistency", "--force")
    assert "ack_timeout takes effect with replicas; this stream has one.\n" in changed.err
    bare = json.dumps({"name": name, "subjects": [name]})
    assert stream("edit", name, "--config", "-", "--force", stdin=bare).code == 0
    config = config_of(stream, name)
    assert "write_consistency" not in config
    assert "ack_timeout" not in config
    assert config["metadata"]["_nats.req.level"] == "0"


def test_switches_can_be_said_both_ways() -> None:
    assert all("/" in setting.flag for setting in SETTINGS if setting.kind is Kind.SWITCH)
