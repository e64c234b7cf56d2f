"""Priority groups: the pulls that are served, if a consumer serves some before others.

The id that a server draws for a pinned client is compared by its places, not by its value.
"""

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_acks import consumer_events
from tests.interop.cases.jetstream.consumer_pull import (
    LONG_NS,
    SHORT_NS,
    add,
    counts,
    filled,
    payloads,
    puller,
    state,
    supplied,
    waits,
)
from tests.interop.consumers import (
    NEXT,
    Delivery,
    Receiver,
    ack,
    consumer_info,
    consumer_info_when,
    fetch,
    new_durable,
    seen,
)
from tests.interop.jetstream import JETSTREAM, Body, JetStreamClient, is_nuid
from tests.interop.messages import with_stream
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session

PIN_HEADER = "Nats-Pin-Id"
PINNED_ID = Mask("**.pinned_id", is_nuid, "drawn for each pin")
PINNED_CLIENT_ID = Mask("**.pinned_client_id", is_nuid, "drawn for each pin")

catalogue = Catalogue(JETSTREAM)


def grouped(
    session: Session, stream: str, policy: str, *subjects: str, **config: object
) -> JetStreamClient:
    """A stream with a consumer of one group `g`, under a policy."""
    js = filled(session, stream, *subjects)
    new_durable(js, stream, "C", priority_policy=policy, priority_groups=["g"], **config)
    return js


def asked(
    session: Session, js: JetStreamClient, stream: str, name: str, count: int, **request: object
) -> Receiver:
    """A client whose pull, of the group `g`, has arrived as the one that makes so many waiting."""
    one = puller(session, stream, name)
    one.pull(stream, "C", {"group": "g", "batch": 1, "expires": LONG_NS, **request})
    waits(js, stream, count)
    return one


def pinned(js: JetStreamClient, stream: str) -> tuple[Delivery, str]:
    """The first message of a pull of the group `g`, and the pin it came with."""
    message = fetch(js, stream, "C", group="g")[0]
    pin = dict(message.tree["headers"])[PIN_HEADER]
    assert is_nuid(pin), pin
    return message, pin


def masked(value: Observation, pin: str) -> Observation:
    """The tree with a word for a pin wherever it stands."""
    if isinstance(value, str):
        return value.replace(pin, "<pin>")
    if isinstance(value, dict):
        return {key: masked(inner, pin) for key, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner, pin) for inner in value]
    return value


def refused(js: JetStreamClient, stream: str, *bodies: Body) -> Observation:
    return [js.request(f"{NEXT}{stream}.C", body) for body in bodies]


@catalogue.case("js.priority.info")
def info(session: Session) -> Observation:
    """INFO of a consumer with a group lists it, pinned or not, under every policy."""
    shown = {}
    for policy in ("overflow", "pinned_client", "prioritized"):
        js = grouped(session, "PRIO-INFO", policy)
        shown[policy] = consumer_info(js, "PRIO-INFO", "C")
    return shown


@catalogue.case("js.priority.group-missing", text="400 Bad Request - Priority Group missing")
def group_missing(session: Session) -> Observation:
    """A consumer with a group refuses a pull that is an object and names none."""
    js = grouped(session, "PRIO-MISSING", "overflow", "a")
    bodies: tuple[Body, ...] = ({}, {"batch": 1}, {"group": ""}, {"no_wait": True})
    return [refused(js, "PRIO-MISSING", *bodies), state(js, "PRIO-MISSING")]


@catalogue.case("js.priority.group-unknown", text="400 Bad Request - Invalid Priority Group")
def group_unknown(session: Session) -> Observation:
    """A consumer with a group refuses a pull that names another."""
    js = grouped(session, "PRIO-UNKNOWN", "prioritized", "a")
    return refused(js, "PRIO-UNKNOWN", {"group": "h"}, {"group": "G"}, {"group": " g"})


@catalogue.case("js.priority.no-object")
def no_object(session: Session) -> Observation:
    """A pull that is no object needs no group: it is served like one without conditions."""
    js = grouped(session, "PRIO-PLAIN", "overflow", "a", "b", "c")
    one = puller(session, "PRIO-PLAIN")
    one.pull("PRIO-PLAIN", "C")
    one.pull("PRIO-PLAIN", "C", "2")
    return [payloads(one.take(3)), state(js, "PRIO-PLAIN")]


