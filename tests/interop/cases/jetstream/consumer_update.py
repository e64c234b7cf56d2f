"""A consumer changed: what may be updated, what may not, and what a change does to its state."""

from tests.interop.case import Catalogue
from tests.interop.consumers import (
    MILLISECOND_NS,
    PAUSE_REMAINING,
    SECOND_NS,
    Refusal,
    add_consumer_refusal,
    consumer_info,
    consumer_info_when,
    create_consumer,
    fetch,
    new_durable,
    receiver,
    seen,
)
from tests.interop.jetstream import JETSTREAM, Reply
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

DURABLE: dict[str, object] = {"durable_name": "C", "ack_policy": "explicit"}
PUSH: dict[str, object] = {**DURABLE, "deliver_subject": "updated.out"}

REFUSED = (
    Refusal(
        "deliver-policy",
        "Where a consumer starts stays.",
        "deliver policy can not be updated",
        {**DURABLE, "deliver_policy": "new"},
        DURABLE,
    ),
    Refusal(
        "storage",
        "A consumer stays in memory or out of it.",
        "storage type can not be updated",
        {**DURABLE, "mem_storage": True},
        DURABLE,
    ),
    Refusal(
        "start-sequence",
        "The sequence a consumer starts at stays.",
        "start sequence can not be updated",
        {**DURABLE, "deliver_policy": "by_start_sequence", "opt_start_seq": 3},
        {**DURABLE, "deliver_policy": "by_start_sequence", "opt_start_seq": 2},
    ),
    Refusal(
        "start-time",
        "The time a consumer starts at stays.",
        "start time can not be updated",
        {
            **DURABLE,
            "deliver_policy": "by_start_time",
            "opt_start_time": "2020-01-01T00:00:00Z",
        },
        {
            **DURABLE,
            "deliver_policy": "by_start_time",
            "opt_start_time": "2021-01-01T00:00:00Z",
        },
    ),
    Refusal(
        "ack-policy",
        "How a consumer is acknowledged stays.",
        "ack policy can not be updated",
        {**DURABLE, "ack_policy": "all"},
        DURABLE,
    ),
    Refusal(
        "replay-policy",
        "The pace of a consumer stays.",
        "replay policy can not be updated",
        {**DURABLE, "replay_policy": "original"},
        DURABLE,
    ),
    Refusal(
        "heartbeat",
        "The heartbeat of a push stays.",
        "heart beats can not be updated",
        {**PUSH, "idle_heartbeat": SECOND_NS},
        PUSH,
    ),
    Refusal(
        "flow-control",
        "The flow control of a push stays.",
        "flow control can not be updated",
        {**PUSH, "idle_heartbeat": SECOND_NS, "flow_control": True},
        {**PUSH, "idle_heartbeat": SECOND_NS},
    ),
    Refusal(
        "pull-to-push",
        "A pull does not become a push: the pulls that may wait are none of a push.",
        "can not update pull consumer to push based",
        PUSH,
        DURABLE,
    ),
    Refusal(
        "push-to-pull",
        "A push does not become a pull.",
        "can not update push consumer to pull based",
        DURABLE,
        PUSH,
    ),
    Refusal(
        "max-waiting",
        "The number of pulls that may wait stays.",
        "max waiting can not be updated",
        {**DURABLE, "max_waiting": 9},
        DURABLE,
    ),
    Refusal(
        "backoff-past-deliveries",
        "An update does not bring more pauses than deliveries either.",
        "",
        {**DURABLE, "max_deliver": 1, "backoff": [SECOND_NS, SECOND_NS]},
        DURABLE,
    ),
    Refusal(
        "past-stream-limits",
        "An update stays within the limits of the stream.",
        "consumer max ack pending exceeds system limit of 6",
        {**DURABLE, "max_ack_pending": 7},
        {**DURABLE, "max_ack_pending": 5},
        stream={"consumer_limits": {"max_ack_pending": 6}},
    ),
    Refusal(
        "direct",
        "A direct consumer stays one.",
        "direct can not be updated",
        {"deliver_subject": "updated.out"},
        {"deliver_subject": "updated.out", "direct": True},
    ),
    Refusal(
        "sourcing",
        "A consumer for a source stays one.",
        "sourcing can not be updated",
        {},
        {"sourcing": True},
    ),
)

