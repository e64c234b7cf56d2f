"""Mirrors: the messages of another stream under their own sequences and times."""

from tests.interop.case import Catalogue
from tests.interop.consumers import fetch, new_durable
from tests.interop.consumers import seen as shown_deliveries
from tests.interop.copies import (
    copied,
    moments,
    new_mirror,
    new_origin,
    origins_told,
    publish_below,
    told,
    with_origin,
)
from tests.interop.jetstream import JETSTREAM
from tests.interop.messages import state_in_time, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

SECOND_NS = 1_000_000_000


@catalogue.case("js.mirror.contents")
def contents(session: Session) -> Observation:
    """A mirror has the subjects, payloads, sequences and times of its origin, old and new."""
    js = with_origin(session, "MIR", "a", "b")
    made = new_mirror(js, "MIR-M", "MIR")
    publish_below(js, "MIR", "c")
    seen = copied(js, "MIR-M", messages=3)
    same_times = moments(js, "MIR", 1, 2, 3) == moments(js, "MIR-M", 1, 2, 3)
    return {"made": made, "messages": seen, "same times": same_times}


@catalogue.case("js.mirror.headers")
def headers(session: Session) -> Observation:
    """Header blocks are copied byte by byte, and nothing is added to them."""
    js = with_origin(session, "MIRHEAD")
    js.ack_text("MIRHEAD.a", "x", [("A", "1"), ("Nats-Msg-Id", "i"), ("A", "2"), ("b", " 3 ")])
    js.ack_text("MIRHEAD.b", "", {"Nats-Expected-Stream": "MIRHEAD"})
    new_mirror(js, "MIRHEAD-M", "MIRHEAD")
    return copied(js, "MIRHEAD-M", messages=2)


@catalogue.case("js.mirror.info")
def info(session: Session) -> Observation:
    """INFO and LIST of a mirror tell of its origin: lag 0 and no error once all is copied."""
    js = with_origin(session, "MIRINFO", "a")
    new_mirror(js, "MIRINFO-M", "MIRINFO", max_msgs=7)
    state = state_in_time(js, "MIRINFO-M", messages=1)
    origins = origins_told(js, "MIRINFO-M")
    listed = [
        told(each)
        for each in js.api("STREAM.LIST")["streams"]
        if each["config"]["name"] == "MIRINFO-M"
    ]
    return [state, origins, told(js.info("MIRINFO-M")), listed]


@catalogue.case("js.mirror.by-subject")
def by_subject(session: Session) -> Observation:
    """The subjects of an origin find the origin alone; a mirror counts its messages by them."""
    js = with_origin(session, "MIRNAMES", "a")
    new_mirror(js, "MIRNAMES-M", "MIRNAMES")
    state_in_time(js, "MIRNAMES-M", messages=1)
    return [
        js.api("STREAM.NAMES", {"subject": "MIRNAMES.a"}),
        js.state("MIRNAMES-M", subjects_filter=">"),
    ]


@catalogue.case("js.mirror.filter")
def filtered(session: Session) -> Observation:
    """A filter leaves gaps in the sequences; the mirror's document repeats it."""
    js = with_origin(session, "MIRFILT", "a", "b", "a", "b", "a", "b")
    made = new_mirror(js, "MIRFILT-M", "MIRFILT", {"filter_subject": "MIRFILT.a"})
    seen = copied(js, "MIRFILT-M", messages=3)
    return [made, seen, origins_told(js, "MIRFILT-M")]


@catalogue.case("js.mirror.filter-nothing")
def filter_nothing(session: Session) -> Observation:
    """A filter that nothing matches leaves the mirror empty until something does."""
    js = with_origin(session, "MIRNONE", "a", "b")
    new_mirror(js, "MIRNONE-M", "MIRNONE", {"filter_subject": "MIRNONE.c"})
    before = origins_told(js, "MIRNONE-M")
    publish_below(js, "MIRNONE", "c")
    return [before, copied(js, "MIRNONE-M", messages=1)]


@catalogue.case("js.mirror.transform")
def transform(session: Session) -> Observation:
    """Transforms of a mirror select messages and store them under other subjects."""
    js = with_origin(session, "MIRMAP", "a.1", "b.2", "c.3", "a.4")
    transforms = [
        {"src": "MIRMAP.a.*", "dest": "to.{{wildcard(1)}}.a"},
        {"src": "MIRMAP.b.>", "dest": ""},
    ]
    made = new_mirror(js, "MIRMAP-M", "MIRMAP", {"subject_transforms": transforms})
    return [made, copied(js, "MIRMAP-M", messages=3), origins_told(js, "MIRMAP-M")]


