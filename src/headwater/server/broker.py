"""From a publish to the out-buffers of everyone who listens.

The broker takes whole segments. It looks a subject up once per message, or once per run, appends
encoded frames to each receiver's `out` list and remembers who became dirty; at the end of the turn
`flush` joins each list into one write. Nothing here waits, and nothing is copied on the way: the
payload object that the decoder cut out is the one that is joined into every receiver's write.

Bounds: what one turn makes for a client is written in parts where it is much, and large fan-outs
are written before the turn ends, so that `max_pending` ends a client with thousands of equal
subscriptions before its copies of a message fill the memory.

Two ways to a receiver. `plain` subscriptions, nearly all, get their frame appended right in the
loop. Those with a limit, a filter, tracked replies, a client without headers or a handler of the
server's own go through `_deliver`, which looks at everything.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile, zip_longest
from typing import Final, final

from headwater.base.clock import Clock
from headwater.base.entropy import Entropy
from headwater.base.quoting import quote_bytes
from headwater.jetstream.decision import Incoming
from headwater.runtime.environment import Scheduler
from headwater.server.accounts import Account
from headwater.server.client import Client, Subscription
from headwater.server.ingest import Ingest
from headwater.server.tracing import Tracer
from headwater.subjects.grammar import is_valid_literal
from headwater.subjects.index import Route
from headwater.wire import encoder
from headwater.wire.batch import NO_HEADERS, Publishes, Run

CRLF: Final = b"\r\n"
_MSG: Final = b"MSG "
_HMSG: Final = b"HMSG "
_SPACE: Final = b" "

# Subjects clients may not publish to, and replies they may not name: servers use them.
_GATEWAY_PREFIX: Final = b"_GR_."
_RAFT_PREFIX: Final = b"$NRG."
_SERVICE_REPLY_PREFIX: Final = b"_R_."
# Fewer replies than this are not looked through for some that go to one requester.
_REPLIES_PARTED_MIN: Final = 32
_ACK_FAMILY: Final = b"$JS.ACK"
_ACK_PREFIX: Final = _ACK_FAMILY + b"."
_RESERVED_SUBJECTS: Final = (_GATEWAY_PREFIX, _RAFT_PREFIX)
_RESERVED_REPLIES: Final = (_SERVICE_REPLY_PREFIX, _ACK_PREFIX, _GATEWAY_PREFIX)

INVALID_PUBLISH_SUBJECT: Final = "Invalid Publish Subject"

# A publisher to a client that does not keep up waits this long after each read.
STALL_S: Final = 0.010

# More than this for one client is written in several parts, each checked against `max_pending`:
# bytes of payload, or pieces of frames, of which no other is longer than a control line.
WRITE_BYTES_MAX: Final = 8 * 1024 * 1024
WRITE_PIECES_MAX: Final = 128 * 1024
# What large fan-outs may let wait for the end of the turn: payloads, and what each delivery takes
# besides. Small ones are bounded by the read that brought them.
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
_DELIVERY_BYTES: Final = 64
# Who has more than this part of `max_pending` to read is behind, and is looked at again after this.
UNREAD_PART: Final = 4
UNREAD_LOOK_S: Final = 0.005


@final
class Counters:
    """Messages and bytes through this server since it started."""

    __slots__ = ("in_bytes", "in_msgs", "out_bytes", "out_msgs", "stalled_clients")

    def __init__(self) -> None:
        self.in_msgs = 0
        self.in_bytes = 0
        self.out_msgs = 0
        self.out_bytes = 0
        self.stalled_clients = 0


@final
class Broker:
    """The router of one server.

    `unsubscribe` is called when a subscription reaches its limit, `overflow` when more waits for a
    client than `max_pending`.
    """

    __slots__ = (
        "_clock",
        "_dirty",
        "_entropy",
        "_flush_planned",
        "_ingests",
        "_last_works",
        "_overflow",
        "_scheduler",
        "_unsubscribe",
        "counters",
        "max_pending",
        "stalls_publishers",
        "tracer",
    )

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        scheduler: Scheduler,
        tracer: Tracer,
        max_pending: int,
        unsubscribe: Callable[[Subscription], None],
        overflow: Callable[[Client], None],
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._scheduler = scheduler
        self._unsubscribe = unsubscribe
        self._overflow = overflow
        self._dirty: list[Client] = []
        self._flush_planned = False
        # Streams that were published to in this turn.
        self._ingests: list[Ingest] = []
        # What is done when everything that came in this turn has been taken in.
        self._last_works: list[Callable[[], object]] = []
        self.tracer = tracer
        self.max_pending = max_pending
        self.stalls_publishers = True
        self.counters = Counters()

    # --- publishing ----------------------------------------------------------------------------

    def publish_many(self, source: Client, batch: Publishes) -> None:
        """Route publishes that share nothing but the read they came in."""
        if not source.guarded:
            if batch.subjects[0].startswith(_ACK_PREFIX):
                batch = self._ingest_acks(source, batch)
            if not batch.subjects:
                return
            if self._ingest_all(source, batch) or self._request_all(source, batch):
                return
        self._publish_each(source, batch)

    def _publish_each(self, source: Client, batch: Publishes) -> None:
        account = source.account
        match = account.index.match
        guarded = source.guarded
        echo = source.connect.echo
        waiting_bytes = 0
        self._count_in(source, len(batch.payloads), sum(map(len, batch.payloads)))
        for subject, reply, header_size, size, payload in zip(
            batch.subjects,
            batch.replies,
            batch.header_sizes,
            batch.sizes,
            batch.payloads,
            strict=True,
        ):
            if (
                guarded
                or subject.startswith(_RESERVED_SUBJECTS)
                or (reply is not None and reply.startswith(_RESERVED_REPLIES))
            ) and not self._admits(source, subject, reply):
                continue
            route = match(subject)
            delivered = False
            for sub in route.plain:
                target = sub.client
                if sub.plain and not target.congested and (echo or target is not source):
                    if not target.dirty:
                        self.touch(target)
                    kind = _MSG if header_size < 0 else _HMSG
                    if reply is None:
                        target.out += (kind, subject, sub.tail, size, CRLF, payload, CRLF)
                    else:
                        back = (reply, _SPACE, size)
                        target.out += (kind, subject, sub.tail, *back, CRLF, payload, CRLF)
                    sub.delivered += 1
                    target.out_msgs += 1
                    target.out_bytes += len(payload)
                    delivered = True
                elif sub.ingest is not None:
                    self._ingest(sub.ingest).add(subject, reply, header_size, payload)
                    delivered = True
                elif self._deliver(source, sub, subject, reply, header_size, size, payload):
                    delivered = True
            for group in route.groups:
                if self._deliver_to_one(source, group, subject, reply, header_size, size, payload):
                    delivered = True
            if not delivered and reply is not None and source.no_responders:
                self._answer_no_responders(source, subject, reply)
            if route.is_large:
                waiting_bytes += route.fan_out * (len(payload) + _DELIVERY_BYTES)
                if waiting_bytes > WAITING_BYTES_MAX:
                    waiting_bytes = 0
                    self.flush()
                    if source.close_reason:
                        return

    def _ingest_all(self, source: Client, batch: Publishes) -> bool:
        """Hand over publishes that all go to one stream and nowhere else; whether they do."""
        subjects = batch.subjects
        subject = subjects[0]
        route = source.account.index.match(subject)
        if len(route.plain) != 1 or route.groups or route.plain[0].ingest is None:
            return False
        ingest = route.plain[0].ingest
        if subjects.count(subject) != len(subjects) or subject.startswith(_RESERVED_SUBJECTS):
            return False
        for reply in batch.replies:
            if reply is not None and reply.startswith(_RESERVED_REPLIES):
                return False
        self._count_in(source, len(subjects), sum(map(len, batch.payloads)))
        self._ingest(ingest).add_all(subjects, batch.replies, batch.header_sizes, batch.payloads)
        return True

    def _ingest_acks(self, source: Client, batch: Publishes) -> Publishes:
        """Hand over the acknowledgements that come first, which are found by one look-up.

        Returns what is left: what comes after them, or all where one of them needs a look.
        """
        route = source.account.index.match_below(_ACK_FAMILY)
        if route is None or len(route.plain) != 1 or route.groups:
            return batch
        ingest = route.plain[0].ingest
        if ingest is None:
            return batch
        count = sum(1 for _ in takewhile(_is_ack, batch.subjects))
        acks, rest = batch.parted(count)
        row = b" ".join(acks.subjects) + b" "
        if b".." in row or b". " in row or acks.replies.count(None) != len(acks.replies):
            # Some have no valid subject, or who waits for an answer may not have it there.
            return batch
        self._count_in(source, count, sum(map(len, acks.payloads)))
        self._ingest(ingest).add_all(acks.subjects, acks.replies, acks.header_sizes, acks.payloads)
        return rest

    def _request_all(self, source: Client, batch: Publishes) -> bool:
        """Hand over requests that all go to one service and nowhere else; whether they do."""
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
            or any(reply.startswith(_RESERVED_REPLIES) for reply in replies)
        ):
            return False
        unanswered = sub.answer_all(subjects, replies)
        if unanswered is None:
            return False
        self._count_in(source, len(subjects), 0)
        sub.delivered += len(subjects)
        if source.no_responders:
            for position in unanswered:
                self._answer_no_responders(source, subjects[position], replies[position])
        return True

    def _ingest(self, ingest: Ingest) -> Incoming:
        """The inlet of a stream, which is processed when the turn ends."""
        if not ingest.waiting:
            ingest.waiting = True
            self._ingests.append(ingest)
            self._plan_flush()
        return ingest.incoming

    def do_last(self, work: Callable[[], object]) -> None:
        """Have something done when everything that came in this turn has been taken in."""
        self._last_works.append(work)
        self._plan_flush()

    def process_ingests(self) -> None:
        """Take what was published to streams in this turn into them."""
        while self._ingests:
            ingests = self._ingests
            self._ingests = []
            done = 0
            try:
                for ingest in ingests:
                    done += 1
                    ingest.process()
            finally:
                # A bug that shows at one stream must not silence the rest.
                if done < len(ingests):
                    self._ingests = ingests[done:] + self._ingests
                    self._plan_flush()

    def publish_run(self, source: Client, run: Run) -> None:
        """Route publishes with one control line: one look-up, one join per receiver.

        Where it could show that they are not routed one by one, they are.
        """
        route: Route[Subscription] = source.account.index.match(run.subject)
        if (
            source.guarded
            or run.reply is not None
            or run.subject.startswith(_RESERVED_SUBJECTS)
            or not _is_simple(route)
        ):
            self.publish_many(source, run.spread())
            return
        payloads = run.payloads
        self._count_in(source, len(payloads), len(payloads) * len(payloads[0]))
        encoded: dict[bytes, bytes] = {}
        for sub in route.plain:
            if self._accepts(source, sub, run.subject):
                self._deliver_run(source, sub, run, payloads, encoded)
        for group in route.groups:
            self._share_run(source, group, run)

    def send(
        self,
        account_route: Route[Subscription],
        subject: bytes,
        reply: bytes | None,
        payload: bytes,
        header: bytes = b"",
    ) -> bool:
        """Deliver a message of the server's own."""
        if reply is None and len(account_route.plain) == 1 and not account_route.groups:
            sub = account_route.plain[0]
            if sub.plain and not sub.client.congested:
                self._send_all(sub, (subject,), (payload,), (header,) if header else ())
                return True
        header_size = NO_HEADERS
        size = b"%d" % len(payload)
        if header:
            header_size = len(header)
            payload = header + payload
            size = b"%d %d" % (header_size, len(payload))
        return self._deliver_to_all(None, account_route, subject, reply, header_size, size, payload)

    def forward(
        self,
        source: Client | None,
        account: Account,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        """Deliver a message that came on another subject, as if it had come on this one."""
        size = b"%d" % len(payload)
        if header_size >= 0:
            size = b"%d %d" % (header_size, len(payload))
        route = account.index.match(subject)
        delivered = self._deliver_to_all(source, route, subject, reply, header_size, size, payload)
        if not delivered and reply is not None and source is not None and source.no_responders:
            self._answer_no_responders(source, subject, reply)

    def _deliver_to_all(
        self,
        source: Client | None,
        route: Route[Subscription],
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        size: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver to everyone on a route, looking at everything; whether anybody got it."""
        delivered = False
        for sub in route.plain:
            if self._deliver(source, sub, subject, reply, header_size, size, payload):
                delivered = True
        for group in route.groups:
            if self._deliver_to_one(source, group, subject, reply, header_size, size, payload):
                delivered = True
        return delivered

    def send_replies(
        self,
        account: Account,
        subjects: list[bytes],
        payloads: Sequence[bytes],
        headers: Sequence[bytes] = (),
    ) -> None:
        """Deliver many messages of the server's own, such as acks; `headers` of all, or of none."""
        index = account.index
        count = len(subjects)
        if count > 1:
            route = index.match_all(subjects)
            if route is not None and len(route.plain) == 1 and not route.groups:
                sub = route.plain[0]
                if sub.plain and not sub.client.congested:
                    self._send_all(sub, subjects, payloads, headers)
                    return
        if count >= _REPLIES_PARTED_MIN:
            # The replies of a turn come requester by requester: halves may be of one each.
            half = count // 2
            self.send_replies(account, subjects[:half], payloads[:half], headers[:half])
            self.send_replies(account, subjects[half:], payloads[half:], headers[half:])
            return
        for subject, payload, header in zip_longest(subjects, payloads, headers, fillvalue=b""):
            self.send(index.match(subject), subject, None, payload, header)

    def _send_all(
        self,
        sub: Subscription,
        subjects: Sequence[bytes],
        payloads: Sequence[bytes],
        headers: Sequence[bytes],
    ) -> None:
        """Append many messages to one plain subscription."""
        target = sub.client
        self.touch(target)
        tail = sub.tail
        if headers:
            target.out += [
                b"HMSG %b%b%d %d\r\n%b%b\r\n"
                % (subject, tail, len(header), len(header) + len(payload), header, payload)
                for subject, header, payload in zip(subjects, headers, payloads, strict=True)
            ]
        else:
            target.out += [
                b"MSG %b%b%d\r\n%b\r\n" % (subject, tail, len(payload), payload)
                for subject, payload in zip(subjects, payloads, strict=True)
            ]
        sub.delivered += len(subjects)
        target.out_msgs += len(subjects)
        target.out_bytes += sum(map(len, payloads)) + sum(map(len, headers))

    def send_messages(
        self,
        route: Route[Subscription],
        subjects: list[bytes],
        replies: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
    ) -> None:
        """Deliver messages of a stream to whoever is on a route, under their own subjects."""
        if len(route.plain) == 1 and not route.groups:
            sub = route.plain[0]
            if sub.plain and not sub.client.congested:
                self._send_stored(sub, subjects, replies, headers, payloads)
                return
        for subject, reply, header, payload in zip(
            subjects, replies, headers, payloads, strict=True
        ):
            self.send(route, subject, reply, payload, header)

    def _send_stored(
        self,
        sub: Subscription,
        subjects: list[bytes],
        replies: list[bytes],
        headers: list[bytes],
        payloads: list[bytes],
    ) -> None:
        """Append messages of a stream to one plain subscription."""
        target = sub.client
        self.touch(target)
        target.out.append(encoder.stored_messages(sub.tail, subjects, replies, headers, payloads))
        sub.delivered += len(subjects)
        target.out_msgs += len(subjects)
        target.out_bytes += sum(map(len, payloads)) + sum(map(len, headers))

    def is_behind(self, client: Client) -> bool:
        """Whether a client has so much to read that it should get no more than it must."""
        return client.connection.buffered_bytes() > self.unread_bytes_max

    @property
    def unread_bytes_max(self) -> int:
        """What a client may have to read without being behind."""
        return self.max_pending // UNREAD_PART

    # --- admission -----------------------------------------------------------------------------

    def _admits(self, source: Client, subject: bytes, reply: bytes | None) -> bool:
        """Whether the publisher may send this; if not it has been told."""
        if source.connect.pedantic and not is_valid_literal(subject):
            self.refuse(source, INVALID_PUBLISH_SUBJECT)
        permissions = source.permissions
        if _is_reserved(subject, source.is_system) or (
            permissions is not None
            and permissions.restricts_publishing
            and not permissions.may_publish(subject, self._clock.monotonic_ns())
        ):
            self.refuse(source, f"Permissions Violation for Publish to {quote_bytes(subject)}")
            return False
        if reply is not None and _is_reserved_reply(reply):
            self.refuse(
                source, f"Permissions Violation for Publish with Reply of {quote_bytes(reply)}"
            )
            return False
        if source.connect.verbose:
            self.tell(source, encoder.OK)
        return True

    def refuse(self, client: Client, text: str) -> None:
        """Send -ERR without closing."""
        self.tell(client, encoder.error(text))

    # --- one receiver --------------------------------------------------------------------------

    def _deliver(
        self,
        source: Client | None,
        sub: Subscription,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        size: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver one message to one subscription, looking at everything."""
        if not self._accepts(source, sub, subject):
            return False
        target = sub.client
        if target.congested and self._drops(target):
            return False
        sub.delivered += 1
        if sub.limit and sub.delivered >= sub.limit:
            self._unsubscribe(sub)
        if sub.handler is not None:
            return sub.handler(source, subject, reply, header_size, payload) is not False
        if sub.ingest is not None:
            self._ingest(sub.ingest).add(subject, reply, header_size, payload)
            return True
        if header_size >= 0 and not target.headers:
            payload = payload[header_size:]
            size = b"%d" % len(payload)
            header_size = NO_HEADERS
        if reply is not None and target.permissions is not None:
            self._track_reply(target, reply)
        kind = b"MSG" if header_size < 0 else b"HMSG"
        line = encoder.message_line(kind, subject, sub.sid, reply, size)
        if target.traced:
            self.tracer.delivered(target, line, header_size, payload)
        target.out += (line, payload, CRLF)
        target.out_msgs += 1
        target.out_bytes += len(payload)
        self.touch(target)
        if target.congested and source is not None:
            self._stall(source)
        return True

    def _accepts(self, source: Client | None, sub: Subscription, subject: bytes) -> bool:
        target = sub.client
        if target.close_reason or 0 < sub.limit <= sub.delivered:
            # Whoever has it on a route in hand may not know that it is gone.
            return False
        if target is source and not source.connect.echo and sub.handler is None:
            return False
        permissions = target.permissions
        return (
            permissions is None
            or not permissions.filters_deliveries
            or permissions.may_receive(subject, sub.queue)
        )

    def _deliver_to_one(
        self,
        source: Client | None,
        group: list[Subscription],
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        size: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver to one member of a queue group, chosen by dice among those that can take it."""
        count = len(group)
        first = self._entropy.below(count) if count > 1 else 0
        for step in range(count):
            sub = group[(first + step) % count]
            if self._deliver(source, sub, subject, reply, header_size, size, payload):
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
        """Append a run, or its share of one, to a plain subscription that accepts it."""
        target = sub.client
        if target.congested:
            if self._drops(target):
                return
            self._stall(source)
        data = encoded.get(sub.sid)
        if data is None:
            data = encoded[sub.sid] = _encode_run(run, sub, payloads)
        target.out.append(data)
        sub.delivered += len(payloads)
        target.out_msgs += len(payloads)
        target.out_bytes += len(payloads) * len(payloads[0])
        self.touch(target)

    def _share_run(self, source: Client, group: list[Subscription], run: Run) -> None:
        """Spread a run over a queue group; each message goes to one member."""
        able = [sub for sub in group if self._accepts(source, sub, run.subject)]
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

    def _track_reply(self, target: Client, reply: bytes) -> None:
        permissions = target.permissions
        if permissions is not None and permissions.tracks_replies:
            permissions.delivered_reply(reply, self._clock.monotonic_ns())

    def _answer_no_responders(self, source: Client, subject: bytes, reply: bytes) -> None:
        for sub in source.account.index.match(reply).plain:
            if sub.client is source and not source.close_reason:
                self.tell(source, encoder.no_responders(reply, sub.sid, subject))
                return

    # --- out-buffers ---------------------------------------------------------------------------

    def tell(self, client: Client, data: bytes) -> None:
        """Queue protocol bytes for a client."""
        if not client.close_reason:
            if client.traced:
                self.tracer.told(client, data)
            client.out.append(data)
            self.touch(client)

    def touch(self, client: Client) -> None:
        """Remember that a client has bytes to write this turn."""
        if client.dirty:
            return
        client.dirty = True
        self._dirty.append(client)
        self._plan_flush()

    def _plan_flush(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._scheduler.call_soon(self.flush)

    def flush(self) -> None:
        """Write what this turn produced: one write per client."""
        self._flush_planned = False
        try:
            self.process_ingests()
            while self._last_works:
                self._last_works.pop(0)()
                self.process_ingests()
        finally:
            # A bug that shows at one of them must not silence the rest.
            if self._last_works:
                self._plan_flush()
            self._flush_dirty()

    def _flush_dirty(self) -> None:
        dirty = self._dirty
        self._dirty = []
        done = 0
        try:
            for client in dirty:
                done += 1
                self.flush_client(client)
        finally:
            # A bug that shows at one client must not silence the rest.
            if done < len(dirty):
                self._dirty = dirty[done:] + self._dirty
                self._plan_flush()

    def flush_client(self, client: Client) -> None:
        """Write what one client has waiting."""
        client.dirty = False
        pieces = client.out
        payload_bytes = client.out_bytes - client.written_bytes
        client.written_bytes = client.out_bytes
        if payload_bytes > WRITE_BYTES_MAX or len(pieces) > WRITE_PIECES_MAX:
            client.out = []
            self._write_in_parts(client, pieces)
            return
        data = b"".join(pieces)
        pieces.clear()
        if data and not client.close_reason:
            self._write(client, data)

    def _write_in_parts(self, client: Client, pieces: list[bytes]) -> None:
        part: list[bytes] = []
        size = 0
        for piece in pieces:
            part.append(piece)
            size += len(piece)
            if size > WRITE_BYTES_MAX:
                if client.close_reason:
                    return
                self._write(client, b"".join(part))
                part.clear()
                size = 0
        if part and not client.close_reason:
            self._write(client, b"".join(part))

    def _write(self, client: Client, data: bytes) -> None:
        connection = client.connection
        connection.write(data)
        buffered = connection.buffered_bytes()
        if buffered > self.max_pending:
            self._overflow(client)
        else:
            client.congested = self._is_congested(buffered)

    def drained(self, client: Client) -> None:
        """A client has read what was queued for it."""
        client.congested = False

    def _drops(self, target: Client) -> bool:
        """Whether a message to a client that does not keep up is dropped instead of waiting."""
        if self.stalls_publishers:
            return False
        target.congested = self._is_congested(target.connection.buffered_bytes())
        return target.congested

    def _is_congested(self, buffered_bytes: int) -> bool:
        return buffered_bytes > self.max_pending // 4 * 3

    def _stall(self, source: Client) -> None:
        """Read no more from a publisher for a moment, so that its receivers can catch up."""
        if source.stalled or not self.stalls_publishers or source.close_reason:
            return
        source.stalled = True
        self.counters.stalled_clients += 1
        source.connection.pause_reading()
        source.stall_timer = self._scheduler.call_later(STALL_S, lambda: self._resume(source))

    def _resume(self, source: Client) -> None:
        source.stalled = False
        source.stall_timer = None
        if not source.close_reason and not source.authenticating:
            source.connection.resume_reading()

    def _count_in(self, source: Client, messages: int, size: int) -> None:
        source.in_msgs += messages
        source.in_bytes += size
        self.counters.in_msgs += messages
        self.counters.in_bytes += size
        source.account.in_msgs += messages
        source.account.in_bytes += size


def _is_simple(route: Route[Subscription]) -> bool:
    """Whether nobody on the route could tell a run from its messages one by one.

    All are plain, and no client is on it twice, which would see its two subscriptions take turns.
    """
    plain = route.plain
    if not route.groups and len(plain) <= 1:
        return not plain or plain[0].plain
    everyone = [*plain, *(sub for group in route.groups for sub in group)]
    return all(sub.plain for sub in everyone) and len({sub.client for sub in everyone}) == len(
        everyone
    )


def _is_ack(subject: bytes) -> bool:
    return subject.startswith(_ACK_PREFIX)


def _is_reserved(subject: bytes, is_system: bool) -> bool:
    if len(subject) > len(_GATEWAY_PREFIX) and subject.startswith(_GATEWAY_PREFIX):
        return True
    return subject.startswith(_RAFT_PREFIX) and not is_system


def _is_reserved_reply(reply: bytes) -> bool:
    if reply.startswith(_SERVICE_REPLY_PREFIX):
        return True
    return any(
        len(reply) > len(prefix) and reply.startswith(prefix)
        for prefix in (_ACK_PREFIX, _GATEWAY_PREFIX)
    )


def _encode_run(run: Run, sub: Subscription, payloads: list[bytes]) -> bytes:
    """All frames of a run for one subscription."""
    kind = b"MSG" if run.header_size < 0 else b"HMSG"
    line = encoder.message_line(kind, run.subject, sub.sid, run.reply, run.size)
    return b"".join((line, (CRLF + line).join(payloads), CRLF))
