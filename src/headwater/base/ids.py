"""Identifiers as NATS writes them: digits and letters, random or derived from a name."""

from hashlib import sha256
from typing import Final

from headwater.base.entropy import Entropy

LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def base62(entropy: Entropy, size: int) -> str:
    """An identifier of `size` characters, each equally likely."""
    return "".join(LETTERS[entropy.below(len(LETTERS))] for _ in range(size))


def hash62(name: str, size: int) -> str:
    """The identifier of `size` characters that always stands for a name."""
    digest = sha256(name.encode(errors="surrogateescape")).digest()
    return "".join(LETTERS[byte % len(LETTERS)] for byte in digest[:size])