@catalogue.case("js.priority.without-policy")
def without_policy(session: Session) -> Observation:
    """A consumer without a policy passes over the group of a pull."""
    js = supplied(session, "PRIO-NONE", "a")
    return payloads(fetch(js, "PRIO-NONE", "C", group="anything", priority=3))


@catalogue.case(
    "js.priority.not-overflow", text="400 Bad Request - Not a Overflow Priority consumer"
)
def not_overflow(session: Session) -> Observation:
    """Only an overflow consumer knows conditions; others refuse them, even before the group."""
    shown = []
    for policy in ("pinned_client", "prioritized"):
        js = grouped(session, "PRIO-NOTOVER", policy)
        bodies = ({"group": "h", "min_pending": 1}, {"group": "g", "min_ack_pending": -1})
        shown.append(refused(js, "PRIO-NOTOVER", *bodies))
    return shown


@catalogue.case(
    "js.priority.not-pinned", text="400 Bad Request - Not a Pinned Client Priority consumer"
)
def not_pinned(session: Session) -> Observation:
    """Only a pinned consumer knows pins; others refuse them, even before the group."""
    shown = []
    for policy in ("overflow", "prioritized"):
        js = grouped(session, "PRIO-NOTPIN", policy)
        shown.append(refused(js, "PRIO-NOTPIN", {"id": "x"}, {"group": "g", "id": "x"}))
    return shown


@catalogue.case("js.priority.range", text="400 Bad Request - Priority must be between 0 and 9")
def priority_range(session: Session) -> Observation:
    """A priority below 0 or above 9 is refused under every policy, even before the group."""
    shown: list[Observation] = []
    for policy in ("overflow", "pinned_client", "prioritized"):
        js = grouped(session, "PRIO-RANGE", policy, "a", "b")
        shown.append(refused(js, "PRIO-RANGE", {"priority": 10}, {"group": "g", "priority": -1}))
        shown.append(payloads(fetch(js, "PRIO-RANGE", "C", group="g", priority=9)))
    return shown


@catalogue.case("js.priority.overflow-pending")
def overflow_pending(session: Session) -> Observation:
    """A pull with `min_pending` is served once so many messages are pending."""
    js = grouped(session, "PRIO-PENDING", "overflow", "a")
    one = asked(session, js, "PRIO-PENDING", "one", 1, min_pending=3)
    add(js, "PRIO-PENDING", "b", pending=2)
    before = state(js, "PRIO-PENDING")
    add(js, "PRIO-PENDING", "c")
    return [before, one.next().seen, state(js, "PRIO-PENDING")]


@catalogue.case("js.priority.overflow-until")
def overflow_until(session: Session) -> Observation:
    """A pull with `min_pending` is served as long as so many are pending, the next one counted."""
    js = grouped(session, "PRIO-UNTIL", "overflow", *"abcde")
    request = {"group": "g", "min_pending": 4, "expires": SHORT_NS}
    return [seen(fetch(js, "PRIO-UNTIL", "C", 5, **request)), state(js, "PRIO-UNTIL")]


@catalogue.case("js.priority.overflow-unacked")
def overflow_unacked(session: Session) -> Observation:
    """A pull with `min_ack_pending` is served while so many messages are unacked."""
    js = grouped(session, "PRIO-UNACKED", "overflow", *"abcd")
    one = asked(session, js, "PRIO-UNACKED", "one", 1, min_ack_pending=2, batch=3)
    first = fetch(js, "PRIO-UNACKED", "C", group="g")
    before = state(js, "PRIO-UNACKED")
    second = fetch(js, "PRIO-UNACKED", "C", group="g")
    return {
        "others": payloads([*first, *second]),
        "before": before,
        "one": payloads(one.take(2)),
        "after": state(js, "PRIO-UNACKED"),
    }


@catalogue.case("js.priority.overflow-either")
def overflow_either(session: Session) -> Observation:
    """Of two conditions one is enough."""
    js = grouped(session, "PRIO-EITHER", "overflow", "a", "b")
    conditions = {"min_pending": 2, "min_ack_pending": 9}
    by_pending = fetch(js, "PRIO-EITHER", "C", group="g", **conditions)
    conditions = {"min_pending": 9, "min_ack_pending": 1}
    return payloads([*by_pending, *fetch(js, "PRIO-EITHER", "C", group="g", **conditions)])


