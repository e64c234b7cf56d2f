"""Calls of the API in a cluster: another server may have to answer."""

from typing import NamedTuple, Protocol, TypeAlias

from headwater.jetstream.advisories import ClientDocument
from headwater.server.core.accounts import Account
from headwater.server.core.client import Client

# The sender of a call: a client of this server, the description of a client of another server, or
# None for the server itself.
Source: TypeAlias = Client | ClientDocument | None


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
