"""Bytes for messages between members, and for entries in files.

    message   version:1 kind:1 body                sender, receiver and group are the carrier's
    entries   version:1 count:4 entry*             as a file holds them
    entry     term:8 index:8 kind:1 created_ns:8 lease_ns:8 size:4 data

All integers are little-endian and unsigned. A message is decoded whole or refused: a wrong length,
an unknown version or kind, terms and indices that no group reaches or that contradict each other,
entries that do not follow each other, and names or memberships that break a rule raise
MalformedMessage, whose text names the fault. Nothing is allocated for a count before the bytes for
it are there.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from headwater.base.errors import PeerError
from headwater.raft import membership as memberships
from headwater.raft import withdrawals
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.lease import LEASE_NS_MAX, UNTOLD_LEASE_NS
from headwater.raft.membership import NAME_BYTES_MAX, MalformedMembership
from headwater.raft.messages import (
    Append,
    AppendReject,
    AppendReply,
    CampaignNow,
    Digest,
    InstallSnapshot,
    Message,
    PreVote,
    PreVoteReply,
    ReadRound,
    ReadRoundReply,
    Vote,
    VoteReply,
)
from headwater.raft.storage import Snapshot

VERSION: Final = 1

ENTRY_DATA_BYTES_MAX: Final = 128 * 1024 * 1024
"""The data of one entry. A turn's batch is bounded far below it; the rest is room for one message
of the largest payload that a server can be configured with."""

NUMBER_LIMIT: Final = 1 << 62
"""Terms, indices and numbers of rounds are smaller. Each member can count on from any that it is
told, and write the result down."""

_HEAD: Final = Struct("<BB")
_COUNT: Final = Struct("<BI")
_ENTRY: Final = Struct("<QQBQQI")
_ASK: Final = Struct("<QQQ")
_VOTE: Final = Struct("<QQQB")
_ANSWER: Final = Struct("<QB")
_APPEND: Final = Struct("<QQQQQI")
_APPEND_REPLY: Final = Struct("<QQQQ")
_APPEND_REJECT: Final = Struct("<QQQQQ")
_SNAPSHOT: Final = Struct("<QQQQ")
_ROUND: Final = Struct("<QQ")
_TERM: Final = Struct("<Q")

_KINDS: Final = {int(kind): kind for kind in EntryKind}


class MalformedMessage(PeerError):
    """Bytes that are no message, or no entries."""


# --- entries ------------------------------------------------------------------------------------


def encode_entries(entries: list[Entry]) -> bytes:
    """Entries as a file holds them."""
    return _COUNT.pack(VERSION, len(entries)) + b"".join(_entry_parts(entries))


def decode_entries(data: bytes) -> list[Entry]:
    """The entries of `encode_entries`. Raises MalformedMessage."""
    if len(data) < _COUNT.size:
        raise MalformedMessage("entries are too short")
    version, count = _COUNT.unpack_from(data)
    if version != VERSION:
        raise MalformedMessage(f"unknown version {version} of entries")
    return _entries(data, _COUNT.size, count)


def _entry_parts(entries: list[Entry]) -> list[bytes]:
    parts: list[bytes] = []
    for entry in entries:
        head = _ENTRY.pack(
            entry.term,
            entry.index,
            entry.kind,
            entry.created_ns,
            entry.lease_ns,
            len(entry.data),
        )
        parts += (head, entry.data)
    return parts


def _check_numbers(numbers: tuple[int, ...]) -> None:
    if max(numbers) >= NUMBER_LIMIT:
        raise MalformedMessage("a term or an index is larger than any group reaches")


def _entries(data: bytes, at: int, count: int) -> list[Entry]:
    """The entries that fill the rest of the data. Their indices and terms must be in order."""
    if count * _ENTRY.size > len(data) - at:
        raise MalformedMessage(f"{count} entries do not fit into the message")
    entries: list[Entry] = []
    previous: Entry | None = None
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            raise MalformedMessage("message ends within an entry")
        term, index, kind, created_ns, lease_ns, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if size > ENTRY_DATA_BYTES_MAX or at + size > len(data):
            raise MalformedMessage("message ends within an entry")
        if kind not in _KINDS:
            raise MalformedMessage(f"unknown kind {kind} of an entry")
        if lease_ns > LEASE_NS_MAX:
            raise MalformedMessage("an entry grants too long a lease")
        if previous is not None and (index != previous.index + 1 or term < previous.term):
            raise MalformedMessage("entries do not follow each other")
        previous = Entry(term, index, _KINDS[kind], data[at : at + size], created_ns, lease_ns)
        at += size
        if previous.kind is EntryKind.MEMBERSHIP:
            _check_membership(previous.data)
        elif previous.kind is EntryKind.WITHDRAWAL and not withdrawals.first_of(previous):
            raise MalformedMessage("a withdrawal covers no entry")
        entries.append(previous)
    if at != len(data):
        raise MalformedMessage("message has bytes after its end")
    if previous is not None:
        _check_numbers((previous.term, previous.index))
    return entries


def _check_membership(data: bytes) -> None:
    try:
        memberships.decode(data)
    except MalformedMembership as malformed:
        raise MalformedMessage(malformed.reply) from None


# --- messages -----------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """A message, without its sender and receiver."""
    kind = _KIND_OF[type(message)]
    return _HEAD.pack(VERSION, kind) + _BODY_OF[kind](message)


def decode(data: bytes, sender: str, to: str) -> Message:
    """The message of a sender. Raises MalformedMessage."""
    if len(data) < _HEAD.size:
        raise MalformedMessage("message is too short")
    version, kind = _HEAD.unpack_from(data)
    if version != VERSION:
        raise MalformedMessage(f"unknown version {version} of a message")
    if kind not in _MESSAGE_OF:
        raise MalformedMessage(f"unknown kind {kind} of a message")
    return _MESSAGE_OF[kind](data, sender, to)


def _fields(
    form: Struct, data: bytes, *, is_whole: bool = True, bounded: int | None = None
) -> tuple[int, ...]:
    """The numbers behind the head; `is_whole` if nothing may follow them. The first ones, or all,
    are bounded: recovery numbers are random."""
    end = _HEAD.size + form.size
    if len(data) < end or (is_whole and len(data) > end):
        raise MalformedMessage("message has a wrong length")
    fields = form.unpack_from(data, _HEAD.size)
    _check_numbers(fields[:bounded])
    return fields


def _truth(value: int) -> bool:
    if value > 1:
        raise MalformedMessage(f"{value} is neither true nor false")
    return value == 1


def _pre_vote_body(message: PreVote) -> bytes:
    return _ASK.pack(message.term, message.last_index, message.last_term)


def _pre_vote(data: bytes, sender: str, to: str) -> Message:
    term, last_index, last_term = _fields(_ASK, data)
    _check_candidate(term, last_term)
    return PreVote(sender, to, term, last_index, last_term)


def _check_candidate(term: int, last_term: int) -> None:
    if last_term >= term:
        raise MalformedMessage("a candidate has an entry of the term that it stands for")


def _answer_body(message: PreVoteReply | VoteReply) -> bytes:
    return _ANSWER.pack(message.term, message.granted)


def _pre_vote_reply(data: bytes, sender: str, to: str) -> Message:
    term, granted = _fields(_ANSWER, data)
    return PreVoteReply(sender, to, term, _truth(granted))


def _vote_body(message: Vote) -> bytes:
    return _VOTE.pack(message.term, message.last_index, message.last_term, message.forced)


def _vote(data: bytes, sender: str, to: str) -> Message:
    term, last_index, last_term, forced = _fields(_VOTE, data)
    _check_candidate(term, last_term)
    return Vote(sender, to, term, last_index, last_term, _truth(forced))


def _vote_reply(data: bytes, sender: str, to: str) -> Message:
    term, granted = _fields(_ANSWER, data)
    return VoteReply(sender, to, term, _truth(granted))


def _append_body(message: Append) -> bytes:
    head = _APPEND.pack(
        message.term,
        message.prev_index,
        message.prev_term,
        message.commit,
        message.readmits,
        len(message.entries),
    )
    return head + b"".join(_entry_parts(message.entries)) if message.entries else head


def _append(data: bytes, sender: str, to: str) -> Message:
    fields = _fields(_APPEND, data, is_whole=False, bounded=4)
    term, prev_index, prev_term, commit, readmits, count = fields
    entries = _entries(data, _HEAD.size + _APPEND.size, count)
    last_term = prev_term
    if entries:
        if entries[0].index != prev_index + 1 or entries[0].term < prev_term:
            raise MalformedMessage("entries do not follow the one before them")
        last_term = entries[-1].term
    if last_term > term:
        raise MalformedMessage("an entry is of a later term than its message")
    return Append(sender, to, term, prev_index, prev_term, entries, commit, readmits)


def _append_reply_body(message: AppendReply) -> bytes:
    return _APPEND_REPLY.pack(message.term, message.match, message.commit, message.recovery)


def _append_reply(data: bytes, sender: str, to: str) -> Message:
    term, match, commit, recovery = _fields(_APPEND_REPLY, data, bounded=3)
    if commit > match:
        raise MalformedMessage("a member has not all the entries that it knows to be committed")
    return AppendReply(sender, to, term, match, commit, recovery)


def _append_reject_body(message: AppendReject) -> bytes:
    return _APPEND_REJECT.pack(
        message.term,
        message.prev_index,
        message.hint_index,
        message.hint_term,
        message.recovery,
    )


def _append_reject(data: bytes, sender: str, to: str) -> Message:
    fields = _fields(_APPEND_REJECT, data, bounded=4)
    term, prev_index, hint_index, hint_term, _ = fields
    if hint_index > prev_index or hint_term > term:
        raise MalformedMessage("a refusal points to an entry that cannot be there")
    return AppendReject(sender, to, *fields)


def _snapshot_body(message: InstallSnapshot) -> bytes:
    snapshot = message.snapshot
    head = _SNAPSHOT.pack(message.term, snapshot.index, snapshot.term, snapshot.lease_ns)
    return head + memberships.encode(snapshot.membership)


def _install_snapshot(data: bytes, sender: str, to: str) -> Message:
    term, index, snapshot_term, lease_ns = _fields(_SNAPSHOT, data, is_whole=False)
    place = index, snapshot_term, lease_ns
    return _snapshot_message(sender, to, term, place, data[_HEAD.size + _SNAPSHOT.size :])


def _snapshot_without_lease(data: bytes, sender: str, to: str) -> Message:
    """The message of a server that does not tell the leases of entries."""
    term, index, snapshot_term = _fields(_ASK, data, is_whole=False)
    place = index, snapshot_term, UNTOLD_LEASE_NS
    return _snapshot_message(sender, to, term, place, data[_HEAD.size + _ASK.size :])


def _snapshot_message(
    sender: str, to: str, term: int, place: tuple[int, int, int], encoded: bytes
) -> Message:
    index, snapshot_term, lease_ns = place
    if index == 0 or snapshot_term > term:
        raise MalformedMessage("a snapshot has no place in the log")
    if lease_ns > LEASE_NS_MAX:
        raise MalformedMessage("a snapshot grants too long a lease")
    _check_membership(encoded)
    snapshot = Snapshot(index, snapshot_term, memberships.decode(encoded), lease_ns)
    return InstallSnapshot(sender, to, term, snapshot)


def _round_body(message: ReadRound | ReadRoundReply) -> bytes:
    return _ROUND.pack(message.term, message.number)


def _read_round(data: bytes, sender: str, to: str) -> Message:
    return ReadRound(sender, to, *_fields(_ROUND, data))


def _read_round_reply(data: bytes, sender: str, to: str) -> Message:
    return ReadRoundReply(sender, to, *_fields(_ROUND, data))


def _campaign_now_body(message: CampaignNow) -> bytes:
    return _TERM.pack(message.term)


def _campaign_now(data: bytes, sender: str, to: str) -> Message:
    return CampaignNow(sender, to, *_fields(_TERM, data))


def _digest_body(message: Digest) -> bytes:
    return _TERM.pack(message.term) + message.leader.encode()


def _digest(data: bytes, sender: str, to: str) -> Message:
    (term,) = _fields(_TERM, data, is_whole=False)
    name = data[_HEAD.size + _TERM.size :]
    if len(name) > NAME_BYTES_MAX:
        raise MalformedMessage("a leader's name is too long")
    try:
        return Digest(sender, to, term, name.decode())
    except UnicodeDecodeError:
        raise MalformedMessage("a leader's name is not UTF-8") from None


_Encoder = Callable[..., bytes]
_Decoder = Callable[[bytes, str, str], Message]

# The number of a kind never changes its meaning.
_FORMS: Final[list[tuple[int, type[Message], _Encoder, _Decoder]]] = [
    (1, PreVote, _pre_vote_body, _pre_vote),
    (2, PreVoteReply, _answer_body, _pre_vote_reply),
    (3, Vote, _vote_body, _vote),
    (4, VoteReply, _answer_body, _vote_reply),
    (5, Append, _append_body, _append),
    (6, AppendReply, _append_reply_body, _append_reply),
    (7, AppendReject, _append_reject_body, _append_reject),
    (9, CampaignNow, _campaign_now_body, _campaign_now),
    (10, Digest, _digest_body, _digest),
    (11, InstallSnapshot, _snapshot_body, _install_snapshot),
    (12, ReadRound, _round_body, _read_round),
    (13, ReadRoundReply, _round_body, _read_round_reply),
]
_KIND_OF: Final = {message: kind for kind, message, _, _ in _FORMS}
_BODY_OF: Final = {kind: body for kind, _, body, _ in _FORMS}
_MESSAGE_OF: Final = {kind: decoder for kind, _, _, decoder in _FORMS}
# A kind that is read and not written any more.
_MESSAGE_OF[8] = _snapshot_without_lease
