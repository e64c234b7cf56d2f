"""Direct reads of one message: by sequence, by subject, by time, and malformed requests."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import DOMAIN, JETSTREAM, JetStreamClient
from tests.interop.messages import ack_of_block, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

LONG_AGO = "2000-01-01T00:00:00Z"
FAR_AHEAD = "2100-01-01T00:00:00Z"


def readable(session: Session, name: str, *subjects: str, **config: object) -> JetStreamClient:
    """A client with a stream that allows direct reads and holds a message to each subject."""
    js = with_stream(session, name, allow_direct=True, **config)
    for number, subject in enumerate(subjects, start=1):
        js.fill(f"{name}.{subject}", payload=f"m{number}")
    return js


@catalogue.case("js.direct.seq")
def by_sequence(session: Session) -> Observation:
    """A message by its sequence comes with stream, subject, sequence and time as headers."""
    js = readable(session, "READ", "a", "b")
    return js.direct("READ", {"seq": 2})


@catalogue.case("js.direct.headers")
def headers(session: Session) -> Observation:
    """A message read directly has its own headers before the server's."""
    js = readable(session, "READHEAD")
    js.ack_text("READHEAD.a", "x", [("A", "1"), ("Nats-Msg-Id", "i"), ("A", "2")])
    return js.direct("READHEAD", {"seq": 1})


@catalogue.case("js.direct.headers-malformed")
def headers_malformed(session: Session) -> Observation:
    """A malformed header block loses its last two bytes; the server's headers follow it."""
    js = readable(session, "READODD")
    ack_of_block(js, "READODD.a", "hello", "x")
    frame = js.request_frame("$JS.API.DIRECT.GET.READODD", {"seq": 1, "no_hdr": False})
    return frame.split("\r\n", 1)[1].split("Nats-Time-Stamp")[0]


@catalogue.case("js.direct.binary")
def binary(session: Session) -> Observation:
    """Payloads come back as they are."""
    js = readable(session, "READBYTES")
    js.ack_text("READBYTES.a", bytes(range(256)))
    return js.direct("READBYTES", {"seq": 1})


@catalogue.case("js.direct.empty-payload")
def empty_payload(session: Session) -> Observation:
    """An empty message is headers only."""
    js = readable(session, "READEMPTY")
    js.ack_text("READEMPTY.a")
    return js.direct("READEMPTY", {"seq": 1})


@catalogue.case("js.direct.memory")
def memory(session: Session) -> Observation:
    """A stream in memory is read in the same way."""
    return readable(session, "READMEM", "a", storage="memory").direct("READMEM", {"seq": 1})


@catalogue.case("js.direct.not-found", text="404 Message Not Found")
def not_found(session: Session) -> Observation:
    """A sequence that is not there, or no longer there, is not found."""
    js = readable(session, "READGONE", "a", "a", "a")
    js.api("STREAM.MSG.DELETE.READGONE", {"seq": 2})
    return [js.request_frame("$JS.API.DIRECT.GET.READGONE", {"seq": seq}) for seq in (2, 4)]


@catalogue.case("js.direct.last")
def last(session: Session) -> Observation:
    """The last message of a subject, which may have wildcards."""
    js = readable(session, "READLAST", "a.x", "b.x", "a.y", "c")
    subjects = ("READLAST.a.x", "READLAST.*.x", "READLAST.a.>", "READLAST.>", ">", "READLAST.no")
    return [js.direct("READLAST", {"last_by_subj": subject}) for subject in subjects]


@catalogue.case("js.direct.last-after-delete")
def last_after_delete(session: Session) -> Observation:
    """When the last one was deleted it is the one before."""
    js = readable(session, "READBACK", "a", "a")
    seen = [js.direct("READBACK", {"last_by_subj": "READBACK.a"})]
    js.api("STREAM.MSG.DELETE.READBACK", {"seq": 2})
    seen.append(js.direct("READBACK", {"last_by_subj": "READBACK.a"}))
    js.api("STREAM.PURGE.READBACK")
    return [*seen, js.direct("READBACK", {"last_by_subj": "READBACK.a"})]


@catalogue.case("js.direct.next")
def following(session: Session) -> Observation:
    """The next message of a subject, from the first or from a sequence on."""
    js = readable(session, "READNEXT", "a", "b", "a", "c")
    requests: list[dict[str, object]] = [
        {"next_by_subj": "READNEXT.a"},
        {"next_by_subj": "READNEXT.a", "seq": 1},
        {"next_by_subj": "READNEXT.a", "seq": 2},
        {"next_by_subj": "READNEXT.a", "seq": 4},
        {"next_by_subj": "READNEXT.*", "seq": 2},
        {"next_by_subj": ">", "seq": 4},
        {"next_by_subj": "READNEXT.no"},
    ]
    return [js.direct("READNEXT", request) for request in requests]


