"""Acknowledgements: every kind, what each does to a consumer's counts, and when it is answered.

An ack with a reply subject is answered when it was handled; that is how scripts wait for one. To
know that an ack without an answer was handled they wait for a later one, as a consumer takes acks
one after another.
"""

import hashlib
import string
import time

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_pull import (
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
    Delivery,
    ack,
    ack_quietly,
    consumer_info_when,
    fetch,
    new_durable,
    receiver,
    seen,
)
from tests.interop.jetstream import (
    ACCOUNTS,
    DOMAIN,
    EVENTS,
    JETSTREAM,
    JetStreamClient,
    Watch,
    jetstream,
    login,
)
from tests.interop.masks import is_positive
from tests.interop.messages import new_stream
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session

METRICS = "$JS.EVENT.METRIC.CONSUMER.ACK."
ACK_TIME = Mask("**.advisory.ack_time", is_positive, "from the delivery to the ack")

catalogue = Catalogue(JETSTREAM)


def consumer_events(js: JetStreamClient, session: Session, what: str, stream: str) -> Watch:
    """Advisories of one kind about the consumers of a stream, from now on."""
    return js.watch(session, f"{EVENTS}CONSUMER.{what}.{stream}.*")


def with_token(message: Delivery, index: int, value: object) -> str:
    """The subject that acks a message, with another token in one place."""
    tokens = message.reply.split(".")
    tokens[index] = str(value)
    return ".".join(tokens)


def answers_of(session: Session, *acks: tuple[str, str]) -> list[Observation]:
    """Which of these acks are answered, of which the last has to be."""
    one = receiver(session, "_INBOX.answers.*")
    for number, (subject, body) in enumerate(acks):
        one.wire.send(f"PUB {subject} _INBOX.answers.{number} {len(body)}\r\n{body}\r\n")
    answered = {one.next().subject}
    while f"_INBOX.answers.{len(acks) - 1}" not in answered:
        answered.add(one.next().subject)
    return [f"_INBOX.answers.{number}" in answered for number in range(len(acks))]


def account_token(account: str) -> str:
    """The account in the longer form of a subject that acks."""
    digits = string.digits + string.ascii_uppercase + string.ascii_lowercase
    digest = hashlib.sha256(account.encode()).digest()
    return "".join(digits[byte % len(digits)] for byte in digest[:8])


def long_form_of(message: Delivery, domain: str = "_", account: str = "$G") -> str:
    tokens = message.reply.split(".")
    return ".".join((*tokens[:2], domain, account_token(account), *tokens[2:]))


@catalogue.case("js.consumer-ack.kinds")
def kinds(session: Session) -> Observation:
    """An empty body, `+ACK` and `+OK` acknowledge a message."""
    js = supplied(session, "CACK-KINDS", "a", "b", "c", "d")
    came = fetch(js, "CACK-KINDS", "C", 4)
    shown = []
    for message, body in zip(came, ("", "+ACK", "+OK"), strict=False):
        ack(js, message, body=body)
        shown.append(state(js, "CACK-KINDS"))
    return shown


@catalogue.case("js.consumer-ack.answer-bytes")
def answer_bytes(session: Session) -> Observation:
    """The answer to an ack with a reply subject is an empty message."""
    js = supplied(session, "CACK-BYTES", "a")
    frame = js.request_frame(fetch(js, "CACK-BYTES", "C")[0].reply, "+ACK")
    return frame.split(" ")[2:]


@catalogue.case("js.consumer-ack.unanswered")
def unanswered(session: Session) -> Observation:
    """An ack without a reply subject is handled all the same."""
    js = supplied(session, "CACK-QUIET", "a")
    ack_quietly(js, fetch(js, "CACK-QUIET", "C")[0])
    return counts(consumer_info_when(js, "CACK-QUIET", "C", num_ack_pending=0))


