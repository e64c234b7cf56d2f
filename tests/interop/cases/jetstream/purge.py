"""STREAM.PURGE: all of a stream, or part of it by subject, by sequence, or all but the newest."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def nine(session: Session, name: str, storage: str = "file") -> JetStreamClient:
    """Nine messages on three subjects in turn: `a` is 1, 4, 7, `b` is 2, 5, 8, `c` the rest."""
    js = jetstream(session, name)
    js.create(name, storage=storage)
    js.fill(*(f"{name}.{subject}" for subject in "abcabcabc"))
    return js


def purged(js: JetStreamClient, name: str, **request: object) -> Observation:
    """The reply to a purge, and the messages left."""
    reply = js.api(f"STREAM.PURGE.{name}", request or None)
    left = js.state(name, deleted_details=True, subjects_filter=">")
    return {"reply": reply, "left": left}


@catalogue.case("js.purge.all")
def everything(session: Session) -> Observation:
    """A purge removes all; the first sequence is the next one, the last time stays."""
    js = nine(session, "PURGE-ALL")
    return {"purge": purged(js, "PURGE-ALL"), "ack": js.ack_text("PURGE-ALL", "x")}


@catalogue.case("js.purge.all-memory")
def everything_memory(session: Session) -> Observation:
    """A memory stream is left by a purge as a file stream is."""
    js = nine(session, "PURGE-MEM", "memory")
    return {"purge": purged(js, "PURGE-MEM"), "ack": js.ack_text("PURGE-MEM", "x")}


@catalogue.case("js.purge.empty")
def empty(session: Session) -> Observation:
    """Purging an empty stream succeeds, once and again."""
    js = jetstream(session, "PURGE-EMPTY")
    js.create("PURGE-EMPTY")
    return [purged(js, "PURGE-EMPTY"), purged(js, "PURGE-EMPTY", seq=5)]


@catalogue.case("js.purge.never-filled")
def never_filled(session: Session) -> Observation:
    """A purge of a stream that never had a message begins its sequences only if it is of all."""
    requests: tuple[dict[str, object], ...] = (
        {"filter": "other"},
        {"filter": "*.>"},
        {"filter": ">"},
        {"filter": ">", "keep": 1},
        {"filter": ">", "seq": 1},
        {"filter": ">", "seq": 2},
        {"filter": "other", "seq": 5},
        {"keep": 1},
        {"seq": 1},
        {"seq": 2},
    )
    seen: list[Observation] = []
    for number, request in enumerate(requests):
        name = f"PURGE-NEVER-{number}"
        js = jetstream(session, name)
        js.create(name, storage="memory" if number % 2 else "file")
        reply = js.api(f"STREAM.PURGE.{name}", request)
        seen.append({"reply": reply, "left": js.state(name)})
    return seen


@catalogue.case("js.purge.filter")
def filtered(session: Session) -> Observation:
    """A filter removes the messages of the subjects it matches."""
    js = nine(session, "PURGE-FILTER")
    return [
        purged(js, "PURGE-FILTER", filter="PURGE-FILTER.b"),
        purged(js, "PURGE-FILTER", filter="PURGE-FILTER.b"),
        purged(js, "PURGE-FILTER", filter="*.c"),
        purged(js, "PURGE-FILTER", filter="other"),
        purged(js, "PURGE-FILTER", filter=">"),
    ]


@catalogue.case("js.purge.filter-first")
def filter_first(session: Session) -> Observation:
    """Removing the first messages by subject moves the first sequence to the next left."""
    js = jetstream(session, "PURGE-FIRST")
    js.create("PURGE-FIRST")
    js.fill(*(f"PURGE-FIRST.{subject}" for subject in "aabba"))
    return purged(js, "PURGE-FIRST", filter="PURGE-FIRST.a")


@catalogue.case("js.purge.filter-invalid")
def filter_invalid(session: Session) -> Observation:
    """A filter that is no subject matches nothing."""
    js = nine(session, "PURGE-INVALID")
    return [purged(js, "PURGE-INVALID", filter=one) for one in ("a..b", "a b", ".")]


@catalogue.case("js.purge.sequence")
def sequence(session: Session) -> Observation:
    """A purge up to a sequence removes the messages before it."""
    js = nine(session, "PURGE-SEQ")
    return [purged(js, "PURGE-SEQ", seq=one) for one in (1, 4, 4, 9)]


@catalogue.case("js.purge.sequence-past-last")
def sequence_past_last(session: Session) -> Observation:
    """A sequence past the last removes all and moves the next message there."""
    js = nine(session, "PURGE-PAST")
    return {"purge": purged(js, "PURGE-PAST", seq=100), "ack": js.ack_text("PURGE-PAST", "x")}


@catalogue.case("js.purge.sequence-past-last-memory")
def sequence_past_last_memory(session: Session) -> Observation:
    """In memory a sequence past the last moves the next message too."""
    js = nine(session, "PURGE-PAST-MEM", "memory")
    purge = purged(js, "PURGE-PAST-MEM", seq=100)
    return {"purge": purge, "ack": js.ack_text("PURGE-PAST-MEM", "x")}


@catalogue.case("js.purge.sequence-next")
def sequence_next(session: Session) -> Observation:
    """The sequence after the last removes all and moves nothing."""
    js = nine(session, "PURGE-NEXT")
    return {"purge": purged(js, "PURGE-NEXT", seq=10), "ack": js.ack_text("PURGE-NEXT", "x")}


@catalogue.case("js.purge.keep")
def keep(session: Session) -> Observation:
    """A number to keep removes all but so many of the newest."""
    js = nine(session, "PURGE-KEEP")
    return [purged(js, "PURGE-KEEP", keep=one) for one in (20, 9, 4, 1)]


@catalogue.case("js.purge.keep-with-gaps")
def keep_with_gaps(session: Session) -> Observation:
    """The messages to keep are counted as messages, not as sequences."""
    js = nine(session, "PURGE-KEEP-GAPS")
    for one in (6, 8):
        js.api("STREAM.MSG.DELETE.PURGE-KEEP-GAPS", {"seq": one})
    return purged(js, "PURGE-KEEP-GAPS", keep=3)


@catalogue.case("js.purge.keep-zero")
def keep_zero(session: Session) -> Observation:
    """To keep none, or from sequence zero on, is to purge all."""
    js = nine(session, "PURGE-KEEP-0")
    first = purged(js, "PURGE-KEEP-0", keep=0)
    js.fill("PURGE-KEEP-0")
    return {"keep": first, "sequence": purged(js, "PURGE-KEEP-0", seq=0)}


@catalogue.case("js.purge.filter-and-sequence")
def filter_and_sequence(session: Session) -> Observation:
    """With both, the messages of the subjects that are before the sequence are removed."""
    js = nine(session, "PURGE-BOTH-SEQ")
    return [
        purged(js, "PURGE-BOTH-SEQ", filter="PURGE-BOTH-SEQ.a", seq=7),
        purged(js, "PURGE-BOTH-SEQ", filter="PURGE-BOTH-SEQ.a", seq=1),
        purged(js, "PURGE-BOTH-SEQ", filter="PURGE-BOTH-SEQ.*", seq=6),
        purged(js, "PURGE-BOTH-SEQ", filter="PURGE-BOTH-SEQ.b", seq=100),
    ]


@catalogue.case("js.purge.filter-and-keep")
def filter_and_keep(session: Session) -> Observation:
    """With a number to keep, so many of the newest that match are left, over all subjects."""
    js = nine(session, "PURGE-BOTH-KEEP")
    return [
        purged(js, "PURGE-BOTH-KEEP", filter="PURGE-BOTH-KEEP.a", keep=1),
        purged(js, "PURGE-BOTH-KEEP", filter="PURGE-BOTH-KEEP.*", keep=2),
        purged(js, "PURGE-BOTH-KEEP", filter="PURGE-BOTH-KEEP.z", keep=2),
    ]


@catalogue.case("js.purge.all-subjects-filter")
def all_subjects_filter(session: Session) -> Observation:
    """A filter for everything is as good as none, with a sequence and with a number to keep."""
    js = nine(session, "PURGE-FWC")
    return [
        purged(js, "PURGE-FWC", filter=">", seq=3),
        purged(js, "PURGE-FWC", filter=">", keep=4),
        purged(js, "PURGE-FWC", filter="", keep=2),
        purged(js, "PURGE-FWC", filter=">", seq=50),
    ]


@catalogue.case("js.purge.sequence-and-keep", text="bad request")
def sequence_and_keep(session: Session) -> Observation:
    """A sequence and a number to keep contradict each other."""
    js = nine(session, "PURGE-BAD")
    return purged(js, "PURGE-BAD", seq=5, keep=5)


@catalogue.case("js.purge.denied", text="stream purge not permitted")
def denied(session: Session) -> Observation:
    """A stream that denies purges is purged by no form of it."""
    js = jetstream(session, "PURGE-DENIED")
    js.create("PURGE-DENIED", deny_purge=True)
    js.fill("PURGE-DENIED")
    return [purged(js, "PURGE-DENIED"), purged(js, "PURGE-DENIED", keep=1)]


@catalogue.case("js.purge.sealed")
def sealed(session: Session) -> Observation:
    """A sealed stream is not purged, nor are its messages deleted; they can be read."""
    js = nine(session, "PURGE-SEALED")
    js.update("PURGE-SEALED", sealed=True)
    return {
        "purge": purged(js, "PURGE-SEALED"),
        "delete": js.api("STREAM.MSG.DELETE.PURGE-SEALED", {"seq": 1}),
        "get": js.api("STREAM.MSG.GET.PURGE-SEALED", {"seq": 1}),
    }


@catalogue.case("js.purge.usage", own_server=True)
def usage(session: Session) -> Observation:
    """The bytes of purged messages are given back to the account."""
    js = nine(session, "PURGE-USAGE")
    before = js.api("INFO")["storage"]
    js.api("STREAM.PURGE.PURGE-USAGE", {"keep": 1})
    return {"before": before, "after": js.api("INFO")["storage"]}


@catalogue.case("js.purge.message-id-remembered")
def message_id_remembered(session: Session) -> Observation:
    """A purge does not make the server forget message ids: a repeat is still a duplicate."""
    js = jetstream(session, "PURGE-IDS")
    js.create("PURGE-IDS")
    first = js.ack_text("PURGE-IDS", "x", {"Nats-Msg-Id": "one"})
    js.api("STREAM.PURGE.PURGE-IDS")
    return {"first": first, "again": js.ack_text("PURGE-IDS", "x", {"Nats-Msg-Id": "one"})}
