"""Every row of the second table in `headwater.store.recovery.recovery`, brought about.

The table itself says what to expect: what is reported, whether something is set aside, whether the
stream goes on above its reservation, whether it is opened at all. A row without a scenario here
fails, and so does a scenario without a row. This table is about the files that all streams share.
"""

import pytest

from headwater.store.disk.format import HEADER_BYTES, StreamFile
from headwater.store.disk.segment import segment_name
from headwater.store.disk.set_aside import SET_ASIDE
from headwater.store.log.message_log import StoreError
from headwater.store.recovery.catalogue import CATALOGUE_FILE, CREATED, CatalogueEntry
from headwater.store.recovery.catalogue import DELETED as CATALOGUED_DELETED
from headwater.store.recovery.catalogue import REMOVED as CATALOGUED_REMOVED
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.copied_frames import CopyingAhead
from tests.kit.recovery_table import (
    Outcome,
    RecoveryTable,
    batch,
    extend,
    make_newer,
    refused,
)

STORE = "/store"

TABLE = RecoveryTable(1)
scenario = TABLE.scenario


def test_every_row_has_a_scenario_and_every_scenario_a_row() -> None:
    assert set(TABLE.scenarios) == set(TABLE.rows)
    assert len(TABLE.rows) > 10


@pytest.mark.parametrize("found", TABLE.rows)
def test_what_the_row_says_is_done(found: str) -> None:
    for run in TABLE.scenarios[found]:
        assert run() == TABLE.rows[found], run.__name__


def opened(disk: SimDisk, boot_id: str) -> Store:
    rng = SeededEntropy(labelled_rng(disk.operations, "store"))
    return open_store(disk, STORE, rng, boot_id, default_mode=SyncMode.ALWAYS)


def used(power_lost: bool) -> SimDisk:
    """A store whose messages are in the write-ahead file, and nowhere else if the power went."""
    disk = SimDisk()
    disk.make_folder(STORE)
    disk.sync_folder("/")
    store = opened(disk, "boot 1")
    ahead = CopyingAhead(disk, STORE, SeededEntropy(labelled_rng(1, "ahead")))
    for name in ("a", "b"):
        log = store.create_stream(name, mode=SyncMode.ALWAYS)
        ahead.add_stream(log)
        for sequence in (1, 2, 3):
            ahead.append(log, batch(sequence))
    disk.power_loss("strict") if power_lost else disk.kill()
    return disk


def ahead(disk: SimDisk) -> str:
    (path,) = [path for path in disk.files() if "/ahead" in path]
    return path


def store_outcome(disk: SimDisk, boot_id: str = "boot 1", streams: str = "ab") -> Outcome:
    """Open the store, and see that the streams hold what they do not call lost."""
    before = disk.dump()
    try:
        store = opened(disk, boot_id)
    except StoreError as error:
        return refused(error, STORE, disk.dump() != before)
    assert sorted(store.logs) == list(streams)
    outcome = Outcome({finding.kind for finding in store.findings.reported})
    outcome.sets_aside = any(f"/{SET_ASIDE}/" in path for path in disk.files())
    outcome.is_above = all(log.last_sequence > 1000 for log in store.logs.values())
    for log in store.logs.values():
        outcome.reported |= {"lost"} if log.lost else set()
        outcome.reported |= {"offline"} if log.offline else set()
        for sequence in (1, 2, 3):
            message = log.get(sequence)
            assert (message is None) is (sequence in log.lost)
            assert message is None or message.payload == b"message %d" % sequence
    return outcome


@scenario("half a frame behind the last one")
def half_a_frame() -> Outcome:
    disk = used(power_lost=True)
    path = ahead(disk)
    # The bytes look like the beginning of the next write.
    extend(disk, path, disk.dump()[path][HEADER_BYTES : HEADER_BYTES + 40])
    return store_outcome(disk, "boot 2")


@scenario("frame that is not sound")
def a_frame_is_damaged() -> Outcome:
    disk = used(power_lost=False)
    disk.flip_bit(ahead(disk), HEADER_BYTES + 200, 1)
    return store_outcome(disk)


