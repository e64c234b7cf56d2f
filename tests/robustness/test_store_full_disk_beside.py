"""Disk failures in a store's other work than appending: trimming, compacting, creating, removing.

Every operation on the disk fails in turn, with no room or an error, with none or some of its bytes
written, once or from then on. Reads go on as if nothing had happened, a log that cannot be written
any more says so, and after a restart, or a power loss, all that was confirmed is there.
"""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from headwater.store.disk.unfinished import SUCCESSOR_SUFFIX
from headwater.store.log.message_log import Batch, OfflineError, StoreError
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.disk_faults import CHANGING, Operation
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit import entries
from tests.robustness.store_ledger import payloads_of

FOLDER = "/data"
SEGMENT_BYTES_MAX = 500
MODES = {"a": SyncMode.ALWAYS, "b": SyncMode.ALWAYS, "plain": SyncMode.INTERVAL}
DISK_ERRORS = r"No space left|Input/output error"
# Failures once with nothing written, once with a random part written, and from then on.
FAULTS: tuple[tuple[int, int | None, int | None], ...] = (
    (errno.ENOSPC, 0, 1),
    (errno.EIO, None, 1),
    (errno.ENOSPC, 0, None),
)

Step = Callable[[Store], object]


def opened(disk: SimDisk) -> Store:
    store = open_store(
        disk,
        FOLDER,
        SeededEntropy(labelled_rng(disk.operations, "store")),
        disk.boot_id,
        MODES,
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )
    return entries.redo(store)


def append(store: Store, name: str, count: int) -> None:
    first = store.logs[name].last_sequence + 1
    payloads = [b"%b %d " % (name.encode(), at) * 3 for at in range(first, first + count)]
    entries.append(store, name, Batch([b"s"] * count, [b""] * count, payloads, [1] * count))


def used_store(disk: SimDisk) -> Store:
    """Sealed segments with holes in them, write-ahead frames, and all of it confirmed."""
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    store = opened(disk)
    for name, mode in MODES.items():
        store.create_stream(name, mode=mode)
        for _ in range(4):
            append(store, name, 4)
        entries.delete(store, name, [2, 3, 4, 6, 7])
    store.logs["plain"].checkpoints.write_now()
    return store


Contents = dict[str, dict[int, bytes]]


def contents(store: Store) -> Contents:
    return {name: payloads_of(log) for name, log in store.logs.items()}


def faults_of(step: Step) -> Iterator[tuple[SimDisk, Store, str]]:
    """A disk and its store for each failure of the step, with a description of the failure."""
    reference = SimDisk()
    store = used_store(reference)
    before = dict(reference.operation_counts)
    step(store)
    struck = 0
    for operation in CHANGING:
        for skipped in range(before[operation], reference.operation_counts[operation]):
            for code, kept_size, times in FAULTS:
                disk = SimDisk(seed=skipped)
                store = used_store(disk)
                skip = skipped - before[operation]
                fault = disk.fail(operation, code=code, skip=skip, kept_size=kept_size, times=times)
                what = f"{operation} {skip} fails, code {code}, {kept_size}, {times}"
                yield disk, store, what
                assert fault.strikes, what
                struck += 1
    assert struck


def check_restarts(disk: SimDisk, expected: Contents) -> None:
    """All that was confirmed is there after a restart, and after a power loss."""
    disk.heal()
    for dies in (SimDisk.kill, lambda survivor: survivor.power_loss("strict")):
        survivor = disk.clone()
        dies(survivor)
        store = opened(survivor)
        for name, messages in expected.items():
            log = store.logs[name]
            assert log.offline == ""
            assert payloads_of(log) == messages
            if not survivor.power_losses or MODES[name] is SyncMode.ALWAYS:
                assert not log.lost
            append(store, name, 1)
        store.commit()
        store.close()


def check_reads(store: Store, expected: Contents, what: str) -> None:
    for name, messages in expected.items():
        log = store.logs[name]
        assert payloads_of(log) == messages, what
        assert log.messages == len(messages)
        if log.offline:
            last = log.last_sequence
            with pytest.raises(OfflineError, match="offline for writes"):
                append(store, name, 1)
            assert log.last_sequence == last


# --- trimming -----------------------------------------------------------------------------------


def test_every_operation_of_a_trim_fails_in_turn() -> None:
    outcomes = set()
    done = []
    for disk, store, what in faults_of(Store.trim):
        expected = contents(store)
        try:
            store.trim()
        except StoreError as error:
            if not re.search(DISK_ERRORS, str(error)):
                raise
        else:
            done.append(what)
        check_reads(store, expected, what)
        offline = {name for name, log in store.logs.items() if log.offline}
        outcomes.add(frozenset(offline))
        assert "plain" not in offline, "it has nothing to do with it"
        check_restarts(disk, expected)
    # No stream goes offline if old files cannot be removed, one if its own file fails, both if the
    # file they share does.
    assert outcomes == {frozenset(), frozenset("a"), frozenset("b"), frozenset("ab")}
    # Redo points for which there is no room are not needed if all files before them go.
    no_room = f"code {errno.ENOSPC}"
    assert all(what.startswith(("write", "create")) and no_room in what for what in done)


