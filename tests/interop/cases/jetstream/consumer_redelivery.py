"""Messages delivered again: when, in which order, how often at most, and what becomes of counts.

Times are only ever bounded from below, or by a pull that would outlast any script.
"""

import time

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_acks import consumer_events
from tests.interop.cases.jetstream.consumer_pull import (
    LONG_NS,
    SHORT_NS,
    add,
    counts,
    lasted_ns,
    let_pass,
    payloads,
    puller,
    state,
    supplied,
    waits,
)
from tests.interop.consumers import (
    SECOND_NS,
    ack,
    consumer_info_when,
    fetch,
    new_durable,
    seen,
    taken_apart,
)
from tests.interop.jetstream import JETSTREAM, jetstream
from tests.interop.messages import restarted
from tests.interop.observation import Observation
from tests.interop.session import Session

ACK_WAIT_NS = SHORT_NS

catalogue = Catalogue(JETSTREAM)


@catalogue.case("js.redelivery.ack-wait")
def ack_wait(session: Session) -> Observation:
    """A message not acked in time is delivered again, to a pull that waits for it."""
    js = supplied(session, "AGAIN-WAIT", "a", ack_wait=ACK_WAIT_NS)
    since = time.monotonic()
    first = fetch(js, "AGAIN-WAIT", "C")
    again = fetch(js, "AGAIN-WAIT", "C", expires=LONG_NS)
    return {
        "came": seen([*first, *again]),
        "in its time": lasted_ns(since) >= ACK_WAIT_NS,
        "state": state(js, "AGAIN-WAIT"),
    }


@catalogue.case("js.redelivery.no-pull")
def no_pull(session: Session) -> Observation:
    """Without pulls, messages whose wait ran out are not delivered nor counted as redelivered."""
    js = supplied(session, "AGAIN-NOPULL", "a", "b", ack_wait=ACK_WAIT_NS)
    fetch(js, "AGAIN-NOPULL", "C")
    let_pass(js, "AGAIN-NOPULL", 3 * ACK_WAIT_NS)
    between = state(js, "AGAIN-NOPULL")
    return [between, seen(fetch(js, "AGAIN-NOPULL", "C", 2)), state(js, "AGAIN-NOPULL")]


@catalogue.case("js.redelivery.counted")
def counted(session: Session) -> Observation:
    """Each delivery has its own consumer sequence and count; a message is pending once only."""
    js = supplied(session, "AGAIN-COUNT", "a", "b", ack_wait=ACK_WAIT_NS)
    replies = [fetch(js, "AGAIN-COUNT", "C")[0].reply]
    for _ in range(3):
        let_pass(js, "AGAIN-COUNT", 2 * ACK_WAIT_NS)
        replies.append(fetch(js, "AGAIN-COUNT", "C")[0].reply)
    return [[taken_apart(reply) for reply in replies], state(js, "AGAIN-COUNT")]


@catalogue.case("js.redelivery.before-new")
def before_new(session: Session) -> Observation:
    """Messages whose ack wait ran out come in the order of the stream, and before new ones."""
    js = supplied(session, "AGAIN-SORTED", *"abcde", ack_wait=ACK_WAIT_NS)
    came = fetch(js, "AGAIN-SORTED", "C", 3)
    ack(js, came[1])
    let_pass(js, "AGAIN-SORTED", 3 * ACK_WAIT_NS)
    return payloads(fetch(js, "AGAIN-SORTED", "C", 4))


@catalogue.case("js.redelivery.nak-order")
def nak_order(session: Session) -> Observation:
    """Messages with a NAK come again in the order of the NAKs, and before new ones."""
    js = supplied(session, "AGAIN-NAKS", *"abcde")
    came = fetch(js, "AGAIN-NAKS", "C", 3)
    for index in (2, 0, 1):
        ack(js, came[index], body="-NAK")
    return seen(fetch(js, "AGAIN-NAKS", "C", 5))


