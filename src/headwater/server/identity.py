"""Names of servers: 56 letters, as clients and tools expect them of a NATS server.

The form is that of a NATS public key: a prefix byte that makes the first letter `N`, 32 bytes, and
a checksum of both, in base 32.
"""

import base64
import binascii
from typing import Final

from headwater.base.entropy import Entropy

_SERVER_PREFIX: Final = 13 << 3
_KEY_BYTES: Final = 32


def new_server_id(entropy: Entropy) -> str:
    """A fresh server id."""
    body = bytes([_SERVER_PREFIX]) + entropy.random_bytes(_KEY_BYTES)
    checksum = binascii.crc_hqx(body, 0)
    return base64.b32encode(body + checksum.to_bytes(2, "little")).decode()
