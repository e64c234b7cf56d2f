"""Signals, reloading and leaving: what a running server does when told to."""

import re
import signal

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session, connect_line
from tests.kit.server_process import LOOPBACK_FLAGS, ServerProcess, Setup

catalogue = Catalogue()

LISTENING = 'listen: "127.0.0.1:-1"\nhttp: "127.0.0.1:-1"\nserver_name: interop\n'
USERS = """
authorization {
  users: [
    { user: ada, password: a, permissions { publish: ">", subscribe: ">" } }
    { user: bob, password: b }
  ]
}
"""
LAME_DUCK = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "20ms"\n'

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
"""The digest of a configuration; the rule `cli.test-config.valid` is about its input."""


def reload(server: ServerProcess, config: str) -> None:
    """Put a new configuration in place and wait until the server has logged that it read it."""
    before = len(server.log)
    server.rewrite_config(config)
    server.signal(signal.SIGHUP)
    server.wait_for_log("Reloaded server configuration", before)


def logged(server: ServerProcess, after: int) -> list[Observation]:
    return [{"level": line.level, "text": line.text} for line in server.log[after:]]


@catalogue.case("lifecycle.sigterm", own_server=True)
def sigterm(session: Session) -> Observation:
    """SIGTERM closes every client without a word, and the process ends with code 0."""
    client = session.connect()
    before = len(session.server.log)
    session.server.signal(signal.SIGTERM)
    return {
        "client": client.until_closed(),
        "exit_code": session.server.wait_for_exit(),
        "last line": session.server.wait_for_log("Exiting", before).text,
        "log": logged(session.server, before),
    }


@catalogue.case("lifecycle.sigint", own_server=True)
def sigint(session: Session) -> Observation:
    """SIGINT ends the server as SIGTERM does."""
    before = len(session.server.log)
    session.server.signal(signal.SIGINT)
    code = session.server.wait_for_exit()
    session.server.wait_for_log("Exiting", before)
    return {"exit_code": code, "log": logged(session.server, before)}


@catalogue.case("lifecycle.lame-duck.info", setup=Setup(LAME_DUCK), own_server=True)
def lame_duck(session: Session) -> Observation:
    """SIGUSR2: clients of protocol 1 get an INFO with `ldm`; all are closed; the server ends."""
    new, old = session.dial(), session.connect()
    new.frame()
    new.send(connect_line(protocol=1) + "PING\r\n")
    new.take(2)
    before = len(session.server.log)
    session.server.signal(signal.SIGUSR2)
    return {
        "protocol 1": new.until_closed(),
        "protocol 0": old.until_closed(),
        "exit_code": session.server.wait_for_exit(),
        "log": logged(session.server, before)[:3],
    }


@catalogue.case("lifecycle.lame-duck.no-clients", setup=Setup(LAME_DUCK), own_server=True)
def lame_duck_without_clients(session: Session) -> Observation:
    """Without clients a lame duck waits for nothing."""
    session.server.signal(signal.SIGUSR2)
    return session.server.wait_for_exit()


@catalogue.case("lifecycle.signal-flag.stop", own_server=True)
def signal_flag_stop(session: Session) -> Observation:
    """`--signal stop=<pid>` kills the server with that pid: SIGKILL, no farewell."""
    sender = session.run("--signal", f"stop={session.server.pid}")
    return {"sender": sender, "exit_code": session.server.wait_for_exit()}


@catalogue.case(
    "lifecycle.signal-flag.by-pid-file",
    setup=Setup(flags=(*LOOPBACK_FLAGS, "-P", "server.pid")),
    own_server=True,
)
def signal_flag_by_pid_file(session: Session) -> Observation:
    """`--signal term=<file>` finds the pid in a pid file; `term` lets the server say farewell."""
    sender = session.run("-sl", "term=server.pid")
    return {"sender": sender, "exit_code": session.server.wait_for_exit()}


@catalogue.case("lifecycle.signal-flag.lame-duck", setup=Setup(LAME_DUCK), own_server=True)
def signal_flag_lame_duck(session: Session) -> Observation:
    """`--signal ldm=<pid>` is SIGUSR2."""
    sender = session.run("--signal", f"ldm={session.server.pid}")
    return {"sender": sender, "exit_code": session.server.wait_for_exit()}


