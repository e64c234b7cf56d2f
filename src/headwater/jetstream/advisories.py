"""Advisories about streams: their documents and their subjects.

The fields are nats-server's, in its order. Nothing here knows whether an advisory has subscribers.
"""

from enum import Enum
from typing import Annotated, Final, NamedTuple

import msgspec

from headwater.go.json import OMIT_EMPTY
from headwater.jetstream.api.cluster_documents import PeerInfo
from headwater.jetstream.api.documents import StreamState
from headwater.jetstream.config.stream_config import Text

SUBJECT_PREFIX: Final = "$JS.EVENT.ADVISORY."
AUDIT_SUBJECT: Final = SUBJECT_PREFIX + "API"
OUT_OF_STORAGE_SUBJECT: Final = SUBJECT_PREFIX + "SERVER.OUT_OF_STORAGE"
SERVER_REMOVED_SUBJECT: Final = SUBJECT_PREFIX + "SERVER.REMOVED"
META_LEADER_SUBJECT: Final = SUBJECT_PREFIX + "DOMAIN.LEADER_ELECTED"
TYPE_PREFIX: Final = "io.nats.jetstream.advisory.v1."


class Heading(NamedTuple):
    """The unique id and the time of an advisory."""

    id: str
    timestamp: str


class Action(Enum):
    """An action on a stream: the word in the document, and the word in the subject."""

    CREATE = ("create", "CREATED")
    MODIFY = ("modify", "UPDATED")
    DELETE = ("delete", "DELETED")


class ClientDocument(msgspec.Struct, kw_only=True):
    """The client of a request. `rtt` is in nanoseconds."""

    start: Text = ""
    host: Text = ""
    id: Annotated[int, OMIT_EMPTY] = 0
    acc: Text = ""
    user: Text = ""
    name: Text = ""
    lang: Text = ""
    ver: Text = ""
    rtt: Annotated[int, OMIT_EMPTY] = 0
    server: Text = ""
    cluster: Text = ""
    kind: Text = ""
    client_type: Text = ""


class Advisory(msgspec.Struct, kw_only=True):
    """The first fields of every advisory."""

    type: str
    id: str
    timestamp: str


class StreamActionAdvisory(Advisory, kw_only=True):
    """A stream was created, changed or deleted."""

    type: str = TYPE_PREFIX + "stream_action"
    stream: str
    action: str
    domain: Text = ""


class ApiAudit(Advisory, kw_only=True):
    """A request to the API was answered. Request and response are texts, of any bytes."""

    type: str = TYPE_PREFIX + "api_audit"
    server: str
    client: ClientDocument | None
    subject: str
    request: Text = ""
    response: str
    domain: Text = ""


class BatchAbandonedAdvisory(Advisory, kw_only=True):
    """An open batch was abandoned."""

    type: str = TYPE_PREFIX + "stream_batch_abandoned"
    account: Text = ""
    stream: str
    domain: Text = ""
    batch: str
    reason: str


class OutOfStorageAdvisory(Advisory, kw_only=True):
    """The disk of a server is full.

    The last two fields are not nats-server's: since when, and what it means and asks for.
    """

    type: str = TYPE_PREFIX + "server_out_of_space"
    server: str
    server_id: str
    cluster: str = ""
    domain: Text = ""
    since: str
    reason: str


class TailLostAdvisory(Advisory, kw_only=True):
    """Messages that an eventual leader may have acknowledged are not in the stream any more. `file`
    has them; it is empty if none could be written. nats-server has no such advisory."""

    type: str = TYPE_PREFIX + "stream_tail_lost"
    stream: str
    server: str
    first_seq: int
    last_seq: int
    messages: int
    file: Text = ""
    domain: Text = ""


class StreamLeaderAdvisory(Advisory, kw_only=True):
    """The group of a stream has elected a leader. The system account is told the account."""

    type: str = TYPE_PREFIX + "stream_leader_elected"
    account: Text = ""
    stream: str
    leader: str
    replicas: tuple[PeerInfo, ...]
    domain: Text = ""


class StreamQuorumAdvisory(Advisory, kw_only=True):
    """The group of a stream has lost its quorum."""

    type: str = TYPE_PREFIX + "stream_quorum_lost"
    account: Text = ""
    stream: str
    replicas: tuple[PeerInfo, ...]
    domain: Text = ""


class LostSequences(msgspec.Struct):
    """Sequences whose messages are lost, if there were any."""

    first_seq: int
    last_seq: int


class StreamLostAdvisory(Advisory, kw_only=True):
    """A stream has lost messages, and goes on above them. The document is not nats-server's."""

    type: str = TYPE_PREFIX + "stream_lost"
    account: Text = ""
    stream: str
    domain: Text = ""
    lost: tuple[LostSequences, ...]


class MetaLeaderAdvisory(Advisory, kw_only=True):
    """The meta group has elected a leader, which is named by its id."""

    type: str = TYPE_PREFIX + "domain_leader_elected"
    leader: str
    replicas: tuple[PeerInfo, ...]
    cluster: str
    domain: Text = ""


class ServerRemovedAdvisory(Advisory, kw_only=True):
    """A server was removed from its cluster."""

    type: str = TYPE_PREFIX + "server_removed"
    server: str
    server_id: str
    cluster: str
    domain: Text = ""


class SnapshotCreateAdvisory(Advisory, kw_only=True):
    """A backup of a stream has begun, in this state."""

    type: str = TYPE_PREFIX + "snapshot_create"
    stream: str
    state: StreamState
    client: ClientDocument | None
    domain: Text = ""


class SnapshotCompleteAdvisory(Advisory, kw_only=True):
    """A backup of a stream has ended."""

    type: str = TYPE_PREFIX + "snapshot_complete"
    stream: str
    start: str
    end: str
    client: ClientDocument | None
    domain: Text = ""
    error: Text = ""


class RestoreCreateAdvisory(Advisory, kw_only=True):
    """The restore of a stream has begun."""

    type: str = TYPE_PREFIX + "restore_create"
    stream: str
    client: ClientDocument | None
    domain: Text = ""


class RestoreCompleteAdvisory(Advisory, kw_only=True):
    """The restore of a stream has ended."""

    type: str = TYPE_PREFIX + "restore_complete"
    stream: str
    start: str
    end: str
    bytes: int
    client: ClientDocument | None
    domain: Text = ""


def stream_subject(event: str, stream_name: str) -> str:
    """The subject of an advisory about a stream."""
    return f"{SUBJECT_PREFIX}STREAM.{event}.{stream_name}"
