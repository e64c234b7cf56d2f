"""A range read yields each message of the range that exists and matches, in order, once."""

import itertools
import random
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import ApiRefusedError
from headwater.client.link.login import Login
from headwater.client.link.reads.consumer_reads import (
    LOOKS_IN_VAIN_MAX,
    ConsumerReader,
    _Pulls,
    _PullSize,
)
from headwater.client.link.reads.fetch import (
    ReadLevel,
    ReadLevelError,
    SequenceRange,
    StreamReplacedError,
    Way,
    choose_way,
    read_range,
)
from headwater.client.link.reads.patterns import Patterns
from headwater.client.link.reads.ranges import CHUNK_BYTES, CHUNK_ROWS, Columns, IncompleteError
from headwater.go.times import format_time
from headwater.subjects.grammar import matches
from tests.kit.stream_servers import KINDS, Message, Server, Stored, header_block

_NUMBERS = itertools.count(1)
WAYS = (Way.CONSUMER, Way.DIRECT, Way.GETS)
KIB = 1 << 10
MIB = 1 << 20

Chunks = Generator[Columns, None, None]


@pytest.fixture(scope="module", params=KINDS)
def shared_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    server = Server(request.param, tmp_path_factory.mktemp("server"), "max_payload: 3MB\n")
    yield server
    server.stop()


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    yield shared_server
    for name in shared_server.call("STREAM.NAMES").get("streams") or []:
        shared_server.delete_stream(name)


class Log:
    """A stream of a name that no other test has used, and a connection to read it over."""

    def __init__(self, server: Server, connection: Connection) -> None:
        self.server = server
        self.connection = connection
        # nats-server may still find messages of a stream of this name that was just deleted.
        self.name = f"LOG{next(_NUMBERS)}"

    def create(self, **config: object) -> None:
        self.server.create_stream(self.name, "LOG.>", **config)

    def info(self) -> StreamInfo:
        return ApiClient(self.connection).stream_info(self.name)

    def stored(self) -> list[Stored]:
        return self.server.stored(self.name)

    def consumers(self) -> int:
        return int(self.server.state(self.name)["consumer_count"])

    def add_durable(self) -> None:
        """A consumer that is not ours."""
        config = {"durable_name": "mine", "ack_policy": "explicit"}
        document = {"stream_name": self.name, "config": config}
        self.server.call(f"CONSUMER.CREATE.{self.name}.mine", document)

    def read(
        self,
        first: int = 1,
        last: int = 1 << 62,
        subjects: tuple[str, ...] = (),
        way: Way | None = None,
        info: StreamInfo | None = None,
        headers_only: bool = False,
    ) -> list[Stored]:
        wanted = SequenceRange(first, last)
        chunks = [
            *read_range(
                self.connection,
                info or self.info(),
                wanted,
                subjects,
                way,
                headers_only=headers_only,
            )
        ]
        assert all(len(chunk) for chunk in chunks), "an empty chunk says nothing"
        return [message for chunk in chunks for message in rows(chunk)]


@pytest.fixture
def log(server: Server) -> Iterator[Log]:
    with Connection(Login(url=server.url, request_timeout_s=5.0)) as connection:
        yield Log(server, connection)


def rows(chunk: Columns) -> list[Stored]:
    return [
        Stored(sequence, subject.decode(), payload, header, format_time(time_ns))
        for sequence, subject, payload, header, time_ns in zip(
            chunk.sequences,
            chunk.subjects,
            chunk.payloads,
            chunk.headers,
            chunk.timestamps_ns,
            strict=True,
        )
    ]


def in_range(
    messages: list[Stored], first: int, last: int, subjects: tuple[str, ...] = ()
) -> list[Stored]:
    return [
        message
        for message in messages
        if first <= message.sequence <= last
        and (
            not subjects
            or any(matches(each.encode(), message.subject.encode()) for each in subjects)
        )
    ]


def numbered(count: int, subjects: int = 1, size: int = 0) -> Iterator[Message]:
    for number in range(count):
        data = (b"%d" % number).ljust(size, b"\0")
        yield Message(f"LOG.{number % subjects}.{number % 3}", data)