@catalogue.case("js.consumer-ack.with-headers")
def with_headers(session: Session) -> Observation:
    """Headers of an ack are ignored; its body follows them."""
    js = supplied(session, "CACK-HEADED", "a", "b")
    came = fetch(js, "CACK-HEADED", "C", 2)
    js.request(came[0].reply, "+ACK", {"X": "y"})
    js.request(came[1].reply, "", {"X": "y"})
    return state(js, "CACK-HEADED")


@catalogue.case("js.consumer-ack.unknown")
def unknown(session: Session) -> Observation:
    """A body that is no kind of ack is answered and does nothing."""
    js = supplied(session, "CACK-UNKNOWN", "a")
    message = fetch(js, "CACK-UNKNOWN", "C")[0]
    bodies = ("+ack", "ACK", "+ACK ", "+ACKX", "+WPI ", "+OK!", "-", "nak", "+FOO", "{}")
    return [[js.request(message.reply, body) for body in bodies], state(js, "CACK-UNKNOWN")]


@catalogue.case("js.consumer-ack.twice")
def twice(session: Session) -> Observation:
    """A second ack of a message is answered like the first, and does nothing."""
    js = supplied(session, "CACK-TWICE", "a", "b")
    came = fetch(js, "CACK-TWICE", "C", 2)
    first = js.request(came[0].reply, "+ACK")
    return [first, js.request(came[0].reply, "+ACK"), state(js, "CACK-TWICE")]


@catalogue.case("js.consumer-ack.floor")
def floor(session: Session) -> Observation:
    """The floor is as far as everything was acked: it waits for the lowest that was not."""
    js = supplied(session, "CACK-FLOOR", *"abcde")
    came = fetch(js, "CACK-FLOOR", "C", 4)
    shown = []
    for index in (1, 2, 0, 3):
        ack(js, came[index])
        shown.append(state(js, "CACK-FLOOR"))
    return shown


@catalogue.case("js.consumer-ack.floor-filtered")
def floor_filtered(session: Session) -> Observation:
    """With a filter the floor stops before the next message that is to be acked."""
    subjects = ("a", "b", "a", "b", "b", "a", "b")
    js = supplied(session, "CACK-GAPS", *subjects, filter_subject="CACK-GAPS.a")
    came = fetch(js, "CACK-GAPS", "C", 3)
    shown = []
    for message in came:
        ack(js, message)
        shown.append(state(js, "CACK-GAPS"))
    return shown


@catalogue.case("js.consumer-ack.never-delivered")
def never_delivered(session: Session) -> Observation:
    """Acks and terms of undelivered messages are neither done nor answered; a nak is answered."""
    js = supplied(session, "CACK-NEVER", "a", "b", "c")
    message = fetch(js, "CACK-NEVER", "C")[0]
    later, past = with_token(message, 5, 2), with_token(message, 5, 99)
    answered = answers_of(
        session,
        (later, "+ACK"),
        (past, ""),
        (later, "+TERM"),
        (later, "-NAK"),
        (later, "+WPI"),
        (past, "?"),
        (message.reply, "+ACK"),
    )
    return {"answered": answered, "state": state(js, "CACK-NEVER")}


@catalogue.case("js.consumer-ack.tokens-unchecked")
def tokens_unchecked(session: Session) -> Observation:
    """An ack counts by its stream sequence; the other numbers in its subject may be anything."""
    js = supplied(session, "CACK-TOKENS", *"abcde")
    came = fetch(js, "CACK-TOKENS", "C", 5)
    for message, index, value in zip(came, (4, 6, 7, 8), (9, 77, 0, 12345), strict=False):
        js.request(with_token(message, index, value), "+ACK")
    return state(js, "CACK-TOKENS")


@catalogue.case("js.consumer-ack.bad-sequence")
def bad_sequence(session: Session) -> Observation:
    """An ack whose sequence is no number is neither done nor answered; zero is answered."""
    js = supplied(session, "CACK-BADSEQ", "a", "b")
    message = fetch(js, "CACK-BADSEQ", "C")[0]
    bad = [with_token(message, 5, value) for value in ("0", "x", "-1", "1x")]
    acks = [(subject, "+ACK") for subject in bad] + [(message.reply, "+ACK")]
    return {"answered": answers_of(session, *acks), "state": state(js, "CACK-BADSEQ")}


