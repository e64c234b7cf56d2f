"""The cost of each level of consistency, in one run, beside nats-server where it has the level.

Streams of all levels stand on the same servers, and the rounds of all levels alternate, so that a
level is compared with another one under the same load of the machine. Clients are those of the
leader's server, but for the gaps, which a client of another server sees.

`levels` is all of it; the other names are its parts.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from benchmarks.latency import percentile
from benchmarks.replica_scenarios import (
    IDLE_STREAMS,
    MILLION,
    REPLICAS,
    SETTLE_S,
    make_many,
    usage,
)
from benchmarks.replica_servers import Member, ReplicaCluster, ask, replica_cluster
from benchmarks.report import Aim, Row
from benchmarks.scenarios import Scenario, Settings
from benchmarks.servers import HEADWATER, NATS_SERVER, BenchmarkError
from benchmarks.stream_load import (
    Publishing,
    publish_rate,
    publish_times_s,
    request_rate,
    request_times_s,
)
from benchmarks.wire import READ_BYTES, dial

EVENTUAL_P50: Final = Aim("at most 1.20 of R1's", ours_max=1.2)
READ_RATE: Final = Aim("at least 0.95 of weak", ours_min=0.95)
READ_TIME: Final = Aim("at most 1.05 of weak", ours_max=1.05)
LEASED_IDLE: Final = Aim("under 3 % of a core", ours_max=3.0)

READS: Final = "READS"
MIRROR: Final = "READS-MIRROR"
STORED: Final = 10_000
SUBJECTS: Final = 1_000
READS_PER_S: Final = 40_000
READS_AT_A_TIME: Final = 100

# The time for which a client looks for gaps after a leader has gone.
WATCH_S: Final = 4.0
GAP_LOOK_S: Final = 0.002
ANSWER_S: Final = 0.25
ANSWERED: Final = b"Nats-Sequence: "


@dataclass(frozen=True)
class WriteLevel:
    """A level of publishing; `messages` are about as many as fit into a second."""

    name: str
    messages: int
    replicas: int = 1
    sync_always: bool = False
    config: dict[str, object] = field(default_factory=dict)
    is_own: bool = False
    """Whether nats-server has no such level."""

    @property
    def stream(self) -> str:
        return "W-" + self.name.replace(" ", "-")


WRITE_LEVELS: Final = (
    WriteLevel("R1 async", 100_000, config={"persist_mode": "async"}),
    WriteLevel("R1", 100_000),
    WriteLevel("R1 always", 10_000, sync_always=True),
    WriteLevel(
        "R3 eventual", 40_000, REPLICAS, config={"write_consistency": "eventual"}, is_own=True
    ),
    WriteLevel("R3 strong", 40_000, REPLICAS),
    WriteLevel("R3 strong always", 3_000, REPLICAS, sync_always=True),
)


class Series:
    """The figures of one subject of measurement, round by round."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.p50s_us: list[float] = []
        self.p99s_us: list[float] = []

    def add(self, rate: float, times_s: list[float]) -> None:
        """Keep the figures of a round."""
        self.rates.append(rate)
        self.p50s_us.append(percentile(times_s, 0.50) * 1e6)
        self.p99s_us.append(percentile(times_s, 0.99) * 1e6)


def rows_of(name: str, unit: str, in_flight: int, ours: Series, theirs: Series) -> list[Row]:
    """The rows of one level."""
    times = [("p50", ours.p50s_us, theirs.p50s_us), ("p99", ours.p99s_us, theirs.p99s_us)]
    rate = f"{name}, {in_flight:,} in flight"
    return [
        Row(rate, unit, ours.rates, theirs.rates, higher_is_better=True),
        *(
            Row(f"{name}, 1 in flight, {which}", "us", mine, other, higher_is_better=False)
            for which, mine, other in times
        ),
    ]


def part_of(name: str, unit: str, part: list[float], whole: list[float], aim: Aim) -> Row:
    """A figure of one level as a part of that of another one, round by round."""
    ratios = [one / other for one, other in zip(part, whole, strict=True)]
    return Row(name, unit, ratios, (), higher_is_better=aim.ours_min is not None, aim=aim)


def place(cluster: ReplicaCluster, name: str, subject: str, **config: object) -> Member:
    """Create a stream on a subject. Returns its leader."""
    cluster.create({"name": name, "subjects": [subject], **config})
    return cluster.leader(name)


# --- publishing ----------------------------------------------------------------------------------


