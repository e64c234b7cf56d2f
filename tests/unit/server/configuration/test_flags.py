"""nats-server's command line. Texts of errors were taken from version 2.15.1."""

from collections.abc import Callable, Mapping

import pytest

from headwater.base.errors import OperatingError
from headwater.server.configuration.flags import (
    HELP,
    Command,
    FlagError,
    RunServer,
    SendSignal,
    ShowHelp,
    ShowVersion,
    TestConfig,
    UsageError,
    parse_command_line,
)
from headwater.server.configuration.keys import ConfigError
from headwater.server.configuration.options import JetStreamOptions, Options, OptionsError
from headwater.server.configuration.parser import ConfParseError


def reader(files: Mapping[str, str]) -> Callable[[str], bytes]:
    def read_file(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path].encode()

    return read_file


def command(line: str, **files: str) -> Command:
    """The command of a line whose words hold no spaces; `a_conf` is the file a.conf."""
    named = {name.replace("_", "."): text for name, text in files.items()}
    return parse_command_line(line.split(), reader(named), {})


def run(line: str, **files: str) -> Options:
    found = command(line, **files)
    assert isinstance(found, RunServer)
    return found.options


@pytest.mark.parametrize("line", ["-p 4333", "-p=4333", "--p 4333", "--port 4333", "--port=4333"])
def test_one_dash_or_two_a_space_or_an_equals_sign(line: str) -> None:
    assert run(line) == Options(port=4333)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Options()),
        ("-p -1", Options(port=-1)),
        ("-p 0", Options()),
        ("-p 0x10d0", Options(port=4304)),
        ("-p 010", Options(port=8)),
        ("-p 0b11", Options(port=3)),
        ("-p 4_333", Options(port=4333)),
        ("-p 1 -p 2", Options(port=2)),
        ("-a 127.0.0.1", Options(host="127.0.0.1")),
        ("--addr ::1", Options(host="::1")),
        ("--net localhost", Options(host="localhost")),
        ("-a=", Options()),
        ("-n one", Options(server_name="one")),
        ("--name one", Options(server_name="one")),
        ("--server_name one", Options(server_name="one")),
        ("-P a.pid", Options(pid_file="a.pid")),
        ("--pid a.pid", Options(pid_file="a.pid")),
        ("-m 8222", Options(http_port=8222)),
        ("--http_port -1", Options(http_port=-1)),
        ("--client_advertise a:1", Options(client_advertise="a:1")),
        ("--ports_file_dir ports", Options(ports_file_dir="ports")),
        ("-l a.log", Options(log_file="a.log")),
        ("--log a.log --log_size_limit 5", Options(log_file="a.log", log_size_limit=5)),
        ("-T=false", Options(logtime=False)),
        ("--logtime=f", Options(logtime=False)),
        ("--logtime_utc", Options(logtime_utc=True)),
        ("-D", Options(debug=True)),
        ("--debug=1", Options(debug=True)),
        ("-V", Options(trace=True)),
        ("--trace", Options(trace=True)),
        ("-VV", Options(trace=True, trace_verbose=True)),
        ("-DV", Options(debug=True, trace=True)),
        ("-DVV", Options(debug=True, trace=True, trace_verbose=True)),
        ("-DV -D=false", Options(debug=True, trace=True)),
        ("--max_traced_msg_len 64", Options(max_traced_msg_len=64)),
        ("-js", Options(jetstream=JetStreamOptions(enabled=True))),
        ("--jetstream=true", Options(jetstream=JetStreamOptions(enabled=True))),
        ("-js=false", Options()),
        ("-sd=data", Options(jetstream=JetStreamOptions(store_dir="data"))),
        ("-js --store_dir d", Options(jetstream=JetStreamOptions(True, "d"))),
        ("--user a --pass b", Options(username="a", password="b")),
        ("--auth t=", Options(token="t=")),
        ("-p 1 --", Options(port=1)),
        ("-l --", Options(log_file="--")),
    ],
)
def test_flags_and_the_options_they_set(line: str, expected: Options) -> None:
    assert run(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-x", "flag provided but not defined: -x"),
        ("--bogus=5", "flag provided but not defined: -bogus"),
        ("-p", "flag needs an argument: -p"),
        ("--port", "flag needs an argument: -port"),
        ("-p abc", 'invalid value "abc" for flag -p: parse error'),
        ("-p=", 'invalid value "" for flag -p: parse error'),
        ("-p 09", 'invalid value "09" for flag -p: parse error'),
        (
            "--p=999999999999999999999",
            'invalid value "999999999999999999999" for flag -p: value out of range',
        ),
        ("-js=maybe", 'invalid boolean value "maybe" for -js: parse error'),
        ("---p", "bad flag syntax: ---p"),
        ("-=5", "bad flag syntax: -=5"),
        ("--=5", "bad flag syntax: --=5"),
    ],
)
def test_a_line_that_can_not_be_read(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        command(line)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-t", "must specify [-c, --config] option to check configuration file syntax"),
        ("bogus", 'unrecognized command: "bogus"'),
        ("-", 'unrecognized command: "-"'),
        ("-D=true true", 'unrecognized command: "true"'),
        ("-- -p", 'unrecognized command: "-p"'),
        ("-sl bogus", 'unknown signal "bogus"'),
        ("-sl reload=abc", "invalid pid: abc"),
        ("-sl a=b=c=d", "invalid signal parameters: [c d]"),
        ("--routes nats://a:1", "solicited routes require cluster capabilities, e.g. --cluster"),
        (
            "--cluster nats://127.0.0.1:x",
            'parse "nats://127.0.0.1:x": invalid port ":x" after host',
        ),
        ("--cluster nats://127.0.0.1", "address 127.0.0.1: missing port in address"),
        ("--cluster foo", "missing port in address"),
        ("--cluster nats://u@127.0.0.1:3", "expected cluster password to be set"),
        ("--cluster nats://h:1 --routes nats://x:y", 'error parsing route url ["nats://x:y"]'),
    ],
)
def test_a_line_that_asks_for_the_impossible(line: str, message: str) -> None:
    with pytest.raises(FlagError) as caught:
        command(line)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "line",
    [
        "-s",
        "--syslog",
        "-r udp://localhost:514",
        "--remote_syslog udp://localhost:514",
        "--profile 1",
    ],
)
def test_flags_of_nats_server_that_are_refused_by_name(line: str) -> None:
    with pytest.raises(FlagError, match=r"^flag -\w+ is not supported"):
        command(line)


