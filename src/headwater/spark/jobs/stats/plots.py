"""Plots as inline SVG: lines over time, and percentiles of groups side by side.

A plot is a text: a `<figure>` with its title, its legend and an `<svg>`, which a page includes as
it is together with `STYLE`. There is no script and no font to fetch. Colours are CSS variables, so
one page reads well in light and dark; values show in the tooltips a browser makes of `<title>`.

Every text that comes from outside is escaped here, once, where it is written into the markup. Any
data can be drawn: none, a single point, values that are all equal, values that are missing.

An axis ends where percentiles of the values end, so that one outlier does not flatten all others. A
value beyond the axis is drawn at its edge as a triangle, and the legend has the largest of them.
Each plot is drawn twice, for a wide page and for a telephone; the style sheet shows one of them.

Must not know: where the figures come from, files, Spark.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from html import escape
from typing import Final

from headwater.base.quantities import duration_text, number_text, size_text

MARGIN_RIGHT_PX: Final = 16
MARGIN_TOP_PX: Final = 14
MARGIN_BOTTOM_PX: Final = 30
LABEL_WIDTH_PX: Final = 240
# At 12 px a character of a sans-serif face is about 7 px wide.
CHARACTER_PX: Final = 7
LABEL_CHARACTERS_MAX: Final = 32


@dataclass(frozen=True)
class Frame:
    """The size of a picture, and its parts that depend on the size."""

    name: str
    """The class by which the style sheet shows or hides it."""
    width_px: int
    lines_height_px: int
    row_height_px: int
    ticks_x: int
    label_width_px: int
    """Space for names on the left; with none, each name stands above its row."""
    has_tooltips: bool


WIDE: Final = Frame("wide", 880, 280, 26, 8, LABEL_WIDTH_PX, has_tooltips=True)
# The width of a telephone without the margins of the page; there is no pointer for tooltips.
NARROW: Final = Frame("narrow", 358, 230, 40, 3, 0, has_tooltips=False)
FRAMES: Final = (WIDE, NARROW)
# A name above its row has the whole width.
NARROW_CHARACTERS_MAX: Final = 44
NARROW_LEFT_PX: Final = 12

# As many as can be told apart, also by the colour-blind; further ones are grey.
COLOURS: Final = 6

TICKS_Y: Final = 5
# The share of a line's values that an axis has to reach, and the factor above it from which on the
# axis leaves a value out.
AXIS_SHARE: Final = 0.95
CLIP_RATIO: Final = 3.0
# With fewer values there are no outliers.
CLIP_VALUES_MIN: Final = 5
# Half the width of the triangle for a value beyond the axis.
MARK_PX: Final = 5
# A log axis is used when the largest value is this many times the smallest.
LOG_RATIO_MIN: Final = 20.0
# The part of a log axis for zeros, if there are any.
ZEROS_SHARE: Final = 0.08

STYLE: Final = """
.plot { margin: 0 0 1rem; }
.plot figcaption { font-weight: 600; margin-bottom: .25rem; }
.plot .unit { font-weight: 400; color: var(--muted); }
.plot svg { display: block; width: 100%; height: auto; font-size: 12px; }
.plot .narrow { display: none; }
@media (max-width: 40rem) { .plot .wide { display: none; } .plot .narrow { display: block; } }
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
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); }
.f3 { fill: var(--c3); } .f4 { fill: var(--c4); } .f5 { fill: var(--c5); }
.fx { fill: var(--muted); }
"""


class Unit(Enum):
    """The unit of a value, which decides its text."""

    COUNT = "messages"
    COUNT_RATE = "messages/s"
    BYTES = "bytes"
    BYTES_RATE = "bytes/s"
    SECONDS = "seconds"


@dataclass(frozen=True)
class Series:
    """One line: values at the times of the plot, None for no value."""

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


def value_text(value: float, unit: Unit) -> str:
    """A value with its unit, as the command line writes it: `1,230/s`, `45.6 KiB`, `7.89ms`."""
    if not math.isfinite(value):
        return "\N{EM DASH}"
    if unit is Unit.SECONDS:
        return duration_text(value)
    if unit in (Unit.BYTES, Unit.BYTES_RATE):
        text = size_text(value)
    else:
        text = number_text(value)
    return f"{text}/s" if unit in (Unit.COUNT_RATE, Unit.BYTES_RATE) else text


# --- scales -------------------------------------------------------------------------------------


_TIME_STEPS_S: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400),
    *(2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400, 91 * 86_400, 364 * 86_400),
)


def linear_ticks(low: float, high: float, count: int, unit: Unit = Unit.COUNT) -> list[float]:
    """Round values from at or below `low` to at or above `high`, about `count` of them."""
    if high - low < max(_SPAN_MIN, abs(low) * _SPAN_RATIO_MIN):
        high = low + (abs(low) if abs(low) >= _SPAN_MIN else 1.0)
    step = _step((high - low) / count, max(abs(low), abs(high)), unit)
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [index * step for index in range(first, last + 1)]


def _step(rough: float, largest: float, unit: Unit) -> float:
    """The round step at or above `rough`: round in the unit of its text."""
    if unit in (Unit.BYTES, Unit.BYTES_RATE) and largest >= _KIB:
        # Sizes have one digit after the point: halves are the finest that it can show.
        scale = _KIB ** math.floor(math.log(largest, _KIB) + 1e-9)
        return max(2.0 ** math.ceil(math.log2(rough) - 1e-9), scale / 2)
    if unit is Unit.SECONDS and 1 < rough <= _TIME_STEPS_S[-1]:
        return float(next(each for each in _TIME_STEPS_S if each >= rough))
    power = 10.0 ** math.floor(math.log10(rough))
    return next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.999)


# Between values that are closer than this, floating point has no room for ticks.
_SPAN_MIN: Final = 1e-300
_SPAN_RATIO_MIN: Final = 1e-9
_KIB: Final = 1024.0
_MINUTE_S: Final = 60.0
_DAY_S: Final = 86_400.0
# Above seconds people do not count in tens, and above a thousand bytes not in thousands.
_LONG_TICKS_S: Final = (_MINUTE_S, 600.0, 3_600.0, 6 * 3_600.0, *(_DAY_S * 10**n for n in range(9)))
_LARGE_TICKS_BYTES: Final = tuple(each * _KIB**n for n in range(1, 7) for each in (1, 10, 100))


def log_ticks(low: float, high: float, unit: Unit = Unit.COUNT) -> list[float]:
    """Round values on a log axis from at or below `low` to at or above `high`, at least two.

    Both are positive. The values are powers of ten; for long times minutes, hours and days, for
    sizes one, ten and a hundred of their units.
    """
    first = math.floor(math.log10(low) + 1e-9)
    last = max(math.ceil(math.log10(high) - 1e-9), first + 1)
    ladder = [10.0**power for power in range(first, last + 1)]
    if unit is Unit.SECONDS and high > _MINUTE_S / 2:
        ladder = [each for each in ladder if each < _MINUTE_S / 2] + list(_LONG_TICKS_S)
    elif unit in (Unit.BYTES, Unit.BYTES_RATE) and high > _KIB / 2:
        # Below a KiB the last round number is 100, also for a size of more than 1,000.
        small = [10.0**power for power in range(min(first, 2), 3)]
        ladder = [*small, *_LARGE_TICKS_BYTES]
    else:
        return ladder
    begin = max((at for at, each in enumerate(ladder) if each <= low), default=0)
    end = next((at for at, each in enumerate(ladder) if each >= high), len(ladder) - 1)
    return ladder[begin : max(end, begin + 1) + 1]


def axis_ends(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The ends of an axis for these groups of values, without outliers.

    An outlier is far beyond `AXIS_SHARE` of its group. A group of larger values than the others has
    no outliers for that, so each group is considered by itself.
    """
    mirrored = [[-value for value in each] for each in groups]
    low, high = (
        _end(max(map(_reach, side)), [value for each in side for value in each])
        for side in (mirrored, groups)
    )
    return -low, high


