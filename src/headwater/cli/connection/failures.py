"""Why there is no connection: a text for a person, and the next thing to do.

Invariant: servers are shown as `Target.text` shows them, so no text here holds credentials.
"""

import ipaddress
import os
import socket
import ssl
from typing import Final

import nats.errors

from headwater.base.quantities import duration_text
from headwater.cli.connection.login_client import LoginRefused
from headwater.cli.connection.target import Target
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.client.link.login import LoginError
from headwater.client.link.tls import alert_of, handshake_failure

# By the names that options have in a Login.
FLAGS: Final = {
    "url": "--server",
    "connectTimeout": "--connect-timeout",
    "tlsCa": "--tlsca",
    "tlsCert": "--tlscert",
    "tlsKey": "--tlskey",
}
TLS_ADVICE: Final = {
    "tlsCa": "Name the authorities to trust with --tlsca FILE.",
    "tlsCert": "Show one that the server trusts with --tlscert FILE and --tlskey FILE.",
}
UNKNOWN_HOST_ADVICE: Final = "Is the name right, and does this machine reach a name server?"
NOT_NATS_ADVICE: Final = "Is there a NATS server at that address?"
# nats-py puts the words of a server's -ERR behind its own name, in their quotes.
SERVER_WORDS_PREFIX: Final = "nats: '"


class Unreachable(CommandFailed):
    """No server answered at the address: it may be starting, or gone for a moment."""


def login_failure(error: LoginError) -> CommandFailed:
    """An option that cannot be used, found before a connection was tried."""
    flag = FLAGS.get(error.option, f"--{error.option}")
    return CommandFailed(f"{flag}: {error.reason}", code=ExitCode.USAGE)


def not_connected(target: Target, cause: Exception) -> CommandFailed:
    """The error for a person whose connection attempt ended in `cause`."""
    refusal = (
        _refused_by_us(cause)
        or _refused_by_tls(target, cause)
        or _refused_by_the_server(target, cause)
    )
    if refusal is not None:
        return CommandFailed(*refusal, ExitCode.NOT_CONNECTED)
    problem, advice = (
        _unreachable(target, cause)
        or _closed(target, cause)
        or (f"Cannot connect to {target.text}: {reason(cause)}", NOT_NATS_ADVICE)
    )
    return Unreachable(problem, advice, ExitCode.NOT_CONNECTED)


def reason(error: Exception) -> str:
    """The text of `error` without the library's own prefix and quotes."""
    text = str(error) or type(error).__name__
    return text.removeprefix("nats: ").strip().strip("'")


def _refused_by_us(cause: Exception) -> tuple[str, str] | None:
    if not isinstance(cause, LoginRefused):
        return None
    return cause.reason.reason, TLS_ADVICE.get(cause.reason.option, "")


def _refused_by_tls(target: Target, cause: Exception) -> tuple[str, str] | None:
    if not isinstance(cause, ssl.SSLError):
        return None
    if (alert := alert_of(cause)) is not None:
        return f"{target.text} ended TLS: {alert}", TLS_ADVICE["tlsCert"]
    failure = handshake_failure(cause, target.text)
    return None if failure is None else (failure.reason, TLS_ADVICE.get(failure.option, ""))


def _refused_by_the_server(target: Target, cause: Exception) -> tuple[str, str] | None:
    if isinstance(cause, nats.errors.AuthorizationError) or "authorization" in str(cause).lower():
        advice = "Give them with --user and --password, --token, --creds or --nkey."
        return f"{target.text} refused the credentials", advice
    if str(cause).startswith(SERVER_WORDS_PREFIX):
        return f"{target.text} refused the connection: {reason(cause)}", ""
    return None


def _unreachable(target: Target, cause: Exception) -> tuple[str, str] | None:
    if isinstance(cause, TimeoutError):
        problem = f"{target.text} did not answer within {duration_text(target.connect_timeout_s)}"
        return problem, "Is the address right? Allow more time with --connect-timeout."
    if isinstance(cause, socket.gaierror):
        problem = f"Cannot find the host of {target.text}: {cause.strerror}"
        return problem, UNKNOWN_HOST_ADVICE
    if _is_refused(cause):
        is_here = any(_is_this_machine(server.host) for server in target.login.servers())
        advice = "Start one with: headwater serve" if is_here else "Is the address right?"
        return f"Cannot reach {target.text}: is a server running?", advice
    if isinstance(cause, ConnectionError | ssl.SSLError) or not isinstance(cause, OSError):
        return None
    words = os.strerror(cause.errno) if cause.errno else reason(cause)
    return f"Cannot reach {target.text}: {words}", "Is the address right?"


def _closed(target: Target, cause: Exception) -> tuple[str, str] | None:
    if not isinstance(cause, ConnectionError | ssl.SSLError):
        return None
    # A server may close the connection without saying that it is for the certificate.
    advice = TLS_ADVICE["tlsCert"] if target.tls_cert_path is not None else NOT_NATS_ADVICE
    return f"{target.text} closed the connection", advice


def _is_refused(cause: Exception) -> bool:
    # asyncio tries all addresses of a name, and gives its own error for them all no number.
    is_summary = type(cause) is OSError and cause.errno is None
    return is_summary or isinstance(cause, ConnectionRefusedError | nats.errors.NoServersError)


def _is_this_machine(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
