"""Encoded files: plain to those above, changed only by appending, and honest about damage."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.checksums import crc32
from headwater.store.disk.encoding import (
    BLOCK_BYTES,
    BLOCK_RAW_BYTES_MAX,
    CUTS,
    FOLLOWS,
    HEADER_BYTES,
    REPLACES,
    EncodedFile,
)
from headwater.store.log.message_log import StoreError
from headwater.testing.disk import PowerLost, SimDisk, SimFile
from headwater.testing.entropy import SeededEntropy
from tests.unit.store.disk.encoded import (
    PATH,
    WHOLE,
    blocks_of,
    content,
    created,
    encodings,
    files_on,
    is_destroyed,
    live_blocks,
    noise,
    opened,
    operations_of,
    shape,
    three_blocks,
)

# --- written blocks -------------------------------------------------------------------------------


@encodings
def test_a_write_is_one_write_however_many_blocks_it_becomes(encoding: str) -> None:
    disk = SimDisk()
    file = created(disk, encoding)
    data = noise(1, 2 * BLOCK_RAW_BYTES_MAX + 100)
    assert operations_of(disk, lambda: file.write(data)) == ["write"]
    assert [size for _, _, size in shape(disk)] == [BLOCK_RAW_BYTES_MAX, BLOCK_RAW_BYTES_MAX, 100]
    assert content(disk, encoding) == data
    assert operations_of(disk, lambda: file.write(b"more")) == ["write"]
    assert content(disk, encoding) == data + b"more"


@encodings
def test_what_is_overwritten_is_replaced_durably_and_only_then_destroyed(encoding: str) -> None:
    disk = SimDisk()
    file = created(disk, encoding)
    file.write(noise(1, 300))
    steps = operations_of(disk, lambda: file.overwrite(10, b"new"))
    assert steps == ["write", "sync", "write", "sync", "overwrite"]
    assert shape(disk) == [(FOLLOWS, 0, 300), (REPLACES, 0, 300)]
    assert content(disk, encoding) == noise(1, 300)[:10] + b"new" + noise(1, 300)[13:]
    raw = disk.dump()[PATH]
    assert [is_destroyed(raw, block) for block in blocks_of(raw)] == [True, False]


def test_what_is_overwritten_with_itself_is_written_again_where_it_is() -> None:
    disk = SimDisk()
    file = three_blocks(disk)
    raw = disk.dump()[PATH]
    assert operations_of(disk, lambda: file.overwrite(50, WHOLE[50:150])) == ["overwrite"] * 2
    assert disk.dump()[PATH] == raw
    assert not disk.is_synced(PATH)


def test_what_replaces_a_block_may_compress_worse() -> None:
    disk = SimDisk()
    file = created(disk)
    file.write(bytes(5000))
    file.overwrite(100, noise(1, 4000))
    assert content(disk) == bytes(100) + noise(1, 4000) + bytes(900)


def test_overwriting_several_blocks_replaces_each() -> None:
    disk = SimDisk()
    file = created(disk)
    for number in range(3):
        file.write(noise(number, 100))
    file.overwrite(50, noise(9, 200))
    assert shape(disk)[3:] == [(REPLACES, 0, 100), (REPLACES, 100, 100), (REPLACES, 200, 100)]
    assert content(disk) == noise(0, 100)[:50] + noise(9, 200) + noise(2, 100)[50:]


def test_a_cut_between_blocks_cuts_the_file() -> None:
    disk = SimDisk()
    file = three_blocks(disk)
    assert operations_of(disk, lambda: file.truncate(100)) == ["truncate", "sync"]
    assert shape(disk) == [(FOLLOWS, 0, 100)]
    assert operations_of(disk, lambda: file.truncate(0)) == ["truncate", "sync"]
    assert disk.dump()[PATH][HEADER_BYTES:] == b""
    assert operations_of(disk, lambda: file.truncate(0)) == []


@encodings
def test_a_cut_inside_a_block_appends_what_is_kept_of_it(encoding: str) -> None:
    disk = SimDisk()
    file = three_blocks(disk, encoding)
    steps = operations_of(disk, lambda: file.truncate(150))
    assert steps == ["write", "sync", "write", "sync", "overwrite", "overwrite"]
    assert shape(disk)[3:] == [(CUTS, 100, 50)]
    assert file.size == 150
    assert content(disk, encoding) == WHOLE[:150]
    raw = disk.dump()[PATH]
    assert [is_destroyed(raw, block) for block in blocks_of(raw)] == [False, True, True, False]
    file.write(b"more")
    assert shape(disk)[4:] == [(FOLLOWS, 150, 4)]
    assert content(disk, encoding) == WHOLE[:150] + b"more"


def test_a_cut_before_what_was_changed_later_appends_a_cut_without_bytes() -> None:
    disk = SimDisk()
    file = three_blocks(disk)
    file.overwrite(0, b"new")
    assert operations_of(disk, lambda: file.truncate(100)) == ["write", "sync", *["overwrite"] * 2]
    assert shape(disk)[3:] == [(REPLACES, 0, 100), (CUTS, 100, 0)]
    assert file.read(0, 200) == b"new" + WHOLE[3:100]
    assert content(disk) == b"new" + WHOLE[3:100]
    file.write(b"more")
    assert content(disk) == b"new" + WHOLE[3:100] + b"more"


def test_a_cut_behind_what_was_changed_cuts_the_file() -> None:
    disk = SimDisk()
    file = three_blocks(disk)
    file.overwrite(0, b"new")
    file.write(b"more")
    assert operations_of(disk, lambda: file.truncate(300)) == ["truncate", "sync"]
    assert content(disk) == b"new" + WHOLE[3:]
    # The new end is in a block that is replaced by now: cutting the file would bring it back.
    file.overwrite(250, b"new")
    file.truncate(200)
    assert shape(disk)[-1] == (CUTS, 200, 0)
    assert content(disk) == b"new" + WHOLE[3:200]


def test_cuts_and_replacements_follow_each_other_in_any_order() -> None:
    disk = SimDisk()
    file = three_blocks(disk)
    file.truncate(250)
    file.truncate(220)
    file.overwrite(210, b"A" * 10)
    file.truncate(215)
    file.write(b"B" * 50)
    file.overwrite(205, b"C" * 30)
    file.truncate(100)
    file.write(b"D" * 50)
    file.truncate(120)
    assert file.read(0, 500) == WHOLE[:100] + b"D" * 20
    assert content(disk) == WHOLE[:100] + b"D" * 20
    raw = disk.dump()[PATH]
    live = live_blocks(blocks_of(raw))
    assert all(is_destroyed(raw, block) for block in blocks_of(raw) if block not in live)


@pytest.mark.parametrize("before", ["nothing", "cut", "replaced", "cut twice"])
def test_nothing_of_what_was_erased_is_left_in_the_file(before: str) -> None:
    disk = SimDisk()
    file = three_blocks(disk)
    if before == "replaced":
        file.overwrite(180, b"x")
    if before.startswith("cut"):
        file.truncate(190)
    if before == "cut twice":
        file.truncate(170)
    secret = WHOLE[120:160]
    assert secret in disk.dump()[PATH]
    file.overwrite(120, bytes(40))
    assert secret not in disk.dump()[PATH]
    assert file.read(110, 60) == WHOLE[110:120] + bytes(40) + WHOLE[160:170]


Step = tuple[str, float, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "overwrite", "truncate", "truncate", "open", "kill"]),
        st.floats(0, 1),
        st.integers(0, 300),
    ),
    max_size=25,
)


@encodings
@settings(max_examples=150, deadline=None)
@given(steps=steps)
def test_whatever_is_done_it_is_what_a_plain_file_would_be(
    encoding: str, steps: list[Step]
) -> None:
    disk = SimDisk()
    file, twin = created(disk, encoding), bytearray()
    for number, (what, where, size) in enumerate(steps):
        offset = round(where * len(twin))
        if what == "write":
            file.write(noise(number, size))
            twin += noise(number, size)
        elif what == "overwrite":
            size = min(size, len(twin) - offset)
            file.overwrite(offset, noise(number, size))
            twin[offset : offset + size] = noise(number, size)
        elif what == "truncate":
            file.truncate(offset)
            del twin[offset:]
        else:
            if what == "kill":
                disk.kill()
            file = opened(disk, encoding)
        assert file.size == len(twin)
        assert file.read(0, len(twin) + 10) == twin
        assert file.read(offset, size) == twin[offset : offset + size]
    raw = disk.dump()[PATH]
    live = live_blocks(blocks_of(raw))
    assert all(is_destroyed(raw, block) for block in blocks_of(raw) if block not in live)


def test_a_block_that_is_replaced_while_it_is_read_is_read_anew() -> None:
    disk = SimDisk()
    three_blocks(disk)
    raw = disk.dump()[PATH]
    beneath = MeddledFile(disk, blocks_of(raw)[1].place + BLOCK_BYTES)
    file = EncodedFile(beneath, raw[16:32], None, True, SeededEntropy(Random(1)))
    beneath.meddle = lambda: file.overwrite(100, b"new")
    assert file.read(90, 30) == WHOLE[90:100] + b"new" + WHOLE[103:120]


class MeddledFile(SimFile):
    """Calls a function between a reader's decision to read bytes and the read itself."""

    __slots__ = ("_at", "meddle")

    def __init__(self, disk: SimDisk, at: int) -> None:
        super().__init__(disk, disk.open(PATH)._inode)
        self._at = at
        self.meddle: Callable[[], object] | None = None

    def read(self, offset: int, size: int) -> bytes:
        meddle = self.meddle
        if meddle is not None and offset == self._at:
            self.meddle = None
            meddle()
        return super().read(offset, size)


