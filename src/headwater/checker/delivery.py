"""Checks of deliveries: double acks are final, work queues exact, new consumers complete."""

from collections import defaultdict
from collections.abc import Iterator

from headwater.checker.evidence import Evidence
from headwater.checker.history import WORK_QUEUE, Ack, Delivery, Scan
from headwater.checker.removals import may_be_gone
from headwater.checker.verdict import Offence, Verdict, verdict


def _final_acks(evidence: Evidence) -> Iterator[Ack]:
    """Double acks that were confirmed, and that no loss may have undone."""
    history = evidence.history
    return (each for each in history.all_of(Ack) if each.is_double and history.is_kept(each))


def check_double_acks(evidence: Evidence) -> Verdict:
    """A consumer that has confirmed an ack never delivers the message again."""
    return verdict("double acks are final", _messages_delivered_again(evidence))


def _messages_delivered_again(evidence: Evidence) -> Iterator[Offence]:
    deliveries: dict[tuple[str, int], list[Delivery]] = defaultdict(list)
    for delivery in evidence.history.all_of(Delivery):
        deliveries[delivery.consumer, delivery.sequence].append(delivery)
    for ack in _final_acks(evidence):
        for delivery in deliveries[ack.consumer, ack.sequence]:
            # A request for messages that began before the confirmation may be older than the ack.
            if delivery.begin_s > ack.end_s:
                text = f"{ack.sequence} was delivered to {ack.consumer} after its ack was confirmed"
                yield Offence(text, (ack, delivery))


def check_work_queue(evidence: Evidence) -> Verdict:
    """A work queue has no message whose ack was confirmed, and gives it to nobody else."""
    is_queue = evidence.history.rules.retention == WORK_QUEUE
    return verdict("work queues are exact", _work_done_twice(evidence) if is_queue else ())


def _work_done_twice(evidence: Evidence) -> Iterator[Offence]:
    deliveries: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in evidence.history.all_of(Delivery):
        deliveries[delivery.sequence].append(delivery)
    for ack in _final_acks(evidence):
        for replica in evidence.history.replicas:
            if ack.sequence in replica.messages:
                text = f"{ack.sequence} is on {replica.server} after its ack was confirmed"
                yield Offence(text, (ack,))
        for delivery in deliveries[ack.sequence]:
            if delivery.consumer != ack.consumer and delivery.begin_s > ack.end_s:
                text = f"{ack.sequence} was worked on by {ack.client} and {delivery.client}"
                yield Offence(text, (ack, delivery))


def check_new_consumers(evidence: Evidence) -> Verdict:
    """A new consumer delivers every message that was acked or seen before its creation began."""
    return verdict("a new consumer sees every acked write", _unseen_messages(evidence))


def _unseen_messages(evidence: Evidence) -> Iterator[Offence]:
    for scan in evidence.history.all_of(Scan):
        if not scan.is_done:
            continue
        for message in evidence.messages.values():
            for claim in evidence.kept_claims(message):
                if (
                    claim.operation.end_s < scan.begin_s
                    and claim.sequence not in scan.messages
                    and not may_be_gone(evidence, message, claim.sequence, scan.end_s)
                ):
                    text = f"{scan.consumer} did not deliver {message.body} at {claim.sequence}"
                    yield Offence(text, (claim.operation, scan))
                    break
