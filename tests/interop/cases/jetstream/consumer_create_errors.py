"""CONSUMER.CREATE refused: every rule a configuration can break, with the code and the text.

Most rules are one entry of `REFUSED`; those with more to show have a script below it.
"""

from tests.interop.case import Catalogue
from tests.interop.consumers import (
    MILLISECOND_NS,
    SECOND_NS,
    Refusal,
    add_consumer_refusal,
    create_consumer,
    new_durable,
)
from tests.interop.jetstream import (
    ACCOUNTS,
    JETSTREAM,
    LAX,
    RESOURCES,
    JetStreamClient,
    jetstream,
    login,
    with_jetstream,
)
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

LEVEL = "Nats-Required-Api-Level"
PUSH: dict[str, object] = {"deliver_subject": "refused.out"}
FLOW: dict[str, object] = {**PUSH, "ack_policy": "flow_control"}
WORK_QUEUE: dict[str, object] = {"retention": "workqueue"}
PEDANTIC: dict[str, object] = {"pedantic": True}
LIMITS = "max_ack_pending: 50, max_request_batch: 20, default_max_consumers: 2"
LIMITED_SERVER = with_jetstream(f"{RESOURCES}, limits {{ {LIMITS} }}")

REFUSED = (
    Refusal(
        "backoff-negative",
        "A pause between deliveries is not negative.",
        "consumer backoff needs to be positive",
        {"ack_policy": "explicit", "backoff": [SECOND_NS, -1]},
    ),
    Refusal(
        "ack-wait-negative",
        "The time to acknowledge is not negative.",
        "consumer ack wait needs to be positive",
        {"ack_policy": "explicit", "ack_wait": -1},
    ),
    Refusal(
        "replicas-negative",
        "A consumer's replicas are not negative; the error is that of streams.",
        "",
        {"num_replicas": -1},
    ),
    Refusal(
        "replicas-alone",
        "A server on its own has one replica of a consumer.",
        "",
        {"num_replicas": 2},
    ),
    Refusal(
        "ack-flow-pull",
        "Acks by flow control are for pushes.",
        "flow control ack policy requires a push based consumer",
        {"ack_policy": "flow_control"},
    ),
    Refusal(
        "ack-flow-unlimited",
        "Acks by flow control need a limit of pending acks.",
        "flow control ack policy requires max ack pending",
        {**FLOW, "max_ack_pending": -1},
    ),
    Refusal(
        "ack-flow-ack-wait",
        "Acks by flow control are waited for without end.",
        "flow control ack policy requires unset ack wait",
        {**FLOW, "ack_wait": SECOND_NS},
    ),
    Refusal(
        "ack-flow-backoff",
        "Acks by flow control have no back-off, which would set the time to acknowledge.",
        "",
        {**FLOW, "backoff": [SECOND_NS]},
    ),
    Refusal(
        "ack-flow-max-deliver",
        "Acks by flow control do not limit deliveries.",
        "flow control ack policy requires unset max deliver",
        {**FLOW, "max_deliver": 3},
    ),
    Refusal(
        "pedantic-ack-flow",
        "Asked to be pedantic, the server does not turn flow control on for acks by it.",
        "flow control ack policy requires flow control",
        FLOW,
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-ack-flow-heartbeat",
        "Asked to be pedantic, the server does not set the heartbeat of acks by flow control.",
        "flow control ack policy heartbeat needs to be 1s",
        {**FLOW, "flow_control": True, "idle_heartbeat": 2 * SECOND_NS},
        request=PEDANTIC,
    ),
    Refusal(
        "backoff-past-deliveries",
        "There are no more pauses than deliveries.",
        "max deliver is required to be > length of backoff values",
        {"ack_policy": "explicit", "max_deliver": 1, "backoff": [SECOND_NS, SECOND_NS]},
    ),
    Refusal(
        "description-too-long",
        "A consumer's description has at most 4 KiB.",
        "consumer description is too long, maximum allowed is 4096",
        {"description": "d" * 4097},
    ),
    Refusal(
        "metadata-too-large",
        "The keys and values of a consumer's metadata have at most 128 KiB together.",
        "consumer metadata exceeds maximum size of 128KB",
        {"metadata": {"k": "v" * 131072}},
    ),
    Refusal(
        "deliver-wildcard",
        "Messages are pushed to one subject.",
        "consumer deliver subject has wildcards",
        {"deliver_subject": "refused.*"},
    ),
    Refusal(
        "deliver-invalid",
        "Messages are pushed to a valid subject.",
        "invalid push consumer deliver subject",
        {"deliver_subject": "refused..out"},
    ),
    Refusal(
        "deliver-cycle",
        "What is pushed does not come back into the stream.",
        "consumer deliver subject forms a cycle",
        {"deliver_subject": "cycle.a"},
        stream={"subjects": ["cycle.*"]},
    ),
    Refusal(
        "push-max-waiting",
        "A push has no pulls that wait.",
        "consumer in push mode can not set max waiting",
        {**PUSH, "max_waiting": 1},
    ),
    Refusal(
        "push-max-ack-pending",
        "Without acks a push can not limit those pending.",
        "consumer requires ack policy for max ack pending",
        {**PUSH, "max_ack_pending": 1},
    ),
    Refusal(
        "heartbeat-too-short",
        "A heartbeat is 100 ms at least.",
        "consumer idle heartbeat needs to be >= 100ms",
        {**PUSH, "idle_heartbeat": 99 * MILLISECOND_NS},
    ),
    Refusal(
        "flow-without-heartbeat",
        "Flow control needs heartbeats.",
        "consumer with flow control also needs heartbeats",
        {**PUSH, "flow_control": True},
    ),
    Refusal(
        "pull-work-queue-unacked",
        "A pull from a work queue acknowledges.",
        "consumer in pull mode requires explicit ack policy on workqueue stream",
        {},
        stream=WORK_QUEUE,
    ),
    Refusal(
        "pull-rate-limit",
        "A pull has no rate limit.",
        "consumer in pull mode can not have rate limit set",
        {"rate_limit_bps": 1024},
    ),
    Refusal(
        "pull-heartbeat",
        "A pull consumer has no heartbeats of its own; requests have.",
        "consumer idle heartbeat requires a push based consumer",
        {"idle_heartbeat": SECOND_NS},
    ),
    Refusal(
        "pull-flow-control",
        "A pull has no flow control.",
        "consumer flow control requires a push based consumer",
        {"flow_control": True},
    ),
    Refusal(
        "max-expires-too-short",
        "The longest time a pull may wait is a millisecond at least.",
        "consumer max request expires needs to be >= 1ms",
        {"max_expires": MILLISECOND_NS - 1},
    ),
    Refusal(
        "max-batch-past-server",
        "A pull's batch is not larger than the server allows.",
        "consumer max request batch exceeds server limit of 20",
        {"max_batch": 21},
        setup=LIMITED_SERVER,
    ),
    Refusal(
        "max-ack-pending-past-server",
        "The acks pending are not more than the server allows.",
        "consumer max ack pending exceeds system limit of 50",
        {"ack_policy": "explicit", "max_ack_pending": 51},
        setup=LIMITED_SERVER,
    ),
    Refusal(
        "max-ack-pending-past-stream",
        "The acks pending are not more than the stream allows.",
        "consumer max ack pending exceeds system limit of 7",
        {"ack_policy": "explicit", "max_ack_pending": 8},
        stream={"consumer_limits": {"max_ack_pending": 7}},
    ),
    Refusal(
        "inactive-past-stream",
        "A consumer does not stay longer than the stream allows.",
        "consumer inactive threshold exceeds system limit of 1m30s",
        {"inactive_threshold": 91 * SECOND_NS},
        stream={"consumer_limits": {"inactive_threshold": 90 * SECOND_NS}},
    ),
    Refusal(
        "direct-pull",
        "A direct consumer pushes.",
        "consumer direct requires a push based consumer",
        {"direct": True},
    ),
    Refusal(
        "direct-durable",
        "A direct consumer is ephemeral.",
        "consumer direct requires an ephemeral consumer",
        {**PUSH, "direct": True, "durable_name": "C"},
    ),
    Refusal(
        "both-filters",
        "There is one filter or a list of them, not both.",
        "consumer cannot have both FilterSubject and FilterSubjects specified",
        {"filter_subject": "a", "filter_subjects": ["b"]},
    ),
    Refusal(
        "filter-invalid",
        "A filter is a valid subject.",
        "",
        {"filter_subject": "a..b"},
    ),
    Refusal(
        "filters-invalid",
        "Every filter of a list is a valid subject.",
        "",
        {"filter_subjects": ["a", "b.>.c"]},
    ),
    Refusal(
        "filters-empty",
        "No filter of a list is empty.",
        "consumer filter in FilterSubjects cannot be empty",
        {"filter_subjects": ["a", ""]},
    ),
    Refusal(
        "filters-overlap",
        "The filters of a consumer do not overlap.",
        "consumer subject filters cannot overlap",
        {"filter_subjects": ["a.b", "c", "a.*"]},
    ),
    Refusal(
        "filters-duplicate",
        "A filter listed twice overlaps with itself.",
        "",
        {"filter_subjects": ["a.b", "a.b"]},
    ),
    Refusal(
        "last-per-subject-unfiltered",
        "The last of each subject are asked for with a filter.",
        "deliver last per subject, but optional filter subject is not set",
        {"deliver_policy": "last_per_subject"},
    ),
    Refusal(
        "sampling-word",
        "The sampling is a number.",
        'failed to parse consumer sampling configuration: strconv.Atoi: parsing "half"',
        {"sample_freq": "half"},
    ),
    Refusal(
        "sampling-negative",
        "The sampling is not negative.",
        "failed to parse consumer sampling configuration: <nil>",
        {"sample_freq": "-5%"},
    ),
    Refusal(
        "priority-push",
        "A push knows no priorities.",
        "priority groups can not be used with push consumers",
        {**PUSH, "priority_policy": "overflow", "priority_groups": ["g"]},
    ),
    Refusal(
        "priority-without-group",
        "A priority policy has a group.",
        "Setting PriorityPolicy requires at least one PriorityGroup to be set",
        {"priority_policy": "overflow"},
    ),
    Refusal(
        "priority-group-empty",
        "A priority group has a name.",
        "Group name cannot be an empty string",
        {"priority_policy": "overflow", "priority_groups": [""]},
    ),
    Refusal(
        "priority-group-without-policy",
        "Without a priority policy there are no groups.",
        "consumer can not have priority groups when policy is none",
        {"priority_groups": ["g"]},
    ),
    Refusal(
        "priority-timeout-without-policy",
        "Without a priority policy nobody is pinned for a time.",
        "PinnedTTL cannot be set when PriorityPolicy is none",
        {"priority_timeout": SECOND_NS},
    ),
    Refusal(
        "work-queue-ack-all",
        "Work is acknowledged piece by piece.",
        "workqueue stream requires explicit ack",
        {"ack_policy": "all"},
        stream=WORK_QUEUE,
    ),
    Refusal(
        "work-queue-deliver-new",
        "All of the work is delivered.",
        "consumer must be deliver all on workqueue stream",
        {"ack_policy": "explicit", "deliver_policy": "new"},
        stream=WORK_QUEUE,
    ),
    Refusal(
        "update-missing",
        "What is not there can not be updated.",
        "consumer does not exist",
        {"ack_policy": "explicit"},
        request={"action": "update"},
    ),
    Refusal(
        "create-existing",
        "What is there can not be created with another configuration.",
        "consumer already exists",
        {"durable_name": "C", "description": "another"},
        before={"durable_name": "C"},
        request={"action": "create"},
    ),
    Refusal(
        "create-existing-ephemeral",
        "An ephemeral without a threshold was given one, so it differs from the request for it.",
        "",
        {},
        before={},
        request={"action": "create"},
    ),
    Refusal(
        "action-unknown",
        "There is no other action than to create and to update.",
        'unknown consumer action: "replace"',
        {},
        request={"action": "replace"},
    ),
    Refusal(
        "pedantic-max-deliver",
        "Asked to be pedantic, the server does not correct `max_deliver`.",
        "pedantic mode: max_deliver must be set to -1",
        {"max_deliver": -2},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-max-waiting",
        "Asked to be pedantic, the server does not correct `max_waiting`.",
        "pedantic mode: max_waiting must not be negative",
        {"max_waiting": -1},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-max-ack-pending",
        "Asked to be pedantic, the server does not correct `max_ack_pending`.",
        "pedantic mode: max_ack_pending must be set to -1",
        {"ack_policy": "explicit", "max_ack_pending": -2},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-max-batch",
        "Asked to be pedantic, the server does not correct `max_batch`.",
        "pedantic mode: max_batch must not be negative",
        {"max_batch": -1},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-max-expires",
        "Asked to be pedantic, the server does not correct `max_expires`.",
        "pedantic mode: max_expires must not be negative",
        {"max_expires": -1},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-request-bytes",
        "Asked to be pedantic, the server does not correct the `max_bytes` of a consumer.",
        "pedantic mode: max_bytes must not be negative",
        {"max_bytes": -1},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-heartbeat",
        "Asked to be pedantic, the server does not correct `idle_heartbeat`.",
        "pedantic mode: idle_heartbeat must not be negative",
        {**PUSH, "idle_heartbeat": -1},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-inactive",
        "Asked to be pedantic, the server does not correct `inactive_threshold`.",
        "pedantic mode: inactive_threshold must not be negative",
        {"inactive_threshold": -1},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-priority-timeout",
        "Asked to be pedantic, the server does not correct `priority_timeout`.",
        "pedantic mode: priority_timeout must not be negative",
        {"priority_timeout": -1},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-backoff",
        "Asked to be pedantic, the server does not take the time to acknowledge from the back-off.",
        "pedantic mode: first backoff value has to equal batch AckWait",
        {"ack_policy": "explicit", "backoff": [SECOND_NS]},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-stream-ack-pending",
        "Asked to be pedantic, the server wants to be told the acks pending a stream limits.",
        "pedantic mode: max_ack_pending must be set if it's configured in stream limits",
        {"ack_policy": "explicit"},
        stream={"consumer_limits": {"max_ack_pending": 7}},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-stream-inactive",
        "Asked to be pedantic, the server wants to be told the threshold a stream limits.",
        "pedantic mode: inactive_threshold must be set if it's configured in stream limits",
        {},
        stream={"consumer_limits": {"inactive_threshold": SECOND_NS}},
        request=PEDANTIC,
    ),
    Refusal(
        "pedantic-server-batch",
        "Asked to be pedantic, the server wants to be told the batch it limits.",
        "pedantic mode: max_request_batch must be set if it's JetStream limits are set",
        {},
        request=PEDANTIC,
        setup=LIMITED_SERVER,
    ),
)

