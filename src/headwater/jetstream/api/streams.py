"""The stream API of one account: each call with its reply.

A method takes a request and returns a reply, or raises the ApiError that the reply then reports.
The order of checks is nats-server's: a client learns the first of several errors. Everything that
needs files, timers or subscriptions is left to a StreamKeeper.
"""

from bisect import bisect_right
from typing import Final, TypeVar, final

import msgspec

from headwater.base.sliced import Work
from headwater.go.json import JsonError, read
from headwater.go.times import format_time
from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api.cluster_documents import ClusterInfo, describe_stream_group
from headwater.jetstream.api.documents import (
    LIST_MAX,
    NAMES_MAX,
    SUBJECT_DETAILS_MAX,
    AccountInfoRequest,
    AccountInfoResponse,
    AccountLimitsDocument,
    ApiStats,
    ErrorDocument,
    LostData,
    MessageDeleteRequest,
    MessageDeleteResponse,
    MessageGetRequest,
    MessageGetResponse,
    PurgeRequest,
    Response,
    ServerLimitsDocument,
    StreamAlternate,
    StreamCreateResponse,
    StreamDeleteResponse,
    StreamInfo,
    StreamInfoRequest,
    StreamInfoResponse,
    StreamListRequest,
    StreamListResponse,
    StreamNamesRequest,
    StreamNamesResponse,
    StreamPurgeResponse,
    StreamState,
    StreamUpdateResponse,
    SyncInterval,
    describe,
)
from headwater.jetstream.api.keepers import ApiSettings, Keepers
from headwater.jetstream.api.long_details import (
    Written,
    writing_counts,
    writing_documents,
    writing_numbers,
)
from headwater.jetstream.api.message_get import (
    check_single,
    get_message,
    preparing,
    session_block,
)
from headwater.jetstream.api.operation import Answering, Operation, Request, Requested, SetRequested
from headwater.jetstream.api.request_sizes import check_sizes
from headwater.jetstream.api.restore import (
    RestoreRequest,
    RestoreResponse,
    check_free,
    check_restore,
    refused,
)
from headwater.jetstream.api.snapshot import (
    SnapshotRequest,
    SnapshotResponse,
    check_snapshot,
)
from headwater.jetstream.config.api_level import API_LEVEL
from headwater.jetstream.config.consumer_checks.changes import check_stream_limits
from headwater.jetstream.config.stream_checks.checks import (
    Surroundings,
    check_addable,
    check_addressed,
    check_new,
    check_update,
)
from headwater.jetstream.config.stream_config import (
    Storage,
    StreamConfig,
    StreamRequest,
    with_server_metadata,
)
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import StreamReconfigured
from headwater.jetstream.records import Configured, Purged, Removed
from headwater.jetstream.request_bodies import read_request
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.message_log import ALL_SUBJECTS, StoreError

# Limits of listed sequences; a stream may have lost or deleted any number.
DELETED_DETAILS_MAX: Final = 1_000_000
LOST_DETAILS_MAX: Final = 1024
# Half of all sequences must be left to assign.
FIRST_SEQUENCE_MAX: Final = (1 << 63) - 1

_JSON_SPACE: Final = b" \t\r\n"

T = TypeVar("T", bound=msgspec.Struct)


