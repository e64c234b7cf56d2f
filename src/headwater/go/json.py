"""JSON the way Go's `encoding/json` reads and writes it, for every request and reply of the API.

Requests are read into msgspec structs whose annotations have the facts of Go's struct: the type,
because errors name it, and whether an empty value is left out of replies. A struct has a default
for every field, the zero value of Go. A client learns the first of several errors in a body. Keys
match in any case. A body may be several objects in a row, read into one value.
"""

import functools
import re
import types
from enum import Enum
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NoReturn,
    Protocol,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from headwater.base.errors import PeerError
from headwater.base.invariants import check
from headwater.go.json_syntax import (
    JsonSyntaxError,
    JsonTruncated,
    check_end,
    skip_space,
    string_end,
    unquote,
    value_end,
)
from headwater.go.quoting import quote
from headwater.go.times import parse_time

T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")

# The limit of keys and elements of a request that are read one by one, which takes 30 ms. Lists and
# tables of texts are read at once and do not count: they may be as long as the body.
VALUES_MAX: Final = 8192
# Go accepts a second with any number of digits.
TIME_BYTES_MAX: Final = 256
# The length of an unknown key in an error.
KEY_SHOWN_MAX: Final = 1024
# For documents that the server itself has written.
ANY_NUMBER_OF_VALUES: Final = 1 << 62


class GoType:
    """The name of a Go type and, for integers, its range."""

    __slots__ = ("maximum", "minimum", "name")

    def __init__(self, name: str, minimum: int = 0, maximum: int = 0) -> None:
        self.name = name
        self.minimum = minimum
        self.maximum = maximum


class OmitEmpty:
    """The field is left out of replies while it has its default."""


OMIT_EMPTY: Final = OmitEmpty()

_INT: Final = GoType("int", -(2**63), 2**63 - 1)

Int = Annotated[int, _INT]
Int32 = Annotated[int, GoType("int32", -(2**31), 2**31 - 1)]
Int64 = Annotated[int, GoType("int64", -(2**63), 2**63 - 1)]
Uint64 = Annotated[int, GoType("uint64", 0, 2**64 - 1)]
Duration = Annotated[int, GoType("time.Duration", -(2**63), 2**63 - 1)]


@final
class Time:
    """A point in time with the text of its original time zone, which Go keeps and writes back."""

    __slots__ = ("text", "unix_ns")

    def __init__(self, unix_ns: int, text: str) -> None:
        self.unix_ns = unix_ns
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and other.text == self.text

    def __repr__(self) -> str:
        return f"Time({self.text})"

    @classmethod
    def from_json(cls, literal: bytes) -> "Time":
        """Parse a time. Raises TypeError with the name of Go's type for any other literal."""
        if not literal.startswith(b'"'):
            raise TypeError("time.Time")
        if len(literal) > TIME_BYTES_MAX:
            raise ValueError(f"parsing time: text is too long, maximum allowed is {TIME_BYTES_MAX}")
        text = unquote(literal)
        unix_ns = parse_time(text)
        if text[-6:-3] in ("+24", "-24"):
            # nats-server accepts these and then fails to write them.
            raise ValueError(f"parsing time {quote(text)}: timezone hour out of range")
        return cls(unix_ns, _canonical_time(text))


_SHORT_HOUR: Final = re.compile(r"T([0-9]):")
_FRACTION: Final = re.compile(r"[.,]([0-9]{1,9})[0-9]*")


def _canonical_time(text: str) -> str:
    text = _SHORT_HOUR.sub(r"T0\1:", text)
    text = _FRACTION.sub(lambda found: f".{found[1]}".rstrip("0").rstrip("."), text)
    return text[:-6] + "Z" if text.endswith(("+00:00", "-00:00")) else text


class ReadsItself(Protocol):
    """A type with its own spelling in JSON, as Go's `Unmarshaler`."""

    @classmethod
    def from_json(cls, literal: bytes) -> Any:
        """Parse a literal. Raises ValueError with the text for the client."""


# --- reading ------------------------------------------------------------------------------------


def read(body: bytes, kind: type[T], strict: bool, values_max: int = VALUES_MAX) -> T:
    """Parse a request; without one, return the defaults. Raises JsonError.

    If not strict, unknown keys are ignored, and then the body has to be one value.
    """
    value = _read_quickly(body, kind)
    if value is not None:
        return value
    try:
        return _read_all(body, kind, values_max)
    except _Refused as refused:
        if strict:
            raise JsonError(str(refused)) from None
    return read_one(body, kind, values_max)


