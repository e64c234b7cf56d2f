"""CONNECT: its options, and malformed ones that are refused."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session, connect_line

catalogue = Catalogue()


@catalogue.case("core.connect.verbose.ok-per-operation")
def verbose(session: Session) -> Observation:
    """With `verbose`, CONNECT, SUB, UNSUB, PUB and HPUB are each answered +OK; PING and PONG not.

    The +OK of a publish comes before the message it delivers to the same client.
    """
    client = session.dial()
    client.frame()
    return {
        "CONNECT": client.exchange(connect_line(verbose=True)),
        "SUB": client.exchange("SUB foo 1\r\n"),
        "PUB": client.exchange("PUB foo 2\r\nhi\r\n"),
        "HPUB": client.exchange("HPUB foo 12 13\r\nNATS/1.0\r\n\r\n!\r\n"),
        "UNSUB": client.exchange("UNSUB 1\r\n"),
        "UNSUB of nothing": client.exchange("UNSUB 99\r\n"),
        "PONG": client.exchange("PONG\r\n"),
    }


@catalogue.case("core.connect.pedantic.publish-subject", text="Invalid Publish Subject")
def pedantic_publish(session: Session) -> Observation:
    """With `pedantic`, publishing to a wildcard is reported, yet delivered."""
    client = session.connect(pedantic=True)
    return client.exchange("SUB > 1\r\nPUB foo.* 2\r\nhi\r\nPUB foo.> 2\r\nhi\r\n")


@catalogue.case("core.connect.pedantic.publish-with-headers")
def pedantic_publish_with_headers(session: Session) -> Observation:
    """The pedantic check of the subject holds for HPUB as for PUB."""
    return session.connect(pedantic=True).exchange("HPUB a.* 12 12\r\nNATS/1.0\r\n\r\n\r\n")


@catalogue.case("core.connect.pedantic.off-publish-subject")
def wildcard_publish_unnoticed(session: Session) -> Observation:
    """Without `pedantic`, a published wildcard is an ordinary literal token."""
    return session.connect().exchange("SUB foo.* 1\r\nSUB foo.bar 2\r\nPUB foo.* 2\r\nhi\r\n")


@catalogue.case("core.connect.echo.off")
def echo_off(session: Session) -> Observation:
    """A client that sends `echo: false` never gets its own messages; others get them."""
    silent, other = session.connect(echo=False), session.connect()
    other.exchange("SUB foo 1\r\n")
    own = silent.exchange("SUB foo 1\r\nPUB foo 4\r\nmine\r\n")
    seen = other.exchange("PUB foo 6\r\ntheirs\r\n")
    return {"own": own, "other": seen, "from other": silent.exchange()}


@catalogue.case("core.connect.echo.default")
def echo_default(session: Session) -> Observation:
    """A client gets its own messages unless it asked not to."""
    return session.connect().exchange("SUB foo 1\r\nPUB foo 2\r\nhi\r\n")


@catalogue.case("core.connect.headers.off-publish")
def headers_off_publish(session: Session) -> Observation:
    """HPUB from a client that did not announce headers ends the connection, unexplained."""
    return session.connect(headers=False).until_closed("HPUB f 12 12\r\nNATS/1.0\r\n\r\n\r\n")


@catalogue.case("core.connect.headers.off-delivery")
def headers_off_delivery(session: Session) -> Observation:
    """A subscriber without headers gets the message as MSG, its headers cut off."""
    client = session.connect(headers=False)
    client.exchange("SUB foo 1\r\n")
    session.connect().exchange("HPUB foo back 19 21\r\nNATS/1.0\r\na: bc\r\n\r\nhi\r\n")
    return client.exchange()


@catalogue.case(
    "core.connect.no-responders.needs-headers", text="no responders requires headers support"
)
def no_responders_needs_headers(session: Session) -> Observation:
    """`no_responders` without `headers` is refused: the answer to it has headers."""
    client = session.dial()
    client.frame()
    return client.until_closed(connect_line(no_responders=True, headers=False))


@catalogue.case("core.connect.bad-json")
def bad_json(session: Session) -> Observation:
    """A CONNECT that is not JSON ends the connection."""
    client = session.dial()
    client.frame()
    return client.until_closed("CONNECT {nope}\r\n")


@catalogue.case("core.connect.not-an-object")
def not_an_object(session: Session) -> Observation:
    """A CONNECT whose JSON is no object ends the connection."""
    client = session.dial()
    client.frame()
    return client.until_closed("CONNECT [1]\r\n")


@catalogue.case("core.connect.null")
def null_options(session: Session) -> Observation:
    """A CONNECT of `null` is accepted and says nothing; `verbose` keeps its default, on."""
    client = session.dial()
    client.frame()
    return client.exchange("CONNECT null\r\n")


@catalogue.case("core.connect.wrong-type")
def wrong_type(session: Session) -> Observation:
    """An option of the wrong JSON type ends the connection."""
    client = session.dial()
    client.frame()
    return client.until_closed('CONNECT {"verbose":"yes"}\r\n')


@catalogue.case("core.connect.fraction-protocol")
def fraction_protocol(session: Session) -> Observation:
    """`protocol` is an integer: 1.5 ends the connection."""
    client = session.dial()
    client.frame()
    return client.until_closed('CONNECT {"protocol":1.5}\r\n')


@catalogue.case("core.connect.no-argument")
def no_argument(session: Session) -> Observation:
    """CONNECT alone on its line ends the connection."""
    client = session.dial()
    client.frame()
    return client.until_closed("CONNECT\r\n\r\n")


@catalogue.case("core.connect.trailing-garbage")
def trailing_garbage(session: Session) -> Observation:
    """Text after the JSON object ends the connection."""
    client = session.dial()
    client.frame()
    return client.until_closed("CONNECT {} {}\r\n")


@catalogue.case("core.connect.unknown-fields")
def unknown_fields(session: Session) -> Observation:
    """Fields the server does not know are ignored."""
    return session.handshake(verbose=True, flavour="salt", nested={"deep": [1, None]})


@catalogue.case("core.connect.key-case")
def key_case(session: Session) -> Observation:
    """Keys are matched whatever their case."""
    client = session.dial()
    client.frame()
    return client.exchange('CONNECT {"VERBOSE":true,"Echo":false}\r\nSUB a 1\r\nPUB a 0\r\n\r\n')


@catalogue.case("core.connect.null-field")
def null_field(session: Session) -> Observation:
    """A null field is as good as none: `echo` keeps its default, which is on."""
    client = session.dial()
    client.frame()
    return client.exchange('CONNECT {"echo":null}\r\nSUB a 1\r\nPUB a 0\r\n\r\n')


@catalogue.case("core.connect.word-case-and-spaces")
def word_case_and_spaces(session: Session) -> Observation:
    """The word may be in any case, and space between it and the object is optional."""
    client = session.dial()
    client.frame()
    return client.exchange('connect{"verbose":true}\r\nConnect \t {"verbose":true}\r\n')


@catalogue.case("core.connect.none-needed")
def not_needed(session: Session) -> Observation:
    """Without authentication a client may publish and subscribe before any CONNECT.

    Until it says otherwise it is verbose: each operation is answered +OK.
    """
    client = session.dial()
    client.frame()
    return client.exchange("SUB foo 1\r\nPUB foo 2\r\nhi\r\n")


@catalogue.case("core.connect.twice-changes-options")
def twice(session: Session) -> Observation:
    """A second CONNECT replaces the options of the first."""
    client = session.dial()
    client.frame()
    quiet = client.exchange(connect_line() + "SUB foo 1\r\n")
    chatty = client.exchange(connect_line(verbose=True, echo=False) + "SUB foo 2\r\n")
    return {"first": quiet, "second": chatty, "publish": client.exchange("PUB foo 2\r\nhi\r\n")}


@catalogue.case("core.connect.twice-drops-subscriptions")
def twice_drops_subscriptions(session: Session) -> Observation:
    """A second CONNECT forgets the subscriptions made before it."""
    client = session.connect()
    client.exchange("SUB foo 1\r\n")
    return client.exchange(connect_line() + "PUB foo 2\r\nhi\r\n")


@catalogue.case("core.connect.twice-then-same-sid")
def twice_then_same_sid(session: Session) -> Observation:
    """After a second CONNECT a sid used before it is free again."""
    client = session.connect()
    client.exchange("SUB foo 1\r\n")
    return client.exchange(connect_line() + "SUB bar 1\r\nPUB foo 1\r\na\r\nPUB bar 1\r\nb\r\n")


@catalogue.case("core.connect.protocol-too-high", text="invalid client protocol")
def protocol_too_high(session: Session) -> Observation:
    """A protocol above 1 is refused and the connection closed."""
    client = session.dial()
    client.frame()
    return client.until_closed(connect_line(protocol=2))


@catalogue.case("core.connect.protocol-negative")
def protocol_negative(session: Session) -> Observation:
    """A protocol below 0 is refused as one above 1 is."""
    client = session.dial()
    client.frame()
    return client.until_closed(connect_line(protocol=-1))


@catalogue.case("core.connect.account-is-refused")
def account_is_refused(session: Session) -> Observation:
    """A client may not pick its account: a CONNECT that names one is an authorization violation."""
    client = session.dial()
    client.frame()
    return client.until_closed(connect_line(account="mine"))


@catalogue.case("core.connect.credentials-not-needed")
def credentials_not_needed(session: Session) -> Observation:
    """A server without authentication accepts any user, password and token."""
    return session.handshake(user="who", auth_token="ever")


@catalogue.case("core.connect.bad-json-of-known-client")
def bad_json_later(session: Session) -> Observation:
    """A bad second CONNECT ends a connection that was working."""
    client = session.connect()
    client.exchange("SUB foo 1\r\n")
    return client.until_closed("CONNECT nope\r\n")
