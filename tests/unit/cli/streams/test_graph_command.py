"""Mirrors, sources and their graph against real servers: what the commands do, say and return."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.kit.command_line import Call, Ended, Tool

# The number of looks at a copy before a test gives up; each is a connection and a request.
LOOKS_MAX = 2000


@pytest.fixture
def stream(call: Call) -> Call:
    """Run `headwater stream`."""

    def called(*arguments: object, stdin: str = "") -> Ended:
        return call("stream", *arguments, stdin=stdin)

    return called


@pytest.fixture
def orders(stream: Call, jetstream: str, name: str) -> str:
    """A stream with four messages: three on `<name>.eu`, one on `<name>.us`."""
    assert stream("add", name, "--subjects", f"{name}.>").code == 0
    tool = Tool(jetstream)
    assert tool.run("pub", f"{name}.eu", "hi", "--count", "3", "--jetstream").code == 0
    assert tool.run("pub", f"{name}.us", "hi", "--jetstream").code == 0
    return name


def info_when(stream: Call, name: str, is_so: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The information of a stream once it is as expected."""
    info: dict[str, Any] = {}
    for _ in range(LOOKS_MAX):
        info = json.loads(stream("info", name, "--json").out)
        if is_so(info):
            return info
    raise AssertionError(f"the stream did not become as expected: {info}")


