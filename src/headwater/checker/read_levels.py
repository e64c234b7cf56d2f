"""Checks of reads: how old the answer to a get of the last message of a subject may be.

The sequences of a stream are the order of its writes, so a history of reads needs no search for
another order. An answer shows the log up to some place, and each level says which place that is at
least, the *mark* of the read:

    linearizable    every write that was acked, and every linearizable answer that arrived, before
                    the read began
    sequential      every answer of that mirror that arrived before the read began
    session         the sequence that the reader has asked for

The newest message of the subject up to the mark, or a newer one, is the answer. A read passes if
its message may have been removed by a purge, a deletion, an acknowledgement or a limit.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from headwater.checker.evidence import Evidence
from headwater.checker.history import (
    LIMITS_RETENTION,
    Batch,
    LastRead,
    Operation,
    Publish,
    ReadLevel,
)
from headwater.checker.removals import removals_of
from headwater.checker.verdict import Offence, Verdict, verdict


def check_linearizable_reads(evidence: Evidence) -> Verdict:
    """A linearizable read shows every write that was acked before the read began."""
    reads = _reads(evidence, ReadLevel.LINEARIZABLE)
    history = evidence.history
    operations: list[Publish | Batch | LastRead] = [
        *history.all_of(Publish),
        *history.all_of(Batch),
    ]
    operations += reads
    shown = [(each, each.sequence) for each in operations if history.is_kept(each)]
    return verdict("linearizable reads are never stale", _behind_others(evidence, reads, shown))


def check_sequential_reads(evidence: Evidence) -> Verdict:
    """The answers of a strong mirror never go back, also across a change of its leader."""
    return verdict("sequential reads never go back", _steps_back(evidence))


def _steps_back(evidence: Evidence) -> Iterator[Offence]:
    reads = _reads(evidence, ReadLevel.SEQUENTIAL)
    for mirror in sorted({each.mirror for each in reads}):
        answers = [each for each in reads if each.mirror == mirror]
        yield from _behind_others(evidence, answers, [(each, each.sequence) for each in answers])


def check_session_reads(evidence: Evidence) -> Verdict:
    """The answer to a session read is complete up to the sequence that the reader asked for."""
    return verdict("session reads are complete up to their mark", _incomplete_answers(evidence))


def _incomplete_answers(evidence: Evidence) -> Iterator[Offence]:
    for read in _reads(evidence, ReadLevel.SESSION):
        if read.complete_to < max(read.min_sequence, read.sequence):
            text = f"the answer says {read.complete_to}, and was asked for {read.min_sequence}"
            yield Offence(text, (read,))
        yield from _staleness(evidence, read, read.min_sequence, ())


def _reads(evidence: Evidence, level: ReadLevel) -> list[LastRead]:
    """The answered reads of a level, in the order in which they began."""
    reads = evidence.history.all_of(LastRead)
    answered = [each for each in reads if each.level is level and each.is_done]
    return sorted(answered, key=lambda read: read.begin_s)


def _behind_others(
    evidence: Evidence, reads: list[LastRead], shown: Iterable[tuple[Operation, int]]
) -> Iterator[Offence]:
    """The reads that lack a sequence which an operation before them has shown."""
    ended = sorted(shown, key=lambda pair: pair[0].end_s)
    position = mark = 0
    witness: Operation | None = None
    for read in reads:
        while position < len(ended) and ended[position][0].end_s < read.begin_s:
            operation, sequence = ended[position]
            if sequence > mark:
                witness, mark = operation, sequence
            position += 1
        if witness is not None:
            yield from _staleness(evidence, read, mark, (witness,))


def _staleness(
    evidence: Evidence, read: LastRead, mark: int, witnesses: tuple[Operation, ...]
) -> Iterator[Offence]:
    """The breach of a read that is older than its mark."""
    sequences = evidence.sequences_by_subject.get(read.subject, [])
    newest = bisect_right(sequences, mark)
    if not newest or read.sequence >= sequences[newest - 1]:
        return
    sequence = sequences[newest - 1]
    if not _may_be_removed(evidence, read, sequence):
        text = f"the last message of {read.subject} was {sequence}, and the answer {read.sequence}"
        yield Offence(text, (*witnesses, read))


def _may_be_removed(evidence: Evidence, read: LastRead, sequence: int) -> bool:
    """Whether a message may have left the stream without a newer one of its subject."""
    rules = evidence.history.rules
    if rules.max_msgs or rules.max_age_s or rules.retention != LIMITS_RETENTION:
        return True
    return any(
        removal.begin_s <= read.end_s
        for body in evidence.bodies_by_sequence[sequence]
        if body in evidence.messages
        for removal in removals_of(evidence, evidence.messages[body], sequence)
    )
