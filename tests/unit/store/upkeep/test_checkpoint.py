"""Checkpoints: of one moment however long they take to write, and used only where they fit."""

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from headwater.store.disk.segment import segment_name
from headwater.store.disk.unfinished import SUCCESSOR_SUFFIX
from headwater.store.index import log_index as index
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.recovery.opening import create_log, open_log
from headwater.store.upkeep import checkpoint_writing
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE
from headwater.store.upkeep.checkpoint_writing import CheckpointWriting
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.store_twin import Twin, file_size, same_dead_bytes, same_messages, same_state

FOLDER = "/stream"
PATH = f"{FOLDER}/{CHECKPOINT_FILE}"
SEGMENT_BYTES_MAX = 1_500


class Pair:
    """A log and its twin, to which the same is done."""

    def __init__(self, subjects: int = 9) -> None:
        self.disk = SimDisk()
        self.log = create_log(
            self.disk, FOLDER, SeededEntropy(Random(1)), segment_bytes_max=SEGMENT_BYTES_MAX
        )
        self.twin = Twin()
        self.subjects = subjects

    def append(self, count: int, size: int = 20) -> None:
        numbers = range(self.twin.last + 1, self.twin.last + 1 + count)
        batch = Batch(
            [b"s.%d" % (number * number % self.subjects) for number in numbers],
            [b""] * count,
            [b"message %d " % number + bytes(size) for number in numbers],
            [*numbers],
            [10**9 * (number % 3 == 0) for number in numbers],
        )
        self.twin.append(batch)
        self.log.append(batch)

    def delete(self, sequences: list[int]) -> None:
        self.twin.delete(sequences)
        self.log.delete(sequences)

    def check(self, log: FileLog) -> None:
        same_state(log, self.twin, file_size)
        same_messages(log, self.twin)
        same_dead_bytes(log)
        for subject in log.subject_counts():
            of_subject = self.twin.on([subject])
            for before, after in pairwise(of_subject):
                assert log.next_sequence_of([subject], before + 1) == after

    def reopened(self) -> FileLog:
        self.disk.kill()
        self.log = open_log(
            self.disk, FOLDER, SeededEntropy(Random(2)), segment_bytes_max=SEGMENT_BYTES_MAX
        )
        return self.log


def used(subjects: int = 9) -> Pair:
    pair = Pair(subjects)
    for _ in range(12):
        pair.append(6)
    pair.delete([3, 8, 20, 21, 22, 40])
    return pair


def write_all(work: CheckpointWriting, meanwhile: Callable[[], object] = lambda: None) -> int:
    pieces = 0
    while work.copy_piece():
        meanwhile()
        work.write_piece()
        meanwhile()
        pieces += 1
    return pieces


def small_pieces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoint_writing, "PIECE_PARTS_MAX", 1)
    patch.setattr(checkpoint_writing, "SUBJECTS_AT_A_TIME", 4)
    patch.setattr(checkpoint_writing, "EXPIRIES_AT_A_TIME", 5)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("subjects", [3, 40])
