"""The birth of a cluster: its servers agree once, and for good, on the first members of its group.

A group that orders everything else cannot order its own beginning: nobody knows its members yet.
Only their number is configured. So the servers choose the first members by one round of Paxos, in
which a majority of the configured number of servers decides.

    the first name of a majority     PREPARE ballot        ──▶ every connected server
    a server that promised nothing   PROMISE ballot, birth ◀── what it has accepted before, if any
      of a higher ballot
    the first name, with a majority  ACCEPT ballot, birth  ──▶ the birth of the highest ballot, or
                                                               all servers that have promised
    a server, as before              ACCEPTED ballot       ◀──
    the first name, with a majority  CHOSEN birth          ──▶ every server, also later ones

A server has written its promise, its acceptance and its choice before it tells them. Any two
majorities share a server, so a second birth is never chosen, whatever is lost or comes late. A
group starts when its birth is chosen, on the servers that the birth names. Later servers are
admitted by the leader.

A server whose store is emptied has another identity: it is no member of a birth that names it, and
is brought to the end of the log by a leader before it votes. Paxos trusts its acceptors to remember
as well, so a store that is emptied while a cluster is being born can let two be born.

A cluster that has lost a majority for good is reset by an operator (`orders`): one server goes on
as its only member. Servers of the cluster before the reset may have a log that contradicts the
server's, so servers tell each other the cluster that they are in, and refuse another one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, final

from headwater.base.clock import NS_PER_S
from headwater.base.entropy import Entropy
from headwater.base.errors import PeerError
from headwater.base.invariants import check
from headwater.raft.membership import MEMBERS_MAX, NAME_BYTES_MAX, Membership, membership_of

IDENTITY_BYTES: Final = 16
"""The length of the identity of a store, and of a birth."""

NEVER_RESET: Final = bytes(IDENTITY_BYTES)
"""The reset of a cluster that was never reset."""

NO_CLUSTER: Final = bytes(2 * IDENTITY_BYTES)
"""The cluster of a server that is in none."""

OTHER_CLUSTER: Final = (
    "it is in another cluster, or in this one before it was reset. The server that is to give up "
    "its cluster joins after it was stopped and `headwater store cluster leave` was run on its "
    "store"
)

PATIENCE_NS: Final = 2 * NS_PER_S
"""A majority waits so long for the other configured servers, since the last one came.

