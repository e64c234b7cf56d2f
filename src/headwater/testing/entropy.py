"""Dice that a seed decides.

Every purpose draws from dice of its own, named by a label, so that drawing once more for one
purpose (a new fault, a longer identifier) leaves all others as they were.
"""

import hashlib
import random


def labelled_dice(seed: int, *label: str | int) -> random.Random:
    """Dice for one purpose. The same seed and label give the same throws in every process."""
    name = "\0".join(str(part) for part in (seed, *label))
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))


class SeededEntropy:
    """Entropy protocol on seeded dice."""

    __slots__ = ("_dice",)

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def random_bytes(self, count: int) -> bytes:
        """`count` bytes that only the seed can foretell."""
        return self._dice.randbytes(count)

    def below(self, limit: int) -> int:
        """A fair number in `range(limit)`."""
        return self._dice.randrange(limit)
