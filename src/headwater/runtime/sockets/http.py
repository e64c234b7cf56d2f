"""Monitoring over HTTP: h11 implements the protocol, the server's monitor the answers.

A request is answered as soon as its head is read, in the order of requests; a body, which no
monitoring request needs, is skipped. One connection can make the server hold no more than one head,
one answer, and the unread rest of earlier answers.

Must not know: what is monitored.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, cast, final

import h11


class HttpResponse(NamedTuple):
    """An answer. Length and connection headers are added on the way out."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


# From path and query to an answer.
Respond = Callable[[str], HttpResponse]

# Far longer than any monitoring URL with the headers of any browser.
HEAD_BYTES_MAX: Final = 16 * 1024
# A body is only read to find the request after it; beyond this a new connection is cheaper.
BODY_BYTES_MAX: Final = 64 * 1024
# A connection without a complete request for this long is closed; pollers return sooner.
IDLE_S_MAX: Final = 120.0
# The time for a closed connection to send its last bytes.
LAST_WRITE_S_MAX: Final = 10.0

_PLAIN: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    400: b"400 Bad Request",
    405: b"405 Method Not Allowed",
    413: b"413 Request Entity Too Large",
    431: b"431 Request Header Fields Too Large",
    501: b"501 Not Implemented",
}
_BAD_REQUEST: Final = 400
_METHOD_NOT_ALLOWED: Final = 405
_BODY_TOO_LARGE: Final = 413


@final
class HttpConnection(asyncio.Protocol):
    """One HTTP/1.1 connection. `alive` holds it while its socket is open."""

    __slots__ = ("_alive", "_body_bytes", "_congested", "_http", "_idle", "_respond", "_transport")

    def __init__(self, respond: Respond, alive: "dict[HttpConnection, None] | None" = None) -> None:
        self._respond = respond
        self._alive = {} if alive is None else alive
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._body_bytes = 0
        self._congested = False

    # --- called by the loop --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop when the socket is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._alive[self] = None
        self._restart_idle_timer()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop when the socket is closed."""
        self._alive.pop(self, None)
        self._transport = None
        if self._idle is not None:
            self._idle.cancel()

    def data_received(self, data: bytes) -> None:
        """Read requests and answer each."""
        if self._transport is None:
            return
        self._http.receive_data(data)
        self._process_input()

    def eof_received(self) -> bool:
        """Called by the loop at the peer's end; queued bytes are still sent."""
        self._http.receive_data(b"")
        self._process_input()
        return False

    def pause_writing(self) -> None:
        """Stop reading from a peer that sends requests faster than it reads answers."""
        self._congested = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Continue with the requests of a peer that has caught up."""
        self._congested = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._process_input()

    # --- requests ------------------------------------------------------------------------------

    def _process_input(self) -> None:
        try:
            self._answer_requests()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)

    def _answer_requests(self) -> None:
        while not self._congested and self._transport is not None:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._body_bytes = 0
                self._answer(event)
            elif isinstance(event, h11.Data):
                self._body_bytes += len(event.data)
                if self._body_bytes > BODY_BYTES_MAX:
                    self.close()
            elif isinstance(event, h11.ConnectionClosed):
                self.close()
            elif event is h11.PAUSED:
                self._next_request()
            elif event is h11.NEED_DATA:
                return

    def _next_request(self) -> None:
        """Prepare for the next request on this connection, if there may be one."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        else:
            self.close()

    def _answer(self, request: h11.Request) -> None:
        if request.method == b"CONNECT":
            self._refuse(_METHOD_NOT_ALLOWED)
            return
        if _announced_bytes(request) > BODY_BYTES_MAX:
            self._refuse(_BODY_TOO_LARGE)
            return
        self._restart_idle_timer()
        response = self._respond(request.target.decode("latin-1"))
        # A client that waits for permission to send a body gets the answer instead, and may send
        # the body or not: the next bytes on this connection could be either.
        last = self._http.they_are_waiting_for_100_continue
        self._send(response, has_body=request.method != b"HEAD", last=last)
        if self._http.our_state is h11.MUST_CLOSE:
            self.close()

    def _refuse(self, status: int) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            known = status if status in _REASONS else _BAD_REQUEST
            self._send(HttpResponse(known, _PLAIN, _REASONS[known]), has_body=True, last=True)
        self.close()

    def _send(self, response: HttpResponse, has_body: bool, last: bool) -> None:
        headers = [
            ("Content-Type", response.content_type),
            *response.headers,
            ("Content-Length", str(len(response.body))),
        ]
        if last:
            headers.append(("Connection", "close"))
        parts = [self._http.send(h11.Response(status_code=response.status, headers=headers))]
        if has_body:
            parts.append(self._http.send(h11.Data(data=response.body)))
        parts.append(self._http.send(h11.EndOfMessage()))
        if self._transport is not None:
            self._transport.write(b"".join(part for part in parts if part))

    # --- closing -------------------------------------------------------------------------------

    def _restart_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S_MAX, self.close)

    def close(self) -> None:
        """Write the queued bytes, then close; after a timeout the rest is dropped."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()
            if transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(LAST_WRITE_S_MAX, transport.abort)


def _announced_bytes(request: h11.Request) -> int:
    """The length of the body in the head of a request; h11 has checked that it is a number."""
    for name, value in request.headers:
        if name == b"content-length":
            return int(value)
    return 0
