"""Direct reads of many messages: batches, bounds, and the last messages of many subjects."""

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.direct_get import FAR_AHEAD, LONG_AGO, readable
from tests.interop.jetstream import JETSTREAM
from tests.interop.messages import acks_of_one_write, direct_batch, new_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

SUBJECTS_MAX = 1024

catalogue = Catalogue(JETSTREAM)


@catalogue.case("js.direct.batch")
def batch(session: Session) -> Observation:
    """A batch is so many messages and an end, each with the count of those still pending."""
    js = readable(session, "MANY", "a", "b", "c", "d")
    return direct_batch(js, "MANY", {"seq": 1, "batch": 3})


@catalogue.case("js.direct.batch-end-bytes")
def batch_end_bytes(session: Session) -> Observation:
    """The end of a batch is a status with two headers and no data."""
    js = readable(session, "MANYEND", "a", "b")
    js.send("$JS.API.DIRECT.GET.MANYEND", {"seq": 1, "batch": 1})
    return js.wire.take(2)[-1]


@catalogue.case("js.direct.batch-exact")
def batch_exact(session: Session) -> Observation:
    """A batch of all there is ends with nothing pending, and so does a larger one."""
    js = readable(session, "MANYALL", "a", "b")
    return [direct_batch(js, "MANYALL", {"seq": 1, "batch": size}) for size in (2, 3)]


@catalogue.case("js.direct.batch-of-one")
def batch_of_one(session: Session) -> Observation:
    """A batch of one is a batch, with an end; a batch of zero is none."""
    js = readable(session, "MANYONE", "a", "b")
    return [
        direct_batch(js, "MANYONE", {"seq": 1, "batch": 1}),
        js.direct("MANYONE", {"seq": 1, "batch": 0}),
    ]


@catalogue.case("js.direct.batch-negative")
def batch_negative(session: Session) -> Observation:
    """A negative batch is only its end."""
    js = readable(session, "MANYLESS", "a", "b")
    return direct_batch(js, "MANYLESS", {"seq": 1, "batch": -1})


@catalogue.case("js.direct.batch-deleted")
def batch_deleted(session: Session) -> Observation:
    """A batch skips deleted messages, also at its begin."""
    js = readable(session, "MANYGAPS", "a", "b", "c", "d", "e")
    for seq in (2, 4):
        js.api("STREAM.MSG.DELETE.MANYGAPS", {"seq": seq})
    return [direct_batch(js, "MANYGAPS", {"seq": seq, "batch": 2}) for seq in (1, 2, 4)]


@catalogue.case("js.direct.batch-not-found")
def batch_not_found(session: Session) -> Observation:
    """A batch that finds nothing is one status and no end."""
    js = readable(session, "MANYNONE", "a")
    requests: list[dict[str, object]] = [
        {"seq": 2, "batch": 2},
        {"next_by_subj": "MANYNONE.no", "batch": 2},
        {"start_time": FAR_AHEAD, "batch": 2},
    ]
    return [direct_batch(js, "MANYNONE", request) for request in requests]


@catalogue.case("js.direct.batch-next")
def batch_next(session: Session) -> Observation:
    """A batch of a subject counts the pending messages of the subject."""
    js = readable(session, "MANYNEXT", "a", "b", "a", "b", "a")
    requests: list[dict[str, object]] = [
        {"next_by_subj": "MANYNEXT.a", "batch": 2},
        {"next_by_subj": "MANYNEXT.a", "batch": 9, "seq": 2},
        {"next_by_subj": "MANYNEXT.*", "batch": 2, "seq": 3},
        {"next_by_subj": "MANYNEXT.>", "batch": 1, "start_time": LONG_AGO},
    ]
    return [direct_batch(js, "MANYNEXT", request) for request in requests]


@catalogue.case("js.direct.batch-start-time")
def batch_start_time(session: Session) -> Observation:
    """A batch may begin at a time."""
    js = readable(session, "MANYTIME", "a", "b", "c")
    time = js.api("STREAM.MSG.GET.MANYTIME", {"seq": 2})["message"]["time"]["moment"]
    return [
        direct_batch(js, "MANYTIME", {"start_time": start, "batch": 5})
        for start in (LONG_AGO, time)
    ]


