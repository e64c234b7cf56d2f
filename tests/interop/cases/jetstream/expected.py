"""Expectations: headers that make a publish conditional on the contents of the stream."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM
from tests.interop.messages import acks_of_one_write, contents, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

STREAM = "Nats-Expected-Stream"
LAST = "Nats-Expected-Last-Sequence"
LAST_OF_SUBJECT = "Nats-Expected-Last-Subject-Sequence"
WHICH_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
LAST_ID = "Nats-Expected-Last-Msg-Id"

NO_NUMBERS = ("x", "-1", "+1", "1 ", "1.0", "0x1", "1e0")
PAST_64_BITS = str(2**64 + 1)

catalogue = Catalogue(JETSTREAM)


@catalogue.case("js.expected.stream", text="expected stream does not match")
def stream(session: Session) -> Observation:
    """A publish may name the stream it expects, by its exact name."""
    js = with_stream(session, "EXPSTREAM")
    return [
        js.ack_text("EXPSTREAM", headers={STREAM: name})
        for name in ("EXPSTREAM", "OTHER", "expstream", "")
    ]


@catalogue.case("js.expected.last-sequence", text="wrong last sequence: 2")
def last_sequence(session: Session) -> Observation:
    """A publish may name the stream's last sequence; a refusal tells which it is."""
    js = with_stream(session, "EXPLAST")
    return [js.ack_text("EXPLAST", headers={LAST: seq}) for seq in ("0", "1", "1", "3", "2", "03")]


@catalogue.case("js.expected.last-sequence-of-a-new-stream")
def last_sequence_new_stream(session: Session) -> Observation:
    """A new stream that begins at n has the last sequence n-1."""
    js = with_stream(session, "EXPNEW", first_seq=10)
    return [js.ack_text("EXPNEW", headers={LAST: seq}) for seq in ("0", "9")]


@catalogue.case("js.expected.last-sequence-after-removal")
def last_sequence_after_removal(session: Session) -> Observation:
    """The last sequence counts even when its message was deleted or all were purged."""
    js = with_stream(session, "EXPGONE")
    js.fill("EXPGONE", "EXPGONE")
    js.api("STREAM.MSG.DELETE.EXPGONE", {"seq": 2})
    acks = [js.ack_text("EXPGONE", headers={LAST: seq}) for seq in ("1", "2")]
    js.api("STREAM.PURGE.EXPGONE")
    return [*acks, *(js.ack_text("EXPGONE", headers={LAST: seq}) for seq in ("0", "3"))]


@catalogue.case("js.expected.last-sequence-no-number")
def last_sequence_no_number(session: Session) -> Observation:
    """A value that is not all digits matches no sequence; an empty value expects nothing."""
    js = with_stream(session, "EXPNAN")
    js.fill("EXPNAN")
    return [js.ack_text("EXPNAN", headers={LAST: text}) for text in (*NO_NUMBERS, "")]


@catalogue.case("js.expected.last-sequence-overflow")
def last_sequence_overflow(session: Session) -> Observation:
    """A number past 64 bits is taken modulo 2^64."""
    js = with_stream(session, "EXPOVER")
    js.fill("EXPOVER")
    return js.ack_text("EXPOVER", headers={LAST: PAST_64_BITS})


@catalogue.case("js.expected.last-sequence-one-write")
def last_sequence_one_write(session: Session) -> Observation:
    """In one write each expectation is held against the publishes before it."""
    js = with_stream(session, "EXPWRITE")
    return acks_of_one_write(
        js, *(("EXPWRITE", "x", {LAST: seq}) for seq in ("0", "1", "1", "2", "0", "3"))
    )


@catalogue.case("js.expected.subject-sequence")
def subject_sequence(session: Session) -> Observation:
    """A publish may name the last sequence of its subject; 0 stands for none."""
    js = with_stream(session, "EXPSUBJ")
    return [
        js.ack_text("EXPSUBJ.a", headers={LAST_OF_SUBJECT: "0"}),
        js.ack_text("EXPSUBJ.b", headers={LAST_OF_SUBJECT: "1"}),
        js.ack_text("EXPSUBJ.b", headers={LAST_OF_SUBJECT: "0"}),
        js.ack_text("EXPSUBJ.a", headers={LAST_OF_SUBJECT: "2"}),
        js.ack_text("EXPSUBJ.a", headers={LAST_OF_SUBJECT: "1"}),
        js.ack_text("EXPSUBJ.a", headers={LAST_OF_SUBJECT: "1"}),
        contents(js, "EXPSUBJ"),
    ]


@catalogue.case("js.expected.subject-sequence-no-number")
def subject_sequence_no_number(session: Session) -> Observation:
    """A sequence of the subject that is no number matches none; an empty one expects nothing."""
    js = with_stream(session, "EXPSUBJNAN")
    js.fill("EXPSUBJNAN")
    values = (*NO_NUMBERS, "")
    return [js.ack_text("EXPSUBJNAN", headers={LAST_OF_SUBJECT: text}) for text in values]


@catalogue.case("js.expected.subject-sequence-after-removal")
def subject_sequence_after_removal(session: Session) -> Observation:
    """The last message of the subject that is still there counts."""
    js = with_stream(session, "EXPSUBJGONE")
    js.fill("EXPSUBJGONE.a", "EXPSUBJGONE.a")
    js.api("STREAM.MSG.DELETE.EXPSUBJGONE", {"seq": 2})
    acks = [js.ack_text("EXPSUBJGONE.a", headers={LAST_OF_SUBJECT: seq}) for seq in ("2", "1")]
    js.api("STREAM.PURGE.EXPSUBJGONE", {"filter": "EXPSUBJGONE.a"})
    last = (js.ack_text("EXPSUBJGONE.a", headers={LAST_OF_SUBJECT: seq}) for seq in ("3", "0"))
    return [*acks, *last]


