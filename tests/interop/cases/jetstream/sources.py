"""Sources: a stream that takes the messages of others beside its own, each with its provenance."""

from tests.interop.case import Catalogue
from tests.interop.copies import (
    copied,
    merged,
    new_aggregate,
    new_mirror,
    new_origin,
    origins_told,
    publish_below,
    sources_of,
    told,
    with_origin,
    with_origins,
)
from tests.interop.jetstream import JETSTREAM, jetstream
from tests.interop.messages import restarted, state_in_time, stored
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

SECOND_NS = 1_000_000_000


@catalogue.case("js.source.contents")
def contents(session: Session) -> Observation:
    """A sourced message has its origin's stream, sequence, filter, target and subject as header."""
    js = with_origin(session, "SRC", "a", "b")
    made = new_aggregate(js, "SRC-S", "SRC")
    publish_below(js, "SRC", "c")
    return {"made": made, "messages": copied(js, "SRC-S", messages=3)}


@catalogue.case("js.source.info")
def info(session: Session) -> Observation:
    """INFO of a stream with sources tells of each of them."""
    js = with_origin(session, "SRCINFO", "a")
    new_origin(js, "SRCINFO-2", "b")
    new_aggregate(js, "SRCINFO-S", "SRCINFO", "SRCINFO-2")
    state_in_time(js, "SRCINFO-S", messages=2)
    return [origins_told(js, "SRCINFO-S"), told(js.info("SRCINFO-S"))]


@catalogue.case("js.source.headers")
def headers(session: Session) -> Observation:
    """The provenance stands behind the message's own headers; expectations are not copied."""
    js = with_origin(session, "SRCHEAD")
    js.ack_text("SRCHEAD.a", "x", [("A", "1"), ("A", "2"), ("b", " 3 ")])
    js.ack_text("SRCHEAD.b", "x", {"Nats-Expected-Stream": "SRCHEAD"})
    js.ack_text("SRCHEAD.c", "x", {"Nats-Expected-Last-Sequence": "2", "C": "4"})
    new_aggregate(js, "SRCHEAD-S", "SRCHEAD")
    return copied(js, "SRCHEAD-S", messages=3)


@catalogue.case("js.source.several")
def several(session: Session) -> Observation:
    """Several sources, each in its own order, and the stream's own messages in one stream."""
    js = with_origin(session, "SRCMANY-1", *"ab")
    new_origin(js, "SRCMANY-2", *"cd")
    new_aggregate(js, "SRCMANY-S", "SRCMANY-1", "SRCMANY-2", subjects=["SRCMANY-S.*"])
    publish_below(js, "SRCMANY-S", "e")
    publish_below(js, "SRCMANY-1", "a")
    return merged(js, "SRCMANY-S", messages=6)


@catalogue.case("js.source.times")
def times(session: Session) -> Observation:
    """A sourced message has the time at which it was stored here, not that of its origin."""
    js = with_origin(session, "SRCTIME", "a")
    original = js.api("STREAM.MSG.GET.SRCTIME", {"seq": 1})["message"]["time"]
    new_aggregate(js, "SRCTIME-S", "SRCTIME")
    state_in_time(js, "SRCTIME-S", messages=1)
    return bool(js.api("STREAM.MSG.GET.SRCTIME-S", {"seq": 1})["message"]["time"] == original)


@catalogue.case("js.source.filter")
def filtered(session: Session) -> Observation:
    """A filter leaves no gap, and is part of the provenance."""
    js = with_origin(session, "SRCFILT", *"abab")
    made = new_aggregate(js, "SRCFILT-S", {"name": "SRCFILT", "filter_subject": "SRCFILT.b"})
    seen = copied(js, "SRCFILT-S", messages=2)
    return [made, seen, origins_told(js, "SRCFILT-S")]


@catalogue.case("js.source.filter-wildcard")
def filter_wildcard(session: Session) -> Observation:
    """A filter may have wildcards; the header repeats it as it is."""
    js = with_origin(session, "SRCWILD", "a.x", "b.y", "c.x")
    new_aggregate(js, "SRCWILD-S", {"name": "SRCWILD", "filter_subject": "SRCWILD.*.x"})
    return copied(js, "SRCWILD-S", messages=2)


