"""A body that is no JSON is refused in the words of the API."""

import msgspec
import pytest

from headwater.jetstream.errors import ApiError
from headwater.jetstream.request_bodies import read_request, read_single_request


class Asked(msgspec.Struct):
    number: int = 0


def test_a_body_is_read_as_go_reads_it() -> None:
    assert read_request(b'{"NUMBER":1}{"number":2}', Asked, strict=True) == Asked(2)
    assert read_single_request(b'{"number":1,"other":2}', Asked) == Asked(1)


def test_a_body_that_is_no_json_has_the_code_of_the_api_and_the_text_of_go() -> None:
    with pytest.raises(ApiError) as caught:
        read_request(b"{x", Asked, strict=True)
    assert (caught.value.code, caught.value.err_code) == (400, 10025)
    assert caught.value.description.startswith("invalid JSON: invalid character 'x'")
    with pytest.raises(ApiError, match="unexpected end of JSON input"):
        read_single_request(b"", Asked)
