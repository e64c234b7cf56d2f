"""STREAM.INFO and STREAM.DELETE: the state of a stream, its subjects and its gaps, and its end."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def with_gaps(session: Session, name: str, storage: str = "file") -> JetStreamClient:
    """Six messages on three subjects, the second and the fourth deleted."""
    js = jetstream(session, name)
    js.create(name, storage=storage)
    js.fill(*(f"{name}.{subject}" for subject in "abcabc"))
    for sequence in (2, 4):
        js.api(f"STREAM.MSG.DELETE.{name}", {"seq": sequence})
    return js


@catalogue.case("js.info.whole")
def whole(session: Session) -> Observation:
    """The whole reply for a stream with messages, its leader included."""
    js = jetstream(session, "INFO-WHOLE")
    js.create("INFO-WHOLE")
    js.fill("INFO-WHOLE.a", "INFO-WHOLE.b")
    return js.info("INFO-WHOLE")


@catalogue.case("js.info.not-found")
def not_found(session: Session) -> Observation:
    """A missing stream is an error with the fields of a page, all zero."""
    return jetstream(session).info("NEVER-CREATED")


@catalogue.case("js.info.times")
def times(session: Session) -> Observation:
    """First and last time are those of the first and last message, created is before them."""
    js = jetstream(session, "INFO-TIMES")
    created = js.create("INFO-TIMES")["created"]["moment"]
    js.fill("INFO-TIMES")
    one = js.state("INFO-TIMES")
    js.fill("INFO-TIMES")
    two = js.state("INFO-TIMES")
    stored = [js.api("STREAM.MSG.GET.INFO-TIMES", {"seq": seq})["message"] for seq in (1, 2)]
    return {
        "one message": one["first_ts"] == one["last_ts"],
        "first": two["first_ts"] == stored[0]["time"] == one["first_ts"],
        "last": two["last_ts"] == stored[1]["time"],
        "in order": created[:19] <= two["first_ts"]["moment"][:19] <= two["last_ts"]["moment"][:19],
    }


@catalogue.case("js.info.gaps")
def gaps(session: Session) -> Observation:
    """Deleted messages are counted, and listed when asked for."""
    js = with_gaps(session, "GAPS")
    return {"count": js.state("GAPS"), "list": js.state("GAPS", deleted_details=True)}


@catalogue.case("js.info.gaps-memory")
def gaps_memory(session: Session) -> Observation:
    """A memory stream counts and lists its gaps too."""
    js = with_gaps(session, "GAPS-MEMORY", "memory")
    return js.state("GAPS-MEMORY", deleted_details=True)


@catalogue.case("js.info.gaps-at-the-ends")
def gaps_at_the_ends(session: Session) -> Observation:
    """A deleted first message moves the first sequence and is no gap; a deleted last one is."""
    js = jetstream(session, "GAPS-ENDS")
    js.create("GAPS-ENDS")
    js.fill(*("GAPS-ENDS",) * 4)
    states = []
    for sequence in (1, 4, 3, 2):
        js.api("STREAM.MSG.DELETE.GAPS-ENDS", {"seq": sequence})
        states.append(js.state("GAPS-ENDS", deleted_details=True))
    return states


@catalogue.case("js.info.no-gaps-details")
def no_gaps_details(session: Session) -> Observation:
    """Without gaps the list of them is not there, whether asked for or not."""
    js = jetstream(session, "NO-GAPS")
    js.create("NO-GAPS")
    js.fill("NO-GAPS")
    return js.state("NO-GAPS", deleted_details=True)


@catalogue.case("js.info.subjects")
def subjects(session: Session) -> Observation:
    """A filter lists the subjects that match with their counts, and fills in the page."""
    js = with_gaps(session, "INFO-SUBJECTS")
    filters = (">", "INFO-SUBJECTS.*", "INFO-SUBJECTS.a", "INFO-SUBJECTS.b", "*.c", "*.*.*")
    return {one: js.info("INFO-SUBJECTS", subjects_filter=one) for one in filters}


@catalogue.case("js.info.subjects-no-match")
def subjects_no_match(session: Session) -> Observation:
    """A filter that matches nothing leaves the page as if there had been none."""
    js = with_gaps(session, "INFO-NO-MATCH")
    return {
        "other": js.info("INFO-NO-MATCH", subjects_filter="other.>"),
        "literal": js.info("INFO-NO-MATCH", subjects_filter="INFO-NO-MATCH.z"),
        "empty": js.info("INFO-NO-MATCH", subjects_filter=""),
        "invalid": js.info("INFO-NO-MATCH", subjects_filter="a..b"),
    }


@catalogue.case("js.info.subjects-offset")
def subjects_offset(session: Session) -> Observation:
    """An offset skips subjects in their order; past the end no list is left."""
    js = with_gaps(session, "INFO-OFFSET")
    offsets = (0, 1, 2, 3, 4, -1)
    return {
        str(offset): js.info("INFO-OFFSET", subjects_filter=">", offset=offset)
        for offset in offsets
    }


@catalogue.case("js.info.offset-without-filter")
def offset_without_filter(session: Session) -> Observation:
    """An offset without a filter has no effect."""
    js = with_gaps(session, "INFO-OFFSET-ONLY")
    return js.info("INFO-OFFSET-ONLY", offset=1)


@catalogue.case("js.info.subjects-memory")
def subjects_memory(session: Session) -> Observation:
    """A memory stream lists its subjects as a file stream does."""
    js = with_gaps(session, "INFO-MEM-SUBJ", "memory")
    return js.info("INFO-MEM-SUBJ", subjects_filter="*.*", deleted_details=True)


@catalogue.case("js.info.many-subjects")
def many_subjects(session: Session) -> Observation:
    """`num_subjects` counts subjects that have messages, no more."""
    js = jetstream(session, "INFO-MANY")
    js.create("INFO-MANY")
    js.fill(*(f"INFO-MANY.{index}" for index in range(20)))
    full = js.state("INFO-MANY")["num_subjects"]
    js.api("STREAM.PURGE.INFO-MANY", {"filter": "INFO-MANY.1*"})
    js.api("STREAM.PURGE.INFO-MANY", {"filter": "INFO-MANY.7"})
    return {"full": full, "less": js.state("INFO-MANY")}


@catalogue.case("js.info.bytes")
def byte_count(session: Session) -> Observation:
    """Bytes count subject, headers and payload of each message with the overhead of a file."""
    js = jetstream(session, "INFO-BYTES")
    js.create("INFO-BYTES")
    states = []
    for payload, headers in (("", {}), ("12345", {}), ("12345", {"A": "b"}), ("x" * 1000, {})):
        js.publish("INFO-BYTES.s", payload, headers)
        states.append(js.state("INFO-BYTES")["bytes"])
    return states


@catalogue.case("js.delete.gone")
def deleted(session: Session) -> Observation:
    """A deleted stream is gone from every call, and its subjects have no responder."""
    js = jetstream(session, "DELETED")
    js.create("DELETED", allow_direct=True)
    js.fill("DELETED")
    return {
        "delete": js.api("STREAM.DELETE.DELETED"),
        "again": js.api("STREAM.DELETE.DELETED"),
        "update": js.update("DELETED"),
        "purge": js.api("STREAM.PURGE.DELETED"),
        "get": js.api("STREAM.MSG.GET.DELETED", {"seq": 1}),
        "delete message": js.api("STREAM.MSG.DELETE.DELETED", {"seq": 1}),
        "direct": js.direct("DELETED", {"seq": 1}),
        "publish": js.publish("DELETED", "x"),
        "names": js.api("STREAM.NAMES", {"subject": "DELETED"}),
    }


@catalogue.case("js.delete.body", text="expected an empty request payload")
def delete_body(session: Session) -> Observation:
    """A delete has no body; one that has is refused and nothing is deleted."""
    js = jetstream(session, "DELETE-BODY")
    js.create("DELETE-BODY")
    refused = js.api("STREAM.DELETE.DELETE-BODY", {"name": "DELETE-BODY"})
    return {"refused": refused, "state": js.state("DELETE-BODY")}


@catalogue.case("js.delete.sealed")
def delete_sealed(session: Session) -> Observation:
    """Neither a seal nor denied deletes and purges keep a stream from being deleted."""
    js = jetstream(session, "DELETE-SEALED")
    js.create("DELETE-SEALED", deny_delete=True, deny_purge=True)
    js.update("DELETE-SEALED", sealed=True, deny_delete=True, deny_purge=True)
    return js.api("STREAM.DELETE.DELETE-SEALED")


@catalogue.case("js.delete.frees-subjects")
def delete_frees_subjects(session: Session) -> Observation:
    """The subjects of a deleted stream are free for another."""
    js = jetstream(session, "HELD", "HEIR")
    js.create("HELD", subjects=["held-subject"])
    held = js.create("HEIR", subjects=["held-subject"])
    js.api("STREAM.DELETE.HELD")
    return {"held": held, "free": js.create("HEIR", subjects=["held-subject"])}
