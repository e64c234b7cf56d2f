"""The graph of copies: its nodes and edges, and the trees of text."""

from typing import Any

from headwater.cli.streams.graph import DEPTH_MAX, Graph, tree_text

SECOND = 10**9


def stream(name: str, *sources: str, mirror: str = "", **state: Any) -> dict[str, Any]:
    """The information of a stream that copies others, three messages behind each."""
    progress = {"lag": 3, "active": SECOND, **state}
    info: dict[str, Any] = {"config": {"name": name}, "state": {"messages": 10, "bytes": 2048}}
    if mirror:
        info["mirror"] = {"name": mirror, **progress}
    if sources:
        info["sources"] = [{"name": each, **progress} for each in sources]
    return info


def lines(*infos: dict[str, Any]) -> list[str]:
    """The trees of streams."""
    return tree_text(Graph.of(infos)).plain.splitlines()


STATE = "10 messages, 3 messages behind, seen 1s ago"


def test_copies_stand_below_their_origins() -> None:
    assert lines(
        stream("EU"), stream("US"), stream("ALL", "EU", "US"), stream("EU_COPY", mirror="EU"),
        stream("ARCHIVE", mirror="ALL"), stream("ALONE"),
    ) == [
        "EU  10 messages",
        f"├─ source → ALL  {STATE}",
        f"│  └─ mirror → ARCHIVE  {STATE}",
        f"└─ mirror → EU_COPY  {STATE}",
        "US  10 messages",
        f"└─ source → ALL  {STATE}  (see above)",
    ]  # fmt: skip


def test_a_ring_of_sources_is_shown_once() -> None:
    assert lines(stream("A", "C"), stream("B", "A"), stream("C", "B")) == [
        "A  10 messages",
        f"└─ source → B  {STATE}",
        f"   └─ source → C  {STATE}",
        f"      └─ source → A  {STATE}  (see above)",
    ]
    assert len(lines(stream("A", "A"))) == 2


def test_missing_streams_and_streams_elsewhere_are_in_the_graph() -> None:
    far = stream("FAR_COPY", mirror="ORDERS", external={"api": "$JS.hub.API"})
    gone = stream("GONE_COPY", mirror="GONE", error={"description": "stream not found"})
    graph = Graph.of([far, gone, stream("SILENT_COPY", mirror="SILENT")], ["SILENT"])
    shown = tree_text(graph).plain.splitlines()
    assert shown[0::2] == ["GONE  missing", "ORDERS at $JS.hub.API  elsewhere", "SILENT  no answer"]
    assert shown[1].endswith("seen 1s ago, stream not found")


def test_a_long_chain_continues_on_the_left() -> None:
    chain = [stream("S000")]
    chain += [stream(f"S{number:03}", mirror=f"S{number - 1:03}") for number in range(1, 100)]
    shown = lines(*chain)
    assert max(len(line) - len(line.lstrip(" ")) for line in shown) < DEPTH_MAX * 3
    assert sum("(continues below)" in line for line in shown) == 99 // DEPTH_MAX
    assert sum(" → " in line for line in shown) == 99


def test_a_part_of_the_graph_is_all_that_is_connected() -> None:
    graph = Graph.of(
        [stream("A"), stream("B", mirror="A"), stream("C", "A", "D"), stream("D"), stream("X"),
         stream("Y", mirror="X"), stream("ALONE")],
    )  # fmt: skip
    assert graph.alone == 1
    assert [name for name, _ in graph.around("B").nodes] == ["A", "B", "C", "D"]
    assert [copy.stream for copy in graph.around("X").edges] == ["Y"]
    assert graph.around("ALONE").edges == []


def test_a_program_gets_streams_and_copies() -> None:
    fields = Graph.of([stream("A"), stream("B", mirror="A"), stream("Z")]).fields()
    assert fields["alone"] == 1
    assert [each["name"] for each in fields["streams"]] == ["A", "B"]
    assert fields["copies"] == [
        {"stream": "B", "kind": "mirror", "origin": "A", "api": None, "details": None, "lag": 3,
         "active": SECOND, "error": None}
    ]  # fmt: skip


def test_text_from_the_server_can_not_steer_the_terminal() -> None:
    evil = stream("A\x1b[2J", mirror="B\n", error={"description": "x\x07"})
    shown = tree_text(Graph.of([evil])).plain
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert len(shown.splitlines()) == 2