@catalogue.case("js.consumer-ack.token-count")
def token_count(session: Session) -> Observation:
    """An ack with a token too few or too many has no responders."""
    js = supplied(session, "CACK-COUNT", "a")
    message = fetch(js, "CACK-COUNT", "C")[0]
    return {
        "few": js.request(message.reply.rpartition(".")[0], "+ACK")["status"],
        "many": js.request(f"{message.reply}.x", "+ACK")["status"],
        "many more": js.request(f"{message.reply}.x.y.z", "+ACK")["status"],
        "state": state(js, "CACK-COUNT"),
    }


@catalogue.case("js.consumer-ack.long-form")
def long_form(session: Session) -> Observation:
    """The longer form of the subject acknowledges too; tokens may follow its numbers."""
    js = supplied(session, "CACK-LONG", "a", "b", "c")
    came = fetch(js, "CACK-LONG", "C", 3)
    answers = [
        js.request(long_form_of(came[0]), "+ACK"),
        js.request(f"{long_form_of(came[1])}.more.tokens", "+ACK"),
        js.request(long_form_of(came[2]), "-NAK"),
    ]
    again = payloads(fetch(js, "CACK-LONG", "C"))
    return {"answers": answers, "again": again, "state": state(js, "CACK-LONG")}


@catalogue.case("js.consumer-ack.long-form-elsewhere")
def long_form_elsewhere(session: Session) -> Observation:
    """The longer form with another domain, account or too few tokens has no responders."""
    js = supplied(session, "CACK-FAR", "a")
    message = fetch(js, "CACK-FAR", "C")[0]
    subjects = (
        long_form_of(message, domain="hub"),
        long_form_of(message, account="OTHER"),
        long_form_of(message).rpartition(".")[0],
    )
    return [js.request(subject, "+ACK")["status"] for subject in subjects]


@catalogue.case("js.consumer-ack.long-form-domain", setup=DOMAIN)
def long_form_domain(session: Session) -> Observation:
    """In a domain the longer form has to name it; the shorter one has no place for it."""
    js = supplied(session, "CACK-DOMAIN", "a", "b")
    came = fetch(js, "CACK-DOMAIN", "C", 2)
    return [
        js.request(long_form_of(came[0]), "+ACK")["status"],
        js.request(long_form_of(came[0], domain="hub"), "+ACK"),
        js.request(came[1].reply, "+ACK"),
        state(js, "CACK-DOMAIN"),
    ]


@catalogue.case("js.consumer-ack.old-delivery")
def old_delivery(session: Session) -> Observation:
    """The subject of an earlier delivery acknowledges a message that was delivered again."""
    js = supplied(session, "CACK-OLD", "a", "b")
    first = fetch(js, "CACK-OLD", "C")[0]
    ack(js, first, body="-NAK")
    again = fetch(js, "CACK-OLD", "C")[0]
    before = state(js, "CACK-OLD")
    ack(js, first)
    return {"again": again.seen, "before": before, "after": state(js, "CACK-OLD")}


@catalogue.case("js.consumer-ack.all")
def ack_all(session: Session) -> Observation:
    """With policy `all` an ack is for a message and all before it; acks below it are answered."""
    js = supplied(session, "CACK-ALL", *"abcde", ack_policy="all")
    came = fetch(js, "CACK-ALL", "C", 4)
    shown: list[Observation] = []
    for index in (2, 0, 2, 3):
        shown.append(js.request(came[index].reply, "+ACK"))
        shown.append(state(js, "CACK-ALL"))
    return shown


