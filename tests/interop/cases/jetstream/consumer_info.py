"""CONSUMER.INFO, NAMES and LIST, and where else consumers are counted and shown."""

import re

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.monitoring import page, part
from tests.interop.consumers import (
    MILLISECOND_NS,
    PAUSE_REMAINING,
    SECOND_NS,
    ack,
    consumer_info,
    consumer_info_when,
    create_consumer,
    delete_consumer,
    fetch,
    info_until,
    new_durable,
    receiver,
    shown,
)
from tests.interop.jetstream import ACCOUNTS, API, JETSTREAM, JetStreamClient, jetstream, login
from tests.interop.messages import restarted, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

LEVEL = "Nats-Required-Api-Level"
LIST_PAGE = 256


def filled(session: Session, stream: str, **config: object) -> JetStreamClient:
    """A client with a stream of four messages on three subjects, and a durable `C` of it."""
    js = with_stream(session, stream)
    js.fill(*(f"{stream}.{word}" for word in "abac"))
    new_durable(js, stream, "C", **config)
    return js


@catalogue.case("js.consumer.info.delivered")
def delivered(session: Session) -> Observation:
    """INFO has the last delivery with its time; a message is pending until it is acknowledged."""
    js = filled(session, "INFO-DELIVERED")
    fetch(js, "INFO-DELIVERED", "C", 2)
    return consumer_info(js, "INFO-DELIVERED", "C")


@catalogue.case("js.consumer.info.acked")
def acked(session: Session) -> Observation:
    """The floor of acks is below the first that is missing; above it only counts go down."""
    js = filled(session, "INFO-ACKED")
    first, second, third = fetch(js, "INFO-ACKED", "C", 3)
    told = []
    for message, pending in ((second, 2), (first, 1), (third, 0)):
        ack(js, message)
        told.append(consumer_info_when(js, "INFO-ACKED", "C", num_ack_pending=pending))
    return told


@catalogue.case("js.consumer.info.acked-all")
def acked_all(session: Session) -> Observation:
    """If an ack is for all messages before it, the floor is at its message."""
    js = filled(session, "INFO-ACKED-ALL", ack_policy="all")
    messages = fetch(js, "INFO-ACKED-ALL", "C", 3)
    ack(js, messages[1])
    return consumer_info_when(js, "INFO-ACKED-ALL", "C", num_ack_pending=1)


@catalogue.case("js.consumer.info.unacked")
def unacked(session: Session) -> Observation:
    """Without acks the floor is at the last delivery."""
    js = filled(session, "INFO-UNACKED", ack_policy="none")
    fetch(js, "INFO-UNACKED", "C", 3)
    return consumer_info(js, "INFO-UNACKED", "C")


@catalogue.case("js.consumer.info.memory")
def memory(session: Session) -> Observation:
    """A consumer in memory tells the same of itself."""
    js = filled(session, "INFO-MEMORY", mem_storage=True)
    messages = fetch(js, "INFO-MEMORY", "C", 3)
    ack(js, messages[0])
    return consumer_info_when(js, "INFO-MEMORY", "C", num_ack_pending=2)


@catalogue.case("js.consumer.info.redelivered")
def redelivered(session: Session) -> Observation:
    """A message delivered again is counted as such until it is acknowledged."""
    js = filled(session, "INFO-REDELIVERED")
    (message,) = fetch(js, "INFO-REDELIVERED", "C")
    ack(js, message, body="-NAK")
    (repeated,) = fetch(js, "INFO-REDELIVERED", "C", expires=4 * SECOND_NS)
    before = consumer_info(js, "INFO-REDELIVERED", "C")
    ack(js, repeated)
    after = consumer_info_when(js, "INFO-REDELIVERED", "C", num_ack_pending=0)
    return {"repeated": repeated.seen, "before": before, "after": after}


@catalogue.case("js.consumer.info.filter")
def with_filter(session: Session) -> Observation:
    """With a filter the sequences are those of the stream, the counts those of the filter."""
    js = filled(session, "INFO-FILTER", filter_subject="INFO-FILTER.a")
    (message,) = fetch(js, "INFO-FILTER", "C")
    ack(js, message)
    before = consumer_info_when(js, "INFO-FILTER", "C", num_ack_pending=0)
    (message,) = fetch(js, "INFO-FILTER", "C")
    ack(js, message)
    return {
        "before": before,
        "after": consumer_info_when(js, "INFO-FILTER", "C", num_ack_pending=0),
    }


