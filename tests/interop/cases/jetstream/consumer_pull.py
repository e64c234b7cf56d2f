"""Pulls: their forms, the messages they get, the order of both, and the form of a delivery.

Messages are stored before their consumer is made: what is stored later reaches the oracle's
consumers through a queue, and a pull may overtake it.
"""

import time
from datetime import UTC, datetime, timedelta

from tests.interop.case import Catalogue
from tests.interop.consumers import (
    MILLISECOND_NS,
    NEXT,
    SECOND_NS,
    Delivery,
    Receiver,
    ack,
    consumer_info,
    consumer_info_when,
    delete_consumer,
    fetch,
    new_durable,
    receiver,
    seen,
    taken_apart,
)
from tests.interop.jetstream import DOMAIN, JETSTREAM, Body, JetStreamClient, Reply
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

LONG_NS = 30 * SECOND_NS
"""Longer than any script waits: all deliveries of such a pull came at once."""
SHORT_NS = 300 * MILLISECOND_NS
LONG_AGO = "2020-01-01T00:00:00Z"
FAR_AHEAD = "2100-01-01T00:00:00Z"
_COUNTED = (
    "delivered",
    "ack_floor",
    "num_ack_pending",
    "num_redelivered",
    "num_waiting",
    "num_pending",
)

catalogue = Catalogue(JETSTREAM)


def supplied(
    session: Session,
    stream: str,
    *subjects: str,
    stream_config: dict[str, object] | None = None,
    **config: object,
) -> JetStreamClient:
    """A new stream with a message on each of these subjects below it, then a durable `C` on it."""
    js = filled(session, stream, *subjects, **(stream_config or {}))
    new_durable(js, stream, "C", **config)
    return js


def filled(session: Session, stream: str, *subjects: str, **config: object) -> JetStreamClient:
    """A new stream with a message on each of these subjects below it, which is its payload too."""
    js = with_stream(session, stream, **config)
    for subject in subjects:
        js.publish(f"{stream}.{subject}", subject)
    return js


def puller(session: Session, stream: str, name: str = "a") -> Receiver:
    """A connection of its own, for the replies to its own pulls."""
    return receiver(session, f"_INBOX.{stream}.{name}")


def add(js: JetStreamClient, stream: str, *subjects: str, pending: int | None = None) -> None:
    """More messages for a consumer `C` that is there, which then counts so many pending."""
    for subject in subjects:
        js.publish(f"{stream}.{subject}", subject)
    if pending is not None:
        consumer_info_when(js, stream, "C", num_pending=pending)


def counts(info: Reply) -> Reply:
    """The numbers of a consumer's INFO, without the moments among them."""
    numbers = {key: info[key] for key in _COUNTED}
    for key in ("delivered", "ack_floor"):
        numbers[key] = [info[key]["consumer_seq"], info[key]["stream_seq"]]
    return numbers


def state(js: JetStreamClient, stream: str, consumer: str = "C") -> Reply:
    return counts(consumer_info(js, stream, consumer))


def waits(js: JetStreamClient, stream: str, count: int = 1) -> None:
    """So many pulls have arrived at the consumer and wait there."""
    consumer_info_when(js, stream, "C", num_waiting=count)


def payloads(deliveries: list[Delivery]) -> list[str]:
    """The deliveries in short: the payload of a message, or the text of a status."""
    return [each.tree["status"] if each.is_status else each.tree["data"] for each in deliveries]


def let_pass(js: JetStreamClient, stream: str, duration_ns: int) -> None:
    """Wait by the server's clock, with a pull that runs out then."""
    new_durable(js, stream, "CLOCK", deliver_policy="new", filter_subject=f"{stream}.no.such")
    fetch(js, stream, "CLOCK", expires=duration_ns)


def lasted_ns(since: float) -> int:
    return int((time.monotonic() - since) * SECOND_NS)


@catalogue.case("js.pull.empty-body")
def empty_body(session: Session) -> Observation:
    """A pull without a body is for one message."""
    js = supplied(session, "PULL-EMPTY", "a", "b")
    one = puller(session, "PULL-EMPTY")
    one.pull("PULL-EMPTY", "C")
    return {"came": one.next().seen, "state": state(js, "PULL-EMPTY")}


