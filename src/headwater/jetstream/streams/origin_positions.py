"""The positions up to which a stream has copied its sources: a part of its durable state.

For a mirror, whose own last sequence is its position, they have the identity of the origin, and the
sequence up to which the mirror has all that its filter lets through. The sequence is forgotten when
the files may have lost messages; the origin tells it again.

A position changes by a record alone (`headwater.jetstream.records.Copied`). The record stands
before the messages that were copied and holds once they are stored, so that the entry of the
journal about it is there before a limit removes one of them.

The files of a stream may have lost the last entries of the journal and have the messages that they
speak of. So recovery reads the header about the source of every message that came after the last
entry; of a source without an entry it reads all messages.

    entry      of kind 262: the body of a COPIED record
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, final

from headwater.base.sliced import Work, at_once
from headwater.jetstream import header_names as names
from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.stream_records import COPIED, decode_copied, encode_copied
from headwater.jetstream.provenance import Provenance, read_provenance
from headwater.jetstream.records import Copied
from headwater.store.disk.journal import CALLER_KINDS
from headwater.store.log.message_log import MessageLog
from headwater.wire.headers import value_of

POSITION: Final = CALLER_KINDS + COPIED

# The limits of one read while a log is scanned.
_READ_MESSAGES_MAX: Final = 1000
_READ_BYTES_MAX: Final = 4 * 1024 * 1024


class Position(NamedTuple):
    """The last sequence of a source that was copied, and the identity of the stream it is of."""

    sequence: int = 0
    identity: bytes = b""


NOWHERE: Final = Position()


@final
class OriginPositions:
    """The positions of the sources of one stream, by index name."""

    __slots__ = ("_add_entry", "_by_source", "_log", "waiting")

    def __init__(self, log: MessageLog, add_entry: Callable[[tuple[int, bytes]], object]) -> None:
        """`add_entry` has an entry written to the journal with the next removal, or soon."""
        self._log = log
        self._add_entry = add_entry
        self._by_source: dict[bytes, Position] = {}
        # The record whose messages are not stored yet.
        self.waiting: Copied | None = None

    def of(self, source: bytes) -> Position:
        """The position of a source; `NOWHERE` if nothing of it was copied."""
        return self._by_source.get(source, NOWHERE)

    def apply(self, record: Copied) -> None:
        """Apply a record that is committed."""
        if record.last_sequence:
            self.waiting = record
        else:
            self._hold(record)

    def stored(self) -> None:
        """Have the record hold that has waited for the messages which are stored now."""
        record, self.waiting = self.waiting, None
        if record is not None and record.last_sequence == self._log.last_sequence:
            self._hold(record)

    def _hold(self, record: Copied) -> None:
        self._by_source[record.source] = Position(record.sequence, record.identity)
        self._add_entry((POSITION, encode_copied(record)))

    def retreat(self) -> None:
        """Forget a record whose messages could not be stored."""
        self.waiting = None

    def keep_only(self, sources: Iterable[bytes]) -> None:
        """Forget the positions of all other sources. A source that comes back later goes on behind
        the messages of it that the stream still has."""
        kept = {*sources}
        for source in self._by_source.keys() - kept:
            del self._by_source[source]

    def finding_missing(self, sources: Iterable[bytes]) -> Work[None]:
        """Find the positions of sources that have none by the headers of stored messages."""
        wanted = {*sources} - self._by_source.keys()
        if wanted and self._log.messages:
            found = yield from self._scanning(1, wanted)
            for source, position in found.items():
                self._by_source[source] = position
                self._add_entry(_entry_of(source, position))

    def entries(self) -> list[tuple[int, bytes]]:
        """All positions as entries of a journal."""
        return [_entry_of(source, position) for source, position in self._by_source.items()]

    def dump(self) -> list[tuple[bytes, int, bytes]]:
        """All positions, in an order that does not depend on how they came about."""
        return [(source, *self._by_source[source]) for source in sorted(self._by_source)]

    def restore(self, found: Iterable[Copied]) -> None:
        """Take over positions, as of another replica."""
        for record in found:
            self._by_source[record.source] = Position(record.sequence, record.identity)

    def recover(self, sources: Iterable[bytes], is_exact: bool, mirror: bytes = b"") -> None:
        """Restore the positions from the journal, and from the messages that came after it.

        The files of a log that `is_exact` have both or neither. Of the origin of a mirror only the
        identity counts in other files, which no message has.
        """
        wanted = {*sources}
        named = wanted | {mirror} if mirror else wanted
        if not named:
            return
        behind = 0
        for entry in self._log.entries:
            if entry.kind == POSITION:
                try:
                    record = decode_copied(entry.body)
                except RecordError:
                    continue
                if record.source in named:
                    self._by_source[record.source] = Position(record.sequence, record.identity)
                    behind = entry.position
        if mirror in self._by_source and not is_exact:
            self._by_source[mirror] = Position(0, self._by_source[mirror].identity)
        if wanted and self._by_source and not is_exact:
            found = at_once(self._scanning(behind + 1, self._by_source.keys()))
            for source, position in found.items():
                self._by_source[source] = position
                self._add_entry(_entry_of(source, position))
        at_once(self.finding_missing(wanted))

    def _scanning(self, sequence: int, wanted: Iterable[bytes]) -> Work[dict[bytes, Position]]:
        """The positions of sources by the last messages of each from a sequence on."""
        log, found = self._log, dict[bytes, Position]()
        sequence = log.index.next_message(sequence)
        known = {*wanted}
        while sequence:
            batch = log.read(sequence, _READ_MESSAGES_MAX, _READ_BYTES_MAX)
            if not len(batch):
                break
            for header in batch.headers:
                provenance = _provenance_in(header)
                if provenance is None:
                    continue
                position = Position(provenance.sequence, provenance.identity)
                for source in provenance.among(known):
                    found[source] = position
            yield len(batch)
            sequence = log.index.next_message(batch.sequences[-1] + 1)
        return found


def _provenance_in(header: bytes) -> Provenance | None:
    if not header or names.STREAM_SOURCE not in header:
        return None
    value = value_of(header, names.STREAM_SOURCE)
    return None if value is None else read_provenance(value)


def _entry_of(source: bytes, position: Position) -> tuple[int, bytes]:
    return POSITION, encode_copied(Copied(source, *position))
