"""Encoded files are never half changed.

The process dies, the disk fails and the power goes at every operation, beside a twin that knows the
bytes that may be found then.
"""

import errno
from collections.abc import Callable
from random import Random

import pytest

from headwater.store.disk.encoding import (
    BLOCK_BYTES,
    BLOCK_RAW_BYTES_MAX,
    CUTS,
    FOLLOWS,
    REPLACES,
    EncodedFile,
)
from headwater.store.disk.layout import STREAM_FILE
from headwater.store.log.message_log import Batch
from headwater.store.recovery.opening import create_log, open_log
from headwater.testing.disk import Leftovers, Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment
from headwater.testing.entropy import SeededEntropy
from tests.unit.store.disk.encoded import (
    ENCODINGS,
    PATH,
    WHOLE,
    blocks_of,
    content,
    created,
    encodings,
    files_on,
    noise,
    opened,
    three_blocks,
)

# Pages are small, so that a block lies on several.
PAGE_BYTES = 64


class Twin:
    """The expected bytes of an encoded file, and those that may be found when it is stopped.

    Does everything to the file that it does to itself. Bytes below `durable` must be there.
    """

    file: EncodedFile

    def __init__(self) -> None:
        self._count = 0
        # The written bytes, also those of the operation that is under way.
        self.data = bytearray()
        self.durable = 0
        # The size before a write that is under way.
        self.written = 0
        # The positions at which blocks begin.
        self.starts: list[int] = []
        # An overwrite that is under way: for each block where its new bytes go, and these.
        self.changes: list[tuple[int, bytes]] = []
        # A cut that is under way, and whether it is made by a block.
        self.cut: int | None = None
        self.cuts_by_block = False
        # Bytes that were overwritten and must not be in the file any more.
        self.erased: list[bytes] = []

    def begin(self, disk: SimDisk, encoding: str) -> None:
        self.file = created(disk, encoding)
        self.file.sync()
        disk.sync_folder("/")

    def write(self, size: int) -> None:
        self._count += 1
        self.starts.append(len(self.data))
        self.data += noise(self._count, size)
        self.file.write(noise(self._count, size))
        self.written = len(self.data)

    def sync(self) -> None:
        self.file.sync()
        self.durable = len(self.data)

    def overwrite(self, offset: int, size: int) -> None:
        self._count += 1
        new = noise(self._count, size)
        edges = [offset, *(at for at in self.starts if offset < at < offset + size), offset + size]
        self.changes = [
            (edges[at], new[edges[at] - offset : edges[at + 1] - offset])
            for at in range(len(edges) - 1)
        ]
        self.file.overwrite(offset, new)
        for at, part in self.changes:
            self.erased.append(bytes(self.data[at : at + len(part)]))
            self.data[at : at + len(part)] = part
        self.changes = []
        self.durable = len(self.data)

    def truncate(self, size: int, by_block: bool) -> None:
        self.cut, self.cuts_by_block = size, by_block
        self.file.truncate(size)
        self.cut = None
        del self.data[size:]
        self.starts = [at for at in self.starts if at < size]
        self.durable = self.written = size

    # --- afterwards -----------------------------------------------------------------------------

    def with_changes(self, found: bytes) -> bytes:
        """The data, with the blocks that an overwrite under way has changed already."""
        data = bytearray(self.data)
        for at, part in self.changes:
            if found[at : at + len(part)] == part:
                data[at : at + len(part)] = part
        return bytes(data)

    def check_after_kill(self, found: bytes) -> int:
        """Check that all written bytes are there, and whole blocks of a write under way.

        Returns the size found.
        """
        data = self.with_changes(found)
        sizes = {self.written, *self.starts, len(data)} - set(range(self.written))
        if self.cut is not None:
            sizes = {len(data), self.cut}
        assert found in [data[:size] for size in sizes]
        return len(found)

    def check_after_power_loss(self, found: bytes) -> int:
        """Check that durable bytes are there, and no byte that was never written.

        Returns the size found.
        """
        data = self.with_changes(found)
        kept = self.durable if self.cut is None else min(self.durable, self.cut)
        assert found[:kept] == data[:kept]
        behind = zip(found[kept:], data[kept:].ljust(len(found), b"\0"), strict=False)
        assert all(byte in (0, true) for byte, true in behind)
        all_durable = self.durable == len(data)
        if all_durable and self.changes:
            assert found == data
        if all_durable and self.cut is not None and self.cuts_by_block:
            assert found in (data, data[: self.cut])
        return kept


