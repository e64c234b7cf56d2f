"""asyncio's transport and server interfaces on simulated sockets.

`SimTransport` keeps the promises of asyncio's selector transport, in its order: `close` flushes and
`abort` does not, `connection_lost` comes once and in a later turn, flow control calls the protocol
at the water marks, an exception in a protocol method ends the connection and is reported. All of it
happens in turns of the process the connection belongs to.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from headwater.testing.loop import Process, SimLoop
from headwater.testing.tcp import Socket

# asyncio's own defaults.
WRITE_HIGH_WATER_BYTES: Final = 64 * 1024
_LOW_WATER_DIVISOR: Final = 4


class SimTransport(asyncio.Transport):
    """A connected stream between a protocol and a simulated socket."""

    def __init__(
        self,
        loop: SimLoop,
        socket: Socket,
        protocol: asyncio.BaseProtocol,
        *,
        server: "SimServer | None" = None,
        waiter: "asyncio.Future[None] | None" = None,
    ) -> None:
        """Call it in the context in which the connection's callbacks shall run."""
        super().__init__({"peername": socket.remote, "sockname": socket.local, "socket": None})
        self._loop = loop
        self._socket = socket
        self._server = server
        self._context = contextvars.copy_context()
        self._buffer = bytearray()
        self._high_bytes = WRITE_HIGH_WATER_BYTES
        self._low_bytes = WRITE_HIGH_WATER_BYTES // _LOW_WATER_DIVISOR
        self._protocol_paused = False
        self._reading = False
        self._reading_wanted = True
        self._read_scheduled = False
        self._write_scheduled = False
        self._eof_written = False
        self._closing = False
        self._lost = False
        self.set_protocol(protocol)
        if server is not None:
            server.attach(self)
        self._soon(protocol.connection_made, self)
        self._soon(self._start)
        if waiter is not None:
            self._soon(_set_result_unless_done, waiter)

    def _soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self._context)

    def _start(self) -> None:
        self._socket.reader = self
        self.writable()
        if self._reading_wanted and not self._closing:
            self._reading = True
            self.readable()

    # The protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that is called."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Call another protocol from now on."""
        self._protocol: Any = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    # Reading

    def is_reading(self) -> bool:
        """Whether bytes are passed to the protocol as they come."""
        return self._reading_wanted and not self._closing

    def pause_reading(self) -> None:
        """Leave incoming bytes in the kernel's buffer, which fills up and stops the sender."""
        self._reading_wanted = False
        self._reading = False

    def resume_reading(self) -> None:
        """Continue reading."""
        if self._closing or self._reading_wanted:
            return
        self._reading_wanted = True
        if self._socket.reader is self:
            self._reading = True
            self.readable()

    def readable(self) -> None:
        """Announced by the socket: read in a later turn."""
        socket = self._socket
        if (
            self._reading
            and not self._read_scheduled
            and (socket.unread or socket.eof or socket.error is not None)
        ):
            self._read_scheduled = True
            self._soon(self._read_ready)

    def _read_ready(self) -> None:
        self._read_scheduled = False
        socket = self._socket
        if not self._reading or self._lost:
            return
        if socket.unread:
            if self._buffered:
                self._deliver_into_buffer()
            else:
                data = socket.take(socket.receive_size())
                self._guard("data_received", self._protocol.data_received, data)
            self.readable()
        elif socket.eof:
            self._reading = False
            keep_open = self._guard("eof_received", self._protocol.eof_received)
            if not keep_open:
                self.close()
        elif socket.error is not None:
            self._force_close(socket.error)

    def _deliver_into_buffer(self) -> None:
        buffer = self._guard("get_buffer", self._protocol.get_buffer, -1)
        if self._lost:
            return
        if not len(buffer):
            self._fatal(RuntimeError("get_buffer() returned an empty buffer"), "get_buffer")
            return
        size = min(self._socket.receive_size(), len(buffer))
        buffer[:size] = self._socket.take(size)
        self._guard("buffer_updated", self._protocol.buffer_updated, size)

    def _guard(self, name: str, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._fatal(error, name)
            return None

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, or buffer the bytes that the kernel does not accept now."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            kind = type(data).__name__
            raise TypeError(f"data argument must be a bytes-like object, not {kind!r}")
        if self._eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._lost:
            return
        data = bytes(data)
        if not self._buffer:
            sent = self._send(data)
            if sent == len(data) or self._lost:
                return
            data = data[sent:]
        self._buffer += data
        self._pause_protocol_if_full()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several buffers as one."""
        self.write(b"".join(list_of_data))

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(bytes(data))
        except OSError as error:
            self._buffer.clear()
            self._force_close(error)
            return 0

    def writable(self) -> None:
        """Announced by the socket: write in a later turn."""
        if self._buffer and not self._write_scheduled:
            self._write_scheduled = True
            self._soon(self._write_ready)

    def _write_ready(self) -> None:
        self._write_scheduled = False
        if self._lost or not self._buffer:
            return
        sent = self._send(self._buffer)
        if self._lost:
            return
        del self._buffer[:sent]
        self._resume_protocol_if_drained()
        if not self._buffer:
            if self._closing:
                self._lose(None)
            elif self._eof_written:
                self._socket.shutdown()

    def can_write_eof(self) -> bool:
        """Streams can be closed in one direction."""
        return True

    def write_eof(self) -> None:
        """Close the sending direction once everything is sent."""
        if self._closing or self._eof_written:
            return
        self._eof_written = True
        if not self._buffer:
            self._socket.shutdown()

    # Flow control

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel has not accepted."""
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Low and high water."""
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the marks at which the protocol is paused and resumed."""
        if high is None:
            high = WRITE_HIGH_WATER_BYTES if low is None else _LOW_WATER_DIVISOR * low
        if low is None:
            low = high // _LOW_WATER_DIVISOR
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_bytes = high
        self._low_bytes = low
        self._pause_protocol_if_full()

    def _pause_protocol_if_full(self) -> None:
        if len(self._buffer) > self._high_bytes and not self._protocol_paused:
            self._protocol_paused = True
            self._report_failure_of("pause_writing", self._protocol.pause_writing)

    def _resume_protocol_if_drained(self) -> None:
        if self._protocol_paused and len(self._buffer) <= self._low_bytes:
            self._protocol_paused = False
            self._report_failure_of("resume_writing", self._protocol.resume_writing)

    def _report_failure_of(self, name: str, method: Callable[[], object]) -> None:
        try:
            method()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._report(error, f"protocol.{name}() failed")

    # Ending

    def is_closing(self) -> bool:
        """Whether `close` or `abort` was called or the connection was lost."""
        return self._closing

    def close(self) -> None:
        """Read no more, send the buffered bytes, then end."""
        if self._closing:
            return
        self._closing = True
        self._reading = False
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        """End now; buffered bytes are lost."""
        self._force_close(None)

    def orphaned(self) -> None:
        """Look closed to every holder, because the process died."""
        self._closing = True
        self._lost = True
        self._reading = False
        self._buffer.clear()

    def _fatal(self, error: BaseException, name: str) -> None:
        if not isinstance(error, OSError):
            self._report(error, f"Fatal error: protocol.{name}() call failed.")
        self._force_close(error)

    def _report(self, error: BaseException, message: str) -> None:
        context = {"message": message, "exception": error, "protocol": self._protocol}
        self._loop.call_exception_handler(context)

    def _force_close(self, error: BaseException | None) -> None:
        if self._lost:
            return
        self._buffer.clear()
        self._closing = True
        self._reading = False
        self._lose(error)

    def _lose(self, error: BaseException | None) -> None:
        if not self._lost:
            self._lost = True
            self._soon(self._tell_connection_lost, error)

    def _tell_connection_lost(self, error: BaseException | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()
            if self._server is not None:
                self._server.detach(self)
                self._server = None


class BoundSocket:
    """The part of a listening socket that callers use."""

    __slots__ = ("_name",)

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        """Address and port."""
        return self._name


class Unbinder(Protocol):
    """The network, as far as a server knows it."""

    def unbind(self, server: "SimServer") -> None:
        """Free the server's port."""
        ...


class SimServer(asyncio.AbstractServer):
    """A listening port of a simulated host.

    `wait_closed` waits for the accepted connections too, as Python does from 3.12 on.
    """

    def __init__(
        self,
        loop: SimLoop,
        network: Unbinder,
        process: Process,
        name: tuple[str, int],
        factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._loop = loop
        self._network = network
        self._context = contextvars.copy_context()
        self._factory = factory
        self._transports: dict[SimTransport, None] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._forever: asyncio.Future[None] | None = None
        self._serving = False
        self._closed = False
        self.process = process
        self.name = name

    @property
    def sockets(self) -> tuple[BoundSocket, ...]:
        """The one bound socket, until closed."""
        return () if self._closed else (BoundSocket(self.name),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The simulated loop."""
        return self._loop

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._serving and not self._closed

    async def start_serving(self) -> None:
        """Start to accept."""
        self._serving = True

    async def serve_forever(self) -> None:
        """Accept until cancelled, then close."""
        await self.start_serving()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        finally:
            self._forever = None
            self.close()
            await self.wait_closed()

    def close(self) -> None:
        """Stop accepting; accepted connections stay."""
        if self._closed:
            return
        self._closed = True
        self._network.unbind(self)
        if self._forever is not None:
            self._forever.cancel()
        self._wake_waiters()

    def close_clients(self) -> None:
        """Close every accepted connection."""
        for transport in list(self._transports):
            transport.close()

    def abort_clients(self) -> None:
        """Abort every accepted connection."""
        for transport in list(self._transports):
            transport.abort()

    async def wait_closed(self) -> None:
        """Wait until closed and the last connection ended."""
        if not self._closed or self._transports:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    async def __aenter__(self) -> "SimServer":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()
        await self.wait_closed()

    def accept(self, socket: Socket) -> None:
        """Accept a connection that the kernel has completed, in a turn of the process."""
        self._loop.call_soon(self._accept, socket, context=self._context)

    def _accept(self, socket: Socket) -> None:
        if self._closed:
            socket.close()
        else:
            SimTransport(self._loop, socket, self._factory(), server=self)

    def attach(self, transport: SimTransport) -> None:
        """Add an accepted connection."""
        self._transports[transport] = None

    def detach(self, transport: SimTransport) -> None:
        """Remove a connection that ended."""
        del self._transports[transport]
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        if self._closed and not self._transports:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                _set_result_unless_done(waiter)


def _set_result_unless_done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
