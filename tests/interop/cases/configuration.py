"""Configuration files: what the grammar accepts, and the words in which errors are reported."""

import re

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup

catalogue = Catalogue(None)

LISTENING = 'listen: "127.0.0.1:-1"\nhttp: "127.0.0.1:-1"\nserver_name: interop\n'


def refused(session: Session, config: str, *files: tuple[str, str]) -> Observation:
    """The end of a start with this configuration."""
    done = session.fail_to_start(Setup(config, ("-a", "127.0.0.1", "-p", "-1"), files))
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    kept = [line for line in stderr if line["level"] not in ("INF", "WRN")]
    return {"exit_code": done["exit_code"], "stdout": done["stdout"], "stderr": kept}


@catalogue.case("config.error.unknown-key", text='unknown field "nope"')
def unknown_key(session: Session) -> Observation:
    """An unknown key is refused with file, line and column."""
    return refused(session, "debug: false\nnope: 1\n")


@catalogue.case("config.error.unknown-key-inside")
def unknown_key_inside(session: Session) -> Observation:
    """An unknown key inside a block is refused the same way."""
    return refused(session, "authorization {\n  user: a\n    flavour: salt\n}\n")


@catalogue.case("config.error.several")
def several_errors(session: Session) -> Observation:
    """Every error of a file is reported, not the first alone, in no particular order."""
    done = session.fail_to_start(Setup("nope: 1\nneither: 2\nport: x\n", ()))
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    return sorted(line["text"].removeprefix("nats-server: ") for line in stderr)


@catalogue.case("config.error.wrong-type")
def wrong_type(session: Session) -> Observation:
    """A value of the wrong type is refused with both types."""
    return refused(session, "max_connections: many\n")


@catalogue.case("config.error.bad-duration")
def bad_duration(session: Session) -> Observation:
    """A malformed duration is refused."""
    return refused(session, 'write_deadline: "soon"\n')


@catalogue.case("config.error.bad-listen")
def bad_listen(session: Session) -> Observation:
    """A `listen` without a port that is a number is refused."""
    return refused(session, 'listen: "127.0.0.1:port"\n')


@catalogue.case("config.error.unclosed-map")
def unclosed_map(session: Session) -> Observation:
    """A block that is not closed is a parse error."""
    return refused(session, "authorization {\n  user: a\n")


@catalogue.case("config.error.map-terminator")
def map_terminator(session: Session) -> Observation:
    """Entries of a block on one line need a comma between them."""
    return refused(session, "authorization { user: a password: b }\n")


@catalogue.case("config.error.unclosed-string")
def unclosed_string(session: Session) -> Observation:
    """A string that is not closed is a parse error."""
    return refused(session, 'server_name: "abc\n')


@catalogue.case("config.error.unclosed-array")
def unclosed_array(session: Session) -> Observation:
    """An array that is not closed is a parse error."""
    return refused(session, "server_tags: [a, b\n")


@catalogue.case("config.error.key-without-value")
def key_without_value(session: Session) -> Observation:
    """A key without a value is a parse error."""
    return refused(session, "port:\n")


@catalogue.case("config.error.bad-escape")
def bad_escape(session: Session) -> Observation:
    """An unknown escape in a string is a parse error that lists the known ones."""
    return refused(session, 'server_name: "a\\qb"\n')


@catalogue.case("config.error.missing-variable")
def missing_variable(session: Session) -> Observation:
    """A variable that is neither defined nor in the environment is named."""
    return refused(session, "max_payload: $NOT_DEFINED_ANYWHERE\n")


@catalogue.case("config.error.missing-include")
def missing_include(session: Session) -> Observation:
    """An included file that is not there is named."""
    return refused(session, "include ./absent.conf\n")


@catalogue.case("config.error.inside-include")
def error_inside_include(session: Session) -> Observation:
    """An error in an included file is reported with the name of that file."""
    return refused(session, "include ./part.conf\n", ("part.conf", "debug: true\nnope: 1\n"))


@catalogue.case("config.error.parse-inside-include")
def parse_error_inside_include(session: Session) -> Observation:
    """A parse error in an included file is reported through the file that includes it."""
    return refused(session, "include ./part.conf\n", ("part.conf", "a {\n"))


@catalogue.case("config.error.user-and-users")
def user_and_users(session: Session) -> Observation:
    """One user and a list of users exclude each other."""
    return refused(session, "authorization { user: a, password: b, users: [{user: c}] }\n")


@catalogue.case("config.error.user-and-token")
def user_and_token(session: Session) -> Observation:
    """A user and a token exclude each other."""
    return refused(session, "authorization { user: a, password: b, token: c }\n")


@catalogue.case("config.error.duplicate-user")
def duplicate_user(session: Session) -> Observation:
    """A user may be listed once."""
    return refused(session, "authorization { users: [{user: a}, {user: a}] }\n")


@catalogue.case("config.error.user-without-name")
def user_without_name(session: Session) -> Observation:
    """An entry of the list of users needs a name."""
    return refused(session, "authorization { users: [{password: a}] }\n")


@catalogue.case("config.error.no-auth-user-unknown")
def no_auth_user_unknown(session: Session) -> Observation:
    """`no_auth_user` has to be one of the users."""
    return refused(session, "authorization { users: [{user: a}] }\nno_auth_user: b\n")


@catalogue.case("config.error.permission-subject")
def permission_subject(session: Session) -> Observation:
    """A permission is a valid subject. Headwater also names its place (docs/divergence.md)."""
    config = 'authorization { users: [{user: a, permissions { publish: "a..b" }}] }\n'
    return str(refused(session, config)).replace("server.conf:1:48: ", "")


