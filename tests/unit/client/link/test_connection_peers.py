"""A connection and a scripted peer: frames that servers send seldom, and some none should."""

import contextlib
from collections.abc import Iterator

import pytest

from headwater.base.errors import OperatingError
from headwater.client.link.connection import Connection, status_of
from headwater.client.link.errors import (
    ConnectionLostError,
    LinkError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from headwater.client.link.login import Login, LoginError
from tests.kit.link_peers import INFO, WAIT_S_MAX, ScriptedPeer

PONG = b"PONG\r\n"
SHORT_S = 0.2
GREETING: tuple[bytes | str, ...] = (INFO, "PING\r\n", PONG, "SUB a 1\r\n")
"""The part of a server until a connection stands and wants messages."""

STAY = "never said"
"""Wait for the client to leave."""


def login_for(peer: ScriptedPeer, retries: int = 0) -> Login:
    return Login(peer.url, retries=retries, connect_timeout_s=WAIT_S_MAX)


# --- before the connection stands ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((), "the server closed the connection"),
        ((b"INFO {}",), "the server closed the connection"),
        ((INFO,), "the server closed the connection|lost"),
        ((INFO, "PING\r\n"), "the server closed the connection"),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n", STAY), "sent an operation that is not known"),
        ((b"\x15\x03\x01\x00\x02\x02\x16\r\n", STAY), "sent an operation that is not known"),
        ((b"INFO nonsense\r\n", STAY), "not a JSON object"),
        ((b"INFO []\r\n", STAY), "not a JSON object"),
        ((b"-ERR 'Connection throttling is active. Try again.'\r\n",), "Connection throttling"),
        ((INFO, "PING\r\n", b"-ERR 'Authentication Timeout'\r\n"), "Authentication Timeout"),
    ],
)
def test_a_peer_that_is_no_server_in_working_order_is_unreachable(
    steps: tuple[bytes | str, ...], reason: str
) -> None:
    with ScriptedPeer(*steps) as peer:
        with pytest.raises(UnreachableError, match=reason) as caught:
            Connection(login_for(peer, retries=1))
        assert f"url {peer.url}: 127.0.0.1:{peer.port}: " in str(caught.value)
        assert "\n" not in str(caught.value)
        assert peer.visits == 2


@pytest.mark.parametrize("steps", [(STAY,), (INFO, STAY), (b"INFO {", STAY)])
def test_a_peer_that_says_nothing_is_unreachable(steps: tuple[bytes | str, ...]) -> None:
    with (
        ScriptedPeer(*steps) as peer,
        pytest.raises(UnreachableError, match="did not answer in time"),
    ):
        Connection(Login(peer.url, retries=0, connect_timeout_s=SHORT_S))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Authorization Violation", "given by token"),
        ("maximum connections exceeded", "the server refused: maximum connections exceeded"),
        ("User Authentication Expired", "the server refused: User Authentication Expired"),
    ],
)
def test_a_refusal_is_final(text: str, reason: str) -> None:
    with ScriptedPeer(INFO, "PING\r\n", f"-ERR '{text}'\r\n".encode()) as peer:
        with pytest.raises(RefusedError, match=reason):
            Connection(Login(peer.url, token="tok3n", retries=5))
        assert peer.visits == 1


def test_an_error_before_the_greeting_is_a_refusal() -> None:
    with ScriptedPeer(b"-ERR 'maximum connections exceeded'\r\n") as peer:
        login = login_for(peer)
        with pytest.raises(RefusedError, match="maximum connections exceeded"):
            Connection(login)


def test_nothing_is_said_in_the_clear_if_tls_is_wanted() -> None:
    with ScriptedPeer(INFO, STAY) as peer:
        login = Login(peer.url, tls=True, user="ann", password="hunter2")
        with pytest.raises(LoginError, match=r"option tls: .* does not offer TLS"):
            Connection(login)
        assert peer.visits == 1
    assert peer.heard == b""


@pytest.mark.parametrize("reply", [b"-ERR 'Secure Connection - TLS Required'\r\n", b""])
def test_a_handshake_that_fails_is_told_with_the_address(reply: bytes) -> None:
    info = b'INFO {"tls_required":true}\r\n'
    with ScriptedPeer(info, "\x16\x03", reply) as peer:
        with pytest.raises(OperatingError, match=f"127.0.0.1:{peer.port}") as caught:
            Connection(login_for(peer))
        assert "\n" not in str(caught.value)
    assert b"CONNECT" not in peer.heard


