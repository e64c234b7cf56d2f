"""Logs are kept in order while they are used: less room, shorter journals, quicker starts.

Work off the loop is done when the test says so, so that anything can happen before it, during it,
and between it and its end on the loop.
"""

import errno
from collections.abc import Callable
from random import Random

import pytest

from headwater.runtime import upkeep
from headwater.runtime.upkeep import FAILURE_REST_S, LOOK_S, REST_S, Upkeep
from headwater.store.disk.format import ENTRY_BYTES
from headwater.store.disk.layout import JOURNAL_NEW_FILE
from headwater.store.disk.unfinished import SUCCESSOR_SUFFIX
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import ALL_SUBJECTS, Batch, StoredMessage
from headwater.store.store import Store, SyncMode, open_store
from headwater.store.upkeep import checkpoint_writing
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE
from headwater.testing.disk import PowerLost, SimDisk
from headwater.testing.disk_faults import CHANGING
from headwater.testing.entropy import SeededEntropy
from tests.kit import entries
from tests.kit.hand_scheduler import HandScheduler

FOLDER = "/store"
STREAMS = {"always": SyncMode.ALWAYS, "interval": SyncMode.INTERVAL, "async": SyncMode.ASYNC}
SEGMENT_BYTES_MAX = 2_000
SHORT_JOURNAL_BYTES = 700
SHORT_CALLER_BYTES = 500
FEW_MESSAGES = 10
CALLER_KIND = 300


class UpkeepWorld:
    """A store and its upkeep on a simulated disk."""

    def __init__(
        self,
        disk: SimDisk | None = None,
        modes: dict[str, SyncMode] = STREAMS,
        short_journal_bytes: int = SHORT_JOURNAL_BYTES,
    ) -> None:
        self.disk = disk or SimDisk()
        self.store = opened(self.disk, "boot 1", modes)
        for name, mode in modes.items():
            if name not in self.store.logs:
                self.store.create_stream(name, mode=mode)
        self.scheduler = HandScheduler()
        self.problems: list[str] = []
        self.upkeep = Upkeep(
            self.store,
            self.scheduler,
            self.problems.append,
            short_journal_bytes=short_journal_bytes,
            short_caller_bytes=SHORT_CALLER_BYTES,
            few_messages=FEW_MESSAGES,
        )
        self.upkeep.start()

    @property
    def is_busy(self) -> bool:
        return bool(self.scheduler.work)

    def pass_time(self) -> float:
        return self.scheduler.pass_time()

    def step(self) -> None:
        self.scheduler.step()

    def run(self, meanwhile: Callable[[], object] = lambda: None) -> int:
        """Go on until no upkeep is left to do; returns the number of steps."""
        return self.scheduler.run_until_quiet(LOOK_S, meanwhile)

    def begin(self, name: str) -> FileLog:
        """Let time pass until work off the loop is under way; returns the log of this stream."""
        log = self.store.logs[name]
        while not self.is_busy:
            self.pass_time()
        return log


def opened(disk: SimDisk, boot_id: str, modes: dict[str, SyncMode] = STREAMS) -> Store:
    store = open_store(
        disk,
        FOLDER,
        SeededEntropy(Random(disk.operations)),
        boot_id,
        mode_of=lambda name, _: modes[name],
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )
    return entries.redo(store)


def append(store: Store, name: str, count: int, size: int = 60) -> None:
    """Message n has subject `s.<n % 7>`, and every fourth one its own time to go."""
    first = store.logs[name].last_sequence + 1
    numbers = range(first, first + count)
    batch = Batch(
        [b"s.%d" % (number % 7) for number in numbers],
        [b"" if number % 2 else b"NATS/1.0\r\n\r\n" for number in numbers],
        [b"message %d " % number + bytes(size) for number in numbers],
        [number * 10 for number in numbers],
        [10**9 + number if number % 4 == 0 else 0 for number in numbers],
    )
    entries.append(store, name, batch)


