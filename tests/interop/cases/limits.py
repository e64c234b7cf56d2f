"""Limits from the configuration: announced where they are announced, enforced to the byte."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session, connect_line
from tests.kit.server_process import Setup

SMALL = Setup(
    """
max_payload: 100
max_control_line: 256
max_subscriptions: 3
max_sub_tokens: 4
"""
)

catalogue = Catalogue(SMALL)


@catalogue.case("limits.max-payload.in-info")
def max_payload_in_info(session: Session) -> Observation:
    """INFO carries the configured `max_payload`, first and second alike."""
    client = session.dial()
    first = client.frame()
    client.send(connect_line(protocol=1) + "PING\r\n")
    return {"first": first, "second": client.take(2)}


@catalogue.case("limits.max-payload.enforced")
def max_payload_enforced(session: Session) -> Observation:
    """A payload at the configured limit passes, one byte more is the end."""
    client = session.connect()
    fits = client.exchange(f"SUB a 1\r\nPUB a 100\r\n{'x' * 100}\r\n")
    return {"fits": fits, "past": client.until_closed("PUB a 101\r\n")}


@catalogue.case("limits.max-payload.headers-count")
def max_payload_counts_headers(session: Session) -> Observation:
    """Headers count: with them a small payload can pass the limit."""
    return session.connect().until_closed("HPUB a 99 101\r\n")


@catalogue.case("limits.max-control-line.enforced")
def max_control_line(session: Session) -> Observation:
    """A configured `max_control_line` is enforced to the byte, for CONNECT as well."""
    client = session.connect()
    subject = "s" * (256 - len(" 1"))
    fits = client.exchange(f"SUB {subject} 1\r\n")
    long_name = session.dial()
    long_name.frame()
    return {
        "fits": fits,
        "past": client.until_closed(f"SUB {subject}s 1\r\n"),
        "connect": long_name.until_closed(connect_line(name="n" * 256)),
    }


@catalogue.case("limits.max-subscriptions.text", text="maximum subscriptions exceeded")
def max_subscriptions(session: Session) -> Observation:
    """The subscription past `max_subscriptions` is refused; the connection lives."""
    client = session.connect()
    return client.exchange("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nSUB d 4\r\nPUB d 1\r\nx\r\n")


@catalogue.case("limits.max-subscriptions.frees")
def max_subscriptions_frees(session: Session) -> Observation:
    """UNSUB makes room, and another connection has room of its own."""
    client = session.connect()
    client.exchange("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
    return {
        "again": client.exchange("UNSUB 1\r\nSUB d 4\r\n"),
        "other": session.connect().exchange("SUB a 1\r\n"),
    }


@catalogue.case("limits.max-subscriptions.same-sid")
def max_subscriptions_same_sid(session: Session) -> Observation:
    """At the limit, a SUB with a sid in use is refused like any other."""
    client = session.connect()
    client.exchange("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
    return client.exchange("SUB a 1\r\n")


@catalogue.case("limits.max-sub-tokens.text", text="Permissions Violation for Subscription to")
def max_sub_tokens(session: Session) -> Observation:
    """A subscription with more tokens than `max_sub_tokens` is refused."""
    client = session.connect()
    return client.exchange("SUB a.b.c.d 1\r\nSUB a.b.c.d.e 2\r\nPUB a.b.c.d.e 1\r\nx\r\n")


@catalogue.case(
    "limits.max-connections.text",
    setup=Setup("max_connections: 2\n"),
    own_server=True,
    text="maximum connections exceeded",
)
def max_connections(session: Session) -> Observation:
    """The connection past `max_connections` is told so and closed; a leaving one makes room."""
    stays, leaves = session.connect(), session.connect()
    refused = session.dial().until_closed()
    leaves.until_closed("nope\r\n")
    session.wait_until_gone(leaves)
    admitted = session.dial().take(1)
    return {"refused": refused, "stays": stays.exchange(), "admitted": admitted}


@catalogue.case("limits.max-payload.units", setup=Setup("max_payload: 8MB\n"), own_server=True)
def max_payload_large(session: Session) -> Observation:
    """Sizes may have a unit; a limit above the default lets larger messages through."""
    size = 3 * 1024 * 1024
    client = session.connect()
    frames = client.exchange(f"SUB a 1\r\nPUB a {size}\r\n{'x' * size}\r\n")
    return {"info": session.dial().frame(), "delivered": [len(str(frame)) for frame in frames]}
