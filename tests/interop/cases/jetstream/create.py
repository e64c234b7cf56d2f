"""STREAM.CREATE: what is filled in, what is kept, and what a second create of a name means."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, RESOURCES, Reply, jetstream, with_jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

SECOND_NS = 1_000_000_000


def config_of(session: Session, name: str, **config: object) -> Reply:
    """The configuration a create is answered with, or the error."""
    reply = jetstream(session, name).create(name, **config)
    told: Reply = reply.get("config", reply)
    return told


@catalogue.case("js.create.defaults")
def defaults(session: Session) -> Observation:
    """A name is enough: the subject is the name, and every other setting has its default."""
    js = jetstream(session, "DEFAULTS")
    return js.api("STREAM.CREATE.DEFAULTS", {"name": "DEFAULTS"})


@catalogue.case("js.create.empty-subjects")
def empty_subjects(session: Session) -> Observation:
    """An empty list of subjects is as good as none."""
    return config_of(session, "EMPTY-SUBJECTS", subjects=[])


@catalogue.case("js.create.limits-kept")
def limits_kept(session: Session) -> Observation:
    """Every limit that is given is kept as it is."""
    return config_of(
        session,
        "LIMITS-KEPT",
        max_consumers=7,
        max_msgs=11,
        max_bytes=12345,
        max_age=3600 * SECOND_NS,
        max_msgs_per_subject=3,
        max_msg_size=1000,
        duplicate_window=60 * SECOND_NS,
    )


@catalogue.case("js.create.limits-below-minus-one")
def limits_below_minus_one(session: Session) -> Observation:
    """A limit of zero or below is no limit, which is written -1."""
    names = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
    zero = config_of(session, "LIMITS-ZERO", **dict.fromkeys(names, 0))
    negative = config_of(session, "LIMITS-NEGATIVE", **dict.fromkeys(names, -5))
    return {"zero": zero, "negative": negative}


@catalogue.case("js.create.memory")
def memory(session: Session) -> Observation:
    """A memory stream counts the bytes of a message differently from a file stream."""
    js = jetstream(session, "MEMORY-KIND", "ON-FILE")
    created = js.create("MEMORY-KIND", storage="memory")
    js.create("ON-FILE", storage="file")
    for name in ("MEMORY-KIND", "ON-FILE"):
        js.publish(name, "payload")
        js.publish(f"{name}.h", "payload", {"K": "v"})
    return {"created": created, "memory": js.state("MEMORY-KIND"), "file": js.state("ON-FILE")}


@catalogue.case("js.create.retention")
def retention(session: Session) -> Observation:
    """The three retention policies are kept by name."""
    kinds = ("limits", "interest", "workqueue")
    return {kind: config_of(session, f"RET-{kind.upper()}", retention=kind) for kind in kinds}


@catalogue.case("js.create.discard")
def discard(session: Session) -> Observation:
    """Both discard policies are kept by name, and discard-new per subject when asked for."""
    return {
        "old": config_of(session, "DISCARD-OLD", discard="old"),
        "new": config_of(session, "DISCARD-NEW", discard="new"),
        "per subject": config_of(
            session,
            "DISCARD-PER",
            discard="new",
            discard_new_per_subject=True,
            max_msgs_per_subject=1,
        ),
    }


@catalogue.case("js.create.compression")
def compression(session: Session) -> Observation:
    """Compression is kept by name, also by a memory stream, which has no use for it."""
    return {
        "none": config_of(session, "COMPRESS-NONE", compression="none"),
        "file": config_of(session, "COMPRESS-S2", compression="s2"),
        "memory": config_of(session, "COMPRESS-MEM", compression="s2", storage="memory"),
    }


@catalogue.case("js.create.window.follows-max-age")
def window_follows_age(session: Session) -> Observation:
    """Without a duplicate window it is two minutes, or the age if that is shorter."""
    return {
        "short": config_of(session, "WINDOW-SHORT", max_age=30 * SECOND_NS),
        "long": config_of(session, "WINDOW-LONG", max_age=3600 * SECOND_NS),
    }


@catalogue.case("js.create.window.at-the-limits")
def window_at_limits(session: Session) -> Observation:
    """The shortest age and window are 100 ms, and a window may be as long as the age."""
    return config_of(
        session, "WINDOW-LEAST", max_age=SECOND_NS // 10, duplicate_window=SECOND_NS // 10
    )


@catalogue.case(
    "js.create.window.server-limit",
    setup=with_jetstream(f"{RESOURCES}, limits {{ duplicate_window: 30s }}"),
    text="duplicates window can not be larger then server limit of 30s",
)
def window_server_limit(session: Session) -> Observation:
    """A server's limit for the window is the default, and what is longer is refused."""
    return {
        "default": config_of(session, "WINDOW-CAPPED"),
        "longer": config_of(session, "WINDOW-PAST-CAP", duplicate_window=31 * SECOND_NS),
    }


