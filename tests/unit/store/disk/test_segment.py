"""One segment file: its own records are read back, also around damage, and no others."""

import errno

import pytest

from headwater.store.disk.filesystem import read_file
from headwater.store.disk.format import (
    ERASED,
    HEADER_BYTES,
    MESSAGE,
    SKIP,
    FormatError,
    Record,
    check_record,
    encode_messages,
    encode_skip,
    record_length,
)
from headwater.store.disk.segment import READ_BYTES, SegmentFile, segment_name, sequence_of
from headwater.testing.disk import SimDisk

FOLDER = "/log"
IDENTITY = bytes(range(16))
FIRST = 10


def created(disk: SimDisk) -> SegmentFile:
    disk.make_folder(FOLDER)
    return SegmentFile.create(disk, FOLDER, IDENTITY, FIRST)


def messages(segment: SegmentFile, first: int, count: int, size: int = 20) -> tuple[bytes, int]:
    payloads = [b"%d." % at * (size // 3) for at in range(first, first + count)]
    data, lengths = encode_messages(
        first, [b"s"] * count, [b""] * count, payloads, [first] * count, segment.seed
    )
    return data, lengths[0]


def filled(disk: SimDisk, count: int = 5) -> tuple[SegmentFile, list[int]]:
    """A segment of messages, and where they are."""
    segment = created(disk)
    offsets = [segment.write(messages(segment, at, 1)[0]) for at in range(FIRST, FIRST + count)]
    return segment, offsets


def records(segment: SegmentFile) -> list[tuple[int, int]]:
    """Kind and sequence of every record, one after the other, up to the first that is not sound."""
    data = segment.file.read(0, segment.size)
    found = []
    offset = HEADER_BYTES
    while length := record_length(data, offset):
        if not check_record(data, offset, length, segment.seed):
            break
        record = Record(data, offset, length)
        found.append((record.kind, record.sequence))
        offset += length
    return found


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequence", [1, 10, 2**63, 2**64 - 1])
def test_names_say_the_sequence_and_sort_like_it(sequence: int) -> None:
    assert sequence_of(segment_name(sequence)) == sequence
    assert segment_name(sequence - 1) < segment_name(sequence)


@pytest.mark.parametrize("name", ["journal.hw", "segment-1.hw.new", "segment-.hw", "segment-x.hw"])
def test_other_names_are_no_segments(name: str) -> None:
    assert sequence_of(name) == 0


# --- opening --------------------------------------------------------------------------------------


def test_a_segment_is_opened_as_it_was_written() -> None:
    disk = SimDisk()
    segment, offsets = filled(disk)
    again = SegmentFile.open(disk, segment.path, IDENTITY)
    assert (again.first_sequence, again.seed, again.size) == (FIRST, segment.seed, segment.size)
    assert [again.read_record(offset).sequence for offset in offsets] == [  # type: ignore[union-attr]
        10, 11, 12, 13, 14,
    ]  # fmt: skip
    # The process that wrote it may have been killed before it was synced.
    assert not again.is_synced


def test_what_is_not_ours_is_refused() -> None:
    disk = SimDisk()
    segment, _ = filled(disk)
    with pytest.raises(FormatError, match="another stream"):
        SegmentFile.open(disk, segment.path, bytes(16))
    disk.rename(segment.path, f"{FOLDER}/{segment_name(11)}")
    with pytest.raises(FormatError, match="name of another segment"):
        SegmentFile.open(disk, f"{FOLDER}/{segment_name(11)}", IDENTITY)


def test_records_of_another_stream_are_not_taken_for_ours() -> None:
    disk = SimDisk()
    segment, offsets = filled(disk)
    other = SegmentFile.create(disk, FOLDER, b"another identity", 99)
    offset = other.write(segment.file.read(offsets[0], offsets[1] - offsets[0]))
    assert other.read_record(offset) is None


def test_a_record_has_the_same_bytes_in_every_segment_of_its_stream() -> None:
    disk = SimDisk()
    segment, offsets = filled(disk)
    other = SegmentFile.create(disk, FOLDER, IDENTITY, FIRST + 1)
    offset = other.write(segment.file.read(offsets[1], offsets[2] - offsets[1]))
    found = other.read_record(offset)
    assert found is not None
    assert found.sequence == FIRST + 1


# --- writing and syncing --------------------------------------------------------------------------


@pytest.mark.parametrize("kept_size", [0, 5, 40])
def test_a_write_that_fails_leaves_the_file_as_it_was(kept_size: int) -> None:
    disk = SimDisk()
    segment, _ = filled(disk)
    before = read_file(disk, segment.path)
    disk.fail("write", code=errno.ENOSPC, kept_size=kept_size)
    with pytest.raises(OSError, match="No space"):
        segment.write(messages(segment, 15, 2)[0])
    assert read_file(disk, segment.path) == before
    assert segment.size == len(before)


def test_it_is_synced_once_for_what_was_written_once() -> None:
    disk = SimDisk()
    segment, _ = filled(disk)
    segment.sync()
    segment.sync()
    assert disk.counts(segment.path).syncs == 1
    segment.write(messages(segment, 15, 1)[0])
    assert not segment.is_synced
    segment.sync()
    assert disk.counts(segment.path).syncs == 2


def test_an_erased_record_has_to_be_synced_although_the_size_is_the_same() -> None:
    disk = SimDisk()
    segment, offsets = filled(disk)
    segment.sync()
    record = segment.read_record(offsets[2])
    assert record is not None
    segment.overwrite_payload(offsets[2], record)
    assert not segment.is_synced


def test_a_sync_that_began_before_a_change_does_not_count_for_it() -> None:
    """A sync runs on another thread: here the change happens in the middle of it."""
    disk = SimDisk()
    segment, offsets = filled(disk)
    record = segment.read_record(offsets[0])
    assert record is not None
    erased: Record = record

    class Interrupted:
        size = segment.size

        def sync(self) -> None:
            file.sync()
            segment.file = file
            segment.overwrite_payload(offsets[0], erased)

    file = segment.file
    segment.file = Interrupted()  # type: ignore[assignment]
    segment.sync()
    assert not segment.is_synced
    segment.sync()
    assert segment.is_synced


# --- cutting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", range(FIRST - 1, FIRST + 5))
def test_records_after_a_sequence_are_cut_off(last: int) -> None:
    segment, _ = filled(SimDisk())
    segment.seal(FIRST + 4, b"index")
    changes = segment.changes
    segment.cut_after(last)
    assert records(segment) == [(MESSAGE, at) for at in range(FIRST, last + 1)]
    assert not segment.sealed
    assert segment.is_synced
    assert segment.changes > changes


def test_a_cut_into_a_skip_leaves_a_shorter_skip() -> None:
    segment, _ = filled(SimDisk())
    segment.write(encode_skip(15, 10, 1, segment.seed))
    segment.cut_after(17)
    assert records(segment)[-1] == (SKIP, 15)
    again = segment.read_record(segment.size - 40)
    assert again is not None
    assert again.sequence_count == 3


def test_a_cut_keeps_what_is_before_damage_and_behind_it() -> None:
    disk = SimDisk()
    segment, offsets = filled(disk)
    disk.flip_bit(segment.path, offsets[1] + 35, 0)
    segment.cut_after(13)
    assert segment.read_record(offsets[1]) is None
    assert [segment.read_record(offset).sequence for offset in (offsets[0], *offsets[2:4])] == [  # type: ignore[union-attr]
        10, 12, 13,
    ]  # fmt: skip
    assert segment.size == offsets[4]


def test_where_the_last_record_before_the_cut_is_damaged_its_sequence_stays_used() -> None:
    disk = SimDisk()
    segment, offsets = filled(disk)
    disk.flip_bit(segment.path, offsets[2] + 35, 0)
    segment.cut_after(12)
    assert segment.read_record(offsets[2]).kind == SKIP  # type: ignore[union-attr]
    assert records(segment) == [(MESSAGE, 10), (MESSAGE, 11), (SKIP, 12)]


# --- the footer -----------------------------------------------------------------------------------


def test_a_footer_comes_back() -> None:
    disk = SimDisk()
    segment, _ = filled(disk)
    assert segment.read_footer() is None
    segment.seal(14, b"the index")
    assert segment.sealed
    assert segment.read_footer() == b"the index"


def test_a_footer_damaged_anywhere_is_none() -> None:
    disk = SimDisk()
    segment, _ = filled(disk)
    begin = segment.size
    segment.seal(14, b"the index")
    for offset in range(begin, segment.size):
        disk.flip_bit(segment.path, offset, offset % 8)
        assert segment.read_footer() is None
        disk.flip_bit(segment.path, offset, offset % 8)
    assert segment.read_footer() == b"the index"


def test_a_footer_cut_off_anywhere_is_none() -> None:
    disk = SimDisk()
    segment, _ = filled(disk)
    begin = segment.size
    segment.seal(14, b"the index")
    for size in range(segment.size - 1, begin - 1, -1):
        segment.file.truncate(size)
        assert segment.read_footer() is None


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 400, 450, 500, 5000, READ_BYTES + 7])
def test_records_of_any_size_are_read(size: int) -> None:
    segment = created(SimDisk())
    payload = bytes(size)
    data, _ = encode_messages(FIRST, [b"s"], [b"h"], [payload], [1], segment.seed)
    offset = segment.write(data)
    record = segment.read_record(offset)
    assert record is not None
    assert (record.subject, record.header, record.payload) == (b"s", b"h", payload)
    assert len(segment.read_span(offset)) == len(data)


def test_an_erased_record_is_sound_and_holds_nothing() -> None:
    disk = SimDisk()
    segment, offsets = filled(disk)
    record = segment.read_record(offsets[2])
    assert record is not None
    size = segment.size
    segment.overwrite_payload(offsets[2], record)
    erased = segment.read_record(offsets[2])
    assert erased is not None
    assert (erased.kind, erased.sequence, erased.length) == (ERASED, 12, record.length)
    assert record.payload not in read_file(disk, segment.path)
    assert segment.size == size
    assert records(segment)[3] == (MESSAGE, 13)
