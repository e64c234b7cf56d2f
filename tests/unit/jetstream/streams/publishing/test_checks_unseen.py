"""Messages that are accepted unseen are those that all rules accept; each condition is needed.

A stream decides about the same publishes in three ways: as it does, with every message checked by
the rules, and unseen with one of the conditions switched off.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.jetstream.config.stream_config import (
    Discard,
    Republish,
    Retention,
    Storage,
    SubjectTransformConfig,
)
from headwater.jetstream.streams.look_ahead import LookAhead
from headwater.jetstream.streams.publishing import checks, publishing
from tests.kit.stream_driver import Answer, Publish, StreamDriver, incoming_of

A, B = Publish("S.a", b"a"), Publish("S.b", b"b")
LARGE = Publish("S.a", b"x" * 100)
LONG = Publish("S." + "x" * 70_000, b"a")
FAST = Publish("S.a", b"a", reply=b"_INBOX.f.10.ok.1.0.$FI")


def passes(*_: object) -> bool:
    """A condition that is switched off."""
    return True


class Case(NamedTuple):
    """A condition that is switched off, and publishes about which the rules decide otherwise."""

    owner: object
    name: str
    turns: list[list[Publish]]
    config: dict[str, Any] = {}  # noqa: RUF012
    replacement: object = passes


def with_id(message_id: str) -> Publish:
    return Publish("S.a", b"a", {"Nats-Msg-Id": message_id})


OF_CONFIGURATION: dict[str, dict[str, Any]] = {
    "sealed": {"sealed": True},
    "counter": {"allow_msg_counter": True},
    "discard new": {"discard": Discard.NEW, "max_msgs": 1},
    "interest": {"retention": Retention.INTEREST},
    "transform": {"subject_transform": SubjectTransformConfig(src="S.a", dest="S.c")},
    "republish": {"republish": Republish(src="S.a", dest="R.a")},
}
CASES = {
    **{
        f"{what}, {len(turn)} publishes": Case(checks, "takes_unseen", [turn], config)
        for what, config in OF_CONFIGURATION.items()
        for turn in ([A], [A, B])
        if (what, len(turn)) != ("discard new", 1)
    },
    "size of one": Case(
        checks, "plain_bytes_max", [[LARGE]], {"max_msg_size": 50}, lambda _: 1 << 62
    ),
    "size of several": Case(checks, "all_within_message_size", [[LARGE, A]], {"max_msg_size": 50}),
    "ruled header": Case(
        checks, "hold_only", [[A, Publish("S.a", b"", {"Nats-Expected-Last-Sequence": "7"})]]
    ),
    "size of a header": Case(
        checks, "hold_only", [[A, Publish("S.a", b"", {"Own": "x" * 70_000})]]
    ),
    "size of a subject": Case(checks, "all_fit_records", [[LONG, A]]),
    "size of the only subject": Case(publishing, "SUBJECT_BYTES_MAX", [[LONG]], {}, 1 << 62),
    "id twice in a turn": Case(LookAhead, "are_new", [[with_id("x"), with_id("x")]]),
    "id of an earlier turn": Case(LookAhead, "are_new", [[with_id("x")], [with_id("x"), A]]),
    "fast batch of one": Case(publishing, "SUFFIX", [[FAST]], {"allow_batched": True}, b"nowhere"),
    "fast batch": Case(publishing, "none_is_fast", [[FAST, A]], {"allow_batched": True}),
}


# The kinds of records, the answers, the stored messages and those to republish.
Decisions = tuple[list[str], list[Answer], list[tuple[int, str, bytes]], list[object]]


def decided(case: Case, switch: AbstractContextManager[object]) -> Decisions | str:
    """The outcome of all turns, or the invariant that is violated."""
    with switch:
        driver = StreamDriver(Storage.MEMORY, **case.config)
        kinds: list[str] = []
        try:
            for turn in case.turns:
                decision = driver.stream.publishing.decide(incoming_of(turn), driver.now_ns)
                kinds += [type(record).__name__ for record in decision.records]
                driver.publish_together(turn)
        except InvariantViolation as violation:
            return str(violation)
    return kinds, driver.answers, driver.contents, [*driver.republished]


@pytest.mark.parametrize("name", CASES)
def test_the_conditions_refuse_no_less_than_the_rules(name: str) -> None:
    case = CASES[name]
    by_rules = decided(case, patch.object(checks, "takes_unseen", lambda _: False))
    assert decided(case, nullcontext()) == by_rules
    without_it = decided(case, patch.object(case.owner, case.name, case.replacement))
    assert without_it != by_rules, "nothing here needs the condition"
