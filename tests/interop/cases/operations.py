"""Operations as such: which words a client may send, and how lines may look."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue()


@catalogue.case("core.op.unknown")
def unknown(session: Session) -> Observation:
    """A word that is no operation is answered with an error and the close."""
    return session.connect().until_closed("FOO\r\n")


@catalogue.case("core.op.found-out-early")
def found_out_early(session: Session) -> Observation:
    """A bad word is refused at its first wrong letter; no line end is waited for."""
    return session.connect().until_closed("PX")


@catalogue.case("core.op.truncated")
def truncated(session: Session) -> Observation:
    """A word cut short is as bad as a wrong one."""
    return session.connect().until_closed("PIN\r\n")


@catalogue.case("core.op.empty-line")
def empty_line(session: Session) -> Observation:
    """An empty line is no operation."""
    return session.connect().until_closed("\r\n")


@catalogue.case("core.op.leading-space")
def leading_space(session: Session) -> Observation:
    """A line may not begin with a space."""
    return session.connect().until_closed(" PING\r\n")


@catalogue.case("core.op.work-before-the-error-counts")
def work_before_the_error(session: Session) -> Observation:
    """Operations before the bad word in the same packet have been done and answered."""
    client = session.connect()
    return client.until_closed("SUB foo 1\r\nPUB foo 2\r\nhi\r\nPING\r\nnope\r\n")


@catalogue.case("core.op.ping-case")
def ping_case(session: Session) -> Observation:
    """PING may be in any case and is answered PONG."""
    client = session.connect()
    client.send("ping\r\nPiNg\r\n")
    return client.take(2)


@catalogue.case("core.op.ping-rest-of-line")
def ping_rest_of_line(session: Session) -> Observation:
    """Whatever follows PING on its line is ignored."""
    client = session.connect()
    client.send("PING and more\r\nPINGPONG\r\n")
    return client.take(2)


@catalogue.case("core.op.ping-line-feed-only")
def ping_line_feed_only(session: Session) -> Observation:
    """PING may end in LF alone."""
    client = session.connect()
    client.send("PING\nPING\n")
    return client.take(2)


@catalogue.case("core.op.pong-unasked")
def pong_unasked(session: Session) -> Observation:
    """A PONG without a PING is ignored."""
    return session.connect().exchange("PONG\r\npong what\r\n")


@catalogue.case("core.op.msg-from-client")
def msg_from_client(session: Session) -> Observation:
    """MSG is the server's word."""
    return session.connect().until_closed("MSG foo 1 2\r\nhi\r\n")


@catalogue.case("core.op.hmsg-from-client")
def hmsg_from_client(session: Session) -> Observation:
    """HMSG is parsed as if it came from a server, without a size: what follows breaks it."""
    return session.connect().until_closed("HMSG foo 1 12 12\r\nNATS/1.0\r\n\r\n\r\n")


@catalogue.case("core.op.ok-from-client")
def ok_from_client(session: Session) -> Observation:
    """+OK from a client is ignored."""
    return session.connect().exchange("+OK\r\n")


@catalogue.case("core.op.err-from-client")
def err_from_client(session: Session) -> Observation:
    """-ERR from a client ends the connection, unexplained."""
    return session.connect().until_closed("-ERR 'enough'\r\n")


@catalogue.case("core.op.info-from-client")
def info_from_client(session: Session) -> Observation:
    """INFO from a client is read, and ignored as long as it is JSON."""
    return session.connect().exchange("INFO {}\r\n")


@catalogue.case("core.op.info-from-client-bad")
def bad_info_from_client(session: Session) -> Observation:
    """An INFO that is not JSON ends the connection."""
    return session.connect().until_closed("INFO nope\r\n")


@catalogue.case("core.op.route-words")
def route_words(session: Session) -> Observation:
    """The words servers use among themselves are unknown from a client."""
    words = ("RS+ $G foo\r\n", "RMSG $G foo 2\r\n", "LS+ foo\r\n", "A+ $G\r\n")
    return {word: session.connect().until_closed(word) for word in words}


@catalogue.case("core.op.tls-hello")
def tls_hello(session: Session) -> Observation:
    """A TLS hello to a plain port is an unknown operation like any other."""
    client = session.dial()
    client.frame()
    return client.until_closed(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")


@catalogue.case("core.op.http-request")
def http_request(session: Session) -> Observation:
    """A browser that comes to the client port gets INFO and then the error."""
    client = session.dial()
    client.frame()
    return client.until_closed("GET / HTTP/1.1\r\nHost: x\r\n\r\n")


@catalogue.case("core.op.half-line-then-close")
def half_line_then_close(session: Session) -> Observation:
    """A client that leaves in the middle of a line is let go without a word."""
    client = session.connect()
    client.send("PUB foo 5\r\nhe")
    client.half_close()
    return client.until_closed()
