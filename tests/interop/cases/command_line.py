"""The program at the shell: its flags, `-t`, and starts that end by themselves."""

import re
import signal

from tests.interop.case import Catalogue
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.kit.server_process import LOOPBACK_FLAGS, LogLine, Setup

catalogue = Catalogue(None)

_VERSION_LINE = re.compile(r"nats-server: v2\.15\.\d+\n(headwater: v\S+\n)?")


def is_version_line(value: Observation) -> bool:
    return isinstance(value, str) and _VERSION_LINE.fullmatch(value) is not None


def is_usage(value: Observation) -> bool:
    return isinstance(value, str) and "Usage" in value and "--port" in value


def is_exit_code(value: Observation) -> bool:
    return value in (0, 2)


USAGE = (Mask("stdout", is_usage, "each program explains itself"),)
MISTAKE = (*USAGE, Mask("exit_code", is_exit_code, "ours is 2: docs/divergence.md"))
VERSION = (Mask("stdout", is_version_line, "a build's own digit; our own version may follow"),)


@catalogue.case("cli.version.long", masks=VERSION)
def version_long(session: Session) -> Observation:
    """`--version` prints the version the server speaks as."""
    return session.run("--version")


@catalogue.case("cli.version.short", masks=VERSION)
def version_short(session: Session) -> Observation:
    """`-v` is `--version`."""
    return session.run("-v")


@catalogue.case("cli.version.word", masks=VERSION)
def version_word(session: Session) -> Observation:
    """`version` as a word does what the flag does."""
    return session.run("version")


@catalogue.case("cli.help", masks=USAGE)
def help_text(session: Session) -> Observation:
    """`-h` prints the usage on standard output and ends with code 0."""
    return session.run("-h")


@catalogue.case("cli.help-word", masks=USAGE)
def help_word(session: Session) -> Observation:
    """`help` as a word does what the flag does."""
    return session.run("help")


@catalogue.case("cli.flag.unknown", masks=MISTAKE)
def unknown_flag(session: Session) -> Observation:
    """An unknown flag is named, and the usage printed."""
    done = session.run("--nope")
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    return {"exit_code": done["exit_code"], "stdout": done["stdout"], "first": stderr[:1]}


@catalogue.case("cli.flag.bad-number", masks=MISTAKE)
def bad_number(session: Session) -> Observation:
    """A value of the wrong kind is named with its flag."""
    done = session.run("-p", "many")
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    return {"exit_code": done["exit_code"], "stdout": done["stdout"], "first": stderr[:1]}


@catalogue.case("cli.flag.missing-value", masks=MISTAKE)
def missing_value(session: Session) -> Observation:
    """A flag that needs a value and has none is named."""
    done = session.run("-p")
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    return {"exit_code": done["exit_code"], "stdout": done["stdout"], "first": stderr[:1]}


@catalogue.case("cli.word.unknown")
def unknown_word(session: Session) -> Observation:
    """A word that is no command is refused by name."""
    return session.run("nope")


@catalogue.case("cli.config.missing-file")
def missing_config_file(session: Session) -> Observation:
    """A configuration file that is not there is named."""
    return session.run("-c", "absent.conf")


@catalogue.case("cli.config.is-a-directory")
def config_is_a_directory(session: Session) -> Observation:
    """A directory in place of a configuration file is named."""
    return session.run("-c", ".")


@catalogue.case("cli.test-config.valid")
def test_valid_config(session: Session) -> Observation:
    """`-t` reads the configuration, says that it is valid with its digest, and ends with code 0.

    The digest is taken over the values, so that comments and order of keys do not change it.
    """
    (session.directory / "good.conf").write_text(
        "# a comment\nport: 4333 # another\nmax_payload = 2MB\n"
        'authorization { user: a, pass: "b<c>" }\n'
        'server_tags: [x, y]\ndebug: off\nping_interval: "1.5m"\n'
    )
    return session.run("-t", "-c", "good.conf")


@catalogue.case("cli.test-config.digest-of-values")
def test_digest(session: Session) -> Observation:
    """Two spellings of one configuration have one digest."""
    (session.directory / "one.conf").write_text('port: 4333\ndebug: true\nhost: "x"\n')
    (session.directory / "two.conf").write_text("host = x; debug = yes\n\n  port 4333 # same\n")
    one, two = (str(session.run("-t", "-c", f"{name}.conf")["stdout"]) for name in ("one", "two"))
    return one.replace("one", "two") == two


@catalogue.case("cli.test-config.invalid")
def test_invalid_config(session: Session) -> Observation:
    """`-t` of a bad configuration prints the error of a start."""
    (session.directory / "bad.conf").write_text("port: 4333\nnope: 1\n")
    return session.run("-t", "-c", "bad.conf")


