"""STREAM.RESTORE: a backup is received in chunks, each answered, until an empty one ends it.

    reply with a subject, then   chunk ─▶      ◀─ empty: processed, the next may come
                                 empty ─▶      ◀─ the new stream, or an error

After an error chunks are still answered, and dropped; the reply to the end has the error. Without a
chunk for a while a restore is abandoned, without a reply.

`RestoreReceiver` accepts chunks and processes them a step at a time. It does not create the stream:
its result is a filled log and the consumers of the backup, or an error.
"""

from collections import deque
from enum import Enum
from typing import ClassVar, Final, final

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.go.json import Int, Time, Uint64
from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.api.documents import TYPE_PREFIX, Response
from headwater.jetstream.backup.consumers import BackedUpConsumer
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.backup.form import Beginning, Progress
from headwater.jetstream.backup.reading import BackupReader
from headwater.jetstream.config.stream_checks.checks import Surroundings, normalised
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.limits import beyond_limits
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.store.log.message_log import MessageLog, StoreError

# A sender that is silent for this long is gone.
STALL_NS: Final = 5 * NS_PER_S
# The limit of bytes that were sent before their answers; the last chunk may exceed it.
AHEAD_BYTES_MAX: Final = 16 * 1024 * 1024


class LostMessages(msgspec.Struct, kw_only=True):
    """The part of a state about messages that could not be read."""

    go_name: ClassVar[str] = "LostStreamData"

    msgs: tuple[Uint64, ...] = ()
    bytes: Uint64 = 0


class RestoredState(msgspec.Struct, kw_only=True):
    """The part of a request about the state at the time of the backup. The backup has it too."""

    go_name: ClassVar[str] = "StreamState"

    messages: Uint64 = 0
    bytes: Uint64 = 0
    first_seq: Uint64 = 0
    first_ts: Time | None = None
    last_seq: Uint64 = 0
    last_ts: Time | None = None
    num_subjects: Int = 0
    subjects: dict[str, Uint64] = msgspec.field(default_factory=dict)
    num_deleted: Int = 0
    deleted: tuple[Uint64, ...] = ()
    lost: LostMessages | None = None
    consumer_count: Int = 0


class RestoreRequest(msgspec.Struct, kw_only=True):
    """The body of STREAM.RESTORE."""

    go_name: ClassVar[str] = "JSApiStreamRestoreRequest"

    config: StreamConfig = StreamConfig()
    state: RestoredState = msgspec.field(default_factory=RestoredState)


class RestoreResponse(Response, kw_only=True):
    """The answer of STREAM.RESTORE."""

    type: str = TYPE_PREFIX + "stream_restore_response"
    deliver_subject: str = ""


def check_restore(request: RestoreRequest, name: str, surroundings: Surroundings) -> StreamConfig:
    """The configuration of the stream to restore; `name` is the one in the subject.

    Raises ApiError.
    """
    config = request.config
    if not config.name:
        config = msgspec.structs.replace(config, name=name)
    if config.name != name:
        raise ApiError.of(error_codes.STREAM_MISMATCH)
    if "\\" in name or "/" in name:
        raise ApiError.of(error_codes.STREAM_NAME_CONTAINS_PATH_SEPARATORS)
    return normalised(config, pedantic=False, surroundings=surroundings)


def check_free(account: JetStreamAccount, name: str) -> None:
    """Raises ApiError if a stream of that name exists."""
    if name in account.streams:
        raise ApiError.of(error_codes.STREAM_NAME_EXIST_RESTORE_FAILED)


def apply_limits(log: MessageLog, config: StreamConfig) -> None:
    """Remove messages beyond the limits of the stream. Raises StoreError."""
    subjects = [*log.subject_counts()] if config.max_msgs_per_subject > 0 else []
    gone = beyond_limits(LogMessages(log), config, subjects)
    if gone:
        log.delete(gone)


def refused(reason: str) -> ApiError:
    """The error for a failed restore."""
    return ApiError.of(error_codes.STREAM_RESTORE, err=reason)


