"""Heartbeats, flow control, rates, and the ordered consumers clients build from them.

Everything a window holds is stored before its consumer is made: so it depends on bytes alone after
which message a request for flow control comes, and after which one the consumer stalls.
"""

import time
from collections.abc import Callable

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_push import (
    BEATS_MAX,
    HEARTBEAT_NS,
    LONG_NS,
    Listener,
    listener,
    messages,
    pass_time,
    progress_of,
    pushed,
    target,
    until_idle,
)
from tests.interop.consumers import (
    SECOND_NS,
    Delivery,
    ack,
    consumer_info,
    create_consumer,
    delete_consumer,
    new_durable,
    seen,
)
from tests.interop.jetstream import JETSTREAM, JetStreamClient, Reply
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

CHUNK_BYTES = 32 * 1024
FLOW = {"flow_control": True, "idle_heartbeat": HEARTBEAT_NS, "ack_policy": "none"}
ORDERED = {
    "ack_policy": "none",
    "max_deliver": 1,
    "flow_control": True,
    "idle_heartbeat": 5 * SECOND_NS,
    "ack_wait": 22 * 3600 * SECOND_NS,
    "num_replicas": 1,
    "mem_storage": True,
    "inactive_threshold": LONG_NS,
}
"""An ordered consumer as nats-py asks for it."""

catalogue = Catalogue(JETSTREAM)


def next_beat(inbox: Listener, holds: Callable[[Delivery], bool] = lambda beat: True) -> Delivery:
    """The next heartbeat for which `holds` is true; all other deliveries are dropped."""
    for _ in range(BEATS_MAX):
        while not _is_beat(one := inbox.next()):
            pass
        if holds(one):
            return one
    raise AssertionError(f"the heartbeat that was waited for never came; the last was {one}")


def _is_beat(one: Delivery) -> bool:
    return "Idle Heartbeat" in one.tree.get("status", "")


def _last_consumer_seq(beat: Delivery) -> int:
    return int(dict(beat.tree["headers"])["Nats-Last-Consumer"])


def without_id(subject: str) -> Observation:
    """A subject that asks for flow control, its last word as a length: it is drawn."""
    *words, drawn = subject.split(".")
    return [".".join(words), len(drawn), drawn.isalnum()]


def beat_seen(beat: Delivery) -> Observation:
    """A heartbeat, without the id that the server draws."""
    headers = [
        [name, without_id(value) if name == "Nats-Consumer-Stalled" else value]
        for name, value in beat.tree["headers"]
    ]
    return {"subject": beat.subject, "status": beat.tree["status"], "headers": headers}


def large(js: JetStreamClient, stream: str, count: int) -> None:
    """So many messages of one size."""
    js.fill(*(stream,) * count, payload="x" * CHUNK_BYTES)


class Window:
    """The deliveries until a consumer stalled or ran dry: the message count before each request.

    `answered` is the request that was answered last: heartbeats that name it were sent before.
    """

    def __init__(self, inbox: Listener, answered: str = "") -> None:
        self.counts: list[int] = []
        self.requests: list[Delivery] = []
        self.count = 0
        for _ in range(BEATS_MAX):
            self.beat = self._take_until_beat(inbox)
            if not answered or answered not in str(self.beat.tree):
                return
        raise AssertionError(f"the answer to {answered} was never taken")

    def _take_until_beat(self, inbox: Listener) -> Delivery:
        while not _is_beat(one := inbox.next()):
            if one.is_status:
                self.requests.append(one)
                self.counts.append(self.count)
            else:
                self.count += 1
        return one

    @property
    def request(self) -> str:
        """The reply subject of the last request."""
        return self.requests[-1].reply

    @property
    def seen(self) -> Observation:
        requests = [
            {"subject": each.subject, "status": each.tree["status"], "to": without_id(each.reply)}
            for each in self.requests
        ]
        return {
            "messages before each request": self.counts,
            "requests": requests,
            "messages": self.count,
            "heartbeat": beat_seen(self.beat),
        }


def flowing(session: Session, stream: str, count: int) -> tuple[JetStreamClient, Listener]:
    """A consumer with flow control on a stream of so many large messages."""
    js = with_stream(session, stream, storage="memory")
    large(js, stream, count)
    inbox = listener(session, target(stream))
    new_durable(js, stream, "C", deliver_subject=target(stream), **FLOW)
    return js, inbox


def after_answer(js: JetStreamClient, inbox: Listener, window: Window) -> Window:
    """Answer the last request. Returns the deliveries that follow."""
    js.send_only(window.request)
    return Window(inbox, window.request)


