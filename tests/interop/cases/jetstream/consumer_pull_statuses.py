"""Every status a pull is answered with: its text, its headers, and when it comes.

A status comes at once if its pull would wait longer than any script; it comes after the pull ran
out if that time has passed; it never comes if a later pull is answered without it, as a consumer
takes pulls one after another.
"""

import time

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_pull import (
    FAR_AHEAD,
    LONG_NS,
    SHORT_NS,
    add,
    counts,
    lasted_ns,
    payloads,
    puller,
    state,
    supplied,
    waits,
)
from tests.interop.consumers import (
    MILLISECOND_NS,
    NEXT,
    SECOND_NS,
    Delivery,
    Receiver,
    ack,
    consumer_info_when,
    delete_consumer,
    fetch,
    new_durable,
    seen,
)
from tests.interop.jetstream import JETSTREAM, Body, JetStreamClient
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

HEARTBEAT_NS = 200 * MILLISECOND_NS

catalogue = Catalogue(JETSTREAM)


def timing(since: float, due_ns: int) -> str:
    """Whether something came when it was due, or had not waited for that."""
    return "when due" if lasted_ns(since) >= due_ns else "too early"


def refused(js: JetStreamClient, stream: str, *bodies: Body) -> Observation:
    """The statuses that answer pulls at once."""
    return [js.request(f"{NEXT}{stream}.C", body) for body in bodies]


def message_bytes(message: Delivery) -> int:
    """The size of a message without headers as pulls count it."""
    return len(message.subject) + len(message.reply) + len(message.tree["data"])


@catalogue.case("js.pull-status.no-messages", text="404 No Messages")
def no_messages(session: Session) -> Observation:
    """A pull that does not wait and finds nothing gets its status at once, without headers."""
    js = supplied(session, "STATUS-404")
    frame = js.request_frame(f"{NEXT}STATUS-404.C", {"batch": 1, "no_wait": True})
    line, rest = frame.split("\r\n", 1)
    return {"line": line.split(" ")[2:], "rest": rest, "state": state(js, "STATUS-404")}


@catalogue.case("js.pull-status.no-messages-left")
def no_messages_left(session: Session) -> Observation:
    """A pull that does not wait gets the messages there are, and then the status that ends it."""
    js = supplied(session, "STATUS-LEFT", "a", "b")
    came = seen(fetch(js, "STATUS-LEFT", "C", 5))
    return {"came": came, "state": state(js, "STATUS-LEFT")}


@catalogue.case("js.pull-status.no-wait-filled")
def no_wait_filled(session: Session) -> Observation:
    """A pull that does not wait and is filled gets no status."""
    js = supplied(session, "STATUS-FILLED", "a", "b")
    one = puller(session, "STATUS-FILLED")
    one.pull("STATUS-FILLED", "C", {"batch": 2, "no_wait": True})
    came = payloads(one.take(2))
    one.pull("STATUS-FILLED", "C", {"batch": 1, "expires": SHORT_NS})
    return {"came": came, "next": payloads(one.take(1)), "state": state(js, "STATUS-FILLED")}


@catalogue.case("js.pull-status.no-wait-for-a-while")
def no_wait_for_a_while(session: Session) -> Observation:
    """With both `no_wait` and `expires` a pull waits for the first message until it runs out."""
    supplied(session, "STATUS-WHILE")
    one = puller(session, "STATUS-WHILE")
    since = time.monotonic()
    one.pull("STATUS-WHILE", "C", {"batch": 3, "no_wait": True, "expires": SHORT_NS})
    return [one.next().seen, timing(since, SHORT_NS)]


@catalogue.case("js.pull-status.no-wait-once-served")
def no_wait_once_served(session: Session) -> Observation:
    """With both it ends as soon as it was served and there is no more."""
    supplied(session, "STATUS-ONCE", "a", "b")
    one = puller(session, "STATUS-ONCE")
    one.pull("STATUS-ONCE", "C", {"batch": 3, "no_wait": True, "expires": LONG_NS})
    return seen(one.until_status())


