"""The members of a stream's group, on their way to the servers that its assignment names.

A server that is added joins as a learner, is sent the whole stream, and becomes a voter then. When
all servers of the assignment are voters, the others leave. So a stream has at no time fewer copies
than before the change.
"""

from collections.abc import Callable, Iterable

from headwater.raft.membership import Membership, membership_of


def next_members(
    current: Membership,
    target: Iterable[str],
    removed: Iterable[str],
    has_whole_log: Callable[[str], bool],
) -> Membership | None:
    """The next membership on the way to `target`, or None if the way is at its end or waits.

    Servers that were removed leave at once, because they do not come back.
    """
    if current.is_joint:
        return None
    wanted, gone = {*target}, {*removed}
    voters = {*current.voters} - gone
    learners = {*current.learners} & wanted
    ready = {name for name in learners if has_whole_log(name)}
    voters |= ready
    learners |= wanted - voters
    learners -= ready
    if wanted <= voters:
        voters = wanted
        learners = set()
    if not voters:
        return None
    found = membership_of(voters, learners)
    return None if found == current else found
