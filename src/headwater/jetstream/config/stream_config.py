"""The configuration of a stream, as clients write it and as they get it back.

Field names are the keys in JSON, their order is nats-server's, and the defaults are Go's values for
an absent key; `stream_checks` adds the defaults of nats-server. Fields marked OMIT_EMPTY are left
out of replies while empty. The last four settings are not nats-server's; unset, they are nowhere.

Three keys of the metadata belong to the server: `_nats.req.level` is stored with the stream, the
other two describe the server that replies and are added to replies only.
"""

from enum import Enum
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import UNSET, UnsetType

from headwater.go.json import (
    OMIT_EMPTY,
    Duration,
    Int,
    Int32,
    Int64,
    Time,
    Uint64,
    kind_of,
)
from headwater.go.json_syntax import unquote
from headwater.go.quoting import quote_bytes

REQUIRED_LEVEL_KEY: Final = "_nats.req.level"
SERVER_VERSION_KEY: Final = "_nats.ver"
SERVER_LEVEL_KEY: Final = "_nats.level"

Text = Annotated[str, OMIT_EMPTY]
Texts = Annotated[tuple[str, ...], OMIT_EMPTY]
Flag = Annotated[bool, OMIT_EMPTY]


class Choice(Enum):
    """One of a few words; anything else is refused with nats-server's text."""

    @classmethod
    def from_json(cls, literal: bytes) -> "Choice":
        """The member that `literal` spells. Raises ValueError."""
        word = cls.spelled(literal)
        for member in cls:
            if word == f'"{member.value}"'.encode():
                return member
        raise ValueError(cls.refusal(literal))

    @classmethod
    def spelled(cls, literal: bytes) -> bytes:
        """The member's own spelling, if `literal` is another spelling of it."""
        return literal

    @classmethod
    def refusal(cls, literal: bytes) -> str:
        """The text of the refusal for a word that is not a member."""
        return f"can not unmarshal {quote_bytes(literal)}"


class Retention(Choice):
    """The condition for the removal of a message: limits, every consumer's ack, or any ack."""

    LIMITS = "limits"
    INTEREST = "interest"
    WORKQUEUE = "workqueue"


class Discard(Choice):
    """The message that gives way at a limit: the oldest or the newest."""

    OLD = "old"
    NEW = "new"

    @classmethod
    def spelled(cls, literal: bytes) -> bytes:
        """The word may be in any case."""
        return literal.lower()


class Storage(Choice):
    """The medium of the messages."""

    FILE = "file"
    MEMORY = "memory"


class Compression(Choice):
    """Whether messages are compressed on disk."""

    NONE = "none"
    S2 = "s2"

    @classmethod
    def spelled(cls, literal: bytes) -> bytes:
        """The word may be written with escapes."""
        if literal.startswith(b'"'):
            return f'"{unquote(literal)}"'.encode()
        return literal

    @classmethod
    def refusal(cls, literal: bytes) -> str:
        """The text of the refusal, with the kind of a value that is not a string."""
        kind = kind_of(literal)
        if kind in ("string", "null"):
            return "unknown compression algorithm"
        return f"json: cannot unmarshal {kind} into Go value of type string"


class _DefaultedChoice(Choice):
    """A choice that an empty word, or the word `default`, leaves at its first member."""

    @classmethod
    def spelled(cls, literal: bytes) -> bytes:
        """Both words stand for the default."""
        first = next(iter(cls))
        return f'"{first.value}"'.encode() if literal in (b'""', b'"default"') else literal


class PersistMode(_DefaultedChoice):
    """Whether an ack waits for the write."""

    DEFAULT = "default"
    ASYNC = "async"


class ReadConsistency(_DefaultedChoice):
    """The servers that may answer reads, and the promise that they give."""

    DEFAULT = "default"
    WEAK = "weak"
    STRONG = "strong"


class WriteConsistency(_DefaultedChoice):
    """Whether an ack waits for the quorum."""

    STRONG = "strong"
    EVENTUAL = "eventual"