# --- heartbeats ---------------------------------------------------------------------------------


@catalogue.case("js.heartbeat.empty")
def empty(session: Session) -> Observation:
    """Without messages to send, the heartbeat has zeros."""
    _, inbox = pushed(session, "BEATEMPTY")
    return [each.seen for each in inbox.take(2)]


@catalogue.case("js.heartbeat.position")
def position(session: Session) -> Observation:
    """A heartbeat has the last sequences of consumer and stream, and no reply subject."""
    js, inbox = pushed(session, "BEAT", *("BEAT",) * 3, deliver_policy="last")
    first = next_beat(inbox).seen
    js.fill("BEAT", "BEAT")
    return [first, next_beat(inbox, lambda beat: _last_consumer_seq(beat) == 3).seen]


@catalogue.case("js.heartbeat.redelivery")
def redelivery(session: Session) -> Observation:
    """A redelivery counts for the consumer's sequence, not for the stream's."""
    js, inbox = pushed(session, "BEATAGAIN", *("BEATAGAIN",) * 2)
    received = messages(inbox, 2)
    ack(js, received[0], body="-NAK")
    return next_beat(inbox, lambda beat: _last_consumer_seq(beat) == 3).seen


@catalogue.case("js.heartbeat.filter")
def filtered(session: Session) -> Observation:
    """A heartbeat counts messages that the filter skipped as seen; INFO does not."""
    js, inbox = pushed(
        session, "BEATFILTER", "BEATFILTER.a", *("BEATFILTER.b",) * 3, filter_subject="BEATFILTER.a"
    )
    return [next_beat(inbox).seen, progress_of(js, "BEATFILTER")]


@catalogue.case("js.heartbeat.max-pending")
def max_pending(session: Session) -> Observation:
    """A consumer that waits for acks has heartbeats, which stop at its last delivery."""
    _, inbox = pushed(session, "BEATFULL", *("BEATFULL",) * 4, max_ack_pending=2)
    return next_beat(inbox).seen


@catalogue.case("js.heartbeat.paused")
def paused(session: Session) -> Observation:
    """A consumer that is paused has heartbeats."""
    _, inbox = pushed(
        session, "BEATPAUSED", *("BEATPAUSED",) * 2, pause_until="2125-01-01T00:00:00Z"
    )
    return next_beat(inbox).seen


@catalogue.case("js.heartbeat.start")
def start(session: Session) -> Observation:
    """The first heartbeat begins where the consumer begins."""
    _, inbox = pushed(session, "BEATSTART", *("BEATSTART",) * 3, deliver_policy="new")
    return next_beat(inbox).seen


@catalogue.case("js.heartbeat.unheard")
def unheard(session: Session) -> Observation:
    """Without interest there are no heartbeats, though a wildcard would hear them."""
    js = with_stream(session, "BEATNONE")
    wide = listener(session, "to.BEATNONE.*")
    config = {"deliver_subject": "to.BEATNONE.x", "idle_heartbeat": HEARTBEAT_NS}
    new_durable(js, "BEATNONE", "C", **config)
    pass_time(session, beats=3)
    before = seen(wide.arrived())
    listener(session, "to.BEATNONE.x")
    return [before, wide.next().seen]


# --- flow control -------------------------------------------------------------------------------


@catalogue.case("js.flow.request")
def request(session: Session) -> Observation:
    """Half a window after the last answer a request comes, between two messages."""
    _, inbox = flowing(session, "FLOW", 50)
    return Window(inbox).seen


@catalogue.case("js.flow.counted")
def counted(session: Session) -> Observation:
    """Deliver subject, reply subject, headers and payload count; the message's own subject not."""
    js = with_stream(session, "FLOWCOUNT", storage="memory")
    subject = f"FLOWCOUNT.{'s' * 400}"
    for _ in range(1000):
        js.publish(subject, "x" * 800, {"H": "h" * 200})
    deliver = f"to.FLOWCOUNT.{'d' * 100}"
    inbox = listener(session, deliver)
    new_durable(js, "FLOWCOUNT", "C", deliver_subject=deliver, **FLOW)
    return Window(inbox).counts


@catalogue.case("js.flow.below")
def below(session: Session) -> Observation:
    """Less than half a window needs no request."""
    _, inbox = flowing(session, "FLOWBELOW", 30)
    return Window(inbox).seen


