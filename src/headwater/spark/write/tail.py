"""The tail of a stream: the rows of a partition that an earlier attempt has written.

A tail reads the headers of the stream's end, from where the first attempt began to the current end,
and keeps the ids of the partition's rows. Each further search continues where the last one ended.

In streams that remove messages by design (buckets and other streams with a limit per subject, work
queues) a row may have been written and be gone. There an id that is found proves more than itself:
rows are published in their order, so all earlier rows of the partition with the same subject were
written too. This holds as long as the partition's rows come in the same order again; a row that was
written and removed without a later row of its subject being found is written once more.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from headwater.client.link.api import ApiClient
from headwater.client.link.publisher import Messages
from headwater.client.link.reads.fetch import SequenceRange, read_range
from headwater.spark.write.row_ids import content_of, content_of_row
from headwater.wire.headers import VERSION

_ID_LINE: Final = b"\r\nNats-Msg-Id:"
_CRLF: Final = b"\r\n"
_VERSION_LINE: Final = VERSION + _CRLF


@dataclass(frozen=True)
class Moved:
    """The rows that a partition leaves to the driver, if an earlier run may have cut otherwise.

    `undecided` are ids of rows that were not written, because equal ones were found under ids of
    other partitions; `left_over` are ids of this partition that were found and that none of its
    rows has.
    """

    undecided: tuple[bytes, ...] = ()
    left_over: tuple[bytes, ...] = ()


NOTHING_MOVED: Final = Moved()


@final
class Tail:
    """The ids found in a stream from a sequence on. An empty `prefix` means that any id counts.

    With a `batch_prefix` the contents of rows that other partitions of the batch have written are
    kept too.
    """

    def __init__(
        self,
        api: ApiClient,
        stream: str,
        from_sequence: int,
        prefix: bytes,
        batch_prefix: bytes = b"",
    ) -> None:
        self._api = api
        self._stream = stream
        self._next = self._first = from_sequence
        self._prefix = prefix
        self._batch_prefix = batch_prefix
        self._ids: set[bytes] = set()
        self._elsewhere: set[bytes] = set()
        self._undecided: list[bytes] = []
        # Counts of contents of messages without an id, by subject, up to a sequence.
        self._nameless: dict[bytes, tuple[int, Counter[bytes]]] = {}

    @property
    def ids(self) -> set[bytes]:
        """The ids found so far."""
        return self._ids

    def to_write(self, ids: list[bytes]) -> list[int]:
        """The places of those ids that were not found; undecided ones are noted."""
        places = [at for at, row_id in enumerate(ids) if row_id not in self._ids]
        if not self._elsewhere:
            return places
        moved = [at for at in places if content_of(ids[at]) in self._elsewhere]
        self._undecided += [ids[at] for at in moved]
        return [at for at in places if content_of(ids[at]) not in self._elsewhere]

    def without_found(self, messages: Messages) -> Messages:
        """The messages without those that were found or are undecided."""
        places = self.to_write(messages.ids)
        return messages if len(places) == len(messages) else messages.picked(places)

    @property
    def undecided_count(self) -> int:
        """The number of rows so far that the driver has to decide on."""
        return len(self._undecided)

    def moved(self, is_own: Callable[[bytes], bool]) -> Moved:
        """The rows that have changed their partition, for the driver."""
        if not self._batch_prefix:
            return NOTHING_MOVED
        left_over = tuple(found for found in self._ids if not is_own(found))
        return Moved(tuple(self._undecided), left_over)

    def read_new(self) -> None:
        """Search the messages that the stream has got since the last search."""
        info = self._api.stream_info(self._stream)
        first = max(self._next, info.first_seq)
        if info.last_seq < self._next - 1:
            # The stream was created again, or its end was cut off.
            first = info.first_seq
        if first <= info.last_seq:
            wanted = SequenceRange(first, info.last_seq)
            for columns in read_range(self._api.connection, info, wanted, headers_only=True):
                self._add_ids(columns.headers)
        self._next = info.last_seq + 1

    def nameless(self, subject: bytes, content: bytes) -> int:
        """The number of messages with this subject and content, and without an id.

        Each message is read once, with its payload.
        """
        info = self._api.stream_info(self._stream)
        first, counts = self._nameless.get(subject, (self._first, Counter[bytes]()))
        wanted = SequenceRange(max(first, info.first_seq), info.last_seq)
        if wanted.first <= wanted.last:
            pattern = (subject.decode(),)
            for columns in read_range(self._api.connection, info, wanted, pattern):
                for header, payload in zip(columns.headers, columns.payloads, strict=True):
                    if _ID_LINE not in header:
                        lines = header[len(_VERSION_LINE) : -len(_CRLF)]
                        counts[content_of_row(subject, lines, payload)] += 1
        self._nameless[subject] = (info.last_seq + 1, counts)
        return counts[content]

    def _add_ids(self, headers: list[bytes]) -> None:
        ids = message_ids(headers)
        if self._prefix:
            self._ids.update([found for found in ids if found.startswith(self._prefix)])
            if self._batch_prefix:
                others = [found for found in ids if found.startswith(self._batch_prefix)]
                self._elsewhere.update(
                    [content_of(found) for found in others if not found.startswith(self._prefix)]
                )
        else:
            self._ids.update(filter(None, ids))


def message_ids(headers: list[bytes]) -> list[bytes]:
    """The ids in blocks of headers; empty without one."""
    return [header.partition(_ID_LINE)[2].partition(_CRLF)[0].lstrip(b" ") for header in headers]


@final
class InOrder:
    """For streams that remove messages by design: a row that is found proves those before it.

    Rows that are not found are held back until the last found row has come by; those whose subject
    is found in a later row are dropped, the others are released in their order. If an earlier
    attempt has noted that it has written all of its first `written` rows, and their digest, then
    rows are held back until as many have come, and dropped if they have the same digest. Only
    retries need this, so it may cost memory and time.
    """

    def __init__(self, tail: Tail, written: int = 0, digest: str = "") -> None:
        self._tail = tail
        self._written = written
        self._digest = digest
        self._count = 0
        self._found_count = 0
        # Found rows that have not come by yet, and all rows that have.
        self._awaited: set[bytes] = set()
        self._passed: set[bytes] = set()
        self._held: dict[int, Messages] = {}
        self._held_rows: defaultdict[bytes, list[int]] = defaultdict(list)

    def of(self, messages: Messages, digest: str = "") -> Messages:
        """The messages that are known not to have been written; some may have come earlier.

        `digest` is that of all rows up to these.
        """
        found = self._tail.ids
        if len(found) != self._found_count:
            self._found_count = len(found)
            self._awaited = found - self._passed
        for at, row_id in enumerate(messages.ids):
            if row_id in found:
                self._drop(messages.subjects[at])
            else:
                self._hold(messages, at)
        self._passed.update(messages.ids)
        self._awaited.difference_update(messages.ids)
        self._count += len(messages)
        if self._count >= self._written:
            if self._count == self._written and digest == self._digest:
                self._forget()
            self._written = 0
        return Messages.none() if self._awaited or self._written else self.rest()

    def rest(self) -> Messages:
        """The messages that were held back for a row that has not come."""
        rest = Messages.none()
        for held in self._held.values():
            rest.extend(held)
        self._forget()
        return rest

    def _forget(self) -> None:
        self._held.clear()
        self._held_rows.clear()

    def _hold(self, messages: Messages, at: int) -> None:
        self._held[messages.rows[at]] = messages.part(at, at + 1)
        self._held_rows[messages.subjects[at]].append(messages.rows[at])

    def _drop(self, subject: bytes) -> None:
        for row in self._held_rows.pop(subject, ()):
            del self._held[row]
