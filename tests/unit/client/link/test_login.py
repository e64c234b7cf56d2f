"""Logins: urls as people write them, one way to log in, files, and no secret in any message."""

import base64
import pickle
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import OperatingError
from headwater.client.link.login import Login, LoginError, connect_document
from headwater.client.link.option_files import FILE_BYTES_MAX
from headwater.client.link.server_urls import Server
from headwater.client.link.tls import TlsFiles, needs_tls, tls_context
from headwater.wire.credentials.nkeys import KeyKind, KeyPair
from tests.kit.credentials import Authority, creds_text, seed_text, user_seed

SEED = user_seed()
PUBLIC = KeyPair.from_seed(SEED).public
JWT = "eyJ0eXAi.eyJqdGki.c2ln"
SECRET = "hunter2"
HERE = Server("127.0.0.1")
NONCE = {"nonce": "bm9uY2U"}


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("nats://127.0.0.1:4222", [Server("127.0.0.1", 4222)]),
        ("nats://example.com", [Server("example.com")]),
        ("example.com", [Server("example.com")]),
        ("example.com:5222", [Server("example.com", 5222)]),
        ("NATS://example.com/", [Server("example.com")]),
        ("tls://example.com:5222", [Server("example.com", 5222, tls=True)]),
        ("nats://[::1]:5222", [Server("::1", 5222)]),
        ("[fe80:0:0::1]", [Server("fe80::1")]),
        ("nats://user:hunter2@h", [Server("h", user="user", password="hunter2")]),
        ("nats://user:@h", [Server("h", user="user", password="")]),
        ("nats://hunter2@h:1", [Server("h", 1, token="hunter2")]),
        ("nats://us%3Aer:p%40ss%2Cword@h", [Server("h", user="us:er", password="p@ss,word")]),
        ("nats://user:p@ss:/word?#@h", [Server("h", user="user", password="p@ss:/word?#")]),
        ("nats://a:1, tls://b:2 ,c", [Server("a", 1), Server("b", 2, tls=True), Server("c")]),
        ("a,,b,", [Server("a"), Server("b")]),
        ("nats://bücher.example:65535", [Server("bücher.example", 65535)]),
    ],
)
def test_a_url_names_servers(url: str, servers: list[Server]) -> None:
    assert Login(url).servers() == tuple(servers)
    Login(url).check()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "names no server"),
        (" , ", "names no server"),
        ("nats://", "wants host or host:port"),
        ("nats://:4222", "wants host or host:port"),
        ("nats://h:0", "port must be from 1 to 65535"),
        ("nats://h:65536", "port must be from 1 to 65535"),
        ("nats://h:hunter2", "wants host or host:port"),
        ("nats://h:4222/hunter2", "wants host or host:port"),
        ("nats://h h", "wants host or host:port"),
        ("nats://::1:4222", "brackets"),
        ("nats://[hunter2]:4222", "not an IPv6 address"),
        ("nats://[::1", "wants host or host:port"),
        ("nats://@h", "no user or token"),
        ("nats://:hunter2@h", "no user or token"),
        ("nats://a..b", "no host can have this name"),
        ("ws://h", "websockets are not supported; use nats:// or tls://"),
        ("WSS://h", "websockets are not supported"),
        ("http://h", "scheme must be nats:// or tls://"),
        ("hunter2://h", "scheme must be nats:// or tls://"),
        ("nats://a,nats://h:hunter2", "server 2 of 2: wants host or host:port"),
        ("nats://user:hunter2@", "wants host or host:port"),
    ],
)
def test_a_bad_url_is_refused_without_being_quoted(url: str, reason: str) -> None:
    with pytest.raises(LoginError) as caught:
        Login(url).servers()
    assert str(caught.value).startswith("option url: ")
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)
    assert Login(url).shown_url == "?"
    assert SECRET not in repr(Login(url))


@given(st.text("ab1:/@[]%,.?# \n\tñ-", max_size=24))
def test_no_url_raises_anything_but_the_own_error(url: str) -> None:
    login = Login(url)
    try:
        servers = login.servers()
    except LoginError:
        assert login.shown_url == "?"
    else:
        shown = Login(login.shown_url).servers()
        assert [each.address for each in shown] == [each.address for each in servers]