@catalogue.case("js.source.transform")
def transform(session: Session) -> Observation:
    """Transforms of a source select messages and rename them; the header has both sides."""
    js = with_origin(session, "SRCMAP", "a.1", "b.2", "c.3", "a.4")
    transforms = [
        {"src": "SRCMAP.a.*", "dest": "to.{{wildcard(1)}}.a"},
        {"src": "SRCMAP.b.>", "dest": ""},
    ]
    made = new_aggregate(js, "SRCMAP-S", {"name": "SRCMAP", "subject_transforms": transforms})
    return [made, copied(js, "SRCMAP-S", messages=3), origins_told(js, "SRCMAP-S")]


@catalogue.case("js.source.stream-transform")
def stream_transform(session: Session) -> Observation:
    """The transform of the stream itself comes after that of its source."""
    js = with_origin(session, "SRCOWN", "a", "b")
    new_aggregate(
        js,
        "SRCOWN-S",
        {"name": "SRCOWN", "subject_transforms": [{"src": "SRCOWN.a", "dest": "mid.a"}]},
        subject_transform={"src": "mid.*", "dest": "end.$1"},
    )
    return copied(js, "SRCOWN-S", messages=1)


@catalogue.case("js.source.stream-transform-alone")
def stream_transform_alone(session: Session) -> Observation:
    """The transform of a stream renames what it takes from a source without one."""
    js = with_origin(session, "SRCREN", "a", "b.c")
    new_aggregate(
        js, "SRCREN-S", "SRCREN", subject_transform={"src": "SRCREN.*", "dest": "renamed.$1"}
    )
    return copied(js, "SRCREN-S", messages=2)


@catalogue.case("js.source.same-origin-twice")
def same_origin_twice(session: Session) -> Observation:
    """One origin may be sourced twice with different filters; each is told of by itself."""
    js = with_origin(session, "SRCTWICE", *"abab")
    sources = [{"name": "SRCTWICE", "filter_subject": f"SRCTWICE.{part}"} for part in "ab"]
    new_aggregate(js, "SRCTWICE-S", *sources)
    return [merged(js, "SRCTWICE-S", messages=4), origins_told(js, "SRCTWICE-S")]


@catalogue.case("js.source.start-sequence")
def start_sequence(session: Session) -> Observation:
    """A source from a sequence on; the stream's own sequences begin with 1."""
    js = with_origin(session, "SRCSEQ", *"abcd")
    made = new_aggregate(js, "SRCSEQ-S", {"name": "SRCSEQ", "opt_start_seq": 3})
    return [made, copied(js, "SRCSEQ-S", messages=2)]


@catalogue.case("js.source.start-time")
def start_time(session: Session) -> Observation:
    """A source from a time on begins with the first message of that time or later."""
    js = with_origin(session, "SRCFROM", *"abc")
    moment = js.api("STREAM.MSG.GET.SRCFROM", {"seq": 2})["message"]["time"]["moment"]
    new_aggregate(js, "SRCFROM-S", {"name": "SRCFROM", "opt_start_time": moment})
    return copied(js, "SRCFROM-S", messages=2)


@catalogue.case("js.source.gaps")
def gaps(session: Session) -> Observation:
    """Messages that the origin has lost before leave no gaps here."""
    js = with_origin(session, "SRCGAP", *"abcdef")
    js.api("STREAM.PURGE.SRCGAP", {"seq": 3})
    js.api("STREAM.MSG.DELETE.SRCGAP", {"seq": 5})
    new_aggregate(js, "SRCGAP-S", "SRCGAP")
    return copied(js, "SRCGAP-S", messages=3)


@catalogue.case("js.source.deleted-after")
def deleted_after(session: Session) -> Observation:
    """Deletes and purges of an origin leave what was sourced, and the rest follows."""
    js = with_origin(session, "SRCKEEP", *"abc")
    new_aggregate(js, "SRCKEEP-S", "SRCKEEP")
    state_in_time(js, "SRCKEEP-S", messages=3)
    js.api("STREAM.MSG.DELETE.SRCKEEP", {"seq": 2})
    js.api("STREAM.PURGE.SRCKEEP")
    publish_below(js, "SRCKEEP", "d")
    return copied(js, "SRCKEEP-S", messages=4)


