"""STREAM.CREATE: what is filled in, what is kept, and what a second create of a name means."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


@catalogue.case("js.create.memory")
def memory(session: Session) -> Observation:
    """A memory stream counts the bytes of a message differently from a file stream."""
    js = jetstream(session, "MEMORY-KIND", "ON-FILE")
    created = js.create("MEMORY-KIND", storage="memory")
    js.create("ON-FILE", storage="file")
    for name in ("MEMORY-KIND", "ON-FILE"):
        js.publish(name, "payload")
        js.publish(f"{name}.h", "payload", {"K": "v"})
    return {"created": created, "memory": js.state("MEMORY-KIND"), "file": js.state("ON-FILE")}


@catalogue.case("js.create.no-ack")
def no_ack(session: Session) -> Observation:
    """A stream without acks stores a publish and does not answer it."""
    js = jetstream(session, "NO-ACK")
    created = js.create("NO-ACK", no_ack=True)
    answer = js.unanswered("NO-ACK", "x")
    return {"created": created, "publish": answer, "state": js.state_when("NO-ACK", "messages", 1)}


@catalogue.case("js.create.first-sequence")
def first_sequence(session: Session) -> Observation:
    """The first message has the first sequence; until then the last is one less."""
    js = jetstream(session, "FIRST-SEQ")
    created = js.create("FIRST-SEQ", first_seq=100)
    empty = js.state("FIRST-SEQ")
    ack = js.ack_text("FIRST-SEQ", "x")
    return {"created": created, "empty": empty, "ack": ack, "after": js.state("FIRST-SEQ")}


@catalogue.case("js.create.first-sequence-one")
def first_sequence_one(session: Session) -> Observation:
    """A first sequence of 0 or 1 changes nothing, though 1 is kept in the configuration."""
    js = jetstream(session, "FIRST-ZERO", "FIRST-ONE")
    return {
        "0": js.create("FIRST-ZERO", first_seq=0),
        "1": js.create("FIRST-ONE", first_seq=1),
        "ack": js.ack_text("FIRST-ONE", "x"),
    }


@catalogue.case("js.create.first-sequence-memory")
def first_sequence_memory(session: Session) -> Observation:
    """A memory stream starts at its first sequence as a file stream does."""
    js = jetstream(session, "FIRST-MEM")
    created = js.create("FIRST-MEM", first_seq=10, storage="memory")
    return {"created": created, "ack": js.ack_text("FIRST-MEM"), "after": js.state("FIRST-MEM")}


@catalogue.case("js.create.subject-transform")
def subject_transform(session: Session) -> Observation:
    """A subject transform is kept, and messages are stored under the subject it makes."""
    js = jetstream(session, "TRANSFORM")
    created = js.create("TRANSFORM", subject_transform={"src": "TRANSFORM.*", "dest": "to.$1"})
    js.fill("TRANSFORM.a", "TRANSFORM")
    stored = [js.api("STREAM.MSG.GET.TRANSFORM", {"seq": seq}) for seq in (1, 2)]
    return {"created": created, "stored": stored}


@catalogue.case("js.create.again-same")
def again_same(session: Session) -> Observation:
    """A create with the same configuration succeeds again and changes nothing."""
    js = jetstream(session, "AGAIN-SAME")
    first = js.create("AGAIN-SAME", max_msgs=5)
    js.fill("AGAIN-SAME")
    second = js.create("AGAIN-SAME", max_msgs=5)
    return {"second": second, "created once": first["created"] == second["created"]}


@catalogue.case("js.create.again-after-update")
def again_after_update(session: Session) -> Observation:
    """After an update it is the new configuration that a create has to repeat."""
    js = jetstream(session, "AGAIN-UPDATED")
    js.create("AGAIN-UPDATED")
    js.update("AGAIN-UPDATED", max_msgs=9)
    return {"old": js.create("AGAIN-UPDATED"), "new": js.create("AGAIN-UPDATED", max_msgs=9)}


@catalogue.case("js.create.after-delete")
def after_delete(session: Session) -> Observation:
    """A name is free again once its stream is deleted, and sequences start again."""
    js = jetstream(session, "REBORN")
    js.create("REBORN")
    js.fill("REBORN", "REBORN")
    js.api("STREAM.DELETE.REBORN")
    return {"created": js.create("REBORN", max_msgs=1), "ack": js.ack_text("REBORN", "x")}


@catalogue.case("js.create.stores-earlier-nothing")
def stores_nothing_earlier(session: Session) -> Observation:
    """A stream stores the messages published from its creation on."""
    js = jetstream(session, "FROM-NOW")
    before = js.publish("FROM-NOW", "early")
    js.create("FROM-NOW")
    return {"before": before, "ack": js.ack_text("FROM-NOW", "x"), "state": js.state("FROM-NOW")}


@catalogue.case(
    "js.create.error.name-missing", text="stream name in subject does not match request"
)
def name_missing(session: Session) -> Observation:
    """The name in the body has to be the one in the subject."""
    js = jetstream(session, "NAMED")
    return {
        "other": js.api("STREAM.CREATE.NAMED", {"name": "OTHER"}),
        "none": js.api("STREAM.CREATE.NAMED", {"subjects": ["named"]}),
        "empty body": js.api("STREAM.CREATE.NAMED"),
        "empty object": js.api("STREAM.CREATE.NAMED", "{}"),
        "other case": js.api("STREAM.CREATE.NAMED", {"name": "named"}),
    }