@given(st.text(min_size=1), st.text())
def test_quoted_credentials_come_through_whole(user: str, password: str) -> None:
    url = f"nats://{quote(user, safe='')}:{quote(password, safe='')}@h"
    (server,) = Login(url).servers()
    assert (server.user, server.password) == (user, password)


@pytest.mark.parametrize(
    ("login", "fields"),
    [
        (Login(), {}),
        (Login(user="ann", password=SECRET), {"user": "ann", "pass": SECRET}),
        (Login(user="ann"), {"user": "ann", "pass": ""}),
        (Login(token=SECRET), {"auth_token": SECRET}),
        (Login("ann:x@h"), {"user": "ann", "pass": "x"}),
        (Login("secret@h"), {"auth_token": "secret"}),
        # A server with credentials of its own gets those; the options are for the others.
        (Login("ann:x@h", user="bob", password="y"), {"user": "ann", "pass": "x"}),
    ],
)
def test_connect_presents_the_credentials(login: Login, fields: dict[str, str]) -> None:
    (server,) = login.servers()
    document = connect_document(login, server, NONCE)
    assert {name: document[name] for name in _PROOFS if name in document} == fields


_PROOFS = ("user", "pass", "auth_token", "nkey", "jwt", "sig")


def test_connect_says_what_this_client_can() -> None:
    document = connect_document(Login(), HERE, {}, name="archive")
    assert document["name"] == "archive"
    assert document["headers"]
    assert document["no_responders"]
    assert not document["verbose"]
    assert not document["pedantic"]


@pytest.mark.parametrize("as_file", [False, True], ids=["seed", "file"])
def test_an_nkey_signs_the_nonce(as_file: bool, tmp_path: Path) -> None:
    (tmp_path / "seed").write_text(f"{SEED}\n")
    login = Login(nkey=str(tmp_path / "seed") if as_file else SEED)
    login.check()
    document = connect_document(login, HERE, NONCE)
    assert document["nkey"] == PUBLIC
    assert _is_signed(document["sig"])
    assert "jwt" not in document


def test_credentials_are_a_jwt_and_a_signed_nonce(tmp_path: Path) -> None:
    (tmp_path / "u.creds").write_text(creds_text(JWT, SEED))
    login = Login(creds=str(tmp_path / "u.creds"))
    login.check()
    document = connect_document(login, HERE, NONCE)
    assert document["jwt"] == JWT
    assert _is_signed(document["sig"])
    assert "nkey" not in document


def _is_signed(signature: str) -> bool:
    raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    key = base64.b32decode(PUBLIC + "=" * (-len(PUBLIC) % 8))[1:-2]
    Ed25519PublicKey.from_public_bytes(key).verify(raw, NONCE["nonce"].encode())
    return True


def test_a_server_that_sends_no_nonce_cannot_be_shown_an_nkey() -> None:
    with pytest.raises(LoginError, match=r"option nkey: nats://127\.0\.0\.1:4222 does not know"):
        connect_document(Login(nkey=SEED), HERE, {})


def test_credentials_are_harmless_where_nobody_asks(tmp_path: Path) -> None:
    (tmp_path / "u.creds").write_text(creds_text(JWT, SEED))
    document = connect_document(Login(creds=str(tmp_path / "u.creds")), HERE, {})
    assert document["jwt"] == JWT
    assert "sig" not in document


