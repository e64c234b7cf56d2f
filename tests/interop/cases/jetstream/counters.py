"""Counters: streams whose messages are increments and whose payloads are sums."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient
from tests.interop.messages import acks_of_one_write, contents, restarted, stored, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def incr(value: str) -> dict[str, str]:
    return {"Nats-Incr": value}


def counters(session: Session, name: str, **config: object) -> JetStreamClient:
    return with_stream(session, name, allow_msg_counter=True, **config)


@catalogue.case("js.counter.ack")
def ack(session: Session) -> Observation:
    """The ack of an increment has the sum, as text; the sum is stored."""
    js = counters(session, "COUNT")
    acks = [js.ack_text("COUNT.a", "", incr(value)) for value in ("1", "41", "+8", "-60", "0")]
    return [acks, contents(js, "COUNT")]


@catalogue.case("js.counter.per-subject")
def per_subject(session: Session) -> Observation:
    """Every subject counts for itself."""
    js = counters(session, "COUNTSUBJ")
    return [js.ack_text(f"COUNTSUBJ.{name}", "", incr("2")) for name in "abab"]


@catalogue.case("js.counter.big")
def big(session: Session) -> Observation:
    """Numbers have no largest."""
    js = counters(session, "COUNTBIG")
    values = (str(2**64), str(2**200), f"-{10**80}", "000012", "-0")
    return [js.ack_text("COUNTBIG", "", incr(value)) for value in values]


@catalogue.case("js.counter.invalid", text="message counter increment is invalid")
def invalid(session: Session) -> Observation:
    """An increment is a whole number in digits."""
    js = counters(session, "COUNTBAD")
    values = ("x", "1.0", "1e3", "0x10", "1_000", "1 ", "--1", "+-1", "+", "-")
    return [js.ack_text("COUNTBAD", "", incr(value)) for value in values]


@catalogue.case("js.counter.missing", text="message counter increment is missing")
def missing(session: Session) -> Observation:
    """A counter stream takes nothing but increments."""
    js = counters(session, "COUNTMISS")
    return [
        js.ack_text("COUNTMISS", "x"),
        js.ack_text("COUNTMISS", "", {"A": "b"}),
        js.ack_text("COUNTMISS", "", incr("")),
    ]


@catalogue.case("js.counter.payload", text="message counter has payload")
def payload(session: Session) -> Observation:
    """An increment has no payload."""
    return counters(session, "COUNTPAY").ack_text("COUNTPAY", "x", incr("1"))


@catalogue.case("js.counter.disabled", text="message counters is disabled")
def disabled(session: Session) -> Observation:
    """Other streams refuse increments, but a bad one is called invalid there too."""
    js = with_stream(session, "COUNTNO")
    return [
        js.ack_text("COUNTNO", "", incr("1")),
        js.ack_text("COUNTNO", "x", incr("1")),
        js.ack_text("COUNTNO", "", incr("x")),
        js.ack_text("COUNTNO", "", incr("")),
    ]


@catalogue.case("js.counter.other-headers")
def other_headers(session: Session) -> Observation:
    """An increment goes with no rollup and no expectation, met or not."""
    js = counters(session, "COUNTHEAD", allow_rollup_hdrs=True)
    others = {
        "Nats-Rollup": "sub",
        "Nats-Expected-Stream": "COUNTHEAD",
        "Nats-Expected-Last-Msg-Id": "a",
        "Nats-Expected-Last-Sequence": "0",
        "Nats-Expected-Last-Subject-Sequence": "0",
        "Nats-Expected-Last-Subject-Sequence-Subject": "a",
        "X-Other": "1",
    }
    return [
        js.ack_text("COUNTHEAD", "", {name: value, **incr("1")}) for name, value in others.items()
    ]


@catalogue.case("js.counter.msg-id")
def msg_id(session: Session) -> Observation:
    """A repeated message id counts once; the ack of the duplicate has no sum."""
    js = counters(session, "COUNTID")
    return [js.ack_text("COUNTID", "", {"Nats-Msg-Id": "a", **incr("1")}) for _ in range(2)]


@catalogue.case("js.counter.headers-kept")
def headers_kept(session: Session) -> Observation:
    """Headers of an increment are stored, the increment among them."""
    js = counters(session, "COUNTKEEP")
    return [js.ack_text("COUNTKEEP", "", {"A": "b", **incr("+3")}), stored(js, "COUNTKEEP", 1)]


@catalogue.case("js.counter.after-removal")
def after_removal(session: Session) -> Observation:
    """Counting goes on from the last message that is there."""
    js = counters(session, "COUNTGONE")
    acks = [js.ack_text("COUNTGONE.a", "", incr("5")) for _ in range(2)]
    js.api("STREAM.MSG.DELETE.COUNTGONE", {"seq": 2})
    acks.append(js.ack_text("COUNTGONE.a", "", incr("1")))
    js.api("STREAM.PURGE.COUNTGONE")
    return [*acks, js.ack_text("COUNTGONE.a", "", incr("1"))]


@catalogue.case("js.counter.one-per-subject")
def one_per_subject(session: Session) -> Observation:
    """A stream that keeps one message per subject counts as well."""
    js = counters(session, "COUNTONE", max_msgs_per_subject=1)
    acks = [js.ack_text("COUNTONE", "", incr("5")) for _ in range(3)]
    return [acks, contents(js, "COUNTONE")]


@catalogue.case("js.counter.one-write")
def one_write(session: Session) -> Observation:
    """Increments of one write add up."""
    js = counters(session, "COUNTWRITE")
    return acks_of_one_write(js, *(("COUNTWRITE", "", incr(str(n))) for n in range(1, 6)))


@catalogue.case("js.counter.msg-size")
def msg_size(session: Session) -> Observation:
    """The stored sum has to fit into `max_msg_size`, not the increment."""
    headers = "NATS/1.0\r\nNats-Incr: 99\r\n\r\n"
    js = counters(session, "COUNTSIZE", max_msg_size=len(headers) + len('{"val":"99"}'))
    return [js.ack_text("COUNTSIZE", "", incr("99")) for _ in range(2)]


@catalogue.case("js.counter.no-ack")
def no_ack(session: Session) -> Observation:
    """A silent stream counts silently."""
    js = counters(session, "COUNTQUIET", no_ack=True)
    js.send_only("COUNTQUIET", None, incr("2"))
    js.send_only("COUNTQUIET", None, incr("3"))
    js.state_when("COUNTQUIET", "messages", 2)
    return contents(js, "COUNTQUIET")


@catalogue.case("js.counter.memory")
def memory(session: Session) -> Observation:
    """Counters count in memory too."""
    js = counters(session, "COUNTMEM", storage="memory")
    return [js.ack_text("COUNTMEM", "", incr("7")) for _ in range(2)]


@catalogue.case("js.counter.after-restart", own_server=True)
def after_restart(session: Session) -> Observation:
    """Sums outlive a restart."""
    js = counters(session, "COUNTAGAIN")
    acks = [js.ack_text("COUNTAGAIN", "", incr("7"))]
    with restarted(session, JETSTREAM) as later:
        return [*acks, JetStreamClient(later.connect()).ack_text("COUNTAGAIN", "", incr("-2"))]


@catalogue.case("js.counter.transformed")
def transformed(session: Session) -> Observation:
    """Increments are summed by the stored subject, not by the published one."""
    js = counters(
        session, "COUNTMAP", subject_transform={"src": "COUNTMAP.*", "dest": "COUNTMAP.one"}
    )
    acks = [js.ack_text(f"COUNTMAP.{name}", "", incr("1")) for name in "abc"]
    return [acks, contents(js, "COUNTMAP")]
