"""Handshakes as the server judges them; sockets are those of the test."""

from dataclasses import replace
from typing import Any

import pytest

from headwater.runtime.sockets.client_connection import TlsEvents
from headwater.runtime.tls import TlsContext, TlsSettings, TlsState
from headwater.server.configuration.options import Options, TlsOptions
from headwater.server.core.client import Client
from headwater.wire.credentials.certificates import key_fingerprint
from tests.kit.tls_files import tls_files
from tests.kit.world import FakeConnection, World

STATE = TlsState("1.3", "TLS_AES_128_GCM_SHA256")
CONNECT = b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'


class SecurableConnection(FakeConnection):
    """A socket of the test whose handshake the test makes."""

    tls: TlsState | None = None
    events: TlsEvents | None = None
    allows_plain = False
    awaits_handshake = False

    def expect_tls(self, context: TlsContext, events: TlsEvents, allows_plain: bool) -> None:
        self.events = events
        self.allows_plain = allows_plain
        self.awaits_handshake = True


class LoadedContext:
    """A certificate that nobody looks at."""

    not_after_ns = 0


class Handshake:
    """A server with TLS, and one connection to it."""

    def __init__(self, tls: TlsOptions, **options: Any) -> None:
        self.world = World(
            Options(tls=tls, debug=True, **options), load_tls=lambda _: LoadedContext()
        )
        self.world.node.log.debug_on = True
        self.connection = SecurableConnection(self.world.scheduler, 40_000)
        self.connection.node = self.world.node
        self.client: Client = self.world.node.connections.accept(self.connection)
        self.connection.client = self.client
        self.world.settle()

    @property
    def events(self) -> TlsEvents:
        assert self.connection.events is not None
        return self.connection.events

    @property
    def said(self) -> str:
        """The first word of every line that the server has sent since the last look."""
        lines = bytes(self.connection.received).splitlines()
        self.connection.received.clear()
        return " ".join(line.split()[0].decode() for line in lines)

    def end(self) -> str:
        """The reason for which the connection was closed; empty while it is open."""
        return self.client.close_reason

    def secure(self, *certificates: bytes) -> None:
        self.connection.awaits_handshake = False
        self.events.handshake_begun(self.client)
        self.connection.tls = TlsState(STATE.version, STATE.cipher_suite, certificates)
        self.events.secured(self.client)
        self.world.settle()

    def speak(self) -> None:
        self.connection.deliver(CONNECT)
        self.world.settle()

    def logged(self, text: str) -> bool:
        return any(text in line for line in self.world.log_lines)


def test_info_comes_before_the_handshake_and_the_login_behind_it() -> None:
    one = Handshake(TlsOptions())
    assert one.said == "INFO"
    assert one.client.timers.auth is None
    one.secure()
    one.speak()
    assert one.said == "PONG INFO"
    assert one.client.tls == STATE
    assert one.logged("TLS version 1.3, cipher suite TLS_AES_128_GCM_SHA256")


def test_a_handshake_that_is_first_comes_before_info() -> None:
    one = Handshake(TlsOptions(is_first=True))
    assert one.said == ""
    one.secure()
    assert one.said == "INFO"
    assert one.client.is_tls_first


def test_a_silent_client_gets_info_after_a_while() -> None:
    one = Handshake(TlsOptions(is_first=True, first_wait_s=0.05, timeout_s=2))
    assert one.said == ""
    one.world.advance(0.06)
    assert one.said == "INFO"
    one.secure()
    assert one.said == ""
    assert not one.client.is_tls_first


def test_a_client_that_has_begun_gets_no_info_as_clear_text() -> None:
    one = Handshake(TlsOptions(is_first=True, first_wait_s=0.05, timeout_s=2))
    one.connection.awaits_handshake = False
    one.world.advance(0.06)
    assert one.said == ""
    one.secure()
    assert one.said == "INFO"


def test_a_handshake_that_is_late_ends_the_connection() -> None:
    one = Handshake(TlsOptions(timeout_s=2))
    one.world.advance(2.1)
    assert one.client.close_reason == "TLS Handshake Failure"
    assert one.logged("TLS handshake timeout")


