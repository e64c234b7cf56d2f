"""Assignments: records name an incarnation, and equal records lead to equal states."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.jetstream.config.stream_config import (
    ReadConsistency,
    StreamConfig,
    StreamSource,
)
from headwater.jetstream.meta.assignments import (
    UNASSIGNED_MAX,
    AssignmentChange,
    Assignments,
    StreamAssignment,
)
from headwater.jetstream.meta.records import (
    MetaRecord,
    ReplicaCause,
    ReplicasChanged,
    ReplicasSettled,
    ServerRemoved,
    StreamAssigned,
    StreamUnassigned,
    StreamUpdated,
)
from tests.kit.meta_values import COLLIDING_RECORDS, apply_all, described, incarnation

S1 = ("A", "S", incarnation(1))
S2 = ("A", "S", incarnation(2))
CONFIG = StreamConfig(name="S", num_replicas=3)
TRIO = ("s1", "s2", "s3")


def assigned(
    stream: tuple[str, str, bytes] = S1, replicas: tuple[str, ...] = TRIO
) -> StreamAssigned:
    return StreamAssigned(*stream, CONFIG, 7, replicas)


def moved(*replicas: str, removed: tuple[str, ...] = ()) -> ReplicasChanged:
    return ReplicasChanged(*S1, replicas, ReplicaCause.MOVE, removed)


def scaled(*replicas: str) -> ReplicasChanged:
    return ReplicasChanged(*S1, replicas, ReplicaCause.SCALE)


def repaired(*replicas: str, removed: tuple[str, ...] = ()) -> ReplicasChanged:
    return ReplicasChanged(*S1, replicas, ReplicaCause.REPAIR, removed)


def after(*records: MetaRecord) -> Assignments:
    assignments = Assignments()
    apply_all(assignments, records)
    return assignments


def stream_after(*records: MetaRecord) -> StreamAssignment:
    found = after(*records).get("A", "S")
    assert found is not None
    return found


def test_a_stream_is_found_by_account_name_and_server() -> None:
    other = ("B", "S", incarnation(5))
    assignments = after(
        assigned(), assigned(other, ("s4",)), assigned(("A", "R", incarnation(6)), ("s1",))
    )
    assert len(assignments) == 3
    assert [stream.name for stream in assignments.streams_of("A")] == ["R", "S"]
    assert [stream.account for stream in assignments.held_by("s4")] == ["B"]
    assert [stream.name for stream in assignments.held_by("s1")] == ["S", "R"]
    assert assignments.get("B", "R") is None


def test_apply_tells_the_assignment_before_and_after() -> None:
    assignments = Assignments()
    made = assignments.apply(assigned())
    there = assignments.get("A", "S")
    assert made == AssignmentChange(None, there)
    assert assignments.apply(StreamUnassigned(*S1)) == AssignmentChange(there, None)
    assert assignments.apply(StreamUnassigned(*S1)) is None
    assert assignments.apply(described("s1")) is None


def test_the_first_stream_of_a_name_keeps_it() -> None:
    assignments = after(assigned())
    assert assignments.apply(assigned(S2)) is None
    assert [stream.incarnation for stream in assignments] == [incarnation(1)]


def test_a_record_of_an_earlier_incarnation_changes_nothing() -> None:
    assignments = after(assigned(), StreamUnassigned(*S1), assigned(S2))
    before = assignments.dump()
    late: list[MetaRecord] = [
        StreamUpdated(*S1, StreamConfig(name="S", description="late")),
        moved("s9"),
        ReplicasSettled(*S1, TRIO),
        StreamUnassigned(*S1),
    ]
    assert [assignments.apply(record) for record in late] == [None] * len(late)
    assert assignments.dump() == before


def test_an_incarnation_that_was_unassigned_does_not_come_back() -> None:
    assignments = after(assigned(), StreamUnassigned(*S1))
    assert assignments.apply(assigned()) is None
    assert len(assignments) == 0


def test_only_streams_that_were_there_are_remembered_as_unassigned() -> None:
    assignments = after(assigned(), StreamUnassigned(*S2))
    assert not assignments.was_unassigned(incarnation(2))
    assignments.apply(StreamUnassigned(*S1))
    assert assignments.was_unassigned(incarnation(1))


def test_the_memory_of_unassigned_streams_forgets_the_oldest() -> None:
    assignments = Assignments(unassigned=map(incarnation, range(10, 10 + UNASSIGNED_MAX)))
    apply_all(assignments, [assigned(), StreamUnassigned(*S1)])
    assert len(assignments.unassigned) == UNASSIGNED_MAX
    assert not assignments.was_unassigned(incarnation(10))
    assert assignments.was_unassigned(incarnation(11))
    assert assignments.was_unassigned(incarnation(1))


# --- servers of a stream -----------------------------------------------------------------------


def test_both_sides_of_a_change_hold_the_stream_until_it_is_settled() -> None:
    changing = stream_after(assigned(), moved("s3", "s4", "s5"))
    assert changing.servers == ("s1", "s2", "s3", "s4", "s5")
    assert changing.target == ("s3", "s4", "s5")
    done = stream_after(assigned(), moved("s3", "s4", "s5"), ReplicasSettled(*S1, changing.target))
    assert (done.servers, done.change) == (("s3", "s4", "s5"), None)


def test_a_change_is_settled_by_its_own_servers_in_any_order_and_by_no_others() -> None:
    moving: list[MetaRecord] = [assigned(), moved("s4", "s5")]
    assert stream_after(*moving, ReplicasSettled(*S1, ("s5", "s4"))).replicas == ("s4", "s5")
    for other in (("s4",), TRIO, ("s4", "s5", "s6")):
        assert stream_after(*moving, ReplicasSettled(*S1, other)).change is not None
    assert stream_after(assigned(), ReplicasSettled(*S1, ("s9",))).replicas == TRIO


def test_servers_of_an_abandoned_change_hold_the_stream_until_the_next_is_settled() -> None:
    # They may be members of the group already: without them it has no majority.
    back = stream_after(assigned(replicas=("s1",)), scaled("s1", "s2", "s3"), scaled("s1"))
    assert back.servers == TRIO
    assert back.target == ("s1",)
    again = stream_after(assigned(), scaled("s1"), scaled(*TRIO))
    assert again.change is not None
    assert again.target == TRIO


def test_a_change_to_the_same_servers_is_none() -> None:
    assert stream_after(assigned(), scaled("s3", "s2", "s1")).change is None


def test_a_removed_server_leaves_the_stream_at_once() -> None:
    removed = stream_after(assigned(), repaired("s1", "s2", "s4", removed=("s3",)))
    assert removed.servers == ("s1", "s2", "s4")
    assert removed.change is not None
    assert removed.change.removed == ("s3",)
    shrunk = stream_after(assigned(), repaired("s1", "s2", removed=("s3",)))
    assert shrunk.servers == ("s1", "s2")


def test_the_last_server_with_messages_is_not_removed() -> None:
    alone = assigned(replicas=("s1",))
    assert stream_after(alone, repaired("s2", removed=("s1",))).servers == ("s1",)


def test_the_origin_is_the_state_before_the_first_change_that_can_be_cancelled() -> None:
    other = StreamConfig(name="S", num_replicas=1)
    stream = stream_after(
        assigned(), scaled("s1"), StreamUpdated(*S1, other), moved("s5"), scaled("s6")
    )
    assert stream.change is not None
    assert stream.change.origin is not None
    assert stream.change.origin.replicas == TRIO
    assert stream.change.origin.config == CONFIG
    assert stream.change.is_move, "a move stays one until it is settled"
    repair = stream_after(assigned(), repaired("s1", "s2", "s4"))
    assert repair.change is not None
    assert repair.change.origin is None


# --- records in flight -------------------------------------------------------------------------


def test_records_in_flight_are_foreseen_and_no_part_of_the_state() -> None:
    assignments = after(described("s1"))
    assignments.append(assigned())
    assignments.append(described("s2"))
    assert assignments.get("A", "S") is None
    assert assignments.foreseen("A", "S") is not None
    assert [stream.name for stream in assignments.foreseen_streams()] == ["S"]
    assert [*assignments.foreseen_servers()] == ["s1", "s2"]
    assignments.append(StreamUnassigned(*S1))
    assignments.append(ServerRemoved("s1"))
    assert assignments.foreseen("A", "S") is None
    assert assignments.foreseen_streams() == []
    assert [*assignments.foreseen_servers()] == ["s2"]
    assert [*assignments.servers] == ["s1"]


def test_a_record_is_in_flight_until_its_bytes_are_applied() -> None:
    assignments = Assignments()
    record = assigned()
    assignments.append(record)
    apply_all(assignments, [record])
    assignments.apply(StreamUnassigned(*S1))
    assert assignments.foreseen("A", "S") is None


def test_a_retreat_forgets_the_newest_records() -> None:
    assignments = after(assigned())
    first, second = StreamUnassigned(*S1), assigned(S2)
    assignments.append(first)
    assignments.append(second)
    assignments.retreat([second])
    assert assignments.foreseen("A", "S") is None
    assignments.retreat_all()
    assert assignments.foreseen("A", "S") == assignments.get("A", "S")


# --- two copies --------------------------------------------------------------------------------


@dataclass
class Twin:
    """The rule of names and incarnations, in a few lines."""

    names: dict[tuple[str, str], bytes] = field(default_factory=dict)
    dead: set[bytes] = field(default_factory=set)

    def apply(self, record: MetaRecord) -> None:
        if isinstance(record, StreamAssigned):
            if record.incarnation not in self.dead:
                self.names.setdefault((record.account, record.name), record.incarnation)
        elif isinstance(record, StreamUnassigned):
            key = record.account, record.name
            if self.names.get(key) == record.incarnation:
                self.dead.add(self.names.pop(key))


@given(st.lists(COLLIDING_RECORDS, max_size=20), st.data())
def test_copies_that_apply_the_same_bytes_are_equal(
    records: list[MetaRecord], data: st.DataObject
) -> None:
    leader, follower, twin = Assignments(), Assignments(), Twin()
    queued: list[MetaRecord] = []
    for record in records:
        leader.append(record)
        queued.append(record)
        if data.draw(st.booleans()):
            for each in queued:
                apply_all(leader, [each])
                apply_all(follower, [each])
                twin.apply(each)
            queued.clear()
            assert leader.foreseen_streams() == [*leader]
    assert leader.dump() == follower.dump()
    found = {(stream.account, stream.name): stream.incarnation for stream in leader}
    assert found == twin.names
    assert {*leader.unassigned} == twin.dead


@given(st.lists(COLLIDING_RECORDS, max_size=20))
def test_the_foreseen_state_is_the_state_to_come(records: list[MetaRecord]) -> None:
    assignments = Assignments()
    for record in records:
        # An incarnation that was unassigned is not assigned again, by random numbers.
        if isinstance(record, StreamUnassigned):
            continue
        assignments.append(record)
    streams, servers = assignments.foreseen_streams(), assignments.foreseen_servers()
    for record in records:
        if not isinstance(record, StreamUnassigned):
            assignments.apply(record)
    assert sorted(streams, key=lambda stream: (stream.account, stream.name)) == sorted(
        assignments, key=lambda stream: (stream.account, stream.name)
    )
    assert servers == assignments.servers


def test_mirrors_are_found_by_the_origin_whose_reads_they_answer() -> None:
    origin = StreamSource(name="O")
    mirror = StreamConfig(name="S", mirror=origin, mirror_direct=True)
    weak = replace(mirror, mirror_direct=False, read_consistency=ReadConsistency.WEAK)
    plain = replace(mirror, mirror_direct=False)
    other = replace(mirror, mirror=StreamSource(name="P"))
    state = Assignments()
    state.apply(StreamAssigned(*S1, mirror, 7, TRIO))
    for config, found in ((weak, ["S"]), (plain, []), (mirror, ["S"]), (other, [])):
        state.apply(StreamUpdated(*S1, config))
        assert [each.name for each in state.mirrors_of("A", "O")] == found
        assert [each.name for each in Assignments(state).mirrors_of("A", "O")] == found
    assert [each.config for each in state.mirrors_of("A", "P")] == [other]
    assert state.mirrors_of("B", "P") == []
    state.apply(StreamUnassigned(*S1))
    assert state.mirrors_of("A", "P") == []
