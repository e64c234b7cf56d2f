"""Plots: markup that parses, whatever the data, with axes that people can read."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.spark.jobs.stats.plots import (
    CLIP_RATIO,
    CLIP_VALUES_MIN,
    COLOURS,
    FRAMES,
    LABEL_CHARACTERS_MAX,
    LABEL_WIDTH_PX,
    NARROW,
    STYLE,
    WIDE,
    Frame,
    Percentiles,
    Series,
    Unit,
    axis_ends,
    line_plot,
    linear_ticks,
    log_ticks,
    percentile_plot,
    time_text,
    time_ticks,
    value_text,
)

NASTY = "<script>alert('&\"')</script>"
NOON_S = 1_794_744_000.0


def parsed(markup: str) -> ElementTree.Element:
    """The figure as a tree: raises where the markup is broken or an escape is missing."""
    return ElementTree.fromstring(markup)


def picture(markup: str, frame: Frame = WIDE) -> ElementTree.Element:
    """The one picture of a figure that a page of that width shows."""
    (found,) = [each for each in parsed(markup).iter("svg") if each.get("class") == frame.name]
    return found


def texts(markup: str, frame: Frame = WIDE) -> list[str]:
    return [each.text or "" for each in picture(markup, frame).iter("text")]


def marks(markup: str, frame: Frame = WIDE) -> list[str]:
    """The triangles for values beyond the axis."""
    paths = picture(markup, frame).iter("path")
    return [each.attrib["d"] for each in paths if "beyond" in each.attrib["class"]]


def legend(markup: str) -> list[str]:
    return ["".join(each.itertext()) for each in parsed(markup).iter("li")]


def lines(*values: float | None, unit: Unit = Unit.COUNT_RATE, name: str = "a") -> str:
    times = [NOON_S + 60 * index for index in range(len(values))]
    return line_plot("Rate", unit, times, 60.0, [Series(name, values)])


def numbers_in(markup: str) -> list[float]:
    """Every coordinate there is."""
    found = re.findall(r'(?:x|y|x1|x2|y1|y2|cx|cy|width|height)="(-?[\d.a-z]+)"', markup)
    paths = re.findall(r' d="([^"]*)"', markup)
    found += [each for path in paths for each in re.split("[ML ]", path) if each]
    return [float(each) for each in found]


class TestValues:
    @pytest.mark.parametrize(
        ("value", "unit", "text"),
        [
            (0, Unit.COUNT, "0"),
            (1234, Unit.COUNT, "1,234"),
            (12.5, Unit.COUNT_RATE, "12.5/s"),
            (0.25, Unit.COUNT_RATE, "0.25/s"),
            (45_600, Unit.BYTES_RATE, "44.5 KiB/s"),
            (1 << 20, Unit.BYTES, "1.0 MiB"),
            (-1536, Unit.BYTES, "-1.5 KiB"),
            (0, Unit.SECONDS, "0s"),
            (0.00789, Unit.SECONDS, "7.89ms"),
            (0.000_002, Unit.SECONDS, "2us"),
            (60, Unit.SECONDS, "1m"),
            (172_800, Unit.SECONDS, "2d"),
            (-0.5, Unit.SECONDS, "-500ms"),
            (math.nan, Unit.SECONDS, "—"),
            (math.inf, Unit.COUNT, "—"),
        ],
    )
    def test_a_value_is_written_as_the_command_line_writes_it(
        self, value: float, unit: Unit, text: str
    ) -> None:
        assert value_text(value, unit) == text


class TestScales:
    @pytest.mark.parametrize(
        ("low", "high", "ticks"),
        [
            (0, 10, [0, 2, 4, 6, 8, 10]),
            (0, 0.93, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (-3, 7, [-4, -2, 0, 2, 4, 6, 8]),
        ],
    )
    def test_linear_ticks_are_round(self, low: float, high: float, ticks: list[float]) -> None:
        assert linear_ticks(low, high, 5) == pytest.approx(ticks)

    @pytest.mark.parametrize(
        ("high", "unit", "labels"),
        [
            (900, Unit.BYTES, ["0 B", "200 B", "400 B", "600 B", "800 B", "1000 B"]),
            (900 << 10, Unit.BYTES, ["0 B", "256.0 KiB", "512.0 KiB", "768.0 KiB", "1.0 MiB"]),
            (5 << 18, Unit.BYTES_RATE, ["0 B/s", "512.0 KiB/s", "1.0 MiB/s", "1.5 MiB/s"]),
            (0.9, Unit.SECONDS, ["0s", "200ms", "400ms", "600ms", "800ms", "1s"]),
            (200, Unit.SECONDS, ["0s", "1m", "2m", "3m", "4m"]),
            (40_000, Unit.SECONDS, ["0s", "3h", "6h", "9h", "12h"]),
        ],
    )
    def test_linear_ticks_are_round_in_the_unit_that_is_shown(
        self, high: float, unit: Unit, labels: list[str]
    ) -> None:
        assert [value_text(tick, unit) for tick in linear_ticks(0, high, 5, unit)] == labels

    @given(
        low=st.floats(-1e12, 1e12),
        span=st.floats(0, 1e12),
        count=st.integers(2, 10),
        unit=st.sampled_from(Unit),
    )
    def test_linear_ticks_enclose_the_values(
        self, low: float, span: float, count: int, unit: Unit
    ) -> None:
        ticks = linear_ticks(low, low + span, count, unit)
        slack = 1e-6 * max(abs(low), span, 1e-290)
        assert ticks[0] <= low + slack
        assert ticks[-1] >= low + span - slack
        assert 2 <= len(ticks) <= 2 * count + 2
        assert ticks == sorted(set(ticks))

    def test_log_ticks(self) -> None:
        assert log_ticks(3, 4000) == pytest.approx([1, 10, 100, 1000, 10_000])
        assert log_ticks(1, 1) == pytest.approx([1, 10])
        assert log_ticks(0.002, 0.5, Unit.SECONDS) == pytest.approx([0.001, 0.01, 0.1, 1])
        assert log_ticks(0.5, 1000, Unit.SECONDS) == pytest.approx([0.1, 1, 10, 60, 600, 3600])
        sizes = log_ticks(20, 3_000_000, Unit.BYTES)
        assert [value_text(each, Unit.BYTES) for each in sizes] == [
            *("10 B", "100 B", "1.0 KiB", "10.0 KiB", "100.0 KiB", "1.0 MiB", "10.0 MiB")
        ]
        assert log_ticks(100, 100_000, Unit.SECONDS)[0] == 60
        assert log_ticks(100, 100_000, Unit.SECONDS)[-1] >= 100_000

    @given(low=st.floats(1e-9, 1e9), ratio=st.floats(1, 1e3), unit=st.sampled_from(Unit))
    def test_log_ticks_enclose_the_values(self, low: float, ratio: float, unit: Unit) -> None:
        ticks = log_ticks(low, low * ratio, unit)
        assert ticks[0] <= low * 1.000001
        assert ticks[-1] >= low * ratio * 0.999999
        assert ticks == sorted(set(ticks))
        assert len(ticks) >= 2

    @given(first=st.floats(0, 4e9), span=st.floats(0.01, 3e8))
    @example(first=31_449_600.02, span=2e8)
    def test_time_ticks_lie_within(self, first: float, span: float) -> None:
        ticks = time_ticks(first, first + span)
        assert 1 <= len(ticks) <= 12
        # Seen from the whole axis; a double in seconds is good for about a microsecond anyway.
        slack = 1e-8 * span + 1e-5
        assert all(first - slack <= each <= first + span + slack for each in ticks)

    @pytest.mark.parametrize(
        ("span_s", "text"),
        [
            (1, "12:00:00.000"),
            (60, "12:00:00"),
            (3_600, "12:00"),
            (86_400, "11-15 12:00"),
            (30 * 86_400, "2026-11-15"),
        ],
    )
    def test_times_as_fine_as_needed(self, span_s: float, text: str) -> None:
        assert time_text(NOON_S, span_s) == text


class TestOutliers:
    ORDINARY = (*(90.0, 100.0, 110.0) * 4, 120.0)

    def test_an_axis_reaches_everything_that_is_not_far_beyond_the_percentile(self) -> None:
        assert axis_ends([[*self.ORDINARY, 120.0 * CLIP_RATIO]]) == (90.0, 120.0 * CLIP_RATIO)
        assert axis_ends([[*self.ORDINARY, 120.1 * CLIP_RATIO]]) == (90.0, 120.0)

    def test_a_group_that_is_larger_than_the_others_is_no_outlier(self) -> None:
        assert axis_ends([[1.0] * 100, [1000.0] * 5]) == (1.0, 1000.0)

    @pytest.mark.parametrize(
        ("values", "high"),
        [
            ([1.0] * (CLIP_VALUES_MIN - 2) + [1000.0], 1000.0),
            ([1.0] * (CLIP_VALUES_MIN - 1) + [1000.0], 1.0),
        ],
    )
    def test_of_few_values_none_is_an_outlier(self, values: list[float], high: float) -> None:
        assert axis_ends([values])[1] == high

    def test_values_among_zeros_are_no_outliers(self) -> None:
        assert axis_ends([[0.0] * 100 + [7.0]]) == (0.0, 7.0)

    @pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.name)
    def test_a_value_beyond_the_axis_is_marked_and_told(self, frame: Frame) -> None:
        markup = lines(*self.ORDINARY, 5000.0)
        assert len(marks(markup, frame)) == 1
        assert "125/s" in texts(markup, frame)
        assert "150/s" not in texts(markup, frame)
        assert legend(markup) == ["beyond the axis, as far as 5,000/s"]
        assert marks(lines(*self.ORDINARY), frame) == []
        assert legend(lines(*self.ORDINARY)) == []

    def test_a_value_far_below_zero_is_marked_at_the_lower_edge(self) -> None:
        markup = lines(*(-each for each in self.ORDINARY), -5000.0, unit=Unit.SECONDS)
        (mark,) = marks(markup)
        ys = [float(each.split(" ")[1]) for each in re.split("[ML]", mark) if each]
        assert max(ys) > WIDE.lines_height_px / 2
        assert legend(markup) == ["beyond the axis, as far as -1.39h"]

    def test_an_axis_reaches_the_p99_of_a_row_whose_maximum_it_leaves_out(self) -> None:
        rows = [Percentiles("a", 50, 80, 100, 5_000), Percentiles("b", 7, 8, 9, 10)]
        markup = percentile_plot("t", Unit.COUNT, rows)
        assert "100" in texts(markup)
        assert len(marks(markup)) == 1

    def test_a_maximum_far_beyond_every_p99_is_marked_at_the_end_of_its_row(self) -> None:
        rows = [Percentiles("a", 1, 2, 3, 60), Percentiles("b", 1, 2, 3, 61)]
        markup = percentile_plot("t", Unit.SECONDS, rows)
        assert len(marks(markup)) == len(marks(markup, NARROW)) == 1
        assert legend(markup)[-1] == "beyond the axis, as far as 1.02m"
        assert marks(percentile_plot("t", Unit.SECONDS, rows[:1])) == []


class TestLines:
    def test_axes_have_units_and_times(self) -> None:
        shown = texts(lines(1500.0, 0.0, 3000.0))
        assert "3,000/s" in shown
        assert "0/s" in shown
        assert "12:00:00" in shown
        assert parsed(lines(1.0)).findtext("figcaption/span") == "messages/s"

    def test_the_axis_begins_at_zero_unless_values_are_below(self) -> None:
        assert "0/s" in texts(lines(900.0, 1000.0))
        assert "-20ms" in texts(lines(-0.02, 0.01, unit=Unit.SECONDS))

    def test_missing_values_are_holes_and_lone_ones_dots(self) -> None:
        figure = picture(lines(1.0, 2.0, None, 3.0, None, 4.0, 5.0))
        (path,) = figure.iter("path")
        assert path.attrib["d"].count("M") == 2
        assert len(list(figure.iter("circle"))) == 1

    @pytest.mark.parametrize("values", [(), (None,), (None, None)])
    def test_no_data(self, values: tuple[None, ...]) -> None:
        figure = parsed(lines(*values))
        assert figure.findtext("p") == "There is nothing to show"
        assert list(figure.iter("svg")) == []

    @pytest.mark.parametrize("values", [(7.0,), (0.0,), (0.0, 0.0), (5.0, 5.0), (1e-12, 1e12)])
    def test_one_point_and_no_range(self, values: tuple[float, ...]) -> None:
        assert all(map(math.isfinite, numbers_in(lines(*values))))

    def test_names_are_escaped_wherever_they_stand(self) -> None:
        times = [NOON_S, NOON_S + 1]
        named = [Series(NASTY, [1, 2]), Series("b", [3, 4])]
        markup = line_plot(NASTY, Unit.COUNT, times, 1.0, named)
        assert "<script" not in markup
        figure = parsed(markup)
        assert next(figure.iter("svg")).attrib.get("aria-label") in (NASTY, None)
        assert any(NASTY in "".join(each.itertext()) for each in figure.iter("li"))
        assert any(NASTY in (each.text or "") for each in figure.iter("title"))

    def test_a_legend_for_two_and_none_for_one(self) -> None:
        assert "<ul" not in lines(1.0, 2.0)
        two = [Series("a", [1.0]), Series("b", [2.0])]
        assert "<ul" in line_plot("t", Unit.COUNT, [NOON_S], 1.0, two)

    def test_a_window_tells_its_values(self) -> None:
        title = next(parsed(lines(1500.0)).iter("title"))
        assert title.text == "2026-11-15 12:00:00 UTC\na: 1,500/s"

    def test_more_lines_than_colours_are_drawn_grey(self) -> None:
        many = [Series(str(index), [1.0, 2.0]) for index in range(COLOURS + 1)]
        markup = line_plot("t", Unit.COUNT, [NOON_S, NOON_S + 1], 1.0, many)
        for index in range(COLOURS):
            assert f'class="line c{index}"' in markup
            assert f".c{index} {{" in STYLE
        assert 'class="line cx"' in markup

    @given(
        values=st.lists(
            st.none()
            | st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9),
            min_size=1,
            max_size=20,
        )
    )
    def test_everything_stays_in_the_picture(self, values: list[float | None]) -> None:
        markup = lines(*values)
        if all(value is None for value in values):
            return
        for frame in FRAMES:
            for path in picture(markup, frame).iter("path"):
                points = [each.split(" ") for each in re.split("[ML]", path.attrib["d"]) if each]
                for x, y in points:
                    assert 0 <= float(x) <= frame.width_px
                    assert 0 <= float(y) <= frame.lines_height_px

    @pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.name)
    def test_labels_do_not_leave_the_picture(self, frame: Frame) -> None:
        figure = picture(lines(1_234_567.0, 89.0), frame)
        for text in figure.iter("text"):
            x, width = float(text.attrib["x"]), 7 * len(text.text or "")
            before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib["text-anchor"]]
            assert x - before * width >= 0
            assert x + (1 - before) * width <= frame.width_px

    def test_a_telephone_gets_a_picture_of_its_own_width_without_tooltips(self) -> None:
        markup = lines(1.0, 2.0)
        assert "max-width: 40rem" in STYLE
        assert picture(markup, NARROW).attrib["viewBox"].split()[2] == str(NARROW.width_px)
        assert len(list(picture(markup).iter("title"))) == 2
        assert list(picture(markup, NARROW).iter("title")) == []


class TestPercentiles:
    def test_a_row_per_group_with_its_values(self) -> None:
        markup = percentile_plot("Size", Unit.BYTES, [Percentiles("a.b", 10, 20, 30, 40)])
        assert "a.b" in texts(markup)
        assert (
            next(parsed(markup).iter("title")).text == "a.b\np50 10 B\np90 20 B\np99 30 B\nmax 40 B"
        )

    def test_far_apart_values_get_a_log_axis(self) -> None:
        shown = texts(percentile_plot("t", Unit.SECONDS, [Percentiles("a", 0.001, 0.01, 0.1, 1)]))
        assert shown[:4] == ["1ms", "10ms", "100ms", "1s"]

    def test_zeros_stand_apart_from_a_log_axis(self) -> None:
        rows = [Percentiles("none", 0, 0, 0, 0), Percentiles("some", 10, 20, 500, 900)]
        markup = percentile_plot("t", Unit.BYTES, rows)
        assert texts(markup)[:4] == ["0 B", "10 B", "100 B", "1.0 KiB"]
        dots = [each for each in picture(markup).iter("circle") if each.attrib["r"] == "5"]
        zero, ten = (float(each.attrib["cx"]) for each in dots)
        assert zero == LABEL_WIDTH_PX
        assert ten > zero + 20

    def test_near_values_get_a_linear_axis_from_zero(self) -> None:
        shown = texts(percentile_plot("t", Unit.BYTES, [Percentiles("a", 100, 110, 120, 200)]))
        assert shown[:5] == ["0 B", "50 B", "100 B", "150 B", "200 B"]

    def test_no_rows(self) -> None:
        figure = parsed(percentile_plot("t", Unit.BYTES, []))
        assert figure.findtext("p") == "There is nothing to show"

    @pytest.mark.parametrize(
        "row",
        [
            Percentiles("zero", 0, 0, 0, 0),
            Percentiles("equal", 5, 5, 5, 5),
            Percentiles("from zero", 0, 0, 1, 1_000_000),
            Percentiles("below zero", -5, -1, 0, 1_000),
        ],
    )
    def test_no_range_zero_and_less(self, row: Percentiles) -> None:
        markup = percentile_plot("t", Unit.SECONDS, [row])
        assert all(map(math.isfinite, numbers_in(markup)))
        for frame in FRAMES:
            inside = ElementTree.tostring(picture(markup, frame), encoding="unicode")
            drawn = [float(each) for each in re.findall(r'(?:cx|x1|x2)="([\d.-]+)"', inside)]
            assert all(frame.label_width_px <= each <= frame.width_px for each in drawn)

    def test_long_names_lose_their_middle_and_are_escaped(self) -> None:
        name = "telemetry." + "x" * 60 + ".<temperature>"
        markup = percentile_plot("t", Unit.BYTES, [Percentiles(name, 1, 2, 3, 4)])
        (label,) = [each for each in texts(markup) if "telemetry" in each]
        assert len(label) == LABEL_CHARACTERS_MAX
        assert label.endswith("<temperature>")
        assert next(parsed(markup).iter("title")).text.startswith(name)  # type: ignore[union-attr]
