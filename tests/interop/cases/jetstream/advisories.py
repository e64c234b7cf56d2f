"""Advisories: messages of the server about streams and about calls of the API."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import (
    ACCOUNTS,
    DOMAIN,
    EVENTS,
    JETSTREAM,
    JetStreamClient,
    jetstream,
    login,
    subject_of,
)
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

STREAMS = f"{EVENTS}STREAM.>"
AUDIT = f"{EVENTS}API"
DELETES_MAX = 50
"""The most deletions of a stream until an advisory comes; one is nearly always enough."""


@catalogue.case("js.advisory.stream-actions", own_server=True)
def stream_actions(session: Session) -> Observation:
    """Advisories of created and updated streams have the action and the stream's name."""
    js = jetstream(session)
    watch = js.watch(session, STREAMS)
    js.create("TOLD")
    js.update("TOLD", max_msgs=3)
    return watch.take(2)


@catalogue.case("js.advisory.stream-deleted", own_server=True)
def stream_deleted(session: Session) -> Observation:
    """A deleted stream has an advisory; the oracle may forget it in a hurry: it is asked again."""
    js = jetstream(session)
    watch = js.watch(session, STREAMS)
    for _ in range(DELETES_MAX):
        js.create("DOOMED")
        js.api("STREAM.DELETE.DOOMED")
        js.create("FENCE")
        js.update("FENCE")
        while "FENCE" not in (told := watch.next())["subject"]:
            if "DELETED" in told["subject"]:
                return told
    return "never told"


@catalogue.case("js.advisory.frame", own_server=True)
def frame(session: Session) -> Observation:
    """An advisory is a plain message without a reply subject."""
    js = jetstream(session)
    watch = js.watch(session, STREAMS)
    js.create("FRAMED")
    line = str(watch.wire.frame()).split("\r\n", 1)[0]
    return line.split(" ")[:-1]


@catalogue.case("js.advisory.create-again", own_server=True)
def create_again(session: Session) -> Observation:
    """A create of an existing stream has no advisory; an update that changes nothing has one."""
    js = jetstream(session)
    watch = js.watch(session, STREAMS)
    js.create("AGAIN")
    js.create("AGAIN")
    js.update("AGAIN")
    js.create("LAST")
    return [told["subject"] for told in watch.take(3)]


@catalogue.case("js.advisory.refused", own_server=True)
def refused(session: Session) -> Observation:
    """A refused request causes no advisory of an action."""
    js = jetstream(session)
    watch = js.watch(session, STREAMS)
    js.create("REFUSED", max_age=1)
    js.create("REFUSED")
    js.update("REFUSED", storage="memory")
    js.api("STREAM.DELETE.OTHER")
    js.create("LAST")
    return [told["subject"] for told in watch.take(2)]


@catalogue.case("js.advisory.messages-untold", own_server=True)
def messages_untold(session: Session) -> Observation:
    """Purges, deleted messages, publishes and refused publishes are no actions on a stream."""
    js = jetstream(session)
    watch = js.watch(session, STREAMS)
    js.create("QUIET", max_msgs=2, discard="new")
    for _ in range(3):
        js.publish("QUIET", "x")
    js.api("STREAM.MSG.DELETE.QUIET", {"seq": 1})
    js.api("STREAM.PURGE.QUIET")
    js.create("LAST")
    return [told["subject"] for told in watch.take(2)]


@catalogue.case("js.advisory.audit", own_server=True)
def audit(session: Session) -> Observation:
    """The advisory of a call is complete: server, client, subject, request and response."""
    js = jetstream(session)
    watch = js.watch(session, AUDIT)
    js.create("AUDITED")
    return watch.take(1)


@catalogue.case("js.advisory.audit-error", own_server=True)
def audit_error(session: Session) -> Observation:
    """A call that fails has an advisory too, with the request as it was sent, JSON or not."""
    js = jetstream(session)
    watch = js.watch(session, AUDIT)
    js.api("STREAM.CREATE.AUDITED", "this is <no> JSON\n")
    js.api("STREAM.DELETE.MISSING")
    return watch.take(2)


