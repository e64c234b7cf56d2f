"""A real process that writes is killed, over and over, and nothing it was told is lost.

The child says on its standard output what it was told, before it goes on. The parent kills it after
so many lines, wherever it is by then, and opens the store as the next server would.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from headwater.runtime.filesystem import SystemFileSystem
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.entropy import SeededEntropy, labelled_dice

KILLS_PER_STREAM: Final = 25
SEGMENT_BYTES_MAX: Final = 20_000

CHILD: Final = """
import sys
from headwater.store.message_log import Batch
from tests.robustness.test_store_kill import opened

store = opened(sys.argv[1])
log = store.logs[sys.argv[2]] if store.logs else store.create_stream(sys.argv[2])
out = sys.stdout
turn = 0
while True:
    turn += 1
    first = log.last_sequence + 1
    numbers = range(first, first + 1 + turn % 40)
    payloads = [b"message %d " % number + bytes(number % 300) for number in numbers]
    count = len(payloads)
    log.append(Batch([b"s"] * count, [b""] * count, payloads, [first] * count))
    store.commit()
    out.write(f"{log.last_sequence}\\n")
    if turn % 7 == 0 and log.messages > 200:
        log.delete(range(log.first_sequence, log.last_sequence - 100))
        store.commit()
        out.write(f"deleted {log.first_sequence}\\n")
    if turn % 50 == 0:
        log.checkpoint()
    out.flush()
"""


def opened(folder: str) -> Store:
    """The store of the child; a stream's name is its mode."""
    return open_store(
        SystemFileSystem(),
        folder,
        SeededEntropy(labelled_dice(1, "store")),
        "the same boot",
        modes={mode.value: mode for mode in SyncMode},
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )


def write_and_be_killed(folder: Path, stream: str, lines: int) -> list[str]:
    """Let a child write until it has said so much; returns all that it said."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), stream],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    with child.stdout:
        said = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        said += child.stdout.readlines()
    child.wait()
    # The last line may have been cut off by the kill.
    return [line for line in said if line.endswith("\n")]


@pytest.mark.parametrize("stream", [SyncMode.INTERVAL.value, SyncMode.ALWAYS.value])
def test_nothing_that_was_said_to_be_written_is_missing(tmp_path: Path, stream: str) -> None:
    written = first = 0
    for kill in range(KILLS_PER_STREAM):
        said = write_and_be_killed(tmp_path, stream, lines=1 + kill * 3 % 40)
        for line in said:
            if line.startswith("deleted"):
                first = int(line.removeprefix("deleted "))
            else:
                written = int(line)
        store = opened(str(tmp_path))
        log = store.logs[stream]
        assert log.last_sequence >= written
        assert log.first_sequence >= first
        assert list(log.lost) == []
        batch = log.read(0, 2**62, 2**62)
        # Deletions behind the last word may have been made: what is there has no hole.
        assert batch.sequences == list(range(log.first_sequence, log.last_sequence + 1))
        for sequence, payload in zip(batch.sequences, batch.payloads, strict=True):
            assert payload == b"message %d " % sequence + bytes(sequence % 300)
        # Left as if this process had been killed too.
        close_nothing(store)
    assert written > 1000


def close_nothing(store: Store) -> None:
    """Let go of a store as a process that dies does: nothing is written, only the lock is free."""
    for log in store.logs.values():
        log.go_offline("gone")
    store.close()
