"""A damaged message is readable again by the record of another replica, and by no other bytes."""

import pytest

from headwater.store.disk.format import FormatError
from headwater.store.errors import DamagedMessageError, StoreError
from headwater.store.log.repairs import record_of, repair_message
from tests.kit.damage import DamagedReplica, payload_of


@pytest.mark.parametrize("at", [0, 4, 8, 30, 60])
@pytest.mark.parametrize("encoding", ["plain", "compressed"])
def test_a_repaired_message_is_there_as_it_was_also_after_a_restart(at: int, encoding: str) -> None:
    replica = DamagedReplica(messages=12, compresses=encoding == "compressed")
    whole = replica.log.get(4)
    replica.damage(4, at=at)
    replica.repair(4)
    assert replica.log.get(4) == whole
    assert replica.log.unreadable_count == 0
    again = replica.restarted().log
    assert again.get(4) == whole
    assert again.read(1, 99, 10_000).sequences == [*range(1, 13)]


def test_all_messages_of_a_damaged_block_are_repaired_one_by_one() -> None:
    replica = DamagedReplica(messages=30, compresses=True, batch=10)
    replica.damage(14)
    log = replica.log
    with pytest.raises(DamagedMessageError):
        log.get(11)
    for sequence in range(11, 21):
        replica.repair(sequence)
    assert log.read(1, 99, 10_000).sequences == [*range(1, 31)]
    assert log.losses.damage.count == 0


def test_a_long_row_of_zeros_is_repaired() -> None:
    replica = DamagedReplica(messages=12)
    for sequence in range(2, 10):
        replica.erase_bytes(sequence)
    for sequence in range(2, 10):
        replica.repair(sequence)
    assert [each.payload for each in replica.log.read(1, 99, 10_000)] == [
        payload_of(sequence) for sequence in range(1, 13)
    ]


def test_bytes_that_are_not_the_record_of_the_message_are_refused() -> None:
    replica = DamagedReplica(messages=6)
    other = record_of(replica.twin, 4)
    right = record_of(replica.twin, 3)
    assert other is not None
    assert right is not None
    replica.damage(3).find(3)
    flipped = right[:-1] + bytes([right[-1] ^ 1])
    for data in (b"", other, flipped, right + b"x", right[:-1]):
        with pytest.raises(FormatError):
            repair_message(replica.log, 3, data)
    assert replica.log.losses.damage.first(9) == [3]


def test_a_message_that_is_sound_or_gone_is_not_repaired() -> None:
    replica = DamagedReplica(messages=6)
    record = record_of(replica.twin, 3)
    assert record is not None
    assert not repair_message(replica.log, 3, record)
    replica.damage(3).find(3)
    replica.log.delete([3])
    assert not repair_message(replica.log, 3, record)
    assert replica.log.losses.damage.count == 0


def test_a_record_that_the_disk_refuses_leaves_the_message_damaged() -> None:
    replica = DamagedReplica(messages=6)
    replica.damage(3).find(3)
    replica.fail_writes()
    with pytest.raises(StoreError):
        replica.repair(3)
    assert replica.log.losses.damage.first(9) == [3]


def test_a_log_gives_the_records_that_it_can_read() -> None:
    replica = DamagedReplica(messages=6).damage(3)
    assert record_of(replica.log, 2) == record_of(replica.twin, 2)
    assert record_of(replica.log, 7) is None
    with pytest.raises(DamagedMessageError):
        record_of(replica.log, 3)
