"""Connections of commands: TLS or nothing, each way to log in, and no secret in any output."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import pytest
from nats.aio.client import Client

from headwater.cli.commands import headwater, run
from headwater.cli.connection.login_client import LoginClient
from headwater.cli.connection.session import Session
from headwater.cli.connection.target import Target
from headwater.cli.pipeline.checks import server_checks
from headwater.cli.shell.exits import CommandFailed
from headwater.cli.streams.archive import BEGINNINGS, DATA_FILE, META_FILE
from headwater.client.link.connection import Connection
from headwater.client.link.login import Login
from headwater.wire.credentials.nkeys import KeyPair
from tests.kit.command_line import (
    ENVIRONMENT,
    PATIENCE_S,
    SERVER_COMMANDS,
    Ended,
    Tool,
    serving,
)
from tests.kit.credentials import Authority, OperatorTree, user_seed
from tests.kit.link_peers import WAIT_S_MAX, ScriptedPeer, running, settle, url_of
from tests.kit.server_process import ORACLE, ServerProcess

SECRET = "hunter2"
SEED = user_seed()
# A server that asks for everything a client may show, and offers no TLS.
PLAIN_INFO = (
    b'INFO {"server_id":"x","version":"2.15.1","headers":true,"max_payload":1048576,'
    b'"auth_required":true,"nonce":"bm9uY2U"}\r\n'
)
NEVER = "\x00 is in no frame"
# The jobs of the pipeline connect by a link of their own, which has tests of its own.
OTHER_CLIENTS = ("pipeline",)
CLEAN_ENVIRONMENT = """
import sys
for package in ("nkeys", "nacl", "aiohttp", "pyspark", "pyarrow", "pandas"):
    sys.modules[package] = None
from headwater.cli.main import main
sys.exit(main(sys.argv[1:]))
"""

Command = Callable[..., Ended]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process, with no settings but those given to it."""
    for name in ("URL", "USER", "PASSWORD", "TOKEN", "CREDS", "NKEY", "CA", "CERT", "KEY"):
        monkeypatch.delenv(f"NATS_{name}", raising=False)

    def called(*arguments: str) -> Ended:
        code = run(arguments)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return called


# --- TLS or nothing -----------------------------------------------------------------------------


