"""STREAM.MSG.GET and STREAM.MSG.DELETE: single messages, read and removed through the API."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, Reply, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def six(session: Session, name: str, **config: object) -> JetStreamClient:
    """Six messages on `a`, `b`, `c` in turn, their payloads their sequences."""
    js = jetstream(session, name)
    js.create(name, **config)
    for index, subject in enumerate("abcabc"):
        js.publish(f"{name}.{subject}", str(index + 1))
    return js


def got(js: JetStreamClient, name: str, **request: object) -> Reply:
    """The message of a get, or the error."""
    reply = js.api(f"STREAM.MSG.GET.{name}", request)
    told: Reply = reply.get("message") or reply["error"]
    return told


@catalogue.case("js.get.sequence")
def by_sequence(session: Session) -> Observation:
    """A message by its sequence: subject, data in base64, time, and no headers if it has none."""
    js = six(session, "GET-SEQ")
    return js.api("STREAM.MSG.GET.GET-SEQ", {"seq": 2})


@catalogue.case("js.get.headers")
def with_headers(session: Session) -> Observation:
    """Headers come in base64 as they were sent, unless they are not wanted."""
    js = jetstream(session, "GET-HEADERS")
    js.create("GET-HEADERS")
    js.publish("GET-HEADERS", "body", (("A", "1"), ("a", "2"), ("A", "3"), ("Empty", "")))
    return {
        "with": got(js, "GET-HEADERS", seq=1),
        "without": got(js, "GET-HEADERS", seq=1, no_hdr=True),
    }


@catalogue.case("js.get.empty-payload")
def empty_payload(session: Session) -> Observation:
    """A message without payload has no data at all."""
    js = jetstream(session, "GET-EMPTY")
    js.create("GET-EMPTY")
    js.publish("GET-EMPTY", "")
    js.publish("GET-EMPTY", "", {"A": "1"})
    return [got(js, "GET-EMPTY", seq=1), got(js, "GET-EMPTY", seq=2)]


@catalogue.case("js.get.binary")
def binary(session: Session) -> Observation:
    """Any bytes come back as they were."""
    js = jetstream(session, "GET-BINARY")
    js.create("GET-BINARY")
    js.publish("GET-BINARY", bytes(range(256)))
    return got(js, "GET-BINARY", seq=1)


@catalogue.case("js.get.not-found", text="no message found")
def not_found(session: Session) -> Observation:
    """A sequence that is not there: past the last, deleted, purged."""
    js = six(session, "GET-NONE")
    js.api("STREAM.MSG.DELETE.GET-NONE", {"seq": 3})
    js.api("STREAM.PURGE.GET-NONE", {"seq": 2})
    return [got(js, "GET-NONE", seq=seq) for seq in (1, 3, 7, 2**64 - 1)]


@catalogue.case("js.get.last-by-subject")
def last_by_subject(session: Session) -> Observation:
    """The last message of a subject, or of all subjects a wildcard matches."""
    js = six(session, "GET-LAST")
    subjects = ("GET-LAST.a", "GET-LAST.*", "*.b", ">", "GET-LAST.z", "GET-LAST", "a..b")
    return {subject: got(js, "GET-LAST", last_by_subj=subject) for subject in subjects}


@catalogue.case("js.get.last-by-subject-memory")
def last_by_subject_memory(session: Session) -> Observation:
    """A memory stream finds last messages by the same rules."""
    js = six(session, "GET-LAST-MEM", storage="memory")
    subjects = ("GET-LAST-MEM.a", "GET-LAST-MEM.*", ">", "GET-LAST-MEM.z", "GET-LAST-MEM")
    return {subject: got(js, "GET-LAST-MEM", last_by_subj=subject) for subject in subjects}


@catalogue.case("js.get.last-after-delete")
def last_after_delete(session: Session) -> Observation:
    """When the last message of a subject is deleted, the one before it is the last."""
    js = six(session, "GET-LAST-DEL")
    js.api("STREAM.MSG.DELETE.GET-LAST-DEL", {"seq": 4})
    before = got(js, "GET-LAST-DEL", last_by_subj="GET-LAST-DEL.a")
    js.api("STREAM.MSG.DELETE.GET-LAST-DEL", {"seq": 1})
    return [before, got(js, "GET-LAST-DEL", last_by_subj="GET-LAST-DEL.a")]


@catalogue.case("js.get.next-by-subject")
def next_by_subject(session: Session) -> Observation:
    """The first message of a subject from a sequence on, which is the first without one."""
    js = six(session, "GET-NEXT")
    asked: tuple[dict[str, object], ...] = (
        {"next_by_subj": "GET-NEXT.b"},
        {"next_by_subj": "GET-NEXT.b", "seq": 2},
        {"next_by_subj": "GET-NEXT.b", "seq": 3},
        {"next_by_subj": "GET-NEXT.b", "seq": 6},
        {"next_by_subj": "GET-NEXT.*", "seq": 4},
        {"next_by_subj": ">", "seq": 7},
        {"next_by_subj": "GET-NEXT.z"},
        {"next_by_subj": "GET-NEXT.>", "seq": 100},
    )
    return [got(js, "GET-NEXT", **one) for one in asked]


@catalogue.case("js.get.next-skips-deleted")
def next_skips_deleted(session: Session) -> Observation:
    """A next message is looked for past those that are gone."""
    js = six(session, "GET-SKIP")
    js.api("STREAM.MSG.DELETE.GET-SKIP", {"seq": 2})
    return [
        got(js, "GET-SKIP", next_by_subj="GET-SKIP.b", seq=1),
        got(js, "GET-SKIP", next_by_subj=">", seq=2),
    ]


@catalogue.case("js.get.start-time")
def start_time(session: Session) -> Observation:
    """A time finds the first message of that time or later."""
    js = six(session, "GET-TIME")
    third = got(js, "GET-TIME", seq=3)["time"]["moment"]
    return {
        "long ago": got(js, "GET-TIME", start_time="2001-01-01T00:00:00Z"),
        "exactly": got(js, "GET-TIME", start_time=third),
        "subject": got(js, "GET-TIME", start_time=third, next_by_subj="GET-TIME.a"),
        "future": got(js, "GET-TIME", start_time="2100-01-01T00:00:00Z"),
        "zone": got(js, "GET-TIME", start_time="2001-01-01T00:00:00+02:00"),
        "zero": got(js, "GET-TIME", start_time="0001-01-01T00:00:00Z"),
    }


@catalogue.case("js.get.bad-requests")
def bad_requests(session: Session) -> Observation:
    """A get names one message by one way; the batches of direct gets are not for it."""
    js = six(session, "GET-BAD")
    time = "2001-01-01T00:00:00Z"
    asked: tuple[dict[str, object], ...] = (
        {"seq": 0},
        {"no_hdr": True},
        {"seq": 1, "last_by_subj": "GET-BAD.a"},
        {"seq": 1, "start_time": time},
        {"last_by_subj": "GET-BAD.a", "start_time": time},
        {"last_by_subj": "GET-BAD.a", "next_by_subj": "GET-BAD.a"},
        {"seq": 1, "batch": 1},
        {"seq": 1, "max_bytes": 1},
        {"seq": 1, "batch": 0},
        {"multi_last": ["GET-BAD.a"]},
        {"seq": 1, "up_to_seq": 5},
        {"seq": 1, "multi_last": ["GET-BAD.a"]},
    )
    return [got(js, "GET-BAD", **one) for one in asked]


@catalogue.case("js.get.no-stream")
def no_stream(session: Session) -> Observation:
    """Bad requests are refused before a missing stream is."""
    js = jetstream(session)
    return {
        "get": js.api("STREAM.MSG.GET.NO-SUCH-STREAM", {"seq": 1}),
        "empty": js.api("STREAM.MSG.GET.NO-SUCH-STREAM"),
        "bad": js.api("STREAM.MSG.GET.NO-SUCH-STREAM", {"seq": 1, "last_by_subj": "x"}),
    }


@catalogue.case("js.get.empty-stream")
def empty_stream(session: Session) -> Observation:
    """In an empty stream nothing is found by any way."""
    js = jetstream(session, "GET-FROM-EMPTY")
    js.create("GET-FROM-EMPTY")
    asked: tuple[dict[str, object], ...] = (
        {"seq": 1},
        {"last_by_subj": ">"},
        {"next_by_subj": ">"},
        {"start_time": "2001-01-01T00:00:00Z"},
    )
    return [got(js, "GET-FROM-EMPTY", **one) for one in asked]


@catalogue.case("js.message-delete.found")
def delete(session: Session) -> Observation:
    """A deleted message leaves a gap; its bytes are given back."""
    js = six(session, "DEL")
    before = js.state("DEL")
    reply = js.api("STREAM.MSG.DELETE.DEL", {"seq": 3})
    return {"before": before, "reply": reply, "after": js.state("DEL", deleted_details=True)}


@catalogue.case("js.message-delete.no-erase")
def delete_no_erase(session: Session) -> Observation:
    """Deleting without overwriting looks the same from outside."""
    js = six(session, "DEL-KEEP")
    reply = js.api("STREAM.MSG.DELETE.DEL-KEEP", {"seq": 3, "no_erase": True})
    return {
        "reply": reply,
        "get": got(js, "DEL-KEEP", seq=3),
        "after": js.state("DEL-KEEP", deleted_details=True),
    }


@catalogue.case("js.message-delete.memory")
def delete_memory(session: Session) -> Observation:
    """A memory stream deletes by the same rules."""
    js = six(session, "DEL-MEM", storage="memory")
    replies = [js.api("STREAM.MSG.DELETE.DEL-MEM", {"seq": seq}) for seq in (1, 3, 3, 6)]
    return {"replies": replies, "after": js.state("DEL-MEM", deleted_details=True)}


@catalogue.case("js.message-delete.missing", text="sequence 3 not found")
def delete_missing(session: Session) -> Observation:
    """A sequence that is gone has another error than one before the first or past the last."""
    js = six(session, "DEL-MISSING")
    js.api("STREAM.MSG.DELETE.DEL-MISSING", {"seq": 3})
    js.api("STREAM.PURGE.DEL-MISSING", {"seq": 2})
    return [
        js.api("STREAM.MSG.DELETE.DEL-MISSING", {"seq": seq, "no_erase": no_erase})
        for seq in (1, 3, 9)
        for no_erase in (False, True)
    ]


@catalogue.case("js.message-delete.missing-memory")
def delete_missing_memory(session: Session) -> Observation:
    """A memory stream has one error for every sequence that is not there."""
    js = six(session, "DEL-MISSING-MEM", storage="memory")
    js.api("STREAM.MSG.DELETE.DEL-MISSING-MEM", {"seq": 3})
    js.api("STREAM.PURGE.DEL-MISSING-MEM", {"seq": 2})
    return [
        js.api("STREAM.MSG.DELETE.DEL-MISSING-MEM", {"seq": seq, "no_erase": no_erase})
        for seq in (0, 1, 3, 9)
        for no_erase in (False, True)
    ]


@catalogue.case("js.message-delete.empty-stream", text="stream store EOF")
def delete_from_empty(session: Session) -> Observation:
    """In a stream that never had a message every sequence is past the last."""
    js = jetstream(session, "DEL-EMPTY")
    js.create("DEL-EMPTY")
    never = js.api("STREAM.MSG.DELETE.DEL-EMPTY", {"seq": 1})
    js.fill("DEL-EMPTY")
    js.api("STREAM.PURGE.DEL-EMPTY")
    return {"never": never, "purged": js.api("STREAM.MSG.DELETE.DEL-EMPTY", {"seq": 1})}


@catalogue.case("js.message-delete.zero")
def delete_zero(session: Session) -> Observation:
    """Sequence zero, given or not, is a sequence that is not there."""
    js = six(session, "DEL-ZERO")
    return [
        js.api("STREAM.MSG.DELETE.DEL-ZERO", {"seq": 0}),
        js.api("STREAM.MSG.DELETE.DEL-ZERO", {"no_erase": True}),
    ]


@catalogue.case("js.message-delete.first-and-last")
def delete_first_and_last(session: Session) -> Observation:
    """Deleting from both ends: the first moves, the last sequence and its number never do."""
    js = six(session, "DEL-ENDS")
    states = []
    for seq in (6, 1, 2, 5, 4, 3):
        js.api("STREAM.MSG.DELETE.DEL-ENDS", {"seq": seq})
        states.append(js.state("DEL-ENDS", deleted_details=True))
    return {"states": states, "ack": js.ack_text("DEL-ENDS.a", "x")}


@catalogue.case("js.message-delete.denied", text="message delete not permitted")
def delete_denied(session: Session) -> Observation:
    """A stream that denies deletes keeps its messages; a missing message does not matter."""
    js = six(session, "DEL-DENIED", deny_delete=True)
    return [js.api("STREAM.MSG.DELETE.DEL-DENIED", {"seq": seq}) for seq in (1, 99)]


@catalogue.case("js.message-delete.no-stream")
def delete_no_stream(session: Session) -> Observation:
    """An empty body is refused before a missing stream is."""
    js = jetstream(session)
    return {
        "delete": js.api("STREAM.MSG.DELETE.NO-SUCH-STREAM", {"seq": 1}),
        "empty": js.api("STREAM.MSG.DELETE.NO-SUCH-STREAM"),
    }


@catalogue.case("js.message-delete.subject-gone")
def delete_subject_gone(session: Session) -> Observation:
    """With its last message a subject goes from the list of subjects."""
    js = six(session, "DEL-SUBJECT")
    for seq in (1, 4):
        js.api("STREAM.MSG.DELETE.DEL-SUBJECT", {"seq": seq})
    return js.state("DEL-SUBJECT", subjects_filter=">")
