"""The frames that tell digests, and the order to be filled again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.streams.digests import KEPT_MAX, Digest
from headwater.server.cluster.assignment.digest_frames import (
    decode_digests,
    decode_order,
    encode_digests,
    encode_order,
)
from headwater.server.cluster.consensus.frames import MalformedFrame

GROUP = bytes(range(16))
NUMBERS = st.integers(0, (1 << 64) - 1)
DIGESTS = st.lists(st.tuples(*[NUMBERS] * 9).map(lambda row: Digest(*row)), min_size=1, max_size=8)


@given(DIGESTS)
def test_digests_are_read_as_they_were_told(found: list[Digest]) -> None:
    assert decode_digests(encode_digests(GROUP, found)) == (GROUP, found)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    try:
        told = decode_digests(data)
    except MalformedFrame:
        return
    assert encode_digests(*told) == data


@pytest.mark.parametrize("count", [0, KEPT_MAX + 1])
def test_no_digest_and_too_many_are_refused(count: int) -> None:
    with pytest.raises(MalformedFrame):
        decode_digests(encode_digests(GROUP, [Digest(*range(9))] * count))


@given(NUMBERS)
def test_an_order_is_read_as_it_was_told(index: int) -> None:
    assert decode_order(encode_order(GROUP, index)) == (GROUP, index)


def test_an_order_of_another_length_is_refused() -> None:
    for data in (b"", encode_order(GROUP, 7)[:-1], encode_order(GROUP, 7) + b"x"):
        with pytest.raises(MalformedFrame):
            decode_order(data)