@catalogue.case("lifecycle.signal-flag.reload", setup=Setup(LISTENING, ()), own_server=True)
def signal_flag_reload(session: Session) -> Observation:
    """`--signal reload=<pid>` makes it read its configuration again."""
    before = len(session.server.log)
    sender = session.run("--signal", f"reload={session.server.pid}")
    session.server.wait_for_log("Reloaded server configuration", before)
    return {"sender": sender, "info": session.dial().frame()}


@catalogue.case(
    "lifecycle.reload.user-removed", setup=Setup(LISTENING + USERS, ()), own_server=True
)
def reload_removes_user(session: Session) -> Observation:
    """A connection whose user is gone after a reload is closed, unexplained; others stay."""
    ada, bob = (session.connect(user=user, **{"pass": user[0]}) for user in ("ada", "bob"))
    bob.exchange("SUB foo 1\r\n")
    reload(session.server, LISTENING + USERS.replace("{ user: ada", "{ user: eve"))
    return {
        "ada": ada.until_closed(),
        "bob": bob.exchange("PUB foo 2\r\nhi\r\n"),
        "eve": session.handshake(user="eve", **{"pass": "a"}),
    }


@catalogue.case(
    "lifecycle.reload.password-changed", setup=Setup(LISTENING + USERS, ()), own_server=True
)
def reload_changes_password(session: Session) -> Observation:
    """A connection made with a password that no longer holds is an authorization violation."""
    bob = session.connect(user="bob", **{"pass": "b"})
    reload(session.server, LISTENING + USERS.replace("password: b", "password: c"))
    return {"bob": bob.until_closed(), "again": session.handshake(user="bob", **{"pass": "c"})}


@catalogue.case(
    "lifecycle.reload.permission-taken", setup=Setup(LISTENING + USERS, ()), own_server=True
)
def reload_takes_permission(session: Session) -> Observation:
    """A subscription no longer permitted ends with an error; the connection stays, restricted."""
    ada = session.connect(user="ada", **{"pass": "a"})
    ada.exchange("SUB foo 1\r\nSUB bar 2\r\n")
    narrowed = USERS.replace('publish: ">", subscribe: ">"', "publish: bar, subscribe: bar")
    reload(session.server, LISTENING + narrowed)
    bob = session.connect(user="bob", **{"pass": "b"})
    bob.exchange("PUB foo 1\r\nx\r\nPUB bar 1\r\ny\r\n")
    return {
        "heard": ada.exchange(),
        "publish": ada.exchange("PUB foo 1\r\nx\r\nPUB bar 1\r\ny\r\n"),
    }


@catalogue.case("lifecycle.reload.max-payload", setup=Setup(LISTENING, ()), own_server=True)
def reload_max_payload(session: Session) -> Observation:
    """A new `max_payload` holds at once for open connections, which are not told; new ones are."""
    new, old = session.dial(), session.connect()
    new.frame()
    new.send(connect_line(protocol=1) + "PING\r\n")
    new.take(2)
    reload(session.server, LISTENING + "max_payload: 50\n")
    return {
        "told, protocol 1": new.exchange(),
        "told, protocol 0": old.exchange(),
        "first info": session.dial().frame(),
        "old connection": old.until_closed("PUB foo 51\r\n"),
    }


@catalogue.case("lifecycle.reload.max-control-line", setup=Setup(LISTENING, ()), own_server=True)
def reload_max_control_line(session: Session) -> Observation:
    """A new `max_control_line` holds for connections already open."""
    client = session.connect()
    reload(session.server, LISTENING + "max_control_line: 64\n")
    return client.until_closed(f"SUB {'s' * 100} 1\r\n")


@catalogue.case("lifecycle.reload.max-connections", setup=Setup(LISTENING, ()), own_server=True)
def reload_max_connections(session: Session) -> Observation:
    """A `max_connections` below the present number closes as many as are too many."""
    clients = [session.connect() for _ in range(3)]
    reload(session.server, LISTENING + "max_connections: 2\n")
    varz = session.get_when("/varz", lambda page: page["varz"]["connections"] == 2)
    said = [client.exchange() for client in clients]
    return {"connections": varz["varz"]["connections"], "said": sorted(map(str, said))}