@final
class StreamApi:
    """The API of one account."""

    __slots__ = ("account", "keepers", "settings")

    def __init__(self, account: JetStreamAccount, keepers: Keepers, settings: ApiSettings) -> None:
        self.account = account
        self.keepers = keepers
        # A reload of the configuration may bring others.
        self.settings = settings

    def read(self, body: bytes, kind: type[T]) -> T:
        """Parse a request. Raises ApiError."""
        request = read_request(body, kind, self.settings.strict)
        check_sizes(request)
        return request

    def read_if_document(self, body: bytes, kind: type[T]) -> T:
        """Parse a request if its body could be a document; some calls ignore any other body."""
        return self.read(body, kind) if body.lstrip(_JSON_SPACE)[:1] in (b"{", b"[") else kind()

    # --- account -------------------------------------------------------------------------------

    def account_info(self, request: Request) -> Response:
        """INFO: the limits and the usage of the account."""
        try:
            asked = read(request.body, AccountInfoRequest, strict=False)
        except JsonError:
            # As in nats-server, any body is accepted.
            asked = AccountInfoRequest()
        account = self.account
        limits = account.limits
        names = AccountLimitsDocument.__struct_fields__
        return AccountInfoResponse(
            **self.keepers.count_totals(account)._asdict(),
            limits=AccountLimitsDocument(**{name: getattr(limits, name) for name in names}),
            domain=account.server.domain,
            api=ApiStats(level=API_LEVEL, total=account.api_total, errors=account.api_errors),
            server_limits=self._server_limits() if asked.server_limits else None,
        )

    def _server_limits(self) -> ServerLimitsDocument:
        """The server's limits, for each storage in which the account has no limit of its own."""

        def of(storage: Storage) -> int | None:
            has_own = self.account.limits.bytes_max(storage) >= 0
            return None if has_own else self.keepers.storage.bytes_max(storage)

        return ServerLimitsDocument(max_memory=of(Storage.MEMORY), max_storage=of(Storage.FILE))

    # --- streams -------------------------------------------------------------------------------

    def create(self, request: Request) -> Response | SetRequested:
        """STREAM.CREATE"""
        asked = self.read(request.body, StreamRequest)
        check_addressed(asked, request.stream_name)
        account = self.account
        stream = account.streams.get(request.stream_name)
        if stream is None:
            self._check_stream_count()
        config = check_new(asked, self._surroundings())
        if stream is not None:
            response = self.describe_created(stream)
            # As in nats-server, servers of a cluster tell an equal create from the first one.
            response.did_create = response.cluster is None
            return response
        refuse_unsupported(config)
        try:
            proposal = self.keepers.streams.decide_creation(account, config)
        except StoreError as error:
            raise _not_created(error) from error
        return SetRequested(
            proposal, lambda _: self.describe_created(account.stream(config.name)), _not_created
        )

    def describe_created(self, stream: Stream) -> StreamCreateResponse:
        """The answer to the creation of a stream."""
        response = StreamCreateResponse(did_create=True)
        describe(response, self._info(stream))
        return response

    def update(self, request: Request) -> Requested:
        """STREAM.UPDATE"""
        asked = self.read(request.body, StreamRequest)
        stream = self.account.streams.get(request.stream_name)
        old = None if stream is None else stream.config
        config = check_update(old, asked, self._surroundings(), request.stream_name)
        if stream is None or old is None:
            raise ApiError.of(error_codes.STREAM_NOT_FOUND)
        refuse_unsupported(config)
        return self.decide_update(stream, config)

    def decide_update(self, stream: Stream, config: StreamConfig) -> Requested:
        """The change of a stream to a configuration that was checked."""

        def respond(_: int) -> Response:
            response = StreamUpdateResponse()
            describe(response, self._info(stream, with_domain=True))
            return response

        return Requested(
            [Configured(config, self.keepers.now_ns())],
            respond,
            lambda error: ApiError.of(error_codes.STREAM_UPDATE, err=str(error)),
            (StreamReconfigured(stream.config),),
        )

    def delete(self, request: Request) -> SetRequested:
        """STREAM.DELETE"""
        if not is_empty_request(request.body):
            raise ApiError.of(error_codes.NOT_EMPTY_REQUEST)
        stream = self.account.stream(request.stream_name)
        return SetRequested(
            self.keepers.streams.decide_deletion(self.account, [stream]),
            lambda _: StreamDeleteResponse(success=True),
            not_deleted,
        )

    def info(self, request: Request) -> Answering:
        """STREAM.INFO"""
        asked = self.read_if_document(request.body, StreamInfoRequest)
        stream = self.account.stream(request.stream_name)
        response = StreamInfoResponse()
        subjects = deleted = None
        if asked.subjects_filter:
            offset = max(asked.offset, 0)
            subjects = yield from _detail_subjects(stream, asked.subjects_filter, offset, response)
        if asked.deleted_details:
            deleted = yield from _detail_deleted(stream)
        # All other fields show the time at which the details are known.
        info = self._info(self.account.stream(request.stream_name), with_domain=True)
        if info.cluster is None:
            info.cluster = ClusterInfo(leader=self.settings.server_name)
        info.alternates = self._alternates(stream, info.cluster.name)
        if info.state is not None:
            info.state.subjects = subjects
            if info.state.num_deleted:
                info.state.deleted = deleted
        if asked.sync_intervals:
            response.sync_intervals = self._sync_intervals(info.cluster)
        describe(response, info)
        return response

    def _sync_intervals(self, cluster: ClusterInfo) -> list[SyncInterval]:
        """The sync intervals of the servers of a stream, as far as they are known."""
        own, find = self.settings, self.keepers.find_sync_interval
        servers = {cluster.leader, *(each.name for each in cluster.replicas)}
        return [
            SyncInterval(
                server=name,
                sync_interval=own.sync_interval if name == own.server_name else find(name),
            )
            for name in sorted(servers - {""})
        ]

    def _alternates(self, stream: Stream, cluster: str) -> list[StreamAlternate]:
        """The streams of a cluster that have the messages of one, if there are several."""
        around = self.keepers.find_surroundings(self.account, self.settings)
        if around is None:
            return []
        domain = self.account.server.domain
        found = [
            StreamAlternate(name=name, domain=domain, cluster=cluster)
            for name, config in around.streams.items()
            if name == stream.name
            or (config.mirror is not None and config.mirror.name == stream.name)
        ]
        return found if len(found) > 1 else []

    def names(self, request: Request) -> Answering:
        """STREAM.NAMES"""
        asked = self.read_if_document(request.body, StreamNamesRequest)
        found = yield from self._filtering(asked.subject)
        offset = min(max(asked.offset, 0), len(found))
        return StreamNamesResponse(
            total=len(found),
            offset=offset,
            limit=NAMES_MAX,
            streams=found[offset : offset + NAMES_MAX] or None,
        )

    def list_streams(self, request: Request) -> Answering:
        """STREAM.LIST"""
        asked = self.read_if_document(request.body, StreamListRequest)
        found = yield from self._filtering(asked.subject)
        offset = min(max(asked.offset, 0), len(found))
        streams = self.account.streams
        documents = (
            self._info(streams[name], with_domain=True, with_server=False)
            for name in found[offset : offset + LIST_MAX]
            if name in streams
        )
        return StreamListResponse(
            total=len(found),
            offset=offset,
            limit=LIST_MAX,
            streams=(yield from writing_documents(documents)),
        )

    def describe_listed(self, stream: Stream) -> StreamInfo:
        """A stream in the STREAM.LIST of a cluster."""
        return self._info(stream, with_server=False)

    def purge(self, request: Request) -> Requested:
        """STREAM.PURGE"""
        asked = self.read_if_document(request.body, PurgeRequest)
        if (asked.seq > 0 and asked.keep > 0) or asked.seq > FIRST_SEQUENCE_MAX:
            raise ApiError.of(error_codes.BAD_REQUEST)
        stream = self.account.stream(request.stream_name)
        config = stream.look_ahead.config
        if config.sealed:
            raise ApiError.of(error_codes.STREAM_SEALED)
        if config.deny_purge:
            raise ApiError.of(error_codes.STREAM_PURGE_FAILED, err="stream purge not permitted")
        pattern = asked.filter.encode(errors="surrogateescape") or ALL_SUBJECTS
        return Requested(
            [Purged(pattern, asked.seq, asked.keep, self.keepers.now_ns())],
            lambda removed: StreamPurgeResponse(success=True, purged=removed),
            _offline,
        )

    def snapshot(self, request: Request) -> Response:
        """STREAM.SNAPSHOT"""
        if is_empty_request(request.body):
            raise ApiError.of(error_codes.BAD_REQUEST)
        stream = self.account.stream(request.stream_name)
        asked = self.read(request.body, SnapshotRequest)
        check_snapshot(asked)
        state = self._state(stream)
        client = request.describe_client()
        self.keepers.backups.begin_snapshot(self.account, stream, asked, state, client)
        return SnapshotResponse(config=stream.config, state=state)

    def restore(self, request: Request) -> Response:
        """STREAM.RESTORE"""
        if is_empty_request(request.body):
            raise ApiError.of(error_codes.BAD_REQUEST)
        asked = self.read(request.body, RestoreRequest)
        config = check_restore(asked, request.stream_name, self._surroundings())
        refuse_unsupported(config)
        self._check_stream_count()
        self._check_room(config, None)
        check_free(self.account, config.name)
        client = request.describe_client()
        subject = self.keepers.backups.begin_restore(self.account, config, client)
        return RestoreResponse(deliver_subject=subject)

    def check_restorable(self, config: StreamConfig) -> None:
        """Raises ApiError if the restored stream may not exist by now."""
        check_free(self.account, config.name)
        self._check_room(config, None)
        try:
            self._check_stream_count()
            check_addable(config, self._surroundings())
        except ApiError as error:
            text = f"error adding stream: {error.description} ({error.err_code})"
            raise refused(text) from error

    def restored(self, stream: Stream) -> StreamCreateResponse:
        """The reply to the client that restored a stream."""
        response = StreamCreateResponse()
        describe(response, self._info(stream))
        # As in nats-server, this one reply tells nothing of the stream's servers.
        response.cluster = None
        return response

    # --- messages ------------------------------------------------------------------------------

    def message_get(self, request: Request) -> Answering:
        """STREAM.MSG.GET"""
        if is_empty_request(request.body):
            raise ApiError.of(error_codes.BAD_REQUEST)
        asked = self.read(request.body, MessageGetRequest)
        check_single(asked)
        stream = self.account.stream(request.stream_name)
        yield from preparing(stream, asked)
        return MessageGetResponse(message=get_message(stream, asked))

    def message_header(self, request: Request, _: Response) -> bytes:
        """The header of a reply to a session read, with the session's mark."""
        stream = self.account.streams.get(request.stream_name)
        return b"" if stream is None else session_block(stream, request.body)

    def message_delete(self, request: Request) -> Response | Requested:
        """STREAM.MSG.DELETE"""
        if is_empty_request(request.body):
            raise ApiError.of(error_codes.BAD_REQUEST)
        asked = self.read(request.body, MessageDeleteRequest)
        stream = self.account.stream(request.stream_name)
        config = stream.look_ahead.config
        if config.sealed:
            raise ApiError.of(error_codes.STREAM_SEALED)
        if config.deny_delete:
            text = "message delete not permitted"
            raise ApiError.of(error_codes.STREAM_MSG_DELETE_FAILED, err=text)
        if not stream.will_have(asked.seq):
            # An error that does not count as one in the statistics: see Operation.
            return MessageDeleteResponse(error=ErrorDocument.of(_not_deletable(stream, asked.seq)))
        return Requested(
            [Removed([asked.seq], erase=not asked.no_erase)],
            lambda _: MessageDeleteResponse(success=True),
            _offline,
        )

    def foresees_purge(self, request: Request) -> bool:
        """Whether a purge can be decided now: always, because only its application counts."""
        return request.stream_name in self.account.streams

    def foresees_deletion(self, request: Request) -> bool:
        """Whether the deletion of a message can be decided now: if it is known which messages the
        stream will have."""
        stream = self.account.streams.get(request.stream_name)
        return stream is not None and not (stream.needs_commit or stream.may_consume)

    def foresees_update(self, request: Request) -> bool:
        """Whether an update can be decided now: if the configuration and the consumers with which
        it is compared are those of the stream."""
        stream = self.account.streams.get(request.stream_name)
        if stream is None:
            return False
        return not (stream.look_ahead.is_reconfigured or stream.consumers.changes)

    # --- parts ---------------------------------------------------------------------------------

    def _check_stream_count(self) -> None:
        account = self.account
        count = len(account.streams) + self.keepers.streams.coming.count(account.name)
        if 0 < account.limits.max_streams <= count:
            raise ApiError.of(error_codes.MAXIMUM_STREAMS_LIMIT)

    def _state(self, stream: Stream) -> StreamState:
        state = stream.state()
        if stream.log.lost:
            state.lost = _lost(stream)
        return state

    def _surroundings(self) -> Surroundings:
        found = self.keepers.find_surroundings(self.account, self.settings)
        return self._own_surroundings() if found is None else found

    def _own_surroundings(self) -> Surroundings:
        account, limits = self.account, self.account.limits
        coming = self.keepers.streams.coming
        return Surroundings(
            streams=coming.configs_with(account.name, account.configs),
            taken=coming.subjects_with(account.name, account.subjects),
            check_reservation=self._check_room,
            max_bytes_required=limits.max_bytes_required,
            memory_max_stream_bytes=limits.memory_max_stream_bytes,
            store_max_stream_bytes=limits.storage_max_stream_bytes,
            duplicate_window_max_ns=self.settings.duplicate_window_max_ns,
        )

    def _check_room(self, config: StreamConfig, old: StreamConfig | None) -> None:
        coming = self.keepers.streams.coming
        self.keepers.storage.check_reservation(self.account, config, old, coming)
        if old is not None:
            consumers = self.account.stream(config.name).consumers
            check_stream_limits(old, config, consumers.by_name)

    def _filtering(self, subject: str) -> Work[list[str]]:
        """The names of the streams that could have a message on a subject, in order."""
        if not subject:
            return self.account.names
        return sorted((yield from self.account.subjects.streams_on(subject)))

    def _info(
        self, stream: Stream, with_domain: bool = False, with_server: bool = True
    ) -> StreamInfo:
        config = stream.config
        if with_server:
            config = with_server_metadata(config, self.settings.server_version, API_LEVEL)
        group = self.keepers.find_group(self.account.name, stream.name)
        copies = None
        if config.mirror is not None or config.sources:
            copies = self.keepers.find_copies(self.account.name, stream.name)
        return StreamInfo(
            config=config,
            created=format_time(stream.created_ns),
            state=self._state(stream),
            domain=self.account.server.domain if with_domain else "",
            cluster=None if group is None else describe_stream_group(group, stream.config),
            mirror=None if copies is None else copies.mirror,
            sources=[] if copies is None else copies.sources,
            ts=format_time(self.keepers.now_ns()),
        )