def _reach(values: Sequence[float]) -> float:
    """The value at `AXIS_SHARE` of the rank; below the largest one if there are enough."""
    ordered = sorted(values)
    count = len(ordered)
    if count < CLIP_VALUES_MIN:
        return ordered[-1]
    return ordered[min(math.ceil(AXIS_SHARE * count), count - 1) - 1]


def _end(reach: float, values: Sequence[float], ratio: float = CLIP_RATIO) -> float:
    """`reach`, or the largest value not far beyond it; the largest one if `reach` is no limit."""
    if reach <= 0:
        return max(values)
    return max([reach, *(each for each in values if each <= ratio * reach)])


def time_ticks(first_s: float, last_s: float, count: int = WIDE.ticks_x) -> list[float]:
    """Round times of day within the span, at most `count` of them unless it is centuries."""
    span = last_s - first_s
    step = next((each for each in _TIME_STEPS_S if span / each < count), _TIME_STEPS_S[-1])
    begin = math.ceil(first_s / step - 1e-9)
    end = math.floor(last_s / step + 1e-9)
    return [index * step for index in range(begin, end + 1)] or [first_s]


def time_text(time_s: float, span_s: float) -> str:
    """A time in UTC, in the resolution that the span needs."""
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
    values = [[value for value in each.values if value is not None] for each in shown]
    low, high = axis_ends(values)
    # A rate is compared with zero, and so is every value that cannot be negative.
    ticks = linear_ticks(min(0.0, low), high, TICKS_Y, unit)
    lines = _Lines(title, unit, times_s, step_s, shown, ticks)
    beyond = [each for group in values for each in group if not ticks[0] <= each <= ticks[-1]]
    names = [each.name for each in shown] if len(shown) > 1 else []
    legend = _legend([*_line_items(names), *_beyond_items(beyond, unit)])
    return _figure(title, unit, legend, "".join(map(lines.picture, FRAMES)))