for refusal in REFUSED:
    add_consumer_refusal(catalogue, "js.consumer.update.error", refusal)


@catalogue.case("js.consumer.update.error.order")
def order(session: Session) -> Observation:
    """Of several forbidden changes the first in the server's order is told."""
    js = with_stream(session, "UPDATE-ORDER")
    new_durable(js, "UPDATE-ORDER", "C")
    changes: dict[str, object] = {
        "max_waiting": 9,
        "replay_policy": "original",
        "ack_policy": "all",
        "mem_storage": True,
        "deliver_policy": "new",
    }
    told = []
    while changes:
        told.append(create_consumer(js, "UPDATE-ORDER", "C", None, **{**DURABLE, **changes}))
        changes.popitem()
    return told


@catalogue.case("js.consumer.update.each")
def each(session: Session) -> Observation:
    """What may change is changed, one thing at a time; what is not said is the default again."""
    js = with_stream(session, "UPDATE-EACH")
    new_durable(js, "UPDATE-EACH", "C", description="first", metadata={"first": "1"})
    changes: tuple[dict[str, object], ...] = (
        {"description": "second"},
        {"ack_wait": SECOND_NS},
        {"max_deliver": 5},
        {"max_deliver": 5, "backoff": [SECOND_NS]},
        {"filter_subject": "UPDATE-EACH.a"},
        {"filter_subjects": ["UPDATE-EACH.a", "UPDATE-EACH.b"]},
        {"sample_freq": "10"},
        {"max_ack_pending": 5},
        {"headers_only": True},
        {"max_batch": 5},
        {"max_expires": SECOND_NS},
        {"max_bytes": 500},
        {"inactive_threshold": 60 * SECOND_NS},
        {"num_replicas": 1},
        {"metadata": {"second": "2"}},
        {"priority_policy": "overflow", "priority_groups": ["g"]},
        {},
    )
    replies = [
        create_consumer(js, "UPDATE-EACH", "C", "update", **{**DURABLE, **change})
        for change in changes
    ]
    return [reply.get("error", reply.get("config")) for reply in replies]


@catalogue.case("js.consumer.update.each-push")
def each_push(session: Session) -> Observation:
    """Of a push may change where it goes, while nobody is there, its group, and its rate."""
    js = with_stream(session, "UPDATE-PUSH")
    new_durable(js, "UPDATE-PUSH", "C", deliver_subject="update-push.one")
    changes: tuple[dict[str, object], ...] = (
        {"deliver_subject": "update-push.two"},
        {"deliver_subject": "update-push.two", "deliver_group": "g"},
        {"deliver_subject": "update-push.two", "rate_limit_bps": 4096},
    )
    replies = [
        create_consumer(js, "UPDATE-PUSH", "C", "update", **{**DURABLE, **change})
        for change in changes
    ]
    return [reply.get("error", reply.get("config")) for reply in replies]


@catalogue.case("js.consumer.update.error.bound", text="consumer name already in use")
def bound(session: Session) -> Observation:
    """A push that somebody listens to is not sent elsewhere; anything else may change."""
    js = with_stream(session, "UPDATE-BOUND")
    new_durable(js, "UPDATE-BOUND", "C", deliver_subject="update-bound.one")
    receiver(session, "update-bound.one")
    consumer_info_when(js, "UPDATE-BOUND", "C", push_bound=True)
    elsewhere = {**DURABLE, "deliver_subject": "update-bound.two"}
    here = {**DURABLE, "deliver_subject": "update-bound.one", "description": "changed"}
    return {
        "elsewhere": create_consumer(js, "UPDATE-BOUND", "C", None, **elsewhere),
        "here": create_consumer(js, "UPDATE-BOUND", "C", None, **here),
    }


