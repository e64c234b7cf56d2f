"""One of several replicas of a stream: joined to the consensus of its group.

    consensus ─▶ StreamReplica ─┬─▶ StreamRunner: leads, its committer is `Quorum`
                                └─▶ StreamFollower: applies what the leader has committed

A server that is elected applies everything before its own term first, as a follower, and serves
then. A server that loses its office forgets the entries that are not committed, and follows. On an
eventual stream it may have applied some of them (`headwater.jetstream.tail`): then the files of the
stream are opened again as they were after the last entry that the quorum has.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, Protocol, final

from headwater.base.invariants import check
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.committers import Quorum
from headwater.jetstream.config.stream_config import StreamConfig, has_leases
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record, Skipped
from headwater.jetstream.snapshots.chunks import SnapshotError
from headwater.jetstream.snapshots.reader import SnapshotReader
from headwater.jetstream.snapshots.writer import SnapshotWriter, read_header
from headwater.jetstream.streams.digests import Digests
from headwater.jetstream.streams.stream import Stream
from headwater.jetstream.tail import Tail, has_tail
from headwater.raft.entry import Entry, EntryKind
from headwater.server.streams.confirmation import Confirmation, GroupReads
from headwater.server.streams.follower import StreamFollower, note_applied
from headwater.server.streams.losses import tell_losses
from headwater.server.streams.replica_tail import AheadGroups, AppliedAhead, keep_lost
from headwater.server.streams.runner import StreamRunner
from headwater.server.streams.runners import StreamRunners
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupEntry
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import MessageLog
from headwater.store.replicas import keep_partial

# Sequences that a majority may have given out since its disks were synced, beyond those that the
# next leader knows to be reserved: more than a stream takes in the longest interval of syncs.
LOST_MAX: Final = 1 << 26
# The time between two looks for room, of a replica whose disk was full.
ROOM_S: Final = 1.0
# A leader reads a snapshot only while its tail is empty. If the quorum does not get the tail within
# this time, the group elects a leader again, whose state is what is committed.
TAIL_S: Final = 1.0
# The time for which a leader has no tail because of upkeep: longer than the interval of upkeep.
REST_S: Final = 40.0


class LeaderReads(GroupReads, Protocol):
    """The linearizable reads of a server, with the leases that they rest on."""

    def grant(self, identity: bytes, is_leased: bool) -> None:
        """Have later entries of a group grant leases, or none."""
        ...


class Consensus(Protocol):
    """The consensus of a server, as far as its replicas use it."""

    def propose(self, identity: bytes, batch: list[bytes]) -> int | None:
        """Propose entries. Returns the place of the first; None if that is not possible now."""
        ...

    def withdraw(self, identity: bytes, first: int) -> bool:
        """Withdraw all entries from a place on. Returns whether that is possible."""
        ...

    def applied_to(self, identity: bytes, index: int) -> None:
        """Note that a replica has applied all entries up to a place."""
        ...

    def proposal_wanted(self, identity: bytes, is_urgent: bool) -> None:
        """Have `propose_gathered` called at the end of the turn, or within milliseconds."""
        ...

    @property
    def reads(self) -> LeaderReads:
        """The linearizable reads of the groups of the server."""
        ...

    @property
    def ahead(self) -> AheadGroups:
        """The groups of the server that run ahead of their quorums."""
        ...

    def transfer(self, identity: bytes, to: str) -> bool:
        """Hand a group over to a member, or to the best one. Returns whether that is possible."""
        ...

    def remove_group(self, identity: bytes) -> None:
        """Cease to take part in a group, and forget its log."""
        ...

    def machine_failed(self, identity: bytes, reason: str) -> None:
        """Note that a replica cannot be written any more, so that another server has to lead."""
        ...

    def refill(self, identity: bytes, reason: str) -> None:
        """Have the state of the leader replace that of a replica."""
        ...


class Place(Protocol):
    """The place of a replica among the streams of its server."""

    def lead(self, stream: Stream, quorum: Quorum) -> StreamRunner:
        """Have the replica serve clients."""
        ...

    def step_down(self, runner: StreamRunner) -> list[Proposal[Record]]:
        """Have the replica serve clients no more. Returns the committed entries that are not
        applied."""
        ...

    def reconfigured(self, stream: Stream, old: StreamConfig) -> None:
        """Follow a replica with another configuration than `old`."""
        ...

    def cut_back(self, stream: Stream) -> Stream:
        """The replica without the entries behind the last one that stays. Raises StoreError."""
        ...

    def begin_refill(self, stream: Stream, incarnation: bytes, first_sequence: int) -> MessageLog:
        """An empty log in the place of that of the replica. Raises StoreError."""
        ...

    def resume_refill(self, stream: Stream) -> MessageLog:
        """The log of the replica with all that it has, to be filled further. Raises StoreError."""
        ...

    def finish_refill(self, writer: SnapshotWriter) -> Stream:
        """The replica that was filled again. Raises StoreError."""
        ...


_HELD: Final = Struct("<Q")
"""The part of a snapshot that a follower has: the last sequence of its messages."""


def _next_wanted(stream: Stream, held: bytes) -> int:
    """The first sequence of a snapshot behind what a follower has; 0 for a whole snapshot.

    Committed messages are the same on all replicas, so those that the follower has need not travel;
    the snapshot says which of them are left. Message ids, schedules and consumers change in no
    order that a follower could name: they are all sent, and are few beside the messages.
    """
    if len(held) != _HELD.size:
        return 0
    (last,) = _HELD.unpack(held)
    log = stream.log
    # Nothing is left of the messages of a follower that ends before the first one, and a follower
    # that has more than its leader has something else.
    return last + 1 if log.first_sequence <= last <= log.last_sequence else 0


@final
class _Source:
    """The snapshot of a stream, as its leader reads it."""

    __slots__ = ("_held", "_is_closed", "_reader", "_replica")

    def __init__(self, replica: "StreamReplica", held: bytes) -> None:
        """`held` is what the follower has."""
        self._replica = replica
        self._held = held
        self._reader: SnapshotReader | None = None
        self._is_closed = False
        replica.sources += 1
        replica.hold_tail()
        if replica.is_ahead:
            replica.call_later(TAIL_S, self._end_tail)

    def _end_tail(self) -> None:
        """Have the group elect a leader again if the quorum does not have the tail."""
        if not self._is_closed and self._reader is None:
            self._replica.end_tail()

    def next_chunk(self) -> bytes | None:
        """The next piece; an empty one while a long change of the stream is under way, or entries
        are applied that may be taken back."""
        replica = self._replica
        if replica.stream.log.is_held or replica.is_ahead:
            return b""
        if self._reader is None:
            wanted = _next_wanted(replica.stream, self._held)
            self._reader = SnapshotReader(replica.stream, replica.identity, wanted)
        return self._reader.next_chunk(replica.applied_index, 0)

    @property
    def index(self) -> int:
        """The last entry whose effects all pieces together have."""
        end = None if self._reader is None else self._reader.end
        check(end is not None, "the place of a snapshot is known behind its last piece")
        assert end is not None
        return end.entry

    def close(self) -> None:
        """Let the leader run ahead of the quorum again."""
        if not self._is_closed:
            self._is_closed = True
            self._replica.sources -= 1
            self._replica.hold_tail()


@final
class _Sink:
    """A log that is filled by the pieces of a snapshot: that of a replica with what it has, or an
    empty one in its place."""

    __slots__ = ("_replica", "held", "writer")

    def __init__(self, replica: "StreamReplica", held: bytes) -> None:
        self._replica = replica
        self.held = held
        self.writer: SnapshotWriter | None = None

    def add(self, chunk: bytes) -> None:
        """Take in the next piece. Raises StoreError."""
        try:
            if self.writer is None:
                self._begin(chunk)
            else:
                self.writer.accept(chunk)
                self._replica.keep_partial()
        except SnapshotError as error:
            # The state of the replica does not fit the snapshot: the next one replaces it.
            self._replica.starts_over = True
            raise StoreError(f"the snapshot of the leader: {error}") from error

    def _begin(self, chunk: bytes) -> None:
        header = read_header(chunk)
        if header.incarnation != self._replica.identity:
            raise SnapshotError("the snapshot is that of another stream")
        if header.goes_on:
            log = self._replica.resume_refill()
        else:
            log = self._replica.begin_refill(header.first_sequence)
        self.writer = SnapshotWriter(chunk, log)

    def discard(self) -> None:
        """Leave the log as it is: the next snapshot goes on with it."""
        self.writer = None


@final
class StreamReplica:
    """The replica of a stream on this server."""

    __slots__ = (
        "_ahead",
        "_jumps_to",
        "_leased_by",
        "_log",
        "_passes_over",
        "_place",
        "_replicated",
        "_runners",
        "_sink",
        "_stays_to",
        "account",
        "applied_index",
        "consensus",
        "damage_found",
        "digest_formed",
        "follower",
        "identity",
        "leader",
        "must_refill",
        "quorum",
        "role_told",
        "runner",
        "sources",
        "starts_over",
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
        self.must_refill = isinstance(log, FileLog) and bool(log.must_refill or log.is_partial)
        # Whether the next snapshot replaces all that is here.
        self.starts_over = isinstance(log, FileLog) and bool(log.must_refill)
        self._sink: _Sink | None = None
        # The log of the stream, or the one that will be it.
        self._log: MessageLog = log
        # The last sequence that a message may have had which a majority has forgotten.
        self._passes_over = 0
        # Places that are applied here and that the quorum may not have, and the last place that it
        # is known to have.
        self._ahead = AppliedAhead()
        self._replicated = 0
        # The last place whose effects the state had that a snapshot replaces.
        self._stays_to = 0
        # The snapshots of this replica that are being read.
        self.sources = 0
        # The last sequence that a leader before this one may have given out; 0 if that is over.
        self._jumps_to = 0
        # The configuration by which the entries of the group grant leases.
        self._leased_by: StreamConfig | None = None
        self.leader = ""
        # Called when a read finds a message that this replica cannot read.
        self.damage_found: Callable[[StreamReplica], object] = lambda _: None
        # Called when there is another digest to be compared.
        self.digest_formed: Callable[[StreamReplica], object] = lambda _: None
        # Called when the replica has another leader.
        self.role_told: Callable[[StreamReplica], object] = lambda _: None
        self.runner: StreamRunner | None = None
        self.quorum: Quorum | None = None
        self.follower: StreamFollower | None = self._new_follower()
        self._begin_digests()

    def _begin_digests(self) -> None:
        """Form digests of the entries from here on."""
        self.stream.digests = Digests(
            self.stream.log, self.applied_index, lambda: self.digest_formed(self)
        )

    def _end_digests(self) -> None:
        """Form no digest of a state that entries are not applied to any more."""
        if self.stream.digests is not None:
            self.stream.digests.end()
            self.stream.digests = None

    def watch_damage(self) -> None:
        """Tell of messages that cannot be read, also of those that were found before this."""
        log = self.stream.log
        if isinstance(log, FileLog):
            log.losses.damage.found = lambda: self.damage_found(self)
            if log.losses.damage.count:
                self.damage_found(self)

    def _new_follower(self) -> StreamFollower:
        follower = StreamFollower(
            self.stream,
            self.applied_index,
            self._runners.slices,
            self._runners.scheduler,
            self._applied,
            lambda old: self._place.reconfigured(self.stream, old),
            self._failed,
            self._runners.when_room,
        )
        self._runners.followers[self.account, self.stream.name] = follower
        return follower

    def _end_follower(self) -> None:
        """Have nobody follow, because this server leads or leaves, or has another state."""
        if self.follower is not None:
            self._runners.followers.pop((self.account, self.stream.name), None)
            self.follower.end()
            self.follower = None

    @property
    def is_leading(self) -> bool:
        """Whether this server leads the stream and serves its clients."""
        return self.runner is not None

    @property
    def is_settled(self) -> bool:
        """Whether the leader has nothing in flight."""
        return self.runner is not None and not (self.runner.is_waiting or self.is_ahead)

    @property
    def durable_index(self) -> int:
        """The last entry whose effects survive a crash without the entry itself.

        A stream in memory survives no crash, and its entries do not either.
        """
        log = self.stream.log
        return log.durable_entry if isinstance(log, FileLog) else self.applied_index

    # --- the machine of a group ----------------------------------------------------------------

    def follow_level(self) -> None:
        """Have the entries of the group grant leases as the level of reads wants it, and its leader
        run ahead as that of writes does: a change of a level takes effect at its place in the log.
        """
        config = self.stream.config
        if config is not self._leased_by and self.consensus is not None:
            self._leased_by = config
            self.consensus.reads.grant(self.identity, has_leases(config))
            runs_ahead = has_tail(config)
            self.consensus.ahead.run_ahead(self.identity, self if runs_ahead else None)
            if self.quorum is not None and not self._jumps_to:
                self._follow_tail(self.quorum)

    def apply(self, entries: list[Entry]) -> int:
        """Apply committed entries. Returns the place up to which everything is applied by now."""
        if self.consensus is None:
            return 0
        if (digests := self.stream.digests) is not None:
            for entry in entries:
                if entry.kind is not EntryKind.DATA:
                    digests.pass_over(entry.index)
        if self.follower is not None:
            self.applied_index = self.follower.apply(
                (entry.index, entry.data if entry.kind is EntryKind.DATA else b"")
                for entry in entries
            )
            self.follow_level()
            return self.applied_index
        runner, quorum = self.runner, self.quorum
        assert runner is not None
        assert quorum is not None
        last = entries[-1]
        self._replicated = last.index
        quorum.place_committed(last.index)
        if self._tell_kept():
            runner.consumers.messages_kept()
        self._keep_applied(last.index)
        runner.committed()
        is_without_data = last.kind is not EntryKind.DATA
        if is_without_data and not (quorum.has_unapplied or self._ahead):
            # An entry that changes nothing here is applied when those before it are.
            self._note_applied(last.index)
        self.written()
        return self.applied_index

    def _note_applied(self, place: int) -> None:
        """Note a place up to which the runner has applied everything."""
        if place > self._replicated:
            self._ahead.add(self.stream, place)
            return
        note_applied(self.stream, place)
        has_jumped = self.stream.log.last_sequence >= self._jumps_to > 0
        if has_jumped and self.quorum is not None:
            self._jumps_to = 0
            self._follow_tail(self.quorum)
        self._tell_applied(place)

    def _tell_applied(self, place: int) -> None:
        """Tell the consensus of a place up to which everything is applied, and stays."""
        self.applied_index = place
        self.follow_level()
        if self.consensus is not None:
            self.consensus.applied_to(self.identity, place)

    def _applied(self, place: int) -> None:
        """Note the end of a long application of the follower."""
        self._tell_applied(place)

    # --- the tail of an eventual stream --------------------------------------------------------

    def _follow_tail(self, quorum: Quorum) -> None:
        """Have a leader run ahead of the quorum, if the stream is eventual. All that it has applied
        so far is committed, and no other leader has given out what it is about to."""
        if not has_tail(self.stream.config):
            quorum.tail = None
        elif quorum.tail is None:
            quorum.tail = Tail(self._runners.tail_limits, self.stream.log.last_sequence)
            self.hold_tail()
            if self.consensus is not None:
                self.consensus.ahead.be_sure_of_sequences(self.identity)

    def written(self) -> None:
        """Apply what the log of this server has, as far as the tail may reach."""
        if self.runner is None or self.quorum is None or self.consensus is None:
            return
        log, ahead = self.stream.log, self.consensus.ahead
        if self._ahead and isinstance(log, FileLog) and log.take_upkeep_wanted():
            self._rest(self.quorum.tail)
        has_quorum = ahead.has_quorum(self.identity)
        if self.quorum.place_written(ahead.vouched(self.identity), has_quorum):
            # Before the first of them is visible.
            self._tell_kept()
            self.runner.committed()

    def _rest(self, tail: Tail | None) -> None:
        """Wait for the quorum for some time, so that the files of the stream are put in order."""

        def end() -> None:
            if tail is not None:
                tail.is_resting = False

        if tail is not None and not tail.is_resting:
            tail.is_resting = True
            self._runners.scheduler.call_later(REST_S, end)

    def entries_lost(self, entries: list[GroupEntry]) -> None:
        """Keep entries that are about to be cut off from the log, and tell of their messages."""
        first = max(self.applied_index, self._stays_to) + 1
        data = [each for each in entries if each.kind == EntryKind.DATA and each.index >= first]
        successor = None if self._log is self.stream.log and not self.must_refill else self._log
        if (lost := keep_lost(self.stream, data, successor)) is not None:
            self._runners.tell_lost(self.account, self.stream.name, lost)

    def _keep_applied(self, place: int) -> None:
        """Note that all that is applied up to a place stays."""
        if kept := self._ahead.keep(self.stream, place):
            self._tell_applied(kept)

    @property
    def is_ahead(self) -> bool:
        """Whether entries are applied, or being applied, that may be taken back."""
        tail = None if self.quorum is None else self.quorum.tail
        return bool(self._ahead) or not (tail is None or tail.is_empty)

    def _tell_kept(self) -> bool:
        """Tell the stream which of its messages stay. Returns whether that is news."""
        tail = None if self.quorum is None else self.quorum.tail
        kept = None if tail is None or tail.is_empty else tail.committed_sequence
        is_news = kept != self.stream.kept_sequence
        self.stream.kept_sequence = kept
        return is_news

    def hold_tail(self) -> None:
        """Have the leader wait for the quorum while a snapshot is read, and not afterwards."""
        if self.quorum is not None and self.quorum.tail is not None:
            self.quorum.tail.is_held = self.sources > 0
            self.written()

    def end_tail(self) -> None:
        """Have the group elect a leader again if the quorum does not have the tail."""
        if self.is_ahead and self.consensus is not None:
            self.consensus.ahead.resign(self.identity)

    def call_later(self, seconds: float, work: Callable[[], object]) -> None:
        """Have a function called when some time has passed."""
        self._runners.scheduler.call_later(seconds, work)

    def _take_back(self) -> None:
        """Open the files as they were after the last entry that the quorum has: entries behind it
        may be cut off from the log. A replica without such files is filled by the next leader."""
        self._ahead.clear()
        self._end_digests()
        try:
            self.stream = self._place.cut_back(self.stream)
        except StoreError:
            self.applied_index, self.must_refill, self.starts_over = 0, True, True
            return
        self._log = self.stream.log
        self._begin_digests()
        self.watch_damage()

    def _jump(self, runner: StreamRunner) -> None:
        """Pass over the sequences that the leader before this one may have given out, before any
        other is given out; unless it has handed over all of them."""
        quorum = self.quorum
        if self.consensus is None or quorum is None or not has_tail(self.stream.config):
            return
        if self.consensus.ahead.follows_release(self.identity):
            return
        first = self.stream.look_ahead.next_sequence
        self._jumps_to = first - 1 + self._runners.tail_limits.messages
        jump = Proposal[Record](
            [Skipped(self._jumps_to, b"", b"", self._runners.now_ns())], is_awaited=False
        )
        runner.propose(jump)
        # Publishes behind it may be withdrawn.
        quorum.alone = jump.index
        self.propose_gathered()
        self._runners.log_warning(
            f"Stream '{self.account} > {self.stream.name}': the leader before this one was lost, "
            f"with messages that no other server had, if there were any. The sequences {first} to "
            f"{self._jumps_to} are passed over."
        )

    def _failed(self, reason: str) -> None:
        if self.consensus is not None:
            self.consensus.machine_failed(self.identity, reason)
            if self.stream.log.is_full:
                self._await_room()

    def _await_room(self) -> None:
        """Take part again when the disk has room: a part of an entry may be missing until then."""
        if self.consensus is None:
            return
        if self.stream.log.is_full:
            self._runners.scheduler.call_later(ROOM_S, self._await_room)
            return
        if self.runner is not None:
            self.end_leading()
        self.consensus.refill(self.identity, "the disk has room again for its entries")

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

    def open_snapshot(self, held: bytes = b"") -> _Source:
        """Begin to read the state of the stream, for a follower that has a part of it."""
        return _Source(self, held)

    def open_sink(self) -> _Sink:
        """Begin to take in the state of the leader."""
        check(self.runner is None, "a leader is not filled again")
        self._sink = _Sink(self, self._held())
        return self._sink

    def _held(self) -> bytes:
        """The part of the state of the leader that is here; empty if the leader sends it all.

        The times at which messages of a log in memory expire are told at the end of a snapshot, so
        a log that has some of them begins again.
        """
        log = self._log
        if self.starts_over or not log.messages or not isinstance(log, FileLog) or log.offline:
            return b""
        return _HELD.pack(log.last_sequence)

    def begin_refill(self, first_sequence: int) -> MessageLog:
        """An empty log in the place of the present one. Raises StoreError."""
        self._end_following()
        self._log = self._place.begin_refill(self.stream, self.identity, first_sequence)
        self.starts_over = False
        return self._log

    def resume_refill(self) -> MessageLog:
        """The present log, to be filled further. Raises StoreError."""
        self._end_following()
        if self._log is self.stream.log:
            self._log = self._place.resume_refill(self.stream)
        return self._log

    def _end_following(self) -> None:
        """Have a state to which entries are not applied any more."""
        if self.follower is not None:
            self.follower.finish_work()
            self.follower.reads.answer_all()
        self._end_digests()
        self.must_refill = True
        self._stays_to = max(self._stays_to, self.applied_index)
        self.applied_index = 0

    def keep_partial(self) -> None:
        """Have a crash keep what has come of a snapshot. Raises StoreError."""
        if isinstance(self._log, FileLog):
            keep_partial(self._log)

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
            stream.log.is_partial = False
        self._end_follower()
        self._end_digests()
        self.stream, self.applied_index, self.must_refill = stream, index, False
        self._log = stream.log
        self.follower = self._new_follower()
        self._begin_digests()
        self.watch_damage()
        self.follow_level()

    def discard_snapshot(self) -> None:
        """Forget a stream that was filled and is not needed."""
        self._sink = None

    # --- withdrawals ---------------------------------------------------------------------------

    def withdraw(self, place: int) -> bool:
        """Withdraw all entries from a place on. Returns whether that is possible."""
        return self.consensus is not None and self.consensus.withdraw(self.identity, place)

    def disown(self, place: int) -> None:
        """Have the entries from a place on withdrawn if this server leads again."""
        if self.consensus is not None:
            self.consensus.ahead.disown(self.identity, place)

    # --- offices -------------------------------------------------------------------------------

    def _begin_to_lead(self) -> None:
        check(self.follower is not None, "a replica leads or follows")
        assert self.follower is not None
        self.follower.finish_work()
        self._end_follower()
        self.quorum = Quorum(
            RecordCodec(self.stream.log.record_seed, has_replicas=True),
            lambda: self._want_proposal(is_urgent=True),
            lambda: self._want_proposal(is_urgent=False),
            self._note_applied,
            lambda: self._failed(self.stream.log.offline or "a committed entry was not stored"),
            self,
        )
        runner = self.runner = self._place.lead(self.stream, self.quorum)
        if self.consensus is not None:
            runner.confirmation = Confirmation(self.consensus.reads, self.identity)
        is_mirror = self.stream.config.mirror is not None
        next_sequence = self.stream.look_ahead.next_sequence
        if next_sequence <= self._passes_over and not is_mirror:
            passed = Skipped(self._passes_over, b"", b"", self._runners.now_ns())
            self.tell_losses([(next_sequence, self._passes_over)])
            runner.propose(Proposal([passed], is_awaited=False))
        self._jump(runner)
        if not self._jumps_to:
            self._follow_tail(self.quorum)

    def tell_losses(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Tell, as the leader, that messages of ranges of sequences are lost."""
        if self.runner is not None:
            runners, account = self._runners, self.runner.account
            name = self.stream.name
            tell_losses(runners.advisories, runners.log_warning, account, name, ranges)

    def end_leading(self) -> None:
        """Follow from now on."""
        assert self.runner is not None
        runner, self.runner = self.runner, None
        quorum, self.quorum = self.quorum, None
        stalled = self._place.step_down(runner)
        self._jumps_to = 0
        # A part of a place may be applied, and the rest of it wait for room on the disk.
        is_amid = quorum is not None and quorum.first_unapplied > self._replicated
        if self._ahead or is_amid:
            self._take_back()
        self.stream.kept_sequence = None
        self.follower = self._new_follower()
        if stalled and quorum is not None and not self.must_refill:
            # They are committed, and nobody tells of them again.
            waiting = quorum.entries_of(stalled, self._replicated)
            self.applied_index = self.follower.apply(waiting)

    def hand_over(self) -> None:
        """Have another server lead soon, because this one has no room for an entry."""
        self._runners.scheduler.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        if self.runner is not None and self.consensus is not None:
            self.consensus.transfer(self.identity, "")

    def retire(self, reason: str) -> None:
        """Take no part in the group until the next start, and keep log and files."""
        if self.runner is not None:
            self.end_leading()
        if self.follower is not None:
            self.follower.finish_work()
            self._end_follower()
        if isinstance(self.stream.log, FileLog):
            self.stream.log.losses.damage.unwatch()
        self._failed(reason)
        self.consensus = None

    def leave(self) -> None:
        """Take no part in the group any more, because the stream is deleted."""
        self._end_follower()
        if isinstance(self.stream.log, FileLog):
            self.stream.log.losses.damage.unwatch()
        self._end_digests()
        self.quorum = None
        self.runner = None
        if self.consensus is not None:
            self.consensus.ahead.run_ahead(self.identity, None)
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
