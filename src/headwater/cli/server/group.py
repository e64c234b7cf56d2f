"""`headwater server`: tools for operators of a server, which need no connection."""

import json
import secrets
import sys
from typing import Final

import bcrypt
import click

from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import TeachingCommand

DEFAULT_COST: Final = 11
# bcrypt's own bounds. Each step doubles the time of a login.
COST_MIN: Final = 4
COST_MAX: Final = 31
# bcrypt ignores the bytes that follow.
PASSWORD_BYTES_MAX: Final = 72
GENERATED_BYTES: Final = 24
# The only prefix by which nats-server knows a hash from a password.
HASH_PREFIX: Final = b"2a"


@click.group("server")
def server() -> None:
    """Prepare values for the configuration of a server."""


@server.command(
    "passwd",
    cls=TeachingCommand,
    examples="""
headwater server passwd                                asks for the password twice
headwater server passwd --generate                     makes one up and shows it
headwater server passwd < password.txt > hash.txt      the first line of a file
headwater server passwd --generate --json | jq -r .hash
""",
)
@click.option("--generate", is_flag=True, help="Make up a password, and show it.")
@click.option(
    "--cost",
    type=click.IntRange(COST_MIN, COST_MAX),
    default=DEFAULT_COST,
    help=f"Each step doubles the work of a login.  [default {DEFAULT_COST}]",
)
@click.option("--json", "as_json", is_flag=True, help="In JSON.")
def passwd(generate: bool, cost: int, as_json: bool) -> ExitCode:
    """Turn a password into the bcrypt hash that a configuration keeps in its place.

    The hash goes to standard output and into `password: "$2a$..."` of a user; clients go on to
    send the password itself. A password that was made up goes to standard error.
    """
    output = Output()
    password = secrets.token_urlsafe(GENERATED_BYTES) if generate else password_from_person()
    text = hash_of(password, cost)
    if as_json:
        fields = {"hash": text} | ({"password": password} if generate else {})
        output.result(json.dumps(fields))
        return ExitCode.OK
    if generate:
        output.remark(f"Password: {password}")
    output.result(text)
    return ExitCode.OK


def password_from_person() -> str:
    """The password that is typed twice at a terminal, or the first line of standard input."""
    if sys.stdin.isatty():
        typed: str = click.prompt(
            "Password", hide_input=True, confirmation_prompt="The same again", err=True
        )
        return typed
    line = sys.stdin.buffer.readline().rstrip(b"\r\n")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise CommandFailed(
            "The password is not UTF-8, as a configuration file has to be", code=ExitCode.USAGE
        ) from error


def hash_of(password: str, cost: int) -> str:
    """The bcrypt hash of a password. Raises CommandFailed for one that bcrypt cannot take."""
    data = password.encode()
    if not data:
        raise CommandFailed("The password is empty", "Type one, or use --generate.", ExitCode.USAGE)
    if len(data) > PASSWORD_BYTES_MAX or b"\0" in data:
        raise CommandFailed(
            f"The password has {len(data)} bytes; bcrypt takes {PASSWORD_BYTES_MAX}, and no NUL",
            "Choose a shorter one, or use --generate.",
            ExitCode.USAGE,
        )
    return bcrypt.hashpw(data, bcrypt.gensalt(cost, HASH_PREFIX)).decode()
