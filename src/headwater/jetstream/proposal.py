"""Proposals: the records that a handler wants in a log, and the effects that depend on them.

A handler (a publish, a request, an acknowledgement, a timer) decides and returns a `Proposal`. The
group of the log (`headwater.jetstream.group`) puts the records into it and applies them; then the
effects leave. If the records never get into the log, the refusals leave instead. A proposal is for
the log of a stream, or for that of the set of streams.

Effects are values. The replies to publishes are parallel lists, because there may be thousands of
them in a turn; every other effect is an object of one of the classes below. The server carries
effects out in one place (`headwater.server.streams.effects`).

Consumers run ahead of the log: what they send need not wait for the records, and leaves when the
proposal is made (`at_once`).
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar, final

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.consumers.effects import Event, Messages, Status
from headwater.jetstream.consumers.records import LONG_RECORDS, STEP_RECORDS
from headwater.jetstream.errors import ApiError
from headwater.jetstream.records import Published, Record, Skipped, StreamCreated
from headwater.jetstream.streams.publishing.batch_changes import BatchChanges
from headwater.store.errors import StoreError

# The records of a log.
R = TypeVar("R")


class ConsumerOpened(NamedTuple):
    """A consumer was created: its timers start, and it delivers."""

    name: str


class ConsumerReconfigured(NamedTuple):
    """A consumer has another configuration; the old one pushed to `old_subject`."""

    name: str
    old_subject: bytes
    is_pause_changed: bool


class ConsumerClosed(NamedTuple):
    """A consumer was deleted: its waiting pulls are answered, and its timers end."""

    name: str


class ConsumerServed(NamedTuple):
    """A consumer may have messages to deliver."""

    name: str


class ConsumerUnpinned(NamedTuple):
    """An administrator has unpinned the client of a consumer."""

    name: str


class ConsumerLeft(NamedTuple):
    """A consumer has messages to deliver that were left for the next turn."""

    name: str


class ConsumerEvent(NamedTuple):
    """An advisory or a metric tells of an event of a consumer."""

    name: str
    event: Event


class StreamReconfigured(NamedTuple):
    """The stream has another configuration than `old`."""

    old: StreamConfig


class Confirmed(NamedTuple):
    """Acknowledgements are durable, and their senders wait for an empty reply."""

    reply_subjects: list[bytes]


class Open(NamedTuple):
    """A stream was created: it gets a log, and runs."""

    created: StreamCreated


class Close(NamedTuple):
    """A stream was deleted: it runs no more, its log is removed, and clients that wait for it are
    refused with `why`."""

    account: str
    name: str
    incarnation: bytes
    why: ApiError


class StreamAnnounced(NamedTuple):
    """An advisory tells that a stream was created or deleted."""

    account: str
    name: str
    is_created: bool


class Answered(NamedTuple):
    """A request is answered by the state that follows once its records are applied.

    `respond` gets the number of messages that the records removed. `refuse` answers if the log
    could not take the records, or the stream ends.
    """

    respond: Callable[[int], object]
    refuse: Callable[[StoreError | ApiError], object]


class Outcome(Protocol):
    """The owner of copied messages, who has to know whether they are stored."""

    def applied(self) -> None:
        """Note that all records of the proposal are applied."""
        ...

    def refused(self, error: StoreError | ApiError) -> None:
        """Note that some of the records will never be applied."""
        ...


Effect: TypeAlias = (
    Messages
    | Status
    | ConsumerOpened
    | ConsumerReconfigured
    | ConsumerClosed
    | ConsumerServed
    | ConsumerUnpinned
    | ConsumerLeft
    | ConsumerEvent
    | StreamReconfigured
    | Confirmed
    | Open
    | Close
    | StreamAnnounced
    | Answered
)


class Copying(NamedTuple):
    """The decision about copied messages: the proposal for them, up to the first one that the
    stream refuses, and the reason of the refusal."""

    proposal: "Proposal[Record]"
    refusal: ApiError | None = None


@final
class Proposal(Generic[R]):
    """Records for a log, and what leaves once they are applied.

    Replies to publishes are parallel lists. `republished` has the subject, header and body of
    messages to republish; they are sent before the replies.

    `rests_on` has, for each reply, the sequence up to which everything has to be stored for the
    reply to be true; it may be left empty for a single record, which is stored or not.
    """

    __slots__ = (
        "abandoned",
        "at_once",
        "batches",
        "effects",
        "failure",
        "held_bytes",
        "held_messages",
        "index",
        "is_awaited",
        "needs_entry",
        "only_shows",
        "outcome",
        "records",
        "removed",
        "replies",
        "reply_subjects",
        "republished",
        "rests_on",
    )

    def __init__(
        self,
        records: list[R] | None = None,
        effects: tuple[Effect, ...] = (),
        is_awaited: bool = True,
        needs_entry: bool = False,
    ) -> None:
        self.records: list[R] = [] if records is None else records
        self.effects = effects
        # Effects that do not wait for the records.
        self.at_once: list[Effect] = []
        # Whether anybody waits for the records to be committed.
        self.is_awaited = is_awaited
        # Whether the effects wait until all entries before them are as durable as awaited ones,
        # also if there are no records.
        self.needs_entry = needs_entry
        self.reply_subjects: list[bytes] = []
        self.replies: list[bytes] = []
        self.rests_on: list[int] = []
        self.republished: list[tuple[bytes, bytes, bytes]] = []
        # Atomic batches that were abandoned: id and reason.
        self.abandoned: list[tuple[bytes, str]] = []
        # Open batches that the publishes have changed, if there are any.
        self.batches: BatchChanges | None = None
        # The place in the log, set by the group: that of its records, or of the last ones before.
        self.index = 0
        # Whether its application has only made messages visible, so that nothing else follows.
        self.only_shows = False
        # Publishes that count against the room of the stream until the proposal is released.
        self.held_messages = 0
        self.held_bytes = 0
        # The owner of the messages, if they are copied from another stream.
        self.outcome: Outcome | None = None
        # The number of messages that the records of a request removed, and the error that ended
        # their application.
        self.removed = 0
        self.failure: StoreError | ApiError | None = None

    @property
    def has_messages(self) -> bool:
        """Whether the records assign sequences."""
        return any(isinstance(record, Published | Skipped) for record in self.records)

    def note_batches(self) -> BatchChanges:
        """The changes of open batches, for another batch to be added."""
        if self.batches is None:
            self.batches = BatchChanges()
        return self.batches

    @property
    def changes_consumers(self) -> bool:
        """Whether the records create, change or delete consumers."""
        return any(isinstance(record, LONG_RECORDS) for record in self.records)

    @property
    def outlasts_withdrawal(self) -> bool:
        """Whether the records are steps of consumers, for which no publisher and no request waits:
        the consumers have taken them, and take none of them back."""
        return not (
            self.reply_subjects
            or self.abandoned
            or self.batches is not None
            or self.outcome is not None
            or any(isinstance(effect, Answered) for effect in self.effects)
            or any(not isinstance(record, STEP_RECORDS) for record in self.records)
        )

    def reply(self, subject: bytes, payload: bytes, rests_on: int = 0) -> None:
        """Add a reply."""
        self.reply_subjects.append(subject)
        self.replies.append(payload)
        self.rests_on.append(rests_on)

    def tell(self, consumer: str, event: Event) -> None:
        """Add an event of a consumer."""
        self.at_once.append(ConsumerEvent(consumer, event))

    def confirm(self, reply_subjects: list[bytes]) -> None:
        """Have acknowledgements answered when they are as durable as the messages of the stream."""
        if not reply_subjects:
            return
        newest = self.effects[-1] if self.effects else None
        if isinstance(newest, Confirmed):
            newest.reply_subjects.extend(reply_subjects)
        else:
            self.effects += (Confirmed(reply_subjects),)
        self.is_awaited = self.needs_entry = True

    def hold_back(self) -> None:
        """Have all effects wait for the records."""
        self.effects = (*self.at_once, *self.effects)
        self.at_once = []
        self.is_awaited = True

    def refuse_after(self, sequence: int, refusal: bytes) -> None:
        """Replace the replies that rest on messages after a sequence by a refusal."""
        rests_on = self.rests_on if len(self.rests_on) == len(self.replies) else None
        self.replies = [
            reply if rests_on is not None and rests_on[number] <= sequence else refusal
            for number, reply in enumerate(self.replies)
        ]
        # It is not known which of them are stored, and no one relies on their being sent.
        self.republished = []
