"""Records in flight are foreseen as they will be, and forgotten as if they had never been.

An oracle applies every record at once. Beside it, a stream gets the same records only when they are
committed, and a look-ahead over that stream holds the others. Every question to the look-ahead has
to have the answer that the oracle has.
"""

import copy
from contextlib import nullcontext
from typing import Any, Final
from unittest.mock import patch

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.records import Configured, Published, Purged, Removed
from headwater.jetstream.streams import foreseen
from headwater.jetstream.streams.foreseen import Foreseen
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.jetstream.streams.look_ahead import Ahead, LookAhead
from tests.kit.stream_driver import Publish, StreamDriver, incoming_of
from tests.properties.publish_strategies import CONFIGS, GROUPS, SUBJECTS

Step = tuple[str, Any]

PATTERNS: Final = (b">", b"S.*", b"S.>", b"S.a.*", b"T.*")
IDS: Final = (b"x", b"y", b"z", b"never")

ALL_CONFIGS: Final = st.one_of(
    CONFIGS,
    st.sampled_from(
        [
            {"retention": Retention.INTEREST, "allow_rollup_hdrs": True, "max_msgs": 3},
            {"max_bytes": 300, "max_msgs_per_subject": 2, "allow_rollup_hdrs": True},
            {"duplicate_window": 10**9, "max_msgs": 2},
        ]
    ),
)


@st.composite
def fast_messages(draw: st.DrawFn) -> list[Publish]:
    """A fast batch, perhaps with a gap."""
    count = draw(st.integers(1, 3))
    gap = draw(st.sampled_from(["ok", "fail"]))
    found = []
    for number in range(1, count + 1):
        operation = 2 if number == count else min(number - 1, 1)
        reply = f"_INBOX.f.10.{gap}.{number}.{operation}.$FI".encode()
        subject = draw(st.sampled_from(SUBJECTS))
        headers = draw(st.sampled_from([{}, {"Nats-Msg-Id": "x"}, {"Nats-Rollup": "sub"}]))
        found.append(Publish(subject, b"x" * 40, headers, reply))
    return found


MESSAGES: Final = st.lists(
    st.one_of(GROUPS, st.lists(fast_messages(), max_size=1)), max_size=2
).map(lambda many: [message for groups in many for group in groups for message in group])
# Requests: a purge, or another configuration.
REQUESTS: Final = st.one_of(
    st.tuples(st.sampled_from([b">", b"S.a", b"S.*"]), st.integers(0, 12), st.integers(0, 3)).map(
        lambda words: Purged(words[0], words[1], words[2])
    ),
    st.sampled_from(
        [
            {"max_msgs": 2},
            {"max_msgs": -1, "max_bytes": 250},
            {"max_msgs_per_subject": 1},
            {"allow_rollup_hdrs": True, "description": "x"},
            {"duplicate_window": 10**9},
            {"duplicate_window": 3 * 10**9},
            {"duplicate_window": 0},
        ]
    ),
)
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), MESSAGES),
        st.tuples(st.just("publish"), MESSAGES),
        st.tuples(st.just("commit"), st.integers(1, 3)),
        st.tuples(st.just("retreat"), st.integers(1, 3)),
        st.tuples(st.just("draft"), st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=3)),
        st.tuples(st.just("look"), st.none()),
        st.tuples(st.just("remove"), st.lists(st.integers(1, 12), min_size=1, max_size=3)),
        st.tuples(st.just("purge"), st.sampled_from([b">", b"S.a", b"S.*"])),
        st.tuples(st.just("request"), REQUESTS),
        st.tuples(st.just("limit"), st.integers(1, 3)),
        st.tuples(st.just("wait"), st.sampled_from([1, 10**9])),
    ),
    max_size=14,
)