STREAM_OPERATIONS: Final = {
    "INFO": Operation(StreamApi.account_info, AccountInfoResponse, 0, 0),
    "STREAM.CREATE": Operation(StreamApi.create, StreamCreateResponse),
    "STREAM.UPDATE": Operation(
        StreamApi.update, StreamUpdateResponse, is_foreseen=StreamApi.foresees_update
    ),
    "STREAM.DELETE": Operation(StreamApi.delete, StreamDeleteResponse),
    "STREAM.INFO": Operation(StreamApi.info, StreamInfoResponse),
    "STREAM.NAMES": Operation(StreamApi.names, StreamNamesResponse, 0, 0),
    "STREAM.LIST": Operation(StreamApi.list_streams, StreamListResponse, 0, 0),
    "STREAM.PURGE": Operation(
        StreamApi.purge, StreamPurgeResponse, is_foreseen=StreamApi.foresees_purge
    ),
    "STREAM.SNAPSHOT": Operation(StreamApi.snapshot, SnapshotResponse),
    "STREAM.RESTORE": Operation(StreamApi.restore, RestoreResponse),
    "STREAM.MSG.GET": Operation(
        StreamApi.message_get,
        MessageGetResponse,
        is_counted=False,
        header=StreamApi.message_header,
    ),
    "STREAM.MSG.DELETE": Operation(
        StreamApi.message_delete, MessageDeleteResponse, is_foreseen=StreamApi.foresees_deletion
    ),
}