@scenario("after the machine fell: frame that is not sound")
def a_frame_is_damaged_and_the_machine_fell() -> Outcome:
    disk = used(power_lost=True)
    disk.flip_bit(ahead(disk), HEADER_BYTES + 200, 1)
    return store_outcome(disk, "boot 2")


@scenario("write-ahead file whose header is not sound, or of another store")
def the_header_of_the_write_ahead_file_is_damaged() -> Outcome:
    disk = used(power_lost=False)
    disk.flip_bit(ahead(disk), 20, 1)
    return store_outcome(disk)


@scenario("after the machine fell: write-ahead file whose header is not sound")
def the_header_of_the_write_ahead_file_is_damaged_and_the_machine_fell() -> Outcome:
    disk = used(power_lost=True)
    disk.flip_bit(ahead(disk), 20, 1)
    return store_outcome(disk, "boot 2")


@scenario("stream that cannot be opened")
def a_stream_file_in_a_store_is_damaged() -> Outcome:
    disk = used(power_lost=True)
    disk.flip_bit(f"{STORE}/streams/a/stream.hw", 20, 1)
    return store_outcome(disk, "boot 2", streams="b")


@scenario("stream that was being removed")
def a_stream_was_being_removed() -> Outcome:
    disk = used(power_lost=False)
    disk.rename(f"{STORE}/streams/a/stream.hw", f"{STORE}/streams/a/removed.hw")
    outcome = store_outcome(disk, streams="b")
    assert disk.list_folder(f"{STORE}/streams") == ["b"]
    return outcome


@scenario("stream that was being removed, and cannot be")
def a_stream_can_not_be_removed() -> Outcome:
    disk = used(power_lost=False)
    disk.rename(f"{STORE}/streams/a/stream.hw", f"{STORE}/streams/a/removed.hw")
    disk.fail("remove", "*/a/*")
    return store_outcome(disk, streams="b")


@scenario("stream of which only the record is left")
def the_folder_of_a_stream_is_gone() -> Outcome:
    disk = used(power_lost=False)
    for name in disk.list_folder(f"{STORE}/streams/b"):
        disk.remove(f"{STORE}/streams/b/{name}")
    disk.remove_folder(f"{STORE}/streams/b")
    outcome = store_outcome(disk, streams="a")
    disk.kill()
    store = opened(disk, "boot 1")
    assert store.lost_streams == ["b"]
    store.create_stream("b")
    store.close()
    assert opened(disk, "boot 1").lost_streams == []
    return outcome


def record(disk: SimDisk, entry: CatalogueEntry) -> None:
    """Write an entry to the catalogue as a process does that dies then."""
    store = opened(disk, "boot 1")
    store.catalogue_commit.write([entry])
    store.abandon()
    disk.kill()


def identity_of(disk: SimDisk, name: str) -> bytes:
    path = f"{STORE}/streams/{name}/stream.hw"
    return StreamFile.decode(disk.dump()[path], path).identity


@scenario("stream whose deletion is recorded")
def the_deletion_of_a_stream_was_interrupted() -> Outcome:
    disk = used(power_lost=False)
    record(disk, CatalogueEntry(CATALOGUED_DELETED, "a", identity_of(disk, "a")))
    outcome = store_outcome(disk, streams="b")
    assert disk.list_folder(f"{STORE}/streams") == ["b"]
    return outcome


@scenario("stream whose deletion is recorded, and that cannot be removed")
def the_deletion_of_a_stream_is_refused() -> Outcome:
    disk = used(power_lost=False)
    record(disk, CatalogueEntry(CATALOGUED_DELETED, "a", identity_of(disk, "a")))
    disk.fail("rename", "*/a/*")
    return store_outcome(disk, streams="b")


@scenario("stream that is recorded, and whose folder was not made")
def the_creation_of_a_stream_was_interrupted() -> Outcome:
    disk = used(power_lost=False)
    record(disk, CatalogueEntry(CREATED, "c", b"c" * 16))
    outcome = store_outcome(disk)
    disk.kill()
    store = opened(disk, "boot 1")
    assert store.differences.unmade == ["c"]
    assert store.lost_streams == []
    return outcome


