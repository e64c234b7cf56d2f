"""`headwater consumer` against a real server: making, seeing, changing, pausing and removing.

Every test makes a stream of its own, so that one server serves all.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from headwater.cli.consumers.group import consumer as consumer_group
from headwater.cli.consumers.settings import SETTINGS
from headwater.cli.shell.settings import Kind
from tests.kit.command_line import JETSTREAM_SERVERS, Call, Ended, Tool, serving
from tests.kit.terminal import at_terminal
from tests.unit.cli.consumers.consumer_calls import SECOND_NS, ask

FAR_FUTURE: Final = "2200-01-01T00:00:00Z"


@pytest.fixture(scope="module", params=JETSTREAM_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of server."""
    return str(request.param)


@pytest.fixture
def consumer(call: Call) -> Call:
    """Run `headwater consumer`."""

    def called(*arguments: object, stdin: str = "") -> Ended:
        return call("consumer", *arguments, stdin=stdin)

    return called


@pytest.fixture
def filled(call: Call, jetstream: str, name: str) -> str:
    """A stream with ten messages on two subjects."""
    assert call("stream", "add", name, "--subjects", f"{name}.>").code == 0
    requests = [(f"{name}.{number % 2}", b"body %d" % number) for number in range(1, 11)]
    ask(jetstream, *requests)
    return name


def info_of(consumer: Call, stream: str, name: str = "C") -> dict[str, Any]:
    """A consumer as the server has it."""
    info: dict[str, Any] = json.loads(consumer("info", stream, name, "--json").out)
    return info


def config_of(consumer: Call, stream: str, name: str = "C") -> dict[str, Any]:
    """A consumer's configuration as the server has it."""
    config: dict[str, Any] = info_of(consumer, stream, name)["config"]
    return config


# --- help ---------------------------------------------------------------------------------------


def test_the_group_is_listed_and_lists_its_commands_in_the_order_of_use(call: Call) -> None:
    assert "\n  consumer " in call("--help").out
    out = call("consumer", "--help").out
    places = [out.index(f"\n  {command} ") for command in consumer_group.commands]
    assert places == sorted(places)
    assert "A first session:\n  headwater stream add " in out


@pytest.mark.parametrize("command", list(consumer_group.commands))
def test_every_command_has_examples(call: Call, command: str) -> None:
    examples = call("consumer", command, "--help").out.partition("Examples:\n")[2].splitlines()
    assert len(examples) >= 3
    assert all(f"headwater consumer {command}" in example for example in examples)


def test_settings_are_in_sections_of_the_help(call: Call) -> None:
    out = call("consumer", "add", "--help").out
    places = [out.index(f"\n{section}:\n") for section in SETTINGS.sections]
    assert places == sorted(places)
    assert "--ack-wait" not in out[: places[0]]


# --- add ----------------------------------------------------------------------------------------

EVERY_SETTING: Final = (
    "--description", "d", "--replicas", "1", "--memory", "--inactive-threshold", "1h",
    "--pause-until", FAR_FUTURE, "--metadata", "k=v", "--filter", "a.>,b", "--filter", "c",
    "--deliver", "by_start_sequence", "--start-seq", "5",
    "--start-time", "2026-01-05T09:30:00Z", "--replay", "original", "--headers-only",
    "--sample", "10%", "--ack", "all", "--ack-wait", "1m", "--backoff", "1s,1m",
    "--max-deliver", "5", "--max-ack-pending", "7", "--max-waiting", "8", "--max-batch", "9",
    "--max-expires", "10s", "--max-bytes", "1MB", "--deliver-subject", "to", "--deliver-group",
    "g", "--heartbeat", "5s", "--flow-control", "--rate-limit", "1000",
    "--priority-policy", "overflow", "--priority-group", "p,q", "--priority-timeout", "3s",
)  # fmt: skip


