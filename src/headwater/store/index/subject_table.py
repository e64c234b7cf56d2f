"""Every subject of a stream: its number, its first and last message, and how many it has.

Numbers (ids) stand in for names in segments. They are given out in order, so that what is new since
some moment is what has a higher id; an id is not given to another subject while its table lives,
because segments still refer to it. A subject whose last message goes is forgotten, and has another
id should it come back.
"""

from array import array
from collections.abc import Iterable
from typing import Final, final

from headwater.store.index.subject_order import SubjectOrder, SubjectPattern

NO_SEQUENCE: Final = 0


@final
class SubjectTable:
    """First, last and count by id; names to ids and back."""

    __slots__ = ("counts", "firsts", "ids", "lasts", "names", "order")

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}
        self.names: list[bytes] = []
        self.firsts = array("Q")
        self.lasts = array("Q")
        self.counts = array("I")
        self.order = SubjectOrder()

    def __len__(self) -> int:
        return len(self.ids)

    def id_of(self, subject: bytes) -> int:
        """The id of a subject, new if need be."""
        found = self.ids.get(subject)
        if found is None:
            found = self.ids[subject] = len(self.names)
            self.names.append(subject)
            self.firsts.append(0)
            self.lasts.append(0)
            self.counts.append(0)
        return found

    def extent(self, subject: bytes) -> tuple[int, int, int]:
        """First and last sequence of a subject, and how many messages it has."""
        sid = self.ids.get(subject)
        if sid is None:
            return NO_SEQUENCE, NO_SEQUENCE, 0
        return self.firsts[sid], self.lasts[sid], self.counts[sid]

    def matching(self, pattern: SubjectPattern) -> "array[int]":
        """Ids of the subjects that match a pattern, in no order."""
        return self.order.find(pattern, self.names, self.counts)

    def forget_subject(self, sid: int) -> None:
        """Remove a subject that has no message left; its id is not given out again."""
        del self.ids[self.names[sid]]
        self.firsts[sid] = self.lasts[sid] = NO_SEQUENCE

    def messages_of(self, ids: Iterable[int]) -> int:
        """The number of messages of some subjects together."""
        return sum(map(self.counts.__getitem__, ids))

    def renumbered(self) -> "tuple[SubjectTable, array[int]]":
        """A table without the subjects that are gone, and the new ids by the old ones."""
        fresh = SubjectTable()
        new_ids = array("I", bytes(4 * len(self.names)))
        # In the order of the old ids, as they were put in.
        for number, sid in enumerate(self.ids.values()):
            new_ids[sid] = number
        kept = array("I", self.ids.values())
        fresh.names = list(self.ids)
        fresh.ids = {name: number for number, name in enumerate(fresh.names)}
        fresh.firsts = array("Q", map(self.firsts.__getitem__, kept))
        fresh.lasts = array("Q", map(self.lasts.__getitem__, kept))
        fresh.counts = array("I", map(self.counts.__getitem__, kept))
        fresh.order = self.order
        fresh.order.renumber(new_ids, fresh.names, self.counts)
        return fresh, new_ids