@catalogue.case("js.consumer.info.published")
def published(session: Session) -> Observation:
    """A published message is pending for the consumers whose filter matches it."""
    js = with_stream(session, "INFO-PUBLISHED")
    new_durable(js, "INFO-PUBLISHED", "ALL")
    new_durable(js, "INFO-PUBLISHED", "SOME", filter_subject="INFO-PUBLISHED.a")
    new_durable(
        js, "INFO-PUBLISHED", "TWO", filter_subjects=["INFO-PUBLISHED.a", "INFO-PUBLISHED.b"]
    )
    js.fill(*(f"INFO-PUBLISHED.{word}" for word in "abcab"))
    return [
        consumer_info_when(js, "INFO-PUBLISHED", name, num_pending=count)
        for name, count in (("ALL", 5), ("SOME", 2), ("TWO", 4))
    ]


@catalogue.case("js.consumer.info.waiting")
def waiting(session: Session) -> Observation:
    """A pull that waits is counted; it goes with its client."""
    js = with_stream(session, "INFO-WAITING")
    new_durable(js, "INFO-WAITING", "C")
    puller = receiver(session, "info.waiting")
    puller.pull("INFO-WAITING", "C", {"batch": 2, "expires": 60 * SECOND_NS})
    puller.pull("INFO-WAITING", "C", {"batch": 5, "expires": 60 * SECOND_NS})
    there = consumer_info_when(js, "INFO-WAITING", "C", num_waiting=2)
    puller.leave()
    gone = consumer_info_when(js, "INFO-WAITING", "C", num_waiting=0)
    return {"there": there, "gone": gone}


@catalogue.case("js.consumer.info.push-bound")
def push_bound(session: Session) -> Observation:
    """A push consumer is bound while its deliver subject has a subscription."""
    js = with_stream(session, "INFO-BOUND")
    new_durable(js, "INFO-BOUND", "C", deliver_subject="info.bound")
    listener = receiver(session, "info.bound")
    there = consumer_info_when(js, "INFO-BOUND", "C", push_bound=True)
    listener.leave()
    gone = consumer_info_when(js, "INFO-BOUND", "C", push_bound=None)
    return {"there": there, "gone": gone}


@catalogue.case("js.consumer.info.push-bound-group")
def push_bound_group(session: Session) -> Observation:
    """A push with a group is bound by its group alone."""
    js = with_stream(session, "INFO-GROUP")
    new_durable(js, "INFO-GROUP", "C", deliver_subject="info.group", deliver_group="workers")
    receiver(session, "info.group")
    receiver(session, "info.group", "others")
    alone = consumer_info(js, "INFO-GROUP", "C").get("push_bound")
    receiver(session, "info.group", "workers")
    return {"alone": alone, "bound": consumer_info_when(js, "INFO-GROUP", "C", push_bound=True)}


@catalogue.case("js.consumer.info.push-bound-wildcard")
def push_bound_wildcard(session: Session) -> Observation:
    """A wildcard subscription binds no push consumer, neither an earlier nor a later one."""
    js = with_stream(session, "INFO-WILDCARD")
    before = new_durable(js, "INFO-WILDCARD", "BEFORE", deliver_subject="info.wildcard.before")
    receiver(session, "info.wildcard.*")
    after = new_durable(js, "INFO-WILDCARD", "AFTER", deliver_subject="info.wildcard.after")
    names = ("BEFORE", "AFTER")
    return {
        "replies": [before.get("push_bound"), after.get("push_bound")],
        "info": [consumer_info(js, "INFO-WILDCARD", name).get("push_bound") for name in names],
    }


@catalogue.case("js.consumer.info.push-bound-early")
def push_bound_early(session: Session) -> Observation:
    """A push consumer with a subscription already there is bound in the reply to its creation."""
    js = with_stream(session, "INFO-EARLY")
    receiver(session, "info.early")
    return new_durable(js, "INFO-EARLY", "C", deliver_subject="info.early")


