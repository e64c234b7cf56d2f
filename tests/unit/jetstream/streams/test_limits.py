"""Which messages limits remove: one rule for the messages that are there and those to come."""

from dataclasses import dataclass
from typing import Any

import pytest

from headwater.jetstream.config.stream_config import Discard, StreamConfig
from headwater.jetstream.streams.foreseen import Foreseen
from headwater.jetstream.streams.limits import (
    Messages,
    beyond_limits,
)
from headwater.jetstream.streams.log_messages import LogMessages
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch

# Subjects in the order of their messages, which have the sequences 1, 2, 3 and so on.
STORED = (b"a", b"b", b"a", b"c", b"a", b"b")


@dataclass(frozen=True)
class Listed:
    """Messages as a list: their subjects by sequence, and ten bytes each."""

    subjects: dict[int, bytes]

    @property
    def messages(self) -> int:
        return len(self.subjects)

    @property
    def byte_count(self) -> int:
        return 10 * len(self.subjects)

    def count_of(self, subject: bytes) -> int:
        return [*self.subjects.values()].count(subject)

    def oldest_of(self, subject: bytes, count: int) -> list[int]:
        return [at for at, each in self.subjects.items() if each == subject][:count]

    def first_from(self, sequence: int) -> int:
        return next((each for each in self.subjects if each >= sequence), 0)

    def size_of(self, sequence: int) -> int:
        return 10


def listed() -> Listed:
    return Listed(dict(enumerate(STORED, 1)))


def config(**limits: Any) -> StreamConfig:
    return StreamConfig(name="S", **limits)


CASES: dict[str, tuple[dict[str, Any], list[int]]] = {
    "no limit": ({}, []),
    "of each subject": ({"max_msgs_per_subject": 1}, [1, 3, 2]),
    "of each subject, some": ({"max_msgs_per_subject": 2}, [1]),
    "of all": ({"max_msgs": 4}, [1, 2]),
    "of bytes": ({"max_bytes": 35}, [1, 2, 3]),
    "of subjects first, then of all": ({"max_msgs_per_subject": 2, "max_msgs": 3}, [1, 2, 3]),
    "new ones are refused instead": ({"max_msgs": 4, "discard": Discard.NEW}, []),
    "subjects also where new ones are refused": (
        {"max_msgs_per_subject": 2, "max_msgs": 4, "discard": Discard.NEW},
        [1],
    ),
    "of nothing at all": ({"max_bytes": 1}, [1, 2, 3, 4, 5, 6]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_oldest_messages_go(name: str) -> None:
    limits, gone = CASES[name]
    assert beyond_limits(listed(), config(**limits), (b"a", b"b", b"c")) == gone


def test_only_subjects_that_got_messages_are_looked_at() -> None:
    assert beyond_limits(listed(), config(max_msgs_per_subject=1), (b"b",)) == [2]


def test_a_message_goes_once_though_two_limits_remove_it() -> None:
    found = beyond_limits(listed(), config(max_msgs_per_subject=1, max_msgs=1), (b"a", b"b"))
    assert sorted(found) == [1, 2, 3, 4, 5]


def stored() -> MemoryLog:
    log = MemoryLog()
    count = len(STORED)
    log.append(Batch([*STORED], [b""] * count, [b"x"] * count, [1] * count))
    return log


@pytest.mark.parametrize("name", CASES)
def test_a_log_and_the_messages_foreseen_over_it_are_limited_alike(name: str) -> None:
    limits = dict(CASES[name][0])
    if "max_bytes" in limits:
        # The log counts more bytes for a message than the list.
        limits["max_bytes"] *= 2
    chosen = config(**limits)
    log = stored()
    messages = LogMessages(log)
    seen: list[Messages] = [messages, Foreseen(messages, chosen, removes=True)]
    found = [beyond_limits(each, chosen, (b"a", b"b", b"c")) for each in seen]
    assert found[0] == found[1]


def test_messages_that_are_not_visible_do_not_count() -> None:
    visible = LogMessages(stored())
    visible.hide(5, [b"a", b"b"])
    assert (visible.messages, visible.count_of(b"a")) == (4, 2)
    assert beyond_limits(visible, config(max_msgs=3), (b"a",)) == [1]