@catalogue.case("js.pull-status.no-wait-served-later")
def no_wait_served_later(session: Session) -> Observation:
    """With both, a pull that waited ends with the first message that comes."""
    js = supplied(session, "STATUS-LATER")
    one = puller(session, "STATUS-LATER")
    one.pull("STATUS-LATER", "C", {"batch": 3, "no_wait": True, "expires": LONG_NS})
    waits(js, "STATUS-LATER")
    add(js, "STATUS-LATER", "a")
    return payloads(one.until_status())


@catalogue.case("js.pull-status.timeout", text="408 Request Timeout")
def timeout(session: Session) -> Observation:
    """A pull that runs out gets a status with the messages and bytes that it still wanted."""
    js = supplied(session, "STATUS-408")
    one = puller(session, "STATUS-408")
    since = time.monotonic()
    one.pull("STATUS-408", "C", {"batch": 5, "expires": SHORT_NS})
    frame = str(one.wire.frame())
    line, rest = frame.split("\r\n", 1)
    return {
        "line": line.split(" "),
        "rest": rest,
        "when": timing(since, SHORT_NS),
        "state": state(js, "STATUS-408"),
    }


@catalogue.case("js.pull-status.timeout-rest")
def timeout_rest(session: Session) -> Observation:
    """A pull that runs out reports its rest: messages and bytes served are subtracted."""
    js = supplied(session, "STATUS-REST", "a", "b")
    new_durable(js, "STATUS-REST", "D")
    sizes = [message_bytes(each) for each in fetch(js, "STATUS-REST", "D", 2)]
    one = puller(session, "STATUS-REST")
    one.pull("STATUS-REST", "C", {"batch": 5, "expires": SHORT_NS, "max_bytes": 1000})
    came = one.until_status()
    return {"came": payloads(came), "status": came[-1].seen, "sizes": sizes}


@catalogue.case("js.pull-status.timeout-negative")
def timeout_negative(session: Session) -> Observation:
    """A pull whose time is over before it begins gets a status at once, and no message."""
    js = supplied(session, "STATUS-PAST", "a")
    one = puller(session, "STATUS-PAST")
    one.pull("STATUS-PAST", "C", {"batch": 2, "expires": -1})
    return {"came": one.next().seen, "state": state(js, "STATUS-PAST")}


@catalogue.case("js.pull-status.timeout-no-batch")
def timeout_no_batch(session: Session) -> Observation:
    """The status of a pull that runs out without a batch has a rest of zero or less."""
    js = supplied(session, "STATUS-ZERO")
    return [
        js.request(f"{NEXT}STATUS-ZERO.C", {"expires": SHORT_NS}),
        js.request(f"{NEXT}STATUS-ZERO.C", {"expires": SHORT_NS, "batch": -2, "max_bytes": -3}),
    ]


@catalogue.case("js.pull-status.timeouts-in-their-order")
def timeouts_in_their_order(session: Session) -> Observation:
    """Pulls run out each in its time, whichever came first."""
    js = supplied(session, "STATUS-TIMES")
    one = puller(session, "STATUS-TIMES")
    one.pull("STATUS-TIMES", "C", {"batch": 1, "expires": 3 * SHORT_NS})
    waits(js, "STATUS-TIMES", 1)
    one.pull("STATUS-TIMES", "C", {"batch": 2, "expires": SHORT_NS})
    return seen(one.take(2))


@catalogue.case("js.pull-status.no-timeout")
def no_timeout(session: Session) -> Observation:
    """A pull without `expires` waits on while others run out."""
    js = supplied(session, "STATUS-EVER")
    one = puller(session, "STATUS-EVER")
    one.pull("STATUS-EVER", "C", "7")
    waits(js, "STATUS-EVER", 1)
    one.pull("STATUS-EVER", "C", {"batch": 2, "expires": SHORT_NS})
    came = payloads(one.take(1))
    waiting = state(js, "STATUS-EVER")
    add(js, "STATUS-EVER", "a")
    return {"came": came, "waiting": waiting, "then": payloads(one.take(1))}


