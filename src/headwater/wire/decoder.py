"""Bytes from a client become segments.

One call per read. The decoder keeps only the bytes of an unfinished operation; it knows nothing of
subscriptions, accounts or permissions, and raises nothing: bytes that cannot be decoded come back
as a last `Malformed` segment, after which the decoder accepts no more.

There are four speeds. Publishes that repeat the control line before them are cut out of the buffer
by one `bytes.split` per run, and so are acknowledgements, which differ in nothing but their
subject. A publish line that any connection sent before costs one look-up. Other publishes cost one
pass of find, split and slice. Other operations are told by their name, in any mixture of upper and
lower case as the protocol allows.

CONNECT decides about operations that follow it (such as HPUB), so decoding stops behind a CONNECT;
the caller acts on it, sets `headers`, and feeds no bytes to go on. Decoding also stops behind every
`OPERATIONS_MAX` operations, so that no read keeps the caller for long. The rest of the read is not
copied for either: a read may be full of CONNECTs.

Bounds: an unfinished control line is at most `max_control_line` bytes of arguments, an unfinished
payload at most `max_payload`, so a connection cannot make the decoder hold more than their sum and
one read.
"""

import re
from itertools import repeat
from typing import Final, TypeAlias, TypeVar, final

from headwater.base.errors import PeerError
from headwater.go.quoting import quote_bytes
from headwater.wire.batch import (
    NO_HEADERS,
    ClientError,
    Connect,
    Malformed,
    MalformedError,
    Meaningless,
    Ping,
    Pong,
    Publishes,
    Run,
    Segment,
    Subscribe,
    Unsubscribe,
)
from headwater.wire.info import decode_object

CRLF: Final = b"\r\n"
# As numbers: a single byte is found in bytes several times faster by its number.
_TAB: Final = 0x09
_RETURN: Final = 0x0D
# White space that may stand around a JSON document; other white space is an error.
_BLANKS: Final = b" \t\r\n"

UNKNOWN_OPERATION: Final = "Unknown Protocol Operation"
MAX_PAYLOAD: Final = "Maximum Payload Violation"
MAX_CONTROL_LINE: Final = "maximum control line exceeded"
HEADERS_NOT_SUPPORTED: Final = "message headers not supported"

# nats-server reads at most nine digits of a size; more is a bad size, not a large one.
SIZE_DIGITS_MAX: Final = 9

# Publish lines that are remembered, and the longest of them: an entry takes about twice its line
# and 250 bytes more, so all take at most 12 MB, whatever clients send. Subjects that people choose
# are far shorter than a control line may be.
LINES_KNOWN_MAX: Final = 16_384
LINE_KNOWN_BYTES_MAX: Final = 256

# Beginnings of lines that hardly ever come again: publishes to reply inboxes, and acknowledgements.
_ACK_LINE: Final = b"PUB $JS.ACK."
_INBOX_LINE: Final = b"PUB _INBOX."
_PASSING_LINES: Final = (_INBOX_LINE, b"HPUB _INBOX.", _ACK_LINE)

# Acknowledgements in a row, as clients write them: all have the same ending behind their subjects.
# Longer subjects are parsed as other publishes are.
_ACK_SUBJECT_BYTES_MAX: Final = 240
ACK: Final = b"+ACK"
_ACK_ENDS: Final = (b" 4\r\n+ACK\r\n", b"  0\r\n\r\n", b" 0\r\n\r\n")
_ACK_PAYLOADS: Final = (ACK, b"", b"")
_ACK_RUN: Final = re.compile(
    b"|".join(
        rb"((?:PUB \$JS\.ACK\.[^ \t\r\n]{1,%d}+%b)++)" % (_ACK_SUBJECT_BYTES_MAX, re.escape(end))
        for end in _ACK_ENDS
    )
)
# The bytes from the end of an acknowledgement's line to the end of the next one's beginning. An
# acknowledgement that no other one follows is parsed as other publishes are.
_ACK_STEP_BYTES_MAX: Final = len(ACK) + len(CRLF) + len(_ACK_LINE)
# The longest line of an acknowledgement in a row.
_ACK_LINE_BYTES_MAX: Final = len(_ACK_LINE) + _ACK_SUBJECT_BYTES_MAX + len(b" 4\r\n")

