"""Push consumers: whom they send to, when they begin and stop, what acks and changes do to them.

A consumer with a heartbeat tells when it has nothing to do; two heartbeats in a row are how a
script knows that nothing more comes.
"""

from datetime import UTC, datetime, timedelta

from tests.interop.case import Catalogue
from tests.interop.consumers import (
    MILLISECOND_NS,
    PAUSE_REMAINING,
    RECEIVER_SID,
    SECOND_NS,
    Delivery,
    Receiver,
    ack,
    consumer_info,
    consumer_info_when,
    create_consumer,
    delete_consumer,
    delivery,
    info_until,
    new_durable,
    seen,
)
from tests.interop.jetstream import JETSTREAM, JetStreamClient, Reply
from tests.interop.masks import is_positive
from tests.interop.messages import with_stream
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.kit.wire_client import WireClient

HEARTBEAT_NS = 200 * MILLISECOND_NS
SHORT_NS = 500 * MILLISECOND_NS
"""A time that scripts wait for."""
LONG_NS = 60 * SECOND_NS
"""A time longer than any script waits."""
BEATS_MAX = 50
"""Heartbeats a script hears while it waits for something else; only a wrong server sends more."""

ACK_TIME = Mask("**.advisory.ack_time", is_positive, "how long the script took to ack")

catalogue = Catalogue(JETSTREAM)


class Listener(Receiver):
    """A receiver that misses nothing: deliveries before the answer to its SUB are kept."""

    def __init__(self, wire: WireClient, subject: str, queue: str = "") -> None:
        self.wire = wire
        self.subject = subject
        to = f"{subject} {queue}".rstrip()
        answer = wire.exchange(f"SUB {to} {RECEIVER_SID}\r\n")
        self._early = [delivery(frame) for frame in answer]

    def next(self) -> Delivery:
        return self._early.pop(0) if self._early else super().next()

    def arrived(self) -> list[Delivery]:
        early, self._early = self._early, []
        return early + super().arrived()


def listener(session: Session, subject: str, queue: str = "") -> Listener:
    """A new connection on which a consumer pushes to `subject`."""
    return Listener(session.connect(no_responders=True), subject, queue)


def target(stream: str) -> str:
    """The deliver subject of the consumers of a stream."""
    return f"to.{stream}"


def pushed(
    session: Session,
    stream: str,
    *subjects: str,
    queue: str = "",
    stream_config: dict[str, object] | None = None,
    **config: object,
) -> tuple[JetStreamClient, Listener]:
    """A new stream with a message on each subject, and a durable `C` that pushes to the listener.

    The consumer has a heartbeat, and sends no message twice while the script runs.
    """
    js = with_stream(session, stream, **(stream_config or {}))
    js.fill(*subjects)
    inbox = listener(session, target(stream), queue)
    chosen = {"idle_heartbeat": HEARTBEAT_NS, "ack_wait": LONG_NS, **config}
    if chosen.get("ack_policy") == "none":
        del chosen["ack_wait"]
    new_durable(js, stream, "C", deliver_subject=target(stream), **chosen)
    return js, inbox


def messages(inbox: Listener, count: int) -> list[Delivery]:
    """The next messages; statuses are passed over."""
    received: list[Delivery] = []
    statuses = 0
    while len(received) < count:
        one = inbox.next()
        if one.is_status:
            statuses += 1
            assert statuses < BEATS_MAX, f"{len(received)} of {count} messages came"
        else:
            received.append(one)
    return received


def until_idle(inbox: Listener) -> list[Delivery]:
    """The messages that come until the consumer has had nothing to send for a whole heartbeat."""
    received = inbox.arrived()
    idle = 0
    while idle < 2:
        received.append(inbox.next())
        idle = idle + 1 if received[-1].is_status else 0
    return [each for each in received if not each.is_status]


def pass_time(session: Session, *, beats: int) -> None:
    """Let so many heartbeats pass: those of a consumer that has nothing to do with the script."""
    _, clock = pushed(session, "CLOCK")
    clock.take(beats)


def progress(info: Reply) -> Observation:
    """The progress of a consumer, without its configuration; or the error."""
    if "error" in info:
        return info
    pairs = {
        key: [info[key]["consumer_seq"], info[key]["stream_seq"]]
        for key in ("delivered", "ack_floor")
    }
    counts = ("num_ack_pending", "num_redelivered", "num_pending", "push_bound")
    return {**pairs, **{key: info.get(key) for key in counts}}


