"""Accounts: subject spaces that do not know of each other."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session, connect_line
from tests.kit.server_process import Setup
from tests.kit.wire_client import Frame

ACCOUNTS = Setup(
    """
accounts {
  A { users: [ { user: a1, password: x }, { user: a2, password: x } ] }
  B { users: [ { user: b1, password: x } ] }
  $SYS { users: [ { user: admin, password: x } ] }
}
"""
)
LIMITED = Setup(
    """
accounts {
  FEW_CONNECTIONS { limits { max_connections: 1 }, users: [ { user: c1, password: x } ] }
  FEW_SUBSCRIPTIONS { limits { max_subscriptions: 2 }, users: [ { user: s1, password: x } ] }
  SMALL_PAYLOAD { limits { max_payload: 10 }, users: [ { user: p1, password: x } ] }
}
"""
)

catalogue = Catalogue(ACCOUNTS)


def bound(session: Session, user: str) -> list[Frame]:
    """The PONG and second INFO of a user's connection."""
    client = session.dial()
    client.frame()
    client.send(connect_line(protocol=1, user=user, **{"pass": "x"}) + "PING\r\n")
    return client.take(2)


@catalogue.case("accounts.remote-account")
def remote_account(session: Session) -> Observation:
    """The second INFO names the account a connection was bound to."""
    return bound(session, "a1")


@catalogue.case("accounts.system-account")
def system_account(session: Session) -> Observation:
    """A user of the system account is told so by `acc_is_sys`."""
    return bound(session, "admin")


@catalogue.case("accounts.isolated")
def isolated(session: Session) -> Observation:
    """A message reaches subscribers of its own account alone, whatever their wildcards."""
    clients = {user: session.connect(user=user, **{"pass": "x"}) for user in ("a1", "a2", "b1")}
    for client in clients.values():
        client.exchange("SUB > 1\r\n")
    clients["a1"].send("PUB foo 6\r\nfrom a\r\n")
    clients["b1"].send("PUB foo 6\r\nfrom b\r\n")
    return {user: clients[user].exchange() for user in ("b1", "a1", "a2")}


@catalogue.case("accounts.queue-groups-isolated")
def queue_groups_isolated(session: Session) -> Observation:
    """Groups of one name in two accounts are two groups."""
    a, b = (session.connect(user=user, **{"pass": "x"}) for user in ("a1", "b1"))
    b.exchange("SUB foo g 1\r\n")
    own = a.exchange("SUB foo g 1\r\n" + "PUB foo 1\r\nx\r\n" * 5)
    return {"a": own, "b": b.exchange()}


@catalogue.case("accounts.no-responders-across")
def no_responders_across(session: Session) -> Observation:
    """A responder in another account is none."""
    session.connect(user="b1", **{"pass": "x"}).exchange("SUB svc 1\r\n")
    client = session.connect(user="a1", no_responders=True, **{"pass": "x"})
    return client.exchange("SUB inbox 1\r\nPUB svc inbox 0\r\n\r\n")


@catalogue.case("accounts.second-connect-moves")
def second_connect_moves(session: Session) -> Observation:
    """A second CONNECT with another account's user moves the connection to that account."""
    client = session.connect(user="a1", **{"pass": "x"})
    listener = session.connect(user="b1", **{"pass": "x"})
    listener.exchange("SUB foo 1\r\n")
    client.exchange(connect_line(user="b1", **{"pass": "x"}) + "PUB foo 2\r\nhi\r\n")
    return listener.exchange()


@catalogue.case(
    "accounts.limits.connections", setup=LIMITED, text="maximum account active connections exceeded"
)
def account_connections(session: Session) -> Observation:
    """An account's `max_connections` refuses the connection that is one too many."""
    session.connect(user="c1", **{"pass": "x"})
    return session.handshake(user="c1", **{"pass": "x"})


@catalogue.case("accounts.limits.subscriptions", setup=LIMITED)
def account_subscriptions(session: Session) -> Observation:
    """An account's `max_subscriptions` holds for each connection."""
    client = session.connect(user="s1", **{"pass": "x"})
    return client.exchange("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")


@catalogue.case("accounts.limits.payload", setup=LIMITED)
def account_payload(session: Session) -> Observation:
    """An account's `max_payload` holds for its connections."""
    client = session.connect(user="p1", **{"pass": "x"})
    fits = client.exchange("SUB a 1\r\nPUB a 10\r\n0123456789\r\n")
    return {"fits": fits, "past": client.until_closed("PUB a 11\r\n")}


@catalogue.case("accounts.limits.payload-in-info", setup=LIMITED)
def account_payload_in_info(session: Session) -> Observation:
    """The second INFO announces the account's `max_payload` in place of the server's."""
    return bound(session, "p1")