def use(store: Store, name: str, count: int = 60) -> None:
    """Some sealed segments, most of which is deleted, and a journal that tells of it at length."""
    for _ in range(count // 5):
        append(store, name, 5)
        store.logs[name].flush()
    for sequence in range(1, count - 10):
        if sequence % 4:
            entries.delete(store, name, [sequence])
    entries.write_entries(store, name, [(CALLER_KIND, b"kept")])


def used_world(disk: SimDisk | None = None, modes: dict[str, SyncMode] = STREAMS) -> UpkeepWorld:
    world = UpkeepWorld(disk, modes)
    for name in modes:
        append(world.store, name, 7)
    # The redo point is amid a segment.
    world.store.trim()
    for name in modes:
        use(world.store, name)
    settle(world.store)
    return world


def settle(store: Store) -> None:
    """Make all changes so far durable."""
    store.flush()
    store.commit()
    store.sync()


Dump = dict[str, object]


def messages_of(log: FileLog) -> list[StoredMessage]:
    batch = log.read(0, 2**62, 2**62)
    columns = (batch.sequences, batch.subjects, batch.headers, batch.payloads, batch.timestamps_ns)
    return [StoredMessage(*values) for values in zip(*columns, strict=True)]


def dump_of(log: FileLog) -> Dump:
    """All answers of a log."""
    messages = messages_of(log)
    for message in messages:
        assert log.get(message.sequence) == message
    subjects = log.subject_counts()
    return {
        "messages": messages,
        "state": (log.first_sequence, log.last_sequence, log.messages, log.byte_count),
        "deleted": [*log.index.gaps()],
        "lost": list(log.lost),
        "subjects": {name: log.subject_extent(name) for name in subjects},
        "counts": subjects,
        "last of each": log.last_of_each([ALL_SUBJECTS]),
        "expiries": sorted(pair for pair in log.expiries.pending() if log.index.has(pair[0])),
        "walks": {name: walk(log, name) for name in subjects},
    }


def about_messages(dump: Dump) -> Dump:
    """The answers without those that change when a log may have lost its end."""
    return {key: value for key, value in dump.items() if key not in ("state", "deleted", "lost")}


def walk(log: FileLog, subject: bytes) -> list[int]:
    """The messages of a subject, each found from the one before."""
    found = []
    sequence = log.next_sequence_of([subject], 0)
    while sequence:
        found.append(sequence)
        sequence = log.next_sequence_of([subject], sequence + 1)
    return found


def dumps_of(store: Store) -> dict[str, Dump]:
    return {name: dump_of(log) for name, log in store.logs.items()}


def entries_of(log: FileLog) -> list[bytes]:
    return [entry.body for entry in log.entries]


def room_of(disk: SimDisk, name: str, kind: str = "segment-") -> int:
    folder = f"{FOLDER}/streams/{name}/"
    dump = disk.dump()
    return sum(len(data) for path, data in dump.items() if path.startswith(folder + kind))


def unfinished(disk: SimDisk) -> list[str]:
    endings = (SUCCESSOR_SUFFIX, JOURNAL_NEW_FILE)
    return [path for path in disk.files() if path.endswith(endings)]


# --- purposes -----------------------------------------------------------------------------------


def test_deleted_messages_give_their_room_back_and_nothing_else_changes() -> None:
    world = used_world()
    before = dumps_of(world.store)
    segments = {name: room_of(world.disk, name) for name in STREAMS}
    journals = {name: room_of(world.disk, name, "journal") for name in STREAMS}
    world.run()
    assert world.problems == []
    assert dumps_of(world.store) == before
    for name in STREAMS:
        assert room_of(world.disk, name) < segments[name] * 0.7
        assert room_of(world.disk, name, "journal") < journals[name] * 0.6
        assert room_of(world.disk, name, CHECKPOINT_FILE) > 0
    assert unfinished(world.disk) == []


@pytest.mark.parametrize("dies", ["kill", "power loss"])
def test_all_of_it_is_there_after_a_crash(dies: str) -> None:
    world = used_world()
    before = dumps_of(world.store)
    world.run()
    if dies == "kill":
        world.disk.kill()
        again = opened(world.disk, "boot 1")
    else:
        world.disk.power_loss("strict")
        again = opened(world.disk, "boot 2")
    for name, log in again.logs.items():
        assert log.findings.reported == []
        assert log.checkpoints.last_sequence > 0, "it was opened by its checkpoint"
        assert entries_of(log) == [b"kept"]
        assert about_messages(dump_of(log)) == about_messages(before[name])
        assert log.compactions.worthwhile() == []


def test_reads_and_writes_go_on_all_the_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_writing, "PIECE_PARTS_MAX", 3)
    rng = Random(4)
    world = used_world()
    twin = used_world()
    turns = iter(range(100))

    def meanwhile() -> None:
        if next(turns, None) is None:
            return
        name = rng.choice([*STREAMS])
        gone = [rng.randint(1, 90) for _ in range(3)]
        erase = rng.random() < 0.2
        for each in (world, twin):
            append(each.store, name, 3)
            entries.delete(each.store, name, gone, erase)
            entries.write_entries(each.store, name, [(CALLER_KIND, b"more")])
        assert dump_of(world.store.logs[name]) == dump_of(twin.store.logs[name])

    assert world.run(meanwhile) > 20
    assert world.problems == []
    expected = dumps_of(twin.store)
    assert dumps_of(world.store) == expected
    journals = {name: room_of(twin.disk, name, "journal") for name in STREAMS}
    world.store.flush()
    world.disk.kill()
    again = opened(world.disk, "boot 1")
    for name, log in again.logs.items():
        assert about_messages(dump_of(log)) == about_messages(expected[name])
        assert room_of(world.disk, name, "journal") < journals[name]
        assert entries_of(log)[0] == b"kept"