@catalogue.case("js.consumer.info.purged")
def purged(session: Session) -> Observation:
    """After a purge nothing is pending, and the consumer stands behind the purged messages."""
    js = filled(session, "INFO-PURGED")
    fetch(js, "INFO-PURGED", "C")
    js.api("STREAM.PURGE.INFO-PURGED")
    return info_until(
        js,
        "INFO-PURGED",
        "C",
        lambda info: info["num_ack_pending"] == 0 and info["ack_floor"]["stream_seq"] == 4,
    )


@catalogue.case("js.consumer.info.deleted-pending")
def deleted_pending(session: Session) -> Observation:
    """A message deleted before it was delivered is not pending any more."""
    js = filled(session, "INFO-DELETED")
    js.api("STREAM.MSG.DELETE.INFO-DELETED", {"seq": 2})
    return consumer_info_when(js, "INFO-DELETED", "C", num_pending=3)


@catalogue.case("js.consumer.info.expired-pending")
def expired_pending(session: Session) -> Observation:
    """A message that a limit of the stream pushed out is not pending any more."""
    js = with_stream(session, "INFO-EXPIRED", max_msgs=2)
    new_durable(js, "INFO-EXPIRED", "C")
    js.fill(*(f"INFO-EXPIRED.{word}" for word in "abcd"))
    return consumer_info_when(js, "INFO-EXPIRED", "C", num_pending=2)


@catalogue.case("js.consumer.info.bytes")
def info_bytes(session: Session) -> Observation:
    """INFO, byte for byte but for its times."""
    js = filled(session, "INFO-BYTES", priority_policy="overflow", priority_groups=["g"])
    (message,) = fetch(js, "INFO-BYTES", "C", group="g")
    ack(js, message)
    consumer_info_when(js, "INFO-BYTES", "C", num_ack_pending=0)
    frame = js.request_frame(f"{API}CONSUMER.INFO.INFO-BYTES.C")
    timeless = re.sub(r'"20[0-9]{2}-[0-9T:.-]+Z"', '"time"', frame.split("\r\n", 1)[1])
    return re.sub(r'"2\.15\.[0-9]+"', '"version"', timeless)


@catalogue.case("js.consumer.info.request")
def request(session: Session) -> Observation:
    """INFO takes no body, and says so before anything else; blanks and `{}` are none."""
    js = filled(session, "INFO-REQUEST")
    call = "CONSUMER.INFO.INFO-REQUEST"
    return {
        "body": js.api(f"{call}.C", "x"),
        "body before level": js.api(f"{call}.C", "x", {LEVEL: "99"}),
        "level": js.api(f"{call}.C", "", {LEVEL: "99"}),
        "level of none": js.api(f"{call}.NONE", "", {LEVEL: "99"}),
        "object": js.api(f"{call}.C", "{}").get("name"),
        "spaced object": js.api(f"{call}.C", " { } ").get("name"),
        "blank": js.api(f"{call}.C", " ").get("name"),
        "array": js.api(f"{call}.C", "[]").get("error"),
        "null": js.api(f"{call}.C", "null").get("error"),
    }


@catalogue.case("js.consumer.names.pages")
def names_pages(session: Session) -> Observation:
    """Names are sorted; an offset begins with any of them, and not past the end."""
    js = with_stream(session, "NAMES-PAGES")
    for name in ("b", "B", "a", "10", "9"):
        new_durable(js, "NAMES-PAGES", name)
    offsets = (None, 0, 1, 4, 5, 99, -1)
    return [
        js.api("CONSUMER.NAMES.NAMES-PAGES", None if offset is None else {"offset": offset})
        for offset in offsets
    ]


@catalogue.case("js.consumer.names.request")
def names_request(session: Session) -> Observation:
    """A page knows an offset only; what is no JSON object is passed by, as if it were not there."""
    js = with_stream(session, "NAMES-REQUEST")
    new_durable(js, "NAMES-REQUEST", "C")
    bodies = ('{"offset":"1"}', '{"limit":1}', '{"subject":"a"}', "[]", "{", "garbage", "1", " {}")
    return {
        call: {body: js.api(f"CONSUMER.{call}.NAMES-REQUEST", body).get("error") for body in bodies}
        for call in ("NAMES", "LIST")
    }


