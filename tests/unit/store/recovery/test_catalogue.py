"""The catalogue has every creation and deletion that it was given, or says that it has not."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.store.disk.findings import Findings
from headwater.store.disk.format import (
    HEADER_BYTES,
    JOURNAL_MAGIC,
    FileHeader,
    NewerFormatError,
    encode_entry,
)
from headwater.store.disk.set_aside import SET_ASIDE
from headwater.store.recovery import catalogue
from headwater.store.recovery.catalogue import (
    CATALOGUE_FILE,
    CREATED,
    DELETED,
    MADE,
    REMOVED,
    UNKNOWN_IDENTITY,
    Catalogue,
    CatalogueEntry,
    CatalogueState,
    Differences,
    compare,
)
from headwater.testing.disk import Mode, PowerLost, SimDisk, crash_points
from headwater.testing.disk_faults import Moment, Operation
from headwater.testing.entropy import SeededEntropy
from tests.kit.format_versions import with_version

FOLDER = "/data"
PATH = f"{FOLDER}/{CATALOGUE_FILE}"
STORE = b"the identity ..."
OTHER_STORE = b"another one ...."


def identity(number: int) -> bytes:
    return number.to_bytes(16, "big")


def created(name: str, number: int = 1) -> CatalogueEntry:
    return CatalogueEntry(CREATED, name, identity(number), b"record of " + name.encode())


def deleted(name: str, number: int = 1) -> CatalogueEntry:
    return CatalogueEntry(DELETED, name, identity(number))


def made(name: str, number: int = 1) -> CatalogueEntry:
    return CatalogueEntry(MADE, name, identity(number))


def removed(name: str, number: int = 1) -> CatalogueEntry:
    return CatalogueEntry(REMOVED, name, identity(number))


class Opened:
    """A catalogue that was just read, and what was reported."""

    def __init__(
        self,
        disk: SimDisk,
        machine_fell: bool = False,
        store: bytes = STORE,
        is_store_known: bool = True,
    ) -> None:
        disk.make_folder(FOLDER)
        disk.sync_folder("/")
        self.findings = Findings()
        entropy = SeededEntropy(Random(disk.operations))
        self.file = Catalogue(disk, FOLDER, store, lambda: entropy.random_bytes(16))
        self.file.read(self.findings, machine_fell, is_store_known)

    @property
    def content(self) -> list[CatalogueEntry]:
        return self.file.state.entries()

    @property
    def kinds(self) -> list[str]:
        return [finding.kind for finding in self.findings.reported]


def write(disk: SimDisk, *entries: CatalogueEntry) -> Opened:
    opened = Opened(disk)
    for entry in entries:
        opened.file.write([entry])
    return opened


ENTRIES = [created("a"), created("b", 2), deleted("a"), created("a", 3), removed("a"), made("b", 2)]
CONTENT = [created("b", 2), made("b", 2), created("a", 3)]


def test_a_catalogue_is_what_was_written() -> None:
    disk = SimDisk()
    assert write(disk, *ENTRIES).content == CONTENT
    again = Opened(disk)
    assert again.content == CONTENT
    assert again.kinds == []
    again.file.write([created("c", 4)])
    assert Opened(disk).content == [*CONTENT, created("c", 4)]


def test_reading_changes_nothing() -> None:
    disk = SimDisk()
    Opened(disk)
    assert disk.dump() == {}
    write(disk, *ENTRIES).file.close()
    for offset in (None, 100, 20):
        if offset is not None:
            disk.flip_bit(PATH, offset, 1)
        before = disk.dump()
        Opened(disk).file.close()
        assert disk.dump() == before


def test_a_deletion_names_an_incarnation() -> None:
    disk = SimDisk()
    opened = write(disk, created("a", 1), deleted("a", 1), created("a", 2), deleted("a", 1))
    assert opened.content == [deleted("a", 1), created("a", 2)]
    assert Opened(disk).content == opened.content


def test_a_stream_whose_creation_was_taken_back_and_repeated_is_there() -> None:
    disk = SimDisk()
    opened = write(disk, created("a"), deleted("a"), created("a"), made("a"))
    assert opened.content == [created("a"), made("a")]
    assert Opened(disk).content == opened.content


def test_a_hint_is_read_and_is_written_once_more_with_the_next_entry() -> None:
    disk = SimDisk()
    opened = write(disk, created("a"))
    opened.file.write_hint(made("a"))
    assert Opened(disk.clone()).content == [created("a"), made("a")]
    lost = disk.clone()
    lost.power_loss("strict")
    assert Opened(lost, machine_fell=True).content == [created("a")]
    opened.file.write([created("b", 2)])
    disk.power_loss("strict")
    assert Opened(disk, machine_fell=True).content == [created("a"), made("a"), created("b", 2)]


def test_a_hint_that_is_lost_before_a_later_entry_is_no_damage() -> None:
    disk = SimDisk()
    opened = write(disk, created("a"))
    size = disk.size_of(PATH)
    opened.file.write_hint(made("a"))
    opened.file.write([created("b", 2)])
    file = disk.open(PATH)
    file.overwrite(size, bytes(20))
    again = Opened(disk, machine_fell=True)
    assert again.content == [created("a"), made("a"), created("b", 2)]
    assert again.kinds == []


def test_waiting_entries_are_written_without_another() -> None:
    disk = SimDisk()
    opened = write(disk, created("a"))
    opened.file.write_later(made("a"))
    opened.file.write_waiting()
    disk.power_loss("strict")
    assert Opened(disk).content == [created("a"), made("a")]
    before = disk.operations
    opened.file.write_waiting()
    assert disk.operations == before


def test_a_catalogue_of_old_entries_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_ENTRIES_MIN", 10)
    disk = SimDisk()
    opened = write(disk, created("kept", 9))
    largest = 0
    for number in range(100):
        opened.file.write([created("a", number)])
        opened.file.write([deleted("a", number), removed("a", number)])
        largest = max(largest, disk.size_of(PATH))
    assert largest < 2000
    assert Opened(disk).content == [created("kept", 9)]


def test_a_rewrite_that_fails_leaves_the_file_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_ENTRIES_MIN", 3)
    disk = SimDisk()
    opened = write(disk, created("a"), deleted("a"), removed("a"))
    disk.fail("create", "*")
    opened.file.write([created("b", 2)])
    disk.heal()
    opened.file.write([created("c", 3)])
    assert Opened(disk).content == [created("b", 2), created("c", 3)]


# --- crashes ----------------------------------------------------------------------------------


def walk(disk: SimDisk, told: list[CatalogueEntry]) -> None:
    opened = Opened(disk)
    for entry in ENTRIES:
        opened.file.write([entry])
        told.append(entry)
        opened.file.write_hint(made("a", 7))


def state_after(entries: list[CatalogueEntry]) -> list[CatalogueEntry]:
    state = CatalogueState()
    for entry in entries:
        state.apply(entry)
    return state.entries()


@pytest.mark.parametrize("mode", ["strict", "random"])
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_the_power_may_go_at_any_operation(moment: Moment, mode: Mode) -> None:
    for number in crash_points(lambda disk: walk(disk, [])):
        for leftovers in ("zeros", "noise", "stale"):
            disk = SimDisk(seed=number, page_bytes=32, leftovers=leftovers)
            told: list[CatalogueEntry] = []
            disk.crash_at(number, moment)
            with pytest.raises(PowerLost):
                walk(disk, told)
            disk.power_loss(mode)
            opened = Opened(disk, machine_fell=True)
            assert opened.kinds == []
            following = ENTRIES[: len(told) + 1]
            assert opened.content in (state_after(told), state_after(following))
            opened.file.write([created("later", 8)])
            assert created("later", 8) in Opened(disk).content


def test_the_process_may_die_at_any_operation() -> None:
    for number in crash_points(lambda disk: walk(disk, [])):
        disk = SimDisk(seed=number)
        told: list[CatalogueEntry] = []
        disk.crash_at(number, "during")
        with pytest.raises(PowerLost):
            walk(disk, told)
        disk.kill()
        opened = Opened(disk)
        assert opened.kinds == []
        following = ENTRIES[: len(told) + 1]
        assert opened.content in (state_after(told), state_after(following))


def test_no_entry_of_an_earlier_file_is_read() -> None:
    disk = SimDisk()
    write(disk, created("a"), deleted("a")).file.close()
    old = disk.dump()[PATH]
    disk.remove(PATH)
    write(disk, created("a")).file.close()
    file = disk.open(PATH)
    # The blocks of the file had the earlier one before, and the machine fell.
    file.write(old[file.size :])
    opened = Opened(disk, machine_fell=True)
    assert opened.content == [created("a")]
    assert opened.kinds == []


def test_after_a_failed_sync_another_file_begins() -> None:
    disk = SimDisk()
    opened = write(disk, created("a"))
    disk.fail("sync", PATH)
    with pytest.raises(OSError, match=r".*"):
        opened.file.write([created("b", 2)])
    disk.heal()
    assert opened.content == [created("a")]
    opened.file.write([created("c", 3)])
    assert Opened(disk).content == [created("a"), created("c", 3)]


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_an_entry_that_was_refused_is_not_there_after_a_restart(operation: Operation) -> None:
    disk = SimDisk()
    opened = write(disk, created("a"))
    disk.fail(operation, PATH, kept_size=None)
    with pytest.raises(OSError, match=r".*"):
        opened.file.write([deleted("a")])
    assert Opened(disk).content == [created("a")]


def test_a_refused_entry_goes_when_the_disk_is_well_again() -> None:
    disk = SimDisk()
    opened = write(disk, created("a"))
    disk.fail("sync", "*catalogue*", times=None)
    with pytest.raises(OSError, match=r".*"):
        opened.file.write([deleted("a")])
    disk.heal()
    opened.file.write_waiting()
    assert Opened(disk).content == [created("a")]


# --- damage -----------------------------------------------------------------------------------


@given(st.data())
def test_a_changed_bit_is_reported_or_changes_nothing(data: st.DataObject) -> None:
    disk = SimDisk()
    write(disk, *ENTRIES).file.close()
    offset = data.draw(st.integers(0, disk.size_of(PATH) - 1))
    disk.flip_bit(PATH, offset, data.draw(st.integers(0, 7)))
    try:
        opened = Opened(disk)
    except NewerFormatError:
        raise AssertionError("the checksum comes first") from None
    if not opened.kinds:
        # A length that points behind the end is that of an entry which was not written whole.
        assert opened.content in (CONTENT, CONTENT[:1] + CONTENT[2:])
    else:
        assert opened.kinds in (["damaged"], ["unreadable"])
        assert not opened.file.state.unremoved, "nothing is removed because of it"
        assert all(stream.is_made for stream in opened.file.state.streams.values())
        opened.file.write([created("later", 8)])
        assert disk.list_folder(f"{FOLDER}/{SET_ASIDE}") == [f"{CATALOGUE_FILE}.0"]
        assert created("later", 8) in Opened(disk).content


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_can_be_read(data: bytes, has_header: bool) -> None:
    disk = SimDisk()
    write(disk, created("a")).file.close()
    file = disk.open(PATH)
    file.truncate(HEADER_BYTES if has_header else 0)
    file.write(data)
    opened = Opened(disk)
    assert opened.content == []
    assert has_header or opened.kinds == ["unreadable"]


def test_every_beginning_of_the_file_is_a_catalogue_of_what_came_before() -> None:
    disk = SimDisk()
    write(disk, *ENTRIES).file.close()
    file = disk.open(PATH)
    contents = [state_after(ENTRIES[:count]) for count in range(len(ENTRIES) + 1)]
    reached = len(ENTRIES)
    for size in range(file.size - 1, HEADER_BYTES - 1, -1):
        file.truncate(size)
        opened = Opened(disk)
        assert opened.kinds == []
        assert opened.content in contents[: reached + 1]
        reached = contents.index(opened.content)
    assert opened.content == []


def test_a_catalogue_of_another_store_is_not_used() -> None:
    disk = SimDisk()
    write(disk, created("a")).file.close()
    opened = Opened(disk, store=OTHER_STORE)
    assert opened.content == []
    assert opened.kinds == ["unreadable"]


def test_a_store_without_an_identity_only_misses_the_streams_of_its_catalogue() -> None:
    disk = SimDisk()
    write(disk, created("a"), created("b", 2), deleted("b", 2)).file.close()
    opened = Opened(disk, store=OTHER_STORE, is_store_known=False)
    assert opened.content == [created("a"), made("a")]
    assert opened.kinds == []
    opened.file.write([made("a")])
    assert Opened(disk, store=OTHER_STORE).content == opened.content


def test_a_catalogue_of_a_newer_version_is_refused() -> None:
    disk = SimDisk()
    write(disk, created("a")).file.close()
    file = disk.open(PATH)
    data = file.read(0, file.size)
    file.truncate(0)
    file.write(with_version(data[:HEADER_BYTES], 2, HEADER_BYTES - 4) + data[HEADER_BYTES:])
    with pytest.raises(NewerFormatError, match="format version 2 is newer"):
        Opened(disk)


# --- names --------------------------------------------------------------------------------------


def test_the_names_of_an_earlier_version_are_read_and_replaced() -> None:
    disk = SimDisk()
    Opened(disk)
    entries = [(256, b"a"), (256, b"b"), (256, b"c"), (257, b"b")]
    file = disk.create(PATH)
    file.write(FileHeader(JOURNAL_MAGIC, STORE, 0, bytes(16)).encode())
    file.write(b"".join(encode_entry(0, *entry) for entry in entries))
    file.close()
    opened = Opened(disk)
    assert sorted(opened.file.state.streams) == ["a", "c"]
    assert {stream.identity for stream in opened.file.state.streams.values()} == {UNKNOWN_IDENTITY}
    opened.file.write([created("a", 5), made("a", 5), deleted("c", 6), removed("c", 6)])
    assert Opened(disk).content == [created("a", 5), made("a", 5)]


# --- folders ------------------------------------------------------------------------------------


def test_folders_and_records_are_compared_by_incarnation() -> None:
    entries = [
        *(created(name, 1) for name in ("same", "unmade", "missing", "other", "unreadable")),
        *(made(name, 1) for name in ("same", "missing", "other", "unreadable")),
        *(created("leaving", 1), deleted("leaving", 1)),
        *(created("again", 1), deleted("again", 1), created("again", 2)),
        *(created("back", 1), deleted("back", 1), removed("back", 1)),
        *(created("moved", 1), deleted("moved", 1), created("moved", 1), made("moved", 1)),
    ]
    state = CatalogueState()
    for entry in entries:
        state.apply(entry)
    first, second = identity(1), identity(2)
    folders = {
        **dict.fromkeys(("same", "leaving", "again", "back", "moved", "new"), first),
        "other": second,
        "unreadable": None,
    }
    assert compare(state, folders) == Differences(
        unremoved=["leaving", "again"],
        unrecorded=["back", "new"],
        replaced=["other"],
        unmade=["again", "unmade"],
        missing=["missing"],
    )
