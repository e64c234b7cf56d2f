"""Bytes of messages and entries: each kind both ways, cut, lengthened and of unknown versions."""

import pytest

from headwater.raft import codec
from headwater.raft import membership as memberships
from headwater.raft.codec import MalformedMessage
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.lease import LEASE_NS_MAX, UNTOLD_LEASE_NS
from headwater.raft.membership import NAME_BYTES_MAX, Membership, membership_of
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
from headwater.raft.withdrawals import encode as encode_first

LARGEST = (1 << 64) - 1
HIGHEST = codec.NUMBER_LIMIT - 1
JOINT = Membership(("c", "d"), ("a", "b"), ("e",))
ENTRIES = [
    Entry(2, 8, EntryKind.DATA, b"records", 123_456, 789),
    Entry(2, 9, EntryKind.NOOP, b""),
    Entry(3, 10, EntryKind.MEMBERSHIP, memberships.encode(JOINT), LARGEST, LEASE_NS_MAX),
    Entry(3, 11, EntryKind.WITHDRAWAL, encode_first(8)),
]
MESSAGES: list[Message] = [
    PreVote("a", "b", 3, HIGHEST, 2),
    PreVoteReply("a", "b", 3, True),
    Vote("a", "b", 3, 9, 2, True),
    VoteReply("a", "b", 3, False),
    Append("a", "b", 3, 7, 2, ENTRIES, 6, 99),
    Append("a", "b", 3, 0, 0, [], 0),
    AppendReply("a", "b", 3, 9, 8, LARGEST),
    AppendReject("a", "b", 3, 9, 8, 2, 5),
    InstallSnapshot("a", "b", 3, Snapshot(9, 2, JOINT)),
    InstallSnapshot("a", "b", 3, Snapshot(9, 2, JOINT, LEASE_NS_MAX)),
    ReadRound("a", "b", 3, HIGHEST),
    ReadRoundReply("a", "b", HIGHEST, 1),
    CampaignNow("a", "b", HIGHEST),
    Digest("a", "b", 3, "ä"),
    Digest("a", "b", 0, ""),
]
WITHOUT_NAMES = [message for message in MESSAGES if not isinstance(message, Digest)]


def names(messages: list[Message]) -> list[str]:
    return [type(message).__name__ for message in messages]


@pytest.mark.parametrize("message", MESSAGES, ids=names(MESSAGES))
def test_a_message_survives_its_bytes(message: Message) -> None:
    assert codec.decode(codec.encode(message), "a", "b") == message


@pytest.mark.parametrize("message", MESSAGES, ids=names(MESSAGES))
def test_a_cut_message_is_refused_or_another_one(message: Message) -> None:
    data = codec.encode(message)
    for end in range(len(data)):
        if isinstance(message, Digest) and end >= len(data) - len(message.leader.encode()):
            continue
        with pytest.raises(MalformedMessage):
            codec.decode(data[:end], "a", "b")


@pytest.mark.parametrize("message", WITHOUT_NAMES, ids=names(WITHOUT_NAMES))
def test_a_message_with_something_after_it_is_refused(message: Message) -> None:
    with pytest.raises(MalformedMessage):
        codec.decode(codec.encode(message) + b"\0", "a", "b")


def test_entries_survive_their_bytes() -> None:
    data = codec.encode_entries(ENTRIES)
    assert codec.decode_entries(data) == ENTRIES
    for end in range(len(data)):
        with pytest.raises(MalformedMessage):
            codec.decode_entries(data[:end])
    with pytest.raises(MalformedMessage, match="after its end"):
        codec.decode_entries(data + b"\0")


def test_unknown_versions_and_kinds_are_refused_by_name() -> None:
    data = codec.encode(MESSAGES[0])
    with pytest.raises(MalformedMessage, match="unknown version 2 of a message"):
        codec.decode(b"\x02" + data[1:], "a", "b")
    with pytest.raises(MalformedMessage, match="unknown kind 99 of a message"):
        codec.decode(b"\x01\x63" + data[2:], "a", "b")
    with pytest.raises(MalformedMessage, match="unknown version 7 of entries"):
        codec.decode_entries(b"\x07" + codec.encode_entries(ENTRIES)[1:])


def encoded_append(prev_index: int, prev_term: int, term: int, *entries: Entry) -> bytes:
    return codec.encode(Append("a", "b", term, prev_index, prev_term, [*entries], 0))


