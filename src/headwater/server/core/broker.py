"""From a publish to the out-buffers of everyone who listens.

The broker routes whole segments. It looks a subject up once per message, or once per run, and
appends frames to each receiver's `out` list; at the end of the turn `server.core.out_buffers` joins
each list into one write. Nothing here waits, and payloads are not copied on the way: the object
that the decoder cut out is the one that is joined into every receiver's write.

There are two ways to a receiver. Unchecked subscriptions, nearly all, get their frame appended
right in the loop. Subscriptions with a limit, a filter, tracked replies, a client without headers
or a handler of the server itself go through `deliver`, which makes every check.
"""

from collections.abc import Callable, Sequence
from itertools import count, takewhile, zip_longest
from operator import methodcaller
from typing import Final, final

from headwater.base.clock import Clock
from headwater.base.entropy import Entropy
from headwater.go.quoting import quote_bytes
from headwater.runtime.environment import Scheduler
from headwater.server.core.accounts import Account
from headwater.server.core.budget import (
    CROWD_DELIVERIES_PER_UNIT,
    HEADER_PUBLISH_UNITS,
    PUBLISH_UNITS,
    REQUEST_UNITS,
    RUN_DELIVERIES_PER_UNIT,
    Budget,
)
from headwater.server.core.client import Client, Inlet, Subscription
from headwater.server.core.counters import Counters
from headwater.server.core.crowd import (
    SLICE_DELIVERIES_MAX,
    Crowds,
    Message,
    has_plain_members,
)
from headwater.server.core.frame_door import FrameDoor
from headwater.server.core.holding import Holding
from headwater.server.core.reserved_subjects import (
    ACK_FAMILY,
    ACK_PREFIX,
    RESERVED_REPLIES,
    RESERVED_SUBJECTS,
    has_beginning,
    is_reserved,
    is_reserved_reply,
)
from headwater.server.core.tracing import Tracer
from headwater.server.turn import Turn
from headwater.subjects.grammar import SEPARATOR, is_valid_literal
from headwater.subjects.index import Route
from headwater.wire import frames
from headwater.wire.batch import NO_HEADERS, Publishes, Run
from headwater.wire.frames import CRLF, HMSG, MSG, SPACE

# Fewer replies than this are not looked through for some that go to one requester.
_REPLIES_PARTED_MIN: Final = 32

# Payloads up to this size, on average, are copied into their frames: a copy takes less time than
# the pieces of a frame.
_COPIED_BYTES_MAX: Final = 2048

INVALID_PUBLISH_SUBJECT: Final = "Invalid Publish Subject"

# A publisher to a client that does not keep up waits this long after each read.
STALL_S: Final = 0.010


