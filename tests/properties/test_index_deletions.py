"""Messages removed from an index together leave the index that single removals leave."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.store.index.log_index import DELETED_TOGETHER_MIN, LogIndex
from headwater.store.index.subject_filter import SubjectFilter

SUBJECTS = (b"a", b"b", b"a.b", b"c.d")
# Messages of a segment by subject; None is a sequence without one.
SEGMENTS = st.lists(
    st.lists(st.sampled_from([*SUBJECTS, None]), min_size=1, max_size=30), min_size=1, max_size=4
)


def index_of(segments: list[list[bytes | None]]) -> LogIndex:
    index = LogIndex(1)
    for number, subjects in enumerate(segments):
        if number:
            index.begin_segment()
        for position, subject in enumerate(subjects):
            sequence = index.next_sequence
            if subject is None:
                index.skip(1, sequence)
            else:
                index.append(position + 1, [1], [subject], [sequence], [sequence])
    return index


def facts(index: LogIndex) -> dict[str, Any]:
    end = index.next_sequence
    subjects = index.subjects
    return {
        "first": index.first_sequence,
        "totals": (index.messages, index.byte_count),
        "there": [sequence for sequence in range(1, end) if index.has(sequence)],
        "subjects": {subject: subjects.extent(subject) for subject in SUBJECTS},
        "segments": [
            (segment.live, segment.live_bytes, segment.dead_bytes) for segment in index.segments
        ],
        "live": [
            segment.count_live(0, position)
            for segment in index.segments
            for position in range(len(segment.offsets) + 1)
        ],
    }


@given(segments=SEGMENTS, data=st.data())
def test_together_is_one_by_one(segments: list[list[bytes | None]], data: st.DataObject) -> None:
    one_by_one, together = index_of(segments), index_of(segments)
    questions = [SubjectFilter(together, [b"a.>"]), SubjectFilter(together, [b"*"])]
    expected = [SubjectFilter(one_by_one, [b"a.>"]), SubjectFilter(one_by_one, [b"*"])]
    end = together.next_sequence
    for _ in range(2):
        asked = data.draw(st.sets(st.integers(min_value=0, max_value=end + 2), max_size=end))
        if data.draw(st.booleans()):
            asked = set(range(min(asked, default=1), end + 1))
        there = together.present(sorted(asked))
        assert there == [sequence for sequence in sorted(asked) if one_by_one.has(sequence)]
        together.delete_many(there)
        for sequence in there:
            one_by_one.delete(sequence)
        assert facts(together) == facts(one_by_one)
        for sequence in range(1, end):
            for ours, theirs in zip(questions, expected, strict=True):
                assert ours.pending(sequence) == theirs.pending(sequence)
                assert ours.next(sequence) == theirs.next(sequence)


def test_more_than_are_noted_are_counted_anew() -> None:
    count = 20_000
    index = LogIndex(1)
    subjects = [SUBJECTS[number % len(SUBJECTS)] for number in range(count)]
    index.append(1, [1] * count, subjects, [1] * count, [1] * count)
    stars = SubjectFilter(index, [b"*"])
    assert stars.pending(1) == count // 2
    gone = [*range(1, count, 2)]
    assert len(gone) > DELETED_TOGETHER_MIN
    index.delete_many(gone)
    assert stars.pending(1) == count // 4
    assert index.messages == count // 2
    assert not any(map(index.has, gone))
