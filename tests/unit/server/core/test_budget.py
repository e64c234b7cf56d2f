"""The units of work that are left to a connection."""

import pytest

from headwater.server.core.budget import Budget


def test_the_last_operation_may_take_the_budget_below_zero() -> None:
    budget = Budget(5)
    budget.charge(8)
    assert budget.units == -3


@pytest.mark.parametrize(
    ("took_ns", "units"), [(0, 20), (20_000, 20), (20_999, 20), (21_000, 21), (2_000_000, 2_000)]
)
def test_measured_work_costs_a_unit_per_microsecond_and_never_less_than_its_least(
    took_ns: int, units: int
) -> None:
    budget = Budget(0)
    budget.charge_time(took_ns, units_min=20)
    assert budget.units == -units
