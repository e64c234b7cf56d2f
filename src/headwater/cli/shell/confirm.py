"""Asking before something is lost.

Without a terminal nobody can be asked, and nothing is lost: the command is refused with the flag
that would have let it.
"""

import sys

import click

from headwater.cli.shell.exits import CommandFailed, ExitCode


def confirmed(question: str, is_forced: bool) -> bool:
    """Whether to go on. Raises CommandFailed where nobody can be asked."""
    if is_forced:
        return True
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"There is no terminal to ask at: {question}",
            "Nothing was changed. Say yes beforehand with --force.",
            ExitCode.USAGE,
        )
    return click.confirm(question, default=False, err=True)
