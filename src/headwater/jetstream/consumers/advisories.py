"""Advisories and metrics about consumers: their documents and their subjects."""

from collections.abc import Callable
from typing import Final

from headwater.go.times import ZERO_TIME_TEXT
from headwater.jetstream.advisories import SUBJECT_PREFIX, TYPE_PREFIX, Advisory, Heading
from headwater.jetstream.api.cluster_documents import PeerInfo
from headwater.jetstream.config.stream_config import Text
from headwater.jetstream.consumers.effects import (
    AckSampled,
    ClientPinned,
    DeliveriesExceeded,
    Event,
    Naked,
    PauseEnded,
    Terminated,
)
from headwater.jetstream.consumers.machine import Consumer

METRIC_SUBJECT: Final = "$JS.EVENT.METRIC.CONSUMER.ACK"


class ConsumerAdvisory(Advisory, kw_only=True):
    """The first fields of every advisory about a consumer."""

    stream: str
    consumer: str


class ConsumerActionAdvisory(ConsumerAdvisory, kw_only=True):
    """A consumer was created or deleted."""

    type: str = TYPE_PREFIX + "consumer_action"
    action: str
    domain: Text = ""


class ConsumerLeaderAdvisory(Advisory, kw_only=True):
    """A consumer has another leader. The system account is told the account."""

    type: str = TYPE_PREFIX + "consumer_leader_elected"
    account: Text = ""
    stream: str
    consumer: str
    leader: str
    replicas: tuple[PeerInfo, ...]
    domain: Text = ""


class ConsumerQuorumAdvisory(Advisory, kw_only=True):
    """The servers of a consumer have lost their quorum."""

    type: str = TYPE_PREFIX + "consumer_quorum_lost"
    account: Text = ""
    stream: str
    consumer: str
    replicas: tuple[PeerInfo, ...]
    domain: Text = ""


class ConsumerPauseAdvisory(ConsumerAdvisory, kw_only=True):
    """A consumer was paused or resumed."""

    type: str = TYPE_PREFIX + "consumer_pause"
    paused: bool
    pause_until: str = ZERO_TIME_TEXT
    domain: Text = ""


class AckMetric(ConsumerAdvisory, kw_only=True):
    """The time from delivery to acknowledgement of a message, in nanoseconds."""

    type: str = "io.nats.jetstream.metric.v1.consumer_ack"
    consumer_seq: int
    stream_seq: int
    ack_time: int
    deliveries: int
    domain: Text = ""


class MaxDeliverAdvisory(ConsumerAdvisory, kw_only=True):
    """A message reached the limit of deliveries."""

    type: str = TYPE_PREFIX + "max_deliver"
    stream_seq: int
    deliveries: int
    domain: Text = ""


class DeliveryAdvisory(ConsumerAdvisory, kw_only=True):
    """The first fields of every advisory about one delivery of a message."""

    consumer_seq: int
    stream_seq: int
    deliveries: int


class NakAdvisory(DeliveryAdvisory, kw_only=True):
    """A receiver could not process a message."""

    type: str = TYPE_PREFIX + "nak"
    domain: Text = ""


class TerminatedAdvisory(DeliveryAdvisory, kw_only=True):
    """A message will not be delivered again."""

    type: str = TYPE_PREFIX + "terminated"
    reason: Text = ""
    domain: Text = ""


class PinnedAdvisory(Advisory, kw_only=True):
    """A client was pinned: it gets all messages of a priority group."""

    type: str = TYPE_PREFIX + "consumer_group_pinned"
    account: Text = ""
    stream: str
    consumer: str
    domain: Text = ""
    group: str
    pinned_id: str


class UnpinnedAdvisory(Advisory, kw_only=True):
    """The client is no longer pinned."""

    type: str = TYPE_PREFIX + "consumer_group_unpinned"
    account: Text = ""
    stream: str
    consumer: str
    domain: Text = ""
    group: str
    reason: str


def consumer_subject(event: str, consumer: Consumer) -> str:
    """The subject of an advisory about a consumer."""
    return f"{SUBJECT_PREFIX}CONSUMER.{event}.{consumer.stream.name}.{consumer.name}"


def pause_advisory(
    heading: Heading, consumer: Consumer, is_paused: bool, domain: str
) -> ConsumerPauseAdvisory:
    """The advisory about a pause that begins or ends."""
    until = consumer.config.pause_until
    return ConsumerPauseAdvisory(
        id=heading.id,
        timestamp=heading.timestamp,
        stream=consumer.stream.name,
        consumer=consumer.name,
        paused=is_paused,
        pause_until=ZERO_TIME_TEXT if until is None else until.text,
        domain=domain,
    )


def advisory_of(
    consumer: Consumer, event: Event, account: str, domain: str
) -> tuple[str, Callable[[Heading], Advisory]]:
    """The subject of an event's advisory, and a function that makes its document."""
    stream, name = consumer.stream.name, consumer.name

    def of(heading: Heading) -> Advisory:
        who = {"id": heading.id, "timestamp": heading.timestamp, "stream": stream, "consumer": name}
        if isinstance(event, AckSampled):
            return AckMetric(
                **who,
                consumer_seq=event.consumer_sequence,
                stream_seq=event.stream_sequence,
                ack_time=event.delay_ns,
                deliveries=event.deliveries,
                domain=domain,
            )
        if isinstance(event, DeliveriesExceeded):
            return MaxDeliverAdvisory(
                **who,
                stream_seq=event.stream_sequence,
                deliveries=event.deliveries,
                domain=domain,
            )
        if isinstance(event, Naked):
            return NakAdvisory(
                **who,
                consumer_seq=event.consumer_sequence,
                stream_seq=event.stream_sequence,
                deliveries=event.deliveries,
                domain=domain,
            )
        if isinstance(event, Terminated):
            return TerminatedAdvisory(
                **who,
                consumer_seq=event.consumer_sequence,
                stream_seq=event.stream_sequence,
                deliveries=event.deliveries,
                reason=event.reason,
                domain=domain,
            )
        if isinstance(event, PauseEnded):
            return pause_advisory(heading, consumer, False, domain)
        whose = {**who, "account": account, "domain": domain, "group": event.group}
        if isinstance(event, ClientPinned):
            return PinnedAdvisory(**whose, pinned_id=event.pin_id)
        return UnpinnedAdvisory(**whose, reason=event.reason)

    return _subject_of(consumer, event), of


def _subject_of(consumer: Consumer, event: Event) -> str:
    if isinstance(event, AckSampled):
        return f"{METRIC_SUBJECT}.{consumer.stream.name}.{consumer.name}"
    if isinstance(event, DeliveriesExceeded):
        return consumer_subject("MAX_DELIVERIES", consumer)
    if isinstance(event, Naked):
        return consumer_subject("MSG_NAKED", consumer)
    if isinstance(event, Terminated):
        return consumer_subject("MSG_TERMINATED", consumer)
    if isinstance(event, PauseEnded):
        return consumer_subject("PAUSE", consumer)
    return consumer_subject("PINNED" if isinstance(event, ClientPinned) else "UNPINNED", consumer)
