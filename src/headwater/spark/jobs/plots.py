"""Plots as inline SVG: lines over time, and percentiles of groups side by side.

A plot is a text: a `<figure>` with its title, its legend and an `<svg>`, which a page takes in as
it is together with `STYLE`. There is no script and no font to fetch. Colours are CSS variables, so
one page reads well in light and dark; values show in the tooltips a browser makes of `<title>`.

Every text that comes from outside is escaped here, once, where it is written into the markup. Any
data can be drawn: none, a single point, values that are all equal, values that are missing.

Must not know: where the figures come from, files, Spark.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from html import escape
from typing import Final

WIDTH_PX: Final = 880
LINES_HEIGHT_PX: Final = 280
MARGIN_LEFT_PX: Final = 68
MARGIN_RIGHT_PX: Final = 16
MARGIN_TOP_PX: Final = 14
MARGIN_BOTTOM_PX: Final = 30
ROW_HEIGHT_PX: Final = 26
LABEL_WIDTH_PX: Final = 240
# At 12 px a character of a sans-serif face is about 7 px wide.
LABEL_CHARACTERS_MAX: Final = 32

# As many as can be told apart, also by the colour-blind; what comes after is drawn grey.
COLOURS: Final = 6

TICKS_Y: Final = 5
TICKS_X: Final = 8
# A log axis pays when the largest value is this many times the smallest.
LOG_RATIO_MIN: Final = 20.0
# The part of a log axis that is left to zeros, where there are any.
ZEROS_SHARE: Final = 0.08

STYLE: Final = """
.plot { margin: 0 0 1rem; }
.plot figcaption { font-weight: 600; margin-bottom: .25rem; }
.plot .unit { font-weight: 400; color: var(--muted); }
.plot svg { display: block; width: 100%; height: auto; font-size: 12px; }
.plot text { fill: var(--muted); font-family: inherit; }
.plot .label { fill: var(--ink); }
.plot .grid { stroke: var(--grid); stroke-width: 1; }
.plot .axis { stroke: var(--axis); stroke-width: 1; }
.plot .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.plot .hit { fill: transparent; }
.plot .hit:hover { fill: var(--hover); }
.plot .span { stroke-width: 2; stroke-linecap: round; opacity: .45; }
.plot .middle { stroke-width: 8; stroke-linecap: butt; opacity: .45; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; list-style: none; margin: 0 0 .4rem;
  padding: 0; font-size: .85rem; overflow-wrap: anywhere; }
.legend svg { display: inline-block; width: 14px; height: 10px; margin-right: .35rem; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); }
.c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); }
.cx { stroke: var(--muted); stroke-dasharray: 4 3; }
.dot { stroke: var(--page); stroke-width: 1.5; }
.dot.f0 { fill: var(--c0); } .dot.f1 { fill: var(--c1); } .dot.f2 { fill: var(--c2); }
.dot.f3 { fill: var(--c3); } .dot.f4 { fill: var(--c4); } .dot.f5 { fill: var(--c5); }
.dot.fx { fill: var(--muted); }
"""


class Unit(Enum):
    """What a value counts, and so how it is written."""

    COUNT = "messages"
    COUNT_RATE = "messages/s"
    BYTES = "bytes"
    BYTES_RATE = "bytes/s"
    SECONDS = "seconds"


@dataclass(frozen=True)
class Series:
    """One line: values at the times of the plot, None where there is nothing to say."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Percentiles:
    """One row of a percentile plot. The values rise from p50 to max."""

    name: str
    p50: float
    p90: float
    p99: float
    max: float


# --- numbers as text ----------------------------------------------------------------------------

_SI: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_DURATIONS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
_SHORTEST: Final = (1e-6, "\N{MICRO SIGN}s")


def value_text(value: float, unit: Unit) -> str:
    """A value with its unit, in three digits: `1.23 k`, `45.6 kB/s`, `7.89 ms`."""
    if not math.isfinite(value):
        return "\N{EM DASH}"
    if unit is Unit.SECONDS:
        return _duration_text(value)
    suffix = {Unit.BYTES: "B", Unit.BYTES_RATE: "B/s", Unit.COUNT_RATE: "/s"}.get(unit, "")
    scale, prefix = _fitting(value, _SI)
    return f"{_three_digits(value / scale)} {prefix}{suffix}".strip()


