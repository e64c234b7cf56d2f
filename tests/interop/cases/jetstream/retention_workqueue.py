"""Work queues: each message for one consumer, and gone when it was acked."""

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_push import (
    LONG_NS,
    SHORT_NS,
    listener,
    messages,
    progress_of,
    target,
    until_idle,
)
from tests.interop.cases.jetstream.retention_interest import kept, kept_in_time
from tests.interop.consumers import (
    SECOND_NS,
    Delivery,
    ack,
    consumer_info_when,
    create_consumer,
    delete_consumer,
    fetch,
    info_until,
    new_durable,
    seen,
)
from tests.interop.jetstream import JETSTREAM, JetStreamClient
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

TERMINATED = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED."

catalogue = Catalogue(JETSTREAM)


def queue(
    session: Session, stream: str, count: int = 0, **stream_config: object
) -> JetStreamClient:
    """A new work queue with so many messages and one consumer."""
    js = with_stream(session, stream, retention="workqueue", **stream_config)
    js.fill(*(stream,) * count)
    new_durable(js, stream, "C", ack_wait=LONG_NS)
    return js


def sequences(deliveries: list[Delivery]) -> list[list[str]]:
    """The delivery counts and sequences: all that is promised of redeliveries."""
    return [each.reply.split(".")[4:6] for each in deliveries if not each.is_status]


# --- consumers that a queue may have ------------------------------------------------------------


def refused(js: JetStreamClient, stream: str, name: str = "D", **config: object) -> Observation:
    """The error of a consumer that cannot be made, or "made" without an error."""
    outcome: Observation = create_consumer(js, stream, name, durable_name=name, **config).get(
        "error", "made"
    )
    return outcome


@catalogue.case("js.queue.one-consumer")
def one_consumer(session: Session) -> Observation:
    """Beside a consumer of everything there is no room for another, with a filter or without."""
    js = queue(session, "WQONE")
    config = {"ack_policy": "explicit"}
    return [
        refused(js, "WQONE", **config),
        refused(js, "WQONE", filter_subject="WQONE.a", **config),
        refused(js, "WQONE", filter_subjects=["WQONE.a", "WQONE.b"], **config),
    ]


@catalogue.case("js.queue.filters")
def filters(session: Session) -> Observation:
    """Consumers whose filters have no subject in common stand beside each other."""
    js = with_stream(session, "WQFILTER", retention="workqueue")
    new_durable(js, "WQFILTER", "C", filter_subjects=["WQFILTER.a.*", "WQFILTER.b"])
    config = {"ack_policy": "explicit"}
    tried = ("WQFILTER.b", "WQFILTER.*", "WQFILTER.a.x", "WQFILTER.>", "WQFILTER.*.x", "WQFILTER.c")
    outcomes = {each: refused(js, "WQFILTER", filter_subject=each, **config) for each in tried}
    return [outcomes, refused(js, "WQFILTER", "E", **config)]


@catalogue.case("js.queue.policies")
def policies(session: Session) -> Observation:
    """A consumer of a work queue acks each message and begins with the first."""
    js = with_stream(session, "WQPOLICY", retention="workqueue")
    push = {"deliver_subject": target("WQPOLICY")}
    return [
        refused(js, "WQPOLICY", ack_policy="none"),
        refused(js, "WQPOLICY", ack_policy="none", **push),
        refused(js, "WQPOLICY", ack_policy="all"),
        refused(js, "WQPOLICY", ack_policy="all", **push),
        refused(js, "WQPOLICY", ack_policy="explicit", deliver_policy="new"),
        refused(js, "WQPOLICY", ack_policy="explicit", deliver_policy="last"),
        refused(js, "WQPOLICY", ack_policy="all", deliver_policy="new"),
    ]


@catalogue.case("js.queue.same-again")
def same_again(session: Session) -> Observation:
    """A consumer may be asked for again with an equal configuration."""
    js = queue(session, "WQSAME")
    first = create_consumer(js, "WQSAME", "C", durable_name="C", ack_policy="explicit")
    return [first.get("error", "made"), js.state("WQSAME")["consumer_count"]]


