"""Calls about the servers of a stream: who leads it, and which of them hold it.

The leader of a stream answers a step-down. The leader of the meta group answers all other calls of
this module, because it decides which servers hold a stream.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from headwater.go.json import OMIT_EMPTY
from headwater.jetstream import error_codes
from headwater.jetstream.api.cluster_documents import consumer_replicas, peer_id
from headwater.jetstream.api.documents import TYPE_PREFIX, Response
from headwater.jetstream.api.operation import Request
from headwater.jetstream.api.streams import StreamApi, is_empty_request
from headwater.jetstream.config.stream_config import Flag, Placement, Text
from headwater.jetstream.errors import ApiError


class StepDownRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The request of a step-down: the servers that may lead next."""

    placement: Placement | None = None


class PeerRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The request to take a stream from a server, which has its name or its short id in it."""

    peer: Text = ""


class ServerRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The request to remove a server, or to empty it: its name, or its short id."""

    peer: Text = ""
    peer_id: Text = ""


class MoveRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The request to move a stream from a server to one that has further tags."""

    server: Text = ""
    cluster: Text = ""
    domain: Text = ""
    tags: Annotated[tuple[str, ...] | None, OMIT_EMPTY] = None


class DoneResponse(Response, kw_only=True):
    """An answer that says only whether the request was carried out."""

    success: Flag = False


class StreamLeaderStepDownResponse(DoneResponse, kw_only=True):
    """The answer of STREAM.LEADER.STEPDOWN."""

    type: str = TYPE_PREFIX + "stream_leader_stepdown_response"


class ConsumerLeaderStepDownResponse(DoneResponse, kw_only=True):
    """The answer of CONSUMER.LEADER.STEPDOWN."""

    type: str = TYPE_PREFIX + "consumer_leader_stepdown_response"


class MetaLeaderStepDownResponse(DoneResponse, kw_only=True):
    """The answer of META.LEADER.STEPDOWN."""

    type: str = TYPE_PREFIX + "meta_leader_stepdown_response"


class StreamRemovePeerResponse(DoneResponse, kw_only=True):
    """The answer of STREAM.PEER.REMOVE."""

    type: str = TYPE_PREFIX + "stream_remove_peer_response"


class StreamEvacuatePeerResponse(DoneResponse, kw_only=True):
    """The answer of STREAM.PEER.EVACUATE."""

    type: str = TYPE_PREFIX + "stream_evacuate_peer_response"


class StreamCancelMoveResponse(Response, kw_only=True):
    """The answer to STREAM.CANCEL_MOVE that is an error."""

    type: str = TYPE_PREFIX + "stream_cancel_move_response"


class ServerRemoveResponse(DoneResponse, kw_only=True):
    """The answer of SERVER.REMOVE."""

    type: str = TYPE_PREFIX + "meta_server_remove_response"


class ServerEvacuateResponse(DoneResponse, kw_only=True):
    """The answer of SERVER.EVACUATE."""

    type: str = TYPE_PREFIX + "meta_server_evacuate_response"


def step_down_stream(api: StreamApi, request: Request) -> Response:
    """STREAM.LEADER.STEPDOWN: another server leads the stream."""
    api.account.stream(request.stream_name)
    _hand_over(api, request)
    return StreamLeaderStepDownResponse(success=True)


def step_down_consumer(api: StreamApi, request: Request) -> Response:
    """CONSUMER.LEADER.STEPDOWN: another server leads the consumer, and the stream with it."""
    stream = api.account.stream(request.stream_name)
    consumer = stream.consumers.find(request.words[1])
    if consumer_replicas(stream.config, consumer.config) > 1:
        _hand_over(api, request)
    return ConsumerLeaderStepDownResponse(success=True)


def _hand_over(api: StreamApi, request: Request) -> None:
    group = api.keepers.find_group(api.account.name, request.stream_name)
    if group is not None and group.replicas:
        asked = api.read_if_document(request.body, StepDownRequest)
        api.keepers.hand_over(api.account.name, request.stream_name, asked.placement)


def refuse_consumer_peer(api: StreamApi, request: Request) -> Response:
    """CONSUMER.PEER.REMOVE and CONSUMER.PEER.EVACUATE: a consumer is held where its stream is, and
    leaves no server without it. Raises ApiError."""
    peer = read_peer(api, request.body)
    api.account.stream(request.stream_name).consumers.find(request.words[1])
    group = api.keepers.find_group(api.account.name, request.stream_name)
    members = () if group is None else (group.leader, *(each.name for each in group.replicas))
    if find_server(peer, members) not in members:
        raise ApiError.of(error_codes.CLUSTER_PEER_NOT_MEMBER)
    raise ApiError.of(error_codes.PEER_REMAP)


def read_peer(api: StreamApi, body: bytes) -> str:
    """The server that a request names, by its name or its short id. Raises ApiError."""
    if is_empty_request(body):
        raise ApiError.of(error_codes.BAD_REQUEST)
    peer = api.read(body, PeerRequest).peer
    if not peer:
        raise ApiError.of(error_codes.BAD_REQUEST)
    return peer


def find_server(named: str, servers: Iterable[str]) -> str:
    """The server that has a name, or a short id; the name itself if there is none."""
    known = [*servers]
    if named in known:
        return named
    return next((server for server in known if peer_id(server) == named), named)
