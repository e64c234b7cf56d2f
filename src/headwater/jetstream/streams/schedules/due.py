"""Timed work of a stream: messages expire, schedules publish, silent batches end.

All changes of the stream are decided here and returned as records. The state between two calls only
saves work or delays a retry, and is lost with a restart.
"""

from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.go.durations import format_duration
from headwater.jetstream import header_names as names
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record, Removed
from headwater.jetstream.streams.dedupe import DedupeWindow
from headwater.jetstream.streams.foreseen import Foreseen
from headwater.jetstream.streams.publishing.admission import Admission
from headwater.jetstream.streams.publishing.publishing import Publishing
from headwater.jetstream.streams.publishing.ttl import NEVER, TtlError, ttl_of
from headwater.jetstream.streams.schedules.scheduling import Scheduling
from headwater.jetstream.streams.view import StreamView
from headwater.store.errors import DamagedMessageError
from headwater.wire.headers import value_of

# A schedule whose copy was refused tries again after this time.
REFUSED_COPY_RETRY_NS: Final = NS_PER_S
# The time after which a message is looked at again that cannot be read before it is repaired.
DAMAGE_RETRY_NS: Final = NS_PER_S
# Ids past their window are dropped when others are added; without others, after this time.
IDS_FORGOTTEN_AFTER_NS: Final = 10 * NS_PER_S
# The rest is left for the next call, so that other work is not delayed.
GONE_AT_ONCE_MAX: Final = 2_000

_KV_OPERATION: Final = b"KV-Operation"
_KV_PURGE: Final = b"PURGE"


