"""Sources that are refused: their settings, doubles, circles among streams, and bad updates."""

from tests.interop.case import Catalogue
from tests.interop.copies import Config, new_aggregate, new_mirror, sources_of, told, with_origin
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

CONSUMER = {"name": "C", "deliver_subject": "nosrc.deliver"}
NAME = "NOSRC"


def refused(js: JetStreamClient, name: str, *settings: Config, **config: object) -> Observation:
    """The errors of streams of one name with a source; one that is made is taken away again."""
    answers: list[Observation] = []
    for setting in settings:
        reply = new_aggregate(js, name, {"name": NAME, **setting}, **config)
        answers.append(reply.get("error", reply.get("config")))
    js.api(f"STREAM.DELETE.{name}")
    return answers


@catalogue.case("js.source-error.filters")
def filters(session: Session) -> Observation:
    """Filters of a source have to be subjects, not both in one and in several, and not overlap."""
    js = with_origin(session, NAME)

    def transforms(*pairs: tuple[str, str]) -> Config:
        return {"subject_transforms": [{"src": src, "dest": dest} for src, dest in pairs]}

    return refused(
        js,
        "NOSRC-FILT",
        {"filter_subject": "a..b"},
        {"filter_subject": ">.a"},
        {"filter_subject": "a", **transforms(("b", ""))},
        transforms(("a.*", ""), ("a.b", "")),
        transforms(("a.*.c", ""), ("a.b.*", "")),
        transforms((">", ""), ("b", "")),
        transforms(("a", "x"), ("a", "y")),
        transforms(("", "x"), ("b", "y")),
        transforms(("a b", "")),
        transforms(("a.*", "b.$2")),
        transforms(("a.*", "b.{{wildcard(2)}}")),
        transforms(("a.*", "b.{{unknown(1)}}")),
        transforms(("a.*", "b.*.*")),
    )


@catalogue.case("js.source-error.doubles")
def doubles(session: Session) -> Observation:
    """A source may stand once with one name, place and filter; a start makes no other source."""
    js = with_origin(session, NAME)
    pairs: tuple[tuple[Config, Config], ...] = (
        ({}, {}),
        ({}, {"filter_subject": ">"}),
        ({}, {"opt_start_seq": 5}),
        ({"filter_subject": "a"}, {"filter_subject": "b"}),
        ({"filter_subject": "a"}, {"filter_subject": "a"}),
        (
            {"subject_transforms": [{"src": "a", "dest": "x"}]},
            {"subject_transforms": [{"src": "a", "dest": "y"}]},
        ),
        ({}, {"external": {"api": "$JS.hub.API"}}),
        ({"external": {"api": "$JS.hub.API"}}, {"external": {"api": "$JS.hub.API"}}),
    )
    answers = []
    for pair in pairs:
        reply = new_aggregate(js, "NOSRC-TWICE", *({"name": NAME, **each} for each in pair))
        answers.append(reply.get("error", "made"))
    js.api("STREAM.DELETE.NOSRC-TWICE")
    return answers


@catalogue.case("js.source-error.names")
def names(session: Session) -> Observation:
    """The name of each source has to be that of a stream."""
    js = with_origin(session, NAME)
    wrong = ("", "a.b", "a*", ">", "a b", "a/b", "a\\b")
    return refused(js, "NOSRC-NAME", *({"name": name} for name in wrong))


@catalogue.case("js.source-error.malformed")
def malformed(session: Session) -> Observation:
    """Sources that are no list of objects, or have fields of other types, are bad JSON."""
    js = with_origin(session, NAME)
    values: tuple[object, ...] = (
        {"name": NAME},
        [NAME],
        [None],
        [{}],
        [{"name": NAME, "opt_start_seq": -1}],
        [{"name": NAME, "opt_start_time": "now"}],
        [{"name": NAME, "external": []}],
        [{"name": NAME, "subject_transforms": {}}],
        [{"name": NAME, "unknown": 1}],
    )
    replies = [js.create("NOSRC-JSON", subjects=[], sources=value) for value in values]
    js.api("STREAM.DELETE.NOSRC-JSON")
    return [reply.get("error", "made") for reply in replies]


