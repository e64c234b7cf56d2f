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
from headwater.jetstream.meta.stream_set import StreamSet
from headwater.jetstream.records import StreamCreated, StreamDeleted, StreamSetRecord

CODEC = RecordCodec()
NOW_NS = 1_767_323_045 * 10**9


def incarnation(number: int) -> bytes:
    return number.to_bytes(INCARNATION_BYTES, "little")


FIRST, SECOND = incarnation(1), incarnation(2)


class Shadowed:
    """A set, and a replica that sees the bytes of its records and nothing else."""

    def __init__(self) -> None:
        self.set = StreamSet()
        self.replica = StreamSet()

    def commit(self, records: list[StreamSetRecord]) -> None:
        for record in records:
            self.set.apply(record)
            seen = CODEC.decode(CODEC.encode(record))
            assert isinstance(seen, StreamCreated | StreamDeleted)
            self.replica.apply(seen)

    def create(self, name: str, number: int, account: str = "A") -> None:
        config = StreamConfig(name=name, subjects=(f"{name}.>",))
        self.commit(self.set.decide_create(account, config, NOW_NS + number, incarnation(number)))

    def delete(self, name: str, number: int, account: str = "A") -> None:
        self.commit(self.set.decide_delete(account, name, incarnation(number)))

    def check(self) -> None:
        assert self.set.dump() == self.replica.dump(), "the replica has another set"


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
    [created] = streams.decide_create("A", config, NOW_NS, FIRST)
    assert streams.dump() == []
    streams.apply(created)
    streams.decide_delete("A", "S", FIRST)
    assert streams.get("A", "S") is created


def test_a_deletion_does_not_touch_a_stream_created_again() -> None:
    streams = Shadowed()
    streams.create("S", 1)
    late = streams.set.decide_delete("A", "S", FIRST)
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
    records = decide("A", config, NOW_NS, SECOND, replaces=FIRST)
    assert isinstance(records[0], StreamDeleted)
    streams.commit(records)
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


STEPS = st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("STU"), st.booleans()))


@given(STEPS, st.data())
def test_any_walk_ends_as_that_of_a_dictionary(
    steps: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    streams, twin = Shadowed(), dict[tuple[str, str], int]()
    for number, (account, name, is_create) in enumerate(steps, 1):
        there = twin.get((account, name))
        try:
            if is_create:
                streams.create(name, number, account)
                assert there is None
                twin[account, name] = number
            else:
                asked = data.draw(st.sampled_from([number - 1, there or 0]))
                streams.delete(name, asked, account)
                assert there == asked
                del twin[account, name]
        except ApiError:
            assert (there is not None) if is_create else there != asked
        streams.check()
    found = {(stream.account, stream.name): stream.incarnation for stream in streams.set}
    assert found == {key: incarnation(number) for key, number in twin.items()}
