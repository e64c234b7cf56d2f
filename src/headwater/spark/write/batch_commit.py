"""The commit of a batch by the driver, when all its partitions are written.

A batch that was committed before, by this run or an earlier one, is compared with the committed one
(rule 5 of `markers`): an equal batch is skipped, another one is refused.

If an earlier run has begun the batch, it may have cut it into other partitions (rule 6). Then equal
rows have ids of the partition they were in, and a task that finds a row of its own under the id of
another partition cannot know which it is: the same row, written before it moved, or an equal one
that has always been in the other partition. The driver can decide, because it gets reports of all
partitions. For a content, let A be the rows that no task has written for this reason (`undecided`),
and L the ids in the stream that belong to no row of this run (`left_over`, and those of partitions
that no longer exist). Each of the latter is one of the former, so A - L rows are missing, and are
published here. They are copied from the stream, which has an equal one. A repetition has the same
result: ids that were published here are found. Dead letters are handled in the same way.

Knows neither Spark nor Arrow.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final, final

from headwater.base.errors import OperatingError
from headwater.client.link.api import ApiClient
from headwater.client.link.publisher import FLIGHT_MESSAGES_MAX, Messages, Publisher
from headwater.client.link.reads.fetch import SequenceRange, read_range
from headwater.spark.write import markers
from headwater.spark.write.markers import CommittedBatch
from headwater.spark.write.partition_write import Links, Patience, Written
from headwater.spark.write.row_ids import added_sums, batch_prefix, content_of
from headwater.spark.write.tail import Moved, message_ids

# Header lines of a row that its copy does not get.
_NOT_COPIED: Final = (b"Nats-Msg-Id:", b"Nats-Batch-")


class CopyGoneError(OperatingError):
    """A row of a batch with other partitions was removed before its copy was written."""


@final
class BatchCommit:
    """Commits the batches of one query to one stream."""

    def __init__(
        self,
        links: Links,
        marker_bucket: str,
        stream: str,
        query: str,
        letters_stream: str | None = None,
    ) -> None:
        self._links = links
        self._bucket = marker_bucket
        self._stream = stream
        self._letters_stream = letters_stream or ""
        self._query = query
        self._api = ApiClient(links.asking)

    def put(
        self, batch: int, done: Sequence[Written], offsets: str = "", on_changed: str = "fail"
    ) -> None:
        """Commit the batch, with the results of its partitions in order.

        Raises ChangedBatchError, unless changed batches are to be skipped.
        """
        record = CommittedBatch(
            batch=batch,
            partitions=len(done),
            rows=sum(each.rows for each in done),
            digest=f"{added_sums(*(each.content_sum for each in done)):x}",
            offsets=offsets,
        )
        patiently = Patience(self._links.asking)
        for stream, moved in (
            (self._stream, [each.moved for each in done]),
            (self._letters_stream, [each.letters_moved for each in done]),
        ):
            if any(each.undecided for each in moved):
                patiently(partial(self._publish_undecided, stream, batch, moved))
        before = patiently(lambda: markers.commit(self._api, self._bucket, self._query, record))
        if before is not None and on_changed == "fail":
            before.check_replay(record)

    def _publish_undecided(self, stream: str, batch: int, moved: Sequence[Moved]) -> None:
        """Publish the undecided rows that are missing from a stream."""
        undecided = [row_id for each in moved for row_id in each.undecided]
        found = self._found(stream, batch, {content_of(row_id) for row_id in undecided})
        prefix = batch_prefix(self._query, batch)
        spare = Counter(content_of(row_id) for each in moved for row_id in each.left_over)
        spare.update(
            content_of(row_id)
            for row_id in found
            if int(row_id[len(prefix) :].partition(b"-")[0]) >= len(moved)
        )
        sequence_of = {content_of(row_id): sequence for row_id, sequence in found.items()}
        missing = []
        for row_id in undecided:
            content = content_of(row_id)
            if row_id in found:
                continue
            if spare[content] > 0:
                spare[content] -= 1
            else:
                missing.append((row_id, sequence_of.get(content, 0)))
        for begin in range(0, len(missing), FLIGHT_MESSAGES_MAX):
            self._publish(stream, missing[begin : begin + FLIGHT_MESSAGES_MAX])

    def _found(self, stream: str, batch: int, contents: set[bytes]) -> dict[bytes, int]:
        """The ids of the batch in a stream, of rows with these contents, and their sequences."""
        prefix = batch_prefix(self._query, batch)
        begun = markers.query_marker(self._api, self._bucket, self._query)[0].begun
        info = self._api.stream_info(stream)
        first = 1 if begun is None or begun.batch != batch else begun.first_in(stream)
        wanted = SequenceRange(max(first, info.first_seq), info.last_seq)
        found: dict[bytes, int] = {}
        for columns in read_range(self._links.asking, info, wanted, headers_only=True):
            ids = zip(message_ids(columns.headers), columns.sequences, strict=True)
            found.update(
                (row_id, sequence)
                for row_id, sequence in ids
                if row_id.startswith(prefix) and content_of(row_id) in contents
            )
        return found

    def _publish(self, stream: str, missing: list[tuple[bytes, int]]) -> None:
        """Publish rows by their ids, each a copy of the message at a sequence."""
        messages = Messages.none()
        stored = {
            sequence: self._api.message(stream, {"seq": sequence}) if sequence else None
            for sequence in {sequence for _, sequence in missing}
        }
        for row_id, sequence in missing:
            copied = stored[sequence]
            if copied is None:
                raise CopyGoneError(
                    f"stream {stream} has lost message {sequence} while a batch with other"
                    " partitions was written: go back to the number of partitions it had"
                )
            lines = copied.header.removesuffix(b"\r\n\r\n").split(b"\r\n")[1:]
            kept = [b"%b\r\n" % line for line in lines if not line.startswith(_NOT_COPIED)]
            header = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n%b\r\n" % (row_id, b"".join(kept))
            subject = copied.subject.encode()
            messages.extend(Messages([subject], [header], [copied.data], [row_id], [0]))
        if not self._links.publishing.is_open:
            self._links.publishing.reconnect()
        Publisher(self._links.publishing, stream).publish(messages)
