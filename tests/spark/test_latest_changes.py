"""Streaming reads of keys that are replaced all the time: each is seen, in every trigger."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headwater.spark.options import SourceOptions
from headwater.spark.read import source, stream_source
from headwater.spark.read.planning import Count
from headwater.spark.read.stream_source import StreamSourceReader
from tests.kit.stream_servers import Message, Server, header_block
from tests.spark.busy_keys import KEYS, busy_writer, puts
from tests.spark.queries import Run

DELETE = header_block({"KV-Operation": ["DEL"]})
ENTRIES = StructType([StructField("key", StringType()), StructField("revision", LongType())])


class Keys:
    """Drives a reader of bucket `b` as Spark does, and returns the keys of a batch."""

    def __init__(self, server: Server, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        parsed = SourceOptions.parse({"url": server.url, "bucket": "b", **texts})
        self.reader = StreamSourceReader(parsed, ENTRIES)
        self.offset = self.reader.initialOffset()
        self.start = self.offset

    def plan(self) -> bool:
        """Whether there is a next batch."""
        start = self.offset
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if end == start:
            return False
        self.start, self.offset = start, end
        return True

    def read(self) -> dict[str, int]:
        """The keys of the batch that was planned last, and their revisions."""
        found: list[tuple[str, int]] = []
        for part in self.reader.partitions(self.start, self.offset):
            for batch in self.reader.read(part):
                columns = (batch.column("key").to_pylist(), batch.column("revision").to_pylist())
                found += zip(*columns, strict=True)
        assert len(dict(found)) == len(found), "a key stands in the batch twice"
        return dict(found)


def test_a_key_replaced_after_planning_comes_with_its_newer_revision(server: Server) -> None:
    server.create_bucket("b")
    server.publish(puts("a", "b", "c"))
    keys = Keys(server)
    assert keys.plan()
    server.publish(puts("b", "d"))
    found = keys.read()
    # Key d has changed since the start too, as of the read.
    assert found == {"a": 1, "c": 3, "b": 4, "d": 5}
    # A replay covers the same offsets: no key is left out, and b is newer again.
    server.publish([Message("$KV.b.b", b"", DELETE)])
    assert keys.read() == {"a": 1, "c": 3, "d": 5, "b": 6}
    # The next batch begins where the first one ended.
    assert keys.plan()
    assert keys.read() == {"d": 5, "b": 6}
    assert not keys.plan()
    assert server.consumers("KV_b") == []


def test_what_is_all_there_is_read_as_it_was_planned(server: Server) -> None:
    server.create_bucket("b")
    server.publish(puts("a", "b", "c"))
    keys = Keys(server)
    assert keys.plan()
    server.publish(puts("d"))
    assert keys.read() == {"a": 1, "b": 2, "c": 3}
    assert keys.plan()
    assert keys.read() == {"d": 4}


def test_a_batch_has_the_newest_entry_of_a_longer_history(server: Server) -> None:
    server.create_bucket("b", history=5)
    server.publish(puts("a", "b", "a"))
    newest, every = Keys(server), Keys(server, changes="all")
    assert newest.plan()
    assert newest.read() == {"b": 2, "a": 3}
    assert every.plan()
    [part] = every.reader.partitions(every.start, every.offset)
    revisions = [r for batch in every.reader.read(part) for r in batch["revision"].to_pylist()]
    assert revisions == [1, 2, 3]


def test_parts_share_the_keys(server: Server) -> None:
    server.create_bucket("b")
    server.publish(puts(*KEYS))
    keys = Keys(server, minPartitions=3)
    assert keys.plan()
    server.publish(puts(*KEYS[:5]))
    assert len(keys.reader.partitions(keys.start, keys.offset)) == 3
    assert sorted(keys.read()) == KEYS


def test_with_an_end_nothing_is_looked_for_behind_it(server: Server) -> None:
    server.create_bucket("b")
    server.publish(puts("a", "b", "c"))
    keys = Keys(server, endingSequence=2)
    assert keys.plan()
    server.publish(puts("a"))
    assert keys.read() == {"b": 2}
    assert not keys.plan()


def test_a_filter_and_a_limit(server: Server) -> None:
    server.create_bucket("b")
    server.publish(puts("in.a", "out.a", "in.b", "out.b", "in.c"))
    keys = Keys(server, subjects="in.*", maxMessagesPerTrigger=2)
    assert keys.plan()
    server.publish(puts("in.a", "out.a"))
    # Key in.c is not of this batch: it has not changed since the planning.
    assert keys.read() == {"in.b": 3, "in.a": 6}
    assert keys.plan()
    assert keys.read() == {"in.c": 5, "in.a": 6}


@pytest.mark.parametrize("others", [(), ("b",)])
def test_a_key_replaced_while_its_batch_is_planned_is_seen(
    server: Server, others: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the end of the stream was looked up, and before its entries were counted."""
    server.create_bucket("b")
    server.publish(puts(*others, "a"))
    counter = source.counter

    def late_counter(*arguments: Any) -> Count:
        server.publish(puts("a"))
        return counter(*arguments)

    monkeypatch.setattr(stream_source, "counter", late_counter)
    keys = Keys(server)
    for _ in range(3):
        assert keys.plan()
        assert "a" in keys.read()


def test_keys_that_keep_changing_are_seen_in_every_trigger(server: Server) -> None:
    server.create_bucket("b")
    keys = Keys(server)
    before = dict.fromkeys(KEYS, 0)
    with busy_writer(server) as writer:
        for _ in range(5):
            writer.wait_for_a_round()
            assert keys.plan()
            writer.wait_for_a_round()
            found = keys.read()
            assert sorted(found) == KEYS
            assert all(found[key] > before[key] for key in KEYS)
            before = found


def test_a_query_over_a_stream_with_a_limit_per_subject_is_replayed(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    run = Run(spark, server, tmp_path)
    server.create_stream("s", max_msgs_per_subject=1)
    server.publish([("s.a", b""), ("s.b", b""), ("s.c", b"")])
    assert run.finish(stream="s") == [3]
    offset = run.offsets()[0]
    assert (offset["changes"], offset["head"], offset["next"]) == ("latest", 3, 4)
    server.publish([("s.b", b"")])
    run.forget_commit(0)
    # The replay has s.b as it is now, and the batch after it has that change as well.
    assert run.finish(stream="s") == [3, 1]
    assert run.offsets()[0] == offset
    assert run.sequences() == [1, 3, 4, 4]


def test_a_committed_batch_of_keys_is_told_by_its_offsets(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Its rows are newer in a replay: that is the batch that was committed all the same."""
    server.create_bucket("b")
    server.create_bucket("copy")
    server.publish(puts("a", "b"))
    checkpoint = tmp_path / "checkpoint"

    def copy() -> dict[str, bytes]:
        rows = spark.readStream.format("headwater").options(url=server.url, bucket="b").load()
        entries = rows.select("key", "operation", "data").writeStream.format("headwater")
        writing = entries.options(url=server.url, bucket="copy")
        writing = writing.option("checkpointLocation", str(checkpoint))
        writing.trigger(availableNow=True).start().awaitTermination()
        return {each.subject.split(".")[-1]: each.data for each in server.stored("KV_copy")}

    assert copy() == {"a": b"x", "b": b"x"}
    # Spark has died before it noted the sink's commit, and comes back to newer entries.
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    server.publish([Message("$KV.b.a", b"newer"), Message("$KV.b.c", b"new")])
    assert copy() == {"a": b"newer", "b": b"x", "c": b"new"}