def connecting_commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands that take a server, by the words they are called by."""

    def walk(
        group: click.Group, words: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            if isinstance(found, click.Group):
                yield from walk(found, (*words, name))
            elif found is not None and "server" in [each.name for each in found.params]:
                yield (*words, name), found

    for words, found in walk(headwater, ()):
        if words[0] not in OTHER_CLIENTS:
            yield words, found


CONNECTING = dict(connecting_commands())
# A command that is not named here is called with the word S for each argument it requires.
CALLS: Mapping[tuple[str, ...], str] = {
    ("pub",): "S body",
    ("request",): "S body",
    ("reply",): "S body",
    ("stream", "add"): "S --subjects s",
    ("stream", "edit"): "S --description text",
    ("stream", "rm"): "S --force",
    ("stream", "purge"): "S --force",
    ("stream", "get"): "S 1",
    ("stream", "backup"): "S {tmp_path}/new",
    ("stream", "restore"): "{tmp_path}/backup",
    ("consumer", "add"): "S C",
    ("consumer", "edit"): "S C --description text",
    ("consumer", "rm"): "S C --force",
    ("consumer", "pause"): "S C 1h",
    ("cluster", "scale"): "S 3",
    ("cluster", "move"): "S --tag t",
    ("cluster", "step-down"): "S",
}


def call_of(words: tuple[str, ...], tmp_path: Path) -> list[str]:
    """A command with arguments good enough for it to connect."""
    required = [each for each in CONNECTING[words].params if each.required]
    arguments = CALLS.get(words, " ".join("S" for _ in required))
    backup = tmp_path / "backup"
    backup.mkdir()
    (backup / META_FILE).write_text('{"config": {"name": "S"}, "state": {}}')
    (backup / DATA_FILE).write_bytes(BEGINNINGS[0] + b"\x01\x05\x00\x00\x00\x00\x00\x00x")
    return [*words, *arguments.format(tmp_path=tmp_path).split()]


def test_the_commands_that_connect_are_found() -> None:
    assert {("pub",), ("stream", "ls"), ("consumer", "next"), ("account", "info")} <= {*CONNECTING}
    assert set(CALLS) <= set(CONNECTING)


@pytest.mark.parametrize("words", CONNECTING, ids=" ".join)
def test_no_command_says_a_word_to_a_server_that_does_not_offer_the_tls_asked_for(
    words: tuple[str, ...], command: Command, tmp_path: Path
) -> None:
    with ScriptedPeer(PLAIN_INFO, NEVER) as peer:
        server = f"tls://app:{SECRET}@127.0.0.1:{peer.port}"
        ended = command(*call_of(words, tmp_path), "--server", server)
    assert (peer.visits, peer.heard) == (1, b"")
    assert ended.code == 3
    assert f"Error: tls://127.0.0.1:{peer.port} does not offer TLS; " in ended.err
    assert SECRET not in ended.out + ended.err


@pytest.mark.parametrize(
    "options",
    [
        ("--user", "app", "--password", SECRET),
        ("--token", SECRET),
        ("--nkey", "{seed_file}"),
        ("--creds", "{creds_file}"),
    ],
    ids=lambda options: str(options[0]),
)
@pytest.mark.parametrize(
    ("url", "tls"),
    [
        ("TLS://127.0.0.1:{port}", ()),
        ("127.0.0.1:{port}", ("--tls",)),
        ("nats://127.0.0.1:{port}", ("--tlsca", "{authority}")),
        # A list is asked for TLS as a whole: a client may end up at any of its servers.
        ("nats://127.0.0.1:{port},tls://127.0.0.1:{port}", ()),
    ],
)
def test_no_way_to_log_in_is_tried_without_the_tls_asked_for(
    options: tuple[str, ...], url: str, tls: tuple[str, ...], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "seed").write_text(SEED)
    (tmp_path / "creds").write_text(OperatorTree.grow().creds())
    with ScriptedPeer(PLAIN_INFO, NEVER) as peer:
        places = {
            "port": str(peer.port),
            "seed_file": str(tmp_path / "seed"),
            "creds_file": str(tmp_path / "creds"),
            "authority": Authority(tmp_path).path,
        }
        words = [word.format(**places) for word in ("--server", url, *tls, *options)]
        ended = command("pub", "a", "x", *words)
    assert (peer.visits, peer.heard) == (1, b"")
    assert (ended.code, "does not offer TLS" in ended.err) == (3, True)


def test_a_connection_that_comes_back_without_tls_is_refused(tmp_path: Path) -> None:
    """Neither credentials nor waiting messages go to another program that took the port."""
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    config = (
        f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n'
        f"authorization {{ user: app, password: {SECRET} }}"
    )
    with running(ORACLE, tmp_path / "server", config) as server:
        url = f"tls://app:{SECRET}@127.0.0.1:{server.port}"
        with Connection(Login(url, tls_ca=authority.path)) as witness:
            witness.subscribe("news")
            settle(witness)
            with Tool(url).start(
                "pub", "news", "x", "--count", "100000", "--sleep", "5ms", "--tlsca", authority.path
            ) as pub:
                assert len(witness.receive(WAIT_S_MAX))
                server.stop()
                with ScriptedPeer(PLAIN_INFO, NEVER, port=server.port) as peer:
                    ended = pub.end()
    assert peer.visits > 0
    assert peer.heard == b""
    assert ended.code == 3
    assert f"Error: tls://127.0.0.1:{server.port} does not offer TLS; " in ended.err


@pytest.mark.parametrize("scheme", ["tls", "nats"])
def test_an_offer_of_tls_is_taken_by_those_who_ask_for_it(scheme: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    config = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\nallow_non_tls: true\n'

    async def is_encrypted(url: str, authority_path: str | None) -> bool:
        target = Target((url,), WAIT_S_MAX, tls_ca_path=authority_path)
        async with Session(target, print) as session:
            await session.flush()
            return session.client._is_encrypted()

    with running(ORACLE, tmp_path / "server", config) as server:
        url = f"{scheme}://127.0.0.1:{server.port}"
        assert asyncio.run(is_encrypted(url, authority.path))
        if scheme == "nats":
            assert not asyncio.run(is_encrypted(url, None))


def test_a_nats_py_that_cannot_be_held_to_tls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Client, "_connect_command")
    with pytest.raises(CommandFailed, match="cannot be held to TLS: it lacks _connect_command"):
        LoginClient(Login())


# --- certificates -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Certificates of an authority that the server trusts, and of a stranger."""
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    paths = {"ca": authority.path, "stranger_ca": stranger.path}
    for name, signer in (("server", authority), ("client", authority), ("other", stranger)):
        paths[f"{name}_cert"], paths[f"{name}_key"] = signer.issue(name)
    return paths


