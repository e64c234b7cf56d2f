"""Authentication: user and password, token, bcrypt, no_auth_user, and the time a client has."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session, connect_line
from tests.kit.server_process import LOOPBACK_FLAGS, Setup

BCRYPT_OF_SESAME = "$2a$04$61Po9L0vYXrQxmORAHyfb.Bw0hR.T6IzD/ZGwr8xmPZIKU/jybefO"

ONE_USER = Setup("authorization { user: ada, password: secret }\n")
TOKEN = Setup("authorization { token: s3cr3t }\n")
USERS = Setup(
    f"""
authorization {{
  users: [
    {{ user: ada, password: secret }}
    {{ user: bob, password: "{BCRYPT_OF_SESAME}" }}
  ]
}}
"""
)
GUEST = Setup(
    """
accounts {
  OPEN { users: [ { user: guest } ] }
  STAFF { users: [ { user: ada, password: secret } ] }
}
no_auth_user: guest
"""
)
HURRY = Setup("authorization { user: ada, password: secret, timeout: 0.05 }\n")

catalogue = Catalogue(ONE_USER)


@catalogue.case("auth.info-says-required")
def info_says_required(session: Session) -> Observation:
    """INFO of a server that wants credentials has `auth_required`."""
    return session.dial().frame()


@catalogue.case("auth.user.accepted")
def user_accepted(session: Session) -> Observation:
    """The right user and password are accepted without a word."""
    return session.handshake(user="ada", **{"pass": "secret"})


@catalogue.case("auth.user.wrong-password", text="Authorization Violation")
def wrong_password(session: Session) -> Observation:
    """A wrong password is an authorization violation and the end of the connection."""
    return session.handshake(user="ada", **{"pass": "Secret"})


@catalogue.case("auth.user.unknown")
def unknown_user(session: Session) -> Observation:
    """An unknown user is refused in the same words."""
    return session.handshake(user="eve", **{"pass": "secret"})


@catalogue.case("auth.user.missing")
def missing_credentials(session: Session) -> Observation:
    """A CONNECT without credentials is refused in the same words."""
    return session.handshake()


@catalogue.case("auth.user.verbose")
def refused_verbose(session: Session) -> Observation:
    """A refused CONNECT gets no +OK, however verbose the client."""
    return session.handshake(verbose=True)


@catalogue.case("auth.user.token-instead")
def token_instead(session: Session) -> Observation:
    """A token does not stand in for user and password."""
    return session.handshake(auth_token="secret")


@catalogue.case("auth.operation-before-connect")
def operation_before_connect(session: Session) -> Observation:
    """Any operation before CONNECT is a violation, also PING."""
    client = session.dial()
    client.frame()
    return client.until_closed("PING\r\n")


@catalogue.case("auth.unknown-operation-before-connect")
def unknown_operation_before_connect(session: Session) -> Observation:
    """A word that is no operation is a violation first: nothing is parsed before CONNECT."""
    client = session.dial()
    client.frame()
    return client.until_closed("GARBAGE\r\n")


@catalogue.case("auth.second-connect-is-checked")
def second_connect_is_checked(session: Session) -> Observation:
    """A second CONNECT is checked like the first: wrong credentials end the connection."""
    client = session.connect(user="ada", **{"pass": "secret"})
    return client.until_closed(connect_line(user="ada", **{"pass": "nope"}))


@catalogue.case(
    "auth.flags.user", setup=Setup(flags=(*LOOPBACK_FLAGS, "--user", "u", "--pass", "p"))
)
def user_by_flags(session: Session) -> Observation:
    """`--user` and `--pass` do what the configuration does."""
    return {
        "right": session.handshake(user="u", **{"pass": "p"}),
        "wrong": session.handshake(user="u", **{"pass": "q"}),
    }


@catalogue.case("auth.flags.token", setup=Setup(flags=(*LOOPBACK_FLAGS, "--auth", "tok")))
def token_by_flag(session: Session) -> Observation:
    """`--auth` sets a token."""
    return {
        "right": session.handshake(auth_token="tok"),
        "wrong": session.handshake(auth_token="kot"),
    }


@catalogue.case("auth.token.accepted", setup=TOKEN)
def token_accepted(session: Session) -> Observation:
    """The right token is accepted."""
    return session.handshake(auth_token="s3cr3t")


@catalogue.case("auth.token.wrong", setup=TOKEN)
def token_wrong(session: Session) -> Observation:
    """A wrong token, and a token given as the password, are violations."""
    return {
        "wrong": session.handshake(auth_token="secret"),
        "as password": session.handshake(**{"pass": "s3cr3t"}),
    }


@catalogue.case("auth.users.each-by-password", setup=USERS)
def users_list(session: Session) -> Observation:
    """Each user of a list has a password of its own."""
    return {
        "ada": session.handshake(user="ada", **{"pass": "secret"}),
        "ada by the password of bob": session.handshake(user="ada", **{"pass": "sesame"}),
    }


@catalogue.case("auth.bcrypt.accepted", setup=USERS)
def bcrypt_accepted(session: Session) -> Observation:
    """A password kept as a bcrypt hash is accepted in clear text."""
    return session.handshake(user="bob", **{"pass": "sesame"})


@catalogue.case("auth.bcrypt.refused", setup=USERS)
def bcrypt_refused(session: Session) -> Observation:
    """A wrong password is refused, and so is the hash itself."""
    return {
        "wrong": session.handshake(user="bob", **{"pass": "Sesame"}),
        "hash": session.handshake(user="bob", **{"pass": BCRYPT_OF_SESAME}),
    }


@catalogue.case("auth.bcrypt.order-is-kept", setup=USERS)
def bcrypt_keeps_order(session: Session) -> Observation:
    """Operations sent along with a CONNECT wait for the check and are then done in order."""
    client = session.dial()
    client.frame()
    connect = connect_line(user="bob", verbose=True, **{"pass": "sesame"})
    return client.exchange(connect + "SUB foo 1\r\nPUB foo 2\r\nhi\r\nUNSUB 1\r\n")


@catalogue.case("auth.timeout", setup=HURRY, text="Authentication Timeout")
def timeout(session: Session) -> Observation:
    """A client that does not send CONNECT in time gets an error and is closed."""
    client = session.dial()
    client.frame()
    return client.until_closed()


@catalogue.case("auth.timeout-not-after-connect", setup=HURRY)
def no_timeout_after_connect(session: Session) -> Observation:
    """The timeout ends with CONNECT; another connection's timeout shows that it has passed."""
    client = session.connect(user="ada", **{"pass": "secret"})
    idle = session.dial()
    idle.frame()
    idle.until_closed()
    return client.exchange("SUB foo 1\r\nPUB foo 2\r\nhi\r\n")


