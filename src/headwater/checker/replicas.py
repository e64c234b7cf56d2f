"""The check that all replicas of a stream are equal after quiet."""

from collections.abc import Iterator

from headwater.checker.evidence import Evidence
from headwater.checker.history import Replica
from headwater.checker.verdict import Offence, Verdict, verdict


def check_replicas(evidence: Evidence) -> Verdict:
    """All replicas have the same messages, the same last sequence and the same state."""
    replicas = evidence.history.replicas
    offences = [offence for other in replicas[1:] for offence in _differences(replicas[0], other)]
    return verdict("replicas are equal", offences)


def _differences(one: Replica, other: Replica) -> Iterator[Offence]:
    pair = f"{one.server} and {other.server}"
    if one.last_sequence != other.last_sequence:
        last = f"{one.last_sequence} and {other.last_sequence}"
        yield Offence(f"{pair} differ in the last sequence: {last}")
    sequences = sorted({*one.messages, *other.messages})
    different = [
        sequence
        for sequence in sequences
        if one.messages.get(sequence) != other.messages.get(sequence)
    ]
    if different:
        yield Offence(f"{pair} differ in the messages at {different}")
    for name in sorted({*one.state, *other.state}):
        mine, theirs = one.state.get(name), other.state.get(name)
        if mine != theirs:
            yield Offence(f"{pair} differ in {name}: {mine!r} and {theirs!r}")
