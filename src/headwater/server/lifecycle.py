"""Starting, running and stopping a server: sockets, lame duck, reload, pid and ports files.

`Server` joins a Node to the world. Embedding programs, tests and `headwater serve` all start one;
they differ in the Environment that they give it and in the caller of `stop`.
"""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Final, cast, final

from headwater import __version__
from headwater.base.clock import NS_PER_S
from headwater.base.errors import OperatingError
from headwater.go.durations import format_seconds
from headwater.go.quoting import quote
from headwater.runtime.environment import Environment, Listener
from headwater.runtime.sockets.client_connection import ClientConnection
from headwater.runtime.sockets.http import HttpConnection
from headwater.runtime.sockets.tls import SecuredProtocol, SystemTlsContext
from headwater.runtime.tls import TlsError
from headwater.server.configuration.options import Options, TlsOptions
from headwater.server.configuration.reload_plan import changed_options
from headwater.server.connections import closing
from headwater.server.log import Log, Sink
from headwater.server.monitoring.http import Monitor
from headwater.server.node import Node
from headwater.wire.info import NATS_VERSION

# In lame duck mode clients are closed one by one, at most this far apart.
LAME_DUCK_STEP_S_MAX: Final = 1.0

# The time between two checks, while stopping, whether the disk is done.
DISK_POLL_S: Final = 0.001

_PORT_MAX: Final = 65_535


class StartError(OperatingError):
    """A server that could not start; the text says why."""


