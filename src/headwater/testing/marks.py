"""The marks of stores in the memory of a simulated machine."""

from array import array
from typing import final


@final
class SimMarks:
    """Marks that outlive a killed process, and not the machine."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[str, memoryview[int]] = {}

    def read(self, folder: str) -> bytes:
        """The mark of the store in a folder; empty without one."""
        words = self._marks.get(folder)
        return b"" if words is None else words.tobytes()

    def replace(self, folder: str, data: bytes) -> "memoryview[int]":
        """Put another mark in the place of the store's. Returns its words."""
        words = self._marks[folder] = memoryview(array("Q", data))
        return words

    def power_loss(self) -> None:
        """Forget everything."""
        self._marks.clear()
