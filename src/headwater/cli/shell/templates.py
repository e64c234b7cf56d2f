"""Small templates in messages, as the `nats` tool writes them: `{{Count}}` or `{{.Count}}`.

A name that is not in the given values is left as it stands: a body that happens to contain two
braces is a body, not an error.
"""

import re
from collections.abc import Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{\{\s*\.?([A-Za-z]+)\s*\}\}")


def expand(text: str, values: Mapping[str, str]) -> str:
    """`text` with every known placeholder replaced, once: values are not expanded again."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
