"""Admission: the checks of all publishes of one turn to one stream, one after the other.

An Admission applies the rules (`checks`, `schedule`) in the order of nats-server: a client learns
the first of several reasons for a refusal. Accepted messages are added to a draft, so that
each message is checked as if those before it were stored.

Admission changes nothing: the result is records.
"""

from typing import Final, final

from headwater.jetstream import error_codes
from headwater.jetstream import header_names as names
from headwater.jetstream.errors import ApiError
from headwater.jetstream.records import Published, Record, Skipped
from headwater.jetstream.streams.dedupe import ids_in
from headwater.jetstream.streams.effects import Purge, purges_of
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.jetstream.streams.publishing import checks
from headwater.jetstream.streams.publishing.checks import Control, DuplicateError
from headwater.jetstream.streams.publishing.draft import Draft
from headwater.jetstream.streams.publishing.rules import PublishRules
from headwater.jetstream.streams.publishing.ttl import NEVER, expiry_ns, raised_to_marker
from headwater.jetstream.streams.schedules.schedule import Copy, check_schedule, check_scheduler
from headwater.store.log.message_log import Batch
from headwater.wire.headers import without

_REQUEST_INFO: Final = b"Nats-Request-Info"


@final
class Admission:
    """The accepted messages of one turn."""

    __slots__ = (
        "_expiries_ns",
        "_headers",
        "_is_atomic",
        "_payloads",
        "_records",
        "_rolls_up",
        "_server_refusal",
        "_subjects",
        "_timestamps_ns",
        "draft",
        "now_ns",
        "republished",
        "rules",
    )

    def __init__(self, rules: PublishRules, look_ahead: LookAhead, now_ns: int) -> None:
        self.rules = rules
        self.now_ns = now_ns
        self.draft = Draft(look_ahead)
        self._server_refusal = rules.server_refusal()
        # Messages to republish, as subject, header and body.
        self.republished: list[tuple[bytes, bytes, bytes]] = []
        self._records: list[Record] = []
        # Whether the messages of an atomic batch are being checked.
        self._is_atomic = False
        self._begin_record()

    def finish(self) -> list[Record]:
        """The records of all accepted messages."""
        self._end_record()
        return self._records

    # --- the ways in ---------------------------------------------------------------------------

    def admit(self, subject: bytes, header: bytes, body: bytes) -> tuple[int, bytes]:
        """Accept a message. Returns its sequence and the body to store.

        Raises ApiError with the reason of a refusal, DuplicateError if the message is stored
        already.
        """
        rules = self.rules
        config = rules.config
        subject = rules.transformed(subject)
        checks.check_arrival(config, subject, header, body)
        control: Control = {}
        increment = None
        if header:
            header = _without_request_info(header)
            control = names.read_control_headers(header)
            if checks.RULED_HEADERS.isdisjoint(control) and names.SCHEDULE not in header:
                checks.check_duplicate(self.draft, control, self.now_ns)
            else:
                increment = checks.check_increment(config, control, body)
                header, control = self._ruled(subject, header, control)
        if config.allow_msg_counter:
            header, body = self._counted(subject, header, body, increment)
        self.check_server()
        return self._accept_within_limits(subject, header, body, control), body

    def _ruled(self, subject: bytes, header: bytes, control: Control) -> tuple[bytes, Control]:
        """Apply the rules for headers, which may add a header."""
        config, draft = self.rules.config, self.draft
        checks.check_expected_stream(config, control)
        checks.check_ttl_allowed(config, control)
        checks.check_expected_subject_sequence(draft, control, subject)
        checks.check_expected_sequence(draft, control)
        header, control = self._scheduled(subject, header, control)
        checks.check_not_sourced(control)
        checks.check_duplicate(draft, control, self.now_ns)
        checks.check_expected_id(draft, control)
        checks.check_rollup(config, control)
        return header, control

    def admit_in_batch(self, subject: bytes, header: bytes, body: bytes) -> int:
        """Accept a message of a batch. Returns its sequence. Raises what `admit` raises.

        The rules are applied in another order, and messages of an atomic batch have rules among
        themselves. The batch itself applies the rules for an arriving message.
        """
        rules, draft = self.rules, self.draft
        config = rules.config
        subject = rules.transformed(subject)
        header = _without_request_info(header)
        control = names.read_control_headers(header)
        if self._is_atomic:
            checks.check_no_expected_id(control)
        checks.check_record_size(config, subject, header, body)
        checks.check_header_size(header)
        increment = checks.check_increment(config, control, body)
        checks.check_expected_stream(config, control)
        checks.check_ttl_in_batch(config, control)
        checks.check_duplicate(draft, control, self.now_ns)
        checks.check_not_sourced(control)
        if config.allow_msg_counter:
            header, body = self._counted(subject, header, body, increment)
        if self._is_atomic:
            checks.check_sequences_in_batch(draft, control, subject)
        else:
            checks.check_expected_sequence(draft, control)
            checks.check_expected_subject_sequence(draft, control, subject)
            checks.check_expected_id(draft, control)
        header, control = self._scheduled(subject, header, control)
        checks.check_rollup(config, control)
        if self._is_atomic:
            checks.check_rollup_in_batch(draft, control, subject)
        return self._accept_within_limits(subject, header, body, control, is_in_batch=True)

    def admit_together(self, messages: list[tuple[bytes, bytes, bytes]]) -> int:
        """Accept subjects, headers and bodies all or not at all. Returns the last sequence.

        Raises ApiError if one of them is refused.
        """
        self._end_record()
        if self._take_all(messages):
            return self.draft.next_sequence - 1
        records, republished = len(self._records), len(self.republished)
        begin = self.draft.begin_batch()
        self._is_atomic = True
        last = 0
        try:
            for subject, header, body in messages:
                last = self.admit_in_batch(subject, header, body)
        except (ApiError, DuplicateError) as reason:
            self.draft.go_back(begin)
            del self._records[records:], self.republished[republished:]
            self._begin_record()
            if isinstance(reason, ApiError):
                raise
            duplicate = error_codes.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE
            raise ApiError.of(duplicate) from None
        finally:
            self._is_atomic = False
        return last

    def _take_all(self, messages: list[tuple[bytes, bytes, bytes]]) -> bool:
        """Accept a whole batch if no message needs a check of its own. Returns whether it did."""
        rules, draft = self.rules, self.draft
        subjects, headers, bodies = map(list, zip(*messages, strict=True))
        sizes = [*map(rules.stored_size, subjects, headers, bodies)]
        subject_bytes, largest = sum(map(len, subjects)), max(sizes)
        if not rules.takes_plain or not checks.pass_all(
            rules.config, draft, subjects, headers, subject_bytes, largest, checks.BATCH_LINES
        ):
            return False
        try:
            rules.check_account_limits(draft.byte_count + sum(sizes))
        except ApiError:
            return False
        columns = zip(subjects, sizes, headers, bodies, strict=True)
        for message_id, message in zip(ids_in(headers), columns, strict=True):
            draft.add(message, message_id, [])
        self._subjects += subjects
        self._headers += headers
        self._payloads += bodies
        self._timestamps_ns += [self.now_ns] * len(messages)
        self._expiries_ns += [0] * len(messages)
        return True

    def admit_copy(self, copy: Copy) -> None:
        """Accept the message that a schedule publishes. Its headers are not checked, limits are.

        Raises ApiError.
        """
        rules = self.rules
        subject = rules.transformed(copy.subject)
        checks.check_subject_size(subject)
        checks.check_not_sealed(rules.config)
        checks.check_message_size(rules.config, copy.block, copy.body)
        checks.check_header_size(copy.block)
        self.check_server()
        self._accept_within_limits(
            subject, copy.block, copy.body, names.read_control_headers(copy.block)
        )

    def admit_mirrored(
        self, subject: bytes, header: bytes, body: bytes, sequence: int, timestamp_ns: int
    ) -> None:
        """Accept a message of a mirror's origin, with the sequence and the time that it has there.

        Raises ApiError.
        """
        if sequence > self.draft.next_sequence:
            self.pass_over(sequence - 1)
        self.now_ns = timestamp_ns
        self._admit_copy(subject, header, body)

    def admit_sourced(self, subject: bytes, header: bytes, body: bytes) -> None:
        """Accept a message of a source, whose header names its origin. Raises what `admit`
        raises."""
        control = names.read_control_headers(header)
        checks.check_duplicate(self.draft, control, self.now_ns)
        self._admit_copy(subject, header, body)

    def _admit_copy(self, subject: bytes, header: bytes, body: bytes) -> None:
        """Accept a copied message. Its original was checked by its own stream, so only the rules
        for the room of this one are applied."""
        rules = self.rules
        config = rules.config
        subject = rules.transformed(subject)
        header = _without_request_info(header)
        control = names.read_control_headers(header)
        checks.check_record_size(config, subject, header, body)
        checks.check_not_sealed(config)
        if config.allow_msg_counter:
            increment = checks.check_increment(config, control, b"")
            header, body = checks.merged_count(
                config, self.draft, subject, header, body, increment, rules.host.server.max_payload
            )
        checks.check_message_size(config, header, body)
        checks.check_header_size(header)
        self.check_server()
        self._accept_within_limits(subject, header, body, control)

    def pass_over(self, sequence: int) -> None:
        """Give out all sequences up to this one without messages."""
        self._end_record()
        self._records.append(Skipped(sequence, b"", b"", max(self.draft.last_ns, 0)))
        self.draft.pass_over(sequence)

    @property
    def records(self) -> int:
        """The number of records that are complete."""
        return len(self._records)

    def end_record(self) -> None:
        """Have the next message begin a record."""
        self._end_record()

    def place(self, subject: bytes, header: bytes) -> None:
        """Accept a message that the stream itself writes, without checks."""
        control = names.read_control_headers(header)
        header, expiry = self._expiry(control, header)
        self._accept(subject, header, b"", control, expiry)

    # --- steps on the way ----------------------------------------------------------------------

    def _scheduled(self, subject: bytes, header: bytes, control: Control) -> tuple[bytes, Control]:
        """Check the schedule headers of a message; a schedule gets a roll-up header."""
        if names.SCHEDULE not in header:
            return header, control
        rules, draft = self.rules, self.draft
        checked = check_schedule(
            header, subject, rules.schedule_rules, self.now_ns, rules.host.server.find_zone
        )
        if checked != header:
            header = checked
            control = names.read_control_headers(header)

        def last_header_of(scheduler: bytes) -> bytes | None:
            content = draft.messages.content_of(scheduler)
            return None if content is None else content[0]

        check_scheduler(header, subject, rules.schedule_rules.allowed, last_header_of)
        return header, control

    def _counted(
        self, subject: bytes, header: bytes, body: bytes, increment: int | None
    ) -> tuple[bytes, bytes]:
        """Replace the increment of a counter by its total."""
        config, bytes_max = self.rules.config, self.rules.host.server.max_payload
        return checks.counted(config, self.draft, subject, header, body, increment, bytes_max)

    def check_server(self) -> None:
        """Raises ApiError if the server is full; the answer does not change within a turn."""
        if self._server_refusal is not None:
            raise self._server_refusal

    def _accept_within_limits(
        self,
        subject: bytes,
        header: bytes,
        body: bytes,
        control: Control,
        is_in_batch: bool = False,
    ) -> int:
        """Check limits and interest, and accept the message. Returns its sequence."""
        rules = self.rules
        if not rules.has_interest(subject):
            return self._skip(subject, header, control)
        size = rules.stored_size(subject, header, body)
        rules.check_account_limits(self.draft.byte_count + size)
        expiry = 0
        if names.TTL in control:
            header, expiry = self._expiry(control, header)
        if rules.refuses_when_full:
            messages, rolls_up = self.draft.messages, names.ROLLUP in control
            checks.check_room(rules.config, messages, subject, size, rolls_up, is_in_batch)
        return self._accept(subject, header, body, control, expiry)

    def _expiry(self, control: Control, header: bytes) -> tuple[bytes, int]:
        """The header, in which the TTL may be raised, and the time at which the message expires."""
        seconds = checks.read_ttl(control)
        config = self.rules.config
        if seconds == NEVER or not config.allow_msg_ttl:
            return header, 0
        if config.max_msgs_per_subject != 1:
            header, seconds = raised_to_marker(header, seconds, config.subject_delete_marker_ttl)
        return header, expiry_ns(self.now_ns, seconds) if seconds else 0

    def _accept(
        self, subject: bytes, header: bytes, body: bytes, control: Control, expiry: int
    ) -> int:
        rules = self.rules
        if rules.republisher is not None:
            self._republish(subject, header, body)
        purges: list[Purge] = []
        if rules.may_roll_up and control:
            purges = purges_of(control, subject, self.draft.next_sequence, rules.config)
            self._rolls_up |= bool(purges)
        message = (subject, rules.stored_size(subject, header, body), header, body)
        sequence = self.draft.add(message, control.get(names.MSG_ID, b""), purges)
        self._subjects.append(subject)
        self._headers.append(header)
        self._payloads.append(body)
        self._timestamps_ns.append(self.now_ns)
        self._expiries_ns.append(expiry)
        return sequence

    def _skip(self, subject: bytes, header: bytes, control: Control) -> int:
        """Assign a sequence to a message that no consumer is interested in."""
        self._end_record()
        sequence = self.draft.skip(control.get(names.MSG_ID, b""))
        self._records.append(Skipped(sequence, subject, header, self.now_ns))
        purges = purges_of(control, subject, sequence + 1, self.rules.config)
        self.draft.messages.skip(purges)
        return sequence

    def _republish(self, subject: bytes, header: bytes, body: bytes) -> None:
        rules, draft = self.rules, self.draft
        last = draft.messages.last_sequence_of(subject)
        message = rules.republished(subject, header, body, draft.next_sequence, last, self.now_ns)
        if message is not None:
            self.republished.append(message)

    # --- records -------------------------------------------------------------------------------

    def _begin_record(self) -> None:
        self._subjects: list[bytes] = []
        self._headers: list[bytes] = []
        self._payloads: list[bytes] = []
        self._timestamps_ns: list[int] = []
        self._expiries_ns: list[int] = []
        self._rolls_up = False

    def _end_record(self) -> None:
        count = len(self._subjects)
        if not count:
            return
        batch = Batch(
            self._subjects,
            self._headers,
            self._payloads,
            self._timestamps_ns,
            self._expiries_ns if any(self._expiries_ns) else None,
        )
        first = self.draft.next_sequence - count
        self._records.append(Published(first, batch, self._rolls_up))
        self.draft.last_ns = self._timestamps_ns[-1]
        self._begin_record()


def _without_request_info(header: bytes) -> bytes:
    """The header without the line that a service import has added, which is not stored."""
    return without(header, _REQUEST_INFO) if _REQUEST_INFO in header else header
