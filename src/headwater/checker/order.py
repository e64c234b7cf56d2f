"""Checks of the order of a stream: real time, expected sequences, batches."""

from collections.abc import Iterator

from headwater.checker.evidence import Claim, Evidence
from headwater.checker.history import Batch, Operation, Publish
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