# --- blocks of others -----------------------------------------------------------------------------


def append_raw(disk: SimDisk, data: bytes, path: str = PATH) -> None:
    file = disk.open(path)
    file.write(data)
    file.close()


@encodings
def test_a_block_of_another_file_is_none_of_this_one(encoding: str) -> None:
    disk = SimDisk()
    created(disk, encoding).write(b"mine")
    other = created(disk, encoding, "/other")
    other.write(b"mine")
    size = len(disk.dump()["/other"])
    other.write(b"not mine")
    append_raw(disk, disk.dump()["/other"][size:])
    found = content(disk, encoding)
    assert found.startswith(b"mine")
    assert not found[4:].strip(b"\0")


@encodings
def test_a_block_from_elsewhere_in_the_file_is_none(encoding: str) -> None:
    disk = SimDisk()
    created(disk, encoding).write(b"once")
    append_raw(disk, disk.dump()[PATH][HEADER_BYTES:])
    found = content(disk, encoding)
    assert found.startswith(b"once")
    assert not found[4:].strip(b"\0")


def test_nobody_without_the_key_gives_a_block_another_role() -> None:
    disk = SimDisk()
    three_blocks(disk, "encrypted")
    raw = disk.dump()[PATH]
    place = blocks_of(raw)[2].place
    head = bytearray(raw[place : place + BLOCK_BYTES - 4])
    head[21] = CUTS
    forged = bytes(head) + crc32(head, (crc32(raw[16:32]) + place) % 2**32).to_bytes(4, "little")
    disk.open(PATH).overwrite(place, forged)
    assert shape(disk)[2] == (CUTS, 200, 100)
    assert content(disk, "encrypted") == WHOLE[:200]


