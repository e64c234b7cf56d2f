"""Numbers in the range and the spelling of Go."""

from decimal import Decimal
from typing import Final

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)


def format_float(number: float) -> str:
    """A float as `%v` and JSON print it: shortest digits, exponents only when far from one."""
    if number != 0 and not 1e-6 <= abs(number) < 1e21:
        return repr(number).replace("e-0", "e-")
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