class World:
    """An oracle, a stream that has the committed records, and a look-ahead with the others."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = {"allow_atomic": True, "allow_batched": True, **config}
        self.oracle = StreamDriver(Storage.MEMORY, **self.config)
        self.committed = StreamDriver(Storage.MEMORY, **self.config)
        self.records: list[Ahead] = []
        self.commits = 0
        self.look_ahead = self.new_look_ahead()

    def new_look_ahead(self) -> LookAhead:
        stream = self.committed.stream
        return LookAhead(stream.log, stream.dedupe, stream.config)

    # --- steps ---------------------------------------------------------------------------------

    def take(self, step: str, what: Any) -> None:
        oracle = self.oracle
        if step == "publish" and what:
            decision = oracle.stream.publishing.decide(incoming_of(what), oracle.now_ns)
            self.propose([each for each in decision.records if isinstance(each, Ahead)])
        elif step == "commit":
            self.commit(what)
        elif step == "retreat":
            self.forget(min(what, len(self.look_ahead)))
        elif step == "draft":
            self.leave_a_draft(what)
        elif step == "remove":
            there = [each for each in what if oracle.stream.message(each) is not None]
            self.propose([Removed(sorted({*there}))] if there else [])
        elif step == "purge":
            self.propose([Purged(what)])
        elif step == "request":
            if isinstance(what, dict):
                config = msgspec.structs.replace(oracle.stream.config, **what)
                what = Configured(config, oracle.now_ns)
            self.propose([what])
        elif step == "limit":
            config = msgspec.structs.replace(oracle.stream.config, max_msgs=what)
            self.propose([Configured(config, oracle.now_ns)])
        elif step == "wait":
            self.oracle.now_ns += what
            self.committed.now_ns += what

    def propose(self, records: list[Ahead]) -> None:
        for record in records:
            self.oracle.record(record)
            self.records.append(record)
            self.look_ahead.propose(copy.deepcopy(record))
        if self.look_ahead.needs_commit:
            self.commit(len(self.look_ahead))

    def commit(self, count: int) -> None:
        for _ in range(min(count, len(self.look_ahead))):
            self.committed.record(self.records[self.commits])
            self.commits += 1
            self.look_ahead.commit_oldest()

    def forget(self, count: int) -> None:
        """Forget the newest records: the oracle is another one, which never saw them."""
        if not count:
            return
        left = self.records[: len(self.records) - count]
        now_ns = self.oracle.now_ns
        self.oracle = StreamDriver(Storage.MEMORY, **self.config)
        self.oracle.now_ns = now_ns
        for record in left:
            self.oracle.record(record)
        self.records = left
        assert len(self.look_ahead.retreat(count)) == count

    def leave_a_draft(self, subjects: list[str]) -> None:
        """Add messages of a turn whose records are never proposed."""
        messages = self.look_ahead.foreseen()
        sequence = self.look_ahead.next_sequence
        for number, subject in enumerate(subjects):
            message = (subject.encode(), 60, b"", b"draft")
            purges = [(None, sequence + number)] if number == 1 and messages.removes else []
            messages.admit(sequence + number, message, [*purges])

    # --- comparisons ---------------------------------------------------------------------------

    def check(self, looks: bool) -> None:
        oracle, ahead = self.oracle.stream, self.look_ahead
        assert ahead.next_sequence == oracle.log.last_sequence + 1
        assert ahead.last_id == oracle.dedupe.last_id
        assert ahead.last_ns == oracle.log.index.last_timestamp_ns
        if not looks:
            return
        assert self.kept(ahead) == self.kept(self.fresh())
        now_ns = self.oracle.now_ns
        for message_id in IDS:
            assert ahead.find_id(message_id, now_ns) == oracle.dedupe.find(message_id, now_ns)
            if oracle.dedupe.find(message_id, now_ns):
                assert not ahead.are_new([message_id])
        there = LogMessages(oracle.log)
        foreseen_messages = ahead.foreseen()
        assert answers(foreseen_messages, self) == answers(there, self)

    def fresh(self) -> LookAhead:
        """A look-ahead that only ever saw the records in flight."""
        found = self.new_look_ahead()
        for record in self.records[self.commits :]:
            found.propose(record)
        return found

    def kept(self, ahead: LookAhead) -> tuple[object, ...]:
        ids = [ahead.are_new([message_id]) for message_id in IDS]
        return len(ahead), ahead.messages, ahead.byte_count, ahead.is_full, ahead.needs_commit, ids


def answers(messages: Foreseen | LogMessages, world: World) -> dict[str, object]:
    """The answers to all questions about messages."""
    last = world.oracle.stream.log.last_sequence
    subjects = [subject.encode() for subject in (*SUBJECTS, "S.t", "S.never")]
    there = [sequence for sequence in range(1, last + 2) if messages.has(sequence)]
    counts = {subject: messages.count_of(subject) for subject in subjects}
    return {
        "messages": messages.messages,
        "bytes": messages.byte_count if world.oracle.stream.config.max_bytes > 0 else 0,
        "there": there,
        "sizes": [*map(messages.size_of, there)],
        "firsts": [messages.first_from(sequence) for sequence in range(last + 2)],
        "counts": counts,
        "oldest": {
            each: messages.oldest_of(each, count) for each, count in counts.items() if count
        },
        "lasts": [*map(messages.last_sequence_of, (*subjects, *PATTERNS))],
        "subjects": [messages.subjects_like(pattern) for pattern in PATTERNS],
        "contents": [content_of(messages, subject) for subject in subjects],
    }


def content_of(messages: Foreseen | LogMessages, subject: bytes) -> tuple[bytes, bytes] | None:
    if isinstance(messages, Foreseen):
        return messages.content_of(subject)
    sequence = messages.last_of(subject)
    return messages.content_at(sequence) if sequence else None


ROLL_UP: Final = Publish("S.a", b"", {"Nats-Rollup": "all"})


@settings(deadline=None)
@given(config=ALL_CONFIGS, steps=STEPS, are_many=st.booleans(), looks=st.booleans())
# A purge of everything is in flight between messages before and behind it.
@example(
    config={"max_msgs": 3, "allow_rollup_hdrs": True},
    steps=[
        ("publish", [Publish("S.a"), Publish("S.b")]),
        ("publish", [ROLL_UP]),
        ("publish", [Publish("S.c")]),
        ("commit", 1),
        ("commit", 1),
        ("retreat", 1),
    ],
    are_many=False,
    looks=True,
)
def test_what_is_in_flight_is_seen_as_if_it_were_applied(
    config: dict[str, Any], steps: list[Step], are_many: bool, looks: bool
) -> None:
    world = World(config)
    patched = patch.object(foreseen, "DROPPED_SINGLY_MAX", 0) if are_many else nullcontext()
    with patched:
        for step, what in steps:
            world.take(step, what)
            # Without questions in between, all records are foreseen at once.
            world.check(looks or step == "look")
        world.check(looks=True)
        world.forget(len(world.look_ahead))
        world.check(looks=True)


def test_a_published_record_is_as_large_as_its_messages() -> None:
    world = World({})
    world.take("publish", [Publish("S.a", b"x" * 100), Publish("S.b", b"y" * 100)])
    assert world.look_ahead.messages == 2
    assert 2 * 100 < world.look_ahead.byte_count < 2 * 200
    assert isinstance(world.look_ahead.oldest, Published)


# --- streams --------------------------------------------------------------------------------------

SCHEDULE: Final = {
    "Nats-Schedule": "@every 1h",
    "Nats-Schedule-Target": "S.t",
}
TURNS: Final = st.lists(
    st.one_of(
        GROUPS.map(lambda groups: [message for group in groups for message in group]),
        st.just([Publish("S.a", b"x", SCHEDULE)]),
        # The stream does its due work.
        st.none(),
    ),
    max_size=4,
)


def take_turns(driver: StreamDriver, turns: list[list[Publish] | None]) -> None:
    """Decide turns whose records wait."""
    for messages in turns:
        if messages is None:
            driver.run_due()
        elif messages:
            driver.publish_together(messages)


@settings(deadline=None)
@given(
    config=ALL_CONFIGS,
    before=TURNS,
    kept=TURNS,
    forgotten=TURNS,
    behind=TURNS,
    hours=st.integers(0, 2),
)
def test_a_stream_after_a_retreat_is_as_one_that_never_saw_the_rest(
    config: dict[str, Any],
    before: list[list[Publish] | None],
    kept: list[list[Publish] | None],
    forgotten: list[list[Publish] | None],
    behind: list[list[Publish] | None],
    hours: int,
) -> None:
    drivers = [StreamDriver(Storage.MEMORY, allow_atomic=True, **config) for _ in range(2)]
    for driver, is_witness in zip(drivers, (False, True), strict=True):
        take_turns(driver, before)
        driver.now_ns += hours * 3600 * NS_PER_S
        driver.hold()
        take_turns(driver, kept)
        if is_witness:
            waiting = driver.waiting
            take_turns(driver, forgotten)
            driver.retreat(driver.waiting - waiting)
        take_turns(driver, behind)
        driver.release()
        driver.check()
    never, witness = drivers
    assert witness.answers == never.answers
    assert witness.stream.dump(witness.now_ns) == never.stream.dump(never.now_ns)
    assert witness.stream.due.next_ns() == never.stream.due.next_ns()