@catalogue.case("js.consumer.names.errors")
def names_errors(session: Session) -> Observation:
    """An error of a page has an empty page beside it."""
    js = with_stream(session, "NAMES-ERRORS")
    return {
        call: {
            "no stream": js.api(f"CONSUMER.{call}.NO-SUCH-STREAM"),
            "level": js.api(f"CONSUMER.{call}.NAMES-ERRORS", "", {LEVEL: "99"}),
            "body": js.api(f"CONSUMER.{call}.NAMES-ERRORS", {"offset": "1"}),
        }
        for call in ("NAMES", "LIST")
    }


@catalogue.case("js.consumer.list.whole")
def list_whole(session: Session) -> Observation:
    """A list has the INFO of each consumer, sorted by name, without the server's metadata."""
    js = filled(session, "LIST-WHOLE", metadata={"mine": "1"})
    new_durable(js, "LIST-WHOLE", "A", deliver_subject="list.whole")
    fetch(js, "LIST-WHOLE", "C")
    return {"list": shown(js.api("CONSUMER.LIST.LIST-WHOLE"))}


@catalogue.case("js.consumer.list.pages")
def list_pages(session: Session) -> Observation:
    """A list is cut like the names."""
    js = with_stream(session, "LIST-PAGES")
    for name in "cab":
        new_durable(js, "LIST-PAGES", name)
    replies = [js.api("CONSUMER.LIST.LIST-PAGES", {"offset": offset}) for offset in (0, 1, 3, 9)]
    return [
        {**reply, "consumers": [consumer["name"] for consumer in reply["consumers"]]}
        for reply in replies
    ]


@catalogue.case("js.consumer.list.many")
def list_many(session: Session) -> Observation:
    """A list has 256 consumers at most; names are 1024 to a page."""
    js = with_stream(session, "LIST-MANY", storage="memory")
    for number in range(LIST_PAGE + 2):
        new_durable(js, "LIST-MANY", f"C{number:04}", mem_storage=True)
    replies = [js.api("CONSUMER.LIST.LIST-MANY", {"offset": offset}) for offset in (0, LIST_PAGE)]
    names = js.api("CONSUMER.NAMES.LIST-MANY")
    return {
        "list": [
            [reply["total"], reply["offset"], reply["limit"], len(reply["consumers"])]
            for reply in replies
        ],
        "rest": [consumer["name"] for consumer in replies[1]["consumers"]],
        "names": [names["total"], names["limit"], len(names["consumers"])],
    }


@catalogue.case("js.consumer.count.stream")
def count_stream(session: Session) -> Observation:
    """A stream counts its consumers, in INFO, in the list, and in the reply to an update."""
    js = with_stream(session, "COUNTED")
    for name in "AB":
        new_durable(js, "COUNTED", name)
    delete_consumer(js, "COUNTED", "A")
    listed = js.api("STREAM.LIST", {"subject": "COUNTED"})["streams"]
    return {
        "info": js.state("COUNTED")["consumer_count"],
        "list": [stream["state"]["consumer_count"] for stream in listed],
        "update": js.update("COUNTED", max_msgs=7)["state"]["consumer_count"],
        "create": js.create("COUNTED", max_msgs=7)["state"]["consumer_count"],
    }


@catalogue.case("js.consumer.count.account", own_server=True)
def count_account(session: Session) -> Observation:
    """An account counts the consumers of all its streams, direct ones too."""
    js = jetstream(session)
    counts = []
    for name in ("ONE", "TWO"):
        js.create(name)
        new_durable(js, name, "C")
        counts.append(js.api("INFO")["consumers"])
    direct = {"direct": True, "deliver_subject": "count.account"}
    js.api("CONSUMER.CREATE.ONE.D", {"stream_name": "ONE", "config": direct})
    counts.append(js.api("INFO")["consumers"])
    delete_consumer(js, "ONE", "C")
    counts.append(js.api("INFO")["consumers"])
    js.api("STREAM.DELETE.TWO")
    counts.append(js.api("INFO")["consumers"])
    return counts