@catalogue.case("js.expected.subject-sequence-of-another")
def subject_sequence_of_another(session: Session) -> Observation:
    """The subject whose last sequence is meant may be named; it need not be the stream's."""
    js = with_stream(session, "EXPWHICH")
    js.fill("EXPWHICH.a", "EXPWHICH.b")

    def ack(seq: str, subject: str) -> str:
        headers = {LAST_OF_SUBJECT: seq, WHICH_SUBJECT: subject}
        return js.ack_text("EXPWHICH.c", headers=headers)

    return [ack("2", "EXPWHICH.a"), ack("1", "EXPWHICH.a"), ack("0", "else"), ack("3", "else")]


@catalogue.case("js.expected.subject-sequence-of-wildcard")
def subject_sequence_of_wildcard(session: Session) -> Observation:
    """A subject with wildcards stands for the last message of all that match."""
    js = with_stream(session, "EXPWILD")
    js.fill("EXPWILD.a.x", "EXPWILD.b.x", "EXPWILD.a.y", "EXPWILD")

    def ack(seq: str, subject: str) -> str:
        headers = {LAST_OF_SUBJECT: seq, WHICH_SUBJECT: subject}
        return js.ack_text("EXPWILD.c", headers=headers)

    return [
        ack("3", "EXPWILD.*.x"),
        ack("2", "EXPWILD.*.x"),
        ack("4", "EXPWILD.a.>"),
        ack("3", "EXPWILD.a.>"),
        ack("0", "EXPWILD.*.z"),
        ack("6", "EXPWILD.>"),
        ack("8", ">"),
    ]


@catalogue.case("js.expected.subject-sequence-of-malformed")
def subject_sequence_of_malformed(session: Session) -> Observation:
    """A malformed subject has no messages."""
    js = with_stream(session, "EXPODD")
    js.fill("EXPODD.a")
    subjects = ("EXPODD..a", "EXPODD.", ".", "EXPODD.> .a", "EXPODD.>.a")
    return [
        js.ack_text("EXPODD.b", headers={LAST_OF_SUBJECT: "0", WHICH_SUBJECT: subject})
        for subject in subjects
    ]


@catalogue.case(
    "js.expected.subject-without-sequence",
    text="missing sequence for expected last sequence per subject",
)
def subject_without_sequence(session: Session) -> Observation:
    """To name the subject without its sequence is an error, also with an empty sequence."""
    js = with_stream(session, "EXPNOSEQ")
    return [
        js.ack_text("EXPNOSEQ", headers={WHICH_SUBJECT: "EXPNOSEQ"}),
        js.ack_text("EXPNOSEQ", headers={WHICH_SUBJECT: "EXPNOSEQ", LAST_OF_SUBJECT: ""}),
        js.ack_text("EXPNOSEQ", headers={WHICH_SUBJECT: ""}),
    ]


@catalogue.case("js.expected.last-id", text="wrong last msg ID: b")
def last_id(session: Session) -> Observation:
    """A publish may name the id of the last message; a refusal tells which it is."""
    js = with_stream(session, "EXPID")
    return [
        js.ack_text("EXPID", headers={"Nats-Msg-Id": "a"}),
        js.ack_text("EXPID", headers={"Nats-Msg-Id": "b", LAST_ID: "a"}),
        js.ack_text("EXPID", headers={LAST_ID: "a"}),
        js.ack_text("EXPID", headers={LAST_ID: "b"}),
        js.ack_text("EXPID", headers={LAST_ID: "b"}),
        js.ack_text("EXPID", headers={LAST_ID: ""}),
    ]


@catalogue.case("js.expected.last-id-of-none")
def last_id_of_none(session: Session) -> Observation:
    """An empty stream has no last id, nor has one whose last message came without."""
    js = with_stream(session, "EXPNOID")
    acks = [js.ack_text("EXPNOID", headers={LAST_ID: "a"})]
    acks += [js.ack_text("EXPNOID", headers={"Nats-Msg-Id": "a"}), js.ack_text("EXPNOID")]
    return [*acks, js.ack_text("EXPNOID", headers={LAST_ID: "a"})]


@catalogue.case("js.expected.last-id-after-removal")
def last_id_after_removal(session: Session) -> Observation:
    """The last id counts when its message was deleted; a duplicate does not change it."""
    js = with_stream(session, "EXPIDGONE")
    for value in ("a", "b", "a"):
        js.ack_text("EXPIDGONE", headers={"Nats-Msg-Id": value})
    js.api("STREAM.MSG.DELETE.EXPIDGONE", {"seq": 2})
    return [js.ack_text("EXPIDGONE", headers={LAST_ID: value}) for value in ("a", "b")]


@catalogue.case("js.expected.order")
def order(session: Session) -> Observation:
    """Of several failed expectations the first is refused: stream, then subject, last, id."""
    js = with_stream(session, "EXPORDER")
    js.fill("EXPORDER.a", "EXPORDER.b")
    failing = {LAST_ID: "q", LAST: "9", LAST_OF_SUBJECT: "9", STREAM: "OTHER"}
    acks = []
    while failing:
        acks.append(js.ack_text("EXPORDER.a", headers=failing))
        failing.popitem()
    return acks


@catalogue.case("js.expected.all-met")
def all_met(session: Session) -> Observation:
    """All expectations together hold; the headers are stored with the message."""
    js = with_stream(session, "EXPALL")
    js.ack_text("EXPALL.a", headers={"Nats-Msg-Id": "x"})
    met = {STREAM: "EXPALL", LAST: "1", LAST_OF_SUBJECT: "1", LAST_ID: "x"}
    return [js.ack_text("EXPALL.a", "two", met), contents(js, "EXPALL")]