@catalogue.case("js.redelivery.in-turn")
def in_turn(session: Session) -> Observation:
    """A redelivery goes to the next pull in line, not to the client of the first delivery."""
    js = supplied(session, "AGAIN-OTHER", "a", "b")
    one, other = puller(session, "AGAIN-OTHER", "one"), puller(session, "AGAIN-OTHER", "other")
    one.pull("AGAIN-OTHER", "C", "2")
    came = one.take(2)
    other.pull("AGAIN-OTHER", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "AGAIN-OTHER", 1)
    one.pull("AGAIN-OTHER", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "AGAIN-OTHER", 2)
    ack(js, *came, body="-NAK")
    return {"other": payloads(other.take(1)), "one": payloads(one.take(1))}


@catalogue.case("js.redelivery.client-gone")
def client_gone(session: Session) -> Observation:
    """The unacked messages of a client that left come to another after the ack wait."""
    js = supplied(session, "AGAIN-DIED", "a", ack_wait=ACK_WAIT_NS)
    gone = puller(session, "AGAIN-DIED", "gone")
    gone.pull("AGAIN-DIED", "C")
    gone.next()
    gone.wire.close()
    return seen(fetch(js, "AGAIN-DIED", "C", expires=LONG_NS))


@catalogue.case("js.redelivery.floor")
def floor(session: Session) -> Observation:
    """The floor counts a message by its first delivery, however often it came again."""
    js = supplied(session, "AGAIN-FLOOR", "a", "b", "c")
    came = fetch(js, "AGAIN-FLOOR", "C", 3)
    ack(js, came[0], body="-NAK")
    again = fetch(js, "AGAIN-FLOOR", "C")
    shown = [state(js, "AGAIN-FLOOR")]
    for message in (came[1], again[0], came[2]):
        ack(js, message)
        shown.append(state(js, "AGAIN-FLOOR"))
    return shown


@catalogue.case("js.redelivery.ack-all")
def ack_all(session: Session) -> Observation:
    """With policy `all` everything above the floor comes again after the wait."""
    js = supplied(session, "AGAIN-ALL", *"abcd", ack_policy="all", ack_wait=2 * ACK_WAIT_NS)
    came = fetch(js, "AGAIN-ALL", "C", 3)
    ack(js, came[0])
    let_pass(js, "AGAIN-ALL", 4 * ACK_WAIT_NS)
    again = fetch(js, "AGAIN-ALL", "C", 3)
    ack(js, again[1])
    return [seen(again), state(js, "AGAIN-ALL")]


@catalogue.case("js.redelivery.backoff")
def backoff(session: Session) -> Observation:
    """With a list of waits each delivery has its own, and those after the list the last."""
    waits_ns = [SHORT_NS, 2 * SHORT_NS]
    js = supplied(session, "AGAIN-BACKOFF", "a", backoff=waits_ns, max_deliver=10)
    fetch(js, "AGAIN-BACKOFF", "C")
    shown: list[Observation] = []
    for wait_ns in (*waits_ns, waits_ns[-1]):
        since = time.monotonic()
        again = fetch(js, "AGAIN-BACKOFF", "C", expires=LONG_NS)
        # Some of the wait was over when the earlier delivery was seen.
        in_time = lasted_ns(since) >= wait_ns - SHORT_NS // 2
        shown.append([taken_apart(again[0].reply), in_time])
    return shown


@catalogue.case("js.redelivery.backoff-grows")
def backoff_grows(session: Session) -> Observation:
    """With a list of waits a message that came again soon does not come soon once more."""
    waits_ns = [SHORT_NS, LONG_NS]
    js = supplied(session, "AGAIN-GROWS", "a", backoff=waits_ns, max_deliver=10)
    fetch(js, "AGAIN-GROWS", "C")
    again = fetch(js, "AGAIN-GROWS", "C", expires=LONG_NS)
    return [seen(again), payloads(fetch(js, "AGAIN-GROWS", "C", expires=3 * SHORT_NS))]


@catalogue.case("js.redelivery.backoff-nak")
def backoff_nak(session: Session) -> Observation:
    """A `-NAK` has a message come at once whatever the list of waits, and counts in it."""
    waits_ns = [SHORT_NS, LONG_NS]
    js = supplied(session, "AGAIN-BACKNAK", "a", backoff=waits_ns, max_deliver=10)
    ack(js, *fetch(js, "AGAIN-BACKNAK", "C"), body="-NAK")
    again = fetch(js, "AGAIN-BACKNAK", "C")
    return [seen(again), payloads(fetch(js, "AGAIN-BACKNAK", "C", expires=3 * SHORT_NS))]


