"""The router of the API: the call behind a subject.

Subjects here are without their prefix (`$JS.API.`, or that of a domain). As in nats-server, a
subject without a call gets no reply.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from headwater.jetstream import error_codes
from headwater.jetstream.api.clustering import (
    ConsumerLeaderStepDownResponse,
    StreamCancelMoveResponse,
    StreamEvacuatePeerResponse,
    StreamLeaderStepDownResponse,
    StreamRemovePeerResponse,
    refuse_consumer_peer,
    step_down_consumer,
    step_down_stream,
)
from headwater.jetstream.api.consumers import CONSUMER_OPERATIONS
from headwater.jetstream.api.documents import TYPE_PREFIX, Response
from headwater.jetstream.api.operation import Operation, Request
from headwater.jetstream.api.streams import STREAM_OPERATIONS, StreamApi
from headwater.jetstream.errors import ApiError

# The limit of words in the name of a call.
_NAME_WORDS_MAX: Final = 3

Answer: TypeAlias = Callable[[StreamApi, Request], Response]


class ConsumerRemovePeerResponse(Response, kw_only=True):
    """The answer of CONSUMER.PEER.REMOVE."""

    type: str = TYPE_PREFIX + "consumer_remove_peer_response"


class ConsumerEvacuatePeerResponse(Response, kw_only=True):
    """The answer of CONSUMER.PEER.EVACUATE."""

    type: str = TYPE_PREFIX + "consumer_evacuate_peer_response"


def _refuse(_: StreamApi, __: Request) -> Response:
    raise ApiError.of(error_codes.CLUSTER_REQUIRED)


def _clustered(
    response: type[Response], words: int = 1, answer: Answer = _refuse
) -> Operation[StreamApi]:
    """A call that is refused outside of a cluster."""
    return Operation(answer, response, words, words, needs_cluster=True)


OPERATIONS: Final[dict[str, Operation[StreamApi]]] = {
    **STREAM_OPERATIONS,
    **CONSUMER_OPERATIONS,
    "STREAM.LEADER.STEPDOWN": _clustered(StreamLeaderStepDownResponse, answer=step_down_stream),
    "STREAM.PEER.REMOVE": _clustered(StreamRemovePeerResponse),
    "STREAM.PEER.EVACUATE": _clustered(StreamEvacuatePeerResponse),
    "STREAM.CANCEL_MOVE": _clustered(StreamCancelMoveResponse),
    "CONSUMER.LEADER.STEPDOWN": _clustered(
        ConsumerLeaderStepDownResponse, words=2, answer=step_down_consumer
    ),
    "CONSUMER.PEER.REMOVE": _clustered(
        ConsumerRemovePeerResponse, words=2, answer=refuse_consumer_peer
    ),
    "CONSUMER.PEER.EVACUATE": _clustered(
        ConsumerEvacuatePeerResponse, words=2, answer=refuse_consumer_peer
    ),
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