@catalogue.case("js.pull-status.timeout-unheard")
def timeout_unheard(session: Session) -> Observation:
    """A pull without a listener runs out without a status, also if a listener comes back."""
    js = supplied(session, "STATUS-UNHEARD")
    one = puller(session, "STATUS-UNHEARD")
    one.pull("STATUS-UNHEARD", "C", {"batch": 3, "expires": SHORT_NS})
    waits(js, "STATUS-UNHEARD", 1)
    one.leave()
    forgotten = state(js, "STATUS-UNHEARD")
    again = Receiver(one.wire, one.subject)
    again.pull("STATUS-UNHEARD", "C", {"batch": 1, "expires": 2 * SHORT_NS})
    return {"forgotten": forgotten, "came": again.next().seen}


@catalogue.case("js.pull-status.requests-pending", text="408 Requests Pending")
def requests_pending(session: Session) -> Observation:
    """A pull that does not wait gets a status at once if pulls before it want all messages."""
    js = supplied(session, "STATUS-BUSY", "a", "b", pause_until=FAR_AHEAD)
    one = puller(session, "STATUS-BUSY")
    one.pull("STATUS-BUSY", "C", {"batch": 3, "expires": LONG_NS})
    waits(js, "STATUS-BUSY")
    return refused(js, "STATUS-BUSY", {"batch": 1, "no_wait": True})


@catalogue.case("js.pull-status.requests-not-pending")
def requests_not_pending(session: Session) -> Observation:
    """When those before it want no more than there is, such a pull stands in line."""
    js = supplied(session, "STATUS-ROOM", "a", "b", pause_until=FAR_AHEAD)
    one = puller(session, "STATUS-ROOM")
    one.pull("STATUS-ROOM", "C", {"batch": 2, "expires": LONG_NS})
    waits(js, "STATUS-ROOM")
    one.pull("STATUS-ROOM", "C", {"batch": 1, "no_wait": True, "expires": SHORT_NS})
    return payloads(one.take(1))


@catalogue.case("js.pull-status.max-bytes", text="409 Message Size Exceeds MaxBytes")
def max_bytes(session: Session) -> Observation:
    """A message larger than a pull allows ends the pull at once, and stays for another."""
    js = supplied(session, "STATUS-LARGE", "a")
    one = puller(session, "STATUS-LARGE")
    one.pull("STATUS-LARGE", "C", {"batch": 3, "max_bytes": 10, "expires": LONG_NS})
    first = one.next().seen
    return {"first": first, "then": seen(fetch(js, "STATUS-LARGE", "C"))}


@catalogue.case("js.pull-status.max-bytes-bound")
def max_bytes_bound(session: Session) -> Observation:
    """The size of a message is that of its subject, its reply, its headers and its payload."""
    js = supplied(session, "STATUS-BOUND", "abc")
    for name in "DE":
        new_durable(js, "STATUS-BOUND", name)
    size = message_bytes(fetch(js, "STATUS-BOUND", "C")[0])
    one = puller(session, "STATUS-BOUND")
    one.pull("STATUS-BOUND", "D", {"batch": 3, "max_bytes": size - 1, "expires": LONG_NS})
    too_small = payloads(one.take(1))
    one.pull("STATUS-BOUND", "E", {"batch": 3, "max_bytes": size, "expires": LONG_NS})
    return {"too small": too_small, "exact": payloads(one.take(1))}


@catalogue.case("js.pull-status.max-bytes-headers")
def max_bytes_headers(session: Session) -> Observation:
    """Headers count whole, with their first line and the empty last one."""
    js = with_stream(session, "STATUS-HEADERS")
    js.publish("STATUS-HEADERS", "data", {"Name": "value"})
    for name in "CDE":
        new_durable(js, "STATUS-HEADERS", name)
    first = fetch(js, "STATUS-HEADERS", "C")[0]
    size = message_bytes(first) + len("NATS/1.0\r\nName: value\r\n\r\n")
    one = puller(session, "STATUS-HEADERS")
    one.pull("STATUS-HEADERS", "D", {"batch": 3, "max_bytes": size - 1, "expires": LONG_NS})
    too_small = payloads(one.take(1))
    one.pull("STATUS-HEADERS", "E", {"batch": 3, "max_bytes": size, "expires": LONG_NS})
    return {"too small": too_small, "exact": payloads(one.take(1))}


