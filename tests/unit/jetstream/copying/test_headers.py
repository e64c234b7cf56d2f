"""A copy has the headers of its original, without those by which the original was checked."""

from headwater.jetstream.copying.headers import copied, sourced

PLAIN = b"NATS/1.0\r\nA: b\r\n\r\n"
CHECKED = b"NATS/1.0\r\nNats-Expected-Last-Sequence: 3\r\nA: b\r\nNats-Batch-Id: x\r\n\r\n"
CHAINED = b"NATS/1.0\r\nNats-Stream-Source: P 1 > > a\r\nA: b\r\n\r\n"


def test_a_mirror_keeps_other_headers() -> None:
    assert copied([b"", PLAIN, CHECKED]) == [b"", PLAIN, PLAIN]


def test_nothing_is_left_of_headers_that_all_go() -> None:
    assert copied([b"NATS/1.0\r\nNats-Expected-Stream: O\r\n\r\n"]) == [b""]


def test_a_sourced_message_names_its_origin_last() -> None:
    block = b"NATS/1.0\r\nNats-Stream-Source: O 7\r\n\r\n"
    assert sourced([b"", b""], [b"O 7", b"O 7"]) == [block, block]
    named = b"NATS/1.0\r\nA: b\r\nNats-Stream-Source: O 7\r\n\r\n"
    assert sourced([PLAIN, CHECKED, CHAINED, b""], [b"O 7"] * 4) == [named, named, named, block]
