"""Numbers, sizes and durations as text for people, on the command line and in reports.

Three significant digits, never scientific notation. A size is counted in powers of 1024, as servers
count it in their own configuration; a duration has the largest unit in which it is one or more.
"""

import math
from typing import Final

_SIZE_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
_SECONDS_PER_UNIT: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_SHORTEST: Final = ("us", 1e-6)
# The limit of digits after the point for a number near zero.
_DECIMALS_MAX: Final = 9


def number_text(value: float) -> str:
    """`0.25`, `12.5`, `123`, `12,345`."""
    magnitude = abs(value)
    # From each of these values on, rounding would add a digit in front.
    if magnitude >= 99.95:
        return f"{value:,.0f}"
    if magnitude >= 9.995:
        decimals = 1
    elif magnitude >= 0.9995 or magnitude == 0:
        decimals = 2
    else:
        decimals = min(2 - math.floor(math.log10(magnitude)), _DECIMALS_MAX)
    text = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def size_text(size_bytes: float) -> str:
    """`512 B`, `1.5 KiB`, `20.0 MiB`."""
    if abs(size_bytes) < 1024:
        return f"{number_text(size_bytes).replace(',', '')} B"
    size = float(size_bytes)
    for unit in _SIZE_UNITS:
        size /= 1024
        if abs(size) < 1024 or unit == _SIZE_UNITS[-1]:
            break
    return f"{size:.1f} {unit}"


def duration_text(seconds: float) -> str:
    """`12.5us`, `250ms`, `1.5m`, `2d`."""
    if seconds == 0:
        return "0s"
    fitting = (each for each in _SECONDS_PER_UNIT.items() if abs(seconds) >= each[1])
    unit, unit_s = next(fitting, _SHORTEST)
    return f"{number_text(seconds / unit_s)}{unit}"
