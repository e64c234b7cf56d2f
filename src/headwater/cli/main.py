"""The entry point of the `headwater` command.

It looks at the first word only. `serve` goes straight to the server, because a server that loads
a command-line toolkit, a terminal renderer and a client library first is a server that starts
late; every other word loads them here and not earlier.
"""

import sys
from collections.abc import Sequence
from typing import Final

from headwater.cli.shell.versions import version_line

# `pip install headwater` brings the packages of the server; these come with the extra `cli`.
OPTIONAL_PACKAGES: Final = ("click", "rich", "nats")
MISSING_PACKAGE_EXIT: Final = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(version_line())
        return 0
    if arguments[:1] == ["serve"]:
        from headwater.cli.serve import main as serve

        return serve(arguments[1:])
    try:
        from headwater.cli.commands import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in OPTIONAL_PACKAGES:
            raise
        print(f"This command needs {error.name}: pip install 'headwater[cli]'", file=sys.stderr)
        return MISSING_PACKAGE_EXIT
    return run(arguments)
