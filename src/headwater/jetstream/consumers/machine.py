"""A consumer: its position in a stream, its deliveries and its timers.

    pulls, interest, acks ─▶ Consumer ─▶ Proposal: records (durable), messages, statuses, events

Durable state is in the state machine, which changes by records alone. A step of the consumer
applies its records at once, ahead of the log, and proposes them. The effects of a record on the
stream begin when it is committed (`Consumers.apply`). Messages and statuses leave at once, unless
they rest on a pinned client that is not committed; acknowledgements are confirmed at the commit.
State that ends with a connection or a process (waiting requests, interest, flow windows, pauses) is
here and never recorded.

A consumer knows no socket and no timer: its runner hands it steps with the time (`step`), and asks
for the next timer (`next_due_ns`).
"""

from typing import Final, final

from headwater.base.sliced import Work
from headwater.go.times import ZERO_TIME_TEXT, format_time
from headwater.jetstream.api.consumer_documents import (
    ConsumerInfo,
    PriorityGroupState,
    SequenceInfo,
)
from headwater.jetstream.config.consumer_config import (
    AckPolicy,
    ConsumerConfig,
)
from headwater.jetstream.consumers.acknowledging import Acknowledging
from headwater.jetstream.consumers.delivery import Delivery
from headwater.jetstream.consumers.effects import DeliveriesExceeded, PauseEnded, Status
from headwater.jetstream.consumers.pin import Pin
from headwater.jetstream.consumers.priority import gate_of
from headwater.jetstream.consumers.pull import (
    PUSH_BASED,
    PullBodies,
    PullQueue,
    PullRefusedError,
)
from headwater.jetstream.consumers.push import FLOW_PREFIX, Push
from headwater.jetstream.consumers.records import (
    ConsumerConfigured,
    ConsumerCreated,
    ConsumerReset,
    Exhausted,
    Pinned,
)
from headwater.jetstream.consumers.state_machine import AT_ONCE, CommitTime, StateMachine
from headwater.jetstream.consumers.steps import (
    Acks,
    Deliver,
    FlowReply,
    Interest,
    PlainAcks,
    Pull,
    Step,
    Timer,
)
from headwater.jetstream.proposal import ConsumerLeft, Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams.host import Host
from headwater.jetstream.streams.view import StreamView
from headwater.store.log.message_log import StoreError

# A pull consumer outlives its inactivity threshold by this, for requests on their way.
INACTIVE_GRACE_NS: Final = 100_000_000