@catalogue.case("js.consumer-ack.all-after-redelivery")
def all_after_redelivery(session: Session) -> Observation:
    """With policy `all` an ack ends the redeliveries of messages before it too."""
    js = supplied(session, "CACK-ALLAGAIN", "a", "b", "c", ack_policy="all")
    came = fetch(js, "CACK-ALLAGAIN", "C", 3)
    ack(js, came[0], came[1], body="-NAK")
    ack(js, came[1])
    between = state(js, "CACK-ALLAGAIN")
    return [between, payloads(fetch(js, "CACK-ALLAGAIN", "C", 2))]


@catalogue.case("js.consumer-ack.all-terminated")
def all_terminated(session: Session) -> Observation:
    """With policy `all` a term is for a message and all before it, as an ack is."""
    js = supplied(session, "CACK-ALLTERM", "a", "b", "c", ack_policy="all")
    came = fetch(js, "CACK-ALLTERM", "C", 3)
    ack(js, came[1], body="+TERM")
    return state(js, "CACK-ALLTERM")


@catalogue.case("js.consumer-ack.none")
def ack_none(session: Session) -> Observation:
    """A consumer that wants no acks does not listen for them."""
    js = supplied(session, "CACK-NONE", "a", ack_policy="none")
    message = fetch(js, "CACK-NONE", "C")[0]
    return {body: js.request(message.reply, body)["status"] for body in ("+ACK", "-NAK", "+NXT")}


@catalogue.case("js.consumer-ack.consumer-gone")
def consumer_gone(session: Session) -> Observation:
    """After its consumer is deleted an ack has no responders."""
    js = supplied(session, "CACK-GONE", "a")
    message = fetch(js, "CACK-GONE", "C")[0]
    js.api("CONSUMER.DELETE.CACK-GONE.C")
    return {"heard by": js.request(message.reply, "+ACK")["status"]}


@catalogue.case("js.consumer-ack.other-account", setup=ACCOUNTS)
def other_account(session: Session) -> Observation:
    """An ack from another account reaches nobody."""
    js = jetstream(session, **login("plain"))
    new_stream(js, "CACK-ACCOUNT")
    js.publish("CACK-ACCOUNT", "a")
    new_durable(js, "CACK-ACCOUNT", "C")
    message = fetch(js, "CACK-ACCOUNT", "C")[0]
    other = jetstream(session, **login("other"))
    return [other.request(message.reply, "+ACK")["status"], state(js, "CACK-ACCOUNT")]


@catalogue.case("js.consumer-ack.progress")
def progress(session: Session) -> Observation:
    """`+WPI` starts the wait for the ack again, is answered, and acknowledges nothing."""
    js = supplied(session, "CACK-WPI", "a", ack_wait=4 * SHORT_NS)
    message = fetch(js, "CACK-WPI", "C")[0]
    pause = fetch(js, "CACK-WPI", "C", expires=2 * SHORT_NS)
    since = time.monotonic()
    answer = js.request(message.reply, "+WPI")
    between = state(js, "CACK-WPI")
    again = fetch(js, "CACK-WPI", "C", expires=LONG_NS)
    return {
        "pause": payloads(pause),
        "answer": answer,
        "between": between,
        "again": seen(again),
        "anew": lasted_ns(since) >= 4 * SHORT_NS,
    }


@catalogue.case("js.consumer-ack.progress-late")
def progress_late(session: Session) -> Observation:
    """`+WPI` of an acked message is answered and brings nothing back."""
    js = supplied(session, "CACK-WPILATE", "a", "b")
    message = fetch(js, "CACK-WPILATE", "C")[0]
    ack(js, message)
    return [js.request(message.reply, "+WPI"), state(js, "CACK-WPILATE")]


@catalogue.case("js.consumer-ack.nak")
def nak(session: Session) -> Observation:
    """`-NAK` has a message delivered again at once, before those that are new."""
    js = supplied(session, "CACK-NAK", "a", "b")
    message = fetch(js, "CACK-NAK", "C")[0]
    answer = js.request(message.reply, "-NAK")
    between = state(js, "CACK-NAK")
    return {
        "answer": answer,
        "between": between,
        "then": seen(fetch(js, "CACK-NAK", "C", 3)),
        "after": state(js, "CACK-NAK"),
    }


