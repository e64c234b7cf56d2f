"""A replicated stream is found after a crash as it was at its redo point, under a Raft index."""

from random import Random

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.store.disk.filesystem import read_file
from headwater.store.disk.format import encode_messages
from headwater.store.disk.wal import RedoPoint
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.log.batch_records import encode_behind
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.logs import add_messages, sequences_in

FOLDER = "/data"


def opened(disk: SimDisk, boot_id: str = "boot", ahead_bytes_max: int = 1 << 20) -> Store:
    return open_store(
        disk,
        FOLDER,
        SeededEntropy(Random(disk.operations)),
        boot_id,
        segment_bytes_max=1000,
        ahead_bytes_max=ahead_bytes_max,
    )


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    return disk


def create_group(store: Store, log: FileLog, index: int = 0) -> None:
    store.groups.create(log.identity, GroupMode.SYNCED, SnapshotMark(index, 1), GroupState(1))
    store.commit()


def apply(store: Store, log: FileLog, count: int) -> None:
    """Save entries of a message each in the log of the stream's group, and apply them."""
    group = store.groups[log.identity]
    for _ in range(count):
        index = group.last_index + 1
        group.save(entries=[GroupEntry(index, 1, 0, 0, 0, b"entry %d" % index)])
        store.commit()
        add_messages(log, 1)
        log.applied_entry = index


def used(count: int = 3) -> tuple[SimDisk, Store]:
    """A store with a replicated stream, to which entries of a message each were applied."""
    disk = new_disk()
    store = opened(disk)
    log = store.create_stream("s", is_replica=True)
    create_group(store, log)
    apply(store, log, count)
    return disk, store


def after_crash(disk: SimDisk, power_lost: bool) -> Store:
    if power_lost:
        disk.power_loss("strict")
    else:
        disk.kill()
    return opened(disk, "boot 2" if power_lost else "boot")


def kinds_in(log: FileLog) -> set[str]:
    return {finding.kind for finding in log.findings.reported}


CRASHES = pytest.mark.parametrize("power_lost", [False, True])


@CRASHES
def test_a_replica_is_found_as_at_its_redo_point(power_lost: bool) -> None:
    disk, store = used(3)
    store.trim()
    apply(store, store.logs["s"], 2)
    log = after_crash(disk, power_lost).logs["s"]
    assert log.is_replica
    assert (log.applied_entry, log.durable_entry) == (3, 3)
    assert sequences_in(log) == [1, 2, 3]
    assert log.entries_to_apply == []
    assert not log.must_refill
    assert not log.offline
    assert kinds_in(log) == set()


@CRASHES
def test_a_new_replica_holds_no_entry(power_lost: bool) -> None:
    disk, _ = used(2)
    log = after_crash(disk, power_lost).logs["s"]
    assert log.applied_entry == 0
    assert sequences_in(log) == []


@CRASHES
def test_a_replica_jumps_over_no_sequence(power_lost: bool) -> None:
    disk, store = used(3)
    store.sync()
    apply(store, store.logs["s"], 1)
    store = after_crash(disk, power_lost)
    log = store.logs["s"]
    assert log.last_sequence == log.applied_entry == 3
    apply(store, log, 1)
    assert log.last_sequence == 4


def test_the_entries_of_a_redo_point_are_durable_when_its_frame_is() -> None:
    _, store = used(3)
    log = store.logs["s"]
    store.sync()
    assert log.durable_entry == 0, "the frame waits for the next write"
    apply(store, log, 1)
    assert log.durable_entry == 3


def test_a_log_that_is_secured_has_its_last_entry_on_the_disk() -> None:
    disk, store = used(3)
    store.logs["s"].secure_applied()
    assert store.logs["s"].durable_entry == 3
    assert after_crash(disk, power_lost=True).logs["s"].applied_entry == 3


@CRASHES
def test_a_redo_point_survives_trims_and_starts_without_entries(power_lost: bool) -> None:
    disk, store = used(3)
    store.logs["s"].secure_applied()
    for _ in range(3):
        store.trim()
        store = after_crash(disk, power_lost)
        assert store.logs["s"].applied_entry == store.logs["s"].durable_entry == 3
        assert sequences_in(store.logs["s"]) == [1, 2, 3]