@catalogue.case("js.advisory.audited-calls", own_server=True)
def audited_calls(session: Session) -> Observation:
    """Every call has an advisory, save a successful get; publishes and direct gets are no calls."""
    js = jetstream(session)
    watch = js.watch(session, AUDIT)
    js.create("CALLS", allow_direct=True)
    js.update("CALLS", allow_direct=True, max_msgs=5)
    js.publish("CALLS", "x")
    js.info("CALLS")
    js.api("STREAM.MSG.GET.CALLS", {"seq": 1})
    js.api("STREAM.MSG.GET.CALLS", {"seq": 2})
    js.direct("CALLS", {"seq": 1})
    js.api("STREAM.NAMES", {"offset": 0})
    js.api("STREAM.LIST")
    js.unanswered("$JS.API.NOTHING")
    js.api("STREAM.MSG.DELETE.CALLS", {"seq": 1})
    js.api("STREAM.PURGE.CALLS", {"keep": 1})
    js.api("STREAM.DELETE.CALLS")
    return [
        {key: one["advisory"].get(key) for key in ("subject", "request")} for one in watch.take(10)
    ]


@catalogue.case("js.advisory.audit-client", own_server=True)
def audit_client(session: Session) -> Observation:
    """The client is described by its options in CONNECT."""
    js = jetstream(session, name="the name", lang="py", version="1.2.3")
    watch = js.watch(session, AUDIT)
    js.api("STREAM.NAMES")
    return watch.take(1)


@catalogue.case("js.advisory.audit-user", setup=ACCOUNTS, own_server=True)
def audit_user(session: Session) -> Observation:
    """On a server with users, the client is described by its user and account too."""
    js = jetstream(session, **login("plain"))
    watch = js.watch(session, AUDIT, **login("plain"))
    js.api("STREAM.NAMES")
    return watch.take(1)


@catalogue.case("js.advisory.other-account", setup=ACCOUNTS, own_server=True)
def other_account(session: Session) -> Observation:
    """Advisories stay in the account they are about."""
    js = jetstream(session, **login("plain"))
    own = js.watch(session, f"{EVENTS}>", **login("plain"))
    other = js.watch(session, f"{EVENTS}>", **login("other"))
    js.create("PRIVATE")
    seen = [one["subject"] for one in own.take(2)]
    return {"own": seen, "other": other.wire.exchange()}


@catalogue.case("js.advisory.without-reply", own_server=True)
def without_reply(session: Session) -> Observation:
    """A call without a reply subject has an advisory like any other."""
    js = jetstream(session)
    watch = js.watch(session, AUDIT)
    js.send_only("$JS.API.STREAM.NAMES")
    return watch.take(1)


@catalogue.case("js.advisory.domain", setup=DOMAIN, own_server=True)
def domain(session: Session) -> Observation:
    """In a domain every advisory names it, and a call by its prefix appears as the plain one."""
    js = jetstream(session, prefix="$JS.hub.API.")
    watch = js.watch(session)
    js.create("DOMAINED")
    return watch.take(2)


@catalogue.case("js.advisory.captured", own_server=True)
def captured(session: Session) -> Observation:
    """A stream may capture advisories, beginning with the one about its own creation."""
    js = jetstream(session)
    js.create("CAPTURE", subjects=[STREAMS])
    js.create("OTHER")
    js.update("OTHER")
    js.state_when("CAPTURE", "messages", 3)
    subjects: Observation = js.state("CAPTURE", subjects_filter=">")["subjects"]
    return subjects


@catalogue.case("js.advisory.snapshot", own_server=True)
def snapshot(session: Session) -> Observation:
    """A backup has advisories at its begin, with the state it takes, and at its end."""
    js = jetstream(session)
    js.create("BACKED-UP")
    js.fill("BACKED-UP")
    watch = js.watch(session, STREAMS)
    receive(js, "BACKED-UP")
    return watch.take(2)


def receive(js: JetStreamClient, name: str) -> None:
    """Take a whole backup and forget it."""
    js.wire.exchange("SUB backup 9\r\n")
    js.send(f"$JS.API.STREAM.SNAPSHOT.{name}", {"deliver_subject": "backup"})
    seen = b""
    while not seen.endswith(b" 0\r\n\r\n"):
        frame = js.wire.awaited_frame()
        if subject_of(frame) == "backup":
            seen = str(frame).encode("latin-1")
