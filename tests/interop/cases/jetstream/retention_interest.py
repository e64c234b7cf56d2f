"""Streams that keep a message while a consumer wants it, and no longer."""

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_push import (
    HEARTBEAT_NS,
    LONG_NS,
    SHORT_NS,
    listener,
    messages,
    progress_of,
    target,
    until_idle,
)
from tests.interop.consumers import (
    ack,
    consumer_info_when,
    create_consumer,
    delete_consumer,
    fetch,
    info_until,
    new_durable,
    seen,
)
from tests.interop.jetstream import JETSTREAM, JetStreamClient, Reply
from tests.interop.messages import contents, state_in_time, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def interested(
    session: Session,
    stream: str,
    *consumers: str,
    config: dict[str, object] | None = None,
    **stream_config: object,
) -> JetStreamClient:
    """A new stream that keeps by interest, with these consumers to pull from."""
    js = with_stream(session, stream, retention="interest", **stream_config)
    for consumer in consumers:
        new_durable(js, stream, consumer, ack_wait=LONG_NS, **(config or {}))
    return js


def kept(js: JetStreamClient, stream: str) -> Observation:
    """The first and last sequence of a stream, and the sequences of all its messages."""
    state = js.state(stream)
    sequences = [message["seq"] for message in contents(js, stream)]
    return {"first": state["first_seq"], "last": state["last_seq"], "kept": sequences}


def kept_in_time(js: JetStreamClient, stream: str, count: int) -> Observation:
    """The sequences of a stream, once it has so many messages."""
    state_in_time(js, stream, messages=count)
    return kept(js, stream)


# --- interest in a message ----------------------------------------------------------------------


@catalogue.case("js.interest.nobody")
def nobody(session: Session) -> Observation:
    """Without a consumer nothing is kept; the ack has a sequence all the same."""
    js = interested(session, "INTNOBODY")
    acks = [js.ack_text("INTNOBODY.a", "x") for _ in range(3)]
    return [acks, js.state("INTNOBODY")]


@catalogue.case("js.interest.nobody-after")
def nobody_after(session: Session) -> Observation:
    """A message that no consumer wants takes a sequence behind those that are kept."""
    js = interested(session, "INTAFTER", "C", config={"filter_subject": "INTAFTER.a"})
    js.fill("INTAFTER.a", "INTAFTER.b", "INTAFTER.b", "INTAFTER.a", "INTAFTER.b")
    return [kept(js, "INTAFTER"), js.state("INTAFTER")]


@catalogue.case("js.interest.nobody-dedupe")
def nobody_dedupe(session: Session) -> Observation:
    """The id of a message that is not kept is remembered."""
    js = interested(session, "INTDEDUPE")
    return [
        js.ack_text("INTDEDUPE", "x", {"Nats-Msg-Id": "a"}),
        js.ack_text("INTDEDUPE", "x", {"Nats-Msg-Id": "a"}),
    ]


@catalogue.case("js.interest.nobody-expected")
def nobody_expected(session: Session) -> Observation:
    """A message that is not kept counts for the last sequence that a publisher expects."""
    js = interested(session, "INTEXPECT")
    js.fill("INTEXPECT.a")
    return [
        js.ack_text("INTEXPECT.a", "x", {"Nats-Expected-Last-Sequence": "0"}),
        js.ack_text("INTEXPECT.a", "x", {"Nats-Expected-Last-Sequence": "1"}),
        js.ack_text("INTEXPECT.a", "x", {"Nats-Expected-Last-Subject-Sequence": "0"}),
    ]


@catalogue.case("js.interest.unheard")
def unheard(session: Session) -> Observation:
    """A push consumer without a listener wants its messages."""
    js = interested(session, "INTUNHEARD", config={})
    new_durable(js, "INTUNHEARD", "C", deliver_subject=target("INTUNHEARD"))
    js.fill("INTUNHEARD")
    return kept(js, "INTUNHEARD")


# --- acks ---------------------------------------------------------------------------------------


