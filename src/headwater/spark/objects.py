"""Object stores as tables: a row per object, with its content put together and checked.

An object is one message about it, at `$O.<store>.M.<name in base64>`, and its content in chunks at
`$O.<store>.C.<nuid>`, stored before that message. The message holds a document: name, size, number
of chunks, digest, metadata of the user (ADR-20 of the NATS architecture). `data` is that document
unchanged, so that a query can use all of it.

A batch read returns the existing objects. A streaming read returns every change: an object that was
deleted is a row with a name, and null for size, digest and content. A link has no content either,
but a size of 0.

A batch read lists the objects while it is planned, and each task gets a list of its own: an object
that is replaced before it is read is then neither missed nor read twice.

A content is complete and as it was put, or the read fails: chunks that do not match size and digest
are an error, unless the object was replaced meanwhile. Then a batch read returns the new one, and a
streaming read nothing, because the new one is still to come.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import StructType

from headwater.base.columns import StoredColumns
from headwater.base.errors import OperatingError
from headwater.client.api.answers import StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.reads.fetch import Columns, SequenceRange, Way, read_range
from headwater.go.times import parse_time
from headwater.spark.buckets import LatestEntries, Newest
from headwater.spark.read.batches import BATCH_BYTES, BATCH_ROWS, BatchBuilder, Column

REPLACEMENTS_MAX: Final = 10
"""The limit of replacements of one object while it is read."""

OBJECT_COST_BYTES: Final = 64 << 10
"""The cost of the requests for one object, in bytes of content read in that time."""

_DIGEST_METHOD: Final = "sha-256="


class ObjectError(OperatingError):
    """The object cannot be read as it was put."""


class _Link(msgspec.Struct):
    bucket: str = ""


class _Options(msgspec.Struct):
    link: _Link | None = None


class _Document(msgspec.Struct):
    """The fields of an object's document that are used here."""

    name: str
    nuid: str = ""
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False
    metadata: dict[str, str] | None = None
    options: _Options | None = None

    @property
    def is_link(self) -> bool:
        return self.options is not None and self.options.link is not None


@dataclass(frozen=True)
class Meta:
    """A message about an object."""

    subject: bytes
    sequence: int
    timestamp_ns: int
    header: bytes
    payload: bytes

    def document(self) -> _Document:
        try:
            return msgspec.json.decode(self.payload, type=_Document)
        except msgspec.MsgspecError as error:
            raise ObjectError(
                f"the message at sequence {self.sequence} does not describe an object: {error}"
            ) from None


