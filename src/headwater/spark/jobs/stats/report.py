"""Figures as one self-contained HTML page: no script, no font, no request to anywhere.

Each plot has its figures under it as a table, so that the exact values can be read. Text from
outside, names of subjects above all, is escaped where it enters the markup.

Must not know: Spark, files.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

from headwater.spark.jobs.stats.figures import Distribution, Figures, Group, Span, time_text
from headwater.spark.jobs.stats.plots import (
    STYLE,
    Percentiles,
    Series,
    Unit,
    line_plot,
    percentile_plot,
    value_text,
)

# More lines than this cannot be told apart; the tables have the rest.
LINES_MAX: Final = 6
NONE_TEXT: Final = "\N{EM DASH}"

_PAGE_STYLE: Final = """
:root { color-scheme: light dark; --page: #fcfcfb; --card: #f3f2ee; --ink: #171715;
  --muted: #5a5955; --grid: #e6e5e0; --axis: #b4b3ad; --hover: rgb(0 0 0 / .06);
  --c0: #2a78d6; --c1: #d95926; --c2: #178f66; --c3: #b97a00; --c4: #c9457a; --c5: #6a57c9; }
@media (prefers-color-scheme: dark) {
  :root { --page: #1a1a19; --card: #262624; --ink: #f2f1ec; --muted: #b5b4aa; --grid: #33322f;
    --axis: #65645e; --hover: rgb(255 255 255 / .08);
    --c0: #4a95ea; --c1: #ea7a4b; --c2: #2fb585; --c3: #d89b1f; --c4: #e2709c; --c5: #9b8ff0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 3rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
p { margin: .25rem 0 .75rem; color: var(--muted); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(6.5rem, 1fr));
  gap: .6rem; margin: 1rem 0; padding: 0; list-style: none; }
.tiles li { background: var(--card); border-radius: 6px; padding: .55rem .7rem; }
.tiles b { display: block; font-size: 1.15rem; font-weight: 600; white-space: nowrap; }
.tiles span { color: var(--muted); font-size: .85rem; }
.scroll { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: collapse; font-size: .85rem; min-width: 60%;
  font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
th { color: var(--muted); font-weight: 500; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere;
  min-width: 10.5rem; max-width: 24rem; position: sticky; left: 0; background: var(--page); }
@media (max-width: 40rem) { th, td { padding: .25rem .45rem; } }
summary { cursor: pointer; color: var(--muted); font-size: .9rem; }
"""


def render(figures: Figures, made_at_s: float) -> str:
    """The page. `made_at_s` is the time of its creation."""
    sections = [
        _rates(figures),
        _bytes(figures),
        _sizes(figures),
        _gaps(figures),
        _latencies(figures) if figures.unreadable is not None else "",
    ]
    title = escape(figures.stream)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_PAGE_STYLE}{STYLE}</style></head><body>"
        f"<h1>{title}</h1>{_when(figures, made_at_s)}{_tiles(figures)}{''.join(sections)}"
        "</body></html>\n"
    )


def _when(figures: Figures, made_at_s: float) -> str:
    source = escape(figures.source[:1].upper() + figures.source[1:])
    made = f"Made {_moment(made_at_s)[:19]} UTC."
    if figures.first_s is None or figures.last_s is None:
        return f"<p>{source}. No messages. {made}</p>"
    span = f"{_moment(figures.first_s)} to {_moment(figures.last_s)} UTC"
    return f"<p>{source}. Messages of {span}. {made}</p>"


def _moment(time_s: float) -> str:
    """A time as the command line writes it: to the millisecond."""
    return (time_text(time_s) or "")[:23].replace("T", " ")


def _tiles(figures: Figures) -> str:
    total = figures.all.total
    count = len(figures.groups) + max(figures.groups_merged - 1, 0)
    tiles = [
        ("messages", f"{total.messages:,}"),
        ("payload", value_text(total.bytes, Unit.BYTES)),
        ("groups", f"{count:,}"),
        ("duration", value_text(figures.duration_s, Unit.SECONDS)),
        ("mean rate", _text(figures.rate, Unit.COUNT_RATE)),
        ("median size", _text(total.size.p50 if total.size else None, Unit.BYTES)),
    ]
    if figures.unreadable is not None:
        tiles.append(
            ("latency p99", _text(total.latency.p99 if total.latency else None, Unit.SECONDS))
        )
    items = "".join(f"<li><b>{text}</b><span>{name}</span></li>" for name, text in tiles)
    return f'<ul class="tiles">{items}</ul>'


# --- sections -----------------------------------------------------------------------------------


def _rates(figures: Figures) -> str:
    return _over_time("Message rate", Unit.COUNT_RATE, figures, lambda span: span.messages)


def _bytes(figures: Figures) -> str:
    return _over_time("Byte rate", Unit.BYTES_RATE, figures, lambda span: span.bytes)


def _sizes(figures: Figures) -> str:
    text = "Bytes of payload, without subject and headers."
    return _spread("Message size", text, Unit.BYTES, figures, lambda span: span.size)


def _gaps(figures: Figures) -> str:
    text = "From one message of the group to its next."
    return _spread("Time between messages", text, Unit.SECONDS, figures, lambda span: span.gap)


def _latencies(figures: Figures) -> str:
    text = "From the time the producer wrote into the message to the time it was stored."
    if figures.unreadable:
        text += f" {figures.unreadable:,} messages had no such time that could be read."

    def percentile(choose: Callable[[Distribution], float]) -> list[float | None]:
        spans = figures.all.windows
        return [None if span.latency is None else choose(span.latency) for span in spans]

    lines = [
        Series("p50", percentile(lambda spread: spread.p50)),
        Series("p90", percentile(lambda spread: spread.p90)),
        Series("p99", percentile(lambda spread: spread.p99)),
    ]
    return (
        _spread("Latency", text, Unit.SECONDS, figures, lambda span: span.latency)
        + line_plot(
            "Over time, all messages",
            Unit.SECONDS,
            figures.window_starts_s,
            figures.window_s,
            lines,
        )
        + _windows_table(figures, lines, Unit.SECONDS)
    )


def _over_time(title: str, unit: Unit, figures: Figures, count: Callable[[Span], int]) -> str:
    groups = _shown(figures)
    lines = [Series(each.name, _per_second(figures, each, count)) for each in groups]
    text = f"In windows of {value_text(figures.window_s, Unit.SECONDS)}.{_partial_text(figures)}"
    if len(figures.groups) > len(groups):
        text += f" The {len(groups)} largest groups of {len(figures.groups)}."
    plot = line_plot("By group", unit, figures.window_starts_s, figures.window_s, lines)
    return f"<h2>{title}</h2><p>{text}</p>{plot}{_windows_table(figures, lines, unit)}"


def _per_second(figures: Figures, group: Group, count: Callable[[Span], int]) -> list[float | None]:
    return [
        count(span) / figures.window_s if figures.is_whole(position) else None
        for position, span in enumerate(group.windows)
    ]


def _partial_text(figures: Figures) -> str:
    """The reason why some windows have no rate; empty if all have one."""
    whole = [figures.is_whole(position) for position in range(len(figures.window_starts_s))]
    if all(whole):
        return ""
    if not any(whole):
        return (
            " Messages came in parts of windows only, for which there is no rate: take a"
            " smaller window."
        )
    ends = [name for name, is_whole in (("first", whole[0]), ("last", whole[-1])) if not is_whole]
    verbs = "is partial and has" if len(ends) == 1 else "are partial and have"
    return f" The {' and the '.join(ends)} window {verbs} no rate."


def _spread(
    title: str,
    text: str,
    unit: Unit,
    figures: Figures,
    choose: Callable[[Span], Distribution | None],
) -> str:
    groups = [*figures.groups] if len(figures.groups) == 1 else [figures.all, *figures.groups]
    found = [(each, spread) for each in groups if (spread := choose(each.total)) is not None]
    rows = [
        Percentiles(each.name, spread.p50, spread.p90, spread.p99, spread.max)
        for each, spread in found
    ]
    head = ("", "messages", "payload", "min", "p50", "p90", "p99", "max")
    body = [
        [
            escape(each.name),
            f"{each.total.messages:,}",
            value_text(each.total.bytes, Unit.BYTES),
            *(value_text(value, unit) for value in _values(spread)),
        ]
        for each, spread in found
    ]
    plot = percentile_plot("By group", unit, rows)
    return f"<h2>{title}</h2><p>{text}</p>{plot}{_table(head, body)}"


def _values(spread: Distribution) -> tuple[float, ...]:
    return spread.min, spread.p50, spread.p90, spread.p99, spread.max


def _shown(figures: Figures) -> Sequence[Group]:
    """The groups that get a line of their own, or everything as one line."""
    return figures.groups[:LINES_MAX] or (figures.all,)


# --- tables -------------------------------------------------------------------------------------


def _windows_table(figures: Figures, lines: Sequence[Series], unit: Unit) -> str:
    head = ("window from (UTC)", *(escape(line.name) for line in lines))
    body = (
        [
            _window_text(figures, position),
            *(_text(line.values[position], unit) for line in lines),
        ]
        for position in range(len(figures.window_starts_s))
    )
    count = len(figures.window_starts_s)
    return f"<details><summary>{count:,} windows as a table</summary>{_table(head, body)}</details>"


def _window_text(figures: Figures, position: int) -> str:
    start = time_text(figures.window_starts_s[position]) or ""
    text = start.replace("T", " ").replace(".000000", "").rstrip("Z")
    return text if figures.is_whole(position) else f"{text} (partial)"


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table of texts that are markup already."""
    top = "".join(f"<th>{each}</th>" for each in head)
    rows = "".join(f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>" for row in body)
    return (
        f'<div class="scroll"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _text(value: float | None, unit: Unit) -> str:
    return NONE_TEXT if value is None else value_text(value, unit)