def test_a_stream_that_fails_keeps_the_write_ahead_files_for_itself() -> None:
    disk = SimDisk()
    store = used_store(disk)
    append(store, "a", 2)
    append(store, "b", 2)
    store.commit()
    expected = contents(store)
    disk.fail("sync", "*/a/segment*")
    with pytest.raises(StoreError, match="/a: sync failed"):
        store.trim()
    append(store, "b", 1)
    store.commit()
    expected["b"] = payloads_of(store.logs["b"])
    store.trim()
    disk.power_loss("strict")
    store = opened(disk)
    assert {name: payloads_of(store.logs[name]) for name in "ab"} == {
        name: expected[name] for name in "ab"
    }


def test_a_failed_sync_of_the_write_ahead_file_confirms_nothing_ever_after() -> None:
    steps: tuple[Step, ...] = (
        lambda store: append(store, "a", 1),
        lambda store: entries.delete(store, "a", [1], erase=True),
    )
    for step in steps:
        disk = SimDisk()
        store = used_store(disk)
        confirmed = store.logs["b"].synced_sequence
        disk.fail("sync", "*/ahead*")
        with pytest.raises(OfflineError):
            step(store)
        # The disk has dropped the unwritten bytes, and now reports a successful sync.
        with suppress(OfflineError):
            store.commit()
        assert store.logs["b"].synced_sequence == confirmed
        assert "write-ahead" in store.logs["b"].offline
        with pytest.raises(OfflineError, match="write-ahead"):
            append(store, "b", 1)
        disk.power_loss("strict")
        assert opened(disk).logs["b"].last_sequence >= confirmed


def test_what_the_interval_has_synced_stays_though_the_write_ahead_file_does_not_have_it() -> None:
    disk = SimDisk()
    store = used_store(disk)
    append(store, "a", 2)
    store.sync()
    promised = store.logs["a"].synced_sequence
    expected = payloads_of(store.logs["a"])
    assert promised == store.logs["a"].last_sequence
    assert not store.group_commit.begin(), "there is nothing left to commit"
    disk.power_loss("strict")
    log = opened(disk).logs["a"]
    assert payloads_of(log) == expected
    assert not log.lost


def test_one_stream_that_can_not_be_synced_does_not_keep_the_others_from_it() -> None:
    disk = SimDisk()
    store = used_store(disk)
    for name in MODES:
        append(store, name, 1)
    disk.fail("sync", "*/a/segment*")
    with pytest.raises(StoreError, match="/a: sync failed"):
        store.sync()
    assert store.logs["a"].offline
    for name in ("b", "plain"):
        assert store.logs[name].synced_sequence == store.logs[name].last_sequence
        assert not store.logs[name].offline


# --- compaction ---------------------------------------------------------------------------------


def compact(store: Store) -> None:
    """Compact one segment of each stream; the work is abandoned if it cannot be written."""
    problems = []
    for log in store.logs.values():
        work = log.compactions.begin(log.compactions.worthwhile()[0])
        try:
            work.run()
        except StoreError as error:
            problems.append(str(error))
            log.compactions.abandon(work)
            continue
        try:
            assert log.compactions.finish(work)
        except StoreError as error:
            problems.append(str(error))
    if problems:
        raise StoreError("; ".join(problems))


def test_every_operation_of_a_compaction_fails_in_turn() -> None:
    given_up = offline = 0
    for disk, store, what in faults_of(compact):
        expected = contents(store)
        with pytest.raises(StoreError, match=DISK_ERRORS):
            compact(store)
        check_reads(store, expected, what)
        failed = [log for log in store.logs.values() if log.offline]
        given_up += not failed
        offline += bool(failed)
        check_restarts(disk, expected)
        assert not [name for name in disk.files() if name.endswith(SUCCESSOR_SUFFIX)] or failed
    assert given_up
    assert offline


def test_a_compaction_that_can_not_be_written_leaves_the_log_as_it_is() -> None:
    disk = SimDisk()
    store = used_store(disk)
    expected = contents(store)
    disk.fail("write", f"*{SUCCESSOR_SUFFIX}", code=errno.ENOSPC, kept_size=100, times=None)
    with pytest.raises(StoreError, match=r"is not compacted: .*No space left"):
        compact(store)
    assert not [name for name in disk.files() if name.endswith(SUCCESSOR_SUFFIX)]
    assert contents(store) == expected
    for name, log in store.logs.items():
        assert log.offline == ""
        append(store, name, 1)
    disk.heal()
    compact(store)
    store.commit()


# --- creating, removing, closing, opening -------------------------------------------------------


def create(store: Store) -> None:
    store.create_stream("new", b"body", mode=SyncMode.ALWAYS)


def remove(store: Store) -> None:
    store.remove_stream("a")


