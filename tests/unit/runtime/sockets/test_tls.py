"""TLS on real sockets: handshakes, clear text before them, and text behind them."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from cryptography import x509

from headwater.runtime.loop_adapters import LoopNetwork
from headwater.runtime.sockets import tls
from headwater.runtime.sockets.client_connection import ClientConnection
from headwater.runtime.sockets.tls import NOT_TLS, TOO_LONG, load_context
from headwater.runtime.tls import TlsError, TlsSettings
from tests.kit.credentials import Authority
from tests.kit.tls_files import tls_files

FILES = tls_files()
PAIR: Final[dict[str, Any]] = {
    "cert_file": FILES.path("server.pem"),
    "key_file": FILES.path("server-key.pem"),
}
CLEAR = b"INFO {}\r\n"


class SecuringServer:
    """A server that greets in clear text, secures its one client, and sends its text back."""

    def __init__(self, allows_plain: bool = False, **settings: Any) -> None:
        self._context = load_context(TlsSettings(**PAIR | settings))
        self._allows_plain = allows_plain
        self.connection: ClientConnection | None = None
        self.events: list[str] = []
        self.received = bytearray()
        self.changed = asyncio.Event()

    def accept(self, connection: ClientConnection) -> str:
        self.connection = connection
        connection.write(CLEAR)
        connection.expect_tls(self._context, self, self._allows_plain)
        return "the client"

    def receive(self, client: Any, data: bytes) -> None:
        self.received += data
        self.open.write(data)
        self._note("")

    def lost(self, client: Any, was_broken: bool) -> None:
        self._note("lost")

    def writable(self, client: Any) -> None: ...

    def unwritable(self, client: Any) -> None: ...

    def handshake_begun(self, client: Any) -> None:
        self._note("begun")

    def secured(self, client: Any) -> None:
        self._note("plain" if self.open.tls is None else "secured")

    def handshake_failed(self, client: Any, reason: str) -> None:
        self._note(reason)
        self.open.close()

    def _note(self, event: str) -> None:
        if event:
            self.events.append(event)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 20)

    @property
    def open(self) -> ClientConnection:
        assert self.connection is not None
        return self.connection


Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter
Conversation = Callable[[SecuringServer, Reader, Writer], Awaitable[None]]


def converse(server: SecuringServer, conversation: Conversation) -> SecuringServer:
    """Connect a socket to the server, read the greeting, and let the client talk."""

    async def run() -> None:
        listener = await LoopNetwork().listen("127.0.0.1", 0, lambda: ClientConnection(server))
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        try:
            assert await reader.readexactly(len(CLEAR)) == CLEAR
            await conversation(server, reader, writer)
        finally:
            writer.close()
            listener.close()

    asyncio.run(run())
    return server


async def secure(writer: Writer, name: str = "") -> None:
    await writer.start_tls(FILES.client_context(name), server_hostname="127.0.0.1")


def test_text_behind_a_handshake_goes_both_ways() -> None:
    text = bytes(range(256)) * 2000

    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        await secure(writer)
        writer.write(text)
        assert await reader.readexactly(len(text)) == text

    server = converse(SecuringServer(), talk)
    assert server.received == text
    assert server.events[:2] == ["begun", "secured"]
    assert server.open.tls is not None
    assert server.open.tls.version == "1.3"


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20], ids=["byte by byte", "whole"])
def test_text_may_come_with_the_end_of_the_handshake(chunk_bytes: int) -> None:
    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = FILES.client_context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        is_done = False
        while not is_done:
            try:
                client.do_handshake()
                client.write(b"PING\r\n")
                is_done = True
            except ssl.SSLWantReadError:
                pass
            said = outgoing.read()
            for start in range(0, len(said), chunk_bytes):
                writer.write(said[start : start + chunk_bytes])
                await writer.drain()
            if not is_done:
                incoming.write(await asyncio.wait_for(reader.read(65536), 20))
        await server.until(lambda: server.received == b"PING\r\n")

    converse(SecuringServer(), talk)


def test_plain_text_ends_the_handshake() -> None:
    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        writer.write(b"CONNECT {}\r\n")
        assert await reader.read() == b""

    server = converse(SecuringServer(), talk)
    assert server.events == [NOT_TLS, "lost"]
    assert not server.received


def test_a_client_that_may_speaks_plainly_on_its_own_socket() -> None:
    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        writer.write(b"CONNECT {}\r\n")
        assert await reader.readexactly(12) == b"CONNECT {}\r\n"
        assert not server.open.awaits_handshake

    assert converse(SecuringServer(allows_plain=True), talk).events[0] == "plain"


def test_a_bad_handshake_is_refused_by_name() -> None:
    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        writer.write(bytes([tls.HANDSHAKE_RECORD]) + b"\x03\x01\x00\x05hello")
        await reader.read()
        await server.until(lambda: "lost" in server.events)

    begun, reason, lost = converse(SecuringServer(), talk).events
    assert (begun, lost) == ("begun", "lost")
    assert reason.startswith("tls: ")


@pytest.mark.parametrize("name", ["", "eve"], ids=["none", "of a stranger"])
def test_a_certificate_of_the_authority_is_required(name: str) -> None:
    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        try:
            await secure(writer, name)
        except OSError:
            pass
        await server.until(lambda: "lost" in server.events)

    server = converse(SecuringServer(verify=True, ca_file=FILES.path("authority.pem")), talk)
    assert server.events[1].startswith("tls: ")
    assert "secured" not in server.events


def test_the_certificate_of_a_client_is_kept() -> None:
    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        await secure(writer, "client")
        await server.until(lambda: "secured" in server.events)

    server = converse(SecuringServer(verify=True, ca_file=FILES.path("authority.pem")), talk)
    assert server.open.tls is not None
    assert server.open.tls.peer_certificates[0] == FILES.certificate("client")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_wants_to_resume_has_its_certificate_all_the_same(
    version: ssl.TLSVersion,
) -> None:
    server = SecuringServer(verify=True, ca_file=FILES.path("authority.pem"))
    context = FILES.client_context("client")
    context.minimum_version = context.maximum_version = version

    def connect(port: int, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        with socket.create_connection(("127.0.0.1", port), 20) as plain:
            assert plain.recv(len(CLEAR), socket.MSG_WAITALL) == CLEAR
            with context.wrap_socket(
                plain, server_hostname="127.0.0.1", session=session
            ) as secured:
                secured.sendall(b"hi")
                assert secured.recv(2) == b"hi"
                return secured.session

    async def run() -> None:
        listener = await LoopNetwork().listen("127.0.0.1", 0, lambda: ClientConnection(server))
        session = None
        for _ in range(2):
            session = await asyncio.to_thread(connect, listener.port, session)
            assert server.open.tls is not None
            assert server.open.tls.peer_certificates[:1] == (FILES.certificate("client"),)
        listener.close()

    asyncio.run(run())


def test_a_client_is_told_of_the_end_before_its_socket_is_closed() -> None:
    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        await secure(writer)
        writer.write(b"last words")
        await reader.readexactly(10)
        server.open.close()
        # Without the notice of TLS, this would be an error.
        assert await reader.read() == b""

    assert converse(SecuringServer(), talk).received == b"last words"


def test_a_handshake_runs_in_a_thread_and_the_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, threads = threading.Event(), []
    run = tls.Handshakes.run

    def slow(self: tls.Handshakes, work: Callable[[], object], done: Any) -> None:
        def held() -> object:
            threads.append(threading.current_thread())
            assert gate.wait(20)
            return work()

        run(self, held, done)

    monkeypatch.setattr(tls.Handshakes, "run", slow)

    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        securing = asyncio.create_task(secure(writer))
        await server.until(lambda: server.events == ["begun"])
        # The loop serves this connection while the handshake of the other one is held.
        other = SecuringServer(allows_plain=True)
        listener = await LoopNetwork().listen("127.0.0.1", 0, lambda: ClientConnection(other))
        _, plain = await asyncio.open_connection("127.0.0.1", listener.port)
        plain.write(b"PING\r\n")
        await other.until(lambda: other.received == b"PING\r\n")
        assert server.events == ["begun"]
        gate.set()
        await securing
        plain.close()
        listener.close()

    converse(SecuringServer(), talk)
    assert threads
    assert threading.main_thread() not in threads


def test_a_handshake_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_BYTES_MAX", 100)

    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        # A client's greeting that is announced as long as can be.
        greeting = b"\x03\x01\x40\x00" + b"\x01\x00\x3f\xfc"
        writer.write(bytes([tls.HANDSHAKE_RECORD]) + greeting + bytes(96))
        await server.until(lambda: "lost" in server.events)

    assert converse(SecuringServer(), talk).events == ["begun", TOO_LONG, "lost"]


def test_a_client_that_leaves_in_the_handshake_is_lost() -> None:
    async def talk(server: SecuringServer, reader: Reader, writer: Writer) -> None:
        writer.write(bytes([tls.HANDSHAKE_RECORD]) + b"\x03\x01\x40\x00")
        await server.until(lambda: server.events == ["begun"])
        writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        await server.until(lambda: "lost" in server.events)

    assert converse(SecuringServer(), talk).events == ["begun", "lost"]


def test_an_encrypted_key_is_refused_by_name(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("server", passphrase=b"secret")
    with pytest.raises(TlsError, match="the key is encrypted, store it plainly"):
        load_context(TlsSettings(cert_file=certificate, key_file=key))


def test_the_end_of_the_certificate_is_known() -> None:
    found = x509.load_der_x509_certificate(FILES.certificate("server")).not_valid_after_utc
    assert load_context(TlsSettings(**PAIR)).not_after_ns == int(found.timestamp()) * 10**9


def test_suites_and_a_curve_can_be_named() -> None:
    settings = TlsSettings(
        **PAIR, cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), curve="CurveP384"
    )
    names = [suite["name"] for suite in load_context(settings).ssl_context.get_ciphers()]
    old = [name for name in names if not name.startswith("TLS_")]
    assert old == ["ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_suites_of_tls_1_3_alone_leave_no_older_version() -> None:
    suites = ("TLS_AES_128_GCM_SHA256",)
    context = load_context(TlsSettings(**PAIR, cipher_suites=suites)).ssl_context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