def test_every_setting_has_a_flag_and_a_dry_run_shows_what_would_be_sent(
    consumer: Call, name: str
) -> None:
    ended = consumer("add", name, "ALL", *EVERY_SETTING, "--dry-run")
    assert ended.code == 0
    assert json.loads(ended.out) == {
        "name": "ALL", "durable_name": "ALL", "description": "d", "num_replicas": 1,
        "mem_storage": True, "inactive_threshold": 3600 * SECOND_NS, "pause_until": FAR_FUTURE,
        "metadata": {"k": "v"}, "filter_subjects": ["a.>", "b", "c"],
        "deliver_policy": "by_start_sequence", "opt_start_seq": 5,
        "opt_start_time": "2026-01-05T09:30:00Z", "replay_policy": "original",
        "headers_only": True, "sample_freq": "10%", "ack_policy": "all",
        "ack_wait": 60 * SECOND_NS, "backoff": [SECOND_NS, 60 * SECOND_NS], "max_deliver": 5,
        "max_ack_pending": 7, "max_waiting": 8, "max_batch": 9, "max_expires": 10 * SECOND_NS,
        "max_bytes": 2**20, "deliver_subject": "to", "deliver_group": "g",
        "idle_heartbeat": 5 * SECOND_NS, "flow_control": True, "rate_limit_bps": 1000,
        "priority_policy": "overflow", "priority_groups": ["p", "q"],
        "priority_timeout": 3 * SECOND_NS,
    }  # fmt: skip
    assert consumer("info", name, "ALL").code == 1


def test_every_setting_is_in_the_example_above() -> None:
    flags = {setting.flag.partition("/")[0] for setting in SETTINGS}
    assert flags == {word for word in EVERY_SETTING if word.startswith("--")}


def test_switches_can_be_said_both_ways() -> None:
    assert all("/" in setting.flag for setting in SETTINGS if setting.kind is Kind.SWITCH)


def test_a_consumer_is_durable_asked_and_acknowledged_unless_options_say_otherwise(
    consumer: Call, filled: str
) -> None:
    ended = consumer("add", filled, "C")
    assert ended.code == 0
    assert ended.out.startswith(
        f"Created consumer C of stream {filled}\n\nConsumer C of stream {filled} (pull), created "
    )
    config = config_of(consumer, filled)
    assert (config["durable_name"], config["ack_policy"]) == ("C", "explicit")
    assert "deliver_subject" not in config


@pytest.mark.parametrize(
    ("flags", "key", "value"),
    [
        (("--ack", "none"), "ack_policy", "none"),
        (("--deliver", "last"), "deliver_policy", "last"),
        (("--start-seq", "4"), "opt_start_seq", 4),
        (("--start-seq", "4"), "deliver_policy", "by_start_sequence"),
        (("--start-time", "2026-01-05T09:30:00Z"), "opt_start_time", "2026-01-05T09:30:00Z"),
        (("--start-time", "1h"), "deliver_policy", "by_start_time"),
        (("--filter", "{}.1"), "filter_subject", "{}.1"),
        (("--filter", "{}.0,{}.1"), "filter_subjects", ["{}.0", "{}.1"]),
        (("--backoff", "1s,2s", "--max-deliver", "3"), "backoff", [SECOND_NS, 2 * SECOND_NS]),
        (("--max-ack-pending", "-1"), "max_ack_pending", -1),
        (("--headers-only",), "headers_only", True),
        (("--sample", "30%"), "sample_freq", "30%"),
        (("--memory",), "mem_storage", True),
        (("--deliver-subject", "{}_to"), "deliver_subject", "{}_to"),
        (("--pause-until", FAR_FUTURE), "pause_until", FAR_FUTURE),
        (("--priority-policy", "overflow", "--priority-group", "A"), "priority_groups", ["A"]),
        (("--metadata", "team=a=b"), "metadata", {"team": "a=b"}),
    ],
    ids=lambda value: value[0].strip("-") if isinstance(value, tuple) else "",
)
def test_the_server_takes_a_setting(
    consumer: Call, filled: str, flags: tuple[str, ...], key: str, value: Any
) -> None:
    ended = consumer("add", filled, "C", *(flag.format(filled, filled) for flag in flags))
    assert (ended.code, ended.err) == (0, "")
    had = config_of(consumer, filled)[key]
    wanted = json.loads(json.dumps(value).replace("{}", filled))
    assert (had.items() >= wanted.items()) if key == "metadata" else had == wanted


def test_an_ephemeral_consumer_may_be_named_by_the_server(consumer: Call, filled: str) -> None:
    unnamed = json.loads(consumer("add", filled, "--ephemeral", "--json").out)
    named = json.loads(consumer("add", filled, "E", "--ephemeral", "--json").out)
    assert unnamed["type"] == "io.nats.jetstream.api.v1.consumer_create_response"
    assert unnamed["name"]
    assert named["name"] == "E"
    assert "durable_name" not in unnamed["config"] | named["config"]
    line = next(line for line in consumer("ls", filled).out.splitlines() if line.startswith("E "))
    assert "pull, ephemeral" in line


