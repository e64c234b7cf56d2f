"""Every row of the table in `headwater.store.recovery.recovery`, brought about and looked at.

The table itself says what to expect: what is reported, whether something is set aside, whether the
stream goes on above its reservation, whether it is opened at all. A row without a scenario here
fails, and so does a scenario without a row.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from headwater.store.disk.format import HEADER_BYTES, StreamFile, encode_entry, encode_group
from headwater.store.disk.journal import DELETED, TRUNCATING, encode_ranges
from headwater.store.disk.segment import segment_name
from headwater.store.disk.set_aside import SET_ASIDE
from headwater.store.disk.wal import Extent
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch, StoreError
from headwater.store.recovery import recovery
from headwater.store.recovery.catalogue import CATALOGUE_FILE, CREATED, CatalogueEntry
from headwater.store.recovery.catalogue import DELETED as CATALOGUED_DELETED
from headwater.store.recovery.catalogue import REMOVED as CATALOGUED_REMOVED
from headwater.store.recovery.opening import create_log, open_log
from headwater.store.store import Store, SyncMode, open_store
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.format_versions import with_version

FOLDER = "/log"
SEGMENT_BYTES_MAX = 300
LAST = 12
CALLER_KIND = 300


@dataclass
class Row:
    """One row of the table."""

    found: str
    done: str
    reported: set[str]

    @property
    def is_opened(self) -> bool:
        return "error" not in self.reported


def rows() -> list[Row]:
    """The rows of both tables; a line whose cells begin with two more blanks goes on."""
    assert recovery.__doc__ is not None
    found: list[list[str]] = []
    for line in recovery.__doc__.splitlines():
        cells = [cell[1:] for cell in line.split("|")[1:-1]]
        if not cells or line.startswith(("|--", "| found")):
            continue
        if all(cell.startswith("  ") or not cell.strip() for cell in cells):
            last = found[-1]
            found[-1] = [f"{a} {b.strip()}".strip() for a, b in zip(last, cells, strict=True)]
        else:
            found.append([cell.strip() for cell in cells])
    return [Row(what, done, set(re.findall(r"\w+", told))) for what, done, told in found]


ROWS = {row.found: row for row in rows()}


@dataclass
class Outcome:
    """The outcome of opening a log, in the words of the table."""

    reported: set[str] = field(default_factory=set)
    sets_aside: bool = False
    is_above: bool = False
    is_opened: bool = True
    is_touched: bool = True


Scenario = Callable[[], Outcome]
SCENARIOS: dict[str, list[Scenario]] = {}


def scenario(found: str) -> Callable[[Scenario], Scenario]:
    """A scenario that brings about the state of a row; a row may have several."""

    def register(function: Scenario) -> Scenario:
        SCENARIOS.setdefault(found, []).append(function)
        return function

    return register


def test_every_row_has_a_scenario_and_every_scenario_a_row() -> None:
    assert set(SCENARIOS) == set(ROWS)
    assert len(ROWS) > 30


@pytest.mark.parametrize("found", ROWS)
def test_what_the_row_says_is_done(found: str) -> None:
    row = ROWS[found]
    for run in SCENARIOS[found]:
        outcome = run()
        assert outcome.reported == row.reported, run.__name__
        assert outcome.is_opened is row.is_opened
        assert outcome.sets_aside is ("set aside" in row.done)
        assert outcome.is_above is ("above the reservation" in row.done)
        assert outcome.is_touched is ("nothing touched" not in row.done)


# --- a stream -------------------------------------------------------------------------------------


def entropy() -> SeededEntropy:
    return SeededEntropy(labelled_rng(1, "log"))


def batch(sequence: int) -> Batch:
    return Batch([b"s"], [b""], [b"message %d" % sequence], [sequence])


def written(last: int = LAST) -> tuple[SimDisk, FileLog]:
    disk = SimDisk()
    log = create_log(disk, FOLDER, entropy(), segment_bytes_max=SEGMENT_BYTES_MAX)
    for sequence in (1, 2, 3):
        log.append(batch(sequence))
    log.write_entries([(CALLER_KIND, b"first")])
    log.delete([2])
    log.write_entries([(CALLER_KIND, b"second")])
    for sequence in range(4, last + 1):
        log.append(batch(sequence))
    log.sync()
    return disk, log


def killed(last: int = LAST) -> SimDisk:
    disk, _ = written(last)
    disk.kill()
    return disk


def segments(disk: SimDisk) -> list[str]:
    return [path for path in disk.files() if "/segment" in path]


def change(disk: SimDisk, path: str, data: bytes) -> None:
    """Let a file have other bytes, as if it had always had them."""
    file = disk.open(path)
    file.truncate(0)
    file.write(data)
    file.sync()
    file.close()


def extend(disk: SimDisk, path: str, data: bytes) -> None:
    change(disk, path, disk.dump()[path] + data)


def outcome_of(
    disk: SimDisk, machine_fell: bool = False, extent: Extent | None = None, gone: int = 0
) -> Outcome:
    """Open the log, and see that it holds all messages that it does not call lost.

    `gone` is how many messages at the end are missing because they were never promised.
    """
    before = disk.dump()
    reserved = int.from_bytes(before[f"{FOLDER}/stream.hw"][32:40], "little")
    try:
        log = open_log(
            disk,
            FOLDER,
            entropy(),
            segment_bytes_max=SEGMENT_BYTES_MAX,
            machine_fell=machine_fell,
            extent=extent,
        )
    except StoreError as error:
        return refused(error, FOLDER, disk.dump() != before)
    outcome = judged(log, disk, reserved)
    for sequence in (1, *range(3, LAST + 1 - gone)):
        message = log.get(sequence)
        assert (message is None) is (sequence in log.lost), sequence
        assert message is None or message.payload == b"message %d" % sequence
    outcome.reported |= {finding.kind for finding in log.findings.reported}
    outcome.reported |= {"lost"} if log.lost else set()
    return outcome


def refused(error: StoreError, folder: str, is_touched: bool) -> Outcome:
    assert folder in str(error), "it says what it is about"
    return Outcome({"error"}, is_opened=False, is_touched=is_touched)


def judged(log: FileLog, disk: SimDisk, reserved: int) -> Outcome:
    return Outcome(
        {"offline"} if log.offline else set(),
        sets_aside=bool(disk.list_folder(f"{FOLDER}/{SET_ASIDE}")),
        is_above=log.last_sequence == reserved,
    )


@scenario("half a record behind the last one")
def half_a_record() -> Outcome:
    disk = killed()
    before = len(disk.dump()[segments(disk)[-1]])
    disk, _ = written(LAST + 1)
    disk.kill()
    path = segments(disk)[-1]
    change(disk, path, disk.dump()[path][: before + 20])
    return outcome_of(disk)


@scenario("other bytes behind the last record")
def noise_at_the_end() -> Outcome:
    disk = killed()
    extend(disk, segments(disk)[-1], b"\x40\0\0\0" + b"noise" * 20)
    return outcome_of(disk)


def last_extent(disk: SimDisk, behind: int = 0) -> Extent:
    path = segments(disk)[-1]
    return Extent(int(path[-23:-3]), len(disk.dump()[path]) - behind)


@scenario(
    "after the machine fell: any bytes behind the last record, and behind what was on the disk for"
    " sure"
)
def noise_at_the_end_after_the_machine_fell() -> Outcome:
    disk = killed()
    extent = last_extent(disk)
    extend(disk, segments(disk)[-1], b"\x40\0\0\0" + b"noise" * 20)
    return outcome_of(disk, machine_fell=True, extent=extent)


@scenario("after the machine fell: damage behind what was on the disk for sure, records behind it")
def a_page_is_missing_after_the_machine_fell() -> Outcome:
    disk = killed()
    path = segments(disk)[-1]
    data = disk.dump()[path]
    extent = Extent(int(path[-23:-3]), HEADER_BYTES)
    count = data.count(b"message")
    assert count > 1
    disk.flip_bit(path, HEADER_BYTES + 40, 1)
    return outcome_of(disk, machine_fell=True, extent=extent, gone=count)


@scenario("bytes between records that are no record")
def a_record_is_damaged() -> Outcome:
    disk = killed()
    disk.flip_bit(segments(disk)[-1], HEADER_BYTES + 40, 1)
    return outcome_of(disk)


@scenario("bytes between records that are no record")
def a_record_that_was_on_the_disk_for_sure_is_damaged_when_the_machine_fell() -> Outcome:
    disk = killed()
    disk.flip_bit(segments(disk)[-1], HEADER_BYTES + 40, 1)
    return outcome_of(disk, machine_fell=True, extent=last_extent(disk))


@scenario("sealed segment without a sound footer")
def a_footer_is_damaged() -> Outcome:
    disk = killed()
    path = segments(disk)[0]
    disk.flip_bit(path, len(disk.dump()[path]) - 20, 1)
    return outcome_of(disk)


@scenario("sealed segment without a sound footer")
def a_trailer_is_damaged() -> Outcome:
    disk = killed()
    path = segments(disk)[0]
    disk.flip_bit(path, len(disk.dump()[path]) - 1, 1)
    return outcome_of(disk)


@scenario("segment whose header is not sound, or of another stream")
def a_header_is_damaged() -> Outcome:
    disk = killed()
    disk.flip_bit(segments(disk)[1], 20, 1)
    return outcome_of(disk)


def of_another_stream(name: str) -> bytes:
    other = SimDisk()
    create_log(other, FOLDER, SeededEntropy(labelled_rng(2, "other"))).sync()
    return other.dump()[f"{FOLDER}/{name}"]


@scenario("segment whose header is not sound, or of another stream")
def a_segment_of_another_stream() -> Outcome:
    disk = killed()
    change(disk, segments(disk)[0], of_another_stream(segment_name(1)))
    return outcome_of(disk)


@scenario("last segment whose header is not sound")
def the_last_header_is_damaged() -> Outcome:
    disk = killed()
    disk.flip_bit(segments(disk)[-1], 20, 1)
    return outcome_of(disk)


@scenario("segment that is gone and not by deleting")
def a_segment_is_gone() -> Outcome:
    disk = killed()
    disk.remove(segments(disk)[1])
    return outcome_of(disk)


@scenario("no segment at all")
def every_segment_is_gone() -> Outcome:
    disk = killed()
    for path in segments(disk):
        disk.remove(path)
    return outcome_of(disk)


JOURNAL = f"{FOLDER}/journal.hw"


@scenario("half an entry at the end of the journal")
def half_an_entry() -> Outcome:
    disk = killed()
    extend(disk, JOURNAL, encode_entry(LAST, CALLER_KIND, b"third")[:-2])
    return outcome_of(disk)


@scenario("journal entry that is not sound, others behind it")
def an_entry_is_damaged() -> Outcome:
    disk = killed()
    disk.flip_bit(JOURNAL, HEADER_BYTES + 10, 1)
    log = open_log(disk.clone(), FOLDER, entropy())
    assert log.entries == []
    assert log.get(2) is None, "a deletion behind the damage counts"
    return outcome_of(disk)


@scenario(
    "after the machine fell: the same before removals that were journalled together with callers' "
    "entries"
)
def an_entry_is_damaged_and_the_machine_fell() -> Outcome:
    disk = killed()
    extend(disk, JOURNAL, joint_removal(LAST))
    disk.flip_bit(JOURNAL, HEADER_BYTES + 10, 1)
    # A removal stands alone if the machine did not fall.
    assert open_log(disk.clone(), FOLDER, entropy()).get(5) is None
    return outcome_of(disk, machine_fell=True)


@scenario("journal that is gone")
def the_journal_is_gone() -> Outcome:
    disk = killed()
    disk.remove(JOURNAL)
    return outcome_of(disk)


@scenario("journal whose header is not sound, or of another stream")
def the_header_of_the_journal_is_damaged() -> Outcome:
    disk = killed()
    disk.flip_bit(JOURNAL, 20, 1)
    return outcome_of(disk)


@scenario("journal whose header is not sound, or of another stream")
def the_journal_of_another_stream() -> Outcome:
    disk = killed()
    change(disk, JOURNAL, of_another_stream("journal.hw"))
    return outcome_of(disk)


@scenario("callers' entries about messages that are not there")
def entries_are_ahead() -> Outcome:
    disk = killed()
    extend(disk, JOURNAL, encode_entry(LAST + 5, CALLER_KIND, b"third"))
    outcome = outcome_of(disk)
    log = open_log(disk, FOLDER, entropy())
    assert [entry.body for entry in log.entries] == [b"first", b"second"]
    return outcome


@scenario("after the machine fell: the same, and removals journalled together with them")
def joint_entries_are_ahead() -> Outcome:
    disk = killed()
    extend(disk, JOURNAL, joint_removal(LAST + 5))
    assert open_log(disk.clone(), FOLDER, entropy()).get(5) is None
    outcome = outcome_of(disk, machine_fell=True)
    log = open_log(disk, FOLDER, entropy())
    assert [entry.body for entry in log.entries] == [b"first", b"second"]
    return outcome


def joint_removal(position: int) -> bytes:
    """Message 5 is removed, and a caller says why."""
    entries = [(DELETED, encode_ranges([(5, 5)])), (CALLER_KIND, b"third")]
    return encode_group(position, entries)


@scenario("cut of the log's end that was begun")
def a_cut_was_begun() -> Outcome:
    disk = killed(LAST + 3)
    extend(disk, JOURNAL, encode_entry(LAST + 3, TRUNCATING, encode_ranges([(LAST + 1, LAST + 3)])))
    outcome = outcome_of(disk)
    assert open_log(disk, FOLDER, entropy()).last_sequence == LAST
    return outcome


@scenario("file that was to replace another one")
def unfinished_files() -> Outcome:
    disk = killed()
    before = disk.files()
    for name in ("journal-new.hw", f"{segment_name(1)}.new", "index.hw.new", ".stream.hw.new"):
        file = disk.create(f"{FOLDER}/{name}")
        file.write(b"half of it")
        file.close()
    outcome = outcome_of(disk)
    assert disk.files() == before
    return outcome


def closed() -> SimDisk:
    disk, log = written()
    log.close()
    return disk


@scenario("checkpoint that is not sound or does not fit")
def the_checkpoint_is_damaged() -> Outcome:
    disk = closed()
    disk.flip_bit(f"{FOLDER}/{CHECKPOINT_FILE}", 100, 1)
    return outcome_of(disk)


@scenario("checkpoint that is not sound or does not fit")
def the_checkpoint_knows_more_than_there_is() -> Outcome:
    disk = closed()
    path = segments(disk)[-1]
    checkpoint = disk.dump()[f"{FOLDER}/{CHECKPOINT_FILE}"]
    disk = killed()
    data = disk.dump()[path]
    file = disk.create(f"{FOLDER}/{CHECKPOINT_FILE}")
    file.write(checkpoint)
    file.close()
    change(disk, path, data[: data.rindex(b"message") - 33])
    return outcome_of(disk, gone=1)


@scenario("message that is not sound when it is read")
def a_message_is_damaged_that_a_footer_knows() -> Outcome:
    disk = killed()
    disk.flip_bit(segments(disk)[0], HEADER_BYTES + 40, 1)
    return outcome_of(disk)


@scenario("erased message that nothing else calls deleted")
def an_erased_message() -> Outcome:
    disk, log = written()
    # Only its record says that the message is deleted.
    log.segments.erase([3])
    log.sync()
    outcome = judged(log, disk, reserved=0)
    assert log.get(3) is None
    assert not log.lost
    return outcome


@scenario("half a record, and a disk that refuses")
def a_torn_end_on_a_full_disk() -> Outcome:
    disk = killed()
    extend(disk, segments(disk)[-1], b"\x40\0\0\0half")
    disk.capacity_bytes = 0
    before = disk.dump()
    outcome = outcome_of(disk)
    assert disk.dump() == before
    return outcome


STREAM_UNSOUND = "stream file that is not sound or gone, or file the disk does not give"


@scenario(STREAM_UNSOUND)
def the_stream_file_is_damaged() -> Outcome:
    disk = killed()
    disk.flip_bit(f"{FOLDER}/stream.hw", 20, 1)
    return outcome_of(disk)


@scenario(STREAM_UNSOUND)
def a_segment_can_not_be_read() -> Outcome:
    disk = killed()
    disk.fail_read("*/segment*", 0, 2**62)
    return outcome_of(disk)


@scenario("segment or journal of a newer format")
def a_segment_of_a_newer_format() -> Outcome:
    disk = killed()
    make_newer(disk, segments(disk)[1])
    return outcome_of(disk)


@scenario("segment or journal of a newer format")
def a_journal_of_a_newer_format() -> Outcome:
    disk = killed()
    make_newer(disk, JOURNAL)
    return outcome_of(disk)


def make_newer(disk: SimDisk, path: str, size: int = HEADER_BYTES) -> None:
    data = disk.dump()[path]
    change(disk, path, with_version(data[:size], 99, size - 4) + data[size:])


# --- the files that all streams share -------------------------------------------------------------

STORE = "/store"


def opened(disk: SimDisk, boot_id: str) -> Store:
    rng = SeededEntropy(labelled_rng(disk.operations, "store"))
    return open_store(disk, STORE, rng, boot_id, default_mode=SyncMode.ALWAYS)


def used(power_lost: bool) -> SimDisk:
    """A store whose messages are in the write-ahead file, and nowhere else if the power went."""
    disk = SimDisk()
    disk.make_folder(STORE)
    disk.sync_folder("/")
    store = opened(disk, "boot 1")
    for name in ("a", "b"):
        store.create_stream(name, mode=SyncMode.ALWAYS)
        for sequence in (1, 2, 3):
            store.logs[name].append(batch(sequence))
            store.commit()
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
    store.write_entries([entry])
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
    store.write_entries([CatalogueEntry(kind, "a", identity) for kind in kinds])
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
