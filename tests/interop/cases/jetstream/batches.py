"""Atomic batches: messages that are staged one by one and stored together or not at all."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, RESOURCES, JetStreamClient, with_jetstream
from tests.interop.messages import contents, new_stream, restarted, stored, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

IN_FLIGHT_MAX = 50
SIZE_MAX = 1000
ID_BYTES_MAX = 64
SHORT_LIVED = with_jetstream(f'{RESOURCES}, limits {{ batch {{ timeout: "100ms" }} }}')
SMALL_BATCHES = with_jetstream(
    f"{RESOURCES}, limits {{ batch {{ max_msgs: 3, max_inflight_per_stream: 2, "
    "max_inflight_total: 3 } }"
)

catalogue = Catalogue(JETSTREAM)


def member(batch: str, seq: int | str, commit: str = "", **other: str) -> dict[str, str]:
    """The headers of one message of a batch; in names of others `_` stands for `-`."""
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(seq)}
    if commit:
        headers["Nats-Batch-Commit"] = commit
    return headers | {name.replace("_", "-"): value for name, value in other.items()}


def atomic(session: Session, name: str, **config: object) -> JetStreamClient:
    return with_stream(session, name, allow_atomic=True, **config)


def pair(
    js: JetStreamClient, stream: str, first: dict[str, str], second: dict[str, str]
) -> list[Observation]:
    """The acks of a batch of two, and the contents of the stream then."""
    acks = [
        js.ack_text(f"{stream}.a", "one", {**member("p", 1), **first}),
        js.ack_text(f"{stream}.a", "two", {**member("p", 2, "1"), **second}),
    ]
    return [acks, contents(js, stream)]


@catalogue.case("js.batch.commit")
def commit(session: Session) -> Observation:
    """Staged messages are answered with nothing; the commit is acked with the whole batch."""
    js = atomic(session, "BATCH")
    acks = [js.ack_text("BATCH.a", "one", member("b", 1))]
    acks.append(js.ack_text("BATCH.b", "two", member("b", 2, X_Other="kept")))
    before = js.state("BATCH")["messages"]
    acks.append(js.ack_text("BATCH.a", "three", member("b", 3, "1")))
    return [acks, before, contents(js, "BATCH")]


@catalogue.case("js.batch.commit-eob")
def commit_eob(session: Session) -> Observation:
    """A commit by `eob` is not stored; the last message before it is marked as the commit."""
    js = atomic(session, "BATCHEOB")
    acks = [js.ack_text(f"BATCHEOB.{seq}", str(seq), member("b", seq)) for seq in (1, 2)]
    acks.append(js.ack_text("BATCHEOB.3", "not stored", member("b", 3, "eob")))
    return [acks, contents(js, "BATCHEOB")]


@catalogue.case("js.batch.of-one")
def of_one(session: Session) -> Observation:
    """A batch of one message commits with the first."""
    js = atomic(session, "BATCHONE")
    return [js.ack_text("BATCHONE", "x", member("b", 1, "1")), contents(js, "BATCHONE")]


@catalogue.case("js.batch.eob-alone")
def eob_alone(session: Session) -> Observation:
    """A batch that ends before it begins is incomplete."""
    js = atomic(session, "BATCHNONE")
    return js.ack_text("BATCHNONE", "x", member("b", 1, "eob"))


@catalogue.case("js.batch.without-replies")
def without_replies(session: Session) -> Observation:
    """Only the commit needs a reply."""
    js = atomic(session, "BATCHQUIET")
    js.send_only("BATCHQUIET", "one", member("b", 1))
    js.send_only("BATCHQUIET", "two", member("b", 2))
    ack = js.ack_text("BATCHQUIET", "three", member("b", 3, "1"))
    return [ack, js.state("BATCHQUIET")["messages"]]


@catalogue.case("js.batch.memory")
def memory(session: Session) -> Observation:
    """A stream in memory takes batches in the same way."""
    js = atomic(session, "BATCHMEM", storage="memory")
    return pair(js, "BATCHMEM", {}, {})


@catalogue.case("js.batch.id-again")
def id_again(session: Session) -> Observation:
    """After its commit an id may name another batch."""
    js = atomic(session, "BATCHAGAIN")
    return [pair(js, "BATCHAGAIN", {}, {}), pair(js, "BATCHAGAIN", {}, {})]


@catalogue.case("js.batch.interleaved")
def interleaved(session: Session) -> Observation:
    """Batches and plain publishes mix; each batch is stored in one piece at its commit."""
    js = atomic(session, "BATCHMIX")
    acks = [
        js.ack_text("BATCHMIX.a", "a1", member("a", 1)),
        js.ack_text("BATCHMIX.b", "b1", member("b", 1)),
        js.ack_text("BATCHMIX.p", "plain"),
        js.ack_text("BATCHMIX.b", "b2", member("b", 2, "1")),
        js.ack_text("BATCHMIX.a", "a2", member("a", 2, "1")),
    ]
    return [acks, contents(js, "BATCHMIX")]


@catalogue.case("js.batch.disabled", text="atomic publish is disabled")
def disabled(session: Session) -> Observation:
    """A stream that does not allow batches refuses their messages; an empty id is no batch."""
    js = with_stream(session, "BATCHNO")
    return [
        js.ack_text("BATCHNO", "x", member("b", 1)),
        js.ack_text("BATCHNO", "x", member("b", 1, "1")),
        js.ack_text("BATCHNO", "x", member("", 1)),
    ]


@catalogue.case("js.batch.disabled-async")
def disabled_async(session: Session) -> Observation:
    """A stream that persists later has no batches."""
    js = with_stream(session, "BATCHASYNC", persist_mode="async")
    return js.ack_text("BATCHASYNC", "x", member("b", 1, "1"))


@catalogue.case("js.batch.sequence-missing", text="atomic publish sequence is missing")
def sequence_missing(session: Session) -> Observation:
    """A message of a batch has a sequence, which is a number."""
    js = atomic(session, "BATCHNOSEQ")
    return [
        js.ack_text("BATCHNOSEQ", "x", {"Nats-Batch-Id": "b"}),
        *(js.ack_text("BATCHNOSEQ", "x", member("b", seq)) for seq in ("", "x", "-1", "1.0")),
        js.ack_text("BATCHNOSEQ", "x", member("b", str(2**64))),
    ]


@catalogue.case("js.batch.id-too-long", text="atomic publish batch ID is invalid")
def id_too_long(session: Session) -> Observation:
    """An id has at most 64 bytes."""
    js = atomic(session, "BATCHID")
    ids = ("i" * ID_BYTES_MAX, "i" * (ID_BYTES_MAX + 1), 'q"\\u')
    return [js.ack_text("BATCHID", "x", member(batch, 1, "1")) for batch in ids]


@catalogue.case("js.batch.gap", text="atomic publish batch is incomplete")
def gap(session: Session) -> Observation:
    """A gap ends the batch: nothing of it is stored, and its id is free again."""
    js = atomic(session, "BATCHGAP")
    acks = [js.ack_text("BATCHGAP", str(seq), member("b", seq)) for seq in (1, 3, 2, 4)]
    acks.append(js.ack_text("BATCHGAP", "x", member("b", 1)))
    return [acks, js.state("BATCHGAP")["messages"]]


@catalogue.case("js.batch.sequence-again")
def sequence_again(session: Session) -> Observation:
    """A sequence that comes twice ends the batch as a gap does."""
    js = atomic(session, "BATCHTWICE")
    return [js.ack_text("BATCHTWICE", "x", member("b", seq)) for seq in (1, 2, 2, 3)]


@catalogue.case("js.batch.first-is-not-one")
def first_is_not_one(session: Session) -> Observation:
    """A batch begins with 1; other messages of a batch that has not begun are refused at once."""
    js = atomic(session, "BATCHTWO")
    return [
        js.ack_text("BATCHTWO", "x", member("b", 0)),
        js.ack_text("BATCHTWO", "x", member("b", 2)),
        js.ack_text("BATCHTWO", "x", member("b", 2, "1")),
        js.ack_text("BATCHTWO", "x", member("b", SIZE_MAX)),
        js.ack_text("BATCHTWO", "x", member("b", SIZE_MAX + 1)),
        js.ack_text("BATCHTWO", "x", member("b", SIZE_MAX + 1, "eob")),
        js.ack_text("BATCHTWO", "x", member("b", SIZE_MAX + 2, "eob")),
    ]


@catalogue.case("js.batch.commit-invalid", text="atomic publish batch commit is invalid")
def commit_invalid(session: Session) -> Observation:
    """A commit says `1` or `eob`; any other word, and none, ends the batch."""
    js = atomic(session, "BATCHCOMMIT")
    acks = []
    for word in ("0", "EOB", "true", "1 "):
        acks.append(js.ack_text("BATCHCOMMIT", "x", member("b", 1)))
        acks.append(js.ack_text("BATCHCOMMIT", "x", member("b", 2, word)))
        acks.append(js.ack_text("BATCHCOMMIT", "x", member("b", 3, "1")))
    empty = js.ack_text("BATCHCOMMIT", "x", {**member("b", 1), "Nats-Batch-Commit": ""})
    return [acks, empty, js.state("BATCHCOMMIT")["messages"]]


@catalogue.case("js.batch.too-large", text="atomic publish batch is too large: 1000")
def too_large(session: Session) -> Observation:
    """A batch has at most 1000 messages."""
    js = atomic(session, "BATCHLARGE")
    for seq in range(1, SIZE_MAX + 1):
        js.send_only("BATCHLARGE", "x", member("b", seq))
    past = js.ack_text("BATCHLARGE", "x", member("b", SIZE_MAX + 1, "1"))
    return [past, js.ack_text("BATCHLARGE", "x", member("b", 2)), js.state("BATCHLARGE")]


@catalogue.case("js.batch.largest")
def largest(session: Session) -> Observation:
    """1000 messages are stored; an `eob` after them does not count."""
    js = atomic(session, "BATCHMOST")
    for seq in range(1, SIZE_MAX + 1):
        js.send_only("BATCHMOST", "x", member("b", seq))
    return js.ack_text("BATCHMOST", "", member("b", SIZE_MAX + 1, "eob"))


@catalogue.case("js.batch.too-many", text="atomic publish too many inflight")
def too_many(session: Session) -> Observation:
    """A stream stages at most 50 batches; one that ends makes room."""
    js = atomic(session, "BATCHMANY")
    acks = [js.ack_text("BATCHMANY", "x", member(f"b{n}", 1)) for n in range(1, IN_FLIGHT_MAX + 2)]
    acks.append(js.ack_text("BATCHMANY", "x", member("b1", 2, "1")))
    acks.append(js.ack_text("BATCHMANY", "x", member("more", 1)))
    js.api("STREAM.DELETE.BATCHMANY")
    return acks


@catalogue.case("js.batch.limits-configured", setup=SMALL_BATCHES)
def limits_configured(session: Session) -> Observation:
    """The limits of batches are the server's settings: of size, of a stream and of all."""
    js = atomic(session, "BATCHSETA")
    new_stream(js, "BATCHSETB", allow_atomic=True)
    acks = [js.ack_text("BATCHSETA", "x", member("b", seq)) for seq in (1, 2, 3, 4)]
    acks += [js.ack_text("BATCHSETA", "x", member(batch, 1)) for batch in "cde"]
    acks += [js.ack_text("BATCHSETB", "x", member(batch, 1)) for batch in "fg"]
    for name in ("BATCHSETA", "BATCHSETB"):
        js.api(f"STREAM.DELETE.{name}")
    return acks


