"""The effects of the proposals of one stream: this is the one place from which they leave.

    Proposal ─┬─▶ at once: deliveries, statuses and events of consumers, which run ahead of the log
              ├─▶ released: republished messages, replies, confirmations, answers, changes
              └─▶ refused: refusals of publishes and requests, advisories about abandoned batches

Effects are values (`headwater.jetstream.proposal`). The broker and the advisories get what clients
see, and the runner of the consumers gets what has a consumer go on with its work. The runner of the
stream decides when a proposal is released or refused.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol, final

from headwater.jetstream import error_codes
from headwater.jetstream.advisories import Action
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.consumers.effects import Messages, Status
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import (
    Answered,
    Confirmed,
    ConsumerClosed,
    ConsumerEvent,
    ConsumerLeft,
    ConsumerOpened,
    ConsumerReconfigured,
    ConsumerServed,
    ConsumerUnpinned,
    Effect,
    Proposal,
    StreamReconfigured,
)
from headwater.jetstream.records import Record
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.consumer_runner import ConsumerRunner
from headwater.server.streams.election_listener import ElectionListener
from headwater.store.errors import DiskFullError

# The answer to publishes whose result is unknown.
UNKNOWN: Final = ApiError.of(error_codes.PUBLISH_STATUS_UNKNOWN)
# The answer to requests whose result is unknown.
NOT_AVAILABLE: Final = ApiError.of(error_codes.CLUSTER_NOT_AVAIL)


class Parts(Protocol):
    """The parts of a server that effects need."""

    broker: Broker
    advisories: Advisories
    elections: ElectionListener

    def now_ns(self) -> int:
        """The time, as messages carry it."""
        ...


@final
class Effects:
    """Carries out the effects of the proposals of one stream.

    `reconfigured` is called with the configuration that the stream had before.
    """

    __slots__ = ("_account", "_broker", "_consumers", "_parts", "_reconfigured", "_stream")

    def __init__(
        self,
        parts: Parts,
        account: Account,
        stream: Stream,
        consumers: ConsumerRunner,
        reconfigured: Callable[[StreamConfig], object],
    ) -> None:
        self._parts = parts
        self._broker = parts.broker
        self._account = account
        self._stream = stream
        self._consumers = consumers
        self._reconfigured = reconfigured

    def break_cycles(self) -> None:
        """Drop the reference back to the runner of a deleted stream."""
        del self._reconfigured

    # --- proposals -----------------------------------------------------------------------------

    def reply(self, proposal: Proposal[Record]) -> None:
        """Send the replies to the publishes of a proposal, and what leaves before them."""
        broker = self._broker
        for subject, header, body in proposal.republished:
            broker.send(self._account, subject, None, body, header)
        subjects = proposal.reply_subjects
        if len(subjects) == 1:
            broker.send_reply(self._account, subjects[0], proposal.replies[0])
        elif subjects:
            broker.send_replies(self._account, subjects, proposal.replies)
        if proposal.abandoned:
            self._tell_abandoned(proposal)

    def release(self, proposal: Proposal[Record]) -> None:
        """Carry out the effects that waited until the records of a proposal are applied."""
        failure = proposal.failure
        for effect in proposal.effects:
            if isinstance(effect, Answered):
                if failure is not None:
                    effect.refuse(failure)
                else:
                    effect.respond(proposal.removed)
            elif isinstance(effect, Confirmed):
                if failure is None and not self._stream.log.offline:
                    replies = effect.reply_subjects
                    self._broker.send_replies(self._account, replies, [b""] * len(replies))
                # Otherwise the acknowledgements may never be durable. The client tries again, and
                # gets an answer when there is room or after a restart.
            elif failure is None:
                self.carry_out((effect,))

    def refuse(self, proposal: Proposal[Record], error: ApiError) -> None:
        """Answer a proposal whose records will never be applied.

        If the log had no room, replies that rest on stored messages are true all the same.
        """
        failure = proposal.failure
        if proposal.reply_subjects:
            is_full = isinstance(failure, DiskFullError)
            stored = self._stream.log.last_sequence if is_full else -1
            proposal.refuse_after(stored, self._stream.publishing.acks.refusal(error))
            replies = proposal.reply_subjects, proposal.replies
            self._broker.send_replies(self._account, *replies)
        if proposal.outcome is not None:
            proposal.outcome.refused(error)
        # Batches are gone, whether or not other messages are stored.
        self._tell_abandoned(proposal)
        for effect in proposal.effects:
            if isinstance(effect, Answered):
                reason = failure or error
                effect.refuse(NOT_AVAILABLE if reason is UNKNOWN else reason)

    def answer_unknown(self, proposals: Iterable[Proposal[Record]]) -> None:
        """Answer publishes that may be applied, or not; they get no other answer."""
        answer = self._stream.publishing.acks.refusal(UNKNOWN)
        for proposal in proposals:
            subjects, proposal.reply_subjects, proposal.replies = proposal.reply_subjects, [], []
            if subjects:
                self._broker.send_replies(self._account, subjects, [answer] * len(subjects))

    def _tell_abandoned(self, proposal: Proposal[Record]) -> None:
        """Tell of the batches that a proposal has abandoned."""
        for batch_id, reason in proposal.abandoned:
            self._parts.advisories.batch_abandoned(
                self._account, self._stream.name, batch_id, reason
            )

    # --- effects -------------------------------------------------------------------------------

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out effects, in order."""
        for effect in effects:
            if isinstance(effect, Messages):
                self._broker.send_messages(
                    self._account,
                    effect.subjects,
                    effect.replies,
                    effect.headers,
                    effect.payloads,
                    effect.to,
                )
            elif isinstance(effect, Status):
                self._broker.send(self._account, effect.to, effect.reply, b"", effect.header)
            else:
                self._follow(effect)

    def _follow(self, effect: Effect) -> None:
        """Have consumers go on, or follow a change of the stream or of a consumer."""
        consumers = self._consumers
        if isinstance(effect, ConsumerEvent):
            self._tell_event(effect)
        elif isinstance(effect, ConsumerLeft):
            consumers.go_on(effect.name)
        elif isinstance(effect, ConsumerServed):
            consumers.serve(effect.name)
        elif isinstance(effect, ConsumerUnpinned):
            consumers.unpin(effect.name)
        elif isinstance(effect, ConsumerOpened):
            self._open(effect.name)
        elif isinstance(effect, ConsumerClosed):
            self._close(effect.name)
        elif isinstance(effect, ConsumerReconfigured):
            self._reconfigure(effect)
        elif isinstance(effect, StreamReconfigured):
            self._reconfigured(effect.old)

    def _tell_event(self, told: ConsumerEvent) -> None:
        consumer = self._consumers.find(told.name)
        if consumer is not None:
            self._parts.advisories.consumer_event(self._account, consumer, told.event)

    def _open(self, name: str) -> None:
        """Have a consumer that was created begin."""
        consumer, parts = self._consumers.find(name), self._parts
        if consumer is None:
            return
        # Its first leader is announced.
        parts.elections.consumer_led(self._account, consumer)
        self._consumers.begin(consumer)
        parts.advisories.consumer_action(self._account, consumer, Action.CREATE)
        if consumer.is_paused(parts.now_ns()):
            parts.advisories.consumer_paused(self._account, consumer, True)

    def _close(self, name: str) -> None:
        """End a consumer that was deleted."""
        consumer = self._consumers.close(name)
        if consumer is not None:
            self._parts.advisories.consumer_action(self._account, consumer, Action.DELETE)

    def _reconfigure(self, effect: ConsumerReconfigured) -> None:
        """Have a consumer work by another configuration."""
        consumer, parts = self._consumers.find(effect.name), self._parts
        if consumer is None:
            return
        self._consumers.follow_change(consumer, effect.old_subject)
        if effect.is_pause_changed:
            is_paused = consumer.is_paused(parts.now_ns())
            parts.advisories.consumer_paused(self._account, consumer, is_paused)
