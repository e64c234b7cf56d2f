"""nats-server's command line: flags in the forms of Go's `flag` package.

`-p 4222`, `-p=4222`, `--port 4222` and `--port=4222` are the same; switches take no value or
`=true` and `=false`; the first word that is no flag ends them. Flags override the file named by
`-c`. Every flag of nats-server 2.15 is in the table: honoured, or refused by name.

A pure function of the arguments: printing, signalling and exiting are left to the caller, and
files are read through an argument.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from headwater.base.errors import OperatingError
from headwater.go.numbers import MAX_INT64, MIN_INT64
from headwater.go.quoting import quote
from headwater.runtime.tls import TlsSettings
from headwater.server.configuration.cluster_section import parse_route_url
from headwater.server.configuration.keys import ConfigError, LoadedConfig, load_config
from headwater.server.configuration.options import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    RANDOM_PORT,
    TLS_AUTH_EXTRA_S,
    ClusterOptions,
    Options,
    RouteUrl,
    TlsOptions,
)
from headwater.server.configuration.parser import ReadFile
from headwater.server.configuration.tls_section import CheckTls

__all__ = [
    "HELP",
    "Command",
    "FlagError",
    "RunServer",
    "SendSignal",
    "ShowHelp",
    "ShowVersion",
    "TestConfig",
    "UsageError",
    "parse_command_line",
]

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER: Final = re.compile(
    r"[+-]?(?:0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO]?(?:_?[0-7])+|0|[1-9](?:_?[0-9])*)"
)
# Longer integers are out of range in every base.
_INTEGER_LENGTH_MAX: Final = 200

SIGNALS: Final = ("ldm", "stop", "quit", "term", "reopen", "reload")


class FlagError(OperatingError):
    """The command line cannot be carried out. Print `nats-server: <text>` and exit with 1."""


class UsageError(OperatingError):
    """The command line cannot be read. Print the text and the help, and exit with 2."""


@dataclass(frozen=True)
class RunServer:
    """Start a server."""

    options: Options
    # Complaints about the file, one per line, for standard error.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShowVersion:
    """Print the version."""


@dataclass(frozen=True)
class ShowHelp:
    """Print the help, or that of TLS."""

    text: str = ""


@dataclass(frozen=True)
class TestConfig:
    """Say that the file is fine."""

    # pytest takes classes of this name for tests otherwise.
    __test__ = False

    config_file: str
    config_digest: str

    @property
    def message(self) -> str:
        """The text that nats-server prints on standard error, after its own name."""
        return f"configuration file {self.config_file} is valid ({self.config_digest})"


@dataclass(frozen=True)
class SendSignal:
    """Signal a running server."""

    # One of SIGNALS.
    signal: str
    # A process id, the beginning of process ids with a `*` after it, or empty for the only server.
    target: str = ""


Command: TypeAlias = RunServer | ShowVersion | ShowHelp | TestConfig | SendSignal


def parse_command_line(
    argv: Sequence[str],
    read_file: ReadFile,
    environ: Mapping[str, str],
    check_tls: CheckTls = lambda settings: None,
) -> Command:
    """Decide what to do. `argv` is without the program's name.

    Raises UsageError and FlagError, and ConfParseError and ConfigError for the file; to reload a
    configuration, call this again with the same arguments.
    """
    given, words = _split(argv)
    if given.get("version"):
        return ShowVersion()
    if given.get("help"):
        return ShowHelp()
    if given.get("help_tls"):
        return ShowHelp(HELP_TLS)
    if words:
        return _command_word(words[0])
    for name in given:
        if _FLAGS_BY_NAME[name].refused:
            flag = _FLAGS_BY_NAME[name].names[0]
            raise FlagError(f"flag -{flag} is not supported{_FLAGS_BY_NAME[name].advice}")
    if given.get("signal"):
        return _signal(given["signal"], read_file)
    checking = bool(given.get("check"))
    path = given.get("config", "")
    if checking and not path:
        raise FlagError("must specify [-c, --config] option to check configuration file syntax")
    loaded = LoadedConfig(Options(), ())
    if path:
        # nats-server takes a folder of the file for a second one, not for one to override.
        loaded = load_config(path, read_file, environ, given.get("store_dir", ""), check_tls)
    if checking and loaded.warnings:
        raise ConfigError((), loaded.warnings)
    options = _overridden_tls(_overridden(loaded.options, given), given, check_tls)
    options.validate()
    if checking:
        return TestConfig(options.config_file, options.config_digest)
    return RunServer(options, loaded.warnings)


def _command_word(word: str) -> Command:
    if word.lower() == "version":
        return ShowVersion()
    if word.lower() == "help":
        return ShowHelp()
    raise FlagError(f"unrecognized command: {quote(word)}")


def _signal(text: str, read_file: ReadFile) -> SendSignal:
    signal, *targets = text.split("=")
    if len(targets) > 1:
        raise FlagError(f"invalid signal parameters: [{' '.join(targets[1:])}]")
    target = _pid_text(targets[0], read_file) if targets else ""
    number = target.removesuffix("*")
    if number and not re.fullmatch(r"[+-]?[0-9]+", number):
        raise FlagError(f"invalid pid: {number}")
    if signal not in SIGNALS:
        raise FlagError(f"unknown signal {quote(signal)}")
    return SendSignal(signal, target)


def _pid_text(target: str, read_file: ReadFile) -> str:
    """The contents of the pid file `target`, or `target` itself if there is no such file."""
    try:
        return read_file(target).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return target


# --- options from flags ------------------------------------------------------------------------


def _overridden(options: Options, given: Mapping[str, Any]) -> Options:
    changes = {name: value for name, value in given.items() if name in _OPTION_FIELDS}
    # Flags that say several things at once win over those that say one of them.
    for name, parts in _COMBINED_SWITCHES.items():
        if name in given:
            changes.update(dict.fromkeys(parts, given[name]))
    # To nats-server these are not said when they are zero.
    if "port" in changes:
        changes["port"] = changes["port"] or DEFAULT_PORT
    if "host" in changes:
        changes["host"] = changes["host"] or DEFAULT_HOST
    jetstream = options.jetstream
    if "jetstream_enabled" in given:
        jetstream = replace(jetstream, enabled=given["jetstream_enabled"])
    if "store_dir" in given:
        jetstream = replace(jetstream, store_dir=given["store_dir"])
    cluster = _overridden_cluster(options.cluster, given)
    return replace(options, jetstream=jetstream, cluster=cluster, **changes)


def _overridden_tls(options: Options, given: Mapping[str, Any], check_tls: CheckTls) -> Options:
    """TLS by flags, which replaces all that a file says of it."""
    if not any(name in given for name in ("tls_switch", "tls_verify", *_TLS_FILES)):
        return options
    files = {name: given.get(name, "") for name in _TLS_FILES}
    if not files["cert_file"]:
        raise FlagError("TLS Server certificate must be present and valid")
    if not files["key_file"]:
        raise FlagError("TLS Server private key must be present and valid")
    settings = TlsSettings(verify=given.get("tls_verify", False), **files)
    check_tls(settings)
    tls = TlsOptions(settings)
    auth_timeout_s = options.auth_timeout_s
    if options.tls is None and auth_timeout_s == Options.auth_timeout_s:
        auth_timeout_s = tls.timeout_s + TLS_AUTH_EXTRA_S
    return replace(options, tls=tls, auth_timeout_s=auth_timeout_s)


def _overridden_cluster(cluster: ClusterOptions, given: Mapping[str, Any]) -> ClusterOptions:
    for flag, field in _CLUSTER_FLAGS.items():
        if flag in given:
            cluster = replace(cluster, **{field: given[flag]})
    if "cluster_listen" in given:
        cluster = _listening_cluster(cluster, given["cluster_listen"])
    if "routes" in given:
        routes = tuple(map(_route, filter(None, given["routes"].split(","))))
        if routes and not cluster.port:
            raise FlagError("solicited routes require cluster capabilities, e.g. --cluster")
        cluster = replace(cluster, routes=routes)
    return cluster


def _listening_cluster(cluster: ClusterOptions, text: str) -> ClusterOptions:
    """The options of a cluster that listens where a flag says; an empty text ends the cluster."""
    if not text:
        return replace(cluster, port=0)
    # A port of -1 is none that a URL may have.
    is_any_port = text.endswith(":-1")
    url = text.removesuffix(":-1") + ":0" if is_any_port else text
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        port_text = url.rpartition(":")[2]
        raise FlagError(
            f"parse {quote(url)}: invalid port {quote(':' + port_text)} after host"
        ) from None
    if port is None:
        place = f"address {host}: " if host else ""
        raise FlagError(f"{place}missing port in address")
    if parts.username and parts.password is None:
        raise FlagError("expected cluster password to be set")
    return replace(
        cluster,
        host=host or DEFAULT_HOST,
        port=RANDOM_PORT if is_any_port else port,
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def _route(text: str) -> RouteUrl:
    route = parse_route_url(text)
    if route is None:
        raise FlagError(f"error parsing route url [{quote(text.strip())}]")
    return route


_TLS_FILES: Final = ("cert_file", "key_file", "ca_file")

_CLUSTER_FLAGS: Final[Mapping[str, str]] = {
    "cluster_name": "name",
    "cluster_advertise": "advertise",
    "cluster_no_advertise": "no_advertise",
    "cluster_connect_retries": "connect_retries",
}

_COMBINED_SWITCHES: Final[Mapping[str, tuple[str, ...]]] = {
    "debug_and_trace": ("debug", "trace"),
    "debug_and_trace_verbose": ("debug", "trace", "trace_verbose"),
    "trace_verbose_switch": ("trace", "trace_verbose"),
}
_OPTION_FIELDS: Final = frozenset(Options.__dataclass_fields__)


# --- Go's flag package -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Flag:
    """One flag under all its spellings."""

    names: tuple[str, ...]
    # Name of the option it sets, or one that `parse_command_line` knows.
    field: str
    kind: type = str
    refused: bool = False
    advice: str = ""


def _split(argv: Sequence[str]) -> tuple[dict[str, Any], Sequence[str]]:
    """Values by field, and the words after the flags."""
    given: dict[str, Any] = {}
    position = 0
    while position < len(argv):
        word = argv[position]
        if len(word) < 2 or word[0] != "-":
            break
        position += 1
        if word == "--":
            break
        name, has_value, value = _name_and_value(word)
        flag = _FLAGS.get(name)
        if flag is None:
            raise UsageError(f"flag provided but not defined: -{name}")
        if not has_value and flag.kind is bool:
            value = "true"
        elif not has_value:
            if position == len(argv):
                raise UsageError(f"flag needs an argument: -{name}")
            value = argv[position]
            position += 1
        given[flag.field] = _converted(flag, name, value)
    return given, argv[position:]


def _name_and_value(word: str) -> tuple[str, bool, str]:
    bare = word[2:] if word.startswith("--") else word[1:]
    if not bare or bare[0] in "-=":
        raise UsageError(f"bad flag syntax: {word}")
    name, equals, value = bare.partition("=")
    return name, bool(equals), value


def _converted(flag: _Flag, name: str, text: str) -> str | int | bool:
    if flag.kind is bool:
        if text not in _TRUE | _FALSE:
            raise UsageError(f"invalid boolean value {quote(text)} for -{name}: parse error")
        return text in _TRUE
    if flag.kind is int:
        return _integer(name, text)
    return text


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise UsageError(f"invalid value {quote(text)} for flag -{name}: parse error")
    digits = text.replace("_", "").lower()
    # Go takes a leading zero for octal, Python does not take it at all.
    digits = re.sub(r"^([+-]?)0(?=[0-7])", r"\g<1>0o", digits)
    number = int(digits, 0) if len(digits) <= _INTEGER_LENGTH_MAX else MAX_INT64 + 1
    if not MIN_INT64 <= number <= MAX_INT64:
        raise UsageError(f"invalid value {quote(text)} for flag -{name}: value out of range")
    return number


def _flag(names: str, field: str, kind: type = str) -> _Flag:
    return _Flag(tuple(names.split()), field, kind)


def _refused(names: str, kind: type = str, advice: str = "") -> _Flag:
    words = tuple(names.split())
    return _Flag(words, f"refused {words[0]}", kind, True, f"; {advice}" if advice else "")


_TABLE: Final = (
    # server
    _flag("a addr net", "host"),
    _flag("p port", "port", int),
    _flag("n name server_name", "server_name"),
    _flag("P pid", "pid_file"),
    _flag("m http_port", "http_port", int),
    _flag("ms https_port", "https_port", int),
    _flag("c config", "config"),
    _flag("t", "check", bool),
    _flag("sl signal", "signal"),
    _flag("client_advertise", "client_advertise"),
    _flag("ports_file_dir", "ports_file_dir"),
    # logging
    _flag("l log", "log_file"),
    _flag("log_size_limit", "log_size_limit", int),
    _flag("T logtime", "logtime", bool),
    _flag("logtime_utc", "logtime_utc", bool),
    _flag("D debug", "debug", bool),
    _flag("V trace", "trace", bool),
    _flag("VV", "trace_verbose_switch", bool),
    _flag("DV", "debug_and_trace", bool),
    _flag("DVV", "debug_and_trace_verbose", bool),
    _flag("max_traced_msg_len", "max_traced_msg_len", int),
    # streams
    _flag("js jetstream", "jetstream_enabled", bool),
    _flag("sd store_dir", "store_dir"),
    # other servers
    _flag("routes", "routes"),
    _flag("cluster cluster_listen", "cluster_listen"),
    _flag("cluster_name", "cluster_name"),
    _flag("cluster_advertise", "cluster_advertise"),
    _flag("no_advertise", "cluster_no_advertise", bool),
    _flag("connect_retries", "cluster_connect_retries", int),
    # authorization
    _flag("user", "username"),
    _flag("pass", "password"),
    _flag("auth", "token"),
    # encryption
    _flag("tls", "tls_switch", bool),
    _flag("tlsverify", "tls_verify", bool),
    _flag("tlscert", "cert_file"),
    _flag("tlskey", "key_file"),
    _flag("tlscacert", "ca_file"),
    _flag("help_tls", "help_tls", bool),
    # common
    _flag("h help", "help", bool),
    _flag("v version", "version", bool),
    # known to nats-server and refused here
    _refused("s syslog", bool, "use -l"),
    _refused("r remote_syslog", advice="use -l"),
    _refused("profile", int),
)
_FLAGS: Final = {name: flag for flag in _TABLE for name in flag.names}
_FLAGS_BY_NAME: Final = {flag.field: flag for flag in _TABLE}

HELP: Final = """\
Usage: headwater serve [options]

