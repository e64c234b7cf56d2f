"""A store of several streams: one sync for all, nothing lost, nothing given out twice."""

from dataclasses import dataclass, field
from random import Random

import pytest

from headwater.store.disk.cipher import Cipher, ServerKey, StretchingCost
from headwater.store.disk.encoding import Encoding
from headwater.store.disk.wal import Redo
from headwater.store.group_commit import GroupCommit
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch, StoreError
from headwater.store.log.stream_file import StreamFileWriter
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import Mode, PowerLost, SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.entries import append, delete, redo

FOLDER = "/data"
MODES = {
    "safe": SyncMode.ALWAYS,
    "sure": SyncMode.ALWAYS,
    "quick": SyncMode.INTERVAL,
    "loose": SyncMode.ASYNC,
}
SEGMENT_BYTES = 1_500


CHEAP = StretchingCost(1, 1, 1)
SECRET = "correct horse"
ENCODINGS = {
    "plain": Encoding(),
    "compressed": Encoding(compresses=True),
    "encrypted": Encoding(True, ServerKey(SECRET, None, Cipher.AES_GCM, CHEAP), Cipher.AES_GCM),
}


def opened(disk: SimDisk, encoding: Encoding | None = None) -> Store:
    entropy = SeededEntropy(Random(disk.power_losses))
    store = open_store(
        disk,
        FOLDER,
        entropy,
        disk.boot_id,
        MODES,
        encoding=encoding,
        segment_bytes_max=SEGMENT_BYTES,
    )
    return redo(store)


@dataclass
class Witness:
    """The confirmations that a client got, and every sequence that it may have seen."""

    created: list[str] = field(default_factory=list)
    confirmed: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, set[int]] = field(default_factory=dict)
    # Deletions that are requested and not yet confirmed: both outcomes are right.
    doomed: dict[str, set[int]] = field(default_factory=dict)
    given: dict[str, dict[int, bytes]] = field(default_factory=dict)
    # Messages that were about to be given, of streams that show them only once confirmed.
    unseen: dict[str, dict[int, bytes]] = field(default_factory=dict)

    def append(self, store: Store, name: str, payloads: list[bytes]) -> None:
        count = len(payloads)
        batch = Batch([b"s.%d" % count] * count, [b""] * count, payloads, [1] * count)
        first = store.logs[name].last_sequence + 1
        if MODES[name] is SyncMode.ALWAYS:
            # An entry may outlive a crash that comes before its messages are shown.
            self.unseen.setdefault(name, {}).update(enumerate(payloads, first))
        append(store, name, batch)
        given = self.given.setdefault(name, {})
        for sequence, payload in enumerate(payloads, first):
            assert sequence not in given, f"{name}: sequence {sequence} was given out twice"
            given[sequence] = payload
        if MODES[name] is SyncMode.ALWAYS:
            self.confirmed[name] = store.logs[name].synced_sequence


def workload(disk: SimDisk, witness: Witness, encoding: Encoding | None = None) -> None:
    """Streams of all modes: appends, deletions, rolled segments, flushes, a trim."""
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    store = opened(disk, encoding)
    for name, mode in MODES.items():
        store.create_stream(name, mode=mode)
        witness.created.append(name)
    for turn in range(12):
        for name in MODES:
            witness.append(store, name, [b"%b %d " % (name.encode(), turn) * 8] * (turn % 3 + 1))
        if turn == 5:
            witness.doomed["safe"] = {1, 2}
            delete(store, "safe", [1, 2])
            witness.deleted["safe"] = {1, 2}
        if turn == 8:
            store.trim()
        if turn % 4 == 3:
            store.flush()
    store.close()


def check(disk: SimDisk, witness: Witness, encoding: Encoding | None = None) -> None:
    """After a crash: open, compare with what was told, go on."""
    store = opened(disk, encoding)
    assert set(witness.created) <= set(store.logs), "a stream is gone"
    for name, log in store.logs.items():
        given = {**witness.unseen.get(name, {}), **witness.given.get(name, {})}
        batch = log.read(0, 10_000, 1 << 30)
        seen = dict(zip(batch.sequences, batch.payloads, strict=True))
        for sequence, payload in seen.items():
            assert given.get(sequence) == payload, f"{name}: {sequence} is not what was stored"
        deleted = witness.deleted.get(name, set())
        assert not deleted & set(seen), f"{name}: deleted messages came back"
        for sequence in range(1, witness.confirmed.get(name, 0) + 1):
            if sequence not in witness.doomed.get(name, set()):
                assert sequence in seen, f"{name}: confirmed message {sequence} is missing"
        if seen and name != "safe":
            assert list(seen) == list(range(1, max(seen) + 1)), f"{name}: a hole, not a suffix"
    for name in store.logs:
        witness.append(store, name, [b"after the crash"])
    store.close()


def total_operations(encoding: Encoding | None = None) -> int:
    disk = SimDisk()
    workload(disk, Witness(), encoding)
    return disk.operations