# Operations decoded by one call; a run counts as one. A read may hold 40,000, which take 50 ms.
OPERATIONS_MAX: Final = 512

# The first window of a run, in frames: the cost of a wrong guess.
_RUN_WINDOW_MIN: Final = 8
_RUN_WINDOW_GROWTH: Final = 4

# The name of every operation that a client may send, with a blank where one has to follow.
_OPERATIONS: Final = (
    *(b"PUB ", b"PUB\t", b"HPUB ", b"HPUB\t", b"SUB ", b"SUB\t", b"UNSUB ", b"UNSUB\t"),
    *(b"CONNECT", b"PING", b"PONG", b"INFO", b"+OK", b"-ERR ", b"-ERR\t"),
)
# The bytes of a line besides its arguments, at the most: `CONNECT ` and CRLF.
_LINE_BYTES_EXTRA: Final = 10
_SNIPPET_BYTES: Final = 32


def parse_size(token: bytes) -> int:
    """A size as nats-server reads it, or -1."""
    if token.isdigit() and len(token) <= SIZE_DIGITS_MAX:
        return int(token)
    return -1


# The fields of a publish line: subject, reply, header size, size tokens as written, size; and those
# of them that come behind subject and reply.
_PublishLine: TypeAlias = tuple[bytes, bytes | None, int, bytes, int]
_Sizes: TypeAlias = tuple[int, bytes, int]
_Value = TypeVar("_Value")
_NO_LINE: Final[_PublishLine] = (b"", None, NO_HEADERS, b"", 0)


@final
class PublishLines:
    """Publish lines read before, with their fields; one table for all connections of a server.

    Most publishers use few subjects and sizes, and a line met again costs one look-up. Requests and
    replies are hardly ever met again and do not enter; of such a line only the sizes at its
    end are kept. Connections that may not send headers have tables of their own, so that a line of
    another connection does not let their headers through.
    """

    __slots__ = ("known", "sizes")

    def __init__(self) -> None:
        # Whole lines, for connections that may not and for those that may send headers.
        self.known: tuple[dict[bytes, _PublishLine], ...] = ({}, {})
        # Sizes of lines with a reply, or to one, by their end behind the subjects; in front of the
        # end of an HPUB line stand its operation and a blank.
        self.sizes: tuple[dict[bytes, _Sizes], ...] = ({}, {})

    def remember(self, headers: bool, line: bytes, said: _PublishLine) -> None:
        """Keep a line that is short and may come again; a table that is full is emptied."""
        if len(line) <= LINE_KNOWN_BYTES_MAX and not line.startswith(_PASSING_LINES):
            _keep(self.known[headers], line, said)

    def remember_sizes(self, headers: bool, ending: bytes, said: _Sizes) -> None:
        """Keep the sizes of a line with a reply, or to one."""
        _keep(self.sizes[headers], ending, said)

    def forget(self) -> None:
        """Forget all lines: a limit has changed, and they were read under another."""
        for known, sizes in zip(self.known, self.sizes, strict=True):
            known.clear()
            sizes.clear()


def _keep(table: dict[bytes, _Value], key: bytes, value: _Value) -> None:
    if len(table) >= LINES_KNOWN_MAX:
        table.clear()
    table[key] = value


