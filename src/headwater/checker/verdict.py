"""Verdicts: whether a rule holds in a history, and which operations break it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.checker.history import Operation

OFFENCES_SHOWN_MAX: Final = 5
"""A defect shows in many messages at once; a report needs only the first few."""


@dataclass(frozen=True, slots=True)
class Offence:
    """One breach of a rule, with the operations that show it."""

    text: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([self.text, *map(str, self.operations)])


@dataclass(frozen=True, slots=True)
class Verdict:
    """The breaches of one rule; none if it holds."""

    rule: str
    offences: tuple[Offence, ...]

    @property
    def holds(self) -> bool:
        return not self.offences

    def __str__(self) -> str:
        if self.holds:
            return f"{self.rule}: holds"
        shown = [*map(str, self.offences[:OFFENCES_SHOWN_MAX])]
        hidden = len(self.offences) - len(shown)
        if hidden:
            shown.append(f"and {hidden} more")
        return "\n  ".join([f"{self.rule}: broken", *shown])


def verdict(rule: str, offences: Iterable[Offence]) -> Verdict:
    """The verdict on a rule."""
    return Verdict(rule, tuple(offences))


class BrokenPromise(AssertionError):
    """A history breaks a rule. `verdicts` has the rules that are broken."""

    def __init__(self, stream: str, verdicts: Iterable[Verdict]) -> None:
        self.verdicts = tuple(verdicts)
        super().__init__("\n".join([f"stream {stream}", *map(str, self.verdicts)]))

    @property
    def rules(self) -> list[str]:
        """The names of the broken rules."""
        return [each.rule for each in self.verdicts]
