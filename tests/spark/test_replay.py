"""The job `replay`: the same messages once more, in their order, and each of them once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.client.link.publisher import Publisher
from headwater.spark.jobs.archive.job import ArchiveSettings, archive
from headwater.spark.jobs.progress import Silent
from headwater.spark.jobs.replay import job as replay_module
from headwater.spark.jobs.replay.job import ReplayResult, ReplaySettings, replay
from headwater.spark.jobs.replay.lane import LanePlan, header_block, publish_lane, refused_headers
from headwater.spark.jobs.replay.marker import Claim, Marker, MarkerEntry
from headwater.spark.jobs.replay.pacing import FULL_SPEED, Anchor
from headwater.spark.options import OptionError
from headwater.spark.read.offsets import DataLossError
from headwater.spark.write.markers import OvertakenError
from tests.kit import stream_servers as servers
from tests.kit.stream_servers import Message, Server

# The shortest window that servers allow: repeats are then found by the replay, not by the server.
SHORT_WINDOW_NS = 100_000_000


def run(spark: SparkSession, server: Server, **settings: Any) -> ReplayResult:
    given = {"stream": "S", "to_stream": "T", "subject_from": "S.>", "subject_to": "T.>"}
    return replay(spark, ReplaySettings(Login(url=server.url), **{**given, **settings}))


def publish(server: Server, count: int, first: int = 1) -> None:
    server.publish((f"S.{each % 7}", b"%d" % each) for each in range(first, first + count))


def payloads(server: Server, stream: str = "T") -> list[int]:
    return [int(each.data) for each in server.stored(stream)]


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "UNIT_MESSAGES", 40)


def test_everything_again_under_other_subjects(spark: SparkSession, server: Server) -> None:
    """With gaps, headers, empty and binary payloads; a second run has nothing to do."""
    server.create_stream("S")
    server.create_stream("T")
    traced = servers.header_block({"Trace": ["a b", "c"], "Nats-Msg-Id": ["mine"]})
    server.publish(
        [
            Message("S.a.x", b"1", traced),
            Message("S.b.y", b""),
            Message("S.a.z", bytes(range(256))),
            Message("S.other", b"4"),
            *(Message(f"S.a.{each}", b"%d" % each) for each in range(5, 11)),
        ]
    )
    server.delete_message("S", 6)
    rule = {"subject_from": "S.*.*", "subject_to": "T.{{wildcard(2)}}.{{wildcard(1)}}"}
    kept = {"subjects": ("S.*.*",), **rule}
    result = run(spark, server, **kept)
    assert (result.published, result.first_sequence, result.last_sequence) == (8, 1, 10)
    found = server.stored("T")
    assert [(each.subject, each.data) for each in found[:3]] == [
        ("T.x.a", b"1"),
        ("T.y.b", b""),
        ("T.z.a", bytes(range(256))),
    ]
    assert [int(each.data) for each in found[3:]] == [5, 7, 8, 9, 10]
    assert found[0].header == servers.header_block(
        {"Nats-Msg-Id": [f"{result.name}:1"], "Trace": ["a b", "c"]}
    )
    again = run(spark, server, **kept)
    assert (again.published, again.published_before) == (0, 8)
    assert server.consumers("S") == []


def test_bounds_and_pace(spark: SparkSession, headwater_server: Server) -> None:
    server = headwater_server
    server.create_stream("S")
    server.create_stream("T")
    publish(server, 60)
    stored = server.stored("S")
    result = run(
        spark,
        server,
        speed=10.0,
        from_sequence=11,
        until_sequence=50,
        from_time=stored[19].time[:23] + "Z",
    )
    found = payloads(server)
    # Spark's times are in microseconds, and several messages may share a millisecond.
    assert found == list(range(found[0], 51))
    assert 11 <= found[0] <= 20
    assert result.published == len(found)
    result = run(spark, server, until_time=stored[0].time)
    assert result.published == 0


def test_the_incarnations_of_a_stream_are_replayed_one_after_the_other(
    spark: SparkSession, headwater_server: Server, tmp_path: Path, small_units: None
) -> None:
    server = headwater_server
    path = str(tmp_path / "archive")
    for first in (1, 101):
        server.create_stream("S")
        server.publish((f"S.{n % 3}", b"%d" % n) for n in range(first, first + 100))
        settings = ArchiveSettings(Login(url=server.url), "S", path, fail_on_data_loss=False)
        archive(spark, settings)
        server.delete_stream("S")
    server.create_stream("T", "S.>")
    wanted = ReplaySettings(Login(url=server.url), "T", archive=path)
    assert replay(spark, wanted).published == 200
    assert payloads(server) == [*range(1, 201)]
    again = replay(spark, wanted)
    assert (again.published, again.published_before) == (0, 200)
    # The state that a run leaves which was killed within the second incarnation.
    server.create_stream("U", "U.>")
    part = replace(
        wanted, to_stream="U", subject_from="S.*", subject_to="U.{{wildcard(1)}}", name="part"
    )
    units = iter(range(3))

    class Killing(Silent):
        def advance(self, count: int) -> None:
            if next(units, None) is None:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(spark, part, Killing())
    assert payloads(server, "U") == [*range(1, 141)]
    replay(spark, part)
    assert payloads(server, "U") == [*range(1, 201)]


def test_an_archive_into_a_stream(
    spark: SparkSession, headwater_server: Server, tmp_path: Path, small_units: None
) -> None:
    server = headwater_server
    server.create_stream("S")
    publish(server, 100)
    path = str(tmp_path / "archive")
    archive(spark, ArchiveSettings(Login(url=server.url), "S", path))
    server.delete_stream("S")
    server.create_stream("T", "S.>")
    settings = ReplaySettings(
        Login(url=server.url), "T", archive=path, subjects=("S.1", "S.2"), from_sequence=10
    )
    result = replay(spark, settings)
    wanted = [each for each in range(10, 101) if each % 7 in (1, 2)]
    assert payloads(server) == wanted
    assert result.published == len(wanted)


class Killed(Exception):
    """Stands for the end of the driver."""


def test_a_run_that_was_killed_is_gone_on_with(
    spark: SparkSession,
    headwater_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    small_units: None,
) -> None:
    """Killed after a unit was published and before that was noted, again and again."""
    server = headwater_server
    server.create_stream("S")
    server.create_stream("T", duplicate_window=SHORT_WINDOW_NS)
    publish(server, 100)
    put = MarkerEntry.put
    puts: list[int] = []

    def put_or_die(self: MarkerEntry, marker: Marker) -> None:
        puts.append(marker.next)
        if len(puts) in (2, 4, 7):
            raise Killed
        put(self, marker)

    monkeypatch.setattr(MarkerEntry, "put", put_or_die)
    for _ in range(3):
        with pytest.raises(Killed):
            run(spark, server)
    result = run(spark, server)
    assert payloads(server) == list(range(1, 101))
    assert result.present > 0
    assert result.published + result.present + result.published_before == 100


def test_what_can_not_be_gone_on_with(
    spark: SparkSession, headwater_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = headwater_server
    server.create_stream("S")
    server.create_stream("T")
    publish(server, 10)
    run(spark, server, name="again")
    with pytest.raises(OptionError, match="name='again' is taken by a replay of other messages"):
        run(spark, server, name="again", until_sequence=5)

    # Killed before anything was published, and the source loses messages.
    def die(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(replay_module, "LanePlan", die)
    for name in ("lossy", "anew"):
        with pytest.raises(Killed):
            run(spark, server, name=name)
    monkeypatch.undo()
    server.purge("S", seq=4)
    with pytest.raises(DataLossError, match=r"stream S lost 3 sequences.*fail_on_data_loss"):
        run(spark, server, name="lossy")
    result = run(spark, server, name="lossy", fail_on_data_loss=False)
    assert result.published == 7
    assert result.lost is not None

    server.delete_stream("S")
    server.create_stream("S")
    with pytest.raises(OptionError, match="stream='S' was deleted and created again"):
        run(spark, server, name="anew")
    server.delete_stream("T")
    server.create_stream("T")
    with pytest.raises(OptionError, match="to_stream='T' was deleted and created again"):
        run(spark, server, name="again")
    with pytest.raises(OptionError, match="to_stream='U' is not valid: the server has no such"):
        run(spark, server, to_stream="U")


# --- the lane by itself -------------------------------------------------------------------------


class Lane:
    """A target stream and the plan of a task that fills it."""

    def __init__(self, server: Server, **config: object) -> None:
        self.server = server
        server.create_stream("T", **config)
        self.login = Login(url=server.url)
        with Connection(self.login) as connection:
            api = ApiClient(connection)
            api.ensure_bucket("markers")
            entry = MarkerEntry(api, "markers", "r")
            info = api.stream_info("T")
            entry.put(Marker("what", info.created, "", 1, 100, 0))
            self.plan = LanePlan(
                login=self.login,
                to_stream="T",
                name="r",
                claim=entry.claim(info),
                floor=0,
                target_keeps="max_msgs_per_subject" not in config,
                speed=FULL_SPEED,
                anchor=Anchor(0, 0),
                rule=None,
                refused_headers=refused_headers(info),
            )

    def publish(self, *batches: Sequence[int], **changes: Any) -> dict[str, Any]:
        """Publish these sequences; the figures of the task."""
        made = (self.batch(each) for each in batches)
        (figures,) = publish_lane(made, replace(self.plan, **changes))
        (row,) = figures.to_pylist()
        assert isinstance(row, dict)
        return row

    def batch(self, sequences: Sequence[int]) -> pa.RecordBatch:
        headers = pa.map_(pa.string(), pa.list_(pa.string()))
        return pa.RecordBatch.from_pydict(
            {
                "sequence": list(sequences),
                "subject": [f"T.{each % 3}" for each in sequences],
                "headers": pa.array([[] for _ in sequences], headers),
                "data": [b"%d" % each for each in sequences],
                "stored_us": [0] * len(sequences),
            }
        )


def test_a_task_tried_again_leaves_out_what_is_there(server: Server) -> None:
    lane = Lane(server, duplicate_window=SHORT_WINDOW_NS)
    assert lane.publish(range(1, 31))["published"] == 30
    server.publish([("T.x", b"0")])
    row = lane.publish(range(1, 51), range(51, 61))
    assert (row["published"], row["present"], row["last_sequence"]) == (30, 30, 61)
    assert payloads(server) == [*range(1, 31), 0, *range(31, 61)]


def test_where_messages_make_way_for_others_order_tells(server: Server) -> None:
    """Only the newest of a subject is kept: older ones must not come back after it."""
    lane = Lane(server, duplicate_window=SHORT_WINDOW_NS, max_msgs_per_subject=1)
    lane.publish(range(1, 31))
    row = lane.publish(range(1, 32))
    assert (row["published"], row["present"]) == (1, 30)
    assert payloads(server) == [29, 30, 31]


def test_a_lost_connection_loses_and_doubles_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends after a flight was sent: part of it arrives, no ack does."""
    lane = Lane(server, duplicate_window=SHORT_WINDOW_NS)
    send = Publisher.send
    breaks = iter([False, True, False, True])

    def send_and_break(self: Publisher, part: Any) -> None:
        send(self, part)
        if next(breaks, False):
            self._connection.close()

    monkeypatch.setattr(Publisher, "send", send_and_break)
    lane.publish(*(range(first, first + 50) for first in range(1, 301, 50)))
    assert payloads(server) == list(range(1, 301))


