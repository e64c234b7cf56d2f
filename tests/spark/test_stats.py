"""The job `stats`: figures that a few lines of plain Python come to as well."""

import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.jobs.stats.figures import Distribution, Figures, Span
from headwater.spark.jobs.stats.job import (
    Extent,
    StatsSettings,
    TimeFormat,
    figures_of,
    sent_us,
    stats,
    window_width_s,
)
from headwater.spark.options import OptionError
from tests.kit.stream_servers import Message, Server, header_block

NOON = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
SCHEMA = (
    "stream string, subject string, sequence bigint, timestamp timestamp,"
    " headers map<string,array<string>>, data binary"
)
Row = tuple[str, str, int, datetime, dict[str, list[str]], bytes]


def messages(count: int) -> list[Row]:
    """Some hours of traffic on five subjects, one of them much larger."""
    rng = random.Random(6)
    rows: list[Row] = []
    time = NOON
    for sequence in range(1, count + 1):
        time += timedelta(microseconds=rng.randrange(30_000_000))
        subject = rng.choices(["a.x.1", "a.x.2", "a.y", "b", "c.z"], [8, 4, 3, 2, 1])[0]
        sent = time - timedelta(microseconds=rng.randrange(1, 500_000))
        headers = {"Sent": [sent.isoformat()]} if subject != "b" else {}
        rows.append(("S", subject, sequence, time, headers, b"x" * rng.randrange(2_000)))
    return rows


def spread(values: Iterable[float]) -> Distribution | None:
    """The distribution of values, computed by rank as its definition says."""
    ordered = sorted(values)
    if not ordered:
        return None
    ranks = [ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.9, 0.99)]
    return Distribution(len(ordered), ordered[0], ranks[0], ranks[1], ranks[2], ordered[-1])


