"""Consumers paused, unpinned, reset and deleted, and the advisories of that."""

import time
from datetime import UTC, datetime

from tests.interop.case import Catalogue
from tests.interop.consumers import (
    PAUSE_REMAINING,
    SECOND_NS,
    Delivery,
    ack,
    consumer_info,
    consumer_info_when,
    create_consumer,
    delete_consumer,
    fetch,
    new_durable,
    opened_json,
    receiver,
    seen,
    shown,
)
from tests.interop.jetstream import (
    API,
    DOMAIN,
    EVENTS,
    JETSTREAM,
    JetStreamClient,
    is_nuid,
    jetstream,
)
from tests.interop.masks import is_filled_text
from tests.interop.messages import with_stream
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

LEVEL = "Nats-Required-Api-Level"
CONSUMERS = f"{EVENTS}CONSUMER.>"
FAR = "2090-01-01T00:00:00Z"
PINNED: dict[str, object] = {"priority_policy": "pinned_client", "priority_groups": ["g"]}
PIN = Mask("**.pinned_client_id", is_nuid, "drawn for each pin")


def filled(session: Session, stream: str, **config: object) -> JetStreamClient:
    """A client with a stream of four messages, and a durable `C` of it."""
    js = with_stream(session, stream)
    js.fill(*(f"{stream}.{word}" for word in "abac"))
    new_durable(js, stream, "C", **config)
    return js


def sequences(messages: list[Delivery]) -> Observation:
    """The deliveries by subject and sequence, without the pending count, which depends on time."""
    return [[message.subject, *message.reply.split(".")[4:7]] for message in messages]


