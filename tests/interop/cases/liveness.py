"""Pings, stale connections, slow consumers: how a server notices that a client is not there."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup
from tests.kit.wire_client import CLOSED, WireClient

QUICK_PINGS = Setup('ping_interval: "30ms"\nping_max: 2\n')
SMALL_PENDING = Setup('max_pending: 100K\nmax_payload: 64K\nwrite_deadline: "10s"\n')
SHORT_DEADLINE = Setup('max_pending: 64M\nwrite_deadline: "50ms"\n')

PAYLOAD_BYTES = 60_000
MESSAGES_MAX = 2000
"""More bytes than any socket buffer holds, many times over."""

catalogue = Catalogue(QUICK_PINGS)


def sleeping_subscriber(session: Session) -> WireClient:
    """A subscriber that has stopped reading."""
    client = session.connect()
    client.exchange("SUB flood 1\r\n")
    return client


def flood_until_closed(session: Session, publisher: WireClient, reader: WireClient) -> int:
    """Publish until the server has closed a client; the number sent. `reader` reads them all."""
    message = f"PUB flood {PAYLOAD_BYTES}\r\n{'x' * PAYLOAD_BYTES}\r\n"
    for sent in range(1, MESSAGES_MAX):
        publisher.exchange(message)
        assert len(reader.exchange()) == 1, "a subscriber that reads missed a message"
        if session.get("/varz")["varz"]["slow_consumers"]:
            return sent
    raise AssertionError("a subscriber that does not read was never closed")


def slow_consumer(session: Session) -> Observation:
    """One sleeping and one reading subscriber, flooded; the state of all clients then."""
    sleeper, reader, publisher = sleeping_subscriber(session), session.connect(), session.connect()
    reader.exchange("SUB flood 1\r\n")
    flood_until_closed(session, publisher, reader)
    last_words = sleeper.until_closed()[-1]
    session.wait_until_gone(sleeper)
    closed = session.get_when("/connz?state=closed", lambda page: page["connz"]["total"] > 0)
    varz = session.get("/varz")["varz"]
    return {
        "reason": [entry["reason"] for entry in closed["connz"]["connections"]],
        "slow_consumers": varz["slow_consumers"],
        "slow_consumer_stats": varz["slow_consumer_stats"],
        "reader lives": reader.exchange(),
        "publisher lives": publisher.exchange(),
        "sleeper": last_words,
    }


@catalogue.case("liveness.stale", text="Stale Connection")
def stale(session: Session) -> Observation:
    """A client that leaves `ping_max` PINGs unanswered is told that it is stale, and closed."""
    client = session.connect()
    return client.until_closed()


@catalogue.case("liveness.answered-pings")
def answered_pings(session: Session) -> Observation:
    """A client that answers every PING stays, long past the time it would have been stale."""
    client = session.connect()
    seen = []
    for _ in range(6):
        seen.append(client.frame())
        client.send("PONG\r\n")
    return seen


@catalogue.case("liveness.one-pong-for-all")
def one_pong_for_all(session: Session) -> Observation:
    """One PONG makes up for all PINGs before it."""
    client = session.connect()
    seen = client.take(2)
    client.send("PONG\r\n")
    return seen + client.take(2)


@catalogue.case("liveness.not-before-connect")
def stale_before_connect(session: Session) -> Observation:
    """A connection that never sent CONNECT is pinged and goes stale all the same."""
    client = session.dial()
    client.frame()
    return client.until_closed()


@catalogue.case("liveness.stale-is-counted", setup=QUICK_PINGS, own_server=True)
def stale_is_counted(session: Session) -> Observation:
    """A stale connection is counted in /varz and listed among the closed with its reason."""
    client = session.connect(name="sleeper")
    client.until_closed()
    closed = session.get_when("/connz?state=closed", lambda page: page["connz"]["total"] > 0)
    varz = session.get("/varz")["varz"]
    return {
        "reason": [entry["reason"] for entry in closed["connz"]["connections"]],
        "stale_connections": varz["stale_connections"],
        "stale_connection_stats": varz["stale_connection_stats"],
    }


@catalogue.case("liveness.first-ping", setup=Setup())
def first_ping(session: Session) -> Observation:
    """Whatever the ping interval, a new client is pinged once about two seconds after CONNECT."""
    return session.connect().take(1)


@catalogue.case("liveness.slow-consumer.pending", setup=SMALL_PENDING, own_server=True)
def slow_consumer_pending(session: Session) -> Observation:
    """A subscriber for which more than `max_pending` waits is closed, unexplained; others go on."""
    return slow_consumer(session)


@catalogue.case("liveness.slow-consumer.deadline", setup=SHORT_DEADLINE, own_server=True)
def slow_consumer_deadline(session: Session) -> Observation:
    """A subscriber that takes nothing for `write_deadline` is closed the same way."""
    return slow_consumer(session)


@catalogue.case("liveness.client-leaves", setup=Setup(), own_server=True)
def client_leaves(session: Session) -> Observation:
    """A client that closes is listed among the closed with its reason."""
    client = session.connect()
    client.half_close()
    frames = client.until_closed()
    closed = session.get_when("/connz?state=closed", lambda page: page["connz"]["total"] > 0)
    reasons = [entry["reason"] for entry in closed["connz"]["connections"]]
    return {"frames": frames, "closed": frames[-1] == CLOSED, "reason": reasons}