@catalogue.case("js.flow.stall")
def stall(session: Session) -> Observation:
    """Past the window the consumer stalls, which its heartbeats tell by the request's subject."""
    _, inbox = flowing(session, "FLOWSTALL", 100)
    window = Window(inbox)
    told = dict(window.beat.tree["headers"])["Nats-Consumer-Stalled"]
    return [window.seen, told == window.request]


@catalogue.case("js.flow.not-stalled")
def not_stalled(session: Session) -> Observation:
    """Heartbeats name a request that is not answered, also when all was sent."""
    js, inbox = flowing(session, "FLOWOPEN", 40)
    window = Window(inbox)
    return [beat_seen(window.beat), after_answer(js, inbox, window).seen]


@catalogue.case("js.flow.answer")
def answer(session: Session) -> Observation:
    """An answer frees the room of messages sent before the request, and doubles the window."""
    js, inbox = flowing(session, "FLOWANSWER", 400)
    windows = [Window(inbox)]
    for _ in range(2):
        windows.append(after_answer(js, inbox, windows[-1]))
    return [window.seen for window in windows]


@catalogue.case("js.flow.other-answer")
def other_answer(session: Session) -> Observation:
    """Only the subject of the last request is an answer; a second one to it is none."""
    js, inbox = flowing(session, "FLOWWRONG", 200)
    window = Window(inbox)
    js.send_only("$JS.FC.FLOWWRONG.C.nope")
    still = [beat_seen(next_beat(inbox)) for _ in range(2)]
    second = after_answer(js, inbox, window)
    js.send_only(window.request)
    beats = [beat_seen(next_beat(inbox)) for _ in range(2)]
    return [still, second.seen, beats]


@catalogue.case("js.flow.answer-payload")
def answer_payload(session: Session) -> Observation:
    """The payload and the headers of an answer do not matter."""
    js, inbox = flowing(session, "FLOWPAYLOAD", 100)
    window = Window(inbox)
    js.send_only(window.request, "anything", {"A": "1"})
    return [window.seen, Window(inbox, window.request).seen]


@catalogue.case("js.flow.headers-only")
def headers_only(session: Session) -> Observation:
    """Payloads that are not sent do not count."""
    js = with_stream(session, "FLOWHEAD", storage="memory")
    large(js, "FLOWHEAD", 100)
    inbox = listener(session, target("FLOWHEAD"))
    config = {"deliver_subject": target("FLOWHEAD"), "headers_only": True, **FLOW}
    new_durable(js, "FLOWHEAD", "C", **config)
    return Window(inbox).seen


@catalogue.case("js.flow.acks")
def flow_with_acks(session: Session) -> Observation:
    """Acks are no answer to a request."""
    js = with_stream(session, "FLOWACK", storage="memory")
    large(js, "FLOWACK", 100)
    inbox = listener(session, target("FLOWACK"))
    config = {"deliver_subject": target("FLOWACK"), **FLOW, "ack_policy": "all"}
    new_durable(js, "FLOWACK", "C", **config)
    received = messages(inbox, 64)
    ack(js, received[-1])
    return [progress_of(js, "FLOWACK"), seen(until_idle(inbox))]


# --- ordered consumers --------------------------------------------------------------------------


@catalogue.case("js.ordered.made")
def ordered_made(session: Session) -> Observation:
    """An ordered consumer is an ephemeral without acks, in memory, with flow control."""
    js = with_stream(session, "ORDERED")
    js.fill("ORDERED.a", "ORDERED.b")
    inbox = listener(session, target("ORDERED"))
    made = create_consumer(js, "ORDERED", "o1", deliver_subject=target("ORDERED"), **ORDERED)
    received = seen(inbox.take(2))
    return [made, received, consumer_info(js, "ORDERED", "o1")]


@catalogue.case("js.ordered.without-name")
def ordered_without_name(session: Session) -> Observation:
    """Without a name one of eight letters and digits is drawn, which replies carry."""
    js = with_stream(session, "ORDEREDNAME")
    js.fill("ORDEREDNAME")
    inbox = listener(session, target("ORDEREDNAME"))
    config = {"deliver_subject": target("ORDEREDNAME"), **ORDERED}
    made = js.api("CONSUMER.CREATE.ORDEREDNAME", {"stream_name": "ORDEREDNAME", "config": config})
    name = made["name"]
    received = inbox.next()
    return {
        "drawn": [len(name), name.isalnum()],
        "config": made["config"].get("name") == name,
        "reply": received.reply.split(".")[3] == name,
        "pending": made["num_pending"],
    }


