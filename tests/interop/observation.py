"""Observation trees and their comparison.

An observation is what a script saw, as a JSON-like tree. Two observations agree when every leaf is
equal and of the same type, save where a mask applies. A mask never hides a value: its predicate has
to hold on both sides. A key on one side only is a difference, save where an `Addition` says
that the server under test may show more than the oracle, or an `Omission` that it may show less.

Must not know: sockets, processes, or which server is which beyond the names oracle and subject.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

Observation: TypeAlias = (
    "bool | int | float | str | Sequence[Observation] | Mapping[str, Observation] | None"
)
Path: TypeAlias = tuple[str, ...]
Predicate: TypeAlias = Callable[[Observation], bool]

SHOWN_CHARACTERS_MAX = 2000
"""A difference shows at most this much of each side; a megabyte payload would bury the report."""


@dataclass(frozen=True)
class Mask:
    """A value that may differ, where it is found, and what has to be true of it on both sides.

    `path` is dotted; `*` stands for one step, `**` for any number of steps, also none.
    """

    path: str
    holds: Predicate
    why: str

    def covers(self, path: Path) -> bool:
        return matches(tuple(self.path.split(".")), path)


@dataclass(frozen=True)
class Addition(Mask):
    """A key that the subject may have and the oracle must not have."""


@dataclass(frozen=True)
class Omission(Mask):
    """A masked key that the subject need not have."""


@dataclass(frozen=True)
class Difference:
    """One place where the two observations disagree."""

    path: Path
    what: str
    oracle: str
    subject: str

    def __str__(self) -> str:
        where = ".".join(self.path) or "(whole observation)"
        return f"{where}: {self.what}\n    oracle:  {self.oracle}\n    subject: {self.subject}"


def matches(pattern: Path, path: Path) -> bool:
    """Whether a mask's path pattern names this path."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(matches(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    if not path or pattern[0] not in ("*", path[0]):
        return False
    return matches(pattern[1:], path[1:])


def differences(
    oracle: Observation, subject: Observation, masks: Sequence[Mask] = ()
) -> list[Difference]:
    """Every place where the two trees disagree, in the order of the oracle's tree."""
    return list(_compare((), oracle, subject, masks))


def unused_masks(observation: Observation, masks: Iterable[Mask]) -> list[Mask]:
    """Masks that name nothing in the observation: they excuse what never happens."""
    paths = list(_paths((), observation))
    return [mask for mask in masks if not any(mask.covers(path) for path in paths)]


def contains_text(observation: Observation, text: str) -> bool:
    """Whether any string in the tree contains `text`."""
    if isinstance(observation, str):
        return text in observation
    if isinstance(observation, Mapping):
        return any(text in key or contains_text(value, text) for key, value in observation.items())
    if isinstance(observation, Sequence):
        return any(contains_text(value, text) for value in observation)
    return False


def _paths(path: Path, observation: Observation) -> Iterator[Path]:
    yield path
    for step, value in _children(observation):
        yield from _paths((*path, step), value)


def _children(observation: Observation) -> Iterator[tuple[str, Observation]]:
    if isinstance(observation, Mapping):
        yield from observation.items()
    elif isinstance(observation, Sequence) and not isinstance(observation, str):
        yield from ((str(index), value) for index, value in enumerate(observation))


def _compare(
    path: Path, oracle: Observation, subject: Observation, masks: Sequence[Mask]
) -> Iterator[Difference]:
    mask = _mask_for(path, masks)
    if mask is not None:
        yield from _check_mask(path, oracle, subject, mask)
    elif isinstance(oracle, Mapping) and isinstance(subject, Mapping):
        yield from _compare_mappings(path, oracle, subject, masks)
    elif _is_list(oracle) and _is_list(subject):
        yield from _compare_lists(path, oracle, subject, masks)
    elif type(oracle) is not type(subject) or oracle != subject:
        yield _difference(path, "not equal", oracle, subject)


def _mask_for(path: Path, masks: Sequence[Mask]) -> Mask | None:
    for mask in masks:
        if not isinstance(mask, Addition) and mask.covers(path):
            return mask
    return None


def _check_mask(
    path: Path, oracle: Observation, subject: Observation, mask: Mask
) -> Iterator[Difference]:
    for side, value in (("oracle", oracle), ("subject", subject)):
        if not mask.holds(value):
            what = f"{side} breaks the mask's predicate ({mask.why})"
            yield _difference(path, what, oracle, subject)


def _compare_mappings(
    path: Path,
    oracle: Mapping[str, Observation],
    subject: Mapping[str, Observation],
    masks: Sequence[Mask],
) -> Iterator[Difference]:
    for key, value in oracle.items():
        if key in subject:
            yield from _compare((*path, key), value, subject[key], masks)
        elif not _is_listed(Omission, (*path, key), value, masks):
            yield Difference((*path, key), "missing", _shown(value), "(no such key)")
    for key, value in subject.items():
        if key not in oracle and not _is_listed(Addition, (*path, key), value, masks):
            yield Difference((*path, key), "unexpected", "(no such key)", _shown(value))


def _compare_lists(
    path: Path,
    oracle: Sequence[Observation],
    subject: Sequence[Observation],
    masks: Sequence[Mask],
) -> Iterator[Difference]:
    if len(oracle) != len(subject):
        yield _difference(path, f"{len(oracle)} items against {len(subject)}", oracle, subject)
        return
    for index, (left, right) in enumerate(zip(oracle, subject, strict=True)):
        yield from _compare((*path, str(index)), left, right, masks)


def _is_listed(kind: type[Mask], path: Path, value: Observation, masks: Sequence[Mask]) -> bool:
    return any(isinstance(mask, kind) and mask.covers(path) and mask.holds(value) for mask in masks)


def _is_list(observation: Observation) -> TypeGuard[Sequence[Observation]]:
    return isinstance(observation, Sequence) and not isinstance(observation, str)


def _difference(path: Path, what: str, oracle: Observation, subject: Observation) -> Difference:
    return Difference(path, what, _shown(oracle), _shown(subject))


def _shown(observation: Observation) -> str:
    text = repr(observation)
    if len(text) <= SHOWN_CHARACTERS_MAX:
        return text
    return f"{text[:SHOWN_CHARACTERS_MAX]}… ({len(text)} characters)"
