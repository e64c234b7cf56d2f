"""Digests of a stream at agreed entries."""

import pytest

from headwater.jetstream.streams import digests
from headwater.jetstream.streams.digests import (
    DIGEST_BYTES,
    KEPT_MAX,
    Digest,
    Digests,
    decode_digest,
    encode_digest,
)
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

ENTRIES = 4


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "ENTRIES", ENTRIES)


class Replica:
    """A log with digests, to which entries of one message each are applied."""

    def __init__(self, index: int = 0) -> None:
        self.log = MemoryLog(1)
        self.formed: list[int] = []
        self.digests = Digests(self.log, index, lambda: self.formed.append(self.kept[-1].entry))

    @property
    def kept(self) -> list[Digest]:
        return [*self.digests.kept]

    def apply(self, index: int, payload: bytes = b"m") -> None:
        self.log.append(Batch([b"s.a"], [b""], [payload], [index]))
        self.digests.applied(index)

    def apply_all(self, begin: int, end: int) -> None:
        for index in range(begin, end):
            self.apply(index)


def test_a_digest_has_the_totals_and_the_entries_behind_the_one_before() -> None:
    replica = Replica()
    replica.apply_all(1, 7)
    replica.log.delete([2])
    replica.apply_all(7, 10)
    (digest,) = replica.kept
    assert digest[:7] == (4, 8, 1, 8, 7, replica.log.size_of(1) * 7, 1)
    assert digest.removed == 2
    assert replica.formed == [8]


def test_an_interval_that_was_not_applied_as_a_whole_has_no_digest() -> None:
    replica = Replica(index=5)
    replica.apply_all(6, 12)
    assert replica.kept == []
    replica.apply(12)
    assert [(each.since, each.entry) for each in replica.kept] == [(8, 12)]


def test_an_entry_without_data_is_no_agreed_one() -> None:
    follower, leader = Replica(), Replica()
    for index in range(1, 14):
        if index in (4, 8, 9):
            # A leader does not see it, or sees it with others.
            for each in (follower, leader):
                each.digests.pass_over(index)
            follower.digests.applied(index)
        else:
            follower.apply(index)
            leader.apply(index)
    assert [(each.since, each.entry) for each in leader.kept] == [(5, 10), (10, 12)]
    assert follower.kept == leader.kept


def test_digests_of_other_entries_are_not_comparable() -> None:
    one = Digest(4, 8, 1, 8, 8, 300, 1, 5, 0)
    assert one.is_comparable(one._replace(stored=6))
    assert not one.is_comparable(one._replace(since=5))
    assert not one.is_comparable(one._replace(entry=9))


def test_what_differs_is_named() -> None:
    one = Digest(4, 8, 1, 8, 8, 300, 1, 5, 0)
    other = one._replace(byte_count=301, removed=7)
    assert one.differences(other) == ["byte count 300 and 301", "removed 0 and 7"]


def test_the_last_digests_are_kept() -> None:
    replica = Replica()
    replica.apply_all(1, ENTRIES * (KEPT_MAX + 4))
    assert len(replica.kept) == KEPT_MAX
    assert replica.kept[-1].entry == ENTRIES * (KEPT_MAX + 3)


def test_digests_that_end_count_nothing() -> None:
    replica = Replica()
    replica.apply_all(1, 10)
    replica.digests.end()
    assert replica.log.index.tally is None
    assert replica.kept == []
    replica.apply_all(10, 20)
    assert replica.formed == [8]


def test_a_digest_is_read_as_it_was_told() -> None:
    digest = Digest(*((1 << 64) - each for each in range(1, 10)))
    data = encode_digest(digest)
    assert len(data) == DIGEST_BYTES
    assert decode_digest(b"x" + data, 1) == digest
