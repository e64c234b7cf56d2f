"""CONSUMER.CREATE: the forms of the call, the defaults it fills in, and a consumer's start.

The errors of a form of the call are here; those of a configuration have a module of their own.
"""

import re

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_create_errors import LIMITED_SERVER
from tests.interop.consumers import (
    consumer_info,
    create_consumer,
    fetch,
    new_durable,
    opened_json,
)
from tests.interop.jetstream import API, DOMAIN, JETSTREAM, JetStreamClient, jetstream
from tests.interop.messages import with_stream
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

IDENTITY = "Nats-Stream-Identity"
_DRAWN = re.compile(r"[0-9A-Za-z]{8}")


def is_drawn(value: Observation) -> bool:
    return isinstance(value, str) and _DRAWN.fullmatch(value) is not None


def made(session: Session, stream: str, **config: object) -> Observation:
    """The reply about a consumer `C` of a new, empty stream, and its INFO."""
    js = with_stream(session, stream)
    created = create_consumer(js, stream, "C", None, **config)
    return {"created": created, "info": consumer_info(js, stream, "C")}


@catalogue.case("js.consumer.default.server-limits", setup=LIMITED_SERVER)
def server_limits(session: Session) -> Observation:
    """The limits of a server are the defaults, too: acks pending, and the batch of a pull."""
    js = with_stream(session, "MADE-SERVER")
    return {
        "pull": create_consumer(js, "MADE-SERVER", "A", ack_policy="explicit"),
        "push": create_consumer(
            js, "MADE-SERVER", "B", ack_policy="explicit", deliver_subject="made.server"
        ),
    }


def asked(js: JetStreamClient, call: str, stream: str, **config: object) -> Observation:
    return js.api(f"CONSUMER.{call}", {"stream_name": stream, "config": config})


@catalogue.case("js.consumer.form.name-in-subject")
def form_name_in_subject(session: Session) -> Observation:
    """A name in the subject is the name, whatever the name in the body is."""
    js = with_stream(session, "SUBJECT-NAMED")
    return {
        "alone": asked(js, "CREATE.SUBJECT-NAMED.A", "SUBJECT-NAMED"),
        "another": asked(js, "CREATE.SUBJECT-NAMED.B", "SUBJECT-NAMED", name="C"),
        "durable": asked(js, "CREATE.SUBJECT-NAMED.D", "SUBJECT-NAMED", durable_name="D"),
        "names": js.api("CONSUMER.NAMES.SUBJECT-NAMED"),
    }


@catalogue.case("js.consumer.form.filter")
def form_filter(session: Session) -> Observation:
    """The filter may follow the name, wildcards and all."""
    js = with_stream(session, "FILTER-FORM")
    js.fill("FILTER-FORM.a", "FILTER-FORM.a.b", "FILTER-FORM.c")
    filters = ("FILTER-FORM.a", "FILTER-FORM.*", "FILTER-FORM.a.>", ">")
    return {
        each: asked(js, f"CREATE.FILTER-FORM.C{index}.{each}", "FILTER-FORM", filter_subject=each)
        for index, each in enumerate(filters)
    }


@catalogue.case("js.consumer.form.odd-names")
def form_odd_names(session: Session) -> Observation:
    """A name may have any letter but blanks, dots, wildcards and slashes."""
    js = with_stream(session, "ODD-NAMES")
    names = ("%d", "$JS", "a-b_c=d", "é", "DURABLE", "1")
    replies = [asked(js, "CREATE.ODD-NAMES", "ODD-NAMES", name=name) for name in names]
    return {"replies": replies, "names": js.api("CONSUMER.NAMES.ODD-NAMES")}


@catalogue.case("js.consumer.form.unanswered")
def form_unanswered(session: Session) -> Observation:
    """A call with a token too few or too many is not answered."""
    js = with_stream(session, "TOKENS")
    calls = (
        "CREATE",
        "DURABLE.CREATE.TOKENS",
        "DURABLE.CREATE.TOKENS.C.TOKENS.a",
        "INFO.TOKENS",
        "INFO.TOKENS.C.X",
        "DELETE.TOKENS",
        "DELETE.TOKENS.C.X",
        "NAMES",
        "NAMES.TOKENS.X",
        "LIST",
        "LIST.TOKENS.X",
        "PAUSE.TOKENS",
        "PAUSE.TOKENS.C.X",
        "UNPIN.TOKENS",
        "RESET.TOKENS",
        "UPDATE.TOKENS.C",
    )
    return {call: js.unanswered(f"{API}CONSUMER.{call}") for call in calls}