@catalogue.case("js.pull-status.max-bytes-headers-only")
def max_bytes_headers_only(session: Session) -> Observation:
    """With `headers_only` the bytes that are sent count, not the payload left out."""
    js = with_stream(session, "STATUS-HEADONLY")
    js.publish("STATUS-HEADONLY", "x" * 1000)
    new_durable(js, "STATUS-HEADONLY", "C", headers_only=True)
    one = puller(session, "STATUS-HEADONLY")
    one.pull("STATUS-HEADONLY", "C", {"batch": 2, "max_bytes": 500, "expires": LONG_NS})
    return one.next().tree


@catalogue.case("js.pull-status.max-bytes-used-up")
def max_bytes_used_up(session: Session) -> Observation:
    """Bytes that are used up exactly end a pull, with no word and whatever its batch."""
    js = supplied(session, "STATUS-USED", "a", "b", "c")
    new_durable(js, "STATUS-USED", "D")
    size = sum(message_bytes(each) for each in fetch(js, "STATUS-USED", "D", 2))
    one = puller(session, "STATUS-USED")
    one.pull("STATUS-USED", "C", {"batch": 5, "max_bytes": size, "expires": LONG_NS})
    came = payloads(one.take(2))
    one.pull("STATUS-USED", "C", {"batch": 1, "no_wait": True})
    return {"came": came, "then": payloads(one.take(1)), "state": state(js, "STATUS-USED")}


@catalogue.case("js.pull-status.max-bytes-after-some")
def max_bytes_after_some(session: Session) -> Observation:
    """A message larger than the bytes left ends a pull that was served some, with its rest."""
    js = supplied(session, "STATUS-SOME", "a", "b", "c")
    new_durable(js, "STATUS-SOME", "D")
    size = sum(message_bytes(each) for each in fetch(js, "STATUS-SOME", "D", 2))
    one = puller(session, "STATUS-SOME")
    one.pull("STATUS-SOME", "C", {"batch": 5, "max_bytes": size + 7, "expires": LONG_NS})
    came = one.take(3)
    return {"came": payloads(came), "status": came[-1].seen}


@catalogue.case("js.pull-status.max-bytes-other")
def max_bytes_other(session: Session) -> Observation:
    """A message too large for the pull that is next goes to the one behind it."""
    js = supplied(session, "STATUS-OTHER")
    small, large = puller(session, "STATUS-OTHER", "small"), puller(session, "STATUS-OTHER", "l")
    small.pull("STATUS-OTHER", "C", {"batch": 3, "max_bytes": 10, "expires": LONG_NS})
    waits(js, "STATUS-OTHER", 1)
    large.pull("STATUS-OTHER", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "STATUS-OTHER", 2)
    add(js, "STATUS-OTHER", "a")
    return {"small": payloads(small.take(1)), "large": payloads(large.take(1))}


@catalogue.case("js.pull-status.max-bytes-not-positive")
def max_bytes_not_positive(session: Session) -> Observation:
    """No bytes, or fewer, are no limit."""
    js = supplied(session, "STATUS-NOLIMIT", "a", "b")
    return [
        payloads(fetch(js, "STATUS-NOLIMIT", "C", max_bytes=0)),
        payloads(fetch(js, "STATUS-NOLIMIT", "C", max_bytes=-1)),
    ]


@catalogue.case("js.pull-status.batch-completed", text="409 Batch Completed")
def batch_completed(session: Session) -> Observation:
    """A pull with bytes whose batch is complete gets a status at once, with the bytes left."""
    js = supplied(session, "STATUS-DONE", "a", "b")
    new_durable(js, "STATUS-DONE", "D")
    sizes = [message_bytes(each) for each in fetch(js, "STATUS-DONE", "D", 2)]
    one = puller(session, "STATUS-DONE")
    one.pull("STATUS-DONE", "C", {"batch": 2, "max_bytes": 1000, "expires": LONG_NS})
    came = one.until_status()
    return {"came": payloads(came), "status": came[-1].seen, "sizes": sizes}


@catalogue.case("js.pull-status.limit-batch", text="409 Exceeded MaxRequestBatch of 2")
def limit_batch(session: Session) -> Observation:
    """A consumer may limit the batch of a pull, also one given as a number."""
    js = supplied(session, "STATUS-BATCH", "a", "b", "c", max_batch=2)
    refusals = refused(js, "STATUS-BATCH", {"batch": 3}, "3", {"batch": 3, "no_wait": True})
    return {"refused": refusals, "fine": payloads(fetch(js, "STATUS-BATCH", "C", 2))}


