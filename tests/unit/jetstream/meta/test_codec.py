"""The bytes of the meta group: every record comes back, and no bytes do any harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.codec import RecordCodec
from headwater.jetstream.codec.errors import NewerRecordError, RecordError
from headwater.jetstream.codec.values import decode_values, encode_values
from headwater.jetstream.meta.assignments import UNASSIGNED_MAX, Assignments
from headwater.jetstream.meta.codec import (
    CHUNK_BYTES,
    REPLICAS_CHANGED,
    decode_entry,
    decode_record,
    decode_snapshot,
    encode_entry,
    encode_record,
    encode_snapshot,
)
from headwater.jetstream.meta.records import (
    SERVERS_MAX,
    SUBJECT_BYTES_MAX,
    TAGS_MAX,
    AnswerTo,
    MetaRecord,
    ReplicaCause,
    ReplicasChanged,
    ServerDescribed,
    ServerRemoved,
    StreamAssigned,
    StreamUnassigned,
    StreamUpdated,
)
from tests.kit.meta_values import (
    COLLIDING_RECORDS,
    META_RECORDS,
    apply_all,
    created,
    described,
    incarnation,
)
from tests.kit.record_values import EXAMPLES, STREAM_CONFIG

ANSWER = AnswerTo("A", b"$JS.API.STREAM.CREATE.S", b"_INBOX.1", b'{"acc":"A"}', b'{"name":"S"}')


@given(META_RECORDS)
def test_every_record_comes_back(record: MetaRecord) -> None:
    assert decode_record(encode_record(record)) == record


@given(st.lists(META_RECORDS, min_size=1, max_size=4))
def test_the_records_of_an_entry_come_back_in_order(records: list[MetaRecord]) -> None:
    assert decode_entry(encode_entry(records)) == records


@given(META_RECORDS, st.data())
def test_damaged_bytes_are_refused_or_another_record(
    record: MetaRecord, data: st.DataObject
) -> None:
    whole = bytearray(encode_record(record))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        decoded = decode_record(bytes(whole))
    except RecordError:
        return
    assert decode_record(encode_record(decoded)) == decoded


@given(META_RECORDS)
def test_a_part_of_a_record_is_refused(record: MetaRecord) -> None:
    whole = encode_record(record)
    for end in range(len(whole)):
        with pytest.raises(RecordError):
            decode_record(whole[:end])
    with pytest.raises(RecordError):
        decode_record(whole + b"\x00")


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x60\x01", b"\x62\x01", b"\x68\x01"]))
def test_any_bytes_are_refused_or_a_record(data: bytes, envelope: bytes) -> None:
    for decode in (decode_record, decode_entry):
        try:
            assert decode(envelope + data)
        except RecordError:
            continue


def test_a_newer_kind_or_version_is_refused_by_its_number() -> None:
    data = encode_record(ServerRemoved("s1"))
    with pytest.raises(NewerRecordError, match="kind 105, version 2"):
        decode_record(data[:1] + b"\x02" + data[2:])
    with pytest.raises(NewerRecordError, match="kind 111, version 1"):
        decode_record(b"\x6f" + data[1:])


def test_no_record_of_a_stream_passes_for_one_of_the_meta_group() -> None:
    codec = RecordCodec()
    for record in EXAMPLES:
        with pytest.raises(RecordError):
            decode_record(codec.encode(record))
    with pytest.raises(RecordError):
        codec.decode(encode_record(ServerRemoved("s1")))


def changed(replicas: tuple[str, ...]) -> ReplicasChanged:
    return ReplicasChanged("A", "S", incarnation(1), replicas, ReplicaCause.SCALE)


def test_a_record_has_servers_but_not_too_many_and_none_twice() -> None:
    most = changed(tuple(f"s{number}" for number in range(SERVERS_MAX)))
    assert decode_record(encode_record(most)) == most
    for replicas in ((*most.replicas, "more"), ("s1", "s1"), ()):
        with pytest.raises(RecordError):
            decode_record(encode_record(changed(replicas)))


def test_a_server_has_a_bounded_number_of_tags() -> None:
    tags = tuple(f"t{number}" for number in range(TAGS_MAX))
    most = ServerDescribed("s1", "trio", tags)
    assert decode_record(encode_record(most)) == most
    with pytest.raises(RecordError):
        decode_record(encode_record(ServerDescribed("s1", "trio", (*tags, "more"))))


def test_an_answer_has_bounded_parts() -> None:
    longest = AnswerTo("A", b"x" * SUBJECT_BYTES_MAX, b"y")
    record = ServerRemoved("s1", longest)
    assert decode_record(encode_record(record)) == record
    with pytest.raises(RecordError, match="too long"):
        decode_record(
            encode_record(ServerRemoved("s1", AnswerTo("A", longest.subject + b"x", b"y")))
        )


def test_an_unknown_cause_and_a_short_incarnation_are_refused() -> None:
    data = encode_record(changed(("s1",)))
    assert data[0] == REPLICAS_CHANGED
    values = decode_values(data[2:])
    for at, value in ((4, 9), (4, True), (2, b"short"), (0, 7), (3, "s1"), (5, None)):
        other = [*values[:at], value, *values[at + 1 :]]
        with pytest.raises(RecordError):
            decode_record(data[:2] + encode_values(other))


# --- snapshots ------------------------------------------------------------------------------------


def example() -> Assignments:
    """A state with every part that a snapshot has."""
    assignments = Assignments()
    key = ("A", "S", incarnation(1))
    moving = ("A", "M", incarnation(2))
    apply_all(
        assignments,
        [
            described("s1", "ssd"),
            described("s2"),
            StreamAssigned(*key, STREAM_CONFIG, 5, ("s1",), ANSWER),
            StreamAssigned(*moving, STREAM_CONFIG, 6, ("s1", "s2", "s3")),
            ReplicasChanged(*moving, ("s2", "s4", "s5"), ReplicaCause.MOVE, ("s3",)),
            StreamUpdated(*moving, created("M", 2).config),
            StreamAssigned("A", "gone", incarnation(3), STREAM_CONFIG, 7, ("s1",)),
            StreamUnassigned("A", "gone", incarnation(3)),
        ],
    )
    return assignments


def test_a_snapshot_holds_the_whole_state() -> None:
    assignments = example()
    restored = decode_snapshot(encode_snapshot(assignments))
    assert restored.dump() == assignments.dump()
    assert [*restored] == [*assignments]
    assert restored.was_unassigned(incarnation(3))
    assert decode_snapshot(encode_snapshot(Assignments())).dump() == Assignments().dump()


@given(st.lists(COLLIDING_RECORDS, max_size=12))
def test_a_server_that_begins_with_a_snapshot_equals_one_that_applied_all(
    records: list[MetaRecord],
) -> None:
    whole, restored = Assignments(), Assignments()
    for record in records:
        apply_all(whole, [record])
        restored = decode_snapshot(encode_snapshot(restored))
        apply_all(restored, [record])
    assert restored.dump() == whole.dump()


def test_records_in_flight_are_not_in_a_snapshot() -> None:
    assignments = example()
    before = [*encode_snapshot(assignments)]
    assignments.append(ServerRemoved("s1"))
    assert [*encode_snapshot(assignments)] == before


def test_a_long_snapshot_comes_in_chunks_of_bounded_size() -> None:
    description = "x" * 1000
    assignments = Assignments()
    for number in range(600):
        made = created(f"S{number}", number, description=description)
        apply_all(
            assignments, [StreamAssigned("A", made.name, made.incarnation, made.config, 1, ("s1",))]
        )
    chunks = [*encode_snapshot(assignments)]
    assert len(chunks) > 2
    assert all(len(chunk) < CHUNK_BYTES + 5_000 for chunk in chunks)
    assert decode_snapshot(chunks).dump() == assignments.dump()
    for missing in range(len(chunks)):
        with pytest.raises(RecordError):
            decode_snapshot(chunks[:missing] + chunks[missing + 1 :])
    with pytest.raises(RecordError, match="behind the end"):
        decode_snapshot([*chunks, chunks[-1]])


def test_the_memory_of_unassigned_streams_fits_a_snapshot() -> None:
    numbers = range(UNASSIGNED_MAX)
    full = Assignments(unassigned=map(incarnation, numbers))
    assert decode_snapshot(encode_snapshot(full)).unassigned == full.unassigned
    with pytest.raises(RecordError):
        decode_snapshot(
            encode_snapshot(Assignments(unassigned=map(incarnation, [*numbers, 1 << 20])))
        )


@given(st.data())
def test_a_damaged_snapshot_is_refused_or_another_state(data: st.DataObject) -> None:
    chunks = [*encode_snapshot(example())]
    damaged = bytearray(chunks[0])
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    try:
        restored = decode_snapshot([bytes(damaged)])
    except RecordError:
        return
    assert decode_snapshot(encode_snapshot(restored)).dump() == restored.dump()


@given(st.lists(st.binary(max_size=40), max_size=3))
def test_chunks_of_any_bytes_are_refused(chunks: list[bytes]) -> None:
    with pytest.raises(RecordError):
        decode_snapshot(chunks)
