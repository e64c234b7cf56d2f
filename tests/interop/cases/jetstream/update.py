"""STREAM.UPDATE: what may change, and what a change does to the messages that are there."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000


def filled(session: Session, name: str, count: int, **config: object) -> JetStreamClient:
    """A stream with messages on `<name>.0`, `<name>.1`, and so on."""
    js = jetstream(session, name)
    js.create(name, **config)
    js.fill(*(f"{name}.{index}" for index in range(count)))
    return js


@catalogue.case("js.update.same")
def same(session: Session) -> Observation:
    """An update that changes nothing succeeds; the time of creation stays."""
    js = jetstream(session, "SAME")
    first = js.create("SAME")
    js.fill("SAME")
    second = js.update("SAME")
    return {"second": second, "created once": first["created"] == second["created"]}


@catalogue.case("js.update.level")
def level(session: Session) -> Observation:
    """The level a stream needs follows its settings, up and down."""
    js = jetstream(session, "LEVELS")
    js.create("LEVELS")
    up = js.update("LEVELS", allow_batched=True)["config"]["metadata"]
    return {"up": up, "down": js.update("LEVELS")["config"]["metadata"]}


@catalogue.case("js.update.subjects")
def subjects(session: Session) -> Observation:
    """New subjects are captured at once, those left out no more; stored messages stay."""
    js = filled(session, "SUBJECTS", 2)
    js.update("SUBJECTS", subjects=["other-subjects.>"])
    return {
        "new": js.publish("other-subjects.a", "x"),
        "old": js.publish("SUBJECTS.0", "x"),
        "state": js.state("SUBJECTS", subjects_filter=">"),
    }


@catalogue.case("js.update.lower-max-msgs")
def lower_max_msgs(session: Session) -> Observation:
    """Lowering `max_msgs` removes the oldest at once."""
    js = filled(session, "LOWER-MSGS", 5)
    js.update("LOWER-MSGS", max_msgs=2)
    return js.state("LOWER-MSGS")


@catalogue.case("js.update.lower-max-bytes")
def lower_max_bytes(session: Session) -> Observation:
    """Lowering `max_bytes` removes the oldest until the rest fits."""
    js = filled(session, "LOWER-BYTES", 5)
    js.update("LOWER-BYTES", max_bytes=100)
    return js.state("LOWER-BYTES")


@catalogue.case("js.update.lower-max-bytes-memory")
def lower_max_bytes_memory(session: Session) -> Observation:
    """A memory stream shrinks by its own count of bytes."""
    js = filled(session, "LOWER-MEMORY", 5, storage="memory")
    js.update("LOWER-MEMORY", storage="memory", max_bytes=100)
    return js.state("LOWER-MEMORY")


@catalogue.case("js.update.lower-max-msgs-per-subject")
def lower_max_msgs_per_subject(session: Session) -> Observation:
    """Lowering the limit per subject removes the oldest of every subject at once."""
    js = jetstream(session, "LOWER-PER")
    js.create("LOWER-PER")
    js.fill(*("LOWER-PER.a", "LOWER-PER.b") * 3, "LOWER-PER.c")
    js.update("LOWER-PER", max_msgs_per_subject=1)
    return js.state("LOWER-PER", subjects_filter=">", deleted_details=True)


@catalogue.case("js.update.lower-max-msgs-per-subject-memory")
def lower_max_msgs_per_subject_memory(session: Session) -> Observation:
    """In memory too, lowering the limit per subject removes at once."""
    js = jetstream(session, "LOWER-PER-MEM")
    js.create("LOWER-PER-MEM", storage="memory", max_msgs_per_subject=3)
    js.fill(*("LOWER-PER-MEM.a", "LOWER-PER-MEM.b") * 3)
    js.update("LOWER-PER-MEM", storage="memory", max_msgs_per_subject=2)
    return js.state("LOWER-PER-MEM", subjects_filter=">", deleted_details=True)


@catalogue.case("js.update.lower-with-discard-new")
def lower_with_discard_new(session: Session) -> Observation:
    """A stream that refuses new messages keeps its messages under lower limits, and is full."""
    js = filled(session, "LOWER-NEW", 5, discard="new")
    js.update("LOWER-NEW", discard="new", max_msgs=2)
    count = js.state("LOWER-NEW")
    js.update("LOWER-NEW", discard="new", max_bytes=50)
    return {"count": count, "bytes": js.state("LOWER-NEW"), "publish": js.publish("LOWER-NEW.9")}


@catalogue.case("js.update.lower-per-subject-with-discard-new")
def lower_per_subject_with_discard_new(session: Session) -> Observation:
    """A lower limit per subject removes even from a stream that discards new messages by it."""
    js = jetstream(session, "LOWER-PER-OLD", "LOWER-PER-NEW")
    for name, per_subject in (("LOWER-PER-OLD", False), ("LOWER-PER-NEW", True)):
        settings = {"discard": "new", "discard_new_per_subject": per_subject}
        js.create(name, **settings, max_msgs_per_subject=3)
        js.fill(*(name,) * 3)
        js.update(name, **settings, max_msgs_per_subject=1)
    return {name: js.state(name) for name in ("LOWER-PER-OLD", "LOWER-PER-NEW")}


@catalogue.case("js.update.max-age-set")
def max_age_set(session: Session) -> Observation:
    """An age given to a stream holds for the messages that are there."""
    js = filled(session, "AGE-SET", 3)
    js.update("AGE-SET", max_age=100 * MILLISECOND_NS)
    return js.state_when("AGE-SET", "messages", 0)


@catalogue.case("js.update.max-age-lifted")
def max_age_lifted(session: Session) -> Observation:
    """Without the age it had, a stream keeps its messages; the window stays as it was given."""
    js = filled(session, "AGE-LIFTED", 2, max_age=3600 * SECOND_NS)
    return {"updated": js.update("AGE-LIFTED"), "state": js.state("AGE-LIFTED")}


@catalogue.case("js.update.max-msg-size")
def max_msg_size(session: Session) -> Observation:
    """A lower size is for new messages; larger ones that are there stay."""
    js = jetstream(session, "SMALLER")
    js.create("SMALLER")
    js.publish("SMALLER", "0123456789")
    js.update("SMALLER", max_msg_size=5)
    return {
        "large": js.publish("SMALLER", "0123456789"),
        "small": js.publish("SMALLER", "01234"),
        "state": js.state("SMALLER"),
    }


@catalogue.case("js.update.raise-limit")
def raise_limit(session: Session) -> Observation:
    """A raised limit makes room at once."""
    js = filled(session, "RAISE", 2, discard="new", max_msgs=2)
    full = js.publish("RAISE.9", "x")
    js.update("RAISE", discard="new", max_msgs=3)
    return {"full": full, "raised": js.publish("RAISE.9", "x")}


@catalogue.case("js.update.first-sequence")
def first_sequence(session: Session) -> Observation:
    """A first sequence in an update is kept in the configuration and moves nothing."""
    js = filled(session, "MOVE-FIRST", 1)
    updated = js.update("MOVE-FIRST", first_seq=50)
    return {"updated": updated, "ack": js.ack_text("MOVE-FIRST", "x")}


@catalogue.case("js.update.retention")
def retention(session: Session) -> Observation:
    """Limits and interest may change places; interest without consumers removes all messages."""
    js = filled(session, "TO-INTEREST", 2)
    to = js.update("TO-INTEREST", retention="interest")
    ack = js.publish("TO-INTEREST.9", "x")
    held = js.state("TO-INTEREST")
    return {"to": to, "ack": ack, "held": held, "back": js.update("TO-INTEREST")}


@catalogue.case("js.update.seal")
def seal(session: Session) -> Observation:
    """Sealing sets what follows from it: no age, no deletes, no purge, no roll-ups, discard new."""
    js = filled(session, "SEAL", 2, max_age=3600 * SECOND_NS, allow_rollup_hdrs=True)
    return js.update("SEAL", sealed=True, max_age=3600 * SECOND_NS, allow_rollup_hdrs=True)


@catalogue.case("js.update.sealed-again")
def sealed_again(session: Session) -> Observation:
    """A sealed stream may be updated as long as it stays sealed."""
    js = filled(session, "SEALED-AGAIN", 2)
    js.update("SEALED-AGAIN", sealed=True)
    return js.update(
        "SEALED-AGAIN", sealed=True, deny_delete=True, deny_purge=True, description="new"
    )


@catalogue.case("js.update.republish")
def republish(session: Session) -> Observation:
    """A republish may be added, changed and taken away."""
    js = jetstream(session, "REPUBLISH-UP")
    js.create("REPUBLISH-UP")
    watch = js.watch(session, "ru.>")
    js.publish("REPUBLISH-UP.0", "none")
    js.update("REPUBLISH-UP", republish={"src": ">", "dest": "ru.1.>"})
    js.publish("REPUBLISH-UP.1", "first")
    js.update("REPUBLISH-UP", republish={"src": ">", "dest": "ru.2.>"})
    js.publish("REPUBLISH-UP.2", "second")
    js.update("REPUBLISH-UP")
    js.publish("REPUBLISH-UP.3", "none")
    return watch.take(2)


@catalogue.case("js.update.subject-transform")
def subject_transform(session: Session) -> Observation:
    """A subject transform may be added, changed and taken away."""
    js = jetstream(session, "TRANSFORM-UP")
    js.create("TRANSFORM-UP")
    js.fill("TRANSFORM-UP.0")
    for prefix in ("one", "two"):
        js.update(
            "TRANSFORM-UP", subject_transform={"src": "TRANSFORM-UP.*", "dest": f"{prefix}.$1"}
        )
        js.fill("TRANSFORM-UP.1")
    js.update("TRANSFORM-UP")
    js.fill("TRANSFORM-UP.2")
    return js.state("TRANSFORM-UP", subjects_filter=">")


@catalogue.case("js.update.allow-direct")
def allow_direct(session: Session) -> Observation:
    """Direct gets are answered from the update on that allows them, and not after the next."""
    js = filled(session, "DIRECT-UP", 1)
    before = js.direct("DIRECT-UP", {"seq": 1})
    js.update("DIRECT-UP", allow_direct=True)
    during = js.direct("DIRECT-UP", {"seq": 1})
    js.update("DIRECT-UP")
    return {"before": before, "during": during, "after": js.direct("DIRECT-UP", {"seq": 1})}


@catalogue.case("js.update.no-ack")
def no_ack(session: Session) -> Observation:
    """Acks may be turned off and on."""
    js = jetstream(session, "ACKS-UP")
    js.create("ACKS-UP")
    js.update("ACKS-UP", no_ack=True)
    off = js.unanswered("ACKS-UP", "x")
    js.state_when("ACKS-UP", "messages", 1)
    js.update("ACKS-UP")
    return {"off": off, "on": js.ack_text("ACKS-UP", "x")}


@catalogue.case("js.update.markers")
def markers(session: Session) -> Observation:
    """Delete markers may be added, with what they turn on, and taken away while TTLs stay."""
    js = jetstream(session, "MARKERS-UP")
    js.create("MARKERS-UP")
    return {
        "on": js.update("MARKERS-UP", subject_delete_marker_ttl=SECOND_NS),
        "off": js.update("MARKERS-UP", allow_msg_ttl=True),
    }


@catalogue.case("js.update.deny-on")
def deny_on(session: Session) -> Observation:
    """Deletes and purges may be denied later, and then they are."""
    js = filled(session, "DENY-UP", 2)
    js.update("DENY-UP", deny_delete=True, deny_purge=True)
    return {
        "delete": js.api("STREAM.MSG.DELETE.DENY-UP", {"seq": 1}),
        "purge": js.api("STREAM.PURGE.DENY-UP"),
    }


@catalogue.case("js.update.compression")
def compression(session: Session) -> Observation:
    """Compression changes for new messages; stored ones are read as before."""
    js = filled(session, "COMPRESS-UP", 1)
    js.update("COMPRESS-UP", compression="s2")
    js.publish("COMPRESS-UP.1", "y" * 100)
    js.update("COMPRESS-UP")
    js.fill("COMPRESS-UP.2")
    messages = [js.api("STREAM.MSG.GET.COMPRESS-UP", {"seq": seq}) for seq in (1, 2, 3)]
    return {"messages": messages, "state": js.state("COMPRESS-UP")}


@catalogue.case(
    "js.update.error.unseal", text="stream configuration update can not unseal a sealed stream"
)
def unseal(session: Session) -> Observation:
    """A sealed stream stays sealed, and the deletes and purges that sealing denied are denied."""
    js = jetstream(session, "UNSEAL")
    js.create("UNSEAL")
    js.update("UNSEAL", sealed=True)
    return {
        "unseal": js.update("UNSEAL", deny_delete=True, deny_purge=True),
        "allow deletes": js.update("UNSEAL", sealed=True, deny_purge=True),
        "allow purge": js.update("UNSEAL", sealed=True, deny_delete=True),
        "allow both": js.update("UNSEAL", sealed=True),
    }


@catalogue.case("js.update.error.leaves-messages")
def leaves_messages(session: Session) -> Observation:
    """A refused update changes nothing, not even the part of it that was valid."""
    js = jetstream(session, "REFUSED-WHOLE")
    js.create("REFUSED-WHOLE")
    js.fill("REFUSED-WHOLE", "REFUSED-WHOLE")
    js.update("REFUSED-WHOLE", max_msgs=1, storage="memory")
    return js.info("REFUSED-WHOLE")