@catalogue.case("auth.no-auth-user.connect", setup=GUEST)
def no_auth_user(session: Session) -> Observation:
    """With `no_auth_user`, a CONNECT without credentials is that user's, account included."""
    client = session.dial()
    client.frame()
    client.send(connect_line(protocol=1) + "PING\r\n")
    return client.take(2)


@catalogue.case("auth.no-auth-user.info", setup=GUEST)
def no_auth_user_info(session: Session) -> Observation:
    """INFO of a server with `no_auth_user` does not claim that credentials are required."""
    return session.dial().frame()


@catalogue.case("auth.no-auth-user.before-connect", setup=GUEST)
def no_auth_user_before_connect(session: Session) -> Observation:
    """With `no_auth_user`, operations are accepted before any CONNECT."""
    client = session.dial()
    client.frame()
    return client.exchange("SUB foo 1\r\nPUB foo 2\r\nhi\r\n")


@catalogue.case("auth.no-auth-user.with-credentials", setup=GUEST)
def no_auth_user_with_credentials(session: Session) -> Observation:
    """Credentials that are given are checked: wrong ones are not turned into a guest."""
    client = session.dial()
    client.frame()
    client.send(connect_line(protocol=1, user="ada", **{"pass": "secret"}) + "PING\r\n")
    return {
        "right": client.take(2),
        "wrong": session.handshake(user="ada", **{"pass": "nope"}),
        "guest by name": session.handshake(user="guest"),
    }
