"""Bytes that were a record of the same stream once, elsewhere, are not taken for one.

The checksum of a record is begun with the identity of its stream, so that a record of a segment
that is gone passes its checksum in any later segment of the stream.
"""

from random import Random

import pytest

from headwater.store.disk.filesystem import read_file
from headwater.store.disk.format import HEADER_BYTES, encode_messages, seed_of_stream
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.recovery.opening import open_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.logs import FOLDER, SEGMENT_BYTES_MAX, add_messages, new_log, sequences_in


def reopened(disk: SimDisk, machine_fell: bool) -> FileLog:
    return open_log(
        disk,
        FOLDER,
        SeededEntropy(Random(3)),
        segment_bytes_max=SEGMENT_BYTES_MAX,
        machine_fell=machine_fell,
    )


def with_stale_bytes(keeps_footer: bool) -> tuple[SimDisk, list[int]]:
    """A log whose last file goes on with blocks of its first segment, removed since."""
    disk = SimDisk()
    log = new_log(disk, messages=24)
    first = log.segments.in_order()[0]
    stale = first.file.read(HEADER_BYTES, first.size)
    log.delete(range(1, log.index.segments[1].first_sequence))
    assert log.index.first_sequence > 1, "the first segment is gone"
    log.sync()
    begin = 0 if keeps_footer else stale.rindex(b"payload")
    log.segments.last.file.write(stale if keeps_footer else stale[: begin + 40])
    found = sequences_in(log)
    log.release()
    return disk, found


@pytest.mark.parametrize("machine_fell", [False, True])
@pytest.mark.parametrize("keeps_footer", [False, True])
def test_records_of_a_removed_segment_behind_the_end_are_no_messages(
    keeps_footer: bool, machine_fell: bool
) -> None:
    disk, before = with_stale_bytes(keeps_footer)
    log = reopened(disk, machine_fell)
    assert sequences_in(log) == before
    assert "torn" in {finding.kind for finding in log.findings.reported}
    add_messages(log, 1)
    log.release()
    again = reopened(disk, machine_fell=False)
    assert sequences_in(again)[:-1] == before


def test_a_footer_of_a_removed_segment_does_not_seal_the_last_one() -> None:
    disk, before = with_stale_bytes(keeps_footer=True)
    last = [name for name in disk.list_folder(FOLDER) if name.startswith("segment")][-1]
    path = f"{FOLDER}/{last}"
    data = read_file(disk, path)
    log = reopened(disk, machine_fell=False)
    assert log.segments.last.size < len(data) or log.segments.last.path != path
    assert not log.segments.last.sealed
    assert sequences_in(log) == before


@pytest.mark.parametrize("is_identity_known", [False, True])
def test_a_record_in_a_payload_is_a_message_only_for_those_who_know_the_identity(
    is_identity_known: bool,
) -> None:
    """Clients are never told the identity; with it, recovery would be fooled."""
    disk = SimDisk()
    log = new_log(disk, messages=1)
    seed = seed_of_stream(log.identity) if is_identity_known else 0
    planted, _ = encode_messages(3, [b"s"], [b""], [b"planted"], [1], seed)
    log.append(Batch([b"s"], [b""], [b"before " + planted], [2]))
    log.sync()
    segment = log.segments.last
    path, offset = segment.path, log.index.segments[-1].offsets[1]
    log.release()
    # The record around it is damaged, so that recovery looks at every byte of it.
    disk.flip_bit(path, offset + 2, 0)
    disk.flip_bit(path, offset + 20, 0)
    again = reopened(disk, machine_fell=False)
    assert sequences_in(again) == ([1, 3] if is_identity_known else [1])


@pytest.mark.parametrize("machine_fell", [False, True])
def test_an_earlier_part_of_the_same_file_behind_its_end_is_no_message(machine_fell: bool) -> None:
    disk = SimDisk()
    log = new_log(disk, messages=5)
    log.sync()
    segment = log.segments.last
    segment.file.write(segment.file.read(HEADER_BYTES, segment.size - HEADER_BYTES))
    log.release()
    again = reopened(disk, machine_fell)
    assert sequences_in(again) == [1, 2, 3, 4, 5]
    assert "torn" in {finding.kind for finding in again.findings.reported}