@catalogue.case("js.direct.batch-bytes")
def batch_bytes(session: Session) -> Observation:
    """A bound of bytes ends the batch with the message that reaches it."""
    js = readable(session, "MANYBYTES", "a", "b", "c")
    size = len("MANYBYTES.a") + len("m1")
    return [
        direct_batch(js, "MANYBYTES", {"seq": 1, "batch": 3, "max_bytes": bound})
        for bound in (1, size, size + 1, 2 * size, -1)
    ]


@catalogue.case("js.direct.batch-no-headers")
def batch_no_headers(session: Session) -> Observation:
    """Without headers only the end has a pending count, which is the one before the batch."""
    js = readable(session, "MANYPLAIN", "a", "b", "c")
    return direct_batch(js, "MANYPLAIN", {"seq": 1, "batch": 2, "no_hdr": True})


@catalogue.case("js.direct.batch-up-to")
def batch_up_to(session: Session) -> Observation:
    """Bounds above are for many subjects; a batch passes them over."""
    js = readable(session, "MANYUPTO", "a", "b", "c")
    return direct_batch(js, "MANYUPTO", {"seq": 1, "batch": 3, "up_to_seq": 1})


@catalogue.case("js.direct.multi")
def multi(session: Session) -> Observation:
    """The last messages of many subjects come by sequence; the end tells up to where."""
    js = readable(session, "LASTS", "a", "b", "a", "c", "b")
    return direct_batch(js, "LASTS", {"multi_last": ["LASTS.a", "LASTS.b", "LASTS.c"]})


@catalogue.case("js.direct.multi-end-bytes")
def multi_end_bytes(session: Session) -> Observation:
    """Its end is a status with three headers."""
    js = readable(session, "LASTSEND", "a")
    js.send("$JS.API.DIRECT.GET.LASTSEND", {"multi_last": [">"]})
    return js.wire.take(2)[-1]


@catalogue.case("js.direct.multi-wildcards")
def multi_wildcards(session: Session) -> Observation:
    """Subjects may have wildcards and overlap: each message comes once."""
    js = readable(session, "LASTSTAR", "a.x", "b.x", "a.y", "a.x")
    filters = (["LASTSTAR.*.x"], ["LASTSTAR.a.*", "LASTSTAR.*.x"], [">"], ["*"])
    return [direct_batch(js, "LASTSTAR", {"multi_last": each}) for each in filters]


@catalogue.case("js.direct.multi-none", text="404 No Results")
def multi_none(session: Session) -> Observation:
    """Subjects without messages have no results."""
    js = readable(session, "LASTSNO", "a")
    return [
        js.request_frame("$JS.API.DIRECT.GET.LASTSNO", {"multi_last": ["LASTSNO.b", "else"]}),
        js.request_frame(
            "$JS.API.DIRECT.GET.LASTSNO", {"multi_last": [">"], "up_to_time": LONG_AGO}
        ),
    ]


@catalogue.case("js.direct.multi-of-an-empty-stream")
def multi_of_empty(session: Session) -> Observation:
    """An empty stream, and one that was purged, have no results."""
    js = readable(session, "LASTSVOID")
    seen = [direct_batch(js, "LASTSVOID", {"multi_last": [">"]})]
    js.fill("LASTSVOID.a")
    js.api("STREAM.PURGE.LASTSVOID")
    return [*seen, direct_batch(js, "LASTSVOID", {"multi_last": [">"]})]


@catalogue.case("js.direct.multi-batch")
def multi_batch(session: Session) -> Observation:
    """With a batch so many come, and a next request goes on behind the last sequence."""
    js = readable(session, "LASTSPAGE", "a", "b", "c", "d")
    first = direct_batch(js, "LASTSPAGE", {"multi_last": [">"], "batch": 2})
    rest = {"multi_last": [">"], "batch": 2, "seq": 3, "up_to_seq": 4}
    return [first, direct_batch(js, "LASTSPAGE", rest)]


@catalogue.case("js.direct.multi-seq")
def multi_seq(session: Session) -> Observation:
    """A sequence leaves out the last messages before it."""
    js = readable(session, "LASTSFROM", "a", "b", "a", "c")
    return [
        direct_batch(js, "LASTSFROM", {"multi_last": [">"], "seq": seq}) for seq in (2, 3, 4, 5)
    ]


@catalogue.case("js.direct.multi-up-to-seq")
def multi_up_to_seq(session: Session) -> Observation:
    """Up to a sequence the last messages are those there were then, as far as they are kept."""
    js = readable(session, "LASTSTHEN", "a", "b", "a", "c", "b")
    return [
        direct_batch(js, "LASTSTHEN", {"multi_last": [">"], "up_to_seq": seq})
        for seq in (1, 2, 3, 4)
    ]


