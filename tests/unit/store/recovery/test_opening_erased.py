"""The power goes while a message is erased: the messages behind it are there."""

import pytest

from headwater.store.log.message_log import Batch
from headwater.store.recovery.opening import create_log, open_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng

FOLDER = "/log"
PAYLOAD = bytes(300)


@pytest.mark.parametrize("with_entries", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_messages_behind_an_erased_one_outlive_a_loss_of_power(
    seed: int, with_entries: bool
) -> None:
    disk = SimDisk(seed=seed, page_bytes=128)
    log = create_log(disk, FOLDER, SeededEntropy(labelled_rng(1, "log")))
    log.append(Batch([b"s"] * 3, [b""] * 3, [PAYLOAD] * 3, [1] * 3))
    log.sync()
    log.append(Batch([b"s"] * 3, [b""] * 3, [PAYLOAD] * 3, [2] * 3))
    log.delete([2], erase=True, entries=[(300, b"id")] if with_entries else [])
    disk.power_loss("random")
    log = open_log(disk, FOLDER, SeededEntropy(labelled_rng(2, "log")), machine_fell=True)
    assert log.read(1, 10, 1 << 20).sequences == [1, 3, 4, 5, 6]
    assert not log.lost
