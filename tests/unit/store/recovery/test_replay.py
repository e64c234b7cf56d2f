"""Frames of the write-ahead file are put back where the files of the streams lack their bytes."""

from headwater.store.disk.wal import SEGMENT, Frame
from headwater.store.disk.wal_reading import AheadFrames
from headwater.store.recovery.replay import put_back, replay_frames
from headwater.testing.disk import SimDisk

IDENTITY = b"i" * 16
PATH = "/s/segment-00000000000000000001.hw"


def disk_with(data: bytes) -> SimDisk:
    disk = SimDisk()
    disk.make_folder("/s")
    disk.sync_folder("/")
    file = disk.create(PATH)
    file.write(data)
    file.sync()
    disk.sync_folder("/s")
    return disk


def frames(*parts: tuple[int, bytes]) -> AheadFrames:
    found = AheadFrames()
    found.certain = [Frame(IDENTITY, SEGMENT, 1, at, data, 48 + len(data)) for at, data in parts]
    return found


def test_missing_bytes_are_put_back_durably() -> None:
    disk = disk_with(b"0123")
    put_back(disk, PATH, frames((2, b"23"), (4, b"45"), (6, b"67")), machine_fell=True)
    disk.power_loss("strict")
    assert disk.dump()[PATH] == b"01234567"


def test_a_hole_before_a_certain_frame_becomes_zeros() -> None:
    disk = disk_with(b"01")
    put_back(disk, PATH, frames((4, b"45")), machine_fell=True)
    assert disk.dump()[PATH] == b"01\0\x0045"


def test_bytes_that_are_there_are_written_again_while_the_machine_has_not_stopped() -> None:
    disk = disk_with(b"0123")
    before = disk.operation_counts["overwrite"]
    put_back(disk, PATH, frames((0, b"0123")), machine_fell=False)
    assert disk.operation_counts["overwrite"] == before + 1
    assert disk.dump()[PATH] == b"0123"


def test_frames_of_other_streams_and_of_files_that_are_gone_are_passed_over() -> None:
    disk = disk_with(b"0123")
    found = {(b"x" * 16, SEGMENT, 1): frames((4, b"4")), (IDENTITY, SEGMENT, 9): frames((4, b"4"))}
    replay_frames(found, disk, {IDENTITY: "/s"}, lambda _: disk, machine_fell=True)
    assert disk.dump()[PATH] == b"0123"
    assert disk.files() == [PATH]
