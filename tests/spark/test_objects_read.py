"""An object store as a table: contents put together from chunks, and checked."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from headwater.spark.objects import Meta, ObjectError, shared_out
from headwater.spark.options import SourceOptions
from headwater.spark.read.source import SourceReader
from tests.kit.stream_servers import Message, Server, header_block
from tests.spark.reading import TYPES, read, table

ROLLUP = header_block({"Nats-Rollup": ["sub"]})


def create_store(server: Server, name: str) -> None:
    """Create an object store as the clients do."""
    subjects = (f"$O.{name}.C.>", f"$O.{name}.M.>")
    server.create_stream(f"OBJ_{name}", *subjects, discard="new", allow_rollup_hdrs=True)


def chunk_subject(store: str, name: str, *chunks: bytes) -> str:
    return f"$O.{store}.C.{hashlib.md5(name.encode() + b''.join(chunks)).hexdigest()}"


def put(server: Server, store: str, name: str, *chunks: bytes, **fields: object) -> int:
    """An object of these chunks; fields of its document can be made wrong."""
    subject = chunk_subject(store, name, *chunks)
    nuid = subject.rpartition(".")[2]
    server.publish([(subject, chunk) for chunk in chunks])
    digest = hashlib.sha256(b"".join(chunks)).digest()
    document = {
        "name": name,
        "bucket": store,
        "nuid": nuid,
        "size": sum(map(len, chunks)),
        "chunks": len(chunks),
        "digest": "SHA-256=" + base64.urlsafe_b64encode(digest).decode(),
        "options": {"max_chunk_size": 131072},
        **fields,
    }
    subject = f"$O.{store}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
    return server.publish([Message(subject, json.dumps(document).encode(), ROLLUP)])


def delete(server: Server, store: str, name: str) -> None:
    put(server, store, name, deleted=True, digest="")


def test_objects_with_their_contents(spark: SparkSession, server: Server) -> None:
    create_store(server, "files")
    large = [bytes([number]) * 131_072 for number in range(20)]
    put(server, "files", "dir/large ü", *large, metadata={"owner": "anna"})
    put(server, "files", "empty")
    put(server, "files", "gone", b"x")
    delete(server, "files", "gone")
    put(server, "files", "again", b"old")
    put(server, "files", "again", b"n", b"ew")
    put(server, "files", "link", options={"link": {"bucket": "other", "name": "x"}}, digest="")
    found = {row.name: row for row in table(spark, server, objects="files").collect()}
    assert sorted(found) == ["again", "dir/large ü", "empty", "link"]
    assert bytes(found["dir/large ü"].content) == b"".join(large)
    assert found["dir/large ü"].size == 20 * 131_072
    assert found["dir/large ü"].metadata == {"owner": "anna"}
    assert found["dir/large ü"].digest.startswith("SHA-256=")
    assert bytes(found["again"].content) == b"new"
    assert (bytes(found["empty"].content), found["empty"].size) == (b"", 0)
    assert (found["link"].content, found["link"].size) == (None, 0)
    assert json.loads(found["again"].data)["chunks"] == 2
    assert server.consumers("OBJ_files") == []


def test_contents_are_not_read_unless_asked_for(server: Server) -> None:
    create_store(server, "files")
    put(server, "files", "damaged", b"abc", size=4)
    assert read(server, ["name"], objects="files") == [{"name": "damaged"}]


@pytest.mark.parametrize("wrong", [{"size": 4}, {"digest": "SHA-256=AAAA"}])
def test_a_damaged_object_is_an_error(server: Server, wrong: dict[str, object]) -> None:
    create_store(server, "files")
    put(server, "files", "damaged", b"abc", **wrong)
    with pytest.raises(ObjectError, match="object 'damaged' of store files is damaged"):
        read(server, ["name", "content"], objects="files")


def test_an_object_replaced_or_deleted_after_planning(server: Server) -> None:
    """A changed object is read in its new state, neither missed nor read twice."""
    create_store(server, "files")
    for name in ("kept", "replaced", "deleted"):
        put(server, "files", name, b"old")
    schema = StructType([StructField(name, TYPES[name]) for name in ("name", "content")])
    options = {"url": server.url, "objects": "files", "minPartitions": "2"}
    reader = SourceReader(SourceOptions.parse(options), schema)
    planned = reader.partitions()
    assert len(planned) == 2
    put(server, "files", "replaced", b"new")
    server.purge("OBJ_files", filter=chunk_subject("files", "replaced", b"old"))
    delete(server, "files", "deleted")
    server.purge("OBJ_files", filter=chunk_subject("files", "deleted", b"old"))
    batches = [batch for part in planned for batch in reader.read(part)]
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert sorted(rows) == [("kept", b"old"), ("replaced", b"new")]


def test_a_stream_of_changes(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    create_store(server, "files")

    def run() -> list[tuple[object, ...]]:
        options = {"url": server.url, "objects": "files"}
        rows = spark.readStream.format("headwater").options(**options).load()
        changes = rows.selectExpr("name", "size", "cast(content as string) content")
        query = (
            changes.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        written = spark.read.parquet(str(tmp_path / "out")).orderBy("name", "size")
        return [tuple(row) for row in written.collect()]

    put(server, "files", "a", b"one")
    assert run() == [("a", 3, "one")]
    put(server, "files", "b", b"two")
    delete(server, "files", "a")
    assert run() == [("a", None, None), ("a", 3, "one"), ("b", 3, "two")]


def test_objects_are_shared_out_by_size() -> None:
    sizes = [1 << 30, 1 << 20, 1 << 20, 0]
    metas = [
        Meta(b"", sequence, 0, b"", json.dumps({"name": "x", "size": size}).encode())
        for sequence, size in enumerate(sizes)
    ]
    shares = [[meta.sequence for meta in share] for share in shared_out(metas, 2)]
    assert shares == [[0], [1, 2, 3]]
    assert len(shared_out(metas, 9)) == 4
    assert shared_out([], 3) == []
