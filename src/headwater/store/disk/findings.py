"""Findings: the reports of damage in the files of a store, by kind.

`headwater.store.recovery.recovery` has the table of the kinds.
"""

from typing import final


@final
class Finding:
    """Something that was not as it should be, and where."""

    __slots__ = ("detail", "kind")

    def __init__(self, kind: str, detail: str) -> None:
        self.kind = kind
        self.detail = detail

    def __repr__(self) -> str:
        return f"{self.kind}: {self.detail}"


@final
class Findings:
    """The findings of one log or one store, in the order in which they were made."""

    __slots__ = ("reported",)

    def __init__(self) -> None:
        self.reported: list[Finding] = []

    def add(self, kind: str, detail: str) -> None:
        """Report something."""
        self.reported.append(Finding(kind, detail))
