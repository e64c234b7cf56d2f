"""A whole server without its sockets: its parts, put together.

    runtime ──▶ Connections ──▶ Broker ──▶ streams, services, other clients
                    │          ▲              │
                    │       Cluster ◀──▶ other servers
                    └──▶ SystemServices ◀── Facts ──▶ monitoring pages

The parts do not know the node. Each is given the values and calls that it uses. Events that concern
several parts (the opening of streams, a reload, lame duck mode, the end) are ordered here.
"""

from functools import partial
from typing import final

from headwater.runtime.environment import Environment
from headwater.server.cluster.assignment.cluster_streams import ClusterStreams
from headwater.server.cluster.assignment.meta_machine import MetaMachine, forget_assignments
from headwater.server.cluster.cluster import Cluster
from headwater.server.cluster.consensus.cluster_file import ClusterFile
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.orders import carry_out_order
from headwater.server.cluster.consensus.peers import START_BYTES, ServerFacts
from headwater.server.cluster.consensus.settings import (
    catch_up_bytes_max,
    read_settings,
    settings_of,
)
from headwater.server.configuration.options import Options
from headwater.server.configuration.placement_settings import describe_server, placement_rules
from headwater.server.connections.announcements import Announcements
from headwater.server.connections.connections import Connections
from headwater.server.connections.roster import Roster
from headwater.server.core.accounts import Account, Accounts
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client
from headwater.server.core.tracing import Tracer
from headwater.server.identity import new_server_id
from headwater.server.log import Log
from headwater.server.monitoring.facts import Facts
from headwater.server.settings import Settings
from headwater.server.streams.advisories import ServerTitle
from headwater.server.streams.host import StreamHost
from headwater.server.system.services import SystemServices
from headwater.server.turn import Turn