def test_a_redo_point_survives_orderly_ends() -> None:
    disk, store = used(3)
    for _ in range(3):
        store.close()
        store = opened(disk)
        log = store.logs["s"]
        assert (log.is_replica, log.applied_entry, log.durable_entry) == (True, 3, 3)
    apply(store, log, 1)
    assert sequences_in(log) == [1, 2, 3, 4]


def test_a_group_gives_up_the_entries_that_the_disk_has_the_effects_of() -> None:
    disk, store = used(3)
    log = store.logs["s"]
    log.secure_applied()
    store.groups[log.identity].compact(log.durable_entry, b"")
    store.trim()
    store = after_crash(disk, power_lost=True)
    group = store.groups[store.logs["s"].identity]
    assert group.first_index == 4
    apply(store, store.logs["s"], 1)
    assert sequences_in(store.logs["s"]) == [1, 2, 3, 4]


def test_a_removed_replica_leaves_no_redo_point_to_one_that_comes_again() -> None:
    disk, store = used(0)
    log = store.logs["s"]
    identity = log.identity
    # The files are those of an empty log, under a later index.
    log.applied_entry = 7
    log.secure_applied()
    store.groups.remove(identity)
    store.remove_stream("s")
    store.make_stream("s", identity, b"", 1, SyncMode.INTERVAL, False)
    log = after_crash(disk, power_lost=False).logs["s"]
    assert not log.is_replica
    assert log.applied_entry == 0


# --- joining and leaving --------------------------------------------------------------------------


@CRASHES
@pytest.mark.parametrize("mode", [*SyncMode])
def test_a_stream_of_one_server_joins_a_group_with_its_messages(
    mode: SyncMode, power_lost: bool
) -> None:
    disk = new_disk()
    store = opened(disk)
    log = store.create_stream("s", mode=mode)
    add_messages(log, 3)
    store.join_group("s", 20)
    create_group(store, log, 20)
    apply(store, log, 1)
    log = after_crash(disk, power_lost).logs["s"]
    assert (log.is_replica, log.applied_entry) == (True, 20)
    assert sequences_in(log) == [1, 2, 3]


def always_with_entries(store: Store, count: int) -> FileLog:
    """A stream of this server, to which so many entries of a message each were applied."""
    log = store.create_stream("s", mode=SyncMode.ALWAYS)
    for index in range(1, count + 1):
        log.add_entry(index, log.last_sequence, b"entry")
        store.commit()
        add_messages(log, 1)
        log.applied_entry = index
    store.sync()
    return log


@CRASHES
def test_a_stream_joins_a_group_whose_indexes_are_below_those_of_its_entries(
    power_lost: bool,
) -> None:
    disk = new_disk()
    store = opened(disk)
    log = always_with_entries(store, 5)
    store.join_group("s", 1)
    create_group(store, log, 1)
    log = after_crash(disk, power_lost).logs["s"]
    assert (log.is_replica, log.must_refill, log.applied_entry) == (True, "", 1)
    assert sequences_in(log) == [1, 2, 3, 4, 5]


@CRASHES
def test_a_sync_that_began_before_a_stream_joined_names_no_redo_point(power_lost: bool) -> None:
    disk = new_disk()
    store = opened(disk)
    log = always_with_entries(store, 2)
    work = log.begin_sync()
    for index in (3, 4, 5):
        log.add_entry(index, log.last_sequence, b"entry")
        store.commit()
        add_messages(log, 1)
        log.applied_entry = index
    store.join_group("s", 1)
    create_group(store, log, 1)
    apply(store, log, 3)
    work.run()
    log.finish_sync(work)
    store.group_commit.secure_frames()
    log = after_crash(disk, power_lost).logs["s"]
    assert log.applied_entry == 1
    assert sequences_in(log) == [1, 2, 3, 4, 5]


@CRASHES
@pytest.mark.parametrize("mode", [*SyncMode])
def test_a_stream_that_has_left_its_group_is_one_of_this_server(
    mode: SyncMode, power_lost: bool
) -> None:
    disk, store = used(3)
    log = store.logs["s"]
    store.groups.remove(log.identity)
    store.commit()
    store.leave_group("s", mode)
    assert log.has_entries == (mode is SyncMode.ALWAYS)
    store = after_crash(disk, power_lost)
    log = store.logs["s"]
    assert not log.is_replica
    assert sequences_in(log) == [1, 2, 3]
    store.join_group("s", 1)
    assert log.is_replica