@catalogue.case("js.interest.ack")
def acked(session: Session) -> Observation:
    """A message goes with the ack of the last consumer that wants it."""
    js = interested(session, "INT", "C", "D")
    js.fill("INT.a", "INT.b")
    states = [kept(js, "INT")]
    for consumer in ("C", "D"):
        ack(js, fetch(js, "INT", consumer, 2)[0])
        states.append(kept(js, "INT"))
    return states


@catalogue.case("js.interest.ack-order")
def acked_out_of_order(session: Session) -> Observation:
    """Messages go in the order of their acks."""
    js = interested(session, "INTORDER", "C")
    js.fill(*("INTORDER",) * 4)
    received = fetch(js, "INTORDER", "C", 4)
    states = []
    for number in (2, 0, 3, 1):
        ack(js, received[number])
        states.append(kept(js, "INTORDER"))
    return [states, progress_of(js, "INTORDER")]


@catalogue.case("js.interest.ack-all")
def ack_all(session: Session) -> Observation:
    """One ack of all frees every message it stands for."""
    js = interested(session, "INTALL", "C", config={"ack_policy": "all"})
    js.fill(*("INTALL",) * 4)
    received = fetch(js, "INTALL", "C", 4)
    ack(js, received[2])
    return kept(js, "INTALL")


@catalogue.case("js.interest.ack-all-two")
def ack_all_two(session: Session) -> Observation:
    """A message that another consumer has not acked outlasts an ack of all."""
    js = interested(session, "INTALLTWO", "C", config={"ack_policy": "all"})
    new_durable(js, "INTALLTWO", "D")
    js.fill(*("INTALLTWO",) * 4)
    ack(js, fetch(js, "INTALLTWO", "C", 4)[3])
    ack(js, fetch(js, "INTALLTWO", "D", 4)[1])
    return kept(js, "INTALLTWO")


@catalogue.case("js.interest.ack-none")
def ack_none(session: Session) -> Observation:
    """A message sent to a consumer without acks counts as acked by it."""
    js = interested(session, "INTNONE", "C", config={})
    inbox = listener(session, target("INTNONE"))
    config = {"deliver_subject": target("INTNONE"), "ack_policy": "none"}
    create_consumer(js, "INTNONE", "D", **config)
    js.fill("INTNONE.a", "INTNONE.b")
    inbox.take(2)
    before = kept(js, "INTNONE")
    ack(js, fetch(js, "INTNONE", "C")[0])
    return [before, kept_in_time(js, "INTNONE", 1)]


@catalogue.case("js.interest.ack-none-alone")
def ack_none_alone(session: Session) -> Observation:
    """A message sent to a consumer without acks goes, if no other consumer wants it."""
    js = interested(session, "INTALONE", config={})
    config = {"deliver_subject": target("INTALONE"), "ack_policy": "none"}
    create_consumer(js, "INTALONE", "D", **config)
    js.fill("INTALONE.a", "INTALONE.b")
    before = kept(js, "INTALONE")
    inbox = listener(session, target("INTALONE"))
    received = seen(inbox.take(2))
    return [before, received, kept_in_time(js, "INTALONE", 0)]


@catalogue.case("js.interest.nak")
def refused(session: Session) -> Observation:
    """A message with a NAK stays, and a terminated one goes."""
    js = interested(session, "INTNAK", "C")
    js.fill("INTNAK.a", "INTNAK.b")
    received = fetch(js, "INTNAK", "C", 2)
    ack(js, received[0], body="-NAK")
    before = kept(js, "INTNAK")
    ack(js, received[1], body="+TERM")
    return [before, kept(js, "INTNAK")]


@catalogue.case("js.interest.max-deliver")
def max_deliver(session: Session) -> Observation:
    """A message sent as often as is allowed stays, whatever else is acked."""
    js = interested(session, "INTMAX")
    inbox = listener(session, target("INTMAX"))
    config = {
        "deliver_subject": target("INTMAX"),
        "idle_heartbeat": HEARTBEAT_NS,
        "max_deliver": 1,
        "ack_wait": SHORT_NS,
    }
    new_durable(js, "INTMAX", "C", **config)
    js.fill("INTMAX.a")
    messages(inbox, 1)
    info_until(js, "INTMAX", "C", lambda info: info["num_ack_pending"] == 0)
    js.fill("INTMAX.b")
    ack(js, *messages(inbox, 1))
    return [kept(js, "INTMAX"), seen(until_idle(inbox)), progress_of(js, "INTMAX")]