@catalogue.case("js.direct.start-time")
def start_time(session: Session) -> Observation:
    """The first message at or after a time, of the stream or of a subject."""
    js = readable(session, "READTIME", "a", "b")
    requests: list[dict[str, object]] = [
        {"start_time": LONG_AGO},
        {"start_time": FAR_AHEAD},
        {"start_time": LONG_AGO, "next_by_subj": "READTIME.b"},
        {"start_time": FAR_AHEAD, "next_by_subj": "READTIME.b"},
    ]
    return [js.direct("READTIME", request) for request in requests]


@catalogue.case("js.direct.start-time-of-a-message")
def start_time_of_message(session: Session) -> Observation:
    """The exact time of a message finds that message."""
    js = readable(session, "READMOMENT", "a", "b", "c")
    time = js.api("STREAM.MSG.GET.READMOMENT", {"seq": 2})["message"]["time"]["moment"]
    return js.direct("READMOMENT", {"start_time": time})


@catalogue.case("js.direct.start-time-deleted")
def start_time_deleted(session: Session) -> Observation:
    """When the first messages are gone, a time before all finds the first that is left."""
    js = readable(session, "READLEFT", "a", "b", "c")
    js.api("STREAM.MSG.DELETE.READLEFT", {"seq": 1})
    return js.direct("READLEFT", {"start_time": LONG_AGO})


@catalogue.case("js.direct.no-headers")
def no_headers(session: Session) -> Observation:
    """With `no_hdr` a plain message comes: no headers, not even the server's."""
    js = readable(session, "READPLAIN")
    js.ack_text("READPLAIN.a", "x", {"A": "1"})
    subject = "$JS.API.DIRECT.GET.READPLAIN"
    return [
        js.request_frame(subject, {"seq": 1, "no_hdr": True}),
        js.request_frame(subject, {"seq": 2, "no_hdr": True}),
        js.request_frame(f"{subject}.READPLAIN.a", {"no_hdr": True}),
    ]


@catalogue.case("js.direct.empty-request", text="408 Empty Request")
def empty_request(session: Session) -> Observation:
    """A request that asks for nothing is empty."""
    js = readable(session, "READNONE", "a")
    bodies = ("", "{}", '{"seq":0}', '{"last_by_subj":""}', '{"batch":3}', '{"multi_last":[]}')
    return [js.request_frame("$JS.API.DIRECT.GET.READNONE", body) for body in bodies]


@catalogue.case("js.direct.malformed-request", text="408 Malformed Request")
def malformed_request(session: Session) -> Observation:
    """A request that is no JSON of the right types is malformed."""
    js = readable(session, "READBAD", "a")
    bodies = (
        "seq",
        "{",
        "[]",
        '"1"',
        '{"seq":"1"}',
        '{"seq":-1}',
        '{"seq":1.5}',
        '{"seq":1} x',
        '{"last_by_subj":1}',
        '{"multi_last":"a"}',
        '{"start_time":"now"}',
        '{"seq":1,"batch":"2"}',
        '{"seq":1,"no_hdr":1}',
    )
    return [js.direct("READBAD", body) for body in bodies]


@catalogue.case("js.direct.lenient-request")
def lenient_request(session: Session) -> Observation:
    """Unknown keys, other case and nulls pass; of a key that comes twice the last counts."""
    js = readable(session, "READEASY", "a", "b")
    bodies = (
        '{"seq":1,"unknown":true}',
        '{"SEQ":2}',
        '{"seq":1,"last_by_subj":null}',
        '{"seq":1,"seq":2}',
        ' {"seq" : 1}\n',
        "null",
    )
    return [js.direct("READEASY", body) for body in bodies]


@catalogue.case("js.direct.bad-request", text="408 Bad Request")
def bad_request(session: Session) -> Observation:
    """Ways of asking that exclude each other are a bad request."""
    js = readable(session, "READBOTH", "a")
    subject = "READBOTH.a"
    requests: list[dict[str, object]] = [
        {"seq": 1, "last_by_subj": subject},
        {"seq": 1, "start_time": LONG_AGO},
        {"start_time": LONG_AGO, "last_by_subj": subject},
        {"last_by_subj": subject, "next_by_subj": subject},
        {"last_by_subj": subject, "batch": 1},
        {"last_by_subj": subject, "multi_last": [subject]},
        {"next_by_subj": subject, "multi_last": [subject]},
        {"multi_last": [subject], "up_to_seq": 1, "up_to_time": FAR_AHEAD},
        {"seq": 1, "up_to_seq": 1, "up_to_time": FAR_AHEAD},
    ]
    return [js.direct("READBOTH", request) for request in requests]


@catalogue.case("js.direct.ignored-options")
def ignored_options(session: Session) -> Observation:
    """Options that do not matter for a single read are ignored."""
    js = readable(session, "READMORE", "a", "b")
    requests: list[dict[str, object]] = [
        {"seq": 1, "up_to_seq": 1},
        {"seq": 1, "max_bytes": 1},
        {"seq": 2, "up_to_time": LONG_AGO},
        {"last_by_subj": "READMORE.a", "batch": 0},
        {"last_by_subj": "READMORE.a", "max_bytes": 1},
    ]
    return [js.direct("READMORE", request) for request in requests]