def test_what_callers_wrote_gives_way_to_what_is_still_true() -> None:
    world = UpkeepWorld(short_journal_bytes=100 * SHORT_JOURNAL_BYTES)
    name = next(iter(STREAMS))
    log = world.store.logs[name]
    append(world.store, name, 5)
    turns = 0

    def take_turns(count: int) -> None:
        nonlocal turns
        for _ in range(count):
            turns += 1
            entries.write_entries(world.store, name, [(CALLER_KIND, b"turn %9d" % turns)])
        settle(world.store)

    take_turns(SHORT_CALLER_BYTES // (ENTRY_BYTES + len(b"turn 123456789")))
    log.caller_entries = lambda: [(CALLER_KIND, b"turns up to %d" % turns)]
    world.run()
    assert log.journal.caller_bytes_rewritten == 0, "there was little of it"
    take_turns(1)
    world.run()
    assert log.journal.caller_bytes == 0
    assert log.journal.size < 200
    take_turns(2)
    world.disk.kill()
    again = opened(world.disk, "boot 1")
    expected = [b"turns up to %d" % (turns - 2), b"turn %9d" % (turns - 1), b"turn %9d" % turns]
    assert entries_of(again.logs[name]) == expected


def test_much_that_is_still_true_is_not_written_anew_all_the_time() -> None:
    world = UpkeepWorld(short_journal_bytes=100 * SHORT_JOURNAL_BYTES)
    name = next(iter(STREAMS))
    log = world.store.logs[name]
    kept = bytes(SHORT_CALLER_BYTES)
    log.caller_entries = lambda: [(CALLER_KIND, kept)]
    times = []

    def write(size: int) -> None:
        entries.write_entries(world.store, name, [(CALLER_KIND, bytes(size))])
        settle(world.store)
        before = log.journal.size
        world.run()
        times.append(log.journal.size < before)

    write(2 * SHORT_CALLER_BYTES)
    for _ in range(9):
        write(SHORT_CALLER_BYTES)
    # The journal is rewritten when more than four times the bytes kept were added to it.
    assert [at for at, is_anew in enumerate(times) if is_anew] == [0, 5]
    assert log.journal.caller_bytes_rewritten == SHORT_CALLER_BYTES + ENTRY_BYTES


def test_a_store_that_needs_nothing_is_let_be() -> None:
    world = UpkeepWorld()
    for name in STREAMS:
        append(world.store, name, 5)
    settle(world.store)
    before = world.disk.operations
    assert [world.pass_time() for _ in range(5)] == [LOOK_S] * 5
    assert world.disk.operations == before


@pytest.mark.parametrize("opened_by", ["", "checkpoint", "footers"])
def test_what_was_done_once_is_not_done_again(opened_by: str) -> None:
    world = used_world()
    world.run()
    if opened_by:
        world.store.close()
        if opened_by == "footers":
            for name in STREAMS:
                world.disk.remove(f"{FOLDER}/streams/{name}/{CHECKPOINT_FILE}")
        world = UpkeepWorld(world.disk)
        assert [log.compactions.worthwhile() for log in world.store.logs.values()] == [[]] * len(
            STREAMS
        )
        # Logs that are opened by footers have no checkpoint yet.
        assert bool(world.run()) == (opened_by == "footers")
    before = world.disk.operations
    assert [world.pass_time() for _ in range(30)] == [LOOK_S] * 30
    assert world.disk.operations == before


def test_logs_take_turns() -> None:
    world = used_world(modes=dict.fromkeys(["a", "b", "c"], SyncMode.INTERVAL))
    order: list[str] = []
    while len(order) < 6:
        if world.is_busy:
            order += [
                path.split("/")[3]
                for path in unfinished(world.disk)
                if path.endswith(".hw" + SUCCESSOR_SUFFIX)
            ]
            while world.is_busy:
                world.step()
        world.pass_time()
    assert order == ["a", "b", "c", "a", "b", "c"]


def test_a_look_at_very_many_logs_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "LOGS_AT_A_TIME", 4)
    world = UpkeepWorld(modes={f"s{number}": SyncMode.INTERVAL for number in range(10)})
    delays = [world.pass_time() for _ in range(7)]
    assert delays == [LOOK_S, REST_S, REST_S, LOOK_S, REST_S, REST_S, LOOK_S]