@scenario("stream that is not recorded, or another one than is recorded")
def the_folder_of_a_stream_was_put_back() -> Outcome:
    disk = used(power_lost=False)
    store = opened(disk, "boot 1")
    identity = store.logs["a"].identity
    kinds = (CATALOGUED_DELETED, CATALOGUED_REMOVED)
    store.catalogue_commit.write([CatalogueEntry(kind, "a", identity) for kind in kinds])
    store.abandon()
    disk.kill()
    outcome = store_outcome(disk)
    disk.kill()
    assert opened(disk, "boot 1").differences.unrecorded == ["a"]
    return outcome


@scenario("stream that is not recorded, or another one than is recorded")
def the_folder_of_a_stream_was_replaced() -> Outcome:
    disk = used(power_lost=False)
    record(disk, CatalogueEntry(CREATED, "a", b"a" * 16))
    outcome = store_outcome(disk)
    disk.kill()
    assert opened(disk, "boot 1").differences.replaced == ["a"]
    return outcome


@scenario("catalogue that is gone")
def the_catalogue_is_gone() -> Outcome:
    disk = used(power_lost=False)
    disk.remove(f"{STORE}/{CATALOGUE_FILE}")
    return store_outcome(disk)


def damaged_catalogue(offset: int) -> Outcome:
    disk = used(power_lost=False)
    disk.flip_bit(f"{STORE}/{CATALOGUE_FILE}", offset, 1)
    outcome = store_outcome(disk)
    disk.kill()
    store = opened(disk, "boot 1")
    store.create_stream("c")
    store.close()
    outcome.sets_aside = disk.list_folder(f"{STORE}/{SET_ASIDE}") == [f"{CATALOGUE_FILE}.0"]
    assert opened(disk, "boot 1").findings.reported == []
    return outcome


@scenario("catalogue whose header is not sound, or of another store")
def the_header_of_the_catalogue_is_damaged() -> Outcome:
    return damaged_catalogue(20)


@scenario("catalogue with entries that are not sound")
def an_entry_of_the_catalogue_is_damaged() -> Outcome:
    return damaged_catalogue(HEADER_BYTES + 30)


@scenario("stream that was being created")
def a_stream_was_being_created() -> Outcome:
    disk = used(power_lost=False)
    disk.make_folder(f"{STORE}/streams/c")
    disk.create(f"{STORE}/streams/c/{segment_name(1)}").close()
    store = opened(disk, "boot 1")
    assert "c" not in store.logs
    store.create_stream("c").append(batch(1))
    store.abandon()
    store = opened(disk, "boot 1")
    assert store.logs["c"].messages == 1
    return Outcome(sets_aside=bool(disk.list_folder(f"{STORE}/streams/c/{SET_ASIDE}")))


@scenario("store file that is gone")
def the_store_file_is_gone() -> Outcome:
    disk = used(power_lost=True)
    disk.remove(f"{STORE}/store.hw")
    return store_outcome(disk, "boot 2")


@scenario("store file that is not sound")
def the_store_file_is_damaged() -> Outcome:
    disk = used(power_lost=True)
    disk.flip_bit(f"{STORE}/store.hw", 20, 1)
    return store_outcome(disk, "boot 2")


@scenario("store file, write-ahead file or catalogue of a newer format")
def a_write_ahead_file_of_a_newer_format() -> Outcome:
    disk = used(power_lost=True)
    make_newer(disk, ahead(disk))
    return store_outcome(disk, "boot 2")


@scenario("store file, write-ahead file or catalogue of a newer format")
def a_store_file_of_a_newer_format() -> Outcome:
    disk = used(power_lost=True)
    path = f"{STORE}/store.hw"
    make_newer(disk, path, len(disk.dump()[path]))
    return store_outcome(disk, "boot 2")


@scenario("store file, write-ahead file or catalogue of a newer format")
def a_catalogue_of_a_newer_format() -> Outcome:
    disk = used(power_lost=True)
    make_newer(disk, f"{STORE}/{CATALOGUE_FILE}")
    return store_outcome(disk, "boot 2")


@scenario("disk that refuses the store file")
def a_full_disk() -> Outcome:
    disk = used(power_lost=False)
    disk.capacity_bytes = 0
    return store_outcome(disk)