def _duration_text(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    scale, suffix = _fitting(seconds, (*_DURATIONS, _SHORTEST))
    return f"{_three_digits(seconds / scale)} {suffix}"


def _fitting(value: float, scales: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest scale that does not make the value less than one, as it will be rounded."""
    magnitude = abs(value) * 1.0005
    return next((each for each in scales if magnitude >= each[0]), scales[-1])


def _three_digits(number: float) -> str:
    magnitude = abs(number)
    if magnitude >= 99.95:
        return f"{number:.0f}"
    text = f"{number:.1f}" if magnitude >= 9.995 else f"{number:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- scales -------------------------------------------------------------------------------------


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """Round values from at or below `low` to at or above `high`, about `count` of them."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


_MINUTE_S: Final = 60.0
_DAY_S: Final = 86_400.0
# Above seconds people do not count in tens.
_LONG_TICKS_S: Final = (_MINUTE_S, 600.0, 3_600.0, 6 * 3_600.0, *(_DAY_S * 10**n for n in range(9)))


def log_ticks(low: float, high: float, unit: Unit = Unit.COUNT) -> list[float]:
    """Round values on a log axis from at or below `low` to at or above `high`, at least two.

    Both are positive. They are powers of ten, but minutes, hours and days for long times.
    """
    first = math.floor(math.log10(low) + 1e-9)
    last = max(math.ceil(math.log10(high) - 1e-9), first + 1)
    ladder = [10.0**power for power in range(first, last + 1)]
    if unit is not Unit.SECONDS or high <= _MINUTE_S / 2:
        return ladder
    ladder = [each for each in ladder if each < _MINUTE_S / 2] + list(_LONG_TICKS_S)
    begin = max((at for at, each in enumerate(ladder) if each <= low), default=0)
    end = next((at for at, each in enumerate(ladder) if each >= high), len(ladder) - 1)
    return ladder[begin : max(end, begin + 1) + 1]


_TIME_STEPS_S: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400),
    *(2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400, 91 * 86_400, 364 * 86_400),
)


def time_ticks(first_s: float, last_s: float, count: int = TICKS_X) -> list[float]:
    """Round times of day within the span, at most `count` of them unless it is centuries."""
    span = last_s - first_s
    step = next((each for each in _TIME_STEPS_S if span / each < count), _TIME_STEPS_S[-1])
    begin = math.ceil(first_s / step - 1e-9)
    end = math.floor(last_s / step + 1e-9)
    return [index * step for index in range(begin, end + 1)] or [first_s]


def time_text(time_s: float, span_s: float) -> str:
    """A time in UTC, as finely as the span it stands in needs."""
    moment = datetime.fromtimestamp(round(time_s, 3), UTC)
    if span_s > 4 * 86_400:
        return moment.strftime("%Y-%m-%d")
    if span_s > 86_400 / 2:
        return moment.strftime("%m-%d %H:%M")
    if span_s > 600:
        return moment.strftime("%H:%M")
    if span_s > 4:
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%H:%M:%S.%f")[:-3]


# --- lines over time ----------------------------------------------------------------------------


def line_plot(
    title: str, unit: Unit, times_s: Sequence[float], step_s: float, series: Sequence[Series]
) -> str:
    """Lines of `series` over the windows that begin at `times_s` and last `step_s` each."""
    shown = [each for each in series if any(value is not None for value in each.values)]
    if not times_s or not shown:
        return _empty(title, unit)
    values = [value for each in shown for value in each.values if value is not None]
    # A rate is read against zero; so is everything else that can not be negative.
    ticks_y = linear_ticks(min(0.0, *values), max(values), TICKS_Y)
    low, high = ticks_y[0], ticks_y[-1]
    left, right = MARGIN_LEFT_PX, WIDTH_PX - MARGIN_RIGHT_PX
    top, bottom = MARGIN_TOP_PX, LINES_HEIGHT_PX - MARGIN_BOTTOM_PX
    first, last = times_s[0], times_s[-1] + step_s

    def x(time_s: float) -> float:
        return left + (time_s - first) / (last - first) * (right - left)

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    parts = [
        _horizontal(left, right, y(tick), value_text(tick, unit), tick == max(low, 0.0))
        for tick in ticks_y
    ]
    parts += [
        _vertical_label(x(tick), bottom, time_text(tick, last - first))
        for tick in time_ticks(first, last)
    ]
    for index, each in enumerate(shown):
        # A window's value stands in its middle.
        points = [
            None if value is None else (x(time + step_s / 2), y(value))
            for time, value in zip(times_s, each.values, strict=True)
        ]
        parts.append(_line(points, index))
    parts += [
        _hit(x(time), x(time + step_s), top, bottom, _window_text(time, position, shown, unit))
        for position, time in enumerate(times_s)
    ]
    legend = _legend([each.name for each in shown]) if len(shown) > 1 else ""
    return _figure(title, unit, legend, _svg(title, LINES_HEIGHT_PX, parts))


