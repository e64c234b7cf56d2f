"""The sink: rows of a DataFrame published to a stream or put into a bucket.

Batch writes publish at least once: a task that is tried again sends the same message ids, which the
server knows for the duplicate window of the stream. Batch writes that an application numbers
(`txnAppId`, `txnVersion`) are written like the batches of a streaming query.

Streaming queries write exactly once: every row of every batch is in the stream once, whatever is
killed, restarted, tried again or tried twice at the same time. The steps, for one partition of one
batch:

    claim      put `begun` into the marker bucket          (markers.Claim)
    look       only if somebody had begun before: which rows are there already? (tail.Tail)
    publish    send rows with their ids, wait for all acks (link.publisher), renewing the claim
    finish     put `written`, with the number of rows and their digest
    commit     in the driver, when all partitions are written: put the batch's number, and which
               rows and offsets it has

Within the duplicate window ids alone suffice. After it, a replay of a batch that was committed
writes nothing, or fails if it is another batch (an older checkpoint was restored); and a replay of
one that was not committed skips the rows that it finds. The rules that ensure this while several
attempts are at work are in `markers`.

Assumptions: Spark replays a batch with the same rows (true of sources that can be read again; their
order is free, and after a restart also their partitions, which the driver settles in
`batch_commit`; not so in streams that remove messages by design); the query keeps its checkpoint;
no user deletes rows from the stream between two attempts. In streams that remove messages by design
(buckets, limits per subject, work queues) a row that was removed before the replay searched is
recognised by later ones of its subject, or by the digest that a finished attempt has left (`tail`).
Neither helps with a row that was overwritten or consumed after an attempt that did not finish: it
is written again if the replay comes after the window.

`overwrite` is refused: a log is appended to.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headwater.base.errors import OperatingError
from headwater.client.api.answers import STREAM_NOT_FOUND, StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import ApiRefusedError, NoRespondersError
from headwater.client.link.login import Login
from headwater.spark.options import OptionError, SinkOptions
from headwater.spark.read.query_offsets import offsets_digest
from headwater.spark.rows import RowReader, Rows, RowShape
from headwater.spark.versions import DataSourceStreamArrowWriter
from headwater.spark.write.batch_commit import BatchCommit
from headwater.spark.write.dead_letters import DeadLetterBox, letter_subject
from headwater.spark.write.markers import ChangedBatchError
from headwater.spark.write.partition_write import (
    Links,
    Work,
    Written,
    write_at_least_once,
    write_exactly_once,
)
from headwater.spark.write.row_ids import short_query, transaction_query

if TYPE_CHECKING:
    import pyarrow

# Spark does not document these names; a test guards them.
QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
# All jobs of a run are one group.
RUN_ID_PROPERTY: Final = "spark.jobGroup.id"

_ABOUT_CHECKPOINTS: Final = (
    "The checkpoint is older than what the query has written, or not its own: restore the newest"
    " checkpoint, or take a new checkpointLocation and start behind what was written;"
    " onChangedBatch=skip passes over such batches and loses their rows"
)
_ABOUT_VERSIONS: Final = (
    "The batch is the txnVersion of this txnAppId: give other rows a higher txnVersion;"
    " onChangedBatch=skip passes over such rows and loses them"
)
_ASKING: Final = "asking"
_PUBLISHING: Final = "publishing"
CONNECTION_NAME: Final = "headwater-spark-sink"
# The limit for one process: two for each of some servers.
CONNECTIONS_MAX: Final = 8
# Workers outlive tasks and run one at a time: a task finds the connections of the one before.
_connections: Final[dict[tuple[Login, str], Connection]] = {}


class SinkError(OperatingError):
    """A partition could not be written; the text says which and why."""


@dataclass
class PartitionWritten(WriterCommitMessage):
    """The report of a task to the driver."""

    query: str
    partition: int
    done: Written


@dataclass(frozen=True)
class _Target:
    """The facts that the driver has found out and the tasks need."""

    options: SinkOptions
    shape: RowShape
    # The stream's subjects, and whether it accepts atomic batches.
    subjects: tuple[str, ...]
    atomic: bool
    message_bytes_max: int
    dead_letters: DeadLetterBox | None

    def work(self, query: str, batch: int, partition: int, run: str = "") -> Work:
        return Work(
            stream=self.options.stream,
            query=query,
            batch=batch,
            partition=partition,
            in_flight_max=self.options.max_in_flight,
            atomic=self.atomic,
            run=run,
            message_bytes_max=self.message_bytes_max,
            dead_letters=self.dead_letters,
            has_expectations=self.shape.has_expectations,
            has_message_ids="message_id" in self.shape.columns,
        )

    def write_once(
        self, batches: "Iterator[pyarrow.RecordBatch]", query: str, batch: int, run: str
    ) -> PartitionWritten:
        """In a task: publish the rows of a partition that do not exist yet."""
        partition = _context().partitionId()
        with _Named(partition, batch):
            done = write_exactly_once(
                _links_to(self.options.login),
                self.work(query, batch, partition, run),
                self.options.marker_bucket,
                self.rows(batches),
            )
        return PartitionWritten(query, partition, done)

    def rows(self, batches: "Iterator[pyarrow.RecordBatch]") -> Iterator[Rows]:
        reader = RowReader(self.shape, self.subjects)
        given = (batch for batch in batches if batch.num_rows)
        if self.dead_letters is None:
            return map(reader.read, given)
        return chain.from_iterable(map(reader.read_apart, given))


# --- in the driver -----------------------------------------------------------------------------


def batch_writer(options: SinkOptions, schema: StructType, overwrite: bool = False) -> "SinkWriter":
    """The writer of `df.write`. Raises OptionError for settings that cannot work."""
    target, info = _checked_target(options, schema, overwrite)
    job = short_query(str(uuid.uuid4()))
    if options.txn_app_id is None:
        return SinkWriter(target, job)
    _ensure_markers(options, info)
    return TransactionSinkWriter(target, job)


def stream_writer(
    options: SinkOptions, schema: StructType, overwrite: bool = False
) -> "StreamSinkWriter":
    """The writer of `df.writeStream`. Raises OptionError for settings that cannot work.

    Spark asks for one at the start of each batch, and for another to commit the batch.
    """
    target, info = _checked_target(options.check_streaming(), schema, overwrite)
    _ensure_markers(options, info)
    return StreamSinkWriter(target)


def _ensure_markers(options: SinkOptions, info: StreamInfo) -> None:
    """Make sure that the server supports exactly-once writes. Raises OptionError."""
    if not info.config.get("duplicate_window"):
        raise OptionError(
            f"option {options.kind.value}={options.name!r}: its duplicate_window is 0, without one"
            " nothing can be written exactly once; set it, 2m is usual"
        )
    replicas = int(info.config.get("num_replicas") or 1)
    try:
        ApiClient(_connection(options.login, _ASKING)).ensure_bucket(
            options.marker_bucket, num_replicas=replicas
        )
    except ApiRefusedError as error:
        raise OptionError(
            f"option markerBucket={options.marker_bucket!r} cannot be used: {error}"
        ) from None


def _checked_target(
    options: SinkOptions, schema: StructType, overwrite: bool
) -> tuple[_Target, StreamInfo]:
    """The target of a write, after all checks that need no row."""
    if overwrite:
        raise OptionError("mode overwrite is not possible, a stream is appended to: use append")
    columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    shape = RowShape.of(options.kind, options.name, options.subject, columns)
    named = f"option {options.kind.value}={options.name!r}"
    info = _stream_info(options.login, options.stream, f"{named}: the server", options.kind.value)
    config = info.config
    if config.get("mirror") or not config.get("subjects"):
        raise OptionError(f"{named} takes no messages: it is a copy of other streams")
    for flag, why in (("sealed", "it is sealed"), ("no_ack", "it sends no acks (no_ack)")):
        if config.get(flag):
            raise OptionError(f"{named} cannot be written to: {why}")
    allows_atomic = bool(config.get("allow_atomic"))
    if options.atomic == "always" and not (allows_atomic and not shape.has_expectations):
        why = "columns expect sequences" if allows_atomic else "the stream does not allow_atomic"
        raise OptionError(f"option atomic=always is not possible: {why}")
    atomic = allows_atomic and options.atomic != "never" and not shape.has_expectations
    message_bytes_max = max(0, int(config.get("max_msg_size") or 0))
    subjects = tuple(config["subjects"])
    box = _dead_letter_box(options)
    target = _Target(options, shape, subjects, atomic, message_bytes_max, box)
    if options.subject is not None:
        RowReader(shape, target.subjects).check_fixed_subject()
    return target, info


def _dead_letter_box(options: SinkOptions) -> DeadLetterBox | None:
    name = options.dead_letter_stream
    if name is None:
        return None
    named = f"option deadLetterStream={name!r}"
    config = _stream_info(options.login, name, f"{named}: the server", "stream").config
    if name == options.stream:
        raise OptionError(f"{named} is the target itself: name another stream")
    if config.get("mirror") or not config.get("subjects") or config.get("no_ack"):
        raise OptionError(f"{named} takes no messages that it acknowledges")
    subject = letter_subject(config["subjects"], options.stream)
    return DeadLetterBox(name, subject, max(0, int(config.get("max_msg_size") or 0)))


def _stream_info(login: Login, stream: str, server: str, kind: str) -> StreamInfo:
    try:
        return ApiClient(_connection(login, _ASKING)).stream_info(stream)
    except NoRespondersError as error:
        if login.api_option is None:
            raise
        raise OptionError(f"option {login.api_option}: {error}") from None
    except ApiRefusedError as error:
        if error.err_code != STREAM_NOT_FOUND:
            raise
        raise OptionError(
            f"{server} at {login.shown_url} has no such {kind}; create it first"
        ) from None


# --- in tasks ----------------------------------------------------------------------------------


class SinkWriter(DataSourceArrowWriter):
    """Batch writes, at least once. Task retries repeat ids, which begin with `job`."""

    def __init__(self, target: _Target, job: str) -> None:
        self._target = target
        self._job = job

    def write(self, iterator: "Iterator[pyarrow.RecordBatch]") -> PartitionWritten:
        """In a task: publish a partition."""
        partition = _context().partitionId()
        work = self._target.work(self._job, 0, partition)
        with _Named(partition):
            done = write_at_least_once(
                _links_to(self._target.options.login),
                work,
                self._target.rows(iterator),
            )
        return PartitionWritten(self._job, partition, done)


class TransactionSinkWriter(SinkWriter):
    """Batch writes that an application numbers, exactly once; each job is a run."""

    def write(self, iterator: "Iterator[pyarrow.RecordBatch]") -> PartitionWritten:
        """In a task: publish the rows of a partition that do not exist yet."""
        options = self._target.options
        query = transaction_query(options.txn_app_id or "", options.stream)
        return self._target.write_once(iterator, query, options.txn_version or 0, self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver, when all partitions are written."""
        options = self._target.options
        _commit(options, messages, options.txn_version or 0, "", _ABOUT_VERSIONS)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: written rows stay, and another job of this version adds the missing ones."""


class StreamSinkWriter(DataSourceStreamArrowWriter):
    """Streaming writes, exactly once."""

    def __init__(self, target: _Target) -> None:
        self._target = target

    def write(self, iterator: "Iterator[pyarrow.RecordBatch]") -> PartitionWritten:
        """In a task: publish the rows of a partition that do not exist yet."""
        context = _context()
        query = short_query(_property(context, QUERY_ID_PROPERTY))
        batch = int(_property(context, BATCH_ID_PROPERTY))
        run = short_query(_property(context, RUN_ID_PROPERTY))
        return self._target.write_once(iterator, query, batch, run)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver, when all partitions are written."""
        options = self._target.options
        offsets = offsets_digest(options.checkpoint, batchId)
        _commit(options, messages, batchId, offsets, _ABOUT_CHECKPOINTS)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: written rows stay, and the replay of the batch adds the missing ones."""


def _commit(
    options: SinkOptions,
    messages: list[WriterCommitMessage | None],
    batch: int,
    offsets: str,
    advice: str,
) -> None:
    """Commit the batch that all partitions have written, or check that it was committed before."""
    told = [each for each in messages if isinstance(each, PartitionWritten)]
    if not told:
        return
    query = told[0].query
    commit = BatchCommit(
        _links_to(options.login),
        options.marker_bucket,
        options.stream,
        query,
        options.dead_letter_stream,
    )
    try:
        commit.put(batch, [each.done for each in told], offsets, options.on_changed_batch)
    except ChangedBatchError as error:
        named = f"{options.kind.value} {options.name}, query {query}"
        raise SinkError(f"{named}: {error}. {advice}") from None


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SinkError("a writer is used outside of a Spark task")
    return context


def _property(context: TaskContext, name: str) -> str:
    value = context.getLocalProperty(name)
    if value is None:
        raise SinkError(
            f"Spark does not say {name} in a task of a streaming query: this version of Spark is"
            " not supported"
        )
    return str(value)


class _Named:
    """Errors of a task name the partition, and leave no half-used connection behind."""

    def __init__(self, partition: int, batch: int | None = None) -> None:
        self._name = f"partition {partition}" + ("" if batch is None else f" of batch {batch}")

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        for connection in _connections.values():
            connection.close()
        _connections.clear()
        if isinstance(error, OperatingError):
            raise SinkError(f"{self._name}: {error}") from error


def _links_to(login: Login) -> Links:
    return Links(_connection(login, _ASKING), _connection(login, _PUBLISHING))


def _connection(login: Login, use: str) -> Connection:
    """This process's connection to a server for one use."""
    connection = _connections.get((login, use))
    if connection is None:
        while len(_connections) >= CONNECTIONS_MAX:
            _connections.pop(next(iter(_connections))).close()
        connection = _connections[login, use] = Connection(login, CONNECTION_NAME)
    return connection
