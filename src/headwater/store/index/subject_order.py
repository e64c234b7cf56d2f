"""Subjects sorted by name: finds those that match a pattern without looking at all others.

Subjects are kept sorted by name, as short arrays of ids one after the other: 4 bytes a subject. The
text of a pattern before its first wildcard is a range of them; within the range, arrays that lie
between two names that may match are stepped over.

New subjects cost nothing when they appear. They are sorted in by the next lookup, a part at a time
if there are very many, and the rest is looked through one by one: so no lookup has to wait until
ten million subjects are sorted. Subjects that are gone are left out when their array is rewritten.

Names are compared as bytes, in which a dot is not the lowest: `a-b` is before `a.b`.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, compress
from typing import Any, Final, final

from headwater.subjects.grammar import FULL, SEPARATOR, STAR, matches

# An array that becomes longer than this is divided; new ones are half as long.
LEAF_IDS_MAX: Final = 1024
# This many new subjects are sorted in at once, or this part of them where that is more.
ABSORBED_MIN: Final = 16_384
ABSORBED_PART: Final = 4
# Inserting one subject costs as much as writing so many again.
INSERTION_COST: Final = 32

# Preparing a pattern for many names costs as much as comparing it with this many.
PREPARED_FOR_MIN: Final = 64

_AFTER_SEPARATOR: Final = bytes([SEPARATOR[0] + 1])


@final
class SubjectPattern:
    """A pattern, prepared for looking at many subjects; agrees with `grammar.matches`."""

    __slots__ = ("_fixed_count", "_match", "_prefix", "_tokens", "high", "is_range", "low", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        tokens = text.split(SEPARATOR)
        self._tokens = tokens
        self._fixed_count = _fixed_count(tokens)
        is_literal = self._fixed_count == len(tokens)
        prefix = text if is_literal else SEPARATOR.join([*tokens[: self._fixed_count], b""])
        self._prefix = prefix
        # Names that match are from `low` on and, if `high` is not empty, before `high`.
        self.low = prefix
        self.high = (
            text + b"\0" if is_literal else prefix[:-1] + _AFTER_SEPARATOR if prefix else b""
        )
        # Whether everything in that range matches.
        self.is_range = tokens[self._fixed_count :] == [FULL]
        self._match: Callable[[bytes], object] | None = None

    def test_for(self, count: int) -> Callable[[bytes], object]:
        """The test that tells of each of `count` names whether it matches."""
        if self._match is None and count < PREPARED_FOR_MIN:
            return partial(matches, self.text)
        return self.match

    @property
    def match(self) -> Callable[[bytes], object]:
        """The test that tells of any number of names whether they match."""
        if self._match is None:
            tokens = self._tokens
            parts = [b"[^.]*" if token == STAR else re.escape(token) for token in tokens]
            if tokens[-1] == FULL:
                parts[-1] = b".*"
            self._match = re.compile(rb"\.".join(parts), re.DOTALL).fullmatch
        return self._match

    def candidate(self, name: bytes) -> bytes:
        """A name not after the first match from `name` on: names before it need no look."""
        if not name.startswith(self._prefix):
            return name
        wanted, given = self._tokens, name.split(SEPARATOR)
        for position in range(self._fixed_count, min(len(wanted), len(given))):
            want = wanted[position]
            if want == FULL and position == len(wanted) - 1:
                return name
            if want in (STAR, given[position]):
                continue
            stem = SEPARATOR.join(given[:position])
            found = stem + SEPARATOR + want
            if name < found:
                return found
            # Longer tokens may stand between this one alone and what continues it.
            found += SEPARATOR
            return found if name < found else stem + _AFTER_SEPARATOR
        if len(given) > len(wanted):
            return SEPARATOR.join(given[: len(wanted)]) + _AFTER_SEPARATOR
        return name


def _fixed_count(tokens: list[bytes]) -> int:
    """The number of tokens before the first wildcard."""
    for position, token in enumerate(tokens):
        if token == STAR or (token == FULL and position == len(tokens) - 1):
            return position
    return len(tokens)


@final
class PatternTree:
    """Many patterns, with which a name is compared in one pass; agrees with `grammar.matches`."""

    __slots__ = ("_root",)

    def __init__(self, texts: Iterable[bytes]) -> None:
        # By token; the end of a pattern is below None.
        self._root: dict[bytes | None, Any] = {}
        for text in texts:
            node = self._root
            tokens = text.split(SEPARATOR)
            for token in tokens:
                node = node.setdefault(token, {})
            node[None] = True

    def match(self, name: bytes) -> bool:
        """Whether a pattern covers a name."""
        nodes = [self._root]
        for token in name.split(SEPARATOR):
            following = []
            for node in nodes:
                full = node.get(FULL)
                if full is not None and None in full:
                    return True
                for each in {STAR, token}:
                    child = node.get(each)
                    if child is not None:
                        following.append(child)
            if not following:
                return False
            nodes = following
        return any(None in node for node in nodes)


@final
class SubjectOrder:
    """Ids of subjects in the order of their names.

    Names, and how many messages each subject has, belong to the table of subjects and are given
    with every call; a subject without messages is gone.
    """

    __slots__ = ("_firsts", "_leaves", "absorbed")

    def __init__(self) -> None:
        self._leaves: list[array[int]] = []
        # The name that each array begins with.
        self._firsts: list[bytes] = []
        # Ids from this one on are not sorted in yet.
        self.absorbed = 0

    def find(
        self, pattern: SubjectPattern, names: list[bytes], counts: "array[int]"
    ) -> "array[int]":
        """Ids of the subjects that match and have messages, in no order."""
        waiting = len(names) - self.absorbed
        if waiting:
            self.absorb(max(ABSORBED_MIN, waiting // ABSORBED_PART), names, counts)
        found = self._find_sorted(pattern, names)
        match = pattern.test_for(len(names) - self.absorbed)
        for sid in range(self.absorbed, len(names)):
            name = names[sid]
            if name.startswith(pattern.low) and match(name):
                found.append(sid)
        return array("I", compress(found, map(counts.__getitem__, found)))

    def looked_at(self, pattern: SubjectPattern, count: int) -> int:
        """The number of subjects, of `count`, to look at in order to find those that match."""
        low = max(bisect_left(self._firsts, pattern.low) - 1, 0)
        high = bisect_left(self._firsts, pattern.high) if pattern.high else len(self._firsts)
        return (high - low) * LEAF_IDS_MAX + count - self.absorbed

    def _find_sorted(self, pattern: SubjectPattern, names: list[bytes]) -> "array[int]":
        low, high = pattern.low, pattern.high
        found = array("I")
        place = max(bisect_left(self._firsts, low) - 1, 0)
        while place < len(self._leaves):
            first = self._firsts[place]
            if high and first >= high:
                break
            leaf = self._leaves[place]
            last = names[leaf[-1]]
            target = first if pattern.is_range else pattern.candidate(first)
            if target > last:
                place = max(bisect_left(self._firsts, target) - 1, place + 1)
                continue
            if first < low or (high and last >= high):
                begin = bisect_left(leaf, low, key=names.__getitem__)
                end = bisect_left(leaf, high, key=names.__getitem__) if high else len(leaf)
                leaf = leaf[begin:end]
            if pattern.is_range:
                found.extend(leaf)
            else:
                hits = map(pattern.test_for(len(leaf)), map(names.__getitem__, leaf))
                found.extend(array("I", compress(leaf, hits)))
            place += 1
        return found

    def absorb(self, count_max: int, names: list[bytes], counts: "array[int]") -> None:
        """Sort in up to `count_max` of the subjects that are not sorted yet."""
        begin, end = self.absorbed, min(self.absorbed + count_max, len(names))
        fresh = list(compress(range(begin, end), counts[begin:end]))
        fresh.sort(key=names.__getitem__)
        self.absorbed = end
        if len(fresh) * INSERTION_COST < len(self._leaves) * LEAF_IDS_MAX // 2:
            self._merge(fresh, names, counts)
            return
        everything = list(chain.from_iterable(self._leaves))
        everything = list(compress(everything, map(counts.__getitem__, everything)))
        # Two sorted parts are merged in one pass.
        everything += fresh
        everything.sort(key=names.__getitem__)
        self._write(array("I", everything), names)

    def renumber(self, new_ids: "array[int]", names: list[bytes], counts: "array[int]") -> None:
        """Take over new ids, given in the order of the old ones; `counts` are those of the old.

        `names` are by new id.
        """
        self.absorbed -= counts[: self.absorbed].count(0)
        everything = array("I", chain.from_iterable(self._leaves))
        live = compress(everything, map(counts.__getitem__, everything))
        self._write(array("I", map(new_ids.__getitem__, live)), names)

    def _write(self, ids: "array[int]", names: list[bytes]) -> None:
        size = LEAF_IDS_MAX // 2
        self._leaves = [ids[begin : begin + size] for begin in range(0, len(ids), size)]
        self._firsts = [names[leaf[0]] for leaf in self._leaves]

    def _merge(self, fresh: list[int], names: list[bytes], counts: "array[int]") -> None:
        """Put subjects, sorted by name, into the arrays they belong to."""
        begin = 0
        while begin < len(fresh):
            place = max(bisect_right(self._firsts, names[fresh[begin]]) - 1, 0)
            end = len(fresh)
            if place + 1 < len(self._firsts):
                above = self._firsts[place + 1]
                end = bisect_left(fresh, above, begin, key=names.__getitem__)
            leaf = self._leaves[place]
            if end - begin < INSERTION_COST:
                for sid in fresh[begin:end]:
                    leaf.insert(bisect_right(leaf, names[sid], key=names.__getitem__), sid)
            else:
                leaf = array("I", sorted([*leaf, *fresh[begin:end]], key=names.__getitem__))
            self._replace(place, leaf, names, counts)
            begin = end

    def _replace(
        self, place: int, leaf: "array[int]", names: list[bytes], counts: "array[int]"
    ) -> None:
        """Replace the ids of an array, by several arrays if they are too many."""
        parts = [leaf]
        if len(leaf) > LEAF_IDS_MAX:
            kept = array("I", compress(leaf, map(counts.__getitem__, leaf)))
            size = LEAF_IDS_MAX // 2
            parts = [kept[begin : begin + size] for begin in range(0, len(kept), size)]
        self._leaves[place : place + 1] = parts
        self._firsts[place : place + 1] = [names[part[0]] for part in parts]
