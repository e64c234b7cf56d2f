"""Bytes from a client become segments.

One call per read. The decoder keeps only the bytes of an unfinished operation; it knows nothing of
subscriptions, accounts or permissions, and raises nothing: what can not be decoded comes back as a
last `Malformed` segment, after which the decoder accepts no more.

Three speeds. Publishes that repeat the control line before them are cut out of the buffer by one
`bytes.split` per run. Other publishes cost one pass of find, split and slice. The rest goes by the
operation's name, in any mixture of upper and lower case as the protocol allows.

Bounds: an unfinished control line is at most `max_control_line` bytes of arguments, an unfinished
payload at most `max_payload`, so a connection can not make the decoder hold more than their sum and
one read.
"""

from typing import Final, final

from headwater.wire.batch import (
    NO_HEADERS,
    ClientError,
    Connect,
    Malformed,
    MalformedError,
    Ping,
    Pong,
    Publishes,
    Run,
    Segment,
    Subscribe,
    Unsubscribe,
)

CRLF: Final = b"\r\n"

UNKNOWN_OPERATION: Final = "Unknown Protocol Operation"
MAX_PAYLOAD: Final = "Maximum Payload Violation"
MAX_CONTROL_LINE: Final = "maximum control line exceeded"

# nats-server reads at most nine digits of a size; more is a bad size, not a large one.
SIZE_DIGITS_MAX: Final = 9

# The first window of a run: what a wrong guess costs, in frames.
_RUN_WINDOW_MIN: Final = 8
_RUN_WINDOW_GROWTH: Final = 4

_OPERATIONS: Final = (b"CONNECT", b"PING", b"PONG", b"PUB", b"HPUB", b"SUB", b"UNSUB", b"INFO")
_OPERATIONS_WITH_SPACE: Final = (b"PUB", b"HPUB", b"SUB", b"UNSUB", b"-ERR")
_SNIPPET_BYTES: Final = 32


def parse_size(token: bytes) -> int:
    """A size as nats-server reads it, or -1."""
    if token.isdigit() and len(token) <= SIZE_DIGITS_MAX:
        return int(token)
    return -1


@final
class _PublishLine:
    """The last publish line and what it said, so that a repetition costs one comparison."""

    __slots__ = ("header_size", "line", "reply", "size", "size_token", "subject")

    def __init__(self) -> None:
        self.line = b""
        self.subject = b""
        self.reply: bytes | None = None
        self.header_size = NO_HEADERS
        self.size_token = b""
        self.size = 0


