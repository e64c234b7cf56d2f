"""The errors of the codec tell an operator what to do."""

from headwater.base.errors import OperatingError
from headwater.jetstream.codec.errors import NewerRecordError, RecordError


def test_a_newer_record_is_named_by_kind_and_version() -> None:
    error = NewerRecordError(77, 3)
    assert isinstance(error, RecordError)
    assert isinstance(error, OperatingError)
    assert str(error) == (
        "a record of kind 77, version 3 is unknown to this program: "
        "a newer Headwater wrote it; use that version or a later one"
    )
