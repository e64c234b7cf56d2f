"""Repair of messages that a replica cannot read, by the records that its peers have.

    a read finds damage ─▶ note ─▶ ASK, one peer after another ─▶ record: stored, checked, readable
                                         │
                                         └─▶ no member of the group can read it, and this server
                                             leads: a record of the log removes it everywhere

The replicas of a stream are asked one after the other, the leader first, for some messages at a
time. A round ends when all were asked or all messages are repaired. The next one begins after a
pause, which doubles while nothing comes of it. A peer that is not there may have the message, so
nothing is lost before each member of the group has answered within one round.

A few streams of a server are repaired at the same time, so that questions and answers are bounded
in memory whatever the disk has done.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol, final

from headwater.base.sliced import Work
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record, Removed
from headwater.raft.node import RaftNode
from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.server.cluster.assignment.repair_frames import (
    ABSENT,
    ANSWER,
    ANSWER_BYTES_MAX,
    ASK,
    ASKED_MAX,
    RECORD,
    UNREADABLE,
    Found,
    decode_answer,
    decode_ask,
    encode_answer,
    encode_ask,
)
from headwater.server.log import Log
from headwater.server.streams.replica import StreamReplica
from headwater.server.streams.requests import Request, refuse_nothing
from headwater.store.disk.format import FormatError
from headwater.store.disk.journal import as_ranges
from headwater.store.errors import StoreError
from headwater.store.log.availability import CLOSED
from headwater.store.log.file_log import FileLog
from headwater.store.log.repairs import record_of, repair_message

# Streams that are repaired at the same time.
ROUNDS_MAX: Final = 4
# A peer that has not answered after this time is passed over in the round.
ANSWER_S_MAX: Final = 2.0
# The time between two rounds of a stream, while they repair nothing.
PAUSE_S: Final = 0.25
PAUSE_S_MAX: Final = 30.0


class Consensus(Protocol):
    """The consensus of a server, as far as repairs use it."""

    def node(self, identity: bytes) -> RaftNode | None:
        """This server's member of a group."""
        ...

    def is_alive(self, server: str) -> bool:
        """Whether a server is connected and heard."""
        ...


