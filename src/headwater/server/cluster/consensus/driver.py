"""Consensus on one server: joins groups, their logs, the links to other servers, and the clock.

    a frame of a peer, a timer, a finished write
        └─▶ agree: Groups.take ─▶ frames at once ─▶ apply ─▶ save ─▶ commit ─┐
                                                                             ▼
            frames that rest on the write ◀─ Groups.written ◀─ committed ◀─ disk

`agree` is a step of the server's turn, which orders it among the others (`headwater.server.turn`).

Two servers greet each other before anything else (`peers`), so each knows whether it has forgotten
something that the other remembers. Then they agree on the birth of the cluster (`birth`), once;
the meta group of all servers is the group of that birth. Its leader admits further servers.
"""

from typing import Final, final

from headwater.base.clock import Clock
from headwater.base.entropy import Entropy
from headwater.base.errors import PeerError
from headwater.raft.config import RaftConfig
from headwater.raft.entry import Entry
from headwater.raft.membership import Membership
from headwater.raft.node import RaftNode
from headwater.raft.storage import SavedState, blank, born
from headwater.runtime.environment import Scheduler
from headwater.server.cluster.consensus.ahead_groups import AheadGroups
from headwater.server.cluster.consensus.birth import (
    Addressed,
    Birth,
    BirthMessage,
    ClusterBirth,
    Kind,
    decode_message,
    encode_message,
)
from headwater.server.cluster.consensus.catch_up import CatchUp
from headwater.server.cluster.consensus.cluster_file import ClusterFile
from headwater.server.cluster.consensus.compaction import Compaction, compact_grown
from headwater.server.cluster.consensus.doubts import Doubts, decode_doubts, encode_doubts
from headwater.server.cluster.consensus.frames import Links
from headwater.server.cluster.consensus.group_storage import (
    GroupStorage,
    GroupWrites,
    create_log,
    reopened,
    saved_state,
)
from headwater.server.cluster.consensus.groups import Frames, Groups, Portion
from headwater.server.cluster.consensus.leader_reads import LeaderReads, ReadSettings
from headwater.server.cluster.consensus.leaders import Leaders, MetaLeaders
from headwater.server.cluster.consensus.liveness import LivenessSettings
from headwater.server.cluster.consensus.machine import GroupMachine, MetaGroupMachine, NoState
from headwater.server.cluster.consensus.membership import Admission
from headwater.server.cluster.consensus.notices import BIRTH, DOUBTS, GREETING, LEADERS, Notices
from headwater.server.cluster.consensus.peers import (
    PEERS_MAX,
    Greeting,
    ServerFacts,
    decode_greeting,
    encode_greeting,
)
from headwater.server.cluster.consensus.tick_timer import TickTimer
from headwater.server.cluster.consensus.transfers import OUTSTANDING_BYTES_MAX
from headwater.server.log import Log
from headwater.server.turn import Turn
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupMode
from headwater.store.groups.group_logs import GroupLogs

UNAWAITED_S_MAX: Final = 0.005
"""Entries that nobody waits for are proposed after at most this time."""


