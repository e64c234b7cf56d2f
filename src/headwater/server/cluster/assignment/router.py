"""The server that answers a call of the API: the leader of its stream, or of the meta group.

A server knows all assignments, so it sends a call to the one server that is responsible. That
server answers to the reply subject, wherever the client is. A call that reaches a server which is
not responsible any more is dropped: the client asks again.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from headwater.go.json import write
from headwater.jetstream import error_codes
from headwater.jetstream.advisories import ClientDocument
from headwater.jetstream.api.documents import ErrorDocument, Response
from headwater.jetstream.api.operation import Operation, Request
from headwater.jetstream.api.router import find_operation
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.config.stream_config import ReadConsistency, StreamConfig, has_leases
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.jetstream.meta.records import AnswerTo
from headwater.runtime.environment import Scheduler
from headwater.server.cluster.assignment.late_reads import LateReads
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.assignment.meta_requests import (
    META_CALLS,
    MetaRequest,
    MetaRequests,
)
from headwater.server.cluster.assignment.system_requests import (
    SystemRequest,
    SystemRequests,
    find_system_call,
)
from headwater.server.core.accounts import Account
from headwater.server.streams.api_service import API_PREFIX, ApiService
from headwater.server.streams.direct_reads import is_linearizable
from headwater.server.streams.routing import Call, requires_more, split_payload

# A cluster without a leader says so after this time: an election may be under way.
NO_LEADER_S: Final = 0.5
# Calls that wait to be told so. More of them are told at once.
WAITING_MAX: Final = 10_000
# A call whose stream has no leader is tried again after this time, this many times: that is longer
# than an election takes whose servers are all there.
TRY_S: Final = 0.05
TRIES: Final = 20
# Calls that wait to be tried again, and the size of each. Others are not answered.
TRIED_MAX: Final = 1_000
TRIED_BYTES_MAX: Final = 16 * 1024

_CREATE: Final = "STREAM.CREATE."
_MSG_GET: Final = "STREAM.MSG.GET."
_CONSUMER: Final = "CONSUMER."
_PULL: Final = "CONSUMER.MSG.NEXT."
_DIRECT_GET: Final = "DIRECT.GET."
_DIRECT: Final = (_DIRECT_GET, "DIRECT_LEADER.GET.")


class Links(Protocol):
    """The connections to other servers."""

    def forward(
        self,
        peer: str,
        account: str,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
        client: bytes,
    ) -> bool:
        """Send a call to another server. Returns whether it is connected."""
        ...


@final
class RequestRouter:
    """Routes the calls of this server's clients, and those that other servers forward."""

    __slots__ = (
        "_api",
        "_forwarded",
        "_has_replica",
        "_is_alive",
        "_is_led_here",
        "_is_system",
        "_late",
        "_leader_of",
        "_links",
        "_meta",
        "_name",
        "_requests",
        "_scheduler",
        "_system",
        "_tried",
        "_waiting",
    )

    def __init__(
        self,
        name: str,
        api: ApiService,
        meta: MetaMachine,
        requests: MetaRequests,
        system: SystemRequests,
        is_system: Callable[[Account], bool],
        leader_of: Callable[[StreamAssignment], str],
        is_led_here: Callable[[StreamAssignment], bool],
        is_alive: Callable[[str], bool],
        links: Links,
        scheduler: Scheduler,
        has_replica: Callable[[StreamAssignment], bool],
        silence_ns: Callable[[str], int],
    ) -> None:
        """`has_replica` tells whether this server has a replica of a stream that can be read, and
        `silence_ns` the time since a server was heard."""
        self._name = name
        self._api = api
        self._meta = meta
        self._requests = requests
        self._system = system
        self._is_system = is_system
        self._leader_of = leader_of
        self._is_led_here = is_led_here
        self._is_alive = is_alive
        self._has_replica = has_replica
        self._links = links
        self._scheduler = scheduler
        self._waiting = 0
        self._tried = 0
        self._late = LateReads(silence_ns, is_alive, api.refuse_read, scheduler)
        # The number of direct reads that mirrors elsewhere were to answer.
        self._forwarded = 0

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a leader."""
        return self._waiting + self._tried

    def route(self, call: Call) -> bool:
        """Have another server answer a call, or the meta group. Returns whether it will."""
        return self._route(call, TRIES)

    def _route(self, call: Call, tries: int) -> bool:
        """As `route`; a call whose stream has no leader is tried again so many times."""
        name = call.subject[len(API_PREFIX) :].decode(errors="surrogateescape")
        stream_name = _unattended_stream(name)
        if stream_name is not None:
            there = self._meta.assignments.get(call.account.name, stream_name)
            if there is not None and _answers(there.config, name):
                return self._read_or_pull(call, there, name, tries)
            # Without the stream, or without direct reads of it, only a mirror may answer.
            return name.startswith(_DIRECT_GET) and self._to_mirror(call, stream_name)
        found = find_operation(name)
        if found is None:
            return False
        operation, words = found
        if name.startswith(META_CALLS) or not words:
            return self._to_meta(call, name, operation, words)
        there = self._meta.assignments.get(call.account.name, words[0])
        if there is None:
            # The leader of the meta group says that the stream is not there.
            return self._to_meta_leader(call, operation)
        if self._is_offline(there) and _is_of_client(call):
            is_of_consumer = name.startswith(_CONSUMER)
            code = error_codes.CONSUMER_OFFLINE if is_of_consumer else error_codes.STREAM_OFFLINE
            self._refuse(call, operation, ApiError.of(code))
            return True
        if name.startswith(_MSG_GET) and has_leases(there.config) and not self._is_led(there):
            self._refuse(call, operation, ApiError.of(error_codes.CLUSTER_NOT_AVAIL))
            return True
        return self._to_stream(call, there, tries)

    def _is_led(self, there: StreamAssignment) -> bool:
        """Whether a stream has a leader, which serves if it is this server."""
        leader = self._leader_of(there)
        return bool(leader) and (leader != self._name or self._is_led_here(there))

    def _read_or_pull(self, call: Call, there: StreamAssignment, name: str, tries: int) -> bool:
        """Have a server of a stream answer a pull or a direct read. Returns whether another one
        will."""
        if name.startswith(_PULL):
            return self._to_stream(call, there, tries)
        if is_linearizable(there.config, name.partition(".")[0]):
            return self._to_sure_leader(call, there)
        is_weak = there.config.read_consistency is ReadConsistency.WEAK
        if (is_weak or not self._leader_of(there)) and self._has_replica(there):
            return False
        return self._to_stream(call, there, tries)

    def _to_sure_leader(self, call: Call, there: StreamAssignment) -> bool:
        """Have the leader of a stream answer a linearizable read, if there is one. Returns whether
        it was sent there; otherwise there are no responders, or this server answers."""
        leader = self._leader_of(there)
        if leader in ("", self._name) or not _is_of_client(call) or not self._is_alive(leader):
            return False
        is_sent = self._forward(leader, call)
        if is_sent:
            self._late.watch(leader, call)
        return is_sent

    def _is_offline(self, there: StreamAssignment) -> bool:
        """Whether all servers of a stream are gone, of a cluster that has a leader."""
        return bool(self._meta.leader) and not any(map(self._is_alive, there.servers))

    def _refuse(self, call: Call, operation: Operation[StreamApi], error: ApiError) -> None:
        response: Response = operation.response(error=ErrorDocument.of(error))
        body = split_payload(call.payload, call.header_size)[1]
        self._api.deliver(call, body, response)

    def route_system(self, call: Call) -> bool:
        """Have the leader of the meta group answer a call of the system account, if it is one that
        the leader answers. Without a leader nobody answers."""
        name = call.subject[len(API_PREFIX) :].decode(errors="surrogateescape")
        found = find_system_call(name)
        if found is None:
            return False
        if self._meta.is_leading:
            system_call, words = found
            header, body = split_payload(call.payload, call.header_size)
            asked = SystemRequest(
                words,
                body,
                self._answer_to(call, body),
                lambda response: self._api.deliver(call, body, response),
            )
            self._system.request(system_call, asked, requires_more(header))
        elif self._meta.leader not in ("", self._name) and _is_of_client(call):
            self._forward(self._meta.leader, call)
        return True

    def _to_stream(self, call: Call, there: StreamAssignment, tries: int) -> bool:
        """Have the leader of a stream answer. A stream without a leader for long answers nothing,
        and neither does a server that was elected and does not serve yet."""
        leader = self._leader_of(there)
        if leader == self._name and self._is_led_here(there):
            return False
        if leader in ("", self._name):
            self._try_again(call, tries)
        elif _is_of_client(call):
            self._forward(leader, call)
        return True

    def _to_mirror(self, call: Call, origin: str) -> bool:
        """Have a mirror that another server leads answer a direct read whose stream does not.

        Returns whether there is one. A mirror here that may answer goes first.
        """
        account = call.account.name
        if not _is_of_client(call) or self._api.has_mirror(call, origin):
            return False
        mirrors = self._meta.assignments.mirrors_of(account, origin)
        found = {self._leader_of(mirror) for mirror in mirrors} - {"", self._name}
        if not found:
            return False
        # Each in its turn: some of them may be too far behind.
        self._forwarded += 1
        leaders = sorted(found)
        return self._forward(leaders[self._forwarded % len(leaders)], call)

    def _try_again(self, call: Call, tries: int) -> None:
        """Route a call once more in a moment, unless that was done often enough."""
        self._later(call, tries, lambda: self._route_or_answer(call, tries - 1))

    def _route_or_answer(self, call: Call, tries: int) -> None:
        if not self._route(call, tries):
            self._api.answer_here(call)

    def _later(self, call: Call, tries: int, again: Callable[[], object]) -> None:
        """Do something for a call in a moment, unless no try is left or many calls wait."""

        def run() -> None:
            self._tried -= 1
            if not self._api.is_stopped:
                again()

        is_small = len(call.payload) <= TRIED_BYTES_MAX
        if tries > 0 and is_small and self._tried < TRIED_MAX:
            self._tried += 1
            self._scheduler.call_later(TRY_S, run)

    def _to_meta_leader(self, call: Call, operation: Operation[StreamApi]) -> bool:
        """Have the leader of the meta group answer. Returns False if it is this server."""
        if self._meta.is_leading:
            return False
        leader = self._meta.leader
        can_forward = leader not in ("", self._name) and _is_of_client(call)
        if not can_forward or not self._forward(leader, call):
            self._refuse_later(call, operation)
        return True

    def _to_meta(
        self, call: Call, name: str, operation: Operation[StreamApi], words: list[str]
    ) -> bool:
        if self._to_meta_leader(call, operation):
            return True
        call_name = next((each for each in META_CALLS if name.startswith(each)), "")
        api = self._api.find_api(call.account.name)
        if not call_name or api is None:
            return False
        header, body = split_payload(call.payload, call.header_size)
        request = Request(words, body, lambda: self._api.describe(call.source), header)
        asked = MetaRequest(
            call_name,
            api,
            operation,
            request,
            self._answer_to(call, body),
            lambda response: self._api.deliver(call, body, response),
            lambda there: self._pass_on(call, there, TRIES),
        )
        self._requests.request(asked)
        return True

    def _pass_on(self, call: Call, there: StreamAssignment, tries: int) -> None:
        """Have the leader of a stream answer a call that the meta group has no change for. Without
        a leader it is tried again."""
        leader = self._leader_of(there)
        if leader == self._name and self._is_led_here(there):
            self._api.answer_here(call)
        elif leader in ("", self._name):
            self._later(call, tries, lambda: self._pass_on_again(call, there, tries - 1))
        elif self._meta.is_leading:
            self._forward(leader, call)

    def _pass_on_again(self, call: Call, there: StreamAssignment, tries: int) -> None:
        now = self._meta.assignments.get(there.account, there.name)
        # A create that came before a deletion must not undo it: a client that repeats a create, and
        # deletes the stream when the first one is answered, would find the stream again.
        if now is not None and now.incarnation == there.incarnation:
            self._pass_on(call, now, tries)

    def forwarded(self, call: Call) -> None:
        """Answer a call that another server has forwarded, if this one is responsible for it."""
        if self._is_system(call.account):
            self.route_system(call)
            return
        there = self._passed_on(call)
        if there is not None and self._leader_of(there) == self._name:
            self._pass_on(call, there, TRIES)
        else:
            self._route_or_answer(call, TRIES)

    def _passed_on(self, call: Call) -> StreamAssignment | None:
        """The stream that a call would create if it were not there: the leader of the meta group
        found it. A stream that is not assigned must never be created by one server."""
        name = call.subject[len(API_PREFIX) :].decode(errors="surrogateescape")
        if self._meta.is_leading or not name.startswith(_CREATE):
            return None
        return self._meta.assignments.get(call.account.name, name[len(_CREATE) :])

    # --- frames --------------------------------------------------------------------------------

    def _forward(self, server: str, call: Call) -> bool:
        return self._links.forward(
            server,
            call.account.name,
            call.subject,
            call.reply,
            call.header_size,
            call.payload,
            self._description(call),
        )

    def _description(self, call: Call) -> bytes:
        described = self._api.describe(call.source)
        return b"" if described is None else write(described)

    def _answer_to(self, call: Call, body: bytes) -> AnswerTo | None:
        if call.reply is None:
            return None
        return AnswerTo.bounded(
            call.account.name, call.subject, call.reply, self._description(call), body
        )

    def _refuse_later(self, call: Call, operation: Operation[StreamApi]) -> None:
        """Say that the cluster has no leader, unless one comes soon and answers another call."""

        def refuse() -> None:
            self._waiting -= 1
            self._refuse(call, operation, ApiError.of(error_codes.CLUSTER_NOT_AVAIL))

        self._waiting += 1
        delay_s = NO_LEADER_S if self._waiting <= WAITING_MAX else 0.0
        self._scheduler.call_later(delay_s, refuse)


def _is_of_client(call: Call) -> bool:
    """Whether a call came from a client of this server: no call crosses a second link."""
    return not isinstance(call.source, ClientDocument)


def _unattended_stream(name: str) -> str | None:
    """The stream of a pull or of a direct read; None for any other call."""
    for prefix in (_PULL, *_DIRECT):
        if name.startswith(prefix):
            return name[len(prefix) :].partition(".")[0]
    return None


def _answers(config: StreamConfig, name: str) -> bool:
    """Whether the leader of a stream answers a pull or a direct read."""
    if name.startswith(_PULL):
        return True
    if has_leases(config):
        # No mirror knows all that was acknowledged.
        return name.startswith(_DIRECT_GET) or config.mirror is None
    return name.startswith(_DIRECT_GET) and config.allow_direct