@dataclass(frozen=True)
class _Lines:
    """The contents of a line plot, in every frame."""

    title: str
    unit: Unit
    times_s: Sequence[float]
    step_s: float
    series: Sequence[Series]
    ticks: Sequence[float]

    def picture(self, frame: Frame) -> str:
        """The plot in a frame."""
        low, high = self.ticks[0], self.ticks[-1]
        labels = [value_text(tick, self.unit) for tick in self.ticks]
        left = CHARACTER_PX * max(map(len, labels)) + 12
        right = frame.width_px - MARGIN_RIGHT_PX
        top, bottom = MARGIN_TOP_PX, frame.lines_height_px - MARGIN_BOTTOM_PX
        first, last = self.times_s[0], self.times_s[-1] + self.step_s

        def x(time_s: float) -> float:
            return left + (time_s - first) / (last - first) * (right - left)

        def y(value: float) -> float:
            return bottom - (value - low) / (high - low) * (bottom - top)

        parts = [
            _horizontal(left, right, y(tick), label, tick == max(low, 0.0))
            for tick, label in zip(self.ticks, labels, strict=True)
        ]
        parts += [
            _vertical_label(x(tick), bottom, time_text(tick, last - first), frame)
            for tick in time_ticks(first, last, frame.ticks_x)
        ]
        for index, each in enumerate(self.series):
            # The value of a window is drawn in its middle.
            points = [
                None if value is None else (x(time + self.step_s / 2), y(value))
                for time, value in zip(self.times_s, each.values, strict=True)
            ]
            inside = [
                None if point is None else (point[0], min(max(point[1], top), bottom))
                for point in points
            ]
            parts.append(_line(inside, index))
            parts += [
                _beyond_mark(point[0], top if point[1] < top else bottom, index)
                for point in points
                # Half a pixel is less than the rounding of a value at the edge.
                if point is not None and not top - 0.5 <= point[1] <= bottom + 0.5
            ]
        if frame.has_tooltips:
            parts += [
                _hit(x(time), x(time + self.step_s), top, bottom, self._window_text(position))
                for position, time in enumerate(self.times_s)
            ]
        return _svg(self.title, frame, frame.lines_height_px, parts)

    def _window_text(self, position: int) -> str:
        begin = datetime.fromtimestamp(self.times_s[position], UTC)
        text = begin.isoformat(" ", "milliseconds")
        lines = [text.replace("+00:00", " UTC").replace(".000", "")]
        for each in self.series:
            value = each.values[position]
            if value is not None:
                lines.append(f"{each.name}: {value_text(value, self.unit)}")
        return "\n".join(lines)


def _beyond_mark(x: float, edge: float, index: int) -> str:
    """A triangle at the upper or the lower edge that points out of the picture."""
    base = edge + (2 * MARK_PX if edge <= MARGIN_TOP_PX else -2 * MARK_PX)
    return (
        f'<path class="beyond f{_colour(index)}" d="M{x - MARK_PX:.1f} {base:.1f}'
        f'L{x:.1f} {edge:.1f}L{x + MARK_PX:.1f} {base:.1f}"/>'
    )


