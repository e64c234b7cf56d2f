"""Rows and columns of text: as wide as they need, or as wide as the terminal is.

A pipe gets everything in full. At a terminal one column, the one that can be read in part, is cut
until the row fits.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from headwater.cli.shell.output import Output
from headwater.cli.shell.render import NUMBER_STYLE, SUBJECT_STYLE, printable

GAP: Final = "  "
CUT_WIDTH_MIN: Final = 8


@dataclass(frozen=True)
class Column:
    """A column's title and its side; `can_shrink` lets a narrow terminal cut it."""

    title: str
    is_text: bool = False
    can_shrink: bool = False


@dataclass
class Columns:
    """Rows under a header; `totals` is a last row that is set off."""

    columns: Sequence[Column]
    rows: list[Sequence[str]] = field(default_factory=list)
    totals: Sequence[str] | None = None

    def add(self, *cells: str) -> None:
        """Add a row; control characters are escaped."""
        self.rows.append([one_line(cell) for cell in cells])

    def text(self, width: int | None) -> Text:
        """All of it, at most `width` wide where a width is given and cutting can do it."""
        titles = [column.title for column in self.columns]
        lines = [titles, *self.rows, *([self.totals] if self.totals else [])]
        widths = [max(cell_len(line[place]) for line in lines) for place in range(len(titles))]
        if width is not None:
            shrink(widths, self.columns, width)
        shown = []
        for number, line in enumerate(lines):
            is_edge = number == 0 or (self.totals is not None and number == len(lines) - 1)
            shown.append(self._row(line, widths, is_edge))
        return Text("\n").join(shown)

    def _row(self, line: Sequence[str], widths: Sequence[int], is_edge: bool) -> Text:
        row = Text()
        for place, (column, cell, width) in enumerate(zip(self.columns, line, widths, strict=True)):
            style = NUMBER_STYLE if is_edge else SUBJECT_STYLE if place == 0 else ""
            row.append(GAP if place else "").append(fitted(cell, width, column.is_text), style)
        row.rstrip()
        return row


def one_line(text: str) -> str:
    """Text that stays in its cell."""
    return printable(text.encode("utf-8", "surrogateescape")).replace("\n", "\\n")


def shrink(widths: list[int], columns: Sequence[Column], width: int) -> None:
    """Narrow the columns that can shrink by the excess width."""
    for place, column in enumerate(columns):
        excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
        if column.can_shrink and excess > 0:
            least = max(CUT_WIDTH_MIN, cell_len(column.title))
            widths[place] = max(min(least, widths[place]), widths[place] - excess)


def fitted(cell: str, width: int, is_text: bool) -> str:
    """`cell` padded or cut to `width`."""
    length = cell_len(cell)
    if length > width:
        return set_cell_size(cell, width - 1) + "…"
    return cell + " " * (width - length) if is_text else " " * (width - length) + cell


def terminal_width(output: Output) -> int | None:
    """The width of the reader's terminal, None for a pipe."""
    return shutil.get_terminal_size().columns if output.is_terminal else None
