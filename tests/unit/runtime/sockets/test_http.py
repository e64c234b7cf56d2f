"""The monitoring port as HTTP: every request is answered once, in order, within limits."""

import asyncio
from collections.abc import Awaitable, Callable

import h11
import pytest

from headwater.runtime.sockets import http
from headwater.runtime.sockets.http import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    HttpConnection,
    HttpResponse,
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def echo(target: str) -> HttpResponse:
    """An answer that repeats its request."""
    return HttpResponse(200, "text/plain", target.encode(), (("X-Extra", "yes"),))


def request(target: str = "/x", method: str = "GET", *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def talk(script: Callable[[Streams], Awaitable[None]]) -> None:
    """Run a script against a real socket."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: HttpConnection(echo), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await script((reader, writer))
            finally:
                writer.close()
                await writer.wait_closed()

    asyncio.run(main())


def all_of(data: bytes, *, half_close: bool = True) -> list[h11.Event]:
    """The events that a client reads in answer to `data` until the server closes the connection."""
    received = bytearray()

    async def script(streams: Streams) -> None:
        reader, writer = streams
        writer.write(data)
        if half_close:
            writer.write_eof()
        received.extend(await reader.read())

    talk(script)
    return list(answers(bytes(received), data.count(b"HTTP/1.") or 1))


def answers(data: bytes, count: int, method: str = "GET") -> list[h11.Event]:
    """Parse up to `count` answers; only heads and bodies are kept."""
    kept: list[h11.Event] = []
    client = h11.Connection(h11.CLIENT)
    client.receive_data(data)
    client.receive_data(b"")
    for _ in range(count):
        client.send(h11.Request(method=method, target="/", headers=[("Host", "test")]))
        client.send(h11.EndOfMessage())
        while True:
            event = client.next_event()
            if isinstance(event, h11.Response | h11.Data):
                kept.append(event)
            elif isinstance(event, h11.ConnectionClosed):
                return kept
            elif isinstance(event, h11.EndOfMessage):
                break
        if client.our_state is not h11.DONE or client.their_state is not h11.DONE:
            break
        client.start_next_cycle()
    return kept


def statuses(events: list[h11.Event]) -> list[int]:
    return [event.status_code for event in events if isinstance(event, h11.Response)]


def bodies(events: list[h11.Event]) -> list[bytes]:
    return [bytes(event.data) for event in events if isinstance(event, h11.Data)]


def test_the_answer_has_the_length_the_type_and_the_headers_it_was_given() -> None:
    head, body = all_of(request("/a?b=c"))
    assert isinstance(head, h11.Response)
    assert isinstance(body, h11.Data)
    assert head.status_code == 200
    assert (b"content-type", b"text/plain") in head.headers
    assert (b"content-length", b"6") in head.headers
    assert (b"x-extra", b"yes") in head.headers
    assert body.data == b"/a?b=c"


def test_requests_sent_at_once_are_answered_in_order() -> None:
    targets = [f"/{number}" for number in range(50)]
    events = all_of(b"".join(request(target) for target in targets))
    assert bodies(events) == [target.encode() for target in targets]


def test_a_request_cut_at_every_byte_is_one_request() -> None:
    data = request("/slow", "GET", "X-Header: value")

    async def script(streams: Streams) -> None:
        reader, writer = streams
        for position in range(len(data)):
            writer.write(data[position : position + 1])
            await writer.drain()
        writer.write_eof()
        assert (await reader.read()).endswith(b"\r\n\r\n/slow")

    talk(script)


def test_the_connection_stays_open_for_the_next_request() -> None:
    async def script(streams: Streams) -> None:
        reader, writer = streams
        for target in ("/one", "/two"):
            writer.write(request(target))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(4) == target.encode()

    talk(script)


@pytest.mark.parametrize(
    "data", [b"GET /x HTTP/1.0\r\n\r\n", request("/x", "GET", "Connection: close")]
)
def test_the_connection_is_closed_when_the_client_wants_no_more(data: bytes) -> None:
    assert bodies(all_of(data, half_close=False)) == [b"/x"]


def test_head_is_answered_like_get_without_the_body() -> None:
    async def script(streams: Streams) -> None:
        reader, writer = streams
        writer.write(request("/long", "HEAD") + request("/next", "HEAD"))
        writer.write_eof()
        data = await reader.read()
        heads = answers(data, 2, "HEAD")
        assert [type(event) for event in heads] == [h11.Response, h11.Response]
        assert data.count(b"Content-Length: 5") == 2

    talk(script)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_answered_too_and_their_bodies_read_past(method: str) -> None:
    with_body = request("/one", method, "Content-Length: 5", body=b"GET /")
    assert bodies(all_of(with_body + request("/two"))) == [b"/one", b"/two"]


def test_a_chunked_body_is_read_past() -> None:
    chunked = request("/one", "POST", "Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n")
    assert bodies(all_of(chunked + request("/two"))) == [b"/one", b"/two"]


def test_who_waits_for_leave_to_send_a_body_gets_the_answer_and_the_end() -> None:
    data = request("/x", "POST", "Content-Length: 5", "Expect: 100-continue")
    head, body = all_of(data, half_close=False)
    assert isinstance(head, h11.Response)
    assert (b"connection", b"close") in head.headers
    assert isinstance(body, h11.Data)


def test_a_body_at_the_limit_is_read_past_and_one_beyond_it_is_refused() -> None:
    fits = request("/fits", "POST", f"Content-Length: {BODY_BYTES_MAX}")
    events = all_of(fits + bytes(BODY_BYTES_MAX) + request("/next"))
    assert bodies(events) == [b"/fits", b"/next"]
    huge = request("/huge", "POST", f"Content-Length: {BODY_BYTES_MAX + 1}")
    assert statuses(all_of(huge, half_close=False)) == [413]


def test_a_head_that_does_not_end_is_refused_beyond_the_limit() -> None:
    head = request("/x", "GET", "X: " + "y" * HEAD_BYTES_MAX).removesuffix(b"\r\n\r\n")
    assert statuses(all_of(head, half_close=False)) == [431]


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PING\r\n\r\n",
        b"GET /x HTTP/1.1\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        b"GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_and_the_connection_closed(data: bytes) -> None:
    events = all_of(data, half_close=False)
    assert statuses(events) == [400]
    assert bodies(events) == [b"400 Bad Request"]


def test_nobody_gets_a_tunnel() -> None:
    assert statuses(all_of(request("other:80", "CONNECT"), half_close=False)) == [405]


def test_answers_before_a_bad_request_still_arrive() -> None:
    without_host = b"GET /x HTTP/1.1\r\n\r\n"
    assert statuses(all_of(request("/one") + without_host, half_close=False)) == [200, 400]


def test_a_connection_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_S_MAX", 0.001)

    async def script(streams: Streams) -> None:
        assert await streams[0].read() == b""

    talk(script)


class Transport(asyncio.Transport):
    """A socket that can be told apart from the loop's."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.reading = True
        self.closed = False
        self.aborted = asyncio.Event()

    def write(self, data: object) -> None:
        self.written += data  # type: ignore[arg-type]

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        """The number of bytes written: the system has taken none of them yet."""
        return len(self.written)

    def abort(self) -> None:
        self.aborted.set()

    def close(self) -> None:
        self.closed = True


def test_a_client_that_does_not_read_is_not_answered_until_it_does() -> None:
    async def main() -> None:
        asked: list[str] = []

        def respond(target: str) -> HttpResponse:
            asked.append(target)
            return echo(target)

        connection, transport = HttpConnection(respond), Transport()
        connection.connection_made(transport)
        connection.pause_writing()
        connection.data_received(request("/one") + request("/two"))
        assert (asked, transport.reading) == ([], False)
        connection.resume_writing()
        assert (asked, transport.reading) == (["/one", "/two"], True)
        connection.connection_lost(None)

    asyncio.run(main())


def test_nothing_is_written_to_a_connection_that_was_lost() -> None:
    async def main() -> None:
        connection, transport = HttpConnection(echo), Transport()
        connection.connection_made(transport)
        connection.connection_lost(None)
        connection.data_received(request())
        connection.eof_received()
        connection.resume_writing()
        assert transport.written == b""

    asyncio.run(main())


def test_a_request_that_never_ends_does_not_keep_a_connection_open() -> None:
    async def main() -> None:
        connection, transport = HttpConnection(echo), Transport()
        connection.connection_made(transport)
        timer = connection._idle
        connection.data_received(b"GET / HTTP/1.1\r\n")
        connection.data_received(b"Host: x\r\n")
        assert connection._idle is timer
        connection.data_received(b"\r\n")
        assert connection._idle is not timer
        connection.connection_lost(None)

    asyncio.run(main())


def test_a_peer_that_never_reads_its_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "LAST_WRITE_S_MAX", 0.0)

    async def main() -> None:
        connection, transport = HttpConnection(echo), Transport()
        connection.connection_made(transport)
        connection.data_received(request())
        connection.close()
        await asyncio.wait_for(transport.aborted.wait(), timeout=10)
        connection.connection_lost(None)

    asyncio.run(main())
