"""Records that are read one by one make the index that the log had."""

import pytest

from headwater.store.index.log_index import LogIndex
from headwater.testing.disk import SimDisk
from tests.kit.logs import add_messages, log_after_kill, new_log, sequences_in


def columns(index: LogIndex) -> list[tuple[list[int], ...]]:
    return [
        (
            segment.offsets.tolist(),
            segment.sizes.tolist(),
            segment.timestamps_ns.tolist(),
        )
        for segment in index.segments
    ]


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_the_index_and_the_headers_that_messages_have_left_are_found(has_checkpoint: bool) -> None:
    disk = SimDisk()
    log = new_log(disk, 2)
    log.skip(1, 5, b"first")
    if has_checkpoint:
        log.checkpoints.write_now()
    add_messages(log, 1)
    log.skip(3, 7)
    log.skip(1, 8, b"second")
    add_messages(log, 1)
    again = log_after_kill(disk)
    assert sequences_in(again) == [1, 2, 4, 9]
    assert columns(again.index) == columns(log.index)
    # The journal has the ids of messages before the checkpoint.
    first = {} if has_checkpoint else {3: (b"first", 5)}
    assert again.passed == {**first, 8: (b"second", 8)}