Server:
    -a, --addr, --net <host>         Address to listen on (default: 0.0.0.0)
    -p, --port <port>                Port for clients, -1 for any free one (default: 4222)
    -n, --name, --server_name <name> Name of this server (default: its id)
    -P, --pid <file>                 Write the process id to this file
    -m, --http_port <port>           Port for monitoring over HTTP, -1 for any free one
    -ms, --https_port <port>         Port for monitoring over HTTPS, instead of HTTP
    -c, --config <file>              Configuration file; flags win over what it says
    -t                               Check the configuration file and exit
    -sl, --signal <signal>[=<pid>]   Signal a running server: ldm, stop, quit, term, reopen, reload.
                                     <pid> is a process id or the path of a pid file
        --client_advertise <addr>    Address told to clients instead of the one listened on
        --ports_file_dir <dir>       Write the ports in use to <program>_<pid>.ports there

Logging:
    -l, --log <file>                 Log to this file instead of standard error
        --log_size_limit <bytes>     Begin a new log file at this size (default: never)
    -T, --logtime                    Time before each line (default: true)
        --logtime_utc                In UTC instead of local time
    -D, --debug                      Log debugging output
    -V, --trace                      Log the protocol
    -VV                              Log the protocol, of the system account too
    -DV                              -D and -V
    -DVV                             -D and -VV
        --max_traced_msg_len <bytes> Log so much of a payload (default: all)

