"""The demo: traffic that is the same every time, a server that ends with it, and what it shows."""

import json
import os
import re
import signal
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.cli.commands import run
from headwater.client.link.connection import Connection
from headwater.client.link.errors import UnreachableError
from headwater.client.link.login import Login
from headwater.spark.demo import (
    ORDERS_STREAM,
    PRICES_HISTORY,
    SOURCES,
    DemoServerError,
    Source,
    demo_server,
    price_changes,
    publish_traffic,
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stream)
def test_the_traffic_is_the_same_every_time(source: Source) -> None:
    assert list(source.messages(2_000)) == list(source.messages(2_000))
    # More of it begins with the same.
    assert list(islice(source.messages(2_000), 100)) == list(source.messages(100))


def test_no_price_changes_so_often_that_the_bucket_forgets() -> None:
    subjects = [message.subject for message in price_changes()]
    assert max(map(subjects.count, set(subjects))) <= PRICES_HISTORY


def test_the_server_ends_with_the_demo(tmp_path: Path) -> None:
    with demo_server(tmp_path / "store") as server:
        login = Login(server.url, retries=0)
        Connection(login).close()
    with pytest.raises(UnreachableError):
        Connection(login)


def test_the_server_goes_on_after_the_demo_if_it_was_asked_to(tmp_path: Path) -> None:
    with demo_server(tmp_path / "store") as server:
        server.goes_on = True
    try:
        Connection(Login(server.url, retries=0)).close()
    finally:
        server.end()
    # The server could still write to its log when no other process had it open.
    assert "Server Exiting" in (tmp_path / "store" / "server.log").read_text()


def test_the_server_ends_with_a_demo_that_failed(tmp_path: Path) -> None:
    def failing_demo() -> None:
        with demo_server(tmp_path / "store") as server:
            server.goes_on = True
            raise DemoServerError(server.url)

    with pytest.raises(DemoServerError) as failure:
        failing_demo()
    with pytest.raises(UnreachableError):
        Connection(Login(str(failure.value), retries=0))


def test_a_server_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    store = tmp_path / "store"
    # A store belongs to one server at a time.
    with (
        demo_server(store),
        pytest.raises(DemoServerError, match=re.escape(str(store / "server.log"))),
        demo_server(store),
    ):
        pass


def test_a_second_demo_in_the_same_folder_adds_nothing(tmp_path: Path) -> None:
    with demo_server(tmp_path / "store") as server:
        first = publish_traffic(Login(server.url))
    with demo_server(tmp_path / "store") as server:
        assert publish_traffic(Login(server.url)) == first
    assert first == {source.stream: source.count for source in SOURCES}


def test_the_demo_shows_an_archive_tables_and_a_report(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", "demo", "--folder", str(tmp_path), "--keep-running"]) == 0
    out = capsys.readouterr().out
    (pid,) = re.findall(r"^End it:  kill (\d+)$", out, re.MULTILINE)
    os.kill(int(pid), signal.SIGTERM)
    os.waitpid(int(pid), 0)
    assert re.search(r"^The demo took \S+, \S+ of it until Spark had started$", out, re.MULTILINE)
    # The archive that was written to warm Spark up is not in the output, and gone.
    assert out.count("\n  Stream: ") == 1
    assert not (tmp_path / "warm-up").exists()
    counts = {source.stream: source.count for source in SOURCES}
    for stream, count in counts.items():
        assert re.search(rf"^{stream} +{count:,}$", out, re.MULTILINE)
    assert f"Archived orders: {counts[ORDERS_STREAM]:,} rows" in out
    assert f"History of prices: {counts['KV_prices']:,} rows" in out
    assert "orders.us.placed" in out
    (report,) = re.findall(r"^The report is (.+)$", out, re.MULTILINE)
    assert "<svg" in Path(report).read_text()
    figures = json.loads((Path(report).parent / "figures.json").read_text())
    assert figures["all"]["total"]["messages"] == counts[ORDERS_STREAM]
    assert os.path.commonpath([report, tmp_path]) == str(tmp_path)
