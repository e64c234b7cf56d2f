"""Nkeys: the ed25519 keys of NATS users, accounts and servers.

A key is written as base32 without padding: a prefix that says what it is, 32 bytes, and a CRC-16
that catches typing errors. A public key has one prefix byte; a seed has two, of which the first
five bits say "seed" and the next eight say whose. The prefixes are chosen so that the text tells a
reader the same: `U…` is a user's public key, `SU…` the seed it comes from.

Invariant: no message, `repr` or exception here holds a seed or a part of one.

Must not know: options, connections, where a text was read from.
"""

import base64
import binascii
import re
from enum import Enum
from typing import Final, final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from headwater.base.errors import OperatingError

_SEED_PREFIX: Final = 18 << 3
_SEED_PREFIX_BYTES: Final = 2
_KEY_BYTES: Final = 32
_CRC_BYTES: Final = 2
SEED_CHARS: Final = 58
"""The length of every seed as text."""

_BASE32: Final = re.compile("[A-Z2-7]+")


class NkeyError(OperatingError):
    """A key or a text with one is not what it should be. The message never quotes it."""


class KeyKind(Enum):
    """The kind of owner of a key; the value is the prefix byte of the public key."""

    ACCOUNT = 0 << 3
    CLUSTER = 2 << 3
    SERVER = 13 << 3
    OPERATOR = 14 << 3
    USER = 20 << 3
    CURVE = 23 << 3


@final
class KeyPair:
    """A seed, ready to sign. Only the public half can be seen."""

    __slots__ = ("_key", "kind", "public")

    def __init__(self, kind: KeyKind, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.kind = kind
        self.public = _encoded(bytes([kind.value]) + self._key.public_key().public_bytes_raw())

    @classmethod
    def from_seed(cls, text: str) -> "KeyPair":
        """Read `S…` as people copy it. Raises NkeyError."""
        data = _decoded(text.strip())
        if len(data) != _SEED_PREFIX_BYTES + _KEY_BYTES or data[0] & 0xF8 != _SEED_PREFIX:
            raise NkeyError("this is not a seed: a seed begins with S and has 58 characters")
        try:
            kind = KeyKind((data[0] & 0x07) << 5 | data[1] >> 3)
        except ValueError:
            raise NkeyError("the seed is of no known kind") from None
        if kind is KeyKind.CURVE:
            raise NkeyError("the seed is for encryption (SX…), it cannot sign")
        return cls(kind, data[_SEED_PREFIX_BYTES:])

    def sign(self, data: bytes) -> bytes:
        """The ed25519 signature, 64 bytes."""
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"KeyPair({self.public})"


def is_public_key(text: str, kind: KeyKind) -> bool:
    """Whether a text is the public key of such an owner."""
    try:
        data = _decoded(text)
    except NkeyError:
        return False
    return len(data) == 1 + _KEY_BYTES and data[0] == kind.value


def is_signed_by(public_key: str, data: bytes, signature: bytes) -> bool:
    """Whether the owner of a public key has signed the data; False for a text that is no key."""
    try:
        key = Ed25519PublicKey.from_public_bytes(_decoded(public_key)[1:])
        key.verify(signature, data)
    except (NkeyError, ValueError, InvalidSignature):
        return False
    return True


def _encoded(data: bytes) -> str:
    crc = binascii.crc_hqx(data, 0).to_bytes(_CRC_BYTES, "little")
    return base64.b32encode(data + crc).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Prefix and key, the checksum tested and taken off."""
    if not _BASE32.fullmatch(text):
        raise NkeyError("it is not base32: only A to Z and 2 to 7 may be in it")
    try:
        data = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        raise NkeyError("its length is wrong: a character is missing or too many") from None
    body, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    if binascii.crc_hqx(body, 0).to_bytes(_CRC_BYTES, "little") != crc:
        raise NkeyError("its checksum is wrong: a character is missing or mistyped")
    return body
