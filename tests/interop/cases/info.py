"""INFO: the description of a server before and after the handshake."""

from tests.interop.case import Catalogue
from tests.interop.masks import is_server_id
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session, connect_line
from tests.kit.server_process import Setup
from tests.kit.wire_client import Frame

catalogue = Catalogue()


def _info(frame: Frame) -> dict[str, Observation]:
    assert isinstance(frame, dict)
    info = frame["INFO"]
    assert isinstance(info, dict)
    return info


@catalogue.case("core.info.first")
def first_info(session: Session) -> Observation:
    """The server speaks first: one INFO, before the client has sent a byte."""
    return session.dial().frame()


@catalogue.case("core.info.framing")
def framing(session: Session) -> Observation:
    """INFO is the word, one space, one JSON object, one more space, and CRLF."""
    line = session.dial().line()
    return {"start": line[:7], "end": line[-4:]}


@catalogue.case("core.info.second-after-first-pong")
def second_info(session: Session) -> Observation:
    """A client of protocol 1 gets a second INFO right after the PONG to its first PING.

    The second INFO carries `connect_info` and the account the connection was bound to.
    """
    client = session.dial()
    client.frame()
    client.send(connect_line(protocol=1) + "PING\r\n")
    return client.take(2)


@catalogue.case("core.info.second-only-once")
def second_info_comes_once(session: Session) -> Observation:
    """Only the first PING after CONNECT is followed by an INFO."""
    client = session.dial()
    client.frame()
    client.send(connect_line(protocol=1) + "PING\r\n")
    client.take(2)
    return client.exchange("PING\r\n")


@catalogue.case("core.info.second-none-for-protocol-zero")
def no_second_info(session: Session) -> Observation:
    """A client of protocol 0, or one that names none, never hears a second INFO."""
    client = session.dial()
    client.frame()
    return client.exchange("CONNECT {}\r\nPING\r\nPING\r\n")


@catalogue.case("core.info.second-not-before-connect")
def ping_before_connect(session: Session) -> Observation:
    """A PING before CONNECT is answered and does not count as the first: the INFO still comes."""
    client = session.dial()
    client.frame()
    before = client.exchange()
    client.send(connect_line(protocol=1) + "PING\r\n")
    return {"before": before, "after": client.take(2)}


@catalogue.case("core.info.client-id-grows")
def client_ids_grow(session: Session) -> Observation:
    """Each connection gets a client id above the ones before it, the same in both its INFOs."""
    first = _info(session.dial().frame())["client_id"]
    client = session.dial()
    second = _info(client.frame())["client_id"]
    client.send(connect_line(protocol=1) + "PING\r\n")
    client.take(1)
    again = _info(client.frame())["client_id"]
    assert isinstance(first, int)
    assert isinstance(second, int)
    return {"grows": second > first, "kept": second == again}


@catalogue.case(
    "core.info.unnamed-server",
    setup=Setup(flags=("-a", "127.0.0.1", "-p", "-1")),
    own_server=True,
    masks=(Mask("info.INFO.server_name", is_server_id, "an unnamed server has its id as name"),),
)
def unnamed_server(session: Session) -> Observation:
    """A server started without a name is named by its id."""
    frame = session.dial().frame()
    info = _info(frame)
    return {"info": frame, "name is id": info["server_name"] == info["server_id"]}


@catalogue.case(
    "core.info.client-advertise",
    setup=Setup(
        'listen: "127.0.0.1:-1"\nserver_name: interop\nclient_advertise: "me.test:4333"\n', ()
    ),
    own_server=True,
)
def client_advertise(session: Session) -> Observation:
    """`client_advertise` replaces host and port in INFO; the server listens where it did."""
    info = _info(session.dial().frame())
    return {name: info.get(name) for name in ("host", "port", "connect_urls")}


@catalogue.case(
    "core.info.no-header-support",
    setup=Setup("no_header_support: true\n"),
    own_server=True,
)
def no_header_support(session: Session) -> Observation:
    """A server without header support says so in INFO; HPUB ends the connection, unexplained."""
    client = session.dial()
    info = client.frame()
    return {
        "info": info,
        "hpub": client.until_closed(connect_line() + "HPUB foo 12 12\r\nNATS/1.0\r\n\r\n\r\n"),
    }