@catalogue.case("js.redelivery.max-deliver")
def max_deliver(session: Session) -> Observation:
    """A message delivered as often as allowed is awaited until a pull comes to it and passes it."""
    js = supplied(session, "AGAIN-MAX", "a", "b", ack_wait=ACK_WAIT_NS, max_deliver=2)
    watch = consumer_events(js, session, "MAX_DELIVERIES", "AGAIN-MAX")
    came = fetch(js, "AGAIN-MAX", "C")
    let_pass(js, "AGAIN-MAX", 3 * ACK_WAIT_NS)
    came += fetch(js, "AGAIN-MAX", "C")
    let_pass(js, "AGAIN-MAX", 3 * ACK_WAIT_NS)
    before = state(js, "AGAIN-MAX")
    then = fetch(js, "AGAIN-MAX", "C", 2)
    return {
        "came": payloads(came),
        "before": before,
        "then": seen(then),
        "told": watch.next(),
        "after": state(js, "AGAIN-MAX"),
    }


@catalogue.case("js.redelivery.max-deliver-waiting")
def max_deliver_waiting(session: Session) -> Observation:
    """A pull that waits is not served with a message given up, and runs out."""
    js = supplied(session, "AGAIN-UP", "a", ack_wait=ACK_WAIT_NS, max_deliver=2)
    came = fetch(js, "AGAIN-UP", "C", 3, expires=5 * ACK_WAIT_NS)
    return [payloads(came), state(js, "AGAIN-UP")]


@catalogue.case("js.redelivery.max-deliver-nak")
def max_deliver_nak(session: Session) -> Observation:
    """A message refused after its last delivery is given up when the next pull comes to it."""
    js = supplied(session, "AGAIN-MAXNAK", "a", "b", max_deliver=2)
    watch = consumer_events(js, session, "MAX_DELIVERIES", "AGAIN-MAXNAK")
    for _ in range(2):
        ack(js, *fetch(js, "AGAIN-MAXNAK", "C"), body="-NAK")
    before = state(js, "AGAIN-MAXNAK")
    then = fetch(js, "AGAIN-MAXNAK", "C", 2)
    return {
        "before": before,
        "then": seen(then),
        "told": watch.next(),
        "after": state(js, "AGAIN-MAXNAK"),
    }


@catalogue.case("js.redelivery.max-deliver-one")
def max_deliver_one(session: Session) -> Observation:
    """With one delivery allowed, a message not acked in time is given up and not counted."""
    js = supplied(session, "AGAIN-ONE", "a", "b", ack_wait=ACK_WAIT_NS, max_deliver=1)
    watch = consumer_events(js, session, "MAX_DELIVERIES", "AGAIN-ONE")
    fetch(js, "AGAIN-ONE", "C")
    told = watch.next()
    return [told, state(js, "AGAIN-ONE"), payloads(fetch(js, "AGAIN-ONE", "C", 2))]


@catalogue.case("js.redelivery.max-deliver-late-ack")
def max_deliver_late_ack(session: Session) -> Observation:
    """A message given up may still be acked: it is no longer counted as redelivered."""
    js = supplied(session, "AGAIN-LATEACK", "a", max_deliver=2)
    ack(js, *fetch(js, "AGAIN-LATEACK", "C"), body="-NAK")
    again = fetch(js, "AGAIN-LATEACK", "C")
    ack(js, *again, body="-NAK")
    given_up = payloads(fetch(js, "AGAIN-LATEACK", "C"))
    before = state(js, "AGAIN-LATEACK")
    answer = js.request(again[0].reply, "+ACK")
    return [given_up, before, answer, state(js, "AGAIN-LATEACK")]


