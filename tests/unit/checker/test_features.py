"""Each rule of counters, schedules, times to live, roll-ups and pins holds, and can be broken."""

import pytest

from headwater.checker.features import (
    Expiring,
    Increment,
    PinnedDelivery,
    RollUp,
    Scheduled,
    insist_features,
    judge_features,
)
from headwater.checker.history import History, Loss, Operation, Replica, Stored, StreamRules
from headwater.checker.verdict import BrokenPromise


def history(*operations: Operation, messages: dict[int, tuple[str, str]]) -> History:
    """A history of operations that were confirmed, unless they were refused or left open."""
    found = History(StreamRules("S"))
    for operation in operations:
        found.begin(operation)
        if not operation.reason:
            operation.complete(operation.begin_s + 0.1)
    stored = {sequence: Stored(*message) for sequence, message in messages.items()}
    found.replicas = [Replica(name, max(messages, default=0), stored) for name in ("s1", "s2")]
    return found


def broken(found: History) -> list[str]:
    return [each.rule for each in judge_features(found) if not each.holds]


def increment(by: int, reason: str = "", begin_s: float = 1.0) -> Increment:
    return Increment(client="p", begin_s=begin_s, subject="c", by=by, reason=reason)


@pytest.mark.parametrize(("total", "is_right"), [(4, False), (5, True), (8, True), (9, False)])
def test_a_counter_is_the_sum_of_what_was_added(total: int, is_right: bool) -> None:
    messages = {1: ("c", '{"val":"2"}'), 2: ("c", f'{{"val":"{total}"}}')}
    found = history(increment(2), increment(3), increment(3, "unknown"), messages=messages)
    assert broken(found) == ([] if is_right else ["counters sum right"])


def test_a_loss_may_take_an_increment() -> None:
    found = history(increment(2), increment(3, begin_s=9.0), messages={1: ("c", '{"val":"2"}')})
    assert broken(found) == ["counters sum right"]
    found.losses.append(Loss(10.0, 2.0))
    assert broken(found) == []


def test_a_counter_that_nobody_has_is_zero() -> None:
    assert broken(history(increment(2), messages={})) == ["counters sum right"]
    assert broken(history(increment(2, "unknown"), messages={})) == []


@pytest.mark.parametrize(
    ("reason", "count", "is_right"),
    [
        ("", 0, False),
        ("", 1, True),
        ("", 2, False),
        ("unknown", 0, True),
        ("unknown", 1, True),
        ("unknown", 2, False),
    ],
)
def test_a_schedule_fires_once(reason: str, count: int, is_right: bool) -> None:
    schedule = Scheduled(client="p", begin_s=1.0, target="t", body="x", reason=reason)
    messages = dict.fromkeys(range(1, count + 1), ("t", "x"))
    expected = [] if is_right else ["schedules fire once"]
    assert broken(history(schedule, messages=messages)) == expected


@pytest.mark.parametrize("body", ["x", ""])
def test_nothing_is_left_of_a_message_whose_time_has_come(body: str) -> None:
    expiring = Expiring(client="p", begin_s=1.0, subject="m", body="x")
    assert broken(history(expiring, messages={2: ("other", "y")})) == []
    found = history(expiring, messages={1: ("m", body)})
    assert broken(found) == ["messages go after their time"]


def test_a_roll_up_replaces_what_was_before_it() -> None:
    roll_up = RollUp(client="p", begin_s=1.0, subject="r", body="x", sequence=3)
    after = {1: ("other", "a"), 3: ("r", "x"), 4: ("r", "b")}
    assert broken(history(roll_up, messages=after)) == []
    found = history(roll_up, messages={**after, 2: ("r", "c")})
    assert broken(found) == ["roll-ups replace what was before"]


def pinned(client: str, pin: str) -> PinnedDelivery:
    return PinnedDelivery(client=client, begin_s=1.0, consumer="P", sequence=1, pin=pin)


def test_a_pin_belongs_to_one_client() -> None:
    assert broken(history(pinned("a", "1"), pinned("b", "2"), messages={})) == []
    found = history(pinned("a", "1"), pinned("b", "1"), messages={})
    assert broken(found) == ["a pin is one client's"]
    with pytest.raises(BrokenPromise, match="a pin is one client's"):
        insist_features(found)
