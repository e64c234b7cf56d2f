"""Texts and JSON that all commands share: values in, text out. Prints nothing.

Text for people is a `rich.text.Text`, which carries its colours beside the characters: the same
value is written in colour to a terminal and plainly to a pipe. Text for programs is JSON, one
object per line.
"""

import base64
import json
from collections.abc import Mapping
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headwater.base.quantities import size_text as size_text
from headwater.cli.shell.exits import CommandFailed

SUBJECT_STYLE: Final = "bold cyan"
NUMBER_STYLE: Final = "dim"
HEADER_STYLE: Final = "green"
ERROR_STYLE: Final = "bold red"

# Everything a terminal would act on rather than show. Line feed and tab are text.
_CONTROL_ESCAPES: Final = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}


def printable(data: bytes) -> str:
    """A body that is safe to show: bytes outside UTF-8 and control characters are escaped."""
    return data.decode("utf-8", "backslashreplace").translate(_CONTROL_ESCAPES)


def count_text(count: int, noun: str) -> str:
    """`1 message`, `1,234 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def failure_text(failure: CommandFailed) -> Text:
    """The problem of a failure, and its advice."""
    text = Text()
    text.append("Error: ", ERROR_STYLE)
    text.append(failure.problem)
    if failure.advice:
        text.append(f"\n{failure.advice}")
    return text


def versions_table(versions: Mapping[str, str]) -> RenderableType:
    """Names and versions in two columns, the first row being us."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style=SUBJECT_STYLE)
    table.add_column()
    for name, version in versions.items():
        table.add_row(name, version)
    return table


def body_fields(data: bytes) -> dict[str, object]:
    """`data` when the body is text, `data_base64` when it is not."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode("ascii")}


def failure_json(failure: CommandFailed) -> str:
    """A failure for a program."""
    fields = {"error": failure.problem, "advice": failure.advice, "exit_code": int(failure.code)}
    return json.dumps(fields, ensure_ascii=False)


def versions_json(versions: Mapping[str, str]) -> str:
    """Names and versions for a program."""
    return json.dumps(dict(versions))