for refusal in REFUSED:
    add_consumer_refusal(catalogue, "js.consumer.error", refusal)


def told(js: JetStreamClient, stream: str, **config: object) -> Observation:
    """The error of a create, None if there is none; the consumer does not stay."""
    error: Observation = create_consumer(js, stream, "TOLD", None, **config).get("error")
    js.api(f"CONSUMER.DELETE.{stream}.TOLD")
    return error


@catalogue.case(
    "js.consumer.error.start-conflicts",
    text="consumer delivery policy is deliver all, but optional start sequence is also set",
)
def start_conflicts(session: Session) -> Observation:
    """A start is given exactly where the policy asks for one; the texts name both."""
    js = with_stream(session, "START-CONFLICTS")
    policies = ("all", "last", "last_per_subject", "new", "by_start_sequence", "by_start_time")
    starts: dict[str, dict[str, object]] = {
        "none": {},
        "sequence": {"opt_start_seq": 1},
        "time": {"opt_start_time": "2020-01-01T00:00:00Z"},
        "both": {"opt_start_seq": 1, "opt_start_time": "2020-01-01T00:00:00Z"},
    }
    return {
        f"{policy} with {word}": told(
            js, "START-CONFLICTS", deliver_policy=policy, filter_subject="a", **start
        )
        for policy in policies
        for word, start in starts.items()
    }