def _not_created(error: StoreError) -> ApiError:
    return ApiError.of(error_codes.STREAM_CREATE, err=str(error))


def not_deleted(error: StoreError) -> ApiError:
    """The error of a deletion that the store could not record or carry out."""
    return ApiError.of(error_codes.STREAM_DELETE, err=str(error))


def _offline(error: StoreError) -> ApiError:
    return ApiError.of(error_codes.STREAM_OFFLINE_REASON, err=str(error))


def _not_deletable(stream: Stream, sequence: int) -> ApiError:
    """The error for a sequence without a message, by kind of storage as in nats-server."""
    ahead = stream.look_ahead
    next_sequence = ahead.next_sequence
    first_sequence = ahead.foreseen().first_from(0) or next_sequence
    is_inside = first_sequence <= sequence < next_sequence
    if stream.config.storage is Storage.MEMORY or is_inside:
        return ApiError.of(error_codes.SEQUENCE_NOT_FOUND, seq=sequence)
    is_later = sequence >= next_sequence
    text = "stream store EOF" if is_later else "no message found"
    return ApiError.of(error_codes.STREAM_MSG_DELETE_FAILED, err=text)


def refuse_unsupported(config: StreamConfig) -> None:
    """Refuse features that are not supported, by name, instead of running half of them."""
    if config.first_seq > FIRST_SEQUENCE_MAX:
        text = f"first sequence cannot be larger than {FIRST_SEQUENCE_MAX}"
        raise ApiError.of(error_codes.STREAM_INVALID_CONFIG, err=text)