@catalogue.case("js.consumer-ack.nak-waiting")
def nak_waiting(session: Session) -> Observation:
    """A pull that waits is served with a message that gets a NAK meanwhile."""
    js = supplied(session, "CACK-NAKWAIT", "a")
    message = fetch(js, "CACK-NAKWAIT", "C")[0]
    one = puller(session, "CACK-NAKWAIT")
    one.pull("CACK-NAKWAIT", "C", {"batch": 1, "expires": LONG_NS})
    waits(js, "CACK-NAKWAIT")
    ack(js, message, body="-NAK")
    return one.next().seen


@catalogue.case("js.consumer-ack.nak-late")
def nak_late(session: Session) -> Observation:
    """`-NAK` of an acked message is answered, and does nothing."""
    js = supplied(session, "CACK-NAKLATE", "a", "b", "c")
    came = fetch(js, "CACK-NAKLATE", "C", 2)
    ack(js, came[0])
    answer = js.request(came[0].reply, "-NAK")
    return [answer, payloads(fetch(js, "CACK-NAKLATE", "C", 2)), state(js, "CACK-NAKLATE")]


@catalogue.case("js.consumer-ack.nak-twice")
def nak_twice(session: Session) -> Observation:
    """A message refused twice before it is delivered again is delivered again once."""
    js = supplied(session, "CACK-NAKTWICE", "a")
    message = fetch(js, "CACK-NAKTWICE", "C")[0]
    ack(js, message, message, body="-NAK")
    return [payloads(fetch(js, "CACK-NAKTWICE", "C", 3)), state(js, "CACK-NAKTWICE")]


@catalogue.case("js.consumer-ack.nak-then-ack")
def nak_then_ack(session: Session) -> Observation:
    """An ack after a `-NAK` counts: the message does not come again."""
    js = supplied(session, "CACK-NAKACK", "a", "b")
    message = fetch(js, "CACK-NAKACK", "C")[0]
    ack(js, message, body="-NAK")
    ack(js, message)
    return [payloads(fetch(js, "CACK-NAKACK", "C", 2)), state(js, "CACK-NAKACK")]


@catalogue.case("js.consumer-ack.nak-delay")
def nak_delay(session: Session) -> Observation:
    """`-NAK` with a delay has a message delivered again after it, in either way to write it."""
    js = supplied(session, "CACK-DELAY", "a")
    shown: list[Observation] = []
    message = fetch(js, "CACK-DELAY", "C")[0]
    for body in ('-NAK {"delay": 400000000}', "-NAK 400ms", '-NAK{"delay":400000000}'):
        since = time.monotonic()
        answer = js.request(message.reply, body)
        shown += [answer, payloads(fetch(js, "CACK-DELAY", "C"))]
        message = fetch(js, "CACK-DELAY", "C", expires=LONG_NS)[0]
        shown += [message.seen, lasted_ns(since) >= 400_000_000]
    return shown


@catalogue.case("js.consumer-ack.nak-delay-first")
def nak_delay_first(session: Session) -> Observation:
    """A delay after a plain `-NAK` takes its place."""
    js = supplied(session, "CACK-DELAYFIRST", "a")
    message = fetch(js, "CACK-DELAYFIRST", "C")[0]
    ack(js, message, body="-NAK")
    ack(js, message, body="-NAK 400ms")
    at_once = payloads(fetch(js, "CACK-DELAYFIRST", "C"))
    return [at_once, seen(fetch(js, "CACK-DELAYFIRST", "C", expires=LONG_NS))]