def run(disk: SimDisk, encoding: str, twin: Twin) -> None:
    """Every order of writing, replacing and cutting, with and without syncs between."""
    twin.begin(disk, encoding)
    twin.write(200)
    twin.write(150)
    twin.sync()
    twin.write(100)
    twin.overwrite(50, 20)
    twin.write(120)
    twin.overwrite(340, 120)
    twin.truncate(400, by_block=True)
    twin.write(80)
    twin.truncate(380, by_block=True)
    twin.write(60)
    twin.write(90)
    twin.overwrite(360, 10)
    twin.overwrite(362, 10)
    twin.truncate(200, by_block=True)
    twin.write(70)
    twin.write(70)
    twin.write(50)
    twin.sync()
    twin.truncate(270, by_block=False)
    twin.write(30)
    twin.write(30)
    twin.sync()
    twin.overwrite(280, 40)
    twin.truncate(290, by_block=True)
    twin.write(40)
    twin.truncate(0, by_block=True)
    twin.write(100)
    twin.sync()


# Crashes begin behind the operations that create the file.
FIRST_POINT = 4


def points_of(encoding: str) -> range:
    return crash_points(lambda disk: run(disk, encoding, Twin()))[FIRST_POINT:]


POINTS = {encoding: points_of(encoding) for encoding in ENCODINGS}
LEFTOVERS: tuple[Leftovers, ...] = ("zeros", "noise", "stale")
FATES: tuple[tuple[Mode, int], ...] = (("strict", 0), *(("random", seed) for seed in range(4)))


def stopped_at(number: int, moment: Moment, encoding: str, seed: int = 0) -> tuple[SimDisk, Twin]:
    """The disk of a machine that stopped at an operation, and the twin of its file."""
    leftovers = LEFTOVERS[number % len(LEFTOVERS)]
    disk = SimDisk(1000 * number + seed, page_bytes=PAGE_BYTES, leftovers=leftovers)
    disk.crash_at(number, moment)
    twin = Twin()
    with pytest.raises(PowerLost):
        run(disk, encoding, twin)
    return disk, twin


def go_on(disk: SimDisk, encoding: str, kept: int, twin: Twin) -> None:
    """Go on as the users of a file do: cut the unsound end, write, and find all bytes again."""
    file = opened(disk, encoding)
    before = file.read(0, kept)
    file.truncate(kept)
    file.write(b"going on")
    assert file.read(0, kept + 100) == before + b"going on"
    file.sync()
    disk.power_loss("strict")
    assert content(disk, encoding) == before + b"going on"
    if encoding == "compressed":
        raw = disk.dump()[PATH]
        assert not [part for part in twin.erased if part in raw], "erased, and still there"


def test_the_workload_is_as_long_as_it_should_be() -> None:
    for encoding, points in POINTS.items():
        disk = SimDisk()
        run(disk, encoding, Twin())
        roles = {block.role for block in blocks_of(disk.dump()[PATH])}
        assert roles == {FOLLOWS, REPLACES, CUTS}
        assert len(points) > 50


@encodings
@pytest.mark.parametrize("moment", ["before", "during"])
def test_the_power_goes_at_every_operation(encoding: str, moment: Moment) -> None:
    for number in POINTS[encoding]:
        disk, twin = stopped_at(number, moment, encoding)
        for mode, seed in FATES:
            survivor = disk.clone(seed)
            survivor.power_loss(mode)
            kept = twin.check_after_power_loss(content(survivor, encoding))
            go_on(survivor, encoding, kept, twin)


