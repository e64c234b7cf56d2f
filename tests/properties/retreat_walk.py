"""A stream with everything in flight at once, taken back again and again, beside a twin.

A walk publishes (single messages, atomic and fast batches, with ids, expectations, times to live,
roll-ups, counters and schedules), copies messages of a source, changes the configuration with the
retention, purges and deletes, makes, changes and ends consumers, pulls, acknowledges and waits.
Entries are committed late, and some never: all in flight are taken back, or those from one of them
on, among which steps of consumers stay.

The twin is another stream that gets the entries which were committed, as bytes, in their order, and
never sees the rest. After every commit and every retreat the two have the same canonical dump, the
same times of things to come, the same usage and the same files; publishes are decided the same way;
and at the end both give the same answers to a script of probes.

The caller makes each choice (`Choose`): a test by its random numbers, or hypothesis.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from headwater.base.clock import NS_PER_S
from headwater.go.json import Time
from headwater.jetstream.codec import RecordCodec
from headwater.jetstream.config.consumer_config import AckPolicy, PriorityPolicy
from headwater.jetstream.config.stream_config import (
    Discard,
    Retention,
    Storage,
    StreamConfig,
    StreamSource,
)
from headwater.jetstream.consumers.acks import ACK, NAK, PROGRESS
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Purged, Record, Removed, StreamCreated, StreamDeleted
from headwater.jetstream.streams.publishing.atomic_batch import AtomicBatches
from tests.kit.consumer_driver import INBOX, Got
from tests.kit.copied_messages import arrivals, origin_of, source
from tests.kit.held_driver import Decided, HeldDriver
from tests.kit.stream_driver import BEGINNING_NS, NAME, SEED, Publish, incoming_of
from tests.properties.consumer_walk import Choose

SUBJECTS: Final = ("S.a", "S.b", "S.c")
IDS: Final = ("x", "y", "z")
PROBE_INBOX: Final = "J"
# The times of which a walk has to do with are seconds; this is behind all of them but schedules.
LONG_S: Final = 60
# After this number of rounds of pulling and acknowledging, no message is left.
ROUNDS_MAX: Final = 60

RETENTIONS: Final = (Retention.LIMITS, Retention.LIMITS, Retention.WORKQUEUE, Retention.INTEREST)
LIMITS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"max_msgs": 5},
    {"max_msgs_per_subject": 2},
    {"max_bytes": 400, "max_msgs_per_subject": 3},
    {"max_msgs": 4, "discard": Discard.NEW},
    {"max_msgs": 8, "max_msgs_per_subject": 2, "discard": Discard.NEW}
    | {"discard_new_per_subject": True},
)
FEATURES: Final[tuple[dict[str, Any], ...]] = (
    {"allow_rollup_hdrs": True},
    {"allow_rollup_hdrs": True, "allow_msg_ttl": True, "max_age": 20 * NS_PER_S},
    {"allow_msg_ttl": True, "subject_delete_marker_ttl": NS_PER_S, "allow_rollup_hdrs": True},
    {"allow_msg_schedules": True, "allow_msg_ttl": True, "allow_rollup_hdrs": True},
    {"allow_msg_counter": True},
)
_WITHOUT_SOURCES: Final = ("allow_msg_schedules", "allow_msg_counter")
HEADERS: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {"Nats-Msg-Id": "x"},
    {"Nats-Msg-Id": "y"},
    {"Nats-Expected-Last-Subject-Sequence": "0"},
    {"Nats-Expected-Last-Msg-Id": "x"},
    {"Nats-Rollup": "sub"},
    {"Nats-Rollup": "all", "Nats-Msg-Id": "z"},
    {"Nats-TTL": "3"},
    {"Nats-TTL": "never", "Nats-Msg-Id": "z"},
)
SCHEDULES: Final[tuple[dict[str, str], ...]] = (
    {"Nats-Schedule": "@every 5s", "Nats-Schedule-Target": "S.t"},
    {"Nats-Schedule": "@at 2027-01-15T08:00:08Z", "Nats-Schedule-Target": "S.t"},
    {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": "S.t", "Nats-Msg-Id": "y"},
)
UPDATES: Final[tuple[dict[str, Any], ...]] = (
    {"max_msgs": 3},
    {"max_msgs": -1},
    {"max_msgs_per_subject": 1},
    {"max_msgs_per_subject": -1, "discard_new_per_subject": False},
    {"max_bytes": 300},
    {"duplicate_window": 5 * NS_PER_S},
    {"duplicate_window": 0},
    {"max_age": 10 * NS_PER_S},
    {"max_msg_size": 50},
    {"allow_rollup_hdrs": False, "deny_purge": False},
    {"metadata": {"a": "b"}},
    {"retention": Retention.INTEREST},
    {"retention": Retention.LIMITS},
)
PURGES: Final[tuple[dict[str, Any], ...]] = (
    {"pattern": b">"},
    {"pattern": b"S.a"},
    {"pattern": b"S.*"},
    {"pattern": b">", "before": 4},
    {"pattern": b"S.a", "before": 6},
    {"pattern": b">", "keep": 2},
    {"pattern": b"S.b", "keep": 1},
    {"pattern": b">", "before": 30},
)
CONSUMERS: Final[dict[Retention, dict[str, dict[str, Any]]]] = {
    Retention.LIMITS: {
        "C": {},
        "D": {"filter_subjects": ("S.a", "S.b"), "ack_policy": AckPolicy.ALL},
        "P": {"deliver_subject": "to", "filter_subjects": ("S.b", "S.c")},
        "Q": {
            "priority_policy": PriorityPolicy.PINNED_CLIENT,
            "priority_groups": ("g",),
            "priority_timeout": 3 * NS_PER_S,
        },
    },
    Retention.INTEREST: {
        "C": {},
        "D": {"filter_subjects": ("S.b", "S.c")},
        "P": {"deliver_subject": "to", "filter_subjects": ("S.a",)},
    },
    Retention.WORKQUEUE: {
        "C": {"filter_subjects": ("S.a",)},
        "D": {"filter_subjects": ("S.b", "S.c")},
    },
}
CONSUMER_CHANGES: Final[tuple[dict[str, Any], ...]] = (
    {"description": "other"},
    {"ack_wait": 5 * NS_PER_S},
    {"max_ack_pending": 2},
    {"pause_until": Time(BEGINNING_NS + 20 * NS_PER_S, "2027-01-15T08:00:20Z")},
    {"pause_until": None},
)
WORDS: Final = (ACK, ACK, ACK, b"+TERM", NAK, PROGRESS)

WEIGHTS: Final = {
    "publish": 8,
    "atomic": 4,
    "fast": 4,
    "copy": 3,
    "pull": 6,
    "speak": 6,
    "wait": 4,
    "listen": 1,
    "update": 2,
    "purge": 2,
    "delete": 2,
    "create": 2,
    "change": 1,
    "drop": 1,
    "reset": 1,
    "unpin": 1,
    "write": 4,
    "commit": 5,
    "retreat": 4,
    "withdraw": 2,
}
STEPS: Final = tuple(name for name, weight in WEIGHTS.items() for _ in range(weight))


drop_atomic_batches: Final = AtomicBatches.drop


class Twin(HeldDriver):
    """A stream that gets committed entries only."""

    def __init__(self, storage: Storage, **config: Any) -> None:
        super().__init__(storage, **config)
        # Another seed than that of the files: messages are decoded and encoded again.
        self._record_codec = RecordCodec(SEED)
        # Whether messages of batches were not decided here.
        self.misses_batches = False
        # Atomic batches to drop, each behind the proposal that was in flight before it.
        self._drops: list[tuple[Proposal[Record], Iterable[bytes]]] = []

    def follow(
        self, leader: HeldDriver, proposal: Proposal[Record], decided: Decided | None
    ) -> None:
        """Apply a proposal that the leader has applied; publishes are decided here, too, unless an
        acknowledgement was in flight by which a message may leave."""
        data = [*map(self._record_codec.encode, proposal.records)]
        self.now_ns = leader.now_ns
        if decided is not None:
            of_batch = any(map(_is_of_batch, decided.messages))
            if decided.is_exact and not (of_batch and self.misses_batches):
                self._decide_again(proposal, data, decided)
            else:
                # Its open batches are others from now on.
                self.misses_batches |= of_batch
        records: list[Record] = []
        for each in data:
            record = self._record_codec.decode(each)
            assert not isinstance(record, StreamCreated | StreamDeleted)
            records.append(record)
        self.propose(Proposal(records, needs_entry=proposal.needs_entry))
        self.commit_all()
        self.stream.consumers.closed.clear()
        self._drop_behind(proposal)

    def _decide_again(
        self, proposal: Proposal[Record], data: list[bytes], decided: Decided
    ) -> None:
        again = self.stream.publishing.decide(incoming_of(decided.messages), decided.now_ns)
        assert [*map(self._record_codec.encode, again.records)] == data
        assert again.reply_subjects == proposal.reply_subjects
        assert again.replies == proposal.replies
        assert again.abandoned == proposal.abandoned

    def follow_refusal(self, leader: HeldDriver, proposal: Proposal[Record]) -> None:
        """Drop atomic batches that have a message in a refused proposal, as the leader must, when
        the proposals that stay in flight before it are applied."""
        if proposal.batches is not None:
            before = [*leader.group.in_flight][-1:] or [proposal]
            self._drops.append((before[0], proposal.batches.atomic))
        self._drop_behind(proposal)

    def _drop_behind(self, proposal: Proposal[Record]) -> None:
        for before, batches in self._drops:
            if before is proposal:
                drop_atomic_batches(self.stream.publishing.atomic_batches, batches)
        self._drops = [each for each in self._drops if each[0] is not proposal]


def _is_of_batch(message: Publish) -> bool:
    return "Nats-Batch-Id" in message.headers or (message.reply or b"").endswith(b"$FI")


class RetreatWalk:
    """A leader, its twin, and the clients."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self.retention = choose(RETENTIONS)
        self.config: dict[str, Any] = {
            "retention": self.retention,
            "allow_atomic": True,
            "allow_batched": True,
            **choose(LIMITS),
        }
        self.config |= choose([each for each in FEATURES if self._allows(each)])
        # A stream with schedules or counters has no sources of this kind.
        if self.config.keys().isdisjoint(_WITHOUT_SOURCES) and choose((True, False)):
            self.config["sources"] = (StreamSource(name="O"),)
        storage = choose([*Storage])
        self.leader = HeldDriver(storage, choose((True, False)), **self.config)
        self.twin = Twin(storage, **self.config)
        self.leader.follow_applied = lambda *applied: self.twin.follow(self.leader, *applied)
        self.leader.follow_refused = lambda each: self.twin.follow_refusal(self.leader, each)
        # Due work drops ids past their window, which count for nothing; the journal has those that
        # are kept when their messages go. Without such ids the files are the same.
        self._ids_end = "max_age" in self.config or choose((True, False))
        # The last message of the source that was copied, as far as it is proposed.
        self._copied = 0
        self._got: list[Got] = []
        self.create()
        self.leader.commit_all()

    def _allows(self, features: dict[str, Any]) -> bool:
        is_plain = self.config.get("discard", Discard.OLD) is Discard.OLD
        if "allow_msg_counter" in features:
            return is_plain and self.retention is Retention.LIMITS
        # The copy of a schedule that no consumer needs is not stored, and its leader, as that of
        # nats-server, waits for it until it is another one.
        has_schedules = "allow_msg_schedules" in features
        return not has_schedules or (is_plain and self.retention is not Retention.INTEREST)

    def take_step(self, name: str) -> None:
        step: Callable[[], None] = getattr(self, name)
        step()

    # --- publishes -----------------------------------------------------------------------------

    def _message(self, reply: bytes = b"r", headers: dict[str, str] | None = None) -> Publish:
        headers = headers or {}
        config = self.leader.stream.config
        options = HEADERS
        if config.allow_msg_schedules and self._choose((False, True)):
            options = SCHEDULES
        chosen = {**self._choose(options), **headers}
        if config.allow_msg_counter and self._choose((True, True, False)):
            chosen = {**headers, "Nats-Incr": "2"}
        body = self._choose((b"", b"x" * 40, b"y" * 90))
        body = b"" if "Nats-Incr" in chosen else body
        return Publish(self._choose(SUBJECTS), body, chosen, reply)

    def publish(self) -> None:
        self.leader.publish_together([self._message() for _ in range(self._choose((1, 2, 3)))])

    def atomic(self) -> None:
        """Go on with an atomic batch, perhaps with a mistake, perhaps beside another message."""
        batch_id = self._choose(("b", "c"))
        found = self.leader.stream.publishing.atomic_batches.open.get(batch_id.encode())
        number = (len(found.messages) if found else 0) + self._choose((1, 1, 1, 1, 2))
        headers = {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
        commit = self._choose(("", "1", "eob"))
        if commit:
            headers["Nats-Batch-Commit"] = commit
        others = [self._message()] if self._choose((False, True)) else []
        self.leader.publish_together([*others, self._message(headers=headers)])

    def fast(self) -> None:
        """Go on with a fast batch, perhaps with a gap."""
        batch_id, gap = self._choose((("f", "fail"), ("g", "ok")))
        found = self.leader.stream.publishing.fast_batches.open.get(batch_id.encode())
        number = (found.received if found else 0) + self._choose((1, 1, 1, 2))
        operation = self._choose((1, 1, 2, 4, 3))
        if number == 1:
            operation = 0 if operation in (1, 3) else operation
        reply = f"_INBOX.{batch_id}.3.{gap}.{number}.{operation}.$FI".encode()
        others = [self._message()] if self._choose((False, True)) else []
        self.leader.publish_together([*others, self._message(reply)])

    def copy(self) -> None:
        """Copy messages of the source, which has no message at some of its sequences."""
        leader, origin = self.leader, origin_of(False)
        if not self.config.get("sources"):
            return
        if leader.stream.needs_commit or leader.stream.look_ahead.is_full:
            leader.commit_all()
        if not leader.group:
            self._copied = leader.stream.positions.of(origin.index_name).sequence
        messages = []
        for _ in range(self._choose((1, 2, 3))):
            self._copied += self._choose((1, 1, 3))
            messages.append((self._copied, self._choose(SUBJECTS), b"copied"))
        source(leader, arrivals(*messages))

    # --- clients of consumers ------------------------------------------------------------------

    def _consumer(self) -> str:
        names = [*self.leader.stream.consumers.by_name]
        return self._choose(names) if names else ""

    def pull(self) -> None:
        name = self._consumer()
        if name and self.leader.consumer(name).pulls is not None:
            options: dict[str, Any] = {**self._choose(({"no_wait": True}, {"expires": 3}))}
            if self.leader.consumer(name).config.priority_groups:
                options["group"] = "g"
            self.leader.pull(self._choose((1, 2, 3)), name=name, **options)

    def speak(self) -> None:
        self._got += self.leader.take()
        there = [each for each in self._got if self.leader.has(each.reply.split(b".")[3].decode())]
        if there:
            said = [self._choose(there) for _ in range(self._choose((1, 2)))]
            reply = self._choose((None, b"confirm"))
            self.leader.say([(got, self._choose(WORDS), reply) for got in said])

    def listen(self) -> None:
        name = self._consumer()
        if name and self.leader.consumer(name).push is not None:
            (self.leader.listen if self._choose((True, False)) else self.leader.leave)(name)

    def wait(self) -> None:
        if self.leader.is_changing:
            self.leader.commit_all()
        self.leader.advance(self._choose((0.5, 2.5, 6)))

    # --- requests ------------------------------------------------------------------------------

    def update(self) -> None:
        changes = self._choose(UPDATES)
        config = self.leader.stream.config
        if "max_bytes" in changes and config.discard is Discard.NEW:
            return
        if "allow_rollup_hdrs" in changes and config.allow_msg_schedules:
            return
        if not self._ids_end and "duplicate_window" in changes:
            return
        if "retention" in changes and not self._may_retain(config):
            return
        self.leader.update(**changes)

    def _may_retain(self, config: StreamConfig) -> bool:
        """Whether the stream may change between limits and interest."""
        is_plain = not (config.allow_msg_schedules or config.allow_msg_counter)
        return is_plain and config.retention is not Retention.WORKQUEUE

    def purge(self) -> None:
        purge = self._choose(PURGES)
        self.leader.request(lambda: Purged(now_ns=self.leader.now_ns, **purge), is_foreseen=True)

    def delete(self) -> None:
        stream = self.leader.stream

        def make() -> Record | None:
            ahead = stream.look_ahead
            end = ahead.next_sequence
            sequences = [each for each in range(max(end - 40, 1), end) if stream.will_have(each)]
            return (
                Removed([self._choose(sequences)], self._choose((False, True)))
                if sequences
                else None
            )

        is_foreseen = not (stream.needs_commit or stream.may_consume)
        self.leader.request(make, is_foreseen=is_foreseen)

    def create(self) -> None:
        leader = self.leader
        if leader.stream.look_ahead.is_reconfigured or leader.is_changing:
            leader.commit_all()
        known = CONSUMERS[leader.stream.config.retention]
        name = self._choose([*known])
        if not leader.has(name):
            leader.create_later(name, ack_wait=2 * NS_PER_S, **known[name])

    def change(self) -> None:
        self.leader.change_later(self._consumer(), **self._choose(CONSUMER_CHANGES))

    def drop(self) -> None:
        self.leader.drop_later(self._consumer())

    def reset(self) -> None:
        if self.leader.stream.look_ahead.config.retention is Retention.LIMITS:
            self.leader.reset_later(self._consumer(), self._choose((1, 2, 5)))

    def unpin(self) -> None:
        self.leader.unpin_later("Q")

    # --- the log -------------------------------------------------------------------------------

    def write(self) -> None:
        self.leader.write()

    def commit(self) -> None:
        self.leader.commit()
        self.check()

    def retreat(self) -> None:
        self.leader.take_back()
        assert not self.leader.group
        self.check()

    def withdraw(self) -> None:
        """Take entries back from any of them on; steps of consumers among them stay."""
        group = self.leader.group
        if group.committed < group.proposed:
            self.leader.take_back_from(self._choose(range(group.committed + 1, group.proposed + 1)))
            self.check()

    def check(self) -> None:
        """Compare what is committed, and if nothing is in flight, all that follows from it."""
        leader, twin, now_ns = self.leader, self.twin, self.leader.now_ns
        ours, theirs = leader.stream.dump(now_ns), twin.stream.dump(now_ns)
        for name, value in ours.items():
            assert theirs[name] == value, f"the twin has another {name}"
        assert usage(leader) == usage(twin)
        assert leader.group.applied == twin.group.applied
        if not self._ids_end:
            assert files(leader) == files(twin)
        if not leader.group:
            ours, theirs = expected(leader, now_ns), expected(twin, now_ns)
            if self._has_equal_batches():
                ours |= open_batches(leader)
                theirs |= open_batches(twin)
            for name, value in ours.items():
                assert theirs[name] == value, f"the twin expects another {name}"

    def _has_equal_batches(self) -> bool:
        """Whether the twin has decided all messages of the open batches. When the leader has none,
        the twin may begin again, too."""
        leader, twin = self.leader, self.twin
        if not any(open_batches(leader).values()) and twin.misses_batches:
            twin.stream.publishing.drop_batches()
            twin.misses_batches = False
        return not twin.misses_batches

    def probe(self) -> list[tuple[object, object]]:
        """Ask both for the same things, after a retreat. Returns the answers that differ."""
        self.retreat()
        self.twin.now_ns = self.leader.now_ns
        self.leader.follow_applied = lambda *_: None
        self.leader.follow_refused = lambda *_: None
        for driver in (self.leader, self.twin):
            stand_alone(driver)
        has_batches = self._has_equal_batches()
        both = zip(probes(self.leader, has_batches), probes(self.twin, has_batches), strict=True)
        return [(ours, theirs) for ours, theirs in both if ours != theirs]


def usage(driver: HeldDriver) -> tuple[int, ...]:
    """The bytes that the account and the server count."""
    storage, account = driver.stream.config.storage, driver.account
    server = account.server.usage
    return (
        account.used_bytes(storage),
        account.reserved_bytes(storage),
        server.used(storage),
        server.reserved(storage),
    )


def files(driver: HeldDriver) -> dict[str, bytes]:
    """The files of the stream; the write-ahead file is the server's."""
    return {path: data for path, data in driver.disk.dump().items() if f"/{NAME}/" in path}


def open_batches(driver: HeldDriver) -> dict[str, object]:
    """The open batches, by id."""
    stream = driver.stream
    atomic = sorted(
        (each, batch.messages) for each, batch in stream.publishing.atomic_batches.open.items()
    )
    fast = sorted(
        (each, batch.state) for each, batch in stream.publishing.fast_batches.open.items()
    )
    return {"atomic": atomic, "fast": fast}


def expected(driver: HeldDriver, now_ns: int) -> dict[str, object]:
    """The values by which the next publishes are decided, and the times of due work."""
    stream = driver.stream
    ahead = stream.look_ahead
    messages = ahead.foreseen()
    subjects = [each.encode() for each in (*SUBJECTS, "S.t")]
    found: dict[str, object] = {
        "next": (ahead.next_sequence, ahead.last_ns, ahead.last_id),
        "in flight": (len(ahead), ahead.messages, ahead.byte_count, ahead.needs_commit),
        "ids": [ahead.find_id(each.encode(), now_ns) for each in IDS],
        "counts": (messages.messages, messages.byte_count, [*map(messages.count_of, subjects)]),
        "lasts": [*map(messages.last_sequence_of, subjects)],
        "schedules": stream.scheduling.next_due_ns(),
        "expiries": expiries(driver),
        "to come": {each.name: each.position.pending_count() for each in stream.consumers},
    }
    return found


def expiries(driver: HeldDriver) -> list[tuple[int, int]]:
    """The expiries of all messages, without those that are still kept of messages that are gone."""
    log = driver.stream.log
    found = log.expiries.pending()
    return sorted(each for each in found if log.index.has(each[0]) or each[0] > log.last_sequence)


# --- probes --------------------------------------------------------------------------------------


def stand_alone(driver: HeldDriver) -> None:
    """Have the clients of a stream go away, and its consumers begin to work."""
    driver.host.unheard.add(INBOX.encode())
    for consumer in [*driver.stream.consumers]:
        consumer.start(driver.now_ns)
        if consumer.push is not None:
            driver.leave(consumer.name)
    driver.commit_all()
    driver.take()


def probes(driver: HeldDriver, has_batches: bool) -> Iterator[object]:
    """The answers to a fixed script, which goes on with open batches if `has_batches`."""
    driver.run_due()
    driver.commit_all()
    yield driver.contents
    for messages in scripts(has_batches):
        driver.answers.clear()
        driver.publish_together(messages)
        driver.commit_all()
        yield [*driver.answers]
    driver.advance(LONG_S)
    driver.commit_all()
    yield driver.contents
    for name in sorted(driver.stream.consumers.by_name):
        yield name, deliveries(driver, name)
        yield driver.contents
    # Clients whose random ids are part of the state are not pinned for that long.
    driver.advance(LONG_S)
    driver.commit_all()
    yield driver.stream.dump(driver.now_ns)


def scripts(has_batches: bool) -> Iterator[list[Publish]]:
    for subject in SUBJECTS:
        yield [Publish(subject, b"p", {"Nats-Msg-Id": each}) for each in IDS]
        yield [Publish(subject, b"p", {"Nats-Expected-Last-Subject-Sequence": "0"})]
        yield [Publish(subject, b"", {"Nats-Incr": "5"})]
    if has_batches:
        for batch_id in "bc":
            headers = {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": "2"}
            yield [Publish("S.a", b"p", headers | {"Nats-Batch-Commit": "1"})]
        for batch_id, gap in (("f", "fail"), ("g", "ok")):
            for number, operation in ((2, 1), (4, 4), (5, 2)):
                reply = f"_INBOX.{batch_id}.3.{gap}.{number}.{operation}.$FI".encode()
                yield [Publish("S.b", b"p", {}, reply)]


def deliveries(driver: HeldDriver, name: str) -> list[tuple[int, int, str, bytes]]:
    """All messages that a consumer delivers until there are no more, each acknowledged."""
    found = []
    consumer = driver.consumer(name)
    options: dict[str, Any] = {"group": "g"} if consumer.config.priority_groups else {}
    for _ in range(ROUNDS_MAX):
        if consumer.push is None:
            driver.pull(100, to=PROBE_INBOX, name=name, no_wait=True, **options)
        else:
            driver.listen(name)
        driver.commit_all()
        got = driver.take()
        found += [(each.sequence, each.deliveries, each.subject, each.payload) for each in got]
        driver.ack(*got)
        driver.commit_all()
        if not got:
            return sorted(found)
    raise AssertionError("a consumer delivers on and on")
