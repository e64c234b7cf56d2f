"""A stream and its consumers taken through random turns, beside a dumb twin.

The twin is sets and dicts: which messages are in the stream, and of each consumer which were
delivered how often, which are not acknowledged and when they are due, and where it is. After every
step consumers, their counts and the messages in the stream have to agree with it, and the replica
with the stream, however often it was killed and opened, and its journal rewritten, in between.

The caller makes each choice (`Choose`): a test by its random numbers, or hypothesis.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig, DeliverPolicy
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.consumers.acks import ACK, NAK, PROGRESS
from headwater.subjects.grammar import matches
from tests.kit.consumer_driver import ConsumerDriver, Got
from tests.kit.stream_driver import Publish

SUBJECTS: Final = ("S.a", "S.b", "S.c")
NAMES: Final = ("C", "D")
FILTERS: Final = ((), ("S.a",), ("S.b",), ("S.a", "S.c"), ("S.>",), ("S.*",))
# In a work queue no message is for two consumers.
SHARES: Final = {"C": (("S.a",), ("S.b",)), "D": (("S.c",),)}
ACK_WAIT_NS: Final = 2 * NS_PER_S
NAK_DELAY_NS: Final = NS_PER_S // 2
NAK_LATER: Final = b'-NAK {"delay": %d}' % NAK_DELAY_NS
DONE: Final = (ACK, b"", b"+TERM")
WORDS: Final = (ACK, ACK, b"", b"+TERM", NAK, NAK, NAK_LATER, PROGRESS)
# After this number of rounds of waiting, pulling and acknowledging, no message is left.
ROUNDS_MAX: Final = 30

# The settings of a new consumer.
CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "filter_subjects": FILTERS,
    "ack_policy": (*[AckPolicy.EXPLICIT] * 3, AckPolicy.ALL, AckPolicy.NONE),
    "max_deliver": (-1, -1, 2, 3),
    "max_ack_pending": (1000, 3),
    "ack_wait": (ACK_WAIT_NS,),
    "backoff": ((), (), (ACK_WAIT_NS, 3 * NS_PER_S)),
    "deliver_subject": ("", "to"),
    "start": ("all", "all", "new", "ahead", "back"),
}

# The further fields of a pull request.
PULLS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"no_wait": True},
    {"expires": 1},
    {"max_bytes": 300},
)

T = TypeVar("T")


class Choose(Protocol):
    """Chooses one of several."""

    def __call__(self, options: Sequence[T], /) -> T: ...


class Twin:
    """The state that one consumer should have."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self.filters = config.filters
        self.acks = config.ack_policy
        self.max_deliver = config.max_deliver
        # The next message that was never delivered is not before this.
        self.position = 1
        self.deliveries: dict[int, int] = {}
        self.pending: set[int] = set()
        self.given_up: set[int] = set()
        # The time at which each pending message was sent, and the messages that are due again.
        self.sent_ns: dict[int, int] = {}
        self.ready: set[int] = set()
        self.floor = (0, 0)

    def is_about(self, subject: str) -> bool:
        patterns = self.filters or (">",)
        return any(matches(each.encode(), subject.encode()) for each in patterns)

    def to_come(self, stream: dict[int, str]) -> list[int]:
        """The messages that were never delivered, found by a look at every message."""
        return [each for each in stream if each >= self.position and self.is_about(stream[each])]

    def needs(self, sequence: int, subject: str) -> bool:
        if sequence in self.pending or sequence in self.given_up:
            return True
        return sequence >= self.position and self.is_about(subject)

    def pass_time(self, now_ns: int) -> None:
        """Make messages due again that were not acknowledged in time."""
        waits = self.config.backoff or (self.config.ack_wait,)
        for sequence in self.pending:
            wait_ns = waits[min(self.deliveries[sequence] - 1, len(waits) - 1)]
            if self.sent_ns[sequence] + wait_ns <= now_ns:
                self.ready.add(sequence)

    def got(self, got: Got, stream: dict[int, str]) -> None:
        """Check a delivery, and note it."""
        sequence = got.sequence
        self.pass_time(got.at_ns)
        assert stream.get(sequence) == got.subject, "only what is there is delivered"
        if got.deliveries == 1:
            assert sequence >= self.position, "new messages come in order"
            assert self.is_about(got.subject), "only what matches is delivered"
            skipped = [each for each in self.to_come(stream) if each < sequence]
            assert not skipped, "no message is left out"
            self.deliveries[sequence] = 1
            self.position = sequence + 1
            if self.acks is not AckPolicy.NONE:
                self.pending.add(sequence)
        else:
            assert sequence in self.pending, "only what is not acknowledged comes again"
            assert sequence in self.ready, "and only when it is due"
            self.ready.remove(sequence)
            assert got.deliveries == self.deliveries[sequence] + 1
            assert not 0 < self.max_deliver < got.deliveries
            self.deliveries[sequence] += 1
        self.sent_ns[sequence] = got.at_ns

    def said(self, sequence: int, payload: bytes, now_ns: int) -> None:
        """Note that a receiver has said when it wants a message again."""
        if sequence not in self.pending:
            return
        if payload == NAK:
            self.ready.add(sequence)
        elif payload == NAK_LATER:
            self.ready.discard(sequence)
            self.sent_ns[sequence] = now_ns + NAK_DELAY_NS - self.config.ack_wait
        elif payload == PROGRESS:
            self.sent_ns[sequence] = now_ns

    def settle(self, sequences: set[int]) -> None:
        """Forget messages that the consumer is done with."""
        self.pending -= sequences
        self.ready -= sequences
        self.given_up -= sequences