@final
class Consumer:
    """One consumer of one stream."""

    __slots__ = (
        "_active_ns",
        "_bodies",
        "_host",
        "_pause_ends_ns",
        "_pin",
        "acks",
        "config",
        "created_ns",
        "delivery",
        "is_gone",
        "is_noted_waiting",
        "machine",
        "name",
        "position",
        "pulls",
        "push",
        "state",
        "stream",
    )

    def __init__(
        self,
        stream: StreamView,
        host: Host,
        created: ConsumerCreated,
        commit_time: CommitTime = AT_ONCE,
    ) -> None:
        name, config, server = created.name, created.config, host.server
        self.stream = stream
        self._host = host
        self.name = name
        self.created_ns = created.created_ns
        self.machine = StateMachine(
            stream, name, config, created.start_sequence, created.lasts_until, commit_time
        )
        self.state = self.machine.state
        self.position = self.machine.position
        self._pin = Pin(self.machine, server.entropy)
        self.pulls: PullQueue | None = None
        self.push: Push | None = None
        if config.is_pull:
            self.pulls = PullQueue(config.max_waiting, host.has_interest, None)
        else:
            prefix = FLOW_PREFIX + f"{stream.name}.{name}.".encode(errors="surrogateescape")
            self.push = Push(config, prefix, server.entropy)
        self.delivery = Delivery(self.machine, stream, self.pulls, self.push)
        self.acks = Acknowledging(self.machine, server.entropy)
        self._active_ns = 0
        # The end of a pause that was not told yet; 0 without one.
        self._pause_ends_ns = 0
        self.is_gone = False
        # Whether the collection knows that the consumer waits for messages.
        self.is_noted_waiting = False
        self._configure(config)

    def _configure(self, config: ConsumerConfig) -> None:
        self.config = config
        self._bodies = PullBodies(config)
        if self.pulls is not None:
            self.pulls.gate = gate_of(config, self._pin, self.delivery)
        if self.push is not None:
            self.push.configure(config)
        self._pause_ends_ns = config.pause_until_ns or 0
        burst_bytes = self.stream.config.max_msg_size
        if burst_bytes <= 0:
            burst_bytes = self._host.server.max_payload
        self.delivery.configure(config, burst_bytes)
        self.acks.configure(config)

    def configured(self, config: ConsumerConfig) -> ConsumerConfigured:
        """The record that sets another configuration, which the caller has checked."""
        position = self.position
        place = 0 if position.last_per_subject else position.cursor.sequence
        return ConsumerConfigured(self.name, config, place)

    def applying(self, record: ConsumerReset | ConsumerConfigured) -> Work[None]:
        """Apply a reset or another configuration, some messages at a time."""
        if isinstance(record, ConsumerReset):
            yield from self.machine.resetting(record.start_sequence)
        else:
            self._configure(record.config)
            yield from self.machine.reconfiguring(record.config, record.place)

    # --- steps ---------------------------------------------------------------------------------

    def step(self, step: Step, now_ns: int) -> Proposal[Record]:
        """Take a step. The proposal has the records, and all that is sent because of the step."""
        out: Proposal[Record] = Proposal(is_awaited=False)
        is_left = False
        try:
            if isinstance(step, Deliver):
                # Every publish to a client that waits comes here.
                is_left = self.wants_messages and self.delivery.run(now_ns, out)
            else:
                is_left = self._take_step(step, now_ns, out)
        except StoreError as error:
            # The records made before stand, and the log is offline by now.
            out.failure = error
        if self.delivery.is_pinning and any(
            isinstance(record, Pinned) for record, _, _ in self.machine.ahead
        ):
            out.hold_back()
        if is_left:
            out.at_once.append(ConsumerLeft(self.name))
        return out

    def _take_step(self, step: Step, now_ns: int, out: Proposal[Record]) -> bool:
        """Take a step that is more than a delivery. Returns what `deliver` returns."""
        if isinstance(step, PlainAcks):
            self._active_ns = now_ns
            self.acks.process_plain(step.sequences, step.replies, now_ns, out)
            return self.deliver(now_ns, out)
        if isinstance(step, Acks):
            self._active_ns = now_ns
            self.acks.process_all(
                step.addresses, step.replies, step.payloads, now_ns, out, self.pull
            )
            return self.deliver(now_ns, out)
        if isinstance(step, Pull):
            return self.pull(step.reply, step.body, now_ns, out)
        if isinstance(step, Timer):
            return self._run_due(now_ns, out)
        if isinstance(step, Interest):
            return self._set_interest(step.is_there, now_ns, out)
        if isinstance(step, FlowReply):
            return self._confirm_flow(step.subject, step.header, now_ns, out)
        # An administrator has unpinned a client; another one is served.
        self._pin.follow_unpin(out)
        return self.deliver(now_ns, out)

    # --- receivers -----------------------------------------------------------------------------

    def pull(self, reply: bytes, body: bytes, now_ns: int, out: Proposal[Record]) -> bool:
        """Process a pull request. Returns what `deliver` returns, as do the methods below."""
        return self.let_wait(reply, body, now_ns, out) and self.deliver(now_ns, out)

    def let_wait(self, reply: bytes, body: bytes, now_ns: int, out: Proposal[Record]) -> bool:
        """Add a pull request to the queue without delivering. Returns whether the request waits."""
        if self.pulls is None:
            out.at_once.append(Status(reply, PUSH_BASED))
            return False
        try:
            request = self._bodies.request(reply, body, now_ns)
            available = 0
            if request.no_wait:
                available = self.position.pending_count() + len(self.machine.ready)
            self.pulls.add(request, available, now_ns, out)
        except PullRefusedError as refusal:
            if refusal.header:
                out.at_once.append(Status(reply, refusal.header))
            return False
        return True

    def _set_interest(self, is_there: bool, now_ns: int, out: Proposal[Record]) -> bool:
        """Note whether a subscription matches the deliver subject."""
        if self.push is None:
            return False
        self.push.set_active(is_there, now_ns)
        return self.deliver(now_ns, out)

    def _confirm_flow(
        self, subject: bytes, header: bytes, now_ns: int, out: Proposal[Record]
    ) -> bool:
        """Process the answer to a flow control request, whose header may acknowledge messages."""
        flow = None if self.push is None else self.push.flow
        if flow is None or not flow.confirm(subject, now_ns):
            return False
        if header and self.config.ack_policy is AckPolicy.FLOW_CONTROL:
            self.acks.confirm(header, now_ns, out)
        return self.deliver(now_ns, out)

    def receivers(self) -> list[bytes]:
        """The subjects that messages are sent to now."""
        if self.pulls is not None:
            return self.pulls.replies()
        return [] if self.push is None else [self.push.subject]

    @property
    def wants_messages(self) -> bool:
        """Whether a receiver waits for the next message."""
        if self.pulls is not None:
            return bool(self.pulls.waiting)
        return self.push is not None and self.push.is_active

    @property
    def is_active(self) -> bool:
        """Whether a client uses the consumer at this moment."""
        return self.wants_messages

    def is_paused(self, now_ns: int) -> bool:
        """Whether the consumer is paused."""
        return now_ns < self.delivery.paused_until_ns

    # --- sending -------------------------------------------------------------------------------

    def deliver(self, now_ns: int, out: Proposal[Record]) -> bool:
        """Send the messages that can be sent. Returns whether more were left for the next turn."""
        return self.wants_messages and self.delivery.run(now_ns, out)

    # --- time ----------------------------------------------------------------------------------

    def next_due_ns(self) -> int:
        """The time of the earliest timer; 0 without one."""
        due_ns = self.machine.deadlines.next_due_ns()
        pulls, push = self.pulls, self.push
        if pulls is not None:
            time_ns = pulls.due_ns if pulls.waiting else 0
            if time_ns and (not due_ns or time_ns < due_ns):
                due_ns = time_ns
        elif push is not None and push.is_active:
            time_ns = push.heartbeat_at_ns
            if time_ns and (not due_ns or time_ns < due_ns):
                due_ns = time_ns
        pin_ns, pause_ns = self.machine.pin_ends_ns, self._pause_ends_ns
        held_ns = self.delivery.held_until_ns
        if not (pin_ns or pause_ns or held_ns or self.config.inactive_threshold > 0):
            return due_ns
        if not self.wants_messages:
            held_ns = 0
        # Timers that most consumers do not have.
        times_ns = (due_ns, pin_ns, pause_ns, held_ns, self._inactive_at_ns())
        return min((each for each in times_ns if each), default=0)

    def _run_due(self, now_ns: int, out: Proposal[Record]) -> bool:
        """Run the timers that have fired. Returns whether messages were left for the next turn."""
        self._expire_deadlines(now_ns, out)
        if self.machine.pin_ends_ns and now_ns >= self.machine.pin_ends_ns:
            self._pin.unpin_silent(now_ns, out)
        if self._pause_ends_ns and now_ns >= self._pause_ends_ns:
            self._pause_ends_ns = 0
            out.tell(self.name, PauseEnded())
        push = self.push
        more = self.deliver(now_ns, out)
        pulls = self.pulls
        if pulls is not None and pulls.waiting and 0 < pulls.due_ns <= now_ns:
            # As in nats-server, this also ends requests with no_wait that get no more messages
            # because too many are not acknowledged.
            is_at_end = not (more or self.delivery.held_until_ns or self.delivery.is_held)
            pulls.look_through(now_ns, is_at_end, out, self.delivery.heartbeat())
        if push is not None and push.heartbeat_ns and now_ns >= push.heartbeat_at_ns:
            if push.is_active:
                out.at_once.append(Status(push.subject, self.delivery.heartbeat()))
                if self._confirms_by_flow() and push.flow is not None and not push.flow.asked:
                    push.ask(now_ns, out)
            push.heartbeat_at_ns = now_ns + push.heartbeat_ns
        return more

    def _confirms_by_flow(self) -> bool:
        return self.config.ack_policy is AckPolicy.FLOW_CONTROL and bool(self.state.pending)

    def _expire_deadlines(self, now_ns: int, out: Proposal[Record]) -> None:
        """Queue messages whose ack wait is over for another delivery, or give them up."""
        due = self.machine.deadlines.due(now_ns)
        limit = self.config.max_deliver
        exhausted = []
        ready = []
        for sequence in due:
            if sequence in self.machine.ready:
                continue
            # As in nats-server, the limit of a message that was redelivered is only noticed when a
            # receiver is there for it.
            deliveries = max(self.state.redelivered.get(sequence, 0), 1)
            if 0 < limit <= deliveries:
                exhausted.append(sequence)
                if deliveries == limit:
                    out.tell(self.name, DeliveriesExceeded(sequence, deliveries))
            else:
                ready.append(sequence)
        if exhausted:
            self.machine.record(Exhausted(self.name, exhausted), out)
        self.machine.make_ready(ready)

    # --- ending --------------------------------------------------------------------------------

    def start(self, now_ns: int) -> None:
        """Start the timers of a new or restored consumer."""
        self.touch(now_ns)
        if self._pause_ends_ns <= now_ns:
            self._pause_ends_ns = 0
        if self.state.pin_id and not self.machine.pin_ends_ns:
            # The consumer was restored, and its pinned client gets the whole timeout again.
            self._pin.keep_pinned(now_ns)

    def touch(self, now_ns: int) -> None:
        """Note that a client uses the consumer."""
        self._active_ns = now_ns

    def _inactive_at_ns(self) -> int:
        """When the consumer is deleted for inactivity; 0 if it is not."""
        threshold_ns = self.config.inactive_threshold
        if threshold_ns <= 0:
            return 0
        if self.push is not None:
            since_ns = self.push.idle_since_ns
            return 0 if self.push.is_active or not since_ns else since_ns + threshold_ns
        check_ns = max(self._active_ns, 0 if self.pulls is None else self.pulls.active_ns)
        return check_ns + threshold_ns + INACTIVE_GRACE_NS

    def is_abandoned(self, now_ns: int, out: Proposal[Record]) -> bool:
        """Whether the consumer was inactive for longer than its threshold."""
        at_ns = self._inactive_at_ns()
        if not at_ns or now_ns < at_ns:
            return False
        if self.pulls is not None and self.pulls.waiting:
            self.pulls.look_through(now_ns, False, out, self.delivery.heartbeat())
            if self.pulls.waiting:
                self.touch(now_ns)
                return False
        return True

    def end(self, is_deleted: bool, out: Proposal[Record]) -> None:
        """Answer all waiting requests, because the consumer is deleted or the server stops."""
        self.is_gone = True
        if self.pulls is not None:
            self.pulls.end_all(is_deleted, out)
            if is_deleted:
                # The gate refers to the delivery, and so back to the requests.
                self.pulls.gate = None

    def rest(self, now_ns: int, out: Proposal[Record]) -> None:
        """Cease to work, because another server leads the stream from now on."""
        if self.pulls is not None:
            self.pulls.leader_changed(out)
        if self.push is not None:
            self.push.set_active(False, now_ns)

    # --- description ---------------------------------------------------------------------------

    def info(self, now_ns: int) -> ConsumerInfo:
        """The document that clients get about the consumer."""
        state, config = self.state, self.config
        remaining_ns = max((config.pause_until_ns or 0) - now_ns, 0)
        groups: tuple[PriorityGroupState, ...] = ()
        if config.priority_groups:
            group = PriorityGroupState(
                group=config.priority_groups[0],
                pinned_client_id=state.pin_id,
                pinned_ts=format_time(state.pinned_ns) if state.pin_id else ZERO_TIME_TEXT,
            )
            groups = (group,)
        return ConsumerInfo(
            stream_name=self.stream.name,
            name=self.name,
            created=format_time(self.created_ns),
            config=config,
            delivered=SequenceInfo(
                consumer_seq=state.delivered_consumer,
                stream_seq=state.delivered_stream,
                last_active=format_time(state.delivered_ns) if state.delivered_ns else "",
            ),
            ack_floor=SequenceInfo(
                consumer_seq=state.floor_consumer,
                stream_seq=state.floor_stream,
                last_active=format_time(state.acked_ns) if state.acked_ns else "",
            ),
            num_ack_pending=len(state.pending),
            num_redelivered=0 if config.max_deliver == 1 else len(state.redelivered),
            num_waiting=0 if self.pulls is None else self.pulls.count_heard(),
            num_pending=self.position.pending_count(),
            push_bound=self.push is not None and self.push.is_active,
            paused=remaining_ns > 0,
            pause_remaining=remaining_ns,
            ts=format_time(now_ns),
            priority_groups=groups,
        )

    def dump(self) -> dict[str, object]:
        """The durable state."""
        return {"created_ns": self.created_ns, "config": self.machine.config, **self.state.dump()}