@catalogue.case("js.consumer.update.delivers-elsewhere")
def delivers_elsewhere(session: Session) -> Observation:
    """A push sent elsewhere goes there."""
    js = with_stream(session, "UPDATE-ELSEWHERE")
    new_durable(js, "UPDATE-ELSEWHERE", "C", deliver_subject="update-elsewhere.one")
    changed = {**DURABLE, "deliver_subject": "update-elsewhere.two"}
    create_consumer(js, "UPDATE-ELSEWHERE", "C", None, **changed)
    listener = receiver(session, "update-elsewhere.two")
    js.fill("UPDATE-ELSEWHERE.a")
    return listener.next().seen


def standing(reply: Reply) -> Observation:
    """What an update may not touch, and what it may."""
    return {key: reply[key] for key in ("delivered", "ack_floor", "num_ack_pending", "num_pending")}


@catalogue.case("js.consumer.update.filter-pending")
def filter_pending(session: Session) -> Observation:
    """Another filter counts anew what is to come; what was delivered stays delivered."""
    js = with_stream(session, "UPDATE-FILTER")
    js.fill(*(f"UPDATE-FILTER.{word}" for word in "abab"))
    new_durable(js, "UPDATE-FILTER", "C")
    fetch(js, "UPDATE-FILTER", "C")
    filters: tuple[dict[str, object], ...] = (
        {"filter_subject": "UPDATE-FILTER.a"},
        {"filter_subjects": ["UPDATE-FILTER.a", "UPDATE-FILTER.b"]},
        {"filter_subject": "UPDATE-FILTER.c"},
        {},
    )
    return [
        standing(create_consumer(js, "UPDATE-FILTER", "C", None, **{**DURABLE, **change}))
        for change in filters
    ]


@catalogue.case("js.consumer.update.filter-delivers")
def filter_delivers(session: Session) -> Observation:
    """With another filter what it matches is brought from where the consumer stood."""
    js = with_stream(session, "UPDATE-BRINGS")
    js.fill(*(f"UPDATE-BRINGS.{word}" for word in "abab"))
    new_durable(js, "UPDATE-BRINGS", "C", filter_subject="UPDATE-BRINGS.a")
    first = fetch(js, "UPDATE-BRINGS", "C", 1)
    changed = {**DURABLE, "filter_subject": "UPDATE-BRINGS.b"}
    create_consumer(js, "UPDATE-BRINGS", "C", None, **changed)
    return {"first": seen(first), "then": seen(fetch(js, "UPDATE-BRINGS", "C", 3))}


@catalogue.case("js.consumer.update.keeps-created")
def keeps_created(session: Session) -> Observation:
    """An updated consumer is as old as it was."""
    js = with_stream(session, "UPDATE-AGE")
    made = new_durable(js, "UPDATE-AGE", "C")
    changed = create_consumer(js, "UPDATE-AGE", "C", None, **DURABLE, description="changed")
    return {"same": made["created"] == changed["created"]}


@catalogue.case("js.consumer.update.pause-ignored", masks=(PAUSE_REMAINING,))
def pause_ignored(session: Session) -> Observation:
    """An update neither pauses a consumer nor ends its pause."""
    js = with_stream(session, "UPDATE-PAUSE")
    new_durable(js, "UPDATE-PAUSE", "C")
    pausing = {**DURABLE, "pause_until": "2090-01-01T00:00:00Z"}
    unpaused = create_consumer(js, "UPDATE-PAUSE", "C", None, **pausing)
    js.api("CONSUMER.PAUSE.UPDATE-PAUSE.C", {"pause_until": "2091-01-01T00:00:00Z"})
    return {
        "unpaused": unpaused,
        "paused": create_consumer(js, "UPDATE-PAUSE", "C", None, **DURABLE),
    }


