"""Three kinds of error, and assertions that cannot be switched off."""

import pytest

from headwater.base.errors import HeadwaterError, OperatingError, PeerError, ProgrammerError
from headwater.base.invariants import InvariantViolation, check


def test_the_three_roots_do_not_overlap() -> None:
    roots = (ProgrammerError, OperatingError, PeerError)
    for one in roots:
        assert issubclass(one, HeadwaterError)
        assert not any(issubclass(one, other) for other in roots if other is not one)


def test_a_peer_error_carries_the_reply() -> None:
    error = PeerError("Invalid Subject")
    assert error.reply == str(error) == "Invalid Subject"


def test_check_passes_what_holds_and_crashes_on_what_does_not() -> None:
    check(True, "never seen")
    with pytest.raises(InvariantViolation, match="one and one make three"):
        check(1 + 1 == 3, "one and one make three")
    assert issubclass(InvariantViolation, ProgrammerError)
