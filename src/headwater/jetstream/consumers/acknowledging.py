"""Acknowledgements: their effects on a consumer.

All acknowledgements of a turn are processed together. Nearly always they are plain ones, which
become a single record; others are processed one by one, in the order of their arrival.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from headwater.base.entropy import Entropy
from headwater.base.sliced import Work
from headwater.jetstream.config.consumer_config import AckPolicy, ConsumerConfig
from headwater.jetstream.consumers import acks
from headwater.jetstream.consumers.acks import AckAddress
from headwater.jetstream.consumers.effects import AckSampled, Naked, Terminated
from headwater.jetstream.consumers.records import Acked, Postponed
from headwater.jetstream.consumers.state_machine import StateMachine
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.wire.headers import value_of

_PERCENT: Final = 100
_DIGITS_MAX: Final = 20
_LAST_STREAM: Final = b"Nats-Last-Stream"
_LAST_CONSUMER: Final = b"Nats-Last-Consumer"
_ANY_PLAIN: Final = frozenset(acks.PLAIN)
# An acknowledgement of all messages up to one is recorded for so many of them at a time, and is
# divided if more than so many are pending.
ACKED_AT_A_TIME: Final = 1024
ACKED_AT_ONCE_MAX: Final = 16_384
# To acknowledge a message that is pending takes so many units of work.
_UNITS_PER_ACK: Final = 3

# Processes a pull request with this reply subject and body.
PullNext: TypeAlias = Callable[[bytes, bytes, int, Proposal[Record]], object]


@final
class Acknowledging:
    """Processes the acknowledgements of one consumer."""

    __slots__ = ("_entropy", "_machine", "_sample_percent", "is_simple")

    def __init__(self, machine: StateMachine, entropy: Entropy) -> None:
        self._machine = machine
        self._entropy = entropy
        self._sample_percent = 0
        # Whether a plain acknowledgement depends on nothing but its stream sequence.
        self.is_simple = False

    def configure(self, config: ConsumerConfig) -> None:
        """Use another configuration."""
        percent = config.sample_freq.removesuffix("%")
        self._sample_percent = int(percent) if percent else 0
        is_explicit = config.ack_policy is AckPolicy.EXPLICIT
        self.is_simple = is_explicit and not self._sample_percent

    def process_all(
        self,
        addresses: Sequence[AckAddress],
        replies: Sequence[bytes | None],
        payloads: Sequence[bytes],
        now_ns: int,
        out: Proposal[Record],
        pull: PullNext,
    ) -> None:
        """Process acknowledgements in order; `pull` serves those that ask for the next message."""
        if self.is_simple and _ANY_PLAIN.issuperset(payloads):
            sequences = [address.stream_sequence for address in addresses]
            self.process_plain(sequences, replies, now_ns, out)
            return
        for address, reply, payload in zip(addresses, replies, payloads, strict=True):
            self._process(address, reply, payload, now_ns, out, pull)

    def process_plain(
        self,
        sequences: Sequence[int],
        replies: Sequence[bytes | None],
        now_ns: int,
        out: Proposal[Record],
    ) -> None:
        """Process plain acknowledgements of a consumer that `is_simple`, as one record."""
        machine = self._machine
        pending, redelivered = machine.state.pending, machine.state.redelivered
        if len(sequences) == 1:
            if sequences[0] in pending or sequences[0] in redelivered:
                machine.record(Acked(machine.name, sequences, now_ns), out)
        else:
            known = {each for each in sequences if each in pending or each in redelivered}
            if known:
                machine.record(Acked(machine.name, sorted(known), now_ns), out)
        if any(replies):
            out.confirm(
                [
                    reply
                    for sequence, reply in zip(sequences, replies, strict=True)
                    if reply is not None and self._is_delivered(sequence)
                ]
            )

    def _process(
        self,
        address: AckAddress,
        reply: bytes | None,
        payload: bytes,
        now_ns: int,
        out: Proposal[Record],
        pull: PullNext,
    ) -> None:
        is_answered = address.stream_sequence != 0
        if payload in _ANY_PLAIN:
            is_answered = self._ack(address, now_ns, out, is_sampled=True)
        elif payload.startswith(acks.NEXT):
            self._ack(address, now_ns, out, is_sampled=True)
            if reply is not None:
                pull(reply, payload[len(acks.NEXT) :], now_ns, out)
            return
        elif payload.startswith(acks.NAK):
            self._nak(address, payload, now_ns, out)
        elif payload == acks.PROGRESS:
            self._postpone(address.stream_sequence, now_ns, out)
        elif payload.startswith(acks.TERM):
            is_answered = self._ack(address, now_ns, out, is_sampled=False)
            event = Terminated(
                address.consumer_sequence,
                address.stream_sequence,
                address.deliveries,
                acks.term_reason(payload),
            )
            out.tell(self._machine.name, event)
        if is_answered and reply is not None:
            out.confirm([reply])

    def _is_delivered(self, sequence: int) -> bool:
        """Whether the message with this sequence can have been delivered."""
        machine = self._machine
        return 0 <= sequence < machine.position.cursor.sequence or machine.config.flow_control

    def _ack(
        self, address: AckAddress, now_ns: int, out: Proposal[Record], is_sampled: bool
    ) -> bool:
        """Acknowledge a message, or all up to it. Returns whether to confirm that."""
        machine = self._machine
        state, sequence = machine.state, address.stream_sequence
        if not self._is_delivered(sequence):
            return False
        if machine.config.ack_policy is AckPolicy.EXPLICIT:
            if sequence in state.pending and is_sampled:
                self._sample(address, now_ns, out)
            if sequence in state.pending or sequence in state.redelivered:
                machine.record(Acked(machine.name, [sequence], now_ns), out)
        elif address.consumer_sequence > state.floor_consumer and sequence > state.floor_stream:
            self.ack_all(address.consumer_sequence, sequence, now_ns, out)
        return True

    def ack_all(
        self, consumer_sequence: int, stream_sequence: int, now_ns: int, out: Proposal[Record]
    ) -> None:
        """Acknowledge all messages up to one."""
        machine = self._machine
        state = machine.state
        # A receiver may name a sequence that was never delivered.
        stream_sequence = min(stream_sequence, machine.position.cursor.sequence - 1)
        floor = (min(consumer_sequence, state.delivered_consumer), stream_sequence)
        sequences = state.unsettled_up_to(stream_sequence)
        machine.record(Acked(machine.name, sequences, now_ns, floor), out)

    @property
    def may_take_long(self) -> bool:
        """Whether one acknowledgement may stand for more messages than are settled in a turn."""
        machine = self._machine
        is_for_all = machine.config.ack_policy is not AckPolicy.EXPLICIT
        return is_for_all and len(machine.state.pending) > ACKED_AT_ONCE_MAX

    def acking_ahead(
        self,
        addresses: Sequence[AckAddress],
        payloads: Sequence[bytes],
        now_ns: int,
        out: Proposal[Record],
    ) -> Work[None]:
        """Acknowledge most messages that acknowledgements stand for, some at a time, so that
        `process_all` finds few left. Each part is what an acknowledgement of its last message
        would be.
        """
        state = self._machine.state
        for address, payload in zip(addresses, payloads, strict=True):
            if payload not in _ANY_PLAIN and not payload.startswith((acks.NEXT, acks.TERM)):
                continue
            if address.consumer_sequence <= state.floor_consumer:
                continue
            if not self._is_delivered(address.stream_sequence):
                continue
            # The message of the acknowledgement itself is left to `process_all`.
            last = address.stream_sequence - 1
            while part := state.pending_up_to(last, ACKED_AT_A_TIME):
                self.ack_all(state.pending[part[-1]], part[-1], now_ns, out)
                yield _UNITS_PER_ACK * len(part)

    def confirm(self, header: bytes, now_ns: int, out: Proposal[Record]) -> None:
        """Acknowledge up to the sequences in the header of a flow control confirmation."""
        state = self._machine.state
        stream_sequence = _number_in(header, _LAST_STREAM)
        consumer_sequence = _number_in(header, _LAST_CONSUMER)
        if consumer_sequence > state.floor_consumer and stream_sequence > state.floor_stream:
            self.ack_all(consumer_sequence, stream_sequence, now_ns, out)

    def _sample(self, address: AckAddress, now_ns: int, out: Proposal[Record]) -> None:
        percent = self._sample_percent
        machine = self._machine
        if percent <= 0 or (percent < _PERCENT and self._entropy.below(_PERCENT) > percent):
            return
        sequence = address.stream_sequence
        delay_ns = now_ns - machine.state.sent_ns[sequence]
        event = AckSampled(address.consumer_sequence, sequence, delay_ns, address.deliveries)
        out.tell(machine.name, event)

    def _nak(self, address: AckAddress, payload: bytes, now_ns: int, out: Proposal[Record]) -> None:
        """Send a message again, at once or after the delay that the payload asks for."""
        machine = self._machine
        state, sequence = machine.state, address.stream_sequence
        is_in_range = (
            state.floor_consumer < address.consumer_sequence <= state.delivered_consumer + 1
        )
        if not is_in_range or sequence not in state.pending:
            return
        event = Naked(address.consumer_sequence, sequence, address.deliveries)
        out.tell(machine.name, event)
        delay_ns = acks.nak_delay_ns(payload)
        if delay_ns is None:
            machine.make_ready([sequence])
            return
        machine.unready(sequence)
        # A message is due one ack wait after it was sent, so its time of sending is set to that
        # long before the end of the delay.
        sent_ns = now_ns + max(delay_ns, 0) - machine.config.ack_wait
        self._postpone(sequence, sent_ns, out)

    def _postpone(self, sequence: int, sent_ns: int, out: Proposal[Record]) -> None:
        machine = self._machine
        if sequence in machine.state.pending:
            machine.record(Postponed(machine.name, [sequence], [sent_ns]), out)


def _number_in(header: bytes, name: bytes) -> int:
    """The number in a header; 0 if the header is missing or is not a number."""
    value = value_of(header, name) or b""
    return int(value) if value.isdigit() and len(value) < _DIGITS_MAX else 0
