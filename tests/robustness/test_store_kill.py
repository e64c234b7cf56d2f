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
KILLS_OF_ASYNC: Final = 10
SEGMENT_BYTES_MAX: Final = 20_000

CHILD: Final = """
import sys
from headwater.store.message_log import Batch
from headwater.store.store import SyncMode
from tests.robustness.test_store_kill import opened

store = opened(sys.argv[1])
name = sys.argv[2]
log = store.logs[name] if store.logs else store.create_stream(name, mode=SyncMode(name))
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


# Says every batch as soon as it is in memory, and only now and then that it was written.
ASYNC_CHILD: Final = """
import sys
from headwater.store.message_log import Batch
from headwater.store.store import SyncMode
from tests.robustness.test_store_kill import opened

store = opened(sys.argv[1])
name = sys.argv[2]
log = store.logs[name] if store.logs else store.create_stream(name, mode=SyncMode.ASYNC)
out = sys.stdout
turn = 0
while True:
    turn += 1
    count = 1 + turn % 40
    first = log.last_sequence + 1
    payloads = [b"message %d " % at + bytes(at % 300) for at in range(first, first + count)]
    assert log.append(Batch([b"s"] * count, [b""] * count, payloads, [first] * count)) == first
    out.write(f"given {first} {log.last_sequence}\\n")
    out.flush()
    if turn % 5 == 0:
        store.flush()
        out.write(f"written {log.written_sequence}\\n")
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


def write_and_be_killed(folder: Path, stream: str, lines: int, child_code: str) -> list[str]:
    """Let a child write until it has said so much; returns all that it said."""
    child = subprocess.Popen(
        [sys.executable, "-c", child_code, str(folder), stream],
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
        said = write_and_be_killed(tmp_path, stream, lines=1 + kill * 3 % 40, child_code=CHILD)
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


def test_an_async_stream_misses_an_end_and_gives_nothing_out_twice(tmp_path: Path) -> None:
    given: set[int] = set()
    missing_before: set[int] = set()
    for kill in range(KILLS_OF_ASYNC):
        written = 0
        said = write_and_be_killed(tmp_path, "async", 1 + kill * 7 % 30, ASYNC_CHILD)
        given_now: list[int] = []
        for line in said:
            kind, *numbers = line.split()
            if kind == "written":
                written = int(numbers[0])
            else:
                batch = range(int(numbers[0]), int(numbers[1]) + 1)
                assert given.isdisjoint(batch), "a sequence was given out twice"
                given.update(batch)
                given_now += batch
        store = opened(str(tmp_path))
        log = store.logs["async"]
        found = log.read(0, 2**62, 2**62)
        for sequence, payload in zip(found.sequences, found.payloads, strict=True):
            assert payload == b"message %d " % sequence + bytes(sequence % 300)
        missing = given - set(found.sequences)
        assert missing_before <= missing
        lost_now = sorted(missing - missing_before)
        assert lost_now == given_now[len(given_now) - len(lost_now) :], "not an end"
        assert all(sequence > written for sequence in lost_now)
        assert all(sequence in log.lost for sequence in missing), "missing and not said to be lost"
        assert log.last_sequence >= max(given)
        missing_before = missing
        close_nothing(store)
    assert len(given) > 1000


def close_nothing(store: Store) -> None:
    """Let go of a store as a process that dies does: nothing is written, only the lock is free."""
    for log in store.logs.values():
        log.go_offline("gone")
    store.close()