def test_a_configuration_comes_from_a_file_and_options_come_on_top(
    consumer: Call, filled: str, tmp_path: Path
) -> None:
    file = tmp_path / "consumer.json"
    file.write_text(
        json.dumps({"durable_name": "other", "deliver_policy": "all", "max_deliver": 5})
    )
    flags = ("--max-deliver", "6", "--start-seq", "3")
    assert consumer("add", filled, "C", "--config", file, *flags).code == 0
    config = config_of(consumer, filled)
    assert (config["durable_name"], config["max_deliver"]) == ("C", 6)
    assert config["deliver_policy"] == "by_start_sequence"


def test_the_information_about_a_consumer_is_a_configuration_for_the_next(
    consumer: Call, filled: str
) -> None:
    consumer("add", filled, "C", "--filter", f"{filled}.1", "--ack-wait", "1m")
    shown = consumer("info", filled, "C", "--json").out
    assert consumer("add", filled, "D", "--config", "-", stdin=shown).code == 0
    config = config_of(consumer, filled, "D")
    assert (config["filter_subject"], config["ack_wait"]) == (f"{filled}.1", 60 * SECOND_NS)
    several = consumer("add", filled, "E", "--config", "-", "--filter", "x,y", stdin=shown)
    assert several.code == 0
    assert config_of(consumer, filled, "E")["filter_subjects"] == ["x", "y"]


@pytest.mark.parametrize(("field", "is_durable"), [("durable_name", True), ("name", False)])
def test_the_file_may_name_the_consumer(
    consumer: Call, filled: str, field: str, is_durable: bool
) -> None:
    assert consumer("add", filled, "--config", "-", stdin=json.dumps({field: "N"})).code == 0
    config = config_of(consumer, filled, "N")
    assert config["name"] == "N"
    assert ("durable_name" in config) == is_durable


def test_pedantic_refuses_what_the_server_would_adjust(consumer: Call, filled: str) -> None:
    ended = consumer("add", filled, "C", "--backoff", "1s,5s", "--max-deliver", "3",
                     "--ack-wait", "2s", "--pedantic")  # fmt: skip
    assert ended.code == 1
    assert "(err_code 10" in ended.err


def test_a_consumer_that_is_there_already_is_not_changed_by_add(
    consumer: Call, filled: str
) -> None:
    consumer("add", filled, "C")
    assert consumer("add", filled, "C").code == 0
    ended = consumer("add", filled, "C", "--max-deliver", "3")
    assert ended.err == (
        "Error: consumer already exists (err_code 10148)\n"
        f"Change it with: headwater consumer edit {filled} C\n"
    )


# --- edit ---------------------------------------------------------------------------------------


def test_an_edit_shows_the_difference_and_keeps_the_rest(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C", "--filter", f"{filled}.0", "--description", "old",
             "--metadata", "a=1", "--headers-only")  # fmt: skip
    ended = consumer("edit", filled, "C", "--filter", f"{filled}.0,{filled}.1", "--ack-wait",
                     "1m", "--metadata", "b=2", "--unset", "description", "--force")  # fmt: skip
    assert (ended.code, ended.out) == (0, f"Changed consumer C of stream {filled}\n")
    assert ended.err == (
        f"Consumer C of stream {filled}:\n"
        "  description      old -> not set\n"
        "  metadata         a=1 -> a=1, b=2\n"
        f"  filter_subjects  {filled}.0 -> {filled}.0, {filled}.1\n"
        "  ack_wait         30s -> 1m\n"
    )
    config = config_of(consumer, filled)
    assert config["filter_subjects"] == [f"{filled}.0", f"{filled}.1"]
    assert (config["ack_wait"], config["headers_only"]) == (60 * SECOND_NS, True)
    assert (config["metadata"]["a"], config["metadata"]["b"]) == ("1", "2")
    assert "filter_subject" not in config
    assert "description" not in config