@catalogue.case("js.batch.abandoned", setup=SHORT_LIVED)
def abandoned(session: Session) -> Observation:
    """A batch that does not go on is dropped, and has an advisory."""
    js = atomic(session, "BATCHLEFT")
    watch = js.watch(session, "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>")
    acks = [js.ack_text("BATCHLEFT", "x", member("b", 1))]
    seen = watch.take(1)
    return [acks, seen, js.ack_text("BATCHLEFT", "x", member("b", 2, "1"))]


@catalogue.case("js.batch.advisories")
def advisories(session: Session) -> Observation:
    """Gaps, too many messages and a level that is not met have advisories."""
    js = atomic(session, "BATCHTOLD")
    watch = js.watch(session, "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.BATCHTOLD")
    told = []
    js.ack_text("BATCHTOLD", "x", member("gap", 1))
    js.ack_text("BATCHTOLD", "x", member("gap", 3))
    told += watch.take(1)
    js.ack_text("BATCHTOLD", "x", member("level", 1, Nats_Required_Api_Level="99"))
    told += watch.take(1)
    for seq in range(1, SIZE_MAX + 2):
        js.send_only("BATCHTOLD", "x", member("large", seq))
    return [*told, *watch.take(1)]


@catalogue.case("js.batch.api-level", text="JetStream minimum api level required")
def api_level(session: Session) -> Observation:
    """A batch may require a level of the API; the header is not stored."""
    js = atomic(session, "BATCHLEVEL")
    acks = [
        js.ack_text("BATCHLEVEL", "x", member("b", 1, Nats_Required_Api_Level="2")),
        js.ack_text("BATCHLEVEL", "x", member("b", 2, "1", Nats_Required_Api_Level="0")),
        js.ack_text("BATCHLEVEL", "x", member("c", 1)),
        js.ack_text("BATCHLEVEL", "x", member("c", 2, "1", Nats_Required_Api_Level="99")),
        js.ack_text("BATCHLEVEL", "x", member("c", 3, "1")),
        js.ack_text("BATCHLEVEL", "x", member("d", 1, Nats_Required_Api_Level="two")),
    ]
    return [acks, contents(js, "BATCHLEVEL")]


