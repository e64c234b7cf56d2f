"""Rules that all calls of the API share: subjects, replies, levels, domains, and being off."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import API, DOMAIN, JETSTREAM, SYNC_ALWAYS, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup

catalogue = Catalogue(JETSTREAM)

LEVEL = "Nats-Required-Api-Level"
STREAM_CALLS = (
    "CREATE",
    "UPDATE",
    "INFO",
    "DELETE",
    "PURGE",
    "SNAPSHOT",
    "RESTORE",
    "MSG.GET",
    "MSG.DELETE",
)


@catalogue.case("js.api.unknown-subjects")
def unknown_subjects(session: Session) -> Observation:
    """A subject under the API's prefix that is no call is not answered, not even by a 503."""
    js = jetstream(session)
    subjects = ("FOO", "STREAM", "STREAM.FOO.S", "STREAM.FOO", "info", "INFO.X", "STREAM.names")
    return {subject: js.unanswered(API + subject) for subject in subjects}


@catalogue.case("js.api.too-few-tokens")
def too_few_tokens(session: Session) -> Observation:
    """A call of a stream without the stream is not answered."""
    js = jetstream(session)
    return {call: js.unanswered(f"{API}STREAM.{call}") for call in STREAM_CALLS}


@catalogue.case("js.api.too-many-tokens")
def too_many_tokens(session: Session) -> Observation:
    """A call with a token too many is not answered."""
    js = jetstream(session)
    calls = (*(f"{call}.S" for call in STREAM_CALLS), "NAMES", "LIST")
    return {call: js.unanswered(f"{API}STREAM.{call}.X", "{}") for call in calls}


@catalogue.case("js.api.empty-tokens")
def empty_tokens(session: Session) -> Observation:
    """A subject with an empty token has no responders, not even the API."""
    js = jetstream(session)
    return {call: js.request(API + call) for call in ("STREAM.INFO.", "STREAM..S", ".")}


@catalogue.case("js.api.unattended")
def unattended(session: Session) -> Observation:
    """Streams and consumers answer direct reads and pulls; without one there are no responders."""
    js = jetstream(session, "NOT-DIRECT")
    js.create("NOT-DIRECT")
    calls = (
        "DIRECT.GET",
        "DIRECT.GETX",
        "DIRECT.GET.NOT-DIRECT",
        "DIRECT.GET.NOT-DIRECT.subject",
        "CONSUMER.MSG.NEXT.NOT-DIRECT.NONE",
    )
    return {call: js.api(call) for call in calls}


@catalogue.case("js.api.unattended-siblings")
def unattended_siblings(session: Session) -> Observation:
    """Unknown calls with the subjects next to direct reads and pulls are met with silence."""
    js = jetstream(session)
    return {call: js.unanswered(API + call) for call in ("DIRECT.FOO", "CONSUMER.MSG.NEXT")}


@catalogue.case("js.consumers.none", text="consumer not found")
def no_consumers(session: Session) -> Observation:
    """A stream without consumers has none to list, and none of any name."""
    js = jetstream(session, "UNCONSUMED")
    js.create("UNCONSUMED")
    return {call: js.api(call) for call in consumer_calls("UNCONSUMED")}


@catalogue.case("js.consumers.no-stream")
def no_stream_for_consumers(session: Session) -> Observation:
    """Calls about consumers of a missing stream are refused with its absence."""
    js = jetstream(session)
    return {call: js.api(call) for call in consumer_calls("NO-SUCH-STREAM")}


def consumer_calls(stream: str) -> tuple[str, ...]:
    return (
        f"CONSUMER.NAMES.{stream}",
        f"CONSUMER.LIST.{stream}",
        f"CONSUMER.INFO.{stream}.C",
        f"CONSUMER.DELETE.{stream}.C",
        f"CONSUMER.PAUSE.{stream}.C",
    )


@catalogue.case("js.api.outside-prefix")
def outside_prefix(session: Session) -> Observation:
    """Outside the prefix of the API a request has no responders."""
    js = jetstream(session)
    return {subject: js.request(subject) for subject in ("$JS.API", "$JS.INFO", "JS.API.INFO")}


@catalogue.case("js.api.system-calls")
def system_calls(session: Session) -> Observation:
    """Calls for the system account are not answered to another."""
    js = jetstream(session)
    calls = ("META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.X", "META.RESCUE")
    return {call: js.unanswered(API + call, "{}") for call in calls}


