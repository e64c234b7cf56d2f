"""The `cluster` block and its flags: the words in which mistakes are reported."""

from collections.abc import Callable

from tests.interop.case import Catalogue
from tests.interop.cases.configuration import refused
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.server_process import CONFIG_FILE, Setup

catalogue = Catalogue(None)

# The rule, its statement, and the file that shows it.
FILES = {
    "not-a-map": ("A `cluster` that is no map is refused.", "cluster: 5\n"),
    "name-with-spaces": (
        "The name of a cluster has no spaces.",
        'cluster { name: "a b" }\n',
    ),
    "unknown-key": (
        "An unknown key in the `cluster` block is refused.",
        "cluster { nope: 1 }\n",
    ),
    "port-type": (
        "The port of a cluster is a number.",
        "cluster { port: many }\n",
    ),
    "listen": (
        "The `listen` of a cluster has a host and a port.",
        'cluster { listen: "abc" }\n',
    ),
    "users": (
        "Servers of a cluster share one user.",
        "cluster { authorization { users: [ { user: a, password: b } ] } }\n",
    ),
    "token": (
        "Servers of a cluster do not log in with a token.",
        "cluster { authorization { token: a } }\n",
    ),
    "route-url": (
        "A route is a URL.",
        'cluster { port: -1, routes: ["nats://x:abc"] }\n',
    ),
    "routes-type": (
        "Routes are an array.",
        'cluster { port: -1, routes: "nats://x:1" }\n',
    ),
    "responses": (
        "Permissions of a cluster have no responses.",
        "cluster { port: -1, permissions { import: a, allow_responses: true } }\n",
    ),
    "export-queue": (
        "Permissions of a cluster name no queue groups.",
        'cluster { port: -1, permissions { export: "a q" } }\n',
    ),
    "advertise-type": (
        "The advertised address of a cluster is a text.",
        "cluster { port: -1, advertise: 5 }\n",
    ),
    "write-deadline": (
        "The write deadline of a cluster is a duration.",
        'cluster { port: -1, write_deadline: "soon" }\n',
    ),
}

FLAGS = {
    "routes-alone": (
        "Routes need an address for other servers.",
        "--routes nats://127.0.0.1:1",
    ),
    "listen-port": (
        "The port in `--cluster` is a number.",
        "--cluster nats://127.0.0.1:x",
    ),
    "listen-without-port": (
        "The URL of `--cluster` has a port.",
        "--cluster nats://127.0.0.1",
    ),
    "listen-word": ("The value of `--cluster` is a URL.", "--cluster foo"),
    "listen-password": (
        "A user in `--cluster` has a password.",
        "--cluster nats://u@127.0.0.1:1",
    ),
    "jetstream-server-name": (
        "JetStream in a cluster needs the name of the server.",
        "-js --cluster nats://127.0.0.1:-1",
    ),
    "jetstream-cluster-name": (
        "JetStream in a cluster needs the name of the cluster.",
        "-js -n s --cluster nats://127.0.0.1:-1",
    ),
}

WARNINGS = {
    "duplicate-route": (
        "A route that is listed twice is a mistake to `-t`.",
        'cluster { port: 1, routes: ["nats://x:1", "nats://x:1"] }\n',
    ),
    "ping-interval": (
        "A ping interval above the limit of routes is a mistake to `-t`.",
        'cluster { port: 1, ping_interval: "5m" }\n',
    ),
    "nested-permissions": (
        "Permissions inside the authorization of a cluster are a mistake to `-t`.",
        "cluster { port: 1, authorization { user: a, permissions { import: a } } }\n",
    ),
}


def _register(rule: str, statement: str, script: Callable[[Session], Observation]) -> None:
    script.__doc__ = statement
    script.__name__ = rule.replace(".", "_").replace("-", "_")
    script.__module__ = __name__
    catalogue.case(rule)(script)


def _file_case(text: str) -> Callable[[Session], Observation]:
    return lambda session: refused(session, text)


def _flag_case(line: str) -> Callable[[Session], Observation]:
    return lambda session: session.run("-a", "127.0.0.1", "-p", "-1", *line.split())


def _check_case(text: str) -> Callable[[Session], Observation]:
    def script(session: Session) -> Observation:
        Setup(text).write(session.directory)
        return session.run("-t", "-c", CONFIG_FILE)

    return script


for _name, (_statement, _text) in FILES.items():
    _register(f"cluster.config.{_name}", _statement, _file_case(_text))
for _name, (_statement, _text) in FLAGS.items():
    _register(f"cluster.flags.{_name}", _statement, _flag_case(_text))
for _name, (_statement, _text) in WARNINGS.items():
    _register(f"cluster.check.{_name}", _statement, _check_case(_text))
