"""Errors are reported in one line that names the option, before any job runs."""

import re
from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from headwater.spark.options import OptionError, SourceOptions
from headwater.spark.read.source import check_reachable
from tests.kit.stream_servers import Server, free_port
from tests.spark.conftest import StartServer

# A message of ours with the text that Spark puts around it.
MESSAGE = re.compile(r": headwater\.[\w.]+Error: (.*)\n SQLSTATE")


def line_of(error: PySparkException) -> str:
    """The message, without the text that Spark puts around it; it has to be one line."""
    text = str(error)
    assert "Traceback" not in text
    found = MESSAGE.search(text)
    assert found is not None, text
    return found[1]


def refusal_of_load(spark: SparkSession, **options: str) -> str:
    """The error of `load`, which is equal for batches and streams."""
    lines = []
    readers: list[DataFrameReader | DataStreamReader] = [spark.read, spark.readStream]
    for reader in readers:
        with pytest.raises(AnalysisException) as refused:
            reader.format("headwater").options(**options).load()
        lines.append(line_of(refused.value))
    assert lines[0] == lines[1]
    return lines[0]


def jobs_run(spark: SparkSession, action: Callable[[], object]) -> int:
    """The number of jobs that an action starts."""
    context = spark.sparkContext
    context.setJobGroup("errors", "errors")
    try:
        with pytest.raises(PySparkException):
            action()
        return len(context.statusTracker().getJobIdsForGroup("errors"))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def test_bad_options(spark: SparkSession) -> None:
    assert refusal_of_load(spark, stream="a", failOnDataLos="x") == (
        "option failondatalos is unknown: did you mean failOnDataLoss?"
    )
    assert refusal_of_load(spark, stream="a", startingSequence="x").startswith(
        "option startingSequence='x' is not valid: allowed is a whole number"
    )


def test_an_unreachable_server(spark: SparkSession) -> None:
    port = free_port()
    url = f"nats://127.0.0.1:{port}"
    line = refusal_of_load(spark, stream="a", url=url, retries="0")
    assert line.startswith(f"option url: no server answers at url {url}")


def test_a_missing_table(spark: SparkSession, server: Server) -> None:
    line = refusal_of_load(spark, url=server.url, stream="none")
    assert line.startswith(f"option stream='none': there is no such stream at {server.url}")
    for kind, called in (("bucket", "bucket"), ("objects", "object store")):
        with pytest.raises(OptionError, match=f"option {kind}='none': there is no such {called}"):
            check_reachable(SourceOptions.parse({"url": server.url, kind: "none"}))


@pytest.mark.parametrize("kind", ["headwater", "nats-server"])
def test_wrong_credentials(spark: SparkSession, start_server: StartServer, kind: str) -> None:
    server = start_server(
        kind,
        config='authorization { user: "me", password: "right" }',
        credentials={"user": "me", "pass": "right"},
    )
    server.create_stream("a")
    line = refusal_of_load(spark, url=server.url, stream="a", user="me", password="secret")
    assert line.startswith("option user: the server refused the credentials")
    assert "secret" not in line
    line = refusal_of_load(spark, url=server.url, stream="a")
    assert line.startswith("option user (or token, nkey, creds) is missing")
    good = {"url": server.url, "stream": "a", "user": "me", "password": "right"}
    assert spark.read.format("headwater").options(**good).load().count() == 0


@pytest.mark.parametrize("kind", ["headwater", "nats-server"])
def test_what_the_server_does_not_have(start_server: StartServer, kind: str) -> None:
    server = start_server(kind)
    server.create_stream("a")
    server.create_stream("b", allow_direct=False)
    lacking = [("a", "linearizable"), ("b", "weak"), ("b", "session")]
    for stream, level in [*lacking, ("a", "session")] if kind == "nats-server" else lacking:
        options = {"url": server.url, "stream": stream, "readConsistency": level}
        with pytest.raises(OptionError, match=f"^option readConsistency='{level}': ") as refused:
            check_reachable(SourceOptions.parse(options))
        assert "or use leader" in str(refused.value)
    for level in ("weak", "leader"):
        options = {"url": server.url, "stream": "a", "readConsistency": level}
        check_reachable(SourceOptions.parse(options))


def test_no_job_runs_for_what_only_planning_can_find(
    spark: SparkSession, headwater_server: Server
) -> None:
    headwater_server.create_stream("a")
    headwater_server.publish([("a.a", b"")])
    reader = spark.read.format("headwater").option("url", headwater_server.url)
    late = reader.options(stream="a", starting="latest").load()
    assert jobs_run(spark, late.collect) == 0
    with pytest.raises(AnalysisException) as refused:
        late.collect()
    assert line_of(refused.value).startswith("option starting=latest is for streaming reads")
    # With a schema of the user's own Spark does not ask for ours: the first action looks.
    missing = reader.schema("data binary").options(stream="none").load()
    assert jobs_run(spark, missing.collect) == 0
    other = reader.schema("data string").options(stream="a").load()
    with pytest.raises(AnalysisException) as refused:
        other.collect()
    assert line_of(refused.value).startswith("schema: the column 'data' is of type binary")


def test_a_query_that_cannot_start_says_why(spark: SparkSession, headwater_server: Server) -> None:
    headwater_server.create_bucket("b")
    rows = (
        spark.readStream.format("headwater")
        .options(url=headwater_server.url, bucket="b", history="false")
        .load()
    )
    query = rows.writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination()
    assert "option history=false is for batch reads" in str(failed.value)
    assert "Traceback" not in str(failed.value)
