"""Long work is done in slices, and as a whole where no client waits."""

import pytest

from headwater.base.sliced import SLICE_UNITS_MAX, Sliced, Work, at_once


def steps(units: list[int], done: list[int]) -> Work[str]:
    for number, each in enumerate(units):
        done.append(number)
        yield each
    return "result"


def test_a_slice_ends_with_the_step_that_fills_it() -> None:
    done: list[int] = []
    sliced = Sliced(steps([SLICE_UNITS_MAX - 1, 1, SLICE_UNITS_MAX, 1], done))
    assert sliced.do_some()
    assert done == [0, 1]
    assert sliced.do_some()
    assert done == [0, 1, 2]
    assert not sliced.do_some()
    assert sliced.result == "result"


def test_work_that_fits_into_a_slice_is_done_at_once() -> None:
    sliced = Sliced(steps([1, 2, 3], []))
    assert not sliced.do_some()
    assert sliced.result == "result"


def test_all_of_it_can_be_had_at_once() -> None:
    done: list[int] = []
    assert at_once(steps([SLICE_UNITS_MAX] * 5, done)) == "result"
    assert done == [0, 1, 2, 3, 4]


def test_what_goes_wrong_is_told_to_who_drives_it() -> None:
    def failing() -> Work[None]:
        yield 1
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        Sliced(failing()).do_some()
