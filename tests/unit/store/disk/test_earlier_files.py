"""Earlier write-ahead files are read by number and removed oldest first."""

from headwater.store.disk.earlier_files import READ_BYTES, EarlierFiles, ahead_name
from headwater.testing.disk import SimDisk


def files_with(disk: SimDisk, *numbers: int) -> EarlierFiles:
    files = EarlierFiles(disk, "")
    for number in numbers:
        disk.create(f"/{ahead_name(number)}").write(b"%d" % number * 2 * READ_BYTES)
        files.seeds[number] = number
    return files


def test_bytes_are_those_of_the_file_of_that_number() -> None:
    files = files_with(SimDisk(), 1, 2)
    assert files.read(1, 0, 3) == b"111"
    assert files.read(2, READ_BYTES - 1, 4) == b"2222"
    assert files.read(1, 2 * READ_BYTES - 2, 4) == b"11"


def test_files_are_removed_up_to_a_number() -> None:
    disk = SimDisk()
    files = files_with(disk, 1, 2, 3)
    files.read(1, 0, 1)
    files.remove(before=3)
    assert disk.files() == [f"/{ahead_name(3)}"]
    assert len(files) == 1
    files.remove(before=None)
    assert disk.files() == []