@catalogue.case("js.direct.api-level", text="412 Required Api Level")
def api_level(session: Session) -> Observation:
    """A level of the API that is not met is refused before the request is read."""
    js = readable(session, "READLEVEL", "a")
    subject = "$JS.API.DIRECT.GET.READLEVEL"
    return [
        js.request_frame(subject, "{", {"Nats-Required-Api-Level": "99"}),
        js.request_frame(subject, "", {"Nats-Required-Api-Level": "x"}),
        js.request_frame(f"{subject}.READLEVEL.a", "", {"Nats-Required-Api-Level": "99"}),
        js.direct("READLEVEL", {"seq": 1}, {"Nats-Required-Api-Level": "2"}),
    ]


@catalogue.case("js.direct.no-reply")
def no_reply(session: Session) -> Observation:
    """A read without a reply subject is nothing."""
    js = readable(session, "READMUTE", "a")
    js.send_only("$JS.API.DIRECT.GET.READMUTE", {"seq": 1})
    js.send_only("$JS.API.DIRECT.GET.READMUTE", "{")
    return js.wire.exchange()


@catalogue.case("js.direct.not-enabled")
def not_enabled(session: Session) -> Observation:
    """A stream without `allow_direct`, as one that is not there, has no responders."""
    js = with_stream(session, "READNO")
    js.fill("READNO.a")
    return [
        js.request_frame("$JS.API.DIRECT.GET.READNO", {"seq": 1}),
        js.request_frame("$JS.API.DIRECT.GET.READNO.READNO.a"),
        js.request_frame("$JS.API.DIRECT.GET.NOSUCHSTREAM", {"seq": 1}),
    ]


@catalogue.case("js.direct.switched")
def switched(session: Session) -> Observation:
    """An update switches direct reads on and off."""
    js = with_stream(session, "READSWITCH")
    js.fill("READSWITCH.a")
    js.update("READSWITCH", allow_direct=True)
    seen = [js.direct("READSWITCH", {"seq": 1})]
    js.update("READSWITCH", allow_direct=False)
    return [*seen, js.direct("READSWITCH", {"seq": 1})]


@catalogue.case("js.direct.deleted-stream")
def deleted_stream(session: Session) -> Observation:
    """After its stream is deleted a read has no responders."""
    js = readable(session, "READDROP", "a")
    js.api("STREAM.DELETE.READDROP")
    return js.direct("READDROP", {"seq": 1})


@catalogue.case("js.direct.domain", setup=DOMAIN)
def domain(session: Session) -> Observation:
    """Direct reads go through the prefix of the domain too."""
    js = readable(session, "READHUB", "a")
    return [
        js.request("$JS.hub.API.DIRECT.GET.READHUB", {"seq": 1}),
        js.request("$JS.hub.API.DIRECT.GET.READHUB.READHUB.a"),
    ]


@catalogue.case("js.direct.subject")
def by_subject(session: Session) -> Observation:
    """The last message of a subject may be asked for in the subject of the request."""
    js = readable(session, "READSUBJ", "a.b", "a.b", "c")
    subjects = ("READSUBJ.a.b", "READSUBJ.c", "READSUBJ.no", "else")
    return [js.direct(f"READSUBJ.{subject}") for subject in subjects]


@catalogue.case("js.direct.subject-wildcards")
def by_subject_wildcards(session: Session) -> Observation:
    """The subject in the subject of a direct read may have wildcards."""
    js = readable(session, "READSTAR", "a.x", "b.x", "a.y")
    subjects = ("READSTAR.*.x", "READSTAR.a.>", ">", "*")
    return [js.direct(f"READSTAR.{subject}") for subject in subjects]


@catalogue.case("js.direct.subject-body")
def by_subject_body(session: Session) -> Observation:
    """Its body may leave out headers and bound bytes, and may ask for nothing else."""
    js = readable(session, "READBODY", "a")
    bodies = (
        "{}",
        '{"max_bytes":1}',
        '{"no_hdr":false}',
        '{"unknown":1}',
        "{",
        '{"seq":1}',
        '{"seq":0}',
        '{"batch":1}',
        '{"last_by_subj":"READBODY.a"}',
        '{"next_by_subj":"READBODY.a"}',
        '{"multi_last":["READBODY.a"]}',
        f'{{"start_time":"{LONG_AGO}"}}',
        '{"up_to_seq":1}',
        f'{{"up_to_time":"{FAR_AHEAD}"}}',
    )
    return [js.direct("READBODY.READBODY.a", body) for body in bodies]


@catalogue.case("js.direct.sealed")
def sealed(session: Session) -> Observation:
    """A sealed stream is read as any other."""
    js = readable(session, "READSEAL", "a")
    js.update("READSEAL", allow_direct=True, sealed=True)
    return js.direct("READSEAL", {"seq": 1})


@catalogue.case("js.direct.transformed")
def transformed(session: Session) -> Observation:
    """Messages are found by the subject they are stored under."""
    js = readable(session, "READMAP", subject_transform={"src": "READMAP.*", "dest": "far.$1"})
    js.fill("READMAP.a")
    return [js.direct("READMAP.READMAP.a"), js.direct("READMAP.far.a")]
