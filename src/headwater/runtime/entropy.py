"""Random numbers of the operating system."""

import os
import random


class SystemEntropy:
    """Entropy protocol on the operating system's generator."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))

    def random_bytes(self, count: int) -> bytes:
        """Bytes from the operating system."""
        return os.urandom(count)

    def below(self, limit: int) -> int:
        """A fair number in `range(limit)`."""
        return self._random.randrange(limit)
