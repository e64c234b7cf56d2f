"""`headwater cluster run`: several servers on this machine that keep streams together."""

import time
from pathlib import Path
from typing import Any, Final

import click

from headwater.cli.api.client import ApiTarget
from headwater.cli.api.command import DEFAULT_TIMEOUT_S, JSON_OPTION, document
from headwater.cli.cluster.asking import look_at_servers
from headwater.cli.cluster.local import (
    CLIENT_PORT,
    MONITORING_PORT,
    SYSTEM_USER,
    LocalCluster,
    LocalServer,
    consecutive_ports,
    free_ports,
    ports_in_use,
)
from headwater.cli.cluster.processes import (
    LOOK_INTERVAL_S,
    RunningCluster,
    StopRequested,
    running_cluster,
    stop_requested_by_signals,
)
from headwater.cli.cluster.view import ClusterView, Problems
from headwater.cli.cluster.waiting import Wait
from headwater.cli.connection.options import DEFAULT_CONNECT_TIMEOUT_S
from headwater.cli.connection.target import Target
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import TeachingCommand
from headwater.cli.shell.render import count_text
from headwater.cli.shell.tables import Column, Columns, terminal_width
from headwater.client.api.requests import DEFAULT_PREFIX

DEFAULT_FOLDER: Final = "data/cluster"
SERVERS_MAX: Final = 9
"""The most servers on one machine; streams have up to five replicas."""
AGREEMENT_WAIT_S: Final = 60.0
FREE_PORTS: Final = -1
# The ports for monitoring are higher by this much.
PORT_MAX: Final = 65_535 - (MONITORING_PORT - CLIENT_PORT) - SERVERS_MAX


@click.command(
    "run",
    cls=TeachingCommand,
    examples="""
headwater cluster run                            three servers, until Ctrl-C
headwater cluster run --servers 5
headwater cluster run --port 5222                ports 5222, 5223, 5224, and 7222, 9222 and so on
headwater cluster run --port -1 --store try     free ports, another folder
""",
)
@click.option(
    "--servers",
    "count",
    type=click.IntRange(1, SERVERS_MAX),
    default=3,
    help="How many.  [default 3]",
)
@click.option(
    "--port",
    type=click.IntRange(FREE_PORTS, PORT_MAX),
    default=CLIENT_PORT,
    help=f"Of the first server; -1 is any free one.  [default {CLIENT_PORT}]",
)
@click.option(
    "--store",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    help=f"Folder of stores, configurations and logs.  [default {DEFAULT_FOLDER}]",
)
@JSON_OPTION
def run(count: int, port: int, folder: Path, as_json: bool) -> ExitCode:
    """Run a cluster on this machine, for trying things out.

    Starts the servers s1, s2, s3 on the loopback address, shows their addresses and stops them,
    one after another, at Ctrl-C. A server that is killed or stopped meanwhile can be started
    again by hand; the command that does is shown. Streams and messages are there again next time.
    """
    output = Output()
    ports = free_ports(count) if port <= 0 else consecutive_ports(count, port)
    if used := ports_in_use(ports):
        raise CommandFailed(
            f"In use already: port {', '.join(str(number) for number in used)}",
            "Is another server running? Choose other ports with --port.",
        )
    cluster = LocalCluster.of(folder, ports)
    try:
        cluster.write_configs()
    except OSError as error:
        raise CommandFailed(f"{error.filename} cannot be written: {error.strerror}") from error
    try:
        with stop_requested_by_signals(), running_cluster(cluster) as running:
            run_until_stopped(cluster, running, output, as_json)
    except StopRequested:
        # Before the servers were ready, or again while they were being stopped.
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def run_until_stopped(
    cluster: LocalCluster, running: RunningCluster, output: Output, as_json: bool
) -> None:
    """Show the servers when they are ready, and stop them in order when a signal asks for it."""
    running.wait_until_listening()
    wait_until_agreed(cluster, output, as_json)
    try:
        show_servers(cluster, output, as_json)
        watch(running, output)
    except StopRequested:
        output.remark("Stopping ...")
        for server in running.stop():
            output.remark(f"Stopped {server.name}")


def wait_until_agreed(cluster: LocalCluster, output: Output, as_json: bool) -> None:
    """Wait until all servers know each other and have a leader."""
    target = Target(
        servers=tuple(server.url for server in cluster.servers),
        connect_timeout_s=DEFAULT_CONNECT_TIMEOUT_S,
        user=SYSTEM_USER,
        password=SYSTEM_USER,
    )
    api = ApiTarget(target, DEFAULT_PREFIX, DEFAULT_TIMEOUT_S, output.remark)

    def outstanding(view: ClusterView) -> Problems:
        online = sum(each.is_online for each in view.servers)
        if online < len(cluster.servers):
            return [("servers", f"{online} of {len(cluster.servers)} know each other")]
        return view.problems

    wait = Wait(output, AGREEMENT_WAIT_S, hidden=as_json)
    wait.until(
        lambda: api.call(look_at_servers),
        outstanding,
        f"See the log: {cluster.servers[0].log_path}",
    )


def show_servers(cluster: LocalCluster, output: Output, as_json: bool) -> None:
    """Print the addresses and files of the servers, and the next commands."""
    if as_json:
        fields = [server_fields(server) for server in cluster.servers]
        output.result(document({"url": cluster.urls, "servers": fields}))
        return
    table = Columns(
        (
            Column("server", is_text=True),
            Column("for clients", is_text=True),
            Column("monitoring", is_text=True),
            Column("log", is_text=True),
        )
    )
    for server in cluster.servers:
        table.add(server.name, server.url, server.monitoring_url, shown_path(server.log_path))
    output.result(table.text(terminal_width(output)))
    output.result(f"\n{count_text(len(cluster.servers), 'server')} ready. In a second terminal:")
    output.result(f"  export NATS_URL={cluster.urls}")
    output.result(f"  headwater cluster status --user {SYSTEM_USER} --password {SYSTEM_USER}")
    replicas = min(len(cluster.servers), 3)
    output.result(f"  headwater stream add ORDERS --subjects 'orders.>' --replicas {replicas}")
    output.remark("Ctrl-C stops all servers.")


def server_fields(server: LocalServer) -> dict[str, Any]:
    """A server for a program."""
    return {
        "name": server.name,
        "url": server.url,
        "monitoring": server.monitoring_url,
        "config": str(server.config_path),
        "log": str(server.log_path),
    }


def shown_path(path: Path) -> str:
    """A path as a person would type it: from the present folder if it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def watch(running: RunningCluster, output: Output) -> None:
    """Report servers that end. Raises CommandFailed when all have, else StopRequested ends it."""
    while not running.is_over:
        for each in running.newly_ended():
            server = each.server
            output.remark(
                f"Server {server.name} ended with exit code {each.exit_code}. Start it again "
                f"with: headwater serve -c {shown_path(server.config_path)}"
            )
        time.sleep(LOOK_INTERVAL_S)
    raise CommandFailed("All servers have ended")
