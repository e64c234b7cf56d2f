"""Monitoring over HTTP: h11 does the protocol, the server's monitor does the answers."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, cast, final

import h11


class HttpResponse(NamedTuple):
    """An answer to GET."""

    status: int
    content_type: str
    body: bytes


# path with query -> answer
Respond = Callable[[str], HttpResponse]

_REFUSED: Final = HttpResponse(400, "text/plain; charset=utf-8", b"400 Bad Request")


@final
class HttpConnection(asyncio.Protocol):
    """One HTTP/1.1 connection. Requests are answered in order; bodies are read and ignored."""

    __slots__ = ("_http", "_respond", "_target", "_transport")

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._http = h11.Connection(h11.SERVER)
        self._transport: asyncio.Transport | None = None
        self._target = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Read requests and answer each."""
        try:
            self._http.receive_data(data)
            self._answer_what_is_there()
        except h11.RemoteProtocolError:
            self._refuse()

    def eof_received(self) -> bool:
        """The client has said all; what is queued still goes out."""
        return False

    def _answer_what_is_there(self) -> None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._target = event.target.decode("latin-1")
            elif isinstance(event, h11.EndOfMessage):
                self._send(self._respond(self._target))
                if self._http.our_state is h11.MUST_CLOSE:
                    self._close()
                    return
                self._http.start_next_cycle()
            elif event is h11.NEED_DATA or event is h11.PAUSED:
                return
            elif isinstance(event, h11.ConnectionClosed):
                self._close()
                return

    def _send(self, response: HttpResponse) -> None:
        if self._transport is None:
            return
        head = h11.Response(
            status_code=response.status,
            headers=[
                ("Content-Type", response.content_type),
                ("Content-Length", str(len(response.body))),
            ],
        )
        for event in (head, h11.Data(data=response.body), h11.EndOfMessage()):
            data = self._http.send(event)
            if data:
                self._transport.write(data)

    def _refuse(self) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send(_REFUSED)
        self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