@catalogue.case("js.redelivery.max-deliver-work-queue")
def max_deliver_work_queue(session: Session) -> Observation:
    """A message given up stays in a work queue until it is acked or removed."""
    js = supplied(
        session,
        "AGAIN-WORK",
        "a",
        stream_config={"retention": "workqueue"},
        ack_wait=ACK_WAIT_NS,
        max_deliver=1,
    )
    watch = consumer_events(js, session, "MAX_DELIVERIES", "AGAIN-WORK")
    came = fetch(js, "AGAIN-WORK", "C")
    watch.next()
    kept = js.state("AGAIN-WORK")["messages"]
    ack(js, *came)
    return [kept, js.state("AGAIN-WORK")["messages"], state(js, "AGAIN-WORK")]


@catalogue.case("js.redelivery.max-deliver-stall")
def max_deliver_stall(session: Session) -> Observation:
    """A message given up makes room for a new one where no more unacked were allowed."""
    js = supplied(
        session, "AGAIN-STALL", "a", "b", ack_wait=ACK_WAIT_NS, max_deliver=1, max_ack_pending=1
    )
    return payloads(fetch(js, "AGAIN-STALL", "C", 2, expires=LONG_NS))


@catalogue.case("js.redelivery.too-large")
def too_large(session: Session) -> Observation:
    """A pull too small for a redelivery does not count as a delivery."""
    js = supplied(session, "AGAIN-LARGE", "a")
    ack(js, *fetch(js, "AGAIN-LARGE", "C"), body="-NAK")
    small = fetch(js, "AGAIN-LARGE", "C", max_bytes=5)
    return [seen(small), seen(fetch(js, "AGAIN-LARGE", "C")), state(js, "AGAIN-LARGE")]


@catalogue.case("js.redelivery.unheard")
def unheard(session: Session) -> Observation:
    """A pull without a listener does not count as a redelivery."""
    js = supplied(session, "AGAIN-DEAF", "a")
    message = fetch(js, "AGAIN-DEAF", "C")[0]
    one = puller(session, "AGAIN-DEAF")
    one.pull("AGAIN-DEAF", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "AGAIN-DEAF")
    one.leave()
    ack(js, message, body="-NAK")
    return [seen(fetch(js, "AGAIN-DEAF", "C", expires=LONG_NS)), state(js, "AGAIN-DEAF")]


@catalogue.case("js.redelivery.deleted")
def deleted(session: Session) -> Observation:
    """A message deleted before its ack is no longer waited for, with an advisory as terminated."""
    js = supplied(session, "AGAIN-DELETED", "a", "b", "c")
    watch = consumer_events(js, session, "MSG_TERMINATED", "AGAIN-DELETED")
    fetch(js, "AGAIN-DELETED", "C", 2)
    js.api("STREAM.MSG.DELETE.AGAIN-DELETED", {"seq": 1})
    told = watch.next()
    after = consumer_info_when(js, "AGAIN-DELETED", "C", num_ack_pending=1)
    return {"told": told, "after": counts(after)}


@catalogue.case("js.redelivery.limit")
def limit(session: Session) -> Observation:
    """A message pushed out by a limit before it was acked has an advisory as terminated, too."""
    js = supplied(session, "AGAIN-LIMIT", "a", "b", stream_config={"max_msgs": 2})
    watch = consumer_events(js, session, "MSG_TERMINATED", "AGAIN-LIMIT")
    fetch(js, "AGAIN-LIMIT", "C")
    add(js, "AGAIN-LIMIT", "c")
    told = watch.next()
    after = consumer_info_when(js, "AGAIN-LIMIT", "C", num_ack_pending=0, num_pending=2)
    return {"told": told, "after": counts(after)}


@catalogue.case("js.redelivery.deleted-refused")
def deleted_refused(session: Session) -> Observation:
    """A message deleted after it was refused does not come again."""
    js = supplied(session, "AGAIN-NONE", "a", "b")
    ack(js, *fetch(js, "AGAIN-NONE", "C"), body="-NAK")
    js.api("STREAM.MSG.DELETE.AGAIN-NONE", {"seq": 1})
    consumer_info_when(js, "AGAIN-NONE", "C", num_ack_pending=0)
    return [payloads(fetch(js, "AGAIN-NONE", "C", 2)), state(js, "AGAIN-NONE")]


