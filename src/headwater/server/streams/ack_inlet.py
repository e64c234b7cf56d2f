"""Acknowledgements and flow-control replies on their way from the broker to consumers.

One subscription per account receives all acknowledgements, and another all flow-control replies.
Acknowledgements are sorted by consumer, once per turn. A client that waits for the answer to an
acknowledgement of an unknown consumer gets `no responders`, as on a subject without subscribers.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final, final

from headwater.base.ids import hash62
from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.consumers.acks import PLAIN, AckAddress, read_address, read_sequences
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.push import FLOW_PREFIX
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client
from headwater.server.core.ingest import Ingest, size_of
from headwater.server.streams.consumer_runner import ConsumerRunner
from headwater.wire.frames import no_responders_block

# The size of the hash that names an account in the longer form of a reply subject.
HASH_SIZE: Final = 8
NO_DOMAIN: Final = b"_"

FindRunner = Callable[[str], ConsumerRunner | None]


@final
class _Acks:
    """The acknowledgements of one turn for one consumer."""

    __slots__ = ("addresses", "payloads", "positions", "replies", "subjects")

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.subjects: list[bytes] = []
        self.addresses: list[AckAddress] = []
        self.replies: list[bytes | None] = []
        self.payloads: list[bytes] = []


@final
class AckInlet:
    """The inlet of one account. `find` gives the runner of a stream's consumers."""

    __slots__ = ("_account", "_broker", "_find", "_home", "ingest")

    def __init__(self, account: Account, broker: Broker, find: FindRunner, domain: str) -> None:
        self._account = account
        self._home = (domain.encode() or NO_DOMAIN, hash62(account.name, HASH_SIZE).encode())
        self._broker = broker
        self._find = find
        self.ingest = Ingest(self)

    def process(self, ingest: Ingest) -> None:
        """Hand the acknowledgements of this turn to their consumers."""
        publishers, starts = ingest.publishers, ingest.starts
        incoming = ingest.take()

        def sources(positions: Iterable[int]) -> list[Client]:
            # Positions before the first start belong to the server itself.
            found = (bisect_right(starts, each) for each in positions)
            return [publishers[number - 1] for number in found if number]

        if incoming.subjects and not self._take_alike(incoming, publishers):
            self._take_each(incoming, sources)

    def _take_alike(self, incoming: Incoming, sources: list[Client]) -> bool:
        """Hand over a turn of plain acknowledgements of one consumer, the usual case.

        Returns False, and does nothing, if one of them is of another kind or consumer.
        """
        payload = incoming.payloads[0]
        if (
            payload not in PLAIN
            or incoming.payloads.count(payload) != len(incoming)
            or max(incoming.header_sizes) > 0
        ):
            return False
        told = read_sequences(incoming.subjects)
        if told is None:
            return False
        stream_name, consumer_name, sequences = told
        found = self._consumer(stream_name, consumer_name)
        if found is None or not found[1].acks.is_simple:
            return False
        runner, consumer = found
        if runner.is_held:
            runner.note_held(len(sequences), size_of(incoming), sources)
        runner.take_plain_acks(consumer, sequences, incoming.replies)
        return True

    def _take_each(
        self, incoming: Incoming, sources: Callable[[Iterable[int]], list[Client]]
    ) -> None:
        by_consumer: dict[tuple[bytes, bytes], _Acks] = {}
        for position, subject, reply, header_size, payload in zip(
            range(len(incoming)),
            incoming.subjects,
            incoming.replies,
            incoming.header_sizes,
            incoming.payloads,
            strict=True,
        ):
            address = read_address(subject, self._home)
            if address is None:
                self._refuse(subject, reply)
                continue
            acks = by_consumer.setdefault((address.stream, address.consumer), _Acks())
            acks.positions.append(position)
            acks.subjects.append(subject)
            acks.addresses.append(address)
            acks.replies.append(reply)
            acks.payloads.append(payload[header_size:] if header_size > 0 else payload)
        for (stream_name, consumer_name), acks in by_consumer.items():
            found = self._consumer(stream_name, consumer_name)
            if found is None:
                for subject, reply in zip(acks.subjects, acks.replies, strict=True):
                    self._refuse(subject, reply)
            else:
                runner, consumer = found
                if runner.is_held:
                    size = sum(map(len, acks.subjects)) + sum(map(len, acks.payloads))
                    runner.note_held(len(acks.subjects), size, sources(acks.positions))
                runner.take_acks(consumer, acks.addresses, acks.replies, acks.payloads)

    def confirm_flow(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> bool:
        """Hand over a flow-control reply. Returns False if its consumer is not there."""
        stream_name, _, rest = subject[len(FLOW_PREFIX) :].decode(errors="replace").partition(".")
        runner = self._find(stream_name)
        consumer = None if runner is None else runner.find(rest.rpartition(".")[0])
        if runner is None or consumer is None:
            return False
        if runner.is_held and source is not None:
            runner.note_held(1, len(subject) + len(payload), [source])
        runner.confirm_flow(consumer, subject, payload[:header_size] if header_size > 0 else b"")
        return True

    def _consumer(self, stream: bytes, name: bytes) -> tuple[ConsumerRunner, Consumer] | None:
        """The runner and the consumer of two names, if the consumer has an ack policy."""
        runner = self._find(stream.decode(errors="surrogateescape"))
        consumer = None if runner is None else runner.find(name.decode(errors="replace"))
        if runner is None or consumer is None:
            return None
        takes = consumer.config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL)
        return (runner, consumer) if takes else None

    def _refuse(self, subject: bytes, reply: bytes | None) -> None:
        if reply is None:
            return
        route = self._account.index.match(reply)
        if any(sub.client.no_responders for sub in route.plain):
            self._broker.send(route, reply, None, b"", no_responders_block(subject))
