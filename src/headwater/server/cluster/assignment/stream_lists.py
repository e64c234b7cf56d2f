"""STREAM.LIST in a cluster: the leader of the meta group has other servers describe their streams.

    STREAM.LIST ─▶ page of the assignments ─▶ ASK: names, one frame per server
                                                        │ the server that leads a stream
    answer ◀─ all are there, or 4 s are over ◀─ TELL ◀──┘

A stream is asked for on all its servers, so that a change of its leader costs no answer. A stream
without a leader is described by any of its servers, which first leaves half a second to others.
Streams that this server leads are described when the answer is written.

Frames go over the connections for messages, as forwarded calls with subjects that no client can
send. Their payloads are texts:

    ASK     names of streams, one in a line
    TELL    the name of a stream, a line end, and its document
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, final

import msgspec

from headwater.base.entropy import Entropy
from headwater.base.sliced import Sliced, Work
from headwater.go.json import write
from headwater.go.times import ZERO_TIME_TEXT, format_time
from headwater.jetstream import error_codes
from headwater.jetstream.api.cluster_documents import (
    ClusterInfo,
    ReplicaState,
    describe_replica,
    stream_group_name,
)
from headwater.jetstream.api.documents import (
    LIST_MAX,
    StreamInfo,
    StreamListRequest,
    StreamListResponse,
    StreamState,
)
from headwater.jetstream.api.long_details import DOCUMENT_BYTES_PER_UNIT, DOCUMENT_UNITS
from headwater.jetstream.api.operation import Answering, Request
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.jetstream.meta.records import ServerDescribed
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.assignment.router import Links
from headwater.server.streams.host import StreamHost
from headwater.server.streams.routing import Listing
from headwater.subjects.grammar import collide

ANSWERS_S: Final = 4.0
"""The time that other servers have to answer, as in nats-server."""

LEADERLESS_S: Final = 0.5
"""The time that a server leaves to others before it describes a stream without a leader."""

GATHERING_MAX: Final = 16
"""The lists that wait for other servers at a time; others wait for those. The documents of one list
may have 80 MB."""

WAITING_MAX: Final = 1_024
"""The lists that wait for their turn. Further ones are refused."""

LISTS: Final = b"$HEADWATER.LISTS."
ASK: Final = LISTS + b"ASK"
TELL: Final = LISTS + b"TELL"

_ID_BYTES: Final = 12
_LINE_END: Final = b"\n"


@final
class Page:
    """The streams of one page of an account's list, ordered by name."""

    __slots__ = ("offset", "streams", "total")

    def __init__(self, streams: list[StreamAssignment], subject: str, offset: int) -> None:
        found = [each for each in streams if not subject or _has_subject(each, subject)]
        self.offset = min(max(offset, 0), len(found))
        self.streams = found[self.offset : self.offset + LIST_MAX]
        # As in nats-server, a page without streams has no total.
        self.total = len(found) if self.streams else 0


@final
class _Gathering:
    """A page of a list, and the documents of other servers that have come."""

    __slots__ = ("_go_on", "awaited", "documents", "missing", "page", "timer")

    def __init__(self, page: Page, go_on: Callable[[Listing], object]) -> None:
        self.page = page
        self._go_on = go_on
        # The names of streams that other servers have to describe.
        self.awaited: set[str] = set()
        self.documents: dict[str, bytes] = {}
        self.missing: list[str] = []
        self.timer: TimerHandle | None = None

    def answer(self) -> None:
        """Have the list answered with the documents that are there."""
        if self.timer is not None:
            self.timer.cancel()
        self.missing += sorted(self.awaited)
        self._go_on(lambda api, request: _listing(api, self))


