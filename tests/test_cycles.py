"""No two modules know each other, not even for the sake of a type.

An import below `if TYPE_CHECKING:` is no import when the program runs, and so import-linter and
Python let it pass. It is still knowledge: a module that names a class of another module cannot be
read, tested or replaced without it. So these tests read every import statement from the syntax
trees, and look for cycles in the graph that all of them make.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

SOURCES: Final = Path(__file__).resolve().parent.parent / "src"

Graph = Mapping[str, frozenset[str]]


def module_name(path: Path) -> str:
    """The dotted name of a source file, relative to the package."""
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str) -> Iterator[str]:
    """Every dotted name that a module imports; a name taken from a module comes with both."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def graph_of(sources: Mapping[str, str]) -> Graph:
    """The modules that each module imports, of those in `sources`."""
    return {
        name: frozenset(sources.keys() & set(imported(text)) - {name} - packages_of(name))
        for name, text in sources.items()
    }


def packages_of(name: str) -> set[str]:
    """The packages around a module: to import from one of those imports its other modules."""
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


def knots(graph: Graph) -> list[frozenset[str]]:
    """The sets of modules of which each reaches every other, found by Tarjan's algorithm."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[frozenset[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        path.append(module)
        for other in sorted(graph[module]):
            if other not in numbers:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in path:
                lowest[module] = min(lowest[module], numbers[other])
        if lowest[module] == numbers[module]:
            at = path.index(module)
            if len(path) - at > 1:
                found.append(frozenset(path[at:]))
            del path[at:]

    for module in sorted(graph):
        if module not in numbers:
            visit(module)
    return found


def described(graph: Graph, modules: Iterable[str]) -> str:
    """A knot as lines that tell which import to take out."""
    inside = set(modules)
    return "\n".join(
        f"{module} imports {', '.join(sorted(graph[module] & inside))}" for module in sorted(inside)
    )


def read_sources() -> dict[str, str]:
    """The text of every module of the project."""
    return {module_name(path): path.read_text() for path in sorted(SOURCES.rglob("*.py"))}


def test_no_modules_know_each_other() -> None:
    graph = graph_of(read_sources())
    found = knots(graph)
    assert not found, "\n\n".join(described(graph, knot) for knot in found)


def rooms_of(graph: Graph, package: str) -> Graph:
    """The folders of a package that each folder imports; a module beside them is a room too."""
    depth = package.count(".") + 2

    def room(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    inside = {module for module in graph if module.startswith(f"{package}.")}
    rooms: dict[str, frozenset[str]] = {room(module): frozenset() for module in inside}
    for module in inside:
        imported_rooms = {room(other) for other in graph[module] & inside} - {room(module)}
        rooms[room(module)] |= imported_rooms
    return rooms


@pytest.mark.parametrize("package", ["headwater.cli", "headwater.client"])
def test_folders_of_a_package_import_each_other_in_one_direction(package: str) -> None:
    rooms = rooms_of(graph_of(read_sources()), package)
    found = knots(rooms)
    assert not found, "\n\n".join(described(rooms, knot) for knot in found)


def test_folders_that_import_each_other_are_found() -> None:
    sources = {"p.a": "", "p.b": "", "p.a.x": "import p.b.y", "p.b.y": "", "p.b.z": "import p.a.w"}
    graph = graph_of(sources | {"p.a.w": ""})
    assert knots(graph) == []
    assert knots(rooms_of(graph, "p")) == [{"p.a", "p.b"}]


FOR_TYPES: Final = (
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.stream import Stream\n"
)


@pytest.mark.parametrize(
    "other",
    ["import p.stream", "from p.stream import Stream", "from p import stream", FOR_TYPES],
)
def test_a_cycle_is_found(other: str) -> None:
    sources = {"p": "", "p.stream": "from p.limits import Limits", "p.limits": other}
    assert knots(graph_of(sources)) == [{"p.stream", "p.limits"}]


def test_a_cycle_of_three_is_one_knot() -> None:
    sources = {"p.a": "import p.b", "p.b": "import p.c", "p.c": "import p.a", "p.d": "import p.a"}
    assert knots(graph_of(sources)) == [{"p.a", "p.b", "p.c"}]


def test_modules_that_meet_in_a_third_are_no_cycle() -> None:
    sources = {"p.a": "import p.b, p.c", "p.b": "import p.c", "p.c": "import json"}
    assert knots(graph_of(sources)) == []
