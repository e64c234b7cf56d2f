"""The end of a stream, as a read of each level sees it."""

import itertools
import pickle
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import LinkError, NoRespondersError
from headwater.client.link.login import Login
from headwater.client.link.reads.fetch import SequenceRange, Way, choose_way, read_range
from headwater.client.link.reads.levels import (
    NOT_ENABLED,
    NOT_KNOWN,
    ReadLevel,
    ReadLevelError,
    check_level,
    stream_at,
)
from headwater.client.link.reads.ranges import BehindError, IncompleteError
from tests.kit.stream_servers import Message, Server, header_block

LEVELS = tuple(ReadLevel)
OWN_LEVELS = (ReadLevel.WEAK, ReadLevel.SESSION, ReadLevel.LINEARIZABLE)
MESSAGES = 40

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def headwater(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server("headwater", tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server("nats-server", tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture
def stream(headwater: Server) -> str:
    """A stream that offers all levels."""
    name = f"S{next(_NUMBERS)}"
    headwater.create_stream(name, read_consistency="weak")
    return name


@pytest.fixture
def connection(headwater: Server) -> Iterator[Connection]:
    # No patience: an error that would be waited out is raised.
    with Connection(Login(url=headwater.url, retries=0)) as connection:
        yield connection


def fill(server: Server, stream: str, count: int = MESSAGES) -> int:
    return server.publish((f"{stream}.{number % 3}", b"%d" % number) for number in range(count))


@pytest.mark.parametrize("level", LEVELS)
def test_the_end_is_the_last_sequence(
    headwater: Server, connection: Connection, stream: str, level: ReadLevel
) -> None:
    assert stream_at(connection, stream, level).end_seq == 0
    last = fill(headwater, stream)
    assert stream_at(connection, stream, level).end_seq == last
    headwater.purge(stream)
    assert stream_at(connection, stream, level).end_seq == last


@pytest.mark.parametrize("level", OWN_LEVELS)
def test_a_stream_is_read_at_each_level(
    headwater: Server, connection: Connection, stream: str, level: ReadLevel
) -> None:
    fill(headwater, stream)
    # A header that begins as the lines of the server do.
    block = header_block({"Nats-Stream": ["x"], "A": ["1"]})
    last = headwater.publish([Message(f"{stream}.1", b"with headers", block)])
    headwater.delete_message(stream, 7)
    info = stream_at(connection, stream, level)
    way = choose_way(info, (), level)
    chunks = [*read_range(connection, info, SequenceRange(1, last), (), way)]
    found = [
        row
        for chunk in chunks
        for row in zip(chunk.sequences, chunk.payloads, chunk.headers, strict=True)
    ]
    stored = headwater.stored(stream)
    assert [row[:2] for row in found] == [(each.sequence, each.data) for each in stored]
    assert found[-1][2].strip() == block.strip()
    chunks = [*read_range(connection, info, SequenceRange(5, 12), (f"{stream}.1",), way)]
    assert [number for chunk in chunks for number in chunk.sequences] == [5, 8, 11]


def test_a_linearizable_end_is_not_that_of_stream_info(
    headwater: Server, connection: Connection, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a leader tells it that has been deposed, and does not know that yet."""
    last = fill(headwater, stream)
    told = ApiClient.stream_info

    def stale(api: ApiClient, name: str) -> StreamInfo:
        return replace(told(api, name), last_seq=last - 5, end_seq=last - 5)

    monkeypatch.setattr(ApiClient, "stream_info", stale)
    assert stream_at(connection, stream, ReadLevel.LEADER).end_seq == last - 5
    with pytest.raises(IncompleteError, match=f"before sequence {last}$"):
        stream_at(connection, stream, ReadLevel.LINEARIZABLE)
    patient = Login(url=headwater.url)
    answers = iter([stale, stale, told, told])
    monkeypatch.setattr(ApiClient, "stream_info", lambda api, name: next(answers)(api, name))
    with Connection(patient) as other:
        info = stream_at(other, stream, ReadLevel.LINEARIZABLE)
    assert (info.end_seq, info.last_seq) == (last, last)


def test_a_session_waits_for_what_it_has_written(
    headwater: Server, connection: Connection, stream: str
) -> None:
    last = fill(headwater, stream)
    with pytest.raises(BehindError, match=f"up to sequence {last + 1}$"):
        stream_at(connection, stream, ReadLevel.SESSION, lambda _: last + 1)
    asked: list[int] = []

    def written(info: StreamInfo) -> int:
        asked.append(info.last_seq)
        if len(asked) == 3:
            fill(headwater, stream, 1)
        return last + 1

    with Connection(Login(url=headwater.url)) as other:
        assert stream_at(other, stream, ReadLevel.SESSION, written).end_seq == last + 1
    assert asked == [last] * 3


def test_a_session_read_is_answered_by_a_server_that_has_the_range(
    headwater: Server, connection: Connection, stream: str
) -> None:
    last = fill(headwater, stream)
    ahead = replace(stream_at(connection, stream, ReadLevel.SESSION), end_seq=last + 1)
    wanted = SequenceRange(1, last + 1)
    with pytest.raises(BehindError):
        next(read_range(connection, ahead, wanted, (), Way.SESSION_DIRECT))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("offered", ["default", "weak", "strong"])
@pytest.mark.parametrize("allow_direct", [False, True])
def test_a_stream_offers_levels_by_its_settings(
    headwater: Server,
    connection: Connection,
    level: ReadLevel,
    offered: str,
    allow_direct: bool,
) -> None:
    if offered != "default" and allow_direct != (offered == "weak"):
        allow_direct = offered == "weak"
    name = f"O{next(_NUMBERS)}"
    headwater.create_stream(name, read_consistency=offered, allow_direct=allow_direct)
    last = fill(headwater, name)
    is_offered = (
        level is ReadLevel.LEADER
        or offered != "default"
        or (allow_direct and level is not ReadLevel.LINEARIZABLE)
    )
    if is_offered:
        assert stream_at(connection, name, level).end_seq == last
    else:
        with pytest.raises(ReadLevelError) as refused:
            stream_at(connection, name, level)
        assert str(refused.value) == f"{level.value} reads are not enabled for this stream"


def test_nats_server_has_weak_and_leader_reads(oracle: Server) -> None:
    oracle.create_stream("S")
    oracle.create_stream("T", allow_direct=False)
    last = fill(oracle, "S")
    with Connection(Login(url=oracle.url, retries=0)) as connection:
        for level in (ReadLevel.WEAK, ReadLevel.LEADER):
            assert stream_at(connection, "S", level).end_seq == last
        refusals = {
            ("S", ReadLevel.SESSION): NOT_KNOWN,
            ("S", ReadLevel.LINEARIZABLE): NOT_ENABLED,
            ("T", ReadLevel.WEAK): NOT_ENABLED,
            ("T", ReadLevel.SESSION): NOT_ENABLED,
        }
        for (name, level), reason in refusals.items():
            with pytest.raises(ReadLevelError) as refused:
                stream_at(connection, name, level)
            assert refused.value.reason == reason


def test_nobody_is_sure_to_lead(
    connection: Connection, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: object) -> None:
        raise NoRespondersError("nobody answers")

    monkeypatch.setattr(Connection, "request", nobody)
    info = StreamInfo(stream, "", {"read_consistency": "weak"}, 0, 0, 0, 0, 0, "", "", 0)
    monkeypatch.setattr(ApiClient, "stream_info", lambda *_: info)
    with pytest.raises(NoRespondersError, match=r"^no server is sure to lead stream S\d+ now$"):
        stream_at(connection, stream, ReadLevel.LINEARIZABLE)


@pytest.mark.parametrize(
    "error", [ReadLevelError(ReadLevel.WEAK, NOT_ENABLED), BehindError("S", 5)]
)
def test_errors_cross_process_borders(error: LinkError) -> None:
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


def test_a_strong_stream_offers_every_level() -> None:
    config = {"read_consistency": "strong", "allow_direct": False}
    info = StreamInfo("S", "", config, 0, 0, 0, 0, 0, "", "", 0)
    for level in LEVELS:
        check_level(info, level)
