"""Filters of a query as narrower reads: fewer sequences, less time, fewer subjects.

Off unless the option `pushdown` asks for it, for two reasons. Spark refuses a reader that accepts
filters if its configuration `spark.sql.python.filterPushdown.enabled` is off. And Spark 4.3 keeps a
plan with filters in the loaded table, where the next query on the same DataFrame finds it, whatever
its own filters: with `pushdown`, each query needs a `load()` of its own, and so do the two sides of
a join. Only batch reads get filters.

A pushed filter only narrows the read, which may include more rows than the filter wants; Spark
applies every filter again. So an unknown filter is harmless, and so is one that subjects cannot
express exactly, like a prefix that ends within a token.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from headwater.client.api.answers import StreamInfo
from headwater.client.link.connection import Connection
from headwater.client.link.reads.counts import sequence_at
from headwater.spark.objects import meta_subject
from headwater.spark.options import SourceOptions
from headwater.spark.read.source import SourceReader
from headwater.subjects.grammar import collide, is_subset, is_valid_literal

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS_PER_US: Final = 1_000
# A row's text for bytes that are not UTF-8 has escapes in it, which no subject has.
_ESCAPE: Final = "\\"
# More patterns than this cost a server more than they save.
_PATTERNS_MAX: Final = 64


@dataclass(frozen=True)
class Narrowing:
    """The result of all filters: bounds, the last one excluded; patterns, None for all."""

    sequence_min: int = 0
    sequence_end: int | None = None
    time_min_ns: int | None = None
    time_end_ns: int | None = None
    patterns: tuple[str, ...] | None = None

    def from_sequence(self, sequence: int) -> "Narrowing":
        return replace(self, sequence_min=max(self.sequence_min, sequence))

    def before_sequence(self, sequence: int) -> "Narrowing":
        end = sequence if self.sequence_end is None else min(self.sequence_end, sequence)
        return replace(self, sequence_end=end)

    def from_time(self, time_ns: int) -> "Narrowing":
        least = time_ns if self.time_min_ns is None else max(self.time_min_ns, time_ns)
        return replace(self, time_min_ns=least)

    def before_time(self, time_ns: int) -> "Narrowing":
        end = time_ns if self.time_end_ns is None else min(self.time_end_ns, time_ns)
        return replace(self, time_end_ns=end)

    def among(self, patterns: Iterable[str]) -> "Narrowing":
        mine = tuple(dict.fromkeys(patterns))
        if len(mine) > _PATTERNS_MAX:
            return self
        return replace(self, patterns=mine if self.patterns is None else meet(self.patterns, mine))


def meet(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns for the subjects that both sets of patterns cover, or a few more."""
    found: dict[str, None] = {}
    for mine in one:
        for yours in other:
            if is_subset(yours.encode(), mine.encode()):
                found[yours] = None
            elif collide(mine.encode(), yours.encode()):
                # If neither covers the other, a pattern cannot express more than one of them.
                found[mine] = None
    # Servers refuse patterns of which one covers another.
    return tuple(
        each
        for each in found
        if not any(other != each and is_subset(each.encode(), other.encode()) for other in found)
    )


def narrowed(options: SourceOptions, filters: Iterable[Filter]) -> Narrowing:
    """The part to read after filters that all have to hold."""
    narrowing = Narrowing()
    for each in filters:
        attribute = getattr(each, "attribute", None)
        if attribute is None or len(attribute) != 1:
            continue
        column, value = attribute[0], getattr(each, "value", None)
        if column in ("sequence", "revision"):
            narrowing = _by_sequence(narrowing, each, value)
        elif column == "timestamp":
            narrowing = _by_time(narrowing, each, value)
        elif column in ("subject", "key", "name"):
            narrowing = _by_text(narrowing, each, value, _Texts(options, column))
    return narrowing


