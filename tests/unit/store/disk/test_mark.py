"""The mark of a store: what a later start reads in it, and what it concludes."""

from collections.abc import Mapping

import pytest

from headwater.store.disk.mark import SLOTS_MIN, FoundMark, MarkMemory, SequenceMark, StoreMark
from headwater.store.disk.store_file import StoreFile
from headwater.testing.marks import SimMarks

FOLDER = "/data"
STORE = b"store 0123456789"
BOOT = b"boot-1"


def identity(number: int) -> bytes:
    return number.to_bytes(16, "big")[::-1]


def begun(marks: MarkMemory) -> StoreMark:
    mark = StoreMark(marks, FOLDER)
    mark.begin(STORE, BOOT, 3)
    return mark


def found(marks: MarkMemory, store: bytes = STORE, boot: bytes = BOOT) -> FoundMark:
    return StoreMark(marks, FOLDER).read(store, boot)


def test_a_later_start_reads_what_was_noted() -> None:
    marks = SimMarks()
    mark, stream = begun(marks), SequenceMark()
    mark.follow(identity(1), stream)
    stream.note(7)
    mark.note_file(4)
    mark.note_written(900)
    mark.note_synced(800)
    assert found(marks) == FoundMark(3, False, 4, 900, 800, {1: 7})
    mark.close()
    assert found(marks).is_closed


def test_what_was_noted_before_the_mark_begins_is_in_it() -> None:
    marks = SimMarks()
    mark, stream = StoreMark(marks, FOLDER), SequenceMark()
    stream.note(5)
    mark.follow(identity(1), stream)
    mark.note_file(2)
    mark.note_written(100)
    assert found(marks) == FoundMark()
    mark.begin(STORE, BOOT, 3)
    assert found(marks) == FoundMark(3, False, 2, 100, 0, {1: 5})


@pytest.mark.parametrize(
    ("store", "boot"), [(bytes(16), BOOT), (STORE, b"boot-2"), (STORE, b"unknown")]
)
def test_a_mark_of_another_store_or_life_tells_nothing(store: bytes, boot: bytes) -> None:
    marks = SimMarks()
    begun(marks)
    assert found(marks, store, boot) == FoundMark()


def test_a_machine_whose_lives_cannot_be_told_apart_has_no_mark() -> None:
    marks = SimMarks()
    StoreMark(marks, FOLDER).begin(STORE, b"unknown", 3)
    assert marks.read(FOLDER) == b""


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 80, b"x" * 81, b"HWMARK1!" * 12])
def test_bytes_that_are_no_mark_tell_nothing(data: bytes) -> None:
    marks = SimMarks()
    if len(data) % 8 == 0:
        marks.replace(FOLDER, data)
    assert found(marks) == FoundMark()


def test_streams_come_and_go_and_a_mark_grows() -> None:
    marks = SimMarks()
    mark = begun(marks)
    streams = {number: SequenceMark() for number in range(1, 2 * SLOTS_MIN + 2)}
    for number, stream in streams.items():
        mark.follow(identity(number), stream)
        stream.note(number * 10)
    for number in range(1, 11):
        mark.leave(identity(number))
        streams[number].note(1)
    again = SequenceMark()
    mark.follow(identity(5), again)
    again.note(6)
    expected = {number: number * 10 for number in streams if number > 10}
    assert found(marks).sequences == {**expected, 5: 6}


def test_another_log_of_a_stream_takes_the_place_of_the_first_one() -> None:
    marks = SimMarks()
    mark, first, second = begun(marks), SequenceMark(), SequenceMark()
    mark.follow(identity(1), first)
    mark.follow(identity(1), second)
    second.note(2)
    first.note(9)
    assert found(marks).sequences == {1: 2}


class FullMarks:
    """A folder that has no room for a large mark."""

    def __init__(self) -> None:
        self.marks = SimMarks()

    def read(self, folder: str) -> bytes:
        return self.marks.read(folder)

    def replace(self, folder: str, data: bytes) -> "memoryview[int]":
        if len(data) > 80 + 16 * SLOTS_MIN:
            raise OSError("no room")
        return self.marks.replace(folder, data)


def test_a_stream_for_which_there_is_no_room_is_not_told_of() -> None:
    marks = FullMarks()
    mark = begun(marks)
    streams = [SequenceMark() for _ in range(SLOTS_MIN + 1)]
    for number, stream in enumerate(streams):
        mark.follow(identity(number + 1), stream)
        stream.note(5)
    assert mark.problem == "no room"
    assert found(marks).sequences == {number + 1: 5 for number in range(SLOTS_MIN)}


MARK = FoundMark(3, False, 4, 900, 800, {1: 7})


def store(start_number: int = 3, clean: bool = False) -> StoreFile:
    return StoreFile(STORE, BOOT, clean, start_number)


@pytest.mark.parametrize(
    ("mark", "file", "ends", "known", "verdict"),
    [
        (MARK, store(), {4: 900}, [1], ""),
        (MARK, store(), {4: 950}, [1, 2], ""),
        (MARK, store(), {5: 40}, [1], ""),
        (MARK, store(), {4: 850}, [1], "loss"),
        (MARK, store(), {4: 750}, [1], "put back"),
        (MARK, store(), {3: 2_000}, [1], "put back"),
        (MARK, store(), {}, [1], "put back"),
        (MARK, store(), None, [1], ""),
        (MARK, store(), {4: 900}, [2], "put back"),
        (MARK, store(2), {4: 900}, [1], "put back"),
        (MARK, store(2, clean=True), {4: 900}, [1], "put back"),
        (MARK, store(4), {}, [], ""),
        (MARK, store(clean=True), {}, [], ""),
        (MARK._replace(is_closed=True), store(), {4: 900}, [1], "put back"),
        (MARK._replace(is_closed=True), store(clean=True), {}, [], ""),
        (MARK._replace(written=0, synced=0), store(), {}, [1], ""),
        (FoundMark(), store(), {}, [], ""),
        (FoundMark(), store(0), {}, [], ""),
    ],
)
def test_a_store_that_is_behind_its_mark_has_lost_something(
    mark: FoundMark,
    file: StoreFile,
    ends: Mapping[int, int] | None,
    known: list[int],
    verdict: str,
) -> None:
    is_put_back = mark.shows_put_back(file, ends, map(identity, known))
    is_lost = mark.shows_loss(file, ends)
    assert ("put back" if is_put_back else "loss" if is_lost else "") == verdict


def test_a_start_that_finds_nothing_lost_may_be_interrupted_without_its_files() -> None:
    marks = SimMarks()
    mark, stream = begun(marks), SequenceMark()
    mark.follow(identity(1), stream)
    stream.note(7)
    mark.note_file(4)
    mark.note_written(900)
    StoreMark(marks, FOLDER).forget_file()
    assert found(marks) == FoundMark(3, False, 0, 0, 0, {1: 7})
    assert not found(marks).shows_loss(store(), {})