def test_a_greeting_in_pieces() -> None:
    pieces = [INFO[at : at + 7] for at in range(0, len(INFO), 7)]
    with ScriptedPeer(*pieces, "PING\r\n", b"PO", b"NG\r\n", STAY) as peer:
        connection = Connection(login_for(peer))
        assert connection.info["server_id"] == "x"
        connection.close()
    assert peer.heard.startswith(b"CONNECT {")


# --- while it stands ----------------------------------------------------------------------------


@contextlib.contextmanager
def subscribed(*steps: bytes | str) -> Iterator[Connection]:
    """A connection to a peer that, once there is a subscription, goes on with these steps."""
    with ScriptedPeer(*GREETING, *steps) as peer, Connection(login_for(peer)) as connection:
        connection.subscribe("a")
        yield connection


def test_a_ping_between_messages_is_answered() -> None:
    said = b"MSG a 1 1\r\nx\r\nPING\r\nMSG a 1 1\r\ny\r\n"
    with subscribed(said, "PONG\r\n", b"MSG a 1 1\r\nz\r\n", STAY) as connection:
        payloads: list[bytes] = []
        while len(payloads) < 3:
            payloads += connection.receive(WAIT_S_MAX).payloads
        assert payloads == [b"x", b"y", b"z"]


def test_a_later_info_updates_what_is_known() -> None:
    with subscribed(b'INFO {"ldm":true}\r\nMSG a 1 0\r\n\r\n', STAY) as connection:
        assert len(connection.receive(WAIT_S_MAX)) == 1
        assert connection.info["ldm"] is True
        assert connection.info["server_id"] == "x"


@pytest.mark.parametrize(
    "ending",
    [
        b"",
        b"MSG a 1 5\r\nhal",
        b"nonsense\r\n",
        b"MSG a 1 1\r\nlonger\r\n",
        b"INFO nonsense\r\n",
        b"-ERR 'Stale Connection'\r\n",
        b"-ERR 'Slow Consumer'\r\n",
        b"MSG a 1 1\r\nx\r\n-ERR 'Server Shutdown'\r\n",
    ],
)
def test_an_end_of_the_connection_can_be_told_from_a_refusal(ending: bytes) -> None:
    with subscribed(ending) as connection:
        with pytest.raises(ConnectionLostError):
            connection.receive(WAIT_S_MAX)
        assert not connection.is_open
        with pytest.raises(ConnectionLostError):
            connection.receive(WAIT_S_MAX)


def test_what_came_with_a_complaint_is_not_lost() -> None:
    complaint = b"-ERR 'Permissions Violation for Subscription to \"b\"'\r\n"
    said = b"MSG a 1 1\r\nx\r\n" + complaint + b"PING\r\nMSG a 1 1\r\ny\r\n"
    with subscribed(said, "PONG\r\n", b"MSG a 1 1\r\nz\r\n", STAY) as connection:
        payloads: list[bytes] = []
        refusals = 0
        while len(payloads) < 3:
            try:
                payloads += connection.receive(WAIT_S_MAX).payloads
            except RefusedError:
                refusals += 1
        assert (payloads, refusals) == ([b"x", b"y", b"z"], 1)


def test_a_request_that_is_never_answered_for_all_that_arrives_ends_in_time() -> None:
    """The time is that of the request, not that between two reads."""
    with subscribed("PUB ask ", b"MSG a 1 0\r\n\r\n" * 100_000, STAY) as connection:
        with pytest.raises(TimedOutError, match="no answer from ask"):
            connection.request("ask", timeout_s=SHORT_S)
        assert len(connection.receive(WAIT_S_MAX)) > 0


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"", 0),
        (b"NATS/1.0\r\n\r\n", 0),
        (b"NATS/1.0\r\nStatus: 404\r\n\r\n", 0),
        (b"NATS/1.0 503\r\n\r\n", 503),
        (b"NATS/1.0 404 No Messages\r\n\r\n", 404),
        (b"NATS/1.0 40\r\n\r\n", 0),
        (b"NATS/1.0 abc\r\n\r\n", 0),
        (b"NATS/1.0 \xb2\xb2\xb2\r\n\r\n", 0),
    ],
)
def test_the_status_of_a_header_block(header: bytes, status: int) -> None:
    assert status_of(header) == status


def test_errors_are_one_family() -> None:
    assert issubclass(LinkError, OperatingError)
    assert issubclass(LoginError, OperatingError)