@catalogue.case("js.ordered.gap")
def ordered_gap(session: Session) -> Observation:
    """Deleted messages leave no gap in the consumer's sequence."""
    js = with_stream(session, "ORDEREDGAP")
    js.fill(*("ORDEREDGAP",) * 5)
    for seq in (2, 3):
        js.api("STREAM.MSG.DELETE.ORDEREDGAP", {"seq": seq})
    inbox = listener(session, target("ORDEREDGAP"))
    create_consumer(js, "ORDEREDGAP", "o1", deliver_subject=target("ORDEREDGAP"), **ORDERED)
    return seen(inbox.take(3))


@catalogue.case("js.ordered.reset")
def ordered_reset(session: Session) -> Observation:
    """A client that lost its place makes another from where it was, which counts from one."""
    js = with_stream(session, "ORDEREDRESET")
    js.fill(*("ORDEREDRESET",) * 4)
    subject = target("ORDEREDRESET")
    inbox = listener(session, subject)
    create_consumer(js, "ORDEREDRESET", "o1", deliver_subject=subject, **ORDERED)
    first = seen(inbox.take(4))
    delete_consumer(js, "ORDEREDRESET", "o1")
    again = {"deliver_policy": "by_start_sequence", "opt_start_seq": 3, **ORDERED}
    create_consumer(js, "ORDEREDRESET", "o2", deliver_subject=subject, **again)
    return [first, seen(inbox.take(2))]


@catalogue.case("js.ordered.purged")
def ordered_purged(session: Session) -> Observation:
    """A start that is no longer there is the first message that is."""
    js = with_stream(session, "ORDEREDPURGE")
    js.fill(*("ORDEREDPURGE",) * 4)
    js.api("STREAM.PURGE.ORDEREDPURGE", {"seq": 4})
    inbox = listener(session, target("ORDEREDPURGE"))
    config = {"deliver_policy": "by_start_sequence", "opt_start_seq": 2, **ORDERED}
    made = create_consumer(
        js, "ORDEREDPURGE", "o1", deliver_subject=target("ORDEREDPURGE"), **config
    )
    return [made["delivered"], inbox.next().seen]


@catalogue.case("js.ordered.headers-only")
def ordered_headers_only(session: Session) -> Observation:
    """An ordered consumer that watches keys wants no data, and the last of each subject."""
    js = with_stream(session, "ORDEREDKEYS")
    for name in ("a", "b", "a", "c", "b"):
        js.publish(f"ORDEREDKEYS.{name}", name * 3)
    inbox = listener(session, target("ORDEREDKEYS"))
    config = {
        "deliver_policy": "last_per_subject",
        "filter_subject": "ORDEREDKEYS.>",
        "headers_only": True,
        **ORDERED,
    }
    create_consumer(js, "ORDEREDKEYS", "o1", deliver_subject=target("ORDEREDKEYS"), **config)
    return seen(inbox.take(3))


# --- rate ---------------------------------------------------------------------------------------


def sent_within(session: Session, stream: str, rate_limit_bps: int) -> Reply:
    """Whether ten messages of about a kilobyte take their time."""
    js = with_stream(session, stream, max_msg_size=2000)
    js.fill(*(stream,) * 10, payload="x" * 900)
    inbox = listener(session, target(stream))
    since = time.monotonic()
    new_durable(js, stream, "C", deliver_subject=target(stream), rate_limit_bps=rate_limit_bps)
    last = inbox.take(10)[-1]
    return {"last": last.reply.split(".")[5], "slow": time.monotonic() - since > 0.5}


@catalogue.case("js.rate.slow")
def rate_slow(session: Session) -> Observation:
    """A rate is in bits: at 80,000 ten kilobytes take a second, less what may come at once."""
    return sent_within(session, "RATESLOW", 80_000)


@catalogue.case("js.rate.fast")
def rate_fast(session: Session) -> Observation:
    """Below the rate nothing waits."""
    return sent_within(session, "RATEFAST", 80_000_000)


@catalogue.case("js.rate.update")
def rate_update(session: Session) -> Observation:
    """A rate may be taken back; INFO shows none then."""
    js, inbox = pushed(session, "RATEOFF", rate_limit_bps=80_000)
    config = {
        "durable_name": "C",
        "ack_policy": "explicit",
        "ack_wait": LONG_NS,
        "idle_heartbeat": HEARTBEAT_NS,
        "deliver_subject": target("RATEOFF"),
    }
    changed = create_consumer(js, "RATEOFF", "C", **config)
    js.fill("RATEOFF")
    return [changed, seen(messages(inbox, 1))]
