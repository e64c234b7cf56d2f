"""A blocking NATS client that hides nothing: bytes out, frames in, and the moment of the close.

A frame is the exact text the server sent, line ends included, so that comparing frames compares
bytes; INFO alone is opened up, as `{"INFO": {...}}`, because its members are masked one by one. The
close of a connection is the frame `CLOSED`, so that a missing or unexpected close is a difference.

Must not know: what any server ought to answer.
"""

import contextlib
import json
import socket
import ssl
from typing import Any, TypeAlias

Frame: TypeAlias = "str | dict[str, Any]"

CLOSED = "<closed>"
SILENCE_S_MAX = 5.0
"""The time a script waits for the next byte. Only a server that is wrong ever takes this long."""
READ_BYTES = 65536
LINE_END = b"\r\n"


class NoAnswerError(AssertionError):
    """The server kept silent when the script needed a frame or a close."""


class ConnectionClosedError(AssertionError):
    """The server closed the connection when the script needed a frame."""


class WireClient:
    """One connection, spoken to in bytes."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=SILENCE_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self.client_id = 0
        """The name of the server in the last INFO."""
        self._ended = False

    def send(self, data: str | bytes) -> None:
        """Send exactly these bytes. A peer that closed is found out by reading, not here."""
        payload = data.encode("latin-1") if isinstance(data, str) else data
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(payload)

    def exchange(self, data: str | bytes = "") -> list[Frame]:
        """Send, then everything the server says up to the answer of a PING, or up to the close."""
        self.send(data)
        self.send("PING\r\n")
        return self.until("PONG\r\n")

    def until(self, last: str) -> list[Frame]:
        """Everything up to the frame `last`, which is left out; or up to and with the close."""
        seen: list[Frame] = []
        while (frame := self.frame(seen)) != last:
            seen.append(frame)
            if frame == CLOSED:
                break
        return seen

    def until_closed(self, data: str | bytes = "") -> list[Frame]:
        """Send, then everything the server says until it closes."""
        self.send(data)
        return [*self.until(CLOSED), CLOSED]

    def take(self, count: int) -> list[Frame]:
        """The next `count` frames; fewer only when the connection closes, as the last one says."""
        seen: list[Frame] = []
        while len(seen) < count and (not seen or seen[-1] != CLOSED):
            seen.append(self.frame(seen))
        return seen

    def frame(self, seen: list[Frame] | None = None) -> Frame:
        """The next frame. `seen` is only used to say what came before the silence."""
        try:
            return self._next_frame()
        except TimeoutError as error:
            rest = bytes(self._received)
            raise NoAnswerError(f"silence after {seen or []!r}, half a frame: {rest!r}") from error

    def awaited_frame(self) -> Frame:
        """The next frame of a connection that has to be open, for loops that look for one frame."""
        frame = self.frame()
        if frame == CLOSED:
            raise ConnectionClosedError("the server closed the connection before the frame came")
        return frame

    def frame_within(self, wait_s: float) -> "Frame | None":
        """The next frame, or None after so much silence: half a frame stays for a later call."""
        self._socket.settimeout(wait_s)
        try:
            return self._next_frame()
        except TimeoutError:
            return None
        finally:
            self._socket.settimeout(SILENCE_S_MAX)

    def line(self) -> str:
        """The next line as it came, its end included, INFO not opened up."""
        end = self._fill_until_line() + len(LINE_END)
        raw = bytes(self._received[:end])
        del self._received[:end]
        return raw.decode("latin-1")

    def secure(self, context: ssl.SSLContext, name: str = "127.0.0.1") -> None:
        """Make a handshake of TLS. Raises OSError, as ssl.SSLError too, when it fails."""
        self._socket = context.wrap_socket(self._socket, server_hostname=name)

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on listening."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Leave, and wait until the server has noticed: the next case must not meet leftovers."""
        self.half_close()
        with contextlib.suppress(OSError):
            while self._socket.recv(READ_BYTES):
                pass
        self._socket.close()

    @property
    def local_port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def _next_frame(self) -> Frame:
        line_end = self._fill_until_line()
        if line_end < 0:
            return self._unfinished()
        line = bytes(self._received[:line_end])
        size = line_end + len(LINE_END) + self._payload_bytes(line)
        while len(self._received) < size:
            if not self._fill():
                return self._unfinished()
        raw = bytes(self._received[:size])
        del self._received[:size]
        if line.startswith(b"INFO "):
            info = json.loads(line[len(b"INFO ") :])
            self.client_id = info.get("client_id", self.client_id)
            return {"INFO": info}
        return raw.decode("latin-1")

    @staticmethod
    def _payload_bytes(line: bytes) -> int:
        if not line.startswith((b"MSG ", b"HMSG ")):
            return 0
        return int(line.rsplit(b" ", 1)[1]) + len(LINE_END)

    def _unfinished(self) -> Frame:
        rest = self._received.decode("latin-1")
        self._received.clear()
        return rest or CLOSED

    def _fill_until_line(self) -> int:
        while (end := self._received.find(LINE_END)) < 0:
            if not self._fill():
                return -1
        return end

    def _fill(self) -> bool:
        if self._ended:
            return False
        try:
            data = self._socket.recv(READ_BYTES)
        except ConnectionError:
            data = b""
        self._ended = not data
        self._received += data
        return bool(data)
