"""The exact number of messages that a consumer has before it, whatever happens to the stream.

The oracle counts a publish a moment after its ack. So a script waits for the count that a scan
of the stream gives, and only then goes on; a count that never comes is shown as it is.
"""

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_push import LONG_NS, progress, progress_of, target
from tests.interop.consumers import (
    SECOND_NS,
    ack,
    consumer_info,
    consumer_info_when,
    create_consumer,
    fetch,
    new_durable,
    shown,
)
from tests.interop.jetstream import (
    ACCOUNTS,
    JETSTREAM,
    JetStreamClient,
    jetstream,
    login,
    with_moments,
)
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def counting(session: Session, stream: str, *names: str, **config: object) -> JetStreamClient:
    """A new stream with a message for each name, and a durable with what matches before it."""
    js = with_stream(session, stream)
    js.fill(*(f"{stream}.{name}" for name in names))
    new_durable(js, stream, "C", ack_wait=LONG_NS, **config)
    return js


def pending(js: JetStreamClient, stream: str, count: int, consumer: str = "C") -> Observation:
    """The count of a consumer once it is this one."""
    seen: int = consumer_info_when(js, stream, consumer, num_pending=count)["num_pending"]
    return seen


def add(js: JetStreamClient, stream: str, *names: str) -> None:
    js.fill(*(f"{stream}.{name}" for name in names))


# --- publishing and sending ---------------------------------------------------------------------


@catalogue.case("js.pending.publish")
def publish(session: Session) -> Observation:
    """A publish adds one, a message that is sent takes one, an ack none."""
    js = counting(session, "PEND", "a", "b")
    add(js, "PEND", "c", "d")
    counts = [pending(js, "PEND", 4)]
    received = fetch(js, "PEND", "C", 3)
    counts.append(pending(js, "PEND", 1))
    ack(js, *received)
    return [*counts, pending(js, "PEND", 1)]


@catalogue.case("js.pending.redelivery")
def redelivery(session: Session) -> Observation:
    """A message with a NAK is not pending again."""
    js = counting(session, "PENDNAK", "a", "b")
    ack(js, *fetch(js, "PENDNAK", "C"), body="-NAK")
    before = progress_of(js, "PENDNAK")
    fetch(js, "PENDNAK", "C")
    return [before, progress_of(js, "PENDNAK")]


@catalogue.case("js.pending.filter")
def filtered(session: Session) -> Observation:
    """Only matching messages are counted; wildcards match as they do in subscriptions."""
    names = ("a", "a.1", "a.2", "b.1", "a.1.x")
    js = counting(session, "PENDFILTER", *names)
    filters = ("a", "a.*", "a.>", "*.1", ">", "c")
    for number, each in enumerate(filters):
        new_durable(js, "PENDFILTER", f"F{number}", filter_subject=f"PENDFILTER.{each}")
    before = [consumer_info(js, "PENDFILTER", f"F{n}")["num_pending"] for n in range(len(filters))]
    add(js, "PENDFILTER", *names)
    after = [
        pending(js, "PENDFILTER", 2 * count, f"F{number}") for number, count in enumerate(before)
    ]
    return [before, after]


@catalogue.case("js.pending.filters")
def several_filters(session: Session) -> Observation:
    """Messages that match one of several filters are counted once each."""
    names = ("a", "b.1", "b.2", "c", "d")
    filters = [f"PENDFILTERS.{each}" for each in ("a", "b.*", "d")]
    js = counting(session, "PENDFILTERS", *names, filter_subjects=filters)
    before = progress_of(js, "PENDFILTERS")
    add(js, "PENDFILTERS", *names)
    return [before, pending(js, "PENDFILTERS", 8)]


@catalogue.case("js.pending.per-subject")
def last_per_subject(session: Session) -> Observation:
    """By last per subject, the subjects are counted, and then every message that comes."""
    js = counting(
        session,
        "PENDLAST",
        *"abacaba",
        deliver_policy="last_per_subject",
        filter_subject="PENDLAST.>",
    )
    counts = [pending(js, "PENDLAST", 3)]
    fetch(js, "PENDLAST", "C", 2)
    counts.append(pending(js, "PENDLAST", 1))
    add(js, "PENDLAST", "a", "d")
    return [*counts, pending(js, "PENDLAST", 3)]


@catalogue.case("js.pending.start")
def start(session: Session) -> Observation:
    """Messages before the start of a consumer are not counted."""
    js = counting(session, "PENDSTART", *"abcdef")
    starts = ({"opt_start_seq": 4}, {"opt_start_seq": 6}, {"opt_start_seq": 1})
    return [
        create_consumer(js, "PENDSTART", f"S{number}", deliver_policy="by_start_sequence", **each)[
            "num_pending"
        ]
        for number, each in enumerate(starts)
    ]


# --- removals -----------------------------------------------------------------------------------