@final
class Broker:
    """The router of one server.

    `overflow` is called when more than `max_pending` bytes wait for a client, `resume` when a
    stalled publisher may go on.
    """

    __slots__ = (
        "_clock",
        "_entropy",
        "_open_inlet",
        "_resume",
        "_scheduler",
        "budget",
        "buffers",
        "counters",
        "crowds",
        "door",
        "holding",
        "stalls_publishers",
        "tracer",
        "turn",
    )

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        scheduler: Scheduler,
        tracer: Tracer,
        turn: Turn,
        resume: Callable[[Client], None],
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._scheduler = scheduler
        # The budget of the connection that is served now.
        self.budget = Budget()
        self._resume = resume
        self.tracer = tracer
        self.turn = turn
        self._open_inlet = turn.open_inlet
        self.buffers = turn.buffers
        self.holding = Holding(resume)
        self.crowds = Crowds(scheduler, self.buffers, self, self.holding)
        self.stalls_publishers = True
        self.counters = Counters()
        self.door = FrameDoor()

    # --- publishing ----------------------------------------------------------------------------

    def publish_many(self, source: Client, batch: Publishes, budget: Budget) -> Publishes | None:
        """Route publishes that share nothing but the read they came in.

        Returns the publishes for which the budget was too small.
        """
        self.budget = budget
        units = PUBLISH_UNITS if batch.header_sizes[0] < 0 else HEADER_PUBLISH_UNITS
        if len(batch.subjects) == 1 and not source.guarded:
            self._publish_one(source, batch)
            budget.units -= units
            return None
        rest: Publishes | None = None
        affordable = max(1, budget.units // units)
        if len(batch.subjects) > affordable:
            batch, rest = batch.split_at(affordable)
        taken = len(batch.subjects)
        if not source.guarded:
            if batch.subjects[0].startswith(ACK_PREFIX):
                batch = self._ingest_acks(source, batch)
            if len(batch.subjects) == 1:
                # A client acknowledges a message and asks for the next one.
                self._publish_one(source, batch)
                budget.charge(units * taken)
                return rest
            if not batch.subjects or (
                self._ingest_publishes(source, batch)
                or self._answer_requests(source, batch)
                or self._deliver_alike(source, batch)
            ):
                budget.charge(units * taken)
                return rest
        done = self._publish_each(source, batch)
        left = len(batch.subjects) - done
        budget.charge(units * (taken - left))
        if not left:
            return rest
        undone = batch.split_at(done)[1]
        return undone if rest is None else undone.followed_by(rest)

    def _publish_one(self, source: Client, batch: Publishes) -> None:
        """Route one publish of an unguarded client, as `publish_many` does, by one look-up."""
        subject, reply = batch.subjects[0], batch.replies[0]
        header_size, payload = batch.header_sizes[0], batch.payloads[0]
        if subject.startswith(RESERVED_SUBJECTS) or (
            reply is not None and reply.startswith(RESERVED_REPLIES)
        ):
            self._publish_each(source, batch)
            return
        index = source.account.index
        route: Route[Subscription] | None = None
        if subject.startswith(ACK_PREFIX) and b".." not in subject and subject[-1:] != SEPARATOR:
            route = index.match_below(ACK_FAMILY)
        if route is None:
            route = index.match(subject)
        sub = route.plain[0] if len(route.plain) == 1 and not route.groups else None
        if sub is not None:
            if sub.ingest is not None:
                self._gather(sub.ingest, source, batch, len(payload))
                return
            if not payload and sub.answer_all is not None and self._answer_requests(source, batch):
                return
        source.in_msgs += 1
        source.in_bytes += len(payload)
        message = source, subject, reply, header_size, batch.sizes[0], payload
        if sub is not None:
            delivered = self.deliver(message, sub)
        elif route.is_large:
            delivered = self._deliver_to_crowd(route, message, source)
        else:
            delivered = self._deliver_to_few(route, message)
        if not delivered and reply is not None and source.no_responders:
            self._answer_no_responders(source, subject, reply)

    def _publish_each(self, source: Client, batch: Publishes) -> int:
        """Route publishes one by one until the budget is spent; returns how many were routed."""
        account = source.account
        match = account.index.match
        guarded = source.guarded
        echo = source.connect.echo
        budget = self.budget
        source.in_msgs += len(batch.payloads)
        source.in_bytes += sum(map(len, batch.payloads))
        done = 0
        for done, subject, reply, header_size, size, payload in zip(  # noqa: B007
            count(1),
            batch.subjects,
            batch.replies,
            batch.header_sizes,
            batch.sizes,
            batch.payloads,
        ):
            if (
                guarded
                or subject.startswith(RESERVED_SUBJECTS)
                or (reply is not None and reply.startswith(RESERVED_REPLIES))
            ) and not self.may_publish(source, subject, reply):
                continue
            route = match(subject)
            delivered = False
            if route.is_large:
                message = source, subject, reply, header_size, size, payload
                delivered = self._deliver_to_crowd(route, message, source)
            else:
                for sub in route.plain:
                    target = sub.client
                    if sub.unchecked and not target.congested and (echo or target is not source):
                        if not target.dirty:
                            self.buffers.touch(target)
                        # As `frames.message_line`, without a call and without a copy.
                        kind = MSG if header_size < 0 else HMSG
                        if reply is None:
                            target.out += (kind, subject, sub.tail, size, CRLF, payload, CRLF)
                        else:
                            back = (reply, SPACE, size)
                            target.out += (kind, subject, sub.tail, *back, CRLF, payload, CRLF)
                        sub.delivered += 1
                        target.out_msgs += 1
                        target.out_bytes += len(payload)
                        delivered = True
                    elif sub.ingest is not None:
                        self._open_inlet(sub.ingest, source).add(
                            subject, reply, header_size, payload
                        )
                        delivered = True
                    elif self.deliver((source, subject, reply, header_size, size, payload), sub):
                        delivered = True
                for group in route.groups:
                    message = source, subject, reply, header_size, size, payload
                    if self.deliver_to_group(message, group):
                        delivered = True
            if not delivered and reply is not None and source.no_responders:
                self._answer_no_responders(source, subject, reply)
            if budget.units <= 0 or source.awaited:
                break
        undone = batch.payloads[done:]
        if undone:
            # They are counted when they are routed.
            source.in_msgs -= len(undone)
            source.in_bytes -= sum(map(len, undone))
        return done

    def _ingest_publishes(self, source: Client, batch: Publishes) -> bool:
        """Gather publishes that all go to one stream and nowhere else. Returns whether they do."""
        subjects = batch.subjects
        subject = subjects[0]
        match = source.account.index.match
        route = match(subject)
        if len(route.plain) != 1 or route.groups or route.plain[0].ingest is None:
            return False
        if subjects.count(subject) == len(subjects):
            if subject.startswith(RESERVED_SUBJECTS):
                return False
        elif {*map(match, subjects)} != {route} or has_beginning(RESERVED_SUBJECTS, subjects):
            return False
        if has_beginning(RESERVED_REPLIES, filter(None, batch.replies)):
            return False
        self._gather(route.plain[0].ingest, source, batch, sum(map(len, batch.payloads)))
        return True

    def _gather(self, ingest: Inlet, source: Client, batch: Publishes, size: int) -> None:
        """Add publishes, with `size` bytes, to the inlet of a stream, or of acknowledgements."""
        source.in_msgs += len(batch.payloads)
        source.in_bytes += size
        incoming = self._open_inlet(ingest, source)
        if incoming.subjects:
            incoming.add_all(batch.subjects, batch.replies, batch.header_sizes, batch.payloads)
        else:
            # Nobody else has the lists of the batch.
            incoming.subjects, incoming.replies = batch.subjects, batch.replies
            incoming.header_sizes, incoming.payloads = batch.header_sizes, batch.payloads

    def _ingest_acks(self, source: Client, batch: Publishes) -> Publishes:
        """Gather the acknowledgements at the beginning of a batch, by one look-up for all.

        Returns the rest of the batch, or the whole batch if one of them needs a check of its own.
        """
        route = source.account.index.match_below(ACK_FAMILY)
        if route is None or len(route.plain) != 1 or route.groups:
            return batch
        ingest = route.plain[0].ingest
        if ingest is None:
            return batch
        count = sum(1 for _ in takewhile(_is_ack, batch.subjects))
        row = b" ".join(batch.subjects[:count]) + b" "
        if b".." in row or b". " in row or batch.replies[:count].count(None) != count:
            # A subject is not valid, or a reply subject has to be checked.
            return batch
        if count == 1:
            # Mostly in front of a request for the next message.
            payload = batch.payloads[0]
            source.in_msgs += 1
            source.in_bytes += len(payload)
            inlet = self._open_inlet(ingest, source)
            inlet.add(batch.subjects[0], None, batch.header_sizes[0], payload)
            batch.drop(1)
            return batch
        acks, rest = batch.split_at(count)
        self._gather(ingest, source, acks, sum(map(len, acks.payloads)))
        return rest

    def _answer_requests(self, source: Client, batch: Publishes) -> bool:
        """Answer requests that all go to one service and nowhere else. Returns whether they do."""
        subjects, replies = batch.subjects, [reply for reply in batch.replies if reply is not None]
        if any(batch.payloads) or len(replies) != len(subjects):
            return False
        match = source.account.index.match
        route = match(subjects[0])
        if len(route.plain) != 1 or route.groups:
            return False
        sub = route.plain[0]
        if (
            sub.answer_all is None
            or any(match(subject) is not route for subject in subjects)
            or any(reply.startswith(RESERVED_REPLIES) for reply in replies)
        ):
            return False
        unanswered = sub.answer_all(subjects, replies)
        if unanswered is None:
            return False
        source.in_msgs += len(subjects)
        sub.delivered += len(subjects)
        if source.no_responders:
            for position in unanswered:
                self._answer_no_responders(source, subjects[position], replies[position])
        return True

    def _deliver_alike(self, source: Client, batch: Publishes) -> bool:
        """Deliver publishes without replies and headers that all go to one unchecked subscription.

        Returns whether they do.
        """
        subjects, payloads = batch.subjects, batch.payloads
        if any(batch.replies) or max(batch.header_sizes) >= 0:
            return False
        route = source.account.index.match_all(subjects)
        if route is None or len(route.plain) != 1 or route.groups:
            return False
        sub, size = route.plain[0], sum(map(len, payloads))
        target = sub.client
        if (
            not sub.unchecked
            or target.congested
            or (target is source and not source.connect.echo)
            or size > _COPIED_BYTES_MAX * len(payloads)
            or has_beginning(RESERVED_SUBJECTS, subjects)
        ):
            return False
        source.in_msgs += len(payloads)
        source.in_bytes += size
        self.buffers.touch(target)
        target.out += frames.published_messages(sub.tail, subjects, batch.sizes, payloads)
        sub.delivered += len(payloads)
        target.out_msgs += len(payloads)
        target.out_bytes += size
        return True

    def publish_run(self, source: Client, run: Run, budget: Budget) -> Publishes | Run | None:
        """Route publishes with one control line: one look-up, one join per receiver.

        The publishes are routed one by one if a receiver could tell the difference. Returns the
        publishes for which the budget was too small.
        """
        route: Route[Subscription] = source.account.index.match(run.subject)
        if (
            source.guarded
            or run.reply is not None
            or run.subject.startswith(RESERVED_SUBJECTS)
            or not has_plain_members(route)
        ):
            return self.publish_many(source, run.as_publishes(), budget)
        rest: Run | None = None
        deliveries = 1 + route.fan_out
        affordable = max(1, budget.units * RUN_DELIVERIES_PER_UNIT // deliveries)
        if len(run.payloads) > affordable:
            run, rest = run.split_at(affordable)
        payloads = run.payloads
        budget.charge(len(payloads) * deliveries // RUN_DELIVERIES_PER_UNIT)
        source.in_msgs += len(payloads)
        source.in_bytes += len(payloads) * len(payloads[0])
        encoded: dict[bytes, bytes] = {}
        for sub in route.plain:
            if self.may_deliver(source, sub, run.subject):
                self._deliver_run(source, sub, run, payloads, encoded)
        for group in route.groups:
            self._share_run(source, group, run)
        return rest

    def send(
        self,
        account: Account,
        subject: bytes,
        reply: bytes | None,
        payload: bytes,
        header: bytes = b"",
    ) -> None:
        """Deliver a message of the server itself, here and on other servers."""
        if account.remote is not None:
            account.remote.send(subject, reply, header, payload)
        self.send_here(account.index.match(subject), subject, reply, payload, header, subject)

    def send_here(
        self,
        route: Route[Subscription],
        subject: bytes,
        reply: bytes | None,
        payload: bytes,
        header: bytes,
        line: bytes,
    ) -> None:
        """Deliver a message of a server to subscriptions of clients of this one.

        Messages of one `line` do not overtake each other.
        """
        if not self.door.lets_pass(subject, reply):
            return
        if (
            reply is None
            and len(route.plain) == 1
            and not route.groups
            and not self.crowds.has_line(line)
        ):
            sub = route.plain[0]
            if sub.unchecked and not sub.client.congested:
                self.buffers.append_message(sub, subject, header, payload)
                return
        header_size = NO_HEADERS
        if header:
            header_size = len(header)
            payload = header + payload
        size = frames.size_tokens(header_size, len(payload))
        message = None, subject, reply, header_size, size, payload
        self.deliver_to_all(route, message, line)

    def forward(
        self,
        source: Client | None,
        account: Account,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        """Deliver a message here and on other servers, as if it had come on this subject."""
        if account.remote is not None:
            account.remote.relay(source, subject, reply, header_size, payload)
        size = frames.size_tokens(header_size, len(payload))
        message = source, subject, reply, header_size, size, payload
        if not self.deliver_to_all(account.index.match(subject), message, source or subject):
            self.report_unheard(message)

    def deliver_to_all(
        self, route: Route[Subscription], message: Message, line: Client | bytes
    ) -> bool:
        """Deliver to everyone on a route, with every check. Returns whether anybody got it."""
        if route.is_large or self.crowds.has_line(line):
            return self._deliver_to_crowd(route, message, line)
        return self._deliver_to_few(route, message)

    def _deliver_to_few(self, route: Route[Subscription], message: Message) -> bool:
        """Deliver to everyone on a route that is not large. Returns whether anybody got it."""
        delivered = False
        for sub in route.plain:
            if self.deliver(message, sub):
                delivered = True
        for group in route.groups:
            if self.deliver_to_group(message, group):
                delivered = True
        return delivered

    def _deliver_to_crowd(
        self, route: Route[Subscription], message: Message, line: Client | bytes
    ) -> bool:
        """Deliver to everyone on a large route.

        Returns whether anybody got the message, or may still get it.
        """
        source = message[0]
        causes = self.turn.causes if source is None else (source,)
        deliveries = min(route.fan_out, SLICE_DELIVERIES_MAX)
        self.budget.charge(deliveries // CROWD_DELIVERIES_PER_UNIT)
        return self.crowds.deliver(route, message, line, causes)

    def report_unheard(self, message: Message) -> None:
        """Answer a request that nobody took, if the requester wants to know."""
        source, subject, reply = message[:3]
        if reply is not None and source is not None and source.no_responders:
            self._answer_no_responders(source, subject, reply)

    def send_replies(
        self,
        account: Account,
        subjects: list[bytes],
        payloads: Sequence[bytes],
        headers: Sequence[bytes] = (),
    ) -> None:
        """Answer many requests, at reply subjects of clients; `headers` of all, or of none."""
        if account.remote is not None and subjects:
            account.remote.send_replies(subjects, payloads, headers)
            if not any(account.index.match(subject).fan_out for subject in subjects):
                return
        self._send_replies_here(account, subjects, payloads, headers)

    def _send_replies_here(
        self,
        account: Account,
        subjects: list[bytes],
        payloads: Sequence[bytes],
        headers: Sequence[bytes],
    ) -> None:
        route = account.index.match_all(subjects) if subjects else None
        if route is not None and len(route.plain) == 1 and not route.groups:
            sub = route.plain[0]
            if sub.unchecked and not sub.client.congested and not self.crowds.lines:
                self.buffers.append_messages(sub, subjects, payloads, headers)
                return
        if len(subjects) >= _REPLIES_PARTED_MIN:
            # The replies of a turn come requester by requester: a half may be of one requester.
            half = len(subjects) // 2
            self._send_replies_here(account, subjects[:half], payloads[:half], headers[:half])
            self._send_replies_here(account, subjects[half:], payloads[half:], headers[half:])
            return
        for subject, payload, header in zip_longest(subjects, payloads, headers, fillvalue=b""):
            route = account.index.match(subject)
            self.send_here(route, subject, None, payload, header, subject)

    def send_reply(
        self, account: Account, subject: bytes, payload: bytes, header: bytes = b""
    ) -> None:
        """Answer one request: `send_replies` in fewer steps."""
        if account.remote is not None:
            account.remote.send(subject, None, header, payload)
        route = account.index.match(subject)
        if len(route.plain) == 1 and not route.groups and not self.crowds.lines:
            sub = route.plain[0]
            if sub.unchecked and not sub.client.congested:
                self.buffers.append_message(sub, subject, header, payload)
                return
        self.send_here(route, subject, None, payload, header, subject)

    def send_messages(
        self,
        account: Account,
        subjects: list[bytes],
        replies: Sequence[bytes],
        headers: list[bytes],
        payloads: list[bytes],
        to: bytes,
    ) -> None:
        """Deliver messages of a stream, under their own subjects, to subscribers at `to`."""
        route = account.index.match(to)
        taker = route.plain[0].take_stored if len(route.plain) == 1 else None
        if taker is not None and not route.groups and account.remote is None:
            taker(subjects, replies, headers, payloads)
            return
        replies = [*replies]
        if account.remote is not None:
            account.remote.send_messages(subjects, replies, headers, payloads, to)
        if len(route.plain) == 1 and not route.groups and not self.crowds.has_line(to):
            sub = route.plain[0]
            if sub.unchecked and not sub.client.congested and self.door.lets_all_pass(subjects):
                self.buffers.append_stored(sub, subjects, replies, headers, payloads)
                return
            if sub.ingest is not None and self.door.lets_all_pass(subjects):
                inlet = self.turn.open_inlet(sub.ingest, None)
                inlet.add_stored(subjects, replies, headers, payloads)
                return
        for subject, reply, header, payload in zip(
            subjects, replies, headers, payloads, strict=True
        ):
            self.send_here(route, subject, reply, payload, header, to)

    def is_unread(self, account: Account, to: bytes) -> bool:
        """Whether subscribers at `to` have so much to read that they get no more for now."""
        if account.remote is not None and account.remote.is_behind(to):
            return True
        return self.crowds.is_unread(account.index.match(to), to)

    # --- admission -----------------------------------------------------------------------------

    def may_publish(self, source: Client, subject: bytes, reply: bytes | None) -> bool:
        """Whether a publisher may send a message; if not, it has been sent an error."""
        if source.connect.pedantic and not is_valid_literal(subject):
            self.send_error(source, INVALID_PUBLISH_SUBJECT)
        permissions = source.permissions
        if is_reserved(subject, source.is_system) or (
            permissions is not None
            and permissions.restricts_publishing
            and not permissions.may_publish(subject, self._clock.monotonic_ns())
        ):
            self.send_error(source, f"Permissions Violation for Publish to {quote_bytes(subject)}")
            return False
        if reply is not None and is_reserved_reply(reply):
            self.send_error(
                source, f"Permissions Violation for Publish with Reply of {quote_bytes(reply)}"
            )
            return False
        if source.connect.verbose:
            self.queue_frame(source, frames.OK)
        return True

    def send_error(self, client: Client, text: str) -> None:
        """Send -ERR without closing."""
        self.queue_frame(client, frames.error(text))

    # --- one receiver --------------------------------------------------------------------------

    def deliver(self, message: Message, sub: Subscription) -> bool:
        """Deliver one message to one subscription, with every check. Returns whether it took it."""
        source, subject, reply, header_size, size, payload = message
        target = sub.client
        if sub.unchecked and not target.congested and target is not source:
            # The checks below would find nothing.
            if not target.dirty:
                self.buffers.touch(target)
            line = frames.message_line(subject, sub.sid, reply, header_size, size)
            target.out += (line, payload, CRLF)
            sub.delivered += 1
            target.out_msgs += 1
            target.out_bytes += len(payload)
            return True
        if not self.may_deliver(source, sub, subject):
            return False
        if target.congested and self._drops_messages_to(target):
            return False
        sub.delivered += 1
        if sub.limit and sub.delivered >= sub.limit:
            self.end_subscription(sub)
        if sub.handler is not None:
            began_ns = self._clock.monotonic_ns()
            turn = self.turn
            causes = turn.causes
            if source is not None:
                turn.causes = (source,)
            try:
                taken = sub.handler(source, subject, reply, header_size, payload)
            finally:
                turn.causes = causes
            self.budget.charge_time(self._clock.monotonic_ns() - began_ns, REQUEST_UNITS)
            return taken is not False
        if sub.ingest is not None:
            self._open_inlet(sub.ingest, source).add(subject, reply, header_size, payload)
            return True
        if header_size >= 0 and not target.headers:
            payload = payload[header_size:]
            header_size = NO_HEADERS
            size = frames.size_tokens(header_size, len(payload))
        permissions = target.permissions
        if reply is not None and permissions is not None and permissions.tracks_replies:
            permissions.delivered_reply(reply, self._clock.monotonic_ns())
        line = frames.message_line(subject, sub.sid, reply, header_size, size)
        if target.traced:
            self.tracer.delivered(target, line, header_size, payload)
        target.out += (line, payload, CRLF)
        target.out_msgs += 1
        target.out_bytes += len(payload)
        self.buffers.touch(target)
        if target.congested and source is not None:
            self.stall_publisher(source)
        return True

    def end_subscription(self, sub: Subscription) -> None:
        """End a subscription of a client that stays."""
        client = sub.client
        if client.traced:
            self.tracer.unsubscribed(sub)
        if client.subscriptions.pop(sub.sid, None) is not None:
            sub.end()
            client.account.index.remove(sub.subject, sub.queue, sub)
            client.account.unsubscribed(sub.subject, sub.queue)

    def may_deliver(self, source: Client | None, sub: Subscription, subject: bytes) -> bool:
        target = sub.client
        if target.close_reason or (sub.limit and sub.limit <= sub.delivered):
            # Routes that were handed out before it ended still have the subscription.
            return False
        if target is source and not source.connect.echo and sub.handler is None:
            return False
        permissions = target.permissions
        return (
            permissions is None
            or not permissions.filters_deliveries
            or permissions.may_receive(subject, sub.queue)
        )

    def deliver_to_group(self, message: Message, group: list[Subscription]) -> bool:
        """Deliver to a random member of a queue group that takes the message.

        Returns whether one took it.
        """
        count = len(group)
        first = self._entropy.below(count) if count > 1 else 0
        for step in range(count):
            sub = group[(first + step) % count]
            if self.deliver(message, sub):
                return True
        return False

    def _deliver_run(
        self,
        source: Client,
        sub: Subscription,
        run: Run,
        payloads: list[bytes],
        encoded: dict[bytes, bytes],
    ) -> None:
        """Append a run, or a part of one, to an unchecked subscription."""
        target = sub.client
        if target.congested:
            if self._drops_messages_to(target):
                return
            self.stall_publisher(source)
        data = encoded.get(sub.sid)
        if data is None:
            data = encoded[sub.sid] = frames.run_of_messages(run, sub.sid, payloads)
        target.out.append(data)
        sub.delivered += len(payloads)
        target.out_msgs += len(payloads)
        target.out_bytes += len(payloads) * len(payloads[0])
        self.buffers.touch(target)

    def _share_run(self, source: Client, group: list[Subscription], run: Run) -> None:
        """Spread a run over a queue group: each message goes to a random member."""
        able = [sub for sub in group if self.may_deliver(source, sub, run.subject)]
        if not able:
            return
        if len(able) == 1:
            self._deliver_run(source, able[0], run, run.payloads, {})
            return
        count = len(able)
        below = self._entropy.below
        shares: list[list[bytes]] = [[] for _ in able]
        for payload in run.payloads:
            shares[below(count)].append(payload)
        for sub, share in zip(able, shares, strict=True):
            if share:
                self._deliver_run(source, sub, run, share, {})

    def _answer_no_responders(self, source: Client, subject: bytes, reply: bytes) -> None:
        remote = source.account.remote
        if remote is not None and remote.hears(subject):
            return
        for sub in source.account.index.match(reply).plain:
            if sub.client is source and not source.close_reason:
                self.queue_frame(source, frames.no_responders(reply, sub.sid, subject))
                return

    # --- out-buffers ---------------------------------------------------------------------------

    def queue_frame(self, client: Client, data: bytes) -> None:
        """Queue a frame that is not a message for a client."""
        if not client.close_reason:
            if client.traced:
                self.tracer.told(client, data)
            client.out.append(data)
            self.buffers.touch(client)

    def _drops_messages_to(self, target: Client) -> bool:
        """Whether messages to a client that does not keep up are dropped instead of queued."""
        if self.stalls_publishers:
            return False
        target.congested = self.buffers.is_congested(target)
        return target.congested

    def stall_publisher(self, source: Client) -> None:
        """Read no more from a publisher for a moment, so that its receivers can catch up."""
        if source.is_stalled or not self.stalls_publishers or source.close_reason:
            return
        self.counters.stalled_clients += 1
        source.connection.pause_reading()
        source.timers.stall = self._scheduler.call_later(STALL_S, lambda: self._end_stall(source))

    def _end_stall(self, source: Client) -> None:
        source.timers.stall = None
        self._resume(source)


_is_ack: Final = methodcaller("startswith", ACK_PREFIX)
