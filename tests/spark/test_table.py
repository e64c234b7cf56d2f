"""The job `table`: a bucket's entries as tables, now and as they were."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.client.link.login import Login
from headwater.spark.jobs.progress import Silent
from headwater.spark.jobs.table import latest as table_latest
from headwater.spark.jobs.table.delta_table import Table, TableConflictError
from headwater.spark.jobs.table.job import (
    TableResult,
    TableSettings,
    read_history,
    read_table,
    table,
)
from headwater.spark.options import OptionError
from headwater.spark.read.offsets import DataLossError
from tests.kit.stream_servers import STORE, Message, Server, header_block
from tests.spark.busy_keys import busy_writer

DELETE = header_block({"KV-Operation": ["DEL"]})
PURGE = header_block({"KV-Operation": ["PURGE"], "Nats-Rollup": ["sub"]})


def put(key: str, value: str) -> Message:
    return Message(f"$KV.b.{key}", value.encode())


def delete(key: str) -> Message:
    return Message(f"$KV.b.{key}", b"", DELETE)


def purge(key: str) -> Message:
    return Message(f"$KV.b.{key}", b"", PURGE)


class Tables:
    """The tables of the bucket `b` of a server."""

    def __init__(self, spark: SparkSession, server: Server, to: Path) -> None:
        self.spark = spark
        self.server = server
        self.to = str(to / "tables")

    def run(self, **settings: Any) -> TableResult:
        return table(
            self.spark, TableSettings(Login(url=self.server.url), "b", self.to, **settings)
        )

    def latest(self, **as_of: Any) -> dict[str, str]:
        return values(read_table(self.spark, self.to, **as_of))

    def history(self, **which: Any) -> list[tuple[str, int, str]]:
        rows = read_history(self.spark, self.to, **which).orderBy("revision").collect()
        return [(row.key, row.revision, row.operation) for row in rows]


def values(frame: DataFrame) -> dict[str, str]:
    rows = frame.select("key", "value").collect()
    found = {row.key: bytes(row.value).decode() for row in rows}
    assert len(found) == len(rows), "a key stands in the table twice"
    return found


@pytest.fixture
def tables(spark: SparkSession, server: Server, tmp_path: Path) -> Tables:
    return Tables(spark, server, tmp_path)


@pytest.fixture
def own_tables(spark: SparkSession, headwater_server: Server, tmp_path: Path) -> Tables:
    """For rules that do not depend on the server."""
    return Tables(spark, headwater_server, tmp_path)


def test_values_of_now_and_of_any_revision(tables: Tables) -> None:
    server = tables.server
    server.create_bucket("b", history=10)
    server.publish([put("a", "1"), put("b", "2")])
    # Apart, so that they have times of their own.
    server.publish([put("a", "3"), delete("b"), put("c", "5")])
    result = tables.run(as_of_revision=3)
    assert (result.revision, result.entries, result.missing, result.keys) == (5, 5, 0, 2)
    assert (result.behind, result.lost) == (0, None)
    assert tables.latest() == {"a": "3", "c": "5"}
    assert tables.latest(as_of_revision=2) == {"a": "1", "b": "2"}
    assert tables.latest(as_of_revision=4) == {"a": "3"}
    assert result.as_of is not None
    assert values(Table(result.as_of).read(tables.spark)) == {"a": "3", "b": "2"}
    stored = server.stored("KV_b")
    assert tables.latest(as_of_time=stored[1].time) == {"a": "1", "b": "2"}
    assert tables.latest(as_of_time="2001-01-01") == {}

    # A second run reads the new entries, and the history has those that the bucket has forgotten.
    server.publish([purge("a"), put("b", "7")])
    result = tables.run()
    assert (result.revision, result.entries, result.keys) == (7, 2, 2)
    assert tables.latest() == {"b": "7", "c": "5"}
    assert tables.latest(as_of_revision=3) == {"a": "3", "b": "2"}
    everything = [
        *(("a", 1, "put"), ("b", 2, "put"), ("a", 3, "put"), ("b", 4, "delete")),
        *(("c", 5, "put"), ("a", 6, "purge"), ("b", 7, "put")),
    ]
    assert tables.history(purged=True) == everything
    assert tables.history() == [row for row in everything if row[1] not in (1, 3)]
    assert tables.history(as_of_revision=3) == everything[:3]

    # A third finds nothing to do.
    version = Table(result.history).version
    assert tables.run().entries == 0
    assert Table(result.history).version == version
    with pytest.raises(OptionError, match="as_of_revision=8 lies ahead"):
        tables.latest(as_of_revision=8)


def test_what_was_forgotten_before_the_first_run_is_refused_by_name(tables: Tables) -> None:
    server = tables.server
    server.create_bucket("b")
    server.publish([put("a", "1"), put("b", "2")])
    # Apart, so that they have times of their own.
    server.publish([put("a", "3")])
    result = tables.run()
    assert (result.complete_from, result.revision, result.missing) == (3, 3, 1)
    server.publish([put("c", "4")])
    assert tables.run().complete_from == 3
    assert tables.latest(as_of_revision=3) == {"a": "3", "b": "2"}
    with pytest.raises(OptionError, match="complete from revision 3"):
        tables.latest(as_of_revision=2)
    stored = {message.sequence: message for message in server.stored("KV_b")}
    assert tables.latest(as_of_time=stored[3].time) == {"a": "3", "b": "2"}
    with pytest.raises(OptionError, match=r"as_of_time lies too early.*complete from revision 3"):
        tables.latest(as_of_time=stored[2].time)
    # A table whose bucket had forgotten nothing knows it from the first revision on.
    server.delete_stream("KV_b")
    server.create_bucket("b")
    server.publish([put("a", "1")])
    assert tables.run(fail_on_data_loss=False).complete_from == 1


def test_a_purge_of_some_keys_is_followed(tables: Tables) -> None:
    """A purge by filter leaves neither a mark nor a new revision."""
    server = tables.server
    server.create_bucket("b")
    server.publish([put("in.a", "1"), put("out", "2"), put("in.b", "3"), put("gone", "4")])
    assert tables.run().keys == 4
    server.purge("KV_b", filter="$KV.b.in.*")
    assert tables.run().keys == 2
    assert tables.latest() == {"out": "2", "gone": "4"}
    # A purge is also followed together with new entries, and when the key comes back.
    server.purge("KV_b", filter="$KV.b.gone")
    server.publish([put("in.a", "5")])
    tables.run()
    assert tables.latest() == {"out": "2", "in.a": "5"}


def test_keys_that_are_put_all_the_time_are_in_the_table(tables: Tables) -> None:
    server = tables.server
    server.create_bucket("b")
    server.publish([put(f"cold{number}", "x") for number in range(50)])
    hot = [f"k{number}" for number in range(10)]
    with busy_writer(server) as writer:
        writer.wait_for_a_round()
        for _ in range(2):
            result = tables.run()
            found = tables.latest()
            assert set(hot) <= set(found)
            assert len(found) == 60
    assert result.revision > 50


def test_a_change_is_merged_into_the_files_that_hold_its_keys(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_latest, "FILE_ROWS", 10)
    server = tables.server
    server.create_bucket("b")
    server.publish([put(f"k{number}", "old") for number in range(80)])
    latest = Table(tables.run().latest)
    before = {part.path: part.rows for part in latest.parts}
    assert len(before) > 3
    server.publish([put("k7", "new"), delete("k8"), put("more", "new")])
    assert tables.run().keys == 80
    after = {part.path: part.rows for part in Table(latest.path).parts}
    # Two keys are in two files at the most; all others are where they were.
    assert len(set(before) - set(after)) <= 2
    assert len(set(before) & set(after)) >= len(before) - 2
    expected = {f"k{number}": "old" for number in range(80) if number != 8}
    assert tables.latest() == expected | {"k7": "new", "more": "new"}
    # Keys that go without a mark are merged in the same way.
    server.purge("KV_b", filter="$KV.b.k9")
    assert tables.run().keys == 79
    assert "k9" not in tables.latest()
    assert len(set(after) - {part.path for part in Table(latest.path).parts}) <= 1


def test_small_files_are_taken_into_a_merge_when_they_are_many(
    own_tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_latest, "SMALL_FILES_MAX", 2)
    own_tables.server.create_bucket("b")
    counts = []
    for number in range(5):
        own_tables.server.publish([put(f"k{number}", "x")])
        counts.append(len(Table(own_tables.run().latest).parts))
    # The fourth run finds three files, writes the new key and takes them in.
    assert counts == [1, 2, 3, 1, 2]
    assert sorted(own_tables.latest()) == [f"k{number}" for number in range(5)]


class Steps(Silent):
    """Does one thing after each turn of a job that follows, and then stops it."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = list(steps)
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def wait(self, seconds: float) -> bool:
        if not self._steps:
            return False
        self._steps.pop(0)()
        return True


