"""Frames of groups hold what they were made of, and no other bytes pass for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.store.disk.format import FormatError
from headwater.store.disk.wal import GROUP_ENTRY, GROUP_SNAPSHOT, GROUP_STATE
from headwater.store.groups.frames import (
    VOTE_BYTES_MAX,
    GroupEntry,
    GroupMode,
    GroupState,
    SnapshotMark,
    WrittenState,
    decode_entry,
    decode_snapshot,
    decode_state,
    entry_frame,
    snapshot_frame,
    state_frame,
    term_before,
)

GROUP = b"g" * 16
NUMBERS = st.integers(0, 2**63 - 1)
LEASES_US = st.integers(0, (1 << 32) - 1)
VOTES = st.text(max_size=20).filter(lambda name: len(name.encode()) <= VOTE_BYTES_MAX)


@given(NUMBERS, VOTES, NUMBERS, NUMBERS, st.sampled_from(GroupMode), NUMBERS, st.booleans())
def test_a_hard_state_is_read_as_it_was_written(
    term: int,
    vote: str,
    commit: int,
    recovery: int,
    mode: GroupMode,
    start_number: int,
    is_doubtful: bool,
) -> None:
    state = GroupState(term, vote, commit, recovery)
    written = WrittenState(state, mode, start_number, is_doubtful)
    identity, kind, file, offset, data = state_frame(GROUP, written)
    assert (identity, kind) == (GROUP, GROUP_STATE)
    assert decode_state(file, offset, data) == written


@given(NUMBERS, NUMBERS, st.integers(0, 255), NUMBERS, NUMBERS, st.binary(), NUMBERS)
def test_an_entry_is_read_as_it_was_written(
    index: int, term: int, kind: int, created_ns: int, lease_ns: int, data: bytes, before: int
) -> None:
    entry = GroupEntry(index, term, kind, created_ns, lease_ns, data)
    identity, frame_kind, file, offset, body = entry_frame(GROUP, entry, before)
    assert (identity, frame_kind) == (GROUP, GROUP_ENTRY)
    assert decode_entry(file, offset, body) == entry
    assert term_before(body) == before


@given(NUMBERS, NUMBERS, st.binary(), LEASES_US, st.booleans())
def test_a_snapshot_mark_is_read_as_it_was_written(
    index: int, term: int, membership: bytes, lease_us: int, replaces: bool
) -> None:
    mark = SnapshotMark(index, term, membership, lease_us * 1_000)
    identity, kind, file, offset, data = snapshot_frame(GROUP, mark, replaces)
    assert (identity, kind) == (GROUP, GROUP_SNAPSHOT)
    assert decode_snapshot(file, offset, data) == (mark, replaces)


@pytest.mark.parametrize(
    ("lease_ns", "read_ns"), [(None, None), (1, 1_000), (1_001, 2_000), (1 << 60, 4294967295_000)]
)
def test_a_mark_never_tells_a_shorter_lease_than_it_has_room_for(
    lease_ns: int | None, read_ns: int | None
) -> None:
    *_, data = snapshot_frame(GROUP, SnapshotMark(1, 1, b"members", lease_ns), replaces=False)
    assert decode_snapshot(1, 1, data)[0].lease_ns == read_ns


def test_a_mark_of_a_server_without_leases_tells_none() -> None:
    mark, replaces = decode_snapshot(5, 2, b"\x01" + bytes(7) + b"members")
    assert (mark, replaces) == (SnapshotMark(5, 2, b"members", None), True)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    for decode, size in ((decode_state, 24), (decode_entry, 32), (decode_snapshot, 8)):
        try:
            decode(1, 1, data)
        except FormatError:
            continue
        assert len(data) >= size


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(23),
        bytes(16) + b"\x03" + bytes(7),
        bytes(17) + b"\x02" + bytes(6),
        bytes(24) + b"\xff",
        bytes(24) + b"x" * (VOTE_BYTES_MAX + 1),
    ],
)
def test_a_malformed_hard_state_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_state(1, 1, data)


def test_a_vote_of_the_greatest_length_is_read() -> None:
    state = GroupState(1, "x" * VOTE_BYTES_MAX)
    _, _, file, offset, data = state_frame(GROUP, WrittenState(state, GroupMode.SYNCED, 1, False))
    assert decode_state(file, offset, data).state == state
