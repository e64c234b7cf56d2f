"""Fast batches: publishes whose reply subject tells batch, sequence and operation.

The reply subject is `<inbox>.<batch>.<flow>.<gap mode>.<sequence>.<operation>.$FI`, and one
subscription hears all answers. A plain publish at the end tells that there were no more.
"""

from tests.interop.case import Catalogue
from tests.interop.jetstream import (
    JETSTREAM,
    RESOURCES,
    JetStreamClient,
    publish_operation,
    with_jetstream,
)
from tests.interop.messages import contents, stored, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.wire_client import Frame

START, APPEND, COMMIT, COMMIT_EOB, PING = range(5)
ID_BYTES_MAX = 64
ONE_AT_A_TIME = with_jetstream(f"{RESOURCES}, limits {{ batch {{ max_inflight_per_stream: 1 }} }}")
SHORT_LIVED = with_jetstream(
    f'{RESOURCES}, limits {{ batch {{ max_inflight_per_stream: 1, timeout: "100ms" }} }}'
)

catalogue = Catalogue(JETSTREAM)


class FastBatch:
    """The publisher of one batch."""

    def __init__(
        self,
        js: JetStreamClient,
        subject: str,
        batch: str = "b",
        flow: object = 100,
        gap: str = "fail",
    ) -> None:
        self._js = js
        self._subject = subject
        self._words = f"{batch}.{flow}.{gap}"

    def send(self, seq: object, operation: object, payload: str = "x", **headers: str) -> None:
        reply = f"fast.{self._words}.{seq}.{operation}.$FI"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._js.wire.send(publish_operation(self._subject, payload.encode(), named, reply))

    def answers(self) -> list[Frame]:
        """The frames so far; a publish without headers or batch is sent, whose ack comes last."""
        fence = f"PUB {self._subject} fence 0\r\n\r\n"
        self._js.wire.send(f"SUB fence 8\r\n{fence}")
        seen: list[Frame] = []
        while not str(frame := self._js.wire.awaited_frame()).startswith("MSG fence"):
            seen.append(frame)
        self._js.wire.send("UNSUB 8\r\n")
        return seen


def fast(session: Session, name: str, **config: object) -> JetStreamClient:
    """A client that receives the answers to fast batches into its new stream."""
    js = with_stream(session, name, **{"allow_batched": True, **config})
    js.wire.exchange("SUB fast.> 7\r\n")
    return js


@catalogue.case("js.fast.batch")
def batch(session: Session) -> Observation:
    """The first message is answered with the flow, the commit with the ack of the whole."""
    js = fast(session, "FAST")
    publisher = FastBatch(js, "FAST")
    publisher.send(1, START, "one")
    publisher.send(2, APPEND, "two")
    publisher.send(3, COMMIT, "three")
    return [publisher.answers(), contents(js, "FAST")]


@catalogue.case("js.fast.eob")
def eob(session: Session) -> Observation:
    """A commit by the end of the batch is not stored."""
    js = fast(session, "FASTEOB")
    publisher = FastBatch(js, "FASTEOB")
    publisher.send(1, START, "one")
    publisher.send(2, APPEND, "two")
    publisher.send(3, COMMIT_EOB, "not stored")
    return [publisher.answers(), contents(js, "FASTEOB")]


@catalogue.case("js.fast.of-one")
def of_one(session: Session) -> Observation:
    """A batch of one is a commit with the sequence 1, and answered once."""
    js = fast(session, "FASTONE")
    publisher = FastBatch(js, "FASTONE")
    publisher.send(1, COMMIT)
    return publisher.answers()


@catalogue.case("js.fast.visible-before-commit")
def visible_before_commit(session: Session) -> Observation:
    """Messages are stored as they come; the commit is not waited for."""
    js = fast(session, "FASTSEEN")
    publisher = FastBatch(js, "FASTSEEN")
    publisher.send(1, START, "one")
    publisher.send(2, APPEND, "two")
    publisher.answers()
    return contents(js, "FASTSEEN")


@catalogue.case("js.fast.flow")
def flow(session: Session) -> Observation:
    """An ack comes for every so many messages as the publisher asked for."""
    js = fast(session, "FASTFLOW")
    publisher = FastBatch(js, "FASTFLOW", flow=3)
    publisher.send(1, START)
    for seq in range(2, 9):
        publisher.send(seq, APPEND)
    publisher.send(9, COMMIT)
    return publisher.answers()


@catalogue.case("js.fast.flow-values")
def flow_values(session: Session) -> Observation:
    """A value that is no flow counts as ten; the server gives at most five hundred."""
    js = fast(session, "FASTFLOWS")
    seen: list[Observation] = []
    for asked in ("0", "-5", "x", "1", "500", "501", "65535", "70000"):
        publisher = FastBatch(js, "FASTFLOWS", flow=asked)
        publisher.send(1, START)
        publisher.send(2, COMMIT)
        seen.append(publisher.answers())
    return seen