@pytest.mark.parametrize(
    ("login", "message"),
    [
        (Login(user="a", password="b", token="c"), "option token: only one way .* user and token"),
        (Login(domain="hub", api_prefix="a"), "option apiPrefix: domain says .* as well"),
        (Login(domain="a.b"), "option domain: 'a.b' cannot stand in the subjects"),
        (Login(domain=""), "option domain: '' cannot stand"),
        (Login(api_prefix="a.*"), "option apiPrefix: 'a.\\*' cannot stand"),
        (Login(api_prefix="a..b"), "option apiPrefix: 'a..b' cannot stand"),
        (Login(api_prefix="x" * 257), "option apiPrefix: 'x{256}' cannot stand"),
        (Login("a:b@h", nkey=SEED), "option nkey: only one way .* url and nkey"),
        (Login(token="t", creds="x"), "option creds: only one way .* token and creds"),
        (Login(password=SECRET), "option password: there is no user"),
        (Login(connect_timeout_s=0), "option connectTimeout: must be more than 0"),
        (Login(request_timeout_s=float("nan")), "option requestTimeout: must be more than 0"),
        (Login(request_timeout_s=float("inf")), "option requestTimeout: must be more than 0"),
        (Login(retries=-1), "option retries: must be 0 or more"),
        (Login(nkey=SEED[:-2]), "option nkey: its checksum is wrong"),
        (Login(nkey=seed_text(KeyKind.ACCOUNT.value, bytes(32))), "option nkey: .*account"),
        (Login(nkey=PUBLIC), "option nkey: cannot read"),
        (Login(nkey=SEED + ".seed"), "option nkey: cannot read the file"),
        (Login(nkey="no/such/file"), "option nkey: cannot read 'no/such/file': No such file"),
        (Login(creds="no/such/file"), "option creds: cannot read 'no/such/file': No such file"),
        (Login(creds="."), r"option creds: cannot read '\.': Is a directory"),
        (Login(creds="a\0b"), "option creds: .* is not the path of a file"),
        (Login(creds=creds_text(JWT, SEED)), "option creds: wants the path of a file, not what is"),
        (Login(creds="e30." * 60), "option creds: cannot read the file"),
        (Login(creds="x" * 5000), "option creds: cannot read the file: File name too long"),
        (Login(tls_ca="no/such/file"), "option tlsCa: cannot read 'no/such/file'"),
        (Login(tls_cert="no/such/file"), "option tlsCert: cannot read 'no/such/file'"),
        (Login(tls_key="no/such/file"), "option tlsKey: there is no certificate to it"),
    ],
)
def test_a_check_finds_what_needs_no_server(login: Login, message: str) -> None:
    with pytest.raises(LoginError, match=message) as caught:
        login.check()
    assert isinstance(caught.value, OperatingError)
    for secret in (SECRET, SEED[:-2], JWT):
        assert secret not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no JWT"),
        (b"\xff\xfe", "not a text file"),
        (creds_text(JWT, "").encode(), "no seed"),
        (b"x" * (FILE_BYTES_MAX + 1), "too large"),
        (b"x" * FILE_BYTES_MAX, "no JWT"),
    ],
)
def test_a_bad_creds_file_is_named_by_its_option(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "u.creds").write_bytes(content)
    with pytest.raises(LoginError, match=f"option creds: .*{reason}"):
        Login(creds=str(tmp_path / "u.creds")).check()


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "seed").write_text(SEED)
    key = Login(nkey="~/seed").key_pair()
    assert key is not None
    assert key.public == PUBLIC


def test_a_login_travels_and_keeps_its_secrets(tmp_path: Path) -> None:
    login = Login("ann:hunter2@h, tok3n@i:9", retries=2)
    assert pickle.loads(pickle.dumps(login)) == login
    assert repr(login) == "Login(nats://h:4222,nats://i:9, url)"
    everything = Login(user="ann", password=SECRET, token=SECRET, nkey=SEED, creds=SECRET)
    for each in (login, everything, *login.servers()):
        assert not {SECRET, "tok3n", SEED} & set(_words(repr(each)))
    assert Login().method == "no credentials"
    assert everything.method == "user and token and nkey and creds"


def _words(text: str) -> list[str]:
    return [word.strip("'\",()") for word in text.replace("=", " ").replace("@", " ").split()]


def test_errors_travel() -> None:
    error = LoginError("url", "names no server")
    again = pickle.loads(pickle.dumps(error))
    assert (again.option, str(again)) == ("url", str(error))


# --- TLS ----------------------------------------------------------------------------------------