Streams:
    -js, --jetstream                 Enable JetStream
    -sd, --store_dir <dir>           Directory of the store (default: headwater, in the directory
                                     for temporary files)

Other servers:
        --cluster, --cluster_listen <url> Address for other servers of the cluster
        --cluster_name <name>        Name of the cluster (default: made up, or that of the others)
        --routes <url>[,<url>]       Servers to connect to
        --cluster_advertise <addr>   Address told to other servers instead of the one listened on
        --no_advertise               Tell clients nothing of the other servers
        --connect_retries <n>        Attempts to reach a server again that is not among the routes

Authorization:
        --user <user>                User clients have to be
        --pass <password>            Its password
        --auth <token>               Token clients have to present

Encryption:
        --tls                        Clients have to use TLS
        --tlscert <file>             Certificate of this server
        --tlskey <file>              Its private key
        --tlsverify                  Require certificates of clients
        --tlscacert <file>           Authorities that sign them (default: those of the system)
        --help_tls                   The section `tls` of a configuration file

Other:
    -h, --help                       This text
    -v, --version                    The versions of nats-server's protocol and of Headwater

A switch is turned off with =false: -T=false. One dash or two, a space or an equals sign before
the value: all the same.

Not supported: -s/--syslog, -r/--remote_syslog, --profile.
"""

HELP_TLS: Final = """\
TLS is configured in the section `tls` of a configuration file:

    tls {
        cert_file: "./certs/server-cert.pem"
        key_file:  "./certs/server-key.pem"
        ca_file:   "./certs/ca.pem"  # authorities that sign the certificates of clients
        verify:    true              # require a certificate of every client
        # verify_and_map: true       # the certificate also names the user
        # handshake_first: true      # or auto, or a time: the handshake comes before INFO
        # min_version: "1.3"
        # timeout: 2s                # for a handshake
        # cipher_suites: ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
        # curve_preferences: ["X25519"]
        # pinned_certs: ["<sha-256 of a client's public key>"]
    }
    # allow_non_tls: true            # clients may go on without TLS
"""
