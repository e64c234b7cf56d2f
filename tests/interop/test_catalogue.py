"""Rules about the cases themselves."""

import re
from collections import Counter

from tests.interop.cases import all_cases
from tests.interop.masks import MASKS

CASES_MIN = 120
"""The least number of cases that the differential harness of core NATS must have."""

CASES = all_cases()


def repeated(values: list[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= CASES_MIN


def test_no_rule_is_covered_twice() -> None:
    assert repeated([case.rule for case in CASES]) == []


def test_no_case_has_the_name_of_another() -> None:
    assert repeated([case.name for case in CASES]) == []


def test_no_error_text_is_claimed_twice() -> None:
    assert repeated([case.text for case in CASES if case.text]) == []


def test_no_rule_is_stated_twice() -> None:
    assert repeated([case.statement for case in CASES]) == []


def test_every_case_states_its_rule() -> None:
    unstated = [case.name for case in CASES if not case.statement.endswith((".", "`"))]
    assert unstated == []


def test_rule_ids_are_dotted_words() -> None:
    pattern = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
    assert [case.rule for case in CASES if not pattern.fullmatch(case.rule)] == []


def test_no_path_is_masked_twice() -> None:
    assert repeated([mask.path for mask in MASKS]) == []