@catalogue.case("js.pull.message-bytes")
def message_bytes(session: Session) -> Observation:
    """A message comes under its own subject, through the subscription to the pull's reply."""
    js = supplied(session, "PULL-BYTES", "a")
    inbox = js.send(f"{NEXT}PULL-BYTES.C")
    line, rest = str(js.wire.frame()).split("\r\n", 1)
    words = line.split(" ")
    return {
        "operation": words[0],
        "subject": words[1],
        "not the inbox": words[1] != inbox,
        "subscription": words[2],
        "reply": taken_apart(words[3]),
        "size": words[4],
        "rest": rest,
    }


@catalogue.case("js.pull.headers-untouched")
def headers_untouched(session: Session) -> Observation:
    """Headers are delivered as they were stored, byte for byte, and none are added."""
    js = with_stream(session, "PULL-HEADERS")
    js.publish("PULL-HEADERS", "data", [("b", "2"), ("A", "1"), ("b", ""), ("Nats-Msg-Id", "x")])
    new_durable(js, "PULL-HEADERS", "C")
    js.send(f"{NEXT}PULL-HEADERS.C")
    line, rest = str(js.wire.frame()).split("\r\n", 1)
    return {"operation": line.split(" ")[0], "sizes": line.split(" ")[-2:], "rest": rest}


@catalogue.case("js.pull.any-byte")
def any_byte(session: Session) -> Observation:
    """A payload is delivered as it was stored, whatever its bytes; an empty one too."""
    js = with_stream(session, "PULL-BINARY")
    js.publish("PULL-BINARY", bytes(range(256)))
    js.publish("PULL-BINARY", b"")
    new_durable(js, "PULL-BINARY", "C")
    return seen(fetch(js, "PULL-BINARY", "C", 2))


@catalogue.case("js.pull.ack-subject")
def ack_subject(session: Session) -> Observation:
    """The reply of a message says how often, which, how many, when, and what is still pending."""
    js = supplied(session, "PULL-TOKENS", "a", "b", "c")
    return [taken_apart(each.reply) for each in fetch(js, "PULL-TOKENS", "C", 3)]


@catalogue.case("js.pull.ack-subject-filtered")
def ack_subject_filtered(session: Session) -> Observation:
    """With a filter the stream's sequences have gaps, the consumer's have none."""
    subjects = ("a", "b", "a", "b", "a")
    js = supplied(session, "PULL-GAPS", *subjects, filter_subject="PULL-GAPS.a")
    came = fetch(js, "PULL-GAPS", "C", 3)
    return {"replies": [taken_apart(each.reply) for each in came], "state": state(js, "PULL-GAPS")}


@catalogue.case("js.pull.ack-subject-time")
def ack_subject_time(session: Session) -> Observation:
    """The time in the reply is the one the stream stored with the message, to the nanosecond."""
    js = supplied(session, "PULL-TIME", "a", stream_config={"allow_direct": True})
    token = fetch(js, "PULL-TIME", "C")[0].reply.split(".")[7]
    stored = dict(js.direct("PULL-TIME", {"seq": 1})["headers"])["Nats-Time-Stamp"]["moment"]
    fraction = stored.partition(".")[2].removesuffix("Z").ljust(9, "0")
    return {"digits": len(token), "same": token.endswith(fraction)}


@catalogue.case("js.pull.domain", setup=DOMAIN)
def domain(session: Session) -> Observation:
    """In a domain a pull may use its prefix; the reply of a message does not name it."""
    js = supplied(session, "PULL-DOMAIN", "a", "b")
    by_prefix = puller(session, "PULL-DOMAIN")
    subject = "$JS.hub.API.CONSUMER.MSG.NEXT.PULL-DOMAIN.C"
    by_prefix.wire.send(f"PUB {subject} {by_prefix.subject} 0\r\n\r\n")
    came = by_prefix.next()
    plain = fetch(js, "PULL-DOMAIN", "C")[0]
    ack(js, came, plain)
    return {"by prefix": came.seen, "plain": plain.seen, "state": state(js, "PULL-DOMAIN")}