@catalogue.case("js.pull-status.limit-expires", text="409 Exceeded MaxRequestExpires of 1.5s")
def limit_expires(session: Session) -> Observation:
    """A consumer may limit the time of a pull; one that names none is not limited."""
    js = supplied(session, "STATUS-EXPIRES", "a", "b", max_expires=1500 * MILLISECOND_NS)
    refusals = refused(
        js,
        "STATUS-EXPIRES",
        {"batch": 1, "expires": 2 * SECOND_NS},
        {"batch": 1, "expires": LONG_NS, "no_wait": True},
    )
    fine = payloads(fetch(js, "STATUS-EXPIRES", "C", expires=SECOND_NS))
    one = puller(session, "STATUS-EXPIRES")
    one.pull("STATUS-EXPIRES", "C", {"batch": 1})
    return {"refused": refusals, "fine": fine, "unnamed": payloads(one.take(1))}


@catalogue.case("js.pull-status.limit-bytes", text="409 Exceeded MaxRequestMaxBytes of 1000")
def limit_bytes(session: Session) -> Observation:
    """A consumer may limit the bytes of a pull; one that names none is not limited."""
    js = supplied(session, "STATUS-MAXBYTES", "a", "b", max_bytes=1000)
    return {
        "refused": refused(js, "STATUS-MAXBYTES", {"batch": 1, "max_bytes": 1001}),
        "at it": payloads(fetch(js, "STATUS-MAXBYTES", "C", max_bytes=1000)),
        "unnamed": payloads(fetch(js, "STATUS-MAXBYTES", "C")),
    }


@catalogue.case("js.pull-status.limits-in-order")
def limits_in_order(session: Session) -> Observation:
    """Of several limits passed the first is told: heartbeat, batch, time, bytes, then groups."""
    js = supplied(
        session, "STATUS-FIRST", max_batch=1, max_expires=SECOND_NS, max_bytes=10, max_waiting=1
    )
    beat = {"idle_heartbeat": LONG_NS}
    batch = {"batch": 2}
    expires = {"expires": 2 * SECOND_NS}
    size = {"max_bytes": 11}
    group = {"priority": 10, "min_pending": 1, "id": "x"}
    return refused(
        js,
        "STATUS-FIRST",
        {**beat, **batch, **expires, **size, **group},
        {**batch, **expires, **size, **group},
        {**expires, **size, **group},
        {**size, **group},
        group,
        {"priority": 10, "id": "x"},
        {"priority": 10, "no_wait": True},
        {"priority": -1},
    )


@catalogue.case("js.pull-status.max-waiting", text="409 Exceeded MaxWaiting")
def max_waiting(session: Session) -> Observation:
    """A pull more than a consumer lets wait is refused at once; those that wait stay."""
    js = supplied(session, "STATUS-FULL", max_waiting=2)
    one = puller(session, "STATUS-FULL")
    for count in (1, 2):
        one.pull("STATUS-FULL", "C", {"batch": 1, "expires": LONG_NS})
        waits(js, "STATUS-FULL", count)
    refusals = refused(js, "STATUS-FULL", {"batch": 1, "expires": LONG_NS}, "", "5")
    full = state(js, "STATUS-FULL")
    add(js, "STATUS-FULL", "a", "b")
    return {"refused": refusals, "state": full, "served": payloads(one.take(2))}


@catalogue.case("js.pull-status.max-waiting-heartbeat")
def max_waiting_heartbeat(session: Session) -> Observation:
    """A pull with heartbeats gets no status that too many wait: it will miss its heartbeats."""
    js = supplied(session, "STATUS-FULLBEAT", max_waiting=1)
    one = puller(session, "STATUS-FULLBEAT")
    one.pull("STATUS-FULLBEAT", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "STATUS-FULLBEAT", 1)
    other = puller(session, "STATUS-FULLBEAT", "other")
    beating = {"batch": 1, "expires": LONG_NS, "idle_heartbeat": SECOND_NS}
    other.pull("STATUS-FULLBEAT", "C", beating)
    other.pull("STATUS-FULLBEAT", "C", {"batch": 1, "expires": LONG_NS})
    return [other.next().seen, state(js, "STATUS-FULLBEAT")]


