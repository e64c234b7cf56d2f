"""Durations as people type them: `2`, `1.5s`, `500ms`, `2m`, `1h`."""

import re
from typing import Final

from headwater.base.quantities import duration_text as duration_text

SECONDS_PER_UNIT: Final = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)?")


def parse_duration_s(text: str) -> float:
    """Seconds from `text`; a bare number is seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write 2s, 500ms, 1.5m or 1h")
    return float(match[1]) * SECONDS_PER_UNIT[match[2] or ""]
