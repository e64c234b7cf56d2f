"""The copying of one origin at work.

    CopyMachine ─▶ request ─▶ broker ─▶ API of the origin ─▶ answer
    broker ─▶ Ingest ─▶ OriginRunner.process ─▶ CopyMachine ─▶ StreamRunner.request ─▶ proposal

The requests of the origin to confirm what has arrived are answered when it is applied. So the
window of its flow control bounds what is on the way, and a stream that stores slowly slows its own
copy alone. A new request waits until nothing of the last one is on the way, also if a runner that
this one has replaced has sent it: the request begins where the stream then is.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from headwater.base.ids import base62
from headwater.base.sliced import Work
from headwater.jetstream.api.documents import ErrorDocument, StreamSourceInfo
from headwater.jetstream.consumers.replies import Replies
from headwater.jetstream.copying import mirroring, sourcing
from headwater.jetstream.copying.arrivals import (
    Arrivals,
    Arrived,
    Control,
    arrivals_of,
    arrived_in,
)
from headwater.jetstream.copying.machine import Confirm, CopyMachine, Phase
from headwater.jetstream.copying.origins import Origin
from headwater.jetstream.copying.requests import Ask
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Copying, Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.look_ahead import IN_FLIGHT_MESSAGES_MAX
from headwater.jetstream.streams.origin_positions import NOWHERE, Position
from headwater.server.core.client import Client, Inlet, Subscription
from headwater.server.core.ingest import Ingest
from headwater.server.streams.copying.room import CopyRoom, Target
from headwater.server.streams.copying.transit import Transit
from headwater.server.streams.requests import Request
from headwater.store.errors import StoreError

_REPLY_SIZE: Final = 22
_CONFIRMATION: Final = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n"


@final
class _Part:
    """Messages that were handed to the stream, until they are applied or refused."""

    __slots__ = ("_is_done", "_round", "_runner")

    def __init__(self, runner: "OriginRunner", number: int) -> None:
        self._runner = runner
        self._round = number
        # A stream without room refuses a part, and may decide it again with what waits.
        self._is_done = False

    def applied(self) -> None:
        """Note that the messages are stored."""
        if not self._is_done:
            self._is_done = True
            self._runner.part_applied()

    def refused(self, error: StoreError | ApiError) -> None:
        """Note that the messages are not stored."""
        if not self._is_done:
            self._is_done = True
            self._runner.part_refused(self._round, error)


@final
class OriginRunner:
    """One origin of a stream that is led here, until `close`."""

    __slots__ = (
        "_confirms",
        "_gathered",
        "_has_caught_up",
        "_inbox",
        "_ingest",
        "_is_closed",
        "_is_taking",
        "_machine",
        "_reply",
        "_room",
        "_round",
        "_target",
        "_transit",
    )

    def __init__(self, room: CopyRoom, target: Target, origin: Origin, transit: Transit) -> None:
        """`transit` has the parts of runners that this one replaces."""
        self._room = room
        self._target = target
        # Parts that the stream has neither applied nor refused.
        self._transit = transit
        position = target.stream.positions.of(origin.index_name)
        self._machine = CopyMachine(origin, room.entropy, room.now_ns(), position)
        self._ingest = Ingest(self)
        # Messages and controls that came before those in the inlet.
        self._gathered: list[Arrived] = []
        # The subscriptions for messages, and for the answer to a request.
        self._inbox: Subscription | None = None
        self._reply: Subscription | None = None
        # Requests to confirm what has arrived: each with the number of parts that have to be
        # applied first.
        self._confirms: deque[tuple[int, Confirm]] = deque()
        # A part of an earlier round is not stored any more.
        self._round = 0
        # Whether the stream has had nearly all messages of the origin.
        self._has_caught_up = False
        self._is_closed = False
        # Whether the messages that have arrived are about to be taken.
        self._is_taking = False

    @property
    def origin(self) -> Origin:
        """The origin that is copied."""
        return self._machine.origin

    def open(self) -> None:
        """Begin to copy."""
        self._plan()

    def close(self) -> None:
        """Copy nothing any more: the stream ends, is led elsewhere, or has another origin."""
        self._is_closed = True
        self._round += 1
        self._confirms.clear()
        self._transit.wait_no_more()
        self._end_inbox()
        self._end_reply()
        self._room.timers.cancel(self)

    def info(self) -> StreamSourceInfo:
        """The document about the origin."""
        return self._machine.info(self._room.now_ns())

    def may_be_read(self) -> bool:
        """Whether a mirror may be read in place of its origin: it had nearly caught up, is not out
        of contact, and the origin is no other stream."""
        if self._machine.is_of_another:
            return False
        return self._has_caught_up and self._machine.contact.holds(self._room.now_ns())

    def set_max_staleness(self, max_staleness_ns: int) -> None:
        """Set how long a mirror may be read that does not hear of its origin; 0 for any time."""
        self._machine.contact.max_staleness_ns = max_staleness_ns

    def _note_caught_up(self) -> None:
        self._machine.contact.applied(self._target.stream.visible_sequence)
        if not self._transit.count and self._machine.is_nearly_caught_up:
            self._has_caught_up = True

    # --- requests ------------------------------------------------------------------------------

    def run_due(self, now_ns: int) -> None:
        """Do what is due, and send the next request if it is its time."""
        if self._is_closed:
            return
        machine = self._machine
        wants = machine.run_due(now_ns)
        if machine.phase is Phase.WAITING:
            self._begin_round()
        if wants:
            self._transit.when_empty(self._ask_when_free)
        else:
            self._plan()

    def _begin_round(self) -> None:
        """Have nothing stored any more of what the stream has not applied."""
        self._round += 1
        self._confirms.clear()
        self._end_inbox()
        self._end_reply()

    def _ask_when_free(self) -> None:
        self._target.when_free(self._ask)

    def _ask(self) -> None:
        if self._is_closed or self._machine.phase is not Phase.WAITING:
            return
        ask = self._machine.ask(self._position(), self._room.now_ns())
        account, subscriptions = self._target.account, self._room.subscriptions
        self._end_inbox()
        self._inbox = subscriptions.take_in(
            account, ask.deliver_subject, self._ingest, self._room.is_announced
        )
        self._inbox.take_stored = self._take_stored
        account.interest_changed(ask.deliver_subject)
        self._send(ask)

    def _position(self) -> Position:
        stream = self._target.stream
        known = stream.positions.of(self.origin.index_name)
        if self.origin.is_mirrored:
            last = stream.look_ahead.next_sequence - 1
            # A mirror that has nothing may copy any stream of the name.
            return Position(last, known.identity) if last else NOWHERE
        return known

    def _send(self, ask: Ask) -> None:
        self._end_reply()
        room, account = self._room, self._target.account
        subject = f"_INBOX.{base62(room.entropy, _REPLY_SIZE)}".encode()
        self._reply = room.subscriptions.serve(
            account, subject, self._take_answer, room.is_announced
        )
        room.broker.send(account, ask.subject, subject, ask.body, ask.header)
        self._plan()

    def _take_answer(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        """Take the answer to the last request."""
        if self._is_closed or self._reply is None or self._reply.subject != subject:
            return
        self._end_reply()
        size = max(header_size, 0)
        machine = self._machine
        again = machine.answered(payload[:size], payload[size:], self._room.now_ns())
        if again is not None:
            self._send(again)
            return
        if machine.phase is Phase.COPYING and self.origin.is_mirrored:
            self._pass_over(machine.sequence)
        elif machine.phase is Phase.WAITING:
            self._begin_round()
        self._plan()

    def _plan(self) -> None:
        self._room.plan(self, self._machine.due_ns)

    def _end_inbox(self) -> None:
        if self._inbox is not None:
            sub, self._inbox = self._inbox, None
            self._room.subscriptions.end(sub)
            sub.client.account.interest_changed(sub.subject)

    def _end_reply(self) -> None:
        if self._reply is not None:
            sub, self._reply = self._reply, None
            self._room.subscriptions.end(sub)

    # --- messages ------------------------------------------------------------------------------

    def _take_stored(
        self,
        subjects: list[bytes],
        replies: Sequence[bytes],
        headers: list[bytes],
        payloads: list[bytes],
    ) -> None:
        """Gather messages of a stream that is led here, behind those that came before them."""
        incoming = self._room.broker.turn.open_inlet(self._ingest, None)
        if not isinstance(replies, Replies):
            incoming.add_stored(subjects, [*replies], headers, payloads)
            return
        if len(incoming):
            self._gathered += arrived_in(self._ingest.take())
            self._room.broker.turn.open_inlet(self._ingest, None)
        self._gathered.append(arrivals_of(replies, subjects, headers, payloads))

    def process(self, _inlet: Inlet) -> None:
        """Have the messages that have arrived taken before the next turn.

        They may be of this turn. Streams that copy each other would never let it end.
        """
        if not self._is_taking:
            self._is_taking = True
            self._room.scheduler.call_soon(self._take)

    def _take(self) -> None:
        """Take the messages that have arrived."""
        self._is_taking = False
        incoming = self._ingest.take()
        gathered, self._gathered = self._gathered, []
        if len(incoming):
            gathered += arrived_in(incoming)
        if self._is_closed or not gathered:
            return
        machine, now_ns = self._machine, self._room.now_ns()
        for arrived in gathered:
            if isinstance(arrived, Control):
                confirm = machine.control(arrived, now_ns)
                if confirm is not None:
                    self._confirm_later(confirm)
                elif self._is_more_complete():
                    self._propose(partial(self._completing, machine.examined))
            else:
                accepted = machine.take(arrived, now_ns)
                if accepted is not None:
                    # The first part may be refused at once; then the others are not stored.
                    number = self._round
                    for part in accepted.parts(IN_FLIGHT_MESSAGES_MAX):
                        self._hand_on(part, number)
        if machine.phase is Phase.WAITING:
            self._end_inbox()
            self._plan()
        else:
            self._note_caught_up()

    def _hand_on(self, arrivals: Arrivals, number: int) -> None:
        """Have the stream store messages of a round."""
        part = self._begin_part(number)

        def deciding() -> Work[Proposal[Record] | None]:
            yield len(arrivals)
            return self._decide(arrivals, part, number)

        self._target.request(Request(deciding, part.refused, adds_messages=True))

    def _pass_over(self, sequence: int) -> None:
        """Have a mirror note its origin, and give out sequences that this no longer has."""
        self._propose(partial(self._beginning, sequence))

    def _is_more_complete(self) -> bool:
        """Whether the origin has told that a mirror has all messages up to a later sequence."""
        if not self.origin.is_mirrored or self._machine.phase is not Phase.COPYING:
            return False
        return self._machine.examined > self._target.stream.complete_sequence

    def _beginning(self, sequence: int) -> Proposal[Record]:
        identity = self._machine.identity
        return mirroring.beginning(self._target.stream, self.origin, sequence, identity)

    def _completing(self, sequence: int) -> Proposal[Record]:
        identity = self._machine.identity
        return mirroring.completing(self._target.stream, self.origin, sequence, identity)

    def _propose(self, decide: Callable[[], Proposal[Record]]) -> None:
        """Have the stream decide a proposal of this round behind all parts."""
        number = self._round
        part = self._begin_part(number)

        def deciding() -> Work[Proposal[Record] | None]:
            yield 1
            if number != self._round or not self._can_store():
                part.applied()
                return None
            proposal = decide()
            proposal.outcome = part
            return proposal

        self._target.request(Request(deciding, part.refused, adds_messages=True))

    def _begin_part(self, number: int) -> _Part:
        self._transit.begin_part()
        return _Part(self, number)

    def _can_store(self) -> bool:
        return self._target.stream.log.is_writable

    def _decide(self, arrivals: Arrivals, part: _Part, number: int) -> Proposal[Record] | None:
        if number != self._round:
            part.applied()
            return None
        if not self._can_store():
            log = self._target.stream.log
            part.refused(StoreError(log.offline or "no room is left on the disk"))
            return None
        decision = self._decided(arrivals)
        if decision.refusal is not None:
            self._begin_again(decision.refusal)
        decision.proposal.outcome = part
        return decision.proposal

    def _decided(self, arrivals: Arrivals) -> Copying:
        room, stream, machine = self._room, self._target.stream, self._machine
        if self.origin.is_mirrored:
            return mirroring.decide(stream, self.origin, arrivals, room.entropy)
        return sourcing.decide(
            stream, self.origin, arrivals, machine.identity, room.entropy, room.now_ns()
        )

    # --- what became of them -------------------------------------------------------------------

    def part_applied(self) -> None:
        """Note that the stream has stored the oldest part, or has no use for it any more."""
        confirms = self._confirms
        for _ in range(len(confirms)):
            left, confirm = confirms.popleft()
            if left > 1:
                confirms.append((left - 1, confirm))
            else:
                self._confirm(confirm)
        self._transit.end_part()
        self._note_caught_up()

    def part_refused(self, number: int, error: StoreError | ApiError) -> None:
        """Begin again behind what is stored, unless that is under way."""
        if number == self._round and not self._is_closed:
            self._begin_again(error)
        self.part_applied()

    def _begin_again(self, error: StoreError | ApiError) -> None:
        if isinstance(error, ApiError):
            told = ErrorDocument.of(error)
        else:
            told = ErrorDocument(500, 0, str(error))
        self._begin_round()
        self._machine.not_stored(told, self._room.now_ns())
        self._plan()

    def _confirm_later(self, confirm: Confirm) -> None:
        if self._transit.count:
            self._confirms.append((self._transit.count, confirm))
        else:
            self._confirm(confirm)

    def _confirm(self, confirm: Confirm) -> None:
        """Tell the origin that everything up to a message is stored."""
        header = _CONFIRMATION % (confirm.number, confirm.sequence)
        self._room.broker.send(self._target.account, confirm.reply, None, b"", header)
