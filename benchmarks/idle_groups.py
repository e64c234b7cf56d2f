"""Idle Raft groups: the processor time and the frames of three servers that share many of them.

`python -m benchmarks.idle_groups [--groups N ...] [--seconds N]`. Each server is a process of its
own with a store and real links to the others. When the servers have a leader, each one becomes a
member of all groups; when every group has a leader, and is silent, the servers are left alone and
measured. The aim: with 1,000 groups a server takes less than 2 % of a core, and sends no more
frames than with ten, which is nothing but the heartbeats of a pair of servers. Their rate is that
of a timer, ten per second and direction at most; a busy machine delays some of them.

`make bench ARGS=idle-groups` measures that beside three nats-servers with as many idle streams.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.cluster_scenarios import free_port
from benchmarks.processes import Line, child, reports, wait_for_parent
from benchmarks.report import columns
from benchmarks.servers import BenchmarkError
from headwater.raft.membership import membership_of
from headwater.raft.node import RaftNode
from headwater.raft.storage import born
from headwater.runtime.loops import new_event_loop
from headwater.runtime.real import real_environment
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.frames import HEARTBEAT
from headwater.server.cluster.consensus.group_storage import GroupStorage, create_log
from headwater.server.cluster.consensus.settings import settings_of
from headwater.server.configuration.options import (
    ClusterOptions,
    JetStreamOptions,
    Options,
    RouteUrl,
)
from headwater.server.lifecycle import Server
from headwater.store.groups.frames import GroupMode

NAMES: Final = ("s1", "s2", "s3")
GROUPS: Final = (10, 1_000)
SECONDS: Final = 10.0
PATIENCE_S: Final = 240.0
# Longer than the default, since all share the cores with whatever else runs here. Idle groups cost
# the same with any.
ELECTION_S: Final = 5.0
LOOK_S: Final = 0.1
# Groups that became silent last have work to finish.
SETTLING_S: Final = 2.0

HOST: Final = "127.0.0.1"


@dataclass(frozen=True)
class Idle:
    """One server while nothing happens."""

    cpu_percent: float
    frames_per_s: float
    """Frames of both other servers that it received."""
    others_per_s: float
    """Those of them that are no heartbeats."""
    leaders: int
    """The groups that it led."""


class CountingListener:
    """The listener of a cluster, with counts of the frames that pass."""

    def __init__(self, driver: ConsensusDriver) -> None:
        self._driver = driver
        self.frames = self.others = 0

    def consensus_received(self, peer: str, payload: bytes) -> None:
        self.frames += 1
        self.others += payload != HEARTBEAT
        self._driver.consensus_received(peer, payload)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


# --- in the process of a server ------------------------------------------------------------------


def serve(
    parent: Line, name: str, ports: dict[str, int], folder: str, count: int, seconds: float
) -> None:
    """Run one server, and report its idle time."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(parent, name, ports, folder, count, seconds))


async def _serve(
    parent: Line, name: str, ports: dict[str, int], folder: str, count: int, seconds: float
) -> None:
    options = Options(
        server_name=name,
        host=HOST,
        port=-1,
        jetstream=JetStreamOptions(enabled=True, store_dir=f"{folder}/{name}"),
        cluster=ClusterOptions(
            name="benchmark",
            host=HOST,
            port=ports[name],
            routes=tuple(RouteUrl(HOST, port) for port in ports.values()),
            election_timeout_s=ELECTION_S,
        ),
    )
    server = Server(options, real_environment(), lambda line: None)
    await server.start()
    node = server.node
    driver, cluster, streams = node.consensus, node.cluster, node.jetstream
    if driver is None or cluster is None or streams is None:
        raise BenchmarkError("the server has no cluster")
    listener = CountingListener(driver)
    cluster.listener = listener
    await _until(lambda: int(driver.meta is not None and _is_whole(driver.meta)), 1)
    identities = [(1 + number).to_bytes(16, "little") for number in range(count)]
    _add_groups(server, driver, identities)
    await _until(lambda: sum(_is_silent(driver, identity) for identity in identities), count)
    parent.send("silent")
    await asyncio.get_running_loop().run_in_executor(None, wait_for_parent, parent)
    await asyncio.sleep(SETTLING_S)
    parent.send(await _measure(driver, listener, identities, seconds))
    # The others are measured until then.
    await asyncio.get_running_loop().run_in_executor(None, wait_for_parent, parent)
    await server.stop()


def _add_groups(server: Server, driver: ConsensusDriver, identities: list[bytes]) -> None:
    """Make the server a member of groups that have no entries yet."""
    environment, streams = server.node.environment, server.node.jetstream
    if streams is None:
        raise BenchmarkError("the server has no store")
    raft, _ = settings_of(server.node.options.cluster)
    now_ns = environment.clock.monotonic_ns()
    for identity in identities:
        saved = born(membership_of(NAMES))
        log, _ = create_log(streams.store.groups, identity, GroupMode.SYNCED, saved)
        member = RaftNode(
            server.node.name, raft, environment.entropy, GroupStorage(log), saved, now_ns
        )
        driver.groups.add(identity, member, now_ns)
    streams.runners.want_commit()


async def _measure(
    driver: ConsensusDriver, listener: CountingListener, identities: list[bytes], seconds: float
) -> Idle:
    begin_s, cpu_s = time.monotonic(), time.process_time()
    frames, others = listener.frames, listener.others
    await asyncio.sleep(seconds)
    passed_s = time.monotonic() - begin_s
    return Idle(
        100 * (time.process_time() - cpu_s) / passed_s,
        (listener.frames - frames) / passed_s,
        (listener.others - others) / passed_s,
        sum(_leads(driver, identity) for identity in identities),
    )


async def _until(count: Callable[[], int], wanted: int) -> None:
    """Wait until a number of groups is at rest."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := count()) < wanted:
        if time.monotonic() > deadline_s:
            raise BenchmarkError(f"{found} of {wanted} groups came to rest")
        await asyncio.sleep(LOOK_S)


def _is_whole(meta: RaftNode) -> bool:
    """Whether the cluster has all servers, and a leader."""
    return bool(meta.leader) and meta.membership.voters == NAMES


def _is_silent(driver: ConsensusDriver, identity: bytes) -> bool:
    member = driver.groups.node(identity)
    return member is not None and bool(member.leader) and member.deadline_ns is None


def _leads(driver: ConsensusDriver, identity: bytes) -> bool:
    member = driver.groups.node(identity)
    return member is not None and member.leader == member.name


# --- the run -------------------------------------------------------------------------------------


def measure(count: int, seconds: float) -> list[Idle]:
    """Three servers with a number of groups, while nothing happens."""
    ports = {name: free_port() for name in NAMES}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        lines = [
            stack.enter_context(child(serve, name, ports, folder, count, seconds)) for name in NAMES
        ]
        reports(*lines)
        for line in lines:
            line.send("go")
        found: list[Idle] = reports(*lines)
        return found


def main(argv: Sequence[str]) -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle_groups")
    parser.add_argument("--groups", type=int, nargs="+", default=list(GROUPS))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    arguments = parser.parse_args(argv)
    rows = []
    for count in arguments.groups:
        for name, idle in zip(NAMES, measure(count, arguments.seconds), strict=True):
            rates = f"{idle.frames_per_s:.1f}", f"{idle.others_per_s:.1f}"
            figures = f"{idle.cpu_percent:.2f} %", *rates, str(idle.leaders)
            rows.append([str(count), name, *figures])
    head = ["groups", "server", "of a core", "frames/s in", "no heartbeats", "led"]
    print(columns([head, *rows], right_aligned={0, 2, 3, 4, 5}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
