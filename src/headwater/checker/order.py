"""Checks of the order of a stream: real time, times of messages, expected sequences, batches."""

from collections.abc import Iterator

from headwater.checker.evidence import Claim, Evidence
from headwater.checker.history import Batch, Delivery, Operation, Publish
from headwater.checker.removals import may_be_gone
from headwater.checker.verdict import Offence, Verdict, verdict


def check_real_time(evidence: Evidence) -> Verdict:
    """A message that was seen before the publish of another began has the lower sequence."""
    return verdict("an ack before a publish means a lower sequence", _reversed_pairs(evidence))


def _reversed_pairs(evidence: Evidence) -> Iterator[Offence]:
    seen = sorted(evidence.claims, key=lambda claim: claim.operation.end_s)
    begun = sorted(
        (
            (message.begin_s, claim)
            for message in evidence.messages.values()
            for claim in message.claims
        ),
        key=lambda pair: pair[0],
    )
    position = 0
    highest: Claim | None = None
    for begin_s, claim in begun:
        while position < len(seen) and seen[position].operation.end_s < begin_s:
            if highest is None or seen[position].sequence > highest.sequence:
                highest = seen[position]
            position += 1
        if highest is not None and highest.sequence >= claim.sequence:
            text = (
                f"{claim.body} at {claim.sequence} was published after {highest.body} "
                f"was seen at {highest.sequence}"
            )
            yield Offence(text, (highest.operation, claim.operation))


def check_times(evidence: Evidence) -> Verdict:
    """A message has no earlier time than one with a lower sequence, whichever server led the stream
    and whatever its clock showed."""
    return verdict("times never go back", _times_that_go_back(evidence))


def _times_that_go_back(evidence: Evidence) -> Iterator[Offence]:
    history = evidence.history
    told = [
        (each.sequence, each.time_ns, each)
        for each in history.all_of(Delivery)
        if each.time_ns and history.is_kept(each)
    ]
    latest: Delivery | None = None
    for _, _, delivery in sorted(told, key=lambda each: each[:2]):
        if latest is not None and _is_out_of_order(latest, delivery):
            places = f"{delivery.sequence} is of {delivery.time_ns}, {latest.sequence} of"
            yield Offence(f"{places} {latest.time_ns}", (latest, delivery))
        else:
            latest = delivery
    for replica in history.replicas:
        last_sequence = last_ns = 0
        for sequence, stored in sorted(replica.messages.items()):
            if stored.time_ns < last_ns:
                text = f"{sequence} is of {stored.time_ns}, {last_sequence} of {last_ns}"
                yield Offence(f"{text} on {replica.server}")
            else:
                last_sequence, last_ns = sequence, stored.time_ns


def _is_out_of_order(earlier: Delivery, later: Delivery) -> bool:
    if earlier.sequence == later.sequence:
        return earlier.time_ns != later.time_ns
    return later.time_ns < earlier.time_ns


def check_expectations(evidence: Evidence) -> Verdict:
    """A publish that expects the last sequence gets the next one."""
    return verdict("expected sequences hold", _unmet_expectations(evidence))


def _unmet_expectations(evidence: Evidence) -> Iterator[Offence]:
    for publish in evidence.history.all_of(Publish):
        expected = publish.expected
        if publish.is_done and expected is not None and publish.sequence != expected + 1:
            text = f"{publish.body} expected {expected} and is at {publish.sequence}"
            yield Offence(text, (publish,))


def check_batches(evidence: Evidence) -> Verdict:
    """All messages of a batch are there, one after the other, or none is."""
    return verdict("batches are whole or absent", _broken_batches(evidence))


def _broken_batches(evidence: Evidence) -> Iterator[Offence]:
    for batch in evidence.history.all_of(Batch):
        witnesses: dict[int, Operation] = {}
        # The sequence of the batch's first message, by every message of it that was seen.
        firsts: set[int] = set()
        for position, body in enumerate(batch.bodies):
            for claim in evidence.messages[body].claims:
                firsts.add(claim.sequence - position)
                witnesses.setdefault(claim.sequence, claim.operation)
            for _, places in evidence.places:
                firsts.update(sequence - position for sequence in places.get(body, ()))
        if len(firsts) > 1:
            text = f"the batch of {batch.bodies[0]} is scattered: {sorted(witnesses)}"
            yield Offence(text, (batch, *witnesses.values()))
        elif firsts:
            yield from _half_batches(evidence, batch, firsts.pop())


def _half_batches(evidence: Evidence, batch: Batch, first: int) -> Iterator[Offence]:
    for replica in evidence.history.replicas:
        missing = [
            body
            for sequence, body in enumerate(batch.bodies, first)
            if sequence not in replica.messages
            and not may_be_gone(evidence, evidence.messages[body], sequence)
        ]
        if missing and len(missing) < len(batch.bodies):
            text = f"a part of a batch is missing on {replica.server}: {', '.join(missing)}"
            yield Offence(text, (batch,))