class Placement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The servers that may hold the replicas of a stream."""

    cluster: Text = ""
    # An empty list differs from no list: a placement with an empty list is kept.
    tags: Annotated[tuple[str, ...] | None, OMIT_EMPTY] = None
    preferred: Text = ""


class SubjectTransformConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transform of subjects."""

    src: str = ""
    dest: str = ""


class Republish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rule by which stored messages are republished."""

    go_name: ClassVar[str] = "RePublish"

    src: Text = ""
    dest: str = ""
    headers_only: Flag = False


class ConsumerLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Default and maximum of settings of the stream's consumers."""

    go_name: ClassVar[str] = "StreamConsumerLimits"

    inactive_threshold: Annotated[Duration, OMIT_EMPTY] = 0
    max_ack_pending: Annotated[Int, OMIT_EMPTY] = 0


class ExternalStream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API prefix of a stream in another account or domain."""

    api: str = ""
    deliver: str = ""


class StreamConsumerSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A consumer that exists already, by which another stream is read."""

    name: Text = ""
    deliver_subject: Text = ""


class StreamSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream that messages are copied from."""

    name: str = ""
    opt_start_seq: Annotated[Uint64, OMIT_EMPTY] = 0
    opt_start_time: Annotated[Time | None, OMIT_EMPTY] = None
    filter_subject: Text = ""
    subject_transforms: Annotated[tuple[SubjectTransformConfig, ...], OMIT_EMPTY] = ()
    external: Annotated[ExternalStream | None, OMIT_EMPTY] = None
    consumer: Annotated[StreamConsumerSource | None, OMIT_EMPTY] = None


class NatsStreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a stream that nats-server has. Durations are nanoseconds; -1 is no limit."""

    name: str = ""
    description: Text = ""
    subjects: Texts = ()
    retention: Retention = Retention.LIMITS
    max_consumers: Int = 0
    max_msgs: Int64 = 0
    max_bytes: Int64 = 0
    max_age: Duration = 0
    max_msgs_per_subject: Int64 = 0
    max_msg_size: Annotated[Int32, OMIT_EMPTY] = 0
    discard: Discard = Discard.OLD
    storage: Storage = Storage.FILE
    num_replicas: Int = 0
    no_ack: Flag = False
    duplicate_window: Annotated[Duration, OMIT_EMPTY] = 0
    placement: Annotated[Placement | None, OMIT_EMPTY] = None
    mirror: Annotated[StreamSource | None, OMIT_EMPTY] = None
    sources: Annotated[tuple[StreamSource | None, ...], OMIT_EMPTY] = ()
    compression: Compression = Compression.NONE
    first_seq: Annotated[Uint64, OMIT_EMPTY] = 0
    subject_transform: Annotated[SubjectTransformConfig | None, OMIT_EMPTY] = None
    republish: Annotated[Republish | None, OMIT_EMPTY] = None
    allow_direct: bool = False
    mirror_direct: bool = False
    discard_new_per_subject: Flag = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    consumer_limits: ConsumerLimits = ConsumerLimits()
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl: Annotated[Duration, OMIT_EMPTY] = 0
    allow_msg_counter: Flag = False
    allow_atomic: Flag = False
    allow_msg_schedules: Flag = False
    persist_mode: Annotated[PersistMode, OMIT_EMPTY] = PersistMode.DEFAULT
    allow_batched: Flag = False
    metadata: Annotated[dict[str, str], OMIT_EMPTY] = {}


class StreamConfig(NatsStreamConfig, frozen=True, kw_only=True):
    """All settings of a stream."""

    read_consistency: Annotated[ReadConsistency, OMIT_EMPTY] = ReadConsistency.DEFAULT
    write_consistency: Annotated[WriteConsistency, OMIT_EMPTY] = WriteConsistency.STRONG
    # Unset, the server's own applies; zero disables it for this stream.
    ack_timeout: Annotated[Duration | None, OMIT_EMPTY] = None
    max_staleness: Annotated[Duration, OMIT_EMPTY] = 0


