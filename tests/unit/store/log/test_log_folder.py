"""Every file of a log's folder carries the stream's identity."""

from random import Random

from headwater.store.disk.format import seed_of_stream
from headwater.store.disk.segment import SegmentFile
from headwater.store.log.log_folder import LogFolder
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy


def test_segments_of_one_folder_belong_to_its_stream_and_share_its_seed() -> None:
    disk = SimDisk()
    disk.make_folder("/log")
    folder = LogFolder(disk, "/log", b"i" * 16, SeededEntropy(Random(1)))
    created = [folder.create_segment(first) for first in (1, 11)]
    assert [segment.path for segment in created] == [
        folder.path_of("segment-00000000000000000001.hw"),
        folder.path_of("segment-00000000000000000011.hw"),
    ]
    assert created[0].seed == created[1].seed == seed_of_stream(b"i" * 16)
    opened = SegmentFile.open(disk, created[1].path, b"i" * 16)
    assert opened.first_sequence == 11


def test_a_segment_is_there_after_a_sync_of_it_and_its_folder() -> None:
    disk = SimDisk()
    disk.make_folder("/log")
    disk.sync_folder("/")
    folder = LogFolder(disk, "/log", b"i" * 16, SeededEntropy(Random(1)))
    folder.create_segment(1).sync()
    folder.sync()
    disk.power_loss("strict")
    assert disk.list_folder("/log") == ["segment-00000000000000000001.hw"]