@catalogue.case("js.source.purged")
def purged(session: Session) -> Observation:
    """A purge of the stream removes what was sourced, which does not come again."""
    js = with_origin(session, "SRCPURGE", *"abc")
    new_aggregate(js, "SRCPURGE-S", "SRCPURGE")
    state_in_time(js, "SRCPURGE-S", messages=3)
    js.api("STREAM.PURGE.SRCPURGE-S")
    publish_below(js, "SRCPURGE", "d")
    return copied(js, "SRCPURGE-S", messages=1)


@catalogue.case("js.source.limits")
def limits(session: Session) -> Observation:
    """The limits of the stream hold for what it takes: of all and of each subject."""
    js = with_origin(session, "SRCLIM", *"abaabb")
    new_aggregate(js, "SRCLIM-M", "SRCLIM", max_msgs=2)
    new_aggregate(js, "SRCLIM-P", "SRCLIM", max_msgs_per_subject=1)
    return [copied(js, name, last_seq=6) for name in ("SRCLIM-M", "SRCLIM-P")]


@catalogue.case("js.source.duplicates")
def duplicates(session: Session) -> Observation:
    """Message ids of sourced messages are copied but not looked at without a duplicate window."""
    js = with_origin(session, "SRCDUP-1")
    new_origin(js, "SRCDUP-2")
    for number in (1, 2):
        js.ack_text(f"SRCDUP-{number}.a", "x", {"Nats-Msg-Id": "same"})
    new_aggregate(js, "SRCDUP-S", "SRCDUP-1", "SRCDUP-2")
    return merged(js, "SRCDUP-S", messages=2)


@catalogue.case("js.source.duplicates-window")
def duplicates_window(session: Session) -> Observation:
    """The ids of sourced messages are known to a stream with a duplicate window."""
    js = with_origin(session, "SRCWIN-1")
    js.ack_text("SRCWIN-1.a", "x", {"Nats-Msg-Id": "same"})
    js.ack_text("SRCWIN-1.b", "y", {"Nats-Msg-Id": "other"})
    new_aggregate(
        js, "SRCWIN-S", "SRCWIN-1", subjects=["SRCWIN-S"], duplicate_window=60 * SECOND_NS
    )
    state_in_time(js, "SRCWIN-S", messages=2)
    acks = [js.ack_text("SRCWIN-S", "z", {"Nats-Msg-Id": name}) for name in ("same", "new")]
    return [acks, copied(js, "SRCWIN-S", messages=3)]


@catalogue.case("js.source.rollup")
def rollup(session: Session) -> Observation:
    """A roll-up removes the earlier messages where it is allowed, and is copied where not."""
    js = with_origin(session, "SRCROLL", *"ab", allow_rollup_hdrs=True)
    new_aggregate(js, "SRCROLL-S", "SRCROLL", allow_rollup_hdrs=True)
    new_aggregate(js, "SRCROLL-N", "SRCROLL")
    for name in ("SRCROLL-S", "SRCROLL-N"):
        state_in_time(js, name, messages=2)
    js.ack_text("SRCROLL.a", "sum", {"Nats-Rollup": "sub"})
    publish_below(js, "SRCROLL", "c")
    return [copied(js, name, last_seq=4) for name in ("SRCROLL-S", "SRCROLL-N")]


@catalogue.case("js.source.ttl")
def ttl(session: Session) -> Observation:
    """TTLs of sourced messages are kept as headers, with and without a stream that obeys them."""
    js = with_origin(session, "SRCTTL", allow_msg_ttl=True)
    js.ack_text("SRCTTL.a", "x", {"Nats-TTL": "1h"})
    js.ack_text("SRCTTL.b", "x", {"Nats-TTL": "never"})
    new_aggregate(js, "SRCTTL-S", "SRCTTL", allow_msg_ttl=True)
    new_aggregate(js, "SRCTTL-N", "SRCTTL")
    return [copied(js, name, messages=2) for name in ("SRCTTL-S", "SRCTTL-N")]


