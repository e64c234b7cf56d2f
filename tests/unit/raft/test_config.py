"""The settings of a group, and the rules that they have to keep."""

from dataclasses import replace

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.raft.config import RaftConfig
from tests.kit.raft_member import Member


def test_the_defaults_keep_all_rules() -> None:
    assert RaftConfig().fault() == ""


@pytest.mark.parametrize("name", sorted({*RaftConfig.__slots__} - {"commit_delay_ns"}))
def test_every_setting_is_positive(name: str) -> None:
    assert replace(RaftConfig(), **{name: 0}).fault() == f"{name} is not positive"


def test_a_commit_may_be_told_at_once_and_not_before() -> None:
    assert replace(RaftConfig(), commit_delay_ns=0).fault() == ""
    assert replace(RaftConfig(), commit_delay_ns=-1).fault() == "commit_delay_ns is negative"


def test_the_spread_fits_into_the_election_timeout() -> None:
    longest = replace(RaftConfig(), lost_leader_spread_ns=RaftConfig().election_timeout_ns)
    assert longest.fault() == ""
    longer = replace(longest, lost_leader_spread_ns=longest.lost_leader_spread_ns + 1)
    assert longer.fault() == "lost_leader_spread_ns exceeds election_timeout_ns"


def test_a_clock_runs() -> None:
    assert replace(RaftConfig(), clock_drift=0.99).fault() == ""
    assert replace(RaftConfig(), clock_drift=1.0).fault() == "clock_drift is not less than one"


def test_a_message_fits_into_the_window() -> None:
    largest = replace(RaftConfig(), append_bytes_max=RaftConfig().window_bytes_max)
    assert largest.fault() == ""
    larger = replace(largest, append_bytes_max=largest.append_bytes_max + 1)
    assert larger.fault() == "append_bytes_max exceeds window_bytes_max"


def test_a_member_refuses_settings_that_break_a_rule() -> None:
    with pytest.raises(InvariantViolation, match="resend_ns is not positive"):
        Member(config=replace(RaftConfig(), resend_ns=0))
