"""The archive job on real servers: every published message is archived once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.files.durable_files import remove
from headwater.spark.jobs.archive.files.parquet_files import table_schema
from headwater.spark.jobs.archive.job import ArchiveResult, ArchiveSettings, archive
from headwater.spark.jobs.archive.manifest import own_directory, read_manifest, settle_manifest
from headwater.spark.jobs.archive.opening import open_log
from headwater.spark.jobs.archive.query import exclusive
from headwater.spark.jobs.archive.reader import read_archive
from headwater.spark.jobs.union import union_read
from headwater.spark.options import OptionError
from tests.kit.stream_servers import Message, Server, Stored, header_block

FORMATS = ["delta", "parquet"]
# A subject that needs care as a directory: an equals sign, a percent sign, leading zeros.
# Looks at a mirror until it has its origin's messages.
LOOKS_MAX = 5_000
TOKENS = ["007", "a=b%", "x", "é"]


def settings(server: Server, to: Path, **changes: Any) -> ArchiveSettings:
    made = ArchiveSettings(Login(server.url), "orders", str(to), max_messages_per_trigger=100)
    return replace(made, **changes)


def traffic(first: int, last: int) -> Iterator[Message]:
    for number in range(first, last + 1):
        header = header_block({"N": [str(number), "again"]}) if number % 3 == 0 else b""
        token = TOKENS[number % len(TOKENS)]
        yield Message(f"orders.{token}", b"\xff\x00%d" % number if number % 5 else b"", header)


def facts(frame: DataFrame) -> list[tuple[object, ...]]:
    rows = frame.select("sequence", "subject", "data", "headers").orderBy("sequence").collect()
    return [(row.sequence, row.subject, bytes(row.data), row.headers) for row in rows]


def expected(stored: Sequence[Stored]) -> list[tuple[object, ...]]:
    return [
        (
            each.sequence,
            each.subject,
            each.data,
            {"N": [str(each.sequence), "again"]} if each.header else None,
        )
        for each in stored
    ]


def normalised(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Without the difference between no headers and empty ones."""
    return [(*row[:3], row[3] or None) for row in rows]


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_is_archived_bit_for_bit_and_a_second_run_goes_on(
    spark: SparkSession, server: Server, tmp_path: Path, format: str
) -> None:
    server.create_stream("orders")
    server.publish(traffic(1, 250))
    for sequence in (1, 17, 250):
        server.delete_message("orders", sequence)
    wanted = settings(server, tmp_path / "archive", format=format, partition_by=("token:2", "hour"))
    first = archive(spark, wanted)
    assert (first.messages, first.batches, first.next_sequence) == (247, 3, 251)
    server.publish(traffic(251, 300))
    second = archive(spark, wanted)
    assert (second.messages, second.next_sequence) == (50, 301)
    assert second.files_merged > 0

    frame = read_archive(spark, wanted.to)
    stored = server.stored("orders")
    assert normalised(facts(frame)) == expected(stored)
    for row in frame.select("subject", "timestamp", "date", "hour", "token_2").collect():
        assert row.token_2 == row.subject.split(".")[1]
        assert (row.date, row.hour) == (row.timestamp.date(), row.timestamp.hour)
    assert server.consumers("orders") == []
    assert_others_read_the_same(wanted, [each.sequence for each in stored])


def assert_others_read_the_same(wanted: ArchiveSettings, sequences: list[int]) -> None:
    """Readers that know nothing of this project, and the order inside the files."""
    if wanted.format == "delta":
        found = DeltaTable(wanted.to).to_pyarrow_table()
    else:
        found = ds.dataset(wanted.to, partitioning="hive").to_table()
    assert sorted(found["sequence"].to_pylist()) == sequences
    root = wanted.root
    for each in open_log(root, read_manifest(root, "to")).snapshot().files:
        inside = pq.read_table(root / each.path, partitioning=None)["sequence"].to_pylist()
        assert inside == sorted(inside)


