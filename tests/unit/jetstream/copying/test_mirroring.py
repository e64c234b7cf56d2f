"""A mirror has its origin's messages under the sequences and times that they have there."""

from typing import Any

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import (
    Discard,
    Storage,
    StreamSource,
    SubjectTransformConfig,
)
from headwater.jetstream.copying.mirroring import beginning
from tests.kit.copied_messages import ORIGIN_NS, arrivals, mirror, origin_of
from tests.kit.stream_driver import StreamDriver

STORAGES = [Storage.MEMORY, Storage.FILE]


def mirror_stream(storage: Storage = Storage.FILE, **config: Any) -> StreamDriver:
    return StreamDriver(storage, subjects=(), mirror=StreamSource(name="O"), **config)


@pytest.mark.parametrize("storage", STORAGES)
def test_sequences_times_and_gaps_are_the_origins(storage: Storage) -> None:
    driver = mirror_stream(storage)
    mirror(driver, arrivals((3, "a", b"1"), (4, "b", b"2"), (9, "a", b"3")))
    assert driver.contents == [(3, "a", b"1"), (4, "b", b"2"), (9, "a", b"3")]
    found = [driver.stream.message(each) for each in (3, 4, 9)]
    times_ns = [each.timestamp_ns for each in found if each is not None]
    assert times_ns == [ORIGIN_NS + each * NS_PER_S for each in (3, 4, 9)]
    assert driver.stream.state().first_seq == 3
    driver.check()


def test_messages_that_are_there_are_not_stored_again() -> None:
    driver = mirror_stream()
    mirror(driver, arrivals((3, "a", b"1"), (4, "b", b"2")))
    mirror(driver, arrivals((4, "b", b"2"), (5, "c", b"3")))
    assert driver.sequences == [3, 4, 5]
    assert not mirror(driver, arrivals((5, "c", b"3"))).proposal.records


def test_sequences_that_the_origin_no_longer_has_are_passed_over() -> None:
    driver = mirror_stream()
    for _ in range(2):
        driver.propose(beginning(driver.stream, origin_of(True), 6, b"id"))
    assert driver.stream.look_ahead.next_sequence == 7
    driver.check()
    driver.restart()


def test_a_mirror_comes_back_as_it_was() -> None:
    driver = mirror_stream()
    mirror(driver, arrivals((3, "a", b"1"), (9, "a", b"3")))
    driver.restart()
    assert driver.sequences == [3, 9]


def test_ids_are_no_duplicates_of_each_other() -> None:
    driver = mirror_stream(duplicate_window=NS_PER_S)
    header = b"NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n"
    mirror(driver, arrivals((1, "a", b"1"), (2, "a", b"2"), header=header))
    assert driver.sequences == [1, 2]


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_roll_up_is_carried_out_where_it_is_allowed(is_allowed: bool) -> None:
    driver = mirror_stream(allow_rollup_hdrs=is_allowed)
    mirror(driver, arrivals((1, "a", b"1"), (2, "b", b"2")))
    mirror(driver, arrivals((5, "a", b"3"), header=b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"))
    assert driver.sequences == ([2, 5] if is_allowed else [1, 2, 5])
    driver.check()


def test_a_ttl_counts_from_the_time_at_the_origin() -> None:
    driver = mirror_stream(allow_msg_ttl=True)
    driver.now_ns = ORIGIN_NS + 2 * NS_PER_S
    header = b"NATS/1.0\r\nNats-TTL: 5\r\n\r\n"
    mirror(driver, arrivals((1, "a", b"1"), (3, "a", b"2"), header=header))
    driver.advance(4)
    assert driver.sequences == [3]
    driver.check()


def test_limits_of_the_mirror_are_its_own() -> None:
    driver = mirror_stream(max_msgs=2)
    mirror(driver, arrivals((1, "a", b"1"), (5, "a", b"2"), (6, "a", b"3")))
    assert driver.sequences == [5, 6]
    driver.check()


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"max_msg_size": 2}, error_codes.STREAM_MESSAGE_EXCEEDS_MAXIMUM),
        ({"max_msgs": 1, "discard": Discard.NEW}, error_codes.STREAM_STORE_FAILED),
    ],
)
def test_a_refusal_ends_the_copy_at_that_message(config: dict[str, Any], error: Any) -> None:
    driver = mirror_stream(**config)
    decision = mirror(driver, arrivals((1, "a", b"1"), (2, "a", b"long"), (3, "a", b"3")))
    assert decision.refusal is not None
    assert decision.refusal.err_code == error.err_code
    assert driver.sequences == [1]


def test_the_streams_own_transform_applies() -> None:
    driver = mirror_stream(subject_transform=SubjectTransformConfig(src="a", dest="b"))
    mirror(driver, arrivals((4, "a", b"1")))
    assert driver.contents == [(4, "b", b"1")]