@catalogue.case(
    "js.consumer.error.group-names", text="Valid priority group name must match A-Z, a-z, 0-9"
)
def group_names(session: Session) -> Observation:
    """A priority group's name has 1 to 16 letters, digits and `-_/=`."""
    js = with_stream(session, "GROUP-NAMES")
    names = ("a", "A9-_/=", "a" * 16, "a" * 17, "a b", "a.b", "a+b", "é", "*")
    return {
        name: told(js, "GROUP-NAMES", priority_policy="overflow", priority_groups=[name])
        for name in names
    }


@catalogue.case("js.consumer.error.blanks")
def blanks(session: Session) -> Observation:
    """No blank or line end is in a group or a subject, as a token of its own or inside of one."""
    js = with_stream(session, "CBLANKS")
    told_of = {}
    for text in (" ", "\t", "\r", "\n", "\f", "a\rb", "a\nb", "a\r\nMSG b 1 0\r\n\r\n", "a b"):
        subject = f"CBLANKS.{text}"
        told_of[text] = {
            "filter": told(js, "CBLANKS", filter_subject=subject),
            "filters": told(js, "CBLANKS", filter_subjects=["CBLANKS.x", subject]),
            "deliver": told(js, "CBLANKS", deliver_subject=f"out.{text}"),
            "group": told(js, "CBLANKS", priority_policy="overflow", priority_groups=[text]),
        }
    return told_of