@catalogue.case("js.consumer-ack.nak-delay-none")
def nak_delay_none(session: Session) -> Observation:
    """A `-NAK` whose delay cannot be read is a plain one; a number without a unit is no delay."""
    js = supplied(session, "CACK-NODELAY", "a")
    shown: list[Observation] = []
    for body in (
        "-NAK 100000000",
        "-NAK {",
        "-NAK later",
        '-NAK {"delay":"1s"}',
        "-NAK  ",
        "-NAKX",
    ):
        message = fetch(js, "CACK-NODELAY", "C", expires=LONG_NS)[0]
        ack(js, message, body=body)
        shown.append([body, message.tree["data"], state(js, "CACK-NODELAY")["delivered"]])
    return shown


@catalogue.case("js.consumer-ack.nak-delay-zero")
def nak_delay_zero(session: Session) -> Observation:
    """A delay of nothing, or of less, has the message delivered again soon."""
    js = supplied(session, "CACK-ZERODELAY", "a")
    for body in ("-NAK 0s", "-NAK -5s", "-NAK {}", '-NAK {"delay":-1}'):
        message = fetch(js, "CACK-ZERODELAY", "C", expires=LONG_NS)[0]
        ack(js, message, body=body)
    return seen(fetch(js, "CACK-ZERODELAY", "C", expires=LONG_NS))


@catalogue.case("js.consumer-ack.nak-advisory")
def nak_advisory(session: Session) -> Observation:
    """A `-NAK` has an advisory with its subject's numbers; one of an acked message has none."""
    js = supplied(session, "CACK-NAKTOLD", "a", "b")
    watch = consumer_events(js, session, "MSG_NAKED", "CACK-NAKTOLD")
    came = fetch(js, "CACK-NAKTOLD", "C", 2)
    ack(js, came[0])
    ack(js, came[0], body="-NAK")
    ack(js, came[1], body="-NAK 10s")
    js.request(with_token(came[1], 4, 5), "-NAK")
    return [watch.next(), watch.next()]


@catalogue.case("js.consumer-ack.term")
def term(session: Session) -> Observation:
    """`+TERM` ends deliveries of a message as an ack does; the text after it is the reason."""
    js = supplied(session, "CACK-TERM", "a", "b", "c")
    came = fetch(js, "CACK-TERM", "C", 3)
    answers = [
        js.request(message.reply, body)
        for message, body in zip(came, ("+TERM", "+TERM because", "+TERMX"), strict=True)
    ]
    return [answers, state(js, "CACK-TERM")]


@catalogue.case("js.consumer-ack.term-advisory")
def term_advisory(session: Session) -> Observation:
    """A `+TERM` is told with its reason, blanks around it aside; also one that comes too late."""
    js = supplied(session, "CACK-TERMTOLD", "a", "b")
    watch = consumer_events(js, session, "MSG_TERMINATED", "CACK-TERMTOLD")
    came = fetch(js, "CACK-TERMTOLD", "C", 2)
    ack(js, came[0], body="+TERM")
    ack(js, came[1], body='+TERM   it is "bad" ')
    ack(js, came[1], body="+TERM again")
    return [watch.next() for _ in range(3)]


@catalogue.case("js.consumer-ack.next")
def ack_next(session: Session) -> Observation:
    """`+NXT` acknowledges and is a pull for one message, sent to the ack's reply subject."""
    js = supplied(session, "CACK-NEXT", "a", "b", "c")
    one = puller(session, "CACK-NEXT")
    one.pull("CACK-NEXT", "C")
    first = one.next()
    one.wire.send(f"PUB {first.reply} {one.subject} 4\r\n+NXT\r\n")
    return {"came": seen([first, one.next()]), "state": state(js, "CACK-NEXT")}


@catalogue.case("js.consumer-ack.next-bodies")
def ack_next_bodies(session: Session) -> Observation:
    """The text after `+NXT` is the body of the pull, in all its forms."""
    js = supplied(session, "CACK-NEXTBODY", *"abcdefgh")
    one = puller(session, "CACK-NEXTBODY")
    one.pull("CACK-NEXTBODY", "C")
    last = one.next()
    shown: list[Observation] = []
    bodies = (("+NXT 2", 2), ("+NXT1", 1), ('+NXT {"batch": 2}', 2), ("+NXT x", 1))
    for body, count in bodies:
        one.wire.send(f"PUB {last.reply} {one.subject} {len(body)}\r\n{body}\r\n")
        came = one.take(count)
        shown.append([body, payloads(came)])
        last = came[-1]
    return [shown, state(js, "CACK-NEXTBODY")]


