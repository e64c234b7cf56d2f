"""A group is what its frames say, in the order of writing, whatever is missing before them."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.store.disk.wal import GROUP_CUT, GROUP_STATE, AddedFrame
from headwater.store.groups.frames import (
    GroupEntry,
    GroupMode,
    GroupState,
    SnapshotMark,
    WrittenState,
    entry_frame,
    snapshot_frame,
    state_frame,
)
from headwater.store.groups.written_group import NO_TERM, EntryRun, FramePlace, WrittenGroup

GROUP = b"g" * 16


def state(term: int) -> AddedFrame:
    return state_frame(GROUP, WrittenState(GroupState(term), GroupMode.SYNCED, 1, False))


def entry(index: int, term: int, before: int) -> AddedFrame:
    return entry_frame(GROUP, GroupEntry(index, term, 1, 0, 0, b""), before)


def snapshot(index: int, term: int, replaces: bool = False) -> AddedFrame:
    return snapshot_frame(GROUP, SnapshotMark(index, term, b"m"), replaces)


def group_of(*frames: AddedFrame) -> WrittenGroup:
    group = WrittenGroup()
    for number, (_, kind, file, offset, data) in enumerate(frames):
        group.take_frame(kind, file, offset, data, (1 + number // 100, number))
    return group


def settled(*frames: AddedFrame) -> WrittenGroup:
    group = group_of(*frames)
    group.settle()
    return group


def terms_of(group: WrittenGroup) -> dict[int, int]:
    run = group.entries
    return {index: run.term_at(index) for index in range(run.base_index, run.last_index + 1)}


def test_an_entry_replaces_all_of_its_index_and_above() -> None:
    group = settled(
        state(2),
        snapshot(1, 1, True),
        entry(2, 1, 1),
        entry(3, 1, 1),
        entry(4, 1, 1),
        entry(3, 2, 1),
    )
    assert terms_of(group) == {1: 1, 2: 1, 3: 2}
    assert not group.has_gap
    assert group.entries.place_of(3).offset == 5


def test_a_cut_removes_entries_and_a_snapshot_mark_the_ones_before_it() -> None:
    frames = [state(1), snapshot(1, 1, True), *[entry(index, 1, 1) for index in range(2, 8)]]
    group = settled(*frames, (GROUP, GROUP_CUT, 7, 0, b""), snapshot(4, 1))
    assert terms_of(group) == {4: 1, 5: 1, 6: 1}
    assert group.entries.term_at(3) == group.entries.term_at(7) == NO_TERM


def test_a_snapshot_that_replaces_the_log_leaves_no_entry() -> None:
    group = settled(state(3), snapshot(1, 1, True), entry(2, 1, 1), snapshot(9, 3, True))
    assert terms_of(group) == {9: 3}


def test_entries_of_files_that_are_gone_are_not_missed() -> None:
    """The mark that covered them comes behind entries that follow them."""
    group = settled(state(1), snapshot(1, 1), entry(8, 1, 1), entry(9, 1, 1), snapshot(7, 1))
    assert terms_of(group) == {7: 1, 8: 1, 9: 1}
    assert not group.has_gap


def test_entries_behind_a_gap_are_left_out_and_the_gap_is_told() -> None:
    group = settled(state(1), snapshot(1, 1, True), entry(2, 1, 1), entry(4, 1, 1), entry(5, 1, 1))
    assert terms_of(group) == {1: 1, 2: 1}
    assert group.has_gap


def test_an_entry_that_names_another_term_before_it_does_not_follow() -> None:
    """Entry 3 of term 2 was lost, so entry 4 is no part of the log that ends with 3 of term 1."""
    group = settled(state(2), snapshot(1, 1, True), entry(2, 1, 1), entry(3, 1, 1), entry(4, 2, 2))
    assert terms_of(group) == {1: 1, 2: 1, 3: 1}
    assert group.has_gap


def test_a_gap_is_mended_by_entries_that_replace_what_is_behind_it() -> None:
    group = settled(
        state(2),
        snapshot(1, 1, True),
        entry(2, 1, 1),
        entry(5, 1, 1),
        entry(3, 2, 1),
        entry(4, 2, 2),
    )
    assert terms_of(group) == {1: 1, 2: 1, 3: 2, 4: 2}
    assert not group.has_gap


def test_a_lost_hard_state_is_a_gap_and_the_term_is_that_of_the_last_entry() -> None:
    group = settled(snapshot(1, 1, True), entry(2, 4, 1))
    assert group.has_gap
    assert group.written.state.term == 4
    assert group.written.is_doubtful


def test_a_snapshot_whose_hard_state_is_not_written_yet_begins_its_term() -> None:
    group = settled(state(3), snapshot(1, 1, True), entry(2, 3, 1), snapshot(9, 5, True))
    assert not group.has_gap
    assert group.written.state == GroupState(5)


def test_a_commit_index_behind_the_last_entry_is_a_gap() -> None:
    committed = WrittenState(GroupState(1, "", 3), GroupMode.SYNCED, 1, False)
    frames = (state_frame(GROUP, committed), snapshot(1, 1, True), entry(2, 1, 1))
    assert settled(*frames).has_gap
    assert not settled(*frames, entry(3, 1, 1)).has_gap


def test_a_malformed_frame_is_a_gap() -> None:
    assert settled(state(1), (GROUP, GROUP_STATE, 1, 1, b"?")).has_gap


@st.composite
def histories(draw: st.DrawFn) -> list[AddedFrame]:
    """Appends, conflicts, cuts and snapshots of a group, as a member makes them."""
    frames = [state(9), snapshot(1, 1, True)]
    terms = {1: 1}
    for _ in range(draw(st.integers(0, 12))):
        last, first = max(terms), min(terms)
        choice = draw(st.sampled_from(["append", "cut", "compact"]))
        if choice == "append":
            index = draw(st.integers(min(first + 1, last + 1), last + 1))
            term = draw(st.integers(terms[index - 1], 9))
            frames.append(entry(index, term, terms[index - 1]))
            terms = {at: each for at, each in terms.items() if at < index} | {index: term}
        elif choice == "cut" and last > first:
            index = draw(st.integers(first + 1, last))
            frames.append((GROUP, GROUP_CUT, index, 0, b""))
            terms = {at: each for at, each in terms.items() if at < index}
        elif choice == "compact":
            index = draw(st.integers(first, last))
            frames.append(snapshot(index, terms[index]))
            terms = {at: each for at, each in terms.items() if at >= index}
    return frames


def twin_of(frames: list[AddedFrame]) -> dict[int, int]:
    """The terms of a log, by a dictionary."""
    terms: dict[int, int] = {}
    for _, kind, file, offset, data in frames[1:]:
        if kind == GROUP_CUT:
            terms = {at: each for at, each in terms.items() if at < file}
        elif len(data) == len(snapshot(1, 1)[4]):
            terms = {at: each for at, each in terms.items() if at > file} | {file: offset}
        else:
            terms = {at: each for at, each in terms.items() if at < file} | {file: offset}
    return terms


@given(histories())
def test_a_group_equals_a_twin_that_keeps_terms_in_a_dictionary(frames: list[AddedFrame]) -> None:
    group = settled(*frames)
    assert terms_of(group) == twin_of(frames)
    assert not group.has_gap


@given(histories(), st.data())
def test_a_lost_frame_never_mixes_two_histories(
    frames: list[AddedFrame], data: st.DataObject
) -> None:
    """Each entry that is found stands behind the same entry as when it was written."""
    lost = data.draw(st.integers(0, len(frames) - 1))
    group = settled(*frames[:lost], *frames[lost + 1 :])
    before = {
        (file, offset): int.from_bytes(body[:8], "little") for _, _, file, offset, body in frames
    }
    found = terms_of(group)
    for index, term in found.items():
        if index - 1 in found and (index, term) in before:
            assert any(
                (file, offset) == (index, term)
                and int.from_bytes(body[:8], "little") == found[index - 1]
                for _, kind, file, offset, body in frames
            )


def test_places_are_packed_by_file_and_offset() -> None:
    run = EntryRun(4, 1)
    run.append(1, FramePlace(7, 2**36 - 1, 99))
    run.append(2, FramePlace(8, 64, 50))
    assert run.place_of(5) == FramePlace(7, 2**36 - 1, 99)
    assert run.place_of(6) == FramePlace(8, 64, 50)
    assert (run.first_file, run.byte_count) == (7, 149)
    assert [run.last_index_before(number) for number in (-3, 7, 8, 9)] == [4, 4, 5, 6]
    run.drop_to(5)
    assert (run.first_file, run.byte_count, run.term_at(5)) == (8, 50, 1)
    run.cut(6)
    assert (run.first_file, run.byte_count, run.last_term) == (None, 0, 1)
