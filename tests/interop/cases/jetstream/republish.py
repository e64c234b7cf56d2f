"""Republishing: what a stream has stored is published again, with where it is to be found."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, subject_of
from tests.interop.messages import contents, new_stream, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def republishing(session: Session, name: str, **republish: object) -> JetStreamClient:
    """A client and its stream, which republishes all it stores to `again.<stream>.>`."""
    chosen = {"src": f"{name}.>", "dest": f"again.{name}.>", **republish}
    return with_stream(session, name, republish=chosen)


@catalogue.case("js.republish.message")
def message(session: Session) -> Observation:
    """The message is published to the new subject with stream, subject, sequence and time."""
    js = republishing(session, "AGAIN")
    watch = js.watch(session, "again.AGAIN.>")
    js.ack_text("AGAIN.a", "one")
    return watch.take(1)


@catalogue.case("js.republish.headers")
def headers(session: Session) -> Observation:
    """The message's own headers come first."""
    js = republishing(session, "AGAINHEAD")
    watch = js.watch(session, "again.AGAINHEAD.>")
    js.ack_text("AGAINHEAD.a", "one", {"A": "1", "Nats-Msg-Id": "x"})
    return watch.take(1)


@catalogue.case("js.republish.last-sequence")
def last_sequence(session: Session) -> Observation:
    """The last sequence is that of the message before it on its subject, or zero."""
    js = republishing(session, "AGAINLAST")
    watch = js.watch(session, "again.AGAINLAST.>")
    seen = []
    for subject in ("AGAINLAST.a", "AGAINLAST.b", "AGAINLAST.a", "AGAINLAST.a"):
        js.fill(subject)
        seen += watch.take(1)
    return seen


@catalogue.case("js.republish.last-sequence-after-purge")
def last_sequence_after_purge(session: Session) -> Observation:
    """A subject that was purged has no message before."""
    js = republishing(session, "AGAINGONE")
    watch = js.watch(session, "again.AGAINGONE.>")
    js.fill("AGAINGONE.a")
    js.api("STREAM.PURGE.AGAINGONE")
    js.fill("AGAINGONE.a")
    return watch.take(2)


@catalogue.case("js.republish.headers-only")
def headers_only(session: Session) -> Observation:
    """With `headers_only` the payload is replaced by its size."""
    js = republishing(session, "AGAINSIZE", headers_only=True)
    watch = js.watch(session, "again.AGAINSIZE.>")
    js.ack_text("AGAINSIZE.a", "12345")
    js.ack_text("AGAINSIZE.b", "", {"A": "1"})
    return watch.take(2)


@catalogue.case("js.republish.before-the-ack")
def before_the_ack(session: Session) -> Observation:
    """A publisher that listens sees the republished message before the ack."""
    js = republishing(session, "AGAINFIRST")
    js.wire.exchange("SUB again.AGAINFIRST.> 2\r\n")
    js.send("AGAINFIRST.a", "one")
    return [subject_of(frame) for frame in js.wire.take(2)]


@catalogue.case("js.republish.filter")
def source_filter(session: Session) -> Observation:
    """Only messages that match the source are republished."""
    js = republishing(session, "AGAINSOME", src="AGAINSOME.yes.>", dest="again.AGAINSOME.>")
    watch = js.watch(session, "again.AGAINSOME.>")
    js.fill("AGAINSOME.no.a", "AGAINSOME.yes.b")
    return watch.take(1)


@catalogue.case("js.republish.mapping")
def mapping(session: Session) -> Observation:
    """The destination may take the source's tokens in another order."""
    js = republishing(
        session, "AGAINMAP", src="AGAINMAP.*.*", dest="again.AGAINMAP.{{wildcard(2)}}.$1"
    )
    watch = js.watch(session, "again.AGAINMAP.>")
    js.fill("AGAINMAP.a.b")
    return watch.take(1)


@catalogue.case("js.republish.refused-is-not")
def refused_is_not(session: Session) -> Observation:
    """A message that is refused or a duplicate is not republished."""
    js = republishing(session, "AGAINNOT")
    watch = js.watch(session, "again.AGAINNOT.>")
    js.ack_text("AGAINNOT.a", "one", {"Nats-Msg-Id": "x"})
    js.ack_text("AGAINNOT.a", "two", {"Nats-Msg-Id": "x"})
    js.ack_text("AGAINNOT.a", "three", {"Nats-Expected-Last-Sequence": "9"})
    js.ack_text("AGAINNOT.b", "four")
    return watch.take(2)


@catalogue.case("js.republish.into-a-stream")
def into_a_stream(session: Session) -> Observation:
    """Another stream may store republished messages."""
    js = republishing(session, "AGAINFROM")
    new_stream(js, "AGAININTO", subjects=["again.AGAINFROM.>"], allow_direct=True)
    js.fill("AGAINFROM.a")
    js.state_when("AGAININTO", "messages", 1)
    return js.direct("AGAININTO", {"seq": 1})


@catalogue.case("js.republish.rollup")
def rollup(session: Session) -> Observation:
    """A rollup is republished as any message."""
    js = with_stream(
        session,
        "AGAINROLL",
        allow_rollup_hdrs=True,
        republish={"src": ">", "dest": "again.>"},
    )
    watch = js.watch(session, "again.AGAINROLL.>")
    js.fill("AGAINROLL.a")
    js.ack_text("AGAINROLL.a", "sum", {"Nats-Rollup": "sub"})
    return [watch.take(2), contents(js, "AGAINROLL")]


@catalogue.case("js.republish.batch")
def batch(session: Session) -> Observation:
    """Messages of a batch are republished when it commits."""
    js = with_stream(
        session, "AGAINBATCH", allow_atomic=True, republish={"src": ">", "dest": "again.>"}
    )
    watch = js.watch(session, "again.AGAINBATCH.>")
    js.ack_text("AGAINBATCH.a", "1", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
    last = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    js.ack_text("AGAINBATCH.b", "2", last)
    return watch.take(2)


@catalogue.case("js.republish.removed")
def removed(session: Session) -> Observation:
    """An update without it ends republishing."""
    js = republishing(session, "AGAINEND")
    watch = js.watch(session, "again.AGAINEND.>")
    js.fill("AGAINEND.a")
    js.update("AGAINEND")
    js.fill("AGAINEND.b")
    js.update("AGAINEND", republish={"src": ">", "dest": "again.>"})
    js.fill("AGAINEND.c")
    return watch.take(2)