@catalogue.case("js.create.no-ack")
def no_ack(session: Session) -> Observation:
    """A stream without acks stores a publish and does not answer it."""
    js = jetstream(session, "NO-ACK")
    created = js.create("NO-ACK", no_ack=True)
    answer = js.unanswered("NO-ACK", "x")
    return {"created": created, "publish": answer, "state": js.state_when("NO-ACK", "messages", 1)}


@catalogue.case("js.create.description")
def description(session: Session) -> Observation:
    """A description is kept, letters of any script included, up to 4 KiB of them."""
    return {
        "words": config_of(session, "DESCRIBED", description='Größe "ε" <&> \u2028 日本'),
        "longest": config_of(session, "DESCRIBED-LONG", description="d" * 4096),
    }


@catalogue.case("js.create.metadata")
def metadata(session: Session) -> Observation:
    """Metadata is kept, save the three keys that are the server's to write."""
    return config_of(
        session,
        "METADATA",
        metadata={
            "owner": "me",
            "": "empty key",
            "empty": "",
            "_nats.ver": "1.0",
            "_nats.level": "99",
            "_nats.req.level": "7",
            "_nats.custom": "kept?",
        },
    )


@catalogue.case("js.create.first-sequence")
def first_sequence(session: Session) -> Observation:
    """The first message has the first sequence; until then the last is one less."""
    js = jetstream(session, "FIRST-SEQ")
    created = js.create("FIRST-SEQ", first_seq=100)
    empty = js.state("FIRST-SEQ")
    ack = js.ack_text("FIRST-SEQ", "x")
    return {"created": created, "empty": empty, "ack": ack, "after": js.state("FIRST-SEQ")}


@catalogue.case("js.create.first-sequence-one")
def first_sequence_one(session: Session) -> Observation:
    """A first sequence of 0 or 1 changes nothing, though 1 is kept in the configuration."""
    js = jetstream(session, "FIRST-ZERO", "FIRST-ONE")
    return {
        "0": js.create("FIRST-ZERO", first_seq=0),
        "1": js.create("FIRST-ONE", first_seq=1),
        "ack": js.ack_text("FIRST-ONE", "x"),
    }


@catalogue.case("js.create.first-sequence-memory")
def first_sequence_memory(session: Session) -> Observation:
    """A memory stream starts at its first sequence as a file stream does."""
    js = jetstream(session, "FIRST-MEM")
    created = js.create("FIRST-MEM", first_seq=10, storage="memory")
    return {"created": created, "ack": js.ack_text("FIRST-MEM"), "after": js.state("FIRST-MEM")}


@catalogue.case("js.create.placement")
def placement(session: Session) -> Observation:
    """One server takes any placement and keeps it, an empty one excepted."""
    return {
        "full": config_of(session, "PLACED", placement={"cluster": "east", "tags": ["a", "b"]}),
        "empty": config_of(session, "PLACED-EMPTY", placement={}),
        "no tags": config_of(session, "PLACED-NO-TAGS", placement={"tags": []}),
    }


@catalogue.case("js.create.republish")
def republish(session: Session) -> Observation:
    """A republish without a source republishes everything."""
    return {
        "all": config_of(session, "REPUB-ALL", republish={"dest": "repub-all.>"}),
        "some": config_of(
            session,
            "REPUB-SOME",
            republish={"src": "REPUB-SOME.*", "dest": "repub-some.{{wildcard(1)}}"},
        ),
        "headers": config_of(
            session, "REPUB-HEAD", republish={"src": ">", "dest": "rh.>", "headers_only": True}
        ),
    }


@catalogue.case("js.create.republish-by-transform")
def republish_by_transform(session: Session) -> Observation:
    """Everything republished to everything means, with a transform, to where that leads."""
    return config_of(
        session,
        "REPUB-IMPLICIT",
        subjects=["REPUB-IMPLICIT.>"],
        subject_transform={"src": "REPUB-IMPLICIT.>", "dest": "repub-implicit.>"},
        republish={"src": ">", "dest": ">"},
    )


@catalogue.case("js.create.subject-transform")
def subject_transform(session: Session) -> Observation:
    """A subject transform is kept, and messages are stored under the subject it makes."""
    js = jetstream(session, "TRANSFORM")
    created = js.create("TRANSFORM", subject_transform={"src": "TRANSFORM.*", "dest": "to.$1"})
    js.fill("TRANSFORM.a", "TRANSFORM")
    stored = [js.api("STREAM.MSG.GET.TRANSFORM", {"seq": seq}) for seq in (1, 2)]
    return {"created": created, "stored": stored}