@catalogue.case("js.pending.delete")
def delete(session: Session) -> Observation:
    """A message that is deleted before it was sent is not counted any more; one after it is."""
    js = counting(session, "PENDDEL", *"abcde")
    fetch(js, "PENDDEL", "C", 2)
    counts = []
    for seq in (4, 1, 3):
        js.api("STREAM.MSG.DELETE.PENDDEL", {"seq": seq})
        counts.append(consumer_info(js, "PENDDEL", "C")["num_pending"])
    return [counts, [each.seen for each in fetch(js, "PENDDEL", "C", 1)]]


@catalogue.case("js.pending.delete-filtered")
def delete_filtered(session: Session) -> Observation:
    """A message that does not match was not counted, and is not when it is deleted."""
    js = counting(session, "PENDDELF", *"abab", filter_subject="PENDDELF.a")
    counts = []
    for seq in (2, 3):
        js.api("STREAM.MSG.DELETE.PENDDELF", {"seq": seq})
        counts.append(consumer_info(js, "PENDDELF", "C")["num_pending"])
    return counts


@catalogue.case("js.pending.purge")
def purge(session: Session) -> Observation:
    """After a purge nothing is pending, and counting goes on from there."""
    js = counting(session, "PENDPURGE", *"abcd")
    fetch(js, "PENDPURGE", "C")
    js.api("STREAM.PURGE.PENDPURGE")
    before = progress_of(js, "PENDPURGE")
    add(js, "PENDPURGE", "a")
    return [before, pending(js, "PENDPURGE", 1)]


@catalogue.case("js.pending.purge-sequence")
def purge_sequence(session: Session) -> Observation:
    """A purge up to a sequence takes the messages before it."""
    js = counting(session, "PENDPURGES", *"abcdef")
    js.api("STREAM.PURGE.PENDPURGES", {"seq": 4})
    pending(js, "PENDPURGES", 3)
    return [progress_of(js, "PENDPURGES"), [one.seen for one in fetch(js, "PENDPURGES", "C")]]


@catalogue.case("js.pending.purge-keep")
def purge_keep(session: Session) -> Observation:
    """A purge that keeps some leaves those pending."""
    js = counting(session, "PENDKEEP", *"abcdef")
    js.api("STREAM.PURGE.PENDKEEP", {"keep": 2})
    pending(js, "PENDKEEP", 2)
    return progress_of(js, "PENDKEEP")


@catalogue.case("js.pending.rollup")
def rollup(session: Session) -> Observation:
    """A roll-up takes the messages before it, and is pending itself."""
    js = with_stream(session, "PENDROLL", allow_rollup_hdrs=True)
    add(js, "PENDROLL", *"abab")
    new_durable(js, "PENDROLL", "C")
    js.publish("PENDROLL.a", "r", {"Nats-Rollup": "sub"})
    by_subject = pending(js, "PENDROLL", 3)
    js.publish("PENDROLL.b", "r", {"Nats-Rollup": "all"})
    return [by_subject, pending(js, "PENDROLL", 1)]


@catalogue.case("js.pending.subject-limit")
def subject_limit(session: Session) -> Observation:
    """A message that the limit of a subject removes is not pending."""
    js = with_stream(session, "PENDSUB", max_msgs_per_subject=2)
    add(js, "PENDSUB", *"aabb")
    new_durable(js, "PENDSUB", "C")
    new_durable(js, "PENDSUB", "F", filter_subject="PENDSUB.a")
    add(js, "PENDSUB", *"aac")
    return [pending(js, "PENDSUB", 5), pending(js, "PENDSUB", 2, "F")]


@catalogue.case("js.pending.max-msgs")
def max_msgs(session: Session) -> Observation:
    """A message that the limit of the stream removes is not pending."""
    js = with_stream(session, "PENDMAX", max_msgs=3)
    new_durable(js, "PENDMAX", "C")
    add(js, "PENDMAX", *"abcde")
    pending(js, "PENDMAX", 3)
    return progress_of(js, "PENDMAX")


@catalogue.case("js.pending.max-msgs-update")
def max_msgs_update(session: Session) -> Observation:
    """A message that a lower limit removes is not pending."""
    js = counting(session, "PENDLOWER", *"abcde")
    js.update("PENDLOWER", max_msgs=2)
    pending(js, "PENDLOWER", 2)
    return progress_of(js, "PENDLOWER")


@catalogue.case("js.pending.age")
def age(session: Session) -> Observation:
    """A message that has grown too old is not pending."""
    js = with_stream(session, "PENDAGE", max_age=SECOND_NS)
    new_durable(js, "PENDAGE", "C")
    add(js, "PENDAGE", *"abc")
    before = pending(js, "PENDAGE", 3)
    return [before, pending(js, "PENDAGE", 0)]