@catalogue.case("js.source-error.start")
def start(session: Session) -> Observation:
    """A source with a start both by sequence and by time is taken with both."""
    js = with_origin(session, NAME)
    both = {"opt_start_seq": 3, "opt_start_time": "2030-01-01T00:00:00Z"}
    return refused(js, "NOSRC-START", both)


@catalogue.case("js.source-error.external")
def external(session: Session) -> Observation:
    """Prefixes have no wildcards, are not this account's, and do not overlap with its subjects."""
    js = with_origin(session, NAME)
    prefixes = (
        {"api": "$JS.API"},
        {"api": "$JS.hub.API", "deliver": "d.*"},
        {"api": "$JS.*.API"},
        {"api": "a..b"},
        {"api": "$JS.>"},
    )
    return refused(js, "NOSRC-EXT", *({"external": prefix} for prefix in prefixes))


@catalogue.case("js.source-error.external-overlap")
def external_overlap(session: Session) -> Observation:
    """A prefix to deliver to is refused if subjects of another source would be met by it."""
    js = with_origin(session, "NOSRC-OVER", subjects=["nosrcover.>"])
    answers = []
    for deliver in ("nosrcover", "nosrcother"):
        far = {"name": "FAR", "external": {"api": "$JS.hub.API", "deliver": deliver}}
        reply = new_aggregate(js, "NOSRC-OVER-S", "NOSRC-OVER", far)
        answers.append(reply.get("error", "made"))
    js.api("STREAM.DELETE.NOSRC-OVER-S")
    return answers


@catalogue.case("js.source-error.external-unreachable")
def external_unreachable(session: Session) -> Observation:
    """A source behind a prefix where nobody answers is told of with its prefixes."""
    js = with_origin(session, NAME)
    prefixes = {"api": "$JS.nowhere.API", "deliver": "nowhere.deliver"}
    made = new_aggregate(js, "NOSRC-FAR", {"name": NAME, "external": prefixes})
    [origin] = told(js.info("NOSRC-FAR"))["sources"]
    js.api("STREAM.DELETE.NOSRC-FAR")
    return [made, {key: part for key, part in origin.items() if key != "error"}]


@catalogue.case("js.source-error.consumer")
def consumer(session: Session) -> Observation:
    """A consumer to source through has a name and a subject, and leaves no start and no filter."""
    js = with_origin(session, NAME)
    single = refused(
        js,
        "NOSRC-CONS",
        {"consumer": {**CONSUMER, "name": ""}},
        {"consumer": {**CONSUMER, "deliver_subject": ""}},
        {"consumer": {**CONSUMER, "deliver_subject": "a.*"}},
        {"consumer": CONSUMER, "opt_start_seq": 2},
        {"consumer": CONSUMER, "filter_subject": "a"},
    )
    source = {"name": NAME, "consumer": CONSUMER}
    return [single, new_aggregate(js, "NOSRC-CONS", source, source).get("error")]


@catalogue.case("js.source-error.message-size")
def message_size(session: Session) -> Observation:
    """A stream takes all that each of its sources takes, or is refused."""
    js = with_origin(session, "NOSRC-SIZE", max_msg_size=100)
    sizes = (99, 100, 101, -1)
    replies = [new_aggregate(js, "NOSRC-SIZE-S", "NOSRC-SIZE", max_msg_size=n) for n in sizes]
    return [reply.get("error", "made") for reply in replies]


@catalogue.case("js.source-error.schedules")
def schedules(session: Session) -> Observation:
    """A stream with sources schedules nothing, and counters go with sources."""
    js = with_origin(session, NAME)
    settings: tuple[Config, ...] = (
        {"allow_msg_schedules": True, "subjects": ["nosrc.plan"]},
        {"allow_msg_counter": True},
        {"allow_atomic": True},
        {"allow_batched": True},
        {"first_seq": 100},
        {"retention": "workqueue"},
        {"retention": "interest"},
        {"mirror_direct": True},
    )
    replies = [new_aggregate(js, "NOSRC-PLAN", NAME, **each) for each in settings]
    js.api("STREAM.DELETE.NOSRC-PLAN")
    return [reply.get("error", reply.get("config")) for reply in replies]