@catalogue.case("js.consumer.error.enums")
def enums(session: Session) -> Observation:
    """A policy that is none is bad JSON; the text quotes it, each kind in its own way."""
    js = with_stream(session, "ENUMS")
    keys = ("deliver_policy", "ack_policy", "replay_policy", "priority_policy")
    return {
        f"{key} {value!r}": told(js, "ENUMS", **{key: value})
        for key in keys
        for value in ("foo", "", 1, None, "ALL")
    }


@catalogue.case("js.consumer.error.field-types")
def field_types(session: Session) -> Observation:
    """A value of the wrong kind is bad JSON; the text names the field and the type it has."""
    js = with_stream(session, "FIELD-TYPES")
    wrong: tuple[tuple[str, object], ...] = (
        ("ack_wait", "30s"),
        ("max_deliver", 1.5),
        ("backoff", [1, "2"]),
        ("opt_start_seq", -1),
        ("opt_start_time", "yesterday"),
        ("pause_until", 5),
        ("filter_subjects", "one"),
        ("rate_limit_bps", -1),
        ("sample_freq", 50),
        ("headers_only", "yes"),
        ("metadata", {"key": 1}),
        ("priority_groups", "g"),
        ("num_replicas", "1"),
        ("description", 1),
    )
    return {key: told(js, "FIELD-TYPES", **{key: value}) for key, value in wrong}


