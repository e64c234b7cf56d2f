"""TLS: handshakes before and after INFO, certificates of clients, and clients without TLS."""

import ssl

from tests.interop.case import Catalogue
from tests.interop.cases.configuration import refused
from tests.interop.observation import Observation
from tests.interop.session import Session, connect_line
from tests.kit.server_process import LOOPBACK_FLAGS, Setup
from tests.kit.tls_files import EMAIL, ORGANIZATION, tls_files
from tests.kit.wire_client import WireClient

FILES = tls_files()
PAIR = "cert_file: server.pem, key_file: server-key.pem"
VERIFY = f"{PAIR}, ca_file: authority.pem, verify: true"
MAP = f"{PAIR}, ca_file: authority.pem, verify_and_map: true"


def setup_of(tls: str, rest: str = "") -> Setup:
    """A server with this section."""
    return Setup(f"tls {{ {tls} }}\n{rest}\n", files=FILES.server_files())


REQUIRED = setup_of(PAIR)
VERIFIED = setup_of(VERIFY)

catalogue = Catalogue(REQUIRED)


def secured(session: Session, name: str = "") -> WireClient:
    """A connection behind INFO and its handshake."""
    client = session.dial()
    client.frame()
    client.secure(FILES.client_context(name))
    return client


def spoken(session: Session, name: str = "", **options: object) -> Observation:
    """The frames that answer CONNECT and PING on a secured connection."""
    return secured(session, name).exchange(connect_line(**options))


def refusal(session: Session, name: str = "") -> Observation:
    """The end of a handshake that is refused: an alert, or the close of the connection."""
    try:
        frames = secured(session, name).until_closed()
    except OSError:
        return "refused"
    return "refused" if frames[-1] == "<closed>" and len(frames) == 1 else frames


def shown(session: Session, query: str = "auth=1") -> Observation:
    """The members about TLS of the newest connection in /connz."""
    page = session.get(f"/connz?{query}")["connz"]
    newest = page["connections"][-1]
    return {key: value for key, value in newest.items() if key.startswith("tls")}


# --- INFO and the handshake --------------------------------------------------------------------


@catalogue.case("tls.info-says-required")
def info_says_required(session: Session) -> Observation:
    """INFO is clear text and says that TLS is required."""
    return session.dial().frame()


@catalogue.case("tls.info-says-verify", setup=VERIFIED)
def info_says_verify(session: Session) -> Observation:
    """INFO says that certificates of clients are verified."""
    return session.dial().frame()


@catalogue.case("tls.spoken")
def spoken_over_tls(session: Session) -> Observation:
    """Behind the handshake everything is as usual, with INFO behind the first PING."""
    return spoken(session, protocol=1)


@catalogue.case("tls.large-messages")
def large_messages(session: Session) -> Observation:
    """Messages of many records cross in both directions."""
    client = secured(session)
    payload = "x" * 300_000
    client.exchange(connect_line())
    return client.exchange(f"SUB a 1\r\nPUB a {len(payload)}\r\n{payload}\r\n")


@catalogue.case("tls.plain-client-is-closed")
def plain_client(session: Session) -> Observation:
    """A client that speaks plainly is closed without a word."""
    client = session.dial()
    client.frame()
    return client.until_closed(connect_line() + "PING\r\n")


@catalogue.case("tls.plain-client-reason", own_server=True)
def plain_client_reason(session: Session) -> Observation:
    """/connz tells why such a client was closed."""
    client = session.dial()
    client.frame()
    client.until_closed("PING\r\n")
    page = session.get_when(
        "/connz?state=closed", lambda found: bool(found["connz"]["connections"])
    )
    reason: str = page["connz"]["connections"][-1]["reason"]
    return reason


@catalogue.case("tls.silent-client-is-closed", setup=setup_of(f"{PAIR}, timeout: 0.1"))
def silent_client(session: Session) -> Observation:
    """A client that makes no handshake in time is closed."""
    client = session.dial()
    client.frame()
    return client.until_closed()