@final
class StreamLists:
    """The lists that this server gathers, and its part of the lists of others.

    `leader_of` tells the leader of a stream; `is_alive` whether a server is heard.
    """

    __slots__ = (
        "_api",
        "_cluster",
        "_entropy",
        "_gathering",
        "_is_alive",
        "_leader_of",
        "_links",
        "_meta",
        "_name",
        "_runners",
        "_scheduler",
        "_waiting",
    )

    def __init__(
        self,
        described: ServerDescribed,
        host: StreamHost,
        meta: MetaMachine,
        leader_of: Callable[[StreamAssignment], str],
        is_alive: Callable[[str], bool],
        links: Links,
        entropy: Entropy,
        scheduler: Scheduler,
    ) -> None:
        self._name = described.name
        self._cluster = described.cluster
        self._api = host.api
        self._runners = host.runners
        self._meta = meta
        self._leader_of = leader_of
        self._is_alive = is_alive
        self._links = links
        self._entropy = entropy
        self._scheduler = scheduler
        # The lists that wait for other servers, by the ids in their frames.
        self._gathering: dict[bytes, _Gathering] = {}
        self._waiting: deque[Callable[[], object]] = deque()
        host.api.lists = self

    # --- the server that answers ---------------------------------------------------------------

    def gather(self, api: StreamApi, request: Request, go_on: Callable[[Listing], object]) -> None:
        """Call `go_on` with the function that answers STREAM.LIST, when other servers have
        answered or their time is over."""
        if len(self._gathering) < GATHERING_MAX:
            self._begin(api, request, go_on)
        elif len(self._waiting) < WAITING_MAX:
            self._waiting.append(lambda: self._begin(api, request, go_on))
        else:
            go_on(_raising(ApiError.of(error_codes.INSUFFICIENT_RESOURCES)))

    def _begin(self, api: StreamApi, request: Request, go_on: Callable[[Listing], object]) -> None:
        try:
            wanted = api.read_if_document(request.body, StreamListRequest)
        except ApiError as error:
            go_on(_raising(error))
            return
        account = api.account.name
        streams = self._meta.assignments.streams_of(account)
        page = Page(streams, wanted.subject, wanted.offset)
        gathering = _Gathering(page, go_on)
        asked: dict[str, list[bytes]] = {}
        for stream in page.streams:
            if self._runners.find(account, stream.name) is not None:
                continue
            servers = [server for server in stream.servers if self._is_alive(server)]
            if servers:
                gathering.awaited.add(stream.name)
            else:
                gathering.documents[stream.name] = write(self._offline(api, stream))
                gathering.missing.append(stream.name)
            for server in servers:
                asked.setdefault(server, []).append(_encoded(stream.name))
        if not gathering.awaited:
            gathering.answer()
            return
        identity = self._entropy.random_bytes(_ID_BYTES).hex().encode()
        self._gathering[identity] = gathering
        gathering.timer = self._scheduler.call_later(ANSWERS_S, lambda: self._finish(identity))
        for server, names in asked.items():
            self._send(server, account, ASK, identity, _LINE_END.join(names))

    def _told(self, identity: bytes, payload: bytes) -> None:
        """Note the document of a stream, unless it has come already or its list has ended."""
        gathering = self._gathering.get(identity)
        encoded, _, document = payload.partition(_LINE_END)
        name = encoded.decode(errors="surrogateescape")
        if gathering is None or name not in gathering.awaited or not _is_json(document):
            return
        gathering.documents[name] = document
        gathering.awaited.discard(name)
        if not gathering.awaited:
            self._finish(identity)

    def _finish(self, identity: bytes) -> None:
        gathering = self._gathering.pop(identity)
        gathering.answer()
        while self._waiting and len(self._gathering) < GATHERING_MAX:
            self._waiting.popleft()()

    def _offline(self, api: StreamApi, stream: StreamAssignment) -> StreamInfo:
        """A stream none of whose servers is there, as far as its assignment tells."""
        replicas = [ReplicaState(server, is_online=False) for server in sorted(stream.servers)]
        return StreamInfo(
            config=stream.config,
            created=format_time(stream.created_ns),
            state=StreamState(first_ts=ZERO_TIME_TEXT, last_ts=ZERO_TIME_TEXT),
            cluster=ClusterInfo(
                name=self._cluster,
                raft_group=stream_group_name(stream.incarnation, stream.config),
                replicas=tuple(describe_replica(each) for each in replicas),
            ),
            ts=format_time(api.keepers.now_ns()),
        )

    # --- the servers of the streams ------------------------------------------------------------

    def received(
        self, peer: str, account: str, subject: bytes, identity: bytes, payload: bytes
    ) -> None:
        """Take a frame of another server, or of this one."""
        if subject == TELL:
            self._told(identity, payload)
        elif subject == ASK:
            self._asked(peer, account, identity, payload)

    def _asked(self, peer: str, account: str, identity: bytes, payload: bytes) -> None:
        """Describe those of the streams that are led here, and later those without a leader."""
        api = self._api.find_api(account)
        if api is None:
            return
        led: list[str] = []
        leaderless: list[str] = []
        for encoded in payload.split(_LINE_END)[:LIST_MAX]:
            name = encoded.decode(errors="surrogateescape")
            if self._runners.find(account, name) is not None:
                led.append(name)
            elif self._is_leaderless(account, name):
                leaderless.append(name)
        self._describe(peer, api, identity, led)
        if leaderless:
            self._scheduler.call_later(
                LEADERLESS_S, lambda: self._describe(peer, api, identity, leaderless)
            )

    def _is_leaderless(self, account: str, name: str) -> bool:
        there = self._meta.assignments.get(account, name)
        return there is not None and not self._leader_of(there)

    def _describe(self, peer: str, api: StreamApi, identity: bytes, names: list[str]) -> None:
        self._go_on(Sliced(self._describing(peer, api, identity, names)))

    def _go_on(self, describing: Sliced[None]) -> None:
        if describing.do_some():
            self._runners.slices.add(lambda: self._go_on(describing))

    def _describing(
        self, peer: str, api: StreamApi, identity: bytes, names: list[str]
    ) -> Work[None]:
        for name in names:
            stream = api.account.streams.get(name)
            if stream is not None:
                document = write(api.describe_listed(stream))
                payload = _encoded(name) + _LINE_END + document
                self._send(peer, api.account.name, TELL, identity, payload)
                yield DOCUMENT_UNITS + len(document) // DOCUMENT_BYTES_PER_UNIT

    def _send(
        self, server: str, account: str, subject: bytes, identity: bytes, payload: bytes
    ) -> None:
        if server == self._name:
            self.received(server, account, subject, identity, payload)
        else:
            self._links.forward(server, account, subject, identity, -1, payload, b"")


