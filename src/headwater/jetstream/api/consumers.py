"""The consumer API of a server whose streams have no consumers.

What can be said truthfully is: there are none to list, and none of any name. To create one is
refused by name, so that a client is told at once instead of waiting for an answer.
"""

from typing import Annotated, ClassVar, Final, NoReturn

import msgspec

from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import (
    LIST_MAX,
    NAMES_MAX,
    TYPE_PREFIX,
    PagedResponse,
    Response,
)
from headwater.jetstream.api.operation import ANY_NUMBER, Operation, Request
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.config import Flag
from headwater.jetstream.errors import ApiError
from headwater.jetstream.go_json import OMIT_EMPTY, Int
from headwater.jetstream.times import ZERO_TIME_NS, format_time

NOT_SUPPORTED: Final = "consumers are not supported by this version"


class ConsumersRequest(msgspec.Struct, kw_only=True):
    """The body of CONSUMER.NAMES and CONSUMER.LIST."""

    go_name: ClassVar[str] = "JSApiConsumersRequest"

    offset: Int = 0


class ConsumerNamesResponse(PagedResponse, kw_only=True):
    """The answer of CONSUMER.NAMES."""

    type: str = TYPE_PREFIX + "consumer_names_response"
    consumers: list[str] = msgspec.field(default_factory=list)


class ConsumerListResponse(PagedResponse, kw_only=True):
    """The answer of CONSUMER.LIST."""

    type: str = TYPE_PREFIX + "consumer_list_response"
    consumers: list[str] = msgspec.field(default_factory=list)


class ConsumerCreateResponse(Response, kw_only=True):
    """The answer of CONSUMER.CREATE and CONSUMER.DURABLE.CREATE."""

    type: str = TYPE_PREFIX + "consumer_create_response"


class ConsumerInfoResponse(Response, kw_only=True):
    """The answer of CONSUMER.INFO."""

    type: str = TYPE_PREFIX + "consumer_info_response"


class ConsumerDeleteResponse(Response, kw_only=True):
    """The answer of CONSUMER.DELETE."""

    type: str = TYPE_PREFIX + "consumer_delete_response"
    success: Flag = False


class ConsumerPauseResponse(Response, kw_only=True):
    """The answer of CONSUMER.PAUSE."""

    type: str = TYPE_PREFIX + "consumer_pause_response"
    paused: bool = False
    pause_until: str = format_time(ZERO_TIME_NS)
    pause_remaining: Annotated[int, OMIT_EMPTY] = 0


class ConsumerUnpinResponse(Response, kw_only=True):
    """The answer of CONSUMER.UNPIN."""

    type: str = TYPE_PREFIX + "consumer_unpin_response"


def _names(api: StreamApi, request: Request) -> Response:
    api.read_if_document(request.body, ConsumersRequest)
    api.account.stream(request.stream_name)
    return ConsumerNamesResponse(limit=NAMES_MAX)


def _list(api: StreamApi, request: Request) -> Response:
    api.read_if_document(request.body, ConsumersRequest)
    api.account.stream(request.stream_name)
    return ConsumerListResponse(limit=LIST_MAX)


def _not_found(api: StreamApi, request: Request) -> NoReturn:
    api.account.stream(request.stream_name)
    raise ApiError.of(error_codes.CONSUMER_NOT_FOUND)


def _create(api: StreamApi, request: Request) -> NoReturn:
    api.account.stream(request.stream_name)
    raise ApiError.of(error_codes.CONSUMER_CREATE, err=NOT_SUPPORTED)


CONSUMER_OPERATIONS: Final = {
    "CONSUMER.CREATE": Operation(_create, ConsumerCreateResponse, words_max=ANY_NUMBER),
    "CONSUMER.DURABLE.CREATE": Operation(_create, ConsumerCreateResponse, 2, 2),
    "CONSUMER.NAMES": Operation(_names, ConsumerNamesResponse),
    "CONSUMER.LIST": Operation(_list, ConsumerListResponse),
    "CONSUMER.INFO": Operation(_not_found, ConsumerInfoResponse, 2, 2),
    "CONSUMER.DELETE": Operation(_not_found, ConsumerDeleteResponse, 2, 2),
    "CONSUMER.PAUSE": Operation(_not_found, ConsumerPauseResponse, 2, 2),
    "CONSUMER.UNPIN": Operation(_not_found, ConsumerUnpinResponse, 2, 2),
}