@catalogue.case("js.create.consumer-limits")
def consumer_limits(session: Session) -> Observation:
    """Limits for consumers are kept."""
    limits = {"inactive_threshold": SECOND_NS, "max_ack_pending": 5}
    return config_of(session, "CONSUMER-LIMITS", consumer_limits=limits)


@catalogue.case("js.create.level.one")
def level_one(session: Session) -> Observation:
    """Message TTLs need level 1; delete markers turn them and roll-ups on by themselves."""
    return {
        "ttl": config_of(session, "LEVEL-TTL", allow_msg_ttl=True),
        "marker": config_of(session, "LEVEL-MARKER", subject_delete_marker_ttl=SECOND_NS),
    }


@catalogue.case("js.create.level.two")
def level_two(session: Session) -> Observation:
    """Counters, atomic batches, schedules and async persistence need level 2."""
    return {
        "counter": config_of(session, "LEVEL-COUNTER", allow_msg_counter=True),
        "atomic": config_of(session, "LEVEL-ATOMIC", allow_atomic=True),
        "schedules": config_of(session, "LEVEL-SCHEDULES", allow_msg_schedules=True),
        "async": config_of(session, "LEVEL-ASYNC", persist_mode="async"),
    }


@catalogue.case("js.create.level.four")
def level_four(session: Session) -> Observation:
    """Fast batches need level 4, with async persistence too."""
    return {
        "batched": config_of(session, "LEVEL-BATCHED", allow_batched=True),
        "async": config_of(session, "LEVEL-BOTH", allow_batched=True, persist_mode="async"),
    }


@catalogue.case("js.create.markers-undo-deny-purge")
def markers_undo_deny_purge(session: Session) -> Observation:
    """Delete markers and schedules need purging, so they take a `deny_purge` back."""
    return {
        "markers": config_of(
            session, "MARKERS-DENY", subject_delete_marker_ttl=SECOND_NS, deny_purge=True
        ),
        "schedules": config_of(
            session, "SCHEDULES-DENY", allow_msg_schedules=True, deny_purge=True
        ),
    }


@catalogue.case("js.create.persist-mode-default")
def persist_mode_default(session: Session) -> Observation:
    """The default persist mode, by name or empty, is not shown."""
    return {
        "name": config_of(session, "PERSIST-DEFAULT", persist_mode="default"),
        "empty": config_of(session, "PERSIST-EMPTY", persist_mode=""),
    }


@catalogue.case("js.create.flags-kept")
def flags_kept(session: Session) -> Observation:
    """The permissions of a stream are kept as they are given."""
    return config_of(
        session,
        "FLAGS-KEPT",
        allow_direct=True,
        deny_delete=True,
        deny_purge=False,
        allow_rollup_hdrs=True,
    )


@catalogue.case("js.create.event-subjects")
def event_subjects(session: Session) -> Observation:
    """Advisories and account events may be captured with acks, the rest of their spaces not."""
    return {
        "events": config_of(session, "CAPTURE-EVENTS", subjects=["$JS.EVENT.ADVISORY.NONE.>"]),
        "accounts": config_of(session, "CAPTURE-ACCOUNTS", subjects=["$SYS.ACCOUNT.NONE.>"]),
        "api": config_of(session, "CAPTURE-API", subjects=["$JS.API.NONE"], no_ack=True),
    }


@catalogue.case("js.create.capture-all", own_server=True)
def capture_all(session: Session) -> Observation:
    """A stream of every subject is possible without acks, and then the only one with subjects."""
    js = jetstream(session)
    everything = js.create("EVERYTHING", subjects=[">"], no_ack=True)
    return {"everything": everything["config"], "second": js.create("SECOND")}


@catalogue.case("js.create.longest-name")
def longest_name(session: Session) -> Observation:
    """A name may be 255 bytes long."""
    return config_of(session, "N" * 255, subjects=["longest-name"])


@catalogue.case("js.create.odd-names")
def odd_names(session: Session) -> Observation:
    """Letters of any script, dollars, dashes and quotes may stand in a name."""
    names = ("$ODD", "-odd", "_odd_", 'o"d', "größe", "odd=1,2;3")
    subjects = (f"odd-names.{index}" for index in range(len(names)))
    return [
        config_of(session, name, subjects=[subject])
        for name, subject in zip(names, subjects, strict=True)
    ]