def is_empty_request(body: bytes) -> bool:
    """Whether a body has no content: no bytes, or an empty object."""
    text = body.strip(_JSON_SPACE)
    if text[:1] != b"{" or text[-1:] != b"}":
        return not body
    return not text[1:-1].strip(_JSON_SPACE)


def _lost(stream: Stream) -> LostData:
    """The first lost sequences: a crash may cost tens of thousands at once."""
    found: list[int] = []
    for first, last in stream.log.lost:
        found.extend(range(first, min(last, first + LOST_DETAILS_MAX - len(found) - 1) + 1))
        if len(found) >= LOST_DETAILS_MAX:
            break
    return LostData(msgs=found)


def _detail_subjects(
    stream: Stream, pattern: str, offset: int, response: StreamInfoResponse
) -> Work[Written | None]:
    """The number of messages of each matching subject, one page of them."""
    wanted = pattern.encode(errors="surrogateescape")
    total, subjects = yield from stream.counting_subjects(wanted, offset, SUBJECT_DETAILS_MAX)
    if total:
        response.total = total
        response.offset = offset
        response.limit = SUBJECT_DETAILS_MAX
    return (yield from writing_counts(subjects)) if subjects else None


def _detail_deleted(stream: Stream) -> Work[Written | None]:
    """The sequences without a message between the first and the last visible one."""
    missing = yield from stream.log.index.missing(DELETED_DETAILS_MAX)
    del missing[bisect_right(missing, stream.visible_sequence) :]
    return (yield from writing_numbers(missing)) if missing else None