@catalogue.case("js.source.counters")
def counters(session: Session) -> Observation:
    """A counter that sources counters adds their increments up; the sums of each are remembered."""
    js = with_origin(session, "SRCCOUNT-1", allow_msg_counter=True)
    new_origin(js, "SRCCOUNT-2", allow_msg_counter=True)
    for number, values in ((1, ("5", "-2")), (2, ("10",))):
        for value in values:
            js.ack_text(f"SRCCOUNT-{number}.a", "", {"Nats-Incr": value})
    transforms = [[{"src": f"SRCCOUNT-{number}.>", "dest": "sum.>"}] for number in (1, 2)]
    sources = [
        {"name": f"SRCCOUNT-{number}", "subject_transforms": each}
        for number, each in zip((1, 2), transforms, strict=True)
    ]
    new_aggregate(js, "SRCCOUNT-S", sources[0], allow_msg_counter=True)
    first = copied(js, "SRCCOUNT-S", messages=2)
    js.update("SRCCOUNT-S", subjects=[], sources=sources, allow_msg_counter=True)
    return [first, copied(js, "SRCCOUNT-S", messages=3)]


@catalogue.case("js.source.counters-own")
def counters_own(session: Session) -> Observation:
    """A counter adds to the sums that it sources; an origin's later sum counts its change."""
    js = with_origin(session, "SRCADD", allow_msg_counter=True)
    js.ack_text("SRCADD.a", "", {"Nats-Incr": "3"})
    new_aggregate(
        js,
        "SRCADD-S",
        {"name": "SRCADD", "subject_transforms": [{"src": "SRCADD.>", "dest": "SRCADD-S.>"}]},
        subjects=["SRCADD-S.>"],
        allow_msg_counter=True,
    )
    state_in_time(js, "SRCADD-S", messages=1)
    ack = js.ack_text("SRCADD-S.a", "", {"Nats-Incr": "4"})
    js.ack_text("SRCADD.a", "", {"Nats-Incr": "1"})
    return [ack, copied(js, "SRCADD-S", messages=3)]


@catalogue.case("js.source.retention")
def retention(session: Session) -> Observation:
    """A source is a consumer of a work queue and an interest: what is copied is done."""
    js = with_origin(session, "SRCWORK", *"abc", retention="workqueue")
    new_origin(js, "SRCINT", retention="interest")
    new_aggregate(js, "SRCRET-S", "SRCWORK", "SRCINT")
    js.wait_until(lambda: bool(js.state("SRCINT")["consumer_count"] == 1))
    publish_below(js, "SRCINT", *"de")
    seen = merged(js, "SRCRET-S", messages=5)
    return [seen, [state_in_time(js, name, messages=0) for name in ("SRCWORK", "SRCINT")]]


@catalogue.case("js.source.chain")
def chain(session: Session) -> Observation:
    """A source of a stream with sources: the header tells of the nearest origin."""
    js = with_origin(session, "SRCCHAIN", *"ab")
    new_aggregate(js, "SRCCHAIN-1", "SRCCHAIN")
    new_aggregate(js, "SRCCHAIN-2", "SRCCHAIN-1")
    return copied(js, "SRCCHAIN-2", messages=2)


@catalogue.case("js.source.mirror-of-sources")
def mirror_of_sources(session: Session) -> Observation:
    """A mirror of a stream with sources has the headers that tell of them."""
    js = with_origin(session, "SRCMIR", "a")
    new_aggregate(js, "SRCMIR-S", "SRCMIR")
    new_mirror(js, "SRCMIR-M", "SRCMIR-S")
    return copied(js, "SRCMIR-M", messages=1)


@catalogue.case("js.source.of-mirror")
def of_mirror(session: Session) -> Observation:
    """A source may be a mirror; the header names the mirror."""
    js = with_origin(session, "SRCVIA", *"ab")
    new_mirror(js, "SRCVIA-M", "SRCVIA")
    new_aggregate(js, "SRCVIA-S", "SRCVIA-M")
    return copied(js, "SRCVIA-S", messages=2)


@catalogue.case("js.source.added")
def added(session: Session) -> Observation:
    """A source added by an update is copied from its start."""
    js = with_origin(session, "SRCADDED-1", *"ab")
    new_origin(js, "SRCADDED-2", *"cd")
    new_aggregate(js, "SRCADDED-S", "SRCADDED-1")
    state_in_time(js, "SRCADDED-S", messages=2)
    updated = told(
        js.update("SRCADDED-S", subjects=[], sources=sources_of("SRCADDED-1", "SRCADDED-2"))
    )
    return [updated["config"], copied(js, "SRCADDED-S", messages=4), origins_told(js, "SRCADDED-S")]