@catalogue.case("js.interest.late-ack")
def late_ack(session: Session) -> Observation:
    """An ack that comes a second time frees nothing more and is answered."""
    js = interested(session, "INTTWICE", "C")
    js.fill("INTTWICE.a", "INTTWICE.b")
    received = fetch(js, "INTTWICE", "C", 2)
    answers = [js.request(received[0].reply, "+ACK") for _ in range(2)]
    return [answers, kept(js, "INTTWICE")]


# --- filters and late consumers -----------------------------------------------------------------


@catalogue.case("js.interest.filters")
def filters(session: Session) -> Observation:
    """A message waits for the consumers whose filter it matches."""
    js = interested(session, "INTFILTER", "C", config={"filter_subject": "INTFILTER.*"})
    new_durable(js, "INTFILTER", "D", filter_subject="INTFILTER.a")
    js.fill("INTFILTER.a", "INTFILTER.b")
    ack(js, *fetch(js, "INTFILTER", "C", 2))
    before = kept(js, "INTFILTER")
    ack(js, *fetch(js, "INTFILTER", "D"))
    return [before, kept(js, "INTFILTER")]


@catalogue.case("js.interest.late")
def late(session: Session) -> Observation:
    """A late consumer of all wants the messages still there."""
    js = interested(session, "INTLATE", "C")
    js.fill(*("INTLATE",) * 3)
    received = fetch(js, "INTLATE", "C", 3)
    ack(js, received[0])
    new_durable(js, "INTLATE", "D")
    ack(js, *received[1:])
    before = kept(js, "INTLATE")
    ack(js, *fetch(js, "INTLATE", "D", 2))
    return [before, kept(js, "INTLATE")]


@catalogue.case("js.interest.late-new")
def late_new(session: Session) -> Observation:
    """A late consumer of new messages wants none of those already there."""
    js = interested(session, "INTLATENEW", "C")
    js.fill(*("INTLATENEW",) * 2)
    new_durable(js, "INTLATENEW", "D", deliver_policy="new")
    js.fill("INTLATENEW")
    ack(js, *fetch(js, "INTLATENEW", "C", 3))
    return kept(js, "INTLATENEW")


@catalogue.case("js.interest.filter-update")
def filter_update(session: Session) -> Observation:
    """A message that no consumer wants after a change of filters goes with the change."""
    js = interested(session, "INTUPDATE", "C", config={"filter_subject": "INTUPDATE.a"})
    new_durable(js, "INTUPDATE", "D", filter_subject="INTUPDATE.b")
    js.fill(*(f"INTUPDATE.{name}" for name in "abab"))
    changed = new_durable(js, "INTUPDATE", "C", filter_subject="INTUPDATE.b", ack_wait=LONG_NS)
    return [changed["num_pending"], kept(js, "INTUPDATE")]


# --- consumers that leave -----------------------------------------------------------------------


@catalogue.case("js.interest.deleted")
def deleted(session: Session) -> Observation:
    """Messages that only a deleted consumer wanted go with it."""
    js = interested(session, "INTDELETE", "C", "D")
    js.fill(*("INTDELETE",) * 4)
    received = fetch(js, "INTDELETE", "D", 2)
    ack(js, received[1])
    delete_consumer(js, "INTDELETE", "C")
    return [kept(js, "INTDELETE"), progress_of(js, "INTDELETE", "D")]


@catalogue.case("js.interest.deleted-last")
def deleted_last(session: Session) -> Observation:
    """With the last consumer everything goes, and nothing is kept from then on."""
    js = interested(session, "INTLAST", "C")
    js.fill(*("INTLAST",) * 3)
    delete_consumer(js, "INTLAST", "C")
    before = kept_in_time(js, "INTLAST", 0)
    js.fill("INTLAST")
    return [before, js.state("INTLAST")]


