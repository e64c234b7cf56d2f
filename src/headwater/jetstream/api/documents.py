"""Requests and replies of the stream API, field by field as they stand on the wire.

The order of the fields and the omission of empty ones are nats-server's. A reply with an error has
the type of one without, and no content.
"""

from typing import Annotated, ClassVar, Final

import msgspec

from headwater.go.json import OMIT_EMPTY, Int, Time, Uint64
from headwater.jetstream.api.cluster_documents import ClusterInfo
from headwater.jetstream.config.stream_config import (
    ExternalStream,
    Flag,
    StreamConfig,
    SubjectTransformConfig,
    Text,
)
from headwater.jetstream.errors import ApiError

TYPE_PREFIX: Final = "io.nats.jetstream.api.v1."

# Sizes of a page.
NAMES_MAX: Final = 1024
LIST_MAX: Final = 256
SUBJECT_DETAILS_MAX: Final = 100_000


class ErrorDocument(msgspec.Struct):
    """The reason of a refusal."""

    code: int
    err_code: int
    description: str

    @classmethod
    def of(cls, error: ApiError) -> "ErrorDocument":
        """The document of an error."""
        return cls(error.code, error.err_code, error.description)


class Refusal(msgspec.Struct):
    """The reply to a publish that is refused."""

    error: ErrorDocument
    stream: str
    seq: int


# --- requests ----------------------------------------------------------------------------------


class StreamInfoRequest(msgspec.Struct, kw_only=True):
    """The body of STREAM.INFO."""

    go_name: ClassVar[str] = "JSApiStreamInfoRequest"

    offset: Int = 0
    deleted_details: bool = False
    subjects_filter: str = ""
    # Headwater's own: the sync intervals of the servers of the stream.
    sync_intervals: bool = False


class StreamNamesRequest(msgspec.Struct, kw_only=True):
    """The body of STREAM.NAMES."""

    go_name: ClassVar[str] = "JSApiStreamNamesRequest"

    offset: Int = 0
    subject: str = ""


class StreamListRequest(StreamNamesRequest, kw_only=True):
    """The body of STREAM.LIST."""

    go_name: ClassVar[str] = "JSApiStreamListRequest"


class PurgeRequest(msgspec.Struct, kw_only=True):
    """The body of STREAM.PURGE."""

    go_name: ClassVar[str] = "JSApiStreamPurgeRequest"

    seq: Uint64 = 0
    filter: str = ""
    keep: Uint64 = 0


class MessageGetRequest(msgspec.Struct, kw_only=True):
    """The body of STREAM.MSG.GET, DIRECT.GET and DIRECT_LEADER.GET."""

    go_name: ClassVar[str] = "JSApiMsgGetRequest"

    seq: Uint64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int = 0
    max_bytes: Int = 0
    start_time: Time | None = None
    multi_last: tuple[str, ...] = ()
    up_to_seq: Uint64 = 0
    up_to_time: Time | None = None
    no_hdr: bool = False
    # Not nats-server's: the reader has seen this sequence, and wants no older state.
    min_last_seq: Uint64 = 0


class MessageDeleteRequest(msgspec.Struct, kw_only=True):
    """The body of STREAM.MSG.DELETE."""

    go_name: ClassVar[str] = "JSApiMsgDeleteRequest"

    seq: Uint64 = 0
    no_erase: bool = False


# --- replies -----------------------------------------------------------------------------------


class Response(msgspec.Struct, kw_only=True):
    """The first fields of every reply."""

    type: str = ""
    error: Annotated[ErrorDocument | None, OMIT_EMPTY] = None


class PagedResponse(Response, kw_only=True):
    """A reply that may be one page of many."""

    total: int = 0
    offset: int = 0
    limit: int = 0


class LostData(msgspec.Struct, kw_only=True):
    """Stored messages that cannot be read any more."""

    msgs: list[int]
    bytes: int = 0