@catalogue.case("js.consumer.error.bodies")
def bodies(session: Session) -> Observation:
    """A body is an object with the stream's name; without a configuration it has an empty one."""
    js = with_stream(session, "BODIES")
    texts = ("", "{}", "null", "[]", "5", "garbage", '{"stream_name":"BODIES"', "{'a':1}")
    return {text: js.api("CONSUMER.CREATE.BODIES.C", text) for text in texts}


@catalogue.case("js.consumer.error.unknown-field")
def unknown_field(session: Session) -> Observation:
    """A field nobody knows is refused, in the request and in the configuration."""
    js = with_stream(session, "UNKNOWN-FIELD")
    return {
        "config": told(js, "UNKNOWN-FIELD", colour="red"),
        "request": js.api(
            "CONSUMER.CREATE.UNKNOWN-FIELD.C", {"stream_name": "UNKNOWN-FIELD", "colour": "red"}
        ),
    }


@catalogue.case("js.consumer.lax.unknown-field", setup=LAX)
def unknown_field_lax(session: Session) -> Observation:
    """A server that is not strict passes fields by that it does not know."""
    js = with_stream(session, "LAX-FIELD")
    body = {"stream_name": "LAX-FIELD", "colour": "red", "config": {"name": "C", "colour": "red"}}
    reply = js.api("CONSUMER.CREATE.LAX-FIELD.C", body)
    return {"config": reply.get("config")}


@catalogue.case(
    "js.consumer.error.names",
    text="consumer name can not contain '.', '*', '>', '\\', '/'",
)
def names(session: Session) -> Observation:
    """A name is one token without wildcards; the text is that of a stream's configuration."""
    js = with_stream(session, "CONSUMER-NAMES")
    words = ("a b", "a.b", "a*", "*", "a>", ">", "a\tb", " ", ".")
    return {
        word: js.api(
            "CONSUMER.CREATE.CONSUMER-NAMES",
            {"stream_name": "CONSUMER-NAMES", "config": {"name": word}},
        )
        for word in words
    }