def test_files_without_a_key_have_a_random_salt_too() -> None:
    disk = SimDisk()
    files = files_on(disk)
    for path in ("/one", "/two"):
        files.create(path).write(b"same")
    one, two = disk.dump()["/one"], disk.dump()["/two"]
    assert one[16:32] != two[16:32]
    assert bytes(16) not in (one[16:32], two[16:32])


def test_a_newer_encoding_and_a_missing_key_are_refused() -> None:
    disk = SimDisk()
    created(disk, "encrypted").write(b"secret")
    with pytest.raises(StoreError, match="no key"):
        files_on(disk, "compressed").open(PATH)
    raw = bytearray(disk.dump()[PATH][: HEADER_BYTES - 4])
    raw[8] += 1
    append_raw_file(disk, "/newer", bytes(raw) + crc32(raw).to_bytes(4, "little"))
    with pytest.raises(StoreError, match="newer"):
        files_on(disk, "encrypted").open("/newer")


def append_raw_file(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.create(path)
    file.write(data)
    file.close()


# --- damage ---------------------------------------------------------------------------------------

ACTIONS: dict[str, Callable[[EncodedFile], None]] = {
    "first replaced": lambda file: file.overwrite(10, b"new"),
    "replaced": lambda file: file.overwrite(110, b"new"),
    "replaced again": lambda file: file.overwrite(115, b"newer"),
    "last replaced": lambda file: file.overwrite(210, b"new"),
    "cut": lambda file: file.truncate(150),
    "cut again": lambda file: file.truncate(120),
    "cut between": lambda file: file.truncate(100),
    "grown": lambda file: file.write(noise(5, 80)),
    "grown again": lambda file: file.write(noise(6, 80)),
}
LAYOUTS = [
    "grown",
    "replaced",
    "replaced, grown",
    "replaced, replaced again",
    "last replaced",
    "cut",
    "cut, grown",
    "cut, replaced",
    "cut, replaced, grown",
    "cut, grown, replaced",
    "cut, grown, cut again, grown again",
    "first replaced, cut between",
    "first replaced, cut between, grown",
]


@encodings
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_flipped_bit_is_noticed_and_costs_no_other_block(encoding: str, layout: str) -> None:
    disk = SimDisk()
    file = three_blocks(disk, encoding)
    for action in layout.split(", "):
        ACTIONS[action](file)
    truth = content(disk, encoding)
    raw = disk.dump()[PATH]
    blocks = blocks_of(raw)
    live = live_blocks(blocks)
    for offset in range(HEADER_BYTES, len(raw)):
        hit = next(block for block in blocks if block.place <= offset < block.place_after)
        trial = disk.clone()
        trial.flip_bit(PATH, offset, offset % 8)
        found = content(trial, encoding)
        compared = zip(found, truth.ljust(len(found), b"\0"), strict=False)
        assert all(byte in (0, true) for byte, true in compared), f"wrong bytes, {hit} at {offset}"
        for block in live:
            if block != hit:
                part = slice(block.start, block.end)
                assert found[part] == truth[part], f"{block} is hurt, {hit} at {offset}"
        if hit in live:
            assert found != truth, f"{hit} at {offset} is not missed"
        elif hit.role == FOLLOWS or hit.raw_size:
            assert found == truth, f"{hit} at {offset} means nothing, and is missed"


@encodings
@pytest.mark.parametrize("size", [200, 210, 150, 100])
def test_a_damaged_end_is_cut_and_written_behind(encoding: str, size: int) -> None:
    disk = SimDisk()
    three_blocks(disk, encoding)
    last = blocks_of(disk.dump()[PATH])[-1]
    disk.flip_bit(PATH, last.place + 5, 1)
    file = opened(disk, encoding)
    assert file.size == 200 + BLOCK_BYTES + last.stored_size
    whole = WHOLE[:200] + bytes(file.size - 200)
    assert file.read(0, 1000) == whole
    with pytest.raises(OSError, match="damaged"):
        file.write(b"more")
    with pytest.raises(OSError, match="damaged"):
        file.overwrite(0, b"new")
    damaged = disk.dump()[PATH][last.place :]
    file.truncate(size)
    assert file.size == size
    assert content(disk, encoding) == whole[:size]
    file.write(b"more")
    assert file.read(0, 1000) == whole[:size] + b"more"
    assert content(disk, encoding) == whole[:size] + b"more"
    # Damaged bytes stay: they may still be of use.
    assert disk.dump()[PATH][last.place :].startswith(damaged)


@encodings
@pytest.mark.parametrize("part", ["header", "bytes"])
def test_bytes_of_a_damaged_block_are_repaired_and_the_others_are_zeros(
    encoding: str, part: str
) -> None:
    disk = SimDisk()
    three_blocks(disk, encoding)
    block = blocks_of(disk.dump()[PATH])[1]
    disk.flip_bit(PATH, block.place if part == "header" else block.place_after - 1, 0)
    file = opened(disk, encoding)
    file.overwrite(110, WHOLE[110:130])
    repaired = WHOLE[:100] + bytes(10) + WHOLE[110:130] + bytes(70) + WHOLE[200:]
    assert file.read(0, 1000) == repaired
    assert content(disk, encoding) == repaired
    file.overwrite(100, WHOLE[100:110])
    file.overwrite(130, WHOLE[130:200])
    assert file.read(0, 1000) == WHOLE
    assert content(disk, encoding) == WHOLE


@encodings
def test_a_damaged_block_can_be_cut(encoding: str) -> None:
    disk = SimDisk()
    three_blocks(disk, encoding)
    disk.flip_bit(PATH, blocks_of(disk.dump()[PATH])[1].place_after - 1, 0)
    file = opened(disk, encoding)
    file.truncate(150)
    file.write(b"more")
    assert file.read(0, 1000) == WHOLE[:100] + bytes(50) + b"more"
    assert content(disk, encoding) == WHOLE[:100] + bytes(50) + b"more"
    # Damaged bytes stay: they may still be of use.
    raw = disk.dump()[PATH]
    assert [is_destroyed(raw, block) for block in blocks_of(raw)[1:3]] == [False, True]


def test_damage_before_a_torn_block_is_noticed() -> None:
    disk = SimDisk()
    file = three_blocks(disk)
    place = blocks_of(disk.dump()[PATH])[-1].place
    file.write(noise(5, 100))
    raw = disk.open(PATH)
    raw.truncate(raw.size - 90)
    disk.flip_bit(PATH, place, 0)
    file = opened(disk)
    assert file.size > 200
    assert file.read(0, 1000) == WHOLE[:200] + bytes(file.size - 200)
    # The new blocks take the place of the rest of the torn block, and are no part of it.
    file.truncate(200)
    for number in range(3):
        file.write(noise(10 + number, 50))
    assert content(disk) == WHOLE[:200] + noise(10, 50) + noise(11, 50) + noise(12, 50)


def test_what_a_damaged_cut_has_cut_off_is_not_destroyed() -> None:
    disk = SimDisk()
    file = three_blocks(disk)
    # The server dies when the cut is on the disk and nothing is destroyed yet, and later again.
    disk.crash_at(disk.operations + 4)
    with pytest.raises(PowerLost):
        file.truncate(150)
    disk.kill()
    opened(disk).write(b"more")
    disk.kill()
    cut = blocks_of(disk.dump()[PATH])[3]
    assert cut.role == CUTS
    disk.flip_bit(PATH, cut.place_after - 1, 0)
    file = opened(disk)
    file.sync()
    assert file.read(0, 1000) == WHOLE[:100] + bytes(50) + b"more"
    assert WHOLE[100:200] in disk.dump()[PATH]