@catalogue.case("config.error.permission-key")
def permission_key(session: Session) -> Observation:
    """An unknown key among permissions is refused."""
    config = "authorization { users: [{user: a, permissions { pubish: x }}] }\n"
    return refused(session, config)


@catalogue.case("config.error.user-in-two-accounts")
def user_in_two_accounts(session: Session) -> Observation:
    """A user belongs to one account. Which of the two is reported is chance."""
    config = "accounts { A { users: [{user: u}] }, B { users: [{user: u}] } }\n"
    return re.sub(r"server.conf:1:\d+", "server.conf:1:N", str(refused(session, config)))


@catalogue.case("config.error.reserved-account")
def reserved_account(session: Session) -> Observation:
    """`$G` cannot be defined: it is always there."""
    return refused(session, "accounts { $G { users: [{user: u}] } }\n")


@catalogue.case("config.error.lame-duck-too-short")
def lame_duck_too_short(session: Session) -> Observation:
    """A lame duck lasts thirty seconds at least."""
    return refused(session, 'lame_duck_duration: "5s"\n')


@catalogue.case("config.error.grace-past-duration")
def grace_past_duration(session: Session) -> Observation:
    """The grace period of a lame duck is shorter than the whole."""
    return refused(session, 'lame_duck_duration: "30s"\nlame_duck_grace_period: "40s"\n')


@catalogue.case("config.error.max-payload-past-pending")
def max_payload_past_pending(session: Session) -> Observation:
    """A payload limit above the pending limit could never be delivered and is refused."""
    return refused(session, "max_payload: 2MB\nmax_pending: 1MB\n")


@catalogue.case("config.error.system-account-unknown")
def system_account_unknown(session: Session) -> Observation:
    """The system account has to be one of the accounts."""
    return refused(session, "system_account: NOPE\naccounts { A { users: [{user: u}] } }\n")


@catalogue.case("config.error.max-payload-overflow")
def max_payload_overflow(session: Session) -> Observation:
    """A payload limit has 32 bits."""
    return refused(session, "max_payload: 5GB\n")


@catalogue.case("config.error.bad-sub-tokens")
def bad_sub_tokens(session: Session) -> Observation:
    """The limit of tokens has eight bits."""
    return refused(session, "max_sub_tokens: 300\n")


@catalogue.case(
    "config.grammar",
    setup=Setup(
        LISTENING
        + """
# comments of two kinds
// and blanks anywhere
SIZE = 2K             // a key that is used as a variable may have any name
max_payload = $SIZE
max_control_line 512 ;
'ping_interval' : 90s
"ping_max": 5
write_deadline: "3s"
include 'part.conf'
server_tags: [
  "a", b
  c ]
authorization: {
  users = [
    {user: "q\\"uote", password: 'single $SIZE'}
    {user = bare, pass = "12345"}, {user: hex, pass: "\\x41b"}
  ]
  timeout: 1.5
}
""",
        (),
        (("part.conf", "max_subscriptions: 77\nmax_pending: 3mb\n"),),
    ),
    own_server=True,
)
def grammar(session: Session) -> Observation:
    """Keys and values in all their spellings: separators, quotes, units, variables, includes."""
    varz = session.get("/varz")
    users = {'q"uote': "single $SIZE", "bare": "12345", "hex": "Ab"}
    logins = {user: session.handshake(user=user, **{"pass": users[user]}) for user in users}
    return {"varz": varz, "logins": logins}


@catalogue.case(
    "config.variable.environment",
    setup=Setup(
        LISTENING + "max_payload: $INTEROP_SIZE\nmax_control_line: $INTEROP_LINE\n",
        (),
        environment=(("INTEROP_SIZE", "3K"), ("INTEROP_LINE", "512")),
    ),
    own_server=True,
)
def variable_from_environment(session: Session) -> Observation:
    """A variable not defined before its use is taken from the environment, with its type."""
    varz = session.get("/varz")["varz"]
    return {name: varz[name] for name in ("max_payload", "max_control_line")}


@catalogue.case("config.error.variable-defined-later")
def variable_defined_later(session: Session) -> Observation:
    """A variable has to be defined before it is used."""
    return refused(session, "max_payload: $SIZE_HERE\nSIZE_HERE: 100\n")


@catalogue.case("config.error.variable-of-itself")
def variable_of_itself(session: Session) -> Observation:
    """A variable that is defined by itself is found out."""
    return refused(session, "max_payload: $max_payload\n")


@catalogue.case(
    "config.base-path", setup=Setup(LISTENING + "http_base_path: /base\n", ()), own_server=True
)
def base_path(session: Session) -> Observation:
    """`http_base_path` stands before every page of the monitoring port."""
    return {"base": session.get("/base/healthz"), "root": session.get("/healthz")}


@catalogue.case(
    "config.last-key-wins",
    setup=Setup(LISTENING + "max_payload: 10\nmax_payload: 20\n", ()),
    own_server=True,
)
def last_key_wins(session: Session) -> Observation:
    """Of two equal keys the later one holds."""
    return session.dial().frame()


@catalogue.case(
    "config.key-case",
    setup=Setup(LISTENING + "Max_Payload: 10\nPING_MAX: 7\n", ()),
    own_server=True,
)
def key_case(session: Session) -> Observation:
    """Keys of the configuration are matched whatever their case."""
    varz = session.get("/varz")["varz"]
    return {name: varz[name] for name in ("max_payload", "ping_max")}
