"""The outcomes of a power loss, told once more by twins too dumb to be wrong.

The twins keep every state a page, a size or a name has had since it was synced. The simulated disk
must leave files made of those states; and whatever the disk does, bytes that were synced and not
touched since must be there.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.store.disk.filesystem import read_file
from headwater.testing.disk import Mode, SimDisk

# Small enough that a few bytes are a file of many pages.
PAGE_BYTES: Final = 4
MODES: Final[tuple[Mode, ...]] = ("strict", "kind", "random")

# --- the bytes of a file ------------------------------------------------------------------------


class DumbFile:
    """Every size and every state of every page that the medium may hold."""

    def __init__(self) -> None:
        self.data = b""
        self.sizes = {0}
        self.states: dict[int, list[bytes]] = {}
        self.given_up: set[int] = set()
        # The bytes that must be there after any power loss, by position.
        self.certain: dict[int, int] = {}

    def become(self, data: bytes) -> None:
        for page in range(max(len(data), len(self.data)) // PAGE_BYTES + 1):
            self.states.setdefault(page, [b""]).append(page_of(data, page))
        self.data = data
        self.sizes.add(len(data))

    def touch(self, offset: int, size: int) -> None:
        for index in range(offset, offset + size):
            self.given_up.discard(index // PAGE_BYTES)

    def write(self, data: bytes) -> None:
        self.touch(len(self.data), len(data))
        for byte in data:
            self.become(self.data + bytes([byte]))

    def overwrite(self, offset: int, data: bytes) -> None:
        self.touch(offset, len(data))
        self.become(self.data[:offset] + data + self.data[offset + len(data) :])
        for index in range(offset, offset + len(data)):
            self.certain.pop(index, None)

    def truncate(self, size: int) -> None:
        self.become(self.data[:size])
        self.given_up = {page for page in self.given_up if page * PAGE_BYTES < size}
        self.certain = {index: byte for index, byte in self.certain.items() if index < size}

    def sync(self) -> None:
        self.sizes = {len(self.data)}
        for page in self.states.keys() - self.given_up:
            self.states[page] = [page_of(self.data, page)]
        for index, byte in enumerate(self.data):
            if index // PAGE_BYTES not in self.given_up:
                self.certain[index] = byte

    def fail_sync(self) -> None:
        waiting = {page for page, states in self.states.items() if len(set(states)) > 1}
        self.given_up = {page for page in waiting if page * PAGE_BYTES < len(self.data)}

    def allows(self, outcome: bytes) -> bool:
        """Whether a power loss may leave these bytes."""
        last = -(-len(outcome) // PAGE_BYTES)
        return len(outcome) in self.sizes and all(
            any(
                page_of(full(newer)[:cut] + full(older)[cut:], 0, len(page_of(outcome, page)))
                == page_of(outcome, page)
                for older, newer in itertools.combinations_with_replacement(states, 2)
                for cut in range(PAGE_BYTES + 1)
            )
            for page in range(last)
            for states in [self.states.get(page, [b""])]
        )


def page_of(data: bytes, page: int, size: int = PAGE_BYTES) -> bytes:
    return data[page * PAGE_BYTES : page * PAGE_BYTES + size]


def full(image: bytes) -> bytes:
    return image.ljust(PAGE_BYTES, b"\0")


OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.binary(min_size=0, max_size=7)),
    st.tuples(st.just("overwrite"), st.integers(0, 12), st.binary(max_size=5)),
    st.tuples(st.just("truncate"), st.integers(0, 12)),
    st.tuples(st.just("sync")),
    st.tuples(st.just("fail_sync")),
)


def apply(disk: SimDisk, twin: DumbFile, operations: Sequence[tuple[object, ...]]) -> None:
    """Do the same to both, as far as it can be done."""
    file = disk.open("/f")
    for name, *arguments in operations:
        if name == "fail_sync":
            disk.fail("sync")
            with pytest.raises(OSError, match="Input/output error"):
                file.sync()
            disk.heal()
            twin.fail_sync()
            continue
        try:
            getattr(file, str(name))(*arguments)
        except OSError:
            # The operation was past the end, and changed nothing.
            continue
        getattr(twin, str(name))(*arguments)
        assert file.read(0, file.size) == twin.data


def disk_with_a_file() -> SimDisk:
    disk = SimDisk(page_bytes=PAGE_BYTES, leftovers="zeros")
    disk.create("/f").close()
    disk.sync_folder("/")
    return disk


@settings(max_examples=300)
@given(st.lists(OPERATIONS, max_size=12), st.integers(0, 1000))
def test_a_power_loss_leaves_only_what_is_possible(
    operations: list[tuple[object, ...]], seed: int
) -> None:
    disk, twin = disk_with_a_file(), DumbFile()
    apply(disk, twin, operations)
    for mode in MODES:
        survivor = disk.clone(seed)
        survivor.power_loss(mode)
        outcome = survivor.dump()["/f"]
        assert twin.allows(outcome), survivor.history()
        for index, byte in twin.certain.items():
            assert outcome[index : index + 1] == bytes([byte]), survivor.history()
        # Bytes that came back stay: a second power loss changes nothing.
        survivor.power_loss("strict")
        assert survivor.dump()["/f"] == outcome


@settings(max_examples=300)
@given(st.lists(OPERATIONS, max_size=12), st.integers(0, 1000))
def test_whatever_was_in_never_synced_blocks_what_was_synced_is_there(
    operations: list[tuple[object, ...]], seed: int
) -> None:
    disk, twin = disk_with_a_file(), DumbFile()
    apply(disk, twin, operations)
    for leftovers in ("noise", "stale"):
        survivor = disk.clone(seed)
        survivor.leftovers = leftovers
        survivor.power_loss()
        outcome = survivor.dump()["/f"]
        assert len(outcome) in twin.sizes
        for index, byte in twin.certain.items():
            assert outcome[index : index + 1] == bytes([byte]), survivor.history()


def outcomes_of(disk: SimDisk, seeds: int = 400) -> set[bytes]:
    found = set()
    for seed in range(seeds):
        survivor = disk.clone(seed)
        survivor.power_loss()
        found.add(survivor.dump()["/f"])
    return found


def test_every_possible_outcome_of_an_append_happens() -> None:
    disk, twin = disk_with_a_file(), DumbFile()
    apply(disk, twin, [("write", b"abcd"), ("sync",), ("write", b"efg")])
    possible = {
        bytes(outcome)
        for size in range(10)
        for outcome in itertools.product(*([byte, 0] for byte in b"abcdefg"[:size]))
        if twin.allows(bytes(outcome))
    }
    assert len(possible) == 1 + 2 + 3 + 4
    assert outcomes_of(disk) == possible


def test_every_possible_outcome_of_overwriting_twice_happens() -> None:
    disk, twin = disk_with_a_file(), DumbFile()
    operations = [("write", b"ab"), ("sync",), ("overwrite", 0, b"cd"), ("overwrite", 0, b"ef")]
    apply(disk, twin, operations)
    possible = {
        bytes(outcome)
        for outcome in itertools.product(b"abcdef", repeat=2)
        if twin.allows(bytes(outcome))
    }
    assert possible == {b"ab", b"cb", b"cd", b"ed", b"eb", b"ef"}
    assert outcomes_of(disk) == possible


def test_every_possible_outcome_of_a_truncation_happens() -> None:
    disk, twin = disk_with_a_file(), DumbFile()
    apply(disk, twin, [("write", b"abcdef"), ("sync",), ("truncate", 1), ("write", b"x")])
    outcomes = outcomes_of(disk, 2000)
    assert {b"abcdef", b"a", b"ax", b"ab", b"axcdef", b"ax\0\0ef", b"a\0\0\0ef"} <= outcomes
    assert all(twin.allows(outcome) for outcome in outcomes)


# --- the names in folders -----------------------------------------------------------------------

FOLDERS: Final = ("/p", "/q")
PATHS: Final = tuple(f"{folder}/{name}" for folder in FOLDERS for name in "xyz")
CHANGES_MAX: Final = 8
Names = dict[str, str]


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


@dataclass(eq=False)
class DumbChange:
    """`path` stands for `file` from now on, which leaves its other names in the same folder."""

    path: str
    file: str | None
    is_rename: bool = False
    after: "DumbChange | None" = None

    def apply(self, names: Names) -> Names:
        kept = {
            path: file
            for path, file in names.items()
            if path != self.path
            and not (
                self.is_rename and file == self.file and folder_of(path) == folder_of(self.path)
            )
        }
        return kept if self.file is None else {**kept, self.path: self.file}


@dataclass
class DumbFolders:
    """All changes since each folder was synced, in one list."""

    names: Names = field(default_factory=dict)
    synced: Names = field(default_factory=dict)
    changes: list[DumbChange] = field(default_factory=list)

    def change(self, change: DumbChange) -> DumbChange:
        self.names = change.apply(self.names)
        self.changes.append(change)
        return change

    def sync(self, folder: str) -> None:
        due = [change for change in self.changes if folder_of(change.path) == folder]
        for change in due:
            if change.after in self.changes:
                before = self.changes[: self.changes.index(change.after) + 1]
                place = folder_of(change.after.path)
                due += [each for each in before if folder_of(each.path) == place]
        for change in self.changes:
            if change in due:
                self.synced = change.apply(self.synced)
        self.changes = [change for change in self.changes if change not in due]

    def outcomes(self, *, ordered: bool) -> list[Names]:
        found = []
        for choice in itertools.product((False, True), repeat=len(self.changes)):
            kept = list(itertools.compress(self.changes, choice))
            if self.may_be(kept, ordered=ordered):
                names = self.synced
                for change in kept:
                    names = change.apply(names)
                found.append(names)
        return found

    def may_be(self, kept: list[DumbChange], *, ordered: bool) -> bool:
        if any(each.after in self.changes and each.after not in kept for each in kept):
            return False
        missing = {
            folder_of(each.path): each for each in reversed(self.changes) if each not in kept
        }
        return not ordered or not any(
            self.changes.index(each) > self.changes.index(missing[folder_of(each.path)])
            for each in kept
            if folder_of(each.path) in missing
        )


NAMINGS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(PATHS)),
    st.tuples(st.just("remove"), st.sampled_from(PATHS)),
    st.tuples(st.just("rename"), st.sampled_from(PATHS), st.sampled_from(PATHS)),
    st.tuples(st.just("sync"), st.sampled_from(FOLDERS)),
)


def name_alike(disk: SimDisk, twin: DumbFolders, namings: list[tuple[str, ...]]) -> None:
    """Do the same to both; every file holds the name it was created with, and a number."""
    for number, (what, path, *target) in enumerate(namings):
        exists = path in twin.names
        if what == "sync":
            disk.sync_folder(path)
            twin.sync(path)
        elif len(twin.changes) >= CHANGES_MAX or (what == "create") == exists:
            continue
        elif what == "create":
            file = disk.create(path)
            file.write(f"{path}{number}".encode())
            file.sync()
            file.close()
            twin.change(DumbChange(path, f"{path}{number}"))
        elif what == "remove":
            disk.remove(path)
            twin.change(DumbChange(path, None))
        elif target[0] != path:
            disk.rename(path, target[0])
            same = folder_of(path) == folder_of(target[0])
            arrival = twin.change(DumbChange(target[0], twin.names[path], is_rename=same))
            if not same:
                twin.change(DumbChange(path, None, after=arrival))


def names_on(disk: SimDisk) -> Names:
    return {path: data.decode() for path, data in disk.dump().items()}


@settings(max_examples=300)
@given(st.lists(NAMINGS, max_size=14), st.integers(0, 1000), st.booleans())
def test_a_power_loss_leaves_only_names_that_are_possible(
    namings: list[tuple[str, ...]], seed: int, ordered: bool
) -> None:
    disk, twin = SimDisk(ordered_folders=ordered), DumbFolders()
    for folder in FOLDERS:
        disk.make_folder(folder)
    disk.sync_folder("/")
    name_alike(disk, twin, namings)
    assert names_on(disk) == twin.names
    possible = twin.outcomes(ordered=ordered)
    expected = {"strict": [twin.synced], "kind": [twin.names], "random": possible}
    for mode in MODES:
        survivor = disk.clone(seed)
        survivor.power_loss(mode)
        assert names_on(survivor) in expected[mode], survivor.history()
        assert all(read_file(survivor, path) for path in survivor.files())
        survivor.power_loss("strict")
        assert names_on(survivor) in expected[mode]


@pytest.mark.parametrize("ordered", [False, True])
def test_every_possible_outcome_for_names_happens(ordered: bool) -> None:
    disk, twin = SimDisk(ordered_folders=ordered), DumbFolders()
    for folder in FOLDERS:
        disk.make_folder(folder)
    disk.sync_folder("/")
    namings = [
        ("create", "/p/x"),
        ("sync", "/p"),
        ("rename", "/p/x", "/p/y"),
        ("create", "/p/x"),
        ("rename", "/p/y", "/q/z"),
        ("create", "/p/z"),
    ]
    name_alike(disk, twin, namings)
    found = []
    for seed in range(400):
        survivor = disk.clone(seed)
        survivor.power_loss()
        found.append(names_on(survivor))
    possible = twin.outcomes(ordered=ordered)
    assert all(names in found for names in possible)
    assert all(names in possible for names in found)
