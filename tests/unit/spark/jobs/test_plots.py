"""Plots: markup that parses, whatever the data, with axes that people can read."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.spark.jobs.plots import (
    COLOURS,
    LABEL_CHARACTERS_MAX,
    LABEL_WIDTH_PX,
    LINES_HEIGHT_PX,
    MARGIN_LEFT_PX,
    STYLE,
    WIDTH_PX,
    Percentiles,
    Series,
    Unit,
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


def texts(markup: str) -> list[str]:
    return [each.text or "" for each in parsed(markup).iter("text")]


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
            (1234, Unit.COUNT, "1.23 k"),
            (999.96, Unit.COUNT, "1 k"),
            (12.5, Unit.COUNT_RATE, "12.5 /s"),
            (0.25, Unit.COUNT_RATE, "0.25 /s"),
            (45_600, Unit.BYTES_RATE, "45.6 kB/s"),
            (1_000_000, Unit.BYTES, "1 MB"),
            (3.4e13, Unit.BYTES, "34 TB"),
            (-1500, Unit.BYTES, "-1.5 kB"),
            (0, Unit.SECONDS, "0 s"),
            (0.00789, Unit.SECONDS, "7.89 ms"),
            (0.000_002, Unit.SECONDS, "2 µs"),
            (59.9, Unit.SECONDS, "59.9 s"),
            (60, Unit.SECONDS, "1 min"),
            (5400, Unit.SECONDS, "1.5 h"),
            (172_800, Unit.SECONDS, "2 d"),
            (-0.5, Unit.SECONDS, "-500 ms"),
            (math.nan, Unit.SECONDS, "—"),
            (math.inf, Unit.COUNT, "—"),
        ],
    )
    def test_three_digits_and_a_unit(self, value: float, unit: Unit, text: str) -> None:
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

    @given(low=st.floats(-1e12, 1e12), span=st.floats(0, 1e12), count=st.integers(2, 10))
    def test_linear_ticks_enclose_the_values(self, low: float, span: float, count: int) -> None:
        ticks = linear_ticks(low, low + span, count)
        slack = 1e-6 * max(abs(low), span, 1e-300)
        assert ticks[0] <= low + slack
        assert ticks[-1] >= low + span - slack
        assert 2 <= len(ticks) <= 2 * count + 2
        assert ticks == sorted(set(ticks))

    def test_log_ticks(self) -> None:
        assert log_ticks(3, 4000) == pytest.approx([1, 10, 100, 1000, 10_000])
        assert log_ticks(1, 1) == pytest.approx([1, 10])
        assert log_ticks(0.002, 0.5, Unit.SECONDS) == pytest.approx([0.001, 0.01, 0.1, 1])
        assert log_ticks(0.5, 1000, Unit.SECONDS) == pytest.approx([0.1, 1, 10, 60, 600, 3600])
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


class TestLines:
    def test_axes_have_units_and_times(self) -> None:
        shown = texts(lines(1500.0, 0.0, 3000.0))
        assert "3 k/s" in shown
        assert "0 /s" in shown
        assert "12:00:00" in shown
        assert parsed(lines(1.0)).findtext("figcaption/span") == "messages/s"

    def test_the_axis_begins_at_zero_unless_values_are_below(self) -> None:
        assert "0 /s" in texts(lines(900.0, 1000.0))
        assert "-20 ms" in texts(lines(-0.02, 0.01, unit=Unit.SECONDS))

    def test_missing_values_are_holes_and_lone_ones_dots(self) -> None:
        figure = parsed(lines(1.0, 2.0, None, 3.0, None, 4.0, 5.0))
        (path,) = figure.iter("path")
        assert path.attrib["d"].count("M") == 2
        assert len(list(figure.iter("circle"))) == 1

    @pytest.mark.parametrize("values", [(), (None,), (None, None)])
    def test_no_data(self, values: tuple[None, ...]) -> None:
        assert texts(lines(*values)) == ["There is nothing to show"]

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
        assert title.text == "2026-11-15 12:00:00 UTC\na: 1.5 k/s"

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
        parsed(markup)
        for path in re.findall(r' d="([^"]*)"', markup):
            points = [each.split(" ") for each in re.split("[ML]", path) if each]
            for x, y in points:
                assert MARGIN_LEFT_PX <= float(x) <= WIDTH_PX
                assert 0 <= float(y) <= LINES_HEIGHT_PX


class TestPercentiles:
    def test_a_row_per_group_with_its_values(self) -> None:
        markup = percentile_plot("Size", Unit.BYTES, [Percentiles("a.b", 10, 20, 30, 40)])
        assert "a.b" in texts(markup)
        assert (
            next(parsed(markup).iter("title")).text == "a.b\np50 10 B\np90 20 B\np99 30 B\nmax 40 B"
        )

    def test_far_apart_values_get_a_log_axis(self) -> None:
        shown = texts(percentile_plot("t", Unit.SECONDS, [Percentiles("a", 0.001, 0.01, 0.1, 1)]))
        assert shown[:4] == ["1 ms", "10 ms", "100 ms", "1 s"]

    def test_zeros_stand_apart_from_a_log_axis(self) -> None:
        rows = [Percentiles("none", 0, 0, 0, 0), Percentiles("some", 10, 20, 50, 900)]
        markup = percentile_plot("t", Unit.BYTES, rows)
        assert texts(markup)[:4] == ["0 B", "10 B", "100 B", "1 kB"]
        zero, ten = (float(each) for each in re.findall(r'cx="([\d.]+)" cy="[\d.]+" r="5"', markup))
        assert zero == LABEL_WIDTH_PX
        assert ten > zero + 20

    def test_near_values_get_a_linear_axis_from_zero(self) -> None:
        shown = texts(percentile_plot("t", Unit.BYTES, [Percentiles("a", 100, 110, 120, 200)]))
        assert shown[:5] == ["0 B", "50 B", "100 B", "150 B", "200 B"]

    def test_no_rows(self) -> None:
        assert texts(percentile_plot("t", Unit.BYTES, [])) == ["There is nothing to show"]

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
        drawn = [float(each) for each in re.findall(r'(?:cx|x1|x2)="([\d.-]+)"', markup)]
        assert all(
            LABEL_WIDTH_PX <= each <= WIDTH_PX or each in (0, 1, 7, 13, 14) for each in drawn
        )

    def test_long_names_lose_their_middle_and_are_escaped(self) -> None:
        name = "telemetry." + "x" * 60 + ".<temperature>"
        markup = percentile_plot("t", Unit.BYTES, [Percentiles(name, 1, 2, 3, 4)])
        (label,) = [each for each in texts(markup) if "telemetry" in each]
        assert len(label) == LABEL_CHARACTERS_MAX
        assert label.endswith("<temperature>")
        assert next(parsed(markup).iter("title")).text.startswith(name)  # type: ignore[union-attr]
