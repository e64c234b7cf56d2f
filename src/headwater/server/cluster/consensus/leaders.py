"""The leaders of groups, as servers tell each other.

A server that is in a group hears of its leader by consensus. All others hear of it from the leader
itself, so that a request can be sent to the right server at once.

    frame    group (16 bytes), term (8 bytes), and so on

A word that comes late is told by its term. The leader of a group that nobody leads any more is
found out when it answers nothing, and is replaced when the next leader tells of itself.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, final

from headwater.raft.codec import NUMBER_LIMIT
from headwater.server.cluster.consensus.frames import GROUP_BYTES, MalformedFrame
from headwater.server.log import Log

_LEADING: Final = Struct(f"<{GROUP_BYTES}sQ")

LEADINGS_MAX: Final = 4_096
"""The groups in one frame."""

KNOWN_MAX: Final = 1 << 20
"""The groups whose leaders are remembered. A peer cannot make a server remember more."""


@final
class Leaders:
    """The groups that this server leads, and the leaders of other groups."""

    __slots__ = ("_known", "_own")

    def __init__(self) -> None:
        self._own: dict[bytes, int] = {}
        self._known: dict[bytes, tuple[int, str]] = {}

    def begin(self, group: bytes, term: int) -> bytes:
        """Note that this server leads a group. Returns the frame that tells it."""
        self._own[group] = term
        return _LEADING.pack(group, term)

    def end(self, group: bytes) -> None:
        """Note that this server does not lead a group."""
        self._own.pop(group, None)

    def all_frames(self) -> Iterator[bytes]:
        """Frames for a server that has just come, with all groups that this server leads."""
        own = [*self._own.items()]
        for begin in range(0, len(own), LEADINGS_MAX):
            yield b"".join(_LEADING.pack(*each) for each in own[begin : begin + LEADINGS_MAX])

    def heard(self, peer: str, frame: bytes) -> None:
        """Note the groups that a server leads. Raises MalformedFrame."""
        if len(frame) % _LEADING.size:
            raise MalformedFrame("a frame ends within the leader of a group")
        for group, term in _LEADING.iter_unpack(frame):
            if term >= NUMBER_LIMIT:
                raise MalformedFrame("the term of a leader is larger than any group reaches")
            known = self._known.get(group)
            if known is None and len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            if known is None or known[0] <= term:
                self._known[group] = term, peer

    def leader_of(self, group: bytes) -> str:
        """The server that told last that it leads a group, or no name."""
        known = self._known.get(group)
        return "" if known is None else known[1]


@final
class MetaLeaders:
    """The leaders of the meta group, one after another, as a server logs them."""

    __slots__ = ("_last", "_log", "_name")

    def __init__(self, name: str, log: Log) -> None:
        """`name` is that of this server."""
        self._name = name
        self._log = log
        self._last = ""

    def note(self, leader: str) -> None:
        """Log the leader, or that there is none, if that has changed."""
        if leader == self._last:
            return
        self._last = leader
        if leader == self._name:
            self._log.info("Self is new JetStream cluster metadata leader")
        elif leader:
            self._log.info(f"JetStream cluster new metadata leader: {leader}")
        else:
            self._log.warn("JetStream cluster has no metadata leader")
