"""Keys that are put all the time, in a whole query: each batch has all of them, under a ledger."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.stream_servers import Server
from tests.spark.hot_keys import COLD_KEYS, HOT_KEYS, Ledger, LedgerError, run


def test_hot_keys_are_in_every_batch(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    result = run(spark, server, tmp_path, seconds=300.0, interval_s=0.0, batches_max=4)
    assert result.batches >= 4
    assert result.newest_seen == result.keys == len(HOT_KEYS) + len(COLD_KEYS)


def test_the_ledger_finds_what_is_wrong() -> None:
    ledger = Ledger()
    ledger.put(["a", "b"])
    ledger.acknowledge(["a", "b"], 2)
    with pytest.raises(LedgerError, match="a at revision 1 was never b'9'"):
        ledger.take([("a", 1, b"9")], ())
    with pytest.raises(LedgerError, match=r"batch 0 has nothing of \['b'\]"):
        ledger.take([("a", 1, b"0")], ("a", "b"))
    assert not ledger.is_caught_up
    ledger.take([("a", 1, b"0"), ("b", 2, b"1")], ("b",))
    assert ledger.is_caught_up
    with pytest.raises(LedgerError, match="batch 1 has a key twice"):
        ledger.take([("a", 1, b"0"), ("a", 1, b"0")], ())
    ledger.put(["a"])
    ledger.acknowledge(["a"], 3)
    ledger.take([("a", 3, b"2")], ("a",))
    with pytest.raises(LedgerError, match="a went back to revision 1"):
        ledger.take([("a", 1, b"0")], ())
    with pytest.raises(LedgerError, match="revision 9 was acknowledged for put 3"):
        ledger.acknowledge(["a"], 9)