@catalogue.case("js.pull-status.max-waiting-no-wait")
def max_waiting_no_wait(session: Session) -> Observation:
    """A pull that does not wait and finds nothing gets that status first, also if too many wait."""
    js = supplied(session, "STATUS-FULLNOW", max_waiting=1)
    one = puller(session, "STATUS-FULLNOW")
    one.pull("STATUS-FULLNOW", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "STATUS-FULLNOW", 1)
    return refused(js, "STATUS-FULLNOW", {"batch": 1, "no_wait": True})


@catalogue.case("js.pull-status.max-waiting-gone")
def max_waiting_gone(session: Session) -> Observation:
    """A pull without a listener makes room for another."""
    js = supplied(session, "STATUS-FREED", max_waiting=1)
    gone, other = puller(session, "STATUS-FREED", "gone"), puller(session, "STATUS-FREED", "other")
    gone.pull("STATUS-FREED", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "STATUS-FREED", 1)
    gone.leave()
    before = state(js, "STATUS-FREED")
    other.pull("STATUS-FREED", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "STATUS-FREED", 1)
    add(js, "STATUS-FREED", "a")
    return {"before": before, "other": payloads(other.take(1))}


@catalogue.case("js.pull-status.deleted", text="409 Consumer Deleted")
def deleted(session: Session) -> Observation:
    """Pulls that wait get a status at once when their consumer is deleted, without headers."""
    js = supplied(session, "STATUS-DELETED")
    one = puller(session, "STATUS-DELETED")
    for count in (1, 2):
        one.pull("STATUS-DELETED", "C", {"batch": 3, "max_bytes": 9, "expires": LONG_NS})
        waits(js, "STATUS-DELETED", count)
    gone = delete_consumer(js, "STATUS-DELETED", "C")
    return {"reply": gone, "told": seen(one.take(2))}


@catalogue.case("js.pull-status.stream-deleted")
def stream_deleted(session: Session) -> Observation:
    """Pulls that wait get that status too when the stream is deleted with its consumers."""
    js = supplied(session, "STATUS-NOSTREAM")
    one = puller(session, "STATUS-NOSTREAM")
    one.pull("STATUS-NOSTREAM", "C", {"batch": 3, "expires": LONG_NS})
    waits(js, "STATUS-NOSTREAM")
    js.api("STREAM.DELETE.STATUS-NOSTREAM")
    return one.next().seen


@catalogue.case("js.pull-status.push-based", text="409 Consumer is push based")
def push_based(session: Session) -> Observation:
    """A pull from a push consumer is refused whatever its body is."""
    js = supplied(session, "STATUS-PUSH", deliver_subject="status-push")
    return refused(js, "STATUS-PUSH", None, "5", "{", {"batch": 1, "no_wait": True})


@catalogue.case("js.pull-status.shutdown", text="409 Server Shutdown", own_server=True)
def shutdown(session: Session) -> Observation:
    """Pulls that wait get a status at the end of the server, with their rest."""
    js = supplied(session, "STATUS-SHUTDOWN")
    one = puller(session, "STATUS-SHUTDOWN")
    one.pull("STATUS-SHUTDOWN", "C", {"batch": 3, "max_bytes": 9, "expires": LONG_NS})
    waits(js, "STATUS-SHUTDOWN")
    session.server.stop()
    return one.next().seen


