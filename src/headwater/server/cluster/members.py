"""The servers that peers have links to, as servers tell each other of them.

Pure: the lists that servers send and get, and the targets that come of them.
"""

from collections.abc import Iterable
from typing import Final

from headwater.go.quoting import quote
from headwater.server.cluster.addresses import joined_address, parsed_address
from headwater.server.cluster.peer import Peer
from headwater.server.cluster.targets import Target
from headwater.wire.peer_frames import MalformedFrame
from headwater.wire.peer_info import Member, Purpose

# Servers that a peer may name, and that a server has links to; each of them is dialled.
MEMBERS_MAX: Final = 1_000

_ANY_HOST: Final = frozenset({"", "0.0.0.0", "::"})


def members_of(peers: Iterable[Peer]) -> list[Member]:
    """The list that tells others of these peers, which have channels for messages."""
    return [
        Member(
            server_id=peer.server_id,
            server_name=peer.name,
            address=joined_address(
                peer.info.host
                if peer.info.host not in _ANY_HOST
                else peer.channels[Purpose.MESSAGES].connection.peer_host,
                peer.info.port,
            ),
        )
        for peer in peers
    ]


def checked_members(members: list[Member]) -> dict[str, Member]:
    """The members that a peer tells of, by id. Raises MalformedFrame."""
    if len(members) > MEMBERS_MAX:
        raise MalformedFrame(f"a list of {len(members)} members is too long")
    for member in members:
        if parsed_address(member.address) is None:
            raise MalformedFrame(f"a member has the address {quote(member.address)}")
    return {member.server_id: member for member in members}


def targets_of(peers: Iterable[Peer]) -> list[Target]:
    """The addresses of all servers that peers have links to."""
    known = {server_id: member for peer in peers for server_id, member in peer.members.items()}
    targets: list[Target] = []
    for server_id, member in known.items():
        address = parsed_address(member.address)
        if address is not None:
            targets.append(Target(*address, None, False, server_id))
    return targets