def noop(term: int, index: int) -> Entry:
    return Entry(term, index, EntryKind.NOOP, b"")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encoded_append(7, 2, 3, noop(2, 9)), "do not follow the one before"),
        (encoded_append(7, 2, 3, noop(1, 8)), "do not follow the one before"),
        (encoded_append(7, 2, 3, noop(2, 8), noop(2, 10)), "do not follow each other"),
        (encoded_append(7, 2, 3, noop(3, 8), noop(2, 9)), "do not follow each other"),
        (encoded_append(7, 2, 3, noop(4, 8)), "later term"),
        (encoded_append(7, 4, 3), "later term"),
        (
            encoded_append(7, 2, 3, Entry(2, 8, EntryKind.MEMBERSHIP, b"")),
            "membership is too short",
        ),
        (
            encoded_append(7, 2, 3, Entry(2, 8, EntryKind.WITHDRAWAL, encode_first(8))),
            "covers no entry",
        ),
        (codec.encode(InstallSnapshot("a", "b", 3, Snapshot(0, 0, JOINT))), "no place"),
        (codec.encode(InstallSnapshot("a", "b", 3, Snapshot(9, 4, JOINT))), "no place"),
        (
            codec.encode(InstallSnapshot("a", "b", 3, Snapshot(9, 2, JOINT, LEASE_NS_MAX + 1))),
            "too long a lease",
        ),
        (
            encoded_append(7, 2, 3, Entry(2, 8, EntryKind.NOOP, b"", 0, LEASE_NS_MAX + 1)),
            "too long a lease",
        ),
        (codec.encode(Vote("a", "b", 3, 9, 3, False)), "an entry of the term that it stands for"),
        (codec.encode(PreVote("a", "b", 3, 9, 3)), "an entry of the term that it stands for"),
        (codec.encode(AppendReply("a", "b", 3, 8, 9)), "has not all the entries"),
        (codec.encode(AppendReject("a", "b", 3, 8, 9, 2)), "cannot be there"),
        (codec.encode(AppendReject("a", "b", 3, 8, 8, 4)), "cannot be there"),
        (codec.encode(Digest("a", "b", 3, "x" * (NAME_BYTES_MAX + 1))), "too long"),
        (codec.encode(Digest("a", "b", 3, "")) + b"\xff", "not UTF-8"),
        (codec.encode(VoteReply("a", "b", 3, True))[:-1] + b"\x02", "neither true nor false"),
    ],
)
def test_messages_that_break_a_rule_are_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        codec.decode(data, "a", "b")


PAST = codec.NUMBER_LIMIT
TOO_LARGE: list[Message] = [
    PreVote("a", "b", PAST, 1, 1),
    PreVoteReply("a", "b", PAST, False),
    Vote("a", "b", 3, PAST, 2, False),
    VoteReply("a", "b", PAST, True),
    Append("a", "b", PAST, 7, 2, [], 6),
    Append("a", "b", 3, PAST, 2, [], 6),
    Append("a", "b", 3, 7, 2, [], PAST),
    Append("a", "b", 3, PAST - 1, 2, [noop(2, PAST)], 0),
    AppendReply("a", "b", 3, PAST, 8),
    AppendReject("a", "b", 3, PAST, 8, 2),
    InstallSnapshot("a", "b", 3, Snapshot(PAST, 2, JOINT)),
    ReadRound("a", "b", 3, PAST),
    ReadRoundReply("a", "b", 3, PAST),
    CampaignNow("a", "b", PAST),
    Digest("a", "b", PAST, "a"),
]


@pytest.mark.parametrize("message", TOO_LARGE, ids=names(TOO_LARGE))
def test_a_number_that_no_group_reaches_is_refused_by_name(message: Message) -> None:
    with pytest.raises(MalformedMessage, match="larger than any group reaches"):
        codec.decode(codec.encode(message), "a", "b")


def test_a_count_of_entries_that_cannot_be_there_costs_nothing() -> None:
    data = bytearray(encoded_append(7, 2, 3))
    data[-4:] = b"\xff\xff\xff\xff"
    with pytest.raises(MalformedMessage, match="4294967295 entries do not fit"):
        codec.decode(bytes(data), "a", "b")


def test_an_unknown_kind_of_entry_is_refused_by_name() -> None:
    data = codec.encode_entries([Entry(1, 1, EntryKind.DATA, b"")])
    damaged = data[:21] + b"\x09" + data[22:]
    with pytest.raises(MalformedMessage, match="unknown kind 9 of an entry"):
        codec.decode_entries(damaged)


def test_the_longest_name_of_a_leader_is_accepted() -> None:
    digest = Digest("a", "b", 3, "x" * NAME_BYTES_MAX)
    assert codec.decode(codec.encode(digest), "a", "b") == digest


def test_a_membership_in_a_snapshot_survives() -> None:
    message = InstallSnapshot("a", "b", 3, Snapshot(9, 2, membership_of("abc", "d")))
    assert codec.decode(codec.encode(message), "a", "b") == message


def test_a_snapshot_that_tells_no_lease_is_taken_for_one_with_the_default() -> None:
    message = InstallSnapshot("a", "b", 3, Snapshot(9, 2, JOINT))
    data = codec.encode(message)
    older = b"\x01\x08" + data[2:26] + data[34:]
    told = InstallSnapshot("a", "b", 3, Snapshot(9, 2, JOINT, UNTOLD_LEASE_NS))
    assert codec.decode(older, "a", "b") == told
