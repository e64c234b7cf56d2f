"""Parts that not every supported Spark has are imported from one module."""

import re
from pathlib import Path

import headwater.spark

PACKAGE = Path(headwater.spark.__path__[0])
NEWER = re.compile(
    r"pyspark\.sql\.streaming\.datasource import"
    r"|pyspark\.sql\.pandas\.types import [^\n]*to_arrow_schema"
    r"|pyspark\.sql\.datasource import \(?[^)\n]*(\n[^)]*)?\bDataSourceStreamArrowWriter\b"
)


def test_what_an_older_spark_lacks_is_imported_from_the_module_of_versions_alone() -> None:
    found = {path.name for path in PACKAGE.rglob("*.py") if NEWER.search(path.read_text("utf-8"))}
    assert found == {"versions.py"}