def _listing(api: StreamApi, gathering: _Gathering) -> Answering:
    """The answer, with the documents of other servers and those of this one, in order."""
    documents: list[msgspec.Raw] = []
    page, streams = gathering.page, api.account.streams
    for document in _in_order(api, gathering, streams):
        documents.append(msgspec.Raw(document))
        yield DOCUMENT_UNITS + len(document) // DOCUMENT_BYTES_PER_UNIT
    return StreamListResponse(
        total=page.total,
        offset=page.offset,
        limit=LIST_MAX,
        streams=documents,
        missing=gathering.missing,
    )


def _in_order(api: StreamApi, gathering: _Gathering, streams: dict[str, Stream]) -> Iterator[bytes]:
    for stream in gathering.page.streams:
        document = gathering.documents.get(stream.name)
        if document is not None:
            yield document
        elif stream.name not in gathering.awaited and stream.name in streams:
            yield write(api.describe_listed(streams[stream.name]))


def _raising(error: ApiError) -> Listing:
    def answer(api: StreamApi, request: Request) -> Answering:
        yield 1
        raise error

    return answer


def _has_subject(stream: StreamAssignment, subject: str) -> bool:
    wanted = _encoded(subject)
    return any(collide(wanted, _encoded(each)) for each in stream.config.subjects)


def _is_json(document: bytes) -> bool:
    """Whether a document of another server can be part of an answer as it is."""
    try:
        msgspec.json.decode(document, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return document[:1] == b"{"


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