@catalogue.case("js.api.clustering", text="JetStream clustering support required")
def clustering(session: Session) -> Observation:
    """Calls that only make sense in a cluster say that there is none."""
    js = jetstream(session, "CLUSTERED")
    js.create("CLUSTERED")
    calls = (
        "STREAM.LEADER.STEPDOWN.CLUSTERED",
        "STREAM.PEER.REMOVE.CLUSTERED",
        "STREAM.PEER.EVACUATE.CLUSTERED",
        "STREAM.CANCEL_MOVE.CLUSTERED",
        "CONSUMER.LEADER.STEPDOWN.CLUSTERED.NONE",
        "CONSUMER.PEER.REMOVE.CLUSTERED.NONE",
        "CONSUMER.PEER.EVACUATE.CLUSTERED.NONE",
        "STREAM.LEADER.STEPDOWN.MISSING",
    )
    return {call: js.api(call, "{}", {LEVEL: "6"}) for call in calls}


@catalogue.case("js.api.reply-frame")
def reply_frame(session: Session) -> Observation:
    """A reply is a plain message without headers, whose JSON escapes the characters of HTML."""
    js = jetstream(session, "REPLY-FRAME")
    js.create("REPLY-FRAME", subjects=["reply-frame.>"], metadata={"<&>": "\u2028"})
    frame = js.request_frame("$JS.API.STREAM.LIST", {"subject": "reply-frame.>"})
    config = frame[frame.index('"config"') : frame.index('"retention"')]
    return {
        "operation": frame.split(" ", 1)[0],
        "config": config,
        "metadata": frame[frame.index('"metadata"') : frame.index(',"created"')],
    }


@catalogue.case("js.api.reply-bytes")
def reply_bytes(session: Session) -> Observation:
    """Short replies, byte for byte: no blanks, the type first."""
    js = jetstream(session, "REPLY-BYTES")
    js.create("REPLY-BYTES")
    calls = (
        ("STREAM.PURGE.REPLY-BYTES", None),
        ("STREAM.MSG.GET.REPLY-BYTES", {"seq": 1}),
        ("STREAM.MSG.DELETE.REPLY-BYTES", {"seq": 1}),
        ("STREAM.NAMES", {"subject": "REPLY-BYTES"}),
        ("STREAM.DELETE.REPLY-BYTES", None),
        ("STREAM.DELETE.REPLY-BYTES", None),
        ("STREAM.INFO.REPLY-BYTES", None),
        ("STREAM.CREATE.REPLY-BYTES", {"name": "x", "unknown>": 1}),
    )
    frames = (js.request_frame(API + call, body) for call, body in calls)
    return [frame.split("\r\n", 1)[1] for frame in frames]


@catalogue.case("js.api.headers-ignored")
def headers_ignored(session: Session) -> Observation:
    """A request may carry headers the server does not know."""
    js = jetstream(session, "HEADED")
    body = {"name": "HEADED", "subjects": ["HEADED"]}
    return js.api("STREAM.CREATE.HEADED", body, {"X-Trace": "1", "Nats-Msg-Id": "1"})


@catalogue.case("js.api.level-supported")
def level_supported(session: Session) -> Observation:
    """A request may require any level up to the server's; an empty requirement is none."""
    js = jetstream(session)
    levels = ("-1", "0", "1", "5", "+5", "005", "")
    return {level: leveled(js, level) for level in levels}


def leveled(js: JetStreamClient, level: str) -> Observation:
    reply: Observation = js.api("STREAM.NAMES", {"subject": "levelled"}, {LEVEL: level})
    return reply


@catalogue.case("js.api.level-too-high")
def level_too_high(session: Session) -> Observation:
    """A level above the server's, or one that is no number, is refused."""
    js = jetstream(session)
    levels = ("6", "99999999999999999999", "five", "1.0", "0x1", "5 ", "1,2")
    return {level: leveled(js, level) for level in levels}


@catalogue.case("js.api.level-everywhere")
def level_everywhere(session: Session) -> Observation:
    """Every call knows the requirement, and tells it before anything else it could tell."""
    js = jetstream(session, "LEVEL-ALL")
    calls = (*(f"STREAM.{call}.LEVEL-ALL" for call in STREAM_CALLS), "STREAM.NAMES", "STREAM.LIST")
    return {call: js.api(call, "garbage", {LEVEL: "6"}) for call in (*calls, "INFO")}


@catalogue.case("js.api.response-types")
def response_types(session: Session) -> Observation:
    """The type of the reply to each call, the same for a success and for an error."""
    js = jetstream(session, "TYPED")
    good: tuple[tuple[str, dict[str, object] | None], ...] = (
        ("INFO", None),
        ("STREAM.CREATE.TYPED", {"name": "TYPED", "subjects": ["TYPED"]}),
        ("STREAM.UPDATE.TYPED", {"name": "TYPED", "subjects": ["TYPED"]}),
        ("STREAM.INFO.TYPED", None),
        ("STREAM.NAMES", None),
        ("STREAM.LIST", {"subject": "TYPED"}),
        ("STREAM.MSG.GET.TYPED", {"seq": 1}),
        ("STREAM.MSG.DELETE.TYPED", {"seq": 1}),
        ("STREAM.PURGE.TYPED", None),
        ("STREAM.DELETE.TYPED", None),
    )
    types = {}
    for call, body in good:
        js.publish("TYPED", "x")
        types[call] = [js.api(call, body)["type"], js.api(call, "{")["type"]]
    return types