@final
class Server:
    """One server: `await start()`, then `await stop()`."""

    def __init__(
        self,
        options: Options,
        environment: Environment,
        sink: Sink,
        program: str = "headwater",
    ) -> None:
        options.validate()
        self._environment = environment
        self._pid = environment.process.pid()
        self._program = program
        self.log = Log(sink, environment.clock, self._pid)
        self._configure_log(options)
        self.node = Node(options, environment, self.log)
        self._listeners: list[Listener] = []
        self._client_listener: Listener | None = None
        self._http_connections: dict[HttpConnection, None] = {}
        self._stopped: asyncio.Future[None] | None = None
        self.client_port = 0
        self.monitoring_port = 0
        self.cluster_port = 0

    @property
    def options(self) -> Options:
        """The options in force."""
        return self.node.options

    @property
    def url(self) -> str:
        """The URL by which clients on this machine connect."""
        return f"nats://{_bracketed(_reachable(self.options.host))}:{self.client_port}"

    # --- start ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the streams and listen. Raises StartError, and then leaves nothing open."""
        self._stopped = asyncio.get_running_loop().create_future()
        self._announce()
        try:
            self._open_jetstream()
            await self._listen_for_monitoring()
            await self._listen_for_clients()
            await self._listen_for_routes()
            self._write_files()
        except StartError as error:
            self._close_listeners()
            self.node.close_jetstream()
            self.log.fatal(str(error))
            raise
        self.log.info("Server is ready")
        self._start_cluster()

    def _announce(self) -> None:
        node = self.node
        self.log.info(f"Starting nats-server (Headwater {__version__})")
        self.log.info(f"  Version:  {NATS_VERSION}")
        self.log.info(f"  Headwater: {__version__}")
        if node.cluster is not None:
            self.log.info(f"  Cluster:  {node.cluster.cluster_name}")
        self.log.info(f"  Name:     {node.name}")
        self.log.info(f"  ID:       {node.server_id}")
        if self.options.config_file:
            digest = self.options.config_digest
            self.log.info(f"Using configuration file: {self.options.config_file} ({digest})")
        for warning in self.options.warnings():
            self.log.warn(warning)

    def _open_jetstream(self) -> None:
        if not self.options.jetstream.enabled:
            return
        for account in self.options.accounts:
            if account.name == self.options.system_account and account.jetstream is not None:
                raise StartError("Not allowed to enable JetStream on the system account")
        self.log.info("Starting JetStream")
        began_ns = self._environment.clock.monotonic_ns()
        try:
            self.node.open_jetstream()
        except OperatingError as error:
            raise StartError(f"Can't start JetStream: {error}") from error
        took_s = (self._environment.clock.monotonic_ns() - began_ns) / NS_PER_S
        self.log.info(f"Took {format_seconds(took_s)} to start JetStream")

    async def _listen_for_clients(self) -> None:
        options = self.options
        listener = await self._listen(
            options.host, options.port, lambda: ClientConnection(self.node.connections)
        )
        self._client_listener = listener
        self.client_port = self.node.announcements.client_port = listener.port
        self.log.info(
            f"Listening for client connections on {_bracketed(options.host)}:{listener.port}"
        )
        if options.tls is not None:
            self.log.info("TLS required for client connections")

    async def _listen_for_routes(self) -> None:
        cluster, options = self.node.cluster, self.options.cluster
        if cluster is None:
            return
        listener = await self._listen(options.host, options.port, lambda: ClientConnection(cluster))
        self.cluster_port = cluster.port = listener.port

    def _start_cluster(self) -> None:
        """Tell of the port for other servers, and dial those that are configured."""
        cluster = self.node.cluster
        if cluster is None:
            return
        self.log.info(f"Cluster name is {cluster.cluster_name}")
        if cluster.is_name_made_up:
            self.log.warn("Cluster name was dynamically generated, consider setting one")
        host = _bracketed(self.options.cluster.host)
        self.log.info(f"Listening for route connections on {host}:{cluster.port}")
        cluster.start()

    async def _listen_for_monitoring(self) -> None:
        options = self.options
        if options.http_port and options.https_port:
            raise StartError(
                "Can't start monitoring: can't specify both "
                f"HTTP ({options.http_port}) and HTTPs ({options.https_port}) ports"
            )
        port = options.http_port or options.https_port
        if port == 0:
            return
        monitor = Monitor(self.node.facts, self.log)

        def new_connection() -> HttpConnection:
            return HttpConnection(monitor.respond, self._http_connections)

        host = options.monitoring_host
        factory: Callable[[], asyncio.Protocol] = new_connection
        if options.https_port:
            if options.tls is None:
                raise StartError("Can't start monitoring: TLS cert and key required for HTTPS")
            factory = self._secured(new_connection)
        listener = await self._listen(host, port, factory)
        self.monitoring_port = listener.port
        scheme = "https" if options.https_port else "http"
        self.log.info(f"Starting {scheme} monitor on {_bracketed(host)}:{listener.port}")

    def _secured(
        self, new_protocol: Callable[[], asyncio.Protocol]
    ) -> Callable[[], asyncio.Protocol]:
        """Connections that begin with a handshake, by the certificate of that moment.

        A reload may leave clients without TLS: monitoring then keeps the last certificate.
        """
        latest = self.options.tls, self.node.settings.tls_context

        def new_connection() -> asyncio.Protocol:
            nonlocal latest
            if self.options.tls is not None:
                latest = self.options.tls, self.node.settings.tls_context
            tls, context = latest
            timeout_s = TlsOptions.timeout_s if tls is None else tls.timeout_s
            return SecuredProtocol(new_protocol(), cast(SystemTlsContext, context), timeout_s)

        return new_connection

    async def _listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol]
    ) -> Listener:
        where = f"{_bracketed(host)}:{port}"
        # The text is that of Go's net package. Some loops take a larger port modulo 65536.
        if port > _PORT_MAX:
            reason = quote(f"listen tcp: address {port}: invalid port")
            raise StartError(f"Error listening on port: {where}, {reason}")
        try:
            listener = await self._environment.network.listen(host, port, factory)
        except OSError as error:
            cause = os.strerror(error.errno).lower() if error.errno else str(error)
            reason = quote(f"listen tcp {where}: bind: {cause}")
            raise StartError(f"Error listening on port: {where}, {reason}") from error
        self._listeners.append(listener)
        return listener

    def _write_files(self) -> None:
        files = self._environment.files
        options = self.options
        if options.pid_file:
            try:
                files.replace_bytes(options.pid_file, str(self._pid).encode())
            except OSError as reason:
                self.log.error(f"Unable to write pid file {options.pid_file}: {reason}")
        path = self._ports_file()
        if path:
            url = self.url if options.tls is None else self.url.replace("nats://", "tls://", 1)
            ports = {"nats": [url]}
            if self.monitoring_port:
                host = _bracketed(options.monitoring_host)
                scheme = "https" if options.https_port else "http"
                ports["monitoring"] = [f"{scheme}://{host}:{self.monitoring_port}"]
            if self.cluster_port:
                host = _bracketed(_reachable(options.cluster.host))
                ports["cluster"] = [f"nats://{host}:{self.cluster_port}"]
            try:
                files.replace_bytes(path, json.dumps(ports, separators=(",", ":")).encode())
            except OSError as reason:
                self.log.error(f"Error writing ports file ({path}): {reason}")

    def _ports_file(self) -> str:
        directory = self.options.ports_file_dir
        return f"{directory}/{self._program}_{self._pid}.ports" if directory else ""

    # --- stop ----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Close everything. May be called more than once."""
        if self._stopped is None or self._stopped.done():
            return
        self.log.info("Initiating Shutdown...")
        self._close_listeners()
        if self.node.jetstream is not None:
            self.node.jetstream.end_consumers()
        self.node.close_all(closing.SERVER_SHUTDOWN)
        if self.node.jetstream is not None:
            self.log.info("Initiating JetStream Shutdown...")
            # A sync under way must not find its files closed.
            while self.node.jetstream.is_busy:  # noqa: ASYNC110
                await asyncio.sleep(DISK_POLL_S)
            self.node.close_jetstream()
            self.log.info("JetStream Shutdown")
        for connection in [*self._http_connections]:
            connection.close()
        # The pid file stays, as nats-server's does: its readers have to check the process anyway.
        if self._ports_file():
            self._environment.files.remove(self._ports_file())
        # One turn of the loop, so that the bytes that were queued for clients leave.
        await asyncio.sleep(0)
        self.log.info("Server Exiting..")
        self._stopped.set_result(None)

    async def wait_stopped(self) -> None:
        """Return when the server has stopped."""
        if self._stopped is not None:
            await asyncio.shield(self._stopped)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    # --- signals -------------------------------------------------------------------------------

    async def lame_duck(self) -> None:
        """Accept nobody new, send clients away gently over time, then stop."""
        if self.node.announcements.is_lame_duck or self._client_listener is None:
            return
        self.log.info("Entering lame duck mode, stop accepting new clients")
        self._client_listener.close()
        if self.node.roster.open:
            self.node.announce_lame_duck()
            await asyncio.sleep(self.options.lame_duck_grace_period_s)
            self.log.info("Closing existing clients")
            await self._close_gently()
        await self.stop()

    async def _close_gently(self) -> None:
        options = self.options
        window_s = options.lame_duck_duration_s - options.lame_duck_grace_period_s
        clients = [*self.node.roster.open.values()]
        step_s = min(max(window_s, 1.0) / max(len(clients), 1), LAME_DUCK_STEP_S_MAX)
        below = self._environment.entropy.below
        for position, client in enumerate(clients):
            if position:
                # Between half a step and a step, so that several servers do not move in time.
                jitter_s = below(int(step_s / 2 * NS_PER_S) + 1) / NS_PER_S
                await asyncio.sleep(step_s / 2 + jitter_s)
            self.node.connections.close(client, closing.SERVER_SHUTDOWN)

    def reload(self, options: Options) -> None:
        """Take over a changed configuration, or log that a change of it needs a restart."""
        plan = changed_options(self.options, options)
        if plan.error:
            self.refuse_reload(plan.error)
            return
        old_ports_file = self._ports_file()
        try:
            self.node.reload(plan.options)
        except TlsError as error:
            self.refuse_reload(str(error))
            return
        self._configure_log(plan.options)
        if {"pid_file", "ports_file_dir"} & set(plan.changed):
            if old_ports_file:
                self._environment.files.remove(old_ports_file)
            self._write_files()
        for line in plan.changes:
            self.log.info(f"Reloaded: {line}")
        self.log.info(f"Reloaded server configuration ({plan.options.config_digest})")

    def refuse_reload(self, reason: str) -> None:
        """Log the reason for which the configuration is not reloaded."""
        self.log.error(f"Failed to reload server configuration: {reason}")

    def _configure_log(self, options: Options) -> None:
        self.log.debug_on = options.debug
        self.log.trace_on = options.trace
        self.log.time_on = options.logtime
        self.log.utc = options.logtime_utc


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
