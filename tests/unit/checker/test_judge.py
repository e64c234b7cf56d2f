"""All checks at once."""

import pytest

from headwater.checker.judge import CHECKS, insist, judge
from headwater.checker.verdict import BrokenPromise
from tests.kit.histories import Story, with_message


def test_a_good_history_holds_by_every_check() -> None:
    story = Story()
    story.publish("x")
    verdicts = judge(story.end())
    assert len(verdicts) == len(CHECKS)
    assert len({verdict.rule for verdict in verdicts}) == len(CHECKS)
    assert all(verdict.holds for verdict in verdicts)
    insist(story.history)


def test_a_bad_history_breaks_its_promise_by_name() -> None:
    story = Story()
    story.publish("x")
    history = story.end()
    with_message(history, 1, 1, None)
    with pytest.raises(BrokenPromise, match="x was at 1 and is missing on s2") as caught:
        insist(history)
    assert caught.value.rules == ["acked messages are there once", "replicas are equal"]
