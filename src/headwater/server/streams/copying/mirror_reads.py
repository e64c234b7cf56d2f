"""Mirrors that answer direct reads of their origin, together with the origin itself.

A mirror answers once it has nearly all messages of its origin, and goes on when it falls behind, as
in nats-server. One with `max_staleness` ceases to answer when it has not heard of its origin for
that time, until it has what the origin had when it was heard of again. Which of the streams answers
is left to chance. Nobody but its leader answers for an origin whose reads are linearizable.

A mirror of a part of its origin answers as in nats-server, and says of the rest that it is not
there. It answers no session read of the origin, whose reader has seen messages that it lacks.
"""

from collections.abc import Callable
from typing import Protocol, final

from headwater.base.entropy import Entropy
from headwater.jetstream.config.stream_config import ReadConsistency
from headwater.jetstream.streams.stream import Stream


class Mirror(Protocol):
    """A mirror that is led here."""

    @property
    def answers_reads(self) -> bool:
        """Whether the mirror may answer for its origin now."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether the mirror has all messages of its origin, as they are there."""
        ...

    @property
    def stream(self) -> Stream:
        """The stream itself."""
        ...


@final
class MirrorReads:
    """The mirrors of a server that may answer for their origins, by account and origin."""

    __slots__ = ("_by_origin", "_entropy", "is_strong")

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._by_origin: dict[tuple[str, str], list[Mirror]] = {}
        # Tells whether the reads of a stream of the cluster, by account and name, are linearizable.
        self.is_strong: Callable[[str, str], bool] = lambda account, name: False

    def add(self, account: str, origin: str, mirror: Mirror) -> None:
        """Have a mirror answer for its origin, whenever it may."""
        self._by_origin.setdefault((account, origin), []).append(mirror)

    def remove(self, account: str, origin: str, mirror: Mirror) -> None:
        """Have a mirror answer for its origin no more."""
        mirrors = self._by_origin.get((account, origin), [])
        if mirror in mirrors:
            mirrors.remove(mirror)
            if not mirrors:
                del self._by_origin[account, origin]

    def choose(
        self, account: str, name: str, origin: Stream | None, is_session: bool
    ) -> Stream | None:
        """The stream that answers a read, which may be one of a session; `origin` is None if the
        origin itself does not answer."""
        if not self._by_origin:
            return origin
        mirrors = self._ready(account, name, is_session)
        if not mirrors or (origin is not None and _is_strong(origin)):
            return origin
        streams = [mirror.stream for mirror in mirrors]
        if origin is not None:
            streams.append(origin)
        return streams[self._entropy.below(len(streams))]

    def takes(self, account: str, name: str, is_session: bool) -> bool:
        """Whether a mirror answers a read whose origin another server leads."""
        if not self._by_origin:
            return False
        count = len(self._ready(account, name, is_session))
        return count > 0 and self._entropy.below(count + 1) < count

    def has_any(self, account: str, name: str, is_session: bool) -> bool:
        """Whether a mirror may answer the reads of an origin now."""
        return bool(self._ready(account, name, is_session))

    def _ready(self, account: str, name: str, is_session: bool) -> list[Mirror]:
        mirrors = self._by_origin.get((account, name))
        if mirrors and self.is_strong(account, name):
            return []
        if not mirrors:
            return []
        ready = [mirror for mirror in mirrors if mirror.answers_reads]
        return [mirror for mirror in ready if mirror.is_whole] if is_session else ready


def _is_strong(stream: Stream) -> bool:
    return stream.config.read_consistency is ReadConsistency.STRONG