def soon() -> str:
    """A time more than a second away, and less than two."""
    return datetime.fromtimestamp(time.time() + 2, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- pause --------------------------------------------------------------------------------------


@catalogue.case("js.consumer.pause.reply", masks=(PAUSE_REMAINING,))
def pause_reply(session: Session) -> Observation:
    """The reply to a pause has its end in UTC and the time left, and INFO has them too."""
    js = filled(session, "PAUSE-REPLY")
    call = "CONSUMER.PAUSE.PAUSE-REPLY.C"
    return {
        "paused": js.api(call, {"pause_until": "2090-01-01T00:00:00.500000+02:00"}),
        "info": consumer_info(js, "PAUSE-REPLY", "C"),
    }


@catalogue.case("js.consumer.pause.resume")
def pause_resume(session: Session) -> Observation:
    """An empty request, no time, or one that is over, ends a pause."""
    js = filled(session, "PAUSE-RESUME")
    call = "CONSUMER.PAUSE.PAUSE-RESUME.C"
    bodies = ("", "{}", '{"pause_until":"2020-01-01T00:00:00Z"}', '{"pause_until":null}', "garbage")
    told = {}
    for body in bodies:
        js.api(call, {"pause_until": FAR})
        told[body] = [js.api(call, body), consumer_info(js, "PAUSE-RESUME", "C")]
    return told


@catalogue.case("js.consumer.pause.request")
def pause_request(session: Session) -> Observation:
    """An error has the fields of a pause beside it, as if there were none."""
    js = filled(session, "PAUSE-REQUEST")
    call = "CONSUMER.PAUSE.PAUSE-REQUEST.C"
    bodies = ('{"pause_until":"x"}', '{"pause_until":5}', '{"colour":1}', "[]", "{")
    return {
        **{body: js.api(call, body) for body in bodies},
        "level": js.api(call, "", {LEVEL: "99"}),
        "none": js.api("CONSUMER.PAUSE.PAUSE-REQUEST.NONE"),
        "no stream": js.api("CONSUMER.PAUSE.NO-SUCH-STREAM.C"),
    }


@catalogue.case("js.consumer.pause.pull")
def pause_pull(session: Session) -> Observation:
    """A paused consumer has nothing for a pull; resumed it has it all."""
    js = filled(session, "PAUSE-PULL")
    js.api("CONSUMER.PAUSE.PAUSE-PULL.C", {"pause_until": FAR})
    held = fetch(js, "PAUSE-PULL", "C")
    js.api("CONSUMER.PAUSE.PAUSE-PULL.C")
    return {"held": seen(held), "resumed": seen(fetch(js, "PAUSE-PULL", "C"))}


@catalogue.case("js.consumer.pause.ends")
def pause_ends(session: Session) -> Observation:
    """A pause ends by itself; a pull that waited is served, and the time stays in the config."""
    js = filled(session, "PAUSE-ENDS")
    end = soon()
    js.api("CONSUMER.PAUSE.PAUSE-ENDS.C", {"pause_until": end})
    (message,) = fetch(js, "PAUSE-ENDS", "C", expires=4 * SECOND_NS)
    after = consumer_info(js, "PAUSE-ENDS", "C")
    return {
        "message": message.seen,
        "paused": after.get("paused"),
        "kept": after["config"].get("pause_until") == end,
        "metadata": after["config"]["metadata"],
    }


@catalogue.case("js.consumer.pause.acks")
def pause_acks(session: Session) -> Observation:
    """A paused consumer takes acks."""
    js = filled(session, "PAUSE-ACKS")
    messages = fetch(js, "PAUSE-ACKS", "C", 2)
    js.api("CONSUMER.PAUSE.PAUSE-ACKS.C", {"pause_until": FAR})
    ack(js, *messages)
    js.api("CONSUMER.PAUSE.PAUSE-ACKS.C")
    return consumer_info_when(js, "PAUSE-ACKS", "C", num_ack_pending=0)


@catalogue.case("js.consumer.pause.push")
def pause_push(session: Session) -> Observation:
    """A paused push waits; resumed it goes on with the next message, from where it was."""
    js = with_stream(session, "PAUSE-PUSH")
    js.fill("PAUSE-PUSH.a")
    new_durable(js, "PAUSE-PUSH", "C", deliver_subject="pause.push", pause_until=FAR)
    listener = receiver(session, "pause.push")
    bound = consumer_info_when(js, "PAUSE-PUSH", "C", push_bound=True)
    js.api("CONSUMER.PAUSE.PAUSE-PUSH.C")
    js.fill("PAUSE-PUSH.b")
    return {"held": bound["delivered"], "resumed": sequences(listener.take(2))}


@catalogue.case("js.consumer.pause.heartbeat")
def pause_heartbeat(session: Session) -> Observation:
    """A paused push still sends heartbeats."""
    js = with_stream(session, "PAUSE-BEAT")
    listener = receiver(session, "pause.beat")
    new_durable(
        js,
        "PAUSE-BEAT",
        "C",
        deliver_subject="pause.beat",
        idle_heartbeat=SECOND_NS // 5,
        pause_until=FAR,
    )
    return listener.next().seen


# --- unpin --------------------------------------------------------------------------------------


@catalogue.case("js.consumer.unpin.request")
def unpin_request(session: Session) -> Observation:
    """An unpin names a group the consumer has; bad requests are told before missing consumers."""
    js = filled(session, "UNPIN-REQUEST", **PINNED)
    new_durable(js, "UNPIN-REQUEST", "PLAIN")
    call = "CONSUMER.UNPIN.UNPIN-REQUEST.C"
    bodies = ("", "{}", "garbage", "[]", '{"group":5}', '{"group":""}', '{"group":"a b"}')
    return {
        **{body: js.api(call, body) for body in bodies},
        "other": js.api(call, {"group": "h"}),
        "unpinned": js.api(call, {"group": "g"}),
        "unknown field": js.api(call, {"group": "g", "colour": 1}),
        "plain": js.api("CONSUMER.UNPIN.UNPIN-REQUEST.PLAIN", {"group": "g"}),
        "none": js.api("CONSUMER.UNPIN.UNPIN-REQUEST.NONE", {"group": "g"}),
        "none and bad": js.api("CONSUMER.UNPIN.UNPIN-REQUEST.NONE", {"group": "a b"}),
        "no stream": js.api("CONSUMER.UNPIN.NO-SUCH-STREAM.C", {"group": "g"}),
        "level": js.api(call, "garbage", {LEVEL: "99"}),
    }


@catalogue.case(
    "js.consumer.unpin.info", masks=(PIN, Mask("**.headers.0.1", is_nuid, "drawn for each pin"))
)
def unpin_info(session: Session) -> Observation:
    """INFO has the pinned client until it is unpinned; the next pull gets a new pin."""
    js = filled(session, "UNPIN-INFO", **PINNED)
    before = consumer_info(js, "UNPIN-INFO", "C")
    (message,) = fetch(js, "UNPIN-INFO", "C", group="g", expires=4 * SECOND_NS)
    pinned = consumer_info(js, "UNPIN-INFO", "C")
    js.api("CONSUMER.UNPIN.UNPIN-INFO.C", {"group": "g"})
    unpinned = consumer_info(js, "UNPIN-INFO", "C")
    (again,) = fetch(js, "UNPIN-INFO", "C", group="g", expires=4 * SECOND_NS)
    return {
        "before": before["priority_groups"],
        "message": message.seen,
        "pinned": pinned["priority_groups"],
        "unpinned": unpinned["priority_groups"],
        "again": again.seen,
        "same": message.tree["headers"] == again.tree["headers"],
    }


# --- reset --------------------------------------------------------------------------------------


@catalogue.case("js.consumer.reset.to-floor")
def reset_to_floor(session: Session) -> Observation:
    """A reset goes back to the floor of acks; the consumer counts from one again."""
    js = filled(session, "RESET-FLOOR")
    messages = fetch(js, "RESET-FLOOR", "C", 3)
    ack(js, messages[0], messages[2])
    consumer_info_when(js, "RESET-FLOOR", "C", num_ack_pending=1)
    return {
        "reset": shown(js.api("CONSUMER.RESET.RESET-FLOOR.C")),
        "then": seen(fetch(js, "RESET-FLOOR", "C", 4)),
    }


@catalogue.case("js.consumer.reset.to-sequence")
def reset_to_sequence(session: Session) -> Observation:
    """A reset goes to a sequence, back, forth, and past the end.

    A reset to the first one is left out: the oracle, in a hurry, answers it with an older state.
    """
    js = filled(session, "RESET-SEQUENCE")
    messages = fetch(js, "RESET-SEQUENCE", "C", 3)
    ack(js, *messages)
    consumer_info_when(js, "RESET-SEQUENCE", "C", num_ack_pending=0)
    told = []
    for seq in (2, 4, 9):
        reply = shown(js.api("CONSUMER.RESET.RESET-SEQUENCE.C", {"seq": seq}))
        told.append([reply, seen(fetch(js, "RESET-SEQUENCE", "C"))])
    return told


@catalogue.case("js.consumer.reset.error.not-allowed", text="invalid reset: not allowed")
def reset_not_allowed(session: Session) -> Observation:
    """A consumer whose start depends on the stream's contents resets to the ack floor only."""
    js = with_stream(session, "RESET-POLICIES")
    js.fill(*(f"RESET-POLICIES.{word}" for word in "abac"))
    told = {}
    for policy in ("last", "new", "last_per_subject"):
        new_durable(js, "RESET-POLICIES", policy, deliver_policy=policy, filter_subject=">")
        call = f"CONSUMER.RESET.RESET-POLICIES.{policy}"
        told[policy] = [js.api(call, {"seq": seq}) for seq in (1, 9, 0)]
    return told


@catalogue.case("js.consumer.reset.error.below-sequence", text="invalid reset: below start seq")
def reset_below_sequence(session: Session) -> Observation:
    """A consumer that starts at a sequence is not reset to one before."""
    start: dict[str, object] = {"deliver_policy": "by_start_sequence", "opt_start_seq": 3}
    js = filled(session, "RESET-BELOW-SEQ", **start)
    call = "CONSUMER.RESET.RESET-BELOW-SEQ.C"
    return [js.api(call, {"seq": seq}) for seq in (2, 3, 4)]


@catalogue.case("js.consumer.reset.error.below-time", text="invalid reset: below start time")
def reset_below_time(session: Session) -> Observation:
    """A consumer that starts at a time is not reset to a message before."""
    start: dict[str, object] = {"deliver_policy": "by_start_time", "opt_start_time": FAR}
    js = filled(session, "RESET-BELOW-TIME", **start)
    call = "CONSUMER.RESET.RESET-BELOW-TIME.C"
    return [js.api(call, {"seq": seq}) for seq in (1, 4, 5, 6)]


@catalogue.case("js.consumer.reset.request")
def reset_request(session: Session) -> Observation:
    """A reset ignores unknown fields; an error has no sequence beside it."""
    js = filled(session, "RESET-REQUEST")
    call = "CONSUMER.RESET.RESET-REQUEST.C"
    bodies = ("", "{}", "null", '{"colour":1}', '{"seq":-1}', '{"seq":"1"}', "[]", "garbage", "{")
    return {
        **{body: js.api(call, body) for body in bodies},
        "level": js.api(call, "garbage", {LEVEL: "99"}),
    }


@catalogue.case("js.consumer.reset.missing")
def reset_missing(session: Session) -> Observation:
    """A consumer answers its reset itself: for a missing one there is no answer."""
    js = filled(session, "RESET-MISSING")
    delete_consumer(js, "RESET-MISSING", "C")
    calls = ("RESET-MISSING.C", "RESET-MISSING.NONE", "NO-SUCH-STREAM.C")
    return {call: js.unanswered(f"{API}CONSUMER.RESET.{call}") for call in calls}


@catalogue.case(
    "js.consumer.reset.identity",
    masks=(Mask("headers.0.1", is_filled_text, "drawn for each stream"),),
)
def reset_identity(session: Session) -> Observation:
    """A reset that names an identity, any, is answered with the stream's."""
    js = filled(session, "RESET-IDENTITY")
    header = {"Nats-Stream-Identity": "any"}
    return opened_json(js.request_frame(f"{API}CONSUMER.RESET.RESET-IDENTITY.C", "", header))


@catalogue.case("js.consumer.reset.push")
def reset_push(session: Session) -> Observation:
    """A push that is reset brings its messages again."""
    js = with_stream(session, "RESET-PUSH")
    js.fill("RESET-PUSH.a", "RESET-PUSH.b")
    listener = receiver(session, "reset.push")
    new_durable(js, "RESET-PUSH", "C", deliver_subject="reset.push")
    first = listener.take(2)
    js.api("CONSUMER.RESET.RESET-PUSH.C", {"seq": 2})
    return {"first": seen(first), "again": listener.next().seen}


# --- delete -------------------------------------------------------------------------------------


@catalogue.case("js.consumer.delete.reply")
def delete_reply(session: Session) -> Observation:
    """A consumer that is deleted is gone at once, and another may have its name."""
    js = filled(session, "DELETE-REPLY")
    fetch(js, "DELETE-REPLY", "C", 2)
    return {
        "deleted": delete_consumer(js, "DELETE-REPLY", "C"),
        "info": consumer_info(js, "DELETE-REPLY", "C"),
        "again": delete_consumer(js, "DELETE-REPLY", "C"),
        "next": js.api("CONSUMER.MSG.NEXT.DELETE-REPLY.C"),
        "another": create_consumer(js, "DELETE-REPLY", "C", deliver_policy="last"),
    }


@catalogue.case("js.consumer.delete.request")
def delete_request(session: Session) -> Observation:
    """A delete takes no body, and looks at the level before it looks at that."""
    js = filled(session, "DELETE-REQUEST")
    call = "CONSUMER.DELETE.DELETE-REQUEST.C"
    return {
        "body": js.api(call, "x"),
        "level": js.api(call, "x", {LEVEL: "99"}),
        "no stream": js.api("CONSUMER.DELETE.NO-SUCH-STREAM.C"),
        "body first": js.api("CONSUMER.DELETE.NO-SUCH-STREAM.C", "x"),
        "object": js.api(call, "{}"),
    }


@catalogue.case("js.consumer.delete.direct")
def delete_direct(session: Session) -> Observation:
    """A direct consumer is deleted by its name like any other."""
    js = with_stream(session, "DELETE-DIRECT")
    direct = {"direct": True, "deliver_subject": "delete.direct"}
    js.api("CONSUMER.CREATE.DELETE-DIRECT.C", {"stream_name": "DELETE-DIRECT", "config": direct})
    return [delete_consumer(js, "DELETE-DIRECT", "C") for _ in range(2)]


# --- advisories ---------------------------------------------------------------------------------


@catalogue.case("js.consumer.advisory.actions", own_server=True)
def advisory_actions(session: Session) -> Observation:
    """Advisories are sent for a created and for a deleted consumer."""
    js = with_stream(session, "TOLD")
    watch = js.watch(session, CONSUMERS)
    new_durable(js, "TOLD", "C")
    made = watch.next()
    delete_consumer(js, "TOLD", "C")
    return {"made": made, "deleted": watch.next()}


@catalogue.case("js.consumer.advisory.domain", setup=DOMAIN, own_server=True)
def advisory_domain(session: Session) -> Observation:
    """In a domain it is named beside the consumer."""
    js = with_stream(session, "TOLD")
    watch = js.watch(session, CONSUMERS)
    new_durable(js, "TOLD", "C")
    made = watch.next()
    js.api("CONSUMER.PAUSE.TOLD.C", {"pause_until": FAR})
    return {"made": made, "paused": watch.next()}


@catalogue.case("js.consumer.advisory.untold", own_server=True)
def advisory_untold(session: Session) -> Observation:
    """Updates, repeated creates, resets and refusals have no advisories."""
    js = with_stream(session, "UNTOLD")
    watch = js.watch(session, CONSUMERS)
    new_durable(js, "UNTOLD", "C")
    new_durable(js, "UNTOLD", "C")
    new_durable(js, "UNTOLD", "C", description="changed")
    create_consumer(js, "UNTOLD", "C", "create", durable_name="C")
    create_consumer(js, "UNTOLD", "D", "update")
    js.api("CONSUMER.RESET.UNTOLD.C")
    delete_consumer(js, "UNTOLD", "NONE")
    new_durable(js, "UNTOLD", "LAST")
    return [told["subject"] for told in watch.take(2)]


@catalogue.case("js.consumer.advisory.expired", own_server=True)
def advisory_expired(session: Session) -> Observation:
    """A consumer that is removed for inactivity has an advisory like any deleted one."""
    js = with_stream(session, "EXPIRED")
    watch = js.watch(session, CONSUMERS)
    create_consumer(js, "EXPIRED", "C", inactive_threshold=1)
    return [watch.next(), watch.next()]


@catalogue.case("js.consumer.advisory.pause", own_server=True)
def advisory_pause(session: Session) -> Observation:
    """A pause, its new end and a resume have advisories; a request without a change has none."""
    js = with_stream(session, "PAUSED")
    new_durable(js, "PAUSED", "C")
    watch = js.watch(session, CONSUMERS)
    call = "CONSUMER.PAUSE.PAUSED.C"
    js.api(call)
    told = []
    for until in (FAR, "2091-01-01T00:00:00Z"):
        js.api(call, {"pause_until": until})
        js.api(call, {"pause_until": until})
        told.append(watch.next())
    js.api(call)
    return [*told, watch.next()]


@catalogue.case("js.consumer.advisory.pause-created", own_server=True)
def advisory_pause_created(session: Session) -> Observation:
    """A consumer created paused has two advisories, as created and as paused."""
    js = with_stream(session, "PAUSED")
    watch = js.watch(session, CONSUMERS)
    new_durable(js, "PAUSED", "C", pause_until=FAR)
    return watch.take(2)


@catalogue.case("js.consumer.advisory.pause-ended", own_server=True)
def advisory_pause_ended(session: Session) -> Observation:
    """The end of a pause has an advisory when it comes."""
    js = with_stream(session, "PAUSED")
    new_durable(js, "PAUSED", "C")
    watch = js.watch(session, CONSUMERS)
    end = soon()
    js.api("CONSUMER.PAUSE.PAUSED.C", {"pause_until": end})
    told = [watch.next(), watch.next()]
    for each in told:
        each["advisory"]["pause_until"] = each["advisory"]["pause_until"] == end
    return told


@catalogue.case(
    "js.consumer.advisory.pins",
    own_server=True,
    masks=(Mask("**.advisory.pinned_id", is_nuid, "drawn for each pin"),),
)
def advisory_pins(session: Session) -> Observation:
    """A client that is pinned has an advisory, and one that is unpinned by request."""
    js = filled(session, "PINS", **PINNED)
    watch = js.watch(session, CONSUMERS)
    fetch(js, "PINS", "C", group="g", expires=4 * SECOND_NS)
    pinned = watch.next()
    js.api("CONSUMER.UNPIN.PINS.C", {"group": "g"})
    return {"pinned": pinned, "unpinned": watch.next()}


@catalogue.case("js.consumer.advisory.unpin-nobody", own_server=True)
def advisory_unpin_nobody(session: Session) -> Observation:
    """An unpin has an advisory even if no client was pinned."""
    js = filled(session, "PINS", **PINNED)
    watch = js.watch(session, CONSUMERS)
    js.api("CONSUMER.UNPIN.PINS.C", {"group": "g"})
    return watch.next()


@catalogue.case("js.consumer.advisory.audited", own_server=True)
def advisory_audited(session: Session) -> Observation:
    """Calls about consumers have advisories like all calls; a reset and a pull are no calls."""
    js = jetstream(session)
    js.create("AUDITED")
    watch = js.watch(session, f"{EVENTS}API")
    new_durable(js, "AUDITED", "C")
    calls = ("INFO.AUDITED.C", "NAMES.AUDITED", "LIST.AUDITED", "PAUSE.AUDITED.C")
    for call in calls:
        js.api(f"CONSUMER.{call}")
    js.api("CONSUMER.RESET.AUDITED.C")
    fetch(js, "AUDITED", "C")
    js.api("CONSUMER.UNPIN.AUDITED.C", {"group": "g"})
    delete_consumer(js, "AUDITED", "C")
    told = watch.take(7)
    return [{key: one["advisory"].get(key) for key in ("subject", "request")} for one in told]


@catalogue.case("js.consumer.advisory.direct", own_server=True)
def advisory_direct(session: Session) -> Observation:
    """A direct consumer has advisories, too."""
    js = with_stream(session, "TOLD-DIRECT")
    watch = js.watch(session, CONSUMERS)
    direct = {"direct": True, "deliver_subject": "told.direct"}
    js.api("CONSUMER.CREATE.TOLD-DIRECT.C", {"stream_name": "TOLD-DIRECT", "config": direct})
    made = watch.next()
    delete_consumer(js, "TOLD-DIRECT", "C")
    return [made, watch.next()]
