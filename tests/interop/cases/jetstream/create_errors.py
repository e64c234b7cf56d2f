"""STREAM.CREATE refused: every rule a configuration can break, with the code and the text.

Most rules are one line of `REFUSED`; those with more to show have a script below it.
"""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, add_refusal, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000

REFUSED: tuple[tuple[str, str, str, dict[str, object]], ...] = (
    (
        "description-too-long",
        "A description has at most 4 KiB.",
        "stream description is too long, maximum allowed is 4096",
        {"description": "d" * 4097},
    ),
    (
        "metadata-too-large",
        "The keys and values of the metadata have at most 128 KiB together.",
        "stream metadata exceeds maximum size of 131072 bytes",
        {"metadata": {"k": "v" * 131072}},
    ),
    (
        "replicas-past-five",
        "Five replicas are the most.",
        "maximum replicas is 5",
        {"num_replicas": 6},
    ),
    (
        "replicas-negative",
        "A negative number of replicas has an error of its own.",
        "replicas count cannot be negative",
        {"num_replicas": -1},
    ),
    (
        "replicas-alone",
        "A server on its own has one replica of a stream.",
        "replicas > 1 not supported in non-clustered mode",
        {"num_replicas": 3},
    ),
    (
        "age-negative",
        "An age is not negative.",
        "max age can not be negative",
        {"max_age": -1},
    ),
    (
        "age-too-short",
        "An age is 100 ms at least.",
        "max age needs to be >= 100ms",
        {"max_age": 99 * MILLISECOND_NS},
    ),
    (
        "window-negative",
        "A duplicate window is not negative.",
        "duplicates window can not be negative",
        {"duplicate_window": -1},
    ),
    (
        "window-too-short",
        "A duplicate window is 100 ms at least.",
        "duplicates window needs to be >= 100ms",
        {"duplicate_window": 99 * MILLISECOND_NS},
    ),
    (
        "window-past-age",
        "A duplicate window is not longer than messages live.",
        "duplicates window can not be larger then max age",
        {"max_age": SECOND_NS, "duplicate_window": SECOND_NS + 1},
    ),
    (
        "rollup-without-purge",
        "Roll-ups purge, so they can not be had where purging is denied.",
        "roll-ups require the purge permission",
        {"deny_purge": True, "allow_rollup_hdrs": True},
    ),
    (
        "counter-discard-new",
        "A counter stream can not refuse new messages.",
        "counter stream cannot use discard new",
        {"allow_msg_counter": True, "discard": "new"},
    ),
    (
        "counter-ttl",
        "A counter stream can not have message TTLs.",
        "counter stream cannot use message TTLs",
        {"allow_msg_counter": True, "allow_msg_ttl": True},
    ),
    (
        "counter-schedules",
        "A counter stream can not have schedules.",
        "counter stream cannot use message schedules",
        {"allow_msg_counter": True, "allow_msg_schedules": True},
    ),
    (
        "counter-retention",
        "A counter stream keeps by limits.",
        "counter stream can only use limits retention",
        {"allow_msg_counter": True, "retention": "workqueue"},
    ),
    (
        "discard-per-subject-old",
        "Discarding new messages per subject is a kind of discarding new messages.",
        "discard new per subject requires discard new policy to be set",
        {"discard_new_per_subject": True, "max_msgs_per_subject": 1},
    ),
    (
        "discard-per-subject-unlimited",
        "Discarding new messages per subject needs a limit per subject.",
        "discard new per subject requires max msgs per subject > 0",
        {"discard_new_per_subject": True, "discard": "new"},
    ),
    (
        "marker-ttl-too-short",
        "A delete marker lives for a second at least.",
        "subject delete marker TTL must be at least 1 second",
        {"subject_delete_marker_ttl": 999 * MILLISECOND_NS},
    ),
    (
        "marker-ttl-negative",
        "A delete marker's life is not negative.",
        "subject delete marker TTL must not be negative",
        {"subject_delete_marker_ttl": -1},
    ),
    (
        "schedules-discard-new",
        "A stream with schedules can not refuse new messages.",
        "message scheduling cannot use discard new",
        {"allow_msg_schedules": True, "discard": "new"},
    ),
    (
        "async-memory",
        "Async persistence is for file streams.",
        "async persist mode is only supported on file storage",
        {"persist_mode": "async", "storage": "memory"},
    ),
    (
        "async-replicas",
        "Async persistence comes before the rule about replicas on one server.",
        "async persist mode is not supported on replicated streams",
        {"persist_mode": "async", "num_replicas": 3},
    ),
    (
        "async-atomic",
        "Async persistence can not promise atomic batches.",
        "async persist mode is not supported with atomic batch publish",
        {"persist_mode": "async", "allow_atomic": True},
    ),
    (
        "subject-invalid",
        "A subject has no empty token.",
        "invalid subject",
        {"subjects": ["subject..invalid"]},
    ),
    (
        "subjects-duplicate",
        "A subject listed twice overlaps with itself.",
        'subject "dup.a" overlaps with "dup.a"',
        {"subjects": ["dup.a", "dup.a"]},
    ),
    (
        "subjects-overlap-own",
        "The subjects of one stream do not overlap; the text names both.",
        'subject "own.b" overlaps with "own.*"',
        {"subjects": ["own.a.b", "own.b", "own.c", "own.*"]},
    ),
    (
        "capture-all-acked",
        "Acks would be captured too by a stream of all subjects.",
        "capturing all subjects requires no-ack to be true",
        {"subjects": [">"]},
    ),
    (
        "capture-all-replicas",
        "A stream of all subjects has one replica.",
        "capturing all subjects requires replicas of 1",
        {"subjects": [">"], "no_ack": True, "num_replicas": 3},
    ),
    (
        "capture-api",
        "A stream with acks does not capture the JetStream API.",
        "subjects that overlap with jetstream api require no-ack to be true",
        {"subjects": ["$JS.>"]},
    ),
    (
        "capture-system",
        "A stream with acks does not capture system events other than an account's.",
        "subjects that overlap with system api require no-ack to be true",
        {"subjects": ["$SYS.REQ.>"]},
    ),
    (
        "republish-cycle",
        "What is republished does not come back into the stream.",
        "stream configuration for republish destination forms a cycle",
        {"subjects": ["cycle.>"], "republish": {"src": "cycle.a", "dest": "cycle.b"}},
    ),
    (
        "republish-transform",
        "A republish is a valid subject transform; the text shows it.",
        "stream configuration for republish with transform from 'rt.*' to 'rt.$2' not valid",
        {"subjects": ["in.*"], "republish": {"src": "rt.*", "dest": "rt.$2"}},
    ),
    (
        "transform-source",
        "The source of a subject transform is a subject.",
        "stream transform source: ",
        {"subject_transform": {"src": "a..b", "dest": "c"}},
    ),
    (
        "transform-destination",
        "The destination of a subject transform uses wildcards the source has.",
        "stream transform: ",
        {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(2)}}"}},
    ),
    (
        "placement-preferred",
        "A stream can not prefer a server.",
        "preferred server not permitted in placement",
        {"placement": {"preferred": "interop"}},
    ),
    (
        "sealed",
        "A stream is sealed later, not when it is made.",
        "stream configuration for create can not be sealed",
        {"sealed": True},
    ),
    (
        "mirror-direct",
        "Only a mirror answers direct gets for its origin.",
        "stream has no mirror but does have mirror direct",
        {"mirror_direct": True},
    ),
    (
        "pedantic-max-msgs",
        "Asked to be pedantic, the server does not correct `max_msgs`.",
        "pedantic mode: max_msgs must be set to -1",
        {"pedantic": True, "max_msgs": -2},
    ),
    (
        "pedantic-max-msgs-per-subject",
        "Asked to be pedantic, the server does not correct `max_msgs_per_subject`.",
        "pedantic mode: max_msgs_per_subject must be set to -1",
        {"pedantic": True, "max_msgs_per_subject": -2},
    ),
    (
        "pedantic-max-bytes",
        "Asked to be pedantic, the server does not correct `max_bytes`.",
        "pedantic mode: max_bytes must be set to -1",
        {"pedantic": True, "max_bytes": -2},
    ),
    (
        "pedantic-max-msg-size",
        "Asked to be pedantic, the server does not correct `max_msg_size`.",
        "pedantic mode: max_msg_size must be set to -1",
        {"pedantic": True, "max_msg_size": -2},
    ),
    (
        "pedantic-max-consumers",
        "Asked to be pedantic, the server does not correct `max_consumers`.",
        "pedantic mode: max_consumers must be set to -1",
        {"pedantic": True, "max_consumers": -2},
    ),
    (
        "pedantic-window",
        "Asked to be pedantic, the server does not shorten the default window to the age.",
        "pedantic mode: duplicate window cannot be bigger than max age",
        {"pedantic": True, "max_age": SECOND_NS},
    ),
    (
        "pedantic-marker-ttl",
        "Asked to be pedantic, the server does not turn message TTLs on for markers.",
        "subject delete marker cannot be set if message TTLs are disabled",
        {"pedantic": True, "subject_delete_marker_ttl": SECOND_NS},
    ),
    (
        "pedantic-marker-rollup",
        "Asked to be pedantic, the server does not turn roll-ups on for markers.",
        "subject delete marker cannot be set if roll-ups are disabled",
        {"pedantic": True, "subject_delete_marker_ttl": SECOND_NS, "allow_msg_ttl": True},
    ),
    (
        "pedantic-schedules",
        "Asked to be pedantic, the server does not turn roll-ups on for schedules.",
        "message scheduling cannot be set if roll-ups are disabled",
        {"pedantic": True, "allow_msg_schedules": True},
    ),
    (
        "pedantic-republish-source",
        "Asked to be pedantic, the server wants to be told what to republish.",
        "pedantic mode: republish source can not be empty",
        {"pedantic": True, "republish": {"dest": "prs.>"}},
    ),
    (
        "pedantic-republish-implicit",
        "Asked to be pedantic, the server does not take a republish from the transform.",
        "pedantic mode: implicit republish based on subject transform",
        {
            "pedantic": True,
            "subjects": ["pri.>"],
            "subject_transform": {"src": "pri.>", "dest": "pro.>"},
            "republish": {"src": ">", "dest": ">"},
        },
    ),
)

