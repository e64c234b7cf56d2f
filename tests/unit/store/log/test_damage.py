"""A message that one replica cannot read counts until the other replicas say otherwise."""

import pytest

from headwater.store.errors import DamagedMessageError
from tests.kit.damage import DamagedReplica, payload_of


def test_a_damaged_message_of_a_replica_stays_in_the_index_and_is_no_loss() -> None:
    replica = DamagedReplica(messages=6)
    found: list[str] = []
    replica.log.losses.damage.found = lambda: found.append("damage")
    replica.damage(3)
    before = replica.log.messages, replica.log.byte_count
    for _ in range(2):
        with pytest.raises(DamagedMessageError) as caught:
            replica.log.get(3)
        assert caught.value.sequence == 3
    assert (replica.log.messages, replica.log.byte_count) == before
    assert (replica.log.pending((b">",), 1), replica.log.index.has(3)) == (6, True)
    assert list(replica.log.lost) == []
    assert (found, replica.log.unreadable_count) == (["damage"], 1)
    assert [finding.kind for finding in replica.log.findings.reported] == ["damaged"]


def test_a_read_ends_before_a_damaged_message_and_never_goes_on_behind_it() -> None:
    log = DamagedReplica(messages=6).damage(3).log
    assert log.read(1, 10, 10_000).sequences == [1, 2]
    assert log.read_at([1, 2, 3, 4], 10_000).sequences == [1, 2]
    with pytest.raises(DamagedMessageError):
        log.read(3, 10, 10_000)
    with pytest.raises(DamagedMessageError):
        log.read_at([3, 4], 10_000)
    assert log.read(4, 10, 10_000).sequences == [4, 5, 6]


def test_the_first_damaged_messages_are_those_that_are_still_there() -> None:
    log = DamagedReplica(messages=9).log
    damage = log.losses.damage
    for sequence in (2, 3, 4, 7, 8):
        damage.note(sequence)
    log.delete([2, 8])
    assert damage.first(2) == [3, 4]
    assert damage.first(10) == [3, 4, 7]
    assert (damage.count, 2 in damage, 8 in damage) == (3, False, False)
    damage.forget(4)
    assert damage.first(10) == [3, 7]


def test_a_segment_with_damage_is_not_compacted_before_it_is_repaired() -> None:
    replica = DamagedReplica(messages=25).damage(5)
    log = replica.log
    log.delete([2, 3, 4, 6, 7, 8, 9])
    log.applied_entry = 2
    assert log.compactions.worthwhile() == [1]
    work = log.compactions.begin(1)
    work.run()
    assert not log.compactions.finish(work)
    assert (log.messages, list(log.lost), log.losses.damage.first(9)) == (18, [], [5])
    assert not log.compactions.is_running
    replica.repair(5)
    work = log.compactions.begin(1)
    work.run()
    assert log.compactions.finish(work)
    found = log.get(5)
    assert found is not None
    assert found.payload == payload_of(5)


def test_a_checkpoint_and_a_restart_keep_a_damaged_message() -> None:
    replica = DamagedReplica(messages=12).damage(4)
    with pytest.raises(DamagedMessageError):
        replica.log.get(4)
    log = replica.restarted().log
    assert not log.must_refill
    assert (log.messages, list(log.lost), log.offline) == (12, [], "")
    with pytest.raises(DamagedMessageError):
        log.get(4)
    log.delete([4])
    assert log.messages == 11
    assert log.losses.damage.first(9) == []