@catalogue.case("js.consumer-ack.next-statuses")
def ack_next_statuses(session: Session) -> Observation:
    """A pull by `+NXT` is answered with the statuses of any pull; the ack counts all the same."""
    js = supplied(session, "CACK-NEXTSTATUS", "a", "b")
    came = fetch(js, "CACK-NEXTSTATUS", "C", 2)
    bad = js.request(came[0].reply, "+NXT {")
    between = state(js, "CACK-NEXTSTATUS")
    none = js.request(came[1].reply, '+NXT {"batch":1,"no_wait":true}')
    return [bad, between, none, state(js, "CACK-NEXTSTATUS")]


@catalogue.case("js.consumer-ack.next-without-reply")
def ack_next_without_reply(session: Session) -> Observation:
    """`+NXT` without a reply subject acknowledges; nobody is served."""
    js = supplied(session, "CACK-NEXTMUTE", "a", "b")
    ack_quietly(js, fetch(js, "CACK-NEXTMUTE", "C")[0], "+NXT")
    after = consumer_info_when(js, "CACK-NEXTMUTE", "C", num_ack_pending=0)
    return [counts(after), payloads(fetch(js, "CACK-NEXTMUTE", "C"))]


@catalogue.case("js.consumer-ack.stall")
def stall(session: Session) -> Observation:
    """With as many unacked as allowed nothing new is delivered; an ack makes room for one."""
    js = supplied(session, "CACK-STALL", *"abcde", max_ack_pending=2)
    one = puller(session, "CACK-STALL")
    one.pull("CACK-STALL", "C", {"batch": 4, "expires": LONG_NS})
    came = one.take(2)
    stalled = state(js, "CACK-STALL")
    ack(js, came[1])
    came += one.take(1)
    ack(js, came[0], body="+TERM")
    came += one.take(1)
    return {"came": payloads(came), "stalled": stalled, "after": state(js, "CACK-STALL")}


@catalogue.case("js.consumer-ack.stall-timeout")
def stall_timeout(session: Session) -> Observation:
    """A pull at a consumer that waits for acks runs out as any other."""
    js = supplied(session, "CACK-STALLEND", "a", "b", max_ack_pending=1)
    fetch(js, "CACK-STALLEND", "C")
    return [seen(fetch(js, "CACK-STALLEND", "C", 3, expires=SHORT_NS)), state(js, "CACK-STALLEND")]


@catalogue.case("js.consumer-ack.stall-redelivery")
def stall_redelivery(session: Session) -> Observation:
    """With as many unacked as allowed, only messages with a NAK are delivered again."""
    js = supplied(session, "CACK-STALLNAK", "a", "b", "c", max_ack_pending=2)
    came = fetch(js, "CACK-STALLNAK", "C", 2)
    ack(js, came[1], body="-NAK")
    return [
        seen(fetch(js, "CACK-STALLNAK", "C", 2, expires=SHORT_NS)),
        state(js, "CACK-STALLNAK"),
    ]


@catalogue.case("js.consumer-ack.metric", masks=(ACK_TIME,))
def metric(session: Session) -> Observation:
    """Sampled acks have advisories with the numbers of their subject and the time they took."""
    js = supplied(session, "CACK-METRIC", "a", "b", sample_freq="100")
    watch = js.watch(session, f"{METRICS}CACK-METRIC.*")
    came = fetch(js, "CACK-METRIC", "C", 2)
    ack(js, *came)
    return [watch.next(), watch.next()]


