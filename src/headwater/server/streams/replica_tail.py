"""The entries that the leader of an eventual stream has applied ahead of its quorum.

The files of the stream are only appended to while there are such entries. So they can be cut back
to how they were after any of these entries (`headwater.store.log.redo_points`).
"""

from collections import deque
from typing import NamedTuple, Protocol, final

from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.log_entries import decode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.records import Published
from headwater.jetstream.streams.stream import Stream
from headwater.store.disk.wal import RedoPoint
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupEntry
from headwater.store.groups.lost_tails import TAIL_PREFIX, encode_tail
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import MessageLog


class AheadMachine(Protocol):
    """The replica of an eventual stream, as its consensus knows it."""

    def written(self) -> None:
        """Apply what the log of this server has, as far as the tail may reach."""
        ...

    def entries_lost(self, entries: list[GroupEntry]) -> None:
        """Keep entries that are about to be cut off from the log."""
        ...


class AheadGroups(Protocol):
    """The groups of a server whose leaders act on entries before the quorum has them."""

    def run_ahead(self, identity: bytes, machine: AheadMachine | None) -> None:
        """Have leaders of a group act on entries that this server has written; None for leaders
        that wait for the quorum."""
        ...

    def be_sure_of_sequences(self, identity: bytes) -> None:
        """Note that the leader of a group has passed over all sequences that leaders before it may
        have given out."""
        ...

    def follows_release(self, identity: bytes) -> bool:
        """Whether this server leads a group with all that leaders before it have acted on."""
        ...

    def vouched(self, identity: bytes) -> int:
        """The place up to which this server may act on the log of a group that it leads."""
        ...

    def has_quorum(self, identity: bytes) -> bool:
        """Whether this server leads a group and hears enough of its members to commit."""
        ...

    def resign(self, identity: bytes) -> None:
        """Have the members of a group elect its leader again."""
        ...

    def disown(self, identity: bytes, first: int) -> None:
        """Have the entries from a place on withdrawn if this server leads the group again."""
        ...


class _Ahead(NamedTuple):
    """A place of the log that is applied before the quorum has it, and the files after it."""

    place: int
    point: RedoPoint | None


@final
class AppliedAhead:
    """The places that are applied to a stream and may be taken back, in order."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: deque[_Ahead] = deque()

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, stream: Stream, place: int) -> None:
        """Note a place that was applied just now."""
        log = stream.log
        self._places.append(
            _Ahead(place, log.files_after(place) if isinstance(log, FileLog) else None)
        )
        if stream.digests is not None:
            stream.digests.applied(place, stays=False)

    def keep(self, stream: Stream, place: int) -> int:
        """Note that everything up to a place stays. Returns the last applied place among it; 0 if
        there is no news."""
        kept = None
        while self._places and self._places[0].place <= place:
            kept = self._places.popleft()
        if kept is None:
            return 0
        log = stream.log
        if kept.point is not None and isinstance(log, FileLog) and not log.offline:
            log.mark_behind(kept.point)
        if stream.digests is not None:
            stream.digests.stays_to(kept.place)
        return kept.place

    def clear(self) -> None:
        """Forget all of them: they are taken back."""
        self._places.clear()


class LostTail(NamedTuple):
    """Messages that a stream does not have any more: their sequences and number, and the file that
    has them; an empty path if there is none, and the reason."""

    first_sequence: int
    last_sequence: int
    messages: int
    path: str
    fault: str

    @property
    def text(self) -> str:
        """The loss in words."""
        kept = f"they are kept in {self.path}" if self.path else f"they are gone: {self.fault}"
        return (
            f"{self.messages} messages with the sequences {self.first_sequence} to "
            f"{self.last_sequence}, which an eventual leader may have acknowledged, are not in the "
            f"log of its successor; {kept}"
        )


def keep_lost(
    stream: Stream, entries: list[GroupEntry], successor: MessageLog | None = None
) -> LostTail | None:
    """Set entries with messages aside, before they are cut off from the log. Returns None if no
    message is among them.

    `successor` has the messages of a snapshot that replaces the entries: some of them may have been
    committed, though this server did not hear of it, and then they are no loss.
    """
    codec = RecordCodec(stream.log.record_seed)
    published: list[Published] = []
    kept: list[GroupEntry] = []
    for entry in entries:
        try:
            records = decode_entry(codec, entry.data)
        except RecordError:
            # The file has its bytes.
            kept.append(entry)
            continue
        messages = [record for record in records if isinstance(record, Published)]
        if not messages or not all(_has_all(successor, record) for record in messages):
            kept.append(entry)
            published += messages
    if not published:
        return None
    path, fault = "", "the stream is in memory"
    if isinstance(stream.log, FileLog):
        try:
            data = encode_tail(stream.log.record_seed, kept)
            path = stream.log.set_aside(f"{TAIL_PREFIX}{kept[0].index}", data)
        except StoreError as error:
            fault = str(error)
    count = sum(len(record.batch.subjects) for record in published)
    first, last = published[0].first_sequence, published[-1].last_sequence
    return LostTail(first, last, count, path, fault)


def _has_all(log: MessageLog | None, record: Published) -> bool:
    """Whether a log has all messages of a record."""
    if log is None:
        return False
    batch = record.batch
    try:
        found = [log.get(each) for each in range(record.first_sequence, record.last_sequence + 1)]
    except StoreError:
        return False
    return [each and (each.subject, each.timestamp_ns, each.payload) for each in found] == [
        *zip(batch.subjects, batch.timestamps_ns, batch.payloads, strict=True)
    ]