@catalogue.case("js.interest.ephemeral")
def ephemeral(session: Session) -> Observation:
    """Messages that only an ephemeral wanted go when it leaves."""
    js = interested(session, "INTEPH", "C", config={"filter_subject": "INTEPH.a"})
    inbox = listener(session, target("INTEPH"))
    config = {"deliver_subject": target("INTEPH"), "ack_policy": "explicit"}
    create_consumer(js, "INTEPH", "E", inactive_threshold=SHORT_NS, **config)
    js.fill("INTEPH.a", "INTEPH.b")
    before = kept(js, "INTEPH")
    inbox.leave()
    return [before, kept_in_time(js, "INTEPH", 1)]


# --- limits and other removals ------------------------------------------------------------------


@catalogue.case("js.interest.max-msgs")
def max_msgs(session: Session) -> Observation:
    """Limits also remove messages that a consumer wants."""
    js = interested(session, "INTLIMIT", "C", max_msgs=3)
    js.fill(*("INTLIMIT",) * 5)
    consumer_info_when(js, "INTLIMIT", "C", num_pending=3)
    return [kept(js, "INTLIMIT"), seen(fetch(js, "INTLIMIT", "C", 3))]


@catalogue.case("js.interest.discard-new")
def discard_new(session: Session) -> Observation:
    """In a full stream that discards new messages, an ack makes room."""
    js = interested(session, "INTFULL", "C", max_msgs=2, discard="new")
    acks = [js.ack_text("INTFULL", "x") for _ in range(3)]
    ack(js, *fetch(js, "INTFULL", "C"))
    return [acks, js.ack_text("INTFULL", "x")]


@catalogue.case("js.interest.discard-new-nobody")
def discard_new_nobody(session: Session) -> Observation:
    """A message that no consumer wants is not kept, and so a full stream does not refuse it."""
    js = interested(
        session,
        "INTFULLNOT",
        "C",
        config={"filter_subject": "INTFULLNOT.a"},
        max_msgs=1,
        discard="new",
    )
    return [js.ack_text(f"INTFULLNOT.{name}", "x") for name in "abab"]


@catalogue.case("js.interest.purge")
def purge(session: Session) -> Observation:
    """A purge takes messages that are wanted, also those that wait for acks."""
    js = interested(session, "INTPURGE", "C")
    js.fill(*("INTPURGE",) * 3)
    received = fetch(js, "INTPURGE", "C", 2)
    js.api("STREAM.PURGE.INTPURGE")
    late = js.request(received[0].reply, "+ACK")
    return [kept(js, "INTPURGE"), progress_of(js, "INTPURGE"), late]


@catalogue.case("js.interest.to-limits")
def to_limits(session: Session) -> Observation:
    """A stream that changes to limits keeps messages acked from then on."""
    js = interested(session, "INTTOLIMITS", "C")
    js.fill(*("INTTOLIMITS",) * 3)
    received = fetch(js, "INTTOLIMITS", "C", 3)
    ack(js, received[0])
    changed: Reply = js.update("INTTOLIMITS", retention="limits")
    ack(js, received[1])
    return [changed["config"]["retention"], kept(js, "INTTOLIMITS")]


@catalogue.case("js.interest.from-limits")
def from_limits(session: Session) -> Observation:
    """A stream that changes to interest drops the messages that all its consumers acked before."""
    js = with_stream(session, "INTFROMLIMITS")
    new_durable(js, "INTFROMLIMITS", "C", ack_wait=LONG_NS)
    js.fill(*("INTFROMLIMITS",) * 4)
    received = fetch(js, "INTFROMLIMITS", "C", 3)
    ack(js, received[0], received[1])
    js.update("INTFROMLIMITS", retention="interest")
    before = kept_in_time(js, "INTFROMLIMITS", 2)
    ack(js, received[2])
    return [before, kept(js, "INTFROMLIMITS")]