@pytest.fixture(scope="module")
def verifying(
    certificates: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server that wants the certificates of its clients."""
    config = (
        'tls {{ cert_file: "{server_cert}", key_file: "{server_key}", '
        'ca_file: "{ca}", verify: true }}'
    ).format(**certificates)
    with running(ORACLE, tmp_path_factory.mktemp("verifying"), config) as server:
        yield server


GOOD_TLS = "--tlsca {ca} --tlscert {client_cert} --tlskey {client_key}"


@pytest.mark.parametrize("scheme", ["tls", "nats"])
def test_the_options_of_tls_are_taken_before_and_after_the_command(
    scheme: str, verifying: ServerProcess, certificates: Mapping[str, str], command: Command
) -> None:
    options = ["-s", f"{scheme}://localhost:{verifying.port}"]
    options += GOOD_TLS.format(**certificates).split()
    assert command("pub", "a", "x", *options).code == 0
    assert command(*options, "pub", "a", "x").code == 0


def test_the_options_of_tls_are_taken_from_the_environment(
    verifying: ServerProcess,
    certificates: Mapping[str, str],
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NATS_URL", f"tls://127.0.0.1:{verifying.port}")
    monkeypatch.setenv("NATS_CA", certificates["ca"])
    monkeypatch.setenv("NATS_CERT", certificates["client_cert"])
    monkeypatch.setenv("NATS_KEY", certificates["client_key"])
    assert command("pub", "a", "x").code == 0


@pytest.mark.parametrize(
    ("options", "problem", "advice"),
    [
        ("--tlscert {client_cert} --tlskey {client_key}", "is not trusted: ", "--tlsca FILE"),
        ("--tlsca {stranger_ca}", "wants the certificate of its clients", "--tlscert FILE"),
        (
            "--tlsca {stranger_ca} --tlscert {client_cert} --tlskey {client_key}",
            "is not trusted: ",
            "--tlsca FILE",
        ),
        ("--tlsca {ca}", "wants the certificate of its clients", "--tlscert FILE"),
    ],
)
def test_a_failure_of_tls_names_the_option_that_helps(
    options: str,
    problem: str,
    advice: str,
    verifying: ServerProcess,
    certificates: Mapping[str, str],
    command: Command,
) -> None:
    url = f"tls://127.0.0.1:{verifying.port}"
    ended = command("pub", "a", "x", "-s", url, *options.format(**certificates).split())
    assert ended.code == 3
    assert ended.err.startswith(f"Error: {url} ")
    assert problem in ended.err
    assert advice in ended.err
    assert "headwater serve" not in ended.err


def test_a_certificate_that_the_server_does_not_trust_ends_the_command(
    verifying: ServerProcess, certificates: Mapping[str, str], command: Command
) -> None:
    """The network decides whether the alert or the end of the connection is seen first."""
    options = "--tlsca {ca} --tlscert {other_cert} --tlskey {other_key}".format(**certificates)
    url = f"tls://127.0.0.1:{verifying.port}"
    ended = command("pub", "a", "x", "-s", url, *options.split())
    assert ended.code == 3
    assert ended.err.startswith(f"Error: {url} ")
    assert "--tlscert FILE" in ended.err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--tlsca none.pem", "--tlsca: cannot read 'none.pem': No such file"),
        ("--tlskey {client_key}", "--tlskey: there is no certificate to it"),
        ("--tlscert {client_cert} --tlskey {other_key}", "--tlskey: the key does not belong"),
        ("--creds none.creds", "--creds: cannot read 'none.creds': No such file"),
        ("--nkey {client_cert}", "--nkey: there is no seed"),
        ("--password x", "--password: there is no user to it"),
        ("--connect-timeout 0", "--connect-timeout: must be more than 0"),
        ("--server ,", "--server: names no server"),
        ("--server http://a", "--server: the scheme must be nats:// or tls://"),
        ("--server nats://a:hunter2", "--server: wants host or host:port"),
    ],
)
def test_an_option_that_cannot_be_right_is_exit_2_without_a_connection(
    options: str, complaint: str, certificates: Mapping[str, str], command: Command
) -> None:
    ended = command("pub", "a", "x", *options.format(**certificates).split())
    assert ended.code == 2
    assert complaint in ended.err
    assert SECRET not in ended.err


# --- logging in ---------------------------------------------------------------------------------


def run_clean(*arguments: str) -> Ended:
    """Run a command where only the packages of the extra `cli` are."""
    done = subprocess.run(
        [sys.executable, "-c", CLEAN_ENVIRONMENT, *arguments],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_an_nkey_logs_in_with_the_packages_of_the_command_line_alone(tmp_path: Path) -> None:
    (tmp_path / "user.nk").write_text(f"# a comment\n{SEED}\n")
    config = f"authorization {{ users: [ {{nkey: {KeyPair.from_seed(SEED).public}}} ] }}"
    with running(ORACLE, tmp_path / "server", config) as server:
        arguments = ("pub", "a", "x", "-s", url_of(server), "--nkey")
        good = run_clean(*arguments, str(tmp_path / "user.nk"))
        other = user_seed(b"x" * 32)
        wrong = run_clean(*arguments, other)
    assert (good.code, good.err) == (0, "")
    assert wrong.code == 3
    assert "refused the credentials" in wrong.err
    assert other not in wrong.err


def test_a_creds_file_logs_in_with_the_packages_of_the_command_line_alone(tmp_path: Path) -> None:
    tree = OperatorTree.grow()
    (tmp_path / "good.creds").write_text(tree.creds())
    (tmp_path / "wrong.creds").write_text(tree.creds(signing_seed=SEED))
    config = f"jetstream {{ store_dir: store }}\n{tree.server_config}"
    with running(ORACLE, tmp_path / "server", config) as server:
        arguments = ("account", "info", "--json", "-s", url_of(server), "--creds")
        good = run_clean(*arguments, str(tmp_path / "good.creds"))
        wrong = run_clean(*arguments, str(tmp_path / "wrong.creds"))
    assert (good.code, good.err) == (0, "")
    assert json.loads(good.out)["streams"] == 0
    assert wrong.code == 3
    assert "refused the credentials" in json.loads(wrong.err)["error"]


def test_an_nkey_is_not_silently_left_out_for_a_server_that_knows_none(
    start_server: Callable[..., str], command: Command
) -> None:
    url = start_server("--user", "app", "--pass", SECRET)
    ended = command("pub", "a", "x", "-s", url, "--nkey", SEED)
    assert ended.code == 3
    assert f"Error: {url} does not know nkeys" in ended.err
    assert SEED not in ended.err


def test_credentials_in_a_url_are_percent_encoded_and_give_way_to_options(
    start_server: Callable[..., str], command: Command
) -> None:
    host = start_server("--user", "app", "--pass", "p@ss/word").removeprefix("nats://")
    good, wrong = f"nats://app:p%40ss%2Fword@{host}", f"nats://app:{SECRET}@{host}"
    assert command("pub", "a", "x", "-s", good).code == 0
    assert command("pub", "a", "x", "-s", wrong).code == 3
    options = ("--user", "app", "--password", "p@ss/word")
    assert command("pub", "a", "x", "-s", wrong, *options).code == 0


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    ("credentials", "options"),
    [
        (f"app:{SECRET}@", ()),
        (f"{SECRET}@", ()),
        ("", ("--user", "app", "--password", SECRET)),
        ("", ("--token", SECRET)),
    ],
    ids=["password in the url", "token in the url", "password", "token"],
)
def test_a_refusal_shows_the_server_and_no_secret(
    credentials: str,
    options: tuple[str, ...],
    form: tuple[str, ...],
    auth_server: str,
    command: Command,
) -> None:
    url = auth_server.replace("://", f"://{credentials}")
    ended = command("pub", "a", "x", "-s", url, *options, *form)
    assert ended.code == 3
    assert f"{auth_server} refused the credentials" in ended.err
    assert SECRET not in ended.out + ended.err


@pytest.fixture(scope="module", params=SERVER_COMMANDS)
def auth_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that lets in somebody else."""
    with serving(request.param, "--user", "ada", "--pass", "pw") as url:
        yield url


def test_no_secret_shows_in_a_target_or_in_its_text() -> None:
    urls = (f"nats://app:{SECRET}@a", f"{SECRET}@b", f"tls://app:{SECRET}@p@c:1")
    target = Target(urls, 1.0, password=SECRET, token=SECRET, nkey_path=SEED)
    assert SECRET not in repr(target)
    assert SEED not in repr(target)
    assert Target(urls, 1.0).text == "tls://a:4222, tls://b:4222, tls://c:1"


# --- failures of connections --------------------------------------------------------------------


def test_a_name_that_is_not_found_is_not_taken_for_a_server_that_does_not_run(
    command: Command,
) -> None:
    ended = command("pub", "a", "x", "-s", f"app:{SECRET}@no-such-host.invalid")
    assert ended.code == 3
    assert ended.err.startswith("Error: Cannot find the host of nats://no-such-host.invalid:4222: ")
    assert "headwater serve" not in ended.err
    assert SECRET not in ended.err


@pytest.mark.parametrize(
    ("host", "is_started"), [("no-such-host.invalid", False), ("127.0.0.1:1", True)]
)
def test_a_job_is_told_to_start_a_server_only_where_one_could_run(
    host: str, is_started: bool
) -> None:
    (check,) = server_checks(Login(f"tls://app:{SECRET}@{host}"), [])
    assert check.failure is not None
    assert check.failure.code == 3
    assert ("headwater serve" in check.failure.advice) is is_started
    assert SECRET not in check.failure.problem + check.failure.advice + check.what


def test_a_server_in_the_list_that_does_not_run_says_more_than_a_name_that_is_not_found(
    command: Command,
) -> None:
    ended = command("pub", "a", "x", "-s", "no-such-host.invalid,127.0.0.1:1")
    assert ended.code == 3
    assert "127.0.0.1:1: is a server running?\nStart one with: headwater serve\n" in ended.err


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ((PLAIN_INFO, "PING"), "{url} closed the connection"),
        (
            (PLAIN_INFO, "PING", b"-ERR 'maximum connections exceeded'\r\n"),
            "{url} refused the connection: maximum connections exceeded",
        ),
        ((b"SSH-2.0-OpenSSH\r\n", NEVER), "Cannot connect to {url}: empty response"),
    ],
    ids=["closes", "refuses", "speaks something else"],
)
def test_a_server_that_takes_no_connection_is_exit_3_with_its_reason(
    steps: tuple[bytes | str, ...], problem: str, command: Command
) -> None:
    with ScriptedPeer(*steps) as peer:
        ended = command("pub", "a", "x", "-s", peer.url)
    assert ended.code == 3
    assert ended.err.startswith(f"Error: {problem.format(url=peer.url)}")
