"""The streams that listen to a subject: the kept tree against comparing each with each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.sliced import at_once
from headwater.jetstream.config.stream_checks import overlap as config_checks_overlap
from headwater.jetstream.config.stream_checks.overlap import TooManySubjects, collide
from headwater.jetstream.config.stream_subjects import StreamSubjects

TOKENS = st.sampled_from(["a", "b", "*", ">", "*a"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=3).map(".".join)
STREAMS = st.dictionaries(st.sampled_from("STUV"), st.lists(SUBJECTS, max_size=3), max_size=4)


def colliding(streams: dict[str, list[str]], subject: str) -> set[str]:
    return {
        name for name, subjects in streams.items() if any(collide(subject, own) for own in subjects)
    }


@given(STREAMS, st.lists(st.sampled_from("STUV")), SUBJECTS)
def test_it_knows_the_streams_on_a_subject_after_any_of_them_left(
    streams: dict[str, list[str]], leaving: list[str], subject: str
) -> None:
    kept = StreamSubjects()
    for name, subjects in streams.items():
        kept.add(name, subjects)
    left = dict(streams)
    for name in leaving:
        kept.remove(name, left.pop(name, ()))
    assert at_once(kept.streams_on(subject)) == colliding(left, subject)
    for name in left:
        others = {other: subjects for other, subjects in left.items() if other != name}
        assert kept.overlaps(name, [subject]) == bool(colliding(others, subject))


def test_everything_is_on_some_stream() -> None:
    kept = StreamSubjects()
    kept.add("S", ["a.b", "c"])
    kept.add("T", ["d.>"])
    assert at_once(kept.streams_on(">")) == {"S", "T"}


def test_the_effort_for_one_request_is_bounded_and_begins_anew_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config_checks_overlap, "_STEPS_MAX", 50)
    kept = StreamSubjects()
    kept.add("S", [f"a{number}.b" for number in range(40)])
    assert not kept.overlaps("T", ["*.c"])
    assert not kept.overlaps("T", ["*.c"])
    with pytest.raises(TooManySubjects):
        kept.overlaps("T", ["*.c", "*.d"])
    assert at_once(kept.streams_on("*.b")) == {"S"}