@final
class DueWork:
    """The timed work of one stream."""

    __slots__ = (
        "_aged_before",
        "_ages_wait_until_ns",
        "_atomic_batches",
        "_copies_wait_until_ns",
        "_dedupe",
        "_fast_batches",
        "_publishing",
        "_scheduling",
        "_view",
    )

    def __init__(
        self,
        view: StreamView,
        dedupe: DedupeWindow,
        scheduling: Scheduling,
        publishing: Publishing,
    ) -> None:
        self._view = view
        self._dedupe = dedupe
        self._scheduling = scheduling
        self._publishing = publishing
        self._atomic_batches = publishing.atomic_batches
        self._fast_batches = publishing.fast_batches
        # All messages before this sequence were found to stay, however old they are.
        self._aged_before = 0
        # Messages that cannot be read are not checked again before this time.
        self._ages_wait_until_ns = 0
        # Schedules are not tried again before this time.
        self._copies_wait_until_ns = 0

    def reconfigured(self) -> None:
        """Check the age of all messages again, because the limits of the stream changed."""
        self._aged_before = 0

    def next_ns(self) -> int:
        """When work may be due; 0 for never."""
        view = self._view
        # Most streams have nothing of the kind. Every publish asks, so this makes no calls.
        if not (
            view.config.max_age > 0
            or view.log.expiries.heap
            or self._atomic_batches.open
            or self._fast_batches.open
            or self._scheduling.table.heap
            or self._dedupe.ids
        ):
            return 0
        return self._earliest_ns()

    def _earliest_ns(self) -> int:
        scheduled_ns = self._scheduling.next_due_ns()
        ids_end_ns = self._dedupe.next_end_ns()
        if self._has_replicas and ids_end_ns > self._view.log.index.end()[1]:
            ids_end_ns = 0
        times = (
            self._next_age_ns(),
            self._view.log.expiries.next_ns(),
            self._atomic_batches.next_end_ns(),
            self._fast_batches.next_end_ns(),
            scheduled_ns and max(scheduled_ns, self._copies_wait_until_ns),
            ids_end_ns and ids_end_ns + IDS_FORGOTTEN_AFTER_NS,
        )
        return min(filter(None, times), default=0)

    @property
    def _has_replicas(self) -> bool:
        """Whether other servers have the ids too. These end by the times of messages alone then: a
        clock that is ahead would leave this server without ids that count on the others."""
        return self._view.config.num_replicas > 1 or self._view.log.is_replica

    def decide(self, now_ns: int) -> Proposal[Record]:
        """Decide about all work that is due at `now_ns`."""
        decision: Proposal[Record] = Proposal()
        _, last_ns = self._view.log.index.end()
        self._dedupe.forget_before(min(now_ns, last_ns) if self._has_replicas else now_ns)
        admission = self._publishing.admission(now_ns)
        gone = self._gone(now_ns)
        if gone:
            decision.records.append(Removed(gone))
            self._place_markers(gone, admission)
        self._publish_copies(admission)
        decision.records += admission.finish()
        decision.republished = admission.republished
        self._atomic_batches.give_up_idle(now_ns, decision)
        self._fast_batches.give_up_idle(now_ns)
        return decision

    # --- messages that go ----------------------------------------------------------------------

    def _gone(self, now_ns: int) -> list[int]:
        """The visible messages that expire, in order."""
        visible = self._view.visible_sequence
        due = set(self._view.log.due_by_expiry(now_ns, GONE_AT_ONCE_MAX))
        due.update(self._aged(now_ns))
        return sorted(sequence for sequence in due if sequence <= visible)

    def _next_age_ns(self) -> int:
        log, max_age_ns = self._view.log, self._view.config.max_age
        if max_age_ns <= 0:
            return 0
        sequence = log.index.next_message(max(self._aged_before, log.first_sequence))
        if not sequence:
            return 0
        return max(log.index.timestamp_of(sequence) + max_age_ns, self._ages_wait_until_ns)

    def _aged(self, now_ns: int) -> list[int]:
        """The messages beyond the age limit; those that stay are not checked again."""
        view = self._view
        log, max_age_ns = view.log, view.config.max_age
        if max_age_ns <= 0:
            return []
        if not view.config.allow_msg_ttl:
            return log.due_by_age(now_ns - max_age_ns + 1, GONE_AT_ONCE_MAX)
        aged = []
        sequence = log.index.next_message(max(self._aged_before, log.first_sequence))
        # The rest is checked the next time, even if all of these stay.
        for _ in range(GONE_AT_ONCE_MAX):
            if not 0 < sequence <= view.visible_sequence:
                break
            if log.index.timestamp_of(sequence) + max_age_ns > now_ns:
                break
            try:
                if not self._stays(sequence):
                    aged.append(sequence)
            except DamagedMessageError:
                # Its age is checked again once its record has come from another server.
                self._ages_wait_until_ns = now_ns + DAMAGE_RETRY_NS
                break
            sequence = log.index.next_message(sequence + 1)
        self._aged_before = aged[0] if aged else sequence or log.last_sequence + 1
        return aged

    def _stays(self, sequence: int) -> bool:
        """Whether a message has a TTL of `never`. Raises DamagedMessageError."""
        message = self._view.log.get(sequence)
        try:
            return message is not None and ttl_of(message.header) == NEVER
        except TtlError:
            return False

    # --- markers -------------------------------------------------------------------------------

    def _place_markers(self, gone: list[int], admission: Admission) -> None:
        """Store a delete marker for each subject that has lost its last message; it expires too."""
        config = self._view.config
        ttl_s = config.subject_delete_marker_ttl // NS_PER_S
        # A delete marker would become the first value of a counter that begins again.
        if ttl_s <= 0 or config.allow_msg_counter:
            return
        ttl = format_duration(ttl_s * NS_PER_S).encode()
        header = (
            b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %b\r\nNats-Rollup: sub\r\n\r\n"
            % ttl
        )
        for subject in self._emptied(gone, admission.draft.messages):
            admission.place(subject, header)

    def _emptied(self, gone: list[int], messages: Foreseen) -> list[bytes]:
        """The subjects without a message left whose last message was not a marker itself."""
        log = self._view.log
        lasts: dict[bytes, int] = {}
        left: dict[bytes, int] = {}
        for sequence in filter(messages.has, gone):
            subject = log.subject_of(sequence)
            left[subject] = left.get(subject, messages.count_of(subject)) - 1
            lasts[subject] = sequence
        return [
            subject
            for subject, count in left.items()
            if count == 0 and not self._is_an_end(lasts[subject])
        ]

    def _is_an_end(self, sequence: int) -> bool:
        try:
            message = self._view.log.get(sequence)
        except DamagedMessageError:
            # A marker behind another marker does no harm.
            return False
        if message is None or not message.header:
            return False
        if value_of(message.header, names.MARKER_REASON):
            return True
        return value_of(message.header, _KV_OPERATION) == _KV_PURGE

    # --- schedules -----------------------------------------------------------------------------

    def _publish_copies(self, admission: Admission) -> None:
        view, now_ns = self._view, admission.now_ns
        due_ns = self._scheduling.next_due_ns()
        if not due_ns or max(due_ns, self._copies_wait_until_ns) > now_ns:
            return

        def last_of(subject: bytes) -> tuple[bytes, bytes] | None:
            message = view.last_message(subject)
            return None if message is None else (message.header, message.payload)

        refused: list[int] = []
        for sequence, copy in self._scheduling.take_due(view.log, now_ns, last_of, refused):
            try:
                admission.admit_copy(copy)
            except ApiError:
                refused.append(sequence)
        if refused:
            self._scheduling.give_back(refused)
            self._copies_wait_until_ns = now_ns + REFUSED_COPY_RETRY_NS
