"""Several streams in one source: an offset for each, and limits that hold for all of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headwater.client.api.requests import ApiRequest
from headwater.client.link.api import ApiClient
from headwater.spark.options import OptionError, SourceOptions
from headwater.spark.read import source
from headwater.spark.read.offsets import DataLossError, OffsetError
from headwater.spark.read.source import RangePartition, is_named
from headwater.spark.read.streams_source import StreamsSourceReader
from tests.kit.stream_servers import Server
from tests.spark.queries import Planner

ROWS = StructType([StructField("stream", StringType()), StructField("sequence", LongType())])


class Streams:
    """Drives a reader of streams as Spark's planner does."""

    def __init__(self, server: Server, streams: str, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        parsed = SourceOptions.parse({"url": server.url, "streams": streams, **texts})
        self.reader = StreamsSourceReader(parsed, ROWS)
        self.offset = self.reader.initialOffset()
        self.start = self.offset

    def next(self) -> dict[str, list[int]]:
        """The next batch: sequences by stream; nothing if there is none."""
        self.start = self.offset
        self.offset = self.reader.latestOffset(self.start, self.reader.getDefaultReadLimit())
        return {} if self.offset == self.start else self.read()

    def read(self) -> dict[str, list[int]]:
        """The batch that was planned last, maybe once more."""
        # Offsets as they come out of a checkpoint.
        start, end = (json.loads(json.dumps(each)) for each in (self.start, self.offset))
        found: dict[str, list[int]] = {}
        for part in self.reader.partitions(start, end):
            assert isinstance(part, RangePartition)
            for batch in self.reader.read(part):
                columns = batch.to_pydict()
                for stream, sequence in zip(columns["stream"], columns["sequence"], strict=True):
                    found.setdefault(stream, []).append(sequence)
        return found


def fill(server: Server, stream: str, count: int, size_bytes: int = 1) -> None:
    server.publish([(f"{stream}.x", b"x" * size_bytes)] * count)


def test_each_stream_has_an_offset_of_its_own(server: Server) -> None:
    for name in ("o_a", "o_b", "other"):
        server.create_stream(name)
        fill(server, name, 3)
    streams = Streams(server, "o_*")
    assert streams.next() == {"o_a": [1, 2, 3], "o_b": [1, 2, 3]}
    assert streams.next() == {}
    fill(server, "o_b", 2)
    assert streams.next() == {"o_b": [4, 5]}
    # A replay gives the same rows, whatever has come since.
    fill(server, "o_a", 1)
    assert streams.read() == {"o_b": [4, 5]}
    assert streams.next() == {"o_a": [4]}
    assert server.consumers("o_a") == []


def test_a_stream_that_appears_later_is_read_from_its_first_message(server: Server) -> None:
    server.create_stream("o_a")
    fill(server, "o_a", 3)
    streams = Streams(server, "o_*", starting="latest")
    assert streams.next() == {}
    server.create_stream("o_b")
    fill(server, "o_b", 2)
    fill(server, "o_a", 1)
    assert streams.next() == {"o_a": [4], "o_b": [1, 2]}


def test_a_pattern_may_wait_for_its_first_stream(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    streams = Streams(server, "o_*")
    assert streams.next() == streams.next() == {}
    assert caplog.text.count("no stream has such a name yet") == 1
    server.create_stream("o_a")
    fill(server, "o_a", 1)
    assert streams.next() == {"o_a": [1]}


def test_a_limit_in_messages_holds_for_all_and_nobody_waits_for_ever(server: Server) -> None:
    for name in ("a", "b", "c"):
        server.create_stream(name)
        fill(server, name, 7)
    streams = Streams(server, "a,b,c", maxMessagesPerTrigger=5)
    found: dict[str, list[int]] = {}
    firsts = []
    while batch := streams.next():
        assert sum(map(len, batch.values())) <= 5
        firsts.append(next(iter(batch)))
        for name, sequences in batch.items():
            found.setdefault(name, []).extend(sequences)
    assert found == {name: [*range(1, 8)] for name in "abc"}
    assert len(set(firsts[:3])) == 3


def test_a_limit_in_bytes_holds_for_all(server: Server) -> None:
    for name in ("a", "b"):
        server.create_stream(name)
    # Each message has 1,000 bytes and a subject of 3.
    fill(server, "a", 2, 1_000)
    fill(server, "b", 2, 1_000)
    fill(server, "b", 1, 5_000)
    streams = Streams(server, "*", maxBytesPerTrigger=3_009)
    assert streams.next() == {"a": [1, 2], "b": [1]}
    # A message larger than the limit comes alone, and not behind others.
    fill(server, "a", 1, 10)
    assert streams.next() == {"b": [2], "a": [3]}
    fill(server, "a", 1, 10)
    batches = [streams.next(), streams.next()]
    assert sorted(map(str, batches)) == ["{'a': [4]}", "{'b': [3]}"]
    assert streams.next() == {}


def test_a_stream_that_is_gone_is_a_loss(server: Server) -> None:
    for name in ("o_a", "o_b"):
        server.create_stream(name)
        fill(server, name, 3)
    strict, lenient = Streams(server, "o_*"), Streams(server, "o_*", failOnDataLoss="false")
    assert strict.next() == lenient.next() == {"o_a": [1, 2, 3], "o_b": [1, 2, 3]}
    server.delete_stream("o_b")
    with pytest.raises(DataLossError, match="stream o_b was deleted"):
        strict.next()
    assert lenient.next() == {}
    assert [*lenient.offset["streams"]] == ["o_a"]
    server.create_stream("o_b")
    fill(server, "o_b", 1)
    assert lenient.next() == {"o_b": [1]}
    assert lenient.offset["lost"] == 0


def test_what_a_stream_has_lost_is_counted(server: Server) -> None:
    server.create_stream("a")
    server.create_stream("b")
    fill(server, "a", 5)
    streams = Streams(server, "a,b", failOnDataLoss="false")
    server.purge("a", seq=4)
    assert streams.next() == {"a": [4, 5]}
    assert streams.offset["streams"]["a"]["lost"] == 3


def test_a_stream_that_is_no_longer_named_is_told(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        server.create_stream(name)
        fill(server, name, 1)
    before, after = Streams(server, "a,b"), Streams(server, "a")
    before.next()
    after.offset = before.offset
    assert after.next() == {}
    assert "option streams was changed to 'a': stream b is no longer read" in caplog.text
    assert [*after.offset["streams"]] == ["a"]


def test_keys_and_messages_can_be_read_together(server: Server) -> None:
    server.create_stream("s")
    server.create_stream("keys", max_msgs_per_subject=1)
    fill(server, "s", 2)
    fill(server, "keys", 3)
    streams = Streams(server, "s,keys")
    assert streams.next() == {"keys": [3], "s": [1, 2]}
    kinds = {name: each.get("changes") for name, each in streams.offset["streams"].items()}
    assert kinds == {"keys": "latest", "s": None}


def test_the_lag_is_that_of_all_streams(server: Server) -> None:
    for name in ("a", "b"):
        server.create_stream(name)
        fill(server, name, 10)
    streams = Streams(server, "a,b", maxMessagesPerTrigger=4)
    streams.next()
    head = streams.reader.reportLatestOffset()
    assert head is not None
    assert (head["behind"], head["behindMessages"]) == (16, 16)
    assert head["behindBytes"] > 0
    assert head["behindSeconds"] > 0
    assert head["streams"]["b"]["next"] == 11


@pytest.mark.parametrize(
    ("stream", "names", "is_one"),
    [
        ("o_eu", ("o_*",), True),
        ("o_eu", ("o_us", "o_eu"), True),
        ("o_eu_1", ("o_*_2",), False),
        ("xo_eu", ("o_*",), False),
        ("o+eu", ("o+*",), True),
        ("KV_b", ("*",), False),
        ("KV_b", ("KV_*",), True),
        ("KV_b", ("KV_b",), True),
        ("OBJ_b", ("O*",), False),
    ],
)
def test_patterns_of_names(stream: str, names: tuple[str, ...], is_one: bool) -> None:
    assert is_named(stream, names) == is_one


def test_more_streams_than_the_limit_are_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        server.create_stream(name)
    monkeypatch.setattr(source, "STREAMS_MAX", 3)
    assert [*Streams(server, "*").offset["streams"]] == ["a", "b", "c"]
    monkeypatch.setattr(source, "STREAMS_MAX", 2)
    with pytest.raises(OptionError, match=r"option streams='\*' matches 3 streams: allowed are 2"):
        Streams(server, "*")


def test_names_come_in_pages(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        server.create_stream(f"s{number}")
    call = ApiClient.call

    def call_for_two(self: ApiClient, request: ApiRequest) -> dict[str, Any]:
        answer = call(self, request)
        if request.operation == "STREAM.NAMES":
            answer["streams"] = (answer["streams"] or [])[:2]
        return answer

    monkeypatch.setattr(ApiClient, "call", call_for_two)
    assert [*Streams(server, "s*").offset["streams"]] == [f"s{number}" for number in range(5)]


def test_checkpoints_of_one_stream_and_of_several_are_told_apart(server: Server) -> None:
    server.create_stream("s")
    one, several = Planner(server), Streams(server, "s")
    with pytest.raises(OffsetError, match="not an offset of several streams"):
        several.reader.latestOffset(one.offset, several.reader.getDefaultReadLimit())
    with pytest.raises(OffsetError, match="not an offset of this source"):
        one.reader.latestOffset(several.offset, one.reader.getDefaultReadLimit())


def test_a_query_over_several_streams(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    for name in ("o_a", "o_b"):
        server.create_stream(name)
        fill(server, name, 3)
    options = {"url": server.url, "streams": "o_*"}

    def finish() -> dict[str, int]:
        rows = spark.readStream.format("headwater").options(**options).load()
        writing = rows.select("stream", "sequence").writeStream.format("parquet")
        writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writing.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        found = spark.read.schema("stream string, sequence bigint").parquet(str(tmp_path / "out"))
        return {row.stream: row["count"] for row in found.groupBy("stream").count().collect()}

    assert finish() == {"o_a": 3, "o_b": 3}
    server.create_stream("o_c")
    fill(server, "o_c", 2)
    fill(server, "o_a", 1)
    assert finish() == {"o_a": 4, "o_b": 3, "o_c": 2}
    batch = spark.read.format("headwater").options(**options).load()
    counts = {row.stream: row["count"] for row in batch.groupBy("stream").count().collect()}
    assert counts == {"o_a": 4, "o_b": 3, "o_c": 2}
    named = f"OPTIONS (url '{server.url}', streams 'o_*')"
    spark.sql(f"CREATE TABLE several USING headwater {named}")
    try:
        (counted,) = spark.sql("SELECT count(*) AS rows FROM several").collect()
    finally:
        spark.sql("DROP TABLE several")
    assert counted.rows == 9
    with pytest.raises(PySparkException, match="option streams: there is no stream none at"):
        spark.read.format("headwater").options(url=server.url, streams="o_a,none").load()
    with pytest.raises(PySparkException, match=r"option streams='x\*': no stream at"):
        spark.read.format("headwater").options(url=server.url, streams="x*").load().collect()
