"""The set of streams: names are unique, deletions name an incarnation, records tell everything."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream import error_codes
from headwater.jetstream.codec import RecordCodec
from headwater.jetstream.codec.stream_set_records import INCARNATION_BYTES
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.group import Group
from headwater.jetstream.meta.stream_set import StreamSet
from headwater.jetstream.proposal import Close, Effect, Open, Proposal, StreamAnnounced
from headwater.jetstream.records import StreamCreated, StreamDeleted, StreamSetRecord
from headwater.store.errors import StoreError

CODEC = RecordCodec()
NOW_NS = 1_767_323_045 * 10**9


def incarnation(number: int) -> bytes:
    return number.to_bytes(INCARNATION_BYTES, "little")


FIRST, SECOND = incarnation(1), incarnation(2)


class Shadowed:
    """A set in its group, and a replica that sees the bytes of its records and nothing else.

    The commit of an entry comes when `advance` says so, and until then it can be withdrawn.
    """

    def __init__(self) -> None:
        self.set = StreamSet()
        self.replica = StreamSet()
        self.group: Group[StreamSetRecord, ApiError] = Group(self.set, self)
        self.released: list[Effect] = []
        self.refused: list[Effect] = []

    def propose(self, proposal: Proposal[StreamSetRecord]) -> None:
        self.group.propose(proposal)

    def advance(self) -> None:
        self.group.advance(self.group.proposed)

    def commit(self, proposal: Proposal[StreamSetRecord]) -> None:
        self.propose(proposal)
        self.advance()

    def creation(self, name: str, number: int, account: str = "A") -> Proposal[StreamSetRecord]:
        config = StreamConfig(name=name, subjects=(f"{name}.>",))
        return self.set.decide_create(account, config, NOW_NS + number, incarnation(number))

    def deletion(self, name: str, number: int, account: str = "A") -> Proposal[StreamSetRecord]:
        return self.set.decide_delete(account, [(name, incarnation(number))])

    def create(self, name: str, number: int, account: str = "A") -> None:
        self.commit(self.creation(name, number, account))

    def delete(self, name: str, number: int, account: str = "A") -> None:
        self.commit(self.deletion(name, number, account))

    def check(self) -> None:
        assert self.set.dump() == self.replica.dump(), "the replica has another set"

    # --- the driver of the group ---------------------------------------------------------------

    def release(self, proposal: Proposal[StreamSetRecord]) -> None:
        for record in proposal.records:
            seen = CODEC.decode(CODEC.encode(record))
            assert isinstance(seen, StreamCreated | StreamDeleted)
            self.replica.apply(seen)
        self.released += proposal.effects

    def refuse(self, proposal: Proposal[StreamSetRecord], error: ApiError) -> None:
        self.refused += proposal.effects

    def application_failed(self, record: StreamSetRecord, error: StoreError) -> bool:
        raise error

    def application_broken(
        self, proposal: Proposal[StreamSetRecord], error: StoreError
    ) -> ApiError:
        raise error

    def storing_failed(self, proposal: Proposal[StreamSetRecord], error: StoreError) -> ApiError:
        raise error


def refusal(call: Callable[[], object]) -> int:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.err_code


def test_a_name_in_use_is_refused_in_its_account_alone() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    exists = error_codes.STREAM_NAME_EXIST.err_code
    assert refusal(lambda: streams.create("S", 2)) == exists
    streams.create("S", 3, account="B")
    streams.create("T", 4)
    assert len(streams.set) == 3
    streams.check()


def test_a_decision_changes_nothing() -> None:
    streams = StreamSet()
    config = StreamConfig(name="S")
    [created] = streams.decide_create("A", config, NOW_NS, FIRST).records
    assert streams.dump() == []
    streams.apply(created)
    streams.decide_delete("A", [("S", FIRST)])
    assert streams.get("A", "S") is created


def test_a_deletion_does_not_touch_a_stream_created_again() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    late = streams.deletion("S", 1)
    streams.delete("S", 1)
    streams.create("S", 2)
    streams.commit(late)
    created = streams.set.get("A", "S")
    assert created is not None
    assert created.incarnation == SECOND
    gone = error_codes.STREAM_NOT_FOUND.err_code
    assert refusal(lambda: streams.delete("S", 1)) == gone
    assert refusal(lambda: streams.delete("other", 1)) == gone
    streams.check()


def test_a_stream_whose_files_are_gone_is_replaced_by_name_and_incarnation() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    config = StreamConfig(name="S")
    decide = streams.set.decide_create
    exists = error_codes.STREAM_NAME_EXIST.err_code
    assert refusal(lambda: decide("A", config, NOW_NS, SECOND, replaces=SECOND)) == exists
    proposal = decide("A", config, NOW_NS, SECOND, replaces=FIRST)
    assert isinstance(proposal.records[0], StreamDeleted)
    streams.commit(proposal)
    assert [stream.incarnation for stream in streams.set] == [SECOND]
    streams.check()


def test_the_dump_does_not_depend_on_the_order_of_creations() -> None:
    there, back = Shadowed(), Shadowed()
    for number in (1, 2, 3):
        there.create(f"S{number}", number)
    for number in (3, 1, 2):
        back.create(f"S{number}", number)
    assert there.set.dump() == back.set.dump()
    assert [stream.name for stream in there.set.dump()] == ["S1", "S2", "S3"]


def test_a_change_without_a_record_shows() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    streams.set.apply(StreamDeleted("A", "S", FIRST))
    with pytest.raises(AssertionError, match="another set"):
        streams.check()


def test_a_creation_opens_the_stream_and_announces_it() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    opened, announced = streams.released
    assert isinstance(opened, Open)
    assert (opened.created.name, opened.created.incarnation) == ("S", FIRST)
    assert announced == StreamAnnounced("A", "S", is_created=True)


def test_a_deletion_closes_each_of_its_streams_and_announces_it() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    streams.create("T", 2)
    streams.released.clear()
    streams.commit(streams.set.decide_delete("A", [("S", FIRST), ("T", SECOND)]))
    closed = [effect for effect in streams.released if isinstance(effect, Close)]
    assert [(each.name, each.incarnation) for each in closed] == [("S", FIRST), ("T", SECOND)]
    assert {each.why.err_code for each in closed} == {error_codes.STREAM_NOT_FOUND.err_code}
    assert streams.released[1::2] == [StreamAnnounced("A", name, False) for name in "ST"]
    assert len(streams.set) == 0
    streams.check()


def test_of_a_deletion_that_names_a_stream_which_is_gone_nothing_is_done() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    asked = [("S", FIRST), ("T", SECOND)]
    gone = error_codes.STREAM_NOT_FOUND.err_code
    assert refusal(lambda: streams.set.decide_delete("A", asked)) == gone
    assert len(streams.set) == 1


def test_a_stream_exists_when_its_creation_is_committed_and_its_name_is_taken_before() -> None:
    streams = Shadowed()
    streams.propose(streams.creation("S", 1))
    assert (streams.set.get("A", "S"), streams.released) == (None, [])
    exists = error_codes.STREAM_NAME_EXIST.err_code
    assert refusal(lambda: streams.creation("S", 2)) == exists
    streams.propose(streams.deletion("S", 1))
    gone = error_codes.STREAM_NOT_FOUND.err_code
    assert refusal(lambda: streams.deletion("S", 1)) == gone
    streams.propose(streams.creation("S", 2))
    streams.advance()
    assert [stream.incarnation for stream in streams.set] == [SECOND]
    streams.check()


def test_streams_that_were_only_proposed_are_forgotten_by_a_retreat() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    streams.released.clear()
    before = streams.set.dump()
    streams.propose(streams.deletion("S", 1))
    streams.propose(streams.creation("S", 2))
    streams.propose(streams.creation("T", 3))
    streams.group.retreat(ApiError.of(error_codes.CLUSTER_NOT_LEADER))
    assert (streams.set.dump(), streams.released) == (before, [])
    assert len(streams.refused) == 6
    assert streams.set.foreseen("A", "T") is None
    there = streams.set.foreseen("A", "S")
    assert there is not None
    assert there.incarnation == FIRST
    streams.check()


def test_an_adopted_stream_takes_the_place_of_the_one_that_has_its_name() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    streams.released.clear()
    found = [StreamCreated("A", name, SECOND, StreamConfig(name=name), NOW_NS) for name in "ST"]
    proposal = streams.set.decide_adopt(found)
    assert not proposal.is_awaited
    streams.commit(proposal)
    assert [(stream.name, stream.incarnation) for stream in streams.set] == [
        ("S", SECOND),
        ("T", SECOND),
    ]
    assert streams.released == [], "the server opens it with all others"
    streams.check()


STEPS = st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("STU"), st.booleans()))


@given(STEPS, st.data())
def test_any_walk_ends_as_that_of_a_dictionary(
    steps: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    streams, twin = Shadowed(), dict[tuple[str, str], int]()
    committed = dict(twin)
    for number, (account, name, is_create) in enumerate(steps, 1):
        there = twin.get((account, name))
        try:
            if is_create:
                streams.propose(streams.creation(name, number, account))
                assert there is None
                twin[account, name] = number
            else:
                asked = data.draw(st.sampled_from([number - 1, there or 0]))
                streams.propose(streams.deletion(name, asked, account))
                assert there == asked
                del twin[account, name]
        except ApiError:
            assert (there is not None) if is_create else there != asked
        fate = data.draw(st.sampled_from(["in flight", "committed", "withdrawn"]))
        if fate == "committed":
            streams.advance()
            committed = dict(twin)
        elif fate == "withdrawn":
            streams.group.retreat(ApiError.of(error_codes.CLUSTER_NOT_LEADER))
            twin = dict(committed)
        streams.check()
        found = {(stream.account, stream.name): stream.incarnation for stream in streams.set}
        assert found == {key: incarnation(number) for key, number in committed.items()}