def asked_with(
    session: Session, js: JetStreamClient, stream: str, count: int, *bodies: Body
) -> Observation:
    """The deliveries of fresh consumers, so many for each of these bodies, and their states."""
    shown: list[Observation] = []
    for number, body in enumerate(bodies):
        name = f"C{number}"
        new_durable(js, stream, name)
        one = puller(session, stream, name)
        one.pull(stream, name, body)
        came = payloads(one.take(count))
        shown.append({"body": str(body), "came": came, "state": state(js, stream, name)})
    return shown


@catalogue.case("js.pull.number")
def number(session: Session) -> Observation:
    """A pull whose body is a number is for so many messages, blanks around it aside."""
    js = supplied(session, "PULL-NUMBER", "a", "b", "c")
    return asked_with(session, js, "PULL-NUMBER", 2, "2", " 2\n", "+2", "02")


@catalogue.case("js.pull.number-many")
def number_many(session: Session) -> Observation:
    """A pull for more than there is gets all messages and waits for the rest, without limit."""
    js = supplied(session, "PULL-MANY", "a", "b")
    one = puller(session, "PULL-MANY")
    one.pull("PULL-MANY", "C", "3")
    came = one.take(2)
    waiting = state(js, "PULL-MANY")
    add(js, "PULL-MANY", "c")
    return {
        "came": payloads(came),
        "waiting": waiting,
        "later": payloads(one.take(1)),
        "done": state(js, "PULL-MANY"),
    }


@catalogue.case("js.pull.number-not-positive")
def number_not_positive(session: Session) -> Observation:
    """A pull for none, or for less, gets one message and is done."""
    js = supplied(session, "PULL-NONE", "a", "b", "c")
    bodies: tuple[Body, ...] = ("0", "-1", "-5", {"batch": 0}, {"batch": -1}, {})
    return asked_with(session, js, "PULL-NONE", 1, *bodies)


@catalogue.case("js.pull.no-number")
def no_number(session: Session) -> Observation:
    """A body that is neither a number nor an object is no error: it is for one message."""
    js = supplied(session, "PULL-WORDS", "a", "b", "c")
    bodies = ("two", "2.0", "0x2", "2 2", "[2]", '"2"', "99999999999999999999")
    return asked_with(session, js, "PULL-WORDS", 1, *bodies)


@catalogue.case("js.pull.object")
def json_object(session: Session) -> Observation:
    """An object asks for a batch; its keys are known in any case, others are passed over."""
    js = supplied(session, "PULL-OBJECT", "a", "b", "c")
    bodies = ('{"batch":2}', ' \n{"batch": 2 } ', '{"BATCH":2}', '{"batch":2,"more":[1]}')
    return asked_with(session, js, "PULL-OBJECT", 2, *bodies)


@catalogue.case("js.pull.object-nulls")
def json_nulls(session: Session) -> Observation:
    """A null in the object is as if the key were absent; of a key given twice the last counts."""
    js = supplied(session, "PULL-NULLS", "a", "b", "c")
    bodies = ('{"batch":null,"expires":null}', '{"batch":3,"batch":1}', '{"group":null,"batch":1}')
    return asked_with(session, js, "PULL-NULLS", 1, *bodies)


@catalogue.case("js.pull.bad-json", text="400 Bad Request - unexpected end of JSON input")
def bad_json(session: Session) -> Observation:
    """An object that cannot be read is refused with its error, and no pull waits."""
    js = supplied(session, "PULL-BAD", "a")
    bodies = ("{", '{"batch":1', '{"batch":1}x', "{batch:1}", '{"batch"}', "{,}", "{]")
    return [js.request(f"{NEXT}PULL-BAD.C", body) for body in bodies] + [state(js, "PULL-BAD")]