@encodings
def test_the_process_dies_at_every_operation(encoding: str) -> None:
    for number in POINTS[encoding]:
        for seed in range(3):
            disk, twin = stopped_at(number, "during", encoding, seed)
            disk.kill()
            kept = twin.check_after_kill(content(disk, encoding))
            go_on(disk, encoding, kept, twin)


@encodings
def test_the_process_dies_and_the_power_goes_while_the_file_is_used_again(encoding: str) -> None:
    written = noise(1000, 50) + noise(1001, 100)

    def use_again(disk: SimDisk, synced: list[bool]) -> None:
        file = opened(disk, encoding)
        file.sync()
        synced.append(True)
        file.write(written[:50])
        file.write(written[50:])

    for number in POINTS[encoding]:
        disk, twin = stopped_at(number, "during", encoding)
        disk.kill()
        found = content(disk, encoding)
        for again in crash_points(lambda trial: use_again(trial, []), disk):
            survivor = disk.clone(again)
            survivor.crash_at(again, "during")
            synced: list[bool] = []
            with pytest.raises(PowerLost):
                use_again(survivor, synced)
            survivor.power_loss()
            after = content(survivor, encoding)
            if synced:
                assert after.startswith(found)
                behind = zip(after[len(found) :], written.ljust(len(after), b"\0"), strict=False)
                assert all(byte in (0, true) for byte, true in behind)
            else:
                twin.check_after_power_loss(after)


CHANGES: dict[str, tuple[Callable[[EncodedFile], object], bytes]] = {
    "write": (lambda file: file.write(b"more" * 10), WHOLE + b"more" * 10),
    "overwrite": (lambda file: file.overwrite(120, b"new"), WHOLE[:120] + b"new" + WHOLE[123:]),
    "cut": (lambda file: file.truncate(150), WHOLE[:150]),
}


@encodings
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_torn_at_any_byte_is_not_there(encoding: str, change: str) -> None:
    work, new = CHANGES[change]
    before = SimDisk()
    three_blocks(before, encoding)
    for number in crash_points(lambda disk: work(opened(disk, encoding)), before):
        for kept_size in (*range(BLOCK_BYTES + 2), *range(BLOCK_BYTES + 2, 200, 7)):
            disk = before.clone()
            disk.crash_at(number, "during", kept_size)
            with pytest.raises(PowerLost):
                work(opened(disk, encoding))
            disk.kill()
            found = content(disk, encoding)
            assert found in (WHOLE, new)
            file = opened(disk, encoding)
            file.write(b"going on")
            assert file.read(0, 1000) == found + b"going on"
            assert content(disk, encoding) == found + b"going on"


