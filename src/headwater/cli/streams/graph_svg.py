"""The graph of copies as an SVG picture.

Streams stand in columns, each to the right of all its origins where there is no ring. The box of a
stream has its name, its messages and a row for each origin; the arrow of a copy ends at its row, so
that no text lies on a line. Long texts are cut, and the whole text is the title of the box.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from rich.cells import cell_len, set_cell_size

from headwater.cli.shell.render import size_text
from headwater.cli.shell.tables import one_line
from headwater.cli.streams.copies import MIRROR, SOURCE, Copy, seen_text
from headwater.cli.streams.graph import Graph, Node, Place

FONT_PX: Final = 13
# The advance of a monospaced letter of that size, with room for fonts that are wider.
CELL_PX: Final = 8.0
ROW_PX: Final = 20
PADDING_PX: Final = 12
COLUMN_GAP_PX: Final = 110
BOX_GAP_PX: Final = 26
MARGIN_PX: Final = 28
LEGEND_PX: Final = 34
TEXT_CELLS_MAX: Final = 60

BLUE: Final = "#1f5fbf"
GREEN: Final = "#1b7f4b"
RED: Final = "#c0262d"
INK: Final = "#1c2430"
GREY: Final = "#5d6878"
COLORS: Final = {MIRROR: BLUE, SOURCE: GREEN}
DASHES: Final = ' stroke-dasharray="6 4"'


@dataclass(frozen=True)
class Box:
    """The place of a stream in the picture, and its rows: one for each origin."""

    node: Node
    origins: Sequence[Copy]
    x: float
    y: float
    width: float

    @property
    def height(self) -> float:
        """The height of name, figures and rows."""
        return box_height(len(self.origins))

    def row_y(self, row: int) -> float:
        """The middle of the row of an origin."""
        return self.y + PADDING_PX + ROW_PX * (row + 2.5)


def box_height(origins: int) -> float:
    """The height of the box of a stream with that many origins."""
    return 2 * PADDING_PX + ROW_PX * (2 + origins)


def svg_text(graph: Graph) -> str:
    """The picture, a whole SVG document."""
    boxes = placed_boxes(graph)
    width = max((box.x + box.width for box in boxes.values()), default=0.0) + MARGIN_PX
    width = max(width, 480.0)
    bottom = max((box.y + box.height for box in boxes.values()), default=MARGIN_PX)
    height = bottom + MARGIN_PX + LEGEND_PX
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'font-family="Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{FONT_PX}">',
        "<title>Streams and their copies</title>",
        "<defs>",
        *(_arrow_head(color) for color in (BLUE, GREEN, RED)),
        "</defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
    ]
    for box in boxes.values():
        parts += [_arrow(boxes[copy.place], box, row) for row, copy in enumerate(box.origins)]
    for box in boxes.values():
        parts += _box_parts(box)
    parts += _legend(bottom + MARGIN_PX)
    return "\n".join([*parts, "</svg>", ""])


# --- the layout ---------------------------------------------------------------------------------


def placed_boxes(graph: Graph) -> dict[Place, Box]:
    """The boxes of all streams, column by column."""
    origins: dict[Place, list[Copy]] = {place: [] for place in graph.nodes}
    for copy in graph.edges:
        origins[copy.stream, ""].append(copy)
    columns = ordered_columns(columns_of(graph), origins)
    heights = [
        sum(box_height(len(origins[place])) + BOX_GAP_PX for place in column) - BOX_GAP_PX
        for column in columns
    ]
    boxes: dict[Place, Box] = {}
    x = float(MARGIN_PX)
    for column, height in zip(columns, heights, strict=True):
        width = max(_width(graph.nodes[place], origins[place]) for place in column)
        y = MARGIN_PX + (max(heights) - height) / 2
        for place in column:
            boxes[place] = Box(graph.nodes[place], origins[place], x, y, width)
            y += box_height(len(origins[place])) + BOX_GAP_PX
        x += width + COLUMN_GAP_PX
    return boxes


def columns_of(graph: Graph) -> list[list[Place]]:
    """The streams by column: one more than the last column of their origins.

    A ring is cut before its first stream by name. A stream without origins stands directly to the
    left of its copies.
    """
    copies = graph.copies_by_origin()
    open_origins = dict.fromkeys(graph.nodes, 0)
    for copy in graph.edges:
        open_origins[copy.stream, ""] += 1
    roots = [place for place, count in open_origins.items() if count == 0]
    column_of = dict.fromkeys(graph.nodes, 0)
    ready = list(roots)
    rest = iter(graph.nodes)
    done: set[Place] = set()
    while len(done) < len(graph.nodes):
        if not ready:
            ready.append(next(place for place in rest if place not in done))
        place = ready.pop()
        if place in done:
            continue
        done.add(place)
        for copy in copies[place]:
            target = (copy.stream, "")
            open_origins[target] -= 1
            if target not in done:
                column_of[target] = max(column_of[target], column_of[place] + 1)
                if open_origins[target] == 0:
                    ready.append(target)
    for place in roots:
        column_of[place] = min(column_of[copy.stream, ""] for copy in copies[place]) - 1
    columns: list[list[Place]] = [[] for _ in range(max(column_of.values(), default=-1) + 1)]
    for place, column in column_of.items():
        columns[column].append(place)
    return [column for column in columns if column]


def ordered_columns(
    columns: Sequence[Sequence[Place]], origins: Mapping[Place, Sequence[Copy]]
) -> list[list[Place]]:
    """Each column in the order of the mean rows of its origins, so that few arrows cross."""
    row_of: dict[Place, int] = {}
    ordered = []
    for column in columns:
        means = {}
        for place in column:
            rows = [row_of[copy.place] for copy in origins[place] if copy.place in row_of]
            means[place] = sum(rows) / len(rows) if rows else 0.0
        ordered.append(sorted(column, key=lambda place: (means[place], place)))
        row_of |= {place: row for row, place in enumerate(ordered[-1])}
    return ordered


def _width(node: Node, origins: Sequence[Copy]) -> float:
    texts = [node.title, figures_text(node), *(row_text(copy) for copy in origins)]
    return 2 * PADDING_PX + CELL_PX * max(cell_len(cut(text)) for text in texts)


# --- texts --------------------------------------------------------------------------------------


def figures_text(node: Node) -> str:
    """The line below the name of a stream."""
    if node.size_bytes is None:
        return node.state_text
    return f"{node.state_text}, {size_text(node.size_bytes)}"


def row_text(copy: Copy) -> str:
    """The row of an origin in the box of its copy."""
    # A long row is cut at its end, so that errors and lag come first.
    if copy.lag is None or copy.active_ns is None:
        state = ["state unknown"]
    else:
        state = [f"{copy.lag:,} behind", seen_text(copy.active_ns)]
    told = [copy.error, *state, copy.details]
    return f"{copy.kind} {copy.origin}: {', '.join(each for each in told if each)}"


def cut(text: str) -> str:
    """A text on one line, and not too long for a box."""
    line = one_line(text)
    if cell_len(line) <= TEXT_CELLS_MAX:
        return line
    return set_cell_size(line, TEXT_CELLS_MAX - 1) + "…"


def escaped(text: str) -> str:
    """A text for XML, without the characters that XML does not have."""
    return escape("".join(each if _is_in_xml(each) else "\ufffd" for each in text))


def _is_in_xml(character: str) -> bool:
    point = ord(character)
    return character in "\t\n\r" or (
        0x20 <= point <= 0xD7FF or 0xE000 <= point <= 0xFFFD or 0x10000 <= point <= 0x10FFFF
    )


# --- shapes -------------------------------------------------------------------------------------


def _arrow_head(color: str) -> str:
    return (
        f'<marker id="head-{color[1:]}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        f'markerHeight="8" orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{color}"/></marker>'
    )


def _arrow(origin: Box, target: Box, row: int) -> str:
    copy = target.origins[row]
    color = RED if copy.error else COLORS[copy.kind]
    x1, y1 = origin.x + origin.width, origin.y + PADDING_PX + ROW_PX * 0.5
    x2, y2 = target.x, target.row_y(row)
    bend = max(40.0, abs(x2 - x1) / 2)
    return (
        f'<path d="M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} '
        f'{x2:.1f} {y2:.1f}" fill="none" stroke="{color}" stroke-width="1.6"'
        f'{DASHES if copy.error else ""} marker-end="url(#head-{color[1:]})"/>'
    )


def _box_parts(box: Box) -> list[str]:
    is_here = box.node.messages is not None
    border = INK if is_here else RED if box.node.note == "missing" else GREY
    whole = [box.node.title, figures_text(box.node), *(row_text(each) for each in box.origins)]
    parts = [
        "<g>",
        f"<title>{escaped(chr(10).join(one_line(text) for text in whole))}</title>",
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="6" fill="{"#f4f7fb" if is_here else "#ffffff"}" '
        f'stroke="{border}" stroke-width="1.2"{"" if is_here else DASHES}/>',
        _text(box, 0, box.node.title, INK, ' font-weight="bold"'),
        _text(box, 1, figures_text(box.node), border if not is_here else GREY),
    ]
    for row, copy in enumerate(box.origins):
        color = RED if copy.error else COLORS[copy.kind]
        parts.append(_text(box, row + 2, row_text(copy), color))
    return [*parts, "</g>"]


def _text(box: Box, line: int, text: str, color: str, more: str = "") -> str:
    y = box.y + PADDING_PX + ROW_PX * line + ROW_PX * 0.5 + FONT_PX * 0.35
    return (
        f'<text x="{box.x + PADDING_PX:.1f}" y="{y:.1f}" fill="{color}"{more}>'
        f"{escaped(cut(text))}</text>"
    )


def _legend(y: float) -> list[str]:
    parts, x = [], float(MARGIN_PX)
    for label, color, dashes in (
        ("mirror", BLUE, ""),
        ("source", GREEN, ""),
        ("with an error", RED, DASHES),
    ):
        parts.append(
            f'<path d="M{x:.1f} {y:.1f} h36" fill="none" stroke="{color}" stroke-width="1.6"'
            f'{dashes} marker-end="url(#head-{color[1:]})"/>'
        )
        parts.append(
            f'<text x="{x + 46:.1f}" y="{y + FONT_PX * 0.35:.1f}" fill="{GREY}">{label}</text>'
        )
        x += 46 + CELL_PX * len(label) + 32
    return parts