def test_messages_that_go_in_order_take_their_segment_with_them() -> None:
    world = UpkeepWorld(modes={"fifo": SyncMode.INTERVAL})
    log = world.store.logs["fifo"]
    for _ in range(12):
        append(world.store, "fifo", 5)
    first = log.index.segments[0]
    log.delete(range(1, first.next_sequence - 3))
    assert first.live_bytes < first.dead_bytes
    assert log.compactions.worthwhile() == [], "it goes soon, and for nothing"
    log.delete([first.next_sequence - 3, first.next_sequence - 2])
    assert log.compactions.worthwhile() == [first.first_sequence], "unless the last one stays"


def test_what_was_in_vain_is_not_tried_again_at_once() -> None:
    world = used_world(modes={"erased": SyncMode.INTERVAL})
    log = world.begin("erased")
    wanting = log.compactions.worthwhile()
    for sequence in (12, 8):
        # The message is in the segment that is just being compacted.
        assert log.delete([sequence], erase=True)
        while world.is_busy:
            world.step()
        assert log.compactions.worthwhile() == wanting
        waited_s = 0.0
        while not world.is_busy:
            waited_s += world.pass_time()
        assert waited_s >= LOOK_S
    assert world.problems == []


# --- failures -----------------------------------------------------------------------------------


def test_what_can_not_be_written_is_told_and_the_others_are_kept_up() -> None:
    world = used_world()
    before = dumps_of(world.store)
    world.disk.fail("write", "*/interval/*.new", code=errno.ENOSPC, times=None)
    world.run()
    (problem,) = world.problems
    assert "No space left" in problem
    assert "interval" in problem
    assert all(log.offline == "" for log in world.store.logs.values())
    assert dumps_of(world.store) == before
    for name in ("always", "async"):
        assert room_of(world.disk, name, CHECKPOINT_FILE) > 0
    assert unfinished(world.disk) == []
    # Upkeep tries again after its rest, and not before.
    world.disk.heal()
    waited_s = 0.0
    while not world.is_busy:
        waited_s += world.pass_time()
    # `run` has waited as well, to see that there is nothing left to do.
    assert FAILURE_REST_S - 3 * LOOK_S < waited_s <= FAILURE_REST_S
    world.run()
    assert room_of(world.disk, "interval", CHECKPOINT_FILE) > 0


