"""Replies to publishes, as bytes."""

import json

from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.publishing.pub_acks import PubAcks

FULL = ApiError.of(error_codes.STREAM_TOO_MANY_REQUESTS)


def test_every_ack_tells_the_domain() -> None:
    acks = PubAcks("S", "hub")
    begins = b'{"stream":"S","domain":"hub","seq":'
    assert acks.begins == begins
    assert acks.duplicate_ack(3) == begins + b'3,"duplicate": true}'
    assert acks.counter_ack(3, b'{"val":"7"}') == begins + b'3,"val":"7"}'
    assert acks.batch_ack(3, b"id", 2) == begins + b'3,"batch":"id","count":2}'


def test_an_ack_of_a_server_without_a_domain_has_no_such_member() -> None:
    assert PubAcks("S", "").begins == b'{"stream":"S","seq":'


def test_a_refusal_tells_the_stream_and_not_the_domain() -> None:
    refusal = json.loads(PubAcks("S", "hub").refusal(FULL))
    assert (refusal["stream"], refusal["seq"]) == ("S", 0)
    assert refusal["error"]["err_code"] == FULL.err_code
    assert "domain" not in refusal