@catalogue.case("js.pull.bad-types")
def bad_types(session: Session) -> Observation:
    """A value of another type is refused with the name of the field and of the type."""
    js = supplied(session, "PULL-TYPES", "a")
    bodies = (
        '{"batch":"1"}',
        '{"batch":1.5}',
        '{"batch":99999999999999999999}',
        '{"expires":"1s"}',
        '{"expires":1e3}',
        '{"no_wait":1}',
        '{"max_bytes":true}',
        '{"idle_heartbeat":{}}',
        '{"group":1}',
        '{"id":[]}',
        '{"min_pending":"1"}',
        '{"priority":"1"}',
    )
    return {body: js.request(f"{NEXT}PULL-TYPES.C", body) for body in bodies}


@catalogue.case("js.pull.no-reply-subject")
def no_reply_subject(session: Session) -> Observation:
    """A pull without a reply subject is ignored."""
    js = supplied(session, "PULL-MUTE", "a")
    js.send_only(f"{NEXT}PULL-MUTE.C")
    js.send_only(f"{NEXT}PULL-MUTE.C", {"batch": 1, "expires": LONG_NS})
    return {"next": seen(fetch(js, "PULL-MUTE", "C")), "state": state(js, "PULL-MUTE")}


@catalogue.case("js.pull.nobody-listens")
def nobody_listens(session: Session) -> Observation:
    """A pull whose reply subject nobody listens to gets nothing; the message stays for others."""
    js = supplied(session, "PULL-DEAF", "a")
    js.wire.exchange(f"PUB {NEXT}PULL-DEAF.C nobody.there 1\r\n5\r\n")
    return {"next": seen(fetch(js, "PULL-DEAF", "C")), "state": state(js, "PULL-DEAF")}


@catalogue.case("js.pull.unsubscribed")
def unsubscribed(session: Session) -> Observation:
    """A pull ends with the subscription to its replies: the next message is for another."""
    js = supplied(session, "PULL-UNSUB")
    gone, other = puller(session, "PULL-UNSUB", "gone"), puller(session, "PULL-UNSUB", "other")
    gone.pull("PULL-UNSUB", "C", {"batch": 5, "expires": LONG_NS})
    waits(js, "PULL-UNSUB", 1)
    other.pull("PULL-UNSUB", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "PULL-UNSUB", 2)
    gone.leave()
    add(js, "PULL-UNSUB", "a")
    return {
        "other": other.next().seen,
        "gone": seen(gone.arrived()),
        "state": state(js, "PULL-UNSUB"),
    }


@catalogue.case("js.pull.disconnected")
def disconnected(session: Session) -> Observation:
    """A pull ends with the connection of its client: the next message is for another."""
    js = supplied(session, "PULL-GONE")
    gone, other = puller(session, "PULL-GONE", "gone"), puller(session, "PULL-GONE", "other")
    gone.pull("PULL-GONE", "C", {"batch": 5, "expires": LONG_NS})
    waits(js, "PULL-GONE", 1)
    other.pull("PULL-GONE", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "PULL-GONE", 2)
    gone.wire.close()
    session.wait_until_gone(gone.wire)
    add(js, "PULL-GONE", "a")
    return {"other": other.next().seen, "state": state(js, "PULL-GONE")}


@catalogue.case("js.pull.waiting-forgotten")
def waiting_forgotten(session: Session) -> Observation:
    """A pull nobody listens for any more is not counted as waiting."""
    js = supplied(session, "PULL-FORGET")
    one = puller(session, "PULL-FORGET")
    one.pull("PULL-FORGET", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "PULL-FORGET", 1)
    before = state(js, "PULL-FORGET")
    one.leave()
    return {"before": before, "after": state(js, "PULL-FORGET")}


@catalogue.case("js.pull.waits")
def waits_for_messages(session: Session) -> Observation:
    """A pull waits for messages that are stored later."""
    js = supplied(session, "PULL-WAIT")
    one = puller(session, "PULL-WAIT")
    one.pull("PULL-WAIT", "C", {"batch": 2, "expires": LONG_NS})
    waits(js, "PULL-WAIT")
    add(js, "PULL-WAIT", "a")
    first = one.next()
    between = state(js, "PULL-WAIT")
    add(js, "PULL-WAIT", "b")
    return {
        "came": seen([first, one.next()]),
        "between": between,
        "after": state(js, "PULL-WAIT"),
    }


