"""From figures to verdicts: ratios, spreads, aims, a table and a sentence for each. Pure.

A ratio is always ours divided by theirs, taken per round: the two halves of a round ran within
seconds of each other, so that other load on the machine mostly cancels out. The report has the
median of those ratios, and the lowest and highest as the spread.
"""

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

# Closer than this is neither ahead nor behind, given the differences between rounds.
LEVEL_WITHIN: Final = 0.05


@dataclass(frozen=True)
class Aim:
    """A promise: a bound on the ratio, or on our own figure."""

    text: str
    ratio_min: float | None = None
    ratio_max: float | None = None
    ours_max: float | None = None
    ours_min: float | None = None

    def is_met(self, row: "Row") -> bool:
        """Whether the medians keep the promise."""
        return (
            (self.ratio_min is None or row.ratio >= self.ratio_min)
            and (self.ratio_max is None or row.ratio <= self.ratio_max)
            and (self.ours_max is None or median(row.ours) <= self.ours_max)
            and (self.ours_min is None or median(row.ours) >= self.ours_min)
        )


@dataclass(frozen=True)
class Row:
    """One figure, measured in as many rounds as there are values."""

    name: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]
    higher_is_better: bool
    aim: Aim | None = None
    notes: Sequence[str] = field(default_factory=tuple)
    is_difference: bool = False
    """Whether figures are around zero, so that their ratio would mean nothing."""

    @property
    def is_comparable(self) -> bool:
        """Whether there is a ratio. nats-server has no figure of some rows."""
        return bool(self.theirs) and not self.is_difference

    @property
    def ratios(self) -> list[float]:
        """Ours divided by theirs, round by round; empty if that has no meaning."""
        if not self.is_comparable:
            return []
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return median(self.ratios)

    @property
    def standing(self) -> str:
        """`ahead`, `behind` or `level`."""
        if abs(self.ratio - 1) <= LEVEL_WITHIN:
            return "level"
        return "ahead" if (self.ratio > 1) == self.higher_is_better else "behind"


def figure(value: float) -> str:
    """Three significant digits: `1.23 M`, `456 k`, `78.9`, `0.123`."""
    size = abs(value)
    if size >= 999_500:
        return f"{significant(value / 1e6)} M"
    if size >= 10_000:
        return f"{significant(value / 1e3)} k"
    return significant(value)


def significant(value: float) -> str:
    """Three significant digits, never in scientific notation."""
    size = abs(value)
    # From each of these values on, rounding adds a digit in front.
    decimals = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{value:,.{decimals}f}"


def table(rows: Sequence[Row], ours: str = "headwater") -> str:
    """The figures as a table."""
    header = ("", ours, "nats-server", "unit", "ratio", "spread", "aim", "")
    cells = [header] + [
        (
            row.name,
            figure(median(row.ours)),
            figure(median(row.theirs)) if row.theirs else "",
            row.unit,
            f"{row.ratio:.2f}" if row.is_comparable else "",
            f"{min(row.ratios):.2f} - {max(row.ratios):.2f}" if row.is_comparable else "",
            row.aim.text if row.aim else "",
            verdict(row),
        )
        for row in rows
    ]
    return columns(cells, right_aligned={1, 2, 4, 5})


def columns(lines: Sequence[Sequence[str]], right_aligned: Container[int]) -> str:
    """Lines of cells, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column in right_aligned else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def verdict(row: Row) -> str:
    """`met`, `missed`, or empty without an aim."""
    if row.aim is None:
        return ""
    return "met" if row.aim.is_met(row) else "MISSED"


def sentence(row: Row, ours: str = "headwater") -> str:
    """One figure in words."""
    theirs = f" against {figure(median(row.theirs))}" if row.theirs else ""
    figures = f"{figure(median(row.ours))}{theirs} {row.unit}"
    if not row.is_comparable:
        text = f"{row.name}: {figures}"
    elif row.standing == "level":
        text = f"{row.name}: {ours} and nats-server are level ({figures})"
    else:
        text = f"{row.name}: {ours} is {row.standing}, {row.ratio:.2f} of nats-server ({figures})"
    if row.aim is not None:
        text += f"; the aim, {row.aim.text}, is {verdict(row).lower()}"
    return text + "."


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """All values for programs: the raw ones beside those computed from them."""
    return [
        asdict(row)
        | {
            "ratio": row.ratio if row.is_comparable else None,
            "ratios": row.ratios,
            "standing": row.standing if row.is_comparable else None,
            "aim_met": row.aim.is_met(row) if row.aim else None,
        }
        for row in rows
    ]