@catalogue.case("js.pending.ttl")
def ttl(session: Session) -> Observation:
    """A message that its own time to live removes is not pending."""
    js = with_stream(session, "PENDTTL", allow_msg_ttl=True)
    new_durable(js, "PENDTTL", "C")
    add(js, "PENDTTL", "a")
    js.publish("PENDTTL.b", "x", {"Nats-TTL": "1s"})
    before = pending(js, "PENDTTL", 2)
    return [before, pending(js, "PENDTTL", 1)]


# --- changes ------------------------------------------------------------------------------------


@catalogue.case("js.pending.filter-update")
def filter_update(session: Session) -> Observation:
    """After a change of filters, the messages that have not been sent are counted again."""
    js = counting(session, "PENDNEW", *"abcabc", filter_subject="PENDNEW.a")
    fetch(js, "PENDNEW", "C")
    counts = []
    for each in (["b"], ["b", "c"], ["*"], ["z"], ["a"]):
        filters = [f"PENDNEW.{name}" for name in each]
        changed = new_durable(js, "PENDNEW", "C", ack_wait=LONG_NS, filter_subjects=filters)
        counts.append(changed["num_pending"])
    return counts


@catalogue.case("js.pending.filter-removed")
def filter_removed(session: Session) -> Observation:
    """Without its filter a consumer counts everything that has not been sent."""
    js = counting(session, "PENDALL", *"abab", filter_subject="PENDALL.a")
    changed = new_durable(js, "PENDALL", "C", ack_wait=LONG_NS)
    return [changed["num_pending"], [one.seen for one in fetch(js, "PENDALL", "C", 4)]]


@catalogue.case("js.pending.unheard")
def unheard(session: Session) -> Observation:
    """A push consumer without listeners counts as any other."""
    js = counting(session, "PENDPUSH", deliver_subject=target("PENDPUSH"))
    add(js, "PENDPUSH", *"abc")
    js.api("STREAM.MSG.DELETE.PENDPUSH", {"seq": 2})
    pending(js, "PENDPUSH", 2)
    return progress_of(js, "PENDPUSH")


# --- where else consumers are counted -----------------------------------------------------------


@catalogue.case("js.pending.consumer-count")
def consumer_count(session: Session) -> Observation:
    """The state of a stream counts its consumers, in INFO and in the list."""
    js = counting(session, "PENDCOUNT", "a")
    counts = [js.state("PENDCOUNT")["consumer_count"]]
    create_consumer(js, "PENDCOUNT", "E")
    counts.append(js.state("PENDCOUNT")["consumer_count"])
    listed = js.api("STREAM.LIST", {"subject": "PENDCOUNT"})["streams"]
    counts += [each["state"]["consumer_count"] for each in listed]
    for name in ("C", "E"):
        js.api(f"CONSUMER.DELETE.PENDCOUNT.{name}")
        counts.append(js.state("PENDCOUNT")["consumer_count"])
    return counts


@catalogue.case("js.pending.account", setup=ACCOUNTS, own_server=True)
def account(session: Session) -> Observation:
    """The account counts the consumers of all its streams."""
    js = jetstream(session, **login("plain"))
    for stream in ("ONE", "TWO"):
        js.create(stream)
        new_durable(js, stream, "C")
    new_durable(js, "TWO", "D")
    before = js.api("INFO")
    js.api("STREAM.DELETE.TWO")
    return [before, js.api("INFO")["consumers"]]


@catalogue.case("js.pending.jsz", own_server=True)
def jsz(session: Session) -> Observation:
    """The monitoring page shows consumers as INFO does, with their configuration if asked."""
    js = counting(session, "PENDJSZ", *"abc", filter_subject="PENDJSZ.*")
    new_durable(js, "PENDJSZ", "D", deliver_subject=target("PENDJSZ"))
    ack(js, *fetch(js, "PENDJSZ", "C", 2)[:1])
    queries = ("consumers=true", "consumers=true&config=true")
    return {query: _consumers_on(session, f"/jsz?{query}") for query in queries}


def _consumers_on(session: Session, path: str) -> Observation:
    """The consumers on the page, by name, and the number that it counts."""
    page = session.get(path)["jsz"]
    stream = page["account_details"][0]["stream_detail"][0]
    details = {each["name"]: shown(with_moments(each)) for each in stream["consumer_detail"]}
    return {"consumers": page["consumers"], "state": stream["state"]["consumer_count"], **details}


@catalogue.case("js.pending.made")
def made(session: Session) -> Observation:
    """The reply to the creation of a consumer has the count of messages before it."""
    js = counting(session, "PENDMADE", *"abab")
    config = {"durable_name": "D", "ack_policy": "explicit", "filter_subject": "PENDMADE.b"}
    first = create_consumer(js, "PENDMADE", "D", **config)
    fetch(js, "PENDMADE", "D")
    return [progress(first), progress(create_consumer(js, "PENDMADE", "D", **config))]
