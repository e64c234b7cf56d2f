"""Answers of the JetStream API: documents, refusals, and anything else."""

import pytest

from headwater.base.errors import PeerError
from headwater.client.api.answers import ApiRefusal, StoredMessage, StreamInfo, read_answer

CONFIG = {"name": "S", "retention": "limits", "allow_direct": True}
STATE = {"messages": 2, "bytes": 80, "first_seq": 3, "last_seq": 4}


def test_an_answer_is_returned_as_it_came() -> None:
    assert read_answer(b'{"unheard_of": [1]}') == {"unheard_of": [1]}
    assert read_answer(b"{}") == {}


@pytest.mark.parametrize(
    ("payload", "refusal"),
    [
        (
            b'{"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}',
            ApiRefusal(404, 10059, "stream not found"),
        ),
        (b'{"error": {"code": 503}}', ApiRefusal(503)),
        (b'{"error": "no"}', ApiRefusal(description="no")),
    ],
)
def test_an_answer_with_an_error_is_a_refusal(payload: bytes, refusal: ApiRefusal) -> None:
    assert read_answer(payload) == refusal


@pytest.mark.parametrize("payload", [b"", b"+OK", b"[]", b"null", b'"text"', b'{"error"'])
def test_anything_else_is_no_answer(payload: bytes) -> None:
    with pytest.raises(PeerError, match="not a JSON object"):
        read_answer(payload)


def test_the_information_of_a_stream_needs_no_field_that_servers_leave_out() -> None:
    info = StreamInfo.of("S", {"created": "2026", "config": CONFIG, "state": STATE})
    assert (info.messages, info.num_deleted, info.first_ts) == (2, 0, "")
    assert info.allows_direct
    assert info.keeps_what_it_has


def test_a_stored_message_comes_in_base64() -> None:
    message = {"subject": "a", "seq": 7, "time": "2026", "data": "AAE="}
    assert StoredMessage.of({"message": message}) == StoredMessage("a", 7, "2026", b"", b"\x00\x01")
