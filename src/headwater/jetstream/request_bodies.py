"""Bodies of requests to the API: JSON as Go reads it, with the API's own errors.

Files and acknowledgements are read with `go_json` directly, because no client gets an error of the
API for them.
"""

from typing import TypeVar

import msgspec

from headwater.go import json as go_json
from headwater.jetstream import error_codes
from headwater.jetstream.errors import ApiError

T = TypeVar("T", bound=msgspec.Struct)


def read_request(body: bytes, kind: type[T], strict: bool) -> T:
    """Parse a request by `go_json.read`. Raises ApiError."""
    try:
        return go_json.read(body, kind, strict)
    except go_json.JsonError as error:
        raise _invalid(error) from None


def read_single_request(body: bytes, kind: type[T]) -> T:
    """Parse a request by `go_json.read_one`. Raises ApiError."""
    try:
        return go_json.read_one(body, kind)
    except go_json.JsonError as error:
        raise _invalid(error) from None


def _invalid(error: go_json.JsonError) -> ApiError:
    return ApiError.of(error_codes.INVALID_JSON, err=str(error))
