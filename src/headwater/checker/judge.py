"""All checks of a history at once."""

from collections.abc import Callable
from typing import Final

from headwater.checker.delivery import check_double_acks, check_new_consumers, check_work_queue
from headwater.checker.evidence import Evidence
from headwater.checker.history import History
from headwater.checker.messages import (
    check_density,
    check_ids,
    check_origin,
    check_presence,
    check_sequences,
)
from headwater.checker.order import check_batches, check_expectations, check_real_time, check_times
from headwater.checker.read_levels import (
    check_linearizable_reads,
    check_sequential_reads,
    check_session_reads,
)
from headwater.checker.removals import check_removals
from headwater.checker.replicas import check_replicas
from headwater.checker.verdict import BrokenPromise, Verdict

CHECKS: Final[tuple[Callable[[Evidence], Verdict], ...]] = (
    check_presence,
    check_removals,
    check_origin,
    check_sequences,
    check_density,
    check_ids,
    check_real_time,
    check_times,
    check_expectations,
    check_batches,
    check_double_acks,
    check_work_queue,
    check_new_consumers,
    check_linearizable_reads,
    check_sequential_reads,
    check_session_reads,
    check_replicas,
)


def judge(history: History) -> list[Verdict]:
    """The verdicts of all checks."""
    evidence = Evidence(history)
    return [check(evidence) for check in CHECKS]


def insist(history: History) -> None:
    """Raise BrokenPromise unless every rule holds."""
    broken = [verdict for verdict in judge(history) if not verdict.holds]
    if broken:
        raise BrokenPromise(history.rules.name, broken)
