"""Checks of the messages of a stream: none lost, none invented, each once under its sequence."""

from collections.abc import Iterator

from headwater.checker.evidence import Evidence, Message
from headwater.checker.history import Replica
from headwater.checker.removals import may_be_gone
from headwater.checker.verdict import Offence, Verdict, verdict


def check_presence(evidence: Evidence) -> Verdict:
    """Every message that was acked or seen is in every replica, once, under its sequence."""
    return verdict("acked messages are there once", _lost_messages(evidence))


def _lost_messages(evidence: Evidence) -> Iterator[Offence]:
    window_s = evidence.history.rules.duplicate_window_s
    for replica, places in evidence.places:
        for message in evidence.messages.values():
            found = places.get(message.body, [])
            yield from _lost_claims(evidence, replica, message, found)
            if len(found) > 1 and message.is_stored_once(window_s):
                text = f"{message.body} is at {found} on {replica.server}"
                yield Offence(text, tuple(message.attempts))


def _lost_claims(
    evidence: Evidence, replica: Replica, message: Message, found: list[int]
) -> Iterator[Offence]:
    for claim in evidence.kept_claims(message):
        sequence = claim.sequence
        if sequence not in found and not may_be_gone(evidence, message, sequence):
            place = f"is at {found}" if found else "is missing"
            text = f"{message.body} was at {sequence} and {place} on {replica.server}"
            yield Offence(text, (claim.operation,))
            # One witness is enough.
            return


def check_origin(evidence: Evidence) -> Verdict:
    """Every message that was seen or stored was published, to that subject, and not refused."""
    return verdict("no message is invented", _invented_messages(evidence))


def _invented_messages(evidence: Evidence) -> Iterator[Offence]:
    for claim in evidence.claims:
        message = evidence.messages.get(claim.body)
        if message is None:
            text = f"{claim.body} at {claim.sequence} was never published"
            yield Offence(text, (claim.operation,))
        elif claim.operation.end_s < message.begin_s:
            text = f"{claim.body} at {claim.sequence} was seen before it was published"
            yield Offence(text, (claim.operation, *message.attempts))
    for replica in evidence.history.replicas:
        for sequence, stored in replica.messages.items():
            where = f"{stored.body} at {sequence} on {replica.server}"
            message = evidence.messages.get(stored.body)
            if message is None:
                yield Offence(f"{where} was never published")
            elif message.subject != stored.subject:
                yield Offence(f"{where} has the subject {stored.subject}", (*message.attempts,))
            elif not message.may_exist:
                yield Offence(f"{where} was refused", (*message.attempts,))


def check_sequences(evidence: Evidence) -> Verdict:
    """No sequence is ever given to two messages, not even after a loss."""
    return verdict("no sequence is given twice", _sequences_given_twice(evidence))


def _sequences_given_twice(evidence: Evidence) -> Iterator[Offence]:
    for sequence, bodies in sorted(evidence.bodies_by_sequence.items()):
        if len(bodies) > 1:
            witnesses = [each for found in bodies.values() for each in found[:1]]
            yield Offence(f"{sequence} is that of {', '.join(bodies)}", tuple(witnesses))


def check_density(evidence: Evidence) -> Verdict:
    """The stream skips no sequence, except once after each loss."""
    return verdict("sequences are dense", _skipped_sequences(evidence))


def _skipped_sequences(evidence: Evidence) -> Iterator[Offence]:
    history = evidence.history
    gaps = _gaps(evidence)
    # Messages that nobody has seen may have had such a sequence, if they may also be gone again.
    unseen = sum(
        message.body not in evidence.last_by_body
        and message.may_exist
        and (bool(history.losses) or may_be_gone(evidence, message))
        for message in evidence.messages.values()
    )
    jumps = len(history.losses)
    for first, last in gaps:
        size = last - first + 1
        if size <= unseen:
            unseen -= size
        elif jumps:
            jumps -= 1
        else:
            yield Offence(f"the stream has skipped {first} to {last}")


def _gaps(evidence: Evidence) -> list[tuple[int, int]]:
    """The ranges of sequences that no message was ever seen with."""
    gaps: list[tuple[int, int]] = []
    expected = 1
    for sequence in (*sorted(evidence.bodies_by_sequence), evidence.last_sequence + 1):
        if sequence > expected:
            gaps.append((expected, sequence - 1))
        expected = sequence + 1
    return gaps


def check_ids(evidence: Evidence) -> Verdict:
    """A message that is published again under its id, within the window, is stored once."""
    return verdict("message ids are stored once", _repeated_messages(evidence))


def _repeated_messages(evidence: Evidence) -> Iterator[Offence]:
    window_s = evidence.history.rules.duplicate_window_s
    for message in evidence.messages.values():
        if not message.is_stored_once(window_s):
            continue
        sequences = {claim.sequence: claim.operation for claim in evidence.kept_claims(message)}
        for _, places in evidence.places:
            for sequence in places.get(message.body, ()):
                sequences.setdefault(sequence, message.attempts[0])
        if len(sequences) > 1:
            text = f"{message.body} has the sequences {sorted(sequences)}"
            yield Offence(text, tuple(sequences.values()))
