"""The subjects a user may publish and subscribe to. A refusal is an error; the connection lives."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup
from tests.kit.wire_client import CLOSED, WireClient

PERMISSIONS = Setup(
    """
authorization {
  default_permissions { publish: "open.>", subscribe: ["open.>", "_INBOX.>"] }
  users: [
    { user: admin }
    { user: plain }
    { user: writer, permissions { publish: ["a.*", "b.>"], subscribe: ">" } }
    { user: denied, permissions { publish { allow: "a.>", deny: ["a.secret", "a.x.>"] } } }
    { user: mute, permissions { publish { deny: ">" } } }
    { user: reader, permissions { subscribe { allow: ["a.*", "q.>"], deny: "a.secret" } } }
    { user: wide, permissions { subscribe { deny: ["secret", "hidden.>"] } } }
    { user: member, permissions { subscribe { allow: ["jobs v1", "jobs v2.*", "free"] } } }
    { user: banned, permissions { subscribe { deny: ["jobs v1", "other *.prod"] } } }
    { user: mixed, permissions { subscribe { allow: ["jobs", "jobs v1"] } } }
    { user: once, permissions { subscribe: "svc", allow_responses: true, publish { deny: ">" } } }
    { user: twice, permissions { subscribe: "svc", allow_responses { max: 2, expires: "1m" } } }
    { user: brief, permissions { subscribe: "svc", allow_responses { max: -1, expires: "20ms" } } }
    { user: forbids, permissions { subscribe: "svc", publish { deny: "inbox.no" }
      allow_responses: true } }
    { user: god, permissions { publish: ">", subscribe: ">" } }
  ]
}
"""
)
REPLIES_MAX = 100_000
"""A reply permission of 20 ms is used up long before this many round trips."""

catalogue = Catalogue(PERMISSIONS)


def as_user(session: Session, name: str, **options: object) -> WireClient:
    return session.connect(user=name, **options)


def publish(*subjects: str) -> str:
    return "".join(f"PUB {subject} 1\r\nx\r\n" for subject in subjects)


def heard(session: Session, speaker: WireClient, data: str) -> Observation:
    """The answer to the speaker, and the messages to a user who may hear everything."""
    listener = as_user(session, "god")
    listener.exchange("SUB > 1\r\n")
    return {"told": speaker.exchange(data), "delivered": listener.exchange()}


def serve(session: Session, name: str, requests: int) -> tuple[WireClient, WireClient]:
    """A responder of this user with requests in hand, and the requester that waits."""
    responder, requester = as_user(session, name), as_user(session, "god")
    responder.exchange("SUB svc 1\r\n")
    requester.exchange("SUB inbox.> 1\r\n")
    for number in range(requests):
        requester.exchange(f"PUB svc inbox.{number} 1\r\n?\r\n")
    responder.exchange()
    return responder, requester


@catalogue.case("perm.publish.denied", text='Permissions Violation for Publish to "c.d"')
def publish_denied(session: Session) -> Observation:
    """A publish outside the allow list is refused and not delivered."""
    return heard(session, as_user(session, "writer"), publish("c.d"))


@catalogue.case("perm.publish.allow-list")
def publish_allow_list(session: Session) -> Observation:
    """Allow lists use the wildcards of subscriptions."""
    subjects = ("a.b", "a", "a.b.c", "b.c.d", "b")
    return heard(session, as_user(session, "writer"), publish(*subjects))


@catalogue.case("perm.publish.deny-over-allow")
def publish_deny_over_allow(session: Session) -> Observation:
    """A denied subject is denied, also inside the allow list."""
    subjects = ("a.b", "a.secret", "a.x", "a.x.y", "z")
    return heard(session, as_user(session, "denied"), publish(*subjects))


@catalogue.case("perm.publish.deny-everything")
def publish_deny_everything(session: Session) -> Observation:
    """A deny of `>` leaves nothing to publish."""
    return heard(session, as_user(session, "mute"), publish("a", "a.b"))


@catalogue.case("perm.publish.headers")
def publish_denied_with_headers(session: Session) -> Observation:
    """HPUB is checked like PUB; the message after it is parsed as if nothing had happened."""
    data = "HPUB c.d 12 13\r\nNATS/1.0\r\n\r\n!\r\n" + publish("a.b")
    return heard(session, as_user(session, "writer"), data)


@catalogue.case("perm.publish.verbose")
def publish_denied_verbose(session: Session) -> Observation:
    """With `verbose` a refused publish gets the error in place of the +OK."""
    client = session.dial()
    client.frame()
    return client.exchange('CONNECT {"user":"writer"}\r\n' + publish("c.d", "a.b"))


@catalogue.case("perm.publish.wildcard")
def publish_to_wildcard(session: Session) -> Observation:
    """A published wildcard is checked as a literal subject."""
    return heard(session, as_user(session, "writer"), publish("a.*", "a.>", "*.b"))


@catalogue.case("perm.publish.reply-is-free")
def reply_subject_is_free(session: Session) -> Observation:
    """The reply subject of a publish is not checked."""
    return heard(session, as_user(session, "writer"), "PUB a.b never.allowed 1\r\nx\r\n")


@catalogue.case("perm.publish.no-responders")
def denied_request(session: Session) -> Observation:
    """A refused request gets the error alone: no answer that there were no responders."""
    client = as_user(session, "writer", no_responders=True)
    return client.exchange("SUB inbox 1\r\nPUB c.d inbox 0\r\n\r\n")


@catalogue.case("perm.subscribe.denied", text='Permissions Violation for Subscription to "b"')
def subscribe_denied(session: Session) -> Observation:
    """A subscription outside the allow list is refused; its sid is not taken."""
    client = as_user(session, "reader")
    return {
        "b": client.exchange("SUB b 1\r\n"),
        "a.b": client.exchange("SUB a.b 1\r\n" + publish("a.b")),
    }


@catalogue.case("perm.subscribe.queue-text", text='to "b" using queue "workers"')
def subscribe_denied_queue(session: Session) -> Observation:
    """A refused queue subscription names the queue."""
    return as_user(session, "reader").exchange("SUB b workers 1\r\n")


@catalogue.case("perm.subscribe.allow-covers-wildcards")
def subscribe_allow_covers(session: Session) -> Observation:
    """A wildcard subscription needs an allowed subject that covers it."""
    client = as_user(session, "reader")
    subjects = ("a.*", "a.b", "*.b", ">", "q.>", "q.*", "q.a.>", "q")
    return {subject: client.exchange(f"SUB {subject} {subject}\r\n") for subject in subjects}


@catalogue.case("perm.subscribe.deny-over-allow")
def subscribe_deny_over_allow(session: Session) -> Observation:
    """A denied subject cannot be subscribed to by name, though the allow list covers it."""
    return as_user(session, "reader").exchange("SUB a.secret 1\r\n")


@catalogue.case("perm.subscribe.deny-filters-delivery")
def deny_filters_delivery(session: Session) -> Observation:
    """A wildcard subscription may overlap denied subjects; messages to those are held back."""
    client = as_user(session, "wide")
    refused = client.exchange(
        "SUB > 1\r\nSUB * 2\r\nSUB secret 3\r\nSUB hidden.* 4\r\nSUB hidden.> 5\r\n"
    )
    as_user(session, "god").exchange(publish("secret", "hidden.a", "hidden", "seen"))
    return {"refused": refused, "delivered": sorted(map(str, client.exchange()))}


@catalogue.case("perm.subscribe.deny-filters-queue-delivery")
def deny_filters_queue_delivery(session: Session) -> Observation:
    """A member that may not see a message does not get it; another member of the group does."""
    denied, other = as_user(session, "wide"), as_user(session, "god")
    denied.exchange("SUB > g 1\r\n")
    other.exchange("SUB > g 1\r\n")
    as_user(session, "god").exchange(publish(*["secret"] * 10))
    return {"denied": denied.exchange(), "other": other.exchange()}


@catalogue.case("perm.subscribe.held-back-request")
def held_back_request(session: Session) -> Observation:
    """A request held back from its only subscriber has no responders."""
    as_user(session, "wide").exchange("SUB * 1\r\n")
    client = as_user(session, "god", no_responders=True)
    return client.exchange("SUB inbox.1 1\r\nPUB secret inbox.1 0\r\n\r\n")


@catalogue.case("perm.subscribe.verbose")
def subscribe_denied_verbose(session: Session) -> Observation:
    """With `verbose` a refused subscription gets the error in place of the +OK."""
    client = session.dial()
    client.frame()
    return client.exchange('CONNECT {"user":"reader"}\r\nSUB b 1\r\nSUB a.b 2\r\nUNSUB 1\r\n')


@catalogue.case("perm.subscribe.invalid-is-denied-first")
def invalid_is_denied_first(session: Session) -> Observation:
    """Permissions are looked at before the form of the subject."""
    return as_user(session, "reader").exchange("SUB b..c 1\r\n")


@catalogue.case("perm.queue.allow-names-queue")
def queue_allow(session: Session) -> Observation:
    """`"jobs v1"` allows that queue and no plain subscription; a queue may have wildcards."""
    client = as_user(session, "member")
    tries = ("jobs", "jobs v1", "jobs v2.prod", "jobs v2", "jobs v3", "free", "free any")
    return {tried: client.exchange(f"SUB {tried} {tried.replace(' ', '_')}\r\n") for tried in tries}


@catalogue.case("perm.queue.deny-names-queue")
def queue_deny(session: Session) -> Observation:
    """`"jobs v1"` in a deny list forbids that queue alone."""
    client = as_user(session, "banned")
    tries = ("jobs", "jobs v1", "jobs v2", "other a.prod", "other a.test", "other")
    return {tried: client.exchange(f"SUB {tried} {tried.replace(' ', '_')}\r\n") for tried in tries}


@catalogue.case("perm.queue.plain-and-queue-allowed")
def queue_mixed(session: Session) -> Observation:
    """With `"jobs"` and `"jobs v1"` allowed, a plain subscription is, and of queues v1 alone."""
    client = as_user(session, "mixed")
    tries = ("jobs", "jobs v1", "jobs v2")
    return {tried: client.exchange(f"SUB {tried} {tried.replace(' ', '_')}\r\n") for tried in tries}


@catalogue.case("perm.responses.one")
def responses_once(session: Session) -> Observation:
    """`allow_responses: true` lets a responder answer each request once, and nothing else.

    A deny list does not stand in the way of an answer that was asked for.
    """
    responder, requester = serve(session, "once", 2)
    told = responder.exchange(publish("inbox.0", "inbox.0", "inbox.1", "inbox.7"))
    return {"told": told, "delivered": requester.exchange()}


@catalogue.case("perm.responses.max")
def responses_max(session: Session) -> Observation:
    """`max` answers may be sent to each request."""
    responder, requester = serve(session, "twice", 1)
    told = responder.exchange(publish(*["inbox.0"] * 3))
    return {"told": told, "delivered": requester.exchange()}


@catalogue.case("perm.responses.expire")
def responses_expire(session: Session) -> Observation:
    """The permission to answer ends after `expires`, however many answers were allowed."""
    responder, _ = serve(session, "brief", 1)
    for _ in range(REPLIES_MAX):
        told = responder.exchange(publish("inbox.0"))
        if told:
            break
    return told


@catalogue.case("perm.responses.deny-names-reply")
def responses_deny(session: Session) -> Observation:
    """An answer that was asked for may be sent even where the deny list names its very subject."""
    responder, requester = as_user(session, "forbids"), as_user(session, "god")
    responder.exchange("SUB svc 1\r\n")
    requester.exchange("SUB inbox.> 1\r\nPUB svc inbox.no 1\r\n?\r\n")
    responder.exchange()
    return {"told": responder.exchange(publish("inbox.no")), "delivered": requester.exchange()}


@catalogue.case("perm.responses.other-connection")
def responses_of_other_connection(session: Session) -> Observation:
    """The permission to answer belongs to the connection that got the request."""
    serve(session, "once", 1)
    return as_user(session, "once").exchange(publish("inbox.0"))


@catalogue.case("perm.default.used-without-own")
def default_permissions(session: Session) -> Observation:
    """A user without permissions gets `default_permissions`."""
    client = as_user(session, "plain")
    return client.exchange(
        "SUB open.a 1\r\nSUB shut 2\r\nSUB _INBOX.* 3\r\n" + publish("open.a", "shut")
    )


@catalogue.case("perm.default.not-mixed-with-own")
def default_not_mixed(session: Session) -> Observation:
    """A user with permissions of its own has nothing from the defaults."""
    return as_user(session, "writer").exchange(publish("open.a"))


@catalogue.case("perm.violation-is-not-the-end")
def many_violations(session: Session) -> Observation:
    """However many violations, the connection lives."""
    frames = as_user(session, "mute").exchange(publish(*["a"] * 200))
    return {"errors": len(frames), "closed": CLOSED in frames}


@catalogue.case("perm.system-subjects-denied-by-allow-list")
def system_subjects(session: Session) -> Observation:
    """An allow list covers the server's own services too: asking who one is may be refused."""
    client = as_user(session, "writer", no_responders=True)
    return client.exchange("SUB inbox 1\r\nPUB $SYS.REQ.USER.INFO inbox 0\r\n\r\n")
