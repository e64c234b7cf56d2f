"""A connection to real servers: asking, taking in, logging in, losing it and coming back."""

import contextlib
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.client.link.connection import Connection, Reply
from headwater.client.link.errors import (
    ConnectionLostError,
    LinkError,
    NoRespondersError,
    RefusedError,
    TimedOutError,
    UnknownHostError,
    UnreachableError,
)
from headwater.client.link.login import Login, LoginError
from headwater.wire.credentials.nkeys import KeyPair
from headwater.wire.frames import publish_frame
from headwater.wire.server_decoder import Deliveries
from tests.kit.credentials import Authority, OperatorTree, user_seed
from tests.kit.link_peers import (
    INFO,
    WAIT_S_MAX,
    Responder,
    ScriptedPeer,
    running,
    settle,
    url_of,
)
from tests.kit.server_process import HEADWATER, ORACLE, Program, ServerProcess

HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"
MAX_PAYLOAD_BYTES = 8 << 20
SHORT_S = 0.05
PROGRAMS = [pytest.param(program, id=program.name) for program in (HEADWATER, ORACLE)]


@pytest.fixture(scope="module", params=PROGRAMS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server that lets everybody in."""
    program: Program = request.param
    config = f"max_payload: {MAX_PAYLOAD_BYTES}\n"
    with running(program, tmp_path_factory.mktemp(program.name), config) as process:
        yield process


@pytest.fixture
def login(server: ServerProcess) -> Login:
    return Login(url_of(server), retries=0, request_timeout_s=WAIT_S_MAX)


@pytest.fixture
def connection(login: Login) -> Iterator[Connection]:
    with Connection(login) as connection:
        yield connection


def take(connection: Connection, count: int) -> Deliveries:
    """Exactly so many messages, over as many reads as it takes."""
    taken = Deliveries()
    while len(taken) < count:
        arrived = connection.receive(WAIT_S_MAX)
        assert len(arrived), f"{len(taken)} of {count} messages arrived"
        for column in ("sids", "subjects", "replies", "headers", "payloads"):
            getattr(taken, column).extend(getattr(arrived, column))
    assert len(taken) == count
    return taken


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b"", HEADER])
@pytest.mark.parametrize("payload", [b"", b"hello", b"\r\nPING\r\n", bytes(range(256))])
def test_a_request_gets_its_answer(login: Login, header: bytes, payload: bytes) -> None:
    with Responder(login, "echo"), Connection(login) as connection:
        reply = connection.request("echo", payload, header)
    assert (reply.header, reply.payload, reply.status) == (header, payload, 0)


def test_each_request_gets_its_own_answer(login: Login) -> None:
    with Responder(login, "echo"), Connection(login) as connection:
        for number in range(100):
            assert connection.request("echo", b"%d" % number).payload == b"%d" % number


def test_the_status_of_an_answer_is_read(login: Login) -> None:
    status = b"NATS/1.0 404 No Messages\r\n\r\n"
    with Responder(login, "echo"), Connection(login) as connection:
        assert connection.request("echo", b"", status).status == 404


def test_a_subject_without_listeners_is_told_at_once(connection: Connection) -> None:
    with pytest.raises(NoRespondersError, match=r"nobody answers who\.is\.there"):
        connection.request("who.is.there")
    assert connection.is_open


def test_silence_ends_in_a_timeout_that_names_the_subject(
    login: Login, connection: Connection
) -> None:
    with Connection(login) as silent:
        silent.subscribe("silent")
        settle(silent)
        with pytest.raises(TimedOutError, match=r"no answer from silent within 0\.05 s"):
            connection.request("silent", timeout_s=SHORT_S)
    assert connection.is_open


def test_a_late_answer_is_nobodys(login: Login) -> None:
    """A late answer is neither that of a later request, nor a delivery, on any connection."""
    with Connection(login) as slow, Connection(login) as connection:
        slow.subscribe("slow")
        settle(slow)
        inboxes = []
        for _ in range(2):
            with pytest.raises(TimedOutError):
                connection.request("slow", timeout_s=SHORT_S)
            inboxes += take(slow, 1).replies
            connection.reconnect()
        with pytest.raises(TimedOutError):
            connection.request("slow", timeout_s=SHORT_S)
        inboxes += take(slow, 1).replies
        assert len(set(inboxes)) == 3

        def answer_late(number: int) -> None:
            for inbox in inboxes:
                slow.send(publish_frame(inbox, b"", b"", b"late"))
            settle(slow)

        with Responder(login, "echo", answer_late):
            assert connection.request("echo", b"right").payload == b"right"
            answer_late(0)
            settle(connection)
            assert len(connection.receive(SHORT_S)) == 0


def test_what_arrives_during_a_request_is_kept_in_order(login: Login) -> None:
    with Connection(login) as other, Connection(login) as connection:
        sid = connection.subscribe("feed.*")
        settle(connection)

        def feed(number: int) -> None:
            for each in range(3):
                other.send(publish_frame(b"feed.%d" % each, b"to", HEADER, b"%d" % number))
            settle(other)

        with Responder(login, "echo", feed):
            assert connection.request("echo", b"1").payload == b"1"
            assert connection.request("echo", b"2").payload == b"2"
        arrived = take(connection, 6)
    assert arrived.sids == [sid] * 6
    assert arrived.subjects == [b"feed.0", b"feed.1", b"feed.2"] * 2
    assert arrived.replies == [b"to"] * 6
    assert arrived.headers == [HEADER] * 6
    assert arrived.payloads == [b"1"] * 3 + [b"2"] * 3


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPING", "a\tb", " a", "a\n"])
def test_a_subject_that_would_break_the_protocol_is_not_sent(
    connection: Connection, subject: str
) -> None:
    for action in (connection.request, connection.subscribe):
        with pytest.raises(LinkError, match="not a subject"):
            action(subject)
    settle(connection)


# --- messages -----------------------------------------------------------------------------------


def test_a_subscription_delivers_until_it_is_ended(login: Login, connection: Connection) -> None:
    sid, other_sid = connection.subscribe("a.>"), connection.subscribe("b")
    assert sid != other_sid
    settle(connection)
    for subject in (b"a.1", b"b", b"a.2"):
        connection.send(publish_frame(subject, b"", b"", subject))
    arrived = take(connection, 3)
    assert arrived.sids == [sid, other_sid, sid]
    assert arrived.payloads == [b"a.1", b"b", b"a.2"]
    connection.unsubscribe(sid)
    connection.send(publish_frame(b"a.3", b"", b"", b"") + publish_frame(b"b", b"", b"", b""))
    assert take(connection, 1).sids == [other_sid]


def test_a_receive_without_messages_ends_empty(connection: Connection) -> None:
    assert len(connection.receive(SHORT_S)) == 0
    assert len(connection.receive(0)) == 0


def test_a_receive_without_patience_takes_what_is_there(connection: Connection) -> None:
    connection.subscribe("a")
    connection.send(publish_frame(b"a", b"", b"", b"x"))
    deadline = time.monotonic() + WAIT_S_MAX
    payloads: list[bytes] = []
    while not payloads and time.monotonic() < deadline:
        payloads = connection.receive(0).payloads
    assert payloads == [b"x"]


def test_white_space_that_servers_allow_in_subjects_comes_through(connection: Connection) -> None:
    sid = connection.subscribe("odd.*")
    subjects = [b"odd.a\x0bb", b"odd.a\x0cb", b"odd.a\x1cb", b"odd.\xff", "odd.é".encode()]
    for subject in subjects:
        connection.send(publish_frame(subject, b"", b"", b"x"))
    arrived = take(connection, len(subjects))
    assert arrived.subjects == subjects
    assert arrived.sids == [sid] * len(subjects)


@pytest.mark.parametrize("size", [1 << 16, 1 << 20, MAX_PAYLOAD_BYTES])
def test_large_messages_come_back_whole(connection: Connection, size: int) -> None:
    payload = bytes(range(256)) * (size // 256)
    connection.subscribe("large")
    connection.send(publish_frame(b"large", b"", b"", payload))
    assert take(connection, 1).payloads == [payload]


def test_a_message_larger_than_the_server_takes_is_not_sent(
    login: Login, connection: Connection
) -> None:
    with pytest.raises(RefusedError, match=f"max_payload of {MAX_PAYLOAD_BYTES}"):
        connection.request("large", bytes(MAX_PAYLOAD_BYTES), HEADER)
    with Responder(login, "large"):
        limit = MAX_PAYLOAD_BYTES - len(HEADER)
        assert len(connection.request("large", bytes(limit), HEADER).payload) == limit


def test_many_small_messages_arrive_in_order(connection: Connection) -> None:
    connection.subscribe("many")
    payloads = [b"%d" % number for number in range(20_000)]
    frames = [publish_frame(b"many", b"r", b"", payload) for payload in payloads]
    taken: list[bytes] = []
    for start in range(0, len(frames), 1000):
        connection.send(b"".join(frames[start : start + 1000]))
        taken += take(connection, 1000).payloads
    assert taken == payloads


def test_inboxes_are_not_repeated(login: Login, connection: Connection) -> None:
    with Connection(login) as other:
        inboxes = {each.new_inbox() for each in (connection, other) for _ in range(100)}
    assert len(inboxes) == 200


# --- logging in ---------------------------------------------------------------------------------


PASSWORDS = "authorization { users: [ {user: ann, password: hunter2} ] }"
TOKEN = "authorization { token: tok3n }"


@pytest.mark.parametrize("program", PROGRAMS)
def test_passwords(program: Program, tmp_path: Path) -> None:
    with running(program, tmp_path, PASSWORDS) as server:
        login = Login(url_of(server), retries=0)
        for good in (
            replace(login, user="ann", password="hunter2"),
            Login(f"nats://ann:hunter2@127.0.0.1:{server.port}"),
        ):
            with Connection(good) as connection:
                settle(connection)
        for wrong, option in (
            (replace(login, user="ann", password="hunter3"), "given by user ("),
            (replace(login, user="bob", password="hunter2"), "given by user ("),
            (replace(login, token="hunter2"), "given by token ("),
            (Login(f"nats://ann:hunter3@127.0.0.1:{server.port}"), "given by url ("),
            (login, "wants credentials (Authorization Violation): set user and password,"),
        ):
            _assert_refused(wrong, option)


@pytest.mark.parametrize("program", PROGRAMS)
def test_tokens(program: Program, tmp_path: Path) -> None:
    with running(program, tmp_path, TOKEN) as server:
        login = Login(url_of(server), retries=0)
        for good in (
            replace(login, token="tok3n"),
            Login(f"nats://tok3n@127.0.0.1:{server.port}"),
        ):
            with Connection(good) as connection:
                settle(connection)
        _assert_refused(replace(login, token="token"), "given by token (")
        _assert_refused(replace(login, user="ann", password="tok3n"), "given by user (")


def _assert_refused(login: Login, words: str) -> None:
    with pytest.raises(RefusedError) as caught:
        Connection(login)
    assert words in str(caught.value)
    for secret in ("hunter", "tok3n"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("as_file", [False, True], ids=["seed", "file"])
def test_nkeys(as_file: bool, tmp_path: Path) -> None:
    seed = user_seed()
    config = f"authorization {{ users: [ {{nkey: {KeyPair.from_seed(seed).public}}} ] }}"
    (tmp_path / "user.nk").write_text(seed)
    with running(ORACLE, tmp_path / "server", config) as server:
        login = Login(url_of(server), retries=0)
        with Connection(
            replace(login, nkey=str(tmp_path / "user.nk") if as_file else seed)
        ) as connection:
            settle(connection)
        _assert_refused(replace(login, nkey=user_seed(b"x" * 32)), "given by nkey (")


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_nkey_for_a_server_that_does_not_ask_for_one(program: Program, tmp_path: Path) -> None:
    with running(program, tmp_path, TOKEN) as server:
        login = Login(url_of(server), nkey=user_seed())
        with pytest.raises(LoginError, match=r"option nkey: .* does not know nkeys"):
            Connection(login)


def test_creds_files(tmp_path: Path) -> None:
    tree = OperatorTree.grow()
    (tmp_path / "good.creds").write_text(tree.creds())
    (tmp_path / "wrong.creds").write_text(tree.creds(signing_seed=user_seed()))
    config = f"jetstream {{ store_dir: store }}\n{tree.server_config}"
    with running(ORACLE, tmp_path / "server", config) as server:
        login = Login(url_of(server), retries=0)
        with Connection(replace(login, creds=str(tmp_path / "good.creds"))) as connection:
            assert b'"streams":0' in connection.request("$JS.API.INFO").payload
        _assert_refused(replace(login, creds=str(tmp_path / "wrong.creds")), "given by creds (")
        _assert_refused(login, "wants credentials")


def test_tls_with_the_certificates_of_both_sides(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    cert, key = authority.issue("server")
    own_cert, own_key = authority.issue("client")
    other_cert, other_key = stranger.issue("other")
    config = (
        f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{authority.path}", '
        "verify: true }"
    )
    with running(ORACLE, tmp_path / "server", config) as server:
        good = Login(
            url_of(server), tls_ca=authority.path, tls_cert=own_cert, tls_key=own_key, retries=0
        )
        for login in (good, replace(good, url=f"tls://localhost:{server.port}")):
            with Connection(login) as connection:
                settle(connection)
        with pytest.raises(LoginError, match=r"option tlsCa: .* is not trusted"):
            Connection(replace(good, tls_ca=stranger.path))
        with pytest.raises(LoginError, match=r"option tlsCert: .* wants the certificate"):
            Connection(replace(good, tls_cert=None, tls_key=None))
        # The client may see the end of the connection before it reads the reason.
        with pytest.raises((RefusedError, UnreachableError), match="see tlsCert and tlsKey"):
            Connection(replace(good, tls_cert=other_cert, tls_key=other_key))


def test_tls_of_the_server_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    config = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\nmax_payload: {MAX_PAYLOAD_BYTES}'
    with running(ORACLE, tmp_path / "server", config) as server:
        login = Login(f"tls://127.0.0.1:{server.port}", tls_ca=authority.path, retries=0)
        with Connection(login) as connection:
            assert connection.info["tls_required"]
            connection.subscribe("large")
            payload = bytes(range(256)) * (MAX_PAYLOAD_BYTES // 256)
            connection.send(publish_frame(b"large", b"", b"", payload))
            assert take(connection, 1).payloads == [payload]
            assert len(connection.receive(SHORT_S)) == 0
        # The server asks for TLS; the machine's authorities do not know it.
        with pytest.raises(LoginError, match=r"option tlsCa: .* is not trusted"):
            Connection(Login(url_of(server), retries=0))


@pytest.mark.parametrize("program", PROGRAMS)
def test_tls_is_not_given_up_if_the_server_has_none(program: Program, tmp_path: Path) -> None:
    with running(program, tmp_path) as server:
        for login in (Login(f"tls://127.0.0.1:{server.port}"), Login(url_of(server), tls=True)):
            with pytest.raises(LoginError, match=r"option tls: .* does not offer TLS"):
                Connection(login)


@pytest.mark.parametrize(
    "login",
    [
        Login("tls://ann:hunter2@127.0.0.1:{port}"),
        Login("127.0.0.1:{port}", tls=True, token="hunter2"),
        Login("TLS://127.0.0.1:{port}", nkey=user_seed()),
    ],
    ids=["password", "token", "nkey"],
)
def test_no_word_goes_to_a_server_that_does_not_offer_the_tls_asked_for(login: Login) -> None:
    info = INFO.replace(b"}", b',"auth_required":true,"nonce":"bm9uY2U"}')
    with ScriptedPeer(info, "never") as peer:
        url = login.url.format(port=peer.port)
        with pytest.raises(LoginError, match="does not offer TLS") as caught:
            Connection(replace(login, url=url))
    assert (peer.visits, peer.heard) == (1, b"")
    assert "hunter2" not in str(caught.value)


def test_bytes_in_the_clear_behind_info_do_not_become_part_of_the_secured_connection(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server"))
    injected = b"-ERR 'said by somebody on the way"

    def serve(listener: socket.socket) -> None:
        visitor, _ = listener.accept()
        visitor.settimeout(WAIT_S_MAX)
        visitor.sendall(INFO.replace(b"}", b',"tls_required":true}') + injected)
        with context.wrap_socket(visitor, server_side=True) as secured:
            while not secured.recv(1 << 16).endswith(b"PING\r\n"):
                pass
            secured.sendall(b"PONG\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        login = Login(f"tls://127.0.0.1:{port}", tls_ca=authority.path, retries=0)
        with Connection(login) as connection:
            assert connection.is_open
        thread.join(WAIT_S_MAX)


PERMISSIONS = """
authorization { users: [ {user: ann, password: x, permissions: {
    publish: {deny: "secret.>"}, subscribe: {allow: ["_INBOX.>", "open"]} }} ] }
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_not_permitted_is_said_with_its_subject(program: Program, tmp_path: Path) -> None:
    with running(program, tmp_path, PERMISSIONS) as server:
        login = Login(url_of(server), user="ann", password="x", retries=0)
        with Connection(login) as connection:
            with pytest.raises(RefusedError, match=r"Publish to .secret\.plan"):
                connection.request("secret.plan")
            connection.subscribe("closed")
            with pytest.raises(RefusedError, match=r"Subscription to .closed"):
                connection.receive(WAIT_S_MAX)
            # A refused subscription does not end the connection.
            connection.subscribe("open")
            connection.send(publish_frame(b"open", b"", b"", b"x"))
            assert take(connection, 1).payloads == [b"x"]


# --- losing it and coming back ------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_nobody_there() -> None:
    port = free_port()
    with pytest.raises(UnreachableError) as caught:
        Connection(Login(f"nats://ann:hunter2@127.0.0.1:{port}", retries=1))
    assert f"url nats://127.0.0.1:{port}: 127.0.0.1:{port}: Connection refused" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(UnknownHostError, match=r"url nats://no-such-host\.invalid:4222: "):
        Connection(Login("no-such-host.invalid", retries=0))


def test_a_server_that_does_not_run_beside_a_name_that_does_not_resolve() -> None:
    with pytest.raises(UnreachableError) as caught:
        Connection(Login(f"127.0.0.1:{free_port()},no-such-host.invalid", retries=0))
    assert not isinstance(caught.value, UnknownHostError)


def test_the_next_server_of_the_list_is_tried(server: ServerProcess) -> None:
    with Connection(Login(f"127.0.0.1:{free_port()},{url_of(server)}", retries=0)) as connection:
        assert connection.info["port"] == server.port


def test_a_closed_connection_can_be_opened_again(login: Login) -> None:
    with Connection(login) as connection:
        connection.close()
        connection.close()
        assert not connection.is_open
        with pytest.raises(ConnectionLostError):
            settle(connection)
        connection.reconnect()
        settle(connection)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_server_that_dies_in_mid_request(program: Program, tmp_path: Path) -> None:
    with running(program, tmp_path) as server:
        login = Login(url_of(server), retries=0, request_timeout_s=WAIT_S_MAX)

        def die(number: int) -> None:
            server.signal(signal.SIGKILL)
            server.wait_for_exit()

        with Responder(login, "echo", die), Connection(login) as connection:
            with pytest.raises(ConnectionLostError):
                connection.request("echo")
            assert not connection.is_open
            with pytest.raises(UnreachableError):
                connection.reconnect()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR2])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_may_be_repeated_is_repeated_on_a_restarted_server(
    program: Program, how: signal.Signals, tmp_path: Path
) -> None:
    """A client gets its answer a little later if the server is killed, stopped or a lame duck."""
    config = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "1s"\n'
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(running(program, tmp_path / "first", config))
        login = Login(url_of(first), request_timeout_s=WAIT_S_MAX, retries=20)
        restarted = threading.Event()

        def restart(number: int) -> None:
            first.signal(how)
            first.wait_for_exit()
            stack.enter_context(running(program, tmp_path / "second", config, first.port))
            stack.enter_context(Responder(login, "echo"))
            restarted.set()

        stack.enter_context(Responder(login, "echo", restart))
        connection = stack.enter_context(Connection(login))
        tries = 0

        def ask() -> Reply:
            nonlocal tries
            tries += 1
            if tries > 1:
                # The server may be there before the client that answers on it.
                assert restarted.wait(WAIT_S_MAX)
            return connection.request("echo", b"once more")

        assert connection.retry(ask).payload == b"once more"
        assert restarted.is_set()


def test_what_times_out_is_repeated_as_often_as_allowed(login: Login) -> None:
    patient = replace(login, retries=2)
    with Connection(login) as silent, Connection(patient) as connection:
        silent.subscribe("silent")
        settle(silent)
        with pytest.raises(TimedOutError):
            connection.retry(lambda: connection.request("silent", timeout_s=SHORT_S))
        assert len(take(silent, 3)) == 3


def test_refusals_are_not_repeated(connection: Connection) -> None:
    tries = 0

    def ask() -> Reply:
        nonlocal tries
        tries += 1
        return connection.request("nobody")

    with pytest.raises(NoRespondersError):
        connection.retry(ask)
    assert tries == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_pings_are_answered_by_whoever_waits(program: Program, tmp_path: Path) -> None:
    config = 'ping_interval: "20ms"\nping_max: 2\n'
    with running(program, tmp_path, config) as server:
        login = Login(url_of(server), retries=0)
        with Connection(login) as connection:
            # Many times what a client may leave unanswered.
            assert len(connection.receive(2.5)) == 0
            settle(connection)
            assert connection.is_open