for word, statement, text, config in REFUSED:
    add_refusal(catalogue, f"js.create.error.{word}", statement, text, config)


@catalogue.case(
    "js.create.error.name-missing", text="stream name in subject does not match request"
)
def name_missing(session: Session) -> Observation:
    """The name in the body is that in the subject, and none is none of them."""
    js = jetstream(session, "NAMED")
    return {
        "other": js.api("STREAM.CREATE.NAMED", {"name": "OTHER"}),
        "none": js.api("STREAM.CREATE.NAMED", {"subjects": ["named"]}),
        "empty body": js.api("STREAM.CREATE.NAMED"),
        "empty object": js.api("STREAM.CREATE.NAMED", "{}"),
        "other case": js.api("STREAM.CREATE.NAMED", {"name": "named"}),
    }


@catalogue.case(
    "js.create.error.path-separators", text="Stream name can not contain path separators"
)
def path_separators(session: Session) -> Observation:
    """Slashes would lead out of the directory of streams."""
    js = jetstream(session)
    names = ("a/b", "a\\b", "/")
    return {name: js.api(f"STREAM.CREATE.{name}", {"name": name}) for name in names}


@catalogue.case(
    "js.create.error.name-too-long", text="stream name is too long, maximum allowed is 255"
)
def name_too_long(session: Session) -> Observation:
    """A name has at most 255 bytes."""
    name = "L" * 256
    return jetstream(session).api(f"STREAM.CREATE.{name}", {"name": name})