def test_any_option_of_tls_asks_for_it() -> None:
    assert [server.tls for server in Login("a,tls://b").servers()] == [False, True]
    for login in (Login(tls=True), Login(tls_ca="x"), Login(tls_cert="x")):
        assert all(server.tls for server in replace(login, url="a,tls://b").servers())


@pytest.mark.parametrize(
    ("wanted", "info", "handshake"),
    [
        (False, {}, False),
        (False, {"tls_available": True}, False),
        (False, {"tls_required": True}, True),
        (True, {"tls_available": True}, True),
        (True, {"tls_required": True}, True),
    ],
)
def test_the_handshake_is_next_if_either_side_wants_it(
    wanted: bool, info: dict[str, bool], handshake: bool
) -> None:
    assert needs_tls(TlsFiles(), Server("h", tls=wanted), info) is handshake


def test_tls_is_never_given_up_in_silence() -> None:
    with pytest.raises(LoginError, match=r"option tls: tls://h:4222 does not offer TLS"):
        needs_tls(TlsFiles(), Server("h", tls=True), {})


def test_a_server_that_wants_a_certificate_is_not_tried_without() -> None:
    info = {"tls_required": True, "tls_verify": True}
    assert needs_tls(TlsFiles(cert="x"), HERE, info)
    with pytest.raises(LoginError, match=r"option tlsCert: .* wants the certificate"):
        needs_tls(TlsFiles(), HERE, info)


def test_certificates_are_taken_from_the_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("client")
    both = tmp_path / "both.pem"
    both.write_text(Path(cert).read_text() + Path(key).read_text())
    login = Login(tls_ca=authority.path, tls_cert=cert, tls_key=key)
    login.check()
    # The authority of the option, and none of the machine's.
    assert len(tls_context(login.tls_files).get_ca_certs()) == 1
    replace(login, tls_cert=str(both), tls_key=None).check()


def test_a_wrong_file_is_named_by_its_option(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("client")
    _, other_key = authority.issue("other")
    _, locked_key = authority.issue("locked", passphrase=b"x")
    (tmp_path / "text").write_text("not a certificate")
    text = str(tmp_path / "text")
    for login, message in (
        (Login(tls_ca=text), "option tlsCa: there is no PEM certificate"),
        (Login(tls_ca=key), "option tlsCa: there is no PEM certificate"),
        (Login(tls_cert=text), "option tlsCert: wants a certificate and its key"),
        (Login(tls_cert=cert), "option tlsCert: wants a certificate and its key"),
        (Login(tls_cert=cert, tls_key=text), "option tlsCert: wants a certificate and its key"),
        (Login(tls_cert=cert, tls_key=other_key), "option tlsKey: the key does not belong"),
        (Login(tls_cert=cert, tls_key=locked_key), "option tlsKey: the key is encrypted"),
        (Login(tls_cert=cert, tls_key="no/such"), "option tlsKey: cannot read"),
    ):
        with pytest.raises(LoginError, match=message):
            login.check()


@pytest.mark.parametrize(
    ("login", "api", "entry", "option"),
    [
        (Login(), "$JS.API.", "$KV.b.k", None),
        (Login(domain="hub"), "$JS.hub.API.", "$JS.hub.API.$KV.b.k", "domain='hub'"),
        (Login(api_prefix="a.b"), "a.b.", "a.b.$KV.b.k", "apiPrefix='a.b'"),
        (Login(api_prefix="a.b."), "a.b.", "a.b.$KV.b.k", "apiPrefix='a.b.'"),
        (Login(api_prefix="x" * 256), f"{'x' * 256}.", f"{'x' * 256}.$KV.b.k", None),
        # The default prefix is not another place.
        (Login(api_prefix="$JS.API"), "$JS.API.", "$KV.b.k", "apiPrefix='$JS.API'"),
    ],
)
def test_a_login_says_where_the_api_is(
    login: Login, api: str, entry: str, option: str | None
) -> None:
    login.check()
    assert (login.api, login.entry_subject("$KV.b.k")) == (api, entry)
    assert option is None or login.api_option == option