def progress_of(js: JetStreamClient, stream: str, consumer: str = "C") -> Observation:
    return progress(consumer_info(js, stream, consumer))


def later(seconds: float) -> str:
    """A moment from now, as a configuration tells it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# --- deliveries ---------------------------------------------------------------------------------


@catalogue.case("js.push.message")
def message(session: Session) -> Observation:
    """A message comes on its own subject with its headers, and a reply subject that acks it."""
    js, inbox = pushed(session, "PUSH")
    js.publish("PUSH.a", "one")
    first = messages(inbox, 1)
    js.publish("PUSH.b.c", "two", {"H": "1", "Nats-Msg-Id": "m"})
    second = messages(inbox, 1)
    js.publish("PUSH", "")
    return seen([*first, *second, *messages(inbox, 1)])


@catalogue.case("js.push.backlog")
def backlog(session: Session) -> Observation:
    """Stored messages come at once, in order, each with the number of those that follow."""
    _, inbox = pushed(session, "PUSHBACK", *("PUSHBACK.a", "PUSHBACK.b") * 10)
    return seen(until_idle(inbox))


@catalogue.case("js.push.info")
def info(session: Session) -> Observation:
    """INFO has the deliveries, and that there is a listener."""
    js, inbox = pushed(session, "PUSHINFO", *("PUSHINFO",) * 3)
    until_idle(inbox)
    return consumer_info(js, "PUSHINFO", "C")


@catalogue.case("js.push.headers-only")
def headers_only(session: Session) -> Observation:
    """Only headers are sent, with the size of what is left out behind those there are."""
    js = with_stream(session, "PUSHHEAD")
    js.publish("PUSHHEAD", "four")
    js.publish("PUSHHEAD", "twelve bytes", {"A": "1", "B": "2"})
    js.publish("PUSHHEAD", "")
    js.publish("PUSHHEAD", "", {"Nats-Msg-Size": "7"})
    inbox = listener(session, target("PUSHHEAD"))
    new_durable(js, "PUSHHEAD", "C", deliver_subject=target("PUSHHEAD"), headers_only=True)
    return seen(inbox.take(4))


@catalogue.case("js.push.filter")
def filtered(session: Session) -> Observation:
    """One filter: only matching messages are sent and counted."""
    _, inbox = pushed(
        session,
        "PUSHFILTER",
        *("PUSHFILTER.a.1", "PUSHFILTER.b", "PUSHFILTER.a.2", "PUSHFILTER.a"),
        filter_subject="PUSHFILTER.a.*",
    )
    return seen(until_idle(inbox))


@catalogue.case("js.push.filters")
def filters(session: Session) -> Observation:
    """Several filters: messages that match any of them, in the order of the stream."""
    subjects = [f"PUSHFILTERS.{name}" for name in ("c", "a", "b.1", "d", "a", "b.2", "c.1")]
    _, inbox = pushed(
        session,
        "PUSHFILTERS",
        *subjects,
        filter_subjects=["PUSHFILTERS.a", "PUSHFILTERS.b.>", "PUSHFILTERS.c"],
    )
    return seen(until_idle(inbox))


@catalogue.case("js.push.two-consumers")
def two_consumers(session: Session) -> Observation:
    """Two consumers may push to the same place; each counts for itself."""
    js, inbox = pushed(session, "PUSHTWO", "PUSHTWO.a", filter_subject="PUSHTWO.a")
    first = messages(inbox, 1)
    js.fill("PUSHTWO.b")
    new_durable(js, "PUSHTWO", "D", deliver_subject=target("PUSHTWO"), filter_subject="PUSHTWO.b")
    return seen([*first, *messages(inbox, 1)])


@catalogue.case("js.push.deleted")
def deleted(session: Session) -> Observation:
    """A consumer that is deleted goes silently."""
    js, inbox = pushed(session, "PUSHGONE", "PUSHGONE", idle_heartbeat=LONG_NS)
    first = messages(inbox, 1)
    gone = delete_consumer(js, "PUSHGONE", "C")
    js.fill("PUSHGONE")
    new_durable(js, "PUSHGONE", "D", deliver_subject=target("PUSHGONE"), deliver_policy="last")
    return {"first": seen(first), "gone": gone, "then": inbox.next().seen}


@catalogue.case("js.push.pull-refused")
def pull_refused(session: Session) -> Observation:
    """A pull from a push consumer gets no messages."""
    pushed(session, "PUSHPULL", "PUSHPULL")
    puller = listener(session, "pull.PUSHPULL")
    puller.pull("PUSHPULL", "C", {"batch": 1, "no_wait": True})
    return puller.next().seen


@catalogue.case("js.push.metric", masks=(ACK_TIME,))
def metric(session: Session) -> Observation:
    """A sampled ack has an advisory with its delay; a nak or a term has none."""
    js, inbox = pushed(session, "PUSHMETRIC", *("PUSHMETRIC",) * 3, sample_freq="100%")
    watch = js.watch(session, "$JS.EVENT.METRIC.>")
    received = messages(inbox, 3)
    ack(js, received[0], body="+TERM")
    ack(js, received[1], received[2])
    return watch.take(2)


# --- interest -----------------------------------------------------------------------------------


@catalogue.case("js.push.interest.none")
def no_interest(session: Session) -> Observation:
    """Without a listener nothing is sent; with the first one, all of it."""
    js = with_stream(session, "PUSHNONE")
    made = new_durable(js, "PUSHNONE", "C", deliver_subject=target("PUSHNONE"))
    js.fill("PUSHNONE", "PUSHNONE")
    before = consumer_info_when(js, "PUSHNONE", "C", num_pending=2)
    inbox = listener(session, target("PUSHNONE"))
    received = seen(inbox.take(2))
    return [progress(made), progress(before), received, progress_of(js, "PUSHNONE")]


@catalogue.case("js.push.interest.wildcard")
def wildcard_is_no_interest(session: Session) -> Observation:
    """A subscription with a wildcard gets deliveries, but causes none."""
    js = with_stream(session, "PUSHWILD")
    wide = listener(session, "to.PUSHWILD.*")
    new_durable(js, "PUSHWILD", "C", deliver_subject="to.PUSHWILD.x")
    js.fill("PUSHWILD")
    before = consumer_info_when(js, "PUSHWILD", "C", num_pending=1)
    silent = seen(wide.arrived())
    exact = listener(session, "to.PUSHWILD.x")
    return [progress(before), silent, exact.next().seen, wide.next().seen]


@catalogue.case("js.push.interest.queue-is-none")
def queue_is_no_interest(session: Session) -> Observation:
    """Without a deliver group the members of a queue are no listeners."""
    js = with_stream(session, "PUSHQUEUE")
    member = listener(session, target("PUSHQUEUE"), "workers")
    new_durable(js, "PUSHQUEUE", "C", deliver_subject=target("PUSHQUEUE"))
    js.fill("PUSHQUEUE")
    before = consumer_info_when(js, "PUSHQUEUE", "C", num_pending=1)
    silent = seen(member.arrived())
    plain = listener(session, target("PUSHQUEUE"))
    return [progress(before), silent, plain.next().seen, member.next().seen]


@catalogue.case("js.push.interest.lost")
def interest_lost(session: Session) -> Observation:
    """When the last listener leaves, sending stops; the next one gets the messages since then."""
    js, inbox = pushed(session, "PUSHLOST", "PUSHLOST.a")
    before = seen(until_idle(inbox))
    inbox.leave()
    unbound = info_until(js, "PUSHLOST", "C", lambda info: not info.get("push_bound"))
    js.fill("PUSHLOST.b", "PUSHLOST.c")
    waiting = consumer_info_when(js, "PUSHLOST", "C", num_pending=2)
    again = listener(session, target("PUSHLOST"))
    return [before, progress(unbound), progress(waiting), seen(until_idle(again))]


@catalogue.case("js.push.interest.closed")
def connection_closed(session: Session) -> Observation:
    """A listener whose connection ends has left."""
    js, inbox = pushed(session, "PUSHCLOSED", "PUSHCLOSED.a")
    messages(inbox, 1)
    inbox.wire.close()
    unbound = info_until(js, "PUSHCLOSED", "C", lambda info: not info.get("push_bound"))
    return progress(unbound)


@catalogue.case("js.push.interest.one-of-two-left")
def one_of_two_left(session: Session) -> Observation:
    """While one listener is left, sending goes on."""
    js, inbox = pushed(session, "PUSHLEFT")
    other = listener(session, target("PUSHLEFT"))
    js.fill("PUSHLEFT.a")
    both = [seen(messages(each, 1)) for each in (inbox, other)]
    inbox.leave()
    js.fill("PUSHLEFT.b")
    return [both, seen(messages(other, 1)), progress_of(js, "PUSHLEFT")]


@catalogue.case("js.push.interest.redelivered-first")
def redelivered_first(session: Session) -> Observation:
    """Messages not acked in time while nobody listened come first to the next listener."""
    js, inbox = pushed(session, "PUSHAGAIN", "PUSHAGAIN.a", ack_wait=SHORT_NS)
    messages(inbox, 1)
    inbox.leave()
    info_until(js, "PUSHAGAIN", "C", lambda info: not info.get("push_bound"))
    js.fill("PUSHAGAIN.b")
    pass_time(session, beats=5)
    again = listener(session, target("PUSHAGAIN"))
    return seen(messages(again, 2))


@catalogue.case("js.push.group")
def group(session: Session) -> Observation:
    """The members of the deliver group share the messages, each of which goes to one."""
    js, first = pushed(session, "PUSHGROUP", queue="workers", deliver_group="workers")
    members = [first, listener(session, target("PUSHGROUP"), "workers")]
    js.fill(*(f"PUSHGROUP.{number}" for number in range(20)))
    received: list[str] = []

    def all_have_come() -> bool:
        arrived = [each for member in members for each in member.arrived()]
        received.extend(each.subject for each in arrived if not each.is_status)
        return len(received) >= 20

    js.wait_until(all_have_come)
    return sorted(received)


@catalogue.case("js.push.group.other-is-none")
def group_other(session: Session) -> Observation:
    """A plain subscription or another queue is no interest for a deliver group."""
    js = with_stream(session, "PUSHOTHER")
    plain = listener(session, target("PUSHOTHER"))
    other = listener(session, target("PUSHOTHER"), "others")
    config = {"deliver_subject": target("PUSHOTHER"), "deliver_group": "workers"}
    new_durable(js, "PUSHOTHER", "C", **config)
    js.fill("PUSHOTHER")
    before = consumer_info_when(js, "PUSHOTHER", "C", num_pending=1)
    silent = [seen(each.arrived()) for each in (plain, other)]
    member = listener(session, target("PUSHOTHER"), "workers")
    return [progress(before), silent, member.next().seen, progress_of(js, "PUSHOTHER")]


@catalogue.case("js.push.group.all-hear")
def group_all_hear(session: Session) -> Observation:
    """Messages for a deliver group reach plain subscriptions and other queues too."""
    js = with_stream(session, "PUSHHEAR")
    subject = target("PUSHHEAR")
    listeners = [listener(session, subject, queue) for queue in ("", "others", "workers")]
    new_durable(js, "PUSHHEAR", "C", deliver_subject=subject, deliver_group="workers")
    js.fill("PUSHHEAR")
    return [each.next().seen for each in listeners]


@catalogue.case("js.push.ephemeral.left")
def ephemeral_left(session: Session) -> Observation:
    """An ephemeral without a listener is removed after the threshold, with an advisory."""
    js = with_stream(session, "PUSHEPH")
    inbox = listener(session, target("PUSHEPH"))
    create_consumer(
        js, "PUSHEPH", "C", deliver_subject=target("PUSHEPH"), inactive_threshold=SHORT_NS
    )
    watch = js.watch(session, "$JS.EVENT.ADVISORY.CONSUMER.DELETED.PUSHEPH.>")
    before = consumer_info(js, "PUSHEPH", "C")
    inbox.leave()
    told = watch.take(1)
    gone = info_until(js, "PUSHEPH", "C", lambda info: "error" in info)
    return {"before": before, "told": told, "after": gone}


@catalogue.case("js.push.ephemeral.unheard")
def ephemeral_unheard(session: Session) -> Observation:
    """An ephemeral that never had a listener is removed."""
    js = with_stream(session, "PUSHUNHEARD")
    made = create_consumer(
        js, "PUSHUNHEARD", "C", deliver_subject=target("PUSHUNHEARD"), inactive_threshold=SHORT_NS
    )
    gone = info_until(js, "PUSHUNHEARD", "C", lambda info: "error" in info)
    return {"made": made, "after": gone}


@catalogue.case("js.push.ephemeral.kept")
def ephemeral_kept(session: Session) -> Observation:
    """An ephemeral stays while somebody listens, also when nothing is sent."""
    js = with_stream(session, "PUSHKEPT")
    inbox = listener(session, target("PUSHKEPT"))
    config = {"deliver_subject": target("PUSHKEPT"), "inactive_threshold": SHORT_NS}
    create_consumer(js, "PUSHKEPT", "C", idle_heartbeat=HEARTBEAT_NS, **config)
    inbox.take(5)
    return progress_of(js, "PUSHKEPT")


@catalogue.case("js.push.ephemeral.default-threshold")
def ephemeral_default(session: Session) -> Observation:
    """An ephemeral that names no threshold is shown one."""
    js = with_stream(session, "PUSHDEFAULT")
    made = create_consumer(js, "PUSHDEFAULT", "C", deliver_subject=target("PUSHDEFAULT"))
    delete_consumer(js, "PUSHDEFAULT", "C")
    return made


@catalogue.case("js.push.durable-threshold")
def durable_threshold(session: Session) -> Observation:
    """A durable with a threshold is removed as an ephemeral is."""
    js = with_stream(session, "PUSHTHRESH")
    config = {"deliver_subject": target("PUSHTHRESH"), "inactive_threshold": SHORT_NS}
    new_durable(js, "PUSHTHRESH", "C", **config)
    return info_until(js, "PUSHTHRESH", "C", lambda info: "error" in info)


# --- acks ---------------------------------------------------------------------------------------


@catalogue.case("js.push.ack.wait")
def ack_wait(session: Session) -> Observation:
    """A message not acked in time comes again, counted as one more delivery."""
    js, inbox = pushed(session, "PUSHWAIT", "PUSHWAIT.a", "PUSHWAIT.b", ack_wait=SHORT_NS)
    first = messages(inbox, 2)
    ack(js, first[0])
    again = messages(inbox, 1)
    ack(js, *again)
    return [seen(first), seen(again), progress_of(js, "PUSHWAIT")]


@catalogue.case("js.push.ack.nak")
def nak(session: Session) -> Observation:
    """A message with a NAK comes again at once, behind the messages sent since."""
    js, inbox = pushed(session, "PUSHNAK", "PUSHNAK.a", "PUSHNAK.b")
    first = messages(inbox, 2)
    ack(js, first[0], body="-NAK")
    return [seen(first), seen(messages(inbox, 1)), progress_of(js, "PUSHNAK")]


@catalogue.case("js.push.ack.term")
def term(session: Session) -> Observation:
    """A terminated message does not come again."""
    js, inbox = pushed(session, "PUSHTERM", "PUSHTERM.a", "PUSHTERM.b")
    received = messages(inbox, 2)
    ack(js, received[0], body="+TERM no more")
    return [progress_of(js, "PUSHTERM"), seen(until_idle(inbox))]


@catalogue.case("js.push.ack.max-deliver")
def max_deliver(session: Session) -> Observation:
    """After the last delivery that is allowed a message is given up, with an advisory."""
    js, inbox = pushed(session, "PUSHMAX", "PUSHMAX", ack_wait=SHORT_NS, max_deliver=2)
    watch = js.watch(session, "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.PUSHMAX.>")
    received = seen(messages(inbox, 2))
    told = watch.take(1)
    return [received, told, seen(until_idle(inbox)), progress_of(js, "PUSHMAX")]


@catalogue.case("js.push.ack-none")
def ack_none(session: Session) -> Observation:
    """Without acks everything counts as acked when it is sent, and an ack has no responders."""
    js, inbox = pushed(session, "PUSHFREE", *("PUSHFREE",) * 3, ack_policy="none")
    received = messages(inbox, 3)
    unheard = js.request(received[0].reply, "+ACK")["status"]
    return [seen(received), unheard, progress_of(js, "PUSHFREE")]


@catalogue.case("js.push.ack-none.many")
def ack_none_many(session: Session) -> Observation:
    """Without acks all of a stream comes, in order and without a gap."""
    js = with_stream(session, "PUSHMANY", storage="memory")
    js.fill(*("PUSHMANY",) * 500)
    inbox = listener(session, target("PUSHMANY"))
    new_durable(js, "PUSHMANY", "C", deliver_subject=target("PUSHMANY"), ack_policy="none")
    tokens = [each.reply.split(".")[4:7] for each in inbox.take(500)]
    in_order = tokens == [["1", str(seq), str(seq)] for seq in range(1, 501)]
    return [in_order, progress_of(js, "PUSHMANY")]


@catalogue.case("js.push.ack-all")
def ack_all(session: Session) -> Observation:
    """One ack stands for all that was sent before; one that says nothing new is answered too."""
    js, inbox = pushed(session, "PUSHALL", *("PUSHALL",) * 5, ack_policy="all")
    received = messages(inbox, 5)
    states = [progress_of(js, "PUSHALL")]
    for number in (2, 0, 4):
        ack(js, received[number])
        states.append(progress_of(js, "PUSHALL"))
    return states


@catalogue.case("js.push.ack-all.max-pending")
def ack_all_max_pending(session: Session) -> Observation:
    """One ack makes room for all it stands for."""
    js, inbox = pushed(session, "PUSHROOM", *("PUSHROOM",) * 6, ack_policy="all", max_ack_pending=3)
    first = until_idle(inbox)
    ack(js, first[1])
    return [seen(first), seen(until_idle(inbox))]


@catalogue.case("js.push.max-pending")
def max_pending(session: Session) -> Observation:
    """No more are sent than may be unacked; each ack makes room for one."""
    js, inbox = pushed(session, "PUSHPENDING", *("PUSHPENDING",) * 5, max_ack_pending=2)
    first = until_idle(inbox)
    waiting = progress_of(js, "PUSHPENDING")
    ack(js, first[1])
    return [seen(first), waiting, seen(until_idle(inbox)), progress_of(js, "PUSHPENDING")]


@catalogue.case("js.push.max-pending.redelivery")
def max_pending_redelivery(session: Session) -> Observation:
    """A redelivery needs no room within `max_ack_pending`."""
    js, inbox = pushed(session, "PUSHFULL", *("PUSHFULL",) * 3, max_ack_pending=1)
    first = until_idle(inbox)
    ack(js, first[0], body="-NAK")
    return [seen(first), seen(until_idle(inbox)), progress_of(js, "PUSHFULL")]


# --- changes ------------------------------------------------------------------------------------


def update(js: JetStreamClient, stream: str, **config: object) -> Reply:
    """Change the consumer that `pushed` made; fields that are not named stay as they are."""
    chosen = {
        "durable_name": "C",
        "ack_policy": "explicit",
        "idle_heartbeat": HEARTBEAT_NS,
        "ack_wait": LONG_NS,
        "deliver_subject": target(stream),
    }
    return create_consumer(js, stream, "C", action="update", **{**chosen, **config})


@catalogue.case("js.push.update.max-pending")
def update_max_pending(session: Session) -> Observation:
    """More room is used at once; less room stops sending until there is less to ack."""
    js, inbox = pushed(session, "PUSHMORE", *("PUSHMORE",) * 5, max_ack_pending=1)
    first = until_idle(inbox)
    update(js, "PUSHMORE", max_ack_pending=3)
    second = until_idle(inbox)
    update(js, "PUSHMORE", max_ack_pending=1)
    ack(js, *first)
    third = until_idle(inbox)
    ack(js, *second)
    return [seen(each) for each in (first, second, third, until_idle(inbox))]


@catalogue.case("js.push.update.bound")
def update_bound(session: Session) -> Observation:
    """The deliver subject cannot be changed while somebody listens, a wildcard included."""
    js, inbox = pushed(session, "PUSHBOUND")
    refused = update(js, "PUSHBOUND", deliver_subject="to.elsewhere")
    inbox.leave()
    info_until(js, "PUSHBOUND", "C", lambda info: not info.get("push_bound"))
    listener(session, "to.*")
    still_refused = update(js, "PUSHBOUND", deliver_subject="to.elsewhere")
    return [refused, still_refused]


@catalogue.case("js.push.update.deliver-subject")
def update_deliver_subject(session: Session) -> Observation:
    """Messages sent and not acked come again at once when the deliver subject changes."""
    js, inbox = pushed(session, "PUSHMOVE", *("PUSHMOVE",) * 3)
    received = messages(inbox, 3)
    ack(js, received[1])
    inbox.leave()
    info_until(js, "PUSHMOVE", "C", lambda info: not info.get("push_bound"))
    js.fill("PUSHMOVE.new")
    consumer_info_when(js, "PUSHMOVE", "C", num_pending=1)
    elsewhere = listener(session, "to.PUSHMOVE.elsewhere")
    changed = update(js, "PUSHMOVE", deliver_subject="to.PUSHMOVE.elsewhere")
    return [changed["config"], seen(until_idle(elsewhere)), progress_of(js, "PUSHMOVE")]


@catalogue.case("js.push.update.filter")
def update_filter(session: Session) -> Observation:
    """Another filter holds for messages not sent yet; sent ones may still be acked."""
    subjects = [f"PUSHREFILTER.{name}" for name in ("a", "b", "a", "b")]
    js, inbox = pushed(
        session, "PUSHREFILTER", *subjects, filter_subject="PUSHREFILTER.a", max_ack_pending=1
    )
    first = until_idle(inbox)
    update(js, "PUSHREFILTER", filter_subject="PUSHREFILTER.b", max_ack_pending=1)
    changed = progress_of(js, "PUSHREFILTER")
    ack(js, first[0], body="-NAK")
    again = until_idle(inbox)
    ack(js, *again)
    second = until_idle(inbox)
    return [seen(first), changed, seen(again), seen(second)]


@catalogue.case("js.push.update.headers-only")
def update_headers_only(session: Session) -> Observation:
    """From the change on only headers are sent."""
    js, inbox = pushed(session, "PUSHSHORT")
    js.fill("PUSHSHORT.a")
    first = messages(inbox, 1)
    update(js, "PUSHSHORT", headers_only=True)
    js.fill("PUSHSHORT.b")
    return seen([*first, *messages(inbox, 1)])


@catalogue.case("js.push.update.refused")
def update_refused(session: Session) -> Observation:
    """A push consumer cannot become a pull consumer, nor get another heartbeat."""
    js, _ = pushed(session, "PUSHREFUSE")
    return [
        update(js, "PUSHREFUSE", deliver_subject=""),
        update(js, "PUSHREFUSE", idle_heartbeat=2 * HEARTBEAT_NS),
        update(js, "PUSHREFUSE", flow_control=True),
        update(js, "PUSHREFUSE", replay_policy="original"),
    ]


# --- pause --------------------------------------------------------------------------------------


@catalogue.case("js.push.pause", masks=(PAUSE_REMAINING,))
def pause(session: Session) -> Observation:
    """A paused consumer sends nothing but heartbeats; resumed, it sends the messages since."""
    js, inbox = pushed(session, "PUSHPAUSE")
    until = later(600)
    paused = js.api("CONSUMER.PAUSE.PUSHPAUSE.C", {"pause_until": until})
    paused["pause_until"] = paused["pause_until"][:20] == until[:20]
    js.fill("PUSHPAUSE.a", "PUSHPAUSE.b")
    silent = seen(until_idle(inbox))
    waiting = progress_of(js, "PUSHPAUSE")
    resumed = js.api("CONSUMER.PAUSE.PUSHPAUSE.C", {})
    return [paused, silent, waiting, resumed, seen(until_idle(inbox))]


@catalogue.case("js.push.pause.passes")
def pause_passes(session: Session) -> Observation:
    """A pause ends by itself, and the messages since are sent."""
    js, inbox = pushed(session, "PUSHPASS")
    js.api("CONSUMER.PAUSE.PUSHPASS.C", {"pause_until": later(1)})
    js.fill("PUSHPASS")
    received = seen(messages(inbox, 1))
    return [received, consumer_info(js, "PUSHPASS", "C").get("paused")]


@catalogue.case("js.push.pause.acks")
def pause_acks(session: Session) -> Observation:
    """Acks are taken while paused; a message with a NAK comes again only after the pause."""
    js, inbox = pushed(session, "PUSHHELD", *("PUSHHELD",) * 2)
    received = messages(inbox, 2)
    js.api("CONSUMER.PAUSE.PUSHHELD.C", {"pause_until": later(600)})
    ack(js, received[0])
    ack(js, received[1], body="-NAK")
    silent = seen(until_idle(inbox))
    state = progress_of(js, "PUSHHELD")
    js.api("CONSUMER.PAUSE.PUSHHELD.C", {})
    return [silent, state, seen(messages(inbox, 1))]


@catalogue.case("js.push.pause.created", masks=(PAUSE_REMAINING,))
def created_paused(session: Session) -> Observation:
    """A consumer may be made paused."""
    js, inbox = pushed(session, "PUSHBORN", "PUSHBORN", pause_until=later(600))
    silent = seen(until_idle(inbox))
    state = consumer_info(js, "PUSHBORN", "C")
    state["config"]["pause_until"] = "pause_until" in state["config"]
    return [silent, state]