def test_a_table_follows_its_bucket_until_it_is_stopped(tables: Tables) -> None:
    server = tables.server
    server.create_bucket("b")
    server.publish([put("a", "1"), put("b", "2")])
    seen: list[dict[str, str]] = []
    versions: list[int] = []

    def look() -> None:
        seen.append(tables.latest())
        versions.append(Table(f"{tables.to}/latest").version)

    def change(*messages: Message) -> None:
        look()
        server.publish(messages)

    def purge_some() -> None:
        look()
        server.purge("KV_b", filter="$KV.b.c")

    steps = Steps(
        lambda: change(put("a", "3"), put("c", "4")),
        lambda: change(delete("b")),
        purge_some,
        look,
        look,
    )
    settings = TableSettings(Login(url=server.url), "b", tables.to, follow=True)
    result = table(tables.spark, settings, steps)
    first = {"a": "1", "b": "2"}
    assert seen == [first, {"a": "3", "b": "2", "c": "4"}, {"a": "3", "c": "4"}, *[{"a": "3"}] * 2]
    # Without new entries no version is written.
    assert versions[-1] == versions[-2]
    assert (result.entries, result.revision, result.keys, result.behind) == (5, 5, 1, 0)
    assert "2 keys, lag 0" in steps.notes


class Killed(Exception):
    """Stands for the end of the driver."""


