"""The end of a store's last life, by its store file and its mark."""

import pytest

from headwater.store.disk.findings import Findings
from headwater.store.disk.mark import FoundMark
from headwater.store.disk.store_file import STORE_FILE, StoreFile
from headwater.store.disk.wal_reading import AheadFrames
from headwater.store.errors import StoreError
from headwater.store.recovery.last_life import Loss, find_loss, read_store_file
from headwater.testing.disk import SimDisk

FILE = StoreFile(bytes(16), b"boot-1", clean=False, start_number=3)


def judged(mark: FoundMark, end: int, is_damaged: bool = False) -> tuple[Loss, str]:
    frames, findings = AheadFrames(), Findings()
    frames.ends[4], frames.is_damaged = end, is_damaged
    loss = find_loss(mark, FILE, frames, [], findings)
    return loss, "\n".join(map(str, findings.reported))


def test_a_loss_is_reported_with_what_follows() -> None:
    for mark, expected in (
        (FoundMark(3, False, 4, 900, 800), Loss.UNSYNCED),
        (FoundMark(3, False, 4, 900, 890), Loss.PUT_BACK),
        (FoundMark(4), Loss.PUT_BACK),
    ):
        loss, report = judged(mark, 850)
        assert loss is expected
        assert expected.value in report


def test_a_kill_is_not_reported() -> None:
    assert judged(FoundMark(3, False, 4, 900, 800), 900) == (Loss.NONE, "")


def test_damage_is_no_loss() -> None:
    assert judged(FoundMark(3, False, 4, 900, 800), 700, is_damaged=True) == (Loss.NONE, "")


def test_a_store_file_is_read_or_refused() -> None:
    disk = SimDisk()
    disk.make_folder("/data")
    assert read_store_file(disk, "/data") is None
    disk.create(f"/data/{STORE_FILE}").write(FILE.encode())
    found = read_store_file(disk, "/data")
    assert found is not None
    assert found.start_number == 3
    disk.open(f"/data/{STORE_FILE}").write(b"more")
    with pytest.raises(StoreError, match="restore it from a backup"):
        read_store_file(disk, "/data")