@catalogue.case("cli.test-config.no-file")
def test_without_config(session: Session) -> Observation:
    """`-t` without a file is an error of its own."""
    return session.run("-t")


@catalogue.case("cli.signal.no-such-process")
def signal_to_nobody(session: Session) -> Observation:
    """`--signal` to a pid nobody has is an error."""
    return session.run("--signal", "reload=4194303")


@catalogue.case("cli.signal.unknown")
def signal_unknown(session: Session) -> Observation:
    """`--signal` with a word that is no signal is refused by name."""
    return session.run("--signal", "dance=1")


@catalogue.case("cli.server-name-with-spaces")
def server_name_with_spaces(session: Session) -> Observation:
    """A server name with a space is refused."""
    return session.run("-a", "127.0.0.1", "-p", "-1", "-n", "two words")


@catalogue.case("cli.port.out-of-range")
def port_out_of_range(session: Session) -> Observation:
    """A port past 65535 cannot be listened on."""
    done = session.run("-a", "127.0.0.1", "-p", "70000")
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    return {"exit_code": done["exit_code"], "last": stderr[-1:]}


@catalogue.case("cli.address.not-ours")
def address_not_ours(session: Session) -> Observation:
    """An address that cannot be bound is a fatal error that names it."""
    done = session.run("-a", "203.0.113.1", "-p", "4299")
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    return {"exit_code": done["exit_code"], "last": stderr[-1]}


@catalogue.case(
    "cli.flag.equals-sign",
    setup=Setup(flags=("-a=127.0.0.1", "--port=-1", "--name=equal", "-m=-1")),
    own_server=True,
)
def flag_with_equals_sign(session: Session) -> Observation:
    """Flags take their value after a space or an equals sign, with one dash or two."""
    return session.dial().frame()


@catalogue.case(
    "cli.flag.overrides-config",
    setup=Setup(
        "port: 1\nserver_name: fromfile\nauthorization { user: f, password: f }\n",
        (*LOOPBACK_FLAGS, "--user", "x", "--pass", "y"),
    ),
    own_server=True,
)
def flag_overrides_config(session: Session) -> Observation:
    """A flag wins over the configuration file."""
    return {
        "info": session.dial().frame(),
        "flag": session.handshake(user="x", **{"pass": "y"}),
        "file": session.handshake(user="f", **{"pass": "f"}),
    }


@catalogue.case(
    "cli.flag.long-names",
    setup=Setup(
        flags=("--addr", "127.0.0.1", "--port", "-1", "--server_name", "long", "--http_port", "-1")
    ),
    own_server=True,
)
def long_names(session: Session) -> Observation:
    """Each short flag has a long name."""
    return {"info": session.dial().frame(), "status": session.get("/healthz")}


@catalogue.case("cli.flag.debug", setup=Setup(flags=(*LOOPBACK_FLAGS, "-D")), own_server=True)
def debug_flag(session: Session) -> Observation:
    """`-D` adds debug lines: a connection coming and going is logged with its cid."""
    before = len(session.server.log)
    client = session.connect(name="watched")
    client.half_close()
    session.server.wait_for_log("closed", before)
    lines = session.server.log[before:]
    where = f"127.0.0.1:{client.local_port} - cid:{client.client_id}"
    return [f"{line.level} {line.text}".replace(where, "CLIENT") for line in lines]


@catalogue.case("cli.flag.trace", setup=Setup(flags=(*LOOPBACK_FLAGS, "-V")), own_server=True)
def trace_flag(session: Session) -> Observation:
    """`-V` traces every operation in and out, the password hidden."""
    client = session.connect(user="u", **{"pass": "p"})
    session.server.wait_for_log("[PONG]")
    before = len(session.server.log)
    client.exchange("SUB foo 1\r\nPUB foo 2\r\nhi\r\nUNSUB 1\r\n")
    where = f"127.0.0.1:{client.local_port} - cid:{client.client_id}"
    session.server.wait_for_log("[PONG]", before)
    lines = session.server.log[before:]
    return [f"{line.level} {line.text}".replace(where, "CLIENT") for line in lines]


@catalogue.case("cli.log-file")
def log_file(session: Session) -> Observation:
    """`-l` sends the log to a file, fatal errors included, and leaves standard error empty."""
    done = session.run("-a", "127.0.0.1", "-p", "70000", "-l", "server.log")
    lines = (session.directory / "server.log").read_text().splitlines()
    parsed = [LogLine.parse(line) for line in lines]
    return {"done": done, "last": [parsed[-1].level, parsed[-1].text]}


@catalogue.case(
    "cli.signal.empty",
    setup=Setup(flags=(*LOOPBACK_FLAGS, "--signal", "")),
    own_server=True,
)
def empty_signal(session: Session) -> Observation:
    """An empty `--signal` is as good as none: the server starts."""
    session.server.signal(signal.SIGTERM)
    return session.server.wait_for_exit()