@catalogue.case(
    "js.create.error.name-wildcard",
    text="stream name is required and can not contain '.', '*', '>', '\\', '/'",
)
def name_wildcard(session: Session) -> Observation:
    """A wildcard inside a name is refused by the rule about names."""
    js = jetstream(session)
    return {
        name: js.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": ["name-wildcard"]})
        for name in ("a*", "a>", "*a")
    }


def told(js: JetStreamClient, name: str, **config: object) -> Observation:
    """The error of a create, None if there is none; the stream does not stay."""
    reply = js.create(name, **config)
    js.api(f"STREAM.DELETE.{name}")
    error: Observation = reply.get("error")
    return error


@catalogue.case("js.create.error.subject-forms")
def subject_forms(session: Session) -> Observation:
    """A subject has no blanks, no empty tokens, and a `>` last; a star in a word is a letter."""
    js = jetstream(session, "SUBJECT-FORMS")
    forms = ("", " ", "sf b", "sf.", ".sf", "sf.>.b", "sf\tb", "sf.*b", "sf>", "**", "sf.>>")
    return {form: told(js, "SUBJECT-FORMS", subjects=[form]) for form in forms}


@catalogue.case("js.create.error.blanks")
def blanks(session: Session) -> Observation:
    """No blank or line end is in a subject or a prefix, as a token of its own or inside of one."""
    js = jetstream(session, "BLANKS")
    told_of = {}
    for text in (" ", "\t", "\r", "\n", "\f", "a\rb", "a\nb", "a\r\nMSG b 1 0\r\n\r\n", "a b"):
        subject = f"bl.{text}"
        external = {"name": "M", "external": {"api": subject}}
        configs: dict[str, dict[str, object]] = {
            "subjects": {"subjects": [subject]},
            "transform source": {"subject_transform": {"src": subject, "dest": "bl.b"}},
            "transform": {"subjects": ["in.*"], "subject_transform": {"dest": f"{subject}.>"}},
            "mirror": {"subjects": [], "mirror": {"name": subject}},
            "mirror filter": {"subjects": [], "mirror": {"name": "M", "filter_subject": subject}},
            "api prefix": {"subjects": [], "mirror": external},
            "source": {"subjects": [], "sources": [{"name": subject}]},
            "source prefix": {"subjects": [], "sources": [external]},
        }
        told_of[text] = {key: told(js, "BLANKS", **config) for key, config in configs.items()}
    return told_of


