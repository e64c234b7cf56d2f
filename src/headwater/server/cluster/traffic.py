"""Interest and messages between this server and its peers.

    local SUB ──▶ Ledger ──▶ INTEREST frames ──▶ every peer
    INTEREST of a peer ──▶ RemoteInterest of the account ──▶ publishes of clients cross by it
    MESSAGES of a peer ──▶ the local index ──▶ local subscriptions, and nowhere else

Interest is announced before the messages of its turn, so that the reply to a request finds the
requester. The permissions of the cluster act on interest: `import` says which local subscriptions
are announced, `export` which interests of others count.

A publish crosses to two servers while one of them leads its stream and the other has led it before,
as far as this server knows. The leader stores it, and the other one must not store it too when its
copy arrives after the next election. So a server that is elected sends a mark to all peers, the
token of a PING, and its stream takes nothing of a peer before the PONG: what was sent before that
was sent without knowledge of the election, perhaps to a leader before as well.

Must not know: sockets, handshakes, and which servers there are.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.server.cluster.local_interest import Ledger, in_frames
from headwater.server.cluster.peer import Peer, PeerSubscription
from headwater.server.cluster.remote_interest import RemoteInterest
from headwater.server.configuration.options import Permissions
from headwater.server.core.accounts import Account, Accounts
from headwater.server.core.broker import Broker
from headwater.server.core.budget import Budget
from headwater.server.core.client import Inlet, Subscription
from headwater.server.core.crowd import has_plain_members
from headwater.server.core.permissions import ConnectionPermissions
from headwater.subjects.grammar import is_valid_pattern
from headwater.subjects.index import Route
from headwater.wire import frames
from headwater.wire.batch import NO_HEADERS
from headwater.wire.peer_frames import (
    Interest,
    Kind,
    MalformedFrame,
    PeerMessages,
    decode_interest,
    decode_messages,
    encode_interest,
    frame,
)

INTERESTS_MAX: Final = 1 << 20
"""The interests of a peer in accounts of this server: patterns, and queue groups on them."""

HOMELESS_MAX: Final = 1 << 16
"""The interests of a peer in accounts that this server does not have. They are kept for a reload
that adds the account, server by server."""

TOKEN_BYTES: Final = 8
"""The token of a PING; one that is no mark is 0."""


@final
class Traffic:
    """Interest and messages of one server in a cluster.

    `peers` are those with an open channel for messages; `touch` has the bytes for a peer written at
    the end of the turn; `audience_changed` is called when the system account gets its first
    listener elsewhere, or loses its last one.
    """

    __slots__ = (
        "_accounts",
        "_audience_changed",
        "_behind",
        "_broker",
        "_entropy",
        "_is_mark_news",
        "_ledgers",
        "_mark",
        "_news",
        "_peers",
        "_permissions",
        "_plan",
        "_remotes",
        "_touch",
    )

    def __init__(
        self,
        accounts: Accounts,
        broker: Broker,
        entropy: Entropy,
        peers: Callable[[], Iterable[Peer]],
        touch: Callable[[Peer], None],
        plan: Callable[[], None],
        audience_changed: Callable[[], None],
    ) -> None:
        self._accounts = accounts
        self._broker = broker
        self._entropy = entropy
        self._peers = peers
        self._touch = touch
        self._plan = plan
        self._audience_changed = audience_changed
        self._permissions = ConnectionPermissions(Permissions())
        self._ledgers: dict[Account, Ledger] = {}
        # Accounts whose interest has changed since it was announced.
        self._news: dict[Account, None] = {}
        self._remotes: dict[Account, RemoteInterest] = {}
        # The last mark, and whether peers have to be told of it.
        self._mark = 0
        self._is_mark_news = False
        # Peers that had much to read after the last write to them, and may have read it since.
        self._behind: set[Peer] = set()

    # --- accounts and permissions --------------------------------------------------------------

    def accounts_changed(self) -> None:
        """Accounts were made, or are no longer there."""
        present = self._accounts.all()
        for account in [*self._ledgers]:
            if account not in present:
                del self._ledgers[account]
                self._remotes.pop(account, None)
                account.ledger = account.remote = None
        for account in present:
            if account not in self._ledgers:
                account.ledger = self._ledgers[account] = self._new_ledger(account)
        # Interest that peers announced for an account that was not there counts from now on.
        present_names = {account.name for account in present}
        for peer in self._peers():
            told = {**peer.announced, **peer.homeless}
            peer.announced = {key: told[key] for key in told if key[0] in present_names}
            peer.homeless = {key: told[key] for key in told if key[0] not in present_names}
            for key in peer.homeless:
                self._apply(peer, key, 0)
        self._reconsider()

    def _new_ledger(self, account: Account) -> Ledger:
        def changed() -> None:
            self._news[account] = None
            self._plan()

        return Ledger(changed, self._next_mark)

    def permit(self, permissions: Permissions) -> None:
        """Put other permissions of the cluster in force."""
        old, self._permissions = self._permissions, ConnectionPermissions(permissions)
        self._reconsider()
        for account, ledger in self._ledgers.items():
            withdrawn = [
                (pattern, queue, 0)
                for pattern, queue, _ in ledger.all()
                if old.may_publish(pattern, 0) and not self._may_import(pattern)
            ]
            for peer in self._peers():
                self._append(peer, account, withdrawn)
                self._append(peer, account, self._imported(ledger.all()))

    def _reconsider(self) -> None:
        for peer in self._peers():
            for key, weight in peer.announced.items():
                self._apply(peer, key, weight)

    def _may_import(self, pattern: bytes) -> bool:
        return self._permissions.may_publish(pattern, 0)

    def _imported(self, interests: Iterable[Interest]) -> list[Interest]:
        return [interest for interest in interests if self._may_import(interest[0])]

    # --- interest ------------------------------------------------------------------------------

    def greet(self, peer: Peer) -> None:
        """Tell a peer that has just come of every interest."""
        self._append_mark(peer)
        for account, ledger in self._ledgers.items():
            self._append(peer, account, self._imported(ledger.all()))

    def announce(self) -> None:
        """Tell all peers of the interest that has changed, and of a mark before it."""
        if self._is_mark_news:
            self._is_mark_news = False
            for peer in self._peers():
                self._append_mark(peer)
        if not self._news:
            return
        accounts, self._news = self._news, {}
        for account in accounts:
            ledger = self._ledgers.get(account)
            news = [] if ledger is None else self._imported(ledger.take_news())
            for peer in self._peers():
                self._append(peer, account, news)

    def close_frame(self, peer: Peer) -> None:
        """Have what follows arrive behind all messages that were sent to a peer so far."""
        self.announce()
        peer.close_frame()

    def _next_mark(self) -> int:
        """The mark that peers are told of at the end of the turn."""
        if not self._is_mark_news:
            self._mark += 1
            self._is_mark_news = True
            self._plan()
        return self._mark

    def _append_mark(self, peer: Peer) -> None:
        channel = peer.messages_channel
        if channel is not None and self._mark:
            channel.out.append(frame(Kind.PING, self._mark.to_bytes(TOKEN_BYTES, "little")))
            self._touch(peer)

    def take_echo(self, peer: Peer, token: bytes) -> bool:
        """Take the token of a PONG. Returns whether it is a mark."""
        mark = int.from_bytes(token, "little")
        peer.echoed_mark = max(peer.echoed_mark, mark)
        return mark > 0

    def _append(self, peer: Peer, account: Account, interests: list[Interest]) -> None:
        channel = peer.messages_channel
        if channel is None:
            return
        for part in in_frames(interests):
            channel.out.append(encode_interest(account.name, part))
            self._touch(peer)

    def receive_interest(self, peer: Peer, body: bytes) -> None:
        """Take an INTEREST frame. Raises MalformedFrame."""
        account, changes = decode_interest(body)
        is_present = self._accounts.get(account) is not None
        told = peer.announced if is_present else peer.homeless
        count_max = INTERESTS_MAX if is_present else HOMELESS_MAX
        for pattern, queue, weight in changes:
            if not is_valid_pattern(pattern):
                raise MalformedFrame("an interest is not a subject")
            key = account, pattern, queue
            if not weight:
                told.pop(key, None)
            elif len(told) < count_max or key in told:
                told[key] = weight
            else:
                accounts = "accounts" if is_present else "accounts that are not here"
                raise MalformedFrame(f"more than {count_max} interests in {accounts}")
            if is_present:
                self._apply(peer, key, weight)

    def _apply(self, peer: Peer, key: tuple[str, bytes, bytes], weight: int) -> None:
        """Have an interest of a peer counted, unless the permissions forbid it."""
        name, pattern, queue = key
        account = self._accounts.get(name)
        if account is None:
            peer.subscriptions.pop(key, None)
            return
        if weight and not self._permissions.may_subscribe(pattern, queue or None):
            weight = 0
        known = peer.subscriptions.get(key)
        if known is not None and weight:
            known.weight = weight
        elif known is not None:
            del peer.subscriptions[key]
            self._remove(account, pattern, known)
        elif weight:
            known = peer.subscriptions[key] = PeerSubscription(peer, queue, weight)
            self._insert(account, pattern, known)

    def _insert(self, account: Account, pattern: bytes, subscription: PeerSubscription) -> None:
        remote = self._remotes.get(account)
        if remote is None:
            remote = RemoteInterest(account, self._broker, self._entropy, self._touch, self._behind)
            self._remotes[account] = account.remote = remote
            if account is self._accounts.system:
                self._audience_changed()
        remote.insert(pattern, subscription)
        account.interest_changed(pattern)

    def _remove(self, account: Account, pattern: bytes, subscription: PeerSubscription) -> None:
        remote = self._remotes.get(account)
        if remote is None:
            return
        remote.remove(pattern, subscription)
        if not remote.count:
            del self._remotes[account]
            account.remote = None
            if account is self._accounts.system:
                self._audience_changed()
        account.interest_changed(pattern)

    def forget(self, peer: Peer) -> None:
        """A peer is gone, and its interest with it."""
        for key in [*peer.subscriptions]:
            self._apply(peer, key, 0)
        peer.announced.clear()
        peer.homeless.clear()
        peer.forget_messages()
        self._behind.discard(peer)

    def note_unread(self, peer: Peer, unread_bytes: int) -> None:
        """Note after a write how many bytes wait for a peer."""
        if unread_bytes > self._broker.buffers.unread_bytes_max:
            self._behind.add(peer)
        else:
            self._behind.discard(peer)

    # --- messages ------------------------------------------------------------------------------

    def receive_messages(self, peer: Peer, body: bytes) -> PeerMessages:
        """Deliver the messages of a MESSAGES frame here. Raises MalformedFrame."""
        name, messages = decode_messages(body)
        targets = [target for _, target in messages.runs()]
        words = [*messages.subjects, *filter(None, messages.replies), *targets]
        if words and not self._broker.door.lets_all_pass(words):
            # Clients would read the bytes behind a line end as a frame that nobody sent.
            raise MalformedFrame("a subject with a line end")
        account = self._accounts.get(name)
        if account is not None and messages.subjects:
            # The work is charged to nobody: the peer's clients were charged for it.
            self._broker.budget = Budget()
            self._deliver(account, messages, peer)
        return messages

    def _deliver(self, account: Account, messages: PeerMessages, peer: Peer) -> None:
        if any(messages.targets):
            self._deliver_to_targets(account, messages, peer)
        elif not self._deliver_alike(account, messages):
            self._deliver_by_route(account, messages, peer)

    def _deliver_alike(self, account: Account, messages: PeerMessages) -> bool:
        """Deliver messages that all go to the same unchecked subscriptions, of different clients.

        Returns whether they do.
        """
        broker = self._broker
        if (
            any(messages.queues)
            or any(messages.replies)
            or max(messages.header_sizes) > NO_HEADERS
            or broker.crowds.lines
        ):
            return False
        route = account.index.match_all(messages.subjects)
        if route is None or route.groups or route.is_large or not has_plain_members(route):
            return False
        if any(sub.client.congested for sub in route.plain):
            return False
        for sub in route.plain:
            broker.buffers.append_messages(sub, messages.subjects, messages.payloads, ())
        return True

    def _deliver_by_route(self, account: Account, messages: PeerMessages, peer: Peer) -> None:
        """Deliver messages to subscriptions to their subjects: neighbours of one route at once."""
        routes = map(account.index.match, messages.subjects)
        begin = 0
        for route, group in groupby(routes):
            end = begin + sum(1 for _ in group)
            inlet = _inlet_of(route, peer.echoed_mark)
            if inlet is None:
                self._deliver_each(account, messages, range(begin, end), route, peer)
            else:
                incoming = self._broker.turn.open_inlet(inlet, None)
                part = messages.part(begin, end)
                incoming.add_all(part.subjects, part.replies, part.header_sizes, part.payloads)
            begin = end

    def _deliver_to_targets(self, account: Account, messages: PeerMessages, peer: Peer) -> None:
        """Deliver messages of streams, run by run, to subscriptions to the target of each run."""
        end = 0
        for target, run in groupby(messages.targets):
            begin, end = end, end + len([*run])
            part = messages.part(begin, end)
            if not target:
                self._deliver(account, part, peer)
                continue
            route = account.index.match(target)
            inlet = _inlet_of(route, peer.echoed_mark)
            if inlet is not None:
                self._broker.turn.open_inlet(inlet, None).add_all(
                    part.subjects, part.replies, part.header_sizes, part.payloads
                )
            elif not self._append_stored(route, part, peer.line):
                self._deliver_each(account, part, range(len(part)), route, peer)

    def _append_stored(
        self, route: Route[Subscription], messages: PeerMessages, line: bytes
    ) -> bool:
        """Append messages of a stream to one unchecked subscription. Returns whether it is one."""
        broker = self._broker
        if len(route.plain) != 1 or route.groups or broker.crowds.has_line(line):
            return False
        sub = route.plain[0]
        replies = [reply for reply in messages.replies if reply is not None]
        if not sub.unchecked or sub.client.congested or len(replies) != len(messages):
            return False
        headers, payloads = messages.parted()
        broker.buffers.append_stored(sub, messages.subjects, replies, headers, payloads)
        return True

    def _deliver_each(
        self,
        account: Account,
        messages: PeerMessages,
        positions: range,
        route: Route[Subscription],
        peer: Peer,
    ) -> None:
        """Deliver messages of one route one by one, with every check."""
        is_system = account is self._accounts.system
        for position in positions:
            queues = messages.queues[position] if messages.queues else ()
            subject, reply = messages.subjects[position], messages.replies[position]
            header_size, payload = messages.header_sizes[position], messages.payloads[position]
            size = frames.size_tokens(header_size, len(payload))
            message = None, subject, reply, header_size, size, payload
            served = _served(route, queues, is_system, peer.echoed_mark)
            self._broker.deliver_to_all(served, message, peer.line)


def _inlet_of(route: Route[Subscription], echoed_mark: int) -> Inlet | None:
    """The inlet of a stream, or of acknowledgements, if a message of a peer goes nowhere else."""
    if len(route.plain) != 1 or route.groups or not route.plain[0].serves_peers:
        return None
    inlet = route.plain[0].ingest
    return None if inlet is None or inlet.since_mark > echoed_mark else inlet


def _served(
    route: Route[Subscription], queues: Iterable[bytes], is_system: bool, echoed_mark: int
) -> Route[Subscription]:
    """The part of a local route that a message of a peer goes to."""
    plain = route.plain
    if not all(sub.unchecked for sub in plain):
        plain = [sub for sub in plain if _serves_peers(sub, is_system, echoed_mark)]
    if not route.groups and plain is route.plain:
        return route
    return Route(plain, [*_groups_named(route, queues)])


def _groups_named(
    route: Route[Subscription], queues: Iterable[bytes]
) -> Iterator[list[Subscription]]:
    wanted = {*queues}
    for group in route.groups:
        if group[0].queue in wanted:
            yield group


def _serves_peers(sub: Subscription, is_system: bool, echoed_mark: int) -> bool:
    """Whether a subscription gets messages of a server that has echoed a mark.

    Subscriptions of clients do. A stream or a service of the server itself does if it is there for
    all servers; those of the system account answer for this server to all.
    """
    if sub.ingest is not None and sub.ingest.since_mark > echoed_mark:
        return False
    return sub.serves_peers or (sub.ingest is None and (sub.handler is None or is_system))