@catalogue.case("js.redelivery.purged")
def purged(session: Session) -> Observation:
    """A purge leaves nothing pending, delivered or not, and the floor at the end."""
    js = supplied(session, "AGAIN-PURGED", *"abcd")
    came = fetch(js, "AGAIN-PURGED", "C", 2)
    ack(js, came[0], body="-NAK")
    js.api("STREAM.PURGE.AGAIN-PURGED")
    after = state(js, "AGAIN-PURGED")
    late = js.request(came[1].reply, "+ACK")
    add(js, "AGAIN-PURGED", "e", pending=1)
    then = seen(fetch(js, "AGAIN-PURGED", "C", 2))
    return {"after": after, "late": late, "then": then, "end": state(js, "AGAIN-PURGED")}


@catalogue.case("js.redelivery.purged-subject")
def purged_subject(session: Session) -> Observation:
    """A purge of one subject leaves other messages pending as they were."""
    js = supplied(session, "AGAIN-SUBJECT", "a", "b", "a", "b", "a")
    fetch(js, "AGAIN-SUBJECT", "C", 3)
    js.api("STREAM.PURGE.AGAIN-SUBJECT", {"filter": "AGAIN-SUBJECT.b"})
    after = consumer_info_when(js, "AGAIN-SUBJECT", "C", num_ack_pending=2, num_pending=1)
    # The oracle's floor after this is none: the consumer's sequence has moved, the stream's not.
    numbers = {key: value for key, value in counts(after).items() if key != "ack_floor"}
    return [numbers, payloads(fetch(js, "AGAIN-SUBJECT", "C", 3))]


@catalogue.case("js.redelivery.purged-below")
def purged_below(session: Session) -> Observation:
    """A purge up to a sequence moves the floor of a consumer that was behind it."""
    js = supplied(session, "AGAIN-BELOW", *"abcde")
    fetch(js, "AGAIN-BELOW", "C", 2)
    js.api("STREAM.PURGE.AGAIN-BELOW", {"seq": 4})
    after = state(js, "AGAIN-BELOW")
    return [after, seen(fetch(js, "AGAIN-BELOW", "C", 3)), state(js, "AGAIN-BELOW")]


@catalogue.case("js.redelivery.restart", own_server=True)
def restart(session: Session) -> Observation:
    """Deliveries, acks, awaited acks and redeliveries are known after a restart."""
    js = supplied(session, "AGAIN-RESTART", *"abcde")
    came = fetch(js, "AGAIN-RESTART", "C", 4)
    ack(js, came[0])
    ack(js, came[1], body="-NAK")
    again = fetch(js, "AGAIN-RESTART", "C")
    before = state(js, "AGAIN-RESTART")
    with restarted(session, JETSTREAM) as later:
        js = jetstream(later)
        after = state(js, "AGAIN-RESTART")
        ack(js, came[2])
        acked = state(js, "AGAIN-RESTART")
        new = seen(fetch(js, "AGAIN-RESTART", "C", 2))
    return [seen(again), before, after, acked, new]


@catalogue.case("js.redelivery.restart-again", own_server=True)
def restart_again(session: Session) -> Observation:
    """Messages awaiting an ack before a restart come again after it, and their counts go on."""
    js = supplied(session, "AGAIN-AFTER", "a", "b", ack_wait=2 * SECOND_NS)
    ack(js, *fetch(js, "AGAIN-AFTER", "C"), body="-NAK")
    fetch(js, "AGAIN-AFTER", "C", 2)
    with restarted(session, JETSTREAM) as later:
        js = jetstream(later)
        again = fetch(js, "AGAIN-AFTER", "C", 2, expires=LONG_NS)
        return [seen(again), state(js, "AGAIN-AFTER")]


@catalogue.case("js.redelivery.two-consumers")
def two_consumers(session: Session) -> Observation:
    """The redeliveries of one consumer do not concern another."""
    js = supplied(session, "AGAIN-BOTH", "a", "b")
    new_durable(js, "AGAIN-BOTH", "D")
    ack(js, *fetch(js, "AGAIN-BOTH", "C"), body="-NAK")
    fetch(js, "AGAIN-BOTH", "D")
    return {name: payloads(fetch(js, "AGAIN-BOTH", name, 2)) for name in ("C", "D")}
