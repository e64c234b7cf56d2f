"""The frames of consensus groups in the write-ahead file: values, and their bytes.

The fields `file` and `offset` of a frame (`headwater.store.disk.wal`) hold numbers of the log. The
rest is in its bytes:

    state      `file` term, `offset` commit index
               0  recovery     u64 not 0 while the member may have forgotten, by the caller's word
               8  start        u64 start number of the store when the state was written
              16  mode         u8  see `GroupMode`
              17  doubtful     u8  1 if a start found that the member may have forgotten, and the
                                   caller has saved no state since
              18  (zero)       6
              24  vote             server name, UTF-8

    entry      `file` index, `offset` term
               0  term before  u64 of the entry before it
               8  creation     u64
              16  lease        u64
              24  kind         u8  the caller's
              25  (zero)       7
              32  data

    snapshot   `file` index, `offset` term
               0  replaces     u8  1 if no entry that was written before counts any more
               1  told         u8  1 if the longest lease is told; 0 in files of servers that
                                   granted none
               2  (zero)       2
               4  lease        u32 microseconds, rounded up
               8  membership       the caller's bytes

    cut, end   no bytes

An entry names the term of the entry before it, so that entries behind damage are taken for a part
of the log only if they follow what is there.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from headwater.store.disk.format import FormatError
from headwater.store.disk.wal import GROUP_ENTRY, GROUP_SNAPSHOT, GROUP_STATE, AddedFrame

_STATE: Final = Struct("<QQBB6x")
_ENTRY: Final = Struct("<QQQB7x")
_SNAPSHOT: Final = Struct("<BB2xI")

_NS_PER_US: Final = 1_000
_LEASE_US_MAX: Final = (1 << 32) - 1

VOTE_BYTES_MAX: Final = 255
"""A server name has at most so many bytes; a longer one is damage."""


class GroupMode(IntEnum):
    """The place of a group's entries, and the moment from which on they are safe there.

    Term and vote are on the disk before any reply in each mode.
    """

    MEMORY = 0
    """Entries are in memory only. A member has forgotten them after each restart."""

    WRITTEN = 1
    """Entries are written before a reply. A member may have forgotten some when the machine
    fell."""

    SYNCED = 2
    """Entries are on the disk before a reply."""


class GroupState(NamedTuple):
    """The hard state of a member: its term, its vote in that term or no name, the commit index, and
    a recovery number."""

    term: int = 0
    vote: str = ""
    commit: int = 0
    recovery: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """The entry behind which a log begins, and the encoded membership that was in force there."""

    index: int = 0
    term: int = 0
    membership: bytes = b""
    lease_ns: int | None = 0
    """The longest lease that one of the entries up to there has granted, or a longer one; None if
    the mark was written by a server that did not tell it."""


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """An entry: a batch of records of the caller."""

    index: int
    term: int
    kind: int
    created_ns: int
    lease_ns: int
    data: bytes


class WrittenState(NamedTuple):
    """A hard state with the circumstances under which it was written."""

    state: GroupState
    mode: GroupMode
    start_number: int
    is_doubtful: bool


def state_frame(identity: bytes, written: WrittenState) -> AddedFrame:
    """The frame of a hard state."""
    state = written.state
    head = _STATE.pack(state.recovery, written.start_number, written.mode, written.is_doubtful)
    return identity, GROUP_STATE, state.term, state.commit, head + state.vote.encode()


def decode_state(term: int, commit: int, data: bytes) -> WrittenState:
    """The hard state in a frame. Raises FormatError."""
    if len(data) < _STATE.size or len(data) > _STATE.size + VOTE_BYTES_MAX:
        raise FormatError("a hard state has a wrong length")
    recovery, start_number, mode, is_doubtful = _STATE.unpack_from(data)
    if mode > max(GroupMode) or is_doubtful > 1:
        raise FormatError(f"a hard state has an unknown mode {mode} or mark {is_doubtful}")
    try:
        vote = data[_STATE.size :].decode()
    except UnicodeDecodeError:
        raise FormatError("a vote is not UTF-8") from None
    state = GroupState(term, vote, commit, recovery)
    return WrittenState(state, GroupMode(mode), start_number, is_doubtful == 1)


def entry_frame(identity: bytes, entry: GroupEntry, term_before: int) -> AddedFrame:
    """The frame of an entry that follows one of a term."""
    head = _ENTRY.pack(term_before, entry.created_ns, entry.lease_ns, entry.kind)
    return identity, GROUP_ENTRY, entry.index, entry.term, head + entry.data


def term_before(data: bytes) -> int:
    """The term of the entry before the one in a frame. Raises FormatError."""
    if len(data) < _ENTRY.size:
        raise FormatError("an entry is too short")
    return int.from_bytes(data[:8], "little")


def decode_entry(index: int, term: int, data: bytes) -> GroupEntry:
    """The entry in a frame. Raises FormatError."""
    if len(data) < _ENTRY.size:
        raise FormatError("an entry is too short")
    _, created_ns, lease_ns, kind = _ENTRY.unpack_from(data)
    return GroupEntry(index, term, kind, created_ns, lease_ns, data[_ENTRY.size :])


def snapshot_frame(identity: bytes, mark: SnapshotMark, replaces: bool) -> AddedFrame:
    """The frame of a snapshot mark; `replaces` if no entry before it counts any more."""
    lease_us = min(-(-(mark.lease_ns or 0) // _NS_PER_US), _LEASE_US_MAX)
    data = _SNAPSHOT.pack(replaces, mark.lease_ns is not None, lease_us) + mark.membership
    return identity, GROUP_SNAPSHOT, mark.index, mark.term, data


def decode_snapshot(index: int, term: int, data: bytes) -> tuple[SnapshotMark, bool]:
    """The snapshot mark in a frame, and whether it replaces the log. Raises FormatError."""
    if len(data) < _SNAPSHOT.size or data[0] > 1 or data[1] > 1:
        raise FormatError("a snapshot mark is too short, or has an unknown mark")
    replaces, is_told, lease_us = _SNAPSHOT.unpack_from(data)
    lease_ns = lease_us * _NS_PER_US if is_told else None
    return SnapshotMark(index, term, data[_SNAPSHOT.size :], lease_ns), replaces == 1
