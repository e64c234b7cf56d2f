"""INFO: the texts by which a server describes itself to its clients.

A client gets INFO when it connects, once more after its first PING, and whenever the server has
something new to tell: another address, or that it is about to stop.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from headwater import __version__
from headwater.base.entropy import Entropy
from headwater.jetstream.config.api_level import API_LEVEL
from headwater.server.connections.roster import Roster
from headwater.server.core.accounts import Accounts
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client
from headwater.server.identity import new_nonce
from headwater.server.settings import Settings
from headwater.wire.info import NATS_VERSION, PROTOCOL_INFO, ServerInfo

_ANY_HOST: Final = frozenset({"", "0.0.0.0", "::"})


class Members(Protocol):
    """The other servers, as far as clients are told of them."""

    cluster_name: str

    def client_urls(self) -> list[str]:
        """The addresses that clients may connect to, those of this server first."""
        ...


@final
class Announcements:
    """INFO of one server, for everybody and for each client."""

    __slots__ = (
        "_accounts",
        "_broker",
        "_entropy",
        "_find_addresses",
        "_get_cluster",
        "_has_streams",
        "_name",
        "_roster",
        "_server_id",
        "_settings",
        "_told_members",
        "client_port",
        "is_lame_duck",
    )

    def __init__(
        self,
        server_id: str,
        name: str,
        settings: Settings,
        accounts: Accounts,
        roster: Roster,
        broker: Broker,
        has_streams: Callable[[], bool],
        get_cluster: Callable[[], Members | None],
        find_addresses: Callable[[], list[str]],
        entropy: Entropy,
    ) -> None:
        self._server_id = server_id
        self._name = name
        self._settings = settings
        self._accounts = accounts
        self._roster = roster
        self._broker = broker
        self._has_streams = has_streams
        self._get_cluster = get_cluster
        self._find_addresses = find_addresses
        self._entropy = entropy
        # The cluster's name and addresses, as clients were last told.
        self._told_members: tuple[str, list[str]] = ("", [])
        # The port that clients connect to, known once the server listens.
        self.client_port = settings.options.port
        # Whether clients have been told to go elsewhere.
        self.is_lame_duck = False

    def info(self) -> ServerInfo:
        """INFO without the fields that differ from client to client."""
        options = self._settings.options
        host, port = self._advertised_address()
        cluster, urls = self._members()
        return ServerInfo(
            server_id=self._server_id,
            server_name=self._name,
            version=NATS_VERSION,
            proto=PROTOCOL_INFO,
            go="python",
            host=host,
            port=port,
            headers=not options.no_header_support,
            auth_required=self._settings.authenticator.required,
            tls_required=options.tls is not None and not options.allow_non_tls,
            tls_verify=options.tls is not None and options.tls.settings.verify,
            tls_available=options.tls is not None and options.allow_non_tls,
            max_payload=options.max_payload,
            api_lvl=API_LEVEL,
            jetstream=self._has_streams(),
            cluster=cluster,
            connect_urls=urls,
            domain=options.jetstream.domain,
            headwater=__version__,
        )

    def greet(self, client: Client) -> None:
        """Send the first INFO of a connection."""
        self._told_members = self._members()
        info = _addressed(self.info(), client)
        info.auth_required = self._settings.authenticator.announced
        if self._settings.authenticator.has_signers:
            client.nonce = info.nonce = new_nonce(self._entropy)
        self._broker.queue_frame(client, info.encode())

    def confirm_connect(self, client: Client) -> None:
        """Send INFO after the first PING: it names the account that the client is in."""
        if client.connect.protocol < PROTOCOL_INFO:
            return
        info = _addressed(self.info(), client)
        info.connect_info = True
        info.remote_account = client.account.name
        info.acc_is_sys = client.account is self._accounts.system
        self._broker.queue_frame(client, info.encode())

    def enter_lame_duck_mode(self) -> None:
        """Tell clients to go elsewhere."""
        self.is_lame_duck = True
        info = self.info()
        info.ldm = True
        self._send_to_all(info)

    def announce_address(self) -> None:
        """Tell clients of another advertised address."""
        self._send_to_all(self.info())

    def announce_members(self) -> None:
        """Tell clients of the servers that came and went, if there is news."""
        members = self._members()
        if members != self._told_members:
            self._told_members = members
            self._send_to_all(self.info())

    def _members(self) -> tuple[str, list[str]]:
        cluster = self._get_cluster()
        return ("", []) if cluster is None else (cluster.cluster_name, cluster.client_urls())

    def own_urls(self) -> tuple[str, ...]:
        """The addresses at which clients reach this server."""
        host, port = self._advertised_address()
        if self._settings.options.client_advertise or host not in _ANY_HOST:
            return (_joined(host, port),)
        return tuple(_joined(address, port) for address in self._find_addresses())

    def _send_to_all(self, info: ServerInfo) -> None:
        """Send INFO to every client that understands INFO it did not ask for."""
        for client in self._roster.open.values():
            if client.session.is_greeted and client.connect.protocol >= PROTOCOL_INFO:
                self._broker.queue_frame(client, _addressed(info, client).encode())

    def _advertised_address(self) -> tuple[str, int]:
        """The address that clients are told: the listener's, unless options name another."""
        options = self._settings.options
        advertised = options.client_advertise
        if not advertised:
            return options.host, self.client_port
        host, _, port = advertised.rpartition(":")
        if not port.isdigit() or not host or (":" in host and not host.endswith("]")):
            return advertised, self.client_port
        return host.strip("[]"), int(port)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _addressed(info: ServerInfo, client: Client) -> ServerInfo:
    """INFO with the fields of one client filled in."""
    info.client_id = client.cid
    info.client_ip = client.connection.peer_host
    info.max_payload = client.max_payload
    return info
