"""One flipped bit or a torn end in any file of a log: nothing wrong is read, and no hole is silent.

A small log that has seen everything is damaged in every byte of every file, once after it was
closed, so that its checkpoint is used, and once after its process was killed, so that it is not.
"""

import pytest

from headwater.store.disk.segment import segment_name
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch, StoredMessage, StoreError
from headwater.store.recovery.opening import create_log, open_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.format_versions import with_version

FOLDER = "streams/orders"
SEGMENT_BYTES_MAX = 320
CALLER_KIND = 300

DELETED = {2, 6}
ERASED = {5}
SKIPPED = {8, 9}
LAST = 14
LIVE = [1, 3, 4, 7, 10, 11, 12, 13, 14]


def entropy() -> SeededEntropy:
    return SeededEntropy(labelled_rng(1, "log"))


def stored(sequence: int) -> StoredMessage:
    header = b"NATS/1.0\r\n\r\n" if sequence % 3 == 0 else b""
    subject = b"s.%d" % (sequence % 4)
    return StoredMessage(sequence, subject, header, b"message %d" % sequence, sequence)


def append(log: FileLog, sequence: int, expiry_ns: int = 0) -> None:
    message = stored(sequence)
    batch = Batch([message.subject], [message.header], [message.payload], [sequence], [expiry_ns])
    assert log.append(batch) == sequence


def written() -> tuple[SimDisk, FileLog]:
    """A log with sealed segments, and everything else that can be in its files."""
    disk = SimDisk()
    log = create_log(
        disk, FOLDER, entropy(), b"the caller's own", segment_bytes_max=SEGMENT_BYTES_MAX
    )
    for sequence in range(1, 8):
        append(log, sequence, expiry_ns=sequence * 1000 if sequence == 4 else 0)
    log.write_entries([(CALLER_KIND, b"first")])
    log.delete([2])
    log.delete([5], erase=True)
    log.skip(2, 9)
    log.delete([6])
    log.write_entries([(CALLER_KIND, b"second")])
    for sequence in range(10, LAST + 1):
        append(log, sequence)
    return disk, log


def killed() -> SimDisk:
    disk, log = written()
    log.sync()
    disk.kill()
    return disk


def closed() -> SimDisk:
    disk, log = written()
    log.close()
    return disk


LIVES = {"killed": killed, "closed": closed}
DISKS = {name: leave() for name, leave in LIVES.items()}
FILES = [(name, path) for name, disk in DISKS.items() for path in disk.files()]


def reopened(disk: SimDisk) -> FileLog:
    return open_log(disk, FOLDER, entropy(), segment_bytes_max=SEGMENT_BYTES_MAX)


def reopened_or_refused(disk: SimDisk) -> FileLog | str:
    """The log, or the error that keeps it from being opened."""
    try:
        return reopened(disk)
    except StoreError as error:
        return str(error)


def read_everything(log: FileLog) -> dict[int, StoredMessage]:
    """All messages that can be read, by number and in a row; damage is met on the way."""
    for sequence in range(1, LAST + 1):
        try:
            log.get(sequence)
        except StoreError:
            assert sequence in log.lost
    batch = log.read(0, 2**62, 2**62)
    columns = (batch.sequences, batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns)
    messages = [StoredMessage(*values) for values in zip(*columns, strict=True)]
    for message in messages:
        assert log.get(message.sequence) == message
    return {message.sequence: message for message in messages}


def check(log: FileLog, disk: SimDisk) -> None:
    """Every message is right or reported as lost, and the log goes on."""
    journal_is_whole = not [found for found in log.findings.reported if "journal" in found.detail]
    found = read_everything(log)
    for sequence, message in found.items():
        assert message == stored(sequence)
        # Only the journal has the deletions. If it is reported as damaged, deleted messages return.
        assert sequence in LIVE or (sequence in DELETED and not journal_is_whole)
    for sequence in LIVE:
        assert sequence in found or sequence in log.lost, f"{sequence} is a silent hole"
    assert log.messages == len(found)
    assert sum(log.subject_counts().values()) == len(found)
    assert log.last_sequence >= LAST
    go_on(log, disk)


def go_on(log: FileLog, disk: SimDisk) -> None:
    """Messages go in as ever, no sequence is given twice, and all is there after a restart."""
    following = log.last_sequence + 1
    lost, before = list(log.lost), log.messages
    append(log, following)
    disk.kill()
    again = reopened(disk)
    assert again.get(following) == stored(following)
    assert again.messages == before + 1
    assert list(again.lost) == lost