@catalogue.case("js.direct.multi-up-to-seq-past-the-end")
def multi_up_to_past_end(session: Session) -> Observation:
    """A sequence still to come is no bound in memory; in files nothing is found."""
    js = readable(session, "LASTSAHEAD", "a", "b")
    new_stream(js, "LASTSAHEADM", allow_direct=True, storage="memory")
    js.fill("LASTSAHEADM.a", "LASTSAHEADM.b")
    return [
        direct_batch(js, name, {"multi_last": [">"], "up_to_seq": 9})
        for name in ("LASTSAHEAD", "LASTSAHEADM")
    ]


@catalogue.case("js.direct.multi-outside")
def multi_outside(session: Session) -> Observation:
    """Bounds that leave nothing: below the first message no results, else an end at once."""
    js = readable(session, "LASTSOUT", "a", "b", "c", "d")
    js.api("STREAM.PURGE.LASTSOUT", {"seq": 3})
    requests: list[dict[str, object]] = [
        {"up_to_seq": 2},
        {"seq": 4, "up_to_seq": 3},
        {"seq": 9},
    ]
    return [direct_batch(js, "LASTSOUT", {"multi_last": [">"], **each}) for each in requests]


@catalogue.case("js.direct.multi-up-to-time")
def multi_up_to_time(session: Session) -> Observation:
    """The last of each subject may be asked for up to a time, without the message of that time."""
    js = readable(session, "LASTSWHEN", "a", "b", "a", "c")
    time = js.api("STREAM.MSG.GET.LASTSWHEN", {"seq": 3})["message"]["time"]["moment"]
    return [
        direct_batch(js, "LASTSWHEN", {"multi_last": [">"], "up_to_time": upto})
        for upto in (time, FAR_AHEAD)
    ]


@catalogue.case("js.direct.multi-bytes")
def multi_bytes(session: Session) -> Observation:
    """A bound of bytes ends it with the message that reaches it."""
    js = readable(session, "LASTSSIZE", "a", "b", "c")
    size = len("LASTSSIZE.a") + len("m1")
    return [
        direct_batch(js, "LASTSSIZE", {"multi_last": [">"], "max_bytes": bound})
        for bound in (1, size + 1)
    ]


@catalogue.case("js.direct.multi-headers")
def multi_headers(session: Session) -> Observation:
    """Messages come with their headers, and are not asked to come without."""
    js = readable(session, "LASTSHEAD")
    js.ack_text("LASTSHEAD.a", "x", {"A": "1"})
    return direct_batch(js, "LASTSHEAD", {"multi_last": [">"], "no_hdr": True})


@catalogue.case("js.direct.multi-deleted")
def multi_deleted(session: Session) -> Observation:
    """When a last message was deleted the one before is the last."""
    js = readable(session, "LASTSGONE", "a", "b", "a")
    js.api("STREAM.MSG.DELETE.LASTSGONE", {"seq": 3})
    return direct_batch(js, "LASTSGONE", {"multi_last": ["LASTSGONE.a"]})


@catalogue.case("js.direct.multi-memory")
def multi_memory(session: Session) -> Observation:
    """A stream in memory answers the same."""
    js = readable(session, "LASTSMEM", "a", "b", "a", storage="memory")
    return direct_batch(js, "LASTSMEM", {"multi_last": ["LASTSMEM.*"]})


@catalogue.case("js.direct.multi-too-many", text="413 Too Many Results")
def multi_too_many(session: Session) -> Observation:
    """1024 subjects are answered; one more is too many, whatever the batch."""
    js = readable(session, "LASTSMOST")
    acks_of_one_write(js, *((f"LASTSMOST.{n}", "", ()) for n in range(SUBJECTS_MAX)))
    most = direct_batch(js, "LASTSMOST", {"multi_last": ["LASTSMOST.*"]})
    js.fill("LASTSMOST.more")
    subject = "$JS.API.DIRECT.GET.LASTSMOST"
    return [
        len(most),
        most[-1],
        js.request_frame(subject, {"multi_last": ["LASTSMOST.*"]}),
        js.request_frame(subject, {"multi_last": ["LASTSMOST.*"], "batch": 1}),
    ]