@catalogue.case("js.mirror.transform-all")
def transform_all(session: Session) -> Observation:
    """A transform of all subjects renames every message and leaves no gap."""
    js = with_origin(session, "MIRALL", "a", "b")
    transforms = [{"src": ">", "dest": "copy.>"}]
    new_mirror(js, "MIRALL-M", "MIRALL", {"subject_transforms": transforms})
    return [copied(js, "MIRALL-M", messages=2), js.state("MIRALL-M", subjects_filter="copy.>")]


@catalogue.case("js.mirror.stream-transform")
def stream_transform(session: Session) -> Observation:
    """A subject transform of the mirroring stream itself has to be a valid one."""
    js = with_origin(session, "MIROWN", "a")
    made = new_mirror(
        js, "MIROWN-M", "MIROWN", subject_transform={"src": "MIROWN.*", "dest": "own.*"}
    )
    return [made, copied(js, "MIROWN-M", messages=1) if "error" not in made else None]


@catalogue.case("js.mirror.start-sequence")
def start_sequence(session: Session) -> Observation:
    """A mirror from a sequence on has no message before it."""
    js = with_origin(session, "MIRSEQ", *"abcde")
    made = new_mirror(js, "MIRSEQ-M", "MIRSEQ", {"opt_start_seq": 4})
    return [made, copied(js, "MIRSEQ-M", messages=2)]


@catalogue.case("js.mirror.start-sequence-ahead")
def start_sequence_ahead(session: Session) -> Observation:
    """A mirror from a sequence that is not there yet gets the messages from there on."""
    js = with_origin(session, "MIRAHEAD", *"ab")
    new_mirror(js, "MIRAHEAD-M", "MIRAHEAD", {"opt_start_seq": 5})
    origins_told(js, "MIRAHEAD-M")
    publish_below(js, "MIRAHEAD", *"cdef")
    return copied(js, "MIRAHEAD-M", last_seq=6)


@catalogue.case("js.mirror.start-time")
def start_time(session: Session) -> Observation:
    """A mirror from a time on begins with the first message of that time or later."""
    js = with_origin(session, "MIRTIME", *"abc")
    [moment] = moments(js, "MIRTIME", 3)
    new_mirror(js, "MIRTIME-M", "MIRTIME", {"opt_start_time": moment})
    return copied(js, "MIRTIME-M", messages=1)


@catalogue.case("js.mirror.first-sequence")
def first_sequence(session: Session) -> Observation:
    """A mirror begins with the first sequence of its origin."""
    js = with_origin(session, "MIRFIRST", "a", "b", first_seq=1000)
    new_mirror(js, "MIRFIRST-M", "MIRFIRST")
    return copied(js, "MIRFIRST-M", messages=2)


@catalogue.case("js.mirror.gaps-before")
def gaps_before(session: Session) -> Observation:
    """Messages that the origin had deleted before are gaps of the mirror too."""
    js = with_origin(session, "MIRGAP", *"abcdef")
    for seq in (1, 3, 4):
        js.api("STREAM.MSG.DELETE.MIRGAP", {"seq": seq})
    new_mirror(js, "MIRGAP-M", "MIRGAP")
    return [copied(js, "MIRGAP-M", messages=3), js.state("MIRGAP-M", deleted_details=True)]


@catalogue.case("js.mirror.deleted-after")
def deleted_after(session: Session) -> Observation:
    """Deletes and purges of the origin leave the messages in the mirror, which goes on."""
    js = with_origin(session, "MIRKEEP", *"abcd")
    new_mirror(js, "MIRKEEP-M", "MIRKEEP")
    state_in_time(js, "MIRKEEP-M", messages=4)
    js.api("STREAM.MSG.DELETE.MIRKEEP", {"seq": 2})
    publish_below(js, "MIRKEEP", "e")
    seen = copied(js, "MIRKEEP-M", messages=5)
    js.api("STREAM.PURGE.MIRKEEP")
    publish_below(js, "MIRKEEP", "f")
    return [seen, copied(js, "MIRKEEP-M", messages=6), origins_told(js, "MIRKEEP-M")]


@catalogue.case("js.mirror.purged-before")
def purged_before(session: Session) -> Observation:
    """The mirror of a stream that was purged begins with the first message after that."""
    js = with_origin(session, "MIRPURGE", *"abcd")
    js.api("STREAM.PURGE.MIRPURGE", {"keep": 1})
    new_mirror(js, "MIRPURGE-M", "MIRPURGE")
    return copied(js, "MIRPURGE-M", messages=1)


