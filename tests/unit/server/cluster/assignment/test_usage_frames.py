"""The frames that tell the usage of accounts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.server.cluster.assignment.usage_frames import (
    ACCOUNTS_MAX,
    BYTES_MAX,
    CONSUMERS_MAX,
    NAME_BYTES_MAX,
    AccountUsage,
    MalformedUsage,
    decode_usage,
    encode_usage,
)

SIZES = st.integers(0, BYTES_MAX)
USAGES = st.builds(AccountUsage, SIZES, SIZES, st.integers(0, CONSUMERS_MAX))
ACCOUNTS = st.dictionaries(st.text(max_size=20), USAGES, max_size=5)


@given(ACCOUNTS, st.booleans())
def test_usage_is_read_as_it_was_told(accounts: dict[str, AccountUsage], is_whole: bool) -> None:
    frames = [decode_usage(frame) for frame in encode_usage(accounts, is_whole)]
    assert len(frames) == bool(accounts or is_whole)
    for frame in frames:
        assert (frame.is_whole, frame.accounts) == (is_whole, accounts)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: b"\x01\x00" + tail))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    try:
        told = decode_usage(data)
    except MalformedUsage:
        return
    (again,) = encode_usage(told.accounts, told.is_whole) if told.accounts else (data,)
    assert decode_usage(again) == told


@given(ACCOUNTS.filter(bool), st.data())
def test_a_frame_that_is_cut_is_refused_or_tells_of_fewer_accounts(
    accounts: dict[str, AccountUsage], data: st.DataObject
) -> None:
    (frame,) = encode_usage(accounts, is_whole=False)
    cut = frame[: data.draw(st.integers(0, len(frame) - 1))]
    try:
        told = decode_usage(cut)
    except MalformedUsage:
        return
    assert told.accounts.items() < accounts.items()


@pytest.mark.parametrize("head", [b"", b"\x01", b"\x00\x00", b"\x02\x00", b"\x01\x02", b"\x01\xff"])
def test_an_unknown_head_is_refused(head: bytes) -> None:
    with pytest.raises(MalformedUsage):
        decode_usage(head)


@pytest.mark.parametrize(("count", "frames"), [(ACCOUNTS_MAX, 1), (ACCOUNTS_MAX + 1, 2)])
def test_many_accounts_take_several_frames(count: int, frames: int) -> None:
    accounts = {f"A{number}": AccountUsage(number, 1, 2) for number in range(count)}
    told = [decode_usage(frame) for frame in encode_usage(accounts, is_whole=True)]
    assert [each.is_whole for each in told] == [True, False][:frames]
    assert {name: usage for each in told for name, usage in each.accounts.items()} == accounts


def test_a_frame_with_too_many_accounts_is_refused() -> None:
    accounts = {f"A{number}": AccountUsage(1) for number in range(ACCOUNTS_MAX + 1)}
    first, second = encode_usage(accounts, is_whole=True)
    with pytest.raises(MalformedUsage, match="more than"):
        decode_usage(first + second[2:])


@pytest.mark.parametrize(("size", "count"), [(NAME_BYTES_MAX, 1), (NAME_BYTES_MAX + 1, 0)])
def test_an_account_with_a_longer_name_is_not_told(size: int, count: int) -> None:
    assert len([*encode_usage({"a" * size: AccountUsage(1)}, is_whole=False)]) == count
