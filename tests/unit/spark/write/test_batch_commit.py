"""Batches that an earlier run has begun and cut in another way: each row is in the stream once.

The duplicate window is so short that message ids alone do not help.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.spark.rows import Rows
from headwater.spark.write import partition_write
from headwater.spark.write.batch_commit import BatchCommit, CopyGoneError
from headwater.spark.write.markers import ChangedBatchError
from headwater.spark.write.partition_write import (
    Links,
    RecutError,
    Step,
    Watch,
    Work,
    Written,
    unwatched,
    write_exactly_once,
)
from tests.kit.stream_servers import KINDS, Server

BUCKET = "markers"
BATCH = 7
ROWS = 400
# A partition is several flights.
IN_FLIGHT_MAX = 20
WINDOW_NS = 100_000_000
WAIT_S_MAX = 60

Payload = Callable[[int], bytes]
Deal = Callable[[int, int], range]


def in_turn(partition: int, cut: int) -> range:
    """The rows of a partition as Spark deals them out when it is told how many there are."""
    return range(partition, ROWS, cut)


def unevenly(partition: int, cut: int) -> range:
    """Each partition has half of what is left, the last one has all of it: ranges of a key."""
    begin = ROWS - (ROWS >> partition)
    return range(begin, ROWS if partition == cut - 1 else ROWS - (ROWS >> partition + 1))


def distinct(row: int) -> bytes:
    return b"%d" % row


def often_equal(row: int) -> bytes:
    return b"%d" % (row % 7)


def all_equal(row: int) -> bytes:
    return b"tick"


class Stopped(Exception):
    """An attempt ends here, as if its process had been killed."""


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    server = Server(request.param, tmp_path_factory.mktemp("commits") / "server")
    server.create_bucket(BUCKET)
    yield server
    server.stop()


_numbers = itertools.count()


class Log:
    """A stream, and a query that writes a batch to it in several runs."""

    def __init__(self, server: Server, links: Links, payload: Payload, **config: object) -> None:
        self.name = f"LOG-{next(_numbers)}"
        self._server = server
        self._links = links
        self._payload = payload
        self.deal: Deal = in_turn
        self._query = f"{next(_numbers):016x}"
        server.create_stream(self.name, **{"duplicate_window": WINDOW_NS, **config})

    def write(
        self,
        run: str,
        partition: int,
        cut: int,
        watch: Watch = unwatched,
        links: Links | None = None,
    ) -> Written:
        """Write one partition of the batch, which is divided into `cut` partitions."""
        payloads = [self._payload(number) for number in self.deal(partition, cut)]
        subject = f"{self.name}.a".encode()
        rows = Rows([subject] * len(payloads), [b"A: 1\r\n"] * len(payloads), payloads, None)
        work = Work(self.name, self._query, BATCH, partition, in_flight_max=IN_FLIGHT_MAX, run=run)
        return write_exactly_once(links or self._links, work, BUCKET, iter([rows]), watch)

    def run(self, run: str, cut: int) -> list[Written]:
        """Write all partitions, and commit them."""
        done = [self.write(run, partition, cut) for partition in range(cut)]
        self.commit(done)
        return done

    def commit(self, done: list[Written]) -> None:
        BatchCommit(self._links, BUCKET, self.name, self._query).put(BATCH, done)

    def stop(self, run: str, cut: int, partitions: int, sent: int) -> None:
        """A run that is killed when the first partitions have sent so many flights each."""
        for partition in range(partitions):
            with pytest.raises(Stopped):
                self.write(run, partition, cut, stop_after(sent))
        self._server.forget_ids(self.name)

    def payloads(self) -> Counter[bytes]:
        stored = self._server.stored(self.name)
        return Counter(each.data for each in stored if each.subject == f"{self.name}.a")

    def check(self) -> None:
        assert self.payloads() == Counter(self._payload(number) for number in range(ROWS))
        headers = [
            each.header
            for each in self._server.stored(self.name)
            if each.subject == f"{self.name}.a"
        ]
        assert all(b"\r\nA: 1\r\n" in header for header in headers)


def stop_after(sent: int) -> Watch:
    left = itertools.count(sent - 1, -1)

    def watch(step: Step) -> None:
        if step is Step.SENT and next(left) == 0:
            raise Stopped

    return watch


@pytest.fixture
def links(server: Server) -> Iterator[Links]:
    login = Login(url=server.url)
    with Connection(login) as asking, Connection(login) as publishing:
        yield Links(asking, publishing)


@pytest.mark.parametrize("payload", [distinct, often_equal, all_equal])
@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (3, 3), (4, 1)])
def test_a_batch_that_is_cut_anew_after_a_crash_has_each_row_once(
    server: Server, links: Links, payload: Payload, before: int, after: int
) -> None:
    log = Log(server, links, payload)
    log.stop("one", before, min(before, 3), sent=3)
    assert sum(log.payloads().values()) > 0
    log.run("two", after)
    log.check()


@pytest.mark.parametrize("payload", [distinct, often_equal, all_equal])
@pytest.mark.parametrize("deals", [(unevenly, unevenly), (unevenly, in_turn), (in_turn, unevenly)])
@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (4, 3)])
def test_partitions_that_were_finished_before_a_crash_may_be_cut_anew(
    server: Server,
    links: Links,
    payload: Payload,
    deals: tuple[Deal, Deal],
    before: int,
    after: int,
) -> None:
    log = Log(server, links, payload)
    log.deal = deals[0]
    # The last partition and every other one before it; the first is killed in the middle.
    for partition in range(before - 1, 0, -2):
        log.write("one", partition, before)
    log.stop("one", before, 1, sent=4)
    log.deal = deals[1]
    log.run("two", after)
    log.check()


def test_runs_may_cut_a_batch_anew_as_often_as_they_crash(server: Server, links: Links) -> None:
    log = Log(server, links, often_equal)
    log.stop("one", 2, 2, sent=2)
    log.stop("two", 5, 5, sent=1)
    log.stop("three", 3, 2, sent=2)
    log.run("four", 2)
    log.check()


class Survivor:
    """A task of a run whose driver is dead: it has sent some rows and goes on when it is told."""

    def __init__(self, server: Server, log: Log, partition: int, cut: int) -> None:
        self._server = server
        self._has_begun, self._may_go_on = threading.Event(), threading.Event()
        steps = itertools.count(1)

        def hold_up(step: Step) -> None:
            if step is Step.SENT and next(steps) == 2:
                self._has_begun.set()
                assert self._may_go_on.wait(WAIT_S_MAX)

        def write() -> None:
            with Connection(login) as asking, Connection(login) as publishing:
                log.write("one", partition, cut, hold_up, Links(asking, publishing))

        login = Login(url=server.url)
        self._thread = threading.Thread(target=write)
        self._thread.start()
        assert self._has_begun.wait(WAIT_S_MAX)

    def go_on(self) -> None:
        self._may_go_on.set()

    def end(self) -> None:
        self._thread.join(WAIT_S_MAX)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("moment", ["while it waits", "while it writes", "when it is through"])
def test_a_task_that_outlives_its_run_writes_nothing_beside_the_next_one(
    server: Server, links: Links, moment: str
) -> None:
    log = Log(server, links, distinct, duplicate_window=5 * WINDOW_NS)
    survivor = Survivor(server, log, partition=4, cut=5)

    def go_on(step: Step) -> None:
        if step is {"while it waits": Step.CLAIMED, "while it writes": Step.SENT}.get(moment):
            survivor.go_on()

    done = [log.write("two", partition, 2, go_on) for partition in range(2)]
    log.commit(done)
    server.forget_ids(log.name)
    survivor.go_on()
    survivor.end()
    log.check()


def test_a_commit_that_is_killed_is_done_again(server: Server, links: Links) -> None:
    log = Log(server, links, all_equal)
    log.stop("one", 2, 1, sent=2)
    done = [log.write("two", partition, 4) for partition in range(4)]
    assert any(each.moved.undecided for each in done)
    server.forget_ids(log.name)
    log.run("three", 3)
    log.check()
    log.run("three", 3)
    log.check()


def test_a_run_that_goes_on_as_the_one_before_leaves_nothing_to_the_driver(
    server: Server, links: Links
) -> None:
    log = Log(server, links, distinct)
    log.stop("one", 2, 2, sent=3)
    done = log.run("two", 2)
    assert [(each.moved.undecided, each.moved.left_over) for each in done] == [((), ())] * 2
    log.check()


def test_within_a_run_equal_rows_of_other_partitions_are_not_asked_about(
    server: Server, links: Links
) -> None:
    log = Log(server, links, all_equal)
    done = [log.write("one", partition, 4) for partition in range(4)]
    assert not any(each.moved.undecided for each in done)
    log.commit(done)
    log.check()


def test_the_cut_of_a_committed_batch_does_not_matter(server: Server, links: Links) -> None:
    log = Log(server, links, often_equal)
    log.run("one", 2)
    server.forget_ids(log.name)
    log.run("two", 5)
    log.check()


def test_rows_of_a_committed_batch_do(server: Server, links: Links) -> None:
    log = Log(server, links, distinct)
    log.run("one", 2)
    with pytest.raises(ChangedBatchError, match="batch 7 is not the one"):
        log.commit([log.write("two", partition, 3) for partition in range(2)])


def test_atomic_batches_are_copied_without_their_batch(server: Server, links: Links) -> None:
    log = Log(server, links, all_equal, allow_atomic=True)
    log.stop("one", 2, 1, sent=3)
    log.run("two", 3)
    log.check()


def test_a_row_whose_equal_is_gone_cannot_be_copied(server: Server, links: Links) -> None:
    log = Log(server, links, all_equal)
    log.stop("one", 2, 1, sent=2)
    done = [log.write("two", partition, 3) for partition in range(1, 3)]
    server.purge(log.name)
    with pytest.raises(CopyGoneError, match="go back to the number of partitions"):
        log.commit([Written(0, 0), *done])


def test_more_rows_than_the_driver_can_hear_of_are_refused_by_name(
    server: Server, links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(server, links, distinct)
    log.stop("one", 2, 2, sent=3)
    moved = len(log.write("two", 1, 5).moved.undecided)
    assert moved > 1
    monkeypatch.setattr(partition_write, "UNDECIDED_ROWS_MAX", moved)
    log.write("two", 1, 5)
    monkeypatch.setattr(partition_write, "UNDECIDED_ROWS_MAX", moved - 1)
    with pytest.raises(RecutError, match="begun batch 7 with other partitions"):
        log.write("two", 1, 5)