def writes(settings: Settings) -> list[Row]:
    """Publishes at each level: the rate, and the time of one at a time."""
    found: dict[tuple[str, int], Series] = {}
    with ExitStack() as stack:
        kinds = (settings.ours, NATS_SERVER)
        clusters = {
            (is_synced, side): stack.enter_context(replica_cluster(kind, is_synced))
            for is_synced in (False, True)
            for side, kind in enumerate(kinds)
        }
        seats = [
            (level, side, place_writes(clusters[level.sync_always, side], level))
            for level in WRITE_LEVELS
            for side, kind in enumerate(kinds)
            if kind != NATS_SERVER or not level.is_own
        ]
        for number in range(settings.rounds):
            for level, side, leader in seats:
                series = found.setdefault((level.name, side), Series())
                series.add(*_write_round(settings, level, leader, number))
    rows = [
        row
        for level in WRITE_LEVELS
        if (level.name, 0) in found
        for row in rows_of(
            f"publish, {level.name}",
            "msg/s",
            1000,
            found[level.name, 0],
            found.get((level.name, 1), Series()),
        )
    ]
    if ("R3 eventual", 0) in found:
        eventual, alone = found["R3 eventual", 0], found["R1", 0]
        name = "publish, R3 eventual, 1 in flight, p50"
        rows.append(part_of(name, "of R1", eventual.p50s_us, alone.p50s_us, EVENTUAL_P50))
    return rows


def place_writes(cluster: ReplicaCluster, level: WriteLevel) -> Member:
    """Create the stream of a level. Returns its leader, which has taken a message."""
    subject = level.stream.lower()
    leader = place(cluster, level.stream, subject, num_replicas=level.replicas, **level.config)
    cluster.wait_until_heard(subject)
    return leader


