"""`python -m benchmarks.store [NAME ...]`: the cost of the log store, against its own aims.

There is no other server to compare with: each figure stands beside its aim. Every scenario runs in
a process of its own, so that memory is its own and the garbage of one is not the pause of the next,
in a temporary folder that is removed afterwards. Files come from the cache of the operating system:
the store is measured, and the disk only in syncs.
"""

import argparse
import gc
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.__main__ import QUIET_LOAD_MAX, machine
from benchmarks.report import figure
from headwater.jetstream.codec import RecordCodec
from headwater.jetstream.records import Published
from headwater.runtime.entropy import SystemEntropy
from headwater.runtime.filesystem import SystemFileSystem, boot_id
from headwater.store.disk.format import TRAILER_BYTES, footer_offset
from headwater.store.index.block_counts import BLOCK_POSITIONS
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.recovery.opening import create_log, open_log
from headwater.store.store import SyncMode, open_store
from headwater.store.upkeep.checkpoint import CHECKPOINT_FILE

BATCH: Final = 500
PAYLOAD: Final = bytes(128)
SUBJECT: Final = b"benchmark.one"
TIME_NS: Final = 1_700_000_000_000_000_000
READ_COUNT: Final = 1000
READ_BYTES: Final = 1024 * 1024
BUSY_STREAMS: Final = 100
AIMED_AT_MESSAGES: Final = 10_000_000
# A cost that is this much higher for eight times the size is not flat; caches explain less.
FLAT_FACTOR_MAX: Final = 2.0
PROBES: Final = 100
PROBES_S: Final = 1.0
PROBED_AT_ONCE: Final = 10
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Settings:
    """The size of all measurements."""

    rounds: int = 3
    append_messages: int = 500_000
    commits: int = 1000
    messages: int = 1_000_000
    subjects: int = 1_000_000
    growth: tuple[int, ...] = (125_000, 250_000, 500_000, 1_000_000)


QUICK: Final = Settings(1, 50_000, 20, 50_000, 50_000, (10_000, 20_000, 40_000, 80_000))
FULL: Final = Settings(
    messages=AIMED_AT_MESSAGES,
    subjects=AIMED_AT_MESSAGES,
    growth=(1_000_000, 2_000_000, 4_000_000, 8_000_000),
)


@dataclass(frozen=True)
class Figure:
    """One figure, measured in as many rounds as there are values, and its aim if it has one."""

    name: str
    values: Sequence[float]
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def aim(self) -> str:
        if self.at_least is not None:
            return f"at least {figure(self.at_least)}"
        return "" if self.at_most is None else f"at most {figure(self.at_most)}"

    @property
    def verdict(self) -> str:
        """`met`, `MISSED`, or empty without an aim."""
        value = median(self.values)
        if self.at_least is not None:
            return "met" if value >= self.at_least else "MISSED"
        if self.at_most is not None:
            return "met" if value <= self.at_most else "MISSED"
        return ""


Scenario = Callable[[Settings, str], list[Figure]]


# --- data to store ------------------------------------------------------------------------------


def new_log(folder: str) -> FileLog:
    """An empty log."""
    return create_log(SystemFileSystem(), folder, SystemEntropy())


def batch_of(subjects: list[bytes]) -> Batch:
    """A message for each subject."""
    count = len(subjects)
    return Batch(subjects, [b""] * count, [PAYLOAD] * count, [TIME_NS] * count)


def fill(log: FileLog, messages: int, distinct: bool = False) -> None:
    """Append up to `messages` messages in all: on one subject, or each on its own."""
    subjects = [SUBJECT] * BATCH
    for first in range(log.last_sequence, messages, BATCH):
        if distinct:
            subjects = [b"orders.%09d.new" % number for number in range(first, first + BATCH)]
        log.append(batch_of(subjects))


