"""The streams of a server that is one of a cluster: the parts of this package, joined.

requests ─▶ RequestRouter ─▶ MetaRequests ─▶ MetaMachine ─▶ [meta group] ─▶ AssignedStreams
                 └─▶ other servers                                              │
                                          streams of this server ◀──────────────┘
"""

from collections.abc import Callable
from typing import Protocol, final

from msgspec.structs import replace

from headwater.base.entropy import Entropy
from headwater.jetstream.api.cluster_documents import TRAFFIC_ACCOUNT
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.config.stream_config import ReadConsistency
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.jetstream.meta.codec import decode_record, encode_record
from headwater.jetstream.meta.decisions import decide_describe, decide_repairs, decide_settle
from headwater.jetstream.meta.placement import PlacementRules
from headwater.jetstream.meta.records import ReplicasSettled, ServerDescribed
from headwater.runtime.environment import Scheduler
from headwater.server.cluster.assignment.adoption import Adoption
from headwater.server.cluster.assignment.answers import ANONYMOUS, OrderedAnswers, client_of
from headwater.server.cluster.assignment.assigned_streams import AssignedStreams
from headwater.server.cluster.assignment.comparison import ReplicaComparison
from headwater.server.cluster.assignment.elections import Elections
from headwater.server.cluster.assignment.group_states import GroupStates
from headwater.server.cluster.assignment.handovers import Handovers
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.assignment.meta_requests import MetaRequests
from headwater.server.cluster.assignment.repair_frames import ANSWER, ASK
from headwater.server.cluster.assignment.repairs import MessageRepairs
from headwater.server.cluster.assignment.router import Links, RequestRouter
from headwater.server.cluster.assignment.stream_lists import LISTS, StreamLists
from headwater.server.cluster.assignment.system_requests import SystemRequests
from headwater.server.cluster.assignment.usage import UsageReports
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.notices import (
    DESCRIPTION,
    DIGESTS,
    MEMBERS,
    REFILL,
    STREAMS,
)
from headwater.server.core.accounts import Accounts
from headwater.server.log import Log
from headwater.server.streams.host import StreamHost
from headwater.server.streams.routing import Call


class PeerLinks(Links, Protocol):
    """The connections to other servers, with that for messages and catch-up."""

    def send_catch_up(self, peer: str, payload: bytes) -> None:
        """Send a payload to a server, if its connection is open."""
        ...


