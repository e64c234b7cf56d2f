"""No responders: a request without a subscriber is answered by the server with status 503."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue()

REQUEST = "PUB svc.none inbox.1 4\r\nhelp\r\n"


@catalogue.case("core.no-responders.answer")
def answer(session: Session) -> Observation:
    """The answer is an empty message to the reply subject: status 503, and the subject asked."""
    return session.connect(no_responders=True).exchange("SUB inbox.* 4\r\n" + REQUEST)


@catalogue.case("core.no-responders.not-asked-for")
def not_asked_for(session: Session) -> Observation:
    """A client that did not ask for it hears nothing."""
    return session.connect().exchange("SUB inbox.* 4\r\n" + REQUEST)


@catalogue.case("core.no-responders.no-reply")
def no_reply(session: Session) -> Observation:
    """A message without a reply subject is no request."""
    client = session.connect(no_responders=True)
    return client.exchange("SUB inbox.* 4\r\nPUB svc.none 0\r\n\r\n")


@catalogue.case("core.no-responders.not-listening")
def not_listening(session: Session) -> Observation:
    """A requester that does not listen on its reply subject gets no answer."""
    return session.connect(no_responders=True).exchange(REQUEST)


@catalogue.case("core.no-responders.other-client-listening")
def other_client_listening(session: Session) -> Observation:
    """The answer goes to the requester alone, not to others that listen on the reply subject."""
    other = session.connect(no_responders=True)
    other.exchange("SUB inbox.* 4\r\n")
    own = session.connect(no_responders=True).exchange(REQUEST)
    return {"requester": own, "other": other.exchange()}


@catalogue.case("core.no-responders.two-subscriptions-match-reply")
def two_subscriptions(session: Session) -> Observation:
    """With two subscriptions on the reply subject, one of them gets the answer."""
    client = session.connect(no_responders=True)
    return len(client.exchange("SUB inbox.* 4\r\nSUB inbox.> 5\r\n" + REQUEST))


@catalogue.case("core.no-responders.with-headers")
def request_with_headers(session: Session) -> Observation:
    """A request with headers is answered the same way."""
    client = session.connect(no_responders=True)
    request = "HPUB svc.none inbox.1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    return client.exchange("SUB inbox.1 4\r\n" + request)


@catalogue.case("core.no-responders.somebody-listens")
def somebody_listens(session: Session) -> Observation:
    """One subscriber is enough: it need not answer."""
    session.connect().exchange("SUB svc.> 1\r\n")
    return session.connect(no_responders=True).exchange("SUB inbox.* 4\r\n" + REQUEST)


@catalogue.case("core.no-responders.echo-off")
def echo_off(session: Session) -> Observation:
    """A requester that does not hear itself is no responder to its own request."""
    client = session.connect(no_responders=True, echo=False)
    return client.exchange("SUB inbox.* 4\r\nSUB svc.none 5\r\n" + REQUEST)


@catalogue.case("core.no-responders.verbose")
def verbose(session: Session) -> Observation:
    """With `verbose` the +OK comes before the answer."""
    client = session.dial()
    client.frame()
    client.exchange('CONNECT {"headers":true,"no_responders":true}\r\nSUB inbox.* 4\r\n')
    return client.exchange(REQUEST)


@catalogue.case("core.no-responders.counts-for-max")
def counts_for_max(session: Session) -> Observation:
    """The answer does not count for an UNSUB with a number: the next message still arrives."""
    client = session.connect(no_responders=True)
    client.exchange("SUB inbox.* 4\r\nUNSUB 4 1\r\n")
    return {"answer": client.exchange(REQUEST), "later": client.exchange("PUB inbox.1 1\r\nx\r\n")}


@catalogue.case("core.request.reply-once")
def request_and_reply(session: Session) -> Observation:
    """A reply is an ordinary message to the reply subject."""
    responder, client = session.connect(), session.connect(no_responders=True)
    responder.exchange("SUB svc.real 1\r\n")
    client.exchange("SUB inbox.* 4\r\nPUB svc.real inbox.9 2\r\nhi\r\n")
    seen = responder.exchange("PUB inbox.9 3\r\nyes\r\n")
    return {"responder": seen, "requester": client.exchange()}


@catalogue.case(
    "core.request.reserved-reply", text="Permissions Violation for Publish with Reply of"
)
def reserved_reply(session: Session) -> Observation:
    """Reply subjects the server uses for itself are refused to clients."""
    client = session.connect()
    replies = ("_R_.abc", "$JS.ACK.abc", "_GR_.abc", "_R_x", "$JS.API.x")
    return client.exchange("SUB > 1\r\n" + "".join(f"PUB foo {to} 0\r\n\r\n" for to in replies))