A cluster that is born with two of three servers has no leader if one of them is lost before the
third is admitted. It is born once, so there is time.
"""

RETRY_NS: Final = 2 * NS_PER_S
"""A ballot that was not answered by a majority in this time is followed by a higher one."""

BALLOT_LIMIT: Final = 1 << 62
"""The counters of ballots are smaller, so that each server can count on from any of them."""

BALLOT_JUMP_MAX: Final = 1 << 32
"""A ballot is ahead of those that its receiver has seen by no more than this. With a ballot every
two seconds it would take 270 years; a ballot at the limit would leave none for a later birth."""

_VERSION: Final = 1
_BIRTH: Final = Struct(f"<{IDENTITY_BYTES}s{IDENTITY_BYTES}sB")
_BALLOT: Final = Struct("<Q")
_HEAD: Final = Struct("<BB")


class MalformedBirth(PeerError):
    """Bytes that are no message about the birth of a cluster."""


class Ballot(NamedTuple):
    """A number that orders proposals; no two servers use the same one."""

    counter: int
    name: str


NO_BALLOT: Final = Ballot(0, "")


@dataclass(frozen=True, slots=True)
class Birth:
    """A birth: the first members of a cluster, by name and identity of their stores."""

    identity: bytes
    """The identity of the meta group, for good."""

    members: tuple[tuple[str, bytes], ...]

    reset: bytes = NEVER_RESET
    """Random bytes of the last reset, whose only member is the server that goes on."""

    @property
    def cluster(self) -> bytes:
        """The bytes by which servers of one cluster know each other."""
        return self.identity + self.reset

    @property
    def membership(self) -> Membership:
        """The first membership of the group."""
        return membership_of(name for name, _ in self.members)

    def names(self, name: str, store: bytes) -> bool:
        """Whether a server with this store is a member."""
        return (name, store) in self.members


@dataclass(frozen=True, slots=True)
class BirthRecord:
    """The part of the agreement that a server must not forget."""

    promised: Ballot = NO_BALLOT
    """The highest ballot that this server has seen; it answers no lower one."""

    accepted: Ballot = NO_BALLOT
    birth: Birth | None = None
    """The birth that was accepted last, and in which ballot."""

    is_chosen: bool = False
    """Whether `birth` is the birth of the cluster."""


class Kind(IntEnum):
    """The messages."""

    PREPARE = 1
    PROMISE = 2
    ACCEPT = 3
    ACCEPTED = 4
    CHOSEN = 5


@dataclass(frozen=True, slots=True)
class BirthMessage:
    """A message about the birth of a cluster.

    `accepted` and `birth` of a promise are those of an earlier acceptance. A promise of a higher
    ballot than the one that was asked for is a refusal.
    """

    kind: Kind
    ballot: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    birth: Birth | None = None


Addressed = list[tuple[str, BirthMessage]]
"""Messages with the servers that they are for."""


# --- bytes --------------------------------------------------------------------------------------


def encode_message(message: BirthMessage) -> bytes:
    """A message as it travels."""
    return _encode(message.kind, message.ballot, message.accepted, message.birth)


def decode_message(data: bytes) -> BirthMessage:
    """A message. Raises MalformedBirth."""
    kind, ballot, accepted, birth = _decode(data)
    if kind not in Kind.__members__.values():
        raise MalformedBirth(f"unknown kind {kind} of a message about a birth")
    message = BirthMessage(Kind(kind), ballot, accepted, birth)
    if not _is_complete(message):
        raise MalformedBirth("a message about a birth lacks a part, or has one too many")
    return message


def _is_complete(message: BirthMessage) -> bool:
    """Whether a message has the parts that its kind has, and no others."""
    has_birth = message.birth is not None
    has_accepted = message.accepted != NO_BALLOT
    match message.kind:
        case Kind.PROMISE:
            return has_birth == has_accepted
        case Kind.ACCEPT:
            return has_birth and not has_accepted
        case Kind.CHOSEN:
            return has_birth and not has_accepted and message.ballot == NO_BALLOT
    return not has_birth and not has_accepted


def encode_record(record: BirthRecord) -> bytes:
    """A record as it is written."""
    return _encode(record.is_chosen, record.promised, record.accepted, record.birth)


def decode_record(data: bytes) -> BirthRecord:
    """A record that was written. Raises MalformedBirth."""
    is_chosen, promised, accepted, birth = _decode(data)
    if is_chosen > 1:
        raise MalformedBirth("the record of a birth has a wrong head")
    record = BirthRecord(promised, accepted, birth, bool(is_chosen))
    if record.birth is None and (record.is_chosen or record.accepted != NO_BALLOT):
        raise MalformedBirth("the record of a birth names none")
    return record


def _encode(kind: int, first: Ballot, second: Ballot, birth: Birth | None) -> bytes:
    """The form of messages and records: version, kind, two ballots and a birth."""
    ballots = _encode_ballot(first) + _encode_ballot(second)
    return _HEAD.pack(_VERSION, kind) + ballots + _encode_birth(birth)


def _decode(data: bytes) -> tuple[int, Ballot, Ballot, Birth | None]:
    """The parts of `_encode`. Raises MalformedBirth."""
    reader = _Reader(data)
    version, kind = reader.numbers(_HEAD)
    if version != _VERSION:
        raise MalformedBirth(f"unknown version {version} of the form of a birth")
    parts = kind, reader.ballot(), reader.ballot(), reader.birth()
    reader.check_end()
    return parts


def _encode_name(name: str) -> bytes:
    encoded = name.encode()
    return bytes((len(encoded),)) + encoded


def _encode_ballot(ballot: Ballot) -> bytes:
    return _BALLOT.pack(ballot.counter) + _encode_name(ballot.name)


def _encode_birth(birth: Birth | None) -> bytes:
    if birth is None:
        return _BIRTH.pack(b"", b"", 0)
    parts = [_BIRTH.pack(birth.identity, birth.reset, len(birth.members))]
    for name, store in birth.members:
        parts += (_encode_name(name), store)
    return b"".join(parts)


@final
class _Reader:
    """Reads the parts of a message, one behind the other."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def numbers(self, form: Struct) -> tuple[int, ...]:
        return form.unpack(self._take(form.size))

    def _take(self, count: int) -> bytes:
        begin = self._at
        self._at += count
        if self._at > len(self._data):
            raise MalformedBirth("a message about a birth is too short")
        return self._data[begin : self._at]

    def _name(self) -> str:
        try:
            return self._take(self._take(1)[0]).decode()
        except UnicodeDecodeError:
            raise MalformedBirth("the name of a server is not UTF-8") from None

    def ballot(self) -> Ballot:
        (counter,) = self.numbers(_BALLOT)
        if counter >= BALLOT_LIMIT:
            raise MalformedBirth("a ballot is larger than any birth reaches")
        return Ballot(counter, self._name())

    def birth(self) -> Birth | None:
        identity, reset, count = _BIRTH.unpack(self._take(_BIRTH.size))
        if count > MEMBERS_MAX:
            raise MalformedBirth(f"a birth has more than {MEMBERS_MAX} members")
        members = [(self._name(), self._take(IDENTITY_BYTES)) for _ in range(count)]
        if members != sorted(dict(members).items()) or "" in dict(members):
            raise MalformedBirth("the members of a birth are not sorted, or one is named twice")
        if not members and any(identity + reset):
            raise MalformedBirth("a birth has no members")
        return Birth(identity, tuple(members), reset) if members else None

    def check_end(self) -> None:
        if self._at != len(self._data):
            raise MalformedBirth("a message about a birth has bytes after its end")


