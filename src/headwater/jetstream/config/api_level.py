"""The level of the JetStream API that a request may ask for."""

import re
from typing import Final

# The level of nats-server 2.15.
API_LEVEL: Final = 5

# A number as Go parses it: a sign, zeros, and digits, at most this many for 64 bits.
_NUMBER: Final = re.compile(rb"([+-]?)0*([0-9]*)")
_DIGITS_MAX: Final = 19


def exceeds_level(value: bytes) -> bool:
    """Whether a header `Nats-Required-Api-Level` asks for a higher level, or is not a number."""
    found = _NUMBER.fullmatch(value)
    if found is None or not value[-1:].isdigit() or len(found[2]) > _DIGITS_MAX:
        return True
    return found[1] != b"-" and int(found[2] or b"0") > API_LEVEL