@catalogue.case("js.pull.first-come")
def first_come(session: Session) -> Observation:
    """Of pulls for one message each, the one that waits longest is served first."""
    js = supplied(session, "PULL-ORDER")
    pullers = [puller(session, "PULL-ORDER", name) for name in ("a", "b", "c")]
    for count, one in enumerate(pullers, start=1):
        one.pull("PULL-ORDER", "C", {"batch": 1, "expires": LONG_NS})
        waits(js, "PULL-ORDER", count)
    add(js, "PULL-ORDER", "1", "2", "3")
    return [payloads(one.take(1)) for one in pullers]


@catalogue.case("js.pull.in-turn")
def in_turn(session: Session) -> Observation:
    """Pulls that wait for more than one message are served in turn, a message at a time."""
    js = supplied(session, "PULL-TURN")
    pullers = [puller(session, "PULL-TURN", name) for name in ("a", "b", "c")]
    for count, one in enumerate(pullers, start=1):
        one.pull("PULL-TURN", "C", {"batch": count, "expires": LONG_NS})
        waits(js, "PULL-TURN", count)
    add(js, "PULL-TURN", *"123456")
    return [payloads(one.take(count)) for count, one in enumerate(pullers, start=1)]


@catalogue.case("js.pull.in-turn-joined")
def in_turn_joined(session: Session) -> Observation:
    """A pull that comes later stands behind those that wait, also behind one partly served."""
    js = supplied(session, "PULL-JOIN")
    early, late = puller(session, "PULL-JOIN", "early"), puller(session, "PULL-JOIN", "late")
    early.pull("PULL-JOIN", "C", {"batch": 3, "expires": LONG_NS})
    waits(js, "PULL-JOIN", 1)
    add(js, "PULL-JOIN", "1")
    first = early.take(1)
    late.pull("PULL-JOIN", "C", {"batch": 2, "expires": LONG_NS})
    waits(js, "PULL-JOIN", 2)
    add(js, "PULL-JOIN", *"2345")
    return {"early": payloads([*first, *early.take(2)]), "late": payloads(late.take(2))}


@catalogue.case("js.pull.same-inbox")
def same_inbox(session: Session) -> Observation:
    """Two pulls with one reply subject are two pulls; both are served."""
    js = supplied(session, "PULL-TWICE")
    one = puller(session, "PULL-TWICE")
    for count in (1, 2):
        one.pull("PULL-TWICE", "C", {"batch": 2, "expires": LONG_NS})
        waits(js, "PULL-TWICE", count)
    add(js, "PULL-TWICE", *"123")
    return {"came": payloads(one.take(3)), "state": state(js, "PULL-TWICE")}


@catalogue.case("js.pull.headers-only")
def headers_only(session: Session) -> Observation:
    """With `headers_only` a header with the payload's size, the last one, replaces the payload."""
    js = with_stream(session, "PULL-HEADS")
    js.publish("PULL-HEADS", "12345")
    js.publish("PULL-HEADS", "1", {"X": "y", "Nats-Msg-Size": "7"})
    js.publish("PULL-HEADS", "")
    new_durable(js, "PULL-HEADS", "C", headers_only=True)
    return seen(fetch(js, "PULL-HEADS", "C", 3))


@catalogue.case("js.pull.headers-only-bytes")
def headers_only_bytes(session: Session) -> Observation:
    """A message without headers gets a header block of its own for the payload's size."""
    js = supplied(session, "PULL-HEADBYTES", "abc", headers_only=True)
    js.send(f"{NEXT}PULL-HEADBYTES.C")
    line, rest = str(js.wire.frame()).split("\r\n", 1)
    return {"sizes": line.split(" ")[-2:], "rest": rest}


@catalogue.case("js.pull.filter")
def filter_wildcard(session: Session) -> Observation:
    """A filter with wildcards takes its matches; the rest is neither delivered nor pending."""
    subjects = ("a.x", "b.x", "a.y.z", "a", "a.z")
    js = supplied(session, "PULL-FILTER", *subjects, filter_subject="PULL-FILTER.a.*")
    before = state(js, "PULL-FILTER")
    return {"before": before, "came": seen(fetch(js, "PULL-FILTER", "C", 3))}


