"""Write-ahead files with groups that somebody has changed in any way: nothing is made up.

The store opens. Each entry that is found was written, behind the entry that it was written behind,
and a group that lacks something which it confirmed knows it.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.store.groups.frames import GroupEntry, GroupMode
from headwater.store.groups.group_log import GroupLog
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.group_ledger import GroupHost, standing_of

GROUPS = [bytes([number]) * 16 for number in range(1, 4)]


def opened(disk: SimDisk) -> Store:
    return open_store(
        disk, "/data", SeededEntropy(Random(disk.operations)), "boot", ahead_bytes_max=1_500
    )


def lived() -> tuple[SimDisk, GroupHost, dict[tuple[bytes, int, int], set[tuple[bytes, int]]]]:
    """A disk after a life of three groups, and all entries by the term before them."""
    disk, host = SimDisk(), GroupHost()
    host.start(opened(disk))
    for identity in GROUPS:
        host.create(identity, GroupMode.SYNCED)
    written: dict[tuple[bytes, int, int], set[tuple[bytes, int]]] = {}
    for turn in range(12):
        for identity in GROUPS:
            host.append(identity, 1 + turn % 2, back=turn % 3)
            if turn % 4 == 1:
                host.vote(identity, f"server {turn}", back=1)
            note_entries(identity, host.log(identity), written)
        host.commit()
        host.compact(GROUPS[turn % 2], keeps=2)
    disk.kill()
    return disk, host, written


def note_entries(
    identity: bytes, log: GroupLog, written: dict[tuple[bytes, int, int], set[tuple[bytes, int]]]
) -> None:
    for entry in entries_of(log):
        key = (identity, entry.index, entry.term)
        written.setdefault(key, set()).add((entry.data, log.term_at(entry.index - 1)))


def entries_of(log: GroupLog) -> list[GroupEntry]:
    if log.last_index < log.first_index:
        return []
    return log.entries(log.first_index, log.last_index, 10**6)


DISK, HOST, WRITTEN = lived()
PATHS = [path for path in DISK.files() if "/ahead" in path]

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.sampled_from(["overwrite", "cut", "remove", "double", "drop"]),
        st.integers(0, 4_000),
        st.binary(min_size=1, max_size=60),
    ),
    min_size=1,
    max_size=3,
)


def changed(data: bytes, change: str, offset: int, patch: bytes) -> bytes:
    at = offset % (len(data) + 1)
    if change == "overwrite":
        return data[:at] + patch + data[at + len(patch) :]
    if change == "cut":
        return data[:at]
    if change == "remove":
        return data[:at] + data[at + len(patch) :]
    return data[:at] + data[max(at - 200, 0) : at] + data[at:]


@settings(max_examples=400, deadline=None)
@given(CHANGES)
def test_no_change_of_the_files_makes_up_an_entry_or_hides_a_loss(
    changes: list[tuple[str, str, int, bytes]],
) -> None:
    disk = DISK.clone()
    for path, change, offset, patch in changes:
        if path not in disk.files():
            continue
        data = disk.dump()[path]
        disk.remove(path)
        if change != "drop":
            disk.create(path).write(changed(data, change, offset, patch))
    store = opened(disk)
    for identity in GROUPS:
        if identity not in store.groups:
            continue
        log = store.groups[identity]
        for entry in entries_of(log):
            key = (identity, entry.index, entry.term)
            assert (entry.data, log.term_at(entry.index - 1)) in WRITTEN[key]
        is_whole = standing_of(log) == HOST.twins[identity].last
        is_shortened = any(change in ("cut", "drop") for _, change, _, _ in changes)
        assert is_whole or log.may_have_forgotten or is_shortened