@catalogue.case("js.queue.filter-update")
def filter_update(session: Session) -> Observation:
    """A change of filters must not reach into those of another consumer."""
    js = with_stream(session, "WQUPDATE", retention="workqueue")
    for consumer, name in (("C", "a"), ("D", "b")):
        new_durable(js, "WQUPDATE", consumer, filter_subject=f"WQUPDATE.{name}")
    js.fill(*(f"WQUPDATE.{name}" for name in "abc"))
    outcomes = []
    for filter_subject in ("WQUPDATE.b", "WQUPDATE.>", "WQUPDATE.c"):
        reply = create_consumer(
            js,
            "WQUPDATE",
            "C",
            durable_name="C",
            ack_policy="explicit",
            filter_subject=filter_subject,
        )
        outcomes.append(reply.get("error", reply.get("num_pending")))
    return [outcomes, sequences(fetch(js, "WQUPDATE", "C", 3)), kept(js, "WQUPDATE")]


@catalogue.case("js.queue.filter-removed")
def filter_removed(session: Session) -> Observation:
    """A consumer may lose its filter, even beside another."""
    js = with_stream(session, "WQUNFILTER", retention="workqueue")
    for consumer, name in (("C", "a"), ("D", "b")):
        new_durable(js, "WQUNFILTER", consumer, filter_subject=f"WQUNFILTER.{name}")
    changed = create_consumer(js, "WQUNFILTER", "C", durable_name="C", ack_policy="explicit")
    return changed.get("error", changed.get("config"))


# --- acks ---------------------------------------------------------------------------------------


@catalogue.case("js.queue.ack")
def acked(session: Session) -> Observation:
    """A message is gone when its ack is answered."""
    js = queue(session, "WQ", 3)
    received = fetch(js, "WQ", "C", 3)
    states = [kept(js, "WQ")]
    for number in (1, 0, 2):
        ack(js, received[number])
        states.append(kept(js, "WQ"))
    return [states, progress_of(js, "WQ")]


@catalogue.case("js.queue.kept")
def kept_without_consumer(session: Session) -> Observation:
    """Without a consumer messages wait for one."""
    js = with_stream(session, "WQKEPT", retention="workqueue")
    js.fill("WQKEPT.a", "WQKEPT.b")
    before = kept(js, "WQKEPT")
    new_durable(js, "WQKEPT", "C")
    return [before, seen(fetch(js, "WQKEPT", "C", 2))]


@catalogue.case("js.queue.unfiltered")
def unfiltered(session: Session) -> Observation:
    """A message that matches no filter stays."""
    js = with_stream(session, "WQREST", retention="workqueue")
    new_durable(js, "WQREST", "C", filter_subject="WQREST.a")
    js.fill("WQREST.a", "WQREST.b")
    ack(js, *fetch(js, "WQREST", "C"))
    return kept(js, "WQREST")


@catalogue.case("js.queue.double-ack")
def double_ack(session: Session) -> Observation:
    """The second ack of a message that is gone is answered too, and takes nothing."""
    js = queue(session, "WQTWICE", 2)
    received = fetch(js, "WQTWICE", "C")
    answers = [js.request(received[0].reply, "+ACK") for _ in range(2)]
    return [answers, kept(js, "WQTWICE"), progress_of(js, "WQTWICE")]


@catalogue.case("js.queue.nak")
def nak(session: Session) -> Observation:
    """A message with a NAK stays, and comes before those that have not been sent."""
    js = queue(session, "WQNAK", 3)
    received = fetch(js, "WQNAK", "C")
    ack(js, *received, body="-NAK")
    return [kept(js, "WQNAK"), seen(fetch(js, "WQNAK", "C", 2))]


@catalogue.case("js.queue.term")
def term(session: Session) -> Observation:
    """A terminated message is gone as if it were acked."""
    js = queue(session, "WQTERM", 2)
    ack(js, *fetch(js, "WQTERM", "C"), body="+TERM broken")
    return [kept(js, "WQTERM"), progress_of(js, "WQTERM")]


@catalogue.case("js.queue.in-progress")
def in_progress(session: Session) -> Observation:
    """A message that is worked on stays; an ack that asks for the next one takes it."""
    js = queue(session, "WQNEXT", 3)
    received = fetch(js, "WQNEXT", "C")
    ack(js, *received, body="+WPI")
    before = kept(js, "WQNEXT")
    inbox = listener(session, "next.WQNEXT")
    inbox.wire.send(f"PUB {received[0].reply} next.WQNEXT 4\r\n+NXT\r\n")
    following = inbox.next().seen
    return [before, following, kept_in_time(js, "WQNEXT", 2)]


