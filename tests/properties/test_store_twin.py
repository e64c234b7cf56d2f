"""A log on disk and a log in memory answer as the obvious log does, whatever is done to them.

Segments are small, so that they fill, empty and go all the time. The log on disk is closed and
opened again, and killed and opened again, between any two steps, and rewritten in parts while
all this goes on; once as it is, once compressed, and once compressed and encrypted.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from headwater.store.disk.cipher import Cipher, StreamKey
from headwater.store.disk.encoding import EncodedFiles
from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.format import encode_messages, encode_skip
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, MessageLog
from headwater.store.recovery.opening import create_log, open_log
from headwater.store.upkeep.checkpoint_writing import CheckpointWriting
from headwater.store.upkeep.compaction import Compaction
from headwater.store.upkeep.journal_rewriting import JournalRewriting
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.store_twin import (
    SizeOf,
    Twin,
    file_size,
    memory_size,
    messages_in,
    messages_read,
    same_dead_bytes,
    same_messages,
    same_state,
)

FOLDER = "store/streams/orders"
SEGMENT_BYTES_MAX = 500
SEGMENT_MESSAGES_MAX = 7
CALLER_KIND = 300

subjects = st.sampled_from([b"a", b"b", b"a.x", b"a.y", b"a.x.1", b"b.x.1", b"orders.new"])
patterns = st.sampled_from(
    [b">", b"a", b"a.x", b"a.*", b"a.>", b"*.x", b"*.*.*", b"b.>", b"nothing", b"*"]
)
pattern_lists = st.lists(patterns, min_size=1, max_size=3)
headers = st.sampled_from([b"", b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"])
# Payloads that are records of sequences this log may well have, whole and torn.
planted = st.builds(
    lambda sequence, cut: encode_messages(sequence, [b"a"], [b""], [b"planted"], [1])[0][cut:],
    st.integers(1, 60),
    st.sampled_from([0, 0, 0, 1, 8]),
)
payloads = st.one_of(
    st.sampled_from([b"", b"x", b"\0" * 40, encode_skip(3, 9, 1)]), st.binary(max_size=120), planted
)
# The time that passes before a step, and the time to live of a message.
pauses_ns = st.integers(0, 10)
lives_ns = st.sampled_from([0, 0, 0, 1, 5, 50, 10**6])
messages = st.tuples(subjects, headers, payloads, pauses_ns, lives_ns)
positions = st.floats(0, 1.05)


class LogMachine(RuleBasedStateMachine):
    """Does every operation to a log on disk, a log in memory and the twin."""

    compresses = False
    cipher: Cipher | None = None

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.entropy = SeededEntropy(labelled_rng(1, "log"))
        self.files: FileSystem = self.disk
        if self.compresses:
            key = None if self.cipher is None else StreamKey.generate(self.entropy)
            cipher = self.cipher or Cipher.AES_GCM
            self.files = EncodedFiles(self.disk, self.entropy, self.compresses, key, cipher)
        self.now_ns = 1000
        self.entries: list[tuple[int, bytes]] = []
        self.compaction: Compaction | None = None
        self.checkpointing: CheckpointWriting | None = None
        self.rewriting: JournalRewriting | None = None
        # The number of entries when the rewriting began, and the entries that replace them.
        self.covered: tuple[int, list[tuple[int, bytes]]] | None = None

    @initialize(first_sequence=st.sampled_from([1, 1, 1, 5, 2**40]))
    def begin(self, first_sequence: int) -> None:
        self.base = first_sequence
        self.twin = Twin(first_sequence)
        self.memory = MemoryLog(first_sequence, SEGMENT_MESSAGES_MAX)
        self.file = create_log(
            self.files,
            FOLDER,
            self.entropy,
            b"body",
            first_sequence=first_sequence,
            segment_bytes_max=SEGMENT_BYTES_MAX,
        )

    @property
    def logs(self) -> tuple[MessageLog, MessageLog]:
        return self.file, self.memory

    def place(self, position: float) -> int:
        """A sequence of this log, or one shortly before or behind it."""
        return max(self.base - 1 + round(position * (self.twin.last + 2 - self.base)), 0)

    # --- growing ------------------------------------------------------------------------------

    @rule(batch=st.lists(messages, min_size=1, max_size=6))
    def append_different(self, batch: list[tuple[bytes, bytes, bytes, int, int]]) -> None:
        times = []
        for *_, pause_ns, _ in batch:
            self.now_ns += pause_ns
            times.append(self.now_ns)
        lives = [life for *_, life in batch]
        expiries = [time + life if life else 0 for time, life in zip(times, lives, strict=True)]
        self.append(
            Batch(
                [message[0] for message in batch],
                [message[1] for message in batch],
                [message[2] for message in batch],
                times,
                expiries if any(lives) else None,
            )
        )

    @rule(subject=subjects, payload=payloads, count=st.integers(1, 9))
    def append_alike(self, subject: bytes, payload: bytes, count: int) -> None:
        self.append(
            Batch([subject] * count, [b""] * count, [payload] * count, [self.now_ns] * count)
        )

    def append(self, batch: Batch) -> None:
        first = self.twin.append(batch)
        for log in self.logs:
            assert log.append(batch) == first

    @rule(count=st.integers(1, 12))
    def skip(self, count: int) -> None:
        self.twin.skip(count)
        for log in self.logs:
            log.skip(count, self.now_ns)

    # --- shrinking ----------------------------------------------------------------------------

    @rule(position=positions, erase=st.booleans())
    def delete_one(self, position: float, erase: bool) -> None:
        self.delete([self.place(position)], erase)

    @rule(where=st.lists(positions, min_size=2, max_size=8), erase=st.booleans())
    def delete_some(self, where: list[float], erase: bool) -> None:
        self.delete([self.place(position) for position in where], erase)

    @rule(where=st.lists(positions, max_size=4), bodies=st.lists(st.binary(max_size=20)))
    def delete_and_write(self, where: list[float], bodies: list[bytes]) -> None:
        """Both at once, as it is done for an acknowledgement."""
        sequences = [self.place(position) for position in where]
        entries = [(CALLER_KIND, body) for body in bodies]
        removed = self.twin.delete(sequences)
        for log in self.logs:
            assert log.delete(sequences, entries=entries) == removed
        self.entries += entries

    @rule(position=positions, count=st.integers(2, 20))
    def delete_many(self, position: float, count: int) -> None:
        first = self.place(position)
        self.delete(list(range(first, first + count)), erase=False)

    def delete(self, sequences: list[int], erase: bool) -> None:
        removed = self.twin.delete(sequences)
        for log in self.logs:
            assert log.delete(sequences, erase) == removed

    @rule(pattern=patterns, keep=st.integers(0, 5))
    def purge_but(self, pattern: bytes, keep: int) -> None:
        removed = self.twin.purge(pattern, 0, keep)
        for log in self.logs:
            assert log.purge(pattern, keep=keep) == removed

    @rule(pattern=patterns, position=positions)
    def purge_before(self, pattern: bytes, position: float) -> None:
        before = self.place(position)
        removed = self.twin.purge(pattern, before, 0)
        for log in self.logs:
            assert log.purge(pattern, before=before) == removed

    # --- time ---------------------------------------------------------------------------------

    @rule(age_ns=st.integers(0, 60), remove=st.booleans())
    def age(self, age_ns: int, remove: bool) -> None:
        due = self.twin.stored_before(self.now_ns - age_ns)
        for log in self.logs:
            assert log.due_by_age(self.now_ns - age_ns) == due
        if remove:
            self.delete(due, erase=False)

    @rule(pause_ns=pauses_ns, remove=st.booleans())
    def expire(self, pause_ns: int, remove: bool) -> None:
        self.now_ns += pause_ns
        due = self.twin.expired(self.now_ns)
        for log in self.logs:
            assert log.due_by_expiry(self.now_ns) == due
        if remove:
            self.delete(due, erase=False)

    # --- operations of a log on disk ----------------------------------------------------------

    @rule(bodies=st.lists(st.binary(max_size=20), min_size=1, max_size=3))
    def write_entries(self, bodies: list[bytes]) -> None:
        entries = [(CALLER_KIND, body) for body in bodies]
        self.file.write_entries(entries)
        self.entries += entries

    @rule(keep=st.integers(0, 3))
    def rewrite_journal(self, keep: int) -> None:
        self.entries = self.entries[len(self.entries) - keep :] if keep else []
        self.file.journal_rewrites.start_over(self.entries, self.file.lost)

    @rule(body=st.binary(max_size=20))
    def set_body(self, body: bytes) -> None:
        self.file.set_body(body)
        assert self.file.body == body

    @rule()
    def sync(self) -> None:
        self.file.sync()
        assert self.file.synced_sequence == self.twin.last

    @rule()
    def checkpoint(self) -> None:
        self.file.checkpoints.write_now()

    @rule()
    def begin_or_continue_checkpoint(self) -> None:
        if self.checkpointing is None:
            self.checkpointing = self.file.checkpoints.begin()
        if self.checkpointing.copy_piece():
            self.checkpointing.write_piece()
        else:
            self.file.checkpoints.finish(self.checkpointing)
            self.checkpointing = None

    @rule()
    def begin_or_finish_journal_rewrite(self) -> None:
        if self.rewriting is None:
            self.rewriting = self.file.begin_journal_rewrite()
            self.rewriting.run()
            return
        covered = self.covered
        if self.file.journal_rewrites.finish(self.rewriting) and covered is not None:
            self.entries[: covered[0]] = covered[1]
        self.rewriting = self.covered = None

    @rule(keep=st.none() | st.integers(0, 3))
    def say_what_is_true(self, keep: int | None) -> None:
        """Name the journal entries to keep, from now on, whenever a rewriting asks for them."""
        if keep is None:
            self.file.caller_entries = None
            return

        def still_true() -> list[tuple[int, bytes]]:
            count = len(self.entries)
            self.covered = count, self.entries[max(count - keep, 0) :]
            return self.covered[1]

        self.file.caller_entries = still_true

    @rule(choice=st.integers(0, 9), worthwhile=st.booleans())
    def begin_compaction(self, choice: int, worthwhile: bool) -> None:
        sealed = [index.first_sequence for index in self.file.index.segments[:-1]]
        candidates = self.file.compactions.worthwhile() if worthwhile else sealed
        if candidates and self.compaction is None:
            self.compaction = self.file.compactions.begin(candidates[choice % len(candidates)])
            self.compaction.run()

    @rule()
    def finish_compaction(self) -> None:
        if self.compaction is not None:
            self.file.compactions.finish(self.compaction)
            self.compaction = None

    @rule()
    def close_and_open(self) -> None:
        self.file.close()
        self.reopen()

    @rule()
    def kill_and_open(self) -> None:
        self.disk.kill()
        self.reopen()

    def reopen(self) -> None:
        body = self.file.body
        self.compaction = self.checkpointing = self.rewriting = self.covered = None
        self.file = open_log(self.files, FOLDER, self.entropy, segment_bytes_max=SEGMENT_BYTES_MAX)
        assert self.file.body == body
        # A checkpoint whose segments are all gone by now is no damage.
        assert [found for found in self.file.findings.reported if found.kind != "unused"] == []
        assert [(entry.kind, entry.body) for entry in self.file.entries] == self.entries

    # --- answers ------------------------------------------------------------------------------

    @rule(
        wanted=pattern_lists,
        position=positions,
        count_max=st.integers(1, 30),
        bytes_max=st.integers(0, 400),
        pause_ns=st.integers(-100, 10),
    )
    def ask(
        self, wanted: list[bytes], position: float, count_max: int, bytes_max: int, pause_ns: int
    ) -> None:
        twin, place, time_ns = self.twin, self.place(position), self.now_ns + pause_ns
        following = twin.on(wanted, since=place)
        before = twin.on(wanted, up_to=place)
        everywhere = twin.on(wanted)
        for log in self.logs:
            assert log.get(place) == twin.get(place)
            read = twin.read(place, count_max, bytes_max)
            assert messages_read(log, place, count_max, bytes_max) == read
            assert log.next_sequence_of(wanted, place) == (following[0] if following else 0)
            assert log.last_sequence_of(wanted, place) == (before[-1] if before else 0)
            assert log.last_sequence_of(wanted) == (everywhere[-1] if everywhere else 0)
            assert log.last_of_each(wanted, place) == twin.last_of_each(wanted, place)
            assert log.last_of_each(wanted) == twin.last_of_each(wanted, None)
            assert log.first_sequence_at(time_ns) == twin.at(time_ns)
            for pattern in wanted:
                assert log.subject_counts(pattern) == twin.counts(pattern)

    @rule(where=st.lists(positions, max_size=12), bytes_max=st.integers(0, 400))
    def ask_for_some(self, where: list[float], bytes_max: int) -> None:
        wanted = sorted({self.place(position) for position in where})
        expected = self.twin.read_at(wanted, bytes_max)
        for log in self.logs:
            assert messages_in(log.read_at(wanted, bytes_max)) == expected

    @invariant()
    def state_is_the_same(self) -> None:
        sizes: list[tuple[MessageLog, SizeOf]] = [
            (self.file, file_size),
            (self.memory, memory_size),
        ]
        for log, size_of in sizes:
            same_state(log, self.twin, size_of)
            same_messages(log, self.twin)
            same_dead_bytes(log)
            assert list(log.lost) == []
            assert log.index.segments[-1].first_sequence <= log.last_sequence + 1


class CompressedLogMachine(LogMachine):
    """The logs on a file system that compresses."""

    compresses = True


class EncryptedLogMachine(LogMachine):
    """The logs on a file system that compresses and encrypts."""

    compresses = True
    cipher = Cipher.CHACHA20_POLY1305


TestLogs = LogMachine.TestCase
TestLogs.settings = settings(max_examples=60, stateful_step_count=50)
TestCompressedLogs = CompressedLogMachine.TestCase
TestCompressedLogs.settings = settings(max_examples=25, stateful_step_count=50)
TestEncryptedLogs = EncryptedLogMachine.TestCase
TestEncryptedLogs.settings = settings(max_examples=25, stateful_step_count=50)
