"""The orders of an operator that a server carries out when it starts: reset, and leave.

A cluster that has lost a majority of its servers for good has no leader, and never will have one:
the rest cannot know that the others do not go on without them. An operator knows. The order to
reset makes one server the only voter of all groups that it is in, by a last entry of its own in
each log, and the only member of another cluster by the random bytes of the reset. Other servers of
the cluster before it are refused (`birth`): the logs of the groups may contradict each other. They
give up theirs by the order to leave, and are then admitted as new servers are.

| a crash comes                          | the next start                                          |
|----------------------------------------|---------------------------------------------------------|
| while an order is written              | finds it or does not                                    |
| before the groups are on the disk      | finds the order, and does the same again                |
| before the file of the cluster is      | finds the order, and does the same again: nobody was    |
|                                        |   told anything in between                              |

A group whose entries are in memory has lost them by the stop of the server, and begins again with
nothing. A group of which this server has been told nothing is left as it is.
"""

from collections.abc import Callable
from dataclasses import replace

from headwater.base.entropy import Entropy
from headwater.raft.entry import EntryKind
from headwater.raft.membership import encode, membership_of
from headwater.raft.storage import BIRTH_INDEX, NOBODY
from headwater.server.cluster.consensus.birth import IDENTITY_BYTES, Birth, BirthRecord
from headwater.server.cluster.consensus.cluster_file import ClusterFile, Order
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.groups.group_log import GroupLog
from headwater.store.store import Store


def carry_out_order(
    file: ClusterFile, store: Store, name: str, entropy: Entropy, forget: Callable[[], object]
) -> str:
    """Carry out the order in a file. Returns a line for the log, or an empty text.

    `forget` removes the durable state of the meta group. Raises StoreError.
    """
    order, birth = file.order, file.birth
    if order is Order.NONE:
        return ""
    logs = [store.groups[identity] for identity in store.groups.identities()]
    if order is Order.RESET:
        line = "The cluster was reset: this server is its only member, by order"
        logs = [log for log in logs if may_go_on(log)]
        for log in logs:
            _appoint(log, name)
        record = _reset_record(birth, name, store.identity, entropy)
    else:
        line = "This server has left its cluster, by order"
        for log in logs:
            store.groups.remove(log.identity)
        forget()
        record = BirthRecord(birth.promised)
    _secure(store)
    file.order = Order.NONE
    file.save(record)
    return f"{line}; groups: {len(logs)}"


def may_go_on(log: GroupLog) -> bool:
    """Whether a member has a log with which its group can go on, or none of the members has."""
    return log.mode is GroupMode.MEMORY or log.last_index > 0


def _appoint(log: GroupLog, name: str) -> None:
    """Make a server the only voter of a group, by an entry in a term that nobody was elected in.

    The creation time is that of no clock.
    """
    term = log.state.term + 1
    data = encode(membership_of([name]))
    if log.mode is GroupMode.MEMORY:
        first = SnapshotMark(BIRTH_INDEX, BIRTH_INDEX, data)
        log.save(snapshot=first, state=GroupState(term, NOBODY, BIRTH_INDEX), must_sync=True)
        return
    entry = GroupEntry(log.last_index + 1, term, EntryKind.MEMBERSHIP, 0, 0, data)
    state = GroupState(term, NOBODY, min(log.state.commit, log.last_index))
    log.save(state=state, entries=[entry], must_sync=True)


def _reset_record(record: BirthRecord, name: str, store: bytes, entropy: Entropy) -> BirthRecord:
    if record.birth is None or not record.is_chosen:
        return record
    reset = entropy.random_bytes(IDENTITY_BYTES)
    return replace(record, birth=Birth(record.birth.identity, ((name, store),), reset))


def _secure(store: Store) -> None:
    """Return when the logs of all groups are on the disk. Raises StoreError."""
    try:
        store.group_commit.secure_frames()
    except OSError as error:
        raise StoreError(f"{store.folder}: logs of groups cannot be written: {error}") from error
    store.groups.confirm_synced(store.groups.numbers.written)
