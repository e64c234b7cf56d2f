"""Idle connections with many subscriptions, none of which the measured traffic matches."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.processes import Line, child, report, wait_for_parent
from benchmarks.servers import Server
from benchmarks.wire import dial, subscribe

FILES_BESIDES_SOCKETS: Final = 64


def raise_file_limit(files: int) -> None:
    """Allow this process and its children `files` open files, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files + FILES_BESIDES_SOCKETS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def gathered(server: Server, connections: int, subscriptions: int) -> Iterator[None]:
    """`connections` clients that hold `subscriptions` subscriptions together, for a block."""
    with child(hold, server.port, connections, subscriptions // connections) as holder:
        report(holder)
        yield


def hold(parent: Line, port: int, connections: int, subscriptions_each: int) -> None:
    """The crowd's process: reports when the server has all subscriptions, then stays."""
    raise_file_limit(connections)
    with ExitStack() as stack:
        for number in range(connections):
            # The first word is that of the measured subjects, so that the crowd is in the way.
            subjects = tuple(f"few.{number}.{each}" for each in range(subscriptions_each))
            connection: socket.socket = dial(port, subscribe(subjects))
            stack.enter_context(connection)
        parent.send("gathered")
        wait_for_parent(parent)
