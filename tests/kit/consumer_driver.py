"""Consumers driven as a server drives them, on a stream beside its shadow (`StreamDriver`).

The driver is broker, clock and clients: it hands pulls, acknowledgements and interest to consumers,
keeps what they send, lets time pass from one thing that is due to the next, and has consumers go on
while they say that there is more. A consumer that goes on or wakes up without doing anything would
keep a server busy for ever, and fails the test.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.base.sliced import at_once
from headwater.jetstream.config.consumer_checks.changes import check_addition
from headwater.jetstream.config.consumer_checks.checks import normalised
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig
from headwater.jetstream.config.consumer_defaults import ConsumerSurroundings
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.consumers import steps
from headwater.jetstream.consumers.acks import ACK, AckAddress, read_address
from headwater.jetstream.consumers.effects import Event, Messages, Status
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.records import (
    Acked,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerRecord,
    ConsumerReset,
    Delivered,
    Exhausted,
    Pinned,
    Postponed,
)
from headwater.jetstream.consumers.start import starting
from headwater.jetstream.consumers.steps import Acks, FlowReply, Interest, Pull, Step
from headwater.jetstream.proposal import (
    Confirmed,
    ConsumerEvent,
    ConsumerLeft,
    ConsumerServed,
    Effect,
    Proposal,
)
from headwater.jetstream.records import Published, Record
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from tests.kit.stream_driver import StreamDriver

NAME: Final = "C"
INBOX: Final = "I"
DELIVER: Final = "D"
HOME: Final = (b"_", b"hash")
# The records of steps, which are not in the log before they are committed.
STEP_RECORDS: Final = (Delivered, Acked, Postponed, Exhausted)

# More steps than these and something goes round in circles.
_TURNS_MAX: Final = 10_000
_WAKES_MAX: Final = 10_000


class Got(NamedTuple):
    """A message that a client received."""

    to: str
    subject: str
    sequence: int
    # The consumer's sequence of this delivery.
    number: int
    deliveries: int
    # The number of messages to come after it.
    left: int
    header: str
    payload: bytes
    reply: bytes
    at_ns: int


class Told(NamedTuple):
    """A status that a client received: the first line, and the lines after it."""

    to: str
    text: str
    fields: dict[str, str]
    reply: bytes | None


class ConsumerDriver(StreamDriver):
    """One stream, its replica, its consumers, and their clients."""

    def __init__(self, storage: Storage, limits: BatchLimits | None = None, **config: Any) -> None:
        super().__init__(storage, limits, **config)
        self._got: list[Got] = []
        self._told: list[Told] = []
        self.events: list[Event] = []
        self.answered: list[bytes] = []
        self._commits_later = False
        # The push consumers whose deliver subject has a subscriber.
        self._listening: set[str] = set()

    # --- consumers -----------------------------------------------------------------------------

    def consumer(self, name: str = NAME) -> Consumer:
        return self.stream.consumers.find(name)

    def create(self, name: str = NAME, **config: Any) -> Consumer:
        """Make a consumer: explicit acks, durable, unless said otherwise."""
        asked = ConsumerConfig(**{"durable_name": name, "ack_policy": AckPolicy.EXPLICIT, **config})
        around = ConsumerSurroundings(
            stream=self.config, consumers=self.stream.consumers.by_name, default_max_consumers=-1
        )
        checked = check_addition(normalised(asked, False, around), around)
        start, lasts_until = at_once(starting(self.stream, checked))
        self._change_consumers(ConsumerCreated(name, checked, self.now_ns, start, lasts_until))
        consumer = self.consumer(name)
        consumer.start(self.now_ns)
        if consumer.push is not None:
            self._set_interest(name, False)
        return consumer

    def change(self, name: str = NAME, **changes: Any) -> None:
        """Go on with another configuration."""
        consumer = self.consumer(name)
        config = msgspec.structs.replace(consumer.config, **changes)
        self._change_consumers(consumer.configured(config))
        consumer.start(self.now_ns)
        if consumer.push is not None:
            self._set_interest(name, name in self._listening)
        else:
            self._deliver(consumer)

    def drop(self, name: str = NAME) -> None:
        """Delete a consumer."""
        consumer = self.consumer(name)
        self._change_consumers(ConsumerDeleted(name))
        self._listening.discard(name)
        out: Proposal[Record] = Proposal(is_awaited=False)
        consumer.end(True, out)
        self._carry_out_of(consumer, out)

    def reset(self, sequence: int, name: str = NAME) -> None:
        """Have a consumer begin again."""
        consumer = self.consumer(name)
        self._change_consumers(ConsumerReset(name, sequence))
        self._deliver(consumer)

    def _change_consumers(self, record: ConsumerRecord) -> None:
        """Do what a request asks for, which is written down before it is answered."""
        self.record(record)
        self.stream.consumers.flush()

    def unpin(self, name: str = NAME) -> None:
        """Do what a request to unpin a client asks for."""
        consumer = self.consumer(name)
        if consumer.state.pin_id:
            self._change_consumers(Pinned(name, "", self.now_ns))
        self._work(consumer, steps.UNPINNED)

    # --- clients -------------------------------------------------------------------------------

    def pull(self, batch: int = 1, to: str = INBOX, name: str = NAME, **options: Any) -> list[Got]:
        """Ask for messages; returns what came of it at once. Times are in seconds."""
        for key in ("expires", "idle_heartbeat"):
            if key in options:
                options[key] = round(options[key] * NS_PER_S)
        return self.pull_by(json.dumps({"batch": batch, **options}).encode(), to, name)

    def pull_by(self, body: bytes, to: str = INBOX, name: str = NAME) -> list[Got]:
        """Ask for messages by the body of the request."""
        before = len(self._got)
        consumer = self.consumer(name)
        self._work(consumer, Pull(to.encode(), body))
        return self._got[before:]

    def listen(self, name: str = NAME) -> None:
        """Somebody listens where a consumer pushes to."""
        self._listening.add(name)
        self._set_interest(name, True)

    def leave(self, name: str = NAME) -> None:
        """Nobody does any longer."""
        self._listening.discard(name)
        self._set_interest(name, False)

    def _set_interest(self, name: str, is_there: bool) -> None:
        consumer = self.consumer(name)
        self._work(consumer, Interest(is_there))

    def ack(self, *got: Got, payload: bytes = ACK, reply: bytes | None = None) -> None:
        """Acknowledge messages, or say something else of them, in one turn."""
        self.say([(each, payload, reply) for each in got])

    def say(self, said: Sequence[tuple[Got, bytes, bytes | None]]) -> None:
        """Say something of each message, in one turn of the consumer's."""
        by_name: dict[str, list[tuple[AckAddress, bytes, bytes | None]]] = {}
        for got, payload, reply in said:
            address = read_address(got.reply, HOME)
            assert address is not None
            by_name.setdefault(address.consumer.decode(), []).append((address, payload, reply))
        for name, parts in by_name.items():
            self.say_by_address(name, parts)

    def say_by_address(
        self, name: str, said: Sequence[tuple[AckAddress, bytes, bytes | None]]
    ) -> None:
        """Answer by acknowledgement addresses, of messages that were delivered or not."""
        consumer = self.consumer(name)
        addresses = [address for address, _, _ in said]
        payloads = [payload for _, payload, _ in said]
        replies = [reply for _, _, reply in said]
        self._work(consumer, Acks(addresses, replies, payloads))

    def confirm(self, reply: bytes, name: str = NAME, header: bytes = b"") -> None:
        """Answer a request for flow control."""
        consumer = self.consumer(name)
        self._work(consumer, FlowReply(reply, header))

    # --- what was sent -------------------------------------------------------------------------

    def take(self, to: str | None = None) -> list[Got]:
        """The messages that were received since the last time, all or those of one receiver."""
        found = [each for each in self._got if to is None or each.to == to]
        self._got = [each for each in self._got if each not in found]
        return found

    def take_told(self, to: str | None = None) -> list[Told]:
        """The statuses that were received since the last time, all or those of one receiver."""
        found = [each for each in self._told if to is None or each.to == to]
        self._told = [each for each in self._told if each not in found]
        return found

    def texts(self, to: str | None = None) -> list[str]:
        """The first lines of statuses."""
        return [each.text for each in self.take_told(to)]

    def take_events(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    # --- time ----------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass, from one thing that consumers have to do to the next."""
        until_ns = self.now_ns + round(seconds * NS_PER_S)
        for _ in range(_WAKES_MAX):
            due = [(each.next_due_ns(), each.name) for each in self.stream.consumers]
            due_ns, name = min((pair for pair in due if pair[0]), default=(0, ""))
            if not due_ns or due_ns > until_ns:
                break
            self.now_ns = max(self.now_ns, due_ns)
            self._run_consumer(self.consumer(name))
        else:
            raise AssertionError("a consumer wakes up again and again")
        self.now_ns = until_ns
        self.run_due()

    def _run_consumer(self, consumer: Consumer) -> None:
        out: Proposal[Record] = Proposal(is_awaited=False)
        if consumer.is_abandoned(self.now_ns, out):
            self._carry_out_of(consumer, out)
            self.drop(consumer.name)
            return
        self._work(consumer, steps.TIMER)
        due_ns = consumer.next_due_ns()
        assert not 0 < due_ns <= self.now_ns, "a consumer is due again at the same moment"

    # --- working -------------------------------------------------------------------------------

    def _apply(self, decision: Proposal[Record]) -> None:
        if decision.records and isinstance(decision.records[0], STEP_RECORDS):
            self._commit(decision.records)
            self._serve_freed()
            return
        super()._apply(decision)
        subjects = [
            subject
            for record in decision.records
            if isinstance(record, Published)
            for subject in record.batch.subjects
        ]
        for consumer in self.stream.consumers.waiting_for(subjects):
            self._deliver(consumer)
        self._serve_freed()

    def _propose(self, records: list[Record]) -> None:
        """Commit the records of a step, at once or after all that waits."""
        decision: Proposal[Record] = Proposal()
        decision.records += records
        if self._commits_later and self._waiting is not None:
            self._waiting.append(decision)
        else:
            self._commit(decision.records)

    def _commit(self, records: list[Record]) -> None:
        for record in records:
            self.stream.append(record)
            self.stream.apply(record)

    def hold_all(self) -> None:
        """From now on, records of consumers wait as well: consumers are ahead of the log."""
        self.hold()
        self._commits_later = True
        for stream in (self.stream, self.shadow):
            stream.consumers.commit_later()

    def retreat(self, count: int) -> None:
        """Forget the last proposals, which are not about messages: they are not committed."""
        assert self._waiting is not None
        kept = len(self._waiting) - count
        forgotten, self._waiting = self._waiting[kept:], self._waiting[:kept]
        self.stream.consumers.retreat([each for one in forgotten for each in one.records])

    @property
    def waiting_records(self) -> list[list[Record]]:
        """The records of the proposals that are not committed."""
        return [each.records for each in self._waiting or []]

    def _serve_freed(self) -> None:
        self._carry_out_all(self.stream.consumers.take_news())

    def _deliver(self, consumer: Consumer) -> None:
        self._work(consumer, steps.DELIVER)

    def _work(self, consumer: Consumer, step: Step) -> None:
        """Let a consumer work until there is no more to do."""
        out = consumer.step(step, self.now_ns)
        self._carry_out_of(consumer, out)
        turns = 0
        while ConsumerLeft(consumer.name) in out.at_once:
            turns += 1
            assert turns < _TURNS_MAX, "a consumer goes on and on"
            out = consumer.step(steps.DELIVER, self.now_ns)
            is_idle = out.at_once == [ConsumerLeft(consumer.name)] and not out.effects
            assert not is_idle, "a consumer goes on and sends nothing"
            self._carry_out_of(consumer, out)
        self._serve_freed()

    def _carry_out_of(self, consumer: Consumer, out: Proposal[Record]) -> None:
        assert out.failure is None, out.failure
        if out.records:
            self._propose(out.records)
        self._carry_out_all((*out.at_once, *out.effects))
        if not consumer.is_gone:
            self.stream.consumers.note_waiting(consumer)

    def _carry_out_all(self, effects: Iterable[Effect]) -> None:
        """Receive what consumers send, and have them go on."""
        for effect in effects:
            if isinstance(effect, Messages):
                self._receive(effect)
            elif isinstance(effect, Status):
                first, *lines = effect.header.decode().removesuffix("\r\n\r\n").split("\r\n")
                fields = dict(line.split(": ", 1) for line in lines)
                text = first.removeprefix("NATS/1.0 ")
                self._told.append(Told(effect.to.decode(), text, fields, effect.reply))
            elif isinstance(effect, ConsumerEvent):
                self.events.append(effect.event)
            elif isinstance(effect, Confirmed):
                self.answered += effect.reply_subjects
            elif isinstance(effect, ConsumerServed):
                self._deliver(self.consumer(effect.name))
            else:
                # `_work` has the consumer go on.
                assert isinstance(effect, ConsumerLeft)

    def _receive(self, send: Messages) -> None:
        lists = (send.subjects, send.replies, send.headers, send.payloads)
        for subject, reply, header, payload in zip(*lists, strict=True):
            tokens = reply.split(b".")
            deliveries, sequence, number, _, left = map(int, tokens[4:])
            self._got.append(
                Got(
                    send.to.decode(),
                    subject.decode(),
                    sequence,
                    number,
                    deliveries,
                    left,
                    header.decode(),
                    payload,
                    reply,
                    self.now_ns,
                )
            )

    def reopen(self) -> None:
        """The clients are gone, and consumers begin to work."""
        super().reopen()
        self._listening.clear()
        self._got.clear()
        self._told.clear()
        for consumer in self.stream.consumers:
            consumer.start(self.now_ns)

    # --- looking -------------------------------------------------------------------------------

    def figures(self, name: str = NAME) -> tuple[tuple[int, int], tuple[int, int]]:
        """Delivered and acknowledged, each as the consumer's and the stream's sequence."""
        state = self.consumer(name).state
        return (
            (state.delivered_consumer, state.delivered_stream),
            (state.floor_consumer, state.floor_stream),
        )

    def pending(self, name: str = NAME) -> list[int]:
        """The messages that are not acknowledged."""
        return sorted(self.consumer(name).state.pending)


def sequences(got: Sequence[Got]) -> list[int]:
    """Which messages these are."""
    return [each.sequence for each in got]
