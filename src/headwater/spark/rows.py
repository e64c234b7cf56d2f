"""From columns of a DataFrame to messages: the meaning of each column, and the rules for a row.

The names and types of the columns are checked once, in the driver, before a job runs (`RowShape`);
errors that only a row can show (a subject with a blank, an invalid key) are found when rows are
turned into messages, and the error names the row.

    data or value                      binary or string; the payload, null is an empty one
    subject                            string; if null or missing, the option `subject`
    headers                            map<string,string> or map<string,array<string>>
    message_id                         string; if null or missing, the sink makes one
    expected_last_sequence             a whole number: the stream's last sequence must be this
    expected_last_subject_sequence     the same for the last message of the subject
    key, operation                     buckets; operation is put (or null), delete or purge

Columns that a table of this format has for the origin of a message (stream, sequence, timestamp,
revision, for buckets also subject) are ignored, so that a table that was read can be written
unchanged. Any other column is an error: it would be lost silently.

Headers that instruct the server about a single message (`Nats-Msg-Id`, `Nats-Expected-…`,
`Nats-Batch-…`) are left out of the `headers` column; they have columns of their own. So are the
lines with the operation of a bucket's entry if there is a column for it, or they would be there
twice. A stream that gets the entries of a bucket keeps the lines that describe them
(`KV-Operation`, `Nats-Marker-Reason`) and none of the instructions: a `Nats-Rollup` would remove
the history from the copy.

Arrow is used through the record batches alone; nothing here imports it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import OperatingError
from headwater.spark.options import Kind, OptionError
from headwater.subjects.grammar import is_valid_literal, matches

if TYPE_CHECKING:
    import pyarrow

_PAYLOADS: Final = ("data", "value")
_TEXT: Final = frozenset({"string"})
_TEXT_OR_BINARY: Final = frozenset({"string", "binary"})
_WHOLE: Final = frozenset({"bigint", "int", "smallint"})
_HEADERS: Final = frozenset({"map<string,string>", "map<string,array<string>>"})
_STREAM_TYPES: Final = {
    "data": _TEXT_OR_BINARY,
    "value": _TEXT_OR_BINARY,
    "subject": _TEXT,
    "headers": _HEADERS,
    "message_id": _TEXT,
    "expected_last_sequence": _WHOLE,
    "expected_last_subject_sequence": _WHOLE,
}
_BUCKET_TYPES: Final = {
    "data": _TEXT_OR_BINARY,
    "value": _TEXT_OR_BINARY,
    "key": _TEXT,
    "operation": _TEXT,
    "headers": _HEADERS,
    "message_id": _TEXT,
}
_PASSED_OVER: Final = frozenset({"stream", "sequence", "timestamp", "revision"})
_EXPECTATIONS: Final = {
    "expected_last_sequence": b"Nats-Expected-Last-Sequence: %d\r\n",
    "expected_last_subject_sequence": b"Nats-Expected-Last-Subject-Sequence: %d\r\n",
}
_OPERATIONS: Final = {
    None: b"",
    "put": b"",
    "delete": b"KV-Operation: DEL\r\n",
    "purge": b"KV-Operation: PURGE\r\nNats-Rollup: sub\r\n",
}
# With a reply subject and two sizes it has to fit the control line of a server, 4096 bytes.
SUBJECT_BYTES_MAX: Final = 3900
# The limit of distinct subjects that are remembered as checked; others are checked each time.
CHECKED_MAX: Final = 100_000

_BLANK: Final = re.compile(rb"[\s\x00]")
_KEY: Final = re.compile(r"[-/_=.a-zA-Z0-9]+")
_NAME_REFUSED: Final = re.compile(r"[:\s\x00]")
_LINE_END: Final = re.compile(r"[\r\n]")
# Instructions about the single message they came with.
_ORDERS: Final = ("Nats-Msg-Id", "Nats-Expected-", "Nats-Batch-")
# The lines of a marker in a bucket, and its instructions.
_MARKER_LINES: Final = frozenset({"KV-Operation", "Nats-Marker-Reason"})
_MARKER_ORDERS: Final = frozenset({"Nats-Rollup", "Nats-TTL"})
# The values of the column `operation`.
_OPERATION_LINES: Final = frozenset({"KV-Operation", "Nats-Rollup"})
_NOTHING: Final[frozenset[str]] = frozenset()


class RowError(OperatingError):
    """The row cannot be a message; the text says which row and why."""

    def __init__(self, text: str, fault: str = "") -> None:
        super().__init__(text)
        # The reason, without the number of the row.
        self.fault = fault or text


@dataclass(frozen=True)
class RowShape:
    """The columns of the rows to be written, by their use."""

    kind: Kind
    payload: str
    columns: frozenset[str]
    # The subject of rows without one; for a bucket the prefix of the key.
    subject: str | None

    @property
    def has_expectations(self) -> bool:
        """Whether a row may depend on the content of the stream when it arrives."""
        return not self.columns.isdisjoint(_EXPECTATIONS)

    @classmethod
    def of(
        cls, kind: Kind, name: str, subject: str | None, columns: Sequence[tuple[str, str]]
    ) -> "RowShape":
        """From names and types (`simpleString`) of columns. Raises OptionError."""
        types = _STREAM_TYPES if kind is Kind.STREAM else _BUCKET_TYPES
        passed_over = _PASSED_OVER if kind is Kind.STREAM else _PASSED_OVER | {"subject"}
        used = {}
        for column, type_ in columns:
            if column in passed_over:
                continue
            if column not in types:
                raise OptionError(
                    f"column {column!r} cannot be written to a {kind.value}: drop it, or rename it"
                    f" to one of {', '.join(types)}"
                )
            if type_ not in types[column]:
                wanted = " or ".join(sorted(types[column]))
                raise OptionError(f"column {column!r} is {type_}: cast it to {wanted}")
            used[column] = type_
        payloads = [column for column in _PAYLOADS if column in used]
        if len(payloads) != 1:
            found = "both are there: drop one" if payloads else "neither is there"
            raise OptionError(
                f"a column data or value is needed to write to a {kind.value}: {found}"
            )
        if kind is Kind.BUCKET:
            if "key" not in used:
                raise OptionError("a column key is needed to write to a bucket: there is none")
            subject = f"$KV.{name}."
        elif subject is None and "subject" not in used:
            raise OptionError("option subject is needed to write rows without a column subject")
        return cls(kind, payloads[0], frozenset(used), subject)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be a message, and the reason; the subject as far as there is one."""

    subject: bytes
    payload: bytes
    reason: str
    # The reason without the row's number, which differs in a replay.
    fault: str


