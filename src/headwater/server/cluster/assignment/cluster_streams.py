"""The streams of a server that is one of a cluster: the parts of this package, joined.

requests ─▶ RequestRouter ─▶ MetaRequests ─▶ MetaMachine ─▶ [meta group] ─▶ AssignedStreams
                 └─▶ other servers                                              │
                                          streams of this server ◀──────────────┘
"""

from collections.abc import Callable
from typing import final

from headwater.base.entropy import Entropy
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.meta.assignments import StreamAssignment
from headwater.jetstream.meta.codec import decode_record, encode_record
from headwater.jetstream.meta.decisions import decide_describe, decide_repairs, decide_settle
from headwater.jetstream.meta.placement import PlacementRules
from headwater.jetstream.meta.records import ReplicasSettled, ServerDescribed
from headwater.runtime.environment import Scheduler
from headwater.server.cluster.assignment.answers import ANONYMOUS, OrderedAnswers, client_of
from headwater.server.cluster.assignment.assigned_streams import AssignedStreams
from headwater.server.cluster.assignment.group_states import GroupStates
from headwater.server.cluster.assignment.handovers import Handovers
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.assignment.meta_requests import MetaRequests
from headwater.server.cluster.assignment.router import Links, RequestRouter
from headwater.server.cluster.assignment.stream_lists import LISTS, StreamLists
from headwater.server.cluster.assignment.system_requests import SystemRequests
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.core.accounts import Accounts
from headwater.server.log import Log
from headwater.server.streams.host import StreamHost
from headwater.server.streams.routing import Call


@final
class ClusterStreams:
    """Joins the streams of one server to those of the others."""

    __slots__ = (
        "_accounts",
        "_described",
        "_driver",
        "_may_lack_servers",
        "_own",
        "assigned",
        "groups",
        "handovers",
        "lists",
        "meta",
        "requests",
        "router",
        "system",
    )

    def __init__(
        self,
        described: ServerDescribed,
        meta: MetaMachine,
        driver: ConsensusDriver,
        host: StreamHost,
        accounts: Accounts,
        links: Links,
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
        answers = OrderedAnswers(host.api, accounts.get)
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
        self.handovers = Handovers(described.name, meta, driver)
        self.requests = MetaRequests(
            meta,
            described.cluster,
            rules,
            entropy,
            now_ns,
            driver.is_alive,
            self.assigned.leader_of,
        )
        self.system = SystemRequests(
            meta,
            self.handovers,
            self.requests.candidates,
            lambda account: accounts.get(account) is not None,
            lambda: host.is_strict,
        )
        self.router = RequestRouter(
            described.name,
            host.api,
            meta,
            self.requests,
            self.system,
            lambda account: account is accounts.system,
            self.assigned.leader_of,
            links,
            scheduler,
        )
        self.groups = GroupStates(
            described.cluster, meta, driver, self.assigned.leader_of, self.assigned.led_since
        )
        host.find_group = self.groups.find
        host.hand_over = self.handovers.hand_over_stream
        self.assigned.meta_changed = self._meta_changed
        self.assigned.servers_changed = self._servers_changed
        meta.consensus = driver
        meta.listener = self.assigned
        host.api.routing = self.router
        self.lists = StreamLists(
            described.name,
            described.cluster,
            host.api,
            host.runners,
            meta,
            self.assigned.leader_of,
            driver.is_alive,
            links,
            entropy,
            scheduler,
        )
        host.api.lists = self.lists
        driver.description = encode_record(described)
        driver.described = self._server_described
        driver.members_reported = self._members_reported

    def start(self) -> None:
        """Follow the assignments that this server knows."""
        self.assigned.start()

    def _meta_changed(self) -> None:
        """Describe servers to the meta group, repair streams, and decide requests that wait."""
        assignments = self.meta.assignments
        if self.meta.is_leading and not assignments.has_in_flight:
            for described in self._described.values():
                self.meta.propose(decide_describe(assignments, described))
            if self._may_lack_servers and not assignments.has_in_flight:
                repairs = decide_repairs(assignments, self.requests.candidates())
                self._may_lack_servers = bool(repairs)
                self.meta.propose(repairs)
        self.requests.decide_waiting()

    def _servers_changed(self, removed: str) -> None:
        """Note that a server has come or was removed: streams may need another one."""
        self._may_lack_servers = True
        if removed:
            # The server is admitted again if it connects again.
            self._described.pop(removed, None)
            self._driver.expel(removed)

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
            self._driver.report_members(self.meta.leader, encode_record(record))

    def _members_reported(self, report: bytes) -> None:
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
