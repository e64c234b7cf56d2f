"""Consumers against a dumb twin that remembers every message and everything said of it.

The twin is sets and dicts: which messages are in the stream, and of each consumer which were
delivered how often, which are not acknowledged, and where it is. After every step the consumers,
their counts and what is left in the stream have to agree with it, and the replica with the stream,
however it was killed and opened, and its journal written anew, in between.
"""

from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config import Retention, Storage
from headwater.jetstream.consumer.config import AckPolicy, DeliverPolicy
from headwater.subjects.grammar import matches
from tests.unit.jetstream.consumer.driving import ConsumerDriver, Got
from tests.unit.jetstream.shadow import Publish

SUBJECTS: Final = ("S.a", "S.b", "S.c")
NAMES: Final = ("C", "D")
FILTERS: Final = ((), ("S.a",), ("S.b",), ("S.a", "S.c"), ("S.>",), ("S.*",))
# In a work queue no message is for two.
SHARES: Final = {"C": (("S.a",), ("S.b",)), "D": (("S.c",),)}
ACK_WAIT_S: Final = 2
# So many rounds of waiting, pulling and acknowledging leave nothing.
ROUNDS_MAX: Final = 30


class Twin:
    """What one consumer should know."""

    def __init__(self, filters: tuple[str, ...], acks: AckPolicy, max_deliver: int) -> None:
        self.filters = filters
        self.acks = acks
        self.max_deliver = max_deliver
        # The next message that was never delivered is not before this.
        self.position = 1
        self.deliveries: dict[int, int] = {}
        self.pending: set[int] = set()
        self.given_up: set[int] = set()
        self.floor = (0, 0)

    def is_about(self, subject: str) -> bool:
        patterns = self.filters or (">",)
        return any(matches(each.encode(), subject.encode()) for each in patterns)

    def to_come(self, stream: dict[int, str]) -> list[int]:
        """What was never delivered, by looking at everything."""
        return [each for each in stream if each >= self.position and self.is_about(stream[each])]

    def needs(self, sequence: int, subject: str) -> bool:
        if sequence in self.pending or sequence in self.given_up:
            return True
        return sequence >= self.position and self.is_about(subject)

    def got(self, got: Got, stream: dict[int, str]) -> None:
        """Something was delivered."""
        sequence = got.sequence
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
            assert got.deliveries == self.deliveries[sequence] + 1
            assert not 0 < self.max_deliver < got.deliveries
            self.deliveries[sequence] += 1

    def acked(self, sequence: int) -> None:
        self.pending.discard(sequence)
        self.given_up.discard(sequence)

    def forget(self, gone: set[int]) -> None:
        """Messages have left the stream."""
        self.pending -= gone
        self.given_up -= gone


