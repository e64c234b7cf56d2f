"""Streams sent as backups: one object per snapshot under way, from the reply to the end.

`headwater.jetstream.api.snapshot` decides which chunk is sent when; this module joins it to
subjects and timers. Reads and publishes go on meanwhile: a snapshot sends for one turn, and other
clients are served before the next.
"""

from collections.abc import Callable
from typing import Final, final

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.go.json import write
from headwater.jetstream.advisories import SnapshotCompleteAdvisory, SnapshotCreateAdvisory
from headwater.jetstream.api.documents import StreamState
from headwater.jetstream.api.snapshot import (
    NO_FLOW,
    NO_INTEREST,
    Outgoing,
    SnapshotRequest,
    SnapshotSender,
)
from headwater.jetstream.backup.writing import BackupWriter
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.client import Client
from headwater.server.streams.backups.exchange import Exchange, TransferServer

_ACK_PREFIX: Final = "$JS.SNAPSHOT.ACK"
# The client may subscribe to the subject of the chunks only after it has asked.
INTEREST_WAIT_NS: Final = 2 * NS_PER_S
INTEREST_LOOK_S: Final = 0.05


@final
class Snapshot:
    """One snapshot under way. `ended` is called when it is over, however it ends."""

    __slots__ = (
        "_clock",
        "_consumers",
        "_deliver",
        "_exchange",
        "_had_interest",
        "_log",
        "_request",
        "_sender",
        "_state",
        "_waiting_until_ns",
        "ended",
        "stream",
    )

    def __init__(
        self,
        server: TransferServer,
        exchange: Exchange,
        stream: Stream,
        request: SnapshotRequest,
        state: StreamState,
        ended: Callable[["Snapshot"], object],
    ) -> None:
        self._clock = server.clock
        self._log = server.log
        self._exchange = exchange
        self.stream = stream
        self._request = request
        self._state = state
        self.ended = ended
        # The consumers of this moment, also if some are deleted before they are sent; none that
        # servers read the stream by.
        self._consumers = [] if request.no_consumers else stream.consumers.shown
        self._deliver = request.deliver_subject.encode(errors="surrogateescape")
        self._waiting_until_ns = self._clock.monotonic_ns() + INTEREST_WAIT_NS
        self._had_interest = False
        self._sender: SnapshotSender | None = None
        # The first turn comes after the reply.
        exchange.plan_turn(self._announce)

    # --- beginning -----------------------------------------------------------------------------

    def _announce(self) -> None:
        self._log.info(f"Starting snapshot for {self._exchange.title}")
        self._exchange.advise("SNAPSHOT_CREATE", SnapshotCreateAdvisory, state=self._state)
        self._await_interest()

    def _has_subscriber(self) -> bool:
        return self._exchange.account.is_heard(self._deliver)

    def _await_interest(self) -> None:
        """Begin when a client is subscribed, or in any case after a while."""
        now_ns = self._clock.monotonic_ns()
        self._had_interest = self._has_subscriber()
        if not self._had_interest and now_ns < self._waiting_until_ns:
            self._exchange.plan_turn(self._await_interest, INTEREST_LOOK_S)
            return
        exchange = self._exchange
        subject = exchange.new_subject(_ACK_PREFIX).encode()
        state = msgspec.structs.replace(self._state, consumer_count=len(self._consumers))
        source = BackupWriter(
            self.stream.log, write(state), state.last_seq, exchange.started_ns, self._consumers
        )
        self._sender = SnapshotSender(self._request, source, subject, now_ns)
        exchange.subscribe(subject + b".>", self._acknowledged)
        self._send_chunks()

    # --- sending -------------------------------------------------------------------------------

    def _send_chunks(self) -> None:
        """Send the chunks of this turn."""
        sender = self._sender
        if sender is None or sender.is_over:
            return
        now_ns = self._clock.monotonic_ns()
        if self._had_interest and not self._has_subscriber():
            self._give_up(NO_INTEREST)
            return
        for message in sender.send(now_ns):
            self._send(message)
        if sender.is_over:
            self._conclude(sender.error)
        elif sender.can_send:
            self._exchange.plan_turn(self._send_chunks)
        elif not self._exchange.has_deadline:
            self._exchange.set_deadline(sender.deadline_ns, self._look_at_deadline)

    def _send(self, message: Outgoing) -> None:
        self._exchange.send(self._deliver, message.payload, message.reply, message.header)

    def _acknowledged(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        if self._sender is not None:
            self._sender.acknowledged()
            self._exchange.plan_turn(self._send_chunks)

    def _look_at_deadline(self) -> None:
        """Give up if no acknowledgement has come for too long."""
        sender = self._sender
        if sender is None or sender.is_over:
            return
        if sender.can_send or self._clock.monotonic_ns() < sender.deadline_ns:
            self._exchange.set_deadline(sender.deadline_ns, self._look_at_deadline)
            return
        is_gone = self._had_interest and not self._has_subscriber()
        self._give_up(NO_INTEREST if is_gone else NO_FLOW)

    # --- the end -------------------------------------------------------------------------------

    def stream_deleted(self) -> None:
        """End the snapshot of a stream that was deleted."""
        self._give_up("stream was deleted")

    def _give_up(self, reason: str) -> None:
        sender = self._sender
        if sender is None:
            # No chunk was sent: only subscribers of advisories are told.
            self._conclude(reason)
        elif not sender.is_over:
            self._send(sender.give_up(reason))
            self._conclude(sender.error)

    def stop(self) -> None:
        """Send no more, because the server stops."""
        self._exchange.close()

    def _conclude(self, error: str) -> None:
        self.stop()
        self.ended(self)
        if error:
            self._log.warn(f"Snapshot for {self._exchange.title} failed: {error}")
        else:
            self._log.info(f"Completed snapshot for {self._exchange.title}")
        self._exchange.advise_end("SNAPSHOT_COMPLETE", SnapshotCompleteAdvisory, error=error)
