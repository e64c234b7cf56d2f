"""A real process that writes is killed, over and over, and nothing confirmed to it is lost.

The process reports each confirmation before it goes on. It is killed after a number of reports,
wherever it is by then, and the store is opened as the next server would.
"""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pytest

from headwater.store.store import Store, SyncMode
from tests.robustness.killed_writers import (
    GROUPS,
    Said,
    opened,
    payload_of,
    write,
    write_group,
    write_later,
)

KILLS_PER_STREAM: Final = 25
KILLS_OF_ASYNC: Final = 10
KILLS_OF_GROUPS: Final = 10

# Children are forked by a server of their own that has imported all they need.
PROCESSES: Final = get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "tests.robustness.killed_writers"])


def write_and_be_killed(
    folder: Path, stream: str, count: int, writer: Callable[[str, str, Connection], None]
) -> list[Said]:
    """Let a process write until it has made `count` reports. Returns all its reports."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=writer, args=(str(folder), stream, theirs))
    child.start()
    theirs.close()
    with ours:
        said: list[Said] = [ours.recv() for _ in range(count)]
        child.kill()
        try:
            while True:
                said.append(ours.recv())
        except (EOFError, OSError):
            # The last report may have been cut off by the kill.
            pass
    child.join()
    return said


@pytest.mark.parametrize("stream", [SyncMode.INTERVAL.value, SyncMode.ALWAYS.value])
def test_nothing_that_was_said_to_be_written_is_missing(tmp_path: Path, stream: str) -> None:
    written = first = 0
    for kill in range(KILLS_PER_STREAM):
        for word, sequence, _ in write_and_be_killed(tmp_path, stream, 1 + kill * 3 % 40, write):
            if word == "deleted":
                first = sequence
            else:
                written = sequence
        store = opened(str(tmp_path))
        log = store.logs[stream]
        assert log.last_sequence >= written
        assert log.first_sequence >= first
        assert list(log.lost) == []
        batch = log.read(0, 2**62, 2**62)
        # Deletions after the last report may have been made: the messages left have no gap.
        assert batch.sequences == list(range(log.first_sequence, log.last_sequence + 1))
        assert batch.payloads == [payload_of(sequence) for sequence in batch.sequences]
        # Left as if this process had been killed too.
        close_nothing(store)
    assert written > 1000


def test_an_async_stream_misses_an_end_and_gives_nothing_out_twice(tmp_path: Path) -> None:
    given: set[int] = set()
    missing_before: set[int] = set()
    for kill in range(KILLS_OF_ASYNC):
        written = 0
        given_now: list[int] = []
        said = write_and_be_killed(tmp_path, "async", 1 + kill * 7 % 30, write_later)
        for word, first, last in said:
            if word == "written":
                written = first
            else:
                batch = range(first, last + 1)
                assert given.isdisjoint(batch), "a sequence was given out twice"
                given.update(batch)
                given_now += batch
        store = opened(str(tmp_path))
        log = store.logs["async"]
        found = log.read(0, 2**62, 2**62)
        assert found.payloads == [payload_of(sequence) for sequence in found.sequences]
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


@pytest.mark.parametrize("name", GROUPS)
def test_no_vote_and_no_confirmed_entry_of_a_group_is_missing(tmp_path: Path, name: str) -> None:
    confirmed = 0
    for kill in range(KILLS_OF_GROUPS):
        said = write_and_be_killed(tmp_path, name, 1 + kill * 13 % 60, write_group)
        vote, term, confirmed = said[-1]
        store = opened(str(tmp_path))
        log = store.groups[GROUPS[name]]
        assert not log.may_have_forgotten
        assert log.state.term > term or (log.state.term, log.state.vote) == (term, vote)
        assert log.last_index >= confirmed
        found = log.entries(log.first_index, log.last_index, 2**62)
        assert [each.data for each in found] == [payload_of(each.index) for each in found]
        store.abandon()
    assert confirmed > 1000


def close_nothing(store: Store) -> None:
    """Let go of a store as a process that dies does: nothing is written, only the lock is free."""
    for log in store.logs.values():
        log.go_offline("gone")
    store.close()
