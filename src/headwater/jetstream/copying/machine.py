"""The copying of one origin as a state machine: when to ask, what to accept, when to begin again.

    WAITING ─▶ ASKING ─▶ COPYING          a request is sent, its answer comes, messages arrive
       ▲         │          │
       └─────────┴──────────┘             refused, not answered, a gap, silence, or not stored

The machine is given what arrives and the time, and returns values; it knows no socket, no timer and
no stream. Messages count as accepted when they are handed on, in the order of the origin and each
one once. Their numbers show a gap: then the machine asks again, behind the last message that the
stream has applied. Whatever a new request finds in the stream is where it begins, so that a leader
who knows only the log goes on without gap or double.
"""

from enum import Enum
from typing import Final, NamedTuple, final

from headwater.base.clock import NS_PER_S
from headwater.base.entropy import Entropy
from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import ErrorDocument, StreamSourceInfo
from headwater.jetstream.copying.arrivals import Arrivals, Control
from headwater.jetstream.copying.contact import Contact
from headwater.jetstream.copying.origins import Origin
from headwater.jetstream.copying.patience import Patience
from headwater.jetstream.copying.requests import (
    Answer,
    Ask,
    creation_of,
    read_answer,
    reset_of,
    start_of,
)
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.origin_positions import NOWHERE, Position
from headwater.wire.headers import value_of

# Requests for one origin are at least this far apart.
REQUEST_GAP_NS: Final = 2 * NS_PER_S
# An origin that is not there, or refuses, is asked again after this time, which doubles.
BACKOFF_NS: Final = NS_PER_S
BACKOFF_NS_MAX: Final = 60 * NS_PER_S
JITTER_NS: Final = NS_PER_S // 10
# A mirror answers direct reads of its origin when it lacks fewer messages than this.
NEARLY_CAUGHT_UP: Final = 10

OF_ANOTHER: Final = "the origin is another stream than the one mirrored; create the mirror again"

_LAST_CONSUMER: Final = b"Nats-Last-Consumer"
_LAST_STREAM: Final = b"Nats-Last-Stream"
_STALLED: Final = b"Nats-Consumer-Stalled"
_STREAM_IDENTITY: Final = b"Nats-Stream-Identity"
_DIGITS_MAX: Final = 19


class Phase(Enum):
    """The state of the copying of an origin."""

    WAITING = "waiting"
    ASKING = "asking"
    COPYING = "copying"


class Confirm(NamedTuple):
    """A request of the origin to confirm what has arrived: its reply subject, and the sequences of
    the last message before it."""

    reply: bytes
    number: int
    sequence: int


