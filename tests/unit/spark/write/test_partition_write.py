"""Attempts to write a partition: however they end, each row is in the stream once.

The duplicate window is so short that message ids alone do not help: before an attempt is repeated,
the server has been seen to have forgotten the ids of the last one.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import LinkError
from headwater.client.link.login import Login
from headwater.client.link.publisher import FLIGHT_MESSAGES_MAX, MessageRefusedError
from headwater.spark.rows import Rows
from headwater.spark.write import markers
from headwater.spark.write.markers import CommittedBatch
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
from tests.kit.stream_servers import KINDS, Message, Server

STREAM = "LOG"
BUCKET = "markers"
# Several flights, and the last one is not full.
ROWS = 3 * FLIGHT_MESSAGES_MAX + 500
WINDOW_NS = 100_000_000


class Stopped(Exception):
    """An attempt ends here, as if its process had been killed."""


@pytest.fixture(scope="module", params=KINDS)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    server = Server(request.param, tmp_path_factory.mktemp("writes") / "server")
    yield server
    server.stop()


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    shared.create_bucket(BUCKET)
    yield shared
    for name in (f"KV_{BUCKET}", STREAM):
        # nats-server deletes files in its own time: a stream that is made again at once may find
        # the messages of the last one.
        shared.purge(name)
        shared.delete_stream(name)


@contextmanager
def links(server: Server, retries: int = 20) -> Iterator[Links]:
    login = Login(url=server.url, retries=retries)
    with Connection(login) as asking, Connection(login) as publishing:
        yield Links(asking, publishing)


def rows(
    count: int = ROWS, subject: Callable[[int], bytes] = lambda row: b"LOG.a"
) -> Iterator[Rows]:
    """Rows in pieces of an odd size; the payload of each is its number."""
    for begin in range(0, count, 700):
        numbers = range(begin, min(begin + 700, count))
        yield Rows(
            [subject(number) for number in numbers],
            [b""] * len(numbers),
            [b"%d" % number for number in numbers],
            None,
        )


def work(atomic: bool = False, batch: int = 7) -> Work:
    return Work(STREAM, "c126ec6a43854d87", batch, 0, in_flight_max=2000, atomic=atomic)


def write(
    server: Server,
    work: Work,
    watch: Watch = unwatched,
    given: Iterator[Rows] | None = None,
) -> Written:
    with links(server) as ends:
        return write_exactly_once(ends, work, BUCKET, given or rows(), watch)


def commit(server: Server) -> None:
    """Commit the batch, as the driver does when all partitions are written."""
    with links(server) as ends:
        record = CommittedBatch(work().batch, 1, ROWS, "")
        markers.commit(ApiClient(ends.asking), BUCKET, work().query, record)


def stop_at(step: Step, nth: int = 1) -> Watch:
    """A watch that raises Stopped when a step is reached for the n-th time."""
    left = itertools.count(nth - 1, -1)

    def watch(reached: Step) -> None:
        if reached is step and next(left) == 0:
            raise Stopped

    return watch


def forget_ids(server: Server) -> None:
    """Return when the server would store a message again whose id it knew when this was called."""
    number = itertools.count()
    probe = Message(f"{STREAM}.probe", b"", b"NATS/1.0\r\nNats-Msg-Id: probe\r\n\r\n")
    first = server.publish([probe])
    while server.publish([probe]) == first:
        assert next(number) < 10_000, "ids are never forgotten"


def payloads(server: Server) -> list[bytes]:
    return [each.data for each in server.stored(STREAM) if each.subject != f"{STREAM}.probe"]


ALL = [b"%d" % number for number in range(ROWS)]

STOPS = [
    (Step.STARTED, 1, False),
    (Step.CLAIMED, 1, False),
    (Step.SENDING, 1, False),
    (Step.SENDING, 5, False),
    (Step.SENT, 1, False),
    (Step.SENT, 5, False),
    (Step.SENT, 3, True),
    (Step.ACKNOWLEDGED, 1, True),
    (Step.DONE, 1, False),
]


@pytest.mark.parametrize(("step", "nth", "atomic"), STOPS)
def test_wherever_an_attempt_ends_the_next_one_completes_it(
    server: Server, step: Step, nth: int, atomic: bool
) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS, allow_atomic=atomic)
    with pytest.raises(Stopped):
        write(server, work(atomic), stop_at(step, nth))
    forget_ids(server)
    assert write(server, work(atomic)).rows == ROWS
    assert sorted(payloads(server), key=int) == ALL
    assert server.consumers(STREAM) == []


def test_an_attempt_that_ends_three_times_is_completed_by_the_fourth(server: Server) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    for nth in (1, 2, 3):
        with pytest.raises(Stopped):
            write(server, work(), stop_at(Step.SENT, nth))
        forget_ids(server)
    write(server, work())
    assert sorted(payloads(server), key=int) == ALL


def test_a_partition_that_is_written_again_finds_itself_complete(server: Server) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    first = write(server, work())
    assert (first.rows, first.written, first.is_replay) == (ROWS, ROWS, False)
    forget_ids(server)
    assert write(server, work()) == Written(ROWS, 0, first.content_sum, is_replay=True)
    assert payloads(server) == ALL


def test_an_attempt_whose_rows_ended_too_early_is_completed(server: Server) -> None:
    """Spark ends the rows without an error when something before the sink has failed."""
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    assert write(server, work(), given=itertools.islice(rows(), 2)).rows == 1400
    forget_ids(server)
    assert write(server, work()).written == ROWS - 1400
    assert payloads(server)[:1400] == ALL[:1400]
    assert sorted(payloads(server), key=int) == ALL


def test_a_committed_batch_is_not_looked_at(server: Server) -> None:
    server.create_stream(STREAM)
    first = write(server, work())
    commit(server)
    server.purge(STREAM)
    assert write(server, work()) == Written(ROWS, 0, first.content_sum, is_replay=True)
    assert payloads(server) == []


def test_the_same_rows_in_another_batch_are_other_rows(server: Server) -> None:
    server.create_stream(STREAM)
    write(server, work(batch=1))
    write(server, work(batch=2))
    assert payloads(server) == ALL * 2


def test_rows_in_another_order_are_the_same_rows(server: Server) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    with pytest.raises(Stopped):
        write(server, work(), stop_at(Step.SENT, 3))
    forget_ids(server)
    backwards = reversed([*rows()])
    write(server, work(), given=iter(backwards))
    assert sorted(payloads(server), key=int) == ALL


def test_equal_rows_are_all_written(server: Server) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)

    def equal_rows() -> Iterator[Rows]:
        for _ in range(4):
            yield Rows([b"LOG.a"] * 600, [b""] * 600, [b"same"] * 600, None)

    with pytest.raises(Stopped):
        write(server, work(), stop_at(Step.SENT, 2), equal_rows())
    forget_ids(server)
    write(server, work(), given=equal_rows())
    assert payloads(server) == [b"same"] * 2400


def test_rows_with_ids_of_their_own_are_found_by_them(server: Server) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    own = Work(STREAM, "c126ec6a43854d87", 7, 0, has_message_ids=True)

    def named_rows() -> Iterator[Rows]:
        for number, part in enumerate(rows()):
            part.message_ids = [b"mine-%d-%b" % (number, each) for each in part.payloads]
            part.message_ids[0] = None
            yield part

    with pytest.raises(Stopped):
        write(server, own, stop_at(Step.SENT, 3), named_rows())
    forget_ids(server)
    write(server, own, given=named_rows())
    assert sorted(payloads(server), key=int) == ALL


@pytest.mark.parametrize("atomic", [False, True])
def test_a_row_that_is_refused_is_named_and_the_rest_is_written_once(
    server: Server, atomic: bool
) -> None:
    config = {"duplicate_window": WINDOW_NS, "allow_atomic": atomic, "max_msg_size": 100}
    server.create_stream(STREAM, **config)

    def one_large(size: int) -> Iterator[Rows]:
        for number, part in enumerate(rows()):
            if number == 2:
                part.payloads[33] = part.payloads[33].ljust(size)
            yield part

    with pytest.raises(MessageRefusedError, match=r"row 1433 \(subject LOG.a\) was refused"):
        write(server, work(atomic), given=one_large(200))
    forget_ids(server)
    write(server, work(atomic), given=one_large(20))
    assert sorted(payloads(server), key=int) == sorted(
        [*ALL[:1433], b"1433".ljust(20), *ALL[1434:]], key=int
    )


# --- several attempts at once ------------------------------------------------------------------


class Zombie:
    """An attempt in a thread that stops at a step until it is woken."""

    def __init__(self, server: Server, work: Work, step: Step, nth: int) -> None:
        self._left = itertools.count(nth - 1, -1)
        self._step = step
        self._asleep = threading.Event()
        self._wake = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(server, work))
        self._thread.start()
        assert self._asleep.wait(30), self.error

    def _run(self, server: Server, work: Work) -> None:
        try:
            write(server, work, self._watch)
        except BaseException as error:
            self.error = error
            self._asleep.set()

    def _watch(self, reached: Step) -> None:
        if reached is self._step and next(self._left) == 0:
            self._asleep.set()
            assert self._wake.wait(60)

    def wake(self) -> None:
        self._wake.set()

    def close(self) -> None:
        """Wake it, and wait for its end."""
        self.wake()
        self._thread.join(60)
        assert not self._thread.is_alive()


# Asleep with the lease in hand, `Step.SENDING`, it may send one more flight when it wakes: within
# the window that is harmless, and after it nobody can help (`markers`). So it sleeps after sending.
@pytest.mark.parametrize(
    ("step", "nth"),
    [(Step.STARTED, 1), (Step.CLAIMED, 1), (Step.SENT, 1), (Step.SENT, 2), (Step.ACKNOWLEDGED, 1)],
)
def test_an_attempt_that_wakes_up_late_writes_nothing(server: Server, step: Step, nth: int) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS)
    with closing(Zombie(server, work(), step, nth)) as zombie:
        forget_ids(server)
        write(server, work())
        forget_ids(server)
        commit(server)
    assert zombie.error is None
    assert sorted(payloads(server), key=int) == ALL


@pytest.mark.parametrize("nth", [1, 2, 4])
def test_an_attempt_that_sends_while_another_does_is_deduplicated(server: Server, nth: int) -> None:
    """Within the window: the older attempt goes on at any point."""
    server.create_stream(STREAM, allow_atomic=True)
    with closing(Zombie(server, work(atomic=True), Step.SENDING, nth)) as zombie:
        with pytest.raises(Stopped):
            write(server, work(), stop_at(Step.SENT, 2))
        zombie.wake()
        write(server, work())
        commit(server)
    assert zombie.error is None
    assert sorted(payloads(server), key=int) == ALL


def test_attempts_at_the_same_time_write_each_row_once(server: Server) -> None:
    """The latest to begin writes, the others wait until the driver has heard of it and commits."""
    server.create_stream(STREAM)
    together = threading.Barrier(3)
    one_is_through = threading.Event()
    errors: list[BaseException] = []

    def watch(step: Step) -> None:
        if step is Step.STARTED:
            together.wait(30)

    def attempt() -> None:
        try:
            write(server, work(), watch)
        except BaseException as error:
            errors.append(error)
        one_is_through.set()

    attempts = [threading.Thread(target=attempt) for _ in range(3)]
    for each in attempts:
        each.start()
    assert one_is_through.wait(60)
    commit(server)
    for each in attempts:
        each.join(60)
    assert errors == []
    assert sorted(payloads(server), key=int) == ALL


# --- servers that go away ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "nth", "atomic"),
    [
        (Step.CLAIMED, 1, False),
        (Step.SENDING, 2, False),
        (Step.SENT, 4, False),
        (Step.SENT, 3, True),
        (Step.ACKNOWLEDGED, 1, False),
    ],
)
def test_a_server_that_crashes_in_mid_write_is_waited_for(
    server: Server, step: Step, nth: int, atomic: bool
) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS, allow_atomic=atomic)
    left = itertools.count(nth - 1, -1)

    def watch(reached: Step) -> None:
        if reached is step and next(left) == 0:
            server.kill()
            server.start()

    assert write(server, work(atomic), watch).rows == ROWS
    assert sorted(payloads(server), key=int) == ALL


def test_a_server_that_does_not_come_back_is_an_error_in_one_line(server: Server) -> None:
    server.create_stream(STREAM)

    def watch(reached: Step) -> None:
        if reached is Step.SENT:
            server.kill()

    try:
        with links(server, retries=1) as ends, pytest.raises(LinkError) as caught:
            write_exactly_once(ends, work(), BUCKET, rows(), watch)
        assert "\n" not in str(caught.value)
    finally:
        server.start()


# --- streams from which messages go ------------------------------------------------------------


def test_a_bucket_keeps_the_latest_value_of_each_key(server: Server) -> None:
    """Rows whose messages were replaced by later rows of the same key are not put again."""
    server.create_stream(STREAM, duplicate_window=WINDOW_NS, max_msgs_per_subject=1)

    def keyed() -> Iterator[Rows]:
        return rows(subject=lambda row: b"LOG.key-%d" % (row % 7))

    with pytest.raises(Stopped):
        write(server, work(), stop_at(Step.SENT, 4), keyed())
    forget_ids(server)
    before = server.state(STREAM)["last_seq"]
    done = write(server, work(), given=keyed())
    assert payloads(server) == ALL[-7:]
    assert done.written == server.state(STREAM)["last_seq"] - before < ROWS


def test_what_a_work_queue_still_holds_speaks_for_what_it_held(server: Server) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS, retention="workqueue")
    with pytest.raises(Stopped):
        write(server, work(), stop_at(Step.SENT, 4))
    forget_ids(server)
    found = [each for each in server.stored(STREAM) if each.subject == f"{STREAM}.a"]
    for each in found[:100]:
        server.delete_message(STREAM, each.sequence)
    write(server, work())
    assert sorted(payloads(server), key=int) == ALL[100:]
    assert server.consumers(STREAM) == []


def test_what_a_work_queue_has_given_away_is_known_by_count_and_digest(server: Server) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS, retention="workqueue")
    write(server, work(), given=itertools.islice(rows(), 3))
    forget_ids(server)
    server.purge(STREAM)
    write(server, work())
    assert payloads(server) == ALL[2100:]


def test_a_digest_of_other_rows_speaks_for_none(server: Server) -> None:
    server.create_stream(STREAM, duplicate_window=WINDOW_NS, retention="workqueue")
    write(server, work(), given=itertools.islice(rows(), 3))
    forget_ids(server)
    server.purge(STREAM)
    write(server, work(), given=iter([*rows()][::-1]))
    assert sorted(payloads(server), key=int) == ALL


# --- at least once -----------------------------------------------------------------------------


def test_at_least_once_is_once_within_the_window(server: Server) -> None:
    server.create_stream(STREAM)
    with links(server) as ends, pytest.raises(Stopped):
        write_at_least_once(ends, work(), rows(), stop_at(Step.SENT, 3))
    with links(server) as ends:
        write_at_least_once(ends, work(), rows())
    assert payloads(server) == ALL


def test_at_least_once_survives_a_crash_of_the_server(server: Server) -> None:
    server.create_stream(STREAM)
    left = itertools.count(2, -1)

    def watch(reached: Step) -> None:
        if reached is Step.SENT and next(left) == 0:
            server.kill()
            server.start()

    with links(server) as ends:
        write_at_least_once(ends, work(), rows(), watch)
    assert sorted(payloads(server), key=int) == ALL
