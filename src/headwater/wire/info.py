"""INFO and CONNECT, the two JSON documents that open a connection."""

from collections.abc import Mapping
from typing import Any, Final, final

import msgspec

from headwater.base.errors import PeerError
from headwater.wire import frames

# The release whose behaviour this server has; clients switch features on by it.
NATS_VERSION: Final = "2.15.1"
PROTOCOL_INFO: Final = 1


class ServerInfo(msgspec.Struct, omit_defaults=True, kw_only=True):
    """INFO, in the order nats-server writes its fields. Fields at their default are left out."""

    server_id: str
    server_name: str
    version: str
    proto: int
    git_commit: str = ""
    go: str
    host: str
    port: int
    headers: bool
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int
    jetstream: bool = False
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    cluster: str = ""
    domain: str = ""
    connect_urls: list[str] = []
    ldm: bool = False
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    # Ours: the version of this program. Clients ignore keys they do not know.
    headwater: str

    def encode(self) -> bytes:
        """The INFO line."""
        return frames.info(msgspec.json.encode(self))


def decode_object(document: bytes) -> dict[str, Any]:
    """A JSON object, or null, which Go reads as one without fields. Raises PeerError.

    Go also takes strings that are not UTF-8, with a replacement character for what is not.
    """
    try:
        fields = msgspec.json.decode(document.decode(errors="replace"), type=dict[str, Any] | None)
    except (msgspec.DecodeError, RecursionError) as reason:
        raise PeerError(f"not a JSON object: {reason}") from None
    return fields or {}


@final
class ConnectOptions:
    """The options of CONNECT. Absent fields keep the value they had, as in nats-server."""

    __slots__ = (
        "account",
        "auth_token",
        "echo",
        "headers",
        "jwt",
        "lang",
        "name",
        "new_account",
        "nkey",
        "no_responders",
        "password",
        "pedantic",
        "protocol",
        "sig",
        "tls_required",
        "user",
        "verbose",
        "version",
    )

    def __init__(self) -> None:
        self.verbose = True
        self.pedantic = True
        self.echo = True
        self.tls_required = False
        self.headers = False
        self.no_responders = False
        self.new_account = False
        self.protocol = 0
        self.user = ""
        self.password = ""
        self.auth_token = ""
        self.nkey = ""
        self.jwt = ""
        self.sig = ""
        self.name = ""
        self.lang = ""
        self.version = ""
        self.account = ""

    def update(self, document: bytes) -> None:
        """Take over the fields of a CONNECT document. Raises PeerError, changing nothing."""
        try:
            fields = decode_object(document)
        except PeerError as error:
            raise PeerError(f"CONNECT is {error.reply}") from None
        # Go matches names without regard to case; the last one written wins.
        known = {_ATTRIBUTES.get(key.lower(), ""): value for key, value in fields.items()}
        known.pop("", None)
        self._check_types(known)
        for attribute, value in known.items():
            if value is not None:
                setattr(self, attribute, value)

    def forget_secrets(self) -> None:
        """Forget the credentials of a client that has gone."""
        self.password = self.auth_token = self.jwt = self.sig = ""

    def _check_types(self, fields: Mapping[str, object]) -> None:
        for attribute, value in fields.items():
            if value is not None and type(value) is not type(getattr(self, attribute)):
                raise PeerError(f"CONNECT field {attribute!r} has the wrong type")


_ATTRIBUTES: Final = {name: name for name in ConnectOptions.__slots__ if name != "password"} | {
    "pass": "password"
}
