"""Subjects and replies that only servers use."""

import pytest

from headwater.server.core.reserved_subjects import (
    RESERVED_REPLIES,
    RESERVED_SUBJECTS,
    is_reserved,
    is_reserved_reply,
)


@pytest.mark.parametrize(
    ("subject", "for_clients", "for_system"),
    [
        (b"foo", False, False),
        (b"_GR_.x", True, True),
        # nats-server lets the bare prefix through.
        (b"_GR_.", False, False),
        (b"$NRG.x", True, False),
        (b"$NRG.", True, False),
        (b"$NRG", False, False),
    ],
)
def test_subjects_of_servers_are_reserved(
    subject: bytes, for_clients: bool, for_system: bool
) -> None:
    assert is_reserved(subject, is_system=False) is for_clients
    assert is_reserved(subject, is_system=True) is for_system


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"inbox", False),
        (b"_R_.x", True),
        (b"_R_.", True),
        (b"$JS.ACK.x", True),
        (b"$JS.ACK.", False),
        (b"_GR_.x", True),
        (b"_GR_.", False),
    ],
)
def test_replies_of_servers_are_reserved(reply: bytes, expected: bool) -> None:
    assert is_reserved_reply(reply) is expected


@pytest.mark.parametrize("subject", [b"_GR_.x", b"$NRG.x"])
def test_the_quick_check_of_subjects_misses_none(subject: bytes) -> None:
    assert is_reserved(subject, is_system=False)
    assert subject.startswith(RESERVED_SUBJECTS)


@pytest.mark.parametrize("reply", [b"_R_.x", b"$JS.ACK.x", b"_GR_.x"])
def test_the_quick_check_of_replies_misses_none(reply: bytes) -> None:
    assert is_reserved_reply(reply)
    assert reply.startswith(RESERVED_REPLIES)
