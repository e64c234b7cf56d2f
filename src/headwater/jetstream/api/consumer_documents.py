"""Requests and replies of the consumer API, field by field as they stand on the wire.

The order of the fields and the omission of empty ones are nats-server's. A reply with an error has
the type of one without, and no content except the fields that nats-server always writes.
"""

from typing import Annotated, ClassVar

import msgspec

from headwater.go.json import OMIT_EMPTY, Int, Time, Uint64
from headwater.go.times import ZERO_TIME_TEXT
from headwater.jetstream.api.cluster_documents import ClusterInfo
from headwater.jetstream.api.documents import TYPE_PREFIX, PagedResponse, Response
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_config import Flag, Text

# --- requests ----------------------------------------------------------------------------------


class ConsumersRequest(msgspec.Struct, kw_only=True):
    """The body of CONSUMER.NAMES and CONSUMER.LIST."""

    go_name: ClassVar[str] = "JSApiConsumersRequest"

    offset: Int = 0


class PauseRequest(msgspec.Struct, kw_only=True):
    """The body of CONSUMER.PAUSE; without a time the pause ends."""

    go_name: ClassVar[str] = "JSApiConsumerPauseRequest"

    pause_until: Time | None = None


class UnpinRequest(msgspec.Struct, kw_only=True):
    """The body of CONSUMER.UNPIN."""

    go_name: ClassVar[str] = "JSApiConsumerUnpinRequest"

    group: str = ""


class ResetRequest(msgspec.Struct, kw_only=True):
    """The body of CONSUMER.RESET; zero stands for the ack floor."""

    go_name: ClassVar[str] = "JSApiConsumerResetRequest"

    seq: Uint64 = 0


# --- the description of a consumer -------------------------------------------------------------


class SequenceInfo(msgspec.Struct, kw_only=True):
    """A sequence of the consumer and of the stream, and the time of its last change."""

    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: Text = ""


class PriorityGroupState(msgspec.Struct, kw_only=True):
    """A priority group, and its pinned client."""

    group: str = ""
    pinned_client_id: Text = ""
    pinned_ts: str = ZERO_TIME_TEXT


class ConsumerInfo(msgspec.Struct, kw_only=True):
    """A consumer as replies describe it."""

    stream_name: str
    name: str
    created: str
    config: ConsumerConfig
    delivered: SequenceInfo
    ack_floor: SequenceInfo
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    cluster: Annotated[ClusterInfo | None, OMIT_EMPTY] = None
    push_bound: Flag = False
    paused: Flag = False
    # Nanoseconds.
    pause_remaining: Annotated[int, OMIT_EMPTY] = 0
    ts: str
    priority_groups: Annotated[tuple[PriorityGroupState, ...], OMIT_EMPTY] = ()


# --- replies -----------------------------------------------------------------------------------


class DescribingResponse(Response, kw_only=True):
    """A reply with the fields of a ConsumerInfo beside its own; with an error it has none."""

    stream_name: Annotated[str | None, OMIT_EMPTY] = None
    name: Annotated[str | None, OMIT_EMPTY] = None
    created: Annotated[str | None, OMIT_EMPTY] = None
    config: Annotated[ConsumerConfig | None, OMIT_EMPTY] = None
    delivered: Annotated[SequenceInfo | None, OMIT_EMPTY] = None
    ack_floor: Annotated[SequenceInfo | None, OMIT_EMPTY] = None
    num_ack_pending: Annotated[int | None, OMIT_EMPTY] = None
    num_redelivered: Annotated[int | None, OMIT_EMPTY] = None
    num_waiting: Annotated[int | None, OMIT_EMPTY] = None
    num_pending: Annotated[int | None, OMIT_EMPTY] = None
    cluster: Annotated[ClusterInfo | None, OMIT_EMPTY] = None
    push_bound: Flag = False
    paused: Flag = False
    pause_remaining: Annotated[int, OMIT_EMPTY] = 0
    ts: Annotated[str | None, OMIT_EMPTY] = None
    priority_groups: Annotated[tuple[PriorityGroupState, ...], OMIT_EMPTY] = ()


class ConsumerCreateResponse(DescribingResponse, kw_only=True):
    """The answer of CONSUMER.CREATE and CONSUMER.DURABLE.CREATE."""

    type: str = TYPE_PREFIX + "consumer_create_response"


class ConsumerInfoResponse(DescribingResponse, kw_only=True):
    """The answer of CONSUMER.INFO."""

    type: str = TYPE_PREFIX + "consumer_info_response"


class ConsumerResetResponse(DescribingResponse, kw_only=True):
    """The answer of CONSUMER.RESET."""

    type: str = TYPE_PREFIX + "consumer_reset_response"
    reset_seq: int = 0


class ConsumerNamesResponse(PagedResponse, kw_only=True):
    """The answer of CONSUMER.NAMES."""

    type: str = TYPE_PREFIX + "consumer_names_response"
    consumers: list[str] = msgspec.field(default_factory=list)


class ConsumerListResponse(PagedResponse, kw_only=True):
    """The answer of CONSUMER.LIST."""

    type: str = TYPE_PREFIX + "consumer_list_response"
    # Each is the text of a ConsumerInfo.
    consumers: list[msgspec.Raw] = msgspec.field(default_factory=list)


class ConsumerDeleteResponse(Response, kw_only=True):
    """The answer of CONSUMER.DELETE."""

    type: str = TYPE_PREFIX + "consumer_delete_response"
    success: Flag = False


class ConsumerPauseResponse(Response, kw_only=True):
    """The answer of CONSUMER.PAUSE."""

    type: str = TYPE_PREFIX + "consumer_pause_response"
    paused: bool = False
    pause_until: str = ZERO_TIME_TEXT
    pause_remaining: Annotated[int, OMIT_EMPTY] = 0


class ConsumerUnpinResponse(Response, kw_only=True):
    """The answer of CONSUMER.UNPIN."""

    type: str = TYPE_PREFIX + "consumer_unpin_response"


def describe(response: DescribingResponse, info: ConsumerInfo) -> None:
    """Copy the fields of `info` into a reply."""
    for name in ConsumerInfo.__struct_fields__:
        setattr(response, name, getattr(info, name))