def test_every_operation_of_creating_a_stream_fails_in_turn() -> None:
    created = []
    for disk, store, what in faults_of(create):
        expected = contents(store)
        try:
            create(store)
        except StoreError as error:
            if "cannot create the stream new" not in str(error):
                raise
        else:
            created.append(what)
        check_reads(store, expected, what)
        disk.heal()
        disk.kill()
        store = opened(disk)
        if "new" not in store.logs:
            create(store)
        assert store.logs["new"].append(Batch([b"s"], [b""], [b"x"], [1])) == 1
        store.close()
        assert opened(disk).logs["new"].body == b"body"
    # The hint that the folder was made, which is written once more later.
    assert created
    assert len({what.partition(" fails")[0] for what in created}) == 1


def test_every_operation_of_removing_a_stream_fails_in_turn() -> None:
    removed = []
    for disk, store, what in faults_of(remove):
        expected = contents(store)
        try:
            remove(store)
        except StoreError as error:
            if not str(error).startswith(("cannot remove the stream a", "cannot write the cat")):
                raise
        else:
            removed.append(what)
        if "a" in store.logs:
            # The deletion could not be recorded.
            assert what not in removed
            check_reads(store, expected, what)
        check_reads(store, {name: expected[name] for name in ("b", "plain")}, what)
        disk.heal()
        disk.kill()
        store = opened(disk)
        # A stream is missed if there was no room for its deletion, neither before nor after.
        is_missed = what in removed and what.startswith("write 0") and what.endswith("None")
        assert store.lost_streams == (["a"] if is_missed else [])
        assert len(store.findings.reported) == is_missed
        if "a" in store.logs:
            assert payloads_of(store.logs["a"]) == expected["a"]
            remove(store)
        assert disk.list_folder(f"{FOLDER}/streams") == ["b", "plain"]
    # There is no room to record the deletion, which is no reason to keep the stream; and the hint
    # that the folder is gone is written once more later.
    assert removed
    assert {what.partition(" fails")[0] for what in removed} == {"write 0", "write 1"}
    assert all("code 28" in what for what in removed if what.startswith("write 0"))


def test_the_process_dies_at_every_operation_of_creating_and_removing() -> None:
    def both(store: Store) -> None:
        create(store)
        remove(store)

    for disk, store, _ in faults_of(both):
        with suppress(StoreError):
            both(store)
        disk.heal()
        disk.kill()
        store = opened(disk)
        for name, step in (("new", create), ("a", remove)):
            if (name in store.logs) is (name == "a"):
                step(store)
        assert disk.list_folder(f"{FOLDER}/streams") == ["b", "new", "plain"]
        store.close()


def test_every_operation_of_closing_fails_in_turn() -> None:
    in_order = []
    for disk, store, what in faults_of(Store.close):
        expected = contents(store)
        problems = []
        try:
            store.close()
        except StoreError as error:
            problems.append(str(error))
        if problems:
            assert "not closed in order" in problems[0], what
        else:
            in_order.append(what)
        disk.heal()
        # The lock is free, and nothing is believed that was not written.
        opened(disk).abandon()
        check_restarts(disk, expected)
    # Frames of the write-ahead file for which there is no room, and no need any more.
    assert in_order
    assert all(what.startswith("write") and f"code {errno.ENOSPC}" in what for what in in_order)


def test_a_store_on_a_full_disk_can_be_opened_and_read_and_makes_room() -> None:
    disk = SimDisk()
    store = used_store(disk)
    # Entries that are left would need room.
    store.trim()
    expected = contents(store)
    disk.kill()
    disk.capacity_bytes = 0
    store = opened(disk)
    check_reads(store, expected, "full disk")
    with pytest.raises(OfflineError, match="No space left"):
        create_or_append(store)
    store.remove_stream("a")
    store.remove_stream("plain")
    disk.kill()
    disk.capacity_bytes = None
    store = opened(disk)
    append(store, "b", 1)
    store.commit()
    store.close()


def create_or_append(store: Store) -> None:
    append(store, "b", 1)
    store.commit()
    raise AssertionError("there is no room")


def test_a_torn_end_on_a_full_disk_is_left_and_the_rest_is_read() -> None:
    disk = SimDisk()
    store = used_store(disk)
    store.trim()
    expected = contents(store)
    (path,) = [name for name in disk.files() if "/plain/segment" in name][-1:]
    disk.kill()
    file = disk.open(path)
    file.write(b"half a record")
    file.close()
    disk.capacity_bytes = 0
    before = disk.dump()[path]
    store = opened(disk)
    check_reads(store, expected, "full disk")
    assert "No space left" in store.logs["plain"].offline
    assert disk.dump()[path] == before
    disk.kill()
    disk.capacity_bytes = None
    log = opened(disk).logs["plain"]
    assert payloads_of(log) == expected["plain"]
    assert log.offline == ""


def test_operations_are_met() -> None:
    """The operations that a sweep above visits are the ones that it is about."""
    for step, needed in (
        (Store.trim, {"sync", "remove", "sync_folder"}),
        (compact, {"create", "write", "sync", "rename", "sync_folder", "remove"}),
    ):
        disk = SimDisk()
        store = used_store(disk)
        before = dict(disk.operation_counts)
        step(store)
        met: set[Operation] = {
            operation
            for operation, count in disk.operation_counts.items()
            if count > before[operation]
        }
        assert needed <= met
