"""Bodies of requests to the API: JSON as Go reads it, refused in the API's own words.

The readers of files and of acknowledgements use `go_json` itself, because nobody is told an error
of the API there.
"""

from typing import TypeVar

import msgspec

from headwater.go import json as go_json
from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError

T = TypeVar("T", bound=msgspec.Struct)


def read_request(body: bytes, kind: type[T], strict: bool) -> T:
    """The request in `body`, as `go_json.read` has it. Raises ApiError."""
    try:
        return go_json.read(body, kind, strict)
    except go_json.JsonError as error:
        raise _invalid(error) from None


def read_single_request(body: bytes, kind: type[T]) -> T:
    """The request in `body`, as `go_json.read_one` has it. Raises ApiError."""
    try:
        return go_json.read_one(body, kind)
    except go_json.JsonError as error:
        raise _invalid(error) from None


def _invalid(error: go_json.JsonError) -> ApiError:
    return ApiError.of(error_codes.INVALID_JSON, err=str(error))
