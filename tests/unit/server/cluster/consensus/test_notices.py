"""Notices: kinds, the parts that take them, and those for a server that connects."""

import pytest

from headwater.base.errors import PeerError
from headwater.server.cluster.consensus.notices import (
    BIRTH,
    DESCRIPTION,
    DOUBTS,
    GREETING,
    LEADERS,
    MEMBERS,
    USAGE,
    Notices,
)


def test_a_notice_is_taken_by_the_part_of_its_kind() -> None:
    notices, taken = Notices(), list[tuple[str, bytes]]()
    notices.register(USAGE, lambda peer, notice: taken.append((peer, notice)))
    assert notices.receive("s1", USAGE + b"one")
    assert not notices.receive("s1", MEMBERS + b"two")
    assert not notices.receive("s1", b"")
    assert taken == [("s1", b"one")]


def test_a_server_that_connects_gets_the_notices_of_all_parts() -> None:
    notices = Notices()
    notices.register(DESCRIPTION, lambda *_: None, lambda: (b"a", b"b"))
    notices.register(MEMBERS, lambda *_: None)
    assert [*notices.first()] == [DESCRIPTION + b"a", DESCRIPTION + b"b"]


def test_the_error_of_a_malformed_notice_goes_to_the_caller() -> None:
    def refuse(peer: str, notice: bytes) -> None:
        raise PeerError("malformed")

    notices = Notices()
    notices.register(USAGE, refuse)
    with pytest.raises(PeerError):
        notices.receive("s1", USAGE)


def test_no_two_kinds_of_payloads_begin_with_the_same_byte() -> None:
    groups = {b"\x00", b"\x01"}
    kinds = [GREETING, BIRTH, DOUBTS, LEADERS, DESCRIPTION, MEMBERS, USAGE]
    assert len({*kinds} | groups) == len(kinds) + len(groups)