def test_of_a_large_write_that_is_torn_whole_blocks_are_there() -> None:
    data = noise(1, 2 * BLOCK_RAW_BYTES_MAX + 100)
    first = BLOCK_RAW_BYTES_MAX + BLOCK_BYTES
    for kept_size in (0, 1, first - 1, first, first + 1, first + 40, 2 * first, len(data)):
        disk = SimDisk()
        file = created(disk)
        disk.crash_at(disk.operations, "during", kept_size)
        with pytest.raises(PowerLost):
            file.write(data)
        disk.kill()
        assert content(disk) == data[: kept_size // first * BLOCK_RAW_BYTES_MAX]


def test_a_cut_that_was_given_up_does_not_come_back() -> None:
    # The header of the cut is on the disk and its bytes are not. The block written in their place
    # ends where the cut would have, and one more block follows there, on another page.
    disk = SimDisk(page_bytes=600)
    file = three_blocks(disk, "encrypted")
    disk.crash_at(disk.operations + 2, "before")
    with pytest.raises(PowerLost):
        file.truncate(250)
    for seed in range(300):
        survivor = disk.clone(seed)
        survivor.power_loss("strict")
        file = opened(survivor, "encrypted")
        file.write(noise(5, 50))
        file.write(noise(6, 50))
        survivor.power_loss("random")
        assert content(survivor, "encrypted").startswith(WHOLE)


# --- disks that fail ------------------------------------------------------------------------------


@encodings
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kept_size", [0, 10, BLOCK_BYTES, BLOCK_BYTES + 10])
def test_a_failed_write_leaves_what_was_there(encoding: str, change: str, kept_size: int) -> None:
    work, new = CHANGES[change]
    for skip in range(1 if change == "write" else 2):
        disk = SimDisk()
        file = three_blocks(disk, encoding)
        disk.fail("write", PATH, code=errno.ENOSPC, skip=skip, kept_size=kept_size)
        with pytest.raises(OSError, match="No space left"):
            work(file)
        assert file.size == len(WHOLE)
        assert file.read(0, len(WHOLE)) == WHOLE
        assert content(disk, encoding) == WHOLE
        # Cutting the file back needs no room, and the work then succeeds as if it had not failed.
        file.truncate(len(WHOLE))
        work(file)
        assert file.read(0, 1000) == new
        assert content(disk, encoding) == new


@encodings
@pytest.mark.parametrize("change", ["overwrite", "cut"])
@pytest.mark.parametrize("skip", [0, 1])
def test_where_a_sync_failed_nothing_is_destroyed(encoding: str, change: str, skip: int) -> None:
    work, new = CHANGES[change]
    disk = SimDisk(page_bytes=PAGE_BYTES)
    file = three_blocks(disk, encoding)
    disk.fail("sync", PATH, skip=skip)
    with pytest.raises(OSError, match="Input/output"):
        work(file)
    assert file.read(0, 1000) in (WHOLE, new)
    at_once = disk.clone()
    at_once.power_loss("strict")
    assert content(at_once, encoding) == WHOLE
    # The next process sees the bytes that the failed sync gave up, and no sync tells it so.
    disk.kill()
    opened(disk, encoding).sync()
    found = content(disk, encoding)
    disk.power_loss("strict")
    assert content(disk, encoding) == found


# --- a log on such files --------------------------------------------------------------------------

FOLDER = "/log"
SEGMENT_BYTES_MAX = 1000


def use_log(disk: SimDisk, encoding: str, given: dict[int, bytes]) -> None:
    """Append and erase messages; `given` has the messages that are not about to go."""
    log = create_log(
        files_on(disk, encoding), FOLDER, SeededEntropy(Random(1)), b"", 1, SEGMENT_BYTES_MAX
    )
    for turn in range(8):
        payloads = [noise(10 * turn + number, 60) for number in range(3)]
        first = log.append(Batch([b"a"] * 3, [b""] * 3, payloads, [turn] * 3))
        given.update(zip(range(first, first + 3), payloads, strict=True))
        if turn % 3 == 1:
            del given[first - 1]
            log.delete([first - 1], erase=True)


@encodings
def test_a_log_whose_process_dies_loses_nothing_and_finds_no_damage(encoding: str) -> None:
    for number in crash_points(lambda disk: use_log(disk, encoding, {})):
        disk = SimDisk(number)
        disk.crash_at(number, "during")
        given: dict[int, bytes] = {}
        with pytest.raises(PowerLost):
            use_log(disk, encoding, given)
        disk.kill()
        if not disk.exists(f"{FOLDER}/{STREAM_FILE}"):
            continue
        log = open_log(
            files_on(disk, encoding), FOLDER, SeededEntropy(Random(2)), False, SEGMENT_BYTES_MAX
        )
        assert list(log.lost) == []
        # A segment may not have its header yet.
        assert {found.kind for found in log.findings.reported} <= {"unreadable"}
        for sequence, payload in given.items():
            message = log.get(sequence)
            assert message is not None
            assert message.payload == payload
