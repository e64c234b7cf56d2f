"""Requests of the system account, about servers and about the streams of all accounts.

The leader of the meta group answers them. Without a leader nobody does, as in nats-server.

A request for all streams of a server or of an account is carried out in rounds of so many streams,
one entry each: the next round is decided when the one before it is applied. A leader that loses the
meta group leaves the rest undone.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar, final

import msgspec

from headwater.jetstream import error_codes
from headwater.jetstream.api.clustering import (
    MetaLeaderStepDownResponse,
    MoveRequest,
    ServerEvacuateResponse,
    ServerRemoveResponse,
    ServerRequest,
    StepDownRequest,
    StreamCancelMoveResponse,
    find_server,
)
from headwater.jetstream.api.documents import (
    AccountPurgeResponse,
    ErrorDocument,
    Response,
    StreamUpdateResponse,
)
from headwater.jetstream.api.streams import is_empty_request
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.jetstream.meta.decisions import (
    STREAMS_MAX,
    decide_cancel_move,
    decide_delete,
    decide_evacuate,
    decide_move,
    decide_server_remove,
)
from headwater.jetstream.meta.placement import Candidates
from headwater.jetstream.meta.records import AnswerTo, MetaRecord
from headwater.jetstream.request_bodies import read_request
from headwater.runtime.environment import Scheduler
from headwater.server.cluster.assignment.handovers import Handovers
from headwater.server.cluster.assignment.meta_machine import MetaMachine

_JSON_SPACE: Final = b" \t\r\n"

T = TypeVar("T", bound=msgspec.Struct)


class SystemRequest(NamedTuple):
    """A request of the system account.

    `words` follow the name of the call in its subject. `reply` sends an answer at once; the server
    that carries records out answers by `answer`.
    """

    words: list[str]
    body: bytes
    answer: AnswerTo | None
    reply: Callable[[Response], object]


class SystemCall(NamedTuple):
    """A call: the decision that answers it, its kind of reply, and its number of words."""

    decide: "Callable[[SystemRequests, SystemRequest], list[MetaRecord]]"
    response: type[Response]
    words: int = 0


class _Rounds(NamedTuple):
    """A request for many streams: the decision of a round, and the streams of later ones."""

    decide: Callable[[list[StreamAssignment]], list[MetaRecord]]
    streams: deque[StreamAssignment]


@final
class SystemRequests:
    """Decides requests of the system account on the leader of the meta group.

    `has_account` tells whether an account is there, `is_strict` whether unknown fields of a request
    are refused.
    """

    __slots__ = (
        "_candidates",
        "_handovers",
        "_has_account",
        "_is_strict",
        "_meta",
        "_rounds",
        "_scheduler",
    )

    def __init__(
        self,
        meta: MetaMachine,
        handovers: Handovers,
        candidates: Callable[[], Candidates],
        has_account: Callable[[str], bool],
        is_strict: Callable[[], bool],
        scheduler: Scheduler,
    ) -> None:
        self._meta = meta
        self._handovers = handovers
        self._candidates = candidates
        self._has_account = has_account
        self._is_strict = is_strict
        self._scheduler = scheduler
        # Servers and accounts that have streams: the requests about each of them, once.
        self._rounds: dict[tuple[str, str], _Rounds] = {}

    def request(self, call: SystemCall, asked: SystemRequest, requires_more: bool) -> None:
        """Answer a request, or propose the records that lead to its answer."""
        try:
            if requires_more:
                raise ApiError.of(error_codes.REQUIRED_API_LEVEL)
            records = call.decide(self, asked)
        except ApiError as error:
            asked.reply(call.response(error=ErrorDocument.of(error)))
            return
        self._meta.propose(records)

    def _read(self, body: bytes, kind: type[T]) -> T:
        return read_request(body, kind, self._is_strict())

    # --- requests for many streams -------------------------------------------------------------

    def _begin(
        self,
        call: str,
        name: str,
        decide: Callable[[list[StreamAssignment]], list[MetaRecord]],
        streams: Iterable[StreamAssignment],
    ) -> None:
        """Carry a request for streams out in rounds; one for the same name begins again."""
        self._rounds[call, name] = _Rounds(decide, deque(streams))
        self._scheduler.call_later(0.0, self.decide_round)

    def decide_round(self) -> None:
        """Decide for some more streams, unless records are in flight."""
        if not self._meta.is_leading:
            self._rounds.clear()
        if not self._rounds or self._meta.assignments.has_in_flight:
            return
        key, rounds = next(iter(self._rounds.items()))
        left = rounds.streams
        records = rounds.decide([left.popleft() for _ in range(min(len(left), STREAMS_MAX))])
        if not left:
            del self._rounds[key]
        self._meta.propose(records)
        if not records and self._rounds:
            # No application of records leads to the next round.
            self._scheduler.call_later(0.0, self.decide_round)

    # --- decisions -----------------------------------------------------------------------------

    def _step_down(self, asked: SystemRequest) -> list[MetaRecord]:
        wanted = StepDownRequest()
        if asked.body.lstrip(_JSON_SPACE)[:1] in (b"{", b"["):
            wanted = self._read(asked.body, StepDownRequest)
        self._handovers.hand_over_meta(wanted.placement)
        asked.reply(MetaLeaderStepDownResponse(success=True))
        return []

    def _named_server(self, asked: SystemRequest) -> str:
        """The server that a request names. Raises ApiError if there is none."""
        if is_empty_request(asked.body):
            raise ApiError.of(error_codes.BAD_REQUEST)
        wanted = self._read(asked.body, ServerRequest)
        servers = self._meta.assignments.foreseen_servers()
        named = find_server(wanted.peer_id, servers) if wanted.peer_id else wanted.peer
        if named not in servers:
            raise ApiError.of(error_codes.CLUSTER_SERVER_NOT_MEMBER)
        return named

    def _remove_server(self, asked: SystemRequest) -> list[MetaRecord]:
        server = self._named_server(asked)
        return decide_server_remove(self._meta.assignments, server, asked.answer)

    def _evacuate_server(self, asked: SystemRequest) -> list[MetaRecord]:
        server = self._named_server(asked)
        meta, streams = self._meta, self._meta.assignments.foreseen_streams()
        self._begin(
            "evacuate",
            server,
            lambda some: decide_evacuate(meta.assignments, server, some, self._candidates()),
            [stream for stream in streams if server in stream.servers],
        )
        asked.reply(ServerEvacuateResponse(success=True))
        return []

    def _move(self, asked: SystemRequest) -> list[MetaRecord]:
        wanted = self._read(asked.body, MoveRequest)
        account, stream = self._account(asked), asked.words[1]
        return decide_move(
            self._meta.assignments,
            account,
            stream,
            self._candidates(),
            wanted.server,
            wanted.tags or (),
            asked.answer,
        )

    def _cancel_move(self, asked: SystemRequest) -> list[MetaRecord]:
        account = self._account(asked)
        return decide_cancel_move(self._meta.assignments, account, asked.words[1], asked.answer)

    def _account(self, asked: SystemRequest) -> str:
        account = asked.words[0]
        if not self._has_account(account):
            raise ApiError.of(error_codes.NO_ACCOUNT)
        return account

    def _purge_account(self, asked: SystemRequest) -> list[MetaRecord]:
        account = asked.words[0]
        if "/" in account or "\\" in account:
            text = "account name can not contain path separators"
            raise ApiError.of(error_codes.STREAM_GENERAL_ERROR, err=text)
        streams = self._meta.assignments.foreseen_streams()
        self._begin(
            "purge",
            account,
            self._deletions,
            [stream for stream in streams if stream.account == account],
        )
        asked.reply(AccountPurgeResponse(initiated=True))
        return []

    def _deletions(self, streams: list[StreamAssignment]) -> list[MetaRecord]:
        """The deletions of those streams that are still there."""
        assignments, records = self._meta.assignments, list[MetaRecord]()
        for stream in streams:
            there = assignments.foreseen(stream.account, stream.name)
            if there is not None and there.incarnation == stream.incarnation:
                records += decide_delete(assignments, stream.account, stream.name)
        return records


SYSTEM_CALLS: Final[dict[str, SystemCall]] = {
    "META.LEADER.STEPDOWN": SystemCall(SystemRequests._step_down, MetaLeaderStepDownResponse),
    "SERVER.REMOVE": SystemCall(SystemRequests._remove_server, ServerRemoveResponse),
    "SERVER.EVACUATE": SystemCall(SystemRequests._evacuate_server, ServerEvacuateResponse),
    "ACCOUNT.STREAM.MOVE": SystemCall(SystemRequests._move, StreamUpdateResponse, 2),
    "ACCOUNT.STREAM.CANCEL_MOVE": SystemCall(
        SystemRequests._cancel_move, StreamCancelMoveResponse, 2
    ),
    "ACCOUNT.PURGE": SystemCall(SystemRequests._purge_account, AccountPurgeResponse, 1),
}


def find_system_call(name: str) -> tuple[SystemCall, list[str]] | None:
    """The call of a subject without its prefix, and the words after the name of the call."""
    for prefix, call in SYSTEM_CALLS.items():
        words = name[len(prefix) :].split(".")[1:]
        if name.startswith(prefix) and len(words) == call.words:
            rest = name[len(prefix) :]
            if not rest or rest.startswith("."):
                return call, words
    return None