def test_it_is_of_the_moment_at_which_it_was_begun(
    seed: int, subjects: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_pieces(monkeypatch)
    quiet = used(subjects)
    work = quiet.log.checkpoints.begin()
    write_all(work)
    assert quiet.log.checkpoints.finish(work)

    pair = used(subjects)
    rng = Random(seed)

    def meanwhile() -> None:
        if rng.random() < 0.5:
            pair.append(rng.randint(1, 3))
        if rng.random() < 0.5:
            pair.delete([rng.randint(1, pair.twin.last) for _ in range(rng.randint(1, 4))])

    work = pair.log.checkpoints.begin()
    assert write_all(work, meanwhile) > 30
    assert pair.log.checkpoints.finish(work)
    assert pair.disk.dump()[PATH] == quiet.disk.dump()[PATH]
    pair.check(pair.log)
    again = pair.reopened()
    assert again.checkpoints.last_sequence == work.last_sequence
    assert again.findings.reported == []
    pair.check(again)


# --- checkpoints that do not fit ------------------------------------------------------------------


def compact(pair: Pair) -> None:
    pair.delete([*range(10, 30)])
    segment = pair.log.index.segment_of(12)
    work = pair.log.compactions.begin(segment.first_sequence)
    work.run()
    assert pair.log.compactions.finish(work)


def drop_all(pair: Pair) -> None:
    for _ in range(6):
        pair.append(6)
    pair.delete([*range(1, pair.twin.last - 2)])


def skip_far(pair: Pair) -> None:
    pair.twin.skip(100_000)
    pair.log.skip(100_000, 5)
    pair.append(2)


def give_ids_anew(pair: Pair) -> None:
    pair.log.index.renumber()
    pair.append(3)


@pytest.mark.parametrize("happens", [compact, drop_all, skip_far, give_ids_anew])
@pytest.mark.parametrize("moment", range(5))
def test_what_happens_meanwhile_may_make_it_useless(
    happens: Callable[[Pair], None], moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_writing, "PIECE_PARTS_MAX", 8)
    pair = used()
    work = pair.log.checkpoints.begin()
    for _ in range(moment):
        assert work.copy_piece()
        work.write_piece()
    happens(pair)
    write_all(work)
    assert not pair.log.checkpoints.finish(work)
    assert PATH not in pair.disk.dump()
    assert PATH + SUCCESSOR_SUFFIX not in pair.disk.dump()
    pair.check(pair.reopened())


def test_what_was_not_synced_is_not_said_to_be() -> None:
    pair = used()
    work = pair.log.checkpoints.begin()
    drop_all(pair)
    pair.log.checkpoints.finish(work)
    assert pair.log.synced_sequence < pair.log.last_sequence
    pair = used()
    work = pair.log.checkpoints.begin()
    pair.log.index.renumber()
    assert not work.copy_piece()
    pair.log.checkpoints.finish(work)
    assert pair.log.synced_sequence == 0


def test_only_what_is_on_the_disk_is_covered() -> None:
    pair = used()
    pair.log.checkpoints.write_now()
    pair.disk.power_loss("strict")
    again = open_log(
        pair.disk,
        FOLDER,
        SeededEntropy(Random(2)),
        segment_bytes_max=SEGMENT_BYTES_MAX,
        machine_fell=True,
    )
    assert again.findings.reported == []
    pair.check(again)


def test_one_that_did_not_fit_is_not_used_later_either() -> None:
    pair = used()
    pair.log.close()
    # The end is cut off by somebody else, and other messages follow until the file is as long.
    last = pair.log.index.segments[-1]
    file = pair.disk.open(f"{FOLDER}/{segment_name(last.first_sequence)}")
    file.truncate(last.offsets[2])
    file.close()
    log = pair.reopened()
    assert [found.kind for found in log.findings.reported] == ["unused"]
    pair.twin.truncate(last.first_sequence + 1)
    pair.append(3, size=250)
    assert len(log.index.segments) == len({*log.index.segments})
    pair.check(log)
    again = pair.reopened()
    assert again.findings.reported == []
    pair.check(again)


def test_a_second_one_takes_the_place_of_one_under_way() -> None:
    pair = used()
    work = pair.log.checkpoints.begin()
    work.copy_piece()
    pair.log.checkpoints.write_now()
    pair.append(4)
    work.write_piece()
    assert not work.copy_piece()
    assert not pair.log.checkpoints.finish(work)
    assert PATH + SUCCESSOR_SUFFIX not in pair.disk.dump()
    pair.check(pair.reopened())


def test_a_log_that_does_not_know_its_links_has_a_checkpoint_without_them() -> None:
    pair = used()
    log = pair.reopened()
    assert not log.index.is_linked
    log.checkpoints.write_now()
    again = pair.reopened()
    assert again.checkpoints.last_sequence == pair.twin.last
    assert not again.index.is_linked
    pair.delete([1, 2, 5, 30])
    assert again.index.is_linked
    pair.check(again)


def test_a_log_without_messages_has_a_checkpoint() -> None:
    pair = Pair()
    pair.log.checkpoints.write_now()
    pair.check(pair.reopened())
    pair.append(3)
    pair.check(pair.reopened())


def test_subjects_that_are_gone_stay_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "IDS_UNUSED_MIN", 5)
    small_pieces(monkeypatch)
    pair = used(40)
    pair.delete([*range(1, 60)])
    pair.log.checkpoints.write_now()
    again = pair.reopened()
    pair.check(again)
    pair.append(30)
    pair.check(pair.reopened())


def test_subjects_with_line_ends_are_found_again_in_the_records() -> None:
    """An older version stored such messages: neither checkpoint nor footer can tell them apart."""
    pair = Pair()
    subjects = [b"s.\n.a", b"s.b", b"\n", b"s.c\nMSG x 1 0"]
    for turn in range(20):
        batch = Batch(subjects, [b""] * 4, [bytes(40)] * 4, [turn + 1] * 4)
        pair.twin.append(batch)
        pair.log.append(batch)
    assert len(pair.log.index.segments) > 2
    pair.log.checkpoints.write_now()
    log = pair.reopened()
    assert log.checkpoints.last_sequence == 0
    pair.check(log)
    pair.append(4)
    pair.check(pair.reopened())