@catalogue.case("js.queue.max-deliver")
def max_deliver(session: Session) -> Observation:
    """A message sent as often as is allowed stays and is not sent again."""
    js = with_stream(session, "WQMAX", retention="workqueue")
    js.fill("WQMAX.a", "WQMAX.b")
    new_durable(js, "WQMAX", "C", ack_wait=SHORT_NS, max_deliver=1)
    fetch(js, "WQMAX", "C")
    given_up = info_until(js, "WQMAX", "C", lambda info: info["num_ack_pending"] == 0)
    ack(js, *(following := fetch(js, "WQMAX", "C")))
    return [given_up["num_redelivered"], sequences(following), kept(js, "WQMAX")]


@catalogue.case("js.queue.push")
def push(session: Session) -> Observation:
    """A work queue may be pushed to a group, and the members' acks take the messages."""
    js = with_stream(session, "WQPUSH", retention="workqueue")
    js.fill(*("WQPUSH",) * 4)
    inbox = listener(session, target("WQPUSH"), "workers")
    config = {"deliver_subject": target("WQPUSH"), "deliver_group": "workers"}
    new_durable(js, "WQPUSH", "C", ack_wait=LONG_NS, **config)
    received = messages(inbox, 4)
    ack(js, received[1], received[3])
    return [seen(received), kept(js, "WQPUSH")]


# --- consumers that leave -----------------------------------------------------------------------


@catalogue.case("js.queue.deleted")
def deleted(session: Session) -> Observation:
    """A deleted consumer takes no message with it; one made after it gets all of them again."""
    js = queue(session, "WQDELETE", 4)
    received = fetch(js, "WQDELETE", "C", 3)
    ack(js, received[1])
    delete_consumer(js, "WQDELETE", "C")
    before = kept(js, "WQDELETE")
    made = new_durable(js, "WQDELETE", "C", ack_wait=LONG_NS)
    return [before, made["num_pending"], seen(fetch(js, "WQDELETE", "C", 3))]


@catalogue.case("js.queue.late-ack")
def late_ack(session: Session) -> Observation:
    """An ack meant for the consumer before counts for that of the same name, if it sent it too."""
    js = queue(session, "WQLATE", 2)
    received = fetch(js, "WQLATE", "C", 2)
    delete_consumer(js, "WQLATE", "C")
    new_durable(js, "WQLATE", "C", ack_wait=LONG_NS)
    again = fetch(js, "WQLATE", "C")
    ack(js, received[0])
    return [sequences(again), kept(js, "WQLATE"), progress_of(js, "WQLATE")]


@catalogue.case("js.queue.ephemeral")
def ephemeral(session: Session) -> Observation:
    """An ephemeral that leaves makes room for another consumer; its messages stay."""
    js = with_stream(session, "WQEPH", retention="workqueue")
    js.fill("WQEPH.a", "WQEPH.b")
    inbox = listener(session, target("WQEPH"))
    config = {"deliver_subject": target("WQEPH"), "ack_policy": "explicit"}
    create_consumer(js, "WQEPH", "E", inactive_threshold=SHORT_NS, **config)
    received = messages(inbox, 2)
    ack(js, received[0])
    inbox.leave()
    info_until(js, "WQEPH", "E", lambda info: "error" in info)
    new_durable(js, "WQEPH", "C")
    return [kept(js, "WQEPH"), seen(fetch(js, "WQEPH", "C"))]


# --- removals under a consumer ------------------------------------------------------------------


@catalogue.case("js.queue.delete-pending")
def delete_pending(session: Session) -> Observation:
    """A message that is deleted while it waits for its ack is terminated, with an advisory."""
    js = queue(session, "WQGONE", 3)
    watch = js.watch(session, f"{TERMINATED}>")
    received = fetch(js, "WQGONE", "C", 2)
    js.api("STREAM.MSG.DELETE.WQGONE", {"seq": 1})
    told = watch.take(1)
    state = consumer_info_when(js, "WQGONE", "C", num_ack_pending=1)["num_ack_pending"]
    ack(js, received[1])
    return [told, state, kept(js, "WQGONE"), progress_of(js, "WQGONE")]


@catalogue.case("js.queue.delete-waiting")
def delete_waiting(session: Session) -> Observation:
    """A message that is deleted before it was sent is skipped."""
    js = queue(session, "WQSKIP", 3)
    js.api("STREAM.MSG.DELETE.WQSKIP", {"seq": 2})
    return [progress_of(js, "WQSKIP"), seen(fetch(js, "WQSKIP", "C", 2))]


