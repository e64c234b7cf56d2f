"""The set of streams of a server as a state machine.

    request ─▶ decide_create, decide_delete ─▶ Proposal ─▶ [Group] ─▶ apply ─▶ Open, Close

The state is the stream of each name: its incarnation, its configuration when it was created and the
time of its creation. Only `apply` changes the state, and two sets that apply the same records are
equal. Later configurations, messages and consumers belong to the log of the stream itself.

A stream is known by its account, its name and its incarnation: random bytes that its creation has
drawn, and that are the identity in all of its files. A deletion names an incarnation. Neither a
request that comes late nor a record that is applied once more touches a stream that was created
again under the same name.

A record that is applied has one consequence for the server that holds the stream (`effect_of`): the
stream is opened or closed.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, final

from headwater.base.sliced import Work
from headwater.go.json import write
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.coming_streams import ComingStreams
from headwater.jetstream.proposal import Close, Effect, Open, Proposal, StreamAnnounced
from headwater.jetstream.records import StreamCreated, StreamDeleted, StreamSetRecord


class DumpedStream(NamedTuple):
    """One stream in the canonical dump of a set."""

    account: str
    name: str
    incarnation: str
    created_ns: int
    config: str


def effect_of(record: StreamSetRecord) -> Open | Close:
    """The consequence of a record, once it is applied, for a server that holds the stream."""
    if isinstance(record, StreamCreated):
        return Open(record)
    why = ApiError.of(error_codes.STREAM_NOT_FOUND)
    return Close(record.account, record.name, record.incarnation, why)


def _after(there: StreamCreated | None, record: StreamSetRecord) -> StreamCreated | None:
    """The stream of a name behind a record of that name."""
    if isinstance(record, StreamCreated):
        return record
    is_deleted = there is not None and there.incarnation == record.incarnation
    return None if is_deleted else there


@final
class StreamSet:
    """The streams that exist, and the records that are in flight."""

    __slots__ = ("_in_flight", "_streams", "coming")

    def __init__(self) -> None:
        # The record that created each stream, by account and name.
        self._streams: dict[tuple[str, str], StreamCreated] = {}
        # Records that are proposed and not applied, in order.
        self._in_flight: deque[StreamSetRecord] = deque()
        # Those of them that create streams.
        self.coming = ComingStreams()

    # --- the state -----------------------------------------------------------------------------

    def get(self, account: str, name: str) -> StreamCreated | None:
        """The creation of the stream of that name; None if there is no stream."""
        return self._streams.get((account, name))

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[StreamCreated]:
        return iter(self._streams.values())

    def dump(self) -> list[DumpedStream]:
        """The whole state in one order, whatever the order of the creations was."""
        return [
            DumpedStream(
                account,
                name,
                created.incarnation.hex(),
                created.created_ns,
                write(created.config).decode(),
            )
            for (account, name), created in sorted(self._streams.items(), key=lambda item: item[0])
        ]

    # --- the machine of a group ----------------------------------------------------------------

    def append(self, record: StreamSetRecord) -> None:
        """Queue a record, so that later decisions take it into account."""
        self._in_flight.append(record)
        if isinstance(record, StreamCreated):
            self.coming.add(record)

    def is_queued(self, record: StreamSetRecord) -> bool:
        """Whether a record is the next to be applied."""
        return bool(self._in_flight) and self._in_flight[0] is record

    def retreat(
        self,
        records: Sequence[StreamSetRecord],
        proposals: Sequence[Proposal[StreamSetRecord]] = (),
    ) -> None:
        """Forget records that were queued, because they will never be applied: the newest ones, and
        no deletion that stands between them and stays."""
        staying: deque[StreamSetRecord] = deque()
        gone = deque(records)
        for record in self._in_flight:
            if not gone or record is not gone[0]:
                staying.append(record)
                continue
            gone.popleft()
            if isinstance(record, StreamCreated):
                self.coming.remove(record)
        self._in_flight = staying

    def apply(self, record: StreamSetRecord) -> None:
        """Change the state as a record says."""
        if self.is_queued(record):
            self._in_flight.popleft()
            if isinstance(record, StreamCreated):
                self.coming.remove(record)
        key = record.account, record.name
        stream = _after(self._streams.get(key), record)
        if stream is not None:
            self._streams[key] = stream
        else:
            self._streams.pop(key, None)

    def store(self, records: Sequence[StreamSetRecord]) -> None:
        """Write nothing: the set is in memory, and its log is the catalogue."""

    def show_plain(self, records: Sequence[StreamSetRecord]) -> bool:
        """Apply records, which always takes one step. Returns True."""
        for record in records:
            self.apply(record)
        return True

    def show_unqueued(self, record: StreamSetRecord) -> bool:
        """Leave the record to the queue: streams come and go rarely. Returns False."""
        return False

    def applying(self, record: StreamSetRecord) -> Work[int]:
        """Apply a record as a work of one step, which removes no messages."""
        self.apply(record)
        yield 1
        return 0

    # --- decisions -----------------------------------------------------------------------------

    def foreseen(self, account: str, name: str) -> StreamCreated | None:
        """The creation of the stream that will have a name when all records are applied."""
        stream = self._streams.get((account, name))
        for record in self._in_flight:
            if record.account == account and record.name == name:
                stream = _after(stream, record)
        return stream

    def creation_of(self, deleted: StreamDeleted) -> StreamCreated | None:
        """The creation, applied or in flight, of the incarnation that a record deletes."""
        there = self._streams.get((deleted.account, deleted.name))
        for record in (there, *self._in_flight):
            if isinstance(record, StreamCreated) and record.incarnation == deleted.incarnation:
                return record
        return None

    def is_coming(self, created: StreamCreated) -> bool:
        """Whether a creation is in flight."""
        return created in self.coming

    def decide_create(
        self,
        account: str,
        config: StreamConfig,
        now_ns: int,
        incarnation: bytes,
        replaces: bytes | None = None,
    ) -> Proposal[StreamSetRecord]:
        """The creation of a stream. Raises ApiError if its name is in use.

        `replaces` is the incarnation of a stream of that name whose files are gone: the stream is
        deleted by the same entry.
        """
        records: list[StreamSetRecord] = []
        there = self.foreseen(account, config.name)
        if there is not None:
            if there.incarnation != replaces:
                raise ApiError.of(error_codes.STREAM_NAME_EXIST)
            records.append(StreamDeleted(account, config.name, there.incarnation))
        records.append(StreamCreated(account, config.name, incarnation, config, now_ns))
        announced = StreamAnnounced(account, config.name, is_created=True)
        return Proposal(records, (*map(effect_of, records), announced))

    def decide_delete(
        self, account: str, streams: Iterable[tuple[str, bytes]]
    ) -> Proposal[StreamSetRecord]:
        """The deletion of streams, by name and incarnation. Raises ApiError if one is gone."""
        records, effects = list[StreamSetRecord](), list[Effect]()
        for name, incarnation in streams:
            there = self.foreseen(account, name)
            if there is None or there.incarnation != incarnation:
                raise ApiError.of(error_codes.STREAM_NOT_FOUND)
            deleted = StreamDeleted(account, name, incarnation)
            records.append(deleted)
            effects += [effect_of(deleted), StreamAnnounced(account, name, is_created=False)]
        return Proposal(records, (*effects,))

    def decide_adopt(self, found: Iterable[StreamCreated]) -> Proposal[StreamSetRecord]:
        """The adoption of streams that were found by their folders, each in place of the stream
        that has its name. Nobody waits for it, and the server opens them with all others."""
        proposal: Proposal[StreamSetRecord] = Proposal(is_awaited=False)
        for stream in found:
            there = self.foreseen(stream.account, stream.name)
            if there is not None:
                deleted = StreamDeleted(stream.account, stream.name, there.incarnation)
                proposal.records.append(deleted)
            proposal.records.append(stream)
        return proposal
