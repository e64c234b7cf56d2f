"""Write the module of JetStream's error codes from the list of them.

    python tools/jetstream_errors.py [--check]

The list is `errors.json` beside the module: one row per error, as clients may see it. With --check
nothing is written; exit code 1 if the module is not what the list makes of it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Final, TypedDict

PACKAGE: Final = Path(__file__).resolve().parent.parent / "src" / "headwater" / "jetstream"
LIST: Final = PACKAGE / "errors.json"
MODULE: Final = PACKAGE / "error_codes.py"
LINE_LENGTH: Final = 100

HEAD: Final = '''"""Every error of the JetStream API by its name.

Generated from errors.json by tools/jetstream_errors.py; change the list, not this file. Numbers
from 10900 on are ours: nats-server counts up from below.
"""

from typing import Final

from headwater.jetstream.errors import ErrorCode

'''


class Row(TypedDict):
    """One error of the list."""

    name: str
    code: int
    err_code: int
    description: str


def module_text(rows: list[Row]) -> str:
    """The module for `rows`, formatted as `ruff format` would."""
    return HEAD + "".join(map(_constant, rows))


def _constant(row: Row) -> str:
    # A text with double quotes in it is the rare case that `ruff format` puts in single ones.
    text = row["description"]
    literal = repr(text) if '"' in text else json.dumps(text, ensure_ascii=False)
    head = f"{row['name']}: Final = ErrorCode("
    arguments = f"{row['code']}, {row['err_code']}, {literal}"
    if len(f"{head}{arguments})") <= LINE_LENGTH:
        return f"{head}{arguments})\n"
    if len(f"    {arguments}") <= LINE_LENGTH:
        return f"{head}\n    {arguments}\n)\n"
    parts = "".join(f"    {part},\n" for part in (row["code"], row["err_code"], literal))
    return f"{head}\n{parts})\n"


def main() -> int:
    """Write the module, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description="generate headwater.jetstream.error_codes")
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    wanted = module_text(json.loads(LIST.read_text(encoding="utf-8")))
    if not parser.parse_args().check:
        MODULE.write_text(wanted, encoding="utf-8")
        return 0
    if MODULE.exists() and MODULE.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{MODULE.name} is not what {LIST.name} makes of it; run {Path(__file__).name}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