@catalogue.case("js.fast.flow-shared")
def flow_shared(session: Session) -> Observation:
    """A second batch on the stream begins with an ack for every message, and speeds up."""
    js = fast(session, "FASTSHARE")
    first = FastBatch(js, "FASTSHARE", "first", flow=100)
    first.send(1, START)
    second = FastBatch(js, "FASTSHARE", "second", flow=4)
    second.send(1, START)
    for seq in range(2, 12):
        second.send(seq, APPEND)
    seen = second.answers()
    second.send(12, COMMIT)
    first.send(2, COMMIT)
    return [seen, first.answers()]


@catalogue.case("js.fast.ping")
def ping(session: Session) -> Observation:
    """A ping repeats the last flow ack and is not stored."""
    js = fast(session, "FASTPING")
    publisher = FastBatch(js, "FASTPING", flow=2)
    publisher.send(1, START)
    publisher.send(1, PING)
    publisher.send(2, APPEND)
    publisher.send(3, APPEND)
    publisher.send(3, PING)
    publisher.send(4, COMMIT)
    return [publisher.answers(), js.state("FASTPING")["messages"]]


@catalogue.case("js.fast.ping-gap")
def ping_gap(session: Session) -> Observation:
    """A ping with a sequence that has not come tells a gap, which ends a batch without gaps."""
    js = fast(session, "FASTPINGGAP")
    publisher = FastBatch(js, "FASTPINGGAP")
    publisher.send(1, START)
    publisher.send(4, PING)
    publisher.send(2, APPEND)
    return publisher.answers()


@catalogue.case("js.fast.ping-gap-ok")
def ping_gap_ok(session: Session) -> Observation:
    """With gaps allowed it goes on behind the gap."""
    js = fast(session, "FASTPINGOK")
    publisher = FastBatch(js, "FASTPINGOK", gap="ok")
    publisher.send(1, START)
    publisher.send(4, PING)
    publisher.send(5, APPEND)
    publisher.send(6, COMMIT)
    return [publisher.answers(), js.state("FASTPINGOK")["messages"] - 1]


@catalogue.case("js.fast.gap-fail")
def gap_fail(session: Session) -> Observation:
    """A gap is reported and ends the batch: the messages before it are acked as the whole."""
    js = fast(session, "FASTGAP")
    publisher = FastBatch(js, "FASTGAP")
    publisher.send(1, START, "one")
    publisher.send(2, APPEND, "two")
    publisher.send(4, APPEND, "four")
    publisher.send(5, COMMIT, "five")
    return [publisher.answers(), contents(js, "FASTGAP")]


@catalogue.case("js.fast.gap-ok")
def gap_ok(session: Session) -> Observation:
    """Gaps that are allowed are reported and the batch goes on; its count is its last number."""
    js = fast(session, "FASTGAPOK")
    publisher = FastBatch(js, "FASTGAPOK", gap="ok")
    publisher.send(1, START, "one")
    publisher.send(4, APPEND, "four")
    publisher.send(7, COMMIT, "seven")
    return [publisher.answers(), contents(js, "FASTGAPOK")]


@catalogue.case("js.fast.backwards")
def backwards(session: Session) -> Observation:
    """A sequence that comes again ends the batch, also where gaps are allowed."""
    js = fast(session, "FASTBACK")
    seen: list[Observation] = []
    for gap in ("fail", "ok"):
        publisher = FastBatch(js, "FASTBACK", gap=gap)
        publisher.send(1, START)
        publisher.send(2, APPEND)
        publisher.send(2, APPEND)
        publisher.send(3, APPEND)
        seen.append(publisher.answers())
    return seen


@catalogue.case("js.fast.disabled", text="batch publish is disabled")
def disabled(session: Session) -> Observation:
    """A stream that does not allow fast batches refuses them, malformed ones in the same words."""
    js = fast(session, "FASTNO", allow_batched=False)
    publisher = FastBatch(js, "FASTNO")
    publisher.send(1, START)
    publisher.send("x", "y")
    return publisher.answers()


@catalogue.case("js.fast.pattern", text="batch publish pattern is invalid")
def pattern(session: Session) -> Observation:
    """The words of the reply subject have to be right, each of them."""
    js = fast(session, "FASTWORDS")
    publisher = FastBatch(js, "FASTWORDS")
    wrong = ((0, START), (2, START), (1, APPEND), (1, COMMIT_EOB), (1, 5), (1, "x"), ("x", 0))
    for seq, operation in (*wrong, (2**64 - 1, APPEND), (1, "-1"), ("", START)):
        publisher.send(seq, operation)
    FastBatch(js, "FASTWORDS", gap="maybe").send(1, START)
    for reply in ("$FI", "0.$FI", "1.0.$FI", "fail.1.0.$FI", "10.fail.1.0.$FI"):
        js.wire.send(f"PUB FASTWORDS fast.{reply} 1\r\nx\r\n")
    return publisher.answers()