@catalogue.case("js.source.removed")
def removed(session: Session) -> Observation:
    """A source that an update removes leaves its messages; what it gets later is not copied."""
    js = with_origin(session, "SRCLESS-1", *"ab")
    new_origin(js, "SRCLESS-2", *"cd")
    new_aggregate(js, "SRCLESS-S", "SRCLESS-1", "SRCLESS-2")
    state_in_time(js, "SRCLESS-S", messages=4)
    js.update("SRCLESS-S", subjects=[], sources=sources_of("SRCLESS-1"))
    publish_below(js, "SRCLESS-2", "e")
    publish_below(js, "SRCLESS-1", "f")
    return [merged(js, "SRCLESS-S", messages=5), origins_told(js, "SRCLESS-S")]


@catalogue.case("js.source.added-again")
def added_again(session: Session) -> Observation:
    """A source that is removed and added again goes on behind what was copied."""
    js = with_origin(session, "SRCBACK", *"ab")
    new_aggregate(js, "SRCBACK-S", "SRCBACK", subjects=["SRCBACK-S"])
    state_in_time(js, "SRCBACK-S", messages=2)
    js.update("SRCBACK-S", subjects=["SRCBACK-S"])
    publish_below(js, "SRCBACK", "c")
    js.update("SRCBACK-S", subjects=["SRCBACK-S"], sources=sources_of("SRCBACK"))
    return copied(js, "SRCBACK-S", messages=3)


@catalogue.case("js.source.full")
def full(session: Session) -> Observation:
    """A stream that refuses new messages when full takes no more from its source."""
    js = with_origin(session, "SRCFULL", *"abc")
    new_aggregate(js, "SRCFULL-S", "SRCFULL", max_msgs=2, discard="new")
    return copied(js, "SRCFULL-S", messages=2)


@catalogue.case("js.source.too-large")
def too_large(session: Session) -> Observation:
    """A message that is too large for the stream is not taken."""
    js = with_origin(session, "SRCBIG")
    js.fill("SRCBIG.a")
    js.fill("SRCBIG.b", payload="x" * 500)
    new_aggregate(js, "SRCBIG-S", "SRCBIG", max_msg_size=200)
    return copied(js, "SRCBIG-S", messages=1)


@catalogue.case("js.source.consumer")
def consumers_of_origin(session: Session) -> Observation:
    """The consumer by which a source is read is counted and listed nowhere."""
    js = with_origin(session, "SRCCONS", "a")
    new_aggregate(js, "SRCCONS-S", "SRCCONS")
    state_in_time(js, "SRCCONS-S", messages=1)
    return [js.api("CONSUMER.NAMES.SRCCONS"), js.state("SRCCONS")]


@catalogue.case("js.source.sealed-origin")
def sealed_origin(session: Session) -> Observation:
    """A sealed stream can be sourced."""
    js = with_origin(session, "SRCSEAL", *"ab")
    js.update("SRCSEAL", sealed=True)
    new_aggregate(js, "SRCSEAL-S", "SRCSEAL")
    return [copied(js, "SRCSEAL-S", messages=2), origins_told(js, "SRCSEAL-S")]


@catalogue.case("js.source.missing-origin")
def missing_origin(session: Session) -> Observation:
    """A source that does not exist is told of as an error; the other sources are copied."""
    js = with_origin(session, "SRCNONE", "a")
    js.api("STREAM.DELETE.SRCNONE-2")
    made = new_aggregate(js, "SRCNONE-S", "SRCNONE", "SRCNONE-2")
    seen = copied(js, "SRCNONE-S", messages=1)
    origins: list[Observation] = []

    def tells_error() -> bool:
        origins[:] = told(js.info("SRCNONE-S"))["sources"]
        return "error" in str(origins)

    js.wait_until(tells_error)
    js.api("STREAM.DELETE.SRCNONE-S")
    return [made, seen, origins]


