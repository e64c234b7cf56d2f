"""The picture of the graph of copies: its layout and its text."""

from typing import Any
from xml.etree import ElementTree

from headwater.cli.streams.graph import Graph
from headwater.cli.streams.graph_svg import (
    BOX_GAP_PX,
    TEXT_CELLS_MAX,
    columns_of,
    cut,
    escaped,
    placed_boxes,
    svg_text,
)

NAMESPACE = "{http://www.w3.org/2000/svg}"


def stream(name: str, *sources: str, **state: Any) -> dict[str, Any]:
    """The information of a stream with sources."""
    found = [{"name": each, "lag": 3, "active": 10**9, **state} for each in sources]
    return {
        "config": {"name": name}, "state": {"messages": 10, "bytes": 2048}, "sources": found,
    }  # fmt: skip


def texts(picture: str) -> list[str]:
    """The texts of a picture."""
    root = ElementTree.fromstring(picture)
    return [each.text or "" for each in root.iter(f"{NAMESPACE}text")]


def test_a_copy_stands_to_the_right_of_all_its_origins() -> None:
    graph = Graph.of([stream("A"), stream("B", "A"), stream("C", "A", "B"), stream("D", "MISSING")])
    names = [[name for name, _ in column] for column in columns_of(graph)]
    assert names == [["A", "MISSING"], ["B", "D"], ["C"]]
    boxes = placed_boxes(graph)
    for copy in graph.edges:
        origin = boxes[copy.place]
        assert boxes[copy.stream, ""].x > origin.x + origin.width


def test_an_origin_stands_next_to_its_first_copy() -> None:
    graph = Graph.of([stream("A"), stream("B", "A"), stream("C", "B", "LATE")])
    names = [[name for name, _ in column] for column in columns_of(graph)]
    assert names == [["A"], ["B", "LATE"], ["C"]]


def test_a_ring_is_drawn_too() -> None:
    graph = Graph.of([stream("A", "C"), stream("B", "A"), stream("C", "B")])
    assert [len(column) for column in columns_of(graph)] == [1, 1, 1]
    assert len(columns_of(Graph.of([stream("A", "A")]))) == 1


def test_no_two_boxes_overlap() -> None:
    infos = [stream(f"S{number}", *(f"O{each}" for each in range(number))) for number in range(12)]
    boxes = list(placed_boxes(Graph.of(infos)).values())
    for box in boxes:
        for other in boxes:
            if other.x == box.x and other.y > box.y:
                assert other.y >= box.y + box.height + BOX_GAP_PX


def test_a_picture_has_a_box_for_each_stream_and_an_arrow_for_each_copy() -> None:
    graph = Graph.of([stream("EU"), stream("ALL", "EU", "US", error={"description": "no <way>"})])
    picture = svg_text(graph)
    root = ElementTree.fromstring(picture)
    assert len(root.findall(f"{NAMESPACE}g")) == 3
    arrows = [each for each in root.iter(f"{NAMESPACE}path") if "C" in each.get("d", "")]
    assert len(arrows) == 2
    shown = texts(picture)
    assert {"EU", "US", "ALL", "10 messages, 2.0 KiB", "missing"} <= set(shown)
    assert "source EU: no <way>, 3 behind, seen 1s ago" in shown


def test_names_are_escaped_and_no_picture_is_broken_by_a_name() -> None:
    name = "</text><script>&\"'\x00\x1b\ufffe\u202e"
    picture = svg_text(Graph.of([stream(name, name), stream("B", name)]))
    root = ElementTree.fromstring(picture)
    assert "<script" not in picture
    assert not list(root.iter(f"{NAMESPACE}script"))
    assert any(text.startswith("</text><script>&\"'") for text in texts(picture))


def test_a_long_name_is_cut_and_whole_in_the_title() -> None:
    name = "N" * 200
    picture = svg_text(Graph.of([stream(name, "A")]))
    root = ElementTree.fromstring(picture)
    assert max(len(text) for text in texts(picture)) == TEXT_CELLS_MAX
    assert any(name in (each.text or "") for each in root.iter(f"{NAMESPACE}title"))
    assert cut("N" * TEXT_CELLS_MAX) == "N" * TEXT_CELLS_MAX
    assert cut("N" * (TEXT_CELLS_MAX + 1)).endswith("N…")


def test_an_empty_graph_is_a_whole_picture() -> None:
    assert texts(svg_text(Graph.of([]))) == ["mirror", "source", "with an error"]
    assert escaped("a\x0b<\ud800") == "a\ufffd&lt;\ufffd"