@catalogue.case("js.consumer.update.metadata")
def metadata(session: Session) -> Observation:
    """The metadata are replaced whole; the level is that of the new configuration."""
    js = with_stream(session, "UPDATE-METADATA")
    new_durable(
        js,
        "UPDATE-METADATA",
        "C",
        metadata={"old": "1"},
        priority_policy="overflow",
        priority_groups=["g"],
    )
    changes: tuple[dict[str, object], ...] = (
        {"metadata": {"new": "2", "_nats.req.level": "7"}},
        {},
    )
    replies = [
        create_consumer(js, "UPDATE-METADATA", "C", None, **{**DURABLE, **change})
        for change in changes
    ]
    return [reply["config"]["metadata"] for reply in replies]


@catalogue.case("js.consumer.update.no-longer-durable")
def no_longer_durable(session: Session) -> Observation:
    """A durable asked for without its durable name loses that, and stays what it is."""
    js = with_stream(session, "UPDATE-DURABLE")
    new_durable(js, "UPDATE-DURABLE", "C")
    changed = create_consumer(js, "UPDATE-DURABLE", "C", ack_policy="explicit")
    return {"changed": changed, "info": consumer_info(js, "UPDATE-DURABLE", "C")}


@catalogue.case("js.consumer.update.more-acks-pending")
def more_acks_pending(session: Session) -> Observation:
    """More acks may be pending at once when the limit is raised, and no more when it is lowered."""
    js = with_stream(session, "UPDATE-ACKS")
    js.fill(*(f"UPDATE-ACKS.{word}" for word in "abcd"))
    new_durable(js, "UPDATE-ACKS", "C", max_ack_pending=1)
    first = fetch(js, "UPDATE-ACKS", "C", 1)
    create_consumer(js, "UPDATE-ACKS", "C", None, **DURABLE, max_ack_pending=3)
    then = fetch(js, "UPDATE-ACKS", "C", 2)
    create_consumer(js, "UPDATE-ACKS", "C", None, **DURABLE, max_ack_pending=2)
    last = fetch(js, "UPDATE-ACKS", "C", 1, expires=200 * MILLISECOND_NS)
    return {"first": seen(first), "then": seen(then), "last": seen(last)}


@catalogue.case("js.consumer.update.ephemeral")
def ephemeral(session: Session) -> Observation:
    """An ephemeral is updated like a durable, and keeps a threshold of its own."""
    js = with_stream(session, "UPDATE-EPHEMERAL")
    create_consumer(js, "UPDATE-EPHEMERAL", "C", inactive_threshold=60 * SECOND_NS)
    return [
        create_consumer(js, "UPDATE-EPHEMERAL", "C", "update", description="changed"),
        create_consumer(js, "UPDATE-EPHEMERAL", "C", "update", inactive_threshold=30 * SECOND_NS),
    ]


@catalogue.case("js.consumer.update.stream-limits", text="change to limits violates consumers: C")
def stream_limits(session: Session) -> Observation:
    """A stream is not given limits that a consumer it has breaks; the text names it."""
    js = with_stream(session, "UPDATE-LIMITS")
    new_durable(js, "UPDATE-LIMITS", "C", max_ack_pending=10, inactive_threshold=60 * SECOND_NS)
    limits: tuple[dict[str, object], ...] = (
        {"max_ack_pending": 9},
        {"inactive_threshold": 59 * SECOND_NS},
        {"max_ack_pending": 10, "inactive_threshold": 60 * SECOND_NS},
    )
    replies = [js.update("UPDATE-LIMITS", consumer_limits=limit) for limit in limits]
    return [reply.get("error", reply.get("config")) for reply in replies]


@catalogue.case("js.consumer.update.stream-subjects")
def stream_subjects(session: Session) -> Observation:
    """A stream may be given other subjects than its consumers filter for."""
    js = with_stream(session, "UPDATE-SUBJECTS")
    js.fill("UPDATE-SUBJECTS.a")
    new_durable(js, "UPDATE-SUBJECTS", "C", filter_subject="UPDATE-SUBJECTS.a")
    changed = js.update("UPDATE-SUBJECTS", subjects=["update-subjects.b"])
    return {"error": changed.get("error"), "info": consumer_info(js, "UPDATE-SUBJECTS", "C")}