# --- the agreement ------------------------------------------------------------------------------


@final
class ClusterBirth:
    """One server's part in the birth of its cluster.

    Events return messages. If `record` has changed, it is written before they leave.
    """

    __slots__ = (
        "_acceptances",
        "_ballot",
        "_changed_ns",
        "_entropy",
        "_expected",
        "_name",
        "_peers",
        "_promises",
        "_proposed",
        "_retry_ns",
        "_store",
        "record",
    )

    def __init__(
        self,
        name: str,
        store: bytes,
        entropy: Entropy,
        expected: int,
        record: BirthRecord | None = None,
    ) -> None:
        """`expected` is the number of configured servers; `record` was read from the store."""
        check(len(store) == IDENTITY_BYTES, "a store has an identity")
        check(0 < len(name.encode()) <= NAME_BYTES_MAX, "a server has a name")
        self._name = name
        self._store = store
        self._entropy = entropy
        self._expected = expected
        self.record = record or BirthRecord()
        # The stores of connected servers.
        self._peers: dict[str, bytes] = {}
        self._changed_ns = 0
        # The ballot of this server that is under way, and the answers to it.
        self._ballot = NO_BALLOT
        self._promises: dict[str, BirthMessage] = {}
        self._proposed: Birth | None = None
        self._acceptances: set[str] = set()
        self._retry_ns = 0

    @property
    def chosen(self) -> Birth | None:
        """The birth of the cluster, or None if it is not known."""
        return self.record.birth if self.record.is_chosen else None

    @property
    def cluster(self) -> bytes:
        """The cluster that this server is in, or NO_CLUSTER."""
        return NO_CLUSTER if self.chosen is None else self.chosen.cluster

    def refusal(self, cluster: bytes) -> str:
        """The reason why a server of a cluster is not talked to, or an empty text."""
        is_other = NO_CLUSTER not in (cluster, self.cluster) and cluster != self.cluster
        return OTHER_CLUSTER if is_other else ""

    # --- events ---------------------------------------------------------------------------------

    def connected(self, peer: str, store: bytes, now_ns: int) -> Addressed:
        """Note a connection to a server that keeps streams."""
        self._peers[peer] = store
        self._changed_ns = now_ns
        if self.chosen is not None:
            return [(peer, BirthMessage(Kind.CHOSEN, birth=self.chosen))]
        return self.tick(now_ns)

    def disconnected(self, peer: str, now_ns: int) -> None:
        """Note that a server is not connected any more."""
        if self._peers.pop(peer, None) is not None:
            self._changed_ns = now_ns

    def expect(self, count: int, now_ns: int) -> None:
        """Note the number of configured servers, when it is known better."""
        if count != self._expected:
            self._expected = count
            self._changed_ns = now_ns

    @property
    def deadline_ns(self) -> int | None:
        """The time at which `tick` begins a ballot, or None."""
        if self.chosen is not None or not self._may_propose():
            return None
        is_complete = len(self._peers) + 1 >= self._expected
        return max(self._changed_ns + (0 if is_complete else PATIENCE_NS), self._retry_ns)

    def tick(self, now_ns: int) -> Addressed:
        """Begin a ballot if it is time to."""
        deadline_ns = self.deadline_ns
        if deadline_ns is None or now_ns < deadline_ns:
            return []
        self._ballot = Ballot(self.record.promised.counter + 1, self._name)
        self._promises = {}
        self._proposed = None
        self._acceptances = set()
        # A random part keeps servers that do not see each other from competing for ever.
        self._retry_ns = now_ns + RETRY_NS + self._entropy.below(RETRY_NS)
        return self._send_all(BirthMessage(Kind.PREPARE, self._ballot))

    def _may_propose(self) -> bool:
        """Whether this server is the first of a majority of the configured servers."""
        return self._is_majority(len(self._peers) + 1) and all(
            self._name < name for name in self._peers
        )

    def _is_majority(self, count: int) -> bool:
        return 2 * count > self._expected

    def heard(self, peer: str, message: BirthMessage) -> Addressed:
        """Answer the message of a connected server. Raises MalformedBirth."""
        if peer not in self._peers:
            return []
        if message.ballot.counter > self.record.promised.counter + BALLOT_JUMP_MAX:
            raise MalformedBirth("a ballot is one to which no births can have led")
        if self.chosen is not None:
            if message.kind in (Kind.PREPARE, Kind.ACCEPT):
                return [(peer, BirthMessage(Kind.CHOSEN, birth=self.chosen))]
            return []
        return self._answer(peer, message)

    def _answer(self, peer: str, message: BirthMessage) -> Addressed:
        match message.kind:
            case Kind.PREPARE:
                return self._addressed(peer, self._promise(message.ballot))
            case Kind.ACCEPT:
                return self._addressed(peer, self._accept(message))
            case Kind.PROMISE:
                return self._count_promise(peer, message)
            case Kind.ACCEPTED:
                return self._count_acceptance(peer, message)
            case Kind.CHOSEN:
                return self._choose(message.birth)

    def _addressed(self, to: str, message: BirthMessage) -> Addressed:
        """A message to a server; one to this server is answered at once."""
        return [(to, message)] if to != self._name else self._answer(to, message)

    def _send_all(self, message: BirthMessage) -> Addressed:
        """A message to every connected server, and to this one."""
        sent: Addressed = [(peer, message) for peer in self._peers]
        return sent + self._answer(self._name, message)

    # --- a server that is asked -----------------------------------------------------------------

    def _promise(self, ballot: Ballot) -> BirthMessage:
        record = self.record
        if ballot > record.promised:
            self.record = record = replace(record, promised=ballot)
        return BirthMessage(Kind.PROMISE, record.promised, record.accepted, record.birth)

    def _accept(self, message: BirthMessage) -> BirthMessage:
        record = self.record
        ballot = message.ballot
        if ballot < record.promised:
            return BirthMessage(Kind.PROMISE, record.promised, record.accepted, record.birth)
        self.record = BirthRecord(ballot, ballot, message.birth)
        return BirthMessage(Kind.ACCEPTED, ballot)

    # --- the server that asks -------------------------------------------------------------------

    def _count_promise(self, peer: str, message: BirthMessage) -> Addressed:
        if message.ballot > self._ballot:
            # Another ballot is higher. The next one of this server will be higher still.
            promised = max(message.ballot, self.record.promised)
            self.record = replace(self.record, promised=promised)
            return []
        if not self._is_of_ballot(message) or self._proposed is not None:
            return []
        self._promises[peer] = message
        if not self._is_majority(len(self._promises)):
            return []
        self._proposed = self._proposal()
        return self._send_all(BirthMessage(Kind.ACCEPT, self._ballot, birth=self._proposed))

    def _is_of_ballot(self, message: BirthMessage) -> bool:
        """Whether a message answers the ballot of this server that is under way."""
        return message.ballot == self._ballot != NO_BALLOT

    def _proposal(self) -> Birth:
        """The birth of the highest ballot that anybody has accepted, or a new one."""
        highest = max(self._promises.values(), key=lambda promise: promise.accepted)
        if highest.birth is not None:
            return highest.birth
        return Birth(self._entropy.random_bytes(IDENTITY_BYTES), tuple(sorted(self._stores())))

    def _stores(self) -> Iterable[tuple[str, bytes]]:
        """The servers that can be members: those that are there."""
        yield self._name, self._store
        yield from self._peers.items()

    def _count_acceptance(self, peer: str, message: BirthMessage) -> Addressed:
        if not self._is_of_ballot(message) or self._proposed is None:
            return []
        self._acceptances.add(peer)
        if not self._is_majority(len(self._acceptances)):
            return []
        return self._choose(self._proposed)

    def _choose(self, birth: Birth | None) -> Addressed:
        """Note the choice, and tell it everybody, so that one server that knows it is enough."""
        self.record = replace(self.record, birth=birth, is_chosen=True)
        return [(peer, BirthMessage(Kind.CHOSEN, birth=birth)) for peer in self._peers]
