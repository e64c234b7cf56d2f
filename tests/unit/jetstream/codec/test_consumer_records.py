"""Bodies of consumers' records."""

import pytest

from headwater.jetstream.codec.consumer_records import DECODERS, ENCODERS, decode_consumer_record
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.consumers.records import CONSUMER_RECORDS, Acked, Delivered


def test_every_record_of_a_consumer_has_a_kind_of_its_own() -> None:
    assert {*ENCODERS} == {*CONSUMER_RECORDS}
    kinds = [kind for kind, _ in ENCODERS.values()]
    assert sorted(kinds) == sorted(DECODERS)


def encoded(record: Acked | Delivered) -> tuple[int, bytes]:
    kind, encode_body = ENCODERS[type(record)]
    return kind, encode_body(record)


def test_deliveries_come_back_in_their_order() -> None:
    """5, 1, 7 ends as far behind its beginning as 5, 6, 7."""
    found = decode_consumer_record(*encoded(Delivered("C", [5, 1, 7, 7], (), 9)))
    assert isinstance(found, Delivered)
    assert [*found.again] == [5, 1, 7, 7]


def test_acknowledged_messages_are_a_set() -> None:
    found = decode_consumer_record(*encoded(Acked("C", [5, 1, 7, 6, 5], 9)))
    assert isinstance(found, Acked)
    assert [*found.sequences] == [1, 5, 6, 7]


@pytest.mark.parametrize(
    "record", [Delivered("C", (), range(1, 100_000), 9), Acked("C", range(1, 100_000), 9)]
)
def test_a_long_range_takes_little_room(record: Acked | Delivered) -> None:
    assert len(encoded(record)[1]) < 20


@pytest.mark.parametrize("kind", [0, 63, 73, 76, 77, 255])
def test_other_kinds_are_no_records_of_consumers(kind: int) -> None:
    with pytest.raises(RecordError, match=f"the kind {kind}"):
        decode_consumer_record(kind, b"\x91\xa1C")
