"""Neither the answers nor the stream show how publishes were divided into turns.

Three streams get equal publishes: one by one, all in one turn, and in turns whose records wait for
the disk while the next ones are decided.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Final
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.jetstream.config.stream_config import Discard, Retention, Storage
from headwater.jetstream.streams import removal
from headwater.jetstream.streams.publishing import forecast
from headwater.jetstream.streams.publishing.in_flight import InFlight
from headwater.jetstream.streams.stream import Stream
from headwater.store.log import memory_log as memory
from headwater.store.log import message_log
from tests.kit.stream_driver import Answer, Publish, StreamDriver, incoming_of

SUBJECTS = ("S.a", "S.b", "S.c", "S.a.b")
SMALL = st.integers(min_value=0, max_value=6).map(str)

HEADERS: dict[str, st.SearchStrategy[str]] = {
    "Nats-Msg-Id": st.sampled_from(["x", "y", "z"]),
    "Nats-Expected-Last-Sequence": SMALL,
    "Nats-Expected-Last-Subject-Sequence": SMALL,
    "Nats-Expected-Last-Subject-Sequence-Subject": st.sampled_from(["S.a", "S.*", "S.>"]),
    "Nats-Expected-Last-Msg-Id": st.sampled_from(["x", "y"]),
    "Nats-Rollup": st.sampled_from(["sub", "all", "none"]),
    "Nats-TTL": st.sampled_from(["1", "5s", "never", "x"]),
    "Nats-Incr": st.sampled_from(["1", "-2", "x"]),
    "Nats-Schedule": st.sampled_from(["@at 2100-01-01T00:00:00Z", "@every 1h", "x"]),
    "Nats-Schedule-Target": st.sampled_from(["S.t", "S.a"]),
    "Nats-Schedule-Next": st.just("purge"),
    "Nats-Scheduler": st.sampled_from(["S.a", "S.b"]),
}

CONFIGS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"max_msgs": 3},
        {"max_msgs_per_subject": 1},
        {"max_msgs_per_subject": 2, "max_msgs": 4, "allow_rollup_hdrs": True},
        {"max_bytes": 300, "allow_rollup_hdrs": True},
        {"max_bytes": 300, "max_msgs_per_subject": 1},
        {"max_msgs": 3, "discard": Discard.NEW},
        {"max_bytes": 300, "discard": Discard.NEW, "max_msgs_per_subject": 1},
        {
            "max_msgs": 4,
            "discard": Discard.NEW,
            "max_msgs_per_subject": 2,
            "discard_new_per_subject": True,
            "allow_rollup_hdrs": True,
        },
        {"max_msgs": 3, "discard": Discard.NEW, "allow_rollup_hdrs": True},
        {"allow_msg_counter": True},
        {"allow_msg_schedules": True, "allow_msg_ttl": True},
        {"allow_msg_ttl": True, "max_age": 10**10, "subject_delete_marker_ttl": 10**9},
    ]
)


@st.composite
def publishes(draw: st.DrawFn) -> Publish:
    names = draw(st.lists(st.sampled_from([*HEADERS]), max_size=3, unique=True))
    headers = {name: draw(HEADERS[name]) for name in names}
    body = draw(st.sampled_from([b"", b"x" * 40, b"y" * 90]))
    return Publish(draw(st.sampled_from(SUBJECTS)), body, headers)


@st.composite
def batches(draw: st.DrawFn) -> list[Publish]:
    """An atomic batch, perhaps of one message, perhaps with a mistake in it."""
    members = draw(st.lists(publishes(), min_size=1, max_size=3))
    batch = []
    for number, member in enumerate(members, 1):
        headers = {**member.headers, "Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(number)}
        if number == len(members):
            headers["Nats-Batch-Commit"] = "1"
        batch.append(member._replace(headers=headers))
    return batch


GROUPS = st.lists(st.one_of(publishes().map(lambda each: [each]), batches()), max_size=10)


def dump_of(driver: StreamDriver) -> dict[str, object]:
    return driver.stream.dump(driver.now_ns)


def one_by_one(storage: Storage, config: dict[str, Any], messages: list[Publish]) -> StreamDriver:
    driver = StreamDriver(storage, **config)
    for message in messages:
        driver.publish_together([message])
    return driver


def texts(answers: list[Answer]) -> list[str]:
    return [answer.text for answer in answers]


@contextmanager
def few_are_many() -> Iterator[None]:
    """Let streams handle few messages as they handle very many."""
    with ExitStack() as stack:
        for module in (removal, memory, message_log):
            stack.enter_context(patch.object(module, "PURGED_AT_A_TIME", 1))
        stack.enter_context(patch.object(removal, "IDS_PER_ENTRY_MAX", 1))
        stack.enter_context(patch.object(forecast, "DROPPED_SINGLY_MAX", 0))
        yield


@settings(deadline=None)
@given(
    config=CONFIGS,
    groups=GROUPS,
    size=st.integers(min_value=1, max_value=4),
    are_many=st.booleans(),
)
# A subject without messages is asked for behind a schedule that ended another one.
@example(
    config={"allow_msg_schedules": True, "allow_msg_ttl": True},
    groups=[
        [
            Publish(
                "S.a",
                headers={
                    "Nats-Msg-Id": "x",
                    "Nats-Schedule": "@at 2100-01-01T00:00:00Z",
                    "Nats-Schedule-Target": "S.t",
                },
            )
        ],
        [Publish("S.b", headers={"Nats-Expected-Last-Subject-Sequence": "0"})],
    ],
    size=1,
    are_many=True,
)
def test_turns_show_in_nothing(
    config: dict[str, Any], groups: list[list[Publish]], size: int, are_many: bool
) -> None:
    config = {"allow_atomic": True, **config}
    messages = [message for group in groups for message in group]
    expected = one_by_one(Storage.MEMORY, config, messages)
    expected.check()
    with few_are_many() if are_many else nullcontext():
        compare_turns(config, messages, size, expected)


def compare_turns(
    config: dict[str, Any], messages: list[Publish], size: int, expected: StreamDriver
) -> None:
    together = StreamDriver(Storage.MEMORY, **config)
    if messages:
        together.publish_together(messages)
    together.check()
    assert texts(together.answers) == texts(expected.answers)
    assert dump_of(together) == dump_of(expected)

    waiting = StreamDriver(Storage.MEMORY, **config)
    waiting.hold()
    for begin in range(0, len(messages), size):
        waiting.publish_together(messages[begin : begin + size])
    assert not waiting.contents, "nothing is visible before the disk is sure"
    waiting.release()
    waiting.check()
    assert texts(waiting.answers) == texts(expected.answers)
    assert dump_of(waiting) == dump_of(expected)


# --- figures kept beside records in flight --------------------------------------------------------

IN_FLIGHT_CONFIGS: Final = st.one_of(
    CONFIGS, st.just({"retention": Retention.INTEREST, "allow_rollup_hdrs": True, "max_msgs": 3})
)
MESSAGES: Final = GROUPS.map(lambda groups: [message for group in groups for message in group])
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), MESSAGES),
        st.tuples(st.just("look"), MESSAGES),
        st.tuples(st.just("release"), st.none()),
        st.tuples(st.just("purge"), st.sampled_from([b">", b"S.a", b"S.*"])),
        st.tuples(st.just("delete"), st.integers(min_value=1, max_value=12)),
        st.tuples(st.just("limit"), st.integers(min_value=1, max_value=3)),
    ),
    max_size=12,
)


def take(driver: StreamDriver, step: str, what: Any) -> None:
    if step == "publish" and what:
        driver.publish_together(what)
    elif step == "look" and what:
        # Decided records that are not stored leave nothing behind.
        driver.stream.decide(incoming_of(what), driver.now_ns)
    elif step == "release":
        driver.release_oldest()
    elif step == "purge":
        driver.purge(what)
    elif step == "delete" and driver.stream.message(what) is not None:
        driver.delete(what)
    elif step == "limit":
        driver.update(max_msgs=what)


def figures(driver: StreamDriver, in_flight: InFlight) -> dict[str, Any]:
    """All figures that records in flight can be asked for."""
    log, config = driver.stream.log, driver.stream.config
    subjects = [subject.encode() for subject in (*SUBJECTS, "S.t")]
    uncommitted, forecast = in_flight.uncommitted(), in_flight.forecast(config)
    found = log.read(1, log.messages + 1, 1 << 30) if log.messages else None
    sequences = [] if found is None else found.sequences
    return {
        "uncommitted": (uncommitted.messages, uncommitted.byte_count, dict(uncommitted.by_subject)),
        "unseen subjects": uncommitted.subjects_in(log),
        "staying": [sequence for sequence in sequences if forecast.has(sequence)],
        "totals": (forecast.messages, forecast.byte_count),
        "counts": [*map(forecast.count_of, subjects)],
        "oldest": [*map(forecast.oldest_size_of, subjects)],
    }


@settings(deadline=None)
@given(config=IN_FLIGHT_CONFIGS, steps=STEPS)
def test_what_is_kept_beside_records_in_flight_is_what_follows_from_them(
    config: dict[str, Any], steps: list[tuple[str, Any]]
) -> None:
    driver = StreamDriver(Storage.MEMORY, allow_atomic=True, **config)
    driver.hold()
    for step, what in steps:
        take(driver, step, what)
        anew = InFlight(driver.stream.log)
        for record in driver.in_flight:
            anew.add(record, driver.stream.config)
        assert figures(driver, driver.stream.in_flight) == figures(driver, anew)
    driver.release()
    driver.check()


# --- the short way --------------------------------------------------------------------------------


@settings(deadline=None)
@given(config=IN_FLIGHT_CONFIGS, messages=MESSAGES)
def test_messages_that_only_become_visible_are_applied_as_all_others(
    config: dict[str, Any], messages: list[Publish]
) -> None:
    config = {"allow_atomic": True, **config}
    shortly = one_by_one(Storage.MEMORY, config, messages)
    with patch.object(Stream, "show_plain", lambda self, records: False):
        at_length = one_by_one(Storage.MEMORY, config, messages)
    assert texts(shortly.answers) == texts(at_length.answers)
    assert dump_of(shortly) == dump_of(at_length)
