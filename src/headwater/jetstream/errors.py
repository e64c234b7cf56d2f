"""Errors of the JetStream API as values.

Every error has an HTTP-like code, a number of its own and a text; some texts have places to fill.
They are listed once, in `errors.json`; `error_codes` is generated from it. Nothing here knows which
request an error answers.
"""

import re
from typing import Final

import msgspec

from headwater.base.errors import PeerError
from headwater.base.invariants import check

_PLACE: Final = re.compile(r"\{(\w+)\}")


class ErrorCode(msgspec.Struct, frozen=True):
    """One row of `errors.json`; `{word}` in the description is a place to fill."""

    code: int
    err_code: int
    description: str


class ApiError(PeerError):
    """A request was refused; the reply carries this as `error`."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description

    @classmethod
    def of(cls, error: ErrorCode, /, **places: object) -> "ApiError":
        """The error with every place of its description filled."""
        wanted = set(_PLACE.findall(error.description))
        check(wanted == set(places), f"error {error.err_code} has the places {sorted(wanted)}")
        # One pass: a value that is filled in is not searched for places.
        text = _PLACE.sub(lambda place: str(places[place[1]]), error.description)
        return cls(error.code, error.err_code, text)