@catalogue.case("js.mirror.emptied-before")
def emptied_before(session: Session) -> Observation:
    """The mirror of an empty stream that had messages takes the next one under its sequence."""
    js = with_origin(session, "MIREMPTY", *"abc")
    js.api("STREAM.PURGE.MIREMPTY")
    new_mirror(js, "MIREMPTY-M", "MIREMPTY")
    origins = origins_told(js, "MIREMPTY-M")
    publish_below(js, "MIREMPTY", "d")
    return [origins, copied(js, "MIREMPTY-M", messages=1)]


@catalogue.case("js.mirror.purged")
def purged(session: Session) -> Observation:
    """A purge of a mirror is its own: its origin keeps all, and later messages follow."""
    js = with_origin(session, "MIRPURGED", *"abc")
    new_mirror(js, "MIRPURGED-M", "MIRPURGED")
    state_in_time(js, "MIRPURGED-M", messages=3)
    purge = js.api("STREAM.PURGE.MIRPURGED-M", {"keep": 1})
    publish_below(js, "MIRPURGED", "d")
    seen = copied(js, "MIRPURGED-M", last_seq=4)
    deleted = js.api("STREAM.MSG.DELETE.MIRPURGED-M", {"seq": 3})
    return [purge, seen, deleted, js.state("MIRPURGED-M"), js.state("MIRPURGED")]


@catalogue.case("js.mirror.limits")
def limits(session: Session) -> Observation:
    """A mirror's limits are its own: old messages leave it, of all and of each subject."""
    js = with_origin(session, "MIRLIM", *"abaabb")
    new_mirror(js, "MIRLIM-M", "MIRLIM", max_msgs=2)
    new_mirror(js, "MIRLIM-S", "MIRLIM", max_msgs_per_subject=1)
    return [copied(js, name, last_seq=6) for name in ("MIRLIM-M", "MIRLIM-S")]


@catalogue.case("js.mirror.rollup")
def rollup(session: Session) -> Observation:
    """A roll-up of the origin reaches the mirror with its header."""
    js = with_origin(session, "MIRROLL", *"aba", allow_rollup_hdrs=True)
    new_mirror(js, "MIRROLL-M", "MIRROLL", allow_rollup_hdrs=True)
    new_mirror(js, "MIRROLL-N", "MIRROLL")
    for name in ("MIRROLL-M", "MIRROLL-N"):
        state_in_time(js, name, messages=3)
    js.ack_text("MIRROLL.a", "sum", {"Nats-Rollup": "sub"})
    publish_below(js, "MIRROLL", "c")
    return [copied(js, name, last_seq=5) for name in ("MIRROLL-M", "MIRROLL-N")]


@catalogue.case("js.mirror.ttl")
def ttl(session: Session) -> Observation:
    """A message with a TTL reaches a mirror with its header, whether the mirror obeys it or not."""
    js = with_origin(session, "MIRTTL", allow_msg_ttl=True)
    new_mirror(js, "MIRTTL-M", "MIRTTL", allow_msg_ttl=True)
    new_mirror(js, "MIRTTL-N", "MIRTTL")
    js.ack_text("MIRTTL.a", "x", {"Nats-TTL": "1h"})
    js.ack_text("MIRTTL.b", "x", {"Nats-TTL": "never"})
    return [copied(js, name, messages=2) for name in ("MIRTTL-M", "MIRTTL-N")]


@catalogue.case("js.mirror.chain")
def chain(session: Session) -> Observation:
    """A mirror of a mirror has the messages of the first stream."""
    js = with_origin(session, "MIRCHAIN", *"ab")
    new_mirror(js, "MIRCHAIN-M", "MIRCHAIN")
    new_mirror(js, "MIRCHAIN-N", "MIRCHAIN-M")
    publish_below(js, "MIRCHAIN", "c")
    seen = copied(js, "MIRCHAIN-N", messages=3)
    same_times = moments(js, "MIRCHAIN", 1, 3) == moments(js, "MIRCHAIN-N", 1, 3)
    return [seen, same_times, origins_told(js, "MIRCHAIN-N")]


@catalogue.case("js.mirror.sealed-origin")
def sealed_origin(session: Session) -> Observation:
    """A sealed stream can be mirrored; the mirror is not sealed."""
    js = with_origin(session, "MIRSEAL", *"ab")
    js.update("MIRSEAL", sealed=True)
    made = new_mirror(js, "MIRSEAL-M", "MIRSEAL")
    return [made, copied(js, "MIRSEAL-M", messages=2), origins_told(js, "MIRSEAL-M")]


