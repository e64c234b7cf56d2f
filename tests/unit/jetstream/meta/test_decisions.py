"""Decisions of the meta leader: the servers of streams, and nats-server's codes for refusals.

The codes were read off three nats-server 2.15.1 in a cluster, to which the same requests were sent.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.jetstream.config.stream_config import Placement, Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.assignments import Assignments, StreamAssignment
from headwater.jetstream.meta.decisions import (
    STREAMS_MAX,
    ServerHealth,
    candidates_of,
    decide_adopt,
    decide_cancel_move,
    decide_create,
    decide_delete,
    decide_describe,
    decide_evacuate,
    decide_move,
    decide_peer_remove,
    decide_repairs,
    decide_server_remove,
    decide_settle,
    decide_update,
)
from headwater.jetstream.meta.placement import Candidates, PlacementRules
from headwater.jetstream.meta.records import (
    AnswerTo,
    MetaRecord,
    ServerDescribed,
    StreamAssigned,
    StreamUpdated,
)
from tests.kit.meta_values import CLUSTER, GIB, apply_all, created, described, incarnation

ANSWER = AnswerTo("A", b"$JS.API.STREAM.UPDATE.S", b"_INBOX.1")
SERVERS = (described("s1", "az:a", "ssd"), described("s2", "az:a"), described("s3", "az:b", "hdd"))
MORE = (described("s4"), described("s5"))


class Leader:
    """A meta leader whose decisions are committed at once."""

    def __init__(self, *servers: ServerDescribed) -> None:
        self.assignments = Assignments()
        self.health = {server.name: ServerHealth() for server in servers}
        self.rules = PlacementRules()
        self.commit([*servers])

    def commit(self, records: list[MetaRecord]) -> None:
        for record in records:
            self.assignments.append(record)
        if records:
            apply_all(self.assignments, records)

    @property
    def candidates(self) -> Candidates:
        return candidates_of(self.assignments, self.health, self.rules, seed=1)

    def lose(self, server: str) -> None:
        self.health[server] = ServerHealth(is_online=False)

    def creation(self, name: str, number: int = 1, **settings: Any) -> list[MetaRecord]:
        made = created(name, number, **settings)
        return decide_create(self.assignments, made, CLUSTER, self.candidates)

    def create(self, name: str, number: int = 1, **settings: Any) -> StreamAssignment:
        self.commit(self.creation(name, number, **settings))
        return self.stream(name)

    def stream(self, name: str = "S") -> StreamAssignment:
        found = self.assignments.get("A", name)
        assert found is not None
        return found

    def updating(self, leader: str = "", **changes: Any) -> list[MetaRecord]:
        config = replace(self.stream().config, **changes)
        return decide_update(self.assignments, "A", config, self.candidates, ANSWER, leader)

    def update(self, leader: str = "", **changes: Any) -> StreamAssignment:
        self.commit(self.updating(leader, **changes))
        return self.stream()

    def settle(self, name: str = "S") -> StreamAssignment:
        there = self.stream(name)
        self.commit(
            decide_settle(self.assignments, "A", name, there.incarnation, there.target[::-1])
        )
        assert self.stream(name).change is None
        return self.stream(name)

    def remove_peer(self, server: str) -> StreamAssignment:
        self.commit(decide_peer_remove(self.assignments, "A", "S", server, self.candidates))
        return self.stream()

    def evacuate(self, server: str) -> None:
        there = self.assignments.held_by(server)
        self.commit(decide_evacuate(self.assignments, server, there, self.candidates))

    def held(self) -> Counter[str]:
        """The numbers of streams that the servers are to have."""
        return Counter(server for stream in self.assignments for server in stream.target)

    def remove_server(self, server: str) -> None:
        self.commit(decide_server_remove(self.assignments, server))
        while records := decide_repairs(self.assignments, self.candidates):
            self.commit(records)


def refusal(call: Callable[[], object]) -> int:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.err_code


# --- creation and deletion ---------------------------------------------------------------------


def test_a_new_stream_gets_its_servers() -> None:
    leader = Leader(*SERVERS)
    [record] = decide_create(
        leader.assignments, created("S", 1, num_replicas=3), CLUSTER, leader.candidates, ANSWER
    )
    assert isinstance(record, StreamAssigned)
    assert {*record.replicas} == {"s1", "s2", "s3"}
    assert record.answer is ANSWER
    assert leader.create("T", 2, placement=Placement(tags=("hdd",))).replicas == ("s3",)


def test_a_name_in_use_is_10058_also_while_its_creation_is_in_flight() -> None:
    leader = Leader(*SERVERS)
    leader.create("S")
    assert refusal(lambda: leader.creation("S", 2)) == 10058
    for record in leader.creation("T", 3):
        leader.assignments.append(record)
    assert refusal(lambda: leader.creation("T", 4)) == 10058
    decide_create(leader.assignments, created("S", 5, account="B"), CLUSTER, leader.candidates)


def test_more_replicas_than_servers_are_10005() -> None:
    leader = Leader(*SERVERS)
    assert refusal(lambda: leader.creation("S", num_replicas=4)) == 10005
    leader.create("S")
    assert refusal(lambda: leader.updating(num_replicas=4)) == 10005
    assert leader.stream().config.num_replicas == 1


def test_a_deletion_names_the_incarnation_that_is_there() -> None:
    leader = Leader(*SERVERS)
    assert refusal(lambda: decide_delete(leader.assignments, "A", "S")) == 10059
    leader.create("S")
    other = incarnation(9)
    assert refusal(lambda: decide_delete(leader.assignments, "A", "S", None, other)) == 10059
    leader.commit(decide_delete(leader.assignments, "A", "S", ANSWER))
    assert leader.assignments.was_unassigned(incarnation(1))
    assert leader.create("S", 2).incarnation == incarnation(2)


def test_reservations_in_flight_take_room() -> None:
    leader = Leader(described("s1"), described("s2"))
    for number in (1, 2):
        for record in leader.creation(f"S{number}", number, max_bytes=GIB):
            leader.assignments.append(record)
    assert refusal(lambda: leader.creation("S3", 3, max_bytes=GIB)) == 10005
    leader.creation("S3", 3, max_bytes=GIB // 4, storage=Storage.MEMORY)
    leader.assignments.retreat_all()
    leader.creation("S3", 3, max_bytes=GIB)


def test_streams_spread_over_the_servers() -> None:
    leader = Leader(*SERVERS, *MORE)
    for number in range(10):
        leader.create(f"S{number}", number, num_replicas=3)
    counts = [server.ha_assets for server in leader.candidates.servers]
    assert counts == [6] * 5
    for number in range(10, 20):
        leader.create(f"S{number}", number)
    assert [server.streams for server in leader.candidates.servers] == [8] * 5


def test_a_server_of_no_health_was_never_heard() -> None:
    leader = Leader(*SERVERS)
    del leader.health["s3"]
    s3 = leader.candidates.servers[2]
    assert (s3.was_heard, s3.is_online) == (False, False)
    assert refusal(lambda: leader.creation("S", num_replicas=3)) == 10005


# --- updates, scales and moves -----------------------------------------------------------------


def test_an_update_changes_the_configuration_alone() -> None:
    leader = Leader(*SERVERS)
    leader.create("S")
    [record] = leader.updating(description="d")
    assert isinstance(record, StreamUpdated)
    assert record.answer is ANSWER
    leader.commit([record])
    assert leader.stream().config.description == "d"
    missing = StreamConfig(name="no", num_replicas=1)
    update = partial(decide_update, leader.assignments, "A", missing, leader.candidates)
    assert refusal(update) == 10059


def test_a_stream_whose_servers_are_all_offline_is_10118() -> None:
    leader = Leader(*SERVERS)
    server = leader.create("S").replicas[0]
    leader.lose(server)
    assert refusal(lambda: leader.updating(description="d")) == 10118


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize(
    ("storage", "room", "code"), [(Storage.FILE, GIB, 10047), (Storage.MEMORY, GIB // 4, 10028)]
)
def test_a_limit_grows_as_far_as_the_servers_of_the_stream_have_room(
    replicas: int, storage: Storage, room: int, code: int
) -> None:
    leader = Leader(*SERVERS)
    # All of the room but 100 bytes is reserved on each server.
    leader.create("T", 2, num_replicas=3, storage=storage, max_bytes=room - 1100)
    leader.create("S", num_replicas=replicas, storage=storage, max_bytes=1000)
    assert refusal(lambda: leader.updating(max_bytes=1101)) == code
    assert leader.update(max_bytes=1100).config.max_bytes == 1100
    assert leader.update(max_bytes=-1).config.max_bytes == -1


def test_a_limit_that_shrinks_needs_no_room() -> None:
    leader = Leader(*SERVERS)
    leader.create("S", num_replicas=3, max_bytes=1000)
    for server in SERVERS:
        leader.commit([replace(server, storage_bytes_max=500)])
    assert leader.update(max_bytes=900, description="d").config.max_bytes == 900
    assert refusal(lambda: leader.updating(max_bytes=901)) == 10047


def test_a_limit_that_grows_with_a_scale_needs_room_on_all_servers() -> None:
    leader = Leader(*SERVERS)
    [first] = leader.create("S", max_bytes=1000).replicas
    assert refusal(lambda: leader.updating(num_replicas=3, max_bytes=GIB + 1)) == 10047
    small = next(server for server in SERVERS if server.name != first)
    leader.commit([replace(small, storage_bytes_max=GIB // 2)])
    assert refusal(lambda: leader.updating(num_replicas=3, max_bytes=GIB)) == 10005


def test_a_move_with_a_larger_limit_leaves_servers_without_the_room() -> None:
    leader = Leader(*SERVERS, *MORE)
    leader.create("S", placement=Placement(tags=("ssd",)), max_bytes=1000)
    leader.commit([replace(SERVERS[0], storage_bytes_max=GIB // 2)])
    moved = leader.update(placement=Placement(tags=("az:a",)), max_bytes=GIB)
    assert moved.target == ("s2",)


def test_a_scale_up_keeps_the_servers_of_the_stream() -> None:
    leader = Leader(*SERVERS, *MORE)
    [first] = leader.create("S").replicas
    scaled = leader.update(num_replicas=3)
    assert scaled.target[0] == first
    assert len({*scaled.target}) == 3
    assert scaled.config.num_replicas == 3
    stacked = leader.update(num_replicas=5)
    assert stacked.target[:3] == scaled.target
    assert leader.settle().replicas == stacked.target


def test_a_scale_down_keeps_the_leader_then_online_servers() -> None:
    leader = Leader(*SERVERS, *MORE)
    first, second, third, *_ = leader.create("S", num_replicas=5).replicas
    leader.lose(first)
    down = leader.update(leader=third, num_replicas=3)
    assert down.target[0] == third
    assert second in down.target
    assert first not in down.target
    assert len(down.servers) == 5, "they hold the stream until the group is smaller"
    assert leader.settle().servers == down.target


def test_a_move_by_tags_keeps_servers_that_fit() -> None:
    leader = Leader(*SERVERS)
    assert leader.create("S", placement=Placement(tags=("ssd",))).replicas == ("s1",)
    moving = leader.update(placement=Placement(tags=("hdd",)))
    assert (moving.servers, moving.target) == (("s1", "s3"), ("s3",))
    leader.settle()
    still = leader.update(placement=Placement(tags=("az:b",)))
    assert (still.servers, still.change) == (("s3",), None)
    # A placement that is dropped moves nothing.
    assert leader.update(placement=None).change is None


def test_a_move_that_no_server_fits_is_10005() -> None:
    leader = Leader(*SERVERS)
    leader.create("S")
    for placement in (Placement(tags=("x",)), Placement(cluster="other")):
        assert refusal(partial(leader.updating, placement=placement)) == 10005


def test_a_move_and_a_scale_at_once_are_10123() -> None:
    leader = Leader(*SERVERS)
    leader.create("S")
    both = partial(leader.updating, num_replicas=3, placement=Placement(tags=("x",)))
    assert refusal(both) == 10123


def test_one_move_at_a_time() -> None:
    leader = Leader(*SERVERS)
    leader.create("S", placement=Placement(tags=("ssd",)))
    leader.update(placement=Placement(tags=("hdd",)))
    assert refusal(lambda: leader.updating(placement=Placement(tags=("ssd",)))) == 10124
    assert refusal(lambda: leader.updating(num_replicas=3)) == 10124
    leader.update(description="other updates go on")
    leader.settle()
    leader.update(num_replicas=1, placement=Placement(tags=("ssd",)))


def test_a_move_during_a_scale_is_10226() -> None:
    leader = Leader(*SERVERS)
    leader.create("S")
    leader.update(num_replicas=3)
    assert refusal(lambda: leader.updating(placement=Placement(tags=("ssd",)))) == 10226


def test_a_cancelled_move_goes_back_with_its_configuration() -> None:
    leader = Leader(*SERVERS)
    cancel = partial(decide_cancel_move, leader.assignments, "A", "S", ANSWER)
    assert refusal(cancel) == 10059
    before = Placement(tags=("ssd",))
    leader.create("S", placement=before)
    assert refusal(cancel) == 10129
    leader.update(placement=Placement(tags=("hdd",)))
    leader.update(description="d")
    leader.commit(cancel())
    back = leader.stream()
    assert (back.target, back.config.placement) == (("s1",), before)
    assert back.config.description == "d"
    assert {*back.servers} == {"s1", "s3"}
    assert leader.settle().servers == ("s1",)
    assert refusal(cancel) == 10129


def test_a_cancelled_scale_goes_back_to_its_replicas() -> None:
    leader = Leader(*SERVERS)
    before = leader.create("S").replicas
    leader.update(num_replicas=3)
    leader.commit(decide_cancel_move(leader.assignments, "A", "S"))
    assert leader.stream().config.num_replicas == 1
    assert leader.settle().servers == before


def test_an_administrator_moves_one_replica_from_a_server() -> None:
    leader = Leader(*SERVERS, *MORE)
    servers = leader.create("S", num_replicas=3).replicas
    move = partial(decide_move, leader.assignments, "A", "S", leader.candidates)
    assert refusal(lambda: move("zz")) == 10044
    [outside, _] = {server.name for server in leader.candidates.servers} - {*servers}
    assert refusal(lambda: move(outside)) == 10040
    leader.commit(move(servers[1]))
    target = leader.stream().target
    assert len(target) == 3
    assert {servers[0], servers[2]} < {*target}
    assert servers[1] not in target
    assert refusal(lambda: move(servers[0])) == 10124


def test_a_move_without_another_server_is_10005() -> None:
    leader = Leader(*SERVERS)
    leader.create("S", num_replicas=3)
    move = partial(decide_move, leader.assignments, "A", "S", leader.candidates)
    assert refusal(partial(move, "s1")) == 10005
    assert refusal(partial(move, tags=("x",))) == 10005


# --- peers and servers -------------------------------------------------------------------------


def test_a_peer_is_replaced_and_stays_until_the_others_have_caught_up() -> None:
    leader = Leader(*SERVERS, *MORE)
    first, *others = leader.create("S", num_replicas=3).replicas
    removing = leader.remove_peer(first)
    assert {*others} < {*removing.target}
    assert len(removing.target) == 3
    assert first in removing.servers
    assert first not in leader.settle().servers


def test_an_offline_peer_leaves_at_once() -> None:
    leader = Leader(*SERVERS, *MORE)
    first, *_ = leader.create("S", num_replicas=3).replicas
    leader.lose(first)
    removing = leader.remove_peer(first)
    assert first not in removing.servers
    assert removing.change is not None
    assert removing.change.removed == (first,)


def test_a_peer_without_a_replacement_is_10075() -> None:
    leader = Leader(*SERVERS)
    leader.create("S", num_replicas=3)
    assert refusal(lambda: leader.remove_peer("s1")) == 10075
    tagged = Leader(*SERVERS)
    tagged.create("S", placement=Placement(tags=("ssd",)))
    assert refusal(lambda: tagged.remove_peer("s1")) == 10075


def test_an_offline_server_that_alone_has_the_messages_is_not_replaced() -> None:
    leader = Leader(*SERVERS)
    [server] = leader.create("S").replicas
    leader.lose(server)
    assert refusal(lambda: leader.remove_peer(server)) == 10075


def test_a_peer_that_is_no_member_is_10040() -> None:
    leader = Leader(*SERVERS)
    assert refusal(lambda: leader.remove_peer("s1")) == 10059
    [server] = leader.create("S").replicas
    other = next(each for each in ("s1", "s2") if each != server)
    assert refusal(lambda: leader.remove_peer(other)) == 10040
    assert refusal(lambda: leader.remove_peer("zz")) == 10040


def test_a_removed_server_is_replaced_in_its_streams() -> None:
    leader = Leader(*SERVERS, described("s4"))
    for number in range(8):
        leader.create(f"S{number}", number, num_replicas=3)
    leader.lose("s3")
    leader.remove_server("s3")
    assert leader.assignments.held_by("s3") == []
    assert {len(stream.target) for stream in leader.assignments} == {3}
    assert refusal(lambda: decide_server_remove(leader.assignments, "s3")) == 10044


def test_a_stream_that_lacks_a_server_gets_the_next_one_that_joins() -> None:
    leader = Leader(*SERVERS)
    leader.create("S", num_replicas=3)
    leader.lose("s3")
    leader.remove_server("s3")
    short = leader.settle()
    assert (short.servers, short.config.num_replicas) == (("s1", "s2"), 3)
    leader.commit([described("s4")])
    assert decide_repairs(leader.assignments, leader.candidates) == [], "it was never heard"
    leader.health["s4"] = ServerHealth()
    leader.commit(decide_repairs(leader.assignments, leader.candidates))
    assert leader.stream().target == ("s1", "s2", "s4")
    assert decide_repairs(leader.assignments, leader.candidates) == []


def test_a_stream_that_only_a_removed_server_has_stays_assigned_to_it() -> None:
    leader = Leader(*SERVERS)
    [server] = leader.create("S").replicas
    leader.lose(server)
    leader.remove_server(server)
    assert leader.stream().servers == (server,)
    assert leader.stream().change is None


def test_a_move_whose_target_is_removed_ends_elsewhere_or_where_it_began() -> None:
    leader = Leader(*SERVERS)
    leader.create("S", placement=Placement(tags=("ssd",)))
    leader.update(placement=Placement(tags=("!ssd",)))
    first = leader.stream().target[0]
    leader.remove_server(first)
    second = leader.stream().target[0]
    assert {first, second} == {"s2", "s3"}
    leader.remove_server(second)
    assert leader.stream().servers == ("s1",)
    assert leader.settle().servers == ("s1",)


def test_repairs_come_in_entries_of_bounded_size() -> None:
    leader = Leader(*SERVERS)
    for number in range(STREAMS_MAX + 1):
        leader.create(f"S{number}", number, num_replicas=3)
    leader.commit(decide_server_remove(leader.assignments, "s2"))
    first = decide_repairs(leader.assignments, leader.candidates)
    assert len(first) == STREAMS_MAX
    leader.commit(first)
    assert len(decide_repairs(leader.assignments, leader.candidates)) == 1


def evacuated(leader: Leader) -> None:
    leader.evacuate("s1")


def removed(leader: Leader) -> None:
    leader.remove_server("s1")


LEAVING = pytest.mark.parametrize("leave", [evacuated, removed])


@LEAVING
def test_streams_of_one_entry_count_for_each_other(leave: Callable[[Leader], None]) -> None:
    leader = Leader(*SERVERS, *MORE)
    for number in range(12):
        leader.create(f"S{number}", number, num_replicas=3)
    leader.rules = PlacementRules(max_ha_assets=9)
    leave(leader)
    assert leader.held() == dict.fromkeys(("s2", "s3", "s4", "s5"), 9)


@pytest.mark.parametrize(
    ("storage", "room"), [(Storage.FILE, GIB), (Storage.MEMORY, GIB // 4)], ids=str
)
@LEAVING
def test_bytes_of_one_entry_count_for_each_other(
    leave: Callable[[Leader], None], storage: Storage, room: int
) -> None:
    leader = Leader(*SERVERS)
    for number in range(6):
        leader.create(f"S{number}", number, num_replicas=3, storage=storage, max_bytes=room // 6)
    leader.commit([replace(MORE[0], storage_bytes_max=GIB // 2, memory_bytes_max=GIB // 8)])
    leader.health["s4"] = ServerHealth()
    leave(leader)
    assert leader.held()["s4"] == 3


def test_an_evacuation_passes_over_streams_that_are_gone() -> None:
    leader = Leader(*SERVERS, *MORE)
    there = leader.create("S", num_replicas=5)
    leader.commit(decide_delete(leader.assignments, "A", "S"))
    assert decide_evacuate(leader.assignments, "s1", [there], leader.candidates) == []


@given(
    st.lists(
        st.tuples(st.sampled_from((1, 2, 3)), st.sampled_from((-1, 100)), st.booleans()),
        max_size=8,
    ),
    st.booleans(),
)
def test_each_decision_of_an_entry_sees_the_servers_as_the_last_one_leaves_them(
    streams: list[tuple[int, int, bool]], is_lost: bool
) -> None:
    """One entry for all streams has the servers that an entry for each of them would have."""
    together, apart = (Leader(*SERVERS, *MORE) for _ in range(2))
    for leader in (together, apart):
        for number, (replicas, size, is_memory) in enumerate(streams):
            storage = Storage.MEMORY if is_memory else Storage.FILE
            shape = {"num_replicas": replicas, "max_bytes": size, "storage": storage}
            leader.create(f"S{number}", number, **shape)
        if is_lost:
            leader.lose("s1")
    together.evacuate("s1")
    for stream in apart.assignments.held_by("s1"):
        apart.commit(decide_evacuate(apart.assignments, "s1", [stream], apart.candidates))
    assert together.assignments.dump() == apart.assignments.dump()


def test_a_server_is_described_when_it_is_news() -> None:
    leader = Leader(*SERVERS)
    assert decide_describe(leader.assignments, SERVERS[0]) == []
    tagged = described("s1", "nvme")
    assert decide_describe(leader.assignments, tagged) == [tagged]
    leader.assignments.append(tagged)
    assert decide_describe(leader.assignments, tagged) == []


# --- streams that a server brings along --------------------------------------------------------


def test_a_server_brings_its_streams_along_unless_their_names_are_taken() -> None:
    leader = Leader(*SERVERS)
    leader.create("taken", 1)
    leader.create("gone", 2)
    leader.commit(decide_delete(leader.assignments, "A", "gone"))
    found = [
        created("own", 3),
        created("taken", 4),
        created("taken", 1),
        created("gone", 2),
        created("own", 5),
    ]
    records, refused = decide_adopt(leader.assignments, found, "s3")
    leader.commit(records)
    own = leader.stream("own")
    assert (own.incarnation, own.replicas) == (incarnation(3), ("s3",))
    assert [(each.name, each.incarnation) for each in refused] == [
        ("taken", incarnation(4)),
        ("own", incarnation(5)),
    ]


# --- settling ----------------------------------------------------------------------------------


def test_only_the_servers_of_the_target_settle_a_change() -> None:
    leader = Leader(*SERVERS)
    leader.create("S")
    settle = partial(decide_settle, leader.assignments, "A", "S")
    assert settle(incarnation(1), leader.stream().replicas) == []
    leader.update(num_replicas=3)
    assert settle(incarnation(1), ["s1", "s2"]) == []
    assert settle(incarnation(2), ["s1", "s2", "s3"]) == []
    assert len(settle(incarnation(1), ["s3", "s1", "s2"])) == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["scale", "move", "cancel", "peer", "server", "join", "lose", "settle"]),
        st.integers(1, 5),
    ),
    max_size=12,
)


@given(STEPS)
def test_a_stream_always_has_a_server_and_repairs_come_to_an_end(
    steps: list[tuple[str, int]],
) -> None:
    leader = Leader(*SERVERS, *MORE)
    leader.create("S", num_replicas=3)
    for action, number in steps:
        server = f"s{number}"
        try:
            if action == "scale":
                leader.update(num_replicas=number)
            elif action == "move":
                leader.update(placement=Placement(tags=("!ssd",) * (number % 3)))
            elif action == "cancel":
                leader.commit(decide_cancel_move(leader.assignments, "A", "S"))
            elif action == "peer":
                leader.remove_peer(server)
            elif action == "server":
                leader.remove_server(server)
            elif action == "join":
                leader.commit(decide_describe(leader.assignments, described(server)))
                leader.health[server] = ServerHealth()
            elif action == "lose":
                leader.lose(server)
            elif leader.stream().change is not None:
                leader.settle()
        except ApiError:
            continue
        stream = leader.stream()
        assert stream.servers
        assert {*stream.target} <= {*stream.servers}
        assert len({*stream.target}) == len(stream.target)
    for _ in range(3):
        leader.commit(decide_repairs(leader.assignments, leader.candidates))
    assert decide_repairs(leader.assignments, leader.candidates) == []