@final
class ClusterStreams:
    """Joins the streams of one server to those of the others."""

    __slots__ = (
        "_accounts",
        "_described",
        "_driver",
        "_may_lack_servers",
        "_own",
        "adoption",
        "assigned",
        "comparison",
        "elections",
        "groups",
        "handovers",
        "lists",
        "meta",
        "repairs",
        "requests",
        "router",
        "system",
        "usage",
    )

    def __init__(
        self,
        described: ServerDescribed,
        meta: MetaMachine,
        driver: ConsensusDriver,
        host: StreamHost,
        accounts: Accounts,
        links: PeerLinks,
        rules: PlacementRules,
        entropy: Entropy,
        scheduler: Scheduler,
        now_ns: Callable[[], int],
        log: Log,
    ) -> None:
        self._accounts = accounts
        self._driver = driver
        # Whether a stream may have lost a server, or find another one.
        self._may_lack_servers = False
        # The servers as they describe themselves.
        self._described: dict[str, ServerDescribed] = {described.name: described}
        self.meta = meta
        answers = OrderedAnswers(host.api, accounts.get, host.runners.advisories)
        self.assigned = AssignedStreams(
            described.name,
            meta,
            driver,
            host.streams,
            host.stream_set,
            host.files,
            answers,
            scheduler,
            self._report_members,
            now_ns,
            log,
        )
        self.usage = UsageReports(described.name, host, meta, driver, scheduler, now_ns)
        self.requests = MetaRequests(
            meta,
            described.cluster,
            rules,
            entropy,
            now_ns,
            self.usage.health,
            self.assigned.leader_of,
        )
        self.handovers = Handovers(described.name, meta, driver, self.requests.candidates)
        self.system = self._new_system(host, scheduler)
        self.router = self._new_router(described.name, host, links, scheduler)
        self.groups = GroupStates(
            described.cluster,
            meta,
            driver,
            self.assigned.leader_of,
            self.assigned.led_since,
            host.accounts,
            lambda: TRAFFIC_ACCOUNT if accounts.system is None else accounts.system.name,
        )
        advisories = host.runners.advisories
        self.elections = Elections(described.name, meta, driver, self.groups, advisories, log)
        self.lists = self._new_lists(described, host, links, entropy, scheduler)
        self.adoption = Adoption(described.name, meta, driver, host, scheduler, log)
        self.repairs = MessageRepairs(
            described.name, driver, links.send_catch_up, host.streams.replicas, scheduler, log
        )
        self.comparison = ReplicaComparison(
            described.name, driver, host.streams.replicas, scheduler, log
        )
        self._own = described
        self._connect(host)

    def _new_lists(
        self,
        described: ServerDescribed,
        host: StreamHost,
        links: PeerLinks,
        entropy: Entropy,
        scheduler: Scheduler,
    ) -> StreamLists:
        leader_of, is_alive = self.assigned.leader_of, self._driver.is_alive
        return StreamLists(
            described, host, self.meta, leader_of, is_alive, links, entropy, scheduler
        )

    def _new_system(self, host: StreamHost, scheduler: Scheduler) -> SystemRequests:
        accounts = self._accounts
        return SystemRequests(
            self.meta,
            self.handovers,
            self.requests.candidates,
            lambda account: accounts.get(account) is not None,
            lambda: host.is_strict,
            scheduler,
        )

    def _new_router(
        self, name: str, host: StreamHost, links: Links, scheduler: Scheduler
    ) -> RequestRouter:
        accounts = self._accounts
        return RequestRouter(
            name,
            host.api,
            self.meta,
            self.requests,
            self.system,
            lambda account: account is accounts.system,
            self.assigned.leader_of,
            self.assigned.is_led_here,
            self._driver.is_alive,
            links,
            scheduler,
            self.assigned.has_replica,
            self._driver.silence_ns,
        )

    def _connect(self, host: StreamHost) -> None:
        """Have streams, meta group and consensus call the parts of this one."""
        host.find_group = self.groups.find
        host.find_sync_interval = self._sync_interval_of
        host.hand_over = self.handovers.hand_over_stream
        host.api.routing = self.router
        host.runners.elections = self.elections
        self.meta.elected = self.elections.meta_led
        self.meta.left = self._meta_left
        self.assigned.meta_changed = self._meta_changed
        self.assigned.servers_changed = self._servers_changed
        self.assigned.damage_found = self.repairs.note
        self.assigned.digest_formed = self.comparison.note
        self._driver.catch_ups.register(ASK, self.repairs.asked)
        self._driver.catch_ups.register(ANSWER, self.repairs.answered)
        self.meta.consensus = self._driver
        self.meta.listener = self.assigned
        notices = self._driver.notices
        notices.register(DESCRIPTION, self._server_described, lambda: (self._description(),))
        notices.register(MEMBERS, self._members_reported)
        notices.register(STREAMS, self.adoption.told)
        notices.register(DIGESTS, self.comparison.told)
        notices.register(REFILL, self.comparison.ordered)
        host.staging.restored = self.adoption
        host.find_surroundings = self.requests.surroundings
        host.mirrors.is_strong = self._is_strong

    def _is_strong(self, account: str, name: str) -> bool:
        """Whether the reads of a stream are linearizable, as its assignment says."""
        there = self.meta.assignments.get(account, name)
        return there is not None and there.config.read_consistency is ReadConsistency.STRONG

    def start(self) -> None:
        """Follow the assignments that this server knows, and report its streams and its usage."""
        self.assigned.start()
        self.adoption.look()
        self.usage.start()

    def stop(self) -> None:
        """Report nothing any more."""
        self.repairs.stop()
        self.comparison.stop()
        self.usage.stop()
        self.adoption.stop()

    def _meta_changed(self) -> None:
        """Describe servers to the meta group, repair and evacuate streams, and decide requests that
        wait."""
        assignments = self.meta.assignments
        if self.meta.is_leading and not assignments.has_in_flight:
            for described in self._described.values():
                self.meta.propose(decide_describe(assignments, described))
            if self._may_lack_servers and not assignments.has_in_flight:
                repairs = decide_repairs(assignments, self.requests.candidates())
                self._may_lack_servers = bool(repairs)
                self.meta.propose(repairs)
        self.system.decide_round()
        self.requests.decide_waiting()

    def _servers_changed(self, removed: str) -> None:
        """Note that a server has come or was removed, or that another one leads the meta group:
        streams may need another server."""
        self._may_lack_servers = True
        self.adoption.look()
        if removed:
            self.elections.server_removed(removed)
            # The server is admitted again if it connects again.
            self._described.pop(removed, None)
            self._driver.expel(removed)
            self.usage.forget(removed)

    def _description(self) -> bytes:
        """This server as others should see it: it gets no streams without the meta group."""
        is_jetstream = self._own.is_jetstream and not self.meta.fault
        return encode_record(replace(self._own, is_jetstream=is_jetstream))

    def _sync_interval_of(self, server: str) -> str:
        """The sync interval of a server, as it has told it; empty if it has not."""
        found = self._described.get(server) or self.meta.assignments.servers.get(server)
        return "" if found is None else found.sync

    def _meta_left(self) -> None:
        """Tell other servers that this one cannot be given streams until its next start."""
        self._driver.tell_all(DESCRIPTION, self._description())

    def _server_described(self, peer: str, description: bytes) -> None:
        """Note the description of another server."""
        try:
            record = decode_record(description)
        except RecordError:
            return
        if isinstance(record, ServerDescribed) and record.name == peer:
            self._described[peer] = record
            self._meta_changed()

    # --- members of groups ---------------------------------------------------------------------

    def _report_members(self, assignment: StreamAssignment, members: tuple[str, ...]) -> None:
        """Tell the leader of the meta group that a group has the members of its assignment."""
        record = ReplicasSettled(
            assignment.account, assignment.name, assignment.incarnation, members
        )
        if self.meta.is_leading:
            self._settle(record)
        elif self.meta.leader:
            self._driver.tell(self.meta.leader, MEMBERS, encode_record(record))

    def _members_reported(self, _: str, report: bytes) -> None:
        try:
            record = decode_record(report)
        except RecordError:
            return
        if isinstance(record, ReplicasSettled) and self.meta.is_leading:
            self._settle(record)

    def _settle(self, record: ReplicasSettled) -> None:
        assignments = self.meta.assignments
        key = record.account, record.name, record.incarnation
        self.meta.propose(decide_settle(assignments, *key, record.replicas))

    def forwarded(
        self,
        peer: str,
        account: str,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
        client: bytes,
    ) -> None:
        """Answer a call that another server has forwarded."""
        home = self._accounts.get(account)
        if subject.startswith(LISTS):
            self.lists.received(peer, account, subject, reply or b"", payload)
        elif home is not None:
            source = client_of(client) or ANONYMOUS
            self.router.forwarded(Call(home, source, subject, reply, header_size, payload))
