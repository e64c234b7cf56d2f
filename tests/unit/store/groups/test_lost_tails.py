"""Files with entries that a server has lost to the log of its leader."""

import pytest

from headwater.store.disk.format import FormatError
from headwater.store.groups.frames import GroupEntry
from headwater.store.groups.lost_tails import decode_tail, encode_tail
from headwater.testing.entropy import labelled_rng

ENTRIES = [GroupEntry(7, 2, 0, 5, 0, b"one"), GroupEntry(8, 2, 0, -6, 0, b"")]


def test_entries_are_read_as_they_were() -> None:
    seed, entries = decode_tail(encode_tail(1 << 60, ENTRIES), "tail")
    assert (seed, entries) == (1 << 60, ENTRIES)


def test_every_damage_is_told() -> None:
    data = encode_tail(9, ENTRIES)
    for at in [*range(8), *range(16, len(data))]:
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(FormatError, match=r"^tail: "):
            decode_tail(flipped, "tail")
    whole = {16, 16 + 32 + 3, len(data)}
    for size in range(len(data)):
        if size not in whole:
            with pytest.raises(FormatError, match=r"^tail: "):
                decode_tail(data[:size], "tail")


def test_any_bytes_are_entries_or_refused() -> None:
    rng, refused = labelled_rng(1, "tails"), 0
    for _ in range(2000):
        data = encode_tail(1, ENTRIES)[: rng.randrange(60)] + rng.randbytes(rng.randrange(60))
        try:
            decode_tail(data, "tail")
        except FormatError:
            refused += 1
    assert refused > 1000
