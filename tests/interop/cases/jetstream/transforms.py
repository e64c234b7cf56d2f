"""Subject transforms: a stream stores messages under other subjects than they came with."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.messages import contents, new_stream, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def transforming(
    session: Session, name: str, source: str, destination: str, **config: object
) -> JetStreamClient:
    """A client and its stream; source and destination stand below the stream's name."""
    transform = {"src": f"{name}.{source}", "dest": f"{name}.{destination}"}
    return with_stream(session, name, subject_transform=transform, **config)


@catalogue.case("js.transform.subject")
def subject(session: Session) -> Observation:
    """The stored subject is the transformed one; the ack tells nothing of it."""
    js = transforming(session, "MAP", "*.*", "to.{{wildcard(2)}}.{{wildcard(1)}}")
    return [js.ack_text("MAP.a.b", "x"), contents(js, "MAP")]


@catalogue.case("js.transform.no-match")
def no_match(session: Session) -> Observation:
    """A message whose subject does not match is stored as it came."""
    js = transforming(session, "MAPNOT", "from.*", "to.{{wildcard(1)}}")
    js.fill("MAPNOT.other.a", "MAPNOT.from.a", "MAPNOT.from.a.b")
    return contents(js, "MAPNOT")


@catalogue.case("js.transform.functions")
def functions(session: Session) -> Observation:
    """Destinations may split, slice, cut and count."""
    functions = {
        "MAPSPLIT": "{{split(1,-)}}",
        "MAPSPLITAT": "{{splitfromleft(1,2)}}",
        "MAPSPLITEND": "{{splitfromright(1,2)}}",
        "MAPSLICE": "{{slicefromleft(1,2)}}",
        "MAPSLICEEND": "{{slicefromright(1,2)}}",
        "MAPLEFT": "{{left(1,3)}}",
        "MAPRIGHT": "{{right(1,3)}}",
        "MAPPART": "{{partition(10,1)}}.$1",
    }
    js = jetstream(session)
    for name, function in functions.items():
        transform = {"src": f"{name}.*", "dest": f"{name}.to.{function}"}
        new_stream(js, name, subject_transform=transform)
        js.fill(f"{name}.ab-cd-e")
    return [contents(js, name) for name in functions]


@catalogue.case("js.transform.expected-subject")
def expected_subject(session: Session) -> Observation:
    """The expected last sequence of the subject is that of the stored subject."""
    js = transforming(session, "MAPEXP", "*", "one")
    expect = "Nats-Expected-Last-Subject-Sequence"
    return [
        js.ack_text("MAPEXP.a", "", {expect: "0"}),
        js.ack_text("MAPEXP.b", "", {expect: "0"}),
        js.ack_text("MAPEXP.b", "", {expect: "1"}),
    ]


@catalogue.case("js.transform.rollup")
def rollup(session: Session) -> Observation:
    """A rollup removes the messages of the stored subject."""
    js = transforming(session, "MAPROLL", "*", "one", allow_rollup_hdrs=True)
    js.fill("MAPROLL.a", "MAPROLL.b")
    js.ack_text("MAPROLL.c", "sum", {"Nats-Rollup": "sub"})
    return contents(js, "MAPROLL")


@catalogue.case("js.transform.per-subject")
def per_subject(session: Session) -> Observation:
    """Limits per subject hold for the stored subject."""
    js = transforming(session, "MAPPER", "*", "one", max_msgs_per_subject=1)
    js.fill("MAPPER.a", "MAPPER.b", "MAPPER.c")
    return [contents(js, "MAPPER"), js.state("MAPPER", subjects_filter=">")]


@catalogue.case("js.transform.outside")
def outside(session: Session) -> Observation:
    """The stored subject need not be one of the stream's."""
    js = with_stream(session, "MAPOUT", subject_transform={"src": "MAPOUT.>", "dest": "far.>"})
    js.fill("MAPOUT.a.b")
    return contents(js, "MAPOUT")


@catalogue.case("js.transform.republish")
def republish(session: Session) -> Observation:
    """Republishing begins with the stored subject."""
    js = transforming(
        session, "MAPTHEN", "*", "to.{{wildcard(1)}}", republish={"src": ">", "dest": "again.>"}
    )
    watch = js.watch(session, "again.MAPTHEN.>")
    js.fill("MAPTHEN.a")
    return watch.take(1)


@catalogue.case("js.transform.batch")
def batch(session: Session) -> Observation:
    """Batches are checked and stored under the stored subjects."""
    js = transforming(session, "MAPBATCH", "*", "one", allow_atomic=True, allow_rollup_hdrs=True)
    first = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"}
    last = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    acks = [js.ack_text("MAPBATCH.a", "1", first)]
    acks.append(js.ack_text("MAPBATCH.b", "2", {**last, "Nats-Rollup": "sub"}))
    acks.append(js.ack_text("MAPBATCH.a", "1", {**first, "Nats-Rollup": "sub"}))
    acks.append(js.ack_text("MAPBATCH.b", "2", last))
    return [acks, contents(js, "MAPBATCH")]


@catalogue.case("js.transform.updated")
def updated(session: Session) -> Observation:
    """An update changes the messages to come, not the stored ones."""
    js = transforming(session, "MAPNEW", "*", "one")
    js.fill("MAPNEW.a")
    js.update("MAPNEW", subject_transform={"src": "MAPNEW.*", "dest": "MAPNEW.two"})
    js.fill("MAPNEW.a")
    js.update("MAPNEW")
    js.fill("MAPNEW.a")
    return contents(js, "MAPNEW")
