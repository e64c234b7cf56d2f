"""The level of the JetStream API that a request may ask for."""

import re
from typing import Final

# What nats-server 2.15 has.
API_LEVEL: Final = 5

# What Go reads as a number: a sign, zeros, and digits, of which 64 bits have at most so many.
_NUMBER: Final = re.compile(rb"([+-]?)0*([0-9]*)")
_DIGITS_MAX: Final = 19


def exceeds_level(value: bytes) -> bool:
    """Whether a header `Nats-Required-Api-Level` asks for more than there is, or for nonsense."""
    found = _NUMBER.fullmatch(value)
    if found is None or not value[-1:].isdigit() or len(found[2]) > _DIGITS_MAX:
        return True
    return found[1] != b"-" and int(found[2] or b"0") > API_LEVEL
