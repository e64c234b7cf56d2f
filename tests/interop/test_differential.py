"""Every case, run against nats-server and against the server under test.

`INTEROP_SUBJECT=nats-server pytest tests/interop` compares the oracle with itself, which shows that
the scripts are deterministic: that run has to be green before a difference means anything.
"""

import os

import pytest

from tests.interop.case import Case
from tests.interop.cases import all_cases
from tests.interop.differential import ServerPool, observe, observe_alone, observe_subject
from tests.interop.verdict import report_of
from tests.kit.server_process import HEADWATER, ORACLE

PROGRAMS = {program.name: program for program in (ORACLE, HEADWATER)}
SUBJECT = PROGRAMS[os.environ.get("INTEROP_SUBJECT", HEADWATER.name)]


# nats-server does not do everything in the same order twice, least of all on a busy machine: if it
# differs from the subject, or a script cannot finish with it, it is observed again, and the subject
# has to match one of these observations. The subject itself is observed once.
ORACLE_LOOKS_MAX = 3


@pytest.mark.parametrize("case", [pytest.param(case, id=case.rule) for case in all_cases()])
def test_subject_is_seen_as_the_oracle_is(case: Case, servers: ServerPool) -> None:
    subject = observe_subject(case, SUBJECT, servers)
    reports = []
    for look in (observe, *[observe_alone] * (ORACLE_LOOKS_MAX - 1)):
        try:
            report = report_of(case, look(case, ORACLE, servers), subject)
        except Exception as error:
            report = f"with the oracle the script could not finish: {error!r}"
        if not report:
            return
        reports.append(report)
    pytest.fail(f"{case.name}: {case.statement}\n{reports[0]}", pytrace=False)