def test_a_run_that_was_killed_is_completed(
    own_tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is killed before each of its commits, and the bucket forgets everything in between."""
    server = own_tables.server
    server.create_bucket("b")
    server.publish([put("a", "1"), put("b", "2")])
    own_tables.run()
    server.publish([put("a", "3"), delete("b"), put("c", "5")])
    commit = Table.commit
    for survived, revision in ((0, 2), (1, 5)):
        left = [survived]

        def commit_or_die(self: Table, *arguments: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            commit(self, *arguments)

        monkeypatch.setattr(Table, "commit", commit_or_die)
        with pytest.raises(Killed):
            own_tables.run()
        monkeypatch.undo()
        # The table is the whole one from before the run.
        assert own_tables.latest() == {"a": "1", "b": "2"}
        assert max(row[1] for row in own_tables.history()) == revision
    result = own_tables.run()
    # The second of the killed runs had brought the history there.
    assert (result.entries, result.revision, result.keys) == (0, 5, 2)
    assert own_tables.latest() == {"a": "3", "c": "5"}
    assert [row[1] for row in own_tables.history(purged=True)] == [1, 2, 3, 4, 5]


def test_two_runs_at_once_do_not_add_the_same_twice(
    own_tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_tables.server.create_bucket("b")
    own_tables.server.publish([put("a", "1")])
    commit = Table.commit

    def commit_after_another_run(self: Table, *arguments: Any) -> None:
        monkeypatch.undo()
        own_tables.run()
        commit(self, *arguments)

    monkeypatch.setattr(Table, "commit", commit_after_another_run)
    with pytest.raises(TableConflictError, match="another run"):
        own_tables.run()
    assert own_tables.history() == [("a", 1, "put")]


def test_a_bucket_made_anew_is_refused_or_told(tables: Tables) -> None:
    server = tables.server
    server.create_bucket("b")
    server.publish([put("a", "old"), put("b", "old")])
    tables.run()
    before = server.stored("KV_b")[-1].time
    server.delete_stream("KV_b")
    server.create_bucket("b")
    server.publish([put("a", "new")])
    with pytest.raises(
        DataLossError, match=r"KV_b was deleted and created again.*fail_on_data_loss"
    ):
        tables.run()
    result = tables.run(fail_on_data_loss=False)
    assert result.lost is not None
    assert "created again" in result.lost
    assert (result.revision, result.entries, result.keys) == (1, 1, 1)
    assert tables.latest() == {"a": "new"}
    # A revision is one of the new bucket; a time finds the old one.
    assert tables.latest(as_of_revision=1) == {"a": "new"}
    assert tables.latest(as_of_time=before) == {"a": "old", "b": "old"}
    assert tables.run().lost is None


def test_a_bucket_put_back_to_an_older_state(own_tables: Tables, tmp_path: Path) -> None:
    """Its store was restored from a copy, elsewhere: revision 3 is going to be another one."""
    server = own_tables.server
    store, copy = server.directory / STORE, tmp_path / "copy"
    server.create_bucket("b", history=5)
    server.publish([put("a", "1"), put("b", "2")])
    server.stop()
    shutil.copytree(store, copy)
    server.start()
    server.publish([put("a", "gone")])
    own_tables.run()
    server.stop()
    shutil.rmtree(store)
    shutil.copytree(copy, store)
    # The mark of the store in memory would tell the server of the copy; another machine has none.
    shutil.rmtree(server.directory / "headwater")
    server.start()
    with pytest.raises(DataLossError, match="restored or cut"):
        own_tables.run()
    assert own_tables.run(fail_on_data_loss=False).entries == 2
    server.publish([put("a", "3")])
    assert own_tables.run().entries == 1
    assert own_tables.latest() == {"a": "3", "b": "2"}
    assert own_tables.latest(as_of_revision=3) == {"a": "3", "b": "2"}


def test_what_the_stream_drops_without_a_mark_is_no_longer_shown(own_tables: Tables) -> None:
    server = own_tables.server
    server.create_bucket("b", history=5)
    server.publish([put("a", "1"), put("a", "2"), put("b", "3")])
    assert own_tables.run().keys == 2
    server.purge("KV_b", seq=3)
    assert own_tables.run().keys == 1
    assert own_tables.latest() == {"b": "3"}
    server.publish([put("c", "4"), put("c", "5"), put("c", "6")])
    server.purge("KV_b")
    result = own_tables.run()
    assert (result.revision, result.entries, result.missing, result.keys) == (6, 0, 3, 0)


def test_entries_expire(own_tables: Tables) -> None:
    """Entries expire by the bucket's age limit, by their own time to live, or never."""
    hour_ns = 3_600 * 10**9
    own_tables.server.create_bucket("b", max_age=hour_ns, allow_msg_ttl=True)
    own_tables.server.publish(
        [
            put("aged", "1"),
            Message("$KV.b.short", b"2", header_block({"Nats-TTL": ["5m"]})),
            Message("$KV.b.kept", b"3", header_block({"Nats-TTL": ["never"]})),
        ]
    )
    own_tables.run()
    lives = {
        row.key: row.lives
        for row in read_table(own_tables.spark, own_tables.to)
        .selectExpr("key", "unix_seconds(expires) - unix_seconds(timestamp) AS lives")
        .collect()
    }
    assert lives == {"aged": 3600, "short": 300, "kept": None}
    assert own_tables.latest(as_of_time="2100-01-01") == {"kept": "3"}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"bucket": "a b"}, "option bucket"),
        ({"to": " "}, "option to is empty"),
        ({"as_of_revision": 0}, "as_of_revision=0"),
        ({"as_of_time": "yesterday"}, "as_of_time='yesterday'"),
        ({"as_of_time": "2026-01-01", "as_of_revision": 1}, "exclude each other"),
        ({"rounds_max": 0}, "rounds_max=0"),
        ({"every_s": 0.0}, "every_s=0"),
        ({"follow": True, "as_of_revision": 1}, "option follow excludes as_of_revision"),
        ({"keep_versions_h": -1}, "keep_versions_h=-1"),
    ],
)
def test_settings_are_checked_before_anything_starts(
    settings: dict[str, Any], complaint: str
) -> None:
    given = TableSettings(**{"login": Login(), "bucket": "b", "to": "tables", **settings})
    with pytest.raises(OptionError, match=complaint):
        given.check()


def test_a_bucket_that_is_not_there(own_tables: Tables) -> None:
    with pytest.raises(OptionError, match="bucket='b' is not valid: the server has no such bucket"):
        own_tables.run()
    with pytest.raises(OptionError, match="there is no table"):
        own_tables.latest()


def test_a_directory_belongs_to_one_bucket(own_tables: Tables) -> None:
    server = own_tables.server
    server.create_bucket("b")
    server.publish([put("a", "1")])
    own_tables.run()
    server.create_bucket("other")
    with pytest.raises(OptionError, match="holds the tables of bucket b"):
        table(
            own_tables.spark,
            TableSettings(Login(url=server.url), "other", own_tables.to),
        )
