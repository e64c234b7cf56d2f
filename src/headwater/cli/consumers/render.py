"""Consumers and deliveries as text and JSON. Values in, text out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich.text import Text

from headwater.cli.consumers.delivery import Delivery
from headwater.cli.consumers.settings import SETTINGS, is_durable, is_push, listed
from headwater.cli.shell.render import (
    HEADER_STYLE,
    NUMBER_STYLE,
    SUBJECT_STYLE,
    body_fields,
    count_text,
    printable,
)
from headwater.cli.shell.sections import TITLE_STYLE, append_section, cluster_rows
from headwater.cli.shell.tables import Column, Columns, one_line
from headwater.cli.shell.units import (
    ZERO_TIME,
    age_text,
    duration_ns_text,
    parse_time,
    time_of_ns,
    time_text,
)
from headwater.client.api.requests import Document

FIGURES: Final = ("pending", "ack_pending", "redelivered", "waiting")
SORT_KEYS: Final = ("name", *FIGURES, "unprocessed", "last_delivery")
SHARE_PERCENT_MAX: Final = 100.0


def named(info: Mapping[str, Any]) -> str:
    """`consumer C of stream S`."""
    return f"consumer {info['name']} of stream {info['stream_name']}"


def kind_text(info: Document) -> str:
    """The kind of a consumer: pull or push, and its unusual settings."""
    config = info["config"]
    words = ["push" if is_push(config) else "pull"]
    if not is_durable(config):
        words.append("ephemeral")
    if info.get("paused"):
        words.append("paused")
    return ", ".join(words)


def last_delivery(info: Document) -> str:
    """The API time of the last delivery."""
    return str(info["delivered"].get("last_active") or ZERO_TIME)


def consumers_table(consumers: Sequence[Document], now: datetime) -> Columns:
    """A line for each consumer."""
    table = Columns(
        (
            Column("name", is_text=True),
            Column("kind", is_text=True),
            Column("filter", is_text=True, can_shrink=True),
            Column("ack", is_text=True),
            Column("pending"),
            Column("ack pending"),
            Column("last delivery"),
        )
    )
    for info in sorted(consumers, key=consumer_name):
        table.add(
            info["name"],
            kind_text(info),
            ", ".join(listed(info["config"]).get("filter_subjects") or []),
            info["config"]["ack_policy"],
            f"{info['num_pending']:,}",
            f"{info['num_ack_pending']:,}",
            age_text(last_delivery(info), now),
        )
    return table


def consumer_name(info: Document) -> tuple[str, str]:
    """The full name of a consumer."""
    return str(info["stream_name"]), str(info["name"])


# --- one consumer -------------------------------------------------------------------------------


def info_text(info: Document, now: datetime) -> Text:
    """A consumer in sections."""
    text = Text("Consumer ", TITLE_STYLE)
    text.append(one_line(info["name"]), SUBJECT_STYLE)
    text.append(" of stream ").append(one_line(info["stream_name"]), SUBJECT_STYLE)
    text.append(f" ({kind_text(info)})")
    text.append(f", created {time_text(info['created'])} ({age_text(info['created'], now)})\n")
    config = listed(info["config"])
    for section in SETTINGS.sections:
        append_section(text, section, SETTINGS.shown(config, section))
    append_section(text, "State", state_rows(info, now))
    append_section(text, "Cluster", cluster_rows(info.get("cluster")))
    text.rstrip()
    return text


def state_rows(info: Document, now: datetime) -> list[tuple[str, str]]:
    """The progress of a consumer."""
    config = info["config"]
    rows = [
        ("Delivered", place_text(info["delivered"], now)),
        ("Acknowledged up to", place_text(info["ack_floor"], now)),
        ("Pending", f"{info['num_pending']:,}"),
        ("Ack pending", bounded(info["num_ack_pending"], config.get("max_ack_pending", 0))),
        ("Redelivered", f"{info['num_redelivered']:,}"),
    ]
    if is_push(config):
        rows.append(("Listened to", "yes" if info.get("push_bound") else "no"))
    else:
        rows.append(
            ("Requests waiting", bounded(info["num_waiting"], config.get("max_waiting", 0)))
        )
    if info.get("paused"):
        rows.append(("Paused", paused_text(info)))
    for group in info.get("priority_groups") or []:
        client = group.get("pinned_client_id")
        since = f" since {time_text(group.get('pinned_ts', ZERO_TIME))}" if client else ""
        rows.append((f"Group {group.get('group')}", f"pinned to {client or 'nobody'}{since}"))
    return rows


def place_text(place: Mapping[str, Any], now: datetime) -> str:
    """A place in the consumer and in the stream, and when it was reached."""
    text = f"stream sequence {place['stream_seq']:,}, consumer sequence {place['consumer_seq']:,}"
    time = place.get("last_active") or ZERO_TIME
    ago = age_text(time, now)
    return text if ago == "never" else f"{text} at {time_text(time)} ({ago})"


def bounded(count: int, limit: int) -> str:
    """A count beside the most it can be."""
    return f"{count:,} of at most {limit:,}" if limit > 0 else f"{count:,}"


def paused_text(info: Document) -> str:
    """Until when nothing is delivered."""
    remaining = duration_ns_text(rounded_to_seconds(info.get("pause_remaining", 0)))
    return f"until {time_text(info['config'].get('pause_until') or ZERO_TIME)} ({remaining} more)"


def rounded_to_seconds(duration_ns: int) -> int:
    """A duration without fractions of a second."""
    return round(duration_ns / 10**9) * 10**9


def idle_advice(info: Document) -> str:
    """The reason why a consumer delivers nothing, with advice."""
    names = f"{info['stream_name']} {info['name']}"
    config = info["config"]
    limit = config.get("max_ack_pending", 0)
    waiting = info["num_ack_pending"]
    if info.get("paused"):
        return f"It is paused {paused_text(info)}. Go on with: headwater consumer resume {names}"
    if 0 < limit <= waiting:
        return (
            f"{count_text(waiting, 'message')} wait to be acknowledged, the most it allows; "
            f"they come again after {duration_ns_text(config.get('ack_wait', 0))}."
        )
    if info["num_pending"]:
        return f"{count_text(info['num_pending'], 'message')} pending: allow more time with --wait."
    if waiting:
        return f"All is delivered; {count_text(waiting, 'message')} not acknowledged yet."
    return "All is delivered and acknowledged. Allow more time with --wait."


# --- all of them in figures ---------------------------------------------------------------------


def figures(info: Document) -> dict[str, int]:
    """The figures of a consumer that can be added up."""
    return {
        "pending": info["num_pending"],
        "ack_pending": info["num_ack_pending"],
        "redelivered": info["num_redelivered"],
        "waiting": info["num_waiting"],
    }


def unprocessed_percent(info: Document, stream_messages: int) -> float:
    """The share of its stream that a consumer has not delivered, or not had acknowledged."""
    left = info["num_pending"] + info["num_ack_pending"]
    return min(SHARE_PERCENT_MAX, 100 * left / stream_messages) if stream_messages else 0.0


def report_fields(
    consumers: Sequence[Document], messages: Mapping[str, int], sort: str, is_reversed: bool
) -> list[dict[str, Any]]:
    """A row for each consumer, sorted; `messages` has how many each stream holds."""
    rows = [
        {
            "stream": info["stream_name"],
            "name": info["name"],
            "kind": kind_text(info),
            "ack_policy": info["config"]["ack_policy"],
            **figures(info),
            "unprocessed_percent": round(
                unprocessed_percent(info, messages.get(info["stream_name"], 0)), 1
            ),
            "ack_floor": info["ack_floor"]["stream_seq"],
            "last_delivery": info["delivered"].get("last_active"),
        }
        for info in consumers
    ]
    rows.sort(key=lambda row: (row["stream"], row["name"]), reverse=is_reversed and sort == "name")
    if sort == "name":
        return rows
    # The largest and the latest first.
    return sorted(rows, key=lambda row: rank(row, sort), reverse=not is_reversed)


def rank(row: Mapping[str, Any], sort: str) -> float:
    """The sort key of a row; a missing time comes before all others."""
    if sort == "last_delivery":
        moment = parse_time(row["last_delivery"] or ZERO_TIME)
        return moment.timestamp() if moment else 0.0
    return float(row["unprocessed_percent" if sort == "unprocessed" else sort])


def report_table(rows: Sequence[Mapping[str, Any]], now: datetime, with_stream: bool) -> Columns:
    """All consumers in figures, with totals; `with_stream` where they are of several streams."""
    first = (Column("stream", is_text=True, can_shrink=True),) if with_stream else ()
    table = Columns(
        (
            *first,
            Column("name", is_text=True, can_shrink=True),
            Column("kind", is_text=True),
            Column("ack", is_text=True),
            *(Column(name.replace("_", " ")) for name in FIGURES),
            Column("unprocessed"),
            Column("ack floor"),
            Column("last delivery"),
        )
    )
    for row in rows:
        table.add(
            *([row["stream"]] if with_stream else []),
            row["name"],
            row["kind"],
            row["ack_policy"],
            *(f"{row[name]:,}" for name in FIGURES),
            f"{row['unprocessed_percent']:.1f}%",
            f"{row['ack_floor']:,}",
            age_text(row["last_delivery"] or ZERO_TIME, now),
        )
    totals = totals_of(rows)
    figure_cells = (f"{totals[name]:,}" for name in FIGURES)
    label = count_text(totals["consumers"], "consumer")
    blank = ("",) * (2 + with_stream)
    table.totals = (label, *blank, *figure_cells, "", "", "")
    return table


def totals_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The totals of the rows of a report."""
    return {"consumers": len(rows), **{name: sum(row[name] for row in rows) for name in FIGURES}}


