"""Writes the sample stores of this program's version, which later versions have to open.

    python -m tests.kit.stores.write_stores version_1

A sample is written once, by the version whose name it has, and never again. `expected.json` beside
the stores tells the contents that the version itself found in them.

    closed   a store that was closed in order
    fallen   one of a machine that fell: what segments and journals of the stream `always` had got
             since their last sync is gone, and is in the write-ahead file
    encoded  as `closed`, compressed and encrypted
"""

import json
import sys
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

from headwater.runtime.filesystem import SystemFileSystem
from headwater.store.disk.cipher import Cipher, ServerKey, StretchingCost
from headwater.store.disk.encoding import Encoding
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.entropy import SeededEntropy
from tests.kit import entries

CALLER_KIND = 300
SEGMENT_BYTES_MAX = 1000
MODES = {mode.value: mode for mode in SyncMode}
SERVER_KEY = ServerKey("correct horse", None, Cipher.AES_GCM, StretchingCost(1, 1, 1))
ENCODINGS = {
    "closed": Encoding(),
    "fallen": Encoding(),
    "encoded": Encoding(True, SERVER_KEY, Cipher.CHACHA20_POLY1305),
}


def open_sample(folder: str, sample: str, boot_id: str) -> Store:
    """Open a sample store, or make one."""
    store = open_store(
        SystemFileSystem(),
        folder,
        SeededEntropy(Random(sample)),
        boot_id,
        modes=MODES,
        encoding=ENCODINGS[sample],
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )
    return entries.redo(store)


def contents_of(log: FileLog) -> dict[str, Any]:
    """The contents of a log, as JSON has them."""
    batch = log.read(0, 2**62, 2**62)
    return {
        "last_sequence": log.last_sequence,
        "messages": [
            [m.sequence, m.subject.decode(), m.header.decode(), m.payload.decode(), m.timestamp_ns]
            for m in batch
        ],
        "expiring": [list(pair) for pair in sorted(log.expiries.pending())],
        "entries": [[entry.kind, entry.body.decode()] for entry in log.entries],
        "lost": [list(part) for part in log.lost],
        "body": log.body.decode(),
    }


def _append(store: Store, name: str, count: int, expiry_ns: int = 0) -> None:
    first = store.logs[name].last_sequence + 1
    batch = Batch(
        [b"s.%d" % (number % 3) for number in range(count)],
        [b"NATS/1.0\r\nA: b\r\n\r\n" if number % 2 else b"" for number in range(count)],
        [b"payload %d" % (first + number) for number in range(count)],
        [1000 + first + number for number in range(count)],
        [expiry_ns] * count,
    )
    entries.append(store, name, batch)


def _fill(store: Store, name: str) -> None:
    """Several segments with everything that a log can hold."""
    store.create_stream(name, body=name.encode(), mode=MODES[name])
    for turn in range(6):
        _append(store, name, 4, expiry_ns=10**18 if turn == 2 else 0)
        entries.write_entries(store, name, [(CALLER_KIND, b"entry %d" % turn)])
    entries.skip(store, name, 5, timestamp_ns=2000)
    entries.delete(store, name, range(1, 11), entries=[(CALLER_KIND, b"with a deletion")])
    entries.delete(store, name, [13], erase=True)
    _append(store, name, 3)
    entries.delete(store, name, [16, 22])


def _write(sample: str, folder: str) -> None:
    store = open_sample(folder, sample, "boot 1")
    for name in MODES:
        _fill(store, name)
    store.flush()
    if sample != "fallen":
        store.close()
        return
    store.sync()
    folder_of_log = Path(folder, "streams", "always")
    synced = {path: path.stat().st_size for path in folder_of_log.glob("*.hw")}
    _append(store, "always", 1)
    entries.write_entries(store, "always", [(CALLER_KIND, b"ahead")])
    entries.delete(store, "always", [12])
    store.abandon()
    for path, size in synced.items():
        with path.open("r+b") as file:
            file.truncate(size)


def main(version: str) -> None:
    """Write all samples, and the contents that are found in a copy of each."""
    folder = Path(__file__).parent / version
    folder.mkdir()
    expected = {}
    for sample in ENCODINGS:
        _write(sample, str(folder / sample))
        (folder / sample / "lock").unlink(missing_ok=True)
        with TemporaryDirectory() as copy:
            copytree(folder / sample, copy, dirs_exist_ok=True)
            store = open_sample(copy, sample, "boot 2")
            expected[sample] = {name: contents_of(log) for name, log in sorted(store.logs.items())}
            store.abandon()
    text = json.dumps(expected, indent=1)
    (folder / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