@catalogue.case("tls.shown-by-connz", setup=setup_of(f'{PAIR}, min_version: "1.2"'))
def shown_by_connz(session: Session) -> Observation:
    """/connz shows the version, and the suite of a client that knows one alone."""
    context = FILES.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    client = session.dial()
    client.frame()
    client.secure(context)
    client.exchange(connect_line())
    return shown(session)


@catalogue.case("tls.varz", own_server=True)
def varz(session: Session) -> Observation:
    """/varz shows that TLS is required, the time for CONNECT and the end of the certificate."""
    page = session.get("/varz")["varz"]
    return {key: value for key, value in page.items() if "tls" in key or key == "auth_timeout"}


@catalogue.case("tls.only-1-3", setup=setup_of(f'{PAIR}, min_version: "1.3"'))
def only_tls_1_3(session: Session) -> Observation:
    """A client of TLS 1.2 is refused if the least version is 1.3."""
    context = FILES.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    client = session.dial()
    client.frame()
    try:
        client.secure(context)
    except ssl.SSLError as error:
        return error.reason
    return "accepted"


# --- clients without TLS -----------------------------------------------------------------------

OPTIONAL = setup_of(PAIR, "allow_non_tls: true")


@catalogue.case("tls.optional.info", setup=OPTIONAL)
def optional_info(session: Session) -> Observation:
    """INFO says that TLS is available if clients may go on without."""
    return session.dial().frame()


@catalogue.case("tls.optional.plain", setup=OPTIONAL)
def optional_plain(session: Session) -> Observation:
    """A client may go on without TLS."""
    return session.handshake(protocol=1)


@catalogue.case("tls.optional.secured", setup=OPTIONAL)
def optional_secured(session: Session) -> Observation:
    """Another client of the same server uses TLS."""
    return spoken(session, protocol=1)


# --- the handshake first -----------------------------------------------------------------------


@catalogue.case("tls.first", setup=setup_of(f"{PAIR}, handshake_first: true"))
def handshake_first(session: Session) -> Observation:
    """The handshake comes before INFO."""
    client = session.dial()
    client.secure(FILES.client_context())
    info = client.frame()
    frames = client.exchange(connect_line())
    page = shown(session)
    assert isinstance(page, dict)
    return {"info": info, "spoken": frames, "shown": page["tls_first"]}


@catalogue.case("tls.first.plain", setup=setup_of(f"{PAIR}, handshake_first: true"))
def handshake_first_plain(session: Session) -> Observation:
    """A client that speaks first and plainly gets no INFO."""
    return session.dial().until_closed(connect_line())


@catalogue.case("tls.first.auto", setup=setup_of(f"{PAIR}, handshake_first: auto"))
def handshake_first_auto(session: Session) -> Observation:
    """A silent client gets INFO as clear text after a while, and makes its handshake then."""
    return {"silent": spoken(session), "early": _early(session)}


@catalogue.case("tls.first.wait", setup=setup_of(f'{PAIR}, handshake_first: "20ms"'))
def handshake_first_wait(session: Session) -> Observation:
    """The time of silence is configurable."""
    return {"silent": spoken(session), "early": _early(session)}


def _early(session: Session) -> Observation:
    client = session.dial()
    client.secure(FILES.client_context())
    client.frame()
    return client.exchange(connect_line())


# --- certificates of clients -------------------------------------------------------------------


@catalogue.case("tls.verify.accepted", setup=VERIFIED)
def verified(session: Session) -> Observation:
    """A client with a certificate of the authority is accepted."""
    return spoken(session, "client")


@catalogue.case("tls.verify.missing", setup=VERIFIED)
def missing_certificate(session: Session) -> Observation:
    """A client without a certificate is refused."""
    return refusal(session)


@catalogue.case("tls.verify.stranger", setup=VERIFIED)
def stranger(session: Session) -> Observation:
    """A client with a certificate of another authority is refused."""
    return refusal(session, "eve")


