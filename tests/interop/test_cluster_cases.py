"""Three servers of each kind: what clients see of streams that several servers keep.

`make test` runs a part of the cases, `make test-replicated` all. `INTEROP_SUBJECT=nats-server`
compares three nats-servers with three others, which shows that the scripts are deterministic.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.interop.cluster_case import STANDARD, ClusterCase
from tests.interop.cluster_cases import all_cluster_cases
from tests.interop.jetstream import JETSTREAM_MASKS
from tests.interop.masks import MASKS
from tests.interop.observation import Observation, differences, unused_masks
from tests.interop.replicated import TrioPool
from tests.interop.stage import CLUSTER_MASKS, Stage
from tests.kit.server_process import HEADWATER, ORACLE, Program

PROGRAMS = {program.name: program for program in (ORACLE, HEADWATER)}
SUBJECT = PROGRAMS[os.environ.get("INTEROP_SUBJECT", HEADWATER.name)]
IS_ALL = os.environ.get("INTEROP_SHARE") == "1"
SHARE = 1 if IS_ALL else 3
"""One case of so many runs, of those that share their servers."""
WITH_OWN_SERVERS: Final = (
    "a_stream_without_quorum",
    "a_server_in_lame_duck_mode_hands_over",
)
"""Cases that stop servers of their own, and run each time: such a case takes ten seconds."""
ORACLE_LOOKS_MAX = 3
CASES_MIN = 80
"""The least number of cases for streams on three servers."""

DIFFERENT: Final = {
    "a_follower_that_is_killed": "a server that refuses connections counts as offline at once",
    "info_of_a_stream_without_quorum": "a stream without a leader gives no answer to INFO",
}
"""Cases in which Headwater is seen otherwise than nats-server, and why."""

CASES = [case for case in all_cluster_cases() if case.name not in DIFFERENT]


@pytest.fixture(scope="module")
def trios() -> Iterator[TrioPool]:
    pool = TrioPool()
    yield pool
    pool.close()


def observe(case: ClusterCase, program: Program, pool: TrioPool) -> Observation:
    """The observation of a script on three servers."""
    start = pool.start if case.own_servers else pool.shared
    trio = start(program, case.setup)
    stage = Stage(trio)
    try:
        return case.script(stage)
    finally:
        stage.close()
        if case.own_servers:
            trio.stop()


def observe_subject(case: ClusterCase, pool: TrioPool) -> Observation:
    """As `observe`, but a script that could not finish is an observation too: it differs."""
    try:
        return observe(case, SUBJECT, pool)
    except Exception as error:
        return {"script could not finish": f"{type(error).__name__}: {error}"}


def chosen() -> list[ClusterCase]:
    """The cases that run: all, or some with the most common set-up."""
    if IS_ALL:
        return CASES
    common = [case for case in CASES if case.setup == STANDARD and not case.own_servers]
    return [*common[::SHARE], *(case for case in CASES if case.name in WITH_OWN_SERVERS)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in chosen()])
def test_a_cluster_with_streams_is_seen_as_the_oracles_is(
    case: ClusterCase, trios: TrioPool
) -> None:
    subject = observe_subject(case, trios)
    reports = []
    for _ in range(ORACLE_LOOKS_MAX):
        try:
            report = report_of(case, observe(case, ORACLE, trios), subject)
        except Exception as error:
            report = f"with the oracle the script could not finish: {error!r}"
        if not report:
            return
        reports.append(report)
    pytest.fail(f"{case.name}: {case.statement}\n{reports[0]}", pytrace=False)


def report_of(case: ClusterCase, oracle: Observation, subject: Observation) -> str:
    if unused_masks(oracle, case.masks):
        return "a mask of this case names nothing"
    masks = (*case.masks, *CLUSTER_MASKS, *MASKS, *JETSTREAM_MASKS)
    return "\n".join(str(difference) for difference in differences(oracle, subject, masks))


def test_each_difference_is_one_of_a_case() -> None:
    assert {*DIFFERENT} <= {case.name for case in all_cluster_cases()}


def test_each_case_that_runs_each_time_has_servers_of_its_own() -> None:
    assert {*WITH_OWN_SERVERS} <= {case.name for case in CASES if case.own_servers}


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= CASES_MIN


def test_each_case_has_a_name_and_a_statement_of_its_own() -> None:
    for key in ("name", "statement"):
        found = Counter(getattr(case, key) for case in CASES)
        assert [value for value, count in found.items() if count > 1 or not value] == []