def resident_bytes() -> int:
    """Memory of this process after a garbage collection."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    """Add the duration of the block."""
    begin = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - begin)


def rates(count: int, seconds: list[float]) -> list[float]:
    """The rates per second."""
    return [count / each for each in seconds]


# --- writing and reading ------------------------------------------------------------------------


def append(settings: Settings, folder: str) -> list[Figure]:
    """Append messages, which reach the operating system and so survive the process."""
    varied = [b"benchmark.%03d" % number for number in range(BATCH)]
    found = []
    for name, subjects in (("one subject", [SUBJECT] * BATCH), (f"{BATCH} subjects", varied)):
        seconds: list[float] = []
        for number in range(settings.rounds + 1):
            log = new_log(f"{folder}/{name}-{number}")
            with timed(seconds):
                for _ in range(0, settings.append_messages, BATCH):
                    log.append(batch_of(subjects))
            log.close()
        # The first round warms up.
        values = rates(settings.append_messages, seconds[1:])
        found.append(Figure(f"append, {name}", values, "msg/s", at_least=500_000))
    return found


def commit(settings: Settings, folder: str) -> list[Figure]:
    """Messages onto the disk: a sync of the write-ahead file after each turn."""
    found = []
    for streams, batch, aim in ((1, BATCH, 300_000), (BUSY_STREAMS, BATCH, 300_000),
                                (BUSY_STREAMS, BATCH // BUSY_STREAMS, None)):  # fmt: skip
        turns = max(settings.commits * BATCH // (streams * batch), settings.commits // 50, 1)
        each = batch_of([SUBJECT] * batch)
        seconds: list[float] = []
        for number in range(settings.rounds):
            store = open_store(
                SystemFileSystem(),
                f"{folder}/{streams}-{batch}-{number}",
                SystemEntropy(),
                boot_id(),
            )
            logs = [
                store.create_stream(f"S{stream}", mode=SyncMode.ALWAYS) for stream in range(streams)
            ]
            with timed(seconds):
                for turn in range(1, turns + 1):
                    records = [add_entry(log, turn, each) for log in logs]
                    store.commit()
                    for log, record in zip(logs, records, strict=True):
                        apply_entry(log, turn, record)
            store.close()
        count = turns * streams * batch
        plural = "stream" if streams == 1 else "streams"
        name = f"commit, {streams} {plural}, {batch} messages each per sync"
        found.append(Figure(name, rates(count, seconds), "msg/s", aim, note=f"{turns} syncs"))
    bare = bare_syncs(folder, settings.commits, BATCH * (len(PAYLOAD) + 100))
    found.append(Figure(f"the disk alone, {BATCH} messages per sync", [bare * BATCH], "msg/s"))
    return found


def add_entry(log: FileLog, index: int, batch: Batch) -> Published:
    """Add a record of messages to the write-ahead file, as a stream does."""
    record = Published(log.last_sequence + 1, batch)
    log.add_entry(index, log.last_sequence, RecordCodec(log.record_seed).encode(record))
    return record


def apply_entry(log: FileLog, index: int, record: Published) -> None:
    """Store the messages of an entry that is on the disk."""
    if record.encoded is not None:
        log.append_encoded(record.batch, record.encoded)
    log.applied_entry = index


def bare_syncs(folder: str, count: int, size: int) -> float:
    """The number of writes and syncs of this size that the disk completes per second."""
    file = SystemFileSystem().create(f"{folder}/bare")
    data = bytes(size)
    begin = time.perf_counter()
    for _ in range(count):
        file.write(data)
        file.sync()
    seconds = time.perf_counter() - begin
    file.close()
    return count / seconds


def read(settings: Settings, folder: str) -> list[Figure]:
    """All messages, in order."""
    log = new_log(f"{folder}/log")
    fill(log, settings.append_messages)
    seconds: list[float] = []
    for _ in range(settings.rounds):
        with timed(seconds):
            sequence, total = 1, 0
            while batch := log.read(sequence, READ_COUNT, READ_BYTES):
                sequence = batch.sequences[-1] + 1
                total += len(batch)
        if total != settings.append_messages:
            raise RuntimeError(f"read {total} of {settings.append_messages} messages")
    log.close()
    values = rates(settings.append_messages, seconds)
    return [Figure("sequential read", values, "msg/s", at_least=700_000)]


# --- opening ------------------------------------------------------------------------------------


def opening(settings: Settings, folder: str) -> list[Figure]:
    """From a folder to a log that can be read, by the checkpoint, by footers, by every record."""
    path = f"{folder}/log"
    log = new_log(path)
    fill(log, settings.messages)
    log.close()
    share = settings.messages / AIMED_AT_MESSAGES
    found = [timed_opening("opening by checkpoint", path, settings, 1.0 * share)]
    os.unlink(f"{path}/{CHECKPOINT_FILE}")
    found.append(timed_opening("opening by footers", path, settings, None))
    for file in Path(path).glob("segment-*.hw"):
        data = file.read_bytes()
        if footer_offset(data[-TRAILER_BYTES:]):
            # Without the trailer the footer is not found.
            os.truncate(file, len(data) - TRAILER_BYTES)
    os.unlink(f"{path}/{CHECKPOINT_FILE}")
    found.append(
        timed_opening("opening by full scan", path, replace(settings, rounds=1), 60 * share)
    )
    return found


def timed_opening(name: str, path: str, settings: Settings, aim: float | None) -> Figure:
    """The duration of opening; the aim is in proportion to the size."""
    seconds: list[float] = []
    for number in range(settings.rounds):
        with timed(seconds):
            log = open_log(SystemFileSystem(), path, SystemEntropy())
        if log.messages != settings.messages:
            raise RuntimeError(f"{name}: {log.messages} of {settings.messages} messages")
        if number < settings.rounds - 1:
            # Closing would write the checkpoint that was removed.
            del log
            gc.collect()
        else:
            log.close()
    return Figure(f"{name}, {figure(settings.messages)} messages", seconds, "s", at_most=aim)


# --- memory -------------------------------------------------------------------------------------


def memory(settings: Settings, folder: str) -> list[Figure]:
    """Bytes of memory per message, on one subject."""
    log = new_log(f"{folder}/log")
    fill(log, BATCH)
    before = resident_bytes()
    fill(log, settings.messages)
    resident = (resident_bytes() - before) / settings.messages
    arrays = sum(
        len(column) * column.itemsize
        for segment in log.index.segments
        for column in segment.columns()
    )
    log.close()
    return [
        Figure("memory per message, resident", [resident], "bytes", at_most=40),
        Figure("memory per message, arrays", [arrays / settings.messages], "bytes", at_most=40),
    ]


def subjects(settings: Settings, folder: str) -> list[Figure]:
    """Distinct subjects: memory in all, and the longest pause of the garbage collector."""
    pauses_s = [0.0]
    begin = [0.0]

    def note(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            begin[0] = time.perf_counter()
        else:
            pauses_s.append(time.perf_counter() - begin[0])

    log = new_log(f"{folder}/log")
    gc.callbacks.append(note)
    seconds: list[float] = []
    with timed(seconds):
        fill(log, settings.subjects, distinct=True)
    automatic = max(pauses_s)
    resident = resident_bytes()
    full = max(pauses_s)
    gc.callbacks.remove(note)
    prepare(log)
    log.pending([b"orders.*.new"], 1)
    prepared = resident_bytes()
    count = f"{figure(settings.subjects)} subjects"
    share = settings.subjects / AIMED_AT_MESSAGES
    found = [
        Figure(f"memory at {count}", [resident / 1e6], "MB", at_most=4000 * share),
        Figure(f"with lookups prepared, {count}", [prepared / 1e6], "MB", at_most=4000 * share),
        Figure(f"append, {count}", rates(settings.subjects, seconds), "msg/s"),
        Figure(f"longest pause by collecting garbage meanwhile, {count}", [automatic * 1e3], "ms"),
        Figure(f"pause of a full collection, {count}", [full * 1e3], "ms"),
    ]
    log.close()
    return found


# --- growth -------------------------------------------------------------------------------------


Operations = dict[str, Callable[[], object]]


def growth(settings: Settings, folder: str) -> list[Figure]:
    """The cost of one operation as messages, each on a subject of its own, grow."""
    log = new_log(f"{folder}/log")
    rng = random.Random(1)
    costs: dict[str, list[float]] = {}
    for size in settings.growth:
        fill(log, size, distinct=True)
        probe(operations(log, rng), costs)
    log.close()
    return growth_figures("growth", costs, settings)


def probe(operations: Operations, costs: dict[str, list[float]]) -> None:
    """Add the cost of each operation, in microseconds."""
    for name, operation in operations.items():
        spent: list[float] = []
        # A few probes are enough for a slow operation.
        while len(spent) < PROBES and sum(spent) < PROBES_S:
            with timed(spent):
                for _ in range(PROBED_AT_ONCE):
                    operation()
        costs.setdefault(name, []).append(median(spent) / PROBED_AT_ONCE * 1e6)


def growth_figures(title: str, costs: dict[str, list[float]], settings: Settings) -> list[Figure]:
    """The factor between the costs of an operation at the largest and at the smallest size."""
    sizes = ", ".join(figure(size) for size in settings.growth)
    return [
        Figure(
            f"{title}: {name}",
            [values[-1] / values[0]],
            "times",
            at_most=FLAT_FACTOR_MAX,
            note=f"{' / '.join(figure(value) for value in values)} us at {sizes}",
        )
        for name, values in costs.items()
    ]


def operations(log: FileLog, rng: random.Random) -> Operations:
    """Operations on a log of distinct subjects."""
    names = log.index.subjects.names

    def anywhere() -> int:
        return rng.randint(1, log.last_sequence - 1)

    def subject() -> bytes:
        return names[rng.randrange(len(names))]

    known = [SUBJECT, b"benchmark.two"] * 5

    def new() -> list[bytes]:
        first = log.last_sequence
        return [b"fresh.%09d" % number for number in range(first, first + 10)]

    return {
        "append of 10": lambda: log.append(batch_of(known)),
        "append of 10 on new subjects": lambda: log.append(batch_of(new())),
        "get": lambda: log.get(anywhere()),
        "read of 10": lambda: log.read(anywhere(), 10, READ_BYTES),
        "last of a subject": lambda: log.last_sequence_of([subject()]),
        "next of a subject": lambda: log.next_sequence_of([subject()], 1),
        "next of a subject without messages": lambda: log.next_sequence_of([b"nobody"], 1),
        "extent of a subject": lambda: log.subject_extent(subject()),
        "delete": lambda: log.delete([anywhere()]),
    }


# --- lookups by pattern -------------------------------------------------------------------------

STEPS: Final = (b"created", b"paid", b"sent", b"done")
# One message in this many is of one of the few devices, or of the only clock.
DEVICE_EVERY: Final = 300
DEVICES: Final = 10
CLOCK_EVERY: Final = 3000


def subject_of(number: int) -> bytes:
    """Four subjects per order, each with one message, and a few other ones in between."""
    if number % CLOCK_EVERY == 0:
        return b"clock.only.tick"
    if number % DEVICE_EVERY == 0:
        return b"device.%d.state" % (number // DEVICE_EVERY % DEVICES)
    return b"orders.%09d.%s" % (number // len(STEPS), STEPS[number % len(STEPS)])


def lookups(settings: Settings, folder: str) -> list[Figure]:
    """The cost of a lookup by pattern as messages and subjects grow."""
    log = new_log(f"{folder}/log")
    rng = random.Random(1)
    costs: dict[str, list[float]] = {}
    found: list[Figure] = []
    for size in settings.growth:
        for first in range(log.last_sequence, size, BATCH):
            log.append(batch_of([subject_of(number) for number in range(first, first + BATCH)]))
        found += first_lookups(log)
        probe(lookup_operations(log, rng), costs)
    log.close()
    return found + growth_figures("lookups", costs, settings)


def first_lookups(log: FileLog) -> list[Figure]:
    """Work that is done once for new subjects, before lookups reach their usual cost."""
    figures = []
    for name, first_lookup in (
        ("preparing for what is new", lambda: prepare(log)),
        ("counting ten subjects", lambda: log.pending([b"device.*.state"], 1)),
        ("counting a quarter of all", lambda: log.pending([b"orders.*.paid"], 1)),
    ):
        seconds: list[float] = []
        with timed(seconds):
            first_lookup()
        figures.append(Figure(f"{name}, {figure(log.last_sequence)} subjects", seconds, "s"))
    return figures


def prepare(log: FileLog) -> None:
    """Sort all subjects and count those of each block, as the first lookups do some at a time."""
    subjects, segments = log.index.subjects, log.index.segments
    subjects.order.absorb(len(subjects.names), subjects.names, subjects.counts)
    for segment in segments:
        # The block that messages are appended to is counted by each lookup.
        end = len(segment.offsets) - (BLOCK_POSITIONS if segment is segments[-1] else 0)
        for position in range(0, end, BLOCK_POSITIONS):
            segment.subject_counts(position // BLOCK_POSITIONS)


def lookup_operations(log: FileLog, rng: random.Random) -> Operations:
    """Lookups by pattern."""
    cursor = log.cursor([b"orders.*.paid"], 1)

    def anywhere() -> int:
        return rng.randint(1, log.last_sequence - 1)

    def order() -> bytes:
        return b"orders.%09d.*" % (anywhere() // len(STEPS))

    def walk() -> None:
        cursor.move(cursor.next() + 1)
        cursor.pending()

    clock, devices, paid = [b"clock.>"], [b"device.>"], [b"orders.*.paid"]
    return {
        "purge of four subjects": lambda: log.purge(order()),
        "four subjects": lambda: log.subject_counts(order()),
        "ten subjects": lambda: log.subject_counts(b"device.*.state"),
        "next of one subject": lambda: log.next_sequence_of(clock, anywhere()),
        "next of ten subjects": lambda: log.next_sequence_of(devices, anywhere()),
        "next of a quarter of all": lambda: log.next_sequence_of(paid, anywhere()),
        "last of one subject": lambda: log.last_sequence_of(clock, anywhere()),
        "last of ten subjects": lambda: log.last_sequence_of(devices, anywhere()),
        "last of each of ten": lambda: log.last_of_each(devices),
        "last of each of ten up to anywhere": lambda: log.last_of_each(devices, anywhere()),
        "pending of everything": lambda: log.pending([b">"], anywhere()),
        "pending of ten subjects": lambda: log.pending(devices, anywhere()),
        "pending of a quarter of all": lambda: log.pending(paid, anywhere()),
        "a cursor's next and pending": walk,
        "append of 10 and a cursor's pending": lambda: (
            log.append(batch_of([SUBJECT, b"benchmark.two"] * 5)),
            cursor.pending(),
        ),
        "what is due by age": lambda: log.due_by_age(TIME_NS),
    }


# --- running ------------------------------------------------------------------------------------

SCENARIOS: Final[dict[str, Scenario]] = {
    "append": append,
    "commit": commit,
    "read": read,
    "opening": opening,
    "memory": memory,
    "subjects": subjects,
    "growth": growth,
    "lookups": lookups,
}


def run_scenario(name: str, settings: Settings) -> list[Figure]:
    """One scenario in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="headwater-store-") as folder:
        return SCENARIOS[name](settings, folder)


