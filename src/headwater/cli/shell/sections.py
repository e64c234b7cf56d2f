"""Titled sections and differences in texts about streams, consumers and accounts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from headwater.cli.shell.render import NUMBER_STYLE, count_text
from headwater.cli.shell.settings import SettingsTable
from headwater.cli.shell.tables import one_line
from headwater.cli.shell.units import duration_ns_text

TITLE_STYLE: Final = "bold"
REMOVED_STYLE: Final = "red"
ADDED_STYLE: Final = "green"


def append_section(text: Text, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Append a title and its rows; nothing without rows."""
    if not rows:
        return
    text.append(f"\n{title}\n", TITLE_STYLE)
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        text.append(f"  {label}:{' ' * (width - len(label))}  ", NUMBER_STYLE)
        text.append(f"{one_line(value)}\n")


def cluster_rows(cluster: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The servers that keep a stream or a consumer; empty for a server outside a cluster."""
    rows = []
    if "name" in cluster:
        rows.append(("Name", str(cluster["name"])))
        rows.append(("Leader", str(cluster.get("leader") or "none at the moment")))
    for replica in cluster.get("replicas") or []:
        state = "current" if replica.get("current") else "behind"
        if replica.get("offline"):
            state = "offline"
        lag = f", {count_text(replica['lag'], 'operation')} behind" if replica.get("lag") else ""
        active = duration_ns_text(replica.get("active", 0))
        rows.append(("Replica", f"{replica.get('name')}, {state}, seen {active} ago{lag}"))
    return rows


def differences_text(table: SettingsTable, differences: Mapping[str, tuple[Any, Any]]) -> Text:
    """The changes of an edit, a line for each setting."""
    width = max(len(key) for key in differences)
    lines = []
    for key, (before, after) in differences.items():
        line = Text(f"  {key.ljust(width)}  ")
        line.append(one_line(table.value_text(key, before)), REMOVED_STYLE)
        line.append(" -> ").append(one_line(table.value_text(key, after)), ADDED_STYLE)
        lines.append(line)
    return Text("\n").join(lines)