def _line(points: Sequence[tuple[float, float] | None], index: int) -> str:
    """A path with gaps for missing values; a line of one point is a dot."""
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


# --- percentiles side by side -------------------------------------------------------------------


def percentile_plot(title: str, unit: Unit, rows: Sequence[Percentiles]) -> str:
    """A row per group: a dot at the median, a band to p90, a thin line over p99 to the maximum.

    The axis is logarithmic if the values are far apart and none is negative. It reaches every p99,
    and every maximum that is not so far beyond them that it would spoil even this axis.
    """
    if not rows:
        return _empty(title, unit)
    end = _end(max(row.p99 for row in rows), [row.max for row in rows], LOG_RATIO_MIN)
    values = [min(each, end) for row in rows for each in (row.p50, row.p90, row.p99, row.max)]
    axis = _value_axis(values, unit)
    beyond = [row.max for row in rows if row.max > axis.ticks[-1]]
    legend = _legend([*_PERCENTILE_ITEMS, *_beyond_items(beyond, unit)])
    pictures = (_percentile_picture(title, unit, rows, axis, frame) for frame in FRAMES)
    return _figure(title, unit, legend, "".join(pictures))


def _percentile_picture(
    title: str, unit: Unit, rows: Sequence[Percentiles], axis: "_Axis", frame: Frame
) -> str:
    left = frame.label_width_px or NARROW_LEFT_PX
    right = frame.width_px - MARGIN_RIGHT_PX - (30 if frame.label_width_px else 0)
    height = MARGIN_TOP_PX + frame.row_height_px * len(rows) + MARGIN_BOTTOM_PX
    bottom = height - MARGIN_BOTTOM_PX

    def x(value: float) -> float:
        return left + axis.share(value) * (right - left)

    parts = [
        _vertical(x(tick), MARGIN_TOP_PX, bottom, value_text(tick, unit), frame)
        for tick in axis.labels(frame.ticks_x)
    ]
    for position, row in enumerate(rows):
        top = MARGIN_TOP_PX + frame.row_height_px * position
        # A name beside the row leaves it all the height; a name above it, the lower part.
        y = top + frame.row_height_px * (0.5 if frame.label_width_px else 0.7)
        parts.append(_percentile_label(row.name, top, y, frame))
        parts.append(_percentile_row(row, y, x))
        if row.max > axis.ticks[-1]:
            parts.append(
                f'<path class="beyond f0" d="M{right:.1f} {y - MARK_PX:.1f}'
                f'L{right + 2 * MARK_PX:.1f} {y:.1f}L{right:.1f} {y + MARK_PX:.1f}"/>'
            )
        if frame.has_tooltips:
            text = _percentile_text(row, unit)
            parts.append(_hit(0, frame.width_px, top, top + frame.row_height_px, text))
    return _svg(title, frame, height, parts)