class StreamState(msgspec.Struct, kw_only=True):
    """The state of a stream."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    first_ts: str = ""
    last_seq: int = 0
    last_ts: str = ""
    num_subjects: Annotated[int, OMIT_EMPTY] = 0
    # An object with the number of messages of each subject; below, a list of sequences.
    subjects: Annotated[msgspec.Raw | None, OMIT_EMPTY] = None
    num_deleted: Annotated[int, OMIT_EMPTY] = 0
    deleted: Annotated[msgspec.Raw | None, OMIT_EMPTY] = None
    lost: Annotated[LostData | None, OMIT_EMPTY] = None
    consumer_count: int = 0


class StreamSourceInfo(msgspec.Struct, kw_only=True):
    """The state of a mirror or of a source. `active` is the time since the origin was heard of; -1
    if it never was."""

    name: str = ""
    external: Annotated[ExternalStream | None, OMIT_EMPTY] = None
    lag: int = 0
    # The last sequence of a source that was copied; a mirror has the same one.
    seq: Annotated[int, OMIT_EMPTY] = 0
    active: int = -1
    error: Annotated[ErrorDocument | None, OMIT_EMPTY] = None
    filter_subject: Text = ""
    subject_transforms: Annotated[tuple[SubjectTransformConfig, ...], OMIT_EMPTY] = ()


class StreamAlternate(msgspec.Struct, kw_only=True):
    """A stream in which the messages of another one can be read."""

    name: str = ""
    domain: Text = ""
    cluster: str = ""


class StreamInfo(msgspec.Struct, kw_only=True):
    """A stream as replies describe it."""

    config: Annotated[StreamConfig | None, OMIT_EMPTY] = None
    created: Text = ""
    state: Annotated[StreamState | None, OMIT_EMPTY] = None
    domain: Text = ""
    cluster: Annotated[ClusterInfo | None, OMIT_EMPTY] = None
    mirror: Annotated[StreamSourceInfo | None, OMIT_EMPTY] = None
    sources: Annotated[list[StreamSourceInfo], OMIT_EMPTY] = msgspec.field(default_factory=list)
    alternates: Annotated[list[StreamAlternate], OMIT_EMPTY] = msgspec.field(default_factory=list)
    ts: Text = ""


class DescribingResponse(Response, kw_only=True):
    """A reply with the fields of a StreamInfo beside its own."""

    config: Annotated[StreamConfig | None, OMIT_EMPTY] = None
    created: Text = ""
    state: Annotated[StreamState | None, OMIT_EMPTY] = None
    domain: Text = ""
    cluster: Annotated[ClusterInfo | None, OMIT_EMPTY] = None
    mirror: Annotated[StreamSourceInfo | None, OMIT_EMPTY] = None
    sources: Annotated[list[StreamSourceInfo], OMIT_EMPTY] = msgspec.field(default_factory=list)
    alternates: Annotated[list[StreamAlternate], OMIT_EMPTY] = msgspec.field(default_factory=list)
    ts: Text = ""


class StreamCreateResponse(DescribingResponse, kw_only=True):
    """The answer of STREAM.CREATE."""

    type: str = TYPE_PREFIX + "stream_create_response"
    did_create: Flag = False


class StreamUpdateResponse(DescribingResponse, kw_only=True):
    """The answer of STREAM.UPDATE."""

    type: str = TYPE_PREFIX + "stream_update_response"


class SyncInterval(msgspec.Struct, kw_only=True):
    """The longest time that written bytes wait for a sync on one server of a stream.

    `always`, or a duration; empty if the server has not told it.
    """

    server: str
    sync_interval: str


class StreamInfoResponse(PagedResponse, kw_only=True):
    """The answer of STREAM.INFO, paged by subjects.

    `sync_intervals` is Headwater's own, and is there if the request asks for it.
    """

    type: str = TYPE_PREFIX + "stream_info_response"
    config: Annotated[StreamConfig | None, OMIT_EMPTY] = None
    created: Text = ""
    state: Annotated[StreamState | None, OMIT_EMPTY] = None
    domain: Text = ""
    cluster: Annotated[ClusterInfo | None, OMIT_EMPTY] = None
    mirror: Annotated[StreamSourceInfo | None, OMIT_EMPTY] = None
    sources: Annotated[list[StreamSourceInfo], OMIT_EMPTY] = msgspec.field(default_factory=list)
    alternates: Annotated[list[StreamAlternate], OMIT_EMPTY] = msgspec.field(default_factory=list)
    ts: Text = ""
    sync_intervals: Annotated[list[SyncInterval], OMIT_EMPTY] = msgspec.field(default_factory=list)


class StreamDeleteResponse(Response, kw_only=True):
    """The answer of STREAM.DELETE."""

    type: str = TYPE_PREFIX + "stream_delete_response"
    success: Flag = False


class StreamPurgeResponse(Response, kw_only=True):
    """The answer of STREAM.PURGE."""

    type: str = TYPE_PREFIX + "stream_purge_response"
    success: Flag = False
    purged: int = 0


class StreamNamesResponse(PagedResponse, kw_only=True):
    """The answer of STREAM.NAMES."""

    type: str = TYPE_PREFIX + "stream_names_response"
    streams: list[str] | None = None


class StreamListResponse(PagedResponse, kw_only=True):
    """The answer of STREAM.LIST."""

    type: str = TYPE_PREFIX + "stream_list_response"
    # Each is the text of a StreamInfo.
    streams: list[msgspec.Raw] = msgspec.field(default_factory=list)
    # The names of streams in a cluster whose servers have not answered.
    missing: Annotated[list[str], OMIT_EMPTY] = msgspec.field(default_factory=list)
    # The reasons why streams of a cluster cannot run, by name.
    offline: Annotated[dict[str, str], OMIT_EMPTY] = msgspec.field(default_factory=dict)


def describe(response: DescribingResponse | StreamInfoResponse, info: StreamInfo) -> None:
    """Copy the fields of `info` into a reply."""
    for name in StreamInfo.__struct_fields__:
        setattr(response, name, getattr(info, name))


class MessageDocument(msgspec.Struct, kw_only=True):
    """A stored message; header and body are in base64."""

    subject: str
    seq: int
    hdrs: Text = ""
    data: Text = ""
    time: str


class MessageGetResponse(Response, kw_only=True):
    """The answer of STREAM.MSG.GET."""

    type: str = TYPE_PREFIX + "stream_msg_get_response"
    message: Annotated[MessageDocument | None, OMIT_EMPTY] = None


class MessageDeleteResponse(Response, kw_only=True):
    """The answer of STREAM.MSG.DELETE."""

    type: str = TYPE_PREFIX + "stream_msg_delete_response"
    success: Flag = False


class AccountLimitsDocument(msgspec.Struct, kw_only=True):
    """The limits of an account; -1 is no limit."""

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


class AccountInfoRequest(msgspec.Struct, kw_only=True):
    """The body of INFO, which nats-server does not read."""

    # Sent on request only: no other client meets a key that nats-server does not have.
    server_limits: bool = False


class ServerLimitsDocument(msgspec.Struct, kw_only=True):
    """Limits of all accounts together in INFO, where the account has no limit of its own."""

    max_memory: Annotated[int | None, OMIT_EMPTY] = None
    max_storage: Annotated[int | None, OMIT_EMPTY] = None


class SystemResponse(Response, kw_only=True):
    """The reply to the system account, which has no streams."""

    type: str = TYPE_PREFIX + "system_response"


class AccountPurgeResponse(Response, kw_only=True):
    """The answer of ACCOUNT.PURGE, which is for the system account."""

    type: str = TYPE_PREFIX + "account_purge_response"
    initiated: Flag = False


class ApiStats(msgspec.Struct, kw_only=True):
    """The use of the API of an account."""

    level: int
    total: int
    errors: int
    inflight: Annotated[int, OMIT_EMPTY] = 0


class AccountInfoResponse(Response, kw_only=True):
    """The answer of INFO."""

    type: str = TYPE_PREFIX + "account_info_response"
    memory: Annotated[int | None, OMIT_EMPTY] = None
    storage: Annotated[int | None, OMIT_EMPTY] = None
    reserved_memory: Annotated[int | None, OMIT_EMPTY] = None
    reserved_storage: Annotated[int | None, OMIT_EMPTY] = None
    streams: Annotated[int | None, OMIT_EMPTY] = None
    consumers: Annotated[int | None, OMIT_EMPTY] = None
    limits: Annotated[AccountLimitsDocument | None, OMIT_EMPTY] = None
    domain: Text = ""
    api: Annotated[ApiStats | None, OMIT_EMPTY] = None
    server_limits: Annotated[ServerLimitsDocument | None, OMIT_EMPTY] = None
