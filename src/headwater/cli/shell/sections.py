"""Titled sections and differences in texts about streams, consumers and accounts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from headwater.base.quantities import duration_text
from headwater.cli.shell.render import NUMBER_STYLE, count_text
from headwater.cli.shell.settings import SettingsTable
from headwater.cli.shell.tables import one_line
from headwater.cli.shell.units import NANOSECONDS_PER_SECOND
from headwater.client.api.replicas import Replica, ReplicaGroup

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


def cluster_rows(cluster: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The servers that keep a stream or a consumer; empty for a server outside a cluster."""
    group = ReplicaGroup.of(cluster)
    if not group.is_clustered:
        return []
    rows = [("Name", group.cluster), ("Leader", group.leader or "none at the moment")]
    rows += [("Replica", replica_text(each)) for each in group.followers]
    if group.change is not None:
        rows.append(("Change under way", group.change or "begun"))
    return rows


def replica_text(replica: Replica) -> str:
    """A follower in words: `s3, not current, seen 2s ago, 6 operations behind`."""
    if replica.is_offline:
        state = "offline"
    elif replica.is_current:
        state = "current"
    else:
        state = "not current"
    lag = f", {count_text(replica.lag, 'operation')} behind" if replica.lag else ""
    seen = f"seen {rounded_text(replica.seen_ns)} ago" if replica.seen_ns else "not seen yet"
    return f"{replica.name}, {state}, {seen}{lag}"


def rounded_text(duration_ns: int) -> str:
    """A duration as a person reads it, in one unit."""
    return duration_text(duration_ns / NANOSECONDS_PER_SECOND)


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
