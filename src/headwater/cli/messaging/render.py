"""Messages and tallies as text for people and as JSON for programs. Prints nothing."""

import json
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headwater.base.quantities import duration_text
from headwater.cli.messaging.messages import Message, StreamTally, Tally
from headwater.cli.shell.render import (
    HEADER_STYLE,
    NUMBER_STYLE,
    SUBJECT_STYLE,
    body_fields,
    count_text,
    printable,
    size_text,
)


def message_text(
    number: int, message: Message, elapsed_s: float | None = None, with_body: bool = True
) -> Text:
    """A received message for a person: one line about it, its headers, its body."""
    text = Text()
    text.append(f"[#{number}]", NUMBER_STYLE)
    text.append(" Received on ")
    text.append(message.subject, SUBJECT_STYLE)
    if message.reply:
        text.append(" with reply ")
        text.append(message.reply, SUBJECT_STYLE)
    if elapsed_s is not None:
        text.append(f" after {duration_text(elapsed_s)}")
    for name, value in message.headers.items():
        text.append(f"\n{printable(name.encode())}", HEADER_STYLE)
        text.append(f": {printable(value.encode())}")
    if with_body:
        if message.headers:
            text.append("\n")
        text.append(f"\n{printable(message.data)}\n")
    return text


def answered_text(number: int, request: Message, response: Message) -> Text:
    """One line for a request that `headwater reply` has handled."""
    text = Text()
    text.append(f"[#{number}]", NUMBER_STYLE)
    text.append(" Request on ")
    text.append(request.subject, SUBJECT_STYLE)
    text.append(f" ({size_text(len(request.data))})")
    if request.reply:
        text.append(f" answered with {size_text(len(response.data))}")
    else:
        text.append(" asked for no reply")
    return text


def summary_text(verb: str, tally: Tally) -> Text:
    """The line a command ends with."""
    text = Text(f"{verb} {count_text(tally.messages, 'message')}")
    text.append(f", {size_text(tally.data_bytes)}")
    text.append(rate_text(tally.messages, tally.seconds))
    if tally.dropped:
        text.append(f"; {count_text(tally.dropped, 'message')} lost here, too fast to show")
    return text


def rate_text(messages: int, seconds: float) -> str:
    """The rate of several messages; empty for one message."""
    if messages < 2 or seconds <= 0:
        return ""
    return f", in {duration_text(seconds)} ({messages / seconds:,.0f} per second)"


def stored_text(tally: StreamTally) -> Text:
    """The messages that streams have confirmed, and their sequences."""
    text = Text(f"Stored {count_text(tally.stored, 'message')}")
    places = []
    for stream, (first, last) in tally.sequences.items():
        sequences = f"sequence {first:,}" if first == last else f"sequences {first:,} to {last:,}"
        places.append(f"stream {stream}, {sequences}")
    text.append(f" in {'; '.join(places)}" if places else "")
    text.append(rate_text(tally.stored, tally.seconds))
    if tally.duplicates:
        text.append(f"; {count_text(tally.duplicates, 'duplicate')} of what was stored before")
    return text


def round_trips(elapsed_s: Sequence[float]) -> RenderableType:
    """The spread of several replies' round trips, for a person."""
    ordered = sorted(elapsed_s)
    table = Table("replies", "fastest", "median", "slowest", box=None, pad_edge=False)
    middle = ordered[len(ordered) // 2]
    table.add_row(
        f"{len(ordered):,}", *(duration_text(s) for s in (ordered[0], middle, ordered[-1]))
    )
    return Group("", table)


def message_json(number: int, message: Message, elapsed_s: float | None = None) -> str:
    """A received message for a program. A body that is not UTF-8 is under `data_base64`."""
    fields: dict[str, object] = {"number": number, "subject": message.subject}
    if message.reply:
        fields["reply"] = message.reply
    if message.headers:
        fields["headers"] = dict(message.headers)
    if elapsed_s is not None:
        fields["elapsed_ms"] = round(elapsed_s * 1e3, 3)
    return json.dumps(fields | body_fields(message.data), ensure_ascii=False)


def answered_json(number: int, request: Message, response: Message) -> str:
    """A handled request for a program."""
    fields: dict[str, object] = {
        "number": number,
        "subject": request.subject,
        "answered": bool(request.reply),
        "request": body_fields(request.data),
        "response": body_fields(response.data),
    }
    return json.dumps(fields, ensure_ascii=False)


def tally_json(verb: str, tally: Tally) -> str:
    """The outcome of a whole command for a program."""
    return json.dumps(tally_fields(verb, tally))


def tally_fields(verb: str, tally: Tally) -> dict[str, object]:
    """The figures that every command counts."""
    return {
        verb: tally.messages,
        "bytes": tally.data_bytes,
        "seconds": round(tally.seconds, 6),
        "interrupted": tally.interrupted,
    }


def stored_json(tally: StreamTally) -> str:
    """The answers of streams for a program."""
    fields = tally_fields("published", tally) | {
        "stored": tally.stored,
        "duplicates": tally.duplicates,
        "refused": tally.refused,
        "unanswered": tally.unanswered,
        "reason": tally.reason or None,
        "streams": [
            {"stream": stream, "first_sequence": first, "last_sequence": last}
            for stream, (first, last) in tally.sequences.items()
        ],
    }
    return json.dumps(fields, ensure_ascii=False)
