"""A mirror out of contact answers again once it has what its origin had when contact returned."""

from typing import Final

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.copying.contact import Contact

NOW_NS: Final = 1_800_000_000 * NS_PER_S
LATER_NS: Final = NOW_NS + 60 * NS_PER_S


def contact(max_staleness_s: int = 10) -> Contact:
    """A contact that has heard nothing yet."""
    made = Contact()
    made.max_staleness_ns = max_staleness_s * NS_PER_S
    return made


def kept() -> Contact:
    """A contact with an origin that has seven messages, which the mirror has too."""
    made = contact()
    made.idle(NOW_NS, 7)
    made.applied(7)
    assert made.holds(NOW_NS)
    return made


def test_without_a_limit_a_mirror_may_always_answer() -> None:
    assert contact(0).holds(NOW_NS)


def test_a_mirror_that_has_heard_nothing_does_not_answer() -> None:
    made = contact()
    made.applied(100)
    assert not made.holds(NOW_NS)


def test_the_contact_ends_after_the_limit() -> None:
    made = kept()
    assert made.holds(NOW_NS + 10 * NS_PER_S)
    assert not made.holds(NOW_NS + 10 * NS_PER_S + 1)


def test_a_silence_that_nobody_has_read_in_counts() -> None:
    made = kept()
    made.delivered(LATER_NS, 8, 8, pending=100_000)
    made.applied(8)
    assert not made.holds(LATER_NS)


@pytest.mark.parametrize("applied", [6, 7, 8])
def test_a_heartbeat_names_the_sequence_to_apply(applied: int) -> None:
    made = contact()
    made.idle(LATER_NS, 7)
    made.applied(applied)
    assert made.holds(LATER_NS) is (applied >= 7)


def test_a_message_names_the_number_to_apply() -> None:
    made = kept()
    made.delivered(LATER_NS, 8, 18, pending=2)
    made.delivered(LATER_NS, 9, 19, pending=50)
    made.applied(19)
    assert not made.holds(LATER_NS)
    # The third one was the last one when the contact returned; its sequence is 30.
    made.delivered(LATER_NS, 10, 30, pending=49)
    made.applied(29)
    assert not made.holds(LATER_NS)
    made.applied(30)
    assert made.holds(LATER_NS)


@pytest.mark.parametrize("ends_with_a_message", [True, False])
def test_messages_that_the_origin_has_removed_are_not_waited_for(ends_with_a_message: bool) -> None:
    made = kept()
    made.delivered(LATER_NS, 8, 18, pending=1000)
    if ends_with_a_message:
        made.delivered(LATER_NS, 9, 40, pending=0)
    else:
        made.idle(LATER_NS, 40)
    made.applied(40)
    assert made.holds(LATER_NS)


def test_a_silence_while_messages_are_waited_for_moves_the_target() -> None:
    made = kept()
    made.delivered(LATER_NS, 8, 18, pending=1)
    again_ns = LATER_NS + 60 * NS_PER_S
    made.delivered(again_ns, 9, 19, pending=5)
    made.applied(19)
    assert not made.holds(again_ns)


def test_a_new_request_counts_from_the_beginning() -> None:
    made = kept()
    made.delivered(LATER_NS, 8, 18, pending=3)
    made.asked()
    made.delivered(LATER_NS, 1, 19, pending=4)
    made.delivered(LATER_NS, 4, 22, pending=1)
    made.applied(22)
    assert not made.holds(LATER_NS)
    made.delivered(LATER_NS, 5, 23, pending=0)
    made.applied(23)
    assert made.holds(LATER_NS)


def test_a_new_request_is_no_silence() -> None:
    made = kept()
    made.asked()
    assert made.holds(NOW_NS)