@catalogue.case("js.queue.purge")
def purge(session: Session) -> Observation:
    """A purge takes messages that wait for acks too; sequences of later ones go on."""
    js = queue(session, "WQPURGE", 3)
    received = fetch(js, "WQPURGE", "C", 2)
    js.api("STREAM.PURGE.WQPURGE")
    state = progress_of(js, "WQPURGE")
    late = js.request(received[0].reply, "+ACK")
    js.fill("WQPURGE")
    return [state, late, seen(fetch(js, "WQPURGE", "C")), progress_of(js, "WQPURGE")]


@catalogue.case("js.queue.purge-filter")
def purge_filter(session: Session) -> Observation:
    """A purge of one subject leaves messages that wait for acks on others."""
    js = with_stream(session, "WQPART", retention="workqueue")
    js.fill(*(f"WQPART.{name}" for name in "abab"))
    new_durable(js, "WQPART", "C", ack_wait=LONG_NS)
    received = fetch(js, "WQPART", "C", 3)
    js.api("STREAM.PURGE.WQPART", {"filter": "WQPART.a"})
    state = consumer_info_when(js, "WQPART", "C", num_ack_pending=1)
    ack(js, received[1])
    return [state["num_ack_pending"], state["num_pending"], kept(js, "WQPART")]


@catalogue.case("js.queue.max-msgs")
def max_msgs(session: Session) -> Observation:
    """A limit takes the oldest message, even if it waits for its ack, which terminates it."""
    js = queue(session, "WQLIMIT", 3, max_msgs=3)
    watch = js.watch(session, f"{TERMINATED}>")
    received = fetch(js, "WQLIMIT", "C", 2)
    js.fill("WQLIMIT")
    told = watch.take(1)
    info = consumer_info_when(js, "WQLIMIT", "C", num_ack_pending=1, num_pending=2)
    ack(js, received[0])
    return [told, [info["num_ack_pending"], info["num_pending"]], kept(js, "WQLIMIT")]


@catalogue.case("js.queue.discard-new")
def discard_new(session: Session) -> Observation:
    """A full queue that refuses takes more when a message was acked, not when it was sent."""
    js = queue(session, "WQFULL", max_msgs=2, discard="new")
    acks = [js.ack_text("WQFULL", "x") for _ in range(3)]
    received = fetch(js, "WQFULL", "C", 2)
    acks.append(js.ack_text("WQFULL", "x"))
    ack(js, received[0])
    return [*acks, js.ack_text("WQFULL", "x"), kept(js, "WQFULL")]


@catalogue.case("js.queue.max-age")
def max_age(session: Session) -> Observation:
    """A message that grows too old goes, sent or not."""
    js = queue(session, "WQAGE", max_age=SECOND_NS)
    js.fill("WQAGE.a", "WQAGE.b")
    received = sequences(fetch(js, "WQAGE", "C"))
    left = kept_in_time(js, "WQAGE", 0)
    info = consumer_info_when(js, "WQAGE", "C", num_ack_pending=0, num_pending=0)
    return [received, left, [info["num_ack_pending"], info["num_pending"]]]


@catalogue.case("js.queue.per-subject")
def per_subject(session: Session) -> Observation:
    """A message that the limit of a subject removes before its delivery is never sent."""
    js = with_stream(session, "WQSUBJECT", retention="workqueue", max_msgs_per_subject=1)
    new_durable(js, "WQSUBJECT", "C")
    js.fill(*(f"WQSUBJECT.{name}" for name in "abab"))
    info = consumer_info_when(js, "WQSUBJECT", "C", num_pending=2)
    return [info["num_pending"], seen(fetch(js, "WQSUBJECT", "C", 2))]


@catalogue.case("js.queue.retention-fixed")
def retention_fixed(session: Session) -> Observation:
    """A work queue stays one, and nothing else becomes one."""
    js = with_stream(session, "WQFIXED", retention="workqueue")
    first = js.update("WQFIXED", retention="limits")["error"]
    js = with_stream(session, "WQFIXED", retention="interest")
    return [first, js.update("WQFIXED", retention="workqueue")["error"]]


@catalogue.case("js.queue.redelivery")
def redelivery(session: Session) -> Observation:
    """A message that is not acked in time is sent again, but not after its ack."""
    js = with_stream(session, "WQAGAIN", retention="workqueue")
    inbox = listener(session, target("WQAGAIN"))
    config = {"deliver_subject": target("WQAGAIN"), "idle_heartbeat": SHORT_NS // 2}
    new_durable(js, "WQAGAIN", "C", ack_wait=SHORT_NS, **config)
    js.fill("WQAGAIN")
    received = messages(inbox, 2)
    ack(js, received[0])
    return [sequences(received), kept(js, "WQAGAIN"), seen(until_idle(inbox))]