@catalogue.case("js.create.again-same")
def again_same(session: Session) -> Observation:
    """A create with the same configuration succeeds again and changes nothing."""
    js = jetstream(session, "AGAIN-SAME")
    first = js.create("AGAIN-SAME", max_msgs=5)
    js.fill("AGAIN-SAME")
    second = js.create("AGAIN-SAME", max_msgs=5)
    return {"second": second, "created once": first["created"] == second["created"]}


@catalogue.case("js.create.again-defaults-spelled-out")
def again_defaults(session: Session) -> Observation:
    """What counts is the configuration after its defaults are filled in."""
    js = jetstream(session, "AGAIN-DEFAULTS")
    first = js.create("AGAIN-DEFAULTS")
    return js.api("STREAM.CREATE.AGAIN-DEFAULTS", first["config"])


@catalogue.case(
    "js.create.again-different", text="stream name already in use with a different configuration"
)
def again_different(session: Session) -> Observation:
    """A create of a taken name with another configuration is refused, whatever differs."""
    js = jetstream(session, "TAKEN")
    js.create("TAKEN", description="first", metadata={"a": "1"})
    return {
        "description": js.create("TAKEN", description="second", metadata={"a": "1"}),
        "metadata": js.create("TAKEN", description="first", metadata={"a": "2"}),
        "subjects": js.create(
            "TAKEN", subjects=["TAKEN"], description="first", metadata={"a": "1"}
        ),
        "same": js.create("TAKEN", description="first", metadata={"a": "1"}),
    }


@catalogue.case("js.create.again-subject-order")
def again_subject_order(session: Session) -> Observation:
    """The order of the subjects is part of the configuration."""
    js = jetstream(session, "AGAIN-ORDER")
    js.create("AGAIN-ORDER", subjects=["again-order.a", "again-order.b"])
    return js.create("AGAIN-ORDER", subjects=["again-order.b", "again-order.a"])


@catalogue.case("js.create.again-after-update")
def again_after_update(session: Session) -> Observation:
    """After an update it is the new configuration that a create has to repeat."""
    js = jetstream(session, "AGAIN-UPDATED")
    js.create("AGAIN-UPDATED")
    js.update("AGAIN-UPDATED", max_msgs=9)
    return {"old": js.create("AGAIN-UPDATED"), "new": js.create("AGAIN-UPDATED", max_msgs=9)}


@catalogue.case("js.create.after-delete")
def after_delete(session: Session) -> Observation:
    """A name is free again once its stream is deleted, and sequences start anew."""
    js = jetstream(session, "REBORN")
    js.create("REBORN")
    js.fill("REBORN", "REBORN")
    js.api("STREAM.DELETE.REBORN")
    return {"created": js.create("REBORN", max_msgs=1), "ack": js.ack_text("REBORN", "x")}


@catalogue.case("js.create.overlap.other-stream", text="subjects overlap with an existing stream")
def overlap(session: Session) -> Observation:
    """No two streams may match one subject: equal, wildcard or wildcards that cross."""
    js = jetstream(session, "OVERLAP", "OVERLAP-2")
    js.create("OVERLAP", subjects=["ol.a", "ol.b.*", "ol.c.>"])
    tries = ("ol.a", "ol.*", "ol.b.x", "ol.*.x", "ol.c.x.y", "ol.>")
    return {subject: js.create("OVERLAP-2", subjects=["free", subject]) for subject in tries}


@catalogue.case("js.create.overlap.neighbours")
def neighbours(session: Session) -> Observation:
    """Subjects that only look alike do not overlap."""
    js = jetstream(session, "NEIGHBOUR", "NEIGHBOUR-2")
    js.create("NEIGHBOUR", subjects=["nb.a", "nb.b.*", "nb.c.>"])
    return js.create("NEIGHBOUR-2", subjects=["nb", "nb.A", "nb.b", "nb.b.x.y", "nb.c"])


@catalogue.case("js.create.overlap.default-subject")
def overlap_default_subject(session: Session) -> Observation:
    """The subject a stream gets from its name may overlap too."""
    js = jetstream(session, "OVERLAP-HOLDER", "OVERLAP-BY-NAME")
    js.create("OVERLAP-HOLDER", subjects=["OVERLAP-BY-NAME"])
    return js.api("STREAM.CREATE.OVERLAP-BY-NAME", {"name": "OVERLAP-BY-NAME"})


@catalogue.case("js.create.stores-earlier-nothing")
def stores_nothing_earlier(session: Session) -> Observation:
    """A stream stores what is published from its creation on."""
    js = jetstream(session, "FROM-NOW")
    before = js.publish("FROM-NOW", "early")
    js.create("FROM-NOW")
    return {"before": before, "ack": js.ack_text("FROM-NOW", "x"), "state": js.state("FROM-NOW")}