@dataclass(frozen=True)
class _Axis:
    """The position of a value on an axis, from 0 to 1.

    A log axis never reaches zero; zeros have a place apart, before it.
    """

    ticks: tuple[float, ...]
    is_log: bool
    has_zeros: bool = False

    def share(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        if not self.is_log:
            return min((value - low) / (high - low), 1.0)
        if value <= 0:
            return 0.0
        begin = ZEROS_SHARE if self.has_zeros else 0.0
        return begin + (1 - begin) * (
            math.log10(min(max(value, low), high) / low) / math.log10(high / low)
        )

    def labels(self, count_max: int) -> list[float]:
        """The ticks that are drawn: of many every other, or fewer."""
        every = -(-(len(self.ticks) - 1) // count_max)
        drawn = list(self.ticks[::every])
        return [0.0, *drawn] if self.has_zeros else drawn


def _value_axis(values: Sequence[float], unit: Unit) -> _Axis:
    positive = [value for value in values if value > 0]
    if positive and min(values) >= 0 and max(positive) / min(positive) >= LOG_RATIO_MIN:
        ticks = log_ticks(min(positive), max(positive), unit)
        return _Axis(tuple(ticks), True, len(positive) < len(values))
    return _Axis(tuple(linear_ticks(min(0.0, *values), max(values), TICKS_Y, unit)), False)


def _percentile_text(row: Percentiles, unit: Unit) -> str:
    values = (("p50", row.p50), ("p90", row.p90), ("p99", row.p99), ("max", row.max))
    return row.name + "".join(f"\n{name} {value_text(value, unit)}" for name, value in values)


def _percentile_label(name: str, top: float, y: float, frame: Frame) -> str:
    if frame.label_width_px:
        x, baseline, anchor = frame.label_width_px - 10, y + 4, "end"
        label = _shortened(name, LABEL_CHARACTERS_MAX)
    else:
        x, baseline, anchor = NARROW_LEFT_PX, top + 14, "start"
        label = _shortened(name, NARROW_CHARACTERS_MAX)
    return (
        f'<text class="label" x="{x}" y="{baseline:.1f}" text-anchor="{anchor}">'
        f"{escape(label)}</text>"
    )


def _percentile_row(row: Percentiles, y: float, x: Callable[[float], float]) -> str:
    p50, p90, p99, most = x(row.p50), x(row.p90), x(row.p99), x(row.max)
    return (
        f'<line class="span c0" x1="{p50:.1f}" x2="{most:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<line class="middle c0" x1="{p50:.1f}" x2="{p90:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<line class="c0" stroke-width="2" x1="{p99:.1f}" x2="{p99:.1f}" y1="{y - 6:.1f}" '
        f'y2="{y + 6:.1f}"/>'
        f'<circle class="dot f0" cx="{p50:.1f}" cy="{y:.1f}" r="5"/>'
    )


def _key(drawing: str, text: str) -> str:
    """An entry of a legend; the text is markup already."""
    return f'<li><svg viewBox="0 0 14 10" aria-hidden="true">{drawing}</svg>{text}</li>'


_PERCENTILE_ITEMS: Final = (
    _key('<circle class="dot f0" cx="7" cy="5" r="4.5"/>', "median"),
    _key('<line class="middle c0" x1="0" x2="14" y1="5" y2="5"/>', "to p90"),
    _key('<line class="c0" stroke-width="2" x1="7" x2="7" y1="0" y2="10"/>', "p99"),
    _key('<line class="span c0" x1="1" x2="13" y1="5" y2="5"/>', "to the maximum"),
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
    return _figure(title, unit, "", "<p>There is nothing to show</p>")


def _svg(title: str, frame: Frame, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg class="{frame.name}" viewBox="0 0 {frame.width_px} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _line_items(names: Sequence[str]) -> Iterable[str]:
    for index, name in enumerate(names):
        stroke = f'<line class="c{_colour(index)}" stroke-width="3" x1="0" x2="14" y1="5" y2="5"/>'
        yield _key(stroke, escape(name))


def _beyond_items(beyond: Sequence[float], unit: Unit) -> Iterable[str]:
    """The legend of the triangles, if there are any."""
    if beyond:
        furthest = value_text(max(beyond, key=abs), unit)
        triangle = '<path class="beyond fx" d="M2 10L7 1L12 10"/>'
        yield _key(triangle, f"beyond the axis, as far as {furthest}")


def _legend(items: Sequence[str]) -> str:
    return f'<ul class="legend">{"".join(items)}</ul>' if items else ""


def _horizontal(left: float, right: float, y: float, text: str, is_axis: bool) -> str:
    return (
        f'<line class="{"axis" if is_axis else "grid"}" x1="{left}" x2="{right}" y1="{y:.1f}" '
        f'y2="{y:.1f}"/><text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    )


def _vertical(x: float, top: float, bottom: float, text: str, frame: Frame) -> str:
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom:.1f}"/>'
        + _vertical_label(x, bottom, text, frame)
    )


def _vertical_label(x: float, bottom: float, text: str, frame: Frame) -> str:
    # A label at either end would be cut off by the edge of the picture.
    half = CHARACTER_PX * len(text) / 2
    is_left, is_right = x < half, x > frame.width_px - half
    anchor = "end" if is_right else "start" if is_left else "middle"
    return (
        f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{bottom + 4:.1f}"/>'
        f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _hit(left: float, right: float, top: float, bottom: float, text: str) -> str:
    """An invisible area that shows `text` when pointed at."""
    return (
        f'<rect class="hit" x="{left:.1f}" y="{top:.1f}" width="{right - left:.2f}" '
        f'height="{bottom - top:.1f}"><title>{escape(text)}</title></rect>'
    )


def _shortened(text: str, length_max: int) -> str:
    """The text with its middle left out: both ends of a subject identify it."""
    if len(text) <= length_max:
        return text
    head = (length_max - 1) // 2
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[head + 1 - length_max :]}"
