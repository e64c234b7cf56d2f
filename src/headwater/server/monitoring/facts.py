"""The facts that monitoring pages and system events show of a server.

The module that assembles a server builds one `Facts` for it. Pages read it and change nothing.
Facts that come and go with a reload or with JetStream are read through `settings` and `streams`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.base.clock import Clock
from headwater.jetstream.api.cluster_documents import GroupState
from headwater.runtime.environment import Process
from headwater.server.cluster.assignment.cluster_streams import ClusterStreams
from headwater.server.cluster.cluster import Cluster
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.configuration.options import Options
from headwater.server.connections.roster import Roster
from headwater.server.core.accounts import Account, Accounts
from headwater.server.core.client import Client
from headwater.server.core.counters import Counters
from headwater.server.settings import Settings
from headwater.server.streams.facts import StreamFacts
from headwater.wire.info import ServerInfo


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that pages and events read of one server."""

    server_id: str
    name: str
    started_wall_ns: int
    settings: Settings
    clock: Clock
    process: Process
    accounts: Accounts
    roster: Roster
    counters: Counters
    get_info: Callable[[], ServerInfo]
    get_streams: Callable[[], StreamFacts | None]
    get_lame_duck: Callable[[], bool]
    get_cluster: Callable[[], Cluster | None]
    get_consensus: Callable[[], ConsensusDriver | None]
    get_cluster_streams: Callable[[], ClusterStreams | None]
    # The clients by which the server itself offers services, by account.
    service_clients: Mapping[Account, Client]
    # Monitoring requests answered, by path.
    requests: dict[str, int]

    @property
    def options(self) -> Options:
        """The options in force."""
        return self.settings.options

    @property
    def now_ns(self) -> int:
        """The time of the wall clock."""
        return self.clock.wall_ns()

    @property
    def info(self) -> ServerInfo:
        """INFO as a client would get it now."""
        return self.get_info()

    @property
    def streams(self) -> StreamFacts | None:
        """The streams of the server; None without JetStream."""
        return self.get_streams()

    @property
    def cluster(self) -> Cluster | None:
        """The links to other servers; None on a server on its own."""
        return self.get_cluster()

    @property
    def is_meta_leader(self) -> bool:
        """Whether the server leads the meta group. A server on its own leads itself."""
        consensus = self.get_consensus()
        if self.cluster is None:
            return True
        return consensus is not None and consensus.meta_leader == self.name

    def find_group(self, account: str, stream: str) -> GroupState | None:
        """The group of a stream as this server sees it; None on a server on its own."""
        streams = self.get_cluster_streams()
        return None if streams is None else streams.groups.find_here(account, stream)

    @property
    def is_lame_duck(self) -> bool:
        """Whether the server sends its clients away."""
        return self.get_lame_duck()
