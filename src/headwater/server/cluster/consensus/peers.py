"""The memory that servers have of each other, by which a server learns that it has forgotten.

A server is known by its name, the identity of its store, and its start: a number that grows with
every start of a server on the store, and random bytes that each start draws. Servers greet each
other with these facts, and with the facts that they remember of the other one. A server that is
remembered with another store, a later start, or another start of the same number was put back to
an earlier state, or emptied: it may have given votes and confirmations that it does not know of.
It then neither votes nor confirms until a leader has brought it to the end of the log.

A store that is put back to an earlier state, and started without any other server as often as it
has lost starts, goes unnoticed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, final

from headwater.base.errors import PeerError

STORE_BYTES: Final = 16
CLUSTER_BYTES: Final = 32
"""The identity of a cluster and of its last reset (`birth`); zeros for a server in none."""

START_BYTES: Final = 8
"""The random bytes of a start."""

PEERS_MAX: Final = 1_024
"""Servers that are remembered. Clusters have at most 64; more names are those of strangers."""

STARTS_MAX: Final = 1 << 32
"""The starts of a store: one every second for 136 years. A server that is remembered with a later
start has forgotten, so an absurd number must not be remembered."""

_VERSION: Final = 1
_FACTS: Final = Struct(f"<{STORE_BYTES}sQ{START_BYTES}s")
_GREETING: Final = Struct(f"<BB{CLUSTER_BYTES}s")
_COUNT: Final = Struct("<BH")


class MalformedGreeting(PeerError):
    """Bytes that are no greeting, or no memory."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The store of a server, and its start."""

    store: bytes
    start_number: int
    start: bytes

    def is_outdated_by(self, remembered: "ServerFacts") -> bool:
        """Whether a server with these facts has forgotten a start that others remember."""
        if remembered.store != self.store or remembered.start_number > self.start_number:
            return True
        return remembered.start_number == self.start_number and remembered.start != self.start


@dataclass(frozen=True, slots=True)
class Greeting:
    """The first frame between two servers: the facts and the cluster of the sender, and its memory
    of the other."""

    facts: ServerFacts
    remembered: ServerFacts | None
    cluster: bytes = bytes(CLUSTER_BYTES)


def encode_greeting(greeting: Greeting) -> bytes:
    """A greeting as it travels."""
    remembered = greeting.remembered
    data = _GREETING.pack(_VERSION, remembered is not None, greeting.cluster)
    data += _encode_facts(greeting.facts)
    return data + _encode_facts(remembered) if remembered is not None else data


def decode_greeting(data: bytes) -> Greeting:
    """A greeting. Raises MalformedGreeting."""
    if len(data) < _GREETING.size:
        raise MalformedGreeting("a greeting is too short")
    version, remembers, cluster = _GREETING.unpack_from(data)
    if version != _VERSION:
        raise MalformedGreeting(f"unknown version {version} of a greeting")
    if remembers > 1 or len(data) != _GREETING.size + (1 + remembers) * _FACTS.size:
        raise MalformedGreeting("a greeting has a wrong length")
    facts = _decode_facts(data, _GREETING.size)
    remembered = _decode_facts(data, _GREETING.size + _FACTS.size) if remembers else None
    if any(each and each.start_number > STARTS_MAX for each in (facts, remembered)):
        raise MalformedGreeting("a store was started more often than any can be")
    return Greeting(facts, remembered, cluster)


def _encode_facts(facts: ServerFacts) -> bytes:
    return _FACTS.pack(facts.store, facts.start_number, facts.start)


def _decode_facts(data: bytes, at: int) -> ServerFacts:
    return ServerFacts(*_FACTS.unpack_from(data, at))


@final
class PeerMemory:
    """The facts of other servers, by their names."""

    __slots__ = ("_facts",)

    def __init__(self, facts: Mapping[str, ServerFacts] | None = None) -> None:
        self._facts = dict(facts or {})

    def __getitem__(self, name: str) -> ServerFacts:
        return self._facts[name]

    def get(self, name: str) -> ServerFacts | None:
        """The facts that are remembered of a server, or None."""
        return self._facts.get(name)

    def items(self) -> list[tuple[str, ServerFacts]]:
        """All servers that are remembered, by name."""
        return sorted(self._facts.items())

    def refusal(self, name: str, facts: ServerFacts, own: ServerFacts) -> str:
        """The reason why a server is not talked to, or an empty text."""
        if facts.store == own.store:
            return f"server {name!r} runs on a copy of this server's store"
        for other, known in self._facts.items():
            if other != name and known.store == facts.store:
                return f"server {name!r} runs on a copy of the store of server {other!r}"
        if name not in self._facts and len(self._facts) >= PEERS_MAX:
            return f"{PEERS_MAX} other servers are remembered already"
        return ""

    def remember(self, name: str, facts: ServerFacts) -> bool:
        """Remember a server, unless a later start of its store is remembered.

        Returns whether the memory has changed. It is written before the server is believed.
        """
        known = self._facts.get(name)
        if known == facts:
            return False
        if known is not None and known.store == facts.store and facts.is_outdated_by(known):
            return False
        self._facts[name] = facts
        return True

    def encode(self) -> bytes:
        """The memory as it is written."""
        parts = [_COUNT.pack(_VERSION, len(self._facts))]
        for name, facts in self.items():
            encoded = name.encode()
            parts += (bytes((len(encoded),)), encoded, _encode_facts(facts))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> "PeerMemory":
        """The memory that was written. Raises MalformedGreeting."""
        if len(data) < _COUNT.size:
            raise MalformedGreeting("the memory of servers is too short")
        version, count = _COUNT.unpack_from(data)
        if version != _VERSION:
            raise MalformedGreeting(f"unknown version {version} of the memory of servers")
        at = _COUNT.size
        facts: dict[str, ServerFacts] = {}
        for _ in range(count):
            name_end = at + 1 + data[at] if at < len(data) else len(data)
            end = name_end + _FACTS.size
            if end > len(data):
                raise MalformedGreeting("the memory of servers ends within a server")
            try:
                name = data[at + 1 : name_end].decode()
            except UnicodeDecodeError:
                raise MalformedGreeting("the name of a server is not UTF-8") from None
            facts[name] = _decode_facts(data, name_end)
            at = end
        if at != len(data) or len(facts) != count:
            raise MalformedGreeting("the memory of servers has a wrong length")
        return cls(facts)