class Need(Enum):
    """The input that a receiver needs next."""

    # Chunks.
    CHUNKS = "chunks"
    # Another call of `step`.
    TURN = "turn"
    # A log that begins at `beginning`.
    LOG = "log"
    # Nothing: the restore has ended.
    NOTHING = "nothing"


@final
class RestoreReceiver:
    """A restore under way.

    `step` is called as long as `Need.TURN` is returned; answers to chunks collect in `answered`. At
    the end there is an `error` or a filled log, and possibly an `end_reply` to answer to.
    """

    __slots__ = (
        "_active_ns",
        "_ahead_bytes",
        "_chunks",
        "_is_fed",
        "_reader",
        "answered",
        "end_reply",
        "error",
        "is_over",
        "received_bytes",
        "title",
    )

    def __init__(self, rules: Rules, title: str, now_ns: int) -> None:
        """`title` names the account and the stream in errors."""
        self.title = title
        self._reader = BackupReader(rules)
        # Chunks that were not processed, with their reply subjects; an empty chunk is the end.
        self._chunks: deque[tuple[bytes, bytes]] = deque()
        self._ahead_bytes = 0
        # Whether the first chunk was fed to the reader.
        self._is_fed = False
        self._active_ns = now_ns
        self.answered: list[bytes] = []
        self.received_bytes = 0
        self.error: ApiError | None = None
        self.end_reply: bytes | None = None
        self.is_over = False

    @property
    def beginning(self) -> Beginning:
        """The first sequence of the log that is needed."""
        return self._reader.beginning

    def give_log(self, log: MessageLog) -> None:
        """Set the log to fill."""
        self._reader.give_log(log)

    @property
    def created_ns(self) -> int:
        """When the stream was created; 0 if the backup does not have it."""
        return self._reader.created_ns

    @property
    def consumers(self) -> list[BackedUpConsumer]:
        """The consumers of the backup."""
        return self._reader.consumers

    def fail(self, error: ApiError) -> None:
        """Note an error that ends the restore; the first one counts."""
        self.error = self.error or error

    def chunk(self, reply: bytes | None, data: bytes, now_ns: int) -> None:
        """Accept a chunk."""
        if self.is_over:
            return
        self._active_ns = now_ns
        if reply is None:
            self.fail(refused(f"restore for {self.title} requires reply subject for each chunk"))
            self._end(None)
            return
        if self._ahead_bytes > AHEAD_BYTES_MAX:
            self.fail(refused(f"restore for {self.title} was sent too far ahead of its answers"))
        self.received_bytes += len(data)
        if self.error is not None and data:
            # Dropped chunks need no content.
            data = data[:1]
        self._ahead_bytes += len(data)
        self._chunks.append((reply, data))

    def step(self, now_ns: int, wall_ns: int) -> Need:
        """Do some of the work. `wall_ns` is the clock of message timestamps."""
        if self.is_over:
            return Need.NOTHING
        if not self._chunks:
            return Need.CHUNKS
        reply, data = self._chunks[0]
        if data and self.error is None:
            try:
                progress = self._work(data, wall_ns)
            except (BackupError, StoreError) as error:
                self.fail(refused(str(error)))
                progress = Progress.NEEDS_INPUT
            if progress is Progress.BUSY:
                return Need.TURN
            if progress is Progress.WANTS_LOG:
                return Need.LOG
        self._chunks.popleft()
        self._ahead_bytes -= len(data)
        self._is_fed = False
        self._active_ns = now_ns
        if not data:
            self._finish(reply)
            return Need.NOTHING
        self.answered.append(reply)
        return Need.TURN

    def _work(self, data: bytes, wall_ns: int) -> Progress:
        if not self._is_fed:
            self._is_fed = True
            self._reader.feed(data)
        return self._reader.step(wall_ns)

    def _finish(self, reply: bytes) -> None:
        if self.error is None:
            try:
                self._reader.finish()
            except BackupError as error:
                self.fail(refused(str(error)))
        self._end(reply)

    def _end(self, reply: bytes | None) -> None:
        self.end_reply = reply
        self.is_over = True
        self._chunks.clear()

    def stalls_ns(self) -> int:
        """When the restore is abandoned unless a chunk comes; 0 while there is work."""
        return 0 if self._chunks or self.is_over else self._active_ns + STALL_NS