@catalogue.case("js.pull.filters")
def filters(session: Session) -> Observation:
    """With several filters all messages that match one come, in the order of the stream."""
    subjects = ("a", "b", "c.1", "d", "b", "c.2", "a")
    chosen = ["PULL-FILTERS.c.>", "PULL-FILTERS.b"]
    js = supplied(session, "PULL-FILTERS", *subjects, filter_subjects=chosen)
    before = state(js, "PULL-FILTERS")
    return {"before": before, "came": seen(fetch(js, "PULL-FILTERS", "C", 5))}


@catalogue.case("js.pull.filter-nothing")
def filter_nothing(session: Session) -> Observation:
    """A filter nothing matches leaves nothing pending; a pull passes over the whole stream."""
    js = supplied(session, "PULL-NOTHING", "a", "b", filter_subject="PULL-NOTHING.c")
    before = state(js, "PULL-NOTHING")
    came = payloads(fetch(js, "PULL-NOTHING", "C"))
    add(js, "PULL-NOTHING", "c", pending=1)
    later = seen(fetch(js, "PULL-NOTHING", "C"))
    return {"before": before, "came": came, "later": later, "after": state(js, "PULL-NOTHING")}


@catalogue.case("js.pull.deliver-last")
def deliver_last(session: Session) -> Observation:
    """Deliver policy `last` begins with the last message of the stream, or of the filter."""
    js = supplied(session, "PULL-LAST", "a", "b", "a", "b", "c", deliver_policy="last")
    new_durable(
        js, "PULL-LAST", "F", deliver_policy="last", filter_subjects=["PULL-LAST.a", "PULL-LAST.b"]
    )
    new_durable(js, "PULL-LAST", "N", deliver_policy="last", filter_subject="PULL-LAST.none")
    return {
        name: [state(js, "PULL-LAST", name), seen(fetch(js, "PULL-LAST", name, 2))]
        for name in ("C", "F", "N")
    }


@catalogue.case("js.pull.deliver-new")
def deliver_new(session: Session) -> Observation:
    """Deliver policy `new` begins with the messages stored after the consumer was made."""
    js = supplied(session, "PULL-NEW", "a", "b", deliver_policy="new")
    before = state(js, "PULL-NEW")
    nothing = payloads(fetch(js, "PULL-NEW", "C"))
    add(js, "PULL-NEW", "c", pending=1)
    return [before, nothing, seen(fetch(js, "PULL-NEW", "C", 2))]


@catalogue.case("js.pull.deliver-from-sequence")
def deliver_from_sequence(session: Session) -> Observation:
    """A start sequence is where delivery begins, the first that is there if it is below."""
    js = supplied(session, "PULL-SEQ", *"abcde")
    js.api("STREAM.PURGE.PULL-SEQ", {"seq": 3})
    for start in (1, 3, 4, 5):
        new_durable(
            js, "PULL-SEQ", f"S{start}", deliver_policy="by_start_sequence", opt_start_seq=start
        )
    return {
        start: [state(js, "PULL-SEQ", f"S{start}"), payloads(fetch(js, "PULL-SEQ", f"S{start}", 4))]
        for start in ("1", "3", "4", "5")
    }


@catalogue.case("js.pull.deliver-from-later-sequence")
def deliver_from_later_sequence(session: Session) -> Observation:
    """A start sequence past the end waits for the message with that sequence."""
    js = supplied(session, "PULL-LATER", "a", deliver_policy="by_start_sequence", opt_start_seq=4)
    before = state(js, "PULL-LATER")
    one = puller(session, "PULL-LATER")
    one.pull("PULL-LATER", "C", {"batch": 2, "expires": LONG_NS})
    waits(js, "PULL-LATER")
    for name in "bcde":
        js.publish(f"PULL-LATER.{name}", name)
    came = payloads(one.take(2))
    return {"before": before, "came": came, "after": state(js, "PULL-LATER")["delivered"]}


