"""The router of the API: the call behind a subject.

Subjects here are without their prefix (`$JS.API.`, or that of a domain). As in nats-server, a
subject without a call gets no reply.
"""

from typing import Final, NoReturn

from headwater.jetstream import error_codes
from headwater.jetstream.api.consumers import CONSUMER_OPERATIONS
from headwater.jetstream.api.documents import TYPE_PREFIX, Response
from headwater.jetstream.api.operation import Operation, Request
from headwater.jetstream.api.streams import STREAM_OPERATIONS, StreamApi
from headwater.jetstream.errors import ApiError

# The limit of words in the name of a call.
_NAME_WORDS_MAX: Final = 3


class StreamLeaderStepDownResponse(Response, kw_only=True):
    """The answer of STREAM.LEADER.STEPDOWN."""

    type: str = TYPE_PREFIX + "stream_leader_stepdown_response"


class StreamRemovePeerResponse(Response, kw_only=True):
    """The answer of STREAM.PEER.REMOVE."""

    type: str = TYPE_PREFIX + "stream_remove_peer_response"


class StreamEvacuatePeerResponse(Response, kw_only=True):
    """The answer of STREAM.PEER.EVACUATE."""

    type: str = TYPE_PREFIX + "stream_evacuate_peer_response"


class StreamCancelMoveResponse(Response, kw_only=True):
    """The answer of STREAM.CANCEL_MOVE."""

    type: str = TYPE_PREFIX + "stream_cancel_move_response"


class ConsumerLeaderStepDownResponse(Response, kw_only=True):
    """The answer of CONSUMER.LEADER.STEPDOWN."""

    type: str = TYPE_PREFIX + "consumer_leader_stepdown_response"


class ConsumerRemovePeerResponse(Response, kw_only=True):
    """The answer of CONSUMER.PEER.REMOVE."""

    type: str = TYPE_PREFIX + "consumer_remove_peer_response"


class ConsumerEvacuatePeerResponse(Response, kw_only=True):
    """The answer of CONSUMER.PEER.EVACUATE."""

    type: str = TYPE_PREFIX + "consumer_evacuate_peer_response"


def _refuse(_: StreamApi, __: Request) -> NoReturn:
    raise ApiError.of(error_codes.CLUSTER_REQUIRED)


def _clustered(response: type[Response], words: int = 1) -> Operation[StreamApi]:
    """A call that is refused outside of a cluster."""
    return Operation(_refuse, response, words, words, needs_cluster=True)


OPERATIONS: Final[dict[str, Operation[StreamApi]]] = {
    **STREAM_OPERATIONS,
    **CONSUMER_OPERATIONS,
    "STREAM.LEADER.STEPDOWN": _clustered(StreamLeaderStepDownResponse),
    "STREAM.PEER.REMOVE": _clustered(StreamRemovePeerResponse),
    "STREAM.PEER.EVACUATE": _clustered(StreamEvacuatePeerResponse),
    "STREAM.CANCEL_MOVE": _clustered(StreamCancelMoveResponse),
    "CONSUMER.LEADER.STEPDOWN": _clustered(ConsumerLeaderStepDownResponse, words=2),
    "CONSUMER.PEER.REMOVE": _clustered(ConsumerRemovePeerResponse, words=2),
    "CONSUMER.PEER.EVACUATE": _clustered(ConsumerEvacuatePeerResponse, words=2),
}


def find_operation(subject: str) -> tuple[Operation[StreamApi], list[str]] | None:
    """The call of a subject, and the words after its name."""
    words = subject.split(".")
    for length in range(min(len(words), _NAME_WORDS_MAX), 0, -1):
        operation = OPERATIONS.get(".".join(words[:length]))
        if operation is not None:
            given = words[length:]
            if operation.words_min <= len(given) <= operation.words_max:
                return operation, given
    return None
