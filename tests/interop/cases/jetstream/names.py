"""STREAM.NAMES and STREAM.LIST: which streams there are, by page and by subject.

Other cases leave streams behind, so a list is asked for by subject or on a server of its own.
"""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

NAMES_PAGE = 1024
LIST_PAGE = 256


def three(session: Session, prefix: str) -> JetStreamClient:
    """Three streams, created out of order, that share the first token of their subjects."""
    names = [f"{prefix}-{letter}" for letter in "CAB"]
    js = jetstream(session, *names)
    for name in names:
        js.create(name, subjects=[f"{prefix}.{name[-1]}.>", f"{prefix}.x.{name[-1]}"])
    return js


@catalogue.case("js.names.none", own_server=True)
def none(session: Session) -> Observation:
    """Without streams the names are null and the list is empty."""
    js = jetstream(session)
    return {"names": js.api("STREAM.NAMES"), "list": js.api("STREAM.LIST")}


@catalogue.case("js.names.sorted", own_server=True)
def in_order(session: Session) -> Observation:
    """Names come in order, whatever the order of creation."""
    return three(session, "ORDERED").api("STREAM.NAMES")


@catalogue.case("js.names.by-subject")
def by_subject(session: Session) -> Observation:
    """A subject selects the streams with a subject that it matches or that matches it."""
    js = three(session, "BYSUB")
    subjects = (
        "BYSUB.>",
        "BYSUB.A.1",
        "BYSUB.*.1.2",
        "BYSUB.x.*",
        "BYSUB.x.B",
        "BYSUB.A",
        "BYSUB.A.>",
        "bysub.A.1",
        "BYSUB..1",
    )
    return {subject: js.api("STREAM.NAMES", {"subject": subject}) for subject in subjects}


@catalogue.case("js.names.offset")
def names_offset(session: Session) -> Observation:
    """An offset skips names; past the end it is the total, below zero it is zero."""
    js = three(session, "SKIP")
    return {
        str(offset): js.api("STREAM.NAMES", {"subject": "SKIP.>", "offset": offset})
        for offset in (0, 1, 3, 4, 100, -1)
    }


@catalogue.case("js.list.by-subject")
def list_by_subject(session: Session) -> Observation:
    """A list has the configuration and state of each stream, without the server's version."""
    js = three(session, "LISTED")
    js.fill("LISTED.A.1", "LISTED.A.2")
    js.api("STREAM.MSG.DELETE.LISTED-A", {"seq": 1})
    return js.api("STREAM.LIST", {"subject": "LISTED.>"})


@catalogue.case("js.list.offset")
def list_offset(session: Session) -> Observation:
    """An offset skips streams of a list; past the end the list is empty."""
    js = three(session, "LISTSKIP")
    return {
        str(offset): js.api("STREAM.LIST", {"subject": "LISTSKIP.>", "offset": offset})
        for offset in (2, 3, 7, -3)
    }


@catalogue.case("js.list.no-match")
def list_no_match(session: Session) -> Observation:
    """A subject no stream has makes null of the names and an empty list of the list."""
    js = jetstream(session)
    body = {"subject": "nobody.has.this"}
    return {"names": js.api("STREAM.NAMES", body), "list": js.api("STREAM.LIST", body)}


@catalogue.case("js.list.metadata")
def list_metadata(session: Session) -> Observation:
    """A list shows the metadata that is stored: the client's own and the level it requires."""
    js = jetstream(session, "LIST-META")
    js.create("LIST-META", metadata={"mine": "1"}, allow_msg_ttl=True)
    page = js.api("STREAM.LIST", {"subject": "LIST-META"})
    return [stream["config"]["metadata"] for stream in page["streams"]]


@catalogue.case("js.names.page", own_server=True)
def pages(session: Session) -> Observation:
    """A page has at most 1024 names, or 256 streams; the rest is asked for by offset."""
    js = jetstream(session)
    for index in range(NAMES_PAGE + 2):
        name = f"P{index:04}"
        js.api(f"STREAM.CREATE.{name}", {"name": name, "storage": "memory"})
    names, rest = js.api("STREAM.NAMES"), js.api("STREAM.NAMES", {"offset": NAMES_PAGE})
    listed = js.api("STREAM.LIST", {"offset": 10})
    last = js.api("STREAM.LIST", {"offset": 4 * LIST_PAGE})
    return {
        "names": {**names, "streams": [len(names["streams"]), names["streams"][-1]]},
        "rest": rest,
        "listed": [listed["total"], listed["offset"], listed["limit"], len(listed["streams"])],
        "first listed": listed["streams"][0]["config"]["name"],
        "last": [stream["config"]["name"] for stream in last["streams"]],
    }
