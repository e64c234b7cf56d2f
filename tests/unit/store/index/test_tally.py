"""The running checksum of what was stored in a log, and of what left it."""

import pytest

from headwater.store.disk.format import encode_messages
from headwater.store.index.tally import SHORT_BYTES, Tally

SEED = 7


def records(*payloads: bytes) -> tuple[bytes, list[int]]:
    count = len(payloads)
    return encode_messages(1, [b"s.a"] * count, [b""] * count, [*payloads], [9] * count, SEED)


@pytest.mark.parametrize("before", [[], [b"one"], [b"one", b"other"]])
@pytest.mark.parametrize("size", [3, 4, 2 * SHORT_BYTES])
def test_one_bit_of_a_record_changes_the_tally(before: list[bytes], size: int) -> None:
    ours, theirs = Tally(), Tally()
    payload = bytes(size)
    ours.store(*records(*before, payload))
    theirs.store(*records(*before, payload[:-1] + b"\x01"))
    assert ours.take() != theirs.take()


def test_the_order_of_what_is_stored_counts() -> None:
    ours, theirs = Tally(), Tally()
    ours.store_contents(([b""], [b"one"]))
    ours.store_contents(([b""], [b"two"]))
    theirs.store_contents(([b""], [b"two"]))
    theirs.store_contents(([b""], [b"one"]))
    assert ours.take() != theirs.take()


def test_the_order_of_what_leaves_does_not_count() -> None:
    ours, theirs = Tally(), Tally()
    ours.remove([1, 5, 2])
    theirs.remove([2])
    theirs.remove([5, 1])
    assert ours.take() == theirs.take()


def test_each_message_that_leaves_counts() -> None:
    ours, theirs = Tally(), Tally()
    ours.remove([1, 5])
    theirs.remove([1])
    assert ours.take() != theirs.take()


def test_a_tally_begins_anew_when_it_is_taken() -> None:
    tally = Tally()
    tally.store(*records(b"x"))
    tally.remove([(1 << 64) - 1, 3])
    stored, removed = tally.take()
    assert stored
    assert removed == 2
    assert tally.take() == (0, 0)
