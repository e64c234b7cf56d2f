"""A stream and its consumers behind a group whose commits are made by hand.

The driver proposes as a server does: publishes and due work are decided over the records in flight,
a request is decided over them or when nothing is in flight, and steps of a consumer wait while it
is changed. Entries of a stream on disk go to the write-ahead file by the committer of
`always`; one of a stream in memory is committed when the test says so. `write` begins a commit,
`commit` ends it, and `retreat` forgets everything that no commit covers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headwater.base.sliced import at_once
from headwater.jetstream import error_codes
from headwater.jetstream.account import AccountLimits, JetStreamAccount
from headwater.jetstream.committers import StreamEntries, Synced
from headwater.jetstream.config.consumer_checks.changes import check_addition
from headwater.jetstream.config.consumer_checks.checks import normalised
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig
from headwater.jetstream.config.consumer_defaults import ConsumerSurroundings
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.consumers import steps
from headwater.jetstream.consumers.changes_ahead import Hold, hold_of
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.records import (
    LONG_RECORDS,
    Acked,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerReset,
    Pinned,
)
from headwater.jetstream.consumers.start import starting
from headwater.jetstream.errors import ApiError
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import Answered, Proposal
from headwater.jetstream.records import Configured, Published, Record
from headwater.jetstream.streams.file import encode_body
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.stream import Stream
from headwater.store.errors import StoreError
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog
from headwater.store.store import SyncMode
from tests.kit.consumer_driver import NAME as CONSUMER
from tests.kit.consumer_driver import ConsumerDriver
from tests.kit.stream_driver import BEGINNING_NS, NAME, Answer, Publish, incoming_of

NEVER_NS: Final = 1 << 62
REFUSED: Final = ApiError.of(error_codes.STREAM_STORE_FAILED, err="not the leader")


class Decided(NamedTuple):
    """Publishes, and when they were decided.

    `is_exact` says that no acknowledgement was in flight by which a message may leave the stream:
    such a message counts until the acknowledgement is committed.
    """

    messages: Sequence[Publish]
    now_ns: int
    is_exact: bool


class InMemory:
    """The committer of a stream without files: entries are committed on the word of the test."""

    def __init__(self) -> None:
        self.committed = 0
        self._proposed = self._begun = 0

    def commit(self, entries: list[Proposal[Record]], is_behind: bool) -> int:
        self._proposed = entries[-1].index
        return 0 if is_behind or entries[-1].is_awaited else self._proposed

    def begin(self) -> None:
        self._begun = self._proposed

    def finish(self) -> None:
        self.committed = max(self.committed, self._begun)

    def note_applied(self, index: int) -> None:
        """There are no files that could be behind."""

    def stalled(self) -> None:
        raise AssertionError("memory has room for every entry")

    def failed(self) -> None:
        raise AssertionError("memory does not fail")

    def retreat(self, index: int) -> None:
        self._proposed = self._begun = index


class HeldDriver(ConsumerDriver):
    """One stream with its account, its group and its consumers."""

    def __init__(self, storage: Storage, holds_all: bool = False, **config: Any) -> None:
        """`holds_all` has entries that nobody waits for wait for a commit of their own, too."""
        self._holds_all = holds_all
        # A batch that times out is dropped by the leader alone, whatever is in flight.
        super().__init__(storage, BatchLimits(idle_ns_max=NEVER_NS), **config)
        self._is_begun = False
        # The changes of consumers that are in flight: meanwhile consumers take no step.
        self._changing: list[Proposal[Record]] = []
        # The due work in flight: until it is applied, the stream would decide it again.
        self._due: Proposal[Record] | None = None
        self._decided: dict[Proposal[Record], Decided] = {}
        self.memory = InMemory()
        log = self.stream.log
        self.committer: InMemory | Synced[Record] = self.memory
        if isinstance(log, FileLog):
            entries = StreamEntries(self.stream, log)
            self.committer = Synced(log, entries.add, _ignore, _ignore)
        self.group: Group[Record, ApiError] = Group(self.stream, self)
        self.stream.consumers.commit_later()
        # Called with each proposal that is applied, before its effects leave, and with those that
        # are refused.
        self.follow_applied: Callable[[Proposal[Record], Decided | None], object] = _ignore
        self.follow_refused: Callable[[Proposal[Record]], object] = _ignore

    # --- parts ---------------------------------------------------------------------------------

    def _new_log(self) -> MessageLog:
        if self.config.storage is Storage.MEMORY:
            return MemoryLog(1)
        self._store = self._open_store(self.disk)
        body = encode_body(self.config, self.now_ns)
        return self._store.create_stream(NAME, body, mode=SyncMode.ALWAYS)

    def _shadow_log(self, storage: Storage) -> MessageLog:
        # The replica of this driver is another driver.
        return MemoryLog(1)

    def _new_stream(self, log: MessageLog) -> Stream:
        self.account = JetStreamAccount("A", AccountLimits(), self.host.server)
        stream = Stream(self.config, log, BEGINNING_NS, self.account)
        self.account.add_stream(stream)
        return stream

    # --- proposals -----------------------------------------------------------------------------

    def propose(self, proposal: Proposal[Record]) -> None:
        group = self.group
        group.propose(proposal)
        entries = group.ready().entries
        committed = 0
        if entries:
            is_behind = self._holds_all or group.committed < proposal.index - 1
            committed = self.committer.commit(entries, is_behind)
        self._advance(committed)

    def _advance(self, index: int) -> None:
        self.group.advance(min(index, self.group.proposed))
        while self.group.apply_more():
            pass

    def write(self) -> None:
        """Begin a commit: it covers the entries so far."""
        if not self._is_begun:
            self._is_begun = True
            if self._store is None:
                self.memory.begin()
            else:
                self._is_begun = self._store.group_commit.begin()

    def commit(self) -> None:
        """End the commit that was begun, or one of everything in flight."""
        self.write()
        if self._is_begun and self._store is not None:
            self._store.group_commit.sync()
            self._store.group_commit.finish()
        self._is_begun = False
        self.memory.finish()
        self._advance(self.committer.committed)

    def commit_all(self) -> None:
        """Commit until nothing is in flight."""
        while self.group:
            self.commit()

    def take_back(self) -> None:
        """Forget everything in flight; a commit that was begun comes before that."""
        if self._is_begun:
            self.commit()
        files = self.disk.dump()
        self.group.retreat(REFUSED)
        self.committer.retreat(self.group.proposed)
        assert self.disk.dump() == files, "a retreat touches no file"

    def take_back_from(self, first: int) -> None:
        """Withdraw entries from an index on, as far as they are not committed by then. Steps of
        consumers stay, and get other places; a commit that was begun comes before that."""
        if self._is_begun:
            self.commit()
        first = max(first, self.group.committed + 1)
        self.group.withdraw(first, lambda each: each.outlasts_withdrawal, REFUSED)
        self.committer.retreat(first - 1)
        if entries := self.group.ready().entries:
            self.committer.commit(entries, is_behind=True)

    # --- the driver of the group ---------------------------------------------------------------

    def release(self, proposal: Proposal[Record] | None = None) -> None:
        """Carry out the effects of a proposal; without one, of all that waits."""
        if proposal is None:
            self.commit_all()
            return
        self.stream.consumers.flush()
        self.committer.note_applied(proposal.index)
        self._end(proposal)
        self.follow_applied(proposal, self._decided.pop(proposal, None))
        pairs = zip(proposal.reply_subjects, proposal.replies, strict=True)
        self.answers += [Answer(subject, reply.decode()) for subject, reply in pairs]
        self.republished += proposal.republished
        for effect in proposal.effects:
            if isinstance(effect, Answered):
                effect.respond(proposal.removed)
            else:
                self._carry_out_all((effect,))
        self._serve(proposal)

    def _serve(self, proposal: Proposal[Record]) -> None:
        for record in proposal.records:
            if isinstance(record, Published):
                for consumer in self.stream.consumers.waiting_for(record.batch.subjects):
                    self._deliver(consumer)
        self._serve_freed()

    def refuse(self, proposal: Proposal[Record], error: ApiError) -> None:
        self._decided.pop(proposal, None)
        self._end(proposal)
        self.follow_refused(proposal)
        for effect in proposal.effects:
            if isinstance(effect, Answered):
                effect.refuse(error)

    def _end(self, proposal: Proposal[Record]) -> None:
        if proposal in self._changing:
            self._changing.remove(proposal)
        if proposal is self._due:
            self._due = None

    def application_failed(self, record: Record, error: StoreError) -> bool:
        raise AssertionError(error)

    def application_broken(self, proposal: Proposal[Record], error: StoreError) -> ApiError:
        raise AssertionError(error)

    def storing_failed(self, proposal: Proposal[Record], error: StoreError) -> ApiError:
        raise AssertionError(error)

    # --- publishes and due work ----------------------------------------------------------------

    def publish_together(self, messages: Sequence[Publish]) -> list[Answer]:
        """Publish messages in one turn; returns the answers that came at once."""
        stream = self.stream
        if stream.needs_commit or stream.look_ahead.is_full:
            self.commit_all()
        before = len(self.answers)
        proposal = self.stream.publishing.decide(incoming_of(messages), self.now_ns)
        self._decided[proposal] = Decided(messages, self.now_ns, not self.releases)
        self.propose(proposal)
        return self.answers[before:]

    @property
    def releases(self) -> bool:
        """Whether messages may leave the stream by an acknowledgement in flight."""
        return self.stream.config.retention is not Retention.LIMITS and any(
            isinstance(record, Acked) for each in self.group.in_flight for record in each.records
        )

    def run_due(self) -> None:
        """Do the work of the stream whose time has come."""
        stream = self.stream
        if self._due is not None or stream.needs_commit or stream.look_ahead.is_reconfigured:
            return
        proposal = self.stream.decide_due(self.now_ns)
        if proposal.records or proposal.abandoned:
            proposal.is_awaited = proposal.has_messages
            self._due = proposal
            self.propose(proposal)

    # --- requests ------------------------------------------------------------------------------

    def request(
        self,
        make: Callable[[], Record | None],
        respond: Callable[[int], object] | None = None,
        is_foreseen: bool = False,
    ) -> None:
        """Decide a request, and propose its record. All that is in flight comes first, unless the
        request can be decided over it."""
        if not is_foreseen:
            self.commit_all()
        record = make()
        if record is not None:
            answered = Answered(respond or _ignore, _ignore)
            proposal = Proposal([record], (answered,))
            if proposal.changes_consumers:
                self._changing.append(proposal)
            self.propose(proposal)

    def record(self, record: Record) -> None:
        self.request(lambda: record)

    def update(self, **changes: Any) -> None:
        """Give the stream another configuration, which it has once the record is committed."""
        stream = self.stream
        self.request(
            lambda: Configured(msgspec.structs.replace(stream.config, **changes), self.now_ns),
            is_foreseen=not (stream.look_ahead.is_reconfigured or stream.consumers.changes),
        )

    @property
    def is_changing(self) -> bool:
        """Whether the change of a consumer is in flight."""
        return bool(self._changing)

    def create_later(self, name: str, **config: Any) -> None:
        """Propose a consumer; it is there once its record is committed."""
        asked = ConsumerConfig(**{"durable_name": name, "ack_policy": AckPolicy.EXPLICIT, **config})

        def make() -> Record:
            around = ConsumerSurroundings(
                stream=self.stream.config,
                consumers=self.stream.consumers.by_name,
                default_max_consumers=-1,
            )
            checked = check_addition(normalised(asked, False, around), around)
            start, lasts_until = at_once(starting(self.stream, checked))
            return ConsumerCreated(name, checked, self.now_ns, start, lasts_until)

        stream, waits = self.stream, self.stream.look_ahead.is_reconfigured
        waits |= bool(stream.consumers.changes) or stream.needs_commit or stream.may_consume
        self.request(make, lambda _: self._begin(name), is_foreseen=not waits)

    def _begin(self, name: str) -> None:
        consumer = self.consumer(name)
        consumer.start(self.now_ns)
        if consumer.push is not None:
            self._set_interest(name, name in self._listening)
        else:
            self._deliver(consumer)

    def change_later(self, name: str, **changes: Any) -> None:
        """Propose another configuration of a consumer."""

        def make() -> Record | None:
            consumer = self.stream.consumers.by_name.get(name)
            if consumer is None:
                return None
            return consumer.configured(msgspec.structs.replace(consumer.config, **changes))

        keeps_steps = not (changes.keys() - {"pause_until", "description"})
        is_foreseen = keeps_steps and self.may_change
        self.request(make, lambda _: self._begin(name), is_foreseen)

    @property
    def may_change(self) -> bool:
        """Whether a consumer may be changed over what is in flight."""
        stream = self.stream
        return not (stream.consumers.changes or stream.look_ahead.is_reconfigured)

    def drop_later(self, name: str) -> None:
        """Propose the end of a consumer."""

        def close(_: int) -> None:
            self._listening.discard(name)
            consumer = self.stream.consumers.closed.pop(name)
            out: Proposal[Record] = Proposal(is_awaited=False)
            consumer.end(True, out)
            self._carry_out_of(consumer, out)

        self.request(
            lambda: ConsumerDeleted(name) if self.has(name) else None, close, self.may_change
        )

    def reset_later(self, name: str, sequence: int) -> None:
        """Propose that a consumer begins again."""
        self.request(
            lambda: ConsumerReset(name, sequence) if self.has(name) else None,
            lambda _: self._deliver(self.consumer(name)),
            self.may_change,
        )

    def unpin_later(self, name: str) -> None:
        """Propose that the client of a consumer is unpinned."""

        def make() -> Record | None:
            if not self.has(name) or not self.consumer(name).state.pin_id:
                return None
            return Pinned(name, "", self.now_ns)

        self.request(
            make, lambda _: self._work(self.consumer(name), steps.UNPINNED), self.may_change
        )

    def has(self, name: str = CONSUMER) -> bool:
        """Whether a consumer is there."""
        return name in self.stream.consumers.by_name

    # --- steps of consumers --------------------------------------------------------------------

    def waits(self, consumer: Consumer, step: steps.Step) -> bool:
        """Whether a step waits for a change of its consumer, and is left out here."""
        changes = [record for each in self._changing for record in each.records]
        for record in changes:
            if isinstance(record, LONG_RECORDS) and record.name == consumer.name:
                hold = hold_of(record, consumer.config)
                return hold is Hold.ALL or (hold is not Hold.NONE and step is not steps.DELIVER)
        return False

    def _work(self, consumer: Consumer, step: steps.Step) -> None:
        if not (consumer.is_gone or self.waits(consumer, step)):
            super()._work(consumer, step)

    def _run_consumer(self, consumer: Consumer) -> None:
        if not self.waits(consumer, steps.TIMER):
            super()._run_consumer(consumer)

    def _carry_out_of(self, consumer: Consumer, out: Proposal[Record]) -> None:
        """Propose the records of a step, and have its effects leave, now or with the records."""
        assert out.failure is None, out.failure
        self._carry_out_all(out.at_once)
        if out.records or out.effects:
            self.propose(out)
        if not consumer.is_gone:
            self.stream.consumers.note_waiting(consumer)


def _ignore(*_: object) -> None:
    """Nobody waits for an answer."""