@catalogue.case("js.consumer-ack.metric-which", masks=(ACK_TIME,))
def metric_which(session: Session) -> Observation:
    """Neither naks, terms, work in progress, nor a second ack are sampled; `+NXT` is."""
    js = supplied(session, "CACK-METRICS", "a", "b", "c", sample_freq="100%")
    watch = js.watch(session, f"{METRICS}CACK-METRICS.*")
    came = fetch(js, "CACK-METRICS", "C", 3)
    ack(js, came[0], body="+TERM")
    ack(js, came[1], body="+WPI")
    ack(js, came[1], body="-NAK")
    again = fetch(js, "CACK-METRICS", "C")
    ack(js, *again, *again)
    js.request(came[2].reply, '+NXT {"no_wait":true}')
    return [watch.next(), watch.next()]


@catalogue.case("js.consumer-ack.metric-none")
def metric_none(session: Session) -> Observation:
    """Without a frequency, or with none, nothing is sampled."""
    js = supplied(session, "CACK-UNSAMPLED", "a", sample_freq="0")
    new_durable(js, "CACK-UNSAMPLED", "D")
    watch = js.watch(session, f"{METRICS}CACK-UNSAMPLED.*")
    for name in "CD":
        ack(js, *fetch(js, "CACK-UNSAMPLED", name))
    add(js, "CACK-UNSAMPLED", "b")
    return watch.wire.exchange()


@catalogue.case("js.consumer-ack.metric-all", masks=(ACK_TIME,))
def metric_all(session: Session) -> Observation:
    """With policy `all` no ack is sampled; a consumer beside it that acks explicitly is told."""
    js = supplied(session, "CACK-ALLMETRIC", "a", ack_policy="all", sample_freq="100")
    new_durable(js, "CACK-ALLMETRIC", "D", sample_freq="100")
    watch = js.watch(session, f"{METRICS}CACK-ALLMETRIC.*")
    for name in "CD":
        ack(js, *fetch(js, "CACK-ALLMETRIC", name))
    return watch.next()


@catalogue.case("js.consumer-ack.work-queue")
def work_queue(session: Session) -> Observation:
    """An ack or term removes a message from a work queue before it is answered; a nak does not."""
    js = supplied(session, "CACK-WORK", *"abcd", stream_config={"retention": "workqueue"})
    came = fetch(js, "CACK-WORK", "C", 4)
    shown: list[Observation] = []
    for message, body in zip(came, ("+ACK", "+TERM", "-NAK", "+WPI"), strict=True):
        answer = js.request(message.reply, body)
        shown.append([answer, js.state("CACK-WORK")["messages"]])
    return [shown, state(js, "CACK-WORK")]


@catalogue.case("js.consumer-ack.interest")
def interest(session: Session) -> Observation:
    """A stream by interest removes a message when the last of its consumers acked it."""
    js = supplied(session, "CACK-INTEREST", stream_config={"retention": "interest"})
    new_durable(js, "CACK-INTEREST", "D")
    add(js, "CACK-INTEREST", "a", "b", pending=2)
    consumer_info_when(js, "CACK-INTEREST", "D", num_pending=2)
    ack(js, *fetch(js, "CACK-INTEREST", "C", 2))
    before = js.state("CACK-INTEREST")["messages"]
    ack(js, fetch(js, "CACK-INTEREST", "D", 2)[1])
    return [before, js.state_when("CACK-INTEREST", "messages", 1)]


@catalogue.case("js.consumer-ack.interest-all")
def interest_all(session: Session) -> Observation:
    """With policy `all` an ack removes from a stream by interest all that is before it."""
    config: dict[str, object] = {"retention": "interest"}
    js = supplied(session, "CACK-INTERESTALL", stream_config=config, ack_policy="all")
    add(js, "CACK-INTERESTALL", *"abcd", pending=4)
    came = fetch(js, "CACK-INTERESTALL", "C", 3)
    ack(js, came[1])
    return [js.state_when("CACK-INTERESTALL", "messages", 2), state(js, "CACK-INTERESTALL")]
