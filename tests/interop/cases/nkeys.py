"""Users with nkeys: the nonce of INFO, its signature, and the configuration of such users."""

import base64

from headwater.wire.credentials.nkeys import KeyKind, KeyPair
from tests.interop.case import Catalogue
from tests.interop.cases.configuration import refused
from tests.interop.observation import Observation
from tests.interop.session import Session, connect_line
from tests.kit.server_process import Setup
from tests.kit.wire_client import WireClient

ADA = KeyPair(KeyKind.USER, b"a" * 32)
EVE = KeyPair(KeyKind.USER, b"e" * 32)
ACCOUNT = KeyPair(KeyKind.ACCOUNT, b"c" * 32)

SIGNERS = Setup(
    f"""
authorization {{
  users: [
    {{ nkey: {ADA.public}, permissions: {{ publish: "ada.>" }} }}
    {{ user: bob, password: secret }}
  ]
}}
"""
)
ACCOUNTS = Setup(
    f"""
accounts {{
  STAFF {{ users: [ {{ nkey: {ADA.public} }} ] }}
  OPEN {{ users: [ {{ user: guest }} ] }}
}}
no_auth_user: guest
"""
)

catalogue = Catalogue(SIGNERS)


def greeted(session: Session) -> tuple[WireClient, str]:
    """A connection that has read INFO, and the nonce in it."""
    client = session.dial()
    frame = client.frame()
    assert isinstance(frame, dict)
    return client, frame["INFO"].get("nonce", "")


def signature(key: KeyPair, nonce: str) -> str:
    return base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")


def signed(session: Session, key: KeyPair = ADA, said: str = "", **options: object) -> Observation:
    """The answer to a client that has signed its nonce, and to what it says then."""
    client, nonce = greeted(session)
    sig = signature(key, nonce)
    return client.exchange(connect_line(**{"nkey": key.public, "sig": sig, **options}) + said)


@catalogue.case("nkeys.info-has-a-nonce")
def info_has_a_nonce(session: Session) -> Observation:
    """INFO has a nonce of 15 letters, another one for every connection."""
    nonces = [greeted(session)[1] for _ in range(3)]
    return [[len(nonce) for nonce in nonces], len(set(nonces))]


@catalogue.case("nkeys.accepted")
def accepted(session: Session) -> Observation:
    """A user that has signed the nonce is let in."""
    return signed(session, verbose=True, protocol=1)


@catalogue.case("nkeys.permissions")
def permissions(session: Session) -> Observation:
    """The permissions of the user hold."""
    return signed(session, said="PUB ada.x 0\r\n\r\nPUB bob.x 0\r\n\r\n")


@catalogue.case("nkeys.standard-base64")
def standard_base64(session: Session) -> Observation:
    """A signature may be written in the other alphabet, with padding."""
    client, nonce = greeted(session)
    sig = base64.b64encode(ADA.sign(nonce.encode())).decode()
    return client.exchange(connect_line(nkey=ADA.public, sig=sig))


@catalogue.case("nkeys.signature-of-another")
def signature_of_another(session: Session) -> Observation:
    """The signature of another key is a violation."""
    client, nonce = greeted(session)
    return client.exchange(connect_line(nkey=ADA.public, sig=signature(EVE, nonce)))


@catalogue.case("nkeys.old-nonce")
def old_nonce(session: Session) -> Observation:
    """The signature of another connection's nonce is a violation."""
    _, nonce = greeted(session)
    client, _ = greeted(session)
    return client.exchange(connect_line(nkey=ADA.public, sig=signature(ADA, nonce)))


@catalogue.case("nkeys.no-signature")
def no_signature(session: Session) -> Observation:
    """A key without a signature is a violation."""
    return [session.handshake(nkey=ADA.public), session.handshake(nkey=ADA.public, sig="")]


@catalogue.case("nkeys.signature-is-no-base64")
def signature_is_no_base64(session: Session) -> Observation:
    """A signature that cannot be decoded is a violation."""
    return session.handshake(nkey=ADA.public, sig="!")


@catalogue.case("nkeys.unknown")
def unknown_key(session: Session) -> Observation:
    """A key that is no user's is a violation, however well it signs."""
    return signed(session, EVE)


@catalogue.case("nkeys.key-as-user")
def key_as_user(session: Session) -> Observation:
    """The key is no name that stands for itself."""
    return [session.handshake(user=ADA.public), session.handshake(user=ADA.public, **{"pass": ""})]


@catalogue.case("nkeys.passwords-beside-keys")
def passwords_beside_keys(session: Session) -> Observation:
    """Users with passwords log in beside users with keys."""
    return session.handshake(user="bob", **{"pass": "secret"})


@catalogue.case("nkeys.shown-by-connz", own_server=True)
def shown_by_connz(session: Session) -> Observation:
    """/connz shows the key as the user."""
    client, nonce = greeted(session)
    client.exchange(connect_line(nkey=ADA.public, sig=signature(ADA, nonce)))
    shown = session.get("/connz?auth=1")["connz"]["connections"][-1]
    return (
        [shown["authorized_user"], shown["account"]]
        if "account" in shown
        else shown["authorized_user"]
    )


@catalogue.case("nkeys.in-accounts", setup=ACCOUNTS)
def in_accounts(session: Session) -> Observation:
    """A user with a key lives in its account, and another one stands in for clients without."""
    return [signed(session, protocol=1), session.handshake(protocol=1), signed(session, EVE)]


def users(*entries: str) -> str:
    return f"authorization {{ users: [ {', '.join(entries)} ] }}\n"


REFUSED = [
    ("of-an-account", users(f"{{nkey: {ACCOUNT.public}}}")),
    ("no-key", users("{nkey: abc}")),
    ("mistyped", users(f"{{nkey: {ADA.public[:-1]}A}}")),
    ("number", users("{user: a, password: b}", "{nkey: 5}")),
    ("twice", users(f"{{nkey: {ADA.public}}}", f"{{nkey: {ADA.public}}}")),
    ("beside-a-single-user", f"authorization {{ user: x, users: [ {{nkey: {ADA.public}}} ] }}\n"),
    (
        "in-two-accounts",
        f"accounts {{ A {{ users: [ {{nkey: {ADA.public}}} ] }}\n"
        f"B {{ users: [ {{nkey: {ADA.public}}} ] }} }}\n",
    ),
]


def _register(name: str, text: str) -> None:
    def script(session: Session) -> Observation:
        return refused(session, text)

    script.__doc__ = f"A configuration with a key that is {name.replace('-', ' ')} is refused."
    script.__name__ = f"refused_{name.replace('-', '_')}"
    catalogue.case(f"nkeys.error.{name}")(script)


for _name, _text in REFUSED:
    _register(_name, _text)
