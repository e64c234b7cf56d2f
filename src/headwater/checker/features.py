"""Checks of streams whose server makes or removes messages by itself.

    counters        the total of a subject is the sum of all increments that were confirmed, and of
                    some of those whose result nobody knows
    schedules       a schedule that was confirmed has its message once, any other at most once
    times to live   a message is gone after its time, and so is the marker that stands for it
    roll-ups        a confirmed roll-up has nothing before it on its subject
    pinned clients  all messages under one pin go to one client

A history of such a stream has these operations, and no messages that the other checks know. Its
replicas are read when no client works any more and every time in the history is over.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from headwater.checker.evidence import Evidence
from headwater.checker.history import History, Operation, Replica
from headwater.checker.order import check_times
from headwater.checker.replicas import check_replicas
from headwater.checker.verdict import BrokenPromise, Offence, Verdict, verdict


@dataclass(slots=True, eq=False, kw_only=True)
class Increment(Operation):
    """An addition to the counter of a subject."""

    subject: str
    by: int


@dataclass(slots=True, eq=False, kw_only=True)
class Scheduled(Operation):
    """A schedule of one message. No other message has its subject and its body."""

    target: str
    body: str


@dataclass(slots=True, eq=False, kw_only=True)
class Expiring(Operation):
    """A publish with a time to live. All messages of its subject have one."""

    subject: str
    body: str


@dataclass(slots=True, eq=False, kw_only=True)
class RollUp(Operation):
    """A publish that replaces all earlier messages of its subject."""

    subject: str
    body: str
    sequence: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class PinnedDelivery(Operation):
    """A message that a consumer delivered to the client that it has pinned."""

    consumer: str
    sequence: int
    pin: str


def check_counters(history: History) -> Verdict:
    """The total of every subject is the sum of its increments."""
    return verdict("counters sum right", _wrong_totals(history))


def _wrong_totals(history: History) -> Iterator[Offence]:
    of_subject: dict[str, list[Increment]] = defaultdict(list)
    for each in history.all_of(Increment):
        of_subject[each.subject].append(each)
    for subject, increments in of_subject.items():
        least = sum(each.by for each in increments if history.is_kept(each))
        most = sum(each.by for each in increments if each.may_have_happened)
        for replica in history.replicas:
            total = _total(replica, subject)
            if not least <= total <= most:
                text = f"{subject} is {total} on {replica.server}, and not {least} to {most}"
                yield Offence(text)


def _total(replica: Replica, subject: str) -> int:
    """The value in the last message of a subject; 0 without any."""
    bodies = [each.body for _, each in sorted(replica.messages.items()) if each.subject == subject]
    return int(json.loads(bodies[-1])["val"]) if bodies else 0


def check_schedules(history: History) -> Verdict:
    """The message of a schedule is there once."""
    return verdict("schedules fire once", _wrong_copies(history))


def _wrong_copies(history: History) -> Iterator[Offence]:
    for replica in history.replicas:
        found = [(each.subject, each.body) for each in replica.messages.values()]
        for schedule in history.all_of(Scheduled):
            count = found.count((schedule.target, schedule.body))
            least = 1 if history.is_kept(schedule) else 0
            most = 1 if schedule.may_have_happened else 0
            if not least <= count <= most:
                yield Offence(f"{schedule.body} is {count} times on {replica.server}", (schedule,))


def check_times_to_live(history: History) -> Verdict:
    """A message is gone after its time to live, and nothing is left on its subject."""
    return verdict("messages go after their time", _left_behind(history))


def _left_behind(history: History) -> Iterator[Offence]:
    of_subject = {each.subject: each for each in history.all_of(Expiring)}
    for replica in history.replicas:
        for sequence, stored in replica.messages.items():
            expiring = of_subject.get(stored.subject)
            if expiring is not None:
                yield Offence(f"{stored.body!r} at {sequence} is on {replica.server}", (expiring,))


def check_roll_ups(history: History) -> Verdict:
    """Nothing is left of what a roll-up has replaced."""
    return verdict("roll-ups replace what was before", _not_replaced(history))


def _not_replaced(history: History) -> Iterator[Offence]:
    lasts: dict[str, RollUp] = {}
    for each in history.all_of(RollUp):
        last = lasts.get(each.subject)
        if history.is_kept(each) and (last is None or last.sequence < each.sequence):
            lasts[each.subject] = each
    for replica in history.replicas:
        for sequence, stored in replica.messages.items():
            last = lasts.get(stored.subject)
            if last is not None and sequence < last.sequence:
                text = f"{stored.body} at {sequence} is on {replica.server}"
                yield Offence(text, (last,))


def check_pins(history: History) -> Verdict:
    """All messages that a consumer delivers under a pin go to one client."""
    return verdict("a pin is one client's", _shared_pins(history))


def _shared_pins(history: History) -> Iterator[Offence]:
    owners: dict[tuple[str, str], PinnedDelivery] = {}
    for each in history.all_of(PinnedDelivery):
        owner = owners.setdefault((each.consumer, each.pin), each)
        if owner.client != each.client:
            yield Offence(
                f"{owner.client} and {each.client} have the pin {each.pin}", (owner, each)
            )


CHECKS: Final[tuple[Callable[[History], Verdict], ...]] = (
    check_counters,
    check_schedules,
    check_times_to_live,
    check_roll_ups,
    check_pins,
)


def judge_features(history: History) -> list[Verdict]:
    """The verdicts of all checks of this module, and of those of times and replicas."""
    evidence = Evidence(history)
    found = [check(history) for check in CHECKS]
    return [*found, check_times(evidence), check_replicas(evidence)]


def insist_features(history: History) -> None:
    """Raise BrokenPromise unless every rule holds."""
    broken = [each for each in judge_features(history) if not each.holds]
    if broken:
        raise BrokenPromise(history.rules.name, broken)