@catalogue.case("lifecycle.reload.bad-config", setup=Setup(LISTENING, ()), own_server=True)
def reload_bad_config(session: Session) -> Observation:
    """A configuration with an error is logged and not used; the server goes on as before."""
    client = session.connect()
    before = len(session.server.log)
    session.server.rewrite_config(LISTENING + "max_payload: [nope\n")
    session.server.signal(signal.SIGHUP)
    session.server.wait_for_log("Failed to reload", before)
    return {"log": logged(session.server, before), "client": client.exchange()}


@catalogue.case("lifecycle.reload.not-supported", setup=Setup(LISTENING, ()), own_server=True)
def reload_not_supported(session: Session) -> Observation:
    """A change that needs a restart is refused by name, and nothing of the reload is used."""
    before = len(session.server.log)
    changed = LISTENING.replace("server_name: interop", "server_name: other")
    session.server.rewrite_config(changed + "max_payload: 50\n")
    session.server.signal(signal.SIGHUP)
    session.server.wait_for_log("Failed to reload", before)
    return {"log": logged(session.server, before), "info": session.dial().frame()}


@catalogue.case("lifecycle.reload.without-file", own_server=True)
def reload_without_file(session: Session) -> Observation:
    """SIGHUP to a server that was started without a configuration file is an error in its log."""
    before = len(session.server.log)
    session.server.signal(signal.SIGHUP)
    session.server.wait_for_log("reload", before)
    return {"log": logged(session.server, before), "info": session.dial().frame()}


@catalogue.case("lifecycle.reload.log-lines", setup=Setup(LISTENING + USERS, ()), own_server=True)
def reload_log_lines(session: Session) -> Observation:
    """A reload logs each thing it changed, and that it is done.

    nats-server says `accounts` at every reload, whether they changed or not (docs/divergence.md).
    """
    before = len(session.server.log)
    changed = USERS.replace("password: b", "password: c")
    reload(session.server, LISTENING + changed + "max_payload: 50\nping_max: 3\n")
    return sorted(
        f"{line.level} {DIGEST.sub('DIGEST', line.text)}"
        for line in session.server.log[before:]
        if line.text != "Reloaded: accounts"
    )


@catalogue.case(
    "lifecycle.pid-file", setup=Setup(flags=(*LOOPBACK_FLAGS, "-P", "server.pid")), own_server=True
)
def pid_file(session: Session) -> Observation:
    """The pid file holds the pid in decimal and nothing else, and stays behind."""
    path = session.directory / "server.pid"
    text = path.read_text()
    session.server.signal(signal.SIGTERM)
    session.server.wait_for_exit()
    return {"is the pid": text == str(session.server.pid), "left behind": path.exists()}


@catalogue.case(
    "lifecycle.ports-file",
    setup=Setup(flags=(*LOOPBACK_FLAGS, "--ports_file_dir", ".")),
    own_server=True,
)
def ports_file(session: Session) -> Observation:
    """The ports file lists the URLs of each kind of port as JSON, and is removed at the end."""
    server = session.server
    path = session.wait_for_file("*.ports")
    text = (
        path.read_text().replace(str(server.port), "CLIENT").replace(str(server.http_port), "HTTP")
    )
    server.signal(signal.SIGTERM)
    server.wait_for_exit()
    return {
        "name ends in pid": path.name.endswith(f"_{server.pid}.ports"),
        "text": text,
        "left behind": path.exists(),
    }


@catalogue.case("lifecycle.start-log", own_server=True)
def start_log(session: Session) -> Observation:
    """The lines of a start, in order; harnesses wait for the last two."""
    lines = [f"{line.level} {line.text}" for line in session.server.log]
    ports = {str(session.server.port): "CLIENT", str(session.server.http_port): "HTTP"}
    shown = []
    for line in lines:
        for port, name in ports.items():
            line = line.replace(f":{port}", f":{name}")
        shown.append(line)
    return [line for line in shown if "127.0.0.1" in line or "ready" in line or "Name" in line]


@catalogue.case("lifecycle.port-in-use", own_server=True)
def port_in_use(session: Session) -> Observation:
    """A second server on a port in use says so and ends with code 1."""
    done = session.run("-a", "127.0.0.1", "-p", str(session.server.port))
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    fatal = [line for line in stderr if line["level"] in ("FTL", "ERR")]
    text = str(fatal).replace(str(session.server.port), "PORT")
    return {"exit_code": done["exit_code"], "fatal": text}
