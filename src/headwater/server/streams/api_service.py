"""The API as a service of every account, on `$JS.API.>` and on the prefix of the domain.

A call is answered in the turn in which it comes, and sees all messages published before it. A
request on an unknown subject is not answered. Direct reads belong to streams and pulls to
consumers: without the stream or the consumer, the client gets `no responders`.

In a domain, requests on `$JS.<domain>.API.…` are forwarded to the plain subject, for those families
of subjects that nats-server maps. No other code tells them apart.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, final

from headwater.base.invariants import check
from headwater.base.sliced import Sliced, Work, at_once
from headwater.go.json import write
from headwater.jetstream import error_codes
from headwater.jetstream.advisories import ClientDocument
from headwater.jetstream.api.documents import (
    AccountInfoResponse,
    AccountPurgeResponse,
    ErrorDocument,
    Response,
    StreamInfoResponse,
    SystemResponse,
)
from headwater.jetstream.api.keepers import ApiSettings
from headwater.jetstream.api.message_get import (
    LEVEL_REQUIRED,
    NOT_LEADING,
    awaited_sequence,
    session_block,
)
from headwater.jetstream.api.operation import Found, Operation, Request, Requested, SetRequested
from headwater.jetstream.api.router import find_operation
from headwater.jetstream.api.streams import STREAM_OPERATIONS, StreamApi, not_deleted
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Answered, Proposal
from headwater.jetstream.records import Record, StreamSetRecord
from headwater.server.core.accounts import Account
from headwater.server.core.client import Client, Handler
from headwater.server.core.holding import Deferred
from headwater.server.core.own_subscriptions import OwnSubscriptions
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.copying.mirror_reads import MirrorReads
from headwater.server.streams.direct_reads import (
    DIRECT_GET_SUBJECT,
    DirectReads,
    is_linearizable,
)
from headwater.server.streams.repair_waits import AwaitedRead, ReplyTo
from headwater.server.streams.requests import Request as StreamRequest
from headwater.server.streams.routing import (
    Call,
    ListGathering,
    Listing,
    Routing,
    Source,
    is_session,
    requires_more,
    split_payload,
)
from headwater.server.streams.runners import StreamRunners
from headwater.server.streams.stream_set_runner import StreamSetRunner
from headwater.store.errors import DamagedMessageError, StoreError

API_PREFIX: Final = b"$JS.API."
_DIRECT_GET: Final = "DIRECT.GET"
_DIRECT_LEADER_GET: Final = "DIRECT_LEADER.GET"
_MSG_GET: Final = "STREAM.MSG.GET."
# Calls that change the messages, the configuration or the consumers of a stream.
_CHANGES: Final = (
    "STREAM.PURGE.",
    "STREAM.MSG.DELETE.",
    "STREAM.UPDATE.",
    "CONSUMER.CREATE.",
    "CONSUMER.DURABLE.CREATE.",
    "CONSUMER.DELETE.",
    "CONSUMER.PAUSE.",
    "CONSUMER.UNPIN.",
    "CONSUMER.RESET.",
)
# The details that a body asks for may take long to gather, and are those of one moment.
_INFO: Final = "STREAM.INFO."
# Calls that change the set of streams. A stream can be deleted at any time, also while it is being
# changed.
_CREATE: Final = "STREAM.CREATE."
_DELETE: Final = "STREAM.DELETE."
_PULL_SUBJECT: Final = API_PREFIX + b"CONSUMER.MSG.NEXT."
# Direct reads: without the stream there is no responder.
_UNATTENDED: Final = (_DIRECT_GET, _DIRECT_LEADER_GET)

# The families of subjects below the prefix of a domain, each with its prefix on the plain subject.
# Direct reads of the leader are an addition of ours; the table of nats-server has the rest.
_MAPPED: Final = (
    (b"INFO", API_PREFIX),
    (b"STREAM.>", API_PREFIX),
    (b"CONSUMER.>", API_PREFIX),
    (b"DIRECT.>", API_PREFIX),
    (b"DIRECT_LEADER.>", API_PREFIX),
    (b"META.>", API_PREFIX),
    (b"SERVER.>", API_PREFIX),
    (b"ACCOUNT.>", API_PREFIX),
    (b"$KV.>", b""),
    (b"$OBJ.>", b""),
)

# A client may have this many requests, and bytes of requests, without a reply: those for a stream
# that is being changed or waits for a commit, and reads that wait. A client library has at most one
# for each call that is under way.
DEFERRED_MAX: Final = 1_024
DEFERRED_BYTES_MAX: Final = 4 * 1024 * 1024
_STREAM_LIST: Final = "STREAM.LIST"
# A client waits for one of these at a time. Lists are gathered in slices and may have 80 MB, and
# a publish has to find the stream that its client has created, and none that it has deleted.
_ALONE: Final = (_STREAM_LIST, "CONSUMER.LIST.", _CREATE, _DELETE)

# The calls of the system account. All but one are for the leader of a cluster, and a single server
# does not answer them.
_ACCOUNT_PURGE: Final = "ACCOUNT.PURGE."
_LEADER_CALLS: Final = ("META.LEADER.STEPDOWN", "META.RESCUE", "SERVER.REMOVE", "SERVER.EVACUATE")
_ACCOUNT_CALLS: Final = "ACCOUNT."


@final
class ApiService:
    """Answers the calls of all accounts of a server, until `stop`."""

    __slots__ = (
        "_advisories",
        "_apis",
        "_broker",
        "_deferred",
        "_domain",
        "_is_stopped",
        "_mirrors",
        "_reads",
        "_runners",
        "_scheduler",
        "_stream_set",
        "_subscriptions",
        "changed",
        "lists",
        "routing",
    )

    def __init__(
        self,
        runners: StreamRunners,
        stream_set: StreamSetRunner,
        subscriptions: OwnSubscriptions,
        advisories: Advisories,
        mirrors: MirrorReads,
        domain: str,
    ) -> None:
        self._runners = runners
        self._stream_set = stream_set
        self._broker = runners.broker
        self._scheduler = runners.scheduler
        self._subscriptions = subscriptions
        self._advisories = advisories
        self._domain = domain
        self._apis: dict[str, StreamApi] = {}
        self._reads = DirectReads(runners, self._apis, mirrors)
        # The mirrors that answer direct reads of their origins.
        self._mirrors = mirrors
        self._deferred = Deferred(self._broker.holding, DEFERRED_MAX, DEFERRED_BYTES_MAX)
        self._is_stopped = False
        # There on a server of a cluster: another server may have to answer a call.
        self.routing: Routing | None = None
        # Likewise there: other servers describe streams of a list.
        self.lists: ListGathering | None = None
        # Called when a request has changed a stream or its consumers, before its reply.
        self.changed: Callable[[], object] = lambda: None

    def listen(self, account: Account, is_system: bool) -> None:
        """Answer calls in an account, with JetStream or without."""
        answer = self._system_handler(account) if is_system else self._handler(account)
        sub = self._subscriptions.serve(account, API_PREFIX + b">", answer)
        if not is_system:
            sub.answer_all = partial(self._answer_lasts, account)
        if self._domain:
            prefix = b"$JS.%b.API." % self._domain.encode()
            for family, plain in _MAPPED:
                forward = self._forwarder(account, prefix, plain)
                self._subscriptions.serve(account, prefix + family, forward)

    def add_api(self, api: StreamApi) -> None:
        """Answer for an account that has JetStream from now on."""
        self._apis[api.account.name] = api

    def find_api(self, account_name: str) -> StreamApi | None:
        """The API of an account; None if the account has no JetStream."""
        return self._apis.get(account_name)

    def api_of(self, account_name: str) -> StreamApi:
        """The API of an account that has JetStream."""
        return self._apis[account_name]

    def configure(self, settings: ApiSettings) -> None:
        """Answer by the settings of a reloaded configuration."""
        for api in self._apis.values():
            api.settings = settings

    @property
    def is_stopped(self) -> bool:
        """Whether calls are not answered any more."""
        return self._is_stopped

    def stop(self) -> None:
        """Leave calls that wait for a later turn unanswered: the streams are closed."""
        self._is_stopped = True

    # --- who handles a message -----------------------------------------------------------------

    def _forwarder(self, account: Account, prefix: bytes, plain: bytes) -> Handler:
        def handle(
            source: Client | None,
            subject: bytes,
            reply: bytes | None,
            header_size: int,
            payload: bytes,
        ) -> None:
            if subject.startswith(prefix):
                mapped = plain + subject[len(prefix) :]
                self._broker.forward(source, account, mapped, reply, header_size, payload)

        return handle

    def _handler(self, account: Account) -> Handler:
        def handle(
            source: Client | None,
            subject: bytes,
            reply: bytes | None,
            header_size: int,
            payload: bytes,
        ) -> bool:
            if not subject.startswith(API_PREFIX):
                # A message of a stream, with its own subject, that a consumer delivers here.
                return True
            if source is None:
                # The server itself has sent the message, because a client named this subject for
                # replies. The call waits, as the sender may be changing what the call changes.
                call = Call(account, None, subject, reply, header_size, payload)
                self._later(lambda: self._answer(call))
                return True
            return self._answer(Call(account, source, subject, reply, header_size, payload))

        return handle

    def _answer(self, call: Call) -> bool:
        """Answer a call, or have it answered by the server that is responsible.

        Returns False if the call is for a stream or a consumer that is not there.
        """
        if self.routing is None or self._has_mirror_answer(call):
            return self.answer_here(call)
        return self.routing.route(call) or self.answer_here(call)

    def _answer_lasts(
        self, account: Account, subjects: list[bytes], replies: list[bytes]
    ) -> list[int] | None:
        """As `DirectReads.answer_lasts`; None also if another server may have to answer."""
        if self.routing is not None and not self._reads.are_led_here(account, subjects):
            return None
        return self._reads.answer_lasts(account, subjects, replies)

    def _has_mirror_answer(self, call: Call) -> bool:
        """Whether a mirror here answers a direct read of an origin that is led elsewhere."""
        _, is_read, rest = call.subject.partition(DIRECT_GET_SUBJECT)
        origin = rest.partition(b".")[0].decode(errors="surrogateescape")
        return bool(is_read) and self._mirrors.takes(call.account.name, origin, is_session(call))

    def has_mirror(self, call: Call, origin: str) -> bool:
        """Whether a mirror here may answer a direct read of an origin now."""
        return self._mirrors.has_any(call.account.name, origin, is_session(call))

    def answer_here(self, call: Call) -> bool:
        """Answer a call. Returns False if it is for a stream or a consumer that is not there."""
        account, source, subject, reply, header_size, payload = call
        # A request sees the messages that were published before it.
        self._broker.turn.decide_gathered()
        header, body = split_payload(payload, header_size)
        if subject.startswith(_PULL_SUBJECT):
            return self._pull(account, subject, reply, header, body)
        name = subject[len(API_PREFIX) :].decode(errors="surrogateescape")
        if name.startswith(_UNATTENDED):
            return self._answer_direct(account, source, name, reply, header, body)
        found = find_operation(name)
        if found is not None:
            operation, words = found
            request = Request(words, body, lambda: self._advisories.describe(source), header)
            reply_to = partial(self._reply, account, source, subject, reply, operation, request)
            size = DEFERRED_BYTES_MAX + 1 if name.startswith(_ALONE) else len(payload)

            def begin(finish: Callable[[], None]) -> None:
                def answer(response: Response | None, is_told: bool) -> None:
                    finish()
                    reply_to(response, is_told)

                self._call(account, name, operation, request, answer)

            self._deferring(source, size, begin)
        return True

    def _call(
        self,
        account: Account,
        name: str,
        operation: Operation[StreamApi],
        request: Request,
        reply_to: ReplyTo,
    ) -> None:
        """Answer a call now, or when its stream is not being changed."""

        def answer() -> None:
            self._begin_answer(account, operation, request, reply_to)

        if name.startswith(_MSG_GET):
            self._get_message(account, operation, request, reply_to)
        elif name.startswith(_CHANGES) or (name.startswith(_INFO) and request.body):
            self._change(account, operation, request, reply_to)
        elif name.startswith(_DELETE):
            self._change_set(account, operation, request, reply_to)
        elif name.startswith(_CREATE):
            change = partial(self._change_set, account, operation, request, reply_to)
            self._runners.when_free(account.name, request.stream_name, change)
        elif request.words:
            self._runners.when_free(account.name, request.stream_name, answer)
        elif name == _STREAM_LIST and self.lists is not None and account.name in self._apis:

            def list_streams(listing: Listing) -> None:
                if not self._is_stopped:
                    listed = operation._replace(answer=listing)
                    self._begin_answer(account, listed, request, reply_to)

            self.lists.gather(self._apis[account.name], request, list_streams)
        else:
            answer()

    def _get_message(
        self,
        account: Account,
        operation: Operation[StreamApi],
        request: Request,
        reply_to: ReplyTo,
    ) -> None:
        """Answer a get when the stream is complete as far as its reader has seen it. A leader that
        may have been replaced says so; the level of reads decides whether it has to be sure."""
        confirmation_of = partial(self._reads.confirmation, account, request.stream_name)
        # A server that has lost the stream meanwhile does not know that it is gone.
        first = confirmation_of()

        def confirm(response: Response | None, is_told: bool) -> None:
            if not (first.holds() and confirmation_of().holds()):
                error = ErrorDocument.of(ApiError.of(error_codes.CLUSTER_NOT_AVAIL))
                response = operation.response(error=error)
            reply_to(response, is_told)

        def read(may_read: bool) -> None:
            if may_read:
                begin = partial(self._begin_answer, account, operation, request)
                AwaitedRead(self._scheduler, begin, confirm).read()
            else:
                error = ErrorDocument.of(ApiError.of(error_codes.CLUSTER_NOT_AVAIL))
                reply_to(operation.response(error=error), True)

        def ask() -> None:
            confirmation_of().when_confirmed(read)

        self._when_complete(account, request.stream_name, request.body, ask)

    def _deferring(
        self, source: Source, size: int, begin: Callable[[Callable[[], None]], object]
    ) -> None:
        """Begin a request. It counts for its client unless `begin` finishes it at once."""
        is_finished = is_counted = False

        def finish() -> None:
            nonlocal is_finished
            is_finished = True
            if is_counted and isinstance(source, Client):
                self._deferred.remove(source, size)

        begin(finish)
        if not is_finished and isinstance(source, Client):
            is_counted = True
            self._deferred.add(source, size)

    def _later(self, call: Callable[[], object]) -> None:
        """Call a function in the next turn, unless the service is stopped by then."""

        def do() -> None:
            if not self._is_stopped:
                call()

        self._scheduler.call_soon(do)

    def _begin_answer(
        self,
        account: Account,
        operation: Operation[StreamApi],
        request: Request,
        reply_to: ReplyTo,
    ) -> None:
        answering = Sliced(self._answering(account, operation, request))
        stream_name = request.stream_name if request.words else ""
        when_free = partial(self._runners.when_free, account.name, stream_name)
        self._go_on(answering, when_free, reply_to)

    def _go_on(
        self,
        answering: Sliced[tuple[Response | Requested | SetRequested | None, bool]],
        when_free: Callable[[Callable[[], object]], object],
        reply_to: ReplyTo,
    ) -> None:
        """Gather a reply, one slice now and the others in later turns, and send it."""
        if not answering.do_some():
            response, is_told = answering.result
            is_change = isinstance(response, Requested | SetRequested)
            check(not is_change, "a change is decided by its stream or by the set of streams")
            assert not isinstance(response, Requested | SetRequested)
            reply_to(response, is_told)
            return

        def go_on() -> None:
            if not self._is_stopped:
                when_free(lambda: self._go_on(answering, when_free, reply_to))

        self._runners.slices.add(go_on)

    def _change(
        self,
        account: Account,
        operation: Operation[StreamApi],
        request: Request,
        reply_to: ReplyTo,
    ) -> None:
        """Have a stream changed in its turn, and reply when the change is durable."""
        api = self._apis.get(account.name)
        if api is None or request.stream_name not in api.account.streams:
            self._begin_answer(account, operation, request, reply_to)
            return
        runner = self._runners.find(account.name, request.stream_name)
        if runner is None:
            # Another server leads the stream since the call came here.
            error = ErrorDocument.of(ApiError.of(error_codes.CLUSTER_NOT_AVAIL))
            reply_to(operation.response(error=error), True)
            return

        def deciding() -> Work[Proposal[Record] | None]:
            answer, is_told = yield from self._answering(account, operation, request)
            if not isinstance(answer, Requested):
                assert not isinstance(answer, SetRequested)
                return runner.answer_behind(partial(reply_to, answer, is_told), refuse)
            effect = self._answered(api, operation, answer, reply_to)
            return Proposal(answer.records, (*answer.effects, effect))

        def is_foreseen() -> bool:
            return operation.is_foreseen is not None and operation.is_foreseen(api, request)

        def refuse(error: ApiError) -> None:
            if only_looks:
                # A stream that is being deleted is gone in the next turn.
                self._later(lambda: self._begin_answer(account, operation, request, reply_to))
            else:
                reply_to(operation.response(error=ErrorDocument.of(error)), True)

        only_looks = operation.response is StreamInfoResponse
        runner.request(StreamRequest(deciding, refuse, is_foreseen))

    def update_stream(
        self,
        account: Account,
        name: str,
        config: StreamConfig,
        reply: Callable[[Response], object],
    ) -> None:
        """Change the configuration of a stream, which the meta group has checked, and reply."""
        api = self._apis.get(account.name)
        runner = self._runners.find(account.name, name)
        if api is None or runner is None:
            return
        operation = STREAM_OPERATIONS["STREAM.UPDATE"]

        def reply_to(response: Response | None, _: bool) -> None:
            if response is not None:
                reply(response)

        def deciding() -> Work[Proposal[Record] | None]:
            yield 1
            answer = api.decide_update(runner.stream, config)
            effect = self._answered(api, operation, answer, reply_to)
            return Proposal(answer.records, (*answer.effects, effect))

        def refuse(error: ApiError) -> None:
            reply(operation.response(error=ErrorDocument.of(error)))

        runner.request(StreamRequest(deciding, refuse))

    def _change_set(
        self,
        account: Account,
        operation: Operation[StreamApi],
        request: Request,
        reply_to: ReplyTo,
    ) -> None:
        """Have a stream created or deleted, and reply when it runs or is gone."""

        def decide() -> Proposal[StreamSetRecord] | Callable[[], object]:
            found = at_once(self._finding(account, operation, request))
            answer = found.response
            if not isinstance(answer, SetRequested):
                return partial(self._answer_found, account, found, reply_to)
            api, proposal = self._apis[account.name], answer.proposal
            proposal.effects += (self._answered(api, operation, answer, reply_to),)
            return proposal

        self._stream_set.request(decide)

    def _answered(
        self,
        api: StreamApi,
        operation: Operation[StreamApi],
        requested: Requested | SetRequested,
        reply_to: ReplyTo,
    ) -> Answered:
        return Answered(
            partial(self._respond, api, operation, requested, reply_to),
            partial(self._refuse, api, operation, requested, reply_to),
        )

    def _respond(
        self,
        api: StreamApi,
        operation: Operation[StreamApi],
        requested: Requested | SetRequested,
        reply_to: ReplyTo,
        removed: int,
    ) -> None:
        """Answer a request whose change is applied."""
        response = requested.respond(removed)
        self.changed()
        api.account.api_total += operation.is_counted
        reply_to(response, operation.is_counted)

    def _refuse(
        self,
        api: StreamApi,
        operation: Operation[StreamApi],
        requested: Requested | SetRequested,
        reply_to: ReplyTo,
        error: StoreError | ApiError,
    ) -> None:
        """Answer a request whose change could not be made."""
        if isinstance(error, StoreError):
            error = requested.refuse(error)
            api.account.api_total += 1
            api.account.api_errors += 1
        reply_to(operation.response(error=ErrorDocument.of(error)), True)

    def _when_complete(
        self, account: Account, stream_name: str, body: bytes, answer: Callable[[], object]
    ) -> None:
        """Answer a read when the stream shows the sequence that its reader has seen."""
        sequence = awaited_sequence(body)
        api = self._apis.get(account.name)
        stream = None if api is None else api.account.streams.get(stream_name)
        reads = self._runners.find_reads(account.name, stream_name)
        if stream is None or reads is None or sequence <= stream.complete_sequence:
            self._runners.when_free(account.name, stream_name, answer)
        else:
            reads.add(sequence, answer)

    def _system_handler(self, account: Account) -> Handler:
        def handle(
            source: Client | None,
            subject: bytes,
            reply: bytes | None,
            header_size: int,
            payload: bytes,
        ) -> None:
            call = Call(account, source, subject, reply, header_size, payload)
            if self.routing is not None and self.routing.route_system(call):
                return
            name = subject[len(API_PREFIX) :].decode(errors="surrogateescape")
            body = split_payload(payload, header_size)[1]

            def deliver(response: Response) -> None:
                self._deliver(account, source, subject, reply, body, response, is_told=True)

            self._answer_system(name, deliver)

        return handle

    # --- answers -------------------------------------------------------------------------------

    def _answering(
        self, account: Account, operation: Operation[StreamApi], request: Request
    ) -> Work[tuple[Response | Requested | SetRequested | None, bool]]:
        """The reply to a call, or the change that it asks for, and whether an advisory of the call
        is published. The call is counted."""
        found = yield from self._finding(account, operation, request)
        found.count_in(self._apis.get(account.name))
        return found.response, found.is_told

    def _answer_found(self, account: Account, found: Found, reply_to: ReplyTo) -> None:
        """Answer a request that changes nothing in the set of streams."""
        assert not isinstance(found.response, Requested | SetRequested)
        found.count_in(self._apis.get(account.name))
        reply_to(found.response, found.is_told)

    def _finding(
        self, account: Account, operation: Operation[StreamApi], request: Request
    ) -> Work[Found]:
        """The reply to a call, or the change that it asks for."""
        api = self._apis.get(account.name)
        try:
            if operation.needs_cluster and self.routing is None:
                raise ApiError.of(error_codes.CLUSTER_REQUIRED)
            if requires_more(request.header):
                if api is not None and operation.looks_first is not None:
                    operation.looks_first(api, request)
                raise ApiError.of(error_codes.REQUIRED_API_LEVEL)
            if api is None:
                raise ApiError.of(error_codes.NOT_ENABLED_FOR_ACCOUNT)
            response = yield from operation.answering(api, request)
        except DamagedMessageError:
            error = ApiError.of(error_codes.CLUSTER_NOT_AVAIL)
            return Found(operation.response(error=ErrorDocument.of(error)), is_told=True)
        except ApiError as error:
            refusal = operation.response(error=ErrorDocument.of(error))
            return Found(refusal, is_told=True, is_counted=True, is_error=True)
        # A change counts when it is made.
        is_change = isinstance(response, Requested | SetRequested)
        return Found(response, operation.is_counted, operation.is_counted and not is_change)

    def _answer_system(self, name: str, deliver: Callable[[Response], object]) -> None:
        """Answer a call in the system account, if it has a reply."""
        if name.startswith(_ACCOUNT_PURGE):
            self._purge_account(name.removeprefix(_ACCOUNT_PURGE), deliver)
        elif name not in _LEADER_CALLS and not name.startswith(_ACCOUNT_CALLS):
            error = ErrorDocument.of(ApiError.of(error_codes.NOT_ENABLED_FOR_ACCOUNT))
            is_info = name == "INFO"
            deliver(AccountInfoResponse(error=error) if is_info else SystemResponse(error=error))

    def _purge_account(self, name: str, deliver: Callable[[Response], object]) -> None:
        """Remove all streams of an account. An unknown account counts as one without streams."""
        if "." in name:
            return
        if "/" in name or "\\" in name:
            text = "account name can not contain path separators"
            error = ApiError.of(error_codes.STREAM_GENERAL_ERROR, err=text)
            deliver(AccountPurgeResponse(error=ErrorDocument.of(error)))
            return
        api = self._apis.get(name)
        if api is None:
            deliver(AccountPurgeResponse(initiated=True))
            return

        def refuse(error: StoreError | ApiError) -> None:
            shown = not_deleted(error) if isinstance(error, StoreError) else error
            deliver(AccountPurgeResponse(error=ErrorDocument.of(shown)))

        def decide() -> Proposal[StreamSetRecord] | Callable[[], object]:
            streams = [*api.account.streams.values()]
            try:
                proposal = api.keepers.streams.decide_deletion(api.account, streams)
            except ApiError as error:
                return partial(refuse, error)
            done = AccountPurgeResponse(initiated=True)
            proposal.effects += (Answered(lambda _: deliver(done), refuse),)
            return proposal

        self._broker.turn.decide_gathered()
        self._stream_set.request(decide)

    def _reply(
        self,
        account: Account,
        source: Source,
        subject: bytes,
        reply: bytes | None,
        operation: Operation[StreamApi],
        request: Request,
        response: Response | None,
        is_told: bool,
    ) -> None:
        if response is None:
            return
        api = self._apis.get(account.name)
        block = b""
        if api is not None and operation.header is not None:
            block = operation.header(api, request, response)
        self._deliver(account, source, subject, reply, request.body, response, is_told, block)

    def deliver(self, call: Call, body: bytes, response: Response) -> None:
        """Send the answer of a call, with an advisory of it."""
        self._deliver(
            call.account, call.source, call.subject, call.reply, body, response, is_told=True
        )

    def describe(self, source: Source) -> ClientDocument | None:
        """The sender of a call in a document."""
        return self._advisories.describe(source)

    def _deliver(
        self,
        account: Account,
        source: Source,
        subject: bytes,
        reply: bytes | None,
        body: bytes,
        response: Response,
        is_told: bool,
        block: bytes = b"",
    ) -> None:
        document = write(response)
        if reply is not None:
            self._send(account, reply, document, block)
        if is_told:
            self._advisories.api_called(account, source, subject, body, document)

    def _pull(
        self, account: Account, subject: bytes, reply: bytes | None, header: bytes, body: bytes
    ) -> bool:
        """Add a pull to a consumer. Returns False if the consumer is not there."""
        names = subject[len(_PULL_SUBJECT) :].decode(errors="surrogateescape")
        stream_name, _, consumer_name = names.partition(".")
        runner = self._runners.find_consumers(account.name, stream_name)
        consumer = None if runner is None else runner.find(consumer_name)
        if runner is None or consumer is None:
            return False
        if reply is None:
            return True
        if header and consumer.pulls is not None and requires_more(header):
            self._send(account, reply, b"", LEVEL_REQUIRED)
        else:
            runner.pull(consumer, reply, body)
        return True

    def _answer_direct(
        self,
        account: Account,
        source: Source,
        name: str,
        reply: bytes | None,
        header: bytes,
        body: bytes,
    ) -> bool:
        """Answer a direct read. Returns False if no stream answers it."""
        call, _, rest = name.partition(".GET.")
        stream_name, _, subject = rest.partition(".")
        stream = self._reads.find_stream(account, stream_name, call, bool(awaited_sequence(body)))
        runner = None
        if stream is not None and is_linearizable(stream.config, call):
            runner = self._runners.find(account.name, stream.name)
            if runner is None or not runner.confirmation.may_begin():
                stream = None
        if stream is None:
            return self._refuse_forwarded(account, source, reply)
        if reply is None:
            return True
        if requires_more(header):
            self._send(account, reply, b"", session_block(stream, body, LEVEL_REQUIRED))
        else:

            def begin(finish: Callable[[], None]) -> None:
                def read(may_read: bool = True) -> None:
                    finish()
                    if not may_read:
                        self._send(account, reply, b"", session_block(stream, body, NOT_LEADING))
                    elif runner is not None:
                        self._reads.send_linearizable(account, runner, subject, reply, body)
                    else:
                        self._reads.send(account, stream, subject, reply, body)

                ask = read if runner is None else partial(runner.confirmation.when_confirmed, read)
                self._when_complete(account, stream.name, body, ask)

            self._deferring(source, len(body), begin)
        return True

    def refuse_read(self, call: Call) -> None:
        """Tell a client that nobody is sure to lead the stream of its direct read."""
        if call.reply is not None and not self._is_stopped:
            self._send(call.account, call.reply, b"", NOT_LEADING)

    def _refuse_forwarded(self, account: Account, source: Source, reply: bytes | None) -> bool:
        """Tell the client of another server that no stream answers its direct read. Returns False
        for a client of this one, which is told that there are no responders."""
        if not isinstance(source, ClientDocument) or reply is None:
            return False
        self._send(account, reply, b"", NOT_LEADING)
        return True

    def _send(self, account: Account, subject: bytes, payload: bytes, header: bytes = b"") -> None:
        self._broker.send(account, subject, None, payload, header)
