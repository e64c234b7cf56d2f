"""Streams and stored messages as text and JSON. Values in, text out."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich.text import Text

from headwater.cli.shell.render import (
    HEADER_STYLE,
    NUMBER_STYLE,
    SUBJECT_STYLE,
    body_fields,
    count_text,
    printable,
    size_text,
)
from headwater.cli.shell.sections import TITLE_STYLE, append_section, cluster_rows
from headwater.cli.shell.tables import Column, Columns, one_line
from headwater.cli.shell.units import age_text, time_text
from headwater.cli.streams.copies import copies_of, copy_row
from headwater.cli.streams.settings import SETTINGS
from headwater.client.api.replicas import Replica, ReplicaGroup
from headwater.client.api.requests import Document

DELETED_RANGES_SHOWN_MAX: Final = 20
# The first line of stored headers is the version, and of a status.
HEADER_VERSION: Final = b"NATS/1.0"

FIGURES: Final = ("messages", "bytes", "subjects", "deleted", "lost", "consumers")
SORT_KEYS: Final = ("name", *FIGURES)


def held_text(messages: int, size_bytes: int) -> str:
    """`3 messages (300 B)`."""
    return f"{count_text(messages, 'message')} ({size_text(size_bytes)})"


def streams_table(streams: Sequence[Document], now: datetime) -> Columns:
    """A line for each stream."""
    is_clustered = any(ReplicaGroup.of(info.get("cluster")).is_clustered for info in streams)
    replicas = (Column("replicas", is_text=True),) if is_clustered else ()
    table = Columns(
        (
            Column("name", is_text=True),
            Column("subjects", is_text=True, can_shrink=True),
            *replicas,
            Column("messages"),
            Column("size"),
            Column("last message"),
            Column("consumers"),
        )
    )
    for info in sorted(streams, key=stream_name):
        config, state = info["config"], info["state"]
        table.add(
            config["name"],
            origin_text(config),
            *([replicas_text(info)] if is_clustered else []),
            f"{state['messages']:,}",
            size_text(state["bytes"]),
            age_text(state["last_ts"], now),
            f"{state['consumer_count']:,}",
        )
    return table


def origin_text(config: Mapping[str, Any]) -> str:
    """The origin of a stream's messages."""
    origins = list(config.get("subjects") or [])
    if mirror := config.get("mirror"):
        origins.append(f"(mirror of {mirror.get('name')})")
    if sources := config.get("sources"):
        origins.append(f"(from {', '.join(str(each.get('name')) for each in sources)})")
    return ", ".join(origins)


def report_table(streams: Sequence[Document], sort: str, is_reversed: bool) -> Columns:
    """All streams in figures, with totals."""
    table = Columns(
        (
            Column("name", is_text=True, can_shrink=True),
            Column("storage", is_text=True),
            Column("replicas", is_text=True, can_shrink=True),
            *(Column("size" if name == "bytes" else name) for name in FIGURES),
            Column("first"),
            Column("last"),
        )
    )
    totals = dict.fromkeys(FIGURES, 0)
    for info in sorted_streams(streams, sort, is_reversed):
        state = info["state"]
        row = figures(state)
        for name, figure in row.items():
            totals[name] += figure
        table.add(
            info["config"]["name"],
            info["config"]["storage"],
            replicas_text(info),
            *figure_texts(row),
            f"{state['first_seq']:,}",
            f"{state['last_seq']:,}",
        )
    name = count_text(len(streams), "stream")
    table.totals = (name, "", "", *figure_texts(totals), "", "")
    return table


def figures(state: Mapping[str, Any]) -> dict[str, int]:
    """The figures of a stream that can be added up."""
    return {
        "messages": state["messages"],
        "bytes": state["bytes"],
        "subjects": state.get("num_subjects", 0),
        "deleted": state.get("num_deleted", 0),
        "lost": len((state.get("lost") or {}).get("msgs") or []),
        "consumers": state["consumer_count"],
    }


def sorted_streams(streams: Sequence[Document], sort: str, is_reversed: bool) -> list[Document]:
    """By name, or by a figure with the largest first; `is_reversed` turns either round."""
    by_name = sorted(streams, key=stream_name, reverse=is_reversed and sort == "name")
    if sort == "name":
        return by_name
    return sorted(by_name, key=lambda info: figures(info["state"])[sort], reverse=not is_reversed)


def stream_name(info: Document) -> str:
    """The name of a stream."""
    return str(info["config"]["name"])


def figure_texts(row: Mapping[str, int]) -> list[str]:
    """Figures as they are shown, sizes as sizes."""
    return [size_text(each) if name == "bytes" else f"{each:,}" for name, each in row.items()]


def replicas_text(info: Mapping[str, Any]) -> str:
    """The servers of a stream, its leader first and marked; outside a cluster, their number."""
    group = ReplicaGroup.of(info.get("cluster"))
    if not group.is_clustered:
        return str(info["config"]["num_replicas"])
    leader = f"{group.leader}*" if group.leader else "(no leader)"
    return ", ".join([leader, *(marked(each) for each in group.followers)])