def test_a_run_with_nothing_new_changes_nothing(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    wanted = settings(headwater_server, tmp_path / "archive")
    empty = archive(spark, wanted)
    assert (empty.messages, empty.files, empty.next_sequence) == (0, 0, 1)
    assert read_archive(spark, wanted.to).count() == 0
    headwater_server.publish(traffic(1, 10))
    assert archive(spark, wanted).messages == 10
    before = DeltaTable(wanted.to).version()
    assert archive(spark, wanted).messages == 0
    assert DeltaTable(wanted.to).version() == before


@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_that_spark_replays_is_not_archived_twice(
    spark: SparkSession, headwater_server: Server, tmp_path: Path, format: str
) -> None:
    headwater_server.create_stream("orders")
    headwater_server.publish(traffic(1, 150))
    wanted = settings(headwater_server, tmp_path / "archive", format=format)
    archive(spark, wanted)
    # As if the driver had died after the archive's commit and before Spark's own.
    commits = wanted.checkpoint_directory / "commits"
    forget(commits, 1)
    headwater_server.publish(traffic(151, 160))
    again = archive(spark, wanted)
    assert again.next_sequence == 161
    assert archived_sequences(spark, wanted) == list(range(1, 161))


def forget(directory: Path, batch: int) -> None:
    for path in (directory / str(batch), directory / f".{batch}.crc"):
        remove(path)


def archived_sequences(spark: SparkSession, wanted: ArchiveSettings) -> list[int]:
    rows = read_archive(spark, wanted.to).select("sequence").orderBy("sequence").collect()
    return [row.sequence for row in rows]


def test_a_lost_checkpoint_is_made_anew_from_the_archive(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    headwater_server.publish(traffic(1, 150))
    wanted = settings(headwater_server, tmp_path / "archive", format="parquet")
    archive(spark, wanted)
    wanted.checkpoint_directory.rename(tmp_path / "lost")
    headwater_server.publish(traffic(151, 160))
    assert archive(spark, wanted).messages == 10
    assert archived_sequences(spark, wanted) == list(range(1, 161))

    # The old checkpoint has planned another next batch.
    headwater_server.publish(traffic(161, 170))
    with pytest.raises(StreamingQueryException, match="option checkpoint: the archive goes on at"):
        archive(spark, replace(wanted, checkpoint=str(tmp_path / "lost")))
    assert archived_sequences(spark, wanted) == list(range(1, 161))


def test_subjects_that_are_not_wanted_are_passed_over_for_good(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    headwater_server.publish([("orders.a", b"1"), ("orders.b", b"2"), ("orders.a", b"3")])
    wanted = settings(headwater_server, tmp_path / "archive", subjects=("orders.b",))
    assert archive(spark, wanted).messages == 1
    assert archived_sequences(spark, wanted) == [2]


def test_orphans_are_removed_when_they_are_old(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    headwater_server.publish(traffic(1, 10))
    wanted = settings(headwater_server, tmp_path / "archive", partition_by=())
    archive(spark, wanted)
    orphan = wanted.root / "part-0000000000-00000-0000-dead-attempt.parquet"
    orphan.touch()
    assert archive(spark, wanted).files_removed == 0
    assert orphan.exists()
    assert archive(spark, replace(wanted, orphan_age_s=0)).files_removed == 1
    assert not orphan.exists()
    assert archived_sequences(spark, wanted) == list(range(1, 11))


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        ("stream", {"stream": "bills"}),
        ("format", {"format": "parquet"}),
        ("partition_by", {"partition_by": ("hour",)}),
        ("subjects", {"subjects": ("orders.a",)}),
    ],
)
def test_another_archive_in_the_same_place_is_refused_before_spark_does_anything(
    headwater_server: Server, tmp_path: Path, option: str, changes: dict[str, Any]
) -> None:
    for name in ("orders", "bills"):
        headwater_server.create_stream(name)
    wanted = settings(headwater_server, tmp_path / "archive")
    settle_manifest(wanted.root, wanted.manifest)
    with pytest.raises(OptionError, match=rf"^option {option}: the archive in"):
        archive(NO_SPARK, replace(wanted, **changes))


# Any use of it is an error.
NO_SPARK: Any = None


def test_a_stream_that_is_not_there_is_named_before_spark_does_anything(
    headwater_server: Server, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=r"^option stream='orders' .* no such stream"):
        archive(NO_SPARK, settings(headwater_server, tmp_path / "archive"))
    assert not (tmp_path / "archive").exists()


def test_two_runs_into_one_archive_are_refused(headwater_server: Server, tmp_path: Path) -> None:
    headwater_server.create_stream("orders")
    wanted = settings(headwater_server, tmp_path / "archive")
    with exclusive(wanted.root):
        assert own_directory(wanted.root).is_dir()
        with pytest.raises(OptionError, match=r"^option to: another run is archiving into"):
            archive(NO_SPARK, wanted)


def test_a_run_that_follows_ends_with_a_result_when_it_is_interrupted(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    headwater_server.publish(traffic(1, 150))
    wanted = settings(
        headwater_server, tmp_path / "archive", follow=True, every_s=0, compact_every=1
    )

    class Interrupting:
        """Publishes more after the first messages, and interrupts after those."""

        def __init__(self) -> None:
            self.seen = 0

        def stage(self, name: str, total: int | None) -> None:
            pass

        def note(self, text: str) -> None:
            pass

        def advance(self, count: int) -> None:
            self.seen += count
            if self.seen == 150:
                headwater_server.publish(traffic(151, 160))
            if self.seen == 160:
                raise KeyboardInterrupt

    result: ArchiveResult = archive(spark, wanted, Interrupting())
    assert (result.messages, result.next_sequence) == (160, 161)
    assert archived_sequences(spark, wanted) == list(range(1, 161))


def test_a_run_that_follows_gathers_what_comes_for_its_next_batch(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    headwater_server.publish(traffic(1, 10))
    wanted = settings(headwater_server, tmp_path / "archive", follow=True, every_s=3_600.0)

    class Interrupting:
        looks = 0

        def stage(self, name: str, total: int | None) -> None:
            pass

        def note(self, text: str) -> None:
            """Looks at the run again and again, after there is something new to archive."""
            self.looks += 1
            if self.looks == 5:
                raise KeyboardInterrupt

        def advance(self, count: int) -> None:
            headwater_server.publish(traffic(11, 20))

    first = archive(spark, wanted, Interrupting())
    assert (first.messages, first.batches) == (10, 1)
    # The next run begins with a batch at once.
    assert archive(spark, replace(wanted, follow=False)).messages == 10


@pytest.mark.parametrize("format", FORMATS)
def test_incarnations_of_a_stream_are_told_apart_by_a_column(
    spark: SparkSession, server: Server, tmp_path: Path, format: str
) -> None:
    wanted = settings(server, tmp_path / "archive", format=format, fail_on_data_loss=False)
    made = []
    for first in (1, 101):
        made.append(server.create_stream("orders")["created"])
        server.publish(traffic(first, first + 99))
        archive(spark, wanted)
        if first == 1:
            server.delete_stream("orders")
    frame = read_archive(spark, wanted.to)
    rows = frame.orderBy("stream_created", "sequence").collect()
    assert [row.sequence for row in rows] == [*range(1, 101), *range(1, 101)]
    times = sorted({row.stream_created for row in rows})
    assert [moment.isoformat()[:23] for moment in times] == [text[:23] for text in made]
    # The messages of one incarnation follow each other inside the files, merged or not.
    for each in open_log(wanted.root, read_manifest(wanted.root, "to")).snapshot().files:
        inside = pq.read_table(wanted.root / each.path, partitioning=None).to_pylist()
        order = [(row["stream_created"], row["sequence"]) for row in inside]
        assert order == sorted(order)
    union = union_read(spark, wanted.login, wanted.to, "orders")
    assert union.groupBy("stream_created").count().count() == 2


def test_an_archive_of_a_former_version_goes_on_with_the_new_column(
    spark: SparkSession, headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("orders")
    headwater_server.publish(traffic(1, 10))
    wanted = settings(headwater_server, tmp_path / "archive", compact=False)
    old = pa.schema(
        [
            each
            for each in table_schema(wanted.manifest.partitioning)
            if each.name != "stream_created"
        ]
    )
    settle_manifest(wanted.root, wanted.manifest)
    DeltaTable.create(wanted.to, old, partition_by=["date"])
    assert archive(spark, wanted).messages == 10
    assert DeltaTable(wanted.to).to_pyarrow_table()["stream_created"].null_count == 0
    assert archived_sequences(spark, wanted) == list(range(1, 11))


def whole(spark: SparkSession, wanted: ArchiveSettings) -> list[tuple[object, ...]]:
    """Every row of an archive with all that is of the message, and not of its stream."""
    frame = read_archive(spark, wanted.to)
    columns = ("sequence", "subject", "timestamp", "data", "headers")
    rows = frame.select(*columns).orderBy("sequence").collect()
    return [
        (row.sequence, row.subject, row.timestamp, bytes(row.data), row.headers) for row in rows
    ]


def await_last(stream: str, sequence: int, server: Server) -> None:
    """Look until a stream has come to a sequence. Raises AssertionError if it does not."""
    for _ in range(LOOKS_MAX):
        if server.state(stream)["last_seq"] >= sequence:
            return
    raise AssertionError(f"{stream} is at {server.state(stream)}")


@pytest.mark.parametrize("format", FORMATS)
def test_an_archive_of_a_mirror_equals_one_of_its_origin(
    spark: SparkSession, server: Server, tmp_path: Path, format: str
) -> None:
    server.create_stream("orders")
    server.publish(traffic(1, 150))
    for sequence in (1, 17, 149):
        server.delete_message("orders", sequence)
    server.call("STREAM.CREATE.copy", {"name": "copy", "mirror": {"name": "orders"}})
    await_last("copy", 150, server)
    origin = settings(server, tmp_path / "origin", format=format, partition_by=("token:2",))
    mirror = replace(origin, stream="copy", to=str(tmp_path / "mirror"))
    results = [archive(spark, wanted) for wanted in (origin, mirror)]
    assert [(each.messages, each.next_sequence) for each in results] == [(147, 151)] * 2
    rows = whole(spark, origin)
    assert len(rows) == 147
    assert whole(spark, mirror) == rows
