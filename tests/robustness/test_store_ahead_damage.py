"""Damage to the files that all streams share: the write-ahead files and the store file.

The power goes when many confirmed messages are in the write-ahead file and nowhere else, and then a
bit of that file is flipped, every byte in turn. Every message that is read is right, every missing
message that was confirmed is reported as lost, and no sequence is given out twice.
"""

from collections.abc import Callable

import pytest

from headwater.store.disk.format import HEADER_BYTES, seed_of
from headwater.store.disk.wal import MARK, decode_frame
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch, StoreError
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit import entries
from tests.kit.format_versions import with_version
from tests.robustness.store_ledger import payloads_of

FOLDER = "/data"
STORE_FILE = f"{FOLDER}/store.hw"
STREAMS = ("a", "b")
CALLER_KIND = 300
SEGMENT_BYTES_MAX = 600
# The most messages that one damaged frame may cost.
FRAME_MESSAGES_MAX = 1


def opened(disk: SimDisk, boot_id: str) -> Store:
    store = open_store(
        disk,
        FOLDER,
        SeededEntropy(labelled_rng(disk.operations, "store")),
        boot_id,
        default_mode=SyncMode.ALWAYS,
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )
    return entries.redo(store)


class Told:
    """The operations on two streams; all of them are confirmed before the machine stops."""

    def __init__(self) -> None:
        self.given: dict[str, dict[int, bytes]] = {name: {} for name in STREAMS}
        self.deleted: dict[str, set[int]] = {name: set() for name in STREAMS}
        self._count = 0

    def append(self, store: Store, name: str, count: int) -> None:
        payloads = []
        for _ in range(count):
            self._count += 1
            payloads.append(b"%b %d" % (name.encode(), self._count))
        batch = Batch([b"s"] * count, [b""] * count, payloads, [1] * count)
        first = entries.append(store, name, batch)
        self.given[name].update(enumerate(payloads, first))

    def delete(self, store: Store, name: str, sequence: int, erase: bool = False) -> None:
        entries.delete(store, name, [sequence], erase)
        del self.given[name][sequence]
        self.deleted[name].add(sequence)


def life(disk: SimDisk, until_trim: bool) -> Told:
    """All that can be in a write-ahead file, confirmed; or two files, in the midst of a trim."""
    told = Told()
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    store = opened(disk, "boot 1")
    for name in STREAMS:
        store.create_stream(name, mode=SyncMode.ALWAYS)
        told.append(store, name, 3)
    store.trim()
    for name in STREAMS:
        told.append(store, name, 1)
        told.append(store, name, 1)
    entries.write_entries(store, "a", [(CALLER_KIND, b"entry")])
    told.delete(store, "a", 1)
    if until_trim:
        store.group_commit.begin_trim()
    else:
        # Their bytes are in entries before this, which must not be applied any more.
        told.delete(store, "b", 5, erase=True)
        told.delete(store, "a", 2, erase=True)
    for name in STREAMS:
        told.append(store, name, 1)
    told.append(store, "a", 1)
    return told


def after_life(until_trim: bool) -> tuple[SimDisk, Told]:
    disk = SimDisk()
    told = life(disk, until_trim)
    disk.power_loss("strict")
    return disk, told


LIVES = {
    "one file": after_life(until_trim=False),
    "two files": after_life(until_trim=True),
}
FILES = [
    (name, path) for name, (disk, _) in LIVES.items() for path in disk.files() if "/ahead" in path
]


def check(disk: SimDisk, told: Told, boot_id: str, goes_on: bool = True) -> Store:
    """Every message is right or reported as lost; then the streams go on."""
    store = opened(disk, boot_id)
    journal_is_whole = True
    for log in store.logs.values():
        reported = [found.detail for found in log.findings.reported]
        journal_is_whole &= not [detail for detail in reported if "journal" in detail]
    is_whole = journal_is_whole and not store.ahead_lost
    for name in STREAMS:
        check_stream(store.logs[name], told, name, is_whole)
    if goes_on:
        go_on(disk, store, told, boot_id)
    return store