def test_a_stream_whose_files_can_not_be_synced_is_offline_and_the_others_are_kept_up() -> None:
    world = used_world()
    append(world.store, "interval", 1)
    world.disk.fail("sync", "*/interval/segment*.hw", code=errno.EIO)
    world.run()
    assert "sync failed" in world.store.logs["interval"].offline
    assert [problem.count("sync failed") for problem in world.problems] == [1]
    assert not world.store.logs["always"].offline
    for name in ("always", "async"):
        assert room_of(world.disk, name, CHECKPOINT_FILE) > 0
    assert unfinished(world.disk) == []


def test_every_operation_fails_in_turn() -> None:
    """One stream is given up or offline, whatever fails; nothing is lost, and the other one goes
    on."""
    modes = {"struck": SyncMode.ALWAYS, "other": SyncMode.INTERVAL}
    reference = used_world(modes=modes)
    before = dict(reference.disk.operation_counts)
    reference.run()
    after = reference.disk.operation_counts
    offline = given_up = 0
    for operation in CHANGING:
        for skip in range(after[operation] - before[operation]):
            world = used_world(SimDisk(seed=skip), modes)
            expected = dumps_of(world.store)
            fault = world.disk.fail(operation, "*/struck*", skip=skip, code=errno.EIO)
            world.run()
            if not fault.strikes:
                break
            struck, other = world.store.logs["struck"], world.store.logs["other"]
            # A file that cannot be removed is of no use, and removed when the log is opened.
            assert world.problems or operation == "remove"
            offline += bool(struck.offline)
            given_up += not struck.offline
            assert dumps_of(world.store) == expected
            assert not other.offline
            assert room_of(world.disk, "other", CHECKPOINT_FILE) > 0
            world.disk.heal()
            world.disk.power_loss("strict")
            again = opened(world.disk, "boot 2", modes)
            for name, log in again.logs.items():
                assert about_messages(dump_of(log)) == about_messages(expected[name])
                assert entries_of(log) == [b"kept"]
            assert unfinished(world.disk) == []
    assert offline
    assert given_up


def test_a_stream_may_be_removed_in_the_middle_of_it() -> None:
    reference = used_world()
    for moment in range(reference.run()):
        world = used_world()
        steps = 0
        while steps < moment or not world.is_busy:
            if world.is_busy:
                steps += 1
                world.step()
            else:
                world.pass_time()
        (name,) = {path.split("/")[3] for path in unfinished(world.disk)} or {"always"}
        world.store.remove_stream(name)
        assert not [path for path in world.disk.files() if f"/{name}/" in path]
        # The unfinished work does not belong to the new stream of the same name.
        world.store.create_stream(name, mode=STREAMS[name])
        append(world.store, name, 3)
        expected = dumps_of(world.store)
        world.run()
        assert world.problems == []
        assert dumps_of(world.store) == expected
        assert unfinished(world.disk) == []
        world.store.close()


def test_a_log_that_goes_offline_in_the_middle_of_it_is_left_alone() -> None:
    world = used_world()
    log = world.begin("always")
    log.go_offline("somebody pulled the plug")
    expected = dumps_of(world.store)
    world.run()
    assert world.problems == []
    assert dumps_of(world.store) == expected
    assert unfinished(world.disk) == []
    assert room_of(world.disk, "always", CHECKPOINT_FILE) == 0
    assert room_of(world.disk, "interval", CHECKPOINT_FILE) > 0


@pytest.mark.parametrize("work_ends", ["before the store is closed", "after it", "never"])
def test_a_server_may_stop_in_the_middle_of_it(work_ends: str) -> None:
    reference = used_world()
    for moment in range(0, reference.run(), 2):
        world = used_world()
        expected = dumps_of(world.store)
        steps = 0
        while steps < moment or not world.is_busy:
            if world.is_busy:
                steps += 1
                world.step()
            else:
                world.pass_time()
        world.upkeep.stop()
        assert unfinished(world.disk) == []
        if work_ends == "before the store is closed":
            world.step()
        world.store.close()
        if work_ends == "after it":
            world.step()
        assert world.scheduler.timers == []
        assert world.problems == []
        world.scheduler.close_files()
        # A file without a name takes room as long as somebody has it open.
        held = world.disk.used_bytes - sum(map(len, world.disk.dump().values()))
        assert held == 0 or work_ends == "never"
        again = opened(world.disk, "boot 2")
        assert dumps_of(again) == expected
        assert all(log.findings.reported == [] for log in again.logs.values())


