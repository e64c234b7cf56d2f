"""Majorities: the index that is on enough logs, and the outcome of a vote.

All functions take both halves of a joint membership into account. They are the only place where
members are counted.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from headwater.raft.membership import Membership


class Outcome(Enum):
    """The state of a vote."""

    WON = "won"
    LOST = "lost"
    OPEN = "open"


def majority(count: int) -> int:
    """The least number of members that no two sets of can be apart."""
    return count // 2 + 1


def committed_index(membership: Membership, matches: Mapping[str, int]) -> int:
    """The highest index that a majority has confirmed; of both halves, if there are two."""
    index = _confirmed_by_majority(membership.voters, matches)
    if membership.outgoing:
        index = min(index, _confirmed_by_majority(membership.outgoing, matches))
    return index


def _confirmed_by_majority(voters: tuple[str, ...], matches: Mapping[str, int]) -> int:
    indices = sorted([matches.get(name, 0) for name in voters])
    return indices[len(indices) - majority(len(indices))]


def outcome(membership: Membership, votes: Mapping[str, bool]) -> Outcome:
    """The state of a vote: lost as soon as either half can no longer be won."""
    results = [_outcome_of_half(membership.voters, votes)]
    if membership.outgoing:
        results.append(_outcome_of_half(membership.outgoing, votes))
    if Outcome.LOST in results:
        return Outcome.LOST
    return Outcome.OPEN if Outcome.OPEN in results else Outcome.WON


def _outcome_of_half(voters: tuple[str, ...], votes: Mapping[str, bool]) -> Outcome:
    needed = majority(len(voters))
    granted = sum(votes.get(name) is True for name in voters)
    refused = sum(votes.get(name) is False for name in voters)
    if granted >= needed:
        return Outcome.WON
    return Outcome.LOST if len(voters) - refused < needed else Outcome.OPEN


def has_quorum(membership: Membership, is_present: Callable[[str], bool]) -> bool:
    """Whether a majority is present, of both halves."""
    return all(
        sum(map(is_present, half)) >= majority(len(half))
        for half in (membership.voters, membership.outgoing)
        if half
    )


def needs_forgetful(
    membership: Membership, name: str, has_forgotten: Callable[[str], bool]
) -> bool:
    """Whether a half with this member has no majority without the members that have forgotten.

    The other members can elect nobody then, whatever they do.
    """
    return any(
        sum(not has_forgotten(member) for member in half) < majority(len(half))
        for half in (membership.voters, membership.outgoing)
        if name in half
    )
