"""Which stream of an account listens to which subject.

Kept up to date as streams come, change and go, so that a request costs what its own subjects cost,
however many streams there are.
"""

from collections.abc import Iterable
from typing import Final, final

from headwater.jetstream.config_checks_overlap import ALL, Overlaps

# A look-up visits every part of the tree once at most.
_ANY_EFFORT: Final = 1 << 62


@final
class StreamSubjects:
    """Subjects and the names of the streams that have them."""

    __slots__ = ("_overlaps", "_owners")

    def __init__(self) -> None:
        # A subject has one stream; a store put together by hand may have given it several.
        self._owners: dict[str, list[str]] = {}
        self._overlaps = Overlaps()

    def add(self, name: str, subjects: Iterable[str]) -> None:
        """A stream listens to these."""
        for subject in subjects:
            owners = self._owners.setdefault(subject, [])
            if not owners:
                self._overlaps.add(subject)
            owners.append(name)

    def remove(self, name: str, subjects: Iterable[str]) -> None:
        """A stream listens to these no longer."""
        for subject in subjects:
            owners = self._owners[subject]
            owners.remove(name)
            if not owners:
                del self._owners[subject]
                self._overlaps.remove(subject)

    def overlaps(self, name: str, subjects: Iterable[str]) -> bool:
        """Whether another stream than `name` could have a message on one of the subjects.

        Raises TooManySubjects where that would take too long to find out.
        """
        self._overlaps.allow()
        return any(
            owner != name
            for subject in subjects
            for taken in self._overlaps.colliding_with(subject)
            for owner in self._owners[taken]
        )

    def streams_on(self, subject: str) -> set[str]:
        """The streams that could have a message on a subject."""
        if subject == ALL:
            return {name for owners in self._owners.values() for name in owners}
        self._overlaps.allow(_ANY_EFFORT)
        return {
            name for taken in self._overlaps.colliding_with(subject) for name in self._owners[taken]
        }