@catalogue.case(
    "js.batch.unsupported-header",
    text="atomic publish unsupported header used: Nats-Expected-Last-Msg-Id",
)
def unsupported_header(session: Session) -> Observation:
    """An expected last id has no place in a batch; it is found out at the commit."""
    js = atomic(session, "BATCHUNSUP")
    return pair(js, "BATCHUNSUP", {"Nats-Expected-Last-Msg-Id": "x"}, {})


@catalogue.case("js.batch.duplicate", text="atomic publish batch contains duplicate message id")
def duplicate(session: Session) -> Observation:
    """An id that the stream knows ends the batch at its commit."""
    js = atomic(session, "BATCHDUP")
    js.ack_text("BATCHDUP.a", "x", {"Nats-Msg-Id": "seen"})
    return pair(js, "BATCHDUP", {}, {"Nats-Msg-Id": "seen"})


@catalogue.case("js.batch.duplicate-inside")
def duplicate_inside(session: Session) -> Observation:
    """So does an id that comes twice in the batch."""
    js = atomic(session, "BATCHSELF")
    return pair(js, "BATCHSELF", {"Nats-Msg-Id": "same"}, {"Nats-Msg-Id": "same"})


@catalogue.case("js.batch.ids-remembered")
def ids_remembered(session: Session) -> Observation:
    """Ids of a batch are known once it is stored, and not when it is dropped."""
    js = atomic(session, "BATCHIDS")
    stored_batch = pair(js, "BATCHIDS", {"Nats-Msg-Id": "a"}, {"Nats-Msg-Id": "b"})
    dropped = pair(js, "BATCHIDS", {"Nats-Msg-Id": "c"}, {"Nats-Expected-Stream": "OTHER"})
    acks = [js.ack_text("BATCHIDS.a", "", {"Nats-Msg-Id": value}) for value in "abc"]
    return [stored_batch, dropped, acks]


