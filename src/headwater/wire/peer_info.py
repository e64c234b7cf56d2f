"""INFO, CONNECT and the member list: the JSON documents that servers of a cluster exchange.

A connection begins as a route of nats-server does: the accepting server sends INFO, the other one
answers with CONNECT and its own INFO. The accepting server answers +OK, or -ERR with the reason for
which it refuses the connection. The fields are nats-server's, and `link` is ours: the version
of the frames that follow. A document without it is that of a nats-server or of a client.
"""

from enum import Enum
from typing import Final, TypeVar

import msgspec

from headwater.wire.info import NATS_VERSION
from headwater.wire.peer_frames import LINE_BYTES_MAX, MalformedFrame

# The version of the frames; raised when servers of two versions cannot understand each other.
LINK_VERSION: Final = 2

_INFO: Final = b"INFO "
_CONNECT: Final = b"CONNECT "
_ERROR: Final = b"-ERR "
_OK: Final = b"+OK"

# A list of 1,000 servers with the longest names and addresses.
MEMBERS_BYTES_MAX: Final = 2 * 1024 * 1024

Document = TypeVar("Document", bound=msgspec.Struct)


class Purpose(Enum):
    """The two connections of a link."""

    # Plain messages, interest in subjects, members, and the catch-up of replicas.
    MESSAGES = "messages"
    # Heartbeats, votes and entries, which must not wait behind payloads.
    CONSENSUS = "consensus"


class PeerInfo(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """INFO of a server to another server of its cluster."""

    server_id: str = ""
    server_name: str = ""
    version: str = NATS_VERSION
    proto: int = 3
    go: str = "python"
    # The address that other servers connect to.
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    max_payload: int = 0
    # A server numbers its clients, and no routes.
    client_id: int = 0
    cluster: str = ""
    # Whether the name of the cluster was made up, and gives way to one that was configured.
    cluster_dynamic: bool = False
    # The addresses that clients may connect to.
    connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    jetstream: bool = False
    domain: str = ""
    # The version of this program, and of the frames; absent from INFO of a nats-server.
    headwater: str = ""
    link: int = 0


class PeerConnect(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """CONNECT of a server to another server."""

    verbose: bool = False
    pedantic: bool = False
    user: str = ""
    password: str = msgspec.field(default="", name="pass")
    tls_required: bool = False
    # The id of the server.
    name: str = ""
    # The language of a client library; a server has none.
    lang: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    headers: bool = False
    link: int = 0
    purpose: str = Purpose.MESSAGES.value


class Member(msgspec.Struct, kw_only=True, frozen=True):
    """A server of the cluster, as another one knows it."""

    server_id: str
    server_name: str
    # `host:port` that other servers connect to.
    address: str


_MEMBERS: Final = msgspec.json.Decoder(list[Member])


def info_line(info: PeerInfo) -> bytes:
    """INFO as a line."""
    return _INFO + encode_info(info) + b"\r\n"


def encode_info(info: PeerInfo) -> bytes:
    """The body of an INFO frame."""
    return msgspec.json.encode(info)


def connect_line(connect: PeerConnect) -> bytes:
    """CONNECT as a line."""
    return _CONNECT + msgspec.json.encode(connect) + b"\r\n"


class Admitted(msgspec.Struct, frozen=True):
    """+OK: the accepting server admits the connection, and frames follow."""


class Error(msgspec.Struct, frozen=True):
    """-ERR: the other server refuses the connection."""

    text: str


def read_line(line: bytes) -> PeerInfo | PeerConnect | Admitted | Error:
    """The document of a line of the handshake. Raises MalformedFrame."""
    head = line[: len(_CONNECT)].upper()
    if head.startswith(_INFO):
        return decode(line[len(_INFO) :], PeerInfo)
    if head.startswith(_CONNECT):
        return decode(line[len(_CONNECT) :], PeerConnect)
    if head.startswith(_ERROR):
        return Error(line[len(_ERROR) :].decode(errors="replace").strip().strip("'"))
    if head == _OK:
        return Admitted()
    raise MalformedFrame("expected INFO or CONNECT")


def decode(document: bytes, kind: type[Document]) -> Document:
    """A JSON document. Raises MalformedFrame."""
    try:
        return msgspec.json.decode(document, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as reason:
        raise MalformedFrame(f"not a document of a server: {reason}") from None


def decode_info(body: bytes) -> PeerInfo:
    """The document of an INFO frame, no longer than a line of the handshake. Raises
    MalformedFrame."""
    if len(body) > LINE_BYTES_MAX:
        raise MalformedFrame(f"INFO of {len(body)} bytes is too long")
    return decode(body, PeerInfo)


def encode_members(members: list[Member]) -> bytes:
    """The body of a MEMBERS frame."""
    return msgspec.json.encode(members)


def decode_members(body: bytes) -> list[Member]:
    """The members that a MEMBERS frame names. Raises MalformedFrame."""
    if len(body) > MEMBERS_BYTES_MAX:
        raise MalformedFrame(f"a list of members of {len(body)} bytes is too long")
    try:
        return _MEMBERS.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as reason:
        raise MalformedFrame(f"not a list of members: {reason}") from None
