"""The values that a connection needs to reach a server and log in.

A Login travels: from the options of a reader to every task of a job, pickled. So it holds texts
and paths and nothing open; files are read where a connection is made, which is why the machines
of a cluster need the same files in the same places.

Invariants: `repr` and error messages show no password, token, seed or JWT, nor text that may hold
one, for example the part of a url that did not parse. A LoginError names the option to change.

Must not know: sockets, Spark, how the options were spelled by the user.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from headwater import __version__
from headwater.client.api.requests import DEFAULT_PREFIX, prefix_of
from headwater.client.link.option_files import LoginError, read_text
from headwater.client.link.server_urls import DEFAULT_URL, Server, parse_servers
from headwater.client.link.tls import TlsFiles, tls_context
from headwater.wire.credentials.creds import (
    LIKE_A_SEED,
    Credentials,
    parse_credentials,
    user_key,
)
from headwater.wire.credentials.nkeys import KeyPair, NkeyError
from headwater.wire.info import PROTOCOL_INFO

__all__ = [
    "NO_CREDENTIALS",
    "Login",
    "LoginError",
    "connect_document",
    "login_proof",
]

CLIENT_NAME: Final = "headwater-spark"
START_PATIENCE_S: Final = 3.0
"""Long enough for a server that is started together with the job."""
NO_CREDENTIALS: Final = "no credentials"
# With a call and a name behind it, a subject still fits the control line of a server.
API_PREFIX_CHARACTERS_MAX: Final = 256
_API_WORD: Final = re.compile(r"[^\s.*>\x00-\x1f\x7f]+")


@dataclass(frozen=True, repr=False)
class Login:
    """Servers, credentials, TLS and patience of a connection.

    `url` names one or more servers, separated by commas; `tls://` wants TLS, and `user:password@`
    or `token@` may stand before the host, percent-encoded. At most one way to log in may be given:
    in the url, `user` with `password`, `token`, `nkey` (a seed or the path of a file with one) or
    `creds` (the path of a .creds file). `tls_ca`, `tls_cert` and `tls_key` are paths of PEM files;
    any of them asks for TLS, as `tls` does. `outage_timeout_s` is how long a server may be away
    before the work with it fails; `retries` limits the attempts in that time, after the first.
    At most one of two says where the API of JetStream is: `domain` names a domain, `api_prefix` is
    what stands before its calls where they are imported from another account.
    """

    url: str = DEFAULT_URL
    user: str | None = None
    password: str | None = None
    token: str | None = None
    nkey: str | None = None
    creds: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 10.0
    outage_timeout_s: float = 300.0
    retries: int | None = None
    domain: str | None = None
    api_prefix: str | None = None

    def __repr__(self) -> str:
        return f"Login({self.shown_url}, {self.method})"

    @property
    def shown_url(self) -> str:
        """The url without credentials; nothing of one that cannot be read."""
        try:
            return ",".join(server.address for server in self.servers())
        except LoginError:
            return "?"

    @property
    def method(self) -> str:
        """The options the credentials came by, or NO_CREDENTIALS: for messages."""
        try:
            return _and(self._ways(self.servers()))
        except LoginError:
            return "?"

    @property
    def is_seed_given(self) -> bool:
        """Whether `nkey` is a seed itself, not the path of a file with one."""
        return self.nkey is not None and _is_a_seed(self.nkey)

    @property
    def wants_tls(self) -> bool:
        """TLS was asked for by an option, whatever the scheme of a server."""
        return self.tls or any((self.tls_ca, self.tls_cert, self.tls_key))

    @property
    def tls_files(self) -> TlsFiles:
        """The files of the TLS options."""
        return TlsFiles(self.tls_ca, self.tls_cert, self.tls_key)

    @property
    def api(self) -> str:
        """The subject before a call of the JetStream API, with its last dot."""
        return f"{prefix_of(self.domain, self.api_prefix)}."

    @property
    def api_option(self) -> str | None:
        """The option that says where the API is, and its value, if one does: for messages."""
        for option, value in (("domain", self.domain), ("apiPrefix", self.api_prefix)):
            if value is not None:
                return f"{option}={value!r}"
        return None

    def entry_subject(self, subject: str) -> str:
        """The subject of an entry, so that it reaches the bucket of this API.

        Several domains can have a bucket of one name; an entry that is put under the prefix of an
        API goes into the bucket of its domain.
        """
        return subject if self.api == f"{DEFAULT_PREFIX}." else self.api + subject

    @property
    def at_start(self) -> "Login":
        """The login for the first look at a server: somebody waits for the answer.

        A server that is away when a job starts is more often a wrong address than an outage.
        """
        return replace(self, outage_timeout_s=min(self.outage_timeout_s, START_PATIENCE_S))

    def servers(self) -> tuple[Server, ...]:
        """The servers of the url in their order. Raises LoginError."""
        return parse_servers(self.url, self.wants_tls)

    def key_pair(self) -> KeyPair | None:
        """The key of option nkey. Raises LoginError."""
        if self.nkey is None:
            return None
        try:
            if _is_a_seed(self.nkey):
                return user_key(self.nkey)
            return user_key(read_text("nkey", self.nkey))
        except NkeyError as reason:
            raise LoginError("nkey", str(reason)) from None

    def check(self) -> None:
        """Try everything that can be tried without a server. Raises LoginError."""
        ways = self._ways(self.servers())
        if len(ways) > 1:
            raise LoginError(ways[-1], f"only one way to log in may be given, not {_and(ways)}")
        if self.password is not None and self.user is None:
            raise LoginError("password", "there is no user to it; give a user as well")
        for option, seconds in (
            ("connectTimeout", self.connect_timeout_s),
            ("requestTimeout", self.request_timeout_s),
        ):
            if not 0 < seconds < float("inf"):
                raise LoginError(option, "must be more than 0 seconds")
        if not 0 <= self.outage_timeout_s < float("inf"):
            raise LoginError("outageTimeout", "must be 0 seconds or more")
        if self.retries is not None and self.retries < 0:
            raise LoginError("retries", "must be 0 or more")
        self._check_api()
        self.key_pair()
        _credentials(self)
        if self.wants_tls:
            tls_context(self.tls_files)

    def _check_api(self) -> None:
        if self.domain is not None and self.api_prefix is not None:
            raise LoginError("apiPrefix", "domain says where the API is as well; give one of them")
        for option, value in (("domain", self.domain), ("apiPrefix", self.api_prefix)):
            if value is None:
                continue
            # Without the last dot, which stands between the prefix and a call.
            words = value.removesuffix(".").split(".") if option == "apiPrefix" else [value]
            if not all(map(_API_WORD.fullmatch, words)) or len(value) > API_PREFIX_CHARACTERS_MAX:
                raise LoginError(
                    option,
                    f"{value[:API_PREFIX_CHARACTERS_MAX]!r} cannot stand in the subjects of the"
                    " API: no blanks or wildcards, and words between dots",
                )

    def _ways(self, servers: tuple[Server, ...]) -> list[str]:
        in_url = next((server for server in servers if server.has_credentials), None)
        ways = (
            ("url", in_url),
            ("user", self.user),
            ("token", self.token),
            ("nkey", self.nkey),
            ("creds", self.creds),
        )
        return [option for option, value in ways if value is not None]


def connect_document(
    login: Login, server: Server, info: Mapping[str, Any], name: str = CLIENT_NAME
) -> dict[str, Any]:
    """The fields of CONNECT for a server that sent `info`. Raises LoginError."""
    return {
        "verbose": False,
        "pedantic": False,
        "tls_required": server.tls,
        "name": name,
        "lang": "python",
        "version": __version__,
        "protocol": PROTOCOL_INFO,
        "echo": True,
        "headers": True,
        "no_responders": True,
        **login_proof(login, server, str(info.get("nonce", ""))),
    }


def login_proof(login: Login, server: Server, nonce: str) -> dict[str, str]:
    """The fields of CONNECT that say who connects. Raises LoginError.

    Credentials in the url of a server go before those of the options.
    """
    if server.token is not None:
        return {"auth_token": server.token}
    if server.user is not None:
        return {"user": server.user, "pass": server.password or ""}
    if (key := login.key_pair()) is not None:
        if not nonce:
            raise LoginError("nkey", f"{server.address} does not know nkeys: it sent no nonce")
        return {"nkey": key.public, "sig": _signature(key, nonce)}
    if (credentials := _credentials(login)) is not None:
        # A server without accounts signed by operators sends no nonce and asks for nothing.
        signature = {"sig": _signature(credentials.key, nonce)} if nonce else {}
        return {"jwt": credentials.jwt, **signature}
    if login.token is not None:
        return {"auth_token": login.token}
    if login.user is not None:
        return {"user": login.user, "pass": login.password or ""}
    return {}


def _credentials(login: Login) -> Credentials | None:
    if login.creds is None:
        return None
    try:
        return parse_credentials(read_text("creds", login.creds))
    except NkeyError as reason:
        raise LoginError("creds", str(reason)) from None


def _signature(key: KeyPair, nonce: str) -> str:
    return base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")


def _is_a_seed(text: str) -> bool:
    """Not a path: a seed has no dot or slash, and hardly any file is called like one."""
    return LIKE_A_SEED.fullmatch(text.strip()) is not None


def _and(words: list[str]) -> str:
    return " and ".join(words) or NO_CREDENTIALS