@catalogue.case(
    "js.consumer.error.path-separators", text="Consumer name can not contain path separators"
)
def path_separators(session: Session) -> Observation:
    """Slashes would lead out of the directory of consumers, whichever way they come."""
    js = with_stream(session, "CONSUMER-PATHS")
    body = {"stream_name": "CONSUMER-PATHS", "config": {"name": "a/b"}}
    durable = {"stream_name": "CONSUMER-PATHS", "config": {"durable_name": "a\\b"}}
    return {
        "body": js.api("CONSUMER.CREATE.CONSUMER-PATHS", body),
        "subject": js.api("CONSUMER.CREATE.CONSUMER-PATHS.a/b", body),
        "durable": js.api("CONSUMER.DURABLE.CREATE.CONSUMER-PATHS.a\\b", durable),
    }


@catalogue.case(
    "js.consumer.error.durable-too-long", text="consumer name is too long, maximum allowed is 255"
)
def durable_too_long(session: Session) -> Observation:
    """A durable's name has at most 255 bytes."""
    js = with_stream(session, "LONG-DURABLE")
    names = ("L" * 255, "L" * 256)
    return [create_consumer(js, "LONG-DURABLE", name, durable_name=name) for name in names]


@catalogue.case("js.consumer.error.order")
def order(session: Session) -> Observation:
    """Of several rules a consumer breaks the first in the server's order is told."""
    js = with_stream(session, "CONSUMER-ORDER")
    broken: dict[str, object] = {
        "metadata": {"k": "v" * 131072},
        "sample_freq": "half",
        "opt_start_seq": 1,
        "filter_subjects": ["a", "a"],
        "direct": True,
        "max_expires": 1,
        "flow_control": True,
        "idle_heartbeat": 1,
        "rate_limit_bps": 1,
        "description": "d" * 4097,
        "ack_wait": -1,
        "num_replicas": -1,
    }
    told_in_turn = []
    while broken:
        told_in_turn.append(told(js, "CONSUMER-ORDER", **broken))
        broken.popitem()
    return told_in_turn


@catalogue.case("js.consumer.error.api-level")
def api_level(session: Session) -> Observation:
    """A level the server does not have is told after bad JSON and before all the rest."""
    js = with_stream(session, "CONSUMER-LEVEL")
    call = "CONSUMER.CREATE.CONSUMER-LEVEL.C"
    good = {"stream_name": "CONSUMER-LEVEL", "config": {"name": "C"}}
    return {
        "garbage": js.api(call, "garbage", {LEVEL: "99"}),
        "other stream": js.api(call, {"stream_name": "OTHER"}, {LEVEL: "99"}),
        "bad config": js.api(call, {**good, "config": {"ack_wait": -1}}, {LEVEL: "x"}),
        "had": js.api(call, good, {LEVEL: "1"}),
    }


@catalogue.case("js.consumer.error.no-account", setup=ACCOUNTS)
def no_account(session: Session) -> Observation:
    """An account without JetStream has no consumers."""
    js = jetstream(session, **login("without"))
    body = {"stream_name": "S", "config": {"name": "C"}}
    return js.api("CONSUMER.CREATE.S.C", body)


@catalogue.case("js.consumer.error.account-limits", setup=ACCOUNTS)
def account_limits(session: Session) -> Observation:
    """An account limits the acks pending of a consumer and the consumers of a stream."""
    js = jetstream(session, "TIGHT-ONE", **login("tight"))
    made = js.create("TIGHT-ONE", max_bytes=1000)
    assert "error" not in made, made
    return {
        "acks": create_consumer(js, "TIGHT-ONE", "A", ack_policy="explicit", max_ack_pending=11),
        "default": create_consumer(js, "TIGHT-ONE", "B", ack_policy="explicit"),
        "second": create_consumer(js, "TIGHT-ONE", "C", ack_policy="explicit"),
        "first again": create_consumer(js, "TIGHT-ONE", "B", ack_policy="explicit"),
    }