def test_a_server_that_restarts_is_waited_for(server: Server) -> None:
    lane = Lane(server, duplicate_window=SHORT_WINDOW_NS)

    def batches() -> Iterator[pa.RecordBatch]:
        yield lane.batch(range(1, 51))
        server.kill()
        server.start()
        yield lane.batch(range(51, 101))

    list(publish_lane(batches(), lane.plan))
    assert payloads(server) == list(range(1, 101))


def test_a_task_that_was_overtaken_publishes_nothing(headwater_server: Server) -> None:
    lane = Lane(headwater_server)
    claim = lane.plan.claim
    with Connection(lane.login) as connection:
        entry = MarkerEntry(ApiClient(connection), claim.bucket, claim.name)
        marker = entry.read()
        assert marker is not None
        entry.put(marker)
        late = MarkerEntry(ApiClient(connection), claim.bucket, claim.name)
        late.revision = claim.revision
        with pytest.raises(OvertakenError, match="another run of replay r"):
            late.put(marker)
    for each in (claim, Claim(claim.bucket, "nobody", 1, 1.0)):
        assert "another run of replay" in lane.publish(range(1, 11), claim=each)["problem"]
    assert payloads(headwater_server) == []


def test_what_the_target_refuses_is_told_in_a_line(headwater_server: Server) -> None:
    lane = Lane(headwater_server, max_msg_size=100)
    batch = lane.batch([1])
    large = batch.set_column(3, "data", pa.array([b"x" * 200]))
    (figures,) = publish_lane([large], lane.plan)
    assert "row 1 (subject T.1) was refused" in figures.to_pylist()[0]["problem"]