@catalogue.case("js.pull-status.heartbeat-bad", text="400 Bad Request - heartbeat value too large")
def heartbeat_bad(session: Session) -> Observation:
    """Heartbeats have to come twice at least: one longer than half the time is refused."""
    js = supplied(session, "STATUS-BEATBAD", "a")
    return refused(
        js,
        "STATUS-BEATBAD",
        {"batch": 1, "expires": SECOND_NS, "idle_heartbeat": SECOND_NS // 2 + 1},
        {"batch": 1, "idle_heartbeat": 1},
        {"batch": 1, "idle_heartbeat": 1, "no_wait": True},
    )


@catalogue.case("js.pull-status.heartbeat-fine")
def heartbeat_fine(session: Session) -> Observation:
    """Half the time is a heartbeat that is fine, and one below nothing is none."""
    js = supplied(session, "STATUS-BEATFINE", "a", "b")
    half = fetch(js, "STATUS-BEATFINE", "C", expires=SECOND_NS, idle_heartbeat=SECOND_NS // 2)
    return [payloads(half), payloads(fetch(js, "STATUS-BEATFINE", "C", idle_heartbeat=-1))]


@catalogue.case("js.pull-status.heartbeat", text="100 Idle Heartbeat")
def heartbeat(session: Session) -> Observation:
    """A pull that waits hears a heartbeat in its time, with the last sequences delivered."""
    supplied(session, "STATUS-BEAT")
    one = puller(session, "STATUS-BEAT")
    since = time.monotonic()
    one.pull("STATUS-BEAT", "C", {"batch": 1, "expires": LONG_NS, "idle_heartbeat": HEARTBEAT_NS})
    line, rest = str(one.wire.frame()).split("\r\n", 1)
    return {
        "line": line.split(" "),
        "rest": rest,
        "when": timing(since, HEARTBEAT_NS),
        "again": one.next().seen,
        "then": timing(since, 2 * HEARTBEAT_NS),
    }


@catalogue.case("js.pull-status.heartbeat-sequences")
def heartbeat_sequences(session: Session) -> Observation:
    """A heartbeat after messages names the last of them, by consumer and by stream."""
    subjects = ("a", "b", "a", "b")
    js = supplied(session, "STATUS-BEATSEQ", *subjects, filter_subject="STATUS-BEATSEQ.b")
    ack(js, *fetch(js, "STATUS-BEATSEQ", "C"))
    one = puller(session, "STATUS-BEATSEQ")
    one.pull(
        "STATUS-BEATSEQ", "C", {"batch": 5, "expires": LONG_NS, "idle_heartbeat": HEARTBEAT_NS}
    )
    came = one.until_status()
    return {"came": payloads(came), "status": came[-1].seen}


@catalogue.case("js.pull-status.heartbeat-until-timeout")
def heartbeat_until_timeout(session: Session) -> Observation:
    """Heartbeats go on until the pull runs out, which has its usual status."""
    supplied(session, "STATUS-BEATEND")
    one = puller(session, "STATUS-BEATEND")
    one.pull(
        "STATUS-BEATEND", "C", {"batch": 1, "expires": SECOND_NS, "idle_heartbeat": HEARTBEAT_NS}
    )
    came = [one.next()]
    while "408" not in came[-1].tree["status"]:
        came.append(one.next())
    beats = {str(each.seen) for each in came[:-1]}
    return {"heartbeats": sorted(beats), "end": came[-1].seen}


@catalogue.case("js.pull-status.heartbeat-each")
def heartbeat_each(session: Session) -> Observation:
    """Heartbeats are a pull's own: another that waits beside it hears none."""
    js = supplied(session, "STATUS-BEATEACH")
    quiet, beating = (puller(session, "STATUS-BEATEACH", name) for name in ("quiet", "beating"))
    quiet.pull("STATUS-BEATEACH", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "STATUS-BEATEACH", 1)
    beating.pull(
        "STATUS-BEATEACH", "C", {"batch": 1, "expires": LONG_NS, "idle_heartbeat": HEARTBEAT_NS}
    )
    beats = payloads(beating.take(2))
    add(js, "STATUS-BEATEACH", "a")
    return {"beating": beats, "quiet": payloads(quiet.take(1))}


@catalogue.case("js.pull-status.stalled")
def stalled(session: Session) -> Observation:
    """A pull that does not wait stands in line where acks are awaited before there is more."""
    js = supplied(session, "STATUS-STALLED", "a", "b", max_ack_pending=1)
    first = fetch(js, "STATUS-STALLED", "C")
    one = puller(session, "STATUS-STALLED")
    one.pull("STATUS-STALLED", "C", {"batch": 1, "no_wait": True})
    waiting = consumer_info_when(js, "STATUS-STALLED", "C", num_waiting=1)
    ack(js, *first)
    return {"waiting": counts(waiting), "then": payloads(one.take(1))}