def marked(replica: Replica) -> str:
    """The name of a replica, with a mark if it is not current."""
    return replica.name + ("!" if replica.problem else "")


def info_text(info: Document, now: datetime, promises: Sequence[tuple[str, str]] = ()) -> Text:
    """A stream in sections."""
    config = info["config"]
    text = Text("Stream ", TITLE_STYLE)
    text.append(one_line(config["name"]), SUBJECT_STYLE)
    text.append(f", created {time_text(info['created'])} ({age_text(info['created'], now)})\n")
    for section in SETTINGS.sections:
        append_section(text, section, SETTINGS.shown(config, section))
    append_section(text, "Promises on these servers", promises)
    append_section(text, "State", state_rows(info["state"], now))
    append_section(text, "Cluster", cluster_rows(info.get("cluster")))
    append_section(text, "Copies from", [copy_row(copy) for copy in copies_of(info)])
    text.rstrip()
    return text


def state_rows(state: Mapping[str, Any], now: datetime) -> list[tuple[str, str]]:
    """The state of a stream."""
    rows = [
        ("Messages", f"{state['messages']:,}"),
        ("Size", size_text(state["bytes"])),
        ("First", sequence_text(state["first_seq"], state["first_ts"], now)),
        ("Last", sequence_text(state["last_seq"], state["last_ts"], now)),
        ("Subjects", f"{state.get('num_subjects', 0):,}"),
        ("Consumers", f"{state['consumer_count']:,}"),
    ]
    if deleted := state.get("num_deleted"):
        rows.append(("Deleted", f"{deleted:,}"))
    if sequences := state.get("deleted"):
        rows.append(("Deleted ones", ranges_text(sequences)))
    if lost := state.get("lost"):
        rows.append(("Lost", held_text(len(lost.get("msgs") or []), lost.get("bytes", 0))))
    return rows


def sequence_text(sequence: int, time: str, now: datetime) -> str:
    """A sequence and when it was given out."""
    ago = age_text(time, now)
    return f"{sequence:,}" if ago == "never" else f"{sequence:,} at {time_text(time)} ({ago})"


def ranges_text(sequences: Sequence[int]) -> str:
    """`2, 5 to 9 and 3 more ranges`."""
    ranges: list[list[int]] = []
    for sequence in sorted(sequences):
        if ranges and sequence == ranges[-1][1] + 1:
            ranges[-1][1] = sequence
        else:
            ranges.append([sequence, sequence])
    shown = [
        f"{first:,}" if first == last else f"{first:,} to {last:,}"
        for first, last in ranges[:DELETED_RANGES_SHOWN_MAX]
    ]
    more = len(ranges) - len(shown)
    return ", ".join(shown) + (f" and {count_text(more, 'more range')}" if more else "")


def subjects_table(subjects: Mapping[str, int]) -> Columns:
    """Subjects and how many messages each has, most first."""
    table = Columns((Column("subject", is_text=True, can_shrink=True), Column("messages")))
    for subject, messages in sorted(subjects.items(), key=lambda each: (-each[1], each[0])):
        table.add(subject, f"{messages:,}")
    return table


def stored_headers(message: Mapping[str, Any]) -> dict[str, list[str]]:
    """The headers of a stored message: a name may come more than once."""
    headers: dict[str, list[str]] = {}
    block = decoded(message.get("hdrs", ""))
    for line in block.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and not line.startswith(HEADER_VERSION):
            text = value.strip().decode("utf-8", "backslashreplace")
            headers.setdefault(name.decode("utf-8", "backslashreplace"), []).append(text)
    return headers


def stored_data(message: Mapping[str, Any]) -> bytes:
    """The payload of a stored message."""
    return decoded(message.get("data", ""))


def decoded(text: str | None) -> bytes:
    """The bytes of a base64 text; none of a text that is not base64."""
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b""


def stored_text(message: Mapping[str, Any], now: datetime) -> Text:
    """A stored message: a line about it, its headers, its payload."""
    text = Text(f"[#{message['seq']}]", NUMBER_STYLE)
    text.append(" Stored on ")
    text.append(one_line(message["subject"]), SUBJECT_STYLE)
    text.append(f" at {time_text(message['time'])} ({age_text(message['time'], now)})")
    headers = stored_headers(message)
    for name, values in headers.items():
        for value in values:
            text.append(f"\n{one_line(name)}", HEADER_STYLE)
            text.append(f": {one_line(value)}")
    if headers:
        text.append("\n")
    return text.append(f"\n{printable(stored_data(message))}")


def stored_fields(stream: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """A stored message for a program, decoded."""
    return {
        "stream": stream,
        "subject": message["subject"],
        "sequence": message["seq"],
        "time": message["time"],
        "headers": stored_headers(message),
        **body_fields(stored_data(message)),
    }