@catalogue.case("js.consumer.monitor.jsz", own_server=True)
def jsz(session: Session) -> Observation:
    """/jsz shows consumers below their streams, with their configurations when asked to."""
    js = filled(session, "SHOWN", metadata={"mine": "1"})
    fetch(js, "SHOWN", "C")
    queries = ("consumers=1", "consumers=1&config=1", "streams=1&config=1", "")
    return {query: shown(page(session, f"/jsz?{query}")) for query in queries}


@catalogue.case("js.consumer.monitor.jsz-direct", own_server=True)
def jsz_direct(session: Session) -> Observation:
    """/jsz counts direct consumers apart, and shows them when asked to."""
    js = filled(session, "SHOWN-DIRECT")
    direct = {"direct": True, "deliver_subject": "shown.direct"}
    js.api("CONSUMER.CREATE.SHOWN-DIRECT.D", {"stream_name": "SHOWN-DIRECT", "config": direct})
    queries = ("consumers=1", "direct-consumers=1", "consumers=1&direct-consumers=1")
    return {query: shown(page(session, f"/jsz?{query}")) for query in queries}


@catalogue.case("js.consumer.monitor.jsz-accounts", setup=ACCOUNTS, own_server=True)
def jsz_accounts(session: Session) -> Observation:
    """/jsz counts the consumers of all accounts together."""
    for user in ("plain", "other"):
        js = jetstream(session, **login(user))
        js.create("SHOWN")
        new_durable(js, "SHOWN", "C")
    return part(page(session, "/jsz"), "jsz", "consumers")


@catalogue.case("js.consumer.monitor.healthz", own_server=True)
def healthz(session: Session) -> Observation:
    """/healthz looks at one consumer of a stream, too."""
    filled(session, "HEALTHY")
    queries = (
        "account=$G&stream=HEALTHY&consumer=C",
        "account=$G&stream=HEALTHY&consumer=NONE",
        "account=$G&stream=NONE&consumer=C",
        "account=$G&consumer=C",
        "account=$G&stream=HEALTHY&consumer=NONE&details=1",
    )
    return {query: session.get(f"/healthz?{query}") for query in queries}


@catalogue.case("js.consumer.gone.stream-deleted")
def stream_deleted(session: Session) -> Observation:
    """With a stream its consumers go; a new stream of that name has none."""
    js = filled(session, "GONE-STREAM")
    js.api("STREAM.DELETE.GONE-STREAM")
    without = {
        call: js.api(f"CONSUMER.{call}")
        for call in ("INFO.GONE-STREAM.C", "NAMES.GONE-STREAM", "DELETE.GONE-STREAM.C")
    }
    js.create("GONE-STREAM")
    return {
        "without": without,
        "info": consumer_info(js, "GONE-STREAM", "C"),
        "names": js.api("CONSUMER.NAMES.GONE-STREAM"),
        "count": js.state("GONE-STREAM")["consumer_count"],
    }


@catalogue.case("js.consumer.gone.pull-inactive")
def pull_inactive(session: Session) -> Observation:
    """A consumer without pulls goes after its threshold, a durable too; one without it stays."""
    js = with_stream(session, "GONE-PULL")
    create_consumer(js, "GONE-PULL", "EPHEMERAL", inactive_threshold=50 * MILLISECOND_NS)
    new_durable(js, "GONE-PULL", "DURABLE", inactive_threshold=50 * MILLISECOND_NS)
    new_durable(js, "GONE-PULL", "STAYS")
    js.state_when("GONE-PULL", "consumer_count", 1)
    return js.api("CONSUMER.NAMES.GONE-PULL")


@catalogue.case("js.consumer.gone.push-inactive")
def push_inactive(session: Session) -> Observation:
    """A push consumer without listeners goes after its threshold; a bound one stays."""
    js = with_stream(session, "GONE-PUSH")
    receiver(session, "gone.push.heard")
    create_consumer(
        js,
        "GONE-PUSH",
        "HEARD",
        deliver_subject="gone.push.heard",
        inactive_threshold=100 * MILLISECOND_NS,
    )
    create_consumer(
        js,
        "GONE-PUSH",
        "UNHEARD",
        deliver_subject="gone.push.unheard",
        inactive_threshold=100 * MILLISECOND_NS,
    )
    js.state_when("GONE-PUSH", "consumer_count", 1)
    return js.api("CONSUMER.NAMES.GONE-PUSH")


