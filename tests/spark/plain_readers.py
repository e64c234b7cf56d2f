"""Programs that read archives and know nothing of the project: which sequences they find.

Each reads as its own guide says: a Delta table through its log, a Parquet archive by the pattern
of all its files.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl
import pyarrow.dataset as ds
from deltalake import DeltaTable

Reader = Callable[[Path], list[int]]


def pattern(root: Path) -> str:
    return f"{root}/**/*.parquet"


def has_files(root: Path) -> bool:
    """DuckDB and Polars take a pattern that finds nothing for a mistake."""
    return next(root.rglob("*.parquet"), None) is not None


def by_duckdb(source: str, values: list[Any]) -> list[int]:
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT sequence FROM {source} ORDER BY 1", values).fetchall()
    return [sequence for (sequence,) in rows]


def duckdb_parquet(root: Path) -> list[int]:
    source = "read_parquet(?, hive_partitioning = true)"
    return by_duckdb(source, [pattern(root)]) if has_files(root) else []


def polars_parquet(root: Path) -> list[int]:
    if not has_files(root):
        return []
    frame = pl.scan_parquet(pattern(root), hive_partitioning=True)
    return sorted(frame.select("sequence").collect()["sequence"].to_list())


def pyarrow_parquet(root: Path) -> list[int]:
    found = ds.dataset(root, format="parquet", partitioning="hive")
    if not found.files:
        return []
    return sorted(found.to_table(["sequence"])["sequence"].to_pylist())


def deltalake_delta(root: Path) -> list[int]:
    return sorted(DeltaTable(str(root)).to_pyarrow_table()["sequence"].to_pylist())


def pyarrow_delta(root: Path) -> list[int]:
    found = DeltaTable(str(root)).to_pyarrow_dataset()
    return sorted(found.to_table(["sequence"])["sequence"].to_pylist())


def duckdb_delta(root: Path) -> list[int]:
    # Its own reader of Delta is an extension that it fetches from the network.
    files = DeltaTable(str(root)).file_uris()
    return by_duckdb("read_parquet(?)", [files]) if files else []


def polars_delta(root: Path) -> list[int]:
    return sorted(pl.scan_delta(str(root)).select("sequence").collect()["sequence"].to_list())


READERS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "parquet": {"duckdb": duckdb_parquet, "polars": polars_parquet, "pyarrow": pyarrow_parquet},
    "delta": {
        "deltalake": deltalake_delta,
        "duckdb": duckdb_delta,
        "polars": polars_delta,
        "pyarrow": pyarrow_delta,
    },
}