def test_the_log_without_damage() -> None:
    for disk in DISKS.values():
        survivor = disk.clone()
        log = reopened(survivor)
        assert log.findings.reported == []
        assert sorted(read_everything(log)) == LIVE
        assert [entry.body for entry in log.entries] == [b"first", b"second"]
        assert log.due_by_expiry(10**9) == [4]
        assert len([path for path in survivor.files() if "segment" in path]) >= 3
        check(log, survivor)


@pytest.mark.parametrize(("life", "path"), FILES)
def test_a_bit_flipped_in_every_byte(life: str, path: str) -> None:
    disk = DISKS[life]
    data = disk.dump()[path]
    for offset in range(len(data)):
        survivor = disk.clone()
        survivor.flip_bit(path, offset, offset % 8)
        log = reopened_or_refused(survivor)
        if isinstance(log, str):
            # Without this file the log is unknown. No file is touched, and the error names it.
            assert path.endswith("stream.hw")
            assert path.removeprefix("/") in log
            assert survivor.dump() == {**disk.dump(), path: survivor.dump()[path]}
            continue
        try:
            check(log, survivor)
        except BaseException:
            print(f"{life}, {path}, byte {offset}", log.findings.reported, list(log.lost))
            raise


@pytest.mark.parametrize(("life", "path"), FILES)
def test_what_can_not_be_read_is_set_aside(life: str, path: str) -> None:
    disk = DISKS[life]
    for offset in range(len(disk.dump()[path])):
        survivor = disk.clone()
        survivor.flip_bit(path, offset, offset % 8)
        damaged = survivor.dump()[path]
        if path.endswith(("stream.hw", "index.hw")):
            continue
        reopened(survivor)
        after = survivor.dump()
        kept = b"".join(after[name] for name in after if "set-aside" in name)
        assert any(
            after.get(path, b"").startswith(damaged[:cut]) and damaged[cut:] in kept
            for cut in range(len(damaged) + 1)
        )


@pytest.mark.parametrize("life", LIVES)
def test_a_last_segment_torn_at_every_byte_of_its_last_record(life: str) -> None:
    disk, log = written()
    segment = max(path for path in disk.files() if "segment" in path)
    whole = len(disk.dump()[segment])
    append(log, LAST + 1)
    log.sync()
    disk.kill()
    size = len(disk.dump()[segment])
    assert size > whole
    for end in range(whole, size):
        survivor = disk.clone()
        torn = survivor.open(segment)
        torn.truncate(end)
        torn.close()
        log = reopened(survivor)
        assert sorted(read_everything(log)) == LIVE
        assert list(log.lost) == []
        # The message was never confirmed, so another one may get its sequence.
        assert log.last_sequence == LAST
        assert [found.kind for found in log.findings.reported] == ["torn"] * (end > whole)
        go_on(log, survivor)


def test_a_journal_torn_at_every_byte_of_its_last_entry() -> None:
    disk, log = written()
    journal = f"/{FOLDER}/journal.hw"
    whole = len(disk.dump()[journal])
    log.delete([LAST])
    log.sync()
    disk.kill()
    size = len(disk.dump()[journal])
    for end in range(whole, size):
        survivor = disk.clone()
        torn = survivor.open(journal)
        torn.truncate(end)
        torn.close()
        log = reopened(survivor)
        assert sorted(read_everything(log)) == LIVE
        assert [found.kind for found in log.findings.reported] == ["torn"] * (end > whole)
        assert [entry.body for entry in log.entries] == [b"first", b"second"]
        go_on(log, survivor)


@pytest.mark.parametrize(("life", "path"), FILES)
def test_a_file_that_is_gone(life: str, path: str) -> None:
    survivor = DISKS[life].clone()
    survivor.remove(path)
    if path.endswith("stream.hw"):
        with pytest.raises(StoreError, match=r"stream\.hw"):
            reopened(survivor)
        return
    log = reopened(survivor)
    # A last segment that is gone without a trace cannot be told from one that never was.
    if path != max(name for name in [*survivor.files(), path] if "segment" in name):
        check(log, survivor)


@pytest.mark.parametrize(("life", "path"), FILES)
def test_a_file_of_another_stream(life: str, path: str) -> None:
    survivor = DISKS[life].clone()
    other = SimDisk()
    create_log(other, FOLDER, SeededEntropy(labelled_rng(2, "other"))).close()
    foreign = next(iter(other.dump().values()))
    for name, data in other.dump().items():
        if name.rpartition("/")[2][:6] == path.rpartition("/")[2][:6]:
            foreign = data
    if path.endswith("stream.hw"):
        return
    survivor.remove(path)
    file = survivor.create(path)
    file.write(foreign)
    file.close()
    log = reopened(survivor)
    assert log.findings.reported
    check(log, survivor)