@catalogue.case("js.mirror.publish")
def publish(session: Session) -> Observation:
    """Nobody publishes to a mirror: its name and its origin's subjects are not its own."""
    js = with_origin(session, "MIRPUB", "a")
    new_mirror(js, "MIRPUB-M", "MIRPUB")
    state_in_time(js, "MIRPUB-M", messages=1)
    return [js.publish("MIRPUB-M", "x"), js.ack_text("MIRPUB.a", "x")]


@catalogue.case("js.mirror.promotion")
def promotion(session: Session) -> Observation:
    """Without its mirror setting a mirror is a stream that goes on with the next sequence."""
    js = with_origin(session, "MIRPROM", *"ab")
    new_mirror(js, "MIRPROM-M", "MIRPROM")
    state_in_time(js, "MIRPROM-M", messages=2)
    js.api("STREAM.DELETE.MIRPROM")
    updated = told(js.update("MIRPROM-M", subjects=["MIRPROM.>"]))
    acks = [js.ack_text("MIRPROM.c", "x"), js.ack_text("MIRPROM.d", "y")]
    return [updated, acks, copied(js, "MIRPROM-M", messages=4)]


@catalogue.case("js.mirror.promotion-without-subjects")
def promotion_without_subjects(session: Session) -> Observation:
    """A promoted mirror without subjects of its own; the origin lives on beside it."""
    js = with_origin(session, "MIRALONE", *"ab")
    new_mirror(js, "MIRALONE-M", "MIRALONE")
    state_in_time(js, "MIRALONE-M", messages=2)
    updated = told(js.update("MIRALONE-M", subjects=[]))
    publish_below(js, "MIRALONE", "c")
    ack = js.publish("MIRALONE-M", "x")
    return [updated, ack, copied(js, "MIRALONE-M"), told(js.info("MIRALONE-M"))["config"]]


@catalogue.case("js.mirror.update")
def update(session: Session) -> Observation:
    """Other settings of a mirror can be updated; it goes on with what it had."""
    js = with_origin(session, "MIRUPD", *"abc")
    new_mirror(js, "MIRUPD-M", "MIRUPD")
    state_in_time(js, "MIRUPD-M", messages=3)
    updated = told(
        js.update(
            "MIRUPD-M", subjects=[], mirror={"name": "MIRUPD"}, max_msgs=2, description="copy"
        )
    )
    publish_below(js, "MIRUPD", "d")
    return [updated["config"], copied(js, "MIRUPD-M", last_seq=4)]


@catalogue.case("js.mirror.consumer")
def consumer(session: Session) -> Observation:
    """Consumers of a mirror get its messages under the sequences of its origin."""
    js = with_origin(session, "MIRREAD", *"abc")
    new_mirror(js, "MIRREAD-M", "MIRREAD", {"filter_subject": "MIRREAD.c"})
    state_in_time(js, "MIRREAD-M", messages=1)
    new_durable(js, "MIRREAD-M", "D")
    pulled = fetch(js, "MIRREAD-M", "D")
    return [
        shown_deliveries(pulled),
        js.api("STREAM.MSG.GET.MIRREAD-M", {"last_by_subj": "MIRREAD.c"}),
    ]


@catalogue.case("js.mirror.memory")
def memory(session: Session) -> Observation:
    """A mirror in memory of a stream on disk counts its bytes as a stream in memory does."""
    js = with_origin(session, "MIRMEM", *"ab")
    new_mirror(js, "MIRMEM-M", "MIRMEM", storage="memory")
    return [state_in_time(js, "MIRMEM-M", messages=2), js.state("MIRMEM")]


@catalogue.case("js.mirror.two")
def two(session: Session) -> Observation:
    """A stream may have several mirrors, each with a part of it."""
    js = with_origin(session, "MIRTWO", *"abab")
    for part in "ab":
        new_mirror(js, f"MIRTWO-{part}", "MIRTWO", {"filter_subject": f"MIRTWO.{part}"})
    return [copied(js, f"MIRTWO-{part}", messages=2) for part in "ab"]


