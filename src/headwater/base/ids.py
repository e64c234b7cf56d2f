"""Identifiers as NATS writes them: digits and letters, drawn by dice."""

from typing import Final

from headwater.base.entropy import Entropy

LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def base62(entropy: Entropy, size: int) -> str:
    """An identifier of so many characters, each equally likely."""
    return "".join(LETTERS[entropy.below(len(LETTERS))] for _ in range(size))
