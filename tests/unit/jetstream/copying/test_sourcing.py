"""An aggregate has the messages of its sources once each, in their order, with their origin."""

from typing import Any

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.stream_config import (
    Discard,
    Retention,
    Storage,
    StreamSource,
    SubjectTransformConfig,
)
from headwater.jetstream.streams.origin_positions import Position
from tests.kit.copied_messages import IDENTITY, arrivals, source
from tests.kit.stream_driver import StreamDriver


def aggregate(**config: Any) -> StreamDriver:
    return StreamDriver(Storage.FILE, **{"sources": (StreamSource(name="O"),), **config})


def position(driver: StreamDriver) -> Position:
    return driver.stream.positions.of(b"O > >")


def test_a_message_says_where_it_comes_from() -> None:
    driver = aggregate()
    source(driver, arrivals((3, "a", b"1"), (7, "b", b"2")))
    assert driver.contents == [(1, "a", b"1"), (2, "b", b"2")]
    assert driver.header(2) == "NATS/1.0\r\nNats-Stream-Source: O 7 > > b abcdefgh\r\n\r\n"
    driver.check()


def test_a_transform_shows_in_subject_and_header() -> None:
    rule = SubjectTransformConfig(src="a.*", dest="b.{{wildcard(1)}}")
    driver = aggregate()
    source(driver, arrivals((3, "a.x", b"1")), subject_transforms=(rule,))
    assert driver.contents == [(1, "b.x", b"1")]
    assert "O 3 a.* b.{{wildcard(1)}} a.x abcdefgh" in driver.header(1)


def test_publishes_and_copies_take_turns() -> None:
    driver = aggregate()
    driver.publish("S.a", b"own")
    source(driver, arrivals((3, "a", b"1")))
    driver.publish("S.a", b"own")
    assert driver.sequences == [1, 2, 3]


def test_a_known_id_is_passed_over_and_counts() -> None:
    driver = aggregate(duplicate_window=NS_PER_S)
    header = b"NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n"
    source(driver, arrivals((3, "a", b"1"), (4, "a", b"2"), header=header))
    source(driver, arrivals((9, "a", b"3"), header=header))
    assert driver.contents == [(1, "a", b"1")]
    assert position(driver) == Position(9, IDENTITY)
    driver.check()
    driver.restart()


def test_a_message_without_interest_counts() -> None:
    driver = aggregate(retention=Retention.INTEREST)
    source(driver, arrivals((3, "a", b"1"), (5, "a", b"2")))
    assert driver.sequences == []
    assert position(driver) == Position(5, IDENTITY)
    driver.check()


def test_a_full_stream_takes_what_it_has_room_for() -> None:
    driver = aggregate(max_msgs=1, discard=Discard.NEW)
    decision = source(driver, arrivals((3, "a", b"1"), (5, "a", b"2"), (6, "a", b"3")))
    assert decision.refusal is not None
    assert position(driver) == Position(3, IDENTITY)
    driver.purge()
    source(driver, arrivals((5, "a", b"2")))
    assert position(driver) == Position(5, IDENTITY)


def test_roll_ups_are_not_carried_out_where_they_are_not_allowed() -> None:
    driver = aggregate(deny_purge=True)
    source(driver, arrivals((3, "a", b"1")))
    source(driver, arrivals((4, "a", b""), header=b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"))
    assert driver.sequences == [1, 2]


def test_totals_of_counters_are_added() -> None:
    driver = aggregate(allow_msg_counter=True)
    driver.publish("S.a", b"", Nats_Incr="2")
    for sequence, total, step in ((1, 5, 5), (2, 8, 3)):
        header = f"NATS/1.0\r\nNats-Incr: {step}\r\n\r\n".encode()
        body = f'{{"val":"{total}"}}'.encode()
        source(driver, arrivals((sequence, "S.a", body), header=header))
    assert [body for _, _, body in driver.contents] == [
        b'{"val":"2"}',
        b'{"val":"7"}',
        b'{"val":"10"}',
    ]
    assert 'Nats-Counter-Sources: {"O":{"S.a":"8"}}' in driver.header(3)
    assert "Nats-Incr: 3" in driver.header(3)
    driver.check()
