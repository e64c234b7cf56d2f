"""One of several replicas of a stream: joined to the consensus of its group.

    consensus ─▶ StreamReplica ─┬─▶ StreamRunner: leads, its committer is `Quorum`
                                └─▶ StreamFollower: applies what the leader has committed

A server that is elected applies everything before its own term first, as a follower, and serves
then. A server that loses its office forgets the entries that are not committed, and follows.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from headwater.base.invariants import check
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.committers import Quorum
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Skipped
from headwater.jetstream.snapshots.chunks import SnapshotError
from headwater.jetstream.snapshots.reader import SnapshotReader
from headwater.jetstream.snapshots.writer import SnapshotWriter, read_header
from headwater.jetstream.streams.stream import Stream
from headwater.raft.entry import Entry, EntryKind
from headwater.server.streams.follower import StreamFollower, note_applied
from headwater.server.streams.runner import StreamRunner
from headwater.server.streams.runners import StreamRunners
from headwater.store.errors import StoreError
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import MessageLog

# Sequences that a majority may have given out since its disks were synced, beyond those that the
# next leader knows to be reserved: more than a stream takes in the longest interval of syncs.
LOST_MAX: Final = 1 << 26


class Consensus(Protocol):
    """The consensus of a server, as far as its replicas use it."""

    def propose(self, identity: bytes, batch: list[bytes]) -> int | None:
        """Propose entries. Returns the place of the first; None if that is not possible now."""
        ...

    def applied_to(self, identity: bytes, index: int) -> None:
        """Note that a replica has applied all entries up to a place."""
        ...

    def proposal_wanted(self, identity: bytes, is_urgent: bool) -> None:
        """Have `propose_gathered` called at the end of the turn, or within milliseconds."""
        ...

    def remove_group(self, identity: bytes) -> None:
        """Cease to take part in a group, and forget its log."""
        ...

    def machine_failed(self, identity: bytes, reason: str) -> None:
        """Note that a replica cannot be written any more, so that another server has to lead."""
        ...


class Place(Protocol):
    """The place of a replica among the streams of its server."""

    def lead(self, stream: Stream, quorum: Quorum) -> StreamRunner:
        """Have the replica serve clients."""
        ...

    def step_down(self, runner: StreamRunner) -> None:
        """Have the replica serve clients no more."""
        ...

    def reconfigured(self, stream: Stream, old: StreamConfig) -> None:
        """Follow a replica with another configuration than `old`."""
        ...

    def begin_refill(self, stream: Stream, incarnation: bytes, first_sequence: int) -> MessageLog:
        """An empty log in the place of that of the replica. Raises StoreError."""
        ...

    def finish_refill(self, writer: SnapshotWriter) -> Stream:
        """The replica that was filled again. Raises StoreError."""
        ...


@final
class _Source:
    """The snapshot of a stream, as its leader reads it."""

    __slots__ = ("_reader", "_replica")

    def __init__(self, replica: "StreamReplica") -> None:
        self._replica = replica
        self._reader = SnapshotReader(replica.stream, replica.identity)

    def next_chunk(self) -> bytes | None:
        """The next piece; an empty one while a long change of the stream is under way."""
        if self._replica.stream.log.is_held:
            return b""
        return self._reader.next_chunk(self._replica.applied_index, 0)

    @property
    def index(self) -> int:
        """The last entry whose effects all pieces together have."""
        end = self._reader.end
        check(end is not None, "the place of a snapshot is known behind its last piece")
        assert end is not None
        return end.entry

    def close(self) -> None:
        """Have nothing to release."""


@final
class _Sink:
    """A log that is filled by the pieces of a snapshot, in the place of that of a replica."""

    __slots__ = ("_replica", "writer")

    def __init__(self, replica: "StreamReplica") -> None:
        self._replica = replica
        self.writer: SnapshotWriter | None = None

    def add(self, chunk: bytes) -> None:
        """Take in the next piece. Raises StoreError."""
        try:
            if self.writer is None:
                header = read_header(chunk)
                if header.incarnation != self._replica.identity:
                    raise SnapshotError("the snapshot is that of another stream")
                log = self._replica.begin_refill(header.first_sequence)
                self.writer = SnapshotWriter(chunk, log)
            else:
                self.writer.accept(chunk)
        except SnapshotError as error:
            raise StoreError(f"the snapshot of the leader: {error}") from error

    def discard(self) -> None:
        """Leave the log as it is: it counts for nothing, and the next snapshot replaces it."""
        self.writer = None


@final
class StreamReplica:
    """The replica of a stream on this server."""

    __slots__ = (
        "_passes_over",
        "_place",
        "_runners",
        "_sink",
        "account",
        "applied_index",
        "consensus",
        "follower",
        "identity",
        "leader",
        "must_refill",
        "quorum",
        "role_told",
        "runner",
        "stream",
    )

    def __init__(
        self, identity: bytes, account: str, stream: Stream, runners: StreamRunners, place: Place
    ) -> None:
        self.identity = identity
        self.account = account
        self.stream = stream
        self._runners = runners
        self._place = place
        # There once the server takes part in the group.
        self.consensus: Consensus | None = None
        log = stream.log
        self.applied_index = log.applied_entry if isinstance(log, FileLog) else 0
        self.must_refill = isinstance(log, FileLog) and bool(log.must_refill)
        self._sink: _Sink | None = None
        # The last sequence that a message may have had which a majority has forgotten.
        self._passes_over = 0
        self.leader = ""
        # Called when the replica has another leader.
        self.role_told: Callable[[StreamReplica], object] = lambda _: None
        self.runner: StreamRunner | None = None
        self.quorum: Quorum | None = None
        self.follower: StreamFollower | None = self._new_follower()

    def _new_follower(self) -> StreamFollower:
        return StreamFollower(
            self.stream,
            self.applied_index,
            self._runners.slices,
            self._applied,
            lambda old: self._place.reconfigured(self.stream, old),
            self._failed,
        )

    @property
    def is_leading(self) -> bool:
        """Whether this server leads the stream and serves its clients."""
        return self.runner is not None

    @property
    def is_settled(self) -> bool:
        """Whether the leader has nothing in flight."""
        return self.runner is not None and not self.runner.is_waiting

    @property
    def durable_index(self) -> int:
        """The last entry whose effects survive a crash without the entry itself.

        A stream in memory survives no crash, and its entries do not either.
        """
        log = self.stream.log
        return log.durable_entry if isinstance(log, FileLog) else self.applied_index

    # --- the machine of a group ----------------------------------------------------------------

    def apply(self, entries: list[Entry]) -> int:
        """Apply committed entries. Returns the place up to which everything is applied by now."""
        if self.consensus is None:
            return 0
        if self.follower is not None:
            self.applied_index = self.follower.apply(
                (entry.index, entry.data if entry.kind is EntryKind.DATA else b"")
                for entry in entries
            )
            return self.applied_index
        runner, quorum = self.runner, self.quorum
        assert runner is not None
        assert quorum is not None
        last = entries[-1]
        quorum.place_committed(last.index)
        runner.committed()
        if not quorum.has_unapplied and last.kind is not EntryKind.DATA:
            # An entry that changes nothing here is applied when those before it are.
            self._note_applied(last.index)
        return self.applied_index

    def _note_applied(self, place: int) -> None:
        """Note a place up to which the runner has applied everything."""
        note_applied(self.stream, place)
        self.applied_index = place
        if self.consensus is not None:
            self.consensus.applied_to(self.identity, place)

    def _applied(self, place: int) -> None:
        """Note the end of a long application of the follower."""
        self.applied_index = place
        if self.consensus is not None:
            self.consensus.applied_to(self.identity, place)

    def _failed(self, reason: str) -> None:
        if self.consensus is not None:
            self.consensus.machine_failed(self.identity, reason)

    def role_changed(self, leader: str, is_leading: bool) -> None:
        """Lead, or follow a leader, or wait for one."""
        self.leader = leader
        if is_leading and self.runner is None:
            self._begin_to_lead()
        elif not is_leading and self.runner is not None:
            self.end_leading()
        self.role_told(self)

    def make_durable(self) -> None:
        """Wait for the next sync of the store: it comes at intervals."""

    # --- snapshots -----------------------------------------------------------------------------

    def distrust(self) -> None:
        """Give out no sequence any more that a lost message may have had."""
        log = self.stream.log
        if isinstance(log, FileLog):
            self._passes_over = log.reserved_sequence + LOST_MAX

    def give_up(self) -> None:
        """Have an empty log, which counts for nothing until a snapshot comes. Raises StoreError."""
        check(self.runner is None, "a leader gives nothing up")
        self.begin_refill(1)

    def open_snapshot(self) -> _Source:
        """Begin to read the state of the stream."""
        return _Source(self)

    def open_sink(self) -> _Sink:
        """Begin to take in the state of the leader."""
        check(self.runner is None, "a leader is not filled again")
        self._sink = _Sink(self)
        return self._sink

    def begin_refill(self, first_sequence: int) -> MessageLog:
        """An empty log in the place of the present one. Raises StoreError."""
        log = self._place.begin_refill(self.stream, self.identity, first_sequence)
        self.must_refill = True
        self.applied_index = 0
        return log

    def install(self, index: int) -> None:
        """Have the stream that was filled take the place of the one before, durably. Raises
        StoreError."""
        sink, self._sink = self._sink, None
        if sink is None or sink.writer is None:
            raise StoreError("a snapshot has no state")
        stream = self._place.finish_refill(sink.writer)
        if isinstance(stream.log, FileLog):
            stream.log.applied_entry = index
            stream.log.secure_applied()
        if self.follower is not None:
            self.follower.end()
        self.stream, self.applied_index, self.must_refill = stream, index, False
        self.follower = self._new_follower()

    def discard_snapshot(self) -> None:
        """Forget a stream that was filled and is not needed."""
        self._sink = None

    # --- offices -------------------------------------------------------------------------------

    def _begin_to_lead(self) -> None:
        check(self.follower is not None, "a replica leads or follows")
        assert self.follower is not None
        self.follower.finish_work()
        self.follower.end()
        self.follower = None
        self.quorum = Quorum(
            RecordCodec(self.stream.log.record_seed),
            lambda: self._want_proposal(is_urgent=True),
            lambda: self._want_proposal(is_urgent=False),
            self._note_applied,
            lambda: self._failed(self.stream.log.offline or "a committed entry was not stored"),
        )
        runner = self.runner = self._place.lead(self.stream, self.quorum)
        if self.stream.look_ahead.next_sequence <= self._passes_over:
            passed = Skipped(self._passes_over, b"", b"", self._runners.now_ns())
            runner.propose_unawaited([passed])

    def end_leading(self) -> None:
        """Follow from now on."""
        assert self.runner is not None
        runner, self.runner = self.runner, None
        self._place.step_down(runner)
        self.quorum = None
        self.follower = self._new_follower()

    def leave(self) -> None:
        """Take no part in the group any more, because the stream is deleted."""
        if self.follower is not None:
            self.follower.end()
            self.follower = None
        self.quorum = None
        self.runner = None
        if self.consensus is not None:
            self.consensus.remove_group(self.identity)
            self.consensus = None

    def _want_proposal(self, is_urgent: bool) -> None:
        if self.consensus is not None:
            self.consensus.proposal_wanted(self.identity, is_urgent)

    def propose_gathered(self) -> bool:
        """Propose the entries of the turn. Returns whether none is left."""
        consensus = self.consensus
        if self.quorum is None or consensus is None:
            return True
        return self.quorum.propose_by(lambda batch: consensus.propose(self.identity, batch))
