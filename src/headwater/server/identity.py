"""Ids and nonces that a server makes up.

A server id has 56 letters, as clients and tools expect. Its form is that of a NATS public key: a
prefix byte that makes the first letter `N`, 32 bytes, and a checksum of both, in base 32. The id of
an event has the form of a NUID: 22 letters and digits.
"""

import base64
import binascii
from typing import Final

from headwater.base.entropy import Entropy
from headwater.base.ids import base62

_SERVER_PREFIX: Final = 13 << 3
_KEY_BYTES: Final = 32
_EVENT_ID_LENGTH: Final = 22
_NONCE_BYTES: Final = 11


def new_server_id(entropy: Entropy) -> str:
    """A fresh server id."""
    body = bytes([_SERVER_PREFIX]) + entropy.random_bytes(_KEY_BYTES)
    checksum = binascii.crc_hqx(body, 0)
    return base64.b32encode(body + checksum.to_bytes(2, "little")).decode()


def new_event_id(entropy: Entropy) -> str:
    """A fresh event id."""
    return base62(entropy, _EVENT_ID_LENGTH)


def new_nonce(entropy: Entropy) -> str:
    """A fresh text for a client to sign, in the form of nats-server's."""
    return base64.urlsafe_b64encode(entropy.random_bytes(_NONCE_BYTES)).decode().rstrip("=")