def test_filters_can_be_taken_back(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C", "--filter", f"{filled}.0")
    assert info_of(consumer, filled)["num_pending"] == 5
    assert consumer("edit", filled, "C", "--unset", "filter_subjects", "-f").code == 0
    assert info_of(consumer, filled)["num_pending"] == 10


def test_a_dry_run_only_shows_the_difference(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C", "--filter", f"{filled}.0")
    ended = consumer("edit", filled, "C", "--max-deliver", "3", "--dry-run")
    assert (ended.code, ended.out) == (
        0, f"Consumer C of stream {filled}:\n  max_deliver  unlimited -> 3\n",
    )  # fmt: skip
    new = json.loads(consumer("edit", filled, "C", "--max-deliver", "3", "--dry-run", "--json").out)
    assert (new["max_deliver"], new["filter_subject"]) == (3, f"{filled}.0")
    assert config_of(consumer, filled)["max_deliver"] == -1


def test_an_edit_by_file_replaces_the_whole_configuration(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C", "--ack-wait", "1m", "--max-deliver", "5")
    new = json.dumps({"ack_policy": "explicit", "max_deliver": 6, "max_waiting": 512})
    assert consumer("edit", filled, "C", "--config", "-", "-f", stdin=new).code == 0
    config = config_of(consumer, filled)
    assert (config["durable_name"], config["max_deliver"]) == ("C", 6)
    assert config["ack_wait"] == 30 * SECOND_NS


def test_a_consumer_that_the_server_named_can_be_changed(consumer: Call, filled: str) -> None:
    made = consumer("add", filled, "--ephemeral", "--inactive-threshold", "1h", "--json")
    name = json.loads(made.out)["name"]
    assert consumer("edit", filled, name, "--description", "mine", "-f").code == 0
    assert config_of(consumer, filled, name)["description"] == "mine"
    assert consumer("ls", filled, "--names").out == f"{name}\n"


def test_an_edit_that_changes_nothing_says_so(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    ended = consumer("edit", filled, "C", "--ack-wait", "30s")
    assert (ended.code, ended.out) == (0, "Consumer C is that already\n")


def test_an_edit_the_server_refuses_says_why(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    new = json.dumps({"ack_policy": "none"})
    ended = consumer("edit", filled, "C", "--config", "-", "--force", stdin=new)
    assert ended.code == 1
    said, do = ended.err.splitlines()[-2:]
    assert said == "Error: ack policy can not be updated (err_code 10012)"
    assert f"headwater consumer rm {filled} C" in do


# --- seeing -------------------------------------------------------------------------------------


def test_consumers_are_listed_with_what_is_left_for_them(consumer: Call, filled: str) -> None:
    consumer("add", filled, "B", "--filter", f"{filled}.0")
    consumer("add", filled, "A", "--deliver-subject", f"{filled}_to", "--ack", "none")
    consumer("pause", filled, "B", "1h")
    header, first, second = consumer("ls", filled).out.splitlines()
    assert header.split("  ")[0] == "name"
    assert first.split() == ["A", "push", "none", "10", "0", "never"]
    assert second.split() == [
        "B", "pull,", "paused", f"{filled}.0", "explicit", "5", "0", "never",
    ]  # fmt: skip
    assert consumer("ls", filled, "--names").out == "A\nB\n"
    assert json.loads(consumer("ls", filled, "--names", "--json").out) == ["A", "B"]
    infos = json.loads(consumer("ls", filled, "--json").out)
    assert sorted(info["name"] for info in infos) == ["A", "B"]


def test_no_consumers_is_no_failure_and_says_how_to_make_one(consumer: Call, filled: str) -> None:
    ended = consumer("ls", filled)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.endswith(f"headwater consumer add {filled} NAME\n")
    assert consumer("ls", filled, "--json").out == "[]\n"
    assert consumer("report", filled).err == "No consumers.\n"


def test_a_list_of_more_than_a_page_is_whole(
    consumer: Call, jetstream: str, filled: str, name: str
) -> None:
    config = json.dumps({"stream_name": name, "config": {"mem_storage": True}, "action": ""})
    subjects = (f"$JS.API.CONSUMER.CREATE.{name}.C{number}" for number in range(300))
    ask(jetstream, *((subject, config.encode()) for subject in subjects))
    assert len(json.loads(consumer("ls", filled, "--json").out)) == 300
    assert len(consumer("ls", filled, "--names").out.split()) == 300
    assert json.loads(consumer("report", filled, "--json").out)["totals"]["consumers"] == 300


def test_information_is_in_sections_for_people(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C", "--filter", f"{filled}.0", "--max-batch", "5")
    consumer("next", filled, "C", "--no-ack")
    lines = consumer("info", filled, "C").out.splitlines()
    assert lines[0].startswith(f"Consumer C of stream {filled} (pull), created ")
    for line in ("What is delivered", f"  Filter:  {filled}.0", "Acknowledgements", "Pull",
                 "  Batch:             5", "State", "  Pending:             4",
                 "  Ack pending:         1 of at most 1,000",
                 "  Requests waiting:    0 of at most 512",
                 "  Acknowledged up to:  stream sequence 0, consumer sequence 0"):  # fmt: skip
        assert line in lines
    assert any("stream sequence 2, consumer sequence 1 at 2" in line for line in lines)
    assert not {"Cluster", "Push", "Priority groups"} & set(lines)


def test_information_about_a_push_consumer_says_whether_somebody_listens(
    consumer: Call, filled: str
) -> None:
    consumer("add", filled, "C", "--deliver-subject", f"{filled}_to", "--heartbeat", "5s")
    out = consumer("info", filled, "C").out
    assert f"\nPush\n  To:         {filled}_to\n  Heartbeat:  5s\n" in out
    assert "\n  Listened to:         no" in out


def test_information_for_programs_is_what_the_server_said(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    info = info_of(consumer, filled)
    assert info["type"] == "io.nats.jetstream.api.v1.consumer_info_response"
    assert (info["num_pending"], info["delivered"]["stream_seq"]) == (10, 0)


def test_a_report_is_sorted_and_added_up(consumer: Call, filled: str) -> None:
    consumer("add", filled, "ALL")
    consumer("add", filled, "HALF", "--filter", f"{filled}.0")
    consumer("add", filled, "IDLE", "--filter", f"{filled}.none")
    consumer("next", filled, "HALF", "--no-ack")
    report = json.loads(consumer("report", filled, "--json").out)
    assert [row["name"] for row in report["consumers"]] == ["ALL", "HALF", "IDLE"]
    half = report["consumers"][1]
    assert (half["pending"], half["ack_pending"], half["redelivered"]) == (4, 1, 0)
    assert [row["unprocessed_percent"] for row in report["consumers"]] == [100.0, 50.0, 0.0]
    assert (half["stream"], half["waiting"], half["ack_floor"]) == (filled, 0, 0)
    assert half["last_delivery"].startswith("20")
    assert report["totals"] == {
        "consumers": 3, "pending": 14, "ack_pending": 1, "redelivered": 0, "waiting": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ((), ["ALL", "HALF", "IDLE"]),
        (("--sort", "name", "--reverse"), ["IDLE", "HALF", "ALL"]),
        (("--sort", "unprocessed", "--reverse"), ["IDLE", "HALF", "ALL"]),
        (("--sort", "ack_pending"), ["HALF", "ALL", "IDLE"]),
        (("--sort", "last_delivery"), ["HALF", "ALL", "IDLE"]),
    ],
)
def test_a_report_is_in_the_order_that_was_asked_for(
    consumer: Call, filled: str, flags: tuple[str, ...], names: list[str]
) -> None:
    consumer("add", filled, "ALL")
    consumer("add", filled, "HALF", "--filter", f"{filled}.0")
    consumer("add", filled, "IDLE", "--filter", f"{filled}.none")
    consumer("next", filled, "HALF", "--no-ack")
    lines = consumer("report", filled, *flags).out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == names
    assert lines[-1].startswith("3 consumers")


def test_a_report_of_all_streams_names_them(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    lines = consumer("report").out.splitlines()
    assert lines[0].split()[:2] == ["stream", "name"]
    (line,) = (line for line in lines if line.split()[0] == filled)
    assert line.split()[1:4] == ["C", "pull", "explicit"]


# --- pausing ------------------------------------------------------------------------------------


def test_a_consumer_is_paused_and_goes_on(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    paused = consumer("pause", filled, "C", "1h")
    assert paused.code == 0
    assert paused.out.startswith(f"Paused consumer C of stream {filled} until 2")
    assert paused.out.endswith(" UTC (1h)\n")
    assert info_of(consumer, filled)["paused"] is True
    assert "\n  Paused:              until 2" in consumer("info", filled, "C").out
    resumed = consumer("resume", filled, "C")
    assert (resumed.code, resumed.out) == (0, f"Resumed consumer C of stream {filled}\n")
    assert "paused" not in info_of(consumer, filled)
    assert consumer("resume", filled, "C").out == f"Consumer C of stream {filled} was not paused\n"


def test_a_pause_ends_at_a_time(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    answer = json.loads(consumer("pause", filled, "C", FAR_FUTURE, "--json").out)
    assert (answer["paused"], answer["pause_until"]) == (True, FAR_FUTURE)
    assert json.loads(consumer("resume", filled, "C", "--json").out)["paused"] is False


def test_a_pause_until_the_past_is_a_failure(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    ended = consumer("pause", filled, "C", "2001-01-01T00:00:00Z")
    assert ended.code == 1
    assert "2001-01-01 00:00:00.000 UTC is in the server's past" in ended.err


# --- losing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (("rm",), "Remove consumer C of stream {} with 9 messages not delivered and 1 not "
         "acknowledged?"),
        (("edit", "--max-deliver", "3"), "Change consumer C of stream {}?"),
    ],
)  # fmt: skip
def test_without_a_terminal_nothing_is_lost_without_force(
    consumer: Call, filled: str, command: tuple[str, ...], question: str
) -> None:
    consumer("add", filled, "C")
    consumer("next", filled, "C", "--no-ack")
    before = config_of(consumer, filled)
    ended = consumer(command[0], filled, "C", *command[1:])
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(
        f"Error: There is no terminal to ask at: {question.format(filled)}\n"
        "Nothing was changed. Say yes beforehand with --force.\n"
    )
    assert config_of(consumer, filled) == before


def test_a_consumer_is_removed_by_force(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    ended = consumer("rm", filled, "C", "--force")
    assert ended.code == 0
    assert ended.out.startswith(f"Removed consumer C of stream {filled}: 10 messages not ")
    assert consumer("info", filled, "C").code == 1


def test_a_removal_is_told_to_programs(consumer: Call, filled: str) -> None:
    consumer("add", filled, "C")
    removed = json.loads(consumer("rm", filled, "C", "-f", "--json").out)
    assert (removed["removed"], removed["stream"], removed["pending"]) == ("C", filled, 10)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_a_person_is_asked(
    consumer: Call, jetstream: str, filled: str, answer: str, code: int
) -> None:
    consumer("add", filled, "C")
    ended, seen = at_terminal(jetstream, "consumer", "rm", filled, "C", answer=answer)
    assert ended == code
    assert f"Remove consumer C of stream {filled} with 10 messages" in seen
    assert ("Nothing was removed." in seen) == (code == 1)
    assert (consumer("info", filled, "C").code == 1) == (code == 0)


def test_a_list_fits_the_terminal(consumer: Call, jetstream: str, filled: str) -> None:
    filters = [f"{filled}.{number}" for number in range(30)]
    consumer("add", filled, "C", "--filter", ",".join(filters))
    _, seen = at_terminal(jetstream, "consumer", "ls", filled, columns=80)
    line = next(line for line in seen.splitlines() if line.startswith("C "))
    assert len(line) <= 80
    assert "…" in line
    assert filters[-1] in consumer("ls", filled).out


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem", "advice"),
    [
        (("info", "{}", "NOPE"), "consumer not found (err_code 10014)", "headwater consumer ls {}"),
        (("next", "{}", "NOPE"), "consumer not found (err_code 10014)", "headwater consumer ls {}"),
        (("sub", "{}", "NOPE"), "consumer not found (err_code 10014)", "headwater consumer ls {}"),
        (("rm", "{}", "NOPE", "-f"), "consumer not found (err_code 10014)", "consumer ls {}"),
        (("pause", "{}", "NOPE", "1h"), "consumer not found (err_code 10014)", "consumer ls {}"),
        (("ls", "NOPE"), "stream not found (err_code 10059)", "headwater stream ls"),
        (("add", "NOPE", "C"), "stream not found (err_code 10059)", "headwater stream ls"),
        (("report", "NOPE"), "stream not found (err_code 10059)", "headwater stream ls"),
        (("add", "{}", "C", "--deliver-subject", "to", "--flow-control"),
         "consumer with flow control also needs heartbeats (err_code 10108)", "--heartbeat"),
        (("add", "{}", "C", "--heartbeat", "5s"),
         "consumer idle heartbeat requires a push based consumer (err_code 10088)", "--dry-run"),
        (("add", "{}", "C", "--backoff", "1s,2s,3s", "--max-deliver", "2"),
         "max deliver is required to be > length of backoff values (err_code 10116)",
         "--max-deliver"),
        (("add", "{}", "C", "--filter", "a.>,a.b"),
         "consumer subject filters cannot overlap (err_code 10138)", "--dry-run"),
        (("add", "{}", "C", "--priority-policy", "overflow"),
         "Setting PriorityPolicy requires at least one PriorityGroup to be set (err_code 10159)",
         "--priority-group"),
    ],
)  # fmt: skip
def test_what_the_server_refuses_is_told_with_its_code_and_what_to_do(
    consumer: Call, filled: str, arguments: tuple[str, ...], problem: str, advice: str
) -> None:
    ended = consumer(*(argument.format(filled) for argument in arguments))
    assert (ended.code, ended.out) == (1, "")
    said, do = ended.err.splitlines()
    assert said == f"Error: {problem}"
    assert advice.format(filled) in do


def test_a_work_queue_says_how_to_share_it(consumer: Call, call: Call, name: str) -> None:
    call("stream", "add", name, "--subjects", f"{name}.>", "--retention", "workqueue")
    refused = consumer("add", name, "N", "--ack", "none")
    assert refused.err.endswith("(err_code 10084)\nUse --ack explicit.\n")
    assert consumer("add", name, "A").code == 0
    second = consumer("add", name, "B")
    assert second.err == (
        "Error: multiple non-filtered consumers not allowed on workqueue stream (err_code 10099)\n"
        "Give each consumer a --filter of its own. "
        f"See the others with: headwater consumer ls {name}\n"
    )


def test_failures_are_json_for_programs(consumer: Call, filled: str) -> None:
    assert json.loads(consumer("info", filled, "NOPE", "--json").err) == {
        "error": "consumer not found (err_code 10014)",
        "advice": f"See what there is with: headwater consumer ls {filled}",
        "exit_code": 1,
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("info", "a.b", "C"), "'a.b' is not a stream's name"),
        (("info", "S", "a b"), "'a b' is not a consumer's name"),
        (("info", "S"), "Missing argument 'NAME'"),
        (("add", "S"), "the consumer has no name"),
        (("add", "S", "--config", "-"), "- is not JSON"),
        (("add", "S", "C", "--ack-wait", "soon"), "'soon' is not a duration"),
        (("add", "S", "C", "--backoff", "1s,soon"), "'soon' is not a duration"),
        (("add", "S", "C", "--start-time", "then"), "how long ago"),
        (("pause", "S", "C", "then"), "in how long"),
        (("pause", "S", "C"), "Missing argument 'UNTIL'"),
        (("edit", "S", "C"), "say what to change"),
        (("edit", "S", "C", "--ack", "none"), "No such option"),
        (("next", "S", "C", "--delay", "1s"), "--delay is for --nak"),
        (("next", "S", "C", "--nak", "--reason", "x"), "--reason is for --term"),
        (("next", "S", "C", "--raw", "--json"), "exclude one another"),
        (("sub", "S", "C", "--raw", "--no-bodies"), "exclude one another"),
        (("sub", "S", "C", "--wait", "0"), "waits for nothing"),
        (("next", "S", "C", "--priority", "10"), "is not in the range"),
    ],
)
def test_a_mistake_in_the_command_line_is_exit_2(
    consumer: Call, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = consumer(*arguments)
    assert ended.code == 2
    assert complaint in ended.err


def test_a_server_without_streams_says_how_to_have_them(consumer: Call, kind: str) -> None:
    with serving(kind) as url:
        ended = consumer("ls", "S", "--server", url)
    assert ended.code == 1
    assert ended.err.endswith("Start it with -js: headwater serve -js\n")


def test_silence_is_a_failure_after_the_time_out(consumer: Call, jetstream: str) -> None:
    with Tool(jetstream).listen("sub", "mute_consumers.>"):
        ended = consumer("info", "S", "C", "--api-prefix", "mute_consumers", "--timeout", "50ms")
    assert ended.code == 1
    assert "No answer to mute_consumers.CONSUMER.INFO.S.C within 50ms\n" in ended.err
