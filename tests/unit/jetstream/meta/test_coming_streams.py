"""Streams whose creation is in flight count beside those that run, until they run or never will."""

from typing import Any

from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.config.stream_subjects import StreamSubjects
from headwater.jetstream.meta.coming_streams import ComingStreams
from headwater.jetstream.records import StreamCreated


def creation(name: str, account: str = "A", **settings: Any) -> StreamCreated:
    config = StreamConfig(name=name, subjects=(f"{name.lower()}.>",), **settings)
    return StreamCreated(account, name, name.encode() * 16, config, 1)


def test_configurations_of_an_account_are_one_mapping() -> None:
    coming, running = ComingStreams(), {"R": StreamConfig(name="R"), "S": StreamConfig(name="S")}
    assert coming.configs_with("A", running) is running
    created = creation("S", max_msgs=5)
    for each in (created, creation("T"), creation("U", "B")):
        coming.add(each)
    found = coming.configs_with("A", running)
    assert ([*found], len(found)) == (["S", "T", "R"], 3)
    assert (found["S"], found["R"]) == (created.config, running["R"])
    assert [coming.count(account) for account in "ABC"] == [2, 1, 0]


def test_subjects_overlap_with_those_that_run_and_those_that_come() -> None:
    coming, running = ComingStreams(), StreamSubjects()
    running.add("R", ["r.>"])
    created = creation("S")
    coming.add(created)
    taken = coming.subjects_with("A", running)
    wanted = {subject: taken.overlaps("NEW", [subject]) for subject in ("r.a", "s.a", "t.a")}
    assert wanted == {"r.a": True, "s.a": True, "t.a": False}
    assert not taken.overlaps("S", ["s.a"]), "a stream does not overlap with itself"
    assert coming.subjects_with("B", running) is running
    coming.remove(created)
    assert coming.subjects_with("A", running) is running


def test_reservations_count_for_the_account_and_for_the_server() -> None:
    coming = ComingStreams()
    for each in (
        creation("S", max_bytes=5),
        creation("T", "B", max_bytes=7),
        creation("U"),
        creation("M", storage=Storage.MEMORY, max_bytes=9),
    ):
        coming.add(each)
    assert coming.reserved(Storage.FILE, "A") == 5
    assert coming.reserved(Storage.FILE) == 12
    assert coming.reserved(Storage.MEMORY) == 9


def test_of_two_equal_creations_each_counts_for_itself() -> None:
    coming, first, second = ComingStreams(), creation("S"), creation("S")
    coming.add(first)
    coming.add(second)
    coming.remove(first)
    assert (first in coming, second in coming) == (False, True)
    coming.remove(second)
    assert (second in coming, coming.count("A")) == (False, 0)