@pytest.mark.parametrize("name", ["journal.hw", "segment-00000000000000000001.hw", "stream.hw"])
def test_a_file_of_a_newer_version_is_refused_and_nothing_touched(name: str) -> None:
    survivor = DISKS["killed"].clone()
    path = f"/{FOLDER}/{name}"
    data = survivor.dump()[path]
    crc_at = 44 if name == "stream.hw" else 60
    header = with_version(data if name == "stream.hw" else data[:64], 99, crc_at)
    file = survivor.open(path)
    file.truncate(0)
    file.write(header if name == "stream.hw" else header + data[64:])
    file.close()
    before = survivor.dump()
    with pytest.raises(StoreError, match="version 99 is newer"):
        reopened(survivor)
    assert survivor.dump() == before


@pytest.mark.parametrize(("life", "path"), FILES)
def test_a_file_that_can_not_be_read_at_all(life: str, path: str) -> None:
    survivor = DISKS[life].clone()
    before = survivor.dump()
    fault = survivor.fail_read(path, 0, 2**62)
    log = reopened_or_refused(survivor)
    if isinstance(log, str):
        assert "Input/output error" in log
        assert survivor.dump() == before
        survivor.heal(fault)
        assert sorted(read_everything(reopened(survivor))) == LIVE
        return
    # The file was not needed to open the log: only its own messages cannot be read.
    for sequence in LIVE:
        if path.endswith(segment_name(log.index.segment_of(sequence).first_sequence)):
            with pytest.raises(StoreError, match="Input/output error"):
                log.get(sequence)
        else:
            assert log.get(sequence) == stored(sequence)
    survivor.heal(fault)
    assert sorted(read_everything(log)) == LIVE


# --- messages known to be gone stay gone --------------------------------------------------------


def without_footers(disk: SimDisk) -> None:
    """Cut the trailers off, so that segments have to be read record by record."""
    for path in disk.files():
        if "/segment" in path and path != max(name for name in disk.files() if "/segment" in name):
            file = disk.open(path)
            file.truncate(file.size - 1)
            file.close()


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("has_footers", [True, False])
def test_an_erased_record_is_no_message_whatever_else_is_lost(life: str, has_footers: bool) -> None:
    survivor = DISKS[life].clone()
    survivor.remove(f"/{FOLDER}/journal.hw")
    if not has_footers:
        without_footers(survivor)
    log = reopened(survivor)
    assert log.read(5, 1, 2**62).sequences != [5]
    assert log.get(5) is None
    assert 5 not in log.lost, "it was deleted on purpose"
    assert 5 not in read_everything(log)
    check(log, survivor)


def test_what_was_lost_while_running_stays_lost_though_a_footer_knows_it() -> None:
    disk, log = written()
    assert len(log.index.segments) >= 3
    offset = log.index.segments[0].offsets[2]
    path = f"/{FOLDER}/{segment_name(1)}"
    disk.flip_bit(path, offset + 40, 0)
    assert log.get(3) is None
    assert list(log.lost) == [(3, 3)]
    log.sync()
    disk.kill()
    # The message stays lost though the disk reads well again: its loss has been reported.
    disk.flip_bit(path, offset + 40, 0)
    again = reopened(disk)
    assert again.get(3) is None
    assert 3 not in read_everything(again)
    assert list(again.lost) == [(3, 3)]
    assert again.messages == len(LIVE) - 1


@pytest.mark.parametrize("begun_anew", [False, True])
def test_a_checkpoint_of_which_all_segments_were_removed_is_no_damage(begun_anew: bool) -> None:
    disk, log = written()
    log.close()
    log = reopened(disk)
    assert log.findings.reported == []
    if not begun_anew:
        log.checkpoints.write_now()
    last = log.index.segments[-1].first_sequence
    while log.index.segments[-1].first_sequence == last:
        append(log, log.last_sequence + 1)
    log.delete(range(1, log.index.segments[-1].first_sequence))
    assert log.index.segments[0].first_sequence > last
    messages = log.messages
    log.sync()
    disk.kill()
    again = reopened(disk)
    assert again.findings.reported == []
    assert again.messages == messages
    assert not again.lost
