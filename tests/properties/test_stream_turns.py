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

from headwater.jetstream.config.stream_config import (
    Republish,
    Retention,
    Storage,
    SubjectTransformConfig,
)
from headwater.jetstream.errors import ApiError
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams import foreseen, removal
from headwater.jetstream.streams.publishing import checks
from headwater.jetstream.streams.stream import Stream
from headwater.store.errors import StoreError
from headwater.store.log import memory_log as memory
from headwater.store.log import message_log
from tests.kit.stream_driver import Answer, Publish, StreamDriver, incoming_of
from tests.properties.publish_strategies import CONFIGS, GROUPS


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
        stack.enter_context(patch.object(foreseen, "DROPPED_SINGLY_MAX", 0))
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


IN_FLIGHT_CONFIGS: Final = st.one_of(
    CONFIGS, st.just({"retention": Retention.INTEREST, "allow_rollup_hdrs": True, "max_msgs": 3})
)
MESSAGES: Final = GROUPS.map(lambda groups: [message for group in groups for message in group])


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


class Answers:
    """The driver of a group whose disk never fails: it keeps the replies that are released."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []

    def release(self, proposal: Proposal[Record]) -> None:
        self.replies += proposal.replies

    def refuse(self, proposal: Proposal[Record], error: ApiError) -> None:
        raise AssertionError(error)

    def application_failed(self, record: Record, error: StoreError) -> bool:
        raise error

    def application_broken(self, proposal: Proposal[Record], error: StoreError) -> ApiError:
        raise error

    def storing_failed(self, proposal: Proposal[Record], error: StoreError) -> ApiError:
        raise error


@settings(deadline=None)
@given(config=IN_FLIGHT_CONFIGS, turns=st.lists(MESSAGES.filter(bool), max_size=4))
def test_entries_that_are_committed_at_once_are_applied_as_those_that_were_queued(
    config: dict[str, Any], turns: list[list[Publish]]
) -> None:
    def applied(*, at_once: bool) -> tuple[list[bytes], dict[str, object]]:
        driver, answers = StreamDriver(Storage.MEMORY, allow_atomic=True, **config), Answers()
        group = Group[Record, ApiError](driver.stream, answers)
        for messages in turns:
            proposal = driver.stream.publishing.decide(incoming_of(messages), driver.now_ns)
            if proposal.records and at_once:
                group.propose_committed(proposal)
            else:
                group.propose(proposal)
                group.advance(group.proposed)
        assert group.applied == group.proposed
        return answers.replies, dump_of(driver)

    assert applied(at_once=True) == applied(at_once=False)


PLAIN: Final = st.lists(
    st.builds(
        Publish,
        st.sampled_from(["S.a", "S.b", "S.a.b", "S." + "x" * 70_000]),
        st.sampled_from([b"", b"x" * 40, b"x" * 90]),
        st.sampled_from([{}, {}, {"Nats-Msg-Id": "x"}, {"Nats-Msg-Id": "y"}, {"Own": "z"}]),
    ),
    max_size=4,
)
MORE_CONFIGS: Final = st.sampled_from(
    [
        {"sealed": True},
        {"retention": Retention.INTEREST},
        {"max_msg_size": 60},
        {"no_ack": True},
        {"duplicate_window": 10**9},
        {"republish": Republish(src="S.a", dest="R.a")},
        {"subject_transform": SubjectTransformConfig(src="S.a", dest="S.c")},
    ]
)


@settings(deadline=None)
@given(
    config=st.one_of(IN_FLIGHT_CONFIGS, MORE_CONFIGS),
    turns=st.lists(st.one_of(PLAIN, MESSAGES), max_size=5),
    waits=st.booleans(),
)
def test_publishes_accepted_together_are_decided_as_all_others(
    config: dict[str, Any], turns: list[list[Publish]], waits: bool
) -> None:
    def decided() -> StreamDriver:
        driver = StreamDriver(Storage.MEMORY, allow_atomic=True, **config)
        if waits:
            driver.hold()
        for messages in filter(None, turns):
            driver.publish_together(messages)
            driver.now_ns += 10**8
        driver.release()
        return driver

    together = decided()
    with patch.object(checks, "takes_unseen", lambda _: False):
        singly = decided()
    together.check()
    assert together.answers == singly.answers
    assert together.republished == singly.republished
    assert dump_of(together) == dump_of(singly)
