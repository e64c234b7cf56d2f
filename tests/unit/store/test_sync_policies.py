"""Each sync mode has a policy, which says what a start expects and how a log goes on."""

import pytest

from headwater.store.disk.wal import Extent
from headwater.store.store import POLICIES, SyncMode
from headwater.store.sync_policies import StartOfStore

IN_ORDER = StartOfStore(was_unclean=False, machine_fell=False, ahead_lost=False)
KILLED = IN_ORDER._replace(was_unclean=True)
FALLEN = KILLED._replace(machine_fell=True)
DAMAGED = FALLEN._replace(ahead_lost=True)


@pytest.mark.parametrize(
    ("mode", "costly"),
    [
        (SyncMode.ASYNC, [KILLED, FALLEN, DAMAGED]),
        (SyncMode.INTERVAL, [FALLEN, DAMAGED]),
        (SyncMode.ALWAYS, [DAMAGED]),
    ],
)
def test_a_mode_says_which_ends_cost_messages(mode: SyncMode, costly: list[StartOfStore]) -> None:
    ends = [IN_ORDER, KILLED, FALLEN, DAMAGED]
    assert [end for end in ends if POLICIES[mode].may_have_lost(end)] == costly


def test_the_write_ahead_file_knows_the_segments_of_streams_that_use_it() -> None:
    extents = {"/s": Extent(1, 100)}
    known = {mode: POLICIES[mode].certain_part(extents, "/s") for mode in SyncMode}
    assert [mode for mode, extent in known.items() if extent] == [SyncMode.ALWAYS]
    assert [mode for mode in SyncMode if POLICIES[mode].syncs_at_start] == [SyncMode.ALWAYS]


def test_every_mode_has_a_policy() -> None:
    assert set(POLICIES) == set(SyncMode)
