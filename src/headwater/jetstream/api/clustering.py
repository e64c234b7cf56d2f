"""Calls about the servers of a stream: who leads it, and which of them hold it.

The leader of a stream answers a step-down. The leader of the meta group answers all other calls of
this module, because it decides which servers hold a stream.
"""

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec

from headwater.go.json import OMIT_EMPTY
from headwater.go.quoting import quote
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


class ServerRemoveResponse(DoneResponse, kw_only=True):
    """The answer of SERVER.REMOVE and of SERVER.EVACUATE."""

    type: str = TYPE_PREFIX + "meta_server_remove_response"


class GroupServer(NamedTuple):
    """A server of a group, as a step-down sees it. Tags are in lower case."""

    name: str
    cluster: str
    tags: tuple[str, ...] = ()
    is_online: bool = True


def choose_successor(
    placement: Placement | None, leader: str, servers: Iterable[GroupServer]
) -> str:
    """The server that a placement names as the next leader; no name lets the group choose.

    Raises ApiError if the placement names the leader, or no server that could lead.
    """
    if placement is None:
        return ""
    members = [*servers]
    preferred = placement.preferred
    if preferred:
        if preferred == leader:
            reason = f"preferred server {quote(preferred)} is already leader"
            raise ApiError.of(error_codes.CLUSTER_NO_PEERS, err=reason)
        if all(each.name != preferred for each in members):
            reason = f"preferred server {quote(preferred)} not known"
            raise ApiError.of(error_codes.CLUSTER_NO_PEERS, err=reason)
        return preferred
    tags = {tag.strip().lower() for tag in placement.tags or ()}
    for each in members:
        is_other = each.is_online and each.name != leader
        if is_other and placement.cluster in ("", each.cluster) and tags <= {*each.tags}:
            return each.name
    raise ApiError.of(error_codes.CLUSTER_NO_PEERS, err="no replacement peer connected")


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
