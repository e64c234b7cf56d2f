"""A server ends at every operation on the disk, and its streams are what their level promises.

The streams get records of every kind (`stream_steps`). After a crash at any write, sync or change
of a name:

    always      the streams are in the state after one of the steps: no earlier than the last one
                that was answered, and no state in between
    interval    so they are after a kill; a loss of power costs at most what was not synced:
                messages at the end, and what was recorded about others
    async       a kill costs at most what was not written: the state after an earlier step; a loss
                of power costs what was not synced
    memory      nothing is left

No sequence is given to two messages. `SEEDS` is the number of fates at every operation.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.consumers import codec
from headwater.jetstream.consumers.records import CONSUMER_RECORDS
from headwater.jetstream.records import (
    Configured,
    Copied,
    Published,
    Purged,
    Record,
    Removed,
    Skipped,
)
from headwater.store.disk.format import encode_skip
from headwater.store.disk.journal import encode_entries
from headwater.store.log.file_log import FileLog
from headwater.testing import seeds
from headwater.testing.disk import Mode, SimDisk
from headwater.testing.disk_faults import Moment
from tests.robustness.stream_steps import (
    ALWAYS,
    ASYNC,
    INTERVAL,
    Dump,
    Dumps,
    Level,
    Life,
    Server,
    live,
    operations,
    states,
    steps,
    without_end,
)

PAGE_BYTES: Final = 128
MOMENTS: tuple[Moment, ...] = ("before", "during")


def crashed(level: Level, number: int, moment: Moment, seed: int) -> tuple[SimDisk, Life]:
    """A server that ends at an operation of the disk."""
    disk = SimDisk(seed=1000 * seed + number, page_bytes=PAGE_BYTES)
    disk.crash_at(number, moment)
    return disk, live(level, disk)


def restarted(level: Level, disk: SimDisk, life: Life) -> Server:
    return Server(level.options, disk, life.server.clock.passed_ns)


def first_allowed(level: Level, done: int) -> int:
    """The last step that was answered: records that no client waits for may be lost."""
    while done > 0 and not steps(level)[done - 1].is_answered:
        done -= 1
    return done


def differences(found: Dumps, allowed: list[Dumps]) -> str:
    """The values of a state that none of the allowed states has."""
    lines = []
    for name, state in found.items():
        for key, value in state.items():
            others = [each.get(name, {}).get(key) for each in allowed]
            if value not in others:
                lines.append(f"{name}.{key}: {value} instead of {others}")
    return "\n".join(lines) or f"streams {[*found]}, or a mixture of states"


# --- the state after a step -----------------------------------------------------------------------


def check_whole_step(
    level: Level,
    death: Callable[[SimDisk], object],
    points: Iterable[int],
    moments: tuple[Moment, ...] = MOMENTS,
) -> None:
    expected = states(level)
    for seed in seeds(1):
        for number in points:
            moment = moments[(number // 2 + seed) % len(moments)]
            disk, life = crashed(level, number, moment, seed)
            death(disk)
            allowed = expected[first_allowed(level, life.done) : life.done + 2]
            found = restarted(level, disk, life).dump()
            assert found in allowed, f"operation {number}: {differences(found, allowed)}"


def kill(disk: SimDisk) -> None:
    """End the process: the system still has every byte that was written."""
    disk.kill()


def power_loss(disk: SimDisk) -> None:
    """End the machine: the disk has the synced bytes, or also those that were written.

    Of a write that is left in pieces nobody can tell whether it was confirmed, and streams go on
    above the reserved sequences: `test_store_redo` has such fates.
    """
    disk.power_loss("strict" if disk.seed % 2 else "kind")


PARTS: Final = 4


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("death", [kill, power_loss], ids=lambda each: each.__name__)
def test_streams_that_sync_always_are_in_the_state_after_a_step(
    death: Callable[[SimDisk], object], part: int
) -> None:
    check_whole_step(ALWAYS, death, operations(ALWAYS)[part::PARTS])


@pytest.mark.parametrize("part", range(PARTS))
def test_after_a_kill_streams_of_the_default_level_are_in_the_state_after_a_step(part: int) -> None:
    check_whole_step(INTERVAL, kill, operations(INTERVAL)[part::PARTS], ("during",))


# --- streams that have lost an end ----------------------------------------------------------------


class Loss:
    """The end that a crash may have cost one stream, and the state that is left."""

    def __init__(self, name: str, history: list[Dump | None], kept: int, server: Server) -> None:
        """`history` has the states after all steps that may have been done, None where there was no
        stream; the disk has the one after the step `kept` for sure."""
        self.name = name
        self.log = server.log(name)
        self.found = server.dump_of(name)
        # A stream may have been deleted, and created again.
        created_ns = self.found["created_ns"]
        self.history = [
            each if each and each["created_ns"] == created_ns else None for each in history
        ]
        self.kept = self.history[kept]
        self.recent = [each for each in self.history[kept:] if each is not None]
        self.messages = {each.sequence: each for each in self.found["messages"]}

    def check(self) -> None:
        assert self.recent, "it was deleted before"
        self.check_messages()
        self.check_consumers()
        assert self.found["config"] in [each["config"] for each in self.recent]
        given = [each["last_sequence"] for each in self.history[:-1] if each is not None]
        assert self.log.last_sequence >= max(given, default=0), "a sequence is given out twice"

    def check_messages(self) -> None:
        published = {
            each.sequence: each for state in self.history if state for each in state["messages"]
        }
        for sequence, message in self.messages.items():
            assert published[sequence] == message
        always = [{each.sequence for each in state["messages"]} for state in self.recent]
        missing = set.intersection(*always[-2:]) - set(self.messages)
        behind = [each for each in self.messages if missing and each > min(missing)]
        assert not behind, f"{missing} are missing, and {behind} behind them are not"
        if self.kept is not None:
            assert not missing & always[0], "synced messages are missing"
            back = [at for at in self.messages if at <= self.kept["last_sequence"]]
            assert set(back) <= always[0], "messages are back whose removal was synced"

    def check_consumers(self) -> None:
        for name, state in self.found["consumers"]:
            recent = [dict(each["consumers"]).get(name) for each in self.recent]
            known = [each for each in recent if each is not None]
            assert known, f"consumer {name} was deleted before"
            pending = {at for each in known for at, _ in each["pending"]}
            assert {at for at, _ in state["pending"]} <= pending
            assert state["delivered"] <= max(each["delivered"] for each in known)
            if recent[0] is not None and all(known[0]["floor"] <= each["floor"] for each in known):
                assert state["floor"] >= min(recent[0]["floor"], state["delivered"])
        there = {name for name, _ in self.found["consumers"]}
        lasting = [{name for name, _ in each["consumers"]} for each in self.recent]
        if self.kept is not None:
            assert set.intersection(*lasting) <= there, "synced consumers are missing"

    def check_equal_to_a_step(self) -> None:
        """All of it is in the state after one step, apart from its end."""
        found = without_end(self.found)
        assert found in [without_end(each) for each in self.recent], differences(
            {self.name: found}, [{self.name: each} for each in self.recent]
        )


def losses(level: Level, life: Life, kept: dict[str, int], server: Server) -> list[Loss]:
    expected = states(level)[: life.done + 2]
    found = []
    for name in server.names:
        history = [each.get(name) for each in expected]
        found.append(Loss(name, history, kept.get(name, 0), server))
    return found


def check_no_sequence_is_given_twice(server: Server, level: Level, done: int) -> None:
    """Publish to every stream, and compare the sequences with all that were told before."""
    told = states(level)[done]
    for name in server.names:
        # Nobody publishes to a counter without an increment, nor to a copy.
        if name in told and name not in ("N", "T"):
            server.put(f"{name.lower()}.new")
            assert server.log(name).last_sequence > told[name]["last_sequence"]


def points_of(level: Level, part: int, seed: int, stride: int) -> range:
    """One in so many operations of a part; every seed has others."""
    return operations(level)[part + PARTS * (seed % stride) :: PARTS * stride]


# One in so many operations is a point for a seed.
POWER_STRIDES: Final = {INTERVAL: 2, ASYNC: 4}
KILL_STRIDE: Final = 2
MODES: tuple[Mode, ...] = ("random", "strict", "random", "kind")


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("level", POWER_STRIDES, ids=lambda each: each.name)
def test_a_loss_of_power_costs_at_most_an_end_that_was_not_synced(level: Level, part: int) -> None:
    for seed in seeds(1):
        for number in points_of(level, part, seed, POWER_STRIDES[level]):
            mode = MODES[(number // PARTS + seed) % len(MODES)]
            disk, life = crashed(level, number, MOMENTS[number // 2 % 2], seed)
            disk.power_loss(mode)
            server = restarted(level, disk, life)
            kept = life.written if mode == "kind" else life.synced
            for loss in losses(level, life, kept, server):
                loss.check()
            check_no_sequence_is_given_twice(server, level, life.done)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_kill_of_async_streams_costs_at_most_an_end_that_was_not_written(part: int) -> None:
    for seed in seeds(1):
        for number in points_of(ASYNC, part, seed, KILL_STRIDE):
            disk, life = crashed(ASYNC, number, MOMENTS[(number // 2 + seed) % 2], seed)
            disk.kill()
            server = restarted(ASYNC, disk, life)
            for loss in losses(ASYNC, life, life.written, server):
                loss.check()
                loss.check_equal_to_a_step()
            check_no_sequence_is_given_twice(server, ASYNC, life.done)


# --- the workload ---------------------------------------------------------------------------------


def test_the_steps_have_records_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: set[type] = set()
    encode, encode_consumers = RecordCodec.encode, codec.encode

    def note(self: RecordCodec, record: Record) -> bytes:
        kinds.add(type(record))
        return encode(self, record)

    def note_of_consumers(record: Any) -> tuple[int, bytes]:
        kinds.add(type(record))
        return encode_consumers(record)

    monkeypatch.setattr(RecordCodec, "encode", note)
    monkeypatch.setattr(codec, "encode", note_of_consumers)
    live(ALWAYS, SimDisk())
    own = {Published, Skipped, Removed, Purged, Configured, Copied}
    assert kinds >= own | {*CONSUMER_RECORDS}


@pytest.mark.parametrize("level", [INTERVAL, ASYNC], ids=lambda each: each.name)
def test_some_steps_are_synced_and_others_are_not(level: Level) -> None:
    disk = SimDisk()
    # Before the steps in which time passes.
    disk.crash_at(operations(level)[len(operations(level)) * 2 // 3])
    life = live(level, disk)
    assert 0 < life.synced["S"] < life.done


def test_of_streams_in_memory_nothing_is_left() -> None:
    disk = SimDisk()
    server = Server(INTERVAL.options, disk)
    server.with_stream("M", storage="memory")
    server.with_stream("S")
    server.put("m.x")
    server.put("s.x")
    disk.kill()
    after = Server(INTERVAL.options, disk, server.clock.passed_ns).dump()
    assert {name: len(state["messages"]) for name, state in after.items()} == {"S": 1}


# --- each defence is needed -----------------------------------------------------------------------


def write_entries_singly(patch: pytest.MonkeyPatch) -> None:
    def encode_singly(position: int, entries: list[tuple[int, bytes]]) -> bytes:
        return b"".join(encode_entries(position, [entry]) for entry in entries)

    patch.setattr("headwater.store.log.log_journal.encode_entries", encode_singly)


def skip_without_journal(patch: pytest.MonkeyPatch) -> None:
    skip = FileLog.skip

    def skip_in_place(
        log: FileLog, count: int, timestamp_ns: int, header: bytes = b"", with_queue: bool = False
    ) -> None:
        skip(log, count, timestamp_ns, header)

    patch.setattr(FileLog, "skip", skip_in_place)


def leave_no_header(patch: pytest.MonkeyPatch) -> None:
    """Have a message that is not stored leave no trace of its id in a segment."""
    patch.setattr("headwater.store.log.log_end.encode_skip", lambda *args: encode_skip(*args[:4]))


def keep_sequences_of_half_a_batch(patch: pytest.MonkeyPatch) -> None:
    def delete(log: FileLog, last_sequence: int) -> None:
        log.delete(range(last_sequence + 1, log.last_sequence + 1))

    patch.setattr("headwater.jetstream.streams.recovery.cut_unfinished", delete)


# The part of all operations behind which the violation is found.
DEFENCES: Final[dict[Callable[[pytest.MonkeyPatch], None], float]] = {
    write_entries_singly: 0.62,
    skip_without_journal: 0.62,
    leave_no_header: 0.62,
    keep_sequences_of_half_a_batch: 0.5,
}


@pytest.mark.parametrize("switch_off", DEFENCES, ids=lambda each: each.__name__)
def test_without_a_defence_a_kill_leaves_a_state_between_two_steps(
    switch_off: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = operations(INTERVAL)
    switch_off(monkeypatch)
    begin = int(len(points) * DEFENCES[switch_off])
    with pytest.raises(AssertionError, match="operation"):
        check_whole_step(INTERVAL, kill, points[begin:], ("during",))
