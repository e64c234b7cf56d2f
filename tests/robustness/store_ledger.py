"""Promises of a store about its logs, and whether a store opened later keeps them.

The user of a store keeps a ledger beside it, which survives every crash. For each sequence it knows
the payloads that may be read, whether one must be there, and whether none may be there any more.
"""

from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import ALL_SUBJECTS, Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit import entries

FOLDER = "data/jetstream"
SEGMENT_BYTES_MAX = 700
MODES = {
    "always": SyncMode.ALWAYS,
    "also-always": SyncMode.ALWAYS,
    "interval": SyncMode.INTERVAL,
    "async": SyncMode.ASYNC,
}
CALLER_KIND = 300


def opened(disk: SimDisk, boot_id: str) -> Store:
    """The store, with every stream in its mode."""
    store = open_store(
        disk,
        FOLDER,
        SeededEntropy(labelled_rng(disk.operations, "store")),
        boot_id,
        modes=MODES,
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )
    return entries.redo(store)


class LogLedger:
    """The promises about one log."""

    def __init__(self, mode: SyncMode) -> None:
        self.mode = mode
        # The payloads that may be read at a sequence: two only while either may be stored.
        self.allowed: dict[int, set[bytes]] = {}
        self.given: dict[int, bytes] = {}
        # The last sequence that the log reported as synced.
        self.synced = 0
        # The sequences that the user asked to remove, and those that are removed for good.
        self.going: set[int] = set()
        self.gone: set[int] = set()
        self.entries = 0
        self.entries_synced = 0

    def check(self, log: FileLog) -> None:
        """Check the promises against a log that was just opened after a power loss."""
        found = payloads_of(log)
        for sequence, payload in found.items():
            assert payload in self.allowed.get(sequence, ()), f"{sequence} was never written so"
            assert sequence not in self.gone, f"{sequence} was deleted for good"
        wanted = set(self.given) - self.going
        missing = wanted - set(found)
        assert all(sequence > self.synced for sequence in missing), f"{missing} were synced"
        later = [at for at in found if missing and at > min(missing)]
        assert not later, f"{missing} are missing and {later} behind them are not"
        if self.mode is SyncMode.ALWAYS:
            assert log.last_sequence >= self.synced
            assert not log.lost.within(1, self.synced)
        else:
            assert log.last_sequence >= max(self.given, default=0)
            assert all(sequence in log.lost for sequence in missing), "lost and not said"
        bodies = [int.from_bytes(entry.body, "little") for entry in log.entries]
        assert bodies == list(range(len(bodies))), "entries have no holes"
        assert self.entries_synced <= len(bodies) <= self.entries + 1


def payloads_of(log: FileLog) -> dict[int, bytes]:
    """Every message of a log, read one by one and all at once."""
    found = {}
    sequence = log.next_sequence_of([ALL_SUBJECTS], 0)
    while sequence:
        message = log.get(sequence)
        assert message is not None
        assert message.sequence == sequence
        found[sequence] = message.payload
        sequence = log.next_sequence_of([ALL_SUBJECTS], sequence + 1)
    batch = log.read(0, 2**62, 2**62)
    assert dict(zip(batch.sequences, batch.payloads, strict=True)) == found
    return found


class Workload:
    """Uses a store as a server would, and notes the promises of the store."""

    def __init__(self) -> None:
        self.ledgers = {name: LogLedger(mode) for name, mode in MODES.items()}
        self.created: set[str] = set()
        self._count = 0

    def create(self, store: Store, name: str) -> None:
        store.create_stream(name, body=name.encode(), mode=MODES[name])
        self.created.add(name)

    def append(self, store: Store, name: str, count: int, size: int = 20) -> None:
        log, ledger = store.logs[name], self.ledgers[name]
        first = log.last_sequence + 1
        payloads = []
        for sequence in range(first, first + count):
            self._count += 1
            payload = f"{name} {self._count} ".encode().ljust(size, b".")
            payloads.append(payload)
            ledger.allowed.setdefault(sequence, set()).add(payload)
        subjects = [b"s.%d" % (number % 3) for number in range(count)]
        headers = [b"" if number % 2 else b"NATS/1.0\r\n\r\n" for number in range(count)]
        times = [self._count] * count
        assert entries.append(store, name, Batch(subjects, headers, payloads, times)) == first
        for sequence, payload in enumerate(payloads, first):
            ledger.given[sequence] = payload

    def delete(self, store: Store, name: str, sequences: list[int], erase: bool = False) -> None:
        self.ledgers[name].going.update(sequences)
        entries.delete(store, name, sequences, erase)

    def write_entry(self, store: Store, name: str) -> None:
        ledger = self.ledgers[name]
        body = ledger.entries.to_bytes(4, "little")
        entries.write_entries(store, name, [(CALLER_KIND, body)])
        ledger.entries += 1

    def sync(self, store: Store, name: str) -> None:
        told = self._about_to_sync([name])
        store.logs[name].sync()
        self._synced(store, told)

    def commit(self, store: Store) -> None:
        names = [name for name, mode in MODES.items() if mode is SyncMode.ALWAYS]
        told = self._about_to_sync([name for name in names if name in store.logs])
        store.commit()
        self._synced(store, told)

    def close(self, store: Store) -> None:
        told = self._about_to_sync(list(store.logs))
        store.close()
        self._synced(store, told)

    def _about_to_sync(self, names: list[str]) -> dict[str, tuple[set[int], int]]:
        return {name: (set(self.ledgers[name].going), self.ledgers[name].entries) for name in names}

    def _synced(self, store: Store, told: dict[str, tuple[set[int], int]]) -> None:
        for name, (going, count) in told.items():
            ledger = self.ledgers[name]
            ledger.synced = store.logs[name].synced_sequence
            ledger.gone |= going
            ledger.entries_synced = count

    def check(self, store: Store) -> None:
        """A store that was just opened after a power loss keeps every promise."""
        assert self.created <= set(store.logs), "a stream that was created is gone"
        for name, log in store.logs.items():
            assert log.body == name.encode()
            self.ledgers[name].check(log)
