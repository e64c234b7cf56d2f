"""Subject patterns of a read: which of them the server can be given, and matching without it.

A server takes several patterns only if no subject matches two of them. Patterns inside others are
left out; if some still overlap, everything is read and matched here.
"""

from functools import lru_cache
from typing import Final, final

from headwater.subjects.grammar import collide, has_wildcard, is_subset, matches

ALL: Final = ">"
# Streams seldom have more subjects; one that has them is matched again now and then.
_SUBJECTS_REMEMBERED: Final = 1 << 16


@final
class Patterns:
    """The patterns of which a message's subject has to match one; without patterns all match."""

    def __init__(self, subjects: tuple[str, ...]) -> None:
        self.distinct = () if ALL in subjects else _without_inner(subjects)
        self._literals = frozenset(s.encode() for s in self.distinct if not _is_wild(s))
        self._wild = tuple(s.encode() for s in self.distinct if _is_wild(s))
        self._match = lru_cache(_SUBJECTS_REMEMBERED)(self._match_one)

    @property
    def overlap(self) -> bool:
        """Whether a subject can match two of them, so that no server takes them together."""
        names = [subject.encode() for subject in self.distinct]
        return any(
            collide(wild, other)
            for wild in self._wild
            for other in names
            if wild is not other and wild != other
        )

    def places(self, subjects: list[bytes]) -> list[int]:
        """The indexes of the subjects in a list that match."""
        match = self._match
        return [at for at, subject in enumerate(subjects) if match(subject)]

    def _match_one(self, subject: bytes) -> bool:
        return (
            not self.distinct
            or subject in self._literals
            or any(matches(pattern, subject) for pattern in self._wild)
        )


def _is_wild(subject: str) -> bool:
    return has_wildcard(subject.encode())


def _without_inner(subjects: tuple[str, ...]) -> tuple[str, ...]:
    """Each pattern once, without those that match nothing another one does not."""
    distinct = dict.fromkeys(subjects)
    wild = [subject.encode() for subject in distinct if _is_wild(subject)]
    return tuple(
        subject
        for subject in distinct
        if not any(
            outer != subject.encode() and is_subset(subject.encode(), outer) for outer in wild
        )
    )
