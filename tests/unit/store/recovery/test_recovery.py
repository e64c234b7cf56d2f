"""Every row of the first table in `headwater.store.recovery.recovery`, brought about.

The table itself says what to expect: what is reported, whether something is set aside, whether the
stream goes on above its reservation, whether it is opened at all. A row without a scenario here
fails, and so does a scenario without a row. This table is about the files of one stream.
"""

import pytest

from headwater.store.disk.format import HEADER_BYTES, encode_entry, encode_group
from headwater.store.disk.journal import DELETED, TRUNCATING, encode_ranges
from headwater.store.disk.segment import segment_name
from headwater.store.disk.set_aside import SET_ASIDE
from headwater.store.disk.wal import Extent
from headwater.store.errors import DamagedMessageError
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import StoreError
from headwater.store.recovery.opening import create_log, open_log
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.damage import DamagedReplica
from tests.kit.recovery_table import (
    Outcome,
    RecoveryTable,
    batch,
    change,
    extend,
    make_newer,
    refused,
)

FOLDER = "/log"
SEGMENT_BYTES_MAX = 300
LAST = 12
CALLER_KIND = 300

TABLE = RecoveryTable(0)
scenario = TABLE.scenario


def test_every_row_has_a_scenario_and_every_scenario_a_row() -> None:
    assert set(TABLE.scenarios) == set(TABLE.rows)
    assert len(TABLE.rows) > 20


@pytest.mark.parametrize("found", TABLE.rows)
def test_what_the_row_says_is_done(found: str) -> None:
    for run in TABLE.scenarios[found]:
        assert run() == TABLE.rows[found], run.__name__


def entropy() -> SeededEntropy:
    return SeededEntropy(labelled_rng(1, "log"))


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


@scenario(
    "after the machine fell: the same, where the journal says what is damaged was deleted: it was"
    " being erased"
)
def a_message_is_erased_by_half_when_the_machine_fell() -> Outcome:
    disk = killed(last=3)
    path = segments(disk)[-1]
    disk.flip_bit(path, disk.dump()[path].index(b"message 2"), 1)
    return outcome_of(disk, machine_fell=True, gone=LAST - 3)


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


@scenario("skip of sequences that was journalled")
def a_skip_was_journalled() -> Outcome:
    disk = killed()
    skipped = encode_ranges([(LAST + 1, LAST + 3)])
    extend(disk, JOURNAL, encode_entry(LAST, DELETED, skipped))
    outcome = outcome_of(disk)
    assert open_log(disk, FOLDER, entropy()).last_sequence == LAST + 3
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


@scenario("the same, in a replica")
def a_message_of_a_replica_is_damaged() -> Outcome:
    replica = DamagedReplica(messages=6).damage(3)
    with pytest.raises(DamagedMessageError):
        replica.log.get(3)
    assert replica.log.messages == 6
    assert list(replica.log.lost) == []
    return Outcome({finding.kind for finding in replica.log.findings.reported})


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
