"""The source of random numbers, which a seed can replay for a whole server."""

from typing import Protocol


class Entropy(Protocol):
    """A source of random bytes and of fair choices."""

    def random_bytes(self, count: int) -> bytes:
        """Return `count` random bytes, fit for identifiers and nonces."""
        ...

    def below(self, limit: int) -> int:
        """Return a number in `range(limit)`; fair, but not for secrets."""
        ...
