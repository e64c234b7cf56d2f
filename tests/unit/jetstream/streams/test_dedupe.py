"""A message id counts for exactly its window, however it is forgotten."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.base.invariants import InvariantViolation
from headwater.base.sliced import at_once
from headwater.jetstream.streams.dedupe import (
    FORGOTTEN_PER_ADD_MAX,
    FORGOTTEN_PER_CALL_MAX,
    DedupeWindow,
)

WINDOW_NS = 100


def test_an_id_is_found_until_its_window_ends() -> None:
    window = DedupeWindow(WINDOW_NS)
    window.add(b"a", 7, 1000)
    assert window.find(b"a", 1000) == 7
    assert window.find(b"a", 1000 + WINDOW_NS - 1) == 7
    assert window.find(b"a", 1000 + WINDOW_NS) == 0
    assert window.find(b"b", 1000) == 0


def test_ids_are_read_some_at_a_time_while_others_come_and_go() -> None:
    window = DedupeWindow(WINDOW_NS)
    assert window.entries_from(0, 2) == (0, [])
    assert window.first_sequence == 0
    for sequence in range(1, 5):
        window.add(b"%d" % sequence, sequence, 10 * sequence)
    position, found = window.entries_from(0, 2)
    assert found == [(b"1", 1, 10), (b"2", 2, 20)]
    # The first three are forgotten, and one of them is published again.
    window.forget_before(30 + WINDOW_NS)
    window.add(b"1", 5, 30 + WINDOW_NS)
    assert window.first_sequence == 4
    position, found = window.entries_from(position, 9)
    assert found == [(b"4", 4, 40), (b"1", 5, 30 + WINDOW_NS)]
    assert window.entries_from(position, 9) == (position, [])


def test_positions_of_ids_stay_when_many_are_forgotten() -> None:
    window = DedupeWindow(WINDOW_NS)
    for sequence in range(1, 5001):
        window.add(b"%d" % sequence, sequence, 0)
    position, _ = window.entries_from(0, 5000)
    window.forget_before(WINDOW_NS)
    window.forget_before(WINDOW_NS)
    window.add(b"new", 5001, WINDOW_NS)
    assert window.entries_from(position, 9)[1] == [(b"new", 5001, WINDOW_NS)]


def test_an_id_counts_before_its_time_when_the_clock_went_back() -> None:
    window = DedupeWindow(WINDOW_NS)
    window.add(b"a", 7, 1000)
    assert window.find(b"a", 1) == 7


def test_no_window_keeps_nothing() -> None:
    window = DedupeWindow(0)
    window.add(b"a", 1, 1000)
    assert window.find(b"a", 1000) == 0
    assert len(window) == 0


def test_a_window_has_a_length() -> None:
    with pytest.raises(InvariantViolation):
        DedupeWindow(-1)


def test_an_id_that_comes_again_after_its_window_counts_from_then() -> None:
    window = DedupeWindow(WINDOW_NS)
    window.add(b"a", 1, 1000)
    window.add(b"keeps the next from being forgotten at once", 2, 1050)
    window.add(b"a", 3, 1100)
    assert window.find(b"a", 1150) == 3
    while window.forget_before(1150):
        pass
    assert window.find(b"a", 1150) == 3
    assert [*window.entries(1150)] == [(b"a", 3, 1100)]


def test_the_ids_of_some_messages() -> None:
    window = DedupeWindow(WINDOW_NS)
    for sequence in range(2, 12, 2):
        window.add(b"%d" % sequence, sequence, 1000 + sequence)
    window.add(b"2", 12, 1000 + WINDOW_NS + 3)
    assert window.of_messages([3, 8, 4, 99, 0, 2]) == [(b"8", 8, 1008), (b"4", 4, 1004)]
    assert window.of_messages([12]) == [(b"2", 12, 1103)]
    assert [*window.sequences()] == [4, 6, 8, 10, 12]
    assert DedupeWindow(WINDOW_NS).of_messages([1]) == []


def test_forgetting_is_done_in_pieces() -> None:
    window = DedupeWindow(WINDOW_NS)
    count = FORGOTTEN_PER_CALL_MAX + 10
    for sequence in range(1, count + 1):
        window.add(b"%d" % sequence, sequence, 1000)
    assert window.next_end_ns() == 1000 + WINDOW_NS
    assert window.forget_before(1000 + WINDOW_NS - 1) is False
    assert len(window) == count
    assert window.forget_before(1000 + WINDOW_NS) is True
    assert len(window) == 10
    window.add(b"late", count + 1, 1000 + WINDOW_NS)
    assert len(window) == 11 - FORGOTTEN_PER_ADD_MAX
    assert window.forget_before(1000 + WINDOW_NS) is False
    assert len(window) == 1
    assert window.forget_before(1000 + 2 * WINDOW_NS) is False
    assert window.next_end_ns() == 0


def test_ids_past_the_old_window_do_not_come_back_with_a_longer_one() -> None:
    window = DedupeWindow(WINDOW_NS)
    window.add(b"a", 1, 1000)
    window.add(b"b", 2, 1090)
    at_once(window.setting_window(1000, 1100))
    assert window.window_ns == 1000
    assert window.find(b"a", 1100) == 0
    assert window.find(b"b", 1100) == 2
    at_once(window.setting_window(0, 1100))
    assert [*window.entries(1100)] == []


def test_a_restored_window_is_the_same() -> None:
    window = DedupeWindow(WINDOW_NS)
    for sequence in range(1, 6):
        window.add(b"%d" % sequence, sequence, 1000 + 30 * sequence)
    again = DedupeWindow(WINDOW_NS)
    again.restore(window.entries(1160))
    assert [*again.entries(1160)] == [*window.entries(1160)]
    with pytest.raises(InvariantViolation):
        again.restore([])


class AgainstAList(RuleBasedStateMachine):
    """The window against everything that was ever added."""

    def __init__(self) -> None:
        super().__init__()
        self.window = DedupeWindow(WINDOW_NS)
        self.added: list[tuple[bytes, int, int]] = []
        self.window_ns = WINDOW_NS
        self.now_ns = 0
        self.sequence = 0

    def expected(self) -> list[tuple[bytes, int, int]]:
        last = {message_id: sequence for message_id, sequence, _ in self.added}
        return [
            entry
            for entry in self.added
            if self.now_ns - entry[2] < self.window_ns and last[entry[0]] == entry[1]
        ]

    @rule(message_id=st.sampled_from([b"a", b"b", b"c", b"d"]), step=st.integers(0, 60))
    def publish(self, message_id: bytes, step: int) -> None:
        self.now_ns += step
        if self.window.find(message_id, self.now_ns) == 0:
            self.sequence += 1
            self.window.add(message_id, self.sequence, self.now_ns)
            if self.window_ns:
                self.added.append((message_id, self.sequence, self.now_ns))

    @rule()
    def forget(self) -> None:
        assert self.window.forget_before(self.now_ns) is False

    @rule(window_ns=st.sampled_from([0, 50, WINDOW_NS, 200]))
    def change_the_window(self, window_ns: int) -> None:
        self.added = self.expected()
        self.window_ns = window_ns
        self.added = self.expected()
        at_once(self.window.setting_window(window_ns, self.now_ns))

    @invariant()
    def finds_what_counts(self) -> None:
        assert [*self.window.entries(self.now_ns)] == self.expected()
        for message_id, sequence, _ in self.expected():
            assert self.window.find(message_id, self.now_ns) == sequence


TestAgainstAList = AgainstAList.TestCase


@pytest.mark.parametrize("step_ns", [1, 7, 40])
def test_columns_shed_their_dead_front(step_ns: int) -> None:
    window = DedupeWindow(WINDOW_NS)
    count = 5000
    for sequence in range(1, count + 1):
        now_ns = sequence * step_ns
        window.add(b"%d" % sequence, sequence, now_ns)
        assert len(window) <= WINDOW_NS + 2
    first = max(1, count - (WINDOW_NS - 1) // step_ns)
    live = [sequence for _, sequence, _ in window.entries(count * step_ns)]
    assert live == [*range(first, count + 1)]