@catalogue.case("js.pull.deliver-from-time")
def deliver_from_time(session: Session) -> Observation:
    """A start time begins with the first message not older, by the time it was stored."""
    js = supplied(session, "PULL-FROM", "a", "b", "c", stream_config={"allow_direct": True})
    headers = dict(js.direct("PULL-FROM", {"seq": 2})["headers"])
    times = {
        "exact": headers["Nats-Time-Stamp"]["moment"],
        "past": LONG_AGO,
        "future": FAR_AHEAD,
    }
    shown: dict[str, Observation] = {}
    for name, moment in times.items():
        new_durable(js, "PULL-FROM", name, deliver_policy="by_start_time", opt_start_time=moment)
        came = payloads(fetch(js, "PULL-FROM", name, 4))
        shown[name] = [state(js, "PULL-FROM", name), came]
    return shown


@catalogue.case("js.pull.deliver-last-per-subject")
def deliver_last_per_subject(session: Session) -> Observation:
    """Deliver policy `last_per_subject` begins with the last of each subject, then goes on."""
    js = supplied(
        session,
        "PULL-PER",
        *("a", "b", "a", "c", "b", "x"),
        deliver_policy="last_per_subject",
        filter_subjects=["PULL-PER.a", "PULL-PER.b", "PULL-PER.c"],
    )
    before = state(js, "PULL-PER")
    came = seen(fetch(js, "PULL-PER", "C", 4))
    add(js, "PULL-PER", "a", "x", "a", pending=2)
    return [before, came, seen(fetch(js, "PULL-PER", "C", 3)), state(js, "PULL-PER")]


@catalogue.case("js.pull.deliver-last-per-subject-during")
def deliver_last_per_subject_during(session: Session) -> Observation:
    """Messages stored while the last of each subject is delivered come after them."""
    js = supplied(
        session,
        "PULL-DURING",
        *("a", "b", "a", "b"),
        deliver_policy="last_per_subject",
        filter_subject="PULL-DURING.>",
    )
    first = payloads(fetch(js, "PULL-DURING", "C"))
    add(js, "PULL-DURING", "a", "c", pending=3)
    return [first, seen(fetch(js, "PULL-DURING", "C", 4)), state(js, "PULL-DURING")]


@catalogue.case("js.pull.deleted-skipped")
def deleted_skipped(session: Session) -> Observation:
    """A message that was deleted before its delivery is skipped and not pending."""
    js = supplied(session, "PULL-DELETED", *"abcd")
    for seq in (1, 3):
        js.api("STREAM.MSG.DELETE.PULL-DELETED", {"seq": seq})
    before = consumer_info_when(js, "PULL-DELETED", "C", num_pending=2)
    return [counts(before), seen(fetch(js, "PULL-DELETED", "C", 2)), state(js, "PULL-DELETED")]


@catalogue.case("js.pull.ack-none")
def ack_none(session: Session) -> Observation:
    """A consumer that wants no acks counts its deliveries as acked."""
    js = supplied(session, "PULL-NOACK", "a", "b", "c", ack_policy="none")
    return [seen(fetch(js, "PULL-NOACK", "C", 2)), state(js, "PULL-NOACK")]


@catalogue.case("js.pull.info")
def info_whole(session: Session) -> Observation:
    """INFO of a consumer after a pull and an ack, whole: times appear once there are any."""
    js = supplied(session, "PULL-INFO", "a", "b")
    before = consumer_info(js, "PULL-INFO", "C")
    came = fetch(js, "PULL-INFO", "C", 2)
    between = consumer_info(js, "PULL-INFO", "C")
    ack(js, came[0])
    return [before, between, consumer_info(js, "PULL-INFO", "C")]


@catalogue.case("js.pull.memory-consumer")
def memory_consumer(session: Session) -> Observation:
    """A consumer that keeps its state in memory delivers and counts as one in files does."""
    js = supplied(session, "PULL-MEMORY", "a", "b", mem_storage=True)
    came = fetch(js, "PULL-MEMORY", "C", 2)
    ack(js, came[0])
    return [seen(came), state(js, "PULL-MEMORY")]


@catalogue.case("js.pull.two-consumers")
def two_consumers(session: Session) -> Observation:
    """Consumers of one stream deliver and count each for itself."""
    js = supplied(session, "PULL-BOTH", "a", "b")
    new_durable(js, "PULL-BOTH", "D")
    ack(js, *fetch(js, "PULL-BOTH", "C", 2))
    fetch(js, "PULL-BOTH", "D")
    return {name: state(js, "PULL-BOTH", name) for name in ("C", "D")}


