"""The layout of records, and the refusal of bytes that are no record or a newer one's."""

from typing import Final, get_args

import pytest

from headwater.jetstream.codec.errors import NewerRecordError, RecordError
from headwater.jetstream.codec.record_codec import VERSION, AnyRecord, RecordCodec
from headwater.jetstream.codec.stream_records import WITH_LENGTHS
from headwater.jetstream.records import Published
from headwater.store.log.batch_records import encode_batch
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch
from tests.kit.record_values import EXAMPLES, HEADER, values_of

SEED: Final = 0xC0FFEE
CODEC: Final = RecordCodec(SEED)
NAMES: Final = [type(record).__name__ for record in EXAMPLES]

# The bytes of the examples without messages and configurations: they stand in logs.
WRITTEN: Final = """
    0201 0800000000000000 15cd0f9b76e2fa18 03000000 1e000000
        532e61 4e4154532f312e300d0a4e6174732d526f6c6c75703a207375620d0a0d0a
    0301 01 03000000 09000000000000000900000000000000 02000000000000000400000000000000
        07000000000000000700000000000000
    0301 00 00000000
    0401 0000000000000080 0500000000000000 15cd0f9b76e2fa18 01000000 3e
    0601 0000000000000080 0900000000000000 05000000 08000000 4f203e203e 6162636465666768
    0601 0000000000000000 0000000000000000 00000000 00000000
    2101 000102030405060708090a0b0c0d0e0f 02000000 01000000 c3a9 53
    4201 91a143
    4301 92a143cf8000000000000000
    4401 94a143cf18fae2769b0fcd1596090902020505940a0c1414
    4401 94a143cf18fae2769b0fcd15909201cd03e7
    4501 93a143cf18fae2769b0fcd15920303
    4501 95a143cf18fae2769b0fcd15900203
    4501 95a143cf18fae2769b0fcd1594010205050205
    4601 93a14392050192cf18fae2769b0fcd15fb
    4701 92a1439401010707
    4a01 92a1439401010707
    4b01 93a143cf18fae2769b0fcd1507
    4801 93a143cf18fae2769b0fcd15a26964
    4801 93a14300a0
"""


def test_every_kind_of_record_has_an_example() -> None:
    kinds = {each for alias in get_args(AnyRecord) for each in get_args(alias) or (alias,)}
    assert {type(record) for record in EXAMPLES} == kinds


def test_records_are_written_as_they_always_were() -> None:
    simple = [
        record
        for record in EXAMPLES
        if not isinstance(record, Published) and not hasattr(record, "config")
    ]
    written = b"".join(CODEC.encode(record) for record in simple)
    assert written.hex() == "".join(WRITTEN.split())


@pytest.mark.parametrize("record", EXAMPLES, ids=NAMES)
def test_a_record_comes_back_as_it_was(record: AnyRecord) -> None:
    assert values_of(CODEC.decode(CODEC.encode(record))) == values_of(record)


@pytest.mark.parametrize("record", EXAMPLES, ids=NAMES)
def test_a_record_that_is_cut_off_anywhere_is_refused(record: AnyRecord) -> None:
    data = CODEC.encode(record)
    for size in range(len(data)):
        with pytest.raises(RecordError):
            CODEC.decode(data[:size])


@pytest.mark.parametrize("record", EXAMPLES, ids=NAMES)
def test_a_record_with_bytes_behind_it_is_refused(record: AnyRecord) -> None:
    with pytest.raises(RecordError):
        CODEC.decode(CODEC.encode(record) + b"\0")


@pytest.mark.parametrize("record", EXAMPLES, ids=NAMES)
def test_another_version_is_refused_by_its_number(record: AnyRecord) -> None:
    data = CODEC.encode(record)
    newer = WITH_LENGTHS + 1 if isinstance(record, Published) else VERSION + 1
    with pytest.raises(NewerRecordError, match=f"kind {data[0]}, version {newer} .* newer Headw"):
        CODEC.decode(data[:1] + bytes([newer]) + data[2:])


def test_any_unknown_kind_is_refused_by_its_number() -> None:
    known = {CODEC.encode(record)[0] for record in EXAMPLES}
    for kind in set(range(1, 256)) - known:
        with pytest.raises(NewerRecordError, match=f"kind {kind}, version 1 .* newer Headwater"):
            CODEC.decode(bytes([kind, 1]) + b"body")


@pytest.mark.parametrize("data", [b"", b"\1", b"\0\1", b"\1\0", bytes(100)])
def test_zeros_and_single_bytes_are_no_record(data: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        CODEC.decode(data)
    assert not isinstance(caught.value, NewerRecordError)


# --- messages -------------------------------------------------------------------------------------


def published() -> Published:
    return Published(5, Batch([b"S.a", b"S.b"], [HEADER, b""], [b"", b"x"], [7, 8], [0, 9]), True)


def test_messages_are_in_the_record_as_the_segment_holds_them() -> None:
    record = published()
    data = CODEC.encode(record)
    messages, lengths = encode_batch(5, record.batch, SEED)
    assert data == bytes.fromhex("0101 01 02000000") + messages
    assert record.encoded is not None
    assert record.encoded.data[record.encoded.begin :] == messages
    assert record.encoded.lengths == lengths


def test_messages_are_encoded_once() -> None:
    record = published()
    assert record.encoded is None
    assert CODEC.encode(record) is CODEC.encode(record)


def test_a_decoded_record_keeps_its_bytes() -> None:
    data = CODEC.encode(published())
    found = CODEC.decode(data)
    assert isinstance(found, Published)
    assert found.encoded is not None
    assert found.encoded.data is data
    messages, lengths = encode_batch(5, published().batch, SEED)
    assert found.encoded.data[found.encoded.begin :] == messages
    assert found.encoded.lengths == lengths
    assert CODEC.encode(found) is data


@pytest.mark.parametrize("is_decoded", [False, True])
def test_a_log_takes_over_the_bytes_of_a_record(is_decoded: bool) -> None:
    log, replica = MemoryLog(5), MemoryLog(5)
    codec = RecordCodec(log.record_seed)
    record = published()
    log.append(record.batch)
    data = codec.encode(record)
    taken = codec.decode(data) if is_decoded else record
    assert isinstance(taken, Published)
    assert taken.encoded is not None
    replica.append_encoded(taken.batch, taken.encoded)
    assert [*replica.read(5, 10, 1000)] == [*log.read(5, 10, 1000)]
    assert [*replica.read(5, 10, 1000)] != []
    assert replica.byte_count == log.byte_count


def test_messages_are_encoded_again_for_a_stream_of_another_seed() -> None:
    record = published()
    CODEC.encode(record)
    assert record.encoded is not None
    assert record.encoded.seed == SEED
    other = RecordCodec(SEED + 1)
    assert isinstance(other.decode(other.encode(record)), Published)
    assert record.encoded.seed == SEED + 1


def test_messages_of_another_stream_are_refused() -> None:
    with pytest.raises(RecordError, match="fails its checksum"):
        RecordCodec(SEED + 1).decode(CODEC.encode(published()))
