"""Publishing: the decisions about the publishes to one stream.

Most publishes need no check of their own, and a whole turn of them becomes one record. All others
are checked one by one by an `Admission`. Open batches are part of this state: they live in memory,
and end with the stream.

Decisions read the look-ahead and change nothing durable.
"""

from collections.abc import Callable
from typing import final

from headwater.jetstream import header_names as names
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Published, Record
from headwater.jetstream.streams.host import Host
from headwater.jetstream.streams.limits import OVERHEAD_BYTES_MAX
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.jetstream.streams.publishing import checks
from headwater.jetstream.streams.publishing.admission import Admission
from headwater.jetstream.streams.publishing.atomic_batch import AtomicBatches
from headwater.jetstream.streams.publishing.batch_changes import BatchChanges
from headwater.jetstream.streams.publishing.checks import DuplicateError
from headwater.jetstream.streams.publishing.fast_batch import (
    SUFFIX,
    FastBatches,
    is_fast,
    none_is_fast,
)
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.jetstream.streams.publishing.pub_acks import PubAcks
from headwater.jetstream.streams.publishing.rules import PublishRules
from headwater.store.disk.format import SUBJECT_BYTES_MAX
from headwater.store.log.message_log import Batch, MessageLog
from headwater.subjects.grammar import has_wildcard
from headwater.wire.headers import value_of, without_status