@CRASHES
@pytest.mark.parametrize("mode", [*SyncMode])
def test_a_stream_that_has_left_its_group_joins_another_one(
    mode: SyncMode, power_lost: bool
) -> None:
    disk = new_disk()
    store = opened(disk)
    log = store.create_stream("s", mode=mode)
    add_messages(log, 3)
    for index in (20, 1):
        store.join_group("s", index)
        create_group(store, log, index)
        if index > 1:
            store.groups.remove(log.identity)
            store.commit()
            store.leave_group("s", mode)
    apply(store, log, 1)
    log = after_crash(disk, power_lost).logs["s"]
    assert (log.is_replica, log.must_refill, log.applied_entry) == (True, "", 1)
    assert sequences_in(log) == [1, 2, 3]


def test_a_stream_changes_its_group_only_while_there_is_none() -> None:
    _, store = used(1)
    with pytest.raises(InvariantViolation):
        store.leave_group("s", SyncMode.INTERVAL)
    other = store.create_stream("t")
    create_group(store, other)
    with pytest.raises(InvariantViolation):
        store.join_group("t", 0)


# --- replicas that must be filled again -----------------------------------------------------------


def test_a_refill_begins_with_an_empty_log_and_sets_the_files_aside() -> None:
    disk, store = used(3)
    store.logs["s"].secure_applied()
    segment = store.logs["s"].segments.last.path
    disk.kill()
    disk.flip_bit(segment, 100, 1)
    store = opened(disk)
    assert "cannot be read" in store.logs["s"].must_refill
    log = store.begin_refill("s")
    assert not log.must_refill
    assert (log.applied_entry, log.messages, log.is_replica) == (0, 0, True)
    kept = disk.list_folder(f"{FOLDER}/streams/s/set-aside")
    assert any(name.startswith("segment-") for name in kept)
    add_messages(log, 5)
    log.applied_entry = 9
    log.secure_applied()
    store.groups[log.identity].save(snapshot=SnapshotMark(9, 1))
    store.commit()
    log = after_crash(disk, power_lost=True).logs["s"]
    assert (log.applied_entry, sequences_in(log)) == (9, [1, 2, 3, 4, 5])


def test_a_replica_that_fell_behind_is_emptied_for_a_snapshot() -> None:
    disk, store = used(3)
    log = store.begin_refill("s", first_sequence=50)
    assert log.last_sequence == 49
    assert "set-aside" not in disk.list_folder(f"{FOLDER}/streams/s")


def test_an_interrupted_refill_begins_again() -> None:
    disk, store = used(3)
    log = store.begin_refill("s")
    add_messages(log, 2)
    store.sync()
    store.trim()
    log = after_crash(disk, power_lost=False).logs["s"]
    assert (log.applied_entry, log.messages, log.must_refill) == (0, 0, "")


def test_a_replica_that_must_be_filled_again_stays_so_and_holds_back_no_file() -> None:
    disk, store = used(3)
    store.logs["s"].secure_applied()
    segment = store.logs["s"].segments.last.path
    disk.kill()
    disk.flip_bit(segment, 100, 1)
    store = opened(disk)
    reason = store.logs["s"].must_refill
    assert reason
    other = store.create_stream("t", is_replica=True)
    create_group(store, other)
    apply(store, other, 2)
    store.trim()
    assert other.durable_entry == 2
    store.close()
    store = opened(disk)
    assert store.logs["s"].must_refill
    assert store.logs["s"].offline
    assert not store.was_unclean
    assert sequences_in(store.logs["s"]), "it can be read"


def test_a_group_without_a_redo_point_of_its_stream_tells_damage() -> None:
    disk = new_disk()
    store = opened(disk)
    log = store.create_stream("s")
    add_messages(log, 2)
    store.groups.create(log.identity, GroupMode.SYNCED, SnapshotMark(), GroupState(1))
    store.commit()
    log = after_crash(disk, power_lost=False).logs["s"]
    assert "no redo point" in log.must_refill


