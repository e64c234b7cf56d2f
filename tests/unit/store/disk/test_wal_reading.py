"""Frames are read back in order; damage is told from a write that the power interrupted."""

from random import Random

import pytest

from headwater.store.disk.findings import Findings
from headwater.store.disk.format import HEADER_BYTES, NewerFormatError
from headwater.store.disk.wal import ENTRY, FRAME_BYTES, WriteAhead
from headwater.store.disk.wal_reading import AheadFrames, next_number, read_ahead, remove_ahead
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.format_versions import with_version

STORE, STREAM = b"s" * 16, b"t" * 16
PATH = "/ahead-000000000001.hw"


def written(*bodies: bytes, disk: SimDisk | None = None, number: int = 1) -> SimDisk:
    """A disk with a file of entries, one write and one sync for each."""
    disk = disk or SimDisk()
    ahead = WriteAhead(disk, "/", STORE, number, SeededEntropy(Random(number)))
    for index, body in enumerate(bodies, 1):
        ahead.add(STREAM, ENTRY, index, 0, body)
        ahead.write()
        ahead.sync()
    ahead.close()
    return disk


def found_on(disk: SimDisk) -> tuple[AheadFrames, list[str]]:
    findings = Findings()
    frames = read_ahead(disk, "/", STORE, findings)
    return frames, [finding.kind for finding in findings.reported]


def bodies_of(frames: AheadFrames) -> list[bytes]:
    return [frame.data for frame in frames.certain if frame.kind == ENTRY]


def test_frames_of_all_files_are_found_in_the_order_of_writing() -> None:
    disk = written(b"one", b"two")
    written(b"three", disk=disk, number=2)
    frames, kinds = found_on(disk)
    assert bodies_of(frames) == [b"one", b"two", b"three"]
    assert kinds == []
    assert next_number(frames) == 3


def test_half_a_last_frame_is_torn_and_no_damage() -> None:
    disk = written(b"one", b"two")
    file = disk.open(PATH)
    file.truncate(file.size - 1)
    frames, kinds = found_on(disk)
    assert bodies_of(frames) == [b"one"]
    assert kinds == ["torn"]
    assert not frames.is_damaged


def test_damage_before_a_mark_is_damage_of_bytes_that_the_disk_had() -> None:
    disk = written(b"one", b"two")
    disk.flip_bit(PATH, HEADER_BYTES + 2 * FRAME_BYTES, 0)
    frames, kinds = found_on(disk)
    assert bodies_of(frames) == [b"two"]
    assert kinds == ["damaged"]
    assert frames.lacks_known_bytes


def test_a_file_of_a_newer_version_is_refused_by_name() -> None:
    disk = written(b"one")
    data = disk.dump()[PATH]
    disk.remove(PATH)
    newer = with_version(data[:HEADER_BYTES], 99, HEADER_BYTES - 4)
    disk.create(PATH).write(newer + data[HEADER_BYTES:])
    with pytest.raises(NewerFormatError, match=r"ahead-000000000001\.hw: format version 99"):
        read_ahead(disk, "/", STORE, Findings())


def test_a_file_of_another_store_is_set_aside() -> None:
    disk = written(b"one")
    findings = Findings()
    frames = read_ahead(disk, "/", b"o" * 16, findings)
    assert bodies_of(frames) == []
    assert [finding.kind for finding in findings.reported] == ["unreadable"]
    remove_ahead(disk, "/", frames)
    assert disk.files() == ["/set-aside/ahead-000000000001.hw.0"]