# The encrypted store is compressed too. A kill is a power loss that loses nothing.
@pytest.mark.parametrize(
    ("kind", "mode"), [("plain", "strict"), ("plain", "random"), ("encrypted", "random")]
)
def test_power_may_fail_at_any_operation(kind: str, mode: Mode) -> None:
    encoding = ENCODINGS[kind]
    for number in range(total_operations(encoding)):
        disk = SimDisk(seed=number)
        witness = Witness()
        disk.crash_at(number)
        with pytest.raises(PowerLost):
            workload(disk, witness, encoding)
        disk.power_loss(mode)
        check(disk, witness, encoding)


def test_the_process_may_be_killed_at_any_operation() -> None:
    for number in range(total_operations()):
        disk = SimDisk(seed=number)
        witness = Witness()
        disk.crash_at(number)
        with pytest.raises(PowerLost):
            workload(disk, witness)
        disk.kill()
        check(disk, witness)


def test_a_store_closed_in_order_has_nothing_to_report() -> None:
    disk = SimDisk()
    workload(disk, Witness())
    store = opened(disk)
    assert not store.machine_fell
    assert store.findings.reported == []
    assert all(log.findings.reported == [] for log in store.logs.values())
    assert sorted(store.logs) == sorted(MODES)
    store.close()


def test_two_servers_can_not_have_one_store() -> None:
    disk = SimDisk()
    store = opened(disk)
    with pytest.raises(StoreError, match="in use by another server"):
        opened(disk)
    store.close()
    opened(disk).close()


def test_a_stream_is_removed_with_all_its_files() -> None:
    disk = SimDisk()
    store = opened(disk)
    store.create_stream("going").append(Batch([b"s"], [b""], [b"x"], [1]))
    store.remove_stream("going")
    assert store.stream_names() == []
    assert disk.list_folder(f"{FOLDER}/streams") == []
    with pytest.raises(KeyError):
        store.remove_stream("going")
    store.create_stream("going")
    with pytest.raises(StoreError, match="there already"):
        store.create_stream("going")
    store.close()


@pytest.mark.parametrize("name", ["n" * 256, "$G/" + "n" * 255, "ü" * 127 + "/" + "ü" * 127])
def test_a_name_too_long_for_a_folder_is_kept_in_a_file(name: str) -> None:
    disk = SimDisk()
    store = opened(disk)
    store.create_stream(name, b"body")
    store.create_stream(name + "2")
    store.close()
    again = opened(disk)
    assert sorted(again.stream_names()) == sorted([name, name + "2"])
    assert again.logs[name].body == b"body"
    again.remove_stream(name)
    assert again.stream_names() == [name + "2"]
    again.close()


def everything_on(disk: SimDisk) -> bytes:
    return b"".join(disk.dump().values())


def test_nothing_readable_is_on_the_disk_of_an_encrypted_store() -> None:
    for kind, leaks in (("plain", True), ("encrypted", False)):
        disk = SimDisk()
        store = opened(disk, ENCODINGS[kind])
        for name in ("safe", "quick"):
            store.create_stream(name, b"the configuration", mode=MODES[name])
            append(store, name, Batch([b"the.subject"], [b"the header"], [b"the payload"], [1]))
        store.logs["quick"].checkpoints.write_now()
        for secret in (b"the.subject", b"the header", b"the payload", b"the configuration"):
            assert (secret in everything_on(disk)) is leaks


def test_a_wrong_key_is_refused_and_changes_nothing() -> None:
    disk = SimDisk()
    workload(disk, Witness(), ENCODINGS["encrypted"])
    before = disk.dump()
    wrong = Encoding(True, ServerKey("battery staple", None, Cipher.AES_GCM, CHEAP))
    for encoding in (wrong, None):
        with pytest.raises(StoreError):
            opened(disk, encoding)
    after = {path: data for path, data in disk.dump().items() if not path.endswith("/lock")}
    assert after == {path: data for path, data in before.items() if not path.endswith("/lock")}


def test_a_new_key_takes_over_from_the_previous_one() -> None:
    disk = SimDisk()
    witness = Witness()
    workload(disk, witness, ENCODINGS["encrypted"])
    rotating = Encoding(True, ServerKey("new", SECRET, Cipher.AES_GCM, CHEAP), Cipher.AES_GCM)
    opened(disk, rotating).close()
    rotated = Encoding(True, ServerKey("new", None, Cipher.AES_GCM, CHEAP), Cipher.AES_GCM)
    check(disk, witness, rotated)


def _nothing(*_: object) -> None:
    """A defence that is switched off."""


@pytest.mark.parametrize(
    ("owner", "defence", "found"),
    [
        (GroupCommit, "sync", "confirmed message"),
        (Redo, "add_entry", "confirmed message"),
        (FileLog, "continue_above_reservation", "given out twice"),
        (StreamFileWriter, "reserve", "given out twice"),
    ],
)
def test_without_each_defence_a_crash_costs_something(
    owner: object, defence: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep fails if a defence is switched off, while a run without faults passes."""
    monkeypatch.setattr(owner, defence, _nothing)
    disk = SimDisk()
    witness = Witness()
    workload(disk, witness)
    check(disk, witness)
    with pytest.raises(AssertionError, match=found):
        test_power_may_fail_at_any_operation("plain", "strict")


def test_every_start_is_counted_on_the_disk() -> None:
    disk = SimDisk()
    numbers = []
    for _ in range(3):
        numbers.append(opened(disk).start_number)
        disk.power_loss("strict")
    assert numbers == [1, 2, 3]
