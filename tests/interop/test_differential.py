"""Every case, run against nats-server and against the server under test.

`INTEROP_SUBJECT=nats-server pytest tests/interop` compares the oracle with itself, which shows that
the scripts are deterministic: that run has to be green before a difference means anything.
"""

import os

import pytest

from tests.interop.case import Case
from tests.interop.cases import all_cases
from tests.interop.differential import ServerPool, observe, observe_subject
from tests.interop.jetstream import JETSTREAM_MASKS
from tests.interop.masks import MASKS
from tests.interop.observation import contains_text, differences, unused_masks
from tests.interop.server_process import HEADWATER, ORACLE

PROGRAMS = {program.name: program for program in (ORACLE, HEADWATER)}
SUBJECT = PROGRAMS[os.environ.get("INTEROP_SUBJECT", HEADWATER.name)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.rule) for case in all_cases()])
def test_subject_is_seen_as_the_oracle_is(case: Case, servers: ServerPool) -> None:
    oracle = observe(case, ORACLE, servers)
    assert not unused_masks(oracle, case.masks), "a mask of this case names nothing"
    if case.text:
        assert contains_text(oracle, case.text), f"the oracle did not say {case.text!r}"

    found = differences(
        oracle, observe_subject(case, SUBJECT, servers), (*case.masks, *MASKS, *JETSTREAM_MASKS)
    )

    if found:
        report = "\n".join(str(difference) for difference in found)
        pytest.fail(f"{case.name}: {case.statement}\n{report}", pytrace=False)