@catalogue.case("js.create.error.order")
def order(session: Session) -> Observation:
    """Of several broken rules the first in the server's order is told."""
    js = jetstream(session, "ORDER")
    broken: dict[str, object] = {
        "sealed": True,
        "description": "d" * 4097,
        "num_replicas": 9,
        "max_age": -1,
        "duplicate_window": -1,
        "subjects": ["a..b"],
        "placement": {"preferred": "x"},
    }
    told = []
    while broken:
        told.append(js.create("ORDER", **broken).get("error"))
        broken.pop(next(iter(broken)))
    return told


@catalogue.case("js.create.error.transform-texts")
def transform_texts(session: Session) -> Observation:
    """What a subject transform may and may not say, each mistake with its text."""
    js = jetstream(session, "TRANSFORM-TEXTS")
    wrong = (
        ("t.*", "t.{{wildcard(0)}}"),
        ("t.*", "t.{{wildcard()}}"),
        ("t.*", "t.{{wildcard(a)}}"),
        ("t.*", "t.{{nothing(1)}}"),
        ("t.*", "t.{{wildcard(1,2)}}"),
        ("t.*", "t.{{partition(0,1)}}"),
        ("t.*", "t.{{split(1)}}"),
        ("t.*", "t.>"),
        ("t.*", "t..x"),
        ("t.*", "t.*"),
        ("t.*.*", "t.*"),
        ("t.>", "x"),
        ("t.>", "x.>"),
        ("", "x"),
        ("t.*", ""),
        ("t.*", "x.{{wildcard(1)"),
    )
    return [
        told(js, "TRANSFORM-TEXTS", subject_transform={"src": source, "dest": dest})
        for source, dest in wrong
    ]


@catalogue.case("js.create.pedantic-accepted")
def pedantic_accepted(session: Session) -> Observation:
    """What needs no correction is created by a pedantic request; zeros are filled in still."""
    js = jetstream(session, "PEDANTIC")
    return js.create("PEDANTIC", pedantic=True, max_msgs=-1, max_bytes=0, num_replicas=0)
