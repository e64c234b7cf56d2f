"""Overlaps of subjects, by the rules of nats-server.

nats-server treats a token that only begins with `*` as a wildcard when it compares patterns. It
does not do so when it routes messages, so it refuses more than necessary; but clients see the
refusal.

`Overlaps` finds the pairs among many subjects without comparing each with each: a tree of tokens
yields a few candidates, and `collide` decides.
"""

from collections.abc import Iterator
from typing import Final

ALL: Final = ">"
_ANY: Final = "*"

# A request with very many patterns must not delay all other clients while they are compared. Only
# paths into wildcards count; literal subjects cost little, however many there are.
_STEPS_MAX: Final = 30_000


class TooManySubjects(ValueError):
    """The comparison of the subjects would take too long."""


def is_literal(subject: str) -> bool:
    """Whether no token is a wildcard."""
    return not any(token in (_ANY, ALL) for token in subject.split("."))


def is_subset(inner: str, outer: str) -> bool:
    """Whether everything that matches `inner` also matches `outer`."""
    return _covers(outer.split("."), inner.split("."))


def collide(left: str, right: str) -> bool:
    """Whether some subject matches both."""
    if left == right:
        return True
    ours, theirs = left.split("."), right.split(".")
    if is_literal(left):
        return not is_literal(right) and _covers(theirs, ours)
    if is_literal(right):
        return _covers(ours, theirs)
    shorter = min(ours, theirs, key=len)
    if len(ours) != len(theirs) and ALL not in shorter:
        return False
    return all(_may_be_equal(*pair) for pair in zip(ours, theirs, strict=False))


def _covers(pattern: list[str], tokens: list[str]) -> bool:
    for wanted, token in zip(pattern, tokens, strict=False):
        if wanted == ALL:
            return True
        if not wanted or not token or token == ALL:
            return False
        if token == _ANY and wanted != _ANY:
            return False
        if not wanted.startswith(_ANY) and wanted != token:
            return False
    return len(pattern) == len(tokens)


def _may_be_equal(one: str, other: str) -> bool:
    if not one or not other:
        return False
    return one == other or _is_open(one) or _is_open(other)


def _is_open(token: str) -> bool:
    """Whether a token of a pattern may stand for others."""
    return token[:1] in (_ANY, ALL)


class _Node:
    """Subjects that begin with the same tokens."""

    __slots__ = ("children", "ending", "full", "open_children")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        # The children whose token may stand for others.
        self.open_children: list[_Node] = []
        self.ending: list[str] = []
        # The subjects that end with `>` here.
        self.full: list[str] = []


class Overlaps:
    """Subjects among which overlapping ones can be searched."""

    __slots__ = ("_root", "_steps_left")

    def __init__(self, subjects: tuple[str, ...] = ()) -> None:
        self._root = _Node()
        self._steps_left = _STEPS_MAX
        for subject in subjects:
            self.add(subject)

    def allow(self) -> None:
        """Reset the limit of work for the next searches together."""
        self._steps_left = _STEPS_MAX

    def add(self, subject: str) -> None:
        """Add a subject, which may be there already."""
        node = self._root
        head, is_full = _up_to_full(subject)
        for token in head:
            child = node.children.get(token)
            if child is None:
                child = node.children[token] = _Node()
                if _is_open(token):
                    node.open_children.append(child)
            node = child
        (node.full if is_full else node.ending).append(subject)

    def remove(self, subject: str) -> None:
        """Remove a subject, which must be there."""
        head, is_full = _up_to_full(subject)
        path = [self._root]
        for token in head:
            path.append(path[-1].children[token])
        (path[-1].full if is_full else path[-1].ending).remove(subject)
        for token in reversed(head):
            child = path.pop()
            if child.children or child.ending or child.full:
                break
            del path[-1].children[token]
            if _is_open(token):
                path[-1].open_children.remove(child)

    def colliding_with(self, subject: str) -> Iterator[str]:
        """The subjects that overlap with `subject`, including itself if it is there.

        Raises TooManySubjects when the search takes too long.
        """
        return (each for each in self._candidates(subject) if collide(subject, each))

    def compared_with(self, subject: str) -> Iterator[tuple[str, bool]]:
        """The subjects that may overlap with `subject`, and whether they do.

        There is no limit of work; subjects may be added and removed during the iteration.
        """
        for each in self._candidates(subject, is_counted=False):
            yield each, collide(subject, each)

    def _candidates(self, subject: str, is_counted: bool = True) -> Iterator[str]:
        """All subjects that may overlap, and some others."""
        head, is_full = _up_to_full(subject)
        ahead = [(self._root, 0)]
        while ahead:
            node, depth = ahead.pop()
            if depth == len(head):
                yield from self._all_below(node, is_counted) if is_full else node.ending
                continue
            yield from node.full
            children = node.open_children
            if _is_open(head[depth]):
                children = list(node.children.values())
                if is_counted:
                    self._count(len(children))
            elif head[depth] in node.children:
                children = [*children, node.children[head[depth]]]
            ahead += [(child, depth + 1) for child in children]

    def _all_below(self, node: _Node, is_counted: bool) -> Iterator[str]:
        yield from node.full
        ahead = list(node.children.values())
        while ahead:
            below = ahead.pop()
            if is_counted:
                self._count(1)
            yield from below.ending
            yield from below.full
            ahead += below.children.values()

    def _count(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooManySubjects


def _up_to_full(subject: str) -> tuple[list[str], bool]:
    """The tokens before `>`, and whether there is a `>`."""
    tokens = subject.split(".")
    is_full = ALL in tokens
    return (tokens[: tokens.index(ALL)] if is_full else tokens), is_full