@final
class ConsensusDriver:
    """The groups of a server, driven."""

    __slots__ = (
        "_admission",
        "_birth",
        "_catch_up",
        "_clock",
        "_compaction",
        "_doubts",
        "_entropy",
        "_facts",
        "_file",
        "_greeted",
        "_groups",
        "_is_doubtful",
        "_is_stopped",
        "_knows_it_forgot",
        "_leaders",
        "_links",
        "_log",
        "_logs",
        "_machines",
        "_meta",
        "_meta_leaders",
        "_meta_machine",
        "_name",
        "_proposing",
        "_raft",
        "_refused",
        "_scheduler",
        "_timer",
        "_to_refill",
        "_turn",
        "_unfilled",
        "_writes",
        "ahead",
        "catch_ups",
        "notices",
        "reads",
    )

    def __init__(
        self,
        facts: ServerFacts,
        name: str,
        logs: GroupLogs,
        file: ClusterFile,
        links: Links,
        turn: Turn,
        expected: int,
        clock: Clock,
        scheduler: Scheduler,
        entropy: Entropy,
        log: Log,
        raft: RaftConfig,
        liveness: LivenessSettings,
        meta_machine: MetaGroupMachine | None = None,
        catch_up_max: int = OUTSTANDING_BYTES_MAX,
        reads: ReadSettings | None = None,
    ) -> None:
        """`turn` has the store write and sync; `committed` is called behind it. `expected` is the
        number of configured servers."""
        self._meta_machine: MetaGroupMachine = meta_machine or NoState()
        self._machines: dict[bytes, GroupMachine] = {}
        self._leaders = Leaders()
        # Payloads of other parts of the server, on both connections, and the parts that take them.
        self.notices = Notices()
        self.catch_ups = Notices()
        self.notices.register(LEADERS, self._leaders.heard, self._leaders.all_frames)
        # Whether this server may have been in groups of which its store knows nothing.
        self._is_doubtful = False
        # Whether another server has told this one that it has forgotten.
        self._knows_it_forgot = False
        # Groups whose machines have entries to propose.
        self._proposing: dict[bytes, None] = {}
        # Groups that have entries to apply, and a state that a transfer has not completed.
        self._unfilled: dict[bytes, None] = {}
        # Groups whose states are to be filled again, with the reason.
        self._to_refill: dict[bytes, str] = {}
        self._name = name
        self._facts = facts
        self._logs = logs
        self._file = file
        self._links = links
        self._turn = turn
        turn.agreement = self
        self._clock = clock
        self._scheduler = scheduler
        self._entropy = entropy
        self._log = log
        self._raft = raft
        self._groups = Groups(name, liveness)
        self.reads = LeaderReads(self._groups, clock, reads or ReadSettings(), self._plan_turn)
        self.ahead = AheadGroups(self._groups, logs, clock, self._plan_turn)
        self._catch_up = CatchUp(
            name, links, self._groups, self._machines, scheduler, log, self._plan_turn, catch_up_max
        )
        self._writes = GroupWrites(logs)
        self._compaction = Compaction(logs)
        self._birth = ClusterBirth(name, facts.store, entropy, expected, file.birth)
        self._doubts = Doubts(name, liveness.unclean_wait_ns)
        # Servers that have greeted, and are not refused.
        self._greeted: set[str] = set()
        self._admission = Admission()
        # Servers that were refused, with the reasons, so that each is logged once.
        self._refused: dict[tuple[str, str], None] = {}
        self._meta: bytes | None = None
        self._meta_leaders = MetaLeaders(name, log)
        self._timer = TickTimer(scheduler, self._plan_turn)
        self._is_stopped = False

    # --- facts ----------------------------------------------------------------------------------

    @property
    def meta(self) -> RaftNode | None:
        """This server's member of the meta group, to look at; None before the cluster is born."""
        return None if self._meta is None else self._groups.node(self._meta)

    def has_whole_meta(self, index: int) -> bool:
        """Whether the entries of the meta group up to one are all that were committed before the
        present leader came: it commits an entry of its own term behind them."""
        meta = self.meta
        return meta is not None and bool(meta.leader) and meta.log.term_at(index) == meta.term

    @property
    def meta_leader(self) -> str:
        """The name of the server that leads the meta group, or no name."""
        meta = self.meta
        return "" if meta is None else meta.leader

    @property
    def birth(self) -> Birth | None:
        """The birth of the cluster; None before it is born."""
        return self._birth.chosen

    def silence_ns(self, peer: str) -> int:
        """The time since the last bytes of a server; 0 for one that is not alive."""
        return self._groups.silence_ns(peer, self._clock.monotonic_ns())

    @property
    def groups(self) -> Groups:
        """All groups of this server."""
        return self._groups

    # --- beginning and end ----------------------------------------------------------------------

    def start(self) -> None:
        """Take part again in the cluster that this server is in, if any."""
        if self._birth.chosen is not None:
            self._join(self._birth.chosen)
        self._plan_turn()

    def retire(self) -> None:
        """Hand over all groups that this server leads, and lead none again; it stops soon."""
        self._groups.retire(self._clock.monotonic_ns())
        self._plan_turn()

    def stop(self) -> None:
        """Hand over all groups that this server leads, and do nothing any more."""
        self._groups.step_down(self._clock.monotonic_ns())
        self.agree()
        self._is_stopped = True
        self._timer.cancel()

    # --- servers --------------------------------------------------------------------------------

    def peer_joined(self, peer: str) -> None:
        """Greet a server whose consensus connection is open."""
        greeting = Greeting(self._facts, self._file.peers.get(peer), self._birth.cluster)
        self._links.send_consensus(peer, GREETING + encode_greeting(greeting))

    def peer_left(self, peer: str) -> None:
        """Note that the consensus connection of a server has ended."""
        if peer in self._greeted:
            now_ns = self._clock.monotonic_ns()
            self._greeted.discard(peer)
            self._doubts.lost(peer)
            self._birth.disconnected(peer, now_ns)
            self._catch_up.peer_left(peer)
            self._groups.disconnected(peer, now_ns)
            self._plan_turn()

    def peer_unreachable(self, peer: str) -> None:
        """Note that a server refuses connections."""
        self._groups.unreachable(peer, self._clock.monotonic_ns())
        self._plan_turn()

    def members_expected(self, count: int) -> None:
        """Note the number of configured servers, when it is known better."""
        self._birth.expect(count, self._clock.monotonic_ns())
        self._plan_turn()

    def peer_heard(self, peer: str) -> None:
        """Note bytes of a server: a long frame takes longer to pass than an election timeout."""
        self._groups.heard(peer, self._clock.monotonic_ns())

    def consensus_received(self, peer: str, payload: bytes) -> None:
        """Take a payload of the consensus connection. A malformed one ends the connection."""
        if self._is_stopped:
            return
        try:
            kind = payload[:1]
            if kind == GREETING:
                self._greet(peer, decode_greeting(payload[1:]))
            elif peer not in self._greeted:
                # The connection of a refused server is being closed.
                return
            elif kind == DOUBTS:
                self._doubts.heard(peer, decode_doubts(payload[1:]))
            elif kind == BIRTH:
                self._hear_birth(peer, decode_message(payload[1:]))
            elif not self.notices.receive(peer, payload):
                self._groups.receive(peer, payload, self._clock.monotonic_ns())
        except PeerError as error:
            self._refuse(peer, f"a malformed frame: {error.reply}")
        self._plan_turn()

    def catch_up_received(self, peer: str, payload: bytes) -> None:
        """Take a piece of a snapshot, or the message behind its last piece."""
        if self._is_stopped or peer not in self._greeted:
            return
        try:
            if self.catch_ups.receive(peer, payload):
                return
            if not self._catch_up.received(peer, payload, self._clock.monotonic_ns()):
                return
        except PeerError as error:
            self._refuse(peer, f"a malformed frame: {error.reply}")
        self._plan_turn()

    def _greet(self, peer: str, greeting: Greeting) -> None:
        peers = self._file.peers
        refusal = peers.refusal(peer, greeting.facts, self._facts)
        if refusal := refusal or self._birth.refusal(greeting.cluster):
            self._report_refusal(peer, refusal)
            self._links.refuse(peer, refusal)
            return
        now_ns = self._clock.monotonic_ns()
        if peers.remember(peer, greeting.facts) and not self._save():
            return
        remembered = greeting.remembered
        is_outdated = remembered is not None and self._facts.is_outdated_by(remembered)
        if is_outdated and not self._knows_it_forgot:
            # Once is enough: all that was forgotten was so before this process began.
            self._knows_it_forgot = True
            self._log.warn(
                f"Server {peer!r} remembers a later state of this server: its store was emptied or "
                "put back. It takes part in no vote until it has the whole log again."
            )
            self._is_doubtful = True
            self._groups.forget(now_ns)
        self._greeted.add(peer)
        self._groups.senders.told(peer, greeting.cluster)
        self._links.welcome(peer)
        self._admission.connected(peer)
        self._groups.connected(peer, now_ns)
        for payload in self.notices.first():
            self._links.send_consensus(peer, payload)
        if self._doubts.own:
            self._links.send_consensus(peer, DOUBTS + encode_doubts(self._doubts.own))
        self._send_births(self._birth.connected(peer, greeting.facts.store, now_ns))

    def _report_refusal(self, peer: str, reason: str) -> None:
        """Take nothing of a server any more, and log the reason once."""
        self.peer_left(peer)
        if (peer, reason) not in self._refused:
            if len(self._refused) >= PEERS_MAX:
                del self._refused[next(iter(self._refused))]
            self._refused[peer, reason] = None
            self._log.error(f"Disconnected from server {peer!r}: {reason}")

    def _refuse(self, peer: str, reason: str) -> None:
        self._report_refusal(peer, reason)
        self._links.disconnect(peer, reason)

    # --- the cluster ----------------------------------------------------------------------------

    def _save(self) -> bool:
        """Write the file of the cluster. Returns whether it is on the disk."""
        try:
            self._file.save(self._birth.record)
        except StoreError as error:
            self._log.error(str(error))
            return False
        return True

    def _hear_birth(self, peer: str, message: BirthMessage) -> None:
        """Take a message about the birth. A server may join another cluster while it is connected:
        it says so before it sends anything of that cluster's groups."""
        birth = message.birth if message.kind is Kind.CHOSEN else None
        refusal = "" if birth is None else self._birth.refusal(birth.cluster)
        if refusal:
            self._report_refusal(peer, refusal)
            self._links.refuse(peer, refusal)
            return
        if birth is not None:
            self._groups.senders.told(peer, birth.cluster)
        self._send_births(self._birth.heard(peer, message))

    def _send_births(self, messages: Addressed) -> None:
        """Send messages about the birth, behind the record that they rest on."""
        if self._birth.record != self._file.birth and not self._save():
            return
        for peer, message in messages:
            self._links.send_consensus(peer, BIRTH + encode_message(message))
        chosen = self._birth.chosen
        if chosen is not None and self._meta is None:
            self._join(chosen)

    def _join(self, birth: Birth) -> None:
        """Take part in the meta group of the cluster."""
        self._meta = self._groups.meta = birth.identity
        self._groups.senders.cluster = birth.cluster
        if self._meta_machine.fault:
            self.meta_failed(self._meta_machine.fault)
            return
        if birth.identity in self._logs:
            log = self._logs[birth.identity]
            saved = saved_state(log, self._meta_machine.applied_index)
            has_forgotten = log.may_have_forgotten
        else:
            # A server that no birth names, or whose store is another one or was put back, is told
            # the log.
            has_forgotten = self._is_doubtful or not birth.names(self._name, self._facts.store)
        self._is_doubtful |= has_forgotten
        if birth.identity not in self._logs:
            saved = blank() if has_forgotten else born(birth.membership)
            log, _ = create_log(
                self._logs,
                birth.identity,
                GroupMode.SYNCED,
                saved,
                may_have_forgotten=has_forgotten,
            )
            self._turn.want_commit()
        self._meta_machine.replays_to = max(
            min(saved.hard_state.commit, saved.last_index), saved.applied
        )
        self._add(birth.identity, saved, GroupStorage(log), has_forgotten, self._meta_machine)

    def _add(
        self,
        identity: bytes,
        saved: SavedState,
        storage: GroupStorage,
        is_doubtful: bool,
        machine: GroupMachine,
    ) -> None:
        now_ns = self._clock.monotonic_ns()
        self._machines[identity] = machine
        node = RaftNode(
            self._name, self._raft, self._entropy, storage, saved, now_ns, has_forgotten=is_doubtful
        )
        if node.membership.electors() == (self._name,):
            # Nobody else can lead, so there is nobody to wait for.
            node.campaign(now_ns)
        self._groups.add(identity, node, now_ns)
        self.reads.joined(identity)
        self.ahead.joined(identity)
        self._plan_turn()

    def _admit(self, now_ns: int) -> None:
        """Have the leader of the meta group admit servers that are there."""
        meta = self.meta
        if meta is None or self._meta is None or not meta.is_ready or not self._greeted:
            return
        target = self._admission.next_members(meta, self._greeted)
        if target is not None:
            self._groups.propose_membership(self._meta, target, now_ns)

    def _settle_doubts(self, now_ns: int) -> int | None:
        """Vote again in groups in which those who remember have been no quorum for long.

        Returns the time at which there may be more, or None.
        """
        if self._doubts.note_own(self._groups.doubtful):
            self.tell_all(DOUBTS, encode_doubts(self._doubts.own))
        if not self._doubts.own:
            return None
        due, deadline_ns = self._doubts.due(
            self._groups.membership_without_leader, self.is_alive, now_ns
        )
        for identity in due:
            self._log.error(
                f"Group {identity.hex()}: half of its servers or more may have forgotten what they "
                "confirmed. They vote with what they have; confirmed changes may be lost."
            )
            if (machine := self._machines.get(identity)) is not None:
                machine.distrust()
            self._groups.resume_voting(identity, now_ns)
            self._plan_turn()
        return deadline_ns

    # --- groups of streams ----------------------------------------------------------------------

    def add_group(
        self,
        identity: bytes,
        mode: GroupMode,
        first: SavedState | None,
        machine: GroupMachine,
        *,
        is_new: bool = False,
    ) -> None:
        """Take part in a group that is born in a state, is joined, or has its log here. `is_new`
        says that this server cannot have been in the group before it forgot anything."""
        if identity in self._logs:
            saved, has_forgotten = reopened(self._logs[identity], mode, first, machine)
        else:
            # A server that has lost its store may have been in the group, and have voted.
            has_forgotten = self._is_doubtful and not is_new
            saved = blank() if first is None or has_forgotten else first
            create_log(self._logs, identity, mode, saved, may_have_forgotten=has_forgotten)
            self._turn.want_commit()
        self._add(identity, saved, GroupStorage(self._logs[identity]), has_forgotten, machine)

    def remove_group(self, identity: bytes) -> None:
        """Cease to take part in a group, and forget its log."""
        if self._groups.node(identity) is not None:
            self._groups.remove(identity, self._clock.monotonic_ns())
        self._machines.pop(identity, None)
        self._catch_up.remove_group(identity)
        if identity in self._logs:
            self._logs.remove(identity)
            self._turn.want_commit()
        self._plan_turn()

    def refill(self, identity: bytes, reason: str) -> None:
        """Have the state of a group replaced by that of its leader, at the end of the turn."""
        self._to_refill[identity] = reason
        self._plan_turn()

    def _refill_some(self) -> None:
        """Give up the logs and states that are not as those of their leaders."""
        contradicted, self._groups.contradicted = self._groups.contradicted, {}
        for identity in contradicted:
            node = self._groups.node(identity)
            if node is not None:
                self._refill(
                    identity,
                    f"entries up to {node.log.commit} were confirmed here, and the leader "
                    f"{node.leader!r} has lost some of them",
                )
        wanted, self._to_refill = self._to_refill, {}
        for identity, reason in wanted.items():
            node, machine = self._groups.node(identity), self._machines.get(identity)
            is_led_here = node is not None and node.leader == self._name
            if machine is not None and not machine.must_refill and not is_led_here:
                self._refill(identity, reason)

    def _refill(self, identity: bytes, reason: str) -> None:
        """Give up a log and a state that contradict the leader, and join the group again."""
        machine = self._machines.get(identity)
        if machine is None:
            return
        self._log.error(
            f"Group {identity.hex()}: {reason}. The state of the leader replaces that of this "
            "server."
        )
        try:
            machine.give_up()
        except StoreError as error:
            self.machine_failed(identity, f"its state cannot be given up: {error}")
            return
        self._rejoin(identity, machine)

    def _rejoin(self, identity: bytes, machine: GroupMachine) -> None:
        """Join a group again without a log, so that the leader completes the state by a snapshot.

        Entries cannot be applied to a state that a transfer has changed and not completed.
        """
        mode = self._logs[identity].mode
        self.remove_group(identity)
        log, _ = create_log(self._logs, identity, mode, blank(), may_have_forgotten=True)
        self._turn.want_commit()
        self._add(identity, blank(), GroupStorage(log), True, machine)

    def node(self, identity: bytes) -> RaftNode | None:
        """This server's member of a group, to look at."""
        return self._groups.node(identity)

    def propose(self, identity: bytes, batch: list[bytes]) -> int | None:
        """Propose entries to a group. Returns the index of the first; None if this server does not
        lead it, or hands it over: the end of that has a turn of its own."""
        first = self._groups.propose(identity, batch, self._clock.monotonic_ns())
        if first is not None:
            self._plan_turn()
        return first

    def withdraw(self, identity: bytes, first: int) -> bool:
        """Withdraw the entries of a group from an index on. Returns whether that is possible."""
        self._plan_turn()
        return self._groups.withdraw(identity, first, self._clock.monotonic_ns())

    def propose_membership(self, identity: bytes, target: Membership) -> int | None:
        """Propose other members to a group that this server leads."""
        self._plan_turn()
        return self._groups.propose_membership(identity, target, self._clock.monotonic_ns())

    def transfer(self, identity: bytes, to: str) -> bool:
        """Hand a group over to a member, or to the best one. Returns whether that is possible.

        Entries of this turn go first: the next leader has them, also those that nobody waits for.
        """
        self._plan_turn()
        now_ns = self._clock.monotonic_ns()
        node, machine = self._groups.node(identity), self._machines.get(identity)
        if node is None:
            return False
        if machine is not None and machine.propose_gathered():
            self._proposing.pop(identity, None)
        successor = to or node.best_successor()
        return bool(successor) and self._groups.transfer_leadership(identity, successor, now_ns)

    def expel(self, server: str) -> None:
        """Have a server leave the meta group, because an operator has removed it."""
        if server != self._name:
            self._admission.remove(server)
            self._plan_turn()

    def transfer_meta(self, to: str) -> bool:
        """Hand the meta group over to a member, or to the best one."""
        return self._meta is not None and self.transfer(self._meta, to)

    def proposal_wanted(self, identity: bytes, is_urgent: bool) -> None:
        """Have a machine propose its entries at the end of the turn, or within milliseconds."""
        self._proposing[identity] = None
        if is_urgent:
            self._plan_turn()
        else:
            self._scheduler.call_later(UNAWAITED_S_MAX, self._plan_turn)

    def machine_failed(self, identity: bytes, reason: str) -> None:
        """Take no part any more in a group whose state cannot be written, until the next start."""
        name = "The meta group" if identity == self._meta else f"Group {identity.hex()}"
        self._log.error(f"{name} is stopped on this server: {reason}")
        if self._groups.node(identity) is not None:
            self._groups.remove(identity, self._clock.monotonic_ns())
        self._plan_turn()

    def meta_failed(self, reason: str) -> None:
        """Take no part any more in the meta group, until the next start. Streams go on."""
        if self._meta is not None:
            self.machine_failed(self._meta, reason)

    def applied_to(self, identity: bytes, index: int) -> None:
        """Note that a state machine has applied entries that `apply` had begun."""
        self._groups.applied_to(identity, index)
        self._plan_turn()

    # --- turns ----------------------------------------------------------------------------------

    def _plan_turn(self) -> None:
        if not self._is_stopped:
            self._turn.want_agreement()

    def agree(self) -> None:
        """Do the work of all groups in which something happened, and keep what is to be written."""
        if self._is_stopped:
            return
        now_ns = self._clock.monotonic_ns()
        self._groups.tick(now_ns)
        self.reads.tick(now_ns)
        self._send_births(self._birth.tick(now_ns))
        self._admit(now_ns)
        self._propose_gathered()
        is_saved = False
        while (portion := self._groups.take(now_ns)) is not None:
            self._carry_out(portion)
            is_saved |= bool(portion.writes)
            self._finish_written(now_ns)
        self.reads.serve(now_ns)
        self._refill_some()
        self._drop_unneeded()
        if is_saved:
            self._turn.want_commit()
        if self._catch_up.resume_held():
            self._scheduler.call_later(UNAWAITED_S_MAX, self._plan_turn)
        self._meta_leaders.note(self.meta_leader)
        self._plan_tick(now_ns, self._settle_doubts(now_ns))

    def answer_written(self) -> None:
        """Send the replies that rest on a write, and not on a sync, in the turn of the write."""
        self._finish_written(self._clock.monotonic_ns())
        if self._groups.has_work:
            self._plan_turn()

    def _drop_unneeded(self) -> None:
        """Drop snapshots of which the logs had all entries by then."""
        for identity in sorted(self._catch_up.complete):
            if (machine := self._machines.get(identity)) is not None:
                machine.discard_snapshot()
                if machine.must_refill:
                    self._unfilled[identity] = None
        self._catch_up.complete.clear()
        unfilled, self._unfilled = self._unfilled, {}
        for identity in unfilled:
            if self._groups.node(identity) is not None:
                self._rejoin(identity, self._machines[identity])

    def _propose_gathered(self) -> None:
        """Propose the entries of the turn. Those of a group that is being handed over wait."""
        proposing, self._proposing = self._proposing, {}
        for identity in proposing:
            machine = self._machines.get(identity)
            if machine is not None and not machine.propose_gathered():
                self._proposing[identity] = None

    def _carry_out(self, portion: Portion) -> None:
        for peer in portion.disconnected:
            self._links.disconnect(peer, "no frame came for an election timeout")
        self._send(portion.frames)
        for identity, leader, is_leading in portion.roles:
            machine = self._machines.get(identity)
            if machine is not None:
                if not is_leading:
                    self._catch_up.cease_to_send(identity)
                machine.role_changed(leader, is_leading)
            self._tell_leading(identity, is_leading)
        for identity, message in portion.snapshots:
            self._catch_up.send(identity, message.to)
        # Before a snapshot takes the place of the entries.
        self.ahead.save(portion)
        portion.writes = [
            (identity, ready)
            for identity, ready in portion.writes
            if ready.snapshot is None or self._install(identity, ready.snapshot.index)
        ]
        self._writes.save(portion)
        for identity, entries in portion.committed:
            self._apply(identity, entries)

    def _tell_leading(self, identity: bytes, is_leading: bool) -> None:
        """Tell all servers that this one leads a group, so that they know where to send
        requests."""
        node = self._groups.node(identity)
        if is_leading and node is not None:
            self.tell_all(LEADERS, self._leaders.begin(identity, node.term))
        else:
            self._leaders.end(identity)

    def leader_of(self, identity: bytes) -> str:
        """The server that leads a group, or no name; also of a group that this server is not in."""
        node = self._groups.node(identity)
        if node is not None:
            return node.leader
        leader = self._leaders.leader_of(identity)
        return leader if leader in self._greeted else ""

    def is_alive(self, server: str) -> bool:
        """Whether a server is this one, or is connected and heard."""
        return server == self._name or server in self._greeted

    def tell(self, peer: str, kind: bytes, notice: bytes) -> None:
        """Send a notice to a server."""
        self._links.send_consensus(peer, kind + notice)

    def tell_all(self, kind: bytes, notice: bytes) -> None:
        """Send a notice to all servers that are connected."""
        for peer in sorted(self._greeted):
            self.tell(peer, kind, notice)

    def propose_meta(self, batch: list[bytes]) -> int | None:
        """Propose entries to the meta group."""
        return None if self._meta is None else self.propose(self._meta, batch)

    def meta_proposal_wanted(self) -> None:
        """Have the machine of the meta group propose its records at the end of the turn."""
        if self._meta is not None:
            self.proposal_wanted(self._meta, is_urgent=True)

    def _install(self, identity: bytes, index: int) -> bool:
        """Put the state of a snapshot in force, before its place in the log is saved. Returns
        whether that was possible."""
        self._catch_up.complete.discard(identity)
        try:
            self._machines[identity].install(index)
        except StoreError as error:
            self.machine_failed(identity, f"its snapshot cannot be kept: {error}")
            return False
        return True

    def _apply(self, identity: bytes, entries: list[Entry]) -> None:
        machine = self._machines.get(identity)
        if machine is None:
            return
        if machine.must_refill:
            self._unfilled[identity] = None
            return
        index = machine.apply(entries)
        if index:
            self._groups.applied_to(identity, index)
        node = self._groups.node(identity)
        if node is not None:
            compact_grown(self._logs[identity], node, machine)

    def committed(self) -> None:
        """Note that the store has written, and synced where it was asked to."""
        if not self._is_stopped:
            self._finish_written(self._clock.monotonic_ns())
            self._compaction.compact(self._groups, self._machines)
            if self._groups.has_work:
                self._plan_turn()

    def _finish_written(self, now_ns: int) -> None:
        for portion in self._writes.take_written():
            self._send(self._groups.written(portion, now_ns))
            self.ahead.written(portion)

    def failed(self) -> None:
        """Note that the disk has failed: another server has to lead."""
        self._groups.resign(self._clock.monotonic_ns())
        self._plan_turn()

    def _send(self, frames: Frames) -> None:
        for peer, sent in frames.items():
            for frame in sent:
                self._links.send_consensus(peer, frame)

    def _plan_tick(self, now_ns: int, doubts_ns: int | None) -> None:
        groups_ns, reads_ns = self._groups.deadline_ns, self.reads.deadline_ns
        deadlines = (groups_ns, reads_ns, self._birth.deadline_ns, doubts_ns)
        times = [deadline_ns for deadline_ns in deadlines if deadline_ns is not None]
        if times:
            self._timer.plan(min(times), now_ns)
