"""Records of the meta group: the servers of a cluster, and the servers that hold each stream.

The meta leader decides and makes records, the meta group orders them, and each server applies them
to its `Assignments`. A record holds all that came from the clock, from random numbers and from the
state of other servers. `headwater.jetstream.meta.codec` has the bytes of every record.

The log of a stream decides about the stream itself: its configuration takes effect by a record
there. The records here say which servers hold the stream, and which configuration it should have.
"""

from enum import IntEnum
from typing import Final, TypeAlias, final

from msgspec import Struct

from headwater.jetstream.config.stream_config import StreamConfig

INCARNATION_BYTES: Final = 16

# A subject is a part of a protocol line, whose length a configuration limits to some KiB.
SUBJECT_BYTES_MAX: Final = 1 << 16
# The description of a client has the names that the client and its user chose.
CLIENT_BYTES_MAX: Final = 1 << 16
# An advisory quotes the request. A longer one holds a configuration, which the record has as well.
REQUEST_BYTES_MAX: Final = 1 << 16

SERVERS_MAX: Final = 64
"""The limit of servers in a record, which is that of members in a group."""
TAGS_MAX: Final = 1_024
"""The limit of tags of a server: a configuration is written by hand."""


@final
class AnswerTo(Struct, frozen=True):
    """The request that a record carries out, for the server that answers it."""

    # The account of the client, and the subjects of the request and of its answer.
    account: str
    subject: bytes
    reply_subject: bytes
    # The description of the client in advisories, as JSON; empty if it is not known.
    client: bytes = b""
    # The body of the request, as far as advisories quote it.
    request: bytes = b""

    @classmethod
    def bounded(
        cls, account: str, subject: bytes, reply_subject: bytes, client: bytes, request: bytes
    ) -> "AnswerTo | None":
        """The request without the parts that are too long for a record.

        Returns None if a subject is too long: nobody could be answered.
        """
        if max(len(subject), len(reply_subject)) > SUBJECT_BYTES_MAX:
            return None
        described = client if len(client) <= CLIENT_BYTES_MAX else b""
        return cls(account, subject, reply_subject, described, request[:REQUEST_BYTES_MAX])


class ReplicaCause(IntEnum):
    """The reason why other servers are to hold a stream. The values stand in records."""

    SCALE = 1
    MOVE = 2
    # A server was removed from the stream or from the cluster, or a missing replica is replaced.
    REPAIR = 3


@final
class StreamAssigned(Struct, frozen=True):
    """A stream is created on these servers, with a configuration that was checked.

    `incarnation` are 16 random bytes: a stream that is created again under its name has others.
    """

    account: str
    name: str
    incarnation: bytes
    config: StreamConfig
    created_ns: int
    replicas: tuple[str, ...]
    answer: AnswerTo | None = None


@final
class StreamUpdated(Struct, frozen=True):
    """A stream gets another configuration, which was checked."""

    account: str
    name: str
    incarnation: bytes
    config: StreamConfig
    answer: AnswerTo | None = None


@final
class ReplicasChanged(Struct, frozen=True):
    """Other servers are to hold a stream: those of `replicas`, once they have caught up.

    The servers of `removed` leave the stream at once.
    """

    account: str
    name: str
    incarnation: bytes
    replicas: tuple[str, ...]
    cause: ReplicaCause
    removed: tuple[str, ...] = ()
    answer: AnswerTo | None = None


@final
class ReplicasSettled(Struct, frozen=True):
    """The group of a stream consists of these servers: the others may delete their replicas."""

    account: str
    name: str
    incarnation: bytes
    replicas: tuple[str, ...]


@final
class StreamUnassigned(Struct, frozen=True):
    """A stream is deleted: the one of this incarnation, no earlier or later one of its name."""

    account: str
    name: str
    incarnation: bytes
    answer: AnswerTo | None = None


SYNC_TAG: Final = "sync:"
"""The beginning of the last tag of a server, which tells how long written bytes wait for a sync."""


@final
class ServerDescribed(Struct, frozen=True):
    """A server of the cluster and the settings that decide which streams it may hold.

    The largest sizes of all its streams together are in bytes; tags are in lower case.
    """

    name: str
    cluster: str
    tags: tuple[str, ...] = ()
    memory_bytes_max: int = 0
    storage_bytes_max: int = 0
    is_jetstream: bool = True

    @property
    def sync(self) -> str:
        """The time that written bytes wait for a sync, or `always`; empty if it is not told."""
        last = self.tags[-1] if self.tags else ""
        return last.removeprefix(SYNC_TAG) if last.startswith(SYNC_TAG) else ""


@final
class ServerRemoved(Struct, frozen=True):
    """A server has left the cluster for good."""

    name: str
    answer: AnswerTo | None = None


StreamMetaRecord: TypeAlias = (
    StreamAssigned | StreamUpdated | ReplicasChanged | ReplicasSettled | StreamUnassigned
)
MetaRecord: TypeAlias = StreamMetaRecord | ServerDescribed | ServerRemoved
