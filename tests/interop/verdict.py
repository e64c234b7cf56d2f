"""The judgement of a case: whether a subject was seen as the oracle was.

Must not know: how servers are run.
"""

from collections.abc import Iterable

from tests.interop.case import Case
from tests.interop.jetstream import JETSTREAM_MASKS
from tests.interop.masks import MASKS
from tests.interop.observation import (
    Mask,
    Observation,
    contains_text,
    differences,
    unused_masks,
)


def report_of(
    case: Case, oracle: Observation, subject: Observation, further: Iterable[Mask] = ()
) -> str:
    """The differences of a case, by one observation of the oracle; empty if there are none."""
    if unused_masks(oracle, case.masks):
        return "a mask of this case names nothing"
    if case.text and not contains_text(oracle, case.text):
        return f"the oracle did not say {case.text!r}"
    found = differences(oracle, subject, (*further, *case.masks, *MASKS, *JETSTREAM_MASKS))
    return "\n".join(str(difference) for difference in found)