@catalogue.case("tls.verify.shown-by-connz", setup=VERIFIED)
def certificates_shown(session: Session) -> Observation:
    """/connz shows the certificates that a client presented to those who ask for identities."""
    client = secured(session, "client")
    client.exchange(connect_line())
    found = [shown(session), shown(session, "auth=0")]
    return [each.get("tls_peer_certs") for each in found if isinstance(each, dict)]


def map_to(user: str) -> Setup:
    """A server with one user, who is known by a certificate."""
    return setup_of(MAP, f'authorization {{ users: [ {{ user: "{user}" }} ] }}')


@catalogue.case("tls.map.email", setup=map_to(EMAIL))
def mapped_email(session: Session) -> Observation:
    """An e-mail address in the certificate names the user."""
    return [spoken(session, "ada"), spoken(session, "client")]


@catalogue.case("tls.map.subject", setup=map_to(f"CN=client,O={ORGANIZATION}"))
def mapped_subject(session: Session) -> Observation:
    """The subject of the certificate names the user."""
    return [spoken(session, "client"), spoken(session, "ada")]


@catalogue.case("tls.map.subject-reversed", setup=map_to(f"O={ORGANIZATION}, CN=client"))
def mapped_subject_reversed(session: Session) -> Observation:
    """The parts of the subject may be written in another order, with blanks."""
    return spoken(session, "client")


@catalogue.case("tls.map.nobody", setup=map_to("somebody"))
def mapped_to_nobody(session: Session) -> Observation:
    """A certificate that names no user is a violation, whatever CONNECT says."""
    return spoken(session, "client", user="somebody")


MAP_WITH_PASSWORD = setup_of(
    MAP, f'authorization {{ users: [ {{ user: "CN=client,O={ORGANIZATION}", password: pw }} ] }}'
)


@catalogue.case("tls.map.password", setup=MAP_WITH_PASSWORD)
def mapped_with_password(session: Session) -> Observation:
    """A user with a password needs it beside the certificate."""
    return [
        spoken(session, "client"),
        spoken(session, "client", **{"pass": "no"}),
        spoken(session, "client", **{"pass": "pw"}),
    ]


MAP_WITH_STAND_IN = setup_of(
    MAP,
    f'authorization {{ users: [ {{ user: "{EMAIL}" }}, {{ user: bob, password: pw }} ] }}\n'
    "no_auth_user: bob",
)


@catalogue.case("tls.map.stand-in", setup=MAP_WITH_STAND_IN)
def mapped_stand_in(session: Session) -> Observation:
    """Nobody stands in for a client whose certificate names no user."""
    return [
        spoken(session, "client"),
        secured(session, "client").until_closed("PING\r\n"),
        spoken(session, "ada"),
    ]


@catalogue.case(
    "tls.map.only-user",
    setup=setup_of(MAP, "authorization { user: localhost, password: pw }"),
)
def mapped_only_user(session: Session) -> Observation:
    """The user of a server without others needs the password, whatever the certificate says."""
    return [
        spoken(session, "client"),
        spoken(session, "client", user="localhost", **{"pass": "pw"}),
    ]


@catalogue.case(
    "tls.map.token",
    setup=setup_of(MAP, "authorization { token: sesame }"),
)
def mapped_token(session: Session) -> Observation:
    """A token is required whatever the certificate says."""
    return [spoken(session, "client"), spoken(session, "client", auth_token="sesame")]


# --- configuration -----------------------------------------------------------------------------