def test_a_handshake_in_time_ends_the_wait() -> None:
    one = Handshake(TlsOptions(timeout_s=2))
    one.secure()
    one.speak()
    one.world.advance(10)
    assert not one.client.close_reason


def test_a_failed_handshake_is_an_error_and_a_plain_client_is_not() -> None:
    failed = Handshake(TlsOptions())
    failed.events.handshake_failed(failed.client, "tls: no")
    assert failed.logged("[ERR] 127.0.0.1:40000 - cid:3 - TLS handshake error: tls: no")
    plain = Handshake(TlsOptions())
    reason = "tls: first record does not look like a TLS handshake"
    plain.events.handshake_failed(plain.client, reason)
    assert plain.logged(f"[DBG] 127.0.0.1:40000 - cid:3 - TLS handshake error: {reason}")
    assert {failed.client.close_reason, plain.client.close_reason} == {"TLS Handshake Failure"}


def test_a_client_that_leaves_before_its_handshake_has_failed_it() -> None:
    one = Handshake(TlsOptions())
    one.connection.leave()
    one.world.settle()
    assert one.client.close_reason == "TLS Handshake Failure"


@pytest.mark.parametrize(("name", "is_let_in"), [("client", True), ("ada", False)])
def test_only_pinned_keys_are_let_in(name: str, is_let_in: bool) -> None:
    pin = key_fingerprint(tls_files().certificate("client"))
    one = Handshake(TlsOptions(TlsSettings(verify=True), pinned_keys=frozenset({pin})))
    one.secure(tls_files().certificate(name))
    assert bool(one.client.close_reason) is not is_let_in


def test_a_reload_ends_connections_whose_key_is_not_pinned_any_more() -> None:
    pins = [key_fingerprint(tls_files().certificate(name)) for name in ("client", "ada")]
    verified = TlsOptions(TlsSettings(verify=True), pinned_keys=frozenset(pins))
    client, ada = (Handshake(verified) for _ in range(2))
    for one, name in ((client, "client"), (ada, "ada")):
        one.secure(tls_files().certificate(name))
        one.speak()
        left = replace(verified, pinned_keys=frozenset(pins[:1]))
        one.world.node.reload(replace(one.world.node.options, tls=left))
    assert not client.end()
    assert ada.end() == "TLS Handshake Failure"


def test_a_reload_waits_for_the_handshakes_that_have_begun() -> None:
    one = Handshake(TlsOptions())
    pins = TlsOptions(TlsSettings(verify=True), pinned_keys=frozenset({"a" * 64}))
    one.world.node.reload(replace(one.world.node.options, tls=pins))
    assert not one.end()
    one.secure(tls_files().certificate("client"))
    assert one.end() == "TLS Handshake Failure"


def test_a_handshake_that_is_not_required_has_its_time_as_well() -> None:
    one = Handshake(TlsOptions(timeout_s=2), allow_non_tls=True)
    one.world.advance(3)
    one.events.handshake_begun(one.client)
    one.world.advance(1.9)
    assert not one.end()
    one.world.advance(0.2)
    assert one.end() == "TLS Handshake Failure"


@pytest.mark.parametrize("place", [0, 1])
def test_a_certificate_that_cannot_be_read_ends_the_connection(place: int) -> None:
    one = Handshake(TlsOptions(TlsSettings(verify=True)))
    chain = [tls_files().certificate("client")] * 2
    chain[place] = tls_files().certificate("garbled")
    one.secure(*chain)
    assert one.client.close_reason == "TLS Handshake Failure"
    assert one.logged("TLS handshake error: tls: failed to parse client certificate: x509: ")


def test_a_client_that_may_do_without_tls_is_not_waited_for() -> None:
    one = Handshake(TlsOptions(timeout_s=2), allow_non_tls=True)
    assert one.connection.allows_plain
    one.events.secured(one.client)
    one.speak()
    assert one.said == "INFO PONG INFO"
    one.world.advance(10)
    assert not one.client.close_reason
