"""Readers of configuration values: a draft per section, readers for values, tables for keys.

A table has a handler for every key of a section; `server.configuration.keys` has the tables. A key
that cannot be read is reported with its place and does not hide the errors of the keys after it.

This module knows value types, durations and addresses. It must not know any key.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, TypeAlias

from headwater.base.clock import NS_PER_S
from headwater.go.durations import parse_duration
from headwater.go.numbers import format_float
from headwater.go.quoting import quote
from headwater.server.configuration.parser import Value

_PORT: Final = re.compile(r"[+-]?[0-9]{1,9}")


class Refusal(Exception):
    """A value that is refused, and the reason. It never leaves the reading of a configuration."""

    def __init__(self, node: Value, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


class Draft:
    """The values that were read of one section, and the errors of the whole file."""

    __slots__ = ("errors", "values", "warnings")

    def __init__(self, errors: list[str], warnings: list[str]) -> None:
        # Named as the fields of the options class the section becomes.
        self.values: dict[str, Any] = {}
        self.errors = errors
        self.warnings = warnings

    def section(self) -> "Draft":
        """A draft for a section inside this one."""
        return Draft(self.errors, self.warnings)

    def read(
        self, nodes: Mapping[str, Value], table: "Table", unknown: str = "unknown field {key}"
    ) -> None:
        """Read each key by its handler in `table`. Keys that variables refer to may be unknown."""
        for key, node in nodes.items():
            handler = table.get(key.lower())
            with self.collecting():
                if handler is not None:
                    handler(self, key, node)
                elif not node.is_variable:
                    raise Refusal(node, unknown.format(key=quote(key)))

    def warn(self, key: str, node: Value, reason: str) -> None:
        """Note a value that works and is probably a mistake."""
        self.warnings.append(f"{node.where()}: invalid use of field {quote(key)}: {reason}")

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Turn a refusal into an entry of the list of errors."""
        try:
            yield
        except Refusal as refusal:
            self.errors.append(f"{refusal.node.where()}: {refusal.reason}")


Handler: TypeAlias = Callable[[Draft, str, Value], None]
Reader: TypeAlias = Callable[[Value], Any]
Table: TypeAlias = Mapping[str, Handler]


def table(*rows: tuple[str, Handler]) -> Table:
    """A table from rows of `"name alias alias", handler`."""
    return {name: handler for names, handler in rows for name in names.split()}


# --- values ------------------------------------------------------------------------------------


def type_name(node: Value) -> str:
    """The type of a value, as Go's `%T` names it."""
    value = node.value
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    if isinstance(value, datetime):
        return "time.Time"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"


def value_text(node: Value) -> str:
    """A value, as Go's `%v` prints it; of containers only what they are."""
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} +0000 UTC"
    if isinstance(value, dict):
        return "a map"
    return "an array" if isinstance(value, list) else str(value)


def _mismatch(node: Value, wanted: str) -> Refusal:
    return Refusal(node, f"interface conversion: interface {{}} is {type_name(node)}, not {wanted}")


def string(node: Value) -> str:
    """A string."""
    if not isinstance(node.value, str):
        raise _mismatch(node, "string")
    return node.value


def integer(node: Value) -> int:
    """An integer; true and false are none."""
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        raise _mismatch(node, "int64")
    return node.value


def boolean(node: Value) -> bool:
    """True or false, which the language also spells yes, on, no and off."""
    if not isinstance(node.value, bool):
        raise _mismatch(node, "bool")
    return node.value


def mapping(node: Value) -> dict[str, Value]:
    """A map."""
    if not isinstance(node.value, dict):
        raise _mismatch(node, "map[string]interface {}")
    return node.value


def duration_s(node: Value, text: str, complaint: str) -> float:
    """Seconds of a duration such as `2m`; `complaint` comes before the reason of a refusal."""
    try:
        return parse_duration(text) / NS_PER_S
    except ValueError as error:
        raise Refusal(node, f"{complaint} {error}") from error


def strings(node: Value, what: str) -> list[str]:
    """One string or an array of them."""
    value = node.value
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise Refusal(node, f"error parsing {what}: unsupported type {type_name(node)}")
    found = []
    for item in value:
        if not isinstance(item.value, str):
            raise Refusal(
                item, f"error parsing {what}: unsupported type in array {type_name(item)}"
            )
        found.append(item.value)
    return found


def address(node: Value) -> tuple[str, int]:
    """`port` or `host:port`. The host is empty where none was given."""
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        return "", node.value
    if not isinstance(node.value, str):
        raise Refusal(node, f"expected port or host:port, got {type_name(node)}")
    parts = split_host_port(node.value)
    if parts is None:
        raise Refusal(node, f"could not parse address string {quote(node.value)}")
    host, port = parts
    if not _PORT.fullmatch(port):
        raise Refusal(node, f"could not parse port {quote(port)}")
    return host, int(port)


def split_host_port(text: str) -> tuple[str, str] | None:
    """Host and port of `host:port` or `[host]:port`; None where the text is neither."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not rest.startswith(":"):
            return None
        port = rest[1:]
    else:
        host, colon, port = text.rpartition(":")
        if not colon or ":" in host:
            return None
    if any(char in host + port for char in "[]") or ":" in port:
        return None
    return host, port


# --- what a key can do -------------------------------------------------------------------------


def put(name: str, reader: Reader) -> Handler:
    """Keep the value under `name`."""

    def handler(draft: Draft, key: str, node: Value) -> None:
        draft.values[name] = reader(node)

    return handler


def put_unless_zero(name: str, reader: Reader) -> Handler:
    """Keep the value under `name`; a zero or empty value leaves the default."""

    def handler(draft: Draft, key: str, node: Value) -> None:
        value = reader(node)
        if value:
            draft.values[name] = value

    return handler


def put_size(name: str, limit: int) -> Handler:
    """Keep a size of at most `limit` under `name`; zero leaves the default."""

    def handler(draft: Draft, key: str, node: Value) -> None:
        value = integer(node)
        if value > limit:
            raise Refusal(node, f"{key} value is too big")
        if value:
            draft.values[name] = value

    return handler


def put_duration(name: str) -> Handler:
    """Keep a duration under `name`. Bare numbers are seconds, and warned about."""

    def handler(draft: Draft, key: str, node: Value) -> None:
        if isinstance(node.value, str):
            seconds = duration_s(node, node.value, f"error parsing {key.lower()}:")
        else:
            field = key.lower()
            draft.warn(field, node, f"{field} should be converted to a duration")
            seconds = float(integer(node))
        if seconds:
            draft.values[name] = seconds

    return handler


def not_supported(advice: str = "") -> Handler:
    """Refuse a key of nats-server that this server does not honour, naming it."""

    def handler(draft: Draft, key: str, node: Value) -> None:
        raise Refusal(node, f"{quote(key)} is not supported" + (f"; {advice}" if advice else ""))

    return handler