@catalogue.case("js.source-error.cycle")
def cycle(session: Session) -> Observation:
    """Streams that would get their own messages back over one, two or three are refused."""
    js = jetstream(session, "NOSRC-3", "NOSRC-2", "NOSRC-1")
    alone = new_aggregate(js, "NOSRC-1", "NOSRC-1", subjects=["nosrc1"])
    new_aggregate(js, "NOSRC-1", "NOSRC-2", subjects=["nosrc1"])
    pair = new_aggregate(js, "NOSRC-2", "NOSRC-1", subjects=["nosrc2"])
    second = new_aggregate(js, "NOSRC-2", "NOSRC-3", subjects=["nosrc2"])
    three = new_aggregate(js, "NOSRC-3", "NOSRC-1", subjects=["nosrc3"])
    mirror = new_mirror(js, "NOSRC-3", "NOSRC-1")
    for number in (1, 2, 3):
        js.api(f"STREAM.DELETE.NOSRC-{number}")
    return [reply.get("error", "made") for reply in (alone, pair, second, three, mirror)]


@catalogue.case("js.source-error.cycle-filtered")
def cycle_filtered(session: Session) -> Observation:
    """Streams may source each other if a filter of one lets none of its own messages return."""
    js = jetstream(session, "NOSRC-B", "NOSRC-A")
    new_aggregate(
        js, "NOSRC-A", {"name": "NOSRC-B", "filter_subject": "nosrcb"}, subjects=["nosrca"]
    )
    answers = [
        new_aggregate(
            js, "NOSRC-B", {"name": "NOSRC-A", "filter_subject": wanted}, subjects=["nosrcb"]
        ).get("error", "made")
        for wanted in ("nosrca", "nosrcb", "*", ">")
    ]
    js.api("STREAM.DELETE.NOSRC-A")
    js.api("STREAM.DELETE.NOSRC-B")
    return answers


@catalogue.case("js.source-error.cycle-by-update")
def cycle_by_update(session: Session) -> Observation:
    """An update that would close a circle is refused as a create is."""
    js = with_origin(session, "NOSRC-FIRST")
    new_aggregate(js, "NOSRC-NEXT", "NOSRC-FIRST")
    answer = js.update("NOSRC-FIRST", sources=sources_of("NOSRC-NEXT"))
    return [answer.get("error", "updated"), "sources" in js.info("NOSRC-FIRST")["config"]]


@catalogue.case("js.source-error.updates")
def updates(session: Session) -> Observation:
    """An update of sources is checked as a create is, and a refused one changes nothing."""
    js = with_origin(session, "NOSRC-UPD")
    new_aggregate(js, "NOSRC-UPD-S", "NOSRC-UPD")
    changes: tuple[tuple[Config | str, ...], ...] = (
        ("NOSRC-UPD", "NOSRC-UPD"),
        ("NOSRC-UPD-S",),
        ("a.b",),
        ({"name": "NOSRC-UPD", "filter_subject": "NOSRC-UPD.a"},),
        ({"name": "NOSRC-UPD", "opt_start_seq": 3},),
    )
    answers = [
        js.update("NOSRC-UPD-S", subjects=[], sources=sources_of(*change)) for change in changes
    ]
    kept = js.info("NOSRC-UPD-S")["config"]["sources"]
    return [[answer.get("error", "updated") for answer in answers], kept]


@catalogue.case("js.source-error.replicas")
def replicas(session: Session) -> Observation:
    """As many replicas as there are no servers for are refused for streams with sources too."""
    js = with_origin(session, NAME)
    return new_aggregate(js, "NOSRC-R", NAME, num_replicas=5).get("error")


@catalogue.case("js.source-error.again")
def again(session: Session) -> Observation:
    """A second create of a stream with sources succeeds only with equal sources in their order."""
    js = with_origin(session, NAME)
    new_aggregate(js, "NOSRC-AGAIN-S", NAME, "NOSRC-OTHER")
    orders = ((NAME, "NOSRC-OTHER"), ("NOSRC-OTHER", NAME), (NAME,), ())
    replies = [
        js.create("NOSRC-AGAIN-S", subjects=[], sources=sources_of(*each)) for each in orders
    ]
    js.api("STREAM.DELETE.NOSRC-AGAIN-S")
    return [reply.get("error", "same") for reply in replies]