# --- yielded messages -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_headers_payloads_and_times_are_those_stored(log: Log, way: Way) -> None:
    log.create()
    blocks = [
        b"",
        header_block({"A": ["1"]}),
        header_block({"A": ["1", "2"], "Empty": [""], "b": ["ü"]}),
        # Lines as servers add them when they answer.
        header_block({"Nats-Stream": [log.name], "Nats-Subject": ["x"], "Nats-Sequence": ["9"]}),
        header_block({"Nats-Num-Pending": ["7"], "Nats-Last-Sequence": ["8"]}),
        header_block({"Nats-Msg-Size": ["3"]}),
        b"NATS/1.0\r\nno colon\r\nA:1\r\n  folded\r\n\r\n",
    ]
    payloads = [b"", b"x", b"\r\n", b"MSG a 1 2\r\n", bytes(range(256)), b"\0" * (70 * KIB)]
    log.server.publish(
        Message(f"LOG.{number}", payload, block)
        for number, (block, payload) in enumerate(itertools.product(blocks, payloads))
    )
    assert log.read(way=way) == log.stored()


@pytest.mark.parametrize("way", WAYS)
def test_a_header_block_that_says_nothing_is_none(log: Log, way: Way) -> None:
    log.create()
    log.server.publish([Message("LOG.a", b"1", b"NATS/1.0\r\n\r\n"), Message("LOG.a", b"2")])
    assert [message.header for message in log.read(way=way)] == [b"", b""]


@pytest.mark.parametrize("way", WAYS)
def test_a_range_is_cut_at_both_ends(log: Log, way: Way) -> None:
    log.create()
    log.server.publish(numbered(40))
    for first, last in (
        *((1, 40), (1, 1), (40, 40), (7, 9), (0, 5), (12, 30)),
        *((35, 99), (41, 50), (9, 8), (60, 70), (-3, 0)),
    ):
        found = [message.sequence for message in log.read(first, last, way=way)]
        assert found == [*range(max(first, 1), min(last, 40) + 1)]


@pytest.mark.parametrize("subjects", [(), ("LOG.a",), ("LOG.a", "LOG.b")])
@pytest.mark.parametrize("way", WAYS)
def test_an_open_range_gives_what_has_moved_behind_it(
    log: Log, way: Way, subjects: tuple[str, ...]
) -> None:
    log.create(max_msgs_per_subject=1)
    log.server.publish([Message("LOG.a"), Message("LOG.c"), Message("LOG.a"), Message("LOG.c")])

    def found(first: int, last: int) -> list[int]:
        wanted = SequenceRange(first, last, is_open=True)
        chunks = read_range(log.connection, log.info(), wanted, subjects, way)
        return [sequence for chunk in chunks for sequence in chunk.sequences]

    # Both messages of the range were replaced since it was chosen.
    assert found(1, 2)[:1] == [3]
    assert found(4, 4) == ([] if subjects else [4])
    assert found(5, 4) == []


@contextmanager
def replacing(server: Server, subjects: list[str]) -> Iterator[None]:
    """Publishes to the same subjects over and over, as fast as the server takes it."""
    stopped = threading.Event()

    def replace_all() -> None:
        with server.publishing() as publish:
            while not stopped.is_set():
                publish([Message(subject) for subject in subjects])

    thread = threading.Thread(target=replace_all)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@pytest.mark.parametrize("way", WAYS)
def test_an_open_range_is_never_empty_where_messages_are_replaced(log: Log, way: Way) -> None:
    log.create(max_msgs_per_subject=1)
    subjects = [f"LOG.{number}" for number in range(10)]
    log.server.publish([Message(subject) for subject in subjects])
    with replacing(log.server, subjects):
        for _ in range(50):
            info = log.info()
            wanted = SequenceRange(info.last_seq, info.last_seq, is_open=True)
            assert [*read_range(log.connection, info, wanted, (), way)]