def _by_sequence(narrowing: Narrowing, filter_: Filter, value: Any) -> Narrowing:
    match filter_:
        case EqualTo() | EqualNullSafe() if isinstance(value, int):
            return narrowing.from_sequence(value).before_sequence(value + 1)
        case GreaterThan() if isinstance(value, int):
            return narrowing.from_sequence(value + 1)
        case GreaterThanOrEqual() if isinstance(value, int):
            return narrowing.from_sequence(value)
        case LessThan() if isinstance(value, int):
            return narrowing.before_sequence(value)
        case LessThanOrEqual() if isinstance(value, int):
            return narrowing.before_sequence(value + 1)
        case In() if value and all(isinstance(each, int) for each in value):
            return narrowing.from_sequence(min(value)).before_sequence(max(value) + 1)
        case _:
            return narrowing


def _by_time(narrowing: Narrowing, filter_: Filter, value: Any) -> Narrowing:
    """A row's time is cut to microseconds: it stands for the thousand nanoseconds from there on."""
    if not isinstance(value, datetime):
        return narrowing
    # Spark passes moments as local times without a zone.
    moment = value.astimezone(UTC)
    time_ns = (moment - _EPOCH) // timedelta(microseconds=1) * _NS_PER_US
    match filter_:
        case EqualTo() | EqualNullSafe():
            return narrowing.from_time(time_ns).before_time(time_ns + _NS_PER_US)
        case GreaterThan() | GreaterThanOrEqual():
            return narrowing.from_time(time_ns)
        case LessThan():
            return narrowing.before_time(time_ns)
        case LessThanOrEqual():
            return narrowing.before_time(time_ns + _NS_PER_US)
        case _:
            return narrowing


@dataclass(frozen=True)
class _Texts:
    """The conversion of texts of a column to patterns of subjects."""

    options: SourceOptions
    column: str

    def literal(self, value: str) -> str | None:
        if self.column == "name":
            return meta_subject(self.options.name, value)
        subject = self._prefix() + value
        return subject if _is_told_as_it_is(subject) else None

    def starting_with(self, value: str) -> str | None:
        """The complete tokens of a prefix, and anything after them."""
        if self.column == "name":
            return None
        whole, dot, _ = (self._prefix() + value).rpartition(".")
        return f"{whole}.>" if dot and _is_told_as_it_is(whole) else None

    def _prefix(self) -> str:
        return f"$KV.{self.options.name}." if self.column == "key" else ""


def _by_text(narrowing: Narrowing, filter_: Filter, value: Any, texts: _Texts) -> Narrowing:
    match filter_:
        case EqualTo() | EqualNullSafe() if isinstance(value, str):
            patterns = [texts.literal(value)]
        case In() if value and all(isinstance(each, str) for each in value):
            patterns = [texts.literal(each) for each in value]
        case StringStartsWith() if isinstance(value, str):
            patterns = [texts.starting_with(value)]
        case _:
            return narrowing
    sure = [pattern for pattern in patterns if pattern is not None]
    return narrowing.among(sure) if len(sure) == len(patterns) else narrowing


def _is_told_as_it_is(subject: str) -> bool:
    """Whether a server can be asked for this text, and no other subject shows as it in a row."""
    plain = _ESCAPE not in subject and not any(map(str.isspace, subject))
    return plain and is_valid_literal(subject.encode())


class PushdownReader(SourceReader):
    """A batch read that is narrowed by the filters of the query."""

    _narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the read, and return all filters: Spark still applies each."""
        self._narrowing = narrowed(self.options, filters)
        return filters

    def bounds(self, connection: Connection, info: StreamInfo) -> tuple[int, int]:
        first, last = super().bounds(connection, info)
        narrowing = self._narrowing
        first = max(first, narrowing.sequence_min)
        if narrowing.sequence_end is not None:
            last = min(last, narrowing.sequence_end - 1)
        if narrowing.time_min_ns is not None:
            first = max(first, sequence_at(connection, info, narrowing.time_min_ns))
        if narrowing.time_end_ns is not None:
            last = min(last, sequence_at(connection, info, narrowing.time_end_ns) - 1)
        return first, last

    def subjects(self) -> tuple[str, ...] | None:
        given, wanted = super().subjects(), self._narrowing.patterns
        if wanted is None:
            return given
        return (meet(given, wanted) if given else wanted) or None