@catalogue.case("js.fast.id-too-long", text="batch publish ID is invalid")
def id_too_long(session: Session) -> Observation:
    """The id of a fast batch has at most 64 bytes too."""
    js = fast(session, "FASTID")
    for size in (ID_BYTES_MAX, ID_BYTES_MAX + 1):
        publisher = FastBatch(js, "FASTID", "i" * size)
        publisher.send(1, COMMIT)
    return publisher.answers()


@catalogue.case("js.fast.unknown", text="batch publish ID unknown")
def unknown(session: Session) -> Observation:
    """A message of a batch that has not begun is refused, and so is one after the commit."""
    js = fast(session, "FASTLOST")
    publisher = FastBatch(js, "FASTLOST")
    for seq, operation in ((2, APPEND), (2, COMMIT), (2, COMMIT_EOB), (2, PING)):
        publisher.send(seq, operation)
    publisher.send(1, COMMIT)
    publisher.send(2, APPEND)
    return publisher.answers()


@catalogue.case("js.fast.too-many", setup=ONE_AT_A_TIME, text="batch publish too many inflight")
def too_many(session: Session) -> Observation:
    """The server's limit of batches in flight holds for fast ones too."""
    js = fast(session, "FASTMANY")
    first, second = FastBatch(js, "FASTMANY", "first"), FastBatch(js, "FASTMANY", "second")
    first.send(1, START)
    second.send(1, START)
    first.send(2, COMMIT)
    second.send(1, COMMIT)
    return second.answers()


@catalogue.case("js.fast.abandoned", setup=SHORT_LIVED)
def abandoned(session: Session) -> Observation:
    """A batch that does not go on is forgotten; its stored messages stay."""
    js = fast(session, "FASTLEFT")
    first, second = FastBatch(js, "FASTLEFT", "first"), FastBatch(js, "FASTLEFT", "second")
    first.send(1, START, "one")
    first.answers()

    def is_forgotten() -> bool:
        second.send(1, COMMIT, "two")
        return "too many inflight" not in str(second.answers())

    js.wait_until(is_forgotten)
    first.send(2, APPEND, "three")
    return [first.answers(), stored(js, "FASTLEFT", 1)]


@catalogue.case("js.fast.error-at-the-start")
def error_at_start(session: Session) -> Observation:
    """An error of the first message is answered as for a plain publish, after the flow."""
    js = fast(session, "FASTBAD")
    publisher = FastBatch(js, "FASTBAD")
    publisher.send(1, START, Nats_Expected_Stream="OTHER")
    publisher.send(2, APPEND)
    return [publisher.answers(), js.state("FASTBAD")["messages"]]


@catalogue.case("js.fast.error-at-the-start-gap-ok")
def error_at_start_gap_ok(session: Session) -> Observation:
    """With gaps allowed the error has its own form, and the batch goes on."""
    js = fast(session, "FASTBADOK")
    publisher = FastBatch(js, "FASTBADOK", gap="ok")
    publisher.send(1, START, "one", Nats_Expected_Stream="OTHER")
    publisher.send(2, APPEND, "two")
    publisher.send(3, COMMIT, "three")
    return [publisher.answers(), contents(js, "FASTBADOK")]


@catalogue.case("js.fast.error-later")
def error_later(session: Session) -> Observation:
    """A later error has its sequence and ends the batch with an ack of the stored messages."""
    js = fast(session, "FASTWORSE")
    publisher = FastBatch(js, "FASTWORSE")
    publisher.send(1, START, "one")
    publisher.send(2, APPEND, "two", Nats_Expected_Last_Sequence="9")
    publisher.send(3, APPEND, "three")
    return [publisher.answers(), contents(js, "FASTWORSE")]


@catalogue.case("js.fast.error-later-gap-ok")
def error_later_gap_ok(session: Session) -> Observation:
    """With gaps allowed only that message is missing."""
    js = fast(session, "FASTWORSEOK")
    publisher = FastBatch(js, "FASTWORSEOK", gap="ok")
    publisher.send(1, START, "one")
    publisher.send(2, APPEND, "two", Nats_Rollup="sub")
    publisher.send(3, COMMIT, "three")
    return [publisher.answers(), contents(js, "FASTWORSEOK")]