@pytest.mark.parametrize("looks", [1, LOOKS_IN_VAIN_MAX - 1])
def test_a_consumer_that_counts_messages_and_sends_none_is_made_anew(
    log: Log, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create()
    log.server.publish(numbered(3))
    silence(looks, monkeypatch)
    assert [message.sequence for message in log.read(way=Way.CONSUMER)] == [1, 2, 3]


def test_messages_that_are_counted_and_never_sent_are_not_passed_over(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create()
    log.server.publish(numbered(3))
    silence(LOOKS_IN_VAIN_MAX, monkeypatch)
    reader = ConsumerReader(log.connection, log.info(), Patterns(()), headers_only=False)
    with pytest.raises(IncompleteError, match="3 messages are pending from sequence 1 on"):
        [*reader.read(SequenceRange(1, 3), 3)]


def silence(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first consumers get the answer that there is no message, as nats-server may say."""
    read = _Pulls.read
    left = [looks]

    def read_later(self: _Pulls, size: _PullSize) -> Chunks:
        left[0] -= 1
        if left[0] < 0:
            yield from read(self, size)

    monkeypatch.setattr(_Pulls, "read", read_later)


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_stream_yields_nothing(log: Log, way: Way) -> None:
    log.create()
    assert log.read(way=way) == []
    log.server.publish(numbered(10))
    log.server.purge(log.name)
    assert log.read(1, 10, way=way) == []


@pytest.mark.parametrize("way", WAYS)
def test_deleted_messages_leave_gaps(log: Log, way: Way) -> None:
    log.create()
    log.server.publish(numbered(300))
    for gone in (1, 2, 5, *range(100, 180), 299, 300):
        log.server.delete_message(log.name, gone)
    stored = log.stored()
    assert len(stored) == 215
    for first, last in ((1, 300), (1, 2), (3, 5), (100, 150), (150, 190), (298, 300), (299, 300)):
        assert log.read(first, last, way=way) == in_range(stored, first, last)


FILTERS = [
    ("LOG.0.0",),
    ("LOG.0.*",),
    ("LOG.>",),
    (">",),
    ("LOG.1.1", "LOG.2.2", "LOG.3.0"),
    ("LOG.1.*", "LOG.*.1"),
    ("LOG.1.1", "LOG.1.*", "LOG.1.1"),
    ("LOG.nobody",),
    ("LOG.nobody", "LOG.4.1"),
    ("elsewhere.>",),
    tuple(f"LOG.{number}.{number % 3}" for number in range(300)),
]


@pytest.mark.parametrize("way", WAYS)
def test_messages_match_one_of_the_filters(log: Log, way: Way) -> None:
    log.create()
    log.server.publish(numbered(400, subjects=5))
    for gone in (3, 4, 190, 400):
        log.server.delete_message(log.name, gone)
    stored = log.stored()
    ranges = [(1, 400), (1, 200), (201, 400), (150, 160), (398, 400)]
    for subjects, (first, last) in itertools.product(FILTERS, ranges):
        expected = in_range(stored, first, last, subjects)
        assert log.read(first, last, subjects, way) == expected, (subjects, first, last)
    assert log.consumers() == 0


@pytest.mark.parametrize("way", [Way.CONSUMER, Way.DIRECT])
def test_long_ranges_come_in_chunks_of_a_good_size(log: Log, way: Way) -> None:
    log.create()
    count = 3 * CHUNK_ROWS + 17
    log.server.publish(numbered(count, subjects=1000))
    info = log.info()
    chunks = [*read_range(log.connection, info, SequenceRange(1, count), (), way)]
    assert len(chunks) <= 8
    assert [each for chunk in chunks for each in chunk.sequences] == [*range(1, count + 1)]
    payloads = [each for chunk in chunks for each in chunk.payloads]
    assert payloads == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("way", WAYS)
def test_messages_of_any_size_come_and_chunks_stay_small(log: Log, way: Way) -> None:
    log.create()
    largest = 3 * 1000 * 1000 - KIB
    rng = random.Random(6)
    sizes = [0] * 600 + [largest] * 8 + [100] * 50 + [MIB] * 9
    sizes += [rng.choice((0, 10, KIB, 300 * KIB)) for _ in range(80)] + [largest, 1]
    for begin in range(0, len(sizes), 100):
        log.server.publish(Message("LOG.a", b"x" * size) for size in sizes[begin : begin + 100])
    info = log.info()
    chunks = [*read_range(log.connection, info, SequenceRange(1, len(sizes)), (), way)]
    assert [len(payload) for chunk in chunks for payload in chunk.payloads] == sizes
    assert max(sum(map(len, chunk.payloads)) for chunk in chunks) <= CHUNK_BYTES + 4 * largest


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [3, 5000])
def test_headers_only(log: Log, way: Way, size: int) -> None:
    log.create()
    blocks = [b"", header_block({"A": ["1"]}), header_block({"Nats-Msg-Size": ["3"], "B": ["2"]})]
    log.server.publish(Message("LOG.a", b"x" * size, block) for block in blocks)
    found = log.read(way=way, headers_only=True)
    assert [message.header for message in found] == blocks
    assert [message.data for message in found] == [b""] * 3


def test_what_comes_after_the_read_began_is_not_waited_for(log: Log) -> None:
    log.create()
    log.server.publish(numbered(CHUNK_ROWS + 100))
    info = log.info()
    found: list[int] = []
    for chunk in read_range(log.connection, info, SequenceRange(1, 1 << 62)):
        if not found:
            log.server.publish(numbered(10))
        found += chunk.sequences
    assert found == [*range(1, CHUNK_ROWS + 101)]


# --- changes during a read ------------------------------------------------------------------------


@pytest.mark.parametrize("way", [Way.CONSUMER, Way.DIRECT])
@pytest.mark.parametrize("kept", [0, 1, 500])
def test_a_purge_while_reading_shortens_the_read(log: Log, way: Way, kept: int) -> None:
    log.create()
    count = 6 * CHUNK_ROWS
    log.server.publish(numbered(count, size=100))
    info = log.info()
    found: list[int] = []
    for chunk in read_range(log.connection, info, SequenceRange(1, count), (), way):
        if not found:
            log.server.purge(log.name, keep=kept)
        found += chunk.sequences
    assert found == sorted(set(found))
    assert found[:CHUNK_ROWS] == [*range(1, CHUNK_ROWS + 1)]
    assert set(range(count - kept + 1, count + 1)) <= set(found)
    assert log.consumers() == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_made_again_is_another_stream(log: Log, way: Way) -> None:
    log.create()
    log.server.publish(numbered(5))
    info = log.info()
    log.server.delete_stream(log.name)
    with pytest.raises(ApiRefusedError, match="stream not found"):
        log.read(info=info, way=way)
    log.create()
    log.server.publish(numbered(5))
    with pytest.raises(StreamReplacedError, match=f"stream {log.name} was deleted and made again"):
        log.read(info=info, way=way)


# --- leftovers ------------------------------------------------------------------------------------


def closed_early(chunks: Chunks) -> None:
    next(chunks)
    chunks.close()


def raised_in(chunks: Chunks) -> None:
    def fail(chunk: Columns) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        [*map(fail, chunks)]


def read_out(chunks: Chunks) -> None:
    for _ in chunks:
        pass


@pytest.mark.parametrize("end", [closed_early, raised_in, read_out])
@pytest.mark.parametrize("way", [Way.CONSUMER, Way.DIRECT])
def test_nothing_is_left_behind(log: Log, way: Way, end: Callable[[Chunks], None]) -> None:
    log.create()
    log.server.publish(numbered(5 * CHUNK_ROWS))
    info = log.info()
    chunks = read_range(log.connection, info, SequenceRange(1, 5 * CHUNK_ROWS), (), way)
    end(chunks)
    del chunks
    assert log.consumers() == 0
    assert len(log.connection.receive(0.0)) == 0, "what was under way is not for the next reader"
    assert len(log.read(1, 50, way=way)) == 50


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
@pytest.mark.parametrize("allow_direct", [True, False])
def test_a_stream_that_consumers_empty_never_has_one_of_ours(
    log: Log, retention: str, allow_direct: bool
) -> None:
    log.create(retention=retention, allow_direct=allow_direct)
    if retention == "interest":
        log.add_durable()
    log.server.publish(numbered(700, subjects=3))
    info = log.info()
    assert choose_way(info) is (Way.DIRECT if allow_direct else Way.GETS)
    stored = log.stored()
    advisories = log.connection.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.*.{log.name}.>")
    assert log.read() == stored
    assert log.read(5, 600, ("LOG.0.*",)) == in_range(stored, 5, 600, ("LOG.0.*",))
    assert advisories not in log.connection.receive(0.0).sids
    assert log.stored() == stored


def test_a_stream_that_takes_no_more_consumers_is_read_without_one(log: Log) -> None:
    log.create(max_consumers=1)
    log.add_durable()
    log.server.publish(numbered(50))
    assert log.read() == log.stored()


def test_a_stream_may_limit_how_long_consumers_stay(log: Log) -> None:
    limits = {"inactive_threshold": 1_000_000_000}
    log.create(consumer_limits=limits)
    log.server.publish(numbered(50))
    assert log.read(way=Way.CONSUMER) == log.stored()


# --- the choice of a way --------------------------------------------------------------------------


def test_a_stream_that_keeps_what_it_has_is_read_through_a_consumer(log: Log) -> None:
    log.create()
    assert choose_way(log.info()) is Way.CONSUMER


@pytest.mark.parametrize("level", [ReadLevel.WEAK, ReadLevel.SESSION, ReadLevel.LINEARIZABLE])
def test_levels_have_to_be_enabled(log: Log, level: ReadLevel) -> None:
    log.create(allow_direct=False)
    info = log.info()
    with pytest.raises(
        ReadLevelError, match=rf"^{level.value} reads are not enabled for this stream$"
    ):
        choose_way(info, (), level)


def test_a_linearizable_read_is_answered_by_the_leader(tmp_path: Path) -> None:
    server = Server("headwater", tmp_path / "server")
    try:
        with Connection(Login(url=server.url)) as connection:
            log = Log(server, connection)
            log.create(read_consistency="strong", allow_direct=False)
            server.publish(numbered(300, subjects=3))
            way = choose_way(log.info(), (), ReadLevel.LINEARIZABLE)
            assert way is Way.LEADER_DIRECT
            assert log.read(way=way) == log.stored()
    finally:
        server.stop()