@catalogue.case("js.batch.expected-last-sequence")
def expected_last_sequence(session: Session) -> Observation:
    """The first message may expect a last sequence, which the commit looks at."""
    js = atomic(session, "BATCHLAST")
    return [
        pair(js, "BATCHLAST", {"Nats-Expected-Last-Sequence": "5"}, {}),
        pair(js, "BATCHLAST", {"Nats-Expected-Last-Sequence": "0"}, {}),
    ]


@catalogue.case("js.batch.expected-last-sequence-later", text='"wrong last sequence"')
def expected_last_sequence_later(session: Session) -> Observation:
    """A later message may not, not even the sequence it would meet."""
    js = atomic(session, "BATCHLATER")
    return [
        pair(js, "BATCHLATER", {}, {"Nats-Expected-Last-Sequence": "1"}),
        pair(js, "BATCHLATER", {}, {"Nats-Expected-Last-Sequence": "0"}),
    ]


@catalogue.case("js.batch.expected-subject-sequence")
def expected_subject_sequence(session: Session) -> Observation:
    """A subject's last sequence may be expected before the batch writes to it, not after."""
    js = atomic(session, "BATCHSUBJ")
    expect = "Nats-Expected-Last-Subject-Sequence"
    return [
        pair(js, "BATCHSUBJ", {expect: "3"}, {}),
        pair(js, "BATCHSUBJ", {expect: "0"}, {}),
        pair(js, "BATCHSUBJ", {}, {expect: "2"}),
        pair(js, "BATCHSUBJ", {}, {expect: "3"}),
        pair(js, "BATCHSUBJ", {}, {expect: "0", f"{expect}-Subject": "BATCHSUBJ.b"}),
    ]


