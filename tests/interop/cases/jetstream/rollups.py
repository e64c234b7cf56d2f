"""Rollups: a message that takes the place of those before it."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM
from tests.interop.messages import acks_of_one_write, contents, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

SUBJECT = {"Nats-Rollup": "sub"}
ALL = {"Nats-Rollup": "all"}

catalogue = Catalogue(JETSTREAM)


@catalogue.case("js.rollup.subject")
def subject(session: Session) -> Observation:
    """`sub` removes the earlier messages of its subject; the header is stored."""
    js = with_stream(session, "ROLLSUB", allow_rollup_hdrs=True)
    js.fill("ROLLSUB.a", "ROLLSUB.b", "ROLLSUB.a")
    ack = js.ack_text("ROLLSUB.a", "sum", SUBJECT)
    return [ack, contents(js, "ROLLSUB"), js.state("ROLLSUB", deleted_details=True)]


@catalogue.case("js.rollup.all")
def whole_stream(session: Session) -> Observation:
    """`all` removes everything before the message."""
    js = with_stream(session, "ROLLALL", allow_rollup_hdrs=True)
    js.fill("ROLLALL.a", "ROLLALL.b", "ROLLALL.a")
    return [js.ack_text("ROLLALL.c", "sum", ALL), contents(js, "ROLLALL"), js.state("ROLLALL")]


@catalogue.case("js.rollup.first-message")
def first_message(session: Session) -> Observation:
    """A rollup may be the first message, of its subject or of the stream."""
    js = with_stream(session, "ROLLFIRST", allow_rollup_hdrs=True)
    acks = [js.ack_text("ROLLFIRST.a", "", ALL), js.ack_text("ROLLFIRST.b", "", SUBJECT)]
    return [acks, contents(js, "ROLLFIRST")]


@catalogue.case("js.rollup.case")
def case(session: Session) -> Observation:
    """The value may be in any case, and is stored as it came."""
    js = with_stream(session, "ROLLCASE", allow_rollup_hdrs=True)
    js.fill("ROLLCASE")
    return [js.ack_text("ROLLCASE", "", {"Nats-Rollup": "SuB"}), contents(js, "ROLLCASE")]


@catalogue.case("js.rollup.invalid", text='rollup value invalid: \\"some\\"')
def invalid(session: Session) -> Observation:
    """Any other value is refused, named in small letters; an empty one is none."""
    js = with_stream(session, "ROLLBAD", allow_rollup_hdrs=True)
    js.fill("ROLLBAD")
    values = ("Some", "sub ", "", 'a"b')
    acks = [js.ack_text("ROLLBAD", "", {"Nats-Rollup": value}) for value in values]
    return [acks, js.state("ROLLBAD")["messages"]]


@catalogue.case("js.rollup.not-permitted", text="rollup not permitted")
def not_permitted(session: Session) -> Observation:
    """A stream without `allow_rollup_hdrs` refuses rollups, good values and bad ones alike."""
    js = with_stream(session, "ROLLNO")
    return [js.ack_text("ROLLNO", "", {"Nats-Rollup": value}) for value in ("sub", "all", "some")]


@catalogue.case("js.rollup.deletes-denied")
def deletes_denied(session: Session) -> Observation:
    """A stream that denies deletes still rolls up."""
    js = with_stream(session, "ROLLDENY", allow_rollup_hdrs=True, deny_delete=True)
    js.fill("ROLLDENY")
    return [js.ack_text("ROLLDENY", "", SUBJECT), contents(js, "ROLLDENY")]


@catalogue.case("js.rollup.refused-removes-nothing")
def refused_removes_nothing(session: Session) -> Observation:
    """A rollup whose expectation fails removes nothing."""
    js = with_stream(session, "ROLLEXP", allow_rollup_hdrs=True)
    js.fill("ROLLEXP", "ROLLEXP")
    wrong = {"Nats-Expected-Last-Sequence": "1", **ALL}
    right = {"Nats-Expected-Last-Sequence": "2", **ALL}
    seen = [js.ack_text("ROLLEXP", "", wrong), js.state("ROLLEXP")["messages"]]
    return [*seen, js.ack_text("ROLLEXP", "", right), js.state("ROLLEXP")["messages"]]


@catalogue.case("js.rollup.full-stream")
def full_stream(session: Session) -> Observation:
    """A full stream refuses a rollup too: it is stored before it removes."""
    js = with_stream(session, "ROLLFULL", allow_rollup_hdrs=True, max_msgs=1, discard="new")
    js.fill("ROLLFULL")
    return [js.ack_text("ROLLFULL", "", ALL), js.state("ROLLFULL")["last_seq"]]


@catalogue.case("js.rollup.one-write")
def one_write(session: Session) -> Observation:
    """In one write a rollup removes the messages before it and not those after."""
    js = with_stream(session, "ROLLWRITE", allow_rollup_hdrs=True)
    acks = acks_of_one_write(
        js,
        ("ROLLWRITE.a", "1", ()),
        ("ROLLWRITE.b", "2", ()),
        ("ROLLWRITE.a", "3", SUBJECT),
        ("ROLLWRITE.a", "4", ()),
    )
    return [acks, contents(js, "ROLLWRITE")]


@catalogue.case("js.rollup.interest")
def interest(session: Session) -> Observation:
    """A rollup without interest is acknowledged and not stored, as any message."""
    js = with_stream(session, "ROLLINT", allow_rollup_hdrs=True, retention="interest")
    return [js.ack_text("ROLLINT", "", SUBJECT), js.state("ROLLINT")]


@catalogue.case("js.rollup.subject-like-a-wildcard")
def subject_like_a_wildcard(session: Session) -> Observation:
    """A literal subject that looks like a wildcard rolls up its matches."""
    js = with_stream(session, "ROLLWILD", allow_rollup_hdrs=True)
    js.fill("ROLLWILD.a", "ROLLWILD.b")
    return [js.ack_text("ROLLWILD.*", "", SUBJECT), contents(js, "ROLLWILD")]
