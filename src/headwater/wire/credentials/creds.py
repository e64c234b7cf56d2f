"""The texts of seed files and .creds files: where the key and the JWT stand in them.

A seed file has a seed on a line of its own. A .creds file has a JWT, by which an account says who
the user is, and the seed that proves it. Both may have comments and frames of dashes around them.

Invariant: no message, `repr` or exception here holds a seed, a JWT or a part of one.

Must not know: options, connections, where a text was read from.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from headwater.wire.credentials.nkeys import KeyKind, KeyPair, NkeyError

# Shorter words in capitals are somebody's comment, not a damaged seed.
_SEED: Final = "S[A-Z2-7]{20,}"
_SEED_LINE: Final = re.compile(rf"^[ \t]*({_SEED})[ \t\r]*$", re.MULTILINE)
LIKE_A_SEED: Final = re.compile(_SEED, re.IGNORECASE)
"""A text that may be a seed, perhaps with a typing error: messages do not quote it."""
_JWT_LINE: Final = re.compile(r"^[ \t]*([\w-]+\.[\w-]+\.[\w-]+)[ \t\r]*$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class Credentials:
    """The contents of a .creds file: the user's JWT, signed by an account, and the user's key."""

    jwt: str = field(repr=False)
    key: KeyPair


def user_key(text: str) -> KeyPair:
    """The user's key in a seed file: the seed alone, or between dashes, or after comments."""
    found = _SEED_LINE.search(text)
    if found is None:
        raise NkeyError("there is no seed (SU…) in it")
    return _of_a_user(KeyPair.from_seed(found[1]))


def parse_credentials(text: str) -> Credentials:
    """Read the contents of a .creds file. Raises NkeyError."""
    jwt = _JWT_LINE.search(text)
    if jwt is None:
        raise NkeyError("there is no JWT in it")
    return Credentials(jwt[1], user_key(text))


def _of_a_user(key: KeyPair) -> KeyPair:
    if key.kind is not KeyKind.USER:
        raise NkeyError(
            f"it is the seed of another kind ({key.kind.name.lower()}), not a user's (SU…)"
        )
    return key
