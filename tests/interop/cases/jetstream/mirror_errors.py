"""Mirrors that are refused: their settings, circles among streams, and forbidden updates."""

from tests.interop.case import Catalogue
from tests.interop.copies import Config, new_mirror, told, with_origin
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

CONSUMER = {"name": "C", "deliver_subject": "nomir.deliver"}


def refused(js: JetStreamClient, name: str, *mirrors: Config, **config: object) -> Observation:
    """The errors of mirrors of one name; a mirror that is made is taken away again."""
    answers: list[Observation] = []
    for mirror in mirrors:
        reply = new_mirror(js, name, "NOMIR", mirror, **config)
        answers.append(reply.get("error", reply.get("config")))
    js.api(f"STREAM.DELETE.{name}")
    return answers


@catalogue.case("js.mirror-error.settings")
def settings(session: Session) -> Observation:
    """Settings by which a mirror would have messages of its own are refused one by one."""
    js = with_origin(session, "NOMIR")
    settings: list[Config] = [
        {"subjects": ["nomir.own"]},
        {"sources": [{"name": "NOMIR"}]},
        {"first_seq": 5},
        {"allow_msg_counter": True},
        {"allow_atomic": True},
        {"allow_batched": True},
        {"allow_msg_schedules": True},
        {"subject_delete_marker_ttl": 1_000_000_000, "allow_msg_ttl": True},
        {"subject_transform": {"src": "NOMIR.>", "dest": "x.>"}},
        {"retention": "workqueue"},
        {"retention": "interest"},
    ]
    answers = []
    for each in settings:
        js.api("STREAM.DELETE.NOMIR-SET")
        body = {"name": "NOMIR-SET", "mirror": {"name": "NOMIR"}, **each}
        reply = js.api("STREAM.CREATE.NOMIR-SET", body)
        answers.append(reply.get("error", reply.get("config")))
    return answers


@catalogue.case("js.mirror-error.order")
def order(session: Session) -> Observation:
    """Of several wrong settings the first of a fixed order is told."""
    js = with_origin(session, "NOMIR")
    wrong: list[tuple[str, object]] = [
        ("allow_atomic", True),
        ("allow_msg_counter", True),
        ("sources", [{"name": "NOMIR"}]),
        ("subjects", ["nomir.order"]),
        ("first_seq", 5),
    ]
    body: dict[str, object] = {"name": "NOMIR-ORDER", "mirror": {"name": "no.name"}}
    answers = [js.api("STREAM.CREATE.NOMIR-ORDER", body)]
    for key, value in wrong:
        body[key] = value
        answers.append(js.api("STREAM.CREATE.NOMIR-ORDER", body))
    return [answer["error"] for answer in answers]