# --- deliveries ---------------------------------------------------------------------------------


def delivery_text(number: int, delivery: Delivery, now: datetime, with_body: bool = True) -> Text:
    """A delivered message: a line about it, its headers, its payload."""
    message = delivery.message
    text = Text(f"[#{number}]", NUMBER_STYLE)
    text.append(" Received on ").append(one_line(message.subject), SUBJECT_STYLE)
    time = time_of_ns(delivery.stored_at_ns)
    text.append(f": sequence {delivery.stream_sequence:,}, stored {age_text(time, now)}")
    if delivery.deliveries > 1:
        text.append(f", delivery {delivery.deliveries:,}")
    text.append(f", {delivery.pending:,} pending")
    for name, value in message.headers.items():
        text.append(f"\n{one_line(name)}", HEADER_STYLE)
        text.append(f": {one_line(value)}")
    if with_body:
        text.append("\n" if message.headers else "")
        text.append(f"\n{printable(message.data)}\n")
    return text


def delivery_fields(number: int, delivery: Delivery) -> dict[str, Any]:
    """A delivered message for a program."""
    message = delivery.message
    return {
        "number": number,
        "subject": message.subject,
        "stream": delivery.stream,
        "consumer": delivery.consumer,
        "sequence": delivery.stream_sequence,
        "consumer_sequence": delivery.consumer_sequence,
        "delivered": delivery.deliveries,
        "pending": delivery.pending,
        "time": time_of_ns(delivery.stored_at_ns),
        "reply": message.reply,
        **({"headers": dict(message.headers)} if message.headers else {}),
        **body_fields(message.data),
    }


def doomed_text(info: Document) -> str:
    """The state that is lost with a consumer."""
    pending = count_text(info["num_pending"], "message")
    return f"{pending} not delivered and {info['num_ack_pending']:,} not acknowledged"