@catalogue.case("js.priority.overflow-passed")
def overflow_passed(session: Session) -> Observation:
    """A pull whose condition does not hold is passed over for one behind it."""
    js = grouped(session, "PRIO-PASSED", "overflow")
    passed = asked(session, js, "PRIO-PASSED", "passed", 1, min_pending=5, expires=3 * SHORT_NS)
    other = asked(session, js, "PRIO-PASSED", "other", 2)
    add(js, "PRIO-PASSED", "a")
    return {"other": payloads(other.take(1)), "passed": seen(passed.take(1))}


@catalogue.case("js.priority.overflow-no-wait")
def overflow_no_wait(session: Session) -> Observation:
    """A pull that does not wait and whose condition does not hold finds no messages."""
    js = grouped(session, "PRIO-NOWAIT", "overflow", "a")
    return [seen(fetch(js, "PRIO-NOWAIT", "C", group="g", min_pending=2)), state(js, "PRIO-NOWAIT")]


@catalogue.case("js.priority.overflow-negative")
def overflow_negative(session: Session) -> Observation:
    """A condition below nothing is none."""
    js = grouped(session, "PRIO-NEGATIVE", "overflow", "a")
    return payloads(fetch(js, "PRIO-NEGATIVE", "C", group="g", min_pending=-1))


@catalogue.case("js.priority.pin")
def pin_first(session: Session) -> Observation:
    """The first pull served is pinned: the message has its pin, and so has INFO."""
    js = grouped(session, "PRIO-PIN", "pinned_client", "a", "b")
    message, pin = pinned(js, "PRIO-PIN")
    groups = consumer_info(js, "PRIO-PIN", "C")["priority_groups"]
    return masked([message.seen, groups], pin)


@catalogue.case("js.priority.pin-header")
def pin_header(session: Session) -> Observation:
    """The pin is the last header of a message, behind its own."""
    js = with_stream(session, "PRIO-HEADER")
    js.publish("PRIO-HEADER", "data", {"B": "2", "A": "1"})
    new_durable(js, "PRIO-HEADER", "C", priority_policy="pinned_client", priority_groups=["g"])
    js.send(f"{NEXT}PRIO-HEADER.C", {"group": "g", "batch": 1})
    line, rest = str(js.wire.frame()).split("\r\n", 1)
    names = [field.split(":")[0] for field in rest.split("\r\n")]
    return {"sizes": line.split(" ")[-2:], "lines": names}


@catalogue.case("js.priority.pin-others-wait")
def pin_others_wait(session: Session) -> Observation:
    """While one is pinned, pulls without a pin wait; those with it are served."""
    js = grouped(session, "PRIO-OTHERS", "pinned_client", "a", "b", "c")
    _, pin = pinned(js, "PRIO-OTHERS")
    other = asked(session, js, "PRIO-OTHERS", "other", 1, batch=2, expires=3 * SHORT_NS)
    mine = fetch(js, "PRIO-OTHERS", "C", 2, group="g", id=pin)
    return masked({"mine": seen(mine), "other": seen(other.take(1))}, pin)


@catalogue.case("js.priority.pin-mismatch", text="423 Nats-Pin-Id mismatch")
def pin_mismatch(session: Session) -> Observation:
    """A pull with another pin than the one pinned is refused at once."""
    js = grouped(session, "PRIO-MISMATCH", "pinned_client", "a", "b")
    pinned(js, "PRIO-MISMATCH")
    return refused(js, "PRIO-MISMATCH", {"group": "g", "id": "wrong", "expires": LONG_NS})


@catalogue.case("js.priority.pin-unknown", text="423 Nats-Wrong-Pin-Id")
def pin_unknown(session: Session) -> Observation:
    """A pull with a pin, but no client pinned, is refused when there is a message for it."""
    js = grouped(session, "PRIO-WRONG", "pinned_client")
    one = asked(session, js, "PRIO-WRONG", "one", 1, id="wrong", batch=3, max_bytes=900)
    add(js, "PRIO-WRONG", "a", pending=1)
    refusal = one.next().seen
    message, pin = pinned(js, "PRIO-WRONG")
    return masked([refusal, message.seen], pin)