def _write_round(
    settings: Settings, level: WriteLevel, leader: Member, number: int
) -> tuple[float, list[float]]:
    messages = max(int(level.messages * settings.round_s) // 1000, 1) * 1000
    publishing = Publishing(level.stream.lower(), 128, 1000)
    rate = publish_rate(leader.server, publishing, messages, MILLION + number * messages)
    return rate, publish_times_s(leader.server, publishing, max(settings.requests // 5, 200))


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadLevel:
    """A level of reads: the request, and the server that is asked."""

    name: str
    call: str
    leader: Member
    body: bytes = b""
    theirs: Member | None = None
    """The leader of nats-server's stream, if it has the level."""

    def round(self, settings: Settings, leader: Member) -> tuple[float, list[float]]:
        """The rate and the times of one round."""
        subject = f"$JS.API.{self.call}"
        reads = int(READS_PER_S * settings.round_s)
        rate = request_rate(leader.server, subject, self.body, reads, READS_AT_A_TIME)
        times = request_times_s(leader.server, subject, self.body, max(settings.requests, 200))
        return rate, times


def reads(settings: Settings) -> list[Row]:
    """The last message of a subject at each level: the rate, and the time of one at a time."""
    check_own(settings)
    found: dict[str, tuple[Series, Series]] = {}
    with ExitStack() as stack:
        levels = _read_levels(stack)
        for _ in range(settings.rounds):
            for level in levels:
                ours, theirs = found.setdefault(level.name, (Series(), Series()))
                ours.add(*level.round(settings, level.leader))
                if level.theirs is not None:
                    theirs.add(*level.round(settings, level.theirs))
    rows = [
        row
        for name, both in found.items()
        for row in rows_of(f"read, {name}", "req/s", READS_AT_A_TIME, *both)
    ]
    weak, leased = found["weak, by the leader"][0], found["linearizable, by lease"][0]
    for what, part, whole, aim in (
        ("100 in flight", leased.rates, weak.rates, READ_RATE),
        ("1 in flight, p50", leased.p50s_us, weak.p50s_us, READ_TIME),
    ):
        name = f"read, linearizable, by lease, {what}"
        rows.append(part_of(name, "of weak", part, whole, aim))
    return rows


def _read_levels(stack: ExitStack) -> list[ReadLevel]:
    """Clusters with a filled stream, and the requests to them."""
    ours = stack.enter_context(replica_cluster(HEADWATER))
    quorum = stack.enter_context(replica_cluster(HEADWATER, more="linearizable_reads: quorum"))
    theirs = stack.enter_context(replica_cluster(NATS_SERVER))
    leader, asked, other = [
        _filled(cluster, **config)
        for cluster, config in (
            (ours, {"read_consistency": "weak"}),
            (quorum, {"read_consistency": "weak"}),
            (theirs, {"allow_direct": True}),
        )
    ]
    mirror = {"name": MIRROR, "mirror": {"name": READS}, "num_replicas": REPLICAS}
    ours.create({**mirror, "read_consistency": "strong"})
    ours.info_when(ours.members[0], MIRROR, lambda info: info["state"]["messages"] == STORED)
    last = b'{"last_by_subj":"reads.7"}'
    direct = f"DIRECT.GET.{READS}.reads.7"
    sure = f"DIRECT_LEADER.GET.{READS}.reads.7"
    session = b'{"min_last_seq":%d}' % STORED
    return [
        ReadLevel("leader get", f"STREAM.MSG.GET.{READS}", leader, last, other),
        ReadLevel("weak, by the leader", direct, leader, theirs=other),
        ReadLevel("weak, by a follower", direct, ours.others(leader)[0]),
        ReadLevel("session, by the leader", direct, leader, session),
        ReadLevel("linearizable, by lease", sure, leader),
        ReadLevel("linearizable, by quorum", sure, asked),
        ReadLevel("sequential mirror", f"DIRECT.GET.{MIRROR}.reads.7", ours.leader(MIRROR)),
    ]


def _filled(cluster: ReplicaCluster, **config: object) -> Member:
    leader = place(cluster, READS, "reads.>", num_replicas=REPLICAS, **config)
    cluster.wait_until_heard("reads.0")
    ask(leader.server, f"STREAM.PURGE.{READS}", b"")
    publish_rate(leader.server, Publishing("reads.{}", 128, 1000, SUBJECTS), STORED)
    return cluster.leader(READS)


# --- leases --------------------------------------------------------------------------------------


def idle_leases(settings: Settings) -> list[Row]:
    """Processor time of servers whose many streams are idle and leased."""
    check_own(settings)
    streams = IDLE_STREAMS if settings.round_s >= 1 else IDLE_STREAMS // 10
    shares = []
    for kind, config in ((HEADWATER, {"read_consistency": "weak"}), (NATS_SERVER, {})):
        with replica_cluster(kind) as cluster:
            make_many(cluster, streams, **config)
            time.sleep(SETTLE_S)
            shares.append(usage(cluster, streams, 0)[0])
    return [
        Row(
            f"{streams:,} leased R3 streams, idle: processor time of a server",
            "% of a core",
            [shares[0]],
            [shares[1]],
            higher_is_better=False,
            aim=LEASED_IDLE,
            notes=["nats-server has as many streams, which have no leases"],
        )
    ]


def gaps(settings: Settings) -> list[Row]:
    """The longest time without a linearizable read after a crash and after a hand-over."""
    check_own(settings)
    rows = []
    for name, has_crash in (("kill -9 of the leader", True), ("an orderly hand-over", False)):
        times_ms = [_gap_s(has_crash) * 1e3 for _ in range(settings.rounds)]
        what = f"no linearizable read after {name}"
        rows.append(Row(what, "ms", times_ms, (), higher_is_better=False))
    return rows


def _gap_s(has_crash: bool) -> float:
    with replica_cluster(HEADWATER) as cluster:
        leader = _filled(cluster, read_consistency="weak")
        rest = cluster.others(leader)[0]

        def act() -> None:
            if has_crash:
                os.kill(leader.server.pid, signal.SIGKILL)
            else:
                ask(rest.server, f"STREAM.LEADER.STEPDOWN.{READS}", b"")

        return longest_gap_s(rest, f"DIRECT_LEADER.GET.{READS}.reads.7", act)


def longest_gap_s(member: Member, call: str, act: Callable[[], None]) -> float:
    """The longest time between two answered reads, around `act` and for a while after it."""
    line = f"PUB $JS.API.{call} _INBOX.gap.0 0\r\n\r\n".encode()
    thread = threading.Thread(target=act)
    with dial(member.server.port, b"SUB _INBOX.gap.* 1\r\n") as connection:
        connection.settimeout(ANSWER_S)
        last = longest = 0.0
        end = time.monotonic() + WATCH_S
        while (now := time.monotonic()) < end:
            connection.sendall(line)
            answer = b""
            with suppress(TimeoutError):
                answer = connection.recv(READ_BYTES)
            if ANSWERED not in answer:
                time.sleep(GAP_LOOK_S)
                continue
            longest = max(longest, now - last) if last else 0.0
            if not last:
                end = time.monotonic() + WATCH_S
                thread.start()
            last = now
    thread.join()
    if not last or end - last > 1.0:
        raise BenchmarkError("linearizable reads did not go on")
    return longest


def check_own(settings: Settings) -> None:
    """Raise BenchmarkError in a comparison of nats-server with itself."""
    if settings.ours == NATS_SERVER:
        raise BenchmarkError("nats-server has no such levels")


def levels(settings: Settings) -> list[Row]:
    """All parts, one after the other."""
    parts = (writes, reads, idle_leases, gaps)
    return [row for part in parts for row in part(settings)]


LEVEL_SCENARIOS: Final[dict[str, Scenario]] = {
    "levels": levels,
    "levels-writes": writes,
    "levels-reads": reads,
    "levels-idle": idle_leases,
    "levels-gaps": gaps,
}