@catalogue.case("js.mirror.duplicates")
def duplicates(session: Session) -> Observation:
    """A mirror does not look at message ids, whatever its duplicate window."""
    js = with_origin(session, "MIRDUP", duplicate_window=SECOND_NS // 10)
    made = new_mirror(js, "MIRDUP-M", "MIRDUP", duplicate_window=60 * SECOND_NS)
    js.ack_text("MIRDUP.a", "1", {"Nats-Msg-Id": "i"})
    js.wait_until(lambda: "duplicate" not in js.publish("MIRDUP.a", "2", {"Nats-Msg-Id": "i"}))
    return [made, copied(js, "MIRDUP-M", messages=2)]


@catalogue.case("js.mirror.counter")
def counter(session: Session) -> Observation:
    """A mirror of a counter has its sums and increments and counts nothing itself."""
    js = with_origin(session, "MIRCOUNT", allow_msg_counter=True)
    for value in ("5", "-2"):
        js.ack_text("MIRCOUNT.a", "", {"Nats-Incr": value})
    new_mirror(js, "MIRCOUNT-M", "MIRCOUNT")
    return copied(js, "MIRCOUNT-M", messages=2)


@catalogue.case("js.mirror.republish")
def republish(session: Session) -> Observation:
    """A mirror republishes what it copies."""
    js = with_origin(session, "MIRAGAIN")
    new_mirror(js, "MIRAGAIN-M", "MIRAGAIN", republish={"src": ">", "dest": "again.>"})
    watch = js.watch(session, "again.MIRAGAIN.>")
    publish_below(js, "MIRAGAIN", "a")
    return watch.take(1)


@catalogue.case("js.mirror.retention")
def retention(session: Session) -> Observation:
    """A mirror is a consumer of a work queue and an interest: what it has copied is done."""
    js = with_origin(session, "MIRWORK", *"abc", retention="workqueue")
    new_origin(js, "MIRINT", retention="interest")
    made = [new_mirror(js, f"{name}-M", name) for name in ("MIRWORK", "MIRINT")]
    js.wait_until(lambda: bool(js.state("MIRINT")["consumer_count"] == 1))
    publish_below(js, "MIRINT", *"abc")
    seen = [copied(js, name, messages=3) for name in ("MIRWORK-M", "MIRINT-M")]
    return [made, seen, [state_in_time(js, name, messages=0) for name in ("MIRWORK", "MIRINT")]]


@catalogue.case("js.mirror.missing-origin")
def missing_origin(session: Session) -> Observation:
    """A mirror of a stream that does not exist is made and tells of its error."""
    js = with_stream(session, "MIRLESS")
    js.api("STREAM.DELETE.MIRLESS-NONE")
    made = new_mirror(js, "MIRLESS-M", "MIRLESS-NONE")
    seen: list[Observation] = []

    def tells_error() -> bool:
        seen[:] = [told(js.info("MIRLESS-M"))["mirror"]]
        return "error" in str(seen)

    js.wait_until(tells_error)
    js.api("STREAM.DELETE.MIRLESS-M")
    return [made, seen]


@catalogue.case("js.mirror.deleted-origin")
def deleted_origin(session: Session) -> Observation:
    """A mirror keeps the messages of an origin that was deleted."""
    js = with_origin(session, "MIRGONE", *"ab")
    new_mirror(js, "MIRGONE-M", "MIRGONE")
    state_in_time(js, "MIRGONE-M", messages=2)
    js.api("STREAM.DELETE.MIRGONE")
    kept = copied(js, "MIRGONE-M", messages=2)
    config = js.info("MIRGONE-M")["config"]["mirror"]
    js.api("STREAM.DELETE.MIRGONE-M")
    return [kept, config]


@catalogue.case("js.mirror.sealed")
def sealed(session: Session) -> Observation:
    """A mirror can be sealed and keeps what it has."""
    js = with_origin(session, "MIRSHUT", *"ab")
    new_mirror(js, "MIRSHUT-M", "MIRSHUT")
    state_in_time(js, "MIRSHUT-M", messages=2)
    updated = told(js.update("MIRSHUT-M", subjects=[], mirror={"name": "MIRSHUT"}, sealed=True))
    return [updated, copied(js, "MIRSHUT-M", messages=2)]


@catalogue.case("js.mirror.full")
def full(session: Session) -> Observation:
    """A mirror that refuses new messages when full, by its own limit and not its origin's."""
    js = with_origin(session, "MIRFULL", *"abc")
    new_mirror(js, "MIRFULL-M", "MIRFULL", max_msgs=2, discard="new")
    return copied(js, "MIRFULL-M", messages=2)


@catalogue.case("js.mirror.batch")
def batch(session: Session) -> Observation:
    """The messages of an atomic batch are mirrored without the headers of the batch."""
    js = with_origin(session, "MIRBATCH", allow_atomic=True)
    head = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "K": "v"}
    js.ack_text("MIRBATCH.a", "1", head)
    js.ack_text("MIRBATCH.b", "2", {**head, "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"})
    new_mirror(js, "MIRBATCH-M", "MIRBATCH")
    return copied(js, "MIRBATCH-M", messages=2)