def holds(count: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a stream has that many messages, and has told the state of its origins."""
    return lambda info: info["state"]["messages"] == count


def test_a_copy_is_made_with_filter_transform_and_start(stream: Call, orders: str) -> None:
    copy = f"{orders}_EU"
    made = stream("add", copy, "--source", f"{orders},filter={orders}.eu,start=2")
    assert (made.code, made.err) == (0, "")
    info_when(stream, copy, holds(2))
    renamed = f"{orders}_NEW"
    transform = f"transform={orders}.* {renamed}.{{{{wildcard(1)}}}}"
    assert stream("add", renamed, "--mirror", f"{orders},{transform}").code == 0
    info_when(stream, renamed, holds(4))
    message = json.loads(stream("get", renamed, "4", "--json").out)
    assert message["subject"] == f"{renamed}.us"
    out = stream("info", renamed).out
    assert f"  Mirror of:  {orders},{transform}\n" in out
    assert f"\nCopies from\n  Mirror:  {orders} (" in out
    assert "), 0 messages behind, seen " in out


def test_a_report_has_every_copy(stream: Call, orders: str) -> None:
    copy = f"{orders}_COPY"
    stream("add", copy, "--mirror", orders)
    info_when(stream, copy, holds(4))
    rows = [line.split() for line in stream("report").out.splitlines()]
    assert ["copy", "kind", "origin", "details", "lag", "active", "error"] in rows
    (row,) = [row for row in rows if row[:3] == [copy, "mirror", orders]]
    assert row[3] == "0"
    report = json.loads(stream("report", "--json").out)
    (mine,) = [each for each in report["streams"] if each["name"] == copy]
    (told,) = mine["copies"]
    assert (told["kind"], told["origin"], told["lag"], told["error"]) == ("mirror", orders, 0, None)
    assert told["active"] >= 0


def test_a_missing_origin_is_no_failure_and_comes_with_the_next_step(
    stream: Call, name: str
) -> None:
    copy = f"{name}_COPY"
    made = stream("add", copy, "--mirror", name)
    assert made.code == 0
    advice = (
        f"There is no stream {name} for {copy} to copy; copying begins once it exists. "
        f"Make it with: headwater stream add {name}\n"
    )
    assert made.err == advice
    info_when(stream, copy, lambda info: info["mirror"].get("error"))
    shown = stream("info", copy)
    assert ", not seen yet, stream not found\n" in shown.out
    assert shown.err == advice
    assert stream("graph", copy).out == (
        f"{name}  missing\n"
        f"└─ mirror → {copy}  0 messages, 0 messages behind, not seen yet, stream not found\n"
    )


def test_a_promoted_mirror_takes_messages(stream: Call, orders: str, jetstream: str) -> None:
    copy = f"{orders}_COPY"
    stream("add", copy, "--mirror", orders, "--mirror-direct")
    info_when(stream, copy, holds(4))
    promoted = stream("edit", copy, "--no-mirror", "--subjects", f"{copy}.>", "--force")
    assert (promoted.code, promoted.out) == (0, f"Changed stream {copy}\n")
    assert f"  mirror         {orders} -> not set\n" in promoted.err or (
        f"  mirror    {orders} -> not set\n" in promoted.err
    )
    sent = Tool(jetstream).run("pub", f"{copy}.new", "hi", "--jetstream")
    assert sent.out == f"Stored 1 message in stream {copy}, sequence 5\n"
    config = json.loads(stream("info", copy, "--json").out)["config"]
    assert "mirror" not in config
    assert not config["mirror_direct"]


def test_max_staleness_is_a_setting_of_mirrors_of_headwater(
    stream: Call, orders: str, kind: str
) -> None:
    copy = f"{orders}_COPY"
    made = stream("add", copy, "--mirror", orders, "--max-staleness", "10s")
    if kind == "nats-server":
        assert (made.code, "(err_code 10025)" in made.err) == (1, True)
        return
    assert "  Mirror silent after:  10s\n" in made.out
    refused = stream("edit", orders, "--max-staleness", "1s", "--force")
    assert refused.code == 1
    assert refused.err.endswith(
        "Error: max staleness requires a mirror (err_code 10052)\n"
        f"Use it with --mirror, or take it back with: headwater stream edit {orders} "
        "--unset max_staleness\n"
    )
    assert stream("edit", copy, "--no-mirror", "--force").code == 0
    config = json.loads(stream("info", copy, "--json").out)["config"]
    assert "max_staleness" not in config


def test_a_ring_is_refused_and_the_graph_is_the_next_step(stream: Call, orders: str) -> None:
    copy = f"{orders}_COPY"
    stream("add", copy, "--mirror", orders)
    refused = stream("edit", orders, "--source", copy, "--force")
    assert refused.code == 1
    assert refused.err.endswith(
        "Error: detected cycle (err_code 10052)\n"
        f"The messages of {orders} would come back to it. See which stream copies which with: "
        f"headwater stream graph {orders}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "err_code", "advice"),
    [
        (("--mirror", "O", "--subjects", "a"), 10034, "leave --subjects out, or use --source"),
        (("--mirror", "O", "--source", "P"), 10031, "Use --mirror for one stream, or --source"),
        (("--source", "O", "--source", "O"), 10140, "headwater stream add --help"),
        (("--mirror", "a.b"), 10142, "has no dots"),
        (("--mirror", "O,api=$JS.API"), 10021, "or domain=NAME for api"),
    ],
)
def test_a_refused_copy_comes_with_the_next_step(
    stream: Call, name: str, arguments: tuple[str, ...], err_code: int, advice: str
) -> None:
    refused = stream("add", name, *arguments)
    assert refused.code == 1
    assert f"(err_code {err_code})\n" in refused.err
    assert advice in refused.err


def test_the_graph_is_text_json_and_a_picture(stream: Call, orders: str, tmp_path: Path) -> None:
    copy, everything = f"{orders}_COPY", f"{orders}_ALL"
    stream("add", copy, "--mirror", orders)
    stream("add", everything, "--source", copy, "--source", f"{orders},filter={orders}.us")
    info_when(stream, everything, holds(5))
    shown = stream("graph", orders).out.splitlines()
    assert [line.partition("  ")[0] for line in shown] == [
        orders,
        f"├─ source (filter={orders}.us) → {everything}",
        f"└─ mirror → {copy}",
        "",
    ]
    assert shown[3].startswith(f"   └─ source → {everything}  5 messages, 0 messages behind, seen ")
    fields = json.loads(stream("graph", orders, "--json").out)
    assert [each["name"] for each in fields["streams"]] == [orders, everything, copy]
    assert [(each["origin"], each["stream"]) for each in fields["copies"]] == [
        (orders, everything), (copy, everything), (orders, copy),
    ]  # fmt: skip
    file = tmp_path / "graph.svg"
    written = stream("graph", orders, "--svg", file)
    assert (written.code, written.out, written.err) == (0, "", f"Wrote {file}\n")
    assert ElementTree.fromstring(file.read_text()).tag == "{http://www.w3.org/2000/svg}svg"
    assert stream("graph", "--svg", "-").out.startswith("<svg ")


def test_a_graph_that_can_not_be_shown_says_why(stream: Call, name: str, tmp_path: Path) -> None:
    unknown = stream("graph", name)
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err == (
        f"Error: There is no stream {name}\nSee what there is with: headwater stream ls\n"
    )
    stream("add", name)
    alone = stream("graph", name)
    assert (alone.code, alone.out) == (0, "")
    assert alone.err.endswith(f"headwater stream add COPY --mirror {name}\n")
    unwritable = stream("graph", "--svg", tmp_path / "none" / "graph.svg")
    assert unwritable.code == 1
    assert "cannot be written: No such file or directory\nDoes the folder exist" in unwritable.err
    assert stream("graph", "--svg", "-", "--json").code == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("add", "X", "--source", "O,orders.>"), "is no detail of an origin; use filter"),
        (("add", "X", "--mirror", "O,start=soon"), "'soon' is no time"),
        (("edit", "X", "--mirror", "O", "--no-mirror"), "exclude one another"),
    ],
)
def test_a_mistake_in_the_command_line_is_exit_2(
    stream: Call, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = stream(*arguments)
    assert ended.code == 2
    assert complaint in " ".join(ended.err.split())