class StreamRequest(NatsStreamConfig, frozen=True, kw_only=True):
    """The body of STREAM.CREATE and STREAM.UPDATE.

    A client that does not know Headwater sends a whole configuration without our settings. It does
    not mean to reset them, so an absent key differs from one with the default.
    """

    go_name: ClassVar[str] = "StreamConfigRequest"

    read_consistency: ReadConsistency | UnsetType = UNSET
    write_consistency: WriteConsistency | UnsetType = UNSET
    # Null removes the setting: the server's own applies again.
    ack_timeout: Duration | UnsetType | None = UNSET
    max_staleness: Duration | UnsetType = UNSET
    # Refuse values that would be adjusted silently.
    pedantic: Flag = False

    def over(self, existing: StreamConfig | None) -> StreamConfig:
        """The requested configuration; settings of ours that it does not name stay as they are."""
        kept = StreamConfig() if existing is None else existing
        values = {name: getattr(self, name) for name in StreamConfig.__struct_fields__}
        for name, value in values.items():
            if value is UNSET:
                values[name] = getattr(kept, name)
        return StreamConfig(**values)


def kept_metadata(metadata: dict[str, str], required_level: int) -> dict[str, str]:
    """The metadata to store: with the required level, without data of the server."""
    answered = (SERVER_VERSION_KEY, SERVER_LEVEL_KEY)
    kept = {key: value for key, value in metadata.items() if key not in answered}
    return kept | {REQUIRED_LEVEL_KEY: str(required_level)}


def told_metadata(metadata: dict[str, str], version: str, level: int) -> dict[str, str]:
    """The metadata for replies that describe the server."""
    return metadata | {SERVER_VERSION_KEY: version, SERVER_LEVEL_KEY: str(level)}


def required_level(config: StreamConfig) -> int:
    """The API level that a server needs to run this stream as intended."""
    if config.allow_batched:
        return 4
    if (
        config.read_consistency is not ReadConsistency.DEFAULT
        or config.write_consistency is not WriteConsistency.STRONG
        or config.ack_timeout is not None
        or config.max_staleness > 0
    ):
        return 3
    if (
        config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
        or config.persist_mode is PersistMode.ASYNC
    ):
        return 2
    return 1 if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0 else 0


def has_leases(config: StreamConfig) -> bool:
    """Whether the leader of a stream makes sure that it leads when it answers a get."""
    return config.read_consistency is not ReadConsistency.DEFAULT


def with_required_level(config: StreamConfig) -> StreamConfig:
    """The configuration to store: with the level it requires, without data of the server."""
    metadata = kept_metadata(config.metadata, required_level(config))
    return msgspec.structs.replace(config, metadata=metadata)


def with_server_metadata(config: StreamConfig, version: str, level: int) -> StreamConfig:
    """The configuration for replies that describe the server: all but those of STREAM.LIST."""
    metadata = told_metadata(config.metadata, version, level)
    return msgspec.structs.replace(config, metadata=metadata)


def origin_read_by(config: StreamConfig) -> str:
    """The stream whose direct reads a mirror may answer; no name for any other stream."""
    level = config.read_consistency
    is_default = level is ReadConsistency.DEFAULT
    may_answer = level is ReadConsistency.WEAK or (is_default and config.mirror_direct)
    return config.mirror.name if config.mirror is not None and may_answer else ""


def identical(old: StreamConfig, new: StreamConfig) -> bool:
    """Whether creating `new` in place of `old` changes nothing but the server's own metadata."""
    return _without_empty_tags(with_required_level(old)) == _without_empty_tags(
        with_required_level(new)
    )


def _without_empty_tags(config: StreamConfig) -> StreamConfig:
    """A configuration without an empty list of tags, which records and files do not keep."""
    placement = config.placement
    if placement is None or placement.tags:
        return config
    kept = msgspec.structs.replace(placement, tags=None)
    return msgspec.structs.replace(config, placement=None if kept == Placement() else kept)
