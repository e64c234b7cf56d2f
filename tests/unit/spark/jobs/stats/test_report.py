"""The report: one page that stands alone and says what the figures say."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from headwater.spark.jobs.stats.figures import NOTHING, Distribution, Figures, Group, Span
from headwater.spark.jobs.stats.report import LINES_MAX, render

NOON_S = 1_794_744_000.0
NASTY = "<img src=x onerror=alert(1)>&"


def spread(value: float) -> Distribution:
    return Distribution(10, value, value, value * 2, value * 3, value * 4)


def span(messages: int, latency: Distribution | None = None) -> Span:
    return Span(messages, messages * 100, spread(100), spread(0.5), latency)


def group(name: str, *counts: int, latency: Distribution | None = None) -> Group:
    windows = tuple(span(count, latency) if count else NOTHING for count in counts)
    return Group(name, span(sum(counts), latency), windows)


def figures(*groups: Group, unreadable: int | None = None, merged: int = 0) -> Figures:
    count = len(groups[0].windows)
    latency = groups[0].total.latency
    sums = [sum(each.windows[at].messages for each in groups) for at in range(count)]
    return Figures(
        stream="ORDERS",
        source="archive /archives/orders",
        first_s=NOON_S,
        last_s=NOON_S + 60 * count,
        window_s=60.0,
        window_starts_s=tuple(NOON_S + 60 * at for at in range(count)),
        all=group("all messages", *sums, latency=latency),
        groups=groups,
        groups_merged=merged,
        unreadable=unreadable,
    )


EMPTY = Figures(
    "ORDERS", "stream ORDERS", None, None, 1.0, (), Group("all messages", NOTHING, ()), ()
)


class Page(HTMLParser):
    """The page as a browser finds it: balanced tags, tables as rows of texts, resources to load."""

    VOID = frozenset({"meta", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.headings: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onerror", "onload"} & {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "h2":
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        if self.open and self.open[-1] == "h2":
            self.headings[-1] += data


def test_it_stands_alone() -> None:
    text = render(figures(group("a", 60, 120)), NOON_S)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


def test_every_colour_that_is_used_is_defined_for_light_and_dark() -> None:
    text = render(figures(group("a", 60, 120)), NOON_S)
    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    light, dark = re.findall(r":root \{([^}]*)\}", text)
    for block in (light, dark):
        assert used <= set(re.findall(r"(--[\w-]+):", block))


def test_figures_stand_in_tables() -> None:
    page = Page(render(figures(group("a", 60, 0), group("b", 6, 30)), NOON_S))
    assert page.headings == ["Message rate", "Byte rate", "Message size", "Time between messages"]
    assert ["window from (UTC)", "a", "b"] in page.rows
    assert ["2026-11-15 12:00:00", "1/s", "0.1/s"] in page.rows
    assert ["2026-11-15 12:01:00", "0/s", "0.5/s"] in page.rows
    assert ["b", "36", "3.5 KiB", "100 B", "100 B", "200 B", "300 B", "400 B"] in page.rows
    assert ["all messages", "96", "9.4 KiB", *["500ms"] * 2, "1s", "1.5s", "2s"] in page.rows


def test_latencies_only_where_they_were_looked_for() -> None:
    text = render(figures(group("a", 60, 120, latency=spread(0.01)), unreadable=3), NOON_S)
    page = Page(text)
    assert page.headings[-1] == "Latency"
    assert "3 messages had no such time" in text
    assert ["2026-11-15 12:00:00", "10ms", "20ms", "30ms"] in page.rows
    assert "atency" not in render(figures(group("a", 60, 120)), NOON_S)


def test_names_are_escaped() -> None:
    named = figures(group(NASTY, 60, 1), group("b", 1, 1))
    text = render(named, NOON_S)
    assert "<img" not in text
    assert sorted({row[0] for row in Page(text).rows if "onerror" in row[0]}) == [NASTY]


def of_time(given: Figures, first_s: float, last_s: float) -> Figures:
    return replace(given, first_s=NOON_S + first_s, last_s=NOON_S + last_s)


@pytest.mark.parametrize(
    ("first_s", "last_s", "rates", "text"),
    [
        (0, 180, ["1/s", "1/s", "0.5/s"], "In windows of 1m."),
        (0, 179, ["1/s", "1/s", "—"], "The last window is partial and has no rate."),
        (1, 180, ["—", "1/s", "0.5/s"], "The first window is partial and has no rate."),
        (1, 179, ["—", "1/s", "—"], "The first and the last window are partial and have no rate."),
    ],
)
def test_a_window_that_is_not_whole_has_no_rate(
    first_s: float, last_s: float, rates: list[str], text: str
) -> None:
    """The messages in the rest of its time are not known; thirty in half of it prove nothing."""
    page = render(of_time(figures(group("a", 60, 60, 30)), first_s, last_s), NOON_S)
    rows = [row for row in Page(page).rows if row[0].startswith("2026-")]
    assert [row[1] for row in rows[:3]] == rates
    assert [row[0].endswith("(partial)") for row in rows[:3]] == [each == "—" for each in rates]
    assert text in page


def test_where_no_window_is_whole_the_report_says_what_to_do() -> None:
    page = render(of_time(figures(group("a", 60, 60)), 1, 119), NOON_S)
    assert "take a smaller window" in page
    assert "There is nothing to show" in page


def test_the_title_is_the_stream_and_its_source_stands_below() -> None:
    text = render(figures(group("a", 60, 120)), NOON_S)
    assert "<title>ORDERS</title>" in text
    assert "<h1>ORDERS</h1><p>Archive /archives/orders. Messages of 2026-11-15 12:00:00.000 to" in (
        text
    )


def test_the_largest_groups_get_lines_and_all_a_row() -> None:
    many = [group(f"g{index}", 60, 60) for index in range(LINES_MAX + 2)]
    text = render(figures(*many), NOON_S)
    assert f"The {LINES_MAX} largest groups of {LINES_MAX + 2}." in text
    assert sum(row[0] == f"g{LINES_MAX + 1}" for row in Page(text).rows) == 2


@pytest.mark.parametrize("given", [EMPTY, replace(EMPTY, unreadable=0)], ids=["rates", "latencies"])
def test_no_messages(given: Figures) -> None:
    text = render(given, NOON_S)
    Page(text)
    assert "No messages" in text
    assert "There is nothing to show" in text


def test_one_message() -> None:
    one = Group("a", Span(1, 0, spread(0)), (Span(1, 0, spread(0)),))
    given = Figures("ORDERS", "stream ORDERS", NOON_S, NOON_S, 0.001, (NOON_S,), one, (one,))
    Page(render(given, NOON_S))
    assert given.rate is None
    assert not given.is_whole(0)


def test_figures_as_a_document() -> None:
    document = json.loads(json.dumps(figures(group("a", 60, 0)).to_json()))
    assert document["first"] == "2026-11-15T12:00:00.000000Z"
    assert document["duration_s"] == 120
    assert document["rate"] == 0.5
    assert document["groups"][0]["windows"][0]["size"]["p99"] == 300
    assert document["groups"][0]["windows"][1]["size"] is None