def run_alone(name: str, settings: Settings) -> list[Figure]:
    """One scenario in a process of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        return process.submit(run_scenario, name, settings).result()


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table, with their aims."""
    lines = [("", "median", "lowest", "highest", "unit", "aim", "", "")] + [
        (
            each.name,
            figure(median(each.values)),
            figure(min(each.values)),
            figure(max(each.values)),
            each.unit,
            each.aim,
            each.verdict,
            each.note,
        )
        for each in figures
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column in (1, 2, 3) else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named scenarios, all if none is named. Returns 1 if an aim was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="10 million messages and subjects")
    size.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in SCENARIOS:
            parser.error(f"no scenario {name!r}; there are: {', '.join(SCENARIOS)}")
    settings = FULL if options.full else QUICK if options.quick else Settings()
    print(machine())
    if (busy := os.getloadavg()[0]) > QUIET_LOAD_MAX:
        print(f"The machine is busy (load {busy:.1f}): rates will be low and pauses long.")
    figures: list[Figure] = []
    for name in options.names or SCENARIOS:
        print(f"{name} ...", file=sys.stderr)
        measured = run_alone(name, settings)
        print(f"\n{table(measured)}\n", flush=True)
        figures += measured
    if len(options.names) != 1:
        print(f"\n{table(figures)}")
    return 1 if any(each.verdict == "MISSED" for each in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
