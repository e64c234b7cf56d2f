"""Rows that are too large with an id, and not without one: each is in the stream once.

The server takes small messages only, so that rows at the limit cost nothing.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.client.link.publisher import MessageRefusedError
from headwater.spark.rows import Rows
from headwater.spark.write.batch_commit import BatchCommit
from headwater.spark.write.markers import COMMITTED_BATCHES_MAX, query_marker
from headwater.spark.write.partition_write import (
    Links,
    Step,
    Watch,
    Work,
    Written,
    unwatched,
    write_at_least_once,
    write_exactly_once,
)
from tests.kit.stream_servers import KINDS, Server

BYTES_MAX = 4096
STREAM = "LOG"
SUBJECT = b"LOG.a"
BUCKET = "markers"
WINDOW_NS = 100_000_000
LINES = b"Colour: red\r\n"
# Small ones, the largest there are, one with headers of its own, and two that are equal.
PAYLOADS = [
    b"0",
    b"1".ljust(BYTES_MAX),
    b"2",
    b"3".ljust(BYTES_MAX - len(b"NATS/1.0\r\n" + LINES + b"\r\n")),
    b"4".ljust(BYTES_MAX - 1),
    b"5",
    b"6".ljust(BYTES_MAX),
    b"6".ljust(BYTES_MAX),
    b"7",
]
WITH_LINES = 3


class Stopped(Exception):
    """An attempt ends here, as if its process had been killed."""


@pytest.fixture(scope="module", params=KINDS)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("large") / "server"
    server = Server(request.param, place, config=f"max_payload: {BYTES_MAX}\n")
    server.create_bucket(BUCKET)
    yield server
    server.stop()


_numbers = itertools.count()


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    yield shared
    shared.purge(STREAM)
    shared.delete_stream(STREAM)


@contextmanager
def links(server: Server) -> Iterator[Links]:
    login = Login(url=server.url, retries=20)
    with Connection(login) as asking, Connection(login) as publishing:
        yield Links(asking, publishing)


@pytest.fixture
def work() -> Work:
    return Work(STREAM, f"{next(_numbers):016x}", 7, 0)


def rows() -> Rows:
    lines = [LINES if at == WITH_LINES else b"" for at in range(len(PAYLOADS))]
    return Rows([SUBJECT] * len(PAYLOADS), lines, PAYLOADS, None)


def write(server: Server, work: Work, watch: Watch = unwatched) -> Written:
    with links(server) as ends:
        return write_exactly_once(ends, work, BUCKET, iter([rows()]), watch)


def stop_at(step: Step, nth: int) -> Watch:
    left = itertools.count(nth - 1, -1)

    def watch(reached: Step) -> None:
        if reached is step and next(left) == 0:
            raise Stopped

    return watch


def check(server: Server, in_order: bool = True) -> None:
    stored = [each for each in server.stored(STREAM) if each.subject == SUBJECT.decode()]
    payloads = [each.data for each in stored]
    assert Counter(payloads) == Counter(PAYLOADS)
    assert not in_order or payloads == PAYLOADS
    (lined,) = [each.header for each in stored if each.data == PAYLOADS[WITH_LINES]]
    assert lined == b"NATS/1.0\r\n%b\r\n" % LINES


@pytest.mark.parametrize("atomic", [False, True])
def test_rows_at_the_limit_are_written_in_their_order(
    server: Server, work: Work, atomic: bool
) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS, allow_atomic=atomic)
    chosen = Work(STREAM, work.query, 7, 0, atomic=atomic)
    assert write(server, chosen).written == len(PAYLOADS)
    check(server)


@pytest.mark.parametrize("step", [Step.SENDING, Step.SENT])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6, 7, 8])
def test_wherever_an_attempt_ends_the_next_one_completes_it(
    server: Server, work: Work, step: Step, nth: int
) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    with pytest.raises(Stopped):
        write(server, work, stop_at(step, nth))
    server.forget_ids(STREAM)
    write(server, work)
    check(server, in_order=False)


@pytest.mark.parametrize("nth", [2, 4])
def test_a_server_that_crashes_under_such_a_row_is_waited_for(
    server: Server, work: Work, nth: int
) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    left = itertools.count(nth - 1, -1)

    def watch(reached: Step) -> None:
        if reached is Step.SENT and next(left) == 0:
            server.kill()
            server.start()

    write(server, work, watch)
    check(server, in_order=False)


def test_the_limit_of_the_stream_counts_too(server: Server, work: Work) -> None:
    server.create_stream(STREAM, max_msg_size=100)
    limited = Work(STREAM, work.query, 7, 0, message_bytes_max=100)
    given = Rows([SUBJECT] * 2, [b""] * 2, [b"x" * 100, b"y"], None)
    with links(server) as ends:
        write_exactly_once(ends, limited, BUCKET, iter([given]))
    assert [each.data for each in server.stored(STREAM)] == [b"x" * 100, b"y"]


def test_markers_of_many_batches_fit_too(server: Server, work: Work) -> None:
    server.create_stream(STREAM)
    with links(server) as ends:
        commit = BatchCommit(ends, BUCKET, STREAM, work.query)
        done = [Written(2**40, 0, content_sum=2**96 - 2)]
        for batch in range(COMMITTED_BATCHES_MAX):
            commit.put(2**40 + batch, done, "f" * 24)
        marker, _ = query_marker(ApiClient(ends.asking), BUCKET, work.query)
    assert marker.batch == 2**40 + COMMITTED_BATCHES_MAX - 1
    assert len(marker.committed) == BYTES_MAX // 2 // 128


def test_a_batch_write_needs_no_id_either(server: Server, work: Work) -> None:
    server.create_stream(STREAM)
    with links(server) as ends:
        write_at_least_once(ends, work, iter([rows()]))
    check(server)


def test_an_id_that_a_row_brings_is_not_left_out(server: Server, work: Work) -> None:
    server.create_stream(STREAM)
    given = Rows([SUBJECT], [b""], [b"x" * BYTES_MAX], [b"mine"])
    with links(server) as ends, pytest.raises(MessageRefusedError, match=r"row 0 .*max_payload"):
        write_exactly_once(ends, work, BUCKET, iter([given]))


def test_one_byte_more_is_refused_by_name(server: Server, work: Work) -> None:
    server.create_stream(STREAM)
    given = Rows([SUBJECT] * 2, [b""] * 2, [b"x", b"y" * (BYTES_MAX + 1)], None)
    with links(server) as ends, pytest.raises(MessageRefusedError, match=r"row 1 .*max_payload"):
        write_exactly_once(ends, work, BUCKET, iter([given]))
