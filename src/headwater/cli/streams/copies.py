"""The copies that streams are: who copies whom, and how far each copy is. Values in, text out.

A copy is one mirror or one source of a stream. Its state comes from the information of the stream
that copies; one that has no leader at the moment tells its settings alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headwater.cli.shell.origins import details_text
from headwater.cli.shell.render import count_text
from headwater.cli.shell.sections import rounded_text
from headwater.cli.shell.tables import Column, Columns
from headwater.client.api.requests import Document

MIRROR: Final = "mirror"
SOURCE: Final = "source"
STREAM_NOT_FOUND: Final = 10059
# Of the settings, those by which an origin is reached are told as the place.
_SHOWN: Final = ("filter_subject", "subject_transforms", "opt_start_seq", "opt_start_time")
# The lines of advice about missing origins; a list that is longer than a screen helps nobody.
ADVICE_LINES_MAX: Final = 5


@dataclass(frozen=True)
class Copy:
    """One origin of one stream. `api` is the prefix of an origin elsewhere, empty for one here.

    `lag` and `active_ns` are None where the server did not tell, and `active_ns` is -1 before the
    first sign of the origin.
    """

    stream: str
    kind: str
    origin: str
    api: str
    details: str
    lag: int | None
    active_ns: int | None
    err_code: int
    error: str

    @property
    def place(self) -> tuple[str, str]:
        """The origin by which two streams of one name in two places differ."""
        return self.origin, self.api

    @property
    def origin_text(self) -> str:
        """The origin for a person: `ORDERS`, or `ORDERS at $JS.hub.API`."""
        return f"{self.origin} at {self.api}" if self.api else self.origin

    @property
    def is_missing(self) -> bool:
        """Whether the server has found no such stream here."""
        return self.err_code == STREAM_NOT_FOUND and not self.api

    @property
    def state_text(self) -> str:
        """The progress: `3 messages behind, seen 2s ago`, with the error if there is one."""
        if self.lag is None or self.active_ns is None:
            return "state unknown"
        seen = seen_text(self.active_ns)
        text = f"{count_text(self.lag, 'message')} behind, {seen}"
        return f"{text}, {self.error}" if self.error else text

    @property
    def fields(self) -> dict[str, Any]:
        """The copy for a program."""
        return {
            "kind": self.kind,
            "origin": self.origin,
            "api": self.api or None,
            "details": self.details or None,
            "lag": self.lag,
            "active": self.active_ns,
            "error": self.error or None,
        }


def seen_text(active_ns: int) -> str:
    """The last sign of an origin: `seen 2s ago`."""
    return "not seen yet" if active_ns < 0 else f"seen {rounded_text(active_ns)} ago"


def copies_of(info: Document) -> list[Copy]:
    """The origins of a stream, in the order of their names."""
    config = info["config"]
    told = [(MIRROR, info["mirror"])] if info.get("mirror") else []
    told += [(SOURCE, each) for each in info.get("sources") or [] if each]
    if told:
        found = [_copy(config["name"], kind, each, is_told=True) for kind, each in told]
    else:
        named = [(MIRROR, config["mirror"])] if config.get("mirror") else []
        named += [(SOURCE, each) for each in config.get("sources") or [] if each]
        found = [_copy(config["name"], kind, each, is_told=False) for kind, each in named]
    return sorted(found, key=lambda copy: (copy.origin, copy.api, copy.details))


def _copy(stream: str, kind: str, origin: Mapping[str, Any], *, is_told: bool) -> Copy:
    external = origin.get("external") or {}
    error = origin.get("error") or {}
    return Copy(
        stream=stream,
        kind=kind,
        origin=str(origin.get("name")),
        api=str(external.get("api") or ""),
        details=details_text({key: origin[key] for key in _SHOWN if origin.get(key)}),
        lag=int(origin.get("lag", 0)) if is_told else None,
        active_ns=int(origin.get("active", -1)) if is_told else None,
        err_code=int(error.get("err_code") or 0),
        error=str(error.get("description") or "") or ("error" if error else ""),
    )


def copy_row(copy: Copy) -> tuple[str, str]:
    """A copy as a row of a section."""
    details = f" ({copy.details})" if copy.details else ""
    return copy.kind.capitalize(), f"{copy.origin_text}{details}, {copy.state_text}"


def copies_table(copies: Sequence[Copy]) -> Columns:
    """A line for each origin of each stream."""
    table = Columns(
        (
            Column("copy", is_text=True),
            Column("kind", is_text=True),
            Column("origin", is_text=True),
            Column("details", is_text=True, can_shrink=True),
            Column("lag"),
            Column("active"),
            Column("error", is_text=True, can_shrink=True),
        )
    )
    for copy in copies:
        lag = "unknown" if copy.lag is None else f"{copy.lag:,}"
        table.add(
            copy.stream,
            copy.kind,
            copy.origin_text,
            copy.details,
            lag,
            active_text(copy.active_ns),
            copy.error,
        )
    return table


def active_text(active_ns: int | None) -> str:
    """The age of the last sign of an origin, for a column."""
    if active_ns is None:
        return "unknown"
    return "never" if active_ns < 0 else f"{rounded_text(active_ns)} ago"


def missing_advice(copies: Sequence[Copy]) -> list[str]:
    """Advice on the origins that are missing, a line for each."""
    missing = {copy.origin: copy.stream for copy in reversed(copies) if copy.is_missing}
    lines = [_origin_advice(origin, copy) for origin, copy in sorted(missing.items())]
    more = len(lines) - ADVICE_LINES_MAX
    if more > 0:
        lines[ADVICE_LINES_MAX:] = [f"So it is for {count_text(more, 'more origin')}."]
    return lines


def absent_origins_advice(info: Document, names: Sequence[str]) -> list[str]:
    """Advice on the origins of a stream that are not among the `names` of all streams."""
    present = set(names)
    absent = {copy.origin for copy in copies_of(info) if not copy.api} - present
    lines = [_origin_advice(origin, info["config"]["name"]) for origin in sorted(absent)]
    return lines[:ADVICE_LINES_MAX]


def _origin_advice(origin: str, stream: str) -> str:
    return (
        f"There is no stream {origin} for {stream} to copy; copying begins once it exists. "
        f"Make it with: headwater stream add {origin}"
    )


def behind_text(info: Document) -> str:
    """The remark on a mirror that is promoted before it has all messages; empty if it has all."""
    behind = [copy for copy in copies_of(info) if copy.kind == MIRROR]
    if not behind or not (behind[0].lag or behind[0].error):
        return ""
    return (
        f"The mirror is not equal to {behind[0].origin_text}: {behind[0].state_text}. "
        "Messages that it has not copied stay with the origin."
    )
