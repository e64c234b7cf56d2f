"""The options of a command that say which server, as whom and how secured.

They may stand before the command or after it; after it wins. Only those before it read the
environment, so that an explicit option is never overruled by a variable.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from headwater.cli.connection.failures import login_failure
from headwater.cli.connection.target import Target
from headwater.cli.shell.parameters import CONNECTION_PARAMETERS, Duration
from headwater.client.link.login import LoginError
from headwater.client.link.server_urls import DEFAULT_URL

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_CONNECT_TIMEOUT_S: Final = 2.0


def tls_options(variable: Callable[[str], str | None]) -> list[Callable[[F], F]]:
    """The options that say how the connection is secured; `variable` is None for no variable."""
    return [
        click.option(
            "--tls",
            is_flag=True,
            default=None,
            help="Refuse a connection without TLS, as tls:// in --server does.",
        ),
        click.option(
            "--tlsca",
            "--tls-ca",
            "tls_ca",
            metavar="FILE",
            envvar=variable("NATS_CA"),
            help="Trust these authorities only (PEM).  [env NATS_CA]",
        ),
        click.option(
            "--tlscert",
            "--tls-cert",
            "tls_cert",
            metavar="FILE",
            envvar=variable("NATS_CERT"),
            help="Certificate to show to the server (PEM).  [env NATS_CERT]",
        ),
        click.option(
            "--tlskey",
            "--tls-key",
            "tls_key",
            metavar="FILE",
            envvar=variable("NATS_KEY"),
            help="Key of --tlscert (PEM).  [env NATS_KEY]",
        ),
    ]


def connection_options(*, with_defaults: bool) -> Callable[[F], F]:
    """The options that say which server and as whom.

    On the group they carry defaults and environment variables; on a command neither, so that
    `None` there means "as given before the command".
    """

    def variable(name: str) -> str | None:
        return name if with_defaults else None

    options: list[Callable[[F], F]] = [
        click.option(
            "--server",
            "-s",
            "server",
            metavar="URL",
            envvar=variable("NATS_URL"),
            default=DEFAULT_URL if with_defaults else None,
            help=f"Server, or several with commas.  [env NATS_URL; default {DEFAULT_URL}]",
        ),
        click.option("--user", envvar=variable("NATS_USER"), help="User name.  [env NATS_USER]"),
        click.option(
            "--password", envvar=variable("NATS_PASSWORD"), help="Password.  [env NATS_PASSWORD]"
        ),
        click.option("--token", envvar=variable("NATS_TOKEN"), help="Token.  [env NATS_TOKEN]"),
        click.option(
            "--creds",
            metavar="FILE",
            envvar=variable("NATS_CREDS"),
            help="Credentials file.  [env NATS_CREDS]",
        ),
        click.option(
            "--nkey",
            metavar="FILE",
            envvar=variable("NATS_NKEY"),
            help="File with an nkey seed.  [env NATS_NKEY]",
        ),
        *tls_options(variable),
        click.option(
            "--connect-timeout",
            type=Duration(),
            default=DEFAULT_CONNECT_TIMEOUT_S if with_defaults else None,
            help=f"Longest wait for a connection.  [default {DEFAULT_CONNECT_TIMEOUT_S:g}s]",
        ),
    ]

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def target_of(before: dict[str, Any], after: dict[str, Any]) -> Target:
    """The target from the options before the command and those after it.

    Raises CommandFailed for what cannot be right whatever the servers say.
    """
    given = {
        name: before[name] if after.get(name) is None else after[name]
        for name in CONNECTION_PARAMETERS
    }
    servers = tuple(url.strip() for url in given["server"].split(",") if url.strip())
    target = Target(
        servers=servers,
        connect_timeout_s=given["connect_timeout"],
        user=given["user"],
        password=given["password"],
        token=given["token"],
        credentials_path=given["creds"],
        nkey_path=given["nkey"],
        tls=bool(given["tls"]),
        tls_ca_path=given["tls_ca"],
        tls_cert_path=given["tls_cert"],
        tls_key_path=given["tls_key"],
    )
    try:
        target.login.check()
    except LoginError as error:
        raise login_failure(error) from None
    return target