@catalogue.case("js.priority.pin-in-line")
def pin_in_line(session: Session) -> Observation:
    """The pinned client is served in its turn and before all others, even if they pulled first."""
    js = grouped(session, "PRIO-LINE", "pinned_client", "a")
    _, pin = pinned(js, "PRIO-LINE")
    other = asked(session, js, "PRIO-LINE", "other", 1)
    mine = asked(session, js, "PRIO-LINE", "mine", 2, id=pin)
    add(js, "PRIO-LINE", "b", "c")
    came = payloads(mine.take(1))
    after = consumer_info_when(js, "PRIO-LINE", "C", num_pending=1, num_ack_pending=2)
    return {"mine": came, "other": seen(other.arrived()), "state": counts(after)}


@catalogue.case("js.priority.pin-plain-pull")
def pin_plain_pull(session: Session) -> Observation:
    """With no client pinned, a pull that is no object is served with an empty pin; it pins none."""
    js = grouped(session, "PRIO-BARE", "pinned_client", "a", "b")
    one = puller(session, "PRIO-BARE")
    one.pull("PRIO-BARE", "C")
    return [one.next().seen, consumer_info(js, "PRIO-BARE", "C")["priority_groups"]]


@catalogue.case("js.priority.pin-too-large")
def pin_too_large(session: Session) -> Observation:
    """A pull too small for its message is not pinned by it."""
    js = grouped(session, "PRIO-LARGE", "pinned_client", "a")
    small = seen(fetch(js, "PRIO-LARGE", "C", group="g", max_bytes=5))
    return [small, consumer_info(js, "PRIO-LARGE", "C")["priority_groups"]]


@catalogue.case("js.priority.unpin")
def unpin(session: Session) -> Observation:
    """The pinned client can be unpinned; the next pull served gets a new pin."""
    js = grouped(session, "PRIO-UNPIN", "pinned_client", "a", "b")
    _, first = pinned(js, "PRIO-UNPIN")
    reply = js.api("CONSUMER.UNPIN.PRIO-UNPIN.C", {"group": "g"})
    groups = consumer_info(js, "PRIO-UNPIN", "C")["priority_groups"]
    message, second = pinned(js, "PRIO-UNPIN")
    return [reply, groups, masked(message.seen, second), first != second]


@catalogue.case("js.priority.unpin-waiting")
def unpin_waiting(session: Session) -> Observation:
    """Unpinned, a client that waits with its pin is refused, and one behind it is pinned."""
    js = grouped(session, "PRIO-NEXT", "pinned_client", "a")
    _, pin = pinned(js, "PRIO-NEXT")
    mine = asked(session, js, "PRIO-NEXT", "mine", 1, id=pin, batch=4)
    other = asked(session, js, "PRIO-NEXT", "other", 2)
    js.api("CONSUMER.UNPIN.PRIO-NEXT.C", {"group": "g"})
    add(js, "PRIO-NEXT", "b")
    return {"mine": seen(mine.take(1)), "other": payloads(other.take(1))}


@catalogue.case("js.priority.unpin-refused")
def unpin_refused(session: Session) -> Observation:
    """To unpin, a group has to be named that the consumer has."""
    js = grouped(session, "PRIO-NOUNPIN", "pinned_client")
    bodies: tuple[Body, ...] = (None, "{", {}, {"group": "h"}, {"group": "a b"}, {"group": "g"})
    calls = [js.api("CONSUMER.UNPIN.PRIO-NOUNPIN.C", body) for body in bodies]
    missing = js.api("CONSUMER.UNPIN.PRIO-NOUNPIN.D", {"group": "g"})
    no_stream = js.api("CONSUMER.UNPIN.PRIO-NO-STREAM.C", {"group": "g"})
    return [*calls, missing, no_stream]


@catalogue.case("js.priority.pin-advisories", masks=(PINNED_ID,))
def pin_advisories(session: Session) -> Observation:
    """Advisories of pinning have the pin, of unpinning its reason, also if none was pinned."""
    js = grouped(session, "PRIO-TOLD", "pinned_client", "a")
    up = consumer_events(js, session, "PINNED", "PRIO-TOLD")
    down = consumer_events(js, session, "UNPINNED", "PRIO-TOLD")
    pinned(js, "PRIO-TOLD")
    for _ in range(2):
        js.api("CONSUMER.UNPIN.PRIO-TOLD.C", {"group": "g"})
    return {"pinned": up.next(), "unpinned": [down.next(), down.next()]}