@final
class _Round:
    """The questions to the members of one group for some messages."""

    __slots__ = ("asked", "is_deferred", "peers", "repaired", "sequences", "timer", "unreadable")

    def __init__(self, sequences: list[int], peers: list[str]) -> None:
        self.sequences = sequences
        # The peers that are still to be asked, and the one that is.
        self.peers = deque(peers)
        self.asked = ""
        self.repaired = 0
        # Whether the disk has refused a record.
        self.is_deferred = False
        # The peers that cannot read a message either, by sequence.
        self.unreadable: dict[int, set[str]] = {sequence: set() for sequence in sequences}
        self.timer: TimerHandle | None = None

    def stop_timer(self) -> None:
        """Wait for no answer any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@final
class MessageRepairs:
    """The repairs of all replicas of a server."""

    __slots__ = (
        "_consensus",
        "_is_stopped",
        "_log",
        "_name",
        "_pauses_s",
        "_replicas",
        "_rounds",
        "_scheduler",
        "_send",
        "_waiting",
    )

    def __init__(
        self,
        name: str,
        consensus: Consensus,
        send: Callable[[str, bytes], object],
        replicas: Mapping[bytes, StreamReplica],
        scheduler: Scheduler,
        log: Log,
    ) -> None:
        """`send` sends a payload to a server on the connection for messages and catch-up.
        `replicas` are those of this server, by incarnation."""
        self._name = name
        self._consensus = consensus
        self._send = send
        self._replicas = replicas
        self._scheduler = scheduler
        self._log = log
        # The streams that are being repaired, with the pause before their next round.
        self._pauses_s: dict[bytes, float] = {}
        # Those whose round is to begin, in order, and the rounds under way.
        self._waiting: deque[bytes] = deque()
        self._rounds: dict[bytes, _Round] = {}
        self._is_stopped = False

    def stop(self) -> None:
        """Ask for nothing any more."""
        self._is_stopped = True
        for each in self._rounds.values():
            each.stop_timer()
        self._rounds.clear()

    # --- rounds --------------------------------------------------------------------------------

    def note(self, replica: StreamReplica) -> None:
        """Repair a replica in which a read has found damage, from the next turn on."""
        identity = replica.identity
        if identity in self._pauses_s or self._is_stopped:
            return
        self._pauses_s[identity] = PAUSE_S
        self._log.warn(
            f"Stream '{replica.account} > {replica.stream.name}' has messages that cannot be read "
            "here: their records are fetched from its other servers"
        )
        self._scheduler.call_soon(lambda: self._queue(identity))

    def _queue(self, identity: bytes) -> None:
        self._waiting.append(identity)
        self._begin_some()

    def _begin_some(self) -> None:
        """Begin the rounds of streams that wait, as many as there is room for."""
        while self._waiting and len(self._rounds) < ROUNDS_MAX and not self._is_stopped:
            identity = self._waiting.popleft()
            log, node = self._damaged_log(identity), self._consensus.node(identity)
            sequences = [] if log is None else log.losses.damage.first(ASKED_MAX)
            if not sequences:
                del self._pauses_s[identity]
            elif node is None:
                self._rest(identity)
            else:
                peers = self._peers_of(node)
                self._rounds[identity] = _Round(sequences, peers)
                self._ask_next(identity)

    def _damaged_log(self, identity: bytes) -> FileLog | None:
        """The log of a replica that is to be repaired; one that is filled again is not."""
        replica = self._replicas.get(identity)
        if replica is None or replica.must_refill or not isinstance(replica.stream.log, FileLog):
            return None
        log = replica.stream.log
        return None if log.offline else log

    def _peers_of(self, node: RaftNode) -> list[str]:
        """The other members of a group, the leader first."""
        peers = [peer for peer in node.membership.members() if peer != self._name]
        return sorted(peers, key=lambda peer: (peer != node.leader, peer))

    def _left(self, log: FileLog, found: _Round) -> list[int]:
        """The messages of a round that are still damaged."""
        damage, has = log.losses.damage, log.index.has
        return [each for each in found.sequences if each in damage and has(each)]

    def _ask_next(self, identity: bytes) -> None:
        """Ask the next peer for what is left; without one, the round is over."""
        found, log = self._rounds[identity], self._damaged_log(identity)
        found.stop_timer()
        found.asked = ""
        left = [] if log is None else self._left(log, found)
        while left and found.peers and not found.is_deferred:
            peer = found.peers.popleft()
            if self._consensus.is_alive(peer):
                self._ask(identity, found, peer, left)
                return
        del self._rounds[identity]
        if log is not None and left and not found.is_deferred:
            self._give_up_lost(identity, left, found)
        if found.repaired:
            self._pauses_s[identity] = PAUSE_S
        if found.repaired and not found.is_deferred:
            self._waiting.append(identity)
        else:
            self._rest(identity)
        self._begin_some()

    def _ask(self, identity: bytes, found: _Round, peer: str, sequences: list[int]) -> None:
        found.asked = peer
        found.timer = self._scheduler.call_later(ANSWER_S_MAX, lambda: self._ask_next(identity))
        self._send(peer, ASK + encode_ask(identity, sequences))

    def _rest(self, identity: bytes) -> None:
        """Begin the next round of a stream after a pause."""
        pause_s = self._pauses_s[identity]
        self._pauses_s[identity] = min(2 * pause_s, PAUSE_S_MAX)

        def go_on() -> None:
            if not self._is_stopped:
                self._queue(identity)

        self._scheduler.call_later(pause_s, go_on)

    # --- answers -------------------------------------------------------------------------------

    def answered(self, peer: str, body: bytes) -> None:
        """Store the records that a peer has sent. Raises PeerError for a malformed answer."""
        identity, answers = decode_answer(body)
        found, log = self._rounds.get(identity), self._damaged_log(identity)
        if found is None or log is None or found.asked != peer:
            return
        before = found.repaired
        for sequence, finding, record in answers:
            if finding == RECORD:
                self._store(identity, log, peer, sequence, record)
            elif finding == UNREADABLE and sequence in found.unreadable:
                found.unreadable[sequence].add(peer)
        told = {each.sequence for each in answers}
        left_out = [each for each in self._left(log, found) if each not in told]
        if found.repaired > before and left_out and not found.is_deferred:
            # More than fits one answer.
            found.stop_timer()
            self._ask(identity, found, peer, left_out)
        else:
            self._ask_next(identity)

    def _store(
        self, identity: bytes, log: FileLog, peer: str, sequence: int, record: bytes
    ) -> None:
        found, replica = self._rounds[identity], self._replicas[identity]
        stream = f"Stream '{replica.account} > {replica.stream.name}'"
        if sequence not in found.unreadable or found.is_deferred:
            return
        try:
            if repair_message(log, sequence, record):
                found.repaired += 1
                self._log.info(f"{stream}: message {sequence} is repaired by server {peer!r}")
        except FormatError as error:
            self._log.warn(f"{stream}: server {peer!r} has sent no record of it: {error}")
        except StoreError as error:
            found.is_deferred = True
            self._log.error(f"{stream}: {error}")

    def _give_up_lost(self, identity: bytes, left: list[int], found: _Round) -> None:
        """As the leader, have messages removed that no member of the group can read."""
        replica, node = self._replicas[identity], self._consensus.node(identity)
        runner = replica.runner
        if runner is None or node is None:
            return
        others = {*node.membership.members()} - {self._name}
        lost = [each for each in left if others <= found.unreadable[each]]
        if not lost:
            return
        self._log.error(
            f"Stream '{replica.account} > {replica.stream.name}': {len(lost)} messages cannot be "
            f"read on any of its servers, the first is {lost[0]}: they are removed, and lost"
        )
        replica.tell_losses(as_ranges(lost))

        def deciding() -> Work[Proposal[Record] | None]:
            yield len(lost)
            return Proposal([Removed(lost, is_lost=True)], is_awaited=False)

        runner.request(Request(deciding, refuse_nothing))

    # --- questions of others -------------------------------------------------------------------

    def asked(self, peer: str, body: bytes) -> None:
        """Send records that a peer cannot read. Raises PeerError for a malformed question."""
        identity, sequences = decode_ask(body)
        replica = self._replicas.get(identity)
        found: list[Found] = []
        size = 0
        for sequence in sequences:
            one = Found(sequence, ABSENT) if replica is None else _look_up(replica, sequence)
            size += len(one.record)
            if found and size > ANSWER_BYTES_MAX:
                break
            found.append(one)
        self._send(peer, ANSWER + encode_answer(identity, found))


def _look_up(replica: StreamReplica, sequence: int) -> Found:
    """The finding of a replica about a message. A replica that is to be filled again
    is not trusted to have all messages, and the checksums vouch for those that it has."""
    log = replica.stream.log
    nothing = UNREADABLE if replica.must_refill else ABSENT
    if not isinstance(log, FileLog) or log.offline == CLOSED:
        return Found(sequence, nothing)
    if sequence in log.lost:
        return Found(sequence, UNREADABLE)
    try:
        record = record_of(log, sequence)
    except StoreError:
        return Found(sequence, UNREADABLE)
    return Found(sequence, nothing) if record is None else Found(sequence, RECORD, record)