@final
class CopyMachine:
    """The copying of one origin."""

    __slots__ = (
        "_answer",
        "_asked_ns",
        "_consumer",
        "_entropy",
        "_failures",
        "_heard_ns",
        "_inbox",
        "_is_recreated",
        "_next_number",
        "_patience",
        "_pending",
        "_position",
        "contact",
        "due_ns",
        "error",
        "examined",
        "identity",
        "is_of_another",
        "lag",
        "origin",
        "phase",
        "sequence",
    )

    def __init__(
        self, origin: Origin, entropy: Entropy, now_ns: int, position: Position = NOWHERE
    ) -> None:
        """`position` is that up to which the stream has copied the origin."""
        self.origin = origin
        self._entropy = entropy
        self.phase = Phase.WAITING
        # When the phase ends by itself.
        self.due_ns = now_ns
        # The last sequence of the origin that was accepted, and the identity of the origin.
        self.sequence, self.identity = position
        # The sequence of the origin up to which all that is copied was accepted, as its heartbeats
        # tell it; 0 if none has come.
        self.examined = 0
        self.lag = 0
        self.error: ErrorDocument | None = None
        self._position = position
        self._asked_ns = now_ns - REQUEST_GAP_NS
        self._failures = 0
        self._patience = Patience()
        # When the origin was last heard of; 0 if it never was.
        self._heard_ns = 0
        self.contact = Contact()
        # The consumer of the origin, the subject it delivers to and the number of its next message.
        self._consumer = b""
        self._inbox = ""
        self._next_number = 0
        # The number of messages of the origin behind the last one that arrived; -1 if unknown.
        self._pending = -1
        # Whether the origin is another stream than the one that was copied so far. A source is
        # copied from its beginning then; a mirror would mix the messages of two streams.
        self._is_recreated = False
        self.is_of_another = False
        # The answer that a second request follows.
        self._answer: Answer | None = None

    # --- requests ------------------------------------------------------------------------------

    def ask(self, position: Position, now_ns: int) -> Ask:
        """The next request, for a stream that has applied the origin up to a position."""
        self.phase = Phase.ASKING
        self.due_ns = now_ns + self._patience.answer_ns
        self._asked_ns = now_ns
        self._answer = None
        self._pending = -1
        self.contact.applied(position.sequence)
        self.contact.asked()
        if self._is_recreated:
            position = Position()
        self._position = position
        self.error = None
        named = self.origin.source.consumer
        if named is not None:
            self._inbox = named.deliver_subject
            return reset_of(self.origin, named.name, self._inbox)
        self._inbox = self.origin.new_inbox(self._entropy)
        start = start_of(self.origin, position.sequence)
        return creation_of(self.origin, position, start, self._inbox)

    def answered(self, header: bytes, body: bytes, now_ns: int) -> Ask | None:
        """Take the answer to the last request. Returns a second request that it makes necessary."""
        if self.phase is not Phase.ASKING:
            return None
        self._patience.answered()
        answer = read_answer(body)
        if answer is None or (answer.error is None and answer.config is None):
            self._fail(self._setup_failed("invalid consumer create response"), now_ns)
            return None
        if answer.error is not None:
            refused = answer.error
            if refused.err_code == error_codes.CONSUMER_STREAM_IDENTITY_MISMATCH.err_code:
                self._find_another(now_ns)
                return None
            error = ErrorDocument(refused.code, refused.err_code, refused.description)
            self._fail(error, now_ns)
            return None
        if self.origin.source.consumer is not None and not answer.acks_by_flow:
            self._fail(self._must_ack_by_flow(), now_ns)
            return None
        if (
            answer.acks_by_flow
            and self.origin.source.consumer is None
            and self._answer is None
            and answer.delivered.stream_seq > answer.ack_floor.stream_seq
        ):
            # A durable consumer has delivered messages that were never confirmed.
            self._answer = answer
            self.due_ns = now_ns + self._patience.answer_ns
            return reset_of(self.origin, answer.name, self._inbox)
        self._begin(answer, header, now_ns)
        return None

    def _find_another(self, now_ns: int) -> None:
        """Note that the stream of the origin's name is another one."""
        if self.origin.is_mirrored:
            self.is_of_another = True
            code = error_codes.CONSUMER_STREAM_IDENTITY_MISMATCH
            self._fail(ErrorDocument(code.code, code.err_code, OF_ANOTHER), now_ns)
        else:
            self._is_recreated = True
            self._retry(now_ns)

    def _begin(self, answer: Answer, header: bytes, now_ns: int) -> None:
        self.phase = Phase.COPYING
        self.examined = 0
        self.due_ns = now_ns + self._patience.silence_ns
        self._failures = 0
        self._consumer = answer.name.encode(errors="surrogateescape")
        self._next_number = answer.delivered.consumer_seq + 1
        self.sequence = max(answer.delivered.stream_seq, self._position.sequence)
        self._heard_ns = now_ns
        self.identity = value_of(header, _STREAM_IDENTITY) or b"" if header else b""
        self._is_recreated = self.is_of_another = False

    def _setup_failed(self, reason: str) -> ErrorDocument:
        code = (
            error_codes.MIRROR_CONSUMER_SETUP_FAILED
            if self.origin.is_mirrored
            else error_codes.SOURCE_CONSUMER_SETUP_FAILED
        )
        return ErrorDocument.of(ApiError.of(code, err=reason))

    def _must_ack_by_flow(self) -> ErrorDocument:
        code = (
            error_codes.MIRROR_CONSUMER_REQUIRES_ACK_FC
            if self.origin.is_mirrored
            else error_codes.SOURCE_CONSUMER_REQUIRES_ACK_FC
        )
        return ErrorDocument.of(ApiError.of(code))

    def _fail(self, error: ErrorDocument | None, now_ns: int) -> None:
        """Ask again later, and later each time."""
        self._failures += 1
        self._retry(now_ns)
        self.error = error

    def _retry(self, now_ns: int) -> None:
        """Ask again as soon as requests may follow each other."""
        self.phase = Phase.WAITING
        self._consumer = b""
        backoff_ns = 0
        if self._failures:
            backoff_ns = min(BACKOFF_NS << min(self._failures - 1, 16), BACKOFF_NS_MAX)
        earliest_ns = max(now_ns, self._asked_ns + max(backoff_ns, REQUEST_GAP_NS))
        self.due_ns = earliest_ns + self._entropy.below(JITTER_NS)

    # --- arrivals ------------------------------------------------------------------------------

    def take(self, arrivals: Arrivals, now_ns: int) -> Arrivals | None:
        """Accept messages: those that come next, without any that the stream has already. Returns
        None if there are none."""
        if self.phase is not Phase.COPYING or arrivals.consumer != self._consumer:
            return None
        self._hear(now_ns)
        count, pending = _count_in_order(arrivals, self._next_number), arrivals.pending
        is_whole = count == len(arrivals)
        if not is_whole:
            arrivals = arrivals.part(0, count)
        self._next_number += count
        begin = 0
        while begin < count and arrivals.sequences[begin] <= self.sequence:
            begin += 1
        if begin:
            arrivals = arrivals.part(begin, count)
        if len(arrivals):
            self.sequence = arrivals.sequences[-1]
        if not is_whole:
            self._retry(now_ns)
        else:
            self._pending = pending
            self.lag = max(pending - 1, 0)
            self.contact.delivered(now_ns, self._next_number - 1, self.sequence, pending)
        return arrivals if len(arrivals) else None

    def _hear(self, now_ns: int) -> None:
        """Note a sign of the origin."""
        self._patience.heard(now_ns - self._heard_ns)
        self._heard_ns = now_ns
        self.due_ns = now_ns + self._patience.silence_ns

    def control(self, control: Control, now_ns: int) -> Confirm | None:
        """Take a heartbeat or a request to confirm. Returns what is to be confirmed once
        everything that was accepted is applied."""
        if self.phase is not Phase.COPYING:
            return None
        self._hear(now_ns)
        if control.reply is not None:
            return Confirm(control.reply, self._next_number - 1, self.sequence)
        last = value_of(control.header, _LAST_CONSUMER) or b""
        if not last.isdigit() or len(last) > _DIGITS_MAX:
            return None
        if int(last) > 0 and int(last) != self._next_number - 1:
            self._retry(now_ns)
            return None
        if int(last) == self._next_number - 1:
            examined = value_of(control.header, _LAST_STREAM) or b""
            if examined.isdigit() and len(examined) <= _DIGITS_MAX:
                self.examined = max(self.examined, int(examined))
        stalled = value_of(control.header, _STALLED)
        if self._pending < 0 and int(last) == 0:
            # Nothing was delivered, because there is nothing.
            self._pending = 0
        if not stalled:
            self.contact.idle(now_ns, self.sequence)
        return Confirm(stalled, self._next_number - 1, self.sequence) if stalled else None

    def run_due(self, now_ns: int) -> bool:
        """Do what is due. Returns whether to send the next request."""
        if now_ns < self.due_ns:
            return False
        if self.phase is Phase.COPYING:
            self._patience.not_heard()
            self._retry(now_ns)
        elif self.phase is Phase.ASKING:
            self._patience.not_answered()
            self._fail(None, now_ns)
        return self.phase is Phase.WAITING and now_ns >= self.due_ns

    def not_stored(self, error: ErrorDocument | None, now_ns: int) -> None:
        """Begin again behind what is applied: messages that were accepted are not stored."""
        if self.phase is not Phase.WAITING:
            self._fail(error, now_ns)

    # --- description ---------------------------------------------------------------------------

    @property
    def is_nearly_caught_up(self) -> bool:
        """Whether the stream lacks few messages of the origin, as far as that is known."""
        return self.phase is Phase.COPYING and 0 <= self._pending < NEARLY_CAUGHT_UP

    @property
    def heard_ns(self) -> int:
        """When the origin was last heard of; 0 if it never was."""
        return self._heard_ns

    def info(self, now_ns: int) -> StreamSourceInfo:
        """The document about the origin in the description of the stream. As in nats-server, it has
        the filter of a mirror once the origin was asked and something is known of it."""
        source = self.origin.source
        is_known = bool(self._heard_ns or self.error or not self.origin.is_mirrored)
        return StreamSourceInfo(
            name=source.name,
            external=source.external,
            lag=self.lag,
            seq=0 if self.origin.is_mirrored else self.sequence,
            active=max(now_ns - self._heard_ns, 0) if self._heard_ns else -1,
            error=self.error,
            filter_subject=source.filter_subject if is_known else "",
            subject_transforms=source.subject_transforms,
        )


def _count_in_order(arrivals: Arrivals, number: int) -> int:
    """The number of messages at the front whose numbers follow each other from `number` on, and
    whose sequences ascend."""
    count, numbers, sequences = len(arrivals), arrivals.numbers, arrivals.sequences
    if numbers == [*range(number, number + count)] and all(
        map(int.__lt__, sequences, sequences[1:])
    ):
        return count
    for position in range(count):
        is_next = numbers[position] == number + position
        if not is_next or (position and sequences[position] <= sequences[position - 1]):
            return position
    return count