def check_stream(log: FileLog, told: Told, name: str, is_whole: bool) -> None:
    found = payloads_of(log)
    given = told.given[name]
    for sequence, payload in found.items():
        if sequence not in given:
            # A deletion that is reported as lost brings the deleted message back.
            assert sequence in told.deleted[name], "it was cut off"
            assert not is_whole
            assert payload.startswith(name.encode())
        else:
            assert payload == given[sequence]
    for sequence in given:
        assert sequence in found or sequence in log.lost, f"{name} {sequence} is a silent hole"
    assert log.last_sequence >= max(given), "sequences would be given out twice"
    if is_whole:
        assert sorted(found) == sorted(given)


def go_on(disk: SimDisk, store: Store, told: Told, boot_id: str) -> None:
    expected, lost = {}, {}
    for name, log in store.logs.items():
        following = entries.append(store, name, Batch([b"s"], [b""], [b"later"], [2]))
        assert following > max(told.given[name])
        expected[name], lost[name] = payloads_of(log), list(log.lost)
    disk.power_loss("strict")
    store = opened(disk, f"{boot_id}, and another")
    assert not store.findings.reported
    for name, log in store.logs.items():
        assert payloads_of(log) == expected[name]
        assert list(log.lost) == lost[name]


@pytest.mark.parametrize("name", LIVES)
def test_without_damage_nothing_is_missing(name: str) -> None:
    disk, told = LIVES[name]
    survivor = disk.clone()
    store = check(survivor, told, "boot 2")
    assert store.findings.reported == []
    assert all(log.findings.reported == [] for log in store.logs.values())


def test_without_the_write_ahead_file_much_would_be_missing() -> None:
    """Else flipping its bits would prove nothing."""
    disk, told = LIVES["one file"]
    survivor = disk.clone()
    for path in survivor.files():
        if "/ahead" in path:
            survivor.remove(path)
    store = opened(survivor, "boot 2")
    missing = [
        sequence
        for name in STREAMS
        for sequence in told.given[name]
        if store.logs[name].get(sequence) is None
    ]
    assert len(missing) >= 3


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_bit_flipped_in_every_byte_after_the_power_went(name: str, path: str) -> None:
    disk, told = LIVES[name]
    for offset in range(len(disk.dump()[path])):
        survivor = disk.clone()
        survivor.flip_bit(path, offset, offset % 8)
        damaged = survivor.dump()[path]
        try:
            store = check(survivor, told, "boot 2", goes_on=offset % 4 == 0)
        except BaseException:
            print(f"{name}, {path}, byte {offset}")
            raise
        (kind,) = [found.kind for found in store.findings.reported]
        assert kind == ("unreadable" if offset < HEADER_BYTES else "damaged")
        if kind == "damaged":
            lost = [
                at for name in STREAMS for at in told.given[name] if at in store.logs[name].lost
            ]
            assert len(lost) <= FRAME_MESSAGES_MAX, "what is behind the damage is not used"
        assert damaged in [
            data for kept, data in survivor.dump().items() if kept.startswith(f"{FOLDER}/set-aside")
        ]


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_bit_flipped_in_every_byte_after_the_process_was_killed(name: str, path: str) -> None:
    """The streams' own files have everything then, and the write-ahead file can do no harm."""
    disk = SimDisk()
    told = life(disk, until_trim=name == "two files")
    disk.kill()
    for offset in range(0, len(disk.dump()[path]), 7):
        survivor = disk.clone()
        survivor.flip_bit(path, offset, offset % 8)
        store = opened(survivor, "boot 1")
        assert len(store.findings.reported) == 1
        for stream in STREAMS:
            assert payloads_of(store.logs[stream]) == told.given[stream]
            assert not store.logs[stream].lost


def test_the_last_write_torn_at_every_byte() -> None:
    """A torn write was never confirmed: it is set aside, and no message is reported as lost."""
    disk, _ = LIVES["one file"]
    (path,) = [path for path in disk.files() if "/ahead" in path]
    data = disk.dump()[path]
    last = max(at for at in range(len(data)) if is_frame(data, at, MARK))
    for size in range(last, len(data)):
        survivor = disk.clone()
        file = survivor.open(path)
        file.truncate(size)
        file.close()
        store = opened(survivor, "boot 2")
        assert [found.kind for found in store.findings.reported] in ([], ["torn"])
        assert all(not log.lost and not log.findings.reported for log in store.logs.values())
        if store.findings.reported:
            kept = [survivor.dump()[name] for name in survivor.files() if "/set-aside/" in name]
            assert len(kept) == 1
            assert data[:size].endswith(kept[0])