@catalogue.case("js.batch.rollup", text="batch rollup sub invalid")
def rollup(session: Session) -> Observation:
    """A rollup of a subject is for the first of its messages, one of all for the first of all."""
    js = atomic(session, "BATCHROLL", allow_rollup_hdrs=True)
    js.fill("BATCHROLL.a", "BATCHROLL.b")
    return [
        pair(js, "BATCHROLL", {}, {"Nats-Rollup": "sub"}),
        pair(js, "BATCHROLL", {}, {"Nats-Rollup": "all"}),
        pair(js, "BATCHROLL", {"Nats-Rollup": "sub"}, {}),
        pair(js, "BATCHROLL", {"Nats-Rollup": "all"}, {}),
    ]


@catalogue.case("js.batch.refused-at-commit")
def refused_at_commit(session: Session) -> Observation:
    """A batch is refused at its commit for all that a plain publish is refused for."""
    js = atomic(session, "BATCHBAD")
    bad = {
        "Nats-Expected-Stream": "OTHER",
        "Nats-TTL": "1",
        "Nats-Rollup": "sub",
        "Nats-Incr": "1",
        "Nats-Schedule": "@every 1s",
        "Nats-Stream-Source": "S 1 > > a",
        "Nats-Expected-Last-Subject-Sequence-Subject": "a",
    }
    return [pair(js, "BATCHBAD", {name: value}, {}) for name, value in bad.items()]


@catalogue.case("js.batch.ttl")
def ttl(session: Session) -> Observation:
    """A TTL that cannot be read is invalid in a batch, or disabled if the stream has no TTLs."""
    js = atomic(session, "BATCHTTL")
    seen = pair(js, "BATCHTTL", {"Nats-TTL": "soon"}, {})
    js.update("BATCHTTL", allow_atomic=True, allow_msg_ttl=True)
    return [
        seen,
        pair(js, "BATCHTTL", {"Nats-TTL": "soon"}, {}),
        pair(js, "BATCHTTL", {"Nats-TTL": "1h"}, {"Nats-TTL": "never"}),
    ]


@catalogue.case("js.batch.full-stream")
def full_stream(session: Session) -> Observation:
    """A batch that does not fit into its stream is refused whole."""
    js = atomic(session, "BATCHFULL", max_msgs=2, discard="new")
    js.fill("BATCHFULL.a")
    seen = pair(js, "BATCHFULL", {}, {})
    js.api("STREAM.PURGE.BATCHFULL")
    return [seen, pair(js, "BATCHFULL", {}, {})]


@catalogue.case("js.batch.message-size")
def message_size(session: Session) -> Observation:
    """A message that is too large is refused when it comes; the batch goes on without it."""
    js = atomic(session, "BATCHSIZE", max_msg_size=200)
    acks = [
        js.ack_text("BATCHSIZE", "x", member("b", 1)),
        js.ack_text("BATCHSIZE", "x" * 201, member("b", 2)),
        js.ack_text("BATCHSIZE", "x", member("b", 2, "1")),
    ]
    return [acks, js.state("BATCHSIZE")["messages"]]


@catalogue.case("js.batch.counters")
def counters(session: Session) -> Observation:
    """Increments of a batch add up; the ack of the batch has no sum."""
    js = atomic(session, "BATCHCOUNT", allow_msg_counter=True)
    acks = [
        js.ack_text("BATCHCOUNT", "", {**member("b", 1), "Nats-Incr": "2"}),
        js.ack_text("BATCHCOUNT", "", {**member("b", 2, "1"), "Nats-Incr": "3"}),
    ]
    return [acks, contents(js, "BATCHCOUNT")]


@catalogue.case("js.batch.sealed")
def sealed(session: Session) -> Observation:
    """A sealed stream begins no batch."""
    js = atomic(session, "BATCHSEAL")
    js.update("BATCHSEAL", allow_atomic=True, sealed=True)
    return js.ack_text("BATCHSEAL", "x", member("b", 1))


@catalogue.case("js.batch.restart", own_server=True)
def restart(session: Session) -> Observation:
    """A batch that is not committed does not outlive a restart; a committed one does."""
    js = atomic(session, "BATCHSTART")
    pair(js, "BATCHSTART", {}, {})
    acks = [js.ack_text("BATCHSTART", "x", member("b", 1))]
    with restarted(session, JETSTREAM) as later:
        again = JetStreamClient(later.connect())
        acks.append(again.ack_text("BATCHSTART", "x", member("b", 2, "1")))
        return [acks, contents(again, "BATCHSTART"), stored(again, "BATCHSTART", 3)]