@final
class ClientDecoder:
    """The server's side of one client connection."""

    __slots__ = (
        "_dead",
        "_held",
        "_last_line",
        "_last_said",
        "_lines",
        "_needed",
        "_rest",
        "_rest_start",
        "headers",
        "max_control_line",
        "max_payload",
        "stopped",
    )

    def __init__(
        self, max_control_line: int, max_payload: int, lines: PublishLines | None = None
    ) -> None:
        self._dead = False
        self._lines = PublishLines() if lines is None else lines
        # An operation that has not ended yet. Growing it is cheap however small the reads are.
        self._held = bytearray()
        # Bytes that the operation needs; decoding before they are there would be wasted.
        self._needed = 0
        # The read that decoding stopped in, and the place. No operation is held at the same time.
        self._rest = b""
        self._rest_start = 0
        self.set_limits(max_control_line, max_payload)
        # Whether HPUB is allowed; settled by CONNECT.
        self.headers = False
        # Decoding stopped before the end of the read; feeding nothing goes on.
        self.stopped = False

    def set_limits(self, max_control_line: int, max_payload: int) -> None:
        """Set the limits of control lines and payloads."""
        self.max_control_line = max_control_line
        self.max_payload = max_payload
        # The last publish line; a repetition of it begins a run.
        self._last_line = b""
        self._last_said = _NO_LINE

    @property
    def unfinished(self) -> bytes:
        """The first byte that has not been decoded yet; empty if all are."""
        return bytes(self._held[:1]) or self._rest[self._rest_start : self._rest_start + 1]

    @property
    def held_bytes(self) -> int:
        """The number of bytes that are kept and not decoded yet."""
        return len(self._held) + len(self._rest) - self._rest_start

    def close(self) -> None:
        """Accept no more, and free the bytes that were kept."""
        self._dead = True
        self.stopped = False
        self._held.clear()
        self._rest, self._rest_start = b"", 0

    def feed(self, data: bytes) -> list[Segment]:
        """Decode the bytes that were kept, and `data`."""
        segments: list[Segment] = []
        if self._dead:
            return segments
        position = 0
        if self._held:
            self._held.extend(data)
            if len(self._held) < self._needed:
                return segments
            data = bytes(self._held)
            self._held.clear()
        elif self._rest:
            if data:
                data = self._rest[self._rest_start :] + data
            else:
                data, position = self._rest, self._rest_start
            self._rest, self._rest_start = b"", 0
        self._needed = 0
        self.stopped = False
        try:
            position = self._decode(data, position, segments)
        except MalformedError as error:
            self._dead = True
            position = len(data)
            segments.append(Malformed(error.reply, error.detail, error.operation))
        if position < len(data):
            if self.stopped:
                self._rest, self._rest_start = data, position
            else:
                self._held.extend(data[position:])
        return segments

    def _decode(self, data: bytes, position: int, segments: list[Segment]) -> int:
        """Decode the whole operations from `position` on; return where the next one starts."""
        end = len(data)
        known, sizes_known = self._lines.known[self.headers], self._lines.sizes[self.headers]
        max_payload, line_bytes_max = self.max_payload, self.max_control_line
        last_line, said = self._last_line, self._last_said
        publishes: Publishes | None = None
        for _ in repeat(None, OPERATIONS_MAX):
            if position >= end:
                break
            start = data.find(b"\n", position) + 1
            if start == 0:
                self._check_unfinished(data, position)
                break
            line = data[position:start]
            if line == last_line:
                run = _take_run(data, line, start, said[4])
                if run:
                    segments.append(Run(said[0], said[1], said[2], said[3], run))
                    publishes = None
                    position += len(run) * (len(line) + said[4] + 2)
                    continue
            else:
                found = known.get(line)
                if found is None:
                    is_ack = line.startswith(_ACK_LINE)
                    if is_ack and (acks := self._find_acks(data, position, start)):
                        publishes = publishes or _begin_publishes(segments)
                        position = _take_acks(acks, publishes)
                        continue
                    # A line that is not remembered, as `_parse_publish` reads it, without a call.
                    words = line.split(b" ", 4)
                    with_reply = len(words) == 4
                    if with_reply or (len(words) == 3 and line.startswith(_PASSING_LINES)):
                        sizes = sizes_known.get(words[-1])
                        is_usual = words[0] == b"PUB" and words[1] and words[2] and _TAB not in line
                        is_usual = is_usual and line.find(_RETURN) == len(line) - 2
                        if sizes is not None and is_usual and len(line) <= line_bytes_max:
                            found = words[1], words[2] if with_reply else None, *sizes
                    found = found or self._parse_publish(line)
                if found is None:
                    publishes = None
                    self._parse_control(line, segments)
                    position = start
                    if self.stopped:
                        break
                    continue
                last_line, said = line, found
            subject, reply, header_size, size_token, size = said
            after = start + size
            if size > max_payload:
                raise _too_large(size, max_payload, line[:1])
            if data[after : after + 2] != CRLF:
                self._check_payload(data, position, after)
                break
            if publishes is None:
                payload = data[start:after]
                publishes = Publishes([subject], [reply], [header_size], [size_token], [payload])
                segments.append(publishes)
            else:
                publishes.subjects.append(subject)
                publishes.replies.append(reply)
                publishes.header_sizes.append(header_size)
                publishes.sizes.append(size_token)
                publishes.payloads.append(data[start:after])
            position = after + 2
        else:
            self.stopped = position < end
        self._last_line, self._last_said = last_line, said
        return position

    def _find_acks(self, data: bytes, position: int, start: int) -> re.Match[bytes] | None:
        """The acknowledgements in a row that begin at `position`, if they are as usual.

        The payload of the first begins at `start`; an acknowledgement alone is no row.
        """
        if data.find(_ACK_LINE, start, start + _ACK_STEP_BYTES_MAX) < 0:
            return None
        if self.max_control_line < _ACK_LINE_BYTES_MAX or self.max_payload < len(ACK):
            return None
        return _ACK_RUN.match(data, position)

    def _check_payload(self, data: bytes, position: int, after: int) -> None:
        """Check a payload that has not ended: refuse it if no later byte can end it."""
        end = len(data)
        if after + 2 <= end or (after < end and data[after : after + 1] != b"\r"):
            raise _unknown(data, after, b"P")
        # The first byte behind the payload can already be wrong.
        self._needed = after + (1 if end <= after else 2) - position

    def _parse_publish(self, line: bytes) -> _PublishLine | None:
        """A PUB or HPUB line; None if it is another operation."""
        parts = line.split(b" ", 3)
        if len(parts) == 4:
            operation, subject, reply, rest = parts
            ending = rest if operation == b"PUB" else b"%b %b" % (operation, rest)
            sizes = self._lines.sizes[self.headers].get(ending)
            is_usual = subject and reply and _TAB not in line
            is_usual = is_usual and _RETURN not in subject and _RETURN not in reply
            if sizes is not None and is_usual and len(line) <= self.max_control_line:
                return subject, reply, *sizes
        return self._parse_new_publish(line)

    def _parse_new_publish(self, line: bytes) -> _PublishLine | None:
        """A PUB or HPUB line without known sizes, which are remembered if it is as usual."""
        if line[-2:] != CRLF or line.find(_RETURN) != len(line) - 2 or _TAB in line:
            return self._parse_unusual_publish(line)
        if line[:4] == b"PUB ":
            fields = line[4:-2].split(b" ")
            token = fields[-1]
            if (
                token.isdigit()
                and len(token) <= SIZE_DIGITS_MAX
                and b"" not in fields
                and len(line) <= self.max_control_line
            ):
                sizes: _Sizes = (NO_HEADERS, token, int(token))
                if len(fields) == 3 or (len(fields) == 2 and line.startswith(_PASSING_LINES)):
                    self._lines.remember_sizes(self.headers, token + CRLF, sizes)
                    return fields[0], fields[1] if len(fields) == 3 else None, *sizes
                if len(fields) == 2:
                    said: _PublishLine = (fields[0], None, *sizes)
                    self._lines.remember(self.headers, line, said)
                    return said
        elif line[:5] == b"HPUB ":
            fields = line[5:-2].split(b" ")
            if len(fields) in (3, 4) and b"" not in fields and len(line) <= self.max_control_line:
                header_size, size = fields[-2:]
                if (
                    header_size.isdigit()
                    and size.isdigit()
                    and len(header_size) <= SIZE_DIGITS_MAX
                    and len(size) <= SIZE_DIGITS_MAX
                    and 0 < int(header_size) <= int(size)
                    and self.headers
                ):
                    tokens = header_size + b" " + size
                    sizes = (int(header_size), tokens, int(size))
                    if len(fields) == 4:
                        self._lines.remember_sizes(self.headers, b"HPUB %b\r\n" % tokens, sizes)
                        return fields[0], fields[1], *sizes
                    said = (fields[0], None, *sizes)
                    self._lines.remember(self.headers, line, said)
                    return said
        return self._parse_unusual_publish(line)

    def _parse_unusual_publish(self, line: bytes) -> _PublishLine | None:
        """PUB and HPUB in other spellings, or malformed."""
        operation = line[:5].upper()
        if operation[:4] in (b"PUB ", b"PUB\t"):
            arguments = _publish_arguments(line, 4)
            fields = _fields(arguments)
            self._check_publish(fields, arguments)
            header_size = NO_HEADERS
            size_token = fields[-1]
            with_reply = 3
        elif operation in (b"HPUB ", b"HPUB\t"):
            arguments = _publish_arguments(line, 5)
            fields = _fields(arguments)
            header_size = self._check_header_publish(fields, arguments)
            size_token = fields[-1]
            if header_size != NO_HEADERS:
                size_token = fields[-2] + b" " + fields[-1]
            with_reply = 4
        else:
            return None
        reply = fields[1] if len(fields) == with_reply else None
        return fields[0], reply, header_size, size_token, int(fields[-1])

    def _check_publish(self, fields: list[bytes], arguments: bytes) -> None:
        self._check_length(arguments, b"P")
        # Many clients end a word at a carriage return, and would read what follows as the id of a
        # subscription.
        if len(fields) not in (2, 3) or b"\r" in arguments:
            raise _bad("processPub Parse Error", arguments, b"P")
        if parse_size(fields[-1]) < 0:
            raise _bad("processPub Bad or Missing Size", arguments, b"P")

    def _check_header_publish(self, fields: list[bytes], arguments: bytes) -> int:
        """The header size of a well-formed HPUB line."""
        self._check_length(arguments, b"H")
        if not self.headers:
            raise MalformedError("", HEADERS_NOT_SUPPORTED, b"H")
        if len(fields) not in (3, 4) or b"\r" in arguments:
            raise _bad("processHeaderPub Parse Error", arguments, b"H")
        header_size = parse_size(fields[-2])
        if header_size < 0:
            raise _bad("processHeaderPub Bad or Missing Header Size", arguments, b"H")
        size = parse_size(fields[-1])
        if size < 0:
            raise _bad("processHeaderPub Bad or Missing Total Size", arguments, b"H")
        if header_size > size:
            raise _bad("processHeaderPub Header Size larger then TotalSize", arguments, b"H")
        # An empty header block is no header block: subscribers get MSG.
        return header_size or NO_HEADERS

    def _parse_control(self, line: bytes, segments: list[Segment]) -> None:
        """Parse any operation but a publish."""
        operation = line[:8].upper()
        first = line[:1]
        if len(line) > self.max_control_line + _LINE_BYTES_EXTRA:
            raise _too_long(len(line), self.max_control_line, first)
        if operation.startswith((b"SUB ", b"SUB\t")):
            segments.append(self._parse_subscribe(line[4:].rstrip(CRLF)))
        elif operation.startswith((b"UNSUB ", b"UNSUB\t")):
            segments.append(self._parse_unsubscribe(line[6:].rstrip(CRLF)))
        elif operation.startswith(b"PING"):
            segments.append(Ping())
        elif operation.startswith(b"PONG"):
            segments.append(Pong())
        elif operation.startswith(b"CONNECT"):
            document = line[7:].strip(_BLANKS)
            self._check_length(document, first)
            segments.append(Connect(document))
            self.stopped = True
        elif operation.startswith(b"INFO"):
            segments.append(self._parse_info(line[4:].strip(_BLANKS)))
        elif operation.startswith(b"+OK"):
            segments.append(Meaningless())
        elif operation.startswith((b"-ERR ", b"-ERR\t")):
            self._check_length(line[5:].strip(_BLANKS), first)
            segments.append(ClientError(line[5:].strip(_BLANKS)))
        else:
            raise _unknown(line, 0, first)

    def _parse_info(self, document: bytes) -> Meaningless:
        self._check_length(document, b"I")
        try:
            decode_object(document)
        except PeerError as error:
            raise MalformedError("", f"INFO is {error.reply}", b"I") from None
        return Meaningless()

    def _parse_subscribe(self, arguments: bytes) -> Subscribe:
        self._check_length(arguments, b"S")
        fields = _fields(arguments.replace(b"\r", b" "))
        if len(fields) == 2:
            return Subscribe(fields[0], None, fields[1])
        if len(fields) == 3:
            return Subscribe(fields[0], fields[1], fields[2])
        raise _bad("processSub Parse Error", arguments, b"S")

    def _parse_unsubscribe(self, arguments: bytes) -> Unsubscribe:
        self._check_length(arguments, b"U")
        fields = _fields(arguments.replace(b"\r", b" "))
        if len(fields) == 1:
            return Unsubscribe(fields[0], -1)
        if len(fields) == 2:
            return Unsubscribe(fields[0], parse_size(fields[1]))
        raise _bad("processUnsub Parse Error", arguments, b"U")

    def _check_length(self, arguments: bytes, operation: bytes) -> None:
        if len(arguments) > self.max_control_line:
            raise _too_long(len(arguments), self.max_control_line, operation)

    def _check_unfinished(self, data: bytes, position: int) -> None:
        """Refuse an unfinished line at once if no later byte can repair it."""
        partial = data[position : position + _LINE_BYTES_EXTRA].upper()
        if not any(partial.startswith(name) or name.startswith(partial) for name in _OPERATIONS):
            raise _unknown(data, position, partial[:1])
        unfinished = len(data) - position
        if unfinished > self.max_control_line + _LINE_BYTES_EXTRA:
            raise _too_long(unfinished, self.max_control_line, partial[:1])


