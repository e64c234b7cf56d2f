"""A bucket as a table: keys, revisions, operations, its history or the newest entries."""

import itertools
from collections.abc import Iterator

from pyspark.sql import SparkSession

from headwater.client.link.reads.ranges import Columns, SequenceRange
from headwater.spark.buckets import (
    CATCH_UP_ROUNDS_MAX,
    LatestEntries,
    key_of,
    operation_of,
)
from tests.kit.stream_servers import Message, Server, header_block
from tests.spark.reading import table

DELETE = header_block({"KV-Operation": ["DEL"]})
PURGE = header_block({"KV-Operation": ["PURGE"], "Nats-Rollup": ["sub"]})


def entries(*puts: tuple[str, bytes, bytes]) -> list[Message]:
    return [Message(f"$KV.users.{key}", value, header) for key, value, header in puts]


def test_every_entry_with_its_operation(spark: SparkSession, server: Server) -> None:
    server.create_bucket("users", history=5)
    server.publish(
        entries(
            ("anna.age", b"1", b""),
            ("ben", b"1", header_block({"Trace": ["x"]})),
            ("anna.age", b"2", b""),
            ("ben", b"", DELETE),
            ("carl", b"1", b""),
            ("carl", b"2", b""),
            ("carl", b"", PURGE),
        )
    )
    everything = table(spark, server, bucket="users").orderBy("revision").collect()
    assert [(r.key, r.revision, r.operation, bytes(r.data)) for r in everything] == [
        ("anna.age", 1, "put", b"1"),
        ("ben", 2, "put", b"1"),
        ("anna.age", 3, "put", b"2"),
        ("ben", 4, "delete", b""),
        ("carl", 7, "purge", b""),
    ]
    assert all(r.sequence == r.revision and r.stream == "KV_users" for r in everything)
    assert everything[1].subject == "$KV.users.ben"
    newest = table(spark, server, bucket="users", history="false").orderBy("key").collect()
    assert [(r.key, r.revision) for r in newest] == [("anna.age", 3), ("ben", 4), ("carl", 7)]
    # As of a revision: later entries do not hide earlier ones.
    earlier = table(spark, server, bucket="users", history="false", endingSequence=3)
    assert sorted((r.key, r.revision) for r in earlier.collect()) == [("anna.age", 3), ("ben", 2)]
    assert server.consumers("KV_users") == []


def test_filters_name_keys_or_whole_subjects(spark: SparkSession, server: Server) -> None:
    server.create_bucket("users")
    server.publish(entries(("a.x", b"", b""), ("a.y", b"", b""), ("b", b"", b"")))
    for subjects in ("a.*", "$KV.users.a.>"):
        rows = table(spark, server, bucket="users", subjects=subjects, history="false")
        assert sorted(r.key for r in rows.collect()) == ["a.x", "a.y"]


class TestLatestEntries:
    """Entries that a bucket replaces while a reader reads it."""

    def columns(self, *entries: tuple[int, bytes]) -> Columns:
        revisions = [revision for revision, _ in entries]
        nothing = [b""] * len(entries)
        return Columns([key for _, key in entries], revisions, revisions, nothing, nothing)

    def test_a_key_put_again_while_it_is_read_is_not_missed(self) -> None:
        # Key b was at revision 2 when the read began; it went to 4 and 5 before it was reached.
        bucket = {(1, 3): [(1, b"a"), (3, b"c")], (4, 4): [(5, b"b")], (6, 6): [(6, b"a")]}
        heads = iter([4, 6])

        def read(wanted: SequenceRange) -> Iterator[Columns]:
            yield self.columns(*bucket[wanted.first, wanted.last])

        reading = LatestEntries(read, one_per_key=True)
        found = [s for chunk in reading.chunks(1, 3, lambda: next(heads)) for s in chunk.sequences]
        assert found == [1, 3, 5]

    def test_nothing_is_looked_for_where_all_that_was_planned_is_left(self) -> None:
        def read(wanted: SequenceRange) -> Iterator[Columns]:
            assert wanted == SequenceRange(1, 3)
            yield self.columns((1, b"a"), (3, b"c"))

        reading = LatestEntries(read, one_per_key=True)
        [found] = reading.changes(1, 3, 2, 10, lambda: 20)
        assert found.sequences == [1, 3]

    def test_what_is_missing_is_looked_for_behind_the_head(self) -> None:
        """All entries are looked for there if the number of planned ones is unknown."""
        bucket = {(1, 3): [(1, b"a")], (11, 20): [(15, b"a"), (20, b"c")], (21, 20): []}
        for count in (2, None):

            def read(wanted: SequenceRange) -> Iterator[Columns]:
                if found := bucket[wanted.first, wanted.last]:
                    yield self.columns(*found)

            reading = LatestEntries(read, one_per_key=True)
            found = [c.sequences for c in reading.changes(1, 3, count, 10, lambda: 20)]
            assert found == [[1], [20]]

    def test_each_share_has_its_keys(self) -> None:
        keys = [b"k%d" % number for number in range(50)]

        def read(wanted: SequenceRange) -> Iterator[Columns]:
            yield self.columns(*enumerate(keys, 1))

        for one_per_key in (True, False):
            shares = [
                [
                    key
                    for chunk in LatestEntries(read, one_per_key, (part, 3)).chunks(1, 50, None)
                    for key in chunk.subjects
                ]
                for part in range(3)
            ]
            assert all(shares)
            assert sorted(key for share in shares for key in share) == sorted(keys)

    def test_rounds_are_bounded(self) -> None:
        """A bucket in which every round finds a hole, and a key that is new."""
        heads = itertools.count(10, 2)
        rounds = 0

        def read(wanted: SequenceRange) -> Iterator[Columns]:
            nonlocal rounds
            rounds += 1
            yield self.columns((wanted.last, b"k%d" % wanted.last))

        found = list(LatestEntries(read, one_per_key=True).chunks(1, 8, lambda: next(heads)))
        assert rounds == len(found) == CATCH_UP_ROUNDS_MAX + 1

    def test_of_a_longer_history_the_newest_is_kept(self) -> None:
        def read(wanted: SequenceRange) -> Iterator[Columns]:
            yield self.columns((1, b"a"), (2, b"b"))
            yield self.columns((3, b"a"))

        chunks = list(LatestEntries(read, one_per_key=False).chunks(1, 3, None))
        assert [(c.subjects, c.sequences) for c in chunks] == [([b"b", b"a"], [2, 3])]


def test_operations_and_keys() -> None:
    assert operation_of(b"") == "put"
    assert operation_of(header_block({"Trace": ["x"]})) == "put"
    assert operation_of(DELETE) == "delete"
    assert operation_of(PURGE) == "purge"
    # The markers that a server writes by itself when an entry ends.
    assert operation_of(header_block({"Nats-Marker-Reason": ["MaxAge"]})) == "purge"
    assert operation_of(header_block({"Nats-Marker-Reason": ["Remove"]})) == "delete"
    assert key_of(b"$KV.users.a.b") == b"a.b"