@final
class Node:
    """One server."""

    def __init__(self, options: Options, environment: Environment, log: Log) -> None:
        clock = environment.clock
        started_wall_ns = clock.wall_ns()
        self.environment = environment
        self.log = log
        self.server_id = new_server_id(environment.entropy)
        # A reload does not change the name.
        self.name = options.server_name or self.server_id
        self.settings = Settings(options, started_wall_ns, environment.load_tls)
        self.accounts = Accounts(options)
        self.roster = Roster(options.max_closed_clients)
        # There once the store is open, if streams are wanted.
        self.jetstream: StreamHost | None = None
        # There on a server of a cluster whose store is open.
        self.consensus: ConsensusDriver | None = None
        self.cluster_streams: ClusterStreams | None = None
        self.broker = self._new_broker(options)
        self.announcements = Announcements(
            self.server_id,
            self.name,
            self.settings,
            self.accounts,
            self.roster,
            self.broker,
            has_streams=lambda: self.jetstream is not None,
            get_cluster=lambda: self.cluster,
            find_addresses=lambda: environment.network.addresses(),
            entropy=environment.entropy,
        )
        # There if other servers may connect.
        self.cluster = self._new_cluster() if options.is_clustered else None
        service_clients: dict[Account, Client] = {}
        self.facts = Facts(
            server_id=self.server_id,
            name=self.name,
            started_wall_ns=started_wall_ns,
            settings=self.settings,
            clock=clock,
            process=environment.process,
            accounts=self.accounts,
            roster=self.roster,
            counters=self.broker.counters,
            get_info=self.announcements.info,
            get_streams=lambda: None if self.jetstream is None else self.jetstream.facts,
            get_lame_duck=lambda: self.announcements.is_lame_duck,
            get_cluster=lambda: self.cluster,
            get_consensus=lambda: self.consensus,
            get_cluster_streams=lambda: self.cluster_streams,
            service_clients=service_clients,
            requests={},
        )
        self.system_services = SystemServices(
            self.facts,
            self.broker,
            environment,
            log,
            service_clients,
            close=lambda client, reason: self.connections.close(client, reason),
        )
        self.connections = Connections(
            environment,
            self.settings,
            log,
            self.accounts,
            self.roster,
            self.broker,
            self.announcements,
            self.system_services,
        )

    def _new_broker(self, options: Options) -> Broker:
        environment = self.environment
        turn = Turn(
            environment.scheduler,
            options.max_pending,
            overflow=lambda client: self.connections.end_slow_consumer(client),
        )
        broker = Broker(
            environment.clock,
            environment.entropy,
            environment.scheduler,
            Tracer(self.log, options),
            turn,
            resume=lambda client: self.connections.intake.resume(client),
        )
        broker.door.report = self.log.error
        broker.stalls_publishers = not options.no_fast_producer_stall
        return broker

    def _new_cluster(self) -> Cluster:
        return Cluster(
            self.server_id,
            self.name,
            self.environment,
            self.settings,
            self.log,
            self.accounts,
            self.broker,
            next_id=self.roster.next_cid,
            client_urls=self.announcements.own_urls,
            members_changed=self.announcements.announce_members,
            audience_changed=lambda: self.system_services.audience_changed(),
        )

    @property
    def options(self) -> Options:
        """The options in force."""
        return self.settings.options

    # --- streams -------------------------------------------------------------------------------

    def open_jetstream(self) -> None:
        """Open the store and bring back its streams. Raises OperatingError."""
        cluster = "" if self.cluster is None else self.cluster.cluster_name
        title = ServerTitle(self.name, self.server_id, self.options.jetstream.domain, cluster)
        self.jetstream = StreamHost(
            self.options,
            self.environment,
            self.log,
            self.broker,
            self.accounts,
            title,
            self.roster.next_cid,
            is_announced=self.cluster is not None,
        )
        self.jetstream.start()
        if self.cluster is not None:
            self._agree(self.cluster, self.jetstream)

    def _agree(self, cluster: Cluster, streams: StreamHost) -> None:
        """Take part in the agreement of the servers that keep streams. Raises StoreError."""
        environment, store = self.environment, streams.store
        start = environment.entropy.random_bytes(START_BYTES)
        file = ClusterFile(store.files, store.folder)
        forget = partial(forget_assignments, store.files, store.folder)
        if line := carry_out_order(file, store, self.name, environment.entropy, forget):
            self.log.warn(line)
        meta = MetaMachine(store.files, store.folder)
        consensus = ConsensusDriver(
            ServerFacts(store.identity, store.start_number, start),
            self.name,
            store.groups,
            file,
            cluster,
            self.broker.turn,
            cluster.configured_servers(),
            environment.clock,
            environment.scheduler,
            environment.entropy,
            self.log,
            *settings_of(self.options.cluster),
            meta,
            catch_up_bytes_max(self.options.jetstream),
            read_settings(self.options),
        )
        self.consensus = streams.runners.groups = cluster.listener = consensus
        self.cluster_streams = ClusterStreams(
            describe_server(
                self.options,
                streams.resources.max_memory_bytes,
                streams.resources.max_storage_bytes,
            ),
            meta,
            consensus,
            streams,
            self.accounts,
            cluster,
            placement_rules(self.options),
            environment.entropy,
            environment.scheduler,
            environment.clock.wall_ns,
            self.log,
        )
        cluster.request_listener = self.cluster_streams
        consensus.start()
        self.cluster_streams.start()

    def close_jetstream(self) -> None:
        """Close the store, if it is open."""
        if self.cluster_streams is not None:
            self.cluster_streams.stop()
        if self.consensus is not None:
            self.consensus.stop()
            self.consensus = None
        if self.jetstream is not None:
            self.jetstream.stop()
            self.jetstream = None

    # --- the whole server ----------------------------------------------------------------------

    def close_all(self, reason: str) -> None:
        """End every connection."""
        self.system_services.shutting_down()
        self.connections.close_all(reason)
        if self.consensus is not None:
            # Other servers lead from now on, without having to wait until this one is lost.
            self.consensus.stop()
        if self.cluster is not None:
            # The event of the shutdown crosses to the others before the links end.
            self.broker.turn.complete()
            self.cluster.stop()

    def announce_lame_duck(self) -> None:
        """Have other servers lead, and tell clients to go elsewhere."""
        if self.consensus is not None:
            self.consensus.retire()
        self.announcements.enter_lame_duck_mode()
        if self.cluster is not None:
            self.cluster.enter_lame_duck_mode()
        self.system_services.lame_duck_entered()

    def reload(self, options: Options) -> None:
        """Take over new options, which the caller has checked to be reloadable."""
        old = self.options
        self.settings.replace(options, self.environment.clock.wall_ns())
        self.accounts.configure(options)
        if self.cluster is not None:
            self.cluster.accounts_changed()
        self.system_services.accounts_changed()
        if self.jetstream is not None:
            self.jetstream.reload(options)
        self.broker.tracer = Tracer(self.log, options)
        self.broker.buffers.max_pending = options.max_pending
        self.broker.stalls_publishers = not options.no_fast_producer_stall
        self.connections.reload(old)
        # nats-server does not tell of a new max_payload either; it holds all the same.
        if old.client_advertise != options.client_advertise:
            self.announcements.announce_address()
        if self.cluster is not None:
            self.cluster.reload(old.cluster)
            if (old.client_advertise, old.cluster.no_advertise) != (
                options.client_advertise,
                options.cluster.no_advertise,
            ):
                self.cluster.announce_info()
                self.announcements.announce_members()