def read_one(body: bytes, kind: type[T], values_max: int = VALUES_MAX) -> T:
    """Parse the one value in `body`, which may have unknown keys. Raises JsonError.

    This is how requests are read that do not go through the API's subject, such as DIRECT.GET.
    """
    value = _read_quickly(body, kind)
    if value is not None:
        return value
    try:
        return _read_one(body, kind, values_max)
    except _Refused as refused:
        raise JsonError(refused.text) from None


class JsonError(PeerError):
    """Go cannot read the body; the text is that of Go's error."""


def read_written(body: bytes, kind: type[T]) -> T | None:
    """Parse a text that `write` wrote; None for any other text, which needs `read`.

    A server with a thousand streams reads as many configurations when it starts; each takes a
    microsecond this way, and half a millisecond with `read`.
    """
    try:
        value: T = _written_decoder(kind).decode(body)
    except (ValueError, TypeError, msgspec.MsgspecError):
        return None
    return value


@functools.cache
def _written_decoder(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    # A key that this version does not know must not be ignored silently.
    check(kind.__struct_config__.forbid_unknown_fields, f"{kind.__name__} passes over unknown keys")
    return msgspec.json.Decoder(kind, dec_hook=_read_own)


def _read_own(kind: type, value: object) -> object:
    """Convert a value of a type that msgspec does not know."""
    if kind is Time and isinstance(value, str):
        return Time.from_json(msgspec.json.encode(value))
    raise ValueError(kind.__name__)


class _Refused(Exception):
    """The error in the body, as text for the client; with the offset for an error of syntax."""

    def __init__(self, text: str, offset: int | None = None) -> None:
        super().__init__(text if offset is None else f"{text} at offset {offset}")
        self.text = text


def _read_all(body: bytes, kind: type[T], values_max: int) -> T:
    value = kind()
    position = 0
    effort = _Effort(values_max)
    while (position := skip_space(body, position)) < len(body):
        effort.spend()
        try:
            end = value_end(body, position)
        except JsonSyntaxError as error:
            raise _Refused(str(error), error.offset) from None
        except JsonTruncated:
            raise _Refused("unexpected EOF") from None
        value = _decoded(body, position, kind, value, effort, strict=True)
        position = end
    return value


def _read_one(body: bytes, kind: type[T], values_max: int) -> T:
    start = skip_space(body, 0)
    try:
        check_end(body, value_end(body, start))
    except JsonSyntaxError as error:
        raise _Refused(str(error)) from None
    except JsonTruncated:
        raise _Refused("unexpected end of JSON input") from None
    return _decoded(body, start, kind, kind(), _Effort(values_max), strict=False)


def _decoded(
    body: bytes, start: int, kind: type[T], previous: T, effort: "_Effort", strict: bool
) -> T:
    cursor = _Cursor(body, start, _go_name(kind), effort, strict)
    value: T = _reader(kind).read(cursor, previous)
    return value


class _Effort:
    """The number of keys and elements of a body that may still be read one by one."""

    __slots__ = ("_left", "_values_max")

    def __init__(self, values_max: int) -> None:
        self._left = self._values_max = values_max

    def spend(self) -> None:
        """Count one more. Raises _Refused above the limit."""
        self._left -= 1
        if self._left < 0:
            raise _Refused(f"too many values, maximum allowed is {self._values_max}")


class _Cursor:
    """A position in valid JSON, and the path to it."""

    __slots__ = ("body", "effort", "path", "position", "root", "strict")

    def __init__(self, body: bytes, start: int, root: str, effort: _Effort, strict: bool) -> None:
        self.body = body
        self.position = start
        self.root = root
        self.effort = effort
        self.strict = strict
        self.path: list[str] = []

    def kind(self) -> str:
        """The kind of the next value, in Go's words."""
        return kind_of(self.body, self.position)

    def literal(self) -> bytes:
        """Read the next value as it stands."""
        start = self.position
        self.position = value_end(self.body, start)
        return self.body[start : self.position]

    def string(self) -> str:
        """Read the next value, a string."""
        start = self.position
        self.position = string_end(self.body, start)
        return unquote(self.body[start : self.position])

    def enter(self) -> None:
        """Pass an opening bracket, and the space after it."""
        self.position = skip_space(self.body, self.position + 1)

    def has_next(self) -> bool:
        """Whether the container has another element. Passes its comma or its closing bracket."""
        self.position = skip_space(self.body, self.position)
        byte = self.body[self.position]
        if byte in b"]}":
            self.position += 1
            return False
        self.effort.spend()
        if byte == ord(","):
            self.enter()
        return True

    def key(self) -> str:
        """Read the next key of an object and its colon."""
        name = self.string()
        self.position = skip_space(self.body, self.position)
        self.enter()
        return name

    def refuse(self, text: str) -> NoReturn:
        """End the reading with an error, which is the first one as in Go."""
        raise _Refused(text)

    def mismatch(self, what: str, wanted: str) -> NoReturn:
        """End the reading: the value does not fit the Go type `wanted`."""
        into = "Go value"
        if self.path:
            last = self.path[-1].rpartition(".")[2]
            # Go treats a last step that looks like an index as one, whatever it is.
            into = "" if last.isascii() and last.isdigit() else "Go struct field "
            into += ".".join([self.root, *self.path])
        self.refuse(f"json: cannot unmarshal {what} into {into} of type {wanted}")


_KINDS: Final = {
    ord("{"): "object",
    ord("["): "array",
    ord('"'): "string",
    ord("t"): "bool",
    ord("f"): "bool",
    ord("n"): "null",
}


def kind_of(body: bytes, position: int = 0) -> str:
    """The kind of the value that begins at `position` in valid JSON, in Go's words."""
    return _KINDS.get(body[position], "number")


class _Reader(Protocol):
    """Reads one type; a wrong value leaves `previous`, the field's value so far, unchanged."""

    go_name: str
    zero: Any

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        """Read the next value; the cursor moves behind it in any case."""


class _TextReader:
    go_name = "string"
    zero = ""

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        kind = cursor.kind()
        if kind == "string":
            return cursor.string()
        cursor.literal()
        if kind != "null":
            cursor.mismatch(kind, self.go_name)
        return previous


class _FlagReader:
    go_name = "bool"
    zero = False

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        kind = cursor.kind()
        literal = cursor.literal()
        if kind == "bool":
            return literal == b"true"
        if kind != "null":
            cursor.mismatch(kind, self.go_name)
        return previous


class _IntegerReader:
    zero = 0

    def __init__(self, go_type: GoType) -> None:
        self.go_name = go_type.name
        self.go_type = go_type

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        kind = cursor.kind()
        literal = cursor.literal()
        if kind == "number":
            value = _integer(literal, self.go_type)
            if value is not None:
                return value
            cursor.mismatch(f"number {literal.decode()}", self.go_name)
        elif kind != "null":
            cursor.mismatch(kind, self.go_name)
        return previous


_INTEGER_DIGITS_MAX: Final = 20


def _integer(literal: bytes, kind: GoType) -> int | None:
    digits = literal.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _INTEGER_DIGITS_MAX:
        return None
    if literal != digits and kind.minimum == 0:
        return None
    value = int(literal)
    return value if kind.minimum <= value <= kind.maximum else None


class _ManyReader:
    zero = ()

    def __init__(self, element: _Reader, is_pointer: bool) -> None:
        self.target = element
        self.go_name = ("[]*" if is_pointer else "[]") + element.go_name
        self._has_scalars = isinstance(element, (_TextReader, _IntegerReader))

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        kind = cursor.kind()
        if kind != "array":
            cursor.literal()
            if kind == "null":
                return ()
            cursor.mismatch(kind, self.go_name)
        start = cursor.position
        at_once = self._read_at_once(cursor.literal()) if self._has_scalars else None
        if at_once is not None:
            return tuple(at_once)
        cursor.position = start
        values: list[Any] = []
        cursor.enter()
        while cursor.has_next():
            cursor.path.append(str(len(values)))
            values.append(self.target.read(cursor, self.target.zero))
            cursor.path.pop()
        return tuple(values)

    def _read_at_once(self, literal: bytes) -> list[Any] | None:
        if not isinstance(self.target, _IntegerReader):
            return _at_once(_MANY_TEXTS, literal)
        go_type = self.target.go_type
        # msgspec accepts 1.0 as an integer, and Go refuses -0 as an unsigned one.
        is_plain = _NO_PLAIN_INTEGERS.search(literal) is None
        values = _at_once(_MANY_INTEGERS, literal) if is_plain else None
        if values and not (go_type.minimum <= min(values) and max(values) <= go_type.maximum):
            return None
        return values


class _TableReader:
    zero: Any = types.MappingProxyType({})

    def __init__(self, element: _Reader) -> None:
        self._element = element
        self.go_name = "map[string]" + element.go_name
        self._has_texts = isinstance(element, _TextReader)

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        kind = cursor.kind()
        if kind != "object":
            cursor.literal()
            if kind == "null":
                return {}
            cursor.mismatch(kind, self.go_name)
        start = cursor.position
        at_once = _at_once(_TABLE_OF_TEXTS, cursor.literal()) if self._has_texts else None
        if at_once is not None:
            return {**previous, **at_once}
        cursor.position = start
        values = dict(previous)
        cursor.enter()
        while cursor.has_next():
            key = cursor.key()
            cursor.path.append(_pointer_step(key))
            values[key] = self._element.read(cursor, self._element.zero)
            cursor.path.pop()
        return values


_MANY_TEXTS: Final = msgspec.json.Decoder(list[str])
_MANY_INTEGERS: Final = msgspec.json.Decoder(list[int])
_TABLE_OF_TEXTS: Final = msgspec.json.Decoder(dict[str, str])
_NO_PLAIN_INTEGERS: Final = re.compile(rb"[.eE]|-0")


def _at_once(decoder: msgspec.json.Decoder[V], literal: bytes) -> V | None:
    """All values of a list or table; None if one of them has to be read with care."""
    try:
        return decoder.decode(literal)
    except (ValueError, msgspec.MsgspecError):
        return None


class _StructReader:
    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._kind = kind
        self.zero: Any = kind()
        self.go_name = "server." + _go_name(kind)
        hints = get_type_hints(kind, include_extras=True)
        self._fields = {
            field.encode_name: (field.name, _reader(hints[field.name]))
            for field in msgspec.structs.fields(kind)
        }
        self._folded = {_fold(name): field for name, field in self._fields.items()}

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        kind = cursor.kind()
        if kind != "object":
            cursor.literal()
            if kind != "null":
                cursor.mismatch(kind, self.go_name)
            return previous
        changes: dict[str, Any] = {}
        cursor.enter()
        while cursor.has_next():
            key = cursor.key()
            field = self._fields.get(key) or self._folded.get(_fold(key))
            if field is None:
                if cursor.strict:
                    cursor.refuse(f"json: unknown field {quote(key[:KEY_SHOWN_MAX])}")
                cursor.literal()
                continue
            attribute, reader = field
            before = changes.get(attribute, getattr(previous, attribute))
            cursor.path.append(_pointer_step(key))
            changes[attribute] = reader.read(cursor, before)
            cursor.path.pop()
        return msgspec.structs.replace(previous, **changes)


def _go_name(kind: type[msgspec.Struct]) -> str:
    name = getattr(kind, "go_name", kind.__name__)
    return str(name)


class _PointerReader:
    zero = None

    def __init__(self, target: _Reader) -> None:
        self.target = target
        self.go_name = target.go_name

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        if cursor.kind() == "null":
            cursor.literal()
            return None
        return self.target.read(cursor, self.target.zero if previous is None else previous)


class _OwnReader:
    """For types that parse themselves; their errors reach the client unchanged."""

    zero = None

    def __init__(self, kind: type[ReadsItself]) -> None:
        self._kind = kind
        self.go_name = kind.__name__

    def read(self, cursor: _Cursor, previous: Any) -> Any:
        kind = cursor.kind()
        literal = cursor.literal()
        try:
            return self._kind.from_json(literal)
        except TypeError as error:
            cursor.mismatch(kind, str(error))
        except ValueError as error:
            cursor.refuse(str(error))
        return previous


def _fold(name: str) -> str:
    """Fold the case of a key. Two of Go's foldings lead into ASCII."""
    return name.replace("\u017f", "s").replace("\u212a", "k").lower()


def _pointer_step(key: str) -> str:
    # Go makes the path from a JSON pointer, keeps its escapes, and turns its slashes into dots.
    return key.replace("~", "~0").replace("/", "~1")


@functools.cache
def _reader(annotation: Any) -> _Reader:
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        for note in notes:
            if isinstance(note, GoType):
                return _IntegerReader(note)
        return _reader(inner)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        # A field that distinguishes an absent key from a default is read like any other.
        (target,) = (each for each in arguments if each not in (types.NoneType, msgspec.UnsetType))
        reader = _reader(target)
        return _PointerReader(reader) if types.NoneType in arguments else reader
    if origin is tuple:
        element = _reader(arguments[0])
        return _ManyReader(element, isinstance(element, _PointerReader))
    if origin is dict:
        return _TableReader(_reader(arguments[1]))
    return _plain_reader(annotation)


def _plain_reader(kind: Any) -> _Reader:
    if kind is str:
        return _TextReader()
    if kind is bool:
        return _FlagReader()
    if kind is int:
        return _IntegerReader(_INT)
    return _StructReader(kind) if issubclass(kind, msgspec.Struct) else _OwnReader(kind)


# --- reading quickly -------------------------------------------------------------------------


class _QuickDecoder(Generic[T]):
    """Reads the values on which msgspec and Go agree, at a fraction of the cost.

    These are single objects with keys spelled as here and values of the right types. All others are
    left to the other readers, which know the errors.
    """

    __slots__ = ("_decoder", "_integers")

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind, dec_hook=_refuse)
        hints = get_type_hints(kind, include_extras=True)
        self._integers = tuple(
            (field.name, reader.go_type)
            for field in msgspec.structs.fields(kind)
            if isinstance(reader := _reader(hints[field.name]), _IntegerReader)
        )

    def read(self, body: bytes) -> T | None:
        """The value, or None if it has to be read with care."""
        try:
            value = self._decoder.decode(body)
        except (ValueError, msgspec.MsgspecError):
            return None
        for attribute, go_type in self._integers:
            if not go_type.minimum <= getattr(value, attribute) <= go_type.maximum:
                return None
        # -0 equals an unsigned number, but Go refuses it as one.
        return None if b"-0" in body else value


