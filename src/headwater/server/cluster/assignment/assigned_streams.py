"""The streams of this server, as the assignments of the cluster say.

    a record of the meta group is applied ─▶ held here? ─▶ StreamSetRunner: open, close
                                                       └─▶ ConsensusDriver: groups of replicas

A stream that names this server is created here under the incarnation of its assignment. A stream
whose incarnation was unassigned is deleted. A stream that no assignment mentions is never deleted:
it stays as it is and is reported.

The server that leads a stream answers the request by which the stream was created, changed or
deleted.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, final

from msgspec.structs import replace

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.assignments import AssignmentChange, StreamAssignment
from headwater.jetstream.meta.records import (
    AnswerTo,
    MetaRecord,
    ReplicasChanged,
    ServerDescribed,
    ServerRemoved,
    StreamAssigned,
    StreamUnassigned,
    StreamUpdated,
)
from headwater.jetstream.proposal import Answered, Proposal, StreamAnnounced
from headwater.jetstream.records import StreamSetRecord
from headwater.raft.membership import UNKNOWN, Membership, membership_of
from headwater.raft.storage import BIRTH_INDEX, born
from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.server.cluster.assignment.group_members import next_members
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.log import Log
from headwater.server.streams.hosted_streams import HostedStreams
from headwater.server.streams.replica import StreamReplica
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.server.streams.stream_set_runner import StreamSetRunner
from headwater.store.errors import StoreError

# The time between two steps of a change of members.
CHANGE_S: Final = 0.1
# The terms that a group may reach between its birth and the end of its stream's replication.
TERM_BITS: Final = 20
# Requests whose stream has no leader yet are remembered up to this number.
UNANSWERED_MAX: Final = 10_000


class Answers(Protocol):
    """Answers requests that the meta group has ordered."""

    def created(self, account: str, name: str, answer: AnswerTo) -> None:
        """Answer the creation of a stream that runs here."""
        ...

    def not_created(self, answer: AnswerTo, error: StoreError | ApiError) -> None:
        """Answer the creation of a stream that cannot run here."""
        ...

    def update(
        self, account: str, name: str, config: StreamConfig, answer: AnswerTo | None
    ) -> None:
        """Change the configuration of a stream that is led here, and answer the request."""
        ...

    def changed(self, answer: AnswerTo) -> None:
        """Answer a request to have other servers hold a stream, or to remove a server."""
        ...

    def deleted(self, answer: AnswerTo) -> None:
        """Answer the deletion of a stream."""
        ...


@final
class AssignedStreams:
    """Has this server hold the streams that are assigned to it."""

    __slots__ = (
        "_answers",
        "_births",
        "_driver",
        "_files",
        "_has_seen_all",
        "_led_since",
        "_log",
        "_meta",
        "_name",
        "_now_ns",
        "_scheduler",
        "_settle",
        "_stream_set",
        "_streams",
        "_timer",
        "_unanswered",
        "_unanswered_updates",
        "damage_found",
        "digest_formed",
        "meta_changed",
        "servers_changed",
    )

    def __init__(
        self,
        name: str,
        meta: MetaMachine,
        driver: ConsensusDriver,
        streams: HostedStreams,
        stream_set: StreamSetRunner,
        files: StreamStore,
        answers: Answers,
        scheduler: Scheduler,
        settle: Callable[[StreamAssignment, tuple[str, ...]], object],
        now_ns: Callable[[], int],
        log: Log,
    ) -> None:
        """`settle` reports the members of a group to the leader of the meta group."""
        self._scheduler = scheduler
        self._settle = settle
        self._now_ns = now_ns
        # The times since which this server leads groups, by incarnation.
        self._led_since: dict[bytes, int] = {}
        self._timer: TimerHandle | None = None
        # Whether this server, with a vote in the meta group, has seen all assignments at some time
        # of this process.
        self._has_seen_all = False
        # Groups that were born since then, and that this server has not joined yet.
        self._births: set[bytes] = set()
        self._name = name
        self._meta = meta
        self._driver = driver
        self._streams = streams
        self._stream_set = stream_set
        self._files = files
        self._answers = answers
        self._log = log
        # Creations that the first leader of the stream answers, by incarnation.
        self._unanswered: dict[bytes, AnswerTo] = {}
        # Likewise updates, which the next leader answers.
        self._unanswered_updates: dict[bytes, AnswerTo] = {}
        # Called when a replica cannot read a message.
        self.damage_found: Callable[[StreamReplica], object] = lambda _: None
        # Called when a replica has digests to be compared, with another leader too.
        self.digest_formed: Callable[[StreamReplica], object] = lambda _: None
        # Called when the meta group has applied a record, or has another leader.
        self.meta_changed: Callable[[], object] = lambda: None
        # Called when a stream may lack a server, with the name of a server that was removed.
        self.servers_changed: Callable[[str], object] = lambda removed: None

    def start(self) -> None:
        """Take part in the groups of the replicas that were recovered, and follow the assignments
        that this server knows."""
        self._driver.groups.lost_members = self._settled_members
        for replica in [*self._streams.replicas.values()]:
            if replica.identity in self._files.store.groups:
                self._join(replica, None)
        if self._meta.applied_index >= self._meta.replays_to:
            self.state_replaced()

    # --- the meta group ------------------------------------------------------------------------

    def record_applied(self, record: MetaRecord, change: AssignmentChange | None) -> None:
        """Follow a record of the meta group."""
        if change is not None:
            self._note_birth(change)
            if isinstance(record, StreamAssigned) and change.after is not None:
                self._hold(change.after, membership_of(record.replicas), record.answer)
            elif isinstance(record, StreamUnassigned) and change.before is not None:
                self._drop(change.before, record.answer)
            elif isinstance(record, StreamUpdated) and change.after is not None:
                self._update(change.after, record.answer)
            elif change.after is not None:
                self._follow_servers(change.after)
        if isinstance(record, ReplicasChanged | ServerRemoved | ServerDescribed) or (
            isinstance(record, StreamAssigned) and len(record.replicas) < record.config.num_replicas
        ):
            self.servers_changed(record.name if isinstance(record, ServerRemoved) else "")
        if isinstance(record, ReplicasChanged | ServerRemoved):
            self._answer_change(record.answer)
        self.meta_changed()

    def _note_birth(self, change: AssignmentChange) -> None:
        """Note a group that is born now: whatever this server has forgotten, it was not in it."""
        meta, before, after = self._driver.meta, change.before, change.after
        may_vote = meta is not None and meta.may_vote
        self._has_seen_all = may_vote and (self._has_seen_all or self._meta.is_current)
        if not self._has_seen_all or after is None or self._name not in after.servers:
            return
        if len(after.servers) > 1 and (before is None or before.servers == (self._name,)):
            self._births.add(after.incarnation)

    def _answer_change(self, answer: AnswerTo | None) -> None:
        """Answer a request about servers, on the leader of the meta group."""
        if answer is not None and self._meta.is_leading:
            self._answers.changed(answer)

    def state_replaced(self) -> None:
        """Follow assignments that came as a whole."""
        # First those that are gone: others may have their names by now.
        for created in [*self._files.set_log.streams]:
            if self._meta.assignments.was_unassigned(created.incarnation):
                self._delete(created.account, created.name, created.incarnation, lambda: None)
        for assignment in self._meta.assignments:
            self._follow_servers(assignment)
        self.servers_changed("")
        self.meta_changed()

    def meta_leader_changed(self, leader: str, is_leading: bool) -> None:
        """Follow another leader of the meta group."""
        self.servers_changed("")
        self.meta_changed()

    # --- streams -------------------------------------------------------------------------------

    def leader_of(self, assignment: StreamAssignment) -> str:
        """The server that leads a stream, or no name."""
        if len(assignment.servers) == 1 and assignment.config.num_replicas == 1:
            server = assignment.servers[0]
            return server if self._driver.is_alive(server) else ""
        return self._driver.leader_of(assignment.incarnation)

    def is_led_here(self, assignment: StreamAssignment) -> bool:
        """Whether this server leads a stream and serves its clients."""
        config = self._streams.led_config(assignment.account, assignment.name)
        return config is not None and self._streams.runs(
            assignment.account, assignment.name, assignment.incarnation
        )

    def has_replica(self, assignment: StreamAssignment) -> bool:
        """Whether this server has a replica of a stream that can be read, led or not: one that
        joins the stream may still lack most of it."""
        replica = self._streams.replica(assignment.incarnation)
        node = self._driver.node(assignment.incarnation)
        if replica is None or node is None or replica.must_refill:
            return False
        return node.membership.is_voter(self._name)

    def led_since(self, incarnation: bytes) -> int:
        """The time since which this server leads a group; 0 if it does not."""
        return self._led_since.get(incarnation, 0)

    def _hold(
        self, assignment: StreamAssignment, members: Membership | None, answer: AnswerTo | None
    ) -> None:
        """Have a stream here that names this server. `members` are those of a new group."""
        if self._name not in assignment.servers:
            return
        there = self._files.set_log.streams.get(assignment.account, assignment.name)
        if there is not None and there.incarnation == assignment.incarnation:
            self._held(assignment, members, answer)
        elif there is None or answer is not None or self._meta.is_current:
            # Otherwise the assignment may be older than the stream that has its name: assignments
            # are followed once more when they are current.
            self._stream_set.request(partial(self._decide_creation, assignment, members, answer))

    def _decide_creation(
        self, assignment: StreamAssignment, members: Membership | None, answer: AnswerTo | None
    ) -> Proposal[StreamSetRecord] | Callable[[], object]:
        def refuse(error: StoreError | ApiError) -> None:
            self._log.error(
                f"Stream '{assignment.account} > {assignment.name}' cannot be held here: {error}"
            )
            if answer is not None:
                self._answers.not_created(answer, error)

        # A server that joins is a replica from the first moment: the update that says so may come
        # later, and the snapshot of the leader has the configuration in force.
        count = max(assignment.config.num_replicas, len(assignment.servers))
        try:
            proposal = self._files.set_log.streams.decide_create(
                assignment.account,
                replace(assignment.config, num_replicas=count),
                assignment.created_ns,
                assignment.incarnation,
            )
        except ApiError as error:
            return partial(refuse, error)
        if count > 1:
            proposal.effects = tuple(
                each for each in proposal.effects if not isinstance(each, StreamAnnounced)
            )
        done = Answered(lambda _: self._held(assignment, members, answer), refuse)
        proposal.effects += (done,)
        return proposal

    def _held(
        self, assignment: StreamAssignment, members: Membership | None, answer: AnswerTo | None
    ) -> None:
        """Have a stream that is here take part in its group, and answer its creation."""
        replica = self._streams.replica(assignment.incarnation)
        if replica is None:
            if answer is not None:
                self._answers.created(assignment.account, assignment.name, answer)
            return
        if answer is not None and len(self._unanswered) < UNANSWERED_MAX:
            self._unanswered[assignment.incarnation] = answer
        if replica.consensus is None:
            self._join(replica, members)

    def _join(
        self, replica: StreamReplica, members: Membership | None, first_term: int = BIRTH_INDEX
    ) -> None:
        replica.consensus = self._driver
        replica.role_told = self._role_told
        replica.damage_found = self.damage_found
        replica.digest_formed = self.digest_formed
        replica.watch_damage()
        mode = self._files.group_mode_of(replica.stream.config)
        first = None if members is None else born(members, first_term)
        is_new = replica.identity in self._births
        self._births.discard(replica.identity)
        self._driver.add_group(replica.identity, mode, first, replica, is_new=is_new)
        replica.follow_level()

    def _role_told(self, replica: StreamReplica) -> None:
        """Answer the creation of a stream when it has its first leader."""
        self.digest_formed(replica)
        if replica.is_leading:
            self._led_since.setdefault(replica.identity, self._now_ns())
        else:
            self._led_since.pop(replica.identity, None)
        if replica.leader:
            answer = self._unanswered.pop(replica.identity, None)
            if answer is not None and replica.is_leading:
                self._answers.created(answer.account, replica.stream.name, answer)
            elif answer is not None and replica.leader == self._name:
                # Elected, and not ready yet.
                self._unanswered[replica.identity] = answer
        if replica.leader not in ("", self._name):
            self._unanswered_updates.pop(replica.identity, None)
        if replica.is_leading and not self._meta.fault:
            # The assignments of a server that has left the meta group may be out of date.
            assignment = self._meta.assignments.get(replica.account, replica.stream.name)
            if assignment is not None and assignment.incarnation == replica.identity:
                self._configure(assignment)
            self._change_members()

    # --- servers of a stream -------------------------------------------------------------------

    def _settled_members(self, incarnation: bytes) -> Membership:
        """The members of a stream's group, as far as its assignment tells: nobody while they are
        being changed, or this server may not know of a change."""
        replica = self._streams.replica(incarnation)
        if replica is None or not self._meta.is_current:
            return UNKNOWN
        assignment = self._meta.assignments.get(replica.account, replica.stream.name)
        if assignment is None or assignment.incarnation != incarnation or assignment.change:
            return UNKNOWN
        return membership_of(assignment.replicas)

    def _follow_servers(self, assignment: StreamAssignment) -> None:
        """Have or drop a stream whose servers have changed, and lead the change of its group."""
        if self._name in assignment.servers:
            is_settled = assignment.change is None and len(assignment.replicas) > 1
            self._hold(assignment, membership_of(assignment.replicas) if is_settled else None, None)
            self._configure(assignment)
            self._change_members()
        elif self._streams.runs(assignment.account, assignment.name, assignment.incarnation):
            self._delete(assignment.account, assignment.name, assignment.incarnation, lambda: None)

    def _change_members(self) -> None:
        """Bring the members of groups that are led here nearer to their assignments."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._meta.fault:
            return
        is_on_its_way = False
        for assignment in self._meta.assignments.held_by(self._name):
            is_on_its_way |= self._change_members_of(assignment)
        if is_on_its_way:
            self._timer = self._scheduler.call_later(CHANGE_S, self._change_members)

    def _change_members_of(self, assignment: StreamAssignment) -> bool:
        """Bring a group nearer to its assignment. Returns whether the change is on its way."""
        replica = self._streams.replica(assignment.incarnation)
        if replica is None:
            return self._join_group(assignment)
        if assignment.change is None and len(assignment.target) == 1:
            return self._leave_group(assignment, replica)
        node = self._driver.node(assignment.incarnation)
        if node is None or not node.is_ready:
            return assignment.change is not None

        def has_whole_log(peer: str) -> bool:
            progress = node.progress_of(peer)
            return progress is not None and progress.match >= node.log.commit

        removed = () if assignment.change is None else assignment.change.removed
        target = next_members(node.membership, assignment.target, removed, has_whole_log)
        if target is not None:
            self._driver.propose_membership(assignment.incarnation, target)
        elif assignment.change is not None and node.is_membership_settled:
            self._settle(assignment, node.membership.voters)
        return target is not None or assignment.change is not None

    def _join_group(self, assignment: StreamAssignment) -> bool:
        """Make a stream of this server alone the first replica of a group, if it gets others."""
        if len(assignment.servers) == 1 or not self._streams.runs(
            assignment.account, assignment.name, assignment.incarnation
        ):
            return False
        if self._name not in assignment.replicas:
            # The first server makes the group, and tells this one.
            return False
        try:
            replica = self._streams.become_replica(
                assignment.account, assignment.name, assignment.incarnation
            )
        except StoreError as error:
            self._log.error(f"Stream '{assignment.name}' cannot be replicated: {error}")
            return False
        # A server that was away may still have the log of an earlier group of this stream. It wins
        # no election against members in later terms, and their leader finds its log contradicted.
        first_term = self._meta.applied_index << TERM_BITS
        self._join(replica, membership_of((self._name,)), max(first_term, BIRTH_INDEX))
        return True

    def _leave_group(self, assignment: StreamAssignment, replica: StreamReplica) -> bool:
        """Make the last replica of a group a stream of this server alone."""
        node = self._driver.node(assignment.incarnation)
        if node is None or not replica.is_leading or node.membership.members() != (self._name,):
            return node is not None and replica.is_leading
        if not replica.is_settled:
            return True
        try:
            self._streams.become_single(assignment.account, assignment.name, assignment.incarnation)
        except StoreError as error:
            self._log.error(f"Stream '{assignment.name}' cannot leave its group: {error}")
        return False

    def _configure(self, assignment: StreamAssignment) -> None:
        """Have a stream that is led here get the configuration of its assignment, if an update was
        interrupted or waits for the answer of a leader."""
        config = self._streams.led_config(assignment.account, assignment.name)
        if config is None:
            return
        answer = self._unanswered_updates.pop(assignment.incarnation, None)
        if config != assignment.config or answer is not None:
            self._answers.update(assignment.account, assignment.name, assignment.config, answer)

    def _update(self, assignment: StreamAssignment, answer: AnswerTo | None) -> None:
        """Have the leader of a stream carry out a new configuration."""
        leader = self.leader_of(assignment)
        if leader == self._name and self._streams.led_config(assignment.account, assignment.name):
            self._answers.update(assignment.account, assignment.name, assignment.config, answer)
            return
        is_awaited = answer is not None and leader in ("", self._name)
        if answer is not None and is_awaited and len(self._unanswered_updates) < UNANSWERED_MAX:
            self._unanswered_updates[assignment.incarnation] = answer

    def _drop(self, assignment: StreamAssignment, answer: AnswerTo | None) -> None:
        """Delete a stream that was unassigned."""
        leader = self.leader_of(assignment)
        is_answering = leader == self._name or (not leader and self._meta.is_leading)
        self._unanswered.pop(assignment.incarnation, None)
        self._unanswered_updates.pop(assignment.incarnation, None)
        self._led_since.pop(assignment.incarnation, None)
        self._births.discard(assignment.incarnation)

        def done() -> None:
            if answer is not None and is_answering:
                self._answers.deleted(answer)

        self._delete(assignment.account, assignment.name, assignment.incarnation, done)

    def _delete(
        self, account: str, name: str, incarnation: bytes, done: Callable[[], object]
    ) -> None:
        there = self._files.set_log.streams.foreseen(account, name)
        if there is None or there.incarnation != incarnation:
            done()
            return

        def decide() -> Proposal[StreamSetRecord] | Callable[[], object]:
            try:
                proposal = self._files.set_log.streams.decide_delete(account, [(name, incarnation)])
            except ApiError:
                return done
            if leader_elsewhere:
                proposal.effects = tuple(
                    each for each in proposal.effects if not isinstance(each, StreamAnnounced)
                )
            proposal.effects += (
                Answered(lambda _: done(), lambda error: self._log.error(str(error))),
            )
            return proposal

        replica = self._streams.replica(incarnation)
        leader_elsewhere = replica is not None and not replica.is_leading
        self._stream_set.request(decide)
