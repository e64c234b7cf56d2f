"""Notices: payloads of other parts of the server that travel on the consensus connection.

Consensus does not know their contents. A part that registers a kind is called with the notices of
that kind, and may have notices for each server that connects.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

# The first byte of a payload on the consensus connection. Frames of groups have 0 and 1.
GREETING: Final = b"\x02"
BIRTH: Final = b"\x03"
DOUBTS: Final = b"\x04"
LEADERS: Final = b"\x05"
# The first bytes of notices of other parts.
DESCRIPTION: Final = b"\x06"
MEMBERS: Final = b"\x07"
USAGE: Final = b"\x08"
STREAMS: Final = b"\x09"
DIGESTS: Final = b"\x0a"
REFILL: Final = b"\x0b"

# Takes a notice of a server, by its name. Raises PeerError.
Take = Callable[[str, bytes], object]


def nothing() -> Iterable[bytes]:
    """No notices for a server that connects."""
    return ()


@final
class Notices:
    """The kinds of notices, and the parts that take them."""

    __slots__ = ("_first", "_takers")

    def __init__(self) -> None:
        self._takers: dict[bytes, Take] = {}
        self._first: dict[bytes, Callable[[], Iterable[bytes]]] = {}

    def register(
        self, kind: bytes, take: Take, first: Callable[[], Iterable[bytes]] = nothing
    ) -> None:
        """Have notices of a kind taken; `first` gives those for a server that connects."""
        self._takers[kind] = take
        self._first[kind] = first

    def receive(self, peer: str, payload: bytes) -> bool:
        """Hand over a payload. Returns whether it is a notice. Raises PeerError."""
        take = self._takers.get(payload[:1])
        if take is None:
            return False
        take(peer, payload[1:])
        return True

    def first(self) -> Iterator[bytes]:
        """The payloads for a server that connects."""
        for kind, first in self._first.items():
            for notice in first():
                yield kind + notice