class Walk:
    """A stream and its consumers on their way."""

    def __init__(self, choose: Choose, storage: Storage = Storage.FILE) -> None:
        self.choose = choose
        self.retention = choose([*Retention])
        self.limits = choose((0, 0, 0, 6)), choose((0, 0, 0, 3))
        config: dict[str, Any] = {"retention": self.retention}
        if self.limits[0]:
            config["max_msgs"] = self.limits[0]
        if self.limits[1]:
            config["max_msgs_per_subject"] = self.limits[1]
        self.driver = ConsumerDriver(storage, **config)
        self.stream: dict[int, str] = {}
        self.twins: dict[str, Twin] = {}
        # The deliveries that clients may still acknowledge, by consumer.
        self.held: dict[str, list[Got]] = {}
        self._create("C")
        self.publish()

    # --- the stream ----------------------------------------------------------------------------

    def publish(self) -> None:
        subjects = [self.choose(SUBJECTS) for _ in range(self.choose((1, 2, 3, 6)))]
        answers = self.driver.publish_together([Publish(each, b"x") for each in subjects])
        for answer, subject in zip(answers, subjects, strict=True):
            self._came(answer.document["seq"], subject)
        self._look()

    def _came(self, sequence: int, subject: str) -> None:
        if self.retention is Retention.INTEREST:
            needs = [twin.needs(sequence, subject) for twin in self.twins.values()]
            if not any(needs):
                return
        self.stream[sequence] = subject
        max_msgs, per_subject = self.limits
        same = [each for each in self.stream if self.stream[each] == subject]
        if 0 < per_subject < len(same):
            self._went({same[0]})
        if 0 < max_msgs < len(self.stream):
            self._went({min(self.stream)})

    def _went(self, gone: set[int]) -> None:
        for sequence in gone:
            self.stream.pop(sequence, None)
        for twin in self.twins.values():
            twin.settle(gone)

    def delete(self) -> None:
        if self.stream:
            gone = {self.choose(sorted(self.stream)) for _ in range(self.choose((1, 1, 3)))}
            self._went(gone)
            self.driver.delete(*sorted(gone))
        self._look()

    def purge(self) -> None:
        pattern, keep = self.choose((b">", b"S.a", b"S.*")), self.choose((0, 0, 1))
        subjects = sorted(self.stream.items())
        matching = [each for each, subject in subjects if matches(pattern, subject.encode())]
        self._went({*matching[: max(len(matching) - keep, 0)]})
        self.driver.purge(pattern, keep=keep)
        self._look()

    # --- consumers -----------------------------------------------------------------------------

    def create(self) -> None:
        missing = [name for name in NAMES if name not in self.twins]
        if missing:
            self._create(missing[0])
        self._look()

    def _create(self, name: str) -> None:
        config = {key: self.choose(options) for key, options in CHOICES.items()}
        if self.retention is Retention.WORKQUEUE:
            config["filter_subjects"] = SHARES[name][0]
            config |= {"ack_policy": AckPolicy.EXPLICIT, "start": "all"}
        if config["ack_policy"] is AckPolicy.NONE:
            for key in ("ack_wait", "max_deliver", "max_ack_pending", "backoff"):
                del config[key]
        last = self.driver.stream.visible_sequence
        position, start = 1, config.pop("start")
        if start == "new":
            config["deliver_policy"] = DeliverPolicy.NEW
            position = last + 1
        elif start != "all":
            position = max(last + (4 if start == "ahead" else -2), 1)
            config["deliver_policy"] = DeliverPolicy.BY_START_SEQUENCE
            config["opt_start_seq"] = position
        consumer = self.driver.create(name, **config)
        twin = self.twins[name] = Twin(consumer.config)
        twin.position, twin.floor = position, self.driver.figures(name)[1]
        self.held[name] = []

    def drop(self) -> None:
        if self.twins:
            name = self.choose(sorted(self.twins))
            self.driver.drop(name)
            del self.twins[name], self.held[name]
        self._look()

    def filter(self) -> None:
        if not self.twins:
            return
        name = self.choose(sorted(self.twins))
        is_queue = self.retention is Retention.WORKQUEUE
        filters = self.choose(SHARES[name] if is_queue else FILTERS)
        twin = self.twins[name]
        if filters != twin.filters:
            # Only the consumer knows how far it has passed over messages beside its old filters.
            place = self.driver.consumer(name).position.cursor.sequence
            assert not [each for each in twin.to_come(self.stream) if each < place]
            twin.position = max(twin.position, place)
        twin.filters = filters
        self.driver.change(name, filter_subjects=filters)
        self._look()

    def reset(self) -> None:
        if not self.twins:
            return
        name = self.choose(sorted(self.twins))
        last = self.driver.stream.visible_sequence
        before = self.twins[name]
        twin = self.twins[name] = Twin(before.config)
        twin.filters, twin.position = before.filters, self.choose(range(1, last + 3))
        self.held[name] = []
        self.driver.reset(twin.position, name)
        self._look()

    # --- clients -------------------------------------------------------------------------------

    def receive(self) -> None:
        if not self.twins:
            return
        name, to = self.choose(sorted(self.twins)), self.choose(("I", "J"))
        if self._is_push(name):
            if to == "I":
                self.driver.listen(name)
            else:
                self.driver.leave(name)
        else:
            options: dict[str, Any] = self.choose(PULLS)
            self.driver.pull(self.choose((1, 2, 4)), to, name, **options)
        self._look()

    def _is_push(self, name: str) -> bool:
        return self.driver.consumer(name).push is not None

    def speak(self) -> None:
        able = [each for each in sorted(self.held) if self.held[each]]
        able = [each for each in able if self.twins[each].acks is not AckPolicy.NONE]
        if not able:
            return
        name = self.choose(able)
        twin, now_ns = self.twins[name], self.driver.now_ns
        got = [self.choose(self.held[name]) for _ in range(self.choose((1, 2, 3)))]
        if twin.acks is AckPolicy.EXPLICIT:
            words = [self.choose(WORDS) for _ in got]
            self._foresee(name, got, words, now_ns)
            self.driver.say([(*pair, None) for pair in zip(got, words, strict=True)])
        else:
            self._ack_up_to(name, got[0])
            self.driver.ack(got[0])
        self._look()

    def _foresee(self, name: str, got: list[Got], words: list[bytes], now_ns: int) -> None:
        """Carry out the explicit acknowledgements of one turn in the twin, one after the other."""
        twin, state = self.twins[name], self.driver.consumer(name).state
        # The floor rises meanwhile, and a nak counts above it only.
        floor = Floor(state.floor_consumer, state.delivered_consumer, {**state.pending})
        for each, payload in zip(got, words, strict=True):
            if payload in DONE:
                floor.acknowledge(each.sequence)
                self._acknowledge(name, {each.sequence})
            elif payload == PROGRESS or each.number > floor.sequence:
                twin.said(each.sequence, payload, now_ns)

    def _ack_up_to(self, name: str, got: Got) -> None:
        state, twin = self.driver.consumer(name).state, self.twins[name]
        if got.number > state.floor_consumer and got.sequence > state.floor_stream:
            unsettled = twin.pending | twin.given_up
            self._acknowledge(name, {each for each in unsettled if each <= got.sequence})

    def _acknowledge(self, name: str, sequences: set[int]) -> None:
        twin = self.twins[name]
        known = {each for each in sequences if each in twin.pending or each in twin.given_up}
        twin.settle(known)
        if self.retention is Retention.WORKQUEUE:
            self._went(known)

    # --- time and the disk ---------------------------------------------------------------------

    def wait(self) -> None:
        self.driver.advance(self.choose((0.3, 1.0, 2.5, 4.0)))
        self._look()

    def restart(self) -> None:
        if self.driver.is_on_disk:
            self.driver.restart()
            self.held = {name: [] for name in self.twins}
            for twin in self.twins.values():
                twin.ready.clear()
            self.driver.advance(0)
            self._look()

    def rewrite_journal(self) -> None:
        if self.driver.is_on_disk:
            self.driver.rewrite_journal()

    # --- checks --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Take in the deliveries, and the messages that were given up or removed after them."""
        for got in self.driver.take():
            name = got.reply.split(b".")[3].decode()
            self.twins[name].got(got, self.stream)
            self.held[name].append(got)
        self.driver.take_told()
        for name, twin in self.twins.items():
            twin.pass_time(self.driver.now_ns)
            exhausted = twin.pending - {*self.driver.pending(name)}
            for sequence in exhausted:
                assert twin.deliveries[sequence] == twin.max_deliver, "nothing else is given up"
            twin.settle(exhausted)
            twin.given_up |= exhausted
        self._let_go()

    def _let_go(self) -> None:
        """Remove messages from the twin of an interest stream that no consumer needs."""
        if self.retention is Retention.INTEREST:
            twins = self.twins.values()
            subjects = self.stream.items()
            needed = {
                each for each, subject in subjects if any(t.needs(each, subject) for t in twins)
            }
            self._went({*self.stream} - needed)

    def check(self) -> None:
        driver = self.driver
        assert driver.sequences == sorted(self.stream)
        driver.check()
        for name, twin in self.twins.items():
            self._check_consumer(name, twin)

    def _check_consumer(self, name: str, twin: Twin) -> None:
        consumer = self.driver.consumer(name)
        state = consumer.state
        assert consumer.position.pending_count() == len(twin.to_come(self.stream))
        assert {*state.pending} == twin.pending
        for sequence in twin.pending:
            assert consumer.machine.deliveries_of(sequence) == twin.deliveries[sequence]
        assert twin.given_up <= {*state.redelivered} <= twin.given_up | twin.pending
        limit = consumer.config.max_ack_pending
        assert limit <= 0 or len(twin.pending) <= limit
        has_room = limit <= 0 or len(twin.pending) < limit
        if consumer.wants_messages:
            assert not twin.ready, "who waits gets what is due again"
            assert not has_room or not twin.to_come(self.stream), "who waits gets what is there"
        delivered, floor = self.driver.figures(name)
        assert floor[0] >= twin.floor[0], "the floor does not sink"
        assert floor[1] >= twin.floor[1], "the floor does not sink"
        assert floor[0] <= delivered[0], "what was not delivered is not acknowledged"
        assert not twin.pending or floor[1] < min(twin.pending)
        twin.floor = floor

    def arrive(self) -> None:
        """No message is stuck: a client that keeps receiving and acknowledging gets all of them."""
        # Clients forget the messages they had: these have to come again.
        self.held = {name: [] for name in self.twins}
        for name, twin in self.twins.items():
            for _ in range(ROUNDS_MAX):
                if not twin.pending and not twin.to_come(self.stream):
                    break
                self._serve(name)
                self.check()
            else:
                raise AssertionError("messages are stuck")

    def _serve(self, name: str) -> None:
        driver, acks = self.driver, self.twins[name].acks
        if self._is_push(name):
            driver.listen(name)
        else:
            driver.pull(100, "drain", name, no_wait=True)
        self._look()
        held, self.held[name] = self.held[name], []
        for got in held if acks is not AckPolicy.NONE else ():
            if acks is AckPolicy.EXPLICIT:
                self._acknowledge(name, {got.sequence})
            else:
                self._ack_up_to(name, got)
            driver.ack(got)
            self._look()
        driver.advance(2 * ACK_WAIT_NS / NS_PER_S)
        self._look()


class Floor:
    """The consumer sequence below which no message is pending, found by a look at all that are."""

    def __init__(self, sequence: int, delivered: int, pending: dict[int, int]) -> None:
        self.sequence = sequence
        self._delivered = delivered
        self._pending = pending

    def acknowledge(self, sequence: int) -> None:
        if self._pending.pop(sequence, 0):
            oldest = self._pending[min(self._pending)] - 1 if self._pending else self._delivered
            self.sequence = max(self.sequence, oldest)