@final
class ClientDecoder:
    """The server's side of one client connection."""

    __slots__ = ("_dead", "_last", "_rest", "max_control_line", "max_payload", "needed")

    def __init__(self, max_control_line: int, max_payload: int) -> None:
        self.max_control_line = max_control_line
        self.max_payload = max_payload
        self._rest = b""
        self._dead = False
        self._last = _PublishLine()
        # Bytes a frame needs from its start; decoding again before they are there is wasted.
        self.needed = 0

    @property
    def unfinished(self) -> bytes:
        """The bytes of an operation that has not ended yet."""
        return self._rest

    def feed(self, data: bytes) -> list[Segment]:
        """Decode `data` and whatever was left before."""
        segments: list[Segment] = []
        if self._dead:
            return segments
        if self._rest:
            data = self._rest + data
            if len(data) < self.needed:
                self._rest = data
                return segments
        self.needed = 0
        try:
            position = self._decode(data, segments)
        except MalformedError as error:
            self._dead = True
            self._rest = b""
            segments.append(Malformed(error.reply, error.detail))
            return segments
        self._rest = data[position:] if position < len(data) else b""
        return segments

    def _decode(self, data: bytes, segments: list[Segment]) -> int:
        """Decode as many whole operations as there are; return where the next one starts."""
        position = 0
        end = len(data)
        last = self._last
        publishes: Publishes | None = None
        while position < end:
            line_end = data.find(b"\n", position)
            if line_end < 0:
                self._check_unfinished(data, position)
                break
            start = line_end + 1
            line = data[position:start]
            if line == last.line:
                run = _take_run(data, line, start, last.size)
                if run:
                    segments.append(
                        Run(last.subject, last.reply, last.header_size, last.size_token, run)
                    )
                    publishes = None
                    position += len(run) * (len(line) + last.size + 2)
                    continue
            elif not (
                (line[:4] == b"PUB " and self._parse_plain_publish(line, last))
                or self._parse_publish(line, last)
            ):
                publishes = None
                self._parse_control(line, segments)
                position = start
                continue
            after = start + last.size
            if data[after : after + 2] != CRLF:
                if after + 2 > end:
                    self._check_line_end(data, after, end)
                    self.needed = after + 2 - position
                    break
                raise _unknown(data, after)
            if publishes is None:
                publishes = Publishes()
                segments.append(publishes)
            publishes.subjects.append(last.subject)
            publishes.replies.append(last.reply)
            publishes.header_sizes.append(last.header_size)
            publishes.sizes.append(last.size_token)
            publishes.payloads.append(data[start:after])
            position = after + 2
        return position

    def _parse_plain_publish(self, line: bytes, last: _PublishLine) -> bool:
        """The common form of PUB in good order; False leaves the line to somebody who explains."""
        fields = line.split()
        token = fields[-1]
        if not token.isdigit() or len(token) > SIZE_DIGITS_MAX:
            return False
        size = int(token)
        if size > self.max_payload or len(line) > self.max_control_line:
            return False
        if len(fields) == 4:
            last.reply = fields[2]
        elif len(fields) == 3:
            last.reply = None
        else:
            return False
        last.line = line
        last.subject = fields[1]
        last.header_size = NO_HEADERS
        last.size_token = token
        last.size = size
        return True

    def _parse_publish(self, line: bytes, last: _PublishLine) -> bool:
        """Any PUB or HPUB line; False if it is another operation."""
        operation = line[:5].upper()
        fields = line.split()
        if operation[:3] == b"PUB" and operation[3:4] in (b" ", b"\t"):
            self._check_publish(fields, line[4:].rstrip(CRLF))
            last.header_size = NO_HEADERS
            last.size_token = fields[-1]
            with_reply = 4
        elif operation in (b"HPUB ", b"HPUB\t"):
            last.header_size = self._check_header_publish(fields, line[5:].rstrip(CRLF))
            last.size_token = fields[-2] + b" " + fields[-1]
            with_reply = 5
        else:
            return False
        size = parse_size(fields[-1])
        if size > self.max_payload:
            raise MalformedError(
                MAX_PAYLOAD, f"maximum payload exceeded: {size} vs {self.max_payload}"
            )
        last.line = line
        last.subject = fields[1]
        last.reply = fields[2] if len(fields) == with_reply else None
        last.size = size
        return True

    def _check_publish(self, fields: list[bytes], arguments: bytes) -> None:
        self._check_length(arguments)
        if len(fields) not in (3, 4):
            raise MalformedError("", f"processPub Parse Error: {_quote(arguments)}")
        if parse_size(fields[-1]) < 0:
            raise MalformedError("", f"processPub Bad or Missing Size: {_quote(arguments)}")

    def _check_header_publish(self, fields: list[bytes], arguments: bytes) -> int:
        """The header size of an HPUB line in good order."""
        self._check_length(arguments)
        quoted = _quote(arguments)
        if len(fields) not in (4, 5):
            raise MalformedError("", f"processHeaderPub Parse Error: {quoted}")
        header_size = parse_size(fields[-2])
        if header_size < 0:
            raise MalformedError("", f"processHeaderPub Bad or Missing Header Size: {quoted}")
        size = parse_size(fields[-1])
        if size < 0:
            raise MalformedError("", f"processHeaderPub Bad or Missing Total Size: {quoted}")
        if header_size > size:
            raise MalformedError(
                "", f"processHeaderPub Header Size larger then TotalSize: {quoted}"
            )
        return header_size

    def _parse_control(self, line: bytes, segments: list[Segment]) -> None:
        """Anything but a publish."""
        upper = line[:8].upper()
        if upper.startswith((b"SUB ", b"SUB\t")):
            segments.append(self._parse_subscribe(line[4:].rstrip(CRLF)))
        elif upper.startswith((b"UNSUB ", b"UNSUB\t")):
            segments.append(self._parse_unsubscribe(line[6:].rstrip(CRLF)))
        elif upper.startswith(b"PING"):
            segments.append(Ping())
        elif upper.startswith(b"PONG"):
            segments.append(Pong())
        elif upper.startswith(b"CONNECT"):
            document = line[7:].strip()
            self._check_length(document)
            segments.append(Connect(document))
        elif upper.startswith(b"INFO"):
            # A client has nothing to tell a server this way; nats-server reads and forgets it too.
            self._check_length(line[4:].strip())
        elif upper.startswith((b"-ERR ", b"-ERR\t")):
            segments.append(ClientError(line[5:].strip()))
        elif not upper.startswith(b"+OK"):
            raise _unknown(line, 0)

    def _parse_subscribe(self, arguments: bytes) -> Subscribe:
        self._check_length(arguments)
        fields = arguments.split()
        if len(fields) == 2:
            return Subscribe(fields[0], None, fields[1])
        if len(fields) == 3:
            return Subscribe(fields[0], fields[1], fields[2])
        raise MalformedError("", f"processSub Parse Error: {_quote(arguments)}")

    def _parse_unsubscribe(self, arguments: bytes) -> Unsubscribe:
        self._check_length(arguments)
        fields = arguments.split()
        if len(fields) == 1:
            return Unsubscribe(fields[0], -1)
        if len(fields) == 2:
            return Unsubscribe(fields[0], parse_size(fields[1]))
        raise MalformedError("", f"processUnsub Parse Error: {_quote(arguments)}")

    def _check_length(self, arguments: bytes) -> None:
        if len(arguments) > self.max_control_line:
            raise MalformedError(
                MAX_CONTROL_LINE,
                f"{MAX_CONTROL_LINE}: {len(arguments)} vs {self.max_control_line}",
            )

    def _check_unfinished(self, data: bytes, position: int) -> None:
        """Refuse at once what no later byte can repair."""
        partial = data[position : position + len(b"CONNECT") + 1].upper()
        known = False
        for name in _OPERATIONS:
            if partial.startswith(name) or name.startswith(partial):
                following = partial[len(name) : len(name) + 1]
                known = name not in _OPERATIONS_WITH_SPACE or not following or following in b" \t"
                break
        if not known and not (
            partial.startswith((b"+OK", b"-ERR ", b"-ERR\t"))
            or b"+OK".startswith(partial)
            or b"-ERR".startswith(partial)
        ):
            raise _unknown(data, position)
        name_length = len(b"CONNECT ")
        unfinished = len(data) - position - name_length
        if unfinished > self.max_control_line:
            raise MalformedError(
                MAX_CONTROL_LINE, f"{MAX_CONTROL_LINE}: {unfinished} vs {self.max_control_line}"
            )

    def _check_line_end(self, data: bytes, after: int, end: int) -> None:
        """Refuse a payload that is longer than it said as soon as that shows."""
        if after < end and data[after : after + 1] != b"\r":
            raise _unknown(data, after)


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
            taken = taken + pieces if taken else pieces
            start += count * frame
            available -= count
            window = count * _RUN_WINDOW_GROWTH
            if available and not data.startswith(line, start - len(line)):
                break
        else:
            window = count // _RUN_WINDOW_GROWTH
    return taken


def _unknown(data: bytes, position: int) -> MalformedError:
    snippet = data[position : position + _SNIPPET_BYTES]
    return MalformedError(
        UNKNOWN_OPERATION, f"Client parser ERROR, i={position}: proto='{_quote(snippet)}...'"
    )


def _quote(text: bytes) -> str:
    """`text` in double quotes with everything unprintable escaped, as it appears in logs."""
    return '"' + text.decode("latin-1").encode("unicode_escape").decode("ascii") + '"'