class ConsumerTurns(RuleBasedStateMachine):
    """Random turns of a stream and its consumers."""

    storage = Storage.FILE

    def __init__(self) -> None:
        super().__init__()
        self.driver = ConsumerDriver(Storage.MEMORY)
        self.twins: dict[str, Twin] = {}
        self.stream: dict[int, str] = {}
        # What clients have and may still speak of, by consumer.
        self.held: dict[str, list[Got]] = {}
        self.limits = (0, 0)

    @initialize(
        retention=st.sampled_from([*Retention]),
        max_msgs=st.sampled_from([0, 0, 4]),
        per_subject=st.sampled_from([0, 0, 2]),
    )
    def begin(self, retention: Retention, max_msgs: int, per_subject: int) -> None:
        self.retention = retention
        self.limits = (max_msgs, per_subject)
        config: dict[str, Any] = {"retention": retention}
        if max_msgs:
            config["max_msgs"] = max_msgs
        if per_subject:
            config["max_msgs_per_subject"] = per_subject
        self.driver = ConsumerDriver(self.storage, **config)

    # --- the stream ----------------------------------------------------------------------------

    @rule(subjects=st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=6))
    def publish(self, subjects: list[str]) -> None:
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
            twin.forget(gone)

    @precondition(lambda self: self.stream)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(sorted(self.stream)))
        self._went({sequence})
        self.driver.delete(sequence)
        self._look()

    @rule(pattern=st.sampled_from([">", "S.a", "S.*"]), keep=st.sampled_from([0, 0, 1]))
    def purge(self, pattern: str, keep: int) -> None:
        matching = [
            each
            for each, subject in sorted(self.stream.items())
            if matches(pattern.encode(), subject.encode())
        ]
        self._went({*matching[: max(len(matching) - keep, 0)]})
        self.driver.purge(pattern.encode(), keep=keep)
        self._look()

    # --- consumers -----------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(NAMES),
        filters=st.sampled_from(FILTERS),
        acks=st.sampled_from([AckPolicy.EXPLICIT, AckPolicy.EXPLICIT, AckPolicy.ALL, AckPolicy.NONE]),
        start=st.sampled_from(["all", "all", "new", "ahead", "back"]),
        max_deliver=st.sampled_from([-1, -1, 1, 2]),
        max_ack_pending=st.sampled_from([1000, 2]),
        is_push=st.booleans(),
        backoff=st.booleans(),
    )
    def create(
        self,
        name: str,
        filters: tuple[str, ...],
        acks: AckPolicy,
        start: str,
        max_deliver: int,
        max_ack_pending: int,
        is_push: bool,
        backoff: bool,
    ) -> None:
        if name in self.twins:
            return
        if self.retention is Retention.WORKQUEUE:
            filters, acks, start = SHARES[name][0], AckPolicy.EXPLICIT, "all"
        last = self.driver.stream.visible_sequence
        config: dict[str, Any] = {"filter_subjects": filters, "ack_policy": acks}
        if acks is not AckPolicy.NONE:
            config |= {"ack_wait": ACK_WAIT_S * NS_PER_S, "max_ack_pending": max_ack_pending}
            config["max_deliver"] = max_deliver
            if backoff and max_deliver != 1:
                config["backoff"] = (ACK_WAIT_S * NS_PER_S, 3 * NS_PER_S)
        if is_push:
            config["deliver_subject"] = f"to.{name}"
        twin = Twin(filters, acks, max_deliver)
        if start == "new":
            config["deliver_policy"] = DeliverPolicy.NEW
            twin.position = last + 1
        elif start in ("ahead", "back"):
            twin.position = max(last + (3 if start == "ahead" else -2), 1)
            config["deliver_policy"] = DeliverPolicy.BY_START_SEQUENCE
            config["opt_start_seq"] = twin.position
        self.driver.create(name, **config)
        self.twins[name], self.held[name] = twin, []
        twin.floor = self.driver.figures(name)[1]
        self._look()

    @precondition(lambda self: self.twins)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        name = self._draw_name(data)
        self.driver.drop(name)
        del self.twins[name], self.held[name]
        self.driver.take_told()
        self._look()

    @precondition(lambda self: self.twins)
    @rule(data=st.data())
    def filter(self, data: st.DataObject) -> None:
        name = self._draw_name(data)
        is_queue = self.retention is Retention.WORKQUEUE
        filters = data.draw(st.sampled_from(SHARES[name] if is_queue else FILTERS))
        twin = self.twins[name]
        if filters != twin.filters:
            # How far it has looked for the others only the consumer knows.
            place = self.driver.consumer(name).cursor.sequence
            assert not [each for each in twin.to_come(self.stream) if each < place]
            twin.position = max(twin.position, place)
        twin.filters = filters
        self.driver.change(name, filter_subjects=filters)
        self._look()

    @precondition(lambda self: self.twins and self.retention is not Retention.WORKQUEUE)
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        name = self._draw_name(data)
        last = self.driver.stream.visible_sequence
        sequence = data.draw(st.integers(min_value=1, max_value=last + 2))
        twin = self.twins[name] = Twin(
            self.twins[name].filters, self.twins[name].acks, self.twins[name].max_deliver
        )
        twin.position = sequence
        self.held[name] = []
        self.driver.reset(sequence, name)
        twin.floor = (0, 0)
        self._look()

    # --- clients -------------------------------------------------------------------------------

    def _draw_name(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.twins)))

    def _is_push(self, name: str) -> bool:
        return self.driver.consumer(name).push is not None

    @precondition(lambda self: self.twins)
    @rule(
        data=st.data(),
        batch=st.integers(min_value=1, max_value=4),
        options=st.sampled_from([{"no_wait": True}, {"expires": 1}, {}, {"max_bytes": 300}]),
        to=st.sampled_from(["I", "J"]),
    )
    def receive(self, data: st.DataObject, batch: int, options: dict[str, Any], to: str) -> None:
        name = self._draw_name(data)
        if not self._is_push(name):
            self.driver.pull(batch, to, name, **options)
        elif to == "I":
            self.driver.listen(name)
        else:
            self.driver.leave(name)
        self._look()

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def speak(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(each for each in self.held if self.held[each])))
        if self.twins[name].acks is AckPolicy.NONE:
            return
        got = data.draw(st.lists(st.sampled_from(self.held[name]), min_size=1, max_size=4))
        words = st.sampled_from([b"+ACK", b"", b"-NAK", b'-NAK {"delay": 500000000}', b"+WPI"])
        some = st.one_of(st.just(b"+ACK"), words, st.just(b"+TERM"))
        said = [(each, data.draw(some), None) for each in got]
        twin = self.twins[name]
        for each, payload, _ in said:
            # Explicit acks do not depend on each other; others are said one by one.
            if twin.acks is AckPolicy.EXPLICIT:
                if payload in (b"+ACK", b"", b"+TERM"):
                    self._acknowledge(name, {each.sequence})
            else:
                self._ack_up_to(name, each, payload)
                self.driver.say([(each, payload, None)])
                self._look()
        if twin.acks is AckPolicy.EXPLICIT:
            self.driver.say(said)
        self._look()

    def _ack_up_to(self, name: str, got: Got, payload: bytes) -> None:
        state, twin = self.driver.consumer(name).state, self.twins[name]
        is_new = got.number > state.floor_consumer and got.sequence > state.floor_stream
        if payload in (b"+ACK", b"", b"+TERM") and is_new:
            unsettled = twin.pending | twin.given_up
            self._acknowledge(name, {each for each in unsettled if each <= got.sequence})

    def _acknowledge(self, name: str, sequences: set[int]) -> None:
        twin = self.twins[name]
        known = {each for each in sequences if each in twin.pending or each in twin.given_up}
        for sequence in known:
            twin.acked(sequence)
        if self.retention is Retention.WORKQUEUE:
            self._went(known)

    # --- time and the disk ---------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.3, 1, 2.5, 4]))
    def wait(self, seconds: float) -> None:
        self.driver.advance(seconds)
        self._look()

    @rule()
    def restart(self) -> None:
        if self.driver.is_on_disk:
            self.driver.restart()
            self.held = {name: [] for name in self.twins}

    @rule()
    def rewrite_journal(self) -> None:
        if self.driver.is_on_disk:
            self.driver.rewrite_journal()

    # --- what has to hold ----------------------------------------------------------------------

    def _look(self) -> None:
        """Take what was delivered, and what followed from it."""
        for got in self.driver.take():
            name = got.reply.split(b".")[3].decode()
            self.twins[name].got(got, self.stream)
            self.held[name].append(got)
        self.driver.take_told()
        for name, twin in self.twins.items():
            pending = {*self.driver.pending(name)}
            exhausted = twin.pending - pending
            for sequence in exhausted:
                assert twin.deliveries[sequence] == twin.max_deliver, "nothing else is given up"
            twin.given_up |= exhausted
            twin.pending -= exhausted
        self._let_go()

    def _let_go(self) -> None:
        """Without interest nothing stays."""
        if self.retention is Retention.INTEREST:
            twins = self.twins.values()
            self._went(
                {
                    each
                    for each, subject in self.stream.items()
                    if not any(twin.needs(each, subject) for twin in twins)
                }
            )

    @invariant()
    def agrees(self) -> None:
        driver = self.driver
        assert driver.sequences == sorted(self.stream)
        driver.check()
        for name, twin in self.twins.items():
            consumer = driver.consumer(name)
            state = consumer.state
            assert consumer.pending_count() == len(twin.to_come(self.stream))
            assert {*state.pending} == twin.pending
            for sequence in twin.pending:
                assert consumer.deliveries_of(sequence) == twin.deliveries[sequence]
            assert twin.given_up <= {*state.redelivered} <= twin.given_up | twin.pending
            limit = consumer.config.max_ack_pending
            assert limit <= 0 or len(twin.pending) <= limit
            delivered, floor = driver.figures(name)
            assert floor[0] >= twin.floor[0], "the floor does not sink"
            assert floor[1] >= twin.floor[1]
            assert floor <= delivered or twin.acks is not AckPolicy.EXPLICIT
            assert not twin.pending or floor[1] < min(twin.pending)
            twin.floor = floor

    def teardown(self) -> None:
        """Nothing is stuck: whoever goes on receiving and acknowledging gets everything."""
        for name, twin in self.twins.items():
            for _ in range(ROUNDS_MAX):
                if not twin.pending and not twin.to_come(self.stream):
                    break
                self._serve(name)
                self.agrees()
            else:
                raise AssertionError("messages are stuck")

    def _serve(self, name: str) -> None:
        driver = self.driver
        if self._is_push(name):
            driver.listen(name)
        else:
            driver.pull(100, "drain", name, no_wait=True)
        self._look()
        held, self.held[name] = self.held[name], []
        if self.twins[name].acks is AckPolicy.NONE:
            return
        for got in held:
            if self.twins[name].acks is AckPolicy.EXPLICIT:
                self._acknowledge(name, {got.sequence})
            else:
                self._ack_up_to(name, got, b"+ACK")
            driver.ack(got)
            self._look()
        driver.advance(ACK_WAIT_S * 2)
        self._look()


TestConsumerTurns = ConsumerTurns.TestCase
TestConsumerTurns.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
