"""A stream of three replicas whose leader is lost in mid-read and mid-write: all is there once."""

import itertools
from collections.abc import Iterator

import pytest

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.client.link.reads.fetch import SequenceRange, Way, read_range
from headwater.client.link.reads.ranges import CHUNK_ROWS
from headwater.spark.rows import Rows
from headwater.spark.write.partition_write import Links, Step, Work, write_exactly_once
from tests.kit.replicas import COUNT, Replicas, replicas

MARKERS = "KV_markers"
MESSAGES = 3 * CHUNK_ROWS + 17
ROWS = 6000
WINDOW_NS = 10**9

_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with replicas(tmp_path_factory.mktemp("replicas")) as running:
        running.create_stream("READ")
        messages = [(f"READ.{number % 7}", b"%d" % number) for number in range(MESSAGES)]
        assert running.ask(lambda server: server.publish(messages)) == MESSAGES
        running.ask(lambda server: server.create_bucket("markers", num_replicas=COUNT))
        yield running


@pytest.fixture
def login(cluster: Replicas) -> Login:
    return Login(url=cluster.url, retries=20)


@pytest.mark.parametrize("way", [Way.CONSUMER, Way.DIRECT, Way.GETS])
def test_a_read_goes_on_when_the_leader_is_lost(cluster: Replicas, login: Login, way: Way) -> None:
    found: list[tuple[int, bytes]] = []
    with Connection(login) as connection:
        info = ApiClient(connection).stream_info("READ")
        for chunk in read_range(connection, info, SequenceRange(1, MESSAGES), (), way):
            if not found:
                cluster.kill_leader("READ")
            found += zip(chunk.sequences, chunk.payloads, strict=True)
    assert found == [(number + 1, b"%d" % number) for number in range(MESSAGES)]
    cluster.heal("READ")


@pytest.mark.parametrize(
    ("step", "nth", "of_markers"),
    [(Step.CLAIMED, 1, False), (Step.SENT, 2, False), (Step.SENT, 3, True)],
)
def test_each_row_is_written_once_when_a_leader_is_lost(
    cluster: Replicas, login: Login, step: Step, nth: int, of_markers: bool
) -> None:
    stream = f"WRITTEN-{next(_numbers)}"
    cluster.create_stream(stream, duplicate_window=WINDOW_NS)
    victim = MARKERS if of_markers else stream
    left = itertools.count(nth - 1, -1)

    def watch(reached: Step) -> None:
        if reached is step and next(left) == 0:
            cluster.kill_leader(victim)

    with Connection(login) as asking, Connection(login) as publishing:
        links, work = Links(asking, publishing), Work(stream, stream, 0, 0, in_flight_max=1000)
        assert write_exactly_once(links, work, "markers", rows(stream), watch).rows == ROWS
    cluster.heal(stream)
    cluster.heal(MARKERS)
    stored = cluster.ask(lambda server: server.stored(stream))
    assert sorted(int(each.data) for each in stored) == [*range(ROWS)]


def rows(stream: str) -> Iterator[Rows]:
    """The payload of each is its number."""
    for begin in range(0, ROWS, 700):
        payloads = [b"%d" % number for number in range(begin, min(begin + 700, ROWS))]
        count = len(payloads)
        yield Rows([f"{stream}.a".encode()] * count, [b""] * count, payloads, None)
