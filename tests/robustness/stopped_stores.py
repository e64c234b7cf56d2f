"""Stores that are stopped in the middle: how their files are encoded, and how a failure is told."""

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.store.disk.cipher import Cipher, ServerKey, StretchingCost
from headwater.store.disk.encoding import Encoding
from headwater.testing.disk import SimDisk

CHEAP = StretchingCost(1, 1, 1)
SERVER_KEY = ServerKey("correct horse", None, Cipher.AES_GCM, CHEAP)
ENCODINGS = {
    "plain": Encoding(),
    "compressed": Encoding(compresses=True),
    "encrypted": Encoding(True, SERVER_KEY, Cipher.CHACHA20_POLY1305),
}


@contextmanager
def told_in_full(disk: SimDisk, what: str) -> Iterator[None]:
    """Print the crash point and the operations of the disk if a check fails."""
    try:
        yield
    except BaseException:
        print(what)
        print(disk.history(80))
        raise
