"""A consumer changed: what may be updated, what may not, and what a change does to its state."""

from tests.interop.case import Catalogue
from tests.interop.consumers import (
    MILLISECOND_NS,
    PAUSE_REMAINING,
    SECOND_NS,
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


@catalogue.case("js.consumer.update.error.bound", text="consumer name already in use")
def bound(session: Session) -> Observation:
    """A push consumer with a listener keeps its deliver subject; anything else may change."""
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
    """The counts of a consumer: those that an update may not touch, and one that it may."""
    return {key: reply[key] for key in ("delivered", "ack_floor", "num_ack_pending", "num_pending")}


@catalogue.case("js.consumer.update.filter-pending")
def filter_pending(session: Session) -> Observation:
    """After a change of filter the messages to come are counted again; delivered ones stay so."""
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
    """With another filter its matches are delivered from the consumer's position on."""
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