def _publish_arguments(line: bytes, start: int) -> bytes:
    """The arguments of a PUB or HPUB line, which one line end follows.

    A second carriage return is a part of the size, and makes it no size at all.
    """
    return line[start:].removesuffix(b"\n").removesuffix(b"\r")


def _fields(arguments: bytes) -> list[bytes]:
    """Arguments between blanks and tabs, and nothing else."""
    return [field for field in arguments.replace(b"\t", b" ").split(b" ") if field]


def _begin_publishes(segments: list[Segment]) -> Publishes:
    """Add a segment for publishes."""
    publishes = Publishes([], [], [], [], [])
    segments.append(publishes)
    return publishes


def _take_acks(run: re.Match[bytes], publishes: Publishes) -> int:
    """Add the acknowledgements of a run to what was published. Returns the position behind it."""
    kind = (run.lastindex or 1) - 1
    end, payload = _ACK_ENDS[kind], _ACK_PAYLOADS[kind]
    subjects = run[0][len(b"PUB ") : -len(end)].split(end + b"PUB ")
    count = len(subjects)
    publishes.subjects += subjects
    publishes.replies += [None] * count
    publishes.header_sizes += [NO_HEADERS] * count
    publishes.sizes += [b"%d" % len(payload)] * count
    publishes.payloads += [payload] * count
    return run.end()