@catalogue.case("js.domain.info-line", setup=DOMAIN)
def domain_info_line(session: Session) -> Observation:
    """The INFO of a server with a domain names it."""
    return {"first": session.dial().frame()}


@catalogue.case("js.domain.replies", setup=DOMAIN)
def domain_replies(session: Session) -> Observation:
    """In a domain the replies about streams name it, save that of a create."""
    js = jetstream(session, "DOMAIN")
    return {
        "create": js.create("DOMAIN"),
        "update": js.update("DOMAIN"),
        "info": js.info("DOMAIN"),
        "list": js.api("STREAM.LIST", {"subject": "DOMAIN"}),
    }


@catalogue.case("js.domain.account", setup=DOMAIN, own_server=True)
def domain_account(session: Session) -> Observation:
    """The account's INFO names the domain."""
    return jetstream(session).api("INFO")


@catalogue.case("js.domain.prefix", setup=DOMAIN)
def domain_prefix(session: Session) -> Observation:
    """The API is found under the domain's prefix and under the plain one."""
    js = jetstream(session, "PREFIXED", prefix="$JS.hub.API.")
    created = js.create("PREFIXED", allow_direct=True)
    js.fill("PREFIXED")
    return {
        "create": created,
        "info": js.request("$JS.API.STREAM.INFO.PREFIXED"),
        "get": js.api("STREAM.MSG.GET.PREFIXED", {"seq": 1}),
        "direct": js.direct("PREFIXED", {"seq": 1}),
        "direct by subject": js.direct("PREFIXED.PREFIXED"),
        "account": js.api("INFO")["type"],
    }


@catalogue.case("js.domain.prefix-everything", setup=DOMAIN)
def domain_prefix_everything(session: Session) -> Observation:
    """Below a domain's prefix only the families of calls are mapped; the rest has no responders."""
    js = jetstream(session)
    subjects = (
        "$JS.hub.API.FOO",
        "$JS.hub.API",
        "$JS.hub.FOO",
        "$JS.HUB.API.INFO",
        "$JS.hub.API.STREAM.FOO",
        "$JS.hub.API.DIRECT.GET.NOT-THERE",
    )
    return {subject: js.unanswered(subject) for subject in subjects}


@catalogue.case("js.domain.prefix-buckets", setup=DOMAIN)
def domain_prefix_buckets(session: Session) -> Observation:
    """Keys are put through the domain's prefix too: they arrive under their plain subject."""
    js = jetstream(session, "KV_PREFIXED")
    js.create("KV_PREFIXED", subjects=["$KV.PREFIXED.>"])
    watch = js.watch(session, "$KV.PREFIXED.>")
    acked = js.ack_text("$JS.hub.API.$KV.PREFIXED.key", "value", {"X-Header": "kept"})
    return {
        "acked": acked,
        "seen": str(watch.wire.frame()).split(" ")[1],
        "stored": js.api("STREAM.MSG.GET.KV_PREFIXED", {"seq": 1})["message"],
        "nobody": js.request("$JS.hub.API.$KV.MISSING.key", "value"),
    }


@catalogue.case("js.domain.unknown", setup=DOMAIN)
def domain_unknown(session: Session) -> Observation:
    """An unknown domain has no responders."""
    js = jetstream(session)
    return {
        "other": js.request("$JS.other.API.INFO"),
        "stream": js.request("$JS.other.API.STREAM.NAMES"),
    }


@catalogue.case("js.domain.none-configured")
def domain_none_configured(session: Session) -> Observation:
    """Without a domain no prefix but the plain one is known."""
    return jetstream(session).request("$JS.hub.API.INFO")


@catalogue.case("js.off.no-responders", setup=Setup())
def off(session: Session) -> Observation:
    """Without JetStream the API has no responders."""
    js = jetstream(session)
    calls = ("INFO", "STREAM.NAMES", "STREAM.CREATE.OFF", "DIRECT.GET.OFF", "FOO")
    return {call: js.api(call) for call in calls}


@catalogue.case("js.sync-always.acks", setup=SYNC_ALWAYS)
def sync_always(session: Session) -> Observation:
    """With `sync_interval: always` a client sees no difference."""
    js = jetstream(session, "SYNCED", "SYNCED-ASYNC")
    created = [js.create("SYNCED"), js.create("SYNCED-ASYNC", persist_mode="async")]
    acks = [js.ack_text(name, "x") for name in ("SYNCED", "SYNCED-ASYNC", "SYNCED")]
    return {"created": created, "acks": acks, "state": js.state("SYNCED")}