@catalogue.case("js.fast.error-at-commit")
def error_at_commit(session: Session) -> Observation:
    """An error of the commit is sent, and the stored messages are acked."""
    js = fast(session, "FASTLAST")
    seen: list[Observation] = []
    for gap in ("fail", "ok"):
        publisher = FastBatch(js, "FASTLAST", gap=gap)
        publisher.send(1, START, "one")
        publisher.send(2, COMMIT, "two", Nats_TTL="1")
        seen.append(publisher.answers())
    return seen


@catalogue.case("js.fast.duplicate")
def duplicate(session: Session) -> Observation:
    """A duplicate in a batch is skipped silently, and counted."""
    js = fast(session, "FASTDUP")
    publisher = FastBatch(js, "FASTDUP")
    publisher.send(1, START, "one", Nats_Msg_Id="a")
    publisher.send(2, APPEND, "two", Nats_Msg_Id="a")
    publisher.send(3, COMMIT, "three", Nats_Msg_Id="b")
    return [publisher.answers(), contents(js, "FASTDUP")]


@catalogue.case("js.fast.duplicate-commit")
def duplicate_commit(session: Session) -> Observation:
    """A duplicate that commits still commits."""
    js = fast(session, "FASTDUPEND")
    publisher = FastBatch(js, "FASTDUPEND")
    publisher.send(1, START, "one", Nats_Msg_Id="a")
    publisher.send(2, COMMIT, "two", Nats_Msg_Id="a")
    return [publisher.answers(), contents(js, "FASTDUPEND")]


@catalogue.case("js.fast.duplicate-of-one")
def duplicate_of_one(session: Session) -> Observation:
    """A batch of one that is a duplicate is acked as one, with the batch."""
    js = fast(session, "FASTDUPONE")
    js.ack_text("FASTDUPONE", "x", {"Nats-Msg-Id": "a"})
    publisher = FastBatch(js, "FASTDUPONE")
    publisher.send(1, COMMIT, "one", Nats_Msg_Id="a")
    return publisher.answers()


@catalogue.case("js.fast.api-level")
def api_level(session: Session) -> Observation:
    """A level that is not met ends the batch; one that is met is not stored."""
    js = fast(session, "FASTLEVEL")
    publisher = FastBatch(js, "FASTLEVEL")
    publisher.send(1, START, "one", Nats_Required_Api_Level="4")
    publisher.send(2, APPEND, "two", Nats_Required_Api_Level="99")
    publisher.send(3, APPEND, "three")
    return [publisher.answers(), contents(js, "FASTLEVEL")]


@catalogue.case("js.fast.no-ack")
def no_ack(session: Session) -> Observation:
    """A stream without acks does not answer the start; flow, gaps and the end it does tell."""
    js = fast(session, "FASTQUIET", no_ack=True)
    publisher = FastBatch(js, "FASTQUIET", flow=2)
    publisher.send(1, START)
    publisher.send(2, APPEND)
    publisher.send(4, APPEND)
    return [js.wire.take(3), js.state("FASTQUIET")["messages"]]


@catalogue.case("js.fast.async")
def persist_async(session: Session) -> Observation:
    """A stream that persists later takes fast batches."""
    js = fast(session, "FASTASYNC", persist_mode="async")
    publisher = FastBatch(js, "FASTASYNC")
    publisher.send(1, START, "one")
    publisher.send(2, COMMIT, "two")
    return [publisher.answers(), contents(js, "FASTASYNC")]


@catalogue.case("js.fast.wins-over-atomic")
def wins_over_atomic(session: Session) -> Observation:
    """A message that is of a fast batch by its reply is of no atomic one by its headers."""
    js = fast(session, "FASTBOTH", allow_atomic=True)
    publisher = FastBatch(js, "FASTBOTH")
    publisher.send(1, COMMIT, "x", Nats_Batch_Id="a", Nats_Batch_Sequence="1")
    return [publisher.answers(), contents(js, "FASTBOTH")]


@catalogue.case("js.fast.full-stream")
def full_stream(session: Session) -> Observation:
    """A full stream ends a batch where it is met."""
    js = fast(session, "FASTFULL", max_msgs=2, discard="new")
    publisher = FastBatch(js, "FASTFULL")
    publisher.send(1, START)
    publisher.send(2, APPEND)
    publisher.send(3, APPEND)
    publisher.send(4, COMMIT)
    return publisher.answers()


@catalogue.case("js.fast.message-size")
def message_size(session: Session) -> Observation:
    """A message that is too large is refused as a plain one and does not count."""
    js = fast(session, "FASTSIZE", max_msg_size=10)
    publisher = FastBatch(js, "FASTSIZE")
    publisher.send(1, START)
    publisher.send(2, APPEND, "x" * 11)
    publisher.send(2, COMMIT)
    return publisher.answers()