@catalogue.case("js.consumer.form.domain", setup=DOMAIN)
def form_domain(session: Session) -> Observation:
    """In a domain consumers are made through its prefix; the reply does not name it."""
    js = jetstream(session, "DOMAIN-FORM", prefix="$JS.hub.API.")
    js.create("DOMAIN-FORM")
    return {
        "made": asked(js, "CREATE.DOMAIN-FORM.C", "DOMAIN-FORM"),
        "info": js.request("$JS.API.CONSUMER.INFO.DOMAIN-FORM.C"),
    }


@catalogue.case("js.consumer.error.stream-missing")
def stream_missing(session: Session) -> Observation:
    """A consumer needs its stream, and the configuration is not looked at before."""
    js = jetstream(session, "NO-STREAM")
    body = {"stream_name": "NO-STREAM", "config": {"durable_name": "C", "ack_wait": -1}}
    calls = ("CREATE.NO-STREAM.C", "DURABLE.CREATE.NO-STREAM.C")
    return {call: js.api(f"CONSUMER.{call}", body) for call in calls}


@catalogue.case("js.consumer.create.bytes")
def reply_bytes(session: Session) -> Observation:
    """The reply to a create, byte for byte but for its times: the order of its keys is fixed."""
    js = with_stream(session, "CREATE-BYTES")
    config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "<&>"}
    body = {"stream_name": "CREATE-BYTES", "config": config}
    frame = js.request_frame(f"{API}CONSUMER.CREATE.CREATE-BYTES.C", body)
    timeless = re.sub(r'"[0-9]{4}-[0-9T:.-]+Z"', '"time"', frame.split("\r\n", 1)[1])
    return re.sub(r'"2\.15\.[0-9]+"', '"version"', timeless)


@catalogue.case("js.consumer.create.again")
def again(session: Session) -> Observation:
    """Every action on an existing durable is answered with its state; it keeps its place."""
    js = with_stream(session, "MADE-AGAIN")
    js.fill("MADE-AGAIN.a", "MADE-AGAIN.b", "MADE-AGAIN.c")
    first = new_durable(js, "MADE-AGAIN", "C")
    fetch(js, "MADE-AGAIN", "C", 2)
    later = [
        create_consumer(js, "MADE-AGAIN", "C", action, durable_name="C", ack_policy="explicit")
        for action in (None, "create", "update")
    ]
    return {"first": first, "later": later}


def started(session: Session, stream: str, **config: object) -> Observation:
    """The deliveries of a consumer of six messages on four subjects, its state before and after."""
    js = with_stream(session, stream)
    js.fill(*(f"{stream}.{word}" for word in ("a", "b", "a", "c", "b", "d")))
    js.api(f"STREAM.MSG.DELETE.{stream}", {"seq": 1})
    created = new_durable(js, stream, "C", **config)
    keys = ("delivered", "ack_floor", "num_pending")
    brought = fetch(js, stream, "C", 6)
    return {
        "start": {key: created[key] for key in keys},
        "brought": [each.seen for each in brought],
        "end": {key: consumer_info(js, stream, "C")[key] for key in keys},
    }


STARTS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("all", "All starts at the first message there is.", {"deliver_policy": "all"}),
    ("last", "Last starts at the last message.", {"deliver_policy": "last"}),
    ("new", "New starts after the last message.", {"deliver_policy": "new"}),
    (
        "sequence",
        "A sequence is where to start, between the first and the last.",
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
    ),
    (
        "sequence-before",
        "A sequence before the first message is the first.",
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
    ),
    (
        "sequence-after",
        "A sequence that is to come is kept as it is.",
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 40},
    ),
    (
        "time-before",
        "A time before all messages starts at the first.",
        {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
    ),
    (
        "time-after",
        "A time that is to come starts after the last message.",
        {"deliver_policy": "by_start_time", "opt_start_time": "2090-01-01T00:00:00Z"},
    ),
    (
        "last-per-subject",
        "The last of each subject are brought in their order.",
        {"deliver_policy": "last_per_subject", "filter_subject": ">"},
    ),
    (
        "last-per-subject-filters",
        "The last of each subject are those of all filters.",
        {"deliver_policy": "last_per_subject", "filter_subjects": ["*.b", "*.d"]},
    ),
    (
        "last-per-subject-none",
        "The last of each of no subjects start before the last message.",
        {"deliver_policy": "last_per_subject", "filter_subject": "none"},
    ),
    (
        "last-filter",
        "The last with a filter is the last it matches.",
        {"deliver_policy": "last", "filter_subject": "*.c"},
    ),
    (
        "last-filters",
        "The last with filters is the last that one of them matches.",
        {"deliver_policy": "last", "filter_subjects": ["*.a", "*.b"]},
    ),
    (
        "last-filter-none",
        "The last of nothing is at the beginning.",
        {"deliver_policy": "last", "filter_subject": "none"},
    ),
    (
        "all-filter",
        "A filter counts what it matches.",
        {"filter_subject": "*.b"},
    ),
    (
        "all-filters",
        "Several filters count what any of them matches.",
        {"filter_subjects": ["*.a", "*.b"]},
    ),
)