@catalogue.case("js.source.publish")
def publish(session: Session) -> Observation:
    """A stream with sources and no subjects takes no publish of its own."""
    js = with_origin(session, "SRCPUB", "a")
    made = new_aggregate(js, "SRCPUB-S", "SRCPUB")
    return ["subjects" in made["config"], js.publish("SRCPUB-S", "x")]


@catalogue.case("js.source.republish")
def republish(session: Session) -> Observation:
    """A stream republishes what it sources, provenance included."""
    js = with_origin(session, "SRCAGAIN")
    new_aggregate(js, "SRCAGAIN-S", "SRCAGAIN", republish={"src": ">", "dest": "again.>"})
    watch = js.watch(session, "again.SRCAGAIN.>")
    publish_below(js, "SRCAGAIN", "a")
    return [with_origins(each) for each in watch.take(1)]


@catalogue.case("js.source.restart", own_server=True)
def restart(session: Session) -> Observation:
    """After a restart mirror and sources go on where they were, without gap or double."""
    js = with_origin(session, "SRCREST", *"abc")
    new_aggregate(js, "SRCREST-S", "SRCREST", max_msgs=2)
    new_mirror(js, "SRCREST-M", "SRCREST")
    for name in ("SRCREST-S", "SRCREST-M"):
        state_in_time(js, name, last_seq=3)
    js.api("STREAM.PURGE.SRCREST-S")
    with restarted(session, JETSTREAM) as later:
        js = jetstream(later)
        publish_below(js, "SRCREST", "d")
        return [copied(js, name, last_seq=4) for name in ("SRCREST-S", "SRCREST-M")]


@catalogue.case("js.source.by-sequence")
def by_sequence(session: Session) -> Observation:
    """Sourced messages are read by the sequences of the stream that took them."""
    js = with_origin(session, "SRCGET", *"abc", allow_direct=True)
    js.api("STREAM.MSG.DELETE.SRCGET", {"seq": 1})
    new_aggregate(js, "SRCGET-S", "SRCGET", allow_direct=True)
    state_in_time(js, "SRCGET-S", messages=2)
    read = [stored(js, "SRCGET-S", 1), js.direct("SRCGET-S", {"last_by_subj": "SRCGET.c"})]
    return [with_origins(each) for each in read]


@catalogue.case("js.source.filter-changed")
def filter_changed(session: Session) -> Observation:
    """A source whose filter is changed is another source, and is copied from its start."""
    js = with_origin(session, "SRCOTHER", *"abab")
    new_aggregate(js, "SRCOTHER-S", {"name": "SRCOTHER", "filter_subject": "SRCOTHER.a"})
    state_in_time(js, "SRCOTHER-S", messages=2)
    changed = sources_of({"name": "SRCOTHER", "filter_subject": "SRCOTHER.b"})
    js.update("SRCOTHER-S", subjects=[], sources=changed)
    return copied(js, "SRCOTHER-S", messages=4)


@catalogue.case("js.source.own-messages")
def own_messages(session: Session) -> Observation:
    """A stream with sources checks its own publishes as any other: ids, expectations, sequences."""
    js = with_origin(session, "SRCSELF", "a")
    new_aggregate(js, "SRCSELF-S", "SRCSELF", subjects=["SRCSELF-S"])
    state_in_time(js, "SRCSELF-S", messages=1)
    expect = "Nats-Expected-Last-Sequence"
    acks = [js.ack_text("SRCSELF-S", "x", {expect: seq}) for seq in ("0", "1")]
    acks.append(js.ack_text("SRCSELF-S", "y", {"Nats-Stream-Source": "SRCSELF 9 > > a"}))
    publish_below(js, "SRCSELF", "b")
    return [acks, copied(js, "SRCSELF-S", messages=3)]


@catalogue.case("js.source.promotion-of-mirror")
def promotion_of_mirror(session: Session) -> Observation:
    """A mirror that becomes a stream with sources takes all of them from the start."""
    js = with_origin(session, "SRCPROM", *"ab")
    new_mirror(js, "SRCPROM-M", "SRCPROM")
    state_in_time(js, "SRCPROM-M", messages=2)
    updated = told(js.update("SRCPROM-M", subjects=[], sources=sources_of("SRCPROM")))
    return [updated, copied(js, "SRCPROM-M", messages=4)]
