"""STREAM.RESTORE: a backup taken in by chunks, each answered, until an empty one ends it.

    reply with a subject, then   chunk ─▶      ◀─ empty: it is taken in, the next may come
                                 empty ─▶      ◀─ the new stream, or why there is none

After something went wrong chunks are still answered, and dropped; the end is told what it was.
Without a chunk for a while a restore is given up, in silence.

`RestoreReceiver` takes chunks and works through them a step at a time. It makes no stream: what it
has at its end is a log that is filled and what is known of consumers, or an error.
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
from headwater.jetstream.streams.limits import NOTHING_UNSEEN, beyond_limits
from headwater.store.log.message_log import MessageLog, StoreError

# Without a chunk for so long, whoever sends is gone.
STALL_NS: Final = 5 * NS_PER_S
# What may have been sent ahead of its answers; the last chunk may go beyond.
AHEAD_BYTES_MAX: Final = 16 * 1024 * 1024


class LostMessages(msgspec.Struct, kw_only=True):
    """In a state: what could not be read."""

    go_name: ClassVar[str] = "LostStreamData"

    msgs: tuple[Uint64, ...] = ()
    bytes: Uint64 = 0


class RestoredState(msgspec.Struct, kw_only=True):
    """In a request: what was in the stream when it was backed up. The backup says it itself."""

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
    """Raises ApiError if there is a stream of that name already."""
    if name in account.streams:
        raise ApiError.of(error_codes.STREAM_NAME_EXIST_RESTORE_FAILED)


def apply_limits(log: MessageLog, config: StreamConfig) -> None:
    """Let go of what a stream with these limits would not have. Raises StoreError."""
    subjects = [*log.subject_counts()] if config.max_msgs_per_subject > 0 else []
    gone = beyond_limits(log, config, subjects, NOTHING_UNSEEN)
    if gone:
        log.delete(gone)


def refused(reason: str) -> ApiError:
    """Why there is no stream."""
    return ApiError.of(error_codes.STREAM_RESTORE, err=reason)


class Need(Enum):
    """What a receiver waits for."""

    # Chunks.
    CHUNKS = "chunks"
    # Its next turn.
    TURN = "turn"
    # A log, that begins as `beginning` says.
    LOG = "log"
    # Nothing: it is over.
    NOTHING = "nothing"


@final
class RestoreReceiver:
    """One restore under way.

    `step` is called as long as there is need for a turn; answers to chunks gather in `answered`.
    Over, it has an `error` or a log that is filled, and maybe an `end_reply` to answer to.
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
        """`title` names account and stream in errors."""
        self.title = title
        self._reader = BackupReader(rules)
        # Chunks that were not worked through, with where to answer them; an empty one is the end.
        self._chunks: deque[tuple[bytes, bytes]] = deque()
        self._ahead_bytes = 0
        # Whether the reader has the first of them.
        self._is_fed = False
        self._active_ns = now_ns
        self.answered: list[bytes] = []
        self.received_bytes = 0
        self.error: ApiError | None = None
        self.end_reply: bytes | None = None
        self.is_over = False

    @property
    def beginning(self) -> Beginning:
        """Where the log begins that is needed."""
        return self._reader.beginning

    def give_log(self, log: MessageLog) -> None:
        """The log to fill."""
        self._reader.give_log(log)

    @property
    def created_ns(self) -> int:
        """When the stream was made that was backed up; 0 if the backup does not say."""
        return self._reader.created_ns

    @property
    def consumers(self) -> list[BackedUpConsumer]:
        """The consumers of the stream that was backed up."""
        return self._reader.consumers

    def fail(self, error: ApiError) -> None:
        """It can not come to a stream any more; the first reason counts."""
        self.error = self.error or error

    def chunk(self, reply: bytes | None, data: bytes, now_ns: int) -> None:
        """Take a chunk."""
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
            # Nobody will look at it.
            data = data[:1]
        self._ahead_bytes += len(data)
        self._chunks.append((reply, data))

    def step(self, now_ns: int, wall_ns: int) -> Need:
        """Do some of the work there is. `wall_ns` is the time that messages carry."""
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
                progress = Progress.HUNGRY
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
        """When it is given up unless a chunk comes; 0 while there is work."""
        return 0 if self._chunks or self.is_over else self._active_ns + STALL_NS
