"""The times for which a copy waits, and how they follow what happens."""

from headwater.base.clock import NS_PER_S
from headwater.jetstream.copying.patience import (
    ANSWER_NS,
    PATIENCE_NS_MAX,
    SILENCE_NS,
    Patience,
)


def test_each_request_without_an_answer_doubles_the_wait_for_the_next_up_to_a_limit() -> None:
    patience, found = Patience(), []
    for _ in range(6):
        found.append(patience.answer_ns)
        patience.not_answered()
    longer = [ANSWER_NS, ANSWER_NS * 2, ANSWER_NS * 4, ANSWER_NS * 8]
    assert found == [*longer, PATIENCE_NS_MAX, PATIENCE_NS_MAX]


def test_answers_make_the_wait_shorter_again() -> None:
    patience = Patience()
    patience.not_answered()
    patience.not_answered()
    patience.answered()
    assert patience.answer_ns == ANSWER_NS * 2
    patience.answered()
    patience.answered()
    assert patience.answer_ns == ANSWER_NS


def test_each_silence_doubles_the_next_one_up_to_a_limit() -> None:
    patience = Patience()
    patience.not_heard()
    assert patience.silence_ns == SILENCE_NS * 2
    for _ in range(10):
        patience.not_heard()
    assert patience.silence_ns == PATIENCE_NS_MAX


def test_a_silence_is_longer_than_three_times_the_last_distance_between_signs() -> None:
    patience = Patience()
    patience.heard(7 * NS_PER_S)
    assert patience.silence_ns == 21 * NS_PER_S
    patience.heard(100 * NS_PER_S)
    assert patience.silence_ns == PATIENCE_NS_MAX


def test_signs_that_come_soon_make_the_silence_short_again() -> None:
    patience = Patience()
    patience.heard(20 * NS_PER_S)
    for _ in range(25):
        patience.heard(NS_PER_S)
    assert patience.silence_ns == SILENCE_NS
