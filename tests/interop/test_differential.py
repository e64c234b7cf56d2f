"""Every case, run against nats-server and against the server under test.

`INTEROP_SUBJECT=nats-server pytest tests/interop` compares the oracle with itself, which shows that
the scripts are deterministic: that run has to be green before a difference means anything.
"""

import os

import pytest

from tests.interop.case import Case
from tests.interop.cases import all_cases
from tests.interop.differential import ServerPool, observe, observe_alone, observe_subject
from tests.interop.jetstream import JETSTREAM_MASKS
from tests.interop.masks import MASKS
from tests.interop.observation import contains_text, differences, unused_masks
from tests.interop.server_process import HEADWATER, ORACLE

PROGRAMS = {program.name: program for program in (ORACLE, HEADWATER)}
SUBJECT = PROGRAMS[os.environ.get("INTEROP_SUBJECT", HEADWATER.name)]


# nats-server does not do everything in the same order twice, least of all on a busy machine: where
# it differs from the subject it is looked at again, and the subject has to be seen as it is once.
# The subject itself has one chance.
ORACLE_LOOKS_MAX = 3


@pytest.mark.parametrize("case", [pytest.param(case, id=case.rule) for case in all_cases()])
def test_subject_is_seen_as_the_oracle_is(case: Case, servers: ServerPool) -> None:
    oracle = observe(case, ORACLE, servers)
    assert not unused_masks(oracle, case.masks), "a mask of this case names nothing"
    if case.text:
        assert contains_text(oracle, case.text), f"the oracle did not say {case.text!r}"

    subject = observe_subject(case, SUBJECT, servers)
    masks = (*case.masks, *MASKS, *JETSTREAM_MASKS)
    first_found = found = differences(oracle, subject, masks)
    for _ in range(1, ORACLE_LOOKS_MAX):
        if found:
            found = differences(observe_alone(case, ORACLE, servers), subject, masks)

    if found:
        report = "\n".join(str(difference) for difference in first_found)
        pytest.fail(f"{case.name}: {case.statement}\n{report}", pytrace=False)
