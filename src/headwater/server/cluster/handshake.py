"""The handshake of a connection between two servers, and the reasons to refuse one.

    accepting                        dialling
    INFO ───────────────────────────▶
         ◀─────────────────────────── CONNECT, INFO
    +OK or -ERR ────────────────────▶

Both ends check the other: an ordinary client, a nats-server, another version of the frames, wrong
credentials and another cluster are refused by name. The checks that need the other connections of
the server (two servers of one name, two connections of one purpose) are the caller's: it decides
between `admit` and `refuse` once the peer is known.

Pure: documents go in, bytes come out.
"""

import hmac
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, final

from headwater.base.errors import PeerError
from headwater.go.quoting import quote
from headwater.server.cluster.introduction import check_introduction
from headwater.wire import frames
from headwater.wire.peer_info import (
    LINK_VERSION,
    Admitted,
    Error,
    PeerConnect,
    PeerInfo,
    Purpose,
    connect_line,
    info_line,
)

# nats-server's texts.
CONNECTED_TO_ROUTE_PORT: Final = "attempted to connect to route port"
CONNECTED_TO_WRONG_PORT: Final = "attempted to connect to wrong port"
AUTHORIZATION_VIOLATION: Final = "Authorization Violation"
AUTHENTICATION_TIMEOUT: Final = "Authentication Timeout"


class Refusal(PeerError):
    """A connection that is refused; `reply` is the text that the other end gets."""


class RefusedByPeer(PeerError):
    """The other end refuses the connection; `reply` is its reason."""


class Progress(Enum):
    """The state of a handshake."""

    WAITING = auto()
    # The peer is known, and the caller decides.
    MET = auto()
    OPEN = auto()


@dataclass(frozen=True)
class Credentials:
    """A user and a password; both are empty where none are required, or none are given."""

    username: str = ""
    password: str = field(default="", repr=False)

    def match(self, username: str, password: str) -> bool:
        """Whether these credentials are given, or none are required."""
        if not self.username:
            return True
        is_user = hmac.compare_digest(self.username.encode(), username.encode())
        return hmac.compare_digest(self.password.encode(), password.encode()) and is_user


def agreed_name(own: str, own_is_made_up: bool, other: str, other_is_made_up: bool) -> str | None:
    """The name of the cluster that two servers form; None for servers of two clusters.

    A name that was made up gives way to one that was configured. Of two names that were made up,
    the one that comes first in the alphabet gives way.
    """
    if own == other:
        return own
    if own_is_made_up and other_is_made_up:
        return max(own, other)
    if own_is_made_up:
        return other
    return own if other_is_made_up else None


@final
class Handshake:
    """The handshake of one connection.

    `required` are the credentials that a dialling server has to give. A dialling server itself has
    a `purpose` for the connection, and credentials of its own.
    """

    __slots__ = (
        "_connect",
        "_own",
        "_own_credentials",
        "_required",
        "is_dialled",
        "peer",
        "progress",
        "purpose",
    )

    def __init__(
        self,
        own: PeerInfo,
        required: Credentials,
        purpose: Purpose | None = None,
        own_credentials: Credentials | None = None,
    ) -> None:
        self._own = own
        self._required = required
        self._own_credentials = own_credentials or Credentials()
        self._connect: PeerConnect | None = None
        self.is_dialled = purpose is not None
        self.purpose = purpose or Purpose.MESSAGES
        self.progress = Progress.WAITING
        # INFO of the other server, once it is known.
        self.peer: PeerInfo | None = None

    def begin(self) -> bytes:
        """The first bytes to send: the accepting server speaks first."""
        return b"" if self.is_dialled else info_line(self._own)

    def receive(self, document: PeerInfo | PeerConnect | Admitted | Error) -> None:
        """Take a line of the other end. Raises PeerError, Refusal and RefusedByPeer among them."""
        if isinstance(document, Error):
            raise RefusedByPeer(document.text)
        if isinstance(document, Admitted):
            if not self.is_dialled or self.peer is None:
                raise Refusal("unexpected +OK in the handshake")
            self.progress = Progress.OPEN
        elif isinstance(document, PeerConnect):
            self._receive_connect(document)
        else:
            self._receive_info(document)

    def _receive_connect(self, connect: PeerConnect) -> None:
        if self.is_dialled or self._connect is not None:
            raise Refusal("unexpected CONNECT in the handshake")
        if connect.lang:
            raise Refusal(CONNECTED_TO_ROUTE_PORT)
        if not connect.link:
            raise Refusal(_foreign("a nats-server"))
        _check_version(connect.link)
        if not self._required.match(connect.user, connect.password):
            raise Refusal(AUTHORIZATION_VIOLATION)
        self._check_cluster(connect.cluster, connect.cluster_dynamic)
        try:
            self.purpose = Purpose(connect.purpose)
        except ValueError:
            raise Refusal(f"unknown purpose {quote(connect.purpose)} of a connection") from None
        self._connect = connect

    def _receive_info(self, info: PeerInfo) -> None:
        if self.peer is not None or (not self.is_dialled and self._connect is None):
            # Before CONNECT nats-server takes everything else for a failed login.
            raise Refusal(AUTHORIZATION_VIOLATION)
        if info.client_id:
            raise Refusal(CONNECTED_TO_WRONG_PORT)
        if not info.link:
            raise Refusal(_foreign(f"nats-server {quote(info.server_name)} ({info.version})"))
        _check_version(info.link)
        check_introduction(info)
        self._check_cluster(info.cluster, info.cluster_dynamic)
        self.peer = info
        self.progress = Progress.MET

    def _check_cluster(self, name: str, is_made_up: bool) -> None:
        own = self._own
        if agreed_name(own.cluster, own.cluster_dynamic, name, is_made_up) is None:
            raise Refusal(
                f"Rejecting connection, cluster name {quote(name)} does not match "
                f"{quote(own.cluster)}"
            )

    def is_logged_in(self, required: Credentials) -> bool:
        """Whether the dialling server has given these credentials, or none are required."""
        connect = self._connect
        return connect is not None and required.match(connect.user, connect.password)

    def admit(self) -> bytes:
        """The bytes that go on with a peer that is known."""
        if not self.is_dialled:
            self.progress = Progress.OPEN
            return frames.OK
        self.progress = Progress.WAITING
        own, credentials = self._own, self._own_credentials
        connect = PeerConnect(
            user=credentials.username,
            password=credentials.password,
            name=own.server_id,
            cluster=own.cluster,
            cluster_dynamic=own.cluster_dynamic,
            headers=own.headers,
            link=LINK_VERSION,
            purpose=self.purpose.value,
        )
        return connect_line(connect) + info_line(own)


def _check_version(version: int) -> None:
    if version != LINK_VERSION:
        raise Refusal(
            f"Rejecting connection, links of version {version} are not known, "
            f"this server has version {LINK_VERSION}"
        )


def _foreign(server: str) -> str:
    return f"Rejecting connection, {server} cannot join a cluster of Headwater servers"