@catalogue.case("js.consumer.error.stream-limit")
def stream_limit(session: Session) -> Observation:
    """A stream limits its consumers; one that is deleted makes room, a direct one takes none."""
    js = with_stream(session, "STREAM-LIMIT", max_consumers=1)
    direct = {"direct": True, "deliver_subject": "stream-limit.out"}
    js.api("CONSUMER.CREATE.STREAM-LIMIT.D", {"stream_name": "STREAM-LIMIT", "config": direct})
    first = create_consumer(js, "STREAM-LIMIT", "A").get("error")
    second = create_consumer(js, "STREAM-LIMIT", "B")
    js.api("CONSUMER.DELETE.STREAM-LIMIT.A")
    third = create_consumer(js, "STREAM-LIMIT", "B").get("error")
    return {"first": first, "second": second, "third": third}


@catalogue.case("js.consumer.error.server-limit", setup=LIMITED_SERVER)
def server_limit(session: Session) -> Observation:
    """The server's limit of consumers per stream is for streams that have none of their own."""
    js = with_stream(session, "SERVER-LIMIT")
    js.api("STREAM.DELETE.OWN-LIMIT")
    js.create("OWN-LIMIT", max_consumers=3)
    return {
        stream: [create_consumer(js, stream, name).get("error") for name in "ABCD"]
        for stream in ("SERVER-LIMIT", "OWN-LIMIT")
    }


@catalogue.case(
    "js.consumer.error.work-queue-unfiltered",
    text="multiple non-filtered consumers not allowed on workqueue stream",
)
def work_queue_unfiltered(session: Session) -> Observation:
    """Beside another consumer of a work queue one without a filter is refused."""
    js = with_stream(session, "WQ-UNFILTERED", retention="workqueue")
    new_durable(js, "WQ-UNFILTERED", "A", filter_subject="WQ-UNFILTERED.a")
    return create_consumer(js, "WQ-UNFILTERED", "B", ack_policy="explicit")


@catalogue.case(
    "js.consumer.error.work-queue-overlap",
    text="filtered consumer not unique on workqueue stream",
)
def work_queue_overlap(session: Session) -> Observation:
    """No message of a work queue is for two consumers, whichever filter is the wider one."""
    js = with_stream(session, "WQ-OVERLAP", retention="workqueue")
    new_durable(js, "WQ-OVERLAP", "A", filter_subjects=["WQ-OVERLAP.a.*", "WQ-OVERLAP.b"])
    filters = ("WQ-OVERLAP.a.b", "WQ-OVERLAP.>", "WQ-OVERLAP.*.c", "WQ-OVERLAP.b", "WQ-OVERLAP.c")
    return {
        each: told(js, "WQ-OVERLAP", ack_policy="explicit", filter_subject=each) for each in filters
    }


@catalogue.case("js.consumer.error.work-queue-beside-unfiltered")
def work_queue_beside_unfiltered(session: Session) -> Observation:
    """Beside a consumer of all the work every other one overlaps."""
    js = with_stream(session, "WQ-BESIDE", retention="workqueue")
    new_durable(js, "WQ-BESIDE", "A")
    return told(js, "WQ-BESIDE", ack_policy="explicit", filter_subject="WQ-BESIDE.a")


@catalogue.case("js.consumer.error.work-queue-update")
def work_queue_update(session: Session) -> Observation:
    """A consumer of a work queue can not be given what is another's; without a filter it can."""
    js = with_stream(session, "WQ-UPDATE", retention="workqueue")
    new_durable(js, "WQ-UPDATE", "A", filter_subject="WQ-UPDATE.a")
    new_durable(js, "WQ-UPDATE", "B", filter_subject="WQ-UPDATE.b")
    chosen: dict[str, object] = {"durable_name": "B", "ack_policy": "explicit"}
    return {
        "other's": create_consumer(
            js, "WQ-UPDATE", "B", None, filter_subject="WQ-UPDATE.*", **chosen
        ),
        "own": create_consumer(js, "WQ-UPDATE", "B", None, filter_subject="WQ-UPDATE.c", **chosen),
        "all": create_consumer(js, "WQ-UPDATE", "B", None, **chosen),
    }
