"""Questions for records and their answers have one encoding, and nothing else is taken for one."""

import pytest

from headwater.base.errors import PeerError
from headwater.server.cluster.assignment.repair_frames import (
    ABSENT,
    ASKED_MAX,
    RECORD,
    UNREADABLE,
    Found,
    decode_answer,
    decode_ask,
    encode_answer,
    encode_ask,
)

GROUP = bytes(range(16))
FOUND = [Found(3, RECORD, b"bytes"), Found(4, UNREADABLE), Found(2**63, ABSENT)]


def test_questions_and_answers_come_back_as_they_were() -> None:
    longest = [*range(1, ASKED_MAX + 1)]
    assert decode_ask(encode_ask(GROUP, longest)) == (GROUP, longest)
    assert decode_answer(encode_answer(GROUP, FOUND)) == (GROUP, FOUND)
    assert decode_answer(encode_answer(GROUP, [])) == (GROUP, [])


@pytest.mark.parametrize("sequences", [[], [*range(1, ASKED_MAX + 2)]])
def test_a_question_for_nothing_or_too_much_is_refused(sequences: list[int]) -> None:
    with pytest.raises(PeerError):
        decode_ask(encode_ask(GROUP, sequences))


def test_an_answer_to_more_than_is_ever_asked_for_is_refused() -> None:
    with pytest.raises(PeerError):
        decode_answer(encode_answer(GROUP, [Found(1, ABSENT)] * (ASKED_MAX + 1)))


@pytest.mark.parametrize("finding", [0, 4, 255])
def test_an_unknown_finding_is_refused(finding: int) -> None:
    with pytest.raises(PeerError):
        decode_answer(encode_answer(GROUP, [Found(1, finding)]))


def test_frames_that_are_cut_or_have_something_behind_them_are_refused() -> None:
    ask, answer = encode_ask(GROUP, [1, 2]), encode_answer(GROUP, FOUND)
    for size in range(len(ask)):
        with pytest.raises(PeerError):
            decode_ask(ask[:size])
    for size in range(len(answer)):
        with pytest.raises(PeerError):
            decode_answer(answer[:size])
    with pytest.raises(PeerError):
        decode_ask(ask + b"x")
    with pytest.raises(PeerError):
        decode_answer(answer + b"x")