def _refuse(_: type, __: object) -> object:
    raise ValueError


def _read_quickly(body: bytes, kind: type[T]) -> T | None:
    decoder: _QuickDecoder[T] | None = _quick_decoder(kind)
    return None if decoder is None else decoder.read(body)


@functools.cache
def _quick_decoder(kind: type[msgspec.Struct]) -> _QuickDecoder[Any] | None:
    # Without this option msgspec ignores unknown keys silently.
    if not kind.__struct_config__.forbid_unknown_fields:
        return None
    hints = get_type_hints(kind, include_extras=True)
    fields = msgspec.structs.fields(kind)
    is_quick = all(_is_quick(_reader(hints[field.name])) for field in fields)
    return _QuickDecoder(kind) if is_quick else None


def _is_quick(reader: _Reader) -> bool:
    """Whether msgspec reads the type as Go does, or leaves it to us."""
    if isinstance(reader, _PointerReader):
        return isinstance(reader.target, _OwnReader)
    if isinstance(reader, _ManyReader):
        return isinstance(reader.target, _TextReader)
    return isinstance(reader, (_TextReader, _FlagReader, _IntegerReader))


# --- writing ------------------------------------------------------------------------------------

_ESCAPES: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
)
_ALL_ESCAPES: Final = (
    *_ESCAPES,
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


# Types whose values are written as they are, even in a list of a million values.
_PLAIN: Final = frozenset((str, int, bool, float, type(None)))


def write(value: object) -> bytes:
    """Compact JSON with the fields in their order, escaped as Go escapes for web pages."""
    return escaped(msgspec.json.encode(document(value)))


def escaped(text: bytes) -> bytes:
    """JSON in which characters with a meaning in web pages and their scripts are escaped."""
    for character, escape in _ESCAPES if text.isascii() else _ALL_ESCAPES:
        # These characters occur in strings only.
        if character in text:
            text = text.replace(character, escape)
    return text


def document(value: object) -> Any:
    """The value as plain dictionaries and lists, without the fields that replies leave out."""
    if isinstance(value, msgspec.Struct):
        return {
            field.key: field.document(part)
            for field in _written_fields(type(value))
            if not field.is_left_out(part := getattr(value, field.attribute))
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Time):
        return value.text
    if isinstance(value, (tuple, list)):
        if _PLAIN.issuperset(map(type, value)):
            return value
        return [document(each) for each in value]
    if isinstance(value, dict):
        if _PLAIN.issuperset(map(type, value.values())):
            return value
        return {key: document(part) for key, part in value.items()}
    return value


class _WrittenField:
    """The way in which one field of a struct is written."""

    __slots__ = ("_default", "_is_map", "_omits", "attribute", "key")

    def __init__(self, field: msgspec.structs.FieldInfo, annotation: Any) -> None:
        notes = getattr(annotation, "__metadata__", ())
        plain = get_args(annotation)[0] if notes else annotation
        self.attribute = field.name
        self.key = field.encode_name
        self._is_map = get_origin(plain) is dict
        self._omits = OMIT_EMPTY in notes
        self._default = _default(field) if self._omits else None

    def is_left_out(self, part: object) -> bool:
        """Whether the field is empty and so not written."""
        return self._omits and (part == self._default or part == ())

    def document(self, part: Any) -> Any:
        """The field's value; the keys of a Go map are sorted."""
        return document({key: part[key] for key in sorted(part)} if self._is_map else part)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    # Without a default a value would never equal it, and never be left out.
    check(callable(field.default_factory), f"{field.name} may be left out and has no default")
    return field.default_factory()


@functools.cache
def _written_fields(kind: type[msgspec.Struct]) -> tuple[_WrittenField, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_WrittenField(field, hints[field.name]) for field in msgspec.structs.fields(kind))
