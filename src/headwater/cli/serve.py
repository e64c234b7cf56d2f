"""`headwater serve`: hands over to the server, which reads nats-server's flags with its own parser.

Must not import click, rich or nats: the time from exec to "Server is ready" is a promise.
"""

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Serve until stopped; the exit code is the server's."""
    from headwater.server.main import main as serve

    return serve(list(argv))