def shared_out(metas: Sequence[Meta], parts: int) -> list[tuple[Meta, ...]]:
    """The objects in up to `parts` lists of about equal size in bytes."""
    shares: list[list[Meta]] = [[] for _ in range(max(1, min(parts, len(metas))))]
    sizes = [0] * len(shares)
    for meta in sorted(metas, key=lambda meta: meta.document().size, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(meta)
        # Even an empty object costs some requests.
        sizes[least] += meta.document().size + OBJECT_COST_BYTES
    return [tuple(sorted(share, key=lambda meta: meta.sequence)) for share in shares if share]


class _Rows(StoredColumns):
    """Objects that wait for their batch to be full, with the messages that describe them."""

    COLUMNS = (*StoredColumns.COLUMNS, "names", "sizes", "digests", "metadata", "contents")
    SHARED = ("content_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.sizes: list[int | None] = []
        self.digests: list[str | None] = []
        self.metadata: list[list[tuple[str, str]] | None] = []
        self.contents: list[bytes | None] = []
        self.content_bytes = 0

    def add(self, meta: Meta, document: _Document, content: bytes | None) -> None:
        self.subjects.append(meta.subject)
        self.sequences.append(meta.sequence)
        self.timestamps_ns.append(meta.timestamp_ns)
        self.headers.append(meta.header)
        self.payloads.append(meta.payload)
        self.names.append(document.name)
        self.sizes.append(None if document.deleted else document.size)
        self.digests.append(document.digest or None)
        self.metadata.append(list(document.metadata.items()) if document.metadata else None)
        self.contents.append(content)
        self.content_bytes += len(content or b"")


_COLUMNS: Final[dict[str, Column]] = {
    "name": lambda rows: pa.array(rows.names, pa.string()),
    "size": lambda rows: pa.array(rows.sizes, pa.int64()),
    "digest": lambda rows: pa.array(rows.digests, pa.string()),
    "metadata": lambda rows: pa.array(rows.metadata, pa.map_(pa.string(), pa.string())),
    "content": lambda rows: pa.array(rows.contents, pa.binary()),
}


def meta_pattern(store: str) -> str:
    """The subjects of messages about objects."""
    return f"$O.{store}.M.>"


def meta_subject(store: str, name: str) -> str:
    """The subject of the message about the object of a name."""
    return f"$O.{store}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


class ObjectReader:
    """Reads the objects of one store through one connection."""

    def __init__(
        self, connection: Connection, store: str, info: StreamInfo, way: Way, changes: bool
    ) -> None:
        self._connection = connection
        self._store = store
        self._info = info
        self._way = way
        self._changes = changes

    def metas(
        self, wanted: SequenceRange, subjects: tuple[str, ...], newest: Newest | None = None
    ) -> list[Meta]:
        """The messages about objects in a range, and, up to `newest`, those that came meanwhile."""

        def read(part: SequenceRange) -> Iterator[Columns]:
            return read_range(self._connection, self._info, part, subjects, self._way)

        # A store keeps one message about an object, as a bucket keeps one entry of a key.
        entries = LatestEntries(read, one_per_key=True)
        return [
            Meta(*fields)
            for chunk in entries.chunks(wanted.first, wanted.last, newest)
            for fields in zip(
                chunk.subjects,
                chunk.sequences,
                chunk.timestamps_ns,
                chunk.headers,
                chunk.payloads,
                strict=True,
            )
        ]

    def batches(
        self, metas: Sequence[Meta], schema: StructType, include_headers: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of objects."""
        builder = BatchBuilder(schema, self._info.name, include_headers, _COLUMNS)
        with_content = "content" in schema.fieldNames()
        rows = _Rows()
        for meta in metas:
            found = self._read(meta) if with_content else (meta, meta.document(), None)
            if found is None or (found[1].deleted and not self._changes):
                continue
            rows.add(*found)
            if len(rows.names) >= BATCH_ROWS or rows.content_bytes >= BATCH_BYTES:
                yield builder.batch(rows)
                rows = _Rows()
        if rows.names:
            yield builder.batch(rows)

    def _read(self, meta: Meta) -> tuple[Meta, _Document, bytes | None] | None:
        """The object of a message, or its replacement; None if the replacement comes later."""
        for _ in range(REPLACEMENTS_MAX):
            document = meta.document()
            if document.deleted or document.is_link:
                return meta, document, None
            content = self._content(meta, document)
            if content is not None:
                return meta, document, content
            newer = self._newer(meta)
            if newer is None:
                raise ObjectError(
                    f"object {document.name!r} of store {self._store} is damaged: its chunks are"
                    f" not the {document.size} bytes with digest {document.digest} it was put"
                    " with; put it again or delete it"
                )
            if self._changes:
                return None
            meta = newer
        raise ObjectError(
            f"object {meta.document().name!r} of store {self._store} was replaced"
            f" {REPLACEMENTS_MAX} times while it was read: read it when it is left alone"
        )

    def _content(self, meta: Meta, document: _Document) -> bytes | None:
        """The content; None if the chunks do not match."""
        parts: list[bytes] = []
        if document.size:
            # Chunks are stored before the message about them.
            wanted = SequenceRange(1, meta.sequence)
            subject = f"$O.{self._store}.C.{document.nuid}"
            for chunk in read_range(self._connection, self._info, wanted, (subject,), self._way):
                parts += chunk.payloads
        content = b"".join(parts)
        whole = len(content) == document.size and _has_digest(content, document.digest)
        return content if whole else None

    def _newer(self, meta: Meta) -> Meta | None:
        """The current message about the object, if it is another one."""
        jetstream = ApiClient(self._connection)
        self._info = jetstream.stream_info(self._info.name)
        now = jetstream.message(self._info.name, {"last_by_subj": meta.subject.decode()})
        if now is None:
            # A removed message counts as a delete.
            gone = msgspec.json.encode({"name": meta.document().name, "deleted": True})
            return Meta(meta.subject, meta.sequence, meta.timestamp_ns, meta.header, gone)
        if now.sequence == meta.sequence:
            return None
        return Meta(meta.subject, now.sequence, parse_time(now.time), now.header, now.data)


def _has_digest(content: bytes, digest: str) -> bool:
    """Whether a content has the digest; a digest of an unknown method is not checked."""
    method, text = digest[: len(_DIGEST_METHOD)], digest[len(_DIGEST_METHOD) :]
    if method.lower() != _DIGEST_METHOD:
        return True
    try:
        wanted = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return False
    return hashlib.sha256(content).digest() == wanted
