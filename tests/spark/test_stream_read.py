"""Streaming reads: every message once, in batches of the size asked for, resumed and replayed."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from headwater.spark.read.stream_source import EMPTY_STRETCH_SEQUENCES
from tests.kit.stream_servers import Message, Server, header_block
from tests.spark.queries import Planner, Run


@pytest.fixture
def run(spark: SparkSession, server: Server, tmp_path: Path) -> Run:
    return Run(spark, server, tmp_path)


def test_batches_have_the_size_asked_for_and_resume(run: Run) -> None:
    server = run.server
    server.create_stream("s")
    server.publish([("s.a", b"x")] * 10)
    assert run.finish(stream="s", maxMessagesPerTrigger=4) == [4, 4, 2]
    assert run.sequences() == list(range(1, 11))
    # A second run takes up where the first ended, with other limits.
    server.publish([("s.a", b"x")] * 3)
    server.delete_message("s", 12)
    assert run.finish(stream="s") == [2]
    assert run.sequences() == [*range(1, 12), 13]
    assert server.consumers("s") == []


def test_a_running_query_follows_the_stream_and_reports_its_lag(run: Run) -> None:
    run.server.create_stream("s")
    run.server.publish([("s.a", b"x")] * 5)
    query = run.start(stream="s", starting="latest")
    try:
        query.processAllAvailable()
        run.server.publish([("s.a", b"x")] * 7)
        query.processAllAvailable()
        assert run.sequences() == list(range(6, 13))
        progress = query.lastProgress
        assert progress is not None
        head = json.loads(progress.sources[0].latestOffset or "")
        assert (head["next"], head["behind"]) == (13, 0)
    finally:
        query.stop()


def test_a_replayed_batch_is_cut_as_it_was(run: Run) -> None:
    run.server.create_stream("s")
    run.server.publish([("s.a", b"x")] * 20)
    run.finish(stream="s", minPartitions=4)
    before = run.offsets()
    assert [count for _, _, count in before[-1]["ranges"]] == [5, 5, 5, 5]
    # More messages and other options do not change what the batch was.
    run.server.publish([("s.a", b"x")] * 20)
    run.forget_commit(0)
    rows = run.finish(stream="s", minPartitions=1)
    assert rows == [20, 20]
    assert run.offsets()[0] == before[0]
    assert run.sequences() == list(range(1, 41))


def test_filters_and_an_end(run: Run) -> None:
    run.server.create_stream("s")
    run.server.publish([(f"s.{i % 10}", b"x") for i in range(100)])
    batches = run.finish(stream="s", subjects="s.3,s.7", maxMessagesPerTrigger=5, endingSequence=60)
    assert run.sequences() == [s for s in range(1, 61) if s % 10 in (4, 8)]
    assert sum(batches) == 12
    assert max(batches) <= 5


# --- the reader itself, without Spark around it ---------------------------------------------------


def test_starts(server: Server) -> None:
    server.create_stream("s")
    for _ in range(5):
        server.publish([("s.a", b"x")])
    third = server.stored("s")[2].time
    assert Planner(server).offset["next"] == 1
    assert Planner(server, starting="latest").offset["next"] == 6
    assert Planner(server, startingSequence=4).offset["next"] == 4
    assert Planner(server, startingTime=third).offset["next"] == 3
    assert Planner(server, startingTime="2120-01-01").offset["next"] == 6


def test_a_start_in_the_future_is_waited_for(server: Server) -> None:
    server.create_stream("s")
    server.publish([("s.a", b"x")] * 3)
    planner = Planner(server, startingSequence=6)
    assert planner.next() == []
    server.publish([("s.a", b"x")] * 5)
    assert list(planner.read(planner.next())) == [6, 7, 8]


def test_limits(server: Server) -> None:
    server.create_stream("s")
    server.publish([("s.a", b"x" * 1000)] * 20)
    planner = Planner(server)
    start = planner.offset

    def until(limit: Any) -> int:
        return int(planner.reader.latestOffset(start, limit)["next"]) - 1

    assert until(ReadAllAvailable()) == 20
    assert until(ReadMaxRows(7)) == 7
    # Each message has 1,000 bytes and a subject of 3.
    assert until(ReadMaxBytes(10_029)) == 9
    assert until(ReadMaxBytes(10_030)) == 10
    assert until(ReadMaxBytes(1)) == 1
    assert until(ReadMaxBytes(1 << 40)) == 20
    both = Planner(server, maxMessagesPerTrigger=15, maxBytesPerTrigger=10_030)
    assert sum(part.range.count or 0 for part in both.next()) == 10
    rows = Planner(server, maxMessagesPerTrigger=5, maxBytesPerTrigger=10_030)
    assert sum(part.range.count or 0 for part in rows.next()) == 5


LARGE = 3_000
SIZES = [1, LARGE, 10, 10, 2 * LARGE, 5, LARGE, 1, 0, 12]


@pytest.mark.parametrize("config", [{}, {"retention": "workqueue"}, {"max_msgs_per_subject": 50}])
def test_no_batch_has_more_bytes_than_asked_for(server: Server, config: dict[str, Any]) -> None:
    """However uneven messages are, with a filter and with holes; a larger one comes alone."""
    server.create_stream("s", **config)
    header = header_block({"H": ["x" * 40]})
    server.publish([Message("s.a", b"p" * size, header) for size in SIZES * 5])
    server.publish([Message("s.b", b"p" * LARGE) for _ in range(20)])
    for gone in (3, 11, 12):
        server.delete_message("s", gone)
    stored = {m.sequence: len(m.subject) + len(m.header) + len(m.data) for m in server.stored("s")}
    wanted = [sequence for sequence in stored if sequence <= len(SIZES) * 5]
    limit = 4_000
    planner = Planner(server, subjects="s.a", maxBytesPerTrigger=limit, changes="all")
    batches = []
    while parts := planner.next():
        batches.append(list(planner.read(parts)))
    assert [sequence for batch in batches for sequence in batch] == wanted
    for batch, following in itertools.pairwise(batches):
        size = sum(stored[sequence] for sequence in batch)
        assert size <= limit or len(batch) == 1
        # One more message would have been too much.
        assert size + stored[following[0]] > limit


def test_the_lag_is_told_in_messages_bytes_and_seconds(server: Server) -> None:
    server.create_stream("s")
    server.publish([(f"s.{i % 2}", b"x" * 100) for i in range(20)])
    planner = Planner(server, subjects="s.1", maxMessagesPerTrigger=4)
    assert len(planner.next()) == 1
    head = planner.reader.reportLatestOffset()
    assert head is not None
    assert (head["next"], head["behindMessages"]) == (21, 6)
    assert head["behind"] == 21 - planner.offset["next"]
    assert 6 * 100 <= head["behindBytes"] <= 6 * 200
    assert head["behindSeconds"] > 0
    while planner.next():
        pass
    head = planner.reader.reportLatestOffset()
    assert head is not None
    lag = {name: value for name, value in head.items() if name.startswith("behind")}
    assert set(lag.values()) == {0}


def test_what_does_not_match_makes_no_batches(server: Server) -> None:
    server.create_stream("s")
    server.publish([("s.a", b"")] * 50)
    planner = Planner(server, subjects="s.b")
    start = planner.offset
    assert planner.next() == []
    assert planner.offset == start
    # Sequences that were seen to have no match may be purged.
    server.purge("s", seq=40)
    assert planner.next() == []
    server.publish([("s.b", b"")])
    assert list(planner.read(planner.next())) == [51]


def test_a_long_stretch_of_what_does_not_match_is_passed(headwater_server: Server) -> None:
    server = headwater_server
    server.create_stream("s")
    server.publish([("s.a", b"")] * EMPTY_STRETCH_SEQUENCES)
    planner = Planner(server, subjects="s.b")
    assert planner.next() == []
    assert planner.offset["next"] == EMPTY_STRETCH_SEQUENCES + 1


def test_a_work_queue_is_read_and_left_alone(server: Server) -> None:
    server.create_stream("s", retention="workqueue")
    server.publish([(f"s.{i % 2}", b"") for i in range(20)])
    before = server.state("s")
    planner = Planner(server, subjects="s.1", maxMessagesPerTrigger=4)
    found: list[int] = []
    while parts := planner.next():
        assert [part.range.count for part in parts] == [None] * len(parts)
        found += planner.read(parts)
    assert found == list(range(2, 21, 2))
    assert server.state("s") == before


def test_sparse_messages_of_a_stream_that_nobody_can_count(server: Server) -> None:
    """Batch sizes follow the matching messages, not the sequences between them."""
    server.create_stream("s", retention="workqueue", allow_direct=False)
    server.publish([(f"s.{'rare' if i % 100 == 0 else 'often'}", b"") for i in range(2_000)])
    planner = Planner(server, subjects="s.rare", maxMessagesPerTrigger=10)
    found: list[int] = []
    batches = 0
    while parts := planner.next():
        found += planner.read(parts)
        batches += 1
    assert found == list(range(1, 2_001, 100))
    assert batches == 2
