"""Messages that are gone before they were read: found, and either a failure or a report."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from headwater.spark.read.offsets import DataLossError, OffsetError
from headwater.spark.read.source import RangePartition
from tests.kit.stream_servers import Server
from tests.spark.queries import Planner, Run
from tests.spark.reading import sequences, table

Damage = Callable[[Server], None]


def purged(server: Server) -> None:
    server.purge("s", seq=8)


def emptied(server: Server) -> None:
    server.purge("s")
    server.publish([("s.a", b"new")])


def recreated(server: Server) -> None:
    server.delete_stream("s")
    server.create_stream("s")
    server.publish([("s.a", b"new")] * 2)


def filled(server: Server) -> None:
    server.create_stream("s")
    server.publish([("s.a", b"x")] * 10)


DAMAGES: dict[Damage, tuple[str, int, list[int]]] = {
    purged: ("lost 2 sequences, 6 to 7", 2, [8, 9, 10]),
    emptied: ("lost 5 sequences, 6 to 10", 5, [11]),
    recreated: ("was deleted and created again", 0, [1, 2]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_between_two_batches(server: Server, damage: Damage) -> None:
    text, lost, left = DAMAGES[damage]
    filled(server)
    strict = Planner(server, maxMessagesPerTrigger=5)
    lenient = Planner(server, maxMessagesPerTrigger=5, failOnDataLoss="false")
    assert list(strict.read(strict.next())) == [1, 2, 3, 4, 5]
    assert list(lenient.read(lenient.next())) == [1, 2, 3, 4, 5]
    damage(server)
    with pytest.raises(DataLossError, match=text) as failed:
        strict.next()
    assert "failOnDataLoss=false" in str(failed.value)
    assert list(lenient.read(lenient.next())) == left
    assert lenient.offset["lost"] == lost


@pytest.mark.parametrize("damage", [purged, emptied, recreated])
def test_damage_between_planning_and_reading(server: Server, damage: Damage) -> None:
    filled(server)
    strict = Planner(server)
    lenient = Planner(server, failOnDataLoss="false")
    planned, tolerant = strict.next(), lenient.next()
    damage(server)
    with pytest.raises(DataLossError):
        list(strict.read(planned))
    assert list(lenient.read(tolerant)) == ([8, 9, 10] if damage is purged else [])


@pytest.mark.parametrize(("damage", "lost"), [(purged, 7), (emptied, 10), (recreated, 10)])
def test_what_is_lost_inside_a_planned_batch_is_counted(
    server: Server, damage: Damage, lost: int
) -> None:
    filled(server)
    planner = Planner(server, failOnDataLoss="false")
    reader, start = planner.reader, planner.offset
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    damage(server)
    # Spark asks for the parts of a batch when it is about to be read, also in a replay.
    assert reader.partitions(start, end) == reader.partitions(start, end)
    after = reader.latestOffset(end, reader.getDefaultReadLimit())
    assert after["lost"] == lost
    # Lost messages are counted once.
    assert reader.latestOffset(after, reader.getDefaultReadLimit())["lost"] == lost


def test_other_subjects_at_a_restart_are_a_changed_option(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.create_stream("s")
    server.publish([("s.a", b"x"), ("s.b", b"x")] * 5)
    before = Planner(server, subjects="s.a", maxMessagesPerTrigger=3)
    start = before.offset
    before.next()
    # The batch was not committed; the query comes back with another option.
    after = Planner(server, subjects="s.b")
    parts = after.reader.partitions(start, before.offset)
    replayed = after.read([part for part in parts if isinstance(part, RangePartition)])
    assert list(replayed) == [1, 3, 5]
    assert "option subjects was changed from 's.a' to 's.b'" in caplog.text
    assert "loss" not in caplog.text
    after.offset = before.offset
    assert list(after.read(after.next())) == [8, 10]
    assert caplog.text.count("option subjects was changed") == 1


def test_a_stream_that_is_gone_is_waited_for_if_losses_are_allowed(server: Server) -> None:
    filled(server)
    strict, lenient = Planner(server), Planner(server, failOnDataLoss="false")
    assert len(list(lenient.read(lenient.next()))) == 10
    server.delete_stream("s")
    with pytest.raises(DataLossError, match="stream s was deleted"):
        strict.next()
    assert lenient.next() == lenient.next() == []
    server.create_stream("s")
    server.publish([("s.a", b"new")])
    assert list(lenient.read(lenient.next())) == [1]


def test_a_message_deleted_before_planning_is_simply_not_there(server: Server) -> None:
    filled(server)
    server.delete_message("s", 4)
    planner = Planner(server)
    assert list(planner.read(planner.next())) == [1, 2, 3, 5, 6, 7, 8, 9, 10]


def test_a_message_deleted_after_planning_is_a_loss(server: Server) -> None:
    filled(server)
    planner = Planner(server)
    planned = planner.next()
    server.delete_message("s", 4)
    with pytest.raises(DataLossError, match="has 9 of 10 messages that were planned"):
        list(planner.read(planned))


def test_messages_that_go_by_design_are_no_loss(server: Server) -> None:
    server.create_stream("s", max_msgs_per_subject=1)
    server.publish([(f"s.{i}", b"x") for i in range(10)])
    planner = Planner(server, maxMessagesPerTrigger=5, changes="all")
    planned = planner.next()
    server.publish([(f"s.{i}", b"x") for i in range(8)])
    assert list(planner.read(planned)) == []
    found: list[int] = []
    while parts := planner.next():
        found += planner.read(parts)
    assert found == list(range(9, 19))


def test_a_checkpoint_of_another_stream(server: Server) -> None:
    filled(server)
    server.create_stream("t")
    planner = Planner(server)
    other = Planner(server, stream="t")
    with pytest.raises(OffsetError, match="belongs to stream s, the options name t"):
        other.reader.latestOffset(planner.offset, other.reader.getDefaultReadLimit())


def test_a_batch_read_that_starts_at_what_is_gone(spark: SparkSession, server: Server) -> None:
    filled(server)
    server.purge("s", seq=5)
    assert sequences(table(spark, server, stream="s")) == [5, 6, 7, 8, 9, 10]
    options = {"stream": "s", "startingSequence": 2}
    with pytest.raises(PySparkException, match="lost 3 sequences, 2 to 4") as failed:
        table(spark, server, **options).collect()
    assert "Traceback" not in str(failed.value)
    lenient = table(spark, server, failOnDataLoss="false", **options)
    assert sequences(lenient) == [5, 6, 7, 8, 9, 10]


def test_a_stream_recreated_under_a_running_query(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Without the option the query fails and says so; with it, it goes on and reports."""
    filled(server)
    run = Run(spark, server, tmp_path)
    query = run.start(stream="s")
    query.processAllAvailable()
    recreated(server)
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination()
    # The query may look between the deletion and the creation.
    assert "DataLossError: stream s was deleted" in str(failed.value)
    assert "Traceback" not in str(failed.value)
    assert run.finish(stream="s", failOnDataLoss="false") == [2]
    assert run.sequences() == [1, 1, 2, 2, *range(3, 11)]
