"""Results of jobs and checks as text and JSON: values in, text out."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich.text import Text

from headwater.base.quantities import duration_text
from headwater.cli.pipeline.checks import Check
from headwater.cli.pipeline.jobs import UnionResult
from headwater.cli.shell.render import ERROR_STYLE, NUMBER_STYLE, body_fields, size_text
from headwater.cli.shell.sections import TITLE_STYLE
from headwater.cli.shell.tables import Column, Columns, one_line
from headwater.spark.jobs.pipeline_file import Job

GOOD_STYLE: Final = "green"
ROW_COLUMNS: Final = (
    Column("sequence"),
    Column("time", is_text=True),
    Column("subject", is_text=True),
    Column("data", is_text=True, can_shrink=True),
)


def result_text(title: str, result: Any) -> Text:
    """A job's figures under its name."""
    text = Text()
    text.append(title, TITLE_STYLE)
    rows = [
        (label_of(name), value_text(name, value))
        for name, value in fields_of(result).items()
        if value is not None and value != () and value != {}
    ]
    width = max((len(label) for label, _ in rows), default=0)
    for label, value in rows:
        text.append(f"\n  {label}:{' ' * (width - len(label))}  ", NUMBER_STYLE)
        text.append(one_line(value))
    return text


def fields_of(result: Any) -> dict[str, Any]:
    """A result's figures by name, in its own order."""
    return {each.name: getattr(result, each.name) for each in dataclasses.fields(result)}


def label_of(name: str) -> str:
    """`messages_written` as `Messages written`; the unit goes to the value."""
    words = name.removesuffix("_s").removesuffix("_bytes").replace("_", " ")
    return words[:1].upper() + words[1:]


def value_text(name: str, value: Any) -> str:
    """A figure for a person."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return size_text(value) if name.endswith("bytes") else f"{value:,}"
    if isinstance(value, float):
        return duration_text(value) if is_duration(name) else f"{value:,.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text('', each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(value_text("", each) for each in value)
    return str(value)


def is_duration(name: str) -> bool:
    """Whether a figure is a time in seconds."""
    return name == "seconds" or name.endswith("_s")


def outcome_json(job: Job, result: Any, was_stopped: bool) -> str:
    """A job's figures for a program."""
    fields: dict[str, Any] = {"job": job.name, "kind": job.kind, "stopped": was_stopped}
    figures = {} if result is None else fields_of(result)
    return json.dumps(fields | figures, ensure_ascii=False, default=str)


# --- checks -------------------------------------------------------------------------------------


def checks_text(checks: Sequence[Check]) -> Text:
    """A line for each check, with advice on the failed ones."""
    width = max(len(check.what) for check in checks)
    lines = []
    for check in checks:
        line = Text("ok   " if check.failure is None else "NO   ")
        line.stylize(GOOD_STYLE if check.failure is None else ERROR_STYLE)
        line.append(f"{check.what.ljust(width)}  ")
        if check.failure is None:
            line.append(check.answer, NUMBER_STYLE)
        else:
            line.append(check.failure.problem)
            if check.failure.advice:
                line.append(f". {check.failure.advice}", NUMBER_STYLE)
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)


def checks_json(path: str, checks: Sequence[Check]) -> str:
    """The checks of a file for a program."""
    return json.dumps(
        {
            "file": path,
            "ok": all(check.failure is None for check in checks),
            "checks": [
                {"what": check.what, "ok": check.failure is None}
                | ({"answer": check.answer} if check.answer else {})
                | (
                    {"error": check.failure.problem, "advice": check.failure.advice}
                    if check.failure
                    else {}
                )
                for check in checks
            ],
        },
        ensure_ascii=False,
    )


# --- rows ---------------------------------------------------------------------------------------


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Messages as a table."""
    table = Columns(ROW_COLUMNS)
    for row in rows:
        table.add(
            f"{row['sequence']:,}",
            time_text(row["timestamp"]),
            str(row["subject"]),
            bytes(row["data"] or b"").decode("utf-8", "surrogateescape"),
        )
    return table


def union_json(result: UnionResult) -> str:
    """The figures of a union for a program."""
    fields = fields_of(result)
    return json.dumps({name: value for name, value in fields.items() if name not in ("rows", "to")})


def row_json(row: Mapping[str, Any]) -> str:
    """A message for a program; as `headwater sub --json` has it."""
    fields: dict[str, Any] = {
        "sequence": row["sequence"],
        "subject": row["subject"],
        "time": time_text(row["timestamp"]),
    }
    if row["headers"]:
        fields["headers"] = row["headers"]
    return json.dumps(fields | body_fields(bytes(row["data"] or b"")), ensure_ascii=False)


def time_text(moment: datetime) -> str:
    """A row's time; the session's zone is UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
