"""Live servers: one heartbeat per pair of servers, however many groups they share.

A server is alive while bytes of it arrive: on a slow link one frame with messages of clients takes
longer than the silence after which a server is lost. It is lost after a silence, when its
connection was reset and not renewed in time, or at once when a connection to it is refused. A
connection over which nothing else was sent carries a heartbeat; any other frame stands for one.
"""

from dataclasses import dataclass
from typing import Final, final

from headwater.base.clock import NS_PER_MS, NS_PER_S

_NEVER: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    """The times that decide whether a server is alive."""

    heartbeat_ns: int = 100 * NS_PER_MS
    """A connection carries a frame at least this often."""

    silence_ns: int = NS_PER_S
    """A server that was not heard for so long is lost."""

    renewal_ns: int = 200 * NS_PER_MS
    """A server whose connection was reset is lost unless it is connected again within this time."""

    unclean_wait_ns: int = 10 * NS_PER_S
    """The time that others have to come back before a majority that may have forgotten votes."""

    def fault(self) -> str:
        """The rule that these settings break, or an empty text."""
        if self.heartbeat_ns <= 0:
            return "the heartbeat interval is not positive"
        if self.silence_ns < 3 * self.heartbeat_ns:
            return "the election timeout is shorter than three heartbeats"
        return ""


@final
class _Peer:
    """One server that is alive, or whose connection is open."""

    __slots__ = ("heard_ns", "is_connected", "lost_ns", "send_ns")

    def __init__(self, heard_ns: int, lost_ns: int, send_ns: int) -> None:
        self.is_connected = True
        self.heard_ns = heard_ns
        # The time at which the server is lost unless it is heard before.
        self.lost_ns = lost_ns
        # The time of the next heartbeat.
        self.send_ns = send_ns


@final
class Liveness:
    """The servers that are alive, and the heartbeats that are due."""

    __slots__ = ("_peers", "_settings")

    def __init__(self, settings: LivenessSettings) -> None:
        self._settings = settings
        self._peers: dict[str, _Peer] = {}

    def is_alive(self, name: str) -> bool:
        """Whether a server is alive; its connection may be about to be renewed."""
        return name in self._peers

    def is_connected(self, name: str) -> bool:
        """Whether frames can be sent to a server."""
        peer = self._peers.get(name)
        return peer is not None and peer.is_connected

    @property
    def alive(self) -> tuple[str, ...]:
        """The names of live servers, in the order in which they came."""
        return tuple(self._peers)

    @property
    def deadline_ns(self) -> int | None:
        """The time at which `lost` or `due` has something to tell."""
        if not self._peers:
            return None
        return min(min(peer.lost_ns, peer.send_ns) for peer in self._peers.values())

    def connected(self, name: str, now_ns: int) -> None:
        """Note a connection to a server, the first or a renewed one."""
        settings = self._settings
        lost_ns, send_ns = now_ns + settings.silence_ns, now_ns + settings.heartbeat_ns
        self._peers[name] = _Peer(now_ns, lost_ns, send_ns)

    def heard(self, name: str, now_ns: int) -> None:
        """Note bytes of a server."""
        peer = self._peers[name]
        peer.heard_ns = now_ns
        peer.lost_ns = now_ns + self._settings.silence_ns

    def sent(self, name: str, now_ns: int) -> None:
        """Note a frame to a server."""
        self._peers[name].send_ns = now_ns + self._settings.heartbeat_ns

    def silence_ns(self, name: str, now_ns: int) -> int:
        """The time since the last bytes of a server; 0 for one that is not alive."""
        peer = self._peers.get(name)
        return 0 if peer is None else max(0, now_ns - peer.heard_ns)

    def disconnected(self, name: str, now_ns: int) -> None:
        """Note that the connection to a server was reset."""
        peer = self._peers.get(name)
        if peer is not None and peer.is_connected:
            peer.is_connected = False
            peer.send_ns = _NEVER
            peer.lost_ns = min(peer.lost_ns, now_ns + self._settings.renewal_ns)

    def remove(self, name: str) -> bool:
        """Count a server as lost. Returns whether it was alive."""
        return self._peers.pop(name, None) is not None

    def lost(self, now_ns: int) -> list[str]:
        """Remove and return the servers that were silent for too long."""
        names = [name for name, peer in self._peers.items() if now_ns >= peer.lost_ns]
        for name in names:
            del self._peers[name]
        return names

    def due(self, now_ns: int) -> list[str]:
        """The servers that are to be sent a heartbeat now."""
        return [name for name, peer in self._peers.items() if now_ns >= peer.send_ns]