def test_a_stop_between_two_looks_ends_the_looking() -> None:
    world = used_world()
    world.upkeep.stop()
    assert [timer.is_cancelled for timer in world.scheduler.timers] == [True]


# --- crashes ------------------------------------------------------------------------------------


Promised = dict[str, dict[int, StoredMessage]]


def promised_by(store: Store) -> Promised:
    return {
        name: {message.sequence: message for message in messages_of(log)}
        for name, log in store.logs.items()
    }


def keep_up_while_used(world: UpkeepWorld, promised: Promised) -> None:
    """Do all upkeep, with some use in between; `promised` gets the messages that must be there."""
    turns = iter(range(1000))

    def meanwhile() -> None:
        turn = next(turns)
        if turn % 3:
            return
        for name, log in world.store.logs.items():
            append(world.store, name, 1)
            entries.delete(world.store, name, [turn + 30, log.first_sequence])
        settle(world.store)
        promised.update(promised_by(world.store))

    world.run(meanwhile)


def check_survivor(disk: SimDisk, promised: Promised, how: str) -> None:
    """Promised messages are there, and later ones are whole or not there at all."""
    # Work may be found half done: by chance also a footer, or a segment that was just begun. Then
    # sequences behind the end are named as lost, because they may have been given out; `lost` below
    # says that none of those promised is among them.
    harmless = {"torn"} if how == "strict" else {"torn", "unsealed", "unreadable", "lost"}
    again = opened(disk, "boot 1" if how == "kill" else "boot 2")
    found = promised_by(again)
    for name, log in again.logs.items():
        wanted = promised[name]
        kinds = {finding.kind for finding in log.findings.reported}
        assert kinds <= harmless, (name, kinds)
        # One turn may be under way: one message more, and two less.
        missing = set(wanted) - set(found[name])
        assert len(missing) <= 2, (name, missing)
        assert not set(log.lost.within(1, max(wanted))), name
        for sequence, message in found[name].items():
            assert message == wanted.get(sequence, message), name
            assert sequence in wanted or sequence > max(wanted), (name, sequence, "came back")
        assert entries_of(log) == [b"kept"]
        counts = log.subject_counts()
        assert sum(counts.values()) == log.messages == len(found[name])
        assert all(len(walk(log, subject)) == count for subject, count in counts.items())
        append(again, name, 1)
    assert unfinished(disk) == []


# The way the machine stops, the first operation at which it does, and the distance to the next;
# the sweep in tests/robustness has every way at every operation.
STOPS: list[tuple[str, int, int]] = [("strict", 0, 2), ("random", 1, 2), ("kill", 0, 3)]


@pytest.mark.parametrize(("how", "first", "stride"), STOPS)
def test_a_crash_at_every_operation_loses_nothing(how: str, first: int, stride: int) -> None:
    reference = used_world()
    begin = reference.disk.operations
    keep_up_while_used(reference, {})
    end = reference.disk.operations
    assert end - begin > 150
    for number in range(begin + first, end, stride):
        world = used_world(SimDisk(seed=number, page_bytes=128))
        promised = promised_by(world.store)
        world.disk.crash_at(number, "during")
        with pytest.raises(PowerLost):
            keep_up_while_used(world, promised)
        if how == "kill":
            world.disk.kill()
        else:
            world.disk.power_loss("strict" if how == "strict" else "random")
        check_survivor(world.disk, promised, how)


def test_files_that_a_turn_has_left_are_removed_by_and_by() -> None:
    world = UpkeepWorld(modes={"interval": SyncMode.INTERVAL})
    log = world.store.logs["interval"]
    log.queue_journal()
    payload = bytes(SEGMENT_BYTES_MAX // 2)
    for number in range(60):
        log.append(Batch([b"s"], [b""], [payload], [number]))
    files = len(log.index.segments)
    log.delete(range(1, 60))
    log.write_journal()
    left = len(log.index.segments)
    assert 1 < left < files
    world.scheduler.run_until_quiet(LOOK_S, lambda: None)
    assert len(log.index.segments) == 1