@final
class Publishing:
    """Decides about the publishes to one stream."""

    __slots__ = (
        "_ack_begins",
        "_config",
        "_host",
        "_is_wanted",
        "_log",
        "_look_ahead",
        "acks",
        "atomic_batches",
        "fast_batches",
        "rules",
    )

    def __init__(
        self,
        config: StreamConfig,
        log: MessageLog,
        look_ahead: LookAhead,
        host: Host,
        is_wanted: Callable[[bytes], bool],
    ) -> None:
        """`is_wanted` returns whether a subject matters to a consumer, when all that is in flight
        is applied."""
        self._log = log
        self._look_ahead = look_ahead
        self._host = host
        self._is_wanted = is_wanted
        self.acks = PubAcks(config.name, host.server.domain)
        self._ack_begins = self.acks.begins
        self.atomic_batches = AtomicBatches(self.acks, host.server.batch_room)
        self.fast_batches = FastBatches(self.acks, host.server.batch_room)
        self.configure(config)

    def configure(self, config: StreamConfig) -> None:
        """Use another configuration."""
        self._config = config
        self.rules = PublishRules(config, self._host, self._is_wanted)

    def drop_batches(self) -> None:
        """Drop the open batches of a stream that ends."""
        self.atomic_batches.clear()
        self.fast_batches.clear()

    def retreat(self, changes: BatchChanges) -> None:
        """Undo the changes of open batches by a proposal that is refused."""
        self.atomic_batches.drop(changes.atomic)
        self.fast_batches.restore(changes.fast)

    def admission(self, now_ns: int) -> Admission:
        """The checks of one turn, over all records in flight."""
        return Admission(self.rules, self._look_ahead, now_ns)

    def decide(self, incoming: Incoming, now_ns: int) -> Proposal[Record]:
        """Decide about publishes: records for those accepted, replies for all that asked."""
        if len(incoming.payloads) == 1 and incoming.header_sizes[0] < 0:
            accepted = self._decide_one(incoming, now_ns)
            if accepted is not None:
                return accepted
        now_ns = self._look_ahead.stream_time(now_ns)
        decision: Proposal[Record] = Proposal()
        if self.rules.takes_plain and self._accepts_all(incoming, now_ns, decision):
            return decision
        admission = Admission(self.rules, self._look_ahead, now_ns)
        for subject, reply, header_size, payload in zip(
            incoming.subjects,
            incoming.replies,
            incoming.header_sizes,
            incoming.payloads,
            strict=True,
        ):
            header = b""
            if header_size >= 0:
                header = without_status(payload[:header_size])
                payload = payload[header_size:]
            if reply is not None and is_fast(reply):
                self.fast_batches.take(admission, decision, reply, subject, header, payload)
            else:
                self._admit(admission, decision, subject, reply, header, payload)
        decision.records = admission.finish()
        decision.republished = admission.republished
        return decision

    def long_lookup(self, incoming: Incoming) -> tuple[int, bytes] | None:
        """The position of the first publish that expects the last sequence of a pattern which is
        not prepared, with the pattern: it would be compared with very many subjects."""
        if max(incoming.header_sizes) <= 0 or not self._log.has_many_subjects:
            return None
        name = names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT
        for position, payload in enumerate(incoming.payloads):
            if name not in payload:
                # Nearly every publish; a look at its header would cost more.
                continue
            header = payload[: max(incoming.header_sizes[position], 0)]
            pattern = value_of(header, name)
            if pattern and has_wildcard(pattern) and self._log.needs_preparing((pattern,)):
                return position, pattern
        return None

    def _accepts_all(self, incoming: Incoming, now_ns: int, decision: Proposal[Record]) -> bool:
        """Accept publishes if none needs a check of its own. Returns whether it did."""
        ahead, config = self._look_ahead, self._config
        subjects, payloads, replies = incoming.subjects, incoming.payloads, incoming.replies
        count = len(payloads)
        subject_bytes, largest = sum(map(len, subjects)), max(map(len, payloads))
        headers, bodies = incoming.parted()
        if not none_is_fast(replies) or not checks.pass_all(
            config, ahead, subjects, headers, subject_bytes, largest
        ):
            return False
        size = sum(map(len, payloads)) + subject_bytes + count * OVERHEAD_BYTES_MAX
        if ahead.messages:
            size += ahead.byte_count
        if not self._host.has_room(config.storage, size * (config.num_replicas or 1)):
            return False
        first = ahead.next_sequence
        batch = Batch(subjects, headers, bodies, [now_ns] * count)
        decision.records.append(Published(first, batch))
        if config.no_ack:
            return True
        begins = self._ack_begins
        decision.reply_subjects = [reply for reply in replies if reply is not None]
        if len(decision.reply_subjects) == count:
            decision.replies = [b"%b%d}" % (begins, seq) for seq in range(first, first + count)]
        else:
            decision.replies = [
                b"%b%d}" % (begins, sequence)
                for sequence, reply in enumerate(replies, first)
                if reply is not None
            ]
        return True

    def _decide_one(self, incoming: Incoming, now_ns: int) -> Proposal[Record] | None:
        """Do what `_accepts_all` does, for one publish without headers: most turns have no more.

        Returns None if the publish needs a check of its own.
        """
        rules, ahead, reply = self.rules, self._look_ahead, incoming.replies[0]
        subjects, payloads = incoming.subjects, incoming.payloads
        subject_bytes, body_bytes = len(subjects[0]), len(payloads[0])
        # The conditions of `checks.pass_all` for one publish, without a call.
        if (
            not rules.takes_plain
            or body_bytes > rules.plain_bytes_max
            or subject_bytes > SUBJECT_BYTES_MAX
            or (reply is not None and SUFFIX in reply)
        ):
            return None
        size = body_bytes + subject_bytes + OVERHEAD_BYTES_MAX
        if ahead.messages:
            size += ahead.byte_count
        config = self._config
        if not self._host.has_room(config.storage, size * (config.num_replicas or 1)):
            return None
        sequence, last_ns = ahead.end()
        batch = Batch(subjects, [b""], payloads, [now_ns if now_ns > last_ns else last_ns])
        decision: Proposal[Record] = Proposal([Published(sequence, batch)])
        if reply is not None and not self._config.no_ack:
            decision.reply_subjects.append(reply)
            decision.replies.append(b"%b%d}" % (self._ack_begins, sequence))
        return decision

    def _admit(
        self,
        admission: Admission,
        decision: Proposal[Record],
        subject: bytes,
        reply: bytes | None,
        header: bytes,
        body: bytes,
    ) -> None:
        """Check one publish, and reply if it asked for a reply."""
        try:
            batch_id = value_of(header, names.BATCH_ID) if header else None
            if batch_id:
                answer = self.atomic_batches.take(
                    admission, decision, batch_id, subject, header, body
                )
            else:
                sequence, body = admission.admit(subject, header, body)
                answer = self._ack(sequence, body)
        except ApiError as error:
            answer = self.acks.refusal(error)
        except DuplicateError as duplicate:
            answer = self.acks.duplicate_ack(duplicate.sequence)
        if reply is not None and not self._config.no_ack:
            decision.reply(reply, answer, admission.draft.next_sequence - 1)

    def _ack(self, sequence: int, body: bytes) -> bytes:
        if self._config.allow_msg_counter:
            return self.acks.counter_ack(sequence, body)
        return b"%b%d}" % (self._ack_begins, sequence)

    def refuse(self, incoming: Incoming, error: ApiError) -> Proposal[Record]:
        """Refuse all publishes with one error, because the log cannot accept them."""
        decision: Proposal[Record] = Proposal()
        if not self._config.no_ack:
            answer = self.acks.refusal(error)
            for reply in incoming.replies:
                if reply is not None:
                    decision.reply(reply, answer)
        return decision