configuration = [
    ("no-key", "cert_file: server.pem"),
    ("no-certificate", "key_file: server-key.pem"),
    ("missing-file", "cert_file: nowhere.pem, key_file: server-key.pem"),
    ("no-pem", "cert_file: server.conf, key_file: server-key.pem"),
    ("key-of-another", "cert_file: authority.pem, key_file: server-key.pem"),
    ("missing-authority", f"{PAIR}, ca_file: nowhere.pem"),
    ("no-authority", f"{PAIR}, ca_file: server.conf"),
    ("unknown-key", f"{PAIR}, colour: red"),
    ("wrong-type", f"{PAIR}, verify: 3"),
    ("map-as-number", f"{PAIR}, verify_and_map: 3"),
    ("file-as-number", f"{PAIR}, ca_file: 3"),
    ("unknown-cipher", f'{PAIR}, cipher_suites: ["ROT13"]'),
    ("no-ciphers", f"{PAIR}, cipher_suites: []"),
    ("unknown-curve", f'{PAIR}, curve_preferences: ["round"]'),
    ("no-curves", f"{PAIR}, curve_preferences: []"),
    ("old-version", f'{PAIR}, min_version: "1.1"'),
    ("unknown-version", f'{PAIR}, min_version: "2.0"'),
    ("version-as-number", f"{PAIR}, min_version: 1.3"),
    ("first-as-word", f"{PAIR}, handshake_first: soon"),
    ("first-as-number", f"{PAIR}, handshake_first: 3"),
    ("timeout-as-switch", f"{PAIR}, timeout: true"),
    ("timeout-as-word", f"{PAIR}, timeout: soon"),
    ("pin-is-no-hash", f'{PAIR}, pinned_certs: ["abc"]'),
    ("pins-as-text", f"{PAIR}, pinned_certs: abc"),
    ("known-urls", f"{PAIR}, verify_cert_and_check_known_urls: true"),
]


def _register(name: str, section: str) -> None:
    def script(session: Session) -> Observation:
        return refused(session, f"tls {{ {section} }}\n", *FILES.server_files())

    script.__doc__ = f"The section `tls {{ {section} }}` is refused."
    script.__name__ = f"refused_{name.replace('-', '_')}"
    catalogue.case(f"tls.error.{name}")(script)


for _name, _section in configuration:
    _register(_name, _section)


@catalogue.case("tls.error.no-section")
def no_section(session: Session) -> Observation:
    """A `tls` that is no section is refused."""
    return refused(session, "tls: 5\n")


@catalogue.case(
    "tls.flags",
    setup=Setup(
        flags=(*LOOPBACK_FLAGS, "--tls", "--tlscert", "server.pem", "--tlskey", "server-key.pem"),
        files=FILES.server_files(),
    ),
)
def by_flags(session: Session) -> Observation:
    """Flags switch TLS on."""
    return [session.dial().frame(), spoken(session)]


@catalogue.case(
    "tls.flags.verify",
    setup=Setup(
        flags=(
            *LOOPBACK_FLAGS,
            "--tlsverify",
            "--tlscert",
            "server.pem",
            "--tlskey",
            "server-key.pem",
            "--tlscacert",
            "authority.pem",
        ),
        files=FILES.server_files(),
    ),
)
def verify_by_flags(session: Session) -> Observation:
    """Flags require certificates of clients."""
    return [session.dial().frame(), spoken(session, "client"), refusal(session)]


def _fails(session: Session, *flags: str) -> Observation:
    done = session.fail_to_start(
        Setup("", ("-a", "127.0.0.1", "-p", "-1", *flags), FILES.server_files())
    )
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    kept = [line for line in stderr if line["level"] not in ("INF", "WRN")]
    return {"exit_code": done["exit_code"], "stderr": kept}


@catalogue.case("tls.flags.errors")
def flag_errors(session: Session) -> Observation:
    """Flags that name no certificate, no key or no file are refused."""
    pair = ("--tlscert", "server.pem", "--tlskey", "server-key.pem")
    return [
        _fails(session, "--tls"),
        _fails(session, "--tls", "--tlscert", "server.pem"),
        _fails(session, "--tls", "--tlscert", "nowhere.pem", "--tlskey", "server-key.pem"),
        _fails(session, *pair, "--tlscacert", "nowhere.pem"),
        _fails(session, "--tlsverify"),
        _fails(session, "-ms", "-1"),
        _fails(session, "-m", "-1", "-ms", "-1", *pair),
    ]
