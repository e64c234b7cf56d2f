"""CONSUMER.CREATE: the forms of the call, the defaults it fills in, and where a consumer starts.

What a form of the call forbids stands here; what a configuration breaks, in its own module.
"""

import re

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_create_errors import LIMITED_SERVER
from tests.interop.consumers import (
    MILLISECOND_NS,
    PAUSE_REMAINING,
    SECOND_NS,
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

MINUTE_NS = 60 * SECOND_NS
IDENTITY = "Nats-Stream-Identity"
_DRAWN = re.compile(r"[0-9A-Za-z]{8}")


def is_drawn(value: Observation) -> bool:
    return isinstance(value, str) and _DRAWN.fullmatch(value) is not None


def is_drawn_suffix(value: Observation) -> bool:
    return isinstance(value, str) and value.startswith("C-") and is_drawn(value[2:])


def made(session: Session, stream: str, **config: object) -> Observation:
    """The reply about a consumer `C` of a new, empty stream, and its INFO."""
    js = with_stream(session, stream)
    created = create_consumer(js, stream, "C", None, **config)
    return {"created": created, "info": consumer_info(js, stream, "C")}


DEFAULTS: tuple[tuple[str, str, dict[str, object]], ...] = (
    (
        "pull",
        "A consumer of which nothing is said is an ephemeral pull without acks.",
        {},
    ),
    (
        "pull-explicit",
        "Explicit acks are waited for 30 s, a thousand of them.",
        {"ack_policy": "explicit"},
    ),
    (
        "pull-all",
        "Acks of all before are waited for like explicit ones.",
        {"ack_policy": "all"},
    ),
    (
        "durable",
        "A durable has no threshold of inactivity.",
        {"durable_name": "C", "ack_policy": "explicit"},
    ),
    (
        "push",
        "A push has no pulls waiting, and no heartbeat unless asked for.",
        {"deliver_subject": "made.push"},
    ),
    (
        "push-explicit",
        "A push with acks has the defaults of acks.",
        {"deliver_subject": "made.push", "ack_policy": "explicit"},
    ),
    (
        "ack-flow",
        "Acks by flow control bring flow control and a heartbeat each second, and level 4.",
        {"deliver_subject": "made.push", "ack_policy": "flow_control"},
    ),
    (
        "ack-flow-heartbeat",
        "Acks by flow control set the heartbeat, whatever is asked for.",
        {
            "deliver_subject": "made.push",
            "ack_policy": "flow_control",
            "idle_heartbeat": 5 * SECOND_NS,
        },
    ),
    (
        "memory",
        "A consumer in memory says so, with the replicas it was given.",
        {"mem_storage": True, "num_replicas": 1},
    ),
    (
        "ack-wait-without-acks",
        "Without acks the times of acks are kept as they were given.",
        {"ack_wait": SECOND_NS, "max_deliver": 3, "max_ack_pending": 5},
    ),
    (
        "unlimited-acks",
        "A limit of -1 is kept: no limit of acks pending.",
        {"ack_policy": "explicit", "max_ack_pending": -1},
    ),
    (
        "negatives",
        "Negative numbers are corrected, silently, to none.",
        {
            "ack_policy": "explicit",
            "max_deliver": -7,
            "max_waiting": -7,
            "max_ack_pending": -7,
            "max_batch": -7,
            "max_expires": -7,
            "max_bytes": -7,
            "inactive_threshold": -7,
            "priority_timeout": -7,
            "idle_heartbeat": -7,
        },
    ),
    (
        "backoff",
        "The first pause is the time to acknowledge, whatever is said of that.",
        {
            "ack_policy": "explicit",
            "ack_wait": 7 * SECOND_NS,
            "max_deliver": 4,
            "backoff": [SECOND_NS, 2 * SECOND_NS, SECOND_NS],
        },
    ),
    (
        "backoff-endless",
        "Back-off goes with deliveries without end.",
        {"ack_policy": "explicit", "backoff": [SECOND_NS, 0]},
    ),
    (
        "backoff-empty",
        "Empty lists are none.",
        {"backoff": [], "filter_subjects": [], "priority_groups": [], "metadata": {}},
    ),
    (
        "pinned",
        "A pin holds for two minutes, and needs level 1.",
        {"priority_policy": "pinned_client", "priority_groups": ["g"]},
    ),
    (
        "pinned-timeout",
        "A pin holds for as long as it is told to.",
        {"priority_policy": "pinned_client", "priority_groups": ["g"], "priority_timeout": 5},
    ),
    (
        "overflow",
        "Other priority policies have no time to fill in; of several groups the first is told.",
        {"priority_policy": "overflow", "priority_groups": ["g", "h"]},
    ),
    (
        "prioritized",
        "A consumer of pulls with priorities has no time to fill in.",
        {"priority_policy": "prioritized", "priority_groups": ["g"]},
    ),
    (
        "priority-none",
        "A priority policy of none is none.",
        {"priority_policy": "none"},
    ),
    (
        "nulls",
        "A null is as nothing said.",
        {
            "description": None,
            "ack_wait": None,
            "backoff": None,
            "opt_start_time": None,
            "pause_until": None,
            "filter_subjects": None,
            "metadata": None,
        },
    ),
    (
        "pull-everything",
        "What can be said of a pull is told as it was said.",
        {
            "durable_name": "C",
            "description": "everything <&>",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": 5,
            "ack_policy": "explicit",
            "ack_wait": SECOND_NS,
            "max_deliver": 9,
            "filter_subjects": ["made.a", "made.b.*"],
            "replay_policy": "original",
            "sample_freq": "50%",
            "max_waiting": 3,
            "max_ack_pending": 4,
            "headers_only": True,
            "max_batch": 5,
            "max_expires": MILLISECOND_NS,
            "max_bytes": 6,
            "inactive_threshold": MINUTE_NS,
            "num_replicas": 1,
            "mem_storage": True,
            "metadata": {"b": "2", "a": "1"},
        },
    ),
    (
        "push-everything",
        "What can be said of a push is told as it was said.",
        {
            "durable_name": "C",
            "deliver_policy": "by_start_time",
            "opt_start_time": "2020-02-03T04:05:06.780000000+02:00",
            "ack_policy": "all",
            "filter_subject": "made.a",
            "rate_limit_bps": 1024,
            "flow_control": True,
            "deliver_subject": "made.push",
            "deliver_group": "made.group",
            "idle_heartbeat": 5 * SECOND_NS,
            "max_batch": 5,
            "max_expires": 7,
            "max_bytes": 6,
        },
    ),
    (
        "filter-elsewhere",
        "A filter may be for subjects the stream has not.",
        {"filter_subject": "elsewhere.>"},
    ),
    (
        "filters-one",
        "A list with one filter stays a list.",
        {"filter_subjects": ["made.one"]},
    ),
    (
        "metadata-reserved",
        "The server's own words in the metadata are its own; other words beside them are kept.",
        {
            "metadata": {
                "_nats.ver": "0.0.1",
                "_nats.level": "99",
                "_nats.req.level": "99",
                "_nats.other": "kept",
                "mine": "kept",
            }
        },
    ),
    (
        "paused-before",
        "A pause that was over before is told, but pauses nothing.",
        {"pause_until": "2020-01-01T00:00:00+02:00"},
    ),
    (
        "paused-zero",
        "A pause until the zero time is told as it was said, and needs no level.",
        {"pause_until": "0001-01-01T00:00:00Z"},
    ),
)


def add_default(word: str, statement: str, config: dict[str, object]) -> None:
    def script(session: Session) -> Observation:
        return made(session, f"MADE-{word.upper()}", **config)

    script.__doc__ = statement
    script.__name__ = f"default_{word.replace('-', '_')}"
    catalogue.case(f"js.consumer.default.{word}")(script)


for word, statement, config in DEFAULTS:
    add_default(word, statement, config)


@catalogue.case("js.consumer.default.paused", masks=(PAUSE_REMAINING,))
def paused(session: Session) -> Observation:
    """A consumer can be made paused; the time is told with its own offset."""
    return made(session, "MADE-PAUSED", pause_until="2090-01-01T00:00:00.50+02:00")


@catalogue.case("js.consumer.default.stream-limits")
def stream_limits(session: Session) -> Observation:
    """What a stream limits is the default of its consumers; less may be asked for."""
    limits = {"max_ack_pending": 7, "inactive_threshold": 90 * SECOND_NS}
    js = with_stream(session, "MADE-LIMITS", consumer_limits=limits)
    return {
        "none": create_consumer(js, "MADE-LIMITS", "A"),
        "durable": new_durable(js, "MADE-LIMITS", "B"),
        "less": create_consumer(
            js,
            "MADE-LIMITS",
            "C",
            ack_policy="explicit",
            max_ack_pending=6,
            inactive_threshold=89 * SECOND_NS,
        ),
        "unlimited": create_consumer(
            js, "MADE-LIMITS", "D", ack_policy="explicit", max_ack_pending=-1
        ),
    }


@catalogue.case("js.consumer.default.server-limits", setup=LIMITED_SERVER)
def server_limits(session: Session) -> Observation:
    """What a server limits is the default, too: acks pending, and the batch of a pull."""
    js = with_stream(session, "MADE-SERVER")
    return {
        "pull": create_consumer(js, "MADE-SERVER", "A", ack_policy="explicit"),
        "push": create_consumer(
            js, "MADE-SERVER", "B", ack_policy="explicit", deliver_subject="made.server"
        ),
    }


@catalogue.case("js.consumer.default.pedantic")
def pedantic(session: Session) -> Observation:
    """Asked to be pedantic, the server still fills in what was not said at all."""
    js = with_stream(session, "MADE-PEDANTIC")
    config = {"durable_name": "C", "ack_policy": "explicit"}
    body = {"stream_name": "MADE-PEDANTIC", "config": config, "pedantic": True}
    return js.api("CONSUMER.CREATE.MADE-PEDANTIC.C", body)


def asked(js: JetStreamClient, call: str, stream: str, **config: object) -> Observation:
    return js.api(f"CONSUMER.{call}", {"stream_name": stream, "config": config})


@catalogue.case(
    "js.consumer.form.unnamed", masks=(Mask("**.name", is_drawn, "drawn for each ephemeral"),)
)
def form_unnamed(session: Session) -> Observation:
    """Without a name eight letters are drawn for one, and the configuration has none."""
    js = with_stream(session, "UNNAMED")
    return {
        "pull": asked(js, "CREATE.UNNAMED", "UNNAMED"),
        "push": asked(js, "CREATE.UNNAMED", "UNNAMED", deliver_subject="unnamed.out"),
    }


@catalogue.case("js.consumer.form.name-in-body")
def form_name_in_body(session: Session) -> Observation:
    """A name in the body alone will do for an ephemeral."""
    js = with_stream(session, "BODY-NAMED")
    return asked(js, "CREATE.BODY-NAMED", "BODY-NAMED", name="C")


@catalogue.case("js.consumer.form.name-in-subject")
def form_name_in_subject(session: Session) -> Observation:
    """A name in the subject is the name, whatever the body says of it."""
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


@catalogue.case("js.consumer.form.durable")
def form_durable(session: Session) -> Observation:
    """The older call for durables names it in the subject; the configuration has both names."""
    js = with_stream(session, "DURABLE-FORM")
    return {
        "made": asked(js, "DURABLE.CREATE.DURABLE-FORM.C", "DURABLE-FORM", durable_name="C"),
        "named": asked(
            js, "DURABLE.CREATE.DURABLE-FORM.D", "DURABLE-FORM", durable_name="D", name="E"
        ),
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


@catalogue.case("js.consumer.error.stream-mismatch")
def stream_mismatch(session: Session) -> Observation:
    """The stream in the body is that in the subject."""
    js = with_stream(session, "MISMATCHED")
    body = {"stream_name": "OTHER", "config": {"durable_name": "C"}}
    calls = ("CREATE.MISMATCHED", "CREATE.MISMATCHED.C", "DURABLE.CREATE.MISMATCHED.C")
    return {call: js.api(f"CONSUMER.{call}", body) for call in calls}


@catalogue.case("js.consumer.error.stream-missing")
def stream_missing(session: Session) -> Observation:
    """A consumer needs its stream, and the configuration is not looked at before."""
    js = jetstream(session, "NO-STREAM")
    body = {"stream_name": "NO-STREAM", "config": {"durable_name": "C", "ack_wait": -1}}
    calls = ("CREATE.NO-STREAM.C", "DURABLE.CREATE.NO-STREAM.C")
    return {call: js.api(f"CONSUMER.{call}", body) for call in calls}


@catalogue.case(
    "js.consumer.error.durable-not-set",
    text="consumer expected to be durable but a durable name was not set",
)
def durable_not_set(session: Session) -> Observation:
    """The older call for durables wants the durable's name in the body, too."""
    js = with_stream(session, "DURABLE-UNSET")
    body = {"stream_name": "DURABLE-UNSET", "config": {"name": "C"}}
    return js.api("CONSUMER.DURABLE.CREATE.DURABLE-UNSET.C", body)


@catalogue.case(
    "js.consumer.error.durable-mismatch",
    text="consumer name in subject does not match durable name in request",
)
def durable_mismatch(session: Session) -> Observation:
    """The durable's name in the body is that in the subject, whichever call it is."""
    js = with_stream(session, "DURABLE-OTHER")
    body = {"stream_name": "DURABLE-OTHER", "config": {"durable_name": "D"}}
    calls = ("CREATE.DURABLE-OTHER.C", "DURABLE.CREATE.DURABLE-OTHER.C")
    return {call: js.api(f"CONSUMER.{call}", body) for call in calls}


@catalogue.case(
    "js.consumer.error.durable-unnamed",
    text="consumer expected to be ephemeral but a durable name was set in request",
)
def durable_unnamed(session: Session) -> Observation:
    """The call without a name makes ephemerals only."""
    js = with_stream(session, "DURABLE-UNNAMED")
    body = {"stream_name": "DURABLE-UNNAMED", "config": {"durable_name": "C"}}
    return js.api("CONSUMER.CREATE.DURABLE-UNNAMED", body)


@catalogue.case(
    "js.consumer.error.filter-mismatch",
    text="Consumer create request did not match filtered subject from create subject",
)
def filter_mismatch(session: Session) -> Observation:
    """A filter in the subject of the call is the one in the body."""
    js = with_stream(session, "FILTER-OTHER")
    call = "CONSUMER.CREATE.FILTER-OTHER.C.FILTER-OTHER.a"
    return {
        word: js.api(call, {"stream_name": "FILTER-OTHER", "config": config})
        for word, config in (("other", {"filter_subject": "FILTER-OTHER.b"}), ("none", {}))
    }


@catalogue.case(
    "js.consumer.error.filters-in-subject",
    text="consumer with multiple subject filters cannot use subject based API",
)
def filters_in_subject(session: Session) -> Observation:
    """A list of filters is not asked for with a filter in the subject, even the same one."""
    js = with_stream(session, "FILTERS-SUBJECT")
    body = {"stream_name": "FILTERS-SUBJECT", "config": {"filter_subjects": ["a"]}}
    return js.api("CONSUMER.CREATE.FILTERS-SUBJECT.C.a", body)


@catalogue.case("js.consumer.create.bytes")
def reply_bytes(session: Session) -> Observation:
    """The reply to a create, byte for byte but for its times: the order of its keys is fixed."""
    js = with_stream(session, "CREATE-BYTES")
    config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "<&>"}
    body = {"stream_name": "CREATE-BYTES", "config": config}
    frame = js.request_frame(f"{API}CONSUMER.CREATE.CREATE-BYTES.C", body)
    timeless = re.sub(r'"[0-9]{4}-[0-9T:.-]+Z"', '"time"', frame.split("\r\n", 1)[1])
    return re.sub(r'"2\.15\.[0-9]+"', '"version"', timeless)


@catalogue.case("js.consumer.create.actions")
def actions(session: Session) -> Observation:
    """A new consumer is made by each action but an update."""
    js = with_stream(session, "ACTIONS")
    return {
        word: create_consumer(js, "ACTIONS", f"C{index}", action).get("error", "made")
        for index, (word, action) in enumerate(
            (("none", None), ("empty", ""), ("create", "create"), ("update", "update"))
        )
    }


@catalogue.case("js.consumer.create.again")
def again(session: Session) -> Observation:
    """A durable asked for again is told as it is, by each action; it keeps its place."""
    js = with_stream(session, "MADE-AGAIN")
    js.fill("MADE-AGAIN.a", "MADE-AGAIN.b", "MADE-AGAIN.c")
    first = new_durable(js, "MADE-AGAIN", "C")
    fetch(js, "MADE-AGAIN", "C", 2)
    later = [
        create_consumer(js, "MADE-AGAIN", "C", action, durable_name="C", ack_policy="explicit")
        for action in (None, "create", "update")
    ]
    return {"first": first, "later": later}


@catalogue.case("js.consumer.create.again-ephemeral")
def again_ephemeral(session: Session) -> Observation:
    """An ephemeral with a threshold can be created again, as it is the same."""
    js = with_stream(session, "EPHEMERAL-AGAIN")
    return [
        create_consumer(js, "EPHEMERAL-AGAIN", "C", "create", inactive_threshold=MINUTE_NS)
        for _ in range(2)
    ]


@catalogue.case("js.consumer.create.again-filled")
def again_filled(session: Session) -> Observation:
    """The defaults said aloud are the same configuration, the server's metadata too."""
    js = with_stream(session, "FILLED-AGAIN")
    config = new_durable(js, "FILLED-AGAIN", "C", metadata={"a": "1"})["config"]
    return js.api(
        "CONSUMER.CREATE.FILLED-AGAIN.C",
        {"stream_name": "FILLED-AGAIN", "config": config, "action": "create"},
    )


@catalogue.case("js.consumer.create.level-again")
def level_again(session: Session) -> Observation:
    """A create over a consumer of a higher level is compared without the level."""
    js = with_stream(session, "LEVEL-AGAIN")
    priority: dict[str, object] = {"priority_policy": "overflow", "priority_groups": ["g"]}
    new_durable(js, "LEVEL-AGAIN", "C", **priority)
    chosen = {"durable_name": "C", "ack_policy": "explicit"}
    return {
        "same": create_consumer(js, "LEVEL-AGAIN", "C", "create", **chosen, **priority),
        "less": create_consumer(js, "LEVEL-AGAIN", "C", "create", **chosen),
    }


def started(session: Session, stream: str, **config: object) -> Observation:
    """Where a consumer of six messages on four subjects starts, and what it brings first."""
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


@catalogue.case("js.consumer.start.empty")
def start_empty(session: Session) -> Observation:
    """On an empty stream every start is the first message, save a sequence that is to come."""
    js = with_stream(session, "START-EMPTY")
    starts: dict[str, dict[str, object]] = {
        "all": {},
        "last": {"deliver_policy": "last"},
        "new": {"deliver_policy": "new"},
        "last_per_subject": {"deliver_policy": "last_per_subject", "filter_subject": ">"},
        "sequence": {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
        "time": {"deliver_policy": "by_start_time", "opt_start_time": "2090-01-01T00:00:00Z"},
    }
    replies = {
        word: new_durable(js, "START-EMPTY", word, **start) for word, start in starts.items()
    }
    return {word: [reply["delivered"], reply["ack_floor"]] for word, reply in replies.items()}


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


@catalogue.case(
    "js.consumer.direct.sourcing",
    masks=(
        STREAM_IDENTITY,
        Mask("made.data.name", is_drawn_suffix, "its end is drawn"),
        Mask("made.data.config.name", is_drawn_suffix, "its end is drawn"),
    ),
)
def sourcing(session: Session) -> Observation:
    """A direct consumer for a source is given a name of its own beside the one it asked for."""
    js = with_stream(session, "SOURCED")
    config = {"direct": True, "sourcing": True, "deliver_subject": "sourced.out"}
    body = {"stream_name": "SOURCED", "config": config}
    return {"made": opened_json(js.request_frame(f"{API}CONSUMER.CREATE.SOURCED.C", body))}


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
    """Who names another identity of the stream is told its own, if the consumer is direct."""
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