@pytest.mark.parametrize("line", ["-v", "--version", "version", "VERSION", "-p 1 -v", "-v -h"])
def test_the_version(line: str) -> None:
    assert command(line) == ShowVersion()


@pytest.mark.parametrize("line", ["-h", "--help", "help", "-p 1 help"])
def test_the_help(line: str) -> None:
    assert command(line) == ShowHelp()


@pytest.mark.parametrize("name", ["-p,", "--port", "-js", "-sd", "-DV", "-sl", "--auth", "-t "])
def test_the_help_names_the_flags(name: str) -> None:
    assert name in HELP


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-sl reload", SendSignal("reload")),
        ("--signal=ldm=123", SendSignal("ldm", "123")),
        ("-sl stop=12*", SendSignal("stop", "12*")),
        ("-sl quit=a.pid", SendSignal("quit", "4711")),
    ],
)
def test_signals(line: str, expected: SendSignal) -> None:
    assert command(line, a_pid="4711\n") == expected


class TestWithAFile:
    def test_flags_win(self) -> None:
        options = run("-c a.conf -p 1 -D=false", a_conf="port: 2, debug: true, trace: true")
        assert (options.port, options.debug, options.trace) == (1, False, True)

    def test_the_file_stands_where_flags_are_silent(self) -> None:
        options = run("-c a.conf -js", a_conf="store_dir: data")
        assert options.jetstream == JetStreamOptions(enabled=True, store_dir="data")

    def test_its_name_and_digest_are_kept(self) -> None:
        options = run("--config a.conf", a_conf="port: 4222")
        assert options.config_file == "a.conf"
        assert options.config_digest == (
            "sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"
        )

    def test_warnings_come_along(self) -> None:
        found = command("-c a.conf", a_conf="ping_interval: 5")
        assert isinstance(found, RunServer)
        assert found.warnings == (
            'a.conf:1:0: invalid use of field "ping_interval": '
            "ping_interval should be converted to a duration",
        )

    def test_variables_come_from_the_environment(self) -> None:
        found = parse_command_line(
            ["-c", "a.conf"], reader({"a.conf": "port: $PORT"}), {"PORT": "4333"}
        )
        assert isinstance(found, RunServer)
        assert found.options.port == 4333

    @pytest.mark.parametrize(
        ("text", "error", "message"),
        [
            ("port: x", ConfigError, "a.conf:1:0: interface conversion"),
            ("port", ConfParseError, "config is invalid (a.conf:1:4)"),
            ("no_auth_user: a", OptionsError, 'no_auth_user: "a" present, but'),
        ],
    )
    def test_its_errors_are_errors(
        self, text: str, error: type[OperatingError], message: str
    ) -> None:
        with pytest.raises(error) as caught:
            command("-c a.conf", a_conf=text)
        assert str(caught.value).startswith(message)

    def test_that_is_missing(self) -> None:
        with pytest.raises(ConfParseError) as caught:
            command("-c b.conf")
        assert str(caught.value) == "open b.conf: no such file or directory"

    def test_checked_and_found_valid(self) -> None:
        found = command("-t -c a.conf", a_conf="port: 4222")
        assert isinstance(found, TestConfig)
        assert found.message == (
            "configuration file a.conf is valid "
            "(sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e)"
        )

    def test_checked_and_warned_about_is_not_valid(self) -> None:
        with pytest.raises(ConfigError, match="should be converted to a duration"):
            command("-t -c a.conf", a_conf="ping_interval: 5")

    def test_checked_for_rules_between_options_too(self) -> None:
        # nats-server finds this only when it starts.
        with pytest.raises(OptionsError, match="cannot be higher than max_pending"):
            command("-t -c a.conf", a_conf="max_pending: 1, max_payload: 2")
