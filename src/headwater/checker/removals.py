"""The reasons for which a message may leave a stream, and for which it must.

A message may be gone by a purge or deletion that anybody has asked for, whether it was answered or
not; by a limit of the stream; or, on a work queue and a stream with interest retention, by an
acknowledgement. It must be gone after a purge or deletion that was confirmed.
"""

from collections.abc import Iterator
from math import inf

from headwater.checker.evidence import Claim, Evidence, Message
from headwater.checker.history import LIMITS_RETENTION, Ack, Delete, Operation, Purge
from headwater.checker.verdict import Offence, Verdict, verdict


def may_be_gone(
    evidence: Evidence, message: Message, sequence: int | None = None, by_s: float = inf
) -> bool:
    """Whether a message may have left the stream at `by_s`. None stands for any sequence."""
    return (
        any(
            operation.begin_s <= by_s and operation.end_s >= message.begin_s
            for operation in removals_of(evidence, message, sequence)
        )
        or _is_beyond_limits(evidence, message, sequence)
        or _is_consumed(evidence, sequence, by_s)
    )


def removals_of(
    evidence: Evidence, message: Message, sequence: int | None
) -> Iterator[Purge | Delete]:
    """The purges and deletions that may have removed a message. None stands for any sequence."""
    for operation in evidence.history.operations:
        if not operation.may_have_happened:
            continue
        if isinstance(operation, Purge):
            is_subject = operation.subject in ("", message.subject)
            is_below = sequence is None or not operation.below or sequence < operation.below
            if is_subject and is_below:
                yield operation
        elif isinstance(operation, Delete) and sequence in (None, operation.sequence):
            yield operation


def _is_beyond_limits(evidence: Evidence, message: Message, sequence: int | None) -> bool:
    rules = evidence.history.rules
    place = sequence or 0
    if rules.max_msgs and evidence.last_sequence - place >= rules.max_msgs:
        return True
    if rules.max_msgs_per_subject:
        later = [
            other
            for other in evidence.messages.values()
            if other is not message
            and other.subject == message.subject
            and other.may_exist
            # A message that was never seen may have any sequence.
            and evidence.last_by_body.get(other.body, place + 1) > place
        ]
        if len(later) >= rules.max_msgs_per_subject:
            return True
    if not rules.max_age_s:
        return False
    ends_s = [each.end_s for each in evidence.history.operations if each.end_s < inf]
    return max(ends_s, default=0) - message.begin_s >= rules.max_age_s


def _is_consumed(evidence: Evidence, sequence: int | None, by_s: float) -> bool:
    if evidence.history.rules.retention == LIMITS_RETENTION:
        return False
    return any(
        ack.sequence == sequence and ack.begin_s <= by_s for ack in evidence.history.all_of(Ack)
    )


def check_removals(evidence: Evidence) -> Verdict:
    """A message that was purged or deleted is not there, and is not read afterwards."""
    return verdict("removed messages stay away", _messages_back_again(evidence))


def _messages_back_again(evidence: Evidence) -> Iterator[Offence]:
    history = evidence.history
    removals: list[Purge | Delete] = [*history.all_of(Purge), *history.all_of(Delete)]
    for removal in removals:
        if not history.is_kept(removal) or (isinstance(removal, Purge) and removal.keep):
            continue
        for claim in evidence.claims:
            if claim.operation.end_s < removal.begin_s and _removes(evidence, removal, claim):
                yield from _seen_after(evidence, removal, claim)


def _removes(evidence: Evidence, removal: Purge | Delete, claim: Claim) -> bool:
    if isinstance(removal, Delete):
        return removal.sequence == claim.sequence
    message = evidence.messages.get(claim.body)
    if message is None or removal.subject not in ("", message.subject):
        return False
    return not removal.below or claim.sequence < removal.below


def _seen_after(evidence: Evidence, removal: Purge | Delete, claim: Claim) -> Iterator[Offence]:
    where = f"{claim.body} at {claim.sequence}"
    for replica in evidence.history.replicas:
        stored = replica.messages.get(claim.sequence)
        if stored is not None and stored.body == claim.body:
            text = f"{where} was removed and is on {replica.server}"
            yield Offence(text, (claim.operation, removal))
    later: list[Operation] = [
        other
        for other in evidence.bodies_by_sequence[claim.sequence][claim.body]
        if other.begin_s > removal.end_s and not _repeats_publish(other)
    ]
    if later:
        yield Offence(f"{where} was removed and seen again", (claim.operation, removal, later[0]))


def _repeats_publish(operation: Operation) -> bool:
    """Whether an operation tells of a message that need not be there: the ack of a duplicate."""
    return getattr(operation, "is_duplicate", False)
