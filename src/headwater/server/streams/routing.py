"""Calls of the API: their parts, and the servers of a cluster that may have to answer."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from headwater.jetstream.advisories import ClientDocument
from headwater.jetstream.api.message_get import awaited_sequence
from headwater.jetstream.api.operation import Answering, Request
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.config.api_level import exceeds_level
from headwater.jetstream.header_names import REQUIRED_API_LEVEL
from headwater.server.core.accounts import Account
from headwater.server.core.client import Client
from headwater.wire.headers import value_of

# The sender of a call: a client of this server, the description of a client of another server, or
# None for the server itself.
Source: TypeAlias = Client | ClientDocument | None

# Answers STREAM.LIST from documents that were gathered.
Listing: TypeAlias = Callable[[StreamApi, Request], Answering]


class Call(NamedTuple):
    """A message to the API, as it came."""

    account: Account
    source: Source
    subject: bytes
    reply: bytes | None
    header_size: int
    payload: bytes


class Routing(Protocol):
    """Finds the server that answers a call."""

    def route(self, call: Call) -> bool:
        """Have another server answer a call, or the meta group. Returns whether it will: this
        server has nothing to do with the call then."""
        ...

    def route_system(self, call: Call) -> bool:
        """Have the leader of the meta group answer a call of the system account. Returns whether
        the call is one that the leader answers."""
        ...


class ListGathering(Protocol):
    """Has other servers describe the streams of a list."""

    def gather(self, api: StreamApi, request: Request, go_on: Callable[[Listing], object]) -> None:
        """Call `go_on` with the function that answers STREAM.LIST, when other servers have
        answered or their time is over."""
        ...


def split_payload(payload: bytes, header_size: int) -> tuple[bytes, bytes]:
    """A message as header block and body."""
    if header_size < 0:
        return b"", payload
    return payload[:header_size], payload[header_size:]


def requires_more(header: bytes) -> bool:
    """Whether a request needs a newer API than this one."""
    level = value_of(header, REQUIRED_API_LEVEL) if header else None
    return bool(level) and exceeds_level(level or b"")


def is_session(call: Call) -> bool:
    """Whether a direct read names the sequence that its reader has seen."""
    return bool(awaited_sequence(split_payload(call.payload, call.header_size)[1]))
