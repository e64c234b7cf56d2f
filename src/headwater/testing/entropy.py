"""Random numbers that follow from a seed.

Every purpose has a generator of its own, named by a label, so that one more draw for one purpose (a
new fault, a longer identifier) leaves all others unchanged.
"""

import hashlib
import random


def labelled_rng(seed: int, *label: str | int) -> random.Random:
    """A generator for one purpose. Seed and label decide its numbers, in every process."""
    name = "\0".join(str(part) for part in (seed, *label))
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))


class SeededEntropy:
    """Entropy protocol on a seeded generator."""

    __slots__ = ("_rng",)

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def random_bytes(self, count: int) -> bytes:
        """`count` bytes that follow from the seed."""
        return self._rng.randbytes(count)

    def below(self, limit: int) -> int:
        """A fair number in `range(limit)`."""
        return self._rng.randrange(limit)
