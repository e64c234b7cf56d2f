"""Requests that the leader of the meta group decides: streams created, changed, deleted, listed.

Requests that change the assignments are decided one after the other, each when the records of the
one before it are applied: a creation is checked against the names, the subjects and the
reservations of all streams of its account.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, final

from headwater.base.entropy import Entropy
from headwater.base.sliced import at_once
from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api.clustering import find_server, read_peer
from headwater.jetstream.api.documents import (
    NAMES_MAX,
    ErrorDocument,
    Response,
    StreamNamesRequest,
    StreamNamesResponse,
)
from headwater.jetstream.api.keepers import ApiSettings
from headwater.jetstream.api.operation import Operation, Request
from headwater.jetstream.api.streams import StreamApi, is_empty_request, refuse_unsupported
from headwater.jetstream.config.stream_checks.checks import (
    Surroundings,
    check_addressed,
    check_new,
    check_update,
)
from headwater.jetstream.config.stream_config import StreamConfig, StreamRequest
from headwater.jetstream.config.stream_subjects import StreamSubjects
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.jetstream.meta.decisions import (
    ServerHealth,
    candidates_of,
    decide_cancel_move,
    decide_create,
    decide_delete,
    decide_peer_remove,
    decide_update,
)
from headwater.jetstream.meta.placement import Candidates, PlacementRules
from headwater.jetstream.meta.records import INCARNATION_BYTES, AnswerTo, MetaRecord
from headwater.jetstream.records import StreamCreated
from headwater.jetstream.server_room import exceeded
from headwater.server.cluster.assignment.meta_machine import MetaMachine

_SEED_BELOW: Final = 1 << 32

UNDECIDED_MAX: Final = 10_000
"""Requests that wait for the records in flight. nats-server has as many in its queue."""


class MetaRequest(NamedTuple):
    """A request for the leader of the meta group.

    `reply` sends an answer; `pass_on` has the leader of a stream answer the request as it is.
    """

    name: str
    api: StreamApi
    operation: Operation[StreamApi]
    request: Request
    answer: AnswerTo | None
    reply: Callable[[Response], object]
    pass_on: Callable[[StreamAssignment], object]


@final
class MetaRequests:
    """Decides requests on the server that leads the meta group.

    `health` has the servers that were heard; `leader_of` tells the leader of a stream.
    """

    __slots__ = (
        "_cluster",
        "_entropy",
        "_health",
        "_leader_of",
        "_meta",
        "_now_ns",
        "_rules",
        "_undecided",
    )

    def __init__(
        self,
        meta: MetaMachine,
        cluster: str,
        rules: PlacementRules,
        entropy: Entropy,
        now_ns: Callable[[], int],
        health: Callable[[], Mapping[str, ServerHealth]],
        leader_of: Callable[[StreamAssignment], str],
    ) -> None:
        self._meta = meta
        self._cluster = cluster
        self._rules = rules
        self._entropy = entropy
        self._now_ns = now_ns
        self._health = health
        self._leader_of = leader_of
        self._undecided: deque[MetaRequest] = deque()

    def request(self, asked: MetaRequest) -> None:
        """Decide a request after all that came before it, unless too many wait already."""
        if len(self._undecided) >= UNDECIDED_MAX:
            error = ApiError.of(error_codes.CLUSTER_NOT_AVAIL)
            asked.reply(asked.operation.response(error=ErrorDocument.of(error)))
            return
        self._undecided.append(asked)
        self.decide_waiting()

    def decide_waiting(self) -> None:
        """Decide requests, as long as no record is in flight. A server that does not lead any more
        leaves them unanswered."""
        if not self._meta.is_leading:
            self._undecided.clear()
        while self._undecided and not self._meta.assignments.has_in_flight:
            self._decide(self._undecided.popleft())

    def _decide(self, asked: MetaRequest) -> None:
        account = asked.api.account
        try:
            records = _DECISIONS[asked.name](self, asked)
        except ApiError as error:
            account.api_total += 1
            account.api_errors += 1
            asked.reply(asked.operation.response(error=ErrorDocument.of(error)))
            return
        account.api_total += 1
        if records:
            self._meta.propose(records)

    # --- decisions -----------------------------------------------------------------------------

    def _create(self, asked: MetaRequest) -> list[MetaRecord]:
        api, request = asked.api, asked.request
        wanted = api.read(request.body, StreamRequest)
        check_addressed(wanted, request.stream_name)
        assignments, account = self._meta.assignments, api.account
        there = assignments.get(account.name, request.stream_name)
        if there is None:
            count = len(assignments.streams_of(account.name))
            if 0 < account.limits.max_streams <= count:
                raise ApiError.of(error_codes.MAXIMUM_STREAMS_LIMIT)
        config = check_new(wanted, self.surroundings(api.account, api.settings))
        if there is not None:
            asked.pass_on(there)
            return []
        refuse_unsupported(config)
        created = StreamCreated(
            account.name,
            config.name,
            self._entropy.random_bytes(INCARNATION_BYTES),
            config,
            self._now_ns(),
        )
        return decide_create(assignments, created, self._cluster, self.candidates(), asked.answer)

    def _update(self, asked: MetaRequest) -> list[MetaRecord]:
        api, request = asked.api, asked.request
        wanted = api.read(request.body, StreamRequest)
        there = self._meta.assignments.get(api.account.name, request.stream_name)
        old = None if there is None else there.config
        config = check_update(
            old, wanted, self.surroundings(api.account, api.settings), request.stream_name
        )
        if there is None:
            raise ApiError.of(error_codes.STREAM_NOT_FOUND)
        refuse_unsupported(config)
        return decide_update(
            self._meta.assignments,
            api.account.name,
            config,
            self.candidates(),
            asked.answer,
            self._leader_of(there),
        )

    def _delete(self, asked: MetaRequest) -> list[MetaRecord]:
        if not is_empty_request(asked.request.body):
            raise ApiError.of(error_codes.NOT_EMPTY_REQUEST)
        account = asked.api.account.name
        name = asked.request.stream_name
        return decide_delete(self._meta.assignments, account, name, asked.answer)

    def _peer_remove(self, asked: MetaRequest) -> list[MetaRecord]:
        peer = read_peer(asked.api, asked.request.body)
        account, name = asked.api.account.name, asked.request.stream_name
        there = self._meta.assignments.foreseen(account, name)
        server = peer if there is None else find_server(peer, there.servers)
        return decide_peer_remove(
            self._meta.assignments, account, name, server, self.candidates(), asked.answer
        )

    def _cancel_move(self, asked: MetaRequest) -> list[MetaRecord]:
        account, name = asked.api.account.name, asked.request.stream_name
        return decide_cancel_move(self._meta.assignments, account, name, asked.answer)

    def _names(self, asked: MetaRequest) -> list[MetaRecord]:
        wanted = asked.api.read_if_document(asked.request.body, StreamNamesRequest)
        streams = self._meta.assignments.streams_of(asked.api.account.name)
        found = [stream.name for stream in streams]
        if wanted.subject:
            subjects = _subjects_of(streams)
            matching = at_once(subjects.streams_on(wanted.subject))
            found = [name for name in found if name in matching]
        offset = min(max(wanted.offset, 0), len(found))
        asked.reply(
            StreamNamesResponse(
                total=len(found),
                offset=offset,
                limit=NAMES_MAX,
                streams=found[offset : offset + NAMES_MAX] or None,
            )
        )
        return []

    # --- surroundings --------------------------------------------------------------------------

    def surroundings(self, account: JetStreamAccount, settings: ApiSettings) -> Surroundings:
        """The streams and the limits of an account, in the whole cluster."""
        streams = self._meta.assignments.streams_of(account.name)
        limits = account.limits

        def check_reservation(config: StreamConfig, old: StreamConfig | None) -> None:
            if 0 < limits.max_consumers < config.max_consumers:
                raise ApiError.of(error_codes.MAXIMUM_CONSUMERS_LIMIT)
            bytes_max = limits.bytes_max(config.storage)
            if bytes_max < 0:
                return
            reserved = sum(
                reserved_bytes(stream.config)
                for stream in streams
                if stream.config.storage is config.storage and stream.name != config.name
            )
            added = reserved_bytes(config) if config.max_bytes >= 0 or old is not None else 1
            if reserved + added > bytes_max:
                raise ApiError.of(exceeded(config.storage))

        return Surroundings(
            streams={stream.name: stream.config for stream in streams},
            taken=_subjects_of(streams),
            check_reservation=check_reservation,
            max_bytes_required=limits.max_bytes_required,
            memory_max_stream_bytes=limits.memory_max_stream_bytes,
            store_max_stream_bytes=limits.storage_max_stream_bytes,
            duplicate_window_max_ns=settings.duplicate_window_max_ns,
            is_clustered=True,
        )

    def candidates(self) -> Candidates:
        """The servers as placement sees them now."""
        assignments = self._meta.assignments
        seed = self._entropy.below(_SEED_BELOW)
        return candidates_of(assignments, self._health(), self._rules, seed)


def reserved_bytes(config: StreamConfig) -> int:
    """The bytes that all replicas of a stream together may have."""
    return max(config.max_bytes, 0) * max(config.num_replicas, 1)


def _subjects_of(streams: list[StreamAssignment]) -> StreamSubjects:
    subjects = StreamSubjects()
    for stream in streams:
        subjects.add(stream.name, stream.config.subjects)
    return subjects


_DECISIONS: Final[dict[str, Callable[[MetaRequests, MetaRequest], list[MetaRecord]]]] = {
    "STREAM.CREATE": MetaRequests._create,
    "STREAM.UPDATE": MetaRequests._update,
    "STREAM.DELETE": MetaRequests._delete,
    "STREAM.NAMES": MetaRequests._names,
    "STREAM.PEER.REMOVE": MetaRequests._peer_remove,
    "STREAM.PEER.EVACUATE": MetaRequests._peer_remove,
    "STREAM.CANCEL_MOVE": MetaRequests._cancel_move,
}
META_CALLS: Final = tuple(_DECISIONS)
