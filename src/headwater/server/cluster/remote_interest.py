"""The interest of other servers in one account: an index of peers beside the local one.

A message of a local client is delivered here first, by the broker, and then crosses to each peer
that has a subscription for it, once, however many listen there. A queue group with a local member
that takes the message has it; otherwise one peer of the group is chosen by weight. A message that
came from a peer is matched in the local index only, so it never crosses a second link.

The account of a server that no peer listens to has no such object, and pays for nothing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.server.cluster.peer import Peer, PeerSubscription
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.budget import HEADER_PUBLISH_UNITS, PUBLISH_UNITS, Budget
from headwater.server.core.client import Client
from headwater.server.core.reserved_subjects import (
    RESERVED_REPLIES,
    RESERVED_SUBJECTS,
    has_beginning,
)
from headwater.subjects.index import Route, SubscriptionIndex
from headwater.wire.batch import NO_HEADERS, Publishes, Run

# The peers of one message, each with the queue groups that it serves.
Destinations = dict[Peer, list[bytes]]

# Destinations that are remembered by route.
_REMEMBERED_MAX: Final = 8192
_NOWHERE: Final[Destinations] = {}


@final
class RemoteInterest:
    """The interest of all peers in one account; `touch` has the bytes for a peer written."""

    __slots__ = (
        "_account",
        "_behind",
        "_broker",
        "_entropy",
        "_index",
        "_patterns",
        "_remembered",
        "_touch",
    )

    def __init__(
        self,
        account: Account,
        broker: Broker,
        entropy: Entropy,
        touch: Callable[[Peer], None],
        behind: set[Peer],
    ) -> None:
        """`behind` are the peers that had much to read after the last write to them."""
        self._account = account
        self._broker = broker
        self._entropy = entropy
        self._touch = touch
        self._behind = behind
        self._index: SubscriptionIndex[PeerSubscription] = SubscriptionIndex()
        # The number of peers that listen to a pattern as members of a queue group, or without one.
        self._patterns: Counter[tuple[bytes, bytes]] = Counter()
        self._remembered: dict[Route[PeerSubscription], Destinations] = {}

    @property
    def count(self) -> int:
        """The number of interests."""
        return self._index.count

    def insert(self, pattern: bytes, subscription: PeerSubscription) -> None:
        """A peer listens to a pattern."""
        self._remembered.clear()
        self._index.insert(pattern, subscription.queue or None, subscription)
        self._patterns[pattern, subscription.queue] += 1

    def remove(self, pattern: bytes, subscription: PeerSubscription) -> None:
        """A peer listens to a pattern no more."""
        self._remembered.clear()
        self._index.remove(pattern, subscription.queue or None, subscription)
        key = pattern, subscription.queue
        self._patterns[key] -= 1
        if not self._patterns[key]:
            del self._patterns[key]

    def hears(self, subject: bytes) -> bool:
        """Whether a peer listens to a subject."""
        route = self._index.match(subject)
        return bool(route.plain or route.groups)

    def has_subscription(self, pattern: bytes, queue: bytes | None) -> bool:
        """Whether a peer listens to just this pattern, in this queue group or without one."""
        return (pattern, queue or b"") in self._patterns

    @property
    def may_be_behind(self) -> bool:
        """Whether a peer had much to read after the last write to it."""
        return bool(self._behind)

    def is_behind(self, subject: bytes) -> bool:
        """Whether a peer that listens to a subject has so much to read that it gets no more."""
        if not self._behind:
            return False
        route = self._index.match(subject)
        peers = {each.peer for each in chain(route.plain, *route.groups)} & self._behind
        unread_bytes_max = self._broker.buffers.unread_bytes_max
        caught_up = {peer for peer in peers if peer.unread_bytes <= unread_bytes_max}
        self._behind -= caught_up
        return caught_up != peers

    # --- messages of clients -------------------------------------------------------------------

    def publish(
        self, source: Client, segment: Publishes | Run, budget: Budget
    ) -> Publishes | Run | None:
        """Route publishes of a client here and to peers.

        Returns the publishes for which the budget was too small.
        """
        if isinstance(segment, Run):
            subjects: Sequence[bytes] = [segment.subject]
            replies: Sequence[bytes | None] = [segment.reply]
        else:
            subjects, replies = segment.subjects, segment.replies
        if (
            source.guarded
            or has_beginning(RESERVED_SUBJECTS, subjects)
            or has_beginning(RESERVED_REPLIES, filter(None, replies))
        ):
            batch = segment.as_publishes() if isinstance(segment, Run) else segment
            return self._publish_each(source, batch, budget)
        if isinstance(segment, Run):
            return self._publish_run(source, segment, budget)
        return self._publish_many(source, segment, budget)

    def _publish_run(self, source: Client, run: Run, budget: Budget) -> Publishes | Run | None:
        route = self._index.match(run.subject)
        if route.groups:
            # Each message goes to a member of its own choice.
            return self._publish_many(source, run.as_publishes(), budget)
        payloads = run.payloads[:]
        rest = self._broker.publish_run(source, run, budget)
        if route.plain:
            count = len(payloads) - (0 if rest is None else len(rest.payloads))
            budget.charge(count * PUBLISH_UNITS)
            self._send_many(
                self._plain_destinations(route),
                source,
                [run.subject] * count,
                [run.reply] * count,
                [run.header_size] * count,
                payloads[:count],
            )
        return rest

    def _publish_many(
        self, source: Client, batch: Publishes, budget: Budget
    ) -> Publishes | Run | None:
        route = self._common_route(batch.subjects)
        if (
            route is not None
            and route.plain
            and not route.groups
            and not self._is_heard_here(batch.subjects)
        ):
            return self._relay_all(source, batch, budget, route)
        # The broker may take publishes out of the batch, and keep its lists.
        subjects, replies = batch.subjects[:], batch.replies[:]
        header_sizes, payloads = batch.header_sizes[:], batch.payloads[:]
        if route is not None and not route.groups:
            rest = self._broker.publish_many(source, batch, budget)
            if route.plain:
                count = len(subjects) - (0 if rest is None else len(rest.subjects))
                budget.charge(count * PUBLISH_UNITS)
                self._send_many(
                    self._plain_destinations(route),
                    source,
                    subjects[:count],
                    replies[:count],
                    header_sizes[:count],
                    payloads[:count],
                )
            return rest
        # Destinations are found before the local deliveries, which may end a subscription.
        destinations = [self._destinations(source, subject) for subject in subjects]
        rest = self._broker.publish_many(source, batch, budget)
        count = len(subjects) - (0 if rest is None else len(rest.subjects))
        for found, subject, reply, header_size, payload in zip(
            destinations[:count], subjects, replies, header_sizes, payloads, strict=False
        ):
            if found:
                budget.charge(PUBLISH_UNITS)
                self._send_one(found, source, subject, reply, header_size, payload)
        return rest

    def _is_heard_here(self, subjects: list[bytes]) -> bool:
        """Whether a subscription of this server matches any of the subjects."""
        index = self._account.index
        route = index.match_all(subjects)
        if route is not None:
            return route.fan_out > 0
        return any(found.fan_out for found in {*map(index.match, subjects)})

    def _relay_all(
        self, source: Client, batch: Publishes, budget: Budget, route: Route[PeerSubscription]
    ) -> Publishes | None:
        """Send publishes that nobody listens to here to the peers of one route.

        Returns the publishes for which the budget was too small.
        """
        rest: Publishes | None = None
        affordable = max(1, budget.units // PUBLISH_UNITS)
        if len(batch.subjects) > affordable:
            batch, rest = batch.split_at(affordable)
        count = len(batch.subjects)
        budget.charge(count * PUBLISH_UNITS)
        source.in_msgs += count
        source.in_bytes += sum(map(len, batch.payloads))
        self._send_many(
            self._plain_destinations(route),
            source,
            batch.subjects,
            batch.replies,
            batch.header_sizes,
            batch.payloads,
        )
        return rest

    def _publish_each(self, source: Client, batch: Publishes, budget: Budget) -> Publishes | None:
        """Route publishes that have to be checked one by one."""
        broker = self._broker
        broker.budget = budget
        done = 0
        for subject, reply, header_size, payload in zip(
            batch.subjects, batch.replies, batch.header_sizes, batch.payloads, strict=True
        ):
            done += 1
            budget.charge(PUBLISH_UNITS if header_size < 0 else HEADER_PUBLISH_UNITS)
            source.in_msgs += 1
            source.in_bytes += len(payload)
            if broker.may_publish(source, subject, reply):
                broker.forward(source, self._account, subject, reply, header_size, payload)
            if budget.units <= 0 or source.awaited:
                break
        rest = batch.split_at(done)[1]
        return rest if rest.subjects else None

    def relay(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        """Send a publish of a client to the peers that listen to its subject."""
        found = self._destinations(source, subject)
        if found:
            self._send_one(found, source, subject, reply, header_size, payload)

    # --- messages of the server itself ---------------------------------------------------------

    def send(self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> None:
        """Send a message of the server itself to the peers that listen to its subject."""
        found = self._destinations(None, subject)
        if found and self._broker.door.lets_pass(subject, reply):
            header_size = len(header) if header else NO_HEADERS
            self._send_one(found, None, subject, reply, header_size, header + payload)

    def send_replies(
        self, subjects: list[bytes], payloads: Sequence[bytes], headers: Sequence[bytes]
    ) -> None:
        """Send many messages of the server itself; `headers` of all, or of none."""
        route = self._common_route(subjects)
        if route is None or route.groups:
            for subject, payload, header in zip_longest(subjects, payloads, headers, fillvalue=b""):
                self.send(subject, None, header, payload)
        elif route.plain and self._broker.door.lets_all_pass(subjects):
            header_sizes, whole = _joined(headers, payloads)
            found = self._plain_destinations(route)
            self._send_many(found, None, subjects, [None] * len(subjects), header_sizes, whole)

    def send_messages(
        self,
        subjects: list[bytes],
        replies: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
        to: bytes,
    ) -> None:
        """Send messages of a stream, under their own subjects, to the peers that listen to `to`."""
        route = self._index.match(to)
        if not route.plain and not route.groups:
            return
        header_sizes, whole = _joined(headers, payloads)
        if not route.groups and self._broker.door.lets_all_pass(subjects):
            found = self._plain_destinations(route)
            self._send_many(found, None, subjects, replies, header_sizes, whole, to)
            return
        lets_pass = self._broker.door.lets_pass
        for subject, reply, header_size, payload in zip(
            subjects, replies, header_sizes, whole, strict=True
        ):
            # Each message goes to a member of its own choice.
            found = self._destinations(None, to)
            if found and lets_pass(subject, reply):
                self._send_one(found, None, subject, reply, header_size, payload, to)

    # --- the peers of a message ----------------------------------------------------------------

    def _common_route(self, subjects: list[bytes]) -> Route[PeerSubscription] | None:
        """The route of many subjects, if all have the same; else None."""
        route = self._index.match_all(subjects)
        if route is None:
            routes = {*map(self._index.match, subjects)}
            route = routes.pop() if len(routes) == 1 else None
        return route

    def _destinations(self, source: Client | None, subject: bytes) -> Destinations:
        route = self._index.match(subject)
        if not route.groups:
            return self._plain_destinations(route) if route.plain else _NOWHERE
        found: Destinations = {subscription.peer: [] for subscription in route.plain}
        for group in route.groups:
            queue = group[0].queue
            if not self._has_taker(source, subject, queue):
                found.setdefault(self._chosen(group), []).append(queue)
        return found

    def _has_taker(self, source: Client | None, subject: bytes, queue: bytes) -> bool:
        """Whether a queue group has a member here that takes a message."""
        may_deliver = self._broker.may_deliver
        return any(
            may_deliver(source, sub, subject)
            for group in self._account.index.match(subject).groups
            if group[0].queue == queue
            for sub in group
        )

    def _plain_destinations(self, route: Route[PeerSubscription]) -> Destinations:
        """The peers of a route without queue groups, each once."""
        found = self._remembered.get(route)
        if found is None:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            found = {subscription.peer: [] for subscription in route.plain}
            self._remembered[route] = found
        return found

    def _chosen(self, group: list[PeerSubscription]) -> Peer:
        """A peer of a queue group, by the number of its members there."""
        if len(group) == 1:
            return group[0].peer
        left = self._entropy.below(sum(subscription.weight for subscription in group))
        for subscription in group:
            left -= subscription.weight
            if left < 0:
                return subscription.peer
        return group[-1].peer

    def _send_one(
        self,
        found: Destinations,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
        target: bytes = b"",
    ) -> None:
        name = self._account.name
        for peer, queues in found.items():
            peer.gathered(name).add(subject, reply, header_size, payload, queues, target)
            self._sent(peer, source)

    def _send_many(
        self,
        found: Destinations,
        source: Client | None,
        subjects: Sequence[bytes],
        replies: Sequence[bytes | None],
        header_sizes: Sequence[int],
        payloads: Sequence[bytes],
        target: bytes = b"",
    ) -> None:
        name = self._account.name
        for peer in found:
            messages = peer.gathered(name)
            messages.add_all(subjects, replies, header_sizes, payloads, target)
            self._sent(peer, source)

    def _sent(self, peer: Peer, source: Client | None) -> None:
        self._touch(peer)
        if source is not None and peer.is_congested:
            self._broker.stall_publisher(source)


def _joined(
    headers: Sequence[bytes], payloads: Sequence[bytes]
) -> tuple[Sequence[int], Sequence[bytes]]:
    """The sizes of the header blocks, and the payloads with their header blocks in front."""
    if not any(headers):
        return [NO_HEADERS] * len(payloads), payloads
    return (
        [len(header) if header else NO_HEADERS for header in headers],
        [header + payload for header, payload in zip(headers, payloads, strict=True)],
    )
