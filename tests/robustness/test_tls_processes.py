"""TLS of a real server: pinned keys, HTTPS, certificates that change, and handshakes that hang."""

import json
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGHUP

import pytest

from headwater.wire.credentials.certificates import key_fingerprint
from tests.kit.credentials import Authority
from tests.kit.server_process import HEADWATER, LOOPBACK_FLAGS, ServerProcess, Setup
from tests.kit.tls_files import tls_files
from tests.kit.wire_client import CLOSED, WireClient

FILES = tls_files()
PAIR = "cert_file: server.pem, key_file: server-key.pem"
HALF_OPEN = 300
# Silence, half of a greeting, and bytes that begin as one.
BEGINNINGS = (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"\x16" * 50)
CONNECT = 'CONNECT {"verbose":false}\r\n'


class Secured:
    """A server with TLS, and its clients."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self._clients: list[WireClient] = []

    def secured(self, name: str = "") -> WireClient:
        """A client behind its handshake."""
        client = WireClient("127.0.0.1", self.server.port)
        self._clients.append(client)
        client.frame()
        client.secure(FILES.client_context(name))
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()


@contextmanager
def serving(
    directory: Path, tls: str, flags: tuple[str, ...] = LOOPBACK_FLAGS, rest: str = ""
) -> Iterator[Secured]:
    setup = Setup(f"tls {{ {tls} }}\n{rest}", flags, FILES.server_files())
    server = Secured(ServerProcess(HEADWATER, setup, directory))
    try:
        server.server.wait_until_ready()
        yield server
    finally:
        server.close()
        server.server.stop()


def test_only_pinned_keys_are_let_in(tmp_path: Path) -> None:
    pin = key_fingerprint(FILES.certificate("client"))
    section = f'{PAIR}, ca_file: authority.pem, verify: true, pinned_certs: ["{pin}"]'
    with serving(tmp_path, section) as one:
        assert one.secured("client").exchange(CONNECT) == []
        assert one.secured("ada").until_closed() == [CLOSED]
        one.server.wait_for_log("TLS handshake error: certificate not pinned")


def test_monitoring_over_https(tmp_path: Path) -> None:
    flags = ("-a", "127.0.0.1", "-p", "-1", "-ms", "-1")
    with serving(tmp_path, PAIR, flags) as one:
        line = one.server.wait_for_log("Starting https monitor on ").text
        url = f"https://127.0.0.1:{line.rpartition(':')[2]}/healthz"
        context = FILES.client_context()
        with urllib.request.urlopen(url, context=context, timeout=20) as page:
            assert page.read() == b'{"status":"ok"}'


def presented(server: ServerProcess, context: ssl.SSLContext) -> bytes:
    """The certificate that the server presents to a new connection."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as plain:
        while plain.recv(1) != b"\n":
            pass
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
            found = client.getpeercert(binary_form=True)
    assert found is not None
    return found


def test_a_reload_takes_over_a_new_certificate_and_keeps_connections(tmp_path: Path) -> None:
    with serving(tmp_path, PAIR) as one:
        before = presented(one.server, FILES.client_context())
        client = one.secured()
        client.exchange(CONNECT + "SUB a 1\r\n")
        renewed = tmp_path / "renewed"
        renewed.mkdir()
        certificate, key = Authority(renewed).issue("server")
        (tmp_path / "server.pem").write_bytes(Path(certificate).read_bytes())
        (tmp_path / "server-key.pem").write_bytes(Path(key).read_bytes())
        one.server.signal(SIGHUP)
        one.server.wait_for_log("Reloaded server configuration")
        context = ssl.create_default_context(cafile=str(renewed / "authority.pem"))
        assert presented(one.server, context) != before
        assert client.exchange("PUB a 2\r\nhi\r\n") == ["MSG a 1 2\r\nhi\r\n"]


def test_a_reload_of_a_broken_certificate_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, PAIR) as one:
        before = presented(one.server, FILES.client_context())
        (tmp_path / "server.pem").write_text("no certificate")
        one.server.signal(SIGHUP)
        one.server.wait_for_log("tls: failed to find any PEM data in certificate input")
        assert presented(one.server, FILES.client_context()) == before


def test_monitoring_keeps_its_certificate_if_a_reload_ends_tls(tmp_path: Path) -> None:
    flags = ("-a", "127.0.0.1", "-p", "-1", "-ms", "-1")
    rest = 'ports_file_dir: "."\n'
    with serving(tmp_path, PAIR, flags, rest) as one:
        (ports,) = tmp_path.glob("*.ports")
        urls = json.loads(ports.read_text())
        assert urls["nats"] == [f"tls://127.0.0.1:{one.server.port}"]
        one.server.rewrite_config(rest)
        one.server.signal(SIGHUP)
        one.server.wait_for_log("Reloaded server configuration")
        url = urls["monitoring"][0] + "/healthz"
        with urllib.request.urlopen(url, context=FILES.client_context(), timeout=20) as page:
            assert page.read() == b'{"status":"ok"}'


def test_handshakes_that_hang_cost_no_other_client(tmp_path: Path) -> None:
    with serving(tmp_path, f"{PAIR}, timeout: 60") as one:
        client = one.secured()
        client.exchange(CONNECT)
        halves = [
            socket.create_connection(("127.0.0.1", one.server.port)) for _ in range(HALF_OPEN)
        ]
        try:
            for number, half in enumerate(halves):
                # Some are silent, some stop amid their greeting, some send what is none.
                half.sendall(
                    (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"\x16" * 50)[number % 3]
                )
            assert client.exchange("SUB a 1\r\nPUB a 2\r\nhi\r\n") == ["MSG a 1 2\r\nhi\r\n"]
            assert one.secured().exchange(CONNECT) == []
        finally:
            for half in halves:
                half.close()


def test_a_handshake_that_fails_is_logged_once(tmp_path: Path) -> None:
    with serving(tmp_path, f"{PAIR}, ca_file: authority.pem, verify: true") as one:
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            one.secured().until_closed()
        one.server.wait_for_log("tls: client didn't provide a certificate")
        errors = [line for line in one.server.log if "TLS handshake error" in line.text]
        assert len(errors) == 1