def add_start(word: str, statement: str, config: dict[str, object]) -> None:
    def script(session: Session) -> Observation:
        return started(session, f"START-{word.upper()}", **config)

    script.__doc__ = statement
    script.__name__ = f"start_{word.replace('-', '_')}"
    catalogue.case(f"js.consumer.start.{word}")(script)


for word, statement, config in STARTS:
    add_start(word, statement, config)


@catalogue.case("js.consumer.start.purged")
def start_purged(session: Session) -> Observation:
    """On a stream that was purged every start is after the last message that ever was."""
    js = with_stream(session, "START-PURGED")
    js.fill("START-PURGED.a", "START-PURGED.b")
    js.api("STREAM.PURGE.START-PURGED")
    policies = ("all", "last", "new")
    replies = {
        policy: new_durable(js, "START-PURGED", policy, deliver_policy=policy)
        for policy in policies
    }
    return {word: [reply["delivered"], reply["ack_floor"]] for word, reply in replies.items()}


STREAM_IDENTITY = Mask("**.headers.0.1", is_drawn, "drawn for each stream")


@catalogue.case("js.consumer.direct.create", masks=(STREAM_IDENTITY,))
def direct(session: Session) -> Observation:
    """A direct consumer is told with the stream's identity, and is neither counted nor listed."""
    js = with_stream(session, "DIRECT-MADE")
    js.fill("DIRECT-MADE.a")
    config = {"direct": True, "deliver_subject": "direct.made"}
    body = {"stream_name": "DIRECT-MADE", "config": config}
    frame = js.request_frame(f"{API}CONSUMER.CREATE.DIRECT-MADE.C", body)
    return {
        "made": opened_json(frame),
        "names": js.api("CONSUMER.NAMES.DIRECT-MADE"),
        "list": js.api("CONSUMER.LIST.DIRECT-MADE"),
        "count": js.state("DIRECT-MADE")["consumer_count"],
        "info": consumer_info(js, "DIRECT-MADE", "C"),
    }


@catalogue.case("js.consumer.direct.sourcing-work-queue", masks=(STREAM_IDENTITY,))
def sourcing_work_queue(session: Session) -> Observation:
    """A direct consumer for a source of a work queue becomes a durable with flow control acks."""
    js = with_stream(session, "SOURCED-WQ", retention="workqueue")
    config = {"direct": True, "sourcing": True, "deliver_subject": "sourced-wq.out"}
    body = {"stream_name": "SOURCED-WQ", "config": config}
    frame = js.request_frame(f"{API}CONSUMER.CREATE.SOURCED-WQ.C", body)
    return {"made": opened_json(frame), "names": js.api("CONSUMER.NAMES.SOURCED-WQ")}


@catalogue.case("js.consumer.direct.identity", text="consumer's stream identity does not match: ")
def identity(session: Session) -> Observation:
    """A request that names another stream identity is told the right one, for direct consumers."""
    js = with_stream(session, "IDENTIFIED")
    header = {IDENTITY: "another"}
    config = {"direct": True, "deliver_subject": "identified.out"}
    call = "CONSUMER.CREATE.IDENTIFIED"
    refused = js.api(f"{call}.C", {"stream_name": "IDENTIFIED", "config": config}, header)
    text, drawn = refused["error"]["description"].rsplit(" ", 1)
    plain = js.api(f"{call}.D", {"stream_name": "IDENTIFIED", "config": {}}, header)
    return {
        "code": refused["error"]["err_code"],
        "text": f"{text} ",
        "drawn": is_drawn(drawn),
        "plain": plain,
    }