@catalogue.case("js.pull.paused")
def paused(session: Session) -> Observation:
    """A paused consumer delivers nothing; pulls wait and run out as ever."""
    js = supplied(session, "PULL-PAUSED", "a", pause_until=FAR_AHEAD)
    one = puller(session, "PULL-PAUSED")
    one.pull("PULL-PAUSED", "C", {"batch": 1, "expires": SHORT_NS})
    return [payloads(one.take(1)), state(js, "PULL-PAUSED")]


@catalogue.case("js.pull.resumed")
def resumed(session: Session) -> Observation:
    """A pull that waits at a paused consumer is served when it was resumed and there is more."""
    js = supplied(session, "PULL-RESUMED", "a", pause_until=FAR_AHEAD)
    one = puller(session, "PULL-RESUMED")
    one.pull("PULL-RESUMED", "C", {"batch": 2, "expires": LONG_NS})
    waits(js, "PULL-RESUMED")
    js.api("CONSUMER.PAUSE.PULL-RESUMED.C", {})
    add(js, "PULL-RESUMED", "b")
    return [payloads(one.take(2)), state(js, "PULL-RESUMED")]


@catalogue.case("js.pull.pause-over")
def pause_over(session: Session) -> Observation:
    """A pull that waits at a paused consumer is served as soon as the pause is over."""
    until = datetime.now(UTC) + timedelta(seconds=1)
    supplied(session, "PULL-OVER", "a", pause_until=f"{until:%Y-%m-%dT%H:%M:%S.%fZ}")
    one = puller(session, "PULL-OVER")
    one.pull("PULL-OVER", "C", {"batch": 1, "expires": LONG_NS})
    came = one.next().seen
    return {"came": came, "in its time": datetime.now(UTC) >= until}


@catalogue.case("js.pull.replay-original")
def replay_original(session: Session) -> Observation:
    """Replayed as it was recorded, a message comes no sooner after another than it was stored."""
    js = with_stream(session, "PULL-REPLAY")
    js.publish("PULL-REPLAY", "first")
    let_pass(js, "PULL-REPLAY", SHORT_NS)
    js.publish("PULL-REPLAY", "second")
    new_durable(js, "PULL-REPLAY", "C", replay_policy="original")
    one = puller(session, "PULL-REPLAY")
    one.pull("PULL-REPLAY", "C", "2")
    came = one.take(1)
    since = time.monotonic()
    came += one.take(1)
    return {"came": payloads(came), "in its time": lasted_ns(since) > SHORT_NS // 2}


@catalogue.case("js.pull.consumer-gone")
def consumer_gone(session: Session) -> Observation:
    """A pull from a consumer that was deleted has no responders."""
    js = supplied(session, "PULL-NOBODY", "a")
    delete_consumer(js, "PULL-NOBODY", "C")
    return js.request_frame(f"{NEXT}PULL-NOBODY.C").split("\r\n", 1)[1]


@catalogue.case("js.pull.beside-tokens")
def beside_tokens(session: Session) -> Observation:
    """A pull with a token too many, or too few, reaches no consumer."""
    js = supplied(session, "PULL-TOKENS-OFF", "a")
    subjects = (f"{NEXT}PULL-TOKENS-OFF.C.X", f"{NEXT}PULL-TOKENS-OFF", f"{NEXT}PULL-TOKENS-OFF.c")
    return {subject: js.unanswered(subject) for subject in subjects}


@catalogue.case("js.pull.level")
def level(session: Session) -> Observation:
    """A pull may require a level of the API; one too high is refused before the body is read."""
    js = supplied(session, "PULL-LEVEL", "a", "b")
    subject = f"{NEXT}PULL-LEVEL.C"
    required = "Nats-Required-Api-Level"
    return {
        "too high": js.request(subject, "{", {required: "99"}),
        "state": state(js, "PULL-LEVEL"),
        "fine": js.request(subject, "{", {required: "1"}),
    }
