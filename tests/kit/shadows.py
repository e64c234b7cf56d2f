"""Shadow replicas of the streams of servers that run in the process of a test.

Each stream that a server runs gets a shadow: a stream of its own log that is given the bytes of the
records which the stream applies, in the order of the log, and nothing else. A stream that is there
already, as after a restart, is copied to its shadow by a snapshot. The shadow is compared when the
stream, its store or its disk ends, and at the end of the test.

A record is encoded when it is proposed, so that whatever changes it in flight shows too. A reply
that leaves before the records of its proposal are applied, and a record that is applied before an
earlier one of the log, are faults of their own.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from headwater.base.emptying import Container
from headwater.base.sliced import Work, at_once
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.codec.stream_records import PUBLISHED, WITH_LENGTHS, encode_published
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.consumers.records import STEP_RECORDS
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Published, Record, StreamCreated, StreamDeleted
from headwater.jetstream.server_room import ServerRoom
from headwater.jetstream.snapshots.reader import SnapshotReader
from headwater.jetstream.snapshots.writer import SnapshotWriter, read_header
from headwater.jetstream.streams.stream import Stream
from headwater.jetstream.streams.view import DUMP_BYTES_MAX, StreamView
from headwater.server.streams.hosted_streams import HostedStreams
from headwater.server.streams.runner import StreamRunner
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog, StoreError
from headwater.store.store import Store, SyncMode, open_store
from headwater.testing.disk import PowerLost, SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng

# The attribute of a stream that has its shadow.
_SHADOW: Final = "shadow"
# The steps that may wait for their answers.
_STEPS_MAX: Final = 64
# The beginning of records that have the lengths of their messages, however few these are.
_WITH_LENGTHS: Final = bytes((PUBLISHED, WITH_LENGTHS))


class ShadowHost:
    """The account of a shadow, which counts no usage and in which no client listens."""

    def __init__(self, server: ServerRoom) -> None:
        self.server = server

    def has_interest(self, subject: bytes) -> bool:
        return False

    def has_room(self, storage: Storage, size: int) -> bool:
        return True

    def check_account_room(self, storage: Storage, size: int) -> None:
        """A shadow stores all that its stream has stored."""

    def update_usage(self, stream: StreamView) -> None:
        """No usage is counted twice."""


class Place(NamedTuple):
    """The server of a stream: its clock, and its store."""

    now_ns: Callable[[], int]
    store: Store

    @property
    def disk(self) -> object:
        return self.store._files


class Shadow:
    """The shadow of one stream, and the records that wait for their application."""

    def __init__(self, shadows: "Shadows", stream: Stream, place: "Place") -> None:
        self.shadows = shadows
        self.place = place
        self.name = stream.name
        self.is_over = False
        self._stream: Stream | None = stream
        self._seed = stream.log.record_seed
        self._codec = RecordCodec(self._seed)
        self._lost = [*stream.log.lost]
        # Records that are proposed and not applied, with their bytes, in the order of the log.
        self._log: deque[tuple[Record, bytes]] = deque()
        # The records that were applied and whose proposals are not answered, by identity.
        self._applied: dict[int, Record] = {}
        # The newest steps of consumers that were applied alone: few of them are answered.
        self._steps: deque[Record] = deque(maxlen=_STEPS_MAX)
        # Whether the stream holds something that is not in its records, because its disk failed or
        # its process ended in the middle of an application.
        self._is_broken = False
        self.copy = shadows.copy_of(stream)
        self.copy.consumers.commit_later()
        vars(stream).update(
            append=self.append,
            retreat=self.retreat,
            apply=self.apply,
            applying=self.applying,
            show_plain=self.show_plain,
            show_unqueued=self.show_unqueued,
            abandon=self.abandon,
            detach=self.detach,
            break_cycles=self.break_cycles,
            **{_SHADOW: self},
        )

    @property
    def _of(self) -> Stream:
        assert self._stream is not None, "a stream that has ended is not used"
        return self._stream

    def _encoded(self, record: Record) -> bytes:
        """The bytes of a record, which is left as it is."""
        if not isinstance(record, Published):
            return self._codec.encode(record)
        encoded = encode_published(_WITH_LENGTHS, record, self._seed, with_lengths=True)
        return encoded.data

    # --- the stream as its group sees it -------------------------------------------------------

    def append(self, record: Record) -> None:
        Stream.append(self._of, record)
        self._log.append((record, self._encoded(record)))

    def retreat(
        self, records: Sequence[Record], proposals: Sequence[Proposal[Record]] = ()
    ) -> None:
        # Steps of consumers stay when the entries of their turn are withdrawn.
        stay: list[tuple[Record, bytes]] = []
        for record in reversed(records):
            while self._log and self._log[-1][0] is not record:
                stay.append(self._log.pop())
            is_newest = bool(self._log) and all(isinstance(each, STEP_RECORDS) for each, _ in stay)
            if not (is_newest or self._is_broken):
                self.shadows.note(f"{self.name}: a record is forgotten that is not the newest")
            if self._log:
                self._log.pop()
        self._log += reversed(stay)
        Stream.retreat(self._of, records, proposals)

    def apply(self, record: Record) -> None:
        is_step = isinstance(record, STEP_RECORDS)
        if is_step and not self._log:
            self._log.append((record, self._encoded(record)))
        try:
            Stream.apply(self._of, record)
        except (StoreError, PowerLost):
            self._is_broken = True
            raise
        finally:
            # A step that fails is released with its failure, and answers nobody.
            if is_step:
                self._steps.append(record)
        if is_step:
            self._follow(record)

    def applying(self, record: Record) -> Work[int]:
        stream = self._of
        is_over = False
        try:
            removed = yield from Stream.applying(stream, record)
            is_over = True
        except StoreError:
            is_over = not stream.is_queued(record)
            self._is_broken |= is_over
            raise
        except (GeneratorExit, PowerLost):
            self._is_broken = True
            raise
        finally:
            if is_over:
                self._follow(record)
                self._applied[id(record)] = record
        return removed

    def show_plain(self, records: Sequence[Record]) -> bool:
        stream = self._of
        try:
            is_shown = Stream.show_plain(stream, records)
        except PowerLost:
            self._is_broken = True
            raise
        except StoreError:
            for record in records:
                if stream.is_queued(record):
                    break
                self._follow(record)
                self._applied[id(record)] = record
            raise
        if is_shown:
            for record in records:
                self._follow(record)
                self._applied[id(record)] = record
        return is_shown

    def show_unqueued(self, record: Record) -> bool:
        try:
            is_shown = Stream.show_unqueued(self._of, record)
        except PowerLost:
            self._is_broken = True
            raise
        if is_shown:
            self._follow(record)
            self._applied[id(record)] = record
        return is_shown

    def check_released(self, proposal: Proposal[Record]) -> None:
        """Note a proposal that is answered before its records are applied."""
        for record in proposal.records:
            if self._applied.pop(id(record), None) is None and not self._is_known_step(record):
                self.shadows.note(f"{self.name}: an answer comes before {type(record).__name__}")

    def _is_known_step(self, record: Record) -> bool:
        return any(each is record for each in self._steps)

    # --- the shadow ----------------------------------------------------------------------------

    def _follow(self, record: Record) -> None:
        """Have the shadow apply the oldest record of the log, which is to be this one."""
        if self.is_over or self._is_broken:
            # It is not compared any more.
            return
        if not self._log:
            data = self._encoded(record)
        else:
            oldest, data = self._log.popleft()
            if oldest is not record:
                self.shadows.note(f"{self.name}: a record is applied before an earlier one")
                self._log = deque(pair for pair in self._log if pair[0] is not record)
        found = self._codec.decode(data)
        assert not isinstance(found, StreamCreated | StreamDeleted), "a stream has no such record"
        shadow = self.copy
        shadow.append(found)
        shadow.apply(found)
        shadow.consumers.flush()
        shadow.log.write_journal()
        for consumer in shadow.consumers.closed.values():
            consumer.end(True, Proposal())
        shadow.consumers.forget_news()

    def compare(self, with_messages: bool = True) -> None:
        """Compare the stream with its shadow for the last time."""
        if self.is_over:
            return
        self.is_over = True
        stream, now_ns = self._of, self.place.now_ns()
        log = stream.log
        if self._is_broken or log.offline or log.is_held:
            return
        if [*log.lost] != self._lost:
            # The disk has damaged messages since.
            return
        self.shadows.compared += 1
        shadow = self.copy
        try:
            # A read of the log would write messages that a crash is to lose.
            ours = _messages_of(stream) if with_messages else {}
        except StoreError:
            # The disk has failed, which a read is the first to find out.
            return
        except PowerLost:
            # The machine is off, and what is in memory can be compared.
            ours, with_messages = {}, False
        theirs = _messages_of(shadow) if with_messages else {}
        with patch.object(StreamView, "dump_messages", _dump_index):
            ours |= stream.dump(now_ns)
            theirs |= shadow.dump(now_ns)
        for name, value in ours.items():
            if theirs[name] != value:
                self.shadows.note(f"{self.name}: the shadow has another {name}")

    def abandon(self) -> list[Container]:
        self.compare()
        return Stream.abandon(self._of)

    def detach(self) -> list[Container]:
        self.compare()
        return Stream.detach(self._of)

    def rest(self) -> None:
        """Free the copy of a stream whose process has ended; nothing is applied to it any more."""
        self._log.clear()
        self._applied.clear()
        self.shadows.forget(self)

    def break_cycles(self) -> None:
        """Let go of a stream that ends, as it lets go of everything else."""
        stream = self._of
        self.is_over = True
        for name in ("append", "retreat", "apply", "applying", "show_plain", "show_unqueued"):
            del vars(stream)[name]
        for name in ("abandon", "break_cycles", "detach", _SHADOW):
            del vars(stream)[name]
        self._stream = None
        self.rest()
        Stream.break_cycles(stream)


def _messages_of(stream: Stream) -> dict[str, object]:
    """The messages of a stream, column by column: one by one they take much longer. Raises
    StoreError for a message of a replica that is damaged."""
    log = stream.log
    found = log.read(1, log.messages + 1, DUMP_BYTES_MAX)
    if found.sequences and (behind := log.index.next_message(found.sequences[-1] + 1)):
        log.get(behind)
    return {
        "messages": found.sequences,
        "times": found.timestamps_ns,
        "headers": found.headers,
        "payloads": found.payloads,
    }


def _dump_index(stream: StreamView) -> dict[str, object]:
    """The part of the messages of a stream that is in memory."""
    log = stream.log
    return {
        "first_sequence": log.first_sequence,
        "last_sequence": log.last_sequence,
        "byte_count": log.byte_count,
        "subjects": log.subject_counts(),
        "expiries": sorted(pair for pair in log.expiries.pending() if log.index.has(pair[0])),
    }


class Shadows:
    """The shadows of one test."""

    def __init__(self) -> None:
        self._all: list[Shadow] = []
        self._store: Store | None = None
        self._made = 0
        self.faults: list[str] = []
        self._is_defect_planted = False
        # The number of comparisons.
        self.compared = 0

    def note(self, fault: str) -> None:
        self.faults.append(fault)

    def forget(self, shadow: Shadow) -> None:
        """Free a shadow with its log, unless that was done."""
        if shadow in self._all:
            self._all.remove(shadow)
            self.remove(shadow.copy)

    def follow(self, stream: Stream, place: Place) -> None:
        """Give a stream that begins to run its shadow."""
        if _SHADOW not in vars(stream) and not stream.log.offline:
            self._all.append(Shadow(self, stream, place))

    def finish(self) -> None:
        """Compare all that still run. Raises AssertionError."""
        for shadow in [*self._all]:
            shadow.compare()
        assert not self.faults or self._is_defect_planted, self.faults

    def defect_planted(self) -> None:
        """Find faults without an error: the test plants a defect for a check of its own."""
        self._is_defect_planted = True

    def leave(self, stream: Stream) -> None:
        """Compare a stream no more, because a test changes it by no record."""
        vars(stream)[_SHADOW].is_over = True

    def compare_on(self, disk: object) -> None:
        """Compare the streams of a disk, whose process ends in the middle of its work.

        Their messages are not read: a read would write those that the crash is to lose. A test may
        run through thousands of processes, so nothing is kept of one that has ended.
        """
        for shadow in [*self._all]:
            if shadow.place.disk is disk:
                shadow.compare(with_messages=False)
                shadow.rest()

    def compare_in(self, store: Store) -> None:
        """Compare the streams of a store, which is about to be closed."""
        for shadow in [*self._all]:
            if shadow.place.store is store:
                shadow.compare()

    # --- copies --------------------------------------------------------------------------------

    def copy_of(self, stream: Stream) -> Stream:
        """A stream with the state of another one, and a log of its own."""
        host = ShadowHost(stream.host.server)
        log, first = stream.log, max(stream.config.first_seq, 1)
        is_new = log.last_sequence == first - 1 and not stream.consumers.by_name
        if is_new and not stream.tells_first_sequence and not stream.dedupe.last_id:
            return Stream(stream.config, self._new_log(stream, first), stream.created_ns, host)
        reader = SnapshotReader(stream, bytes(16))
        chunks: list[bytes] = []
        while (chunk := reader.next_chunk(1, 1)) is not None:
            chunks.append(chunk)
        first = read_header(chunks[0]).first_sequence
        writer = SnapshotWriter(chunks[0], self._new_log(stream, first))
        for chunk in chunks[1:]:
            writer.accept(chunk)
        return at_once(writer.finishing(host))

    def remove(self, shadow: Stream) -> None:
        """Free the shadow of a stream that has ended."""
        for consumer in shadow.consumers:
            consumer.end(True, Proposal())
        shadow.break_cycles()
        if isinstance(shadow.log, FileLog):
            assert self._store is not None
            (name,) = [name for name, log in self._store.logs.items() if log is shadow.log]
            self._store.remove_stream(name)

    def _new_log(self, stream: Stream, first_sequence: int) -> MessageLog:
        log = stream.log
        if not isinstance(log, FileLog):
            return MemoryLog(first_sequence)
        if self._store is None:
            disk = SimDisk(2)
            entropy = SeededEntropy(labelled_rng(2, "shadows"))
            self._store = open_store(disk, "/shadows", entropy, disk.boot_id)
        self._made += 1
        name = f"shadow {self._made}"
        return self._store.make_stream(
            name, log.identity, b"", first_sequence, SyncMode.INTERVAL, False
        )


@contextmanager
def shadowed() -> Iterator[Shadows]:
    """Have every stream that a server of this process runs followed by a shadow.

    Raises AssertionError at the end if a shadow is another stream.
    """
    shadows = Shadows()
    with ExitStack() as stack:

        def before(owner: type, name: str, look: Callable[..., object]) -> None:
            method = getattr(owner, name)

            def looking(self: Any, *args: Any, **named: Any) -> Any:
                look(self, *args, **named)
                return method(self, *args, **named)

            stack.enter_context(patch.object(owner, name, looking))

        def follow(streams: HostedStreams, _: JetStreamAccount, stream: Stream, *__: Any) -> None:
            shadows.follow(stream, Place(streams._runners.now_ns, streams._files.store))

        def release(runner: StreamRunner, proposal: Proposal[Record]) -> None:
            shadow: Shadow | None = vars(runner.stream).get(_SHADOW)
            # A test of the shadows runs them within those of every test.
            if shadow is not None and shadow.shadows is shadows:
                shadow.check_released(proposal)

        before(HostedStreams, "run", follow)
        before(HostedStreams, "finish_refill", follow)
        before(StreamRunner, "release", release)
        before(Store, "close", shadows.compare_in)
        before(SimDisk, "kill", shadows.compare_on)
        before(SimDisk, "power_loss", lambda disk, *_: shadows.compare_on(disk))
        yield shadows
    shadows.finish()