def _take_run(data: bytes, line: bytes, start: int, size: int) -> list[bytes]:
    """The payloads of whole frames from `start` on that all have this control line.

    A window of n frames is split at CRLF + line. When that gives n pieces of which none is longer
    than the size, every piece has exactly the size, because together they fill the window: so each
    frame ended and began where the control line says, whatever the payloads contain. A window that
    does not divide so is tried smaller.
    """
    taken: list[bytes] = []
    if not data.startswith(line, start + size + len(CRLF)):
        return taken
    separator = CRLF + line
    frame = size + len(separator)
    available = (len(data) - start + len(line)) // frame
    window = _RUN_WINDOW_MIN
    while available >= 2 and window >= 2:
        count = min(window, available)
        stop = start + count * frame - len(separator)
        pieces = data[start:stop].split(separator)
        if (
            len(pieces) == count
            and len(max(pieces, key=len)) == size
            and data.startswith(CRLF, stop)
        ):
            taken += pieces
            start += count * frame
            available -= count
            window = count * _RUN_WINDOW_GROWTH
            if available and not data.startswith(line, start - len(line)):
                break
        else:
            window = count // _RUN_WINDOW_GROWTH
    return taken


def _unknown(data: bytes, position: int, operation: bytes) -> MalformedError:
    snippet = quote_bytes(data[position : position + _SNIPPET_BYTES])
    return MalformedError(
        UNKNOWN_OPERATION, f"Client parser ERROR, i={position}: proto='{snippet}...'", operation
    )


def _bad(what: str, arguments: bytes, operation: bytes) -> MalformedError:
    """The error of malformed arguments: the client gets no reply, the log has the reason."""
    return MalformedError("", f"{what}: {quote_bytes(arguments)}", operation)


def _too_long(size: int, limit: int, operation: bytes) -> MalformedError:
    return MalformedError(MAX_CONTROL_LINE, f"{MAX_CONTROL_LINE}: {size} vs {limit}", operation)


def _too_large(size: int, limit: int, operation: bytes) -> MalformedError:
    return MalformedError(MAX_PAYLOAD, f"maximum payload exceeded: {size} vs {limit}", operation)