@catalogue.case("js.priority.pin-timeout")
def pin_timeout(session: Session) -> Observation:
    """A client that does not pull in time is unpinned, with an advisory; a waiting one is next."""
    js = grouped(session, "PRIO-TIMEOUT", "pinned_client", "a", "b", priority_timeout=2 * SHORT_NS)
    down = consumer_events(js, session, "UNPINNED", "PRIO-TIMEOUT")
    pinned(js, "PRIO-TIMEOUT")
    other = asked(session, js, "PRIO-TIMEOUT", "other", 1)
    return {"told": down.next(), "other": payloads(other.take(1))}


@catalogue.case("js.priority.pin-survives", masks=(PINNED_CLIENT_ID,))
def pin_survives(session: Session) -> Observation:
    """A pinned client stays pinned when it is gone: others wait until the time is over."""
    js = grouped(session, "PRIO-STAYS", "pinned_client", "a", "b")
    gone = puller(session, "PRIO-STAYS", "gone")
    gone.pull("PRIO-STAYS", "C", {"group": "g", "batch": 1, "expires": LONG_NS})
    gone.next()
    gone.wire.close()
    session.wait_until_gone(gone.wire)
    waited = fetch(js, "PRIO-STAYS", "C", group="g", expires=SHORT_NS)
    return [payloads(waited), consumer_info(js, "PRIO-STAYS", "C")["priority_groups"]]


@catalogue.case("js.priority.pin-redelivery")
def pin_redelivery(session: Session) -> Observation:
    """A message that the pinned client refused comes to it again, with the pin."""
    js = grouped(session, "PRIO-AGAIN", "pinned_client", "a", "b")
    message, pin = pinned(js, "PRIO-AGAIN")
    ack(js, message, body="-NAK")
    return masked(seen(fetch(js, "PRIO-AGAIN", "C", group="g", id=pin)), pin)


@catalogue.case("js.priority.prioritized")
def prioritized(session: Session) -> Observation:
    """Pulls are served by their priority, the lowest number first, in whatever order they came."""
    js = grouped(session, "PRIO-SORTED", "prioritized")
    low = asked(session, js, "PRIO-SORTED", "low", 1, priority=5, batch=2)
    high = asked(session, js, "PRIO-SORTED", "high", 2, priority=1, batch=2)
    default = asked(session, js, "PRIO-SORTED", "default", 3)
    add(js, "PRIO-SORTED", *"12345")
    return {
        "low": payloads(low.take(2)),
        "high": payloads(high.take(2)),
        "default": payloads(default.take(1)),
    }


@catalogue.case("js.priority.prioritized-in-turn")
def prioritized_in_turn(session: Session) -> Observation:
    """Pulls of one priority are served in turn, before all of a lower one."""
    js = grouped(session, "PRIO-EQUAL", "prioritized")
    low = asked(session, js, "PRIO-EQUAL", "low", 1, priority=2)
    one = asked(session, js, "PRIO-EQUAL", "one", 2, priority=1, batch=2)
    two = asked(session, js, "PRIO-EQUAL", "two", 3, priority=1, batch=2)
    add(js, "PRIO-EQUAL", *"12345")
    return {
        "one": payloads(one.take(2)),
        "two": payloads(two.take(2)),
        "low": payloads(low.take(1)),
    }


@catalogue.case("js.priority.prioritized-joined")
def prioritized_joined(session: Session) -> Observation:
    """A pull of a higher priority comes before one that is partly served."""
    js = grouped(session, "PRIO-JOINED", "prioritized")
    low = asked(session, js, "PRIO-JOINED", "low", 1, priority=7, batch=3)
    add(js, "PRIO-JOINED", "1")
    first = low.take(1)
    high = asked(session, js, "PRIO-JOINED", "high", 2, priority=3, batch=1)
    add(js, "PRIO-JOINED", *"234")
    return {"high": payloads(high.take(1)), "low": payloads([*first, *low.take(2)])}


@catalogue.case("js.priority.prioritized-max-waiting")
def prioritized_max_waiting(session: Session) -> Observation:
    """A full line refuses a pull whatever its priority."""
    js = grouped(session, "PRIO-FULL", "prioritized", max_waiting=1)
    asked(session, js, "PRIO-FULL", "one", 1, priority=9)
    return refused(js, "PRIO-FULL", {"group": "g", "priority": 0, "expires": LONG_NS})
