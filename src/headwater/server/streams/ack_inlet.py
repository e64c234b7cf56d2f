"""Acknowledgements and flow-control replies on their way from the broker to consumers.

One subscription per account receives all acknowledgements, and another all flow-control replies.
Acknowledgements are sorted by consumer, once per turn. A client that waits for the answer to an
acknowledgement of an unknown consumer gets `no responders`, as on a subject without subscribers.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import final

from headwater.jetstream.config.consumer_config import AckPolicy
from headwater.jetstream.consumers.acks import PLAIN, AckAddress, read_address, read_sequences
from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.consumers.push import FLOW_PREFIX
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client, Inlet
from headwater.server.core.ingest import Ingest, size_of
from headwater.server.streams.consumer_runner import ConsumerRunner
from headwater.server.streams.leader_subscriptions import ack_home
from headwater.wire.frames import no_responders_block

FindRunner = Callable[[str], ConsumerRunner | None]


@final
class AckInlet:
    """The inlet of one account. `find` gives the runner of a stream's consumers."""

    __slots__ = ("_account", "_broker", "_find", "_home", "ingest")

    def __init__(self, account: Account, broker: Broker, find: FindRunner, domain: str) -> None:
        self._account = account
        self._home = ack_home(account.name, domain)
        self._broker = broker
        self._find = find
        self.ingest = Ingest(self)

    def process(self, inlet: Inlet) -> None:
        """Hand the acknowledgements of this turn to their consumers."""
        publishers, starts = inlet.publishers, inlet.starts
        incoming = inlet.take()

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
        if found is None:
            # Acknowledgements of one stream cross to its leader, if there is one, together.
            return self._is_heard_elsewhere(incoming.subjects[0])
        if not found[1].acks.is_simple:
            return False
        runner, consumer = found
        if runner.holds(consumer):
            runner.note_held(len(sequences), size_of(incoming), sources)
        runner.take_plain_acks(consumer, sequences, incoming.replies)
        return True

    def _take_each(
        self, incoming: Incoming, sources: Callable[[Iterable[int]], list[Client]]
    ) -> None:
        by_consumer: dict[tuple[bytes, bytes], tuple[list[int], list[AckAddress]]] = {}
        for position, subject in enumerate(incoming.subjects):
            address = read_address(subject, self._home)
            if address is None:
                self._refuse(subject, incoming.replies[position])
                continue
            key = (address.stream, address.consumer)
            positions, addresses = by_consumer.setdefault(key, ([], []))
            positions.append(position)
            addresses.append(address)
        for (stream_name, consumer_name), (positions, addresses) in by_consumer.items():
            acks = incoming.picked(positions)
            found = self._consumer(stream_name, consumer_name)
            if found is None:
                for subject, reply in zip(acks.subjects, acks.replies, strict=True):
                    self._refuse(subject, reply)
            else:
                runner, consumer = found
                _, payloads = acks.parted()
                if runner.holds(consumer):
                    size = sum(map(len, acks.subjects)) + sum(map(len, payloads))
                    runner.note_held(len(acks), size, sources(positions))
                runner.take_acks(consumer, addresses, acks.replies, payloads)

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
        if runner.holds(consumer) and source is not None:
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

    def _is_heard_elsewhere(self, subject: bytes) -> bool:
        """Whether another server takes acknowledgements on a subject, and answers them."""
        remote = self._account.remote
        return remote is not None and remote.hears(subject)

    def _refuse(self, subject: bytes, reply: bytes | None) -> None:
        if reply is None or self._is_heard_elsewhere(subject):
            return
        route = self._account.index.match(reply)
        # A client of another server is told in any case: nearly all of them want to know.
        if not route.fan_out or any(sub.client.no_responders for sub in route.plain):
            self._broker.send(self._account, reply, None, b"", no_responders_block(subject))