def expected(rows: Sequence[Row], window_s: float) -> dict[int | None, Span]:
    """The spans of a group, by window from noon on, and as a whole."""
    found: dict[int | None, list[tuple[Row, float | None]]] = defaultdict(list)
    before: datetime | None = None
    for row in rows:
        gap = None if before is None else (row[3] - before).total_seconds()
        before = row[3]
        found[int((row[3] - NOON).total_seconds() // window_s)].append((row, gap))
        found[None].append((row, gap))
    return {
        window: Span(
            len(each),
            sum(len(row[5]) for row, _ in each),
            spread([float(len(row[5])) for row, _ in each]),
            spread([gap for _, gap in each if gap is not None]),
            spread(
                [
                    (row[3] - datetime.fromisoformat(row[4]["Sent"][0])).total_seconds()
                    for row, _ in each
                    if row[4]
                ]
            ),
        )
        for window, each in found.items()
    }


def of(frame: DataFrame, **settings: Any) -> Figures:
    return figures_of(frame, StatsSettings(Login(), "report", stream="S", **settings))


def test_figures_are_those_of_a_dumb_twin(spark: SparkSession) -> None:
    rows = messages(800)
    found = of(
        spark.createDataFrame(rows, SCHEMA),
        window_s=600.0,
        group_tokens=2,
        groups_max=2,
        producer_time="header:Sent",
    )
    assert found.unreadable == sum(row[1] == "b" for row in rows)
    assert found.first_s == rows[0][3].timestamp()
    assert found.last_s == rows[-1][3].timestamp()
    assert found.window_starts_s[0] == NOON.timestamp()
    names = {"a.x.1": "a.x.>", "a.x.2": "a.x.>", "a.y": "a.y"}
    groups = {
        name: [row for row in rows if names.get(row[1], "(2 others)") == name]
        for name in ("a.x.>", "a.y", "(2 others)")
    }
    assert [each.name for each in found.groups] == list(groups)
    for group, members in zip([*found.groups, found.all], [*groups.values(), rows], strict=True):
        twin = expected(members, 600.0)
        assert group.total == twin.pop(None), group.name
        there = {at: span for at, span in enumerate(group.windows) if span.messages}
        assert there == twin, group.name


@pytest.mark.parametrize(
    ("span_s", "width_s"), [(0, 0.001), (1, 0.01), (1500, 15), (3600, 30), (86_400, 900)]
)
def test_a_window_fits_the_span(span_s: int, width_s: float) -> None:
    assert window_width_s(None, Extent(2, 0, span_s * 1_000_000, 0)) == width_s
    assert window_width_s(None, Extent(0, None, None, 0)) == 0.001


def test_a_window_may_not_be_too_small() -> None:
    hour = Extent(2, 0, 3_600_000_000, 0)
    assert window_width_s(2.0, hour) == 2.0
    with pytest.raises(OptionError, match=r"window_s=1 makes 3,600 windows, more than 2000.* 2 or"):
        window_width_s(1.0, hour)


TIMES: list[tuple[bytes, str, TimeFormat, float | None]] = [
    (b'{"at": 1763208000}', "json:at", "s", 5.0),
    (b'{"at": 1763208000.5}', "json:at", "s", 4.5),
    (b'{"meta": {"at": 1763208000250}}', "json:meta.at", "ms", 4.75),
    (b'{"at": 1763208000250000}', "json:at", "us", 4.75),
    (b'{"at": "1763208000250000999"}', "json:at", "ns", 4.75),
    (b'{"at": "2025-11-15T13:00:00.5+01:00"}', "json:at", "rfc3339", 4.5),
    (b'{"at": "2025-11-15T12:00:10Z"}', "json:at", "rfc3339", -5.0),
    (b'{"at": "soon"}', "json:at", "rfc3339", None),
    (b'{"at": "soon"}', "json:at", "ms", None),
    (b'{"at": 1763208000250}', "json:at", "s", None),
    (b'{"at": 99999999999999999999999999999}', "json:at", "s", None),
    (b'{"at": -1}', "json:at", "s", None),
    (b"\xff\xfe", "json:at", "s", None),
    (b"", "header:At", "s", None),
]


def test_the_producers_time(spark: SparkSession) -> None:
    """Times are read as they are written; texts without a time of the unit have none."""
    stored = datetime(2025, 11, 15, 12, 0, 5, tzinfo=UTC)
    rows: list[Row] = [("S", "a", at, stored, {}, data) for at, (data, *_) in enumerate(TIMES)]
    ways = sorted({(place, written) for _, place, written, _ in TIMES})
    columns = [sent_us(*way) for way in ways]
    found = spark.createDataFrame(rows, SCHEMA).orderBy("sequence").select(*columns).collect()
    for row, (data, place, written, latency) in zip(found, TIMES, strict=True):
        sent = row[ways.index((place, written))]
        measured = None if sent is None else stored.timestamp() - sent / 1e6
        assert measured == pytest.approx(latency) if latency else measured is None, data


def test_a_stream_and_its_archive_have_the_same_figures(
    spark: SparkSession, oracle_server: Server, tmp_path: Path
) -> None:
    server = oracle_server
    server.create_stream("S")
    sent = header_block({"Sent": ["2026-11-15T12:00:00Z"]})
    unreadable = header_block({"Sent": ["noon"]})
    server.publish(Message(f"S.{each % 3}", b"x" * each, sent) for each in range(1, 99))
    # Neither has a time that can be read: one has none, the other has a word.
    server.publish([Message("S.0", b"x" * 99), Message("S.1", b"x" * 100, unreadable)])
    login = Login(url=server.url)
    path = str(tmp_path / "archive")
    archive(spark, ArchiveSettings(login, "S", path))
    bounds: dict[str, Any] = {
        "subjects": ("S.0", "S.1"),
        "from_sequence": 11,
        "producer_time": "header:Sent",
    }
    live = stats(spark, StatsSettings(login, str(tmp_path / "live"), stream="S", **bounds))
    kept = stats(spark, StatsSettings(login, str(tmp_path / "kept"), archive=path, **bounds))
    wanted = [each for each in range(11, 101) if each % 3 != 2]
    assert (live.messages, live.bytes, live.groups) == (len(wanted), sum(wanted), 2)
    assert live.times_unreadable == kept.times_unreadable == 2
    documents = [json.loads(Path(each.figures).read_text()) for each in (live, kept)]
    sources = [each.pop("source") for each in documents]
    assert sources == ["stream S", f"archive {path}"]
    assert documents[0] == documents[1]
    for each in (live, kept):
        page = Path(each.report).read_text()
        assert page.startswith("<!DOCTYPE html>")
        assert "S.0" in page


def test_no_messages(spark: SparkSession, headwater_server: Server, tmp_path: Path) -> None:
    headwater_server.create_stream("S")
    login = Login(url=headwater_server.url)
    result = stats(spark, StatsSettings(login, str(tmp_path / "report"), stream="S"))
    assert (result.messages, result.first, result.windows, result.groups) == (0, None, 0, 0)
    assert "No messages" in Path(result.report).read_text()
    with pytest.raises(OptionError, match="stream='X' is not valid: the server has no such stream"):
        stats(spark, StatsSettings(login, str(tmp_path / "report"), stream="X"))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"stream": None}, "set one of the options stream and archive"),
        ({"stream": "a b"}, "option stream='a b'"),
        ({"to": ""}, "option to is empty"),
        ({"window_s": 0.0}, "window_s=0.0"),
        ({"window_s": float("nan")}, "window_s=nan"),
        ({"group_tokens": 0}, "group_tokens=0"),
        ({"groups_max": 0}, "groups_max=0"),
        ({"producer_time": "sent"}, "producer_time='sent'"),
        ({"producer_time": "json:a..b"}, "producer_time='json:a..b'"),
        ({"producer_time_format": "days"}, "producer_time_format='days'"),
        ({"until_time": "noon"}, "until_time='noon'"),
    ],
)
def test_settings_are_checked_before_anything_starts(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(OptionError, match=complaint):
        StatsSettings(**{"login": Login(), "to": "report", "stream": "S", **settings}).check()