@catalogue.case("js.mirror-error.filters")
def filters(session: Session) -> Observation:
    """Filters of a mirror have to be subjects, not both in one and in several, and not overlap."""
    js = with_origin(session, "NOMIR")

    def transforms(*pairs: tuple[str, str]) -> Config:
        return {"subject_transforms": [{"src": src, "dest": dest} for src, dest in pairs]}

    return refused(
        js,
        "NOMIR-FILT",
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


@catalogue.case("js.mirror-error.start")
def start(session: Session) -> Observation:
    """Of a start both by sequence and by time none is refused; both are kept."""
    js = with_origin(session, "NOMIR")
    moment = "2030-01-01T00:00:00Z"
    return refused(
        js,
        "NOMIR-START",
        {"opt_start_seq": 3, "opt_start_time": moment},
        {"opt_start_time": moment},
    )


@catalogue.case("js.mirror-error.start-malformed")
def start_malformed(session: Session) -> Observation:
    """A start that is no sequence or no time is bad JSON for its field."""
    js = with_origin(session, "NOMIR")
    return refused(
        js,
        "NOMIR-BAD",
        {"opt_start_seq": -1},
        {"opt_start_seq": "1"},
        {"opt_start_time": "yesterday"},
        {"filter_subject": 1},
        {"external": "hub"},
        {"unknown": True},
    )


@catalogue.case("js.mirror-error.names")
def names(session: Session) -> Observation:
    """The name of an origin has to be that of a stream."""
    js = with_origin(session, "NOMIR")
    return refused(
        js,
        "NOMIR-NAME",
        *({"name": name} for name in ("", "a.b", "a*", ">", "a b", "a/b", "a\\b")),
    )


@catalogue.case("js.mirror-error.external")
def external(session: Session) -> Observation:
    """Prefixes of another domain have no wildcards and are not those of this account."""
    js = with_origin(session, "NOMIR")
    prefixes = (
        {"api": "$JS.API"},
        {"api": "$JS.API.>"},
        {"api": "$JS.hub.API", "deliver": "d.*"},
        {"api": "$JS.*.API"},
        {"api": "a..b"},
        {"api": "$JS.>"},
    )
    return refused(js, "NOMIR-EXT", *({"external": prefix} for prefix in prefixes))


@catalogue.case("js.mirror-error.external-unreachable")
def external_unreachable(session: Session) -> Observation:
    """A mirror of a stream behind a prefix where nobody answers is made, with its prefixes told."""
    js = with_origin(session, "NOMIR")
    prefixes = {"api": "$JS.nowhere.API", "deliver": "nowhere.deliver"}
    made = new_mirror(js, "NOMIR-FAR", "NOMIR", {"external": prefixes})
    info = told(js.info("NOMIR-FAR"))
    js.api("STREAM.DELETE.NOMIR-FAR")
    return [made, {key: part for key, part in info["mirror"].items() if key != "error"}]


@catalogue.case("js.mirror-error.consumer")
def consumer(session: Session) -> Observation:
    """A consumer to mirror through has a name and a subject, and leaves no start and no filter."""
    js = with_origin(session, "NOMIR")
    return refused(
        js,
        "NOMIR-CONS",
        {"consumer": {**CONSUMER, "name": ""}},
        {"consumer": {**CONSUMER, "deliver_subject": ""}},
        {"consumer": {**CONSUMER, "deliver_subject": "a.*"}},
        {"consumer": CONSUMER, "opt_start_seq": 2},
        {"consumer": CONSUMER, "filter_subject": "a"},
        {"consumer": CONSUMER, "opt_start_time": "2030-01-01T00:00:00Z"},
    )


@catalogue.case("js.mirror-error.message-size")
def message_size(session: Session) -> Observation:
    """A mirror takes all that its origin takes, or is refused."""
    js = with_origin(session, "NOMIR-SIZE", max_msg_size=100)
    sizes = (99, 100, 101, -1)
    replies = [new_mirror(js, "NOMIR-SIZE-M", "NOMIR-SIZE", max_msg_size=size) for size in sizes]
    return [reply.get("error", "made") for reply in replies]


@catalogue.case("js.mirror-error.cycle")
def cycle(session: Session) -> Observation:
    """Streams that would mirror themselves over one, two or three are refused."""
    js = jetstream(session, "NOMIR-3", "NOMIR-2", "NOMIR-1")
    alone = new_mirror(js, "NOMIR-1", "NOMIR-1")
    pair = [new_mirror(js, "NOMIR-1", "NOMIR-2"), new_mirror(js, "NOMIR-2", "NOMIR-1")]
    three = [new_mirror(js, "NOMIR-2", "NOMIR-3"), new_mirror(js, "NOMIR-3", "NOMIR-1")]
    for number in (1, 2, 3):
        js.api(f"STREAM.DELETE.NOMIR-{number}")
    return [reply.get("error", "made") for reply in (alone, *pair, *three)]


@catalogue.case("js.mirror-error.replicas")
def replicas(session: Session) -> Observation:
    """As many replicas as there are no servers for are refused for a mirror too."""
    js = with_origin(session, "NOMIR")
    five = new_mirror(js, "NOMIR-R", "NOMIR", num_replicas=5)
    six = new_mirror(js, "NOMIR-R", "NOMIR", num_replicas=6)
    return [five.get("error"), six.get("error")]


@catalogue.case("js.mirror-error.updates")
def updates(session: Session) -> Observation:
    """No update makes a mirror one of another stream or part, and no stream a mirror."""
    js = with_origin(session, "NOMIR-UPD")
    mirror = {"name": "NOMIR-UPD", "filter_subject": "NOMIR-UPD.a"}
    new_mirror(js, "NOMIR-UPD-M", "NOMIR-UPD", mirror)
    changes: tuple[Config, ...] = (
        {"mirror": {"name": "NOMIR-OTHER"}},
        {"mirror": {"name": "NOMIR-UPD"}},
        {"mirror": {**mirror, "filter_subject": "NOMIR-UPD.b"}},
        {"mirror": {**mirror, "opt_start_seq": 2}},
        {"mirror": mirror, "subjects": ["nomir.added"]},
        {"mirror": mirror, "sources": [{"name": "NOMIR-UPD"}]},
        {"mirror": mirror, "storage": "memory"},
        {"mirror": mirror, "max_msgs": 3},
        {"mirror": mirror},
    )
    answers = [js.update("NOMIR-UPD-M", **{"subjects": [], **change}) for change in changes]
    answers.append(js.update("NOMIR-UPD", subjects=[], mirror={"name": "NOMIR-UPD-M"}))
    return [answer.get("error", "updated") for answer in answers]


@catalogue.case("js.mirror-error.again")
def again(session: Session) -> Observation:
    """A second create of a mirror succeeds if it is the same, and is refused if it is another."""
    js = with_origin(session, "NOMIR-AGAIN")
    new_mirror(js, "NOMIR-AGAIN-M", "NOMIR-AGAIN", {"opt_start_seq": 2})
    mirrors: tuple[Config, ...] = (
        {"name": "NOMIR-AGAIN", "opt_start_seq": 2},
        {"name": "NOMIR-AGAIN", "opt_start_seq": 3},
        {"name": "NOMIR-AGAIN"},
    )
    replies = [js.create("NOMIR-AGAIN-M", subjects=[], mirror=mirror) for mirror in mirrors]
    return [reply.get("error", "same") for reply in replies]


@catalogue.case("js.mirror-error.pedantic")
def pedantic(session: Session) -> Observation:
    """A pedantic create of a mirror has to repeat whether its origin allows direct reads."""
    js = with_origin(session, "NOMIR-PED", allow_direct=True)
    js.api("STREAM.DELETE.NOMIR-PED-M")
    return [
        told(
            js.create(
                "NOMIR-PED-M",
                subjects=[],
                mirror={"name": "NOMIR-PED"},
                pedantic=True,
                mirror_direct=is_direct,
            )
        ).get("error", "made")
        for is_direct in (False, True)
    ]


@catalogue.case("js.mirror-error.purge-denied")
def purge_denied(session: Session) -> Observation:
    """A mirror that denies deletes and purges answers as any stream that does."""
    js = with_origin(session, "NOMIR-DENY", "a")
    made = new_mirror(js, "NOMIR-DENY-M", "NOMIR-DENY", deny_delete=True, deny_purge=True)
    return [
        made,
        js.api("STREAM.PURGE.NOMIR-DENY-M"),
        js.api("STREAM.MSG.DELETE.NOMIR-DENY-M", {"seq": 1}),
    ]
