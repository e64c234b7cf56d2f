"""Placement: the servers that get a new stream, or another replica of a stream.

A server is suitable if it is in the cluster that the placement names, has all tags that it names
and none of those that it excludes (`!tag`), has room for the largest size of the stream, and has
another unique tag than the other chosen servers. Offline servers come last, and a majority of the
chosen servers is online. The least loaded servers are chosen: those with the fewest replicated
streams for a stream with several replicas, then those with the most room, then those with the
fewest streams. A seed breaks ties.

A refusal has error 10005 with the reasons of nats-server 2.15.1, in its order.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, final

from headwater.go.quoting import quote
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import Placement, Storage, StreamConfig
from headwater.jetstream.errors import ApiError

# A server with this tag gets no streams.
EXCLUDED_TAG: Final = "!jetstream"
_EXCLUDES: Final = "!"


class ServerState(NamedTuple):
    """A server as placement sees it. Sizes are in bytes."""

    name: str
    cluster: str
    # In lower case.
    tags: tuple[str, ...] = ()
    # The largest sizes of all its streams together, by kind of storage.
    memory_bytes_max: int = 0
    storage_bytes_max: int = 0
    # The sizes that the byte limits of its streams add up to, and those of stored messages.
    memory_reserved: int = 0
    storage_reserved: int = 0
    memory_used: int = 0
    storage_used: int = 0
    # The numbers of its streams, and of those among them that have several replicas.
    streams: int = 0
    ha_assets: int = 0
    is_online: bool = True
    # Whether the server was ever heard of since this one runs.
    was_heard: bool = True
    is_jetstream: bool = True

    def available(self, storage: Storage) -> int:
        """The bytes that are neither used nor reserved."""
        if storage is Storage.MEMORY:
            room = self.memory_bytes_max - max(self.memory_reserved, self.memory_used)
        else:
            room = self.storage_bytes_max - max(self.storage_reserved, self.storage_used)
        return max(room, 0)

    def can_reserve(self, storage: Storage, added_bytes: int) -> bool:
        """Whether a stream that the server holds may reserve so many bytes more."""
        if storage is Storage.MEMORY:
            room = self.memory_bytes_max - self.memory_reserved
        else:
            room = self.storage_bytes_max - self.storage_reserved
        return added_bytes <= max(room, 0)

    def has_tag(self, tag: str) -> bool:
        """Whether the server has a tag; case and blanks around it have no meaning."""
        return tag.strip().lower() in self.tags


class PlacementRules(NamedTuple):
    """The settings of the server that decides."""

    # The prefix of the tag in which the servers of a stream differ. Empty lets them be alike.
    unique_tag: str = ""
    # The number of replicated streams from which a server gets no further one; 0 for no limit.
    max_ha_assets: int = 0


class Candidates(NamedTuple):
    """The servers that may be chosen, and the values by which they are."""

    servers: Sequence[ServerState]
    rules: PlacementRules = PlacementRules()
    # Breaks ties; the same seed leads to the same choice.
    seed: int = 0

    def is_online(self, server: str) -> bool:
        """Whether a server is online; one that is not known is not."""
        return any(each.name == server and each.is_online for each in self.servers)


class PlacementRequest(NamedTuple):
    """The replicas that a stream needs."""

    replicas: int
    cluster: str
    # Of the stream: whether it is replicated, its kind of storage and its largest size.
    is_replicated: bool = False
    storage: Storage = Storage.FILE
    bytes_max: int = 0
    tags: tuple[str, ...] = ()
    # Servers of the stream that it keeps, whether or not they are suitable: they come first. The
    # first ones of them that are given up soon do not claim their unique tag.
    kept: tuple[str, ...] = ()
    given_up: int = 0
    # Servers that hold the stream: they have its bytes reserved, and are chosen first if suitable.
    holders: tuple[str, ...] = ()
    # The bytes that those need beyond what they have reserved.
    bytes_added: int = 0
    # Servers that are not chosen.
    ignored: tuple[str, ...] = ()


def request_for(config: StreamConfig, cluster: str, replicas: int = 0) -> PlacementRequest:
    """The request of a stream without a server; `cluster` is used if its placement names none."""
    placement = config.placement or Placement()
    return PlacementRequest(
        replicas or max(config.num_replicas, 1),
        placement.cluster or cluster,
        config.num_replicas > 1,
        config.storage,
        max(config.max_bytes, 0),
        placement.tags or (),
    )


@final
class _Reasons:
    """The reasons why servers were not suitable."""

    __slots__ = ("_excluded", "_flags", "_unmatched")

    # In the order of the text.
    OFFLINE = "peer offline"
    EXCLUDED = "exclude tag set"
    NO_ROOM = "insufficient storage"
    NOT_UNIQUE = "server tag not unique"
    OTHER = "miscellaneous issue"
    NO_JETSTREAM = "jetstream not enabled in cluster"
    _ORDER = (OFFLINE, EXCLUDED, NO_ROOM, NOT_UNIQUE, OTHER, NO_JETSTREAM)

    def __init__(self) -> None:
        self._flags: set[str] = set()
        # Tags as the placement spells them, in the order in which they were found.
        self._unmatched: dict[str, None] = {}
        self._excluded: dict[str, None] = {}

    def note(self, reason: str) -> None:
        self._flags.add(reason)

    def note_unmatched(self, tag: str) -> None:
        self._unmatched[tag] = None

    def note_excluded(self, tag: str) -> None:
        self._excluded[tag] = None

    def refusal(self) -> ApiError:
        parts = ["no suitable peers for placement"]
        parts += [reason for reason in self._ORDER if reason in self._flags]
        for text, tags in (("not matched", self._unmatched), ("excluded", self._excluded)):
            if tags:
                listed = ", ".join(f"'{tag}'" for tag in tags)
                parts.append(f"tags {text} [{listed}]")
        return ApiError.of(error_codes.CLUSTER_NO_PEERS, err=", ".join(parts))


@final
class _Selection:
    """One search for servers."""

    __slots__ = ("_candidates", "_reasons", "_request", "_unique_prefix")

    def __init__(self, request: PlacementRequest, candidates: Candidates) -> None:
        self._request = request
        self._candidates = candidates
        self._reasons = _Reasons()
        prefix = candidates.rules.unique_tag
        # A placement that names such a tag asks for servers that are alike.
        named = any(tag.removeprefix(_EXCLUDES).startswith(prefix) for tag in request.tags)
        self._unique_prefix = "" if named else prefix

    def chosen(self) -> tuple[str, ...]:
        """The servers, kept ones first. Raises ApiError."""
        request, reasons = self._request, self._reasons
        found = [each for each in self._candidates.servers if self._is_suitable(each)]
        found = self._differing(sorted(found, key=self._order()))
        missing = request.replicas - len(request.kept)
        online = sum(each.is_online for each in found) + len(request.kept)
        is_short = len(found) < missing
        if is_short or online < request.replicas // 2 + 1:
            if not any(each.is_jetstream for each in self._candidates.servers):
                reasons.note(_Reasons.NO_JETSTREAM)
            elif not is_short:
                reasons.note(_Reasons.OFFLINE)
            raise reasons.refusal()
        return (*request.kept, *(each.name for each in found[:missing]))

    def _is_suitable(self, server: ServerState) -> bool:
        """Whether a server may be chosen; the reason is noted if not."""
        request, reasons = self._request, self._reasons
        if not server.is_jetstream or server.cluster != request.cluster:
            return False
        if not server.was_heard:
            reasons.note(_Reasons.OFFLINE)
            return False
        if server.name in request.ignored or server.name in request.kept:
            return False
        if EXCLUDED_TAG in server.tags:
            reasons.note(_Reasons.EXCLUDED)
            return False
        return self._matches_tags(server) and self._has_room(server)

    def _matches_tags(self, server: ServerState) -> bool:
        for tag in self._request.tags:
            name = tag.removeprefix(_EXCLUDES)
            is_excluded = tag.startswith(_EXCLUDES)
            if server.has_tag(name) == is_excluded:
                note = self._reasons.note_excluded if is_excluded else self._reasons.note_unmatched
                note(name)
                return False
        return True

    def _has_room(self, server: ServerState) -> bool:
        request, rules = self._request, self._candidates.rules
        is_holder = server.name in request.holders
        if is_holder:
            has_room = server.can_reserve(request.storage, request.bytes_added)
        else:
            has_room = request.bytes_max <= server.available(request.storage)
        if not has_room:
            self._reasons.note(_Reasons.NO_ROOM)
            return False
        is_limited = request.is_replicated and rules.max_ha_assets > 0 and not is_holder
        if is_limited and server.ha_assets >= rules.max_ha_assets:
            self._reasons.note(_Reasons.OTHER)
            return False
        return True

    def _order(self) -> Callable[[ServerState], tuple[bool, bool, int, int, int, bytes]]:
        request = self._request
        key = b"%d" % self._candidates.seed

        def order(server: ServerState) -> tuple[bool, bool, int, int, int, bytes]:
            return (
                not server.is_online,
                server.name not in request.holders,
                server.ha_assets if request.is_replicated else 0,
                -server.available(request.storage),
                server.streams,
                blake2b(server.name.encode(), digest_size=8, key=key).digest(),
            )

        return order

    def _differing(self, servers: Iterable[ServerState]) -> list[ServerState]:
        """The servers that differ in their unique tags from those before them."""
        if not self._unique_prefix:
            return [*servers]
        request = self._request
        claiming = request.kept[request.given_up :]
        known = {server.name: server for server in self._candidates.servers}
        claimed = {self._unique_tag(known[name]) for name in claiming if name in known}
        differing: list[ServerState] = []
        for server in servers:
            tag = self._unique_tag(server)
            if tag is None or tag in claimed:
                self._reasons.note(_Reasons.NOT_UNIQUE)
                continue
            claimed.add(tag)
            differing.append(server)
        return differing

    def _unique_tag(self, server: ServerState) -> str | None:
        return next((tag for tag in server.tags if tag.startswith(self._unique_prefix)), None)


def place(request: PlacementRequest, candidates: Candidates) -> tuple[str, ...]:
    """The servers of a stream, kept ones first. Raises ApiError (10005) if there are too few."""
    if len(request.kept) >= request.replicas:
        return request.kept[: request.replicas]
    return _Selection(request, candidates).chosen()


def choose_leader(placement: Placement | None, leader: str, members: Candidates) -> str | None:
    """The server that leads a group after `leader`; None leaves the choice to the group.

    A preferred server goes before cluster and tags. Raises ApiError (10005) if no member fits.
    """
    if placement is None:
        return None
    preferred = placement.preferred
    if preferred:
        if preferred == leader:
            raise _no_leader(f"preferred server {quote(preferred)} is already leader")
        if all(server.name != preferred for server in members.servers):
            raise _no_leader(f"preferred server {quote(preferred)} not known")
        return preferred
    # Unlike the tags of a stream, a tag with an exclamation mark excludes no server.
    fitting = [
        server
        for server in members.servers
        if server.is_online
        and server.name != leader
        and placement.cluster in ("", server.cluster)
        and all(server.has_tag(tag) for tag in placement.tags or ())
    ]
    if not fitting:
        raise _no_leader("no replacement peer connected")
    return fitting[members.seed % len(fitting)].name


def _no_leader(reason: str) -> ApiError:
    return ApiError.of(error_codes.CLUSTER_NO_PEERS, err=reason)
