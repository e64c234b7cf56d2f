"""What the driver does when all partitions of a batch are written: commit it, or see that it was.

A batch that was committed before, by this run or an earlier one, is compared with what it was then
(rule 5 of `markers`): the same one is passed over, another one is refused.

Knows neither Spark nor Arrow.
"""

from collections.abc import Sequence
from typing import final

from headwater.spark import markers
from headwater.spark.link.api import JetStream
from headwater.spark.markers import CommittedBatch
from headwater.spark.partition_write import Links, Patience, Written
from headwater.spark.row_ids import added_sums


@final
class BatchCommit:
    """Commits the batches of one query to one stream."""

    def __init__(self, links: Links, marker_bucket: str, stream: str, query: str) -> None:
        self._links = links
        self._bucket = marker_bucket
        self._stream = stream
        self._query = query
        self._api = JetStream(links.asking)

    def put(
        self, batch: int, done: Sequence[Written], offsets: str = "", on_changed: str = "fail"
    ) -> None:
        """Commit the batch whose partitions have done this, in the order of partitions.

        Raises ChangedBatchError, unless such batches are to be skipped.
        """
        record = CommittedBatch(
            batch=batch,
            partitions=len(done),
            rows=sum(each.rows for each in done),
            digest=f"{added_sums(*(each.content_sum for each in done)):x}",
            offsets=offsets,
        )
        patiently = Patience(self._links.asking)
        before = patiently(lambda: markers.commit(self._api, self._bucket, self._query, record))
        if before is not None and on_changed == "fail":
            before.check_replay(record)
