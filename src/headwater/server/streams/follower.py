"""A stream on a server that does not lead it: committed entries are applied, and nothing leaves.

A follower has no subscriptions and no consumers at work. It applies the entries of the replicated
log to the same `Stream` that a leader has, so that the server can lead at any time. It answers weak
reads, and those of sessions that it is complete for.

A long application, such as that of a purge of a million messages, is done in slices, and entries
behind it wait.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, final

from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.codec.log_entries import decode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.stream import Stream
from headwater.runtime.environment import Scheduler
from headwater.server.core.slice_turns import SliceTurns
from headwater.server.streams.awaited_reads import AwaitedReads
from headwater.store.errors import DiskFullError, StoreError
from headwater.store.log.file_log import FileLog

# Entries that come while another one waits for room are kept up to so many bytes.
STALLED_BYTES_MAX: Final = 64 * 1024 * 1024


def note_applied(stream: Stream, place: int) -> None:
    """Note that the log of a stream has the effects of the replicated log up to a place, and of
    nothing behind it."""
    log = stream.log
    if isinstance(log, FileLog):
        if log.offline:
            return
        log.applied_entry = place
    if stream.digests is not None:
        stream.digests.applied(place)


@final
class StreamFollower:
    """Applies committed entries to a stream.

    `applied` is called with the place of the last applied entry after an application that took
    several turns; `reconfigured` with the configuration that the stream had before; `failed` with
    the reason when the stream cannot be written any more. `when_room` has a function called once
    when there is room on a disk that was full: an entry that found none waits for that.
    """

    __slots__ = (
        "_applied",
        "_codec",
        "_config",
        "_failed",
        "_group",
        "_is_ended",
        "_is_stopped",
        "_is_working",
        "_places",
        "_reconfigured",
        "_slices",
        "_stalled_bytes",
        "_stream",
        "_waiting",
        "_when_room",
        "place",
        "reads",
    )

    def __init__(
        self,
        stream: Stream,
        place: int,
        slices: SliceTurns,
        scheduler: Scheduler,
        applied: Callable[[int], object],
        reconfigured: Callable[[StreamConfig], object],
        failed: Callable[[str], object],
        when_room: Callable[[Callable[[], object]], object],
    ) -> None:
        """`place` is that of the last entry of the replicated log whose effects the stream has."""
        self._stream = stream
        # A message may leave the stream before the record of its delivery is committed.
        stream.consumers.commit_later()
        self._slices = slices
        self._applied = applied
        self._reconfigured = reconfigured
        self._failed = failed
        self._when_room = when_room
        self._codec = RecordCodec(stream.log.record_seed)
        self._group: Group[Record, ApiError] = Group(stream, self)
        # The places of the entries that the group has, in order.
        self._places: deque[int] = deque()
        self._config = stream.config
        self._is_working = False
        self._is_stopped = self._is_ended = False
        # The bytes of the entries that have come since one has waited for room.
        self._stalled_bytes = 0
        self.place = place
        # Reads of sessions that have seen more than this replica has.
        self.reads = AwaitedReads(scheduler)
        # Calls that wait for the end of a long application.
        self._waiting: list[Callable[[], object]] = []

    # --- reads ---------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether the stream must not be read, because an entry is being applied in slices."""
        return self._is_working

    def when_free(self, look: Callable[[], object]) -> None:
        """Call `look` now, or after the long application that is under way."""
        if self._is_working:
            self._waiting.append(look)
        else:
            look()

    def _look(self) -> None:
        """Make the calls that waited for the end of a long application."""
        waiting, self._waiting = self._waiting, []
        for look in waiting:
            look()

    # --- entries -------------------------------------------------------------------------------

    def apply(self, entries: Iterable[tuple[int, bytes]]) -> int:
        """Apply committed entries, by place and data. Returns the place of the last one that is
        applied by now."""
        group = self._group
        for place, data in entries:
            records = self._decode(place, data)
            if group.is_stalled:
                self._stalled_bytes += len(data)
                if self._stalled_bytes > STALLED_BYTES_MAX:
                    self._stop("the disk has no room, and too many entries wait for some")
            if self._is_stopped:
                break
            self._places.append(place)
            proposal = Proposal(records, is_awaited=False, needs_entry=True)
            if group:
                group.propose(proposal)
                group.advance(proposal.index)
            else:
                group.propose_committed(proposal)
        self._work_if_long()
        return self.place

    def _work_if_long(self) -> None:
        """Go on with a long application in slices."""
        if self._group.is_applying and not self._is_working:
            self._is_working = True
            self._stream.log.is_held = True
            self._slices.add(self._work_on)

    def _go_on(self) -> None:
        """Apply the entries that have waited for room."""
        if not (self._is_stopped or self._is_ended):
            self._stalled_bytes = 0
            self._group.go_on()
            self._work_if_long()
            self._applied(self.place)

    def _decode(self, place: int, data: bytes) -> list[Record]:
        """The records of an entry. Bytes that are no records end the work of this replica."""
        try:
            return decode_entry(self._codec, data)
        except RecordError as error:
            self._stop(f"entry {place} cannot be read: {error}")
            return []

    def _work_on(self) -> None:
        """Do one more slice of a long application."""
        if not self._is_working:
            return
        if self._group.apply_more():
            self._slices.add(self._work_on)
            return
        self._is_working = False
        self._stream.log.is_held = False
        self._applied(self.place)
        self._look()

    def finish_work(self) -> None:
        """Do the rest of a long application at once, because this server leads from now on."""
        while self._is_working:
            if not self._group.apply_more():
                self._is_working = False
                self._stream.log.is_held = False
        self._look()

    # --- the group -----------------------------------------------------------------------------

    def release(self, proposal: Proposal[Record]) -> None:
        """Note an entry whose records are applied."""
        place = self._places.popleft()
        if self._is_stopped:
            return
        try:
            self._stream.consumers.flush()
            self._stream.log.write_journal()
        except StoreError as error:
            self._stop(str(error))
            return
        self._stream.consumers.forget_news()
        note_applied(self._stream, place)
        self.place = place
        if self.reads.waiting:
            self.reads.advance(self._stream.complete_sequence)
        before, self._config = self._config, self._stream.config
        if before is not self._config:
            self._reconfigured(before)

    def refuse(self, proposal: Proposal[Record], error: ApiError) -> None:
        """Drop an entry behind one that could not be stored."""
        self._places.popleft()

    def application_failed(self, record: Record, error: StoreError) -> bool:
        """Stop: the files of the stream lack a part of the record. Returns False."""
        self._stop(str(error))
        return False

    def storing_failed(self, proposal: Proposal[Record], error: StoreError) -> ApiError | None:
        """Have a committed entry wait for room; stop if the disk has failed."""
        if isinstance(error, DiskFullError):
            self._when_room(self._go_on)
            return None
        return self.application_broken(proposal, error)

    def application_broken(self, proposal: Proposal[Record], error: StoreError) -> ApiError:
        """Stop: a committed entry cannot be stored as a whole."""
        self._stop(str(error))
        return ApiError(500, 0, str(error))

    def _stop(self, reason: str) -> None:
        """Take the log offline: it is opened again with the entries that it lacks."""
        log = self._stream.log
        if isinstance(log, FileLog) and not log.offline:
            log.go_offline(reason)
        if not self._is_stopped:
            self._is_stopped = True
            self._failed(reason)

    def end(self) -> None:
        """Answer the reads that wait, and break the reference cycles of a follower that ends."""
        self.reads.answer_all()
        self._look()
        self._is_working = False
        self._is_ended = True
        self._group.break_cycles()