@catalogue.case("js.consumer.gone.push-left")
def push_left(session: Session) -> Observation:
    """A push goes some time after the last listener has left."""
    js = with_stream(session, "GONE-LEFT")
    listener = receiver(session, "gone.left")
    create_consumer(
        js,
        "GONE-LEFT",
        "C",
        deliver_subject="gone.left",
        inactive_threshold=100 * MILLISECOND_NS,
    )
    before = js.state("GONE-LEFT")["consumer_count"]
    listener.leave()
    after = js.state_when("GONE-LEFT", "consumer_count", 0)["consumer_count"]
    return {"before": before, "after": after}


@catalogue.case("js.consumer.restart.durable", own_server=True)
def restart_durable(session: Session) -> Observation:
    """After a restart a durable is where it was, without the times it was last active."""
    js = filled(session, "RESTARTED", metadata={"mine": "1"})
    first, _, third = fetch(js, "RESTARTED", "C", 3)
    ack(js, first, third)
    before = consumer_info_when(js, "RESTARTED", "C", num_ack_pending=1)
    with restarted(session, JETSTREAM) as later:
        after = consumer_info(jetstream(later), "RESTARTED", "C")
    return {"before": before, "after": after, "same age": before["created"] == after["created"]}


@catalogue.case("js.consumer.restart.redelivered", own_server=True)
def restart_redelivered(session: Session) -> Observation:
    """After a restart the redelivered messages are known."""
    js = filled(session, "RESTARTED")
    (message,) = fetch(js, "RESTARTED", "C")
    ack(js, message, body="-NAK")
    fetch(js, "RESTARTED", "C", expires=4 * SECOND_NS)
    before = consumer_info(js, "RESTARTED", "C")
    with restarted(session, JETSTREAM) as later:
        after = consumer_info(jetstream(later), "RESTARTED", "C")
    return {"before": before, "after": after}


@catalogue.case("js.consumer.restart.kinds", own_server=True)
def restart_kinds(session: Session) -> Observation:
    """After a restart the consumers on disk are there, ephemerals too, and those in memory not."""
    js = with_stream(session, "RESTARTED")
    new_durable(js, "RESTARTED", "DISK")
    new_durable(js, "RESTARTED", "MEMORY", mem_storage=True)
    create_consumer(js, "RESTARTED", "EPHEMERAL", inactive_threshold=60 * SECOND_NS)
    create_consumer(
        js, "RESTARTED", "PUSH", deliver_subject="restarted", inactive_threshold=60 * SECOND_NS
    )
    with restarted(session, JETSTREAM) as later:
        after = jetstream(later)
        return {
            "names": after.api("CONSUMER.NAMES.RESTARTED"),
            "list": shown(after.api("CONSUMER.LIST.RESTARTED")),
            "count": after.state("RESTARTED")["consumer_count"],
        }


@catalogue.case("js.consumer.restart.paused", own_server=True, masks=(PAUSE_REMAINING,))
def restart_paused(session: Session) -> Observation:
    """A pause goes on after a restart, and so does an update."""
    js = filled(session, "RESTARTED")
    new_durable(js, "RESTARTED", "C", description="changed", filter_subject="RESTARTED.a")
    js.api("CONSUMER.PAUSE.RESTARTED.C", {"pause_until": "2090-01-01T00:00:00Z"})
    with restarted(session, JETSTREAM) as later:
        return consumer_info(jetstream(later), "RESTARTED", "C")


@catalogue.case("js.consumer.restart.deleted", own_server=True)
def restart_deleted(session: Session) -> Observation:
    """A deleted consumer does not come back; a new one of its name begins at the start."""
    js = filled(session, "RESTARTED")
    fetch(js, "RESTARTED", "C", 3)
    delete_consumer(js, "RESTARTED", "C")
    with restarted(session, JETSTREAM) as later:
        after = jetstream(later)
        names = after.api("CONSUMER.NAMES.RESTARTED")
        return {"names": names, "another": new_durable(after, "RESTARTED", "C")}
