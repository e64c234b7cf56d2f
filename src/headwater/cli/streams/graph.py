"""The graph of the streams that copy one another, as a tree of text and for programs.

Nodes are streams, and edges lead from an origin to its copy. An origin elsewhere, or one that does
not exist, is a node too. Streams without origin and without copy are left out and counted.

An edge is shown once, below its origin; the copies of a stream with several origins are shown where
the stream comes first. Depth is bounded, so that a long chain does not fill the screen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from headwater.cli.shell.render import NUMBER_STYLE, SUBJECT_STYLE
from headwater.cli.shell.tables import one_line
from headwater.cli.streams.copies import Copy, copies_of
from headwater.client.api.requests import Document

DEPTH_MAX: Final = 24

Place = tuple[str, str]


@dataclass(frozen=True)
class Node:
    """A stream of the graph; `messages` and `size_bytes` are None for one that is not here."""

    place: Place
    messages: int | None = None
    size_bytes: int | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self.place[0]

    @property
    def title(self) -> str:
        """The name, and the API by which a stream elsewhere is reached."""
        return f"{self.name} at {self.place[1]}" if self.place[1] else self.name

    @property
    def state_text(self) -> str:
        """`1,200 messages`, or why there is no such figure."""
        if self.messages is None:
            return self.note
        return f"{self.messages:,} message{'' if self.messages == 1 else 's'}"


@dataclass(frozen=True)
class Graph:
    """Streams by place and the copies between them, both sorted; `alone` counts the others."""

    nodes: Mapping[Place, Node]
    edges: Sequence[Copy]
    alone: int

    @classmethod
    def of(cls, infos: Iterable[Document], unanswered: Iterable[str] = ()) -> "Graph":
        """The graph of streams, by their information; no server told about `unanswered` ones."""
        streams = {(str(info["config"]["name"]), ""): info for info in infos}
        edges = [copy for info in streams.values() for copy in copies_of(info)]
        edges.sort(key=lambda copy: (copy.stream, copy.origin, copy.api, copy.details))
        silent = frozenset(unanswered)
        places = {place for copy in edges for place in (copy.place, (copy.stream, ""))}
        nodes = {place: _node(place, streams.get(place), silent) for place in sorted(places)}
        return cls(nodes, edges, len(streams.keys() - places))

    def around(self, name: str) -> "Graph":
        """The part that is connected with a stream; empty if the stream is not in the graph."""
        neighbours: dict[Place, list[Place]] = {place: [] for place in self.nodes}
        for copy in self.edges:
            neighbours[copy.place].append((copy.stream, ""))
            neighbours[copy.stream, ""].append(copy.place)
        reached: set[Place] = set()
        waiting = [(name, "")] if (name, "") in self.nodes else []
        while waiting:
            place = waiting.pop()
            if place not in reached:
                reached.add(place)
                waiting += neighbours[place]
        nodes = {place: node for place, node in self.nodes.items() if place in reached}
        return Graph(nodes, [copy for copy in self.edges if copy.place in reached], 0)

    def copies_by_origin(self) -> dict[Place, list[Copy]]:
        """The copies of each stream, in the order of their names."""
        found: dict[Place, list[Copy]] = {place: [] for place in self.nodes}
        for copy in self.edges:
            found[copy.place].append(copy)
        return found

    def fields(self) -> dict[str, Any]:
        """The graph for a program."""
        streams = [
            {
                "name": node.name,
                "api": node.place[1] or None,
                "messages": node.messages,
                "bytes": node.size_bytes,
                "note": node.note or None,
            }
            for node in self.nodes.values()
        ]
        copies = [{"stream": copy.stream, **copy.fields} for copy in self.edges]
        return {"streams": streams, "copies": copies, "alone": self.alone}


def _node(place: Place, info: Document | None, silent: frozenset[str]) -> Node:
    if info is not None:
        return Node(place, int(info["state"]["messages"]), int(info["state"]["bytes"]))
    if place[1]:
        return Node(place, note="elsewhere")
    return Node(place, note="no answer" if place[0] in silent else "missing")


def tree_text(graph: Graph) -> Text:
    """The graph as trees, whose roots are the streams that copy nothing."""
    return _TreeWriter(graph).text()


class _TreeWriter:
    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._copies = graph.copies_by_origin()
        self._expanded: set[Place] = set()
        self._later: list[Place] = []
        self._lines: list[Text] = []

    def text(self) -> Text:
        copied = {(copy.stream, "") for copies in self._copies.values() for copy in copies}
        roots = [place for place in self._nodes if place not in copied]
        # A ring of sources has no root; its first stream by name is one then.
        for place in (*roots, *self._nodes):
            self._later.append(place)
            while self._later:
                root = self._later.pop(0)
                if root not in self._expanded and self._copies[root]:
                    self._append_tree(root)
        return Text("\n").join(self._lines)

    def _append_tree(self, root: Place) -> None:
        line = Text(one_line(self._nodes[root].title), SUBJECT_STYLE)
        self._lines.append(line.append(f"  {self._nodes[root].state_text}", ""))
        self._expanded.add(root)
        waiting = self._below(root, "")
        while waiting:
            copy, indent, is_last = waiting.pop()
            place = (copy.stream, "")
            deeper = indent + ("   " if is_last else "│  ")
            is_new = place not in self._expanded and bool(self._copies[place])
            is_deep = len(deeper) >= DEPTH_MAX * 3
            note = ""
            if is_new and is_deep:
                self._later.append(place)
                note = "continues below"
            elif self._copies[place] and not is_new:
                note = "see above"
            self._lines.append(self._line(copy, indent + ("└─ " if is_last else "├─ "), note))
            if is_new and not is_deep:
                self._expanded.add(place)
                waiting += self._below(place, deeper)

    def _below(self, place: Place, indent: str) -> list[tuple[Copy, str, bool]]:
        """The copies of a stream for a stack: the first one is last."""
        copies = self._copies[place]
        last = len(copies) - 1
        return [(copy, indent, number == last) for number, copy in enumerate(copies)][::-1]

    def _line(self, copy: Copy, branch: str, note: str) -> Text:
        details = f" ({copy.details})" if copy.details else ""
        line = Text(branch).append(f"{copy.kind}{one_line(details)} → ", NUMBER_STYLE)
        line.append(one_line(copy.stream), SUBJECT_STYLE)
        figures = self._nodes[copy.stream, ""].state_text
        line.append(f"  {figures}, {one_line(copy.state_text)}", "red" if copy.error else "")
        return line.append(f"  ({note})") if note else line
