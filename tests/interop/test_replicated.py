"""The cases of JetStream a second time: three servers of each kind, three replicas of each stream.

`make test` runs a part of them, `make test-replicated` all. `INTEROP_SUBJECT=nats-server` compares
three nats-servers with three others, which shows that the scripts are deterministic there too.
"""

import os
from collections.abc import Iterator

import pytest

from tests.interop.case import Case
from tests.interop.differential import ServerPool, observe
from tests.interop.observation import Observation
from tests.interop.replicated import (
    REPLICATED_MASKS,
    TrioPool,
    may_differ,
    observe_replicated,
    observe_replicated_subject,
    replicated_cases,
    sample,
    without_cluster,
)
from tests.interop.replicated_differences import ALONE, DIFFERENT
from tests.interop.verdict import report_of
from tests.kit.server_process import HEADWATER, ORACLE

PROGRAMS = {program.name: program for program in (ORACLE, HEADWATER)}
SUBJECT = PROGRAMS[os.environ.get("INTEROP_SUBJECT", HEADWATER.name)]
SHARE = int(os.environ.get("INTEROP_SHARE", "32"))
"""One case of so many runs."""
ORACLE_LOOKS_MAX = 3


def chosen() -> list[Case]:
    """The cases that run; nats-server against itself only where it is the same each time."""
    cases = sample(replicated_cases(), SHARE)
    return [case for case in cases if SUBJECT != ORACLE or not may_differ(case)]


@pytest.fixture(scope="module")
def trios() -> Iterator[TrioPool]:
    pool = TrioPool()
    yield pool
    pool.close()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.rule) for case in chosen()])
def test_replicated_streams_are_seen_as_the_oracles_are(
    case: Case, trios: TrioPool, servers: ServerPool
) -> None:
    subject = observe_replicated_subject(case, SUBJECT, trios)
    reports = []
    for _ in range(ORACLE_LOOKS_MAX):
        try:
            oracle = observe_replicated(case, ORACLE, trios)
            report = report_of(case, oracle, subject, REPLICATED_MASKS)
        except Exception as error:
            report = f"with the oracle the script could not finish: {error!r}"
        if not report or (may_differ(case) and is_as_alone(case, subject, servers)):
            return
        reports.append(report)
    pytest.fail(f"{case.name}: {case.statement}\n{reports[0]}", pytrace=False)


def is_as_alone(case: Case, subject: Observation, servers: ServerPool) -> bool:
    """Whether the subject was seen as one nats-server is, but for the documents of a cluster."""
    oracle = without_cluster(observe(case, ORACLE, servers))
    return not report_of(case, oracle, without_cluster(subject), REPLICATED_MASKS)


def test_every_listed_rule_is_one_of_a_case() -> None:
    known = {case.rule for case in replicated_cases()}
    listed = {rule for rules in DIFFERENT.values() for rule in rules}
    assert listed - known == set()
    assert not known & {rule for rules in ALONE.values() for rule in rules}