def test_the_frames_of_a_stream_and_its_group_share_an_identity() -> None:
    disk, store = used(2)
    log = store.logs["s"]
    (name,) = (name for name in disk.list_folder(FOLDER) if name.startswith("ahead"))
    assert read_file(disk, f"{FOLDER}/{name}").count(log.identity) >= 4
    assert store.groups[log.identity].entries(1, 2, 1 << 20)[1].data == b"entry 2"


# --- bytes that all replicas share ----------------------------------------------------------------


def test_replicas_of_a_stream_write_the_same_bytes() -> None:
    """A follower takes the records of the leader over, whose checksums begin with the identity."""
    identity, segments = b"incarnation 1234", []
    encoded = None
    for boot_id in ("leader", "follower"):
        disk = new_disk()
        store = opened(disk, boot_id)
        log = store.make_stream("s", identity, b"", 1, SyncMode.INTERVAL, False, is_replica=True)
        batch = Batch([b"s.a", b"s.b"], [b"", b""], [b"x", b"y"], [5, 6])
        if encoded is None:
            encoded = encode_behind(1, batch, log.record_seed, b"")
        log.append_encoded(batch, encoded)
        segments.append(read_file(disk, log.segments.last.path))
    assert segments[0] == segments[1]


def test_another_incarnation_of_a_stream_has_other_checksums() -> None:
    store = opened(new_disk())
    first = store.create_stream("s", is_replica=True).record_seed
    store.remove_stream("s")
    assert store.create_stream("s", is_replica=True).record_seed != first


@pytest.mark.parametrize("first", [1, 6, 12])
def test_a_block_of_an_earlier_life_of_a_replica_is_no_message(first: int) -> None:
    """A replica that was filled again may find records of its stream behind its end, of earlier
    sequences, of those that follow, or of later ones."""
    disk, store = used(20)
    log = store.logs["s"]
    stale, _ = encode_messages(
        first, [b"s"] * 3, [b""] * 3, [b"stale"] * 3, [1] * 3, log.record_seed
    )
    log = store.begin_refill("s")
    add_messages(log, 5)
    log.applied_entry = 20
    log.secure_applied()
    log.segments.last.file.write(stale)
    disk.power_loss("kind")
    log = opened(disk, "boot 2").logs["s"]
    assert sequences_in(log) == [1, 2, 3, 4, 5]
    assert not log.must_refill


# --- entries that may be taken back -------------------------------------------------------------


def apply_ahead(log: FileLog, place: int) -> RedoPoint:
    """Store a message of an entry that may be taken back."""
    add_messages(log, 1)
    return log.files_after(place)


def test_a_replica_is_cut_back_to_the_last_entry_that_stays() -> None:
    _, store = used(3)
    log = store.logs["s"]
    kept = apply_ahead(log, 4)
    apply_ahead(log, 5)
    log.delete([1])
    log.mark_behind(kept)
    again = store.cut_back("s")
    assert again is store.logs["s"]
    assert sequences_in(again) == [1, 2, 3, 4]
    assert (again.applied_entry, again.offline, log.is_writable) == (4, "", False)
    apply(store, again, 1)
    assert sequences_in(again) == [1, 2, 3, 4, 5]


@CRASHES
def test_a_crash_cuts_a_replica_back_to_entries_that_stay(power_lost: bool) -> None:
    disk, store = used(3)
    log = store.logs["s"]
    for place in range(4, 40):
        # Many segments.
        apply_ahead(log, place)
    store.sync()
    store.group_commit.secure_frames()
    again = after_crash(disk, power_lost).logs["s"]
    assert sequences_in(again) == [1, 2, 3]


def test_files_are_only_appended_to_while_entries_may_be_taken_back() -> None:
    _, store = used(40)
    log = store.logs["s"]
    store.sync()
    names = [*log.segments.by_first]
    work = log.compactions.begin(names[0])
    point = apply_ahead(log, 41)
    log.delete([*range(1, 30)])
    work.run()
    assert not log.compactions.finish(work)
    log.drop_empty_segments()
    assert [*log.segments.by_first] == names
    assert log.take_upkeep_wanted()
    assert not log.take_upkeep_wanted()
    log.mark_behind(log.files_after(41))
    assert log.applied_entry == point.entry
    log.drop_empty_segments()
    assert [*log.segments.by_first] != names
