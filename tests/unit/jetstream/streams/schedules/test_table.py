"""A table of schedules tells what is due, each once, until its copy is stored."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.jetstream.streams.schedules.table import ScheduleTable


def test_what_is_due_comes_in_the_order_of_sequences() -> None:
    table = ScheduleTable()
    table.put(b"a", 3, 100)
    table.put(b"b", 2, 110)
    table.put(b"c", 1, 120)
    assert table.next_due_ns() == 100
    assert table.take_due(99) == []
    assert table.take_due(110) == [(2, b"b", 110), (3, b"a", 100)]
    assert table.next_due_ns() == 120


def test_what_is_in_flight_is_not_due_again_until_its_copy_is_stored() -> None:
    table = ScheduleTable()
    table.put(b"a", 1, 100)
    assert table.take_due(100) == [(1, b"a", 100)]
    assert table.take_due(1000) == []
    assert table.next_due_ns() is None
    table.move(b"a", 200)
    assert table.take_due(1000) == [(1, b"a", 200)]
    table.land([1, 2])
    assert table.take_due(1000) == [(1, b"a", 200)]


def test_a_schedule_takes_the_place_of_the_one_before_it() -> None:
    table = ScheduleTable()
    table.put(b"a", 1, 100)
    table.put(b"a", 2, 50)
    assert len(table) == 1
    assert table.entries() == [(b"a", 2, 50)]
    assert table.take_due(100) == [(2, b"a", 50)]
    table.remove(1)
    assert table.entries() == [(b"a", 2, 50)]
    table.remove(2)
    assert table.entries() == []
    table.move(b"a", 300)
    assert table.next_due_ns() is None


def test_times_before_the_epoch_are_due() -> None:
    table = ScheduleTable()
    table.put(b"a", 2**64 - 1, -(2**63))
    assert table.take_due(0) == [(2**64 - 1, b"a", -(2**63))]


class AgainstADictionary(RuleBasedStateMachine):
    """The table against a plain dictionary that is searched."""

    subjects = st.sampled_from([b"a", b"b", b"c"])
    times = st.integers(-5, 50)

    def __init__(self) -> None:
        super().__init__()
        self.table = ScheduleTable()
        self.twin: dict[bytes, tuple[int, int]] = {}
        self.in_flight: set[bytes] = set()
        self.sequence = 0

    @rule(subject=subjects, due_ns=times)
    def put(self, subject: bytes, due_ns: int) -> None:
        self.sequence += 1
        self.table.put(subject, self.sequence, due_ns)
        self.twin[subject] = (self.sequence, due_ns)
        self.in_flight.discard(subject)

    @rule(subject=subjects, due_ns=times)
    def move(self, subject: bytes, due_ns: int) -> None:
        self.table.move(subject, due_ns)
        if subject in self.twin:
            self.twin[subject] = (self.twin[subject][0], due_ns)
            self.in_flight.discard(subject)

    @rule(subject=subjects)
    def remove(self, subject: bytes) -> None:
        self.table.remove_subject(subject)
        self.twin.pop(subject, None)
        self.in_flight.discard(subject)

    @rule(now_ns=times)
    def take(self, now_ns: int) -> None:
        due = {
            subject: entry
            for subject, entry in self.twin.items()
            if entry[1] <= now_ns and subject not in self.in_flight
        }
        assert self.table.take_due(now_ns) == sorted(
            (sequence, subject, due_ns) for subject, (sequence, due_ns) in due.items()
        )
        self.in_flight |= {*due}

    @rule(subject=subjects)
    def land(self, subject: bytes) -> None:
        self.table.land([self.table.sequence_of(subject) or 0])
        self.in_flight.discard(subject)

    @invariant()
    def agrees(self) -> None:
        waiting = [
            due_ns for subject, (_, due_ns) in self.twin.items() if subject not in self.in_flight
        ]
        assert self.table.next_due_ns() == min(waiting, default=None)
        assert self.table.entries() == sorted(
            ((subject, sequence, due_ns) for subject, (sequence, due_ns) in self.twin.items()),
            key=lambda entry: entry[1],
        )


TestAgainstADictionary = AgainstADictionary.TestCase
TestAgainstADictionary.settings = settings(max_examples=50, stateful_step_count=30)


def test_moving_for_ever_does_not_grow() -> None:
    table = ScheduleTable()
    for subject in range(10):
        table.put(b"%d" % subject, subject + 1, 0)
    for time_ns in range(10_000):
        table.move(b"%d" % (time_ns % 10), time_ns)
    assert table.take_due(9_000) == []
    assert len(table.take_due(20_000)) == 10
