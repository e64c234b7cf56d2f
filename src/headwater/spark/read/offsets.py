"""The offsets of a streaming read, as Spark keeps them in its checkpoint.

An offset is the end of one batch and the start of the next. It has the next sequence, the stream (a
stream created again under the old name has another `created`), and the parts of the batch that ends
here: a batch that Spark replays after a crash has the same parts, whatever options and cores there
are then, and each part knows how many messages it must find.

    {"stream": "orders", "created": "2026-...", "next": 2001, "ranges": [[1, 1000, 1000],
     [1001, 2000, 997]], "lost": 0}

A count of null: messages of this stream are removed by design, so the number is unknown. `lost` is
the total of skipped sequences that were gone, for `failOnDataLoss=false`. `subjects` are the
patterns by which the batch was planned, and by which it is replayed.

A batch of kind `latest` holds one row for each key that has changed, as of the read, and so a
replay may find newer rows. Its offset has:

    {..., "changes": "latest", "head": 2000}

`head` is the last sequence of the stream when the batch was planned. An entry of the batch that was
replaced since then has its successor behind `head`, where it is searched; without a head it is not.
All ranges of such a batch are equal: each part reads the whole range, and keeps its share of the
keys.

A Spark before 4.2 asks for the end of a batch without its start. Its offset has no ranges, and
`"planned": false`: the batch is planned each time it is read.

Losses are found here too, from two values: an offset and the current state of the stream.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headwater.base.errors import OperatingError
from headwater.client.api.answers import StreamInfo


class DataLossError(OperatingError):
    """Messages that had to be read are gone; the message says which, and what to do."""


class OffsetError(OperatingError):
    """This source cannot continue from the checkpoint."""


class Changes(Enum):
    """The rows of a batch of a streaming read: every message, or the newest of each key."""

    ALL = "all"
    LATEST = "latest"


@dataclass(frozen=True)
class PlannedRange:
    """One partition: sequences from `first` to `last`, both included.

    `count` matching messages existed when it was planned; None if that is not reliable.
    """

    first: int
    last: int
    count: int | None


@dataclass(frozen=True)
class Offset:
    """The end of a batch. `ranges` are the parts of that batch, in the order of sequences."""

    stream: str
    created: str
    next: int
    ranges: tuple[PlannedRange, ...] = ()
    lost: int = 0
    subjects: tuple[str, ...] | None = None
    changes: Changes = Changes.ALL
    head: int | None = None
    is_planned: bool = True

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "stream": self.stream,
            "created": self.created,
            "next": self.next,
            "ranges": [[part.first, part.last, part.count] for part in self.ranges],
            "lost": self.lost,
        }
        # Checkpoints of earlier versions do not have the subjects by which a batch was planned.
        if self.subjects is not None:
            document["subjects"] = list(self.subjects)
        if self.changes is Changes.LATEST:
            document |= {"changes": self.changes.value, "head": self.head}
        if not self.is_planned:
            document["planned"] = False
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Offset":
        """Parse an offset. Raises OffsetError."""
        try:
            return cls(
                stream=str(document["stream"]),
                created=str(document["created"]),
                next=int(document["next"]),
                ranges=tuple(_range(part) for part in document["ranges"]),
                lost=int(document["lost"]),
                subjects=_subjects(document.get("subjects")),
                changes=Changes(document.get("changes", Changes.ALL.value)),
                head=_number(document.get("head")),
                is_planned=bool(document.get("planned", True)),
            )
        except (KeyError, TypeError, ValueError):
            raise OffsetError(
                f"the checkpoint holds {document!r}, which is not an offset of this source:"
                " use another checkpointLocation"
            ) from None

    @property
    def planned_count(self) -> int | None:
        """The number of planned messages; None if unknown."""
        counts = [part.count for part in self.ranges]
        return None if None in counts else sum(count for count in counts if count is not None)

    def check_stream(self, stream: str) -> None:
        """Raises OffsetError if the checkpoint belongs to another stream."""
        if self.stream != stream:
            raise OffsetError(
                f"the checkpoint belongs to stream {self.stream}, the options name {stream}:"
                " use another checkpointLocation"
            )


@dataclass(frozen=True)
class StreamsOffset:
    """The position of a read of several streams: an offset for each, by its name.

        {"streams": {"orders_eu": {…}, "orders_us": {…}}, "lost": 0}

    An offset that a batch has not moved is that of an earlier batch, and so are its ranges. `lost`
    is the total of streams that are no longer read.
    """

    streams: Mapping[str, Offset]
    lost: int = 0

    def to_json(self) -> dict[str, Any]:
        streams = {name: self.streams[name].to_json() for name in sorted(self.streams)}
        return {"streams": streams, "lost": self.lost}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "StreamsOffset":
        """Parse an offset. Raises OffsetError."""
        streams = document.get("streams")
        if not isinstance(streams, Mapping):
            raise OffsetError(
                f"the checkpoint holds {document!r}, which is not an offset of several streams: use"
                " another checkpointLocation"
            )
        offsets = {name: Offset.from_json(each) for name, each in streams.items()}
        return cls(offsets, int(document.get("lost", 0)))


def _range(part: Sequence[Any]) -> PlannedRange:
    first, last, count = part
    return PlannedRange(int(first), int(last), _number(count))


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _subjects(patterns: Sequence[Any] | None) -> tuple[str, ...] | None:
    return None if patterns is None else tuple(str(pattern) for pattern in patterns)


@dataclass(frozen=True)
class Loss:
    """Messages that are gone between an offset and the stream, and the next sequence to read."""

    text: str
    sequences: int
    next: int


def loss_of(
    offset: Offset, info: StreamInfo, keeps: bool, waits_for_start: bool = False
) -> Loss | None:
    """The loss since `offset`; None if all messages after it are there.

    `keeps`: whether the removal of a message before it was read is a loss. `waits_for_start`: the
    offset is a start in the future that the options asked for, so that a shorter stream was not
    cut.
    """
    anew = replacement_of(offset, info)
    if anew is not None:
        return anew
    if info.last_seq < offset.next - 1 and not waits_for_start:
        return Loss(
            f"stream {info.name} ends at sequence {info.last_seq}, before {offset.next - 1}, which"
            " was read already: it was restored or cut",
            0,
            info.last_seq + 1,
        )
    first = first_sequence(info)
    if keeps and first > offset.next:
        gone = first - offset.next
        return Loss(
            f"stream {info.name} lost {gone} sequences, {offset.next} to {first - 1}, before they"
            " were read (purged, expired or discarded)",
            gone,
            first,
        )
    return None


def replacement_of(offset: Offset, info: StreamInfo) -> Loss | None:
    """The loss of a whole stream, if another one has its name now."""
    if offset.created == info.created:
        return None
    return Loss(
        f"stream {info.name} was deleted and created again (created {info.created}, before"
        f" {offset.created}): its earlier messages are gone",
        0,
        first_sequence(info),
    )


def keeps_messages(info: StreamInfo) -> bool:
    """Whether messages of this stream stay until a limit or a user removes them.

    Messages that are consumed, replaced or expire by their own TTL are removed by design.
    """
    return info.keeps_what_it_has and not info.config.get("allow_msg_ttl")


def first_sequence(info: StreamInfo) -> int:
    """The first sequence in the stream, or that of the next message."""
    return info.first_seq if info.messages else info.last_seq + 1
