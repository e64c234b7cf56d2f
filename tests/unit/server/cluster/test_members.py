"""The servers that peers have links to, as servers tell each other of them."""

from typing import Any, cast

import pytest

from headwater.server.cluster.members import (
    MEMBERS_MAX,
    checked_members,
    members_of,
    targets_of,
)
from headwater.server.cluster.peer import Peer
from headwater.wire.peer_frames import MalformedFrame
from headwater.wire.peer_info import Member, PeerInfo, Purpose


def peer(name: str, host: str = "h") -> Peer:
    return Peer(PeerInfo(server_id=f"N{name}", server_name=name, host=host, port=6222))


def member(address: str = "h:6222", server_id: str = "N1") -> Member:
    return Member(server_id=server_id, server_name="n", address=address)


class _Connected:
    """A channel, as far as lists of members look at it."""

    class connection:
        peer_host = "10.0.0.9"


def test_a_server_that_listens_everywhere_is_named_by_the_address_it_connects_from() -> None:
    everywhere = peer("b", "0.0.0.0")
    everywhere.channels[Purpose.MESSAGES] = cast(Any, _Connected)
    addresses = [each.address for each in members_of([peer("a", "::1"), everywhere])]
    assert addresses == ["[::1]:6222", "10.0.0.9:6222"]


def test_members_are_known_by_their_ids() -> None:
    many = [member(server_id=f"N{number}") for number in range(MEMBERS_MAX)]
    assert list(checked_members(many)) == [each.server_id for each in many]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([member()] * (MEMBERS_MAX + 1), "is too long"),
        ([member("nowhere")], "a member has the address"),
        ([member("h:port")], "a member has the address"),
        ([member("h:65536")], "a member has the address"),
        ([member("h:\N{SUPERSCRIPT TWO}")], "a member has the address"),
    ],
)
def test_malformed_lists_are_refused(members: list[Member], reason: str) -> None:
    with pytest.raises(MalformedFrame, match=reason):
        checked_members(members)


def test_each_server_that_peers_tell_of_is_one_target() -> None:
    one, two = peer("a"), peer("b")
    one.members = two.members = checked_members([member("c:6222", "Nc")])
    (target,) = targets_of([one, two])
    assert (target.address, target.peer_id, target.is_configured) == ("c:6222", "Nc", False)
    assert target.credentials is None
