"""The index from subjects to the streams of an account.

It is updated as streams are created, changed and deleted, so that the cost of a request depends on
its own subjects, however many streams there are.
"""

from collections.abc import Iterable
from typing import Final, Protocol, final

from headwater.base.sliced import Work
from headwater.jetstream.config.stream_checks.overlap import ALL, Overlaps

# A comparison of two subjects counts as this many units of work.
COMPARISON_COST: Final = 4


class Taken(Protocol):
    """Subjects that streams have."""

    def overlaps(self, name: str, subjects: Iterable[str]) -> bool:
        """Whether a stream other than `name` could have a message on one of the subjects.

        Raises TooManySubjects if the search would take too long.
        """
        ...


@final
class StreamSubjects:
    """Subjects and the names of the streams that have them."""

    __slots__ = ("_overlaps", "_owners")

    def __init__(self) -> None:
        # A subject has one stream; a store that was put together by hand may have several.
        self._owners: dict[str, list[str]] = {}
        self._overlaps = Overlaps()

    def add(self, name: str, subjects: Iterable[str]) -> None:
        """Add the subjects of a stream."""
        for subject in subjects:
            owners = self._owners.setdefault(subject, [])
            if not owners:
                self._overlaps.add(subject)
            owners.append(name)

    def remove(self, name: str, subjects: Iterable[str]) -> None:
        """Remove the subjects of a stream."""
        for subject in subjects:
            owners = self._owners[subject]
            owners.remove(name)
            if not owners:
                del self._owners[subject]
                self._overlaps.remove(subject)

    def overlaps(self, name: str, subjects: Iterable[str]) -> bool:
        """Whether a stream other than `name` could have a message on one of the subjects.

        Raises TooManySubjects if the search would take too long.
        """
        self._overlaps.allow()
        return any(
            owner != name
            for subject in subjects
            for taken in self._overlaps.colliding_with(subject)
            for owner in self._owners[taken]
        )

    def streams_on(self, subject: str) -> Work[set[str]]:
        """The streams that could have a message on a subject, found some at a time.

        Streams may be added and removed meanwhile.
        """
        found: set[str] = set()
        if subject == ALL:
            return found.union(*self._owners.values())
        for taken, is_colliding in self._overlaps.compared_with(subject):
            if is_colliding:
                found.update(self._owners.get(taken, ()))
            yield COMPARISON_COST
        return found