def is_frame(data: bytes, offset: int, kind: int) -> bool:
    frame = decode_frame(data, offset, seed_of(data))
    return frame is not None and frame.kind == kind


# --- the store file -----------------------------------------------------------------------------


def move_away(disk: SimDisk) -> None:
    disk.rename(STORE_FILE, "/moved")


@pytest.mark.parametrize("died", ["killed", "power lost"])
def test_a_bit_flipped_in_every_byte_of_the_store_file(died: str) -> None:
    disk = SimDisk()
    told = life(disk, until_trim=False)
    disk.kill() if died == "killed" else disk.power_loss("strict")
    for offset in range(len(disk.dump()[STORE_FILE])):
        survivor = disk.clone()
        survivor.flip_bit(STORE_FILE, offset, offset % 8)
        before = survivor.dump()
        # A second attempt is refused alike: the first one has released the folder.
        for _ in range(2):
            with pytest.raises(StoreError, match=r"store\.hw.*move it away"):
                opened(survivor, "boot 2")
        assert survivor.dump() == before
    # The store opens once the file is moved away.
    move_away(survivor)
    store = check(survivor, told, "boot 2")
    assert store.machine_fell
    assert all(not log.lost for log in store.logs.values())


def test_a_store_file_that_is_gone_costs_nothing_that_was_confirmed() -> None:
    disk, told = LIVES["one file"]
    survivor = disk.clone()
    survivor.remove(STORE_FILE)
    store = check(survivor, told, "boot 2")
    assert [found.kind for found in store.findings.reported] == ["missing"]


@pytest.mark.parametrize("name", ["store.hw", "ahead"])
def test_a_newer_version_is_refused_and_nothing_touched(name: str) -> None:
    disk, _ = LIVES["one file"]
    survivor = disk.clone()
    (path,) = [path for path in survivor.files() if f"/{name}" in path]
    data = survivor.dump()[path]
    size = len(data) if name == "store.hw" else 64
    file = survivor.open(path)
    file.truncate(0)
    file.write(with_version(data[:size], 99, size - 4) + data[size:])
    file.close()
    before = survivor.dump()
    with pytest.raises(StoreError, match="version 99 is newer"):
        opened(survivor, "boot 2")
    assert survivor.dump() == before


def ahead_of_another_store(survivor: SimDisk, path: str) -> None:
    other = SimDisk()
    other.make_folder(FOLDER)
    store = open_store(other, FOLDER, SeededEntropy(labelled_rng(5, "other")), "boot 1")
    store.create_stream("a", mode=SyncMode.ALWAYS)
    entries.append(store, "a", Batch([b"s"], [b""], [b"not ours"], [1]))
    (foreign,) = [data for name, data in other.dump().items() if "/ahead" in name]
    survivor.remove(path)
    file = survivor.create(path)
    file.write(foreign)
    file.close()


def nothing_of_it(survivor: SimDisk, path: str) -> None:
    file = survivor.open(path)
    file.truncate(0)
    file.write(bytes(1000))
    file.close()


@pytest.mark.parametrize("change", [ahead_of_another_store, nothing_of_it])
def test_a_file_that_is_not_our_write_ahead_file(change: Callable[[SimDisk, str], None]) -> None:
    disk, told = LIVES["one file"]
    survivor = disk.clone()
    (path,) = [path for path in disk.files() if "/ahead" in path]
    change(survivor, path)
    store = check(survivor, told, "boot 2")
    assert [found.kind for found in store.findings.reported] == ["unreadable"]


def test_a_stream_that_can_not_be_read_does_not_keep_the_others_from_it() -> None:
    disk, told = LIVES["one file"]
    survivor = disk.clone()
    path = f"{FOLDER}/streams/a/stream.hw"
    survivor.flip_bit(path, 20, 3)
    store = opened(survivor, "boot 2")
    assert list(store.logs) == ["b"]
    assert "stream.hw" in store.unreadable["a"]
    # The confirmed messages of the stream are kept, for an operator who restores that file.
    assert [found.kind for found in store.findings.reported] == ["unreadable", "unreadable"]
    assert any("/set-aside/ahead" in name for name in survivor.files())
    check_stream(store.logs["b"], told, "b", is_whole=True)
    with pytest.raises(StoreError, match="there already"):
        store.create_stream("a")
