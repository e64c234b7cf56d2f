"""What a server tells about its streams, without being asked: the documents and their subjects.

Fields are nats-server's, in its order. Who listens, and whether anybody does, is not known here.
"""

from enum import Enum
from typing import Annotated, Final, NamedTuple

import msgspec

from headwater.go.json import OMIT_EMPTY
from headwater.jetstream.api.documents import StreamState
from headwater.jetstream.config.stream_config import Text

SUBJECT_PREFIX: Final = "$JS.EVENT.ADVISORY."
AUDIT_SUBJECT: Final = SUBJECT_PREFIX + "API"
OUT_OF_STORAGE_SUBJECT: Final = SUBJECT_PREFIX + "SERVER.OUT_OF_STORAGE"
TYPE_PREFIX: Final = "io.nats.jetstream.advisory.v1."


class Heading(NamedTuple):
    """What is drawn for each advisory: an id never given before, and the time."""

    id: str
    timestamp: str


class Action(Enum):
    """What happened to a stream: the word in the document, and the one in the subject."""

    CREATE = ("create", "CREATED")
    MODIFY = ("modify", "UPDATED")
    DELETE = ("delete", "DELETED")


class ClientDocument(msgspec.Struct, kw_only=True):
    """The client that asked. `rtt` is in nanoseconds."""

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
    kind: Text = ""
    client_type: Text = ""


class Advisory(msgspec.Struct, kw_only=True):
    """What every advisory begins with."""

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
    """A call of the API was answered. Request and response are texts, whatever they held."""

    type: str = TYPE_PREFIX + "api_audit"
    server: str
    client: ClientDocument | None
    subject: str
    request: Text = ""
    response: str
    domain: Text = ""


class BatchAbandonedAdvisory(Advisory, kw_only=True):
    """A batch that was begun will never be stored."""

    type: str = TYPE_PREFIX + "stream_batch_abandoned"
    account: Text = ""
    stream: str
    domain: Text = ""
    batch: str
    reason: str


class OutOfStorageAdvisory(Advisory, kw_only=True):
    """The disk of a server is full. The last two are not nats-server's: since when, and what it
    means and asks for."""

    type: str = TYPE_PREFIX + "server_out_of_space"
    server: str
    server_id: str
    cluster: str = ""
    domain: Text = ""
    since: str
    reason: str


class SnapshotCreateAdvisory(Advisory, kw_only=True):
    """A backup of a stream has begun, in this state."""

    type: str = TYPE_PREFIX + "snapshot_create"
    stream: str
    state: StreamState
    client: ClientDocument | None
    domain: Text = ""


class SnapshotCompleteAdvisory(Advisory, kw_only=True):
    """A backup of a stream is over."""

    type: str = TYPE_PREFIX + "snapshot_complete"
    stream: str
    start: str
    end: str
    client: ClientDocument | None
    domain: Text = ""
    error: Text = ""


class RestoreCreateAdvisory(Advisory, kw_only=True):
    """A stream begins to come back from a backup."""

    type: str = TYPE_PREFIX + "restore_create"
    stream: str
    client: ClientDocument | None
    domain: Text = ""


class RestoreCompleteAdvisory(Advisory, kw_only=True):
    """A stream is back from a backup."""

    type: str = TYPE_PREFIX + "restore_complete"
    stream: str
    start: str
    end: str
    bytes: int
    client: ClientDocument | None
    domain: Text = ""


def stream_subject(event: str, stream_name: str) -> str:
    """Where something that happened to a stream is told."""
    return f"{SUBJECT_PREFIX}STREAM.{event}.{stream_name}"
