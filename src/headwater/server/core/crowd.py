"""Messages to crowds: one message for very many subscriptions, delivered some at a time.

A message to 100,000 subscriptions is 4 MB of frames, which take 25 ms to make and to write. So all
crowds together get one slice of deliveries per turn of the loop, and others are served in between.
A message that fits into what is left of the slice is delivered at once.

    message ──▶ line ──▶ as much as fits now ──▶ the rest in later turns, lines in turn ──▶ done
                  └──▶ later messages of that line wait

Order: messages stand in lines, and one line is delivered in order. A client that publishes is a
line of its own, and does nothing else before its message is delivered; so its messages never
overtake each other. Messages of the server itself stand in line by the subject that they are sent
to.

Bounds: a client has one message under way, and waits. Clients that cause a message of the server
itself (a request, a publish into a stream that republishes) wait for it too. Messages that nobody
waits for are bounded by number and bytes; beyond that the oldest of its line is delivered at once.

Must not know: the checks of one subscription, which a `Deliverer` makes.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, Protocol, TypeAlias, final

from headwater.runtime.environment import Scheduler
from headwater.server.core.client import Client, Subscription
from headwater.server.core.holding import Holding
from headwater.server.core.out_buffers import DELIVERY_BYTES, OutBuffers
from headwater.subjects.index import Route
from headwater.wire import frames

# Deliveries of one turn, which take about 2 ms. Copying this many bytes counts as a delivery.
SLICE_DELIVERIES_MAX: Final = 8_192
DELIVERY_BYTES_COPIED: Final = 512
# Going from one client to the next takes as long as this many deliveries.
CLIENT_DELIVERIES: Final = 2
# Lines that have their turn in one slice, if as many wait.
LINES_PER_SLICE: Final = 4
# A queue group takes as long as this many plain subscriptions.
GROUP_DELIVERIES: Final = 4
# Messages of the server itself that may wait, all lines together.
WAITING_MESSAGES_MAX: Final = 4_096
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
# A larger payload is not copied for each of many subscriptions, but shared by their frames.
COPIED_BYTES_MAX: Final = 4096


# A message as it is delivered: its source (None for the server itself), subject, reply, size of the
# header or -1, the size or both sizes as frames tell them, and the payload. A plain tuple, because
# one is made for every message to a queue group.
Message: TypeAlias = tuple[Client | None, bytes, bytes | None, int, bytes, bytes]


class Deliverer(Protocol):
    """The part of the server that delivers to one subscription, with every check."""

    def deliver(self, message: Message, sub: Subscription) -> bool:
        """Deliver a message to a subscription. Returns whether it took it."""
        ...

    def deliver_to_group(self, message: Message, group: list[Subscription]) -> bool:
        """Deliver a message to one member of a queue group. Returns whether one took it."""
        ...

    def report_unheard(self, message: Message) -> None:
        """Answer the requester of a message that nobody took."""
        ...


@final
class _Delivery:
    """One message under way: members of the route from `position` on have not got it."""

    __slots__ = ("is_taken", "message", "position", "route", "waiting")

    def __init__(self, route: Route[Subscription], message: Message) -> None:
        # Routes do not change: subscriptions that come later do not get this message.
        self.route = route
        self.message = message
        self.position = 0
        self.is_taken = False
        # Clients that do nothing before all have got the message.
        self.waiting: list[Client] = []

    @property
    def is_done(self) -> bool:
        return self.position >= self.route.fan_out


@final
class Crowds:
    """Messages that are on their way to crowds."""

    __slots__ = (
        "_buffers",
        "_deliverer",
        "_holding",
        "_is_planned",
        "_left",
        "_scheduler",
        "_waiting_bytes",
        "_waiting_messages",
        "lines",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        buffers: OutBuffers,
        deliverer: Deliverer,
        holding: Holding,
    ) -> None:
        self._scheduler = scheduler
        self._buffers = buffers
        self._deliverer = deliverer
        self._holding = holding
        # Messages that have not been delivered to all, by line, in the order of their turns.
        self.lines: dict[Hashable, deque[_Delivery]] = {}
        self._is_planned = False
        # The rest of this turn's slice, in deliveries.
        self._left = SLICE_DELIVERIES_MAX
        self._waiting_messages = 0
        self._waiting_bytes = 0

    def has_line(self, line: Hashable) -> bool:
        """Whether a message of a line is under way, so that later ones have to wait."""
        return line in self.lines

    @property
    def may_be_unread(self) -> bool:
        """Whether `is_unread` may be true of any subscriber."""
        return bool(self.lines or self._buffers.behind)

    def is_unread(self, route: Route[Subscription], to: bytes) -> bool:
        """Whether subscribers at `to` have so much to read that they get no more for now."""
        if to in self.lines:
            return True
        if len(route.plain) == 1 and not route.groups:
            return self._buffers.is_behind(route.plain[0].client)
        if not route.is_large:
            is_behind = self._buffers.is_behind
            return any(is_behind(sub.client) for sub in route.plain) or any(
                is_behind(sub.client) for group in route.groups for sub in group
            )
        # Neighbours on a route are often of one client.
        subs = chain(route.plain, *route.groups)
        clients = (client for client, _ in groupby(subs, _client_of))
        return any(map(self._buffers.is_behind, clients))

    def deliver(
        self,
        route: Route[Subscription],
        message: Message,
        line: Hashable,
        waiting: Iterable[Client],
    ) -> bool:
        """Deliver a message, as much as the turn allows now and the rest in later turns.

        Returns whether anybody got it, and True if that is not known yet; then `report_unheard` is
        called if nobody gets it. The clients `waiting` are held back if it takes more than this
        turn.
        """
        delivery = _Delivery(route, message)
        deliveries = self.lines.setdefault(line, deque())
        deliveries.append(delivery)
        self._count(delivery, 1)
        if len(deliveries) == 1:
            try:
                while self._left > 0 and not delivery.is_done:
                    self._left -= self._deliver_some(delivery, min(self._left, _share()))
            finally:
                # After the write of this turn, which has been planned by now.
                self._plan_turn()
            if delivery.is_done:
                if deliveries and deliveries[0] is delivery:
                    self._pop_first(line)
                return delivery.is_taken
        delivery.waiting += waiting
        self._holding.hold(delivery.waiting)
        if self._waiting_messages > WAITING_MESSAGES_MAX or self._waiting_bytes > WAITING_BYTES_MAX:
            self._finish_first(line)
        return True

    def _count(self, delivery: _Delivery, sign: int) -> None:
        self._waiting_messages += sign
        self._waiting_bytes += sign * len(delivery.message[-1])

    def _plan_turn(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Deliver a slice: of the first message of a line, then of the next line, and so on."""
        self._is_planned = False
        self._left = SLICE_DELIVERIES_MAX
        try:
            while self.lines and self._left > 0:
                line = next(iter(self.lines))
                # Lines take turns: this line is the last of the next round.
                deliveries = self.lines[line] = self.lines.pop(line)
                first = deliveries[0]
                self._left -= self._deliver_some(first, min(self._left, _share()))
                # A member may have caused another message of this line, and so the end of this one.
                if first.is_done and deliveries and deliveries[0] is first:
                    self._conclude_first(line)
        finally:
            # The next turn begins with a whole slice, and a bug that shows at one message must not
            # silence the rest.
            if self.lines or self._left < SLICE_DELIVERIES_MAX:
                self._plan_turn()

    def _finish_first(self, line: Hashable) -> None:
        first = self.lines[line][0]
        while not first.is_done:
            self._deliver_some(first, SLICE_DELIVERIES_MAX)
        self._conclude_first(line)

    def _pop_first(self, line: Hashable) -> _Delivery:
        deliveries = self.lines[line]
        delivery = deliveries.popleft()
        self._count(delivery, -1)
        if not deliveries:
            del self.lines[line]
        return delivery

    def _conclude_first(self, line: Hashable) -> None:
        """End a delivery that is done: the clients that waited for it go on."""
        delivery = self._pop_first(line)
        if not delivery.is_taken:
            self._deliverer.report_unheard(delivery.message)
        self._holding.release(delivery.waiting)

    # --- one slice -----------------------------------------------------------------------------

    def _deliver_some(self, delivery: _Delivery, left: int) -> int:
        """Deliver to some members, at least to one. Returns the part of the slice that it took."""
        message, route = delivery.message, delivery.route
        _, subject, reply, _, _, payload = message
        each_bytes = len(subject) + len(reply or b"") + len(payload) + DELIVERY_BYTES
        cost = 1 + each_bytes // DELIVERY_BYTES_COPIED
        begin, plain_count = delivery.position, len(route.plain)
        if begin < plain_count:
            some = route.plain[begin : begin + max(left // cost, 1)]
            # If a bug shows at one of them, the others are not served again.
            delivery.position += len(some)
            is_taken, clients = self._deliver_to_plain(message, some)
            delivery.is_taken |= is_taken
            return len(some) * cost + clients * CLIENT_DELIVERIES
        begin -= plain_count
        cost *= GROUP_DELIVERIES
        groups = route.groups[begin : begin + max(left // cost, 1)]
        delivery.position += len(groups)
        for group in groups:
            if self._deliverer.deliver_to_group(message, group):
                delivery.is_taken = True
        self._buffers.add_waiting(len(groups) * each_bytes)
        return len(groups) * cost

    def _deliver_to_plain(self, message: Message, subs: list[Subscription]) -> tuple[bool, int]:
        """Deliver to many subscriptions, with one append for neighbours of one client.

        Returns whether anybody got the message, and the number of clients.
        """
        source, subject, reply, header_size, size, payload = message
        begin, end = frames.around_sid(subject, reply, header_size, size, payload)
        buffers, deliver = self._buffers, self._deliverer.deliver
        is_taken, clients = False, 0
        for clients, (target, group) in enumerate(groupby(subs, _client_of), start=1):  # noqa: B007
            mine = list(group)
            waiting_bytes = len(mine) * (len(payload) + DELIVERY_BYTES)
            if (
                target.congested
                or (source is not None and target is source and not source.connect.echo)
                or len(payload) > COPIED_BYTES_MAX
                or not all(map(_is_unchecked, mine))
            ):
                for sub in mine:
                    if deliver(message, sub):
                        is_taken = True
                buffers.add_waiting(waiting_bytes)
                continue
            is_taken = True
            target.out.append(frames.copies_of_message(begin, [*map(_tail_of, mine)], end))
            for sub in mine:
                sub.delivered += 1
            target.out_msgs += len(mine)
            target.out_bytes += len(mine) * len(payload)
            buffers.touch(target)
            buffers.add_waiting(waiting_bytes)
        return is_taken, clients


def _share() -> int:
    """The part of a slice that a line has before the next line has its turn."""
    return max(SLICE_DELIVERIES_MAX // LINES_PER_SLICE, 1)


_client_of: Final = attrgetter("client")
_is_unchecked: Final = attrgetter("unchecked")
_tail_of: Final = attrgetter("tail")


def has_plain_members(route: Route[Subscription]) -> bool:
    """Whether no receiver could tell a run from its messages one by one.

    All subscriptions are unchecked, and no client has two of them: it would see them take turns.
    """
    plain = route.plain
    if not route.groups and len(plain) <= 1:
        return not plain or plain[0].unchecked
    if route.fan_out > SLICE_DELIVERIES_MAX:
        # A look at all of them would take long.
        return False
    everyone = [*plain, *(sub for group in route.groups for sub in group)]
    return all(sub.unchecked for sub in everyone) and len({sub.client for sub in everyone}) == len(
        everyone
    )