@dataclass(slots=True)
class Rows:
    """Rows as parallel lists. `header_lines` are without version line and empty line.

    `message_ids` has None for a row without an id of its own; without any ids there is no list. A
    `bad` row stands for one row, and there are no others then.
    """

    subjects: list[bytes]
    header_lines: list[bytes]
    payloads: list[bytes]
    message_ids: list[bytes | None] | None
    bad: BadRow | None = None


class RowReader:
    """Turns record batches of one partition into rows, and counts them to name them in errors."""

    def __init__(self, shape: RowShape, patterns: Sequence[str]) -> None:
        self._shape = shape
        self._patterns = [pattern.encode() for pattern in patterns]
        self._checked: set[bytes] = set()
        self._fixed = (shape.subject or "").encode()
        self.count = 0

    def read(self, batch: "pyarrow.RecordBatch") -> Rows:
        """The rows of a batch. Raises RowError."""
        count = batch.num_rows
        columns = self._shape.columns
        if self._shape.kind is Kind.BUCKET:
            subjects = self._keyed(_texts(batch, "key"))
        elif "subject" in columns:
            subjects = self._named(_bytes(batch, "subject"))
        else:
            subjects = [self._fixed] * count
        self._check_subjects(subjects)
        payloads = _bytes(batch, self._shape.payload)
        if batch.column(self._shape.payload).null_count:
            payloads = [payload or b"" for payload in payloads]
        rows = Rows(subjects, self._lines(batch), payloads, None)
        if "message_id" in columns:
            rows.message_ids = self._ids(_bytes(batch, "message_id"))
        self.count += count
        return rows

    def read_apart(self, batch: "pyarrow.RecordBatch") -> "Iterator[Rows]":
        """The rows of a batch, in its order; each row that cannot be a message is apart."""
        try:
            rows = self.read(batch)
        except RowError as error:
            if batch.num_rows == 1:
                yield self._bad(batch, error)
                return
        else:
            yield rows
            return
        half = batch.num_rows // 2
        yield from self.read_apart(batch.slice(0, half))
        yield from self.read_apart(batch.slice(half))

    def _bad(self, batch: "pyarrow.RecordBatch", error: RowError) -> Rows:
        subject = self._fixed
        if self._shape.kind is Kind.BUCKET:
            subject += _bytes(batch, "key")[0] or b""
        elif "subject" in self._shape.columns:
            subject = _bytes(batch, "subject")[0] or subject
        payload = _bytes(batch, self._shape.payload)[0] or b""
        self.count += 1
        return Rows([], [], [], None, BadRow(subject, payload, str(error), error.fault))

    def check_fixed_subject(self) -> None:
        """Whether option `subject` is one of the stream's. Raises OptionError."""
        try:
            self._check_subjects([self._fixed])
        except RowError as error:
            raise OptionError(str(error).replace("row 0 has the", "option", 1)) from None

    # --- subjects ------------------------------------------------------------------------------

    def _named(self, given: list[bytes]) -> list[bytes]:
        if all(given):
            return given
        if not self._fixed:
            raise self._error(given.index(next(s for s in given if not s)), "has no subject")
        return [subject or self._fixed for subject in given]

    def _keyed(self, keys: list[str | None]) -> list[bytes]:
        for at, key in enumerate(keys):
            if key is None or not _KEY.fullmatch(key) or key[0] == "." or key[-1] == ".":
                raise self._error(
                    at, f"has the key {key!r}: letters, digits and - / _ = . are allowed"
                )
        fixed = self._shape.subject or ""
        return [f"{fixed}{key}".encode() for key in keys]

    def _check_subjects(self, subjects: list[bytes]) -> None:
        """Refuse invalid subjects, which could end the line they stand in and begin another."""
        unknown = set(subjects) - self._checked
        for subject in unknown:
            reason = ""
            if not is_valid_literal(subject) or _BLANK.search(subject):
                reason = "is not one to publish to"
            elif len(subject) > SUBJECT_BYTES_MAX:
                reason = f"has more than {SUBJECT_BYTES_MAX} bytes"
            elif not any(matches(pattern, subject) for pattern in self._patterns):
                reason = "is not a subject of the stream"
            if reason:
                shown = subject[:100].decode(errors="backslashreplace")
                raise self._error(
                    subjects.index(subject), f"has the subject {shown!r}, which {reason}"
                )
        if len(self._checked) < CHECKED_MAX:
            self._checked |= unknown

    # --- headers -------------------------------------------------------------------------------

    def _lines(self, batch: "pyarrow.RecordBatch") -> list[bytes]:
        columns = self._shape.columns
        lines = [b""] * batch.num_rows
        if "headers" in columns:
            lines = [
                self._line(at, pairs) if pairs else b""
                for at, pairs in enumerate(batch.column("headers").to_pylist())
            ]
        if "operation" in columns:
            lines = self._with_operations(lines, _texts(batch, "operation"))
        for column, line in _EXPECTATIONS.items():
            if column in columns:
                numbers = batch.column(column).to_pylist()
                lines = [
                    before if number is None else before + line % self._sequence(at, number)
                    for at, (before, number) in enumerate(zip(lines, numbers, strict=True))
                ]
        return lines

    def _line(self, at: int, pairs: list[tuple[str, Any]]) -> bytes:
        lines = []
        left_out = self._left_out(pairs)
        for name, values in pairs:
            if name.startswith(_ORDERS) or name in left_out:
                continue
            if not name or _NAME_REFUSED.search(name):
                raise self._error(at, f"has a header named {name!r}")
            for value in values if isinstance(values, list) else [values]:
                if value is None or _LINE_END.search(value):
                    raise self._error(
                        at, f"has a header {name} whose value is null or has line ends"
                    )
                lines.append(f"{name}: {value}\r\n")
        return "".join(lines).encode()

    def _left_out(self, pairs: list[tuple[str, Any]]) -> frozenset[str]:
        """The names of header lines that a bucket's entry had and the target must not have."""
        has_operation = "operation" in self._shape.columns
        left_out = _OPERATION_LINES if has_operation else _NOTHING
        if _MARKER_LINES.isdisjoint([name for name, _ in pairs]):
            return left_out
        if self._shape.kind is Kind.STREAM or has_operation:
            return left_out | _MARKER_ORDERS
        return left_out

    def _with_operations(self, lines: list[bytes], operations: list[str | None]) -> list[bytes]:
        added = []
        for at, operation in enumerate(operations):
            line = _OPERATIONS.get(operation)
            if line is None:
                raise self._error(
                    at, f"has the operation {operation!r}: put, delete or purge is meant"
                )
            added.append(line)
        return [before + line for before, line in zip(lines, added, strict=True)]

    def _sequence(self, at: int, number: int) -> int:
        if number < 0:
            raise self._error(at, f"expects the sequence {number}: the least is 0")
        return number

    def _ids(self, given: list[bytes]) -> list[bytes | None]:
        ids: list[bytes | None] = [message_id or None for message_id in given]
        for at, message_id in enumerate(ids):
            if message_id is not None and _BLANK.search(message_id):
                raise self._error(at, "has a message_id with a blank or a line end in it")
        return ids

    def _error(self, at: int, text: str) -> RowError:
        return RowError(f"row {self.count + at} {text}", text)


def _bytes(batch: "pyarrow.RecordBatch", name: str) -> list[Any]:
    """Values of a column of bytes or text as bytes; None for null."""
    column = batch.column(name)
    type_ = str(column.type)
    if type_ in ("string", "large_string"):
        # The cast shares the buffers.
        column = column.cast("large_binary" if type_ == "large_string" else "binary")
    values: list[Any] = column.to_pylist()
    return values


def _texts(batch: "pyarrow.RecordBatch", name: str) -> list[str | None]:
    values: list[str | None] = batch.column(name).to_pylist()
    return values