def test_headers_that_give_orders_stay_behind() -> None:
    headers = [
        ("Nats-Msg-Id", ["old"]),
        ("Nats-Expected-Last-Sequence", ["7"]),
        ("nats-batch-id", ["x"]),
        ("Nats-TTL", ["1h"]),
        ("Trace", ["1", "2"]),
    ]
    assert header_block(headers, b"r:1", ()) == servers.header_block(
        {"Nats-Msg-Id": ["r:1"], "Nats-TTL": ["1h"], "Trace": ["1", "2"]}
    )
    assert header_block(headers, b"r:1", ("nats-ttl",)) == servers.header_block(
        {"Nats-Msg-Id": ["r:1"], "Trace": ["1", "2"]}
    )


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"stream": None}, "set one of the options stream and archive: neither"),
        ({"archive": "x"}, "both were"),
        ({"to_stream": "a.b"}, "option stream='a.b'"),
        ({"speed": -1.0}, "speed=-1.0"),
        ({"speed": float("nan")}, "speed=nan"),
        ({"speed": 1e9}, "speed=1000000000.0"),
        ({"subjects": ("a..b",)}, "'a..b' is no subject"),
        ({"from_sequence": 0}, "from_sequence=0"),
        ({"from_sequence": 9, "until_sequence": 3}, "lies before"),
        ({"from_time": "noon"}, "from_time='noon'"),
        ({"from_time": "2026-02-01", "until_time": "2026-01-01"}, "is not after"),
        ({"subject_to": None}, "belong together"),
        ({"subject_to": "T.{{wildcard(9)}}"}, "subject_to"),
        ({"subject_from": "S", "subject_to": "T.{{random(3)}}"}, "without random"),
        ({"name": "a b"}, "name='a b'"),
        ({"marker_bucket": "a.b"}, "markerBucket"),
        ({"to_url": "ftp://x"}, "url"),
        ({"to_stream": "S", "subject_from": None, "subject_to": None}, "is the source itself"),
    ],
)
def test_settings_are_checked_before_anything_starts(
    settings: dict[str, Any], complaint: str
) -> None:
    given = {"stream": "S", "to_stream": "T", "subject_from": "S.>", "subject_to": "T.>"}
    with pytest.raises(OptionError, match=complaint):
        ReplaySettings(**{"login": Login(), **given, **settings}).check()


def test_other_messages_are_another_replay() -> None:
    settings = ReplaySettings(Login(), "T", stream="S")
    assert replace(settings, speed=2.0).run_name() == settings.run_name()
    others = [
        replace(settings, subjects=("a",)),
        replace(settings, until_sequence=5),
        replace(settings, to_stream="U"),
        replace(settings, subject_from="a", subject_to="b"),
    ]
    names = {each.run_name() for each in (settings, *others)}
    assert len(names) == 1 + len(others)