def _line(points: Sequence[tuple[float, float] | None], index: int) -> str:
    """A path with holes where values are missing; what would be a line of one point is a dot."""
    commands = []
    dots = []
    for run in _runs(points):
        if len(run) == 1:
            (x, y) = run[0]
            dots.append(f'<circle class="dot f{_colour(index)}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        else:
            commands.append("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run))
    path = f'<path class="line c{_colour(index)}" d="{"".join(commands)}"/>' if commands else ""
    return path + "".join(dots)


def _runs(
    points: Sequence[tuple[float, float] | None],
) -> Iterable[list[tuple[float, float]]]:
    run: list[tuple[float, float]] = []
    for point in (*points, None):
        if point is not None:
            run.append(point)
        elif run:
            yield run
            run = []


def _window_text(time_s: float, position: int, series: Sequence[Series], unit: Unit) -> str:
    begin = datetime.fromtimestamp(time_s, UTC).isoformat(" ", "milliseconds")
    lines = [begin.replace("+00:00", " UTC").replace(".000", "")]
    for each in series:
        value = each.values[position]
        if value is not None:
            lines.append(f"{each.name}: {value_text(value, unit)}")
    return "\n".join(lines)


# --- percentiles side by side -------------------------------------------------------------------


def percentile_plot(title: str, unit: Unit, rows: Sequence[Percentiles]) -> str:
    """A row per group: a dot at the median, a band to p90, a thin line over p99 to the maximum.

    The axis is logarithmic where the values are far apart and none is negative.
    """
    if not rows:
        return _empty(title, unit)
    left, right = LABEL_WIDTH_PX, WIDTH_PX - MARGIN_RIGHT_PX - 30
    height = MARGIN_TOP_PX + ROW_HEIGHT_PX * len(rows) + MARGIN_BOTTOM_PX
    bottom = height - MARGIN_BOTTOM_PX
    values = [value for row in rows for value in (row.p50, row.p90, row.p99, row.max)]
    axis = _value_axis(values, unit)

    def x(value: float) -> float:
        return left + axis.share(value) * (right - left)

    parts = [
        _vertical(x(tick), MARGIN_TOP_PX, bottom, value_text(tick, unit)) for tick in axis.labels()
    ]
    for position, row in enumerate(rows):
        y = MARGIN_TOP_PX + ROW_HEIGHT_PX * (position + 0.5)
        parts.append(_percentile_row(row, unit, y, x))
    return _figure(title, unit, _PERCENTILE_LEGEND, _svg(title, height, parts))


@dataclass(frozen=True)
class _Axis:
    """Where a value stands on an axis, from 0 to 1.

    A log axis never comes to zero; where there are zeros they have a place apart, before it.
    """

    ticks: tuple[float, ...]
    is_log: bool
    has_zeros: bool = False

    def share(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        if not self.is_log:
            return (value - low) / (high - low)
        if value <= 0:
            return 0.0
        begin = ZEROS_SHARE if self.has_zeros else 0.0
        return begin + (1 - begin) * math.log10(max(value, low) / low) / math.log10(high / low)

    def labels(self) -> list[float]:
        """The ticks that are drawn: of many powers of ten every other, or fewer."""
        every = -(-len(self.ticks) // TICKS_X)
        drawn = list(self.ticks[::every])
        return [0.0, *drawn] if self.has_zeros else drawn


def _value_axis(values: Sequence[float], unit: Unit) -> _Axis:
    positive = [value for value in values if value > 0]
    if positive and min(values) >= 0 and max(positive) / min(positive) >= LOG_RATIO_MIN:
        ticks = log_ticks(min(positive), max(positive), unit)
        return _Axis(tuple(ticks), True, len(positive) < len(values))
    return _Axis(tuple(linear_ticks(min(0.0, *values), max(values), TICKS_Y)), False)


def _percentile_row(row: Percentiles, unit: Unit, y: float, x: Callable[[float], float]) -> str:
    p50, p90, p99, most = x(row.p50), x(row.p90), x(row.p99), x(row.max)
    text = row.name + "".join(
        f"\n{name} {value_text(value, unit)}"
        for name, value in (("p50", row.p50), ("p90", row.p90), ("p99", row.p99), ("max", row.max))
    )
    label = _shortened(row.name, LABEL_CHARACTERS_MAX)
    return (
        f'<text class="label" x="{LABEL_WIDTH_PX - 10}" y="{y + 4:.1f}" text-anchor="end">'
        f"{escape(label)}</text>"
        f'<line class="span c0" x1="{p50:.1f}" x2="{most:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<line class="middle c0" x1="{p50:.1f}" x2="{p90:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<line class="c0" stroke-width="2" x1="{p99:.1f}" x2="{p99:.1f}" y1="{y - 6:.1f}" '
        f'y2="{y + 6:.1f}"/>'
        f'<circle class="dot f0" cx="{p50:.1f}" cy="{y:.1f}" r="5"/>'
        f"{_hit(0, WIDTH_PX, y - ROW_HEIGHT_PX / 2, y + ROW_HEIGHT_PX / 2, text)}"
    )


_PERCENTILE_LEGEND: Final = (
    '<ul class="legend">'
    '<li><svg viewBox="0 0 14 10"><circle class="dot f0" cx="7" cy="5" r="4.5"/></svg>median</li>'
    '<li><svg viewBox="0 0 14 10"><line class="middle c0" x1="0" x2="14" y1="5" y2="5"/>'
    "</svg>to p90</li>"
    '<li><svg viewBox="0 0 14 10"><line class="c0" stroke-width="2" x1="7" x2="7" y1="0" y2="10"/>'
    "</svg>p99</li>"
    '<li><svg viewBox="0 0 14 10"><line class="span c0" x1="1" x2="13" y1="5" y2="5"/></svg>'
    "to the maximum</li></ul>"
)


# --- parts of a figure --------------------------------------------------------------------------


def _colour(index: int) -> str:
    return str(index) if index < COLOURS else "x"


def _figure(title: str, unit: Unit, legend: str, body: str) -> str:
    return (
        f'<figure class="plot"><figcaption>{escape(title)} '
        f'<span class="unit">{escape(unit.value)}</span></figcaption>{legend}{body}</figure>'
    )


def _empty(title: str, unit: Unit) -> str:
    text = (
        f'<text x="{WIDTH_PX / 2:.0f}" y="44" text-anchor="middle">There is nothing to show</text>'
    )
    return _figure(title, unit, "", _svg(title, 80, [text]))


def _svg(title: str, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH_PX} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 14 10" aria-hidden="true"><line class="c{_colour(index)}" '
        f'stroke-width="3" x1="0" x2="14" y1="5" y2="5"/></svg>{escape(name)}</li>'
        for index, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def _horizontal(left: float, right: float, y: float, text: str, is_axis: bool) -> str:
    return (
        f'<line class="{"axis" if is_axis else "grid"}" x1="{left}" x2="{right}" y1="{y:.1f}" '
        f'y2="{y:.1f}"/><text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    )


def _vertical(x: float, top: float, bottom: float, text: str) -> str:
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom:.1f}"/>'
        + _vertical_label(x, bottom, text)
    )


def _vertical_label(x: float, bottom: float, text: str) -> str:
    # A label at either end would be cut off by the edge of the picture.
    anchor = "end" if x > WIDTH_PX - 40 else "middle"
    return (
        f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{bottom + 4:.1f}"/>'
        f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _hit(left: float, right: float, top: float, bottom: float, text: str) -> str:
    """An area that cannot be seen and that shows `text` when pointed at."""
    return (
        f'<rect class="hit" x="{left:.1f}" y="{top:.1f}" width="{right - left:.2f}" '
        f'height="{bottom - top:.1f}"><title>{escape(text)}</title></rect>'
    )


def _shortened(text: str, length_max: int) -> str:
    """The text with its middle left out: both ends of a subject tell it apart."""
    if len(text) <= length_max:
        return text
    head = (length_max - 1) // 2
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[head + 1 - length_max :]}"
